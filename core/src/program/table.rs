//! The table of options. Everything that is known of an option stands in its row, and nowhere else.

use core::fmt;

use super::code::Compiler;

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
    cells: [Cell; 4],
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
            Self::List | Self::Words(_) | Self::Ptxas => "a text or a list of texts",
            Self::Numbers => "a number or a list of numbers",
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
    /// It takes one of these, for yes and for no; an empty one is none.
    Either(&'static str, &'static str),
    /// It takes this with the value behind it; of a list, once for each item.
    Value(&'static str),
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
        $kind:expr; $spellings:expr;
        $nvrtc:expr, $linker:expr, $driver:expr, $nvvm:expr; $gate:expr;
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
            cells: [$nvrtc, $linker, $driver, $nvvm],
            gate: $gate,
        }),*];
    };
}

use Cell::{Apart, Either, Ignored, Refused, Value};
use Gate::{Digest, Headers, Libdevice, Open, SideEffect};
use Kind::{Flag, List, Number, Numbers, On, Ptxas, Sources, Switch, Text, Word, Words};

const fn flag(argument: &'static str) -> Cell {
    Either(argument, "")
}

const INT: i64 = i32::MAX as i64;
const STANDARDS: Kind = Word(&["c++03", "c++11", "c++14", "c++17", "c++20", "c++23"]);
const WARNINGS: Kind = Words(&["all-warnings", "reorder", "deprecated-declarations", "conversion"]);

