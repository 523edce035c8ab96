//! Tables of places, by the hashes of what lies there. What is not on the path of a look-up is compiled once for all
//! of them.

use hashbrown::HashTable;

/// Adds a place that is not there yet. `hash_of` gives the hash of every place, also of those that are there.
pub(crate) fn insert(table: &mut HashTable<u32>, at: u32, hash_of: &dyn Fn(&u32) -> u64) {
    table.insert_unique(hash_of(&at), at, hash_of);
}

/// Takes the memory for `additional` more places at once.
pub(crate) fn reserve(table: &mut HashTable<u32>, additional: usize, hash_of: &dyn Fn(&u32) -> u64) {
    table.reserve(additional, hash_of);
}

/// Removes a place. Says whether it was there.
pub(crate) fn remove(table: &mut HashTable<u32>, hash: u64, at: u32) -> bool {
    match table.find_entry(hash, |other| *other == at) {
        Ok(found) => {
            found.remove();
            true
        }
        Err(_) => false,
    }
}

/// What was at a place is now at another.
pub(crate) fn rename(table: &mut HashTable<u32>, hash: u64, from: u32, to: u32) {
    if let Some(place) = table.find_mut(hash, |other| *other == from) {
        *place = to;
    }
}
