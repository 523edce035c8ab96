//! Programs for CUDA: from a description of what is compiled to a key, or to a refusal.
//!
//! ```
//! use warmstart_core::program::{CodeType, Compiler, OptionName, Options, Program, TargetType, Toolchain};
//!
//! let options = Options::new().with(OptionName::Arch, "sm_90").with(OptionName::Std, "c++20");
//! let program = Program::new(CodeType::Cxx, TargetType::Cubin, "__global__ void noop() {}").with_options(options);
//! assert_eq!(program.arguments(Compiler::Nvrtc)?, ["--gpu-architecture=sm_90", "--std=c++20"]);
//!
//! let toolchain = Toolchain::found(Compiler::Nvrtc, "13.5").with_build("libnvrtc.so.13", [0x5a; 20]);
//! let key = program.fields(&toolchain)?.key();
//!
//! let timed = Options::new().with(OptionName::Arch, "sm_90").with(OptionName::Time, "times.csv");
//! let refusal = program.clone().with_options(timed).fields(&toolchain).unwrap_err();
//! assert!(refusal.is_side_effect());
//! assert_eq!(refusal.option(), Some("time"));
//! # Ok::<(), warmstart_core::program::Refusal>(())
//! ```
//!
//! A key holds what decides the binary, as the compiler sees it: options that it ignores are not in it, and
//! what it would read without the key's knowledge is refused. Nothing is probed here: what is known of the
//! compiler is an argument.
//!
//! | refused | because |
//! |---|---|
//! | `create_pch`, `time`, `fdevice_time_trace`, `use_bundled_headers` | they write files, which a hit would not do |
//! | `include_path`, `pre_include`, a name with a directory, a source that includes | they reach headers; unless their [`Contents`] are given, or an [`ExtraDigest`] |
//! | `pch`, `use_pch`, `pch_dir` | they reach precompiled headers; unless an extra digest is given |
//! | `use_libdevice` | it reaches a file; unless its contents or an extra digest are given |
//! | `ptxas_options` that are not known to reach no file | they could, or choose another architecture |
//! | options that the compiler does not take, or values that they do not take | nothing would be compiled |

mod arguments;
mod code;
mod contents;
mod options;
mod ptxas;
mod refusal;
#[cfg(test)]
mod tests;

pub use code::{CodeType, Compiler, NameExpression, Source, TargetType};
pub use contents::{Contents, ExtraDigest, Header, Probe, Toolchain};
pub use options::{OptionName, Options, Value};
pub use refusal::Refusal;

use alloc::{borrow::Cow, format, string::String, vec::Vec};

use crate::{includes::Scan, key::KeyFields};
use arguments::Arguments;

/// The domain of the keys, and the number that is raised when the meaning of the fields changes.
const DOMAIN: &str = "warmstart.cuda";
const SCHEMA: u32 = 1;

/// What a program is called that has no name.
const DEFAULT_NAME: &str = "default_program";

/// A program, and what it shall be compiled to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program<'a> {
    code: CodeType,
    target: TargetType,
    source: Source<'a>,
    name: Option<Cow<'a, str>>,
    options: Options,
    /// Sorted, each once.
    name_expressions: Vec<NameExpression>,
    extra_sources: Vec<(Cow<'a, str>, Source<'a>)>,
    contents: Contents<'a>,
}

impl<'a> Program<'a> {
    /// A program without options.
    pub fn new(code: CodeType, target: TargetType, source: impl Into<Source<'a>>) -> Self {
        Self {
            code,
            target,
            source: source.into(),
            name: None,
            options: Options::new(),
            name_expressions: Vec::new(),
            extra_sources: Vec::new(),
            contents: Contents::none(),
        }
    }

    /// For this target.
    #[must_use]
    pub const fn with_target(mut self, target: TargetType) -> Self {
        self.target = target;
        self
    }

    /// Under this name in messages and in debug information. It comes before one among the options.
    #[must_use]
    pub fn with_name(mut self, name: impl Into<Cow<'a, str>>) -> Self {
        self.set_name(name);
        self
    }

    /// Gives it this name.
    pub fn set_name(&mut self, name: impl Into<Cow<'a, str>>) {
        self.name = Some(name.into());
    }

    /// With these options.
    #[must_use]
    pub fn with_options(mut self, options: Options) -> Self {
        self.options = options;
        self
    }

    /// With these expressions whose lowered names are asked for. Neither their order nor how often one is
    /// given counts.
    #[must_use]
    pub fn with_name_expressions<T: Into<NameExpression>>(
        mut self,
        expressions: impl IntoIterator<Item = T>,
    ) -> Self {
        self.name_expressions.extend(expressions.into_iter().map(Into::into));
        self.name_expressions.sort_unstable();
        self.name_expressions.dedup();
        self
    }

