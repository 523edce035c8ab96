//! Counts the whole and the damaged entries of a store.

use warmstart::{MissReason, Store};

/// Counts what is whole in any store.
pub trait Whole {
    /// Reads every entry to its end, counts what is whole, and has the store remove what is damaged.
    ///
    /// # Errors
    /// The reason why that is not known.
    fn whole(&self) -> Result<u64, MissReason>;

    /// Does the same, and counts what is damaged as well, or was lost after it was found to be whole.
    ///
    /// # Errors
    /// The reason why that is not known.
    fn whole_and_damaged(&self) -> Result<(u64, u64), MissReason>;
}

impl<S: Store + ?Sized> Whole for S {
    fn whole(&self) -> Result<u64, MissReason> {
        self.inspect().ok_or(MissReason::Unavailable)?.verify(&mut |_| ())
    }

    fn whole_and_damaged(&self) -> Result<(u64, u64), MissReason> {
        let (mut told_whole, mut damaged) = (0, 0);
        let whole =
            self.inspect().ok_or(MissReason::Unavailable)?.verify(&mut |proof| match proof.result {
                Ok(()) => told_whole += 1,
                Err(reason) => damaged += u64::from(reason.is_damage()),
            })?;
        Ok((whole, damaged + told_whole - whole))
    }
}
