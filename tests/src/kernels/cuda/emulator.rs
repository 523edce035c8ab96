//! Runs the kernels on the CPU: their sources, compiled as C++ against `emulator.hpp`. So the kernels, what
//! they are given and how they are checked is tested where there is no GPU.
#![allow(clippy::unwrap_used, reason = "every function here is part of a test")]

use std::{
    ffi::{CStr, c_char, c_void},
    fs,
    process::Command,
    slice,
};

use libloading::Library;

use super::{
    CASES, Case,
    device::{Argument, Device, Geometry},
    sources,
};

/// The order in which the threads of a block take turns.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Order {
    Forwards,
    Backwards,
}

/// A source that was compiled together with others.
struct Emulator<'a> {
    library: &'a Library,
    variant: usize,
    functions: &'static [&'static str],
    order: Order,
}

impl<'a> Emulator<'a> {
    const fn new(library: &'a Library, variant: usize, functions: &'static [&'static str]) -> Self {
        Self { library, variant, functions, order: Order::Forwards }
    }
}

/// Compiles sources of these cases, each in a namespace of its own: the compiler reads its own headers once.
fn compile<'a>(variants: impl IntoIterator<Item = (&'a Case, String)>) -> Library {
    let directory = tempfile::tempdir().unwrap();
    let (file, library) = (directory.path().join("kernels.cpp"), directory.path().join("kernels.so"));
    let mut text = "#include \"emulator.hpp\"\n#include \"warp.cuh\"\n".to_owned();
    for (variant, (case, source)) in variants.into_iter().enumerate() {
        // Functions of C are one, whatever namespace they are in.
        text += &format!("namespace variant_{variant} {{\n{}\n", source.replace("extern \"C\" ", ""));
        for (number, function) in case.functions.iter().enumerate() {
            text += &format!("EMULATED(run_{variant}_{number}, {function})\n");
        }
        text += "}\n";
    }
    fs::write(&file, text).unwrap();
    let output = Command::new("c++")
        .args(["-std=c++20", "-O1", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared"])
        .args(["-fvisibility=hidden", "-ffp-contract=off", "-I"])
        .arg(sources())
        .arg("-I")
        .arg(sources().join("include"))
        .arg(&file)
        .arg("-o")
        .arg(&library)
        .output()
        .expect("a C++ compiler is installed as c++");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // SAFETY: it has no initialisers but those of the C++ library's containers.
    unsafe { Library::new(&library) }.unwrap()
}

/// The check of a case, with the threads in one order and then in the other.
fn check(library: &Library, variant: usize, case: &Case) -> Result<(), String> {
    for order in [Order::Forwards, Order::Backwards] {
        let emulator = Emulator { order, ..Emulator::new(library, variant, case.functions) };
        (case.check)(&emulator).map_err(|problem| format!("{}, {order:?}: {problem}", case.name))?;
    }
    Ok(())
}

/// `emulator::Argument`.
#[repr(C)]
struct Passed {
    kind: i32,
    element_size: u32,
    value: *mut c_void,
}

type Run = unsafe extern "C" fn(*const u32, *const Passed, usize, bool) -> *const c_char;

impl Device for Emulator<'_> {
    fn launch(
        &self,
        function: &str,
        geometry: Geometry,
        arguments: &mut [Argument<'_>],
    ) -> Result<(), String> {
        let number = self
            .functions
            .iter()
            .position(|known| *known == function)
            .ok_or_else(|| format!("there is no {function}"))?;
        let mut memories: Vec<Memory> = arguments.iter().map(Memory::new).collect();
        let passed: Vec<Passed> = memories.iter_mut().map(Memory::passed).collect();

        let Geometry { grid, block } = geometry;
        let sizes = [grid.0, grid.1, grid.2, block.0, block.1, block.2];
        // SAFETY: every library has a run_N of this type for each function.
        let run = unsafe { self.library.get::<Run>(format!("run_{}_{number}", self.variant)) }
            .map_err(|error| error.to_string())?;
        // SAFETY: there are six sizes, and as many arguments as said; the emulator compares their types with
        // the kernel's. Kernels that go beyond an array by less than a guard are found; those that go further
        // may crash this test.
        let failure =
            unsafe { run(sizes.as_ptr(), passed.as_ptr(), passed.len(), self.order == Order::Backwards) };
        if !failure.is_null() {
            // SAFETY: it is a text of the library, which lives until the next launch.
            let failure = unsafe { CStr::from_ptr(failure) };
            return Err(format!("{function}: {}", failure.to_string_lossy()));
        }
        for (memory, argument) in memories.iter().zip(arguments) {
            memory.take(argument).map_err(|problem| format!("{function}: {problem}"))?;
        }
        Ok(())
    }
}

/// An argument as the kernel gets it: a scalar, or the address of an array between two guards of
/// not-a-numbers.
struct Memory {
    kind: i32,
    element_size: usize,
    /// In words, so that it is aligned.
    words: Vec<u64>,
    len: usize,
    value: u64,
}

/// More than a row of any input.
const GUARD_WORDS: usize = 4096;
const GUARD: usize = GUARD_WORDS * size_of::<u64>();

impl Memory {
    fn new(argument: &Argument<'_>) -> Self {
        let (kind, element_size, bytes, value) = match argument {
            Argument::Input(array) => (0, array.element_size(), array.to_bytes(), 0),
            Argument::Output(array) => (1, array.element_size(), array.to_bytes(), 0),
            Argument::Count(count) => (2, 0, Vec::new(), u64::from(*count)),
            Argument::Number(number) => (3, 0, Vec::new(), u64::from(number.to_bits())),
        };
        let words = vec![u64::MAX; bytes.len().div_ceil(size_of::<u64>()) + 2 * GUARD_WORDS];
        let mut memory = Self { kind, element_size, words, len: bytes.len(), value };
        memory.bytes_mut()[GUARD..][..bytes.len()].copy_from_slice(&bytes);
        memory
    }

    fn passed(&mut self) -> Passed {
        if self.kind < 2 {
            self.value = self.bytes_mut()[GUARD..].as_mut_ptr().addr() as u64;
        }
        let element_size = u32::try_from(self.element_size).unwrap();
        Passed { kind: self.kind, element_size, value: (&raw mut self.value).cast() }
    }

    /// Fills an output, and says if anything else was written.
    fn take(&self, argument: &mut Argument<'_>) -> Result<(), String> {
        let (before, rest) = self.bytes().split_at(GUARD);
        let (array, after) = rest.split_at(self.len);
        if before.iter().chain(after).any(|byte| *byte != 0xff) {
            return Err("it wrote beyond an array".to_owned());
        }
        match argument {
            Argument::Output(output) => output.fill(array),
            Argument::Input(input) if input.to_bytes() != array => {
                return Err("it wrote to an input".to_owned());
            }
            _ => {}
        }
        Ok(())
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: words are bytes, too, as many as this.
        unsafe { slice::from_raw_parts(self.words.as_ptr().cast(), size_of_val(&*self.words)) }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: words are bytes, too, as many as this, and any bytes are words.
        unsafe { slice::from_raw_parts_mut(self.words.as_mut_ptr().cast(), size_of_val(&*self.words)) }
    }
}

/// The case's source, with the header in it that has barriers.
fn source(case: &Case) -> String {
    let header = fs::read_to_string(sources().join("include/reduce.cuh")).unwrap();
    let header = header.replace("#pragma once", "").replace("#include \"warp.cuh\"", "");
    fs::read_to_string(case.path(sources())).unwrap().replace("#include \"reduce.cuh\"", &header)
}

#[test]
fn every_kernel_gives_what_the_reference_gives() {
    let library = compile(CASES.iter().map(|case| (case, source(case))));
    for (variant, case) in CASES.iter().enumerate() {
        assert_eq!(check(&library, variant, case), Ok(()));
    }
}

#[test]
fn a_barrier_that_is_missing_is_found() {
    const BARRIER: &str = "__syncthreads();";
    // These reduce once, or by two operations that have their arrays each, and so need the first barrier of
    // two only where another kernel includes the header.
    let is_needless = |case: &Case, n| case.has_header && n == 0 && case.name != "layer_norm";

    let mut broken = Vec::new();
    for case in CASES {
        let source = source(case);
        for (n, (at, _)) in source.match_indices(BARRIER).enumerate() {
            let without = [&source[..at], &source[at + BARRIER.len()..]].concat();
            broken.push((case, n, without));
        }
    }
    assert!(broken.len() > CASES.len());
    let library = compile(broken.iter().map(|(case, _, source)| (*case, source.clone())));
    for (variant, (case, n, _)) in broken.iter().enumerate() {
        let result = check(&library, variant, case);
        assert_eq!(result.is_ok(), is_needless(case, *n), "{}, barrier {n}: {result:?}", case.name);
    }
}

/// A kernel of one function, `f`.
fn compile_one(source: &str) -> Library {
    let case = Case { name: "f", functions: &["f"], has_header: false, check: |_| Ok(()) };
    compile([(&case, source.to_owned())])
}

#[test]
fn arguments_that_are_not_the_kernels_parameters_are_refused() {
    let library =
        compile_one("__global__ void f(const float* x, float* y, unsigned n) { y[0] = x[0] + n; }\n");
    let emulator = Emulator::new(&library, 0, &["f"]);
    let (x, doubles, mut y, mut z) = (vec![1.0_f32], vec![1.0_f64], vec![0.0_f32], vec![0.0_f32]);
    let one = Geometry::row(1, 1);
    let launch = |arguments: &mut [Argument<'_>]| emulator.launch("f", one, arguments).is_ok();

    assert!(launch(&mut [Argument::Input(&x), Argument::Output(&mut y), Argument::Count(2)]));
    assert!(!launch(&mut [Argument::Input(&x), Argument::Output(&mut y), Argument::Number(2.0)]));
    assert!(!launch(&mut [Argument::Input(&doubles), Argument::Output(&mut y), Argument::Count(2)]));
    assert!(!launch(&mut [Argument::Output(&mut z), Argument::Output(&mut y), Argument::Count(2)]));
    assert!(!launch(&mut [Argument::Input(&x), Argument::Input(&x), Argument::Count(2)]));
    assert!(!launch(&mut [Argument::Input(&x), Argument::Output(&mut y)]));
    assert_eq!(y, [3.0]);
    assert!(emulator.launch("f", Geometry::row(0, 1), &mut []).is_err());
    assert!(emulator.launch("g", one, &mut []).is_err());
}

#[test]
fn a_kernel_that_writes_or_reads_beyond_an_array_is_found() {
    let library = compile_one("__global__ void f(float* x, unsigned n) { x[int(n)] = 1.0f; }\n");
    let write = Emulator::new(&library, 0, &["f"]);
    for (at, is_right) in [(0, true), (2, true), (3, false), (u32::MAX, false)] {
        let mut x = vec![0.0_f32; 3];
        let arguments = &mut [Argument::Output(&mut x), Argument::Count(at)];
        let result = write.launch("f", Geometry::row(1, 1), arguments);
        assert_eq!(result.is_ok(), is_right, "{at}: {result:?}");
    }

    let library = compile_one("__global__ void f(const float* x, float* y, unsigned n) { y[0] = x[n]; }\n");
    let read = Emulator::new(&library, 0, &["f"]);
    let (x, mut y) = (vec![1.0_f32; 3], vec![0.0_f32]);
    let arguments = &mut [Argument::Input(&x), Argument::Output(&mut y), Argument::Count(3)];
    read.launch("f", Geometry::row(1, 1), arguments).unwrap();
    assert!(y[0].is_nan());
}

#[test]
fn shared_memory_begins_as_not_a_number() {
    let library = compile_one(
        "__global__ void f(float* y) { __shared__ float s[2]; y[blockIdx.x] = s[1]; s[1] = 1.0f; }\n",
    );
    let emulator = Emulator::new(&library, 0, &["f"]);
    let mut y = vec![0.0_f32; 2];
    emulator.launch("f", Geometry::row(2, 1), &mut [Argument::Output(&mut y)]).unwrap();
    assert!(y[0].is_nan() && y[1].is_nan(), "{y:?}");
}

#[test]
fn a_barrier_that_not_all_threads_come_to_is_found() {
    let library = compile_one("__global__ void f() { if (threadIdx.x > 0) __syncthreads(); }\n");
    let emulator = Emulator::new(&library, 0, &["f"]);
    assert!(emulator.launch("f", Geometry::row(1, 2), &mut []).is_err());
    assert!(emulator.launch("f", Geometry::row(1, 1), &mut []).is_ok());
}
