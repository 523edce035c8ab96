//! Compiling through the cache.

use std::{ffi::CString, hint::black_box, time::Instant};

use warmstart::{Cache, Limits, store::MemoryStore};

use super::{Place, nvrtc::Nvrtc};
use crate::{Rows, measure::Plan, row::Row};

/// The cost of a miss beyond NVRTC alone, and that of loading its library, which was not loaded before.
pub(super) fn rows(plan: &Plan, place: &Place) -> Rows {
    let cache = Cache::new(MemoryStore::new(Limits::NONE));
    let target = place.target()?;
    let _ = place.call(&target, &cache)?;
    let load = target.toolkit().load_time().as_secs_f64() * 1e3;

    let nvrtc = Nvrtc::load(&place.compilers, &place.options())?;
    let source = CString::new(place.source.as_str())?;
    let through = |_| {
        let _ = cache.clear();
        let start = Instant::now();
        let _ = black_box(place.call(&target, &cache));
        start.elapsed()
    };
    let mut all_compiled = true;
    let alone = |_| {
        let start = Instant::now();
        let compiled = black_box(nvrtc.cubin(&source));
        let took = start.elapsed();
        all_compiled &= compiled.is_ok();
        took
    };
    let rounds = if plan.is_quick() { 5 } else { 31 };
    let compared = plan.with_rounds(rounds).compare_timed(through, alone);
    // One to warm up each side, and the one above.
    if !all_compiled || cache.statistics().builds != rounds as u64 + 2 {
        return Err("miss: a call was a hit, or a compile failed".into());
    }
    Ok(vec![
        Row::note("miss", (compared.ratio(), "ratio"), "nvrtc"),
        Row::note("miss/warmstart", (compared.subject_ns / 1e6, "ms"), "none"),
        Row::note("miss/nvrtc", (compared.floor_ns / 1e6, "ms"), "none"),
        Row::note("miss/loading", (load, "ms"), "none"),
    ])
}
