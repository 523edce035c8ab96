//! The CUDA target's one call: what it is given, and what is wrong with it.

use std::{
    fs,
    sync::{
        Barrier,
        atomic::{AtomicU32, Ordering},
    },
    thread,
};

use warmstart::{
    Artifact, Cache, Limits, Metadata, MissReason, Store,
    cache::Origin,
    store::{FileStore, MemoryStore, StoreOptions},
    target::cuda::{
        CodeType, CudaError, CudaTarget, ExtraDigest, OptionName, Program, TargetType, Toolkit, Value,
    },
};
use warmstart_tests::cuda;
use warmstart_tests::whole::Whole;

/// Whatever the directory is that the compiler's own answers are kept under, a program adds one entry.
const NO_PROGRAM: u64 = 1;

fn memory() -> Cache<MemoryStore> {
    Cache::new(MemoryStore::new(Limits::NONE))
}

fn cxx(source: &str) -> Program {
    Program::cxx("f.cu", source).arch("sm_80")
}

/// A kernel that stores what an expression is worth.
fn storing(before: &str, value: &str) -> Program {
    cxx(&format!("{before}\nextern \"C\" __global__ void f(int *x) {{ x[0] = {value}; }}"))
}

/// The program is refused or rejected, twice alike, and nothing is stored.
#[track_caller]
fn fails(target: &CudaTarget, program: &Program) -> CudaError {
    let cache = memory();
    let error = target.compile(&cache, program).unwrap_err();
    assert_eq!(target.compile(&cache, program).unwrap_err().to_string(), error.to_string());
    assert!(cache.store().whole().unwrap() <= NO_PROGRAM, "nothing of it is stored");
    assert_eq!((cache.statistics().hits, cache.statistics().builds), (0, 0));
    error
}

/// The program compiles, and is found from then on.
#[track_caller]
fn compiles(target: &CudaTarget, program: &Program) -> Vec<u8> {
    let cache = memory();
    let built = target.compile(&cache, program).unwrap();
    let found = target.compile(&cache, program).unwrap();
    assert!(!built.is_hit() && found.is_hit());
    assert_eq!(built.binary(), found.binary());
    assert_eq!(built.log(), found.log());
    built.binary().to_vec()
}

#[test]
#[cfg_attr(not(has_cuda), ignore = "needs the CUDA compilers: cargo xtask runtimes --cuda")]
fn failed_compilation_reports_the_log_and_stores_nothing() {
    let target = cuda::target();
    let error = fails(&target, &storing("", "missing"));
    assert!(error.is_rejected_source() && !error.is_refused());
    assert!(error.log().unwrap().contains("identifier \"missing\" is undefined"), "{error}");
    assert!(error.log().unwrap().contains("/warmstart/f.cu(2)"), "{error}");
    // A repaired program compiles through the same target.
    compiles(&target, &storing("#define missing 1", "missing"));
    let error =
        fails(&target, &cxx("template <class T> __global__ void f(T *x) {}").name_expression("g<int>"));
    assert!(error.is_rejected_source(), "{error}");
}

#[test]
#[cfg_attr(not(has_cuda), ignore = "needs the CUDA compilers: cargo xtask runtimes --cuda")]
fn unknown_architecture_is_named_with_those_the_compiler_knows() {
    let target = cuda::target();
    let error = fails(&target, &storing("", "1").arch("sm_999"));
    assert!(error.is_unknown_architecture(), "{error}");
    let text = error.to_string();
    assert!(text.contains("sm_999") && text.contains("sm_90,"), "{text}");
    for arch in ["", "90", "sm_", "sm_90 ", "SM_90", "sm_90x", "compute_90", "sm_9\u{660}"] {
        let error = fails(&target, &storing("", "1").arch(arch));
        assert!(error.is_refused() && error.to_string().contains("arch"), "{arch}: {error}");
    }
    let error = fails(&target, &Program::cxx("f.cu", "__global__ void f() {}"));
    assert!(error.to_string().contains("arch"), "there is no default: {error}");
}

