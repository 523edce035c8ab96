//! Stores to look into, and how the command is run.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fmt::Debug,
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::Arc,
};

use serde_json::Value;
use tempfile::TempDir;
use warmstart::{
    Artifact, Cache, Clock, Key, KeyFields, Metadata, MissReason, Provenance, ReasonCounts, Statistics,
    Store,
    store::{FileStore, SqliteStore, StoreOptions},
};

/// When everything in a store of these tests was made: 2024-03-01T12:00:00Z.
pub(crate) const MADE: u64 = 1_709_294_400_000;

/// Ninety minutes later, which is now.
pub(crate) const NOW: u64 = MADE + 90 * 60_000;

/// A clock that stands still.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Still;

impl Clock for Still {
    fn unix_ms(&self) -> u64 {
        MADE
    }
}

/// The end of the message about a path that is neither a store nor a file of packed weights.
pub(crate) const NEITHER: &str =
    "neither a warmstart store nor a file of packed weights; name the path that one was opened with";

/// Every sub-command, as it is called on a store.
pub(crate) const COMMANDS: [&[&str]; 8] = [
    &["ls"],
    &["inspect", "STORE", "0000"],
    &["verify"],
    &["verify", "--remove"],
    &["stats"],
    &["prune", "--max-bytes", "1G"],
    &["clear"],
    &["explain", "--last-miss"],
];

/// The outcome of a run of the command.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) errors: String,
}

impl Ran {
    pub(crate) fn json(&self) -> Value {
        assert_eq!(self.out.lines().count(), 1, "{self:?}");
        serde_json::from_str(&self.out).unwrap()
    }
}

/// The command, to be run at [`NOW`] and without what the environment says of colours.
pub(crate) fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_warmstart"));
    command.args(["--now", &NOW.to_string()]);
    for variable in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE"] {
        command.env_remove(variable);
    }
    command
}

/// Runs a sub-command on a store: `STORE` among the arguments is its path, which else comes at last.
pub(crate) fn run(arguments: &[&str], store: &Path) -> Ran {
    let mut command = command();
    for argument in arguments {
        command.arg(if *argument == "STORE" { store.as_os_str() } else { OsStr::new(argument) });
    }
    if !arguments.contains(&"STORE") {
        command.arg(store);
    }
    ran(&command.output().unwrap())
}

pub(crate) fn ran(output: &Output) -> Ran {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    Ran { code: output.status.code(), out: text(&output.stdout), errors: text(&output.stderr) }
}

/// Returns the fields of a kernel's key.
pub(crate) fn fields(name: &'static str, flags: &'static str) -> KeyFields<'static> {
    KeyFields::new("example", 1)
        .digest("source", Key::digest(name.as_bytes()).as_bytes().to_vec(), name)
        .list("flags", flags.split(' '))
}

/// An artifact that took a quarter of a second to build.
pub(crate) fn artifact(fields: &KeyFields<'_>, len: usize) -> Artifact {
    Artifact::new(vec![7; len])
        .with_metadata(&Metadata::new().with_recipe(fields.recipe()))
        .with_provenance(Provenance { created_unix_ms: MADE, build_nanos: 250_000_000 })
}

/// The kinds of stores, each opened below a directory, and its path.
pub(crate) fn stores(below: &Path) -> Vec<(Box<dyn Store>, PathBuf)> {
    let path = below.join("files");
    let options = StoreOptions::default().with_clock(Arc::new(Still));
    let files: Box<dyn Store> = Box::new(FileStore::open(&path, options).unwrap());
    let file = below.join("kernels.sqlite");
    let options = StoreOptions::default().with_clock(Arc::new(Still));
    let sqlite: Box<dyn Store> = Box::new(SqliteStore::open(&file, options).unwrap());
    vec![(files, path), (sqlite, file)]
}

/// Three entries, two of them kernels, and what a cache counted over them: put into `store`, which is then closed.
pub(crate) fn fill(store: &dyn Store) {
    for (name, flags, len) in [("softmax", "-O2 -g", 1000), ("matmul", "-O3", 50_000)] {
        let fields = fields(name, flags);
        store.put(fields.key().as_bytes(), &artifact(&fields, len)).unwrap();
    }
    store.put(b"plain", &Artifact::new(vec![1, 2, 3])).unwrap();

    let mut counted = Statistics::default();
    counted.hits = 30;
    counted.builds = 9;
    counted.shared = 1;
    counted.wait_nanos = 2_500_000_000;
    counted.bytes_read = 40_000;
    counted.bytes_written = 51_003;
    counted.build_nanos = 2_250_000_000;
    counted.saved_nanos = 7_500_000_000;
    let mut misses = ReasonCounts::default();
    misses.add(MissReason::ChecksumMismatch, 1);
    misses.add(MissReason::Absent, 9);
    counted.misses = misses;
    counted.refusals.add(MissReason::NoSpace, 2);
    store.inspect().unwrap().report(&counted, None).unwrap();
}

/// Has a cache miss a kernel and store it.
pub(crate) fn miss(store: &dyn Store, name: &'static str, flags: &'static str) {
    let cache = Cache::new(store).with_clock(Arc::new(Still));
    let built = cache.get_or_build(&fields(name, flags), || Ok::<_, std::io::Error>(vec![1; 10]));
    assert!(!built.unwrap().is_hit());
    cache.flush().unwrap();
}

/// A directory for a test, and the stores in it, filled and closed.
pub(crate) fn filled() -> (TempDir, Vec<PathBuf>) {
    let directory = tempfile::tempdir().unwrap();
    let stores = stores(directory.path());
    let paths = stores.into_iter().map(|(store, path)| {
        fill(&*store);
        store.close().unwrap();
        path
    });
    let paths = paths.collect();
    (directory, paths)
}

/// Every file below a directory, with its contents.
pub(crate) type Contents = BTreeMap<PathBuf, Vec<u8>>;

/// Panics if a file was made, removed or changed.
pub(crate) fn is_unchanged(before: &Contents, directory: &Path, by: impl Debug) {
    let after = contents(directory);
    let differs = |path: &&PathBuf| before.get(*path) != after.get(*path);
    let changed: Vec<_> = before.keys().chain(after.keys()).filter(differs).collect();
    assert!(changed.is_empty(), "{by:?} changed {changed:?}");
}

pub(crate) fn contents(directory: &Path) -> Contents {
    let mut found = Contents::new();
    let mut left = vec![directory.to_path_buf()];
    while let Some(directory) = left.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let kind = std::fs::symlink_metadata(&path).unwrap();
            if kind.is_dir() {
                left.push(path.clone());
            }
            // A FIFO would block.
            let bytes = if kind.is_file() { std::fs::read(&path).unwrap() } else { Vec::new() };
            found.insert(path, bytes);
        }
    }
    found
}
