//! Whatever is made of a sealed entry without its secret is refused, and for the reason that docs/format.md names.
#![no_main]

use libfuzzer_sys::{arbitrary, arbitrary::Arbitrary, fuzz_target};
use warmstart_core::{
    artifact::{Artifact, Metadata, Provenance},
    envelope::{self, Encoded, HEADER_LEN, Layout, PAYLOAD_ALIGN},
    reason::MissReason,
    seal::{Seal, TAG_LEN},
};
use warmstart_fuzz::with_sum;

#[derive(Arbitrary, Debug)]
enum Input<'a> {
    /// Arbitrary bytes, optionally with a correct checksum.
    Bytes { stored: &'a [u8], key: &'a [u8], makes_sum: bool },
    /// A sealed entry, and the alterations of an attacker.
    Entry { one: Entry<'a>, other: Entry<'a>, at: usize, mask: u8, end: usize },
}

#[derive(Arbitrary, Debug)]
struct Entry<'a> {
    key: &'a [u8],
    attribute: Option<&'a [u8]>,
    payload: &'a [u8],
    created: u64,
}

impl Entry<'_> {
    fn artifact(&self) -> Artifact {
        let metadata = Metadata::new();
        let metadata = match self.attribute {
            Some(value) => metadata.with_attribute("attribute", value),
            None => metadata,
        };
        Artifact::new(self.payload.to_vec())
            .with_metadata(&metadata)
            .with_provenance(Provenance { created_unix_ms: self.created, build_nanos: 7 })
    }

    fn stored(&self, seal: Option<&Seal>) -> Vec<u8> {
        let artifact = self.artifact();
        let encoded = envelope::encode(self.key, &artifact, seal);
        encoded.as_ref().map(Encoded::to_vec).expect("it is short")
    }
}

fuzz_target!(|input: Input<'_>| {
    let seal = Seal::new(&[7; 32]);
    match input {
        Input::Bytes { stored, key, makes_sum } => {
            any_bytes(stored, key, &seal);
            if makes_sum && stored.len() >= HEADER_LEN {
                any_bytes(&with_sum(stored.to_vec()), key, &seal);
            }
        }
        Input::Entry { one, other, at, mask, end } => {
            round_trip(&one, &seal);
            others(&one, &other, &seal);
            altered(&one, at, mask, end, &seal);
        }
    }
});

/// Damage is found with the secret and without it.
fn any_bytes(stored: &[u8], key: &[u8], seal: &Seal) {
    let sealed = envelope::verify(stored, Some(seal));
    match envelope::verify(stored, None) {
        Ok(layout) => {
            assert!(!layout.is_sealed());
            assert_eq!(sealed, Err(MissReason::Unsealed));
        }
        Err(MissReason::Sealed) => {
            assert!(Layout::parse(stored, stored.len() as u64).is_ok_and(|layout| layout.is_sealed()));
            // It does not have this secret's tag.
            assert_eq!(sealed, Err(MissReason::Forged));
        }
        Err(reason) => {
            assert!(reason.is_damage() || reason == MissReason::NewerVersion, "{reason:?}");
            assert_eq!(sealed, Err(reason));
        }
    }
    let decoded = envelope::decode(stored.to_vec(), key, Some(seal));
    assert_eq!(decoded.err(), sealed.err());
}

fn round_trip(entry: &Entry<'_>, seal: &Seal) {
    let stored = entry.stored(Some(seal));
    let layout = envelope::verify(&stored, Some(seal)).expect("what is sealed is whole");
    assert!(layout.is_sealed());
    assert_eq!(layout.key().start, HEADER_LEN + TAG_LEN);
    assert_eq!(layout.payload().start % PAYLOAD_ALIGN, 0);
    let found = envelope::decode(stored, entry.key, Some(seal)).expect("what is sealed is decoded");
    let artifact = entry.artifact();
    assert_eq!((found.payload(), found.provenance()), (artifact.payload(), artifact.provenance()));
    assert_eq!(found.encoded_metadata(), artifact.encoded_metadata());
}

/// Another secret, none, another key, another entry's tag.
fn others(one: &Entry<'_>, other: &Entry<'_>, seal: &Seal) {
    let reason = |stored: Vec<u8>, key, seal| envelope::decode(stored, key, seal).err();
    let theirs = Seal::new(&[8; 32]);
    let stored = one.stored(Some(seal));
    assert_eq!(reason(stored.clone(), one.key, Some(&theirs)), Some(MissReason::Forged));
    assert_eq!(reason(stored.clone(), one.key, None), Some(MissReason::Sealed));
    assert_eq!(reason(one.stored(None), one.key, Some(seal)), Some(MissReason::Unsealed));
    let mismatch = (one.key != other.key).then_some(MissReason::KeyMismatch);
    assert_eq!(reason(stored.clone(), other.key, Some(seal)), mismatch);

    let others_tag = &other.stored(Some(seal))[HEADER_LEN..HEADER_LEN + TAG_LEN];
    let mut spliced = stored.clone();
    spliced[HEADER_LEN..HEADER_LEN + TAG_LEN].copy_from_slice(others_tag);
    let is_another = spliced != stored;
    assert_eq!(reason(with_sum(spliced), one.key, Some(seal)), is_another.then_some(MissReason::Forged));
}

fn altered(entry: &Entry<'_>, at: usize, mask: u8, end: usize, seal: &Seal) {
    let stored = entry.stored(Some(seal));
    let decode = |stored: Vec<u8>| envelope::decode(stored, entry.key, Some(seal));
    let cut = stored[..end % stored.len()].to_vec();
    assert_eq!(decode(cut).err(), Some(MissReason::Truncated));
    let mut longer = stored.clone();
    longer.push(mask);
    assert_eq!(decode(longer).err(), Some(MissReason::Malformed));

    let at = at % stored.len();
    let mut flipped = stored.clone();
    flipped[at] ^= mask.max(1);
    let refused = decode(flipped.clone()).expect_err("an altered byte was handed out");
    assert!(refused.is_damage(), "{refused:?}");
    let summed = with_sum(flipped);
    if summed == stored {
        return;
    }
    let refused = decode(summed).expect_err("an altered byte was handed out under a recomputed checksum");
    // Version, flags, lengths and what is reserved say something else first.
    if (40..56).contains(&at) || at >= HEADER_LEN {
        assert_eq!(refused, MissReason::Forged);
    }
}
