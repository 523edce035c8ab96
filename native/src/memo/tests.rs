#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod one_thread;
mod portable;

use std::{
    convert::Infallible,
    num::NonZeroU32,
    panic::{self, AssertUnwindSafe},
    sync::{Arc, Barrier, Weak, mpsc},
    thread,
    time::Duration,
};

use super::{
    scene::{AtomicU64, FIELD, Fields, Kernel, Ordering},
    *,
};

/// Fails, instead of waiting for ever, if `work` waits for something that this thread holds.
fn in_time<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (send, receive) = mpsc::channel();
    thread::spawn(move || send.send(work()));
    receive.recv_timeout(Duration::from_secs(60)).expect("it does not wait, and does not panic")
}

struct Scene {
    memo: SharedMemo<Kernel>,
    world: Fields,
}

impl Scene {
    fn new() -> Arc<Self> {
        Arc::new(Self { memo: SharedMemo::new(), world: Fields::new(1) })
    }

    fn launch(&self, handle: Handle) -> Launched<Kernel> {
        self.memo.launch(handle, &self.world).unwrap()
    }
}

#[test]
fn threads_share_it() {
    const fn shared<T: Send + Sync>() {}
    shared::<SharedMemo<Kernel>>();
    shared::<Launched<Kernel>>();
}

#[test]
fn a_hit_waits_for_no_lock() {
    let scene = Scene::new();
    let handle = scene.memo.register(Kernel::named(1));
    scene.launch(handle);
    let _handles = scene.memo.handles.lock();
    let _slot = scene.memo.table.get(handle.index()).unwrap().state.lock();
    let other = Arc::clone(&scene);
    assert!(in_time(move || other.launch(handle).is_hit()));
    let other = Arc::clone(&scene);
    assert!(in_time(move || other.memo.peek(handle, &other.world).is_some()));
}

#[test]
fn a_hit_does_not_wait_for_an_evaluation() {
    let scene = Scene::new();
    let handle = scene.memo.register(Kernel::named(1));
    scene.launch(handle);
    // As an evaluation that does not end, in a world where the field was written.
    let begun = scene.memo.table.get(handle.index()).unwrap().begin(handle, None).unwrap();
    let other = Arc::clone(&scene);
    assert!(in_time(move || other.launch(handle).is_hit()));
    drop(begun);
}

#[test]
fn changed_field_is_a_miss_with_reason_and_holders_keep_results() {
    let scene = Scene::new();
    let handle = scene.memo.register(Kernel::named(1));
    let held = scene.launch(handle);
    assert_eq!((*held, held.miss_cause(), held.is_hit()), ((1, 0), MissCause::First, false));
    assert_eq!(scene.memo.explain(handle, &scene.world), Ok(None));
    scene.world.count_up(FIELD);
    let cause = scene.memo.explain(handle, &scene.world).unwrap().unwrap();
    assert!(matches!(cause, MissCause::Moved { .. }));
    assert!(scene.memo.peek(handle, &scene.world).is_none());
    let again = scene.launch(handle);
    assert_eq!((*again, again.miss_cause(), again.not_cached()), ((1, 1), cause, None));
    assert_eq!(*held, (1, 0));
}

#[test]
fn an_invalidation_takes_results_and_specs_together() {
    let scene = Scene::new();
    let handles = [1, 2].map(|name| scene.memo.register(Kernel::named(name)));
    let launch = || handles.map(|handle| scene.launch(handle).miss_cause());
    assert_eq!(launch(), [MissCause::First; 2]);
    scene.memo.invalidate(handles[0]).unwrap();
    assert_eq!(scene.memo.explain(handles[0], &scene.world), Ok(Some(MissCause::Invalidated)));
    assert_eq!(launch(), [MissCause::Invalidated, MissCause::First]);
    scene.memo.invalidate_all();
    assert_eq!(launch(), [MissCause::Invalidated; 2]);
    let statistics = scene.memo.statistics();
    assert_eq!((statistics.hits, statistics.evaluations), (1, 5));
    assert_eq!((statistics.spec_hits, statistics.spec_evaluations), (0, 5));
}

#[test]
fn reused_slot_has_another_handle_and_the_old_one_is_stale() {
    let scene = Scene::new();
    let old = scene.memo.register(Kernel::named(1));
    scene.launch(old);
    scene.memo.remove(old).unwrap();
    let stale = HandleError::Stale(old);
    assert_eq!(scene.memo.launch(old, &scene.world).unwrap_err(), LaunchError::Handle(stale));
    let new = scene.memo.register(Kernel::named(2));
    assert_eq!(new.index(), old.index());
    let launched = scene.launch(new);
    assert_eq!((*launched, launched.miss_cause()), ((2, 0), MissCause::First));
    assert_eq!(scene.memo.launch(old, &scene.world).unwrap_err(), LaunchError::Handle(stale));
    assert!(scene.memo.peek(old, &scene.world).is_none());
    assert_eq!(scene.memo.explain(old, &scene.world), Err(stale));
    assert_eq!(scene.memo.invalidate(old), Err(stale));
    assert_eq!(scene.memo.remove(old), Err(stale));
    assert!(scene.launch(new).is_hit());
}

