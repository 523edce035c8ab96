//! The headers of a CUDA C++ program: found in the compiler's own order, digested for the key, and passed to the compiler under
//! names that do not depend on where the files are.
//!
//! A name is first looked up among the given headers, as it is spelled; then, if it is in quotes, beside the text that includes
//! it; then in the include directories in order. `#include_next` begins after the include directory in which the text itself
//! was found; if that was found in another way, the search begins at the first directory.
//!
//! The compiler opens no file. In the texts that it gets, each include names the header that was found for it. So no file
//! outside the key can influence the binary, and no file changes while it is compiled.

mod error;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fmt::Write as _,
    fs::{self, Metadata},
    io,
    ops::Range,
    path::{Path, PathBuf},
    slice,
    sync::Arc,
};

use foldhash::fast::RandomState;
use warmstart_core::{
    includes::{Ask, Operand, Scan, Trouble, rewrite},
    key::Key,
    program::{CodeType, OptionName, Value},
};

pub use self::error::HeaderError;
use self::error::{Place, Problem};
use super::program::{Program, ROOT};
use crate::{
    os::{FileIdentity, fork::Mutex},
    target::files::{self, Memo},
};
pub use warmstart_core::program::FoundHeaders;

/// The most bytes of programs that are remembered. If there are more, all are forgotten and scanned again.
const MAX_SOURCES: u64 = 8 << 20;

/// The most headers of a program.
const MAX_FILES: usize = 10_000;

/// The most bytes of all headers of a program.
const MAX_BYTES: u64 = if cfg!(test) { 1 << 20 } else { 256 << 20 };

/// An empty header that stands for every header whose existence a macro asks for. No text includes it.
const THERE: &str = "/warmstart/there";

/// The beginning of the name that replaces an include whose name only the preprocessor can compute; a number follows.
const UNTOLD: &str = "a name that only the preprocessor makes, number ";

/// Reads headers, and remembers each as long as its file is unchanged.
#[derive(Debug, Default)]
pub struct Headers {
    memo: Memo<Arc<Read>>,
    sources: Mutex<Sources>,
}

/// The scanned programs, which are texts and not files.
#[derive(Debug, Default)]
struct Sources {
    scans: HashMap<Vec<u8>, Arc<Read>, RandomState>,
    /// The size of all texts.
    bytes: u64,
}

/// All texts that a program may include. The first is the program itself.
struct Graph<'a> {
    program: &'a Program,
    /// Whether names in quotes are searched for beside the text that includes them.
    searches_beside: bool,
    memo: &'a Memo<Arc<Read>>,
    /// Whether each text is read from its file and kept. If not, remembered scans of unchanged files are used.
    keeps_texts: bool,
    nodes: Vec<Node>,
    /// The answers to the operands of each text that was followed, in order.
    edges: Vec<Vec<Edge>>,
    /// Whether each header exists that a macro asks for.
    answers: BTreeMap<String, bool>,
    /// The macros that options define, `NAME` or `NAME=VALUE`, and their scans.
    definitions: Vec<(&'a str, Scan)>,
    given: HashMap<usize, usize, RandomState>,
    files: HashMap<FileKey, Vec<usize>, RandomState>,
    labels: HashSet<String, RandomState>,
    bytes: u64,
}

/// The digest, size and directives of one text.
#[derive(Debug)]
struct Read {
    digest: [u8; 32],
    size: u64,
    scan: Scan,
}

/// A text that was found at a place.
struct Node {
    label: String,
    place: Place,
    read: Arc<Read>,
    /// The text itself, if texts are kept.
    text: Option<Vec<u8>>,
    /// The directory that is searched first for names in quotes.
    beside: Option<PathBuf>,
    /// The include directory in which the text was found.
    through: Option<usize>,
}

/// The answer to an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Edge {
    To(usize),
    Nowhere,
    Exists(bool),
    /// Whether a header exists that a macro asks for.
    Answer(bool),
}

/// The way in which a text was found.
#[derive(Clone, Copy, Debug)]
enum Way {
    Given,
    Absolute,
    Beside,
    Include(usize),
}

