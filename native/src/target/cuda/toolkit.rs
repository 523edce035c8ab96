//! The CUDA toolkit: finding its compilers, and knowing them again without loading them.

pub(super) mod elf;
mod identity;
pub(super) mod search;

use std::{
    env,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use warmstart_core::{
    key::Key,
    program::{Compiler, Toolchain},
};

use self::{
    identity::{Identified, keep_version, known_version},
    search::{Part, Places, beside},
};
use super::{
    error::{CudaError, CudaProblem},
    library::{Loaded, build_id_by_name},
    nvjitlink::NvJitLink,
    nvrtc::Nvrtc,
    nvvm::Nvvm,
    unit::{Compile, Output, Unit},
};
use crate::{
    Limits,
    os::{
        FileIdentity,
        fork::{Mutex, MutexGuard},
    },
    store::{MemoryStore, Store},
    target::files::Memo,
};

/// What a compiler reads from the environment and what can change what it makes.
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

/// A file that is replaced all the time is looked at so often.
const ATTEMPTS: usize = 4;

/// The compilers for CUDA that this machine has: NVRTC, nvJitLink and NVVM.
///
/// Each is found by itself, and is missed only when it is needed. A library is loaded when it has to compile something; what
/// it is, down to its build, is read from its file and kept in the store from then on.
///
/// ```no_run
/// use warmstart::target::cuda::Toolkit;
///
/// let toolkit = Toolkit::find()?;
/// # Ok::<(), warmstart::target::cuda::CudaError>(())
/// ```
///
/// Several toolkits can be used in one process. On Linux there is one exception: of two NVRTCs of the same version and
/// different builds, the second is refused with an error, because the loader would hand it the builtins of the first.
#[derive(Debug)]
pub struct Toolkit {
    places: Places,
    nvrtc: Slot<Nvrtc>,
    nvjitlink: Slot<NvJitLink>,
    nvvm: Slot<Nvvm>,
    libdevice: Memo<[u8; Key::LEN]>,
}

impl Toolkit {
    /// The compilers of this machine. They are looked for in the folder that `WARMSTART_CUDA` names, and then nowhere else.
    /// Without it in those of `CUDA_HOME` and `CUDA_PATH`, in the directories of `LD_LIBRARY_PATH`, in the Python environment of
    /// `VIRTUAL_ENV` or `CONDA_PREFIX`, in `/usr/local/cuda` and `/opt/cuda`, where the system has its libraries, and where
    /// pip installs outside of an environment.
    ///
    /// # Errors
    /// There is none of them.
    pub fn find() -> Result<Self, CudaError> {
        Self::of(Places::usual())
    }

    /// The compilers in one folder, or below it as an installed toolkit has them.
    ///
    /// # Errors
    /// There is none of them.
    pub fn at(folder: impl AsRef<Path>) -> Result<Self, CudaError> {
        Self::of(Places::of([folder]))
    }

    fn of(places: Places) -> Result<Self, CudaError> {
        let compilers = [Part::Nvrtc, Part::NvJitLink, Part::Nvvm];
        if compilers.into_iter().all(|part| places.find(part).is_none()) {
            return Err(missing(Part::Nvrtc, places.described(Part::Nvrtc)));
        }
        Ok(Self {
            places,
            nvrtc: Slot::default(),
            nvjitlink: Slot::default(),
            nvvm: Slot::default(),
            libdevice: Memo::default(),
        })
    }

    /// Writes the headers that NVRTC brings along to `folder`, unless they are there, and returns the directories to
    /// [include from](super::Program::include_dir): for `cuda_fp16.h` and the other headers of CUDA, and for those of CUB,
    /// Thrust and libcu++. It loads NVRTC, so do it when you install and not at every start. Several processes may.
    ///
    /// ```no_run
    /// use warmstart::target::cuda::{Program, Toolkit};
    ///
    /// let [cuda, cccl] = Toolkit::find()?.install_headers("/tmp/my-runtime/include")?;
    /// let source = "#include <cuda_fp16.h>\n__global__ void twice(__half *x) { x[0] = x[0] + x[0]; }";
    /// let program = Program::cxx("twice.cu", source).arch("sm_90").include_dir(cuda).include_dir(cccl);
    /// # Ok::<(), warmstart::target::cuda::CudaError>(())
    /// ```
    ///
    /// # Errors
    /// NVRTC is missing or is one that brings none, as those before 13 do, or they cannot be written.
    pub fn install_headers(&self, folder: impl AsRef<Path>) -> Result<[PathBuf; 2], CudaError> {
        let folder = folder.as_ref();
        // A store that is empty and goes: the library is loaded in any case.
        let toolchain = self.toolchain(&MemoryStore::new(Limits::NONE), Compiler::Nvrtc)?;
        self.nvrtc.loaded(&toolchain)?.install_headers(folder)?;
        Ok([folder.to_path_buf(), folder.join("cccl")])
    }

    /// What the compiler is: remembered, else read from its files and the store, else asked.
    pub(super) fn toolchain(
        &self,
        store: &(impl Store + ?Sized),
        compiler: Compiler,
    ) -> Result<Arc<Toolchain>, CudaError> {
        match compiler {
            Compiler::Nvrtc => self.nvrtc.toolchain(compiler, &self.places, store),
            Compiler::NvJitLink => self.nvjitlink.toolchain(compiler, &self.places, store),
            Compiler::Nvvm => self.nvvm.toolchain(compiler, &self.places, store),
        }
    }

    /// Compiles with the compiler that `toolchain` describes and no other.
    ///
    /// # Errors
    /// Among others one that [says](CudaError::is_changed_library) that the compiler is another by now.
    pub(super) fn compile(&self, toolchain: &Toolchain, unit: &Unit<'_>) -> Result<Output, CudaError> {
        match toolchain.compiler() {
            Compiler::Nvrtc => self.nvrtc.loaded(toolchain)?.compile(unit),
            Compiler::NvJitLink => self.nvjitlink.loaded(toolchain)?.compile(unit),
            Compiler::Nvvm => self.nvvm.loaded(toolchain)?.compile(unit),
        }
    }

    /// The digest of libdevice, of which NVVM links what a program calls.
    pub(super) fn libdevice_digest(&self) -> Result<[u8; Key::LEN], CudaError> {
        let path = self.libdevice_path()?;
        let digest = self.libdevice.of(&path, |bytes| *Key::digest(bytes).as_bytes());
        digest.ok_or_else(|| missing(Part::Libdevice, format!("{}, which cannot be read", path.display())))
    }

    /// Libdevice and its digest, read anew.
    pub(super) fn libdevice(&self) -> Result<(Vec<u8>, [u8; Key::LEN]), CudaError> {
        let path = self.libdevice_path()?;
        let read = self.libdevice.read(&path, |bytes| *Key::digest(bytes).as_bytes());
        let content = read.map_err(|error| {
            missing(Part::Libdevice, format!("{}, which cannot be read ({error})", path.display()))
        })?;
        Ok((content.bytes, content.made))
    }

    /// How long libraries were loaded for so far. Zero means that none was.
    #[must_use]
    pub fn load_time(&self) -> Duration {
        self.nvrtc.load_time() + self.nvjitlink.load_time() + self.nvvm.load_time()
    }

    fn libdevice_path(&self) -> Result<PathBuf, CudaError> {
        self.places
            .find(Part::Libdevice)
            .ok_or_else(|| missing(Part::Libdevice, self.places.described(Part::Libdevice)))
    }
}

/// A compiler, found when it is first needed.
#[derive(Debug)]
struct Slot<C>(Mutex<State<C>>);

#[derive(Debug)]
struct State<C> {
    known: Option<Known>,
    /// For ever.
    loaded: Option<Arc<C>>,
    loading: Duration,
    /// Whether the store has been seen to keep another version than the library's.
    is_store_wrong: bool,
}

/// What is known of the compiler's files. If they are loaded, it holds whatever becomes of them.
#[derive(Debug)]
struct Known {
    library: (PathBuf, Identified),
    version: String,
    builtins: Option<(PathBuf, Identified)>,
    toolchain: Arc<Toolchain>,
}

impl<C> Default for Slot<C> {
    fn default() -> Self {
        Self(Mutex::new(State { known: None, loaded: None, loading: Duration::ZERO, is_store_wrong: false }))
    }
}

impl<C: Compile> Slot<C> {
    /// What the compiler is. Its library is loaded only if the store does not know the version.
    fn toolchain(
        &self,
        compiler: Compiler,
        places: &Places,
        store: &(impl Store + ?Sized),
    ) -> Result<Arc<Toolchain>, CudaError> {
        // Held while the library is looked at, so that it is looked at once.
        let state = &mut *self.state();
        let environment = environment();
        if let Some(known) = &mut state.known
            && (state.loaded.is_some() || known.holds())
        {
            if known.toolchain.environment() != environment {
                known.toolchain = known.describe(C::PART, compiler, &environment);
            }
            return Ok(Arc::clone(&known.toolchain));
        }
        state.known = None;
        let mut attempt = 1;
        loop {
            match state.look(compiler, places, &environment, store) {
                Err(error) if error.is_changed_library() && attempt < ATTEMPTS => attempt += 1,
                looked => return looked,
            }
        }
    }

    /// The compiler that `toolchain` describes, loaded if it is not yet.
    fn loaded(&self, toolchain: &Toolchain) -> Result<Arc<C>, CudaError> {
        let state = &mut *self.state();
        let changed = |path: PathBuf| CudaError::new(CudaProblem::Changed { part: C::PART, path });
        let Some(known) = &state.known else { return Err(changed(PathBuf::from(C::PART.pattern()))) };
        // What a variable is now was not in the key.
        if *known.toolchain != *toolchain || toolchain.environment() != environment() {
            return Err(changed(known.library.0.clone()));
        }
        if let Some(loaded) = &state.loaded {
            return Ok(Arc::clone(loaded));
        }
        let (library, builtins) = (known.library.clone(), known.builtins.clone());
        let version = known.version.clone();
        let loaded = state.load(&library.0, &library.1).and_then(|compiler: C| {
            if compiler.version() != version {
                state.is_store_wrong = true;
                return Err(changed(library.0.clone()));
            }
            state.load_builtins(builtins.as_ref())?;
            Ok(compiler)
        });
        match loaded {
            Ok(compiler) => Ok(Arc::clone(state.loaded.insert(Arc::new(compiler)))),
            Err(error) => {
                state.known = None;
                Err(error)
            }
        }
    }

    /// How long loading took.
    fn load_time(&self) -> Duration {
        self.state().loading
    }

    fn state(&self) -> MutexGuard<'_, State<C>> {
        self.0.lock()
    }
}

