//! The CUDA target: compiles programs by NVRTC, nvJitLink and NVVM, which are loaded at run time.
//!
//! ```no_run
//! use warmstart::{
//!     Cache, store::{FileStore, StoreOptions},
//!     target::cuda::{CudaTarget, Program, Toolkit},
//! };
//!
//! let cache = Cache::new(FileStore::open("/tmp/my-runtime", StoreOptions::default())?);
//! let target = CudaTarget::new(Toolkit::find()?);
//!
//! let source = "template <int N> __global__ void scale(float *x) { x[threadIdx.x] *= N; }";
//! let program = Program::cxx("scale.cu", source).arch("sm_90").name_expression("scale<3>");
//! let compiled = target.compile(&cache, &program)?;
//! println!("{} bytes of CUBIN, a hit: {}", compiled.binary().len(), compiled.is_hit());
//! println!("the kernel is called {:?}", compiled.lowered_name("scale<3>"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The key of a binary holds all that decides it: the source, the options as the compiler sees them, the exact architecture,
//! the contents of every header that the source can include and how each is found, the compiler's version and build id, and
//! the environment variables that can change the output. It holds no paths. An option that cannot be part of a key is refused
//! before anything is looked up; [`warmstart_core::program`] has the rules.
//!
//! NVRTC compiles exactly the texts in the key: it gets the source and the headers, and no directory to search. In binaries
//! and messages the texts have names such as `/warmstart/scale.cu` and `/warmstart/include0/tile.cuh`.
//!
//! The libraries are NVIDIA's and are not part of warmstart. They are loaded when a program has to be compiled: a warm start
//! reads the build id from a page of each file, and loads none. Files without a build id, as on Windows, are read whole.

mod error;
pub mod headers;
mod library;
mod nvjitlink;
mod nvrtc;
mod nvvm;
mod program;
mod toolkit;
mod unit;

pub use error::CudaError;
pub use headers::HeaderError;
pub use program::Program;
pub use warmstart_core::program::{CodeType, ExtraDigest, OptionName, Refusal, TargetType, Value};

