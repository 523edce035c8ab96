//! What is to be compiled.

use std::path::PathBuf;

use warmstart_core::program::ExtraDigest;

/// A C source with the flags and the directories it is compiled with.
///
/// The source, the flags and the contents of every header that it reaches decide what is compiled; the name and the
/// directories' paths do not.
///
/// ```
/// use warmstart::target::cpu::Kernel;
///
/// let source = "void scale(float *x) { x[0] *= SCALE; }";
/// let kernel = Kernel::new("scale", source).flag("-DSCALE=2.0f").flag("-O2");
/// ```
#[derive(Clone, Debug)]
pub struct Kernel {
    pub(super) name: String,
    pub(super) source: String,
    pub(super) flags: Vec<String>,
    pub(super) include_dirs: Vec<PathBuf>,
    pub(super) source_dir: Option<PathBuf>,
    pub(super) extra_digest: Option<ExtraDigest>,
}

impl Kernel {
    /// A kernel of this source. The name stands in messages and is not part of the key.
    pub fn new(name: impl Into<String>, source: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            source: source.into(),
            flags: Vec::new(),
            include_dirs: Vec::new(),
            source_dir: None,
            extra_digest: None,
        }
    }

    /// Adds a flag. Which flags are accepted, [`CpuTarget::compile`](super::CpuTarget::compile) says.
    #[must_use]
    pub fn flag(mut self, flag: impl Into<String>) -> Self {
        self.flags.push(flag.into());
        self
    }

    /// Adds flags, in this order.
    #[must_use]
    pub fn flags<T: Into<String>>(mut self, flags: impl IntoIterator<Item = T>) -> Self {
        self.flags.extend(flags.into_iter().map(Into::into));
        self
    }

    /// Looks for headers in `dir`, after the directories added before and before the compiler's own.
    #[must_use]
    pub fn include_dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.include_dirs.push(dir.into());
        self
    }

    /// Looks in `dir` first for what the source includes as `"x.h"`: the directory where the source would stand.
    #[must_use]
    pub fn source_dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.source_dir = Some(dir.into());
        self
    }

    /// Puts a digest of yours into the key: of the files that the kernel's assembly reads, as by `.incbin`, which
    /// warmstart cannot see. Without it, such a kernel is refused.
    #[must_use]
    pub fn extra_digest(mut self, digest: ExtraDigest) -> Self {
        self.extra_digest = Some(digest);
        self
    }
}
