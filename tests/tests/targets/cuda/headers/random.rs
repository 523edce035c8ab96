//! Random trees of headers.

use std::{fmt::Write as _, fs};

use super::{nvrtc::nvrtc, program::Program};

const DIRECTORIES: [&str; 7] = ["src", "src/s", "i0", "i0/s", "i1", "i1/s", "i0/i2"];
const NAMES: [&str; 4] = ["a.h", "b.h", "c.h", "d.h"];

struct Random(u64);

impl Random {
    fn below(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % below
    }

    fn of<'a>(&mut self, items: &[&'a str]) -> &'a str {
        items[self.below(items.len())]
    }

    /// A name, spelled in some way.
    fn name(&mut self) -> String {
        let prefix = self.of(&["", "", "", "", "", "", "s/", "../", "./", "s/../", "i2/"]);
        let name = format!("{prefix}{}", self.of(&NAMES));
        if self.below(2) == 0 { format!("\"{name}\"") } else { format!("<{name}>") }
    }

    /// A few lines of a text.
    fn lines(&mut self, text: &mut String) {
        for _ in 0..self.below(4) {
            let name = self.name();
            let saw = self.below(1000);
            let _ = match self.below(18) {
                // Where it is there, so that most programs compile.
                12..15 => writeln!(text, "#if __has_include({name})\n#include {name}\n#endif"),
                15 => writeln!(text, "#if _HAS_INCLUDE({name})\nSAW({saw})\n#endif"),
                16 => writeln!(text, "#if __has_include({name})\n#include_next {name}\n#endif"),
                0..2 => writeln!(text, "#include {name}"),
                4 => writeln!(text, "#if __has_include({name})\n#include {name}\nSAW({saw})\n#endif"),
                5 => writeln!(text, "#if 0\n#include {name}\n#endif"),
                6 => writeln!(text, "#include_next {name}"),
                7 => writeln!(text, "#undef HEADER\n#define HEADER {name}\n#if 0\n#include HEADER\n#endif"),
                8 => writeln!(text, "// \\\n#include {name}\n/*\n#include {name} */ SAW({saw})"),
                9 => writeln!(text, "SKIP(R\"(\n#include {name}\n)\")"),
                10 => writeln!(text, "#inc\\\nlude /*\n*/ {name}"),
                _ => writeln!(text, "SAW({saw})\nSAW(__LINE__)"),
            };
        }
    }

    fn text(&mut self, number: usize) -> String {
        let mut text = String::new();
        let guard = self.below(6);
        match guard {
            0 => text.push_str("#pragma once\n"),
            1..5 => {
                let _ = writeln!(text, "#ifndef GUARD{number}\n#define GUARD{number}");
            }
            _ => {}
        }
        let _ = writeln!(text, "SAW({number})");
        self.lines(&mut text);
        if (1..5).contains(&guard) {
            text.push_str("#endif\n");
        }
        text
    }
}

/// A difference is shown with its seed. `WARMSTART_ROUNDS` says how many programs there are.
#[test]
#[cfg_attr(not(has_cuda), ignore = "needs the CUDA compilers: cargo xtask runtimes --cuda")]
fn random_programs_compile_as_the_compiler_alone_compiles_them() {
    const HEAD: &str = "#define CAT_(a, b) a##b\n#define CAT(a, b) CAT_(a, b)\n#define SKIP(x)\n#define _HAS_INCLUDE(x) __has_include(x)\n\
                        #define SAW(n) __device__ int CAT(saw, __COUNTER__) = n;\n";

    let nvrtc = nvrtc();
    let rounds = std::env::var("WARMSTART_ROUNDS").map_or(100, |rounds| rounds.parse().unwrap());
    let first = std::env::var("WARMSTART_SEED").map_or(0, |seed| seed.parse().unwrap());
    let (mut compiled, mut refused, mut headers) = (0, 0, 0);
    for seed in first..first + rounds {
        let mut random = Random(seed);
        let directory = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(directory.path()).unwrap();
        let mut text = String::from("!! includes i0 i1 i0/i2\n");
        let mut number = 0;
        for directory in DIRECTORIES {
            text += &format!("!! directory {directory}\n");
            for name in NAMES {
                number += 1;
                match random.below(8) {
                    0..6 => text += &format!("== {directory}/{name}\n{}", random.text(number)),
                    6 if directory == "i1" => text += &format!("!! link ../src/{name} {directory}/{name}\n"),
                    7 if directory == "i1" => text += &format!("!! directory {directory}/{name}\n"),
                    _ => {}
                }
            }
        }
        text += &format!("== k.cu\n{HEAD}#define A 1\n");
        random.lines(&mut text);
        random.lines(&mut text);
        let program = Program::lay_out(&root, &text);
        let (plain, opened) = program.compile_plainly(nvrtc);
        let (closed, found) = match program.closed() {
            Ok(closed) => closed,
            Err(error) => {
                let words = ["included once", "from one file and not", "given a plain name"];
                assert!(words.iter().any(|word| error.to_string().contains(word)), "seed {seed}: {error}");
                refused += 1;
                continue;
            }
        };
        headers += found.headers.len();
        assert_eq!(program.found().unwrap(), found, "seed {seed}");
        let (ours, opened_by_ours) = program.compile_closed(nvrtc, &closed);
        assert!(opened_by_ours.is_empty(), "seed {seed}: {opened_by_ours:?}");
        let files = program.files(&found);
        match (plain, ours) {
            (Ok(plain), Ok(ours)) => {
                compiled += 1;
                assert!(plain == ours, "seed {seed}:\n{text}\n{closed:#?}");
                // Files that `__has_include` asks for are opened too. The head has two such directives that are no questions.
                let asks = text.to_lowercase().matches("has_include(").count() > 2;
                assert!(asks || opened.is_subset(&files), "seed {seed}: {opened:#?} {files:#?}");
            }
            (Err(_), Err(_)) => {}
            (plain, ours) => panic!("seed {seed}:\n{text}\n{plain:?}\n{ours:?}"),
        }
    }
    println!("{compiled} of {rounds} compiled, {refused} were refused, {headers} headers");
    assert!(compiled * 20 > rounds, "{compiled} of {rounds} compiled, {refused} were refused");
}
