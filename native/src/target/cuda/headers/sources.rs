//! What was read of the programs themselves, which come as texts and not as files.

use std::{collections::HashMap, hash::BuildHasher, sync::Arc};

use crate::os::fork::Mutex;

use foldhash::fast::RandomState;
use warmstart_core::includes::Scan;

use super::Read;

/// How many bytes of texts are remembered at most. Then all are forgotten, which costs reading them once more.
const MAX_BYTES: usize = 8 << 20;

/// Texts of programs, and what was read of them.
#[derive(Debug, Default)]
pub(super) struct Sources {
    hasher: RandomState,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// By a hash, which two texts may share: the last of them is known.
    texts: HashMap<u64, (Box<str>, Arc<Read>), RandomState>,
    bytes: usize,
}

impl Sources {
    /// What is read of `text`, without a digest: the text is in the key itself.
    pub(super) fn read(&self, text: &str) -> Arc<Read> {
        let hash = self.hasher.hash_one(text);
        let lock = || self.known.lock();
        if let Some((known, read)) = lock().texts.get(&hash)
            && **known == *text
        {
            return Arc::clone(read);
        }
        let read = Arc::new(Read { digest: [0; 32], size: 0, scan: Scan::of(text.as_bytes()) });
        if text.len() <= MAX_BYTES / 4 {
            let mut known = lock();
            if known.bytes + text.len() > MAX_BYTES {
                *known = Known::default();
            }
            known.bytes += text.len();
            known.texts.insert(hash, (text.into(), Arc::clone(&read)));
        }
        read
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_read_once_and_another_is_another() {
        let sources = Sources::default();
        let one = sources.read("#include <a.h>");
        assert!(Arc::ptr_eq(&one, &sources.read("#include <a.h>")));
        assert_eq!(sources.read("#include <b.h>").scan.operands[0].name, "b.h");
        assert!(Arc::ptr_eq(&one, &sources.read("#include <a.h>")));
    }

    #[test]
    fn no_more_is_remembered_than_there_is_room_for() {
        let sources = Sources::default();
        for number in 0..6 {
            let text = format!("{number}").repeat(MAX_BYTES / 4);
            drop(sources.read(&text));
            assert!(sources.known.lock().bytes <= MAX_BYTES);
        }
        drop(sources.read(&"x".repeat(MAX_BYTES)));
        assert_eq!(sources.known.lock().texts.len(), 2);
    }
}
