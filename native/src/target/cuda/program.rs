//! What is to be compiled.

use std::{
    borrow::Cow,
    fs, io,
    path::{Path, PathBuf},
};

use warmstart_core::{
    key::KeyFields,
    program::{
        self, CodeType, Contents, ExtraDigest, NameExpression, OptionName, Options, Source, TargetType, Value,
    },
};

use super::headers::{Closed, Search};

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
    name: String,
    code: CodeType,
    target: TargetType,
    source: Source<'static>,
    options: Options,
    name_expressions: Vec<NameExpression>,
    extra_sources: Vec<(String, Source<'static>)>,
    extra_digest: Option<ExtraDigest>,
    header_digest: Option<ExtraDigest>,
    source_dir: Option<PathBuf>,
    include_dirs: Vec<PathBuf>,
    pre_includes: Vec<String>,
    given: Vec<(String, String)>,
}

impl Program {
    /// CUDA C++, for NVRTC; compiled to a CUBIN unless another [target](Self::target) is asked for.
    ///
    /// The name stands in messages and in debug information. If it has a directory in it, headers in quotes are looked for
    /// there first, as [`source_dir`](Self::source_dir) says.
    #[must_use]
    pub fn cxx(name: impl Into<String>, source: impl Into<String>) -> Self {
        let (name, source_dir) = split(name.into());
        Self { source_dir, ..Self::new(name, CodeType::Cxx, TargetType::Cubin, Source::from(source.into())) }
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
        let mut program = Self::new(name, CodeType::Cxx, TargetType::Cubin, Source::from(source));
        program.source_dir = Some(path.parent().map(Path::to_path_buf).unwrap_or_default());
        Ok(program)
    }

    /// PTX, for nvJitLink; linked to a CUBIN.
    #[must_use]
    pub fn ptx(name: impl Into<String>, source: impl Into<String>) -> Self {
        Self::new(name.into(), CodeType::Ptx, TargetType::Cubin, Source::from(source.into()))
    }

    /// LTO-IR, for nvJitLink; linked to a CUBIN, together with [further modules](Self::extra_source).
    #[must_use]
    pub fn ltoir(name: impl Into<String>, module: impl Into<Vec<u8>>) -> Self {
        Self::new(name.into(), CodeType::LtoIr, TargetType::Cubin, Source::from(module.into()))
    }

    /// NVVM IR, as text or as bitcode, for NVVM; compiled to PTX unless another [target](Self::target) is asked for.
    #[must_use]
    pub fn nvvm(name: impl Into<String>, module: impl Into<Source<'static>>) -> Self {
        Self::new(name.into(), CodeType::Nvvm, TargetType::Ptx, module.into())
    }

    fn new(name: String, code: CodeType, target: TargetType, source: Source<'static>) -> Self {
        Self {
            name,
            code,
            target,
            source,
            options: Options::new(),
            name_expressions: Vec::new(),
            extra_sources: Vec::new(),
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
        self.target = target;
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
        self.options = self.options.with(name, value);
        self.take_own();
        self
    }

    /// Sets all options at once, as [`Options::parse`] reads them off a command line. Directories of headers and headers
    /// that are included before the source are added to those that were named before.
    #[must_use]
    pub fn options(mut self, options: Options) -> Self {
        self.options = options;
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
        self.name_expressions.push(expression.into());
        self
    }

    /// Adds a module: of NVVM IR that is compiled together with the source, or of LTO-IR that is linked with it. Their
    /// order counts.
    #[must_use]
    pub fn extra_source(mut self, name: impl Into<String>, module: impl Into<Source<'static>>) -> Self {
        self.extra_sources.push((name.into(), module.into()));
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
        &self.name
    }
}

/// What the one call needs of a program.
impl Program {
    /// The description that the key is derived from. `contents` is what of outside is known.
    pub(super) fn description<'a>(&'a self, contents: Contents<'a>) -> program::Program<'a> {
        let contents = match self.digest() {
            Some(digest) => contents.with_extra(digest),
            None => contents,
        };
        let mut description = program::Program::new(self.code, self.target, borrowed(&self.source))
            .with_name(self.name.as_str())
            .with_options(self.options.clone())
            .with_name_expressions(self.name_expressions.iter().cloned())
            .with_contents(contents);
        for (name, module) in &self.extra_sources {
            description = description.with_extra_source(name.as_str(), borrowed(module));
        }
        description
    }

    /// What the caller answers for, as the key has it.
    fn digest(&self) -> Option<ExtraDigest> {
        let (Some(headers), Some(extra)) = (&self.header_digest, &self.extra_digest) else {
            return self.header_digest.clone().or_else(|| self.extra_digest.clone());
        };
        let both = KeyFields::new("warmstart.cuda.digests", 1)
            .bytes("headers", headers.as_bytes())
            .bytes("extra", extra.as_bytes())
            .key();
        Some(ExtraDigest::new(both.as_bytes()).expect("a digest is long enough, and none is all zeros"))
    }

    /// What a compiler is given that looks for the headers itself: its name for the program, the headers that are given as
    /// texts, and where to look. Nothing if it gets them all.
    pub(super) fn unclosed(&self) -> Option<(String, Closed, Vec<String>)> {
        self.header_digest.as_ref()?;
        let name =
            self.source_dir.as_ref().map_or_else(|| self.name.clone().into(), |dir| dir.join(&self.name));
        let given = self.given.iter().map(|(name, text)| (name.clone(), text.clone().into_bytes())).collect();
        let closed = Closed::over(self.source.as_bytes().to_vec(), given, self.pre_includes.clone());
        let directories = self.include_dirs.iter().map(|dir| format!("--include-path={}", dir.display()));
        Some((name.display().to_string(), closed, directories.collect()))
    }

