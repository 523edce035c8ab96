use super::*;
use alloc::vec;

use crate::trailer::{Fingerprint, Packing};

fn entry(name: Name<'_>, seed: u32, offset: u64) -> Entry<'_> {
    let (model, packing, checksum) = (ModelId::default(), Packing::of_seed(seed), Some(0));
    Entry { name, model, packing, offset, size: 1, checksum, generation: 1, is_imported: false }
}

fn imported(name: Name<'_>, seed: u32, offset: u64) -> Entry<'_> {
    Entry { is_imported: true, ..entry(name, seed, offset) }
}

#[test]
fn no_ordinary_look_up_finds_what_was_imported() {
    let entries = vec![
        imported(Name::new("wb"), 5, 4096),
        imported(Name::new("only"), 5, 4096 + 128),
        entry(Name::new("wb"), 5, 4096 + 256),
        entry(Name::new("wb"), 4, 4096 + 384),
    ];
    let block = encode(entries, 4096 + 512, 1).unwrap();
    let slot = Slot::of(1, 4096 + 512, &block);
    let layout = check(&block, &slot).unwrap();
    let index = layout.view(&block);
    index.verify().unwrap();
    let look_up = |name, seed| {
        index
            .look_up(&WeightKey { name, model: ModelId::default(), packing: Packing::of_seed(seed) })
            .map(|entry| entry.offset)
    };
    assert_eq!(look_up(Name::new("wb"), 5), Ok(4096 + 256));
    assert_eq!(look_up(Name::new("wb"), 6), Err(MissReason::OtherSeed));
    for seed in 4..7 {
        assert_eq!(look_up(Name::new("only"), seed), Err(MissReason::Absent));
    }
    let look_up_imported = |name, seed| {
        let wanted = WeightKey { name, model: ModelId::default(), packing: Packing::of_seed(seed) };
        index.look_up_imported(&wanted, false).map(|entry| entry.offset)
    };
    assert_eq!(look_up_imported(Name::new("w").with_bias("b"), 5), Ok(4096));
    assert_eq!(look_up_imported(Name::new("").with_bias("only"), 5), Ok(4096 + 128));
    assert_eq!(look_up_imported(Name::new("wb"), 4), Err(MissReason::OtherSeed));
    assert_eq!(look_up_imported(Name::new("o"), 5), Err(MissReason::Absent));

    let with_bias = imported(Name::new("w").with_bias("b"), 5, 4096);
    assert_eq!(encode(vec![with_bias], 4096 + 128, 1), Err(FormatError::Flags(0)));
}

#[test]
fn imported_record_has_a_name_a_seed_and_a_place_only() {
    let fingerprint = Some(Fingerprint { id: 1, value: None });
    let of_algorithm =
        Entry { packing: Packing { seed: 5, fingerprint }, ..imported(Name::new("only"), 5, 4096) };
    let block = encode(vec![of_algorithm], 4096 + 128, 1).unwrap();
    assert_eq!(block, encode(vec![imported(Name::new("only"), 5, 4096)], 4096 + 128, 1).unwrap());
    let layout = |block: &[u8]| check(block, &Slot::of(1, 4096 + 128, block));
    let record = layout(&block).unwrap().records;
    // The model, the fingerprint, and all flags except the one that marks an imported entry.
    for bit in (8 * 36..8 * 48).chain(8 * 60..8 * 64).filter(|bit| *bit != 8 * 60 + 3) {
        let mut bytes = block.clone();
        bytes[record + bit / 8] ^= 1 << (bit % 8);
        assert!(layout(&bytes).is_err(), "bit {bit}");
    }
}

#[test]
fn imported_entry_is_found_by_model_or_as_unverified() {
    let [one, two, three] = [1, 2, 3].map(|byte| ModelId::from_bytes([byte; ModelId::LEN]));
    let of = |model, entry| Entry { model, ..entry };
    let fingerprint = Some(Fingerprint { id: 1, value: Some(2) });
    let entries = vec![
        of(one, imported(Name::new("wb"), 5, 4096)),
        of(two, imported(Name::new("wb"), 6, 4096 + 128)),
        imported(Name::new("wb"), 7, 4096 + 256),
        of(one, imported(Name::new("named"), 5, 4096 + 384)),
        // The same weight, as packed by another host.
        of(two, entry(Name::new("w").with_bias("b"), 5, 4096 + 512)),
    ];
    let block = encode(entries, 4096 + 640, 1).unwrap();
    let layout = check(&block, &Slot::of(1, 4096 + 640, &block)).unwrap();
    let index = layout.view(&block);
    index.verify().unwrap();
    let find = |name, model, seed, takes_unverified| {
        let wanted = WeightKey { name, model, packing: Packing { seed, fingerprint } };
        let found = index.look_up(&wanted);
        let found = found.or_else(|missed| index.after_miss(missed, &wanted, takes_unverified));
        found.map(|entry| entry.offset - 4096)
    };
    let (wb, named) = (Name::new("w").with_bias("b"), Name::new("named"));
    for takes_unverified in [false, true] {
        assert_eq!(find(wb, one, 5, takes_unverified), Ok(0), "what is stored as another's hides nothing");
        assert_eq!(find(wb, two, 6, takes_unverified), Ok(128));
        assert_eq!(find(wb, one, 6, takes_unverified), Err(MissReason::OtherModel));
        assert_eq!(find(wb, ModelId::default(), 7, takes_unverified), Ok(256));
        assert_eq!(find(named, one, 6, takes_unverified), Err(MissReason::OtherSeed));
        assert_eq!(find(named, three, 5, takes_unverified), Err(MissReason::OtherModel));
        assert_eq!(find(named, ModelId::default(), 5, takes_unverified), Err(MissReason::OtherModel));
    }
    assert_eq!((find(wb, three, 7, false), find(wb, three, 7, true)), (Err(MissReason::OtherModel), Ok(256)));
    // The file itself shows that another algorithm packs this weight now.
    let entries = vec![of(one, imported(Name::new("wb"), 5, 4096)), of(one, entry(wb, 5, 4096 + 128))];
    let block = encode(entries, 4096 + 256, 1).unwrap();
    let layout = check(&block, &Slot::of(1, 4096 + 256, &block)).unwrap();
    let wanted = WeightKey { name: wb, model: one, packing: Packing { seed: 5, fingerprint } };
    let missed = layout.view(&block).look_up(&wanted).unwrap_err();
    assert_eq!(missed, MissReason::OtherFingerprint);
    assert_eq!(layout.view(&block).after_miss(missed, &wanted, true), Err(missed));

    let look_up_imported = |seed, takes_unverified| {
        let wanted = WeightKey { name: wb, model: three, packing: Packing::of_seed(seed) };
        index.look_up_imported(&wanted, takes_unverified).map(|entry| entry.model)
    };
    assert_eq!(look_up_imported(7, false), Err(MissReason::UnverifiedModel));
    assert_eq!(look_up_imported(7, true), Ok(ModelId::default()));
    assert_eq!(look_up_imported(8, true), Err(MissReason::OtherSeed));
}
