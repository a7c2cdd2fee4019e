//! Delta journaling, Fig. 1: how far an updated block differs from the original one, and how long
//! the compressed deltas are.

use crate::bounds::deltas::xor;

/// Steps of the distribution, in percent of the block.
pub const PERCENTS: [u64; 8] = [1, 5, 10, 20, 25, 50, 75, 90];

/// How many updates differ by less than each of [`PERCENTS`].
pub type Below = [u64; PERCENTS.len()];

/// Updates of blocks that were there, by how far they differ from the image before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Distances {
    pub updates: u64,
    /// Of them, those that change nothing.
    pub unchanged: u64,
    /// By the bytes that differ.
    pub bytes: Below,
    /// By the bits that differ.
    pub bits: Below,
    /// Updates whose compressed delta goes to persistent memory.
    pub deltas: u64,
    /// Bytes of these deltas, and how many of these belong to unchanged blocks.
    pub delta_bytes: u64,
    pub unchanged_bytes: u64,
}

fn add_below(below: &mut Below, differ: u64, whole: u64) {
    for (count, percent) in below.iter_mut().zip(PERCENTS) {
        *count += u64::from(differ * 100 < whole * percent);
    }
}

impl Distances {
    /// Counts an update. As published: if less than a quarter or more than three quarters of the
    /// bits differ, and the compressed XOR is shorter than the block, then it is a delta.
    pub fn add(&mut self, old: &[u8], new: &[u8]) {
        let (mut bytes, mut bits) = (0, 0);
        for (old, new) in old.iter().zip(new) {
            bytes += u64::from(old != new);
            bits += u64::from((old ^ new).count_ones());
        }
        let (block_bytes, block_bits) = (new.len() as u64, new.len() as u64 * 8);
        self.updates += 1;
        self.unchanged += u64::from(bytes == 0);
        add_below(&mut self.bytes, bytes, block_bytes);
        add_below(&mut self.bits, bits, block_bits);
        if bits * 4 >= block_bits && bits * 4 <= block_bits * 3 {
            return;
        }
        let delta = xor(old, new);
        if delta < block_bytes {
            self.deltas += 1;
            self.delta_bytes += delta;
            self.unchanged_bytes += if bytes == 0 { delta } else { 0 };
        }
    }

    /// The mean length of a delta.
    pub fn mean_delta(&self) -> f64 {
        self.delta_bytes as f64 / self.deltas.max(1) as f64
    }

    /// The mean length of a delta that changes something.
    pub fn mean_change(&self) -> f64 {
        let changes = self.deltas - self.unchanged;
        (self.delta_bytes - self.unchanged_bytes) as f64 / changes.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A block of 1,000 bytes in which this number of bytes have these bits turned over.
    fn turned(bytes: usize, bits: u8) -> Vec<u8> {
        let mut image = vec![0; 1000];
        image[..bytes].fill(bits);
        image
    }

    fn of(images: &[Vec<u8>]) -> Distances {
        let mut distances = Distances::default();
        images.iter().for_each(|new| distances.add(&[0; 1000], new));
        distances
    }

    #[test]
    fn updates_count_by_the_bytes_and_the_bits_that_differ() {
        // 9.9 % and 10 % of the bytes, of which an eighth of the bits.
        let found = of(&[turned(0, 1), turned(99, 1), turned(100, 1), turned(1000, 1)]);
        assert_eq!((found.updates, found.unchanged), (4, 1));
        assert_eq!(found.bytes, [1, 1, 2, 3, 3, 3, 3, 3]);
        assert_eq!(found.bits, [1, 3, 3, 4, 4, 4, 4, 4]);
        assert_eq!(found.deltas, 4);
    }

    #[test]
    fn a_delta_is_kept_below_a_quarter_of_the_bits_and_above_three() {
        for (bytes, bits, is_delta) in [
            (999, 0b11, true),
            (1000, 0b11, false),
            (1000, 0b11_1111, false),
            (1000, 0b111_1111, true),
        ] {
            let found = of(&[turned(bytes, bits)]);
            assert_eq!(found.deltas == 1, is_delta, "{bytes} bytes of {bits:b}");
            // A run of equal bytes is short.
            assert!(found.delta_bytes < 40, "{found:?}");
        }
    }

    #[test]
    fn the_mean_leaves_unchanged_blocks_out_where_it_says_so() {
        let (nothing, one) = (of(&[turned(0, 0)]), of(&[turned(1, 9)]));
        let both = of(&[turned(0, 0), turned(1, 9)]);
        let sum = nothing.mean_delta() + one.mean_delta();
        assert!((both.mean_delta() - sum / 2.0).abs() < 1e-9);
        assert!((both.mean_change() - one.mean_delta()).abs() < 1e-9);
        assert!(nothing.mean_change().abs() < 1e-9);
    }
}
