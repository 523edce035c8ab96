//! The kernels: what is compiled, with which flags, and how close to the reference each has to come.

use warmstart::target::cpu::{Kernel, Library};

use super::{compare::Tolerance, reference};

mod checks;

/// `Err` says what is wrong with the kernel.
pub type Checked = Result<(), String>;

/// The folder of the kernels' headers.
const SOURCE_DIR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/kernels/cpu/sources");

/// One rounding: half a unit in the last place of 1. Tolerances are counted in roundings; where the result can be told
/// to the last bit they are exact. The reference computes in f64, so its own roundings count where a kernel is in f64.
const F32: f64 = f32::EPSILON as f64 / 2.0;
const F64: f64 = f64::EPSILON / 2.0;

/// A kernel, and how it is run and checked.
pub struct Case {
    pub name: &'static str,
    /// The function to look up in the compiled kernel.
    pub entry: &'static str,
    /// Runs it and compares what it gives with the reference.
    pub check: fn(&Library) -> Checked,
    source: &'static str,
    flags: &'static [&'static str],
}

/// A flag that changes what is compiled, and not what it computes.
const CHANGE: &str = "-O2";

impl Case {
    /// The kernel's description, as a runtime would write it. One that is changed has one more flag.
    pub fn describe(&self, is_changed: bool) -> Kernel {
        let flags = self.flags.iter().copied().chain(is_changed.then_some(CHANGE));
        Kernel::new(self.name, self.source).source_dir(SOURCE_DIR).flags(flags)
    }
}

/// A group is a source, its function and how that is checked; a line of it is a name and the flags.
macro_rules! cases {
    ($($file:literal $entry:literal $check:expr => { $($name:literal $flags:expr,)* })*) => {
        &[$($(Case {
            name: $name,
            entry: $entry,
            check: $check,
            source: include_str!(concat!("sources/", $file)),
            flags: &$flags,
        },)*)*]
    };
}

/// For a sum of `terms` that are 1/4 on average, without their signs, each of which goes through at most `roundings`.
const fn sum_of(terms: usize, roundings: f64) -> Tolerance {
    Tolerance::absolute(terms as f64 / 4.0 * roundings)
}

const GELU_F32: Tolerance = Tolerance { absolute: 8.0 * F32, relative: 16.0 * F32 };
const GELU_F64: Tolerance = Tolerance { absolute: 8.0 * F64, relative: 16.0 * F64 };

