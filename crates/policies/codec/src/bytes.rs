//! What the codecs share: numbers at places of a slice, common parts of two slices, and a buffer
//! filled or read from its start.
//!
//! Nothing here trusts a place: one outside of a slice is `None`, an error, or nothing in common.

use core::cmp::min;

use journal_core::policy::NoRoom;

use crate::error::DecodeError;

/// How many bytes a short copy moves at once, where there is room for them.
pub(crate) const CHUNK_BYTES: usize = 16;

/// How many bytes are compared at once where much is the same.
const STRIDE_BYTES: usize = 32;

#[inline]
pub(crate) fn chunk_at<const N: usize>(bytes: &[u8], at: usize) -> Option<&[u8; N]> {
    bytes.get(at..)?.first_chunk()
}

#[inline]
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    chunk_at(bytes, at).map(|chunk| u32::from_le_bytes(*chunk))
}

#[inline]
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    chunk_at(bytes, at).map(|chunk| u64::from_le_bytes(*chunk))
}

/// The eight bytes at a place, those behind the end as zeros.
#[inline]
pub(crate) fn word_at(bytes: &[u8], at: usize) -> u64 {
    u64_at(bytes, at).unwrap_or_else(|| short_word_at(bytes, at))
}

#[cold]
#[inline(never)]
fn short_word_at(bytes: &[u8], at: usize) -> u64 {
    let rest = bytes.get(at..).unwrap_or_default().iter().take(8);
    rest.rev().fold(0, |word, byte| (word << 8) | u64::from(*byte))
}

/// A number whose lowest `count` bits are set.
#[inline]
pub(crate) const fn low_bits(count: usize) -> u64 {
    if count >= 64 { u64::MAX } else { (1_u64 << count).wrapping_sub(1) }
}

/// How many bytes two slices begin with alike.
#[inline]
pub(crate) fn common_front(one: &[u8], other: &[u8]) -> usize {
    // Most are short, and told by one comparison.
    if let (Some(this), Some(that)) = (u64_at(one, 0), u64_at(other, 0)) {
        let differing = this ^ that;
        if differing != 0 {
            return (differing.trailing_zeros() / 8) as usize;
        }
    }
    long_common_front(one, other)
}

fn long_common_front(one: &[u8], other: &[u8]) -> usize {
    let mut at = 0_usize;
    let strides = one.chunks_exact(STRIDE_BYTES).zip(other.chunks_exact(STRIDE_BYTES));
    for (this, that) in strides {
        if this != that {
            break;
        }
        at = at.saturating_add(STRIDE_BYTES);
    }
    while let (Some(this), Some(that)) = (u64_at(one, at), u64_at(other, at)) {
        let differing = this ^ that;
        if differing != 0 {
            return at.saturating_add((differing.trailing_zeros() / 8) as usize);
        }
        at = at.saturating_add(8);
    }
    let rest = one.get(at..).unwrap_or_default().iter();
    let rest = rest.zip(other.get(at..).unwrap_or_default());
    at.saturating_add(rest.take_while(|(this, that)| this == that).count())
}

/// How many bytes two slices end with alike, up to `most`.
#[inline]
pub(crate) fn common_back(one: &[u8], other: &[u8], most: usize) -> usize {
    let both = one.iter().rev().zip(other.iter().rev()).take(most);
    both.take_while(|(this, that)| this == that).count()
}

/// A buffer that is filled from its start.
pub(crate) struct Sink<'a> {
    room: &'a mut [u8],
    used: usize,
}

impl<'a> Sink<'a> {
    #[inline]
    pub(crate) const fn new(room: &'a mut [u8]) -> Self {
        Self { room, used: 0 }
    }

    #[inline]
    pub(crate) const fn used(&self) -> usize {
        self.used
    }

    #[inline]
    pub(crate) const fn room_left(&self) -> usize {
        self.room.len().saturating_sub(self.used)
    }

    #[inline]
    pub(crate) fn put_byte(&mut self, byte: u8) -> Result<(), NoRoom> {
        *self.room.get_mut(self.used).ok_or(NoRoom)? = byte;
        self.used = self.used.wrapping_add(1);
        Ok(())
    }

