//! A run: the memo and the model, side by side, through all operations.

use super::*;

impl Run {
    pub(super) fn new() -> Self {
        Self {
            memo: SharedMemo::new(),
            places: vec![Place::furnished(0), Place::furnished(1)],
            kernels: RefCell::default(),
            statistics: Cell::default(),
            foreign: Vec::new(),
            held: RefCell::default(),
        }
    }

    pub(super) fn step(&mut self, operation: Operation, launches: &mut Vec<Launch>) {
        match operation {
            Operation::Register(plan) => self.register(plan.cut()),
            Operation::Launch(launch) => {
                self.launch(launch);
                launches.push(launch);
            }
            Operation::Again(back) => {
                let launch = launches.iter().rev().nth(usize::from(back) % launches.len().max(1));
                if let Some(&launch) = launch {
                    self.launch(launch);
                }
            }
            Operation::AddField(place, value) => {
                let place = &mut self.places[usize::from(place) % 2];
                if place.fields.len() < MOST_FIELDS {
                    place.add_field(value.into());
                }
            }
            Operation::Write(place, field, value) => {
                let place = &mut self.places[usize::from(place) % 2];
                if let Some(field) = usize::from(field).checked_rem(place.fields.len()) {
                    let (writes, plain) = &mut place.fields[field];
                    (*writes, *plain) = (*writes + 1, value.into());
                    *place.tracked.field_mut(FieldId(field as u32)).expect("it was added") = value.into();
                }
            }
            Operation::Allocate(place, shape, value) => {
                self.places[usize::from(place) % 2].allocate(shape.lengths(), value.into());
            }
            Operation::WriteArray(place, array, value) => {
                self.array(place, array, |tracked, allocation, plain| {
                    let written = tracked.array_mut(allocation);
                    assert_eq!(written.is_some(), plain.is_some());
                    if let (Some(written), Some(plain)) = (written, plain) {
                        *written = value.into();
                        (plain.writes, plain.value) = (plain.writes + 1, value.into());
                    }
                });
            }
            Operation::Reshape(place, array, shape) => {
                self.array(place, array, |tracked, allocation, plain| {
                    let is_there = tracked.reshape(allocation, &shape.lengths()).is_some();
                    assert_eq!(is_there, plain.is_some());
                    if let Some(plain) = plain {
                        (plain.writes, plain.shape) = (plain.writes + 1, shape.lengths());
                    }
                });
            }
            Operation::Free(place, array) => self.array(place, array, |tracked, allocation, plain| {
                assert_eq!(tracked.free(allocation), plain.take().map(|plain| plain.value));
            }),
            Operation::Within(within) => self.within(within, 0),
            Operation::Reload => self.reload(),
        }
    }

    pub(super) fn array(
        &mut self,
        place: u8,
        array: u8,
        change: impl FnOnce(&mut Tracked<i64, i64>, AllocationId, &mut Option<Plain>),
    ) {
        let place = &mut self.places[usize::from(place) % 2];
        if let Some(array) = usize::from(array).checked_rem(place.arrays.len()) {
            let (allocation, plain) = &mut place.arrays[array];
            change(&mut place.tracked, *allocation, plain);
        }
    }

    pub(super) fn register(&self, plan: Plan) {
        let alive = self.kernels.borrow().iter().filter(|kernel| !kernel.is_removed).count();
        if alive >= MOST_KERNELS {
            return;
        }
        let marks = Rc::<Marks>::default();
        let handle = self.memo.register(Kernel { plan: plan.clone(), marks: Rc::clone(&marks) });
        let mut kernels = self.kernels.borrow_mut();
        assert!(kernels.iter().all(|kernel| kernel.handle != handle), "a handle names one kernel");
        kernels.push(Model { handle, plan, marks, is_removed: false, kept: None });
    }

    pub(super) fn reload(&mut self) {
        let old = self.kernels.take();
        self.foreign.extend(old.iter().map(|kernel| kernel.handle));
        self.memo = SharedMemo::new();
        self.statistics = Cell::default();
        for place in &mut self.places {
            *place = place.reload(place.number + 2);
        }
        old.into_iter().filter(|kernel| !kernel.is_removed).for_each(|kernel| self.register(kernel.plan));
    }

    pub(super) fn number(&self, kernel: u8) -> Option<usize> {
        usize::from(kernel).checked_rem(self.kernels.borrow().len())
    }

    pub(super) fn count(&self, change: impl FnOnce(&mut MemoStatistics)) {
        let mut statistics = self.statistics.get();
        change(&mut statistics);
        self.statistics.set(statistics);
    }

    pub(super) fn within(&self, within: Within, world: u8) {
        match within {
            Within::Launch { kernel, arguments } => {
                self.launch(Launch { kernel, world, arguments, within: None });
            }
            Within::Peek(kernel) => {
                let launch = Launch { kernel, world, arguments: [0, 1, 2], within: None };
                let Some(number) = self.number(kernel) else { return };
                let is_there = self.is_kept(number, &launch);
                let handle = self.kernels.borrow()[number].handle;
                let peeked = self.watch(&launch, |world| self.memo.peek(handle, world));
                assert_eq!(peeked.is_some(), is_there);
            }
            Within::Invalidate(kernel) => {
                let Some(number) = self.number(kernel) else { return };
                let mut kernels = self.kernels.borrow_mut();
                let kernel = &mut kernels[number];
                assert_eq!(self.memo.invalidate(kernel.handle).is_err(), kernel.is_removed);
                kernel.forget();
            }
            Within::InvalidateAll => {
                self.memo.invalidate_all();
                self.kernels.borrow_mut().iter_mut().for_each(Model::forget);
            }
            Within::Remove(kernel) => {
                let Some(number) = self.number(kernel) else { return };
                let mut kernels = self.kernels.borrow_mut();
                let kernel = &mut kernels[number];
                assert_eq!(self.memo.remove(kernel.handle).is_err(), kernel.is_removed);
                kernel.forget();
                kernel.is_removed = true;
            }
        }
    }

