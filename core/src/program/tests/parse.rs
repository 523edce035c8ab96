//! Arguments of NVRTC, in every spelling.

use super::*;

fn parsed(arguments: &[&str]) -> Options {
    Options::parse(arguments).unwrap_or_else(|refusal| panic!("{arguments:?}: {refusal}"))
}

fn only(option: OptionName, value: impl Into<Value>) -> Options {
    Options::new().with(option, value)
}

#[test]
fn long_short_split_and_joined_spellings_are_one_option() {
    for spelling in [
        &["--gpu-architecture=sm_90"][..],
        &["--gpu-architecture", "sm_90"],
        &["-arch=sm_90"],
        &["-arch", "sm_90"],
    ] {
        assert_eq!(parsed(spelling), arch("sm_90"));
    }
    for spelling in [
        &["-DX=2"][..],
        &["-D X=2"],
        &["-D=X=2"],
        &["-D", "X=2"],
        &["--define-macro=X=2"],
        &["--define-macro", "X=2"],
    ] {
        assert_eq!(parsed(spelling), only(OptionName::DefineMacro, ["X=2"]));
    }
    assert_eq!(parsed(&["-Ia", "-I", "b", "-I=c"]), only(OptionName::IncludePath, ["a", "b", "c"]));
    assert_eq!(parsed(&["-UA"]), only(OptionName::UndefineMacro, ["A"]));
    assert_eq!(
        parsed(&["-include=a.h", "--pre-include", "b.h"]),
        only(OptionName::PreInclude, ["a.h", "b.h"])
    );
    assert_eq!(parsed(&["-Xptxas", "-v", "-Xptxas=-O1"]), only(OptionName::PtxasOptions, ["-v", "-O1"]));
    assert_eq!(parsed(&["-fmad=false"]), only(OptionName::Fma, false));
    assert_eq!(parsed(&["-maxrregcount", "032"]), only(OptionName::MaxRegisterCount, 32));
    assert_eq!(parsed(&["-dopt=on"]), only(OptionName::DeviceCodeOptimize, true));
    assert_eq!(parsed(&["-default-device"]), only(OptionName::DeviceAsDefaultExecutionSpace, true));
    assert_eq!(parsed(&["-diag-error=1,02", "-diag-error=3"]), only(OptionName::DiagError, ["1", "2", "3"]));
    assert_eq!(
        parsed(&["-Werror=reorder,conversion"]),
        only(OptionName::WarningAsError, ["reorder", "conversion"])
    );
    assert_eq!(parsed(&["-jtd=5"]), only(OptionName::JumpTableDensity, 5));
    for yes in ["-dc", "--device-c", "-rdc=true", "--relocatable-device-code=true"] {
        assert_eq!(parsed(&[yes]), only(OptionName::RelocatableDeviceCode, true));
    }
    assert_eq!(parsed(&["-dw"]), only(OptionName::RelocatableDeviceCode, false));
    assert_eq!(parsed(&["-err-no"]), only(OptionName::NoDisplayErrorNumber, false));
}

#[test]
fn the_order_of_arguments_does_not_count_and_the_last_value_wins() {
    assert_eq!(parsed(&["-G", "-arch=sm_90", "-DA"]), parsed(&["-DA", "-G", "-arch", "sm_90"]));
    assert_eq!(parsed(&["-std=c++17", "--std=c++20"]), only(OptionName::Std, "c++20"));
    assert_eq!(parsed(&["-arch=sm_80", "-arch=sm_90"]), arch("sm_90"));
    assert_eq!(parsed(&["-ftz=true", "-ftz=false"]), only(OptionName::Ftz, false));
    assert_eq!(parsed(&["-G", "-G"]), only(OptionName::Debug, true));
}

#[test]
fn side_effects_are_parsed_so_that_the_refusal_can_name_them() {
    for (argument, name) in [
        ("-time=-", "time"),
        ("--create-pch=a", "create_pch"),
        ("--use-bundled-headers=a", "use_bundled_headers"),
        ("-fdevice-time-trace=a", "fdevice_time_trace"),
    ] {
        let refusal = CXX.key(&CXX.program(parsed(&[argument]))).unwrap_err();
        assert_eq!((refusal.option(), refusal.is_side_effect()), (Some(name), true));
    }
}

