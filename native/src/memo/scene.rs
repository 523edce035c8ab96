//! A world that threads write, and a kernel that reads it: for the tests, and for the models that loom runs.

use std::{convert::Infallible, sync::Arc};

#[cfg(loom)]
pub(super) use loom::sync::atomic::{AtomicU64, Ordering};
#[cfg(not(loom))]
pub(super) use std::sync::atomic::{AtomicU64, Ordering};

use warmstart_core::memo::{
    ArgumentId, Binding, Evaluate, FieldId, Generation, LaunchError, Recorder, Reduction, World, WorldId,
};

pub(super) const FIELD: FieldId = FieldId(0);

/// Fields whose values are read and written relaxed: only their generations order anything.
pub(super) struct Fields(Vec<Field>);

struct Field {
    generation: AtomicU64,
    value: AtomicU64,
}

impl Fields {
    /// So many fields of value 0.
    pub(super) fn new(count: usize) -> Self {
        Self((0..count).map(|_| Field { generation: AtomicU64::new(0), value: AtomicU64::new(0) }).collect())
    }

    /// Counts a field up, as [`World`] wants it: writes first, counts then. One thread at a time.
    pub(super) fn count_up(&self, field: FieldId) {
        let Field { generation, value } = &self.0[field.0 as usize];
        let next = value.load(Ordering::Relaxed) + 1;
        value.store(next, Ordering::Relaxed);
        generation.store(next, Ordering::Release);
    }
}

impl World for Fields {
    type Field = AtomicU64;
    type Array = ();

    fn identity(&self) -> WorldId {
        WorldId(0)
    }

    fn field_generation(&self, field: FieldId) -> Option<Generation> {
        Some(Generation::new(self.0.get(field.0 as usize)?.generation.load(Ordering::Acquire)))
    }

    fn field(&self, field: FieldId) -> Option<&AtomicU64> {
        Some(&self.0.get(field.0 as usize)?.value)
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

/// Its result says which kernel it is, and what the field was.
pub(super) struct Kernel {
    pub(super) name: u64,
    pub(super) field: FieldId,
    /// Something that changes and is not counted.
    pub(super) uncounted: Option<Arc<AtomicU64>>,
}

impl Kernel {
    pub(super) const fn named(name: u64) -> Self {
        Self { name, field: FIELD, uncounted: None }
    }
}

impl Reduction for Kernel {
    type Spec = FieldId;
    type Value = u64;
    type Output = (u64, u64);
    type Error = Infallible;
}

impl<W: World<Field = AtomicU64> + ?Sized> Evaluate<W> for Kernel {
    fn launch(&self, recorder: &mut Recorder<'_, Self, W>) -> Result<(u64, u64), LaunchError<Infallible>> {
        let uncounted = self.uncounted.as_ref().map_or(0, |value| value.load(Ordering::Relaxed));
        Ok((self.name + uncounted, recorder.spec(self.field)?))
    }

    fn spec(
        &self,
        field: &FieldId,
        recorder: &mut Recorder<'_, Self, W>,
    ) -> Result<u64, LaunchError<Infallible>> {
        Ok(recorder.field(*field).map_or(0, |value| value.load(Ordering::Relaxed)))
    }
}
