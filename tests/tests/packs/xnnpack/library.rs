//! XNNPACK as the tests use it: what it computes, and in which order it asks a weights cache.

use warmstart_tests::{
    minilm,
    xnnpack::{
        self, Bf16, Binary, Binding, Error, Fingerprint, FullyConnected, Library, Status, Subgraph, Tensor,
        Unary,
    },
};

use super::recording_cache::{Call, RecordingCache};

/// The same as the operator, with nothing clever in it.
fn plain(input: &[f32], weight: &[f32], bias: &[f32]) -> Vec<f32> {
    let inputs = weight.len() / bias.len();
    let row = |row: &[f32]| -> Vec<f32> {
        let dot = |weights: &[f32]| -> f64 {
            row.iter().zip(weights).map(|(one, other)| f64::from(*one) * f64::from(*other)).sum()
        };
        weight
            .chunks(inputs)
            .zip(bias)
            .map(|(weights, bias)| (dot(weights) + f64::from(*bias)) as f32)
            .collect()
    };
    input.chunks(inputs).flat_map(row).collect()
}

#[track_caller]
fn assert_near(found: &[f32], expected: &[f32], tolerance: f32) {
    assert_eq!(found.len(), expected.len());
    for (at, (one, other)) in found.iter().zip(expected).enumerate() {
        assert!((one - other).abs() <= tolerance, "at {at}: {one} instead of {other}");
    }
}

/// `output = gelu(input * weight + bias)`, for three rows of 40 numbers.
struct Small {
    weight: Tensor,
    bias: Tensor,
}

impl Small {
    const ROWS: usize = 3;
    const INPUTS: usize = 40;
    const OUTPUTS: usize = 24;

    fn new() -> Self {
        Self { weight: Tensor::noise(Self::INPUTS * Self::OUTPUTS, 1), bias: Tensor::noise(Self::OUTPUTS, 2) }
    }

    /// Returns XNNPACK's result with this cache.
    fn run(&self, library: &'static Library, recorder: &RecordingCache) -> Result<Tensor, Error> {
        let mut subgraph = Subgraph::new(library, 2)?;
        let input = subgraph.input(&[Self::ROWS, Self::INPUTS])?;
        let output = subgraph.output(&[Self::ROWS, Self::OUTPUTS])?;
        let weight = subgraph.constant(&[Self::OUTPUTS, Self::INPUTS], &self.weight)?;
        let bias = subgraph.constant(&[Self::OUTPUTS], &self.bias)?;
        let product = subgraph.intermediate(&[Self::ROWS, Self::OUTPUTS])?;
        subgraph.fully_connected(input, weight, Some(bias), product)?;
        subgraph.unary(Unary::Gelu, product, output)?;
        let mut runtime = subgraph.compile(Some(recorder.cache()))?;
        recorder.finalize();
        runtime.reshape(&[])?;
        let mut found = Tensor::zeros(Self::ROWS * Self::OUTPUTS);
        runtime.run(&mut [Binding::Input(input, &Self::input()), Binding::Output(output, &mut found)])?;
        Ok(found)
    }

    fn input() -> Tensor {
        Tensor::noise(Self::ROWS * Self::INPUTS, 3)
    }
}

#[test]
#[cfg_attr(not(has_xnnpack), ignore = "needs XNNPACK: cargo xtask runtimes --xnnpack")]
fn a_fully_connected_operator_computes_a_product() {
    let library = xnnpack::library();
    for (rows, inputs, outputs) in [(1, 1, 1), (3, 40, 24), (5, 257, 130), (17, 64, 3)] {
        let (weight, bias) = (Tensor::noise(inputs * outputs, 1), Tensor::noise(outputs, 2));
        let mut operator = FullyConnected::new(library, &weight, Some(&bias), inputs, None).unwrap();
        let input = Tensor::noise(rows * inputs, 3);
        let mut output = Tensor::zeros(rows * outputs);
        let mut none = Tensor::zeros(0);
        assert!(matches!(operator.run(&input, &mut output), Err(Error::Unsound(_))));
        assert!(matches!(operator.run(&Tensor::zeros(0), &mut none), Err(Error::Unsound(_))));
        operator.reshape(rows).unwrap();
        operator.run(&input, &mut output).unwrap();
        assert_near(&output, &plain(&input, &weight, &bias), 1e-4);
    }
}

