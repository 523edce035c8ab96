//! The CPU target: kernels that depend on more than a key can hold.

use warmstart::{
    MissReason,
    target::cpu::{ExtraDigest, Kernel},
};
use warmstart_tests::cpu::{INCLUDING, memory, misses, run, target, targets, write};
use warmstart_tests::whole::Whole;

#[test]
fn what_cannot_be_tracked_is_compiled_and_not_stored() {
    let (target, cache, directory) = (target(), memory(), tempfile::tempdir().unwrap());
    write(directory.path().join("value.h"), "#define H(x) __has_include(x)\n#define VALUE 1\n");
    let simple = |text: String| Kernel::new("f", text);
    for kernel in [
        Kernel::new("f", INCLUDING).source_dir(directory.path()),
        simple("#define N <math.h>\n#if __has_include(N)\n#endif\nint f(void) { return 1; }".into()),
        simple("#define N <math.h>\n#include N\nint f(void) { return 1; }".into()),
        simple("int f(void) { return ASK; }".into())
            .flag("-DASK=__has_include(NAME)")
            .flag("-DNAME=1")
            .flag("-UASK")
            .flag("-DASK=1"),
        simple("#if 0\n__DATE__\n#endif\nint f(void) { return 1; }".into()),
    ] {
        for _ in 0..2 {
            let (value, fetched) = run(&target, &cache, &kernel);
            assert_eq!(value, 1);
            assert_eq!(fetched.refusal(), Some(MissReason::Uncacheable), "{kernel:?}");
        }
    }
}

#[test]
fn assembly_that_reads_a_file_is_refused_however_it_is_spelt() {
    for target in targets() {
        let (cache, directory) = (memory(), tempfile::tempdir().unwrap());
        let data = directory.path().join("data");
        write(&data, "1");
        let function = "extern const unsigned char d[]; int f(void) { return d[0]; }\n";
        for (head, directive) in [
            ("", "\".incbin \\\"DATA\\\""),
            ("", "\".inc\" \"bin \\\"DATA\\\""),
            ("", "\".INCBIN \\\"DATA\\\""),
            ("", "\"\\x2eincbin \\\"DATA\\\""),
            ("#define D \".inc\"\n", "D \"bin \\\"DATA\\\""),
            ("#define S(x) #x\n", "S(.incb) \"in \\\"DATA\\\""),
            ("const char *s = R\"x(\" /* )x\";\n", "\".incbin \\\"DATA\\\""),
            ("", "\".macro m x\\n.inc\\\\x \\\"DATA\\\"\\n.endm\\nm bin"),
        ] {
            let directive = directive.replace("DATA", data.to_str().unwrap());
            for word in ["__asm__(TEXT);\n", "#define C(a, b) a##b\nC(__a, sm__)(TEXT);\n"] {
                let text = format!("\".data\\n.globl d\\nd:\\n\" {directive}\\n.text\"");
                let kernel = Kernel::new("f", format!("{head}{}{function}", word.replace("TEXT", &text)));
                let error = target.compile(&cache, &kernel).unwrap_err();
                // Not every compiler takes every spelling.
                assert!(error.is_refused() || error.is_rejected_source(), "{error}");
                if head.is_empty() {
                    assert!(error.to_string().contains("Kernel::extra_digest"), "{error}");
                }
                assert_eq!(cache.store().whole(), Ok(1), "nothing but the compiler");
            }
        }
        let section = "__attribute__((section(\"a\\n.inc\" \"bin \\\"DATA\\\"\\n#\"))) int i;\n";
        let kernel = Kernel::new("f", section.replace("DATA", data.to_str().unwrap()));
        let error = target.compile(&cache, &kernel).unwrap_err();
        assert!(error.is_refused() || error.is_rejected_source(), "{error}");
    }
}

#[test]
fn assembly_that_reads_a_file_is_keyed_by_the_extra_digest() {
    let (target, cache, directory) = (target(), memory(), tempfile::tempdir().unwrap());
    let data = directory.path().join("data");
    let text = format!(
        "__asm__(\".data\\n.globl d\\nd: .incbin \\\"{}\\\"\\n.text\");\n\
         extern const unsigned char d[]; int f(void) {{ return d[0]; }}\n",
        data.display()
    );
    for content in ["1", "2"] {
        write(&data, content);
        let digest = ExtraDigest::new(&[content.as_bytes()[0]; 32]).unwrap();
        let kernel = Kernel::new("f", text.as_str()).extra_digest(digest);
        misses(&target, &cache, &kernel, MissReason::Absent, content.as_bytes()[0].into());
    }
}

#[test]
fn assembly_that_reads_no_file_is_stored() {
    let (target, cache) = (target(), memory());
    let text =
        "int f(void) { __asm__ volatile(\"\" ::: \"memory\"); return 1; }\nconst char *s = \"done.\\n\";\n";
    misses(&target, &cache, &Kernel::new("f", text), MissReason::Absent, 1);
}

#[test]
fn a_date_in_a_kernel_is_an_error() {
    let error =
        target().compile(&memory(), &Kernel::new("f", "char *f(void) { return __DATE__; }")).unwrap_err();
    assert!(error.log().unwrap().contains("reproducible"), "{error}");
}
