//! Files of packed weights under attack: what fails once, what is swapped, what runs at the same time. Above all, no reader gets
//! bytes that are not the weight's, and none is cut off from bytes that it has an address of.

use std::{
    fmt,
    fs::{self, File},
    io,
    ops::Range,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use tempfile::TempDir;
use warmstart::{
    MissReason,
    os::{Access, FileMetadata, LocalMapBackend, Lock, MapBackend, Mapping},
    pack::{Checks, Pack, PackOptions, RewriteOptions, compact, export},
};
use warmstart_core::trailer::{Commits, FOOTER_LEN, Slot};
use warmstart_tests::{
    map_backend::Poor,
    own_process,
    packed::{Weight, saved, use_all},
};

/// A disk on which an operation fails when it is told to.
struct Failing {
    disk: LocalMapBackend,
    /// Whether an operation of this name fails.
    fails: Box<dyn Fn(&str) -> bool + Send + Sync>,
}

impl Failing {
    fn when(fails: impl Fn(&str) -> bool + Send + Sync + 'static) -> PackOptions {
        let disk = Self { disk: LocalMapBackend::new(), fails: Box::new(fails) };
        PackOptions::default().with_backend(Arc::new(disk))
    }

    /// A disk on which the next of these operations fails once the flag is set.
    fn once(operation: &'static str) -> (Arc<AtomicBool>, PackOptions) {
        let flag = Arc::new(AtomicBool::new(false));
        let armed = Arc::clone(&flag);
        (flag, Self::when(move |done| done == operation && armed.swap(false, Ordering::SeqCst)))
    }

    fn may(&self, operation: &str) -> io::Result<()> {
        if (self.fails)(operation) { Err(io::Error::other(format!("{operation} fails"))) } else { Ok(()) }
    }
}

impl fmt::Debug for Failing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Failing")
    }
}

impl MapBackend for Failing {
    fn open(&self, path: &Path, access: Access) -> io::Result<File> {
        self.disk.open(path, access)
    }

    fn open_to_write(&self, path: &Path) -> io::Result<File> {
        self.disk.open_to_write(path)
    }

    fn create(&self, path: &Path) -> io::Result<File> {
        self.disk.create(path)
    }

    fn metadata(&self, file: &File) -> io::Result<FileMetadata> {
        self.disk.metadata(file)
    }

    fn metadata_at(&self, path: &Path) -> io::Result<FileMetadata> {
        self.may("metadata_at")?;
        self.disk.metadata_at(path)
    }

    fn lock(&self, file: &File, lock: Lock, timeout: Duration) -> io::Result<()> {
        self.disk.lock(file, lock, timeout)
    }

    fn unlock(&self, file: &File) {
        self.disk.unlock(file);
    }

    fn hold(&self, file: &File) -> bool {
        self.disk.hold(file)
    }

    fn allocate(&self, file: &File, range: Range<u64>) -> io::Result<()> {
        self.may("allocate")?;
        self.disk.allocate(file, range)
    }

    fn map(&self, file: &File, range: Range<u64>, access: Access) -> io::Result<Mapping> {
        self.may("map")?;
        self.disk.map(file, range, access)
    }

    fn read_at(&self, file: &File, at: u64, into: &mut [u8]) -> io::Result<()> {
        self.may("read_at")?;
        self.disk.read_at(file, at, into)
    }

    fn write_at(&self, file: &File, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.may("write_at")?;
        if self.may("spoil").is_err() {
            let mut other = bytes.to_vec();
            other[bytes.len() / 2] ^= 1;
            return self.disk.write_at(file, at, &other);
        }
        if let Err(error) = self.may("half") {
            self.disk.write_at(file, at, &bytes[..bytes.len() / 2])?;
            return Err(error);
        }
        self.disk.write_at(file, at, bytes)
    }

    fn start_write_back(&self, file: &File, range: Range<u64>) {
        self.disk.start_write_back(file, range);
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        self.may("sync")?;
        self.disk.sync(file)
    }

    fn set_len(&self, file: &File, len: u64) -> io::Result<()> {
        self.disk.set_len(file, len)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.disk.remove(path)
    }
}

fn place() -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().expect("a directory can be made");
    let path = directory.path().join("weights.xpwc");
    (directory, path)
}

fn weights(numbers: Range<u32>) -> impl Iterator<Item = Weight> + Clone {
    numbers.map(Weight::number)
}

fn open(path: &Path) -> Pack {
    Pack::open(path, PackOptions::default()).expect("it is a pack or nothing")
}

