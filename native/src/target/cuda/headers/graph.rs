//! Which text includes which, found in NVRTC's order.
//!
//! A name is first looked for among the given headers, as it is spelled; then, in quotes, beside the text that includes
//! it; then in the include directories in order. `#include_next` begins behind the include directory that the text
//! itself was found through; found in any other way, it has no place in that order, and the search begins anew.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fmt::Write as _,
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use foldhash::fast::RandomState;
use warmstart_core::{
    includes::{Ask, Operand, Scan},
    key::Key,
};

use super::{
    error::{HeaderError, Place, Problem},
    found::{Found, Read},
};
use crate::{
    os::FileIdentity,
    target::{cuda::Program, files::Memo},
};

/// How many headers a program may have.
const MAX_FILES: usize = 10_000;

/// How large its headers may be in all.
const MAX_BYTES: u64 = if cfg!(test) { 1 << 20 } else { 256 << 20 };

/// All texts that a program may reach. The first is its own.
pub(super) struct Graph<'a> {
    pub(super) program: &'a Program,
    memo: &'a Memo<Arc<Read>>,
    /// Whether each text is read anew and kept. If not, what is known of a file holds as long as it did not change.
    is_anew: bool,
    pub(super) nodes: Vec<Node>,
    pub(super) pre_includes: Vec<usize>,
    /// Whether what macros ask for is there.
    pub(super) answers: BTreeMap<String, bool>,
    /// The macros of the command line, read.
    definitions: Vec<Scan>,
    given: HashMap<usize, usize, RandomState>,
    files: HashMap<FileKey, Vec<usize>, RandomState>,
    labels: HashSet<String, RandomState>,
    bytes: u64,
}

/// A text, at a place.
pub(super) struct Node {
    pub(super) label: String,
    pub(super) place: Place,
    pub(super) read: Arc<Read>,
    /// The text itself, where it is kept.
    pub(super) text: Option<Vec<u8>>,
    /// Where names in quotes are looked for first.
    beside: Option<PathBuf>,
    /// The include directory that it was found through.
    through: Option<usize>,
    /// Where its operands lead, in order.
    pub(super) edges: Vec<Edge>,
}

/// Where an operand leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Edge {
    To(usize),
    Nowhere,
    Exists(bool),
    /// What a macro asks for, and whether it is there.
    Answer(bool),
}

/// Which file it is, whatever it is called.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum FileKey {
    Inode(u64, u64),
    /// Where there are no inodes.
    Path(PathBuf),
}

/// Where a file was found.
struct Located {
    path: PathBuf,
    identity: FileIdentity,
    size: u64,
    way: Way,
}

/// How a file was found.
#[derive(Clone, Copy, Debug)]
enum Way {
    Absolute,
    Beside,
    Include(usize),
}

impl<'a> Graph<'a> {
    /// Follows all that the program may include. `read` is what was read of the program itself.
    pub(super) fn explore(
        program: &'a Program,
        read: Arc<Read>,
        memo: &'a Memo<Arc<Read>>,
        is_anew: bool,
    ) -> Result<Self, HeaderError> {
        let source = Node {
            label: String::from("source"),
            place: Place::Source,
            read,
            text: None,
            beside: program.source_dir.clone().filter(|_| program.searches_beside()),
            through: None,
            edges: Vec::new(),
        };
        let mut graph = Self {
            program,
            memo,
            is_anew,
            nodes: vec![source],
            pre_includes: Vec::new(),
            answers: BTreeMap::new(),
            definitions: Vec::new(),
            given: HashMap::default(),
            files: HashMap::default(),
            labels: HashSet::default(),
            bytes: 0,
        };
        graph.read_definitions()?;
        for name in &program.pre_includes {
            let found = graph.include(0, name, false, false)?;
            let node = found.ok_or_else(|| HeaderError::new(Problem::NoPreInclude(name.clone())))?;
            graph.pre_includes.push(node);
        }
        let mut followed = 0;
        while followed < graph.nodes.len() {
            graph.follow(followed)?;
            followed += 1;
        }
        graph.refuse_pasted()?;
        Ok(graph)
    }

