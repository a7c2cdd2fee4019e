//! Reading a delta of any encoder, whatever became of it.

use core::cmp::min;

use journal_core::policy::ApplyError;

use super::distances::{Distances, ESCAPE, LENGTH_MIN};
use crate::bytes::{CHUNK_BYTES, Source, chunk_at, copy_from_before};
use crate::error::DecodeError;
use crate::scratch;

/// Writes the image that `delta` makes of `old` into `new`, all of which it fills.
///
/// # Errors
/// [`DecodeError`]; `new` then holds anything.
pub fn decode(delta: &[u8], old: &[u8], new: &mut [u8]) -> Result<(), DecodeError> {
    if old.len() != new.len() {
        return Err(DecodeError::Lengths);
    }
    let mut source = Source::new(delta);
    let mut distances = Distances::new(old.len());
    let mut made = 0_usize;
    while !source.is_empty() {
        let began = source.at();
        let first = usize::from(source.byte()?);
        let (which, short_count, short_length) = (first >> 6, (first >> 3) & 7, first & 7);
        let mut distance = 0;
        if which == 3 {
            distance = distance_from(distances.last(), number(&mut source)?)
                .ok_or(DecodeError::NoSource { at: began })?;
        }
        distances.take(which, distance);
        let length = match (which, short_length) {
            (0, ESCAPE) => number(&mut source)?.wrapping_add(ESCAPE << 8),
            (0, high) => (high << 8) | usize::from(source.byte()?),
            (_, ESCAPE) => number(&mut source)?.wrapping_add(LENGTH_MIN).wrapping_add(ESCAPE),
            (_, short) => short.wrapping_add(LENGTH_MIN),
        };
        let count = match short_count {
            ESCAPE => number(&mut source)?.wrapping_add(ESCAPE),
            short => short,
        };
        copy(old, new, made, distances.last(), length, began)?;
        made = made.saturating_add(length);
        source.copy(count, new, made, began)?;
        made = made.saturating_add(count);
    }
    let left = new.len().saturating_sub(made);
    copy(old, new, made, distances.last(), left, delta.len())
}

/// Turns `block`, which holds the old image, into the new one. It takes a copy of the old one on
/// the stack, of the block's length.
///
/// # Errors
/// [`ApplyError`]; `block` then holds anything. `OutOfBlock` where it is longer than 64 KiB.
pub fn apply(delta: &[u8], block: &mut [u8]) -> Result<(), ApplyError> {
    let applied = scratch::with(block.len(), |old| {
        old.copy_from_slice(block);
        decode(delta, old, block)
    });
    applied.ok_or(ApplyError::OutOfBlock { at: 0 })?.map_err(ApplyError::from)
}

/// Copies from a distance before, the old image standing before the new one.
#[inline]
fn copy(
    old: &[u8],
    new: &mut [u8],
    made: usize,
    distance: usize,
    length: usize,
    began: usize,
) -> Result<(), DecodeError> {
    let no_source = DecodeError::NoSource { at: began };
    if length == 0 {
        return Ok(());
    }
    if distance <= made {
        return copy_from_before(new, made, distance, length, began);
    }
    let from = old.len().saturating_add(made).checked_sub(distance).ok_or(no_source)?;
    let into = new.get_mut(made..).unwrap_or_default();
    if length <= CHUNK_BYTES {
        if let (Some(chunk), Some(into)) =
            (chunk_at::<CHUNK_BYTES>(old, from), into.first_chunk_mut())
        {
            *into = *chunk;
            return Ok(());
        }
    }
    let from = old.get(from..).ok_or(no_source)?;
    let count = min(length, from.len());
    let too_long = DecodeError::TooLong { at: began };
    into.get_mut(..count).ok_or(too_long)?.copy_from_slice(from.get(..count).ok_or(no_source)?);
    if count < length {
        // Behind the old image the new one begins.
        let (made, rest) = (made.saturating_add(count), length.saturating_sub(count));
        return copy_from_before(new, made, distance, rest, began);
    }
    Ok(())
}

/// The distance that differs so from the last.
fn distance_from(last: usize, difference: usize) -> Option<usize> {
    let half = difference / 2;
    match difference % 2 {
        0 => last.checked_add(half),
        _ => last.checked_sub(half.wrapping_add(1)),
    }
}

/// A number of at most three bytes.
#[inline]
fn number(source: &mut Source<'_>) -> Result<usize, DecodeError> {
    let began = source.at();
    let mut number = 0;
    for shift in [0, 7, 14] {
        let byte = source.byte()?;
        number |= usize::from(byte & 0x7F) << shift;
        if byte < 0x80 {
            return Ok(number);
        }
    }
    Err(DecodeError::Unknown { at: began })
}
