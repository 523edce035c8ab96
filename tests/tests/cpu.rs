//! The CPU target with the machine's own compilers.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "every function here is part of a test")]

use std::{
    ffi::CStr,
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::{Duration, Instant},
};

use warmstart::{
    Artifact, Cache, Limits, Lookup, Reason, Store,
    cache::{Fetched, How},
    store::{MemoryStore, Stored},
    target::cpu::{Compiler, CpuFeatures, CpuTarget, Kernel, Library},
};
use warmstart_core::envelope;

type Memory = Cache<MemoryStore>;

fn memory() -> Memory {
    Cache::new(MemoryStore::new(Limits::NONE))
}

fn target() -> CpuTarget {
    CpuTarget::new(Compiler::find().unwrap())
}

/// One target for each compiler that this machine has.
fn targets() -> Vec<CpuTarget> {
    let others = ["/usr/bin/gcc", "/usr/bin/clang"].into_iter().filter_map(|path| Compiler::at(path).ok());
    [Compiler::find().unwrap()].into_iter().chain(others).map(CpuTarget::new).collect()
}

/// A new target of the same compiler and features: it remembers nothing, as a new process would not.
fn restarted(target: &CpuTarget) -> CpuTarget {
    let compiler = Compiler::at(target.compiler().path()).unwrap();
    CpuTarget::new(compiler).with_features(target.features().clone())
}

fn call(library: &Library, name: &str) -> i32 {
    // SAFETY: every function of these tests that is called has this type.
    unsafe { library.symbol::<unsafe extern "C" fn() -> i32>(name).unwrap()() }
}

/// What `int f(void)` of the kernel returns, and how the object was come by.
fn run<S: Store>(target: &CpuTarget, cache: &Cache<S>, kernel: &Kernel) -> (i32, Fetched) {
    let loaded = target.load(cache, kernel).unwrap();
    (call(loaded.library(), "f"), loaded.fetched().clone())
}

#[track_caller]
fn hits(target: &CpuTarget, cache: &Memory, kernel: &Kernel, value: i32) {
    for target in [target, &restarted(target)] {
        let (found, fetched) = run(target, cache, kernel);
        assert!(fetched.is_hit(), "{:?}", fetched.how());
        assert_eq!(found, value);
    }
}

#[track_caller]
fn misses(target: &CpuTarget, cache: &Memory, kernel: &Kernel, reason: Reason, value: i32) {
    let (found, fetched) = run(target, cache, kernel);
    assert_eq!((fetched.miss(), fetched.refusal()), (Some(reason), None));
    assert_eq!(found, value);
    hits(target, cache, kernel, value);
}

