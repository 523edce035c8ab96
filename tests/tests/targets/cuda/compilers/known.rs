//! Knowing a library again: replaced, remembered by a store, and in other processes.

use super::*;
use warmstart_tests::{children_of, own_process::Children};

#[test]
fn a_library_that_was_replaced_is_another_compiler() {
    let directory = tempfile::tempdir().unwrap();
    let cache = memory();
    for (build, flags) in [("A", false), ("B", false), ("A", true), ("B", true)] {
        // Never the same file names twice, because what a process loaded it keeps; see the next test.
        let toolkit = directory.path().join(format!("{build}{flags}"));
        Fake::new("13", "94").answer(build).install(&toolkit);
        let how = if flags { "hit" } else { "miss" };
        assert_eq!(made_by(&toolkit, &cache), format!("{build} with builtins, {how}"));
    }
}

#[test]
fn library_replaced_before_loading_is_not_taken_for_the_old() {
    let Some(processes) = children_of!(compile_and_tell) else { return };
    for (minor, has_build_id) in [("95", true), ("96", false)] {
        let directory = tempfile::tempdir().unwrap();
        let fake = Fake::new("13", minor);
        let fake = if has_build_id { fake } else { fake.without_build_id() };
        fake.clone().answer("A").install(directory.path());
        assert_eq!(
            made_in_a_child(&processes, directory.path(), &cache_of(&directory)),
            "A with builtins, miss"
        );
        // Known to the store, and not loaded here.
        let cache = Cache::new(FileStore::open(cache_of(&directory), StoreOptions::default()).unwrap());
        let target = CudaTarget::new(Toolkit::at(directory.path()).unwrap());
        let key = || target.key(&cache, &scale()).unwrap().0;
        let old = key();
        assert!(target.toolkit().load_time().is_zero());
        fake.clone().answer("B").install(directory.path());
        let new = key();
        assert_ne!(new, old);
        assert_eq!(
            made_in_a_child(&processes, directory.path(), &cache_of(&directory)),
            "B with builtins, miss"
        );
        assert_eq!(
            made_in_a_child(&processes, directory.path(), &cache_of(&directory)),
            "B with builtins, hit"
        );
    }
}

/// A store during whose next look-up a library is replaced.
#[derive(Debug)]
struct Meanwhile(FileStore, Mutex<Option<(Fake, PathBuf)>>);

impl Store for Meanwhile {
    fn get(&self, key: &[u8]) -> Result<Artifact, MissReason> {
        if let Some((fake, folder)) = self.1.lock().unwrap().take() {
            fake.install(&folder);
        }
        self.0.get(key)
    }

    fn put(&self, key: &[u8], artifact: &Artifact) -> Result<u64, MissReason> {
        self.0.put(key, artifact)
    }

    fn remove(&self, key: &[u8]) -> Result<bool, MissReason> {
        self.0.remove(key)
    }

    fn contains(&self, key: &[u8]) -> Result<bool, MissReason> {
        self.0.contains(key)
    }

    fn clear(&self) -> Result<(), MissReason> {
        self.0.clear()
    }

    fn flush(&self) -> Result<(), MissReason> {
        self.0.flush()
    }
}

#[test]
fn library_replaced_after_the_key_compiles_under_its_own_key() {
    let Some(processes) = children_of!(compile_and_tell) else { return };
    for (minor, has_build_id) in [("88", true), ("89", false)] {
        let directory = tempfile::tempdir().unwrap();
        let fake = Fake::new("13", minor);
        let fake = if has_build_id { fake } else { fake.without_build_id() };
        fake.clone().answer("A").install(directory.path());
        assert_eq!(
            made_in_a_child(&processes, directory.path(), &cache_of(&directory)),
            "A with builtins, miss"
        );

        let store = FileStore::open(cache_of(&directory), StoreOptions::default()).unwrap();
        let cache = Cache::new(Meanwhile(store, Mutex::default()));
        let target = CudaTarget::new(Toolkit::at(directory.path()).unwrap());
        let program = scale().target(TargetType::Ptx).arch("sm_80");
        let old = target.key(&cache, &program).unwrap().0;
        assert!(target.toolkit().load_time().is_zero());
        let next = (fake.answer("B"), directory.path().to_path_buf());
        *cache.store().1.lock().unwrap() = Some(next);
        let compiled = target.compile(&cache, &program).unwrap();
        assert!(text(compiled.binary()).starts_with("B with builtins"));
        assert_ne!(target.key(&cache, &program).unwrap().0, old);
        assert_eq!(cache.store().contains(old.as_bytes()), Ok(false));
    }
}

