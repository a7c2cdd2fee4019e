//! What differs between two images, in the ways in which it can be said, and the bounds of the
//! policies that log it. Computed from the images alone.
//!
//! Runs and words are counted here; how short an XOR or a delta with moves can be only a coder
//! knows. It is the policies' own, called directly: that it is no worse than others is asked by its
//! own tests.

use policy_codec::lzo::{self, LzoTable};
use policy_codec::moves::{self, MovesTable};

use journal_core::units::WORD_BYTES;

use crate::bounds::{Bound, Changed, Cost};

/// Bytes before those of a run, and how many unchanged ones between two are carried along.
const RUN_BYTES: u64 = 4;
const GAP_BYTES: u64 = 4;

/// A delta against an image says which one, and which it leads to.
pub const BETWEEN_BYTES: u64 = 9;

/// Bytes of the new image that differ, in runs, each behind its place and length.
pub fn runs(old: &[u8], new: &[u8]) -> u64 {
    let (mut bytes, mut last) = (0, None);
    for (at, _) in (0_u64..).zip(old.iter().zip(new)).filter(|(_, (old, new))| old != new) {
        bytes += match last {
            Some(last) if at - last <= GAP_BYTES + 1 => at - last,
            _ => RUN_BYTES + 1,
        };
        last = Some(at);
    }
    bytes
}

/// How many units of `unit_bytes` differ, and how many bytes those have.
fn units(old: &[u8], new: &[u8], unit_bytes: usize) -> (u64, u64) {
    let differ = old.chunks(unit_bytes).zip(new.chunks(unit_bytes)).filter(|(old, new)| old != new);
    differ.fold((0, 0), |(count, bytes), (_, new)| (count + 1, bytes + new.len() as u64))
}

/// The units that differ, behind a bit for each.
pub fn bitmap(old: &[u8], new: &[u8], unit_bytes: usize) -> u64 {
    new.len().div_ceil(unit_bytes).div_ceil(8) as u64 + units(old, new, unit_bytes).1
}

/// Which bits differ.
fn both(old: &[u8], new: &[u8]) -> Vec<u8> {
    old.iter().zip(new).map(|(old, new)| old ^ new).collect()
}

fn differing_bits(old: &[u8], new: &[u8]) -> u64 {
    both(old, new).iter().map(|byte| u64::from(byte.count_ones())).sum()
}

/// An image compressed as an LZO1X stream.
fn compressed(image: &[u8]) -> u64 {
    let mut room = vec![0; lzo::bound(image.len())];
    let bytes = lzo::encode(image, &mut LzoTable::new(), &mut room);
    bytes.expect("room for every stream") as u64
}

/// The XOR of both images, compressed.
pub fn xor(old: &[u8], new: &[u8]) -> u64 {
    compressed(&both(old, new))
}

/// The complement of that.
fn complement(old: &[u8], new: &[u8]) -> u64 {
    let same: Vec<u8> = both(old, new).iter().map(|byte| !byte).collect();
    compressed(&same)
}

/// Copies from the old image, and new bytes.
pub fn moves(old: &[u8], new: &[u8]) -> u64 {
    let mut room = vec![0; moves::bound(new.len())];
    let bytes = moves::encode(old, new, &mut MovesTable::new(), &mut room);
    bytes.expect("room for every delta") as u64
}

/// Two-level logging: the sub-blocks that change, behind their bitmap; of data of which more than
/// half of them do, nothing but a block of the log. Of an appended block those that are not zero:
/// nobody keeps what it held.
#[derive(Debug)]
pub struct SubBlocks;

const SUB_BLOCK_BYTES: usize = 128;

impl Bound for SubBlocks {
    fn cost(&mut self, changed: &Changed<'_>) -> Cost {
        let Changed { old, new, is_data, is_append, .. } = *changed;
        if !is_append && *old == **new {
            return Cost::NOTHING;
        }
        let zeroes = vec![0; new.len()];
        let old = if is_append { &zeroes[..] } else { old };
        let (count, _) = units(old, new, SUB_BLOCK_BYTES);
        if is_data && count as usize * 2 > new.len().div_ceil(SUB_BLOCK_BYTES) {
            return Cost::LOGGED;
        }
        Cost::together(bitmap(old, new, SUB_BLOCK_BYTES).min(new.len() as u64))
    }
}

