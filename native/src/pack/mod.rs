//! Files of packed weights: mapped once, shared by every process that maps them, never wrong.
//!
//! A runtime packs every weight of a model into the layout of a micro-kernel, at each start. A [`Pack`] keeps what was packed
//! in a file, and the next process maps it and packs nothing.
//!
//! ```
//! use warmstart::pack::{ModelId, Name, Pack, PackOptions, Packing, Wanted};
//!
//! # let directory = tempfile::tempdir()?;
//! # let path = directory.path().join("weights.xpwc");
//! let wanted = Wanted {
//!     name: Name::new("encoder.0.weight").with_bias("encoder.0.bias"),
//!     model: ModelId::from_bytes([7; 32]),
//!     packing: Packing::of_seed(1),
//! };
//! let pack = Pack::open(&path, PackOptions::default())?;
//! assert!(pack.look_up(&wanted).is_err());
//! let mut space = pack.reserve(512)?;
//! space.bytes_mut().fill(42); // Pack the weight.
//! pack.insert(&wanted, space);
//! pack.save()?;
//! drop(pack);
//!
//! let pack = Pack::open(&path, PackOptions::default())?;
//! let weights = pack.look_up(&wanted)?;
//! assert!(weights.iter().all(|byte| *byte == 42));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! What is read is in the page cache once, however many processes map it. One writes at a time; readers never wait for it.
//! Whatever instant a process dies at, the next one finds what was saved last, whole. The bytes of the file are described
//! in [`warmstart_core::trailer`].
//!
//! Files of version 2, which are ExecuTorch's, are not opened: [`import`], or the command
//! `warmstart convert FILE --to 3 --model MODEL`, makes them version 3.
//!
//! # What is assumed of the file
//! No other program writes to it or truncates it: to touch the pages of a mapping that are cut off kills a process. So the file
//! must belong to this user, and no group or others may write to it. Where something is in its place that is not such a file, it
//! is left alone.
//!
//! Never give ExecuTorch and this library one path: ExecuTorch truncates what it cannot read. It locks the whole file first, so on
//! a local file system of Linux it is kept from that while a pack is open, which holds a shared lock. When a pack is opened,
//! [refreshed](Pack::refresh) or [saved](Pack::save), a file that was cut off or written over is noticed, and what was saved in it
//! is found no more; look-ups do not ask the system.
//!
//! A child that a process forks shares what its parent packs and has not saved. It may drop a pack of its parent's, which leaves
//! the parent's file and lock alone, but must not use one: open it anew, after the fork.

pub(crate) mod counters;
mod found;
mod inspect;
mod instance;
mod look;
mod model;
mod options;
mod publish;
mod rewrite;
mod save;
mod segments;
mod snapshot;
mod state;
mod statistics;
mod writer;

pub use inspect::{Inspection, PackEntry, Verification, inspect, verify};
pub use look::{FileError, recognise};
pub use model::model_of_file;
pub use options::{Checks, PackOptions};
pub use rewrite::{RewriteOptions, Rewritten, compact, export, import};
pub use save::Saved;
pub use segments::Handle;
pub use statistics::PackStatistics;
pub use warmstart_core::trailer::{Fingerprint, ModelId, Name, Packing, Refusal, Wanted};

use std::{
    collections::HashMap,
    fmt, io,
    marker::PhantomData,
    ops::Deref,
    path::{Path, PathBuf},
    ptr::NonNull,
    sync::{Arc, Weak},
};

use crate::os::fork::Mutex;

use instance::{Instance, lock};

use crate::{
    OpenError, Reason,
    error::Problem,
    os::{FileKind, Mapping},
};
use found::NotFound;
use snapshot::Hit;

/// The packs that are open in this process.
static OPEN: Mutex<Option<HashMap<PathBuf, Weak<Instance>>>> = Mutex::new(None);

/// A file of packed weights that is open. Clones, and packs that are opened under the same path, are the same.
///
/// All methods can be called by any number of threads. The file is closed when the last handle is dropped, without what was
/// not [saved](Self::save).
#[derive(Clone, Debug)]
pub struct Pack {
    instance: Arc<Instance>,
}

