//! How large a wasm module may be.

use std::fs;

use super::engine;
use crate::process::{Failure, Invocation};

/// In bytes.
const MAX_RAW: usize = 64 << 10;

/// In bytes, after `gzip -9`.
const MAX_GZIPPED: usize = 28 << 10;

/// Prints how large each module is; larger than one may be is a failure.
pub(super) fn inspect() -> Result<(), Failure> {
    for module in engine::MODULES {
        let path = module.optimised();
        let raw =
            fs::metadata(&path).map_err(|error| Failure::new(format!("{}: {error}", path.display())))?.len();
        let gzipped = Invocation::new("gzip -9 -n -c").argument(&path).output()?.len();
        judge(module.name, usize::try_from(raw).unwrap_or(usize::MAX), gzipped)?;
    }
    Ok(())
}

fn judge(name: &str, raw: usize, gzipped: usize) -> Result<(), Failure> {
    let found =
        format!("{name}.wasm is {raw} bytes (at most {MAX_RAW}), gzipped {gzipped} (at most {MAX_GZIPPED})");
    if raw <= MAX_RAW && gzipped <= MAX_GZIPPED {
        println!("{found}");
        Ok(())
    } else {
        Err(Failure::new(found))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_more_than_promised_is_a_failure() {
        assert!(judge("a", 65_536, 28_672).is_ok());
        assert!(judge("a", 65_537, 1).is_err());
        assert!(judge("a", 1, 28_673).is_err());
    }
}