#[test]
fn library_replaced_after_loading_goes_on_under_its_own_key() {
    let directory = tempfile::tempdir().unwrap();
    let cache = memory();
    Fake::new("13", "97").answer("A").install(directory.path());
    let target = CudaTarget::new(Toolkit::at(directory.path()).unwrap());
    let old = scale().target(TargetType::Ptx);
    let old_key = target.key(&cache, &old).unwrap().0;
    let compiled = target.compile(&cache, &old).unwrap();
    assert!(text(compiled.binary()).starts_with("A with builtins"));

    Fake::new("13", "97").answer("B").install(directory.path());
    assert_eq!(target.key(&cache, &old).unwrap().0, old_key);
    let other = old.clone().arch("sm_80");
    assert!(text(target.compile(&cache, &other).unwrap().binary()).starts_with("A with builtins"));
    // The loader would hand a new target the old library for the new file.
    let new = CudaTarget::new(Toolkit::at(directory.path()).unwrap());
    let error = new.compile(&memory(), &old).unwrap_err();
    assert!(
        error.is_no_library() && error.to_string().contains("an older one from the same path"),
        "{error}"
    );
}

#[test]
fn builtins_that_are_replaced_are_another_compiler() {
    let Some(processes) = children_of!(compile_and_tell) else { return };
    let directory = tempfile::tempdir().unwrap();
    let fake = Fake::new("13", "98");
    for builtins in ["one", "two"] {
        fake.clone().builtins(builtins).install(directory.path());
        let made = made_in_a_child(&processes, directory.path(), &cache_of(&directory));
        assert_eq!(made, format!("fake with {builtins}, miss"));
    }
    fs::remove_file(directory.path().join("libnvrtc-builtins.so.13.98")).unwrap();
    assert!(refused_at(directory.path()).contains("libnvrtc-builtins.so.13.98"));
}

#[test]
fn two_toolkits_work_in_a_process_or_the_second_says_why_not() {
    let Some(processes) = children_of!(compile_and_tell) else { return };
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    Fake::new("14", "1").answer("A").builtins("one").install(&at("a"));
    Fake::new("14", "2").answer("B").builtins("two").install(&at("b"));
    Fake::new("14", "1").answer("C").builtins("three").install(&at("c"));
    let cache = memory();
    assert_eq!(made_by(&at("a"), &cache), "A with one, miss");
    assert_eq!(made_by(&at("b"), &cache), "B with two, miss");
    let said = refused_at(&at("c"));
    assert!(said.contains("another NVRTC of the same version"), "{said}");
    assert_eq!(made_in_a_child(&processes, &at("c"), &cache_of(&directory)), "C with three, miss");
}

