//! What is refused, and what opens the way.

use super::*;

fn refusal(cell: Cell, options: Options) -> Refusal {
    cell.program(options).key().expect_err("it must be refused")
}

#[test]
fn cxx_has_no_key_where_its_headers_are_not_known() {
    for text in ["#include \"h.h\"", "int a;", ""] {
        let program = Case::new(CodeType::Cxx, TargetType::Cubin, text).with_options(arch("sm_90"));
        let refusal = program.clone().with_contents(Contents::default()).key().unwrap_err();
        assert_eq!((refusal.option(), refusal.is_outside_content()), (Some("headers"), true));
        assert!(program.clone().with_contents(headers(&[], 9)).key().is_ok());
        assert!(program.with_contents(extra()).key().is_ok());
    }
    for cell in [PTX, LTOIR, NVVM] {
        assert!(cell.program(Options::new()).with_contents(Contents::default()).key().is_ok());
    }
}

#[test]
fn libdevice_needs_its_digest_or_one_of_the_caller() {
    let program = NVVM.program(Options::new().with(OptionName::UseLibdevice, true));
    assert!(program.key().unwrap_err().is_outside_content());
    let with = |contents| program.clone().with_contents(contents).key().expect("it is known");
    let keys = [
        with(Contents { libdevice: Some([1; 32]), ..Contents::default() }),
        with(Contents { libdevice: Some([2; 32]), ..Contents::default() }),
        with(extra()),
        with(Contents { libdevice: Some([1; 32]), ..extra() }),
        NVVM.program(Options::new()).with_contents(extra()).key().unwrap(),
    ];
    for (at, key) in keys.iter().enumerate() {
        assert!(!keys[at + 1..].contains(key), "{at}");
    }
}

#[test]
fn an_extra_digest_of_zeros_or_of_few_bytes_is_none() {
    for bytes in [&[][..], &[0], &[0; 16], &[0; 32], &[0; 64], &[1; 15], &[1; 65]] {
        let refusal = ExtraDigest::new(bytes).unwrap_err();
        assert_eq!((refusal.option(), refusal.is_malformed()), (Some("extra_digest"), true));
    }
    for bytes in [&[1; 16][..], &[1; 32], &[1; 64]] {
        assert_eq!(ExtraDigest::new(bytes).unwrap().as_bytes(), bytes);
    }
    let mut last = [0; 32];
    last[31] = 1;
    assert!(ExtraDigest::new(&last).is_ok());
}

#[test]
fn source_that_is_text_is_refused_with_a_nul() {
    let source = |cell: Cell, source: &'static str| {
        Case::new(cell.code, cell.target, source).with_options(arch("sm_90")).key()
    };
    for cell in [CXX, PTX] {
        let refusal = source(cell, "a\0b").unwrap_err();
        assert_eq!((refusal.option(), refusal.is_malformed()), (Some("source"), true));
    }
    // These may be bytes, and their compilers get the length.
    for cell in [LTOIR, NVVM] {
        assert!(source(cell, "BC\0").is_ok());
    }
    for cell in [CXX, PTX, LTOIR, NVVM] {
        assert!(source(cell, "").is_ok());
    }
}

#[test]
fn nul_bytes_are_refused_wherever_a_text_ends_at_one() {
    let program = || CXX.program(Options::new());
    for (program, name) in [
        (program().with_name("k\0.cu"), "name"),
        (program().with_name_expressions(["f\0"]), "name_expressions"),
        (CXX.program(Options::new().with(OptionName::DefineMacro, ["A", "B\0"])), "define_macro"),
        (CXX.program(Options::new().with(OptionName::FrandomSeed, "\0")), "frandom_seed"),
        (CXX.program(arch("sm_90\0")), "arch"),
    ] {
        let refusal = program.key().unwrap_err();
        assert_eq!((refusal.option(), refusal.is_malformed()), (Some(name), true));
    }
    // As well where the option is ignored.
    assert_eq!(refusal(PTX, Options::new().with(OptionName::Std, "a\0")).option(), Some("std"));
    let program = NVVM.program(Options::new()).with_extra_source("a\0", "b");
    assert_eq!(program.key().unwrap_err().option(), Some("extra_sources"));
}

#[test]
fn name_expressions_are_for_cxx_alone() {
    for cell in [PTX, LTOIR, NVVM] {
        let refusal = cell.program(Options::new()).with_name_expressions(["f"]).key().unwrap_err();
        assert_eq!((refusal.option(), refusal.is_unsupported()), (Some("name_expressions"), true));
    }
    assert!(CXX.program(Options::new()).with_name_expressions([""]).key().is_err());
}

#[test]
fn an_expression_is_one_line_that_asks_for_nothing() {
    let key = |expression: &str| CXX.program(Options::new()).with_name_expressions([expression]).key();
    for expression in [
        "f<1>\n#include \"/a.h\"",
        "f<1>\r",
        "f<__has_include(\"/a.h\")>",
        "f<_HAS_INCLUDE(\"/a.h\")>",
        "f<__TIME__[7]>",
        "f<P(__DA, TE__)>",
        "f<P(__, DATE, __)>",
    ] {
        assert_eq!(key(expression).unwrap_err().option(), Some("name_expressions"), "{expression}");
    }
    for expression in ["matmul<16, float>", "&a::b_<__half2>", "f<_Float16, __nv_bfloat16, 'D'>"] {
        assert!(key(expression).is_ok(), "{expression}");
    }
}

