//! The cost of reading all weights into memory from the medium.

use std::{
    fs::File,
    hint::black_box,
    io::{self, Read},
    path::Path,
    time::{Duration, Instant},
};

use warmstart::pack::PackOptions;
use warmstart_tests::{measure::median, weights::touch};

use super::{Sizes, names, touch::load_and_touch};
use crate::{Rows, row::Row};

/// The rows of a page cache that was dropped: touching all weights of a pack, with and without prefetch, against reading the
/// whole file into the heap and touching that. There are none where the page cache cannot be dropped.
pub(super) fn rows(path: &Path, sizes: Sizes) -> Rows {
    let names = names(sizes.layers);
    let ways: [(&str, &dyn Fn() -> Duration); 3] = [
        ("heap", &|| read_and_touch(path).expect("the file can be read")),
        ("mapped", &|| load_and_touch(path, &names, PackOptions::default())),
        ("mapped_with_prefetch", &|| {
            load_and_touch(path, &names, PackOptions::default().with_prefetch(true))
        }),
    ];
    let mut millis = ways.map(|_| Vec::new());
    for round in 0..sizes.slow_rounds {
        for turn in 0..ways.len() {
            let way = (round + turn) % ways.len();
            if !drop_cache(path)? {
                eprintln!("the page cache of {} cannot be dropped: its rows are missing", path.display());
                return Ok(Vec::new());
            }
            millis[way].push(ways[way].1().as_secs_f64() * 1e3);
        }
    }
    let [heap, ..] = millis.each_ref().map(|millis| median(millis.clone()));
    let mut rows = Vec::new();
    for ((name, _), millis) in ways.iter().zip(millis) {
        let millis = median(millis);
        let name = format!("cache_dropped/593MB/{name}");
        rows.push(Row::note(format!("{name}/time"), (millis, "ms"), "none"));
        rows.push(Row::note(name, (millis / heap, "ratio"), "heap"));
    }
    Ok(rows)
}

/// Reads a file into the heap, and touches every line of the cache of it.
fn read_and_touch(path: &Path) -> io::Result<Duration> {
    let start = Instant::now();
    let mut file = File::open(path)?;
    let mut bytes = Vec::with_capacity(usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?);
    file.read_to_end(&mut bytes)?;
    black_box(touch(&bytes));
    Ok(start.elapsed())
}

/// Drops a file from the page cache; whether it is gone.
#[cfg(target_os = "linux")]
fn drop_cache(path: &Path) -> io::Result<bool> {
    use rustix::{
        fs::Advice,
        io::{Errno, ReadWriteFlags},
    };

    let file = File::open(path)?;
    file.sync_all()?;
    rustix::fs::fadvise(&file, 0, None, Advice::DontNeed)?;
    let len = file.metadata()?.len();
    // Reading without waiting reads what is in the page cache, and nothing else.
    let mut is_gone = true;
    for at in [0, len / 3, len / 2, len - 1] {
        let mut byte = [0];
        let into = &mut [io::IoSliceMut::new(&mut byte)];
        is_gone &= rustix::io::preadv2(&file, into, at, ReadWriteFlags::NOWAIT) == Err(Errno::AGAIN);
    }
    // Reading one page does not read ahead the pages found to be evicted.
    Ok(is_gone)
}

#[cfg(not(target_os = "linux"))]
fn drop_cache(_: &Path) -> io::Result<bool> {
    Ok(false)
}
