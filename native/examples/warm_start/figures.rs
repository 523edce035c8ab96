//! Formats figures.

/// Returns a bar of eighths of a character; a value above zero gets at least one eighth.
pub(crate) fn bar(share: f64, width: usize) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = ((share * width as f64 * 8.0).round() as usize).max(1);
    "█".repeat(eighths / 8) + EIGHTHS[eighths % 8]
}

pub(crate) fn milliseconds(millis: f64) -> String {
    format!("{} ms", three_digits(millis))
}

/// Formats a number with three digits, or with all digits before the point.
pub(crate) fn three_digits(x: f64) -> String {
    let decimals = if x >= 99.95 {
        0
    } else if x >= 9.995 {
        1
    } else {
        2
    };
    format!("{x:.decimals$}")
}