#[test]
fn a_nul_byte_is_found_wherever_it_is() {
    for len in [1, 63, 64, 65, 200] {
        for at in 0..len {
            let mut bytes = alloc::vec![b'a'; len];
            assert!(!has_nul(&bytes));
            bytes[at] = 0;
            assert!(has_nul(&bytes));
        }
    }
    assert!(!has_nul(b""));
}

#[test]
fn an_architecture_is_asked_for_and_must_be_one() {
    let key = |cell: Cell, options: Options| {
        Case::new(cell.code, cell.target, "source").with_options(options).key()
    };
    for cell in few([CXX, PTX, LTOIR, NVVM]) {
        assert_eq!(key(cell, Options::new()).unwrap_err().option(), Some("arch"));
        for malformed in [
            "", "90", "sm90", "sm_", "sm_a", "sm_90b", "sm_90A", "sm_90af", "SM_90", "sm_90 ", "sm_090",
            "lto_90",
        ] {
            let refusal = key(cell, arch(malformed)).unwrap_err();
            assert_eq!((refusal.option(), refusal.is_malformed()), (Some("arch"), true), "{malformed:?}");
        }
        for arch_ in ["sm_75", "sm_90", "sm_90a", "sm_100f", "sm_121a"] {
            assert!(key(cell, arch(arch_)).is_ok(), "{arch_}");
        }
    }
    assert_eq!(key(CXX, arch("compute_90")).unwrap_err().option(), Some("arch"));
    assert_eq!(key(PTX, arch("compute_90")).unwrap_err().option(), Some("arch"));
    let ptx = Cell::new(CodeType::Cxx, TargetType::Ptx);
    assert!(key(ptx, arch("compute_90a")).is_ok());
}

#[test]
fn ptxas_argument_outside_the_list_is_refused() {
    for argument in [
        "-optf=a",
        "-optfa",
        "--options-file=a",
        "--options-file",
        "-o=a",
        "-oa",
        "-o",
        "--output-file=a",
        "a.ptx",
        "@a",
        "--entry=a/b",
        "--entry=@a",
        "--entry=a\\b",
        "--apply-controls=a",
        "-apply-controls=a",
        "--ext-desc-file=a",
        "--fdevice-time-trace=a",
        "-arch=sm_80",
        "--gpu-name=sm_80",
        "--compile-only",
        "-flcm=ca",
        "--input-as-string",
        "--help",
        "-v -O2",
        " -v",
        "-v,-O2",
        "-O2 a.ptx",
        "-O=a.ptx",
        "-",
        "--",
    ] {
        for cell in few([CXX, PTX, LTOIR]) {
            for value in [Value::from(argument), Value::from(["-v", argument])] {
                let refusal = refusal(cell, Options::new().with(OptionName::PtxasOptions, value));
                assert_eq!((refusal.option(), refusal.is_unsupported()), (Some("ptxas_options"), true));
            }
        }
    }
    for argument in [
        "-v",
        "-O3",
        "--opt-level=1",
        "-maxrregcount=32",
        "--warn-on-spills",
        "--entry=k,f",
        "-dlcm=ca",
        "--register-usage-level=10",
    ] {
        let options = Options::new().with(OptionName::PtxasOptions, argument);
        assert!(PTX.program(options).key().is_ok(), "{argument}");
    }
}

#[test]
fn values_of_another_kind_or_outside_the_range_are_refused() {
    for (name, value) in [
        ("arch", Value::from(90)),
        ("debug", "true".into()),
        ("debug", 1.into()),
        ("debug", Value::List(Vec::new())),
        ("ftz", "true".into()),
        ("max_register_count", (-1).into()),
        ("max_register_count", "32".into()),
        ("max_register_count", i64::MAX.into()),
        ("jump_table_density", 102.into()),
        ("jump_table_density", (-1).into()),
        ("fmax_errors", 0.into()),
        ("split_compile", (-1).into()),
        ("std", "c++98".into()),
        ("std", "C++20".into()),
        ("std", 20.into()),
        ("ofast_compile", "fast".into()),
        ("optimization_info", "all".into()),
        ("warning_as_error", "everything".into()),
        ("warning_as_error", ["reorder", ""].into()),
        ("diag_error", 0.into()),
        ("diag_error", "007".into()),
        ("diag_error", "0".into()),
        ("diag_error", "x".into()),
        ("diag_error", "1,2".into()),
        ("diag_error", "99999999999".into()),
        ("diag_error", ["1", "-2"].into()),
        ("define_macro", "".into()),
        ("define_macro", ["A", ""].into()),
        ("define_macro", 1.into()),
        ("ptxas_options", 1.into()),
        ("frandom_seed", 1.into()),
        ("frandom_seed", true.into()),
    ] {
        for cell in [CXX, PTX] {
            let refusal = refusal(cell, Options::new().with(option(name), value.clone()));
            let found = (refusal.option(), refusal.is_malformed());
            assert_eq!(found, (Some(name), true), "{name}={value}: {refusal}");
        }
    }
}

#[test]
fn a_refusal_says_what_to_do() {
    assert_eq!(
        refusal(NVVM, Options::new().with(OptionName::UseLibdevice, true)).to_string(),
        "use_libdevice: the compiler reads a library that is not in the key; give its digest, or an extra digest"
    );
    assert_eq!(
        refusal(NVVM, Options::new().with(OptionName::Std, "c++20")).to_string(),
        "std: NVVM does not take it for nvvm; leave it out"
    );
    assert_eq!(
        refusal(PTX, Options::new().with(OptionName::PtxasOptions, "--compile-only")).to_string(),
        "ptxas_options: \"--compile-only\" is not on the list of arguments that reach no file outside the key; leave it out, \
         set the option of the program that does the same, or ask for it in an issue"
    );
}
