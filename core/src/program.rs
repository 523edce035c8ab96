//! CUDA programs: the key and the compiler arguments of a described program, or the reason why it is refused.
//!
//! ```
//! use warmstart_core::program::{CodeType, Contents, Description, FoundHeaders, OptionName, TargetType, Toolchain};
//!
//! let mut program = Description::new(CodeType::Cxx, TargetType::Cubin, b"__global__ void noop() {}");
//! program.options.set(OptionName::Arch, "sm_90");
//! program.options.set(OptionName::Std, "c++20");
//! let toolchain = Toolchain { version: "13.5".into(), ..Toolchain::default() };
//! let contents = Contents { headers: Some(FoundHeaders::default()), ..Contents::default() };
//! let (fields, arguments) = program.prepare(&contents, &toolchain)?;
//! assert_eq!(arguments, ["--gpu-architecture=sm_90", "--std=c++20", "--no-source-include"]);
//! let key = fields.key();
//!
//! program.options.set(OptionName::PtxasOptions, "--output-file=a");
//! let refusal = program.prepare(&contents, &toolchain).unwrap_err();
//! assert!(refusal.is_unsupported());
//! assert_eq!(refusal.option(), Some("ptxas_options"));
//! # Ok::<(), warmstart_core::program::Refusal>(())
//! ```
//!
//! A key holds all that decides the binary, as the compiler sees it. Options that the compiler ignores are left out.
//! Programs are refused if the compiler would read a file that is not in the key. Nothing is probed here: the compiler's
//! version and builds are arguments.
//!
//! | refused | because |
//! |---|---|
//! | C++ without [`FoundHeaders`] or an [`ExtraDigest`] | it may include headers |
//! | `use_libdevice` without the digest of libdevice or an extra digest | it reads a file |
//! | `ptxas_options` that are not on a list of harmless ones | they may read or write files, or choose another architecture |
//! | options that the compiler does not take, values that an option does not take | compiling would fail |

mod options;
mod ptxas;
mod refusal;
#[cfg(test)]
mod tests;

pub use options::{Compiler, OptionName, Options, Value};
pub use refusal::Refusal;

use alloc::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    format,
    string::String,
    vec::Vec,
};
use core::fmt;

use crate::{includes::Scan, key::KeyFields};
use options::Cell;

/// The domain of the keys, and a number that is raised when the meaning of the fields changes.
const DOMAIN: &str = "warmstart.cuda";
const SCHEMA: u32 = 1;

/// The name of a program without one.
const DEFAULT_NAME: &str = "default_program";

/// Describes a program: its source, the format to compile to, and the options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description<'a> {
    /// The language.
    pub code: CodeType,
    /// The format to compile to.
    pub target: TargetType,
    /// The source: text in CUDA C++ and PTX, text or bitcode in NVVM IR, bytes in LTO-IR.
    pub source: Cow<'a, [u8]>,
    /// The name in messages and in debug information.
    pub name: Cow<'a, str>,
    /// The options.
    pub options: Options,
    /// The expressions, such as `matmul<16>`, whose lowered names are requested.
    pub name_expressions: BTreeSet<String>,
    /// Further modules and their names, in the order in which they are compiled or linked.
    pub extra_sources: Vec<(Cow<'a, str>, Cow<'a, [u8]>)>,
}

impl<'a> Description<'a> {
    /// Creates a description without options.
    pub fn new(code: CodeType, target: TargetType, source: impl Into<Cow<'a, [u8]>>) -> Self {
        Self {
            code,
            target,
            source: source.into(),
            name: DEFAULT_NAME.into(),
            options: Options::new(),
            name_expressions: BTreeSet::new(),
            extra_sources: Vec::new(),
        }
    }

