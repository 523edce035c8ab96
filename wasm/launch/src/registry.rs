//! Ids for kernels and tasks. Registered values stay in JavaScript, in slots; this module keeps their numbers.

use alloc::vec::Vec;

use wasm_bindgen::prelude::wasm_bindgen;

use warmstart_core::registry::{self, RegistryId};

/// The number that means no slot.
const NONE: u32 = u32::MAX;

/// Maps ids, kernels and tasks to slots.
#[wasm_bindgen]
#[derive(Debug)]
pub struct Registry(registry::Registry<u32>);

#[wasm_bindgen]
impl Registry {
    /// Creates an empty registry.
    #[wasm_bindgen(constructor)]
    #[must_use]
    #[expect(clippy::new_without_default, reason = "JavaScript has constructors")]
    pub fn new() -> Self {
        Self(registry::Registry::new())
    }

    /// Registers a slot for a kernel and a task under the id in loaded code, or under a new id if `id` is 0.
    /// Returns the id, or 0 if it cannot belong to them or none is left. Call `slot` first to find a registered
    /// row.
    pub fn claim(&mut self, id: u32, kernel: &str, task: i32, slot: u32) -> u32 {
        let claimed = match RegistryId::new(id) {
            Some(given) => self.0.adopt(given, kernel, task, slot).map(|_| given),
            None => self.0.register(kernel, task, slot),
        };
        claimed.map_or(0, RegistryId::as_u32)
    }

    /// Returns the slot of exactly this id, kernel and task, or of their first id if `id` is 0. Returns
    /// 2^32 - 1 if there is none.
    #[must_use]
    pub fn slot(&self, id: u32, kernel: &str, task: i32) -> u32 {
        let id = RegistryId::new(id).or_else(|| self.0.id_of(kernel, task));
        let row = id.and_then(|id| self.0.verify(id, kernel, task));
        row.map_or(NONE, |row| *row.value())
    }

    /// Returns the slots of all rows with this id, in no particular order.
    #[must_use]
    pub fn slots(&self, id: u32) -> Vec<u32> {
        let mut slots = Vec::new();
        if let Some(id) = RegistryId::new(id) {
            self.0.claims(id).for_each(|row| slots.push(*row.value()));
        }
        slots
    }

    /// Removes exactly this id, kernel and task, and returns their slot, or 2^32 - 1 if there is none.
    pub fn remove(&mut self, id: u32, kernel: &str, task: i32) -> u32 {
        RegistryId::new(id).and_then(|id| self.0.remove(id, kernel, task)).unwrap_or(NONE)
    }
}
