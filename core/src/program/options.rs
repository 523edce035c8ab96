//! Options of a program, as a set, and the table of them: all that is known of an option stands in its row.

use alloc::{borrow::ToOwned, format, string::String, vec::Vec};
use core::{fmt, slice};

use super::{
    code::Compiler,
    refusal::{Refusal, shown},
};

/// Spellings of an option together with a value of it.
const FIXED: [(&str, OptionName, bool); 6] = [
    ("--device-c", OptionName::RelocatableDeviceCode, true),
    ("-dc", OptionName::RelocatableDeviceCode, true),
    ("--device-w", OptionName::RelocatableDeviceCode, false),
    ("-dw", OptionName::RelocatableDeviceCode, false),
    ("--display-error-number", OptionName::NoDisplayErrorNumber, false),
    ("-err-no", OptionName::NoDisplayErrorNumber, false),
];

/// The only spellings whose value may follow without anything between.
const JOINED: [(&str, OptionName); 3] =
    [("-D", OptionName::DefineMacro), ("-U", OptionName::UndefineMacro), ("-I", OptionName::IncludePath)];

/// Options with their values. In which order they were set does not show.
///
/// ```
/// use warmstart_core::program::{OptionName, Options};
///
/// let one = Options::new().with(OptionName::Arch, "sm_90").with(OptionName::MaxRegisterCount, 64);
/// let other = Options::parse(["-maxrregcount=64", "--gpu-architecture", "sm_90"])?;
/// assert_eq!(one, other);
/// # Ok::<(), warmstart_core::program::Refusal>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Options {
    /// In the order of the table, each name once.
    set: Vec<(OptionName, Value)>,
}

impl Options {
    /// None.
    #[must_use]
    pub const fn new() -> Self {
        Self { set: Vec::new() }
    }

    /// These, and this one with this value instead of the one that it had.
    #[must_use]
    pub fn with(mut self, name: OptionName, value: impl Into<Value>) -> Self {
        self.set(name, value);
        self
    }

    /// Gives an option a value, and takes away the one that it had. Whether it is of the right kind is said
    /// when the arguments or the key are made.
    pub fn set(&mut self, name: OptionName, value: impl Into<Value>) {
        let value = value.into();
        match self.place(name) {
            Ok(at) => self.set[at].1 = value,
            Err(at) => self.set.insert(at, (name, value)),
        }
    }

    /// Adds to the list of an option.
    pub fn append(&mut self, name: OptionName, item: impl Into<String>) {
        let mut items = match self.remove(name) {
            Some(Value::List(items)) => items,
            Some(Value::Text(item)) => Vec::from([item]),
            _ => Vec::new(),
        };
        items.push(item.into());
        self.set(name, items);
    }

    /// The value of an option, if it has one.
    #[must_use]
    pub fn option(&self, name: OptionName) -> Option<&Value> {
        self.place(name).ok().map(|at| &self.set[at].1)
    }

    /// Whether the option is given, and is yes.
    #[must_use]
    pub fn is_set(&self, name: OptionName) -> bool {
        self.option(name) == Some(&Value::Flag(true))
    }

    /// Takes the value of an option away.
    pub fn remove(&mut self, name: OptionName) -> Option<Value> {
        self.place(name).ok().map(|at| self.set.remove(at).1)
    }

