//! What a hit costs, by the number of distinct things that the result depends on.

use std::{ptr, sync::Arc, thread};

use warmstart::memo::Handle;
use warmstart_tests::counting::requests_of;

use super::{
    floor::Floor,
    scene::{Gate, Memo, Scene},
};
use crate::{
    Rows,
    measure::Plan,
    row::{Row, Sense},
};

/// The numbers of dependencies that are measured.
const DEPENDENCIES: [usize; 4] = [1, 10, 100, 600];

/// What a hit may take: nanoseconds with so many dependencies.
fn bound(dependencies: usize) -> f64 {
    1.5f64.mul_add(dependencies as f64, 25.0)
}

/// How many hits are looked at for allocations and copies.
const HITS: usize = 1000;

/// How many results take turns in the row that does not find them in the nearest cache.
const HANDLES: usize = 64;

/// The rows of hits: of a launch, and of dropping what it returned. A launch says anew each time what its arguments are.
///
/// The floor looks at as many generations in one list and clones an `Arc`.
pub(super) fn rows<M: Memo>(plan: &Plan) -> Rows {
    let mut rows = Vec::new();
    for dependencies in DEPENDENCIES {
        let name = format!("hit/{dependencies}/{}", M::NAME);
        let scene = Scene::new(dependencies);
        let memo = M::default();
        let handles: Vec<_> = (0..HANDLES).map(|_| memo.register(scene.kernel())).collect();
        for &handle in &handles {
            let first = memo.launch(handle, &scene.launch());
            if first.is_hit() || first.unkept().is_some() || first.dependencies().len() != dependencies {
                return Err(format!("{name}: {first:?} is not what was to be measured").into());
            }
        }
        let hot = handles[0];
        let floor = Floor::new(dependencies, memo.launch(hot, &scene.launch()).to_vec());
        let hit = plan.compare(|_| memo.launch(hot, &scene.launch()), |_| floor.hit());
        let turns = plan
            .compare(|call| memo.launch(handles[call as usize % HANDLES], &scene.launch()), |_| floor.hit());
        let (misses, requests, copies) = beside_time(&memo, hot, &scene);
        if misses > 0 {
            return Err(format!("{name}: {misses} launches were no hits").into());
        }
        let promise =
            |name, value, unit, bound| Row::bounded(name, (value, unit), "none", Sense::AtMost, bound);
        rows.extend([
            Row::bounded(&name, (hit.subject_ns, "ns"), "25 + 1.5 D", Sense::AtMost, bound(dependencies)),
            Row::note(format!("{name}/floor"), (hit.floor_ns, "ns"), "none"),
            Row::note(format!("{name}/of_floor"), (hit.ratio(), "ratio"), "floor"),
            Row::note(format!("{name}/{HANDLES}_handles"), (turns.subject_ns, "ns"), "none"),
            promise(format!("{name}/allocations"), requests as f64, "in 1000 hits", 0.0),
            promise(format!("{name}/copies"), copies as f64, "in 1000 hits", 0.0),
        ]);
    }
    Ok(rows)
}

/// The row of hits while another thread evaluates the same handle, in another world, and does not come to an end.
pub(super) fn while_evaluated<M: Memo + Sync>(plan: &Plan) -> Rows {
    let dependencies = 100;
    let name = format!("hit/{dependencies}/{}/while_evaluated", M::NAME);
    let (here, elsewhere) = (Scene::new(dependencies), Scene::new(dependencies));
    let memo = M::default();
    let gate = Arc::new(Gate::new());
    let handle = memo.register(here.kernel().with_gate(&gate));
    let floor = Floor::new(dependencies, memo.launch(handle, &here.launch()).to_vec());
    gate.close();
    let (hit, misses) = thread::scope(|scope| {
        scope.spawn(|| memo.launch(handle, &elsewhere.launch()));
        gate.reached();
        let hit = plan.compare(|_| memo.launch(handle, &here.launch()), |_| floor.hit());
        let (misses, ..) = beside_time(&memo, handle, &here);
        gate.open();
        (hit, misses)
    });
    if misses > 0 {
        return Err(format!("{name}: {misses} launches were no hits").into());
    }
    let bound = bound(dependencies);
    Ok(vec![Row::bounded(name, (hit.subject_ns, "ns"), "25 + 1.5 D", Sense::AtMost, bound)])
}

/// How many launches were no hits, how often they asked for memory, and how many gave another object than the first.
fn beside_time<M: Memo>(memo: &M, handle: Handle, scene: &Scene) -> (usize, u64, usize) {
    let kept = memo.launch(handle, &scene.launch());
    let (mut misses, mut copies) = (0, 0);
    let requests = requests_of(|| {
        for _ in 0..HITS {
            let again = memo.launch(handle, &scene.launch());
            misses += usize::from(!again.is_hit());
            copies += usize::from(!ptr::eq(&*again, &*kept));
        }
    });
    (misses, requests, copies)
}
