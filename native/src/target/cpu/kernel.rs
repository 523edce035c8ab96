//! A kernel, and the request for its object: its options and the fields of its key.

use std::path::{self, PathBuf};

use warmstart_core::{
    artifact::Artifact,
    key::{Key, KeyFields},
    program::ExtraDigest,
};

use super::{
    compiler::Compiler,
    dependencies::{Dependencies, Digests, Roots},
    error::{CompileError, CompileProblem},
    features::{CpuFeatures, machine},
    probe::Probe,
};

/// The domain of the keys. Keys without the headers have another schema than those with them.
const DOMAIN: &str = "warmstart.cpu";
const SCHEMA: u32 = 2;

/// The attribute of an object that holds its dependencies.
pub(super) const DEPENDENCIES: &str = "cpu.dependencies";

/// The options of every kernel, which are part of the key.
pub(super) const COMPILED: &[&str] = &["-O3", "-fPIC"];
pub(super) const LINKED: &[&str] = &[
    "-shared",
    // A kernel uses its own functions, and not those of the host with the same names.
    #[cfg(all(unix, not(target_vendor = "apple")))]
    "-Wl,-Bsymbolic",
];

/// A C source with the flags and the directories it is compiled with.
///
/// Its key is made of the source, the flags and the contents of every header that the source includes, and does not depend on
/// the name or the paths of directories.
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
    /// Creates a kernel of this source. The name is used in messages and is not part of the key.
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

    /// Adds a flag. [`CpuTarget::compile`](super::CpuTarget::compile) lists the accepted ones.
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

    /// Adds a directory that is searched for headers, after those added before and before the compiler's own.
    #[must_use]
    pub fn include_dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.include_dirs.push(dir.into());
        self
    }

    /// Sets the directory of the source, which is searched first for headers in quotes.
    #[must_use]
    pub fn source_dir(self, dir: impl Into<PathBuf>) -> Self {
        Self { source_dir: Some(dir.into()), ..self }
    }

    /// Adds a digest to the key, computed by the caller over the files that the kernel's assembly reads, as by `.incbin`. Such a
    /// kernel is refused without it, because warmstart cannot see these files.
    #[must_use]
    pub fn extra_digest(self, digest: ExtraDigest) -> Self {
        Self { extra_digest: Some(digest), ..self }
    }
}

/// A kernel with its present key and options, made once for look-up, build and store.
pub(super) struct Request<'a> {
    pub(super) kernel: &'a Kernel,
    pub(super) compiler: &'a Compiler,
    pub(super) probe: &'a Probe,
    pub(super) features: &'a CpuFeatures,
    pub(super) digests: &'a Digests,
    pub(super) roots: Roots<'a>,
    /// The options that select the features of the CPU.
    pub(super) options: Vec<String>,
    /// The fields of the key without the headers, and the key made of them.
    pub(super) fields: KeyFields<'a>,
    pub(super) first: Key,
}

impl<'a> Request<'a> {
    /// # Errors
    /// [`CompileError`] if the current directory is unknown.
    pub(super) fn new(
        kernel: &'a Kernel,
        compiler: &'a Compiler,
        probe: &'a Probe,
        features: &'a CpuFeatures,
        digests: &'a Digests,
    ) -> Result<Self, CompileError> {
        let absolute = |directory| {
            path::absolute(directory)
                .map_err(|error| CompileProblem::Io("cannot tell the current directory", error))
        };
        let roots = Roots {
            source: kernel.source_dir.as_ref().map(absolute).transpose()?,
            includes: kernel.include_dirs.iter().map(absolute).collect::<Result<_, _>>()?,
            system: &probe.system,
        };
        let options = features.options();
        let fixed = COMPILED.iter().chain(LINKED).copied().map(String::from);
        let mut fields = KeyFields::new(DOMAIN, SCHEMA)
            .digest("source", Key::digest(kernel.source.as_bytes()).as_bytes().to_vec(), kernel.name.as_str())
            .list("flags", kernel.flags.iter().map(String::as_str))
            .list("options", fixed.chain(options.iter().cloned()))
            .list("cpu features", features.names())
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
        Ok(Self { kernel, compiler, probe, features, digests, roots, options, first: fields.key(), fields })
    }
}

/// Returns the dependencies that are kept with an object.
pub(super) fn made_from(artifact: &Artifact) -> Option<Dependencies> {
    postcard::from_bytes(artifact.attribute(DEPENDENCIES)?).ok()
}
