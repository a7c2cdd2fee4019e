//! The memory that the shares of an index are in: parts of two pieces, one for the tables and one
//! for the frames. Where they are large, nothing of them is touched before a block or a frame comes
//! to lie there.

use journal_core::parts::{Index, IndexMemory};
use journal_core::{Entry, Node};
use pmem_sys::Zeroes;

/// What one share keeps its table and its frames in.
#[derive(Debug)]
pub(crate) struct IndexParts {
    entries: Zeroes<Entry>,
    nodes: Zeroes<Node>,
}

impl IndexParts {
    /// So many empty indexes, each with room for so many frames.
    pub(crate) fn indexes(count: usize, frames: usize) -> impl Iterator<Item = Index<Self>> {
        // A third more, and one that stays empty, to keep searches short.
        let entries = frames.saturating_add(frames / 3).saturating_add(2);
        let parts = Zeroes::parts(count, entries).into_iter().zip(Zeroes::parts(count, frames));
        parts.map(|(entries, nodes)| Index::over_zeroes(Self { entries, nodes }))
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
        &self.nodes
    }

    #[inline]
    fn nodes_mut(&mut self) -> &mut [Node] {
        &mut self.nodes
    }
}
