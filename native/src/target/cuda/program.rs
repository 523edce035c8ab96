//! A CUDA program to compile, with its directories and headers.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use warmstart_core::program::{CodeType, Description, ExtraDigest, OptionName, TargetType, Value};

/// The directory that the compiler is told headers are in. Absolute, because the compiler puts the current directory before
/// relative names.
pub(super) const ROOT: &str = "/warmstart/";

/// A program with its options, its headers and the requested names.
///
/// Its key is made of the source, the options, the name and the contents of every header that the source can include. It does
/// not depend on directories: a binary compiled in one checkout is found from another. Relative directories begin at the
/// current directory of the process at each call.
///
/// ```
/// use warmstart::target::cuda::{OptionName, Program, TargetType};
///
/// let source = "template <int N> __global__ void scale(float *x) { x[threadIdx.x] *= N; }";
/// let program = Program::cxx("scale.cu", source)
///     .target(TargetType::Cubin)
///     .arch("sm_90")
///     .option(OptionName::Std, "c++17")
///     .name_expression("scale<3>");
/// assert_eq!(program.name(), "scale.cu");
/// ```
#[derive(Clone, Debug)]
pub struct Program {
    /// The part of the program that is described by the core. Headers and their directories are separate fields.
    pub(super) description: Description<'static>,
    pub(super) extra_digest: Option<ExtraDigest>,
    pub(super) header_digest: Option<ExtraDigest>,
    pub(super) source_dir: Option<PathBuf>,
    pub(super) include_dirs: Vec<PathBuf>,
    pub(super) given: Vec<(String, String)>,
}

impl Program {
    /// Creates a CUDA C++ program for NVRTC, compiled to a CUBIN unless another [target](Self::target) is set.
    ///
    /// The name is used in messages and in debug information. If it has a directory in it, headers in quotes are searched for
    /// there first, as with [`source_dir`](Self::source_dir).
    #[must_use]
    pub fn cxx(name: impl Into<String>, source: impl Into<String>) -> Self {
        let (name, source_dir) = split(name.into());
        Self { source_dir, ..Self::new(name, CodeType::Cxx, TargetType::Cubin, source.into().into_bytes()) }
    }

