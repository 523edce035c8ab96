//! The proof of every entry: each is read to its end.

use warmstart_core::{envelope, key::Key, reason::Reason};

use super::FileStore;
use crate::store::{Proof, Verified};

impl FileStore {
    pub(super) fn prove_entries(&self, visit: &mut dyn FnMut(&Proof)) -> Result<Verified, Reason> {
        self.check_readable()?;
        let mut found = Verified::default();
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
                        if Key::digest(key) == name { Ok(()) } else { Err(Reason::KeyMismatch) }
                    });
                    let is_removed =
                        proved.is_err_and(Reason::is_damage) && self.discard(name, &path, &facts);
                    Proof { is_removed, ..Proof::new(name, facts.len, proved) }
                }
            };
            found.count(&proof);
            visit(&proof);
        }
        Ok(found)
    }
}
