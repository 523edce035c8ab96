//! A stack overflows, and the host names its kernel and task.

use std::sync::atomic::{AtomicU32, Ordering};

use warmstart::registry::{RegistryId, SharedRegistry};

use crate::{measure::Expected, scene::Scene};

/// Returns the message of a host when a stack overflows: the code writes an id, and the host looks it up.
///
/// Here the stacks are a little too small for the largest result of all launches.
pub(crate) fn message(expected: &Expected) -> String {
    let scene = Scene::new();
    // As if all code had been loaded: each task says at its first launch who it is.
    let registry = SharedRegistry::<()>::new();
    for task in scene.kernels.iter().flat_map(|kernel| &kernel.tasks) {
        registry
            .adopt(task.id, &task.kernel, task.number, || ())
            .expect("the id comes from a registry, for this kernel and task");
    }
    let depth = expected.largest() - 1;
    let overflowed = AtomicU32::new(0);
    expected.each(|key, needed| run(&overflowed, key, needed, depth));
    let Some(id) = RegistryId::new(overflowed.into_inner()) else {
        return format!("No stack of {depth} overflows.");
    };
    format!("A stack of {depth} overflows, and the code writes {id}:\n{}.", registry.resolve(id))
}

/// Runs the code of a task on a stack: the first overflow writes the id that is baked in.
fn run(overflowed: &AtomicU32, key: u64, needed: i64, depth: i64) {
    let id = key as u32; // the lower half
    if needed > depth {
        // Another task may have been first.
        let _ = overflowed.compare_exchange(0, id, Ordering::Relaxed, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_names_kernel_and_task() {
        let said = message(Expected::shared());
        assert!(said.contains("kernel `") && said.contains("`, task "), "{said}");
    }
}
