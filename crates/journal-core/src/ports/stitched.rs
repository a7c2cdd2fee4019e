//! Lines that are put together from pieces, for media that can write them like that.
//!
//! A store that a processor has not yet written to its cache is handed on only to loads that are
//! no wider. Behind a fence nothing leaves for the cache until that fence is complete.
//!
//! A front may be copied together, and then loaded line by line to be streamed, or to be checked.
//! In the middle of its own commit it then waits for the fence of the last one. Put together in
//! registers it does not wait. What was just stored of it is loaded word by word. The payload is
//! loaded from where the caller has it, as one body or as several pieces.
//!
//! Guarantees: what is written and checked is what copying all of it together would have been. A
//! crash may do to it what it may do to that.

use crate::ports::kernels::crc64;
use crate::ports::policy::Prefix;
use crate::units::{LINE_BYTES, WORD_BYTES};

/// Whole lines, the fewest that have room for what is in them. They begin with bytes that were just
/// put together, and go on with bytes that lie elsewhere. They end, behind zeroes, with one word.
#[derive(Clone, Copy, Debug)]
pub struct Stitched<'a> {
    start: &'a [u8],
    body_at: usize,
    body: &'a [u8],
    pieces: &'a [Piece<'a>],
    bytes: usize,
}

/// Some bytes that lie elsewhere, behind a few that do not.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Piece<'a> {
    /// The bytes that come first.
    pub prefix: Prefix,
    /// The bytes behind the prefix.
    pub bytes: &'a [u8],
}

impl Piece<'_> {
    /// Nothing.
    pub const NONE: Self = Self { prefix: Prefix::NONE, bytes: &[] };

    /// Bytes of both.
    #[inline]
    #[must_use]
    pub const fn len(&self) -> usize {
        self.prefix.bytes().saturating_add(self.bytes.len())
    }

    /// Whether it is nothing.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Each byte: those of the prefix, and then the others.
    fn each(&self) -> impl Iterator<Item = u8> {
        let prefix = self.prefix.word().to_le_bytes();
        prefix.into_iter().take(self.prefix.bytes()).chain(self.bytes.iter().copied())
    }

    /// Copies both to `at`; returns where they end.
    pub(crate) fn copy_to(&self, front: &mut [u8], at: usize) -> usize {
        let end = at.saturating_add(self.len());
        let to = front.get_mut(at..end).unwrap_or_default();
        let (prefix, bytes) = to.split_at_mut_checked(self.prefix.bytes()).unwrap_or_default();
        for (to, from) in prefix.iter_mut().zip(self.prefix.word().to_le_bytes()) {
            *to = from;
        }
        if bytes.len() == self.bytes.len() {
            bytes.copy_from_slice(self.bytes);
        }
        end
    }
}

impl<'a> Stitched<'a> {
    /// The longest start, and body that begins in it.
    pub const START_BYTES_MAX: usize = 2 * LINE_BYTES;

    /// `body` behind the first `body_at` bytes of `start`, which is whole words, the last of which
    /// may reach behind that. `None` where the start is shorter than a line or longer than two.
    #[inline(always)]
    #[must_use]
    pub fn new(start: &'a [u8], body_at: usize, body: &'a [u8]) -> Option<Self> {
        let fits = start.len() >= LINE_BYTES
            && start.len() <= Self::START_BYTES_MAX
            && start.len() == body_at.checked_next_multiple_of(WORD_BYTES)?;
        let bytes = body_at.checked_add(body.len())?.checked_add(WORD_BYTES)?;
        let bytes = bytes.checked_next_multiple_of(LINE_BYTES)?;
        fits.then_some(Self { start, body_at, body, pieces: &[], bytes })
    }

    /// Pieces behind a start of whole words. `None` where that is shorter than a line.
    #[inline]
    #[must_use]
    pub fn of_pieces(start: &'a [u8], pieces: &'a [Piece<'a>]) -> Option<Self> {
        let (fits, len) = (start.len() >= LINE_BYTES && start.len() % WORD_BYTES == 0, start.len());
        let bytes = pieces.iter().try_fold(len, |sum, piece| sum.checked_add(piece.len()))?;
        let bytes = bytes.checked_add(WORD_BYTES)?.checked_next_multiple_of(LINE_BYTES)?;
        fits.then_some(Self { start, body_at: len, body: &[], pieces, bytes })
    }

    /// The start, as words that were stored a moment ago.
    #[inline]
    #[must_use]
    pub const fn start(&self) -> &'a [u8] {
        self.start
    }

    /// Where the body begins.
    #[inline]
    #[must_use]
    pub const fn body_at(&self) -> usize {
        self.body_at
    }

