//! A file that other programs open too: ExecuTorch, and those that cut files off.

use std::{fs, fs::File, io::Write, time::Duration};

use warmstart::{
    MissReason,
    os::{Access, LocalMapBackend, Lock, MapBackend},
    pack::{Checks, Pack, PackError, PackOptions, RewriteOptions, compact, export, import, inspect},
};
use warmstart_tests::{
    executorch::{self, Opened},
    packed::{Weight, image, names_in, open, place, saved, use_all, weights},
};

#[test]
#[cfg(target_os = "linux")]
fn executorch_does_not_truncate_a_pack_that_is_open() {
    let (_directory, path) = place().unwrap();
    drop(saved(&path, PackOptions::default(), weights(0..8)).unwrap());
    let before = image(&path).unwrap();

    let reader = open(&path).unwrap();
    assert!(matches!(executorch::initialize(&path).unwrap(), Opened::Nothing));
    assert_eq!(image(&path).unwrap(), before);
    assert_eq!(use_all(&reader, weights(0..8)).unwrap(), 0);
    // The lock that keeps ExecuTorch out does not keep our writers out.
    let writer = reader.clone();
    assert_eq!(use_all(&writer, weights(0..10)).unwrap(), 2);
    assert!(matches!(executorch::initialize(&path).unwrap(), Opened::Nothing));
    assert_eq!(writer.save().unwrap().entries, 2);
    assert!(matches!(executorch::initialize(&path).unwrap(), Opened::Nothing));
    drop((reader, writer));

    // With nothing open, it does: a path of its own is what it needs.
    assert!(matches!(executorch::initialize(&path).unwrap(), Opened::Writing(_)));
    assert_eq!(fs::metadata(&path).unwrap().len(), 0);
}

#[test]
#[cfg(target_os = "linux")]
fn executorch_does_not_truncate_a_pack_that_was_just_made() {
    let (_directory, path) = place().unwrap();
    let pack = saved(&path, PackOptions::default(), weights(0..8)).unwrap();
    let before = image(&path).unwrap();
    assert!(matches!(executorch::initialize(&path).unwrap(), Opened::Nothing));
    assert_eq!(image(&path).unwrap(), before);
    assert_eq!(use_all(&pack, weights(0..8)).unwrap(), 0);
}

#[test]
fn a_file_that_executorch_writes_is_left_to_it() {
    let (_directory, path) = place().unwrap();
    let Opened::Writing(mut file) = executorch::initialize(&path).unwrap() else { panic!("it is new") };
    file.write_all(&[7; 10_000]).unwrap();
    assert!(open(&path).unwrap_err().is_wrong_kind());
    file.set_len(0).unwrap();
    let pack = open(&path).unwrap();
    assert_eq!(use_all(&pack, weights(0..2)).unwrap(), 2);
    assert_eq!(pack.save(), Err(MissReason::Busy));
    assert_eq!(fs::metadata(&path).unwrap().len(), 0);
    drop(file);
    assert_eq!(pack.save().unwrap().entries, 2);
}

#[test]
fn convert_in_place_works_beside_readers_not_beside_a_writer() {
    let (directory, path) = place().unwrap();
    drop(saved(&path, PackOptions::default(), weights(0..6)).unwrap());
    export(&path, &RewriteOptions::default()).unwrap();
    let exported = image(&path).unwrap();

    let writer = File::options().read(true).write(true).open(&path).unwrap();
    writer.try_lock().unwrap();
    for options in
        [RewriteOptions::default(), RewriteOptions::default().with_output(directory.path().join("out"))]
    {
        let error = import(&path, &options).unwrap_err();
        assert!(matches!(error, PackError::Busy), "{error}");
        assert!(error.to_string().contains("another process writes"), "{error}");
    }
    assert_eq!((image(&path).unwrap(), names_in(directory.path()).unwrap().len()), (exported, 1));
    drop(writer);

    // ExecuTorch has it open, and reads.
    let Opened::Loaded(_loaded) = executorch::initialize(&path).unwrap() else { panic!("it is whole") };
    if cfg!(target_os = "linux") {
        assert!(import(&path, &RewriteOptions::default()).unwrap().is_changed);
        assert_eq!(inspect(&path).unwrap().version, 3);
    }
}