#[test]
fn handle_of_another_memo_is_unknown_even_at_an_equal_index() {
    let scene = Scene::new();
    let handle = scene.memo.register(Kernel::named(1));
    scene.launch(handle);
    let other = SharedMemo::<Kernel>::new();
    let foreign = other.register(Kernel::named(2));
    assert_eq!(foreign.index(), handle.index());
    let never_given = Handle::new(handle.memo(), 1, NonZeroU32::MIN);
    let beyond = Handle::new(handle.memo(), u32::MAX, NonZeroU32::MIN);
    for unknown in [foreign, never_given, beyond] {
        let error = HandleError::Unknown(unknown);
        assert_eq!(scene.memo.launch(unknown, &scene.world).unwrap_err(), LaunchError::Handle(error));
        assert!(scene.memo.peek(unknown, &scene.world).is_none());
        assert_eq!(scene.memo.explain(unknown, &scene.world), Err(error));
        assert_eq!(scene.memo.invalidate(unknown), Err(error));
        assert_eq!(scene.memo.remove(unknown), Err(error));
    }
}

#[test]
fn handles_of_many_kernels_lead_to_their_own() {
    let scene = Scene::new();
    let handles: Vec<Handle> = (0..100).map(|name| scene.memo.register(Kernel::named(name))).collect();
    for hit in [false, true] {
        for (name, &handle) in (0..).zip(&handles) {
            let launched = scene.launch(handle);
            assert_eq!((*launched, launched.is_hit()), ((name, 0), hit));
        }
    }
}

#[test]
fn slots_share_no_cache_line() {
    assert_eq!(align_of::<Slot<Kernel>>(), 128);
    assert_eq!(align_of::<Entry<Kernel>>(), 64, "so that the count of its holders has a line of its own");
}

/// A world that launches the same kernel again whenever it is asked for the field.
struct Launching {
    fields: Fields,
    memo: Weak<SharedMemo<Kernel>>,
    handle: std::sync::OnceLock<Handle>,
    depth: AtomicU64,
}

impl World for Launching {
    type Field = AtomicU64;
    type Array = ();

    fn identity(&self) -> WorldId {
        self.fields.identity()
    }

    fn field_generation(&self, field: FieldId) -> Option<Generation> {
        self.fields.field_generation(field)
    }

    fn field(&self, field: FieldId) -> Option<&AtomicU64> {
        if self.depth.fetch_add(1, Ordering::Relaxed) < 3 {
            let memo = self.memo.upgrade().unwrap();
            let inner = memo.launch(*self.handle.get().unwrap(), self).unwrap();
            assert_eq!(*inner, (1, 0));
            memo.register(Kernel::named(9));
        }
        self.fields.field(field)
    }

    fn binding(&self, _: ArgumentId) -> Option<Binding> {
        None
    }

    fn array(&self, _: ArgumentId) -> Option<&()> {
        None
    }

    fn extent(&self, _: ArgumentId, _: u32) -> Option<u64> {
        None
    }
}

#[test]
fn a_world_may_launch_the_same_kernel_while_it_is_evaluated() {
    let memo = Arc::new(SharedMemo::new());
    let handle = memo.register(Kernel::named(1));
    let world = Launching {
        fields: Fields::new(1),
        memo: Arc::downgrade(&memo),
        handle: handle.into(),
        depth: AtomicU64::new(0),
    };
    in_time(move || {
        assert_eq!(*memo.launch(handle, &world).unwrap(), (1, 0));
        assert_eq!(memo.statistics().evaluations, 4);
        assert!(memo.launch(handle, &world).unwrap().is_hit());
    });
}

/// Its kernel, spec, value and result each launch when they are dropped.
struct Relaunching {
    _kernel: Relaunch,
}

/// Launches when it is dropped. The memo is reached as anything global would be.
#[derive(Clone)]
struct Relaunch(Weak<SharedMemo<Relaunching>>, Arc<AtomicU64>);

impl Drop for Relaunch {
    fn drop(&mut self) {
        if let Some(memo) = self.0.upgrade() {
            self.1.fetch_add(1, Ordering::Relaxed);
            let handle = memo.register(Self::quiet());
            memo.remove(handle).unwrap();
            let _ = memo.statistics();
        }
    }
}

impl Relaunch {
    fn quiet() -> Relaunching {
        Relaunching { _kernel: Self(Weak::new(), Arc::default()) }
    }
}