/// The whole name of the architecture decides, and so does what it is compiled to.
#[test]
#[cfg_attr(not(has_cuda), ignore = "needs the CUDA compilers: cargo xtask runtimes --cuda")]
fn a_binary_for_another_architecture_is_never_served() {
    let target = cuda::target();
    let cache = memory();
    let programs =
        ["sm_80", "sm_90", "sm_90a", "sm_100", "sm_100a", "sm_100f"].map(|arch| storing("", "1").arch(arch));
    let ptx = ["sm_90", "compute_90"].map(|arch| storing("", "1").arch(arch).target(TargetType::Ptx));
    for program in programs.iter().chain(&ptx) {
        let built = target.compile(&cache, program).unwrap();
        assert_eq!(built.fetched().miss(), Some(MissReason::Absent), "{program:?}");
    }
    for program in programs.iter().chain(&ptx) {
        let found = target.compile(&cache, program).unwrap();
        assert!(found.is_hit());
        assert_eq!(found.binary(), target.compile(&memory(), program).unwrap().binary());
    }
}

#[test]
#[cfg_attr(not(has_cuda), ignore = "needs the CUDA compilers: cargo xtask runtimes --cuda")]
fn bytes_that_c_would_cut_are_refused() {
    let target = cuda::target();
    let cut = |program: Program| {
        let error = fails(&target, &program);
        assert!(error.is_refused() && error.to_string().contains("NUL"), "{error}");
    };
    cut(storing("// \0", "1"));
    cut(Program::cxx("f\0.cu", "").arch("sm_80"));
    cut(storing("", "1").option(OptionName::Std, "c++17\0"));
    cut(storing("", "1").name_expression("f\0"));
    cut(storing("#include \"a.cuh\"", "1").header("a.cuh", "\0"));
    cut(Program::ptx("f.ptx", ".version 8.0\0").arch("sm_80"));
}

#[test]
#[cfg_attr(not(has_cuda), ignore = "needs the CUDA compilers: cargo xtask runtimes --cuda")]
fn ten_mebibytes_of_source_are_compiled_and_found() {
    let target = cuda::target();
    let mut long = String::with_capacity(10 << 20);
    while long.len() < 10 << 20 {
        long.push_str(
            "// a comment that is as long as a line is, and that says nothing at all to the compiler\n",
        );
    }
    compiles(&target, &storing(&long, "1"));
}

#[test]
#[cfg_attr(not(has_cuda), ignore = "needs the CUDA compilers: cargo xtask runtimes --cuda")]
fn includes_in_a_circle_end_where_the_compiler_ends_them() {
    let target = cuda::target();
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(directory.path().join(name), text).unwrap();
    write("a.cuh", "#pragma once\n#include \"b.cuh\"\n");
    write("b.cuh", "#ifndef B\n#define B\n#include \"a.cuh\"\n#define VALUE 7\n#endif\n");
    let around = storing("#include \"a.cuh\"", "VALUE").include_dir(directory.path());
    compiles(&target, &around);
    write("endless.cuh", "#include \"endless.cuh\"\n");
    let endless = storing("#include \"endless.cuh\"", "1").include_dir(directory.path());
    assert!(fails(&target, &endless).is_rejected_source());
}

#[test]
#[cfg_attr(not(has_cuda), ignore = "needs the CUDA compilers: cargo xtask runtimes --cuda")]
fn a_directory_that_is_called_like_a_header_is_passed_over() {
    let target = cuda::target();
    let directory = tempfile::tempdir().unwrap();
    let (first, second) = (directory.path().join("first"), directory.path().join("second"));
    fs::create_dir_all(first.join("value.cuh")).unwrap();
    fs::create_dir_all(&second).unwrap();
    let program = storing("#include <value.cuh>", "VALUE").include_dir(&first).include_dir(&second);
    assert!(fails(&target, &program).is_rejected_source());
    fs::write(second.join("value.cuh"), "#define VALUE 7\n").unwrap();
    compiles(&target, &program);
}

