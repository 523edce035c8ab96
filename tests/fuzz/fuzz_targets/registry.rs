//! A registry answers as plain maps do, whatever is registered, loaded and removed, also under names that collide.
#![no_main]

use std::collections::BTreeMap;

use libfuzzer_sys::{arbitrary, arbitrary::Arbitrary, fuzz_target};
use warmstart_core::registry::{Registered, Registry, RegistryError, RegistryId, Resolution};

#[derive(Arbitrary, Debug)]
enum Step<'a> {
    Register(Pair<'a>),
    /// Under an id so many steps from the pair's home.
    Adopt(Pair<'a>, Steps),
    /// Under any id.
    AdoptAny(Pair<'a>, u32),
    /// Adopts a known row, as each launch does.
    Launch(u16),
    Remove(u16),
    RemoveAny(Pair<'a>, Steps),
    /// The rest goes on in another process, which loads what this one knows, from some row on or backwards.
    Reload {
        from: u16,
        backwards: bool,
    },
    /// The pair takes all ids from some on, so that none is left for others.
    Fill(Pair<'a>, u8),
}

#[derive(Arbitrary, Debug)]
enum Pair<'a> {
    Known(u8),
    Any(&'a str, i8),
}

#[derive(Arbitrary, Debug)]
enum Steps {
    Few(u8),
    Edge(i8),
}

/// Kernels and tasks with known hashes. The first three have the same home, and the fourth the id after it; then two tasks of one
/// kernel have the same. Of the last six, three begin at the last id, and three at the first, because their hash is 0.
const KNOWN: [(&str, i32); 15] = [
    ("k10823927", 0),
    ("k21347034", 0),
    ("k40743126", 0),
    ("k35771206", 0),
    ("compute_grad", 1_260_656),
    ("compute_grad", 1_307_696),
    ("compute_grad", 3),
    ("compute_grad", -1),
    ("", 0),
    ("wrap", 724_954_803),
    ("edge", 1_667_497_973),
    ("edge", -445_028_995),
    ("wrap", 318_291_937),
    ("wrap", -796_394_283),
    ("halo", 97_313_741),
];

impl<'a> Pair<'a> {
    fn parts(&self) -> (&'a str, i32) {
        match *self {
            Pair::Known(at) => KNOWN[usize::from(at) % KNOWN.len()],
            Pair::Any(kernel, task) => (kernel, task.into()),
        }
    }
}

impl Steps {
    fn from(&self, home: RegistryId) -> RegistryId {
        let steps = match *self {
            Self::Few(steps) => u64::from(steps % 8),
            // Around the last that is allowed, and around the home itself.
            Self::Edge(steps) if steps % 2 == 0 => 255u64.wrapping_add_signed((steps / 32).into()),
            Self::Edge(steps) => u64::from(u32::MAX).wrapping_add_signed((steps / 32).into()),
        };
        plain_step(home, steps)
    }
}

type Row<'a> = (RegistryId, &'a str, i32);

#[derive(Default)]
struct Model<'a> {
    rows: BTreeMap<Row<'a>, usize>,
    /// The first id of each pair.
    firsts: BTreeMap<(&'a str, i32), RegistryId>,
}

fuzz_target!(|steps: Vec<Step<'_>>| {
    let (mut registry, mut model) = (Registry::new(), Model::default());
    for (value, step) in steps.iter().enumerate() {
        match step {
            Step::Register(pair) => register(&mut registry, &mut model, pair.parts(), value),
            Step::Adopt(pair, steps) => {
                let (kernel, task) = pair.parts();
                let id = steps.from(RegistryId::home(kernel, task));
                adopt(&mut registry, &mut model, (id, kernel, task), value);
            }
            Step::AdoptAny(pair, id) => {
                let ((kernel, task), id) =
                    (pair.parts(), RegistryId::new((*id).max(1)).expect("it is not 0"));
                adopt(&mut registry, &mut model, (id, kernel, task), value);
            }
            Step::Launch(at) => {
                if let Some(row) = model.nth(*at) {
                    adopt(&mut registry, &mut model, row, value);
                }
            }
            Step::Remove(at) => {
                if let Some(row) = model.nth(*at) {
                    remove(&mut registry, &mut model, row);
                }
            }
            Step::RemoveAny(pair, steps) => {
                let (kernel, task) = pair.parts();
                let id = steps.from(RegistryId::home(kernel, task));
                remove(&mut registry, &mut model, (id, kernel, task));
            }
            Step::Reload { from, backwards } => {
                let mut rows: Vec<_> = std::mem::take(&mut model).rows.into_keys().collect();
                let from = usize::from(*from) % rows.len().max(1);
                rows.rotate_left(from);
                if *backwards {
                    rows.reverse();
                }
                registry = Registry::new();
                rows.into_iter().for_each(|row| adopt(&mut registry, &mut model, row, value));
            }
            Step::Fill(pair, from) => {
                let (kernel, task) = pair.parts();
                let home = RegistryId::home(kernel, task);
                for steps in u64::from(*from)..256 {
                    adopt(&mut registry, &mut model, (plain_step(home, steps), kernel, task), value);
                }
            }
        }
    }
    assert_agree(&registry, &model);
});

fn register<'a>(
    registry: &mut Registry<usize>,
    model: &mut Model<'a>,
    (kernel, task): (&'a str, i32),
    value: usize,
) {
    let home = RegistryId::home(kernel, task);
    let known = model.firsts.get(&(kernel, task)).copied();
    let mut ids = (0..256).map(|steps| plain_step(home, steps));
    let expected = match known.or_else(|| ids.find(|id| model.claims(*id).next().is_none())) {
        _ if kernel.is_empty() => Err(RegistryError::EmptyKernel),
        Some(id) => Ok(id),
        None => Err(RegistryError::Full { home }),
    };
    assert_eq!(registry.register(kernel, task, value), expected);
    if let Ok(id) = expected {
        assert!(known.is_some() || registry.resolve(id).one().is_some(), "the id belongs to another kernel");
        model.add((id, kernel, task), value);
    }
    assert_agree_on(registry, model, kernel, task);
}

fn adopt<'a>(registry: &mut Registry<usize>, model: &mut Model<'a>, row: Row<'a>, value: usize) {
    let (id, kernel, task) = row;
    let home = RegistryId::home(kernel, task);
    let expected = if kernel.is_empty() {
        Err(RegistryError::EmptyKernel)
    } else if (0..256).all(|steps| plain_step(home, steps) != id) {
        Err(RegistryError::IdOfAnotherName { id, home })
    } else {
        model.add(row, value);
        Ok(())
    };
    assert_eq!(registry.adopt(id, kernel, task, value), expected);
    assert_agree_on(registry, model, kernel, task);
}

fn remove<'a>(registry: &mut Registry<usize>, model: &mut Model<'a>, row: Row<'a>) {
    let (id, kernel, task) = row;
    let expected = model.rows.remove(&row);
    if expected.is_some() && model.firsts.get(&(kernel, task)) == Some(&id) {
        let home = RegistryId::home(kernel, task);
        let mut ids = (0..256).map(|steps| plain_step(home, steps));
        match ids.find(|id| model.rows.contains_key(&(*id, kernel, task))) {
            Some(next) => model.firsts.insert((kernel, task), next),
            None => model.firsts.remove(&(kernel, task)),
        };
    }
    assert_eq!(registry.remove(id, kernel, task), expected);
    assert_agree_on(registry, model, kernel, task);
}