impl Reduction for Relaunching {
    type Spec = ();
    type Value = Relaunch;
    type Output = Relaunch;
    type Error = Infallible;
}

impl<W: World + ?Sized> Evaluate<W> for Relaunching {
    fn launch(&self, recorder: &mut Recorder<'_, Self, W>) -> Result<Relaunch, LaunchError<Infallible>> {
        recorder.spec(())
    }

    fn spec(
        &self,
        (): &(),
        recorder: &mut Recorder<'_, Self, W>,
    ) -> Result<Relaunch, LaunchError<Infallible>> {
        let _ = recorder.field(FIELD);
        Ok(self._kernel.clone())
    }
}

#[test]
fn nothing_is_locked_while_a_destructor_runs() {
    let memo = Arc::new(SharedMemo::new());
    let drops = Arc::new(AtomicU64::new(0));
    let handle = memo.register(Relaunching { _kernel: Relaunch(Arc::downgrade(&memo), Arc::clone(&drops)) });
    in_time(move || {
        let world = Fields::new(1);
        let dropped = |work: &dyn Fn()| {
            let before = drops.load(Ordering::Relaxed);
            work();
            drops.load(Ordering::Relaxed) - before
        };
        let launch = || drop(memo.launch(handle, &world).unwrap());
        launch();
        world.count_up(FIELD);
        assert_eq!(dropped(&launch), 2, "result and value that were replaced");
        assert_eq!(dropped(&|| memo.invalidate(handle).unwrap()), 2);
        launch();
        assert_eq!(dropped(&|| memo.invalidate_all()), 2);
        launch();
        assert_eq!(dropped(&|| memo.remove(handle).unwrap()), 3, "and the kernel");
    });
}

/// Panics when its field is 1, and fails when it is 2.
struct Faulty;

impl Reduction for Faulty {
    type Spec = bool;
    type Value = u64;
    type Output = u64;
    type Error = &'static str;
}

impl<W: World<Field = AtomicU64> + ?Sized> Evaluate<W> for Faulty {
    fn launch(&self, recorder: &mut Recorder<'_, Self, W>) -> Result<u64, LaunchError<&'static str>> {
        recorder.spec(true)?;
        recorder.spec(false)
    }

    fn spec(
        &self,
        sound: &bool,
        recorder: &mut Recorder<'_, Self, W>,
    ) -> Result<u64, LaunchError<&'static str>> {
        let field = if *sound { FieldId(1) } else { FIELD };
        match recorder.field(field).map_or(0, |value| value.load(Ordering::Relaxed)) {
            1 => panic!("the field is 1"),
            2 => Err("the field is 2".into()),
            value => Ok(value),
        }
    }
}

#[test]
fn an_evaluation_that_panics_or_fails_leaves_what_was_kept() {
    let (memo, world) = (SharedMemo::new(), Fields::new(2));
    let handle = memo.register(Faulty);
    let launch = || memo.launch(handle, &world).map(|launched| *launched);
    assert_eq!(launch(), Ok(0));
    world.count_up(FIELD);
    panic::catch_unwind(AssertUnwindSafe(launch)).unwrap_err();
    assert!(matches!(memo.explain(handle, &world), Ok(Some(MissCause::Moved { .. }))));
    world.count_up(FIELD);
    assert_eq!(launch(), Err(LaunchError::Reduction("the field is 2")));
    assert!(matches!(memo.explain(handle, &world), Ok(Some(MissCause::Moved { .. }))));
    world.count_up(FIELD);
    assert_eq!(launch(), Ok(3));
    assert_eq!(memo.statistics().spec_hits, 1, "the spec that did not fail was given back");
    assert_eq!(launch(), Ok(3));
    assert_eq!(memo.statistics().hits, 1);
}

#[test]
fn a_lock_that_a_panic_has_poisoned_is_taken_all_the_same() {
    let scene = Scene::new();
    let handle = scene.memo.register(Kernel::named(1));
    let other = Arc::clone(&scene);
    let poisoned = thread::spawn(move || {
        let _handles = other.memo.handles.lock();
        let _slot = other.memo.table.get(handle.index()).unwrap().state.lock();
        panic!("with both locked");
    });
    poisoned.join().unwrap_err();
    assert_eq!(*scene.launch(handle), (1, 0));
    scene.memo.remove(handle).unwrap();
    assert_eq!(*scene.launch(scene.memo.register(Kernel::named(2))), (2, 0));
}

