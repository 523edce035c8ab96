//! Loom models: invariants under every interleaving of threads and every allowed memory order.
//! `cargo xtask test --only loom` runs them.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::sync::Arc;

use loom::{model, thread};

use super::{
    SharedMemo,
    scene::{AtomicU64, FIELD, Fields, Kernel, Ordering},
    *,
};

struct Scene {
    memo: SharedMemo<Kernel>,
    world: Fields,
    kernel: Handle,
}

impl Scene {
    fn new(kernel: Kernel) -> Arc<Self> {
        let memo = SharedMemo::new();
        let kernel = memo.register(kernel);
        Arc::new(Self { memo, world: Fields::new(1), kernel })
    }

    fn launch(&self) -> Launched<Kernel> {
        self.launch_as(self.kernel).unwrap()
    }

    fn launch_as(&self, handle: Handle) -> Result<Launched<Kernel>, HandleError> {
        self.memo.launch(handle, &self.world).map_err(|error| match error {
            LaunchError::Handle(error) => error,
            other => panic!("{other}"),
        })
    }
}

/// Runs `work` in another thread.
fn beside<T: 'static>(scene: &Arc<Scene>, work: impl FnOnce(&Scene) -> T + 'static) -> thread::JoinHandle<T> {
    let scene = Arc::clone(scene);
    thread::spawn(move || work(&scene))
}

#[test]
fn loom_a_launch_beside_an_install_hits_or_evaluates() {
    model(|| {
        let scene = Scene::new(Kernel::named(1));
        let other = beside(&scene, |scene| *scene.launch());
        assert_eq!(*scene.launch(), (1, 0));
        assert_eq!(other.join().unwrap(), (1, 0));
        assert!(scene.launch().is_hit(), "one of the two is kept");
    });
}

#[test]
fn loom_two_evaluations_at_once_both_count_and_one_keeps_specs() {
    model(|| {
        let scene = Scene::new(Kernel::named(1));
        let other = beside(&scene, |scene| scene.launch().is_hit());
        let hits = u64::from(scene.launch().is_hit()) + u64::from(other.join().unwrap());
        let statistics = scene.memo.statistics();
        assert_eq!((statistics.hits, statistics.evaluations, statistics.not_cached), (hits, 2 - hits, 0));
        let specs = scene.memo.table.get(0).unwrap().begin(scene.kernel, None).unwrap().specs;
        assert_eq!(specs.len(), 1);
    });
}

#[test]
fn loom_result_evaluated_across_an_invalidation_is_not_kept() {
    model(|| {
        let uncounted = Arc::new(AtomicU64::new(0));
        let scene = Scene::new(Kernel { uncounted: Some(Arc::clone(&uncounted)), ..Kernel::named(1) });
        let other = beside(&scene, |scene| *scene.launch());
        uncounted.store(1, Ordering::Relaxed);
        scene.memo.invalidate(scene.kernel).unwrap();
        assert_eq!(*scene.launch(), (2, 0), "at once");
        let (name, _) = other.join().unwrap();
        assert!((1..=2).contains(&name));
        assert_eq!(*scene.launch(), (2, 0), "and after the other has ended");
    });
}

#[test]
fn loom_handle_of_a_removed_kernel_never_leads_to_the_next() {
    model(|| {
        let scene = Scene::new(Kernel::named(1));
        scene.launch();
        let other = beside(&scene, |scene| scene.launch_as(scene.kernel).map(|launched| *launched));
        scene.memo.remove(scene.kernel).unwrap();
        let next = scene.memo.register(Kernel::named(2));
        assert_eq!(next.index(), scene.kernel.index());
        assert_eq!(*scene.launch_as(next).unwrap(), (2, 0));
        match other.join().unwrap() {
            Ok(output) => assert_eq!(output, (1, 0)),
            Err(error) => assert_eq!(error, HandleError::Stale(scene.kernel)),
        }
        assert!(scene.launch_as(next).unwrap().is_hit(), "the old kernel's result has not taken its place");
    });
}

#[test]
fn loom_evaluation_of_a_removed_kernel_leaves_the_next_alone() {
    model(|| {
        let scene = Scene::new(Kernel::named(1));
        let other = beside(&scene, |scene| scene.launch_as(scene.kernel).map(|launched| *launched));
        scene.memo.remove(scene.kernel).unwrap();
        let next = scene.memo.register(Kernel::named(2));
        assert_eq!(*scene.launch_as(next).unwrap(), (2, 0));
        if let Ok(output) = other.join().unwrap() {
            assert_eq!(output, (1, 0));
        }
        assert!(scene.launch_as(next).unwrap().is_hit());
    });
}

#[test]
fn loom_a_holder_keeps_its_result_while_it_is_replaced() {
    model(|| {
        let scene = Scene::new(Kernel::named(1));
        scene.launch();
        let holder = beside(&scene, |scene| {
            let held = scene.launch();
            let (_, seen) = *held;
            (held, seen)
        });
        scene.world.count_up(FIELD);
        assert_eq!(*scene.launch(), (1, 1));
        let (held, seen) = holder.join().unwrap();
        assert_eq!(*held, (1, seen));
        let recorded = held.dependencies().iter().next().unwrap();
        let Dependency::Field(FIELD, Some(generation)) = recorded else { panic!("{recorded}") };
        assert!(generation.as_u64() <= seen, "its value is at least as new as it says");
    });
}

#[test]
fn loom_write_of_another_thread_is_not_missed() {
    model(|| {
        let scene = Scene::new(Kernel::named(1));
        let writer = beside(&scene, |scene| {
            scene.world.count_up(FIELD);
            assert_eq!(*scene.launch(), (1, 1), "its own write");
        });
        scene.launch();
        writer.join().unwrap();
        assert_eq!(*scene.launch(), (1, 1));
    });
}
