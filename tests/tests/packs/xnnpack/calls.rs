//! Random programs of calls: a provider does what the model does.

use std::panic::catch_unwind;

use warmstart_tests::calls::{Call, Medium, run};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The number of programs on each medium.
const PROGRAMS: u64 = 300;

/// A program that fails is made as short as it can be, and shown.
fn agrees_with_the_model(medium: Medium) {
    for seed in 0..PROGRAMS {
        let words = 4 + xxh3_64_with_seed(b"length", seed) % 200;
        let bytes: Vec<u8> =
            (0..words).flat_map(|n| xxh3_64_with_seed(&n.to_le_bytes(), seed).to_le_bytes()).collect();
        let mut calls: Vec<Call> = Call::from_bytes(&bytes).collect();
        let fails = |calls: &[Call]| {
            let calls = calls.to_vec();
            catch_unwind(|| run(medium, calls)).is_err()
        };
        if fails(&calls) {
            for at in (0..calls.len()).rev() {
                let mut shorter = calls.clone();
                shorter.remove(at);
                if fails(&shorter) {
                    calls = shorter;
                }
            }
            eprintln!("{medium:?}, seed {seed}: {calls:?}");
            run(medium, calls);
            panic!("seed {seed} failed, and did not when it was run again");
        }
    }
}

#[test]
fn a_provider_over_a_file_agrees_with_the_model() {
    agrees_with_the_model(Medium::File);
}

#[test]
fn a_provider_in_the_heap_agrees_with_the_model() {
    agrees_with_the_model(Medium::Heap);
}

/// Where a weight of no bytes is saved, the mapping of what was saved before ends.
#[test]
fn a_weight_without_bytes_is_found_once_it_is_saved() {
    const RESERVE: [u8; 4] = [15, 241, 240, 2];
    const SAVE: [u8; 4] = [29, 0, 0, 0];
    let calls = [
        RESERVE,
        RESERVE,
        RESERVE,
        [15, 0, 0, 2],        // reserves one byte
        [0, 3, 3, 0],         // registers address 3 as name 3
        [0, 5, 2, 0],         // registers address 5 as name 2
        [18, 0xb3, 179, 107], // inserts the second reservation: the weight at 3, the bias at 5
        [18, 0x77, 119, 179], // inserts another under no name
        SAVE,
        [18, 0x6b, 35, 107], // inserts none of that one byte: the weight at 5
        SAVE,
        [10, 0x6b, 1, 0], // looks it up
    ];
    run(Medium::File, Call::from_bytes(calls.as_flattened()));
}
