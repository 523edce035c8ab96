//! Which flags are accepted: those whose whole effect is in their text.
//!
//! A flag that names a file, a directory or another program, that changes where headers are looked for, or that makes
//! the compiler write something else would make a cached object depend on what no key holds.

use super::{
    error::{CompileError, CompileProblem},
    features::{CpuFeatures, named_by},
};

/// Parts of flags that are refused although a prefix in [`ACCEPTED`] fits, and what to do instead.
const REFUSED: &[(&[&str], &str)] = &[
    (&["native"], "native is another machine everywhere; use CpuFeatures::host(), which is the default"),
    (
        &["-march", "-mcpu"],
        "the host's features are compiled for already, see CpuFeatures::host(); name others one by one, as in -mavx2, or \
         with CpuTarget::with_features",
    ),
    (&["-m16", "-m31", "-m32", "-mx32"], "the object would not load in this process; leave it out"),
    (
        &["-Wa,", "-Wl,", "-Wp,", "-mllvm"],
        "arguments for the assembler, the linker and other programs are not passed through; leave it out",
    ),
    (
        &["plugin", "profil", "coverage", "branch-prob", "dump", "time", "info", "record", "usage", "crash"],
        FILES,
    ),
    (&["diagnostics", "ignorelist", "blacklist", "sanitize-sys", "split-dwarf", "xray"], FILES),
    (&["module", "prebuilt", "pch"], FILES),
    (&["lto"], "a kernel is one source, so there is nothing to optimise at link time; leave it out"),
    (
        &["-fuse-ld", "integrated", "offload", "linker"],
        "it runs a program that the compiler's identity does not hold; leave it out",
    ),
    (&["prefix-map", "compilation-dir"], "paths are kept out of the object already; leave it out"),
    (&["charset"], "sources and headers are UTF-8, and so are strings; leave it out"),
    (&["preprocessed", "directives-only", "syntax-only"], "an object is made of C; leave it out"),
    (&["-fms-", "system-headers"], "it changes how headers are looked for or listed; leave it out"),
];

const FILES: &str = "it reads or writes files that no key holds; leave it out";

/// Sanitizers that replace the allocator or follow every access.
const SANITIZERS: &[&str] = &["address", "kernel", "leak", "memory", "thread", "dataflow", "all"];

/// Beginnings that are accepted where nothing in [`REFUSED`] fits.
const ACCEPTED: &[&str] = &["-O", "-f", "-m", "-std=", "-W", "-g"];

/// Beginnings of flags for the machine that ask for no instructions which not every CPU has. Others have to be features
/// that can be found out.
const NO_FEATURES: &[&str] = &[
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

/// The library that is linked after the source. The only one: others would have to be in the key.
pub(super) const MATH_LIBRARY: &str = "-lm";

/// Refuses the first flag that is not accepted, and what is no name of a feature.
pub(super) fn check(flags: &[String], features: &CpuFeatures) -> Result<(), CompileError> {
    let odd = "it is no name of a CPU feature; see CpuFeatures::host() for those that are";
    let refused = flags.iter().find_map(|flag| Some((flag.as_str(), remedy(flag)?)));
    match refused.or_else(|| features.odd_name().map(|name| (name, odd))) {
        Some((flag, remedy)) => Err(CompileProblem::RefusedFlag { flag: flag.into(), remedy }.into()),
        None => Ok(()),
    }
}

/// What to do instead of this flag, unless it is accepted.
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
    if let Some((_, remedy)) = REFUSED.iter().find(|(parts, _)| parts.iter().any(holds)) {
        return Some(remedy);
    }
    if flag.starts_with("-m") && !NO_FEATURES.iter().any(begins) && named_by(flag).is_none() {
        return Some(
            "it may ask for a CPU feature that cannot be found out, and an object that needs one would crash where it \
             lacks; name those that CpuFeatures knows, in CpuTarget::with_features or as in -mavx2",
        );
    }
    // Whatever a newer compiler means by it: without a path it reaches nothing but a fresh directory of ours.
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
        let error = check(&["-mamx-tile".into()], &CpuFeatures::none()).unwrap_err();
        assert!(error.to_string().contains("CpuTarget::with_features"), "{error}");
    }

    #[test]
    fn the_error_names_the_flag_and_what_to_do() {
        let error = check(&["-O2".into(), "-march=native".into()], &CpuFeatures::none()).unwrap_err();
        assert!(error.is_refused_flag());
        assert!(error.to_string().contains("`-march=native`"), "{error}");
        assert!(error.to_string().contains("CpuFeatures::host()"), "{error}");
    }
}
