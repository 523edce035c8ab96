//! The real NVRTC, nvJitLink and NVVM, found, loaded and called.

mod known;

use std::{
    env, fs,
    path::{Path, PathBuf},
    sync::{Barrier, Mutex},
    thread,
};

use warmstart::{
    Artifact, Cache, Limits, MissReason, Store,
    store::{FileStore, MemoryStore, StoreOptions},
    target::cuda::{CudaTarget, OptionName, Program, TargetType, Toolkit},
};
use warmstart_tests::cuda::{Fake, folder, libraries, target};

type Memory = Cache<MemoryStore>;

const SCALE: &str = "extern \"C\" __global__ void scale(float *x) { x[threadIdx.x] *= 2; }";
const TEMPLATE: &str = "template <int N> __global__ void times(float *x) { x[threadIdx.x] *= N; }
                        __constant__ float bias;";

const NVVM_IR: &str = r#"target triple = "nvptx64-nvidia-cuda"
target datalayout = "e-p:64:64:64-i1:8:8-i8:8:8-i16:16:16-i32:32:32-i64:64:64-i128:128:128-f32:32:32-f64:64:64-v16:16:16-v32:32:32-v64:64:64-v128:128:128-n16:32:64"
define void @sine(float* %p) {
entry:
  %v = load float, float* %p
  %r = call float @__nv_sinf(float %v)
  store float %r, float* %p
  ret void
}
declare float @__nv_sinf(float)
!nvvm.annotations = !{!0}
!0 = !{void (float*)* @sine, !"kernel", i32 1}
!nvvmir.version = !{!1}
!1 = !{i32 2, i32 0}
"#;

fn memory() -> Memory {
    Cache::new(MemoryStore::new(Limits::NONE))
}

fn scale() -> Program {
    Program::cxx("scale.cu", SCALE).arch("sm_90")
}

