//! Reading a stream of any encoder, whatever became of it.

use super::limits::{END, NEAR_MAX};
use crate::bytes::{Source, copy_from_before};
use crate::error::DecodeError;

/// How many literals stood before an instruction: how a first byte below 16 is read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    None,
    /// One to three.
    Few,
    Many,
}

impl Before {
    #[inline]
    const fn literals(count: usize) -> Self {
        match count {
            0 => Self::None,
            1..=3 => Self::Few,
            _ => Self::Many,
        }
    }
}

/// Reads `stream` into `out`, all of which it has to fill.
///
/// # Errors
/// [`DecodeError`]; `out` then holds anything.
pub fn decode(stream: &[u8], out: &mut [u8]) -> Result<(), DecodeError> {
    let mut source = Source::new(stream);
    let (mut made, mut before) = (0_usize, Before::None);
    // 1. Literals that the stream may begin with.
    if let Some(count) = stream.first().and_then(|first| first.checked_sub(17)) {
        // 17 itself is an instruction like any other.
        if count > 0 {
            source.byte()?;
            let count = usize::from(count);
            source.copy(count, out, made, 0)?;
            (made, before) = (count, Before::literals(count));
        }
    }
    // 2. Instructions: each is a copy, and literals behind it.
    loop {
        let began = source.at();
        let first = source.byte()?;
        let bits = usize::from(first);
        // Where the copy comes from, how long it is, and how many literals follow it.
        let (distance, length, literals) = match first {
            0..=15 if before == Before::None => {
                let count = length_of(&mut source, bits, 15)?.saturating_add(3);
                source.copy(count, out, made, began)?;
                (made, before) = (made.saturating_add(count), Before::Many);
                continue;
            }
            0..=15 => {
                let distance = (usize::from(source.byte()?) << 2) | (bits >> 2);
                match before {
                    Before::Many => (distance.wrapping_add(2049), 3, bits & 3),
                    _ => (distance.wrapping_add(1), 2, bits & 3),
                }
            }
            16..=31 => {
                let length = length_of(&mut source, bits & 7, 7)?.saturating_add(2);
                let rest = usize::from(source.u16()?);
                let far = ((bits & 8) << 11) | (rest >> 2);
                if far == 0 {
                    let is_end = stream.get(began..source.at()) == Some(&END);
                    let wrong = DecodeError::Unknown { at: began };
                    return if is_end { end(source, made, out.len()) } else { Err(wrong) };
                }
                (far.wrapping_add(NEAR_MAX), length, rest & 3)
            }
            32..=63 => {
                let length = length_of(&mut source, bits & 31, 31)?.saturating_add(2);
                let rest = usize::from(source.u16()?);
                ((rest >> 2).wrapping_add(1), length, rest & 3)
            }
            64.. => {
                let high = usize::from(source.byte()?) << 3;
                let distance = (high | ((bits >> 2) & 7)).wrapping_add(1);
                (distance, (bits >> 5).wrapping_add(1), bits & 3)
            }
        };
        copy_from_before(out, made, distance, length, began)?;
        made = made.saturating_add(length);
        if literals > 0 {
            source.copy(literals, out, made, began)?;
            made = made.saturating_add(literals);
        }
        before = Before::literals(literals);
    }
}

/// A length that stands in bits of a first byte, or, where those are zero, goes on behind it.
#[inline]
fn length_of(source: &mut Source<'_>, bits: usize, highest: usize) -> Result<usize, DecodeError> {
    if bits > 0 {
        return Ok(bits);
    }
    let mut length = highest;
    loop {
        match source.byte()? {
            0 => length = length.saturating_add(255),
            last => return Ok(length.saturating_add(usize::from(last))),
        }
    }
}

fn end(source: Source<'_>, made: usize, expected: usize) -> Result<(), DecodeError> {
    if !source.is_empty() {
        return Err(DecodeError::Trailing { at: source.at() });
    }
    if made < expected {
        return Err(DecodeError::TooShort { made });
    }
    Ok(())
}
