//! Writing a stream.
//!
//! One pass over the input. Where the table last saw the same four bytes under their hash, and not
//! too far away, as much as is alike becomes a copy. The longer nothing is found, the larger the
//! steps.

use core::fmt;

use journal_core::policy::NoRoom;

use super::limits::{DISTANCE_MAX, END, NEAR_MAX, SHORT_DISTANCE_MAX, SHORT_LENGTH_MAX};
use crate::bytes::{Sink, common_front, u32_at};

/// Places in a table: 13 bits are 16 KiB of them, more than most processors keep at hand.
const TABLE_BITS: u32 = 12;
/// Of the table, the part that is used for the shortest inputs.
const TABLE_BITS_MIN: u32 = 6;

/// How many literals double the step.
const PATIENCE_SHIFT: u32 = 5;

/// Where the encoder remembers places of its input: 8 KiB, of which short inputs use a part. What
/// it holds between two calls does not matter.
#[derive(Clone)]
pub struct LzoTable {
    /// The last place, modulo 65,536, by hash.
    places: [u16; 1 << TABLE_BITS],
}

impl LzoTable {
    /// A table.
    #[must_use]
    pub const fn new() -> Self {
        Self { places: [0; 1 << TABLE_BITS] }
    }
}

impl Default for LzoTable {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for LzoTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LzoTable").finish_non_exhaustive()
    }
}

/// The bits of a hash for an input: one place for two bytes, so that little is to be cleared.
const fn hash_bits(input_bytes: usize) -> u32 {
    let bits = (input_bytes / 2).saturating_add(1).ilog2();
    if bits < TABLE_BITS_MIN {
        TABLE_BITS_MIN
    } else if bits > TABLE_BITS {
        TABLE_BITS
    } else {
        bits
    }
}

/// Writes `input` as a stream into `out`, and says how many bytes that is: at most
/// [`bound`](super::bound).
///
/// # Errors
/// [`NoRoom`], as soon as it is known; `out` then holds anything.
pub fn encode(input: &[u8], table: &mut LzoTable, out: &mut [u8]) -> Result<usize, NoRoom> {
    let places = table.places.get_mut(..1 << hash_bits(input.len())).unwrap_or_default();
    places.fill(0);
    encode_by(places, input, out)
}

/// Like [`encode`], with a table of its own on the stack. The table is not much larger than what
/// the input uses, because all of it is cleared.
///
/// # Errors
/// As [`encode`].
pub fn encode_once(input: &[u8], out: &mut [u8]) -> Result<usize, NoRoom> {
    match hash_bits(input.len()) {
        0..=8 => encode_with::<{ 1 << 8 }>(input, out),
        9..=11 => encode_with::<{ 1 << 11 }>(input, out),
        _ => encode_with::<{ 1 << TABLE_BITS }>(input, out),
    }
}

/// Not inlined: the caller's stack would have to hold all of the tables.
#[inline(never)]
fn encode_with<const PLACES: usize>(input: &[u8], out: &mut [u8]) -> Result<usize, NoRoom> {
    let mut places = [0; PLACES];
    let used = places.get_mut(..1 << hash_bits(input.len())).unwrap_or_default();
    encode_by(used, input, out)
}

/// By places that are zero, as many as the hash of the input has.
fn encode_by(places: &mut [u16], input: &[u8], out: &mut [u8]) -> Result<usize, NoRoom> {
    let shift = 32_u32.wrapping_sub(hash_bits(input.len()));
    let mut sink = Sink::new(out);
    let (mut at, mut literals_from) = (0_usize, 0_usize);
    while let Some(four) = u32_at(input, at) {
        let hash = (four.wrapping_mul(0x9E37_79B1) >> shift) as usize;
        let Some(place) = places.get_mut(hash) else { break };
        #[allow(clippy::cast_possible_truncation, reason = "modulo 65,536 on purpose")]
        let here = at as u16;
        // A place that nothing wrote, or that is older than this says, holds other bytes.
        let distance = usize::from(here.wrapping_sub(*place));
        *place = here;
        let from = at.wrapping_sub(distance);
        let is_near = distance.wrapping_sub(1) < DISTANCE_MAX && distance <= at;
        if is_near && u32_at(input, from) == Some(four) {
            put_literals(&mut sink, input, literals_from, at)?;
            let same = common_front(
                input.get(from.wrapping_add(4)..).unwrap_or_default(),
                input.get(at.wrapping_add(4)..).unwrap_or_default(),
            );
            let length = same.wrapping_add(4);
            put_copy(&mut sink, distance, length)?;
            at = at.wrapping_add(length);
            literals_from = at;
        } else {
            let waiting = at.wrapping_sub(literals_from);
            if waiting > sink.room_left() {
                return Err(NoRoom);
            }
            at = at.wrapping_add(1).wrapping_add(waiting >> PATIENCE_SHIFT);
        }
    }
    put_literals(&mut sink, input, literals_from, input.len())?;
    sink.put(END)?;
    Ok(sink.used())
}

/// Puts the bytes of `input` from one place to another as they are.
#[inline]
fn put_literals(sink: &mut Sink<'_>, input: &[u8], from: usize, to: usize) -> Result<(), NoRoom> {
    let count = to.wrapping_sub(from);
    #[allow(clippy::cast_possible_truncation, reason = "matched to be small")]
    let few = count as u8;
    match count {
        0 => return Ok(()),
        1..=238 if sink.used() == 0 => sink.put_byte(few.wrapping_add(17))?,
        // The copy before is two bytes from its first, or the lower byte of its distance, on.
        1..=3 => sink.add_bits(2, few)?,
        4..=18 => sink.put_byte(few.wrapping_sub(3))?,
        _ => {
            sink.put_byte(0)?;
            put_more(sink, count.wrapping_sub(18))?;
        }
    }
    sink.put_from(input, from, count)
}

/// Puts what is more than the highest value of a length; it is not zero.
fn put_more(sink: &mut Sink<'_>, mut more: usize) -> Result<(), NoRoom> {
    while more > 255 {
        sink.put_byte(0)?;
        more = more.wrapping_sub(255);
    }
    #[allow(clippy::cast_possible_truncation, reason = "not above 255")]
    let last = more as u8;
    sink.put_byte(last)
}

/// Puts a copy of 4 bytes or more.
#[inline]
#[allow(clippy::cast_possible_truncation, reason = "low bits on purpose; the others are put too")]
fn put_copy(sink: &mut Sink<'_>, distance: usize, length: usize) -> Result<(), NoRoom> {
    let less_one = distance.wrapping_sub(1);
    if length <= SHORT_LENGTH_MAX && distance <= SHORT_DISTANCE_MAX {
        let first = (length.wrapping_sub(1) << 5) | ((less_one & 7) << 2);
        return sink.put([first as u8, (less_one >> 3) as u8]);
    }
    // What the first byte begins with, how long a copy it can say, and the distance behind it.
    let (first, length_max, rest) = if distance <= NEAR_MAX {
        (32, 33, less_one)
    } else {
        let far = distance.wrapping_sub(NEAR_MAX);
        (16 | ((far >> 14) << 3), 9, far & 0x3FFF)
    };
    let [low, high] = ((rest << 2) as u16).to_le_bytes();
    if length <= length_max {
        return sink.put([(first | length.wrapping_sub(2)) as u8, low, high]);
    }
    sink.put_byte(first as u8)?;
    put_more(sink, length.wrapping_sub(length_max))?;
    sink.put([low, high])
}
