//! What is written in several ways has one form, and what differs has several.

use super::*;

fn key(cell: Cell, options: Options) -> Key {
    cell.key(&cell.program(options)).expect("it is accepted")
}

fn arguments(cell: Cell, options: Options) -> Vec<String> {
    cell.program(options).arguments(cell.compiler).expect("they are accepted")
}

#[test]
fn the_order_of_the_calls_does_not_count() {
    let set: [(OptionName, Value); 5] = [
        (OptionName::Arch, "sm_90a".into()),
        (OptionName::Std, "c++20".into()),
        (OptionName::DefineMacro, ["A", "B"].into()),
        (OptionName::MaxRegisterCount, 64.into()),
        (OptionName::Ftz, true.into()),
    ];
    let one: Options = set.iter().cloned().collect();
    let other: Options = set.iter().rev().cloned().collect();
    assert_eq!(one, other);
    assert_eq!(key(CXX, one), key(CXX, other));
}

#[test]
fn the_last_value_of_an_option_counts() {
    let twice = Options::new().with(OptionName::Std, "c++17").with(OptionName::Std, "c++20");
    assert_eq!(twice, Options::new().with(OptionName::Std, "c++20"));
    assert_eq!((&twice).into_iter().count(), 1);
}

#[test]
fn the_order_within_a_list_counts() {
    for option in [OptionName::DefineMacro, OptionName::UndefineMacro, OptionName::DiagError] {
        let with = |items: [&str; 2]| key(CXX, Options::new().with(option, items));
        assert_ne!(with(["1", "2"]), with(["2", "1"]), "{option}");
        assert_ne!(with(["1", "2"]), key(CXX, Options::new().with(option, "12")), "{option}");
    }
    let with = |items: [&str; 2]| key(PTX, Options::new().with(OptionName::PtxasOptions, items));
    assert_ne!(with(["-O2", "-O3"]), with(["-O3", "-O2"]));
}

#[test]
fn a_text_is_a_list_of_one_and_an_empty_list_is_nothing() {
    for (option, item) in [
        (OptionName::PtxasOptions, "-v"),
        (OptionName::DefineMacro, "A"),
        (OptionName::UndefineMacro, "A"),
        (OptionName::DiagError, "1"),
        (OptionName::WarningAsError, "reorder"),
    ] {
        let with = |value: Value| key(CXX, Options::new().with(option, value));
        assert_eq!(with(item.into()), with([item].into()), "{option}");
        assert_ne!(with(item.into()), with([item, item].into()), "{option}");
        assert_eq!(with(Value::List(Vec::new())), key(CXX, Options::new()), "{option}");
    }
    let with = |value: Value| key(PTX, Options::new().with(OptionName::PtxasOptions, value));
    assert_eq!(with("-v".into()), with(["-v"].into()));
    // An argument of ptxas without a letter would end the process.
    assert_eq!(with(["", "-v"].into()), with(["-v"].into()));
    assert_eq!(with("".into()), key(PTX, Options::new()));
    let options = Options::new().with(OptionName::PtxasOptions, Value::List(Vec::new()));
    assert_eq!(key(NVVM, options), key(NVVM, Options::new()));
}

#[test]
fn numbers_of_messages_have_one_spelling() {
    let with = |value: Value| key(CXX, Options::new().with(OptionName::DiagError, value));
    assert_eq!(with(["007"].into()), with(7.into()));
    assert_eq!(with("7".into()), with(7.into()));
}

#[test]
fn each_compiler_gets_its_own_spelling() {
    let all = || {
        Options::new()
            .with(OptionName::Arch, "sm_90a")
            .with(OptionName::Debug, true)
            .with(OptionName::Ftz, true)
            .with(OptionName::Fma, false)
    };
    let spelt = |cell: Cell| arguments(cell, all()).join(" ");
    assert_eq!(spelt(CXX), "--gpu-architecture=sm_90a --device-debug --ftz=true --fmad=false");
    assert_eq!(spelt(PTX), "-arch=sm_90a -g -ftz=1 -fma=0");
    assert_eq!(spelt(LTOIR), "-arch=sm_90a -g -ftz=1 -fma=0 -lto");
    assert_eq!(spelt(NVVM), "-arch=compute_90a -g -ftz=1 -fma=0");
    let to = |cell: Cell, target| Cell { target, ..cell };
    assert_eq!(spelt(to(PTX, TargetType::Ptx)), "-arch=sm_90a -g -ftz=1 -fma=0 -ptx");
    assert_eq!(spelt(to(LTOIR, TargetType::Ptx)), "-arch=sm_90a -g -ftz=1 -fma=0 -lto -ptx");
    assert_eq!(spelt(to(NVVM, TargetType::LtoIr)), "-arch=compute_90a -g -ftz=1 -fma=0 -gen-lto");
}

#[test]
fn nvvm_knows_one_spelling_of_an_architecture() {
    assert_eq!(key(NVVM, arch("sm_90a")), key(NVVM, arch("compute_90a")));
    assert_ne!(key(NVVM, arch("sm_90a")), key(NVVM, arch("sm_90")));
    let ptx = Cell::new(CodeType::Cxx, TargetType::Ptx, Compiler::Nvrtc);
    assert_ne!(key(ptx, arch("sm_90")), key(ptx, arch("compute_90")));
}

#[test]
fn with_known_headers_no_directory_is_in_the_arguments_or_in_the_key() {
    let contents = || {
        let header = |name: &'static str| Header { name: name.into(), digest: [1; 32] };
        Contents::none()
            .with_headers(Vec::from([header("include0/b.h"), header("include0/a.h")]))
            .with_search([2; 32])
    };
    let in_directory = |directory: &str| {
        let options = Options::new()
            .with(OptionName::IncludePath, [directory, "other"])
            .with(OptionName::PreInclude, "a.h")
            .with(OptionName::Std, "c++20")
            .with(OptionName::PchVerbose, true);
        CXX.program(options).with_contents(contents())
    };
    let arguments = in_directory("/home/a").arguments(Compiler::Nvrtc).unwrap();
    assert_eq!(
        arguments,
        ["--gpu-architecture=sm_90", "--std=c++20", "--pch-verbose=true", "--no-source-include"]
    );
    assert_eq!(CXX.key(&in_directory("/home/a")), CXX.key(&in_directory("/home/b")));
    let asked = CXX.program(Options::new().with(OptionName::NoSourceInclude, true)).with_contents(contents());
    assert_eq!(CXX.key(&asked), CXX.key(&CXX.program(Options::new()).with_contents(contents())));
}

#[test]
fn name_expressions_are_a_set_of_texts_and_bytes() {
    let with = |expressions: Vec<NameExpression>| {
        CXX.key(&CXX.program(Options::new()).with_name_expressions(expressions)).expect("they are accepted")
    };
    let text = NameExpression::from;
    let bytes = |bytes: &[u8]| NameExpression::from(bytes);
    assert_eq!(with(Vec::from([text("f"), text("g")])), with(Vec::from([text("g"), text("f"), text("g")])));
    let keys = [
        with(Vec::new()),
        with(Vec::from([text("f")])),
        with(Vec::from([bytes(b"f")])),
        with(Vec::from([text("f"), bytes(b"f")])),
        with(Vec::from([text("f g")])),
        with(Vec::from([text("f"), text("g")])),
        with(Vec::from([bytes(&[0xff])])),
        with(Vec::from([bytes(b"ff")])),
        with(Vec::from([text("ff")])),
    ];
    for (at, key) in keys.iter().enumerate() {
        assert!(!keys[at + 1..].contains(key), "{at}");
    }
}