    fn read_definitions(&mut self) -> Result<(), HeaderError> {
        for text in self.program.definitions() {
            if text.contains('\n') {
                return Err(HeaderError::new(Problem::Lines(text.clone())));
            }
            let scan = Scan::of_definition(text);
            if let Some((trouble, line)) = scan.trouble(self.program.standard()) {
                return Err(HeaderError::new(Problem::Text {
                    place: Place::Definition(text.clone()),
                    line,
                    trouble,
                }));
            }
            self.definitions.push(scan);
        }
        Ok(())
    }

    fn follow(&mut self, from: usize) -> Result<(), HeaderError> {
        let read = Arc::clone(&self.nodes[from].read);
        if let Some((trouble, line)) = read.scan.trouble(self.program.standard()) {
            return Err(HeaderError::new(Problem::Text {
                place: self.nodes[from].place.clone(),
                line,
                trouble,
            }));
        }
        let mut edges = Vec::with_capacity(read.scan.operands.len());
        for Operand { ask, name, quoted, .. } in &read.scan.operands {
            edges.push(match ask {
                Ask::Exists => Edge::Exists(self.exists(from, name, *quoted)?),
                Ask::Macro => {
                    let exists = self.exists(from, name, *quoted)?;
                    if self.answers.insert(name.clone(), exists).is_some_and(|known| known != exists) {
                        return Err(HeaderError::new(Problem::AmbiguousQuestion(name.clone())));
                    }
                    Edge::Answer(exists)
                }
                Ask::Include | Ask::Next => {
                    self.include(from, name, *quoted, *ask == Ask::Next)?.map_or(Edge::Nowhere, Edge::To)
                }
            });
        }
        self.nodes[from].edges = edges;
        Ok(())
    }

    /// The text that a name leads to, read if it is new.
    fn include(
        &mut self,
        from: usize,
        name: &str,
        quoted: bool,
        next: bool,
    ) -> Result<Option<usize>, HeaderError> {
        if let Some(place) = self.program.given.iter().position(|(given, _)| given == name) {
            return self.given(place).map(Some);
        }
        match self.find(from, name, quoted, next)? {
            Some(located) => self.file(from, name, located),
            None => Ok(None),
        }
    }

    fn exists(&self, from: usize, name: &str, quoted: bool) -> Result<bool, HeaderError> {
        let is_given = self.program.given.iter().any(|(given, _)| given == name);
        Ok(is_given || self.find(from, name, quoted, false)?.is_some())
    }

    /// Looks for the file of a name as NVRTC does.
    fn find(
        &self,
        from: usize,
        name: &str,
        quoted: bool,
        next: bool,
    ) -> Result<Option<Located>, HeaderError> {
        let look = |path: PathBuf, way| -> Result<Option<Located>, HeaderError> {
            let Some(metadata) = fs::metadata(&path).ok().filter(|metadata| !metadata.is_dir()) else {
                return Ok(None);
            };
            if !metadata.is_file() {
                return Err(HeaderError::new(Problem::NoFile(path)));
            }
            Ok(Some(Located { path, identity: FileIdentity::of(&metadata), size: metadata.len(), way }))
        };
        if Path::new(name).is_absolute() {
            return look(PathBuf::from(name), Way::Absolute);
        }
        let node = &self.nodes[from];
        // In the program itself, `#include_next` is an `#include`.
        let next = next && from > 0;
        if let Some(beside) = node.beside.as_ref().filter(|_| quoted && !next)
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
        let mut label = String::from("given/");
        push_label(&mut label, name);
        let path = Path::new(name);
        let beside = path.parent().filter(|_| path.is_absolute() && self.program.searches_beside());
        let node = self.add(Node {
            label,
            place: Place::Given(name.clone()),
            read: Arc::new(Read::of(text.as_bytes())),
            text: Some(text.clone().into_bytes()),
            beside: beside.map(Path::to_path_buf),
            through: None,
            edges: Vec::new(),
        })?;
        self.given.insert(place, node);
        Ok(node)
    }

