//! What is written in several ways has one form, and what differs has several.

use super::*;

fn key(cell: Cell, options: Options) -> Key {
    cell.program(options).key().expect("it is accepted")
}

fn arguments(cell: Cell, options: Options) -> Vec<String> {
    cell.program(options).arguments().expect("they are accepted")
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
    let with = |options: Options, (name, value): &(OptionName, Value)| options.with(*name, value.clone());
    let one = set.iter().fold(Options::new(), with);
    let other = set.iter().rev().fold(Options::new(), with);
    assert_eq!(one, other);
    assert_eq!(key(CXX, one), key(CXX, other));
}

#[test]
fn the_last_value_of_an_option_counts() {
    let twice = Options::new().with(OptionName::Std, "c++17").with(OptionName::Std, "c++20");
    assert_eq!(twice, Options::new().with(OptionName::Std, "c++20"));
    assert_eq!(twice.iter().count(), 1);
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
fn a_message_is_a_number_or_the_text_of_one() {
    let of = |value: Value| key(CXX, Options::new().with(OptionName::DiagSuppress, value));
    assert_eq!(of(177.into()), of("177".into()));
    assert_ne!(of(177.into()), of(178.into()));
}

#[test]
fn macros_are_defined_before_others_are_taken_away() {
    let options =
        Options::new().with(OptionName::UndefineMacro, ["A"]).with(OptionName::DefineMacro, ["A=1", "B"]);
    assert_eq!(
        arguments(CXX, options)[1..4],
        ["--define-macro=A=1", "--define-macro=B", "--undefine-macro=A"]
    );
}

#[test]
fn every_spelling_is_long_and_of_one_option() {
    assert!(OptionName::ALL.is_sorted());
    for option in OptionName::ALL {
        let spelling = option.row().spelling;
        let others = OptionName::ALL.iter().filter(|other| other.row().spelling == spelling).count();
        assert!(spelling.is_empty() || others == 1 && spelling.starts_with("--"), "{option}: {spelling}");
    }
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
    assert_eq!(
        spelt(CXX),
        "--gpu-architecture=sm_90a --device-debug --ftz=true --fmad=false --no-source-include"
    );
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
    let ptx = Cell::new(CodeType::Cxx, TargetType::Ptx);
    assert_ne!(key(ptx, arch("sm_90")), key(ptx, arch("compute_90")));
}

#[test]
fn with_known_headers_none_is_looked_for_beside_the_source() {
    let contents = || headers(&[("include0/b.h", 1), ("include0/a.h", 1)], 2);
    let program = CXX.program(Options::new().with(OptionName::Std, "c++20")).with_contents(contents());
    assert_eq!(
        program.arguments().unwrap(),
        ["--gpu-architecture=sm_90", "--std=c++20", "--no-source-include"]
    );
    let asked = CXX.program(Options::new().with(OptionName::NoSourceInclude, true)).with_contents(contents());
    assert_eq!(asked.key(), CXX.program(Options::new()).with_contents(contents()).key());
}

#[test]
fn name_expressions_are_a_set() {
    let none = CXX.program(Options::new());
    let of = |case: Case| case.key().expect("they are accepted");
    assert_eq!(
        of(none.clone().with_name_expressions(["f", "g"])),
        of(none.clone().with_name_expressions(["g", "f", "g"]))
    );
    let keys = [
        of(none.clone()),
        of(none.clone().with_name_expressions(["f"])),
        of(none.clone().with_name_expressions(["f g"])),
        of(none.with_name_expressions(["f", "g"])),
    ];
    for (at, key) in keys.iter().enumerate() {
        assert!(!keys[at + 1..].contains(key), "{at}");
    }
}