    /// Whether no option has a value.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.set.is_empty()
    }

    /// The options that these arguments of NVRTC stand for: long or short, with the value in the same
    /// argument or in the next. Of an option that is given twice the last value counts; lists grow.
    ///
    /// # Errors
    /// An argument is no option, or has a value that it does not take, or contradicts another.
    ///
    /// ```
    /// use warmstart_core::program::{OptionName, Options, Value};
    ///
    /// let options = Options::parse(["-DN=4", "--define-macro", "M", "-std=c++17", "--std=c++20"])?;
    /// assert_eq!(options.option(OptionName::DefineMacro), Some(&Value::from(["N=4", "M"])));
    /// assert_eq!(options.option(OptionName::Std), Some(&Value::from("c++20")));
    /// # Ok::<(), warmstart_core::program::Refusal>(())
    /// ```
    pub fn parse<T: AsRef<str>>(arguments: impl IntoIterator<Item = T>) -> Result<Self, Refusal> {
        let mut arguments = arguments.into_iter();
        let mut options = Options::new();
        while let Some(argument) = arguments.next() {
            let argument = argument.as_ref();
            if argument.contains('\0') {
                return Err(Refusal::malformed(
                    shown(argument),
                    "it has a NUL byte, at which the compiler would cut it",
                ));
            }
            if let Some((_, option, value)) = FIXED.iter().find(|(spelling, ..)| *spelling == argument) {
                set_flag(&mut options, *option, *value)?;
                continue;
            }
            let (option, value) = split(argument)?;
            let kind = option.row().kind;
            if kind == Kind::Flag && option != OptionName::UseBundledHeaders {
                if value.is_some() {
                    return Err(Refusal::malformed(option.as_str(), "as an argument it takes no value"));
                }
                set_flag(&mut options, option, true)?;
                continue;
            }
            let following;
            let value = match value {
                Some(value) => value,
                None => {
                    following = arguments.next().ok_or_else(|| {
                        Refusal::malformed(
                            option.as_str(),
                            format!("nothing follows {argument}, which takes a value"),
                        )
                    })?;
                    following.as_ref()
                }
            };
            take(&mut options, option, value)?;
        }
        Ok(options)
    }

    fn place(&self, name: OptionName) -> Result<usize, usize> {
        self.set.binary_search_by_key(&name, |(name, _)| *name)
    }
}

/// The options that have a value, in the order of [`OptionName::ALL`].
impl<'a> IntoIterator for &'a Options {
    type Item = &'a (OptionName, Value);
    type IntoIter = slice::Iter<'a, (OptionName, Value)>;

    fn into_iter(self) -> Self::IntoIter {
        self.set.iter()
    }
}

impl<V: Into<Value>> FromIterator<(OptionName, V)> for Options {
    fn from_iter<I: IntoIterator<Item = (OptionName, V)>>(options: I) -> Self {
        options.into_iter().fold(Self::new(), |all, (name, value)| all.with(name, value))
    }
}

/// The value of an option.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Value {
    /// Yes or no.
    Flag(bool),
    /// A number.
    Number(i64),
    /// A text; of an option that takes a list it is the only item.
    Text(String),
    /// A list of texts.
    List(Vec<String>),
}

impl Value {
    /// Whether an option of this kind with this value is as good as not given.
    pub(crate) fn is_nothing(&self, kind: Kind) -> bool {
        match self {
            Self::Flag(value) => kind == Kind::Flag && !value,
            Self::List(items) => kind.is_list() && items.is_empty(),
            Self::Number(_) | Self::Text(_) => false,
        }
    }

    /// Whether a text in it holds a NUL byte, at which a C string would end.
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

/// What is known of an option.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) option: OptionName,
    /// As cuda.core calls it.
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// How NVRTC's arguments spell it, without a value.
    pub(crate) spellings: &'static [&'static str],
    /// What each compiler makes of it, in the order of [`Compiler::ALL`].
    cells: [Cell; 3],
    pub(crate) gate: Gate,
}

impl Row {
    pub(crate) const fn cell(&self, compiler: Compiler) -> Cell {
        self.cells[compiler as usize]
    }
}

/// What values an option takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Given or not: no is the same as not given.
    Flag,
    /// Yes or no, which differ from not given.
    Switch,
    /// As a switch, but as an argument it is only ever "on".
    On,
    /// A number from the first to the second.
    Number(i64, i64),
    /// Any text.
    Text,
    /// One of these.
    Word(&'static [&'static str]),
    /// Texts that are not empty.
    List,
    /// Some of these.
    Words(&'static [&'static str]),
    /// Positive numbers.
    Numbers,
    /// Arguments of ptxas.
    Ptxas,
    /// Modules, which are no value of an option.
    Sources,
}

impl Kind {
    pub(crate) const fn is_list(self) -> bool {
        matches!(self, Self::List | Self::Words(_) | Self::Numbers | Self::Ptxas)
    }

    /// What it takes, for people.
    pub(crate) const fn what(self) -> &'static str {
        match self {
            Self::Flag | Self::Switch | Self::On => "true or false",
            Self::Number(..) => "a number",
            Self::Text | Self::Word(_) => "a text",
            Self::List | Self::Words(_) | Self::Numbers | Self::Ptxas => "one item or a list of items",
            Self::Sources => "no value: add the modules to the program",
        }
    }
}