fn write(path: impl AsRef<Path>, content: &str) {
    fs::create_dir_all(path.as_ref().parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

fn script(path: &Path, text: &str) -> Compiler {
    write(path, &format!("#!/bin/sh\n{text}\n"));
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    Compiler::at(path).unwrap()
}

/// Long enough for what was just written to be trusted by its times.
fn settle() {
    thread::sleep(Duration::from_millis(2100));
}

const INCLUDING: &str = "#include \"value.h\"\nint f(void) { return VALUE; }";

#[test]
fn what_was_compiled_once_is_found_and_called() {
    for target in targets() {
        let cache = memory();
        let kernel =
            Kernel::new("f", "#include <math.h>\nint f(void) { return FORTY + 2; }").flag("-DFORTY=40");
        misses(&target, &cache, &kernel, Reason::Absent, 42);
        let statistics = cache.statistics();
        // Only the objects are counted, not what is looked up on the way to them.
        assert_eq!((statistics.hits, statistics.misses.total(), statistics.builds), (2, 1, 1));
        let renamed = Kernel::new("g", kernel.source()).flag("-DFORTY=40");
        hits(&target, &cache, &renamed, 42);
    }
}

#[test]
fn source_flags_and_the_number_of_directories_are_in_the_key() {
    let (target, cache) = (target(), memory());
    let kernel = |source| Kernel::new("f", source);
    misses(&target, &cache, &kernel("int f(void) { return 1; }"), Reason::Absent, 1);
    misses(&target, &cache, &kernel("int f(void) { return 2; }"), Reason::Absent, 2);
    misses(&target, &cache, &kernel("int f(void) { return 2; }").flag("-DX"), Reason::Absent, 2);
    misses(&target, &cache, &kernel("int f(void) { return 2; }").include_dir("/nowhere"), Reason::Absent, 2);
    misses(&target, &cache, &kernel("int f(void) { return 2; }").source_dir("/nowhere"), Reason::Absent, 2);
    hits(&target, &cache, &kernel("int f(void) { return 1; }"), 1);
}

#[test]
fn no_path_is_in_a_key_or_in_a_recipe() {
    let directory = tempfile::tempdir().unwrap();
    write(directory.path().join("value.h"), "#define VALUE 1\n");
    let (target, cache) = (target(), memory());
    let kernel = Kernel::new("f", INCLUDING).source_dir(directory.path());
    let fetched = target.compile(&cache, &kernel).unwrap();
    let metadata = fetched.artifact().metadata().unwrap();
    let recipe = format!("{:?}", metadata.recipe().unwrap());
    assert!(recipe.contains("header source/value.h"), "{recipe}");
    for path in [directory.path().to_str().unwrap(), "/usr", "/home", "/tmp", "native"] {
        assert!(!recipe.contains(path), "{path} in {recipe}");
    }
}

#[test]
fn an_edited_header_is_a_miss() {
    for target in targets() {
        let (directory, cache) = (tempfile::tempdir().unwrap(), memory());
        let header = directory.path().join("a b/value.h");
        write(&header, "#include \"deep.h\"\n");
        write(directory.path().join("a b/deep.h"), "#define VALUE 1\n");
        let kernel = Kernel::new("f", "#include \"a b/value.h\"\nint f(void) { return VALUE; }")
            .include_dir(directory.path());
        misses(&target, &cache, &kernel, Reason::Absent, 1);
        // Of the same length, and within the time that the file system's clock takes for one step.
        write(directory.path().join("a b/deep.h"), "#define VALUE 2\n");
        misses(&target, &cache, &kernel, Reason::InputChanged, 2);
        write(directory.path().join("a b/deep.h"), "#define VALUE 1\n");
        hits(&target, &cache, &kernel, 1);
        fs::remove_file(directory.path().join("a b/deep.h")).unwrap();
        let error = target.compile(&cache, &kernel).unwrap_err();
        assert!(error.is_rejected_source());
        let path = directory.path().join("a b/value.h");
        assert!(error.log().unwrap().contains(path.to_str().unwrap()), "{error}");
    }
}

#[test]
fn a_header_edited_back_and_forth_is_never_stale_however_it_is_written() {
    let (target, cache, directory) = (target(), memory(), tempfile::tempdir().unwrap());
    let header = directory.path().join("value.h");
    write(&header, "#define VALUE 1\n");
    let kernel = Kernel::new("f", INCLUDING).source_dir(directory.path());
    let _ = run(&target, &cache, &kernel);
    settle();
    // The digest of a settled header is remembered from here on.
    hits(&target, &cache, &kernel, 1);
    let old = fs::metadata(&header).unwrap();
    // A program can set the time of modification back, and keep inode and size.
    write(&header, "#define VALUE 2\n");
    fs::File::options().append(true).open(&header).unwrap().set_modified(old.modified().unwrap()).unwrap();
    assert_eq!(fs::metadata(&header).unwrap().modified().unwrap(), old.modified().unwrap());
    assert_eq!(run(&target, &cache, &kernel).0, 2);
    // Or replace the file by one that was written before.
    let other = directory.path().join("other");
    write(&other, "#define VALUE 3\n");
    fs::rename(&other, &header).unwrap();
    assert_eq!(run(&target, &cache, &kernel).0, 3);
}

#[test]
fn a_new_file_that_shadows_an_earlier_include_is_a_miss() {
    for target in targets() {
        let (directory, cache) = (tempfile::tempdir().unwrap(), memory());
        let at = |name: &str| directory.path().join(name);
        write(at("second/value.h"), "#define VALUE 1\n");
        write(at("second/way.h"), "#include \"value.h\"\n");
        fs::create_dir_all(at("first")).unwrap();
        fs::create_dir_all(at("source")).unwrap();
        let kernel = |text: &str| {
            Kernel::new("f", format!("{text}\nint f(void) {{ return VALUE; }}"))
                .source_dir(at("source"))
                .include_dir(at("first"))
                .include_dir(at("second"))
        };
        let define = |value: i32| format!("#define VALUE {value}\n");

        let quoted = kernel("#include \"value.h\"");
        let angled = kernel("#include <value.h>");
        misses(&target, &cache, &quoted, Reason::Absent, 1);
        misses(&target, &cache, &angled, Reason::Absent, 1);
        write(at("first/value.h"), &define(2));
        misses(&target, &cache, &quoted, Reason::InputChanged, 2);
        misses(&target, &cache, &angled, Reason::InputChanged, 2);
        write(at("source/value.h"), &define(3));
        misses(&target, &cache, &quoted, Reason::InputChanged, 3);
        hits(&target, &cache, &angled, 2);
        fs::remove_file(at("source/value.h")).unwrap();
        fs::remove_file(at("first/value.h")).unwrap();
        hits(&target, &cache, &quoted, 1);

        // Beside the file that includes it, which here is found in the second directory.
        fs::rename(at("second/value.h"), at("first/value.h")).unwrap();
        write(at("first/value.h"), &define(4));
        let through = kernel("#include \"way.h\"");
        misses(&target, &cache, &through, Reason::Absent, 4);
        write(at("second/value.h"), &define(5));
        misses(&target, &cache, &through, Reason::InputChanged, 5);

        // A directory that was not there, and a name that is a macro.
        write(at("second/deep/er/value.h"), &define(6));
        let deep = kernel("#include <deep/er/value.h>");
        let computed = kernel("#define NAME <deep/er/value.h>\n#include NAME");
        misses(&target, &cache, &deep, Reason::Absent, 6);
        misses(&target, &cache, &computed, Reason::Absent, 6);
        write(at("first/deep/er/value.h"), &define(7));
        misses(&target, &cache, &deep, Reason::InputChanged, 7);
        misses(&target, &cache, &computed, Reason::InputChanged, 7);

        // One of the compiler's own headers.
        let system = kernel("#include <math.h>\n#ifndef VALUE\n#define VALUE 8\n#endif");
        misses(&target, &cache, &system, Reason::Absent, 8);
        write(at("second/math.h"), &define(9));
        misses(&target, &cache, &system, Reason::InputChanged, 9);
    }
}

#[test]
fn directories_that_are_named_twice_are_no_trouble() {
    for target in targets() {
        let (directory, cache) = (tempfile::tempdir().unwrap(), memory());
        write(directory.path().join("value.h"), "#include <math.h>\n#define VALUE 1\n");
        let kernel = Kernel::new("f", INCLUDING)
            .source_dir(directory.path())
            .include_dir(directory.path())
            .include_dir("/usr/include")
            .include_dir(directory.path().join("."))
            .include_dir("/nowhere");
        misses(&target, &cache, &kernel, Reason::Absent, 1);
        write(directory.path().join("value.h"), "#include <math.h>\n#define VALUE 2\n");
        misses(&target, &cache, &kernel, Reason::InputChanged, 2);
    }
}

#[test]
fn a_copy_that_is_skipped_because_it_is_a_copy_is_looked_at() {
    for target in targets() {
        let (directory, cache) = (tempfile::tempdir().unwrap(), memory());
        let at = |name: &str| directory.path().join(name);
        // gcc skips a file that is marked so if one of the same time and content was read, and does not list it.
        let (one, two) = (at("source/value.h"), at("first/value.h"));
        for path in [&one, &two] {
            write(path, "#pragma once\nenum { CAT(value, __COUNTER__) };\n");
        }
        let time = fs::metadata(&one).unwrap().modified().unwrap();
        fs::File::options().append(true).open(&two).unwrap().set_modified(time).unwrap();
        let text = "#define CAT_(a, b) a##b\n#define CAT(a, b) CAT_(a, b)\n#include \"value.h\"\n#include <value.h>\n\
                    int f(void) { return __COUNTER__; }";
        let kernel = Kernel::new("f", text).source_dir(at("source")).include_dir(at("first"));
        let before = run(&target, &cache, &kernel).0;
        write(&two, "#pragma once\nenum { CAT(value, __COUNTER__), CAT(value, __COUNTER__) };\n");
        let after = run(&target, &memory(), &kernel).0;
        assert_ne!(before, after);
        misses(&target, &cache, &kernel, Reason::InputChanged, after);
    }
}

#[test]
fn a_link_that_leads_elsewhere_is_a_miss() {
    let (target, cache, directory) = (target(), memory(), tempfile::tempdir().unwrap());
    let at = |name: &str| directory.path().join(name);
    write(at("one/value.h"), "#define VALUE 1\n");
    write(at("two/value.h"), "#define VALUE 2\n");
    std::os::unix::fs::symlink(at("one"), at("current")).unwrap();
    let kernel = Kernel::new("f", INCLUDING).include_dir(at("current"));
    misses(&target, &cache, &kernel, Reason::Absent, 1);
    fs::remove_file(at("current")).unwrap();
    std::os::unix::fs::symlink(at("two"), at("current")).unwrap();
    misses(&target, &cache, &kernel, Reason::InputChanged, 2);
}

#[test]
fn the_answer_of_has_include_is_part_of_the_key() {
    for target in targets() {
        let (directory, cache) = (tempfile::tempdir().unwrap(), memory());
        let text = "#if __has_include(\"tuned.h\")\n#define VALUE 2\n#else\n#define VALUE 1\n#endif\n";
        write(directory.path().join("value.h"), text);
        let kernel = Kernel::new("f", INCLUDING).source_dir(directory.path());
        misses(&target, &cache, &kernel, Reason::Absent, 1);
        write(directory.path().join("tuned.h"), "");
        misses(&target, &cache, &kernel, Reason::InputChanged, 2);
        fs::remove_file(directory.path().join("tuned.h")).unwrap();
        hits(&target, &cache, &kernel, 1);
        write(directory.path().join("tuned.h"), "");
        hits(&target, &cache, &kernel, 2);
    }
}

#[test]
fn what_cannot_be_tracked_is_compiled_and_not_stored() {
    let (target, cache, directory) = (target(), memory(), tempfile::tempdir().unwrap());
    write(directory.path().join("value.h"), "#define H(x) __has_include(x)\n#define VALUE 1\n");
    write(directory.path().join("data"), "1");
    let data = directory.path().join("data");
    let path = data.to_str().unwrap();
    let simple = |text: String| Kernel::new("f", text);
    for kernel in [
        Kernel::new("f", INCLUDING).source_dir(directory.path()),
        simple("#define N <math.h>\n#if __has_include(N)\n#endif\nint f(void) { return 1; }".into()),
        simple(format!("__asm__(\".data\\n.incbin \\\"{path}\\\"\\n.text\"); int f(void) {{ return 1; }}")),
        simple("int f(void) { return ASK; }".into())
            .flag("-DASK=__has_include(NAME)")
            .flag("-DNAME=1")
            .flag("-UASK")
            .flag("-DASK=1"),
        simple("int f(void) { return sizeof __DATE__ > 0; }".into()).flag("-w"),
    ] {
        for _ in 0..2 {
            let (value, fetched) = run(&target, &cache, &kernel);
            assert_eq!(value, 1);
            assert_eq!(fetched.refusal(), Some(Reason::Uncacheable), "{}", kernel.source());
        }
    }
}

#[test]
fn a_file_that_the_assembler_reads_is_never_stale_however_its_directive_is_spelt() {
    for target in targets() {
        let (cache, directory) = (memory(), tempfile::tempdir().unwrap());
        let data = directory.path().join("data");
        let function = "extern const unsigned char d[]; int f(void) { return d[0]; }\n";
        for (head, directive) in [
            ("", "\".inc\" \"bin \\\"DATA\\\""),
            ("", "\".INCBIN \\\"DATA\\\""),
            ("", "\"\\x2eincbin \\\"DATA\\\""),
            ("#define D \".inc\"\n", "D \"bin \\\"DATA\\\""),
            ("#define S(x) #x\n", "S(.incb) \"in \\\"DATA\\\""),
            ("const char *s = R\"x(\" /* )x\";\n", "\".incbin \\\"DATA\\\""),
            ("", "\".macro m x\\n.inc\\\\x \\\"DATA\\\"\\n.endm\\nm bin"),
        ] {
            let directive = directive.replace("DATA", data.to_str().unwrap());
            let assembly = format!("__asm__(\".data\\n.globl d\\nd:\\n\" {directive}\\n.text\");\n");
            let kernel = Kernel::new("f", format!("{head}{assembly}{function}"));
            write(&data, "1");
            // Not every compiler takes every spelling.
            let Ok(_) = target.load(&cache, &kernel) else { continue };
            write(&data, "2");
            let (value, fetched) = run(&target, &cache, &kernel);
            assert_eq!(
                (value, fetched.refusal()),
                (i32::from(b'2'), Some(Reason::Uncacheable)),
                "{}",
                kernel.source()
            );
        }
    }
}

#[test]
fn a_header_behind_a_raw_string_or_a_pasted_question_is_looked_at() {
    let (target, cache, directory) = (target(), memory(), tempfile::tempdir().unwrap());
    let paste = "#define C(a, b) a##b\n#define ASK C(__has_, include)\n#if ASK(\"value.h\")\n";
    for head in [paste, "const char *s = R\"x(\" /* )x\";\n#if __has_include(\"value.h\")\n"] {
        let text = format!(
            "{head}#include \"value.h\"\n#else\n#define VALUE 1\n#endif\nint f(void) {{ return VALUE; }}"
        );
        let kernel = Kernel::new("f", text).source_dir(directory.path());
        // A compiler may take neither.
        let Ok(_) = target.compile(&cache, &kernel) else { continue };
        write(directory.path().join("value.h"), "#define VALUE 2\n");
        assert_eq!(run(&target, &cache, &kernel).0, 2);
        fs::remove_file(directory.path().join("value.h")).unwrap();
    }
}

#[test]
fn assembly_that_reads_no_file_is_stored() {
    let (target, cache) = (target(), memory());
    let text =
        "int f(void) { __asm__ volatile(\"\" ::: \"memory\"); return 1; }\nconst char *s = \"done.\\n\";\n";
    misses(&target, &cache, &Kernel::new("f", text), Reason::Absent, 1);
}

#[test]
fn a_date_in_a_kernel_is_an_error() {
    let error =
        target().compile(&memory(), &Kernel::new("f", "char *f(void) { return __DATE__; }")).unwrap_err();
    assert!(error.log().unwrap().contains("reproducible"), "{error}");
}

#[test]
fn a_precompiled_header_is_never_read() {
    if !cfg!(target_arch = "x86_64") {
        return;
    }
    let (target, cache, directory) = (target(), memory(), tempfile::tempdir().unwrap());
    let target = target.with_features(CpuFeatures::none());
    let header = directory.path().join("value.h");
    write(&header, "#define VALUE 1\n");
    // With the options that the kernel will be compiled with, or the compiler would refuse it by itself.
    let mut command = Command::new(target.compiler().path());
    command.args(["-march=x86-64", "-mtune=generic", "-O3", "-fPIC", "-x", "c-header"]);
    assert!(
        command.arg(&header).arg("-o").arg(directory.path().join("value.h.gch")).status().unwrap().success()
    );
    write(&header, "#define VALUE 2\n");
    let kernel = Kernel::new("f", INCLUDING).source_dir(directory.path());
    misses(&target, &cache, &kernel, Reason::Absent, 2);
}

#[test]
fn fewer_cpu_features_are_another_key() {
    let cache = memory();
    let kernel = Kernel::new("f", "int f(void) { return 1; }");
    let host = target();
    let Some(one) = host.features().names().next().map(String::from) else { return };
    let fewer = target().with_features(CpuFeatures::host().without(&one));
    misses(&host, &cache, &kernel, Reason::Absent, 1);
    misses(&fewer, &cache, &kernel, Reason::Absent, 1);
    hits(&host, &cache, &kernel, 1);

    let recipe = |target: &CpuTarget| {
        target.compile(&cache, &kernel).unwrap().artifact().metadata().unwrap().recipe().unwrap().clone()
    };
    let changes = recipe(&fewer).changes_to(&recipe(&host));
    assert!(changes.iter().any(|change| change.label == "cpu features"), "{changes:?}");
}

#[test]
fn the_features_are_named_and_the_host_is_not_guessed_at() {
    if !cfg!(target_arch = "x86_64") {
        return;
    }
    let source = "#ifdef __AVX2__\nint f(void) { return 2; }\n#else\nint f(void) { return 1; }\n#endif\n";
    for target in targets() {
        let cache = memory();
        let none = target.with_features(CpuFeatures::none());
        misses(&none, &cache, &Kernel::new("f", source), Reason::Absent, 1);
        if CpuFeatures::host().names().any(|name| name == "avx2") {
            let host = restarted(&none).with_features(CpuFeatures::host());
            misses(&host, &cache, &Kernel::new("f", source), Reason::Absent, 2);
            misses(&none, &cache, &Kernel::new("f", source).flag("-mavx2"), Reason::Absent, 2);
        }
    }
}

#[test]
fn what_is_no_name_of_a_feature_is_refused() {
    for name in ["native", "arch=native", "avx2 -march=native", ""] {
        let target = target().with_features(CpuFeatures::none().with(name));
        let error = target.compile(&memory(), &Kernel::new("f", "int f;")).unwrap_err();
        assert!(error.is_refused_flag(), "{error}");
    }
}

#[test]
fn an_object_for_features_that_the_host_lacks_is_not_loaded() {
    let fetched = target().compile(&memory(), &Kernel::new("f", "int f(void) { return 1; }")).unwrap();
    let with = |name: &str, value: &str| {
        let metadata = fetched.artifact().metadata().unwrap().with_attribute(name, value.as_bytes());
        fetched.artifact().clone().with_metadata(&metadata)
    };
    // SAFETY: the object is this test's.
    let load = |artifact: &Artifact| unsafe { Library::load(artifact) };
    assert!(load(fetched.artifact()).is_ok());
    let error = load(&with("cpu.features", "sse3 of_a_cpu_to_come")).unwrap_err();
    assert!(error.is_missing_feature());
    assert!(error.to_string().contains("of_a_cpu_to_come"), "{error}");
    assert!(load(&with("cpu.machine", "plan9 vax")).is_err());
}

#[test]
fn the_same_kernel_gives_the_same_bytes_wherever_it_is_compiled() {
    let source = "#include \"value.h\"\n#include <stdlib.h>\n#include <math.h>\nconst char *name(void) { return __FILE__; }\n\
                  int f(void) { return VALUE + (int)sqrt(4.0); }";
    for target in targets() {
        let objects: Vec<Vec<u8>> = (0..2)
            .map(|_| {
                let directory = tempfile::tempdir().unwrap();
                let text =
                    "static const char *path(void) { return __FILE__; }\n#define VALUE (path() != 0)\n";
                write(directory.path().join("value.h"), text);
                let kernel =
                    Kernel::new("f", source).include_dir(directory.path()).flags(["-g", "-g3", "-lm"]);
                let fetched = target.compile(&memory(), &kernel).unwrap();
                let object = fetched.artifact().payload().to_vec();
                let text = String::from_utf8_lossy(&object).into_owned();
                assert!(!text.contains(directory.path().to_str().unwrap()));
                assert!(!text.contains(std::env::temp_dir().to_str().unwrap()));
                assert!(!text.contains(env!("CARGO_MANIFEST_DIR")));
                object
            })
            .collect();
        assert!(objects[0] == objects[1], "two objects differ");
    }
}

#[test]
fn a_name_in_the_source_means_what_it_means_in_the_source_directory() {
    let (target, cache) = (target(), memory());
    let directory = tempfile::tempdir().unwrap();
    write(directory.path().join("value.h"), "#define VALUE 1\n");
    fs::create_dir_all(directory.path().join("source")).unwrap();
    let kernel = Kernel::new("f", "#include \"../value.h\"\nint f(void) { return VALUE; }")
        .source_dir(directory.path().join("source"));
    // What a neighbour of our temporary directory could be called.
    let neighbour = std::env::temp_dir().join("value.h");
    write(&neighbour, "#define VALUE 2\n");
    misses(&target, &cache, &kernel, Reason::Absent, 1);
    let _ = fs::remove_file(neighbour);
}

#[test]
fn a_rejected_source_is_an_error_with_the_log_and_is_not_stored() {
    let (target, cache) = (target(), memory());
    let _ = target.compile(&cache, &Kernel::new("f", "int f(void) { return 1; }")).unwrap();
    let before = cache.store().len().unwrap();
    let error = target.compile(&cache, &Kernel::new("broken", "int f(void) { return one; }")).unwrap_err();
    assert!(error.is_rejected_source());
    assert!(error.log().unwrap().contains("broken:1:"), "{error}");
    assert!(error.to_string().contains("broken"), "{error}");
    assert_eq!(cache.store().len(), Ok(before));
}

#[test]
fn a_missing_compiler_is_an_error_that_says_what_was_looked_for() {
    let error = Compiler::at("/no/such/cc").unwrap_err();
    assert!(error.is_no_compiler());
    assert!(error.to_string().contains("/no/such/cc"), "{error}");
    let directory = tempfile::tempdir().unwrap();
    let silent = script(&directory.path().join("cc"), "exit 1");
    let error = CpuTarget::new(silent).compile(&memory(), &Kernel::new("f", "int f;")).unwrap_err();
    assert!(error.is_no_compiler());
}

/// Refuses everything, or fails to find anything, as a store on a full or failing disk does.
#[derive(Debug)]
struct Broken(Reason);

impl Store for Broken {
    fn get(&self, _: &[u8]) -> Lookup {
        Lookup::Miss(self.0)
    }
    fn put(&self, _: &[u8], _: &Artifact) -> Result<Stored, Reason> {
        Err(self.0)
    }
    fn remove(&self, _: &[u8]) -> Result<bool, Reason> {
        Err(self.0)
    }
    fn contains(&self, _: &[u8]) -> Result<bool, Reason> {
        Err(self.0)
    }
    fn len(&self) -> Result<u64, Reason> {
        Err(self.0)
    }
    fn clear(&self) -> Result<(), Reason> {
        Err(self.0)
    }
    fn close(&self) -> Result<(), Reason> {
        Err(self.0)
    }
}

#[test]
fn a_store_that_refuses_everything_never_loses_the_object() {
    let target = target();
    for reason in [Reason::NoSpace, Reason::Unavailable, Reason::Busy] {
        let (value, fetched) =
            run(&target, &Cache::new(Broken(reason)), &Kernel::new("f", "int f(void) { return 3; }"));
        assert_eq!((value, fetched.miss(), fetched.refusal()), (3, Some(reason), Some(reason)));
    }
}

/// A store that anybody can look into: one file an entry.
#[derive(Debug)]
struct Files(PathBuf);

impl Files {
    fn path(&self, key: &[u8]) -> PathBuf {
        self.0.join(warmstart::Key::digest(key).to_string())
    }

    fn all(&self) -> Vec<PathBuf> {
        fs::read_dir(&self.0).unwrap().map(|entry| entry.unwrap().path()).collect()
    }
}

impl Store for Files {
    fn get(&self, key: &[u8]) -> Lookup {
        let Ok(bytes) = fs::read(self.path(key)) else { return Lookup::Miss(Reason::Absent) };
        envelope::decode(bytes, key).into()
    }
    fn put(&self, key: &[u8], artifact: &Artifact) -> Result<Stored, Reason> {
        fs::write(self.path(key), envelope::encode(key, artifact)?.to_vec())
            .map_err(|_| Reason::Unavailable)?;
        Ok(Stored::default())
    }
    fn remove(&self, key: &[u8]) -> Result<bool, Reason> {
        Ok(fs::remove_file(self.path(key)).is_ok())
    }
    fn contains(&self, key: &[u8]) -> Result<bool, Reason> {
        Ok(self.path(key).exists())
    }
    fn len(&self) -> Result<u64, Reason> {
        Ok(self.all().len() as u64)
    }
    fn clear(&self) -> Result<(), Reason> {
        Err(Reason::Unavailable)
    }
    fn close(&self) -> Result<(), Reason> {
        Ok(())
    }
}

#[test]
fn damage_anywhere_in_the_store_is_a_miss_and_mends_itself() {
    let directory = tempfile::tempdir().unwrap();
    let cache = Cache::new(Files(directory.path().into()));
    let kernel = Kernel::new("f", "#include <math.h>\nint f(void) { return 4; }");
    let _ = run(&target(), &cache, &kernel);
    let entries = cache.store().all();
    assert_eq!(entries.len(), 3, "the compiler, the manifest and the object");
    for entry in &entries {
        let whole = fs::read(entry).unwrap();
        for damaged in [&whole[..whole.len() / 2], &[&whole[..whole.len() - 9], b"something"].concat(), b""] {
            fs::write(entry, damaged).unwrap();
            assert_eq!(run(&target(), &cache, &kernel).0, 4);
            assert!(run(&target(), &cache, &kernel).1.is_hit());
        }
    }
}

#[test]
fn entries_that_are_sound_and_hold_something_else_are_misses() {
    #[derive(Debug)]
    struct Scrambled(MemoryStore);
    impl Store for Scrambled {
        fn get(&self, key: &[u8]) -> Lookup {
            match self.0.get(key) {
                // Manifests and probes have no metadata.
                Lookup::Hit(artifact) if artifact.encoded_metadata().is_empty() => {
                    Lookup::Hit(Artifact::new(artifact.payload().iter().map(|byte| byte ^ 0x55).collect()))
                }
                found => found,
            }
        }
        fn put(&self, key: &[u8], artifact: &Artifact) -> Result<Stored, Reason> {
            self.0.put(key, artifact)
        }
        fn remove(&self, key: &[u8]) -> Result<bool, Reason> {
            self.0.remove(key)
        }
        fn contains(&self, key: &[u8]) -> Result<bool, Reason> {
            self.0.contains(key)
        }
        fn len(&self) -> Result<u64, Reason> {
            self.0.len()
        }
        fn clear(&self) -> Result<(), Reason> {
            self.0.clear()
        }
        fn close(&self) -> Result<(), Reason> {
            self.0.close()
        }
    }
    let cache = Cache::new(Scrambled(MemoryStore::new(Limits::NONE)));
    let kernel = Kernel::new("f", "#include <math.h>\nint f(void) { return 4; }");
    assert_eq!(run(&target(), &cache, &kernel).1.miss(), Some(Reason::Absent));
    let (value, fetched) = run(&target(), &cache, &kernel);
    assert_eq!(value, 4);
    assert!(matches!(fetched.how(), How::Built { stored: Ok(_), .. }), "{:?}", fetched.how());
}

#[test]
fn a_warm_start_runs_no_compiler() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    let path = directory.path().join("cc");
    script(&path, &format!("echo \"$@\" >> {}\nexec cc \"$@\"", log.display()));
    settle();
    let cache = memory();
    let kernel = Kernel::new("f", "#include <math.h>\nint f(void) { return 5; }");
    let target = CpuTarget::new(Compiler::at(&path).unwrap());
    assert!(!run(&target, &cache, &kernel).1.is_hit());
    assert!(fs::read_to_string(&log).unwrap().contains("-MD"));
    fs::remove_file(&log).unwrap();
    hits(&target, &cache, &kernel, 5);
    // Another kernel needs the compiler, once and without asking what it is.
    assert!(!log.exists(), "{}", fs::read_to_string(&log).unwrap());
    let _ = run(&restarted(&target), &cache, &Kernel::new("f", "int f(void) { return 6; }"));
    assert_eq!(fs::read_to_string(&log).unwrap().lines().count(), 1);

    // A compiler that was changed is another one, although it says the same about itself.
    script(&path, &format!("echo \"$@\" >> {}\n: changed\nexec cc \"$@\"", log.display()));
    let (_, fetched) = run(&restarted(&target), &cache, &kernel);
    assert_eq!(fetched.miss(), Some(Reason::Absent));
}

#[test]
fn a_program_that_the_compiler_runs_is_part_of_it() {
    let directory = tempfile::tempdir().unwrap();
    let assembler = directory.path().join("as");
    let _ = script(&assembler, "exec as \"$@\"");
    let answer = format!("case \"$*\" in -print-prog-name=as) echo {};; ", assembler.display());
    let compiler = script(&directory.path().join("cc"), &format!("{answer} *) exec cc \"$@\";; esac"));
    settle();
    let (target, cache) = (CpuTarget::new(compiler), memory());
    let kernel = Kernel::new("f", "int f(void) { return 5; }");
    misses(&target, &cache, &kernel, Reason::Absent, 5);
    let _ = script(&assembler, ": changed\nexec as \"$@\"");
    misses(&restarted(&target), &cache, &kernel, Reason::Absent, 5);
}

#[test]
fn a_compiler_that_changes_while_it_runs_is_not_believed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("cc");
    script(&path, &format!("case \"$*\" in *-MD*) echo '# x' >> {};; esac\nexec cc \"$@\"", path.display()));
    let cache = memory();
    let target = CpuTarget::new(Compiler::at(&path).unwrap());
    let (value, fetched) = run(&target, &cache, &Kernel::new("f", "int f(void) { return 5; }"));
    assert_eq!((value, fetched.refusal()), (5, Some(Reason::InputUnstable)));
}

