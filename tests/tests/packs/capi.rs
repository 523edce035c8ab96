//! The C library: its header, its functions, and its example with the real XNNPACK.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use warmstart::pack::{RewriteOptions, export, import, model_of_file};
use warmstart_tests::{built, xnnpack};

/// The flags of every compilation.
const STRICT: [&str; 4] = ["-Wall", "-Wextra", "-Werror", "-std=c11"];

/// The libraries of Rust's standard library where it is linked statically.
#[cfg(target_os = "linux")]
const NEEDED: &[&str] = &["-lgcc_s", "-lutil", "-lrt", "-lpthread", "-lm", "-ldl"];
#[cfg(not(target_os = "linux"))]
const NEEDED: &[&str] = &["-lSystem", "-lc", "-lm"];

fn capi() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("native").join("capi")
}

/// The folder with the libraries.
fn libraries() -> PathBuf {
    let shared = format!("{}warmstart{}", env::consts::DLL_PREFIX, env::consts::DLL_SUFFIX);
    let folder = built::c_library(&shared);
    assert_eq!(built::c_library("libwarmstart.a"), folder);
    folder
}

/// The ways to link a program with the library.
#[derive(Clone, Copy, Debug)]
enum Linked {
    Shared,
    Static,
}

/// Compiles a program, and links it with the library and these as well.
fn compile(source: &Path, program: &Path, linked: Linked, more: &[&str]) {
    let mut cc = Command::new("cc");
    cc.args(STRICT).arg("-I").arg(capi().join("include")).arg(source).arg("-o").arg(program);
    match linked {
        Linked::Shared => cc.arg("-L").arg(libraries()).arg("-lwarmstart"),
        Linked::Static => cc.arg(libraries().join("libwarmstart.a")).args(NEEDED),
    };
    if matches!(linked, Linked::Shared) {
        cc.arg(format!("-Wl,-rpath,{}", libraries().display()));
    }
    done(cc.args(more));
}

fn done(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    let said = [&output.stdout[..], &output.stderr].concat();
    assert!(output.status.success(), "{command:?}: {}\n{}", output.status, String::from_utf8_lossy(&said));
    output
}

#[test]
fn the_header_is_c_and_cpp_by_itself() {
    let header = capi().join("include").join("warmstart.h");
    for (compiler, language, standard) in
        [("cc", "c", "-std=c11"), ("c++", "c++", "-std=c++11"), ("c++", "c++", "-std=c++20")]
    {
        let strict = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only", standard, "-x", language];
        // A header that is the main file is warned of only where it is included by none.
        let directory = tempfile::tempdir().unwrap();
        let main = directory.path().join("main");
        fs::write(&main, format!("#include \"{}\"\nint main(void) {{ return 0; }}\n", header.display()))
            .unwrap();
        done(Command::new(compiler).args(strict).arg(main));
    }
}

#[test]
fn no_function_minds_null_and_each_says_what_was_wrong() {
    let directory = tempfile::tempdir().unwrap();
    let source = directory.path().join("null.c");
    fs::write(&source, NULLS).unwrap();
    for linked in [Linked::Shared, Linked::Static] {
        let program = directory.path().join("null");
        compile(&source, &program, linked, &[]);
        done(Command::new(program).arg(directory.path()));
    }
}