    pub(super) fn place(&self, launch: &Launch) -> &Place {
        &self.places[usize::from(launch.world) % 2]
    }

    pub(super) fn watch<R>(&self, launch: &Launch, ask: impl FnOnce(&Watched<'_>) -> R) -> R {
        let place = self.place(launch);
        let allocations = place.allocations(launch);
        let arguments = place.tracked.with_arguments(&allocations);
        ask(&Watched {
            arguments,
            run: self,
            launch: *launch,
            within: Cell::new(launch.within),
            is_disturbed: Cell::default(),
        })
    }

    /// Whether the result of the last launch is there and nothing of it has moved.
    pub(super) fn is_kept(&self, number: usize, launch: &Launch) -> bool {
        let place = self.place(launch);
        self.kernels.borrow()[number].kept.as_ref().is_some_and(|kept| {
            kept.place == place.number
                && kept.observed.iter().all(|(thing, state)| place.state(launch, *thing) == *state)
        })
    }

    pub(super) fn launch(&self, launch: Launch) {
        let Some(number) = self.number(launch.kernel) else { return };
        let place = self.place(&launch);
        let (handle, plan, marks, was_removed, was_kept) = {
            let kernel = &self.kernels.borrow()[number];
            (
                kernel.handle,
                kernel.plan.clone(),
                Rc::clone(&kernel.marks),
                kernel.is_removed,
                kernel.kept.clone(),
            )
        };
        let hits = self.is_kept(number, &launch);
        let why = self.watch(&Launch { within: None, ..launch }, |world| self.memo.explain(handle, world));
        match why {
            Ok(why) => assert_eq!((why.is_none(), was_removed), (hits, false), "{why:?}"),
            Err(error) => assert_eq!((error, was_removed), (HandleError::Stale(handle), true)),
        }

        let mut afresh = Afresh { plan: &plan, place, launch: &launch, levels: vec![Level::default()] };
        let expected = plan.take(&plan.launch, &mut afresh);
        let level = afresh.levels.pop().expect("that of the launch");

        let before = marks.begun.take();
        let (launched, may_be_disturbed) =
            self.watch(&launch, |world| (self.memo.launch(handle, world), world.is_disturbed.get()));
        let begun = marks.begun.replace(before);
        assert!(!(begun.is_some() && hits), "nothing moved, and it was evaluated");

        let launched = match launched {
            Ok(launched) => launched,
            Err(LaunchError::Handle(error)) => {
                // Perhaps it was removed by the world, before its evaluation began.
                assert!(self.kernels.borrow()[number].is_removed && !hits && begun.is_none());
                assert_eq!(error, HandleError::Stale(handle));
                return;
            }
            Err(error) => {
                let failed = if error == LaunchError::Circle { Failed::Circle } else { Failed::Odd };
                assert_eq!(expected, Err(failed));
                return;
            }
        };
        let Ok(expected) = expected else { panic!("it has a result, and must fail: {expected:?}") };
        assert_eq!((*launched, launched.is_hit()), (expected, hits));
        let observed: BTreeMap<Thing, State> = launched
            .dependencies()
            .iter()
            .map(|dependency| {
                let thing = thing(dependency);
                (thing, place.state(&launch, thing))
            })
            .collect();
        assert_eq!(observed, level.observed);
        assert_eq!(launched.dependencies().len(), observed.len(), "each thing once");
        if hits {
            self.count(|statistics| statistics.hits += 1);
        } else {
            if let (None, Ok(Some(why))) = (launch.within, why) {
                assert_eq!(launched.miss_cause(), why);
                assert!(
                    was_kept.is_some() || !matches!(why, MissCause::Moved { .. } | MissCause::OtherWorld)
                );
            }
            let mut kernels = self.kernels.borrow_mut();
            let is_disturbed = launched.not_cached() == Some(NotCached::Invalidated);
            if begun == Some(marks.invalidations.get()) {
                assert!(!is_disturbed || may_be_disturbed);
            } else {
                assert!(is_disturbed);
            }
            assert_eq!(launched.not_cached().is_none(), level.is_kept() && !is_disturbed);
            if launched.not_cached().is_none() {
                kernels[number].kept = Some(CachedResult { place: place.number, observed });
            }
            self.count(|statistics| {
                statistics.evaluations += 1;
                statistics.not_cached += u64::from(launched.not_cached().is_some());
            });
        }
        self.held.borrow_mut().push((launched, expected));
    }

    pub(super) fn end(self) {
        let (counted, statistics) = (self.statistics.get(), self.memo.statistics());
        assert_eq!(
            (counted.hits, counted.evaluations, counted.not_cached),
            (statistics.hits, statistics.evaluations, statistics.not_cached)
        );
        for handle in self.foreign {
            assert_eq!(self.memo.invalidate(handle), Err(HandleError::Unknown(handle)));
        }
        drop(self.memo);
        for (launched, expected) in self.held.into_inner() {
            assert_eq!(*launched, expected, "who holds a result keeps it");
        }
    }
}