    /// Returns the fields of the key, which `docs/format.md` describes, and the compiler arguments, the architecture first.
    ///
    /// The arguments name no directories and no headers: the caller passes the texts of headers to the compiler, under names
    /// that it chooses.
    ///
    /// # Errors
    /// [`Refusal`] if an option or a value is not supported, or if the compiler would read or write a file that is not in
    /// the key.
    pub fn prepare<'k>(
        &'k self,
        contents: &'k Contents,
        toolchain: &'k Toolchain,
    ) -> Result<(KeyFields<'k>, Vec<String>), Refusal> {
        self.check()?;
        let (arch, mut arguments) = self.arguments(contents)?;
        if self.code == CodeType::Cxx && contents.headers.is_none() && contents.extra.is_none() {
            return Err(Refusal::outside(
                "headers",
                "the program may include headers that are not in the key; give the headers that it finds, even if there are \
                 none, or an extra digest of them",
            ));
        }
        let compiler = self.code.compiler();
        let name = &*self.name;
        let mut fields = KeyFields::new(DOMAIN, SCHEMA)
            // Lists of entries show the note. The name alone would not tell one architecture from another.
            .digest("source", &*self.source, format!("{name} {arch}"))
            .text("code type", self.code.as_str())
            .text("target type", self.target.as_str())
            .text("arch", arch.clone())
            .list("options", arguments.clone())
            .text("name", name);
        if !self.name_expressions.is_empty() {
            let expressions = self.name_expressions.iter().map(|expression| format!("text {expression}"));
            fields = fields.list("name expressions", expressions);
        }
        fields = fields.text("compiler", compiler.as_str()).text("compiler version", &toolchain.version);
        for (library, build) in &toolchain.builds {
            fields = fields.bytes(format!("compiler build {library}"), &build[..]);
        }
        let variables = toolchain.environment.iter().map(|(name, value)| format!("{name}={value}"));
        let directory = contents.directory.iter().map(|digests| format!("current directory={digests}"));
        let environment: Vec<String> = variables.chain(directory).collect();
        if !environment.is_empty() {
            fields = fields.list("environment", environment);
        }
        if self.code == CodeType::Cxx
            && let Some(found) = &contents.headers
        {
            let mut headers: Vec<_> = found.headers.iter().collect();
            headers.sort_unstable();
            for (name, digest) in headers {
                fields = fields.bytes(format!("header {name}"), &digest[..]);
            }
            fields = fields.bytes("header search", &found.search[..]);
        }
        if self.options.is_set(OptionName::UseLibdevice) {
            fields = match &contents.libdevice {
                Some(digest) => fields.bytes("libdevice", &digest[..]),
                None => fields.text("libdevice", "in the extra digest"),
            };
        }
        for (name, source) in &self.extra_sources {
            fields = fields.digest(format!("extra source {name}"), &**source, &**name);
        }
        if let Some(extra) = &contents.extra {
            fields = fields.bytes("extra digest", extra.as_bytes());
        }
        let arch_option = if compiler == Compiler::Nvrtc { "--gpu-architecture=" } else { "-arch=" };
        arguments.insert(0, [arch_option, &arch].concat().into());
        Ok((fields, arguments.into_iter().map(Cow::into_owned).collect()))
    }

    /// Returns the architecture as the compiler spells it, and all other arguments.
    ///
    /// # Errors
    /// [`Refusal`] if an option or its value is refused.
    fn arguments(&self, contents: &Contents) -> Result<(String, Vec<Cow<'static, str>>), Refusal> {
        let Self { code, target, options, .. } = self;
        let compiler = code.compiler();
        let mut rest = Vec::new();
        for (option, value) in options.iter() {
            let row = option.row();
            if value.has_nul() {
                return Err(nul(row.name));
            }
            if value.is_nothing(row.kind) {
                continue;
            }
            row.check(value)?;
            match row.cell(compiler) {
                Cell::Ignored => {}
                Cell::Refused => {
                    let instead = match option {
                        OptionName::LinkTimeOptimization => "choose the target type ltoir instead",
                        _ => "leave it out",
                    };
                    let message = format!("{compiler} does not take it for {code}; {instead}");
                    return Err(Refusal::unsupported(row.name, message));
                }
                cell => {
                    let is_known = contents.libdevice.is_some() || contents.extra.is_some();
                    if *option == OptionName::UseLibdevice && !is_known {
                        return Err(Refusal::outside(
                            row.name,
                            "the compiler reads a library that is not in the key; give its digest, or an extra digest",
                        ));
                    }
                    row.spell(&mut rest, cell, value);
                }
            }
        }
        // Arguments that follow from several options.
        let own = match compiler {
            Compiler::Nvrtc => {
                // The compiler searches for no header if all of them are known.
                let is_closed = contents.headers.is_some() || options.is_set(OptionName::NoSourceInclude);
                [(is_closed, "--no-source-include"), (false, "")]
            }
            Compiler::NvJitLink => {
                let is_lto = *code == CodeType::LtoIr || options.is_set(OptionName::LinkTimeOptimization);
                [(is_lto, "-lto"), (*target == TargetType::Ptx, "-ptx")]
            }
            Compiler::Nvvm => [(*target == TargetType::LtoIr, "-gen-lto"), (false, "")],
        };
        rest.extend(own.into_iter().filter(|(is_set, _)| *is_set).map(|(_, argument)| argument.into()));
        Ok((self.arch()?, rest))
    }

    /// Returns the architecture as the compiler spells it.
    fn arch(&self) -> Result<String, Refusal> {
        let refused = |why: String| Refusal::malformed(OptionName::Arch.as_str(), why);
        let Some(Value::Text(arch)) = self.options.option(OptionName::Arch) else {
            return Err(refused("it is missing; name the architecture, such as \"sm_90\"".into()));
        };
        let Some((family, version)) = arch_parts(arch) else {
            return Err(refused(format!(
                "{arch:?} is no architecture; write it as sm_90, sm_90a or compute_90"
            )));
        };
        if self.target == TargetType::Cubin && family == "compute_" {
            return Err(refused(format!(
                "a CUBIN is for a real architecture, not {arch:?}; write \"sm_{version}\""
            )));
        }
        Ok(if self.code == CodeType::Nvvm { ["compute_", version].concat() } else { arch.clone() })
    }

    /// Checks everything that does not depend on the options, the contents or the toolchain.
    fn check(&self) -> Result<(), Refusal> {
        let Self { code, target, .. } = *self;
        if !code.targets().contains(&target) {
            let targets: Vec<_> = code.targets().iter().map(|target| target.as_str()).collect();
            let targets = targets.join(", ");
            let message = format!("{code} is not compiled to {target}; choose one of {targets}");
            return Err(Refusal::unsupported("target_type", message));
        }
        if matches!(code, CodeType::Cxx | CodeType::Ptx) && has_nul(&self.source) {
            return Err(nul("source"));
        }
        if has_nul(self.name.as_bytes()) {
            return Err(nul("name"));
        }
        if !self.extra_sources.is_empty() && !matches!(code, CodeType::Nvvm | CodeType::LtoIr) {
            let message = format!("only nvvm and ltoir have them, not {code}; leave them out");
            return Err(Refusal::unsupported("extra_sources", message));
        }
        if self.extra_sources.iter().any(|(name, _)| has_nul(name.as_bytes())) {
            return Err(nul("extra_sources"));
        }
        self.check_name_expressions()
    }

    fn check_name_expressions(&self) -> Result<(), Refusal> {
        let option = "name_expressions";
        if self.name_expressions.is_empty() {
            return Ok(());
        }
        if self.code != CodeType::Cxx {
            let message = format!("only c++ has them, not {}; leave them out", self.code);
            return Err(Refusal::unsupported(option, message));
        }
        if self.name_expressions.iter().any(|expression| has_nul(expression.as_bytes())) {
            return Err(nul(option));
        }
        if self.name_expressions.iter().any(String::is_empty) {
            return Err(Refusal::malformed(option, "one is empty; leave it out"));
        }
        // The compiler reads an expression as a part of the source.
        let is_closed = |expression: &String| {
            let scan = Scan::of(expression.as_bytes());
            let is_line = !expression.contains(['\n', '\r']);
            is_line && scan.reaches_nothing() && scan.problems.is_empty() && scan.fragment.is_none()
        };
        if !self.name_expressions.iter().all(is_closed) {
            return Err(Refusal::malformed(
                option,
                "one has more than one line, or could make the compiler read a file or the clock; name the function or \
                 variable alone",
            ));
        }
        Ok(())
    }
}