/// Another pack on the same file, as another process has.
fn beside(path: &Path, options: PackOptions) -> (PathBuf, Pack) {
    let other = path.with_extension("linked");
    let _ = fs::remove_file(&other);
    fs::hard_link(path, &other).expect("it can be done");
    let pack = Pack::open(&other, options).expect("it can be done");
    (other, pack)
}

/// Asserts that all of these are found, whole, when the file is opened next.
fn assert_saved(path: &Path, all: impl IntoIterator<Item = Weight>) {
    let copy = path.with_extension("copy");
    fs::copy(path, &copy).expect("it can be done");
    let pack = Pack::open(&copy, PackOptions::default().with_checks(Checks::All)).expect("it can be done");
    assert_eq!(pack.refusal(), None);
    for weight in all {
        assert_eq!(weight.find(&pack), Ok(()), "{weight:?}");
    }
    drop(pack);
    fs::remove_file(copy).expect("it can be done");
}

#[test]
fn rest_of_a_chunk_is_not_given_out_after_the_next_did_not_fit() {
    let (_directory, path) = place();
    let poor = PackOptions::default().with_backend(Arc::new(Poor::with_room(5 << 20)));
    let pack = Pack::open(&path, poor).unwrap();
    Weight::number(1).pack(&pack).unwrap();
    let large = pack.reserve(10 << 20).unwrap();
    assert_eq!(pack.statistics().heap_entries, 1);
    let mut small = pack.reserve(1 << 20).unwrap();
    if pack.statistics().heap_entries == 1 {
        // It is in the file. Where the file ends, touching it would kill this process.
        assert!(
            fs::metadata(&path).unwrap().len() >= 4096 + (1 << 20),
            "the reservation is behind the end of the file"
        );
    }
    small.bytes_mut().fill(1);
    drop((large, small));
    pack.save().unwrap();
    assert_saved(&path, weights(1..2));
}

/// With the number of the call of `operation` that fails, counted from when the first weight is in the file.
fn save_that_fails_at(operation: &'static str, number: usize) {
    let (_directory, path) = place();
    let counts = Arc::new(AtomicUsize::new(usize::MAX));
    let count = Arc::clone(&counts);
    let options = Failing::when(move |done| {
        done == operation && {
            let left = count.load(Ordering::SeqCst);
            if left != usize::MAX {
                count.store(left.wrapping_sub(1), Ordering::SeqCst);
            }
            left == 0
        }
    });
    let pack = Pack::open(&path, options).expect("it can be done");
    use_all(&pack, weights(0..4)).expect("it can be done");
    counts.store(number, Ordering::SeqCst);
    let done = pack.save();
    counts.store(usize::MAX, Ordering::SeqCst);
    let (_, reader) = beside(&path, PackOptions::default());
    let found: Vec<Weight> = weights(0..4).filter(|weight| weight.find(&reader).is_ok()).collect();
    if done.is_ok() {
        assert_eq!(found.len(), 4);
    }
    let heap = pack.statistics().heap_entries;
    let mut reservation = pack.reserve(1 << 20).expect("it can be done");
    if pack.statistics().heap_entries == heap {
        let len = fs::metadata(&path).expect("it can be done").len();
        assert!(len >= 4096 + (1 << 20), "the reservation is behind the end of the file: {len}");
    }
    reservation.bytes_mut().fill(0xff);
    for weight in &found {
        assert_eq!(weight.find(&reader), Ok(()), "{weight:?} was found, and the index was written over");
    }
    drop(reservation);
    use_all(&pack, weights(4..9)).expect("it can be done");
    pack.save().expect("it can be done");
    assert_saved(&path, weights(0..9));
    for weight in weights(0..9) {
        assert_eq!(weight.find(&pack), Ok(()));
    }
    for weight in found {
        assert_eq!(weight.find(&reader), Ok(()));
    }
}

#[test]
fn a_save_that_fails_leaves_spaces_and_indexes_that_can_be_used() {
    for number in 0..2 {
        save_that_fails_at("sync", number);
        save_that_fails_at("write_at", number);
    }
    save_that_fails_at("allocate", 0);
}

#[test]
fn a_copy_of_a_file_in_its_place_is_another_file() {
    let (directory, path) = place();
    let backup = directory.path().join("backup");
    let same_size = |number| Weight { seed: number, ..Weight::number(1) };
    let pack = saved(&path, PackOptions::default(), [Weight::number(0)]).unwrap();
    fs::copy(&path, &backup).unwrap();
    same_size(100).pack(&pack).unwrap();
    pack.save().unwrap();
    // The backup is put back, and another process goes on from there.
    fs::rename(&backup, &path).unwrap();
    let (_, other) = beside(&path, PackOptions::default());
    same_size(200).pack(&other).unwrap();
    other.save().unwrap();
    pack.refresh();
    assert_eq!(same_size(200).find(&pack), Ok(()));
    assert_eq!(Weight::number(0).find(&pack), Ok(()));
}

