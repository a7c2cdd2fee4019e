//! The memory that the shares of an index are in: one piece for the tables of all shares, and one
//! for their frames.
//!
//! Frames lie side by side, in memory that is used again behind a checkpoint, and take a page now
//! and then. A block's entry in a table may be in any page. All pages of the tables are taken
//! before a thread waits for one, unless there are more than an open could take fast. The caller
//! that opens the journal may ask for all pages of both.

use journal_core::parts::{Index, IndexMemory};
use journal_core::{Entry, Node};
use pmem_sys::{Taken, Zeroes};

/// Taking this number of bytes at once takes one millisecond to three.
const AT_ONCE_BELOW_BYTES: usize = 8 << 20;

/// The fewest frames that an index has room for after it was made larger.
const LARGER_FRAMES_MIN: usize = 32;

/// The number of entries in a table for `frames` frames: a third more, and one that stays empty, to
/// keep searches short.
const fn entries_for(frames: usize) -> usize {
    frames.saturating_add(frames / 3).saturating_add(2)
}

/// The memory that one share keeps its table and its frames in.
#[derive(Debug)]
pub(crate) struct IndexParts {
    entries: Zeroes<Entry>,
    nodes: Zeroes<Node>,
}

impl IndexParts {
    /// Makes `count` empty indexes, each with room for `frames` frames. `at_once` says whether all
    /// pages are taken now.
    pub(crate) fn indexes(
        count: usize,
        frames: usize,
        at_once: bool,
    ) -> impl Iterator<Item = Index<Self>> {
        let entries = entries_for(frames);
        let bytes = entries.saturating_mul(count).saturating_mul(size_of::<Entry>());
        let taken = |at_once| if at_once { Taken::AtOnce } else { Taken::AsUsed };
        let entries = Zeroes::parts(count, entries, taken(at_once || bytes < AT_ONCE_BELOW_BYTES));
        let nodes = Zeroes::parts(count, frames, taken(at_once));
        let parts = entries.into_iter().zip(nodes);
        parts.map(|(entries, nodes)| Index::over_zeroes(Self { entries, nodes }))
    }

    /// Doubles an index's room, while no other thread knows where the index keeps things.
    pub(crate) fn make_larger(index: &mut Index<Self>) {
        let frames = index.capacity().saturating_mul(2).max(LARGER_FRAMES_MIN);
        let mut entries = Zeroes::parts(1, entries_for(frames), Taken::AsUsed);
        let mut nodes = Zeroes::parts(1, frames, Taken::AsUsed);
        if let (Some(entries), Some(nodes)) = (entries.pop(), nodes.pop()) {
            index.move_to(Self { entries, nodes });
        }
    }

    /// An index with no room at all.
    pub(crate) fn none() -> Index<Self> {
        Index::over_zeroes(Self { entries: Zeroes::EMPTY, nodes: Zeroes::EMPTY })
    }
}

impl IndexMemory for IndexParts {
    #[inline]
    fn entries(&self) -> &[Entry] {
        &self.entries
    }

    #[inline]
    fn entries_mut(&mut self) -> &mut [Entry] {
        &mut self.entries
    }

    #[inline]
    fn nodes(&self) -> &[Node] {
        #[cfg(test)]
        looks::LOOKS.with(|looks| looks.set(looks.get() + 1));
        &self.nodes
    }

    #[inline]
    fn nodes_mut(&mut self) -> &mut [Node] {
        &mut self.nodes
    }
}

#[cfg(test)]
pub(crate) mod looks {
    use core::cell::Cell;

    std::thread_local! {
        /// How often this thread has looked at nodes.
        pub(crate) static LOOKS: Cell<u64> = const { Cell::new(0) };
    }
}
