//! The CPU target: compiles C kernels by the machine's compiler, and loads them.
//!
//! ```
//! use warmstart::{Cache, Limits, store::MemoryStore, target::cpu::{Compiler, CpuTarget, Kernel}};
//!
//! let cache = Cache::new(MemoryStore::new(Limits::NONE));
//! let target = CpuTarget::new(Compiler::find()?);
//! let kernel = Kernel::new("add", "int add(int a, int b) { return a + b; }");
//! let loaded = target.load(&cache, &kernel)?;
//! // SAFETY: this is its type in the source above.
//! let add = unsafe { loaded.library().symbol::<unsafe extern "C" fn(i32, i32) -> i32>("add")? };
//! // SAFETY: it has no preconditions.
//! assert_eq!(unsafe { add(1, 2) }, 3);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The key of an object holds all that decides it: the source, the flags, the contents of every header that the source
//! includes, the compiler down to the contents of its programs, and the CPU features one by one. It holds no paths. A warm
//! start runs no compiler: it reads the headers that the compiler read before. The [`CpuTarget`] remembers their digests, so a
//! new process reads every header once, and later look-ups with the same target read only changed ones.
//!
//! A call makes one `Request` for look-up, build and store: the kernel, the directories of its headers, and the fields of its
//! key. `kernel`, `flags` and `features` describe a kernel, `compiler` and `probe` the compiler. A build runs it in `compile`.
//! `assembly` refuses directives that read files, and `scan` finds the headers that a text asks for. `snapshot` records the
//! state of all files as `dependencies`, which tell later whether they changed. `library` loads the object.

mod assembly;
mod compile;
mod compiler;
mod dependencies;
mod error;
mod features;
mod flags;
mod kernel;
mod library;
mod probe;
mod scan;
mod snapshot;

pub use compiler::Compiler;
pub use error::{CompileError, LoadError};
pub use features::CpuFeatures;
pub use kernel::Kernel;
pub use library::{Library, Symbol};
pub use warmstart_core::program::ExtraDigest;

use warmstart_core::{
    artifact::{Artifact, Metadata, Provenance},
    reason::MissReason,
};

use crate::{
    cache::{Cache, Fetched, Item, ManyOptions, Origin, unshared_flight_key},
    store::Store,
};
use dependencies::{Dependencies, Digests, Manifest, encoded};
use features::{FEATURES, MACHINE, machine};
use kernel::{DEPENDENCIES, Request, made_from};
use probe::Probe;

/// Compiles C kernels for this machine, and loads them.
#[derive(Debug)]
pub struct CpuTarget {
    compiler: Compiler,
    features: CpuFeatures,
    digests: Digests,
}

/// A loaded kernel and the origin of its object: hit, coalesced or built.
#[derive(Debug)]
pub struct Loaded {
    fetched: Fetched,
    library: Library,
}

impl Loaded {
    /// Returns the object and its origin: hit, coalesced or built.
    pub const fn fetched(&self) -> &Fetched {
        &self.fetched
    }

    /// Returns the library, for its symbols.
    #[must_use]
    pub const fn library(&self) -> &Library {
        &self.library
    }
}

impl CpuTarget {
    /// Creates a target that compiles with `compiler` for the CPU features of this host.
    #[must_use]
    pub fn new(compiler: Compiler) -> Self {
        Self { compiler, features: CpuFeatures::host(), digests: Digests::default() }
    }

    /// Sets the features to compile for. [`load`](Self::load) refuses an object if the host lacks one of its features.
    #[must_use]
    pub fn with_features(self, features: CpuFeatures) -> Self {
        Self { features, ..self }
    }

    /// Returns the compiler.
    #[must_use]
    pub const fn compiler(&self) -> &Compiler {
        &self.compiler
    }

    /// Returns the features to compile for.
    #[must_use]
    pub const fn features(&self) -> &CpuFeatures {
        &self.features
    }

