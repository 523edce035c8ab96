//! Which results are kept, which are not, and until when.

use super::*;

#[test]
fn a_result_that_observed_nothing_is_not_kept() {
    let world = plain(&[]);
    let memo = SharedMemo::new();
    let handle = memo.register(Kernel::new(&[]));
    for cause in [MissCause::First, MissCause::NotCached(NotCached::NoDependency)] {
        let launched = memo.launch(handle, &world.with_arguments(&[])).unwrap();
        assert_eq!((launched.miss_cause(), launched.not_cached()), (cause, Some(NotCached::NoDependency)));
        assert!(launched.dependencies().is_empty());
    }
    assert_eq!(memo.statistics().not_cached, 2);
}

#[test]
fn a_constant_is_kept_though_it_observed_nothing() {
    let world = plain(&[]);
    let memo = SharedMemo::new();
    let handle = memo.register(Kernel::new(&[Constant]));
    assert_eq!(launch_plain(&memo, handle, &world), (vec![7], false));
    assert_eq!(launch_plain(&memo, handle, &world), (vec![7], true));
}

#[test]
fn a_constant_that_observed_something_follows_it() {
    let mut world = plain(&[3]);
    let memo = SharedMemo::new();
    let handle = memo.register(Kernel::new(&[Constant, Field(0)]));
    launch_plain(&memo, handle, &world);
    *world.field_mut(FieldId(0)).unwrap() = 4;
    assert_eq!(launch_plain(&memo, handle, &world), (vec![7, 4], false));
}

#[test]
fn result_observed_at_an_exhausted_generation_is_not_kept() {
    let world = Restless::new(&[3], &[5]);
    let memo = SharedMemo::new();
    let field = memo.register(Kernel::new(&[Field(0)]));
    let array = memo.register(Kernel::new(&[Array(0)]));
    let spec = memo.register(Kernel::new(&[Spec(0)]).spec(&[Field(0)]));
    // The last generation that counts writes, and then the exhausted ones.
    for generation_now in [u64::MAX - 2, u64::MAX - 1, u64::MAX] {
        for (generation, value) in world.fields.iter().chain(&world.arrays) {
            generation.set(generation_now);
            value.set(value.get() + 10);
        }
        for handle in [field, array, spec] {
            let now = if handle == array { world.arrays[0].1.get() } else { world.fields[0].1.get() };
            let launched = memo.launch(handle, &*world).unwrap();
            assert_eq!((&launched.values[..], launched.is_hit()), (&[now][..], false));
            assert_eq!(
                launched.not_cached(),
                (generation_now > u64::MAX - 2).then_some(NotCached::GenerationExhausted)
            );
        }
    }
    // One more write, which the exhausted generation cannot count.
    world.fields[0].1.set(1);
    assert_eq!(launch(&memo, field, &*world), (vec![1], false));
    assert_eq!(launch(&memo, spec, &*world), (vec![1], false));
}

#[test]
fn generations_end_and_do_not_begin_again() {
    let last = Generation::new(u64::MAX - 2);
    assert!(!last.is_exhausted() && last.next().is_exhausted() && last.next().next().is_exhausted());
    assert_eq!((last.next(), Generation::new(u64::MAX - 1)), (Generation::EXHAUSTED, Generation::EXHAUSTED));
    assert_eq!(format!("{} {last}", Generation::EXHAUSTED), "exhausted 18446744073709551613");
}

#[test]
fn a_holder_keeps_its_result_unchanged() {
    let mut world = plain(&[3]);
    let memo = SharedMemo::new();
    let handle = memo.register(Kernel::new(&[Field(0)]));
    let held = memo.launch(handle, &world.with_arguments(&[])).unwrap();
    let copy = held.clone();
    assert_eq!(&raw const *copy, &raw const *held);
    *world.field_mut(FieldId(0)).unwrap() = 4;
    launch_plain(&memo, handle, &world);
    memo.invalidate(handle).unwrap();
    memo.remove(handle).unwrap();
    memo.register(Kernel::new(&[Constant]));
    drop((memo, world));
    assert_eq!((&held.values[..], &copy.values[..]), (&[3][..], &[3][..]));
}

