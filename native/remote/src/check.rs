//! Tries out what a remote permits.

use std::time::{Duration, Instant};

use warmstart_core::key::Key;

use crate::{
    engine::{Token, Trouble},
    store::RemoteStore,
};

/// The bytes that are stored for a moment: no entry.
const BYTES: &[u8] = b"warmstart was here";

/// What a remote permits to these credentials, and how long a request took.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Check {
    /// Looking up a name that is not stored, once a connection is there.
    pub read: Result<Duration, Trouble>,
    /// Listing entries, which only copies of all of them need.
    pub list: Result<Duration, Trouble>,
    /// Storing 18 bytes under a name that no entry has, reading them and removing them: one of the three.
    pub write: Result<Duration, Trouble>,
    /// Taking a lease that another request must not get, and releasing it: one of the three.
    pub leases: Result<Duration, Trouble>,
}

impl Check {
    /// Tries out what `remote` permits. Stores a small object for a moment, under a name that no entry has.
    #[must_use]
    pub fn of(remote: &RemoteStore) -> Self {
        let read = remote.probe(soon(remote)).and_then(|()| {
            let started = Instant::now();
            remote.probe(soon(remote))?;
            Ok(started.elapsed())
        });
        // The others would only wait for their deadlines too.
        if let Err(trouble) = &read {
            let [list, write, leases] = [(); 3].map(|()| Err(trouble.clone()));
            return Self { read, list, write, leases };
        }
        let started = Instant::now();
        let list = remote.engine().list(None, soon(remote)).map(|_| started.elapsed());
        // A missing bucket answers a look-up as an absent object does. Its listing tells.
        let read = match &list {
            Err(trouble @ Trouble::Unreachable(_)) => Err(trouble.clone()),
            _ => read,
        };
        Self { read, list, write: try_to_write(remote), leases: try_to_claim(remote) }
    }
}

fn soon(remote: &RemoteStore) -> Instant {
    Instant::now() + remote.deadline()
}

fn try_to_write(remote: &RemoteStore) -> Result<Duration, Trouble> {
    let (engine, name) = (remote.engine(), random_name()?);
    let started = Instant::now();
    engine.put(&name, BYTES, soon(remote))?;
    let found = engine.get(&name, soon(remote));
    let removed = engine.remove(&name, soon(remote));
    if found?.is_none_or(|found| found.bytes != BYTES) {
        return Err(Trouble::Other("what was stored is not read".to_owned()));
    }
    if !removed? {
        return Err(Trouble::Other("what was stored is not removed".to_owned()));
    }
    Ok(started.elapsed() / 3)
}

fn try_to_claim(remote: &RemoteStore) -> Result<Duration, Trouble> {
    let (engine, name) = (remote.engine(), random_name()?);
    let [one, other] = [Token::random()?, Token::random()?];
    // Nothing to release, but the first of these calls finds out whether the engine heeds conditions.
    engine.release(&[name], &one, remote.background_deadline())?;
    let started = Instant::now();
    let lease = engine.claim(&name, &one, None, soon(remote))?;
    let second = engine.claim(&name, &other, None, soon(remote));
    if lease.is_none() {
        return Err(Trouble::Other("a free lease was refused".to_owned()));
    }
    engine.release(&[name], &one, soon(remote))?;
    if second?.is_some() {
        return Err(Trouble::Unsupported("leases: two processes get one".to_owned()));
    }
    Ok(started.elapsed() / 3)
}

fn random_name() -> Result<Key, Trouble> {
    Token::random().map(|token| Key::digest(token.as_bytes()))
}
