//! The state of everything that a compilation read or looked for, taken right after it.

use std::{
    collections::{HashMap, HashSet},
    fs, io,
    path::{Path, PathBuf},
};

use warmstart_core::{key::Key, reason::MissReason};

use super::{
    dependencies::{Dependencies, Header, Located, Place, Root, State},
    kernel::Request,
    scan::{Name, Scan},
};
use crate::{
    os::{FileIdentity, Stamp},
    target::files::{self, FileContent},
};

/// The dependencies of a request, and the file identities that tell whether one changed meanwhile.
#[derive(Debug)]
pub(super) struct Snapshot {
    pub(super) dependencies: Dependencies,
    /// The identity of every file that was found.
    files: Vec<FileIdentity>,
    /// When a directory or a link on the path of one of them last changed.
    ways: Vec<Stamp>,
}

impl Snapshot {
    /// Reads all that is in `listed`, which is the compiler's own list, and looks up what it must have looked up.
    /// `ignored` is a directory whose changes are our own doing.
    ///
    /// # Errors
    /// [`MissReason::Uncacheable`] if the object depends on more than can be told, [`MissReason::InputUnstable`] if a file is
    /// gone already.
    pub(super) fn take(
        request: &Request<'_>,
        listed: &[Located],
        ignored: &Path,
    ) -> Result<Self, MissReason> {
        let (kernel, roots) = (request.kernel, &request.roots);
        let mut collector = Collector {
            request,
            dependencies: Dependencies::default(),
            files: Vec::new(),
            seen: HashMap::new(),
        };
        // Flags define macros, and a macro can hold what a source can.
        let mut scans: Vec<_> = kernel.flags.iter().map(|flag| (None, Scan::of_flag(flag))).collect();
        scans.push((None, Scan::of(kernel.source.as_bytes())));
        // The compiler reads it although no source names it.
        scans.push((None, Scan::of(b"#include <stdc-predef.h>")));
        for at in listed {
            if !collector.is_header(at) {
                let content = collector.read(at)?;
                scans.push((Some(at), Scan::of(&content.bytes)));
            }
        }
        // What the compiler's own headers do with the compiler's own extensions is the compiler's matter.
        let callers: Vec<&Scan> = scans
            .iter()
            .filter(|(at, _)| at.is_none_or(|at| collector.is_callers(at)))
            .map(|(_, scan)| scan)
            .collect();
        let pastes = callers.iter().any(|scan| scan.pastes) && callers.iter().any(|scan| scan.pasted);
        if pastes || callers.iter().any(|scan| scan.opaque) || scans.iter().any(|(_, scan)| scan.computed) {
            return Err(MissReason::Uncacheable);
        }
        for (at, scan) in &scans {
            scan.names.iter().try_for_each(|name| collector.look_for(*at, name))?;
        }
        // A header that no name leads to is included in a way that the scan does not see, and so it is not known where
        // else the compiler looked.
        let found = collector.seen.iter().filter(|(_, state)| **state == State::File);
        let found: HashSet<_> = found.map(|(at, _)| roots.path(at)).collect();
        if !listed.iter().all(|at| found.contains(&roots.path(at))) {
            return Err(MissReason::Uncacheable);
        }
        let duplicates = collector.dependencies.find_duplicates(roots).ok_or(MissReason::InputUnstable)?;
        collector.dependencies.duplicates = duplicates;
        Ok(collector.finish(ignored))
    }

    /// Returns whether nothing changed since `reference`, and so nothing while the compiler ran.
    pub(super) fn is_older_than(&self, reference: Stamp) -> bool {
        self.files.iter().all(|file| file.is_older_than(reference))
            && self.ways.iter().all(|changed| *changed < reference)
    }

    /// Returns whether nothing changed between two snapshots, and so nothing while the compiler ran in between.
    pub(super) fn is_same_as(&self, other: &Self) -> bool {
        self.dependencies == other.dependencies && self.files == other.files
    }
}

struct Collector<'a> {
    request: &'a Request<'a>,
    dependencies: Dependencies,
    files: Vec<FileIdentity>,
    /// The state of each place where a file was searched for.
    seen: HashMap<Located, State>,
}