/// What a compiler makes of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cell {
    /// It does not change the binary, or does not reach this compiler.
    Ignored,
    Refused,
    /// It takes what NVRTC's arguments have, in the long spelling.
    Spelt,
    /// It takes one of these, for yes and for no; an empty one is none.
    Either(&'static str, &'static str),
    /// It takes this with the value behind it; of a list, once for each item.
    With(&'static str),
    /// It stands elsewhere: in a field of its own, or at a place of its own among the arguments.
    Apart,
}

/// What must hold for an option to be accepted at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gate {
    Open,
    /// Never: it does this.
    SideEffect(&'static str),
    /// What is read must be in the key: as headers.
    Headers,
    /// As libdevice.
    Libdevice,
    /// As a digest of the caller.
    Digest,
}

macro_rules! table {
    ($(
        $option:ident $name:literal, $what:literal;
        $kind:expr; $spellings:expr; $cells:expr $(=> $gate:expr)?;
    )*) => {
        /// An option of a program, under the name that cuda.core has for it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum OptionName {
            $(
                #[doc = concat!("`", $name, "`: ", $what, ".")]
                $option,
            )*
        }

        impl OptionName {
            /// All of them, in the order in which compilers get them.
            pub const ALL: &'static [Self] = &[$(Self::$option),*];
        }

        static TABLE: &[Row] = &[$(Row {
            option: OptionName::$option,
            name: $name,
            kind: $kind,
            spellings: &$spellings,
            cells: $cells,
            gate: [$($gate,)? Gate::Open][0],
        }),*];
    };
}

use Cell::{Apart, Either, Ignored, Refused, Spelt, With};
use Gate::{Digest, Headers, Libdevice, SideEffect};
use Kind::{Flag, List, Number, Numbers, On, Ptxas, Sources, Switch, Text, Word, Words};

/// What only NVRTC takes.
const NVRTC: [Cell; 3] = [Spelt, Ignored, Refused];

const fn flag(argument: &'static str) -> Cell {
    Either(argument, "")
}

const INT: i64 = i32::MAX as i64;
const STANDARDS: Kind = Word(&["c++03", "c++11", "c++14", "c++17", "c++20", "c++23"]);
const WARNINGS: Kind = Words(&["all-warnings", "reorder", "deprecated-declarations", "conversion"]);