/// Returns the line of what does not hold.
const NULLS: &str = r#"
#include <string.h>
#include <warmstart.h>
#define HOLDS(condition) do { if (!(condition)) return __LINE__ % 256; } while (0)
#define INVALID(call) HOLDS((call) == WS_INVALID_ARGUMENT && strlen(ws_last_error()) > 0)
int main(int argc, char **argv) {
    ws_pack *pack = NULL, *other = NULL;
    ws_provider *provider = NULL;
    const uint8_t model[WS_DIGEST_LEN] = {1};
    ws_pack_options options = {.size = sizeof options};
    ws_pack_counts counts = {.size = sizeof counts};
    ws_provider_counts asked = {.size = sizeof asked};
    ws_weight weight = {"a", "abc", 3}, nameless = {NULL, "abc", 3}, empty = {"a", NULL, 0};
    uint8_t digest[WS_DIGEST_LEN];
    HOLDS(argc == 2 && strlen(ws_version()) > 0 && strlen(ws_last_error()) == 0);

    INVALID(ws_pack_open(NULL, NULL, &pack));
    HOLDS(strstr(ws_last_error(), "path"));
    INVALID(ws_pack_open("", NULL, NULL));
    INVALID(ws_pack_save(NULL));
    INVALID(ws_pack_refresh(NULL));
    INVALID(ws_pack_prefetch(NULL));
    INVALID(ws_pack_release(NULL));
    INVALID(ws_pack_statistics(NULL, &counts));
    HOLDS(ws_pack_len(NULL) == 0);
    ws_pack_close(NULL);
    INVALID(ws_provider_create(NULL, WS_ABI_2025, NULL, NULL, &provider));
    HOLDS(ws_provider_as_xnnpack(NULL) == NULL);
    INVALID(ws_provider_register(NULL, "w", "name"));
    INVALID(ws_provider_forget(NULL, "w"));
    INVALID(ws_provider_begin(NULL));
    INVALID(ws_provider_finalize(NULL));
    INVALID(ws_provider_save(NULL));
    INVALID(ws_provider_statistics(NULL, &asked));
    ws_provider_destroy(NULL);

    options.checks = 9;
    INVALID(ws_pack_open("", &options, &pack));
    options.checks = WS_CHECKS_ALL;
    options.flags = 1u << 30;
    INVALID(ws_pack_open("", &options, &pack));
    options.flags = WS_READ_ONLY;
    options.size = sizeof options + 8;
    INVALID(ws_pack_open("", &options, &pack));
    options.size = 0;
    INVALID(ws_pack_open("", &options, &pack));
    options.size = sizeof(size_t);
    HOLDS(ws_pack_open("", &options, &pack) == WS_OK && pack);
    HOLDS(ws_pack_open(argv[1], NULL, &other) == WS_WRONG_FILE && !other);
    HOLDS(strstr(ws_last_error(), "a directory"));

    INVALID(ws_pack_statistics(pack, NULL));
    counts.size = 0;
    INVALID(ws_pack_statistics(pack, &counts));
    counts.size = 2 * sizeof(uint64_t);
    counts.hits = 77;
    HOLDS(ws_pack_statistics(pack, &counts) == WS_OK && counts.hits == 77 && counts.entries == 0);

    INVALID(ws_provider_create(pack, 0, model, NULL, &provider));
    INVALID(ws_provider_create(pack, WS_ABI_2025, NULL, NULL, &provider));
    INVALID(ws_provider_create(pack, WS_ABI_2025, model, NULL, NULL));
    HOLDS(ws_provider_create(pack, WS_ABI_2024, model, NULL, &provider) == WS_OK && provider);
    ws_pack_close(pack);
    HOLDS(ws_provider_as_xnnpack(provider));
    INVALID(ws_provider_register(provider, NULL, "name"));
    INVALID(ws_provider_register(provider, "w", NULL));
    INVALID(ws_provider_register(provider, "w", "\xff"));
    HOLDS(ws_provider_register(provider, "w", "name") == WS_OK);
    HOLDS(ws_provider_forget(provider, NULL) == WS_OK);
    INVALID(ws_provider_statistics(provider, NULL));
    HOLDS(ws_provider_statistics(provider, &asked) == WS_OK && asked.hits == 0);
    HOLDS(ws_provider_begin(provider) == WS_OK && ws_provider_finalize(provider) == WS_OK);
    HOLDS(ws_provider_save(provider) == WS_OK);
    ws_provider_destroy(provider);

    INVALID(ws_model_digest(&weight, 1, NULL));
    INVALID(ws_model_digest(NULL, 1, digest));
    INVALID(ws_model_digest(&nameless, 1, digest));
    HOLDS(ws_model_digest(NULL, 0, digest) == WS_OK);
    HOLDS(ws_model_digest(&empty, 1, digest) == WS_OK);
    HOLDS(ws_model_digest(&weight, 1, digest) == WS_OK);
    INVALID(ws_model_digest_file(NULL, NULL, digest));
    INVALID(ws_model_digest_file(NULL, argv[1], NULL));
    HOLDS(ws_model_digest_file(NULL, argv[1], digest) == WS_IO && strstr(ws_last_error(), argv[1]));
    return 0;
}
"#;

