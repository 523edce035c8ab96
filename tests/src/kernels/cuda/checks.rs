//! Runs each kernel and compares what it gives with the reference. Sizes are odd on purpose: no tile fits
//! them, so the edges of every kernel are run, too.

use std::f64::consts::PI;

use super::{
    Checked,
    device::{
        Argument::{Input, Number, Output},
        Array, Device, Geometry, count,
    },
};
use crate::kernels::{
    compare::{Element, Inputs, Tolerance, compare, unwritten, widened},
    reference::{self, ImageShape},
};

/// One rounding: half a unit in the last place of 1. Tolerances are counted in roundings; where the result
/// can be told to the last bit they are exact. The reference computes in f64, so its own roundings count
/// where a kernel is in f64. A device's own functions (exp, tanh, 1/sqrt) may be two units, four roundings,
/// away from what is right.
const F32: f64 = f32::EPSILON as f64 / 2.0;
const F64: f64 = f64::EPSILON / 2.0;

/// The threads of a block that takes a row.
const THREADS: usize = 256;

/// For a sum of `terms` that are 1/4 on average, without their signs, each of which goes through at most
/// `roundings`.
const fn sum_of(terms: usize, roundings: f64) -> Tolerance {
    Tolerance::absolute(terms as f64 / 4.0 * roundings)
}

pub(super) fn matmuls(device: &dyn Device) -> Checked {
    // At worst one rounding for each of the 75 products; in f64, the reference does it, too.
    matmul::<f32>(device, "matmul<16, float>", 16, sum_of(75, 75.0 * F32))?;
    matmul::<f32>(device, "matmul<32, float>", 32, sum_of(75, 75.0 * F32))?;
    matmul::<f64>(device, "matmul<16, double>", 16, sum_of(75, 150.0 * F64))
}

fn matmul<T: Element>(device: &dyn Device, function: &str, tile: usize, tolerance: Tolerance) -> Checked
where
    Vec<T>: Array,
{
    let (rows, depth, cols) = (70, 75, 83);
    let mut inputs = Inputs::new();
    let a: Vec<T> = inputs.uniform(rows * depth, -1.0, 1.0);
    let b: Vec<T> = inputs.uniform(depth * cols, -1.0, 1.0);
    let mut c = unwritten::<T>(rows * cols);

    let geometry = Geometry::tiles((cols, rows), 1, (tile, tile), (tile, tile));
    let arguments = &mut [Input(&a), Input(&b), Output(&mut c), count(rows), count(depth), count(cols)];
    device.launch(function, geometry, arguments)?;

    compare("c", &c, &reference::matmul(&widened(&a), &widened(&b), rows, depth, cols), tolerance)
}

pub(super) fn softmax(device: &dyn Device) -> Checked {
    let (rows, cols) = (9, 333);
    let x: Vec<f32> = Inputs::new().uniform(rows * cols, -8.0, 8.0);
    let mut y = unwritten::<f32>(rows * cols);

    let arguments = &mut [Input(&x), Output(&mut y), count(cols)];
    device.launch("softmax", Geometry::row(rows, THREADS), arguments)?;

    // Differences up to 16 are rounded before they become exponents (16), above and below, the two
    // exponentials, and ten levels of partial sums.
    compare("y", &y, &reference::softmax(&widened(&x), cols), Tolerance::relative(64.0 * F32))
}

pub(super) fn layer_norm(device: &dyn Device) -> Checked {
    let (rows, cols) = (9, 333);
    let mut inputs = Inputs::new();
    let x: Vec<f32> = inputs.uniform(rows * cols, 2.0, 4.0);
    let gamma: Vec<f32> = inputs.uniform(cols, 0.5, 1.5);
    let beta: Vec<f32> = inputs.uniform(cols, -1.0, 1.0);
    let epsilon = 1e-3;
    let mut y = unwritten::<f32>(rows * cols);

    let arguments =
        &mut [Input(&x), Input(&gamma), Input(&beta), Output(&mut y), count(cols), Number(epsilon)];
    device.launch("layer_norm", Geometry::row(rows, THREADS), arguments)?;

    let wanted = reference::layer_norm(&widened(&x), &widened(&gamma), &widened(&beta), f64::from(epsilon));
    // The mean of numbers about 3 goes through a dozen roundings, and its error is divided by a deviation of
    // 0.6 and multiplied by up to 1.5; the variance has less.
    compare("y", &y, &wanted, Tolerance::absolute(256.0 * F32))
}

