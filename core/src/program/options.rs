//! Compiler options: the set of options of a program, and a table with all facts about each option.

use alloc::{
    borrow::{Cow, ToOwned},
    collections::BTreeMap,
    format,
    string::String,
    vec::Vec,
};
use core::fmt;

use super::{ptxas, refusal::Refusal};

/// A set of options with their values. The order in which they were set does not matter.
///
/// ```
/// use warmstart_core::program::{OptionName, Options};
///
/// let one = Options::new().with(OptionName::Arch, "sm_90").with(OptionName::MaxRegisterCount, 64);
/// let other = Options::new().with(OptionName::MaxRegisterCount, 64).with(OptionName::Arch, "sm_90");
/// assert_eq!(one, other);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Options(BTreeMap<OptionName, Value>);

impl Options {
    /// Creates an empty set.
    #[must_use]
    pub const fn new() -> Self {
        Self(BTreeMap::new())
    }

    /// Sets an option, and replaces the value that it had.
    #[must_use]
    pub fn with(mut self, name: OptionName, value: impl Into<Value>) -> Self {
        self.set(name, value);
        self
    }

    /// Sets an option, and replaces the value that it had. [`Description::prepare`](super::Description::prepare) checks the
    /// value.
    pub fn set(&mut self, name: OptionName, value: impl Into<Value>) {
        self.0.insert(name, value.into());
    }

    /// Returns the value of an option, if it has one.
    #[must_use]
    pub fn option(&self, name: OptionName) -> Option<&Value> {
        self.0.get(&name)
    }

    /// Returns whether the option is set to `true`.
    #[must_use]
    pub fn is_set(&self, name: OptionName) -> bool {
        self.option(name) == Some(&Value::Flag(true))
    }

    /// Iterates over the options that have a value, in the order of [`OptionName::ALL`].
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&OptionName, &Value)> {
        self.0.iter()
    }
}

/// The value of an option.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Value {
    /// True or false.
    Flag(bool),
    /// A number.
    Number(i64),
    /// A text. For an option that takes a list, a list of one item.
    Text(String),
    /// A list of texts.
    List(Vec<String>),
}

impl Value {
    /// Returns whether the value means the same as leaving the option out.
    pub(crate) fn is_nothing(&self, kind: Kind) -> bool {
        match self {
            Self::Flag(value) => kind == Kind::Flag && !value,
            Self::List(items) => kind.is_list() && items.is_empty(),
            Self::Number(_) | Self::Text(_) => false,
        }
    }

    /// Returns whether a text holds a NUL byte, at which a C string would end.
    pub(crate) fn has_nul(&self) -> bool {
        match self {
            Self::Flag(_) | Self::Number(_) => false,
            Self::Text(text) => text.contains('\0'),
            Self::List(items) => items.iter().any(|item| item.contains('\0')),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(value) => write!(f, "{value}"),
            Self::Number(value) => write!(f, "{value}"),
            Self::Text(value) => write!(f, "{value:?}"),
            Self::List(value) => write!(f, "{value:?}"),
        }
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Flag(value)
    }
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl From<$number> for Value {
            fn from(value: $number) -> Self {
                Self::Number(value.into())
            }
        }
    )*};
}

numbers!(u8, u16, u32, i32, i64);

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

impl From<String> for Value {
    fn from(value: String) -> Self {
        Self::Text(value)
    }
}

impl<T: Into<String>> From<Vec<T>> for Value {
    fn from(items: Vec<T>) -> Self {
        Self::List(items.into_iter().map(Into::into).collect())
    }
}

impl<T: Into<String>, const N: usize> From<[T; N]> for Value {
    fn from(items: [T; N]) -> Self {
        Self::List(items.into_iter().map(Into::into).collect())
    }
}

/// The compilers for CUDA.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Compiler {
    /// NVRTC, which compiles CUDA C++.
    Nvrtc,
    /// nvJitLink, which links PTX and LTO-IR.
    NvJitLink,
    /// NVVM, which compiles NVVM IR.
    Nvvm,
}

impl Compiler {
    /// Returns the name in a key.
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

/// Facts about an option.
#[derive(Debug)]
pub(crate) struct Row {
    /// The name that cuda.core has for it.
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// NVRTC's spelling, without a value. Empty if NVRTC does not have the option.
    pub(crate) spelling: &'static str,
    /// The treatment by each compiler, in the order of [`Compiler`].
    cells: [Cell; 3],
}

impl Row {
    pub(crate) const fn cell(&self, compiler: Compiler) -> Cell {
        self.cells[compiler as usize]
    }

