//! `Cache`, as Python has it.

use std::{
    ops::ControlFlow,
    path::PathBuf,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use pyo3::{
    exceptions::{PyTypeError, PyValueError},
    prelude::*,
    types::{PyBytes, PyDict, PyList, PyTuple},
};
use warmstart::{
    Limits, MissReason, Seal, Store,
    cache::{Fetched, ManyOptions},
    store::{FileStore, Inspect, MemoryStore, SqliteStore, StoreOptions, TieredStore, Totals},
};

use crate::{
    artifact::{Artifact, Miss},
    buffer::{self, NewBytes},
    inspect::{self, Damaged, Entry, Explanation, Removed, Verification},
    key::{Fields, Key, Prepared},
    report::{open_error, reason_of, warn, warn_of_damage},
};

/// The longest time that a caller can be told to wait, in seconds; the clock of some systems ends soon after.
const LONGEST: f64 = 1e9;

/// The native part of `warmstart.Cache`.
#[pyclass(frozen, subclass, weakref, module = "warmstart._warmstart")]
pub(crate) struct Cache {
    cache: warmstart::Cache,
    path: Option<PathBuf>,
    /// Whether calls neither touch a medium nor wait, so that they keep the interpreter's lock.
    is_in_memory: bool,
    /// Whether the store keeps what is put, as memory does, instead of writing it.
    keeps_puts: bool,
    is_closed: AtomicBool,
}

#[pymethods]
impl Cache {
    #[new]
    #[pyo3(signature = (path = None, *, store = "files", max_bytes = None, memory_bytes = None, seal = None, durable = false,
                        read_only = false, timeout = 60.0))]
    #[expect(clippy::too_many_arguments, reason = "they have names in Python")]
    fn new(
        py: Python<'_>,
        path: Option<PathBuf>,
        store: &str,
        max_bytes: Option<u64>,
        memory_bytes: Option<u64>,
        seal: Option<&Bound<'_, PyAny>>,
        durable: bool,
        read_only: bool,
        timeout: f64,
    ) -> PyResult<Self> {
        let wrong = |message: &str| Err(PyValueError::new_err(message.to_owned()));
        if !(0.0..=LONGEST).contains(&timeout) {
            return wrong(&format!("the timeout is {timeout}: give seconds from 0 to {LONGEST}"));
        }
        let limits = Limits { max_bytes, ..Limits::NONE };
        let mut options =
            StoreOptions::default().with_limits(limits).with_durability(durable).with_read_only(read_only);
        if let Some(seal) = seal {
            let secret = buffer::copy(seal)?;
            let Ok(secret) = <&[u8; 32]>::try_from(&*secret) else {
                return wrong(&format!("the seal has {} bytes: give a secret of 32", secret.len()));
            };
            options = options.with_seal(Seal::new(secret));
        }
        let opened: Box<dyn Store> = match (store, &path) {
            ("memory", None) if memory_bytes.is_some() => {
                return wrong("a cache in memory has no memory_bytes: give max_bytes");
            }
            ("memory", None) if seal.is_some() || durable || read_only => {
                return wrong("a cache in memory is not sealed, durable or read-only: open one on disk");
            }
            ("memory", None) => Box::new(MemoryStore::new(limits)),
            ("memory", Some(_)) => return wrong("a cache in memory has no path: give none"),
            ("files" | "sqlite", None) => return wrong("a cache on disk needs a path: give one"),
            ("files", Some(path)) => {
                let store = py.detach(|| FileStore::open(path, options));
                in_front_of(store.map_err(|error| open_error(&error))?, memory_bytes)
            }
            ("sqlite", Some(path)) => {
                let store = py.detach(|| SqliteStore::open(path, options));
                in_front_of(store.map_err(|error| open_error(&error))?, memory_bytes)
            }
            _ => return wrong(&format!("there is no store {store:?}: give files, sqlite or memory")),
        };
        Ok(Self {
            cache: warmstart::Cache::new(opened).with_timeout(Duration::from_secs_f64(timeout)),
            is_in_memory: path.is_none(),
            keeps_puts: path.is_none() || memory_bytes.is_some(),
            path,
            is_closed: AtomicBool::new(false),
        })
    }

    /// The path of the directory or database; None for one in memory.
    #[getter]
    fn path(&self) -> Option<String> {
        self.path.as_ref().map(|path| path.to_string_lossy().into_owned())
    }

    /// Whether the cache is closed.
    #[getter]
    fn closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    /// Look a key up; return None on any miss. Damage is a miss, and is removed.
    fn get(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<Option<Artifact>> {
        let found = self.find(py, key)?;
        Ok(found.map(Artifact::hit).inspect_err(|reason| warn_of_damage(py, *reason)).ok())
    }

    /// Look a key up, and read straight into a new bytes object; return None on any miss.
    ///
    /// Counts no saved time.
    fn get_bytes<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let mut bytes = NewBytes::default();
        let read = self.call(py, key, |cache, key| cache.get_into(key, &mut bytes))?;
        match read {
            Ok(_) => Ok(Some(bytes.into_bytes(py))),
            Err(reason) => {
                warn_of_damage(py, reason);
                Ok(None)
            }
        }
    }

    /// Look a key up; a miss has its reason.
    fn look_up<'py>(&self, py: Python<'py>, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        match self.find(py, key)? {
            Ok(artifact) => Ok(Bound::new(py, Artifact::hit(artifact))?.into_any()),
            Err(reason) => {
                warn_of_damage(py, reason);
                Ok(Bound::new(py, Miss(reason))?.into_any())
            }
        }
    }

    /// Store bytes, of any contiguous buffer; return None, or a name of `REASONS` that says why they were not stored.
    fn put(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        data: &Bound<'_, PyAny>,
    ) -> PyResult<Option<&'static str>> {
        let artifact = match data.cast::<PyBytes>() {
            // SAFETY: a store on disk keeps no artifact after a put, and until then this call holds a reference to the bytes object,
            // which never changes.
            Ok(bytes) if !self.keeps_puts => unsafe { Borrowed::new(bytes.as_bytes()) },
            _ => warmstart::Artifact::new(buffer::copy(data)?),
        };
        let stored = self.call(py, key, |cache, key| cache.put(key, &artifact))?;
        Ok(reason_of(py, "an artifact was not stored", stored))
    }

    /// Look a key up, else call `build`, store what it returns, and return that.
    ///
    /// Of all threads, and all processes that share the store, one builds and the others wait for it, at most for `timeout`
    /// seconds. An exception of `build` is raised unchanged, nothing is stored, and one of the waiting callers builds. Raise
    /// TypeError if `build` returns something without a buffer.
    fn get_or_build(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        build: &Bound<'_, PyAny>,
    ) -> PyResult<Artifact> {
        let cache = self.open()?;
        let (key, build) = (Key::of(key)?, build.clone().unbind());
        let prepared = key.prepare()?;
        let build = || Python::attach(|py| built(build.bind(py).call0()?));
        // Released for memory too: another thread's build is waited for.
        let fetched = py.detach(|| cache.get_or_build(&prepared, build))?;
        warn_of(py, &fetched);
        Ok(fetched.into())
    }

    #[pyo3(signature = (requests, build, *, workers = 0, progress = None))]
    fn get_or_build_many<'py>(
        &self,
        py: Python<'py>,
        requests: &Bound<'py, PyAny>,
        build: &Bound<'py, PyAny>,
        workers: usize,
        progress: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyList>> {
        let cache = self.open()?;
        let keys = requests.try_iter()?.map(|key| Key::of(&key?)).collect::<PyResult<Vec<_>>>()?;
        let prepared = keys.iter().map(Key::prepare).collect::<PyResult<Vec<_>>>()?;
        let (build, progress) = (build.clone().unbind(), progress.map(|progress| progress.clone().unbind()));
        let build = |index: usize| Python::attach(|py| built(build.bind(py).call1((index,))?));
        // The first exception of the callback. Locked by threads that hold the interpreter's lock only.
        let broken = Mutex::new(None);
        let tell = |index: usize, fetched: &Fetched| {
            Python::attach(|py| {
                let Some(progress) = &progress else { return };
                if let Err(error) = progress.call1(py, (index, Artifact::from(fetched.clone()))) {
                    broken.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                }
            });
        };
        let options = ManyOptions::default().with_workers(workers);
        let options = if progress.is_some() { options.with_on_ready(&tell) } else { options };
        let results = py.detach(|| cache.get_or_build_many(&prepared, options, build));
        if let Some(error) = broken.into_inner().unwrap_or_else(PoisonError::into_inner) {
            return Err(error);
        }
        let (all, mut first_error) = (PyList::empty(py), None);
        for result in results {
            match result {
                Ok(fetched) => {
                    warn_of(py, &fetched);
                    all.append(Artifact::from(fetched))?;
                }
                Err(error) if first_error.is_none() => first_error = Some(error),
                Err(error) => warn(py, &format!("another builder failed: {error}")),
            }
        }
        first_error.map_or(Ok(all), Err)
    }

    /// Remove an entry; return whether there was one.
    fn remove(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        let removed = self.call(py, key, |cache, key| cache.remove(key))?;
        Ok(or_warn(py, "an entry was not removed", removed))
    }

    /// List the entries, the next to be evicted first. Reads no payload.
    fn entries(&self, py: Python<'_>) -> PyResult<Vec<Entry>> {
        let mut entries = Vec::new();
        let listed = self.inspect(py, |store| {
            store.entries(&mut |entry| {
                entries.push(Entry::new(&entry));
                ControlFlow::Continue(())
            })
        })?;
        or_warn(py, "the entries cannot be listed", listed);
        Ok(entries)
    }

    /// Explain why a key misses: return the nearest entry of its domain, or None if there is no other. Scans the domain.
    fn explain(&self, py: Python<'_>, key: &Bound<'_, Fields>) -> PyResult<Option<Explanation>> {
        let cache = self.open()?;
        let recipe = key.get().key_fields().recipe();
        let explained = py.detach(|| cache.explain(&recipe));
        or_warn(py, "a miss cannot be explained", explained)
            .map(|explanation| Explanation::new(py, explanation))
            .transpose()
    }

    /// Return the counters of this cache, or those that all processes have reported to the store.
    #[pyo3(signature = (*, all_processes = false))]
    fn stats<'py>(&self, py: Python<'py>, all_processes: bool) -> PyResult<Bound<'py, PyDict>> {
        if !all_processes {
            return inspect::stats(py, &self.open()?.statistics());
        }
        let stats = self.inspect(py, |store| store.stats())?;
        inspect::stats(py, &or_warn(py, "the statistics cannot be read", stats).counted)
    }

    /// Read every entry to its end, and remove the damaged ones.
    fn verify(&self, py: Python<'_>) -> PyResult<Verification> {
        let mut damaged = Vec::new();
        let verified =
            self.inspect(py, |store| store.verify(&mut |proof| damaged.extend(Damaged::new(proof))))?;
        Ok(Verification {
            whole: verified.unwrap_or_default(),
            damaged: damaged.into_iter().map(|entry| Py::new(py, entry)).collect::<PyResult<_>>()?,
            reason: reason_of(py, "the entries cannot be verified", verified),
        })
    }

    /// Evict least recently used entries until the rest fits. Raise ValueError if no limit is given.
    #[pyo3(signature = (*, max_bytes = None, max_entries = None))]
    fn prune(&self, py: Python<'_>, max_bytes: Option<u64>, max_entries: Option<u64>) -> PyResult<Removed> {
        if (max_bytes, max_entries) == (None, None) {
            return Err(PyValueError::new_err("prune has no limit: give max_bytes or max_entries"));
        }
        let pruned = self.inspect(py, |store| store.prune(Limits { max_entries, max_bytes }))?;
        let Totals { entries, bytes } = pruned.unwrap_or_default();
        Ok(Removed { entries, bytes, reason: reason_of(py, "pruning ended early", pruned) })
    }

    /// Remove every entry; return None, or a name of `REASONS` that says why some may be left.
    fn clear(&self, py: Python<'_>) -> PyResult<Option<&'static str>> {
        let cache = self.open()?;
        Ok(reason_of(py, "not all entries were removed", py.detach(|| cache.clear())))
    }

    /// Write the counters and the order of use; return None, or a name of `REASONS` that says why that failed.
    fn flush(&self, py: Python<'_>) -> PyResult<Option<&'static str>> {
        let cache = self.open()?;
        Ok(reason_of(py, "not all was written", py.detach(|| cache.flush())))
    }

    /// Flush and close. Later calls raise ValueError; closing again does nothing.
    fn close(&self, py: Python<'_>) -> Option<&'static str> {
        if self.is_closed.swap(true, Ordering::AcqRel) {
            return None;
        }
        reason_of(py, "not all was written", py.detach(|| self.cache.close()))
    }

    fn __enter__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        slf.get().open()?;
        Ok(slf)
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) {
        self.close(py);
    }

    fn __contains__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        let contains = self.call(py, key, |cache, key| cache.contains(key))?;
        Ok(or_warn(py, "an entry cannot be found out", contains))
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        let totals = self.inspect(py, |store| store.totals())?;
        let Totals { entries, .. } = or_warn(py, "the entries cannot be counted", totals);
        Ok(usize::try_from(entries).unwrap_or(usize::MAX))
    }

    /// An empty cache is true, as every object that is not a container of its contents.
    const fn __bool__(&self) -> bool {
        true
    }

    fn __repr__(&self) -> String {
        match &self.path {
            Some(path) => format!("<warmstart.Cache {path:?}>"),
            None => String::from("<warmstart.Cache in memory>"),
        }
    }
}

