//! The key itself.

use super::*;

/// Guards the preimage: a change of it makes every stored program unreachable, and must be a decision.
#[test]
fn the_preimage_is_the_one_that_format_md_describes() {
    let options = Options::new()
        .with(OptionName::Arch, "sm_90a")
        .with(OptionName::Std, "c++20")
        .with(OptionName::DefineMacro, ["N=4"])
        .with(OptionName::IncludePath, ["include"]);
    let header = |name: &'static str, byte| Header { name: name.into(), digest: [byte; 32] };
    let contents = Contents::none()
        .with_headers(Vec::from([header("source/b.cuh", 2), header("include0/a.cuh", 1)]))
        .with_search([3; 32])
        .with_extra(digest());
    let program = Program::new(CodeType::Cxx, TargetType::Cubin, "kernel")
        .with_name("k.cu")
        .with_options(options)
        .with_name_expressions(["g<1>", "f"])
        .with_contents(contents);
    let toolchain = Toolchain::found(Compiler::Nvrtc, "13.5")
        .with_build("libnvrtc.so.13", [5; 20])
        .with_build("libnvrtc-builtins.so.13.5", [6; 20])
        .with_environment("NV_NVVM_VERSION", "2");

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
    list(&mut preimage, "environment", &["NV_NVVM_VERSION=2"]);
    field(&mut preimage, "header include0/a.cuh", 2, &[1; 32]);
    field(&mut preimage, "header source/b.cuh", 2, &[2; 32]);
    field(&mut preimage, "header search", 2, &[3; 32]);
    let count = preimage.len();
    field(&mut preimage, "extra digest", 2, b"a digest of all headers");
    assert!(count < preimage.len());
    preimage[16 + 8 + 14 + 4..][..8].copy_from_slice(&16u64.to_le_bytes());
    assert_eq!(program.fields(&toolchain).unwrap().key(), Key::digest(&preimage));
}

