//! The steps, cheap ones first.

use std::collections::BTreeSet;

use xshell::{Cmd, Shell, cmd};

use super::{Step, Work};
use crate::{
    Result, capi, fuzz,
    needs::{self, Need},
    runtimes,
};

/// The browser's crate, with the profile of the npm package, so that its build scripts are compiled only once.
const WASM_PACKAGE: &str = "--package warmstart-wasm --target wasm32-unknown-unknown --profile wasm";

/// The target of browsers.
const WASM: &str = "wasm32-unknown-unknown";

/// Targets without an operating system, and that of browsers.
const CORE_TARGETS: [&str; 2] = ["thumbv7em-none-eabihf", WASM];

/// Platforms that are only type-checked, unless the tests run on one of them.
const PLATFORMS: [&str; 3] = ["x86_64-pc-windows-gnu", "aarch64-apple-darwin", "aarch64-unknown-linux-gnu"];

/// All features of `native/`, the C library, the command and the examples. The system's SQLite replaces the bundled one,
/// which differs only in C code.
const ALL: &str = "cpu,cuda,launch,packs,sqlite --package warmstart-capi --package warmstart-cli --package warmstart-examples";

/// The package that is no default member, because of its many dependencies, and what has it as an option.
const REMOTE: &str = "--package warmstart-remote --package warmstart-cli --package warmstart-tests --all-targets \
                      --features warmstart-cli/remote,warmstart-tests/remote";
const REMOTE_TESTS: &str = "test -p warmstart-remote -p warmstart-cli --features warmstart-cli/remote";

/// The crates that are published.
const PACKAGE: &str = "package --allow-dirty -pwarmstart-core -pwarmstart -pwarmstart-remote -pwarmstart-cli";

/// Makes cargo unpack these crates: what it unpacked of the same version for an earlier run, it would verify again.
const FORGET: &str = r#"rm -rf "${CARGO_HOME:-$HOME/.cargo}"/registry/src/-*/warmstart-*"#;

/// The separate workspaces.
const SEPARATE: [&str; 2] = ["tests/fuzz/Cargo.toml", "tests/peers/Cargo.toml"];

/// The arguments of clippy for a separate workspace.
const APART: &str = "--locked --target-dir target --all-targets --manifest-path";

/// The largest file that the repository tracks, in bytes.
const MAX_FILE: u64 = 1 << 20;

/// The attributes that the core promises.
const CORE_PROMISES: [&str; 2] = ["#![no_std]", "#![forbid(unsafe_code)]"];

/// The longest name of a function, in bytes.
const MAX_NAME: usize = 60;

/// The list of tests that may be ignored on a Debian machine, with what they need.
const IGNORED: &str = "tests/ignored.txt";

/// Other flags compile everything again: in a separate folder, so that the other steps keep their builds.
const LOOM: [&str; 6] =
    ["--no-default-features", "--features", "launch", "--target-dir", "target/loom", "loom"];

/// Miri interprets any target on any host; this one is big-endian. The decoders run there: one run shows both that they
/// are sound and that they do not depend on the byte order.
const MIRI_CORE: &str = "cargo +nightly miri test --package warmstart-core --target s390x-unknown-linux-gnu --lib -- \
                         artifact:: envelope:: head:: journal:: launch_record:: miss:: recipe:: seal:: \
                         statistics:: trailer::";

/// The shared launch memo, with the real pointers that loom replaces.
const MIRI_LAUNCH: &str = "cargo +nightly miri test --package warmstart --no-default-features --features launch --lib \
                           --target-dir target/miri-launch -- memo:: registry::";

/// The fleet of 10,000 simulated machines. The quick tests have a small one.
const SIMULATION: &str = "test --release --package warmstart-tests --no-default-features --test simulation";

/// The damage that is done to the caches of programs in Python. `cargo xtask bench damage` does more.
const DAMAGE: [&str; 5] = ["tests/python/damage.py", "--ours", "--flips=10", "--truncations=5", "--kills=5"];

/// The checks of cargo-deny.
const DENY: [&str; 5] = ["--offline", "check", "licenses", "bans", "sources"];

