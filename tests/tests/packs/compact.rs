//! Packs that are rewritten: unreachable data go, and whatever happens the old file or the new one is whole.

use std::{fs, path::Path, sync::Arc, time::Duration};

use warmstart::{
    MissReason,
    pack::{
        Checks, FormatError, Inspection, ModelId, Pack, PackError, PackOptions, RewriteOptions, Rewritten,
        compact, export, import, inspect, verify,
    },
};
use warmstart_tests::{
    map_backend::{DyingBackend, Poor},
    packed::{Weight, image, names_in, open, place, saved, two_models, use_all, weights},
};

#[test]
fn a_damaged_payload_and_a_recovered_index_are_found() {
    let (_directory, path) = place().unwrap();
    two_models(&path).unwrap();
    let whole = fs::read(&path).unwrap();
    let mut bytes = whole.clone();
    bytes[4096] ^= 1;
    fs::write(&path, &bytes).unwrap();
    let proved = verify(&path, &mut |_, _| {}).unwrap();
    assert_eq!((proved.is_good(), proved.whole, proved.damaged), (false, 14, vec![0]));

    let mut bytes = whole;
    let last = bytes.len() - 30;
    bytes[last] ^= 1;
    fs::write(&path, &bytes).unwrap();
    let Inspection { generation, entries, refusal, dead_bytes, .. } = inspect(&path).unwrap();
    assert_eq!((generation, entries.len(), refusal), (1, 10, Some(FormatError::IndexChecksum)));
    assert!(dead_bytes > 0, "what follows the index that counts is dead");
    assert!(!verify(&path, &mut |_, _| {}).unwrap().is_good());
    // Compacting takes what was recovered, and nothing is refused any more.
    let done = compact(&path, &RewriteOptions::default()).unwrap();
    assert_eq!((done.is_changed, done.entries), (true, 10));
    let found = inspect(&path).unwrap();
    assert_eq!((found.generation, found.refusal, found.dead_bytes), (3, None, 0));
}

#[test]
fn compacting_leaves_no_dead_bytes_and_twice_is_once() {
    let (_directory, path) = place().unwrap();
    two_models(&path).unwrap();
    let reader = open(&path).unwrap();
    let held = Weight::number(0).wanted(|wanted| reader.look_up(wanted)).unwrap();
    let before = (fs::read(&path).unwrap(), inspect(&path).unwrap());
    let done = compact(&path, &RewriteOptions::default()).unwrap();
    assert_eq!((done.is_changed, done.entries, done.left_out, done.damaged), (true, 15, 0, 0));
    let after = inspect(&path).unwrap();
    assert_eq!((after.dead_bytes, after.generation), (0, 3));
    assert_eq!((done.bytes_before, done.bytes_after), (before.1.file_bytes, after.file_bytes));
    assert!(after.file_bytes < before.1.file_bytes);
    let generations =
        |found: &Inspection| found.entries.iter().map(|entry| entry.generation).collect::<Vec<_>>();
    assert_eq!(generations(&after), generations(&before.1));
    let number = |path: &Path| fs::read(path).unwrap()[16..32].to_vec();
    assert_ne!(number(&path), before.0[16..32], "it is another file");
    let (_other_directory, other) = place().unwrap();
    fs::write(&other, &before.0).unwrap();
    compact(&other, &RewriteOptions::default()).unwrap();
    assert_ne!(number(&other), number(&path));
    // A process that had the old file mapped keeps it.
    assert_eq!(use_all(&reader, weights(0..10)).unwrap(), 0);
    assert_eq!(held[..], [Weight::number(0).byte(0)]);
    reader.refresh();
    assert_eq!(use_all(&reader, weights(0..10)).unwrap(), 0);
    drop(reader);

    let before = image(&path).unwrap();
    let again = compact(&path, &RewriteOptions::default()).unwrap();
    assert_eq!((again.is_changed, again.entries), (false, 15));
    assert_eq!(image(&path).unwrap(), before);
    let pack = Pack::open(&path, PackOptions::default().with_checks(Checks::All)).unwrap();
    assert_eq!(use_all(&pack, weights(5..10).map(|weight| Weight { model: 2, ..weight })).unwrap(), 0);
    // The next save continues the generation.
    use_all(&pack, weights(20..21)).unwrap();
    pack.save().unwrap();
    assert_eq!(inspect(&path).unwrap().generation, 4);
}