use std::{
    collections::BTreeMap,
    env,
    ffi::OsString,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use warmstart_core::{
    artifact::{Artifact, Metadata},
    key::{Key, KeyFields},
    program::{Compiler, Contents, FoundHeaders, Toolchain},
    reason::MissReason,
    recipe::Recipe,
};

use crate::{
    cache::{Cache, Fetched, Item, ManyOptions, unshared_flight_key},
    os::{fork::Mutex, parallel},
    store::Store,
    target::files::{self, Memo},
};
use error::CudaProblem;
use headers::{Closed, Headers};
use library::{Loaded, build_id_by_name};
use toolkit::{
    Identified, find_builtins, keep_version, known_version, missing,
    part::{Part, Places},
};
use unit::{Bound, Compile, Output, Unit};

/// The attributes of a stored binary: its target, the compiler's log, and the lowered names.
const TARGET: &str = "cuda.target";
const LOG: &str = "cuda.log";
const LOWERED_NAMES: &str = "cuda.lowered_names";

/// The number of attempts while headers or libraries change between the look-up and the compilation.
const ATTEMPTS: usize = 4;

/// The environment variables that compilers read and that can change their output.
const VARIABLES: [&str; 8] = [
    "CAN_FINALIZE_DEBUG",
    "EDG_BASE",
    "FINALIZER_CUBIE",
    "FINALIZER_USE_LEGACY_ELF_BUILDER",
    "LIBNVVM_NVVM_VERSION",
    "LLVM_OVERRIDE_PRODUCER",
    "NVVM_IR_VER_CHK",
    "NV_NVVM_VERSION",
];

/// Compiles CUDA programs through a cache.
#[derive(Debug)]
pub struct CudaTarget {
    toolkit: Toolkit,
    headers: Headers,
}

/// A binary and its origin: hit, coalesced or built.
#[derive(Clone, Debug)]
#[must_use]
pub struct Compiled {
    fetched: Fetched,
    lowered_names: Vec<(String, String)>,
}

impl CudaTarget {
    /// Creates a target that compiles with the libraries of `toolkit`, which are loaded when a program has to be compiled.
    #[must_use]
    pub fn new(toolkit: Toolkit) -> Self {
        Self { toolkit, headers: Headers::default() }
    }

    /// Returns the toolkit.
    #[must_use]
    pub const fn toolkit(&self) -> &Toolkit {
        &self.toolkit
    }

    /// Looks up the binary of a program, else compiles and stores it.
    ///
    /// One of all threads of the process, and of all processes that share the store's directory, compiles; the others wait
    /// for it. If the store fails, the binary is returned all the same.
    ///
    /// # Errors
    /// [`CudaError`], without a look-up, if an option is refused or a header cannot be found without the compiler; after a
    /// miss, if the library is missing or cannot be used, rejects the source, does not support the architecture or makes an
    /// empty binary. Then nothing is stored.
    pub fn compile<S: Store>(&self, cache: &Cache<S>, program: &Program) -> Result<Compiled, CudaError> {
        for _ in 0..ATTEMPTS {
            if let Some(compiled) = self.attempt(cache, program, None)? {
                return Ok(compiled);
            }
        }
        // The inputs changed at every attempt. This one is stored under the key of the inputs that it is compiled from, and not
        // shared with callers that wait for another key.
        let compiled = self.attempt(cache, program, Some(unshared_flight_key()))?;
        compiled.ok_or_else(|| CudaError::new(CudaProblem::Unstable))
    }

    /// Compiles many programs as far as need be, and returns their binaries in their order. Missing ones are compiled by several
    /// threads, and the work is shared with other processes that ask for them, as
    /// [`get_or_build_many`](Cache::get_or_build_many) says. Each program is otherwise treated as by
    /// [`compile`](Self::compile).
    ///
    /// ```no_run
    /// use warmstart::{
    ///     Cache, cache::ManyOptions, store::{FileStore, StoreOptions},
    ///     target::cuda::{CudaTarget, Program, Toolkit},
    /// };
    ///
    /// let cache = Cache::new(FileStore::open("/tmp/my-runtime", StoreOptions::default())?);
    /// let target = CudaTarget::new(Toolkit::find()?);
    /// let source = "__global__ void scale(float *x) { x[threadIdx.x] *= N; }";
    /// let program = |n| Program::cxx("scale.cu", format!("#define N {n}\n{source}")).arch("sm_90");
    /// let programs: Vec<Program> = (1..=8).map(program).collect();
    /// for compiled in target.compile_many(&cache, &programs, ManyOptions::default()) {
    ///     println!("{} bytes", compiled?.binary().len());
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn compile_many<S: Store>(
        &self,
        cache: &Cache<S>,
        programs: &[Program],
        options: ManyOptions<'_>,
    ) -> Vec<Result<Compiled, CudaError>> {
        let inputs = parallel::map(programs.len(), 4, |index| self.inputs(cache.store(), &programs[index]));
        let requests = programs.iter().zip(&inputs).map(|(program, inputs)| {
            let (toolchain, contents) = inputs.as_ref().map_err(|_| Stop::Changed)?;
            Ok(Request::new(self, program, toolchain, contents)?)
        });
        let fetched = programs.iter().zip(cache.get_or_build_items(requests, options)).enumerate();
        let compiled = fetched.map(|(index, (program, fetched))| match fetched {
            Ok(fetched) => Compiled::new(fetched, program),
            Err(Stop::Failed(error)) => Err(error),
            // Its inputs could not be read, or were edited meanwhile.
            Err(Stop::Changed) => {
                let compiled = self.compile(cache, program)?;
                options.report(index, &compiled.fetched);
                Ok(compiled)
            }
        });
        compiled.collect()
    }

    /// Returns the program's key as its inputs are now, to check whether the binary is stored or to remove it, and the recipe of
    /// the key, to [explain](Cache::explain) a miss.
    ///
    /// # Errors
    /// As [`compile`](Self::compile), without those of the compilation.
    pub fn key<S: Store>(&self, cache: &Cache<S>, program: &Program) -> Result<(Key, Recipe), CudaError> {
        let (toolchain, contents) = self.inputs(cache.store(), program)?;
        let request = Request::new(self, program, &toolchain, &contents)?;
        Ok((request.key, request.fields.recipe()))
    }

    /// Reads all inputs besides the program itself that decide the binary.
    fn inputs<S: Store>(
        &self,
        store: &S,
        program: &Program,
    ) -> Result<(Arc<Toolchain>, Contents), CudaError> {
        let toolchain = self.toolkit.toolchain(store, program.description.code.compiler())?;
        // Only CUDA C++ includes headers; a header digest stands for all of them.
        let has_headers = program.description.code == CodeType::Cxx && program.header_digest.is_none();
        let found = has_headers.then(|| self.headers.found(program)).transpose();
        let found = found.map_err(|error| CudaError::headers(program, error))?;
        let uses_libdevice = program.description.options.is_set(OptionName::UseLibdevice);
        let libdevice = uses_libdevice.then(|| self.toolkit.libdevice_digest()).transpose()?;
        Ok((toolchain, contents(program, found, libdevice)))
    }

    /// Looks the program up with its present inputs, else compiles it. `None` if an input changed meanwhile.
    fn attempt<S: Store>(
        &self,
        cache: &Cache<S>,
        program: &Program,
        alone: Option<Key>,
    ) -> Result<Option<Compiled>, CudaError> {
        let (toolchain, contents) = self.inputs(cache.store(), program)?;
        let request = Request::new(self, program, &toolchain, &contents)?;
        let flight = alone.unwrap_or(request.key);
        let mut lowered_names = None;
        let outcome = cache.get_or_build_with(
            flight.as_bytes(),
            |store| {
                let (artifact, names) = request.look_up(store)?;
                lowered_names = Some(names);
                Ok(artifact)
            },
            || self.build(&request, alone.is_some()),
            |store, artifact, built: Key| store.put(built.as_bytes(), artifact),
        );
        let fetched = match outcome {
            Ok(fetched) => fetched,
            Err(Stop::Changed) => return Ok(None),
            Err(Stop::Failed(error)) => return Err(error),
        };
        Ok(Some(match lowered_names {
            Some(lowered_names) => Compiled { fetched, lowered_names },
            None => Compiled::new(fetched, program)?,
        }))
    }

    /// Compiles the program with its present headers. Returns the artifact and its key: the requested one, or with `is_alone`
    /// that of the present inputs.
    fn build(&self, request: &Request<'_>, is_alone: bool) -> Result<(Artifact, Key), Stop> {
        let program = request.program;
        let untold = |error| CudaError::headers(program, error);
        let (texts, found) = match request.contents.headers {
            Some(_) => {
                let (closed, found) = self.headers.closed(program).map_err(untold)?;
                (closed, Some(found))
            }
            None => (Closed::of_source(program), None),
        };
        let libdevice = request.contents.libdevice.map(|_| self.toolkit.libdevice()).transpose()?;
        let (libdevice, digest) = libdevice.unzip();
        let contents = contents(program, found, digest);
        let renewed;
        let request = if contents == *request.contents {
            request
        } else if is_alone {
            renewed = Request::new(self, program, request.toolchain, &contents)?;
            &renewed
        } else {
            return Err(Stop::Changed);
        };
        let arguments = [&request.arguments[..], &texts.directories].concat();
        let unit = Unit {
            description: &program.description,
            texts: &texts,
            arguments: &arguments,
            libdevice: libdevice.as_deref(),
        };
        let output = self.toolkit.compile(request.toolchain, &unit).map_err(|error| {
            match error.log().and_then(|log| texts.untold_in(log)) {
                Some(error) => untold(error),
                None => error.with_places(|| program.places()),
            }
        })?;
        // The directory may have changed while the compiler asked for it.
        if directory(program) != contents.directory {
            return Err(Stop::Changed);
        }
        let expressions = program.description.name_expressions.iter();
        let kept = expressions.zip(&output.lowered_names);
        let kept = kept.map(|(expression, name)| (false, expression.as_bytes(), name.as_str()));
        let lowered_names = postcard::to_allocvec(&kept.collect::<Vec<_>>())
            .expect("a list of bytes and texts has an encoding, and memory grows");
        let metadata = Metadata::new()
            .with_recipe(request.fields.recipe())
            .with_attribute(TARGET, program.description.target.as_str())
            .with_attribute(LOG, output.log)
            .with_attribute(LOWERED_NAMES, lowered_names);
        Ok((Artifact::new(output.binary).with_metadata(&metadata), request.key))
    }
}

impl Compiled {
    fn new(fetched: Fetched, program: &Program) -> Result<Self, CudaError> {
        let lowered_names = names_of(fetched.artifact(), program);
        let lowered_names = lowered_names.ok_or_else(|| CudaError::new(CudaProblem::Unstable))?;
        Ok(Self { fetched, lowered_names })
    }

    /// Returns the binary: a CUBIN, PTX or LTO-IR.
    #[must_use]
    pub fn binary(&self) -> &[u8] {
        self.fetched.artifact().payload()
    }

    /// Returns the lowered name of an expression, if the program [requested](Program::name_expression) it.
    #[must_use]
    pub fn lowered_name(&self, expression: &str) -> Option<&str> {
        self.lowered_names().find(|(wanted, _)| *wanted == expression).map(|(_, name)| name)
    }

    /// Iterates over the requested expressions and their lowered names.
    pub fn lowered_names(&self) -> impl Iterator<Item = (&str, &str)> {
        self.lowered_names.iter().map(|(expression, name)| (expression.as_str(), name.as_str()))
    }

    /// Returns the compiler's log, which is stored with the binary: warnings and the reports of `ptxas`.
    #[must_use]
    pub fn log(&self) -> String {
        String::from_utf8_lossy(self.fetched.artifact().attribute(LOG).unwrap_or_default()).into_owned()
    }

    /// Returns the binary as an artifact and its origin: hit, coalesced or built.
    pub const fn fetched(&self) -> &Fetched {
        &self.fetched
    }

    /// Returns whether the binary was found in the store.
    #[must_use]
    pub const fn is_hit(&self) -> bool {
        self.fetched.is_hit()
    }
}

/// The CUDA compilers of this machine: NVRTC, nvJitLink and NVVM.
///
/// Each is found independently, and a missing one is an error only when it is needed. A library is loaded when it has to
/// compile. Its build is read from its file; its version is asked once and then kept in the store.
///
/// ```no_run
/// use warmstart::target::cuda::Toolkit;
///
/// let toolkit = Toolkit::find()?;
/// # Ok::<(), warmstart::target::cuda::CudaError>(())
/// ```
///
/// Several toolkits can be used in one process. On Linux there is one exception: of two NVRTCs of the same version and
/// different builds, the second is refused with an error, because the loader would give it the builtins of the first.
#[derive(Debug)]
pub struct Toolkit {
    places: Places,
    /// In the order of [`Compiler`].
    compilers: [Mutex<Slot>; 3],
    libdevice: Memo<[u8; Key::LEN]>,
}

impl Toolkit {
    /// Finds the compilers of this machine. If `WARMSTART_CUDA` names a folder, only that is searched. Otherwise these are:
    /// the folders `CUDA_HOME` and `CUDA_PATH`, the directories of `LD_LIBRARY_PATH`, the Python environment of `VIRTUAL_ENV` or
    /// `CONDA_PREFIX`, `/usr/local/cuda` and `/opt/cuda`, the system's library directories, and the directories into which pip
    /// installs outside of an environment.
    ///
    /// # Errors
    /// [`CudaError`] if none of the compilers is found.
    pub fn find() -> Result<Self, CudaError> {
        Self::of(Places::usual())
    }

    /// Finds the compilers in a folder, or in the subfolders that an installed toolkit has.
    ///
    /// # Errors
    /// [`CudaError`] if none of the compilers is found.
    pub fn at(folder: impl AsRef<Path>) -> Result<Self, CudaError> {
        Self::of(Places::of([folder]))
    }

    fn of(places: Places) -> Result<Self, CudaError> {
        let compilers = [Part::Nvrtc, Part::NvJitLink, Part::Nvvm];
        if compilers.into_iter().all(|part| places.find(part).is_none()) {
            return Err(missing(Part::Nvrtc, places.described(Part::Nvrtc)));
        }
        let compilers = [
            Slot::new(Part::Nvrtc, nvrtc::bind),
            Slot::new(Part::NvJitLink, nvjitlink::bind),
            Slot::new(Part::Nvvm, nvvm::bind),
        ];
        Ok(Self { places, compilers, libdevice: Memo::default() })
    }

    /// Returns the toolchain of a compiler: remembered, else read from its files and the store, else asked of the library.
    fn toolchain(
        &self,
        store: &(impl Store + ?Sized),
        compiler: Compiler,
    ) -> Result<Arc<Toolchain>, CudaError> {
        // Locked while the library is identified, so that it is identified once.
        self.compilers[compiler as usize].lock().toolchain(&self.places, store)
    }

    /// Compiles with exactly the compiler that `toolchain` describes.
    ///
    /// # Errors
    /// [`CudaError`] of the compilation, or one that [says](CudaError::is_changed_library) that the compiler was replaced.
    fn compile(&self, toolchain: &Toolchain, unit: &Unit<'_>) -> Result<Output, CudaError> {
        let compiler = unit.description.code.compiler();
        // Not locked while it compiles.
        let loaded = self.compilers[compiler as usize].lock().loaded(toolchain)?;
        loaded.compile(unit)
    }

    /// Returns the digest of libdevice, the library of mathematical functions that NVVM links.
    fn libdevice_digest(&self) -> Result<[u8; Key::LEN], CudaError> {
        let path = self.libdevice_path()?;
        let digest = files::value_of(&self.libdevice, &path, |bytes| *Key::digest(bytes).as_bytes());
        digest.ok_or_else(|| missing(Part::Libdevice, format!("{}, which cannot be read", path.display())))
    }

    /// Reads libdevice from its file. Returns the contents and the digest.
    fn libdevice(&self) -> Result<(Vec<u8>, [u8; Key::LEN]), CudaError> {
        let path = self.libdevice_path()?;
        let read = files::read(&self.libdevice, &path, |bytes| *Key::digest(bytes).as_bytes());
        let content = read.map_err(|error| {
            missing(Part::Libdevice, format!("{}, which cannot be read ({error})", path.display()))
        })?;
        Ok((content.bytes, content.made))
    }

    /// Returns the time spent loading libraries so far. Zero if none was loaded.
    #[must_use]
    pub fn load_time(&self) -> Duration {
        // One lock at a time: a thread that loads a library holds its lock all the while.
        self.compilers.iter().map(|slot| slot.lock().loading).sum()
    }

    fn libdevice_path(&self) -> Result<PathBuf, CudaError> {
        self.places
            .find(Part::Libdevice)
            .ok_or_else(|| missing(Part::Libdevice, self.places.described(Part::Libdevice)))
    }
}

/// A program and all inputs that decide its binary, for the look-up and for the compiler.
struct Request<'a> {
    target: &'a CudaTarget,
    program: &'a Program,
    toolchain: &'a Toolchain,
    contents: &'a Contents,
    fields: KeyFields<'a>,
    key: Key,
    arguments: Vec<String>,
}