const CLIPPY: Need = Need::Component("clippy");
const CC: Need = Need::Program { name: "cc", debian: "gcc libc6-dev" };
const CXX: Need = Need::Program { name: "c++", debian: "g++" };
const VALGRIND: Need = Need::Program { name: "valgrind", debian: "valgrind" };
const RUSTUP: Need = Need::Program { name: "rustup", debian: "rustup" };
const GIT: Need = Need::Program { name: "git", debian: "git" };

/// Returns all steps in order. With `deep`, some do more.
pub(super) fn all(sh: &Shell, deep: bool) -> Vec<Step<'_>> {
    vec![
        step("hygiene", "tracked files are small; the core says no_std and forbids unsafe code", &[GIT])
            .check(check_core)
            .check(check_files),
        step("words", "no word is banned or misspelt, no name too long", &[GIT, Need::Pip])
            .needs(&[Need::Runtimes("words")])
            .check(check_words)
            .check(check_names),
        step("fmt", "all sources are formatted", &[RUSTUP, Need::Component("rustfmt")])
            .command(cargo(sh, "fmt --all --check"))
            .commands(SEPARATE.map(|path| cargo(sh, "fmt --check").args(["--manifest-path", path]))),
        step("clippy", "no lint fires", &[CLIPPY, CC, Need::Target(WASM)])
            .command(clippy(sh, "--all-targets"))
            .command(clippy(sh, WASM_PACKAGE)),
        step("header", "the C header matches the sources", &[]).check(capi::check_header),
        tests(sh).commands(deep.then(|| cargo(sh, SIMULATION))),
        step("path", "a hit, a save and a hit of a CUDA binary go through few files", &[CC, VALGRIND])
            .needs(&runtimes::TESTED.map(Need::Runtimes))
            .deep()
            .command(cargo(sh, "test --test call_path -- --ignored")),
        step("web", "the npm package is small, and passes its tests in Chromium", &[Need::Pip])
            .needs(&[Need::Node, Need::Target(WASM), needs::CHROMIUM])
            .command(cargo(sh, "xtask web").args(deep.then_some("--deep"))),
        step("firefox", "the npm package passes its suites in Firefox", &[Need::Pip])
            .needs(&[Need::Node, Need::Target(WASM), Need::Browser("firefox-esr")])
            .deep()
            .command(cargo(sh, "xtask web -- --mode firefox")),
        step("docs", "the documentation builds without warnings", &[Need::Target(WASM)])
            // The browser's crates are empty on other targets.
            .commands(["", WASM_PACKAGE].map(|selection| doc(sh, selection))),
        step("features", "each feature compiles without the others", &[CLIPPY])
            .commands(["", "cpu", "cuda", "launch", "packs", "sqlite"].map(|feature| native(sh, feature))),
        step("core", "the core builds without a standard library, and for browsers", &[])
            .needs(&CORE_TARGETS.map(Need::Target))
            .commands(CORE_TARGETS.map(|target| cargo(sh, "check -p warmstart-core --target").arg(target))),
        step("platforms", "Windows, macOS and 64-bit Arm type-check", &[CLIPPY])
            .needs(&PLATFORMS.map(Need::Target))
            .commands(PLATFORMS.map(|target| native(sh, &format!("{ALL} --target {target}")))),
        step("lints", "no lint fires in the tools, the fuzz targets and the benchmark of the peers", &[CXX])
            .deep()
            .command(clippy(sh, "--package warmstart-tools --profile tool --all-features --bins"))
            .commands(SEPARATE.map(|path| clippy(sh, &format!("{APART} {path}")))),
        step("remote", "the remote store passes its tests against Redis, S3 and nginx", &[CLIPPY])
            .needs(&[Need::Pip, Need::Runtimes("engines")])
            .deep()
            .command(clippy(sh, REMOTE))
            .command(doc(sh, "--package warmstart-remote"))
            .command(cargo(sh, REMOTE_TESTS))
            .command(cargo(sh, "run --package warmstart-remote --example fleet -- --json")),
        step("python", "the wheel is small, and passes its tests on each Python", &[CLIPPY, CC, Need::Pip])
            .deep()
            .command(clippy(sh, "--package warmstart-python"))
            .command(cmd!(sh, "bash python/check.sh"))
            .command(cmd!(sh, "bash python/check.sh").args(DAMAGE)),
        step("deny", "licences, duplicates and sources of the dependencies are as deny.toml allows", &[])
            .needs(&[Need::Tool { name: "cargo-deny", version: "0.20.2" }])
            .deep()
            .command(needs::tool(sh, "cargo-deny").args(DENY)),
        step("package", "the crates that are published build from their packages", &[])
            .deep()
            .command(cmd!(sh, "sh -c").arg(FORGET))
            .command(cargo(sh, PACKAGE)),
        step("loom", "the shared launch memo is correct under every interleaving", &[])
            .deep()
            .command(cargo(sh, "test --package warmstart --lib").args(LOOM).env("RUSTFLAGS", "--cfg loom")),
        step("miri", "the decoders and the shared launch memo have no undefined behaviour", &[])
            .needs(&[Need::Nightly(&["miri", "rust-src"])])
            .deep()
            .command(at_once(sh, MIRI_CORE, MIRI_LAUNCH)),
        step("fuzz", "no fuzz target finds anything in 20 seconds", &fuzz::NEEDS)
            .deep()
            .command(cargo(sh, "xtask fuzz 20")),
    ]
}

