//! Processes share a store, and may die at any instant.
//!
//! The processes are the `worker` of this package.

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use warmstart::{Limits, MissReason};

use super::{OnDisk, Opening};
use crate::whole::Whole;
use crate::{
    built,
    proof::{artifact, numbered_key, verify},
};

const CAP: u64 = 1 << 20;

fn worker(harness: &dyn OnDisk, max_bytes: u64, work: &[&str]) -> Child {
    let mut worker = Command::new(built::worker());
    harness.worker(&mut worker);
    worker.args(["--max-bytes", &max_bytes.to_string()]).args(work).stdout(Stdio::piped());
    worker.spawn().expect("the worker starts")
}

fn churners(harness: &dyn OnDisk, n: u64, more: &[&str]) -> Vec<Child> {
    let churner = |seed: u64| {
        let seed = (seed * 7919 + 17).to_string();
        worker(harness, CAP, &[&["churn", "--seed", &seed], more].concat())
    };
    (0..n).map(churner).collect()
}

/// Asserts that every entry is whole, the counts match the disk, the cap holds, and no lock of a dead process is left.
fn check_at_rest(harness: &dyn OnDisk, cap: Option<u64>) {
    let limits = Limits { max_bytes: cap, max_entries: None };
    let store = harness.open_as(Opening { limits, ..Opening::of(harness) });
    harness.check_accounts(cap);
    let started = Instant::now();
    store.put(b"last", &artifact(b"last", 1, 16_000)).unwrap();
    assert!(started.elapsed() < Duration::from_secs(1), "a lock was left behind");
    let scope = String::from_utf8(store.claims().unwrap().scope()).unwrap();
    let locks = std::fs::read_dir(scope).unwrap();
    assert_eq!(locks.count(), 0, "locks are left");
    let mut listed = 0;
    let visit = &mut |_| {
        listed += 1;
        std::ops::ControlFlow::Continue(())
    };
    store.inspect().unwrap().entries(visit).unwrap();
    for n in 0..200 {
        let key = numbered_key(n);
        match store.get(&key) {
            Ok(found) => drop(verify(&key, &found)),
            Err(reason) => assert_eq!(reason, MissReason::Absent),
        }
    }
    assert_eq!(store.whole(), Ok(listed), "an entry was not whole");
    harness.check_accounts(cap);
    drop(store);
    harness.check_files(cap);
}

/// Eight processes put, get and clear.
pub fn eight_processes_against_eviction_and_clear(harness: &dyn OnDisk) {
    for mut child in churners(harness, 8, &["--count", "600", "--clear-every", "100"]) {
        assert!(child.wait().unwrap().success(), "a worker failed: see its message");
    }
    check_at_rest(harness, Some(CAP));
}

/// 200 processes are killed while they write, eight at a time. What they acknowledged is stored.
pub fn killed_writers_leave_nothing_torn_and_nothing_locked(harness: &dyn OnDisk) {
    let mut acknowledged: Vec<u64> = Vec::new();
    for round in 0..25u64 {
        let mut children: Vec<_> = (round * 8..round * 8 + 8)
            .map(|seed| {
                let mut child =
                    worker(harness, 1 << 40, &["put", "--len", "20000", "--seed", &seed.to_string()]);
                let said = BufReader::new(child.stdout.take().unwrap()).lines();
                (child, said)
            })
            .collect();
        for (_, said) in &mut children {
            // All of them are at work.
            acknowledged.push(said.next().unwrap().unwrap().parse().unwrap());
        }
        // For a time that is different in each round.
        thread::sleep(Duration::from_micros(round * 137 % 3000));
        for (child, _) in &mut children {
            child.kill().unwrap();
        }
        for (mut child, said) in children {
            child.wait().unwrap();
            acknowledged.extend(said.map_while(Result::ok).filter_map(|line| line.parse::<u64>().ok()));
        }
    }
    assert!(acknowledged.len() >= 200);
    check_at_rest(harness, None);
    assert_eq!(harness.temp_files(), Vec::<String>::new(), "those of dead processes are swept at open");
    let store = harness.open_default();
    for n in &acknowledged {
        let key = numbered_key(*n);
        assert_eq!(verify(&key, &store.get(&key).expect("what was stored survives")), *n);
    }
    // At most one entry of each process was stored without its having been said, and there is the last one.
    assert!(store.whole().unwrap() <= acknowledged.len() as u64 + 201);
}

/// The kills hit evictions, and on SQLite vacuums and checkpoints.
pub fn killed_churners_leave_the_cap_and_every_entry_whole(harness: &dyn OnDisk) {
    // Half of them clear too.
    let works = [&["--count", "1000000"][..], &["--count", "1000000", "--clear-every", "50"]];
    for round in 0..12u64 {
        let mut children = churners(harness, 4, works[round as usize % 2]);
        thread::sleep(Duration::from_millis(20 + round * 13 % 50));
        for child in &mut children {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        check_at_rest(harness, Some(CAP));
    }
}
