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
    ptr,
    sync::{
        self, PoisonError, TryLockError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, compiler_fence},
    },
    thread,
    time::Duration,
};

const PAUSE: Duration = Duration::from_micros(20);

/// Whether the gate is closed, because a thread forks.
static IS_CLOSED: AtomicBool = AtomicBool::new(false);

/// Where a fork sees which threads are in a section. The first slot is shared by the threads that have none of their own.
static SLOTS: [Slot; 256] = [const { Slot::new() }; 256];

/// The number of forks between the first process and this one.
static GENERATION: AtomicU64 = AtomicU64::new(0);

#[cfg(feature = "sqlite")]
static WATCHERS: Mutex<Vec<sync::Weak<dyn BeforeFork>>> = Mutex::new(Vec::new());

thread_local! {
    static THREAD: Thread = const { Thread { depth: Cell::new(0), slot: Cell::new(None) } };

    /// Apart from `THREAD`, which is used by destructors of other thread-local values too.
    static TENANT: Tenant = const { Tenant };
}

/// A slot, on a cache line of its own.
#[repr(align(64))]
struct Slot {
    /// The number of threads in a section.
    inside: AtomicUsize,
    /// Whether a thread owns the slot.
    is_taken: AtomicBool,
}

/// What a thread knows of its sections.
struct Thread {
    /// The number of nested sections.
    depth: Cell<usize>,
    slot: Cell<Option<&'static Slot>>,
}

/// Gives a thread's slot back when the thread ends.
struct Tenant;

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
pub struct LockHolder {
    /// Nothing once it is dropped.
    file: Option<File>,
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
    pub(crate) fn read(&self) -> Guard<sync::RwLockReadGuard<'_, T>> {
        let section = Section::enter();
        Guard { guard: self.0.read().unwrap_or_else(PoisonError::into_inner), _section: section }
    }

    /// Waits until no other thread reads or writes.
    pub(crate) fn write(&self) -> Guard<sync::RwLockWriteGuard<'_, T>> {
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
        THREAD.with(Thread::enter);
        Self { not_send: PhantomData }
    }
}

impl Drop for Section {
    #[inline]
    fn drop(&mut self) {
        THREAD.with(Thread::leave);
    }
}

impl Thread {
    #[inline]
    fn enter(&self) {
        let depth = self.depth.get();
        if depth == 0 {
            let slot = self.slot();
            // A thread first counts itself in and then checks the gate; a fork first closes the gate and then checks the counts. So
            // at least one of them sees the other.
            slot.enter();
            while IS_CLOSED.load(Ordering::SeqCst) {
                slot.leave();
                thread::sleep(PAUSE);
                slot.enter();
            }
        }
        self.depth.set(depth + 1);
    }

    #[inline]
    fn leave(&self) {
        let depth = self.depth.get() - 1;
        self.depth.set(depth);
        if depth == 0 {
            self.slot().leave();
        }
    }

    #[inline]
    fn slot(&self) -> &'static Slot {
        self.slot.get().unwrap_or_else(|| self.take_slot())
    }

    /// Takes a free slot until the thread ends, or else the shared one.
    #[cold]
    fn take_slot(&self) -> &'static Slot {
        let has_fences = unix::register_handlers();
        let is_taken =
            |slot: &Slot| slot.is_taken.load(Ordering::Relaxed) || slot.is_taken.swap(true, Ordering::SeqCst);
        let is_free = |slot: &&Slot| has_fences && !is_taken(slot);
        // Not in a thread that is ending: it would not give the slot back.
        let own = TENANT.try_with(|_| SLOTS[1..].iter().find(is_free)).ok().flatten();
        let slot = own.unwrap_or(&SLOTS[0]);
        self.slot.set(Some(slot));
        slot
    }
}

impl Drop for Tenant {
    fn drop(&mut self) {
        THREAD.with(|thread| {
            // A section that has not ended keeps the slot.
            if thread.depth.get() == 0
                && let Some(slot) = thread.slot.replace(Some(&SLOTS[0]))
            {
                slot.is_taken.store(false, Ordering::Release);
            }
        });
    }
}

impl Slot {
    const fn new() -> Self {
        Self { inside: AtomicUsize::new(0), is_taken: AtomicBool::new(false) }
    }

    #[inline]
    fn enter(&self) {
        if ptr::eq(self, &SLOTS[0]) {
            self.inside.fetch_add(1, Ordering::SeqCst);
        } else {
            // The fence between this and the check of the gate would take as long as the lock. A fork has the system make one.
            self.inside.store(1, Ordering::Relaxed);
            compiler_fence(Ordering::SeqCst);
        }
    }

