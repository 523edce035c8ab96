//! What a program is, what it becomes, and who makes it that.

use alloc::{borrow::Cow, format, string::String, vec::Vec};
use core::fmt;

/// The language of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CodeType {
    /// CUDA C++, for NVRTC.
    Cxx,
    /// PTX, for a linker.
    Ptx,
    /// NVVM IR, as text or bitcode, for NVVM.
    Nvvm,
    /// LTO-IR, for a linker.
    LtoIr,
}

impl CodeType {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Cxx, Self::Ptx, Self::Nvvm, Self::LtoIr];

    /// Its name, in lower case.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Cxx => "c++",
            Self::Ptx => "ptx",
            Self::Nvvm => "nvvm",
            Self::LtoIr => "ltoir",
        }
    }

    /// Who compiles it.
    #[must_use]
    pub const fn compiler(self) -> Compiler {
        match self {
            Self::Cxx => Compiler::Nvrtc,
            Self::Ptx | Self::LtoIr => Compiler::NvJitLink,
            Self::Nvvm => Compiler::Nvvm,
        }
    }

    /// What it can be compiled to.
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

/// What a program is compiled to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TargetType {
    /// PTX, which a driver compiles when it is loaded.
    Ptx,
    /// Machine code of one architecture.
    Cubin,
    /// What a linker optimises with other code.
    LtoIr,
}

impl TargetType {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Ptx, Self::Cubin, Self::LtoIr];

    /// Its name, in lower case.
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

/// Who compiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Compiler {
    /// The run-time compiler of CUDA C++.
    Nvrtc,
    /// The linker that comes as a library.
    NvJitLink,
    /// The compiler of NVVM IR.
    Nvvm,
}

impl Compiler {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Nvrtc, Self::NvJitLink, Self::Nvvm];

    /// Its kind, which labels a probe that failed.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Nvrtc => "nvrtc",
            Self::NvJitLink => "linker",
            Self::Nvvm => "nvvm",
        }
    }

    /// Its name in a key.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Nvrtc => "nvrtc",
            Self::NvJitLink => "nvjitlink",
            Self::Nvvm => "nvvm",
        }
    }
}

impl fmt::Display for Compiler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nvrtc => "NVRTC",
            Self::NvJitLink => "nvJitLink",
            Self::Nvvm => "NVVM",
        })
    }
}

/// The source of a program. CUDA C++ and PTX are text; NVVM IR and LTO-IR may be bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source<'a> {
    /// Text.
    Text(Cow<'a, str>),
    /// Bytes, such as bitcode.
    Bytes(Cow<'a, [u8]>),
}

impl Source<'_> {
    /// Its bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Text(text) => text.as_bytes(),
            Self::Bytes(bytes) => bytes,
        }
    }
}

impl<'a> From<&'a str> for Source<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(Cow::Borrowed(text))
    }
}

impl From<String> for Source<'_> {
    fn from(text: String) -> Self {
        Self::Text(Cow::Owned(text))
    }
}

impl<'a> From<&'a [u8]> for Source<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self::Bytes(Cow::Borrowed(bytes))
    }
}

impl<'a, const N: usize> From<&'a [u8; N]> for Source<'a> {
    fn from(bytes: &'a [u8; N]) -> Self {
        Self::Bytes(Cow::Borrowed(bytes))
    }
}

impl From<Vec<u8>> for Source<'_> {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Bytes(Cow::Owned(bytes))
    }
}

/// An expression whose lowered name is asked for, such as `matmul<16>`.
///
/// A text is not the bytes of it, because who asks for a lowered name later asks by what was given.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum NameExpression {
    /// Text.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
}

impl NameExpression {
    /// It with what it is, so that a text and the bytes of it differ. Bytes that are no text are written in hexadecimal
    /// digits.
    pub(crate) fn tagged(&self) -> String {
        match self {
            Self::Text(text) => ["text ", text].concat(),
            Self::Bytes(bytes) => match core::str::from_utf8(bytes) {
                Ok(text) => ["bytes ", text].concat(),
                Err(_) => {
                    let mut digits = String::from("hexadecimal ");
                    bytes.iter().for_each(|byte| digits.push_str(&format!("{byte:02x}")));
                    digits
                }
            },
        }
    }

    /// Its bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Text(text) => text.as_bytes(),
            Self::Bytes(bytes) => bytes,
        }
    }
}

impl From<&str> for NameExpression {
    fn from(text: &str) -> Self {
        Self::Text(text.into())
    }
}

impl From<String> for NameExpression {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&[u8]> for NameExpression {
    fn from(bytes: &[u8]) -> Self {
        Self::Bytes(bytes.into())
    }
}

impl From<Vec<u8>> for NameExpression {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Bytes(bytes)
    }
}