#[test]
#[cfg_attr(not(has_cuda), ignore = "needs the CUDA compilers: cargo xtask runtimes --cuda")]
fn include_only_the_preprocessor_knows_is_refused_with_a_remedy() {
    let target = cuda::target();
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("value.cuh"), "#define VALUE 7\n").unwrap();
    let computed = |before: &str| storing(before, "VALUE").include_dir(directory.path());
    for before in [
        "#define NAME(x) <x.cuh>\n#include NAME(value)",
        "#define TEXT(x) #x\n#include TEXT(value.cuh)",
        "#define NAME <value.cuh>\n#include NAME",
        "#define HAS(x) __has_include(x)\n#if HAS(<value.cuh>)\n#include <value.cuh>\n#endif",
    ] {
        let error = fails(&target, &computed(before));
        assert!(error.is_refused(), "{before}: {error}");
        let text = error.to_string();
        assert!(text.contains("f.cu") || text.contains("source"), "where: {text}");
        assert!(text.contains("Program::header_digest") && !text.contains('\n'), "the way out: {text}");
    }
    // In a branch that is skipped it does no harm, and headers of others have such branches.
    let skipped = computed(
        "#define NAME(x) <x.cuh>\n#ifndef __CUDACC_RTC__\n#include NAME(value)\n#endif\n#define VALUE 7",
    );
    compiles(&target, &skipped);
    let by_option = computed("#include NAME").option(OptionName::DefineMacro, ["NAME=<value.cuh>"]);
    assert!(fails(&target, &by_option).is_refused());
}

#[test]
#[cfg_attr(not(has_cuda), ignore = "needs the CUDA compilers: cargo xtask runtimes --cuda")]
fn headers_that_a_digest_answers_for_are_left_to_the_compiler() {
    let target = cuda::target();
    let directory = tempfile::tempdir().unwrap();
    let (source, include) = (directory.path().join("source"), directory.path().join("include"));
    fs::create_dir_all(&source).unwrap();
    fs::create_dir_all(include.join("inner")).unwrap();
    let digest = |byte| ExtraDigest::new(&[byte; 32]).unwrap();
    let before = "#include \"pre.cuh\"\n#define TEXT(x) #x\n#include TEXT(here.cuh)\n#define IN <inner/value.cuh>\n#include IN\n\
                  #include \"given.cuh\"";
    let program = storing(before, "VALUE + HERE + GIVEN + PRE")
        .source_dir(&source)
        .include_dir(&include)
        .header("given.cuh", "#define GIVEN 4000\n");
    fs::write(source.join("here.cuh"), "#define HERE 300\n").unwrap();
    fs::write(include.join("pre.cuh"), "#define PRE 20\n").unwrap();
    fs::write(include.join("inner/value.cuh"), "#include \"beside.cuh\"\n").unwrap();
    let cache = memory();
    let mut binaries = Vec::new();
    for value in [1, 2] {
        fs::write(include.join("inner/beside.cuh"), format!("#define VALUE {value}\n")).unwrap();
        let program = program.clone().header_digest(digest(value));
        let compiled = target.compile(&cache, &program).unwrap();
        assert!(!compiled.is_hit() && target.compile(&cache, &program).unwrap().is_hit());
        binaries.push(compiled.binary().to_vec());
        let recipe = format!("{:?}", target.key(&cache, &program).unwrap().1);
        assert!(!recipe.contains(directory.path().to_str().unwrap()), "a key has no path: {recipe}");
    }
    assert_ne!(binaries[0], binaries[1]);
    // One digest stands for another in nothing.
    let keys = [
        program.clone().header_digest(digest(1)),
        program.clone().header_digest(digest(2)),
        program.clone().header_digest(digest(1)).extra_digest(digest(1)),
        program.clone().header_digest(digest(1)).extra_digest(digest(2)),
        program.clone().header_digest(digest(2)).extra_digest(digest(1)),
        program.clone().header_digest(digest(1)).header("fast.cuh", "1"),
        program.clone().header_digest(digest(1)).header("fast.cuh", "2"),
        program.clone().header_digest(digest(1)).include_dir("/nowhere"),
    ]
    .map(|program| target.key(&cache, &program).unwrap().0);
    for (place, key) in keys.iter().enumerate() {
        assert!(!keys[..place].contains(key), "{place}");
    }
}

#[test]
#[cfg_attr(not(has_cuda), ignore = "needs the CUDA compilers: cargo xtask runtimes --cuda")]
fn options_in_another_order_are_the_same_program() {
    let target = cuda::target();
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("value.cuh"), "#define VALUE (A + B)\n").unwrap();
    let program = |options: &[(OptionName, Value)]| {
        let program = storing("#include <value.cuh>", "VALUE").include_dir(directory.path());
        options.iter().cloned().fold(program, |program, (name, value)| program.option(name, value))
    };
    let set = |macros: [&str; 2]| -> [(OptionName, Value); 5] {
        [
            (OptionName::Arch, "sm_90".into()),
            (OptionName::DefineMacro, macros.into()),
            (OptionName::Std, "c++17".into()),
            (OptionName::UseFastMath, true.into()),
            (OptionName::Lineinfo, true.into()),
        ]
    };
    let one = set(["A=1", "B=2"]);
    let mut other = one.clone();
    other.reverse();
    let cache = memory();
    assert!(!target.compile(&cache, &program(&one)).unwrap().is_hit());
    assert!(target.compile(&cache, &program(&other)).unwrap().is_hit());
    // The order of definitions is another program.
    let redefined = program(&set(["B=2", "A=1"]));
    assert!(!target.compile(&cache, &redefined).unwrap().is_hit());
}

