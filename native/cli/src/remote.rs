//! `warmstart remote`: checks a remote that many machines share, copies stores, and shows the counts of a machine.

use std::{io::Write, path::Path, time::Duration};

use console::style;
use serde_json::json;
use warmstart::{
    Seal, Store,
    store::{FileStore, StoreOptions},
};
use warmstart_remote::{
    Check, FleetStatistics, RemoteError, RemoteOptions, RemoteStore, TransferError, Transferred, Trouble,
};

use crate::{
    arguments::{Place, Remote},
    failure::Failure,
    screen::{Screen, progress, step},
    store::{Access, open, read_secret},
    table::Table,
    text::visible_path,
    units::{bytes, entries, nanos},
};

/// How long a request may take: longer than that of a program, which would rather build.
const DEADLINE: Duration = Duration::from_secs(10);

pub(crate) fn run(arguments: &Remote, seal: Option<&Seal>, screen: &mut Screen) -> Result<bool, Failure> {
    match arguments {
        Remote::Check { place } => check(&place.open()?, screen),
        Remote::Push { store, place } => {
            let (remote, local) = (place.open()?, open(store, seal, Access::Look)?);
            let bar = progress("pushing", None);
            let pushed = warmstart_remote::push(&remote, &*local.store, &|_| step(&bar))?;
            drop(bar);
            show(pushed, "pushed to", &remote, screen)
        }
        Remote::Pull { place, store } => {
            let remote = place.open()?;
            // Before a store is created.
            if !warmstart_remote::has_entries(&remote)? {
                let place = remote.location();
                let what = format!(
                    "{place} has no entries of this secret; use the secret and the prefix of its writers"
                );
                return Err(Failure::new("missing", what));
            }
            let local: Box<dyn Store> = if store.exists() {
                open(store, seal, Access::Change)?.store
            } else {
                let seals = seal.cloned().into_iter();
                let options = seals.fold(StoreOptions::default(), StoreOptions::with_seal);
                Box::new(FileStore::open(store, options)?)
            };
            let bar = progress("pulling", None);
            let pulled = warmstart_remote::pull(&remote, &*local, &|_| step(&bar))?;
            drop(bar);
            show(pulled, "pulled from", &remote, screen)
        }
        Remote::Stats { directory } => stats(directory, screen),
    }
}

impl Place {
    fn open(&self) -> Result<RemoteStore, Failure> {
        let mut options = RemoteOptions::default().with_deadline(DEADLINE);
        if self.unsealed {
            options = options.unsealed();
        }
        for path in &self.secret {
            options = options.with_secret(&read_secret(path)?);
        }
        Ok(RemoteStore::open(&self.url, options)?)
    }
}

/// Shows what a remote permits. It passes if it can be read: not every machine may write.
fn check(remote: &RemoteStore, screen: &mut Screen) -> Result<bool, Failure> {
    let checked = Check::of(remote);
    let lines = [
        ("read", "looks up", &checked.read),
        ("list", "lists entries, as `pull` does", &checked.list),
        ("write", "stores, reads and removes", &checked.write),
        ("leases", "one of many machines builds", &checked.leases),
    ];
    let is_good = checked.read.is_ok();
    if screen.json {
        let answer = |result: &Result<Duration, Trouble>| match result {
            Ok(took) => json!({ "ok": true, "millis": took.as_secs_f64() * 1e3 }),
            Err(trouble) => {
                json!({ "ok": false, "reason": trouble.reason().as_str(), "message": trouble.to_string() })
            }
        };
        let answers = lines.iter().map(|(name, _, result)| json!({ *name: answer(result) }));
        let place = json!({ "remote": remote.location(), "seal": remote.seal_id() });
        screen.write_json([place].into_iter().chain(answers))?;
        return Ok(is_good);
    }
    let seal = style(format!("seal {}", remote.seal_id())).dim();
    writeln!(screen, "{}  {seal}", style(remote.location()).bold())?;
    let mut table = Table::new(["", "", ">", ""]);
    for (name, meaning, result) in lines {
        match result {
            Ok(took) => {
                let took = nanos(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
                table.row([&name, &style("yes").green(), &took, &style(meaning).dim()]);
            }
            Err(trouble) => table.row([&name, &style("no").red(), &"", &trouble]),
        }
    }
    table.write(screen)?;
    Ok(is_good)
}

fn show(done: Transferred, verb: &str, remote: &RemoteStore, screen: &mut Screen) -> Result<bool, Failure> {
    let Transferred { entries: copied, bytes: moved, present, refused, .. } = done;
    if screen.json {
        screen.write_json([json!({ "remote": remote.location() }), json!(done)])?;
        return Ok(refused == 0);
    }
    let mut line = format!("{} {verb} {}, {}", entries(copied), remote.location(), bytes(moved));
    if present > 0 {
        line += &format!("; {present} already there");
    }
    if refused > 0 {
        line += &format!("; {refused} refused: damaged, of another secret or version, or too long");
    }
    writeln!(screen, "{}", if refused == 0 { style(line).green() } else { style(line).red() })?;
    Ok(refused == 0)
}

fn stats(directory: &Path, screen: &mut Screen) -> Result<bool, Failure> {
    let counts = FleetStatistics::of_machine(directory).map_err(|error| {
        let path = visible_path(directory);
        Failure::new(
            "unreadable",
            format!("{path} is no directory of a fleet: {error}; name that of `with_directory`"),
        )
    })?;
    if screen.json {
        screen.write_json([json!({ "path": directory.to_string_lossy() }), json!(counts)])?;
        return Ok(true);
    }
    let mut table = Table::new(["", ">", ""]);
    let received = format!("received {}, used {}", bytes(counts.bytes_received), bytes(counts.bytes_used));
    table.row([&"local hits", &counts.local_hits, &""]);
    table.row([&"remote hits", &counts.remote_hits, &style(received).dim()]);
    table.row([&"misses", &counts.misses, &""]);
    table.row([&"refused", &counts.refused, &style("damaged, forged or of another version").dim()]);
    table.row([&"uploaded", &counts.uploads, &style(format!("sent {}", bytes(counts.bytes_sent))).dim()]);
    table.row([&"  waiting", &counts.uploads_waiting, &""]);
    table.row([&"  dropped", &counts.uploads_dropped, &""]);
    let waited = format!("waited {} for builds of other machines", nanos(counts.lease_wait_nanos));
    table.row([&"waits", &counts.lease_waits, &style(waited).dim()]);
    table.write(screen)?;
    if counts.is_breaker_open {
        let line = "the remote failed and is left alone for now; `warmstart remote check` tells why";
        writeln!(screen, "\n{}", style(line).red())?;
    }
    Ok(true)
}

impl From<RemoteError> for Failure {
    fn from(error: RemoteError) -> Self {
        let code = if error.is_credentials() { "credentials_in_url" } else { "bad_remote" };
        Self::new(code, error.to_string())
    }
}

impl From<TransferError> for Failure {
    fn from(error: TransferError) -> Self {
        let (code, remedy) = match &error {
            TransferError::Remote(trouble) => (trouble.reason(), "`warmstart remote check` tells more"),
            TransferError::Local(reason) => (*reason, "check that its disk is mounted and has room"),
            _ => return Self::new("failed", error.to_string()),
        };
        let what = format!(
            "{error}; {remedy}. What was copied stays; run this again for the rest once that is mended"
        );
        Self::new(code.as_str(), what)
    }
}
