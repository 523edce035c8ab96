//! The state of everything that a compilation read or looked for, taken right after it.

use std::{
    collections::{HashMap, HashSet},
    fs, io,
    path::{Path, PathBuf},
};

use warmstart_core::{key::Key, reason::Reason};

use super::{
    dependencies::{Dependencies, Digests, Header, Located, Place, Root, Roots, State},
    kernel::Kernel,
    scan::{Name, Pieces, Scan, scan, scan_flag},
};
use crate::{
    os::{FileIdentity, Stamp},
    target::files::FileContent,
};

/// The dependencies of one compilation, and what tells whether one changed meanwhile.
#[derive(Debug)]
pub(super) struct Snapshot {
    pub(super) dependencies: Dependencies,
    /// Of every file that was found.
    files: Vec<FileIdentity>,
    /// When a directory or a link on the way to one of them changed last.
    ways: Vec<Stamp>,
}

impl Snapshot {
    /// Reads all that is in `listed`, which is the compiler's own list, and looks up what it must have looked up.
    /// `ignored` is a directory whose changes are our own doing.
    ///
    /// # Errors
    /// [`Reason::Uncacheable`] if the object depends on more than can be told, [`Reason::InputUnstable`] if a file is
    /// gone already.
    pub(super) fn take(
        listed: &[Located],
        kernel: &Kernel,
        roots: Roots<'_>,
        digests: &Digests,
        ignored: &Path,
    ) -> Result<Self, Reason> {
        let mut collector = Collector::new(roots, digests);
        // Flags define macros, and a macro can hold what a source can.
        let quiets = |text: &str| quiets_dates(text.as_bytes());
        if kernel.all_flags().iter().any(|flag| quiets(flag)) || quiets(kernel.source()) {
            return Err(Reason::Uncacheable);
        }
        let mut scans: Vec<(Option<Located>, Scan)> =
            kernel.all_flags().iter().map(|flag| (None, scan_flag(flag))).collect();
        scans.push((None, scan(kernel.source().as_bytes())));
        for at in listed {
            if let Some(content) = collector.read(at)? {
                if at.is_callers() && quiets_dates(&content.bytes) {
                    return Err(Reason::Uncacheable);
                }
                scans.push((Some(at.clone()), scan(&content.bytes)));
            }
        }
        // Found by a search that is not the one we know, unless a path is spelt out somewhere.
        let spells_paths = scans
            .iter()
            .any(|(_, scan)| scan.computed || scan.names.iter().any(|name| name.text.starts_with('/')));
        if !spells_paths && listed.iter().any(|at| at.root == Root::Absolute) {
            return Err(Reason::Uncacheable);
        }
        // What the compiler's own headers do with the compiler's own extensions is the compiler's matter.
        let mut pieces = Pieces::default();
        for (_, scan) in scans.iter().filter(|(at, _)| at.as_ref().is_none_or(|at| collector.is_callers(at)))
        {
            pieces.add(&scan.pieces);
            if scan.opaque.is_some() {
                return Err(Reason::Uncacheable);
            }
        }
        if pieces.are_opaque() {
            return Err(Reason::Uncacheable);
        }
        if !scans.iter().any(|(_, scan)| scan.computed) && !collector.explains(listed, &scans) {
            return Err(Reason::Uncacheable);
        }
        for (at, scan) in &scans {
            collector.look_for_all(at.as_ref(), scan)?;
        }
        if scans.iter().any(|(_, scan)| scan.computed) {
            collector.look_for_every_spelling()?;
        }
        // A compiler may read a file of its own that no source names.
        collector.look_for(None, &Name::unasked())?;
        collector.dependencies.note_twins(roots)?;
        Ok(collector.finish(ignored))
    }

    /// Whether nothing changed since `reference`, and so nothing while the compiler ran.
    pub(super) fn is_older_than(&self, reference: Stamp) -> bool {
        self.files.iter().all(|file| file.is_older_than(reference))
            && self.ways.iter().all(|changed| *changed < reference)
    }

    /// Whether nothing changed from one snapshot to the other, and so nothing while the compiler ran in between.
    pub(super) fn is_same_as(&self, other: &Self) -> bool {
        self.dependencies == other.dependencies && self.files == other.files
    }
}

/// Whether a pragma or a flag may keep the compiler from saying that the object holds the time.
fn quiets_dates(text: &[u8]) -> bool {
    [&b"date-time"[..], b"-Weverything"].iter().any(|word| text.windows(word.len()).any(|part| part == *word))
}