#[test]
fn saved_weights_in_a_cut_file_are_not_handed_out() {
    type Harm = fn(&File);
    let harms: [(&str, Harm); 3] = [
        ("cut off", |file| file.set_len(5000).unwrap()),
        ("emptied", |file| file.set_len(0).unwrap()),
        ("written over", |mut file| file.write_all(&vec![7; 100_000]).unwrap()),
    ];
    for (what, harm) in harms {
        for is_saved in [false, true] {
            let (_directory, path) = place().unwrap();
            drop(saved(&path, PackOptions::default(), weights(0..8)).unwrap());
            let pack = open(&path).unwrap();
            assert_eq!(use_all(&pack, weights(0..8)).unwrap(), 0);
            harm(&File::options().write(true).open(&path).unwrap());
            let after = image(&path).unwrap();
            if is_saved {
                assert_eq!(pack.save(), Err(MissReason::Truncated), "{what}");
            } else {
                pack.refresh();
            }
            for weight in weights(0..8) {
                assert!(weight.find(&pack).is_err(), "{what}: {weight:?}");
            }
            assert_eq!(pack.statistics().refusals.of(MissReason::Truncated), 1, "{what}");
            // Weights packed now go to the heap. A pack begins as an empty file.
            if what != "emptied" {
                assert_eq!(use_all(&pack, weights(0..8)).unwrap(), 8);
            }
            drop(pack);
            assert_eq!(image(&path).unwrap(), after, "{what}: what is there now is not ours to change");
        }
    }
}

#[test]
fn packed_weights_in_a_cut_file_are_not_saved() {
    let (_directory, path) = place().unwrap();
    drop(saved(&path, PackOptions::default(), weights(0..3)).unwrap());
    let pack = open(&path).unwrap();
    assert_eq!(use_all(&pack, weights(0..8)).unwrap(), 5);
    File::options().write(true).open(&path).unwrap().set_len(100).unwrap();
    let after = image(&path).unwrap();
    assert_eq!(pack.save(), Err(MissReason::Truncated));
    assert_eq!(weights(0..8).filter(|weight| weight.find(&pack).is_ok()).count(), 0);
    drop(pack);
    assert_eq!(image(&path).unwrap(), after);

    // Whole weights are found again; once the file is moved away, the pack begins again.
    fs::remove_file(&path).unwrap();
    drop(saved(&path, PackOptions::default(), weights(0..8)).unwrap());
    assert_eq!(use_all(&open(&path).unwrap(), weights(0..8)).unwrap(), 0);
}

#[test]
fn pack_that_grows_does_not_hide_that_it_was_cut() {
    for saved_before in [0, 3] {
        let (_directory, path) = place().unwrap();
        let pack = open(&path).unwrap();
        use_all(&pack, weights(0..saved_before)).unwrap();
        pack.save().unwrap();
        let committed = fs::metadata(&path).map_or(4096, |facts| facts.len());
        assert_eq!(use_all(&pack, weights(3..6)).unwrap(), 3);
        File::options().write(true).open(&path).unwrap().set_len(committed).unwrap();
        // More than a chunk: the file would grow.
        let mut reservation = pack.reserve(64 << 20).unwrap();
        reservation.bytes_mut().fill(1);
        Weight::number(7).wanted(|wanted| pack.insert(wanted, reservation));
        assert_eq!(pack.save(), Err(MissReason::Truncated));
        // Weights saved before are whole.
        assert_eq!(weights(0..3).filter(|weight| weight.find(&pack).is_ok()).count() as u32, saved_before);
        assert_eq!(weights(3..6).filter(|weight| weight.find(&pack).is_ok()).count(), 0);
        // The next save keeps what is left in the heap.
        assert_eq!(pack.save().unwrap().entries, 1);
        drop(pack);
        let pack = Pack::open(&path, PackOptions::default().with_checks(Checks::All)).unwrap();
        assert_eq!(pack.len() as u32, saved_before + 1);
        assert_eq!(use_all(&pack, weights(0..saved_before)).unwrap(), 0);
    }
}