#[test]
fn only_the_models_that_are_wanted_are_kept() {
    let (_directory, path) = place().unwrap();
    two_models(&path).unwrap();
    let only = RewriteOptions::default().with_models([ModelId::from_bytes([2; 32])]);
    let done = compact(&path, &only).unwrap();
    assert_eq!((done.entries, done.left_out), (5, 10));
    let pack = open(&path).unwrap();
    assert_eq!(use_all(&pack, weights(5..10).map(|weight| Weight { model: 2, ..weight })).unwrap(), 0);
    assert_eq!(Weight::number(5).find(&pack), Err(MissReason::OtherModel));
    assert_eq!(Weight::number(0).find(&pack), Err(MissReason::Absent));
}

#[test]
fn damaged_payloads_are_dropped_even_if_nothing_else_is_gained() {
    let (_directory, path) = place().unwrap();
    drop(saved(&path, PackOptions::default(), weights(0..5)).unwrap());
    assert_eq!(inspect(&path).unwrap().dead_bytes, 0);
    let mut bytes = fs::read(&path).unwrap();
    // The second is longer than those before it: none of its bytes stay behind.
    let at = inspect(&path).unwrap().entries[3].offset as usize;
    bytes[at + 5] ^= 1;
    fs::write(&path, &bytes).unwrap();
    let done = compact(&path, &RewriteOptions::default()).unwrap();
    assert_eq!((done.is_changed, done.entries, done.damaged), (true, 4, 1));
    assert_eq!(verify(&path, &mut |_, _| {}).unwrap().whole, 4);
    assert_eq!(inspect(&path).unwrap().dead_bytes, 0);
    assert_eq!(use_all(&open(&path).unwrap(), weights(0..5)).unwrap(), 1);
}

#[test]
fn who_writes_is_not_disturbed() {
    let (directory, path) = place().unwrap();
    two_models(&path).unwrap();
    let writer = open(&path).unwrap();
    Weight::number(30).pack(&writer).unwrap();
    assert!(matches!(compact(&path, &RewriteOptions::default()), Err(PackError::Busy)));
    // Committed weights can be exported meanwhile.
    let output = directory.path().join("out");
    let to = RewriteOptions::default().with_output(&output).with_models([ModelId::from_bytes([1; 32])]);
    assert_eq!(export(&path, &to).unwrap().entries, 10);
    assert!(matches!(export(&path, &to), Err(PackError::Exists)));
    writer.save().unwrap();
    drop(writer);
    assert_eq!(compact(&path, &RewriteOptions::default()).unwrap().entries, 16);
    assert_eq!(names_in(directory.path()).unwrap(), ["out", "weights.xpwc"]);
}

#[test]
fn file_replaced_during_a_lock_wait_is_not_put_back() {
    let (directory, path) = place().unwrap();
    let other = directory.path().join("other.xpwc");
    two_models(&path).unwrap();
    drop(saved(&other, PackOptions::default(), weights(0..3)).unwrap());
    let disk = Arc::new(DyingBackend::after(u64::MAX));
    let holder = fs::File::open(&path).unwrap();
    holder.lock().unwrap();
    let patient = RewriteOptions::default().with_timeout(Duration::from_secs(60)).with_backend(disk.clone());
    let done = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| compact(&path, &patient));
        // It has looked at the path, opened the file, looked at that twice, and asks for the lock.
        while disk.operations() < 5 {
            std::thread::yield_now();
        }
        fs::rename(&other, &path).unwrap();
        drop(holder);
        waiting.join().unwrap()
    });
    assert_eq!(done.unwrap().entries, 3);
    assert_eq!(inspect(&path).unwrap().entries.len(), 3);
}

