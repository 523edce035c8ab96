//! The bytes of a portable result, within those of a launch record. docs/format.md has the layout.

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::{
    portable::{Content, Part, PortableResult},
    world::{ArgumentId, FieldId},
};
use crate::{
    key::Key,
    launch_record::{RecordError, put_count},
    wire::{put, take, take_count},
};

/// A content as postcard writes it.
#[derive(Serialize, Deserialize)]
enum Wire {
    Field(u32, Option<[u8; Key::LEN]>),
    Array(u32, Option<[u8; Key::LEN]>),
    Extent(u32, u32, Option<u64>),
}

impl PortableResult {
    pub(crate) fn put(&self, bytes: &mut Vec<u8>) -> Result<(), RecordError> {
        put(bytes, self.kernel.as_str());
        put(bytes, self.fingerprint.as_bytes());
        put_count(bytes, self.contents.len())?;
        for &content in &self.contents {
            put(bytes, &Wire::from(content));
        }
        put(bytes, &self.output.is_some());
        if let Some(output) = &self.output {
            output.put(bytes)?;
        }
        put_count(bytes, self.specs.len())?;
        for (spec, part) in &self.specs {
            put(bytes, spec.as_slice());
            part.put(bytes)?;
        }
        Ok(())
    }

    pub(crate) fn take(rest: &mut &[u8]) -> Result<Self, RecordError> {
        let kernel: &str = take(rest)?;
        let fingerprint = Key::from_bytes(take(rest)?);
        let mut contents: Vec<Content> = Vec::new();
        for _ in 0..take_count(rest)? {
            let content = Content::from(take::<Wire>(rest)?);
            if contents.last().is_some_and(|last| last.observed() >= content.observed()) {
                return Err(RecordError::Disorder);
            }
            contents.push(content);
        }
        let output = if take(rest)? { Some(Part::take(rest, contents.len())?) } else { None };
        let mut specs: Vec<(Vec<u8>, Part)> = Vec::new();
        for _ in 0..take_count(rest)? {
            let spec: &[u8] = take(rest)?;
            if specs.last().is_some_and(|(last, _)| last.as_slice() >= spec) {
                return Err(RecordError::Disorder);
            }
            specs.push((spec.to_vec(), Part::take(rest, contents.len())?));
        }
        Ok(Self { kernel: kernel.into(), fingerprint, contents, output, specs })
    }
}

impl Part {
    fn put(&self, bytes: &mut Vec<u8>) -> Result<(), RecordError> {
        put_count(bytes, self.from.len())?;
        for place in &self.from {
            put(bytes, place);
        }
        put(bytes, self.bytes.as_slice());
        Ok(())
    }

    fn take(rest: &mut &[u8], contents: usize) -> Result<Self, RecordError> {
        let mut from = Vec::new();
        for _ in 0..take_count(rest)? {
            let place: u32 = take(rest)?;
            if place as usize >= contents {
                return Err(RecordError::Malformed);
            }
            if from.last().is_some_and(|last| *last >= place) {
                return Err(RecordError::Disorder);
            }
            from.push(place);
        }
        let bytes: &[u8] = take(rest)?;
        Ok(Self { from, bytes: bytes.to_vec() })
    }
}

impl From<Content> for Wire {
    fn from(content: Content) -> Self {
        match content {
            Content::Field(field, digest) => Self::Field(field.0, digest.map(|digest| *digest.as_bytes())),
            Content::Array(argument, digest) => {
                Self::Array(argument.0, digest.map(|digest| *digest.as_bytes()))
            }
            Content::Extent(argument, axis, extent) => Self::Extent(argument.0, axis, extent),
        }
    }
}

impl From<Wire> for Content {
    fn from(wire: Wire) -> Self {
        match wire {
            Wire::Field(field, digest) => Self::Field(FieldId(field), digest.map(Key::from_bytes)),
            Wire::Array(argument, digest) => Self::Array(ArgumentId(argument), digest.map(Key::from_bytes)),
            Wire::Extent(argument, axis, extent) => Self::Extent(ArgumentId(argument), axis, extent),
        }
    }
}
