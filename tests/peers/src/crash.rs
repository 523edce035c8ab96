//! Measures two sides, one of which may crash: its row says so, and the benchmark goes on.

use std::{
    any::Any,
    error::Error,
    panic::{self, AssertUnwindSafe},
    path::PathBuf,
};

use crate::{
    Duels,
    duel::{Duel, Outcome},
    persistent::remove,
};

/// Jobs that two sides do one after the other.
pub(crate) struct Bout<'a> {
    pub(crate) jobs: &'a [String],
    pub(crate) medium: &'a str,
    pub(crate) ours: &'a str,
    pub(crate) peer: &'a str,
    /// The guarantees of ours that the peer lacks.
    pub(crate) leaves_out: &'a str,
    /// The files of the two sides, removed at the end.
    pub(crate) roots: [PathBuf; 2],
}

impl Bout<'_> {
    /// Returns a row for each job. `measure` pushes an outcome for each in turn; where it panics, as it does when a
    /// [process](crate::crew::Crew) dies, the jobs that have none yet have crashed.
    ///
    /// # Errors
    /// Those of `measure`, or if the roots cannot be removed.
    pub(crate) fn rows(
        &self,
        measure: impl FnOnce(&[PathBuf; 2], &mut Vec<Outcome>) -> Result<(), Box<dyn Error>>,
    ) -> Duels {
        let mut outcomes = Vec::new();
        // An unwind only drops values: stores, processes, keys.
        let done = panic::catch_unwind(AssertUnwindSafe(|| measure(&self.roots, &mut outcomes)));
        self.roots.iter().try_for_each(|root| remove(root))?;
        match done {
            Ok(done) => done?,
            Err(panic) => outcomes.resize(self.jobs.len(), Outcome::Crashed(message(&*panic))),
        }
        let row = |(job, outcome): (&String, Outcome)| {
            let leaves_out = if matches!(outcome, Outcome::Measured { .. }) { self.leaves_out } else { "" };
            Duel::with(job, self.medium, (self.ours, self.peer), leaves_out, outcome)
        };
        Ok(self.jobs.iter().zip(outcomes).map(row).collect())
    }
}