/// The file that a name leads to.
type Located = (PathBuf, Metadata, Way);

/// The identity of a file: its device and inode, and where there are none, its path without links.
type FileKey = ((u64, u64), PathBuf);

/// A program and its headers as the compiler gets them: complete, so that no other file is needed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Closed {
    /// The text of the program.
    pub source: Vec<u8>,
    /// The headers, each with the name by which the texts include it.
    pub headers: Vec<(String, Vec<u8>)>,
    /// The name by which the compiler knows the program.
    pub(in crate::target::cuda) name: String,
    /// The arguments for directories that the compiler searches itself.
    pub(in crate::target::cuda) directories: Vec<String>,
    /// The includes whose names only the preprocessor can compute: the text and the line.
    untold: Vec<(Place, usize)>,
}

impl Headers {
    /// Finds all headers that the program may include. Unchanged headers are not read again.
    ///
    /// # Errors
    /// [`HeaderError`] if only the compiler could tell which headers are included, or a header cannot be read.
    pub fn found(&self, program: &Program) -> Result<FoundHeaders, HeaderError> {
        Ok(Graph::explore(self, program, false)?.found())
    }

    /// Reads all headers that the program may include, and returns the texts for the compiler and the headers found from exactly
    /// these texts.
    ///
    /// # Errors
    /// As [`found`](Self::found).
    pub fn closed(&self, program: &Program) -> Result<(Closed, FoundHeaders), HeaderError> {
        let graph = Graph::explore(self, program, true)?;
        Ok((graph.closed(), graph.found()))
    }

    /// Scans a program, or returns its remembered scan. Without a digest: the key has one of the source.
    fn source(&self, program: &Program) -> Arc<Read> {
        let text = &*program.description.source;
        if let Some(read) = self.sources.lock().scans.get(text) {
            return Arc::clone(read);
        }
        let read = Arc::new(Read { digest: [0; 32], size: 0, scan: Scan::of(text) });
        let size = text.len() as u64;
        if size <= MAX_SOURCES / 4 {
            let mut known = self.sources.lock();
            if known.bytes + size > MAX_SOURCES {
                *known = Sources::default();
            }
            known.bytes += size;
            known.scans.insert(text.into(), Arc::clone(&read));
        }
        read
    }
}

impl<'a> Graph<'a> {
    /// Builds the graph of all that the program may include.
    fn explore(headers: &'a Headers, program: &'a Program, keeps_texts: bool) -> Result<Self, HeaderError> {
        let options = &program.description.options;
        let searches_beside = !options.is_set(OptionName::NoSourceInclude);
        let source = Node {
            label: String::from("source"),
            place: Place::Source,
            read: headers.source(program),
            text: None,
            beside: program.source_dir.clone().filter(|_| searches_beside),
            through: None,
        };
        let mut graph = Self {
            program,
            searches_beside,
            memo: &headers.memo,
            keeps_texts,
            nodes: vec![source],
            edges: Vec::new(),
            answers: BTreeMap::new(),
            definitions: Vec::new(),
            given: HashMap::default(),
            files: HashMap::default(),
            labels: HashSet::default(),
            bytes: 0,
        };
        graph.read_definitions()?;
        while graph.edges.len() < graph.nodes.len() {
            graph.follow()?;
        }
        graph.refuse_pasted()?;
        Ok(graph)
    }

    fn read_definitions(&mut self) -> Result<(), HeaderError> {
        let definitions = match self.program.description.options.option(OptionName::DefineMacro) {
            Some(Value::List(definitions)) => &definitions[..],
            Some(Value::Text(definition)) => slice::from_ref(definition),
            _ => &[],
        };
        for text in definitions {
            if text.contains('\n') {
                return Err(HeaderError::new(Problem::Lines(text.clone())));
            }
            let scan = Scan::of_definition(text);
            self.check(&scan, || Place::Definition(text.clone()))?;
            self.definitions.push((text, scan));
        }
        Ok(())
    }

