//! Parts of a result are kept one by one.

use std::panic;

use super::*;

/// A kernel, what it counts, and its handle.
fn register(memo: &SharedMemo<Kernel>, kernel: Kernel) -> (Handle, Rc<Counts>) {
    let counts = kernel.counts();
    (memo.register(kernel), counts)
}

/// How many specs are kept for a handle.
pub(super) fn cached<K: Reduction>(memo: &SharedMemo<K>, handle: Handle) -> usize {
    memo.table.get(handle.index()).unwrap().state.lock().specs.len()
}

#[test]
fn a_spec_is_kept_when_another_one_moved() {
    let mut world = plain(&[3, 4, 5]);
    let memo = SharedMemo::new();
    let kernel = Kernel::new(&[Spec(0), Spec(1), Spec(0), Field(2)]).spec(&[Field(0)]).spec(&[Field(1)]);
    let (handle, counts) = register(&memo, kernel);
    assert_eq!(launch_plain(&memo, handle, &world), (vec![3, 4, 3, 5], false));
    assert_eq!(counts.specs(), [1, 1], "asked for twice in one launch, evaluated once");
    *world.field_mut(FieldId(1)).unwrap() = 40;
    assert_eq!(launch_plain(&memo, handle, &world), (vec![3, 40, 3, 5], false));
    assert_eq!(counts.specs(), [0, 1]);
    *world.field_mut(FieldId(2)).unwrap() = 50;
    assert_eq!(launch_plain(&memo, handle, &world), (vec![3, 40, 3, 50], false));
    assert_eq!(counts.specs(), [0, 0]);
}

#[test]
fn inputs_of_a_kept_spec_are_dependencies_of_the_launch() {
    let mut world = plain(&[3, 4, 5]);
    let memo = SharedMemo::new();
    let (handle, _) = register(&memo, Kernel::new(&[Spec(0), Field(1)]).spec(&[Field(0), Field(2)]));
    launch_plain(&memo, handle, &world);
    // The spec is found, so no evaluation reads field 0 or 2 this time.
    *world.field_mut(FieldId(1)).unwrap() = 40;
    let launched = memo.launch(handle, &world.with_arguments(&[])).unwrap();
    assert_eq!((launched.dependencies().len(), memo.statistics().spec_hits), (3, 1));
    *world.field_mut(FieldId(2)).unwrap() = 50;
    assert_eq!(launch_plain(&memo, handle, &world), (vec![53, 40], false));
}

#[test]
fn a_spec_depends_on_what_the_specs_that_it_needs_depend_on() {
    let mut world = plain(&[3, 4]);
    let memo = SharedMemo::new();
    let kernel = Kernel::new(&[Spec(0)]).spec(&[Spec(1), Field(0)]).spec(&[Spec(2)]).spec(&[Field(1)]);
    let (handle, counts) = register(&memo, kernel);
    assert_eq!(launch_plain(&memo, handle, &world), (vec![7], false));
    assert_eq!(counts.specs(), [1, 1, 1]);
    *world.field_mut(FieldId(0)).unwrap() = 30;
    assert_eq!(launch_plain(&memo, handle, &world), (vec![34], false));
    assert_eq!(counts.specs(), [1, 0, 0]);
    *world.field_mut(FieldId(1)).unwrap() = 40;
    assert_eq!(launch_plain(&memo, handle, &world), (vec![70], false));
    assert_eq!(counts.specs(), [1, 1, 1]);
}

#[test]
fn a_spec_of_another_world_is_evaluated() {
    let worlds = [plain(&[3]), plain(&[4])];
    let memo = SharedMemo::new();
    let (handle, _) = register(&memo, Kernel::new(&[Spec(0)]).spec(&[Field(0)]));
    for (world, value) in worlds.iter().zip([3, 4]).cycle().take(4) {
        assert_eq!(launch_plain(&memo, handle, world), (vec![value], false));
    }
}

#[test]
fn spec_without_dependencies_and_its_users_are_not_kept() {
    let world = plain(&[3]);
    let memo = SharedMemo::new();
    let kernel = Kernel::new(&[Field(0), Spec(0)]).spec(&[Field(0), Spec(1)]).spec(&[]);
    let (handle, counts) = register(&memo, kernel);
    for _ in 0..2 {
        let launched = memo.launch(handle, &world.with_arguments(&[])).unwrap();
        assert_eq!((launched.is_hit(), launched.not_cached()), (false, Some(NotCached::Within)));
        assert_eq!((counts.specs(), cached(&memo, handle)), (vec![1, 1], 0));
    }
}