#[test]
fn a_header_edited_while_the_compiler_runs_is_never_stored_wrongly() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    write(at("value.h"), "#define VALUE 1\n");
    let kernel = Kernel::new("f", INCLUDING).source_dir(directory.path());

    // Edited after it was read, the first time only.
    let once = format!(
        "cc \"$@\"; code=$?\ncase \"$*\" in *-MD*) test -e {d}/done || echo '#define VALUE 2' > {d}/value.h; : > {d}/done;; esac\nexit $code",
        d = directory.path().display()
    );
    let (target, cache) = (CpuTarget::new(script(&at("once"), &once)), memory());
    let (value, fetched) = run(&target, &cache, &kernel);
    assert_eq!((value, fetched.refusal()), (2, None));
    hits(&target, &cache, &kernel, 2);

    // Edited each time.
    let always = format!(
        "cc \"$@\"; code=$?\ncase \"$*\" in *-MD*) echo x >> {d}/count; echo \"#define VALUE $(wc -l < {d}/count)\" > {d}/value.h;; esac\nexit $code",
        d = directory.path().display()
    );
    let target = CpuTarget::new(script(&at("always"), &always));
    let (_, fetched) = run(&target, &cache, &kernel);
    assert_eq!(fetched.refusal(), Some(Reason::InputUnstable));
    assert_eq!(fs::read_to_string(at("count")).unwrap().lines().count(), 3);

    // A file that shadows it appears meanwhile, or the directory is exchanged for an older one.
    fs::create_dir_all(at("first")).unwrap();
    write(at("second/value.h"), "#define VALUE 10\n");
    write(at("older/value.h"), "#define VALUE 11\n");
    let kernel = Kernel::new("f", INCLUDING).include_dir(at("first")).include_dir(at("second"));
    for (name, change, value) in [
        ("shadow", "cp {d}/older/value.h {d}/first/value.h", 11),
        ("exchange", "mv {d}/second {d}/away; mv {d}/older {d}/second", 11),
    ] {
        let change = change.replace("{d}", directory.path().to_str().unwrap());
        let d = directory.path().display();
        let text = format!(
            "cc \"$@\"; code=$?\ncase \"$*\" in *-MD*) test -e {d}/{name}.done || {{ {change}; : > {d}/{name}.done; }};; esac\nexit $code"
        );
        let (target, cache) = (CpuTarget::new(script(&at(name), &text)), memory());
        let (found, fetched) = run(&target, &cache, &kernel);
        assert_eq!((found, fetched.refusal()), (value, None), "{name}");
        hits(&target, &cache, &kernel, value);
        let _ = fs::remove_file(at("first/value.h"));
    }
}

