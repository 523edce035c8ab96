//! Object stores: entries are objects, leases are small objects that are created and replaced only under conditions.
//!
//! | object | holds |
//! |---|---|
//! | `PREFIX/v1/SEAL/NN/NAME` | an entry, as on disk |
//! | `PREFIX/v1/SEAL/lease/NAME` | a lease: the holder's token and a number; its ETag is its version |
//!
//! SEAL is the public id of the secret in hexadecimal digits, or `unsealed`; NAME is the digest of the key, and NN its first two
//! digits. An object has no time to live: a lease whose ETag stands still may be replaced under the condition that it still has that
//! ETag. Whether the store heeds conditions is probed before the first lease; one that does not has no leases.
//!
//! Over plain HTTP, entries are only read.

mod client;
mod driver;
mod requests;
mod survey;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU8, AtomicU64, Ordering},
    },
    time::Instant,
};

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use object_store::{ObjectStoreExt as _, path::Path};
use tokio::{sync::Semaphore, time::timeout_at};
use warmstart_core::key::Key;

use crate::engine::{Answer, Engine, Entry, Page, Surveyed, Token, Trouble, Version};
use client::trouble_of;
use requests::{
    AT_ONCE, Folder, Taken, delete, get, heeds_conditions, is_stored, list, read_lease, renew, renew_lease,
    take,
};
use survey::survey;

pub(crate) use client::Source;
pub(crate) use driver::Driver;
use driver::late;

/// Objects below a prefix, for the entries of one seal.
#[derive(Debug)]
pub(crate) struct Objects {
    driver: Arc<Driver>,
    folder: Folder,
    is_read_only: bool,
    conditions: Arc<Conditions>,
    renewals: AtomicU64,
}

/// Whether the store heeds conditions. A cell that is set once has a lock, which a forked child could find held.
#[derive(Debug, Default)]
struct Conditions(AtomicU8);

const UNKNOWN: u8 = 0;
/// The store answers, and the probe is not over.
const PROBED: u8 = 1;
const HEEDED: u8 = 2;
const IGNORED: u8 = 3;

/// How many more deadlines of a call the probe of conditions has. Builds wait for it.
const MORE_FOR_PROBE: u32 = 2;

/// The most entries that are renewed at once.
const RENEWALS: usize = 8;

thread_local! {
    /// Of the thread that drives the requests: a forked child has one of its own.
    static RENEWING: Arc<Semaphore> = Arc::new(Semaphore::new(RENEWALS));
}

impl Objects {
    /// Creates the engine of the entries below `prefix` with this seal.
    pub(crate) fn new(driver: Arc<Driver>, prefix: &str, seal: &str, is_read_only: bool) -> Self {
        let folder = if prefix.is_empty() { format!("v1/{seal}") } else { format!("{prefix}/v1/{seal}") };
        let (conditions, renewals) = (Arc::<Conditions>::default(), AtomicU64::new(1));
        Self { driver, folder: Folder(folder.into()), is_read_only, conditions, renewals }
    }

    fn check_writable(&self) -> Result<(), Trouble> {
        match self.is_read_only {
            true => Err(Trouble::ReadOnly("plain HTTP is read-only".to_owned())),
            false => Ok(()),
        }
    }

    /// Checks that there are leases. Whether the store heeds their conditions is probed once. Over a slow network that takes longer than a
    /// call: the probe goes on, and the store counts as busy meanwhile. Returns whether this call has probed.
    fn check_leases(&self, until: Instant) -> Result<bool, Trouble> {
        let unsupported = |why: &str| Err(Trouble::Unsupported(format!("leases: {why}")));
        if self.is_read_only {
            return unsupported("plain HTTP is read-only");
        }
        let conditions = || self.conditions.0.load(Ordering::Relaxed);
        let is_first = conditions() < HEEDED;
        if is_first {
            let probe = self.folder.probe(&Token::random()?);
            let known = Arc::clone(&self.conditions);
            let last = until + MORE_FOR_PROBE * until.saturating_duration_since(Instant::now());
            let probed = self.driver.call(until, move |client| async move {
                let probing = tokio::spawn(async move {
                    let note = |found| known.0.fetch_max(found, Ordering::Relaxed);
                    let probed = heeds_conditions(client.store(), &probe, || _ = note(PROBED));
                    let heeds = match timeout_at(last.into(), probed).await {
                        Ok(heeds) => heeds?,
                        Err(_) if known.0.load(Ordering::Relaxed) == UNKNOWN => return Err(late()),
                        // Another probe was answered.
                        Err(_) if known.0.load(Ordering::Relaxed) >= HEEDED => return Ok(()),
                        // It answers, and not to conditions.
                        Err(_) => false,
                    };
                    note(if heeds { HEEDED } else { IGNORED });
                    Ok(())
                });
                // If this call ends first, that goes on.
                probing.await.unwrap_or_else(|_| Err(late()))
            });
            match probed {
                Err(Trouble::TimedOut(_)) if conditions() == PROBED => {
                    return Err(Trouble::Busy("whether it heeds conditions is not known yet".to_owned()));
                }
                // Another call may know by now.
                Err(trouble) if conditions() < HEEDED => return Err(trouble),
                _ => {}
            }
        }
        match conditions() {
            HEEDED => Ok(is_first),
            _ => unsupported("the object store ignores conditions"),
        }
    }

