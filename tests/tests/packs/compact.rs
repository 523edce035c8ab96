//! Files of packed weights that are written anew: what nobody reaches goes, and whatever happens one of the two is whole.

use std::{fs, path::Path, sync::Arc, time::Duration};

use warmstart::{
    Reason,
    pack::{
        Checks, FileError, Inspection, ModelId, Pack, PackOptions, Refusal, RewriteOptions, Rewritten,
        compact, export, import, inspect, verify,
    },
};
use warmstart_tests::{
    map_disk::Mortal,
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
    assert_eq!((generation, entries.len(), refusal), (1, 10, Some(Refusal::IndexChecksum)));
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
    // Who had the old one mapped keeps it.
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
    // What is saved next counts on.
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
    assert_eq!(Weight::number(5).find(&pack), Err(Reason::OtherModel));
    assert_eq!(Weight::number(0).find(&pack), Err(Reason::Absent));
}

#[test]
fn damaged_payloads_are_dropped_even_where_nothing_else_is_gained() {
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
    assert!(matches!(compact(&path, &RewriteOptions::default()), Err(FileError::Busy)));
    // What was committed can be exported meanwhile.
    let output = directory.path().join("out");
    let to = RewriteOptions::default().with_output(&output).with_models([ModelId::from_bytes([1; 32])]);
    assert_eq!(export(&path, &to).unwrap().entries, 10);
    assert!(matches!(export(&path, &to), Err(FileError::Exists)));
    writer.save().unwrap();
    drop(writer);
    assert_eq!(compact(&path, &RewriteOptions::default()).unwrap().entries, 16);
    assert_eq!(names_in(directory.path()).unwrap(), ["out", "weights.xpwc"]);
}

#[test]
fn a_file_that_was_replaced_while_its_lock_was_waited_for_is_not_put_back() {
    let (directory, path) = place().unwrap();
    let other = directory.path().join("other.xpwc");
    two_models(&path).unwrap();
    drop(saved(&other, PackOptions::default(), weights(0..3)).unwrap());
    let disk = Arc::new(Mortal::after(u64::MAX));
    let holder = fs::File::open(&path).unwrap();
    holder.lock().unwrap();
    let patient = RewriteOptions::default().with_patience(Duration::from_secs(60)).with_disk(disk.clone());
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

/// Runs something on disks that die, until one does not: then one of the two files is there, whole, and the next run leaves
/// nothing behind.
fn dies_anywhere(
    make: impl Fn(&Path),
    rewrite: impl Fn(&Path, &RewriteOptions) -> Result<Rewritten, FileError>,
    is_old: impl Fn(&Path) -> bool,
    is_new: impl Fn(&Path) -> bool,
) {
    let (mut old, mut new) = (0, 0);
    for deadly in 1.. {
        let (directory, path) = place().unwrap();
        make(&path);
        let disk = Arc::new(Mortal::after(deadly));
        let done = rewrite(&path, &RewriteOptions::default().with_disk(disk.clone()));
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
fn whatever_operation_rewriting_dies_at_the_old_file_or_the_new_is_there() {
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
fn what_somebody_is_writing_beside_a_file_stays() {
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
