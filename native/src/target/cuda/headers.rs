//! The headers of a CUDA C++ program: found in the compiler's own order, digested for the key, and handed to the
//! compiler under names that say nothing of where they lay.
//!
//! The compiler opens no file. Each text names what it includes by where it was found, so that nothing outside the key
//! can reach the binary, and nothing changes while it is compiled.

mod close;
mod error;
mod graph;

use std::{
    collections::HashMap,
    hash::BuildHasher,
    path::{Path, PathBuf},
    sync::Arc,
};

use foldhash::fast::RandomState;
use warmstart_core::{includes::Scan, key::Key};

pub(super) use self::close::ROOT;
pub use self::error::HeaderError;
use self::graph::Graph;
use crate::{os::fork::Mutex, target::files::Memo};

/// How many bytes of programs are remembered at most. Then all are forgotten, which costs reading them once more.
const MAX_SOURCES: usize = 8 << 20;

/// A program, and where its headers are.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
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
    /// The standard of C++ that is asked for, as the option `--std` names it.
    pub standard: Option<&'a str>,
}

/// What was read of headers, remembered as long as the file system says that they did not change.
#[derive(Debug, Default)]
pub struct Headers {
    memo: Memo<Arc<Read>>,
    hasher: RandomState,
    sources: Mutex<Sources>,
}

/// What was read of the programs themselves, which come as texts and not as files.
#[derive(Debug, Default)]
struct Sources {
    /// By a hash, which two texts may share: the last of them is known.
    texts: HashMap<u64, (Box<str>, Arc<Read>), RandomState>,
    bytes: usize,
}

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
    pub(super) untold: Vec<(error::Place, usize)>,
}

/// What was read of one text.
#[derive(Debug)]
struct Read {
    digest: [u8; 32],
    size: u64,
    scan: Scan,
}

impl<'a> Search<'a> {
    /// A program that has nothing but its text.
    #[must_use]
    pub fn of(source: &'a str) -> Self {
        Self { source, ..Self::default() }
    }
}

impl Headers {
    /// Finds all headers that the program may reach. Headers that did not change are not read again.
    ///
    /// # Errors
    /// [`HeaderError`] if only the compiler could tell what is included, or a header cannot be read.
    pub fn found(&self, search: &Search<'_>) -> Result<Found, HeaderError> {
        Ok(Graph::explore(search, self.source(search.source), &self.memo, false)?.found())
    }

    /// Reads all headers that the program may reach, and closes its texts over them. What is found is found of exactly
    /// these texts.
    ///
    /// # Errors
    /// As [`found`](Self::found).
    pub fn closed(&self, search: &Search<'_>) -> Result<(Closed, Found), HeaderError> {
        let graph = Graph::explore(search, self.source(search.source), &self.memo, true)?;
        Ok((close::closed(&graph), graph.found()))
    }

    /// What is read of a program, without a digest: the text is in the key itself.
    fn source(&self, text: &str) -> Arc<Read> {
        let hash = self.hasher.hash_one(text);
        if let Some((known, read)) = self.sources.lock().texts.get(&hash)
            && **known == *text
        {
            return Arc::clone(read);
        }
        let read = Arc::new(Read { digest: [0; 32], size: 0, scan: Scan::of(text.as_bytes()) });
        if text.len() <= MAX_SOURCES / 4 {
            let mut known = self.sources.lock();
            if known.bytes + text.len() > MAX_SOURCES {
                *known = Sources::default();
            }
            known.bytes += text.len();
            known.texts.insert(hash, (text.into(), Arc::clone(&read)));
        }
        read
    }
}

