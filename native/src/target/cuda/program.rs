//! What is to be compiled.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use warmstart_core::{
    key::{Key, KeyFields},
    program::{
        self, CodeType, Contents, ExtraDigest, Header, NameExpression, OptionName, Options, Source,
        TargetType, Value,
    },
};

use super::headers::{Closed, Found, ROOT};

/// A program with its options, its headers and the names that are wanted of it.
///
/// The source, the options, the name, and the contents of every header that the source can reach decide what is compiled.
/// The directories do not: what was compiled in one checkout is found from another. A relative one begins at the current
/// directory of the process, at each call anew.
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
    /// All that the core knows. Of CUDA C++, directories and headers are kept here, so that they need no digest.
    description: program::Program<'static>,
    extra_digest: Option<ExtraDigest>,
    header_digest: Option<ExtraDigest>,
    pub(super) source_dir: Option<PathBuf>,
    pub(super) include_dirs: Vec<PathBuf>,
    pub(super) pre_includes: Vec<String>,
    pub(super) given: Vec<(String, String)>,
}

impl Program {
    /// CUDA C++, for NVRTC; compiled to a CUBIN unless another [target](Self::target) is asked for.
    ///
    /// The name stands in messages and in debug information. If it has a directory in it, headers in quotes are looked for
    /// there first, as [`source_dir`](Self::source_dir) says.
    #[must_use]
    pub fn cxx(name: impl Into<String>, source: impl Into<String>) -> Self {
        let (name, source_dir) = split(name.into());
        Self { source_dir, ..Self::new(name, CodeType::Cxx, TargetType::Cubin, source.into()) }
    }

