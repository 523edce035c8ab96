//! The CPU target: C kernels compiled by the machine's compiler, loaded and called.
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
//! What decides the object is in its key: the source, the flags, the contents of every header that is reached, the
//! compiler down to the contents of its programs, and the CPU features one by one. No path is. A warm start runs no
//! compiler: it reads the headers that the compiler had read. Their digests are remembered in the [`CpuTarget`], so a new
//! process reads every header once, and later look-ups with the same target only those that the file system says
//! changed.
//!
//! A call makes one `Request`, here: the kernel, where its headers are, and the fields of its keys. It finds, builds and
//! stores. What a kernel, its flags and the features of a CPU are is in `kernel`, `flags` and `features`; which compiler
//! there is in `compiler`, and what that is made of in `probe`. A build runs it in `compile`; `assembly` refuses what would
//! read files unseen, `scan` reads off a text what it asks for, and `snapshot` takes down what was there, as `dependencies`,
//! which say later whether all is still so. `library` loads the object.

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

use std::sync::atomic::{AtomicU64, Ordering};

use warmstart_core::{
    artifact::{Artifact, Provenance},
    key::{Key, KeyFields},
    metadata::Metadata,
    reason::Reason,
};

use crate::{
    cache::{Cache, Fetched, How},
    store::{Lookup, Store, Stored},
};
use dependencies::{Compilation, Dependencies, Digests, Manifest, Roots, encoded};
use error::CompileProblem;
use features::{FEATURES, MACHINE, machine};
use probe::Probe;

/// The domain of the keys. A key that leaves the headers out is another schema of it than one that does not.
const DOMAIN: &str = "warmstart.cpu";
const SCHEMA: u32 = 2;

/// The attribute of an object with what it was made from.
const DEPENDENCIES: &str = "cpu.dependencies";

/// Compiles C kernels for this machine, and loads them.
#[derive(Debug)]
pub struct CpuTarget {
    compiler: Compiler,
    features: CpuFeatures,
    digests: Digests,
}

/// A loaded kernel, and how its object was come by.
#[derive(Debug)]
pub struct Loaded {
    fetched: Fetched,
    library: Library,
}

impl Loaded {
    /// How the object was come by.
    pub const fn fetched(&self) -> &Fetched {
        &self.fetched
    }

    /// The library, for its symbols.
    #[must_use]
    pub const fn library(&self) -> &Library {
        &self.library
    }
}

impl CpuTarget {
    /// A target that compiles with `compiler` for the features of this host.
    #[must_use]
    pub fn new(compiler: Compiler) -> Self {
        Self { compiler, features: CpuFeatures::host(), digests: Digests::default() }
    }

    /// Compiles for these features instead. An object is refused by [`load`](Self::load) if the host lacks one.
    #[must_use]
    pub fn with_features(mut self, features: CpuFeatures) -> Self {
        self.features = features;
        self
    }

    /// The compiler.
    #[must_use]
    pub const fn compiler(&self) -> &Compiler {
        &self.compiler
    }

    /// The features that are compiled for.
    #[must_use]
    pub const fn features(&self) -> &CpuFeatures {
        &self.features
    }

