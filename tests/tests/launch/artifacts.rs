//! Launch records travel with their artifacts: between processes, in any store, in any order.

use std::{path::Path, process::Command};

use tempfile::TempDir;
use warmstart::{
    Cache, Limits, Store,
    memo::MissCause,
    registry::RegistryId,
    store::{FileStore, MemoryStore, SqliteStore, StoreOptions, TieredStore},
};
use warmstart_tests::launching::{COLLIDING, Data, Runtime, TASKS};

/// Compiles and launches a kernel in a process of its own. How many tasks that dispatched.
fn launch_elsewhere(store: &str, path: &Path, kernel: &str, seed: u64) -> usize {
    let output = Command::new(env!("CARGO_BIN_EXE_worker"))
        .args(["--store", store, "--path"])
        .arg(path)
        .args(["launch", kernel, "--seed", &seed.to_string()])
        .output()
        .expect("the worker starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().parse().expect("the worker says a number")
}

fn open(store: &str, path: &Path) -> Box<dyn Store> {
    match store {
        "files" => Box::new(FileStore::open(path, StoreOptions::default()).expect("it opens")),
        _ => Box::new(SqliteStore::open(path, StoreOptions::default()).expect("it opens")),
    }
}

#[test]
fn colliding_kernels_of_two_processes_resolve_in_any_order() {
    // Each artifact is written first, and loaded first.
    let orders = [([0, 1], [0, 1]), ([0, 1], [1, 0]), ([1, 0], [0, 1]), ([1, 0], [1, 0])];
    for store in ["files", "sqlite"] {
        for (written, order) in orders {
            let directory = TempDir::new().unwrap();
            let path = directory.path().join("store");
            let mut fresh = [0; 2];
            for n in written {
                fresh[n] = launch_elsewhere(store, &path, COLLIDING[n], n as u64);
            }
            assert_eq!(fresh, [TASKS as usize; 2]);

            let cache = Cache::new(open(store, &path));
            let mut runtime = Runtime::default();
            // The third is compiled here, before this process knows of the others.
            let own = runtime.load(&cache, COLLIDING[2]).unwrap();
            assert!(!own.is_hit);
            let mut ids = [vec![], vec![], vec![]];
            for n in order {
                let kernel = runtime.load(&cache, COLLIDING[n]).unwrap();
                assert!(kernel.is_hit, "it was stored by another process");
                let data = Data::new(n as u64);
                let dispatched = runtime.dispatched;
                let (launched, overflows) = runtime.launch(&kernel, &data).unwrap();
                assert_eq!(
                    runtime.dispatched - dispatched,
                    fresh[n],
                    "as many tasks as when it was compiled"
                );
                assert_eq!(
                    (&*launched, launched.is_hit(), launched.miss_cause()),
                    (&data.depths(), true, MissCause::Imported)
                );
                ids[n] = overflows;
            }
            ids[2] = runtime.launch(&own, &Data::new(7)).unwrap().1;
            assert!(
                ids.iter().all(|ids| ids[0] == RegistryId::home(COLLIDING[0], 0)),
                "all write the same id"
            );
            for n in [0, 1, 2] {
                for (task, id) in ids[n].iter().enumerate() {
                    let found = runtime.registry.resolve(*id).among(|row| row.kernel() == COLLIDING[n]);
                    let row = found.one().expect("it was launched");
                    assert_eq!((row.kernel(), row.task()), (COLLIDING[n], task as i32));
                }
            }
            assert_eq!(runtime.registry.resolve(ids[0][0]).rows().len(), 3, "the id alone names all");
            assert_eq!(runtime.registry.len(), 3 * TASKS as usize);
        }
    }
}

#[test]
fn other_data_is_evaluated_and_not_taken_from_the_artifact() {
    let directory = TempDir::new().unwrap();
    launch_elsewhere("files", directory.path(), "kernel", 1);
    let cache = Cache::new(open("files", directory.path()));
    let mut runtime = Runtime::default();
    let kernel = runtime.load(&cache, "kernel").unwrap();
    assert!(kernel.is_hit);
    for seed in [2, 1, 3] {
        let data = Data::new(seed);
        assert_eq!(*runtime.launch(&kernel, &data).unwrap().0, data.depths());
    }
}

fn travels_through(store: impl Store) {
    let cache = Cache::new(store);
    let data = Data::new(4);
    let mut first = Runtime::default();
    let kernel = first.load(&cache, "kernel").unwrap();
    first.launch(&kernel, &data).unwrap();
    first.keep(&cache, &kernel, &data).unwrap();

    let mut second = Runtime::default();
    let kernel = second.load(&cache, "kernel").unwrap();
    let (launched, ids) = second.launch(&kernel, &data).unwrap();
    assert!(kernel.is_hit && launched.is_hit());
    assert_eq!(*launched, data.depths());
    assert_eq!(second.memo.statistics().evaluations, 0);
    assert_eq!(second.registry.resolve(ids[2]).to_string(), "kernel `kernel`, task 2");
}

#[test]
fn every_store_carries_it() {
    let directory = TempDir::new().unwrap();
    let path = |name: &str| directory.path().join(name);
    travels_through(MemoryStore::new(Limits::bytes(1 << 20)));
    travels_through(open("files", &path("files")));
    travels_through(open("sqlite", &path("sqlite")));
    travels_through(TieredStore::new(Limits::bytes(1 << 20), open("files", &path("tiered"))));
}