#[test]
fn packed_weights_are_saved_into_the_copy_that_replaced_a_file() {
    let (directory, path) = place();
    let backup = directory.path().join("backup");
    let same_size = |number| Weight { seed: number, ..Weight::number(1) };
    let pack = saved(&path, PackOptions::default(), [Weight::number(0)]).unwrap();
    fs::copy(&path, &backup).unwrap();
    same_size(100).pack(&pack).unwrap();
    fs::rename(&backup, &path).unwrap();
    {
        let (_, other) = beside(&path, PackOptions::default());
        let gap = other.reserve(4096).unwrap();
        same_size(200).pack(&other).unwrap();
        other.save().unwrap();
        drop(gap);
    }
    pack.save().unwrap();
    assert_saved(&path, [Weight::number(0), same_size(100), same_size(200)]);
    assert_eq!(same_size(200).find(&pack), Ok(()));
    assert_eq!(same_size(100).find(&pack), Ok(()));
}

/// Packs into a reservation made before a save, after a reader without mappings has read the file as `save` left it. What
/// the reader finds must not be the reservation as it was then: that would be a wrong hit.
fn pack_into_a_space_that_was_read(options: PackOptions, save: impl FnOnce(&Pack)) {
    let (_directory, path) = place();
    let late = Weight { seed: 99, ..Weight::number(1) };
    let pack = Pack::open(&path, options).unwrap();
    let mut reservation = pack.reserve(late.size()).unwrap();
    Weight::number(0).pack(&pack).unwrap();
    save(&pack);
    let poor = PackOptions::default().with_backend(Arc::new(Poor::without_mappings()));
    let (_, reader) = beside(&path, poor);
    assert_eq!(Weight::number(0).find(&reader), Ok(()));
    reservation.bytes_mut().iter_mut().enumerate().for_each(|(at, byte)| *byte = late.byte(at));
    late.wanted(|wanted| {
        pack.insert(wanted, reservation);
    });
    pack.save().unwrap();
    reader.refresh();
    assert_eq!(late.find(&reader), Ok(()));
    assert_saved(&path, [late, Weight::number(0)]);
}

#[test]
fn reader_finds_weights_reserved_before_and_packed_after() {
    pack_into_a_space_that_was_read(PackOptions::default(), |pack| _ = pack.save().unwrap());
}

#[test]
fn a_space_that_a_failed_commit_passed_is_saved_elsewhere() {
    // The second sync of a commit is the one after its slot: the slot counts, although the writer does not know.
    let syncs = Arc::new(AtomicUsize::new(usize::MAX));
    let left = Arc::clone(&syncs);
    let options = Failing::when(move |done| {
        done == "sync"
            && left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)) == Ok(1)
    });
    pack_into_a_space_that_was_read(options, |pack| {
        syncs.store(2, Ordering::SeqCst);
        pack.save().unwrap_err();
    });
}

#[test]
fn index_refused_once_is_kept_when_it_is_whole_again() {
    let (_directory, path) = place();
    drop(saved(&path, PackOptions::default(), weights(0..2)).unwrap());
    let whole = fs::read(&path).unwrap();
    let flip = |is_damaged: bool| {
        let at = whole.len() - FOOTER_LEN - 1;
        let byte = [whole[at] ^ u8::from(is_damaged)];
        fs::OpenOptions::new().write(true).open(&path).unwrap().write_all_at(&byte, at as u64).unwrap();
    };
    flip(true);
    let pack = open(&path);
    assert!(pack.refusal().is_some());
    Weight::number(2).pack(&pack).unwrap();
    // Nothing is saved over what may be all that is left.
    assert_eq!(pack.save(), Err(MissReason::ChecksumMismatch));
    flip(false);
    pack.save().unwrap();
    assert_saved(&path, weights(0..3));
}

#[test]
fn index_that_ends_otherwise_is_refused_without_an_error() {
    let (_directory, path) = place();
    drop(saved(&path, PackOptions::default(), weights(0..2)).unwrap());
    let mut bytes = fs::read(&path).unwrap();
    let commits = Commits::read(&bytes).unwrap();
    let (place, slot) = commits.iter().next().unwrap();
    let end = usize::try_from(slot.end()).unwrap();
    bytes[end - FOOTER_LEN + 12..][..4].fill(7);
    let block = &bytes[usize::try_from(slot.index_start).unwrap()..end];
    let slot = Slot::of(slot.generation, slot.index_start, block).encode(&commits.header().file);
    bytes[usize::try_from(place.offset()).unwrap()..][..slot.len()].copy_from_slice(&slot);
    fs::write(&path, bytes).unwrap();
    let pack = open(&path);
    assert!(pack.refusal().is_some());
    assert!(Weight::number(0).find(&pack).is_err());
}