    /// CUDA C++ in a file. Headers in quotes are looked for beside it first.
    ///
    /// # Errors
    /// The file cannot be read, or is not UTF-8.
    pub fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        let path = path.as_ref();
        let source = fs::read_to_string(path)
            .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))?;
        let name =
            path.file_name().map_or_else(|| "program.cu".into(), |name| name.to_string_lossy().into_owned());
        let mut program = Self::new(name, CodeType::Cxx, TargetType::Cubin, source);
        program.source_dir = Some(path.parent().map(Path::to_path_buf).unwrap_or_default());
        Ok(program)
    }

    /// PTX, for nvJitLink; linked to a CUBIN.
    #[must_use]
    pub fn ptx(name: impl Into<String>, source: impl Into<String>) -> Self {
        Self::new(name.into(), CodeType::Ptx, TargetType::Cubin, source.into())
    }

    /// LTO-IR, for nvJitLink; linked to a CUBIN, together with [further modules](Self::extra_source).
    #[must_use]
    pub fn ltoir(name: impl Into<String>, module: impl Into<Vec<u8>>) -> Self {
        Self::new(name.into(), CodeType::LtoIr, TargetType::Cubin, module.into())
    }

    /// NVVM IR, as text or as bitcode, for NVVM; compiled to PTX unless another [target](Self::target) is asked for.
    #[must_use]
    pub fn nvvm(name: impl Into<String>, module: impl Into<Source<'static>>) -> Self {
        Self::new(name.into(), CodeType::Nvvm, TargetType::Ptx, module)
    }

    fn new(name: String, code: CodeType, target: TargetType, source: impl Into<Source<'static>>) -> Self {
        Self {
            description: program::Program::new(code, target, source).with_name(name),
            extra_digest: None,
            header_digest: None,
            source_dir: None,
            include_dirs: Vec::new(),
            pre_includes: Vec::new(),
            given: Vec::new(),
        }
    }

    /// What it is compiled to.
    #[must_use]
    pub fn target(mut self, target: TargetType) -> Self {
        self.description = self.description.with_target(target);
        self
    }

    /// The architecture, with its suffix: `sm_90a` is another one than `sm_90`. There is no default.
    #[must_use]
    pub fn arch(self, arch: impl Into<String>) -> Self {
        self.option(OptionName::Arch, arch.into())
    }

    /// Sets an option; one that was set is replaced. Which options a compiler takes is checked when it is compiled.
    #[must_use]
    pub fn option(mut self, name: OptionName, value: impl Into<Value>) -> Self {
        self.description.options_mut().set(name, value);
        self.take_own();
        self
    }

    /// Sets all options at once, as [`Options::parse`] reads them off a command line. Directories of headers and headers
    /// that are included before the source are added to those that were named before.
    #[must_use]
    pub fn options(mut self, options: Options) -> Self {
        *self.description.options_mut() = options;
        self.take_own();
        self
    }

    /// Looks for headers in `dir`, after the directories that were added before. Only CUDA C++ has headers.
    #[must_use]
    pub fn include_dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.include_dirs.push(dir.into());
        self
    }

    /// Looks in `dir` first for what the source includes as `"x.h"`: the directory where the source would stand. Without
    /// it no header is found beside the source, whatever the current directory of the process is.
    #[must_use]
    pub fn source_dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.source_dir = Some(dir.into());
        self
    }

    /// Gives a header that no file holds. Every `#include` that spells this name gets it, before any directory is looked in.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, text: impl Into<String>) -> Self {
        self.given.push((name.into(), text.into()));
        self
    }

    /// Includes a header before the source, looked for as if the source included it in quotes.
    #[must_use]
    pub fn pre_include(mut self, name: impl Into<String>) -> Self {
        self.pre_includes.push(name.into());
        self
    }

    /// Wants the lowered name of this expression, such as `matmul<16>`, and has what it names compiled.
    #[must_use]
    pub fn name_expression(mut self, expression: impl Into<NameExpression>) -> Self {
        self.description = self.description.with_name_expressions([expression]);
        self
    }

    /// Adds a module: of NVVM IR that is compiled together with the source, or of LTO-IR that is linked with it. Their
    /// order counts.
    #[must_use]
    pub fn extra_source(mut self, name: impl Into<String>, module: impl Into<Source<'static>>) -> Self {
        self.description = self.description.with_extra_source(name.into(), module);
        self
    }

    /// Links libdevice, the mathematical functions for NVVM IR. Its contents are in the key.
    #[must_use]
    pub fn libdevice(self) -> Self {
        self.option(OptionName::UseLibdevice, true)
    }

    /// Puts a digest of yours into the key: of contents that an option reaches and that warmstart cannot see, such as those
    /// of a precompiled header.
    #[must_use]
    pub fn extra_digest(mut self, digest: ExtraDigest) -> Self {
        self.extra_digest = Some(digest);
        self
    }

    /// Puts a digest of yours into the key in place of all headers, those given as texts too: for programs whose headers only
    /// the compiler can tell. No header is read for the key; the compiler looks for them itself, in the directories that
    /// were named and in the current one. The digest must differ whenever a header that it may find does.
    #[must_use]
    pub fn header_digest(mut self, digest: ExtraDigest) -> Self {
        self.header_digest = Some(digest);
        self
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.description.name()
    }

    /// What of it is the core's: all but headers and digests.
    pub(super) const fn description(&self) -> &program::Program<'static> {
        &self.description
    }

    /// What the key knows of what is outside: what was found, and the caller's digests.
    pub(super) fn contents(&self, found: Option<Found>, libdevice: Option<[u8; 32]>) -> Contents<'static> {
        let mut contents = Contents::none();
        if let Some(found) = found {
            let headers = found.headers.into_iter();
            let headers = headers.map(|(name, digest)| Header { name: name.into(), digest });
            contents = contents.with_headers(headers.collect()).with_search(found.search);
        }
        if let Some(digest) = libdevice {
            contents = contents.with_libdevice(digest);
        }
        let digest = self.header_digest.as_ref().map_or_else(
            || self.extra_digest.clone(),
            |headers| {
                // The caller answers for the contents of headers, and not for which ones are read first, or given.
                let given =
                    self.given.iter().map(|(name, text)| format!("{name}\0{}", Key::digest(text.as_bytes())));
                let fields = KeyFields::new("warmstart.cuda.digests", 1)
                    .bytes("headers", headers.as_bytes())
                    .list("pre-includes", self.pre_includes.iter().map(String::as_str))
                    .list("given headers", given)
                    .number("source directories", self.source_dir.iter().count() as u64)
                    .number("include directories", self.include_dirs.len() as u64);
                let fields = match &self.extra_digest {
                    Some(extra) => fields.bytes("extra", extra.as_bytes()),
                    None => fields,
                };
                let key = fields.key();
                Some(ExtraDigest::new(key.as_bytes()).expect("it has 32 bytes, which are not all zero"))
            },
        );
        match digest {
            Some(digest) => contents.with_extra(digest),
            None => contents,
        }
    }

    /// Whether its headers are looked for: it can include some, and no digest answers for them.
    pub(super) fn has_headers(&self) -> bool {
        self.description.code() == CodeType::Cxx && self.header_digest.is_none()
    }

    /// Whether names in quotes are looked for beside the text that includes them.
    pub(super) fn searches_beside(&self) -> bool {
        !self.description.options().is_set(OptionName::NoSourceInclude)
    }

    /// Macros that are defined on the command line: `NAME` or `NAME=VALUE`.
    pub(super) fn definitions(&self) -> &[String] {
        match self.description.options().option(OptionName::DefineMacro) {
            Some(Value::List(definitions)) => definitions,
            Some(Value::Text(definition)) => std::slice::from_ref(definition),
            _ => &[],
        }
    }

    /// The standard of C++ that is asked for.
    pub(super) fn standard(&self) -> Option<&str> {
        match self.description.options().option(OptionName::Std) {
            Some(Value::Text(standard)) => Some(standard),
            _ => None,
        }
    }

    /// What the compiler is given without the search: the texts, the name, and the directories in which it looks itself.
    pub(super) fn unclosed(&self) -> (Closed, String, Vec<String>) {
        let source = self.description.source().as_bytes().to_vec();
        if self.header_digest.is_none() {
            return (Closed { source, ..Closed::default() }, self.name().into(), Vec::new());
        }
        let headers =
            self.given.iter().map(|(name, text)| (name.clone(), text.clone().into_bytes())).collect();
        let closed = Closed { source, headers, pre_includes: self.pre_includes.clone(), ..Closed::default() };
        let name = self.source_dir.clone().unwrap_or_default().join(self.name());
        let directories = self.include_dirs.iter().map(|dir| format!("--include-path={}", dir.display()));
        (closed, name.display().to_string(), directories.collect())
    }

    /// What of the options is kept here. A value of the wrong kind stays, and is refused when the program is compiled.
    fn take_own(&mut self) {
        let is_cxx = self.description.code() == CodeType::Cxx;
        if let Some(Value::Text(name)) = self.description.options().option(OptionName::Name).cloned() {
            self.description.options_mut().remove(OptionName::Name);
            let (name, directory) = if is_cxx { split(name) } else { (name, None) };
            self.description.set_name(name);
            self.source_dir = directory.or(self.source_dir.take());
        }
        if is_cxx {
            let (dirs, headers) = (self.take(OptionName::IncludePath), self.take(OptionName::PreInclude));
            self.include_dirs.extend(dirs.into_iter().map(PathBuf::from));
            self.pre_includes.extend(headers);
        }
    }

    /// The texts of an option, which it has no more.
    fn take(&mut self, name: OptionName) -> Vec<String> {
        let options = self.description.options_mut();
        match options.remove(name) {
            Some(Value::List(items)) => items,
            Some(Value::Text(item)) => vec![item],
            Some(other) => {
                options.set(name, other);
                Vec::new()
            }
            None => Vec::new(),
        }
    }

    /// What the names of directories in the compiler's log stand for.
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

    /// Whether NVRTC says in the binary where it was compiled: for debuggers, and always in LTO-IR.
    pub(super) fn names_directory(&self) -> bool {
        let is_debugged = self.description.options().is_set(OptionName::Debug);
        let is_ltoir = self.description.target() == TargetType::LtoIr;
        self.description.code() == CodeType::Cxx && (is_debugged || is_ltoir)
    }

    pub(super) fn uses_libdevice(&self) -> bool {
        self.description.options().is_set(OptionName::UseLibdevice)
    }
}

