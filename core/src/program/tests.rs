//! The promises of a program's key.

mod forms;
mod gates;
mod grid;
mod key;
mod parse;

use super::*;
use crate::key::Key;
use alloc::string::ToString;

/// A program of a language that can have it, and its compiler.
#[derive(Clone, Copy, Debug)]
struct Cell {
    code: CodeType,
    target: TargetType,
    compiler: Compiler,
}

impl Cell {
    const fn new(code: CodeType, target: TargetType, compiler: Compiler) -> Self {
        Self { code, target, compiler }
    }

    fn program(self, options: Options) -> Program<'static> {
        let options = match options.option(OptionName::Arch) {
            Some(_) => options,
            None => options.with(OptionName::Arch, "sm_90"),
        };
        Program::new(self.code, self.target, "source").with_options(options)
    }

    fn toolchain(self) -> Toolchain {
        Toolchain::found(self.compiler, "13.5").with_build("library", [7; 20])
    }

    fn key(self, program: &Program<'_>) -> Result<Key, Refusal> {
        Ok(program.fields(&self.toolchain())?.key())
    }
}

const CXX: Cell = Cell::new(CodeType::Cxx, TargetType::Cubin, Compiler::Nvrtc);
const PTX: Cell = Cell::new(CodeType::Ptx, TargetType::Cubin, Compiler::NvJitLink);
const LTOIR: Cell = Cell::new(CodeType::LtoIr, TargetType::Cubin, Compiler::NvJitLink);
const NVVM: Cell = Cell::new(CodeType::Nvvm, TargetType::Ptx, Compiler::Nvvm);

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