impl Name {
    /// The header that a compiler reads although no source names it.
    fn unasked() -> Self {
        Self { text: "stdc-predef.h".into(), quoted: false, everywhere: false }
    }
}

struct Collector<'a> {
    roots: Roots<'a>,
    digests: &'a Digests,
    dependencies: Dependencies,
    files: Vec<FileIdentity>,
    /// The places of the headers and of the places in the dependencies.
    headers: HashSet<Located>,
    places: HashSet<Located>,
    seen: HashMap<Located, State>,
    /// Directories whose changes could have changed what was found.
    directories: HashSet<PathBuf>,
}

impl<'a> Collector<'a> {
    fn new(roots: Roots<'a>, digests: &'a Digests) -> Self {
        Self {
            roots,
            digests,
            dependencies: Dependencies::default(),
            files: Vec::new(),
            headers: HashSet::new(),
            places: HashSet::new(),
            seen: HashMap::new(),
            directories: HashSet::new(),
        }
    }

    /// Reads a header, unless it was read already.
    fn read(&mut self, at: &Located) -> Result<Option<FileContent<Key>>, Reason> {
        if self.headers.contains(at) {
            return Ok(None);
        }
        let path = self.roots.path(at).ok_or(Reason::Uncacheable)?;
        let content = self.digests.read(&path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Reason::InputUnstable,
            _ => Reason::Uncacheable,
        })?;
        self.add(at, &path, &content);
        Ok(Some(content))
    }

    fn add(&mut self, at: &Located, path: &Path, content: &FileContent<Key>) {
        self.headers.insert(at.clone());
        self.dependencies.headers.push(Header { at: at.clone(), digest: *content.made.as_bytes() });
        self.files.push(content.identity);
        self.directories.extend(path.parent().map(Path::to_path_buf));
    }

    /// Whether a header is the caller's: one of the compiler's may be found through a directory of the caller's.
    fn is_callers(&self, at: &Located) -> bool {
        let real = |path: &Path| fs::canonicalize(path).ok();
        let path = self.roots.path(at).and_then(|path| real(&path));
        let below = |directory: &String| {
            real(Path::new(directory))
                .is_some_and(|directory| path.as_ref().is_some_and(|path| path.starts_with(directory)))
        };
        at.is_callers() && !self.roots.system.iter().any(below)
    }

    /// Whether for every listed header there is a name that leads to it. One that none leads to is included in a way
    /// that the scan does not see, and so it is not known where else the compiler looked.
    fn explains(&self, listed: &[Located], scans: &[(Option<Located>, Scan)]) -> bool {
        let mut unexplained: HashSet<PathBuf> = listed.iter().filter_map(|at| self.roots.path(at)).collect();
        let mut explain = |from, name: &Name| {
            for at in self.candidates(from, name) {
                if let Some(path) = self.roots.path(&at) {
                    unexplained.remove(&path);
                }
            }
        };
        let unasked = Name::unasked();
        explain(None, &unasked);
        for (at, scan) in scans {
            scan.names.iter().for_each(|name| explain(at.as_ref(), name));
        }
        unexplained.is_empty()
    }

    fn look_for_all(&mut self, from: Option<&Located>, scan: &Scan) -> Result<(), Reason> {
        scan.names.iter().try_for_each(|name| self.look_for(from, name))
    }

    /// Notes every place where the compiler looks before it finds `name`, whether or not it is found in the end.
    fn look_for(&mut self, from: Option<&Located>, name: &Name) -> Result<(), Reason> {
        for at in self.candidates(from, name) {
            match self.look_at(&at)? {
                State::File if name.everywhere => self.note(at, State::File),
                State::File if self.headers.contains(&at) => break,
                // A branch that is skipped, or the same file found under another name: the compiler goes on as if it
                // had read nothing. The latter only as long as the contents agree.
                State::File => self.note_if_double(&at)?,
                State::Directory => self.note(at, State::Directory),
                State::Absent => {}
            }
        }
        Ok(())
    }

    /// Where the compiler looks for `name`, in its order.
    fn candidates(&self, from: Option<&Located>, name: &Name) -> Vec<Located> {
        if name.text.starts_with('/') {
            return vec![Located::new(Root::Absolute, name.text.as_str())];
        }
        let quoted = from
            .map(|from| from.sibling(&name.text))
            .into_iter()
            .chain(self.roots.source.map(|_| Located::new(Root::Source, name.text.as_str())));
        let listed = self.listed().map(|root| Located::new(root, name.text.as_str()));
        if name.quoted { quoted.chain(listed).collect() } else { listed.collect() }
    }

    /// The directories that every search goes through.
    fn listed(&self) -> impl Iterator<Item = Root> + use<> {
        let count = |length| u32::try_from(length).unwrap_or(u32::MAX);
        let [includes, system] = [count(self.roots.includes.len()), count(self.roots.system.len())];
        (0..includes).map(Root::Include).chain((0..system).map(Root::System))
    }

    /// For names that are macros: notes every place where one of the headers could have been found instead, under
    /// any ending of its path.
    fn look_for_every_spelling(&mut self) -> Result<(), Reason> {
        if self.headers.iter().any(|at| at.is_callers() && at.path.split('/').any(|part| part == "..")) {
            return Err(Reason::Uncacheable);
        }
        let mut spellings: Vec<String> = Vec::new();
        let mut directories: Vec<Located> = self.listed().map(|root| Located::new(root, "")).collect();
        directories.extend(self.roots.source.map(|_| Located::new(Root::Source, "")));
        for Header { at, .. } in &self.dependencies.headers {
            let mut rest = at.path.trim_start_matches('/');
            spellings.push(String::from(rest));
            while let Some((_, ending)) = rest.split_once('/') {
                spellings.push(String::from(ending));
                rest = ending;
            }
            directories.push(at.sibling(""));
        }
        spellings.sort();
        spellings.dedup();
        directories.sort();
        directories.dedup();
        for directory in &directories {
            for spelling in &spellings {
                self.look_at(&directory.sibling(spelling))?;
            }
        }
        Ok(())
    }

    /// What stands there. Where nothing does, the first part of the path that is missing is noted.
    fn look_at(&mut self, at: &Located) -> Result<State, Reason> {
        let state = self.state(at)?;
        if state != State::Absent {
            return Ok(state);
        }
        let ends = at.path.match_indices('/').map(|(place, _)| place).chain([at.path.len()]);
        let first = if at.root == Root::Absolute { None } else { Some(0) };
        for end in first.into_iter().chain(ends) {
            let part = Located::new(at.root, &at.path[..end]);
            if part.path.is_empty() && at.root == Root::Absolute {
                continue;
            }
            let state = self.state(&part)?;
            if state != State::Directory {
                self.note(part, state);
                break;
            }
        }
        Ok(State::Absent)
    }

    fn state(&mut self, at: &Located) -> Result<State, Reason> {
        if let Some(state) = self.seen.get(at) {
            return Ok(*state);
        }
        let path = self.roots.path(at).ok_or(Reason::Uncacheable)?;
        let state = State::of(&path);
        if state == State::File {
            self.files.extend(FileIdentity::of_path(&path));
        }
        // Something may have come or gone there while the compiler ran.
        self.directories.extend(path.parent().map(Path::to_path_buf));
        self.seen.insert(at.clone(), state);
        Ok(state)
    }

    fn note(&mut self, at: Located, state: State) {
        if self.places.insert(at.clone()) {
            self.dependencies.places.push(Place { at, state });
        }
    }

    fn note_if_double(&mut self, at: &Located) -> Result<(), Reason> {
        let path = self.roots.path(at).ok_or(Reason::Uncacheable)?;
        if let Ok(content) = self.digests.read(&path)
            && self.dependencies.headers.iter().any(|header| header.digest == *content.made.as_bytes())
        {
            self.add(at, &path, &content);
        }
        Ok(())
    }

    fn finish(self, ignored: &Path) -> Snapshot {
        let mut ways = HashSet::new();
        for directory in &self.directories {
            // A directory that is not there has a parent that was looked at.
            let real = fs::canonicalize(directory).ok();
            for way in directory.ancestors().chain(real.iter().flat_map(|real| real.ancestors())) {
                if way != ignored {
                    ways.insert(way.to_path_buf());
                }
            }
        }
        let changed = |way: PathBuf| {
            fs::symlink_metadata(way).ok().map(|metadata| FileIdentity::of(&metadata).last_change())
        };
        Snapshot {
            dependencies: self.dependencies,
            files: self.files,
            ways: ways.into_iter().filter_map(changed).collect(),
        }
    }
}
