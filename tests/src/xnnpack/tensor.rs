//! Numbers where XNNPACK may read them.

use std::ops::{Deref, DerefMut, Range};

use super::abi;
use crate::noise::noise;

/// Numbers that may be handed to XNNPACK: it reads up to 16 bytes behind any tensor, and those are there.
#[derive(Clone, Debug)]
pub struct Tensor<T: Element = f32> {
    /// With as many more behind them as XNNPACK may read.
    padded: Vec<T>,
    len: usize,
}

/// Some numbers of a tensor, behind which XNNPACK may read as well.
#[derive(Clone, Copy, Debug)]
pub struct View<'a, T: Element = f32> {
    numbers: &'a [T],
}

/// The upper half of the bits of a 32-bit number.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bf16(u16);

/// A type of numbers that XNNPACK knows.
pub trait Element: Copy + Default + sealed::Sealed {
    /// Its number in XNNPACK's enumeration.
    #[doc(hidden)]
    const DATATYPE: i32;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for super::Bf16 {}
}

impl<T: Element> Tensor<T> {
    /// So many zeros.
    #[must_use]
    pub fn zeros(len: usize) -> Self {
        let padding = abi::EXTRA_BYTES.div_ceil(size_of::<T>());
        Self { padded: vec![T::default(); len + padding], len }
    }

    /// Some of its numbers.
    ///
    /// # Panics
    /// If it has not so many.
    #[must_use]
    pub fn view(&self, range: Range<usize>) -> View<'_, T> {
        View { numbers: &self[range] }
    }
}

impl Tensor {
    /// So many numbers from -1 to 1 that are the same at each call.
    #[must_use]
    pub fn noise(len: usize, seed: u32) -> Self {
        noise(seed).take(len).collect()
    }

    /// The bits of its numbers, to see that two tensors are the same.
    #[must_use]
    pub fn bits(&self) -> Vec<u32> {
        self.iter().map(|number| number.to_bits()).collect()
    }
}

impl<'a, T: Element> From<&'a Tensor<T>> for View<'a, T> {
    fn from(tensor: &'a Tensor<T>) -> Self {
        Self { numbers: tensor }
    }
}

impl<T: Element> Deref for View<'_, T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        self.numbers
    }
}

impl<T: Element> FromIterator<T> for Tensor<T> {
    fn from_iter<I: IntoIterator<Item = T>>(numbers: I) -> Self {
        let mut padded: Vec<T> = numbers.into_iter().collect();
        let len = padded.len();
        padded.resize(len + abi::EXTRA_BYTES.div_ceil(size_of::<T>()), T::default());
        Self { padded, len }
    }
}

impl<T: Element> Deref for Tensor<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.padded[..self.len]
    }
}

impl<T: Element> DerefMut for Tensor<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.padded[..self.len]
    }
}

impl Bf16 {
    /// Returns a number with the lower half of its bits cut off.
    #[must_use]
    pub const fn truncated(number: f32) -> Self {
        Self((number.to_bits() >> 16) as u16)
    }

    /// The number.
    #[must_use]
    pub const fn to_f32(self) -> f32 {
        f32::from_bits((self.0 as u32) << 16)
    }
}

impl Element for f32 {
    const DATATYPE: i32 = abi::FP32;
}

impl Element for Bf16 {
    const DATATYPE: i32 = abi::BF16;
}
