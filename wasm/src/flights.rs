//! Single flight within a tab.

use alloc::string::String;

use wasm_bindgen::prelude::wasm_bindgen;

use warmstart_core::flight::{self, Role, Worker};

/// Who builds what, and who waits for it.
#[wasm_bindgen]
#[derive(Debug)]
pub struct Flights(flight::Flights);

#[wasm_bindgen]
impl Flights {
    /// No flights.
    #[wasm_bindgen(constructor)]
    #[must_use]
    #[expect(clippy::new_without_default, reason = "JavaScript has constructors")]
    pub fn new() -> Self {
        Self(flight::Flights::new())
    }

    /// The worker wants to build what has this name: `"build"` it, `"wait"` for the one who does, or build it `"alone"` because
    /// waiting would never end.
    #[must_use]
    pub fn join(&mut self, name: &str, worker: u32) -> String {
        match self.0.join(name.as_bytes(), Worker(worker.into())) {
            Role::Build => "build",
            Role::Wait => "wait",
            Role::BuildAlone => "alone",
        }
        .into()
    }

    /// It is built, or will not be.
    pub fn land(&mut self, name: &str) {
        self.0.land(name.as_bytes());
    }

    /// The worker no longer waits.
    pub fn stop_waiting(&mut self, worker: u32) {
        self.0.stop_waiting(Worker(worker.into()));
    }
}