/// The same checkout elsewhere, compiled in another directory: nothing of either is in the binary.
#[test]
#[cfg_attr(not(has_cuda), ignore = "needs the CUDA compilers: cargo xtask runtimes --cuda")]
fn no_path_is_in_the_key_or_in_the_binary() {
    let target = cuda::target();
    let directory = tempfile::tempdir().unwrap();
    let cache = memory();
    let source = "#include \"inner/value.cuh\"\n__device__ const char *where = __FILE__;\n\
                  extern \"C\" __global__ void f(int *x) { x[0] = value(); }\n";
    let mut binaries = Vec::new();
    for (place, hit) in [("one", false), ("another/and/deeper", true)] {
        let root = directory.path().join(place);
        fs::create_dir_all(root.join("include/inner")).unwrap();
        fs::write(root.join("f.cu"), source).unwrap();
        let header = "__device__ int value() { return blockIdx.x * 7; }\n";
        fs::write(root.join("include/inner/value.cuh"), header).unwrap();
        let program = Program::open(root.join("f.cu"))
            .unwrap()
            .arch("sm_80")
            .include_dir(root.join("include"))
            .option(OptionName::Lineinfo, true);
        let compiled = target.compile(&cache, &program).unwrap();
        assert_eq!(compiled.is_hit(), hit);
        let fresh = target.compile(&memory(), &program).unwrap();
        binaries.push(fresh.binary().to_vec());
        let path = directory.path().to_str().unwrap().as_bytes();
        let current = std::env::current_dir().unwrap();
        let current = current.to_str().unwrap().as_bytes();
        for hidden in [path, current] {
            assert!(!fresh.binary().windows(hidden.len()).any(|window| window == hidden));
        }
        let shown = b"/warmstart/include0/inner";
        assert!(fresh.binary().windows(shown.len()).any(|window| window == shown));
    }
    assert_eq!(binaries[0], binaries[1]);
}

#[test]
#[cfg_attr(not(has_cuda), ignore = "needs the CUDA compilers: cargo xtask runtimes --cuda")]
fn every_language_is_compiled_linked_and_found() {
    let target = cuda::target();
    let relocatable = |program: Program| program.option(OptionName::RelocatableDeviceCode, true);
    let ptx = compiles(&target, &relocatable(storing("", "1")).target(TargetType::Ptx));
    let ptx = String::from_utf8(ptx).unwrap();
    let cubin = compiles(&target, &Program::ptx("f.ptx", ptx).arch("sm_80"));
    assert_eq!(cubin[..4], *b"\x7fELF");
    let lto = |program: Program| {
        let program = relocatable(program).target(TargetType::LtoIr);
        compiles(&target, &program.option(OptionName::LinkTimeOptimization, true))
    };
    let caller = lto(cxx(
        "extern __device__ int value();\nextern \"C\" __global__ void f(int *x) { x[0] = value(); }",
    ));
    let callee = lto(cxx("__device__ int value() { return 7; }"));
    let linked = Program::ltoir("f", caller).arch("sm_80").option(OptionName::LinkTimeOptimization, true);
    assert!(fails(&target, &linked).is_rejected_source(), "it calls what is not there");
    let linked = compiles(&target, &linked.extra_source("value", callee));
    assert_eq!(linked[..4], *b"\x7fELF");
    let ir = "target triple = \"nvptx64-nvidia-cuda\"\n\
              target datalayout = \"e-p:64:64:64-i1:8:8-i8:8:8-i16:16:16-i32:32:32-i64:64:64-i128:128:128-f32:32:32-\
              f64:64:64-v16:16:16-v32:32:32-v64:64:64-v128:128:128-n16:32:64\"\n\
              declare float @__nv_sinf(float)\n\
              define void @f(float* %x) {\n  %v = load float, float* %x\n  %s = call float @__nv_sinf(float %v)\n  \
              store float %s, float* %x\n  ret void\n}\n\
              !nvvm.annotations = !{!0}\n!0 = !{void (float*)* @f, !\"kernel\", i32 1}\n\
              !nvvmir.version = !{!1}\n!1 = !{i32 2, i32 0}\n";
    let nvvm = Program::nvvm("f.ll", ir).arch("compute_80");
    let with = compiles(&target, &nvvm.clone().libdevice());
    assert!(String::from_utf8(with).unwrap().contains(".entry f"));
}

