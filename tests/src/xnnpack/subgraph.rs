//! Operators that work together.

use std::{ffi::c_void, marker::PhantomData, ptr};

use super::{
    Element, Error, Library, Tensor, WeightsCache,
    abi::{self, ClampParams, ExternalValue, Handle},
    library::check,
};

/// Operators and the values between them, before they are made to run. Values are tensors of 32-bit numbers unless said.
#[derive(Debug)]
pub struct Subgraph<'a> {
    library: &'static Library,
    handle: Handle,
    /// The number of external values that may be defined.
    reserved: u32,
    external: Vec<External>,
    weights: PhantomData<&'a ()>,
}

/// A subgraph that can be run.
#[derive(Debug)]
pub struct Runtime<'a> {
    library: &'static Library,
    handle: Handle,
    external: Vec<External>,
    /// Whether operators and external values have the shapes that belong together.
    is_shaped: bool,
    weights: PhantomData<&'a ()>,
}

/// A value of a subgraph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Value(u32);

/// An operator of one argument.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Unary {
    /// The Gaussian error linear unit, without an approximation by `tanh`.
    Gelu,
    /// The nearest number that is not outside these two.
    Clamp(f32, f32),
    /// The same numbers in the type of the output.
    Convert,
}

/// An operator of two arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Binary {
    /// The sum.
    Add,
    /// The product.
    Multiply,
}

