//! The kernels: what is compiled, which functions are in it, and how they are checked.

use std::{
    io,
    path::{Path, PathBuf},
};

use warmstart::target::cuda::Program;

mod checks;
pub mod device;
#[cfg(all(test, target_os = "linux"))]
mod emulator;

/// `Err` says what is wrong with the kernel.
pub type Checked = Result<(), String>;
use device::Device;

/// A source file with a kernel, or with a few that belong together.
pub struct Case {
    /// The file `cuda/NAME.cu`.
    pub name: &'static str,
    /// The functions that are launched, as they are written in C++. An instance of a template is a name
    /// expression.
    pub functions: &'static [&'static str],
    /// Whether it includes the header of the example, which a phase edits.
    pub has_header: bool,
    /// Launches every function and compares what it gives with the reference.
    pub check: fn(&dyn Device) -> Checked,
}

impl Case {
    const fn new(
        name: &'static str,
        functions: &'static [&'static str],
        check: fn(&dyn Device) -> Checked,
    ) -> Self {
        Self { name, functions, has_header: false, check }
    }

    const fn with_header(self) -> Self {
        Self { has_header: true, ..self }
    }

    /// The program's description, as a runtime would write it.
    ///
    /// # Errors
    /// The source cannot be read.
    pub fn describe(&self, sources: &Path, architecture: &str) -> io::Result<Program> {
        let program =
            Program::open(self.path(sources))?.include_dir(sources.join("include")).arch(architecture);
        Ok(self.expressions().fold(program, Program::name_expression))
    }

    /// The path of the source.
    pub fn path(&self, sources: &Path) -> PathBuf {
        sources.join("cuda").join(self.name).with_extension("cu")
    }

    /// The functions whose name in the binary is the compiler's choice.
    pub fn expressions(&self) -> impl Iterator<Item = &'static str> {
        self.functions.iter().copied().filter(|function| function.contains('<'))
    }
}

/// The folder of the committed sources.
pub fn sources() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src/kernels/cuda"))
}

/// The header that a phase edits, below the sources. The kernels include one that includes it.
pub const HEADER: &str = "include/warp.cuh";

/// Every kernel.
pub const CASES: &[Case] = &[
    Case::new("matmul", &["matmul<16, float>", "matmul<32, float>", "matmul<16, double>"], checks::matmuls),
    Case::new("attention", &["attention<64, false>", "attention<64, true>"], checks::attentions),
    Case::new("softmax", &["softmax"], checks::softmax).with_header(),
    Case::new("layer_norm", &["layer_norm"], checks::layer_norm).with_header(),
    Case::new("rms_norm", &["add_rms_norm"], checks::add_rms_norm).with_header(),
    Case::new("row_sum", &["row_sum"], checks::row_sum).with_header(),
    Case::new("rope", &["rope"], checks::rope),
    Case::new("activation", &["activate<Gelu>", "activate<Silu>"], checks::activations),
    Case::new("quantise", &["quantise", "dequantise"], checks::quantise),
    Case::new("transpose", &["transpose"], checks::transpose),
    Case::new("conv2d", &["conv2d<3>", "conv2d<5>"], checks::convolutions),
    Case::new("histogram", &["histogram", "prefix_sum"], checks::histogram),
];

/// Returns the number of kernels that include the header.
pub fn with_header() -> usize {
    CASES.iter().filter(|case| case.has_header).count()
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs};

    use super::*;

    #[test]
    fn four_of_twelve_kernels_include_the_header() {
        assert_eq!((CASES.len(), with_header()), (12, 4));
        for case in CASES {
            let source = fs::read_to_string(case.path(sources())).unwrap();
            assert_eq!(source.contains("#include \"reduce.cuh\""), case.has_header, "{}", case.name);
        }
        let between = fs::read_to_string(sources().join("include/reduce.cuh")).unwrap();
        assert!(between.contains("#include \"warp.cuh\""));
        assert!(sources().join(HEADER).exists());
    }

    #[test]
    fn every_source_is_a_case_and_every_kernel_in_it_is_launched() {
        let files: BTreeSet<String> = fs::read_dir(sources().join("cuda"))
            .unwrap()
            .map(|file| file.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned())
            .collect();
        assert_eq!(files, CASES.iter().map(|case| case.name.to_owned()).collect());
        for case in CASES {
            let source = fs::read_to_string(case.path(sources())).unwrap();
            let names: BTreeSet<&str> =
                case.functions.iter().filter_map(|function| function.split('<').next()).collect();
            assert_eq!(source.matches("__global__ void ").count(), names.len(), "{}", case.name);
        }
    }
}