#[test]
fn constant_spec_is_kept_and_its_launch_is_not_constant() {
    let world = plain(&[3]);
    let memo = SharedMemo::new();
    let (reads, counts) = register(&memo, Kernel::new(&[Field(0), Spec(0)]).spec(&[Constant]));
    assert_eq!(launch_plain(&memo, reads, &world), (vec![3, 7], false));
    assert_eq!(launch_plain(&memo, reads, &world), (vec![3, 7], true));
    assert_eq!((counts.specs(), cached(&memo, reads)), (vec![1], 1));
    let (nothing, counts) = register(&memo, Kernel::new(&[Spec(0)]).spec(&[Constant]));
    for _ in 0..2 {
        let launched = memo.launch(nothing, &world.with_arguments(&[])).unwrap();
        assert_eq!((launched.is_hit(), launched.not_cached()), (false, Some(NotCached::NoDependency)));
    }
    assert_eq!(counts.specs(), [1]);
}

#[test]
fn a_spec_that_needs_itself_is_refused() {
    let world = plain(&[3]);
    let memo = SharedMemo::new();
    let (itself, counts) = register(&memo, Kernel::new(&[Field(0), Spec(0)]).spec(&[Field(0), Spec(0)]));
    let (another, _) = register(
        &memo,
        Kernel::new(&[Field(0), Spec(0)]).spec(&[Field(0), Spec(1)]).spec(&[Field(0), Spec(0)]),
    );
    for handle in [itself, another] {
        let error = memo.launch(handle, &world.with_arguments(&[])).unwrap_err();
        assert_eq!((error, cached(&memo, handle)), (LaunchError::Circle, 0));
    }
    assert_eq!(counts.specs(), [1]);
}

#[test]
fn launch_that_ignores_a_circular_spec_is_not_kept() {
    let world = plain(&[3]);
    let memo = SharedMemo::new();
    // What spec 0 is depends on whether the launch asks for it or spec 1 does.
    let kernel = Kernel::new(&[Spec(0), Spec(1)]).spec(&[Field(0), Spec(1)]).spec(&[Field(0), Try(0)]);
    let (handle, _) = register(&memo, kernel);
    for _ in 0..2 {
        let launched = memo.launch(handle, &world.with_arguments(&[])).unwrap();
        assert_eq!((launched.not_cached(), cached(&memo, handle)), (Some(NotCached::Within), 0));
        assert_eq!(launched.values, [4, 1]);
    }
}

#[test]
fn inputs_of_a_failed_spec_are_dependencies_of_its_launch() {
    let mut world = plain(&[3, 4]);
    let memo = SharedMemo::new();
    let (handle, counts) = register(&memo, Kernel::new(&[Try(0), Field(1)]).spec(&[Field(0), Fail]));
    assert_eq!(launch_plain(&memo, handle, &world), (vec![FAILED, 4], false));
    assert_eq!(launch_plain(&memo, handle, &world), (vec![FAILED, 4], true));
    *world.field_mut(FieldId(0)).unwrap() = 30;
    assert_eq!(launch_plain(&memo, handle, &world), (vec![FAILED, 4], false));
    assert_eq!((counts.specs(), cached(&memo, handle)), (vec![2], 0), "a failure is not kept");
    let (handle, _) = register(&memo, Kernel::new(&[Try(0), Field(1)]).spec(&[Fail]));
    let launched = memo.launch(handle, &world.with_arguments(&[])).unwrap();
    assert_eq!(launched.not_cached(), Some(NotCached::Within), "why it failed is not known");
}

#[test]
fn specs_that_did_not_fail_are_kept_when_their_launch_does() {
    let world = plain(&[3, 4]);
    let memo = SharedMemo::new();
    let (handle, counts) =
        register(&memo, Kernel::new(&[Spec(0), Spec(1)]).spec(&[Field(0)]).spec(&[Field(1), Fail]));
    for evaluations in [[1, 1], [0, 1], [0, 1]] {
        let error = memo.launch(handle, &world.with_arguments(&[])).unwrap_err();
        assert_eq!((error, counts.specs()), (LaunchError::Reduction(Failure), evaluations.to_vec()));
    }
}

#[test]
fn launch_that_ignores_a_panic_of_the_world_is_not_kept() {
    let world = Restless::new(&[3, 4], &[]);
    let memo = SharedMemo::new();
    let (handle, _) = register(&memo, Kernel::new(&[Field(1), Catch(0)]).spec(&[Field(0)]));
    assert_eq!(launch(&memo, handle, &*world), (vec![4, 3], false));
    world.write(1, 40);
    let of = Rc::clone(&world);
    // Whether the spec holds is the first question after field 1 was read: it has no answer.
    world.once(Question::Field, move || {
        of.once(Question::Generation, || panic::resume_unwind(Box::new(())));
    });
    let launched = memo.launch(handle, &*world).unwrap();
    assert_eq!((&launched.values[..], launched.not_cached()), (&[40, FAILED][..], Some(NotCached::Within)));
    assert_eq!(launch(&memo, handle, &*world), (vec![40, 3], false));
    assert_eq!(launch(&memo, handle, &*world), (vec![40, 3], true));
}

