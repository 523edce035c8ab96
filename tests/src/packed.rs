//! Packed weights that prove which they are.

use std::{
    fs, io,
    ops::Range,
    path::{Path, PathBuf},
};

use tempfile::TempDir;
use warmstart::{
    MissReason, OpenError,
    pack::{Fingerprint, ModelId, Name, Pack, PackOptions, Packing, WeightKey},
};

/// The name of weight number `i`, with a bias if `i` is odd.
#[must_use]
pub fn names(i: u32) -> (String, Option<String>) {
    (format!("encoder.layer.{i}.weight"), (i % 2 == 1).then(|| format!("encoder.layer.{i}.bias")))
}

/// A weight: its number, its model and its packing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Weight {
    /// The number of the weight.
    pub number: u32,
    /// The model.
    pub model: u8,
    /// The seed of the packing.
    pub seed: u32,
    /// The value of the fingerprint.
    pub fingerprint: u32,
}

impl Weight {
    /// Creates a weight of the usual model and packing.
    #[must_use]
    pub const fn number(number: u32) -> Self {
        Self { number, model: 1, seed: 7, fingerprint: 9 }
    }

    /// Returns the packed size in bytes: around those of a line, a page and more.
    #[must_use]
    pub const fn size(&self) -> usize {
        match self.number % 5 {
            0 => 1 + self.number as usize,
            1 => 128,
            2 => 4096,
            3 => 10_007,
            _ => 70_001,
        }
    }

    /// Calls `ask` with what a look-up for it wants.
    pub fn wanted<T>(&self, ask: impl FnOnce(&WeightKey<'_>) -> T) -> T {
        let (weight, bias) = names(self.number);
        let fingerprint = Fingerprint { id: 5, value: Some(self.fingerprint) };
        ask(&WeightKey {
            name: Name { weight: &weight, bias: bias.as_deref() },
            model: ModelId::from_bytes([self.model; 32]),
            packing: Packing { seed: self.seed, fingerprint: Some(fingerprint) },
        })
    }

    /// Byte `at` of what it is packed into.
    #[must_use]
    pub const fn byte(&self, at: usize) -> u8 {
        let mixed = self.number.wrapping_mul(0x9e37_79b1)
            ^ (self.model as u32).wrapping_mul(0x85eb_ca77)
            ^ self.seed.wrapping_mul(0xc2b2_ae3d)
            ^ self.fingerprint.wrapping_mul(0x27d4_eb2f);
        (mixed as usize).wrapping_add(at.wrapping_mul(7)).wrapping_add(at >> 8) as u8
    }

    /// Packs it.
    ///
    /// # Errors
    /// If not even the heap has room.
    pub fn pack(&self, pack: &Pack) -> io::Result<()> {
        let mut reservation = pack.reserve(self.size())?;
        reservation.bytes_mut().iter_mut().enumerate().for_each(|(at, byte)| *byte = self.byte(at));
        self.wanted(|wanted| pack.insert(wanted, reservation));
        Ok(())
    }

    /// Looks it up.
    ///
    /// # Errors
    /// Why it was not found.
    ///
    /// # Panics
    /// If something else was found in its place.
    pub fn find(&self, pack: &Pack) -> Result<(), MissReason> {
        let weights = self.wanted(|wanted| pack.look_up(wanted))?;
        assert_eq!(weights.len(), self.size(), "{self:?} has another length");
        let wrong = weights.iter().enumerate().position(|(at, byte)| *byte != self.byte(at));
        assert_eq!(wrong, None, "{self:?} differs from this byte on");
        Ok(())
    }
}

/// The weights of these numbers.
pub fn weights(numbers: Range<u32>) -> impl Iterator<Item = Weight> + Clone {
    numbers.map(Weight::number)
}

/// A path where nothing is, in a directory that goes with what is returned.
///
/// # Errors
/// If no directory can be made.
pub fn place() -> io::Result<(TempDir, PathBuf)> {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("weights.xpwc");
    Ok((directory, path))
}

/// The pack under a path, opened as by default.
///
/// # Errors
/// If something else is there.
pub fn open(path: &Path) -> Result<Pack, OpenError> {
    Pack::open(path, PackOptions::default())
}

/// Packs weights that are not found, and says how many these were.
///
/// # Errors
/// If not even the heap has room.
pub fn use_all(pack: &Pack, weights: impl IntoIterator<Item = Weight>) -> io::Result<usize> {
    let mut packed = 0;
    for weight in weights {
        if weight.find(pack).is_err() {
            weight.pack(pack)?;
            packed += 1;
        }
    }
    Ok(packed)
}

/// A pack of these weights, saved.
///
/// # Errors
/// If it could not be opened, or nothing saved.
pub fn saved(
    path: &Path,
    options: PackOptions,
    weights: impl IntoIterator<Item = Weight>,
) -> io::Result<Pack> {
    let pack = Pack::open(path, options).map_err(io::Error::other)?;
    use_all(&pack, weights)?;
    pack.save().map_err(io::Error::other)?;
    Ok(pack)
}

/// Saves weights 0 to 9 of model 1 and 5 to 9 of model 2, in two commits.
///
/// # Errors
/// As of [`saved`].
pub fn two_models(path: &Path) -> io::Result<()> {
    drop(saved(path, PackOptions::default(), weights(0..10))?);
    let other = weights(5..10).map(|weight| Weight { model: 2, ..weight });
    saved(path, PackOptions::default(), other).map(drop)
}

/// The names in a directory, sorted.
///
/// # Errors
/// As the system reports.
pub fn names_in(directory: &Path) -> io::Result<Vec<String>> {
    let name = |entry: io::Result<fs::DirEntry>| Ok(entry?.file_name().to_string_lossy().into_owned());
    let mut names = fs::read_dir(directory)?.map(name).collect::<io::Result<Vec<_>>>()?;
    names.sort();
    Ok(names)
}

/// The bytes of a file and when it was last changed.
///
/// # Errors
/// As the system reports.
pub fn image(path: &Path) -> io::Result<(Vec<u8>, std::time::SystemTime)> {
    Ok((fs::read(path)?, fs::metadata(path)?.modified()?))
}