impl<C: Compile> State<C> {
    fn look(
        &mut self,
        compiler: Compiler,
        places: &Places,
        environment: &[(String, String)],
        store: &(impl Store + ?Sized),
    ) -> Result<Arc<Toolchain>, CudaError> {
        let path = places.find(C::PART).ok_or_else(|| missing(C::PART, places.described(C::PART)))?;
        let library = Identified::read(C::PART, &path, store)?;
        let mut asked = None;
        let known = if self.is_store_wrong { None } else { known_version(C::PART, &library, store) };
        let version = match known {
            Some(version) => version,
            None => {
                let compiler = self.load(&path, &library)?;
                let version = compiler.version();
                keep_version(C::PART, &library, &version, store);
                asked = Some(compiler);
                version
            }
        };
        let builtins = match C::builtins(&version) {
            Some(name) => {
                let path = match builtins(&path, &name) {
                    // The version is the store's word only.
                    Err(_) if asked.is_none() && !self.is_store_wrong => {
                        self.is_store_wrong = true;
                        return Err(CudaError::new(CudaProblem::Changed { part: C::PART, path }));
                    }
                    found => found?,
                };
                let builtins = Identified::read(Part::Builtins, &path, store)?;
                Some((path, builtins))
            }
            None => None,
        };
        if let Some(compiler) = asked {
            self.load_builtins(builtins.as_ref())?;
            self.loaded = Some(Arc::new(compiler));
        }
        let none = Arc::new(Toolchain::found(compiler, ""));
        let mut known = Known { library: (path, library), version, builtins, toolchain: none };
        known.toolchain = known.describe(C::PART, compiler, environment);
        Ok(Arc::clone(&self.known.insert(known).toolchain))
    }

