//! The layers as operators of the real XNNPACK, which packs them, or finds them packed through our weights cache.

use std::io;

use warmstart::{
    pack::Pack,
    target::xnnpack::{Abi, Provider},
};

use super::{INPUTS, Layers, OUTPUTS, digest, model, process::Model};
use crate::xnnpack::{Error, FullyConnected, Library, Tensor, WeightsCache};

/// Layers that XNNPACK computes.
#[derive(Debug)]
pub struct Operators<'a> {
    library: &'static Library,
    layers: &'a Layers,
    /// The numbers of the layers, where XNNPACK may read them.
    noise: &'a Tensor,
    input: Tensor,
}

/// Operators that were created, and what they have their weights from.
#[derive(Debug)]
pub struct Created<'a> {
    // Dropped in this order: operators have addresses in what the provider keeps.
    operators: Vec<FullyConnected<'a>>,
    provider: Provider,
}

impl<'a> Operators<'a> {
    /// These layers, whose numbers are those of [`noise`](Self::noise).
    #[must_use]
    pub fn new(library: &'static Library, layers: &'a Layers, noise: &'a Tensor) -> Self {
        Self { library, layers, noise, input: layers.weight(0)[..INPUTS].iter().copied().collect() }
    }

    /// The numbers of the layers.
    #[must_use]
    pub fn noise(layers: &Layers) -> Tensor {
        layers.noise.iter().copied().collect()
    }

    fn provider(&self, pack: &Pack) -> Provider {
        let provider = Provider::new(pack.clone(), Abi::V2025, model());
        // SAFETY: the function is XNNPACK's own.
        unsafe { provider.with_fingerprints(self.library.fingerprint_function()) }
    }

    /// Creates the operator of a layer, which is dropped before the provider.
    fn create(&self, i: usize, provider: &Provider) -> io::Result<FullyConnected<'a>> {
        let weights = self.noise.view(Layers::place_of_weight(i));
        let biases = self.noise.view(self.layers.place_of_bias(i));
        let (weight, bias) = &self.layers.names()[i];
        provider.register(weights.as_ptr(), weight);
        provider.register(biases.as_ptr(), bias);
        // SAFETY: what the provider hands out stays where it is as long as it lives, and the caller drops it after
        // the operator. The names are those of the numbers that lie at these addresses.
        let cache = unsafe { WeightsCache::from_raw(provider.as_ptr().cast()) };
        FullyConnected::of_views(self.library, weights, Some(biases), INPUTS, Some(cache)).map_err(failed)
    }

    /// Runs all operators, and calls `seen` with what each computed.
    fn run(&self, used: &mut Created<'a>, mut seen: impl FnMut(&Tensor)) -> io::Result<()> {
        let mut output = Tensor::zeros(OUTPUTS);
        for operator in &mut used.operators {
            operator.reshape(1).map_err(failed)?;
            operator.run(&self.input, &mut output).map_err(failed)?;
            seen(&output);
        }
        Ok(())
    }
}

impl<'a> Model for Operators<'a> {
    type Used<'p> = Created<'a>;

    fn use_all<'p>(&mut self, pack: &'p Pack) -> io::Result<(Created<'a>, usize)> {
        let before = pack.statistics().packed;
        let provider = self.provider(pack);
        let mut created = Created { operators: Vec::with_capacity(self.layers.len()), provider };
        for i in 0..self.layers.len() {
            created.operators.push(self.create(i, &created.provider)?);
        }
        Ok((created, packed_since(pack, before)))
    }

    /// An operator takes more memory than what finds its weights, and is XNNPACK's own.
    fn use_in_turn(&mut self, pack: &Pack) -> io::Result<usize> {
        let before = pack.statistics().packed;
        let mut created = Created { operators: Vec::with_capacity(1), provider: self.provider(pack) };
        for i in 0..self.layers.len() {
            created.operators.push(self.create(i, &created.provider)?);
            created.provider.finalize();
            self.touch(&mut created)?;
            created.operators.clear();
        }
        Ok(packed_since(pack, before))
    }

    fn finalize(&self, used: &Created<'a>, _: &Pack) {
        used.provider.finalize();
    }

    fn touch(&self, used: &mut Created<'a>) -> io::Result<u64> {
        let mut sum = 0;
        self.run(used, |output| sum ^= u64::from(output[0].to_bits()))?;
        Ok(sum)
    }

    fn digest(&self, used: &mut Created<'a>) -> io::Result<u64> {
        let mut sums = Vec::with_capacity(used.operators.len());
        self.run(used, |output| {
            let bytes: Vec<u8> = output.iter().flat_map(|number| number.to_bits().to_le_bytes()).collect();
            sums.push(digest([&*bytes]).to_le_bytes());
        })?;
        Ok(digest(sums.iter().map(<[u8; 8]>::as_slice)))
    }
}

/// Returns the number of weights packed since the count was `before`.
fn packed_since(pack: &Pack, before: u64) -> usize {
    usize::try_from(pack.statistics().packed - before).unwrap_or(usize::MAX)
}

fn failed(error: Error) -> io::Error {
    io::Error::other(error)
}
