//! The rules of ids, and the failures of caches whose registry broke them.

use alloc::{format, string::ToString, vec, vec::Vec};

use super::*;

mod model;

/// Three kernels whose task 0 has the same home, and one whose home is the id after it.
const COLLIDING: [&str; 3] = ["k10823927", "k21347034", "k40743126"];
const HOME: u32 = 0x28a2_1403;
const NEIGHBOUR: &str = "k35771206";

/// Two tasks of one kernel that have the same home.
const TASKS: (&str, [i32; 2]) = ("compute_grad", [1_260_656, 1_307_696]);

/// Pairs whose home is the last id.
const LAST: [(&str, i32); 3] = [("wrap", 724_954_803), ("edge", 1_667_497_973), ("edge", -445_028_995)];

/// Pairs whose hash is 0, which is not an id.
const ZERO: [(&str, i32); 3] = [("wrap", 318_291_937), ("wrap", -796_394_283), ("halo", 97_313_741)];

/// The data stored with code: the id in it, and its kernel and task.
type Artifact = (RegistryId, &'static str, i32);

fn id(number: u32) -> RegistryId {
    RegistryId::new(number).unwrap()
}

/// Returns the artifacts of a process that compiles task 0 of each of these kernels, in this order.
fn compiled(kernels: &[&'static str]) -> Vec<Artifact> {
    let mut registry = Registry::new();
    kernels.iter().map(|kernel| (registry.register(kernel, 0, ()).unwrap(), *kernel, 0)).collect()
}

fn load(registry: &mut Registry, artifacts: &[Artifact]) {
    for (id, kernel, task) in artifacts {
        registry.adopt(*id, kernel, *task, ()).unwrap();
    }
}

/// Asserts that each artifact's id resolves to it, alone or among several rows, and to it alone if only its kernel was
/// launched.
fn assert_all_resolve(registry: &Registry, artifacts: &[Artifact]) {
    for (id, kernel, task) in artifacts {
        let row = registry.verify(*id, kernel, *task).unwrap();
        match registry.resolve(*id) {
            Resolution::Unknown => panic!("{id} of {kernel} is not known"),
            Resolution::One(found) => assert_eq!(found, row),
            Resolution::Several(rows) => assert!(rows.contains(&row) && rows.len() > 1),
        }
        let launched = |row: &Registered| row.kernel() == *kernel && row.task() == *task;
        assert_eq!(registry.resolve(*id).among(|row| launched(row)), Resolution::One(row));
    }
}

/// All orders of three items.
const ORDERS: [[usize; 3]; 6] = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];

#[test]
fn ids_are_bit_for_bit_those_of_the_vectors() {
    for (kernel, task, number) in [
        ("", 0, 0xd968_e745),
        ("a", 0, 0xfc53_7d11),
        ("compute_grad", 3, 0xd561_9350),
        ("compute_other", 3, 0x12b4_cff7),
        ("compute_grad", -1, 0xabef_c1e1),
        ("k", 1, 0x1fb4_fa78),
        ("k:", 1, 0xa56e_2997),
    ] {
        assert_eq!(RegistryId::home(kernel, task), id(number), "{kernel}, {task}");
    }
    const { assert!(RegistryId::home("compute_grad", 3).as_u32() == 0xd561_9350) };
}

#[test]
fn the_names_of_these_tests_collide() {
    assert!(COLLIDING.iter().all(|kernel| RegistryId::home(kernel, 0) == id(HOME)));
    assert_eq!(RegistryId::home(NEIGHBOUR, 0), id(HOME + 1));
    let (kernel, [one, other]) = TASKS;
    assert_eq!(RegistryId::home(kernel, one), RegistryId::home(kernel, other));
    assert!(LAST.iter().all(|(kernel, task)| RegistryId::home(kernel, *task) == id(u32::MAX)));
}

#[test]
fn an_id_is_never_zero() {
    assert_eq!(RegistryId::new(0), None);
    for (kernel, task) in ZERO {
        assert_eq!(RegistryId::home(kernel, task), id(1));
    }
    assert_eq!(id(1).to_string(), "0x00000001");
}

#[test]
fn a_taken_slot_is_probed() {
    let mut registry = Registry::new();
    let mut register = |kernel| registry.register(kernel, 0, ()).unwrap().as_u32() - HOME;
    assert_eq!(register(COLLIDING[0]), 0);
    assert_eq!(register(COLLIDING[1]), 1);
    assert_eq!(register(NEIGHBOUR), 2, "its home is taken by one that was probed");
    assert_eq!(register(COLLIDING[2]), 3);
}

#[test]
fn probing_passes_over_zero() {
    let mut registry = Registry::new();
    let pairs = LAST.into_iter().chain(ZERO);
    let ids: Vec<_> =
        pairs.map(|(kernel, task)| registry.register(kernel, task, ()).unwrap().as_u32()).collect();
    assert_eq!(ids, [u32::MAX, 1, 2, 3, 4, 5]);
}

#[test]
fn the_same_pair_is_updated_in_place_and_keeps_its_id() {
    let mut registry = Registry::new();
    let ids = COLLIDING.map(|kernel| registry.register(kernel, 0, "first").unwrap());
    for (kernel, id) in COLLIDING.into_iter().zip(ids) {
        assert_eq!(registry.register(kernel, 0, "second"), Ok(id));
        assert_eq!(registry.verify(id, kernel, 0).map(Registered::value), Some(&"second"));
    }
    assert_eq!(registry.len(), 3);
}

#[test]
fn a_pair_keeps_its_id_when_others_claim_it_too() {
    let mut registry = Registry::new();
    let [ours, theirs, _] = COLLIDING;
    let id = registry.register(ours, 0, ()).unwrap();
    assert_eq!(registry.adopt(id, theirs, 0, ()), Ok(()));
    assert_eq!(registry.register(ours, 0, ()), Ok(id), "it is in code already");
    assert_eq!(registry.register(theirs, 0, ()), Ok(id), "it is in code already");
}

#[test]
fn colliding_tasks_of_one_kernel_get_different_ids() {
    let mut registry = Registry::new();
    let (kernel, tasks) = TASKS;
    let [one, other] = tasks.map(|task| registry.register(kernel, task, ()).unwrap());
    assert_eq!(other.as_u32(), one.as_u32() + 1);
    assert!(
        registry.verify(one, kernel, tasks[1]).is_none() && registry.verify(one, kernel, tasks[0]).is_some()
    );
    assert_eq!(registry.resolve(other).one().map(Registered::task), Some(tasks[1]));
    assert_eq!(registry.len(), 2);
}

/// In the original, all tasks without a kernel's name shared one slot.
#[test]
fn an_empty_kernel_name_is_refused() {
    let mut registry = Registry::new();
    for task in [0, 1, -1] {
        let home = RegistryId::home("", task);
        assert_eq!(registry.register("", task, ()), Err(RegistryError::EmptyKernel));
        assert_eq!(registry.adopt(home, "", task, ()), Err(RegistryError::EmptyKernel));
        assert_eq!(registry.resolve(home), Resolution::Unknown);
    }
    assert!(registry.is_empty());
}

/// In the original, the kernel that was loaded last had the id.
#[test]
fn same_id_of_two_processes_never_resolves_to_the_wrong_kernel() {
    let [one, other, _] = COLLIDING;
    let (mine, yours) = (compiled(&[one]), compiled(&[other]));
    assert_eq!((mine[0].0, yours[0].0), (id(HOME), id(HOME)), "both are unprobed");
    for [first, second] in [[&mine, &yours], [&yours, &mine]] {
        let mut registry = Registry::new();
        load(&mut registry, first);
        assert_all_resolve(&registry, first);
        assert!(registry.verify(id(HOME), second[0].1, 0).is_none(), "an id alone is a hint");
        load(&mut registry, second);
        assert_all_resolve(&registry, first);
        assert_all_resolve(&registry, second);
        let rows = [one, other].map(|kernel| registry.verify(id(HOME), kernel, 0).unwrap());
        assert_eq!(registry.resolve(id(HOME)), Resolution::Several(rows.to_vec()));
        assert_eq!(
            registry.resolve(id(HOME)).to_string(),
            format!("kernel `{one}`, task 0 or kernel `{other}`, task 0")
        );
    }
}

#[test]
fn kernels_of_two_other_processes_and_this_one_resolve() {
    let [one, other, ours] = COLLIDING;
    let loaded = [compiled(&[one]), compiled(&[other])];
    // Ours is compiled before the others are loaded, between them, or after them.
    for when in 0..3 {
        let mut registry = Registry::new();
        let mut all = Vec::new();
        for at in 0..3 {
            if at == when {
                all.push((registry.register(ours, 0, ()).unwrap(), ours, 0));
            }
            if let Some(artifacts) = loaded.get(at) {
                load(&mut registry, artifacts);
                all.extend(artifacts);
            }
        }
        assert_all_resolve(&registry, &all);
        let of_ours = registry.id_of(ours, 0).unwrap().as_u32();
        assert_eq!(of_ours, if when == 0 { HOME } else { HOME + 1 });
    }
}

/// In the original, the order in which a process met its kernels decided which ids could be found.
#[test]
fn compiled_and_loaded_kernels_resolve_in_any_order() {
    for compiling in ORDERS {
        let artifacts = compiled(&compiling.map(|at| COLLIDING[at]));
        for loading in ORDERS {
            let mut registry = Registry::new();
            load(&mut registry, &loading.map(|at| artifacts[at]));
            assert_all_resolve(&registry, &artifacts);
            assert!(artifacts.iter().all(|(id, ..)| registry.resolve(*id).one().is_some()));
        }
        // A process that compiled the same kernels in another order, so that it gave them each other's ids.
        for other in ORDERS {
            let others = compiled(&other.map(|at| COLLIDING[at]));
            let mut registry = Registry::new();
            load(&mut registry, &artifacts);
            load(&mut registry, &others);
            assert_all_resolve(&registry, &artifacts);
            assert_all_resolve(&registry, &others);
        }
    }
}

#[test]
fn a_pair_is_known_under_no_id_but_those_it_claims() {
    let (mut registry, kernel) = (Registry::new(), COLLIDING[0]);
    registry.register(kernel, 0, ()).unwrap();
    for other in id(HOME).probes().skip(1) {
        assert_eq!(registry.verify(other, kernel, 0), None);
        assert_eq!(registry.resolve(other), Resolution::Unknown);
        assert_eq!(registry.remove(other, kernel, 0), None);
    }
    assert_eq!(registry.len(), 1);
}

#[test]
fn an_id_that_anybody_claims_is_not_given_out() {
    let mut registry = Registry::new();
    let [one, other, third] = COLLIDING;
    registry.adopt(id(HOME + 1), one, 0, ()).unwrap();
    registry.adopt(id(HOME + 1), other, 0, ()).unwrap();
    assert_eq!(registry.register(NEIGHBOUR, 0, ()), Ok(id(HOME + 2)));
    assert_eq!(registry.register(third, 0, ()), Ok(id(HOME)));
}

/// In the original, the registry was empty after a reload, so that the message had no name.
#[test]
fn overflow_of_reloaded_code_names_kernel_and_task() {
    let mut compiling = Registry::new();
    let id = compiling.register("compute_grad", 3, ()).unwrap();
    let mut registry = Registry::new();
    assert_eq!(registry.resolve(id), Resolution::Unknown);
    assert_eq!(registry.adopt(id, "compute_grad", 3, ()), Ok(()));
    let message = |registry: &Registry| format!("an overflow in {}", registry.resolve(id));
    assert_eq!(message(&registry), "an overflow in kernel `compute_grad`, task 3");
    assert_eq!(message(&registry), message(&compiling));
}

/// In the original, a dispatcher skipped everything without an id, and after a reload nothing had one.
#[test]
fn as_much_is_dispatched_after_a_reload_as_on_a_fresh_run() {
    const LAUNCHES: usize = 30;
    let dispatched = |registry: &Registry, (id, kernel, task): Artifact| {
        usize::from(
            registry.verify(id, kernel, task).is_some() && registry.resolve(id) != Resolution::Unknown,
        )
    };
    let kernels = [COLLIDING[0], COLLIDING[1], COLLIDING[2], NEIGHBOUR, "compute_grad"];
    let mut artifacts = Vec::new();

    let (mut fresh, mut registry) = (0, Registry::new());
    for launch in 0..LAUNCHES {
        let kernel = kernels[launch % kernels.len()];
        let artifact = (registry.register(kernel, 0, ()).unwrap(), kernel, 0);
        if launch < kernels.len() {
            artifacts.push(artifact);
        }
        assert!(artifacts.contains(&artifact));
        fresh += dispatched(&registry, artifact);
    }

    let (mut reloaded, mut registry) = (0, Registry::new());
    for launch in (0..LAUNCHES).rev() {
        let (id, kernel, task) = artifacts[launch % artifacts.len()];
        registry.adopt(id, kernel, task, ()).unwrap();
        reloaded += dispatched(&registry, (id, kernel, task));
    }
    assert_eq!((fresh, reloaded), (LAUNCHES, LAUNCHES));
    assert_eq!(registry.len(), kernels.len());
}

#[test]
fn adopting_again_replaces_the_value_and_nothing_else() {
    let mut registry = Registry::new();
    let [one, other, _] = COLLIDING;
    assert_eq!(registry.adopt(id(HOME), one, 0, 1), Ok(()));
    assert_eq!(registry.adopt(id(HOME), one, 0, 2), Ok(()));
    assert_eq!(registry.adopt(id(HOME), other, 0, 3), Ok(()));
    assert_eq!(registry.adopt(id(HOME), one, 0, 4), Ok(()));
    assert_eq!(registry.len(), 2);
    let value = |kernel| registry.verify(id(HOME), kernel, 0).map(|row| *row.value());
    assert_eq!((value(one), value(other)), (Some(4), Some(3)));
}

#[test]
fn an_id_that_no_registry_gives_to_the_name_is_refused() {
    for (kernel, task) in [(COLLIDING[0], 0), LAST[0], ZERO[0]] {
        let home = RegistryId::home(kernel, task);
        let last = home.probes().last().unwrap();
        let before = home.as_u32().checked_sub(1).and_then(RegistryId::new).unwrap_or(id(u32::MAX));
        let after = last.probes().nth(1).unwrap();
        let mut registry = Registry::new();
        for id in [before, after] {
            let refused = RegistryError::IdOfAnotherName { id, home };
            assert_eq!(registry.adopt(id, kernel, task, ()), Err(refused));
        }
        assert!(registry.is_empty());
        assert_eq!(registry.adopt(last, kernel, task, ()), Ok(()));
    }
    assert_eq!(id(HOME).probes().last(), RegistryId::new(HOME + 255));
    assert_eq!(id(u32::MAX).probes().last(), RegistryId::new(255));
}

#[test]
fn when_all_ids_of_a_name_are_claimed_it_is_refused() {
    let [one, other, _] = COLLIDING;
    let mut registry = Registry::new();
    let mut claimed: Vec<_> = id(HOME).probes().collect();
    let free = claimed.remove(200);
    for id in &claimed {
        registry.adopt(*id, one, 0, ()).unwrap();
    }
    assert_eq!(registry.register(other, 0, ()), Ok(free), "the last one that is left");
    assert_eq!(registry.register(COLLIDING[2], 0, ()), Err(RegistryError::Full { home: id(HOME) }));
    assert_eq!(registry.register(other, 0, ()), Ok(free), "it is known");
    assert_eq!(registry.len(), 256);
}

#[test]
fn a_pair_of_several_ids_keeps_its_first_until_that_is_removed() {
    let kernel = COLLIDING[0];
    let mut registry = Registry::new();
    for steps in [7, 0, 255, 3] {
        registry.adopt(id(HOME + steps), kernel, 0, steps).unwrap();
    }
    for (first, at_home) in [(7, true), (0, true), (3, false), (255, false)] {
        assert_eq!(registry.id_of(kernel, 0), Some(id(HOME + first)));
        assert_eq!(registry.register(kernel, 0, first + 1000), Ok(id(HOME + first)));
        let home = registry.verify(id(HOME), kernel, 0);
        assert_eq!(home.is_some(), at_home, "each row is one of its own");
        assert_eq!(registry.remove(id(HOME + first), kernel, 0), Some(first + 1000));
    }
    assert_eq!((registry.id_of(kernel, 0), registry.len()), (None, 0));
    assert_eq!(registry.register(kernel, 0, 0), Ok(id(HOME)));
}

#[test]
fn removed_row_no_longer_claims_its_id() {
    let mut registry = Registry::new();
    let [one, other, third] = COLLIDING;
    for kernel in COLLIDING {
        registry.adopt(id(HOME), kernel, 0, kernel).unwrap();
    }
    assert_eq!(registry.remove(id(HOME), one, 1), None);
    assert_eq!(registry.remove(id(HOME + 1), one, 0), None);
    assert_eq!(registry.remove(id(HOME), one, 0), Some(one));
    assert_eq!(registry.remove(id(HOME), one, 0), None);
    assert!(matches!(registry.resolve(id(HOME)), Resolution::Several(rows) if rows.len() == 2));
    assert_eq!(registry.remove(id(HOME), third, 0), Some(third));
    assert_eq!(registry.resolve(id(HOME)).one().map(Registered::kernel), Some(other));
    assert_eq!(registry.remove(id(HOME), other, 0), Some(other));
    assert_eq!(registry.resolve(id(HOME)), Resolution::Unknown);
    assert_eq!(registry.register(one, 0, one), Ok(id(HOME)));
}

#[test]
fn resolution_among_launched_kernels_names_only_those() {
    let mut registry = Registry::new();
    let artifacts = COLLIDING.map(|kernel| (id(HOME), kernel, 0));
    load(&mut registry, &artifacts);
    registry.register(NEIGHBOUR, 0, ()).unwrap();
    let among = |launched: &[&str]| {
        let found = registry.resolve(id(HOME)).among(|row| launched.contains(&row.kernel()));
        found.to_string()
    };
    assert_eq!(among(&[COLLIDING[1], NEIGHBOUR]), "kernel `k21347034`, task 0");
    assert_eq!(
        among(&[COLLIDING[2], COLLIDING[0]]),
        "kernel `k10823927`, task 0 or kernel `k40743126`, task 0"
    );
    assert_eq!(among(&[NEIGHBOUR]), "a kernel that is not registered");
    let alone = registry.resolve(id(HOME + 1));
    assert_eq!(alone.clone().among(|row| row.kernel() == NEIGHBOUR), alone);
    assert_eq!(alone.among(|row| row.kernel() == COLLIDING[0]), Resolution::Unknown);
}

#[test]
fn rows_iterate_in_the_order_of_registration() {
    let mut registry = Registry::new();
    let pairs = [("b", 1), ("a", 2), ("b", 0), ("c", 0)];
    for (at, (kernel, task)) in (0..).zip(pairs) {
        registry.register(kernel, task, at).unwrap();
    }
    assert!(registry.iter().map(|row| (row.kernel(), row.task())).eq(pairs));
    assert_eq!(format!("{registry:?}").matches("kernel: \"").count(), 4);
}

#[test]
fn errors_say_what_to_do() {
    let home = id(HOME);
    for (error, told) in [
        (RegistryError::EmptyKernel, vec!["give it one"]),
        (
            RegistryError::IdOfAnotherName { id: id(5), home },
            vec!["0x00000005", "0x28a21403", "compile it again"],
        ),
        (RegistryError::Full { home }, vec!["0x28a21403", "255", "remove", "rename"]),
    ] {
        let text = error.to_string();
        assert!(told.iter().all(|part| text.contains(part)), "{text}");
    }
}
