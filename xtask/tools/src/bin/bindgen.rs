//! `bindgen MODULE FOLDER`: writes the JavaScript bindings of a wasm module, as the program `wasm-bindgen`
//! does with `--target web --omit-default-module-path`. It is part of the workspace so that `Cargo.lock` pins it to
//! the version of the crate.

use std::{env, error::Error, path::PathBuf};

use wasm_bindgen_cli_support::Bindgen;

fn main() -> Result<(), Box<dyn Error>> {
    let paths: Vec<PathBuf> = env::args_os().skip(1).map(PathBuf::from).collect();
    let [module, folder] = &paths[..] else { return Err("usage: bindgen MODULE FOLDER".into()) };
    let mut bindgen = Bindgen::new();
    bindgen.input_path(module).web(true)?.typescript(true).omit_default_module_path(true).generate(folder)?;
    Ok(())
}