// The columns: kind; spellings of NVRTC; NVRTC, nvJitLink, NVVM; what it asks for.
table! {
    Name "name", "what the program is called in messages and in debug information";
        Text; []; [Apart; 3] => Headers;
    Arch "arch", "the architecture, such as `sm_90a` or `compute_90`";
        Text; ["--gpu-architecture", "-arch"]; [Apart; 3];
    RelocatableDeviceCode "relocatable_device_code", "code that can be linked with other code";
        Switch; ["--relocatable-device-code", "-rdc"]; NVRTC;
    ExtensibleWholeProgram "extensible_whole_program", "extensible compilation of a whole program";
        Flag; ["--extensible-whole-program", "-ewp"]; NVRTC;
    Debug "debug", "debug information";
        Flag; ["--device-debug", "-G"]; [Spelt, flag("-g"), flag("-g")];
    Lineinfo "lineinfo", "line numbers";
        Flag; ["--generate-line-info", "-lineinfo"]; [Spelt, flag("-lineinfo"), Refused];
    DeviceCodeOptimize "device_code_optimize", "whether code is optimised";
        On; ["--dopt", "-dopt"]; [Spelt, Ignored, Either("-opt=3", "-opt=0")];
    PtxasOptions "ptxas_options", "arguments of ptxas";
        Ptxas; ["--ptxas-options", "-Xptxas"]; [Spelt, With("-Xptxas="), Refused];
    MaxRegisterCount "max_register_count", "the most registers of a function";
        Number(0, INT); ["--maxrregcount", "-maxrregcount"]; [Spelt, With("-maxrregcount="), Refused];
    Ftz "ftz", "whether denormal numbers become zero";
        Switch; ["--ftz", "-ftz"]; [Spelt, Either("-ftz=1", "-ftz=0"), Either("-ftz=1", "-ftz=0")];
    PrecSqrt "prec_sqrt", "whether square roots are rounded to the nearest";
        Switch; ["--prec-sqrt", "-prec-sqrt"];
        [Spelt, Either("-prec-sqrt=1", "-prec-sqrt=0"), Either("-prec-sqrt=1", "-prec-sqrt=0")];
    PrecDiv "prec_div", "whether quotients are rounded to the nearest";
        Switch; ["--prec-div", "-prec-div"];
        [Spelt, Either("-prec-div=1", "-prec-div=0"), Either("-prec-div=1", "-prec-div=0")];
    Fma "fma", "whether a product and a sum are contracted";
        Switch; ["--fmad", "-fmad"]; [Spelt, Either("-fma=1", "-fma=0"), Either("-fma=1", "-fma=0")];
    UseFastMath "use_fast_math", "fast mathematics";
        Flag; ["--use_fast_math", "-use_fast_math"]; NVRTC;
    ExtraDeviceVectorization "extra_device_vectorization", "more vectorisation";
        Flag; ["--extra-device-vectorization", "-extra-device-vectorization"]; NVRTC;
    LinkTimeOptimization "link_time_optimization", "LTO-IR instead of code, and linking that optimises";
        Flag; ["--dlink-time-opt", "-dlto"]; [Spelt, Apart, Refused];
    GenOptLto "gen_opt_lto", "LTO-IR that is optimised before";
        Flag; ["--gen-opt-lto", "-gen-opt-lto"]; NVRTC;
    JumpTableDensity "jump_table_density", "how dense the cases of a jump table are, in percent";
        Number(0, 101); ["--jump-table-density", "-jtd"];
        [Spelt, With("-jump-table-density="), With("-jump-table-density=")];
    DeviceStackProtector "device_stack_protector", "whether stacks have canaries";
        Switch; ["--device-stack-protector", "-device-stack-protector"];
        [Spelt, flag("-device-stack-protector"), Refused];
    DefineMacro "define_macro", "macros, as `NAME` or `NAME=VALUE`";
        List; ["--define-macro", "-D"]; NVRTC;
    UndefineMacro "undefine_macro", "macros that are not defined any more";
        List; ["--undefine-macro", "-U"]; NVRTC;
    IncludePath "include_path", "directories of headers";
        List; ["--include-path", "-I"]; NVRTC => Headers;
    UseBundledHeaders "use_bundled_headers", "the headers that come with NVRTC";
        Flag; ["--use-bundled-headers"]; [Refused; 3] => SideEffect("installs headers in a directory");
    PreInclude "pre_include", "headers that are read before the source";
        List; ["--pre-include", "-include"]; NVRTC => Headers;
    NoSourceInclude "no_source_include", "no headers from beside the source";
        Flag; ["--no-source-include", "-no-source-include"]; [Apart, Ignored, Refused];
    Std "std", "the version of C++";
        STANDARDS; ["--std", "-std"]; NVRTC;
    BuiltinMoveForward "builtin_move_forward", "whether `std::move` and `std::forward` are built in";
        Switch; ["--builtin-move-forward", "-builtin-move-forward"]; NVRTC;
    BuiltinInitializerList "builtin_initializer_list", "whether `std::initializer_list` is built in";
        Switch; ["--builtin-initializer-list", "-builtin-initializer-list"]; NVRTC;
    DisableWarnings "disable_warnings", "no warnings";
        Flag; ["--disable-warnings", "-w"]; NVRTC;
    WarningAsError "warning_as_error", "warnings that are errors";
        WARNINGS; ["--warning-as-error", "-Werror"]; NVRTC;
    FmaxErrors "fmax_errors", "the errors after which compiling ends";
        Number(1, INT); ["--fmax-errors", "-fmax-errors"]; NVRTC;
    Restrict "restrict", "pointers of kernels that never alias";
        Flag; ["--restrict", "-restrict"]; NVRTC;
    DeviceAsDefaultExecutionSpace "device_as_default_execution_space", "functions for the device where nothing is said";
        Flag; ["--device-as-default-execution-space", "-default-device"]; NVRTC;
    DeviceInt128 "device_int128", "integers of 128 bits";
        Flag; ["--device-int128", "-device-int128"]; NVRTC;
    OptimizationInfo "optimization_info", "reports of what was optimised";
        Word(&["inline"]); ["--optimization-info", "-opt-info"]; NVRTC;
    NoDisplayErrorNumber "no_display_error_number", "warnings without numbers";
        Flag; ["--no-display-error-number", "-no-err-no"]; NVRTC;
    DiagError "diag_error", "the numbers of messages that are errors";
        Numbers; ["--diag-error", "-diag-error"]; NVRTC;
    DiagSuppress "diag_suppress", "the numbers of messages that are left out";
        Numbers; ["--diag-suppress", "-diag-suppress"]; NVRTC;
    DiagWarn "diag_warn", "the numbers of messages that are warnings";
        Numbers; ["--diag-warn", "-diag-warn"]; NVRTC;
    BriefDiagnostics "brief_diagnostics", "whether messages leave the source out";
        Switch; ["--brief-diagnostics", "-brief-diag"]; NVRTC;
    Time "time", "a table of the times that phases took";
        Text; ["--time", "-time"]; [Refused; 3] => SideEffect("writes a table of times");
    SplitCompile "split_compile", "the threads that optimise";
        Number(0, INT); ["--split-compile", "-split-compile"]; [Spelt, With("-split-compile="), Refused];
    FdeviceSyntaxOnly "fdevice_syntax_only", "only a check of the syntax";
        Flag; ["--fdevice-syntax-only", "-fdevice-syntax-only"]; NVRTC;
    Minimal "minimal", "fewer features, for less time";
        Flag; ["--minimal", "-minimal"]; NVRTC;
    NoCache "no_cache", "none of the compiler's own caches";
        Flag; ["--no-cache", "-no-cache"]; [Spelt, flag("-no-cache"), Refused];
    FdeviceTimeTrace "fdevice_time_trace", "a profile of the compiler";
        Text; ["--fdevice-time-trace", "-fdevice-time-trace"]; [Refused; 3] => SideEffect("writes a profile");
    DeviceFloat128 "device_float128", "numbers of 128 bits";
        Flag; ["--device-float128", "-device-float128"]; NVRTC;
    FrandomSeed "frandom_seed", "what replaces random numbers in names";
        Text; ["--frandom-seed", "-frandom-seed"]; NVRTC;
    OfastCompile "ofast_compile", "how much speed of the code is given up for less time";
        Word(&["0", "min", "mid", "max"]); ["--Ofast-compile", "-Ofc"]; NVRTC;
    Pch "pch", "precompiled headers, found and made as needed";
        Flag; ["--pch", "-pch"]; NVRTC => Digest;
    CreatePch "create_pch", "a file of precompiled headers to write";
        Text; ["--create-pch", "-create-pch"]; [Refused; 3] => SideEffect("writes a precompiled header");
    UsePch "use_pch", "a file of precompiled headers to read";
        Text; ["--use-pch", "-use-pch"]; NVRTC => Digest;
    PchDir "pch_dir", "where files of precompiled headers are";
        Text; ["--pch-dir", "-pch-dir"]; NVRTC => Digest;
    PchVerbose "pch_verbose", "whether it is said why a precompiled header is not used";
        Switch; ["--pch-verbose", "-pch-verbose"]; NVRTC;
    PchMessages "pch_messages", "whether it is said that a precompiled header is used";
        Switch; ["--pch-messages", "-pch-messages"]; NVRTC;
    InstantiateTemplatesInPch "instantiate_templates_in_pch", "whether a precompiled header has instances of templates";
        Switch; ["--instantiate-templates-in-pch", "-instantiate-templates-in-pch"]; NVRTC;
    ExtraSources "extra_sources", "modules that are compiled or linked with the program";
        Sources; []; [Refused, Apart, Apart];
    UseLibdevice "use_libdevice", "NVIDIA's library of mathematical functions";
        Flag; []; [Refused, Refused, Apart] => Libdevice;
    NumbaDebug "numba_debug", "debug information as Numba expects it";
        Flag; ["--numba-debug", "-numba-debug"]; [Spelt, Ignored, flag("-numba-debug")];
}

