//! The arguments of ptxas that are accepted: those that reach no file and choose no other architecture.

use alloc::format;

use super::refusal::Refusal;

/// Accepted arguments without a value, in both spellings.
///
/// Only common ones, whose effect NVIDIA documents. Left out are above all those that read or write files (`--options-file`,
/// `--output-file`, `--apply-controls`), and those that choose another architecture (`--gpu-name`).
const ALONE: [[&str; 2]; 8] = [
    ["--device-debug", "-g"],
    ["--disable-optimizer-constants", "-disable-optimizer-consts"],
    ["--generate-line-info", "-lineinfo"],
    ["--verbose", "-v"],
    ["--warn-on-double-precision-use", "-warn-double-usage"],
    ["--warn-on-local-memory-usage", "-warn-lmem-usage"],
    ["--warn-on-spills", "-warn-spills"],
    ["--warning-as-error", "-Werror"],
];

/// Accepted arguments with a value, in both spellings.
const VALUED: [[&str; 2]; 8] = [
    ["--allow-expensive-optimizations", "-allow-expensive-optimizations"],
    ["--def-load-cache", "-dlcm"],
    ["--def-store-cache", "-dscm"],
    ["--entry", "-e"],
    ["--fmad", "-fmad"],
    ["--maxrregcount", "-maxrregcount"],
    ["--opt-level", "-O"],
    ["--register-usage-level", "-regUsageLevel"],
];

/// Checks one argument. ptxas does not split it.
///
/// # Errors
/// [`Refusal`] if it is not on the lists.
pub(crate) fn check(option: &'static str, argument: &str) -> Result<(), Refusal> {
    if argument.is_empty() || is_known(argument) {
        return Ok(());
    }
    let refused = |why: &str| Refusal::unsupported(option, format!("{argument:?} {why}"));
    Err(if !argument.starts_with('-') {
        refused("would be read as a file; join an option and its value by \"=\"")
    } else if argument.contains(char::is_whitespace) {
        refused("has white space in it; give each argument as an item of a list")
    } else if matches!(spelling(argument), "-arch" | "--gpu-name") {
        refused("would choose another architecture; set arch instead")
    } else {
        refused(
            "is not on the list of arguments that reach no file outside the key; leave it out, set the option of the program \
             that does the same, or ask for it in an issue",
        )
    })
}

fn is_known(argument: &str) -> bool {
    if ALONE.as_flattened().contains(&argument) {
        return true;
    }
    if argument.strip_prefix("-O").is_some_and(|level| matches!(level.as_bytes(), [b'0'..=b'9'])) {
        return true;
    }
    // Nothing that paths or quotes need.
    let is_of_value = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b',' | b'-');
    let value = argument.split_once('=').filter(|(spelling, _)| VALUED.as_flattened().contains(spelling));
    value.is_some_and(|(_, value)| !value.is_empty() && value.bytes().all(is_of_value))
}

fn spelling(argument: &str) -> &str {
    argument.split_once('=').map_or(argument, |(spelling, _)| spelling)
}
