//! The cost of looking into the registry, and the memory of a row.

use hashbrown::{Equivalent, HashMap};
use warmstart_core::registry::{Registry, RegistryId};
use warmstart_tests::counting::bytes_held;

use crate::{
    Rows,
    measure::Plan,
    row::{Compared, Row, Sense},
};

/// A kernel's tasks in these rows.
const TASKS: usize = 4;

/// A row and what it is asked by.
#[derive(Clone, Debug)]
struct Asked {
    id: RegistryId,
    kernel: String,
    task: i32,
}

/// Kernel and task, borrowed. It hashes as the owned pair does.
#[derive(Debug, Hash)]
struct Pair<'a>(&'a str, i32);

impl Equivalent<(Box<str>, i32)> for Pair<'_> {
    fn equivalent(&self, (kernel, task): &(Box<str>, i32)) -> bool {
        self.1 == *task && *self.0 == **kernel
    }
}

/// The hasher that hashbrown's tables have by default.
type Hasher = foldhash::fast::RandomState;

/// The rows of looking up, by an id with the identity verified, and by the identity. The peers are two tables of hashbrown's with
/// the same rows; neither knows of ids that several claim.
pub(super) fn rows(plan: &Plan) -> Rows {
    let mut rows = Vec::new();
    for count in [100, 100_000] {
        let (registry, held) = build(count)?;
        let mut by_id: HashMap<u32, (Box<str>, i32), Hasher> = HashMap::default();
        let mut by_pair: HashMap<(Box<str>, i32), u32, Hasher> = HashMap::default();
        for row in registry.iter() {
            by_id.insert(row.id().as_u32(), (row.kernel().into(), row.task()));
            by_pair.insert((row.kernel().into(), row.task()), row.id().as_u32());
        }
        let asked = in_any_order(&registry);
        let at = |call: u64| &asked[call as usize % asked.len()];
        let verify = |call| {
            let Asked { id, kernel, task } = at(call);
            registry.verify(*id, kernel, *task).expect("every row was registered")
        };
        let verify_in_table = |call| {
            let Asked { id, kernel, task } = at(call);
            let found = by_id.get(&id.as_u32()).filter(|found| found.1 == *task && *found.0 == **kernel);
            found.expect("every row was inserted")
        };
        let name = format!("registry_look_up/{count}");
        rows.extend(plan.compare(verify, verify_in_table).rows(&name, "hashbrown", 1.5));
        let find = |call| {
            let Asked { kernel, task, .. } = at(call);
            registry.id_of(kernel, *task).expect("every row was registered")
        };
        let find_in_table = |call| {
            let Asked { kernel, task, .. } = at(call);
            *by_pair.get(&Pair(kernel, *task)).expect("every row was inserted")
        };
        let compared = plan.compare(find, find_in_table);
        rows.extend(compared.rows(&format!("{name}/by_name"), "hashbrown", 1.5));
        let memory = |name, bytes| Row::bounded(name, (bytes, "B"), "beside the name", Sense::AtMost, 96.0);
        rows.push(memory(format!("registry_memory/{count}"), held.last));
        if count > 100 {
            rows.push(memory(format!("registry_memory/100_to_{count}/most"), held.most));
        }
    }
    Ok(rows)
}

/// The bytes of a row without its name.
#[derive(Clone, Copy, Debug)]
struct Held {
    /// When all rows were there.
    last: f64,
    /// The most, from a hundred rows on: tables have just grown then.
    most: f64,
}

fn build(count: usize) -> Result<(Registry, Held), Box<dyn std::error::Error>> {
    let mut registry = Registry::new();
    let (mut last, mut most) = (0.0, 0.0f64);
    let (mut names, mut counted) = (0, 0);
    for n in 0..count {
        let (kernel, task) = name(n);
        let before = bytes_held();
        registry.register(&kernel, task, ())?;
        counted += bytes_held() - before;
        names += kernel.len() as i64;
        last = (counted - names) as f64 / (n + 1) as f64;
        if n + 1 >= 100 {
            most = most.max(last);
        }
    }
    Ok((registry, Held { last, most }))
}

/// A name as a compiler makes it, and a task.
fn name(n: usize) -> (String, i32) {
    (format!("substep_c{}_0_kernel", n / TASKS), (n % TASKS) as i32)
}

/// Every row, in an order that has nothing to do with the one in which they came. The names lie in this order, so what is slow to
/// reach is what is looked up, not what is asked by.
fn in_any_order(registry: &Registry) -> Vec<Asked> {
    let mut rows: Vec<_> = registry.iter().collect();
    let mut random = 0x9e37_79b9_7f4a_7c15u64;
    for last in (1..rows.len()).rev() {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        rows.swap(last, (random >> 33) as usize % (last + 1));
    }
    rows.iter().map(|row| Asked { id: row.id(), kernel: row.kernel().to_owned(), task: row.task() }).collect()
}
