//! The wasm module with its JavaScript, as the npm package carries it.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::stamp::Stamp;
use crate::{
    node::Node,
    process::{Failure, Invocation, workspace_root},
    tools::{self, Tool},
};

/// Where the npm package is.
pub(super) const PACKAGE: &str = "wasm/npm";

/// Where the module is laid out on its way.
const WORK: &str = "target/package/engine";

/// Where cargo leaves the modules.
const BUILT: &str = "target/wasm32-unknown-unknown/wasm";

/// The modules: what every page needs, and what those that launch need besides.
pub(super) const MODULES: [Module; 2] = [
    Module { name: "warmstart_wasm", inlined: "wasm" },
    Module { name: "warmstart_wasm_launch", inlined: "launch" },
];

/// A wasm module of the npm package.
#[derive(Clone, Copy, Debug)]
pub(super) struct Module {
    /// What cargo calls it.
    pub(super) name: &'static str,
    /// The script that it is inlined in.
    inlined: &'static str,
}

/// SIMD hashes twice as fast, and every browser of today has it. The pass leaves out arguments that nobody
/// reads. What a panic would say is such, and nobody could read it: with its texts the module is 2 KiB
/// longer.
const RUSTFLAGS: &str = "-C target-feature=+simd128 -C passes=deadargelim";

const TARGET: &str = "wasm32-unknown-unknown";

/// What every browser of today has.
const FEATURES: &str = "--enable-bulk-memory --enable-sign-ext --enable-mutable-globals \
                        --enable-nontrapping-float-to-int --enable-simd --enable-reference-types --enable-multivalue";

/// See wasm/SIZE.md for what each gains.
const SMALLEST: &str = "-O2 -Oz --converge --reorder-functions --reorder-locals --strip-producers \
                        --strip-target-features";

/// Its type, for TypeScript.
const INLINED_TYPE: &str = "declare const wasm: string;\nexport default wasm;\n";

/// Builds the modules and fills `wasm/npm/engine`, unless they are there.
pub(super) fn build(node: &Node) -> Result<(), Failure> {
    tools::ensure(&[Tool::Target(TARGET)])?;
    Invocation::new("cargo build --package warmstart-wasm --package warmstart-wasm-launch")
        .arguments(&format!("--profile wasm --target {TARGET}"))
        .variable("RUSTFLAGS", RUSTFLAGS)
        .run()?;
    let root = workspace_root();
    let engine = root.join(PACKAGE).join("engine");
    let built = MODULES.map(|module| root.join(module.built()));
    let (lock, this) = (root.join("Cargo.lock"), root.join("xtask/src/web/engine.rs"));
    let stamp = Stamp::of(&[&built[0], &built[1], &lock, &this])?;
    let at = engine.join(".made-from");
    if stamp.is_at(&at) {
        println!("the engine is there");
        return Ok(());
    }
    node.install(PACKAGE)?;
    for module in MODULES {
        Invocation::new(
            "cargo run --quiet --package warmstart-tools --profile tool --features bindgen --bin bindgen --",
        )
        .argument(module.built())
        .argument(WORK)
        .run()?;
        node.invocation(format!("{PACKAGE}/node_modules/binaryen/bin/wasm-opt"))
            .arguments(&format!("{SMALLEST} {FEATURES} {WORK}/{}_bg.wasm -o", module.name))
            .argument(module.optimised())
            .run()?;
    }
    lay_out(&engine).map_err(|error| Failure::new(format!("{}: {error}", engine.display())))?;
    stamp.write(&at)
}

impl Module {
    /// Where cargo leaves it.
    fn built(self) -> String {
        format!("{BUILT}/{}.wasm", self.name)
    }

    /// Where its types are, for TypeScript.
    pub(super) fn types(self) -> PathBuf {
        workspace_root().join(PACKAGE).join("engine").join(format!("{}.d.ts", self.name))
    }

    /// Where it is as it is shipped.
    pub(super) fn optimised(self) -> PathBuf {
        workspace_root().join(WORK).join(format!("{}.wasm", self.name))
    }
}

fn lay_out(engine: &Path) -> std::io::Result<()> {
    if engine.exists() {
        fs::remove_dir_all(engine)?;
    }
    fs::create_dir_all(engine)?;
    let work = workspace_root().join(WORK);
    for module in MODULES {
        for extension in ["js", "d.ts"] {
            let name = format!("{}.{extension}", module.name);
            fs::copy(work.join(&name), engine.join(&name))?;
        }
        // Inlined, the module needs no settings of any bundler, and works in every worker.
        let inlined = format!("export default \"{}\";\n", base64(&fs::read(module.optimised())?));
        fs::write(engine.join(format!("{}.js", module.inlined)), inlined)?;
        fs::write(engine.join(format!("{}.d.ts", module.inlined)), INLINED_TYPE)?;
    }
    Ok(())
}

/// As RFC 4648 has it, padded.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let word = (0..3).fold(0, |word, at| word << 8 | u32::from(three.get(at).copied().unwrap_or(0)));
        for at in 0..4 {
            let digit = DIGITS[(word >> (18 - 6 * at) & 63) as usize];
            text.push(if at > three.len() { '=' } else { char::from(digit) });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_the_standard() {
        let encoded = ["", "f", "fo", "foo", "foob", "fooba", "foobar"].map(|text| base64(text.as_bytes()));
        assert_eq!(encoded, ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy"]);
        assert_eq!(base64(&[0xfb, 0xff, 0xfe]), "+//+");
    }
}
