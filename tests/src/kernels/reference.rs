//! The expected results of every kernel, as plain loops in f64. Matrices are slices, row after row.

/// Lengths that some functions take more than two of.
#[derive(Clone, Copy)]
pub(super) struct ImageShape {
    pub(super) ins: usize,
    pub(super) outs: usize,
    pub(super) height: usize,
    pub(super) width: usize,
    pub(super) filter: usize,
}

pub(super) fn matmul(a: &[f64], b: &[f64], rows: usize, depth: usize, cols: usize) -> Vec<f64> {
    let mut c = Vec::new();
    for row in 0..rows {
        for col in 0..cols {
            c.push((0..depth).map(|k| a[row * depth + k] * b[k * cols + col]).sum());
        }
    }
    c
}

pub(super) fn transpose(a: &[f64], rows: usize, cols: usize) -> Vec<f64> {
    let mut b = Vec::new();
    for col in 0..cols {
        for row in 0..rows {
            b.push(a[row * cols + col]);
        }
    }
    b
}

pub(super) fn softmax(x: &[f64], cols: usize) -> Vec<f64> {
    let mut y = Vec::new();
    for row in x.chunks(cols) {
        let largest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let total: f64 = row.iter().map(|x| (x - largest).exp()).sum();
        y.extend(row.iter().map(|x| (x - largest).exp() / total));
    }
    y
}

pub(super) fn cross_entropy(logits: &[f64], labels: &[u32], cols: usize) -> Vec<f64> {
    let likelihood = softmax(logits, cols);
    labels.iter().enumerate().map(|(row, label)| -likelihood[row * cols + *label as usize].ln()).collect()
}

/// The scores as a whole matrix, then their softmax, then the values.
pub(super) fn attention(
    q: &[f64],
    k: &[f64],
    v: &[f64],
    head_dim: usize,
    scale: f64,
    causal: bool,
) -> Vec<f64> {
    let mut out = Vec::new();
    for (position, query) in q.chunks(head_dim).enumerate() {
        let seen = if causal { position + 1 } else { k.len() / head_dim };
        let scores: Vec<f64> = k
            .chunks(head_dim)
            .take(seen)
            .map(|key| scale * query.iter().zip(key).map(|(q, k)| q * k).sum::<f64>())
            .collect();
        let weights = softmax(&scores, seen);
        for d in 0..head_dim {
            out.push(weights.iter().zip(v.chunks(head_dim)).map(|(weight, value)| weight * value[d]).sum());
        }
    }
    out
}

pub(super) fn layer_norm(x: &[f64], gamma: &[f64], beta: &[f64], epsilon: f64) -> Vec<f64> {
    let cols = gamma.len();
    let mut y = Vec::new();
    for row in x.chunks(cols) {
        let mean = row.iter().sum::<f64>() / cols as f64;
        let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / cols as f64;
        for i in 0..cols {
            y.push((row[i] - mean) / (variance + epsilon).sqrt() * gamma[i] + beta[i]);
        }
    }
    y
}

pub(super) fn rms_norm(x: &[f64], gamma: &[f64], epsilon: f64) -> Vec<f64> {
    let cols = gamma.len();
    let mut y = Vec::new();
    for row in x.chunks(cols) {
        let mean_square = row.iter().map(|x| x * x).sum::<f64>() / cols as f64;
        for i in 0..cols {
            y.push(row[i] / (mean_square + epsilon).sqrt() * gamma[i]);
        }
    }
    y
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// By its series with positive terms, 2/sqrt(pi) exp(-x^2) (x + 2 x^3/3 + 4 x^5/15 + ...): nothing cancels.
fn erf(x: f64) -> f64 {
    let mut term = x;
    let mut sum = x;
    let mut n = 1.0;
    while term.abs() > 1e-18 * sum.abs() {
        term *= 2.0 * x * x / (2.0 * n + 1.0);
        sum += term;
        n += 1.0;
    }
    std::f64::consts::FRAC_2_SQRT_PI * (-x * x).exp() * sum
}

pub(super) fn gelu_tanh(x: f64) -> f64 {
    0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3))).tanh())
}

pub(super) fn gelu_erf(x: f64) -> f64 {
    0.5 * x * (1.0 + erf(x / std::f64::consts::SQRT_2))
}

pub(super) fn add_bias(x: &[f64], bias: &[f64]) -> Vec<f64> {
    x.iter().zip(bias.iter().cycle()).map(|(x, bias)| x + bias).collect()
}

