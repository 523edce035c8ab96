//! Finding a compiled kernel again, from its description to its verified bytes.

use std::{
    cell::Cell,
    ffi::CString,
    fs,
    hint::black_box,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use warmstart::{
    Cache, Limits, Store,
    store::{FileStore, MemoryStore, StoreOptions},
};

use super::{
    ARCH, HEADER, KERNEL, Place, SETTLING, each,
    nvrtc::Nvrtc,
    peer::{self, Job, Peer, Task},
    program,
};
use crate::{
    Rows,
    measure::Plan,
    row::{Compared, Row},
};

/// Calls that are timed at once.
const CALLS: u32 = 200;

/// A five-hundredth of a compile.
const OF_A_COMPILE: f64 = 1.0 / 500.0;

/// The rows of both stores, and of what makes a hit slower.
pub(super) fn rows(plan: &Plan, place: &Place) -> Rows {
    let files = Cache::new(FileStore::open(place.disk.path("kernels"), StoreOptions::default())?);
    let mut rows = hits("hit/files", plan, place, &files, Some(&place.disk.path("peer")))?;
    let memory = Cache::new(MemoryStore::new(Limits::NONE));
    rows.extend(hits("hit/memory", plan, place, &memory, None)?);
    rows.extend(many_headers(plan, place)?);
    rows.extend(long_source(plan, place)?);
    Ok(rows)
}

/// A hit against a compile by NVRTC alone, and against the one-line call of cuda-core at its quickest: with the program
/// described once, and without a header to look at.
fn hits<S: Store>(
    name: &'static str,
    plan: &Plan,
    place: &Place,
    cache: &Cache<S>,
    peer_path: Option<&Path>,
) -> Rows {
    let target = place.target()?;
    let _ = place.call(&target, cache)?;
    let all_hit = Cell::new(true);
    let hits = |_| {
        each(CALLS, || {
            let called = black_box(place.call(&target, cache));
            all_hit.set(all_hit.get() && called.is_ok_and(|compiled| compiled.is_hit()));
        })
    };

    let nvrtc = Nvrtc::load(&place.compilers, &place.options())?;
    let source = CString::new(place.source.as_str())?;
    nvrtc.cubin(&source)?;
    let all_compiled = Cell::new(true);
    let compiles = |_| {
        let start = Instant::now();
        let compiled = black_box(nvrtc.cubin(&source));
        let took = start.elapsed();
        all_compiled.set(all_compiled.get() && compiled.is_ok());
        took
    };
    let compiled = plan.with_rounds(if plan.is_quick() { 3 } else { 15 }).compare_timed(hits, compiles);
    let mut rows = compiled.rows(name, "nvrtc", OF_A_COMPILE).to_vec();

    let code = format!("{HEADER}{KERNEL}");
    let row = format!("{name}/one_call");
    for job in [Job::Kept, Job::Described] {
        let path = peer_path.map(|path| path.join(if job == Job::Kept { "kept" } else { "described" }));
        let task = Task { code: &code, arch: ARCH, path: path.as_deref(), job };
        let Some(mut peer) = Peer::start(&place.compilers, &task)? else {
            rows.push(Row::missing(row, peer::MISSING));
            break;
        };
        let mut failed = None;
        let theirs = |_| {
            peer.call(CALLS).unwrap_or_else(|error| {
                failed = Some(error);
                Duration::ZERO
            })
        };
        let compared = plan.compare_timed(hits, theirs);
        if let Some(error) = failed {
            return Err(format!("{row}: cuda-core: {error}").into());
        }
        if job == Job::Kept {
            rows.extend(compared.rows(&row, peer::NAME, 1.0));
        } else {
            let described = format!("{row}/described_anew");
            rows.push(Row::note(described.clone(), (compared.ratio(), "ratio"), peer::NAME));
            rows.push(Row::note(format!("{described}/{}", peer::NAME), (compared.floor_ns, "ns"), "none"));
        }
    }
    if !all_hit.get() || !all_compiled.get() || cache.statistics().builds != 1 {
        return Err(format!("{name}: a call was no hit, or NVRTC failed").into());
    }
    Ok(rows)
}

/// A kernel that includes many headers against the same one that includes one.
fn many_headers(plan: &Plan, place: &Place) -> Rows {
    const COUNTS: [usize; 2] = [10, 100];
    let include = place.disk.path("many");
    fs::create_dir_all(&include)?;
    fs::write(include.join("scale.cuh"), HEADER)?;
    for n in 0..COUNTS[1] {
        fs::write(include.join(format!("other{n}.cuh")), format!("#pragma once\n// {n}\n{HEADER}"))?;
    }
    thread::sleep(SETTLING);
    let mut rows = Vec::new();
    for count in COUNTS {
        let others: String = (1..count).map(|n| format!("#include \"other{n}.cuh\"\n")).collect();
        // Each has the same function, and only one of them may.
        let source = format!("#if 0\n{others}#endif\n{}", place.source);
        rows.extend(slower(&format!("hit/memory/{count}_headers"), plan, place, &source, &include)?);
    }
    Ok(rows)
}

/// A kernel in a long source against the same one in a short source.
fn long_source(plan: &Plan, place: &Place) -> Rows {
    let line = "// A line of a source that has many of them, as those have that a program generates.\n";
    let mut rows = Vec::new();
    for (label, len) in [("64KiB", 64 << 10), ("1MiB", 1 << 20)] {
        let source = format!("{}{}", place.source, line.repeat((len - place.source.len()) / line.len()));
        rows.extend(slower(&format!("hit/memory/{label}"), plan, place, &source, &place.include)?);
    }
    Ok(rows)
}

fn slower(name: &str, plan: &Plan, place: &Place, source: &str, include: &Path) -> Rows {
    let cache = Cache::new(MemoryStore::new(Limits::NONE));
    let target = place.target()?;
    let _ = place.call(&target, &cache)?;
    let _ = target.compile(&cache, &program(source, include))?;
    let all_hit = Cell::new(true);
    let noted = |is_hit: bool| all_hit.set(all_hit.get() && is_hit);
    let compared = plan.compare(
        |_| noted(target.compile(&cache, &program(source, include)).is_ok_and(|compiled| compiled.is_hit())),
        |_| noted(place.call(&target, &cache).is_ok_and(|compiled| compiled.is_hit())),
    );
    if !all_hit.get() || cache.statistics().builds != 2 {
        return Err(format!("{name}: a call was no hit").into());
    }
    Ok(vec![
        Row::note(name, (compared.ratio(), "ratio"), "hit/memory"),
        Row::note(format!("{name}/warmstart"), (compared.subject_ns, "ns"), "none"),
    ])
}