    /// Loads the library, and sees that it is the one that is known.
    fn load(&mut self, path: &Path, expected: &Identified) -> Result<C, CudaError> {
        let begun = Instant::now();
        let loaded = open(C::PART, path, expected)?;
        // SAFETY: by its name it is that library, which is what whoever installed it there says too.
        let compiler = unsafe { C::bind(&loaded) };
        self.loading += begun.elapsed();
        compiler
    }

    /// Loads what the compiler would load by a bare name, before it does: by the path that is known.
    fn load_builtins(&mut self, builtins: Option<&(PathBuf, Identified)>) -> Result<(), CudaError> {
        let Some((path, expected)) = builtins else { return Ok(()) };
        let begun = Instant::now();
        open(Part::Builtins, path, expected)?;
        self.loading += begun.elapsed();
        // The loader goes by the name, and by who came first. What came first may be another toolkit's.
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        match build_id_by_name(&name) {
            Some(first) if expected.differs(&first) => Err(CudaError::new(CudaProblem::Loaded {
                part: Part::Builtins,
                path: path.clone(),
                other: "those of another NVRTC of the same version",
            })),
            _ => Ok(()),
        }
    }
}

impl Known {
    /// Whether the files are what they were.
    fn holds(&self) -> bool {
        [Some(&self.library), self.builtins.as_ref()]
            .into_iter()
            .flatten()
            .all(|(path, file)| FileIdentity::of_path(path) == Some(file.identity))
    }

