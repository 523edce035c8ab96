//! The proof of every entry: each is read to its end.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use warmstart_core::{envelope, key::Key, reason::Reason, sketch::Sketch};

use super::FileStore;
use crate::store::{Proof, Verified};

impl FileStore {
    pub(super) fn prove_entries(&self, visit: &mut dyn FnMut(&Proof)) -> Result<Verified, Reason> {
        self.check_readable()?;
        let mut found = Verified::default();
        let mut sketches: HashMap<Key, Sketch, RandomState> = HashMap::default();
        for name in self.names()? {
            let path = self.layout.entry(&name);
            let proof = match self.read_entry(&path) {
                // Gone since it was listed.
                Err(Reason::Absent) => continue,
                Err(reason) => Proof::new(name, 0, Err(reason)),
                Ok((_, facts)) if !facts.is_readable() => Proof::new(name, facts.len, Err(Reason::Untrusted)),
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
                    let is_removed =
                        proved.is_err_and(Reason::is_damage) && self.discard(name, &path, &facts);
                    Proof { is_removed, ..Proof::new(name, facts.len, proved) }
                }
            };
            found.count(&proof);
            visit(&proof);
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