#[test]
fn of_many_threads_one_compiles() {
    let (target, cache) = (target(), memory());
    let kernel = Kernel::new("f", "#include <math.h>\nint f(void) { return 7; }");
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| assert_eq!(run(&target, &cache, &kernel).0, 7));
        }
    });
    assert_eq!(cache.statistics().builds, 1);
}

#[test]
fn nobody_is_given_what_another_thread_compiles_from_other_headers() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let started = at("started");
    let text = format!("case \"$*\" in *-MD*) : > {}; sleep 0.3;; esac\nexec cc \"$@\"", started.display());
    let (target, cache) = (CpuTarget::new(script(&at("cc"), &text)), memory());
    let kernel = |name: &str| Kernel::new("f", INCLUDING).source_dir(at(name));
    for (name, value) in [("one", 1), ("two", 2), ("three", 1)] {
        write(at(name).join("value.h"), &format!("#define VALUE {value}\n"));
    }
    let run = |name| run(&target, &cache, &kernel(name));
    let [one, two, three] = thread::scope(|scope| {
        let first = scope.spawn(|| run("one"));
        while !started.exists() {
            thread::sleep(Duration::from_millis(1));
        }
        [first, scope.spawn(|| run("two")), scope.spawn(|| run("three"))].map(|thread| thread.join().unwrap())
    });
    assert_eq!((one.0, two.0, three.0), (1, 2, 1));
    assert!(matches!(one.1.how(), How::Built { .. }));
    assert!(matches!(two.1.how(), How::Built { .. }));
    // The contents of its headers are the same: that build is its build.
    assert!(matches!(three.1.how(), How::Shared { .. }), "{:?}", three.1.how());
}

