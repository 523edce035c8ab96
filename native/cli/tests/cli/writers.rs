//! Looking into a store while eight processes write to it.

use std::{
    env,
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use warmstart::MissReason;

use crate::support::{COMMANDS, artifact, fields, run, stores};

/// Tells a writer which store is its.
const STORE: &str = "WARMSTART_TEST_WRITER";

/// Writes until it is killed.
#[test]
#[ignore = "is started by the test below"]
fn writer() {
    let store = env::var_os(STORE).expect("the test below names a store");
    let store = Path::new(&store);
    let (store, _) = stores(store.parent().unwrap()).into_iter().find(|(_, path)| path == store).unwrap();
    for n in 0_u64.. {
        let fields = fields("softmax", "-O2").number("n", n % 300);
        let len = usize::try_from(n % 5000).unwrap();
        match store.put(fields.key().as_bytes(), &artifact(&fields, len)) {
            Ok(_) | Err(MissReason::Busy) => {}
            Err(reason) => panic!("{reason}"),
        }
    }
}

struct Writers(Vec<Child>);

impl Drop for Writers {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[test]
fn every_command_works_while_eight_processes_write() {
    let directory = tempfile::tempdir().unwrap();
    let paths: Vec<_> = stores(directory.path()).into_iter().map(|(_, path)| path).collect();
    for path in paths {
        let spawn = |_| {
            Command::new(env::current_exe().unwrap())
                .args(["--exact", "writers::writer", "--ignored", "--quiet"])
                .env(STORE, &path)
                .stdout(Stdio::null())
                .spawn()
                .unwrap()
        };
        let mut writers = Writers((0..8).map(spawn).collect());
        let begun = Instant::now();
        while run(&["ls", "--json"], &path).json()["count"].as_u64() < Some(50) {
            assert!(begun.elapsed() < Duration::from_secs(120), "the writers do not begin");
        }
        for arguments in COMMANDS {
            let ran = run(arguments, &path);
            // `inspect` and `explain` name an entry and a miss that do not exist.
            let wanted = if matches!(arguments[0], "inspect" | "explain") { 1 } else { 0 };
            assert_eq!(ran.code, Some(wanted), "{arguments:?}: {ran:?}");
        }
        assert!(writers.0.iter_mut().all(|child| child.try_wait().unwrap().is_none()), "all are alive");
    }
}
