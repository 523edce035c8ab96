//! Whatever was observed, and moves, is a miss; whatever was not, is not.

use super::*;

#[test]
fn unchanged_inputs_give_the_same_result_by_reference() {
    let mut world = plain(&[3, 4]);
    let array = world.allocate(&[2], 5);
    let memo = SharedMemo::new();
    let handle = memo.register(Kernel::new(&[Field(1), Array(0), Extent(0, 0)]));
    let arguments = [array];
    let world = world.with_arguments(&arguments);
    let first = memo.launch(handle, &world).unwrap();
    assert_eq!((&first.values[..], first.is_hit()), (&[4, 5, 2][..], false));
    for _ in 0..3 {
        let again = memo.launch(handle, &world).unwrap();
        assert!(again.is_hit());
        assert_eq!(&raw const *again, &raw const *first, "nothing is copied");
    }
}

#[test]
fn write_to_a_read_field_is_a_miss_and_to_another_is_a_hit() {
    let mut world = plain(&[3, 4]);
    let memo = SharedMemo::new();
    let handle = memo.register(Kernel::new(&[Field(1)]));
    assert_eq!(launch_plain(&memo, handle, &world), (vec![4], false));
    *world.field_mut(FieldId(0)).unwrap() = 30;
    assert_eq!(launch_plain(&memo, handle, &world), (vec![4], true));
    *world.field_mut(FieldId(1)).unwrap() = 40;
    assert_eq!(launch_plain(&memo, handle, &world), (vec![40], false));
}

/// The original drops dependencies on shapes.
#[test]
fn array_used_for_its_shape_misses_for_another_shape() {
    let mut world = plain(&[]);
    let (small, same, large) =
        (world.allocate(&[2, 3], 0), world.allocate(&[9, 3], 0), world.allocate(&[2, 4], 0));
    let memo = SharedMemo::new();
    let handle = memo.register(Kernel::new(&[Extent(0, 1)]));
    assert_eq!(launch(&memo, handle, &world.with_arguments(&[small])), (vec![3], false));
    assert_eq!(launch(&memo, handle, &world.with_arguments(&[large])), (vec![4], false));
    assert_eq!(launch(&memo, handle, &world.with_arguments(&[small])), (vec![3], false));
    // Only the length that was asked for counts, not whose it is and not what was written.
    *world.array_mut(same).unwrap() = 1;
    assert_eq!(launch(&memo, handle, &world.with_arguments(&[same])), (vec![3], true));
}

#[test]
fn reshaped_array_is_a_miss_where_only_its_shape_was_used() {
    let mut world = plain(&[]);
    let array = world.allocate(&[6], 0);
    let memo = SharedMemo::new();
    let handle = memo.register(Kernel::new(&[Extent(0, 0), Extent(0, 1)]));
    assert_eq!(launch(&memo, handle, &world.with_arguments(&[array])), (vec![6, NOTHING], false));
    world.reshape(array, &[6, 1]).unwrap();
    assert_eq!(launch(&memo, handle, &world.with_arguments(&[array])), (vec![6, 1], false));
    world.reshape(array, &[2, 1]).unwrap();
    assert_eq!(launch(&memo, handle, &world.with_arguments(&[array])), (vec![2, 1], false));
}

#[test]
fn two_arrays_of_equal_generation_are_two_arrays() {
    let mut world = plain(&[]);
    let (one, other) = (world.allocate(&[1], 10), world.allocate(&[1], 20));
    let memo = SharedMemo::new();
    let handle = memo.register(Kernel::new(&[Array(0)]));
    assert_eq!(launch(&memo, handle, &world.with_arguments(&[one])), (vec![10], false));
    assert_eq!(launch(&memo, handle, &world.with_arguments(&[other])), (vec![20], false));
}

#[test]
fn written_array_is_a_miss_and_another_argument_is_a_hit() {
    let mut world = plain(&[]);
    let (one, other) = (world.allocate(&[1], 10), world.allocate(&[1], 20));
    let memo = SharedMemo::new();
    let handle = memo.register(Kernel::new(&[Array(0)]));
    launch(&memo, handle, &world.with_arguments(&[one, other]));
    *world.array_mut(other).unwrap() = 21;
    assert_eq!(launch(&memo, handle, &world.with_arguments(&[one, other])), (vec![10], true));
    assert_eq!(launch(&memo, handle, &world.with_arguments(&[one])), (vec![10], true));
    *world.array_mut(one).unwrap() = 11;
    assert_eq!(launch(&memo, handle, &world.with_arguments(&[one, other])), (vec![11], false));
}

#[test]
fn an_array_in_the_place_of_one_that_was_freed_is_another_array() {
    let mut world = plain(&[]);
    let old = world.allocate(&[1], 10);
    let memo = SharedMemo::new();
    let handle = memo.register(Kernel::new(&[Array(0)]));
    launch(&memo, handle, &world.with_arguments(&[old]));
    world.free(old).unwrap();
    assert_eq!(launch(&memo, handle, &world.with_arguments(&[old])), (vec![NOTHING], false));
    let new = world.allocate(&[1], 20);
    assert_eq!(launch(&memo, handle, &world.with_arguments(&[new])), (vec![20], false));
}

