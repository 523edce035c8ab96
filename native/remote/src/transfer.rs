//! Copies all entries of a store to a remote, or back.

use std::{
    collections::HashSet,
    ops::ControlFlow,
    panic::resume_unwind,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use serde::Serialize;
use warmstart::{MissReason, Store};
use warmstart_core::{key::Key, lease::Backoff};

use crate::{
    engine::{Engine, Surveyed, Trouble},
    random::random,
    store::RemoteStore,
};

/// How many entries are asked for at once.
const AT_ONCE: usize = 64;

/// How many entries are sent at the same time.
const SENDERS: usize = 8;

/// The most pages of a listing in a row that name nothing new. Redis looks at 1,000 keys for a page, so that the keys of others may be
/// as many as 100 million.
const MOST_EMPTY: u32 = 100_000;

/// How often a request is sent while the remote is busy or late, and the pauses in between, in milliseconds.
const ATTEMPTS: usize = 4;
const PAUSES: Backoff = Backoff::new(1_000, 8_000);

/// How many entries a transfer copied, and how many it left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Transferred {
    /// Entries that were copied.
    pub entries: u64,
    /// Bytes of the entries that were copied, as they were sent over the network.
    pub bytes: u64,
    /// Entries that were there already.
    pub present: u64,
    /// Entries that were refused: damaged, forged, of another version, or too long.
    pub refused: u64,
}

/// Why a transfer ended early. What was copied until then stays.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TransferError {
    /// The remote failed.
    #[error(transparent)]
    Remote(#[from] Trouble),
    /// The local store cannot be listed or written to.
    #[error("the local store failed: {0}")]
    Local(MissReason),
}

/// Stores all entries of `local` that `remote` lacks, such as those of a machine that fills the cache for others. Calls
/// `on_progress` with the counts so far, from any thread.
///
/// Refuses entries that are too long for machines with the default deadline, however long that of `remote` is.
///
/// # Errors
/// The trouble with the remote, or the reason why `local` cannot be listed.
///
/// # Panics
/// If `local` or `on_progress` does.
pub fn push(
    remote: &RemoteStore,
    local: &dyn Store,
    on_progress: &(dyn Fn(&Transferred) + Sync),
) -> Result<Transferred, TransferError> {
    let mut keys = Vec::new();
    let inspect = local.inspect().ok_or(TransferError::Local(MissReason::Unavailable))?;
    let mut unreadable = 0;
    let listed = inspect.entries(&mut |entry| {
        match entry.head {
            Ok(head) => keys.push(head.key),
            Err(_) => unreadable += 1,
        }
        ControlFlow::Continue(())
    });
    listed.map_err(TransferError::Local)?;
    // Not a mutex of `os::fork`: a callback may do anything.
    let done = Mutex::new(Transferred { refused: unreadable, ..Transferred::default() });
    let done = || done.lock().unwrap_or_else(PoisonError::into_inner);
    for keys in keys.chunks(AT_ONCE) {
        let names: Vec<Key> = keys.iter().map(|key| Key::digest(key)).collect();
        let states = request(remote, |until| remote.engine().survey(&names, until))?;
        let is_missing = |(_, state): &(&Vec<u8>, Surveyed)| *state != Surveyed::Stored;
        let missing: Vec<&[u8]> =
            keys.iter().zip(states).filter(is_missing).map(|(key, _)| &key[..]).collect();
        done().present += (keys.len() - missing.len()) as u64;
        let next = AtomicUsize::new(0);
        let send = || -> Result<(), Trouble> {
            while let Some(key) = missing.get(next.fetch_add(1, Ordering::Relaxed)) {
                let sent = match local.get(key).and_then(|artifact| remote.encode_for_all(key, &artifact)) {
                    Ok(entry) => {
                        let name = Key::digest(key);
                        let sent = request(remote, |until| remote.upload(&name, &entry, until))?;
                        sent.is_ok().then_some(entry.len() as u64)
                    }
                    Err(_) => None,
                };
                let mut done = done();
                match sent {
                    Some(bytes) => done.add(bytes),
                    None => done.refused += 1,
                }
                on_progress(&done);
            }
            Ok(())
        };
        let ended: Result<Vec<()>, Trouble> = thread::scope(|scope| {
            let senders: Vec<_> = (0..SENDERS.min(missing.len())).map(|_| scope.spawn(send)).collect();
            senders
                .into_iter()
                .map(|sender| sender.join().unwrap_or_else(|panic| resume_unwind(panic)))
                .collect()
        });
        ended?;
    }
    let done = *done();
    Ok(done)
}