    /// Refuses a text if only the preprocessor could tell what it includes under the program's standard of C++.
    fn check(&self, scan: &Scan, place: impl FnOnce() -> Place) -> Result<(), HeaderError> {
        let line_of_standard = match self.program.description.options.option(OptionName::Std) {
            Some(Value::Text(standard)) => match &**standard {
                "c++17" | "c++20" => None,
                "c++23" => scan.unlike_newer,
                _ => scan.unlike_older,
            },
            _ => None,
        };
        let of_standard = line_of_standard.map(|line| (Trouble::OtherStandard, line));
        match scan.problems.first().copied().or(of_standard) {
            Some((trouble, line)) => Err(HeaderError::new(Problem::Text { place: place(), line, trouble })),
            None => Ok(()),
        }
    }

    /// Finds what the next text asks for.
    fn follow(&mut self) -> Result<(), HeaderError> {
        let from = self.edges.len();
        let read = Arc::clone(&self.nodes[from].read);
        self.check(&read.scan, || self.nodes[from].place.clone())?;
        let mut edges = Vec::with_capacity(read.scan.operands.len());
        for operand in &read.scan.operands {
            edges.push(match operand.ask {
                Ask::Exists => Edge::Exists(self.exists(from, operand)?),
                Ask::Macro => {
                    let (name, exists) = (&operand.name, self.exists(from, operand)?);
                    if self.answers.insert(name.clone(), exists).is_some_and(|known| known != exists) {
                        return Err(HeaderError::new(Problem::AmbiguousQuestion(name.clone())));
                    }
                    Edge::Answer(exists)
                }
                Ask::Include | Ask::Next => self.include(from, operand)?.map_or(Edge::Nowhere, Edge::To),
            });
        }
        self.edges.push(edges);
        Ok(())
    }

    /// Returns the text that a name leads to, and reads it if it is new.
    fn include(&mut self, from: usize, operand: &Operand) -> Result<Option<usize>, HeaderError> {
        if let Some(place) = self.program.given.iter().position(|(given, _)| *given == operand.name) {
            return self.given(place).map(Some);
        }
        match self.find(from, operand)? {
            Some(located) => self.file(from, &operand.name, located),
            None => Ok(None),
        }
    }

    fn exists(&self, from: usize, operand: &Operand) -> Result<bool, HeaderError> {
        let is_given = self.program.given.iter().any(|(given, _)| *given == operand.name);
        Ok(is_given || self.find(from, operand)?.is_some())
    }

    /// Searches for the file of a name as NVRTC does.
    fn find(&self, from: usize, operand: &Operand) -> Result<Option<Located>, HeaderError> {
        let look = |path: PathBuf, way| -> Result<Option<Located>, HeaderError> {
            let Some(metadata) = fs::metadata(&path).ok().filter(|metadata| !metadata.is_dir()) else {
                return Ok(None);
            };
            if !metadata.is_file() {
                return Err(HeaderError::new(Problem::NoFile(path)));
            }
            Ok(Some((path, metadata, way)))
        };
        let name = Path::new(&operand.name);
        if name.is_absolute() {
            return look(name.into(), Way::Absolute);
        }
        let node = &self.nodes[from];
        // In the program itself, `#include_next` is an `#include`.
        let next = operand.ask == Ask::Next && from > 0;
        if let Some(beside) = node.beside.as_ref().filter(|_| operand.quoted && !next)
            && let Some(located) = look(beside.join(name), Way::Beside)?
        {
            return Ok(Some(located));
        }
        let behind = node.through.filter(|_| next).map_or(0, |through| through + 1);
        for (place, directory) in self.program.include_dirs.iter().enumerate().skip(behind) {
            if let Some(located) = look(directory.join(name), Way::Include(place))? {
                return Ok(Some(located));
            }
        }
        Ok(None)
    }

    fn given(&mut self, place: usize) -> Result<usize, HeaderError> {
        if let Some(node) = self.given.get(&place) {
            return Ok(*node);
        }
        let (name, text) = &self.program.given[place];
        let path = Path::new(name);
        let beside = path.parent().filter(|_| path.is_absolute() && self.searches_beside);
        let node = self.add(Node {
            label: Way::Given.label(None, name),
            place: Place::Given(name.clone()),
            read: Arc::new(Read::of(text.as_bytes())),
            text: Some(text.clone().into_bytes()),
            beside: beside.map(Path::to_path_buf),
            through: None,
        })?;
        self.given.insert(place, node);
        Ok(node)
    }