impl<'a> Request<'a> {
    fn new(
        target: &'a CudaTarget,
        program: &'a Program,
        toolchain: &'a Toolchain,
        contents: &'a Contents,
    ) -> Result<Self, CudaError> {
        let (fields, arguments) = program.description.prepare(contents, toolchain)?;
        Ok(Self { target, program, toolchain, contents, key: fields.key(), fields, arguments })
    }

    /// Looks up the binary and the lowered names that the program wants.
    fn look_up<S: Store>(&self, store: &S) -> Result<(Artifact, Vec<(String, String)>), MissReason> {
        let artifact = store.get(self.key.as_bytes())?;
        let names = names_of(&artifact, self.program).ok_or(MissReason::Malformed)?;
        Ok((artifact, names))
    }
}

impl Item for Request<'_> {
    /// The key of what was compiled.
    type Built = Key;
    type Error = Stop;

    fn flight_key(&self) -> &[u8] {
        self.key.as_bytes()
    }

    fn find<S: Store>(&self, store: &S) -> Result<Artifact, MissReason> {
        Ok(self.look_up(store)?.0)
    }

    fn build(&self) -> Result<(Artifact, Key), Stop> {
        self.target.build(self, false)
    }

    fn keep<S: Store>(&self, store: &S, artifact: &Artifact, built: Key) -> Result<u64, MissReason> {
        store.put(built.as_bytes(), artifact)
    }

    fn accepts(&self, fetched: &Fetched) -> bool {
        names_of(fetched.artifact(), self.program).is_some()
    }
}

