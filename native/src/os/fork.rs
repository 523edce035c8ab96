//! Locks that are never held in a forked child.
//!
//! A child of `fork` has one thread. A lock that another thread held at that moment stays locked in the child forever, and
//! its data may be half changed. So a fork waits until no other thread holds a lock of this crate: all of them are
//! taken through a gate, which `pthread_atfork` closes before a fork and opens after it, in the parent and in the child.
//! The only foreign code that runs under such a lock is that of clocks and disks, so the wait is short. It is also bounded.
//!
//! Resources that parent and child must not share are released: database connections are closed before a fork (`BeforeFork`), and
//! descriptors that hold OS locks are replaced in the child (`LockHolder`), because a lock of `flock` is held as
//! long as any copy of its descriptor is open.
//!
//! A process that is created without the C library's `fork`, and that does not execute another program, is not covered.

use std::{
    cell::Cell,
    fs::File,
    marker::PhantomData,
    ops::{Deref, DerefMut},
    sync::{
        self, PoisonError, TryLockError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

const PAUSE: Duration = Duration::from_micros(20);

/// Whether the gate is closed, because a thread forks.
static IS_CLOSED: AtomicBool = AtomicBool::new(false);

/// The number of threads in a section.
static INSIDE: AtomicUsize = AtomicUsize::new(0);

/// The number of forks between the first process and this one.
static GENERATION: AtomicU64 = AtomicU64::new(0);

#[cfg(feature = "sqlite")]
static WATCHERS: Mutex<Vec<sync::Weak<dyn BeforeFork>>> = Mutex::new(Vec::new());

thread_local! {
    /// The number of nested sections of this thread.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// A mutex that is never locked in a forked child. A panic does not poison it.
#[derive(Debug, Default)]
pub struct Mutex<T: ?Sized>(sync::Mutex<T>);

/// A readers-writer lock that is never locked in a forked child. A panic does not poison it.
#[cfg(any(feature = "launch", feature = "packs"))]
#[derive(Debug, Default)]
pub(crate) struct RwLock<T>(sync::RwLock<T>);

/// A held lock, and the section in which it was taken.
#[derive(Debug)]
pub struct Guard<G> {
    // Dropped first, because a section ends after its locks are released.
    guard: G,
    _section: Section,
}

pub type MutexGuard<'a, T> = Guard<sync::MutexGuard<'a, T>>;
#[cfg(any(feature = "launch", feature = "packs"))]
pub(crate) type ReadGuard<'a, T> = Guard<sync::RwLockReadGuard<'a, T>>;
#[cfg(any(feature = "launch", feature = "packs"))]
pub(crate) type WriteGuard<'a, T> = Guard<sync::RwLockWriteGuard<'a, T>>;

/// A period in which no other thread forks. Sections of one thread may be nested.
#[derive(Debug)]
pub(crate) struct Section {
    /// Not `Send`: a section ends in the thread that began it.
    not_send: PhantomData<*const ()>,
}

/// Releases, before a fork, what parent and child must not share.
#[cfg(feature = "sqlite")]
pub(crate) trait BeforeFork: Send + Sync {
    /// Runs in the thread that forks, while no other thread is in a section.
    #[cfg_attr(not(unix), expect(dead_code, reason = "other systems have no fork"))]
    fn before_fork(&self);
}

/// A file whose descriptor holds an OS lock. In a forked child, the descriptor refers to another file, so that the lock is
/// released when the process that took it ends.
#[derive(Debug)]
pub(crate) struct LockHolder {
    file: File,
    generation: u64,
}

impl<T> Mutex<T> {
    pub const fn new(value: T) -> Self {
        Self(sync::Mutex::new(value))
    }

    pub(crate) fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Waits for the lock.
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        let section = Section::enter();
        Guard { guard: self.0.lock().unwrap_or_else(PoisonError::into_inner), _section: section }
    }

    /// Takes the lock, unless another thread holds it.
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        let section = Section::enter();
        let guard = match self.0.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        Some(Guard { guard, _section: section })
    }
}

#[cfg(any(feature = "launch", feature = "packs"))]
impl<T> RwLock<T> {
    #[cfg(feature = "launch")]
    pub(crate) const fn new(value: T) -> Self {
        Self(sync::RwLock::new(value))
    }

    /// Waits until no thread writes.
    #[inline]
    pub(crate) fn read(&self) -> ReadGuard<'_, T> {
        let section = Section::enter();
        Guard { guard: self.0.read().unwrap_or_else(PoisonError::into_inner), _section: section }
    }

    /// Waits until no other thread reads or writes.
    pub(crate) fn write(&self) -> WriteGuard<'_, T> {
        let section = Section::enter();
        Guard { guard: self.0.write().unwrap_or_else(PoisonError::into_inner), _section: section }
    }
}

