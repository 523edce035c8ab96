//! The steps, cheap ones first.

use std::collections::BTreeSet;

use xshell::{Cmd, Shell, cmd};

use super::{Step, Work};
use crate::{
    Result, capi, fuzz,
    needs::{self, Need},
    runtimes,
};

/// What runs in browsers, with the profile of the npm package: what is compiled for the host is then compiled once.
const WASM_PACKAGES: &str =
    "--package warmstart-wasm --package warmstart-wasm-launch --target wasm32-unknown-unknown --profile wasm";

/// The target of browsers.
const WASM: &str = "wasm32-unknown-unknown";

/// Targets without an operating system, and the browser's.
const CORE_TARGETS: [&str; 2] = ["thumbv7em-none-eabihf", WASM];

/// Platforms that the type checker alone visits, unless the tests are run on one of them.
const PLATFORMS: [&str; 3] = ["x86_64-pc-windows-gnu", "aarch64-apple-darwin", "aarch64-unknown-linux-gnu"];

/// All features of `native/`, the C library, the command and the examples. The SQLite of the system stands in for the bundled one,
/// of which only C differs.
const ALL: &str = "cpu,cuda,launch,packs,sqlite --package warmstart-capi --package warmstart-cli --package warmstart-examples";

/// What clippy asks of a workspace of its own.
const APART: &str = "--locked --target-dir target --all-targets --manifest-path";

/// The largest file that the repository tracks, in bytes.
const MAX_FILE: u64 = 1 << 20;

/// The lines without which the core is not what it says it is.
const CORE_PROMISES: [&str; 2] = ["#![no_std]", "#![forbid(unsafe_code)]"];

/// Names the tests that may be ignored on a Debian machine; what they need is said there.
const IGNORED: &str = "tests/ignored.txt";

/// With other flags everything is compiled again: in a folder of its own, so that the other steps find theirs.
const LOOM: [&str; 6] =
    ["--no-default-features", "--features", "launch", "--target-dir", "target/loom", "loom"];

/// Miri interprets any target on any host; this one is big-endian. What decodes bytes runs there: one run shows both
/// that it is sound and that it does not depend on the order of bytes.
const MIRI_CORE: &str = "cargo +nightly miri test --package warmstart-core --target s390x-unknown-linux-gnu --lib -- \
                         envelope:: head:: journal:: launch_record:: metadata:: miss:: portable recipe:: seal:: \
                         tally:: trailer::";

/// What threads share, with the real pointers that loom replaces.
const MIRI_LAUNCH: &str = "cargo +nightly miri test --package warmstart --no-default-features --features launch --lib \
                           --target-dir target/miri-launch -- memo:: registry::";

const CLIPPY: Need = Need::Component("clippy");
const CC: Need = Need::Program { name: "cc", debian: "gcc libc6-dev" };
const CXX: Need = Need::Program { name: "c++", debian: "g++" };
const RUSTUP: Need = Need::Program { name: "rustup", debian: "rustup" };
const GIT: Need = Need::Program { name: "git", debian: "git" };

