//! The CPU target: random changes, and what a warm start costs.

use std::{
    fs,
    time::{Duration, Instant},
};

use warmstart::target::cpu::{CpuTarget, Kernel};
use warmstart_tests::cpu::{Memory, memory, restarted, run, target, targets, write};

/// Changes headers at random and compares what the cache gives with what the compiler makes of them now. Objects are the
/// same byte for byte, so that any difference is a wrong hit. `WARMSTART_ROUNDS` sets how many changes are made.
#[test]
fn what_is_found_is_always_what_the_compiler_would_make_now() {
    let rounds = std::env::var("WARMSTART_ROUNDS").map_or(30, |rounds| rounds.parse().unwrap());
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut random = move |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap() % below
    };
    for target in targets().into_iter().skip(1) {
        let (directory, cache) = (tempfile::tempdir().unwrap(), memory());
        let at = |name: &str| directory.path().join(name);
        for name in ["source", "first", "second"] {
            fs::create_dir_all(at(name)).unwrap();
        }
        let kernel = |text: &str| {
            let head = "#define CAT_(a, b) a##b\n#define CAT(a, b) CAT_(a, b)\n\
                        #define SAW(n) __attribute__((used)) static int CAT(saw, __COUNTER__) = n;\n";
            Kernel::new("f", format!("{head}{text}\nint f(void) {{ return 1; }}"))
                .source_dir(at("source"))
                .include_dir(at("first"))
                .include_dir(at("second"))
        };
        let kernels = [
            kernel("#if __has_include(\"a.h\")\n#include \"a.h\"\n#endif"),
            kernel("#include <a.h>\n#include <b.h>"),
            kernel("#define B <b.h>\n#include B\n#include \"sub/a.h\""),
            kernel("#include \"sub/../b.h\"\n#if __has_include(<sub/c.h>)\nSAW(77)\n#endif"),
        ];
        let (mut hits, mut objects) = (0, 0);
        for round in 0..rounds {
            let directory = ["source", "first", "second"][random(3)];
            let (level, name) =
                [(0, "a.h"), (1, "b.h"), (2, "c.h"), (0, "sub/a.h"), (2, "sub/c.h")][random(5)];
            let path = at(directory).join(name);
            if random(4) == 0 {
                let _ = fs::remove_file(path);
            } else {
                let below = ["b.h", "c.h", "sub/c.h", "../b.h", "../c.h"];
                let mut text = String::from(["", "#pragma once\n"][random(2)]);
                text += &format!("SAW({})\n", random(3));
                if level < 2 {
                    let next = if level == 1 { "c.h" } else { below[random(5)] };
                    text += &match random(4) {
                        0 => format!("#include \"{next}\"\n"),
                        1 => format!("#include <{next}>\n"),
                        2 => format!("#if __has_include(\"{next}\")\n#include \"{next}\"\n#endif\n"),
                        _ => format!("#if 0\n#include \"{next}\"\n#endif\n"),
                    };
                }
                if random(5) == 0 {
                    text += &format!("#if __has_include_next(<{name}>)\n#include_next <{name}>\n#endif\n");
                }
                write(path, &text);
            }
            let kernel = &kernels[random(kernels.len())];
            let cached = target.compile(&cache, kernel);
            let fresh = target.compile(&memory(), kernel);
            match (cached, fresh) {
                (Ok(cached), Ok(fresh)) => {
                    hits += usize::from(cached.is_hit());
                    objects += 1;
                    assert!(cached.artifact().payload() == fresh.artifact().payload(), "round {round}");
                }
                (Err(_), Err(_)) => {}
                (cached, fresh) => panic!("round {round}: {:?} {:?}", cached.is_ok(), fresh.is_ok()),
            }
        }
        println!("{objects} objects, {hits} hits");
    }
}

/// Not a benchmark, a guard: what a warm start costs is measured with `--release --nocapture`.
#[test]
fn a_warm_start_is_quick() {
    let (target, cache) = (target(), memory());
    let kernel = Kernel::new(
        "f",
        "#include <math.h>\n#include <stdint.h>\n#include <stddef.h>\nint f(void) { return 1; }",
    );
    let cold = Instant::now();
    let _ = run(&target, &cache, &kernel);
    let cold = cold.elapsed();
    let median = |mut times: Vec<Duration>| {
        times.sort();
        times[times.len() / 2]
    };
    let measure = |run: &dyn Fn()| {
        median(
            (0..51)
                .map(|_| {
                    let start = Instant::now();
                    run();
                    start.elapsed()
                })
                .collect(),
        )
    };
    let fresh = measure(&|| assert!(target_load(&restarted(&target), &cache, &kernel)));
    let compile = measure(&|| assert!(target.compile(&cache, &kernel).unwrap().is_hit()));
    let load = measure(&|| assert!(target_load(&target, &cache, &kernel)));
    println!("cold {cold:?}, warm: fresh process {fresh:?}, found {compile:?}, found and loaded {load:?}");
    assert!(load < cold / 4, "a warm start took {load:?}, a cold one {cold:?}");
}

fn target_load(target: &CpuTarget, cache: &Memory, kernel: &Kernel) -> bool {
    target.load(cache, kernel).unwrap().fetched().is_hit()
}
