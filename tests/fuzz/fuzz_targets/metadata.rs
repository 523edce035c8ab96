//! Decodes arbitrary bytes as metadata, which are consistent or refused. Encoded metadata decode.
#![no_main]

use libfuzzer_sys::{arbitrary, arbitrary::Arbitrary, fuzz_target};
use warmstart_core::{artifact::Metadata, reason::MissReason};
use warmstart_fuzz::{Fields, metadata};

#[derive(Arbitrary, Debug)]
enum Input<'a> {
    Bytes(&'a [u8]),
    Metadata { recipe: Option<Fields>, attributes: Vec<(String, Vec<u8>)>, end: usize },
}

fuzz_target!(|input: Input<'_>| match input {
    Input::Bytes(bytes) => match Metadata::decode(bytes) {
        Ok(metadata) => assert_eq!(Metadata::decode(&metadata.encode()), Ok(metadata)),
        Err(reason) => assert_eq!(reason, MissReason::Malformed),
    },
    Input::Metadata { recipe, attributes, end } => {
        let metadata = metadata(recipe.as_ref(), &attributes);
        for (name, _) in &attributes {
            let last =
                attributes.iter().rev().find(|(other, _)| other == name).map(|(_, value)| value.as_slice());
            assert_eq!(metadata.attribute(name), last);
        }
        let mut bytes = metadata.encode();
        assert_eq!(Metadata::decode(&bytes).as_ref(), Ok(&metadata));
        let known = bytes.len();
        if known > 0 {
            // A prefix is refused; none at all is nothing known.
            assert_eq!(Metadata::decode(&bytes[..1 + end % known]).is_ok(), 1 + end % known == known);
            bytes.push(0);
            assert_eq!(Metadata::decode(&bytes), Err(MissReason::Malformed));
        }
    }
});