/// A loss of power leaves the old file or the new one: all of the new one is on the medium before it has the path.
#[cfg(unix)]
#[test]
fn compacted_file_is_synced_before_it_takes_the_path() {
    let (_directory, path) = place().unwrap();
    two_models(&path).unwrap();
    let disk = Arc::new(DyingBackend::watching(&path).unwrap());
    let done = compact(&path, &RewriteOptions::default().with_backend(disk.clone())).unwrap();
    let moments = disk.take_moments();
    let lens: Vec<_> = moments.iter().map(|moment| moment.now.len() as u64).collect();
    assert_eq!(lens, [done.bytes_before, done.bytes_after]);
    assert!(moments.iter().all(|moment| moment.is_named && moment.synced == moment.now));
}

#[test]
fn rewrite_that_fails_leaves_no_file_behind() {
    let (directory, path) = place().unwrap();
    two_models(&path).unwrap();
    let before = image(&path).unwrap();
    let full = RewriteOptions::default().with_backend(Arc::new(Poor::with_room(100_000)));
    assert!(matches!(compact(&path, &full), Err(PackError::Io(_))));
    assert_eq!(names_in(directory.path()).unwrap(), ["weights.xpwc"]);
    assert_eq!(image(&path).unwrap(), before);
}

/// Between payloads are zeros, and not what is left of a longer one that was damaged.
#[test]
fn dropped_payload_leaves_no_bytes_between_the_others() {
    let (_directory, path) = place().unwrap();
    drop(saved(&path, PackOptions::default(), weights(4..5)).unwrap());
    drop(saved(&path, PackOptions::default(), weights(0..1)).unwrap());
    let mut bytes = fs::read(&path).unwrap();
    bytes[4096] ^= 1;
    fs::write(&path, &bytes).unwrap();
    assert_eq!(compact(&path, &RewriteOptions::default()).unwrap().damaged, 1);
    let (bytes, entries) = (fs::read(&path).unwrap(), inspect(&path).unwrap().entries);
    assert_eq!((entries.len(), entries[0].offset, entries[0].size), (1, 4096, 1));
    assert!(bytes[4097..4096 + 128].iter().all(|byte| *byte == 0));
}

/// The slot that the next commit would take is damaged, and nothing else.
#[test]
fn damaged_empty_slot_is_mended_by_compaction() {
    let (_directory, path) = place().unwrap();
    two_models(&path).unwrap();
    compact(&path, &RewriteOptions::default()).unwrap();
    let mut bytes = fs::read(&path).unwrap();
    bytes[1024] ^= 1;
    fs::write(&path, &bytes).unwrap();
    assert!(inspect(&path).unwrap().refusal.is_some());
    assert!(compact(&path, &RewriteOptions::default()).unwrap().is_changed);
    assert_eq!(inspect(&path).unwrap().refusal, None);
    assert_eq!(use_all(&open(&path).unwrap(), weights(0..10)).unwrap(), 0);
}

#[cfg(unix)]
#[test]
fn file_that_others_may_write_to_is_not_rewritten() {
    use std::os::unix::fs::PermissionsExt;

    let (directory, path) = place().unwrap();
    two_models(&path).unwrap();
    // A file beside it that looks like one of a dead process, and may be of another user.
    let beside = directory.path().join("weights.xpwc.0123456789abcdef.tmp");
    fs::write(&beside, b"x").unwrap();
    for path in [&path, &beside] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o620)).unwrap();
    }
    let before = image(&path).unwrap();
    let only = || RewriteOptions::default().with_models([ModelId::from_bytes([1; 32])]);
    let to_output = only().with_output(directory.path().join("output"));
    for result in [compact(&path, &only()), export(&path, &only()), export(&path, &to_output)] {
        assert!(matches!(result, Err(PackError::Untrusted)), "{result:?}");
    }
    assert_eq!(image(&path).unwrap(), before);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    assert!(compact(&path, &only()).unwrap().is_changed);
    assert!(beside.exists(), "a file that is not ours was removed");
}

