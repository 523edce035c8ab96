//! The weights of a real model, the sentence encoder all-MiniLM-L6-v2: the fully-connected layers of its six encoder blocks,
//! under the names that they have in its file.

use std::{
    array, fs, io, iter,
    path::{Path, PathBuf},
};

use safetensors::{SafeTensors, tensor::Dtype};

use crate::{
    runtimes,
    xnnpack::{Binary, Binding, Error, Library, Runtime, Subgraph, Tensor, Unary, Value, WeightsCache},
};

/// The number of encoder blocks.
pub const BLOCKS: usize = 6;
/// The number of floats of a token between two blocks.
pub const WIDTH: usize = 384;

/// The layers of a block, in the order in which they run.
const LAYERS: [&str; 6] = [
    "attention.self.query",
    "attention.self.key",
    "attention.self.value",
    "attention.output.dense",
    "intermediate.dense",
    "output.dense",
];

/// The model's fully-connected layers.
#[derive(Debug)]
pub struct Model {
    /// Six for each block, in the order in which they run.
    layers: Vec<Layer>,
    /// The factor that replaces normalisation: without it, numbers grow about fivefold in each block.
    scale: Tensor,
}

/// A weight and its bias.
#[derive(Debug)]
pub struct Layer {
    name: String,
    weight: Tensor,
    bias: Tensor,
    inputs: usize,
}

/// The model, made to run. See [`Model::compile`].
#[derive(Debug)]
pub struct Encoder<'a> {
    runtime: Runtime<'a>,
    input: Value,
    output: Value,
}

/// Reads the model that `cargo xtask runtimes --models` installed.
///
/// # Panics
///
/// If it is not there, or cannot be read.
#[must_use]
pub fn model() -> Model {
    let path = path();
    Model::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the model's file.
///
/// # Panics
///
/// If it is not there.
#[must_use]
pub fn path() -> PathBuf {
    runtimes::minilm().expect("the model all-MiniLM-L6-v2 is not there: run cargo xtask runtimes --models")
}

impl Model {
    /// Reads the layers out of a file.
    ///
    /// # Errors
    ///
    /// If it cannot be read, or does not hold them with the shapes that this model has.
    pub fn read(path: &Path) -> io::Result<Self> {
        let bytes = fs::read(path)?;
        let file = SafeTensors::deserialize(&bytes).map_err(io::Error::other)?;
        let names =
            (0..BLOCKS).flat_map(|block| LAYERS.map(|layer| format!("encoder.layer.{block}.{layer}")));
        let layers: Vec<Layer> = names.map(|name| Layer::of(&file, name)).collect::<io::Result<_>>()?;
        for block in layers.chunks(LAYERS.len()) {
            let shapes: Vec<_> = block.iter().map(|layer| (layer.inputs, layer.outputs())).collect();
            let wide = 4 * WIDTH;
            let square = (WIDTH, WIDTH);
            if shapes != [square, square, square, square, (WIDTH, wide), (wide, WIDTH)] {
                return Err(io::Error::other(format!("the layers of a block have other shapes: {shapes:?}")));
            }
        }
        Ok(Self { layers, scale: iter::once(0.2).collect() })
    }

    /// All layers, in the order in which they run.
    #[must_use]
    pub fn layers(&self) -> &[Layer] {
        &self.layers
    }

    /// Makes all layers run, for so many tokens at a time.
    ///
    /// The step between the layers, which is simpler than in the model: of query, key and value a block takes the sum, and it
    /// scales instead of normalising. All weights are used, and that is what counts here.
    ///
    /// # Errors
    ///
    /// If XNNPACK refuses.
    pub fn compile<'a>(
        &'a self,
        library: &'static Library,
        tokens: usize,
        cache: Option<WeightsCache<'a>>,
    ) -> Result<Encoder<'a>, Error> {
        let mut subgraph = Subgraph::new(library, 2)?;
        let input = subgraph.input(&[tokens, WIDTH])?;
        let output = subgraph.output(&[tokens, WIDTH])?;
        let scale = subgraph.constant(&[1], &self.scale)?;
        let mut state = input;
        let blocks = self.layers.chunks(LAYERS.len());
        let last = blocks.len() - 1;
        for (number, block) in blocks.enumerate() {
            let next = if number == last { output } else { subgraph.intermediate(&[tokens, WIDTH])? };
            let done = define_block(&mut subgraph, block, tokens, state)?;
            subgraph.binary(Binary::Multiply, done, scale, next)?;
            state = next;
        }
        let mut runtime = subgraph.compile(cache)?;
        runtime.reshape(&[])?;
        Ok(Encoder { runtime, input, output })
    }
}

