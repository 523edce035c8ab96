//! What travels to another process while other threads write, invalidate and remove.

use super::*;
use crate::{Key, memo::scene::AtomicU64};

/// Different contents that a field can have.
const CONTENTS: u64 = 5;

/// A field that is counted before it is written and after: an odd count says that it is being written.
struct Written {
    count: AtomicU64,
    value: AtomicU64,
    /// An input of the answer whose writes no generation counts.
    uncounted: AtomicU64,
}

impl Written {
    fn new(value: u64) -> Self {
        Self { count: AtomicU64::new(0), value: AtomicU64::new(value), uncounted: AtomicU64::new(0) }
    }

    /// One thread at a time.
    fn write(&self, value: u64) {
        self.count.fetch_add(1, Ordering::SeqCst);
        self.value.store(value, Ordering::SeqCst);
        self.count.fetch_add(1, Ordering::SeqCst);
    }
}

impl World for Written {
    type Field = Self;
    type Array = ();

    fn identity(&self) -> WorldId {
        WorldId(0)
    }

    fn field_generation(&self, _: FieldId) -> Option<Generation> {
        Some(Generation::new(self.count.load(Ordering::SeqCst)))
    }

    fn field(&self, _: FieldId) -> Option<&Self> {
        Some(self)
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

impl Contents for Written {
    fn field_digest(&self, _: FieldId) -> Option<Key> {
        let is_at_rest = self.count.load(Ordering::SeqCst).is_multiple_of(2);
        let contents = [&self.value, &self.uncounted].map(|part| part.load(Ordering::SeqCst).to_le_bytes());
        is_at_rest.then(|| Key::digest(&contents.concat()))
    }

    fn array_digest(&self, _: ArgumentId) -> Option<Key> {
        None
    }
}

/// Its answer and its spec say what was in the field.
struct Saying;

impl Reduction for Saying {
    type Spec = u8;
    type Value = u64;
    type Output = (u64, u64);
    type Error = Infallible;
}

impl Portable for Saying {
    fn fingerprint(&self) -> Key {
        Key::digest(b"saying")
    }
}

impl Evaluate<Written> for Saying {
    fn launch(
        &self,
        recorder: &mut Recorder<'_, Self, Written>,
    ) -> Result<(u64, u64), LaunchError<Infallible>> {
        let field = recorder.field(FIELD).map_or(0, |field| field.value.load(Ordering::SeqCst));
        Ok((field, recorder.spec(0)?))
    }

    fn spec(
        &self,
        _: &u8,
        recorder: &mut Recorder<'_, Self, Written>,
    ) -> Result<u64, LaunchError<Infallible>> {
        let field = recorder.field(FIELD);
        let read =
            |part: fn(&Written) -> &AtomicU64| field.map_or(0, |field| part(field).load(Ordering::SeqCst));
        Ok(read(|field| &field.value) + 100 * read(|field| &field.uncounted))
    }
}

fn exported(value: u64) -> PortableResult {
    let (memo, world) = (SharedMemo::new(), Written::new(value));
    let handle = memo.register(Saying);
    assert_eq!(*memo.launch(handle, &world).unwrap(), (value, value));
    memo.export(handle, "saying", &world).unwrap()
}

/// Whatever of it another process takes over, its answer is what it would have computed.
fn is_right_everywhere(result: &PortableResult) {
    for value in 0..CONTENTS {
        let (memo, world) = (SharedMemo::new(), Written::new(value));
        let handle = memo.register(Saying);
        memo.import(handle, result, &world).unwrap();
        assert_eq!(*memo.launch(handle, &world).unwrap(), (value, value));
    }
}

#[test]
fn an_imported_result_is_a_hit_that_says_so() {
    let (memo, world) = (SharedMemo::new(), Written::new(3));
    let handle = memo.register(Saying);
    let imported = memo.import(handle, &exported(3), &world).unwrap();
    assert_eq!((imported.output, imported.specs, imported.moved), (true, 1, 0));
    let launched = memo.launch(handle, &world).unwrap();
    assert_eq!((*launched, launched.is_hit(), launched.miss_cause()), ((3, 3), true, MissCause::Imported));
}

#[test]
fn a_result_that_is_kept_is_not_replaced_by_an_imported_one() {
    let (memo, world) = (SharedMemo::new(), Written::new(3));
    let handle = memo.register(Saying);
    let before = memo.launch(handle, &world).unwrap();
    let imported = memo.import(handle, &exported(3), &world).unwrap();
    assert_eq!((imported.output, imported.specs), (false, 0));
    assert!(std::ptr::eq(&*memo.launch(handle, &world).unwrap(), &*before));
}

#[test]
fn result_invalidated_during_an_export_does_not_travel() {
    /// Invalidates when it is asked for its contents.
    struct Meanwhile<'a>(&'a Written, &'a SharedMemo<Saying>, Handle);

    impl World for Meanwhile<'_> {
        type Field = Written;
        type Array = ();

        fn identity(&self) -> WorldId {
            self.0.identity()
        }

        fn field_generation(&self, field: FieldId) -> Option<Generation> {
            self.0.field_generation(field)
        }

        fn field(&self, field: FieldId) -> Option<&Written> {
            self.0.field(field)
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

    impl Contents for Meanwhile<'_> {
        fn field_digest(&self, field: FieldId) -> Option<Key> {
            self.0.uncounted.store(1, Ordering::SeqCst);
            self.1.invalidate(self.2).unwrap();
            self.0.field_digest(field)
        }

        fn array_digest(&self, _: ArgumentId) -> Option<Key> {
            None
        }
    }

    let (memo, world) = (SharedMemo::new(), Written::new(3));
    let handle = memo.register(Saying);
    memo.launch(handle, &world).unwrap();
    let meanwhile = Meanwhile(&world, &memo, handle);
    assert_eq!(memo.export(handle, "saying", &meanwhile), Err(PortableError::NotCached));
    assert_eq!(*memo.launch(handle, &world).unwrap(), (3, 103));
    assert!(memo.export(handle, "saying", &world).is_ok());
}

#[test]
fn exported_results_are_right_under_six_threads() {
    const TURNS: u64 = if cfg!(miri) { 10 } else { 2_000 };
    let (memo, world) = (SharedMemo::new(), Written::new(0));
    let handle = std::sync::Mutex::new(memo.register(Saying));
    let now = || *handle.lock().unwrap();
    let known: Vec<PortableResult> = (0..CONTENTS).map(exported).collect();
    let launch = || {
        let before = world.count.load(Ordering::SeqCst);
        let value = world.value.load(Ordering::SeqCst);
        let Ok(launched) = memo.launch(now(), &world) else { return };
        if before.is_multiple_of(2) && before == world.count.load(Ordering::SeqCst) {
            assert_eq!(*launched, (value, value));
        }
    };
    let write = || (0..TURNS).for_each(|turn| world.write(turn * 7 % CONTENTS));
    let launch_always = || (0..TURNS).for_each(|_| launch());
    let export = || {
        for _ in 0..TURNS {
            launch();
            if let Ok(result) = memo.export(now(), "saying", &world) {
                is_right_everywhere(&result);
            }
        }
    };
    let import = || {
        for turn in 0..TURNS {
            let _stale = memo.import(now(), &known[(turn % CONTENTS) as usize], &world);
            launch();
        }
    };
    let invalidate = || (0..TURNS).for_each(|_| memo.invalidate(now()).unwrap_or_default());
    let replace = || {
        for _ in 0..TURNS / 4 {
            let old = std::mem::replace(&mut *handle.lock().unwrap(), memo.register(Saying));
            memo.remove(old).unwrap();
        }
    };
    let work: [&(dyn Fn() + Sync); 6] = [&write, &launch_always, &export, &import, &invalidate, &replace];
    thread::scope(|scope| work.into_iter().for_each(|work| drop(scope.spawn(work))));
    launch();
}