#[test]
fn space_inserted_after_the_file_was_cut_is_not_saved() {
    let (_directory, path) = place().unwrap();
    drop(saved(&path, PackOptions::default(), weights(0..2)).unwrap());
    let pack = open(&path).unwrap();
    let mut reservation = pack.reserve(5000).unwrap();
    reservation.bytes_mut().fill(1);
    File::options().write(true).open(&path).unwrap().set_len(100).unwrap();
    assert_eq!(pack.save(), Err(MissReason::Truncated));
    Weight::number(7).wanted(|wanted| pack.insert(wanted, reservation));
    assert_eq!(pack.save(), Err(MissReason::Truncated));
    assert_eq!(pack.save().unwrap().entries, 0);
}

#[test]
fn space_of_a_replaced_file_that_was_cut_is_not_saved() {
    let (directory, path) = place().unwrap();
    let moved = directory.path().join("moved");
    let pack = open(&path).unwrap();
    let mut reservation = pack.reserve(5000).unwrap();
    reservation.bytes_mut().fill(1);
    Weight::number(1).pack(&pack).unwrap();
    fs::rename(&path, &moved).unwrap();
    assert_eq!(pack.save().unwrap().entries, 1);
    File::options().write(true).open(&moved).unwrap().set_len(100).unwrap();
    Weight::number(7).wanted(|wanted| pack.insert(wanted, reservation));
    assert_eq!(pack.save(), Err(MissReason::Truncated));
    assert!(Weight::number(7).wanted(|wanted| pack.look_up(wanted).is_err()));
    assert_eq!(Weight::number(1).find(&pack), Ok(()));
}

#[test]
fn cut_of_one_file_leaves_what_was_packed_into_another() {
    let (directory, path) = place().unwrap();
    let (moved, other) = (directory.path().join("moved"), directory.path().join("other"));
    drop(saved(&other, PackOptions::default(), weights(10..12)).unwrap());
    let pack = open(&path).unwrap();
    assert_eq!(use_all(&pack, weights(0..8)).unwrap(), 8);
    fs::rename(&path, &moved).unwrap();
    fs::rename(&other, &path).unwrap();
    pack.refresh();
    File::options().write(true).open(&path).unwrap().set_len(100).unwrap();
    assert_eq!(pack.save(), Err(MissReason::Truncated));
    assert_eq!(use_all(&pack, weights(0..8)).unwrap(), 0, "the file that they are in is whole");
    // Nor may another writer cut that file.
    assert!(matches!(compact(&moved, &RewriteOptions::default()), Err(PackError::Busy)));
    fs::remove_file(&path).unwrap();
    assert_eq!(pack.save().unwrap().entries, 8);
}

#[test]
#[cfg(target_os = "linux")]
fn reader_that_could_not_lock_at_first_does_at_refresh() {
    let (_directory, path) = place().unwrap();
    drop(saved(&path, PackOptions::default(), weights(0..2)).unwrap());
    let first_edition = File::open(&path).unwrap();
    first_edition.lock().unwrap();
    let pack = open(&path).unwrap();
    drop(first_edition);
    pack.refresh();
    assert!(matches!(executorch::initialize(&path).unwrap(), Opened::Nothing));
    assert_eq!(use_all(&pack, weights(0..2)).unwrap(), 0);
}

#[test]
#[cfg(target_os = "linux")]
fn replaced_files_do_not_stay_open() {
    let (directory, path) = place().unwrap();
    let other = directory.path().join("other");
    drop(saved(&path, PackOptions::default(), weights(0..2)).unwrap());
    let pack = open(&path).unwrap();
    let descriptors = || fs::read_dir("/proc/self/fd").unwrap().count();
    let before = descriptors();
    for _ in 0..50 {
        drop(saved(&other, PackOptions::default(), weights(0..2)).unwrap());
        fs::rename(&other, &path).unwrap();
        pack.refresh();
    }
    assert!(descriptors() < before + 25, "{before} descriptors, then {}", descriptors());
}