/// Why a build ended without a binary.
enum Stop {
    /// An input changed since the look-up.
    Changed,
    Failed(CudaError),
}

impl From<CudaError> for Stop {
    fn from(error: CudaError) -> Self {
        if error.is_changed_library() { Self::Changed } else { Self::Failed(error) }
    }
}

/// A compiler, found and identified when it is first needed.
#[derive(Debug)]
struct Slot {
    part: Part,
    bind: unsafe fn(&Loaded) -> Result<Bound, CudaError>,
    known: Option<Known>,
    /// Never unloaded.
    loaded: Option<Arc<dyn Compile>>,
    loading: Duration,
    /// Whether the store was seen to keep a version that is not the library's.
    is_store_wrong: bool,
}

/// A compiler's files and its toolchain. Stays valid once the files are loaded, even if they are replaced.
#[derive(Clone, Debug)]
struct Known {
    library: Identified,
    builtins: Option<Identified>,
    toolchain: Arc<Toolchain>,
}

impl Slot {
    fn new(part: Part, bind: unsafe fn(&Loaded) -> Result<Bound, CudaError>) -> Mutex<Self> {
        let (known, loaded, loading) = (None, None, Duration::ZERO);
        Mutex::new(Self { part, bind, known, loaded, loading, is_store_wrong: false })
    }

