//! Compares the listing of a store with that of a scenario.

use std::{collections::BTreeMap, ops::ControlFlow};

use warmstart::{
    Key,
    store::{Entry, Proof, Totals},
};

use crate::scenario::{
    player::{Player, reason},
    script::{Count, Damaged, ListedEntry, Verify},
    words::{Cap, FieldsOf, STANDARD},
};

impl<'a> Player<'a> {
    pub(super) fn verify(&self, verify: &'a Verify) {
        let name = |key| Key::digest(&self.bytes(key));
        let mut expected: Vec<_> = verify.whole.iter().map(|key| (name(key), Ok(()))).collect();
        let damaged = |Damaged { key, reason: why }: &'a Damaged| (name(key), Err(reason(why)));
        expected.extend(verify.damaged.iter().map(damaged));
        expected.sort_unstable();
        let mut found = Vec::new();
        let all = verify.whole.iter().chain(verify.damaged.iter().map(|damaged| &damaged.key));
        let mut sizes: Vec<_> = all.map(|key| (name(key), self.stored(key).len() as u64)).collect();
        sizes.sort_unstable();
        let mut read = Vec::new();
        let visit = &mut |proof: &Proof| {
            found.push((proof.digest, proof.result));
            read.push((proof.digest, proof.size));
        };
        let whole = self.store().inspect().unwrap().verify(visit).unwrap();
        read.sort_unstable();
        assert_eq!(read, sizes);
        found.sort_unstable();
        assert_eq!(found, expected);
        assert_eq!(whole, verify.whole.len() as u64);
    }

    pub(super) fn entries(&self, told: &'a [ListedEntry]) {
        let mut entries = Vec::new();
        let collect = &mut |entry| {
            entries.push(entry);
            ControlFlow::Continue(())
        };
        self.store().inspect().unwrap().entries(collect).unwrap();
        let bytes = entries.iter().map(|entry: &Entry| entry.size).sum();
        assert_eq!(
            self.store().inspect().unwrap().totals(),
            Ok(Totals { entries: entries.len() as u64, bytes })
        );

        let keys: Vec<_> = entries.iter().map(|entry| entry.head.clone().unwrap().key).collect();
        assert_eq!(keys, told.iter().map(|told| self.bytes(&told.key)).collect::<Vec<_>>());
        for (entry, told) in entries.iter().zip(told) {
            let head = entry.head.as_ref().unwrap();
            assert_eq!(entry.digest, Key::digest(&head.key));
            let Some(version) = told.version else { continue };
            let put = &self.versions[&(head.key.clone(), version)];
            assert_eq!((head.payload_len, head.provenance), (put.payload().len() as u64, put.provenance()));
            assert_eq!(head.metadata, put.metadata().unwrap());
            // A store counts what it keeps, and at most a little more.
            let least = head.payload_len + put.encoded_metadata().len() as u64 + head.key.len() as u64;
            assert!((least..least + least / 50 + 1024).contains(&entry.size), "{least}: {}", entry.size);
        }
    }

    pub(super) fn nearest(&self, to: &'a FieldsOf, is: Option<&'a FieldsOf>) {
        let found = self.store().inspect().unwrap().nearest(&to.fields(self.round).recipe()).unwrap();
        let recipe = found.map(|entry| entry.head.unwrap().metadata.recipe().cloned());
        assert_eq!(
            recipe.map(Option::unwrap),
            is.map(|is| is.fields(self.round).recipe()),
            "nearest to {to:?}"
        );
    }

    pub(super) fn prune(&self, to: Cap, removes: u64) {
        let before = self.store().inspect().unwrap().totals().unwrap();
        let pruned = self.store().inspect().unwrap().prune(to.into()).unwrap();
        let after = self.store().inspect().unwrap().totals().unwrap();
        assert_eq!(pruned.entries, removes);
        assert_eq!((before.entries, before.bytes), (after.entries + removes, after.bytes + pruned.bytes));
    }

    pub(super) fn statistics(&self, name: &str, count: &Count) {
        let statistics = self.cache().statistics();
        let found = match name {
            "misses" | "refusals" => {
                let of = if name == "misses" { statistics.misses } else { statistics.refusals };
                let found: BTreeMap<_, _> =
                    of.iter().map(|(reason, n)| (reason.as_str().to_owned(), n)).collect();
                assert!(matches!(count, Count::Reasons(reasons) if *reasons == found), "{name}: {found:?}");
                return;
            }
            "hits" => statistics.hits,
            "builds" => statistics.builds,
            "shared" => statistics.shared,
            "evictions" => statistics.evictions,
            "standards_read" => statistics.bytes_read / STANDARD,
            "standards_written" => statistics.bytes_written / STANDARD,
            "saved_ms" => statistics.saved_nanos / 1_000_000,
            _ => panic!("{name} is not counted"),
        };
        match count {
            Count::Is(n) => assert_eq!(found, *n, "{name}"),
            Count::AtLeast { at_least } => assert!(found >= *at_least, "{name}: {found}"),
            Count::Reasons(_) => panic!("{name} has no reasons"),
        }
    }
}
