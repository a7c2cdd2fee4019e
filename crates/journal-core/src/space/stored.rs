//! How much was stored, for one purpose.

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
    /// Nothing yet.
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

#[cfg(test)]
mod tests {
    use super::*;

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