/// The language of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CodeType {
    /// CUDA C++, compiled by NVRTC.
    Cxx,
    /// PTX, linked by nvJitLink.
    Ptx,
    /// NVVM IR, as text or bitcode, compiled by NVVM.
    Nvvm,
    /// LTO-IR, linked by nvJitLink.
    LtoIr,
}

impl CodeType {
    /// All languages.
    pub const ALL: [Self; 4] = [Self::Cxx, Self::Ptx, Self::Nvvm, Self::LtoIr];

    /// Returns the name, in lower case.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Cxx => "c++",
            Self::Ptx => "ptx",
            Self::Nvvm => "nvvm",
            Self::LtoIr => "ltoir",
        }
    }

    /// Returns the compiler of this language.
    #[must_use]
    pub const fn compiler(self) -> Compiler {
        match self {
            Self::Cxx => Compiler::Nvrtc,
            Self::Ptx | Self::LtoIr => Compiler::NvJitLink,
            Self::Nvvm => Compiler::Nvvm,
        }
    }

    /// Returns the formats that this language can be compiled to.
    #[must_use]
    pub const fn targets(self) -> &'static [TargetType] {
        match self {
            Self::Cxx => &[TargetType::Ptx, TargetType::Cubin, TargetType::LtoIr],
            Self::Ptx | Self::LtoIr => &[TargetType::Cubin, TargetType::Ptx],
            Self::Nvvm => &[TargetType::Ptx, TargetType::LtoIr],
        }
    }
}