/// Delta journaling: where less than a quarter of the bits differ, or more than three, the shortest
/// of runs, words and compressed XOR (copies too, where those are asked for); a block of the log
/// otherwise, where that is not shorter than the block, and for an appended block.
#[derive(Debug)]
pub struct Compressed {
    pub with_moves: bool,
}

impl Bound for Compressed {
    fn cost(&mut self, changed: &Changed<'_>) -> Cost {
        let Changed { old, new, is_append, .. } = *changed;
        if is_append {
            return Cost::LOGGED;
        }
        let (bits, quarter) = (differing_bits(old, new), new.len() as u64 * 2);
        let stream = match bits {
            0 => return Cost::NOTHING,
            few if few < quarter => xor(old, new),
            most if most > 3 * quarter => complement(old, new),
            _ => return Cost::LOGGED,
        };
        let mut shortest = runs(old, new).min(bitmap(old, new, WORD_BYTES)).min(stream);
        if self.with_moves {
            shortest = shortest.min(moves(old, new));
        }
        if shortest + BETWEEN_BYTES > new.len() as u64 {
            return Cost::LOGGED;
        }
        Cost::together(shortest)
    }
}

/// The smallest of byte runs, compressed XOR and copies; the block where that is no longer, and
/// where it is appended.
#[derive(Debug)]
pub struct Smallest;

impl Bound for Smallest {
    fn cost(&mut self, changed: &Changed<'_>) -> Cost {
        let Changed { old, new, is_append, .. } = *changed;
        let whole = new.len() as u64;
        Cost::together(if is_append { whole } else { Overwrites::of(old, new).smallest })
    }
}

/// What updates are, and what coders make of them: sums over all that overwrite something and
/// change it, each at most the block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overwrites {
    pub count: u64,
    pub runs: u64,
    pub xor: u64,
    pub moves: u64,
    pub smallest: u64,
    /// What was logged of them, without headers: the policy's payload, or the block.
    pub logged: u64,
}

impl Overwrites {
    /// Of one; none, where it changes nothing.
    pub fn of(old: &[u8], new: &[u8]) -> Self {
        if old == new {
            return Self::default();
        }
        let block = new.len() as u64;
        let [runs, xor, moves] = [runs, xor, moves].map(|coder| coder(old, new).min(block));
        Self { count: 1, runs, xor, moves, smallest: runs.min(xor).min(moves), logged: 0 }
    }
}

