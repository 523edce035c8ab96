//! The key itself.

use super::*;

/// Guards the preimage: a change of it makes every stored program unreachable, and must be a decision.
#[test]
fn the_preimage_is_the_one_that_format_md_describes() {
    let options = Options::new()
        .with(OptionName::Arch, "sm_90a")
        .with(OptionName::Std, "c++20")
        .with(OptionName::DefineMacro, ["N=4"]);
    let found = headers(&[("source/b.cuh", 2), ("include0/a.cuh", 1)], 3);
    let contents = Contents { headers: found.headers, directory: Some("ab cd".into()), ..extra() };
    let program = Case::new(CodeType::Cxx, TargetType::Cubin, "kernel")
        .with_name("k.cu")
        .with_options(options)
        .with_name_expressions(["g<1>", "f"])
        .with_contents(contents);
    let mut toolchain = toolchain("13.5", &[("libnvrtc.so.13", 5), ("libnvrtc-builtins.so.13.5", 6)]);
    toolchain.environment.insert("NV_NVVM_VERSION".into(), "2".into());

    let mut preimage = Vec::from(*b"warmstart key 1\0");
    put(&mut preimage, b"warmstart.cuda");
    preimage.extend(1u32.to_le_bytes());
    preimage.extend(15u64.to_le_bytes());
    field(&mut preimage, "source", 2, b"kernel");
    field(&mut preimage, "code type", 1, b"c++");
    field(&mut preimage, "target type", 1, b"cubin");
    field(&mut preimage, "arch", 1, b"sm_90a");
    list(&mut preimage, "options", &["--define-macro=N=4", "--std=c++20", "--no-source-include"]);
    field(&mut preimage, "name", 1, b"k.cu");
    list(&mut preimage, "name expressions", &["text f", "text g<1>"]);
    field(&mut preimage, "compiler", 1, b"nvrtc");
    field(&mut preimage, "compiler version", 1, b"13.5");
    field(&mut preimage, "compiler build libnvrtc-builtins.so.13.5", 2, &[6; 20]);
    field(&mut preimage, "compiler build libnvrtc.so.13", 2, &[5; 20]);
    list(&mut preimage, "environment", &["NV_NVVM_VERSION=2", "current directory=ab cd"]);
    field(&mut preimage, "header include0/a.cuh", 2, &[1; 32]);
    field(&mut preimage, "header source/b.cuh", 2, &[2; 32]);
    field(&mut preimage, "header search", 2, &[3; 32]);
    let count = preimage.len();
    field(&mut preimage, "extra digest", 2, b"a digest of all headers");
    assert!(count < preimage.len());
    preimage[16 + 8 + 14 + 4..][..8].copy_from_slice(&16u64.to_le_bytes());
    assert_eq!(program.key_with(&toolchain), Ok(Key::digest(&preimage)));
}

#[test]
fn preimage_of_modules_and_libdevice_is_as_in_format_md() {
    let options = Options::new().with(OptionName::Arch, "sm_90").with(OptionName::UseLibdevice, true);
    let program = Case::new(CodeType::Nvvm, TargetType::LtoIr, &b"BC"[..])
        .with_options(options)
        .with_extra_source("other", "text")
        .with_contents(Contents { libdevice: Some([4; 32]), ..Contents::default() });
    let toolchain = toolchain("2.0 IR 2.0", &[]);

    let mut preimage = Vec::from(*b"warmstart key 1\0");
    put(&mut preimage, b"warmstart.cuda");
    preimage.extend(1u32.to_le_bytes());
    preimage.extend(10u64.to_le_bytes());
    field(&mut preimage, "source", 2, b"BC");
    field(&mut preimage, "code type", 1, b"nvvm");
    field(&mut preimage, "target type", 1, b"ltoir");
    field(&mut preimage, "arch", 1, b"compute_90");
    list(&mut preimage, "options", &["-gen-lto"]);
    field(&mut preimage, "name", 1, b"default_program");
    field(&mut preimage, "compiler", 1, b"nvvm");
    field(&mut preimage, "compiler version", 1, b"2.0 IR 2.0");
    field(&mut preimage, "libdevice", 2, &[4; 32]);
    field(&mut preimage, "extra source other", 2, b"text");
    assert_eq!(program.key_with(&toolchain), Ok(Key::digest(&preimage)));
}

fn put(preimage: &mut Vec<u8>, bytes: &[u8]) {
    preimage.extend((bytes.len() as u64).to_le_bytes());
    preimage.extend(bytes);
}

fn field(preimage: &mut Vec<u8>, label: &str, kind: u8, value: &[u8]) {
    put(preimage, label.as_bytes());
    preimage.push(kind);
    put(preimage, value);
}

fn list(preimage: &mut Vec<u8>, label: &str, items: &[&str]) {
    put(preimage, label.as_bytes());
    preimage.push(4);
    preimage.extend((items.len() as u64).to_le_bytes());
    items.iter().for_each(|item| put(preimage, item.as_bytes()));
}

