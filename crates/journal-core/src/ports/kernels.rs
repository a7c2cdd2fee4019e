//! Checksums over on-media bytes.
//!
//! [`Kernels::crc64`] (CRC-64/NVME) guards everything: with 32 bits, one torn record in four
//! thousand million would be taken for whole. The header of a record has room for the lower
//! half of one.
//!
//! [`Kernels`] also finds [the words in which two images differ](Kernels::changed_words), for
//! policies that log differences.
//!
//! A CRC finds accidents. It is no signature: anybody that knows the journal's id can forge one.

/// The computing that a machine may do faster than portable code can.
///
/// Every implementation gives the same results to the bit; they end up on the medium.
pub trait Kernels {
    /// The CRC-64/NVME of `bytes`, continuing from `seed` (the check of what came before, or zero).
    #[must_use]
    fn crc64(&self, seed: u64, bytes: &[u8]) -> u64 {
        crc64(seed, bytes)
    }

    /// Like [`crc64`](Self::crc64), for bytes that were stored a moment ago, word by word (C1).
    #[inline]
    #[must_use]
    fn crc64_of_stored(&self, seed: u64, bytes: &[u8]) -> u64 {
        self.crc64(seed, bytes)
    }

    /// The check of bytes of which a part is replaced: `check` is theirs, `new` replaces `old`, and
    /// `behind` bytes follow. The parts are of one length. None of the other bytes is looked at.
    ///
    /// ```
    /// use journal_core::{Kernels as _, PortableKernels, check::crc64};
    /// let check = crc64(0, b"a small step");
    /// let patched = PortableKernels.crc64_of_patched(check, b"small", b"giant", b" step".len());
    /// assert_eq!(patched, crc64(0, b"a giant step"));
    /// ```
    #[inline]
    #[must_use]
    fn crc64_of_patched(&self, check: u64, old: &[u8], new: &[u8], behind: usize) -> u64 {
        // A check is linear, except for two inversions around it. They cancel each other here.
        let difference = self.crc64(u64::MAX, old) ^ self.crc64(u64::MAX, new);
        check ^ self.crc64_moved_on(difference, behind)
    }

    /// What a difference of two checks becomes behind `zeroes` bytes that both are followed by.
    #[must_use]
    fn crc64_moved_on(&self, difference: u64, zeroes: usize) -> u64 {
        crc64_moved_on(difference, zeroes)
    }

    /// Which words differ: bit `n % 64` of `mask[n / 64]` says whether word `n` is another in
    /// `newer`. Word `n` is the 8 bytes from `8 * n` on; the last word may be a short one. Words
    /// that only one image has, and those without a bit in `mask`, are not looked at; all other
    /// bits are cleared.
    fn changed_words(&self, older: &[u8], newer: &[u8], mask: &mut [u64]) {
        changed_words(older, newer, mask);
    }

    /// Begins to bring bytes into the caches that will soon be read, and does not wait for them. A
    /// matter of speed only.
    #[inline]
    fn prefetch(&self, bytes: &[u8]) {
        let _ = bytes;
    }

    /// Like [`prefetch`](Self::prefetch), for the line at an address, which is not read: nothing
    /// has to be there.
    #[inline]
    fn prefetch_line(&self, at: *const u8) {
        let _ = at;
    }
}

/// Portable code for everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortableKernels;

impl Kernels for PortableKernels {}

impl<K: Kernels + ?Sized> Kernels for &K {
    #[inline]
    fn crc64(&self, seed: u64, bytes: &[u8]) -> u64 {
        (**self).crc64(seed, bytes)
    }

    #[inline]
    fn crc64_of_stored(&self, seed: u64, bytes: &[u8]) -> u64 {
        (**self).crc64_of_stored(seed, bytes)
    }

    #[inline]
    fn crc64_moved_on(&self, difference: u64, zeroes: usize) -> u64 {
        (**self).crc64_moved_on(difference, zeroes)
    }

    #[inline]
    fn changed_words(&self, older: &[u8], newer: &[u8], mask: &mut [u64]) {
        (**self).changed_words(older, newer, mask);
    }

    #[inline]
    fn prefetch(&self, bytes: &[u8]) {
        (**self).prefetch(bytes);
    }

    #[inline]
    fn prefetch_line(&self, at: *const u8) {
        (**self).prefetch_line(at);
    }
}

/// The reflected polynomial of CRC-64/NVME.
const CRC64_POLYNOMIAL: u64 = 0x9A6C_9329_AC4B_C9B5;

