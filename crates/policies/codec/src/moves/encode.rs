//! Writing a delta.
//!
//! Where the bytes are those at a remembered distance, they are copied from there. Most of a block
//! is found so, without a table. Only where bytes have been new for a while is the old image put
//! into a table, every few places of it. From then on the place of equal bytes is looked up there
//! and among the new bytes seen since. A copy that is found reaches back over new bytes that it
//! covers too.

use core::fmt;

use journal_core::policy::NoRoom;

use super::distances::{Distances, ESCAPE, LENGTH_MIN};
use crate::bytes::{Sink, common_back, common_front, u32_at};
use crate::compare::changed::BLOCK_BYTES_MAX;

/// Places by hash, for each of both images.
const TABLE_BITS: u32 = 12;
const TABLE_BITS_MIN: u32 = 6;

/// One place of the old image in this many is put into the table.
const OLD_STEP: usize = 4;
/// How many new bytes there are before places are looked up.
const PATIENCE: usize = 4;
/// A copy from the same distance that has this length is taken without looking for a longer one.
const LONG_ENOUGH: usize = 24;
/// How many bytes longer a copy from a new distance is that replaces one from a remembered one.
const WORTH: usize = 3;
/// The shortest copy from a new distance that takes three bytes.
const DEAR_LENGTH_MIN: usize = 6;
/// How many new bytes a copy that is found behind them may cover.
const BACK_MAX: usize = 128;
/// How many new bytes double the step.
const STEP_SHIFT: u32 = 6;

/// Where the encoder remembers places: 16 KiB, of which short blocks use a part. What it holds
/// between two calls does not matter.
#[derive(Clone)]
pub struct MovesTable {
    old: [u16; 1 << TABLE_BITS],
    new: [u16; 1 << TABLE_BITS],
}

impl MovesTable {
    /// A table.
    #[must_use]
    pub const fn new() -> Self {
        Self { old: [0; 1 << TABLE_BITS], new: [0; 1 << TABLE_BITS] }
    }
}

impl Default for MovesTable {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for MovesTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MovesTable").finish_non_exhaustive()
    }
}

/// A copy that could be made.
#[derive(Clone, Copy)]
struct Found {
    distance: usize,
    length: usize,
    /// Which of the remembered distances; 3 for another.
    which: usize,
}

/// The old and the new image, and what is known of places in them.
struct Search<'a> {
    old: &'a [u8],
    new: &'a [u8],
    old_places: &'a mut [u16],
    new_places: &'a mut [u16],
    shift: u32,
    is_filled: bool,
}