/// A store that has the same for every key.
#[derive(Debug)]
struct Same(&'static [u8]);

impl Store for Same {
    fn get(&self, _: &[u8]) -> Result<Artifact, MissReason> {
        Ok(Artifact::new(self.0.to_vec()))
    }

    fn put(&self, _: &[u8], _: &Artifact) -> Result<u64, MissReason> {
        Err(MissReason::Unavailable)
    }

    fn remove(&self, _: &[u8]) -> Result<bool, MissReason> {
        Err(MissReason::Unavailable)
    }

    fn contains(&self, _: &[u8]) -> Result<bool, MissReason> {
        Ok(true)
    }

    fn clear(&self) -> Result<(), MissReason> {
        Err(MissReason::Unavailable)
    }

    fn flush(&self) -> Result<(), MissReason> {
        Ok(())
    }
}

#[test]
fn a_store_that_knows_no_version_is_not_believed() {
    let directory = tempfile::tempdir().unwrap();
    Fake::new("14", "3").install(directory.path());
    let new = || CudaTarget::new(Toolkit::at(directory.path()).unwrap());
    let expected = new().key(&memory(), &scale()).unwrap().0;
    for wrong in [&b""[..], b"\xff\xfe", b"14.3\n", b"13.0", &[b'1'; 100]] {
        let target = new();
        assert_eq!(target.key(&Cache::new(Same(wrong)), &scale()).unwrap().0, expected);
        assert!(!target.toolkit().load_time().is_zero(), "the library is asked");
    }
}

// --- Other processes.

const TOOLKIT: &str = "WARMSTART_CUDA_TOOLKIT";

fn cache_of(directory: &tempfile::TempDir) -> PathBuf {
    directory.path().join("cache")
}

/// Compiles a program with the toolkit in a new process.
fn made_in_a_child(processes: &Children, toolkit: &Path, cache: &Path) -> String {
    let said = child(processes, toolkit, cache, &[]);
    let line = said.lines().find_map(|line| line.strip_prefix("made ")).unwrap_or_else(|| panic!("{said}"));
    line.to_owned()
}

fn child(processes: &Children, toolkit: &Path, cache: &Path, variables: &[(&str, &str)]) -> String {
    let output = processes
        .command()
        .env(TOOLKIT, toolkit)
        .env("WARMSTART_CUDA_CACHE", cache)
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Runs in another process: compiles with the toolkit and the cache that the environment names, and prints the result.
fn compile_and_tell() {
    let toolkit = env::var_os(TOOLKIT).unwrap();
    let store =
        FileStore::open(env::var_os("WARMSTART_CUDA_CACHE").unwrap(), StoreOptions::default()).unwrap();
    let cache = Cache::new(store);
    let target = CudaTarget::new(Toolkit::at(toolkit).unwrap());
    let compiled = target.compile(&cache, &scale().target(TargetType::Ptx)).unwrap();
    let made = text(compiled.binary()).trim_end_matches('\0');
    println!();
    if !made.contains('\n') {
        println!("made {made}, {}", if compiled.is_hit() { "hit" } else { "miss" });
    }
    println!("hit {}", compiled.is_hit());
    println!("key {}", target.key(&cache, &scale()).unwrap().0);
    let binary = target.compile(&cache, &scale()).unwrap();
    println!("binary {}", warmstart::Key::digest(binary.binary()));
    println!("loaded {:?}", target.toolkit().load_time());
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let libraries = maps.lines().filter(|line| line.contains("libnv")).count();
    println!("mapped {libraries}");
    let io = fs::read_to_string("/proc/self/io").unwrap();
    println!("{}", io.lines().next().unwrap());
}

fn line<'a>(said: &'a str, name: &str) -> &'a str {
    said.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("{name}: {said}")).trim()
}

#[test]
#[cfg_attr(not(has_cuda), ignore = "needs the CUDA compilers: cargo xtask runtimes --cuda")]
fn a_warm_start_loads_no_library_and_reads_a_page_of_each() {
    let Some(processes) = children_of!(compile_and_tell) else { return };
    let folder = folder();
    let directory = tempfile::tempdir().unwrap();
    let cold = child(&processes, &folder, directory.path(), &[]);
    assert_eq!(line(&cold, "hit "), "false");
    assert_ne!(line(&cold, "mapped "), "0");
    assert_ne!(line(&cold, "loaded "), "0ns");
    let warm = child(&processes, &folder, directory.path(), &[]);
    assert_eq!(line(&warm, "hit "), "true");
    assert_eq!(line(&warm, "mapped "), "0", "{warm}");
    assert_eq!(line(&warm, "loaded "), "0ns");
    assert_eq!(line(&warm, "key "), line(&cold, "key "));
    let read: u64 = line(&warm, "rchar:").parse().unwrap();
    assert!(read < 1 << 20, "{read} bytes are read");
}

#[test]
#[cfg_attr(not(has_cuda), ignore = "needs the CUDA compilers: cargo xtask runtimes --cuda")]
fn two_processes_make_the_same_bytes() {
    let Some(processes) = children_of!(compile_and_tell) else { return };
    let folder = folder();
    let made = [0, 1].map(|_| {
        let directory = tempfile::tempdir().unwrap();
        let said = child(&processes, &folder, directory.path(), &[]);
        (line(&said, "key ").to_owned(), line(&said, "binary ").to_owned())
    });
    assert_eq!(made[0], made[1]);
}

#[test]
fn a_variable_that_the_compiler_reads_is_part_of_the_key() {
    let Some(processes) = children_of!(compile_and_tell) else { return };
    let directory = tempfile::tempdir().unwrap();
    Fake::new("14", "4").install(&directory.path().join("toolkit"));
    let key = |variables: &[(&str, &str)]| {
        let said =
            child(&processes, &directory.path().join("toolkit"), &directory.path().join("cache"), variables);
        line(&said, "key ").to_owned()
    };
    let plain = key(&[]);
    assert_eq!(key(&[("NO_VARIABLE_OF_A_COMPILER", "1")]), plain);
    let versions = [key(&[("NV_NVVM_VERSION", "1")]), key(&[("NV_NVVM_VERSION", "2")])];
    assert!(versions[0] != plain && versions[1] != plain && versions[0] != versions[1]);
    assert_ne!(key(&[("LIBNVVM_NVVM_VERSION", "1")]), plain);
}