/// Keeping nothing is more likely a mistake than an intention.
#[test]
fn rewrite_for_a_model_that_the_file_lacks_is_refused() {
    let (directory, path) = place().unwrap();
    two_models(&path).unwrap();
    let before = image(&path).unwrap();
    let [known, missing] = [1, 3].map(|model| ModelId::from_bytes([model; 32]));
    let both = RewriteOptions::default().with_models([known, missing]);
    assert!(matches!(compact(&path, &both), Err(PackError::NoSuchModel(model)) if model == missing));
    let none = RewriteOptions::default().with_models([missing]);
    assert!(matches!(export(&path, &none), Err(PackError::NoSuchModel(model)) if model == missing));
    assert_eq!(image(&path).unwrap(), before);
    assert_eq!(names_in(directory.path()).unwrap(), ["weights.xpwc"]);
}

/// Runs something on disks that die, until one does not: then one of the two files is there, whole, and the next run leaves
/// nothing behind.
fn dies_anywhere(
    make: impl Fn(&Path),
    rewrite: impl Fn(&Path, &RewriteOptions) -> Result<Rewritten, PackError>,
    is_old: impl Fn(&Path) -> bool,
    is_new: impl Fn(&Path) -> bool,
) {
    let (mut old, mut new) = (0, 0);
    for deadly in 1.. {
        let (directory, path) = place().unwrap();
        make(&path);
        let disk = Arc::new(DyingBackend::after(deadly));
        let done = rewrite(&path, &RewriteOptions::default().with_backend(disk.clone()));
        let (has_old, has_new) = (is_old(&path), is_new(&path));
        assert!(has_old != has_new, "at operation {deadly}: {done:?}");
        assert!(done.is_err() || has_new, "at operation {deadly}");
        old += u32::from(has_old);
        new += u32::from(has_new);
        rewrite(&path, &RewriteOptions::default()).unwrap();
        assert!(is_new(&path), "at operation {deadly}");
        if has_old {
            assert_eq!(names_in(directory.path()).unwrap(), ["weights.xpwc"], "at operation {deadly}");
        }
        if !disk.is_dead() {
            break;
        }
    }
    assert!(old > 10 && new > 0, "{old} {new}");
}

#[test]
fn rewrite_that_dies_at_any_call_leaves_the_old_or_new_file() {
    let is_whole = |path: &Path, version, dead| {
        let proved = verify(path, &mut |_, _| {}).unwrap();
        proved.is_good()
            && proved.inspection.version == version
            && (proved.inspection.dead_bytes == 0) != dead
    };
    dies_anywhere(
        |path| two_models(path).unwrap(),
        |path, options| compact(path, options),
        |path| is_whole(path, 3, true),
        |path| is_whole(path, 3, false),
    );
    let one_model = |path: &Path| drop(saved(path, PackOptions::default(), weights(0..8)).unwrap());
    dies_anywhere(
        one_model,
        |path, options| export(path, options),
        |path| is_whole(path, 3, false),
        |path| is_whole(path, 2, false),
    );
    let exported = |path: &Path| {
        one_model(path);
        export(path, &RewriteOptions::default()).unwrap();
    };
    dies_anywhere(
        exported,
        |path, options| import(path, options),
        |path| is_whole(path, 2, false),
        |path| is_whole(path, 3, false),
    );
}

#[test]
fn temporary_file_in_use_beside_a_pack_stays() {
    let (directory, path) = place().unwrap();
    two_models(&path).unwrap();
    let at_work = directory.path().join("weights.xpwc.0123456789abcdef.tmp");
    let left = directory.path().join("weights.xpwc.0123456789abcde0.tmp");
    let others = directory.path().join("weights.xpwc.notours.tmp");
    for path in [&at_work, &left, &others] {
        fs::write(path, b"x").unwrap();
    }
    let locked = fs::File::open(&at_work).unwrap();
    locked.lock().unwrap();
    compact(&path, &RewriteOptions::default()).unwrap();
    assert!(at_work.exists() && others.exists() && !left.exists());
}