impl Cache {
    /// Returns the native cache, unless it is closed.
    #[inline]
    fn open(&self) -> PyResult<&warmstart::Cache> {
        if self.is_closed.load(Ordering::Acquire) {
            return Err(PyValueError::new_err("the cache is closed: open it again"));
        }
        Ok(&self.cache)
    }

    /// Makes a call with a key.
    #[inline]
    fn call<T: Send>(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        call: impl FnOnce(&warmstart::Cache, &Prepared<'_>) -> T + Send,
    ) -> PyResult<T> {
        let cache = self.open()?;
        let key = Key::of(key)?;
        let key = key.prepare()?;
        Ok(if self.is_in_memory { call(cache, &key) } else { py.detach(|| call(cache, &key)) })
    }

    #[inline]
    fn find(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
    ) -> PyResult<Result<warmstart::Artifact, MissReason>> {
        self.call(py, key, |cache, key| cache.get(key))
    }

    /// Inspects the store.
    fn inspect<T: Send>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(&dyn Inspect) -> Result<T, MissReason> + Send,
    ) -> PyResult<Result<T, MissReason>> {
        let cache = self.open()?;
        Ok(py.detach(|| cache.store().inspect().ok_or(MissReason::Unavailable).and_then(call)))
    }
}

/// The bytes of a Python object, for as long as a call lasts.
struct Borrowed(*const [u8]);