/// The language and the target decide which compiler runs, and a pair that no compiler takes is refused.
#[test]
#[cfg_attr(not(has_cuda), ignore = "needs the CUDA compilers: cargo xtask runtimes --cuda")]
fn pair_that_no_compiler_takes_is_refused() {
    let target = cuda::target();
    for (program, pair) in [
        (Program::ptx("f", "").arch("sm_80").target(TargetType::LtoIr), (CodeType::Ptx, TargetType::LtoIr)),
        (Program::nvvm("f", "").arch("sm_80").target(TargetType::Cubin), (CodeType::Nvvm, TargetType::Cubin)),
        (
            Program::ltoir("f", [1]).arch("sm_80").target(TargetType::LtoIr),
            (CodeType::LtoIr, TargetType::LtoIr),
        ),
    ] {
        let error = fails(&target, &program);
        let text = error.to_string();
        assert!(error.is_refused() && text.contains(pair.0.as_str()), "{pair:?}: {text}");
    }
}

#[test]
#[cfg_attr(not(has_cuda), ignore = "needs the CUDA compilers: cargo xtask runtimes --cuda")]
fn threads_that_want_the_same_programs_compile_each_once() {
    const THREADS: usize = 8;
    let target = cuda::target();
    let directory = tempfile::tempdir().unwrap();
    let cache = Cache::new(FileStore::open(directory.path(), StoreOptions::default()).unwrap());
    let start = Barrier::new(THREADS);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                start.wait();
                for value in 0..4 {
                    let program = storing("", &value.to_string());
                    let compiled = target.compile(&cache, &program).unwrap();
                    assert!(!compiled.binary().is_empty());
                }
            });
        }
    });
    assert_eq!(cache.statistics().builds, 4);
}

/// A header that is edited between the look-up and the compilation: what is returned is of the new text, and so is what is
/// stored.
#[test]
#[cfg_attr(not(has_cuda), ignore = "needs the CUDA compilers: cargo xtask runtimes --cuda")]
fn header_edited_all_the_time_is_never_stored_as_another() {
    let target = cuda::target();
    let directory = tempfile::tempdir().unwrap();
    let header = directory.path().join("value.cuh");
    let text = |value: u32| format!("#define VALUE {value}\n");
    fs::write(&header, text(0)).unwrap();
    let cache = memory();
    let program = storing("#include \"value.cuh\"", "VALUE").source_dir(directory.path());
    let done = std::sync::atomic::AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for value in (1..=40u32).cycle() {
                if done.load(std::sync::atomic::Ordering::Relaxed) {
                    break;
                }
                let incoming = directory.path().join("incoming");
                fs::write(&incoming, text(value)).unwrap();
                fs::rename(&incoming, &header).unwrap();
            }
        });
        for _ in 0..10 {
            let compiled = target.compile(&cache, &program).unwrap();
            assert!(!matches!(compiled.fetched().origin(), Origin::Built { stored: Err(_), .. }));
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    for value in 0..=40 {
        fs::write(&header, text(value)).unwrap();
        let found = target.compile(&cache, &program).unwrap();
        assert_eq!(found.binary(), target.compile(&memory(), &program).unwrap().binary(), "value {value}");
    }
}

