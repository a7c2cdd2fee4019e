//! The blocks that a checkpoint still has to write.

use crate::units::BlockNumber;

/// Blocks that one pass over the index has found to be written home, ascending.
#[derive(Debug)]
pub struct Waiting<'m> {
    memory: &'m mut [BlockNumber],
    next: usize,
    end: usize,
}

impl<'m> Waiting<'m> {
    /// No blocks yet. As many can wait as there is memory for. Without memory, each batch costs a
    /// pass over the index.
    #[must_use]
    pub const fn in_memory(memory: &'m mut [BlockNumber]) -> Self {
        Self { memory, next: 0, end: 0 }
    }

    /// A list in the memory of an earlier one, as that was [left](Self::left).
    #[must_use]
    pub const fn again(memory: &'m mut [BlockNumber], (next, end): (usize, usize)) -> Self {
        Self { memory, next, end }
    }

    /// Which part of the list is left.
    #[must_use]
    pub const fn left(&self) -> (usize, usize) {
        (self.next, self.end)
    }

    pub(crate) const fn has_memory(&self) -> bool {
        !self.memory.is_empty()
    }

    /// The lowest block that waits.
    pub(crate) fn first(&self) -> Option<BlockNumber> {
        self.memory.get(self.next..self.end)?.first().copied()
    }

    /// The block that has this number of lower ones.
    pub(crate) fn nth(&self, count: usize) -> Option<BlockNumber> {
        self.memory.get(self.next..self.end)?.get(count).copied()
    }

    /// Takes the lowest block out.
    pub(crate) const fn pass_first(&mut self) {
        self.next = self.next.saturating_add(1);
    }

    /// Begins anew: no block waits.
    pub(crate) const fn clear(&mut self) {
        (self.next, self.end) = (0, 0);
    }

    /// Adds a block, in any order, unless a lower one has had to be left out. Where there is no
    /// room, the lower half of all blocks stays. `sort` has to be called after the last block.
    pub(crate) fn add(&mut self, block: BlockNumber, limit: &mut Option<BlockNumber>) {
        if limit.is_some_and(|limit| block >= limit) {
            return;
        }
        if let (true, [only]) = (self.end == 1, &mut *self.memory) {
            *only = block.min(*only);
            return;
        }
        if self.end == self.memory.len() {
            self.memory.sort_unstable();
            self.end = self.memory.len().div_ceil(2);
            *limit = self.memory.get(self.end).copied();
            if limit.is_some_and(|limit| block >= limit) {
                return;
            }
        }
        if let Some(to) = self.memory.get_mut(self.end) {
            *to = block;
            self.end = self.end.saturating_add(1);
        }
    }

    pub(crate) fn sort(&mut self) {
        self.memory.get_mut(self.next..self.end).unwrap_or_default().sort_unstable();
    }
}

#[cfg(test)]
mod tests {
    extern crate alloc;

    use alloc::vec;
    use alloc::vec::Vec;

    use super::*;

    /// Passes over some blocks until all have waited: they come in order, each once.
    #[test]
    fn all_blocks_wait_in_order_however_little_memory_there_is() {
        let (rooms, counts) = if cfg!(miri) { (4, 5) } else { (20, 40) };
        for room in 1..rooms {
            for count in 0..counts {
                let blocks: Vec<_> = (0..count).map(|at| BlockNumber(at * 7 % 41)).collect();
                let mut memory = vec![BlockNumber(0); room];
                let mut waiting = Waiting::in_memory(&mut memory);
                let mut gone = Vec::new();
                loop {
                    waiting.clear();
                    let mut limit = None;
                    let left = blocks.iter().filter(|block| !gone.contains(*block));
                    left.for_each(|block| waiting.add(*block, &mut limit));
                    waiting.sort();
                    let before = gone.len();
                    while let Some(first) = waiting.first() {
                        waiting.pass_first();
                        gone.push(first);
                    }
                    if gone.len() == before {
                        break;
                    }
                }
                let mut sorted = blocks.clone();
                sorted.sort_unstable();
                assert_eq!(gone, sorted, "{count} blocks with room for {room}");
            }
        }
    }
}
