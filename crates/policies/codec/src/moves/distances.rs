//! The distances that the commands of a delta name, and the lengths beside them.

use journal_core::WORD_BYTES;

/// The value of three bits behind which a number follows.
pub(super) const ESCAPE: usize = 7;

/// The shortest copy from another distance than the last.
pub(super) const LENGTH_MIN: usize = 4;

/// The distances that are remembered, the last one first.
#[derive(Clone, Copy)]
pub(super) struct Distances(pub(super) [usize; 3]);

impl Distances {
    pub(super) const fn new(block_bytes: usize) -> Self {
        Self([block_bytes, 1, WORD_BYTES])
    }

    pub(super) const fn last(&self) -> usize {
        let [last, ..] = self.0;
        last
    }

    /// Makes one of them, or a new one, the last.
    pub(super) const fn take(&mut self, which: usize, new: usize) {
        let [first, second, third] = self.0;
        self.0 = match which {
            0 => [first, second, third],
            1 => [second, first, third],
            2 => [third, first, second],
            _ => [new, first, second],
        };
    }
}
