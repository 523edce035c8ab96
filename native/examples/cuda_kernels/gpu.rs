//! The GPU, through the driver's library, which is loaded if it is there.

use std::{collections::HashMap, sync::Arc};

use cudarc::{
    driver::{
        CudaContext, CudaModule, CudaSlice, CudaStream, DriverError, LaunchConfig, PushKernelArg as _, sys,
    },
    nvrtc::Ptx,
};

use warmstart_tests::kernels::cuda::device::{Argument, Device, Geometry};

/// The first GPU.
pub(crate) struct Gpu {
    context: Arc<CudaContext>,
    stream: Arc<CudaStream>,
    pub(crate) name: String,
    /// The architecture, as the compiler names it.
    pub(crate) architecture: String,
}

impl Gpu {
    /// # Errors
    /// If there is none; the text says why.
    pub(crate) fn find() -> Result<Self, String> {
        // SAFETY: loading the driver's library runs its initialisers, as any program that uses the GPU does.
        if !unsafe { sys::is_culib_present() } {
            return Err("no NVIDIA driver".to_owned());
        }
        Self::open().map_err(|error| format!("an NVIDIA driver, but no device that it opens ({error})"))
    }

    fn open() -> Result<Self, DriverError> {
        let context = CudaContext::new(0)?;
        let (major, minor) = context.compute_capability()?;
        Ok(Self {
            stream: context.default_stream(),
            name: context.name()?,
            architecture: format!("sm_{major}{minor}"),
            context,
        })
    }

    /// Loads a CUBIN. `lowered` maps the functions whose names the compiler chose.
    ///
    /// # Errors
    /// If the driver refuses it.
    pub(crate) fn load(
        &self,
        cubin: Vec<u8>,
        lowered: HashMap<&'static str, String>,
    ) -> Result<Loaded<'_>, String> {
        let module = self
            .context
            .load_module(Ptx::from_binary(cubin))
            .map_err(|error| format!("the driver does not load it: {error}"))?;
        Ok(Loaded { gpu: self, module, lowered })
    }
}

/// A CUBIN on the GPU.
pub(crate) struct Loaded<'a> {
    gpu: &'a Gpu,
    module: Arc<CudaModule>,
    lowered: HashMap<&'static str, String>,
}

impl Device for Loaded<'_> {
    fn launch(
        &self,
        function: &str,
        geometry: Geometry,
        arguments: &mut [Argument<'_>],
    ) -> Result<(), String> {
        self.try_launch(function, geometry, arguments).map_err(|error| format!("{function}: {error}"))
    }
}

/// An argument in the driver's form.
enum Passed {
    Input(CudaSlice<u8>),
    Output(CudaSlice<u8>),
    Count(u32),
    Number(f32),
}

impl Loaded<'_> {
    fn try_launch(
        &self,
        function: &str,
        geometry: Geometry,
        arguments: &mut [Argument<'_>],
    ) -> Result<(), DriverError> {
        let stream = &self.gpu.stream;
        let mut passed = Vec::new();
        for argument in &*arguments {
            passed.push(match argument {
                Argument::Input(array) => Passed::Input(stream.clone_htod(&array.to_bytes())?),
                Argument::Output(array) => Passed::Output(stream.clone_htod(&array.to_bytes())?),
                Argument::Count(count) => Passed::Count(*count),
                Argument::Number(number) => Passed::Number(*number),
            });
        }

        let lowered = self.lowered.get(function).map_or(function, String::as_str);
        let function = self.module.load_function(lowered)?;
        let mut launch = stream.launch_builder(&function);
        for argument in &mut passed {
            match argument {
                Passed::Input(array) => launch.arg(&*array),
                Passed::Output(array) => launch.arg(array),
                Passed::Count(count) => launch.arg(&*count),
                Passed::Number(number) => launch.arg(&*number),
            };
        }
        let Geometry { grid, block } = geometry;
        let config = LaunchConfig { grid_dim: grid, block_dim: block, shared_mem_bytes: 0 };
        // SAFETY: the arguments are of the types of the kernel's parameters, in their order, and it stays in
        // its arrays: the tests run the same launches on the CPU, where both are checked.
        unsafe { launch.launch(config) }?;
        stream.synchronize()?;

        for (argument, passed) in arguments.iter_mut().zip(&passed) {
            if let (Argument::Output(array), Passed::Output(filled)) = (argument, passed) {
                array.fill(&stream.clone_dtoh(filled)?);
            }
        }
        Ok(())
    }
}