    /// Looks up the object of a kernel, else compiles and stores it.
    ///
    /// An object is found wherever the headers are, as long as their contents are the same and no new file would be found before
    /// one of them. A kernel with dependencies that cannot be determined (`#embed`, `__DATE__`, `#include` and `__has_include`
    /// of a macro) is compiled each time, with [`MissReason::Uncacheable`].
    ///
    /// Accepted flags are `-O`, `-f`, `-m`, `-D`, `-U`, `-std=`, `-W`, `-g`, `-pthread` and `-lm`, unless their effect depends on
    /// files or the host; `-O3` is the default. CPU features are not chosen by flags but by
    /// [`with_features`](Self::with_features), so that [`load`](Self::load) refuses the object on a host without them.
    ///
    /// # Errors
    /// [`CompileError`] if a flag or the name of a feature is not accepted, the compiler is missing or rejects the source, or
    /// the assembly can read files and the kernel has no [digest](Kernel::extra_digest) of them. Then nothing is stored.
    pub fn compile<S: Store>(&self, cache: &Cache<S>, kernel: &Kernel) -> Result<Fetched, CompileError> {
        let probe = self.compiler.identity(cache.store())?;
        let request = self.request(kernel, &probe)?;
        let fetch = |flight_key: &[u8]| {
            cache.get_or_build_with(
                flight_key,
                |store| request.find(store),
                || request.build(),
                |store, artifact, built| request.keep(store, artifact, built),
            )
        };
        let fetched = fetch(request.flight_key())?;
        if request.accepts(&fetched) {
            return Ok(fetched);
        }
        fetch(unshared_flight_key().as_bytes())
    }

    /// [Compiles](Self::compile) the kernel if needed, and loads its object. If the system's loader refuses a stored object, that
    /// is removed and compiled again; the statistics then count a hit, a miss and a build.
    ///
    /// # Errors
    /// [`LoadError`] if the kernel cannot be compiled, or this host cannot load the object.
    pub fn load<S: Store>(&self, cache: &Cache<S>, kernel: &Kernel) -> Result<Loaded, LoadError> {
        let fetched = self.compile(cache, kernel)?;
        self.load_compiled(cache, kernel, fetched)
    }

    /// Loads many kernels, and returns the results in the same order. Missing objects are compiled by several threads, and
    /// divided among the processes that need them, as by [`get_or_build_many`](Cache::get_or_build_many). Otherwise each kernel
    /// is treated as by [`load`](Self::load).
    ///
    /// ```
    /// use warmstart::{Cache, Limits, cache::ManyOptions, store::MemoryStore, target::cpu::{Compiler, CpuTarget, Kernel}};
    ///
    /// let cache = Cache::new(MemoryStore::new(Limits::NONE));
    /// let target = CpuTarget::new(Compiler::find()?);
    /// let kernels = ["one", "two"].map(|name| Kernel::new(name, format!("int {name}(void) {{ return 1; }}")));
    /// let loaded = target.load_many(&cache, &kernels, ManyOptions::default());
    /// assert!(loaded.iter().all(Result::is_ok));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn load_many<S: Store>(
        &self,
        cache: &Cache<S>,
        kernels: &[Kernel],
        options: ManyOptions<'_>,
    ) -> Vec<Result<Loaded, LoadError>> {
        let load_one = |(index, kernel)| {
            let loaded = self.load(cache, kernel)?;
            options.report(index, loaded.fetched());
            Ok(loaded)
        };
        // If the compiler cannot be identified, each kernel has that error.
        let Ok(probe) = self.compiler.identity(cache.store()) else {
            return kernels.iter().enumerate().map(load_one).collect();
        };
        let requests = kernels.iter().map(|kernel| self.request(kernel, &probe));
        let fetched = kernels.iter().zip(cache.get_or_build_items(requests, options));
        fetched.map(|(kernel, fetched)| self.load_compiled(cache, kernel, fetched?)).collect()
    }

    fn request<'a>(&'a self, kernel: &'a Kernel, probe: &'a Probe) -> Result<Request<'a>, CompileError> {
        Request::new(kernel, &self.compiler, probe, &self.features, &self.digests)
    }

    fn load_compiled<S: Store>(
        &self,
        cache: &Cache<S>,
        kernel: &Kernel,
        mut fetched: Fetched,
    ) -> Result<Loaded, LoadError> {
        // SAFETY: the object was compiled from the caller's source, or was stored under the digest of that source by
        // a writer that the store trusts.
        let mut library = unsafe { Library::load(fetched.artifact()) };
        if fetched.is_hit() && library.as_ref().is_err_and(LoadError::is_refused_object) {
            if let Some(dependencies) = made_from(fetched.artifact()) {
                let probe = self.compiler.identity(cache.store())?;
                let key = dependencies.add_to(self.request(kernel, &probe)?.fields).key();
                // If it cannot be removed, it is found and refused again next time.
                let _ = cache.store().remove(key.as_bytes());
            }
            fetched = self.compile(cache, kernel)?;
            // SAFETY: as above.
            library = unsafe { Library::load(fetched.artifact()) };
        }
        Ok(Loaded { library: library?, fetched })
    }
}

