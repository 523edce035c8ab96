//! The weights of a real model, packed by the real XNNPACK in one process and found in the next.

use std::{fs, path::Path};

use warmstart::{
    Key,
    pack::ModelId,
    target::xnnpack::{Abi, Provider},
};
use warmstart_tests::{
    children_of, minilm,
    own_process::Children,
    packed::{image, open, place},
    xnnpack::{self, Tensor},
};

use super::relay::Relay;

/// Where a child finds its pack.
const TASK: &str = "WARMSTART_XNNPACK_TASK";

fn pack_and_run() {
    let path = std::env::var(TASK).unwrap();
    let (library, model) = (xnnpack::library(), minilm::model());
    let digest = *Key::digest(&fs::read(minilm::path()).unwrap()).as_bytes();
    let provider = Provider::new(open(Path::new(&path)).unwrap(), Abi::V2025, ModelId::from_bytes(digest));
    // SAFETY: the function is XNNPACK's own.
    let provider = unsafe { provider.with_fingerprints(library.fingerprint_function()) };
    for layer in model.layers() {
        provider.register(layer.weight().as_ptr(), &layer.weight_name());
        provider.register(layer.bias().as_ptr(), &layer.bias_name());
    }
    let tokens = 4;
    let relay = Relay::to(&provider);
    let mut encoder = model.compile(library, tokens, Some(relay.cache())).unwrap();
    provider.finalize();
    let saved = provider.pack().save().unwrap().entries;
    let output = encoder.run(&Tensor::noise(tokens * minilm::WIDTH, 11)).unwrap();
    let bytes: Vec<u8> = output.iter().flat_map(|number| number.to_le_bytes()).collect();
    let (asked, calls) = (provider.statistics(), relay.calls());
    // Calls that change nothing, and then those that XNNPACK makes of each.
    println!(
        "\nSAID {} {} {} {} {saved} {} {} {} {} {}\nSAID {}",
        asked.hits,
        asked.packed,
        asked.reservations,
        asked.unnamed + asked.refused + asked.panics,
        calls.look_up,
        calls.reserve_space,
        calls.look_up_or_insert,
        calls.is_finalized,
        calls.offset_to_addr,
        Key::digest(&bytes),
    );
}

/// Runs the real model in another process and returns its report.
fn run_model(processes: &Children, path: &Path) -> ([u64; 10], String) {
    let child = processes.command().env(TASK, path).output().unwrap();
    assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stderr));
    let said = String::from_utf8(child.stdout).unwrap();
    let mut said = said.lines().filter_map(|line| line.strip_prefix("SAID "));
    let counts: Vec<u64> = said.next().unwrap().split(' ').map(|count| count.parse().unwrap()).collect();
    (counts.try_into().unwrap(), said.next().unwrap().to_owned())
}

#[test]
#[cfg_attr(not(has_xnnpack), ignore = "needs XNNPACK: cargo xtask runtimes --xnnpack")]
#[cfg_attr(
    all(has_xnnpack, not(has_minilm)),
    ignore = "needs the weights of a model: cargo xtask runtimes --models"
)]
fn real_model_packed_once_is_not_packed_by_the_next_process() {
    let Some(processes) = children_of!(pack_and_run) else { return };
    let (_directory, path) = place().unwrap();
    let (cold, computed) = run_model(&processes, &path);
    let [hits, packed, reserved, wrong, saved, calls @ ..] = cold;
    assert_eq!([hits, packed, reserved, wrong, saved], [0, 36, 36, 0, 36]);
    assert!(calls.iter().all(|calls| *calls > 0), "XNNPACK did not make all of its calls: {calls:?}");
    let before = image(&path).unwrap();
    let (warm, again) = run_model(&processes, &path);
    let [hits, packed, reserved, wrong, saved, look_ups, reserves, inserts, ..] = warm;
    assert_eq!([hits, packed, reserved, wrong, saved], [36, 0, 0, 0, 0]);
    assert_eq!([look_ups, reserves, inserts], [36, 0, 0]);
    assert_eq!(again, computed, "the outputs differ");
    assert_eq!(image(&path).unwrap(), before);
}
