//! What is refused, and what opens the way.

use super::*;

fn refusal(cell: Cell, options: Options) -> Refusal {
    cell.key(&cell.program(options)).expect_err("it must be refused")
}

fn headers(digests: &[(&'static str, u8)]) -> Contents<'static> {
    let header =
        |(name, byte): &(&'static str, u8)| Header { name: Cow::Borrowed(name), digest: [*byte; 32] };
    Contents::none().with_headers(digests.iter().map(header).collect()).with_search([9; 32])
}

#[test]
fn headers_that_are_known_open_the_options_that_reach_them() {
    for (option, value) in [
        (OptionName::IncludePath, "include"),
        (OptionName::PreInclude, "a.h"),
        (OptionName::Name, "directory/k.cu"),
        (OptionName::Name, "directory\\k.cu"),
    ] {
        let program = CXX.program(Options::new().with(option, value));
        let refusal = CXX.key(&program).unwrap_err();
        assert!(refusal.is_outside_content(), "{refusal}");
        assert_eq!(refusal.option(), Some(option.as_str()));
        assert!(CXX.key(&program.clone().with_contents(headers(&[]))).is_ok(), "{option}");
    }
}

#[test]
fn headers_without_how_they_are_found_are_not_known() {
    let program = CXX.program(Options::new().with(OptionName::IncludePath, "include"));
    let header = Header { name: "include0/a.h".into(), digest: [1; 32] };
    let program = program.with_contents(Contents::none().with_headers(Vec::from([header])));
    assert!(CXX.key(&program).unwrap_err().is_outside_content());
}

#[test]
fn a_source_with_headers_has_no_key_without_them() {
    let program =
        |text: &'static str| Program::new(CodeType::Cxx, TargetType::Cubin, text).with_options(arch("sm_90"));
    for text in [
        "#include \"h.h\"",
        "#include </h.h>",
        "#if __has_include(\"h.h\")\n#endif",
        "%:include <a.h>",
        "#\\\ninclude <a.h>",
        "#in\\\r\nclude <a.h>",
        "#/* a\n */ include <a.h>",
        "#\x0cinclude A",
        "#include_next <a.h>",
        "#if 1 && \\\n __has_inc\\\nlude(<a.h>)\n#endif",
        "#define HAS __has_include(<a.h>)\n#if HAS\n#endif",
        "#if HAS_INCLUDE(<a.h>)\n#endif",
        "#define N 4\n#pragma once\n%: include <a.h>",
        "#define P(a, b, c) a##b##c\n#if P(__, has_, include)(\"a.h\")\n#endif",
        "const char *built = __DATE__;",
    ] {
        let refusal = CXX.key(&program(text)).unwrap_err();
        assert_eq!((refusal.option(), refusal.is_outside_content()), (Some("source"), true));
        assert!(CXX.key(&program(text).with_contents(headers(&[]))).is_ok());
        assert!(CXX.key(&program(text).with_contents(Contents::none().with_extra(digest()))).is_ok());
    }
    for text in
        ["int a; // #include <a.h>", "#define N 4\n#if N > 3\n#endif\n#pragma unroll", "#define P(a, b) a##b"]
    {
        assert!(CXX.key(&program(text)).is_ok(), "{text}");
    }
    // Older standards have other spellings.
    let old = |text: &'static str| program(text).with_options(arch("sm_90").with(OptionName::Std, "c++14"));
    assert!(CXX.key(&program("??=include <a.h>")).is_ok());
    assert!(CXX.key(&old("??=include <a.h>")).unwrap_err().is_outside_content());
    assert!(
        PTX.key(&Program::new(PTX.code, PTX.target, "# 1 \"a\"\n#include").with_options(arch("sm_90")))
            .is_ok()
    );
}

#[test]
fn precompiled_headers_are_not_opened_by_headers_that_are_known() {
    for options in [
        Options::new().with(OptionName::Pch, true),
        Options::new().with(OptionName::UsePch, "a.pch"),
        Options::new().with(OptionName::PchDir, "pch"),
    ] {
        let program = CXX.program(options).with_contents(headers(&[]));
        assert!(CXX.key(&program).unwrap_err().is_outside_content());
        assert!(CXX.key(&program.with_contents(headers(&[]).with_extra(digest()))).is_ok());
    }
}

#[test]
fn side_effects_are_refused_whatever_is_known() {
    for options in [
        Options::new().with(OptionName::CreatePch, "a.pch"),
        Options::new().with(OptionName::Time, "-"),
        Options::new().with(OptionName::FdeviceTimeTrace, "trace.json"),
        Options::new().with(OptionName::UseBundledHeaders, true),
    ] {
        for cell in [CXX, PTX, LTOIR, NVVM] {
            let contents = headers(&[]).with_libdevice([1; 32]).with_extra(digest());
            let program = cell.program(options.clone()).with_contents(contents);
            assert!(cell.key(&program).unwrap_err().is_side_effect(), "{cell:?} {options:?}");
        }
    }
}

#[test]
fn a_name_with_a_directory_needs_nothing_where_the_directory_is_not_searched() {
    let options = Options::new().with(OptionName::Name, "directory/k.cu");
    assert!(refusal(CXX, options.clone()).is_outside_content());
    assert!(CXX.key(&CXX.program(options.clone().with(OptionName::NoSourceInclude, true))).is_ok());
    assert!(refusal(CXX, options.with(OptionName::NoSourceInclude, false)).is_outside_content());
    let named = |name: &'static str| CXX.key(&CXX.program(Options::new()).with_name(name));
    assert_eq!(named("a/k.cu").unwrap_err().option(), Some("name"));
    assert!(named("k.cu").is_ok());
}

#[test]
fn libdevice_needs_its_digest_or_one_of_the_caller() {
    let program = NVVM.program(Options::new().with(OptionName::UseLibdevice, true));
    assert!(NVVM.key(&program).unwrap_err().is_outside_content());
    let with = |contents| NVVM.key(&program.clone().with_contents(contents)).expect("it is known");
    let keys = [
        with(Contents::none().with_libdevice([1; 32])),
        with(Contents::none().with_libdevice([2; 32])),
        with(Contents::none().with_extra(digest())),
        with(Contents::none().with_libdevice([1; 32]).with_extra(digest())),
        NVVM.key(&NVVM.program(Options::new()).with_contents(Contents::none().with_extra(digest()))).unwrap(),
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
fn sources_that_a_compiler_would_cut_or_not_read_as_text_are_refused() {
    let source = |cell: Cell, source: Source<'static>| {
        cell.key(&Program::new(cell.code, cell.target, source).with_options(arch("sm_90")))
    };
    for cell in [CXX, PTX] {
        assert_eq!(source(cell, (&b"bytes"[..]).into()).unwrap_err().option(), Some("source"));
    }
    for cell in [CXX, PTX, LTOIR, NVVM] {
        assert_eq!(source(cell, "a\0b".into()).unwrap_err().option(), Some("source"));
        assert!(source(cell, "".into()).is_ok());
    }
    for cell in [LTOIR, NVVM] {
        assert!(source(cell, (&b"BC\0"[..]).into()).is_ok());
        // That the bytes are text makes no difference to these compilers.
        assert_eq!(source(cell, (&b"BC"[..]).into()), source(cell, "BC".into()));
    }
}

#[test]
fn nul_bytes_are_refused_wherever_a_text_ends_at_one() {
    let program = || CXX.program(Options::new());
    for (program, name) in [
        (program().with_name("k\0.cu"), "name"),
        (program().with_name_expressions(["f\0"]), "name_expressions"),
        (program().with_name_expressions([&b"f\0"[..]]), "name_expressions"),
        (CXX.program(Options::new().with(OptionName::Name, "k\0.cu")), "name"),
        (CXX.program(Options::new().with(OptionName::DefineMacro, ["A", "B\0"])), "define_macro"),
        (CXX.program(Options::new().with(OptionName::FrandomSeed, "\0")), "frandom_seed"),
        (CXX.program(arch("sm_90\0")), "arch"),
    ] {
        let refusal = CXX.key(&program).unwrap_err();
        assert_eq!((refusal.option(), refusal.is_malformed()), (Some(name), true));
    }
    // As well where the option is ignored.
    assert_eq!(
        refusal(PTX, Options::new().with(OptionName::IncludePath, "a\0")).option(),
        Some("include_path")
    );
    for (name, text) in [("a\0", "b"), ("a", "b\0")] {
        let program = NVVM.program(Options::new()).with_extra_source(name, text);
        assert_eq!(NVVM.key(&program).unwrap_err().option(), Some("extra_sources"));
    }
}

#[test]
fn name_expressions_are_for_cxx_alone() {
    for cell in [PTX, LTOIR, NVVM] {
        let refusal = cell.key(&cell.program(Options::new()).with_name_expressions(["f"])).unwrap_err();
        assert_eq!((refusal.option(), refusal.is_unsupported()), (Some("name_expressions"), true));
    }
    assert!(CXX.key(&CXX.program(Options::new()).with_name_expressions([""])).is_err());
}

#[test]
fn an_expression_is_one_line_that_asks_for_nothing() {
    let key = |expression: &str| CXX.key(&CXX.program(Options::new()).with_name_expressions([expression]));
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
        cell.key(&Program::new(cell.code, cell.target, "source").with_options(options))
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
    let ptx = Cell::new(CodeType::Cxx, TargetType::Ptx, Compiler::Nvrtc);
    assert!(key(ptx, arch("compute_90a")).is_ok());
}

#[test]
fn arguments_of_ptxas_that_reach_files_or_other_architectures_are_refused() {
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
    for argument in
        ["-v", "-O3", "--opt-level=1", "-maxrregcount=32", "--warn-on-spills", "--entry=k,f", "-dlcm=ca"]
    {
        let options = Options::new().with(OptionName::PtxasOptions, argument);
        assert!(PTX.key(&PTX.program(options)).is_ok(), "{argument}");
    }
}

#[test]
fn values_of_another_kind_or_outside_the_range_are_refused() {
    for (name, value) in [
        ("arch", Value::from(90)),
        ("name", true.into()),
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
        ("diag_error", "0".into()),
        ("diag_error", "x".into()),
        ("diag_error", "1,2".into()),
        ("diag_error", "99999999999".into()),
        ("diag_error", ["1", "-2"].into()),
        ("define_macro", "".into()),
        ("define_macro", ["A", ""].into()),
        ("define_macro", 1.into()),
        ("ptxas_options", 1.into()),
        ("include_path", true.into()),
        ("frandom_seed", 1.into()),
        ("use_pch", true.into()),
    ] {
        for cell in [CXX, PTX] {
            let option = OptionName::parse(name).unwrap();
            let refusal = refusal(cell, Options::new().with(option, value.clone()));
            let found = (refusal.option(), refusal.is_malformed());
            assert_eq!(found, (Some(name), true), "{name}={value}: {refusal}");
        }
    }
}

#[test]
fn a_refusal_says_what_to_do() {
    let options = Options::new().with(OptionName::IncludePath, "include");
    assert_eq!(
        refusal(CXX, options).to_string(),
        "include_path: the compiler reads headers that the key does not know; give their contents, or an \
         extra digest of them"
    );
    assert_eq!(
        refusal(NVVM, Options::new().with(OptionName::Std, "c++20")).to_string(),
        "std: NVVM does not take it for nvvm; leave it out"
    );
}