    /// Looks the kernel's object up, else compiles and stores it.
    ///
    /// It is found again wherever the headers lie, as long as their contents are the same, and as long as no new file
    /// would be found before one of them. A kernel that depends on more than can be told (`#embed`, `__DATE__`,
    /// `#include` and `__has_include` of a macro) is compiled each time, because of [`Reason::Uncacheable`].
    ///
    /// Accepted flags are `-O`, `-f`, `-m`, `-D`, `-U`, `-std=`, `-W`, `-g`, `-pthread` and `-lm`, as far as all of
    /// their effect is in their text; `-O3` is the default. Features of the CPU are not chosen by flags but by
    /// [`with_features`](Self::with_features), so that [`load`](Self::load) refuses the object where one lacks.
    ///
    /// # Errors
    /// A flag or the name of a feature is not accepted, the compiler is missing, it rejects the source, or the assembly
    /// can read files and the kernel has no [digest](Kernel::extra_digest) of them. Then nothing is stored.
    pub fn compile<S: Store>(&self, cache: &Cache<S>, kernel: &Kernel) -> Result<Fetched, CompileError> {
        let probe = self.compiler.identity(cache.store())?;
        let request = Request::new(self, kernel, &probe)?;
        let recall = |flight_key: &[u8]| {
            cache.recall(
                flight_key,
                |store| request.find(store),
                || request.build(),
                |store, artifact, inputs| request.keep(store, artifact, inputs),
            )
        };
        let fetched = recall(request.first.as_bytes())?;
        let is_ours = || {
            made_from(fetched.artifact())
                .is_some_and(|made_from| made_from.hold(&request.compilation.roots, &self.digests))
        };
        if !matches!(fetched.how(), How::Shared { .. }) || is_ours() {
            return Ok(fetched);
        }
        // Another thread built it, and saw other headers: those of another checkout, or as they were before an edit.
        static ALONE: AtomicU64 = AtomicU64::new(0);
        let number = ALONE.fetch_add(1, Ordering::Relaxed);
        let fields = request.fields.clone().number("process", std::process::id().into());
        recall(fields.number("alone", number).key().as_bytes())
    }

    /// [Compiles](Self::compile) the kernel if need be, and loads its object. An object that was found and that the
    /// system's loader refuses is removed and compiled once more; the statistics count a hit, a miss and a build then.
    ///
    /// # Errors
    /// It cannot be compiled, or this host cannot load what it was compiled to.
    pub fn load<S: Store>(&self, cache: &Cache<S>, kernel: &Kernel) -> Result<Loaded, LoadError> {
        let mut fetched = self.compile(cache, kernel)?;
        // SAFETY: the object was compiled from the caller's source, or was stored under the digest of that source by
        // somebody whom the store trusts.
        let mut library = unsafe { Library::load(fetched.artifact()) };
        if fetched.is_hit() && library.as_ref().is_err_and(LoadError::is_refused_object) {
            if let Some(dependencies) = made_from(fetched.artifact()) {
                let probe = self.compiler.identity(cache.store())?;
                let key = Request::new(self, kernel, &probe)?.with(&dependencies).key();
                // Not removed means found and refused once more, nothing worse.
                let _ = cache.store().remove(key.as_bytes());
            }
            fetched = self.compile(cache, kernel)?;
            // SAFETY: as above.
            library = unsafe { Library::load(fetched.artifact()) };
        }
        Ok(Loaded { library: library?, fetched })
    }
}

/// A kernel as it is compiled now: made once for all that looks it up, builds and stores it.
struct Request<'a> {
    target: &'a CpuTarget,
    compilation: Compilation<'a>,
    /// Everything but the headers, and the key of that.
    fields: KeyFields<'a>,
    first: Key,
}

impl<'a> Request<'a> {
    fn new(target: &'a CpuTarget, kernel: &'a Kernel, probe: &'a Probe) -> Result<Self, CompileError> {
        let roots = Roots::of(kernel, probe)
            .map_err(|error| CompileProblem::Io("cannot tell the current directory", error))?;
        let options = target.features.options();
        let fixed = compile::COMPILED.iter().chain(compile::LINKED).copied().map(String::from);
        let mut fields = KeyFields::new(DOMAIN, SCHEMA)
            .digest("source", Key::digest(kernel.source.as_bytes()).as_bytes().to_vec(), kernel.name.as_str())
            .list("flags", kernel.flags.iter().map(String::as_str))
            .list("options", fixed.chain(options.iter().cloned()))
            .list("cpu features", target.features.names())
            .text("machine", machine())
            .text("triple", probe.triple.as_str())
            .text("compiler", probe.version.as_str())
            .digest("compiler content", &probe.digest, "the compiler and what it runs")
            .number("source directories", kernel.source_dir.iter().count() as u64)
            .number("include directories", kernel.include_dirs.len() as u64)
            .number("system directories", probe.system.len() as u64);
        if let Some(digest) = &kernel.extra_digest {
            fields = fields.bytes("extra digest", digest.as_bytes());
        }
        let (compiler, digests) = (target.compiler.path(), &target.digests);
        let compilation = Compilation { compiler, digests, kernel, probe, roots, options };
        Ok(Self { target, compilation, first: fields.key(), fields })
    }