#[test]
fn a_weight_of_no_bytes_does_not_vouch_for_the_one_beside_it() {
    let (_directory, path) = place();
    let pack = open(&path);
    let nothing = Weight { seed: 3, ..Weight::number(1) };
    nothing.wanted(|wanted| {
        pack.insert(wanted, pack.reserve(0).unwrap());
    });
    Weight::number(1).pack(&pack).unwrap();
    // Something to compact.
    Weight { model: 2, ..Weight::number(0) }.pack(&pack).unwrap();
    pack.save().unwrap();
    drop(pack);
    let model = warmstart::pack::ModelId::from_bytes([1; 32]);
    assert!(compact(&path, &RewriteOptions::default().with_models([model])).unwrap().is_changed);
    let inspection = warmstart::pack::inspect(&path).unwrap();
    let at = inspection.entries.iter().find(|entry| entry.size > 0).unwrap().offset;
    let mut bytes = fs::read(&path).unwrap();
    bytes[usize::try_from(at).unwrap() + 5] ^= 1;
    fs::write(&path, bytes).unwrap();
    let pack = Pack::open(&path, PackOptions::default().with_checks(Checks::FirstUse)).unwrap();
    nothing.wanted(|wanted| assert_eq!(pack.look_up(wanted).map(|weights| weights.len()), Ok(0)));
    assert_eq!(Weight::number(1).find(&pack), Err(warmstart::MissReason::ChecksumMismatch));
}

#[test]
fn who_waited_in_vain_once_does_not_wait_for_every_weight() {
    let (_directory, path) = place();
    let writer = open(&path);
    let held = writer.reserve(100).unwrap();
    let patient = PackOptions::default().with_timeout(Duration::from_millis(200));
    let (_, pack) = beside(&path, patient);
    let begin = Instant::now();
    use_all(&pack, weights(0..20)).unwrap();
    assert!(begin.elapsed() < Duration::from_secs(1), "waited {:?}", begin.elapsed());
    drop(held);
    drop(writer);
    pack.save().unwrap();
    assert_saved(&path, weights(0..20));
}

#[test]
fn file_in_use_whose_metadata_fails_once_is_not_cut() {
    let (_directory, path) = place();
    let (armed, options) = Failing::once("metadata_at");
    let pack = Pack::open(&path, options).unwrap();
    use_all(&pack, weights(0..9)).unwrap();
    armed.store(true, Ordering::SeqCst);
    // Whether this is done or refused, nothing that has an address may go: to touch it would kill this process.
    let _ = pack.save();
    for weight in weights(0..9) {
        assert_eq!(weight.find(&pack), Ok(()));
    }
    pack.save().unwrap();
    assert_saved(&path, weights(0..9));
}

#[test]
fn file_in_use_that_was_moved_away_and_back_is_not_cut() {
    let (directory, path) = place();
    let away = directory.path().join("away");
    let pack = open(&path);
    let first = Weight::number(4);
    first.pack(&pack).unwrap();
    let kept = first.wanted(|wanted| pack.look_up(wanted)).unwrap();
    fs::rename(&path, &away).unwrap();
    pack.save().unwrap();
    // Another process opens what was moved away, and would cut what was not saved.
    {
        let other = open(&away);
        Weight::number(0).pack(&other).unwrap();
        let _ = other.save();
        assert!(
            fs::metadata(&away).unwrap().len() >= 4096 + first.size() as u64,
            "bytes in use were cut off"
        );
    }
    fs::rename(&away, &path).unwrap();
    Weight::number(2).pack(&pack).unwrap();
    let _ = pack.save();
    assert!(fs::metadata(&path).unwrap().len() >= 4096 + first.size() as u64, "bytes in use were cut off");
    assert!(kept.iter().enumerate().all(|(at, byte)| *byte == first.byte(at)));
}

/// Reservations before the committed part are dropped, while others behind it are in use.
#[test]
fn file_in_use_is_not_cut_if_older_spaces_are_released() {
    let (directory, path) = place();
    let away = directory.path().join("away");
    let pack = open(&path);
    let older: Vec<_> = (0..3).map(|_| pack.reserve(100).unwrap()).collect();
    Weight::number(1).pack(&pack).unwrap();
    pack.save().unwrap();
    let mut used = pack.reserve(50_000).unwrap();
    Weight::number(2).pack(&pack).unwrap();
    let end = fs::metadata(&path).unwrap().len();
    drop(older);
    fs::rename(&path, &away).unwrap();
    pack.save().unwrap();
    let other = open(&away);
    Weight::number(0).pack(&other).unwrap();
    assert_eq!(other.save(), Err(MissReason::Busy));
    assert_eq!(fs::metadata(&away).unwrap().len(), end, "bytes in use were cut off");
    used.bytes_mut().fill(1);
    drop((used, pack));
    assert!(fs::metadata(&away).unwrap().len() < end, "what was not saved is left behind");
}

