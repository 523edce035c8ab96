//! Runs each kernel and compares what it gives with the reference. Sizes are odd on purpose: no tile fits them, so the
//! edges of every kernel are run, too.

use std::f64::consts::PI;

use warmstart::target::cpu::Library;

use super::Checked;
use crate::kernels::{
    compare::{Element, Inputs, Tolerance, compare, unwritten, widened},
    reference::{self, ImageShape},
};

/// Looks up the function that a kernel is for. Its type is written at each call, beside the call's safety comment.
macro_rules! entry {
    ($library:expr, $name:literal, fn($($parameter:ty),* $(,)?)) => {{
        // SAFETY: the kernel's source defines this function with these parameters for the macros it was compiled with.
        unsafe { $library.symbol::<unsafe extern "C" fn($($parameter),*)>($name) }
            .map_err(|error| error.to_string())?
    }};
}

pub(super) fn matmul<E: Element, A: Element>(library: &Library, limit: f64, tolerance: Tolerance) -> Checked {
    let (rows, depth, cols) = (70, 75, 83);
    let mut inputs = Inputs::new();
    let a: Vec<E> = inputs.uniform(rows * depth, -limit, limit);
    let b: Vec<E> = inputs.uniform(depth * cols, -limit, limit);
    let mut c = unwritten::<A>(rows * cols);

    let matmul = entry!(library, "matmul", fn(*const E, *const E, *mut A, usize, usize, usize));
    // SAFETY: the three matrices have rows x depth, depth x cols and rows x cols elements.
    unsafe { matmul(a.as_ptr(), b.as_ptr(), c.as_mut_ptr(), rows, depth, cols) };

    compare("c", &c, &reference::matmul(&widened(&a), &widened(&b), rows, depth, cols), tolerance)
}

pub(super) fn transpose<T: Element>(library: &Library) -> Checked {
    let (rows, cols) = (75, 101);
    let a: Vec<T> = Inputs::new().uniform(rows * cols, -1.0, 1.0);
    let mut b = unwritten::<T>(rows * cols);

    let transpose = entry!(library, "transpose", fn(*const T, *mut T, usize, usize));
    // SAFETY: both matrices have rows x cols elements.
    unsafe { transpose(a.as_ptr(), b.as_mut_ptr(), rows, cols) };

    compare("b", &b, &reference::transpose(&widened(&a), rows, cols), Tolerance::EXACT)
}

pub(super) fn softmax<T: Element>(library: &Library, tolerance: Tolerance) -> Checked {
    let (rows, cols) = (9, 333);
    let x: Vec<T> = Inputs::new().uniform(rows * cols, -8.0, 8.0);
    let mut y = unwritten::<T>(rows * cols);

    let softmax = entry!(library, "softmax", fn(*const T, *mut T, usize, usize));
    // SAFETY: both matrices have rows x cols elements.
    unsafe { softmax(x.as_ptr(), y.as_mut_ptr(), rows, cols) };

    compare("y", &y, &reference::softmax(&widened(&x), cols), tolerance)
}

pub(super) fn cross_entropy<T: Element>(library: &Library, tolerance: Tolerance) -> Checked {
    let (rows, cols) = (9, 1003);
    let mut inputs = Inputs::new();
    let logits: Vec<T> = inputs.uniform(rows * cols, -8.0, 8.0);
    let labels: Vec<u32> = inputs.uniform(rows, 0.0, cols as f64);
    let mut losses = unwritten::<T>(rows);

    let cross_entropy = entry!(library, "cross_entropy", fn(*const T, *const u32, *mut T, usize, usize));
    // SAFETY: there are rows x cols logits, a label below cols for each row, and room for a loss for each row.
    unsafe { cross_entropy(logits.as_ptr(), labels.as_ptr(), losses.as_mut_ptr(), rows, cols) };

    compare("losses", &losses, &reference::cross_entropy(&widened(&logits), &labels, cols), tolerance)
}

