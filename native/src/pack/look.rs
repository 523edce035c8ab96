//! A file of packed weights that is looked into by reading: for those who show, prove and rewrite it.
//!
//! Nothing is mapped, so that whoever truncates the file meanwhile is an error and no SIGBUS, and so that files that others
//! may write to can be looked into.

use std::{fmt, fs::File, io, ops::Range, path::Path, time::Duration};

use warmstart_core::trailer::{
    FOOTER_LEN, HEADER_LEN, ModelId, Refusal,
    footer::Footer,
    header::{Commits, Header, Slot},
    pick::{Picked, pick},
    space,
    version2::{self, Version2},
};

use crate::{
    Reason,
    os::{Access, FileKind, Lock, MapDisk},
};

/// How often a lock is asked for anew because the file that was locked is no longer the one under the path.
pub(super) const ATTEMPTS: u32 = 16;

/// Why a file could not be looked into or rewritten. Nothing was changed.
#[derive(Debug)]
#[non_exhaustive]
pub enum FileError {
    /// The system says so.
    Io(io::Error),
    /// It is no regular file, but this.
    WrongKind(&'static str),
    /// Somebody else owns the file or may write to it, so that it is not rewritten.
    Untrusted,
    /// It is no file of packed weights that could be used.
    Refused(Refusal),
    /// Another process writes to the file, and did not end in time.
    Busy,
    /// A file is where the new one was to be.
    Exists,
    /// Two entries would have the same name in version 2: where a weight's name ends and that of its bias begins, it does
    /// not say.
    Clash(String, String),
    /// There are several models, or packings, of a weight of this name, of which version 2 holds one.
    Several(String),
    /// The file has nothing of this model.
    NoSuchModel(ModelId),
    /// This cannot be done with a file of this version.
    WrongVersion(u32),
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::WrongKind(found) => write!(f, "it is {found}; name a file of packed weights"),
            Self::Untrusted => f.write_str(
                "somebody else owns the file or may write to it; make it yours with chown and chmod go-w",
            ),
            Self::Refused(refusal) => {
                refusal.fmt(f)?;
                match refusal.reason() {
                    Reason::Foreign => f.write_str("; name a file of packed weights"),
                    Reason::NewerVersion => f.write_str("; a newer version of warmstart may read it"),
                    _ => f.write_str("; remove the file, and what it held is packed again"),
                }
            }
            Self::Busy => f.write_str("another process writes to the file; try again when it has ended"),
            Self::Exists => f.write_str("there is a file already; remove it, or name another"),
            Self::Clash(one, other) => {
                write!(
                    f,
                    "{one:?} and {other:?} would have the same name in version 2; the host must name one otherwise"
                )
            }
            Self::Several(name) => write!(
                f,
                "{name:?} is there of several models or packings, of which version 2 holds one; choose a model"
            ),
            Self::NoSuchModel(model) => {
                write!(f, "nothing in the file is of the model {model}; inspect lists those that are there")
            }
            Self::WrongVersion(version) => {
                write!(f, "the file is of version {version}: it can be read as it is, or be copied")
            }
        }
    }
}

impl std::error::Error for FileError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(error) => Some(error),
            Self::Refused(refusal) => Some(refusal),
            _ => None,
        }
    }
}

impl From<io::Error> for FileError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<Refusal> for FileError {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// Whether a path leads to what is, or was meant to be, a file of packed weights, of whatever version and in whatever state.
/// Follows no link, and waits for nobody.
///
/// # Errors
/// As the system reports.
pub fn recognise(path: impl AsRef<Path>) -> io::Result<bool> {
    let disk = crate::os::LocalMapDisk::new();
    let path = path.as_ref();
    if disk.facts_at(path)?.kind != FileKind::File {
        return Ok(false);
    }
    let file = disk.open(path, Access::Read)?;
    let len = disk.facts(&file)?.len;
    let begin = read(&disk, &file, 0..len.min(HEADER_LEN as u64))?;
    let end = read(&disk, &file, len.saturating_sub(FOOTER_LEN as u64)..len)?;
    let is_ours = !begin.is_empty() && Header::decode(&begin) != Err(Refusal::Foreign);
    Ok(is_ours || !matches!(Footer::decode(&end, len), Err(Refusal::Foreign | Refusal::Short { .. })))
}

/// An open file, and the bytes of its index.
#[derive(Debug)]
pub(super) struct Look<'d> {
    disk: &'d dyn MapDisk,
    pub(super) file: File,
    pub(super) len: u64,
    pub(super) index: IndexBytes,
}

/// The index of a file, as far as it was proved.
#[derive(Debug)]
pub(super) enum IndexBytes {
    Version2(Vec<u8>),
    /// Nothing was committed yet, or this.
    Version3 {
        commits: Box<Commits>,
        index: Option<Box<Picked<Vec<u8>>>>,
    },
}

impl<'d> Look<'d> {
    /// Opens a file and reads its index.
    pub(super) fn open(disk: &'d dyn MapDisk, path: &Path) -> Result<Self, FileError> {
        Self::of(disk, open(disk, path, Access::Read)?)
    }