    /// With a module besides the source. The order of modules counts.
    #[must_use]
    pub fn with_extra_source(mut self, name: impl Into<Cow<'a, str>>, source: impl Into<Source<'a>>) -> Self {
        self.extra_sources.push((name.into(), source.into()));
        self
    }

    /// With what is known of what the compiler reads besides.
    #[must_use]
    pub fn with_contents(mut self, contents: Contents<'a>) -> Self {
        self.contents = contents;
        self
    }

    /// The language.
    #[must_use]
    pub const fn code(&self) -> CodeType {
        self.code
    }

    /// What it is compiled to.
    #[must_use]
    pub const fn target(&self) -> TargetType {
        self.target
    }

    /// The source.
    #[must_use]
    pub const fn source(&self) -> &Source<'a> {
        &self.source
    }

    /// The name that the compiler is given.
    #[must_use]
    pub fn name(&self) -> &str {
        match (&self.name, self.options.option(OptionName::Name)) {
            (Some(name), _) => name,
            (None, Some(Value::Text(name))) => name,
            _ => DEFAULT_NAME,
        }
    }

    /// The options.
    #[must_use]
    pub const fn options(&self) -> &Options {
        &self.options
    }

    /// The options, to be changed.
    pub const fn options_mut(&mut self) -> &mut Options {
        &mut self.options
    }

    /// The expressions whose lowered names are asked for, sorted.
    #[must_use]
    pub fn name_expressions(&self) -> &[NameExpression] {
        &self.name_expressions
    }

    /// The modules besides the source, with their names.
    #[must_use]
    pub fn extra_sources(&self) -> &[(Cow<'a, str>, Source<'a>)] {
        &self.extra_sources
    }

    /// The arguments that the compiler is given, the architecture first.
    ///
    /// With known headers they name no directories and no headers to read before the source: whoever compiles
    /// hands the compiler these headers, under names of their own.
    ///
    /// # Errors
    /// The program is refused.
    pub fn arguments(&self, compiler: Compiler) -> Result<Vec<String>, Refusal> {
        Ok(self.checked(compiler, &self.contents)?.into_list(compiler))
    }

    /// What the key is made of. `docs/format.md` describes the fields.
    ///
    /// # Errors
    /// The program is refused.
    pub fn fields<'k>(&'k self, toolchain: &'k Toolchain) -> Result<KeyFields<'k>, Refusal> {
        Ok(self.prepare(&self.contents, toolchain)?.0)
    }

    /// What the key is made of, and the arguments that the compiler is given, with these contents in place of the program's
    /// own.
    ///
    /// # Errors
    /// The program is refused.
    pub fn prepare<'k>(
        &'k self,
        contents: &'k Contents<'_>,
        toolchain: &'k Toolchain,
    ) -> Result<(KeyFields<'k>, Vec<String>), Refusal> {
        let compiler = toolchain.compiler();
        let arguments = self.checked(compiler, contents)?;
        let name = self.name();
        let mut fields = KeyFields::new(DOMAIN, SCHEMA)
            // Lists of entries show the note: a name alone would be that of several.
            .digest("source", self.source.as_bytes(), format!("{name} {}", arguments.arch))
            .text("code type", self.code.as_str())
            .text("target type", self.target.as_str())
            .text("arch", arguments.arch.clone())
            .list("options", arguments.rest.clone())
            .text("name", name);
        if !self.name_expressions.is_empty() {
            fields =
                fields.list("name expressions", self.name_expressions.iter().map(NameExpression::tagged));
        }
        fields = toolchain.fields(fields);
        if self.code == CodeType::Cxx
            && let Some(search) = contents.search()
        {
            for header in contents.headers() {
                fields = fields.bytes(format!("header {}", header.name), &header.digest[..]);
            }
            fields = fields.bytes("header search", &search[..]);
        }
        if self.options.is_set(OptionName::UseLibdevice) {
            fields = match contents.libdevice() {
                Some(digest) => fields.bytes("libdevice", &digest[..]),
                None => fields.text("libdevice", "in the extra digest"),
            };
        }
        for (name, source) in &self.extra_sources {
            fields = fields.digest(format!("extra source {name}"), source.as_bytes(), &**name);
        }
        if let Some(extra) = contents.extra() {
            fields = fields.bytes("extra digest", extra.as_bytes());
        }
        Ok((fields, arguments.into_list(compiler)))
    }

    /// All that must hold of a program before it is compiled or looked up.
    fn checked(&self, compiler: Compiler, contents: &Contents<'_>) -> Result<Arguments, Refusal> {
        let Self { code, target, .. } = *self;
        if !code.targets().contains(&target) {
            return Err(Refusal::unsupported(
                "target_type",
                format!("{code} is not compiled to {target}; choose one of {}", names(code.targets())),
            ));
        }
        if compiler != code.compiler() {
            return Err(Refusal::unsupported("code_type", format!("{compiler} does not compile {code}")));
        }
        self.check_source()?;
        self.check_extra_sources()?;
        self.check_name_expressions()?;
        let arguments = Arguments::new((code, target), &self.options, contents)?;
        if code == CodeType::Cxx && !contents.has_headers_of(code) && contents.extra().is_none() {
            self.check_includes()?;
        }
        Ok(arguments)
    }

    fn check_source(&self) -> Result<(), Refusal> {
        match (&self.source, self.code) {
            (Source::Bytes(_), CodeType::Cxx | CodeType::Ptx) => Err(Refusal::malformed(
                "source",
                format!("it is bytes, and {} is text; decode it before", self.code),
            )),
            (Source::Text(text), _) if has_nul(text.as_bytes()) => {
                Err(nul("source", "; a binary format is given as bytes"))
            }
            _ if has_nul(self.name().as_bytes()) => Err(nul(OptionName::Name.as_str(), "")),
            _ => Ok(()),
        }
    }

    /// Headers are found in the directory of the name, beside the source, in the current directory and by absolute names,
    /// without any option.
    fn check_includes(&self) -> Result<(), Refusal> {
        let name = self.name();
        if name.contains(['/', '\\']) && !self.options.is_set(OptionName::NoSourceInclude) {
            return Err(Refusal::outside(
                OptionName::Name.as_str(),
                format!(
                    "{name:?} has a directory, where the compiler looks for headers that the key does not know; give \
                     their contents or an extra digest, or set no_source_include"
                ),
            ));
        }
        let Source::Text(text) = &self.source else { return Ok(()) };
        let standard = match self.options.option(OptionName::Std) {
            Some(Value::Text(standard)) => Some(standard.as_str()),
            _ => None,
        };
        let scan = Scan::of(text.as_bytes());
        if scan.reaches_nothing() && scan.trouble(standard).is_none() {
            return Ok(());
        }
        Err(Refusal::outside(
            "source",
            "it may include headers that the key does not know; give their contents, or an extra digest of them",
        ))
    }

    fn check_extra_sources(&self) -> Result<(), Refusal> {
        let option = OptionName::ExtraSources.as_str();
        if !self.extra_sources.is_empty() && !matches!(self.code, CodeType::Nvvm | CodeType::LtoIr) {
            return Err(Refusal::unsupported(
                option,
                format!("only nvvm and ltoir have them, not {}; leave them out", self.code),
            ));
        }
        let has_nul = |(name, source): &(Cow<'_, str>, Source<'_>)| {
            has_nul(name.as_bytes()) || matches!(source, Source::Text(text) if has_nul(text.as_bytes()))
        };
        if self.extra_sources.iter().any(has_nul) { Err(nul(option, "")) } else { Ok(()) }
    }

    fn check_name_expressions(&self) -> Result<(), Refusal> {
        let option = "name_expressions";
        if self.name_expressions.is_empty() {
            return Ok(());
        }
        if self.code != CodeType::Cxx {
            return Err(Refusal::unsupported(
                option,
                format!("only c++ has them, not {}; leave them out", self.code),
            ));
        }
        if self.name_expressions.iter().any(|expression| has_nul(expression.as_bytes())) {
            return Err(nul(option, ""));
        }
        if self.name_expressions.iter().any(|expression| expression.as_bytes().is_empty()) {
            return Err(Refusal::malformed(option, "one is empty; leave it out"));
        }
        // The compiler reads it as a part of the source.
        let is_closed = |expression: &NameExpression| {
            let scan = Scan::of(expression.as_bytes());
            let is_line = !expression.as_bytes().iter().any(|byte| matches!(byte, b'\n' | b'\r'));
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

fn names(targets: &[TargetType]) -> String {
    targets.iter().map(|target| target.as_str()).collect::<Vec<_>>().join(", ")
}

fn nul(option: &'static str, besides: &str) -> Refusal {
    Refusal::malformed(
        option,
        format!("it has a NUL byte, at which the compiler would cut it; take it out{besides}"),
    )
}

/// Whether there is a NUL byte, at which a C string would end. Pieces are looked at without an early end, by vectors.
fn has_nul(bytes: &[u8]) -> bool {
    bytes.chunks(64).any(|piece| piece.iter().fold(false, |any, byte| any | (*byte == 0)))
}
