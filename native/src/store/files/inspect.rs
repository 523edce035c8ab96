//! What the directory tells about its entries: read without the lock, and without a change to anything.

use std::{collections::HashMap, ops::ControlFlow};

use foldhash::fast::RandomState;
use warmstart_core::{
    envelope::{self, Layout},
    journal::{self, Account},
    key::Key,
    metadata::Metadata,
    reason::Reason,
    recipe::Recipe,
    sketch::{self, Sketch},
};

use super::{FileStore, reason_of_read};
use crate::{
    os::retry_sharing,
    store::{Content, Entry, Proof, Totals, Verified, nearest::nearest},
};

/// So much of an entry is read at once to learn what its head says, in bytes.
const HEAD: u64 = 4096;

/// A head that is longer, in bytes, is none of ours, and no memory is taken for it.
const LONGEST_HEAD: usize = 16 << 20;

impl FileStore {
    pub(super) fn visit_entries(
        &self,
        visit: &mut dyn FnMut(Entry) -> ControlFlow<()>,
    ) -> Result<(), Reason> {
        self.check_readable()?;
        // So that the order is that of the last use. If it cannot be written down now, it is what is written down.
        let _ = self.write_uses(self.options.patience);
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
                Ok((Err(reason), facts)) if reason.is_damage() => self.discard(name, &path, &facts),
                // Somebody else's, or gone since it was listed.
                Ok(_) | Err(_) => {}
            }
        }
        Ok(len)
    }

    pub(super) fn find_nearest(&self, recipe: &Recipe) -> Result<Option<Entry>, Reason> {
        self.check_readable()?;
        let journal = self.ledger.read();
        let propose = |proposals: &mut sketch::Nearest<Key>| {
            journal::sketches(&journal).for_each(|(name, sketch)| proposals.offer(&sketch, name));
        };
        Ok(nearest(recipe, propose, |name| self.describe(*name, 0)))
    }

    /// What the head of an entry says. Nothing if it is gone.
    fn describe(&self, name: Key, used_unix_ms: u64) -> Option<Entry> {
        let disk = &*self.options.disk;
        let path = self.layout.entry(&name);
        let read = |most: u64| retry_sharing(disk, || disk.read(&path, &|facts| facts.len.min(most)));
        let (size, content) = match read(HEAD) {
            Err(error) => match reason_of_read(&error) {
                Reason::Absent => return None,
                reason => (0, Err(reason)),
            },
            Ok((_, facts)) if !facts.is_readable() => (facts.len, Err(Reason::Untrusted)),
            Ok((mut bytes, facts)) => {
                let layout = Layout::parse(&bytes, facts.len).and_then(|layout| {
                    let end = layout.metadata().end;
                    if end > LONGEST_HEAD {
                        return Err(Reason::TooLong);
                    }
                    if end > bytes.len() {
                        // It may have been replaced since: then the new one's head is not where the old one's was.
                        bytes = read(end as u64).map_err(|error| reason_of_read(&error))?.0;
                    }
                    Ok(layout)
                });
                (facts.len, layout.and_then(|layout| content_of(name, &bytes, &layout)))
            }
        };
        Some(Entry { name, size, used_unix_ms, content })
    }

    pub(super) fn prove_entries(&self, visit: &mut dyn FnMut(&Proof)) -> Result<Verified, Reason> {
        self.check_readable()?;
        let disk = &*self.options.disk;
        let mut found = Verified::default();
        let mut sketches: HashMap<Key, Sketch, RandomState> = HashMap::default();
        for name in self.names()? {
            let path = self.layout.entry(&name);
            let (size, result) = match retry_sharing(disk, || disk.read(&path, &|facts| facts.len)) {
                Err(error) => match reason_of_read(&error) {
                    // Gone since it was listed.
                    Reason::Absent => continue,
                    reason => (0, Err(reason)),
                },
                // Not ours to read: neither whole nor damaged.
                Ok((_, facts)) if !facts.is_readable() => (facts.len, Err(Reason::Untrusted)),
                Ok((bytes, facts)) => {
                    let proved = envelope::verify_with(&bytes, self.seal()).and_then(|layout| {
                        let key = bytes.get(layout.key()).unwrap_or_default();
                        if Key::digest(key) != name {
                            return Err(Reason::KeyMismatch);
                        }
                        let metadata = bytes.get(layout.metadata()).unwrap_or_default();
                        sketches.extend(Sketch::of_metadata(metadata).map(|sketch| (name, sketch)));
                        Ok(())
                    });
                    if proved.is_err_and(Reason::is_damage) {
                        self.discard(name, &path, &facts);
                    }
                    (facts.len, proved)
                }
            };
            match result {
                Ok(()) => found.whole += 1,
                Err(reason) => found.damaged += u64::from(reason.is_damage()),
            }
            visit(&Proof { name, size, result });
        }
        if self.access.to_writes().is_none()
            && let Ok(mut ledger) = self.ledger.lock(self.options.patience)
        {
            // A journal that was lost took the sketches along. Without them a miss is not explained, nothing worse.
            let _ = ledger.add_sketches(sketches);
            let _ = ledger.finish();
        }
        Ok(found)
    }
}

fn content_of(name: Key, bytes: &[u8], layout: &Layout) -> Result<Content, Reason> {
    let key = bytes.get(layout.key()).ok_or(Reason::Truncated)?;
    if Key::digest(key) != name {
        return Err(Reason::KeyMismatch);
    }
    let metadata = bytes.get(layout.metadata()).ok_or(Reason::Truncated)?;
    Ok(Content {
        key: key.to_vec(),
        metadata: Metadata::decode(metadata)?,
        payload_len: layout.payload().len() as u64,
        provenance: layout.provenance(),
        is_sealed: layout.is_sealed(),
    })
}