impl Search<'_> {
    /// What lies at a distance before a place of the new image: the old image, up to its end, or
    /// the new image.
    #[inline]
    fn at_distance(&self, at: usize, distance: usize) -> &[u8] {
        let from = match at.checked_sub(distance) {
            Some(from) => self.new.get(from..),
            None => {
                let from = self.old.len().wrapping_add(at).checked_sub(distance);
                from.and_then(|from| self.old.get(from..))
            }
        };
        from.unwrap_or_default()
    }

    /// How long a copy from a distance may be; zero where it is too short.
    #[inline]
    fn length_at(&self, at: usize, four: u32, distance: usize) -> usize {
        let from = self.at_distance(at, distance);
        if u32_at(from, 0) != Some(four) {
            return 0;
        }
        let rest = self.new.get(at.wrapping_add(4)..).unwrap_or_default();
        common_front(from.get(4..).unwrap_or_default(), rest).wrapping_add(4)
    }

    /// How many bytes before a place are those at the distance too, up to `most`.
    #[inline]
    fn back_at(&self, at: usize, distance: usize, most: usize) -> usize {
        let before = self.new.get(..at).unwrap_or_default();
        let from = match at.checked_sub(distance) {
            Some(from) => self.new.get(..from),
            None => {
                let from = self.old.len().wrapping_add(at).checked_sub(distance);
                from.and_then(|from| self.old.get(..from))
            }
        };
        common_back(from.unwrap_or_default(), before, most)
    }

    /// How many bytes of the end, from a place on, are those at the distance.
    fn tail_at(&self, distance: usize, from: usize) -> usize {
        let both = self.old.len().wrapping_add(self.new.len());
        let end = both.saturating_sub(distance);
        let source = match end.checked_sub(self.old.len()) {
            Some(end) if end > 0 => self.new.get(..end),
            _ => self.old.get(..end),
        };
        let most = self.new.len().saturating_sub(from).min(BACK_MAX);
        common_back(source.unwrap_or_default(), self.new, most)
    }

    #[inline]
    const fn hash(&self, four: u32) -> usize {
        (four.wrapping_mul(0x9E37_79B1) >> self.shift) as usize
    }

    /// Puts the old image into the table.
    fn fill(&mut self) {
        self.is_filled = true;
        // The other half may hold places from before, and needs no clearing. A place of the old
        // image that has the bytes which are looked up is put there now, over whatever was there.
        self.new_places.fill(0);
        for (at, four) in (0..=u16::MAX).step_by(OLD_STEP).zip(self.old.chunks_exact(OLD_STEP)) {
            let Some(four) = u32_at(four, 0) else { break };
            let hash = self.hash(four);
            if let Some(place) = self.old_places.get_mut(hash) {
                *place = at;
            }
        }
    }

    /// The longest copy that the tables know of.
    #[inline]
    fn look_up(&mut self, at: usize, four: u32) -> Option<Found> {
        let hash = self.hash(four);
        let old_from = usize::from(*self.old_places.get(hash)?);
        let place = self.new_places.get_mut(hash)?;
        let new_from = usize::from(*place);
        *place = u16::try_from(at).unwrap_or(0);
        let distance = self.old.len().wrapping_add(at).wrapping_sub(old_from);
        let mut found = Found { distance, length: self.length_at(at, four, distance), which: 3 };
        if new_from < at {
            let distance = at.wrapping_sub(new_from);
            let length = self.length_at(at, four, distance);
            if length > found.length {
                found = Found { distance, length, which: 3 };
            }
        }
        Some(found).filter(|found| found.length > 0)
    }

    /// The copy to make at a place, if there is any; `waiting` new bytes stand before it.
    #[inline]
    fn find(&mut self, at: usize, distances: &Distances, waiting: usize) -> Option<Found> {
        let four = u32_at(self.new, at)?;
        let mut best: Option<Found> = None;
        for (which, distance) in distances.0.into_iter().enumerate() {
            let length = self.length_at(at, four, distance);
            if length > best.map_or(0, |best| best.length) {
                best = Some(Found { distance, length, which });
                if length >= LONG_ENOUGH {
                    return best;
                }
            }
        }
        if !self.is_filled {
            if waiting < PATIENCE {
                return best;
            }
            self.fill();
        }
        let known = best.map_or(0, |best| best.length.wrapping_add(WORTH));
        let found = self.look_up(at, four).filter(|found| found.length > known);
        // A distance of three bytes costs more than the shortest copies save.
        let is_worth = |found: &Found| {
            let is_dear = difference(distances.last(), found.distance) >= 1 << 14;
            !is_dear || found.length >= DEAR_LENGTH_MIN
        };
        found.filter(is_worth).or(best)
    }
}

/// The bits of a hash: one place for two bytes, so that little is to be cleared.
const fn hash_bits(block_bytes: usize) -> u32 {
    let bits = (block_bytes / 2).saturating_add(1).ilog2();
    if bits < TABLE_BITS_MIN {
        TABLE_BITS_MIN
    } else if bits > TABLE_BITS {
        TABLE_BITS
    } else {
        bits
    }
}

