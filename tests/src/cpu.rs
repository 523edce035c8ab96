//! Shared by the tests of the CPU target.

use std::{fs, os::unix::fs::PermissionsExt, path::Path, thread, time::Duration};

use warmstart::{
    Cache, Limits, MissReason, Store,
    cache::Fetched,
    store::MemoryStore,
    target::cpu::{Compiler, CpuTarget, Kernel, Library},
};

/// A cache in memory.
pub type Memory = Cache<MemoryStore>;

/// An empty cache in memory.
pub fn memory() -> Memory {
    Cache::new(MemoryStore::new(Limits::NONE))
}

/// A target of the machine's compiler.
pub fn target() -> CpuTarget {
    CpuTarget::new(Compiler::find().unwrap())
}

/// One target for each compiler that this machine has.
pub fn targets() -> Vec<CpuTarget> {
    let others = ["/usr/bin/gcc", "/usr/bin/clang"].into_iter().filter_map(|path| Compiler::at(path).ok());
    [Compiler::find().unwrap()].into_iter().chain(others).map(CpuTarget::new).collect()
}

/// A new target of the same compiler and features: it remembers nothing, as a new process would not.
pub fn restarted(target: &CpuTarget) -> CpuTarget {
    let compiler = Compiler::at(target.compiler().path()).unwrap();
    CpuTarget::new(compiler).with_features(target.features().clone())
}

/// Returns the result of the function of this name.
pub fn call(library: &Library, name: &str) -> i32 {
    // SAFETY: every function of these tests that is called has this type.
    unsafe { library.symbol::<unsafe extern "C" fn() -> i32>(name).unwrap()() }
}

/// Returns what `int f(void)` of the kernel returns, and the object's origin.
pub fn run<S: Store>(target: &CpuTarget, cache: &Cache<S>, kernel: &Kernel) -> (i32, Fetched) {
    let loaded = target.load(cache, kernel).unwrap();
    (call(loaded.library(), "f"), loaded.fetched().clone())
}

/// The kernel is found, also by a new process, and its `f` returns `value`.
#[track_caller]
pub fn hits(target: &CpuTarget, cache: &Memory, kernel: &Kernel, value: i32) {
    for target in [target, &restarted(target)] {
        let (found, fetched) = run(target, cache, kernel);
        assert!(fetched.is_hit(), "{:?}", fetched.origin());
        assert_eq!(found, value);
    }
}

/// The kernel is not found for this reason, is stored, is then found, and its `f` returns `value`.
#[track_caller]
pub fn misses(target: &CpuTarget, cache: &Memory, kernel: &Kernel, reason: MissReason, value: i32) {
    let (found, fetched) = run(target, cache, kernel);
    assert_eq!((fetched.miss(), fetched.refusal()), (Some(reason), None));
    assert_eq!(found, value);
    hits(target, cache, kernel, value);
}

/// Writes a file, and makes the directories that it lies in.
pub fn write(path: impl AsRef<Path>, content: &str) {
    fs::create_dir_all(path.as_ref().parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

/// A compiler that is a script.
pub fn script(path: &Path, text: &str) -> Compiler {
    write(path, &format!("#!/bin/sh\n{text}\n"));
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    Compiler::at(path).unwrap()
}

/// Long enough for what was just written to be trusted by its times.
pub fn settle() {
    thread::sleep(Duration::from_millis(2100));
}

/// A source whose value is in a header.
pub const INCLUDING: &str = "#include \"value.h\"\nint f(void) { return VALUE; }";
