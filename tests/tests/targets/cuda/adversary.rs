//! Attacks on the CUDA target: binaries that depend on more than their keys hold.

use std::{env, fs};

use warmstart::{
    Cache, Limits,
    store::{FileStore, MemoryStore, StoreOptions},
    target::cuda::{OptionName, Program, TargetType},
};
use warmstart_tests::{children_of, cuda, own_process};

fn memory() -> Cache<MemoryStore> {
    Cache::new(MemoryStore::new(Limits::NONE))
}

fn contains(binary: &[u8], text: &str) -> bool {
    binary.windows(text.len()).any(|window| window == text.as_bytes())
}

#[test]
#[cfg_attr(not(has_cuda), ignore = "needs the CUDA compilers: cargo xtask runtimes --cuda")]
fn debug_information_of_another_directory_is_a_miss() {
    own_process!(|| {
        let target = cuda::target();
        let directory = tempfile::tempdir().unwrap();
        let cache = memory();
        let plain =
            Program::cxx("f.cu", "extern \"C\" __global__ void f(int *x) { x[0] = 1; }").arch("sm_80");
        let debugged = plain.clone().option(OptionName::Debug, true);
        let linked = plain.clone().target(TargetType::LtoIr).option(OptionName::LinkTimeOptimization, true);
        let mut places = Vec::new();
        for place in ["first_checkout", "other_checkout"] {
            let place = directory.path().join(place);
            fs::create_dir(&place).unwrap();
            env::set_current_dir(&place).unwrap();
            let compiled = target.compile(&cache, &debugged).unwrap();
            assert!(!compiled.is_hit(), "debug information names the directory");
            let again = target.compile(&cache, &debugged).unwrap();
            assert!(again.is_hit());
            let fresh = target.compile(&memory(), &debugged).unwrap();
            assert_eq!(again.binary(), fresh.binary());
            let name = place.file_name().unwrap().to_str().unwrap().to_owned();
            assert!(contains(fresh.binary(), &name));
            let (_, recipe) = target.key(&cache, &debugged).unwrap();
            assert!(!format!("{recipe:?}").contains(&name), "a key has no path");
            assert!(!target.compile(&cache, &linked).unwrap().is_hit(), "so does LTO-IR");
            let (again, fresh) = (target.compile(&cache, &linked), target.compile(&memory(), &linked));
            assert_eq!(again.unwrap().binary(), fresh.unwrap().binary());
            places.push(target.compile(&cache, &plain).unwrap().is_hit());
        }
        assert_eq!(places, [false, true], "without debug information no directory counts");
    });
}

#[test]
#[cfg_attr(not(has_cuda), ignore = "needs the CUDA compilers: cargo xtask runtimes --cuda")]
fn a_binary_that_has_the_time_in_it_is_refused() {
    let target = cuda::target();
    for (source, said) in [
        ("__device__ const char *built = __DATE__;", "__DATE__"),
        ("#define BUILT __TIME__\n__device__ const char *built = BUILT;", "__TIME__"),
        ("#define P(a, b, c) a##b##c\n__device__ const char *built = P(__, DATE, __);", "pasted"),
        ("#define P(a, b, c) a##b##c\n#if P(__, has_, include)(\"/none\")\n#endif", "pasted"),
    ] {
        let error = target.compile(&memory(), &Program::cxx("f.cu", source).arch("sm_80")).unwrap_err();
        assert!(error.to_string().contains(said), "{source}: {error}");
    }
}

#[test]
#[cfg_attr(not(has_cuda), ignore = "needs the CUDA compilers: cargo xtask runtimes --cuda")]
fn a_name_expression_reaches_no_file_and_no_clock() {
    let target = cuda::target();
    let source = "template <int N> __global__ void f(int *x) { *x = N; }\n";
    for expression in ["f<__TIME__[7]>", "f<__has_include(\"/none.h\")>", "f<1>\n#include \"/none.h\"\n"] {
        let program = Program::cxx("f.cu", source).arch("sm_80").name_expression(expression);
        let error = target.compile(&memory(), &program).unwrap_err();
        assert!(
            error.is_refused() && error.to_string().contains("name_expressions"),
            "{expression}: {error}"
        );
    }
}

/// The compiler opens what has an absolute name by itself: a directive that is overlooked is a header that no key has.
#[test]
#[cfg_attr(not(has_cuda), ignore = "needs the CUDA compilers: cargo xtask runtimes --cuda")]
fn a_header_that_hides_is_found_or_refused() {
    let target = cuda::target();
    let directory = tempfile::tempdir().unwrap();
    let header = directory.path().join("a.h");
    let include = format!("include \"{}\"\n", header.display());
    for (place, text) in [
        format!("#{include}"),
        format!("??={include}"),
        format!("// ??/\n#{include}"),
        format!("#define A R\"(\n#{include})\"\n"),
        format!("#if 0\n1'0 /*\n#endif\n#{include}"),
        format!("#define X(x)\nX(1'0 /*'*/)\n#{include}//'*/\n"),
        format!("#inc\\\r\r\nl{}", &include[4..]),
        format!("#inc\\ \nl{}", &include[4..]),
        format!("#define A \"x\"R\"(\n#{include})\"\n"),
        format!("#define A $R\"(\n/*\n)\"\n#{include}"),
        format!("#define A \"a\\\" /*\"\n#{include}"),
        format!("#if 0\n#include <a'b> /*'\n#endif\n#{include}"),
        format!("#if 0\n#include <a/*>\nR\"(\n*/\n#endif\n#{include}//)\"\n"),
        format!("#define A 0x1p+R\"(\n#{include})\"\n"),
        format!("#define A \\u{{e9}}R\"(\n#{include})\"\n"),
        format!("#define A $1p+R\"(\n#{include})\"\n"),
    ]
    .into_iter()
    .enumerate()
    {
        for standard in ["c++03", "c++11", "c++14", "c++17", "c++20", "c++23"] {
            let program = Program::cxx("f.cu", format!("{text}\n__device__ int unused;"))
                .arch("sm_80")
                .target(TargetType::Ptx)
                .option(OptionName::Std, standard)
                .option(OptionName::RelocatableDeviceCode, true);
            let cache = memory();
            let mut compiled = Vec::new();
            for value in ["1111", "2222"] {
                fs::write(&header, format!("__device__ int a = {value};")).unwrap();
                compiled.push(target.compile(&cache, &program).map(|compiled| compiled.binary().to_vec()));
            }
            let [Ok(first), Ok(second)] = &compiled[..] else { continue };
            assert!(!contains(second, "1111"), "{place}, {standard}: an old header's");
            assert_eq!(contains(first, "1111"), contains(second, "2222"), "{place}, {standard}");
        }
    }
}