#[test]
fn a_panic_leaves_the_memo_as_usable_as_before() {
    let world = plain(&[3]);
    let memo = SharedMemo::new();
    let (handle, _) = register(&memo, Kernel::new(&[Field(0), Spec(0)]).spec(&[Field(0), Panic]));
    let (other, _) = register(&memo, Kernel::new(&[Field(0)]));
    launch_plain(&memo, other, &world);
    for _ in 0..2 {
        let launch = panic::AssertUnwindSafe(|| launch_plain(&memo, handle, &world));
        assert!(panic::catch_unwind(launch).is_err());
    }
    assert_eq!(launch_plain(&memo, other, &world), (vec![3], true));
    assert_eq!(memo.explain(handle, &world.with_arguments(&[])), Ok(Some(MissCause::First)));
    memo.remove(handle).unwrap();
    memo.register(Kernel::new(&[Constant]));
}

#[test]
fn launch_that_catches_a_spec_panic_keeps_dependencies_only() {
    let mut world = plain(&[3, 4, 5]);
    let memo = SharedMemo::new();
    let launch = Kernel::new(&[Catch(0), Field(0)]).spec(&[Field(1), Panic]);
    let spec = Kernel::new(&[Spec(1)]).spec(&[Field(1), Panic]).spec(&[Catch(0), Field(0)]);
    let deep = Kernel::new(&[Field(0), Spec(2)]).spec(&[Panic]).spec(&[Spec(0)]).spec(&[Catch(1), Field(1)]);
    for kernel in [launch, spec, deep] {
        let (handle, _) = register(&memo, kernel);
        let launched = memo.launch(handle, &world.with_arguments(&[])).unwrap();
        assert_eq!((launched.not_cached(), cached(&memo, handle)), (Some(NotCached::Within), 0));
        assert_eq!(launched.dependencies().len(), 2);
        *world.field_mut(FieldId(1)).unwrap() += 1;
        assert!(!launch_plain(&memo, handle, &world).1);
    }
}

/// Asks for as many specs as field 0 says, from the one on that field 1 says, and fails if there is a field 2.
struct Window;

impl Reduction for Window {
    type Spec = i64;
    type Value = i64;
    type Output = i64;
    type Error = Failure;
}

impl<W: World<Field = i64>> Evaluate<W> for Window {
    fn launch(&self, recorder: &mut Recorder<'_, Self, W>) -> Result<i64, LaunchError<Failure>> {
        let [count, first] = [0, 1].map(|field| recorder.field(FieldId(field)).copied().unwrap_or(0));
        let sum = (first..first + count).map(|spec| recorder.spec(spec)).sum();
        if recorder.field(FieldId(2)).is_some() { Err(Failure.into()) } else { sum }
    }

    fn spec(&self, spec: &i64, recorder: &mut Recorder<'_, Self, W>) -> Result<i64, LaunchError<Failure>> {
        recorder.constant();
        Ok(*spec)
    }
}

#[test]
fn unused_specs_are_dropped_even_if_every_launch_fails() {
    let rounds = if cfg!(miri) { 6 } else { 100 };
    for fails in [false, true] {
        let mut world = plain(&[30, 0]);
        if fails {
            world.add_field(0);
        }
        let memo = SharedMemo::new();
        let handle = memo.register(Window);
        for round in 0..rounds {
            *world.field_mut(FieldId(1)).unwrap() = 1000 * round;
            assert_eq!(memo.launch(handle, &world.with_arguments(&[])).is_err(), fails);
            let cached = cached(&memo, handle);
            assert!((30..=76).contains(&cached), "{cached} specs after {round} rounds");
        }
    }
}

/// Who is found does not ask for the specs that it needs.
#[test]
fn specs_that_a_kept_spec_needs_are_kept_with_it() {
    let needed: u32 = if cfg!(miri) { 30 } else { 100 };
    let mut world = plain(&vec![1; needed as usize + 1]);
    let all: Vec<Step> = (1..=needed as usize).map(Spec).collect();
    let mut kernel = Kernel::new(&[Spec(0), Field(0)]).spec(&all);
    for field in 1..=needed {
        kernel = kernel.spec(&[Field(field)]);
    }
    let memo = SharedMemo::new();
    let (handle, counts) = register(&memo, kernel);
    launch_plain(&memo, handle, &world);
    counts.specs();
    for _ in 0..3 {
        *world.field_mut(FieldId(0)).unwrap() += 1;
        launch_plain(&memo, handle, &world);
    }
    *world.field_mut(FieldId(1)).unwrap() += 1;
    assert_eq!(launch_plain(&memo, handle, &world).0[0], i64::from(needed) + 1);
    assert_eq!(counts.specs().iter().sum::<u32>(), 2, "the spec that moved, and the one that needs it");
}
