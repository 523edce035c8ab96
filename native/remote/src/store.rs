//! The remote store: entries as on disk, on an engine, verified when they are read.

use std::{
    collections::HashSet,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use warmstart::{Artifact, MissReason, Seal, Store, os::fork::Mutex};
use warmstart_core::{envelope, key::Key, lease};

use crate::{
    engine::{Engine, Entry, MAX_ENTRY, Surveyed, Trouble},
    objects::{Driver, Objects, Source},
    redis::{Redis, Server},
    url::{Location, Problem, RemoteError},
};

/// The most entries that are asked for at once.
const AT_ONCE: usize = 64;

/// How many more deadlines a look-up of many entries has while the engine answers.
const MOST_DEADLINES: u32 = 9;

/// The bytes that a network moves in a millisecond. An entry that takes longer than the deadline would be a failure of the remote
/// for each machine that looks it up, and is not stored.
const BYTES_PER_MS: u64 = 100_000;

/// How long a lease lives without renewal: as long as its holder and those who watch it count.
const LEASE_TTL: Duration = Duration::from_millis(lease::TTL);

/// The deadlines of calls, unless the options give another.
const REDIS_DEADLINE: Duration = Duration::from_millis(200);
const OBJECTS_DEADLINE: Duration = Duration::from_secs(2);

/// The longest deadline.
const MAX_DEADLINE: Duration = Duration::from_secs(3600);

/// The part of a name that stands for the seal where there is none.
const UNSEALED: &str = "unsealed";

/// The most entries of newer versions that are remembered, so that puts do not replace them.
const MOST_NEWER: usize = 1 << 16;

/// Options to open a [`RemoteStore`] with. They must say whom to trust: holders of a [secret](Self::with_secret), or
/// [anyone](Self::unsealed) who may write to the remote.
///
/// ```
/// use std::time::Duration;
/// use warmstart_remote::RemoteOptions;
///
/// // The new secret seals; entries that the old one sealed are still found.
/// let (new, old) = ([1; 32], [2; 32]);
/// let options = RemoteOptions::default()
///     .with_secret(&new)
///     .with_secret(&old)
///     .with_deadline(Duration::from_millis(100));
/// ```
#[derive(Clone, Debug, Default)]
pub struct RemoteOptions {
    seals: Vec<Seal>,
    is_unsealed: bool,
    deadline: Option<Duration>,
    max_age: Option<Duration>,
    lease_ttl: Option<Duration>,
}

/// Stores artifacts on a server that many machines share: Redis, Valkey, or an object store.
///
/// Each call ends by a deadline, or one for each secret. A call for many entries goes on while they arrive, up to ten deadlines, and on
/// Redis ten seconds more. A remote that is slow, down or forbidden causes misses and refusals with their reasons, never errors.
/// An entry that is damaged, forged or of a newer version is a miss, and stays as it is until it is stored again; one of a newer
/// version is not replaced.
///
/// Keeps no artifacts in memory. `Fleet` puts a local store in front of it.
///
/// ```no_run
/// use warmstart::{Artifact, Store};
/// use warmstart_remote::{RemoteOptions, RemoteStore};
///
/// // 32 bytes of /dev/urandom, from a file that only users of the shared cache can read.
/// let secret = [7; 32];
/// let remote = RemoteStore::open("redis://cache.example", RemoteOptions::default().with_secret(&secret))?;
/// remote.put(b"key", &Artifact::new(vec![1, 2, 3]))?;
/// assert_eq!(remote.get(b"key")?.payload(), [1, 2, 3]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct RemoteStore {
    location: Location,
    deadline: Duration,
    /// That of readers who set none.
    default_deadline: Duration,
    keyspaces: Vec<Keyspace>,
    /// The age at which a rule of the engine removes entries.
    max_age: Option<Duration>,
    newer: Mutex<HashSet<Key>>,
    found_newer: AtomicBool,
    received: AtomicU64,
    refused: AtomicU64,
    closed: AtomicBool,
}

/// The entries of one seal.
#[derive(Debug)]
struct Keyspace {
    seal: Option<Seal>,
    engine: Box<dyn Engine>,
}

/// The time for the requests of one look-up of many entries.
struct Time {
    each: Duration,
    /// By when the next request must end, and the last one.
    next: Instant,
    last: Instant,
    /// Whether the engine has answered.
    is_answered: bool,
}

/// An artifact that was found, and the length of its entry.
#[derive(Clone, Debug)]
pub struct Found {
    /// The artifact, in the buffer that the entry was received in.
    pub artifact: Artifact,
    /// The length of the whole entry in bytes: what was moved over the network.
    pub len: u64,
}