#[test]
fn toolchains_that_differ_in_one_thing_have_two_keys() {
    for cell in few([CXX, PTX, LTOIR, NVVM]) {
        let program = cell.program(Options::new());
        let key = |toolchain: &Toolchain| program.key_with(toolchain).unwrap();
        let with_variable = |name: &str, value: &str| {
            let environment = [(name.into(), value.into())].into();
            Toolchain { environment, ..toolchain("13.5", &[]) }
        };
        let keys = [
            key(&toolchain("13.5", &[])),
            key(&toolchain("13.6", &[])),
            key(&toolchain("13.5", &[("a", 1)])),
            key(&toolchain("13.5", &[("a", 2)])),
            key(&toolchain("13.5", &[("b", 1)])),
            key(&toolchain("13.5", &[("a", 1), ("b", 1)])),
            key(&with_variable("a", "1")),
            key(&with_variable("a", "2")),
            key(&with_variable("b", "1")),
        ];
        for (at, one) in keys.iter().enumerate() {
            assert!(!keys[at + 1..].contains(one), "{cell:?} {at}");
        }
    }
}

#[test]
fn whatever_decides_the_binary_changes_the_key() {
    let program = || Case::new(CodeType::Cxx, TargetType::Cubin, "a").with_options(arch("sm_90"));
    let programs = [
        program(),
        Case::new(CodeType::Cxx, TargetType::Cubin, "b").with_options(arch("sm_90")),
        Case::new(CodeType::Cxx, TargetType::Ptx, "a").with_options(arch("sm_90")),
        program().with_options(arch("sm_90a")),
        program().with_options(arch("sm_80")),
        program().with_name("a"),
        program().with_name_expressions(["f"]),
        program().with_contents(headers(&[], 1)),
        program().with_contents(headers(&[], 2)),
        program().with_contents(headers(&[("a", 1)], 1)),
        program().with_contents(headers(&[("a", 2)], 1)),
        program().with_contents(headers(&[("b", 1)], 1)),
        program().with_contents(headers(&[("a", 1), ("b", 1)], 1)),
        program().with_contents(Contents { headers: headers(&[], 1).headers, ..extra() }),
        program().with_contents(extra()),
        program().with_contents(Contents { directory: Some("a".into()), ..headers(&[], 1) }),
        program().with_contents(Contents { directory: Some("b".into()), ..headers(&[], 1) }),
    ];
    let keys: Vec<Key> = programs.iter().map(|program| program.key().unwrap()).collect();
    for (at, key) in keys.iter().enumerate() {
        assert!(!keys[at + 1..].contains(key), "{at}");
    }
    assert_eq!(
        program().with_contents(headers(&[("b", 2), ("a", 1)], 1)).key(),
        program().with_contents(headers(&[("a", 1), ("b", 2)], 1)).key()
    );
}

#[test]
fn modules_count_with_their_names_and_their_order() {
    let with = |modules: &[(&'static str, &'static str)]| {
        let program = NVVM.program(Options::new());
        let program =
            modules.iter().fold(program, |program, (name, text)| program.with_extra_source(name, *text));
        program.key().unwrap()
    };
    let keys = [
        with(&[]),
        with(&[("a", "x")]),
        with(&[("b", "x")]),
        with(&[("a", "y")]),
        with(&[("a", "x"), ("b", "y")]),
        with(&[("b", "y"), ("a", "x")]),
    ];
    for (at, key) in keys.iter().enumerate() {
        assert!(!keys[at + 1..].contains(key), "{at}");
    }
}

#[test]
fn what_a_compiler_cannot_see_is_not_in_the_key() {
    let contents = Contents { libdevice: Some([2; 32]), ..headers(&[("a.h", 1)], 1) };
    for cell in [PTX, LTOIR, NVVM] {
        let program = cell.program(Options::new());
        assert_eq!(program.clone().with_contents(contents.clone()).key(), program.key(), "{cell:?}");
    }
}

#[test]
fn a_miss_names_the_header_that_changed_and_shows_no_source() {
    let program = |byte| {
        let contents = headers(&[("include0/a.cuh", byte)], 1);
        CXX.program(Options::new()).with_name("softmax.cu").with_contents(contents)
    };
    let recipe = |case: &Case| {
        let toolchain = toolchain("13.5", &[("library", 7)]);
        case.program.prepare(&case.contents, &toolchain).unwrap().0.recipe()
    };
    let old = recipe(&program(1));
    let changes = old.changes_to(&recipe(&program(2)));
    assert_eq!(changes.len(), 1);
    assert_eq!(changes[0].label, "header include0/a.cuh");
    assert_eq!(old.name(), Some("softmax.cu"));
    assert_eq!(old.fields()[0].value(), Some("softmax.cu sm_90"));
}
