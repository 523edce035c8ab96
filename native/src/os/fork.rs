//! Locks that a forked child finds open.
//!
//! A child of `fork` has one thread. A lock that another thread held at that moment stays locked in the child for ever, and
//! what it guards may be half changed. So a fork waits until no other thread holds a lock of this crate: all of them are
//! taken through a gate, which `pthread_atfork` closes before a fork and opens after it, in the parent and in the child.
//! No host code but clocks and disks runs under such a lock, so the wait is short, and it is bounded.
//!
//! What parent and child must not share is given up: database connections are closed before a fork ([`BeforeFork`]), and
//! descriptors that hold OS locks are pointed elsewhere in the child ([`LockHolder`]), because a lock of `flock` lives as
//! long as any copy of its descriptor.
//!
//! A process that is made by other means than the C library's `fork`, and does not become another program, is not covered.

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

/// Closed while a thread forks.
static IS_CLOSED: AtomicBool = AtomicBool::new(false);

/// How many threads are in a section.
static INSIDE: AtomicUsize = AtomicUsize::new(0);

/// How many forks lie between the first process and this one.
static GENERATION: AtomicU64 = AtomicU64::new(0);

#[cfg(feature = "sqlite")]
static WATCHERS: Mutex<Vec<sync::Weak<dyn BeforeFork>>> = Mutex::new(Vec::new());

thread_local! {
    /// How many sections this thread is in, one within the other.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// A mutual exclusion lock that no forked child finds locked. A panic does not poison it.
#[derive(Debug, Default)]
pub(crate) struct Mutex<T: ?Sized>(sync::Mutex<T>);

/// A readers-writer lock that no forked child finds locked. A panic does not poison it.
#[cfg(any(feature = "launch", feature = "packs"))]
#[derive(Debug, Default)]
pub(crate) struct RwLock<T>(sync::RwLock<T>);

/// A held lock, and the section it was taken in.
#[derive(Debug)]
pub(crate) struct Guard<G> {
    // Dropped first: a section ends when its locks are released.
    guard: G,
    _section: Section,
}

pub(crate) type MutexGuard<'a, T> = Guard<sync::MutexGuard<'a, T>>;
#[cfg(any(feature = "launch", feature = "packs"))]
pub(crate) type ReadGuard<'a, T> = Guard<sync::RwLockReadGuard<'a, T>>;
#[cfg(any(feature = "launch", feature = "packs"))]
pub(crate) type WriteGuard<'a, T> = Guard<sync::RwLockWriteGuard<'a, T>>;

/// A time in which no other thread forks. Sections of one thread may lie within each other.
#[derive(Debug)]
pub(crate) struct Section {
    /// It ends in the thread that began it.
    not_send: PhantomData<*const ()>,
}

/// Gives up before a fork what neither parent nor child may share.
#[cfg(feature = "sqlite")]
pub(crate) trait BeforeFork: Send + Sync {
    /// Runs in the thread that forks, while no other thread is in a section.
    #[cfg_attr(not(unix), expect(dead_code, reason = "other systems have no fork"))]
    fn before_fork(&self);
}

/// A file whose descriptor holds an OS lock. In a forked child it is another file, so that the lock is released with the
/// process that took it.
#[derive(Debug)]
pub(crate) struct LockHolder {
    file: File,
    generation: u64,
}

impl<T> Mutex<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(sync::Mutex::new(value))
    }

    pub(crate) fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Waits for the lock.
    #[inline]
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        let section = Section::enter();
        Guard { guard: self.0.lock().unwrap_or_else(PoisonError::into_inner), _section: section }
    }

    /// Takes the lock unless another thread holds it.
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
    /// Begins a section; waits while a thread forks.
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

/// Goes through the gate, once it is open.
#[inline]
fn pass() {
    unix::watch();
    loop {
        // First in, then a look at the gate; who closes it closes first, then looks who is in. So one sees the other.
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

/// Returns a number that a forked child has for itself: what was made under another is its parent's.
#[inline]
pub(crate) fn generation() -> u64 {
    GENERATION.load(Ordering::Relaxed)
}

/// Has `watcher` give up before each fork what must not be shared, for as long as it lives.
#[cfg(feature = "sqlite")]
pub(crate) fn watch(watcher: &sync::Arc<impl BeforeFork + 'static>) {
    let watcher: sync::Arc<dyn BeforeFork> = sync::Arc::clone(watcher) as _;
    let mut watchers = WATCHERS.lock();
    watchers.retain(|known| known.strong_count() > 0);
    watchers.push(sync::Arc::downgrade(&watcher));
}

impl LockHolder {
    /// Opens a file that is to be locked. No thread forks between that and the note of its descriptor: a child that had a copy
    /// of it would keep its lock.
    pub(crate) fn open<E>(open: impl FnOnce() -> Result<File, E>) -> Result<Self, E> {
        let _section = Section::enter();
        let file = open()?;
        unix::add(&file);
        Ok(Self { file, generation: generation() })
    }

    /// Returns whether this process made it. A forked child has neither the file nor its lock.
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

impl DerefMut for LockHolder {
    fn deref_mut(&mut self) -> &mut File {
        &mut self.file
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

    /// How long a fork waits for a section at most: one that takes longer hangs in a disk, and the fork must not.
    const LONGEST_WAIT: Duration = Duration::from_secs(10);

    /// The descriptors that hold OS locks.
    static HOLDERS: Mutex<Vec<RawFd>> = Mutex::new(Vec::new());

    static IS_WATCHING: AtomicBool = AtomicBool::new(false);

    /// Has the C library tell of forks from now on.
    #[inline]
    pub(super) fn watch() {
        // Miri knows no forks.
        if !cfg!(miri) && !IS_WATCHING.load(Ordering::Relaxed) && !IS_WATCHING.swap(true, Ordering::Relaxed) {
            // SAFETY: the functions are of this program, take nothing and do not unwind. Should there be no memory for
            // them, forks are as unsafe as without them.
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
        // From here to the end of the fork this thread is in a section itself: watchers take locks.
        let depth = DEPTH.get();
        DEPTH.set(depth + 1);
        if depth > 0 {
            // It was in one already, to start a program, which needs none of our locks. Another thread may wait for one
            // that this one holds.
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
        // The other threads are gone, and with them who waited at the gate.
        INSIDE.store(usize::from(depth > 0), Ordering::SeqCst);
        IS_CLOSED.store(false, Ordering::SeqCst);
    }

    /// Makes the descriptor one of `/dev/null`. The parent's lock stays: it is released when nothing leads to its file.
    fn point_elsewhere(descriptor: RawFd) {
        // SAFETY: all of these may be called in a child of a process with threads. The descriptor belongs to a
        // `LockHolder`, which keeps it open and makes no more of it than that it is a file.
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
