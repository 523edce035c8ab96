//! Compares random operations with plain maps: the same answers at every step.

use alloc::{collections::BTreeMap, format, string::String, vec::Vec};

use super::*;

/// The claims with their values, and the first id of each pair.
#[derive(Default)]
struct Model {
    rows: BTreeMap<(RegistryId, String, i32), u64>,
    firsts: BTreeMap<(String, i32), RegistryId>,
}

impl Model {
    fn claims(&self, id: RegistryId) -> Vec<(&str, i32, u64)> {
        let rows =
            self.rows.range((id, String::new(), i32::MIN)..).take_while(|((other, ..), _)| *other == id);
        rows.map(|((_, kernel, task), value)| (kernel.as_str(), *task, *value)).collect()
    }

    fn add(&mut self, id: RegistryId, kernel: &str, task: i32, value: u64) {
        self.rows.insert((id, kernel.into(), task), value);
        self.firsts.entry((kernel.into(), task)).or_insert(id);
    }

    fn register(&mut self, kernel: &str, task: i32, value: u64) -> Option<RegistryId> {
        let known = self.firsts.get(&(kernel.into(), task)).copied();
        let mut ids = plain_probes(kernel, task).into_iter();
        let id = known.or_else(|| ids.find(|id| self.claims(*id).is_empty()))?;
        self.add(id, kernel, task, value);
        Some(id)
    }

    fn adopt(&mut self, id: RegistryId, kernel: &str, task: i32, value: u64) -> Option<()> {
        plain_probes(kernel, task).contains(&id).then(|| {
            self.add(id, kernel, task, value);
        })
    }

    fn remove(&mut self, id: RegistryId, kernel: &str, task: i32) -> Option<u64> {
        let value = self.rows.remove(&(id, kernel.into(), task))?;
        let pair = (String::from(kernel), task);
        if self.firsts.get(&pair) == Some(&id) {
            self.firsts.remove(&pair);
            let mut ids = plain_probes(kernel, task).into_iter();
            if let Some(next) = ids.find(|id| self.rows.contains_key(&(*id, kernel.into(), task))) {
                self.firsts.insert(pair, next);
            }
        }
        Some(value)
    }
}

fn plain_probes(kernel: &str, task: i32) -> Vec<RegistryId> {
    let home = u64::from(RegistryId::home(kernel, task).as_u32());
    (0..256).map(|steps| RegistryId::new(((home - 1 + steps) % 0xffff_ffff + 1) as u32).unwrap()).collect()
}

fn assert_agree(registry: &Registry<u64>, model: &Model, pairs: &[(String, i32)]) {
    let rows = registry.iter().map(|row| ((row.id(), row.kernel().into(), row.task()), *row.value()));
    assert_eq!(rows.collect::<BTreeMap<_, _>>(), model.rows);
    for (kernel, task) in pairs {
        assert_eq!(registry.id_of(kernel, *task), model.firsts.get(&(kernel.clone(), *task)).copied());
    }
    for ((id, kernel, task), value) in &model.rows {
        assert_eq!(registry.verify(*id, kernel, *task).map(Registered::value), Some(value));
        let row = |row: &Registered<u64>| (String::from(row.kernel()), row.task(), *row.value());
        let found = match registry.resolve(*id) {
            Resolution::Unknown => panic!("{id} is claimed"),
            Resolution::One(one) => vec![row(one)],
            Resolution::Several(rows) => rows.into_iter().map(row).collect(),
        };
        let expected =
            model.claims(*id).into_iter().map(|(kernel, task, value)| (kernel.into(), task, value));
        assert!(found.into_iter().eq(expected));
    }
}

#[test]
fn agrees_with_plain_maps() {
    let colliding = COLLIDING.iter().chain([&NEIGHBOUR]).map(|kernel| (String::from(*kernel), 0));
    let around_zero = LAST.iter().chain(&ZERO).map(|(kernel, task)| (String::from(*kernel), *task));
    // So many that some are distinguished only by their names.
    let others = (0..if cfg!(miri) { 10 } else { 300 }).map(|n| (format!("kernel{}", n / 3), n % 3));
    let pairs: Vec<_> = colliding.chain(around_zero).chain(others).collect();

    let (mut registry, mut model) = (Registry::new(), Model::default());
    let mut state = 1u64;
    let mut random = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    for step in 0..if cfg!(miri) { 40 } else { 20_000 } {
        // Pairs that collide are chosen more often than the others.
        let (kernel, task) = &pairs[if random(3) > 0 { random(10) } else { random(pairs.len()) }];
        let home = RegistryId::home(kernel, *task).as_u32();
        let steps = [0, 0, 1, 2, 3, 255, 256, u32::MAX][random(8)];
        let id = RegistryId::new(home.wrapping_add(steps)).unwrap_or(id(1));
        match random(8) {
            0 | 1 => {
                let expected = model.register(kernel, *task, step);
                assert_eq!(registry.register(kernel, *task, step).ok(), expected);
            }
            2..=4 => {
                let expected = model.adopt(id, kernel, *task, step);
                assert_eq!(registry.adopt(id, kernel, *task, step).ok(), expected);
            }
            _ => assert_eq!(registry.remove(id, kernel, *task), model.remove(id, kernel, *task)),
        }
        assert_eq!(registry.len(), model.rows.len());
        if step % 50 == 0 {
            assert_agree(&registry, &model, &pairs);
        }
    }
    assert_agree(&registry, &model, &pairs);
}