    /// A file as a text. Nothing if it has gone.
    fn file(&mut self, from: usize, name: &str, located: Located) -> Result<Option<usize>, HeaderError> {
        let Located { path, mut identity, size, way } = located;
        // Before it is read, for it may be larger than memory.
        if size > MAX_BYTES {
            return Err(HeaderError::new(Problem::TooLarge(MAX_BYTES)));
        }
        let make = |text: &[u8]| Arc::new(Read::of(text));
        let known = if self.is_anew {
            // A text that is here already is not read again: it could have changed.
            let node = self.known(&identity, &path).map(|nodes| &self.nodes[nodes[0]]);
            node.map(|node| (Arc::clone(&node.read), node.text.clone()))
        } else {
            self.memo.of_identity(identity, &path, make).map(|read| (read, None))
        };
        let read: io::Result<_> = known.map_or_else(
            || {
                let content = self.memo.read(&path, make)?;
                identity = content.identity;
                Ok((content.made, Some(content.bytes)))
            },
            Ok,
        );
        let (read, text) = match read {
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(HeaderError::new(Problem::Unreadable { path, error })),
        };
        let beside = path.parent().filter(|_| self.program.searches_beside());
        let through = if let Way::Include(place) = way { Some(place) } else { None };
        if let Some(nodes) = self.known(&identity, &path) {
            let same = nodes.iter().find(|node| self.nodes[**node].is_as_if(&read.scan, beside, through));
            if let Some(node) = same {
                return Ok(Some(*node));
            }
            // Only the compiler knows which of the two it reads.
            if read.scan.once {
                let (one, other) = (self.nodes[nodes[0]].place.clone(), Place::File(path));
                return Err(HeaderError::new(Problem::Twice { one, other }));
            }
        }
        let label = self.label_of(from, name, way);
        let key = FileKey::of(&identity, &path);
        let beside = beside.map(Path::to_path_buf);
        let node = self.add(Node {
            label,
            place: Place::File(path),
            read,
            text,
            beside,
            through,
            edges: Vec::new(),
        })?;
        self.files.entry(key).or_default().push(node);
        Ok(Some(node))
    }

    fn known(&self, identity: &FileIdentity, path: &Path) -> Option<&Vec<usize>> {
        if self.files.is_empty() { None } else { self.files.get(&FileKey::of(identity, path)) }
    }

    fn label_of(&self, from: usize, name: &str, way: Way) -> String {
        let mut text = match way {
            Way::Absolute => String::from("absolute/"),
            Way::Include(place) => format!("include{place}/"),
            Way::Beside if from == 0 => String::from("source/"),
            Way::Beside => {
                let beside = self.nodes[from].label.as_str();
                let end = beside.rfind('/').map_or(0, |end| end + 1);
                String::from(&beside[..end])
            }
        };
        push_label(&mut text, name);
        text
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
        // No label of a name has a tilde and a small number there.
        while !self.labels.insert(node.label.clone()) {
            number += 1;
            node.label = format!("{label}~v{number}");
        }
        self.nodes.push(node);
        Ok(self.nodes.len() - 1)
    }

    /// What `__has_include` is pasted from is not seen.
    fn refuse_pasted(&self) -> Result<(), HeaderError> {
        let scans = || self.nodes.iter().map(|node| &node.read.scan).chain(&self.definitions);
        let fragment = scans().enumerate().find_map(|(place, scan)| Some((place, scan.fragment?)));
        let Some((place, line)) = fragment.filter(|_| scans().any(|scan| scan.pastes)) else { return Ok(()) };
        let place = match self.nodes.get(place) {
            Some(node) => node.place.clone(),
            None => Place::Definition(self.program.definitions()[place - self.nodes.len()].clone()),
        };
        Err(HeaderError::new(Problem::Pasted { place, line }))
    }

    pub(super) fn found(&self) -> Found {
        Found {
            headers: self.nodes[1..].iter().map(|node| (node.label.clone(), node.read.digest)).collect(),
            search: self.edges_digest(),
        }
    }