    #[inline]
    pub(crate) fn put<const N: usize>(&mut self, bytes: [u8; N]) -> Result<(), NoRoom> {
        let free = self.room.get_mut(self.used..).ok_or(NoRoom)?;
        *free.first_chunk_mut().ok_or(NoRoom)? = bytes;
        self.used = self.used.wrapping_add(N);
        Ok(())
    }

    /// Appends the first `count` of these bytes, where there is room for all of them.
    #[inline]
    pub(crate) fn put_front<const N: usize>(
        &mut self,
        bytes: [u8; N],
        count: usize,
    ) -> Result<(), NoRoom> {
        let free = self.room.get_mut(self.used..).ok_or(NoRoom)?;
        *free.first_chunk_mut().ok_or(NoRoom)? = bytes;
        self.used = self.used.wrapping_add(count);
        Ok(())
    }

    /// Appends `count` bytes that begin at `from`.
    #[inline]
    pub(crate) fn put_from(
        &mut self,
        bytes: &[u8],
        from: usize,
        count: usize,
    ) -> Result<(), NoRoom> {
        let free = self.room.get_mut(self.used..).ok_or(NoRoom)?;
        match (chunk_at::<CHUNK_BYTES>(bytes, from), free.first_chunk_mut()) {
            // What is written behind the last byte is overwritten, or not looked at.
            (Some(chunk), Some(free)) if count <= CHUNK_BYTES => *free = *chunk,
            _ => {
                let bytes = bytes.get(from..).and_then(|bytes| bytes.get(..count));
                let bytes = bytes.unwrap_or_default();
                free.get_mut(..bytes.len()).ok_or(NoRoom)?.copy_from_slice(bytes);
            }
        }
        self.used = self.used.saturating_add(count);
        Ok(())
    }

    /// Adds bits to the byte that was put `ago` bytes ago.
    #[inline]
    pub(crate) fn add_bits(&mut self, ago: usize, bits: u8) -> Result<(), NoRoom> {
        let at = self.used.checked_sub(ago).ok_or(NoRoom)?;
        *self.room.get_mut(at).ok_or(NoRoom)? |= bits;
        Ok(())
    }
}

/// Bytes that are read from their start.
#[derive(Clone, Copy)]
pub(crate) struct Source<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Source<'a> {
    #[inline]
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    #[inline]
    pub(crate) const fn at(&self) -> usize {
        self.at
    }

    #[inline]
    pub(crate) const fn is_empty(&self) -> bool {
        self.at >= self.bytes.len()
    }

    #[inline]
    pub(crate) fn byte(&mut self) -> Result<u8, DecodeError> {
        let cut = DecodeError::CutOff { at: self.bytes.len() };
        let byte = *self.bytes.get(self.at).ok_or(cut)?;
        self.at = self.at.wrapping_add(1);
        Ok(byte)
    }

    #[inline]
    pub(crate) fn u16(&mut self) -> Result<u16, DecodeError> {
        let cut = DecodeError::CutOff { at: self.bytes.len() };
        let chunk = *chunk_at(self.bytes, self.at).ok_or(cut)?;
        self.at = self.at.wrapping_add(2);
        Ok(u16::from_le_bytes(chunk))
    }

    /// Copies the next `count` bytes to `made` in `out`; `began` is where their instruction does.
    #[inline]
    pub(crate) fn copy(
        &mut self,
        count: usize,
        out: &mut [u8],
        made: usize,
        began: usize,
    ) -> Result<(), DecodeError> {
        let free = out.get_mut(made..).unwrap_or_default();
        match (chunk_at::<CHUNK_BYTES>(self.bytes, self.at), free.first_chunk_mut()) {
            // What is written behind the last byte is overwritten, or `out` is not whole.
            (Some(chunk), Some(free)) if count <= CHUNK_BYTES => *free = *chunk,
            _ => {
                let rest = self.bytes.get(self.at..).unwrap_or_default();
                let cut = DecodeError::CutOff { at: self.bytes.len() };
                let bytes = rest.get(..count).ok_or(cut)?;
                let too_long = DecodeError::TooLong { at: began };
                free.get_mut(..count).ok_or(too_long)?.copy_from_slice(bytes);
            }
        }
        self.at = self.at.saturating_add(count);
        Ok(())
    }
}

