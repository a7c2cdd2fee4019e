//! A bit for each unit of a block, and the units that are new.
//!
//! A *unit* is a power of two of bytes, from a word on; the last one of a block may be shorter. The
//! payload does not say how long a unit is: the decoder knows it, as it knows the block's length.
//! The payload is the bits, then the new units. Unit 0 has the lowest bit of the first byte, and
//! zeros fill the bits up to a whole byte. The new units stand as they are, ascending. A block of 4
//! KiB has 64 bytes of bits for words and 4 for sub-blocks of 128 bytes.
//!
//! New bytes stand there as they are, so that a payload may meet an image that already has them.

use core::cmp::min;

use journal_core::WORD_BYTES;
use journal_core::policy::NoRoom;

use crate::bytes::{Sink, chunk_at, word_at};
use crate::compare::changed::{Changed, NO_UNITS, for_each_bit};
use crate::error::DecodeError;

pub use crate::unit::Unit;

/// How many bytes a payload has at most: a little less where the last unit is new and a short one.
#[must_use]
pub fn bound(changed: &Changed, unit: Unit) -> usize {
    let units = changed.unit_count(unit).saturating_mul(unit.bytes());
    unit.bitmap_bytes(changed.block_bytes()).saturating_add(units)
}

/// Writes the bits and the units of `new` into `out`, and says how many bytes that is.
///
/// # Errors
/// [`NoRoom`]; `out` then holds anything. Also where `new` is not as long as the block.
pub fn encode(changed: &Changed, unit: Unit, new: &[u8], out: &mut [u8]) -> Result<usize, NoRoom> {
    if new.len() != changed.block_bytes() {
        return Err(NoRoom);
    }
    let (mut sink, mut room) = (Sink::new(out), NO_UNITS);
    let units = changed.units(unit, &mut room);
    let mut left = unit.bitmap_bytes(new.len());
    for number in units {
        let count = min(left, 8);
        sink.put_from(&number.to_le_bytes(), 0, count)?;
        left = left.saturating_sub(count);
    }
    let put = for_each_bit(units, |index| {
        let start = index.wrapping_mul(unit.bytes());
        match chunk_at::<WORD_BYTES>(new, start).filter(|_| unit == Unit::WORD) {
            Some(word) => sink.put(*word).ok(),
            None => {
                let count = min(unit.bytes(), new.len().saturating_sub(start));
                sink.put_from(new, start, count).ok()
            }
        }
    });
    put.ok_or(NoRoom)?;
    Ok(sink.used())
}

/// Writes the units of a payload into a block.
///
/// # Errors
/// [`DecodeError`]: `CutOff`, `Trailing`, and `Unknown` for a bit without a unit. The block then
/// holds anything.
pub fn apply(payload: &[u8], unit: Unit, block: &mut [u8]) -> Result<(), DecodeError> {
    let cut = DecodeError::CutOff { at: payload.len() };
    let bitmap_bytes = unit.bitmap_bytes(block.len());
    let bitmap = payload.get(..bitmap_bytes).ok_or(cut)?;
    let (mut at, mut first) = (bitmap_bytes, 0_usize);
    for chunk in bitmap.chunks(8) {
        let mut left = word_at(chunk, 0);
        while left != 0 {
            let index = first.wrapping_add(left.trailing_zeros() as usize);
            left &= left.wrapping_sub(1);
            let start = index.wrapping_mul(unit.bytes());
            let into = block.get_mut(start..).filter(|into| !into.is_empty());
            let into = into.ok_or(DecodeError::Unknown { at: index / 8 })?;
            let units = payload.get(at..).unwrap_or_default();
            at = at.wrapping_add(
                if unit == Unit::WORD {
                    copy_word(units, into)
                } else {
                    copy_unit(units, into, unit.bytes())
                }
                .ok_or(cut)?,
            );
        }
        first = first.wrapping_add(64);
    }
    if at < payload.len() {
        return Err(DecodeError::Trailing { at });
    }
    Ok(())
}

/// Copies the word that `from` begins with, and says how many bytes it has.
#[inline]
fn copy_word(from: &[u8], into: &mut [u8]) -> Option<usize> {
    match into.first_chunk_mut::<WORD_BYTES>() {
        Some(word) => {
            *word = *from.first_chunk()?;
            Some(WORD_BYTES)
        }
        None => copy_unit(from, into, WORD_BYTES),
    }
}

