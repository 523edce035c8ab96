//! Files of packed weights that are exported for ExecuTorch, and those of its that are imported.

use std::{fs, path::Path};

use warmstart::{
    MissReason,
    pack::{
        ModelId, Name, Pack, PackError, PackOptions, Packing, RewriteOptions, WeightKey, compact, export,
        import, inspect, verify,
    },
};
use warmstart_tests::{
    executorch,
    packed::{Weight, image, names_in, open, place, saved, use_all, weights},
};

/// Saves payloads of zeros under these names, with a seed and in a model.
fn pack_named(path: &Path, all: &[(Name<'_>, u32, u8)]) {
    let pack = open(path).unwrap();
    for (name, seed, model) in all {
        let model = ModelId::from_bytes([*model; 32]);
        let wanted = WeightKey { name: *name, model, packing: Packing::of_seed(*seed) };
        let mut reservation = pack.reserve(300).unwrap();
        reservation.bytes_mut().fill(*seed as u8);
        pack.insert(&wanted, reservation);
    }
    pack.save().unwrap();
}

/// The entries of an exported file, in the order of their names.
fn read_version2(file: &[u8]) -> Vec<executorch::Entry> {
    let mut entries = executorch::read(file);
    assert!(entries.iter().all(|entry| entry.offset.is_multiple_of(4096)));
    entries.sort();
    let is_unique = entries.windows(2).all(|pair| pair[0].name != pair[1].name);
    assert!(is_unique);
    entries
}

#[test]
fn exported_file_is_read_from_the_text_of_the_format_alone() {
    let (directory, path) = place().unwrap();
    drop(saved(&path, PackOptions::default(), weights(0..12)).unwrap());
    let output = directory.path().join("exported.xpwc");
    let done = export(&path, &RewriteOptions::default().with_output(&output)).unwrap();
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
    let (directory, path) = place().unwrap();
    pack_named(&path, &[(Name::new("ab").with_bias("c"), 1, 1), (Name::new("a").with_bias("bc"), 1, 1)]);
    let before = image(&path).unwrap();
    let error = export(&path, &RewriteOptions::default()).unwrap_err();
    assert!(matches!(error, PackError::Clash(..)));
    let text = error.to_string();
    assert!(text.contains("ab + c") && text.contains("a + bc"), "{text}");
    assert_eq!((image(&path).unwrap(), names_in(directory.path()).unwrap().len()), (before, 1));
}

#[test]
fn export_writes_one_chosen_model_and_its_newest_packings() {
    let (directory, path) = place().unwrap();
    let (weight, alone) = (Name::new("w"), Name::new("alone"));
    pack_named(&path, &[(weight, 1, 1), (weight, 2, 2), (alone, 9, 2)]);
    pack_named(&path, &[(weight, 3, 1)]);
    assert!(
        matches!(export(&path, &RewriteOptions::default()), Err(PackError::Several(name)) if name == "w")
    );
    let seeds = |model: u8, name: &str| {
        let output = directory.path().join(name);
        let only =
            RewriteOptions::default().with_output(&output).with_models([ModelId::from_bytes([model; 32])]);
        let done = export(&path, &only)?;
        let read = read_version2(&fs::read(&output).unwrap());
        Ok::<_, PackError>((done.left_out, read.iter().map(|entry| entry.seed).collect::<Vec<_>>()))
    };
    assert_eq!(seeds(1, "one").unwrap(), (3, vec![3]));
    assert_eq!(seeds(2, "two").unwrap(), (2, vec![9, 2]));
    assert!(matches!(seeds(3, "three"), Err(PackError::NoSuchModel(_))));
    assert!(!directory.path().join("three").exists());
}

#[test]
#[cfg_attr(
    not(has_goldens),
    ignore = "needs files that ExecuTorch wrote: WARMSTART_SHARED names the folder above xpwc-goldens"
)]
fn executorch_file_is_found_after_import_and_is_unverified() {
    for (name, dead) in [("five.xpwc", 0), ("bias.xpwc", 0), ("two-models.xpwc", 4096)] {
        let bytes = executorch::golden(name);
        let (_directory, path) = place().unwrap();
        fs::write(&path, &bytes).unwrap();
        let found = inspect(&path).unwrap();
        assert_eq!((found.version, found.dead_bytes), (2, dead), "{name}");
        let expected = read_version2(&bytes);
        let done = import(&path, &RewriteOptions::default()).unwrap();
        let count = expected.len() as u64;
        assert_eq!((done.is_changed, done.entries, done.unverified), (true, count, count));
        let found = inspect(&path).unwrap();
        assert_eq!((found.version, found.dead_bytes, found.generation), (3, 0, 1));
        assert!(found.entries.iter().all(|entry| entry.is_imported && entry.checksum.is_some()));
        assert!(verify(&path, &mut |_, _| {}).unwrap().is_good());

        let named = ModelId::from_bytes([1; 32]);
        let (plain, lenient) = (open(&path).unwrap(), PackOptions::default().with_unverified(true));
        for entry in &expected {
            // Wherever the weight's name ends and that of the bias begins.
            let (weight, bias) = entry.name.split_at(entry.name.len() / 2);
            for name in [Name::new(&entry.name), Name::new(weight).with_bias(bias)] {
                let wanted = |model, seed| WeightKey { name, model, packing: Packing::of_seed(seed) };
                let weights = plain.look_up(&wanted(ModelId::default(), entry.seed)).unwrap();
                assert_eq!((&weights[..], weights.is_verified()), (&entry.payload[..], false));
                let look_up = |model, seed| plain.look_up(&wanted(model, seed)).map(drop);
                assert_eq!(look_up(named, entry.seed), Err(MissReason::UnverifiedModel));
                assert_eq!(look_up(ModelId::default(), entry.seed ^ 1), Err(MissReason::OtherSeed));
            }
            let longer = format!("{}x", entry.name);
            let wanted = WeightKey {
                name: Name::new(&longer),
                model: ModelId::default(),
                packing: Packing::of_seed(entry.seed),
            };
            assert_eq!(plain.look_up(&wanted).map(drop), Err(MissReason::Absent));
        }
        drop(plain);
        let lenient = Pack::open(&path, lenient).unwrap();
        for entry in &expected {
            let wanted = WeightKey {
                name: Name::new(&entry.name),
                model: named,
                packing: Packing::of_seed(entry.seed),
            };
            assert!(!lenient.look_up(&wanted).unwrap().is_verified());
        }
        drop(lenient);

        // There and back, nothing is lost.
        export(&path, &RewriteOptions::default()).unwrap();
        let back = read_version2(&fs::read(&path).unwrap());
        let essence = |read: &[executorch::Entry]| {
            read.iter().map(|read| (read.name.clone(), read.seed, read.payload.clone())).collect::<Vec<_>>()
        };
        assert_eq!(essence(&back), essence(&expected));
    }
}

