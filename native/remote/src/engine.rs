//! The seam between what the fleet decides and the servers that keep its entries and leases.

use std::{
    fmt,
    fmt::Debug,
    time::{Duration, Instant},
};

use warmstart_core::{key::Key, reason::MissReason};

/// The longest entry, in bytes, that is stored or read: Redis takes no longer strings.
pub(crate) const MAX_ENTRY: u64 = 512 << 20;

/// One remote. Every method is synchronous, returns by `until`, and never panics. Only [`get_many`](Self::get_many) of several entries
/// may take longer while they arrive, by at most ten seconds.
///
/// An entry and the lease of its build have the same name: the digest of the store's key. Entries are opaque here; readers
/// verify them.
///
/// A lease says who builds. It ends at its release, or once its holder has stopped renewing it, and nothing that is stored depends on it:
/// two holders at once cost a second build, and no more.
pub trait Engine: Debug + Send + Sync {
    /// Returns the entry of this name, or nothing if it is absent.
    ///
    /// # Errors
    /// The trouble with the engine.
    fn get(&self, name: &Key, until: Instant) -> Result<Option<Entry>, Trouble> {
        let found = self.get_many(&[*name], until).pop();
        found.unwrap_or_else(|| Err(Trouble::Other("it answered too little".to_owned())))
    }

    /// Returns the entries of these names, in their order, each as [`get`](Self::get) does. Where each is a request, one that fails does
    /// not stop the others.
    fn get_many(&self, names: &[Key], until: Instant) -> Vec<Result<Option<Entry>, Trouble>>;

    /// Returns for each of these names, in their order, whether its entry is stored, and otherwise whether a lease is held. Reads no
    /// entry.
    ///
    /// # Errors
    /// The trouble with the engine.
    fn survey(&self, names: &[Key], until: Instant) -> Result<Vec<Surveyed>, Trouble>;

    /// Returns the entry, or who builds it, or takes its lease.
    ///
    /// # Errors
    /// The trouble with the engine; [`Trouble::Unsupported`] if it has no leases.
    fn get_or_claim(&self, name: &Key, token: &Token, until: Instant) -> Result<Answer, Trouble>;

    /// Takes a lease that is free, or still of the version `over`. Returns `None` if another holds it.
    ///
    /// Says nothing about the entry, which may have been stored since it was last looked up: look again.
    ///
    /// # Errors
    /// The trouble with the engine; [`Trouble::Unsupported`] if it has no leases.
    fn claim(
        &self,
        name: &Key,
        token: &Token,
        over: Option<&Version>,
        until: Instant,
    ) -> Result<Option<Version>, Trouble>;

    /// Renews held leases at once, and returns the new version of each, in their order; `None` if it is no longer the token's.
    ///
    /// One that fails does not stop the others. Whether it was renewed is unknown; renewing again is safe.
    fn renew(
        &self,
        held: &[(Key, Version)],
        token: &Token,
        until: Instant,
    ) -> Vec<Result<Option<Version>, Trouble>>;

    /// Releases those leases that are still the token's, at once.
    ///
    /// # Errors
    /// The trouble with the engine. The leases then end by themselves.
    fn release(&self, names: &[Key], token: &Token, until: Instant) -> Result<(), Trouble>;

    /// Stores an entry, and replaces what was there.
    ///
    /// # Errors
    /// The trouble with the engine. Whether the entry was stored is unknown.
    fn put(&self, name: &Key, entry: &[u8], until: Instant) -> Result<(), Trouble>;

    /// Renews the age of an entry in the background, at the latest by `until`, on engines that evict by age. Where that fails, the entry is
    /// evicted earlier.
    fn touch(&self, name: &Key, until: Instant);

    /// Returns a page of the names of all entries: the first, or the one that [`Page::next`] names. A name may be listed twice.
    ///
    /// # Errors
    /// The trouble with the engine; [`Trouble::Unsupported`] if it cannot list.
    fn list(&self, page: Option<&str>, until: Instant) -> Result<Page, Trouble>;

