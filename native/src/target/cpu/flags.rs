//! Which flags are accepted: those whose whole effect is in their text.
//!
//! A flag that names a file, a directory or another program, that changes where headers are looked for, or that makes
//! the compiler write something else would make a cached object depend on what no key holds.

use super::{
    error::{CompileError, CompileProblem},
    features::{CpuFeatures, named_by},
};

/// Beginnings that are refused although a prefix in [`ACCEPTED`] fits, and what to do instead.
const REFUSED: &[(&str, &str)] = &[
    ("-Wa,", NOT_THROUGH),
    ("-Wl,", NOT_THROUGH),
    ("-Wp,", NOT_THROUGH),
    ("-fplugin", FILES),
    ("-fpass-plugin", FILES),
    ("-fprofile", FILES),
    ("-fauto-profile", FILES),
    ("-fbranch-probabilities", FILES),
    ("-ftest-coverage", FILES),
    ("-fcs-profile", FILES),
    ("-fcoverage", FILES),
    ("-fdump", FILES),
    ("-ftime", FILES),
    ("-fopt-info", FILES),
    ("-fsave-optimization-record", FILES),
    ("-foptimization-record", FILES),
    ("-fcallgraph-info", FILES),
    ("-fstack-usage", FILES),
    ("-fcrash-diagnostics", FILES),
    ("-fdiagnostics-format", FILES),
    ("-fdiagnostics-add-output", FILES),
    ("-fdiagnostics-set-output", FILES),
    ("-fsanitize-blacklist", FILES),
    ("-fsanitize-ignorelist", FILES),
    ("-fsanitize-system-", FILES),
    ("-fsanitize-coverage-", FILES),
    ("-finput-charset", "headers are read as UTF-8; convert the source and leave it out"),
    ("-fexec-charset", "strings are compiled as UTF-8; leave it out"),
    ("-fxray", FILES),
    ("-fmodule", FILES),
    ("-fimplicit-module", FILES),
    ("-fprebuilt", FILES),
    ("-fpch", FILES),
    ("-fthinlto", FILES),
    ("-ffile-prefix-map", PREFIX_MAP),
    ("-fdebug-prefix-map", PREFIX_MAP),
    ("-fmacro-prefix-map", PREFIX_MAP),
    ("-fdebug-compilation-dir", PREFIX_MAP),
    ("-flto", "a kernel is one source, so there is nothing to optimise at link time; leave it out"),
    ("-fuse-ld", OTHER_PROGRAM),
    ("-fuse-linker-plugin", OTHER_PROGRAM),
    ("-fno-integrated", OTHER_PROGRAM),
    ("-foffload", OTHER_PROGRAM),
    ("-fasm-blocks", "assembly has to stand in strings, where it is seen; leave it out"),
    ("-fpreprocessed", "the source is C; leave it out"),
    ("-fdirectives-only", "the source is C; leave it out"),
    ("-fsyntax-only", "an object is wanted; leave it out"),
    ("-fms-compatibility", "it changes where headers are looked for; leave it out"),
    ("-fcanonical-system-headers", "header names must be known as they are spelt; leave it out"),
    ("-gsplit-dwarf", "it writes a second file; use -g"),
    ("-march", FEATURES),
    ("-mcpu", FEATURES),
    ("-mllvm", "it takes a second argument that no check knows; leave it out"),
    ("-mlinker-version", OTHER_PROGRAM),
    ("-m16", MACHINE),
    ("-m31", MACHINE),
    ("-m32", MACHINE),
    ("-mx32", MACHINE),
];

const NOT_THROUGH: &str =
    "arguments for the assembler, the linker and the preprocessor are not passed through";
const FILES: &str = "it reads or writes files that no key holds; leave it out";
/// Sanitizers that replace the allocator or follow every access, by how their names begin.
const SANITIZERS: &[&str] =
    &["address", "hwaddress", "kernel", "leak", "memory", "thread", "dataflow", "all"];
const SANITIZER: &str =
    "its runtime must be in the process from the start, and ends one in which it is not; leave it out";
const PREFIX_MAP: &str = "paths are kept out of the object already; leave it out";
const OTHER_PROGRAM: &str = "it runs a program that the compiler's identity does not hold; leave it out";
const FEATURES: &str = "the host's features are compiled for already, see CpuFeatures::host(); name others one by one, \
                        as in -mavx2, or with CpuTarget::with_features";
