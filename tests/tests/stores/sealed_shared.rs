//! Several users share a sealed directory, and one of them is hostile.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    fs::{self, File},
    os::unix::{
        fs::{MetadataExt, PermissionsExt, chown, symlink},
        process::CommandExt,
    },
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use warmstart::{
    Artifact, Cache, Key, MissReason, Seal, Store,
    store::{FileStore, StoreOptions},
};
use warmstart_tests::whole::Whole;

const GROUP: u32 = 45_670;
const ALICE: u32 = 45_671;
const BOB: u32 = 45_672;

fn sealed() -> StoreOptions {
    StoreOptions::default().with_seal(Seal::new(&[1; 32])).with_timeout(Duration::from_millis(200))
}

fn artifact(n: u8, len: usize) -> Artifact {
    Artifact::new(vec![n; len])
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

fn make(path: &Path, mode: u32) {
    fs::create_dir(path).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn entry(root: &Path, key: &[u8]) -> PathBuf {
    root.join("entries").join(Key::digest(key).to_string())
}

fn pipe(path: &Path) {
    let mode = rustix::fs::Mode::from_raw_mode(0o666);
    rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
}

/// A directory of the group's, and a program that any user can run on it.
struct Shared {
    directory: tempfile::TempDir,
}

impl Shared {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
        // By another process: a child that another thread forks meanwhile would keep the copy open, and so not to be run.
        let worker = directory.path().join("worker");
        assert!(
            Command::new("cp")
                .args([env!("CARGO_BIN_EXE_worker").as_ref(), worker.as_path()])
                .status()
                .unwrap()
                .success()
        );
        let shared = Self { directory };
        fs::create_dir(shared.root()).unwrap();
        chown(shared.root(), Some(0), Some(GROUP)).unwrap();
        fs::set_permissions(shared.root(), fs::Permissions::from_mode(0o2770)).unwrap();
        shared
    }

    fn root(&self) -> PathBuf {
        self.directory.path().join("cache")
    }

    /// A worker that runs as `user`, with a umask that lets no other user read its files.
    fn worker(&self, user: u32, arguments: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        let worker = self.directory.path().join("worker");
        command.arg("-c").arg(format!(
            "umask 077; exec {} --store files --path {} {arguments}",
            worker.display(),
            self.root().display()
        ));
        command.uid(user).gid(GROUP).current_dir("/").stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn run(&self, user: u32, arguments: &str) -> String {
        let output = self.worker(user, arguments).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }
}

#[test]
#[cfg_attr(not(is_root), ignore = "needs root, to give files to other users")]
fn the_members_of_a_group_share_what_they_store() {
    let shared = Shared::new();
    shared.run(ALICE, "--secret 1 put --count 20");
    assert_eq!(shared.run(BOB, "--secret 1 get --count 20").trim(), "20");
    shared.run(BOB, "--secret 1 put --seed 1 --count 20");
    assert_eq!(shared.run(ALICE, "--secret 1 get --seed 1 --count 20").trim(), "20");
    // Each may replace and evict what the other stored.
    shared.run(BOB, "--secret 1 put --count 20 --len 100");
    shared.run(ALICE, "--secret 1 --max-bytes 3000 put --seed 2 --count 20 --len 100");
    let bytes: u64 = fs::read_dir(shared.root().join("entries"))
        .unwrap()
        .map(|entry| entry.unwrap().metadata().unwrap().len())
        .sum();
    assert!(bytes <= 3000, "{bytes}");
}

#[test]
#[cfg_attr(not(is_root), ignore = "needs root, to give files to other users")]
fn files_get_the_directory_permissions_under_any_umask() {
    for (given, directories, files) in [(0o2770, 0o2770, 0o660), (0o2750, 0o2750, 0o640)] {
        let shared = Shared::new();
        let root = shared.root();
        chown(&root, Some(ALICE), Some(GROUP)).unwrap();
        fs::set_permissions(&root, fs::Permissions::from_mode(given)).unwrap();
        shared.run(ALICE, "--secret 1 put --count 1");
        for name in ["entries", "tmp", "locks"] {
            assert_eq!(mode(&root.join(name)), directories, "{name}");
            assert_eq!(fs::metadata(root.join(name)).unwrap().gid(), GROUP, "{name}");
        }
        let entry = fs::read_dir(root.join("entries")).unwrap().next().unwrap().unwrap().path();
        for path in [root.join("journal"), root.join("CACHEDIR.TAG"), entry] {
            assert_eq!(mode(&path), files, "{}", path.display());
        }
        // Those who may only read do that.
        assert_eq!(shared.run(BOB, "--secret 1 get --count 1").trim(), "1");
    }
    // No other user may do anything in a directory that the store has made itself.
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("own");
    FileStore::open(&root, sealed()).unwrap().put(b"k", &artifact(1, 10)).unwrap();
    for (path, expected) in [(&root, 0o700), (&root.join("entries"), 0o700), (&entry(&root, b"k"), 0o600)] {
        assert_eq!(mode(path), expected, "{}", path.display());
    }
}

/// A member of the group who was not given the secret.
#[test]
#[cfg_attr(not(is_root), ignore = "needs root, to give files to other users")]
fn what_a_stranger_plants_is_a_miss_until_it_is_replaced() {
    let shared = Shared::new();
    shared.run(ALICE, "--secret 1 put --count 5");
    shared.run(BOB, "--secret 2 put --count 10");
    assert_eq!(shared.run(ALICE, "--secret 1 get --count 10").trim(), "0");
    shared.run(ALICE, "--secret 1 put --count 10");
    assert_eq!(shared.run(ALICE, "--secret 1 get --count 10").trim(), "10");
    let refused = shared.worker(BOB, "put --count 1").output().unwrap();
    assert!(!refused.status.success(), "a store without a secret trusted the group");
}

#[test]
#[cfg_attr(not(is_root), ignore = "needs root, to give files to other users")]
fn of_two_users_that_build_at_once_one_does() {
    let shared = Shared::new();
    let log = shared.directory.path().join("log");
    fs::write(&log, "").unwrap();
    fs::set_permissions(&log, fs::Permissions::from_mode(0o666)).unwrap();
    let build = format!("--secret 1 build --log {} --keys 30 --build-ms 10", log.display());
    let users = [ALICE, BOB].map(|user| shared.worker(user, &build).spawn().unwrap());
    for user in users {
        let output = user.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    assert_eq!(fs::read_to_string(log).unwrap().lines().count(), 30);
}

#[test]
fn lock_held_for_ever_costs_its_timeout_and_no_more() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("cache");
    make(&root, 0o2777);
    let cache =
        Cache::new(FileStore::open(&root, sealed()).unwrap()).with_timeout(Duration::from_millis(200));
    let lock = File::create(root.join("locks").join(Key::digest(b"k").to_string())).unwrap();
    lock.lock().unwrap();
    let journal = File::open(root.join("journal")).unwrap();
    journal.lock().unwrap();
    let begun = Instant::now();
    let Ok(fetched) = cache.get_or_build("k", || Ok::<_, Infallible>(vec![9; 100]));
    assert_eq!(fetched.artifact().payload(), [9; 100]);
    assert_eq!(fetched.refusal(), Some(MissReason::Busy));
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    drop((lock, journal));
    let Ok(fetched) = cache.get_or_build("k", || Ok::<_, Infallible>(vec![9; 100]));
    assert_eq!(fetched.refusal(), None);
}

#[test]
fn sealing_does_not_loosen_the_rules_of_a_directory_of_ones_own() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("cache");
    let store = FileStore::open(&root, sealed()).unwrap();
    store.put(b"k", &artifact(1, 100)).unwrap();
    fs::set_permissions(entry(&root, b"k"), fs::Permissions::from_mode(0o666)).unwrap();
    assert_eq!(store.get(b"k").err(), Some(MissReason::Untrusted));
    fs::set_permissions(root.join("entries"), fs::Permissions::from_mode(0o770)).unwrap();
    assert!(FileStore::open(&root, sealed()).unwrap_err().is_untrusted());
}

/// Everything that a store does in a directory; what comes of it does not matter here.
fn do_everything(store: &FileStore) {
    let _ = store.get(b"k");
    for n in 0..40u8 {
        let _ = store.put(&[n], &artifact(n, 1000));
    }
    let _ = (store.put(b"k", &artifact(1, 10)), store.get(b"k"), store.contains(b"k"), store.whole());
    let _ = (store.inspect().unwrap().verify(&mut |_| ()), store.remove(b"k"), store.total_bytes());
    let cache = Cache::new(store).with_timeout(Duration::from_millis(100));
    let Ok(fetched) = cache.get_or_build("outer", || {
        let Ok(_) = cache.get_or_build("inner", || Ok::<_, Infallible>(vec![1]));
        Ok::<_, Infallible>(vec![9; 100])
    });
    assert_eq!(fetched.artifact().payload(), [9; 100]);
    let _ = store.clear();
}

/// Returns the state of a user's own directory: contents, permissions and times.
fn snapshot(directory: &Path) -> BTreeMap<PathBuf, (Vec<u8>, u32, i64)> {
    let files = fs::read_dir(directory).unwrap().map(|file| file.unwrap().path());
    files.map(|path| (path.clone(), (fs::read(&path).unwrap(), mode(&path), path_time(&path)))).collect()
}

fn path_time(path: &Path) -> i64 {
    fs::symlink_metadata(path).unwrap().mtime()
}

/// A user's own directory, with files under names that a cache gives too; all are old.
fn precious(directory: &Path) -> PathBuf {
    let precious = directory.join("precious");
    make(&precious, 0o700);
    let names = [Key::digest(b"k"), Key::digest(&[7]), Key::digest(b"outer"), Key::digest(b"inner")];
    let names = names.map(|name| name.to_string());
    for name in names.iter().map(String::as_str).chain(["journal", "1-00.0", "1-00.alive", "set-aside"]) {
        let file = File::create(precious.join(name)).unwrap();
        std::io::Write::write_all(&mut &file, b"precious").unwrap();
        file.set_modified(std::time::SystemTime::now() - Duration::from_secs(1_000_000)).unwrap();
    }
    precious
}

#[test]
fn links_in_the_place_of_directories_and_files_lead_nowhere() {
    let files = [("entries", b"k" as &[u8]), ("entries", &[7]), ("locks", b"outer"), ("locks", b"inner")];
    let files = files.map(|(folder, name)| format!("{folder}/{}", Key::digest(name)));
    let whole = ["entries", "tmp", "locks", "journal", "CACHEDIR.TAG"].map(str::to_owned);
    for victim in whole.iter().chain(&files) {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("cache");
        make(&root, 0o2777);
        let precious = precious(directory.path());
        let before = snapshot(&precious);
        let store = FileStore::open(&root, sealed().with_max_bytes(10_000)).unwrap();
        do_everything(&store);
        let _ = fs::rename(root.join(victim), directory.path().join("moved"));
        let name = Path::new(victim).file_name().unwrap();
        let file = precious.join(name);
        symlink(if file.exists() { file } else { precious.clone() }, root.join(victim)).unwrap();
        if *victim == files[0] {
            assert_eq!(store.get(b"k").err(), Some(MissReason::Untrusted));
        }
        do_everything(&store);
        drop(store);
        if let Ok(store) = FileStore::open(&root, sealed().with_max_bytes(10_000)) {
            assert!(!["entries", "tmp", "locks"].contains(&victim.as_str()), "a link was followed: {victim}");
            do_everything(&store);
        }
        assert_eq!(snapshot(&precious), before, "{victim}");
    }
}

#[test]
fn files_that_have_a_name_elsewhere_too_are_left_as_they_are() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("cache");
    make(&root, 0o2777);
    let precious = precious(directory.path());
    let before = snapshot(&precious);
    let store = FileStore::open(&root, sealed().with_max_bytes(10_000)).unwrap();
    let plant = || {
        let names = |name: &[u8]| Key::digest(name).to_string();
        let places = [
            "journal".to_owned(),
            "tmp/1-00.0".to_owned(),
            "tmp/1-00.alive".to_owned(),
            format!("entries/{}", names(b"k")),
            format!("entries/{}", names(&[7])),
            format!("locks/{}", names(b"outer")),
            format!("locks/{}", names(b"inner")),
        ];
        for place in places {
            let place = root.join(place);
            let _ = fs::remove_file(&place);
            fs::hard_link(precious.join(place.file_name().unwrap()), place).unwrap();
        }
    };
    plant();
    assert_eq!(store.get(b"k").err(), Some(MissReason::Untrusted));
    // A process that holds the lock of "outer" and waits for that of "inner" would write so into the former.
    let inner = File::open(root.join("locks").join(Key::digest(b"inner").to_string())).unwrap();
    inner.lock().unwrap();
    do_everything(&store);
    drop(inner);
    assert_eq!(snapshot(&precious), before);
    plant();
    // The names that the store's next temp files will have.
    let names = fs::read_dir(root.join("tmp")).unwrap().map(|file| file.unwrap().file_name());
    let alive: Vec<_> =
        names.filter_map(|name| Some(name.to_str()?.strip_suffix(".alive")?.to_owned())).collect();
    for (handle, n) in alive.iter().flat_map(|handle| (0..500).map(move |n| (handle, n))) {
        let _ = fs::hard_link(precious.join("journal"), root.join(format!("tmp/{handle}.{n}")));
    }
    do_everything(&store);
    assert_eq!(snapshot(&precious), before);
    plant();
    drop(store);
    do_everything(&FileStore::open(&root, sealed().with_max_bytes(10_000)).unwrap());
    assert_eq!(snapshot(&precious), before);
}

