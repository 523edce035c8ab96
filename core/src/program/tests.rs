//! The promises of a program's key.

mod forms;
mod gates;
mod grid;
mod key;

use super::*;
use crate::key::Key;
use alloc::string::ToString;

/// A language and what it is compiled to.
#[derive(Clone, Copy, Debug)]
struct Cell {
    code: CodeType,
    target: TargetType,
}

impl Cell {
    const fn new(code: CodeType, target: TargetType) -> Self {
        Self { code, target }
    }

    fn program(self, options: Options) -> Case {
        let options = match options.option(OptionName::Arch) {
            Some(_) => options,
            None => options.with(OptionName::Arch, "sm_90"),
        };
        Case::new(self.code, self.target, "source").with_options(options)
    }
}

const CXX: Cell = Cell::new(CodeType::Cxx, TargetType::Cubin);
const PTX: Cell = Cell::new(CodeType::Ptx, TargetType::Cubin);
const LTOIR: Cell = Cell::new(CodeType::LtoIr, TargetType::Cubin);
const NVVM: Cell = Cell::new(CodeType::Nvvm, TargetType::Ptx);

/// A program, and what is known besides.
#[derive(Clone, Debug)]
struct Case {
    program: Description<'static>,
    contents: Contents,
}

impl Case {
    fn new(code: CodeType, target: TargetType, source: &'static (impl AsRef<[u8]> + ?Sized)) -> Self {
        // All of them are known, which is that there are none.
        let headers = (code == CodeType::Cxx).then(FoundHeaders::default);
        let contents = Contents { headers, ..Contents::default() };
        Self { program: Description::new(code, target, source.as_ref()), contents }
    }

    fn with_name(mut self, name: &'static str) -> Self {
        self.program.name = name.into();
        self
    }

    fn with_options(mut self, options: Options) -> Self {
        self.program.options = options;
        self
    }

    fn with_name_expressions<const N: usize>(mut self, expressions: [&str; N]) -> Self {
        self.program.name_expressions.extend(expressions.map(String::from));
        self
    }

    fn with_extra_source(mut self, name: &'static str, source: &'static (impl AsRef<[u8]> + ?Sized)) -> Self {
        self.program.extra_sources.push((name.into(), source.as_ref().into()));
        self
    }

    fn with_contents(mut self, contents: Contents) -> Self {
        self.contents = contents;
        self
    }

    fn key(&self) -> Result<Key, Refusal> {
        self.key_with(&toolchain("13.5", &[("library", 7)]))
    }

    fn key_with(&self, toolchain: &Toolchain) -> Result<Key, Refusal> {
        Ok(self.program.prepare(&self.contents, toolchain)?.0.key())
    }

    fn arguments(&self) -> Result<Vec<String>, Refusal> {
        Ok(self.program.prepare(&self.contents, &Toolchain::default())?.1)
    }
}

fn toolchain(version: &str, builds: &[(&str, u8)]) -> Toolchain {
    let builds = builds.iter().map(|(library, byte)| ((*library).into(), Vec::from([*byte; 20])));
    Toolchain { version: version.into(), builds: builds.collect(), ..Toolchain::default() }
}

fn headers(headers: &[(&str, u8)], search: u8) -> Contents {
    let headers = headers.iter().map(|(name, byte)| ((*name).into(), [*byte; 32]));
    let found = FoundHeaders { headers: headers.collect(), search: [search; 32] };
    Contents { headers: Some(found), ..Contents::default() }
}

fn extra() -> Contents {
    Contents { extra: Some(digest()), ..Contents::default() }
}

/// The option that cuda.core calls so.
fn option(name: &str) -> OptionName {
    let found = OptionName::ALL.iter().find(|option| option.as_str() == name);
    *found.unwrap_or_else(|| panic!("{name} is no option"))
}

fn arch(arch: &str) -> Options {
    Options::new().with(OptionName::Arch, arch)
}

fn digest() -> ExtraDigest {
    ExtraDigest::new(b"a digest of all headers").expect("it is long enough")
}

/// All of them, or as many as Miri has the time for.
fn few<T>(all: impl IntoIterator<Item = T>) -> impl Iterator<Item = T> {
    all.into_iter().take(if cfg!(miri) { 2 } else { usize::MAX })
}
