//! The CUDA toolkit: finding its compilers, and knowing them again without loading them.

pub(super) mod elf;
mod identity;
pub(super) mod search;
mod slot;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use warmstart_core::{
    key::Key,
    program::{Compiler, Toolchain},
};

use self::{
    search::{Part, Places},
    slot::{Slot, missing},
};
use super::{
    error::CudaError,
    nvjitlink::NvJitLink,
    nvrtc::Nvrtc,
    nvvm::Nvvm,
    unit::{Compile, Output, Unit},
};
use crate::{
    Limits,
    store::{MemoryStore, Store},
    target::files::Memo,
};

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
        Self::of(Places::at(folder.as_ref()))
    }

    /// The compilers in these folders, or below them as an installed toolkit has them. The first that has one decides.
    ///
    /// # Errors
    /// There is none of them.
    pub fn in_directories<P: AsRef<Path>>(folders: impl IntoIterator<Item = P>) -> Result<Self, CudaError> {
        Self::of(Places::of(folders))
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