// The columns: kind; spellings of NVRTC; NVRTC, nvJitLink, driver, NVVM; gate.
table! {
    Name "name", "what the program is called in messages and in debug information";
        Text; []; Apart, Apart, Apart, Apart; Headers;
    Arch "arch", "the architecture, such as `sm_90a` or `compute_90`";
        Text; ["--gpu-architecture", "-arch"]; Apart, Apart, Apart, Apart; Open;
    RelocatableDeviceCode "relocatable_device_code", "code that can be linked with other code";
        Switch; ["--relocatable-device-code", "-rdc"];
        Either("--relocatable-device-code=true", "--relocatable-device-code=false"), Ignored, Ignored, Refused; Open;
    ExtensibleWholeProgram "extensible_whole_program", "extensible compilation of a whole program";
        Flag; ["--extensible-whole-program", "-ewp"];
        flag("--extensible-whole-program"), Ignored, Ignored, Refused; Open;
    Debug "debug", "debug information";
        Flag; ["--device-debug", "-G"];
        flag("--device-debug"), flag("-g"), flag("CU_JIT_GENERATE_DEBUG_INFO=1"), flag("-g"); Open;
    Lineinfo "lineinfo", "line numbers";
        Flag; ["--generate-line-info", "-lineinfo"];
        flag("--generate-line-info"), flag("-lineinfo"), flag("CU_JIT_GENERATE_LINE_INFO=1"), Refused; Open;
    DeviceCodeOptimize "device_code_optimize", "whether code is optimised";
        On; ["--dopt", "-dopt"]; flag("--dopt=on"), Ignored, Ignored, Either("-opt=3", "-opt=0"); Open;
    PtxasOptions "ptxas_options", "arguments of ptxas";
        Ptxas; ["--ptxas-options", "-Xptxas"]; Value("--ptxas-options="), Value("-Xptxas="), Refused, Refused; Open;
    MaxRegisterCount "max_register_count", "the most registers of a function";
        Number(0, INT); ["--maxrregcount", "-maxrregcount"];
        Value("--maxrregcount="), Value("-maxrregcount="), Value("CU_JIT_MAX_REGISTERS="), Refused; Open;
    Ftz "ftz", "whether denormal numbers become zero";
        Switch; ["--ftz", "-ftz"];
        Either("--ftz=true", "--ftz=false"), Either("-ftz=1", "-ftz=0"), Ignored, Either("-ftz=1", "-ftz=0"); Open;
    PrecSqrt "prec_sqrt", "whether square roots are rounded to the nearest";
        Switch; ["--prec-sqrt", "-prec-sqrt"];
        Either("--prec-sqrt=true", "--prec-sqrt=false"), Either("-prec-sqrt=1", "-prec-sqrt=0"), Ignored,
        Either("-prec-sqrt=1", "-prec-sqrt=0"); Open;
    PrecDiv "prec_div", "whether quotients are rounded to the nearest";
        Switch; ["--prec-div", "-prec-div"];
        Either("--prec-div=true", "--prec-div=false"), Either("-prec-div=1", "-prec-div=0"), Ignored,
        Either("-prec-div=1", "-prec-div=0"); Open;
    Fma "fma", "whether a product and a sum are contracted";
        Switch; ["--fmad", "-fmad"];
        Either("--fmad=true", "--fmad=false"), Either("-fma=1", "-fma=0"), Ignored, Either("-fma=1", "-fma=0"); Open;
    UseFastMath "use_fast_math", "fast mathematics";
        Flag; ["--use_fast_math", "-use_fast_math"]; flag("--use_fast_math"), Ignored, Ignored, Refused; Open;
    ExtraDeviceVectorization "extra_device_vectorization", "more vectorisation";
        Flag; ["--extra-device-vectorization", "-extra-device-vectorization"];
        flag("--extra-device-vectorization"), Ignored, Ignored, Refused; Open;
    LinkTimeOptimization "link_time_optimization", "LTO-IR instead of code; for a linker, optimisation when it links";
        Flag; ["--dlink-time-opt", "-dlto"];
        flag("--dlink-time-opt"), Apart, Apart, Refused; Open;
    GenOptLto "gen_opt_lto", "LTO-IR that is optimised before";
        Flag; ["--gen-opt-lto", "-gen-opt-lto"]; flag("--gen-opt-lto"), Ignored, Ignored, Refused; Open;
    JumpTableDensity "jump_table_density", "how dense the cases of a jump table are, in percent";
        Number(0, 101); ["--jump-table-density", "-jtd"];
        Value("--jump-table-density="), Value("-jump-table-density="), Refused, Value("-jump-table-density="); Open;
    DeviceStackProtector "device_stack_protector", "whether stacks have canaries";
        Switch; ["--device-stack-protector", "-device-stack-protector"];
        Either("--device-stack-protector=true", "--device-stack-protector=false"), flag("-device-stack-protector"),
        Refused, Refused; Open;
    DefineMacro "define_macro", "macros, as `NAME` or `NAME=VALUE`";
        List; ["--define-macro", "-D"]; Value("--define-macro="), Ignored, Ignored, Refused; Open;
    UndefineMacro "undefine_macro", "macros that are not defined any more";
        List; ["--undefine-macro", "-U"]; Value("--undefine-macro="), Ignored, Ignored, Refused; Open;
    IncludePath "include_path", "directories of headers";
        List; ["--include-path", "-I"]; Value("--include-path="), Ignored, Ignored, Refused; Headers;
    UseBundledHeaders "use_bundled_headers", "the headers that come with NVRTC";
        Flag; ["--use-bundled-headers"]; Refused, Refused, Refused, Refused;
        SideEffect("installs headers in a directory");
    PreInclude "pre_include", "headers that are read before the source";
        List; ["--pre-include", "-include"]; Value("--pre-include="), Ignored, Ignored, Refused; Headers;
    NoSourceInclude "no_source_include", "no headers from beside the source";
        Flag; ["--no-source-include", "-no-source-include"]; Apart, Ignored, Ignored, Refused; Open;
    Std "std", "the version of C++";
        STANDARDS; ["--std", "-std"]; Value("--std="), Ignored, Ignored, Refused; Open;
    BuiltinMoveForward "builtin_move_forward", "whether `std::move` and `std::forward` are built in";
        Switch; ["--builtin-move-forward", "-builtin-move-forward"];
        Either("--builtin-move-forward=true", "--builtin-move-forward=false"), Ignored, Ignored, Refused; Open;
    BuiltinInitializerList "builtin_initializer_list", "whether `std::initializer_list` is built in";
        Switch; ["--builtin-initializer-list", "-builtin-initializer-list"];
        Either("--builtin-initializer-list=true", "--builtin-initializer-list=false"), Ignored, Ignored, Refused; Open;
    DisableWarnings "disable_warnings", "no warnings";
        Flag; ["--disable-warnings", "-w"]; flag("--disable-warnings"), Ignored, Ignored, Refused; Open;
    WarningAsError "warning_as_error", "warnings that are errors";
        WARNINGS; ["--warning-as-error", "-Werror"]; Value("--warning-as-error="), Ignored, Ignored, Refused; Open;
    FmaxErrors "fmax_errors", "the errors after which compiling ends";
        Number(1, INT); ["--fmax-errors", "-fmax-errors"]; Value("--fmax-errors="), Ignored, Ignored, Refused; Open;
    Restrict "restrict", "pointers of kernels that never alias";
        Flag; ["--restrict", "-restrict"]; flag("--restrict"), Ignored, Ignored, Refused; Open;
    DeviceAsDefaultExecutionSpace "device_as_default_execution_space", "functions for the device where nothing is said";
        Flag; ["--device-as-default-execution-space", "-default-device"];
        flag("--device-as-default-execution-space"), Ignored, Ignored, Refused; Open;
    DeviceInt128 "device_int128", "integers of 128 bits";
        Flag; ["--device-int128", "-device-int128"]; flag("--device-int128"), Ignored, Ignored, Refused; Open;
    OptimizationInfo "optimization_info", "reports of what was optimised";
        Word(&["inline"]); ["--optimization-info", "-opt-info"];
        Value("--optimization-info="), Ignored, Ignored, Refused; Open;
    NoDisplayErrorNumber "no_display_error_number", "warnings without numbers";
        Flag; ["--no-display-error-number", "-no-err-no"];
        flag("--no-display-error-number"), Ignored, Ignored, Refused; Open;
    DiagError "diag_error", "the numbers of messages that are errors";
        Numbers; ["--diag-error", "-diag-error"]; Value("--diag-error="), Ignored, Ignored, Refused; Open;
    DiagSuppress "diag_suppress", "the numbers of messages that are left out";
        Numbers; ["--diag-suppress", "-diag-suppress"]; Value("--diag-suppress="), Ignored, Ignored, Refused; Open;
    DiagWarn "diag_warn", "the numbers of messages that are warnings";
        Numbers; ["--diag-warn", "-diag-warn"]; Value("--diag-warn="), Ignored, Ignored, Refused; Open;
    BriefDiagnostics "brief_diagnostics", "whether messages leave the source out";
        Switch; ["--brief-diagnostics", "-brief-diag"];
        Either("--brief-diagnostics=true", "--brief-diagnostics=false"), Ignored, Ignored, Refused; Open;
    Time "time", "a table of the times that phases took";
        Text; ["--time", "-time"]; Refused, Refused, Refused, Refused; SideEffect("writes a table of times");
    SplitCompile "split_compile", "the threads that optimise";
        Number(0, INT); ["--split-compile", "-split-compile"];
        Value("--split-compile="), Value("-split-compile="), Refused, Refused; Open;
    FdeviceSyntaxOnly "fdevice_syntax_only", "only a check of the syntax";
        Flag; ["--fdevice-syntax-only", "-fdevice-syntax-only"];
        flag("--fdevice-syntax-only"), Ignored, Ignored, Refused; Open;
    Minimal "minimal", "fewer features, for less time";
        Flag; ["--minimal", "-minimal"]; flag("--minimal"), Ignored, Ignored, Refused; Open;
    NoCache "no_cache", "none of the compiler's own caches";
        Flag; ["--no-cache", "-no-cache"];
        flag("--no-cache"), flag("-no-cache"), flag("CU_JIT_CACHE_MODE=CU_JIT_CACHE_OPTION_NONE"), Refused; Open;
    FdeviceTimeTrace "fdevice_time_trace", "a profile of the compiler";
        Text; ["--fdevice-time-trace", "-fdevice-time-trace"]; Refused, Refused, Refused, Refused;
        SideEffect("writes a profile");
    DeviceFloat128 "device_float128", "numbers of 128 bits";
        Flag; ["--device-float128", "-device-float128"]; flag("--device-float128"), Ignored, Ignored, Refused; Open;
    FrandomSeed "frandom_seed", "what replaces random numbers in names";
        Text; ["--frandom-seed", "-frandom-seed"]; Value("--frandom-seed="), Ignored, Ignored, Refused; Open;
    OfastCompile "ofast_compile", "how much speed of the code is given up for less time";
        Word(&["0", "min", "mid", "max"]); ["--Ofast-compile", "-Ofc"];
        Value("--Ofast-compile="), Ignored, Ignored, Refused; Open;
    Pch "pch", "precompiled headers, found and made as needed";
        Flag; ["--pch", "-pch"]; flag("--pch"), Ignored, Ignored, Refused; Digest;
    CreatePch "create_pch", "a file of precompiled headers to write";
        Text; ["--create-pch", "-create-pch"]; Refused, Refused, Refused, Refused;
        SideEffect("writes a precompiled header");
    UsePch "use_pch", "a file of precompiled headers to read";
        Text; ["--use-pch", "-use-pch"]; Value("--use-pch="), Ignored, Ignored, Refused; Digest;
    PchDir "pch_dir", "where files of precompiled headers are";
        Text; ["--pch-dir", "-pch-dir"]; Value("--pch-dir="), Ignored, Ignored, Refused; Digest;
    PchVerbose "pch_verbose", "whether it is said why a precompiled header is not used";
        Switch; ["--pch-verbose", "-pch-verbose"];
        Either("--pch-verbose=true", "--pch-verbose=false"), Ignored, Ignored, Refused; Open;
    PchMessages "pch_messages", "whether it is said that a precompiled header is used";
        Switch; ["--pch-messages", "-pch-messages"];
        Either("--pch-messages=true", "--pch-messages=false"), Ignored, Ignored, Refused; Open;
    InstantiateTemplatesInPch "instantiate_templates_in_pch", "whether a precompiled header has instances of templates";
        Switch; ["--instantiate-templates-in-pch", "-instantiate-templates-in-pch"];
        Either("--instantiate-templates-in-pch=true", "--instantiate-templates-in-pch=false"), Ignored, Ignored, Refused;
        Open;
    ExtraSources "extra_sources", "modules that are compiled or linked with the program";
        Sources; []; Refused, Apart, Apart, Apart; Open;
    UseLibdevice "use_libdevice", "NVIDIA's library of mathematical functions";
        Flag; []; Refused, Refused, Refused, Apart; Libdevice;
    NumbaDebug "numba_debug", "debug information as Numba expects it";
        Flag; ["--numba-debug", "-numba-debug"]; flag("--numba-debug"), Ignored, Ignored, flag("-numba-debug"); Open;
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