/// An external value of one run.
#[derive(Debug)]
pub enum Binding<'a> {
    /// It is read.
    Input(Value, &'a Tensor),
    /// It is written.
    Output(Value, &'a mut Tensor),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct External {
    id: u32,
    is_output: bool,
}

impl<'a> Subgraph<'a> {
    /// An empty one that may come to have so many external values.
    ///
    /// # Errors
    ///
    /// If XNNPACK refuses, as all methods here say.
    pub fn new(library: &'static Library, reserved: u32) -> Result<Self, Error> {
        let mut handle = ptr::null_mut();
        // SAFETY: no flags are given, and the handle has a place.
        check("xnn_create_subgraph", unsafe {
            (library.functions.create_subgraph)(reserved, 0, &raw mut handle)
        })?;
        Ok(Self { library, handle, reserved, external: Vec::new(), weights: PhantomData })
    }

    /// The inputs of a run.
    ///
    /// # Errors
    ///
    /// If all external values were defined.
    pub fn input(&mut self, shape: &[usize]) -> Result<Value, Error> {
        self.external(shape, false)
    }

    /// The outputs of a run.
    ///
    /// # Errors
    ///
    /// If all external values were defined.
    pub fn output(&mut self, shape: &[usize]) -> Result<Value, Error> {
        self.external(shape, true)
    }

    /// Defines a value between two operators.
    ///
    /// # Errors
    ///
    /// If XNNPACK refuses.
    pub fn intermediate(&mut self, shape: &[usize]) -> Result<Value, Error> {
        self.intermediate_of::<f32>(shape)
    }

    /// As [`intermediate`](Self::intermediate), of other numbers.
    ///
    /// # Errors
    ///
    /// If XNNPACK refuses.
    pub fn intermediate_of<T: Element>(&mut self, shape: &[usize]) -> Result<Value, Error> {
        self.define(T::DATATYPE, shape, ptr::null(), abi::INVALID_VALUE, 0)
    }

    /// Numbers that never change: a weight or a bias. A weights cache knows them by their address.
    ///
    /// # Errors
    ///
    /// If the shape is not that of so many numbers.
    pub fn constant<T: Element>(&mut self, shape: &[usize], numbers: &'a Tensor<T>) -> Result<Value, Error> {
        fits(shape, numbers.len())?;
        self.define(T::DATATYPE, shape, numbers.as_ptr().cast(), abi::INVALID_VALUE, 0)
    }

    /// `output = input * transposed weight + bias`; the weight has a row for each output, as PyTorch keeps it.
    ///
    /// # Errors
    ///
    /// If the shapes do not fit.
    pub fn fully_connected(
        &mut self,
        input: Value,
        weight: Value,
        bias: Option<Value>,
        output: Value,
    ) -> Result<(), Error> {
        let bias = bias.map_or(abi::INVALID_VALUE, |bias| bias.0);
        let (least, greatest) = (f32::NEG_INFINITY, f32::INFINITY);
        // SAFETY: the handle is the subgraph's; XNNPACK checks that it knows the values and that their shapes fit.
        check("xnn_define_fully_connected", unsafe {
            (self.library.functions.define_fully_connected)(
                self.handle,
                least,
                greatest,
                input.0,
                weight.0,
                bias,
                output.0,
                0,
            )
        })
    }

    /// Applies an operator to each number.
    ///
    /// # Errors
    ///
    /// If the shapes do not fit.
    pub fn unary(&mut self, operator: Unary, input: Value, output: Value) -> Result<(), Error> {
        // The numbers are those of `xnn_unary_operator`.
        let (kind, params) = match operator {
            Unary::Clamp(min, max) => (4, Some(ClampParams { min, max })),
            Unary::Convert => (5, None),
            Unary::Gelu => (10, None),
        };
        let params = params.as_ref().map_or(ptr::null(), ptr::from_ref);
        // SAFETY: as in `fully_connected`; parameters are given to the operator that reads them, and copied.
        check("xnn_define_unary", unsafe {
            (self.library.functions.define_unary)(self.handle, kind, params, input.0, output.0, 0)
        })
    }

    /// Applies an operator to each two numbers.
    ///
    /// # Errors
    ///
    /// If the shapes do not fit.
    pub fn binary(&mut self, operator: Binary, one: Value, other: Value, output: Value) -> Result<(), Error> {
        // The numbers are those of `xnn_binary_operator`.
        let kind = match operator {
            Binary::Add => 0,
            Binary::Multiply => 2,
        };
        // SAFETY: as in `fully_connected`; the parameters may be null.
        check("xnn_define_binary", unsafe {
            (self.library.functions.define_binary)(
                self.handle,
                kind,
                ptr::null(),
                one.0,
                other.0,
                output.0,
                0,
            )
        })
    }

    /// Makes it run: all weights are packed, or found packed in the cache.
    ///
    /// # Errors
    ///
    /// If it cannot run, and with "out of memory" if the cache reserved none.
    pub fn compile(self, cache: Option<WeightsCache<'a>>) -> Result<Runtime<'a>, Error> {
        let mut handle = ptr::null_mut();
        // SAFETY: the handle is the subgraph's. The cache keeps the promises of `WeightsCache::from_raw` for `'a`, which
        // the runtime does not outlive. Null stands for a workspace of its own and for no threads.
        check("xnn_create_runtime_v4", unsafe {
            (self.library.functions.create_runtime_v4)(
                self.handle,
                WeightsCache::pointer(cache),
                ptr::null_mut(),
                ptr::null_mut(),
                0,
                &raw mut handle,
            )
        })?;
        // The subgraph is dropped: a runtime does not need it.
        let external = self.external.clone();
        Ok(Runtime { library: self.library, handle, external, is_shaped: false, weights: PhantomData })
    }

    fn external(&mut self, shape: &[usize], is_output: bool) -> Result<Value, Error> {
        let id = u32::try_from(self.external.len()).ok().filter(|id| *id < self.reserved);
        let id =
            id.ok_or_else(|| Error::Unsound(format!("{} external values were reserved", self.reserved)))?;
        let flag = if is_output { abi::EXTERNAL_OUTPUT } else { abi::EXTERNAL_INPUT };
        let value = self.define(abi::FP32, shape, ptr::null(), id, flag)?;
        self.external.push(External { id, is_output });
        Ok(value)
    }

    fn define(
        &mut self,
        datatype: i32,
        shape: &[usize],
        data: *const c_void,
        external: u32,
        flags: u32,
    ) -> Result<Value, Error> {
        let mut id = abi::INVALID_VALUE;
        // SAFETY: the shape has so many dimensions and is copied. The data, if any, are borrowed for `'a`, which neither
        // the subgraph nor a runtime outlives; that they are as many as the shape says was checked.
        check("xnn_define_tensor_value", unsafe {
            (self.library.functions.define_tensor_value)(
                self.handle,
                datatype,
                shape.len(),
                shape.as_ptr(),
                data,
                external,
                flags,
                &raw mut id,
            )
        })?;
        Ok(Value(id))
    }
}

impl Drop for Subgraph<'_> {
    fn drop(&mut self) {
        // SAFETY: the handle is the subgraph's, and is not used again.
        unsafe { (self.library.functions.delete_subgraph)(self.handle) };
    }
}

impl Runtime<'_> {
    /// Works out all shapes and makes room for what is between the operators. Needed before a run, and again to give
    /// inputs other shapes than they were defined with.
    ///
    /// # Errors
    ///
    /// If the shapes do not fit.
    pub fn reshape(&mut self, inputs: &[(Value, &[usize])]) -> Result<(), Error> {
        self.is_shaped = false;
        for (input, shape) in inputs {
            // SAFETY: the handle is the runtime's, and the shape has so many dimensions and is copied.
            check("xnn_reshape_external_value", unsafe {
                (self.library.functions.reshape_external_value)(
                    self.handle,
                    input.0,
                    shape.len(),
                    shape.as_ptr(),
                )
            })?;
        }
        // SAFETY: the handle is the runtime's.
        check("xnn_reshape_runtime", unsafe { (self.library.functions.reshape_runtime)(self.handle) })?;
        self.is_shaped = true;
        Ok(())
    }

    /// Computes the outputs from the inputs. Each external value must be bound once.
    ///
    /// # Errors
    ///
    /// If they are not, or not to tensors of their length; and if XNNPACK refuses: with "invalid state" as long as the
    /// cache is not finalised.
    pub fn run(&mut self, bindings: &mut [Binding<'_>]) -> Result<(), Error> {
        if !self.is_shaped {
            return Err(Error::Unsound("the runtime has to be shaped before it runs".to_owned()));
        }
        let bound: Vec<ExternalValue> = bindings.iter_mut().map(Binding::as_external).collect();
        for external in &self.external {
            let mut of_it = bindings.iter().filter(|binding| binding.external() == *external);
            let once = of_it.next().filter(|_| of_it.next().is_none());
            let binding = once.ok_or_else(|| {
                Error::Unsound(format!("the external value {} is not bound once as what it is", external.id))
            })?;
            fits(&self.shape(external.id)?, binding.len())?;
        }
        if bound.len() != self.external.len() {
            return Err(Error::Unsound("a value is bound that is not external".to_owned()));
        }
        // SAFETY: the handle is the runtime's. Each external value is bound to a tensor of its length, which can be read
        // beyond its end, and which can be written if the value is an output.
        check("xnn_setup_runtime_v2", unsafe {
            (self.library.functions.setup_runtime_v2)(self.handle, bound.len(), bound.as_ptr())
        })?;
        // SAFETY: it was just set up with tensors that are still borrowed.
        check("xnn_invoke_runtime", unsafe { (self.library.functions.invoke_runtime)(self.handle) })
    }

    fn shape(&self, id: u32) -> Result<Vec<usize>, Error> {
        let (mut count, mut dimensions) = (0, [0; abi::MAX_DIMENSIONS]);
        // SAFETY: the handle is the runtime's, and there is room for as many dimensions as a tensor may have.
        check("xnn_get_external_value_shape", unsafe {
            (self.library.functions.get_external_value_shape)(
                self.handle,
                id,
                &raw mut count,
                dimensions.as_mut_ptr(),
            )
        })?;
        Ok(dimensions[..count].to_vec())
    }
}

impl Drop for Runtime<'_> {
    fn drop(&mut self) {
        // SAFETY: the handle is the runtime's, and is not used again.
        unsafe { (self.library.functions.delete_runtime)(self.handle) };
    }
}

impl Binding<'_> {
    fn external(&self) -> External {
        match self {
            Self::Input(value, _) => External { id: value.0, is_output: false },
            Self::Output(value, _) => External { id: value.0, is_output: true },
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Input(_, tensor) => tensor.len(),
            Self::Output(_, tensor) => tensor.len(),
        }
    }

    fn as_external(&mut self) -> ExternalValue {
        let data = match self {
            // XNNPACK does not write to an input.
            Self::Input(_, tensor) => tensor.as_ptr().cast_mut(),
            Self::Output(_, tensor) => tensor.as_mut_ptr(),
        };
        ExternalValue { id: self.external().id, data: data.cast() }
    }
}

/// Whether a tensor of this shape has so many numbers.
fn fits(shape: &[usize], len: usize) -> Result<(), Error> {
    let product = shape.iter().try_fold(1_usize, |product, length| product.checked_mul(*length));
    if product == Some(len) {
        Ok(())
    } else {
        Err(Error::Unsound(format!("{len} numbers have not the shape {shape:?}")))
    }
}