    /// The body.
    #[inline]
    #[must_use]
    pub const fn body(&self) -> &'a [u8] {
        self.body
    }

    /// The pieces; where there are any there is no body.
    #[inline]
    #[must_use]
    pub const fn pieces(&self) -> &'a [Piece<'a>] {
        self.pieces
    }

    /// Bytes of all of it.
    #[inline]
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Calls with each line and where it begins, the last one with `last` in its last word.
    fn each_line(&self, last: u64, mut call: impl FnMut(usize, &mut [u8; LINE_BYTES])) {
        let start = self.start.get(..self.body_at).unwrap_or_default();
        let pieces = self.pieces.iter().flat_map(Piece::each);
        let mut bytes = start.iter().chain(self.body).copied().chain(pieces);
        for at in (0..self.bytes).step_by(LINE_BYTES) {
            let mut line = [0; LINE_BYTES];
            for (to, from) in line.iter_mut().zip(bytes.by_ref()) {
                *to = from;
            }
            if at.saturating_add(LINE_BYTES) >= self.bytes {
                if let Some(to) = line.last_chunk_mut() {
                    *to = last.to_le_bytes();
                }
            }
            call(at, &mut line);
        }
    }

    /// Calls with each line and where it begins, with its checks in it; returns that of all.
    pub fn each_checked_line(
        &self,
        seeds: Seeds,
        mut call: impl FnMut(usize, &[u8; LINE_BYTES]),
    ) -> u64 {
        let mut first = 0;
        let with_first = |at: usize, first: u32, line: &mut [u8; LINE_BYTES]| {
            if let Some(to) = line.first_chunk_mut().filter(|_| at == 0) {
                *to = (u32::from_le_bytes(*to) | first).to_le_bytes();
            }
        };
        if let Some(seed) = seeds.line {
            self.each_line(0, |at, line| {
                if at == 0 {
                    first = (crc64(seed, line) & u64::from(u32::MAX)) as u32;
                }
            });
        }
        let mut check = seeds.all;
        self.each_line(0, |at, line| {
            with_first(at, first, line);
            let is_last = at.saturating_add(LINE_BYTES) >= self.bytes;
            let checked = if is_last { LINE_BYTES.saturating_sub(WORD_BYTES) } else { LINE_BYTES };
            check = crc64(check, line.get(..checked).unwrap_or_default());
        });
        self.each_line(check, |at, line| {
            with_first(at, first, line);
            call(at, line);
        });
        check
    }
}

/// What the checks of stitched lines begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seeds {
    /// Where the first line has a check of its own: the lower half of that of the line comes into
    /// its first four bytes, which are zero without.
    pub line: Option<u64>,
    /// The seed of the check over all but the last word. That word becomes the check.
    pub all: u64,
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec::Vec;

    use super::*;

    #[test]
    fn lines_are_what_copying_it_together_is() {
        let (start, body): (Vec<u8>, Vec<u8>) = ((1..129).collect(), (0..=255).rev().collect());
        // Under Miri few of them.
        let (starts, lens) = if cfg!(miri) { (23, 67) } else { (1, 1) };
        for body_at in (57..=130_usize).step_by(starts) {
            for len in (0..200).step_by(lens) {
                let start = &start[..body_at.next_multiple_of(8).min(128)];
                let stitched = Stitched::new(start, body_at, &body[..len]);
                assert_eq!(stitched.is_some(), body_at <= 128, "{body_at}");
                let Some(stitched) = stitched else { continue };
                let mut copied = [&start[..body_at], &body[..len]].concat();
                copied.resize((copied.len() + 8).next_multiple_of(64) - 8, 0);
                let seeds = Seeds { line: (len % 2 == 0).then_some(5), all: 7 };
                if let Some(seed) = seeds.line {
                    let line: Vec<u8> = copied.iter().copied().chain([0; 8]).take(64).collect();
                    let sum = (crc64(seed, &line) as u32).to_le_bytes();
                    copied.iter_mut().zip(sum).for_each(|(byte, sum)| *byte |= sum);
                }
                copied.extend(crc64(7, &copied).to_le_bytes());
                let mut lines = Vec::new();
                let check = stitched.each_checked_line(seeds, |at, line| {
                    assert_eq!(at, lines.len());
                    lines.extend(line);
                });
                assert_eq!(lines[lines.len() - 8..], check.to_le_bytes());
                assert_eq!((lines.len(), lines), (stitched.bytes(), copied), "{body_at}, {len}");
            }
        }
        assert!(Stitched::new(&start[..64], 56, &[]).is_none(), "a word more than it has bytes");
        let piece = |prefix: u64, count, bytes| Piece { prefix: Prefix::new(prefix, count), bytes };
        let pieces = [piece(0x0605_0403, 4, &body[..7]), Piece::NONE, piece(9, 1, &body[8..240])];
        let all = Stitched::of_pieces(&start[..72], &pieces).expect("whole words");
        let mut copied = [&start[..72], &[3, 4, 5, 6], &body[..7], &[9], &body[8..240]].concat();
        copied.resize((copied.len() + 8).next_multiple_of(64) - 8, 0);
        copied.extend(crc64(7, &copied).to_le_bytes());
        let mut lines = Vec::new();
        all.each_checked_line(Seeds { line: None, all: 7 }, |_, line| lines.extend(line));
        assert_eq!((all.bytes(), lines), (copied.len(), copied));
        let mut front = [0xEE; 20];
        assert_eq!(pieces[0].copy_to(&mut front, 5), 16);
        assert_eq!(front[4..17], [&[0xEE, 3, 4, 5, 6], &body[..7], &[0xEE]].concat());
        assert!(Stitched::of_pieces(&start[..56], &pieces).is_none());
        assert!(Stitched::of_pieces(&start[..71], &pieces).is_none());
        assert!(Stitched::new(&start[..56], 56, &[]).is_none());
        assert!(Stitched::new(&start, usize::MAX, &[]).is_none());
    }
}
