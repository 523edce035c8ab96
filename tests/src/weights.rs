//! The weights of a model that is large enough to measure: 1184 fully-connected layers of 256 inputs and 512 outputs.
//!
//! [`process`] has what is done with them in a process of its own. The packed weights are 623 MB, as many as were reported
//! of a phone.

pub mod process;
#[cfg(feature = "xnnpack")]
pub mod xnnpack;

use std::{io, ops::Range, path::Path};

use warmstart::{
    MissReason,
    pack::{Fingerprint, ModelId, Name, Pack, PackOptions, Packing, Saved, WeightKey, Weights},
};
use warmstart_core::trailer::Checksum;

use crate::noise::noise;

/// The number of weights.
pub const COUNT: usize = 1184;

/// Inputs of a layer.
pub const INPUTS: usize = 256;

/// Outputs of a layer.
pub const OUTPUTS: usize = 512;

/// Bytes of a layer that is packed: its weights and its biases, in 32-bit numbers.
pub const PACKED_LEN: usize = OUTPUTS * (INPUTS + 1) * size_of::<f32>();

/// Outputs that a kernel computes at once, and that are packed side by side.
const PANEL: usize = 16;

/// The offset of a layer's numbers from those of the layer before, in the noise that all are taken from.
const STRIDE: usize = 16;

/// The layers before they are packed. They overlap in memory, so that what is measured is what is packed.
#[derive(Clone, Debug)]
pub struct Layers {
    noise: Vec<f32>,
    names: Vec<(String, String)>,
}

/// The names of layer number `i`, of its weight and of its bias.
#[must_use]
pub fn names(i: usize) -> (String, String) {
    let layer = format!("encoder.layer.{}.projection.{}", i / 8, i % 8);
    (format!("{layer}.weight"), format!("{layer}.bias"))
}

/// Returns the digest of the model.
#[must_use]
pub const fn model() -> ModelId {
    ModelId::from_bytes([0x5a; 32])
}

/// The packing of the plain packer.
#[must_use]
pub const fn packing() -> Packing {
    Packing { seed: PANEL as u32, fingerprint: Some(Fingerprint { id: 1, value: Some(0x6e72_3136) }) }
}

/// Returns the key of a layer that the plain packer packs.
#[inline]
#[must_use]
pub fn wanted((weight, bias): &(String, String)) -> WeightKey<'_> {
    WeightKey { name: Name::new(weight).with_bias(bias), model: model(), packing: packing() }
}

impl Layers {
    /// So many layers.
    #[must_use]
    pub fn new(count: usize) -> Self {
        let len = INPUTS * OUTPUTS + STRIDE * (count + 1);
        Self { noise: noise(1).take(len).collect(), names: (0..count).map(names).collect() }
    }

    /// Returns the number of layers.
    #[must_use]
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// The names, of the weight and of the bias of each layer.
    #[must_use]
    pub fn names(&self) -> &[(String, String)] {
        &self.names
    }

    /// The weights of a layer, a row for each output.
    #[must_use]
    pub fn weight(&self, i: usize) -> &[f32] {
        &self.noise[Self::place_of_weight(i)]
    }

    /// The biases of a layer, one for each output.
    #[must_use]
    pub fn bias(&self, i: usize) -> &[f32] {
        &self.noise[self.place_of_bias(i)]
    }

    fn place_of_weight(i: usize) -> Range<usize> {
        let at = i * STRIDE;
        at..at + INPUTS * OUTPUTS
    }

    fn place_of_bias(&self, i: usize) -> Range<usize> {
        // Never where a weight begins: XNNPACK tells tensors apart by where they are.
        let at = (self.len() - i) * STRIDE + STRIDE / 2;
        at..at + OUTPUTS
    }