    /// Returns the contents of a lease, which no renewal repeats.
    fn contents(&self, token: &Token) -> Bytes {
        let renewal = self.renewals.fetch_add(1, Ordering::Relaxed);
        [&token.as_bytes()[..], &renewal.to_le_bytes()].concat().into()
    }
}

/// Returns when the requests of a call end, so that it returns what was answered.
fn shortly_before(until: Instant) -> Instant {
    until - until.saturating_duration_since(Instant::now()) / 20
}

/// The probe may have left too little time for this call. That is no failure of the store.
fn after_probe(trouble: Trouble) -> Trouble {
    match trouble {
        Trouble::TimedOut(why) => Trouble::Busy(why),
        trouble => trouble,
    }
}

impl Engine for Objects {
    fn get_many(&self, names: &[Key], until: Instant) -> Vec<Result<Option<Entry>, Trouble>> {
        let paths: Vec<Path> = names.iter().map(|name| self.folder.entry(name)).collect();
        let soon = shortly_before(until);
        let found = self.driver.call(until, move |client| async move {
            let get = |(at, path)| {
                let client = Arc::clone(&client);
                async move { (at, timeout_at(soon.into(), get(client.store(), &path)).await) }
            };
            // In any order, so that one without an answer keeps none from its turn.
            let found: Vec<_> = stream::iter(paths.into_iter().enumerate())
                .map(get)
                .buffer_unordered(AT_ONCE)
                .collect()
                .await;
            Ok(found)
        });
        let mut answers = vec![Err(late()); names.len()];
        match found {
            Ok(found) => found.into_iter().for_each(|(at, found)| {
                answers[at] = found.unwrap_or_else(|_| Err(late()));
            }),
            Err(trouble) => answers.fill(Err(trouble)),
        }
        answers.into_iter().map(|answer| answer.map_err(|trouble| self.driver.explain(trouble))).collect()
    }

    fn survey(&self, names: &[Key], until: Instant) -> Result<Vec<Surveyed>, Trouble> {
        let (names, folder) = (names.to_vec(), self.folder.clone());
        self.driver.call(until, move |client| async move { survey(&client, &names, &folder).await })
    }

    fn get_or_claim(&self, name: &Key, token: &Token, until: Instant) -> Result<Answer, Trouble> {
        if let Some(stored) = self.get(name, until)? {
            return Ok(Answer::Stored(stored));
        }
        let is_first = self.check_leases(until)?;
        let (entry, lease) = (self.folder.entry(name), self.folder.lease(name));
        let (contents, token) = (self.contents(token), *token);
        let answer = self.driver.call(until, move |client| async move {
            let store = client.store();
            match take(store, &lease, contents, &token, None).await? {
                Taken::Held(version) => Ok(Answer::Held(version)),
                Taken::Ours(version) => {
                    // Its last holder may have stored the entry and released the lease since the entry was looked for.
                    let Some(stored) = get(store, &entry).await? else {
                        return Ok(Answer::Claimed(version));
                    };
                    let _ = store.delete(&lease).await;
                    Ok(Answer::Stored(stored))
                }
            }
        });
        answer.map_err(|trouble| if is_first { after_probe(trouble) } else { trouble })
    }