    #[inline]
    fn leave(&self) {
        if ptr::eq(self, &SLOTS[0]) {
            self.inside.fetch_sub(1, Ordering::SeqCst);
        } else {
            self.inside.store(0, Ordering::Release);
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
    pub fn open<E>(open: impl FnOnce() -> Result<File, E>) -> Result<Self, E> {
        let _section = Section::enter();
        let file = open()?;
        unix::add(&file);
        Ok(Self { file: Some(file), generation: generation() })
    }

    /// Returns whether this process opened the file. A forked child has neither the file nor its lock.
    pub(crate) fn is_own(&self) -> bool {
        self.generation == generation()
    }
}

impl Deref for LockHolder {
    type Target = File;

    fn deref(&self) -> &File {
        self.file.as_ref().expect("it is open until it is dropped")
    }
}

impl Drop for LockHolder {
    fn drop(&mut self) {
        // No thread forks between the two: its child would keep the lock.
        let _section = Section::enter();
        unix::remove(self);
        self.file = None;
    }
}

#[cfg(unix)]
mod unix {
    use std::{
        ffi::c_long,
        fs::File,
        os::fd::{AsRawFd, RawFd},
        ptr,
        sync::atomic::{AtomicBool, Ordering},
        thread,
        time::{Duration, Instant},
    };

    use super::{GENERATION, IS_CLOSED, Mutex, PAUSE, SLOTS, THREAD, Thread};

    /// The longest time that a fork waits for a section: one that takes longer hangs on a disk, and the fork must not.
    const LONGEST_WAIT: Duration = Duration::from_secs(10);

    /// The descriptors that hold OS locks.
    static HOLDERS: Mutex<Vec<RawFd>> = Mutex::new(Vec::new());

    static IS_WATCHING: AtomicBool = AtomicBool::new(false);

    /// Registers the handlers of forks with the C library. Returns whether the system can put a fence into each thread.
    pub(super) fn register_handlers() -> bool {
        // Miri does not support forks.
        if !cfg!(miri) && !IS_WATCHING.swap(true, Ordering::Relaxed) {
            // SAFETY: the functions belong to this program, take no arguments and do not unwind. If memory for them
            // runs out, forks are as unsafe as without them.
            let _ =
                unsafe { libc::pthread_atfork(Some(before), Some(after_in_parent), Some(after_in_child)) };
        }
        let supported = if cfg!(miri) { 0 } else { membarrier(0) };
        supported > 0 && supported & PRIVATE_EXPEDITED != 0
    }

    /// Has the system put a fence into each thread of the process.
    fn fence_all() {
        // A slot that is taken from now on is taken by a thread that sees the closed gate.
        let is_needed = SLOTS[1..].iter().any(|slot| slot.is_taken.load(Ordering::SeqCst));
        let is_done = || membarrier(PRIVATE_EXPEDITED) == 0;
        // Registering may take milliseconds, so the first fork does, not every process.
        if is_needed && !is_done() && (membarrier(REGISTER_PRIVATE_EXPEDITED) != 0 || !is_done()) {
            // The call worked when the slots were taken. A store does not stay invisible for so long.
            thread::sleep(Duration::from_millis(10));
        }
    }

    const PRIVATE_EXPEDITED: c_long = 1 << 3;
    const REGISTER_PRIVATE_EXPEDITED: c_long = 1 << 4;

    /// Calls membarrier of Linux. Command 0 returns the set of supported commands. Returns -1 if it fails, and elsewhere.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn membarrier(command: c_long) -> c_long {
        // SAFETY: the call takes no pointer.
        unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) }
    }

    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    fn membarrier(_: c_long) -> c_long {
        -1
    }

    pub(super) fn add(file: &File) {
        HOLDERS.lock().push(file.as_raw_fd());
    }

    pub(super) fn remove(file: &File) {
        HOLDERS.lock().retain(|known| *known != file.as_raw_fd());
    }

    /// Closes the gate, and waits until no other thread is inside.
    extern "C" fn before() {
        // Until the end of the fork this thread is in a section itself, because watchers take locks.
        if THREAD.with(|thread| thread.depth.replace(thread.depth.get() + 1)) > 0 {
            // It was in a section already, to start a program that needs none of our locks. Waiting here could deadlock with a
            // thread that needs a lock that this one holds, or that forks too.
            return;
        }
        while IS_CLOSED.swap(true, Ordering::SeqCst) {
            thread::sleep(PAUSE);
        }
        THREAD.with(|thread| thread.slot().enter());
        fence_all();
        let started = Instant::now();
        while SLOTS.iter().map(|slot| slot.inside.load(Ordering::SeqCst)).sum::<usize>() > 1 {
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
        THREAD.with(Thread::leave);
        if THREAD.with(|thread| thread.depth.get()) == 0 {
            IS_CLOSED.store(false, Ordering::SeqCst);
        }
    }

    extern "C" fn after_in_child() {
        GENERATION.fetch_add(1, Ordering::Relaxed);
        if let Some(mut holders) = HOLDERS.try_lock() {
            holders.drain(..).for_each(point_elsewhere);
        }
        THREAD.with(|thread| {
            let (own, depth) = (thread.slot(), thread.depth.get() - 1);
            thread.depth.set(depth);
            // The other threads do not exist in the child, and neither do those that waited at the gate.
            for slot in &SLOTS {
                let is_own = ptr::eq(slot, own);
                slot.inside.store(usize::from(is_own && depth > 0), Ordering::SeqCst);
                slot.is_taken.store(is_own, Ordering::Relaxed);
            }
        });
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

    pub(super) const fn register_handlers() -> bool {
        false
    }

    pub(super) const fn add(_: &File) {}

    pub(super) const fn remove(_: &File) {}
}