    /// A digest of where everything leads. With the texts and the labels it decides what the compiler is given.
    fn edges_digest(&self) -> [u8; 32] {
        let mut edges = Edges(Vec::with_capacity(128 + 32 * self.nodes.len()));
        let label = |node: usize| self.nodes[node].label.as_str();
        edges.list(self.pre_includes.len());
        self.pre_includes.iter().for_each(|node| edges.text(label(*node)));
        let told = |node: &Node| node.edges.iter().filter(|edge| !matches!(edge, Edge::Answer(_))).count();
        let nodes = || self.nodes.iter().filter(|node| told(node) > 0);
        edges.list(nodes().count());
        for node in nodes() {
            edges.text(&node.label);
            edges.list(told(node));
            for edge in &node.edges {
                match edge {
                    // Stands below, once for each name.
                    Edge::Answer(_) => {}
                    Edge::To(node) => edges.text(label(*node)),
                    // No label is empty, and none has a question mark.
                    Edge::Nowhere => edges.text(""),
                    Edge::Exists(true) => edges.text("?1"),
                    Edge::Exists(false) => edges.text("?0"),
                }
            }
        }
        // Where includes of macros would lead, of which there are none.
        edges.list(0);
        edges.list(self.answers.len());
        for (name, exists) in &self.answers {
            edges.text(name);
            edges.text(if *exists { "?1" } else { "?0" });
        }
        *Key::digest(&edges.0).as_bytes()
    }
}

/// Bytes that no two graphs share: each text and each list stands behind its length.
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

impl Node {
    /// Whether a text that was found there would lead to the same.
    fn is_as_if(&self, scan: &Scan, beside: Option<&Path>, through: Option<usize>) -> bool {
        let asks_beside = || scan.operands.iter().any(|operand| operand.quoted && operand.ask != Ask::Next);
        let asks_next = || scan.operands.iter().any(|operand| operand.ask == Ask::Next);
        let is_beside_same = || {
            let file = |path: &Path| FileKey::of(&FileIdentity::of_path(path)?, path).into();
            let same: Option<(FileKey, FileKey)> =
                self.beside.as_deref().and_then(file).zip(beside.and_then(file));
            same.is_some_and(|(one, other)| one == other)
        };
        (self.beside.as_deref() == beside || !asks_beside() || is_beside_same())
            && (self.through == through || !asks_next())
    }
}

impl FileKey {
    fn of(identity: &FileIdentity, path: &Path) -> Self {
        match identity.file() {
            (0, 0) => Self::Path(fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf())),
            (device, inode) => Self::Inode(device, inode),
        }
    }
}

/// Appends `name` to `label`, part by part, as letters that mean nothing to anybody: no quotes, no backslashes, no way
/// upwards. Two names stay two.
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

/// A tilde with two upper-case digits stands for a byte, one with lower-case letters for a part.
fn push_byte(label: &mut String, byte: u8) {
    if byte.is_ascii_alphanumeric() || b"._-+".contains(&byte) {
        label.push(char::from(byte));
    } else {
        // Writing to a string cannot fail.
        let _ = write!(label, "~{byte:02X}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn label(name: &str) -> String {
        let mut label = String::from("include0/");
        push_label(&mut label, name);
        label
    }

    #[test]
    fn odd_names_become_plain_ones() {
        assert_eq!(label("a/b-1.cuh"), "include0/a/b-1.cuh");
        assert_eq!(label("../a b.h"), "include0/~up/a~20b.h");
        assert_eq!(label("/x//./y"), "include0/x/~none/~here/y");
        assert_eq!(label("ü\"\\"), "include0/~C3~BC~22~5C");
    }

    #[test]
    fn two_names_stay_two() {
        let names = ["..", "~up", ".", "", "~", "~7E", "a b", "a~20b", "~none", "...", "./", "~here"];
        for (place, one) in names.iter().enumerate() {
            for other in &names[place + 1..] {
                assert_ne!(label(one), label(other), "{one:?} {other:?}");
            }
        }
    }
}