impl Item for Request<'_> {
    /// The dependencies of the object, or the reason why it is not stored.
    type Built = Result<Dependencies, MissReason>;
    type Error = CompileError;

    fn flight_key(&self) -> &[u8] {
        self.first.as_bytes()
    }

    /// Looks up the object that was made from the present headers.
    fn find<S: Store>(&self, store: &S) -> Result<Artifact, MissReason> {
        let manifest = store.get(self.first.as_bytes())?;
        let manifest = Manifest::decode(manifest.payload()).ok_or(MissReason::Malformed)?;
        let mut miss = MissReason::InputChanged;
        for set in manifest.sets.into_iter().filter(|set| set.hold(&self.roots, self.digests)) {
            match store.get(set.add_to(self.fields.clone()).key().as_bytes()) {
                // Its key says so already. This proves that the key left nothing out.
                Ok(artifact) if made_from(&artifact).as_ref() == Some(&set) => return Ok(artifact),
                Ok(_) => miss = MissReason::InputChanged,
                Err(reason) => miss = reason,
            }
        }
        Err(miss)
    }

    fn build(&self) -> Result<(Artifact, Self::Built), CompileError> {
        // A stored object was built, so its flags are accepted.
        flags::check(&self.kernel.flags, self.features)?;
        let (object, snapshot) = compile::compile(self)?;
        let mut metadata = Metadata::new()
            .with_attribute(FEATURES, self.features.to_string())
            .with_attribute(MACHINE, machine());
        let mut inputs = snapshot.map(|snapshot| snapshot.dependencies);
        if !self.compiler.is_still(self.probe) {
            inputs = Err(MissReason::InputUnstable);
        }
        if let Ok(dependencies) = &inputs {
            metadata = metadata
                .with_recipe(dependencies.add_to(self.fields.clone()).recipe())
                .with_attribute(DEPENDENCIES, encoded(dependencies));
        }
        Ok((Artifact::new(object).with_metadata(&metadata), inputs))
    }

    /// Stores the object first: a manifest never promises what is not there.
    fn keep<S: Store>(&self, store: &S, artifact: &Artifact, built: Self::Built) -> Result<u64, MissReason> {
        let dependencies = built?;
        let object = store.put(dependencies.add_to(self.fields.clone()).key().as_bytes(), artifact)?;
        let manifest = store.get(self.first.as_bytes()).ok();
        let manifest = manifest.and_then(|artifact| Manifest::decode(artifact.payload())).unwrap_or_default();
        let created_unix_ms = artifact.provenance().created_unix_ms;
        let label = format!("headers of {}", self.kernel.name);
        let manifest = Artifact::new(encoded(&manifest.with(dependencies)))
            .with_metadata(&Metadata::new().with_attribute(Metadata::LABEL, label))
            .with_provenance(Provenance { created_unix_ms, build_nanos: 0 });
        let listed = store.put(self.first.as_bytes(), &manifest)?;
        Ok(object + listed)
    }

    /// Returns whether an object was made from the headers that this process sees. Another thread may have built it from those of
    /// another checkout, or from those before an edit.
    fn accepts(&self, fetched: &Fetched) -> bool {
        !matches!(fetched.origin(), Origin::Coalesced { .. })
            || made_from(fetched.artifact())
                .is_some_and(|made_from| made_from.hold(&self.roots, self.digests))
    }
}