/// Writes what makes `old` to `new` into `out`, and says how many bytes that is: none, if they are
/// the same.
///
/// # Errors
/// [`NoRoom`], as soon as it is known; `out` then holds anything. Also where the images differ in
/// length or are longer than 64 KiB.
pub fn encode(
    old: &[u8],
    new: &[u8],
    table: &mut MovesTable,
    out: &mut [u8],
) -> Result<usize, NoRoom> {
    if old.len() != new.len() || new.len() > BLOCK_BYTES_MAX {
        return Err(NoRoom);
    }
    let bits = hash_bits(new.len());
    let mut search = Search {
        old,
        new,
        old_places: table.old.get_mut(..1 << bits).unwrap_or_default(),
        new_places: table.new.get_mut(..1 << bits).unwrap_or_default(),
        shift: 32_u32.wrapping_sub(bits),
        is_filled: false,
    };
    let mut sink = Sink::new(out);
    let mut distances = Distances::new(new.len());
    // The copy that is not written yet, because the new bytes behind it belong to its command.
    let mut copy = Move { which: 0, difference: 0, length: 0 };
    let (mut at, mut news_from) = (0_usize, 0_usize);
    while at < new.len() {
        let waiting = at.wrapping_sub(news_from);
        // A copy reaches back over `BACK_MAX` of them at most: the others are new for certain.
        if waiting > sink.room_left().saturating_add(BACK_MAX) {
            return Err(NoRoom);
        }
        let Some(found) = search.find(at, &distances, waiting) else {
            at = at.wrapping_add(1).wrapping_add(waiting >> STEP_SHIFT);
            continue;
        };
        let back = search.back_at(at, found.distance, waiting.min(BACK_MAX));
        let from = at.wrapping_sub(back);
        if from > 0 {
            put_command(&mut sink, copy, new, news_from, from)?;
        }
        copy = Move {
            which: found.which,
            difference: difference(distances.last(), found.distance),
            length: found.length.wrapping_add(back),
        };
        distances.take(found.which, found.distance);
        at = at.wrapping_add(found.length);
        news_from = at;
    }
    // What is as before at the end goes without saying.
    let news_end = new.len().wrapping_sub(search.tail_at(distances.last(), news_from));
    if news_from < news_end {
        put_command(&mut sink, copy, new, news_from, news_end)?;
    } else if copy.which > 0 {
        put_command(&mut sink, Move { length: LENGTH_MIN, ..copy }, new, 0, 0)?;
    }
    Ok(sink.used())
}

/// A copy as it is written.
#[derive(Clone, Copy)]
struct Move {
    which: usize,
    /// How far a new distance is from the last one, as a number.
    difference: usize,
    length: usize,
}

/// The difference of two distances as a number.
const fn difference(last: usize, new: usize) -> usize {
    match new.checked_sub(last) {
        Some(more) => more.wrapping_mul(2),
        None => last.wrapping_sub(new).wrapping_mul(2).wrapping_sub(1),
    }
}

/// Puts a copy, and the new bytes from one place to another.
#[inline]
#[allow(clippy::cast_possible_truncation, reason = "three bits each, and low bytes on purpose")]
fn put_command(
    sink: &mut Sink<'_>,
    copy: Move,
    new: &[u8],
    from: usize,
    to: usize,
) -> Result<(), NoRoom> {
    let count = to.wrapping_sub(from);
    let length = match copy.which {
        0 => copy.length >> 8,
        _ => copy.length.wrapping_sub(LENGTH_MIN),
    };
    let (short_count, short_length) = (count.min(ESCAPE), length.min(ESCAPE));
    sink.put_byte(((copy.which << 6) | (short_count << 3) | short_length) as u8)?;
    if copy.which == 3 {
        put_number(sink, copy.difference)?;
    }
    if copy.which == 0 && short_length < ESCAPE {
        sink.put_byte(copy.length as u8)?;
    } else if short_length == ESCAPE {
        let taken = if copy.which == 0 { ESCAPE << 8 } else { LENGTH_MIN.wrapping_add(ESCAPE) };
        put_number(sink, copy.length.wrapping_sub(taken))?;
    }
    if short_count == ESCAPE {
        put_number(sink, count.wrapping_sub(ESCAPE))?;
    }
    sink.put_from(new, from, count)
}

/// Puts a number of at most 21 bits.
#[inline]
#[allow(clippy::cast_possible_truncation, reason = "seven bits on purpose; the others are put too")]
fn put_number(sink: &mut Sink<'_>, mut number: usize) -> Result<(), NoRoom> {
    while number >= 0x80 {
        sink.put_byte((number | 0x80) as u8)?;
        number >>= 7;
    }
    sink.put_byte(number as u8)
}
