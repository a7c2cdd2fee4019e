//! The tail word of a lane, bit by bit.

use crate::ports::kernels::crc64;
use crate::units::LINE_BYTES;

/// How many bits of an offset in lines a word has. No lane is as long as they can say.
const LINES_BITS: u32 = 40;

/// No lane with a tail word is longer.
pub(crate) const LANE_BYTES_MAX: u64 = (1 << LINES_BITS) * LINE_BYTES as u64 - LINE_BYTES as u64;

const LINES_MASK: u64 = (1 << LINES_BITS) - 1;

/// The word that says a lane offset.
pub(crate) fn encode(seed: u64, to: u64) -> u64 {
    let lines = to.checked_div(LINE_BYTES as u64).unwrap_or(0) & LINES_MASK;
    // Portable code: the check of one word, and a core need not have any other there.
    lines | crc64(seed, &to.to_le_bytes()) << LINES_BITS
}

/// The lane offset that a word says, of a lane with this head and this length. `None` where it is
/// no word of that lane.
pub(crate) fn decode(seed: u64, word: u64, head: u64, lane_bytes: u64) -> Option<u64> {
    let head_lines = head.checked_div(LINE_BYTES as u64)?;
    let behind = (word & LINES_MASK).wrapping_sub(head_lines) & LINES_MASK;
    let behind = behind.checked_mul(LINE_BYTES as u64).filter(|behind| *behind <= lane_bytes)?;
    let to = head.checked_add(behind)?;
    (encode(seed, to) == word).then_some(to)
}