#[test]
fn entries_imported_with_a_model_are_found_by_its_hosts() {
    let (_directory, path) = place().unwrap();
    drop(saved(&path, PackOptions::default(), weights(0..6)).unwrap());
    export(&path, &RewriteOptions::default()).unwrap();
    let version2 = fs::read(&path).unwrap();
    let [model, other] = [1, 2].map(|byte| ModelId::from_bytes([byte; 32]));

    let done = import(&path, &RewriteOptions::default().with_imported_model(model)).unwrap();
    assert_eq!((done.entries, done.unverified), (6, 0));
    assert_eq!(inspect(&path).unwrap().models, [model]);
    let with_model = image(&path).unwrap();
    // The host asks for fingerprints, of which version 2 knows nothing.
    let pack = open(&path).unwrap();
    assert_eq!(use_all(&pack, weights(0..6)).unwrap(), 0);
    assert_eq!((pack.statistics().hits, pack.statistics().unverified_hits), (6, 6));
    assert_eq!(Weight { model: 2, ..Weight::number(0) }.find(&pack), Err(MissReason::OtherModel));
    pack.save().unwrap();
    drop(pack);
    assert_eq!(image(&path).unwrap(), with_model, "not a byte is written");

    // Entries that a second model saves under the same names hide none, and a save keeps the models of all others.
    let others = weights(0..6).map(|weight| Weight { model: 2, ..weight });
    drop(saved(&path, PackOptions::default(), others.clone()).unwrap());
    assert!(!import(&path, &RewriteOptions::default().with_imported_model(other)).unwrap().is_changed);
    compact(&path, &RewriteOptions::default()).unwrap();
    let pack = open(&path).unwrap();
    assert_eq!(use_all(&pack, weights(0..6).chain(others)).unwrap(), 0);
    assert_eq!(inspect(&path).unwrap().models, [model, other]);
    drop(pack);

    // Of a weight that was imported and has been packed since, the packed one is exported.
    drop(
        saved(&path, PackOptions::default(), weights(0..6).map(|weight| Weight { seed: 8, ..weight }))
            .unwrap(),
    );
    let output = path.with_extension("out");
    let done = export(&path, &RewriteOptions::default().with_models([model]).with_output(&output)).unwrap();
    assert_eq!(done.entries, 6);
    assert!(read_version2(&fs::read(&output).unwrap()).iter().all(|entry| entry.seed == 8));

    // The model can be said later.
    fs::write(&path, version2).unwrap();
    assert_eq!(import(&path, &RewriteOptions::default()).unwrap().unverified, 6);
    assert_eq!(Weight::number(0).find(&open(&path).unwrap()), Err(MissReason::UnverifiedModel));
    let done = import(&path, &RewriteOptions::default().with_imported_model(model)).unwrap();
    assert_eq!((done.is_changed, done.entries, done.unverified), (true, 6, 0));
    assert!(verify(&path, &mut |_, _| {}).unwrap().is_good());
    assert_eq!(use_all(&open(&path).unwrap(), weights(0..6)).unwrap(), 0);
}

#[test]
fn imported_entries_stay_after_a_save_and_a_compaction() {
    let (_directory, path) = place().unwrap();
    drop(saved(&path, PackOptions::default(), weights(0..6)).unwrap());
    export(&path, &RewriteOptions::default()).unwrap();
    let exported = fs::read(&path).unwrap();
    import(&path, &RewriteOptions::default()).unwrap();
    let before = image(&path).unwrap();
    assert!(!import(&path, &RewriteOptions::default()).unwrap().is_changed);
    assert_eq!(image(&path).unwrap(), before);

    // The same weight, packed for a known model, stands beside it.
    drop(saved(&path, PackOptions::default(), weights(4..8)).unwrap());
    assert_eq!(inspect(&path).unwrap().entries.len(), 10);
    assert!(compact(&path, &RewriteOptions::default()).unwrap().is_changed);
    assert_eq!(inspect(&path).unwrap().entries.iter().filter(|entry| entry.is_imported).count(), 6);
    assert!(verify(&path, &mut |_, _| {}).unwrap().is_good());
    assert_eq!(use_all(&open(&path).unwrap(), weights(4..8)).unwrap(), 0);
    let imported = ModelId::default();
    let done = export(&path, &RewriteOptions::default().with_models([imported])).unwrap();
    assert_eq!((done.entries, done.left_out), (6, 4));
    assert_eq!(read_version2(&fs::read(&path).unwrap()), read_version2(&exported));
}
