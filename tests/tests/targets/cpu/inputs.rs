//! Inputs of an object beside its source: headers in odd shapes, the compiler behind the compiler, the loader.

use std::{
    error::Error,
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::Command,
    sync::Mutex,
    thread,
    time::{Duration, SystemTime},
};

use warmstart::{
    Artifact, Cache, Limits, MissReason, Store,
    cache::Fetched,
    store::{FileStore, MemoryStore, StoreOptions},
    target::cpu::{Compiler, CpuTarget, Kernel, Library},
};
use warmstart_tests::children_of;

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

/// A new target of the same compiler: it remembers nothing, as a new process would not.
fn restarted(target: &CpuTarget) -> CpuTarget {
    CpuTarget::new(Compiler::at(target.compiler().path()).unwrap())
}

fn call(library: &Library) -> i32 {
    // SAFETY: `f` has this type in every kernel of these tests.
    unsafe { library.symbol::<unsafe extern "C" fn() -> i32>("f").unwrap()() }
}

/// Returns what `int f(void)` of the kernel returns, and the object's origin.
fn run(target: &CpuTarget, cache: &Memory, kernel: &Kernel) -> (i32, Fetched) {
    let loaded = target.load(cache, kernel).unwrap();
    (call(loaded.library()), loaded.fetched().clone())
}

#[track_caller]
fn gives(target: &CpuTarget, cache: &Memory, kernel: &Kernel, value: i32) {
    let (found, fetched) = run(target, cache, kernel);
    assert_eq!(found, value, "{:?}", fetched.origin());
}

