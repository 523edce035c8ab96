//! The requests that leases and entries are made of.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use object_store::{
    CopyMode, CopyOptions, Error, ObjectStore, ObjectStoreExt as _, PutMode, PutPayload, UpdateVersion,
    list::{PaginatedListOptions, PaginatedListStore as _},
    path::Path,
};
use warmstart_core::key::Key;

use super::client::{Client, is_unimplemented, trouble_of};
use crate::engine::{Entry, MAX_ENTRY, Token, Trouble, Version};

/// The longest lease, in bytes, that is read. What is longer is none.
const MAX_LEASE: u64 = 4096;

/// The most requests at once of one call.
pub(super) const AT_ONCE: usize = 32;

/// How often a lease that vanishes while it is looked at is tried for.
const TRIES: u32 = 4;

/// The names of objects.
#[derive(Clone, Debug)]
pub(super) struct Folder(pub(super) Arc<str>);

/// A page of a listing.
pub(super) struct Page {
    pub(super) objects: Vec<(Path, Version)>,
    pub(super) last: Option<String>,
    pub(super) is_last: bool,
}

impl Folder {
    pub(super) fn entry(&self, name: &Key) -> Path {
        let name = name.to_string();
        Path::from(format!("{}/{}/{name}", self.0, &name[..2]))
    }

    pub(super) fn lease(&self, name: &Key) -> Path {
        Path::from(format!("{}/lease/{name}", self.0))
    }

    pub(super) fn probe(&self, token: &Token) -> Path {
        let digits: String = token.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        Path::from(format!("{}/lease/probe-{digits}", self.0))
    }
}

/// What became of an attempt to take a lease.
pub(super) enum Taken {
    Ours(Version),
    Held(Version),
}

/// Returns whether the store heeds the conditions of leases: one that is there is not created again, and one is replaced once under
/// one version. Calls `on_answer` once the store has answered the first of these requests.
pub(super) async fn heeds_conditions(
    store: &dyn ObjectStore,
    probe: &Path,
    on_answer: impl FnOnce(),
) -> Result<bool, Trouble> {
    let [first, second, third, fourth] = [b"1", b"2", b"3", b"4"].map(|byte| Bytes::from_static(byte));
    let version = match create(store, probe, first).await {
        Ok(Some(version)) => version,
        Ok(None) | Err(Trouble::Unsupported(_)) => return Ok(false),
        Err(trouble) => return Err(trouble),
    };
    on_answer();
    let heeds = async {
        Ok(create(store, probe, second).await?.is_none()
            && replace(store, probe, third, &version).await?.is_some()
            && replace(store, probe, fourth, &version).await?.is_none())
    };
    let heeds = heeds.await;
    let _ = store.delete(probe).await;
    match heeds {
        // It took the first object, so it does not implement the conditions of the others.
        Err(Trouble::ReadOnly(_) | Trouble::Unsupported(_)) => Ok(false),
        heeds => heeds,
    }
}

/// Takes a lease if it is free, or still of the version `over`.
pub(super) async fn take(
    store: &dyn ObjectStore,
    lease: &Path,
    contents: Bytes,
    token: &Token,
    over: Option<&Version>,
) -> Result<Taken, Trouble> {
    if let Some(over) = over
        && let Some(version) = replace(store, lease, contents.clone(), over).await?
    {
        return Ok(Taken::Ours(version));
    }
    for attempt in 0..TRIES {
        if let Some(version) = create(store, lease, contents.clone()).await? {
            return Ok(Taken::Ours(version));
        }
        // S3 also answers so to creates at the same time, of which none may have won.
        match read_lease(store, lease).await? {
            Some((version, holder)) if holder == *token => return Ok(Taken::Ours(version)),
            Some((version, _)) => return Ok(Taken::Held(version)),
            None => tokio::time::sleep(Duration::from_millis(jitter(10 << attempt)?)).await,
        }
    }
    Err(Trouble::Busy("a lease comes and goes".to_owned()))
}

/// Replaces a lease, and returns its new version; `None` if it is not the token's.
pub(super) async fn renew_lease(
    store: &dyn ObjectStore,
    lease: &Path,
    contents: Bytes,
    token: &Token,
    held: &Version,
) -> Result<Option<Version>, Trouble> {
    if let Some(version) = replace(store, lease, contents.clone(), held).await? {
        return Ok(Some(version));
    }
    // It is the token's under another version if an acknowledgement was lost.
    match read_lease(store, lease).await? {
        Some((version, holder)) if holder == *token => replace(store, lease, contents, &version).await,
        _ => Ok(None),
    }
}

/// Returns a random number between half of `most` and `most`.
fn jitter(most: u64) -> Result<u64, Trouble> {
    Ok(most / 2 + u64::from(Token::random()?.as_bytes()[0]) * (most / 2) / 255)
}

/// Creates an object; `None` if there is one.
async fn create(store: &dyn ObjectStore, path: &Path, contents: Bytes) -> Result<Option<Version>, Trouble> {
    put_if(store, path, contents, PutMode::Create).await
}

