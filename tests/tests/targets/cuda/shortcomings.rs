//! Where the program cache of cuda.core 1.2.2 falls short, one test for each of its eleven shortcomings.
//!
//! Its figures and how they were measured are in `docs/compare.md`.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Child, Stdio},
    sync::Arc,
};

use warmstart::{
    Artifact, Cache, Key, Limits, MissReason, Store,
    cache::Origin,
    store::{FileStore, MemoryStore, StoreOptions},
    target::cuda::{Compiled, CudaTarget, ExtraDigest, OptionName, Program, TargetType},
};
use warmstart_tests::whole::Whole;
use warmstart_tests::{
    children_of, cuda, faulty::FaultyBackend, mount::Mount, own_process, own_process::Children,
};

const ENOENT: i32 = 2;

/// A kernel whose CUBIN depends on a number.
fn kernel(number: u32) -> Program {
    let source = format!("extern \"C\" __global__ void f(int *x) {{ x[threadIdx.x] += {number}; }}");
    Program::cxx(format!("f{number}.cu"), source).arch("sm_80")
}

/// A kernel whose CUBIN depends on a header beside it.
fn including(directory: &Path) -> Program {
    let source = "#include \"value.cuh\"\nextern \"C\" __global__ void f(int *x) { x[0] = VALUE; }";
    Program::cxx("f.cu", source).arch("sm_80").source_dir(directory)
}

fn files(directory: &Path) -> Cache<FileStore> {
    Cache::new(FileStore::open(directory, StoreOptions::default()).unwrap())
}

fn memory() -> Cache<MemoryStore> {
    Cache::new(MemoryStore::new(Limits::NONE))
}

/// Returns the result of a compilation without a cache.
fn fresh(target: &CudaTarget, program: &Program) -> Vec<u8> {
    target.compile(&memory(), program).unwrap().binary().to_vec()
}

#[track_caller]
fn compile<S: Store>(target: &CudaTarget, cache: &Cache<S>, program: &Program) -> Compiled {
    target.compile(cache, program).unwrap()
}

/// The files of a store's entries.
fn entries(directory: &Path) -> Vec<PathBuf> {
    fs::read_dir(directory.join("entries")).unwrap().map(|entry| entry.unwrap().path()).collect()
}

fn bytes_of(paths: &[PathBuf]) -> u64 {
    paths.iter().map(|path| path.metadata().unwrap().len()).sum()
}

/// Runs another process, which compiles kernels and reports how many it built.
fn compile_kernels() {
    let directory = PathBuf::from(std::env::var_os("WARMSTART_STORE").unwrap());
    let number = |name: &str| std::env::var(name).unwrap().parse::<u64>().unwrap();
    let target = cuda::target();
    let options = StoreOptions::default().with_max_bytes(number("WARMSTART_CAP"));
    let cache = Cache::new(FileStore::open(directory, options).unwrap());
    let kernels = number("WARMSTART_FIRST")..number("WARMSTART_FIRST") + number("WARMSTART_COUNT");
    for n in kernels {
        let _ = compile(&target, &cache, &kernel(u32::try_from(n).unwrap()));
    }
    println!("\nbuilds {}", cache.statistics().builds);
}

fn start(processes: &Children, directory: &Path, cap: u64, first: u64, count: u64) -> Child {
    start_with(processes, &cuda::folder(), directory, cap, first, count)
}