#[test]
fn result_invalidated_or_removed_meanwhile_is_not_kept() {
    let scene = Scene::new();
    let handle = scene.memo.register(Kernel::named(1));
    let slot = scene.memo.table.get(handle.index()).unwrap();
    for remove in [false, true] {
        let mut begun = slot.begin(handle, None).unwrap();
        if remove { scene.memo.remove(handle) } else { scene.memo.invalidate(handle) }.unwrap();
        let (entry, not_cached, counted) =
            Entry::evaluate(handle, &*begun.kernel, &scene.world, begun.cause, &mut begun.specs).unwrap();
        let launched = slot.install(Arc::new(entry), not_cached, counted, begun);
        assert_eq!((*launched, launched.not_cached()), ((1, 0), Some(NotCached::Invalidated)));
        assert!(scene.memo.peek(handle, &scene.world).is_none());
    }
    assert_eq!(scene.memo.statistics().not_cached, 2);
}

#[test]
fn an_evaluation_that_fails_leaves_the_specs_of_another_one() {
    let scene = Scene::new();
    let handle = scene.memo.register(Kernel::named(1));
    let slot = scene.memo.table.get(handle.index()).unwrap();
    let begun = slot.begin(handle, None).unwrap();
    scene.launch(handle);
    assert!(slot.give_back(handle, begun));
    assert_eq!(slot.state.lock().specs.len(), 1);
}

/// What every thread of [`every_answer_is_right_whatever_eight_threads_do`] works on.
struct Busy {
    memo: SharedMemo<Kernel>,
    world: Fields,
    /// Kernels that stay, one a field.
    kernels: Vec<Handle>,
    /// Where handles are passed on that may be removed by then, with the names of their kernels.
    passed: std::sync::Mutex<Vec<(Handle, u64)>>,
}

const FIELDS: u32 = 4;
const TURNS: u64 = if cfg!(miri) { 30 } else { 20_000 };

impl Busy {
    /// Launches, and checks that the answer is the kernel's and as new as the field was before.
    fn launch(&self, handle: Handle, name: u64, field: FieldId) -> bool {
        let earliest = self.world.field_generation(field).unwrap().as_u64();
        match self.memo.launch(handle, &self.world) {
            Ok(launched) => {
                let (by, seen) = *launched;
                let latest = self.world.field(field).unwrap().load(Ordering::Relaxed);
                assert_eq!(by, name);
                assert!((earliest..=latest).contains(&seen), "{earliest} <= {seen} <= {latest}");
                true
            }
            Err(error) => {
                assert_eq!(error, LaunchError::Handle(HandleError::Stale(handle)));
                false
            }
        }
    }

    fn launch_those_that_stay(&self) {
        for turn in 0..TURNS {
            let field = turn as u32 % FIELDS;
            assert!(self.launch(self.kernels[field as usize], u64::from(field), FieldId(field)));
        }
    }

    fn write(&self) {
        for turn in 0..TURNS / 8 {
            self.world.count_up(FieldId(turn as u32 % FIELDS));
            thread::yield_now();
        }
    }

    fn invalidate(&self) {
        for turn in 0..TURNS / 8 {
            self.memo.invalidate(self.kernels[(turn as u32 % FIELDS) as usize]).unwrap();
            if turn % 64 == 0 {
                self.memo.invalidate_all();
            }
        }
    }

    fn register_and_remove(&self, first_name: u64) {
        for name in first_name..first_name + TURNS / 8 {
            let handle = self.memo.register(Kernel::named(name));
            self.passed.lock().unwrap().push((handle, name));
            assert!(self.launch(handle, name, FIELD));
            self.memo.remove(handle).unwrap();
            assert!(!self.launch(handle, name, FIELD));
        }
    }

    fn launch_those_that_go(&self) {
        for _ in 0..TURNS / 8 {
            let last = self.passed.lock().unwrap().last().copied();
            if let Some((handle, name)) = last {
                self.launch(handle, name, FIELD);
            }
        }
    }
}

#[test]
fn every_answer_is_right_whatever_eight_threads_do() {
    let memo = SharedMemo::new();
    let kernel = |field| Kernel { field: FieldId(field), ..Kernel::named(u64::from(field)) };
    let kernels = (0..FIELDS).map(|field| memo.register(kernel(field))).collect();
    let busy = Busy { memo, world: Fields::new(FIELDS as usize), kernels, passed: Default::default() };
    let work: [&(dyn Fn(&Busy) + Sync); 8] = [
        &Busy::launch_those_that_stay,
        &Busy::launch_those_that_stay,
        &Busy::launch_those_that_stay,
        &Busy::write,
        &Busy::invalidate,
        &|busy| busy.register_and_remove(1 << 32),
        &|busy| busy.register_and_remove(2 << 32),
        &Busy::launch_those_that_go,
    ];
    let together = Barrier::new(work.len());
    thread::scope(|scope| {
        for work in work {
            scope.spawn(|| {
                together.wait();
                work(&busy);
            });
        }
    });
    for field in 0..FIELDS {
        let launched = busy.memo.launch(busy.kernels[field as usize], &busy.world).unwrap();
        assert_eq!(launched.1, busy.world.field_generation(FieldId(field)).unwrap().as_u64());
    }
}