impl<G: Deref> Deref for Guard<G> {
    type Target = G::Target;

    #[inline]
    fn deref(&self) -> &G::Target {
        &self.guard
    }
}

impl<G: DerefMut> DerefMut for Guard<G> {
    #[inline]
    fn deref_mut(&mut self) -> &mut G::Target {
        &mut self.guard
    }
}

impl Section {
    /// Begins a section. Waits while a thread forks.
    #[inline]
    pub(crate) fn enter() -> Self {
        let depth = DEPTH.get();
        if depth == 0 {
            pass();
        }
        DEPTH.set(depth + 1);
        Self { not_send: PhantomData }
    }
}

impl Drop for Section {
    #[inline]
    fn drop(&mut self) {
        let depth = DEPTH.get() - 1;
        DEPTH.set(depth);
        if depth == 0 {
            INSIDE.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

/// Passes the gate once it is open.
#[inline]
fn pass() {
    unix::watch();
    loop {
        // A thread first counts itself in and then checks the gate; a fork first closes the gate and then checks the count. So at
        // least one of them sees the other.
        INSIDE.fetch_add(1, Ordering::SeqCst);
        if !IS_CLOSED.load(Ordering::SeqCst) {
            return;
        }
        INSIDE.fetch_sub(1, Ordering::SeqCst);
        while IS_CLOSED.load(Ordering::SeqCst) {
            thread::sleep(PAUSE);
        }
    }
}

/// Returns the generation of this process, which changes in a forked child. Objects of another generation are its parent's.
#[inline]
#[must_use]
pub fn generation() -> u64 {
    GENERATION.load(Ordering::Relaxed)
}

/// Makes `watcher` release shared resources before each fork, for as long as it lives.
#[cfg(feature = "sqlite")]
pub(crate) fn watch(watcher: &sync::Arc<impl BeforeFork + 'static>) {
    let watcher: sync::Arc<dyn BeforeFork> = sync::Arc::clone(watcher) as _;
    let mut watchers = WATCHERS.lock();
    watchers.retain(|known| known.strong_count() > 0);
    watchers.push(sync::Arc::downgrade(&watcher));
}

impl LockHolder {
    /// Opens a file that is to be locked. No thread forks before the descriptor is registered: a child with a copy of it
    /// would keep its lock.
    pub(crate) fn open<E>(open: impl FnOnce() -> Result<File, E>) -> Result<Self, E> {
        let _section = Section::enter();
        let file = open()?;
        unix::add(&file);
        Ok(Self { file, generation: generation() })
    }

    /// Returns whether this process opened the file. A forked child has neither the file nor its lock.
    pub(crate) fn is_own(&self) -> bool {
        self.generation == generation()
    }
}

impl Deref for LockHolder {
    type Target = File;

    fn deref(&self) -> &File {
        &self.file
    }
}

impl Drop for LockHolder {
    fn drop(&mut self) {
        unix::remove(&self.file);
    }
}

#[cfg(unix)]
mod unix {
    use std::{
        fs::File,
        os::fd::{AsRawFd, RawFd},
        sync::atomic::{AtomicBool, Ordering},
        thread,
        time::{Duration, Instant},
    };

    use super::{DEPTH, GENERATION, INSIDE, IS_CLOSED, Mutex, PAUSE};

    /// The longest time that a fork waits for a section: one that takes longer hangs on a disk, and the fork must not.
    const LONGEST_WAIT: Duration = Duration::from_secs(10);

    /// The descriptors that hold OS locks.
    static HOLDERS: Mutex<Vec<RawFd>> = Mutex::new(Vec::new());

    static IS_WATCHING: AtomicBool = AtomicBool::new(false);

    /// Registers the handlers of forks with the C library.
    #[inline]
    pub(super) fn watch() {
        // Miri does not support forks.
        if !cfg!(miri) && !IS_WATCHING.load(Ordering::Relaxed) && !IS_WATCHING.swap(true, Ordering::Relaxed) {
            // SAFETY: the functions belong to this program, take no arguments and do not unwind. If memory for them
            // runs out, forks are as unsafe as without them.
            let _ =
                unsafe { libc::pthread_atfork(Some(before), Some(after_in_parent), Some(after_in_child)) };
        }
    }

    pub(super) fn add(file: &File) {
        HOLDERS.lock().push(file.as_raw_fd());
    }

    pub(super) fn remove(file: &File) {
        HOLDERS.lock().retain(|known| *known != file.as_raw_fd());
    }

    /// Closes the gate, and waits until no other thread is inside.
    extern "C" fn before() {
        while IS_CLOSED.swap(true, Ordering::SeqCst) {
            thread::sleep(PAUSE);
        }
        // Until the end of the fork this thread is in a section itself, because watchers take locks.
        let depth = DEPTH.get();
        DEPTH.set(depth + 1);
        if depth > 0 {
            // It was in a section already, to start a program that needs none of our locks. Waiting here could deadlock with a
            // thread that needs a lock that this one holds.
            return;
        }
        INSIDE.fetch_add(1, Ordering::SeqCst);
        let started = Instant::now();
        while INSIDE.load(Ordering::SeqCst) > 1 {
            if started.elapsed() > LONGEST_WAIT {
                return;
            }
            thread::sleep(PAUSE);
        }
        #[cfg(feature = "sqlite")]
        for watcher in super::WATCHERS.lock().iter().filter_map(std::sync::Weak::upgrade) {
            watcher.before_fork();
        }
    }

    extern "C" fn after_in_parent() {
        let depth = DEPTH.get() - 1;
        DEPTH.set(depth);
        if depth == 0 {
            INSIDE.fetch_sub(1, Ordering::SeqCst);
        }
        IS_CLOSED.store(false, Ordering::SeqCst);
    }

    extern "C" fn after_in_child() {
        GENERATION.fetch_add(1, Ordering::Relaxed);
        if let Some(mut holders) = HOLDERS.try_lock() {
            holders.drain(..).for_each(point_elsewhere);
        }
        let depth = DEPTH.get() - 1;
        DEPTH.set(depth);
        // The other threads do not exist in the child, and neither do those that waited at the gate.
        INSIDE.store(usize::from(depth > 0), Ordering::SeqCst);
        IS_CLOSED.store(false, Ordering::SeqCst);
    }

    /// Replaces the descriptor by one of `/dev/null`. The parent keeps its lock, which is released when no descriptor of its file
    /// is left.
    fn point_elsewhere(descriptor: RawFd) {
        // SAFETY: all of these may be called in a child of a process with threads. The descriptor belongs to a
        // `LockHolder`, which keeps it open and only relies on its being a file.
        unsafe {
            let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC);
            if null >= 0 {
                libc::dup2(null, descriptor);
                libc::fcntl(descriptor, libc::F_SETFD, libc::FD_CLOEXEC);
                libc::close(null);
            }
        }
    }
}

#[cfg(not(unix))]
mod unix {
    use std::fs::File;

    pub(super) const fn watch() {}

    pub(super) const fn add(_: &File) {}

    pub(super) const fn remove(_: &File) {}
}