    /// Packs a layer as kernels of matrix multiplication want it: panels of 16 outputs, the biases in front, then the 16
    /// weights of each input.
    ///
    /// # Panics
    /// If `into` is not as long as a packed layer.
    pub fn pack(&self, i: usize, into: &mut [u8]) {
        assert_eq!(into.len(), PACKED_LEN);
        let (weight, bias) = (self.weight(i), self.bias(i));
        let (numbers, _) = into.as_chunks_mut::<4>();
        for (panel, numbers) in numbers.chunks_exact_mut(PANEL * (INPUTS + 1)).enumerate() {
            let (biases, weights) = numbers.split_at_mut(PANEL);
            let first = panel * PANEL;
            for (to, from) in biases.iter_mut().zip(&bias[first..]) {
                *to = from.to_le_bytes();
            }
            for (output, row) in weight[first * INPUTS..].chunks_exact(INPUTS).take(PANEL).enumerate() {
                for (to, from) in weights[output..].iter_mut().step_by(PANEL).zip(row) {
                    *to = from.to_le_bytes();
                }
            }
        }
    }

    /// Looks every layer up, and packs those that are not found. Says how many these were.
    ///
    /// # Errors
    /// If not even the heap has room.
    pub fn use_all<'p>(&self, pack: &'p Pack) -> io::Result<(Vec<Weights<'p>>, usize)> {
        let mut packed = 0;
        let mut all = Vec::with_capacity(self.len());
        for (i, names) in self.names.iter().enumerate() {
            let wanted = wanted(names);
            all.push(match pack.look_up(&wanted) {
                Ok(weights) => weights,
                Err(_) => {
                    let mut reservation = pack.reserve(PACKED_LEN)?;
                    self.pack(i, reservation.bytes_mut());
                    packed += 1;
                    pack.insert(&wanted, reservation)
                }
            });
        }
        Ok((all, packed))
    }
}

/// Reads one byte of every line of the cache, and adds them up.
///
/// It is never inlined, so that all that are compared run the same instructions.
#[inline(never)]
#[must_use]
pub fn touch(bytes: &[u8]) -> u64 {
    bytes.chunks(64).map(|line| u64::from(line[0])).sum()
}

/// The checksum of many payloads, one after the other.
#[must_use]
pub fn digest<'a>(payloads: impl IntoIterator<Item = &'a [u8]>) -> u64 {
    let mut digest = Checksum::new();
    payloads.into_iter().for_each(|payload| digest.update(payload));
    digest.finish()
}

/// Makes a pack of so many weights with payloads of this length that are all zeros, and saves it.
///
/// # Errors
/// If there is no room, or it could not be saved.
pub fn save_zeros(path: &Path, count: usize, len: usize) -> io::Result<Saved> {
    let pack = Pack::open(path, PackOptions::default()).map_err(io::Error::other)?;
    for i in 0..count {
        let reservation = pack.reserve(len)?;
        pack.insert(&wanted(&names(i)), reservation);
    }
    let saved = pack.save().map_err(|reason: MissReason| io::Error::other(reason.to_string()))?;
    if saved.entries == count { Ok(saved) } else { Err(io::Error::other("not all weights were saved")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packed_layer_has_every_number_in_its_place() {
        let layers = Layers::new(3);
        let mut packed = vec![0; PACKED_LEN];
        layers.pack(2, &mut packed);
        let number = |panel: usize, row: usize, lane: usize| {
            let at = (panel * PANEL * (INPUTS + 1) + row * PANEL + lane) * 4;
            f32::from_le_bytes(packed[at..at + 4].try_into().unwrap())
        };
        for output in 0..OUTPUTS {
            let (panel, lane) = (output / PANEL, output % PANEL);
            assert_eq!(number(panel, 0, lane), layers.bias(2)[output]);
            for input in 0..INPUTS {
                assert_eq!(number(panel, 1 + input, lane), layers.weight(2)[output * INPUTS + input]);
            }
        }
    }

    #[test]
    fn no_two_layers_are_alike() {
        let layers = Layers::new(3);
        assert_ne!(layers.weight(0), layers.weight(1));
        assert_ne!(layers.bias(0), layers.bias(1));
        assert_ne!(names(7), names(8));
    }
}