#[test]
fn pipes_are_not_waited_for() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("cache");
    make(&root, 0o2777);
    let store = FileStore::open(&root, sealed().with_max_bytes(10_000)).unwrap();
    let names = |folder: &str, name: &[u8]| format!("{folder}/{}", Key::digest(name));
    let plant = || {
        for place in [
            "journal".to_owned(),
            "CACHEDIR.TAG".to_owned(),
            "tmp/1-00.alive".to_owned(),
            "tmp/1-00.0".to_owned(),
            names("entries", b"k"),
            names("entries", &[7]),
            names("locks", b"outer"),
            names("locks", b"inner"),
        ] {
            let _ = fs::remove_file(root.join(&place));
            pipe(&root.join(place));
        }
    };
    plant();
    assert_eq!(store.get(b"k").err(), Some(MissReason::Untrusted));
    do_everything(&store);
    plant();
    do_everything(&FileStore::open(&root, sealed().with_max_bytes(10_000)).unwrap());
}

/// A terabyte that takes no room on the disk, under a header that asks for it.
#[test]
fn memory_is_not_taken_for_a_file_of_any_length() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("cache");
    make(&root, 0o2777);
    let store = FileStore::open(&root, sealed()).unwrap();
    store.put(b"k", &artifact(1, 100)).unwrap();
    let path = entry(&root, b"k");
    let mut header = fs::read(&path).unwrap();
    let payload = (1u64 << 40) - (header.len() as u64 - 100);
    header[32..40].copy_from_slice(&payload.to_le_bytes());
    fs::write(&path, &header).unwrap();
    File::options().write(true).open(&path).unwrap().set_len(1 << 40).unwrap();
    assert_eq!(store.get(b"k").err(), Some(MissReason::Oversize));
    let mut buffer = Vec::new();
    assert_eq!(store.get_into(b"k", &mut buffer), Err(MissReason::Oversize));
    assert_eq!(buffer.capacity(), 0);
    assert_eq!(store.contains(b"k"), Ok(false));
    assert_eq!((store.whole(), store.inspect().unwrap().verify(&mut |_| ()).unwrap()), (Ok(0), 0));
    store.put(b"k", &artifact(2, 100)).unwrap();
    assert_eq!(store.get(b"k").unwrap().payload(), [2; 100], "a put replaces it");
}

/// A journal that another user wrote may say anything; only the order of eviction follows from it.
#[test]
fn a_journal_that_lies_costs_entries_and_makes_no_hit() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("cache");
    make(&root, 0o2777);
    let store = FileStore::open(&root, sealed().with_max_bytes(100_000)).unwrap();
    store.put(b"k", &artifact(1, 1000)).unwrap();
    for lie in [Vec::new(), vec![0; 1 << 20], b"\x89WSJ\r\n\x1a\n".repeat(1000)] {
        fs::write(root.join("journal"), lie).unwrap();
        store.put(b"l", &artifact(2, 1000)).unwrap();
        assert_eq!(store.total_bytes(), Ok(fs::metadata(entry(&root, b"k")).unwrap().len() * 2));
    }
    File::options().write(true).open(root.join("journal")).unwrap().set_len(1 << 40).unwrap();
    store.put(b"l", &artifact(3, 1000)).unwrap();
    assert_eq!(store.get(b"l").unwrap().payload(), [3; 1000]);
    assert_eq!(store.get(b"k").unwrap().payload(), [1; 1000]);
}