/// `TABLES[k][b]` is the check of byte `b` followed by `k` zero bytes.
static TABLES: [[u64; 256]; 8] = tables();

#[allow(
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "evaluated at compile time: a mistake does not compile"
)]
const fn tables() -> [[u64; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut sum = byte as u64;
        let mut bit = 0;
        while bit < 8 {
            sum = (sum >> 1) ^ (CRC64_POLYNOMIAL & (sum & 1).wrapping_neg());
            bit += 1;
        }
        tables[0][byte] = sum;
        byte += 1;
    }
    let mut zeroes = 1;
    while zeroes < 8 {
        let mut byte = 0;
        while byte < 256 {
            let sum = tables[zeroes - 1][byte];
            tables[zeroes][byte] = (sum >> 8) ^ tables[0][(sum & 0xFF) as usize];
            byte += 1;
        }
        zeroes += 1;
    }
    tables
}

/// The CRC-64/NVME of `bytes` in portable code, eight bytes at a time.
///
/// ```
/// use journal_core::check::crc64;
/// assert_eq!(crc64(0, b"123456789"), 0xAE8B_1486_0A79_9888);
/// assert_eq!(crc64(crc64(0, b"1234"), b"56789"), 0xAE8B_1486_0A79_9888);
/// ```
#[must_use]
pub fn crc64(seed: u64, bytes: &[u8]) -> u64 {
    let [t0, t1, t2, t3, t4, t5, t6, t7] = &TABLES;
    let at = |table: &[u64; 256], byte: u8| table.get(usize::from(byte)).copied().unwrap_or(0);
    let mut sum = !seed;
    let (words, rest) = bytes.as_chunks_of_8();
    for word in words {
        let [a, b, c, d, e, f, g, h] = (sum ^ u64::from_le_bytes(*word)).to_le_bytes();
        sum = at(t7, a) ^ at(t6, b) ^ at(t5, c) ^ at(t4, d);
        sum ^= at(t3, e) ^ at(t2, f) ^ at(t1, g) ^ at(t0, h);
    }
    for byte in rest {
        let [low, ..] = sum.to_le_bytes();
        sum = (sum >> 8) ^ at(t0, low ^ byte);
    }
    !sum
}

/// The product of two polynomials modulo that of CRC-64/NVME. All are reflected: the highest bit is
/// the term x^0.
#[must_use]
pub const fn multiply(mut a: u64, mut b: u64) -> u64 {
    let mut product = 0;
    while a != 0 {
        product ^= b & (a >> 63).wrapping_neg();
        a <<= 1;
        b = (b >> 1) ^ (CRC64_POLYNOMIAL & (b & 1).wrapping_neg());
    }
    product
}

/// x^8, and each time the square of the one before: it moves a check on by twice the bytes.
#[allow(
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "evaluated at compile time: a mistake does not compile"
)]
static BYTES_ON: [u64; usize::BITS as usize] = {
    let mut powers = [1_u64 << (63 - 8); usize::BITS as usize];
    let mut at = 1;
    while at < powers.len() {
        powers[at] = multiply(powers[at - 1], powers[at - 1]);
        at += 1;
    }
    powers
};

/// What a difference of two checks becomes, as [`Kernels::crc64_moved_on`] says it, in portable
/// code.
#[must_use]
pub fn crc64_moved_on(difference: u64, zeroes: usize) -> u64 {
    let powers = BYTES_ON.iter().enumerate().filter(|(bit, _)| (zeroes >> bit) & 1 == 1);
    powers.fold(difference, |moved, (_, power)| multiply(*power, moved))
}

/// Which words differ, as [`Kernels::changed_words`] says it, in portable code: the same time
/// whatever differs.
pub fn changed_words(older: &[u8], newer: &[u8], mask: &mut [u64]) {
    let len = older.len().min(newer.len());
    let older = older.get(..len).unwrap_or_default().chunks(GROUP_BYTES);
    let mut groups = older.zip(newer.get(..len).unwrap_or_default().chunks(GROUP_BYTES));
    for mask in mask {
        *mask = groups.next().map_or(0, |(older, newer)| changed_in_group(older, newer));
    }
}

/// The bytes that one number of a mask speaks of.
const GROUP_BYTES: usize = 8 * 64;