    /// The fields of an object's key.
    fn with(&self, dependencies: &Dependencies) -> KeyFields<'a> {
        dependencies.add_to(self.fields.clone())
    }

    fn find<S: Store>(&self, store: &S) -> Lookup {
        let manifest = match store.get(self.first.as_bytes()) {
            Lookup::Hit(artifact) => artifact,
            Lookup::Miss(reason) => return Lookup::Miss(reason),
        };
        let Some(manifest) = Manifest::decode(manifest.payload()) else {
            return Lookup::Miss(Reason::Malformed);
        };
        let mut miss = Reason::InputChanged;
        for set in
            manifest.sets.into_iter().filter(|set| set.hold(&self.compilation.roots, &self.target.digests))
        {
            match store.get(self.with(&set).key().as_bytes()) {
                // Its key says so already. This proves that the key left nothing out.
                Lookup::Hit(artifact) if is_made_from(&artifact, &set) => {
                    return Lookup::Hit(artifact);
                }
                Lookup::Hit(_) => miss = Reason::InputChanged,
                Lookup::Miss(reason) => miss = reason,
            }
        }
        Lookup::Miss(miss)
    }

    fn build(&self) -> Result<(Artifact, Result<Dependencies, Reason>), CompileError> {
        // What is found was built, and so has flags that are accepted.
        flags::check(&self.compilation.kernel.flags, &self.target.features)?;
        let (object, snapshot) = compile::compile(&self.compilation)?;
        let mut metadata = Metadata::new()
            .with_attribute(FEATURES, self.target.features.to_string())
            .with_attribute(MACHINE, machine());
        let mut inputs = snapshot.map(|snapshot| snapshot.dependencies);
        if !self.target.compiler.is_still(self.compilation.probe) {
            inputs = Err(Reason::InputUnstable);
        }
        if let Ok(dependencies) = &inputs {
            metadata = metadata
                .with_recipe(self.with(dependencies).recipe())
                .with_attribute(DEPENDENCIES, encoded(dependencies));
        }
        Ok((Artifact::new(object).with_metadata(&metadata), inputs))
    }

    /// Stores the object first: a manifest never promises what is not there.
    fn keep<S: Store>(
        &self,
        store: &S,
        artifact: &Artifact,
        inputs: Result<Dependencies, Reason>,
    ) -> Result<Stored, Reason> {
        let dependencies = inputs?;
        let object = store.put(self.with(&dependencies).key().as_bytes(), artifact)?;
        let manifest = store.get(self.first.as_bytes()).hit();
        let manifest = manifest.and_then(|artifact| Manifest::decode(artifact.payload())).unwrap_or_default();
        let created_unix_ms = artifact.provenance().created_unix_ms;
        let label = format!("headers of {}", self.compilation.kernel.name);
        let manifest = Artifact::new(encoded(&manifest.with(dependencies)))
            .with_metadata(&Metadata::new().with_attribute(Metadata::LABEL, label))
            .with_provenance(Provenance { created_unix_ms, build_nanos: 0 });
        let listed = store.put(self.first.as_bytes(), &manifest)?;
        Ok(Stored { evicted: object.evicted + listed.evicted })
    }
}

/// Whether an object was made from just these, by what is kept with it.
fn is_made_from(artifact: &Artifact, dependencies: &Dependencies) -> bool {
    let is_theirs = |bytes: &[u8]| *bytes == *encoded(dependencies);
    artifact.metadata().is_ok_and(|metadata| metadata.attribute(DEPENDENCIES).is_some_and(is_theirs))
}

/// What an object was made from, if that is kept with it.
fn made_from(artifact: &Artifact) -> Option<Dependencies> {
    postcard::from_bytes(artifact.metadata().ok()?.attribute(DEPENDENCIES)?).ok()
}
