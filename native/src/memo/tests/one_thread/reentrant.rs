//! Worlds that move while they are looked at, and code of others that launches, invalidates and removes meanwhile.

use super::*;
use std::rc::Weak;

/// A memo and a world, of which a hook may hold weak references.
struct Scene {
    memo: Rc<SharedMemo<Kernel>>,
    world: Rc<Restless>,
}

impl Scene {
    fn new(fields: &[i64]) -> Self {
        Self { memo: Rc::new(SharedMemo::new()), world: Restless::new(fields, &[10, 20]) }
    }

    /// Does something at the next such question.
    fn once(&self, question: Question, act: impl Fn(&SharedMemo<Kernel>, &Restless) + 'static) {
        let (memo, world): (Weak<_>, Weak<_>) = (Rc::downgrade(&self.memo), Rc::downgrade(&self.world));
        self.world.once(question, move || act(&memo.upgrade().unwrap(), &world.upgrade().unwrap()));
    }

    fn launch(&self, handle: Handle) -> Launched<Kernel> {
        self.memo.launch(handle, &*self.world).unwrap()
    }
}

#[test]
fn input_changed_between_two_reads_is_torn_and_not_kept() {
    let scene = Scene::new(&[3]);
    let handle = scene.memo.register(Kernel::new(&[Field(0), Field(0)]));
    scene.once(Question::Field, |_, world| world.write(0, 4));
    let launched = scene.launch(handle);
    assert_eq!(
        (&launched.values[..], launched.not_cached()),
        (&[4, 4][..], Some(NotCached::ConcurrentWrite))
    );
    assert_eq!(scene.launch(handle).miss_cause(), MissCause::NotCached(NotCached::ConcurrentWrite));
    assert!(scene.launch(handle).is_hit());
}

#[test]
fn input_changed_between_two_specs_is_torn_for_their_launch() {
    let scene = Scene::new(&[3, 0]);
    let kernel = Kernel::new(&[Spec(0), Extent(0, 0), Spec(1)]).spec(&[Field(0)]).spec(&[Field(0)]);
    let handle = scene.memo.register(kernel);
    scene.once(Question::Extent, |_, world| world.write(0, 4));
    let launched = scene.launch(handle);
    assert_eq!(
        (&launched.values[..], launched.not_cached()),
        (&[3, -1, 4][..], Some(NotCached::ConcurrentWrite))
    );
    assert_eq!(scene.launch(handle).values, [4, -1, 4]);
}

/// The generation is asked for before the value: a write between the two is a miss at the next launch.
#[test]
fn write_between_generation_and_value_reaches_the_next_launch() {
    let scene = Scene::new(&[3]);
    let handle = scene.memo.register(Kernel::new(&[Field(0)]));
    scene.once(Question::Field, |_, world| world.write(0, 4));
    assert_eq!(scene.launch(handle).values, [4]);
    let again = scene.launch(handle);
    assert_eq!((&again.values[..], again.is_hit()), (&[4][..], false));
}

#[test]
fn array_bound_between_two_reads_is_a_concurrent_write() {
    let scene = Scene::new(&[]);
    let handle = scene.memo.register(Kernel::new(&[Array(0)]));
    scene.once(Question::Array, |_, world| world.bound.set(1));
    let launched = scene.launch(handle);
    assert_eq!((&launched.values[..], launched.not_cached()), (&[20][..], Some(NotCached::ConcurrentWrite)));
    // Had it been kept, the array that was bound first would have got the value of the other.
    scene.world.bound.set(0);
    assert_eq!(scene.launch(handle).values, [10]);
}

#[test]
fn nested_launch_of_the_same_handle_and_its_outer_one_are_right() {
    for question in [Question::Generation, Question::Field] {
        let scene = Scene::new(&[3]);
        let kernel = Kernel::new(&[Spec(0)]).spec(&[Field(0)]);
        let counts = kernel.counts();
        let handle = scene.memo.register(kernel);
        let inner = Rc::new(RefCell::new(None));
        let seen = Rc::clone(&inner);
        scene.once(question, move |memo, world| {
            *seen.borrow_mut() = Some(memo.launch(handle, world).unwrap());
        });
        let outer = scene.launch(handle);
        let inner = inner.take().unwrap();
        assert_eq!((&inner.values[..], &outer.values[..]), (&[3][..], &[3][..]));
        assert_eq!((outer.not_cached(), counts.specs()), (None, vec![2]));
        let after = scene.launch(handle);
        assert!(after.is_hit());
        assert_eq!(&raw const *after, &raw const *outer, "who ends last is kept");
    }
}