    /// Returns the toolchain. Loads the library only if the store does not have its version.
    fn toolchain(
        &mut self,
        places: &Places,
        store: &(impl Store + ?Sized),
    ) -> Result<Arc<Toolchain>, CudaError> {
        let environment = environment();
        if let Some(known) = &mut self.known
            && (self.loaded.is_some() || known.holds())
        {
            if known.toolchain.environment != environment {
                let toolchain = Toolchain::clone(&known.toolchain);
                known.toolchain = Arc::new(Toolchain { environment, ..toolchain });
            }
            return Ok(Arc::clone(&known.toolchain));
        }
        self.known = None;
        let mut attempt = 1;
        loop {
            match self.look(places, environment.clone(), store) {
                Err(error) if error.is_changed_library() && attempt < ATTEMPTS => attempt += 1,
                looked => return looked,
            }
        }
    }

    /// Returns the compiler that `toolchain` describes, and loads it if needed.
    fn loaded(&mut self, toolchain: &Toolchain) -> Result<Arc<dyn Compile>, CudaError> {
        let part = self.part;
        let changed = |path: PathBuf| CudaError::new(CudaProblem::Changed { part, path });
        let Some(known) = &self.known else { return Err(changed(PathBuf::from(part.pattern()))) };
        // The key has the toolchain and the variables as they were at the look-up.
        if *known.toolchain != *toolchain || toolchain.environment != environment() {
            return Err(changed(known.library.path.clone()));
        }
        if let Some(loaded) = &self.loaded {
            return Ok(Arc::clone(loaded));
        }
        let known = known.clone();
        let loaded = self.load(&known.library).and_then(|(compiler, version)| {
            if version != known.toolchain.version {
                self.is_store_wrong = true;
                return Err(changed(known.library.path));
            }
            self.load_builtins(known.builtins.as_ref())?;
            Ok(compiler)
        });
        match loaded {
            Ok(compiler) => Ok(Arc::clone(self.loaded.insert(compiler))),
            Err(error) => {
                self.known = None;
                Err(error)
            }
        }
    }