/// A store whose entry of a binary lacks the names that are wanted of it.
#[test]
#[cfg_attr(not(has_cuda), ignore = "needs the CUDA compilers: cargo xtask runtimes --cuda")]
fn a_binary_without_its_lowered_names_is_a_miss() {
    let target = cuda::target();
    let program = cxx("template <class T> __global__ void f(T *x) {}").name_expression("f<int>");
    // No list of names, an empty one, one of another name, and one of a name that was given as bytes.
    let another = &b"\x01\0\x06g<int>\x02_Z"[..];
    for kept in [None, Some(&b"\0"[..]), Some(another), Some(b"\x01\x01\x06f<int>\x02_Z")] {
        let cache = memory();
        let key = target.key(&cache, &program).unwrap().0;
        let list = kept.map(|kept| Metadata::new().with_attribute("cuda.lowered_names", kept));
        let stored = Artifact::new(vec![1, 2, 3]).with_metadata(&list.unwrap_or_default());
        cache.store().put(key.as_bytes(), &stored).unwrap();
        let compiled = target.compile(&cache, &program).unwrap();
        assert_eq!(compiled.fetched().miss(), Some(MissReason::Malformed), "{kept:?}");
        assert_eq!(compiled.lowered_name("f<int>"), Some("_Z1fIiEvPT_"));
        assert!(target.compile(&cache, &program).unwrap().is_hit());
    }
}

#[test]
#[cfg_attr(not(has_cuda), ignore = "needs the CUDA compilers: cargo xtask runtimes --cuda")]
fn what_is_missing_is_one_clear_line() {
    let folder = cuda::libraries();
    let directory = tempfile::tempdir().unwrap();
    let only = |name: &str| {
        let place = directory.path().join(name);
        fs::create_dir(&place).unwrap();
        std::os::unix::fs::symlink(folder.join(name), place.join(name)).unwrap();
        CudaTarget::new(Toolkit::at(place).unwrap())
    };
    let target = only("libnvvm.so.4");
    let error = target.compile(&memory(), &storing("", "1")).unwrap_err();
    let text = error.to_string();
    assert!(error.is_no_library() && !text.contains('\n'), "{text}");
    assert!(text.contains("NVRTC") && text.contains("pip install nvidia-cuda-nvrtc"), "{text}");
}

/// The compiler sees names that no editor can open, and no directories: so the error says what they stand for.
#[test]
#[cfg_attr(not(has_cuda), ignore = "needs the CUDA compilers: cargo xtask runtimes --cuda")]
fn a_rejected_program_says_where_its_headers_were_looked_for() {
    let target = cuda::target();
    let directory = tempfile::tempdir().unwrap();
    let missing = directory.path().join("missing");
    let program = storing("#include \"a.cuh\"\n#include \"no.cuh\"", "1").source_dir(directory.path());
    fs::write(directory.path().join("a.cuh"), "int wrong = ;\n").unwrap();
    let text = fails(&target, &program.include_dir(&missing)).to_string();
    assert!(text.contains(&format!("/warmstart/source is {}\n", directory.path().display())), "{text}");
    assert!(
        text.ends_with(&format!("/warmstart/include0 is {}, which is no directory", missing.display())),
        "{text}"
    );
    let text = fails(&target, &storing("#include \"no.cuh\"", "1")).to_string();
    assert!(text.contains("Program::include_dir"), "{text}");
    let text = fails(&target, &storing("", "missing")).to_string();
    assert!(!text.contains("include_dir"), "include_dir is not asked for: {text}");
}

/// A store with something that happens before each look-up.
struct Before<F> {
    inner: MemoryStore,
    happens: F,
}

impl<F> std::fmt::Debug for Before<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.inner.fmt(f)
    }
}

impl<F: Fn(&MemoryStore, &[u8]) + Send + Sync> Store for Before<F> {
    fn get(&self, key: &[u8]) -> Result<Artifact, MissReason> {
        (self.happens)(&self.inner, key);
        self.inner.get(key)
    }

    fn put(&self, key: &[u8], artifact: &Artifact) -> Result<u64, MissReason> {
        self.inner.put(key, artifact)
    }

    fn remove(&self, key: &[u8]) -> Result<bool, MissReason> {
        self.inner.remove(key)
    }

    fn contains(&self, key: &[u8]) -> Result<bool, MissReason> {
        self.inner.contains(key)
    }

    fn clear(&self) -> Result<(), MissReason> {
        self.inner.clear()
    }

    fn flush(&self) -> Result<(), MissReason> {
        self.inner.flush()
    }
}

