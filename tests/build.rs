//! Finds out what this machine has. Tests that need what it lacks are ignored, and say why.

// Not all that they offer is used here.
#[allow(dead_code, unreachable_pub)]
#[path = "src/mount.rs"]
mod mount;
#[allow(dead_code, unreachable_pub)]
#[path = "src/runtimes.rs"]
mod runtimes;

use std::{
    env, fs,
    path::Path,
    process::Command,
    time::{Duration, SystemTime},
};

fn main() {
    let out = env::var_os("OUT_DIR").expect("cargo says where");
    let out = Path::new(&out);
    let installed = runtimes::folder();
    if !installed.exists() {
        fs::create_dir_all(&installed).expect("there can be a target folder");
        // A folder that is newer than this run would have it run once more.
        let old = SystemTime::now() - Duration::from_secs(3600);
        let _ = fs::File::open(&installed).and_then(|folder| folder.set_modified(old));
    }
    for path in runtimes::watched() {
        // A path that does not exist would have all of this built again each time.
        if let Some(path) = path.ancestors().find(|path| path.exists()) {
            println!("cargo::rerun-if-changed={}", path.display());
        }
    }
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/mount.rs");
    println!("cargo::rerun-if-changed=src/runtimes.rs");
    for variable in ["WARMSTART_CUDA", "WARMSTART_XNNPACK", "WARMSTART_SHARED", "HOME", "CC"] {
        println!("cargo::rerun-if-env-changed={variable}");
    }
    let found = [
        ("can_mount", mount::Mount::memory(&out.join("mount"), 1 << 20).is_some()),
        ("is_root", is_root(out)),
        ("has_cuda", runtimes::cuda().is_some()),
        ("has_xnnpack", runtimes::xnnpack().is_some()),
        ("has_minilm", runtimes::minilm().is_some()),
        ("has_goldens", runtimes::goldens().is_some()),
        ("has_gcc", compiler_says(&["--version"]).contains("Free Software Foundation")),
        (
            "has_avx512fp16",
            compiler_says(&["-mavx512fp16", "-dM", "-E", "-xc", "/dev/null"]).contains("__AVX512FP16__"),
        ),
    ];
    for (name, is_there) in found {
        println!("cargo::rustc-check-cfg=cfg({name})");
        if is_there {
            println!("cargo::rustc-cfg={name}");
        }
    }
}

/// Returns what the C compiler prints.
fn compiler_says(arguments: &[&str]) -> String {
    let compiler = env::var_os("CC").unwrap_or_else(|| "cc".into());
    let output = Command::new(compiler).args(arguments).output();
    output.map_or_else(|_| String::new(), |output| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Returns whether root owns a file that this process makes.
#[cfg(unix)]
fn is_root(out: &Path) -> bool {
    let file = out.join("mine");
    let _ = fs::remove_file(&file);
    let made = fs::write(&file, "").and_then(|()| fs::metadata(&file));
    made.is_ok_and(|metadata| std::os::unix::fs::MetadataExt::uid(&metadata) == 0)
}

#[cfg(not(unix))]
fn is_root(_out: &Path) -> bool {
    false
}
