//! Picks the active index of a file of version 3, which is the newest intact one.

use super::{
    Commits, FormatError, Place, Slot,
    index::{Layout, check},
};

/// The active index of a file, and its location.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ActiveIndex<B> {
    /// The position of its commit slot. The next commit is written [beside](Commits::place_beside) it.
    pub place: Place,
    /// The commit slot of the index.
    pub slot: Slot,
    /// The locations of the index's parts in the block.
    pub layout: Layout,
    /// The bytes of the index block.
    pub block: B,
    /// The reason why a commit that could be newer was refused. This index is then the one recovered.
    pub refused: Option<FormatError>,
}

/// Returns the newest intact index of the file; `None` if nothing was ever committed.
///
/// The file is `file_len` bytes long. `read` returns the bytes of an index block, which lies within the file, or `None` if they
/// cannot be read.
///
/// ```
/// use warmstart_core::trailer::{Commits, Header, Place, Slot, index::encode, pick::pick};
///
/// let mut file = Header::encode([7; 16]).to_vec();
/// let block = encode(Vec::new(), 4096, 1)?;
/// let slot = Slot::of(1, 4096, &block);
/// file.extend_from_slice(&block);
/// file[512..576].copy_from_slice(&slot.encode(&[7; 16]));
///
/// let commits = Commits::read(&file)?;
/// let read = |slot: &Slot| file.get(slot.index_start as usize..slot.end() as usize);
/// let picked = pick(&commits, file.len() as u64, read)?.expect("something was committed");
/// assert_eq!((picked.place, picked.slot.generation), (Place::A, 1));
/// assert!(picked.layout.view(picked.block).is_empty());
/// # Ok::<(), warmstart_core::trailer::FormatError>(())
/// ```
///
/// # Errors
/// The reason why the newest index is refused, if the other one is refused too.
pub fn pick<B: AsRef<[u8]>>(
    commits: &Commits,
    file_len: u64,
    mut read: impl FnMut(&Slot) -> Option<B>,
) -> Result<Option<ActiveIndex<B>>, FormatError> {
    let mut refused = None;
    for (place, slot) in commits.iter() {
        let outside = FormatError::Outside { end: slot.end(), len: file_len };
        let block = if slot.end() > file_len { None } else { read(&slot) };
        let checked = block.ok_or(outside).and_then(|block| {
            let layout = check(block.as_ref(), &slot)?;
            Ok((layout, block))
        });
        match checked {
            Ok((layout, block)) => {
                let refused = refused.or(commits.refused());
                return Ok(Some(ActiveIndex { place, slot, layout, block, refused }));
            }
            Err(refusal) => refused = refused.or(Some(refusal)),
        }
    }
    refused.map_or(Ok(None), Err)
}
