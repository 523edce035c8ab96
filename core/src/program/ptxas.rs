//! Arguments of ptxas, as far as all that they do is in their text.

use alloc::format;

use super::refusal::{Refusal, shown};

/// Arguments without a value, and with one, in both spellings if there are two. What is missing here reads or writes files (`--options-file`,
/// `--output-file`, `--apply-controls`), makes code for another architecture (`--gpu-name`), or is not known
/// to do neither.
const ALONE: [[&str; 2]; 32] = [
    ["--allow-expensive-optimizations", ""],
    ["--compile-as-tools-patch", "-astoolspatch"],
    ["--compile-only", "-c"],
    ["--compiler-annotations", "-annotate"],
    ["--device-debug", "-g"],
    ["--device-stack-protector", ""],
    ["--disable-optimizer-constants", "-disable-optimizer-consts"],
    ["--disable-warnings", "-w"],
    ["--dont-merge-basicblocks", "-no-bb-merge"],
    ["--extensible-whole-program", "-ewp"],
    ["--g-tensor-memory-access-check", "-g-tmem-access-check"],
    ["--generate-line-info", "-lineinfo"],
    ["--gno-fabric-access-check", "-gno-fabric-access-check"],
    ["--gno-tensor-memory-access-check", "-gno-tmem-access-check"],
    ["--legacy-bar-warp-wide-behavior", "-legacy-bar-warp-wide-behavior"],
    ["--make-errors-visible-at-exit", "-make-errors-visible-at-exit"],
    ["--optimize-float-atomics", "-opt-fp-atomics"],
    ["--override-directive-values", "-override-directive-values"],
    ["--preserve-relocs", "-preserve-relocs"],
    ["--return-at-end", "-ret-end"],
    ["--sp-bounds-check", "-sp-bounds-check"],
    ["--suppress-async-bulk-multicast-advisory-warning", ""],
    ["--suppress-debug-info", "-suppress-debug-info"],
    ["--suppress-double-demote-warning", ""],
    ["--suppress-sparse-mma-advisory-info", ""],
    ["--suppress-stack-size-warning", ""],
    ["--verbose", "-v"],
    ["--verbose2", "-v2"],
    ["--warn-on-double-precision-use", "-warn-double-usage"],
    ["--warn-on-local-memory-usage", "-warn-lmem-usage"],
    ["--warn-on-spills", "-warn-spills"],
    ["--warning-as-error", "-Werror"],
];
const VALUED: [[&str; 2]; 18] = [
    ["--Ofast-compile", "-Ofc"],
    ["--allow-expensive-optimizations", "-allow-expensive-optimizations"],
    ["--def-load-cache", "-dlcm"],
    ["--def-store-cache", "-dscm"],
    ["--device-function-maxrregcount", "-func-maxrregcount"],
    ["--device-stack-protector", "-device-stack-protector"],
    ["--enable-func-clone-sc", "-enable-func-clone-sc"],
    ["--entry", "-e"],
    ["--fmad", "-fmad"],
    ["--force-load-cache", "-flcm"],
    ["--force-store-cache", "-fscm"],
    ["--maxntid", "-maxntid"],
    ["--maxrregcount", "-maxrregcount"],
    ["--minnctapersm", "-minnctapersm"],
    ["--opt-level", "-O"],
    ["--position-independent-code", "-pic"],
    ["--register-usage-level", "-regUsageLevel"],
    ["--split-compile", "-split-compile"],
];
/// Checks one argument. ptxas separates nothing in it.
pub(crate) fn check(option: &'static str, argument: &str) -> Result<(), Refusal> {
    if argument.is_empty() || is_known(argument) {
        return Ok(());
    }
    let refused = |why: &str| Refusal::unsupported(option, format!("{:?} {why}", shown(argument)));
    Err(if !argument.starts_with('-') {
        refused("would be read as a file; write a value behind its option and \"=\"")
    } else if argument.contains(char::is_whitespace) {
        refused("is not one argument; give each as an item of a list")
    } else if matches!(spelling(argument), "-arch" | "--gpu-name") {
        refused("would make code for another architecture; set arch instead")
    } else {
        refused(
            "is not known to leave files alone, and may read or write what the key does not know; leave it \
             out",
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
    let value = argument.split_once('=').filter(|(spelling, _)| VALUED.as_flattened().contains(spelling));
    value.is_some_and(|(_, value)| !value.is_empty() && value.bytes().all(is_of_a_value))
}

/// Names of functions, numbers and words. Nothing of a path, of quotes or of a list of files is among them.
fn is_of_a_value(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b',' | b'-')
}

fn spelling(argument: &str) -> &str {
    argument.split_once('=').map_or(argument, |(spelling, _)| spelling)
}