/// Returns all steps in the order in which they run. With `deep`, those that can do more do it.
pub(super) fn all(sh: &Shell, deep: bool) -> Vec<Step<'_>> {
    let manifests = ["tests/fuzz/Cargo.toml", "tests/peers/Cargo.toml"];
    vec![
        step("hygiene", "tracked files are small; the core says no_std and forbids unsafe code", &[GIT])
            .check(check_core)
            .check(check_files),
        step("fmt", "there is one formatting", &[RUSTUP, Need::Component("rustfmt")])
            .command(cargo(sh, "fmt --all --check"))
            .commands(manifests.map(|path| cargo(sh, "fmt --check").args(["--manifest-path", path]))),
        step("clippy", "no lint fires", &[CLIPPY, CC, Need::Target(WASM)])
            .command(clippy(sh, "--workspace --all-targets"))
            .command(clippy(sh, WASM_PACKAGES)),
        step("header", "the C header is what the sources say", &[]).check(capi::check_header),
        tests(sh),
        step("web", "the npm package passes its tests in Chromium, and is as small as promised", &[Need::Pip])
            .needs(&[Need::Node, Need::Target(WASM), Need::Browser])
            .command(cargo(sh, "xtask web").args(deep.then_some("--deep"))),
        step("docs", "the documentation is whole", &[Need::Target(WASM)]).commands([
            doc(sh, "--workspace"),
            // Where there is no browser these are empty.
            doc(sh, WASM_PACKAGES),
        ]),
        step("features", "each feature compiles without the others", &[CLIPPY]).commands(
            ["", "cpu", "cuda", "launch", "packs", "sqlite"].map(|feature| native(sh, feature)),
        ),
        step("core", "the core builds without a standard library, and for browsers", &[])
            .needs(&CORE_TARGETS.map(Need::Target))
            .commands(CORE_TARGETS.map(|target| cargo(sh, "check --package warmstart-core --target").arg(target))),
        step("platforms", "Windows, macOS and 64-bit Arm type-check", &[CLIPPY])
            .needs(&PLATFORMS.map(Need::Target))
            .commands(PLATFORMS.map(|target| native(sh, &format!("{ALL} --target {target}")))),
        step("lints", "no lint fires in the tools, the fuzz targets and the benchmark of the peers", &[CXX])
            .deep()
            .command(clippy(sh, "--package warmstart-tools --profile tool --all-features --bins"))
            .commands(manifests.map(|path| clippy(sh, &format!("{APART} {path}")))),
        step("deny", "licences, duplicates and sources of the dependencies are as deny.toml allows", &[])
            .needs(&[Need::Tool { name: "cargo-deny", version: "0.20.2" }])
            .deep()
            .command(needs::tool(sh, "cargo-deny").args(["--offline", "check", "licenses", "bans", "sources"])),
        step("package", "the crates that are published build from their packages", &[])
            .deep()
            .command(cargo(sh, "package --package warmstart-core --package warmstart --package warmstart-cli --allow-dirty")),
        step("loom", "the shared launch memo is right however threads take turns", &[])
            .deep()
            .command(cargo(sh, "test --package warmstart --lib").args(LOOM).env("RUSTFLAGS", "--cfg loom")),
        Step {
            work: vec![Work::AtOnce(vec![MIRI_CORE, MIRI_LAUNCH])],
            ..step(
                "miri",
                "the decoders, on a big-endian target, and the shared launch memo have no undefined behaviour",
                &[Need::Nightly(&["miri", "rust-src"])],
            )
            .deep()
        },
        step("fuzz", "no fuzz target finds anything in 20 seconds", &fuzz::NEEDS)
            .deep()
            .command(cargo(sh, "xtask fuzz 20")),
    ]
}

/// Downloads the packages of all workspaces that the steps build, so that no step waits for them.
pub(super) fn fetch(sh: &Shell, deep: bool) -> Result {
    cargo(sh, "fetch --locked").run()?;
    if deep {
        cargo(sh, "fetch --locked --manifest-path tests/fuzz/Cargo.toml").run()?;
        cargo(sh, "fetch --locked --manifest-path tests/peers/Cargo.toml").run()?;
    }
    Ok(())
}

/// Runs all Rust tests: under nextest, where it is installed, those of all programs share the cores.
fn tests(sh: &Shell) -> Step<'_> {
    let about = "all Rust tests pass, those in the documentation too; the examples compile";
    let step = step("tests", about, &[CC, CXX, Need::Pip])
        .needs(&runtimes::TESTED.map(Need::Runtimes))
        // What tests start: examples that are tests too, and the C library, are not built with the tests.
        .command(cargo(sh, "build --workspace --lib --bins --examples"));
    if has_nextest(sh) {
        step.command(cargo(sh, "nextest run --workspace --no-fail-fast"))
            .check(check_ignored)
            .command(cargo(sh, "test --workspace --doc"))
    } else {
        step.command(cargo(sh, "test --workspace --no-fail-fast")).check(check_ignored)
    }
}

fn has_nextest(sh: &Shell) -> bool {
    cargo(sh, "nextest --version").quiet().ignore_stdout().ignore_stderr().run().is_ok()
}

/// Checks that only those tests are ignored that may be.
fn check_ignored(sh: &Shell) -> Result {
    let list = if has_nextest(sh) {
        cargo(sh, "nextest list --workspace --run-ignored only --message-format oneline")
    } else {
        cargo(
            sh,
            "test --workspace --lib --bins --tests --examples --quiet -- --list --ignored --format terse",
        )
    };
    let (listed, allowed) = (list.ignore_stderr().read()?, sh.read_file(IGNORED)?);
    let wrong = not_allowed(&listed, &allowed);
    // What no store in memory can do is ignored everywhere.
    if wrong.is_empty() && !listed.is_empty() {
        println!("{IGNORED} names every test that is ignored");
        return Ok(());
    }
    let wrong = wrong.into_iter().collect::<Vec<_>>().join("\n");
    Err(format!("these tests are ignored, and {IGNORED} does not name them:\n{wrong}").into())
}