#[test]
#[cfg_attr(not(has_xnnpack), ignore = "needs XNNPACK: cargo xtask runtimes --xnnpack")]
fn the_operators_of_a_subgraph_are_those_that_were_asked_for() {
    let library = xnnpack::library();
    let input = Tensor::noise(64, 7).iter().map(|number| 4.0 * number).collect::<Tensor>();
    let computed = |define: &dyn Fn(&mut Subgraph<'_>, xnnpack::Value, xnnpack::Value)| {
        let mut subgraph = Subgraph::new(library, 2).unwrap();
        let [from, to] = [subgraph.input(&[64]), subgraph.output(&[64])].map(Result::unwrap);
        define(&mut subgraph, from, to);
        let mut runtime = subgraph.compile(None).unwrap();
        runtime.reshape(&[]).unwrap();
        let mut output = Tensor::zeros(64);
        runtime.run(&mut [Binding::Output(to, &mut output), Binding::Input(from, &input)]).unwrap();
        output.to_vec()
    };
    let expected = |of: &dyn Fn(f32) -> f32| input.iter().map(|number| of(*number)).collect::<Vec<_>>();

    let clamped = computed(&|graph, from, to| graph.unary(Unary::Clamp(-1.5, 0.5), from, to).unwrap());
    assert_eq!(clamped, expected(&|number| number.clamp(-1.5, 0.5)));
    let doubled = computed(&|graph, from, to| graph.binary(Binary::Add, from, from, to).unwrap());
    assert_eq!(doubled, expected(&|number| number + number));
    let squared = computed(&|graph, from, to| graph.binary(Binary::Multiply, from, from, to).unwrap());
    assert_eq!(squared, expected(&|number| number * number));
    let bent = computed(&|graph, from, to| graph.unary(Unary::Gelu, from, to).unwrap());
    assert_near(&bent, &expected(&gelu), 1e-5);
}

/// By the approximation 7.1.26 of Abramowitz and Stegun for the error function, which is wrong by 1.5e-7 at most.
fn gelu(number: f32) -> f32 {
    let x = f64::from(number) / 2_f64.sqrt();
    let t = 1.0 / (1.0 + 0.327_591_1 * x.abs());
    let factors = [1.061_405_429, -1.453_152_027, 1.421_413_741, -0.284_496_736, 0.254_829_592];
    let erf = 1.0 - factors.iter().fold(0.0, |sum, factor| (sum + factor) * t) * (-x * x).exp();
    (f64::from(number) * (1.0 + erf.copysign(x)) / 2.0) as f32
}