/// Bytes that were handed out and that no save needs: they are packed again, and then as they are saved already.
#[test]
fn bytes_handed_out_are_not_cut_if_nothing_is_to_be_saved() {
    let (_directory, path) = place();
    let weight = Weight::number(1);
    drop(saved(&path, PackOptions::default(), [weight]).unwrap());
    let pack = open(&path);
    let other = weight.wanted(|wanted| {
        let mut reservation = pack.reserve(weight.size()).unwrap();
        reservation.bytes_mut().fill(0xee);
        pack.insert(wanted, reservation)
    });
    weight.pack(&pack).unwrap();
    let end = fs::metadata(&path).unwrap().len();
    assert_eq!(pack.save().unwrap().entries, 0);
    assert_eq!(fs::metadata(&path).unwrap().len(), end, "bytes in use were cut off");
    assert!(other.iter().all(|byte| *byte == 0xee));
}

#[test]
fn spaces_released_in_reverse_order_are_given_out_again() {
    const CHUNK: usize = 4 << 20;

    let (_directory, path) = place();
    let pack = open(&path);
    // Each is a whole chunk.
    let (first, second) = (pack.reserve(CHUNK).unwrap(), pack.reserve(CHUNK).unwrap());
    drop(second);
    drop(first);
    let third = pack.reserve(CHUNK).unwrap();
    assert_eq!(pack.statistics().heap_entries, 0);
    assert!(fs::metadata(&path).unwrap().len() <= (4096 + 2 * CHUNK) as u64);
    drop(third);
    use_all(&pack, weights(0..3)).unwrap();
    pack.save().unwrap();
    assert_saved(&path, weights(0..3));
}

#[test]
fn weight_of_no_bytes_on_the_heap_is_saved() {
    let (_directory, path) = place();
    let holder = open(&path);
    let held = holder.reserve(1).unwrap();
    let (other, pack) = beside(&path, PackOptions::default());
    let nothing = Weight { seed: 3, ..Weight::number(1) };
    nothing.wanted(|wanted| {
        pack.insert(wanted, pack.reserve(0).unwrap());
    });
    Weight::number(2).pack(&pack).unwrap();
    assert_eq!(pack.statistics().heap_entries, 2);
    drop((held, holder));
    assert_eq!(pack.save().map(|saved| (saved.entries, saved.left)), Ok((2, 0)));
    assert_saved(&other, [Weight::number(2)]);
    let next = open(&other);
    nothing.wanted(|wanted| assert_eq!(next.look_up(wanted).map(|weights| weights.len()), Ok(0)));
}

#[test]
fn save_cuts_the_rest_of_a_chunk_while_a_space_is_in_use() {
    let (_directory, path) = place();
    let pack = open(&path);
    let mut used = pack.reserve(100).unwrap();
    Weight::number(1).pack(&pack).unwrap();
    pack.save().unwrap();
    let len = fs::metadata(&path).unwrap().len();
    assert!(len < 1 << 20, "{len}");
    used.bytes_mut().fill(1);
}

#[test]
fn pack_dropped_after_its_file_was_written_over_leaves_it() {
    for len in [100, 10 << 20] {
        let (_directory, path) = place();
        drop(saved(&path, PackOptions::default(), weights(0..3)).unwrap());
        let pack = open(&path);
        use_all(&pack, weights(3..6)).unwrap();
        let other = vec![7; len];
        fs::write(&path, &other).unwrap();
        drop(pack);
        assert!(fs::read(&path).unwrap() == other, "{len}");
    }
}

#[test]
fn file_that_became_writable_by_others_is_not_packed_into() {
    let (_directory, path) = place();
    let pack = saved(&path, PackOptions::default(), weights(0..1)).unwrap();
    let before = fs::read(&path).unwrap();
    fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o620)).unwrap();
    Weight::number(1).pack(&pack).unwrap();
    let statistics = pack.statistics();
    assert_eq!((statistics.heap_entries, statistics.refusals.of(MissReason::Untrusted)), (1, 1));
    assert_eq!(pack.save(), Err(MissReason::Untrusted));
    assert!(fs::read(&path).unwrap() == before);
}