    /// Removes an entry, and returns whether there was one.
    ///
    /// # Errors
    /// The trouble with the engine.
    fn remove(&self, name: &Key, until: Instant) -> Result<bool, Trouble>;
}

/// Identifies a holder of leases: random bytes, drawn once by each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Token([u8; Token::LEN]);

/// Bytes that differ after each renewal of a lease. A lease that keeps its version for as long as leases live has lost its holder.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Version(Vec<u8>);

/// An entry that the engine returned, not verified yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// How long ago it was stored or [renewed](Engine::touch); zero on engines that do not evict by age.
    pub age: Duration,
}

/// The state of a name, without its entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Surveyed {
    /// An entry is stored.
    Stored,
    /// No entry is stored, and another builds it.
    Held(Version),
    /// No entry is stored, and its lease is free.
    Free,
}

/// A page of a listing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// The names of entries.
    pub names: Vec<Key>,
    /// What names the next page, if there is one.
    pub next: Option<String>,
}

/// The answer of [`Engine::get_or_claim`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The entry.
    Stored(Entry),
    /// The version of the lease that another holds.
    Held(Version),
    /// The version of the lease that the caller now holds.
    Claimed(Version),
}

/// Why an engine did not answer, with a message that names no credentials and nothing that the server wrote.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Trouble {
    /// No answer came in time.
    #[error("the remote did not answer in time: {0}")]
    TimedOut(String),
    /// There is no connection, or it broke.
    #[error("the remote cannot be reached: {0}")]
    Unreachable(String),
    /// The credentials are missing or wrong, or do not permit the operation.
    #[error("the remote refuses the credentials: {0}")]
    Forbidden(String),
    /// The engine never writes, does not write now, or does not for these credentials.
    #[error("the remote is read-only: {0}")]
    ReadOnly(String),
    /// The engine asks for another try later.
    #[error("the remote is busy: {0}")]
    Busy(String),
    /// The engine has no room.
    #[error("the remote is full: {0}")]
    Full(String),
    /// The engine has no leases, because it ignores conditions, or no listing.
    #[error("the remote has no {0}")]
    Unsupported(String),
    /// The engine answered something else.
    #[error("the remote failed: {0}")]
    Other(String),
}

impl Token {
    /// The length of a token in bytes.
    pub const LEN: usize = 16;

    /// Wraps bytes that no other holder has.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; Self::LEN]) -> Self {
        Self(bytes)
    }

    /// Draws a token.
    ///
    /// # Errors
    /// [`Trouble::Other`] if the system has no random numbers.
    pub fn random() -> Result<Self, Trouble> {
        let mut bytes = [0; Self::LEN];
        match getrandom::fill(&mut bytes) {
            Ok(()) => Ok(Self(bytes)),
            Err(_) => Err(Trouble::Other("the system has no random numbers".to_owned())),
        }
    }

    /// Returns the bytes of the token.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; Self::LEN] {
        &self.0
    }
}

impl Entry {
    /// Wraps the bytes of an entry of an engine that does not evict by age.
    #[must_use]
    pub const fn new(bytes: Vec<u8>) -> Self {
        Self { bytes, age: Duration::ZERO }
    }
}

impl Version {
    /// Wraps the bytes of a version.
    #[must_use]
    pub const fn new(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    /// Returns the bytes of the version.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Version({})", self.0.escape_ascii())
    }
}

impl Trouble {
    /// Returns the reason of the miss or the refusal that this trouble causes.
    #[must_use]
    pub const fn reason(&self) -> MissReason {
        match self {
            Self::TimedOut(_) | Self::Busy(_) => MissReason::Busy,
            Self::Forbidden(_) => MissReason::Forbidden,
            Self::ReadOnly(_) => MissReason::ReadOnly,
            Self::Full(_) => MissReason::NoSpace,
            Self::Unreachable(_) | Self::Unsupported(_) | Self::Other(_) => MissReason::Unavailable,
        }
    }
}