const MACHINE: &str = "the object would not load in this process; leave it out";
const NATIVE: &str =
    "the word native means another machine everywhere; use CpuFeatures::host(), which is the default";

const UNKNOWN_FEATURE: &str = "it may ask for a CPU feature that cannot be found out, and an object that needs one would \
                               crash where it lacks; name those that CpuFeatures knows, in CpuTarget::with_features or \
                               as in -mavx2";

/// Beginnings that are accepted where nothing in [`REFUSED`] fits.
const ACCEPTED: &[&str] = &["-O", "-f", "-m", "-std=", "-W", "-g"];

/// Beginnings of flags for the machine that ask for no instructions which not every CPU has. Others have to be features
/// that can be found out.
const NO_FEATURES: &[&str] = &[
    "-mno-",
    "-mtune=",
    "-m64",
    "-mabi=",
    "-maccumulate-outgoing-args",
    "-malign-",
    "-mbranch-cost=",
    "-mbranch-protection=",
    "-mcmodel=",
    "-mfpmath=",
    "-mfunction-return=",
    "-mgeneral-regs-only",
    "-mharden-sls=",
    "-mincoming-stack-boundary=",
    "-mindirect-branch",
    "-minline-",
    "-mlarge-data-threshold=",
    "-mlong-double-",
    "-mmacos",
    "-mmemcpy-strategy=",
    "-mmemset-strategy=",
    "-mmove-max=",
    "-mstore-max=",
    "-momit-leaf-frame-pointer",
    "-moutline-atomics",
    "-mprefer-vector-width=",
    "-mpreferred-stack-boundary=",
    "-mrecip",
    "-mred-zone",
    "-msoft-float",
    "-mskip-rax-setup",
    "-mspeculative-load-hardening",
    "-mstack-",
    "-mstackrealign",
    "-mstrict-align",
    "-mtls-dialect=",
    "-mvect8-ret-in-mem",
    "-mvzeroupper",
];

/// Whole flags that are accepted.
const ACCEPTED_WHOLE: &[&str] = &["-w", "-pthread", "-lm", "-ansi", "-pedantic"];

/// The library that is linked after the source. The only one: others would have to be in the key.
pub(super) const MATH_LIBRARY: &str = "-lm";

/// Refuses the first flag that is not accepted.
pub(super) fn check(flags: &[String]) -> Result<(), CompileError> {
    flags.iter().try_for_each(|flag| {
        remedy(flag).map_or(Ok(()), |remedy| {
            Err(CompileError::new(CompileProblem::RefusedFlag { flag: flag.clone(), remedy }))
        })
    })
}

/// Refuses what is no name of a feature.
pub(super) fn check_features(features: &CpuFeatures) -> Result<(), CompileError> {
    features.odd_name().map_or(Ok(()), |name| {
        let flag = String::from(name);
        let remedy = "it is no name of a CPU feature; see CpuFeatures::host() for those that are";
        Err(CompileError::new(CompileProblem::RefusedFlag { flag, remedy }))
    })
}

