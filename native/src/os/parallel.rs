//! Short tasks over many items, on several threads.

use std::{num::NonZero, ops::Range, sync::OnceLock, thread};

/// Calls `work` with each number below `count`, on as many threads as the process may use cores, each with at least `least` numbers.
/// Returns the results in order.
pub(crate) fn map<T: Send>(count: usize, least: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let threads = cores().min(count / least).max(1);
    let part = |part: Range<usize>| part.map(&work).collect::<Vec<T>>();
    let ranges = (0..threads).map(|thread| count * thread / threads..count * (thread + 1) / threads);
    let mut ranges: Vec<Range<usize>> = ranges.collect();
    let own = ranges.remove(0);
    if ranges.is_empty() {
        return part(own);
    }
    thread::scope(|scope| {
        // If no thread can be started, this one does its work.
        let parts = ranges.into_iter().map(|range| {
            let part = &part;
            (range.clone(), thread::Builder::new().spawn_scoped(scope, move || part(range)))
        });
        let parts: Vec<_> = parts.collect();
        let mut all = part(own);
        for (range, thread) in parts {
            match thread {
                Ok(thread) => {
                    all.extend(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
                }
                Err(_) => all.extend(part(range)),
            }
        }
        all
    })
}

/// Returns the number of cores that the process may use. Cached, because the system reads files to determine it.
pub(crate) fn cores() -> usize {
    static CORES: OnceLock<usize> = OnceLock::new();
    *CORES.get_or_init(|| thread::available_parallelism().map_or(1, NonZero::get))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_order_for_any_number_of_items() {
        for count in [0, 1, 31, 32, 63, 64, 65, 1000, 4099] {
            assert_eq!(
                map(count, 32, |index| index * 2),
                (0..count).map(|index| index * 2).collect::<Vec<_>>()
            );
        }
    }
}