fn assert_agree_on(registry: &Registry<usize>, model: &Model<'_>, kernel: &str, task: i32) {
    assert_eq!(registry.id_of(kernel, task), model.firsts.get(&(kernel, task)).copied());
    assert_eq!(registry.len(), model.rows.len());
}

fn assert_agree(registry: &Registry<usize>, model: &Model<'_>) {
    let parts = |row: &Registered<usize>| *row.value();
    for (row @ (id, kernel, task), value) in &model.rows {
        assert_eq!(registry.verify(*id, kernel, *task).map(parts), Some(*value));
        let only = registry.resolve(*id).among(|found| (found.id(), found.kernel(), found.task()) == *row);
        assert_eq!(only.one().map(parts), Some(*value));
        let found = match registry.resolve(*id) {
            Resolution::Unknown => panic!("{id} is claimed"),
            Resolution::One(row) => vec![parts(row)],
            Resolution::Several(rows) => rows.into_iter().map(parts).collect(),
        };
        assert!(found.into_iter().eq(model.claims(*id).copied()));
    }
    assert!(model.firsts.iter().all(|((kernel, task), id)| registry.id_of(kernel, *task) == Some(*id)));
    let rows: BTreeMap<_, _> =
        registry.iter().map(|row| ((row.id(), row.kernel(), row.task()), *row.value())).collect();
    assert_eq!(rows, model.rows);
}

impl<'a> Model<'a> {
    fn add(&mut self, row: Row<'a>, value: usize) {
        let (id, kernel, task) = row;
        self.rows.insert(row, value);
        self.firsts.entry((kernel, task)).or_insert(id);
    }

    /// The values of the rows of an id, by kernel and task.
    fn claims(&self, id: RegistryId) -> impl Iterator<Item = &usize> {
        let rows = self.rows.range((id, "", i32::MIN)..);
        rows.take_while(move |((other, ..), _)| *other == id).map(|(_, value)| value)
    }

    fn nth(&self, at: u16) -> Option<Row<'a>> {
        let at = usize::from(at) % self.rows.len().max(1);
        self.rows.keys().nth(at).copied()
    }
}

/// Returns the id this many steps on, wrapping around and skipping 0.
fn plain_step(id: RegistryId, steps: u64) -> RegistryId {
    let number = (u64::from(id.as_u32()) - 1 + steps) % u64::from(u32::MAX) + 1;
    u32::try_from(number).ok().and_then(RegistryId::new).expect("it is from 1 to 2^32 - 1")
}