    /// Adds a file as a text. `None` if the file is gone.
    fn file(&mut self, from: usize, name: &str, located: Located) -> Result<Option<usize>, HeaderError> {
        let (path, metadata, way) = located;
        // Checked before reading: the file may be larger than memory.
        if metadata.len() > MAX_BYTES {
            return Err(HeaderError::new(Problem::TooLarge(MAX_BYTES)));
        }
        let mut identity = FileIdentity::of(&metadata);
        let known = if self.keeps_texts {
            // A text that is in the graph is not read again: the file could have changed.
            let node = self.files.get(&file_key(&identity, &path)).map(|nodes| &self.nodes[nodes[0]]);
            node.map(|node| (Arc::clone(&node.read), node.text.clone()))
        } else {
            self.memo.lock().get(&identity).map(|read| (Arc::clone(read), None))
        };
        let (read, text) = match known {
            Some(known) => known,
            None => match files::read(self.memo, &path, |text| Arc::new(Read::of(text))) {
                Ok(content) => {
                    identity = content.identity;
                    (content.made, Some(content.bytes))
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(HeaderError::new(Problem::Unreadable { path, error })),
            },
        };
        let beside = path.parent().filter(|_| self.searches_beside);
        let through = if let Way::Include(place) = way { Some(place) } else { None };
        let key = file_key(&identity, &path);
        if let Some(nodes) = self.files.get(&key) {
            let same = nodes.iter().find(|node| self.nodes[**node].is_as_if(&read.scan, beside, through));
            if let Some(node) = same {
                return Ok(Some(*node));
            }
            // Only the compiler knows which of the two it includes.
            if read.scan.once {
                let (one, other) = (self.nodes[nodes[0]].place.clone(), Place::File(path));
                return Err(HeaderError::new(Problem::Twice { one, other }));
            }
        }
        let label = way.label((from > 0).then(|| &self.nodes[from]), name);
        let beside = beside.map(Path::to_path_buf);
        let node = self.add(Node { label, place: Place::File(path), read, text, beside, through })?;
        self.files.entry(key).or_default().push(node);
        Ok(Some(node))
    }

    fn add(&mut self, mut node: Node) -> Result<usize, HeaderError> {
        self.bytes += node.read.size;
        if self.nodes.len() > MAX_FILES {
            return Err(HeaderError::new(Problem::TooMany(MAX_FILES)));
        }
        if self.bytes > MAX_BYTES {
            return Err(HeaderError::new(Problem::TooLarge(MAX_BYTES)));
        }
        let label = node.label.clone();
        let mut number = 1;
        // No other label ends like this: `push_label` writes a tilde only before two upper-case digits or a word.
        while !self.labels.insert(node.label.clone()) {
            number += 1;
            node.label = format!("{label}~v{number}");
        }
        self.nodes.push(node);
        Ok(self.nodes.len() - 1)
    }

    /// Refuses words from which `__has_include` could be pasted, which the scan would not see.
    fn refuse_pasted(&self) -> Result<(), HeaderError> {
        let scans = || {
            let definitions = self.definitions.iter().map(|(_, scan)| scan);
            self.nodes.iter().map(|node| &node.read.scan).chain(definitions)
        };
        let fragment = scans().enumerate().find_map(|(place, scan)| Some((place, scan.fragment?)));
        let Some((place, line)) = fragment.filter(|_| scans().any(|scan| scan.pastes)) else { return Ok(()) };
        let place = match self.nodes.get(place) {
            Some(node) => node.place.clone(),
            None => Place::Definition(self.definitions[place - self.nodes.len()].0.into()),
        };
        Err(HeaderError::new(Problem::Pasted { place, line }))
    }

    /// Returns all texts, with the names of the headers that were found in their directives.
    fn closed(&self) -> Closed {
        let mut closed = Closed { name: format!("{ROOT}{}", self.program.name()), ..Closed::default() };
        let source = &*self.program.description.source;
        closed.source = closed.close(&self.nodes[0], &self.edges[0], source, &self.nodes);
        for (node, edges) in self.nodes.iter().zip(&self.edges).skip(1) {
            let text = closed.close(node, edges, node.text.as_deref().unwrap_or_default(), &self.nodes);
            closed.headers.push((node.name(), text));
        }
        if self.answers.values().any(|exists| *exists) {
            closed.headers.push((THERE.into(), Vec::new()));
        }
        closed
    }

    fn found(&self) -> FoundHeaders {
        FoundHeaders {
            headers: self.nodes[1..].iter().map(|node| (node.label.clone(), node.read.digest)).collect(),
            search: self.edges_digest(),
        }
    }

    /// Computes a digest of all edges. Together with the texts and the labels, it decides what the compiler gets.
    fn edges_digest(&self) -> [u8; 32] {
        let mut edges = Edges(Vec::with_capacity(128 + 32 * self.nodes.len()));
        let label = |node: usize| self.nodes[node].label.as_str();
        // The format has a list of headers read before the program, which is empty.
        edges.list(0);
        let told = |edges: &[Edge]| edges.iter().filter(|edge| !matches!(edge, Edge::Answer(_))).count();
        let nodes = || self.nodes.iter().zip(&self.edges).filter(|(_, edges)| told(edges) > 0);
        edges.list(nodes().count());
        for (node, answers) in nodes() {
            edges.text(&node.label);
            edges.list(told(answers));
            for edge in answers {
                match edge {
                    // Added below, once for each name.
                    Edge::Answer(_) => {}
                    Edge::To(node) => edges.text(label(*node)),
                    // Distinct from labels, which are not empty and have no question mark.
                    Edge::Nowhere => edges.text(""),
                    Edge::Exists(true) => edges.text("?1"),
                    Edge::Exists(false) => edges.text("?0"),
                }
            }
        }
        // The format has a list of includes of macros, which is empty.
        edges.list(0);
        edges.list(self.answers.len());
        for (name, exists) in &self.answers {
            edges.text(name);
            edges.text(if *exists { "?1" } else { "?0" });
        }
        *Key::digest(&edges.0).as_bytes()
    }
}

/// An encoding that differs for any two graphs: the length of each text and list comes first.
struct Edges(Vec<u8>);

impl Edges {
    fn list(&mut self, length: usize) {
        self.0.extend_from_slice(&(length as u64).to_le_bytes());
    }