impl Pack {
    /// Opens the pack under `path`, which is made when something is first packed into it.
    ///
    /// If a handle on the path is open in this process, this is another on the same pack. What other processes saved since is found
    /// from then on.
    ///
    /// # Errors
    /// If something else than a file of packed weights of version 3 is under the path, or another user could have written it; or if
    /// the pack is open in this process with other options. What is
    /// damaged, full, busy or read-only is no error: then there are misses, and what is packed is kept in the heap.
    pub fn open(path: impl AsRef<Path>, options: PackOptions) -> Result<Self, OpenError> {
        let path = path.as_ref();
        let io = |error| OpenError::new(path, Problem::Io(error));
        if path.as_os_str().as_encoded_bytes().contains(&0) {
            return Err(io(io::Error::new(io::ErrorKind::InvalidInput, "a path has no NUL in it")));
        }
        let place = match instance::canonical(path) {
            Ok(place) => place,
            // The directory is missing: nothing is found there, and nothing can be written.
            Err(error) if error.kind() == io::ErrorKind::NotFound => std::path::absolute(path).map_err(io)?,
            Err(error) => return Err(io(error)),
        };
        let instance = {
            let mut open = lock(&OPEN);
            let open = open.get_or_insert_default();
            match open.get(&place).and_then(Weak::upgrade) {
                Some(known) => {
                    if let Some(option) = known.options.difference(&options) {
                        return Err(OpenError::new(path, Problem::OtherOptions(option)));
                    }
                    known
                }
                None => {
                    open.retain(|_, instance| instance.strong_count() > 0);
                    let instance = Arc::new(Instance::new(Some(place.clone()), options));
                    open.insert(place, Arc::downgrade(&instance));
                    instance
                }
            }
        };
        match instance.refresh() {
            Ok(()) => Ok(Self { instance }),
            Err(NotFound::Io(error)) if error.kind() == io::ErrorKind::InvalidInput => Err(io(error)),
            Err(NotFound::Io(error)) if is_link(&error) => Err(OpenError::new(path, wrong_kind("a link"))),
            Err(NotFound::Io(error)) => {
                instance.counters.refuse(crate::os::reason_of(&error));
                Ok(Self { instance })
            }
            Err(NotFound::WrongKind(FileKind::Directory)) => {
                Err(OpenError::new(path, wrong_kind("a directory")))
            }
            Err(NotFound::WrongKind(_)) => Err(OpenError::new(path, wrong_kind("no regular file"))),
            Err(NotFound::Foreign) => {
                Err(OpenError::new(path, wrong_kind("a file, but not one of packed weights")))
            }
            Err(NotFound::Version2) => Err(OpenError::new(
                path,
                Problem::WrongKind {
                    found: "a file of packed weights of version 2, which ExecuTorch writes",
                    remedy: "make it version 3: warmstart convert FILE --to 3 --model MODEL",
                },
            )),
            Err(NotFound::Untrusted) => Err(OpenError::new(
                path,
                Problem::Untrusted {
                    found: "a file that somebody else owns or may write to".to_owned(),
                    remedy: "packed weights are run by kernels: give the file to this user, with mode 0600",
                },
            )),
        }
    }

    /// A pack that has no file: all is kept in the heap, and nothing is saved.
    #[must_use]
    pub fn in_memory() -> Self {
        Self { instance: Arc::new(Instance::new(None, PackOptions::default())) }
    }

    /// Finds a packed weight.
    ///
    /// # Errors
    /// Why there is none: nothing is stored under the name, or the weight is another model's, or was packed for another
    /// micro-kernel or by another algorithm, or is damaged.
    #[inline]
    pub fn look_up(&self, wanted: &Wanted<'_>) -> Result<Weights<'_>, Reason> {
        self.instance.find(wanted, |hit| Weights { hit, pack: PhantomData })
    }

    /// Reserves zeroed bytes to pack into: in the file, so that packing writes to the page cache and to no heap, or in the heap
    /// where the file takes none just now. Dropped, they are given back.
    ///
    /// # Errors
    /// [`io::ErrorKind::OutOfMemory`] if not even the heap has room.
    pub fn reserve(&self, len: usize) -> io::Result<Space> {
        let space = self.instance.reserve(len, true)?;
        Ok(Space { address: space.address(), len, instance: Some(Arc::clone(&self.instance)) })
    }

    /// Takes what was packed into a space as this weight, and returns it. It can be looked up from now on, and
    /// [`save`](Self::save) keeps it. A weight that is there already, with the same bytes, stays.
    ///
    /// # Panics
    /// If the space was reserved in another pack.
    pub fn insert(&self, wanted: &Wanted<'_>, mut space: Space) -> Weights<'_> {
        let instance = space.instance.take();
        assert!(
            instance.is_some_and(|instance| Arc::ptr_eq(&instance, &self.instance)),
            "the space is of another pack"
        );
        let hit = self.instance.insert(wanted, space.address, space.len);
        Weights { hit: hit.expect("the space was reserved and not taken yet"), pack: PhantomData }
    }

    /// Asks the system to begin writing what was packed since the last time to the medium, and nothing else. Does not wait.
    pub fn finalize(&self) {
        self.instance.start_write_back();
    }

    /// Makes what was inserted since the last save what the next process finds, and waits until it is on the medium. Where
    /// nothing was inserted, nothing is written.
    ///
    /// # Errors
    /// Why it was not saved. What was inserted is found as before, and the next save tries again; but where another program cut
    /// the file off or wrote over it ([`Reason::Truncated`]), what was saved in it or packed into it is gone.
    pub fn save(&self) -> Result<Saved, Reason> {
        self.instance.save()
    }

    /// Looks at the file again: what other processes saved since it was opened is found from now on. What was found before
    /// stays good, unless another program cut the file off or wrote over it: then nothing of it is found any more, and what was
    /// handed out must not be used.
    pub fn refresh(&self) {
        if let Err(not_found) = self.instance.refresh() {
            self.instance.counters.refuse(not_found.reason());
        }
    }

    /// Has the system read all of the file ahead, and does not wait for it.
    pub fn prefetch(&self) {
        self.instance.read().segments.mapped().for_each(Mapping::prefetch);
    }

    /// Gives the pages of the file back to the system, until they are touched again.
    pub fn release(&self) {
        self.instance.read().segments.mapped().for_each(Mapping::release);
    }

    /// Returns the digest of the file that a model is in, as [`model_of_file`] does, and remembers it in a file beside the pack,
    /// `NAME.models`: the next start reads no more than that. Another file of this name is left alone.
    ///
    /// What is remembered counts as long as the model's file is the same file, of the same length, whose times of
    /// modification and of change are the same. It is remembered once the file has been left alone for two seconds, and one
    /// more for each 4 MiB of it: so long may one call take to write it. That may be trusted on a local file system that can
    /// be written to, whose times this machine's clock stamps. It is not trusted elsewhere: on network file systems, in FUSE,
    /// on overlayfs and in read-only images, where files have no fraction of a second in their times, and on systems without
    /// times of change, such as Windows: there the file is digested each time.
    ///
    /// Replace a model's file by renaming another one into its place. Do not use this where a program writes to it through a
    /// mapping, which may leave its times as they are, or where the clock of the machine is set back.
    ///
    /// # Errors
    /// If the model's file cannot be read, or is no regular file. A read-only pack remembers nothing new: then a
    /// file that is not remembered already is digested each time.
    pub fn model_of_file(&self, path: impl AsRef<Path>) -> io::Result<ModelId> {
        model::remembered(self.path(), &self.instance.options, path.as_ref())
    }

    /// What happened with the pack since it was opened.
    #[must_use]
    pub fn statistics(&self) -> PackStatistics {
        self.instance.counters.snapshot()
    }

    /// How many weights are saved in the file, as far as this process has looked.
    #[must_use]
    pub fn len(&self) -> usize {
        self.instance.read().index.as_ref().map_or(0, |saved| saved.index().len())
    }

    /// Whether no weights are saved in the file.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Why what the file holds, or the newest part of it, is not used; nothing if all is well.
    #[must_use]
    pub fn refusal(&self) -> Option<Refusal> {
        lock(&self.instance.seen).refusal
    }

    /// The path of the file, if there is one.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        self.instance.path.as_deref()
    }

    /// For the providers of runtimes, which have addresses and handles and no borrows. What is handed out stays where it is until
    /// the pack is closed, but for what is given back or forgotten.
    pub(crate) fn instance(&self) -> &Instance {
        &self.instance
    }
}

/// Packed weights: bytes of the file, or of the heap. They stay where they are while the pack is open.
#[derive(Clone, Copy)]
pub struct Weights<'a> {
    hit: Hit,
    pack: PhantomData<&'a Pack>,
}