/// Stores all entries of `remote` in `local` that it lacks, such as for an image of a machine. An entry that is damaged, forged
/// or of another version is left where it is.
///
/// # Errors
/// The trouble with the remote, [`Trouble::Unsupported`] if it cannot be listed, or the reason why `local` does not store.
pub fn pull(
    remote: &RemoteStore,
    local: &dyn Store,
    on_progress: &dyn Fn(&Transferred),
) -> Result<Transferred, TransferError> {
    let mut here = HashSet::new();
    let inspect = local.inspect().ok_or(TransferError::Local(MissReason::Unavailable))?;
    let listed = inspect.entries(&mut |entry| {
        here.insert(entry.digest);
        ControlFlow::Continue(())
    });
    listed.map_err(TransferError::Local)?;
    let mut done = Transferred::default();
    for (keyspace, engine) in remote.engines().enumerate() {
        visit_pages(remote, engine, |names| {
            let (present, missing): (Vec<Key>, Vec<Key>) =
                names.into_iter().partition(|name| here.contains(name));
            done.present += present.len() as u64;
            for names in missing.chunks(AT_ONCE) {
                let found = engine.get_many(names, remote.background_deadline());
                for (name, found) in names.iter().zip(found) {
                    let found = match found {
                        Err(trouble) if may_pass(&trouble) => {
                            request(remote, |until| engine.get(name, until))
                        }
                        found => found,
                    };
                    // One that is gone by now was evicted.
                    let Some(entry) = found? else { continue };
                    match remote.verify_named(keyspace, name, entry) {
                        Ok((key, found)) => match local.put(&key, &found.artifact) {
                            Ok(_) => {
                                // An entry that is refused may be whole under the next secret.
                                here.insert(*name);
                                done.add(found.len);
                            }
                            // This one does not fit; the others may.
                            Err(MissReason::Oversize | MissReason::TooLong) => done.refused += 1,
                            Err(reason) => return Err(TransferError::Local(reason)),
                        },
                        Err(_) => done.refused += 1,
                    }
                    on_progress(&done);
                }
            }
            Ok(ControlFlow::Continue(()))
        })?;
    }
    Ok(done)
}

/// Returns whether `remote` lists any entry of the accepted secrets, which [`pull`] would copy. Verifies none.
///
/// # Errors
/// The trouble with the remote, [`Trouble::Unsupported`] if it cannot be listed.
pub fn has_entries(remote: &RemoteStore) -> Result<bool, TransferError> {
    let mut is_found = false;
    for engine in remote.engines() {
        visit_pages(remote, engine, |names| {
            is_found |= !names.is_empty();
            Ok(if is_found { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
    }
    Ok(is_found)
}

/// Calls `visit` with the names of each page that no page before had, until it breaks. The pages of Redis repeat names.
fn visit_pages(
    remote: &RemoteStore,
    engine: &dyn Engine,
    mut visit: impl FnMut(Vec<Key>) -> Result<ControlFlow<()>, TransferError>,
) -> Result<(), TransferError> {
    let (mut listed, mut after, mut empty) = (HashSet::new(), None, 0);
    loop {
        let page = request(remote, |until| engine.list(after.as_deref(), until))?;
        let names: Vec<Key> = page.names.into_iter().filter(|name| listed.insert(*name)).collect();
        empty = if names.is_empty() { empty + 1 } else { 0 };
        after = page.next;
        if visit(names)?.is_break() || after.is_none() {
            return Ok(());
        }
        if empty == MOST_EMPTY {
            return Err(Trouble::Other("its listing does not end".to_owned()).into());
        }
    }
}

/// Sends a request, again a few times while the remote is busy or late: one such answer does not end a long transfer.
fn request<T>(remote: &RemoteStore, send: impl Fn(Instant) -> Result<T, Trouble>) -> Result<T, Trouble> {
    let mut pauses = PAUSES;
    for _ in 1..ATTEMPTS {
        match send(remote.background_deadline()) {
            Err(trouble) if may_pass(&trouble) => {
                thread::sleep(Duration::from_millis(pauses.pause(random())));
            }
            ended => return ended,
        }
    }
    send(remote.background_deadline())
}

const fn may_pass(trouble: &Trouble) -> bool {
    matches!(trouble, Trouble::Busy(_) | Trouble::TimedOut(_))
}

impl Transferred {
    const fn add(&mut self, bytes: u64) {
        self.entries += 1;
        self.bytes += bytes;
    }
}