// SAFETY: the bytes are only read.
unsafe impl Send for Borrowed {}
// SAFETY: as above.
unsafe impl Sync for Borrowed {}

impl Borrowed {
    /// Makes an artifact of borrowed bytes.
    ///
    /// # Safety
    /// The bytes stay in place, and are not written, until the last clone of the artifact is dropped.
    #[expect(clippy::new_ret_no_self, reason = "an artifact hides its owner")]
    unsafe fn new(bytes: &[u8]) -> warmstart::Artifact {
        warmstart::Artifact::from_owner(Self(bytes))
    }
}

impl AsRef<[u8]> for Borrowed {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: `new` requires that the bytes stay.
        unsafe { &*self.0 }
    }
}

fn in_front_of<S: Store + 'static>(store: S, memory_bytes: Option<u64>) -> Box<dyn Store> {
    match memory_bytes {
        Some(bytes) => Box::new(TieredStore::new(Limits::bytes(bytes), store)),
        None => Box::new(store),
    }
}

/// Returns what a builder has returned.
fn built(artifact: Bound<'_, PyAny>) -> PyResult<warmstart::Artifact> {
    let wrong = |error: PyErr| {
        let name = buffer::type_name(&artifact);
        let wrong = PyTypeError::new_err(format!(
            "the builder returned {name}: return bytes, or a contiguous buffer"
        ));
        wrong.set_cause(artifact.py(), Some(error));
        wrong
    };
    Ok(warmstart::Artifact::new(buffer::copy(&artifact).map_err(wrong)?))
}

/// Logs the damage that a look-up found, and why an artifact was not stored.
fn warn_of(py: Python<'_>, fetched: &Fetched) {
    if let Some(reason) = fetched.miss() {
        warn_of_damage(py, reason);
    }
    if let Some(reason) = fetched.refusal() {
        warn(py, &format!("an artifact was not stored: {reason}"));
    }
}

/// Returns the answer of a store, or logs why there is none, and answers as an empty one would.
fn or_warn<T: Default>(py: Python<'_>, call: &str, answer: Result<T, MissReason>) -> T {
    answer.unwrap_or_else(|reason| {
        warn(py, &format!("{call}: {reason}"));
        T::default()
    })
}