#[test]
fn holder_keeps_its_result_while_a_nested_launch_replaces_it() {
    let scene = Scene::new(&[3]);
    let handle = scene.memo.register(Kernel::new(&[Field(0)]));
    let held = scene.launch(handle);
    // During the replay, when the kept result has been taken up already.
    scene.once(Question::Generation, move |memo, world| {
        world.write(0, 4);
        assert_eq!(memo.launch(handle, world).unwrap().values, [4]);
    });
    let launched = scene.launch(handle);
    assert_eq!((&launched.values[..], &held.values[..]), (&[4][..], &[3][..]));
    assert!(scene.launch(handle).is_hit());
}

#[test]
fn a_launch_within_of_another_handle_disturbs_neither() {
    let scene = Scene::new(&[3]);
    let handle = scene.memo.register(Kernel::new(&[Field(0)]));
    let other = scene.memo.register(Kernel::new(&[Field(0), Field(0)]));
    for question in [Question::Field, Question::Generation] {
        scene.once(question, move |memo, world| {
            assert_eq!(memo.launch(other, world).unwrap().values, [3, 3]);
        });
        assert_eq!(scene.launch(handle).values, [3]);
    }
    assert!(scene.launch(handle).is_hit() && scene.launch(other).is_hit());
    assert_eq!(scene.memo.statistics().evaluations, 2);
}

#[test]
fn result_and_specs_invalidated_during_evaluation_are_not_kept() {
    for all in [false, true] {
        let scene = Scene::new(&[3]);
        let kernel = Kernel::new(&[Spec(0), Array(0)]).spec(&[Field(0)]);
        let counts = kernel.counts();
        let handle = scene.memo.register(kernel);
        scene.once(Question::Array, move |memo, world| {
            // Uncounted: that is what an invalidation is for.
            world.fields[0].1.set(4);
            if all { memo.invalidate_all() } else { memo.invalidate(handle).unwrap() }
        });
        let launched = scene.launch(handle);
        assert_eq!(
            (&launched.values[..], launched.not_cached()),
            (&[3, 10][..], Some(NotCached::Invalidated))
        );
        assert_eq!(scene.memo.statistics().not_cached, 1);
        let again = scene.launch(handle);
        assert_eq!((&again.values[..], again.miss_cause()), (&[4, 10][..], MissCause::Invalidated));
        assert_eq!(counts.specs(), [2]);
    }
}

#[test]
fn specs_of_a_failed_evaluation_do_not_outlive_an_invalidation() {
    let scene = Scene::new(&[3]);
    let handle = scene.memo.register(Kernel::new(&[Spec(0), Array(0), Fail]).spec(&[Field(0)]));
    scene.once(Question::Array, move |memo, _| memo.invalidate(handle).unwrap());
    assert!(scene.memo.launch(handle, &*scene.world).is_err());
    assert_eq!(specs::cached(&scene.memo, handle), 0);
}

#[test]
fn a_launch_within_that_follows_an_invalidation_is_kept() {
    let scene = Scene::new(&[3]);
    let handle = scene.memo.register(Kernel::new(&[Field(0)]));
    scene.once(Question::Field, move |memo, world| {
        memo.invalidate(handle).unwrap();
        memo.launch(handle, world).unwrap();
    });
    assert_eq!(scene.launch(handle).not_cached(), Some(NotCached::Invalidated));
    assert!(scene.launch(handle).is_hit(), "that of the launch within");
}

#[test]
fn invalidation_during_a_replay_counts_from_the_next_launch() {
    let scene = Scene::new(&[3]);
    let handle = scene.memo.register(Kernel::new(&[Field(0)]));
    scene.launch(handle);
    scene.once(Question::Generation, move |memo, _| memo.invalidate(handle).unwrap());
    assert!(scene.launch(handle).is_hit(), "it began before");
    assert_eq!(scene.launch(handle).miss_cause(), MissCause::Invalidated);
}

