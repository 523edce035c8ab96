//! What a cache has yet to tell its store: what it counted, and the last miss.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::{Duration, Instant},
};

use crate::os::fork::{Mutex, MutexGuard};

use warmstart_core::{artifact::Artifact, key::Key, miss::Miss, reason::Reason, statistics::Statistics};

use super::counters::Counters;
use crate::store::{Report, Store, Stored};

/// Reports are at least so far apart, unless they are asked for.
const PAUSE: Duration = Duration::from_millis(100);

/// What was reported, and what is to be.
#[derive(Debug)]
pub(super) struct Reports {
    started: Instant,
    /// When the next report is due, in milliseconds after the start.
    due_ms: AtomicU64,
    /// What the store knows of. Held while it is told more.
    reported: Mutex<Statistics>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The last miss, until the store has it.
    last_miss: Option<Miss>,
    /// The last look-up that missed, until something is stored under its key.
    looked_up: Option<(Key, Reason)>,
}

impl Reports {
    /// A look-up of a key whose fields are known missed. If its artifact is stored next, that was a miss to be kept.
    pub(super) fn looked_up(&self, key: Key, reason: Reason) {
        self.state().looked_up = Some((key, reason));
    }

    /// An artifact was stored, or refused, outside the one call.
    pub(super) fn stored(&self, key: Key, artifact: &Artifact, stored: Result<Stored, Reason>, unix_ms: u64) {
        let looked_up = self.state().looked_up.take_if(|(missed, _)| *missed == key);
        if let Some((_, reason)) = looked_up {
            self.keep(key.as_bytes(), reason, artifact, stored, unix_ms);
        }
    }

    /// An artifact was built, after a miss, and stored or refused.
    pub(super) fn built(
        &self,
        key: &[u8],
        reason: Reason,
        artifact: &Artifact,
        stored: Result<Stored, Reason>,
    ) {
        self.keep(key, reason, artifact, stored, artifact.provenance().created_unix_ms);
    }

    fn keep(
        &self,
        key: &[u8],
        reason: Reason,
        artifact: &Artifact,
        stored: Result<Stored, Reason>,
        unix_ms: u64,
    ) {
        let recipe = artifact.metadata().ok().and_then(|metadata| metadata.recipe().cloned());
        let miss = Miss { key: key.to_vec(), reason, refusal: stored.err(), recipe, unix_ms };
        self.state().last_miss = Some(miss);
    }

    /// Whether enough time has passed since the last report; the next one is due later then.
    pub(super) fn is_due(&self) -> bool {
        let now = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        let due = self.due_ms.load(Relaxed);
        let next = now.saturating_add(PAUSE.as_millis() as u64);
        // Of several threads one reports.
        due <= now && self.due_ms.compare_exchange(due, next, Relaxed, Relaxed).is_ok()
    }

    /// Hands over what the store does not know of. What it cannot keep is handed over the next time.
    pub(super) fn hand_over<S: Store>(&self, store: &S, counters: &Counters) -> Result<(), Reason> {
        let mut reported = self.reported.lock();
        let now = counters.snapshot();
        let report = Report { counted: now.since(&reported), last_miss: self.state().last_miss.take() };
        if report == Report::default() {
            return Ok(());
        }
        match store.report(&report) {
            // A store that is never changed has nothing to be told.
            Ok(()) | Err(Reason::ReadOnly) => *reported = now,
            Err(reason) => {
                let mut state = self.state();
                state.last_miss = state.last_miss.take().or(report.last_miss);
                return Err(reason);
            }
        }
        Ok(())
    }