impl<'a> Weights<'a> {
    /// The bytes.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        // SAFETY: what was inserted or committed is not written to again, and stays where it is until the pack is closed,
        // which it is not while it is borrowed.
        unsafe { self.hit.bytes() }
    }

    /// The handle, which is good as long as the pack is open.
    #[must_use]
    pub const fn handle(&self) -> Handle {
        self.hit.handle
    }

    /// Whether the file proves that these are the weights of the model that was asked for, packed as was asked: not so with
    /// entries that were imported from version 2.
    #[must_use]
    pub const fn is_verified(&self) -> bool {
        self.hit.is_verified
    }
}

// SAFETY: these are bytes that nobody writes to, as in a shared slice.
unsafe impl Send for Weights<'_> {}
// SAFETY: as above.
unsafe impl Sync for Weights<'_> {}

impl Deref for Weights<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.bytes()
    }
}

impl fmt::Debug for Weights<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Hit { handle, len, is_verified, .. } = self.hit;
        f.debug_struct("Weights")
            .field("handle", &handle)
            .field("len", &len)
            .field("is_verified", &is_verified)
            .finish()
    }
}

/// Reserved bytes, aligned to [`ALIGNMENT`](crate::os::ALIGNMENT), that belong to whoever packs into them.
#[derive(Debug)]
pub struct Space {
    address: NonNull<u8>,
    len: usize,
    /// Nothing once it was inserted.
    instance: Option<Arc<Instance>>,
}

// SAFETY: a space is the only way to its bytes until it is inserted, as a boxed slice is.
unsafe impl Send for Space {}
// SAFETY: as above: to write through it takes it for oneself.
unsafe impl Sync for Space {}

impl Space {
    /// The bytes to pack into.
    #[must_use]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the bytes were reserved for this space alone, are initialised, and live as long as the instance.
        unsafe { std::slice::from_raw_parts_mut(self.address.as_ptr(), self.len) }
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        if let Some(instance) = &self.instance {
            instance.give_back(self.address);
        }
    }
}

fn wrong_kind(found: &'static str) -> Problem {
    Problem::WrongKind { found, remedy: "name a file of packed weights, or one that does not exist yet" }
}

/// Whether opening failed because the name is a link.
fn is_link(error: &io::Error) -> bool {
    #[cfg(unix)]
    return error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error());
    #[cfg(not(unix))]
    {
        let _ = error;
        false
    }
}