/// Returns the listed tests that `allowed` does not name. Only nextest says which program a test is in.
fn not_allowed<'a>(listed: &'a str, allowed: &str) -> BTreeSet<&'a str> {
    let lines = allowed.lines().filter(|line| !line.starts_with('#'));
    let without_program = |line| str::split_once(line, ' ').map_or(line, |(_, test)| test);
    let allowed: BTreeSet<&str> = lines.flat_map(|line| [line, without_program(line)]).collect();
    let names = listed.lines().map(|line| line.strip_suffix(": test").unwrap_or(line));
    names.filter(|name| !name.is_empty() && !allowed.contains(name)).collect()
}

fn check_core(sh: &Shell) -> Result {
    match missing_promise(&sh.read_file("core/src/lib.rs")?) {
        Some(promise) => Err(format!("core/src/lib.rs does not say {promise}").into()),
        None => Ok(()),
    }
}

fn missing_promise(core: &str) -> Option<&'static str> {
    CORE_PROMISES.into_iter().find(|promise| !core.lines().any(|line| line == *promise))
}

fn check_files(sh: &Shell) -> Result {
    // The checkout may belong to another user than the one who runs the tests, as in a container.
    let tracked = cmd!(sh, "git -c safe.directory=* ls-files -z").quiet().read()?;
    for path in tracked.split_terminator('\0') {
        // A file that is tracked and not there was just removed.
        let size = sh.current_dir().join(path).symlink_metadata().map_or(0, |found| found.len());
        if size > MAX_FILE {
            return Err(format!("{path} has {size} bytes; at most {MAX_FILE} are tracked").into());
        }
    }
    Ok(())
}

/// Returns cargo with arguments that have no quotes.
fn cargo<'a>(sh: &'a Shell, arguments: &str) -> Cmd<'a> {
    cmd!(sh, "cargo").args(arguments.split_whitespace())
}

/// Returns the command that checks and lints what `selection` names.
fn clippy<'a>(sh: &'a Shell, selection: &str) -> Cmd<'a> {
    cargo(sh, "clippy").args(selection.split_whitespace()).args(["--", "-D", "warnings"])
}

/// Checks and lints `native/` with these features alone.
fn native<'a>(sh: &'a Shell, features: &str) -> Cmd<'a> {
    // Nothing is linked, so any folder will do. Named, it stops the build script of libsqlite3-sys, which would
    // otherwise ask the host for a library of the target.
    clippy(sh, &format!("--package warmstart --all-targets --no-default-features --features={features}"))
        .env("SQLITE3_LIB_DIR", ".")
}

fn doc<'a>(sh: &'a Shell, selection: &str) -> Cmd<'a> {
    cargo(sh, "doc --no-deps").args(selection.split_whitespace()).env("RUSTDOCFLAGS", "-D warnings")
}

fn step<'a>(name: &'static str, about: &'static str, needs: &[Need]) -> Step<'a> {
    Step { name, about, deep: false, needs: needs.to_vec(), work: Vec::new() }
}

impl<'a> Step<'a> {
    fn deep(mut self) -> Self {
        self.deep = true;
        self
    }

    fn needs(mut self, needs: &[Need]) -> Self {
        self.needs.extend(needs);
        self
    }

    fn command(self, command: Cmd<'a>) -> Self {
        self.commands([command])
    }

    fn commands(mut self, commands: impl IntoIterator<Item = Cmd<'a>>) -> Self {
        self.work.extend(commands.into_iter().map(Work::Command));
        self
    }

    fn check(mut self, check: fn(&Shell) -> Result) -> Self {
        self.work.push(Work::Check(check));
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn core_that_promises_only_sometimes_is_refused() {
        assert_eq!(missing_promise("#![no_std]\n#![forbid(unsafe_code)]\n"), None);
        assert_eq!(missing_promise("#![cfg_attr(not(test), no_std)]\n//! #![no_std]\n"), Some("#![no_std]"));
        assert_eq!(missing_promise("#![no_std]\n#![deny(unsafe_code)]\n"), Some("#![forbid(unsafe_code)]"));
    }

    #[test]
    fn ignored_tests_are_read_from_both_runners() {
        let allowed = "# needs root\nwarmstart-tests::stores files::full_disk\n\nplace::given_away\n";
        let nextest = "warmstart-tests::stores files::full_disk\nwarmstart-tests::packs files::full_disk\n";
        assert_eq!(not_allowed(nextest, allowed), ["warmstart-tests::packs files::full_disk"].into());
        let cargo = "files::full_disk: test\nplace::given_away: test\nlost: test\n";
        assert_eq!(not_allowed(cargo, allowed), ["lost"].into());
    }

    #[test]
    fn every_step_has_a_name_of_its_own() {
        let sh = Shell::new().unwrap();
        let names: Vec<&str> = all(&sh, true).iter().map(|step| step.name).collect();
        for (at, name) in names.iter().enumerate() {
            assert!(!names[..at].contains(name), "{name}");
        }
    }
}