/// What to do instead of this flag, unless it is accepted.
fn remedy(flag: &str) -> Option<&'static str> {
    if flag.contains('\0') {
        return Some("it contains a NUL");
    }
    if let Some(definition) = flag.strip_prefix("-D").or_else(|| flag.strip_prefix("-U")) {
        return definition.is_empty().then_some("write the name in the same flag, as in -DNAME=1");
    }
    if ACCEPTED_WHOLE.contains(&flag) {
        return None;
    }
    if let Some(list) = flag.strip_prefix("-fsanitize=")
        && list
            .split(',')
            .any(|sanitizer| SANITIZERS.iter().any(|beginning| sanitizer.starts_with(beginning)))
    {
        return Some(SANITIZER);
    }
    if flag.starts_with("-m") && flag.contains("native") {
        return Some(NATIVE);
    }
    if let Some((_, remedy)) = REFUSED.iter().find(|(beginning, _)| flag.starts_with(beginning)) {
        return Some(remedy);
    }
    let is_accepted = |beginning: &&str| flag.starts_with(beginning);
    if flag.starts_with("-m") && !NO_FEATURES.iter().any(is_accepted) && named_by(flag).is_none() {
        return Some(UNKNOWN_FEATURE);
    }
    if ACCEPTED.iter().any(|beginning| flag.starts_with(beginning)) {
        // Whatever a newer compiler means by it: without a path it reaches nothing but a fresh directory of ours.
        return flag
            .contains(['/', '\\'])
            .then_some("it names a path, and paths are not part of a key; leave it out");
    }
    Some(match flag.as_bytes() {
        [b'-', b'I', ..] => "use Kernel::include_dir",
        [b'-', b'i', ..] => "use Kernel::include_dir or Kernel::source_dir, and #include in the source",
        [b'-', b'l' | b'L', ..] => "only -lm is linked; load other libraries in the process first",
        [b'-', b'o' | b'M' | b'x' | b'c' | b'S' | b'E', ..] => {
            "warmstart decides what the compiler reads and writes"
        }
        [b'-', b'B', ..] => OTHER_PROGRAM,
        [b'-', ..] => "accepted are -O, -f, -m, -D, -U, -std=, -W, -w, -g, -pthread and -lm",
        [b'@', ..] => "name the flags themselves, not a file of them",
        _ => "it is no flag; a kernel has one source",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_whose_effect_is_in_their_text_are_accepted() {
        for flag in [
            "-O2",
            "-Ofast",
            "-ffast-math",
            "-fno-math-errno",
            "-fopenmp",
            #[cfg(target_arch = "x86_64")]
            "-mavx2",
            #[cfg(target_arch = "x86_64")]
            "-mrdseed",
            "-mno-avx512f",
            "-mno-xop",
            "-mcmodel=large",
            "-DTILE=16",
            "-DNAME=\"a/b\"",
            "-UNAME",
            "-std=c11",
            "-std=gnu17",
            "-Wall",
            "-Wno-unused",
            "-w",
            "-g",
            "-g3",
            "-pthread",
            "-lm",
            "-mprefer-vector-width=512",
        ] {
            assert_eq!(remedy(flag), None, "{flag}");
        }
    }

    #[test]
    fn every_other_flag_is_refused_with_a_remedy() {
        for flag in [
            "-I/usr/include",
            "-include",
            "-isystem",
            "-iquote",
            "-imacros",
            "-B/x",
            "-o",
            "-ox",
            "-MD",
            "-MF",
            "-x",
            "-xc++",
            "-specs=x",
            "--specs=x",
            "@file",
            "-L/x",
            "-lfoo",
            "-save-temps",
            "-march=native",
            "-march=x86-64",
            "-mtune=native",
            "-mcpu=native",
            "-mcpu=a64fx",
            "-Wl,-rpath,/x",
            "-Wa,-x",
            "-Wp,-MD",
            "-fplugin=x",
            "-fplugin-arg-x",
            "-fprofile-use=x",
            "-fprofile-generate",
            "-fdump-tree-all",
            "-ftime-report",
            "-ftime-trace",
            "-fsanitize-ignorelist=x",
            "-fsanitize=address",
            "-fsanitize=undefined,thread",
            "-finput-charset=UTF-7",
            "-fuse-ld=gold",
            "-flto",
            "-fstack-protector=/x",
            "-wrapper",
            "-Xlinker",
            "-T",
            "-D",
            "-U",
            "",
            "x.c",
            "/x.c",
            "-",
            "--sysroot=/",
            "-nostdinc",
            "-gsplit-dwarf",
            "-m32",
            "-D\0",
            "-ffile-prefix-map=a=b",
            "-static",
            "-v",
            "-fasm-blocks",
            "-mxop",
            "-mamx-tile",
            "-mavx2-of-a-cpu-to-come",
            "-m",
        ] {
            assert!(remedy(flag).is_some(), "{flag}");
        }
    }

    #[test]
    fn a_feature_that_cannot_be_found_out_is_refused_with_the_way_to_name_one() {
        let error = check(&["-mamx-tile".into()]).unwrap_err();
        assert!(error.to_string().contains("CpuTarget::with_features"), "{error}");
    }

    #[test]
    fn the_error_names_the_flag_and_what_to_do() {
        let error = check(&["-O2".into(), "-march=native".into()]).unwrap_err();
        assert!(error.is_refused_flag());
        assert!(error.to_string().contains("`-march=native`"), "{error}");
        assert!(error.to_string().contains("CpuFeatures::host()"), "{error}");
    }
}
