//! What the directory tells about its entries, read without the lock.

use std::{collections::HashMap, ops::ControlFlow, time::Duration};

use foldhash::fast::RandomState;
use warmstart_core::{
    envelope::Layout,
    head::{Head, MAX_HEAD_LEN},
    journal::Account,
    key::Key,
    reason::Reason,
};

use super::{FileStore, reason_of_read};
use crate::{
    os::retry_sharing,
    store::{Entry, Totals},
};

/// So much of an entry is read at once, in bytes: the whole head of most.
const FIRST: u64 = 4096;

impl FileStore {
    pub(super) fn visit_entries(
        &self,
        visit: &mut dyn FnMut(Entry) -> ControlFlow<()>,
    ) -> Result<(), Reason> {
        self.check_readable()?;
        // So that the order is that of the last use. If it cannot be written down now, it is what is written down.
        let _ = self.write_uses(Duration::ZERO);
        let known: HashMap<Key, (usize, u64), RandomState> = self
            .ledger
            .look()
            .into_iter()
            .zip(0..)
            .map(|(Account { name, used_unix_ms, .. }, place)| (name, (place, used_unix_ms)))
            .collect();
        // What nobody accounted for would be evicted last, as the newest.
        let mut entries: Vec<_> = self
            .names()?
            .into_iter()
            .map(|name| (known.get(&name).copied().unwrap_or((usize::MAX, 0)), name))
            .collect();
        entries.sort_unstable();
        for ((_, used_unix_ms), name) in entries {
            if let Some(entry) = self.describe(name, used_unix_ms)
                && visit(entry).is_break()
            {
                break;
            }
        }
        Ok(())
    }

    /// The entries are those that are there. Their sizes are those of the journal; of what it does not name, the file tells.
    pub(super) fn add_up(&self) -> Result<Totals, Reason> {
        self.check_readable()?;
        let accounts = self.ledger.look().into_iter();
        let sizes: HashMap<Key, u64, RandomState> =
            accounts.map(|Account { name, size, .. }| (name, size)).collect();
        let mut totals = Totals::default();
        for name in self.names()? {
            let size = match sizes.get(&name) {
                Some(size) => *size,
                None => match self.options.disk.facts(&self.layout.entry(&name)) {
                    Ok(facts) => facts.len,
                    // Gone since it was listed; of others, `entries` does not know the size either.
                    Err(error) if reason_of_read(&error) == Reason::Absent => continue,
                    Err(_) => 0,
                },
            };
            totals.entries += 1;
            totals.bytes = totals.bytes.saturating_add(size);
        }
        Ok(totals)
    }

    pub(super) fn count_whole(&self) -> Result<u64, Reason> {
        self.check_readable()?;
        let mut len = 0;
        for name in self.names()? {
            let path = self.layout.entry(&name);
            match self.is_whole(&path) {
                Ok((Ok(()), _)) => len += 1,
                Ok((Err(reason), facts)) if reason.is_damage() => _ = self.discard(name, &path, &facts),
                // Somebody else's, or gone since it was listed.
                Ok(_) | Err(_) => {}
            }
        }
        Ok(len)
    }

    /// What the head of an entry says. Nothing if it is gone.
    fn describe(&self, name: Key, used_unix_ms: u64) -> Option<Entry> {
        let disk = &*self.options.disk;
        let path = self.layout.entry(&name);
        let read = |most: u64| retry_sharing(disk, || disk.read(&path, &|facts| facts.len.min(most)));
        let (size, head) = match read(FIRST) {
            Err(error) => match reason_of_read(&error) {
                Reason::Absent => return None,
                reason => (0, Err(reason)),
            },
            Ok((_, facts)) if !facts.is_readable() => (facts.len, Err(Reason::Untrusted)),
            Ok((bytes, facts)) => {
                let head = Layout::parse(&bytes, facts.len).and_then(|layout| {
                    if layout.head_len() <= bytes.len() || layout.head_len() > MAX_HEAD_LEN {
                        return Head::parse(&bytes, &layout);
                    }
                    // It may have been replaced since: what is read now says itself what it is.
                    let (bytes, facts) =
                        read(layout.head_len() as u64).map_err(|error| reason_of_read(&error))?;
                    Head::parse(&bytes, &Layout::parse(&bytes, facts.len)?)
                });
                (facts.len, head)
            }
        };
        let head =
            head.and_then(
                |head| if Key::digest(&head.key) == name { Ok(head) } else { Err(Reason::KeyMismatch) },
            );
        Some(Entry { used_unix_ms, ..Entry::new(name, size, head) })
    }
}
