//! The real NVRTC, nvJitLink and NVVM, which compile for GPUs and need none; and what only plays NVRTC.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use warmstart::target::cuda::{CudaTarget, Toolkit};

use crate::runtimes;

/// The message of a test that is run by `--include-ignored` without them.
const MISSING: &str = "the CUDA compilers are not there: run cargo xtask runtimes --cuda";

/// Returns the toolkit that `WARMSTART_CUDA` names, else the one that `cargo xtask runtimes --cuda` installed.
///
/// # Panics
///
/// If there is none.
#[must_use]
pub fn folder() -> PathBuf {
    runtimes::cuda().expect(MISSING)
}

/// Returns the folder of the libraries in [that toolkit](folder).
///
/// # Panics
///
/// If there is no toolkit.
#[must_use]
pub fn libraries() -> PathBuf {
    runtimes::cuda_libraries().expect(MISSING)
}

/// Returns a target of [that toolkit](folder). It remembers nothing, as in a new process.
///
/// # Panics
///
/// If there is no toolkit, or nothing in it.
#[must_use]
pub fn target() -> CudaTarget {
    CudaTarget::new(Toolkit::at(folder()).unwrap_or_else(|error| panic!("{error}")))
}

/// A library that plays NVRTC, built by the machine's C compiler.
///
/// ```no_run
/// use warmstart_tests::cuda::Fake;
///
/// Fake::new("13", "5").answer("A").builtins("B").install("/tmp/toolkit".as_ref());
/// ```
#[derive(Clone, Debug)]
pub struct Fake {
    version: [String; 2],
    answer: String,
    builtins: Option<String>,
    build_id: String,
    flags: Vec<String>,
}

impl Fake {
    /// Creates a library of this version, which compiles any program to the text `fake with builtins`.
    #[must_use]
    pub fn new(major: &str, minor: &str) -> Self {
        Self {
            version: [major.into(), minor.into()],
            answer: "fake".into(),
            builtins: Some("builtins".into()),
            build_id: "sha1".into(),
            flags: Vec::new(),
        }
    }

    /// Sets the first bytes of its output.
    #[must_use]
    pub fn answer(mut self, answer: &str) -> Self {
        self.answer = answer.into();
        self
    }

    /// Sets the last bytes of its output, which come from its builtins.
    #[must_use]
    pub fn builtins(mut self, builtins: &str) -> Self {
        self.builtins = Some(builtins.into());
        self
    }

    /// Removes its library of builtins.
    #[must_use]
    pub fn without_builtins(mut self) -> Self {
        self.builtins = None;
        self
    }

    /// Removes the build ids of the library and its builtins.
    #[must_use]
    pub fn without_build_id(mut self) -> Self {
        self.build_id = "none".into();
        self
    }

    /// Compiled with this flag.
    #[must_use]
    pub fn flag(mut self, flag: &str) -> Self {
        self.flags.push(flag.into());
        self
    }

    /// Builds it into `folder`, in place of what is there.
    ///
    /// # Panics
    ///
    /// If there is no C compiler, or it fails.
    pub fn install(&self, folder: &Path) {
        fs::create_dir_all(folder).expect("the folder is made");
        let [major, minor] = &self.version;
        let nvrtc = format!("libnvrtc.so.{major}");
        let status =
            if self.flags.iter().any(|flag| flag.starts_with("-DSTATUS")) { "" } else { "-DSTATUS=0" };
        let defines =
            [format!("-DMAJOR={major}"), format!("-DMINOR={minor}"), format!("-DANSWER=\"{}\"", self.answer)];
        let flags = defines.iter().map(String::as_str).chain(self.flags.iter().map(String::as_str));
        let flags: Vec<_> = flags.chain([status, "-ldl"]).filter(|flag| !flag.is_empty()).collect();
        self.build(include_str!("cuda/nvrtc.c"), &flags, folder, &nvrtc);
        if let Some(answer) = &self.builtins {
            let name = format!("libnvrtc-builtins.so.{major}.{minor}");
            let source = format!("const char *answer(void) {{ return \"{answer}\"; }}\n");
            self.build(&source, &[], folder, &name);
        }
    }

    /// Under another name first, as an installer does.
    fn build(&self, source: &str, flags: &[&str], folder: &Path, name: &str) {
        let (file, built) = (folder.join(format!("{name}.c")), folder.join(format!("{name}.new")));
        fs::write(&file, source).expect("the source is written");
        let output = Command::new("cc")
            .args(["-shared", "-fPIC", "-w", "-Wl,--disable-new-dtags,-rpath,$ORIGIN", "-o"])
            .arg(&built)
            .arg(format!("-Wl,-soname,{name},--build-id={}", self.build_id))
            .arg(&file)
            .args(flags)
            .output()
            .expect("cc runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        fs::rename(&built, folder.join(name)).expect("the library is put there");
        fs::remove_file(&file).expect("the source is removed");
    }
}