pub(super) fn attention(library: &Library, head_dim: usize, causal: bool, tolerance: Tolerance) -> Checked {
    let length = 77;
    let scale = 1.0 / (head_dim as f32).sqrt();
    let mut inputs = Inputs::new();
    let [q, k, v] = [(); 3].map(|()| inputs.uniform::<f32>(length * head_dim, -2.0, 2.0));
    let mut out = unwritten::<f32>(length * head_dim);

    let attention =
        entry!(library, "attention", fn(*const f32, *const f32, *const f32, *mut f32, usize, usize, f32));
    // SAFETY: all four matrices have length x head_dim elements.
    unsafe { attention(q.as_ptr(), k.as_ptr(), v.as_ptr(), out.as_mut_ptr(), length, length, scale) };

    let wanted =
        reference::attention(&widened(&q), &widened(&k), &widened(&v), head_dim, f64::from(scale), causal);
    compare("out", &out, &wanted, tolerance)
}

pub(super) fn layer_norm<T: Element>(library: &Library, tolerance: Tolerance) -> Checked {
    let (rows, cols) = (9, 333);
    let mut inputs = Inputs::new();
    let x: Vec<T> = inputs.uniform(rows * cols, 2.0, 4.0);
    let gamma: Vec<T> = inputs.uniform(cols, 0.5, 1.5);
    let beta: Vec<T> = inputs.uniform(cols, -1.0, 1.0);
    let epsilon = T::from_f64(1e-3);
    let mut y = unwritten::<T>(rows * cols);

    let layer_norm = entry!(library, "layer_norm", fn(*const T, *const T, *const T, *mut T, usize, usize, T));
    // SAFETY: x and y have rows x cols elements, gamma and beta cols.
    unsafe { layer_norm(x.as_ptr(), gamma.as_ptr(), beta.as_ptr(), y.as_mut_ptr(), rows, cols, epsilon) };

    let wanted = reference::layer_norm(&widened(&x), &widened(&gamma), &widened(&beta), epsilon.to_f64());
    compare("y", &y, &wanted, tolerance)
}

pub(super) fn add_rms_norm<T: Element>(library: &Library, tolerance: Tolerance) -> Checked {
    let (rows, cols) = (9, 333);
    let mut inputs = Inputs::new();
    let x: Vec<T> = inputs.uniform(rows * cols, -1.0, 1.0);
    let before: Vec<T> = inputs.uniform(rows * cols, -2.0, 2.0);
    let gamma: Vec<T> = inputs.uniform(cols, 0.5, 1.5);
    let epsilon = T::from_f64(1e-3);
    let mut residual = before.clone();
    let mut y = unwritten::<T>(rows * cols);

    let add_rms_norm =
        entry!(library, "add_rms_norm", fn(*const T, *mut T, *const T, *mut T, usize, usize, T));
    // SAFETY: x, residual and y have rows x cols elements, gamma cols.
    unsafe {
        add_rms_norm(x.as_ptr(), residual.as_mut_ptr(), gamma.as_ptr(), y.as_mut_ptr(), rows, cols, epsilon);
    }

    let sums = reference::add_bias(&widened(&x), &widened(&before));
    compare("residual", &residual, &sums, Tolerance::EXACT)?;
    let wanted = reference::rms_norm(&widened(&residual), &widened(&gamma), epsilon.to_f64());
    compare("y", &y, &wanted, tolerance)
}

pub(super) fn gelu<T: Element>(library: &Library, gelu_of: fn(f64) -> f64, tolerance: Tolerance) -> Checked {
    let (rows, cols) = (5, 333);
    let mut inputs = Inputs::new();
    let x: Vec<T> = inputs.uniform(rows * cols, -6.0, 6.0);
    let bias: Vec<T> = inputs.uniform(cols, -1.0, 1.0);
    let mut y = unwritten::<T>(rows * cols);

    let gelu = entry!(library, "gelu", fn(*const T, *const T, *mut T, usize, usize));
    // SAFETY: x and y have rows x cols elements, bias cols.
    unsafe { gelu(x.as_ptr(), bias.as_ptr(), y.as_mut_ptr(), rows, cols) };

    let sums = reference::add_bias(&widened(&x), &widened(&bias));
    compare("y", &y, &sums.into_iter().map(gelu_of).collect::<Vec<_>>(), tolerance)
}

pub(super) fn swiglu<T: Element>(library: &Library, tolerance: Tolerance) -> Checked {
    let (rows, cols) = (5, 333);
    let x: Vec<T> = Inputs::new().uniform(rows * 2 * cols, -6.0, 6.0);
    let mut y = unwritten::<T>(rows * cols);

    let swiglu = entry!(library, "swiglu", fn(*const T, *mut T, usize, usize));
    // SAFETY: x has rows x 2 x cols elements, y half of them.
    unsafe { swiglu(x.as_ptr(), y.as_mut_ptr(), rows, cols) };

    compare("y", &y, &reference::swiglu(&widened(&x), cols), tolerance)
}