#[test]
#[cfg_attr(not(has_xnnpack), ignore = "needs XNNPACK: cargo xtask runtimes --xnnpack")]
fn a_runtime_that_is_bound_wrongly_is_not_run() {
    let library = xnnpack::library();
    let sixteen = Tensor::noise(16, 1);
    let mut subgraph = Subgraph::new(library, 2).unwrap();
    let [from, to] = [subgraph.input(&[2, 8]), subgraph.output(&[2, 8])].map(Result::unwrap);
    assert!(matches!(subgraph.input(&[1]), Err(Error::Unsound(_))));
    assert!(matches!(subgraph.constant(&[3, 5], &sixteen), Err(Error::Unsound(_))));
    let inner = subgraph.intermediate(&[2, 8]).unwrap();
    subgraph.unary(Unary::Clamp(0.0, 1.0), from, inner).unwrap();
    subgraph.unary(Unary::Clamp(0.5, 1.0), inner, to).unwrap();
    let mut runtime = subgraph.compile(None).unwrap();
    let (input, mut output, mut other) = (Tensor::noise(16, 1), Tensor::zeros(16), Tensor::zeros(16));
    let mut unsound = |bindings: &mut [Binding<'_>]| matches!(runtime.run(bindings), Err(Error::Unsound(_)));
    assert!(unsound(&mut [Binding::Input(from, &input), Binding::Output(to, &mut output)]));
    runtime.reshape(&[(from, &[1, 8])]).unwrap();
    let mut unsound = |bindings: &mut [Binding<'_>]| matches!(runtime.run(bindings), Err(Error::Unsound(_)));
    assert!(unsound(&mut [Binding::Input(from, &input), Binding::Output(to, &mut output)]));
    assert!(unsound(&mut [Binding::Input(from, &Tensor::noise(8, 1))]));
    assert!(unsound(&mut [Binding::Input(from, &input), Binding::Input(to, &input)]));
    assert!(unsound(&mut [Binding::Output(to, &mut output), Binding::Output(to, &mut other)]));
    let (eight, mut output) = (Tensor::noise(8, 1), Tensor::zeros(8));
    assert!(unsound(&mut [
        Binding::Input(from, &eight),
        Binding::Output(to, &mut output),
        Binding::Input(inner, &eight)
    ]));
    runtime.run(&mut [Binding::Input(from, &eight), Binding::Output(to, &mut output)]).unwrap();
}

#[test]
#[cfg_attr(not(has_xnnpack), ignore = "needs XNNPACK: cargo xtask runtimes --xnnpack")]
fn cache_is_called_in_order_and_finalized_before_the_run() {
    let library = xnnpack::library();
    let small = Small::new();
    let recorder = RecordingCache::default();
    let cold = small.run(library, &recorder).unwrap();
    let calls = recorder.calls();
    println!("cold: {calls:#?}");
    let product = plain(&Small::input(), &small.weight, &small.bias);
    assert_near(&cold, &product.into_iter().map(gelu).collect::<Vec<_>>(), 1e-4);

    let [Call::LookUp(key, None), Call::ReserveSpace(reserved), Call::LookUpOrInsert(same, size), rest @ ..] =
        &calls[..]
    else {
        panic!("{calls:?}")
    };
    assert_eq!((key, reserved), (same, size));
    assert_eq!(key.kernel, small.weight.as_ptr().cast());
    assert_eq!(key.bias, small.bias.as_ptr().cast());
    assert!(*size >= size_of::<f32>() * (small.weight.len() + small.bias.len()));
    let count = |call: Call| rest.iter().filter(|found| **found == call).count();
    let (asked, led) = (count(Call::IsFinalized), count(Call::OffsetToAddr(0)));
    assert!(asked >= 1 && led >= 1);
    assert_eq!(asked + led, rest.len(), "nothing else is called: no delete_cache, and nothing to alias");

    let warm = small.run(library, &recorder).unwrap();
    let calls = recorder.calls().split_off(calls.len());
    println!("warm: {calls:#?}");
    assert!(matches!(calls[0], Call::LookUp(_, Some(0))));
    assert!(calls[1..].iter().all(|call| matches!(call, Call::IsFinalized | Call::OffsetToAddr(0))));
    assert_eq!(cold[..], warm[..]);
}

#[test]
#[cfg_attr(not(has_xnnpack), ignore = "needs XNNPACK: cargo xtask runtimes --xnnpack")]
fn a_cache_that_is_not_finalised_cannot_be_run() {
    let library = xnnpack::library();
    let (weight, recorder) = (Tensor::noise(64, 1), RecordingCache::default());
    let mut operator = FullyConnected::new(library, &weight, None, 8, Some(recorder.cache())).unwrap();
    operator.reshape(1).unwrap();
    let (input, mut output) = (Tensor::noise(8, 2), Tensor::zeros(8));
    let refused = operator.run(&input, &mut output).unwrap_err();
    assert_eq!(refused.status(), Some(Status::INVALID_STATE));
    assert_eq!(refused.to_string(), "xnn_setup_fully_connected_nc_f32 answers 3 (invalid state)");
    recorder.finalize();
    operator.run(&input, &mut output).unwrap();
    drop(operator);
    assert!(
        recorder.calls().iter().any(|call| matches!(call, Call::LookUp(key, None) if key.bias.is_null()))
    );
}

#[test]
#[cfg_attr(not(has_xnnpack), ignore = "needs XNNPACK: cargo xtask runtimes --xnnpack")]
fn addresses_are_read_while_packing_and_finalised_cache_fills() {
    let library = xnnpack::library();
    let (one, other, recorder) = (Tensor::noise(64, 1), Tensor::noise(64, 2), RecordingCache::default());
    let create = |weight| FullyConnected::new(library, weight, None, 8, Some(recorder.cache())).unwrap();
    let mut operator = create(&one);
    operator.reshape(1).unwrap();
    assert_eq!(recorder.calls()[3..], [Call::OffsetToAddr(0)]);
    recorder.finalize();
    operator.reshape(2).unwrap();
    assert_eq!(recorder.calls()[3..], [Call::OffsetToAddr(0), Call::OffsetToAddr(0)]);
    let before = recorder.calls().len();
    drop(create(&other));
    assert!(matches!(
        recorder.calls()[before..],
        [Call::LookUp(_, None), Call::ReserveSpace(_), Call::LookUpOrInsert(..)]
    ));
}

#[test]
#[cfg_attr(not(has_xnnpack), ignore = "needs XNNPACK: cargo xtask runtimes --xnnpack")]
fn a_cache_that_reserves_nothing_is_out_of_memory() {
    let library = xnnpack::library();
    let (weight, recorder) = (Tensor::noise(64, 1), RecordingCache::full());
    let refused = FullyConnected::new(library, &weight, None, 8, Some(recorder.cache())).unwrap_err();
    assert_eq!(refused.status(), Some(Status::OUT_OF_MEMORY));
}

#[test]
#[cfg_attr(not(has_xnnpack), ignore = "needs XNNPACK: cargo xtask runtimes --xnnpack")]
fn sizes_are_multiples_of_64_and_equal_shapes_have_one_seed() {
    let library = xnnpack::library();
    let create = |inputs: usize, outputs: usize, seed: u32| {
        let recorder = RecordingCache::default();
        let (weight, bias) = (Tensor::noise(inputs * outputs, seed), Tensor::noise(outputs, seed));
        drop(FullyConnected::new(library, &weight, Some(&bias), inputs, Some(recorder.cache())).unwrap());
        let calls = recorder.calls();
        let Some(Call::LookUpOrInsert(key, size)) = calls.last() else { panic!("{calls:?}") };
        println!("{inputs:4} -> {outputs:4}: {size:7} bytes, seed {}", key.seed);
        assert_eq!(size % 64, 0);
        key.seed
    };
    let seeds = [(3, 5), (257, 130), (384, 1536)].map(|(inputs, outputs)| {
        let seed = create(inputs, outputs, 1);
        assert_eq!(seed, create(inputs, outputs, 2));
        seed
    });
    let [small, odd, large] = seeds;
    assert!(small != odd && odd != large && large != small, "{seeds:?}");
    // The lengths are mixed by an operation that does not know their order. So a seed does not tell a weight from one of
    // the transposed shape; the model's identity must.
    assert_eq!(create(384, 1536, 1), create(1536, 384, 1));
}

#[test]
#[cfg_attr(not(has_xnnpack), ignore = "needs XNNPACK: cargo xtask runtimes --xnnpack")]
fn operator_brings_its_fingerprint_and_another_is_refused() {
    let library = xnnpack::library();
    for outputs in [1, 256] {
        let (weight, recorder) = (Tensor::noise(8 * outputs, 1), RecordingCache::default());
        drop(FullyConnected::new(library, &weight, None, 8, Some(recorder.cache())).unwrap());
        let calls = recorder.calls();
        let Some(Call::LookUpOrInsert(key, _)) = calls.last() else { panic!("{calls:?}") };
        // Operator, types of input, output and weight, each at its place, and in the last bit whether tiles are narrow.
        assert_eq!(key.fingerprint_id & !1, (3 << 26) | (2 << 20) | (2 << 14) | (2 << 8));
        let fingerprint = library.fingerprint(key.fingerprint_id).unwrap();
        let name = library.fingerprint_name(fingerprint.id);
        println!("{outputs:3} outputs: {fingerprint:x?}, {name}");
        assert!(name.starts_with("xnn_fingerprint_id_fully_connected_nc_f32_f32_f32"), "{name}");
        library.check_fingerprint(fingerprint).unwrap();
        let other = Fingerprint { value: !fingerprint.value, ..fingerprint };
        let refused = library.check_fingerprint(other).unwrap_err();
        assert_eq!(refused.status(), Some(Status::INVALID_PARAMETER));
    }
    let unknown = 63 << 26;
    assert_eq!(library.fingerprint(unknown), None);
    assert!(library.compute_fingerprint(unknown).is_err());
    assert!(!library.build_identifier().is_empty());
}

#[test]
#[cfg_attr(not(has_xnnpack), ignore = "needs XNNPACK: cargo xtask runtimes --xnnpack")]
fn bf16_weights_are_converted_and_the_cache_is_told_of_the_copy() {
    let library = xnnpack::library();
    let (rows, inputs, outputs) = (2, 32, 16);
    let weight: Tensor<Bf16> =
        Tensor::noise(inputs * outputs, 1).iter().map(|number| Bf16::truncated(*number)).collect();
    let (bias, given) = (Tensor::noise(outputs, 2), Tensor::noise(rows * inputs, 3));
    let mut subgraph = Subgraph::new(library, 2).unwrap();
    let input = subgraph.input(&[rows, inputs]).unwrap();
    let output = subgraph.output(&[rows, outputs]).unwrap();
    let short = subgraph.intermediate_of::<Bf16>(&[rows, inputs]).unwrap();
    subgraph.unary(Unary::Convert, input, short).unwrap();
    let filter = subgraph.constant(&[outputs, inputs], &weight).unwrap();
    let addend = subgraph.constant(&[outputs], &bias).unwrap();
    subgraph.fully_connected(short, filter, Some(addend), output).unwrap();
    let recorder = RecordingCache::default();
    let mut runtime = subgraph.compile(Some(recorder.cache())).unwrap();
    let calls = recorder.calls();
    let [Call::AliasData(alias, original), Call::LookUp(key, None), ..] = &calls[..] else {
        panic!("{calls:?}")
    };
    assert_eq!(*original, weight.as_ptr().addr());
    assert_eq!(*alias, key.kernel.addr());

    recorder.finalize();
    runtime.reshape(&[]).unwrap();
    let mut found = Tensor::zeros(rows * outputs);
    runtime.run(&mut [Binding::Input(input, &given), Binding::Output(output, &mut found)]).unwrap();
    let exact: Vec<f32> = weight.iter().map(|number| number.to_f32()).collect();
    assert_near(&found, &plain(&given, &exact, &bias), 0.05);
}

#[test]
#[cfg_attr(not(has_xnnpack), ignore = "needs XNNPACK: cargo xtask runtimes --xnnpack")]
#[cfg_attr(
    all(has_xnnpack, not(has_minilm)),
    ignore = "needs the weights of a model: cargo xtask runtimes --models"
)]
fn layers_of_a_real_model_compute_right_with_and_without_cache() {
    let (library, model) = (xnnpack::library(), minilm::model());
    let tokens = 2;
    let input = Tensor::noise(tokens * minilm::WIDTH, 11);
    let first = model.compile(library, tokens, None).unwrap().run(&input).unwrap();
    assert!(first.iter().all(|number| number.is_finite()));

    let mut expected = input.to_vec();
    for block in model.layers().chunks(6) {
        let apply = |at: usize, input: &[f32]| plain(input, block[at].weight(), block[at].bias());
        let [query, key, value] = [0, 1, 2].map(|at| apply(at, &expected));
        let sum: Vec<f32> = (0..query.len()).map(|at| query[at] + key[at] + value[at]).collect();
        let wide: Vec<f32> = apply(4, &apply(3, &sum)).into_iter().map(gelu).collect();
        expected = apply(5, &wide).into_iter().map(|number| 0.2 * number).collect();
    }
    assert_near(&first, &expected, 1e-3);

    let again = model.compile(library, tokens, None).unwrap().run(&input).unwrap();
    assert_eq!(first.bits(), again.bits());

    let recorder = RecordingCache::default();
    for reserved in [36, 0] {
        let before = recorder.calls().len();
        let mut encoder = model.compile(library, tokens, Some(recorder.cache())).unwrap();
        recorder.finalize();
        assert_eq!(first.bits(), encoder.run(&input).unwrap().bits());
        let calls = recorder.calls().split_off(before);
        let count = |is: fn(&Call) -> bool| calls.iter().filter(|call| is(call)).count();
        assert_eq!(count(|call| matches!(call, Call::LookUp(..))), 36);
        assert_eq!(count(|call| matches!(call, Call::ReserveSpace(_))), reserved);
        assert_eq!(count(|call| matches!(call, Call::LookUpOrInsert(..))), reserved);
    }
}

#[test]
#[cfg_attr(not(has_minilm), ignore = "needs the weights of a model: cargo xtask runtimes --models")]
fn layers_of_a_real_model_have_the_names_of_its_file() {
    let model = minilm::model();
    let layers = model.layers();
    assert_eq!(layers.len(), 36);
    let names: Vec<&str> = layers[18..24].iter().map(minilm::Layer::name).collect();
    let expected = [
        "encoder.layer.3.attention.self.query",
        "encoder.layer.3.attention.self.key",
        "encoder.layer.3.attention.self.value",
        "encoder.layer.3.attention.output.dense",
        "encoder.layer.3.intermediate.dense",
        "encoder.layer.3.output.dense",
    ];
    assert_eq!(names, expected);
    assert_eq!(layers[0].weight_name(), "encoder.layer.0.attention.self.query.weight");
    assert_eq!(layers[35].bias_name(), "encoder.layer.5.output.dense.bias");
    assert_eq!((layers[35].inputs(), layers[35].outputs()), (1536, 384));
    let size: usize = layers.iter().map(|layer| size_of::<f32>() * layer.weight().len()).sum();
    assert_eq!(size, 42_467_328);
}