#[track_caller]
fn compile(target: &CudaTarget, program: &Program) -> Vec<u8> {
    let cache = memory();
    let compiled = target.compile(&cache, program).unwrap();
    assert!(!compiled.is_hit());
    let again = target.compile(&cache, program).unwrap();
    assert!(again.is_hit() && again.binary() == compiled.binary());
    compiled.binary().to_vec()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// Compiles a program that must fail, and checks that nothing is stored.
#[track_caller]
fn fails(target: &CudaTarget, program: &Program) -> warmstart::target::cuda::CudaError {
    let cache = memory();
    let error = target.compile(&cache, program).unwrap_err();
    if let Ok((key, _)) = target.key(&cache, program) {
        assert_eq!(cache.store().contains(key.as_bytes()), Ok(false), "it is stored: {error}");
    }
    error
}

/// Compiles a program with the toolkit in this folder.
fn made_by(folder: &Path, cache: &Memory) -> String {
    let target = CudaTarget::new(Toolkit::at(folder).unwrap());
    let program = scale().target(TargetType::Ptx);
    let compiled = target.compile(cache, &program).unwrap();
    let text = text(compiled.binary()).trim_end_matches('\0').to_owned();
    format!("{text}, {}", if compiled.is_hit() { "hit" } else { "miss" })
}

/// The error of the toolkit in this folder, on one line.
#[track_caller]
fn refused_at(folder: &Path) -> String {
    let target = CudaTarget::new(Toolkit::at(folder).unwrap());
    let error = fails(&target, &scale());
    assert!(error.is_no_library(), "{error}");
    let error = error.to_string();
    assert!(!error.contains('\n'), "{error}");
    error
}

// --- What they make.

#[test]
#[cfg_attr(not(has_cuda), ignore = "needs the CUDA compilers: cargo xtask runtimes --cuda")]
fn every_language_becomes_every_target_that_it_can() {
    let target = target();
    let ptx = compile(&target, &scale().target(TargetType::Ptx));
    assert!(text(&ptx).contains(".visible .entry scale") && !ptx.contains(&0));
    assert!(compile(&target, &scale()).starts_with(b"\x7fELF"));
    let lto = scale().target(TargetType::LtoIr).option(OptionName::LinkTimeOptimization, true);
    let lto = compile(&target, &lto);

    let cubin = compile(&target, &Program::ptx("scale.ptx", text(&ptx)).arch("sm_90"));
    assert!(cubin.starts_with(b"\x7fELF"));
    let linked = compile(&target, &Program::ltoir("scale.ltoir", lto.clone()).arch("sm_90"));
    assert!(linked.starts_with(b"\x7fELF"));
    let linked = Program::ltoir("scale.ltoir", lto).arch("sm_90").target(TargetType::Ptx);
    let linked = compile(&target, &linked);
    assert!(text(&linked).contains(".entry scale"));

    let sine = Program::nvvm("sine.ll", NVVM_IR).arch("sm_90");
    assert!(text(&compile(&target, &sine)).contains("__nv_sinf"));
    let with_libdevice = compile(&target, &sine.clone().libdevice());
    assert!(!text(&with_libdevice).contains("call.uni"), "it is linked");
    let lto = compile(&target, &sine.libdevice().target(TargetType::LtoIr));
    let linked = compile(&target, &Program::ltoir("sine.ltoir", lto).arch("sm_90"));
    assert!(linked.starts_with(b"\x7fELF"));
}

#[test]
#[cfg_attr(not(has_cuda), ignore = "needs the CUDA compilers: cargo xtask runtimes --cuda")]
fn modules_of_nvvm_ir_are_linked() {
    let target = target();
    let header = NVVM_IR.lines().take(2).collect::<Vec<_>>().join("\n");
    let module = format!(
        "{header}\ndefine float @__nv_sinf(float %v) {{\n  %r = fadd float %v, 1.0\n  ret float %r\n}}\n\
         !nvvmir.version = !{{!1}}\n!1 = !{{i32 2, i32 0}}\n"
    );
    let program = Program::nvvm("sine.ll", NVVM_IR).arch("sm_90").extra_source("own.ll", module);
    let ptx = compile(&target, &program);
    assert!(text(&ptx).contains("add"), "{}", text(&ptx));
}

#[test]
#[cfg_attr(not(has_cuda), ignore = "needs the CUDA compilers: cargo xtask runtimes --cuda")]
fn lowered_names_are_those_in_the_binary() {
    let target = target();
    let program = Program::cxx("times.cu", TEMPLATE).arch("sm_90").target(TargetType::Ptx);
    let program = program.name_expression("times<3>").name_expression("&bias").name_expression("times<4>");
    let cache = memory();
    for is_hit in [false, true] {
        let compiled = target.compile(&cache, &program).unwrap();
        assert_eq!(compiled.is_hit(), is_hit);
        for expression in ["times<3>", "&bias", "times<4>"] {
            let name = compiled.lowered_name(expression).unwrap();
            assert!(text(compiled.binary()).contains(name), "{name}");
        }
        assert_eq!(compiled.lowered_name("times<3>"), Some("_Z5timesILi3EEvPf"));
        assert_eq!(compiled.lowered_name("times<5>"), None);
    }
    let error = fails(&target, &program.name_expression("no_such<1>"));
    assert!(error.is_rejected_source() && error.log().unwrap().contains("no_such"), "{error}");
}

#[test]
#[cfg_attr(not(has_cuda), ignore = "needs the CUDA compilers: cargo xtask runtimes --cuda")]
fn what_a_compiler_says_although_it_succeeds_is_kept() {
    let target = target();
    let source = format!("{SCALE}\n__device__ void unused() {{ int never_read; }}");
    let cache = memory();
    for is_hit in [false, true] {
        let compiled =
            target.compile(&cache, &Program::cxx("scale.cu", source.as_str()).arch("sm_90")).unwrap();
        assert_eq!(compiled.is_hit(), is_hit);
        assert!(compiled.log().contains("never_read"), "{}", compiled.log());
    }
}

#[test]
#[cfg_attr(not(has_cuda), ignore = "needs the CUDA compilers: cargo xtask runtimes --cuda")]
fn several_threads_compile_at_once() {
    let target = target();
    let alone: Vec<_> = (0..8).map(|number| compile(&target, &numbered(number))).collect();
    let (cache, barrier) = (memory(), Barrier::new(4));
    let target = warmstart_tests::cuda::target();
    thread::scope(|scope| {
        for thread in 0..4 {
            let (alone, cache, barrier, target) = (&alone, &cache, &barrier, &target);
            scope.spawn(move || {
                barrier.wait();
                for number in 0..8 {
                    // No two begin with the same.
                    let number = (number + 2 * thread) % 8;
                    let compiled = target.compile(cache, &numbered(number)).unwrap();
                    assert!(compiled.binary() == alone[number], "{number}");
                }
            });
        }
    });
}

/// In turns for NVRTC and for NVVM.
fn numbered(number: usize) -> Program {
    if number.is_multiple_of(2) {
        scale().option(OptionName::DefineMacro, format!("N={number}").as_str())
    } else {
        Program::nvvm(format!("sine{number}.ll"), NVVM_IR).arch("sm_90").libdevice()
    }
}

// --- What they refuse.

#[test]
#[cfg_attr(not(has_cuda), ignore = "needs the CUDA compilers: cargo xtask runtimes --cuda")]
fn an_output_that_is_empty_is_an_error_that_says_why() {
    let target = target();
    let error = fails(&target, &scale().target(TargetType::LtoIr));
    assert!(error.to_string().contains("made no LTO-IR"), "{error}");
    assert!(error.to_string().contains("link_time_optimization"), "{error}");
    for kind in [TargetType::Ptx, TargetType::Cubin] {
        let error = fails(&target, &scale().target(kind).option(OptionName::LinkTimeOptimization, true));
        assert!(error.to_string().contains("made no") || error.is_refused(), "{error}");
        assert!(error.to_string().contains("link_time_optimization"), "{error}");
    }
}

#[test]
#[cfg_attr(not(has_cuda), ignore = "needs the CUDA compilers: cargo xtask runtimes --cuda")]
fn a_source_that_does_not_compile_is_an_error_with_the_log() {
    let target = target();
    let rejected = |program: Program, word: &str| {
        let error = fails(&target, &program);
        assert!(error.is_rejected_source(), "{error}");
        assert!(error.log().unwrap().contains(word), "{error}");
        assert!(error.to_string().contains(word), "{error}");
    };
    rejected(Program::cxx("bad.cu", "__global__ void f() { undeclared(); }").arch("sm_90"), "undeclared");
    rejected(Program::ptx("bad.ptx", "no ptx at all").arch("sm_90"), "NVJITLINK_INPUT_PTX");
    rejected(
        Program::ptx("bad.ptx", ".version 8.0\n.target sm_90\n.address_size 64\n.nonsense").arch("sm_90"),
        "nonsense",
    );
    rejected(Program::ltoir("bad.ltoir", b"no LTO-IR".to_vec()).arch("sm_90"), "NVJITLINK_INPUT_LTOIR");
    rejected(Program::nvvm("bad.ll", "no IR").arch("sm_90"), "expected top-level entity");
    rejected(
        Program::nvvm("old.ll", NVVM_IR.replace("i32 2, i32 0", "i32 9, i32 0")).arch("sm_90"),
        "IR version 9.0",
    );
    // Missing symbols are reported when modules are linked.
    let calls = "extern \"C\" __device__ float far(float);
                 extern \"C\" __global__ void f(float *x) { *x = far(*x); }";
    let calls = Program::cxx("calls.cu", calls).arch("sm_90").target(TargetType::Ptx);
    let calls = compile(&target, &calls.option(OptionName::RelocatableDeviceCode, true));
    rejected(Program::ptx("calls.ptx", text(&calls)).arch("sm_90"), "far");
}

#[test]
#[cfg_attr(not(has_cuda), ignore = "needs the CUDA compilers: cargo xtask runtimes --cuda")]
fn an_architecture_that_no_compiler_knows_is_named() {
    let target = target();
    let ptx = compile(&target, &scale().target(TargetType::Ptx));
    for program in [
        Program::cxx("scale.cu", SCALE),
        Program::ptx("scale.ptx", text(&ptx)),
        Program::nvvm("sine.ll", NVVM_IR),
    ] {
        let error = fails(&target, &program.arch("sm_123"));
        assert!(error.is_unknown_architecture(), "{error}");
        assert!(error.to_string().contains("_123"), "{error}");
    }
    let error = fails(&target, &Program::cxx("scale.cu", SCALE).arch("sm_123"));
    assert!(error.to_string().contains("sm_80") && error.to_string().contains("sm_90"), "{error}");
}

#[test]
#[cfg_attr(not(has_cuda), ignore = "needs the CUDA compilers: cargo xtask runtimes --cuda")]
fn a_nul_byte_in_a_source_is_an_error() {
    let target = target();
    for program in [
        Program::cxx("scale.cu", format!("{SCALE}\0 and more")),
        Program::ptx("scale.ptx", ".version 8.0\0 and more"),
    ] {
        let error = fails(&target, &program.arch("sm_90"));
        assert!(error.to_string().contains("NUL"), "{error}");
    }
}

// --- Libraries that are missing, and that are none.

#[test]
#[cfg_attr(not(has_cuda), ignore = "needs the CUDA compilers: cargo xtask runtimes --cuda")]
fn a_library_that_is_missing_is_an_error_when_it_is_needed() {
    let directory = tempfile::tempdir().unwrap();
    let error = Toolkit::at(directory.path()).unwrap_err();
    assert!(error.is_no_library());
    let said = error.to_string();
    for word in [
        "libnvrtc.so.*",
        directory.path().to_str().unwrap(),
        "pip install nvidia-cuda-nvrtc",
        "WARMSTART_CUDA",
    ] {
        assert!(said.contains(word), "{said}");
    }
    // NVVM alone is enough for NVVM IR.
    std::os::unix::fs::symlink(libraries().join("libnvvm.so.4"), directory.path().join("libnvvm.so.4"))
        .unwrap();
    let target = CudaTarget::new(Toolkit::at(directory.path()).unwrap());
    compile(&target, &Program::nvvm("sine.ll", NVVM_IR).arch("sm_90"));
    let said = fails(&target, &Program::nvvm("sine.ll", NVVM_IR).arch("sm_90").libdevice()).to_string();
    assert!(said.contains("libdevice.*.bc") && said.contains("pip install nvidia-nvvm"), "{said}");
    let said = fails(&target, &Program::ptx("scale.ptx", "").arch("sm_90")).to_string();
    assert!(said.contains("libnvJitLink.so.*") && said.contains("pip install nvidia-nvjitlink"), "{said}");
    assert!(fails(&target, &scale()).is_no_library());
}

#[test]
fn what_is_no_library_is_named_and_not_loaded() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("libnvrtc.so.13");
    fs::create_dir(&path).unwrap();
    assert!(refused_at(directory.path()).contains("is a directory"));
    fs::remove_dir(&path).unwrap();

    fs::write(&path, "INPUT(libnvrtc.so.12)\n").unwrap();
    let said = refused_at(directory.path());
    assert!(said.contains("it is text") && said.contains(path.to_str().unwrap()), "{said}");
    fs::write(&path, "").unwrap();
    assert!(refused_at(directory.path()).contains("it is empty"));

    Fake::new("13", "90").install(directory.path());
    let whole = fs::read(&path).unwrap();
    for len in [10, 100, whole.len() / 2, whole.len() - 1] {
        fs::write(&path, &whole[..len]).unwrap();
        let said = refused_at(directory.path());
        assert!(said.contains("is cut short"), "{len}: {said}");
    }
    let mut other = whole;
    other[18] ^= 1;
    fs::write(&path, other).unwrap();
    assert!(refused_at(directory.path()).contains("another machine"));
}

#[test]
fn outdated_library_is_named_with_the_version_needed() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    Fake::new("9", "0").install(&at("nine"));
    let said = refused_at(&at("nine"));
    for word in ["is version 9.0", "NVRTC 12.0 or newer", "pip install --upgrade nvidia-cuda-nvrtc"] {
        assert!(said.contains(word), "{said}");
    }
    Fake::new("13", "91").flag("-DNO_LTO_IR").install(&at("lacking"));
    assert!(refused_at(&at("lacking")).contains("has no function nvrtcGetLTOIRSize"));
    Fake::new("13", "92").flag("-DSTATUS=11").install(&at("failing"));
    assert!(refused_at(&at("failing")).contains("does not say its version (status 11)"));
    Fake::new("13", "93").without_builtins().install(&at("alone"));
    let said = refused_at(&at("alone"));
    assert!(said.contains("libnvrtc-builtins.so.13.93") && said.contains("beside NVRTC"), "{said}");
}
