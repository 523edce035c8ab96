//! What a remote costs a machine that has everything, or stores something.

use warmstart::{Key, Store};
use warmstart_tests::{medium::Medium, servers::Server};

use super::{PATIENT, artifact, files, fleet, sealed};
use crate::{Rows, measure::Plan, row::Compared};

const ENTRIES: u64 = 200;

/// Puts after which the uploads are waited for, outside of the time that is measured.
const PUTS: u64 = 500;

pub(super) fn rows(plan: &Plan, disk: &Medium) -> Rows {
    let server = Server::redis(&["--maxmemory", "256mb", "--maxmemory-policy", "allkeys-lru"]);
    let remote = sealed(&format!("redis://127.0.0.1:{}", server.port))?;
    let (alone, shared) = (files(disk, "alone")?, fleet(disk, "shared", remote)?);
    let keys: Vec<Key> = (0..ENTRIES).map(|number| Key::digest(&number.to_le_bytes())).collect();
    let at = |call: u64| keys[(call % ENTRIES) as usize].as_bytes();
    let stored = artifact(1);
    for key in &keys {
        alone.put(key.as_bytes(), &stored)?;
        shared.put(key.as_bytes(), &stored)?;
    }
    shared.wait_for_uploads(PATIENT);
    let hit = plan.compare(|call| shared.get(at(call)), |call| alone.get(at(call)));
    let mut puts = 0;
    let put = plan.compare_with(
        |call| shared.put(at(call), &stored),
        |call| alone.put(at(call), &stored),
        |calls| {
            puts += calls;
            if puts >= PUTS {
                puts = 0;
                shared.wait_for_uploads(PATIENT);
            }
        },
    );
    let on_disk = |row: crate::row::Row| row.on(disk.name);
    let rows = [hit.rows("local/hit", "files_alone", 1.05), put.rows("local/put", "files_alone", 1.1)];
    Ok(rows.concat().into_iter().map(on_disk).collect())
}