impl fmt::Display for CodeType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The format that a program is compiled to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TargetType {
    /// PTX, which the driver compiles at load time.
    Ptx,
    /// Machine code of one architecture.
    Cubin,
    /// Intermediate code, optimised when it is linked.
    LtoIr,
}

impl TargetType {
    /// All formats.
    pub const ALL: [Self; 3] = [Self::Ptx, Self::Cubin, Self::LtoIr];

    /// Returns the name, in lower case.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ptx => "ptx",
            Self::Cubin => "cubin",
            Self::LtoIr => "ltoir",
        }
    }
}

impl fmt::Display for TargetType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Digests of all that the compiler reads besides the program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// All headers that the program can include. The compiler gets these texts and searches no directories, so the key does
    /// not depend on directories.
    pub headers: Option<FoundHeaders>,
    /// The digest of libdevice, the library of mathematical functions for NVVM.
    pub libdevice: Option<[u8; 32]>,
    /// A digest that the caller computed over all other files that the compiler reads.
    pub extra: Option<ExtraDigest>,
    /// Digests of the current directory, in hexadecimal, if the compiler writes the directory into the binary.
    pub directory: Option<String>,
}

/// The headers that a program can include, and how each is found: the same headers found in another order are another
/// program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FoundHeaders {
    /// The name and the digest of each header, in any order. Names such as `include0/matrix.cuh` do not depend on where the
    /// files are.
    pub headers: Vec<(String, [u8; 32])>,
    /// A digest of the include graph: which header each directive of each file leads to, if any.
    pub search: [u8; 32],
}

/// A digest that the caller computed over files that the compiler reads and warmstart does not see.
#[derive(Clone, PartialEq, Eq)]
pub struct ExtraDigest(Vec<u8>);

impl ExtraDigest {
    /// Wraps a digest of 16 to 64 bytes, not all zero.
    ///
    /// # Errors
    /// [`Refusal`] if the length is outside that range, or all bytes are zero.
    ///
    /// ```
    /// use warmstart_core::program::ExtraDigest;
    ///
    /// assert!(ExtraDigest::new(b"0123456789abcdef").is_ok());
    /// assert_eq!(ExtraDigest::new(&[0; 32]).unwrap_err().option(), Some("extra_digest"));
    /// ```
    pub fn new(bytes: &[u8]) -> Result<Self, Refusal> {
        if !(16..=64).contains(&bytes.len()) {
            let message = format!(
                "it has {} bytes, and a digest has 16 to 64; compute it over all files that the compiler reads",
                bytes.len()
            );
            return Err(Refusal::malformed("extra_digest", message));
        }
        if bytes.iter().all(|byte| *byte == 0) {
            return Err(Refusal::malformed(
                "extra_digest",
                "all of its bytes are zero; compute it over all files that the compiler reads",
            ));
        }
        Ok(Self(bytes.into()))
    }

    /// Returns the bytes.
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

/// The compiler in use: its version, its builds, and the environment variables that change its output.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Toolchain {
    /// The version that the compiler reports at run time.
    pub version: String,
    /// The build id of each of its libraries, by a name that is no path. Two releases may report one version; their build
    /// ids differ.
    pub builds: BTreeMap<String, Vec<u8>>,
    /// The environment variables that the compiler reads, and their values.
    pub environment: BTreeMap<String, String>,
}

/// Splits an architecture into `sm_` or `compute_` and its number, which may end with the letter of a family (`f`) or of one
/// architecture (`a`).
fn arch_parts(arch: &str) -> Option<(&'static str, &str)> {
    let (family, version) = ["sm_", "compute_"]
        .into_iter()
        .find_map(|family| arch.strip_prefix(family).map(|version| (family, version)))?;
    let digits = version.strip_suffix(['a', 'f']).unwrap_or(version);
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    (is_number && digits.len() <= 4 && !digits.starts_with('0')).then_some((family, version))
}

fn nul(option: &'static str) -> Refusal {
    Refusal::malformed(option, "it has a NUL byte, at which the compiler would stop reading; remove it")
}

/// Returns whether there is a NUL byte, at which a C string would end. No early exit within a piece, so that it compiles to
/// vector instructions.
fn has_nul(bytes: &[u8]) -> bool {
    bytes.chunks(64).any(|piece| piece.iter().fold(false, |any, byte| any | (*byte == 0)))
}
