//! All entries of an index, one after the other.

use core::iter::FusedIterator;

use super::Index;
use crate::trailer::{Entry, ModelId, Name, record::Record};

/// The entries of an index, in ascending order of offset.
#[derive(Clone, Debug)]
pub struct Entries<'a> {
    index: Index<'a>,
    /// Where the next record is.
    at: usize,
    left: usize,
}

impl<'a> Entries<'a> {
    pub(super) const fn of(index: Index<'a>) -> Self {
        Self { index, at: 0, left: index.len() }
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = Entry<'a>;

    fn next(&mut self) -> Option<Entry<'a>> {
        self.left = self.left.checked_sub(1)?;
        let bytes = self.index.records.get(self.at..)?;
        let entry = Record::decode(bytes).and_then(|record| {
            self.at = self.at.checked_add(record.len()?)?;
            let (weight, bias) = record.names(bytes)?;
            let text = |bytes| core::str::from_utf8(bytes).ok();
            let bias = match bias {
                Some(bias) => Some(text(bias)?),
                None => None,
            };
            let model = self.index.models.get(record.model as usize)?;
            let name = Name { weight: text(weight)?, bias };
            Some(entry_of_record(&record, name, ModelId::from_bytes(*model)))
        });
        if entry.is_none() {
            self.left = 0;
        }
        entry
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Entries<'_> {}

impl FusedIterator for Entries<'_> {}

/// The entry of a record whose names and model these are.
pub(super) fn entry_of_record<'a>(record: &Record, name: Name<'a>, model: ModelId) -> Entry<'a> {
    Entry {
        name,
        model,
        packing: record.packing(),
        offset: record.offset,
        size: record.size,
        checksum: Some(record.checksum),
        generation: record.generation,
        is_imported: record.is_imported(),
    }
}