/// Each row is a gate and then what it lets through.
pub(super) fn swiglu(x: &[f64], cols: usize) -> Vec<f64> {
    let mut y = Vec::new();
    for row in x.chunks(2 * cols) {
        for i in 0..cols {
            y.push(row[i] * sigmoid(row[i]) * row[cols + i]);
        }
    }
    y
}

/// The one reference in f32: the rounding of each step is part of what is asked for. Gives the bytes and the scales.
pub(super) fn quantise(x: &[f32], group: usize) -> (Vec<f64>, Vec<f64>) {
    let (mut bytes, mut scales) = (Vec::new(), Vec::new());
    for group in x.chunks(group) {
        let largest = group.iter().fold(0.0_f32, |largest, x| largest.max(x.abs()));
        let factor = if largest > 0.0 { 127.0 / largest } else { 0.0 };
        bytes.extend(group.iter().map(|x| f64::from((x * factor).round_ties_even())));
        scales.push(f64::from(largest / 127.0));
    }
    (bytes, scales)
}

pub(super) fn dequantise(q: &[f64], zeros: &[f64], scales: &[f64], cols: usize) -> Vec<f64> {
    q.iter().enumerate().map(|(i, q)| (q - zeros[i / cols]) * scales[i / cols]).collect()
}

pub(super) fn grouped_matvec(w: &[f64], scales: &[f64], x: &[f64], group: usize) -> Vec<f64> {
    let weights: Vec<f64> = w.iter().enumerate().map(|(i, w)| w * scales[i / group]).collect();
    matmul(&weights, x, weights.len() / x.len(), x.len(), 1)
}

pub(super) fn row_sums(x: &[f64], cols: usize) -> Vec<f64> {
    x.chunks(cols).map(|row| row.iter().sum()).collect()
}

/// The largest element of each row, and the first place where it is.
pub(super) fn argmax(x: &[f64], cols: usize) -> (Vec<f64>, Vec<f64>) {
    let (mut values, mut places) = (Vec::new(), Vec::new());
    for row in x.chunks(cols) {
        let mut place = 0;
        for i in 0..cols {
            if row[i] > row[place] {
                place = i;
            }
        }
        values.push(row[place]);
        places.push(place as f64);
    }
    (values, places)
}

pub(super) fn conv2d(image: &[f64], filters: &[f64], bias: &[f64], shape: ImageShape) -> Vec<f64> {
    let ImageShape { ins, outs, height, width, filter } = shape;
    let pixel = |plane: usize, y: usize, x: usize| {
        // Coordinates are shifted by half a filter; what is not in the plane is 0.
        let (y, x) = (y.checked_sub(filter / 2)?, x.checked_sub(filter / 2)?);
        (y < height && x < width).then(|| image[(plane * height + y) * width + x])
    };
    let mut out = Vec::new();
    for o in 0..outs {
        for y in 0..height {
            for x in 0..width {
                let mut sum = bias[o];
                for c in 0..ins {
                    for dy in 0..filter {
                        for dx in 0..filter {
                            let weight = filters[((o * ins + c) * filter + dy) * filter + dx];
                            sum += weight * pixel(c, y + dy, x + dx).unwrap_or(0.0);
                        }
                    }
                }
                out.push(sum);
            }
        }
    }
    out
}

pub(super) fn causal_conv1d(x: &[f64], weights: &[f64], bias: &[f64], steps: usize) -> Vec<f64> {
    let channels = bias.len();
    let taps = weights.len() / channels;
    let mut y = Vec::new();
    for step in 0..steps {
        for channel in 0..channels {
            let mut sum = bias[channel];
            for back in 0..taps.min(step + 1) {
                sum +=
                    weights[(taps - 1 - back) * channels + channel] * x[(step - back) * channels + channel];
            }
            y.push(sum * sigmoid(sum));
        }
    }
    y
}

pub(super) fn rope(x: &[f64], cosines: &[f64], sines: &[f64], heads: usize, head_dim: usize) -> Vec<f64> {
    let half = head_dim / 2;
    let mut y = x.to_vec();
    for (row, head) in y.chunks_mut(head_dim).enumerate() {
        let angles = row / heads * half;
        for i in 0..half {
            let (cosine, sine) = (cosines[angles + i], sines[angles + i]);
            let (a, b) = (head[i], head[half + i]);
            head[i] = a * cosine - b * sine;
            head[half + i] = b * cosine + a * sine;
        }
    }
    y
}