    /// Reads a CUDA C++ program from a file. Headers in quotes are searched for beside it first.
    ///
    /// # Errors
    /// [`io::Error`] if the file cannot be read, or is not UTF-8.
    pub fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        let path = path.as_ref();
        let source = fs::read_to_string(path)
            .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))?;
        let name =
            path.file_name().map_or_else(|| "program.cu".into(), |name| name.to_string_lossy().into_owned());
        let program = Self::new(name, CodeType::Cxx, TargetType::Cubin, source.into_bytes());
        Ok(program.source_dir(path.parent().unwrap_or(Path::new(""))))
    }

    /// Creates a PTX program for nvJitLink, linked to a CUBIN.
    #[must_use]
    pub fn ptx(name: impl Into<String>, source: impl Into<String>) -> Self {
        Self::new(name.into(), CodeType::Ptx, TargetType::Cubin, source.into().into_bytes())
    }

    /// Creates an LTO-IR program for nvJitLink, linked to a CUBIN together with [further modules](Self::extra_source).
    #[must_use]
    pub fn ltoir(name: impl Into<String>, module: impl Into<Vec<u8>>) -> Self {
        Self::new(name.into(), CodeType::LtoIr, TargetType::Cubin, module.into())
    }

    /// Creates a program in NVVM IR, as text or bitcode, for NVVM, compiled to PTX unless another [target](Self::target) is set.
    #[must_use]
    pub fn nvvm(name: impl Into<String>, module: impl Into<Vec<u8>>) -> Self {
        Self::new(name.into(), CodeType::Nvvm, TargetType::Ptx, module.into())
    }

    fn new(name: String, code: CodeType, target: TargetType, source: Vec<u8>) -> Self {
        let mut description = Description::new(code, target, source);
        description.name = name.into();
        Self {
            description,
            extra_digest: None,
            header_digest: None,
            source_dir: None,
            include_dirs: Vec::new(),
            given: Vec::new(),
        }
    }

    /// Sets the format to compile to.
    #[must_use]
    pub fn target(mut self, target: TargetType) -> Self {
        self.description.target = target;
        self
    }

    /// Sets the architecture with its suffix: `sm_90a` differs from `sm_90`. There is no default.
    #[must_use]
    pub fn arch(self, arch: impl Into<String>) -> Self {
        self.option(OptionName::Arch, arch.into())
    }

    /// Sets an option, and replaces the value that it had. Options are checked when the program is compiled.
    #[must_use]
    pub fn option(mut self, name: OptionName, value: impl Into<Value>) -> Self {
        self.description.options.set(name, value);
        self
    }

    /// Adds a directory that is searched for headers, after those added before. Only CUDA C++ has headers.
    #[must_use]
    pub fn include_dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.include_dirs.push(dir.into());
        self
    }

    /// Sets the directory of the source, which is searched first for headers in quotes. Without it, no header is found beside
    /// the source, whatever the current directory of the process is.
    #[must_use]
    pub fn source_dir(self, dir: impl Into<PathBuf>) -> Self {
        Self { source_dir: Some(dir.into()), ..self }
    }

    /// Gives the text of a header that is not in a file. Every `#include` that spells this name gets it, before directories are
    /// searched.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, text: impl Into<String>) -> Self {
        self.given.push((name.into(), text.into()));
        self
    }

    /// Requests the lowered name of an expression such as `matmul<16>`, and has its kernel or variable compiled.
    #[must_use]
    pub fn name_expression(mut self, expression: impl Into<String>) -> Self {
        self.description.name_expressions.insert(expression.into());
        self
    }

    /// Adds a module: NVVM IR that is compiled together with the source, or LTO-IR that is linked with it. The order of modules
    /// is part of the key.
    #[must_use]
    pub fn extra_source(mut self, name: impl Into<String>, module: impl Into<Vec<u8>>) -> Self {
        self.description.extra_sources.push((name.into().into(), module.into().into()));
        self
    }

    /// Links libdevice, the mathematical functions for NVVM IR. Its digest is part of the key.
    #[must_use]
    pub fn libdevice(self) -> Self {
        self.option(OptionName::UseLibdevice, true)
    }

    /// Adds a digest to the key, computed by the caller over what the binary depends on and warmstart does not see.
    #[must_use]
    pub fn extra_digest(self, digest: ExtraDigest) -> Self {
        Self { extra_digest: Some(digest), ..self }
    }

    /// Replaces all headers in the key, given ones too, by a digest that the caller computed: for programs whose headers only the
    /// compiler can find. No header is read for the key. The compiler searches the include directories and the current one
    /// itself. The digest must change whenever a header changes that the compiler may find.
    #[must_use]
    pub fn header_digest(self, digest: ExtraDigest) -> Self {
        Self { header_digest: Some(digest), ..self }
    }

    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.description.name
    }

    /// Lists the directories that names in the compiler's log stand for.
    pub(super) fn places(&self) -> Vec<String> {
        let shown = |name: String, directory: &Path| {
            let missing = if directory.is_dir() { "" } else { ", which is no directory" };
            format!("{ROOT}{name} is {}{missing}", directory.display())
        };
        let source = self.source_dir.iter().map(|directory| shown("source".into(), directory));
        let includes = self.include_dirs.iter().zip(0..);
        let includes = includes.map(|(directory, number)| shown(format!("include{number}"), directory));
        let mut places: Vec<String> = source.chain(includes).collect();
        if places.is_empty() {
            places.push("no directory was named to look for headers in: see Program::include_dir".into());
        }
        places
    }
}

/// Splits a name into its last part and its directory, if it has one.
fn split(name: String) -> (String, Option<PathBuf>) {
    match name.rfind(['/', '\\']) {
        Some(place) => (name[place + 1..].into(), Some(PathBuf::from(&name[..=place]))),
        None => (name, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_in_the_name_is_where_the_source_stands() {
        let program = Program::cxx("kernels/scale.cu", "");
        assert_eq!(program.name(), "scale.cu");
        assert_eq!(program.source_dir, Some("kernels/".into()));
        assert_eq!(Program::cxx("scale.cu", "").source_dir, None);
    }
}
