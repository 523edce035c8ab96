//! What a key knows of what is outside of the program: the compiler in use, and what it reads besides.

use alloc::{borrow::Cow, format, string::String, vec::Vec};
use core::fmt;

use super::{
    code::{CodeType, Compiler},
    refusal::Refusal,
};
use crate::key::KeyFields;

/// What the compiler reads besides the program, as far as the key knows it.
///
/// With headers and [how they are found](Self::with_search) the compiler is given these headers and finds no
/// others: the arguments name no directories, and the key does not depend on them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents<'a> {
    headers: Vec<Header<'a>>,
    search: Option<[u8; 32]>,
    libdevice: Option<[u8; 32]>,
    extra: Option<ExtraDigest>,
}

/// A header that a program reaches.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Header<'a> {
    /// What it is called, such as `include0/matrix.cuh`: never by a path of this machine.
    pub name: Cow<'a, str>,
    /// The digest of its content.
    pub digest: [u8; 32],
}

impl<'a> Contents<'a> {
    /// Nothing of it.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// All headers that the program reaches. Their order does not count.
    ///
    /// They count as known only together with [`with_search`](Self::with_search): the same headers included
    /// in another order are another program.
    #[must_use]
    pub fn with_headers(mut self, mut headers: Vec<Header<'a>>) -> Self {
        headers.sort_unstable();
        self.headers = headers;
        self
    }

    /// The digest of how headers are found: which directive of which file leads to which of them or nowhere,
    /// which are read before the source and in which order.
    #[must_use]
    pub const fn with_search(mut self, digest: [u8; 32]) -> Self {
        self.search = Some(digest);
        self
    }

    /// The digest of libdevice, as it is given to NVVM.
    #[must_use]
    pub const fn with_libdevice(mut self, digest: [u8; 32]) -> Self {
        self.libdevice = Some(digest);
        self
    }

    /// A digest of all that the compiler reads, made by the caller.
    #[must_use]
    pub fn with_extra(mut self, digest: ExtraDigest) -> Self {
        self.extra = Some(digest);
        self
    }

    /// Whether a program of this language is given all headers, and so no directories and no names of its own to look for.
    pub(crate) const fn has_headers_of(&self, code: CodeType) -> bool {
        matches!(code, CodeType::Cxx) && self.search.is_some()
    }

    pub(crate) fn headers(&self) -> &[Header<'a>] {
        &self.headers
    }

    /// How headers are found, if that is known; then so are all of them.
    pub(crate) const fn search(&self) -> Option<&[u8; 32]> {
        self.search.as_ref()
    }

    pub(crate) const fn libdevice(&self) -> Option<&[u8; 32]> {
        self.libdevice.as_ref()
    }

    pub(crate) const fn extra(&self) -> Option<&ExtraDigest> {
        self.extra.as_ref()
    }
}

/// A digest of what the compiler reads and the key does not know, made by the caller.
#[derive(Clone, PartialEq, Eq)]
pub struct ExtraDigest(Vec<u8>);

impl ExtraDigest {
    /// A digest of 16 to 64 bytes that are not all zero, because what is shorter or zero is none.
    ///
    /// # Errors
    /// It is none.
    ///
    /// ```
    /// use warmstart_core::program::ExtraDigest;
    ///
    /// assert!(ExtraDigest::new(b"0123456789abcdef").is_ok());
    /// assert_eq!(ExtraDigest::new(&[0; 32]).unwrap_err().option(), Some("extra_digest"));
    /// ```
    pub fn new(bytes: &[u8]) -> Result<Self, Refusal> {
        if !(16..=64).contains(&bytes.len()) {
            let found = bytes.len();
            return Err(Refusal::malformed(
                "extra_digest",
                format!(
                    "it has {found} bytes, and a digest has 16 to 64; take one over all that the compiler \
                     reads"
                ),
            ));
        }
        if bytes.iter().all(|byte| *byte == 0) {
            return Err(Refusal::malformed(
                "extra_digest",
                "all of its bytes are zero, which is no digest; take one over all that the compiler reads",
            ));
        }
        Ok(Self(bytes.into()))
    }

    /// Its bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for ExtraDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ExtraDigest(")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        f.write_str(")")
    }
}

/// What was found out about a compiler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Probe {
    /// What it is.
    Found {
        /// Its version as it says it at run time.
        version: String,
        /// Its libraries, by names that are no paths, and their build ids. Releases that differ in nothing
        /// that they say of themselves differ in these.
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

    /// A compiler of this version.
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

    /// Adds what the key has of it.
    pub(crate) fn fields<'k>(&'k self, fields: KeyFields<'k>) -> KeyFields<'k> {
        let mut fields = fields.text("compiler", self.compiler.as_str());
        fields = match &self.probe {
            Probe::Found { version, builds } => {
                builds.iter().fold(fields.text("compiler version", version), |fields, (library, build)| {
                    fields.bytes(format!("compiler build {library}"), &build[..])
                })
            }
            Probe::Failed { kind } => fields.text(format!("{}_probe_failed", self.compiler.label()), kind),
        };
        if self.environment.is_empty() {
            return fields;
        }
        let variables = self.environment.iter().map(|(name, value)| format!("{name}={value}"));
        fields.list("environment", variables)
    }

    /// The variables of the environment, by name.
    #[must_use]
    pub fn environment(&self) -> &[(String, String)] {
        &self.environment
    }
}