impl RemoteOptions {
    /// Accepts entries that are sealed with this secret. The first one given seals what is stored; more are accepted while secrets are
    /// exchanged, and each costs a request where its predecessors find nothing.
    #[must_use]
    pub fn with_secret(mut self, secret: &[u8; 32]) -> Self {
        self.seals.push(Seal::new(secret));
        self
    }

    /// Accepts what anyone stores who may write to the remote. Cached artifacts are code: they can then run theirs on every machine.
    #[must_use]
    pub const fn unsealed(mut self) -> Self {
        self.is_unsealed = true;
        self
    }

    /// Sets how long a call may take, connecting included: 200 ms by default for Redis, 2 s for object stores, and
    /// at most an hour.
    #[must_use]
    pub const fn with_deadline(mut self, deadline: Duration) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// Tells the age at which a lifecycle rule of the bucket removes objects. An entry that is read after half to three quarters of it,
    /// depending on its name, is renewed: copied to itself by the server. Redis needs no such rule: it evicts the least recently used
    /// entries when it is full.
    #[must_use]
    pub const fn with_max_age(mut self, age: Duration) -> Self {
        self.max_age = Some(age);
        self
    }

    /// Sets how long leases live without renewal, 3 s by default.
    #[doc(hidden)]
    #[must_use]
    pub const fn with_lease_ttl(mut self, ttl: Duration) -> Self {
        self.lease_ttl = Some(ttl);
        self
    }
}

impl RemoteStore {
    /// Opens the remote at `url`: `redis://` or `rediss://` with host, port and number of the database, `s3://bucket/prefix` with the
    /// parameters `endpoint` and `region`, or `https://`, which is read-only. Sends nothing yet.
    ///
    /// Credentials come from the environment (`REDISCLI_AUTH` and `WARMSTART_REDIS_USER`; `AWS_ACCESS_KEY_ID` and the others of
    /// AWS's programs), from AWS's profile files, or from the machine's role, and never from the URL.
    ///
    /// `redis://` and an `endpoint` with `http://` have no encryption: everyone on the way can read and replace entries. A secret
    /// makes a replaced one a miss; with [`unsealed`](RemoteOptions::unsealed), it is used. `http://` itself is for this machine only.
    ///
    /// # Errors
    /// Mistakes of the caller: a URL that names no remote or holds credentials, or options that do not say whom to trust; and, for
    /// `rediss://`, a machine without certificates.
    pub fn open(url: &str, options: RemoteOptions) -> Result<Self, RemoteError> {
        let location = Location::parse(url)?;
        let seals: Vec<Option<Seal>> = match (options.seals.is_empty(), options.is_unsealed) {
            (true, false) => return Err(Problem::Untrusted.into()),
            (false, true) => return Err(Problem::Contradiction.into()),
            (true, true) => vec![None],
            (false, false) => options.seals.into_iter().map(Some).collect(),
        };
        let lease_ttl = options.lease_ttl.unwrap_or(LEASE_TTL);
        let (engine, default_deadline) = engines(&location, lease_ttl)?;
        let keyspace = |seal: Option<Seal>| Keyspace { engine: engine(&id_of(seal.as_ref())), seal };
        Ok(Self {
            keyspaces: seals.into_iter().map(keyspace).collect(),
            deadline: options.deadline.unwrap_or(default_deadline).min(MAX_DEADLINE),
            default_deadline,
            location,
            max_age: options.max_age,
            newer: Mutex::default(),
            found_newer: AtomicBool::new(false),
            received: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            closed: AtomicBool::new(false),
        })
    }

    /// Returns the place of the remote, to be shown to people. It has no credentials.
    #[must_use]
    pub fn location(&self) -> String {
        self.location.to_string()
    }

    /// Returns the public id of the secret that seals what is stored, as the names of entries have it: 32 hexadecimal digits, or
    /// `unsealed`.
    #[must_use]
    pub fn seal_id(&self) -> String {
        id_of(self.keyspaces[0].seal.as_ref())
    }

    /// Returns how long a call may take.
    #[must_use]
    pub const fn deadline(&self) -> Duration {
        self.deadline
    }

    /// Returns the engine of the entries that this store writes.
    #[doc(hidden)]
    #[must_use]
    pub fn engine(&self) -> &dyn Engine {
        &*self.keyspaces[0].engine
    }

    /// Returns the engines of all accepted secrets.
    pub(crate) fn engines(&self) -> impl Iterator<Item = &dyn Engine> {
        self.keyspaces.iter().map(|keyspace| &*keyspace.engine)
    }

