//! Counts of what was stored in a part of the memory, and where it wears.

use crate::units::{LINE_BYTES, Offset};

/// What was stored in one part of the memory since the journal was opened, whether or not it was
/// flushed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stored {
    /// Bytes.
    pub bytes: u64,
    /// Lines that have some of these bytes. A line that two stores touch counts twice.
    pub lines: u64,
}

impl Stored {
    /// The counts before the first store.
    pub const NOTHING: Self = Self { bytes: 0, lines: 0 };

    /// Adds a store.
    pub(crate) const fn add(&mut self, at: Offset, bytes: usize) {
        let line = LINE_BYTES as u64;
        let in_line = at.raw() & line.wrapping_sub(1);
        let lines = in_line.saturating_add(bytes as u64).div_ceil(line);
        self.bytes = self.bytes.saturating_add(bytes as u64);
        self.lines = self.lines.saturating_add(if bytes == 0 { 0 } else { lines });
    }

    /// The sum of two of them.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        let bytes = self.bytes.saturating_add(other.bytes);
        Self { bytes, lines: self.lines.saturating_add(other.lines) }
    }
}

/// How many parts of a region are told apart.
pub const WEAR_PARTS: usize = 16;

/// Lines that stores have touched since the journal was opened, in each part of a region of the
/// memory. A part has a power of two of lines, the least with which there are 16 parts or fewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wear {
    /// The binary logarithm of the lines of a part.
    shift: u32,
    lines: u64,
    parts: [u64; WEAR_PARTS],
}

impl Wear {
    /// A region of this length, nothing of which was touched.
    pub(crate) const fn of(bytes: u64) -> Self {
        let (lines, mut shift) = (bytes.div_ceil(LINE_BYTES as u64), 0_u32);
        while lines > (WEAR_PARTS as u64) << shift {
            shift = shift.saturating_add(1);
        }
        Self { shift, lines, parts: [0; WEAR_PARTS] }
    }

    /// The lines of each part that were touched.
    pub(crate) const fn parts(&self) -> [u64; WEAR_PARTS] {
        self.parts
    }

    /// Adds a store.
    pub(crate) fn add(&mut self, at: Offset, bytes: usize) {
        if bytes > 0 {
            let line = LINE_BYTES as u64;
            let end = at.raw().saturating_add(bytes as u64).div_ceil(line);
            self.add_lines(at.raw().checked_div(line).unwrap_or(0), end);
        }
    }

    /// Adds lines up to an end, once each.
    fn add_lines(&mut self, from: u64, to: u64) {
        let mut at = from;
        while at < to {
            let part = at >> self.shift;
            let end = part.saturating_add(1) << self.shift;
            let end = end.min(to);
            let lines = usize::try_from(part).ok().and_then(|part| self.parts.get_mut(part));
            if let Some(lines) = lines {
                *lines = lines.saturating_add(end.saturating_sub(at));
            }
            at = end;
        }
    }

    /// Adds what was stored in a ring one byte behind the other, from one offset to another.
    pub(crate) fn add_round(&mut self, from: u64, to: u64) {
        let line = LINE_BYTES as u64;
        let all = to.saturating_sub(from).div_ceil(line);
        let Some(rounds) = all.checked_div(self.lines) else { return };
        let rest = all.checked_rem(self.lines).unwrap_or(0);
        for (at, lines) in (0_u64..).zip(&mut self.parts) {
            let start = (at << self.shift).min(self.lines);
            let end = (at.saturating_add(1) << self.shift).min(self.lines);
            *lines = lines.saturating_add(end.saturating_sub(start).saturating_mul(rounds));
        }
        let first = from.checked_div(line).and_then(|first| first.checked_rem(self.lines));
        let first = first.unwrap_or(0);
        let end = first.saturating_add(rest);
        self.add_lines(first, end.min(self.lines));
        self.add_lines(0, end.saturating_sub(self.lines));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_region_have_what_was_stored_in_them() {
        let mut wear = Wear::of(20 * 64);
        wear.add(Offset(0), 1);
        wear.add(Offset(64 + 63), 2);
        wear.add(Offset(2 * 64), 18 * 64);
        wear.add(Offset(64), 0);
        let mut expected = [2; WEAR_PARTS];
        (expected[0], expected[1]) = (2, 3);
        expected[10..].fill(0);
        assert_eq!(wear.parts(), expected);
        // Every line of a ring once, and then the last ones and the first once more.
        let mut ring = Wear::of(20 * 64);
        ring.add_round(18 * 64, (18 + 24) * 64);
        let mut expected = [2; WEAR_PARTS];
        (expected[0], expected[9]) = (4, 4);
        expected[10..].fill(0);
        assert_eq!(ring.parts(), expected);
        Wear::of(0).add_round(0, 64);
    }

    #[test]
    fn lines_are_those_that_a_store_touches() {
        let lines = |at, bytes| {
            let mut stored = Stored::NOTHING;
            stored.add(Offset(at), bytes);
            assert_eq!(stored.bytes, bytes as u64);
            stored.lines
        };
        assert_eq!([lines(0, 0), lines(0, 1), lines(0, 64), lines(0, 65)], [0, 1, 1, 2]);
        assert_eq!([lines(63, 0), lines(63, 1), lines(63, 2), lines(64, 128)], [0, 1, 2, 2]);
    }
}
