//! What a memo says and counts.

use super::*;

fn explained(memo: &SharedMemo<Kernel>, handle: Handle, world: &impl World) -> String {
    memo.explain(handle, world).unwrap().map_or_else(|| "hit".into(), |cause| cause.to_string())
}

#[test]
fn a_miss_is_explained_before_and_after() {
    let mut world = plain(&[3, 4]);
    let memo = SharedMemo::new();
    let handle = memo.register(Kernel::new(&[Field(1), Array(0), Extent(0, 1)]));
    let (one, other) = (world.allocate(&[2, 3], 0), world.allocate(&[2], 0));
    let expect = |world: &Plain, arguments: &[AllocationId], said: &str| {
        let world = world.with_arguments(arguments);
        assert_eq!(explained(&memo, handle, &world), said);
        assert_eq!(memo.launch(handle, &world).unwrap().miss_cause().to_string(), said);
        assert_eq!(explained(&memo, handle, &world), "hit");
        assert_eq!(
            memo.launch(handle, &world).unwrap().miss_cause().to_string(),
            said,
            "and why it was evaluated"
        );
    };
    expect(&world, &[one], "no result was computed for it before");
    *world.field_mut(FieldId(1)).unwrap() = 5;
    expect(&world, &[one], "field 1 at generation 0 is now field 1 at generation 1");
    let bound = "argument 0: allocation";
    expect(&world, &[other], &format!("{bound} 0 at generation 0 is now {bound} 1 at generation 0"));
    *world.array_mut(other).unwrap() = 1;
    expect(&world, &[other], &format!("{bound} 1 at generation 0 is now {bound} 1 at generation 1"));
    expect(&world, &[], &format!("{bound} 1 at generation 1 is now argument 0, which was not bound"));
    memo.invalidate(handle).unwrap();
    expect(&world, &[], "the last result was invalidated");
    memo.invalidate_all();
    expect(&world, &[], "the last result was invalidated");
    let other = plain(&[3, 4]);
    expect(&other, &[], "the last result was computed in another world");
}

#[test]
fn a_shape_that_moved_is_explained() {
    let mut world = plain(&[]);
    let (one, other) = (world.allocate(&[2, 3], 0), world.allocate(&[2], 0));
    let memo = SharedMemo::new();
    let handle = memo.register(Kernel::new(&[Extent(0, 1)]));
    launch(&memo, handle, &world.with_arguments(&[one]));
    let said = explained(&memo, handle, &world.with_arguments(&[other]));
    assert_eq!(said, "argument 0: axis 1 of 3 is now argument 0: no axis 1");
}

#[test]
fn result_not_kept_says_why_before_the_next_launch() {
    let world = Restless::new(&[3], &[]);
    let memo = SharedMemo::new();
    let nothing = memo.register(Kernel::new(&[]));
    let within = memo.register(Kernel::new(&[Field(0), Spec(0)]).spec(&[]));
    let exhausted = memo.register(Kernel::new(&[Field(0)]));
    let overwritten = memo.register(Kernel::new(&[Array(0), Field(0), Field(0)]));
    launch(&memo, nothing, &*world);
    launch(&memo, within, &*world);
    let write = Rc::downgrade(&world);
    world.once(Question::Field, move || write.upgrade().unwrap().write(0, 4));
    launch(&memo, overwritten, &*world);
    world.fields[0].0.set(u64::MAX);
    launch(&memo, exhausted, &*world);
    let said = [nothing, within, overwritten, exhausted].map(|handle| explained(&memo, handle, &*world));
    let prefix = "the last result was not kept: ";
    assert!(said.iter().all(|said| said.starts_with(prefix)), "{said:?}");
    let reasons = [
        "observed nothing: read",
        "a spec of it",
        "changed while",
        "counter of something that it observed is exhausted",
    ];
    for (said, reason) in said.iter().zip(reasons) {
        assert!(said.contains(reason), "{said}");
    }
}

#[test]
fn errors_say_what_to_do() {
    let (memo, other) = (SharedMemo::new(), SharedMemo::<Kernel>::new());
    let handle = memo.register(Kernel::new(&[]));
    let unknown = other.invalidate(handle).unwrap_err().to_string();
    assert!(unknown.ends_with("was given by another memo: launch it there, or register its kernel here"));
    memo.remove(handle).unwrap();
    let stale = LaunchError::<HandleError>::Handle(memo.invalidate(handle).unwrap_err()).to_string();
    assert!(stale.starts_with("the kernel of handle 0.1 of memo ") && stale.ends_with("register it again"));
    let circle = LaunchError::<HandleError>::Circle.to_string();
    assert_eq!(circle, "a spec needs its own value: compute it from fields, arguments and other specs");
}

#[test]
fn statistics_add_up() {
    let mut world = plain(&[3, 4]);
    let memo = SharedMemo::new();
    let handle = memo.register(Kernel::new(&[Spec(0), Spec(1), Spec(0)]).spec(&[Field(0)]).spec(&[Field(1)]));
    let not_cached = memo.register(Kernel::new(&[]));
    let failing = memo.register(Kernel::new(&[Field(0), Fail]));
    launch_plain(&memo, handle, &world);
    launch_plain(&memo, handle, &world);
    launch_plain(&memo, handle, &world);
    *world.field_mut(FieldId(1)).unwrap() = 40;
    launch_plain(&memo, handle, &world);
    launch_plain(&memo, not_cached, &world);
    assert!(memo.launch(failing, &world.with_arguments(&[])).is_err());
    let statistics = memo.statistics();
    assert_eq!((statistics.hits, statistics.evaluations, statistics.not_cached), (2, 3, 1));
    assert_eq!((statistics.spec_hits, statistics.spec_evaluations), (3, 3));
}