fn write(path: impl AsRef<Path>, content: impl AsRef<[u8]>) {
    fs::create_dir_all(path.as_ref().parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

fn script(path: &Path, text: &str) -> Compiler {
    write(path, format!("#!/bin/sh\n{text}\n"));
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    Compiler::at(path).unwrap()
}

/// Long enough for what was just written to be trusted by its times.
fn settle() {
    thread::sleep(Duration::from_millis(2100));
}

#[test]
fn two_states_of_absolute_paths_are_two_objects() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let ask = |path: &str, value: i32| {
        format!("#if __has_include(\"{}\")\n+ {value}\n#endif\n", at(path).display())
    };
    let asked = ask("d1/x", 1) + &ask("d1/y", 10) + &ask("d2/z", 100) + &ask("d2/w", 1000);
    let kernel = Kernel::new("f", format!("int f(void) {{ return 0\n{asked};\n}}"));
    let (target, cache) = (target(), memory());
    for round in 0..4 {
        let (there, gone, value) = if round % 2 == 0 { ("d2/z", "d1", 100) } else { ("d1/y", "d2", 10) };
        let _ = fs::remove_dir_all(at(gone));
        write(at(there), "");
        let (found, fetched) = run(&target, &cache, &kernel);
        assert_eq!((found, fetched.is_hit()), (value, round >= 2));
    }
}

/// Manifests and probes have no recipe.
fn is_object(artifact: &Artifact) -> bool {
    artifact.metadata().is_ok_and(|metadata| metadata.recipe().is_some())
}

/// Answers every key of an object with the first object.
#[derive(Debug)]
struct Confused(MemoryStore, Mutex<Option<Artifact>>);

impl Store for Confused {
    fn get(&self, key: &[u8]) -> Result<Artifact, MissReason> {
        match (self.0.get(key), &*self.1.lock().unwrap()) {
            (Ok(found), Some(first)) if is_object(&found) => Ok(first.clone()),
            (found, _) => found,
        }
    }
    fn put(&self, key: &[u8], artifact: &Artifact) -> Result<u64, MissReason> {
        if is_object(artifact) {
            self.1.lock().unwrap().get_or_insert_with(|| artifact.clone());
        }
        self.0.put(key, artifact)
    }
    fn remove(&self, key: &[u8]) -> Result<bool, MissReason> {
        self.0.remove(key)
    }
    fn contains(&self, key: &[u8]) -> Result<bool, MissReason> {
        self.0.contains(key)
    }
    fn clear(&self) -> Result<(), MissReason> {
        self.0.clear()
    }
    fn flush(&self) -> Result<(), MissReason> {
        self.0.flush()
    }
}

#[test]
fn an_object_of_other_headers_is_a_miss_whatever_its_key() {
    let directory = tempfile::tempdir().unwrap();
    let cache = Cache::new(Confused(MemoryStore::new(Limits::NONE), Mutex::default()));
    let kernel = Kernel::new("f", "#include <v.h>\nint f(void) { return V; }").include_dir(directory.path());
    for (round, value) in [1, 2, 2, 1].into_iter().enumerate() {
        write(directory.path().join("v.h"), format!("#define V {value}\n"));
        let loaded = target().load(&cache, &kernel).unwrap();
        assert_eq!((call(loaded.library()), loaded.fetched().is_hit()), (value, round == 3));
    }
}

#[test]
fn header_included_in_a_hidden_way_is_not_cached_wrongly() {
    let hidden: [&[u8]; 4] = [
        b"\xEF\xBB\xBF#include <x.h>\n",
        b"int a;\r#include <x.h>\n",
        b"#\0include <x.h>\n",
        b"static const char *s = R\"(\n/*\n)\";\n#include <x.h>\n",
    ];
    for target in targets() {
        for text in hidden {
            let directory = tempfile::tempdir().unwrap();
            let at = |name: &str| directory.path().join(name);
            fs::create_dir_all(at("a")).unwrap();
            write(at("b/x.h"), "#define VALUE 1\n");
            write(at("b/via.h"), text);
            let kernel = Kernel::new("f", "#include \"via.h\"\nint f(void) { return VALUE; }")
                .flag("-std=gnu17")
                .include_dir(at("a"))
                .include_dir(at("b"));
            let cache = memory();
            // A compiler that does not see the include either says so.
            let Ok(first) = target.load(&cache, &kernel) else { continue };
            assert_eq!(call(first.library()), 1);
            write(at("a/x.h"), "#define VALUE 2\n");
            gives(&target, &cache, &kernel, 2);
        }
    }
}

#[test]
fn every_header_of_a_usual_source_is_explained() {
    let headers =
        ["math", "stdint", "stdio", "stdlib", "string", "stdatomic", "pthread", "complex", "limits"];
    let text: String = headers.iter().map(|name| format!("#include <{name}.h>\n")).collect();
    let vectors = if cfg!(target_arch = "x86_64") { "#include <immintrin.h>\n" } else { "" };
    let kernel = Kernel::new("f", format!("{text}{vectors}int f(void) {{ return 1; }}"));
    for target in targets() {
        let cache = memory();
        assert_eq!(run(&target, &cache, &kernel).1.refusal(), None);
        assert!(run(&target, &cache, &kernel).1.is_hit());
    }
}

#[test]
fn copies_that_look_like_one_file_are_told_apart_by_times() {
    for target in targets() {
        for word in ["#include", "#import"] {
            let (directory, cache) = (tempfile::tempdir().unwrap(), memory());
            let at = |name: &str| directory.path().join(name);
            let date = |path: &Path, seconds| {
                let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
                fs::File::options().append(true).open(path).unwrap().set_modified(time).unwrap();
            };
            for path in [at("p/a.h"), at("q/a.h")] {
                write(&path, "#pragma once\n#ifdef SEEN\n#define TWICE 1\n#endif\n#define SEEN\n");
                date(&path, 1_500_000_000);
            }
            let text = format!(
                "{word} <p/a.h>\n{word} <q/a.h>\nint f(void) {{\n#ifdef TWICE\nreturn 2;\n#else\nreturn 1;\n#endif\n}}"
            );
            let kernel = Kernel::new("f", text).flag("-Wno-deprecated").include_dir(directory.path());
            let (_, fetched) = run(&target, &cache, &kernel);
            assert_eq!(fetched.refusal(), None);
            assert!(run(&target, &cache, &kernel).1.is_hit());
            date(&at("q/a.h"), 1_600_000_000);
            gives(&target, &cache, &kernel, run(&target, &memory(), &kernel).0);
            // The same file by another name.
            fs::remove_file(at("q/a.h")).unwrap();
            fs::hard_link(at("p/a.h"), at("q/a.h")).unwrap();
            gives(&target, &cache, &kernel, run(&target, &memory(), &kernel).0);
        }
    }
}

#[test]
fn compiler_replaced_under_a_running_process_is_another() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("cc");
    let target = CpuTarget::new(script(&path, "exec cc -DV=1 \"$@\""));
    let (cache, kernel) = (memory(), Kernel::new("f", "int f(void) { return V; }"));
    gives(&target, &cache, &kernel, 1);
    let _ = script(&path, "exec cc -DV=2 \"$@\"");
    gives(&target, &cache, &kernel, 2);
}

/// Compiles with the wrapper in a directory that the environment names, and says what comes of it.
fn compile_with_wrapper() {
    let directory = PathBuf::from(std::env::var_os("WARMSTART_WRAPPER").unwrap());
    let kernel = Kernel::new("f", "int f(void) { return V; }");
    let target = CpuTarget::new(Compiler::at(directory.join("wrapper")).unwrap());
    let cache = Cache::new(FileStore::open(directory.join("cache"), StoreOptions::default()).unwrap());
    let loaded = target.load(&cache, &kernel).unwrap();
    println!("value {} ", call(loaded.library()));
}

#[test]
fn a_compiler_that_a_script_finds_on_the_path_is_part_of_it() {
    let Some(processes) = children_of!(compile_with_wrapper) else { return };
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let search = std::env::var("PATH").unwrap();
    let _ = script(&at("wrapper"), "exec realcc \"$@\"");
    for number in [1, 2] {
        let _ = script(&at(&format!("bin{number}/realcc")), &format!("exec cc -DV={number} \"$@\""));
    }
    settle();
    for number in [1, 2, 1] {
        let path = format!("{}:{search}", at(&format!("bin{number}")).display());
        let output = processes
            .command()
            .envs([("WARMSTART_WRAPPER", directory.path().to_str().unwrap()), ("PATH", &path)])
            .output()
            .unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(said.contains(&format!("value {number} ")), "{said}");
    }
}