    fn text(&mut self, text: &str) {
        self.list(text.len());
        self.0.extend_from_slice(text.as_bytes());
    }
}

impl Read {
    fn of(text: &[u8]) -> Self {
        Self { digest: *Key::digest(text).as_bytes(), size: text.len() as u64, scan: Scan::of(text) }
    }
}

impl Node {
    /// Returns whether the text would lead to the same headers if it was found there.
    fn is_as_if(&self, scan: &Scan, beside: Option<&Path>, through: Option<usize>) -> bool {
        let asks_beside = || scan.operands.iter().any(|operand| operand.quoted && operand.ask != Ask::Next);
        let asks_next = || scan.operands.iter().any(|operand| operand.ask == Ask::Next);
        let is_beside_same = || {
            let file = |path: &Path| Some(file_key(&FileIdentity::of_path(path)?, path));
            let file_of_this = self.beside.as_deref().and_then(file);
            file_of_this.is_some() && file_of_this == beside.and_then(file)
        };
        (self.beside.as_deref() == beside || !asks_beside() || is_beside_same())
            && (self.through == through || !asks_next())
    }

    /// Returns the name by which the compiler knows it.
    fn name(&self) -> String {
        format!("{ROOT}{}", self.label)
    }
}

impl Way {
    /// Returns the label of a text found under this name, from a header or from the source.
    fn label(self, header: Option<&Node>, name: &str) -> String {
        let mut label = match (self, header) {
            (Self::Given, _) => String::from("given/"),
            (Self::Absolute, _) => String::from("absolute/"),
            (Self::Include(place), _) => format!("include{place}/"),
            (Self::Beside, None) => String::from("source/"),
            (Self::Beside, Some(header)) => {
                let end = header.label.rfind('/').map_or(0, |end| end + 1);
                String::from(&header.label[..end])
            }
        };
        push_label(&mut label, name);
        label
    }
}

/// Returns the identity of the file that a path led to.
fn file_key(identity: &FileIdentity, path: &Path) -> FileKey {
    match identity.file() {
        (0, 0) => ((0, 0), fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf())),
        inode => (inode, PathBuf::new()),
    }
}

