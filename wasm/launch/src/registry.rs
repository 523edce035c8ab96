//! Ids for kernels and tasks. What is registered with them stays in JavaScript, in slots whose numbers are
//! kept here.

use alloc::vec::Vec;

use wasm_bindgen::prelude::wasm_bindgen;

use warmstart_core::registry::{self, RegistryId};

/// Says that there is no slot.
const NONE: u32 = u32::MAX;

/// Which slots belong to an id, a kernel and a task.
#[wasm_bindgen]
#[derive(Debug)]
pub struct Registry(registry::Registry<u32>);

#[wasm_bindgen]
impl Registry {
    /// Of nothing.
    #[wasm_bindgen(constructor)]
    #[must_use]
    #[expect(clippy::new_without_default, reason = "JavaScript has constructors")]
    pub fn new() -> Self {
        Self(registry::Registry::new())
    }

    /// Takes a slot for a kernel and a task under the id that loaded code bears, or under a new one if `id`
    /// is 0. Gives the id, or 0 if it cannot be theirs or none is left. Whoever is known already is to be
    /// found with `slot` first.
    pub fn claim(&mut self, id: u32, kernel: &str, task: i32, slot: u32) -> u32 {
        let claimed = match RegistryId::new(id) {
            Some(given) => self.0.adopt(given, kernel, task, slot).map(|_| given),
            None => self.0.register(kernel, task, slot),
        };
        claimed.map_or(0, RegistryId::as_u32)
    }

    /// The slot of exactly this id, kernel and task; of the first id of the two if `id` is 0. None is 2^32
    /// minus 1.
    #[must_use]
    pub fn slot(&self, id: u32, kernel: &str, task: i32) -> u32 {
        let id = RegistryId::new(id).or_else(|| self.0.id_of(kernel, task));
        let row = id.and_then(|id| self.0.verify(id, kernel, task));
        row.map_or(NONE, |row| *row.value())
    }

    /// The slots of all that claim this id, in no order.
    #[must_use]
    pub fn slots(&self, id: u32) -> Vec<u32> {
        let mut slots = Vec::new();
        if let Some(id) = RegistryId::new(id) {
            self.0.claims(id).for_each(|row| slots.push(*row.value()));
        }
        slots
    }

    /// Forgets exactly this id, kernel and task, and gives their slot back. None is 2^32 - 1.
    pub fn remove(&mut self, id: u32, kernel: &str, task: i32) -> u32 {
        RegistryId::new(id).and_then(|id| self.0.remove(id, kernel, task)).unwrap_or(NONE)
    }
}