/// Replaces an object of this version; `None` if it is gone or has another.
async fn replace(
    store: &dyn ObjectStore,
    path: &Path,
    contents: Bytes,
    version: &Version,
) -> Result<Option<Version>, Trouble> {
    let e_tag = String::from_utf8(version.as_bytes().to_vec()).ok();
    put_if(store, path, contents, PutMode::Update(UpdateVersion { e_tag, version: None })).await
}

async fn put_if(
    store: &dyn ObjectStore,
    path: &Path,
    contents: Bytes,
    mode: PutMode,
) -> Result<Option<Version>, Trouble> {
    match store.put_opts(path, PutPayload::from(contents), mode.into()).await {
        Ok(put) => Ok(Some(Version::new(put.e_tag.unwrap_or_default().into_bytes()))),
        Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) => Ok(None),
        // Some that take objects answer so to any condition.
        Err(error) if is_unimplemented(&error) => Err(Trouble::Unsupported("conditions".to_owned())),
        Err(error) => Err(trouble_of(&error)),
    }
}

/// Returns the version and the holder of a lease.
pub(super) async fn read_lease(
    store: &dyn ObjectStore,
    lease: &Path,
) -> Result<Option<(Version, Token)>, Trouble> {
    let found = match store.get(lease).await {
        Ok(found) => found,
        Err(Error::NotFound { .. }) => return Ok(None),
        Err(error) => return Err(trouble_of(&error)),
    };
    let version = Version::new(found.meta.e_tag.clone().unwrap_or_default().into_bytes());
    if found.meta.size > MAX_LEASE {
        return Ok(Some((version, Token::from_bytes([0; Token::LEN]))));
    }
    let bytes = found.bytes().await.map_err(|error| trouble_of(&error))?;
    // What is no lease is held by another, until it stood still for long enough.
    let token = bytes.first_chunk().copied().unwrap_or_default();
    Ok(Some((version, Token::from_bytes(token))))
}

pub(super) async fn delete(store: &dyn ObjectStore, path: &Path) -> Result<(), Trouble> {
    match store.delete(path).await {
        Ok(()) | Err(Error::NotFound { .. }) => Ok(()),
        Err(error) => Err(trouble_of(&error)),
    }
}

/// Reads an object.
pub(super) async fn get(store: &dyn ObjectStore, path: &Path) -> Result<Option<Entry>, Trouble> {
    let found = match store.get(path).await {
        Ok(found) => found,
        Err(Error::NotFound { .. }) => return Ok(None),
        Err(error) => return Err(trouble_of(&error)),
    };
    if found.meta.size > MAX_ENTRY {
        // What is put there by someone without the secret is a miss, and no failure of the store.
        return Ok(Some(Entry::default()));
    }
    // By this machine's clock: a wrong one renews objects too early or too late.
    let age = SystemTime::now().duration_since(found.meta.last_modified.into()).unwrap_or_default();
    let bytes = found.bytes().await.map_err(|error| trouble_of(&error))?;
    Ok(Some(Entry { bytes: bytes.into(), age }))
}

/// Copies an object to itself, on the server, so that it counts as new.
pub(super) async fn renew(store: &dyn ObjectStore, path: &Path) -> Result<(), Trouble> {
    // With the header that the client adds to this kind of copy; it is no condition.
    let in_place = CopyOptions { mode: CopyMode::Create, ..CopyOptions::default() };
    store.copy_opts(path, path, in_place).await.map_err(|error| trouble_of(&error))
}

pub(super) async fn is_stored(store: &dyn ObjectStore, path: &Path) -> Result<bool, Trouble> {
    Ok(version_of(store, path).await?.is_some())
}

/// Returns the version of an object, without reading it.
pub(super) async fn version_of(store: &dyn ObjectStore, path: &Path) -> Result<Option<Version>, Trouble> {
    match store.head(path).await {
        Ok(found) => Ok(Some(Version::new(found.e_tag.unwrap_or_default().into_bytes()))),
        Err(Error::NotFound { .. }) => Ok(None),
        Err(error) => Err(trouble_of(&error)),
    }
}

/// Lists the objects of a folder after this name, sorted. A store that begins from the start each time has no listing.
pub(super) async fn list(client: &Client, folder: &str, offset: Option<String>) -> Result<Page, Trouble> {
    let Client::S3(store) = client else {
        return Err(Trouble::Unsupported("listing: plain HTTP names no files".to_owned()));
    };
    let options = PaginatedListOptions { offset: offset.clone(), ..PaginatedListOptions::default() };
    let listed = store.list_paginated(Some(&format!("{folder}/")), options).await;
    let listed = listed.map_err(|error| trouble_of(&error))?;
    let objects = listed.result.objects.into_iter();
    let version = |e_tag: Option<String>| Version::new(e_tag.unwrap_or_default().into_bytes());
    let mut objects: Vec<_> = objects.map(|found| (found.location, version(found.e_tag))).collect();
    objects.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
    let last = objects.last().map(|(path, _)| path.to_string());
    let is_last = listed.page_token.is_none();
    if !is_last && offset.is_some() && last <= offset {
        return Err(Trouble::Unsupported("listing that begins where it is told to".to_owned()));
    }
    Ok(Page { objects, last, is_last })
}