#[test]
fn kernel_removed_during_evaluation_leaves_nothing_to_the_next() {
    let scene = Scene::new(&[3]);
    let handle = scene.memo.register(Kernel::new(&[Spec(0)]).spec(&[Field(0)]));
    let next = Rc::new(Cell::new(None));
    let registered = Rc::clone(&next);
    scene.once(Question::Field, move |memo, _| {
        memo.remove(handle).unwrap();
        let other = Kernel::new(&[Spec(0)]).spec(&[Field(0), Field(0)]);
        registered.set(Some(memo.register(other)));
    });
    let launched = scene.launch(handle);
    assert_eq!((&launched.values[..], launched.not_cached()), (&[3][..], Some(NotCached::Invalidated)));
    let next = next.take().unwrap();
    assert_eq!(next.index(), handle.index());
    let other = scene.launch(next);
    assert_eq!((&other.values[..], other.miss_cause()), (&[6][..], MissCause::First));
}

#[test]
fn kernel_removed_during_its_replay_is_answered_once_more() {
    let scene = Scene::new(&[3]);
    let handle = scene.memo.register(Kernel::new(&[Field(0)]));
    scene.launch(handle);
    scene.once(Question::Generation, move |memo, _| memo.remove(handle).unwrap());
    assert_eq!(scene.launch(handle).values, [3]);
    assert!(scene.memo.launch(handle, &*scene.world).is_err());
    // Moved as well: then there is nothing to evaluate.
    let handle = scene.memo.register(Kernel::new(&[Field(0)]));
    scene.launch(handle);
    scene.once(Question::Generation, move |memo, world| {
        world.write(0, 4);
        memo.remove(handle).unwrap();
    });
    let error = scene.memo.launch(handle, &*scene.world).unwrap_err();
    assert_eq!(error, LaunchError::Handle(HandleError::Stale(handle)));
}

#[test]
fn explain_and_peek_may_be_asked_by_a_world_that_launches() {
    let scene = Scene::new(&[3]);
    let handle = scene.memo.register(Kernel::new(&[Field(0)]));
    scene.launch(handle);
    for _ in 0..2 {
        scene.once(Question::Generation, move |memo, world| drop(memo.launch(handle, world)));
        assert_eq!(scene.memo.explain(handle, &*scene.world), Ok(None));
        scene.once(Question::Generation, move |memo, world| drop(memo.launch(handle, world)));
        assert!(scene.memo.peek(handle, &*scene.world).is_some());
    }
}

/// Every destructor that a memo runs, at every place where it does.
#[test]
fn destructors_may_launch_on_the_memo_that_drops() {
    for part in [Part::Kernel, Part::Output, Part::Value] {
        let scene = Scene::new(&[3]);
        let other = scene.memo.register(Kernel::new(&[Field(0)]));
        let rung = Rc::new(Cell::new(0));
        let (memo, world, count) = (Rc::downgrade(&scene.memo), Rc::clone(&scene.world), Rc::clone(&rung));
        let ring = move || {
            let Some(memo) = memo.upgrade() else { return };
            count.set(count.get() + 1);
            memo.launch(other, &*world).unwrap();
            memo.invalidate(other).unwrap();
            let passing = memo.register(Kernel::new(&[Constant]));
            memo.remove(passing).unwrap();
        };
        let kernel = || Kernel::new(&[Spec(0)]).spec(&[Field(0)]).ring(part, ring.clone());
        let rings = |act: &dyn Fn()| {
            rung.set(0);
            act();
            rung.get() > 0
        };
        let handle = scene.memo.register(kernel());
        let launch = || drop(scene.launch(handle));
        launch();
        scene.world.write(0, 4);
        assert_eq!(rings(&launch), part != Part::Kernel, "replaced");
        assert_eq!(rings(&|| scene.memo.invalidate(handle).unwrap()), part != Part::Kernel);
        // The result of a launch within is replaced by that of the launch around it, and no other reference holds it.
        scene.once(Question::Field, move |memo, world| drop(memo.launch(handle, world)));
        assert_eq!(rings(&launch), part != Part::Kernel);
        assert_eq!(rings(&|| scene.memo.invalidate_all()), part != Part::Kernel);
        launch();
        assert!(rings(&|| scene.memo.remove(handle).unwrap()));
        assert_eq!(scene.memo.launch(other, &*scene.world).unwrap().values, [4]);
    }
}