/// Downloads the dependencies of all workspaces, so that no step waits for them.
pub(super) fn fetch(sh: &Shell, deep: bool) -> Result {
    cargo(sh, "fetch --locked").run()?;
    let mut separate = SEPARATE.iter().filter(|_| deep);
    Ok(separate.try_for_each(|path| cargo(sh, "fetch --locked --manifest-path").arg(path).run())?)
}

/// Runs all Rust tests, with nextest if it is installed, which runs several test programs at a time.
fn tests(sh: &Shell) -> Step<'_> {
    let step =
        step("tests", "all Rust tests pass, documentation too; examples compile", &[CC, CXX, Need::Pip])
            .needs(&runtimes::TESTED.map(Need::Runtimes))
            // Tests start the examples and use the C library, which are not built with the tests.
            .command(cargo(sh, "build --lib --bins --examples"));
    if has_nextest(sh) {
        step.command(cargo(sh, "nextest run --no-fail-fast"))
            .check(check_ignored)
            .command(cargo(sh, "test --doc"))
    } else {
        step.command(cargo(sh, "test --no-fail-fast")).check(check_ignored)
    }
}

fn has_nextest(sh: &Shell) -> bool {
    cargo(sh, "nextest --version").quiet().ignore_stdout().ignore_stderr().run().is_ok()
}

/// Checks that only listed tests are ignored.
fn check_ignored(sh: &Shell) -> Result {
    let list = if has_nextest(sh) {
        cargo(sh, "nextest list --run-ignored only --message-format oneline")
    } else {
        cargo(sh, "test --all-targets --quiet -- --list --ignored --format terse")
    };
    let (listed, allowed) = (list.ignore_stderr().read()?, sh.read_file(IGNORED)?);
    let wrong = not_allowed(&listed, &allowed);
    // Tests that no store in memory can pass are ignored everywhere.
    if wrong.is_empty() && !listed.is_empty() {
        println!("{IGNORED} names every test that is ignored");
        return Ok(());
    }
    let wrong = wrong.into_iter().collect::<Vec<_>>().join("\n");
    Err(format!("these tests are ignored, and {IGNORED} does not name them:\n{wrong}").into())
}

/// Returns the listed tests that `allowed` does not name. Only nextest reports the program of a test.
fn not_allowed<'a>(listed: &'a str, allowed: &str) -> BTreeSet<&'a str> {
    let lines = allowed.lines().filter(|line| !line.starts_with('#'));
    let without_program = |line| str::split_once(line, ' ').map_or(line, |(_, test)| test);
    let allowed: BTreeSet<&str> = lines.flat_map(|line| [line, without_program(line)]).collect();
    let names = listed.lines().map(|line| line.strip_suffix(": test").unwrap_or(line));
    names.filter(|name| !name.is_empty() && !allowed.contains(name)).collect()
}

