//! `bindgen MODULE FOLDER`: writes the JavaScript bindings of a wasm module, as the program `wasm-bindgen`
//! does with `--target web --omit-default-module-path`. It is part of the workspace so that `Cargo.lock` pins it to
//! the version of the crate.

use std::{env, path::PathBuf, process::ExitCode};

use wasm_bindgen_cli_support::Bindgen;

fn main() -> ExitCode {
    let paths: Vec<PathBuf> = env::args_os().skip(1).map(PathBuf::from).collect();
    let [module, folder] = &paths[..] else {
        eprintln!("usage: bindgen MODULE FOLDER");
        return ExitCode::FAILURE;
    };
    let mut bindgen = Bindgen::new();
    let written = bindgen
        .input_path(module)
        .web(true)
        .map(|bindgen| bindgen.typescript(true).omit_default_module_path(true))
        .and_then(|bindgen| bindgen.generate(folder));
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}: {error:#}", module.display());
            ExitCode::FAILURE
        }
    }
}
