//! Deriving the key of a program against hashing the same bytes.

use warmstart::Key;
use warmstart_core::program::{
    CodeType, Contents, Description, FoundHeaders, OptionName, Refusal, TargetType, Toolchain,
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

/// Describes the kernel and derives its key.
fn key(source: &str, toolchain: &Toolchain) -> Result<Key, Refusal> {
    let mut program = Description::new(CodeType::Cxx, TargetType::Cubin, source.as_bytes());
    program.name = "scale.cu".into();
    program.options.set(OptionName::Arch, ARCH);
    program.options.set(OptionName::Std, "c++17");
    program.options.set(OptionName::UseFastMath, true);
    let headers = vec![("include0/scale.cuh".into(), [3; 32])];
    let headers = Some(FoundHeaders { headers, search: [4; 32] });
    let contents = Contents { headers, ..Contents::default() };
    Ok(program.prepare(&contents, toolchain)?.0.key())
}

fn toolchain() -> Toolchain {
    let builds = BUILDS.into_iter().map(|(library, build)| (library.into(), build.into())).collect();
    Toolchain { version: "13.5".into(), builds, ..Toolchain::default() }
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

/// The peer's key of the same source, for information: it covers no headers and no build of the compiler.
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