    /// Checks that a value is of the option's kind and in its range.
    pub(crate) fn check(&self, value: &Value) -> Result<(), Refusal> {
        match (self.kind, value) {
            (Kind::Flag | Kind::Switch | Kind::On, Value::Flag(_)) | (Kind::Text, Value::Text(_)) => Ok(()),
            (Kind::Number(least, most), Value::Number(number)) if (least..=most).contains(number) => Ok(()),
            (Kind::Number(least, most), Value::Number(number)) => Err(Refusal::malformed(
                self.name,
                format!("{number} is not in the range from {least} to {most}"),
            )),
            (Kind::Word(words), Value::Text(word)) => self.check_word(words, word),
            (kind, Value::Text(item)) if kind.is_list() => self.check_item(item),
            (Kind::Numbers, Value::Number(number)) => self.check_item(&format!("{number}")),
            (kind, Value::List(items)) if kind.is_list() => {
                items.iter().try_for_each(|item| self.check_item(item))
            }
            (kind, _) => {
                Err(Refusal::malformed(self.name, format!("it is {value}, but takes {}", kind.what())))
            }
        }
    }

    fn check_item(&self, item: &str) -> Result<(), Refusal> {
        match self.kind {
            Kind::Words(words) => self.check_word(words, item),
            Kind::Numbers if !is_number(item) => {
                Err(Refusal::malformed(self.name, format!("{item:?} is not a positive number")))
            }
            Kind::Ptxas => ptxas::check(self.name, item),
            _ if item.is_empty() => Err(Refusal::malformed(self.name, "an item is empty; leave it out")),
            _ => Ok(()),
        }
    }

    fn check_word(&self, words: &[&str], word: &str) -> Result<(), Refusal> {
        if words.contains(&word) {
            return Ok(());
        }
        Err(Refusal::malformed(self.name, format!("{word:?} is not one of {}", words.join(", "))))
    }

    /// Appends the arguments that pass the value to a compiler.
    pub(crate) fn spell(&self, rest: &mut Vec<Cow<'static, str>>, cell: Cell, value: &Value) {
        let long = self.spelling;
        let before = match (cell, value) {
            (Cell::Apart, _) => return,
            (Cell::Either(yes, no), Value::Flag(is_yes)) => {
                let argument = if *is_yes { yes } else { no };
                rest.extend((!argument.is_empty()).then(|| argument.into()));
                return;
            }
            (_, Value::Flag(is_yes)) => {
                rest.extend(match self.kind {
                    Kind::Switch => Some(format!("{long}={is_yes}").into()),
                    Kind::On => is_yes.then(|| format!("{long}=on").into()),
                    _ => Some(long.into()),
                });
                return;
            }
            (Cell::With(before), _) => before.to_owned(),
            _ => [long, "="].concat(),
        };
        let mut item = |item: &str| match self.kind {
            // ptxas fails on an empty argument.
            Kind::Ptxas if item.is_empty() => {}
            _ => rest.push([&before, item].concat().into()),
        };
        match value {
            Value::Number(number) => item(&format!("{number}")),
            Value::Text(text) => item(text),
            Value::List(items) => items.iter().for_each(|text| item(text)),
            Value::Flag(_) => {}
        }
    }
}

/// The values that an option takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// True or false. False means the same as leaving the option out.
    Flag,
    /// True or false, both of which differ from leaving the option out.
    Switch,
    /// As a switch, but NVRTC only takes "on"; for false the argument is left out.
    On,
    /// A number from the first to the second.
    Number(i64, i64),
    /// Any text.
    Text,
    /// One of these words.
    Word(&'static [&'static str]),
    /// A list of texts that are not empty.
    List,
    /// A list of these words.
    Words(&'static [&'static str]),
    /// A list of positive numbers.
    Numbers,
    /// A list of arguments for ptxas.
    Ptxas,
}

impl Kind {
    pub(crate) const fn is_list(self) -> bool {
        matches!(self, Self::List | Self::Words(_) | Self::Numbers | Self::Ptxas)
    }

    /// Describes the values for error messages.
    pub(crate) const fn what(self) -> &'static str {
        match self {
            Self::Flag | Self::Switch | Self::On => "true or false",
            Self::Number(..) => "a number",
            Self::Text | Self::Word(_) => "a text",
            Self::List | Self::Words(_) | Self::Numbers | Self::Ptxas => "one item or a list of items",
        }
    }
}