    /// Where its headers are looked for; nothing if it can include none, or a digest answers for them.
    pub(super) fn search(&self) -> Option<Search<'_>> {
        let Source::Text(source) = &self.source else { return None };
        (self.code == CodeType::Cxx && self.header_digest.is_none()).then(|| Search {
            source,
            source_dir: self.source_dir.as_deref(),
            given: &self.given,
            includes: &self.include_dirs,
            pre_includes: &self.pre_includes,
            no_source_include: self.options.option(OptionName::NoSourceInclude) == Some(&Value::Flag(true)),
            definitions: match self.options.option(OptionName::DefineMacro) {
                Some(Value::List(definitions)) => definitions,
                Some(Value::Text(definition)) => std::slice::from_ref(definition),
                _ => &[],
            },
            standard: match self.options.option(OptionName::Std) {
                Some(Value::Text(standard)) => Some(standard),
                _ => None,
            },
        })
    }

    /// What of the options is kept here: the name, and of CUDA C++ the directories and headers, so that they need no
    /// digest. A value of the wrong kind stays, and is refused when the program is compiled.
    fn take_own(&mut self) {
        if let Some(Value::Text(name)) = self.options.option(OptionName::Name).cloned() {
            self.options.remove(OptionName::Name);
            let (name, directory) = if self.code == CodeType::Cxx { split(name) } else { (name, None) };
            self.name = name;
            self.source_dir = directory.or(self.source_dir.take());
        }
        if self.code == CodeType::Cxx {
            let (dirs, headers) = (self.take(OptionName::IncludePath), self.take(OptionName::PreInclude));
            self.include_dirs.extend(dirs.into_iter().map(PathBuf::from));
            self.pre_includes.extend(headers);
        }
    }

    /// The texts of an option, which it has no more.
    fn take(&mut self, name: OptionName) -> Vec<String> {
        match self.options.remove(name) {
            Some(Value::List(items)) => items,
            Some(Value::Text(item)) => vec![item],
            Some(other) => {
                self.options.set(name, other);
                Vec::new()
            }
            None => Vec::new(),
        }
    }

    pub(super) const fn code(&self) -> CodeType {
        self.code
    }

    pub(super) const fn target_type(&self) -> TargetType {
        self.target
    }

    pub(super) const fn source(&self) -> &Source<'static> {
        &self.source
    }

    pub(super) fn name_expressions(&self) -> &[NameExpression] {
        &self.name_expressions
    }

    pub(super) fn extra_sources(&self) -> &[(String, Source<'static>)] {
        &self.extra_sources
    }

    /// What the names of directories in the compiler's log stand for.
    pub(super) fn places(&self) -> Vec<String> {
        let shown = |name: String, directory: &Path| {
            let missing = if directory.is_dir() { "" } else { ", which is no directory" };
            format!("{}{name} is {}{missing}", super::headers::ROOT, directory.display())
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
        let is_debugged = self.options.option(OptionName::Debug) == Some(&Value::Flag(true));
        self.code == CodeType::Cxx && (is_debugged || self.target == TargetType::LtoIr)
    }

    pub(super) fn uses_libdevice(&self) -> bool {
        self.options.option(OptionName::UseLibdevice) == Some(&Value::Flag(true))
    }
}

fn borrowed<'a>(source: &'a Source<'static>) -> Source<'a> {
    match source {
        Source::Text(text) => Source::Text(Cow::Borrowed(text)),
        Source::Bytes(bytes) => Source::Bytes(Cow::Borrowed(bytes)),
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
        assert_eq!(program.search().unwrap().source_dir, Some(Path::new("kernels/")));
        assert_eq!(Program::cxx("scale.cu", "").search().unwrap().source_dir, None);
    }

    #[test]
    fn directories_among_the_options_are_searched_after_those_named_before() {
        let program = Program::cxx("a.cu", "")
            .include_dir("first")
            .option(OptionName::IncludePath, ["second", "third"])
            .option(OptionName::PreInclude, "pre.cuh");
        let search = program.search().unwrap();
        assert_eq!(search.includes, ["first", "second", "third"].map(PathBuf::from));
        assert_eq!(search.pre_includes, ["pre.cuh"]);
        assert!(program.options.is_empty());
        assert!(Program::ptx("a.ptx", "").search().is_none());
    }

    #[test]
    fn an_option_that_is_kept_elsewhere_is_not_lost() {
        let named = |program: Program| program.option(OptionName::Name, "kernels/scale.cu");
        let program = named(Program::cxx("a.cu", ""));
        assert_eq!(program.name(), "scale.cu");
        assert_eq!(program.search().unwrap().source_dir, Some(Path::new("kernels/")));
        assert_eq!(named(Program::ptx("a.ptx", "")).name(), "kernels/scale.cu");
    }

    #[test]
    fn what_an_option_does_not_take_is_still_refused() {
        let refused = |program: &Program| {
            let description = program.description(Contents::none().with_search([1; 32]));
            description.arguments(description.compiler(false)).unwrap_err().option().map(ToOwned::to_owned)
        };
        for name in [OptionName::IncludePath, OptionName::PreInclude, OptionName::Name] {
            let program = Program::cxx("a.cu", "").arch("sm_90").option(name, true);
            assert_eq!(refused(&program).as_deref(), Some(name.as_str()));
        }
        let module = Program::nvvm("a.ll", "").arch("sm_90").option(OptionName::IncludePath, "include");
        assert_eq!(refused(&module).as_deref(), Some("include_path"));
    }
}
