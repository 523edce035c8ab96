//! The device that runs a kernel, and the kernel's arguments.

/// Runs the functions of one compiled program.
pub trait Device {
    /// Launches a function, named as in [`Case::functions`](super::Case), and waits for it. Outputs
    /// are filled then.
    ///
    /// # Errors
    /// The message of the device, or the mistake in the launch.
    fn launch(
        &self,
        function: &str,
        geometry: Geometry,
        arguments: &mut [Argument<'_>],
    ) -> Result<(), String>;
}

/// The number of blocks, and that of threads in each.
#[derive(Clone, Copy)]
pub struct Geometry {
    pub grid: (u32, u32, u32),
    pub block: (u32, u32, u32),
}

impl Geometry {
    /// `blocks` blocks of `threads` threads.
    pub fn row(blocks: usize, threads: usize) -> Self {
        Self { grid: (dimension(blocks), 1, 1), block: (dimension(threads), 1, 1) }
    }

    /// As many tiles of `tile.0` x `tile.1` as it takes to cover `cols` x `rows`, for each of `planes`, and
    /// `block` threads for a tile.
    pub fn tiles(
        (cols, rows): (usize, usize),
        planes: usize,
        tile: (usize, usize),
        block: (usize, usize),
    ) -> Self {
        Self {
            grid: (dimension(cols.div_ceil(tile.0)), dimension(rows.div_ceil(tile.1)), dimension(planes)),
            block: (dimension(block.0), dimension(block.1), 1),
        }
    }
}

fn dimension(n: usize) -> u32 {
    u32::try_from(n).expect("the inputs are a few thousand elements")
}

/// A parameter of a kernel, in the order of its signature.
pub enum Argument<'a> {
    /// `const T*`
    Input(&'a dyn Array),
    /// `T*`: read as well, and filled with what the kernel left there.
    Output(&'a mut dyn Array),
    /// `unsigned`
    Count(u32),
    /// `float`
    Number(f32),
}

/// A parameter that counts.
pub fn count<'a>(n: usize) -> Argument<'a> {
    Argument::Count(dimension(n))
}

/// The elements of an array, as the device keeps them.
pub trait Array {
    fn to_bytes(&self) -> Vec<u8>;

    /// Takes the elements from as many bytes as `to_bytes` gave.
    fn fill(&mut self, bytes: &[u8]);

    /// The size of an element.
    fn element_size(&self) -> usize;
}

macro_rules! array {
    ($($number:ty),*) => {$(
        impl Array for Vec<$number> {
            fn to_bytes(&self) -> Vec<u8> {
                // Devices are little-endian.
                self.iter().flat_map(|x| x.to_le_bytes()).collect()
            }

            fn fill(&mut self, bytes: &[u8]) {
                let (elements, rest) = bytes.as_chunks();
                assert!(rest.is_empty() && elements.len() == self.len(), "an array keeps its length");
                for (to, from) in self.iter_mut().zip(elements) {
                    *to = <$number>::from_le_bytes(*from);
                }
            }

            fn element_size(&self) -> usize {
                size_of::<$number>()
            }
        }
    )*};
}

array!(f32, f64, i8, u8, u32);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_array_comes_back_from_its_bytes() {
        let sent = vec![1.5_f32, -0.0, f32::INFINITY];
        let mut back = vec![f32::NAN; 3];
        back.fill(&sent.to_bytes());
        assert_eq!(back, sent);
        assert_eq!(sent.to_bytes()[..4], [0, 0, 0xc0, 0x3f]);
        assert_eq!(sent.element_size(), 4);
    }

    #[test]
    fn tiles_cover_what_is_left_over() {
        let Geometry { grid, block } = Geometry::tiles((33, 64), 5, (32, 32), (32, 8));
        assert_eq!((grid, block), ((2, 2, 5), (32, 8, 1)));
    }
}
