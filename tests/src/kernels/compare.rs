//! Inputs for the kernels, and the comparison of what they give with the reference.

/// An element of a kernel's inputs or outputs.
pub(super) trait Element: Copy + 'static {
    /// Fills outputs before a launch: an element that a kernel forgets fails the comparison.
    const UNWRITTEN: Self;

    fn to_f64(self) -> f64;

    /// The nearest there is; numbers between two integers go towards 0.
    fn from_f64(x: f64) -> Self;
}

macro_rules! element {
    ($($number:ty: $unwritten:expr),*) => {$(
        impl Element for $number {
            const UNWRITTEN: Self = $unwritten;

            fn to_f64(self) -> f64 {
                self.into()
            }

            fn from_f64(x: f64) -> Self {
                x as Self
            }
        }
    )*};
}

element!(f32: f32::NAN, f64: f64::NAN, i8: i8::MIN, u8: u8::MAX, i32: i32::MIN, u32: u32::MAX);

/// Numbers that look random and are the same in every process (splitmix64).
pub(super) struct Inputs(u64);

impl Inputs {
    pub(super) fn new() -> Self {
        Self(1)
    }

    /// `n` elements, evenly spread from `low` to below `high`.
    pub(super) fn uniform<T: Element>(&mut self, n: usize, low: f64, high: f64) -> Vec<T> {
        (0..n).map(|_| T::from_f64(low + (high - low) * self.fraction())).collect()
    }

    fn fraction(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((bits ^ (bits >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }
}

pub(super) fn unwritten<T: Element>(n: usize) -> Vec<T> {
    vec![T::UNWRITTEN; n]
}

pub(super) fn widened<T: Element>(elements: &[T]) -> Vec<f64> {
    elements.iter().map(|x| x.to_f64()).collect()
}

/// The tolerance of an element: `absolute + relative * |reference|`.
#[derive(Clone, Copy)]
pub(super) struct Tolerance {
    pub(super) absolute: f64,
    pub(super) relative: f64,
}

impl Tolerance {
    /// The element nearest to the reference, and no other.
    pub(super) const EXACT: Self = Self { absolute: 0.0, relative: 0.0 };

    pub(super) const fn absolute(absolute: f64) -> Self {
        Self { absolute, relative: 0.0 }
    }

    pub(super) const fn relative(relative: f64) -> Self {
        Self { absolute: 0.0, relative }
    }

    /// This one, and so much more everywhere.
    pub(super) const fn plus(self, absolute: f64) -> Self {
        Self { absolute: self.absolute + absolute, relative: self.relative }
    }
}

/// Compares what a kernel gave with what the reference wants, each of them as near as `T` can be.
///
/// # Errors
/// The first element that is too far away, or is no number.
pub(super) fn compare<T: Element>(
    what: &str,
    given: &[T],
    wanted: &[f64],
    tolerance: Tolerance,
) -> Result<(), String> {
    if given.len() != wanted.len() {
        return Err(format!("{what}: {} elements, the reference has {}", given.len(), wanted.len()));
    }
    for (i, (given, wanted)) in given.iter().zip(wanted).enumerate() {
        let (given, wanted) = (given.to_f64(), T::from_f64(*wanted).to_f64());
        let allowed = tolerance.absolute + tolerance.relative * wanted.abs();
        let distance = (given - wanted).abs();
        if distance.is_nan() || distance > allowed {
            return Err(format!(
                "{what}[{i}] is {given:e}, the reference {wanted:e}; at most {allowed:.1e} apart is right"
            ));
        }
    }
    Ok(())
}
