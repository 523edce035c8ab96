//! Files of packed weights that are looked into and rewritten.

#![expect(clippy::unwrap_used, reason = "all of it is a test, which clippy cannot tell of functions")]

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use tempfile::TempDir;
use warmstart::{
    Reason,
    pack::{
        Checks, FileError, Fingerprint, Inspection, ModelId, Name, Pack, PackOptions, Packing, Refusal,
        RewriteOptions, Wanted, compact, export, import, inspect, recognise, verify,
    },
};
use warmstart_tests::{
    map_disk::Mortal,
    packed::{Weight, image, saved, use_all},
};

fn place() -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("weights.xpwc");
    (directory, path)
}

fn weights(numbers: std::ops::Range<u32>) -> impl Iterator<Item = Weight> + Clone {
    numbers.map(Weight::number)
}

fn open(path: &Path) -> Pack {
    Pack::open(path, PackOptions::default()).unwrap()
}

fn defaults() -> RewriteOptions {
    RewriteOptions::default()
}

/// A pack with weights 0 to 9 of model 1 and 5 to 9 of model 2, of two commits.
fn two_models(path: &Path) {
    drop(saved(path, PackOptions::default(), weights(0..10)).unwrap());
    let other = weights(5..10).map(|weight| Weight { model: 2, ..weight });
    drop(saved(path, PackOptions::default(), other).unwrap());
}