#[inline]
fn copy_unit(from: &[u8], into: &mut [u8], bytes: usize) -> Option<usize> {
    let count = min(bytes, into.len());
    into.get_mut(..count)?.copy_from_slice(from.get(..count)?);
    Some(count)
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::vec;
    use std::vec::Vec;

    use journal_core::PortableKernels;
    use proptest::prelude::*;

    use super::*;
    use bench_kit::samples;

    const UNITS: [usize; 6] = [8, 16, 64, 128, 1024, 32768];

    fn unit(bytes: usize) -> Unit {
        Unit::new(bytes).expect("a power of two")
    }

    fn encoded(old: &[u8], new: &[u8], unit: Unit) -> Vec<u8> {
        let changed = Changed::between(&PortableKernels, old, new).expect("a block's length");
        let most = bound(&changed, unit);
        let mut out = vec![0xEE; most];
        let len = encode(&changed, unit, new, &mut out).expect("the bound is one");
        assert!(len + unit.bytes() > most);
        let mut exact = vec![0xEE; len];
        assert_eq!(encode(&changed, unit, new, &mut exact), Ok(len));
        assert!(exact == out[..len]);
        if let Some(less) = len.checked_sub(1) {
            assert_eq!(encode(&changed, unit, new, &mut exact[..less]), Err(NoRoom));
        }
        out.truncate(len);
        out
    }

    fn check(old: &[u8], new: &[u8]) {
        for unit in UNITS.map(unit) {
            let payload = encoded(old, new, unit);
            let mut block = old.to_vec();
            for _ in 0..2 {
                // The second time it has everything already.
                assert_eq!(apply(&payload, unit, &mut block), Ok(()));
                assert!(block == new, "{} bytes in {}", new.len(), unit.bytes());
            }
            let cut = payload.len().checked_sub(1).map(|less| &payload[..less]);
            if let Some(cut) = cut {
                let refused = Err(DecodeError::CutOff { at: cut.len() });
                assert_eq!(apply(cut, unit, &mut block), refused);
            }
            let longer = [&payload[..], &[0]].concat();
            let refused = Err(DecodeError::Trailing { at: payload.len() });
            assert_eq!(apply(&longer, unit, &mut old.to_vec()), refused);
        }
    }

    #[test]
    fn what_was_encoded_is_applied() {
        for (seed, len) in (1..).zip(samples::LENGTHS) {
            let old = samples::noise(seed, len);
            check(&old, &old);
            check(&old, &samples::noise(!seed, len));
            for words in [1, len / 160, len / 32] {
                let xor = samples::sparse(seed, len, words);
                check(&old, &old.iter().zip(&xor).map(|(old, xor)| old ^ xor).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn the_payload_is_what_the_module_says() {
        let (old, mut new) = ([0_u8; 300], [0_u8; 300]);
        (new[9], new[299]) = (1, 2);
        let words = encoded(&old, &new, Unit::WORD);
        assert_eq!(
            words,
            [&[2, 0, 0, 0, 0x20][..], &[0, 1, 0, 0, 0, 0, 0, 0], &[0, 0, 0, 2]].concat()
        );
        let blocks = encoded(&old, &new, Unit::SUB_BLOCK);
        assert_eq!(blocks, [&[0b101][..], &new[..128], &new[256..]].concat());
        assert_eq!(Unit::SUB_BLOCK.bitmap_bytes(4096), 4);
        assert_eq!(Unit::WORD.bitmap_bytes(4096), 64);
    }

    #[test]
    fn bits_without_a_unit_are_refused() {
        for (at, bit) in [(0, 3), (0, 7)] {
            let mut payload = vec![0_u8; 1 + 24];
            payload[at] = 1 << bit;
            let refused = Err(DecodeError::Unknown { at });
            assert_eq!(apply(&payload, Unit::WORD, &mut [0; 24]), refused);
        }
        assert_eq!(apply(&[], Unit::WORD, &mut [0; 8]), Err(DecodeError::CutOff { at: 0 }));
        assert_eq!(apply(&[], Unit::WORD, &mut []), Ok(()));
        let long = Changed::none(16).expect("a block's length");
        assert_eq!(encode(&long, Unit::WORD, &[0; 8], &mut [0; 99]), Err(NoRoom));
    }

    #[test]
    fn units_are_powers_of_two_from_a_word_on() {
        for bytes in [0, 1, 4, 7, 9, 24, 65536, usize::MAX] {
            assert_eq!(Unit::new(bytes), None, "{bytes}");
        }
        assert_eq!((Unit::new(8), Unit::new(128)), (Some(Unit::WORD), Some(Unit::SUB_BLOCK)));
    }

    #[test]
    fn every_change_and_truncation_of_a_small_payload_gives_a_result() {
        let (old, mut new) = (samples::noise(1, 300), samples::noise(1, 300));
        (new[0], new[150], new[299]) = (1, 2, 3);
        for unit in UNITS.map(unit) {
            let payload = encoded(&old, &new, unit);
            for at in 0..payload.len() {
                let cut = apply(&payload[..at], unit, &mut old.clone());
                assert_eq!(cut, Err(DecodeError::CutOff { at }));
                let mut changed = payload.clone();
                for byte in 0..=255 {
                    changed[at] = byte;
                    let _ = apply(&changed, unit, &mut old.clone());
                }
            }
        }
    }

    proptest! {
        #[test]
        fn any_pair_of_images_comes_back(
            old in prop::collection::vec(0_u8..2, 0..700),
            flips in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
        ) {
            let mut new = old.clone();
            for flip in flips.iter().filter(|_| !old.is_empty()) {
                new[flip.index(old.len())] ^= 1;
            }
            check(&old, &new);
        }

        #[test]
        fn any_bytes_are_applied_or_refused(
            payload in prop::collection::vec(any::<u8>(), 0..120),
            len in 0_usize..400,
            power in 3_u32..16,
        ) {
            let _ = apply(&payload, unit(1 << power), &mut vec![0; len]);
        }
    }
}
