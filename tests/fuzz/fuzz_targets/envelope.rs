//! Decodes arbitrary bytes as an envelope, which is consistent or refused. Encoded envelopes decode; altered ones are refused.
#![no_main]

use libfuzzer_sys::{arbitrary, arbitrary::Arbitrary, fuzz_target};
use warmstart_core::{
    artifact::{Artifact, Provenance},
    envelope::{self, Encoded, HEADER_LEN, Layout, PAYLOAD_ALIGN},
    reason::MissReason,
};
use warmstart_fuzz::with_sum;

#[derive(Arbitrary, Debug)]
enum Input<'a> {
    /// Arbitrary bytes, optionally with a correct checksum.
    Bytes { stored: &'a [u8], key: &'a [u8], makes_sum: bool },
    /// An envelope of which one byte or the length is altered.
    Envelope { created: u64, nanos: u64, key: &'a [u8], payload: &'a [u8], at: usize, mask: u8, end: usize },
}

fuzz_target!(|input: Input<'_>| match input {
    Input::Bytes { stored, key, makes_sum } => {
        let mut stored = stored.to_vec();
        if makes_sum && stored.len() >= HEADER_LEN {
            stored = with_sum(stored);
        }
        any_bytes(&stored, key);
    }
    Input::Envelope { created, nanos, key, payload, at, mask, end } => {
        let provenance = Provenance { created_unix_ms: created, build_nanos: nanos };
        let artifact = Artifact::new(payload.to_vec()).with_provenance(provenance);
        altered(&artifact, key, at, mask, end);
    }
});

fn any_bytes(stored: &[u8], key: &[u8]) {
    let head = &stored[..stored.len().min(HEADER_LEN)];
    let parsed = Layout::parse(stored, stored.len() as u64);
    assert_eq!(Layout::parse(head, stored.len() as u64), parsed, "the header alone decides");
    let verified = envelope::verify(stored, None);
    let decoded = envelope::decode(stored.to_vec(), key, None);
    let Ok(layout) = &verified else {
        assert_eq!(decoded.err(), verified.err());
        return;
    };
    assert_eq!(parsed.as_ref(), Ok(layout));
    assert_eq!(layout.payload().start % PAYLOAD_ALIGN, 0);
    assert_eq!((layout.key().start, layout.key().end), (HEADER_LEN, layout.metadata().start));
    assert_eq!(layout.payload().end, stored.len());
    let own = &stored[layout.key()];
    assert_eq!(decoded.is_ok(), own == key, "the full key is compared");
    let artifact = envelope::decode(stored.to_vec(), own, None).expect("it is whole and its own key's");
    assert_eq!(artifact.payload(), &stored[layout.payload()]);
    assert_eq!(artifact.encoded_metadata(), &stored[layout.metadata()]);
    assert_eq!(artifact.provenance(), layout.provenance());
    // The gap before the payload is under the checksum, but may hold anything.
    let gap = &stored[layout.metadata().end..layout.payload().start];
    let again = envelope::encode(own, &artifact, None).map(|encoded| encoded.to_vec());
    assert!(
        gap.iter().any(|byte| *byte != 0) || again.as_deref() == Ok(stored),
        "encoding it again gives other bytes"
    );
}

fn altered(artifact: &Artifact, key: &[u8], at: usize, mask: u8, end: usize) {
    let encoded = envelope::encode(key, artifact, None);
    let encoded = encoded.as_ref().map(Encoded::to_vec).expect("it is short");
    let found = envelope::decode(encoded.clone(), key, None).expect("what is encoded is decoded");
    assert_eq!((found.payload(), found.provenance()), (artifact.payload(), artifact.provenance()));
    assert_eq!(
        envelope::decode(encoded.clone(), b"another key", None).err().is_none(),
        key == b"another key"
    );

    let cut = encoded[..end % encoded.len()].to_vec();
    assert_eq!(envelope::decode(cut, key, None).err(), Some(MissReason::Truncated));
    let mut longer = encoded.clone();
    longer.push(mask);
    assert_eq!(envelope::decode(longer, key, None).err(), Some(MissReason::Malformed));
    let mut flipped = encoded;
    let at = at % flipped.len();
    flipped[at] ^= mask.max(1);
    let refused = envelope::decode(flipped, key, None).expect_err("an altered byte was handed out");
    assert!(refused.is_damage(), "{refused:?}");
}