#[test]
fn libraries_are_told_apart_however_often_they_are_loaded_and_dropped() {
    let (target, cache) = (target(), memory());
    let kernel = |value: i32| {
        // A library that is never really unloaded, because a constructor pins it, must not be found in another's place.
        let pin = "#define _GNU_SOURCE\n#include <dlfcn.h>\nstatic int here;\n\
                   __attribute__((constructor)) static void pin(void) { Dl_info i; if (dladdr(&here, &i)) \
                   dlopen(i.dli_fname, RTLD_NOW | RTLD_NODELETE); }\n";
        Kernel::new("f", format!("{pin}int f(void) {{ return {value}; }}"))
    };
    for value in [1, 2, 1, 3] {
        assert_eq!(run(&target, &cache, &kernel(value)).0, value);
    }
    let all: Vec<_> = (0..6)
        .flat_map(|_| [1, 2, 3])
        .map(|value| (value, target.load(&cache, &kernel(value)).unwrap()))
        .collect();
    for (value, loaded) in &all {
        assert_eq!(call(loaded.library(), "f"), *value);
    }
    let missing = all[0].1.library();
    // SAFETY: there is no such symbol.
    let error = unsafe { missing.symbol::<unsafe extern "C" fn()>("g") }.unwrap_err();
    assert!(error.is_missing_symbol());
    assert!(error.to_string().contains("symbol g"), "{error}");
}