/// The directory and the last part of a name; no directory if it has none.
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

    #[test]
    fn directories_among_the_options_are_searched_after_those_named_before() {
        let program = Program::cxx("a.cu", "")
            .include_dir("first")
            .option(OptionName::IncludePath, ["second", "third"])
            .option(OptionName::PreInclude, "pre.cuh");
        assert_eq!(program.include_dirs, ["first", "second", "third"].map(PathBuf::from));
        assert_eq!(program.pre_includes, ["pre.cuh"]);
        assert!(program.description.options().is_empty());
        assert!(!Program::ptx("a.ptx", "").has_headers());
    }

    #[test]
    fn an_option_that_is_kept_elsewhere_is_not_lost() {
        let named = |program: Program| program.option(OptionName::Name, "kernels/scale.cu");
        let program = named(Program::cxx("a.cu", ""));
        assert_eq!(program.name(), "scale.cu");
        assert_eq!(program.source_dir, Some("kernels/".into()));
        assert_eq!(named(Program::ptx("a.ptx", "")).name(), "kernels/scale.cu");
    }

    #[test]
    fn what_an_option_does_not_take_is_still_refused() {
        let refused = |program: &Program| {
            let description =
                program.description.clone().with_contents(Contents::none().with_search([1; 32]));
            let refusal = description.arguments(description.code().compiler()).unwrap_err();
            refusal.option().map(ToOwned::to_owned)
        };
        for name in [OptionName::IncludePath, OptionName::PreInclude, OptionName::Name] {
            let program = Program::cxx("a.cu", "").arch("sm_90").option(name, true);
            assert_eq!(refused(&program).as_deref(), Some(name.as_str()));
        }
        let module = Program::nvvm("a.ll", "").arch("sm_90").option(OptionName::IncludePath, "include");
        assert_eq!(refused(&module).as_deref(), Some("include_path"));
    }
}