#[test]
fn what_is_no_argument_of_nvrtc_is_refused_by_its_spelling() {
    for argument in [
        "",
        "-",
        "--",
        "k.cu",
        "@file",
        "--arch=sm_90",
        "-gpu-architecture=sm_90",
        "--gpu-arch=sm_90",
        "-arch sm_90",
        "-O3",
        "--Werror=reorder",
        "-jump-table-density=1",
        "-device-as-default-execution-space",
        "-optix-ir",
        "--modify-stack-limit=false",
    ] {
        let refusal = Options::parse([argument]).unwrap_err();
        assert!(refusal.is_unsupported(), "{argument}: {refusal}");
        let shown = if argument.is_empty() { "\"\"" } else { argument };
        assert_eq!(refusal.option(), Some(shown));
    }
    let long = "x".repeat(1000);
    assert!(Options::parse([&long]).unwrap_err().option().is_some_and(|shown| shown.len() < 100));
}

#[test]
fn values_that_nvrtc_does_not_take_are_refused() {
    for (arguments, name) in [
        (&["-ftz"][..], "ftz"),
        (&["-ftz=1"], "ftz"),
        (&["-ftz=True"], "ftz"),
        (&["-G=true"], "debug"),
        (&["-use_fast_math=false"], "use_fast_math"),
        (&["-dopt=off"], "device_code_optimize"),
        (&["-dopt"], "device_code_optimize"),
        (&["-maxrregcount=0x20"], "max_register_count"),
        (&["-maxrregcount=+32"], "max_register_count"),
        (&["-maxrregcount="], "max_register_count"),
        (&["-diag-error=1, 2"], "diag_error"),
        (&["-arch"], "arch"),
        (&["-D"], "define_macro"),
        (&["-D", "A\0"], "define_macro"),
    ] {
        let refusal = Options::parse(arguments).unwrap_err();
        assert_eq!(
            (refusal.option(), refusal.is_malformed()),
            (Some(name), true),
            "{arguments:?}: {refusal}"
        );
    }
    assert!(Options::parse(["-DA\0"]).unwrap_err().is_malformed());
}

#[test]
fn what_nvrtc_calls_a_contradiction_is_refused() {
    for (arguments, name) in [
        (["-dc", "-rdc=false"], "relocatable_device_code"),
        (["-rdc=true", "-dw"], "relocatable_device_code"),
        (["-err-no", "-no-err-no"], "no_display_error_number"),
        (["-no-err-no", "-err-no"], "no_display_error_number"),
    ] {
        assert_eq!(Options::parse(arguments).unwrap_err().option(), Some(name), "{arguments:?}");
    }
}

#[test]
fn a_macro_that_is_defined_after_it_was_undefined_is_refused_because_definitions_come_first() {
    for definition in ["-DA", "-DA=1", "-DA(x)=x", "-D A"] {
        let refusal = Options::parse(["-UA", definition]).unwrap_err();
        assert_eq!(refusal.option(), Some("undefine_macro"), "{definition}");
    }
    let options = parsed(&["-DA=1", "-UA", "-DB"]);
    assert_eq!(
        CXX.program(options).arguments(Compiler::Nvrtc).unwrap()[1..],
        ["--define-macro=A=1", "--define-macro=B", "--undefine-macro=A"]
    );
}

#[test]
fn the_arguments_of_what_was_parsed_are_parsed_to_the_same() {
    let first = parsed(&[
        "-arch=sm_90",
        "-DA=1",
        "-UB",
        "-G",
        "-dopt=on",
        "-diag-suppress=1,2",
        "-Werror=reorder",
        "-no-source-include",
        "-split-compile=2",
        "-brief-diag=true",
        "-Xptxas=-v",
        "-frandom-seed=a=b",
    ]);
    let arguments = CXX.program(first.clone()).arguments(Compiler::Nvrtc).unwrap();
    assert_eq!(parsed(&arguments.iter().map(String::as_str).collect::<Vec<_>>()), first);
}

#[test]
fn every_spelling_is_of_one_option_and_the_first_is_the_one_that_is_passed() {
    for option in OptionName::ALL {
        assert_eq!(OptionName::parse(option.as_str()), Some(*option));
        for spelling in option.spellings() {
            let others = OptionName::ALL.iter().filter(|other| other.spellings().contains(spelling)).count();
            assert_eq!(others, 1, "{spelling}");
        }
        if let [long, ..] = option.spellings() {
            assert!(long.starts_with("--"), "{long}");
        }
    }
    assert!(OptionName::ALL.is_sorted());
}
