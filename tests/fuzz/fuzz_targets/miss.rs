//! Decodes arbitrary metadata as a miss, which is consistent or refused. A stored miss is read again.
#![no_main]

use libfuzzer_sys::{arbitrary, arbitrary::Arbitrary, fuzz_target};
use warmstart_core::{
    artifact::{Artifact, Metadata, Provenance},
    envelope,
    miss::{MAX_LEN, Miss},
    reason::MissReason,
};
use warmstart_fuzz::{Fields, metadata, with_sum};

#[derive(Arbitrary, Debug)]
enum Input<'a> {
    /// Metadata of another encoder, of any bytes.
    Bytes {
        metadata: &'a [u8],
        created: u64,
    },
    /// Attributes under our names and others.
    Attributes {
        recipe: Option<Fields>,
        attributes: Vec<(Name, Value<'a>)>,
    },
    Miss {
        key: &'a [u8],
        reason: u8,
        refusal: Option<u8>,
        recipe: Option<Fields>,
        unix_ms: u64,
    },
}

#[derive(Arbitrary, Debug)]
enum Name {
    Key,
    MissReason,
    Refusal,
    Other(String),
}

#[derive(Arbitrary, Debug)]
enum Value<'a> {
    MissReason(u8),
    Any(&'a [u8]),
}

fuzz_target!(|input: Input<'_>| match input {
    Input::Bytes { metadata, created } => read(&with_metadata(metadata, created)),
    Input::Attributes { recipe, attributes } => {
        let attributes: Vec<_> = attributes
            .into_iter()
            .map(|(name, value)| {
                let value = match value {
                    Value::MissReason(at) => reason(at).as_str().as_bytes(),
                    Value::Any(value) => value,
                };
                (name.into(), value.to_vec())
            })
            .collect();
        read(&Artifact::new(Vec::new()).with_metadata(&metadata(recipe.as_ref(), &attributes)));
    }
    Input::Miss { key, reason: why, refusal, recipe, unix_ms } => {
        let miss = Miss {
            key: key.to_vec(),
            reason: reason(why),
            refusal: refusal.map(reason),
            recipe: recipe.as_ref().map(Fields::recipe),
            unix_ms,
        };
        match miss.encode(None) {
            Some(kept) => {
                assert!(kept.len() <= MAX_LEN);
                let found = Miss::decode(kept, None).expect("what is kept is whole");
                // One that is long is kept without its recipe.
                assert!(found == miss || found == Miss { recipe: None, ..miss });
            }
            None => assert!(miss.key.len() > MAX_LEN / 2, "it is short"),
        }
    }
});

impl From<Name> for String {
    fn from(name: Name) -> Self {
        match name {
            Name::Key => Self::from("miss.key"),
            Name::MissReason => Self::from("miss.reason"),
            Name::Refusal => Self::from("miss.refusal"),
            Name::Other(name) => name,
        }
    }
}

fn reason(at: u8) -> MissReason {
    MissReason::ALL[usize::from(at) % MissReason::COUNT]
}

/// A decoded miss equals its attributes and encodes to the same bytes.
fn read(artifact: &Artifact) {
    let metadata = artifact.metadata();
    let known = |name: &str| {
        let named = metadata.as_ref().ok()?.attribute(name)?;
        MissReason::ALL.iter().copied().find(|reason| reason.as_str().as_bytes() == named)
    };
    let Ok(stored) = envelope::encode(Miss::KEY, artifact, None).map(|encoded| encoded.to_vec()) else {
        return;
    };
    match Miss::decode(stored, None) {
        Ok(miss) => {
            let again = miss.encode(None).map(|kept| Miss::decode(kept, None));
            assert!(again.is_none_or(|again| again.is_ok_and(|again| again.reason == miss.reason)));
            let metadata = metadata.as_ref().expect("a miss was read from it");
            assert_eq!(metadata.attribute("miss.key"), Some(&*miss.key));
            assert_eq!((known("miss.reason"), known("miss.refusal")), (Some(miss.reason), miss.refusal));
            assert_eq!(metadata.recipe(), miss.recipe.as_ref());
            assert_eq!(artifact.provenance().created_unix_ms, miss.unix_ms);
        }
        Err(MissReason::Malformed) => {
            let has = |name| metadata.as_ref().is_ok_and(|metadata| metadata.attribute(name).is_some());
            let is_text = |name| {
                let value = metadata.as_ref().ok().and_then(|metadata| metadata.attribute(name));
                value.is_none_or(|value| std::str::from_utf8(value).is_ok())
            };
            let is_whole = has("miss.key") && has("miss.reason");
            assert!(!is_whole || !is_text("miss.reason") || !is_text("miss.refusal"));
        }
        Err(reason) => {
            assert_eq!(reason, MissReason::NewerVersion);
            let metadata: &Metadata = metadata.as_ref().expect("its reasons were read");
            assert!(known("miss.reason").is_none() || metadata.attribute("miss.refusal").is_some());
        }
    }
}

/// An artifact without payload whose metadata is these bytes, whatever they are.
fn with_metadata(metadata: &[u8], created: u64) -> Artifact {
    let provenance = Provenance { created_unix_ms: created, build_nanos: 0 };
    let artifact = Artifact::new(Vec::new()).with_provenance(provenance);
    let mut stored = envelope::encode(b"", &artifact, None).expect("it is short").to_vec();
    stored.truncate(envelope::HEADER_LEN);
    stored[24..28].copy_from_slice(&u32::try_from(metadata.len()).expect("it is short").to_le_bytes());
    stored.extend(metadata);
    stored.resize(stored.len().next_multiple_of(envelope::PAYLOAD_ALIGN), 0);
    envelope::decode(with_sum(stored), b"", None).expect("it is whole")
}