    fn describe(&self, part: Part, compiler: Compiler, environment: &[(String, String)]) -> Arc<Toolchain> {
        let mut toolchain = Toolchain::found(compiler, self.version.as_str())
            .with_build(part.facts().label, self.library.1.build.clone());
        if let Some((_, builtins)) = &self.builtins {
            toolchain = toolchain.with_build(Part::Builtins.facts().label, builtins.build.clone());
        }
        let with = |toolchain: Toolchain, (name, value): &(String, String)| {
            toolchain.with_environment(name.as_str(), value.as_str())
        };
        Arc::new(environment.iter().fold(toolchain, with))
    }
}

/// Loads the file at `path`, which is the one that was looked at.
fn open(part: Part, path: &Path, expected: &Identified) -> Result<Loaded, CudaError> {
    // SAFETY: it is a whole library for this machine, and stands where the toolkit is installed.
    let loaded = unsafe { Loaded::open(part, path) }?;
    let holds = match loaded.build_id() {
        Some(found) if expected.has_id => !expected.differs(found),
        // In memory there is none to compare with.
        _ => FileIdentity::of_path(path) == Some(expected.identity),
    };
    if holds {
        return Ok(loaded);
    }
    let found = loaded.build_id().map(<[u8]>::to_vec);
    // SAFETY: nothing of it was called.
    unsafe { loaded.discard() };
    // Is the file of now the one in memory? Then it was replaced, and all can be done again. Else the process has loaded
    // an older one from the same path, and the loader will hand that out as long as the process lives.
    let now = Identified::read(part, path, &MemoryStore::new(Limits::NONE))?;
    let problem = match found {
        Some(found) if now.differs(&found) => {
            CudaProblem::Loaded { part, path: path.into(), other: "an older one from the same path" }
        }
        _ => CudaProblem::Changed { part, path: path.into() },
    };
    Err(CudaError::new(problem))
}

/// The builtins of this name that lie beside NVRTC.
fn builtins(library: &Path, name: &str) -> Result<PathBuf, CudaError> {
    let found = beside(library, Part::Builtins);
    let found = found.into_iter().find(|path| {
        path.file_name().and_then(|name| name.to_str()).is_some_and(|other| other.eq_ignore_ascii_case(name))
    });
    found.ok_or_else(|| {
        let directory = library.parent().unwrap_or(library).display();
        missing(Part::Builtins, format!("{directory}, beside NVRTC, which needs {name}"))
    })
}

fn missing(part: Part, looked_in: String) -> CudaError {
    CudaError::new(CudaProblem::Missing { part, looked_in })
}

/// The variables that are set. One that is no text is spelt as no text can be.
fn environment() -> Vec<(String, String)> {
    let value = |name: &str| {
        let value = env::var_os(name)?;
        Some(value.into_string().unwrap_or_else(|value| format!("\0{value:?}")))
    };
    VARIABLES.iter().filter_map(|name| Some(((*name).into(), value(name)?))).collect()
}