    /// Verifies an entry that the engine of this number has under `name`, and returns its key too.
    pub(crate) fn verify_named(
        &self,
        engine: usize,
        name: &Key,
        entry: Entry,
    ) -> Result<(Vec<u8>, Found), MissReason> {
        let ((key, artifact), len) = self.accept(&self.keyspaces[engine], name, entry, |bytes, seal| {
            let layout = envelope::Layout::parse(&bytes, bytes.len() as u64);
            let key = layout.ok().and_then(|layout| bytes.get(layout.key())).unwrap_or_default().to_vec();
            let artifact = envelope::decode(bytes, &key, seal)?;
            if Key::digest(&key) == *name { Ok((key, artifact)) } else { Err(MissReason::KeyMismatch) }
        })?;
        Ok((key, Found { artifact, len }))
    }

    /// Decodes an entry that was found under `name`, and renews its age if a rule would remove it before long. Returns its length too.
    fn accept<T>(
        &self,
        keyspace: &Keyspace,
        name: &Key,
        entry: Entry,
        decode: impl FnOnce(Vec<u8>, Option<&Seal>) -> Result<T, MissReason>,
    ) -> Result<(T, u64), MissReason> {
        let len = entry.bytes.len() as u64;
        self.received.fetch_add(len, Ordering::Relaxed);
        let decoded = decode(entry.bytes, keyspace.seal.as_ref());
        match &decoded {
            Ok(_) if self.max_age.is_some_and(|max| is_due(name, entry.age, max)) => {
                keyspace.engine.touch(name, Instant::now() + 10 * self.deadline);
            }
            Ok(_) => {}
            Err(reason) => {
                self.refused.fetch_add(1, Ordering::Relaxed);
                if *reason == MissReason::NewerVersion {
                    self.note_newer(*name);
                }
            }
        }
        decoded.map(|decoded| (decoded, len))
    }

    fn accept_for(&self, keyspace: &Keyspace, key: &[u8], entry: Entry) -> Result<Found, MissReason> {
        let decode = |bytes, seal: Option<&Seal>| envelope::decode(bytes, key, seal);
        let (artifact, len) = self.accept(keyspace, &Key::digest(key), entry, decode)?;
        Ok(Found { artifact, len })
    }

    /// Looks up many keys, in their order, by `until`, a few at a time: as long as the engine answers, each few have as much time, and
    /// the last begin before ten times as much is over. What arrived before the engine failed is returned, and the next call meets the
    /// trouble.
    ///
    /// # Errors
    /// The trouble with the engine, if it answered nothing. A missing entry, or one that is not accepted, is no trouble.
    #[doc(hidden)]
    pub fn fetch_many(
        &self,
        keys: &[&[u8]],
        until: Instant,
    ) -> Result<Vec<Result<Found, MissReason>>, Trouble> {
        let names: Vec<Key> = keys.iter().map(|key| Key::digest(key)).collect();
        let mut answers: Vec<Result<Found, MissReason>> = vec![Err(MissReason::Absent); keys.len()];
        let mut time = Time::new(until);
        for keyspace in &self.keyspaces {
            let missing: Vec<usize> = (0..keys.len()).filter(|at| answers[*at].is_err()).collect();
            let mut rest = &missing[..];
            while !rest.is_empty() {
                let (chunk, after) = rest.split_at(rest.len().min(AT_ONCE));
                let wanted: Vec<Key> = chunk.iter().map(|at| names[*at]).collect();
                match time.get_many(&*keyspace.engine, &wanted) {
                    Ok(found) => {
                        for (at, found) in chunk.iter().zip(found) {
                            let found = match found {
                                Ok(None) => continue,
                                Ok(Some(entry)) => self.accept_for(keyspace, keys[*at], entry),
                                Err(trouble) => Err(trouble.reason()),
                            };
                            // The reason in the first keyspace is of more use: the others are about to go.
                            if found.is_ok() || matches!(answers[*at], Err(MissReason::Absent)) {
                                answers[*at] = found;
                            }
                        }
                    }
                    Err(trouble) if time.is_answered => {
                        rest.iter().for_each(|at| answers[*at] = Err(trouble.reason()));
                        return Ok(answers);
                    }
                    Err(trouble) => return Err(trouble),
                }
                rest = after;
            }
        }
        Ok(answers)
    }

