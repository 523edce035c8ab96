//! The accepted compiler flags: those whose whole effect is in their text.
//!
//! A flag is refused if it names a file, a directory or another program, changes where headers are searched for, or makes the
//! compiler write other files: a cached object would depend on more than its key.

use super::{
    error::{CompileError, CompileProblem},
    features::CpuFeatures,
};

/// Parts of flags that are refused even if a prefix in [`ACCEPTED`] matches. Such flags read or write files, run other
/// programs, pass arguments on to them, or change how headers are searched for and what is generated.
const REFUSED: &[&str] = &[
    "-Wa,", "-Wl,", "-Wp,", "plugin", "profil", "coverage", "-prob", "dump", "time", "info", "record",
    "usage", "crash", "diagnost", "list", "system", "gsplit", "xray", "module", "prebuilt", "pch", "lto",
    "fuse-ld", "integrat", "offload", "linker", "-map", "-dir", "charset", "preproc", "directiv", "syntax",
    "-fms-",
];

/// Sanitizers that replace the allocator or follow every access.
const SANITIZERS: &[&str] = &["address", "kernel", "leak", "memory", "thread", "dataflow", "all"];

/// Prefixes that are accepted unless something in [`REFUSED`] matches.
const ACCEPTED: &[&str] = &["-O", "-f", "-m", "-std=", "-W", "-g"];

/// Prefixes of accepted flags for the machine: those that select no instructions that some CPUs lack.
const OF_MACHINE: &[&str] = &[
    "-mno-",
    "-mtune=",
    "-m64",
    "-mbranch-",
    "-mcmodel=",
    "-mfpmath=",
    "-moutline-atomics",
    "-mprefer-vector-width=",
    "-mrecip",
    "-mred-zone",
    "-mstackrealign",
    "-mvzeroupper",
];

/// Whole flags that are accepted.
const ACCEPTED_WHOLE: &[&str] = &["-pthread", "-lm", "-ansi", "-pedantic"];

/// The library that is linked after the source. It is the only one, because others would have to be part of the key.
pub(super) const MATH_LIBRARY: &str = "-lm";

/// Checks all flags and the names of features.
///
/// # Errors
/// [`CompileError`] for the first one that is not accepted.
pub(super) fn check(flags: &[String], features: &CpuFeatures) -> Result<(), CompileError> {
    let refused = flags.iter().find_map(|flag| Some((flag.as_str(), remedy(flag)?)));
    let unknown =
        "it is no name of a CPU feature that can be found out; see CpuFeatures::host() for those that are";
    match refused.or_else(|| features.unknown_name().map(|name| (name, unknown))) {
        Some((flag, remedy)) => Err(CompileProblem::RefusedFlag { flag: flag.into(), remedy }.into()),
        None => Ok(()),
    }
}

/// Returns what to do instead of passing this flag, or `None` if it is accepted.
fn remedy(flag: &str) -> Option<&'static str> {
    let begins = |beginning: &&str| flag.starts_with(beginning);
    let holds = |part: &&str| flag.contains(part);
    if flag.contains('\0') {
        return Some("it contains a NUL");
    }
    if let Some(definition) = flag.strip_prefix("-D").or_else(|| flag.strip_prefix("-U")) {
        return definition.is_empty().then_some("write the name in the same flag, as in -DNAME=1");
    }
    if ACCEPTED_WHOLE.contains(&flag) {
        return None;
    }
    if flag.starts_with("-I") || flag.starts_with("-i") {
        return Some("use Kernel::include_dir or Kernel::source_dir, and #include in the source");
    }
    if !ACCEPTED.iter().any(begins) {
        return Some(
            "accepted are -O, -f, -m, -D, -U, -std=, -W, -g, -pthread and -lm; what else the compiler reads and \
             writes is decided by warmstart",
        );
    }
    if flag.starts_with("-fsanitize=") && SANITIZERS.iter().any(holds) {
        return Some(
            "its runtime must be in the process from the start, and ends one in which it is not; leave it out",
        );
    }
    if flag.contains("native") {
        return Some("native is another machine everywhere; use CpuFeatures::host(), which is the default");
    }
    if REFUSED.iter().any(holds) {
        return Some(
            "its effect is not all in its text, or is not on one kernel in one source; leave it out",
        );
    }
    if flag.starts_with("-m") && !OF_MACHINE.iter().any(begins) {
        return Some(
            "the features of the CPU are those of the target, which are the host's if no others are named; see \
             CpuFeatures::host() and CpuTarget::with_features, and leave it out",
        );
    }
    // Whatever a newer compiler means by it: without a path, it affects only a new directory of ours.
    flag.contains(['/', '\\']).then_some("it names a path, and paths are not part of a key; leave it out")
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
            "-w",
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
            "-mavx2",
            "-mrdseed",
            "-mxop",
            "-mamx-tile",
            "-mavx2-of-a-cpu-to-come",
            "-m",
        ] {
            assert!(remedy(flag).is_some(), "{flag}");
        }
    }

    #[test]
    fn a_feature_is_refused_with_the_way_to_name_one() {
        let error = check(&["-mavx2".into()], &CpuFeatures::none()).unwrap_err();
        assert!(error.to_string().contains("CpuTarget::with_features"), "{error}");
    }

    #[test]
    fn the_error_names_the_flag_and_what_to_do() {
        let error = check(&["-O2".into(), "-march=native".into()], &CpuFeatures::none()).unwrap_err();
        assert!(error.is_refused());
        assert!(error.to_string().contains("`-march=native`"), "{error}");
        assert!(error.to_string().contains("CpuFeatures::host()"), "{error}");
    }
}
