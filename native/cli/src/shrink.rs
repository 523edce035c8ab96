//! `warmstart prune` and `warmstart clear`: what is not wanted any more goes.

use std::io::Write;

use serde::Serialize;
use warmstart::{Limits, Reason, Store, store::Totals};

use crate::{
    Verdict,
    arguments::{Clear, Prune},
    failure::Failure,
    screen::Screen,
    store::{Access, Head, Opened, Opener},
    units::{bytes, counted},
};

#[derive(Serialize)]
struct Answer {
    #[serde(flatten)]
    head: Head,
    removed: Amount,
    left: Amount,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
struct Amount {
    entries: u64,
    bytes: u64,
}

pub(crate) fn prune(arguments: &Prune, opener: &Opener, screen: &mut Screen) -> Result<Verdict, Failure> {
    let opened = opener.open(&arguments.store, Access::Change)?;
    let limits = Limits { max_bytes: arguments.max_bytes, max_entries: arguments.max_entries };
    let removed = opened.store.prune(limits).map_err(|reason| opened.cannot("prune", reason))?;
    answer(&opened, Amount { entries: removed.entries, bytes: removed.bytes }, screen)
}

pub(crate) fn clear(arguments: &Clear, opener: &Opener, screen: &mut Screen) -> Result<Verdict, Failure> {
    let opened = opener.open(&arguments.store, Access::Change)?;
    let removed = clear_of(&*opened.store).map_err(|reason| opened.cannot("clear", reason))?;
    answer(&opened, removed, screen)
}

/// Removes every entry, and says what that was: clearing has removed all that was there, or it has failed.
fn clear_of(store: &dyn Store) -> Result<Amount, Reason> {
    let before = amount(store)?;
    store.clear()?;
    Ok(before)
}

fn amount(store: &dyn Store) -> Result<Amount, Reason> {
    let Totals { entries, bytes } = store.totals()?;
    Ok(Amount { entries, bytes })
}

fn answer(opened: &Opened, removed: Amount, screen: &mut Screen) -> Result<Verdict, Failure> {
    let left = amount(&*opened.store).map_err(|reason| opened.cannot("read", reason))?;
    opened.store.close().map_err(|reason| opened.cannot("close", reason))?;
    if screen.json {
        screen.json(&Answer { head: opened.head(), removed, left })?;
        return Ok(Verdict::Good);
    }
    let shown =
        |amount: Amount| format!("{}, {}", counted(amount.entries, "entry", "entries"), bytes(amount.bytes));
    if removed.entries == 0 {
        writeln!(screen, "nothing had to go: {}", shown(left))?;
    } else {
        writeln!(screen, "removed {}; {} left", shown(removed), shown(left))?;
    }
    Ok(Verdict::Good)
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use warmstart::{
        Artifact, Lookup,
        store::{Entry, MemoryStore, Pruned, Stored},
    };

    use super::*;

    /// Cannot evict, but can be cleared.
    #[derive(Debug)]
    struct Full(MemoryStore);

    impl Store for Full {
        fn get(&self, key: &[u8]) -> Lookup {
            self.0.get(key)
        }
        fn put(&self, key: &[u8], artifact: &Artifact) -> Result<Stored, Reason> {
            self.0.put(key, artifact)
        }
        fn remove(&self, _: &[u8]) -> Result<bool, Reason> {
            Err(Reason::NoSpace)
        }
        fn contains(&self, key: &[u8]) -> Result<bool, Reason> {
            self.0.contains(key)
        }
        fn len(&self) -> Result<u64, Reason> {
            self.0.len()
        }
        fn entries(&self, visit: &mut dyn FnMut(Entry) -> ControlFlow<()>) -> Result<(), Reason> {
            self.0.entries(visit)
        }
        fn prune(&self, _: Limits) -> Result<Pruned, Reason> {
            Err(Reason::NoSpace)
        }
        fn clear(&self) -> Result<(), Reason> {
            self.0.clear()
        }
        fn close(&self) -> Result<(), Reason> {
            self.0.close()
        }
    }

    #[test]
    fn what_clearing_removes_is_told_where_nothing_can_be_evicted() {
        let store = Full(MemoryStore::new(Limits::NONE));
        store.put(b"k", &Artifact::new(vec![0; 10])).unwrap();
        let before = amount(&store).unwrap();
        assert_eq!((before.entries, clear_of(&store)), (1, Ok(before)));
        assert_eq!(amount(&store).unwrap(), Amount { entries: 0, bytes: 0 });
    }
}
