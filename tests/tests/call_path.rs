//! Counts the files that a hit of the file store, a look-up and a save of a pack, and a hit of a CUDA binary go through.
//!
//! Counted are the files of the core and of the native crate with a function that ran, as callgrind, a tool of valgrind, reports
//! them. A derived implementation of `PartialEq` or `Clone` has no code to read, and does not count.
//!
//! ```text
//! cargo test -p warmstart-tests --test call_path -- --ignored --nocapture
//! ```

use std::{
    collections::BTreeSet, env, error::Error, fs, path::Path, process::Command, thread, time::Duration,
};

use warmstart::{
    Cache, KeyFields,
    pack::{ModelId, Name, Pack, PackOptions, Packing, WeightKey},
    store::{FileStore, StoreOptions},
    target::cuda::Program,
};
use warmstart_tests::{children_of, cuda, own_process::Children};

type Outcome = Result<(), Box<dyn Error>>;

/// The variable that tells a child in which directory to work.
const DIRECTORY: &str = "WARMSTART_CALL_PATH";

#[test]
#[ignore = "needs valgrind"]
fn file_store_hit_goes_through_8_files() {
    let Some(children) = children_of!(|| in_child(file_store_hit)) else { return };
    assert_at_most(8, "a hit of the file store", &children, file_store_hit);
}

#[test]
#[ignore = "needs valgrind"]
fn pack_look_up_and_save_go_through_8_files() {
    let Some(children) = children_of!(|| in_child(look_up_and_save)) else { return };
    assert_at_most(8, "a look-up in a pack and a save", &children, |_| Ok(()));
}

#[test]
#[ignore = "needs valgrind"]
fn cuda_hit_of_ptx_goes_through_12_files() {
    let hit = |directory: &Path| {
        let source = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry scale() { ret; }\n";
        cuda_hit(directory, Program::ptx("scale.ptx", source))
    };
    let Some(children) = children_of!(|| in_child(hit)) else { return };
    assert_at_most(12, "a hit of a PTX program", &children, hit);
}

#[test]
#[ignore = "needs valgrind"]
fn cuda_hit_with_a_header_goes_through_12_files() {
    let hit = |directory: &Path| {
        let source = "#include \"factor.cuh\"\n__global__ void scale(float *x) { x[threadIdx.x] *= FACTOR; }";
        cuda_hit(directory, Program::cxx("scale.cu", source).include_dir(directory))
    };
    let Some(children) = children_of!(|| in_child(hit)) else { return };
    assert_at_most(12, "a hit of a C++ program with a header", &children, |directory| {
        fs::write(directory.join("factor.cuh"), "#pragma once\n#define FACTOR 3\n")?;
        // A header is remembered once it is older than the times of files are coarse.
        thread::sleep(Duration::from_secs(4));
        hit(directory)
    });
}

/// Builds an artifact, or finds it where it was built before.
fn file_store_hit(directory: &Path) -> Outcome {
    let cache = Cache::new(FileStore::open(directory, StoreOptions::default())?);
    let fields = KeyFields::new("call path", 1).text("source", "int f(void);").list("flags", ["-O3"]);
    let fetched = cache.get_or_build(&fields, || Ok::<_, Box<dyn Error>>(vec![1; 5000]))?;
    measured(&mut || assert!(cache.get(&fields).is_ok()));
    assert_eq!(fetched.is_hit(), env::var_os(DIRECTORY).is_some());
    Ok(())
}

/// Saves what was packed behind an earlier save, by a pack that holds the writer's lock since it packed, and looks a weight up.
fn look_up_and_save(directory: &Path) -> Outcome {
    let pack = Pack::open(directory.join("weights.xpwc"), PackOptions::default())?;
    let key = |name| WeightKey {
        name: Name::new(name).with_bias("bias"),
        model: ModelId::from_bytes([7; 32]),
        packing: Packing::of_seed(1),
    };
    pack.insert(&key("one"), pack.reserve(512)?);
    pack.save()?;
    pack.insert(&key("two"), pack.reserve(512)?);
    measured(&mut || {
        assert_eq!(pack.save().map(|saved| saved.entries), Ok(1));
        assert!(pack.look_up(&key("one")).is_ok());
    });
    Ok(())
}

/// Compiles a program, or finds it where it was compiled before, so that the target knows the compiler and the headers; and finds it
/// again.
fn cuda_hit(directory: &Path, program: Program) -> Outcome {
    let cache = Cache::new(FileStore::open(directory.join("cache"), StoreOptions::default())?);
    let (target, program) = (cuda::target(), program.arch("sm_80"));
    assert_eq!(target.compile(&cache, &program)?.is_hit(), env::var_os(DIRECTORY).is_some());
    measured(&mut || assert!(target.compile(&cache, &program).is_ok_and(|compiled| compiled.is_hit())));
    Ok(())
}

fn in_child(work: impl FnOnce(&Path) -> Outcome) {
    let directory = env::var_os(DIRECTORY).expect("the parent names it");
    work(Path::new(&directory)).expect("it works as in the parent");
}

/// Callgrind counts while this function runs.
#[inline(never)]
fn measured(call: &mut dyn FnMut()) {
    call();
}

/// Prepares a directory for the work of a child, runs it in valgrind, and counts the files that it goes through.
fn assert_at_most(most: usize, what: &str, children: &Children, prepare: impl FnOnce(&Path) -> Outcome) {
    let directory = tempfile::tempdir().expect("there is a directory for temporary files");
    prepare(directory.path()).expect("what is measured can be prepared");
    let report = directory.path().join("callgrind.out");
    let child = children.command();
    let ended = Command::new("valgrind")
        .args(["--quiet", "--tool=callgrind", "--collect-atstart=no", "--toggle-collect=call_path::measured"])
        .args(["--compress-strings=no", "--compress-pos=no"])
        .arg(format!("--callgrind-out-file={}", report.display()))
        .arg(child.get_program())
        .args(child.get_args())
        .envs(child.get_envs().filter_map(|(name, value)| Some((name, value?))))
        .env(DIRECTORY, directory.path())
        .output()
        .expect("valgrind is installed");
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stdout));
    let files = files_in(&fs::read_to_string(report).expect("callgrind wrote it"));
    println!("{what} goes through {} files, at most {most}: {files:#?}", files.len());
    assert!((1..=most).contains(&files.len()), "{what}: {files:#?}");
}

/// Returns the files of the two crates in a report of callgrind. A line `fl=`, `fi=` or `fe=` names the file of the lines after it,
/// and `fn=` the function.
fn files_in(report: &str) -> BTreeSet<String> {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = package.parent().unwrap_or(package);
    let (mut file, mut function, mut files) = ("", "", BTreeSet::new());
    for line in report.lines() {
        match line.split_once('=') {
            Some(("fl" | "fi" | "fe", path)) => file = path,
            Some(("fn", name)) => function = name,
            _ if line.starts_with(|first: char| first.is_ascii_digit()) => {
                let path = Path::new(file).strip_prefix(root).unwrap_or(Path::new(file));
                let is_ours = path.starts_with("core/src") || path.starts_with("native/src");
                let is_derived = [" as core::cmp::PartialEq>::", " as core::clone::Clone>::"];
                // The compiler counts what drops values to the crate's root, which has no functions.
                if is_ours
                    && !path.ends_with("lib.rs")
                    && !is_derived.iter().any(|part| function.contains(part))
                {
                    files.insert(path.display().to_string());
                }
            }
            _ => {}
        }
    }
    files
}
