//! Random programs of operations, damage and faults: every store does what the model does.

use std::panic::catch_unwind;

use warmstart_tests::model::{Kind, Program, run};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The number of programs on each store.
const PROGRAMS: u64 = 200;

/// A program that fails is made as short as it can be and shown, with the seed that it came from.
fn agrees_with_the_model(kind: Kind) {
    for seed in 0..PROGRAMS {
        let words = 8 + xxh3_64_with_seed(b"length", seed) % 100;
        let bytes: Vec<u8> =
            (0..words).flat_map(|n| xxh3_64_with_seed(&n.to_le_bytes(), seed).to_le_bytes()).collect();
        let program = Program::from_bytes(&bytes);
        if fails(kind, &program) {
            let program = shortened(program, |shorter| fails(kind, shorter));
            eprintln!("{kind:?}, seed {seed}: {program:?}");
            run(kind, &program);
            panic!("seed {seed} failed, and did not when it was run again");
        }
    }
}

fn fails(kind: Kind, program: &Program) -> bool {
    catch_unwind(|| run(kind, program)).is_err()
}

/// Leaves out one operation after the other, as long as what is left fails.
fn shortened(mut program: Program, fails: impl Fn(&Program) -> bool) -> Program {
    let mut at = program.operations.len();
    while at > 0 {
        at -= 1;
        let mut shorter = program.clone();
        shorter.operations.remove(at);
        if fails(&shorter) {
            program = shorter;
        }
    }
    program
}

#[test]
fn memory_agrees_with_the_model() {
    agrees_with_the_model(Kind::Memory);
}

#[test]
fn files_agree_with_the_model() {
    agrees_with_the_model(Kind::Files);
}

#[test]
fn sqlite_agrees_with_the_model() {
    agrees_with_the_model(Kind::Sqlite);
}

#[test]
fn memory_in_front_of_files_agrees_with_the_model() {
    agrees_with_the_model(Kind::Tiered);
}

#[test]
fn sealed_files_agree_with_the_model() {
    agrees_with_the_model(Kind::SealedFiles);
}

#[test]
fn sealed_sqlite_agrees_with_the_model() {
    agrees_with_the_model(Kind::SealedSqlite);
}
