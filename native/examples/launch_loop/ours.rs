//! The launch memo: the kernels as it sees them.

use std::convert::Infallible;

use warmstart::memo::{
    ArgumentId, Arguments, Evaluate, FieldId, Handle, LaunchError, Launched, Recorder, Reduction, SharedMemo,
    World,
};

use crate::{
    designs::{Design, Results, empty},
    expression::{Reader, reduce},
    kernels::{Kernel, Task},
    scene::{Scene, Values},
};

impl Reduction for Kernel {
    /// The places of a task in the kernel and of a reducer in the task.
    type Spec = (u8, u16);
    type Value = i64;
    type Output = Results;
    type Error = Infallible;
}

impl<W: World<Field = Values, Array = Values>> Evaluate<W> for Kernel {
    fn launch(&self, recorder: &mut Recorder<'_, Self, W>) -> Result<Results, LaunchError<Infallible>> {
        let mut results = empty();
        for (place, task) in (0..).zip(&self.tasks) {
            for (at, spec) in (0..).zip(&task.specs) {
                results.insert(task.key(spec.stack, spec.node), recorder.spec((place, at))?);
            }
        }
        Ok(results)
    }

    fn spec(
        &self,
        &(place, at): &(u8, u16),
        recorder: &mut Recorder<'_, Self, W>,
    ) -> Result<i64, LaunchError<Infallible>> {
        let task = &self.tasks[usize::from(place)];
        let spec = &task.specs[usize::from(at)];
        reduce(spec, task.expression(spec), &mut Recorded { recorder, place, task })
    }
}

/// Reads the world through the recorder alone.
struct Recorded<'r, 'w, W> {
    recorder: &'r mut Recorder<'w, Kernel, W>,
    place: u8,
    task: &'r Task,
}

impl<'w, W: World<Field = Values, Array = Values>> Reader<'w> for Recorded<'_, 'w, W> {
    type Error = LaunchError<Infallible>;

    fn field(&mut self, field: FieldId) -> &'w [i32] {
        self.recorder.field(field).map_or(&[], |values| values)
    }

    fn array(&mut self, argument: ArgumentId) -> &'w [i32] {
        self.recorder.array(argument).map_or(&[], |values| values)
    }

    fn extent(&mut self, argument: ArgumentId, axis: u32) -> i64 {
        self.recorder.extent(argument, axis).map_or(0, |extent| extent as i64)
    }

    fn reduced(&mut self, stack: u16, node: u16) -> Result<i64, Self::Error> {
        self.recorder.spec((self.place, self.task.place(stack, node)))
    }
}

/// The view of launches on their arguments; a test replaces it to hide changes.
pub(crate) trait Sight: Default {
    type World<'w>: World<Field = Values, Array = Values>
    where
        Self: 'w;

    fn see<'w>(&'w self, arguments: Arguments<'w, Values, Values>) -> Self::World<'w>;
}

#[derive(Default)]
pub(crate) struct AsItIs;

impl Sight for AsItIs {
    type World<'w> = Arguments<'w, Values, Values>;

    fn see<'w>(&'w self, arguments: Arguments<'w, Values, Values>) -> Self::World<'w> {
        arguments
    }
}

pub(crate) struct Ours<S = AsItIs> {
    memo: SharedMemo<Kernel>,
    handles: Vec<Handle>,
    sight: S,
}

impl<S: Sight> Ours<S> {
    pub(crate) fn new(scene: &Scene) -> Self {
        let memo = SharedMemo::new();
        let handles = scene.kernels.iter().map(|kernel| memo.register(kernel.clone())).collect();
        Self { memo, handles, sight: S::default() }
    }
}

impl<S: Sight> Design for Ours<S> {
    type Answer = Launched<Kernel>;

    const IS_SHARED: bool = true;

    fn launch(&mut self, kernel: usize, scene: &Scene) -> Launched<Kernel> {
        let world = self.sight.see(scene.arguments(kernel));
        self.memo.launch(self.handles[kernel], &world).expect("nothing in a kernel fails")
    }

    fn evaluated(&self) -> u64 {
        self.memo.statistics().spec_evaluations
    }

    fn maps(answer: &Launched<Kernel>) -> &[Results] {
        std::slice::from_ref(answer)
    }

    fn is_hit(answer: &Launched<Kernel>) -> bool {
        answer.is_hit()
    }

    fn dependencies(answer: &Launched<Kernel>) -> usize {
        answer.dependencies().len()
    }
}
