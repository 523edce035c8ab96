//! The steps, cheap ones first.

use super::{Step, Work, hygiene};
use crate::{capi, process::Invocation, tools::Tool};

/// What browsers run.
const WASM: &str = "wasm32-unknown-unknown";

/// Targets without an operating system, and the browser's.
const CORE_TARGETS: [&str; 2] = ["thumbv7em-none-eabihf", WASM];

/// Platforms that the type checker alone visits, unless the tests are run on one of them.
const PLATFORMS: [&str; 3] = ["x86_64-pc-windows-gnu", "aarch64-apple-darwin", "aarch64-unknown-linux-gnu"];

/// Miri interprets any target on any host; this one is big-endian.
const BIG_ENDIAN: &str = "s390x-unknown-linux-gnu";

/// How long each fuzz target runs: long enough to see that it still finds nothing near its corpus.
const FUZZ_SECONDS: u64 = 3;

/// With other flags everything is compiled anew: in a folder of its own, so that the other steps find theirs as it was.
const LOOM: &str = "cargo test --package warmstart --no-default-features --features launch --lib --target-dir target/loom loom";

/// What threads share, with the real pointers that loom replaces.
const MIRI_LAUNCH: &str = "cargo +nightly miri test --package warmstart --no-default-features --features launch --lib -- memo:: registry::";

const MIRI: Tool = Tool::Nightly(&["miri", "rust-src"]);

/// All steps, in the order in which they run.
pub(super) fn all() -> Vec<Step> {
    vec![
        inspection(
            "hygiene",
            "small files only; the core says no_std and forbids unsafe code",
            hygiene::inspect,
        ),
        step(
            "fmt",
            "one formatting",
            &[Tool::Component("rustfmt")],
            [
                line("cargo fmt --all --check"),
                line("cargo fmt --manifest-path tests/fuzz/Cargo.toml --check"),
                peers("fmt", "--check"),
            ],
        ),
        step(
            "clippy",
            "no lint fires",
            &[Tool::Component("clippy"), Tool::Target(WASM)],
            [
                line("cargo clippy --workspace --all-targets -- -D warnings"),
                line(&format!(
                    "cargo clippy --package warmstart-wasm --package warmstart-wasm-launch --target {WASM} -- -D warnings"
                )),
                line(
                    "cargo clippy --package warmstart-tools --profile tool --features bindgen --bin bindgen -- -D warnings",
                ),
                line(
                    "cargo clippy --manifest-path tests/fuzz/Cargo.toml --locked --target-dir target --all-targets -- -D warnings",
                ),
            ],
        ),
        inspection("header", "the header of the C library is what its sources say", capi::inspect_header),
        step(
            "runtimes",
            "what the tests run against is there",
            &[],
            [line("cargo xtask runtimes --xnnpack --models --cuda")],
        ),
        step(
            "tests",
            "all tests pass, those in the documentation too; the examples compile",
            &[],
            // A test that finds no runtime fails.
            [line("cargo test --workspace --no-fail-fast").variable("WARMSTART_RUNTIMES", "required")],
        ),
        step(
            "web",
            "the npm package passes its tests in Chromium, and is as small as promised",
            &[],
            [line("cargo xtask web")],
        ),
        step(
            "docs",
            "the documentation is whole",
            &[Tool::Target(WASM)],
            [
                String::from("cargo doc --workspace --no-deps"),
                // Where there is no browser these are empty.
                format!("cargo doc --package warmstart-wasm --package warmstart-wasm-launch --no-deps --target {WASM}"),
            ]
            .map(|command| line(&command).variable("RUSTDOCFLAGS", "-D warnings")),
        ),
        step(
            "features",
            "each feature compiles without the others",
            &[Tool::Component("clippy")],
            [
                "",
                " --features cpu",
                " --features cuda",
                " --features launch",
                " --features packs",
                " --features sqlite",
                " --features cli",
            ]
            .map(|features| native(features, "")),
        ),
        step(
            "peers",
            "the benchmark of the peers type-checks",
            &[Tool::Component("clippy")],
            [peers("clippy", "--locked --target-dir target --all-targets -- -D warnings")],
        ),
        step(
            "core",
            "the core builds without a standard library, and for browsers",
            &CORE_TARGETS.map(Tool::Target),
            CORE_TARGETS
                .map(|target| line(&format!("cargo build --package warmstart-core --target {target}"))),
        ),
        step(
            "platforms",
            "Windows, macOS and 64-bit Arm type-check",
            &[&[Tool::Component("clippy")][..], &PLATFORMS.map(Tool::Target)].concat(),
            PLATFORMS.iter().flat_map(|target| {
                let target = format!(" --target {target}");
                [native(" --features cpu,cuda,launch,packs,sqlite,cli", &target), capi(&target)]
            }),
        ),
        step(
            "loom",
            "the shared launch memo is right however threads take turns",
            &[],
            [line(LOOM).variable("RUSTFLAGS", "--cfg loom")],
        ),
        step(
            "miri",
            "the core, on a big-endian target, and the shared launch memo have no undefined behaviour",
            &[MIRI],
            // One run proves both of the core: what is computed, and how. It holds no line that is compiled for one order of bytes alone.
            [
                line(&format!("cargo +nightly miri test --package warmstart-core --target {BIG_ENDIAN}")),
                line(MIRI_LAUNCH),
            ],
        ),
        step(
            "fuzz",
            "no fuzz target finds anything in a few seconds",
            &[],
            [line(&format!("cargo xtask fuzz {FUZZ_SECONDS}"))],
        ),
    ]
}

/// Type-checks and lints the C library, of which nothing is linked.
fn capi(target: &str) -> Invocation {
    line(&format!("cargo clippy --package warmstart-capi{target} -- -D warnings"))
}

/// Type-checks and lints `native/` with these features alone.
fn native(features: &str, target: &str) -> Invocation {
    let command = format!(
        "cargo clippy --package warmstart --all-targets --no-default-features{features}{target} -- -D warnings"
    );
    // Nothing is linked, so any folder will do. Named, it stops the build script of libsqlite3-sys, which would
    // otherwise ask the host for a library of the target.
    line(&command).variable("SQLITE3_LIB_DIR", ".")
}

/// A command of cargo in the workspace that the peers have.
fn peers(command: &str, rest: &str) -> Invocation {
    line(&format!("cargo {command} --manifest-path tests/peers/Cargo.toml {rest}"))
}

fn line(command: &str) -> Invocation {
    Invocation::new(command)
}

fn step(
    name: &'static str,
    about: &'static str,
    tools: &[Tool],
    commands: impl IntoIterator<Item = Invocation>,
) -> Step {
    Step { name, about, tools: tools.to_vec(), work: Work::Commands(commands.into_iter().collect()) }
}

fn inspection(
    name: &'static str,
    about: &'static str,
    inspect: fn() -> Result<Vec<String>, crate::process::Failure>,
) -> Step {
    Step { name, about, tools: Vec::new(), work: Work::Inspection(inspect) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_has_a_name_of_its_own() {
        let names: Vec<&str> = all().iter().map(|step| step.name).collect();
        for (at, name) in names.iter().enumerate() {
            assert!(!names[..at].contains(name), "{name}");
        }
    }
}