#[test]
fn two_loads_of_one_object_have_variables_of_their_own() {
    let (target, cache) = (target(), memory());
    let kernel = Kernel::new("f", "static int count; int f(void) { return ++count; }");
    let [one, other] = [0, 1].map(|_| target.load(&cache, &kernel).unwrap());
    assert_eq!((call(one.library(), "f"), call(one.library(), "f"), call(other.library(), "f")), (1, 2, 1));
}

/// The other process of the tests below: compiles what the environment says, and says what it found.
#[test]
#[ignore = "a child of another test"]
fn child() {
    let directory = PathBuf::from(std::env::var_os("WARMSTART_STORE").unwrap());
    let include = std::env::var_os("WARMSTART_INCLUDE").unwrap();
    let cache = Cache::new(Files(directory));
    let kernel = Kernel::new("f", "#include <math.h>\n#include <value.h>\nint f(void) { return VALUE; }")
        .include_dir(&include)
        .source_dir(include);
    match target().load(&cache, &kernel) {
        Ok(loaded) => {
            let hit = loaded.fetched().is_hit();
            println!(
                "value {} hit {hit} file {}",
                call(loaded.library(), "f"),
                loaded.fetched().artifact().payload().len()
            );
        }
        Err(error) => println!("error {error}"),
    }
}

