//! The CPU target: kernels that depend on more than a key can hold.

use warmstart::{Reason, target::cpu::Kernel};
use warmstart_tests::cpu::{INCLUDING, memory, misses, run, target, targets, write};

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
