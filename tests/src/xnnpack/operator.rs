//! One operator by itself.

use std::{marker::PhantomData, ptr};

use super::{Error, Library, Tensor, View, WeightsCache, abi::Handle, library::check};

/// A fully-connected operator in 32-bit numbers: `output = input * transposed weight + bias`, row by row.
#[derive(Debug)]
pub struct FullyConnected<'a> {
    library: &'static Library,
    handle: Handle,
    inputs: usize,
    outputs: usize,
    /// For how many rows it was last shaped.
    rows: usize,
    weights: PhantomData<&'a ()>,
}

impl<'a> FullyConnected<'a> {
    /// Packs a weight of `outputs` rows of `inputs` numbers, or finds it packed in the cache.
    ///
    /// # Errors
    ///
    /// If a length does not fit the weight's, or if XNNPACK refuses: with "out of memory" if the cache reserved none.
    pub fn new(
        library: &'static Library,
        weight: &'a Tensor,
        bias: Option<&'a Tensor>,
        inputs: usize,
        cache: Option<WeightsCache<'a>>,
    ) -> Result<Self, Error> {
        Self::of_views(library, weight.into(), bias.map(View::from), inputs, cache)
    }

    /// The same of numbers that lie within a tensor.
    ///
    /// # Errors
    ///
    /// As of [`new`](Self::new).
    pub fn of_views(
        library: &'static Library,
        weight: View<'a>,
        bias: Option<View<'a>>,
        inputs: usize,
        cache: Option<WeightsCache<'a>>,
    ) -> Result<Self, Error> {
        if inputs == 0 || weight.is_empty() || !weight.len().is_multiple_of(inputs) {
            return Err(Error::Unsound(format!("{} numbers are no rows of {inputs}", weight.len())));
        }
        let outputs = weight.len() / inputs;
        if bias.is_some_and(|bias| bias.len() != outputs) {
            return Err(Error::Unsound(format!("the bias has not {outputs} numbers, one for each output")));
        }
        let bias = bias.map_or(ptr::null(), |bias| bias.as_ptr());
        let mut handle = ptr::null_mut();
        // SAFETY: the lengths of weight and bias were checked, and a tensor can be read beyond its end. The cache keeps
        // the promises of `WeightsCache::from_raw` for `'a`, which the operator does not outlive.
        check("xnn_create_fully_connected_nc_f32", unsafe {
            (library.functions.create_fully_connected_nc_f32)(
                inputs,
                outputs,
                inputs,
                outputs,
                weight.as_ptr(),
                bias,
                f32::NEG_INFINITY,
                f32::INFINITY,
                0,
                WeightsCache::pointer(cache),
                &raw mut handle,
            )
        })?;
        Ok(Self { library, handle, inputs, outputs, rows: 0, weights: PhantomData })
    }

    /// Prepares it for so many rows.
    ///
    /// # Errors
    ///
    /// If XNNPACK refuses.
    pub fn reshape(&mut self, rows: usize) -> Result<(), Error> {
        self.rows = 0;
        // SAFETY: the handle is a fully-connected operator's in 32-bit numbers. Null asks for no threads.
        check("xnn_reshape_fully_connected_nc_f32", unsafe {
            (self.library.functions.reshape_fully_connected_nc_f32)(self.handle, rows, ptr::null_mut())
        })?;
        self.rows = rows;
        Ok(())
    }

    /// Computes the rows of `output` from those of `input`.
    ///
    /// # Errors
    ///
    /// If they are not as many as it was [shaped](Self::reshape) for, and if XNNPACK refuses: with "invalid state" as
    /// long as the cache is not finalised.
    pub fn run(&mut self, input: &Tensor, output: &mut Tensor) -> Result<(), Error> {
        let (expected, given) = (self.rows * self.inputs, input.len());
        if self.rows == 0 || given != expected || output.len() != self.rows * self.outputs {
            return Err(Error::Unsound(format!(
                "shaped for {} rows, not for these {given} numbers",
                self.rows
            )));
        }
        // SAFETY: the handle is right, as in `reshape`, and the lengths are those that it was shaped for.
        check("xnn_setup_fully_connected_nc_f32", unsafe {
            (self.library.functions.setup_fully_connected_nc_f32)(
                self.handle,
                input.as_ptr(),
                output.as_mut_ptr(),
            )
        })?;
        // SAFETY: it was just set up with tensors that are still borrowed.
        check("xnn_run_operator", unsafe {
            (self.library.functions.run_operator)(self.handle, ptr::null_mut())
        })
    }
}

impl Drop for FullyConnected<'_> {
    fn drop(&mut self) {
        // SAFETY: the handle is the operator's, and is not used again.
        unsafe { (self.library.functions.delete_operator)(self.handle) };
    }
}
