//! Kernels whose code writes an id when it overflows, and whose launches need the result of a reduction.

use std::{convert::Infallible, error::Error};

use warmstart::{
    Artifact, Cache, Key, KeyFields, Store,
    launch_record::LaunchRecord,
    memo::{
        AllocationId, ArgumentId, Evaluate, FieldId, Handle, LaunchError, Launched, Portable, Recorder,
        Reduction, SharedMemo, Tracked, World,
    },
    registry::{RegistryId, SharedRegistry},
};

/// Names whose first ids are the same in every process that does not know of the others.
pub const COLLIDING: [&str; 3] = ["k10823927", "k21347034", "k40743126"];

/// The number of tasks of a kernel.
pub const TASKS: i32 = 3;

/// The deepest stack that each task of a kernel needs: the longest of its loops.
#[derive(Debug)]
pub struct Depths;

impl Reduction for Depths {
    type Spec = i32;
    type Value = u64;
    type Output = Vec<u64>;
    type Error = Infallible;
}

impl Portable for Depths {
    fn fingerprint(&self) -> Key {
        KeyFields::new("depths", 1).number("tasks", TASKS.unsigned_abs().into()).key()
    }
}

impl<W: World<Field = Vec<u64>, Array = Vec<u64>>> Evaluate<W> for Depths {
    fn launch(&self, recorder: &mut Recorder<'_, Self, W>) -> Result<Vec<u64>, LaunchError<Infallible>> {
        (0..TASKS).map(|task| recorder.spec(task)).collect()
    }

    fn spec(&self, task: &i32, recorder: &mut Recorder<'_, Self, W>) -> Result<u64, LaunchError<Infallible>> {
        let longest =
            |values: Option<&Vec<u64>>| values.and_then(|values| values.iter().copied().max()).unwrap_or(0);
        Ok(match task {
            0 => longest(recorder.field(FieldId(0))),
            1 => longest(recorder.array(ArgumentId(0))),
            _ => recorder.extent(ArgumentId(0), 0).unwrap_or(0),
        })
    }
}

/// The arrays that a kernel reads: the same contents for the same seed in every process.
#[derive(Debug)]
pub struct Data {
    world: Tracked<Vec<u64>, Vec<u64>>,
    argument: AllocationId,
}

impl Data {
    /// The contents of `seed`, written as often as it pleases this process.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut world = Tracked::new();
        let field = world.add_field(Vec::new());
        for _ in 0..std::process::id() % 5 {
            world.field_mut(field).into_iter().for_each(Vec::clear);
        }
        let numbers = |salt: u64| (0..100).map(|n| (n * 7919 + seed * 31 + salt) % 1009).collect::<Vec<_>>();
        world.field_mut(field).into_iter().for_each(|values| *values = numbers(1));
        let argument = world.allocate(&[100 + seed], numbers(2));
        Self { world, argument }
    }

    /// Returns the expected answer of a launch.
    #[must_use]
    pub fn depths(&self) -> Vec<u64> {
        let longest = |values: Option<&Vec<u64>>| values.and_then(|values| values.iter().max().copied());
        let extent = self.world.shape(self.argument).map(|shape| shape[0]);
        [longest(self.world.field(FieldId(0))), longest(self.world.array(self.argument)), extent]
            .into_iter()
            .flatten()
            .collect()
    }
}

/// A kernel in this process.
#[derive(Debug)]
pub struct Loaded {
    /// The artifact that it was loaded from.
    pub artifact: Artifact,
    /// Whether it was stored already.
    pub is_hit: bool,
    name: String,
    handle: Handle,
}

/// A runtime of one process.
#[derive(Debug, Default)]
pub struct Runtime {
    /// The ids of all that was launched.
    pub registry: SharedRegistry,
    /// The results of all that was launched.
    pub memo: SharedMemo<Depths>,
    /// The number of tasks that were dispatched.
    pub dispatched: usize,
}

impl Runtime {
    /// Loads a kernel from the cache, or compiles it: its code is the ids of its tasks.
    ///
    /// # Errors
    /// If its names are refused.
    pub fn load<S: Store>(&mut self, cache: &Cache<S>, kernel: &str) -> Result<Loaded, Box<dyn Error>> {
        let registry = &self.registry;
        let fields = KeyFields::new("launching", 1).text("kernel", kernel);
        let fetched = cache.get_or_build(&fields, || {
            let mut record = LaunchRecord::new();
            let mut code = Vec::new();
            for task in 0..TASKS {
                let id = registry.register(kernel, task, ())?;
                code.extend_from_slice(&id.as_u32().to_le_bytes());
                record = record.with_row(id, kernel, task)?;
            }
            Ok::<_, Box<dyn Error>>(record.attach(&Artifact::new(code))?)
        })?;
        let handle = self.memo.register(Depths);
        let (artifact, is_hit) = (fetched.artifact().clone(), fetched.is_hit());
        Ok(Loaded { artifact, is_hit, name: kernel.into(), handle })
    }

    /// Launches a kernel: its result, and the ids that its tasks write if they overflow.
    ///
    /// # Errors
    /// If the artifact's record is refused.
    pub fn launch(
        &mut self,
        kernel: &Loaded,
        data: &Data,
    ) -> Result<(Launched<Depths>, Vec<RegistryId>), Box<dyn Error>> {
        let arguments = [data.argument];
        let world = data.world.with_arguments(&arguments);
        if let Some(record) = LaunchRecord::of(&kernel.artifact)? {
            self.registry.adopt_record(&record)?;
            if let Some(result) = record.result(&kernel.name) {
                self.memo.import(kernel.handle, result, &world)?;
            }
        }
        let launched = self.memo.launch(kernel.handle, &world)?;
        let ids = kernel.artifact.payload().chunks_exact(4).filter_map(|id| id.try_into().ok());
        let ids: Vec<_> = ids.map(u32::from_le_bytes).filter_map(RegistryId::new).collect();
        // As the original did: what is not registered is not dispatched.
        self.dispatched += ids.iter().filter(|id| !self.registry.resolve(**id).rows().is_empty()).count();
        Ok((launched, ids))
    }

    /// Stores what the launches of a kernel gave with its artifact.
    ///
    /// # Errors
    /// If nothing is kept for it, or if it cannot be stored.
    pub fn keep<S: Store>(
        &self,
        cache: &Cache<S>,
        kernel: &Loaded,
        data: &Data,
    ) -> Result<(), Box<dyn Error>> {
        let arguments = [data.argument];
        let result = self.memo.export(kernel.handle, &kernel.name, &data.world.with_arguments(&arguments))?;
        let record = LaunchRecord::of(&kernel.artifact)?.unwrap_or_default().with_result(result);
        let fields = KeyFields::new("launching", 1).text("kernel", kernel.name.as_str());
        cache.put(&fields, &record.attach(&kernel.artifact)?)?;
        Ok(())
    }
}