pub(super) fn quantise(library: &Library, group: usize) -> Checked {
    let n = 40 * group + 5;
    let mut x: Vec<f32> = Inputs::new().uniform(n, -3.0, 3.0);
    x[..group].fill(0.0);
    let mut q = unwritten::<i8>(n);
    let mut scales = unwritten::<f32>(n.div_ceil(group));

    let quantise = entry!(library, "quantise", fn(*const f32, *mut i8, *mut f32, usize));
    // SAFETY: x and q have n elements, and there is room for a scale for each group, the short last one included.
    unsafe { quantise(x.as_ptr(), q.as_mut_ptr(), scales.as_mut_ptr(), n) };

    let (wanted_q, wanted_scales) = reference::quantise(&x, group);
    compare("q", &q, &wanted_q, Tolerance::EXACT)?;
    compare("scales", &scales, &wanted_scales, Tolerance::EXACT)
}

pub(super) fn dequantise(library: &Library) -> Checked {
    let (rows, cols) = (9, 333);
    let mut inputs = Inputs::new();
    let q: Vec<u8> = inputs.uniform(rows * cols, 0.0, 256.0);
    let zeros: Vec<u8> = inputs.uniform(rows, 0.0, 256.0);
    let scales: Vec<f32> = inputs.uniform(rows, 0.001, 0.1);
    let mut x = unwritten::<f32>(rows * cols);

    let dequantise =
        entry!(library, "dequantise", fn(*const u8, *const u8, *const f32, *mut f32, usize, usize));
    // SAFETY: q and x have rows x cols elements, zeros and scales rows.
    unsafe { dequantise(q.as_ptr(), zeros.as_ptr(), scales.as_ptr(), x.as_mut_ptr(), rows, cols) };

    // A difference of two bytes times an f32 is exact in f64, so both sides are rounded once.
    let wanted = reference::dequantise(&widened(&q), &widened(&zeros), &widened(&scales), cols);
    compare("x", &x, &wanted, Tolerance::EXACT)
}

pub(super) fn grouped_matvec(library: &Library, group: usize, tolerance: Tolerance) -> Checked {
    let (rows, cols) = (39, 512);
    let mut inputs = Inputs::new();
    let w: Vec<i8> = inputs.uniform(rows * cols, -127.0, 128.0);
    let scales: Vec<f32> = inputs.uniform(rows * cols / group, 0.5 / 127.0, 1.0 / 127.0);
    let x: Vec<f32> = inputs.uniform(cols, -1.0, 1.0);
    let mut y = unwritten::<f32>(rows);

    let matvec = entry!(library, "matvec", fn(*const i8, *const f32, *const f32, *mut f32, usize, usize));
    // SAFETY: w has rows x cols elements, in whole groups with a scale each; x has cols and y rows.
    unsafe { matvec(w.as_ptr(), scales.as_ptr(), x.as_ptr(), y.as_mut_ptr(), rows, cols) };

    let wanted = reference::grouped_matvec(&widened(&w), &widened(&scales), &widened(&x), group);
    compare("y", &y, &wanted, tolerance)
}

pub(super) fn sum<T: Element>(library: &Library, tolerance: Tolerance) -> Checked {
    let (rows, cols) = (5, 5003);
    let x: Vec<T> = Inputs::new().uniform(rows * cols, 0.0, 1.0);
    let mut y = unwritten::<T>(rows);

    let sum = entry!(library, "sum", fn(*const T, *mut T, usize, usize));
    // SAFETY: x has rows x cols elements, y rows.
    unsafe { sum(x.as_ptr(), y.as_mut_ptr(), rows, cols) };

    compare("y", &y, &reference::row_sums(&widened(&x), cols), tolerance)
}