pub(super) fn add_rms_norm(device: &dyn Device) -> Checked {
    let (rows, cols) = (9, 333);
    let mut inputs = Inputs::new();
    let x: Vec<f32> = inputs.uniform(rows * cols, -1.0, 1.0);
    let before: Vec<f32> = inputs.uniform(rows * cols, -2.0, 2.0);
    let gamma: Vec<f32> = inputs.uniform(cols, 0.5, 1.5);
    let epsilon = 1e-3;
    let mut residual = before.clone();
    let mut y = unwritten::<f32>(rows * cols);

    let arguments =
        &mut [Input(&x), Output(&mut residual), Input(&gamma), Output(&mut y), count(cols), Number(epsilon)];
    device.launch("add_rms_norm", Geometry::row(rows, THREADS), arguments)?;

    let sums = reference::add_bias(&widened(&x), &widened(&before));
    compare("residual", &residual, &sums, Tolerance::EXACT)?;
    let wanted = reference::rms_norm(&widened(&residual), &widened(&gamma), f64::from(epsilon));
    // Positive terms, a dozen partial sums; the root halves their error.
    compare("y", &y, &wanted, Tolerance::relative(32.0 * F32))
}

pub(super) fn row_sum(device: &dyn Device) -> Checked {
    let (rows, cols) = (5, 5003);
    let x: Vec<f32> = Inputs::new().uniform(rows * cols, 0.0, 1.0);
    let mut sums = unwritten::<f32>(rows);

    let arguments = &mut [Input(&x), Output(&mut sums), count(cols)];
    device.launch("row_sum", Geometry::row(rows, THREADS), arguments)?;

    // Positive terms: up to 8 in each of a thread's four sums, 2 levels to join those, 10 levels of the
    // block.
    compare("sums", &sums, &reference::row_sums(&widened(&x), cols), Tolerance::relative(20.0 * F32))
}

pub(super) fn attentions(device: &dyn Device) -> Checked {
    attention(device, "attention<64, false>", false)?;
    attention(device, "attention<64, true>", true)
}

fn attention(device: &dyn Device, function: &str, causal: bool) -> Checked {
    let (length, head_dim, queries_per_block) = (77, 64, 4);
    let scale = 1.0 / (head_dim as f32).sqrt();
    let mut inputs = Inputs::new();
    let [q, k, v] = [(); 3].map(|()| inputs.uniform::<f32>(length * head_dim, -2.0, 2.0));
    let mut out = unwritten::<f32>(length * head_dim);

    let geometry = Geometry::row(length.div_ceil(queries_per_block), queries_per_block * 32);
    let arguments = &mut [Input(&q), Input(&k), Input(&v), Output(&mut out), count(length), Number(scale)];
    device.launch(function, geometry, arguments)?;

    let wanted =
        reference::attention(&widened(&q), &widened(&k), &widened(&v), head_dim, f64::from(scale), causal);
    // A score is a sum of products up to 4 and at most 64 roundings deep, divided by 8: 64 * 64 / 8
    // roundings. It becomes the relative error of the weights above and below, and values are up to 2: four
    // times that.
    compare("out", &out, &wanted, Tolerance::absolute(2048.0 * F32))
}

pub(super) fn rope(device: &dyn Device) -> Checked {
    let (positions, heads, head_dim) = (21, 3, 64);
    let half = head_dim / 2;
    let before: Vec<f32> = Inputs::new().uniform(positions * heads * head_dim, -1.0, 1.0);
    let angles: Vec<f64> = (0..positions * half)
        .map(|i| (i / half) as f64 * 10000_f64.powf(-2.0 * (i % half) as f64 / head_dim as f64) % (2.0 * PI))
        .collect();
    let cosines: Vec<f32> = angles.iter().map(|angle| angle.cos() as f32).collect();
    let sines: Vec<f32> = angles.iter().map(|angle| angle.sin() as f32).collect();
    let mut x = before.clone();

    let geometry = Geometry::row((positions * heads * half).div_ceil(THREADS), THREADS);
    let arguments =
        &mut [Output(&mut x), Input(&cosines), Input(&sines), count(positions), count(heads), count(half)];
    device.launch("rope", geometry, arguments)?;

    let wanted = reference::rope(&widened(&before), &widened(&cosines), &widened(&sines), heads, head_dim);
    // Two products and their sum, up to 1.5.
    compare("x", &x, &wanted, Tolerance::absolute(6.0 * F32))
}

pub(super) fn activations(device: &dyn Device) -> Checked {
    // A hyperbolic tangent near -1 is added to 1, and what is left is multiplied by up to 7 / 2.
    let gelu = Tolerance { absolute: 16.0 * F32, relative: 16.0 * F32 };
    activate(device, "activate<Gelu>", reference::gelu_tanh, gelu)?;
    // The sum is rounded, which an exponent of 7 makes 7 times as large.
    activate(device, "activate<Silu>", |x| x / (1.0 + (-x).exp()), Tolerance::relative(24.0 * F32))
}

fn activate(device: &dyn Device, function: &str, of: fn(f64) -> f64, tolerance: Tolerance) -> Checked {
    let (rows, cols) = (5, 333);
    let mut inputs = Inputs::new();
    let x: Vec<f32> = inputs.uniform(rows * cols, -6.0, 6.0);
    let bias: Vec<f32> = inputs.uniform(cols, -1.0, 1.0);
    let mut y = unwritten::<f32>(rows * cols);

    // Fewer threads than elements, so that each takes several.
    let arguments = &mut [Input(&x), Input(&bias), Output(&mut y), count(rows * cols), count(cols)];
    device.launch(function, Geometry::row(3, 128), arguments)?;

    let sums = reference::add_bias(&widened(&x), &widened(&bias));
    compare("y", &y, &sums.into_iter().map(of).collect::<Vec<_>>(), tolerance)
}

