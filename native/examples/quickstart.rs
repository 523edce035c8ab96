//! Compiles a kernel at the first start and finds it at the next: run it twice.

use std::{env, error::Error, io, time::Instant};

use warmstart::{
    Cache, KeyFields,
    store::{FileStore, StoreOptions},
};

const SOURCE: &str = "kernel void scale(global float *x, float a) { x[get_global_id(0)] *= a; }";

fn main() -> Result<(), Box<dyn Error>> {
    let directory = env::temp_dir().join("warmstart-quickstart");
    let store = FileStore::open(&directory, StoreOptions::default().with_max_bytes(64 << 20))?;
    let cache = Cache::new(store);

    // All that the artifact depends on. Where one of these differs, it is another artifact.
    let fields = KeyFields::new("quickstart", 1)
        .text("source", SOURCE)
        .list("flags", ["-O3", "-ffast-math"])
        .text("compiler", "17.0.6");

    let started = Instant::now();
    let fetched = cache.get_or_build(&fields, || compile(SOURCE))?;
    println!(
        "{} bytes {} in {:.1?}",
        fetched.artifact().payload().len(),
        if fetched.is_hit() { "found" } else { "compiled" },
        started.elapsed()
    );
    Ok(())
}

/// Stands in for a compiler.
fn compile(source: &str) -> io::Result<Vec<u8>> {
    std::thread::sleep(std::time::Duration::from_millis(300));
    Ok(source.bytes().rev().collect())
}