fn changed_in_group(older: &[u8], newer: &[u8]) -> u64 {
    let (older_lines, newer_lines) = (older.chunks_exact(64), newer.chunks_exact(64));
    let older_rest = older_lines.remainder().chunks(8);
    let rest = older_rest.zip(newer_lines.remainder().chunks(8));
    let (mut mask, mut shift) = (0_u64, 0_u32);
    for (older_line, newer_line) in older_lines.zip(newer_lines) {
        let words = older_line.chunks_exact(8).zip(newer_line.chunks_exact(8));
        let bits = words.zip(0..).map(|((older, newer), bit)| u64::from(older != newer) << bit);
        mask |= bits.fold(0, |bits, bit| bits | bit) << shift;
        shift = shift.wrapping_add(8);
    }
    for (older_word, newer_word) in rest {
        mask |= u64::from(older_word != newer_word) << shift;
        shift = shift.wrapping_add(1);
    }
    mask
}

/// `slice::as_chunks` for the oldest compiler this crate promises.
trait AsWords {
    fn as_chunks_of_8(&self) -> (&[[u8; 8]], &[u8]);
}

impl AsWords for [u8] {
    fn as_chunks_of_8(&self) -> (&[[u8; 8]], &[u8]) {
        use zerocopy::FromBytes as _;
        <[[u8; 8]]>::ref_from_prefix_with_elems(self, self.len() / 8).unwrap_or((&[], self))
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use proptest::prelude::*;

    use super::*;

    fn bit_by_bit(seed: u64, bytes: &[u8]) -> u64 {
        !bytes.iter().fold(!seed, |sum, byte| {
            (0..8).fold(sum ^ u64::from(*byte), |sum, _| {
                if sum & 1 == 1 { (sum >> 1) ^ CRC64_POLYNOMIAL } else { sum >> 1 }
            })
        })
    }

    /// The most bytes of a case, of this many. Miri is slow.
    const fn most(bytes: usize) -> usize {
        if cfg!(miri) { bytes / 8 } else { bytes }
    }

    proptest! {
        #[test]
        fn the_tables_compute_the_polynomial(
            seed: u64,
            bytes in prop::collection::vec(any::<u8>(), 0..most(100)),
        ) {
            prop_assert_eq!(crc64(seed, &bytes), bit_by_bit(seed, &bytes));
        }

        #[test]
        fn the_check_of_patched_bytes_is_that_of_the_new_ones(
            bytes in prop::collection::vec(any::<u8>(), 1..most(400)),
            (at, len) in (0_usize..400, 0_usize..100),
            patch in prop::collection::vec(any::<u8>(), 100),
        ) {
            let at = at % bytes.len();
            let end = (at + len).min(bytes.len());
            let (old, new) = (&bytes[at..end], &patch[..end - at]);
            let (check, behind) = (crc64(0, &bytes), bytes.len() - end);
            let found = PortableKernels.crc64_of_patched(check, old, new, behind);
            let mut patched = bytes.clone();
            patched[at..end].copy_from_slice(new);
            prop_assert_eq!(found, crc64(0, &patched));
        }

        #[test]
        fn every_word_that_differs_has_its_bit_and_no_other(
            older in prop::collection::vec(0_u8..2, 0..most(1300)),
            newer in prop::collection::vec(0_u8..2, 0..most(1300)),
            takes_all: bool,
            len in 0_usize..4,
        ) {
            // Mostly alike, or hardly.
            let mut newer = newer;
            if takes_all {
                newer.iter_mut().zip(&older).for_each(|(newer, older)| {
                    *newer = if *newer == 0 { *older } else { *older ^ (*older & 1) };
                });
            }
            let common = older.len().min(newer.len());
            let words = older[..common].chunks(8).zip(newer[..common].chunks(8));
            let mut expected = [0; 4];
            for (word, (older, newer)) in words.enumerate() {
                if let Some(bits) = expected.get_mut(word / 64).filter(|_| older != newer) {
                    *bits |= 1_u64 << (word % 64);
                }
            }
            let mut mask = [u64::MAX; 4];
            PortableKernels.changed_words(&older, &newer, &mut mask[..len]);
            prop_assert_eq!(&mask[..len], &expected[..len]);
            prop_assert!(mask[len..].iter().all(|untouched| *untouched == u64::MAX));
        }

        #[test]
        fn a_check_continues(bytes: std::vec::Vec<u8>, at: prop::sample::Index) {
            let (front, back) = bytes.split_at(at.index(bytes.len() + 1));
            prop_assert_eq!(crc64(crc64(0, front), back), crc64(0, &bytes));
        }
    }
}