impl Closed {
    /// Returns the texts of a program whose headers are not searched for: for CUDA C++ the source, the given headers and the
    /// directories that the compiler searches itself; for other languages the source alone.
    pub(in crate::target::cuda) fn of_source(program: &Program) -> Self {
        let source = program.description.source.to_vec();
        if program.description.code != CodeType::Cxx {
            return Self { source, name: program.name().into(), ..Self::default() };
        }
        let given = program.given.iter();
        let name = program.source_dir.clone().unwrap_or_default().join(program.name());
        let directories = program.include_dirs.iter().map(|dir| format!("--include-path={}", dir.display()));
        Self {
            source,
            headers: given.map(|(name, text)| (name.clone(), text.clone().into_bytes())).collect(),
            name: name.display().to_string(),
            directories: directories.collect(),
            untold: Vec::new(),
        }
    }

    /// Replaces the name in each directive of a text by that of the header it leads to.
    fn close(&mut self, node: &Node, edges: &[Edge], text: &[u8], nodes: &[Node]) -> Vec<u8> {
        let mut edits: Vec<(Range<usize>, String)> = Vec::with_capacity(edges.len());
        for (operand, edge) in node.read.scan.operands.iter().zip(edges) {
            let replacement = match edge {
                Edge::To(to) => format!("\"{}\"", nodes[*to].name()),
                // With blanks, so that it does not join the tokens around it.
                Edge::Exists(exists) => format!(" {} ", u8::from(*exists)),
                Edge::Answer(true) => format!("\"{THERE}\""),
                // If the compiler reads the line, it must report a missing header, and find none.
                Edge::Nowhere | Edge::Answer(false) => {
                    if *edge == Edge::Nowhere && !Path::new(&operand.name).is_absolute() {
                        continue;
                    }
                    format!("\"not found: {}\"", operand.name.replace('"', "'"))
                }
            };
            edits.push((operand.range.clone(), replacement));
        }
        // Only the compiler knows whether such a line is read. If it is, the compiler finds no such file.
        for (range, line) in &node.read.scan.untold {
            edits.push((range.clone(), format!("\"{UNTOLD}{} \"", self.untold.len())));
            self.untold.push((node.place.clone(), *line));
        }
        edits.sort_unstable_by_key(|(range, _)| range.start);
        rewrite(text, &edits)
    }

    /// Returns the error of an include that the compiler's log reports as missing, if only the preprocessor could compute its name.
    pub(in crate::target::cuda) fn untold_in(&self, log: &str) -> Option<HeaderError> {
        let (_, rest) = log.split_once(UNTOLD)?;
        let (place, line) = self.untold.get(rest.split_once(' ')?.0.parse::<usize>().ok()?)?.clone();
        Some(HeaderError::new(Problem::Text { place, line, trouble: Trouble::ComputedName }))
    }
}

/// Appends `name` to `label`, part by part, without quotes, backslashes or `..`. Different names get different labels.
fn push_label(label: &mut String, name: &str) {
    for (place, part) in name.trim_start_matches('/').split('/').enumerate() {
        if place > 0 {
            label.push('/');
        }
        match part {
            "" => label.push_str("~none"),
            "." => label.push_str("~here"),
            ".." => label.push_str("~up"),
            _ => part.bytes().for_each(|byte| push_byte(label, byte)),
        }
    }
}

/// Appends a byte. A tilde and two upper-case hexadecimal digits stand for a byte; `push_label` puts a tilde before words.
fn push_byte(label: &mut String, byte: u8) {
    if byte.is_ascii_alphanumeric() || b"._-+".contains(&byte) {
        label.push(char::from(byte));
    } else {
        // Writing to a string cannot fail.
        let _ = write!(label, "~{byte:02X}");
    }
}