#[test]
fn an_invalidation_takes_the_result_and_its_specs() {
    let world = plain(&[3]);
    let memo = SharedMemo::new();
    let (kernel, other) =
        (Kernel::new(&[Spec(0)]).spec(&[Field(0)]), Kernel::new(&[Spec(0)]).spec(&[Field(0)]));
    let (counts, other_counts) = (kernel.counts(), other.counts());
    let (handle, other) = (memo.register(kernel), memo.register(other));
    let all = || [handle, other].map(|handle| launch_plain(&memo, handle, &world).1);
    assert_eq!(all(), [false; 2]);
    memo.invalidate(handle).unwrap();
    assert!(memo.peek(handle, &world.with_arguments(&[])).is_none());
    assert_eq!(all(), [false, true]);
    assert_eq!((counts.specs(), other_counts.specs()), (vec![2], vec![1]));
    memo.invalidate_all();
    assert_eq!(all(), [false; 2]);
    assert_eq!((counts.specs(), other_counts.specs()), (vec![1], vec![1]));
    assert_eq!(all(), [true; 2]);
}

#[test]
fn failed_evaluation_leaves_the_kept_result_as_it_is() {
    let mut world = plain(&[3]);
    let array = world.allocate(&[0], 0);
    let memo = SharedMemo::new();
    // Fails if argument 0 is bound, even to an array of extent 0.
    let handle = memo.register(FailsIf(0));
    let unbound = memo.launch(handle, &world.with_arguments(&[])).unwrap();
    let arguments = [array];
    let failed = memo.launch(handle, &world.with_arguments(&arguments));
    assert_eq!(failed.unwrap_err(), LaunchError::Reduction(Failure));
    let evaluations = memo.statistics().evaluations;
    let again = memo.launch(handle, &world.with_arguments(&[])).unwrap();
    assert!(again.is_hit());
    assert_eq!(&raw const *again, &raw const *unbound);
    assert_eq!(memo.statistics().evaluations, evaluations, "a failed evaluation is not counted");
    *world.field_mut(FieldId(0)).unwrap() = 4;
    assert_eq!(*memo.launch(handle, &world.with_arguments(&[])).unwrap(), 4);
}

/// A kernel that fails if the argument with this number is bound.
struct FailsIf(u32);

impl Reduction for FailsIf {
    type Spec = ();
    type Value = i64;
    type Output = i64;
    type Error = Failure;
}

impl<W: World<Field = i64>> Evaluate<W> for FailsIf {
    fn launch(&self, recorder: &mut Recorder<'_, Self, W>) -> Result<i64, LaunchError<Failure>> {
        let value = recorder.spec(())?;
        if recorder.array(ArgumentId(self.0)).is_some() { Err(Failure.into()) } else { Ok(value) }
    }

    fn spec(&self, (): &(), recorder: &mut Recorder<'_, Self, W>) -> Result<i64, LaunchError<Failure>> {
        Ok(recorder.field(FieldId(0)).copied().unwrap_or(NOTHING))
    }
}

#[test]
fn a_peek_evaluates_and_counts_nothing() {
    let world = plain(&[3]);
    let memo = SharedMemo::new();
    let kernel = Kernel::new(&[Field(0)]);
    let counts = kernel.counts();
    let handle = memo.register(kernel);
    assert!(memo.peek(handle, &world.with_arguments(&[])).is_none());
    launch_plain(&memo, handle, &world);
    assert_eq!(memo.peek(handle, &world.with_arguments(&[])).unwrap().values, [3]);
    assert_eq!((counts.launches.get(), memo.statistics().hits), (1, 0));
}