    fn claim(
        &self,
        name: &Key,
        token: &Token,
        over: Option<&Version>,
        until: Instant,
    ) -> Result<Option<Version>, Trouble> {
        let is_first = self.check_leases(until)?;
        let (lease, contents, token) = (self.folder.lease(name), self.contents(token), *token);
        let over = over.cloned();
        let claimed = self.driver.call(until, move |client| async move {
            match take(client.store(), &lease, contents, &token, over.as_ref()).await? {
                Taken::Ours(version) => Ok(Some(version)),
                Taken::Held(_) => Ok(None),
            }
        });
        claimed.map_err(|trouble| if is_first { after_probe(trouble) } else { trouble })
    }

    fn renew(
        &self,
        held: &[(Key, Version)],
        token: &Token,
        until: Instant,
    ) -> Vec<Result<Option<Version>, Trouble>> {
        let renewal =
            |(name, held): &(Key, Version)| (self.folder.lease(name), self.contents(token), held.clone());
        let (renewals, token): (Vec<_>, _) = (held.iter().map(renewal).collect(), *token);
        let soon = shortly_before(until);
        let renewed = self.check_leases(until).and_then(|_| {
            self.driver.call(until, move |client| async move {
                let renew = |(lease, contents, held)| {
                    let client = Arc::clone(&client);
                    async move {
                        let renewal = renew_lease(client.store(), &lease, contents, &token, &held);
                        timeout_at(soon.into(), renewal).await.unwrap_or_else(|_| Err(late()))
                    }
                };
                Ok(stream::iter(renewals).map(renew).buffered(AT_ONCE).collect().await)
            })
        });
        renewed.unwrap_or_else(|trouble| vec![Err(trouble); held.len()])
    }

    /// Deletes the leases after a look at their holders. A lease that is taken over between the two is lost, which takes a holder that
    /// stood still for as long as leases live, and costs a second build.
    fn release(&self, names: &[Key], token: &Token, until: Instant) -> Result<(), Trouble> {
        self.check_leases(until)?;
        let (leases, token): (Vec<Path>, _) =
            (names.iter().map(|name| self.folder.lease(name)).collect(), *token);
        self.driver.call(until, move |client| async move {
            let release = |lease| {
                let client = Arc::clone(&client);
                async move {
                    match read_lease(client.store(), &lease).await? {
                        Some((_, holder)) if holder == token => delete(client.store(), &lease).await,
                        _ => Ok(()),
                    }
                }
            };
            let released: Vec<_> = stream::iter(leases).map(release).buffered(AT_ONCE).collect().await;
            released.into_iter().collect()
        })
    }

    fn put(&self, name: &Key, entry: &[u8], until: Instant) -> Result<(), Trouble> {
        self.check_writable()?;
        let (path, entry) = (self.folder.entry(name), Bytes::copy_from_slice(entry));
        self.driver.call(until, |client| async move {
            let stored = client.store().put(&path, entry.into()).await;
            stored.map(drop).map_err(|error| trouble_of(&error))
        })
    }

    fn touch(&self, name: &Key, until: Instant) {
        if self.is_read_only {
            return;
        }
        let path = self.folder.entry(name);
        let _ = self.driver.begin(move |client| async move {
            let Ok(client) = client else { return };
            let renewing = RENEWING.with(Arc::clone);
            let renewal = async {
                let _turn = renewing.acquire().await;
                // A client that may not write reads it all the same.
                renew(client.store(), &path).await
            };
            let _ = timeout_at(until.into(), renewal).await;
        });
    }

    fn list(&self, page: Option<&str>, until: Instant) -> Result<Page, Trouble> {
        let (folder, offset) = (self.folder.clone(), page.map(ToOwned::to_owned));
        self.driver.call(until, move |client| async move {
            let listed = list(&client, &folder.0, offset).await?;
            let is_last = listed.is_last;
            // Leases follow below a folder of their own.
            let name_of =
                |path: &Path| Key::from_hex(path.filename()?).filter(|name| folder.entry(name) == *path);
            let names = listed.objects.iter().filter_map(|(path, _)| name_of(path)).collect();
            Ok(Page { names, next: listed.last.filter(|_| !is_last) })
        })
    }

    fn remove(&self, name: &Key, until: Instant) -> Result<bool, Trouble> {
        self.check_writable()?;
        let path = self.folder.entry(name);
        self.driver.call(until, |client| async move {
            let was_there = is_stored(client.store(), &path).await?;
            delete(client.store(), &path).await?;
            Ok(was_there)
        })
    }
}
