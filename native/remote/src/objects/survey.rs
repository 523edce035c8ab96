//! Finds out the state of many names in few requests.

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use object_store::path::Path;
use warmstart_core::key::Key;

use super::{
    client::Client,
    requests::{AT_ONCE, Folder, is_stored, list, version_of},
};
use crate::engine::{Surveyed, Trouble, Version};

/// The fewest names for which a page of a listing is worth a request: fewer are asked for one by one, all at once.
const WORTH_LISTING: usize = 8;

/// Finds out the state of each name in as few requests as may be. In one page of a small store, the leases follow the entries. Of a
/// large one, names are asked for one by one where a page would tell of few of them.
///
/// The leases are listed after the entries were looked for, so that a name may be called free whose entry was stored meanwhile. A claim
/// looks again.
pub(super) async fn survey(
    client: &Client,
    names: &[Key],
    folder: &Folder,
) -> Result<Vec<Surveyed>, Trouble> {
    let mut states = vec![None; names.len()];
    let mut order: Vec<usize> = (0..names.len()).collect();
    order.sort_unstable_by_key(|at| names[*at]);
    let Some(first) = order.first() else { return Ok(Vec::new()) };

    let mut leases = None;
    let mut unknown = &order[..];
    if let Client::S3(_) = client
        && unknown.len() >= WORTH_LISTING
    {
        // Everything that begins as the first name does comes after this.
        let mut offset = folder.entry(&names[*first]).to_string();
        offset.pop();
        loop {
            let page = list(client, &folder.0, Some(offset.clone())).await?;
            let seen = |at: &usize| {
                let path = folder.entry(&names[*at]);
                page.last.as_ref().is_none_or(|last| page.is_last || path.as_ref() <= last.as_str())
            };
            let (told, rest) = unknown.split_at(unknown.partition_point(seen));
            for at in told {
                let path = folder.entry(&names[*at]);
                states[*at] = Some(page.objects.iter().any(|(found, _)| *found == path));
            }
            unknown = rest;
            if page.is_last {
                leases = Some(page.objects);
                break;
            }
            match page.last {
                Some(last) if !unknown.is_empty() && told.len() >= WORTH_LISTING => offset = last,
                _ => break,
            }
        }
    }
    let asked: Vec<(usize, Path)> = unknown.iter().map(|at| (*at, folder.entry(&names[*at]))).collect();
    let asked: Vec<(usize, bool)> = stream::iter(asked)
        .map(|(at, path)| async move { Ok::<_, Trouble>((at, is_stored(client.store(), &path).await?)) })
        .buffered(AT_ONCE)
        .try_collect()
        .await?;
    asked.into_iter().for_each(|(at, is_stored)| states[at] = Some(is_stored));

    let absent = (0..names.len()).filter(|at| states[*at] == Some(false)).map(|at| folder.lease(&names[at]));
    let absent: Vec<Path> = absent.collect();
    let leases = match (leases, client) {
        (Some(leases), _) => leases,
        (None, Client::S3(_)) if absent.len() >= WORTH_LISTING => list_leases(client, folder).await?,
        (None, Client::S3(_)) => {
            let found = |path: Path| async move {
                let version = version_of(client.store(), &path).await?;
                Ok::<_, Trouble>(version.map(|version| (path, version)))
            };
            let found: Vec<_> = stream::iter(absent).map(found).buffered(AT_ONCE).try_collect().await?;
            found.into_iter().flatten().collect()
        }
        _ => Vec::new(),
    };
    let state = |(name, is_stored): (&Key, &Option<bool>)| {
        if *is_stored == Some(true) {
            return Surveyed::Stored;
        }
        let lease = folder.lease(name);
        let held = leases.iter().find(|(path, _)| *path == lease);
        held.map_or(Surveyed::Free, |(_, version)| Surveyed::Held(version.clone()))
    };
    Ok(names.iter().zip(&states).map(state).collect())
}

async fn list_leases(client: &Client, folder: &Folder) -> Result<Vec<(Path, Version)>, Trouble> {
    let (mut leases, mut offset) = (Vec::new(), None);
    loop {
        let page = list(client, &format!("{}/lease", folder.0), offset).await?;
        leases.extend(page.objects);
        match page.last {
            Some(last) if !page.is_last => offset = Some(last),
            _ => return Ok(leases),
        }
    }
}