pub(super) fn quantise(device: &dyn Device) -> Checked {
    let group = 128;
    let n = 40 * group + 5;
    let mut x: Vec<f32> = Inputs::new().uniform(n, -3.0, 3.0);
    x[..group].fill(0.0);
    let mut q = unwritten::<i8>(n);
    let mut scales = unwritten::<f32>(n.div_ceil(group));
    let mut back = unwritten::<f32>(n);

    let geometry = Geometry::row(n.div_ceil(group), group);
    let arguments = &mut [Input(&x), Output(&mut q), Output(&mut scales), count(n)];
    device.launch("quantise", geometry, arguments)?;
    let arguments = &mut [Input(&q), Input(&scales), Output(&mut back), count(n)];
    device.launch("dequantise", geometry, arguments)?;

    let (wanted_q, wanted_scales) = reference::quantise(&x, group);
    compare("q", &q, &wanted_q, Tolerance::EXACT)?;
    compare("scales", &scales, &wanted_scales, Tolerance::EXACT)?;
    // A byte times an f32 is exact in f64, so both sides are rounded once.
    let wanted = reference::dequantise(&wanted_q, &vec![0.0; scales.len()], &wanted_scales, group);
    compare("back", &back, &wanted, Tolerance::EXACT)
}

pub(super) fn transpose(device: &dyn Device) -> Checked {
    let (rows, cols) = (75, 101);
    let a: Vec<f32> = Inputs::new().uniform(rows * cols, -1.0, 1.0);
    let mut b = unwritten::<f32>(rows * cols);

    let geometry = Geometry::tiles((cols, rows), 1, (32, 32), (32, 8));
    let arguments = &mut [Input(&a), Output(&mut b), count(rows), count(cols)];
    device.launch("transpose", geometry, arguments)?;

    compare("b", &b, &reference::transpose(&widened(&a), rows, cols), Tolerance::EXACT)
}

pub(super) fn convolutions(device: &dyn Device) -> Checked {
    // 3 planes of 9 or 25 products, and the bias.
    conv2d(device, "conv2d<3>", 3, sum_of(28, 28.0 * F32))?;
    conv2d(device, "conv2d<5>", 5, sum_of(76, 76.0 * F32))
}

fn conv2d(device: &dyn Device, function: &str, filter: usize, tolerance: Tolerance) -> Checked {
    let shape = ImageShape { ins: 3, outs: 6, height: 13, width: 37, filter };
    let ImageShape { ins, outs, height, width, .. } = shape;
    let mut inputs = Inputs::new();
    let image: Vec<f32> = inputs.uniform(ins * height * width, -1.0, 1.0);
    let filters: Vec<f32> = inputs.uniform(outs * ins * filter * filter, -1.0, 1.0);
    let bias: Vec<f32> = inputs.uniform(outs, -1.0, 1.0);
    let mut out = unwritten::<f32>(outs * height * width);

    let geometry = Geometry::tiles((width, height), outs, (16, 16), (16, 16));
    let arguments = &mut [
        Input(&image),
        Input(&filters),
        Input(&bias),
        Output(&mut out),
        count(ins),
        count(height),
        count(width),
    ];
    device.launch(function, geometry, arguments)?;

    let wanted = reference::conv2d(&widened(&image), &widened(&filters), &widened(&bias), shape);
    compare("out", &out, &wanted, tolerance)
}

pub(super) fn histogram(device: &dyn Device) -> Checked {
    let (n, bins) = (5003, 256);
    let bytes: Vec<u8> = Inputs::new().uniform(n, 0.0, 200.0);
    let mut counts = vec![0_u32; bins];
    let arguments = &mut [Input(&bytes), Output(&mut counts), count(n)];
    device.launch("histogram", Geometry::row(5, 128), arguments)?;

    let mut wanted = vec![0.0; bins];
    for byte in &bytes {
        wanted[usize::from(*byte)] += 1.0;
    }
    compare("counts", &counts, &wanted, Tolerance::EXACT)?;

    // Once over the bins, which one chunk holds, and once over more than that.
    prefix_sum(device, &counts)?;
    prefix_sum(device, &Inputs::new().uniform(1003, 0.0, 100.0))
}

fn prefix_sum(device: &dyn Device, counts: &Vec<u32>) -> Checked {
    let mut starts = unwritten::<u32>(counts.len());
    let arguments = &mut [Input(counts), Output(&mut starts), count(counts.len())];
    device.launch("prefix_sum", Geometry::row(1, THREADS), arguments)?;

    let wanted: Vec<f64> = counts
        .iter()
        .scan(0, |sum, count| {
            let before = *sum;
            *sum += count;
            Some(f64::from(before))
        })
        .collect();
    compare("starts", &starts, &wanted, Tolerance::EXACT)
}