    fn look(
        &mut self,
        places: &Places,
        environment: BTreeMap<String, String>,
        store: &(impl Store + ?Sized),
    ) -> Result<Arc<Toolchain>, CudaError> {
        let part = self.part;
        let path = places.find(part).ok_or_else(|| missing(part, places.described(part)))?;
        let library = Identified::read(part, &path, store)?;
        let mut asked = None;
        let known = if self.is_store_wrong { None } else { known_version(&library, store) };
        let version = match known {
            Some(version) => version,
            None => {
                let (compiler, version) = self.load(&library)?;
                keep_version(&library, &version, store);
                asked = Some(compiler);
                version
            }
        };
        let mut builtins = None;
        if part == Part::Nvrtc {
            let path = match find_builtins(&path, &version) {
                // The version is the store's word only.
                Err(_) if asked.is_none() && !self.is_store_wrong => {
                    self.is_store_wrong = true;
                    return Err(CudaError::new(CudaProblem::Changed { part, path }));
                }
                found => found?,
            };
            builtins = Some(Identified::read(Part::Builtins, &path, store)?);
        }
        if let Some(compiler) = asked {
            self.load_builtins(builtins.as_ref())?;
            self.loaded = Some(compiler);
        }
        let files = [&library].into_iter().chain(&builtins);
        let builds = files.map(|file| (file.part.facts().label.into(), file.build.clone())).collect();
        let toolchain = Arc::new(Toolchain { version, builds, environment });
        self.known = Some(Known { library, builtins, toolchain: Arc::clone(&toolchain) });
        Ok(toolchain)
    }

    /// Loads the library, and checks that it is the identified build.
    fn load(&mut self, library: &Identified) -> Result<Bound, CudaError> {
        let begun = Instant::now();
        let loaded = library.load()?;
        // SAFETY: the file has the name of that library and is where that is installed.
        let bound = unsafe { (self.bind)(&loaded) };
        self.loading += begun.elapsed();
        bound
    }