/// Saves payloads of zeros under these names, with a seed and in a model.
fn pack_named(path: &Path, all: &[(Name<'_>, u32, u8)]) {
    let pack = open(path);
    for (name, seed, model) in all {
        let model = ModelId::from_bytes([*model; 32]);
        let wanted = Wanted { name: *name, model, packing: Packing::of_seed(*seed) };
        let mut space = pack.reserve(300).unwrap();
        space.bytes_mut().fill(*seed as u8);
        pack.insert(&wanted, space);
    }
    pack.save().unwrap();
}

fn names_in(directory: &Path) -> Vec<String> {
    let names = fs::read_dir(directory).unwrap();
    let mut names: Vec<_> = names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// What ExecuTorch wrote, if it is here.
fn golden(name: &str) -> Option<Vec<u8>> {
    let above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let read =
        above.map(|above| above.join("shared/xpwc-goldens").join(name)).find_map(|path| fs::read(path).ok());
    if read.is_none() {
        eprintln!("skipped: the folder xpwc-goldens is not here");
    }
    read
}

/// An entry, as a reader of version 2 sees it that knows nothing but the text of the format.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Read {
    name: String,
    offset: usize,
    seed: u32,
    payload: Vec<u8>,
}

/// Reads a file of version 2 as the text of the format says.
fn read_version2(file: &[u8]) -> Vec<Read> {
    fn u32_at(bytes: &[u8], at: usize) -> u32 {
        u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
    }
    fn u64_at(bytes: &[u8], at: usize) -> usize {
        usize::try_from(u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())).unwrap()
    }
    assert!(file.len() >= 20);
    let footer = file.len() - 20;
    assert_eq!((u32_at(file, footer + 12), u32_at(file, footer + 16)), (0x5850_5743, 2));
    let start = u64_at(file, footer);
    assert!(start <= footer);
    let (mut at, mut entries) = (start, Vec::new());
    for _ in 0..u32_at(file, footer + 8) {
        let name_len = u32_at(file, at) as usize;
        let name = String::from_utf8(file[at + 4..at + 4 + name_len].to_vec()).unwrap();
        at += 4 + name_len;
        let (offset, size, seed) = (u64_at(file, at), u64_at(file, at + 8), u32_at(file, at + 16));
        at += 20;
        assert!(offset + size <= start && offset.is_multiple_of(4096));
        entries.push(Read { name, offset, seed, payload: file[offset..offset + size].to_vec() });
    }
    assert_eq!(at, footer, "the entries fill the index exactly");
    entries.sort();
    let is_unique = entries.windows(2).all(|pair| pair[0].name != pair[1].name);
    assert!(is_unique);
    entries
}

#[test]
fn what_is_in_a_file_is_told_and_nothing_is_changed() {
    let (directory, path) = place();
    two_models(&path);
    let before = image(&path).unwrap();
    let found = inspect(&path).unwrap();
    assert_eq!((found.version, found.generation, found.entries.len()), (3, 2, 15));
    assert_eq!(found.models, [ModelId::from_bytes([1; 32]), ModelId::from_bytes([2; 32])]);
    assert_eq!((found.file_bytes, found.refusal), (before.0.len() as u64, None));
    let odd = &found.entries[3];
    assert_eq!(odd.name(), Name::new("encoder.layer.3.weight").with_bias("encoder.layer.3.bias"));
    assert_eq!(odd.packing, Packing { seed: 7, fingerprint: Some(Fingerprint { id: 5, value: Some(9) }) });
    assert_eq!((odd.size, odd.generation, odd.is_imported), (10_007, 1, false));
    // The first index is all that nobody reaches.
    let last = found
        .entries
        .iter()
        .filter(|entry| entry.generation == 1)
        .map(|entry| entry.offset + entry.size)
        .max();
    let next = found.entries.iter().filter(|entry| entry.generation == 2).map(|entry| entry.offset).min();
    assert_eq!(found.dead_bytes, next.unwrap() - last.unwrap().next_multiple_of(128));

    let mut visited = 0;
    let proved = verify(&path, &mut |_, is_whole| visited += u32::from(is_whole == Some(true))).unwrap();
    assert!(proved.is_good() && proved.has_checksums);
    assert_eq!((visited, proved.whole, proved.damaged.len()), (15, 15, 0));
    assert!(recognise(&path).unwrap());
    assert_eq!((image(&path).unwrap(), names_in(directory.path()).len()), (before, 1));
}

#[test]
fn a_damaged_payload_and_a_recovered_index_are_found() {
    let (_directory, path) = place();
    two_models(&path);
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
    let done = compact(&path, &defaults()).unwrap();
    assert_eq!((done.is_changed, done.entries), (true, 10));
    let found = inspect(&path).unwrap();
    assert_eq!((found.generation, found.refusal, found.dead_bytes), (3, None, 0));
}

#[test]
fn compacting_leaves_no_dead_bytes_and_twice_is_once() {
    let (_directory, path) = place();
    two_models(&path);
    let reader = open(&path);
    let held = Weight::number(0).wanted(|wanted| reader.look_up(wanted)).unwrap();
    let before = (fs::read(&path).unwrap(), inspect(&path).unwrap());
    let done = compact(&path, &defaults()).unwrap();
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
    let (_other_directory, other) = place();
    fs::write(&other, &before.0).unwrap();
    compact(&other, &defaults()).unwrap();
    assert_ne!(number(&other), number(&path));
    // Who had the old one mapped keeps it.
    assert_eq!(use_all(&reader, weights(0..10)).unwrap(), 0);
    assert_eq!(held[..], [Weight::number(0).byte(0)]);
    reader.refresh();
    assert_eq!(use_all(&reader, weights(0..10)).unwrap(), 0);
    drop(reader);

    let before = image(&path).unwrap();
    let again = compact(&path, &defaults()).unwrap();
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
    let (_directory, path) = place();
    two_models(&path);
    let only = defaults().with_models([ModelId::from_bytes([2; 32])]);
    let done = compact(&path, &only).unwrap();
    assert_eq!((done.entries, done.left_out), (5, 10));
    let pack = open(&path);
    assert_eq!(use_all(&pack, weights(5..10).map(|weight| Weight { model: 2, ..weight })).unwrap(), 0);
    assert_eq!(Weight::number(5).find(&pack), Err(Reason::OtherModel));
    assert_eq!(Weight::number(0).find(&pack), Err(Reason::Absent));
}

#[test]
fn damaged_payloads_are_dropped_even_where_nothing_else_is_gained() {
    let (_directory, path) = place();
    drop(saved(&path, PackOptions::default(), weights(0..5)).unwrap());
    assert_eq!(inspect(&path).unwrap().dead_bytes, 0);
    let mut bytes = fs::read(&path).unwrap();
    // The second is longer than those before it: none of its bytes stay behind.
    let at = inspect(&path).unwrap().entries[3].offset as usize;
    bytes[at + 5] ^= 1;
    fs::write(&path, &bytes).unwrap();
    let done = compact(&path, &defaults()).unwrap();
    assert_eq!((done.is_changed, done.entries, done.damaged), (true, 4, 1));
    assert_eq!(verify(&path, &mut |_, _| {}).unwrap().whole, 4);
    assert_eq!(inspect(&path).unwrap().dead_bytes, 0);
    assert_eq!(use_all(&open(&path), weights(0..5)).unwrap(), 1);
}

#[test]
fn who_writes_is_not_disturbed() {
    let (directory, path) = place();
    two_models(&path);
    let writer = open(&path);
    Weight::number(30).pack(&writer).unwrap();
    assert!(matches!(compact(&path, &defaults()), Err(FileError::Busy)));
    // What was committed can be exported meanwhile.
    let output = directory.path().join("out");
    let to = defaults().with_output(&output).with_models([ModelId::from_bytes([1; 32])]);
    assert_eq!(export(&path, &to).unwrap().entries, 10);
    assert!(matches!(export(&path, &to), Err(FileError::Exists)));
    writer.save().unwrap();
    drop(writer);
    assert_eq!(compact(&path, &defaults()).unwrap().entries, 16);
    assert_eq!(names_in(directory.path()), ["out", "weights.xpwc"]);
}

#[test]
fn a_file_that_was_replaced_while_its_lock_was_waited_for_is_not_put_back() {
    let (directory, path) = place();
    let other = directory.path().join("other.xpwc");
    two_models(&path);
    drop(saved(&other, PackOptions::default(), weights(0..3)).unwrap());
    let disk = Arc::new(Mortal::after(u64::MAX));
    let holder = fs::File::open(&path).unwrap();
    holder.lock().unwrap();
    let patient = defaults().with_patience(Duration::from_secs(60)).with_disk(disk.clone());
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
    rewrite: impl Fn(&Path, &RewriteOptions) -> Result<warmstart::pack::Rewritten, FileError>,
    is_old: impl Fn(&Path) -> bool,
    is_new: impl Fn(&Path) -> bool,
) {
    let (mut old, mut new) = (0, 0);
    for deadly in 1.. {
        let (directory, path) = place();
        make(&path);
        let disk = Arc::new(Mortal::after(deadly));
        let done = rewrite(&path, &defaults().with_disk(disk.clone()));
        let (has_old, has_new) = (is_old(&path), is_new(&path));
        assert!(has_old != has_new, "at operation {deadly}: {done:?}");
        assert!(done.is_err() || has_new, "at operation {deadly}");
        old += u32::from(has_old);
        new += u32::from(has_new);
        rewrite(&path, &defaults()).unwrap();
        assert!(is_new(&path), "at operation {deadly}");
        if has_old {
            assert_eq!(names_in(directory.path()), ["weights.xpwc"], "at operation {deadly}");
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
        two_models,
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
        export(path, &defaults()).unwrap();
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
    let (directory, path) = place();
    two_models(&path);
    let at_work = directory.path().join("weights.xpwc.0123456789abcdef.tmp");
    let left = directory.path().join("weights.xpwc.0123456789abcde0.tmp");
    let others = directory.path().join("weights.xpwc.notours.tmp");
    for path in [&at_work, &left, &others] {
        fs::write(path, b"x").unwrap();
    }
    let locked = fs::File::open(&at_work).unwrap();
    locked.lock().unwrap();
    compact(&path, &defaults()).unwrap();
    assert!(at_work.exists() && others.exists() && !left.exists());
}

#[test]
fn an_exported_file_is_read_by_who_knows_the_text_of_the_format_alone() {
    let (directory, path) = place();
    drop(saved(&path, PackOptions::default(), weights(0..12)).unwrap());
    let output = directory.path().join("exported.xpwc");
    let done = export(&path, &defaults().with_output(&output)).unwrap();
    assert_eq!((done.entries, done.left_out, done.damaged), (12, 0, 0));
    let file = fs::read(&output).unwrap();
    let read = read_version2(&file);
    assert_eq!(read.len(), 12);
    for number in 0..12 {
        let weight = Weight::number(number);
        let joined =
            weight.wanted(|wanted| format!("{}{}", wanted.name.weight, wanted.name.bias.unwrap_or_default()));
        let entry = read.iter().find(|entry| entry.name == joined).unwrap();
        let payload: Vec<u8> = (0..weight.size()).map(|at| weight.byte(at)).collect();
        assert_eq!((entry.seed, &entry.payload), (7, &payload), "{joined}");
    }
    let found = inspect(&output).unwrap();
    assert_eq!((found.version, found.entries.len(), found.dead_bytes), (2, 12, 0));
    let proved = verify(&output, &mut |_, is_whole| assert_eq!(is_whole, None)).unwrap();
    assert!(proved.is_good() && !proved.has_checksums);
}

#[test]
fn names_that_would_collide_are_refused_and_both_are_named() {
    let (directory, path) = place();
    pack_named(&path, &[(Name::new("ab").with_bias("c"), 1, 1), (Name::new("a").with_bias("bc"), 1, 1)]);
    let before = image(&path).unwrap();
    let error = export(&path, &defaults()).unwrap_err();
    assert!(matches!(error, FileError::Clash(..)));
    let text = error.to_string();
    assert!(text.contains("ab + c") && text.contains("a + bc"), "{text}");
    assert_eq!((image(&path).unwrap(), names_in(directory.path()).len()), (before, 1));
}

#[test]
fn of_several_models_one_is_chosen_and_of_its_packings_the_newest() {
    let (directory, path) = place();
    let (weight, alone) = (Name::new("w"), Name::new("alone"));
    pack_named(&path, &[(weight, 1, 1), (weight, 2, 2), (alone, 9, 2)]);
    pack_named(&path, &[(weight, 3, 1)]);
    assert!(matches!(export(&path, &defaults()), Err(FileError::Several(name)) if name == "w"));
    let seeds = |model: u8, name: &str| {
        let output = directory.path().join(name);
        let only = defaults().with_output(&output).with_models([ModelId::from_bytes([model; 32])]);
        let done = export(&path, &only)?;
        let read = read_version2(&fs::read(&output).unwrap());
        Ok::<_, FileError>((done.left_out, read.iter().map(|entry| entry.seed).collect::<Vec<_>>()))
    };
    assert_eq!(seeds(1, "one").unwrap(), (3, vec![3]));
    assert_eq!(seeds(2, "two").unwrap(), (2, vec![9, 2]));
    assert!(matches!(seeds(3, "three"), Err(FileError::NoSuchModel(_))));
    assert!(!directory.path().join("three").exists());
}

#[test]
fn what_executorch_wrote_is_found_after_import_and_is_unverified() {
    for (name, dead) in [("five.xpwc", 0), ("bias.xpwc", 0), ("two-models.xpwc", 144)] {
        let Some(bytes) = golden(name) else { return };
        let (_directory, path) = place();
        fs::write(&path, &bytes).unwrap();
        let found = inspect(&path).unwrap();
        assert_eq!((found.version, found.dead_bytes), (2, dead), "{name}");
        let expected = read_version2(&bytes);
        let done = import(&path, &defaults()).unwrap();
        assert_eq!((done.is_changed, done.entries), (true, expected.len() as u64));
        let found = inspect(&path).unwrap();
        assert_eq!((found.version, found.dead_bytes, found.generation), (3, 0, 1));
        assert!(found.entries.iter().all(|entry| entry.is_imported && entry.checksum.is_some()));
        assert!(verify(&path, &mut |_, _| {}).unwrap().is_good());

        let named = ModelId::from_bytes([1; 32]);
        let (plain, lenient) = (open(&path), PackOptions::default().with_unverified(true));
        for entry in &expected {
            // Wherever the weight's name ends and that of the bias begins.
            let (weight, bias) = entry.name.split_at(entry.name.len() / 2);
            for name in [Name::new(&entry.name), Name::new(weight).with_bias(bias)] {
                let wanted = |model, seed| Wanted { name, model, packing: Packing::of_seed(seed) };
                let weights = plain.look_up(&wanted(ModelId::default(), entry.seed)).unwrap();
                assert_eq!((&weights[..], weights.is_verified()), (&entry.payload[..], false));
                let look_up = |model, seed| plain.look_up(&wanted(model, seed)).map(drop);
                assert_eq!(look_up(named, entry.seed), Err(Reason::OtherModel));
                assert_eq!(look_up(ModelId::default(), entry.seed ^ 1), Err(Reason::OtherSeed));
            }
            let longer = format!("{}x", entry.name);
            let wanted = Wanted {
                name: Name::new(&longer),
                model: ModelId::default(),
                packing: Packing::of_seed(entry.seed),
            };
            assert_eq!(plain.look_up(&wanted).map(drop), Err(Reason::Absent));
        }
        drop(plain);
        let lenient = Pack::open(&path, lenient).unwrap();
        for entry in &expected {
            let wanted =
                Wanted { name: Name::new(&entry.name), model: named, packing: Packing::of_seed(entry.seed) };
            assert!(!lenient.look_up(&wanted).unwrap().is_verified());
        }
        drop(lenient);

        // There and back, nothing is lost.
        export(&path, &defaults()).unwrap();
        let back = read_version2(&fs::read(&path).unwrap());
        let essence = |read: &[Read]| {
            read.iter().map(|read| (read.name.clone(), read.seed, read.payload.clone())).collect::<Vec<_>>()
        };
        assert_eq!(essence(&back), essence(&expected));
    }
}

#[test]
fn what_was_imported_stays_when_something_is_saved_and_compacted() {
    let (_directory, path) = place();
    drop(saved(&path, PackOptions::default(), weights(0..6)).unwrap());
    export(&path, &defaults()).unwrap();
    let exported = fs::read(&path).unwrap();
    import(&path, &defaults()).unwrap();
    let before = image(&path).unwrap();
    assert!(!import(&path, &defaults()).unwrap().is_changed);
    assert_eq!(image(&path).unwrap(), before);

    // The same weight, packed by somebody who knows the model, stands beside it.
    drop(saved(&path, PackOptions::default(), weights(4..8)).unwrap());
    assert_eq!(inspect(&path).unwrap().entries.len(), 10);
    assert!(compact(&path, &defaults()).unwrap().is_changed);
    assert_eq!(inspect(&path).unwrap().entries.iter().filter(|entry| entry.is_imported).count(), 6);
    assert!(verify(&path, &mut |_, _| {}).unwrap().is_good());
    assert_eq!(use_all(&open(&path), weights(4..8)).unwrap(), 0);
    let imported = ModelId::default();
    let done = export(&path, &defaults().with_models([imported])).unwrap();
    assert_eq!((done.entries, done.left_out), (6, 4));
    assert_eq!(read_version2(&fs::read(&path).unwrap()), read_version2(&exported));
}

/// A footer, and nothing before it.
fn footer(magic: [u8; 4], version: [u8; 4]) -> Vec<u8> {
    [&[0; 12][..], &magic, &version].concat()
}

#[test]
fn what_is_no_pack_that_can_be_used_is_refused_by_name() {
    let (directory, path) = place();
    let magic = 0x5850_5743_u32;
    let little = |version: u32| footer(magic.to_le_bytes(), version.to_le_bytes());
    let mut swapped = little(2);
    swapped[12..].iter_mut().for_each(|byte| *byte = 0);
    swapped[12..16].copy_from_slice(b"XPWC");
    swapped[19] = 2;
    let cases: [(Vec<u8>, Refusal); 8] = [
        (little(1), Refusal::Version1),
        (little(0), Refusal::UnknownVersion(0)),
        (little(4), Refusal::UnknownVersion(4)),
        (little(u32::MAX), Refusal::UnknownVersion(u32::MAX)),
        (little(3), Refusal::Headless),
        (swapped, Refusal::BigEndian),
        (Vec::new(), Refusal::Short { len: 0, needed: 20 }),
        (vec![7; 100], Refusal::Foreign),
    ];
    for (bytes, expected) in cases {
        fs::write(&path, &bytes).unwrap();
        let before = image(&path).unwrap();
        let results = [
            inspect(&path).map(drop),
            verify(&path, &mut |_, _| {}).map(drop),
            compact(&path, &defaults()).map(drop),
            export(&path, &defaults()).map(drop),
            import(&path, &defaults()).map(drop),
        ];
        for result in results {
            assert!(
                matches!(&result, Err(FileError::Refused(refusal)) if *refusal == expected),
                "{expected:?}: {result:?}"
            );
        }
        assert_eq!(image(&path).unwrap(), before);
        let is_known = !matches!(expected, Refusal::Foreign | Refusal::Short { .. });
        assert_eq!(recognise(&path).unwrap(), is_known);
    }
    assert!(matches!(inspect(directory.path()), Err(FileError::WrongKind("a directory"))));
    assert!(matches!(inspect(directory.path().join("none")), Err(FileError::Io(_))));
}

#[test]
fn whatever_is_cut_off_a_file_it_is_refused_or_recovered() {
    let (_directory, path) = place();
    drop(saved(&path, PackOptions::default(), weights(0..2)).unwrap());
    let whole = fs::read(&path).unwrap();
    let cut = path.with_extension("cut");
    for len in (0..whole.len()).filter(|len| *len < 200 || len % 61 == 0 || *len > whole.len() - 200) {
        fs::write(&cut, &whole[..len]).unwrap();
        assert!(matches!(inspect(&cut), Err(FileError::Refused(_))), "{len}");
    }
    export(&path, &defaults()).unwrap();
    let whole = fs::read(&path).unwrap();
    for len in (0..whole.len()).filter(|len| len % 61 == 0 || *len > whole.len() - 200) {
        fs::write(&cut, &whole[..len]).unwrap();
        assert!(matches!(inspect(&cut), Err(FileError::Refused(_))), "{len}");
    }
}

#[cfg(unix)]
#[test]
fn links_and_pipes_are_neither_followed_nor_waited_for() {
    let (directory, path) = place();
    two_models(&path);
    let link = directory.path().join("link");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    let fifo = directory.path().join("fifo");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    for (path, found) in [(link, "a link"), (fifo, "no regular file")] {
        assert!(matches!(inspect(&path), Err(FileError::WrongKind(kind)) if kind == found));
        assert!(matches!(compact(&path, &defaults()), Err(FileError::WrongKind(kind)) if kind == found));
        assert!(!recognise(&path).unwrap());
    }
}