/// How a compiler treats an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cell {
    /// Left out: it does not change the binary, or does not apply to this compiler.
    Ignored,
    Refused,
    /// Passed in NVRTC's long spelling.
    Spelt,
    /// Passed as the first argument for true and as the second for false. An empty one is left out.
    Either(&'static str, &'static str),
    /// Passed as this text followed by the value, once for each item of a list.
    With(&'static str),
    /// Handled apart: by a field of the key of its own, or by an argument that follows from several options.
    Apart,
}

macro_rules! table {
    ($(
        $option:ident $name:literal, $what:literal;
        $kind:expr; $spelling:expr; $cells:expr;
    )*) => {
        /// The options, named as in cuda.core.
        ///
        /// Options that write files, such as `time`, and options for precompiled headers are left out: a hit would write no
        /// file, and saves the build that a precompiled header shortens. To use them, call the compiler itself.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum OptionName {
            $(
                #[doc = concat!("`", $name, "`: ", $what, ".")]
                $option,
            )*
        }

        impl OptionName {
            /// All options, in the order in which compilers get them.
            pub const ALL: &'static [Self] = &[$(Self::$option),*];
        }

        static TABLE: &[Row] = &[$(Row {
            name: $name,
            kind: $kind,
            spelling: $spelling,
            cells: $cells,
        }),*];
    };
}

use Cell::{Apart, Either, Ignored, Refused, Spelt, With};
use Kind::{Flag, List, Number, Numbers, On, Ptxas, Switch, Text, Word, Words};

/// Options that only NVRTC takes.
const NVRTC: [Cell; 3] = [Spelt, Ignored, Refused];

const fn flag(argument: &'static str) -> Cell {
    Either(argument, "")
}

const INT: i64 = i32::MAX as i64;
const STANDARDS: Kind = Word(&["c++03", "c++11", "c++14", "c++17", "c++20", "c++23"]);
const WARNINGS: Kind = Words(&["all-warnings", "reorder", "deprecated-declarations", "conversion"]);

