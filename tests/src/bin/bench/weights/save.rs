//! The cost of saving packed weights to the medium.

use std::{
    cell::RefCell,
    fs::{self, OpenOptions},
    io::{self, Write},
    path::Path,
    time::{Duration, Instant},
};

use warmstart::pack::{Pack, PackOptions};
use warmstart_tests::{
    measure::{Plan, median},
    medium::Medium,
    weights::{Layers, PACKED_LEN, wanted},
};

use super::{Sizes, failed};
use crate::{
    Rows,
    row::{Compared, Row},
};

/// The rows of a cold save: reserve, finalise and save, without packing. The floor writes the same bytes to a file and waits
/// until they are on the medium.
pub(super) fn rows(plan: &Plan, disk: &Medium, sizes: Sizes) -> Rows {
    let (ours, floor) = (disk.path("save.xpwc"), disk.path("save.floor"));
    let layers = Layers::new(sizes.layers);
    let mut payload = vec![0; PACKED_LEN];
    layers.pack(0, &mut payload);
    let parts = RefCell::new(Vec::new());
    let compared = plan.with_rounds(sizes.slow_rounds).compare_timed(
        |_| {
            let took = save(&ours, &layers, &payload).expect("there is room on the disk");
            fs::remove_file(&ours).expect("it was just made");
            let [reserve, _, finalize, save] = took;
            parts.borrow_mut().push(took);
            reserve + finalize + save
        },
        |_| {
            let took = write(&floor, sizes.layers, &payload).expect("there is room on the disk");
            fs::remove_file(&floor).expect("it was just made");
            took
        },
    );
    let mut rows = compared.rows("cold_save/593MB", "write and fdatasync", 1.1).to_vec();
    let parts = parts.into_inner();
    for (at, name) in ["reserve", "copying_instead_of_packing", "finalise", "save"].into_iter().enumerate() {
        let millis = median(parts.iter().map(|parts| parts[at].as_secs_f64() * 1e3).collect());
        rows.push(Row::note(format!("cold_save/593MB/{name}"), (millis, "ms"), "none"));
    }
    let whole =
        median(parts.iter().map(|parts| parts.iter().sum::<Duration>().as_secs_f64() * 1e9).collect());
    let whole = (whole / compared.floor_ns, "ratio");
    rows.push(Row::note("cold_save/593MB/with_copying", whole, "write and fdatasync"));
    Ok(rows)
}

/// The times to reserve and insert, to pack, to finalise, and to save.
fn save(path: &Path, layers: &Layers, payload: &[u8]) -> io::Result<[Duration; 4]> {
    let [mut reserve, mut packing] = [Duration::ZERO; 2];
    let pack = Pack::open(path, PackOptions::default()).map_err(io::Error::other)?;
    for (i, names) in layers.names().iter().enumerate() {
        let start = Instant::now();
        let mut reservation = pack.reserve(payload.len())?;
        reserve += start.elapsed();
        let start = Instant::now();
        reservation.bytes_mut().copy_from_slice(payload);
        reservation.bytes_mut()[..8].copy_from_slice(&(i as u64).to_le_bytes());
        packing += start.elapsed();
        let start = Instant::now();
        pack.insert(&wanted(names), reservation);
        reserve += start.elapsed();
    }
    let start = Instant::now();
    pack.finalize();
    let finalize = start.elapsed();
    let start = Instant::now();
    let saved = pack.save().map_err(|reason| failed("cold_save", reason))?;
    let save = start.elapsed();
    if saved.entries != layers.len() {
        return Err(failed("cold_save", "not every weight was saved"));
    }
    Ok([reserve, packing, finalize, save])
}

/// Returns the time to write so many payloads to a new file, and to wait until they are on the medium.
fn write(path: &Path, count: usize, payload: &[u8]) -> io::Result<Duration> {
    let mut payload = payload.to_vec();
    let start = Instant::now();
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    for i in 0..count as u64 {
        payload[..8].copy_from_slice(&i.to_le_bytes());
        file.write_all(&payload)?;
    }
    file.sync_data()?;
    Ok(start.elapsed())
}