#[test]
fn refresh_lets_the_next_weight_wait_for_the_lock_again() {
    let (_directory, path) = place();
    let writer = open(&path);
    let _held = writer.reserve(100).unwrap();
    let timeout = Duration::from_millis(100);
    let (_, pack) = beside(&path, PackOptions::default().with_timeout(timeout));
    for _ in 0..2 {
        pack.refresh();
        let begin = Instant::now();
        Weight::number(1).pack(&pack).unwrap();
        assert!(begin.elapsed() >= timeout, "waited {:?}", begin.elapsed());
    }
}

#[test]
fn space_of_a_replaced_file_frees_none_of_the_new_one() {
    let (directory, path) = place();
    let (away, same) = (directory.path().join("away"), directory.path().join("same"));
    drop(saved(&same, PackOptions::default(), weights(0..1)).unwrap());
    let start = fs::metadata(&same).unwrap().len().next_multiple_of(128);
    let pack = open(&path);
    // One space is where the next one will be in the new file.
    let filler = pack.reserve(usize::try_from(start).unwrap() - 4096).unwrap();
    let old = pack.reserve(1000).unwrap();
    Weight::number(0).pack(&pack).unwrap();
    fs::rename(&path, &away).unwrap();
    pack.save().unwrap();
    assert_eq!(fs::metadata(&path).unwrap().len().next_multiple_of(128), start);
    let mut new = pack.reserve(1000).unwrap();
    new.bytes_mut().fill(1);
    drop((old, filler));
    pack.reserve(1000).unwrap().bytes_mut().fill(2);
    assert!(new.bytes_mut().iter().all(|byte| *byte == 1), "one space was given out twice");
}

#[test]
fn lock_is_released_when_no_space_is_in_use_any_more() {
    let (_directory, path) = place();
    let pack = saved(&path, PackOptions::default(), weights(0..1)).unwrap();
    let committed = fs::metadata(&path).unwrap().len();
    let used = pack.reserve(100).unwrap();
    let (_, other) = beside(&path, PackOptions::default());
    assert_eq!(pack.save().unwrap().entries, 0);
    Weight::number(1).pack(&other).unwrap();
    assert_eq!(other.save(), Err(MissReason::Busy), "a space is in use");
    drop(used);
    assert!(fs::metadata(&path).unwrap().len() > committed);
    assert_eq!(pack.save().unwrap().entries, 0);
    assert_eq!(fs::metadata(&path).unwrap().len(), committed);
    other.save().unwrap();
    assert_saved(&path, weights(0..2));
}

#[test]
fn bytes_mapped_by_readers_are_not_cut_if_their_slot_is_damaged() {
    let (_directory, path) = place();
    drop(saved(&path, PackOptions::default(), weights(0..3)).unwrap());
    drop(saved(&path, PackOptions::default(), weights(3..9)).unwrap());
    let reader = open(&path);
    let len = fs::metadata(&path).unwrap().len();
    let (other, _) = beside(&path, PackOptions::default());
    // The slot of the second commit, on the medium.
    let file = fs::OpenOptions::new().write(true).open(&other).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &[0xaa], 1024 + 20).unwrap();
    let writer = open(&other);
    assert!(writer.refusal().is_some());
    let reservation = writer.reserve(10).unwrap();
    drop(reservation);
    assert_eq!(writer.save().map(|saved| saved.entries), Ok(0));
    assert!(fs::metadata(&path).unwrap().len() >= len, "what a reader has mapped was cut off");
    for weight in weights(0..9) {
        assert_eq!(weight.find(&reader), Ok(()));
    }
}

#[test]
fn refreshing_while_another_thread_saves_loses_nothing() {
    let shared = Path::new("/dev/shm");
    let directory = if shared.is_dir() { tempfile::tempdir_in(shared) } else { tempfile::tempdir() }.unwrap();
    let path = directory.path().join("weights.xpwc");
    let pack = open(&path);
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !is_done.load(Ordering::Relaxed) {
                    pack.refresh();
                }
            });
        }
        let until = Instant::now() + Duration::from_secs(3);
        let mut number = 0;
        while Instant::now() < until && number < 4000 {
            // Small ones: there are to be many saves.
            let weight = Weight { seed: number, ..Weight::number(5 * number + 1) };
            weight.pack(&pack).unwrap();
            pack.save().unwrap();
            number += 1;
            if pack.len() != number as usize || weight.find(&pack).is_err() {
                is_done.store(true, Ordering::Relaxed);
                panic!("after save {number} there are {} entries", pack.len());
            }
        }
        is_done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_forked_child_takes_nothing_from_its_parent() {
    own_process!(|| {
        unsafe extern "C" {
            fn fork() -> i32;
            fn waitpid(child: i32, status: *mut i32, options: i32) -> i32;
            fn _exit(status: i32) -> !;
        }
        let (_directory, path) = place();
        let pack = open(&path);
        use_all(&pack, weights(0..9)).unwrap();
        let len = fs::metadata(&path).unwrap().len();
        // SAFETY: the child calls what it would call if it were one thread's, and ends without running anything else.
        let child = unsafe { fork() };
        if child == 0 {
            // Static destructors run this at the end of a child.
            drop(pack);
            // SAFETY: it ends this process.
            unsafe { _exit(0) };
        }
        assert!(child > 0);
        // SAFETY: it is told of the child, and writes no status.
        unsafe { waitpid(child, std::ptr::null_mut(), 0) };
        assert_eq!(fs::metadata(&path).unwrap().len(), len, "the child cut off what its parent packed");
        let (_, other) = beside(&path, PackOptions::default());
        Weight::number(20).pack(&other).unwrap();
        assert_eq!(other.statistics().heap_entries, 1, "the child let the lock of its parent go");
        pack.save().unwrap();
        assert_saved(&path, weights(0..9));
    });
}