#[test]
fn what_a_script_runs_is_looked_at_although_its_name_is_a_link() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let _ = script(&at("one"), "exec cc -DV=1 \"$@\"");
    let _ = script(&at("two"), "exec cc -DV=2 \"$@\"");
    symlink(at("one"), at("real")).unwrap();
    let target = CpuTarget::new(script(&at("cc"), &format!("exec {} \"$@\"", at("real").display())));
    settle();
    let (cache, kernel) = (memory(), Kernel::new("f", "int f(void) { return V; }"));
    gives(&target, &cache, &kernel, 1);
    fs::remove_file(at("real")).unwrap();
    symlink(at("two"), at("real")).unwrap();
    gives(&restarted(&target), &cache, &kernel, 2);
}

#[test]
#[cfg_attr(not(has_gcc), ignore = "needs GCC as the compiler that is called cc")]
fn specs_that_appear_are_another_compiler() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    // It behaves as gcc does, with a directory of ours in the place of its own.
    let text = format!(
        "case \"$*\" in\n-print-search-dirs) echo 'install: {0}/'; exit;;\nesac\n\
         if [ -e {0}/specs ]; then exec cc -DV=2 \"$@\"; fi\nexec cc -DV=1 \"$@\"",
        at("lib").display()
    );
    fs::create_dir_all(at("lib")).unwrap();
    let target = CpuTarget::new(script(&at("cc"), &text));
    settle();
    let (cache, kernel) = (memory(), Kernel::new("f", "int f(void) { return V; }"));
    gives(&target, &cache, &kernel, 1);
    write(at("lib/specs"), "");
    gives(&restarted(&target), &cache, &kernel, 2);
}

#[cfg(target_os = "linux")]
#[test]
fn what_is_only_linked_is_not_started() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let cc = |arguments: &[&str]| {
        assert!(Command::new("cc").args(arguments).current_dir(directory.path()).status().unwrap().success());
    };
    write(at("x.c"), "int x(void) { return 1; }");
    write(at("main.c"), "int x(void); int main(void) { return x(); }");
    cc(&["-shared", "-fPIC", "-o", "libx.so", "x.c"]);
    cc(&["-o", "crti.o", "main.c", "-L.", "-lx", &format!("-Wl,-rpath,{}", directory.path().display())]);
    // Spelt so that the script does not name it.
    let answer = "case \"$*\" in -print-file-name=crti.o) echo \"${0%/*}\"/crti.o; exit;; esac";
    let target = CpuTarget::new(script(&at("cc"), &format!("{answer}\nexec cc \"$@\"")));
    let (cache, kernel) = (memory(), Kernel::new("f", "int f(void) { return 1; }"));
    gives(&target, &cache, &kernel, 1);
    // A library that only that file loads is nothing of the compiler's.
    write(at("x.c"), "int x(void) { return 2; }");
    cc(&["-shared", "-fPIC", "-o", "libx.so", "x.c"]);
    assert!(run(&restarted(&target), &cache, &kernel).1.is_hit());
}

#[cfg(target_os = "linux")]
#[test]
fn a_kernel_calls_its_own_functions_and_not_the_hosts() {
    for target in targets() {
        let text =
            "__attribute__((noinline)) int index(int a) { return a + 1; }\nint f(void) { return index(41); }";
        let kernel = Kernel::new("f", text).flag("-fno-builtin");
        gives(&target, &memory(), &kernel, 42);
    }
}

#[test]
fn a_time_that_is_hidden_is_not_cached() {
    let text =
        "#define CAT(a, b) a##b\nconst char *t(void) { return CAT(__TI, ME__); }\nint f(void) { return 1; }";
    for target in targets() {
        let pragma = format!("#pragma GCC diagnostic ignored \"-Wdate-time\"\n{text}");
        let fetched = target.compile(&memory(), &Kernel::new("f", pragma)).unwrap();
        assert_eq!(fetched.refusal(), Some(MissReason::Uncacheable));
    }
}

#[test]
fn an_error_says_all_of_it_once() {
    let kernel = Kernel::new("f", "int g(void);\nint f(void) { return g(); }");
    let error = target().load(&memory(), &kernel).unwrap_err();
    assert!(
        error.to_string().contains("undefined symbol: g") || error.to_string().contains("'_g'"),
        "{error}"
    );

    let error = target().load(&memory(), &Kernel::new("f", "#error no\n")).unwrap_err();
    assert!(error.source().is_none(), "{:?}", error.source());
}

#[test]
fn an_error_about_a_missing_header_names_it_and_what_to_do() {
    for target in targets() {
        let kernel = Kernel::new("f", "#include <no_such.h>\n").include_dir("/some/directory");
        let error = target.compile(&memory(), &kernel).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("no_such.h") && text.contains("Kernel::include_dir"), "{text}");
        assert!(!error.log().unwrap().contains("Kernel::"));
    }
}