fn child_with(variables: &[(&str, &Path)], current: &Path) -> String {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "child", "--ignored", "--nocapture"]).current_dir(current);
    command.envs(variables.iter().copied());
    let output = String::from_utf8(command.output().unwrap().stdout).unwrap();
    let start = output.find("value ").or_else(|| output.find("error ")).expect(&output);
    String::from(output[start..].lines().next().unwrap())
}

#[test]
fn a_moved_checkout_and_another_home_still_hit() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    for name in ["store", "home", "other", "temporary"] {
        fs::create_dir_all(at(name)).unwrap();
    }
    write(at("checkout/value.h"), "#include \"deep/value.h\"\n");
    write(at("checkout/deep/value.h"), "#define VALUE 1\n");
    write(at("moved/to/value.h"), "#include \"deep/value.h\"\n");
    write(at("moved/to/deep/value.h"), "#define VALUE 1\n");
    let first = child_with(
        &[("WARMSTART_STORE", &at("store")), ("WARMSTART_INCLUDE", &at("checkout")), ("HOME", &at("home"))],
        &at("home"),
    );
    assert!(first.starts_with("value 1 hit false"), "{first}");
    // A relative path besides, another current directory and another place for temporary files.
    let second = child_with(
        &[
            ("WARMSTART_STORE", &at("store")),
            ("WARMSTART_INCLUDE", Path::new("to")),
            ("HOME", &at("other")),
            ("TMPDIR", &at("temporary")),
        ],
        &at("moved"),
    );
    assert!(second.starts_with("value 1 hit true"), "{second}");
    write(at("moved/to/deep/value.h"), "#define VALUE 2\n");
    let third = child_with(
        &[("WARMSTART_STORE", &at("store")), ("WARMSTART_INCLUDE", &at("moved/to"))],
        &at("moved"),
    );
    assert!(third.starts_with("value 2 hit false"), "{third}");
}

