//! Deriving the key of a program against hashing the same bytes.

use warmstart::Key;
use warmstart_core::program::{
    CodeType, Compiler, Contents, Header, OptionName, Options, Program, Refusal, TargetType, Toolchain,
};

use super::{
    ARCH,
    peer::{self, Job, Peer, Task},
};
use crate::{
    Rows,
    measure::Plan,
    preimage::Preimage,
    row::{Compared, Row},
};
use warmstart_tests::runtimes;

/// Keys that the peer derives at once.
const CALLS: u32 = 200;

const BUILDS: [(&str, [u8; 20]); 2] = [("libnvrtc-builtins.so.13.5", [1; 20]), ("libnvrtc.so.13", [2; 20])];

/// The rows of sources of two lengths, each with its bound.
pub(super) fn rows(plan: &Plan) -> Rows {
    let mut rows = Vec::new();
    for (name, len, bound) in [("key/4KiB", 4 << 10, 1.5), ("key/1MiB", 1 << 20, 1.1)] {
        let line = "__device__ float f(float x) { return x * x; }\n";
        let source = &line.repeat(len / line.len() + 1)[..len];
        let preimage = preimage(source);
        let toolchain = toolchain();
        if key(source, &toolchain)? != Key::digest(preimage.as_bytes()) {
            return Err(format!("{name}: the floor does not hash the bytes of the key").into());
        }
        let compared = plan.compare(|_| key(source, &toolchain), |_| Key::digest(preimage.as_bytes()));
        rows.extend(compared.rows(name, "blake2b", bound));
        rows.extend(peers(name, plan, source, compared.subject_ns)?);
    }
    Ok(rows)
}

/// From the description, made anew, to the key.
fn key(source: &str, toolchain: &Toolchain) -> Result<Key, Refusal> {
    let options = Options::new()
        .with(OptionName::Arch, ARCH)
        .with(OptionName::Std, "c++17")
        .with(OptionName::UseFastMath, true);
    let headers = vec![Header { name: "include0/scale.cuh".into(), digest: [3; 32] }];
    let program = Program::new(CodeType::Cxx, TargetType::Cubin, source)
        .with_name("scale.cu")
        .with_options(options)
        .with_contents(Contents::none().with_headers(headers).with_search([4; 32]));
    Ok(program.fields(toolchain)?.key())
}

fn toolchain() -> Toolchain {
    let toolchain = Toolchain::found(Compiler::Nvrtc, "13.5");
    BUILDS.into_iter().fold(toolchain, |toolchain, (library, build)| toolchain.with_build(library, build))
}

/// The bytes that the key above is the digest of, as docs/format.md has them.
fn preimage(source: &str) -> Preimage {
    let preimage = Preimage::new("warmstart.cuda", 1)
        .raw("source", source.as_bytes())
        .text("code type", "c++")
        .text("target type", "cubin")
        .text("arch", ARCH)
        .list("options", &["--use_fast_math", "--std=c++17", "--no-source-include"])
        .text("name", "scale.cu")
        .text("compiler", "nvrtc")
        .text("compiler version", "13.5");
    BUILDS
        .iter()
        .fold(preimage, |preimage, (library, build)| {
            preimage.raw(&format!("compiler build {library}"), build)
        })
        .raw("header include0/scale.cuh", &[3; 32])
        .raw("header search", &[4; 32])
}

/// What the peer takes for a key of the same source. To inform: its key holds no headers and no build.
fn peers(name: &str, plan: &Plan, source: &str, ours_ns: f64) -> Rows {
    let Some(compilers) = runtimes::cuda_libraries() else { return Ok(Vec::new()) };
    let task = Task { code: source, arch: ARCH, path: None, job: Job::Key };
    let name = format!("{name}/{}", peer::NAME);
    let Some(mut peer) = Peer::start(&compilers, &task)? else {
        return Ok(vec![Row::missing(name, peer::MISSING)]);
    };
    let mut times = Vec::new();
    for _ in 0..if plan.is_quick() { 3 } else { 15 } {
        times.push(peer.call(CALLS)?.as_secs_f64() * 1e9);
    }
    let theirs = crate::measure::median(times);
    Ok(vec![Row::note(name, (ours_ns / theirs, "ratio"), peer::NAME)])
}