    /// Opens a file, takes a lock of it, and reads its index. The lock is held while the file is open. With
    /// [`Lock::Writer`], only this user may be able to write to the file.
    pub(super) fn lock(
        disk: &'d dyn MapDisk,
        path: &Path,
        lock: Lock,
        patience: Duration,
    ) -> Result<Self, FileError> {
        let access = if lock == Lock::Writer { Access::Write } else { Access::Read };
        for _ in 0..ATTEMPTS {
            let file = open(disk, path, access)?;
            let facts = disk.facts(&file)?;
            if lock == Lock::Writer && !facts.is_trusted {
                return Err(FileError::Untrusted);
            }
            disk.lock(&file, lock, patience).map_err(|error| match error.kind() {
                io::ErrorKind::WouldBlock => FileError::Busy,
                _ => FileError::Io(error),
            })?;
            if disk.facts_at(path)?.identity == facts.identity {
                return Self::of(disk, file);
            }
        }
        Err(FileError::Busy)
    }

    fn of(disk: &'d dyn MapDisk, file: File) -> Result<Self, FileError> {
        let len = disk.facts(&file)?.len;
        let page = read(disk, &file, 0..len.min(HEADER_LEN as u64))?;
        // An empty page is the beginning of any.
        let header = if page.is_empty() { Err(Refusal::Foreign) } else { Header::decode(&page) };
        let index = match header {
            Ok(_) => {
                let commits = Commits::read(&page)?;
                let picked =
                    pick_index(&commits, len, |slot| read(disk, &file, slot.index_start..slot.end()))?;
                IndexBytes::Version3 { commits: Box::new(commits), index: picked?.map(Box::new) }
            }
            Err(Refusal::Foreign) => {
                let tail = read(disk, &file, len.saturating_sub(FOOTER_LEN as u64)..len)?;
                let footer = version2::footer(&tail, len)?;
                let trailer = read(disk, &file, footer.index_start..len)?;
                version2::decode(&trailer, len)?;
                IndexBytes::Version2(trailer)
            }
            Err(refusal) => return Err(refusal.into()),
        };
        Ok(Self { disk, file, len, index })
    }

    /// The trailer of version 2, if it is one.
    pub(super) fn version2(&self) -> Option<Version2<'_>> {
        let IndexBytes::Version2(trailer) = &self.index else { return None };
        version2::decode(trailer, self.len).ok()
    }

    /// Why the newest index of version 3 does not count.
    pub(super) fn refusal(&self) -> Option<Refusal> {
        match &self.index {
            IndexBytes::Version2(_) => None,
            IndexBytes::Version3 { commits, index } => {
                index.as_ref().map_or(commits.refused(), |picked| picked.refused)
            }
        }
    }

    /// Bytes that are neither header, entry, padding, index nor footer. What an interrupted writer left behind the index is
    /// among them.
    pub(super) fn dead_bytes(&self) -> io::Result<u64> {
        match &self.index {
            IndexBytes::Version3 { index: None, .. } => Ok(self.len.saturating_sub(HEADER_LEN as u64)),
            IndexBytes::Version3 { index: Some(picked), .. } => {
                let Picked { layout, slot, block, .. } = &**picked;
                Ok(space::dead_bytes(&layout.view(block)) + self.len.saturating_sub(slot.end()))
            }
            IndexBytes::Version2(_) => {
                let mut dead = 0;
                for gap in self.version2().iter().flat_map(Version2::gaps) {
                    let start = gap.start;
                    dead += version2::dead_in_gap(&read(self.disk, &self.file, gap)?, start);
                }
                Ok(dead)
            }
        }
    }
}

impl Drop for Look<'_> {
    fn drop(&mut self) {
        self.disk.unlock(&self.file);
    }
}

/// Opens a regular file, follows no link, and waits for nobody.
fn open(disk: &dyn MapDisk, path: &Path, access: Access) -> Result<File, FileError> {
    let kind = |kind| match kind {
        FileKind::File => Ok(()),
        FileKind::Directory => Err(FileError::WrongKind("a directory")),
        FileKind::Link => Err(FileError::WrongKind("a link")),
        FileKind::Other => Err(FileError::WrongKind("no regular file")),
    };
    kind(disk.facts_at(path)?.kind)?;
    let file = disk.open(path, access)?;
    kind(disk.facts(&file)?.kind)?;
    Ok(file)
}

/// Picks the newest index that is whole. An index that cannot be read just now is not damaged: to go on with the one before would lose
/// it.
pub(super) fn pick_index<B: AsRef<[u8]>>(
    commits: &Commits,
    len: u64,
    mut read: impl FnMut(&Slot) -> io::Result<B>,
) -> io::Result<Result<Option<Picked<B>>, Refusal>> {
    let mut failed = None;
    let picked = pick(commits, len, |slot| read(slot).map_err(|error| failed = Some(error)).ok());
    failed.map_or(Ok(picked), Err)
}

/// Reads a range of a file, which is in the file by what the file itself says is its length.
pub(super) fn read(disk: &dyn MapDisk, file: &File, range: Range<u64>) -> io::Result<Vec<u8>> {
    let len =
        usize::try_from(range.end.saturating_sub(range.start)).map_err(|_| io::ErrorKind::OutOfMemory)?;
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(len)?;
    bytes.resize(len, 0);
    disk.read_at(file, range.start, &mut bytes)?;
    Ok(bytes)
}