#[test]
fn an_index_that_cannot_be_read_just_now_is_not_compacted_away() {
    for number in 0..6 {
        let (_directory, path) = place();
        drop(saved(&path, PackOptions::default(), weights(0..3)).unwrap());
        drop(saved(&path, PackOptions::default(), weights(3..9)).unwrap());
        let reads = AtomicUsize::new(0);
        let fails = move |done: &str| done == "read_at" && reads.fetch_add(1, Ordering::SeqCst) == number;
        let disk = Arc::new(Failing { disk: LocalMapBackend::new(), fails: Box::new(fails) });
        let _ = compact(&path, &RewriteOptions::default().with_backend(disk));
        assert_saved(&path, weights(0..9));
    }
}

/// Two rewrites to one path at once: neither takes the file of the other for one that a dead process left.
#[test]
fn unpublished_file_of_a_live_rewrite_is_not_swept() {
    let (directory, path) = place();
    let output = directory.path().join("output");
    drop(saved(&path, PackOptions::default(), weights(0..3)).unwrap());
    let options = RewriteOptions::default().with_output(&output);
    let (source, other, is_first) = (path.clone(), options.clone(), AtomicBool::new(true));
    let fails = move |done: &str| {
        if done == "sync" && is_first.swap(false, Ordering::SeqCst) {
            export(&source, &other).unwrap();
        }
        false
    };
    let disk = Arc::new(Failing { disk: LocalMapBackend::new(), fails: Box::new(fails) });
    assert_eq!(export(&path, &options.with_backend(disk)).unwrap().entries, 3);
}

/// The medium takes other bytes than it was given, and does not say so.
#[test]
fn commit_that_reads_back_otherwise_is_not_saved() {
    let is_armed = Arc::new(AtomicBool::new(false));
    for (spoiled, saved_before) in [(0, 0), (0, 3), (1, 0), (1, 3)] {
        let (_directory, path) = place();
        let (armed, writes) = (Arc::clone(&is_armed), AtomicUsize::new(0));
        let options = Failing::when(move |done| {
            done == "spoil"
                && armed.load(Ordering::SeqCst)
                && writes.fetch_add(1, Ordering::SeqCst) == spoiled
        });
        drop(saved(&path, PackOptions::default(), weights(0..saved_before)).unwrap());
        let pack = Pack::open(&path, options).unwrap();
        use_all(&pack, weights(3..6)).unwrap();
        is_armed.store(true, Ordering::SeqCst);
        pack.save().unwrap_err();
        is_armed.store(false, Ordering::SeqCst);
        assert_eq!(pack.statistics().heap_entries, 0);
        for weight in weights(0..saved_before).chain(weights(3..6)) {
            assert_eq!(weight.find(&pack), Ok(()));
        }
        pack.save().unwrap();
        assert_saved(&path, weights(0..saved_before).chain(weights(3..6)));
    }
}

#[test]
fn save_after_a_refresh_of_another_file_writes_every_weight() {
    let (directory, path) = place();
    let (away, other) = (directory.path().join("away"), directory.path().join("other"));
    drop(saved(&other, PackOptions::default(), weights(20..23)).unwrap());
    drop(saved(&path, PackOptions::default(), weights(0..3)).unwrap());
    let pack = open(&path);
    // Weights that the other file has, and one that it lacks.
    use_all(&pack, weights(3..6).chain(weights(20..21))).unwrap();
    fs::rename(&path, &away).unwrap();
    fs::rename(&other, &path).unwrap();
    pack.refresh();
    fs::rename(&path, &other).unwrap();
    fs::rename(&away, &path).unwrap();
    pack.save().unwrap();
    assert_saved(&path, weights(0..6).chain(weights(20..21)));
}