    /// Gets the entries of these names under the first secret, as [`fetch_many`](Self::fetch_many) does, and calls `keep` with each
    /// that is accepted, and its key, until it returns false.
    ///
    /// # Errors
    /// The trouble with the engine, if it answered nothing.
    pub(crate) fn fetch_named(
        &self,
        names: &[Key],
        until: Instant,
        mut keep: impl FnMut(&[u8], Found) -> bool,
    ) -> Result<(), Trouble> {
        let mut time = Time::new(until);
        for names in names.chunks(AT_ONCE) {
            let found = match time.get_many(self.engine(), names) {
                Err(_) if time.is_answered => return Ok(()),
                found => found?,
            };
            for (name, found) in names.iter().zip(found) {
                if let Ok(Some(entry)) = found
                    && let Ok((key, found)) = self.verify_named(0, name, entry)
                    && !keep(&key, found)
                {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Verifies an entry that the [engine](Self::engine) returned for `key`.
    ///
    /// # Errors
    /// The reason why it is not accepted.
    #[doc(hidden)]
    pub fn verify(&self, key: &[u8], entry: Entry) -> Result<Found, MissReason> {
        self.accept_for(&self.keyspaces[0], key, entry)
    }

    /// Encodes and seals the entry of `artifact`, as [`upload`](Self::upload) takes it.
    ///
    /// # Errors
    /// The reason why no engine would keep it.
    #[doc(hidden)]
    pub fn encode(&self, key: &[u8], artifact: &Artifact) -> Result<Vec<u8>, MissReason> {
        self.encode_for(key, artifact, self.deadline)
    }

    /// Encodes and seals the entry of `artifact` for other programs, whose deadline may be shorter than this one's.
    pub(crate) fn encode_for_all(&self, key: &[u8], artifact: &Artifact) -> Result<Vec<u8>, MissReason> {
        self.encode_for(key, artifact, self.deadline.min(self.default_deadline))
    }

    fn encode_for(&self, key: &[u8], artifact: &Artifact, deadline: Duration) -> Result<Vec<u8>, MissReason> {
        let encoded = envelope::encode(key, artifact, self.keyspaces[0].seal.as_ref())?;
        let millis = u64::try_from(deadline.as_millis()).unwrap_or(u64::MAX);
        if encoded.len() > millis.saturating_mul(BYTES_PER_MS).min(MAX_ENTRY) {
            return Err(MissReason::Oversize);
        }
        Ok(encoded.to_vec())
    }

    /// Stores an encoded entry, unless one of a newer version was found under its name.
    ///
    /// # Errors
    /// The trouble with the engine.
    #[doc(hidden)]
    pub fn upload(
        &self,
        name: &Key,
        entry: &[u8],
        until: Instant,
    ) -> Result<Result<(), MissReason>, Trouble> {
        if self.found_newer.load(Ordering::Relaxed) && self.newer.lock().contains(name) {
            return Ok(Err(MissReason::NewerVersion));
        }
        self.engine().put(name, entry, until).map(Ok)
    }

    pub(crate) fn remove_by(&self, key: &[u8], until: Instant) -> Result<bool, Trouble> {
        let name = Key::digest(key);
        let mut was_there = false;
        for engine in self.engines() {
            was_there |= engine.remove(&name, until)?;
        }
        self.newer.lock().remove(&name);
        Ok(was_there)
    }

    pub(crate) fn contains_by(&self, key: &[u8], until: Instant) -> Result<bool, Trouble> {
        for engine in self.engines() {
            if engine.survey(&[Key::digest(key)], until)? == [Surveyed::Stored] {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns by when a request must end that no caller waits for: after ten deadlines, each of at least a second.
    pub(crate) fn background_deadline(&self) -> Instant {
        Instant::now() + self.deadline.max(Duration::from_secs(1)) * 10
    }

    /// Returns the bytes of all entries that came from the engine.
    pub(crate) fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// Returns how many of them were refused.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Returns whether one request looks a key up.
    pub(crate) fn has_one_secret(&self) -> bool {
        self.keyspaces.len() == 1
    }

    /// Asks the remote for anything.
    pub(crate) fn probe(&self, until: Instant) -> Result<(), Trouble> {
        self.engine().get(&Key::digest(b"warmstart.remote.probe"), until).map(drop)
    }

    fn note_newer(&self, name: Key) {
        let mut newer = self.newer.lock();
        if newer.len() < MOST_NEWER {
            newer.insert(name);
        }
        self.found_newer.store(true, Ordering::Relaxed);
    }

    fn until(&self) -> Result<Instant, MissReason> {
        match self.closed.load(Ordering::Relaxed) {
            true => Err(MissReason::Closed),
            false => Ok(Instant::now() + self.deadline),
        }
    }
}

impl Store for RemoteStore {
    fn get(&self, key: &[u8]) -> Result<Artifact, MissReason> {
        let found = self.fetch_many(&[key], self.until()?).map_err(|trouble| trouble.reason())?.pop();
        found.unwrap_or(Err(MissReason::Absent)).map(|found| found.artifact)
    }

    fn get_many(&self, keys: &[&[u8]]) -> Vec<Result<Artifact, MissReason>> {
        let found = self.until().and_then(|until| {
            let found = self.fetch_many(keys, until);
            found.map_err(|trouble| trouble.reason())
        });
        match found {
            Ok(found) => found.into_iter().map(|found| found.map(|found| found.artifact)).collect(),
            Err(reason) => vec![Err(reason); keys.len()],
        }
    }

    /// Returns 0: what the engine evicts is not known here.
    fn put(&self, key: &[u8], artifact: &Artifact) -> Result<u64, MissReason> {
        let until = self.until()?;
        let entry = self.encode(key, artifact)?;
        self.upload(&Key::digest(key), &entry, until).map_err(|trouble| trouble.reason())??;
        Ok(0)
    }

    /// Removes the entry of every accepted secret.
    fn remove(&self, key: &[u8]) -> Result<bool, MissReason> {
        self.remove_by(key, self.until()?).map_err(|trouble| trouble.reason())
    }

    /// Returns whether anything is stored under the name of the key. It is not read, and so not verified. On Redis, this needs the right
    /// to run scripts.
    fn contains(&self, key: &[u8]) -> Result<bool, MissReason> {
        self.contains_by(key, self.until()?).map_err(|trouble| trouble.reason())
    }

    /// Refuses as [unavailable](MissReason::Unavailable): the entries are those of all machines, and the engine's own tools remove them.
    fn clear(&self) -> Result<(), MissReason> {
        self.until()?;
        Err(MissReason::Unavailable)
    }

    fn flush(&self) -> Result<(), MissReason> {
        self.until().map(drop)
    }

    fn close(&self) -> Result<(), MissReason> {
        self.closed.store(true, Ordering::Relaxed);
        Ok(())
    }
}

impl Time {
    fn new(until: Instant) -> Self {
        let each = until.saturating_duration_since(Instant::now());
        Self { each, next: until, last: until + MOST_DEADLINES * each, is_answered: false }
    }

    /// Sends one request, or one for each name.
    ///
    /// # Errors
    /// The trouble with the engine, if it answered none.
    fn get_many(
        &mut self,
        engine: &dyn Engine,
        names: &[Key],
    ) -> Result<Vec<Result<Option<Entry>, Trouble>>, Trouble> {
        let found = engine.get_many(names, self.next);
        if let Some(Err(trouble)) = found.first()
            && found.iter().all(Result::is_err)
        {
            return Err(trouble.clone());
        }
        self.is_answered = true;
        self.next = (Instant::now() + self.each).min(self.last);
        Ok(found)
    }
}

/// Returns whether an entry of this age is renewed: between a half and three quarters of the age at which it is removed. Each name has
/// an age of its own, so that what was stored together is not copied, nor removed, together.
fn is_due(name: &Key, age: Duration, max: Duration) -> bool {
    age >= max / 2 + max / 1024 * u32::from(name.as_bytes()[0])
}

/// Returns the public id of a seal in hexadecimal digits.
fn id_of(seal: Option<&Seal>) -> String {
    seal.map_or_else(
        || UNSEALED.to_owned(),
        |seal| seal.id().iter().map(|byte| format!("{byte:02x}")).collect(),
    )
}

/// Makes the engine of a seal, by its id.
type MakeEngine = Box<dyn Fn(&str) -> Box<dyn Engine>>;

/// Returns a maker of engines for a location, and the default deadline of calls. The engines share connections.
fn engines(location: &Location, ttl: Duration) -> Result<(MakeEngine, Duration), RemoteError> {
    let objects = |source, prefix: String, is_read_only: bool| -> MakeEngine {
        let driver = Arc::new(Driver::new(source));
        Box::new(move |seal| Box::new(Objects::new(Arc::clone(&driver), &prefix, seal, is_read_only)))
    };
    Ok(match location.clone() {
        Location::Redis { tls, host, port, database, prefix } => {
            let server = Server::new(tls, host, port, database)?;
            (Box::new(move |seal| Box::new(Redis::new(server.clone(), &prefix, seal, ttl))), REDIS_DEADLINE)
        }
        Location::S3 { bucket, prefix, endpoint, region } => {
            (objects(Source::S3 { bucket, endpoint, region }, prefix, false), OBJECTS_DEADLINE)
        }
        Location::Http { url } => (objects(Source::Http { url }, String::new(), true), OBJECTS_DEADLINE),
    })
}