#[test]
#[cfg_attr(not(has_cuda), ignore = "needs the CUDA compilers: cargo xtask runtimes --cuda")]
fn a_header_that_never_stands_still_is_compiled_as_it_was_read() {
    let target = cuda::target();
    let directory = tempfile::tempdir().unwrap();
    let header = directory.path().join("value.cuh");
    fs::write(&header, "#define VALUE 0\n").unwrap();
    let program =
        storing("#include \"value.cuh\"", "VALUE").target(TargetType::Ptx).source_dir(directory.path());
    let value = AtomicU32::new(1000);
    let happens = |_: &MemoryStore, _: &[u8]| {
        fs::write(&header, format!("#define VALUE {}\n", value.fetch_add(1, Ordering::Relaxed))).unwrap();
    };
    let cache = Cache::new(Before { inner: MemoryStore::new(Limits::NONE), happens });
    let compiled = target.compile(&cache, &program).unwrap();
    assert!(!compiled.is_hit());
    // The file now there is the one read: nothing is looked up after that.
    let last = value.load(Ordering::Relaxed) - 1;
    let text = std::str::from_utf8(compiled.binary()).unwrap();
    assert!(text.contains(&last.to_string()), "{last}: {text}");
    let key = target.key(&cache, &program).unwrap().0;
    assert_eq!(cache.store().contains(key.as_bytes()), Ok(true));
}

#[test]
#[cfg_attr(not(has_cuda), ignore = "needs the CUDA compilers: cargo xtask runtimes --cuda")]
fn name_expressions_in_any_order_or_repeated_give_one_key() {
    let target = cuda::target();
    let cache = memory();
    let template = || cxx("template <int N> __global__ void f(int *x) { x[0] = N; }");
    let one = template().name_expression("f<2>").name_expression("f<1>").name_expression("f<2>");
    let other = template().name_expression("f<1>").name_expression("f<2>");
    let built = target.compile(&cache, &one).unwrap();
    let found = target.compile(&cache, &other).unwrap();
    assert!(!built.is_hit() && found.is_hit());
    assert!(built.lowered_names().eq(found.lowered_names()));
    assert_eq!(built.lowered_names().count(), 2);
}

/// Two checkouts want one binary, and while the first builds it, the first is edited.
#[test]
#[cfg_attr(not(has_cuda), ignore = "needs the CUDA compilers: cargo xtask runtimes --cuda")]
fn waiter_never_gets_the_edited_source_of_another_checkout() {
    let target = cuda::target();
    let directory = tempfile::tempdir().unwrap();
    let checkout = |name: &str| {
        let place = directory.path().join(name);
        fs::create_dir(&place).unwrap();
        fs::write(place.join("value.cuh"), "#define VALUE 1\n").unwrap();
        storing("#include \"value.cuh\"", "VALUE").target(TargetType::Ptx).source_dir(place)
    };
    let (edited, untouched) = (checkout("edited"), checkout("untouched"));
    let right = target.compile(&memory(), &untouched).unwrap().binary().to_vec();
    let header = directory.path().join("edited/value.cuh");
    let (asked, others_may_come) = (AtomicU32::new(0), Barrier::new(2));
    let happens = |inner: &MemoryStore, key: &[u8]| {
        // The second look-up in vain is that of the thread that is about to build.
        if inner.contains(key) == Ok(false) && asked.fetch_add(1, Ordering::SeqCst) == 1 {
            others_may_come.wait();
            // Long enough for the other to look up, and to wait.
            thread::sleep(std::time::Duration::from_millis(500));
            fs::write(&header, "#define VALUE 2\n").unwrap();
        }
    };
    let cache = Cache::new(Before { inner: MemoryStore::new(Limits::NONE), happens });
    // The compiler is identified from here on.
    let _ = target.key(&cache, &untouched).unwrap();
    asked.store(0, Ordering::SeqCst);
    thread::scope(|scope| {
        scope.spawn(|| {
            let compiled = target.compile(&cache, &edited).unwrap();
            assert_ne!(compiled.binary(), right, "it was edited before it was read");
        });
        others_may_come.wait();
        assert_eq!(target.compile(&cache, &untouched).unwrap().binary(), right);
    });
}

/// A definition may be given as a text or as a list of one.
#[test]
#[cfg_attr(not(has_cuda), ignore = "needs the CUDA compilers: cargo xtask runtimes --cuda")]
fn a_definition_that_has_the_time_in_it_is_refused() {
    let target = cuda::target();
    let definition = "VALUE=__TIME__[7]";
    for program in [
        storing("", "VALUE").option(OptionName::DefineMacro, definition),
        storing("", "VALUE").option(OptionName::DefineMacro, [definition]),
    ] {
        let error = fails(&target, &program);
        assert!(error.is_refused() && error.to_string().contains("__TIME__"), "{error}");
    }
}