impl OptionName {
    /// The option that cuda.core calls `name`.
    ///
    /// ```
    /// use warmstart_core::program::OptionName;
    ///
    /// assert_eq!(OptionName::parse("max_register_count"), Some(OptionName::MaxRegisterCount));
    /// assert_eq!(OptionName::parse("maxrregcount"), None);
    /// ```
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        TABLE.iter().find(|row| row.name == name).map(|row| row.option)
    }

    /// What cuda.core calls it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.row().name
    }

    /// How NVRTC's arguments spell it, the long spelling first; some have none.
    #[must_use]
    pub fn spellings(self) -> &'static [&'static str] {
        self.row().spellings
    }

    pub(crate) fn row(self) -> &'static Row {
        &TABLE[self as usize]
    }

    /// The option that NVRTC spells like this.
    pub(crate) fn spelled(spelling: &str) -> Option<Self> {
        TABLE.iter().find(|row| row.spellings.contains(&spelling)).map(|row| row.option)
    }
}

impl fmt::Display for OptionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The option, and the value if it is in the same argument.
fn split(argument: &str) -> Result<(OptionName, Option<&str>), Refusal> {
    if let Some((spelling, option)) = JOINED.iter().find(|(spelling, _)| argument.starts_with(spelling)) {
        let value = &argument[spelling.len()..];
        let value = value.strip_prefix('=').unwrap_or(value).trim_start();
        return Ok((*option, (argument != *spelling).then_some(value)));
    }
    let (spelling, value) = match argument.split_once('=') {
        Some((spelling, value)) => (spelling, Some(value)),
        None => (argument, None),
    };
    match OptionName::spelled(spelling) {
        Some(option) => Ok((option, value)),
        None => Err(Refusal::unsupported(
            shown(argument),
            "no option of NVRTC that is known here is spelt like this; leave it out",
        )),
    }
}

