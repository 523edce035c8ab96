//! `warmstart prune` and `warmstart clear`: remove entries.

use std::{io::Write, path::Path};

use serde_json::json;
use warmstart::{Limits, MissReason, Seal, Store, store::Totals};

use crate::{
    arguments::Prune,
    failure::Failure,
    screen::Screen,
    store::{Access, Opened, open},
    units::{bytes, entries},
};

pub(crate) fn prune(arguments: &Prune, seal: Option<&Seal>, screen: &mut Screen) -> Result<bool, Failure> {
    let opened = open(&arguments.store, seal, Access::Change)?;
    let limits = Limits { max_bytes: arguments.max_bytes, max_entries: arguments.max_entries };
    let removed = opened.look("prune", |inspect| inspect.prune(limits))?;
    answer(&opened, removed, screen)
}

pub(crate) fn clear(path: &Path, seal: Option<&Seal>, screen: &mut Screen) -> Result<bool, Failure> {
    let opened = open(path, seal, Access::Change)?;
    let removed = opened.ask("clear", clear_of)?;
    answer(&opened, removed, screen)
}

/// Removes every entry and returns their totals: clearing removes all entries, or fails.
fn clear_of(store: &(dyn Store + 'static)) -> Result<Totals, MissReason> {
    let before = store.inspect().ok_or(MissReason::Unavailable)?.totals()?;
    store.clear()?;
    Ok(before)
}

fn answer(opened: &Opened, removed: Totals, screen: &mut Screen) -> Result<bool, Failure> {
    let left = opened.look("read", |inspect| inspect.totals())?;
    opened.ask("close", Store::close)?;
    let shown = |totals: Totals| format!("{}, {}", entries(totals.entries), bytes(totals.bytes));
    if screen.json {
        let amount = |totals: Totals| json!({ "entries": totals.entries, "bytes": totals.bytes });
        let answer = json!({ "removed": amount(removed), "left": amount(left) });
        screen.write_json([opened.head(), answer])?;
    } else if removed.entries == 0 {
        writeln!(screen, "nothing was removed: {}", shown(left))?;
    } else {
        writeln!(screen, "removed {}; {} left", shown(removed), shown(left))?;
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use warmstart::{
        Artifact, Miss, PersistedStats, Statistics,
        store::{Entry, Inspect, MemoryStore, Proof},
    };

    use super::*;

    /// Cannot evict, but can be cleared.
    #[derive(Debug)]
    struct Full(MemoryStore);

    impl Store for Full {
        fn get(&self, key: &[u8]) -> Result<Artifact, MissReason> {
            self.0.get(key)
        }
        fn put(&self, key: &[u8], artifact: &Artifact) -> Result<u64, MissReason> {
            self.0.put(key, artifact)
        }
        fn remove(&self, _: &[u8]) -> Result<bool, MissReason> {
            Err(MissReason::NoSpace)
        }
        fn contains(&self, key: &[u8]) -> Result<bool, MissReason> {
            self.0.contains(key)
        }
        fn clear(&self) -> Result<(), MissReason> {
            self.0.clear()
        }
        fn flush(&self) -> Result<(), MissReason> {
            self.0.flush()
        }
        fn inspect(&self) -> Option<&dyn Inspect> {
            Some(self)
        }
    }

    impl Inspect for Full {
        fn entries(&self, visit: &mut dyn FnMut(Entry) -> ControlFlow<()>) -> Result<(), MissReason> {
            self.0.entries(visit)
        }
        fn totals(&self) -> Result<Totals, MissReason> {
            self.0.totals()
        }
        fn verify(&self, visit: &mut dyn FnMut(&Proof)) -> Result<u64, MissReason> {
            self.0.verify(visit)
        }
        fn prune(&self, _: Limits) -> Result<Totals, MissReason> {
            Err(MissReason::NoSpace)
        }
        fn report(&self, counted: &Statistics, last_miss: Option<&Miss>) -> Result<(), MissReason> {
            self.0.report(counted, last_miss)
        }
        fn stats(&self) -> Result<PersistedStats, MissReason> {
            self.0.stats()
        }
    }

    #[test]
    fn what_clearing_removes_is_told_where_nothing_can_be_evicted() {
        let store = Full(MemoryStore::new(Limits::NONE));
        store.put(b"k", &Artifact::new(vec![0; 10])).unwrap();
        let before = Inspect::totals(&store).unwrap();
        assert_eq!((before.entries, clear_of(&store)), (1, Ok(before)));
        assert_eq!(Inspect::totals(&store), Ok(Totals::default()));
    }
}