/// Copies `count` bytes to `made` in `out` from `distance` before, one after the other: what was
/// copied may be copied again. The distance is not zero and not more than `made`.
#[inline]
pub(crate) fn copy_from_before(
    out: &mut [u8],
    made: usize,
    distance: usize,
    count: usize,
    began: usize,
) -> Result<(), DecodeError> {
    let source = made.checked_sub(distance).filter(|_| distance > 0);
    let source = source.ok_or(DecodeError::NoSource { at: began })?;
    if count <= CHUNK_BYTES && distance >= CHUNK_BYTES {
        let chunk = chunk_at::<CHUNK_BYTES>(out, source).copied();
        let free = out.get_mut(made..).and_then(|free| free.first_chunk_mut());
        if let (Some(chunk), Some(free)) = (chunk, free) {
            *free = chunk;
            return Ok(());
        }
    }
    let end = made.checked_add(count).filter(|end| *end <= out.len());
    let end = end.ok_or(DecodeError::TooLong { at: began })?;
    if distance == 1 {
        let byte = out.get(source).copied().unwrap_or_default();
        out.get_mut(made..end).unwrap_or_default().fill(byte);
        return Ok(());
    }
    // What is made already repeats, so that each step may copy all that the ones before made.
    let mut place = made;
    while place < end {
        let step = min(place.saturating_sub(source), end.saturating_sub(place));
        out.copy_within(source..source.saturating_add(step), place);
        place = place.saturating_add(step);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::vec;
    use std::vec::Vec;

    use super::*;

    #[test]
    fn what_two_slices_have_in_common_is_counted() {
        for len in 0..100 {
            let one = vec![7; len];
            assert_eq!(common_front(&one, &[7; 64]), len.min(64));
            assert_eq!(common_back(&one, &[7; 64], 40), len.min(40));
            for differs in 0..len {
                let mut other = one.clone();
                other[differs] = 8;
                assert_eq!(common_front(&one, &other), differs);
                assert_eq!(common_back(&one, &other, len), len - differs - 1);
            }
        }
    }

    #[test]
    fn a_copy_from_before_repeats_what_it_made() {
        for distance in 1..40 {
            for count in 0..100 {
                for behind in [0, 1, 20] {
                    let mut out = vec![0xEE; 40 + count + behind];
                    (0..40).for_each(|at| out[at] = at as u8);
                    let mut expected = out.clone();
                    (40..40 + count).for_each(|at| expected[at] = expected[at - distance]);
                    assert_eq!(copy_from_before(&mut out, 40, distance, count, 5), Ok(()));
                    assert_eq!(out[..40 + count], expected[..40 + count]);
                }
            }
        }
        let mut out = vec![0; 8];
        let no_source = Err(DecodeError::NoSource { at: 5 });
        assert_eq!(copy_from_before(&mut out, 4, 0, 1, 5), no_source);
        assert_eq!(copy_from_before(&mut out, 4, 5, 1, 5), no_source);
        let too_long = Err(DecodeError::TooLong { at: 5 });
        assert_eq!(copy_from_before(&mut out, 4, 4, 5, 5), too_long);
        assert_eq!(copy_from_before(&mut out, 4, 4, usize::MAX, 5), too_long);
    }

    #[test]
    fn a_sink_takes_what_fits_and_a_source_gives_what_is_there() {
        let bytes: Vec<u8> = (0..64).collect();
        for room in 0..40 {
            for count in 0..40 {
                let mut memory = vec![0xEE; room];
                let mut sink = Sink::new(&mut memory);
                let put = sink.put_from(&bytes, 3, count);
                assert_eq!(put, if count <= room { Ok(()) } else { Err(NoRoom) });
                if put.is_ok() {
                    assert_eq!((sink.used(), sink.room_left()), (count, room - count));
                    assert_eq!(memory[..count], bytes[3..3 + count]);
                }
                let mut out = vec![0xEE; 5 + room];
                let mut source = Source::new(&bytes[..32]);
                let copied = source.copy(count, &mut out, 5, 9);
                assert_eq!(copied.is_ok(), count <= room.min(32));
                if copied.is_ok() {
                    assert_eq!(source.at(), count);
                    assert_eq!(out[5..5 + count], bytes[..count]);
                }
            }
        }
    }
}