impl Read {
    fn of(text: &[u8]) -> Self {
        Self { digest: *Key::digest(text).as_bytes(), size: text.len() as u64, scan: Scan::of(text) }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn refused(search: &Search<'_>) -> String {
        let error = Headers::default().found(search).unwrap_err();
        let closed = Headers::default().closed(search).unwrap_err();
        assert_eq!(error.to_string(), closed.to_string());
        error.to_string()
    }

    #[test]
    fn closed_texts_name_what_they_include() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("s")).unwrap();
        fs::write(directory.path().join("s/a b.h"), "#if __has_include(<c.h>)\n#endif\n#include <none.h>\n")
            .unwrap();
        let given = [("c.h".into(), "#include \"d.h\"\n".into()), ("d.h".into(), "int d;".into())];
        let includes = [directory.path().to_path_buf()];
        let pre_includes = [String::from("d.h")];
        let search = Search {
            source: "#include <s/a b.h>\n#include /*\n*/ \"c\\\n.h\"\n",
            given: &given,
            includes: &includes,
            pre_includes: &pre_includes,
            ..Search::default()
        };
        let (closed, found) = Headers::default().closed(&search).unwrap();
        let source = "#include \"/warmstart/include0/s/a~20b.h\"\n\
                      #include /*\n*/ \"/warmstart/given/c.h\"\\\n\n";
        assert_eq!(String::from_utf8(closed.source).unwrap(), source);
        let header = |name: &str, text: &str| (String::from(name), text.as_bytes().to_vec());
        assert_eq!(
            closed.headers,
            [
                header("/warmstart/given/d.h", "int d;"),
                header("/warmstart/include0/s/a~20b.h", "#if  1 \n#endif\n#include <none.h>\n"),
                header("/warmstart/given/c.h", "#include \"/warmstart/given/d.h\"\n"),
            ]
        );
        assert_eq!(closed.pre_includes, ["/warmstart/given/d.h"]);
        assert_eq!(found.headers[0], ("given/d.h".into(), *Key::digest(b"int d;").as_bytes()));
        assert_eq!(found, Headers::default().found(&search).unwrap());
    }

    #[test]
    fn where_each_name_leads_is_in_the_search() {
        let given = [("a.h".into(), String::new()), ("b.h".into(), String::new())];
        let search = |source: &str, pre_includes: &[String]| {
            let search = Search { source, given: &given, pre_includes, ..Search::default() };
            Headers::default().found(&search).unwrap()
        };
        let texts = [
            "#include <a.h>\n#include <b.h>",
            "#include <a.h>\n#include <c.h>\n#include <b.h>",
            "#include <a.h>\n#include <b.h>\n#if __has_include(<a.h>)",
            "#include <a.h>\n#include <b.h>\n#if __has_include(<c.h>)",
            "#include <a.h>\n#include <b.h>\n#define HAS_INCLUDE(x) __has_include(x)\n#if HAS_INCLUDE(<a.h>)",
            "#include <a.h>\n#include <b.h>\n#define HAS_INCLUDE(x) __has_include(x)\n#if HAS_INCLUDE(<c.h>)",
        ];
        let mut all: Vec<_> = texts.iter().map(|text| search(text, &[]).search).collect();
        all.push(search(texts[0], &["a.h".into()]).search);
        all.push(search(texts[0], &["b.h".into()]).search);
        for (place, one) in all.iter().enumerate() {
            assert!(!all[..place].contains(one), "{place}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_pipe_is_refused_and_not_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let pipe = directory.path().join("a.h");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let search =
            Search { source: "#include \"a.h\"", source_dir: Some(directory.path()), ..Search::default() };
        assert!(refused(&search).contains("no regular file"));
    }

    #[test]
    fn a_header_with_a_nul_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("a.h"), "\n//\0").unwrap();
        let search =
            Search { source: "#include \"a.h\"", source_dir: Some(directory.path()), ..Search::default() };
        let error = refused(&search);
        assert!(error.contains("a.h, line 2, has a NUL byte"), "{error}");
    }

    #[test]
    fn a_definition_that_asks_is_refused() {
        let definitions = [String::from("A=__has_include(<a.h>)")];
        let search = Search { source: "", definitions: &definitions, ..Search::default() };
        assert!(refused(&search).starts_with("the macro definition `A=__has_include(<a.h>)` has"));
        let definitions = [String::from("A=1\n#include <a.h>")];
        let search = Search { source: "", definitions: &definitions, ..Search::default() };
        assert!(refused(&search).contains("more than one line"));
    }

    #[test]
    fn too_many_headers_are_refused_and_too_large_ones() {
        let given: Vec<(String, String)> =
            (0..10_001).map(|number| (number.to_string(), String::new())).collect();
        let source: String = given.iter().map(|(name, _)| format!("#include <{name}>\n")).collect();
        let search = Search { source: &source, given: &given, ..Search::default() };
        assert!(refused(&search).contains("more than 10000 headers"));
        let given = [("a".into(), " ".repeat(1 << 19)), ("b".into(), " ".repeat((1 << 19) + 1))];
        let search = Search { source: "#include <a>\n#include <b>", given: &given, ..Search::default() };
        assert!(refused(&search).contains("larger than 1 MiB"));
        assert!(Headers::default().found(&Search { source: "#include <b>", ..search }).is_ok());
    }

    #[test]
    fn a_header_larger_than_memory_is_refused_and_not_read() {
        let directory = tempfile::tempdir().unwrap();
        let file = fs::File::create(directory.path().join("a.h")).unwrap();
        if file.set_len(1 << 42).is_err() {
            return;
        }
        let search =
            Search { source: "#include \"a.h\"", source_dir: Some(directory.path()), ..Search::default() };
        assert!(refused(&search).contains("larger than 1 MiB"));
    }

    #[test]
    fn a_text_is_read_once_and_another_is_another() {
        let headers = Headers::default();
        let one = headers.source("#include <a.h>");
        assert!(Arc::ptr_eq(&one, &headers.source("#include <a.h>")));
        assert_eq!(headers.source("#include <b.h>").scan.operands[0].name, "b.h");
        assert!(Arc::ptr_eq(&one, &headers.source("#include <a.h>")));
    }

    #[test]
    fn no_more_is_remembered_than_there_is_room_for() {
        let headers = Headers::default();
        for number in 0..6 {
            let text = format!("{number}").repeat(MAX_SOURCES / 4);
            drop(headers.source(&text));
            assert!(headers.sources.lock().bytes <= MAX_SOURCES);
        }
        drop(headers.source(&"x".repeat(MAX_SOURCES)));
        assert_eq!(headers.sources.lock().texts.len(), 2);
    }

    #[test]
    fn headers_that_did_not_change_are_not_read_again() {
        let headers = Headers::default();
        // A file that is older than the times of files are coarse.
        let includes = [Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
        let search = Search { source: "#include <lib.rs>", includes: &includes, ..Search::default() };
        let found = headers.found(&search).unwrap();
        assert_eq!(found.headers[0].0, "include0/lib.rs");
        let again = headers.memo.of(&includes[0].join("lib.rs"), |_| unreachable!("it is remembered"));
        assert!(again.is_some());
        assert_eq!(headers.found(&search).unwrap(), found);
    }
}