#[test]
fn absent_field_or_array_is_a_dependency_until_it_exists() {
    let mut world = plain(&[]);
    let memo = SharedMemo::new();
    let field = memo.register(Kernel::new(&[Field(0)]));
    let array = memo.register(Kernel::new(&[Array(1)]));
    let extent = memo.register(Kernel::new(&[Extent(1, 0)]));
    for handle in [field, array, extent] {
        assert_eq!(launch_plain(&memo, handle, &world), (vec![NOTHING], false));
        assert_eq!(launch_plain(&memo, handle, &world), (vec![NOTHING], true));
    }
    world.add_field(0);
    let bound = world.allocate(&[0], 0);
    let arguments = [bound, bound];
    let world = world.with_arguments(&arguments);
    for handle in [field, array, extent] {
        assert_eq!(launch(&memo, handle, &world), (vec![0], false));
    }
}

/// The longest extent of all stands for no extent in what is kept.
#[test]
fn an_axis_that_appears_at_the_longest_extent_of_all_is_a_miss() {
    let world = Restless::new(&[], &[]);
    let memo = SharedMemo::new();
    let handle = memo.register(Kernel::new(&[Extent(0, 0)]));
    assert_eq!(launch(&memo, handle, &*world), (vec![NOTHING], false));
    world.extent.set(Some(u64::MAX));
    let cause = memo.explain(handle, &*world).unwrap().unwrap();
    assert!(matches!(cause, MissCause::Moved { was: Dependency::Extent(.., None), .. }), "{cause}");
    let launched = memo.launch(handle, &*world).unwrap();
    assert_eq!((launched.is_hit(), launched.not_cached()), (false, Some(NotCached::GenerationExhausted)));
    world.extent.set(Some(u64::MAX - 1));
    assert_eq!(launch(&memo, handle, &*world), (vec![-2], false));
    assert_eq!(launch(&memo, handle, &*world), (vec![-2], true));
}

#[test]
fn the_same_field_of_another_world_is_another_field() {
    let (mut one, other) = (plain(&[3]), plain(&[4]));
    *one.field_mut(FieldId(0)).unwrap() = 3;
    let memo = SharedMemo::new();
    let field = memo.register(Kernel::new(&[Field(0)]));
    let spec = memo.register(Kernel::new(&[Spec(0)]).spec(&[Field(0)]));
    let constant = memo.register(Kernel::new(&[Constant]));
    for handle in [field, spec, constant] {
        let (here, _) = launch_plain(&memo, handle, &one);
        let cause = memo.explain(handle, &other.with_arguments(&[])).unwrap();
        assert_eq!(cause, Some(MissCause::OtherWorld));
        assert!(memo.peek(handle, &other.with_arguments(&[])).is_none());
        let there = launch_plain(&memo, handle, &other);
        assert_eq!(there, (if handle == constant { here } else { vec![4] }, false));
    }
    let cached = memo.peek(field, &other.with_arguments(&[])).unwrap();
    assert_eq!(cached.dependencies().moved(&one.with_arguments(&[])), None, "as it is documented");
}

#[test]
fn field_read_a_thousand_times_is_one_dependency() {
    let mut world = plain(&[5]);
    let array = world.allocate(&[2], 6);
    let steps = [Field(0), Array(0), Extent(0, 0)];
    let memo = SharedMemo::new();
    let times = if cfg!(miri) { 30 } else { 1000 };
    let handle = memo.register(Kernel::new(&steps.repeat(times)));
    let arguments = [array];
    let launched = memo.launch(handle, &world.with_arguments(&arguments)).unwrap();
    assert_eq!(launched.values.len(), 3 * times);
    assert_eq!(launched.dependencies().len(), 3);
}

#[test]
fn many_inputs_are_one_dependency_each_and_each_counts() {
    let most = if cfg!(miri) { 15 } else { 40 };
    for distinct in [11, 12, 13, 14, most] {
        let mut world = plain(&vec![1; distinct as usize]);
        // There and back, so that each is found again wherever it was put.
        let steps: Vec<Step> = (0..distinct).chain((0..distinct).rev()).map(Field).collect();
        let memo = SharedMemo::new();
        let handle = memo.register(Kernel::new(&steps));
        let launched = memo.launch(handle, &world.with_arguments(&[])).unwrap();
        let fields = (0..distinct).map(|field| Dependency::Field(FieldId(field), Some(Generation::FIRST)));
        assert!(launched.dependencies().iter().eq(fields));
        assert_eq!(launched.not_cached(), None);
        for field in 0..distinct {
            assert!(launch_plain(&memo, handle, &world).1);
            *world.field_mut(FieldId(field)).unwrap() = 2;
            assert!(!launch_plain(&memo, handle, &world).1, "field {field} of {distinct}");
        }
    }
}

#[test]
fn dependencies_are_sorted_kind_by_kind() {
    let mut world = plain(&[1, 2, 3]);
    let array = world.allocate(&[2, 3], 6);
    let steps = [Extent(1, 0), Field(2), Array(1), Extent(0, 1), Field(0), Array(0), Extent(0, 0)];
    let memo = SharedMemo::new();
    let handle = memo.register(Kernel::new(&steps));
    let arguments = [array];
    let launched = memo.launch(handle, &world.with_arguments(&arguments)).unwrap();
    let field = |field| Dependency::Field(FieldId(field), Some(Generation::FIRST));
    let binding = Binding { allocation: array, generation: Generation::FIRST };
    let extent = |argument, axis, extent| Dependency::Extent(ArgumentId(argument), axis, extent);
    let expected = [
        field(0),
        field(2),
        Dependency::Argument(ArgumentId(0), Some(binding)),
        Dependency::Argument(ArgumentId(1), None),
        extent(0, 0, Some(2)),
        extent(0, 1, Some(3)),
        extent(1, 0, None),
    ];
    assert!(launched.dependencies().iter().eq(expected));
}