fn start_with(
    processes: &Children,
    folder: &Path,
    directory: &Path,
    cap: u64,
    first: u64,
    count: u64,
) -> Child {
    processes
        .command()
        .env("WARMSTART_CUDA", folder)
        .env("WARMSTART_STORE", directory)
        .env("WARMSTART_CAP", cap.to_string())
        .env("WARMSTART_FIRST", first.to_string())
        .env("WARMSTART_COUNT", count.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

fn builds(child: Child) -> u64 {
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().find_map(|line| line.strip_prefix("builds ")).unwrap().parse().unwrap()
}

#[test]
#[cfg_attr(not(has_cuda), ignore = "needs the CUDA compilers: cargo xtask runtimes --cuda")]
fn shortcoming_01_an_edited_header_is_a_miss() {
    let target = cuda::target();
    let directory = tempfile::tempdir().unwrap();
    let cache = files(&directory.path().join("cache"));
    let header = directory.path().join("value.cuh");
    fs::write(&header, "#define VALUE 1\n").unwrap();
    let program = including(directory.path());
    let one = compile(&target, &cache, &program).binary().to_vec();
    assert!(compile(&target, &cache, &program).is_hit());

    fs::write(&header, "#define VALUE 2\n").unwrap();
    let two = compile(&target, &cache, &program);
    assert_eq!(two.fetched().miss(), Some(MissReason::Absent));
    assert_ne!(two.binary(), one);
    assert_eq!(two.binary(), fresh(&target, &program));

    fs::write(&header, "#define VALUE 1\n").unwrap();
    let again = compile(&target, &cache, &program);
    assert!(again.is_hit());
    assert_eq!(again.binary(), one);
}

#[test]
#[cfg_attr(not(has_cuda), ignore = "needs the CUDA compilers: cargo xtask runtimes --cuda")]
fn shortcoming_02_a_damaged_or_foreign_entry_is_a_miss() {
    let target = cuda::target();
    let directory = tempfile::tempdir().unwrap();
    let cache = files(&directory.path().join("cache"));
    let program = kernel(1);
    let right = fresh(&target, &program);
    let _ = compile(&target, &cache, &program);
    let is_right_and_misses = |damage: &dyn Fn(&Path), reason: Option<MissReason>| {
        // The entry of the CUBIN is the largest; what the compiler says of itself is another.
        let entry = entries(&directory.path().join("cache"));
        let entry = entry.iter().max_by_key(|path| path.metadata().unwrap().len()).unwrap();
        damage(entry);
        let compiled = compile(&target, &cache, &program);
        assert_eq!(compiled.binary(), right);
        assert!(!compiled.is_hit(), "{:?}", compiled.fetched().origin());
        if reason.is_some() {
            assert_eq!(compiled.fetched().miss(), reason);
        }
        assert!(compile(&target, &cache, &program).is_hit(), "it was stored again");
    };
    let middle = |bytes: &mut Vec<u8>| {
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
    };
    let rewrite = |path: &Path, change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = fs::read(path).unwrap();
        change(&mut bytes);
        fs::write(path, bytes).unwrap();
    };
    is_right_and_misses(
        &|path| rewrite(path, &|bytes| bytes.truncate(bytes.len() / 2)),
        Some(MissReason::Truncated),
    );
    is_right_and_misses(&|path| rewrite(path, &middle), Some(MissReason::ChecksumMismatch));
    is_right_and_misses(&|path| rewrite(path, &|bytes| bytes.fill(7)), Some(MissReason::Foreign));
    is_right_and_misses(&|path| rewrite(path, &Vec::clear), None);
    is_right_and_misses(
        &|path| {
            let elsewhere = directory.path().join("elsewhere");
            fs::rename(path, &elsewhere).unwrap();
            symlink(&elsewhere, path).unwrap();
        },
        Some(MissReason::Untrusted),
    );
    // Another kernel's whole entry under this one's name.
    let _ = compile(&target, &cache, &kernel(2));
    let other = Cache::new(MemoryStore::new(Limits::NONE));
    let _ = compile(&target, &other, &kernel(2));
    let before = entries(&directory.path().join("cache"));
    is_right_and_misses(
        &|path| {
            let foreign = before.iter().find(|other| {
                *other != path
                    && other.metadata().unwrap().len().abs_diff(path.metadata().unwrap().len()) < 200
            });
            fs::copy(foreign.unwrap(), path).unwrap();
        },
        None,
    );
}

#[test]
#[cfg_attr(not(has_cuda), ignore = "needs the CUDA compilers: cargo xtask runtimes --cuda")]
fn shortcoming_03_one_large_entry_evicts_nothing() {
    let target = cuda::target();
    let directory = tempfile::tempdir().unwrap();
    let options = StoreOptions::default().with_max_bytes(40_000);
    let cache = Cache::new(FileStore::open(directory.path(), options).unwrap());
    for n in 0..4 {
        assert_eq!(compile(&target, &cache, &kernel(n)).fetched().refusal(), None);
    }
    let table = "extern \"C\" __device__ int table[20000] = {1};";
    let large = Program::cxx("large.cu", table).arch("sm_80");
    let compiled = compile(&target, &cache, &large);
    assert!(compiled.binary().len() > 40_000);
    assert_eq!(compiled.fetched().refusal(), Some(MissReason::Oversize));
    for n in 0..4 {
        assert!(compile(&target, &cache, &kernel(n)).is_hit(), "kernel {n} went for nothing");
    }
}

#[test]
#[cfg_attr(not(has_cuda), ignore = "needs the CUDA compilers: cargo xtask runtimes --cuda")]
fn shortcoming_04_the_cap_holds_for_the_directory() {
    let Some(processes) = children_of!(compile_kernels) else { return };
    const CAP: u64 = 40_000;
    let directory = tempfile::tempdir().unwrap();
    let children: Vec<_> = (0..8).map(|n| start(&processes, directory.path(), CAP, n * 8, 8)).collect();
    // Each writes just under the cap: together they would keep 7.9 times as much.
    assert_eq!(children.into_iter().map(builds).sum::<u64>(), 64);
    let entries = entries(directory.path());
    assert!(bytes_of(&entries) <= CAP, "{} bytes", bytes_of(&entries));
    assert!(bytes_of(&entries) > CAP / 2, "it is not kept by keeping nothing");
}

#[test]
#[cfg_attr(not(has_cuda), ignore = "needs the CUDA compilers: cargo xtask runtimes --cuda")]
fn shortcoming_05_put_at_cap_costs_the_same_at_any_entry_count() {
    let target = cuda::target();
    let binary = compile(&target, &memory(), &kernel(0)).fetched().artifact().clone();
    let calls = |entries: u64| {
        let directory = tempfile::tempdir().unwrap();
        let disk = Arc::new(FaultyBackend::new());
        let one = FileStore::open(directory.path(), StoreOptions::default()).unwrap();
        one.put(&0u64.to_le_bytes(), &binary).unwrap();
        let size = one.total_bytes().unwrap();
        drop(one);
        let options = StoreOptions::default().with_max_bytes(entries * size).with_backend(disk.clone());
        let store = FileStore::open(directory.path(), options).unwrap();
        for n in 1..entries {
            store.put(&n.to_le_bytes(), &binary).unwrap();
        }
        disk.fail(u64::MAX, 0, 0);
        let evicted: u64 = (0..20).map(|n| store.put(&(entries + n).to_le_bytes(), &binary).unwrap()).sum();
        assert_eq!(evicted, 20, "every put was at the cap");
        disk.calls()
    };
    let (few, many) = (calls(50), calls(1500));
    // The clock decides over a call or two. A scan would be a call for each entry.
    assert!(few.abs_diff(many) < 10, "{few} calls at 50 entries, {many} at 1500");
}

#[test]
#[cfg_attr(not(has_cuda), ignore = "needs the CUDA compilers: cargo xtask runtimes --cuda")]
fn shortcoming_06_a_lost_unlink_does_not_over_evict() {
    let target = cuda::target();
    let binary = compile(&target, &memory(), &kernel(0)).fetched().artifact().clone();
    let directory = tempfile::tempdir().unwrap();
    let disk = Arc::new(FaultyBackend::new());
    let size = {
        let one = FileStore::open(directory.path(), StoreOptions::default()).unwrap();
        one.put(b"0", &binary).unwrap();
        one.total_bytes().unwrap()
    };
    let options = StoreOptions::default().with_max_bytes(size * 10).with_backend(disk.clone());
    let store = FileStore::open(directory.path(), options).unwrap();
    for n in 1..10u8 {
        store.put(&[b'0' + n], &binary).unwrap();
    }
    // Another process's eviction wins the race for the oldest entry.
    fs::remove_file(directory.path().join("entries").join(Key::digest(b"0").to_string())).unwrap();
    disk.fail_removals(1, ENOENT);
    store.put(b"new", &binary).unwrap();
    let there = entries(directory.path());
    assert_eq!(there.len(), 10, "one went, and one came");
    assert_eq!(store.total_bytes().unwrap(), bytes_of(&there));
}

#[test]
#[cfg_attr(not(can_mount), ignore = "needs root on Linux, to mount a file system")]
#[cfg_attr(all(can_mount, not(has_cuda)), ignore = "needs the CUDA compilers: cargo xtask runtimes --cuda")]
fn shortcoming_07_a_full_disk_still_yields_the_object() {
    own_process!(|| {
        let target = cuda::target();
        let directory = tempfile::tempdir().unwrap();
        let small = directory.path().join("small");
        let _mount = Mount::memory(&small, 1 << 20).unwrap();
        let cache = files(&small.join("cache"));
        fs::write(small.join("ballast"), vec![1; 1 << 20]).unwrap_err();
        let compiled = compile(&target, &cache, &kernel(1));
        assert_eq!(compiled.binary(), fresh(&target, &kernel(1)));
        assert!(matches!(
            compiled.fetched().origin(),
            Origin::Built { stored: Err(MissReason::NoSpace), .. }
        ));
        assert_eq!(cache.statistics().refusals.of(MissReason::NoSpace), 1);
        fs::remove_file(small.join("ballast")).unwrap();
        assert_eq!(compile(&target, &cache, &kernel(1)).fetched().refusal(), None);
        assert!(compile(&target, &cache, &kernel(1)).is_hit());
        drop(cache);
    });
}

#[test]
#[cfg_attr(not(has_cuda), ignore = "needs the CUDA compilers: cargo xtask runtimes --cuda")]
fn shortcoming_08_an_empty_output_is_an_error_and_is_not_stored() {
    let target = cuda::target();
    let cache = memory();
    let program = kernel(1).target(TargetType::LtoIr);
    for _ in 0..2 {
        let error = target.compile(&cache, &program).unwrap_err();
        assert!(error.to_string().contains("made no LTO-IR"), "{error}");
        assert!(error.to_string().contains("link_time_optimization"), "{error}");
    }
    assert_eq!((cache.statistics().hits, cache.statistics().builds), (0, 0));
    // The identity of the compiler, and no object.
    assert_eq!(cache.store().whole(), Ok(1));
    let optimised = program.option(OptionName::LinkTimeOptimization, true);
    assert!(!compile(&target, &cache, &optimised).binary().is_empty());
    assert!(compile(&target, &cache, &optimised).is_hit());
}

/// Two libraries of one version that differ in their build id: a patch release.
#[test]
#[cfg_attr(not(has_cuda), ignore = "needs the CUDA compilers: cargo xtask runtimes --cuda")]
fn shortcoming_09_the_build_id_is_in_the_key() {
    let Some(processes) = children_of!(compile_kernels) else { return };
    let folder = cuda::libraries();
    let directory = tempfile::tempdir().unwrap();
    let patched = directory.path().join("patched");
    fs::create_dir(&patched).unwrap();
    for entry in fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap();
        if name == "libnvrtc.so.13" {
            let mut bytes = fs::read(&path).unwrap();
            // The note: lengths of name and id, its type, `GNU`.
            let head = [4u32.to_le_bytes(), 20u32.to_le_bytes(), 3u32.to_le_bytes(), *b"GNU\0"].concat();
            let at = bytes.windows(head.len()).position(|window| window == head).unwrap();
            bytes[at + head.len()] ^= 1;
            fs::write(patched.join(name), bytes).unwrap();
        } else {
            symlink(&path, patched.join(name)).unwrap();
        }
    }
    // In processes of their own: one process holds one build of a library.
    let store = directory.path().join("store");
    let builds_by = |folder: &Path| builds(start_with(&processes, folder, &store, u64::MAX, 0, 1));
    assert_eq!([builds_by(&folder), builds_by(&folder)], [1, 0]);
    assert_eq!([builds_by(&patched), builds_by(&patched)], [1, 0], "the other build has other binaries");
    assert_eq!(builds_by(&folder), 0);
}

