//! One file of packed weights and many processes, some of which are killed.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Child, Stdio},
    thread,
    time::{Duration, Instant},
};

use warmstart::{
    MissReason,
    pack::{Checks, Pack, PackOptions},
};
use warmstart_tests::{
    children_of,
    mount::Mount,
    own_process,
    own_process::Children,
    packed::{Weight, image, place, saved, use_all, weights},
};

/// The task of a child, with a path and numbers.
const TASK: &str = "WARMSTART_PACK_TASK";

fn checked(path: &Path) -> Pack {
    Pack::open(path, PackOptions::default().with_checks(Checks::All)).expect("it is a pack")
}

fn start(processes: &Children, task: &str, path: &Path, numbers: &[u32]) -> Child {
    let numbers: Vec<String> = numbers.iter().map(u32::to_string).collect();
    processes
        .command()
        .env(TASK, format!("{task} {} {}", path.display(), numbers.join(" ")))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("this test can be started again")
}

/// The lines that a child says.
fn heard(child: &mut Child) -> impl Iterator<Item = String> + use<> {
    let lines = BufReader::new(child.stdout.take().expect("it was asked for")).lines().map_while(Result::ok);
    lines.filter_map(|line| line.strip_prefix("SAID ").map(str::to_owned))
}

fn do_task() {
    let task = std::env::var(TASK).unwrap();
    let mut words = task.split(' ');
    let (task, path) = (words.next().unwrap(), PathBuf::from(words.next().unwrap()));
    let numbers: Vec<u32> = words.map(|word| word.parse().unwrap()).collect();
    let say = |word: &str| println!("\nSAID {word}");
    let wait = || drop(std::io::stdin().read_line(&mut String::new()));
    match (task, &numbers[..]) {
        // Saves one weight after the other until it is killed.
        ("save", [first]) => {
            for number in *first.. {
                let pack = Pack::open(&path, PackOptions::default()).unwrap();
                use_all(&pack, weights(0..number + 1)).unwrap();
                pack.finalize();
                pack.save().unwrap();
                say(&(number + 1).to_string());
            }
        }
        // Packs a range and saves it, however long it has to wait.
        ("pack", [from, to]) => {
            let timeout = PackOptions::default().with_timeout(Duration::from_secs(60));
            let pack = Pack::open(&path, timeout).unwrap();
            for number in *from..*to {
                use_all(&pack, weights(number..number + 1)).unwrap();
                pack.save().unwrap();
            }
            assert_eq!(pack.statistics().refusals.total(), 0);
        }
        // Holds the lock, with weights that are not saved, until it is told to save.
        ("hold", [from, to]) => {
            let pack = Pack::open(&path, PackOptions::default()).unwrap();
            use_all(&pack, weights(*from..*to)).unwrap();
            assert_eq!(pack.statistics().heap_entries, 0);
            say("held");
            wait();
            pack.save().unwrap();
            say("saved");
            wait();
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_a_killed_process_saved_is_there_whole() {
    let Some(processes) = children_of!(do_task) else { return };
    let (_directory, path) = place().unwrap();
    let mut said = 0;
    let mut random = 0x9e37_79b9_u64;
    for kill in 0..200 {
        let mut child = start(&processes, "save", &path, &[said]);
        let mut lines = heard(&mut child);
        // Once it is at work, at any instant of it.
        let first = lines.next();
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        thread::sleep(Duration::from_micros(random >> 40 & 0x1fff));
        child.kill().unwrap();
        child.wait().unwrap();
        let last = lines.last().or(first).unwrap();
        said = last.parse::<u32>().unwrap();
        let pack = checked(&path);
        assert_eq!(pack.refusal(), None, "after kill {kill}");
        assert_eq!(use_all(&pack, weights(0..said)).unwrap(), 0, "after kill {kill}");
        drop(pack);
        if said > 60 {
            // So that no round costs more than the one before.
            fs::remove_file(&path).unwrap();
            said = 0;
        }
    }
}

#[test]
fn many_writers_at_once_lose_nothing_of_each_other() {
    let Some(processes) = children_of!(do_task) else { return };
    let (_directory, path) = place().unwrap();
    let children: Vec<Child> =
        (0..6).map(|n| start(&processes, "pack", &path, &[n * 10, n * 10 + 13])).collect();
    for child in children {
        assert!(child.wait_with_output().unwrap().status.success());
    }
    let pack = checked(&path);
    assert_eq!(use_all(&pack, weights(0..63)).unwrap(), 0);
    // Those that two of them packed are there once.
    assert_eq!(pack.len(), 63);
}

#[test]
fn readers_never_wait_for_a_writer_and_see_what_it_saves() {
    let Some(processes) = children_of!(do_task) else { return };
    let (_directory, path) = place().unwrap();
    drop(saved(&path, PackOptions::default(), weights(0..10)).unwrap());
    let before = image(&path).unwrap().0;
    let mut writer = start(&processes, "hold", &path, &[10, 15]);
    let mut lines = heard(&mut writer);
    assert_eq!(lines.next().as_deref(), Some("held"));

    let begun = Instant::now();
    let patient = PackOptions::default().with_timeout(Duration::from_secs(600));
    let pack = Pack::open(&path, patient).unwrap();
    assert_eq!(use_all(&pack, weights(0..10)).unwrap(), 0);
    assert_eq!(Weight::number(10).find(&pack), Err(MissReason::Absent));
    assert!(begun.elapsed() < Duration::from_secs(60));
    assert_eq!(fs::read(&path).unwrap()[..before.len()], before);

    writer.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    assert_eq!(lines.next().as_deref(), Some("saved"));
    pack.refresh();
    assert_eq!(use_all(&pack, weights(0..15)).unwrap(), 0);
    writer.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    assert!(writer.wait().unwrap().success());
}

#[test]
fn second_writer_packs_into_the_heap_and_keeps_the_firsts_work() {
    let Some(processes) = children_of!(do_task) else { return };
    let (_directory, path) = place().unwrap();
    let mut first = start(&processes, "hold", &path, &[0, 5]);
    let mut lines = heard(&mut first);
    assert_eq!(lines.next().as_deref(), Some("held"));
    let second = Pack::open(&path, PackOptions::default()).unwrap();
    assert_eq!(use_all(&second, weights(3..8)).unwrap(), 5);
    assert_eq!((second.statistics().heap_entries, second.save()), (5, Err(MissReason::Busy)));
    first.stdin.as_mut().unwrap().write_all(b"\n\n").unwrap();
    assert_eq!(lines.next().as_deref(), Some("saved"));
    assert!(first.wait().unwrap().success());
    // Weights that the first saved meanwhile are not saved twice.
    assert_eq!(second.save().unwrap().entries, 3);
    drop(second);
    let pack = checked(&path);
    assert_eq!((use_all(&pack, weights(0..8)).unwrap(), pack.len()), (0, 8));
}

#[test]
fn writer_that_dies_with_its_lock_holds_no_process_up() {
    let Some(processes) = children_of!(do_task) else { return };
    let (_directory, path) = place().unwrap();
    drop(saved(&path, PackOptions::default(), weights(0..5)).unwrap());
    let committed = fs::metadata(&path).unwrap().len();
    let mut first = start(&processes, "hold", &path, &[5, 9]);
    assert_eq!(heard(&mut first).next().as_deref(), Some("held"));
    assert!(fs::metadata(&path).unwrap().len() > committed);
    first.kill().unwrap();
    first.wait().unwrap();
    let pack = checked(&path);
    assert_eq!(use_all(&pack, weights(0..5)).unwrap(), 0);
    assert_eq!(use_all(&pack, weights(5..6)).unwrap(), 1);
    assert_eq!(pack.save().unwrap().entries, 1);
    assert_eq!(pack.statistics().heap_entries, 0);
}

#[cfg(target_os = "linux")]
#[test]
#[cfg_attr(not(can_mount), ignore = "needs root on Linux, to mount a file system")]
fn full_disk_kills_no_process() {
    own_process!(|| {
        let directory = tempfile::tempdir().unwrap();
        let small = directory.path().join("small");
        let _mount = Mount::memory(&small, 2 << 20).unwrap();
        let path = small.join("weights.xpwc");
        let pack = Pack::open(&path, PackOptions::default()).unwrap();
        use_all(&pack, weights(0..200)).unwrap();
        let statistics = pack.statistics();
        assert!(
            statistics.refusals.of(MissReason::NoSpace) > 0 && statistics.heap_entries > 0,
            "{statistics:?}"
        );
        assert_eq!(use_all(&pack, weights(0..200)).unwrap(), 0);
        let saved = pack.save();
        drop(pack);
        let pack = checked(&path);
        let lost = use_all(&pack, weights(0..200)).unwrap();
        assert_eq!(lost, 200 - saved.map_or(0, |saved| saved.entries));
    });
}

#[cfg(target_os = "linux")]
#[test]
#[cfg_attr(not(can_mount), ignore = "needs root on Linux, to mount a file system")]
fn a_read_only_disk_serves_hits_and_packs_into_the_heap() {
    own_process!(|| {
        let (directory, path) = place().unwrap();
        drop(saved(&path, PackOptions::default(), weights(0..5)).unwrap());
        let read_only = directory.path().join("read-only");
        let _mount = Mount::read_only(directory.path(), &read_only).unwrap();
        let pack = checked(&read_only.join("weights.xpwc"));
        assert_eq!(use_all(&pack, weights(0..7)).unwrap(), 2);
        assert_eq!(pack.statistics().refusals.of(MissReason::ReadOnly), 2);
        assert_eq!(pack.save(), Err(MissReason::ReadOnly));
    });
}

#[test]
fn a_file_that_others_may_write_to_is_refused() {
    let (_directory, path) = place().unwrap();
    drop(saved(&path, PackOptions::default(), weights(0..5)).unwrap());
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o620)).unwrap();
    assert!(Pack::open(&path, PackOptions::default()).unwrap_err().is_untrusted());
}
