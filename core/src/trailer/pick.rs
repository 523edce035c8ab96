//! Which index of a file of version 3 counts.

use super::{
    Refusal,
    header::{Commits, Place, Slot},
    index::Layout,
};

/// The index that counts, and what else is known of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Picked<B> {
    /// Where its commit slot is. The next commit is written [beside](Commits::place_beside) it.
    pub place: Place,
    /// Its commit slot.
    pub slot: Slot,
    /// Where its parts are in the block.
    pub layout: Layout,
    /// The bytes of the index block.
    pub block: B,
    /// Why a commit that could be newer does not count: this index is then what was recovered.
    pub refused: Option<Refusal>,
}

/// The newest index of the file that is whole; nothing if nothing was ever committed.
///
/// The file is `file_len` bytes long. `read` gives the bytes of an index block, which are in the file by then, or nothing
/// if they cannot be read.
///
/// ```
/// use warmstart_core::trailer::{build::IndexBuilder, header::{Commits, Header, Place, Slot}, pick::pick};
///
/// let mut file = Header::encode([7; 16]).to_vec();
/// let block = IndexBuilder::new().finish(4096, 1)?;
/// let slot = Slot::of(1, 4096, &block);
/// file.extend_from_slice(&block);
/// file[512..576].copy_from_slice(&slot.encode(&[7; 16]));
///
/// let commits = Commits::read(&file)?;
/// let read = |slot: &Slot| file.get(slot.index_start as usize..slot.end() as usize);
/// let picked = pick(&commits, file.len() as u64, read)?.expect("something was committed");
/// assert_eq!((picked.place, picked.slot.generation), (Place::A, 1));
/// assert!(picked.layout.view(picked.block).is_empty());
/// # Ok::<(), warmstart_core::trailer::Refusal>(())
/// ```
///
/// # Errors
/// Why the newest index is refused, if the other one is too.
pub fn pick<B: AsRef<[u8]>>(
    commits: &Commits,
    file_len: u64,
    mut read: impl FnMut(&Slot) -> Option<B>,
) -> Result<Option<Picked<B>>, Refusal> {
    let mut refused = None;
    for (place, slot) in commits.iter() {
        let outside = Refusal::Outside { end: slot.end(), len: file_len };
        let block = if slot.end() > file_len { None } else { read(&slot) };
        let checked = block.ok_or(outside).and_then(|block| {
            let layout = Layout::check(block.as_ref(), &slot)?;
            Ok((layout, block))
        });
        match checked {
            Ok((layout, block)) => {
                let refused = refused.or(commits.refused());
                return Ok(Some(Picked { place, slot, layout, block, refused }));
            }
            Err(refusal) => refused = refused.or(Some(refusal)),
        }
    }
    refused.map_or(Ok(None), Err)
}