pub(super) fn argmax<T: Element>(library: &Library) -> Checked {
    let (rows, cols) = (9, 1003);
    // Whole numbers, so that the largest is in a row more than once.
    let x: Vec<i8> = Inputs::new().uniform(rows * cols, -100.0, 100.0);
    let x: Vec<T> = x.into_iter().map(|x| T::from_f64(x.into())).collect();
    let mut values = unwritten::<T>(rows);
    let mut places = unwritten::<u32>(rows);

    let argmax = entry!(library, "argmax", fn(*const T, *mut T, *mut u32, usize, usize));
    // SAFETY: x has rows x cols elements, the outputs rows.
    unsafe { argmax(x.as_ptr(), values.as_mut_ptr(), places.as_mut_ptr(), rows, cols) };

    let (wanted_values, wanted_places) = reference::argmax(&widened(&x), cols);
    compare("values", &values, &wanted_values, Tolerance::EXACT)?;
    compare("places", &places, &wanted_places, Tolerance::EXACT)
}

pub(super) fn conv2d<T: Element>(library: &Library, filter: usize, tolerance: Tolerance) -> Checked {
    let shape = ImageShape { ins: 3, outs: 6, height: 13, width: 37, filter };
    let ImageShape { ins, outs, height, width, .. } = shape;
    let mut inputs = Inputs::new();
    let image: Vec<T> = inputs.uniform(ins * height * width, -1.0, 1.0);
    let filters: Vec<T> = inputs.uniform(outs * ins * filter * filter, -1.0, 1.0);
    let bias: Vec<T> = inputs.uniform(outs, -1.0, 1.0);
    let mut out = unwritten::<T>(outs * height * width);

    let conv2d =
        entry!(library, "conv2d", fn(*const T, *const T, *const T, *mut T, usize, usize, usize, usize));
    // SAFETY: image has ins planes and out has outs planes of height x width elements, filters outs x ins filters of
    // KSIZE x KSIZE, bias outs elements.
    unsafe {
        conv2d(image.as_ptr(), filters.as_ptr(), bias.as_ptr(), out.as_mut_ptr(), ins, outs, height, width);
    }

    let wanted = reference::conv2d(&widened(&image), &widened(&filters), &widened(&bias), shape);
    compare("out", &out, &wanted, tolerance)
}

pub(super) fn causal_conv1d<T: Element>(library: &Library, taps: usize, tolerance: Tolerance) -> Checked {
    let (steps, channels) = (11, 203);
    let mut inputs = Inputs::new();
    let x: Vec<T> = inputs.uniform(steps * channels, -1.0, 1.0);
    let weights: Vec<T> = inputs.uniform(taps * channels, -1.0, 1.0);
    let bias: Vec<T> = inputs.uniform(channels, -1.0, 1.0);
    let mut y = unwritten::<T>(steps * channels);

    let conv1d = entry!(library, "causal_conv1d", fn(*const T, *const T, *const T, *mut T, usize, usize));
    // SAFETY: x and y have steps x channels elements, weights TAPS x channels, bias channels.
    unsafe { conv1d(x.as_ptr(), weights.as_ptr(), bias.as_ptr(), y.as_mut_ptr(), steps, channels) };

    let wanted = reference::causal_conv1d(&widened(&x), &widened(&weights), &widened(&bias), steps);
    compare("y", &y, &wanted, tolerance)
}

pub(super) fn rope<T: Element>(library: &Library, head_dim: usize, tolerance: Tolerance) -> Checked {
    let (positions, heads, half) = (21, 3, head_dim / 2);
    let before: Vec<T> = Inputs::new().uniform(positions * heads * head_dim, -1.0, 1.0);
    let angles: Vec<f64> = (0..positions * half)
        .map(|i| (i / half) as f64 * 10000_f64.powf(-2.0 * (i % half) as f64 / head_dim as f64) % (2.0 * PI))
        .collect();
    let cosines: Vec<T> = angles.iter().map(|angle| T::from_f64(angle.cos())).collect();
    let sines: Vec<T> = angles.iter().map(|angle| T::from_f64(angle.sin())).collect();
    let mut x = before.clone();

    let rope = entry!(library, "rope", fn(*mut T, *const T, *const T, usize, usize));
    // SAFETY: x has positions x heads x head_dim elements, the tables positions x head_dim / 2.
    unsafe { rope(x.as_mut_ptr(), cosines.as_ptr(), sines.as_ptr(), positions, heads) };

    let wanted = reference::rope(&widened(&before), &widened(&cosines), &widened(&sines), heads, head_dim);
    compare("x", &x, &wanted, tolerance)
}
