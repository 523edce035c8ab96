//! A handle names one thing and never another.

use std::num::NonZeroU32;

use super::*;

#[test]
fn the_handle_of_a_removed_kernel_is_stale_for_ever() {
    let world = plain(&[3]);
    let memo = SharedMemo::new();
    let old = memo.register(Kernel::new(&[Field(0)]));
    launch_plain(&memo, old, &world);
    memo.remove(old).unwrap();
    let stale = |handle| {
        let world = world.with_arguments(&[]);
        let error = HandleError::Stale(handle);
        assert_eq!(memo.launch(handle, &world).unwrap_err(), LaunchError::Handle(error));
        assert!(memo.peek(handle, &world).is_none());
        assert_eq!(memo.explain(handle, &world).unwrap_err(), error);
        assert_eq!((memo.invalidate(handle), memo.remove(handle)), (Err(error), Err(error)));
    };
    stale(old);
    let new = memo.register(Kernel::new(&[Field(0), Field(0)]));
    assert_eq!(new.index(), old.index(), "its place is used again");
    stale(old);
    assert_eq!(launch_plain(&memo, new, &world), (vec![3, 3], false));
    stale(old);
    assert_eq!(launch_plain(&memo, new, &world), (vec![3, 3], true), "no caller invalidated it");
}

/// What the original does by address.
#[test]
fn entry_of_a_removed_kernel_is_never_served_to_the_next_one() {
    let world = plain(&[3]);
    let memo = SharedMemo::new();
    let old = memo.register(Kernel::new(&[Field(0)]));
    launch_plain(&memo, old, &world);
    let slot = memo.table.get(old.index()).unwrap();
    let entry = slot.cached();
    memo.remove(old).unwrap();
    let new = memo.register(Kernel::new(&[Field(0), Field(0)]));
    // Even if the entry of the old one came to lie in the place of the new one.
    slot.entry.swap(entry);
    assert!(memo.peek(new, &world.with_arguments(&[])).is_none());
    assert_eq!(launch_plain(&memo, new, &world), (vec![3, 3], false));
}

#[test]
fn handle_of_another_memo_is_unknown_at_an_index_in_use() {
    let world = plain(&[3]);
    let world = world.with_arguments(&[]);
    let (memo, other) = (SharedMemo::new(), SharedMemo::new());
    let (here, there) = (memo.register(Kernel::new(&[Field(0)])), other.register(Kernel::new(&[Constant])));
    memo.launch(here, &world).unwrap();
    other.launch(there, &world).unwrap();
    let unknown = HandleError::Unknown(there);
    assert_eq!(memo.launch(there, &world).unwrap_err(), LaunchError::Handle(unknown));
    assert!(memo.peek(there, &world).is_none());
    assert_eq!(memo.explain(there, &world).unwrap_err(), unknown);
    assert_eq!((memo.invalidate(there), memo.remove(there)), (Err(unknown), Err(unknown)));
    assert!(memo.launch(here, &world).unwrap().is_hit());
}

#[test]
fn a_handle_that_was_never_given_is_unknown() {
    let world = plain(&[3]);
    let memo = SharedMemo::<Kernel>::new();
    let never = Handle::new(memo.id, 3, NonZeroU32::MIN);
    let error = memo.launch(never, &world.with_arguments(&[])).unwrap_err();
    assert_eq!(error, LaunchError::Handle(HandleError::Unknown(never)));
    assert!(memo.peek(never, &world.with_arguments(&[])).is_none());
}

#[test]
fn a_place_whose_handles_have_run_out_is_not_used_again() {
    let world = plain(&[3]);
    let memo = SharedMemo::new();
    let handle = memo.register(Kernel::new(&[Field(0)]));
    memo.remove(handle).unwrap();
    let beyond = Handle::new(memo.id, 0, NonZeroU32::MAX);
    memo.handles.lock().free = vec![beyond];
    let last = memo.register(Kernel::new(&[Field(0)]));
    assert_eq!((last, last.next()), (beyond, None));
    assert_eq!(launch_plain(&memo, last, &world), (vec![3], false));
    memo.remove(last).unwrap();
    let after = memo.register(Kernel::new(&[Field(0)]));
    assert_ne!(after.index(), last.index());
    assert!(memo.launch(last, &world.with_arguments(&[])).is_err());
}

#[test]
fn removed_places_are_used_again_so_that_memory_does_not_grow() {
    let memo = SharedMemo::new();
    for _ in 0..20 {
        let handles = [0; 3].map(|_| memo.register(Kernel::new(&[Constant])));
        handles.iter().for_each(|&handle| memo.remove(handle).unwrap());
    }
    assert_eq!(memo.handles.lock().places, 3);
}

#[test]
fn a_memo_forgets_a_removed_kernel_and_its_result() {
    let world = plain(&[3]);
    let memo = SharedMemo::new();
    let kernel = Kernel::new(&[Field(0)]).spec(&[]);
    let counts = kernel.counts();
    let handle = memo.register(kernel);
    drop(memo.launch(handle, &world.with_arguments(&[])).unwrap());
    assert_eq!(Rc::strong_count(&counts), 2);
    memo.remove(handle).unwrap();
    assert_eq!(Rc::strong_count(&counts), 1);
}
