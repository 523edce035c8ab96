//! Files of packed weights: what is saved is found, whatever happened.

use std::{
    fs::{self, File, OpenOptions},
    io::Write,
    path::Path,
    sync::Arc,
    thread,
    time::Duration,
};

use warmstart::{
    MissReason,
    pack::{Checks, Pack, PackOptions},
};
use warmstart_tests::{
    map_backend::{DyingBackend, Poor},
    packed::{Weight, image, open, place, saved, use_all, weights},
};

#[test]
fn what_was_saved_is_found_by_the_next_that_opens() {
    let (_directory, path) = place().unwrap();
    for options in [
        PackOptions::default(),
        PackOptions::default().with_checks(Checks::FirstUse),
        PackOptions::default().with_checks(Checks::All),
        PackOptions::default().with_prefetch(true),
    ] {
        let pack = saved(&path, options.clone(), weights(0..40)).unwrap();
        drop(pack);
        let pack = Pack::open(&path, options).unwrap();
        assert_eq!((pack.len(), use_all(&pack, weights(0..40)).unwrap()), (40, 0));
        let statistics = pack.statistics();
        assert_eq!((statistics.hits, statistics.reservations), (40, 0));
    }
}

#[test]
fn without_mappings_all_is_the_same() {
    let (_directory, path) = place().unwrap();
    let poor = || PackOptions::default().with_backend(Arc::new(Poor::without_mappings()));
    drop(saved(&path, poor(), weights(0..20)).unwrap());
    let pack = Pack::open(&path, poor()).unwrap();
    assert_eq!(use_all(&pack, weights(0..30)).unwrap(), 10);
    assert_eq!(pack.save().unwrap().entries, 10);
    drop(pack);
    assert_eq!(use_all(&open(&path).unwrap(), weights(0..30)).unwrap(), 0);
}

#[test]
fn two_handles_on_one_path_share_one_pack_and_others_none() {
    let (directory, path) = place().unwrap();
    let (one, other) = (open(&path).unwrap(), open(&directory.path().join("other.xpwc")).unwrap());
    Weight::number(1).pack(&one).unwrap();
    assert_eq!(Weight::number(1).find(&open(&path).unwrap()), Ok(()));
    assert_eq!(Weight::number(1).find(&other), Err(MissReason::Absent));
    assert_eq!(Weight::number(1).find(&Pack::in_memory()), Err(MissReason::Absent));
}

#[test]
fn opening_and_closing_changes_no_byte_and_no_time() {
    let (_directory, path) = place().unwrap();
    drop(saved(&path, PackOptions::default(), weights(0..30)).unwrap());
    let before = image(&path).unwrap();
    for _ in 0..10 {
        let pack = open(&path).unwrap();
        assert_eq!(use_all(&pack, weights(0..30)).unwrap(), 0);
        pack.finalize();
        assert_eq!(pack.save().unwrap().entries, 0);
        drop(pack);
        assert_eq!(image(&path).unwrap(), before);
    }
}

#[test]
fn a_save_without_anything_new_writes_nothing() {
    let (_directory, path) = place().unwrap();
    let pack = saved(&path, PackOptions::default(), weights(0..30)).unwrap();
    let before = image(&path).unwrap();
    assert_eq!(use_all(&pack, weights(0..30)).unwrap(), 0);
    pack.finalize();
    assert_eq!(pack.save().unwrap(), warmstart::pack::Saved::default());
    assert_eq!(image(&path).unwrap(), before);
    assert_eq!(pack.statistics().empty_saves, 1);
}