impl core::ops::AddAssign for Overwrites {
    fn add_assign(&mut self, more: Self) {
        self.count += more.count;
        self.runs += more.runs;
        self.xor += more.xor;
        self.moves += more.moves;
        self.smallest += more.smallest;
        self.logged += more.logged;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::Image;

    /// Bytes that neither repeat nor compress.
    fn noise() -> Vec<u8> {
        let mut state = 1_u64;
        let mut byte = || {
            state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
            (state >> 56) as u8
        };
        (0..4096).map(|_| byte()).collect()
    }

    fn touched(places: impl IntoIterator<Item = usize>) -> Vec<u8> {
        let mut image = noise();
        for at in places {
            image[at] ^= 0x55;
        }
        image
    }

    fn cost(bound: &mut impl Bound, new: &[u8], is_data: bool) -> (u64, u64) {
        let (old, new): (_, Image) = (noise(), new.into());
        let (is_append, place) = (false, None);
        let old = &old[..];
        let changed =
            Changed { block: 0, old, new: &new, object_bytes: 0, is_append, is_data, place };
        let Cost { bytes, lines, log_blocks } = bound.cost(&changed);
        assert_eq!(lines, bytes.div_ceil(64));
        (bytes, log_blocks)
    }

    #[test]
    fn runs_take_up_gaps_that_are_no_longer_than_their_begin() {
        let of = |places: &[usize]| runs(&noise(), &touched(places.iter().copied()));
        assert_eq!(of(&[]), 0);
        assert_eq!(of(&[0]), 5);
        assert_eq!(of(&[0, 1, 2]), 7);
        // Four between them, and five.
        assert_eq!(of(&[0, 5]), 10);
        assert_eq!(of(&[0, 6]), 10);
        assert_eq!(of(&[4094, 4095]), 6);
        assert_eq!(of(&[100, 200, 300]), 15);
    }

    #[test]
    fn units_stand_behind_a_bit_for_each() {
        let of = |places: &[usize], unit| bitmap(&noise(), &touched(places.iter().copied()), unit);
        assert_eq!(of(&[], 8), 64);
        assert_eq!(of(&[0, 7, 8, 4095], 8), 64 + 24);
        assert_eq!(of(&[0, 127, 128], 128), 4 + 256);
        // The last one is short.
        assert_eq!(bitmap(&[0; 20], &[1; 20], 8), 1 + 20);
    }

    #[test]
    fn sub_blocks_are_logged_up_to_half_of_them_and_of_metadata_all() {
        let of = |count: usize, is_data| {
            cost(&mut SubBlocks, &touched((0..count).map(|at| at * 128)), is_data)
        };
        assert_eq!(of(0, true), (0, 0));
        assert_eq!(of(1, true), (4 + 128, 0));
        assert_eq!(of(16, true), (4 + 16 * 128, 0));
        assert_eq!(of(17, true), (0, 1));
        assert_eq!(of(17, false), (4 + 17 * 128, 0));
        assert_eq!(of(32, false), (4096, 0));
    }

    #[test]
    fn bits_decide_what_is_compressed() {
        let plain = &mut Compressed { with_moves: false };
        assert_eq!(cost(plain, &noise(), true), (0, 0));
        assert_eq!(cost(plain, &touched([7]), false), (5, 0));
        // Every eighth byte: words are shorter than runs.
        let words = touched((0..4096).step_by(64));
        assert_eq!(cost(plain, &words, true).0.min(64 + 64 * 8), cost(plain, &words, true).0);
        // Half of the bits, and all but a few.
        let half: Vec<u8> = noise().iter().map(|byte| byte ^ 0x55).collect();
        assert_eq!(cost(plain, &half, true), (0, 1));
        assert_eq!(cost(plain, &half, false), (0, 1));
        let mut most: Vec<u8> = noise().iter().map(|byte| !byte).collect();
        most[9] ^= 1;
        let (bytes, log_blocks) = cost(plain, &most, true);
        assert!((10..80).contains(&bytes) && log_blocks == 0, "{bytes}");
        // Few bits everywhere, of which none is like the other: nothing is shorter than the block.
        let other = noise();
        let few = |at: usize| 1 << (other[(at * 7 + 5) % 4096] & 7);
        let few: Vec<u8> = noise().iter().enumerate().map(|(at, byte)| byte ^ few(at)).collect();
        assert_eq!(cost(plain, &few, true), (0, 1));
        // Moved bytes, where somebody looks for them.
        let mut moved = noise();
        moved[..512].rotate_right(3);
        assert!(cost(plain, &moved, true).0 > 500);
        assert!(cost(&mut Compressed { with_moves: true }, &moved, true).0 < 20);
    }

    #[test]
    fn the_smallest_is_at_most_the_block() {
        assert_eq!(cost(&mut Smallest, &noise(), true), (0, 0));
        // A command of a copy that goes on behind a new byte.
        assert_eq!(cost(&mut Smallest, &touched([7]), true), (3, 0));
        let mut all = noise();
        all.reverse();
        assert_eq!(cost(&mut Smallest, &all, true), (4096, 0));
        let Overwrites { count, runs, xor, moves, smallest, logged } =
            Overwrites::of(&noise(), &all);
        assert_eq!([count, runs, xor, moves, smallest, logged], [1, 4096, 4096, 4096, 4096, 0]);
        let mut sum = Overwrites::of(&noise(), &noise());
        assert_eq!(sum, Overwrites::default());
        sum += Overwrites { logged: 9, ..Overwrites::of(&noise(), &touched([7])) };
        sum += Overwrites { logged: 7, ..Overwrites::of(&noise(), &touched([7, 8])) };
        assert_eq!((sum.count, sum.runs, sum.smallest, sum.logged), (2, 11, 7, 16));
    }
}