/// Compiles all kernels, in a directory that the environment names.
fn compile_all() {
    let target = cuda::target();
    let directory = std::path::PathBuf::from(env::var_os("WARMSTART_ADVERSARY").unwrap());
    let cache = Cache::new(FileStore::open(directory.join("cache"), StoreOptions::default()).unwrap());
    for number in 0..KERNELS {
        let compiled = target.compile(&cache, &kernel(&directory, number)).unwrap();
        assert!(contains(compiled.binary(), &format!("kernel_{number}")));
    }
}

const KERNELS: usize = 8;

fn kernel(directory: &std::path::Path, number: usize) -> Program {
    let source = format!(
        "#include <a.h>\nextern \"C\" __global__ void kernel_{number}(int *x) {{ x[threadIdx.x] = A + {number}; }}"
    );
    Program::cxx("k.cu", source).arch("sm_80").include_dir(directory)
}

#[test]
#[cfg_attr(not(has_cuda), ignore = "needs the CUDA compilers: cargo xtask runtimes --cuda")]
fn processes_that_are_killed_leave_nothing_wrong() {
    let Some(processes) = children_of!(compile_all) else { return };
    let target = cuda::target();
    let directory = tempfile::tempdir().unwrap();
    for round in 0..6_u64 {
        fs::write(directory.path().join("a.h"), format!("#define A {round}000\n")).unwrap();
        let mut children: Vec<_> = (0..8)
            .map(|_| {
                processes
                    .command()
                    .env("WARMSTART_ADVERSARY", directory.path())
                    .stdout(std::process::Stdio::null())
                    .stderr(std::process::Stdio::null())
                    .spawn()
                    .unwrap()
            })
            .collect();
        for (place, child) in children.iter_mut().enumerate() {
            std::thread::sleep(std::time::Duration::from_millis((round * 37 + place as u64 * 53) % 90));
            child.kill().unwrap();
            child.wait().unwrap();
        }
        let cache =
            Cache::new(FileStore::open(directory.path().join("cache"), StoreOptions::default()).unwrap());
        for number in 0..KERNELS {
            let program = kernel(directory.path(), number);
            let compiled = target.compile(&cache, &program).unwrap();
            let fresh = target.compile(&memory(), &program).unwrap();
            assert_eq!(compiled.binary(), fresh.binary(), "round {round}, kernel {number}");
            assert!(target.compile(&cache, &program).unwrap().is_hit());
        }
    }
}

#[test]
#[cfg_attr(not(has_cuda), ignore = "needs the CUDA compilers: cargo xtask runtimes --cuda")]
fn headers_that_change_all_the_time_leave_nothing_wrong() {
    let target = cuda::target();
    let directory = tempfile::tempdir().unwrap();
    let place = |name: &str| directory.path().join(name);
    let write = |name: &str, value: u32, in_place: bool| {
        let text = format!("#define {} {value}\n", name[..1].to_uppercase());
        if in_place {
            return fs::write(place(name), text).unwrap();
        }
        fs::write(place("new"), text).unwrap();
        fs::rename(place("new"), place(name)).unwrap();
    };
    write("a.h", 1111, true);
    write("b.h", 1111, true);
    let program =
        Program::cxx("k.cu", "#include <a.h>\n#include <b.h>\n__device__ int x[] = {A + 1, B + 2};")
            .arch("sm_80")
            .target(TargetType::Ptx)
            .option(OptionName::RelocatableDeviceCode, true)
            .include_dir(directory.path());
    let cache = memory();
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !done.load(std::sync::atomic::Ordering::Relaxed) {
                    // A file that an editor has truncated lacks the macro; that is an error and no wrong binary.
                    let _ = target.compile(&cache, &program);
                }
            });
        }
        for step in 0..3000_u32 {
            let (name, value) = (if step % 3 == 0 { "a.h" } else { "b.h" }, 1111 * (1 + step / 2 % 2));
            write(name, value, step % 5 == 0);
            std::thread::sleep(std::time::Duration::from_micros(u64::from(step % 7) * 200));
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    for (a, b) in [(1111, 1111), (1111, 2222), (2222, 1111), (2222, 2222)] {
        write("a.h", a, true);
        write("b.h", b, false);
        let compiled = target.compile(&cache, &program).unwrap();
        let fresh = target.compile(&memory(), &program).unwrap();
        assert_eq!(compiled.binary(), fresh.binary(), "{a} {b}");
    }
}