#[test]
#[cfg_attr(not(has_xnnpack), ignore = "needs XNNPACK: cargo xtask runtimes --xnnpack")]
fn the_example_is_cold_and_then_warm_with_the_real_xnnpack() {
    let folder = xnnpack::folder();
    let directory = tempfile::tempdir().unwrap();
    let source = capi().join("examples").join("packed_weights.c");
    let library = folder.join("libexecutorch_backend_xnnpack.so");
    let needed = format!("-Wl,-rpath-link,{}", folder.display());
    let mut outputs = Vec::new();
    for linked in [Linked::Shared, Linked::Static] {
        let program = directory.path().join(format!("{linked:?}"));
        compile(&source, &program, linked, &[library.to_str().unwrap(), &needed]);
        let file = directory.path().join(format!("{linked:?}.xpwc"));
        for expected in ["cold: packed 6", "warm: 6 hits, 0 packed", "warm: 6 hits, 0 packed"] {
            let output = done(Command::new(&program).arg(&file).env("LD_LIBRARY_PATH", &folder));
            let said = String::from_utf8(output.stdout).unwrap();
            let (first, second) = said.split_once('\n').unwrap();
            assert_eq!(first, expected, "{linked:?}");
            outputs.push(second.to_owned());
        }
        // An empty path opts out.
        let output = done(Command::new(&program).arg("").env("LD_LIBRARY_PATH", &folder));
        assert!(output.stdout.starts_with(b"cold: packed 6\n"));
    }
    assert!(
        outputs[0].starts_with("output: ") && outputs.iter().all(|output| *output == outputs[0]),
        "{outputs:?}"
    );
}

/// A file of ExecuTorch names no model.
#[test]
#[cfg_attr(not(has_xnnpack), ignore = "needs XNNPACK: cargo xtask runtimes --xnnpack")]
fn a_converted_file_is_warm_for_the_example_and_does_not_grow() {
    let folder = xnnpack::folder();
    let directory = tempfile::tempdir().unwrap();
    let library = folder.join("libexecutorch_backend_xnnpack.so");
    let needed = format!("-Wl,-rpath-link,{}", folder.display());
    let program = directory.path().join("program");
    // 1184 layers, as large as a test may be.
    let more = [library.to_str().unwrap(), &needed, "-DLAYERS=1184", "-DWIDTH=16"];
    compile(&capi().join("examples").join("packed_weights.c"), &program, Linked::Shared, &more);
    let (file, model) = (directory.path().join("weights.xpwc"), directory.path().join("model"));
    let run = || {
        let mut command = Command::new(&program);
        let output = done(command.args([&file, &model]).env("LD_LIBRARY_PATH", &folder));
        let said = String::from_utf8(output.stdout).unwrap();
        let (first, output_line) = said.split_once('\n').unwrap();
        (first.to_owned(), output_line.to_owned(), String::from_utf8(output.stderr).unwrap())
    };
    let (first, output, _) = run();
    assert_eq!(first, "cold: packed 1184");
    export(&file, &RewriteOptions::default()).unwrap();
    let executorch = fs::read(&file).unwrap();

    // Without a model, nothing is found, and the host is told why.
    let done = import(&file, &RewriteOptions::default()).unwrap();
    assert_eq!((done.entries, done.unverified), (1184, 1184));
    let (first, _, errors) = run();
    assert_eq!(first, "cold: packed 1184");
    assert!(errors.contains("1184 weights are there") && errors.contains("--to 3 --model MODEL"), "{errors}");

    fs::write(&file, executorch).unwrap();
    let model_of = model_of_file(&model).unwrap();
    let done = import(&file, &RewriteOptions::default().with_imported_model(model_of)).unwrap();
    assert_eq!((done.entries, done.unverified), (1184, 0));
    let before = fs::read(&file).unwrap();
    assert_eq!(run(), ("warm: 1184 hits, 0 packed".to_owned(), output, String::new()));
    assert!(fs::read(&file).unwrap() == before, "not a byte is written");
}