fn check_core(sh: &Shell) -> Result {
    let missing = missing_promise(&sh.read_file("core/src/lib.rs")?);
    missing.map_or(Ok(()), |promise| Err(format!("core/src/lib.rs does not say {promise}").into()))
}

fn missing_promise(core: &str) -> Option<&'static str> {
    CORE_PROMISES.into_iter().find(|promise| !core.lines().any(|line| line == *promise))
}

fn check_files(sh: &Shell) -> Result {
    for path in tracked(sh)? {
        let size = sh.current_dir().join(&path).symlink_metadata()?.len();
        if size > MAX_FILE {
            return Err(format!("{path} has {size} bytes; at most {MAX_FILE} are tracked").into());
        }
    }
    Ok(())
}

/// Runs codespell with its own dictionary and the banned words.
fn check_words(sh: &Shell) -> Result {
    let files = tracked(sh)?;
    let codespell = cmd!(sh, "python3 -m codespell_lib -D - -D xtask/words.txt {files...}").quiet();
    let ended = codespell.env("PYTHONPATH", "target/runtimes/python").run();
    // The command names every file.
    ended.map_err(|_| "codespell has reported words; .codespellrc lists exceptions".into())
}

fn check_names(sh: &Shell) -> Result {
    let mut long = String::new();
    for path in tracked(sh)?.iter().filter(|path| path.ends_with(".rs")) {
        let text = sh.read_file(path)?;
        text.lines().filter_map(long_name).for_each(|name| long += &format!("\n{path}: {name}"));
    }
    if long.is_empty() { Ok(()) } else { Err(format!("shorten to {MAX_NAME} characters:{long}").into()) }
}

/// Returns the name of the function that begins on this line, if it is too long.
fn long_name(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once("fn ")?;
    rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().filter(|name| name.len() > MAX_NAME)
}

/// Returns the tracked files. A tracked file that does not exist was just removed.
fn tracked(sh: &Shell) -> Result<Vec<String>> {
    // In a container, the checkout may belong to another user than the one that runs the tests.
    let listed = cmd!(sh, "git -c safe.directory=* ls-files -z -- .").quiet().read()?;
    let exists = |path: &&str| sh.current_dir().join(path).symlink_metadata().is_ok();
    Ok(listed.split_terminator('\0').filter(exists).map(str::to_owned).collect())
}

/// Returns cargo with arguments that have no quotes.
fn cargo<'a>(sh: &'a Shell, arguments: &str) -> Cmd<'a> {
    cmd!(sh, "cargo").args(arguments.split_whitespace())
}

/// Returns the command that checks and lints `selection`.
fn clippy<'a>(sh: &'a Shell, selection: &str) -> Cmd<'a> {
    cargo(sh, "clippy").args(selection.split_whitespace()).args(["--", "-D", "warnings"])
}

/// Checks and lints `native/` with these features alone.
fn native<'a>(sh: &'a Shell, features: &str) -> Cmd<'a> {
    // Nothing is linked, so any folder works. Setting one keeps the build script of libsqlite3-sys from searching the
    // host for a library of the target.
    clippy(sh, &format!("--package warmstart --all-targets --no-default-features --features={features}"))
        .env("SQLITE3_LIB_DIR", ".")
}

/// Returns the command that runs two lines of a shell in parallel, and passes if both do.
fn at_once<'a>(sh: &'a Shell, one: &str, other: &str) -> Cmd<'a> {
    cmd!(sh, "sh -c").arg(format!("{one} & one=$!; {other}; other=$?; wait $one && exit $other"))
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
    fn name_of_more_than_60_characters_is_reported() {
        let (fits, long) = ("n".repeat(60), "n".repeat(61));
        assert_eq!(long_name(&format!("    fn {fits}() {{")), None);
        assert_eq!(long_name(&format!("pub(super) fn {long}<H: Harness>() {{")), Some(&*long));
        assert_eq!(long_name("const NUMBER: u32 = 1;"), None);
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
    fn commands_at_once_pass_if_both_do() {
        let sh = Shell::new().unwrap();
        let pass = |one, other| at_once(&sh, one, other).run().is_ok();
        assert!(pass("true", "true"));
        assert!(!pass("true", "false") && !pass("false", "true"));
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
