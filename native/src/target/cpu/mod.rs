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

mod compile;
mod compiler;
mod dependencies;
mod error;
mod features;
mod flags;
mod kernel;
mod library;
mod manifest;
mod probe;
mod scan;
mod snapshot;
mod told;

pub use compiler::Compiler;
pub use error::{CompileError, LoadError};
pub use features::CpuFeatures;
pub use kernel::Kernel;
pub use library::{Library, Symbol};

use std::{
    io,
    path::PathBuf,
    sync::atomic::{AtomicU64, Ordering},
};

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
use dependencies::{Dependencies, Digests, Roots};
use error::CompileProblem;
use manifest::Manifest;
use probe::Probe;

/// The domain of the keys. A key that leaves the headers out is another schema of it than one that does not.
const DOMAIN: &str = "warmstart.cpu";
const SCHEMA: u32 = 2;

/// The attributes of an object: the CPU features that it needs, the machine that it is for, and what it was made from.
const FEATURES: &str = "cpu.features";
const MACHINE: &str = "cpu.machine";
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

    /// The library, without the rest.
    #[must_use]
    pub fn into_library(self) -> Library {
        self.library
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
    /// `__has_include` of a macro, assembly that could hold `.incbin`) is compiled each time, because of
    /// [`Reason::Uncacheable`]. So are raw strings, which not every compiler reads in the same way.
    ///
    /// Accepted flags are `-O`, `-f`, `-m`, `-D`, `-U`, `-std=`, `-W`, `-w`, `-g`, `-pthread` and `-lm`, as far as all of
    /// their effect is in their text; `-O3` is the default. A `-m` that asks for a CPU feature has to ask for one that
    /// can be found out, so that [`load`](Self::load) refuses the object where it lacks.
    ///
    /// # Errors
    /// A flag or the name of a feature is not accepted, the compiler is missing, or it rejects the source. Then nothing is stored.
    pub fn compile<S: Store>(&self, cache: &Cache<S>, kernel: &Kernel) -> Result<Fetched, CompileError> {
        flags::check(kernel.all_flags())?;
        flags::check_features(&self.features)?;
        let probe = self.compiler.identity(cache.store())?;
        let directories = Directories::of(kernel)?;
        let roots = directories.roots(&probe);
        let options = self.features.options();
        let fields = self.fields(&probe, kernel, &options);
        let first = fields.key();
        let recall = |flight_key: &[u8]| {
            cache.recall(
                flight_key,
                |store| self.find(store, &first, &fields, roots),
                || self.build(&probe, &options, kernel, &fields, roots),
                |store, artifact, inputs| keep(store, &first, kernel.name(), artifact, inputs),
            )
        };
        let fetched = recall(first.as_bytes())?;
        if !matches!(fetched.how(), How::Shared { .. }) || self.still_gives(fetched.artifact(), roots) {
            return Ok(fetched);
        }
        // Whoever built it saw other headers: those of another checkout, or as they were before an edit.
        static ALONE: AtomicU64 = AtomicU64::new(0);
        let number = ALONE.fetch_add(1, Ordering::Relaxed);
        recall(
            fields
                .clone()
                .number("process", std::process::id().into())
                .number("alone", number)
                .key()
                .as_bytes(),
        )
    }

    /// [Compiles](Self::compile) the kernel if need be, and loads its object. An object that was found and that the
    /// system's loader refuses is removed and compiled once more; the statistics count a hit, a miss and a build then.
    ///
    /// # Errors
    /// It cannot be compiled, or this host cannot load what it was compiled to.
    pub fn load<S: Store>(&self, cache: &Cache<S>, kernel: &Kernel) -> Result<Loaded, LoadError> {
        let fetched = self.compile(cache, kernel)?;
        // SAFETY: the object was compiled from the caller's source, or was stored under the digest of that source by
        // somebody whom the store trusts.
        let library = match unsafe { Library::load(fetched.artifact()) } {
            Err(error) if fetched.is_hit() && error.is_refused_object() => {
                self.forget(cache, kernel)?;
                let fetched = self.compile(cache, kernel)?;
                // SAFETY: as above.
                let library = unsafe { Library::load(fetched.artifact()) }?;
                return Ok(Loaded { fetched, library });
            }
            library => library?,
        };
        Ok(Loaded { fetched, library })
    }

    /// Removes the objects that a look-up of the kernel could find now.
    fn forget<S: Store>(&self, cache: &Cache<S>, kernel: &Kernel) -> Result<(), CompileError> {
        let probe = self.compiler.identity(cache.store())?;
        let directories = Directories::of(kernel)?;
        let fields = self.fields(&probe, kernel, &self.features.options());
        let manifest = cache.store().get(fields.key().as_bytes()).hit();
        let sets =
            manifest.and_then(|manifest| Manifest::decode(manifest.payload())).unwrap_or_default().sets;
        for set in sets.into_iter().filter(|set| set.hold(directories.roots(&probe), &self.digests)) {
            // Not removed means found and refused once more, nothing worse.
            let _ = cache.store().remove(set.add_to(fields.clone()).key().as_bytes());
        }
        Ok(())
    }

    /// Everything but the headers.
    fn fields<'a>(&self, probe: &Probe, kernel: &'a Kernel, options: &[String]) -> KeyFields<'a> {
        KeyFields::new(DOMAIN, SCHEMA)
            .digest("source", Key::digest(kernel.source().as_bytes()).as_bytes().to_vec(), kernel.name())
            .list("flags", kernel.all_flags().iter().map(String::as_str))
            .list("options", compile::FIXED.iter().copied().map(String::from).chain(options.iter().cloned()))
            .list("cpu features", self.features.names().map(String::from).collect::<Vec<_>>())
            .text("machine", machine())
            .text("triple", probe.triple.clone())
            .text("compiler", probe.version.clone())
            .digest("compiler content", probe.digest.to_vec(), "the compiler and what it runs")
            .number("source directories", kernel.directory_of_source().iter().count() as u64)
            .number("include directories", kernel.include_dirs().len() as u64)
            .number("system directories", probe.system.len() as u64)
    }

    fn find<S: Store>(&self, store: &S, first: &Key, fields: &KeyFields<'_>, roots: Roots<'_>) -> Lookup {
        let manifest = match store.get(first.as_bytes()) {
            Lookup::Hit(artifact) => artifact,
            Lookup::Miss(reason) => return Lookup::Miss(reason),
        };
        let Some(manifest) = Manifest::decode(manifest.payload()) else {
            return Lookup::Miss(Reason::Malformed);
        };
        let mut miss = Reason::InputChanged;
        for set in manifest.sets {
            if set.hold(roots, &self.digests) {
                match store.get(set.add_to(fields.clone()).key().as_bytes()) {
                    // Its key says so already. This proves that the key left nothing out.
                    Lookup::Hit(artifact) if is_made_from(&artifact, &set) => return Lookup::Hit(artifact),
                    Lookup::Hit(_) => miss = Reason::InputChanged,
                    Lookup::Miss(reason) => miss = reason,
                }
            }
        }
        Lookup::Miss(miss)
    }

    /// Whether an object is what these headers give, by what is kept with it.
    fn still_gives(&self, artifact: &Artifact, roots: Roots<'_>) -> bool {
        let Ok(metadata) = artifact.metadata() else { return false };
        let dependencies = metadata.attribute(DEPENDENCIES).and_then(Dependencies::decode);
        dependencies.is_some_and(|dependencies| dependencies.hold(roots, &self.digests))
    }

    fn build(
        &self,
        probe: &Probe,
        options: &[String],
        kernel: &Kernel,
        fields: &KeyFields<'_>,
        roots: Roots<'_>,
    ) -> Result<(Artifact, Result<Inputs, Reason>), CompileError> {
        let compiled = compile::compile(&self.compiler, probe, options, kernel, roots, &self.digests)?;
        let mut metadata = Metadata::new()
            .with_attribute(FEATURES, self.features.with_flags(kernel.all_flags()).to_string())
            .with_attribute(MACHINE, machine());
        let mut inputs = compiled.inputs.map(|snapshot| snapshot.dependencies);
        if !self.compiler.is_still(probe) {
            inputs = Err(Reason::InputUnstable);
        }
        let inputs = inputs.map(|dependencies| {
            let fields = dependencies.add_to(fields.clone());
            metadata = std::mem::take(&mut metadata)
                .with_recipe(fields.recipe())
                .with_attribute(DEPENDENCIES, dependencies.encode());
            Inputs { key: fields.key(), dependencies }
        });
        Ok((Artifact::new(compiled.object).with_metadata(&metadata), inputs))
    }
}