/// Every kernel.
pub const CASES: &[Case] = cases! {
    // At worst one rounding for each of the 75 products.
    "matmul.c" "matmul"
    |library| checks::matmul::<f32, f32>(library, 1.0, sum_of(75, 75.0 * F32)) => {
        "matmul_f32_tile16" ["-DELEM=f32", "-DTILE=16"],
        "matmul_f32_tile32" ["-DELEM=f32", "-DTILE=32"],
        "matmul_f32_tile64" ["-DELEM=f32", "-DTILE=64"],
    }
    // The same, and the reference does it, too.
    "matmul.c" "matmul"
    |library| checks::matmul::<f64, f64>(library, 1.0, sum_of(75, 150.0 * F64)) => {
        "matmul_f64_tile16" ["-DELEM=f64", "-DTILE=16"],
        "matmul_f64_tile32" ["-DELEM=f64", "-DTILE=32"],
        "matmul_f64_tile64" ["-DELEM=f64", "-DTILE=64"],
    }
    "matmul.c" "matmul"
    |library| checks::matmul::<i8, i32>(library, 128.0, Tolerance::EXACT) => {
        "matmul_i8_tile16" ["-DELEM=i8", "-DACC=i32", "-DTILE=16"],
        "matmul_i8_tile32" ["-DELEM=i8", "-DACC=i32", "-DTILE=32"],
        "matmul_i8_tile64" ["-DELEM=i8", "-DACC=i32", "-DTILE=64"],
    }
    // Differences up to 16 are rounded before they become exponents (16), up to 25 partial sums, and the exponential.
    "softmax.c" "softmax"
    |library| checks::softmax::<f32>(library, Tolerance::relative(64.0 * F32)) => {
        "softmax_f32_tile16" ["-DELEM=f32", "-DTILE=16"],
        "softmax_f32_tile64" ["-DELEM=f32", "-DTILE=64"],
    }
    // The reference adds 333 terms one after the other.
    "softmax.c" "softmax"
    |library| checks::softmax::<f64>(library, Tolerance::relative(512.0 * F64)) => {
        "softmax_f64_tile16" ["-DELEM=f64", "-DTILE=16"],
    }
    // As the softmax; the error of its logarithm is absolute, and so are the sums with it, up to 16.
    "cross_entropy.c" "cross_entropy"
    |library| checks::cross_entropy::<f32>(library, Tolerance::absolute(128.0 * F32)) => {
        "cross_entropy_f32_tile32" ["-DELEM=f32", "-DTILE=32"],
    }
    // A score is a sum of products up to 4 and at most 64 roundings deep, divided by 8: 64 * 64 / 8 roundings. It
    // becomes the relative error of the weights above and below, and values are up to 2: four times that.
    "attention.c" "attention"
    |library| checks::attention(library, 32, false, Tolerance::absolute(2048.0 * F32)) => {
        "attention_f32_dim32_tile16" ["-DHEAD_DIM=32", "-DTILE=16"],
    }
    "attention.c" "attention"
    |library| checks::attention(library, 64, false, Tolerance::absolute(2048.0 * F32)) => {
        "attention_f32_dim64_tile32" ["-DHEAD_DIM=64", "-DTILE=32"],
    }
    "attention.c" "attention"
    |library| checks::attention(library, 64, true, Tolerance::absolute(2048.0 * F32)) => {
        "causal_attention_f32_dim64_tile16" ["-DHEAD_DIM=64", "-DTILE=16", "-DCAUSAL=1"],
    }
    // The mean of numbers about 3 goes through 16 roundings, and its error is divided by a deviation of 0.6 and
    // multiplied by up to 1.5; the variance has less.
    "layer_norm.c" "layer_norm"
    |library| checks::layer_norm::<f32>(library, Tolerance::absolute(256.0 * F32)) => {
        "layer_norm_f32_tile32" ["-DELEM=f32", "-DTILE=32", "-fno-math-errno"],
    }
    // The reference's mean goes through 333.
    "layer_norm.c" "layer_norm"
    |library| checks::layer_norm::<f64>(library, Tolerance::absolute(4096.0 * F64)) => {
        "layer_norm_f64_tile16" ["-DELEM=f64", "-DTILE=16", "-fno-math-errno"],
    }
    // Positive terms, 16 partial sums; the root halves their error.
    "rms_norm.c" "add_rms_norm"
    |library| checks::add_rms_norm::<f32>(library, Tolerance::relative(32.0 * F32)) => {
        "add_rms_norm_f32_tile32" ["-DELEM=f32", "-DTILE=32", "-fno-math-errno"],
    }
    // A product of a sigmoid, whose own error is largest where it is neither 0 nor 1.
    "gelu.c" "gelu"
    |library| checks::gelu::<f32>(library, reference::gelu_tanh, GELU_F32) => {
        "gelu_tanh_f32_tile32" ["-DELEM=f32", "-DTILE=32"],
    }
    "gelu.c" "gelu"
    |library| checks::gelu::<f64>(library, reference::gelu_tanh, GELU_F64) => {
        "gelu_tanh_f64_tile16" ["-DELEM=f64", "-DTILE=16"],
    }
    // The same, and the polynomial's 1.5e-7 times 7 / 2.
    "gelu.c" "gelu"
    |library| checks::gelu::<f32>(library, reference::gelu_erf, GELU_F32.plus(5.3e-7)) => {
        "gelu_erf_f32_tile32" ["-DELEM=f32", "-DTILE=32", "-DERF=1"],
    }
    // Products only, and the exponential.
    "swiglu.c" "swiglu"
    |library| checks::swiglu::<f32>(library, Tolerance::relative(16.0 * F32)) => {
        "swiglu_f32_tile32" ["-DELEM=f32", "-DTILE=32"],
    }
    "quantise.c" "quantise"
    |library| checks::quantise(library, 32) => {
        "quantise_i8_group32" ["-DGROUP=32", "-ffp-contract=off"],
    }
    "quantise.c" "quantise"
    |library| checks::quantise(library, 128) => {
        "quantise_i8_group128" ["-DGROUP=128", "-ffp-contract=off"],
    }
    "dequantise.c" "dequantise"
    checks::dequantise => {
        "dequantise_u8_tile64" ["-DTILE=64"],
    }
    // A product goes through 16 sums of groups, the 6 levels of a group's tree and two multiplications.
    "matvec_q8.c" "matvec"
    |library| checks::grouped_matvec(library, 32, sum_of(512, 24.0 * F32)) => {
        "matvec_i8_group32" ["-DGROUP=32"],
    }
    "matvec_q8.c" "matvec"
    |library| checks::grouped_matvec(library, 64, sum_of(512, 24.0 * F32)) => {
        "matvec_i8_group64" ["-DGROUP=64"],
    }
    // Positive terms: 8 in a place of the tile, 5 levels to join the tile, 5 levels of halves.
    "sum.c" "sum"
    |library| checks::sum::<f32>(library, Tolerance::relative(20.0 * F32)) => {
        "sum_f32_tile32" ["-DELEM=f32", "-DTILE=32"],
    }
    // The reference adds 5003 terms one after the other.
    "sum.c" "sum"
    |library| checks::sum::<f64>(library, Tolerance::relative(5003.0 * F64)) => {
        "sum_f64_tile16" ["-DELEM=f64", "-DTILE=16"],
    }
    "argmax.c" "argmax"
    checks::argmax::<f32> => {
        "argmax_f32_tile32" ["-DELEM=f32", "-DTILE=32"],
    }
    "transpose.c" "transpose"
    checks::transpose::<f32> => {
        "transpose_f32_tile16" ["-DELEM=f32", "-DTILE=16"],
    }
    "transpose.c" "transpose"
    checks::transpose::<f64> => {
        "transpose_f64_tile32" ["-DELEM=f64", "-DTILE=32"],
    }
    // 3 planes of 9 products, and the bias.
    "conv2d.c" "conv2d"
    |library| checks::conv2d::<f32>(library, 3, sum_of(28, 28.0 * F32)) => {
        "conv2d_f32_3x3_tile16" ["-DKSIZE=3", "-DTILE=16"],
    }
    "conv2d.c" "conv2d"
    |library| checks::conv2d::<f32>(library, 5, sum_of(76, 76.0 * F32)) => {
        "conv2d_f32_5x5_tile32" ["-DKSIZE=5", "-DTILE=32"],
    }
    // 5 terms up to 1, rounded up to 5 times, then 8 roundings of a result up to 5.
    "conv1d.c" "causal_conv1d"
    |library| checks::causal_conv1d::<f32>(library, 4, Tolerance::absolute(64.0 * F32)) => {
        "causal_conv1d_f32_taps4_tile16" ["-DTAPS=4", "-DTILE=16"],
    }
    // Two products and their sum, up to 1.5.
    "rope.c" "rope"
    |library| checks::rope::<f32>(library, 64, Tolerance::absolute(6.0 * F32)) => {
        "rope_f32_dim64_tile16" ["-DHEAD_DIM=64", "-DTILE=16"],
    }
    "rope.c" "rope"
    |library| checks::rope::<f32>(library, 128, Tolerance::absolute(6.0 * F32)) => {
        "rope_f32_dim128_tile32" ["-DHEAD_DIM=128", "-DTILE=32"],
    }
};