fn take(options: &mut Options, option: OptionName, value: &str) -> Result<(), Refusal> {
    let refused = |what: &str| Refusal::malformed(option.as_str(), format!("{value:?} is not {what}"));
    if value.contains('\0') {
        return Err(Refusal::malformed(
            option.as_str(),
            "it has a NUL byte, at which the compiler would cut it",
        ));
    }
    match option.row().kind {
        // Of a flag only that it is given counts, and then it is refused.
        Kind::Flag => options.set(option, true),
        Kind::Switch => match value {
            "true" => set_flag(options, option, true)?,
            "false" => set_flag(options, option, false)?,
            _ => return Err(refused("true or false")),
        },
        Kind::On if value == "on" => options.set(option, true),
        Kind::On => return Err(refused("on")),
        Kind::Number(..) => {
            options.set(option, number(value).ok_or_else(|| refused("a number"))?);
        }
        Kind::Text | Kind::Word(_) => options.set(option, value),
        Kind::Words(_) => value.split(',').for_each(|word| options.append(option, word)),
        Kind::Numbers => {
            for one in value.split(',') {
                let number = number(one).ok_or_else(|| refused("a list of numbers"))?;
                options.append(option, format!("{number}"));
            }
        }
        Kind::List => {
            if option == OptionName::DefineMacro {
                is_not_undefined(options, value)?;
            }
            options.append(option, value);
        }
        Kind::Ptxas => options.append(option, value),
        Kind::Sources => return Err(refused("an argument")),
    }
    Ok(())
}

/// NVRTC takes the last of two values, but not of these two.
fn set_flag(options: &mut Options, option: OptionName, value: bool) -> Result<(), Refusal> {
    let is_pair = matches!(option, OptionName::RelocatableDeviceCode | OptionName::NoDisplayErrorNumber);
    match options.option(option) {
        Some(Value::Flag(before)) if is_pair && *before != value => {
            Err(Refusal::malformed(option.as_str(), "it is both asked for and not; leave one of the two out"))
        }
        _ => {
            options.set(option, value);
            Ok(())
        }
    }
}

/// All definitions are passed first, so one that comes after the removal of the same macro would be lost.
fn is_not_undefined(options: &Options, definition: &str) -> Result<(), Refusal> {
    let name = macro_name(definition);
    let Some(Value::List(undefined)) = options.option(OptionName::UndefineMacro) else { return Ok(()) };
    if undefined.iter().any(|undefined| macro_name(undefined) == name) {
        return Err(Refusal::malformed(
            OptionName::UndefineMacro.as_str(),
            format!("{name:?} is defined after it was undefined; leave the first of the two out"),
        ));
    }
    Ok(())
}

/// What a definition defines.
fn macro_name(definition: &str) -> &str {
    let is_end = |c: char| !(c.is_alphanumeric() || c == '_' || c == '$');
    let definition = definition.trim_start();
    definition.split(is_end).next().unwrap_or(definition)
}

/// Digits with a sign, as NVRTC reads them: without "+" and in base ten.
fn number(text: &str) -> Option<i64> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { text.parse().ok() } else { None }
}
