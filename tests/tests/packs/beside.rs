//! A file that other programs open too: ExecuTorch, and those that cut files off.

use std::{fs, fs::File, io::Write};

use warmstart::{
    Reason,
    pack::{FileError, PackOptions, RewriteOptions, export, import, inspect},
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
    // What keeps ExecuTorch out keeps no writer of ours out.
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
fn a_file_that_executorch_writes_is_left_to_it() {
    let (_directory, path) = place().unwrap();
    let Opened::Writing(mut file) = executorch::initialize(&path).unwrap() else { panic!("it is new") };
    file.write_all(&[7; 10_000]).unwrap();
    let pack = saved(&path.with_extension("other"), PackOptions::default(), weights(0..2)).unwrap();
    assert_eq!(use_all(&pack, weights(0..2)).unwrap(), 0);
    assert!(open(&path).unwrap_err().is_wrong_kind());
    file.set_len(0).unwrap();
    let pack = open(&path).unwrap();
    assert_eq!(use_all(&pack, weights(0..2)).unwrap(), 2);
    assert_eq!(pack.save(), Err(Reason::Busy));
    assert_eq!(fs::metadata(&path).unwrap().len(), 0);
    drop(file);
    assert_eq!(pack.save().unwrap().entries, 2);
}

#[test]
fn a_file_is_converted_in_place_beside_readers_and_not_beside_a_writer() {
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
        assert!(matches!(error, FileError::Busy), "{error}");
        assert!(error.to_string().contains("another process writes"), "{error}");
    }
    assert_eq!((image(&path).unwrap(), names_in(directory.path()).unwrap().len()), (exported, 1));
    drop(writer);

    // ExecuTorch and we have it open, and read.
    let Opened::Loaded(_loaded) = executorch::initialize(&path).unwrap() else { panic!("it is whole") };
    let reader = open(&path).unwrap();
    if cfg!(target_os = "linux") {
        assert!(import(&path, &RewriteOptions::default()).unwrap().is_changed);
        assert_eq!(inspect(&path).unwrap().version, 3);
    }
    drop(reader);
}

#[test]
fn what_was_saved_in_a_file_that_is_cut_off_is_not_handed_out_any_more() {
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
                let _ = pack.save();
            } else {
                pack.refresh();
            }
            for weight in weights(0..8) {
                assert!(weight.find(&pack).is_err(), "{what}: {weight:?}");
            }
            assert!(pack.statistics().refusals.of(Reason::Truncated) > 0, "{what}");
            drop(pack);
            assert_eq!(image(&path).unwrap(), after, "{what}: what is there now is not ours to change");
        }
    }
}

#[test]
fn what_was_packed_into_a_file_that_is_cut_off_is_not_saved() {
    let (_directory, path) = place().unwrap();
    drop(saved(&path, PackOptions::default(), weights(0..3)).unwrap());
    let pack = open(&path).unwrap();
    assert_eq!(use_all(&pack, weights(0..8)).unwrap(), 5);
    File::options().write(true).open(&path).unwrap().set_len(100).unwrap();
    let after = image(&path).unwrap();
    assert_eq!(pack.save(), Err(Reason::Truncated));
    assert_eq!(weights(0..8).filter(|weight| weight.find(&pack).is_ok()).count(), 0);
    drop(pack);
    assert_eq!(image(&path).unwrap(), after);

    // With the file out of the way, all begins again.
    fs::remove_file(&path).unwrap();
    drop(saved(&path, PackOptions::default(), weights(0..8)).unwrap());
    assert_eq!(use_all(&open(&path).unwrap(), weights(0..8)).unwrap(), 0);
}

#[test]
fn a_file_that_is_something_else_now_is_not_handed_out_any_more() {
    let (directory, path) = place().unwrap();
    drop(saved(&path, PackOptions::default(), weights(0..3)).unwrap());
    let pack = open(&path).unwrap();
    let other = directory.path().join("other");
    fs::write(&other, b"#!/bin/sh\nexit 0\n").unwrap();
    fs::rename(&other, &path).unwrap();
    pack.refresh();
    assert_eq!(Weight::number(0).find(&pack), Err(Reason::Absent));
    assert_eq!(pack.statistics().refusals.of(Reason::Foreign), 1);
}
