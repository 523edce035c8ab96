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

impl RemoteStore {
    /// Tries out what the remote permits. Stores a small object for a moment, under a name that no entry has.
    #[must_use]
    pub fn check(&self) -> Check {
        let read = self.probe(self.soon()).and_then(|()| {
            let started = Instant::now();
            self.probe(self.soon())?;
            Ok(started.elapsed())
        });
        // The others would only wait for their deadlines too.
        if let Err(trouble) = &read {
            let [list, write, leases] = [(); 3].map(|()| Err(trouble.clone()));
            return Check { read, list, write, leases };
        }
        let started = Instant::now();
        let list = self.engine().list(None, self.soon()).map(|_| started.elapsed());
        Check { read, list, write: self.try_to_write(), leases: self.try_to_claim() }
    }

    fn soon(&self) -> Instant {
        Instant::now() + self.deadline()
    }

    fn try_to_write(&self) -> Result<Duration, Trouble> {
        let (engine, name) = (self.engine(), random_name()?);
        let started = Instant::now();
        engine.put(&name, BYTES, self.soon())?;
        let found = engine.get_many(&[name], self.soon());
        let removed = engine.remove(&name, self.soon());
        if found? != [Some(BYTES.to_vec())] {
            return Err(Trouble::Other("what was stored is not read".to_owned()));
        }
        if !removed? {
            return Err(Trouble::Other("what was stored is not removed".to_owned()));
        }
        Ok(started.elapsed() / 3)
    }

    fn try_to_claim(&self) -> Result<Duration, Trouble> {
        let (engine, name) = (self.engine(), random_name()?);
        let [one, other] = [Token::random()?, Token::random()?];
        let started = Instant::now();
        let lease = engine.claim(&name, &one, None, self.soon())?;
        let second = engine.claim(&name, &other, None, self.soon());
        if lease.is_none() {
            return Err(Trouble::Other("a free lease is not to be had".to_owned()));
        }
        engine.release(&[name], &one, self.soon())?;
        if second?.is_some() {
            return Err(Trouble::Unsupported("leases: two processes get one".to_owned()));
        }
        Ok(started.elapsed() / 3)
    }
}

fn random_name() -> Result<Key, Trouble> {
    Token::random().map(|token| Key::digest(token.as_bytes()))
}