    /// Loads the builtins from the identified path, before the compiler would load them by their bare name.
    fn load_builtins(&mut self, builtins: Option<&Identified>) -> Result<(), CudaError> {
        let Some(builtins) = builtins else { return Ok(()) };
        let begun = Instant::now();
        builtins.load()?;
        self.loading += begun.elapsed();
        // The loader goes by the name: if the process loaded another toolkit's file of that name, the compiler gets that one.
        let name = builtins.path.file_name().unwrap_or_default().to_string_lossy();
        match build_id_by_name(&name) {
            Some(first) if builtins.differs(&first) => Err(CudaError::new(CudaProblem::Loaded {
                part: Part::Builtins,
                path: builtins.path.clone(),
                other: "those of another NVRTC of the same version",
            })),
            _ => Ok(()),
        }
    }
}

impl Known {
    /// Returns whether the files are unchanged.
    fn holds(&self) -> bool {
        [&self.library].into_iter().chain(&self.builtins).all(|file| file.identity.is_at(&file.path))
    }
}

/// Collects the contents that the key covers: the headers and libdevice that were found, and the caller's digests.
fn contents(program: &Program, headers: Option<FoundHeaders>, libdevice: Option<[u8; 32]>) -> Contents {
    let extra = program.header_digest.as_ref().map_or_else(
        || program.extra_digest.clone(),
        |headers| {
            // The caller's digest covers the contents of headers in files, but not which headers are given.
            let given = program.given.iter();
            let given = given.map(|(name, text)| format!("{name}\0{}", Key::digest(text.as_bytes())));
            let fields = KeyFields::new("warmstart.cuda.digests", 1)
                .bytes("headers", headers.as_bytes())
                .list("pre-includes", [""; 0])
                .list("given headers", given)
                .number("source directories", program.source_dir.iter().count() as u64)
                .number("include directories", program.include_dirs.len() as u64);
            let fields = match &program.extra_digest {
                Some(extra) => fields.bytes("extra", extra.as_bytes()),
                None => fields,
            };
            let key = fields.key();
            Some(ExtraDigest::new(key.as_bytes()).expect("it has 32 bytes, which are not all zero"))
        },
    );
    Contents { headers, libdevice, extra, directory: directory(program) }
}

/// Returns digests of the current directory if NVRTC writes the directory into the binary, as it does for debuggers and in all
/// LTO-IR. No option prevents that, and the key has no paths.
fn directory(program: &Program) -> Option<String> {
    let is_debugged = program.description.options.is_set(OptionName::Debug);
    let is_ltoir = program.description.target == TargetType::LtoIr;
    if program.description.code != CodeType::Cxx || !(is_debugged || is_ltoir) {
        return None;
    }
    // If the directory was reached through a link, this variable has that path.
    let directory = env::var_os("PWD").unwrap_or_default();
    let directories = [directory, env::current_dir().unwrap_or_default().into_os_string()];
    let digest = |directory: OsString| Key::digest(directory.as_encoded_bytes()).to_string();
    Some(directories.map(digest).join(" "))
}

/// Returns the lowered names that are stored with a binary. `None` if one that the program requests is missing: the caller could
/// not find its kernel.
fn names_of(artifact: &Artifact, program: &Program) -> Option<Vec<(String, String)>> {
    // Most programs request none, and their look-ups need not decode the metadata.
    let wanted = &program.description.name_expressions;
    if wanted.is_empty() {
        return Some(Vec::new());
    }
    let kept: Vec<(bool, String, String)> = postcard::from_bytes(artifact.attribute(LOWERED_NAMES)?).ok()?;
    let texts = kept.into_iter().filter(|(is_bytes, ..)| !is_bytes);
    let names: Vec<(String, String)> = texts.map(|(_, expression, name)| (expression, name)).collect();
    let has = |wanted: &String| names.iter().any(|(expression, _)| expression == wanted);
    wanted.iter().all(has).then_some(names)
}

/// Returns the variables that are set. A value that is not UTF-8 gets a spelling that no text can have.
fn environment() -> BTreeMap<String, String> {
    let value = |name: &str| {
        let value = env::var_os(name)?;
        Some(value.into_string().unwrap_or_else(|value| format!("\0{value:?}")))
    };
    VARIABLES.iter().filter_map(|name| Some(((*name).into(), value(name)?))).collect()
}