/// The index of another file, which was at the path meanwhile, says nothing about a file that is saved for the first time.
#[test]
fn first_save_after_a_refresh_of_another_file_is_whole() {
    let (directory, path) = place();
    let (away, other) = (directory.path().join("away"), directory.path().join("other"));
    drop(saved(&other, PackOptions::default(), weights(20..23)).unwrap());
    let pack = open(&path);
    use_all(&pack, weights(0..3)).unwrap();
    fs::rename(&path, &away).unwrap();
    fs::rename(&other, &path).unwrap();
    pack.refresh();
    fs::rename(&path, &other).unwrap();
    fs::rename(&away, &path).unwrap();
    pack.save().unwrap();
    assert_saved(&path, weights(0..3));
    assert_eq!(warmstart::pack::inspect(&path).unwrap().entries.len(), 3);
}

#[test]
fn what_was_written_by_half_is_not_in_the_next_space() {
    let (_directory, path) = place();
    let (armed, options) = Failing::once("half");
    let holder = open(&path);
    let held = holder.reserve(1).unwrap();
    let (other, pack) = beside(&path, options);
    Weight::number(4).pack(&pack).unwrap();
    assert_eq!(pack.statistics().heap_entries, 1, "it is to be appended when it is saved");
    drop((held, holder));
    armed.store(true, Ordering::SeqCst);
    pack.save().unwrap_err();
    let mut reservation = pack.reserve(100_000).unwrap();
    assert!(reservation.bytes_mut().iter().all(|byte| *byte == 0), "a reservation is zeroed");
    drop(reservation);
    pack.save().unwrap();
    assert_saved(&other, [Weight::number(4)]);
}

/// All at once, by many threads and by another pack on the same file.
#[test]
fn threads_that_do_everything_at_once_find_the_right_weights() {
    let (_directory, path) = place();
    drop(saved(&path, PackOptions::default(), weights(0..1)).unwrap());
    for checks in [Checks::None, Checks::FirstUse, Checks::All] {
        let pack = Pack::open(&path, PackOptions::default().with_checks(checks)).unwrap();
        let (_, other) = beside(&path, PackOptions::default().with_checks(checks));
        let until = Instant::now() + Duration::from_millis(1500);
        thread::scope(|scope| {
            for thread in 0..8u32 {
                let pack = if thread % 4 == 3 { &other } else { &pack };
                scope.spawn(move || {
                    let mut number = thread.wrapping_mul(0x9e37_79b9) | 1;
                    while Instant::now() < until {
                        number = number.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                        let weight = Weight { seed: number >> 8 & 1, ..Weight::number((number >> 10) % 40) };
                        match number >> 28 {
                            0 => drop(pack.save()),
                            1 => pack.refresh(),
                            2 => pack.finalize(),
                            3 => pack.reserve(weight.size()).unwrap().bytes_mut().fill(0xdd),
                            4..=7 if weight.find(pack).is_err() => weight.pack(pack).unwrap(),
                            8 => pack.release(),
                            9 => weight.pack(pack).unwrap(),
                            _ => _ = weight.find(pack),
                        }
                    }
                });
            }
        });
        let all: Vec<Weight> = (0..40)
            .flat_map(|number| (0..2).map(move |seed| Weight { seed, ..Weight::number(number) }))
            .filter(|weight| weight.find(&pack).is_ok())
            .collect();
        // The writer that holds the lock saves first.
        if pack.save().is_err() {
            other.save().unwrap();
            drop(other);
            pack.save().unwrap();
        }
        assert_saved(&path, all);
    }
}

/// A file of version 2 with holes, whose trailer claims as many entries as fit: the holes take no space.
#[test]
fn a_trailer_of_nothing_but_zeros_takes_neither_memory_nor_time() {
    let (_directory, path) = place();
    let file = File::create(&path).unwrap();
    let count = 40_000_000_u32;
    let footer_at = 24 * u64::from(count);
    let mut footer = vec![0; 8];
    footer.extend_from_slice(&count.to_le_bytes());
    footer.extend_from_slice(&0x5850_5743_u32.to_le_bytes());
    footer.extend_from_slice(&2_u32.to_le_bytes());
    std::os::unix::fs::FileExt::write_all_at(&file, &footer, footer_at).unwrap();
    fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let begin = Instant::now();
    assert!(Pack::open(&path, PackOptions::default()).unwrap_err().is_wrong_kind());
    assert!(begin.elapsed() < Duration::from_secs(1), "took {:?}", begin.elapsed());
}
