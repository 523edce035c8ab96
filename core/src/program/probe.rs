//! What is known of the compiler in use.

use alloc::{string::String, vec::Vec};

use super::code::Compiler;

/// What was found out about a compiler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Probe {
    /// What it is.
    Found {
        /// Its version as it says it at run time.
        version: String,
        /// Its libraries, by names that are no paths, and their build ids. Releases that differ in nothing that they
        /// say of themselves differ in these.
        builds: Vec<(String, Vec<u8>)>,
    },
    /// It could not be found out.
    Failed {
        /// The kind of the failure in a few words, always the same for the same failure.
        kind: String,
    },
}

/// The compiler in use, and what else in its process decides what it makes.
///
/// ```
/// use warmstart_core::program::{Compiler, Toolchain};
///
/// let toolchain = Toolchain::found(Compiler::Nvrtc, "13.5")
///     .with_build("libnvrtc.so.13", [0x5a; 20])
///     .with_environment("NV_NVVM_VERSION", "2");
/// assert_eq!(toolchain.compiler(), Compiler::Nvrtc);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Toolchain {
    compiler: Compiler,
    probe: Probe,
    environment: Vec<(String, String)>,
}

impl Toolchain {
    /// A compiler, and what was found out about it.
    #[must_use]
    pub fn new(compiler: Compiler, probe: Probe) -> Self {
        let mut toolchain = Self { compiler, probe, environment: Vec::new() };
        if let Probe::Found { builds, .. } = &mut toolchain.probe {
            builds.sort_unstable();
        }
        toolchain
    }

    /// A compiler of this version. That of the driver counts only where the compiler is [`Compiler::Driver`].
    #[must_use]
    pub fn found(compiler: Compiler, version: impl Into<String>) -> Self {
        Self::new(compiler, Probe::Found { version: version.into(), builds: Vec::new() })
    }

    /// A compiler about which nothing could be found out.
    #[must_use]
    pub fn failed(compiler: Compiler, kind: impl Into<String>) -> Self {
        Self::new(compiler, Probe::Failed { kind: kind.into() })
    }

    /// With a library of it, and the library's build id. Nothing is added to a probe that failed.
    #[must_use]
    pub fn with_build(mut self, library: impl Into<String>, build_id: impl Into<Vec<u8>>) -> Self {
        if let Probe::Found { builds, .. } = &mut self.probe {
            builds.push((library.into(), build_id.into()));
            builds.sort_unstable();
        }
        self
    }

    /// With a variable of the environment that the compiler reads.
    #[must_use]
    pub fn with_environment(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.environment.push((name.into(), value.into()));
        self.environment.sort_unstable();
        self
    }

    /// The compiler.
    #[must_use]
    pub const fn compiler(&self) -> Compiler {
        self.compiler
    }

    /// What was found out about it.
    #[must_use]
    pub const fn probe(&self) -> &Probe {
        &self.probe
    }

    /// The variables of the environment, by name.
    #[must_use]
    pub fn environment(&self) -> &[(String, String)] {
        &self.environment
    }
}
