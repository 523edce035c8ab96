//! The cost of a hit, by the number of distinct dependencies of the result.

use std::{ptr, sync::Arc, thread};

use warmstart::memo::Handle;
use warmstart_tests::counting::requests_of;

use super::{
    floor::Floor,
    scene::{Gate, Memo, Scene, launch},
};
use crate::{
    Rows,
    measure::Plan,
    row::{Row, Sense},
};

/// The numbers of dependencies that are measured.
const DEPENDENCIES: [usize; 4] = [1, 10, 100, 600];

/// Returns the bound of a hit in nanoseconds, by its number of dependencies.
fn bound(dependencies: usize) -> f64 {
    1.5f64.mul_add(dependencies as f64, 25.0)
}

/// The number of hits that are checked for allocations and copies.
const HITS: usize = 1000;

/// The number of results that take turns in the row that misses the nearest cache.
const HANDLES: usize = 64;

/// The rows of hits: of a launch, and of dropping what it returned. Each launch describes its arguments again.
///
/// The floor looks at as many generations in one list and clones an `Arc`.
pub(super) fn rows(plan: &Plan) -> Rows {
    let mut rows = Vec::new();
    for dependencies in DEPENDENCIES {
        let name = format!("hit/{dependencies}/SharedMemo");
        let scene = Scene::new(dependencies);
        let memo = Memo::default();
        let handles: Vec<_> = (0..HANDLES).map(|_| memo.register(scene.kernel())).collect();
        for &handle in &handles {
            let first = launch(&memo, handle, &scene);
            if first.is_hit() || first.not_cached().is_some() || first.dependencies().len() != dependencies {
                return Err(format!("{name}: {first:?} is not what was to be measured").into());
            }
        }
        let hot = handles[0];
        let floor = Floor::new(dependencies, launch(&memo, hot, &scene).to_vec());
        let hit = plan.compare(|_| launch(&memo, hot, &scene), |_| floor.hit());
        let turns =
            plan.compare(|call| launch(&memo, handles[call as usize % HANDLES], &scene), |_| floor.hit());
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
pub(super) fn while_evaluated(plan: &Plan) -> Rows {
    let dependencies = 100;
    let name = format!("hit/{dependencies}/SharedMemo/while_evaluated");
    let (here, elsewhere) = (Scene::new(dependencies), Scene::new(dependencies));
    let memo = Memo::default();
    let gate = Arc::new(Gate::new());
    let handle = memo.register(here.kernel().with_gate(&gate));
    let floor = Floor::new(dependencies, launch(&memo, handle, &here).to_vec());
    gate.close();
    let (hit, misses) = thread::scope(|scope| {
        scope.spawn(|| launch(&memo, handle, &elsewhere));
        gate.reached();
        let hit = plan.compare(|_| launch(&memo, handle, &here), |_| floor.hit());
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

/// Returns the number of launches that missed, of allocations, and of hits that returned another object than the first.
fn beside_time(memo: &Memo, handle: Handle, scene: &Scene) -> (usize, u64, usize) {
    let kept = launch(memo, handle, scene);
    let (mut misses, mut copies) = (0, 0);
    let requests = requests_of(|| {
        for _ in 0..HITS {
            let again = launch(memo, handle, scene);
            misses += usize::from(!again.is_hit());
            copies += usize::from(!ptr::eq(&*again, &*kept));
        }
    });
    (misses, requests, copies)
}