    /// Whole between any two calls: each sets what it sets at once.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

impl Default for Reports {
    fn default() -> Self {
        Self {
            started: Instant::now(),
            due_ms: AtomicU64::new(0),
            reported: Mutex::default(),
            state: Mutex::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{convert::Infallible, sync::atomic::AtomicBool};

    use super::*;
    use crate::{
        Cache, KeyFields, Limits, Lookup,
        store::{Kept, MemoryStore},
    };

    /// A store that keeps reports only when it wants to.
    #[derive(Debug)]
    struct Moody {
        inner: MemoryStore,
        refuses: AtomicBool,
    }

    impl Store for Moody {
        fn get(&self, key: &[u8]) -> Lookup {
            self.inner.get(key)
        }
        fn put(&self, key: &[u8], artifact: &Artifact) -> Result<Stored, Reason> {
            self.inner.put(key, artifact)
        }
        fn remove(&self, key: &[u8]) -> Result<bool, Reason> {
            self.inner.remove(key)
        }
        fn contains(&self, key: &[u8]) -> Result<bool, Reason> {
            self.inner.contains(key)
        }
        fn len(&self) -> Result<u64, Reason> {
            self.inner.len()
        }
        fn clear(&self) -> Result<(), Reason> {
            self.inner.clear()
        }
        fn report(&self, report: &Report) -> Result<(), Reason> {
            if self.refuses.load(Relaxed) { Err(Reason::NoSpace) } else { self.inner.report(report) }
        }
        fn kept(&self) -> Result<Kept, Reason> {
            self.inner.kept()
        }
        fn close(&self) -> Result<(), Reason> {
            Ok(())
        }
    }

    fn moody() -> Moody {
        Moody { inner: MemoryStore::new(Limits::NONE), refuses: AtomicBool::new(false) }
    }

    fn fields(flags: &'static str) -> KeyFields<'static> {
        KeyFields::new("example", 1).text("name", "softmax").text("flags", flags)
    }

    #[test]
    fn what_the_store_could_not_keep_is_reported_later_and_everything_once() {
        let store = moody();
        let cache = Cache::new(&store);
        store.refuses.store(true, Relaxed);
        let Ok(_) = cache.get_or_build(&fields("-O2"), || Ok::<_, Infallible>(vec![1; 10]));
        assert_eq!(cache.flush(), Err(Reason::NoSpace));
        assert_eq!(store.kept(), Ok(Kept::default()));
        store.refuses.store(false, Relaxed);
        for _ in 0..3 {
            cache.flush().unwrap();
        }
        assert!(cache.get(&fields("-O2")).hit().is_some());
        let counted = cache.statistics();
        drop(cache);
        let kept = store.kept().unwrap();
        assert_eq!(kept.tally.statistics(), &counted);
        assert_eq!((counted.hits, counted.builds, counted.bytes_written), (1, 1, 10));
        assert_eq!(kept.last_miss.unwrap().recipe, Some(fields("-O2").recipe()));
    }

    #[test]
    fn reports_are_as_far_apart_as_they_may_be() {
        let reports = Reports::default();
        assert!(reports.is_due());
        assert!(!reports.is_due());
        reports.due_ms.store(0, Relaxed);
        assert!(reports.is_due());
    }

    #[test]
    fn a_miss_is_kept_once_its_artifact_was_stored_and_a_hit_is_none() {
        let store = moody();
        let cache = Cache::new(&store);
        let last = || {
            cache.flush().unwrap();
            store.kept().unwrap().last_miss
        };
        let artifact = Artifact::new(vec![1]);
        cache.put(&fields("-O1"), &artifact).unwrap();
        assert_eq!(last(), None, "nobody had looked it up");
        assert!(cache.get(&fields("-O1")).hit().is_some());
        assert!(cache.get(&fields("-O2")).miss().is_some());
        assert_eq!(last(), None, "nothing was built");
        cache.put(&fields("-O2"), &artifact).unwrap();
        let miss = last().unwrap();
        assert_eq!((miss.reason, miss.recipe), (Reason::Absent, Some(fields("-O2").recipe())));
        cache.put(&fields("-O3"), &artifact).unwrap();
        assert_eq!(last().unwrap().recipe, Some(fields("-O2").recipe()), "it was not looked up");
    }
}
