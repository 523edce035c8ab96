//! What programs are told of a file of packed weights.

use serde::Serialize;
use warmstart::pack::{Inspection, ModelId, PackEntry, Refusal};

/// What `inspect --json` prints of version 2: what a reader of ExecuTorch's files knows.
#[derive(Serialize)]
pub(super) struct Answer<'a> {
    format: &'static str,
    version: u32,
    entries: Vec<Listed<'a>>,
    dead_bytes: u64,
    #[serde(flatten)]
    more: Option<More>,
}

/// What else version 3 says of itself.
#[derive(Serialize)]
struct More {
    file_bytes: u64,
    generation: u64,
    models: Vec<String>,
    /// Why the newest index does not count.
    recovered: Option<String>,
}

#[derive(Serialize)]
struct Listed<'a> {
    name: &'a str,
    offset: u64,
    size: u64,
    seed: u32,
    #[serde(flatten)]
    more: Option<MoreOfEntry<'a>>,
}

#[derive(Serialize)]
struct MoreOfEntry<'a> {
    bias: Option<&'a str>,
    /// Nothing if it was imported without one.
    model: Option<String>,
    fingerprint: Option<Fingerprint>,
    checksum: Option<String>,
    generation: u64,
    is_imported: bool,
}

#[derive(Serialize)]
struct Fingerprint {
    id: u32,
    value: Option<u32>,
}

/// What `verify --json` prints.
#[derive(Serialize)]
pub(super) struct Proved<'a> {
    pub(super) format: &'static str,
    pub(super) version: u32,
    pub(super) has_checksums: bool,
    pub(super) whole: u64,
    pub(super) damaged: usize,
    /// Why the newest index does not count.
    pub(super) recovered: Option<String>,
    /// Why entries cannot be found.
    pub(super) misfiled: Option<String>,
    pub(super) problems: Vec<Problem<'a>>,
}

/// A damaged entry.
#[derive(Serialize)]
pub(super) struct Problem<'a> {
    name: &'a str,
    bias: Option<&'a str>,
    offset: u64,
    size: u64,
    reason: &'static str,
}

/// What `compact --json` and `convert --json` print.
#[derive(Serialize)]
pub(super) struct Written {
    pub(super) format: &'static str,
    pub(super) version: u32,
    pub(super) path: String,
    pub(super) is_changed: bool,
    pub(super) entries: u64,
    pub(super) left_out: u64,
    pub(super) damaged: u64,
    pub(super) unverified: u64,
    pub(super) bytes_before: u64,
    pub(super) bytes_after: u64,
}

impl<'a> Answer<'a> {
    pub(super) fn of(found: &'a Inspection) -> Self {
        let is_ours = found.version == 3;
        Self {
            format: "xpwc",
            version: found.version,
            entries: found.entries.iter().map(|entry| Listed::of(entry, is_ours)).collect(),
            dead_bytes: found.dead_bytes,
            more: is_ours.then(|| More {
                file_bytes: found.file_bytes,
                generation: found.generation,
                models: found.models.iter().map(ModelId::to_string).collect(),
                recovered: found.refusal.as_ref().map(Refusal::to_string),
            }),
        }
    }
}

impl<'a> Listed<'a> {
    fn of(entry: &'a PackEntry, is_ours: bool) -> Self {
        Self {
            name: &entry.weight,
            offset: entry.offset,
            size: entry.size,
            seed: entry.packing.seed,
            more: is_ours.then(|| MoreOfEntry {
                bias: entry.bias.as_deref(),
                model: entry.has_model().then(|| entry.model.to_string()),
                fingerprint: entry
                    .packing
                    .fingerprint
                    .map(|fingerprint| Fingerprint { id: fingerprint.id, value: fingerprint.value }),
                checksum: entry.checksum.map(|sum| format!("{sum:016x}")),
                generation: entry.generation,
                is_imported: entry.is_imported,
            }),
        }
    }
}

impl<'a> Problem<'a> {
    pub(super) fn of(entry: &'a PackEntry) -> Self {
        Self {
            name: &entry.weight,
            bias: entry.bias.as_deref(),
            offset: entry.offset,
            size: entry.size,
            reason: "checksum_mismatch",
        }
    }
}