#[test]
fn the_preimage_of_modules_and_libdevice_is_the_one_that_format_md_describes() {
    let options = Options::new().with(OptionName::Arch, "sm_90").with(OptionName::UseLibdevice, true);
    let program = Program::new(CodeType::Nvvm, TargetType::LtoIr, &b"BC"[..])
        .with_options(options)
        .with_extra_source("other", "text")
        .with_contents(Contents::none().with_libdevice([4; 32]));
    let toolchain = Toolchain::failed(Compiler::Nvvm, "not found");

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
    field(&mut preimage, "nvvm_probe_failed", 1, b"not found");
    field(&mut preimage, "libdevice", 2, &[4; 32]);
    field(&mut preimage, "extra source other", 2, b"text");
    assert_eq!(program.fields(&toolchain).unwrap().key(), Key::digest(&preimage));
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
fn a_probe_that_failed_never_gives_the_key_of_one_that_did_not() {
    for cell in few([CXX, PTX, LTOIR, NVVM]) {
        let program = cell.program(Options::new());
        let key = |toolchain: &Toolchain| program.fields(toolchain).unwrap().key();
        let failed = |kind: &str| Toolchain::failed(cell.compiler, kind);
        let found = |version: &str| Toolchain::found(cell.compiler, version);
        assert_eq!(key(&failed("not found")), key(&failed("not found")));
        let keys = [
            key(&failed("not found")),
            key(&failed("13.5")),
            key(&found("13.5")),
            key(&found("not found")),
            key(&found("13.6")),
            key(&found("13.5").with_build("a", [1; 20])),
            key(&found("13.5").with_build("a", [2; 20])),
            key(&found("13.5").with_build("b", [1; 20])),
            key(&found("13.5").with_environment("a", "1")),
            key(&found("13.5").with_environment("a", "2")),
        ];
        for (at, one) in keys.iter().enumerate() {
            assert!(!keys[at + 1..].contains(one), "{cell:?} {at}");
        }
        let labels = program.fields(&failed("not found")).unwrap().recipe();
        let label = format!("{}_probe_failed", cell.compiler.label());
        assert!(labels.fields().iter().any(|field| field.label() == label), "{label}");
    }
}

#[test]
fn libraries_and_variables_in_another_order_give_the_same_key() {
    let program = CXX.program(Options::new());
    let one = Toolchain::found(Compiler::Nvrtc, "13.5").with_build("a", [1]).with_build("b", [2]);
    let builds = Vec::from([("b".into(), Vec::from([2])), ("a".into(), Vec::from([1]))]);
    let other = Toolchain::new(Compiler::Nvrtc, Probe::Found { version: "13.5".into(), builds });
    let one = one.with_environment("x", "1").with_environment("y", "2");
    let other = other.with_environment("y", "2").with_environment("x", "1");
    assert_eq!(program.fields(&one).unwrap().key(), program.fields(&other).unwrap().key());
}

#[test]
fn whatever_decides_the_binary_changes_the_key() {
    let header = |name: &'static str, byte| Header { name: name.into(), digest: [byte; 32] };
    let contents = |headers: &[(&'static str, u8)], search| {
        let headers = headers.iter().map(|(name, byte)| header(name, *byte)).collect();
        Contents::none().with_headers(headers).with_search([search; 32])
    };
    let program = || Program::new(CodeType::Cxx, TargetType::Cubin, "a").with_options(arch("sm_90"));
    let programs = [
        program(),
        Program::new(CodeType::Cxx, TargetType::Cubin, "b").with_options(arch("sm_90")),
        Program::new(CodeType::Cxx, TargetType::Ptx, "a").with_options(arch("sm_90")),
        program().with_options(arch("sm_90a")),
        program().with_options(arch("sm_80")),
        program().with_name("a"),
        program().with_name_expressions(["f"]),
        program().with_contents(contents(&[], 1)),
        program().with_contents(contents(&[], 2)),
        program().with_contents(contents(&[("a", 1)], 1)),
        program().with_contents(contents(&[("a", 2)], 1)),
        program().with_contents(contents(&[("b", 1)], 1)),
        program().with_contents(contents(&[("a", 1), ("b", 1)], 1)),
        program().with_contents(contents(&[], 1).with_extra(digest())),
        program().with_contents(Contents::none().with_extra(digest())),
    ];
    let keys: Vec<Key> = programs.iter().map(|program| CXX.key(program).unwrap()).collect();
    for (at, key) in keys.iter().enumerate() {
        assert!(!keys[at + 1..].contains(key), "{at}");
    }
    assert_eq!(
        CXX.key(&program().with_contents(contents(&[("b", 2), ("a", 1)], 1))),
        CXX.key(&program().with_contents(contents(&[("a", 1), ("b", 2)], 1)))
    );
}

#[test]
fn modules_count_with_their_names_and_their_order() {
    let with = |modules: &[(&'static str, &'static str)]| {
        let program = NVVM.program(Options::new());
        let program =
            modules.iter().fold(program, |program, (name, text)| program.with_extra_source(*name, *text));
        NVVM.key(&program).unwrap()
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
    let header = Header { name: "a.h".into(), digest: [1; 32] };
    let contents =
        Contents::none().with_headers(Vec::from([header])).with_search([1; 32]).with_libdevice([2; 32]);
    for cell in [PTX, LTOIR, NVVM] {
        let program = cell.program(Options::new());
        assert_eq!(
            cell.key(&program.clone().with_contents(contents.clone())),
            cell.key(&program),
            "{cell:?}"
        );
    }
}

#[test]
fn a_miss_names_the_header_that_changed_and_shows_no_source() {
    let program = |byte| {
        let header = Header { name: "include0/a.cuh".into(), digest: [byte; 32] };
        let contents = Contents::none().with_headers(Vec::from([header])).with_search([1; 32]);
        CXX.program(Options::new()).with_name("softmax.cu").with_contents(contents)
    };
    let toolchain = CXX.toolchain();
    let (old, new) = (program(1), program(2));
    let old = old.fields(&toolchain).unwrap().recipe();
    let changes = old.changes_to(&new.fields(&toolchain).unwrap().recipe());
    assert_eq!(changes.len(), 1);
    assert_eq!(changes[0].label, "header include0/a.cuh");
    assert_eq!(old.name(), Some("softmax.cu"));
    assert_eq!(old.fields()[0].value(), Some("softmax.cu sm_90"));
}
