//! The real NVRTC, nvJitLink and NVVM, which compile for GPUs and need none.

use std::{env, path::PathBuf};

use crate::runtimes;

/// The library that is there if `cargo xtask runtimes --cuda` fetched them.
const NVRTC: &str = "libnvrtc.so.13";

/// Where the libraries are: in the folder that `WARMSTART_CUDA` names, else where `cargo xtask runtimes` keeps them if it
/// fetched them. Nothing if they are not there, which is said on standard error.
///
/// # Panics
///
/// If they are not there although [`runtimes::are_required`].
#[must_use]
pub fn folder() -> Option<PathBuf> {
    let fetched = || Some(runtimes::folder().join("cuda")).filter(|folder| folder.join(NVRTC).is_file());
    let folder = env::var_os("WARMSTART_CUDA").map(PathBuf::from).or_else(fetched);
    if folder.is_none() {
        let can_be_fetched = cfg!(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"));
        runtimes::missing("the CUDA compilers", "cargo xtask runtimes --cuda", can_be_fetched);
    }
    folder
}