#[test]
fn open_with_other_options_is_refused_and_the_option_is_named() {
    let (_directory, path) = place().unwrap();
    let pack = open(&path).unwrap();
    for (options, name) in [
        (PackOptions::default().with_checks(Checks::All), "checks"),
        (PackOptions::default().with_prefetch(true), "prefetch"),
        (PackOptions::default().with_timeout(Duration::from_secs(1)), "timeout"),
        (PackOptions::default().with_read_only(true), "read_only"),
        (PackOptions::default().with_unverified(true), "unverified"),
    ] {
        let error = Pack::open(&path, options.clone()).unwrap_err();
        assert!(error.is_other_options() && error.to_string().contains(name), "{error}");
    }
    assert_eq!(open(&path).unwrap().path(), pack.path());
    drop(pack);
    assert!(Pack::open(&path, PackOptions::default().with_read_only(true)).is_ok());
}

#[test]
fn version_2_file_is_refused_and_convert_is_named() {
    let (_directory, path) = place().unwrap();
    drop(saved(&path, PackOptions::default(), weights(0..6)).unwrap());
    let version3 = fs::read(&path).unwrap();
    export(&path, &RewriteOptions::default()).unwrap();
    let error = open(&path).unwrap_err();
    assert!(error.is_wrong_kind() && error.to_string().contains("warmstart convert"), "{error}");

    // One that takes the place of an open pack is left alone.
    let version2 = fs::read(&path).unwrap();
    fs::write(&path, version3).unwrap();
    let pack = open(&path).unwrap();
    assert_eq!(pack.len(), 6);
    fs::remove_file(&path).unwrap();
    fs::write(&path, &version2).unwrap();
    pack.refresh();
    assert_eq!((pack.len(), pack.statistics().refusals.of(MissReason::OldVersion)), (0, 1));
    assert_eq!(use_all(&pack, weights(0..6)).unwrap(), 6);
    assert_eq!(pack.save(), Err(MissReason::OldVersion));
    assert_eq!(fs::read(&path).unwrap(), version2);
}

#[test]
fn file_written_over_in_place_is_read_again_as_another_one() {
    let (_directory, path) = place().unwrap();
    let other = path.with_extension("other");
    drop(saved(&path, PackOptions::default(), weights(0..8)).unwrap());
    drop(saved(&other, PackOptions::default(), weights(0..2)).unwrap());
    let short = fs::read(&other).unwrap();
    let pack = open(&path).unwrap();
    assert_eq!(pack.len(), 8);
    fs::write(&path, short).unwrap();
    pack.refresh();
    assert_eq!((pack.len(), pack.statistics().refusals.of(MissReason::Truncated)), (2, 1));
    // It is whole, and does not count as cut off from then on.
    pack.refresh();
    pack.save().unwrap();
    assert_eq!((pack.len(), pack.statistics().refusals.of(MissReason::Truncated)), (2, 1));
}

#[test]
#[cfg(target_os = "linux")]
fn second_writer_is_kept_out_while_readers_hold_the_file() {
    let (_directory, path) = place().unwrap();
    drop(saved(&path, PackOptions::default(), weights(0..2)).unwrap());
    let writer = open(&path).unwrap();
    assert_eq!(use_all(&writer, weights(0..4)).unwrap(), 2);
    let disk = LocalMapBackend::new();
    let other = disk.open(&path, Access::Write).unwrap();
    assert!(disk.lock(&other, Lock::Shared, Duration::ZERO).is_ok());
    let busy = disk.lock(&other, Lock::Writer, Duration::ZERO).unwrap_err();
    assert_eq!(busy.kind(), std::io::ErrorKind::WouldBlock);
    writer.save().unwrap();
    assert!(disk.lock(&other, Lock::Writer, Duration::ZERO).is_ok());
}

#[test]
fn file_that_is_something_else_now_is_not_handed_out() {
    let (directory, path) = place().unwrap();
    drop(saved(&path, PackOptions::default(), weights(0..3)).unwrap());
    let pack = open(&path).unwrap();
    let other = directory.path().join("other");
    fs::write(&other, b"#!/bin/sh\nexit 0\n").unwrap();
    fs::rename(&other, &path).unwrap();
    pack.refresh();
    assert_eq!(Weight::number(0).find(&pack), Err(MissReason::Absent));
    assert_eq!(pack.statistics().refusals.of(MissReason::Foreign), 1);
}