/// Adds the layers of a block to a subgraph; what they compute.
fn define_block<'a>(
    subgraph: &mut Subgraph<'a>,
    block: &'a [Layer],
    tokens: usize,
    input: Value,
) -> Result<Value, Error> {
    let narrow = [tokens, WIDTH];
    let apply = |subgraph: &mut Subgraph<'a>, layer: &'a Layer, input| {
        let weight = subgraph.constant(&[layer.outputs(), layer.inputs], &layer.weight)?;
        let bias = subgraph.constant(&[layer.outputs()], &layer.bias)?;
        let output = subgraph.intermediate(&[tokens, layer.outputs()])?;
        subgraph.fully_connected(input, weight, Some(bias), output)?;
        Ok(output)
    };
    let [query, key, value, attention, intermediate, dense] = array::from_fn(|at| &block[at]);
    let query = apply(subgraph, query, input)?;
    let key = apply(subgraph, key, input)?;
    let value = apply(subgraph, value, input)?;
    let pair = subgraph.intermediate(&narrow)?;
    subgraph.binary(Binary::Add, query, key, pair)?;
    let sum = subgraph.intermediate(&narrow)?;
    subgraph.binary(Binary::Add, pair, value, sum)?;
    let attended = apply(subgraph, attention, sum)?;
    let wide = apply(subgraph, intermediate, attended)?;
    let bent = subgraph.intermediate(&[tokens, intermediate.outputs()])?;
    subgraph.unary(Unary::Gelu, wide, bent)?;
    apply(subgraph, dense, bent)
}

impl Layer {
    /// Returns the name of the layer, without the suffixes of its weight and its bias.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the name of the weight.
    #[must_use]
    pub fn weight_name(&self) -> String {
        format!("{}.weight", self.name)
    }

    /// Returns the name of the bias.
    #[must_use]
    pub fn bias_name(&self) -> String {
        format!("{}.bias", self.name)
    }

    /// A row for each output, with a number for each input.
    #[must_use]
    pub fn weight(&self) -> &Tensor {
        &self.weight
    }

    /// A number for each output.
    #[must_use]
    pub fn bias(&self) -> &Tensor {
        &self.bias
    }

    /// Returns the number of inputs for a token.
    #[must_use]
    pub fn inputs(&self) -> usize {
        self.inputs
    }

    /// Returns the number of outputs for a token.
    #[must_use]
    pub fn outputs(&self) -> usize {
        self.bias.len()
    }

    fn of(file: &SafeTensors<'_>, name: String) -> io::Result<Self> {
        let tensor = |name: &str| {
            let view = file.tensor(name).map_err(io::Error::other)?;
            if view.dtype() != Dtype::F32 {
                return Err(io::Error::other(format!("{name} holds numbers of type {:?}", view.dtype())));
            }
            let (numbers, _) = view.data().as_chunks();
            let numbers: Tensor = numbers.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
            Ok((view.shape().to_vec(), numbers))
        };
        let (weight_shape, weight) = tensor(&format!("{name}.weight"))?;
        let (bias_shape, bias) = tensor(&format!("{name}.bias"))?;
        match (&weight_shape[..], &bias_shape[..]) {
            (&[outputs, inputs], &[biases]) if outputs == biases => Ok(Self { name, weight, bias, inputs }),
            _ => Err(io::Error::other(format!("{name} has the shapes {weight_shape:?} and {bias_shape:?}"))),
        }
    }
}

impl Encoder<'_> {
    /// Computes a row for each token from its row.
    ///
    /// # Errors
    ///
    /// If there are not as many as it was compiled for, and if XNNPACK refuses: with "invalid state" as long as the
    /// cache is not finalised.
    pub fn run(&mut self, input: &Tensor) -> Result<Tensor, Error> {
        let mut output = Tensor::zeros(input.len());
        let mut bindings = [Binding::Input(self.input, input), Binding::Output(self.output, &mut output)];
        self.runtime.run(&mut bindings)?;
        Ok(output)
    }
}
