//! An entry, as it is shown to people and to programs.

use serde::Serialize;
use warmstart::{Metadata, store::Entry};

/// What `ls`, `inspect` and `explain` tell programs about an entry. Nothing is what is not known.
#[derive(Debug, Serialize)]
pub(crate) struct Summary {
    name: String,
    pub(crate) size: u64,
    payload_bytes: Option<u64>,
    pub(crate) created_unix_ms: Option<u64>,
    pub(crate) used_unix_ms: Option<u64>,
    pub(crate) build_nanos: Option<u64>,
    pub(crate) domain: Option<String>,
    pub(crate) label: Option<String>,
    is_sealed: Option<bool>,
    /// The reason why the head could not be read.
    pub(crate) problem: Option<&'static str>,
}

impl Summary {
    pub(crate) fn new(entry: &Entry) -> Self {
        let known = |n: u64| (n > 0).then_some(n);
        let content = entry.head.as_ref().ok();
        let recipe = content.and_then(|content| content.metadata.recipe());
        let attribute = || {
            let value = content?.metadata.attribute(Metadata::LABEL)?;
            Some(String::from_utf8_lossy(value).into_owned())
        };
        Self {
            name: entry.name.to_string(),
            size: entry.size,
            payload_bytes: content.map(|content| content.payload_len),
            created_unix_ms: content.and_then(|content| known(content.provenance.created_unix_ms)),
            used_unix_ms: known(entry.used_unix_ms),
            build_nanos: content.and_then(|content| known(content.provenance.build_nanos)),
            domain: recipe.map(|recipe| recipe.domain().to_owned()),
            label: attribute().or_else(|| recipe?.name().map(ToOwned::to_owned)),
            is_sealed: content.map(|content| content.is_sealed),
            problem: entry.head.as_ref().err().map(|reason| reason.as_str()),
        }
    }

    /// The name as `ls` shows it.
    pub(crate) fn short_name(&self) -> &str {
        &self.name[..SHORT]
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

/// So many digits tell the entries of any store apart that a person looks at.
const SHORT: usize = 12;
