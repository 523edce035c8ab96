//! A remote that many machines share, on servers of the loopback interface.

mod dead;
mod local;
mod objects;
mod redis;
mod second_start;

use std::{
    env,
    error::Error,
    process::{self, Command},
    time::Duration,
};

use warmstart::{
    Artifact,
    store::{FileStore, StoreOptions},
};
use warmstart_remote::{Fleet, FleetOptions, RemoteOptions, RemoteStore};
use warmstart_tests::{medium::Medium, proof, servers};

use crate::{Rows, measure::Plan};

/// The size of the payloads: that of a kernel.
const SIZE: usize = 16 << 10;

/// The deadline of a remote that works. Here the servers share two cores with the benchmark.
const PATIENT: Duration = Duration::from_secs(30);

const SECRET: [u8; 32] = [7; 32];

/// What the servers take for credentials.
const CREDENTIALS: [(&str, &str); 2] = [("AWS_ACCESS_KEY_ID", "id"), ("AWS_SECRET_ACCESS_KEY", "secret")];

pub(crate) fn run(plan: &Plan) -> Rows {
    if CREDENTIALS.iter().any(|(name, value)| env::var(name).as_deref() != Ok(value)) {
        // The environment of a process is set before it starts.
        let mut again = Command::new(env::current_exe()?);
        let status = again.args(env::args_os().skip(1)).envs(CREDENTIALS).status()?;
        process::exit(status.code().unwrap_or(1));
    }
    for program in ["redis-server", "nginx"] {
        if servers::program(program).is_none() {
            return Err(format!("there is no {program}: run `cargo xtask runtimes --engines`").into());
        }
    }
    let disk = Medium::disk()?;
    Ok([
        redis::rows(plan)?,
        objects::rows(plan)?,
        local::rows(plan, &disk)?,
        dead::rows(plan, &disk)?,
        second_start::rows(plan, &disk)?,
    ]
    .concat())
}

fn artifact(number: u64) -> Artifact {
    proof::artifact(&number.to_le_bytes(), 1, SIZE)
}

fn unsealed(url: &str) -> Result<RemoteStore, Box<dyn Error>> {
    Ok(RemoteStore::open(url, RemoteOptions::default().unsealed().with_deadline(PATIENT))?)
}

fn sealed(url: &str) -> Result<RemoteStore, Box<dyn Error>> {
    Ok(RemoteStore::open(url, RemoteOptions::default().with_secret(&SECRET).with_deadline(PATIENT))?)
}

/// Opens the local store of a machine.
fn files(disk: &Medium, machine: &str) -> Result<FileStore, Box<dyn Error>> {
    Ok(FileStore::open(disk.path(machine).join("files"), StoreOptions::default())?)
}

/// Puts the local store of a machine in front of a remote.
fn fleet(disk: &Medium, machine: &str, remote: RemoteStore) -> Result<Fleet<FileStore>, Box<dyn Error>> {
    let options = FleetOptions::default().with_directory(disk.path(machine).join("fleet"));
    Ok(Fleet::new(files(disk, machine)?, remote, options))
}
