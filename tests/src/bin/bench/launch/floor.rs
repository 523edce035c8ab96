//! The least that a hit can do.

use std::sync::Arc;

use super::scene::Results;

/// A result, and generations that it was computed at: one list of one kind, no handle, no world, no other thread.
#[derive(Debug)]
pub(super) struct Floor {
    seen: Box<[(u32, u64)]>,
    now: Vec<u64>,
    results: Arc<Results>,
}

impl Floor {
    /// Creates a floor with this many dependencies.
    pub(super) fn new(dependencies: usize, results: Results) -> Self {
        let now: Vec<u64> = (0..dependencies as u64).map(|n| n % 7).collect();
        let seen = now.iter().enumerate().map(|(id, &generation)| (id as u32, generation)).collect();
        Self { seen, now, results: Arc::new(results) }
    }

    /// Looks at each generation, and counts one reference.
    #[inline]
    pub(super) fn hit(&self) -> Option<Arc<Results>> {
        let holds = self.seen.iter().all(|&(id, generation)| self.now.get(id as usize) == Some(&generation));
        holds.then(|| Arc::clone(&self.results))
    }
}