/// Whether an object was made from just these, by what is kept with it.
fn is_made_from(artifact: &Artifact, dependencies: &Dependencies) -> bool {
    artifact.metadata().is_ok_and(|metadata| {
        metadata.attribute(DEPENDENCIES).is_some_and(|bytes| *bytes == *dependencies.encode())
    })
}

/// What an object was made from, and the key that this makes.
struct Inputs {
    key: Key,
    dependencies: Dependencies,
}

/// Stores the object first: a manifest never promises what is not there.
fn keep<S: Store>(
    store: &S,
    first: &Key,
    name: &str,
    artifact: &Artifact,
    inputs: Result<Inputs, Reason>,
) -> Result<Stored, Reason> {
    let Inputs { key, dependencies } = inputs?;
    let object = store.put(key.as_bytes(), artifact)?;
    let manifest =
        store.get(first.as_bytes()).hit().and_then(|artifact| Manifest::decode(artifact.payload()));
    let manifest = manifest.unwrap_or_default().with(dependencies).encode().ok_or(Reason::TooLong)?;
    let created_unix_ms = artifact.provenance().created_unix_ms;
    let manifest = Artifact::new(manifest)
        .with_metadata(&Metadata::new().with_attribute(Metadata::LABEL, format!("headers of {name}")))
        .with_provenance(Provenance { created_unix_ms, build_nanos: 0 });
    let listed = store.put(first.as_bytes(), &manifest)?;
    Ok(Stored { evicted: object.evicted + listed.evicted })
}

/// The kind of machine that this process runs on.
fn machine() -> String {
    format!("{} {}", std::env::consts::OS, std::env::consts::ARCH)
}

/// The caller's directories, as absolute paths.
struct Directories {
    source: Option<PathBuf>,
    includes: Vec<PathBuf>,
}

impl Directories {
    fn of(kernel: &Kernel) -> Result<Self, CompileError> {
        let unknown =
            |error| CompileError::new(CompileProblem::Io("cannot tell the current directory", error));
        Ok(Self {
            source: kernel.directory_of_source().map(std::path::absolute).transpose().map_err(unknown)?,
            includes: kernel
                .include_dirs()
                .iter()
                .map(std::path::absolute)
                .collect::<io::Result<_>>()
                .map_err(unknown)?,
        })
    }

    fn roots<'a>(&'a self, probe: &'a Probe) -> Roots<'a> {
        Roots { source: self.source.as_deref(), includes: &self.includes, system: &probe.system }
    }
}
