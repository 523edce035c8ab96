//! The headers of a CUDA C++ program: found in the compiler's own order, digested for the key, and handed to the
//! compiler under names that say nothing of where they lay.
//!
//! The compiler opens no file. Each text names what it includes by where it was found, so that nothing outside the key
//! can reach the binary, and nothing changes while it is compiled.

mod close;
mod computed;
mod error;
mod graph;
mod label;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use warmstart_core::{includes::Scan, key::Key};

use crate::target::files::Memo;

pub use self::error::HeaderError;
use self::graph::{Graph, Reading};

/// A program, and where its headers are.
#[derive(Clone, Copy, Debug, Default)]
pub struct Search<'a> {
    /// The text of the program.
    pub source: &'a str,
    /// Where the program lies, if anywhere.
    pub source_dir: Option<&'a Path>,
    /// Headers that are given as texts: names as they are spelled in directives, and texts. They go before all files.
    pub given: &'a [(String, String)],
    /// The directories of the include path, in order.
    pub includes: &'a [PathBuf],
    /// Headers that are read before the program.
    pub pre_includes: &'a [String],
    /// Whether names in quotes are not looked for beside the text that includes them.
    pub no_source_include: bool,
    /// Macros that are defined on the command line: `NAME` or `NAME=VALUE`.
    pub definitions: &'a [String],
}

/// What was read of headers, remembered as long as the file system says that they did not change.
#[derive(Debug, Default)]
pub struct Headers {
    memo: Memo<Arc<Read>>,
}

/// What a key holds of headers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// A name for each header that says nothing of where the program lies, and the digest of its text.
    pub headers: Vec<(String, [u8; 32])>,
    /// A digest of which directive leads to which header, or nowhere.
    pub search: [u8; 32],
}

/// Texts that need nothing else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Closed {
    /// The program.
    pub source: Vec<u8>,
    /// The headers, each under the name that the texts include it by.
    pub headers: Vec<(String, Vec<u8>)>,
    /// The names of the headers that are read before the program.
    pub pre_includes: Vec<String>,
}

/// What was read of one text.
#[derive(Debug)]
struct Read {
    digest: [u8; 32],
    size: u64,
    scan: Scan,
}

impl Headers {
    /// Finds all headers that the program may reach. Headers that did not change are not read again.
    ///
    /// # Errors
    /// [`HeaderError`] if only the compiler could tell what is included, or a header cannot be read.
    pub fn found(&self, search: &Search<'_>) -> Result<Found, HeaderError> {
        Ok(Graph::explore(search, Reading::Remembered(&self.memo))?.found())
    }

    /// Reads all headers that the program may reach, and closes its texts over them. What is found is found of exactly
    /// these texts.
    ///
    /// # Errors
    /// As [`found`](Self::found).
    pub fn closed(&self, search: &Search<'_>) -> Result<(Closed, Found), HeaderError> {
        let graph = Graph::explore(search, Reading::Anew(&self.memo))?;
        Ok((graph.closed(), graph.found()))
    }
}

impl Read {
    fn of(text: &[u8]) -> Self {
        Self { digest: *Key::digest(text).as_bytes(), size: text.len() as u64, scan: Scan::of(text) }
    }
}