#[test]
fn what_was_not_saved_leaves_nothing_behind() {
    let (_directory, path) = place().unwrap();
    drop(saved(&path, PackOptions::default(), weights(0..5)).unwrap());
    let before = fs::read(&path).unwrap();
    let pack = open(&path).unwrap();
    use_all(&pack, weights(5..10)).unwrap();
    drop(pack);
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[test]
fn models_and_packings_share_a_file_and_each_finds_its_own() {
    let (_directory, path) = place().unwrap();
    let one = Weight::number(3);
    let others = [
        (Weight { model: 2, ..one }, MissReason::OtherModel),
        (Weight { seed: 8, ..one }, MissReason::OtherSeed),
        (Weight { fingerprint: 10, ..one }, MissReason::OtherFingerprint),
    ];
    drop(saved(&path, PackOptions::default(), [one]).unwrap());
    for (other, reason) in others {
        let pack = open(&path).unwrap();
        assert_eq!(other.find(&pack), Err(reason));
        assert_eq!(pack.statistics().misses.of(reason), 1);
        other.pack(&pack).unwrap();
        pack.save().unwrap();
    }
    let pack = open(&path).unwrap();
    for (weight, _) in [(one, MissReason::Absent)].into_iter().chain(others) {
        assert_eq!(weight.find(&pack), Ok(()));
    }
}

#[test]
fn of_many_packings_of_a_weight_the_newest_stay() {
    let (_directory, path) = place().unwrap();
    let packing = |seed| Weight { seed, ..Weight::number(3) };
    for seed in 0..9 {
        let pack = open(&path).unwrap();
        packing(seed).pack(&pack).unwrap();
        pack.save().unwrap();
    }
    let pack = open(&path).unwrap();
    let found: Vec<u32> = (0..9).filter(|seed| packing(*seed).find(&pack).is_ok()).collect();
    assert_eq!(found, [5, 6, 7, 8]);
}

#[test]
fn a_full_disk_sends_weights_to_the_heap_and_is_counted() {
    let (_directory, path) = place().unwrap();
    let full = PackOptions::default().with_backend(Arc::new(Poor::with_room(100_000)));
    let pack = Pack::open(&path, full).unwrap();
    use_all(&pack, weights(0..10)).unwrap();
    assert!(pack.statistics().heap_entries > 0 && pack.statistics().refusals.of(MissReason::NoSpace) > 0);
    assert_eq!(use_all(&pack, weights(0..10)).unwrap(), 0);
    // Weights that fit are saved.
    let saved = pack.save().unwrap();
    let kept = saved.entries;
    assert!((1..10).contains(&kept) && kept + saved.left == 10, "{saved:?}");
    drop(pack);
    assert_eq!(use_all(&open(&path).unwrap(), weights(0..10)).unwrap(), 10 - kept);
}

#[test]
fn saved_weights_are_found_after_a_death_at_any_call() {
    for (before, after) in [(0, 6), (6, 12)] {
        for deadly in 1.. {
            let (_directory, path) = place().unwrap();
            if before > 0 {
                drop(saved(&path, PackOptions::default(), weights(0..before)).unwrap());
            }
            let disk = Arc::new(DyingBackend::after(deadly));
            let options = PackOptions::default().with_backend(disk.clone());
            if let Ok(pack) = Pack::open(&path, options) {
                use_all(&pack, weights(before..after)).unwrap();
                pack.finalize();
                let _ = pack.save();
                // A process that dies drops nothing, and its locks are gone.
                drop(pack);
            }
            let pack = Pack::open(&path, PackOptions::default().with_checks(Checks::All)).unwrap();
            assert_eq!(use_all(&pack, weights(0..before)).unwrap(), 0, "at operation {deadly}");
            let lost = use_all(&pack, weights(before..after)).unwrap();
            assert!(lost == 0 || lost == (after - before) as usize, "at operation {deadly}: {lost}");
            pack.save().unwrap();
            drop(pack);
            assert_eq!(
                use_all(&open(&path).unwrap(), weights(0..after)).unwrap(),
                0,
                "at operation {deadly}"
            );
            if !disk.is_dead() {
                assert!(deadly > 20, "{deadly}");
                break;
            }
        }
    }
}

/// Writes a file for its owner only, as a loss of power left it.
fn write(path: &Path, bytes: &[u8]) {
    fs::write(path, bytes).unwrap();
    #[cfg(unix)]
    fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
}

/// A disk that loses power has what was synced, and of what was written since, one sector, or all but one.
#[test]
fn saved_weights_survive_the_loss_of_any_sectors() {
    let (directory, path) = place().unwrap();
    drop(saved(&path, PackOptions::default(), weights(0..3)).unwrap());
    let disk = Arc::new(DyingBackend::watching(&path).unwrap());
    let pack = Pack::open(&path, PackOptions::default().with_backend(disk.clone())).unwrap();
    let (mut states, mut saved_before) = (0, 3);
    for until in [7, 9] {
        use_all(&pack, weights(5..until)).unwrap();
        pack.save().unwrap();
        for moment in disk.take_moments() {
            moment.after_losses(|bytes| {
                let after = directory.path().join(format!("after {states}"));
                states += 1;
                write(&after, bytes);
                let pack = open(&after).unwrap();
                for weight in weights(0..3).chain(weights(5..saved_before.max(5))) {
                    assert_eq!(weight.find(&pack), Ok(()), "{weight:?} is lost in state {states}");
                }
                // Unsaved weights are found as they were packed, or not at all.
                for weight in weights(saved_before.max(5)..until) {
                    let _ = weight.find(&pack);
                }
                drop(pack);
                fs::remove_file(after).unwrap();
            });
        }
        saved_before = until;
    }
    assert!(states > 100, "{states}");
}

/// Its header is on the medium before anything else: without that, what is left could not be told from a file of another program.
#[test]
fn new_pack_can_be_used_after_the_loss_of_any_sectors() {
    let (directory, path) = place().unwrap();
    let disk = Arc::new(DyingBackend::watching(&path).unwrap());
    drop(saved(&path, PackOptions::default().with_backend(disk.clone()), weights(0..3)).unwrap());
    let moments = disk.take_moments();
    assert!(moments.last().unwrap().is_named, "the file is saved, and its name is not");
    let mut states = 0;
    for moment in moments {
        moment.after_losses(|bytes| {
            let after = directory.path().join(format!("after {states}"));
            states += 1;
            write(&after, bytes);
            drop(saved(&after, PackOptions::default(), weights(0..3)).unwrap());
            assert_eq!(use_all(&open(&after).unwrap(), weights(0..3)).unwrap(), 0, "state {states}");
            fs::remove_file(after).unwrap();
        });
    }
    assert!(states > 10, "{states}");
}

#[test]
fn damaged_index_falls_back_and_the_next_save_repairs_it() {
    let (_directory, path) = place().unwrap();
    drop(saved(&path, PackOptions::default(), weights(0..5)).unwrap());
    drop(saved(&path, PackOptions::default(), weights(5..9)).unwrap());
    let mut bytes = fs::read(&path).unwrap();
    let last = bytes.len() - 30;
    bytes[last] ^= 1;
    fs::write(&path, &bytes).unwrap();
    let pack = open(&path).unwrap();
    assert!(pack.refusal().is_some());
    assert_eq!(use_all(&pack, weights(0..9)).unwrap(), 4);
    pack.save().unwrap();
    assert_eq!(pack.refusal(), None);
    drop(pack);
    assert_eq!(use_all(&open(&path).unwrap(), weights(0..9)).unwrap(), 0);
}

/// Its payloads may be all that is left of what was saved.
#[test]
fn a_pack_without_a_whole_index_is_refused_and_left_as_it_is() {
    for slots_are_damaged in [false, true] {
        let (_directory, path) = place().unwrap();
        drop(saved(&path, PackOptions::default(), weights(0..5)).unwrap());
        drop(saved(&path, PackOptions::default(), weights(5..9)).unwrap());
        let mut bytes = fs::read(&path).unwrap();
        for slot in [512, 1024] {
            let index_start = u64::from_le_bytes(bytes[slot + 8..slot + 16].try_into().unwrap());
            let at = if slots_are_damaged { slot } else { usize::try_from(index_start).unwrap() };
            bytes[at] ^= 1;
        }
        fs::write(&path, &bytes).unwrap();
        let pack = open(&path).unwrap();
        assert!(pack.refusal().is_some());
        assert_eq!(use_all(&pack, weights(0..9)).unwrap(), 9);
        pack.save().unwrap_err();
        assert_eq!(use_all(&pack, weights(0..9)).unwrap(), 0, "what is in the heap is found");
        drop(pack);
        assert!(fs::read(&path).unwrap() == bytes, "the file changed");
    }
}

#[test]
fn a_damaged_payload_is_a_miss_and_packed_again() {
    let (_directory, path) = place().unwrap();
    drop(saved(&path, PackOptions::default(), weights(0..5)).unwrap());
    let mut bytes = fs::read(&path).unwrap();
    bytes[4096] ^= 1;
    fs::write(&path, &bytes).unwrap();
    for checks in [Checks::FirstUse, Checks::All] {
        fs::write(&path, &bytes).unwrap();
        let pack = Pack::open(&path, PackOptions::default().with_checks(checks)).unwrap();
        assert_eq!(Weight::number(0).find(&pack), Err(MissReason::ChecksumMismatch));
        assert_eq!(use_all(&pack, weights(0..5)).unwrap(), 1);
        pack.save().unwrap();
        drop(pack);
        let pack = Pack::open(&path, PackOptions::default().with_checks(checks)).unwrap();
        assert_eq!(use_all(&pack, weights(0..5)).unwrap(), 0);
    }
}

#[test]
fn what_a_dead_writer_left_behind_is_cut_off() {
    let (_directory, path) = place().unwrap();
    drop(saved(&path, PackOptions::default(), weights(0..3)).unwrap());
    let control = path.with_extension("control");
    fs::copy(&path, &control).unwrap();
    OpenOptions::new().append(true).open(&path).unwrap().write_all(&vec![0xff; 1 << 20]).unwrap();
    for path in [&path, &control] {
        let pack = open(path).unwrap();
        assert!(pack.reserve(10_000).unwrap().bytes_mut().iter().all(|byte| *byte == 0));
        assert_eq!(use_all(&pack, weights(0..6)).unwrap(), 3);
        pack.save().unwrap();
    }
    let len = |path| fs::metadata(path).unwrap().len();
    assert_eq!(len(&path), len(&control));
}

/// Compaction replaces a file while writers wait for its lock.
#[test]
fn writer_that_waited_saves_to_the_file_that_replaced_the_old() {
    let (_directory, path) = place().unwrap();
    let new = path.with_extension("new");
    for path in [&path, &new] {
        drop(saved(path, PackOptions::default(), weights(0..3)).unwrap());
    }
    let held = File::open(&path).unwrap();
    held.lock().unwrap();
    let pack = Pack::open(&path, PackOptions::default().with_timeout(Duration::from_secs(2))).unwrap();
    // It waits in vain, and packs into the heap: so the save is what takes the lock.
    assert_eq!(use_all(&pack, weights(0..5)).unwrap(), 2);
    thread::scope(|scope| {
        let saving = scope.spawn(|| pack.save());
        thread::sleep(Duration::from_millis(200));
        fs::rename(&new, &path).unwrap();
        drop(held);
        assert_eq!(saving.join().unwrap().unwrap().entries, 2);
    });
    drop(pack);
    assert_eq!(use_all(&open(&path).unwrap(), weights(0..5)).unwrap(), 0);
}

#[test]
fn what_is_no_pack_is_left_alone() {
    let (directory, path) = place().unwrap();
    for foreign in [&b"x"[..], b"#!/bin/sh\nexit 0\n", &[7; 10_000], &[0; 10_000]] {
        fs::write(&path, foreign).unwrap();
        assert!(Pack::open(&path, PackOptions::default()).unwrap_err().is_wrong_kind());
        assert_eq!(fs::read(&path).unwrap(), foreign);
    }
    assert!(Pack::open(directory.path(), PackOptions::default()).unwrap_err().is_wrong_kind());
}

#[test]
fn file_replaced_under_a_mapping_leaves_readers_their_bytes() {
    let (directory, path) = place().unwrap();
    let other = directory.path().join("other.xpwc");
    drop(saved(&path, PackOptions::default(), weights(0..5)).unwrap());
    drop(saved(&other, PackOptions::default(), weights(3..8)).unwrap());
    let pack = open(&path).unwrap();
    let held = Weight::number(0).wanted(|wanted| pack.look_up(wanted)).unwrap();
    fs::rename(&other, &path).unwrap();
    pack.refresh();
    assert_eq!(use_all(&pack, weights(3..8)).unwrap(), 0);
    assert_eq!(held[..], [Weight::number(0).byte(0)]);
    // Weights packed now go to the present file.
    assert_eq!(use_all(&pack, weights(0..8)).unwrap(), 3);
    pack.save().unwrap();
    drop(pack);
    assert_eq!(use_all(&open(&path).unwrap(), weights(0..8)).unwrap(), 0);
}

#[test]
fn writer_whose_wait_times_out_packs_into_heap_and_saves_later() {
    let (_directory, path) = place().unwrap();
    drop(saved(&path, PackOptions::default(), weights(0..5)).unwrap());
    let holder = fs::File::options().read(true).write(true).open(&path).unwrap();
    holder.lock().unwrap();
    let pack = Pack::open(&path, PackOptions::default().with_timeout(Duration::from_millis(20))).unwrap();
    assert_eq!(use_all(&pack, weights(0..8)).unwrap(), 3);
    assert_eq!(pack.statistics().refusals.of(MissReason::Busy), 3);
    assert_eq!(pack.save(), Err(MissReason::Busy));
    drop(holder);
    assert_eq!(pack.save().unwrap().entries, 3);
    drop(pack);
    assert_eq!(use_all(&open(&path).unwrap(), weights(0..8)).unwrap(), 0);
}