#[test]
#[cfg_attr(not(has_cuda), ignore = "needs the CUDA compilers: cargo xtask runtimes --cuda")]
fn shortcoming_10_an_empty_digest_opens_no_gate() {
    for digest in [&[][..], &[0], &[0; 16], &[0; 32], &[1; 15]] {
        assert!(ExtraDigest::new(digest).is_err(), "{digest:?}");
    }
    let target = cuda::target();
    let cache = memory();
    let source = "#define NAME \"absent.cuh\"\n#if !__has_include(NAME)\n#error it is absent\n#endif\n";
    let program = Program::cxx("f.cu", source).arch("sm_80");
    let refused = target.compile(&cache, &program).unwrap_err();
    assert!(refused.is_refused() && refused.to_string().contains("header_digest"), "{refused}");
    assert_eq!(cache.statistics().misses.total(), 0, "nothing is looked up without a key");
    // With a digest that says something it is the compiler's turn, which does not find the file.
    let digest = ExtraDigest::new(&Key::digest(b"what is in absent.cuh").as_bytes()[..]).unwrap();
    let rejected = target.compile(&cache, &program.header_digest(digest)).unwrap_err();
    assert!(!rejected.is_refused(), "{rejected}");
}

#[test]
#[cfg_attr(not(has_cuda), ignore = "needs the CUDA compilers: cargo xtask runtimes --cuda")]
fn shortcoming_11_one_compiles_and_the_rest_is_told() {
    let Some(processes) = children_of!(compile_kernels) else { return };
    let target = cuda::target();
    let directory = tempfile::tempdir().unwrap();
    // Single flight, across processes.
    let children: Vec<_> = (0..8).map(|_| start(&processes, directory.path(), u64::MAX, 0, 4)).collect();
    assert_eq!(children.into_iter().map(builds).sum::<u64>(), 4);

    // Statistics, a membership test, and metadata that lies beside the binary.
    let cache = files(directory.path());
    let template = "template <int N> __global__ void scale(float *x) { x[threadIdx.x] *= N; }";
    let program = Program::cxx("scale.cu", template).arch("sm_80").name_expression("scale<3>");
    let key = target.key(&cache, &program).unwrap().0;
    assert_eq!(cache.contains(key), Ok(false));
    let built = compile(&target, &cache, &program);
    assert_eq!(cache.contains(key), Ok(true));
    let found = compile(&target, &cache, &program);
    assert!(!built.is_hit() && found.is_hit());
    assert_eq!(found.lowered_name("scale<3>"), Some("_Z5scaleILi3EEvPf"));
    assert_eq!(found.lowered_name("scale<3>"), built.lowered_name("scale<3>"));
    let statistics = cache.statistics();
    assert_eq!((statistics.builds, statistics.hits), (1, 1));
    // The store keeps what was asked for: the kernels above, this one, and what the compiler is.
    let kept: Vec<Artifact> =
        entries(directory.path()).iter().map(|path| fs::read(path).unwrap().into()).collect();
    assert_eq!(kept.len(), 6);
}
