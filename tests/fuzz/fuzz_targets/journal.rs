//! Decodes arbitrary bytes as a journal, and compares the replayed records with a plain list.
#![no_main]

use std::hash::{BuildHasherDefault, DefaultHasher};

use libfuzzer_sys::{arbitrary, arbitrary::Arbitrary, fuzz_target};
use warmstart_core::{
    journal::{self, Accounts, Event, RECORD_LEN, Record},
    key::Key,
    lru::Limits,
};
use xxhash_rust::xxh3::xxh3_64;

#[derive(Arbitrary, Debug)]
enum Input<'a> {
    /// Arbitrary bytes, optionally with correct checksums of the records.
    Bytes {
        bytes: &'a [u8],
        makes_sums: bool,
    },
    Records {
        records: Vec<(u8, Happened, Option<u8>)>,
        cut: usize,
        damaged: usize,
        mask: u8,
    },
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Happened {
    Stored(u64),
    StoredShort(u8),
    Used,
    Removed,
    /// Asked: must something go before so much can be stored, while so much is reserved?
    Asked(u8, u8),
}

type Hasher = BuildHasherDefault<DefaultHasher>;

/// Names, sizes, in the order of use.
type List = Vec<(Key, u64)>;

const CAP: u64 = 600;

fuzz_target!(|input: Input<'_>| match input {
    Input::Bytes { bytes, makes_sums } => {
        let _ = journal::check_header(bytes);
        let mut bytes = bytes.to_vec();
        if makes_sums {
            bytes.as_chunks_mut().0.iter_mut().for_each(|record| *record = with_sum(*record));
        }
        let bytes = bytes.as_slice();
        if let Some(bytes) = bytes.first_chunk::<RECORD_LEN>()
            && let Ok(record) = Record::decode(bytes)
        {
            assert_eq!(Record::decode(&record.encode()), Ok(record));
        }
        let mut accounts = Accounts::new(Limits::bytes(CAP), Hasher::default());
        if accounts.replay(bytes).is_ok() {
            assert!(bytes.len().is_multiple_of(RECORD_LEN));
        }
    }
    Input::Records { records, cut, damaged, mask } => {
        let mut applied = Accounts::new(Limits::bytes(CAP), Hasher::default());
        let (mut list, mut bytes) = (List::new(), Vec::new());
        for (name, happened, skipped) in records {
            let name = Key::digest(&[name % 8]);
            let event = match happened {
                Happened::Stored(size) => Event::Stored { size },
                Happened::StoredShort(size) => Event::Stored { size: size.into() },
                Happened::Used => Event::Used,
                Happened::Removed => Event::Removed,
                Happened::Asked(size, reserved) => {
                    ask(&mut applied, &mut list, name, size.into(), reserved.into());
                    // It is a use, which a journal is told.
                    Event::Used
                }
            };
            let record = Record { digest: name, event, unix_ms: bytes.len() as u64 };
            applied.apply(&record);
            bytes.extend_from_slice(&record.encode());
            happen(&mut list, name, event);
            check(&applied, &list);
            // As the first edition wrote behind many a record.
            if let Some(byte) = skipped {
                let mut record = [byte; RECORD_LEN];
                record[4] = 4;
                bytes.extend_from_slice(&with_sum(record));
            }
        }
        let mut replayed = Accounts::new(Limits::bytes(CAP), Hasher::default());
        assert_eq!(replayed.replay(&bytes), Ok(()));
        check(&replayed, &list);
        damage(&bytes, cut, damaged, mask);
    }
});

fn happen(list: &mut List, name: Key, event: Event) {
    let place = list.iter().position(|(other, _)| *other == name);
    let before = place.map(|at| list.remove(at));
    match event {
        Event::Stored { size } => list.push((name, size)),
        Event::Used => list.extend(before),
        _ => {}
    }
}

fn ask(accounts: &mut Accounts<Hasher>, list: &mut List, name: Key, size: u64, reserved: u64) {
    let must = accounts.must_evict(&name, size, reserved);
    happen(list, name, Event::Used);
    let others = list.iter().filter(|(other, _)| *other != name);
    let total: u128 = others.clone().map(|(_, size)| u128::from(*size)).sum();
    let is_too_much = total + u128::from(size + reserved) > u128::from(CAP);
    assert_eq!(must, is_too_much && others.count() > 0);
}

fn check(accounts: &Accounts<Hasher>, list: &List) {
    assert_eq!(accounts.len(), list.len());
    assert!(accounts.iter().map(|account| (account.digest, account.size)).eq(list.iter().copied()));
    let total: u128 = list.iter().map(|(_, size)| u128::from(*size)).sum();
    assert_eq!(accounts.total_bytes(), u64::try_from(total).unwrap_or(u64::MAX));
    assert_eq!(accounts.oldest(), list.first().copied());
}

/// A part of a record, and one that was altered, end the replay.
fn damage(bytes: &[u8], cut: usize, damaged: usize, mask: u8) {
    if bytes.is_empty() {
        return;
    }
    let replay = |bytes: &[u8]| Accounts::new(Limits::NONE, Hasher::default()).replay(bytes);
    let end = cut % bytes.len();
    assert_eq!(replay(&bytes[..end]).is_ok(), end.is_multiple_of(RECORD_LEN));
    let mut altered = bytes.to_vec();
    altered[damaged % bytes.len()] ^= mask.max(1);
    assert!(replay(&altered).is_err());
}

fn with_sum(mut record: [u8; RECORD_LEN]) -> [u8; RECORD_LEN] {
    let sum = xxh3_64(&record[4..]).to_le_bytes();
    record[..4].copy_from_slice(&sum[..4]);
    record
}
