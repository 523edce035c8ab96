//! Decodes arbitrary bytes as statistics, which are consistent or refused. Of two slots that are written in turn, one of the two
//! newest is read.
#![no_main]

use std::collections::{BTreeMap, BTreeSet};

use libfuzzer_sys::{arbitrary, arbitrary::Arbitrary, fuzz_target};
use warmstart_core::{
    reason::MissReason,
    statistics::{PersistedStats, SLOT_LEN, Statistics},
};
use warmstart_fuzz::with_sum;

/// The offset of the length.
const LENGTH: usize = 20;
/// The offset of the counters.
const HEADER_LEN: usize = 40;

#[derive(Arbitrary, Debug)]
enum Input<'a> {
    Bytes(&'a [u8]),
    /// Under a header that is right.
    Counters {
        version: u8,
        since: u64,
        number: u64,
        counters: &'a [u8],
    },
    /// Under names of this version and of newer ones.
    Names(Vec<(Name<'a>, u64)>),
    Turns(Vec<Turn>),
}

#[derive(Arbitrary, Debug)]
enum Name<'a> {
    Known(u8),
    Any(&'a str),
}

#[derive(Arbitrary, Debug)]
enum Turn {
    Report {
        hits: u8,
    },
    /// The writer dies: only this part of what it writes is in the file.
    Torn {
        hits: u8,
        from: u16,
        to: u16,
    },
    Flip {
        at: u16,
        mask: u8,
    },
}

fuzz_target!(|input: Input<'_>| match input {
    Input::Bytes(bytes) => any_bytes(bytes),
    Input::Counters { version, since, number, counters } => {
        any_bytes(&block(version, since, number, counters));
    }
    Input::Names(names) => {
        let mut counters = Vec::new();
        for (name, n) in names {
            let name = match name {
                Name::Known(at) => KNOWN[usize::from(at) % KNOWN.len()],
                Name::Any(name) => name,
            };
            if let Ok(len) = u8::try_from(name.len()) {
                counters.push(len);
                counters.extend(name.as_bytes());
                counters.extend(n.to_le_bytes());
            }
        }
        any_bytes(&block(1, 12, 34, &counters));
    }
    Input::Turns(turns) => in_turn(&turns),
});

const KNOWN: [&str; 6] = ["hits", "builds", "resets", "misses.absent", "misses.unheard", "refusals.busy"];

fn block(version: u8, since: u64, number: u64, counters: &[u8]) -> Vec<u8> {
    let mut bytes = b"\x89WSS\r\n\x1a\n".to_vec();
    bytes.extend([0; 8]);
    bytes.extend([version, 0, 0, 0]);
    bytes.extend(u32::try_from(HEADER_LEN + counters.len()).expect("it is short").to_le_bytes());
    bytes.extend(since.to_le_bytes());
    bytes.extend(number.to_le_bytes());
    bytes.extend(counters);
    with_sum(bytes)
}

fn any_bytes(bytes: &[u8]) {
    let _ = PersistedStats::decode_slots(bytes);
    match PersistedStats::decode(bytes) {
        Ok(stats) => {
            let encoded = stats.encode();
            let again = PersistedStats::decode(&encoded).expect("what is encoded is decoded");
            assert_eq!((again.counted, again.resets), (stats.counted, stats.resets));
            assert_eq!(again.since_unix_ms, stats.since_unix_ms);
            assert_eq!(again.encode(), encoded);
            // Also those whose names this version does not know.
            assert_eq!(counters(&encoded), counters(bytes));
        }
        Err(reason) => assert!(reason.is_damage() || reason == MissReason::NewerVersion, "{reason:?}"),
    }
}

/// Returns the counters of an intact block that are not 0.
fn counters(block: &[u8]) -> BTreeMap<&[u8], u64> {
    let len = u32::from_le_bytes(block[LENGTH..LENGTH + 4].try_into().expect("four bytes"));
    let mut rest = &block[HEADER_LEN.min(len as usize)..len as usize];
    let mut counters = BTreeMap::new();
    while let Some((len, after)) = rest.split_first() {
        let (name, after) = after.split_at(usize::from(*len));
        let (n, after) = after.split_first_chunk().expect("it was decoded");
        counters.insert(name, u64::from_le_bytes(*n));
        rest = after;
    }
    counters.retain(|_, n| *n > 0);
    counters
}

/// Writes reports to two slots in turn, as the file store does.
fn in_turn(turns: &[Turn]) {
    let mut file = Vec::new();
    // The counters that may be read: the newest, and the ones before if the newest may be damaged.
    let (mut may_be, mut before, mut damages) = (BTreeSet::from([0]), BTreeSet::from([0]), 0);
    for turn in turns {
        let (hits, from, to) = match *turn {
            Turn::Report { hits } => (hits, 0, u16::MAX),
            Turn::Torn { hits, from, to } => (hits, from, to),
            Turn::Flip { at, mask } => {
                if let Some(len) = (!file.is_empty()).then_some(file.len()) {
                    file[usize::from(at) % len] ^= mask;
                    may_be.extend(before.iter().copied().chain([0]));
                    damages += 1;
                }
                continue;
            }
        };
        let mut stats = match PersistedStats::decode_slots(&file) {
            Ok(stats) => stats,
            Err(reason) => {
                assert!(reason.is_damage());
                let is_new = file.is_empty();
                file.clear();
                PersistedStats::resume(Err(if is_new { MissReason::Absent } else { reason }), 1)
                    .expect("damage is no reason not to count")
            }
        };
        let read = stats.counted.hits;
        assert!(may_be.contains(&read), "{read} was read, and {may_be:?} may be there");
        assert!(stats.resets <= damages);

        let mut counted = Statistics::default();
        counted.hits = hits.into();
        stats.add(&counted);
        let (bytes, at) = (stats.encode(), usize::try_from(stats.slot()).expect("it is small"));
        assert!(at + bytes.len() <= 2 * SLOT_LEN && at.is_multiple_of(SLOT_LEN));
        let (from, to) = (usize::from(from).min(bytes.len()), usize::from(to).min(bytes.len()));
        file.resize(file.len().max(at + to), 0);
        if from < to {
            file[at + from..at + to].copy_from_slice(&bytes[from..to]);
        }
        let is_torn = (from, to) != (0, bytes.len());
        damages += u64::from(is_torn);
        let earlier = std::mem::replace(&mut may_be, BTreeSet::from([read + u64::from(hits)]));
        if is_torn {
            // Perhaps nothing of it was written. What was damaged there may also be made whole by it, or by another flip.
            may_be.extend(earlier.iter().copied().chain([read]));
            before.extend(earlier.into_iter().chain([read]));
        } else {
            before = BTreeSet::from([read]);
        }
    }
}