#[test]
fn the_environment_does_not_change_what_is_compiled() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    fs::create_dir_all(at("store")).unwrap();
    fs::create_dir_all(at("include")).unwrap();
    write(at("hidden/value.h"), "#define VALUE 1\n");
    for variable in ["CPATH", "C_INCLUDE_PATH", "GCC_EXEC_PREFIX", "COMPILER_PATH", "DEPENDENCIES_OUTPUT"] {
        let said = child_with(
            &[
                ("WARMSTART_STORE", &at("store")),
                ("WARMSTART_INCLUDE", &at("include")),
                (variable, &at("hidden")),
            ],
            directory.path(),
        );
        assert!(said.starts_with("error the compiler rejected"), "{variable}: {said}");
    }
}

/// Changes headers at random and compares what the cache gives with what the compiler makes of them now. Objects are the
/// same byte for byte, so that any difference is a wrong hit. `WARMSTART_ROUNDS` sets how many changes are made.
#[test]
fn what_is_found_is_always_what_the_compiler_would_make_now() {
    let rounds = std::env::var("WARMSTART_ROUNDS").map_or(30, |rounds| rounds.parse().unwrap());
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut random = move |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap() % below
    };
    for target in targets().into_iter().skip(1) {
        let (directory, cache) = (tempfile::tempdir().unwrap(), memory());
        let at = |name: &str| directory.path().join(name);
        for name in ["source", "first", "second"] {
            fs::create_dir_all(at(name)).unwrap();
        }
        let kernel = |text: &str| {
            let head = "#define CAT_(a, b) a##b\n#define CAT(a, b) CAT_(a, b)\n\
                        #define SAW(n) __attribute__((used)) static int CAT(saw, __COUNTER__) = n;\n";
            Kernel::new("f", format!("{head}{text}\nint f(void) {{ return 1; }}"))
                .source_dir(at("source"))
                .include_dir(at("first"))
                .include_dir(at("second"))
        };
        let kernels = [
            kernel("#if __has_include(\"a.h\")\n#include \"a.h\"\n#endif"),
            kernel("#include <a.h>\n#include <b.h>"),
            kernel("#define B <b.h>\n#include B\n#include \"sub/a.h\""),
            kernel("#include \"sub/../b.h\"\n#if __has_include(<sub/c.h>)\nSAW(77)\n#endif"),
        ];
        let (mut hits, mut objects) = (0, 0);
        for round in 0..rounds {
            let directory = ["source", "first", "second"][random(3)];
            let (level, name) =
                [(0, "a.h"), (1, "b.h"), (2, "c.h"), (0, "sub/a.h"), (2, "sub/c.h")][random(5)];
            let path = at(directory).join(name);
            if random(4) == 0 {
                let _ = fs::remove_file(path);
            } else {
                let below = ["b.h", "c.h", "sub/c.h", "../b.h", "../c.h"];
                let mut text = String::from(["", "#pragma once\n"][random(2)]);
                text += &format!("SAW({})\n", random(3));
                if level < 2 {
                    let next = if level == 1 { "c.h" } else { below[random(5)] };
                    text += &match random(4) {
                        0 => format!("#include \"{next}\"\n"),
                        1 => format!("#include <{next}>\n"),
                        2 => format!("#if __has_include(\"{next}\")\n#include \"{next}\"\n#endif\n"),
                        _ => format!("#if 0\n#include \"{next}\"\n#endif\n"),
                    };
                }
                if random(5) == 0 {
                    text += &format!("#if __has_include_next(<{name}>)\n#include_next <{name}>\n#endif\n");
                }
                write(path, &text);
            }
            let kernel = &kernels[random(kernels.len())];
            let cached = target.compile(&cache, kernel);
            let fresh = target.compile(&memory(), kernel);
            match (cached, fresh) {
                (Ok(cached), Ok(fresh)) => {
                    hits += usize::from(cached.is_hit());
                    objects += 1;
                    assert!(cached.artifact().payload() == fresh.artifact().payload(), "round {round}");
                }
                (Err(_), Err(_)) => {}
                (cached, fresh) => panic!("round {round}: {:?} {:?}", cached.is_ok(), fresh.is_ok()),
            }
        }
        println!("{objects} objects, {hits} hits");
    }
}

/// Not a benchmark, a guard: what a warm start costs is measured with `--release --nocapture`.
#[test]
fn a_warm_start_is_quick() {
    let (target, cache) = (target(), memory());
    let kernel = Kernel::new(
        "f",
        "#include <math.h>\n#include <stdint.h>\n#include <stddef.h>\nint f(void) { return 1; }",
    );
    let cold = Instant::now();
    let _ = run(&target, &cache, &kernel);
    let cold = cold.elapsed();
    let median = |mut times: Vec<Duration>| {
        times.sort();
        times[times.len() / 2]
    };
    let measure = |run: &dyn Fn()| {
        median(
            (0..51)
                .map(|_| {
                    let start = Instant::now();
                    run();
                    start.elapsed()
                })
                .collect(),
        )
    };
    let fresh = measure(&|| assert!(target_load(&restarted(&target), &cache, &kernel)));
    let compile = measure(&|| assert!(target.compile(&cache, &kernel).unwrap().is_hit()));
    let load = measure(&|| assert!(target_load(&target, &cache, &kernel)));
    println!("cold {cold:?}, warm: fresh process {fresh:?}, found {compile:?}, found and loaded {load:?}");
    assert!(load < cold / 4, "a warm start took {load:?}, a cold one {cold:?}");
}

fn target_load(target: &CpuTarget, cache: &Memory, kernel: &Kernel) -> bool {
    target.load(cache, kernel).unwrap().fetched().is_hit()
}

#[test]
fn an_address_of_data_is_a_symbol_too() {
    let loaded = target().load(&memory(), &Kernel::new("f", "const char text[] = \"hello\";")).unwrap();
    // SAFETY: it is an array of characters that ends with a zero, and lives as long as the library.
    let text =
        unsafe { CStr::from_ptr(*loaded.library().symbol::<*const std::ffi::c_char>("text").unwrap()) };
    assert_eq!(text.to_bytes(), b"hello");
}