// The columns: kind; spelling of NVRTC; how NVRTC, nvJitLink and NVVM treat it.
table! {
    Arch "arch", "the architecture, such as `sm_90a` or `compute_90`";
        Text; "--gpu-architecture"; [Apart; 3];
    RelocatableDeviceCode "relocatable_device_code", "code that can be linked with other code";
        Switch; "--relocatable-device-code"; NVRTC;
    ExtensibleWholeProgram "extensible_whole_program", "extensible compilation of a whole program";
        Flag; "--extensible-whole-program"; NVRTC;
    Debug "debug", "debug information";
        Flag; "--device-debug"; [Spelt, flag("-g"), flag("-g")];
    Lineinfo "lineinfo", "line numbers";
        Flag; "--generate-line-info"; [Spelt, flag("-lineinfo"), Refused];
    DeviceCodeOptimize "device_code_optimize", "whether code is optimised";
        On; "--dopt"; [Spelt, Ignored, Either("-opt=3", "-opt=0")];
    PtxasOptions "ptxas_options", "arguments of ptxas";
        Ptxas; "--ptxas-options"; [Spelt, With("-Xptxas="), Refused];
    MaxRegisterCount "max_register_count", "the most registers of a function";
        Number(0, INT); "--maxrregcount"; [Spelt, With("-maxrregcount="), Refused];
    Ftz "ftz", "whether denormal numbers become zero";
        Switch; "--ftz"; [Spelt, Either("-ftz=1", "-ftz=0"), Either("-ftz=1", "-ftz=0")];
    PrecSqrt "prec_sqrt", "whether square roots are rounded to the nearest";
        Switch; "--prec-sqrt";
        [Spelt, Either("-prec-sqrt=1", "-prec-sqrt=0"), Either("-prec-sqrt=1", "-prec-sqrt=0")];
    PrecDiv "prec_div", "whether quotients are rounded to the nearest";
        Switch; "--prec-div";
        [Spelt, Either("-prec-div=1", "-prec-div=0"), Either("-prec-div=1", "-prec-div=0")];
    Fma "fma", "whether a product and a sum are contracted";
        Switch; "--fmad"; [Spelt, Either("-fma=1", "-fma=0"), Either("-fma=1", "-fma=0")];
    UseFastMath "use_fast_math", "fast mathematics";
        Flag; "--use_fast_math"; NVRTC;
    ExtraDeviceVectorization "extra_device_vectorization", "more vectorisation";
        Flag; "--extra-device-vectorization"; NVRTC;
    LinkTimeOptimization "link_time_optimization", "LTO-IR instead of code, and linking that optimises";
        Flag; "--dlink-time-opt"; [Spelt, Apart, Refused];
    GenOptLto "gen_opt_lto", "LTO-IR that is optimised before";
        Flag; "--gen-opt-lto"; NVRTC;
    JumpTableDensity "jump_table_density", "how dense the cases of a jump table are, in percent";
        Number(0, 101); "--jump-table-density";
        [Spelt, With("-jump-table-density="), With("-jump-table-density=")];
    DeviceStackProtector "device_stack_protector", "whether stacks have canaries";
        Switch; "--device-stack-protector";
        [Spelt, flag("-device-stack-protector"), Refused];
    DefineMacro "define_macro", "macros, as `NAME` or `NAME=VALUE`";
        List; "--define-macro"; NVRTC;
    UndefineMacro "undefine_macro", "macros that are not defined any more";
        List; "--undefine-macro"; NVRTC;
    NoSourceInclude "no_source_include", "no headers from beside the source";
        Flag; "--no-source-include"; [Apart, Ignored, Refused];
    Std "std", "the version of C++";
        STANDARDS; "--std"; NVRTC;
    BuiltinMoveForward "builtin_move_forward", "whether `std::move` and `std::forward` are built in";
        Switch; "--builtin-move-forward"; NVRTC;
    BuiltinInitializerList "builtin_initializer_list", "whether `std::initializer_list` is built in";
        Switch; "--builtin-initializer-list"; NVRTC;
    DisableWarnings "disable_warnings", "no warnings";
        Flag; "--disable-warnings"; NVRTC;
    WarningAsError "warning_as_error", "warnings that are errors";
        WARNINGS; "--warning-as-error"; NVRTC;
    FmaxErrors "fmax_errors", "the errors after which compiling ends";
        Number(1, INT); "--fmax-errors"; NVRTC;
    Restrict "restrict", "pointers of kernels that never alias";
        Flag; "--restrict"; NVRTC;
    DeviceAsDefaultExecutionSpace "device_as_default_execution_space", "functions for the device where nothing is said";
        Flag; "--device-as-default-execution-space"; NVRTC;
    DeviceInt128 "device_int128", "integers of 128 bits";
        Flag; "--device-int128"; NVRTC;
    OptimizationInfo "optimization_info", "reports of what was optimised";
        Word(&["inline"]); "--optimization-info"; NVRTC;
    NoDisplayErrorNumber "no_display_error_number", "warnings without numbers";
        Flag; "--no-display-error-number"; NVRTC;
    DiagError "diag_error", "the numbers of messages that are errors";
        Numbers; "--diag-error"; NVRTC;
    DiagSuppress "diag_suppress", "the numbers of messages that are left out";
        Numbers; "--diag-suppress"; NVRTC;
    DiagWarn "diag_warn", "the numbers of messages that are warnings";
        Numbers; "--diag-warn"; NVRTC;
    BriefDiagnostics "brief_diagnostics", "whether messages leave the source out";
        Switch; "--brief-diagnostics"; NVRTC;
    SplitCompile "split_compile", "the threads that optimise";
        Number(0, INT); "--split-compile"; [Spelt, With("-split-compile="), Refused];
    FdeviceSyntaxOnly "fdevice_syntax_only", "only a check of the syntax";
        Flag; "--fdevice-syntax-only"; NVRTC;
    Minimal "minimal", "fewer features, for less time";
        Flag; "--minimal"; NVRTC;
    NoCache "no_cache", "none of the compiler's own caches";
        Flag; "--no-cache"; [Spelt, flag("-no-cache"), Refused];
    DeviceFloat128 "device_float128", "numbers of 128 bits";
        Flag; "--device-float128"; NVRTC;
    FrandomSeed "frandom_seed", "what replaces random numbers in names";
        Text; "--frandom-seed"; NVRTC;
    OfastCompile "ofast_compile", "how much speed of the code is given up for less time";
        Word(&["0", "min", "mid", "max"]); "--Ofast-compile"; NVRTC;
    UseLibdevice "use_libdevice", "NVIDIA's library of mathematical functions";
        Flag; ""; [Refused, Refused, Apart];
    NumbaDebug "numba_debug", "debug information as Numba expects it";
        Flag; "--numba-debug"; [Spelt, Ignored, flag("-numba-debug")];
}

impl OptionName {
    /// Returns the name that cuda.core has for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.row().name
    }

    pub(crate) fn row(self) -> &'static Row {
        &TABLE[self as usize]
    }
}

impl fmt::Display for OptionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Returns whether a text is a positive number without leading zeros.
fn is_number(text: &str) -> bool {
    (1..=10).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0')
}