impl Collector<'_> {
    fn path(&self, at: &Located) -> Result<PathBuf, MissReason> {
        self.request.roots.path(at).ok_or(MissReason::Uncacheable)
    }

    fn is_header(&self, at: &Located) -> bool {
        self.dependencies.headers.iter().any(|header| header.at == *at)
    }

    /// Reads a header, and adds it to the dependencies.
    fn read(&mut self, at: &Located) -> Result<FileContent<Key>, MissReason> {
        let content = files::read(self.request.digests, &self.path(at)?, Key::digest).map_err(|error| {
            match error.kind() {
                io::ErrorKind::NotFound => MissReason::InputUnstable,
                _ => MissReason::Uncacheable,
            }
        })?;
        self.dependencies.headers.push(Header { at: at.clone(), digest: *content.made.as_bytes() });
        self.files.push(content.identity);
        Ok(content)
    }

    /// Returns whether a header is the caller's: one of the compiler may be found through a directory of the caller.
    fn is_callers(&self, at: &Located) -> bool {
        let real = self.request.roots.path(at).and_then(|path| fs::canonicalize(path).ok());
        let is_below = |directory: PathBuf| real.as_ref().is_some_and(|real| real.starts_with(directory));
        let below = |directory: &String| fs::canonicalize(directory).is_ok_and(is_below);
        !matches!(at.root, Root::System(_)) && !self.request.roots.system.iter().any(below)
    }

    /// Records every place where the compiler searches before it finds `name`, whether or not it finds it.
    fn look_for(&mut self, from: Option<&Located>, name: &Name) -> Result<(), MissReason> {
        for at in self.candidates(from, name) {
            match self.look_at(&at)? {
                State::File if name.everywhere => self.note(at, State::File),
                State::File if self.is_header(&at) => break,
                // A branch that is skipped, or the same file found under another name: the compiler goes on as if it
                // had read nothing. The latter only as long as the contents agree.
                State::File => self.add_if_duplicate(&at)?,
                State::Directory => self.note(at, State::Directory),
                State::Absent => {}
            }
        }
        Ok(())
    }

    /// Returns the places where the compiler searches for `name`, in its order.
    fn candidates(&self, from: Option<&Located>, name: &Name) -> Vec<Located> {
        let below = |root| Located::new(root, name.text.as_str());
        if name.text.starts_with('/') {
            return vec![below(Root::Absolute)];
        }
        let mut places = Vec::new();
        if name.quoted {
            places.extend(from.map(|from| from.sibling(&name.text)));
            places.extend(self.request.roots.source.iter().map(|_| below(Root::Source)));
        }
        places.extend((0..).zip(&self.request.roots.includes).map(|(place, _)| below(Root::Include(place))));
        places.extend((0..).zip(self.request.roots.system).map(|(place, _)| below(Root::System(place))));
        places
    }

    /// Returns the state of a place. If it is missing, records the first missing part of its path.
    fn look_at(&mut self, at: &Located) -> Result<State, MissReason> {
        let root = (at.root != Root::Absolute).then_some(0);
        let ends = at.path.match_indices('/').map(|(place, _)| place).filter(|place| *place > 0);
        for end in root.into_iter().chain(ends).chain([at.path.len()]) {
            let part = Located::new(at.root, &at.path[..end]);
            let state = self.state(&part)?;
            if end == at.path.len() && state != State::Absent {
                return Ok(state);
            }
            if state != State::Directory {
                self.note(part, state);
                break;
            }
        }
        Ok(State::Absent)
    }

    fn state(&mut self, at: &Located) -> Result<State, MissReason> {
        if let Some(state) = self.seen.get(at) {
            return Ok(*state);
        }
        let path = self.path(at)?;
        let state = State::of(&path);
        if state == State::File {
            self.files.extend(FileIdentity::of_path(&path));
        }
        self.seen.insert(at.clone(), state);
        Ok(state)
    }

    fn note(&mut self, at: Located, state: State) {
        let place = Place { at, state };
        if !self.dependencies.places.contains(&place) {
            self.dependencies.places.push(place);
        }
    }

    /// Adds a file that has the same content as a header.
    fn add_if_duplicate(&mut self, at: &Located) -> Result<(), MissReason> {
        let headers = self.dependencies.headers.len();
        let Ok(content) = self.read(at) else { return Ok(()) };
        let digest = content.made.as_bytes();
        if !self.dependencies.headers[..headers].iter().any(|header| header.digest == *digest) {
            self.dependencies.headers.truncate(headers);
        }
        Ok(())
    }

    fn finish(self, ignored: &Path) -> Snapshot {
        let mut ways = HashSet::new();
        // A file may have appeared or gone next to it while the compiler ran.
        let headers = self.dependencies.headers.iter().map(|header| &header.at);
        for path in self.seen.keys().chain(headers).filter_map(|at| self.request.roots.path(at)) {
            let Some(directory) = path.parent() else { continue };
            // The parent of a missing directory was checked.
            let real = fs::canonicalize(directory).ok();
            let above = directory.ancestors().chain(real.iter().flat_map(|real| real.ancestors()));
            ways.extend(above.filter(|way| *way != ignored).map(Path::to_path_buf));
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
