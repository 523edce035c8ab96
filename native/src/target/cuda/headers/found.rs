//! What is found of headers: their texts, and what a key holds of them.

use warmstart_core::{
    includes::{Scan, Trouble},
    key::Key,
};

use super::error::{HeaderError, Place, Problem};

/// Where headers are said to lie. An absolute name, because the compiler puts the current directory before others.
pub(in crate::target::cuda) const ROOT: &str = "/warmstart/";

/// What stands before the number of an include whose name only the preprocessor can make, in the name that it gets.
pub(super) const UNTOLD: &str = "a name that only the preprocessor makes, number ";

/// What a key holds of headers.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Found {
    /// A name for each header that says nothing of where the program lies, and the digest of its text.
    pub headers: Vec<(String, [u8; 32])>,
    /// A digest of which directive leads to which header, or nowhere.
    pub search: [u8; 32],
}

/// Texts that need nothing else.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Closed {
    /// The program.
    pub source: Vec<u8>,
    /// The headers, each under the name that the texts include it by.
    pub headers: Vec<(String, Vec<u8>)>,
    /// The names of the headers that are read before the program.
    pub pre_includes: Vec<String>,
    /// Where includes stand whose names only the preprocessor can make.
    pub(in crate::target::cuda) untold: Vec<(Place, usize)>,
}

/// What was read of one text.
#[derive(Debug)]
pub(super) struct Read {
    pub(super) digest: [u8; 32],
    pub(super) size: u64,
    pub(super) scan: Scan,
}

impl Closed {
    /// The include that a compiler's log says is missing, if it is one whose name could not be told.
    pub(in crate::target::cuda) fn untold_in(&self, log: &str) -> Option<HeaderError> {
        let (_, rest) = log.split_once(UNTOLD)?;
        let (place, line) = self.untold.get(rest.split_once(' ')?.0.parse::<usize>().ok()?)?.clone();
        Some(HeaderError::new(Problem::Text { place, line, trouble: Trouble::ComputedName }))
    }
}

impl Read {
    pub(super) fn of(text: &[u8]) -> Self {
        Self { digest: *Key::digest(text).as_bytes(), size: text.len() as u64, scan: Scan::of(text) }
    }
}