/// Returns the first line of a panic's message.
fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic without a message");
    text.lines().next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use warmstart_tests::{measure::Plan, medium::Medium};

    use super::*;
    use crate::{
        Bench,
        crew::{Crew, Task, Verb},
        in_memory,
        peer::{Kind, OURS, OURS_IN_MEMORY, PEERS_IN_MEMORY, Peer},
        persistent,
        value::{Key, Value, Values, key},
    };

    /// Hits and misses as the store behind it does, and panics at a put.
    struct Crashing(Box<dyn Peer>);

    impl Peer for Crashing {
        fn put(&self, _: &Key, _: &Value) {
            panic!("the tree lost a page\nand more");
        }

        fn get(&self, key: &Key, show: &mut dyn FnMut(&[u8])) -> bool {
            self.0.get(key, show)
        }

        fn fill(&self, entries: u64, values: &Values) {
            self.0.fill(entries, values);
        }
    }

    static CRASHING: Kind = Kind {
        name: "crashing",
        open: |path, settings| Box::new(Crashing((OURS_IN_MEMORY[0].open)(path, settings))),
        missing: None,
        leaves_out: "quota",
        no_durable: None,
        no_shared: None,
        no_cap: None,
    };

    fn bench(directory: &Path) -> Bench {
        let medium = || Medium::below(directory).unwrap();
        Bench { plan: Plan::QUICK.with_rounds(3), quick: true, quiet: medium(), disk: medium() }
    }

    fn outcomes(duels: &[Duel]) -> Vec<String> {
        let outcome = |duel: &Duel| match &duel.outcome {
            Outcome::Measured { .. } => "measured".to_owned(),
            Outcome::Missing(why) | Outcome::Crashed(why) => why.clone(),
        };
        duels.iter().map(outcome).collect()
    }

    #[test]
    fn a_peer_that_panics_is_a_row_and_the_others_go_on() {
        let directory = tempfile::tempdir().unwrap();
        let bench = bench(directory.path());
        let rows = |peer| persistent::reads_and_puts(&bench, persistent::SHAPES[0], &OURS[0], peer).unwrap();
        let crashed = rows(&CRASHING);
        assert_eq!(outcomes(&crashed), ["measured", "measured", "the tree lost a page"]);
        assert_eq!(crashed[2].job, "put/1KiB/100");
        assert_eq!(crashed.iter().map(|duel| &*duel.leaves_out).collect::<Vec<_>>(), ["quota", "quota", ""]);
        assert!(
            ["ours", "peer"].iter().all(|name| !bench.quiet.path(name).exists()),
            "what was kept is left"
        );
        assert_eq!(outcomes(&rows(&PEERS_IN_MEMORY[0])), ["measured"; 3]);
    }

    #[test]
    fn a_panic_in_one_of_several_threads_is_a_row() {
        let directory = tempfile::tempdir().unwrap();
        let bench = bench(directory.path());
        let values = Values::new(1 << 10);
        let keys: Vec<Key> = (0..100).map(key).collect();
        let row = |name| {
            let job = in_memory::Job { name, entries: 100, cap: false, threads: 2 };
            in_memory::row(&bench, (&OURS_IN_MEMORY[0], &CRASHING), job, &keys, &values).unwrap()
        };
        assert_eq!(outcomes(&row("put")), ["the tree lost a page"]);
        assert_eq!(outcomes(&row("hit")), ["measured"]);
    }

    #[test]
    #[cfg(unix)]
    fn a_process_that_dies_is_a_row_with_what_it_said() {
        let directory = tempfile::tempdir().unwrap();
        let [ours, peer] = ["ours", "peer"].map(|name| directory.path().join(name));
        let task = Task {
            kind: "script".to_owned(),
            path: peer.clone(),
            size: 1,
            durable: false,
            shared: true,
            max_bytes: None,
        };
        let script = directory.path().join("script");
        let jobs = ["hit", "put"].map(str::to_owned);
        for (dies, said) in [
            ("echo 'no such page' >&2; exit 3", "script ended, exit status: 3: no such page"),
            (
                "printf '\\nthread main panicked at peer.rs:1:2:\\nno locks\\nnote: x\\n' >&2; exit 101",
                "script ended, exit status: 101: no locks",
            ),
            ("kill -9 $$", "script ended, signal: 9 (SIGKILL)"),
        ] {
            fs::write(&script, format!("echo 0; read order; echo 7; read order; {dies}")).unwrap();
            fs::write(&peer, "").unwrap();
            let roots = [ours.clone(), peer.clone()];
            let bout = Bout { jobs: &jobs, medium: "", ours: "files", peer: "script", leaves_out: "", roots };
            let rows = bout.rows(|_, outcomes| {
                let mut crew = Crew::of_python(8, &task, Path::new("sh"), &script)?;
                for verb in [Verb::Hit, Verb::Put] {
                    let peer_ns = crew.work(verb, 0, 1).as_nanos() as f64;
                    outcomes.push(Outcome::Measured { ours_ns: 1.0, peer_ns, ratio: 1.0 });
                }
                Ok(())
            });
            assert_eq!(outcomes(&rows.unwrap()), ["measured", said]);
            assert!(!peer.exists());
        }
        fs::write(&script, "exit 4").unwrap();
        let starts = || Crew::of_python(1, &task, Path::new("sh"), &script).map(drop);
        let bout = Bout {
            jobs: &jobs,
            medium: "",
            ours: "files",
            peer: "script",
            leaves_out: "",
            roots: [ours, peer],
        };
        assert_eq!(outcomes(&bout.rows(|_, _| starts()).unwrap()), ["script ended, exit status: 4"; 2]);
    }

    #[test]
    fn an_error_that_is_no_crash_ends_the_benchmark() {
        let directory = tempfile::tempdir().unwrap();
        let roots = ["ours", "peer"].map(|name| directory.path().join(name));
        let jobs = ["hit".to_owned()];
        let bout = Bout { jobs: &jobs, medium: "", ours: "files", peer: "peer", leaves_out: "", roots };
        assert_eq!(bout.rows(|_, _| Err("no medium".into())).unwrap_err().to_string(), "no medium");
    }
}
