//! Which block has its newest content where: a hash table and chains of frames, in memory that the
//! caller gives. Rebuilt at every open, never trusted from a medium.
//!
//! An *entry* stands for a block with at least one frame in the lanes; its *nodes* are those
//! frames, newest first.
//!
//! I1. Nodes of an entry descend by stamp; of one stamp (and so one record) the later one comes
//!     first.
//! I2. A node is in exactly one chain, or free.
//! I3. An entry has at least one node; a block without one is at home.

use crate::record::Form;
use crate::units::{BlockNumber, LaneNumber, Sequence, Stamp};

/// No node, no entry.
const NONE: u32 = u32::MAX;

/// Room for one block that has frames in the lanes.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    block: u64,
    newest: u32,
    /// The stamp of the content that a checkpoint has written home and synced; zero for none.
    home: u64,
}

impl Entry {
    /// Nothing yet.
    pub const EMPTY: Self = Self { block: 0, newest: NONE, home: 0 };
}

/// Room for one frame.
#[derive(Clone, Copy, Debug)]
pub struct Node {
    stamp: u64,
    payload: u64,
    record: u64,
    sequence: u64,
    len: u32,
    older: u32,
    newer: u32,
    /// The block's entry is found by it when the node is dropped.
    block: u64,
    lane: u16,
    form: Form,
}

impl Node {
    /// Nothing yet.
    pub const EMPTY: Self = Self {
        stamp: 0,
        payload: 0,
        record: 0,
        sequence: 0,
        len: 0,
        older: NONE,
        newer: NONE,
        block: 0,
        lane: 0,
        form: Form::Discard,
    };
}

/// A frame as the index knows it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FrameAt {
    pub(crate) block: BlockNumber,
    pub(crate) stamp: Stamp,
    pub(crate) lane: LaneNumber,
    pub(crate) sequence: Sequence,
    /// Log offset of the record.
    pub(crate) record: u64,
    /// Log offset of the payload.
    pub(crate) payload: u64,
    pub(crate) len: u32,
    pub(crate) form: Form,
}

/// The index has no room for another block or frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full;

/// A handle to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NodeId(u32);

#[derive(Debug)]
pub(crate) struct Index<'m> {
    entries: &'m mut [Entry],
    nodes: &'m mut [Node],
    free: u32,
    nodes_used: usize,
    entries_used: usize,
}

impl<'m> Index<'m> {
    pub(crate) fn new(entries: &'m mut [Entry], nodes: &'m mut [Node]) -> Self {
        entries.fill(Entry::EMPTY);
        let count = u32::try_from(nodes.len()).unwrap_or(NONE);
        for (next, node) in (1..=count).zip(nodes.iter_mut()) {
            *node = Node { older: if next == count { NONE } else { next }, ..Node::EMPTY };
        }
        let free = if count == 0 { NONE } else { 0 };
        Self { entries, nodes, free, nodes_used: 0, entries_used: 0 }
    }

    /// Frames that can still be added, if they belong to known blocks.
    pub(crate) const fn nodes_free(&self) -> usize {
        self.nodes.len().saturating_sub(self.nodes_used)
    }

    /// Blocks that can still be added. One place stays empty, to end every search.
    pub(crate) const fn entries_free(&self) -> usize {
        self.entries.len().saturating_sub(self.entries_used).saturating_sub(1)
    }

    fn node(&self, id: u32) -> Option<&Node> {
        self.nodes.get(id as usize)
    }

    fn node_mut(&mut self, id: u32) -> Option<&mut Node> {
        self.nodes.get_mut(id as usize)
    }

    fn home_place(&self, block: u64) -> usize {
        let hash = block.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(32);
        let places = self.entries.len().max(1) as u64;
        usize::try_from(hash.checked_rem(places).unwrap_or(0)).unwrap_or(0)
    }

    fn next_place(&self, place: usize) -> usize {
        let next = place.saturating_add(1);
        if next >= self.entries.len() { 0 } else { next }
    }

    /// The place of a block's entry, or the empty one where it would be.
    fn find(&self, block: u64) -> Option<usize> {
        let mut place = self.home_place(block);
        for _ in 0..self.entries.len() {
            let entry = self.entries.get(place)?;
            if entry.newest == NONE || entry.block == block {
                return Some(place);
            }
            place = self.next_place(place);
        }
        None
    }

    fn entry(&self, block: BlockNumber) -> Option<&Entry> {
        let entry = self.entries.get(self.find(block.raw())?)?;
        (entry.newest != NONE).then_some(entry)
    }

    /// The newest frame of a block.
    pub(crate) fn newest(&self, block: BlockNumber) -> Option<NodeId> {
        self.entry(block).map(|entry| NodeId(entry.newest))
    }

    /// The frame before this one, of the same block.
    pub(crate) fn older(&self, id: NodeId) -> Option<NodeId> {
        self.node(id.0).map(|node| node.older).filter(|older| *older != NONE).map(NodeId)
    }

    /// The frame after this one, of the same block.
    pub(crate) fn newer(&self, id: NodeId) -> Option<NodeId> {
        self.node(id.0).map(|node| node.newer).filter(|newer| *newer != NONE).map(NodeId)
    }

    /// What a node stands for.
    pub(crate) fn frame(&self, id: NodeId) -> FrameAt {
        let node = self.node(id.0).copied().unwrap_or(Node::EMPTY);
        FrameAt {
            block: BlockNumber(node.block),
            stamp: Stamp(node.stamp),
            lane: LaneNumber(node.lane),
            sequence: Sequence(node.sequence),
            record: node.record,
            payload: node.payload,
            len: node.len,
            form: node.form,
        }
    }

    /// Adds a frame where its stamp says.
    pub(crate) fn insert(&mut self, frame: FrameAt) -> Result<NodeId, Full> {
        let place = self.find(frame.block.raw()).ok_or(Full)?;
        let (free, entries_free) = (self.free, self.entries_free());
        let entry = self.entries.get_mut(place).ok_or(Full)?;
        if free == NONE || (entry.newest == NONE && entries_free == 0) {
            return Err(Full);
        }
        if entry.newest == NONE {
            *entry = Entry { block: frame.block.raw(), newest: NONE, home: 0 };
            self.entries_used = self.entries_used.saturating_add(1);
        }
        let (mut newer, mut older) = (NONE, entry.newest);
        while let Some(node) = self.node(older).filter(|node| node.stamp > frame.stamp.raw()) {
            (newer, older) = (older, node.older);
        }
        let next_free = self.node(free).map_or(NONE, |node| node.older);
        let Some(node) = self.node_mut(free) else { return Err(Full) };
        *node = Node {
            stamp: frame.stamp.raw(),
            payload: frame.payload,
            record: frame.record,
            sequence: frame.sequence.raw(),
            len: frame.len,
            older,
            newer,
            block: frame.block.raw(),
            lane: frame.lane.raw(),
            form: frame.form,
        };
        self.free = next_free;
        self.nodes_used = self.nodes_used.saturating_add(1);
        if let Some(node) = self.node_mut(older) {
            node.newer = free;
        }
        match self.node_mut(newer) {
            Some(node) => node.older = free,
            None => {
                if let Some(entry) = self.entries.get_mut(place) {
                    entry.newest = free;
                }
            }
        }
        Ok(NodeId(free))
    }

    /// Forgets a frame; the last one of a block takes the entry with it.
    pub(crate) fn remove(&mut self, id: NodeId) {
        let Some(node) = self.node(id.0).copied() else { return };
        if let Some(older) = self.node_mut(node.older) {
            older.newer = node.newer;
        }
        match self.node_mut(node.newer) {
            Some(newer) => newer.older = node.older,
            None => self.set_newest(node.block, node.older),
        }
        let free = self.free;
        if let Some(place) = self.node_mut(id.0) {
            *place = Node { older: free, ..Node::EMPTY };
        }
        self.free = id.0;
        self.nodes_used = self.nodes_used.saturating_sub(1);
    }

    fn set_newest(&mut self, block: u64, newest: u32) {
        let Some(place) = self.find(block) else { return };
        if newest == NONE {
            self.vacate(place);
        } else if let Some(entry) = self.entries.get_mut(place) {
            entry.newest = newest;
        }
    }

    /// Empties a place, and moves up whatever was pushed on by it, so that searches need no
    /// tombstones.
    fn vacate(&mut self, place: usize) {
        let mut hole = place;
        let mut at = place;
        for _ in 0..self.entries.len() {
            at = self.next_place(at);
            let Some(entry) = self.entries.get(at).copied().filter(|e| e.newest != NONE) else {
                break;
            };
            // The entry may move to the hole unless its home place lies cyclically behind the hole.
            let home = self.home_place(entry.block);
            let stays =
                if hole <= at { home > hole && home <= at } else { home > hole || home <= at };
            if !stays {
                if let Some(to) = self.entries.get_mut(hole) {
                    *to = entry;
                }
                hole = at;
            }
        }
        if let Some(to) = self.entries.get_mut(hole) {
            *to = Entry::EMPTY;
        }
        self.entries_used = self.entries_used.saturating_sub(1);
    }

    /// Notes that the content up to `stamp` is home and synced.
    pub(crate) fn set_home(&mut self, block: BlockNumber, stamp: Stamp) {
        if let Some(entry) = self.find(block.raw()).and_then(|place| self.entries.get_mut(place)) {
            if entry.newest != NONE {
                entry.home = stamp.raw();
            }
        }
    }

    /// Whether a block's newest content is home and synced (or it has no frames).
    pub(crate) fn is_home(&self, block: BlockNumber) -> bool {
        self.entry(block).is_none_or(|entry| {
            self.node(entry.newest).is_some_and(|node| node.stamp == entry.home)
        })
    }

    /// Every block with frames, with the place in the table to go on from.
    pub(crate) fn blocks_from(
        &self,
        place: usize,
    ) -> impl Iterator<Item = (usize, BlockNumber)> + '_ {
        let rest = self.entries.iter().enumerate().skip(place);
        rest.filter(|(_, entry)| entry.newest != NONE)
            .map(|(place, entry)| (place, BlockNumber(entry.block)))
    }

    /// Forgets every frame that `goes` says.
    pub(crate) fn remove_where(&mut self, goes: impl Fn(&FrameAt) -> bool) {
        for id in (0..NONE).take(self.nodes.len()).map(NodeId) {
            if self.node(id.0).is_some_and(|node| node.stamp != 0) && goes(&self.frame(id)) {
                self.remove(id);
            }
        }
    }

    /// Every frame.
    pub(crate) fn all(&self) -> impl Iterator<Item = NodeId> + '_ {
        let ids = (0..NONE).zip(self.nodes.iter());
        // A free node has no block of its own; a used one is reachable from its entry.
        ids.filter(|(_, node)| node.stamp != 0).map(|(id, _)| NodeId(id))
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::collections::BTreeMap;
    use std::vec;
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    fn frame(block: u64, stamp: u64) -> FrameAt {
        FrameAt {
            block: BlockNumber(block),
            stamp: Stamp(stamp),
            lane: LaneNumber(0),
            sequence: Sequence(stamp),
            record: 0,
            payload: 0,
            len: 0,
            form: Form::Image,
        }
    }

    fn chain(index: &Index<'_>, block: u64) -> Vec<u64> {
        let first = index.newest(BlockNumber(block));
        let ids = core::iter::successors(first, |id| index.older(*id));
        ids.map(|id| index.frame(id).stamp.raw()).collect()
    }

    proptest! {
        #[test]
        fn chains_are_as_a_map_of_sorted_lists(
            steps in prop::collection::vec((any::<bool>(), 0_u64..6, 1_u64..500), 0..80),
        ) {
            let mut entries = vec![Entry::EMPTY; 5];
            let mut nodes = vec![Node::EMPTY; 12];
            let mut index = Index::new(&mut entries, &mut nodes);
            let mut model: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
            for (adds, block, stamp) in steps {
                let frames: usize = model.values().map(Vec::len).sum();
                if adds {
                    if model.values().flatten().any(|known| *known == stamp) {
                        continue;
                    }
                    let fits = frames < 12 && (model.contains_key(&block) || model.len() < 4);
                    prop_assert_eq!(index.insert(frame(block, stamp)).is_ok(), fits);
                    if fits {
                        let chain = model.entry(block).or_default();
                        chain.push(stamp);
                        chain.sort_by_key(|stamp| core::cmp::Reverse(*stamp));
                    }
                } else if let Some(stamps) = model.get_mut(&block) {
                    let victim = stamps.remove(stamp as usize % stamps.len());
                    if stamps.is_empty() {
                        model.remove(&block);
                    }
                    let id = index.all().find(|id| index.frame(*id).stamp.raw() == victim);
                    index.remove(id.expect("is in the index"));
                }
                for block in 0..6 {
                    let expected = model.get(&block).cloned().unwrap_or_default();
                    prop_assert_eq!(chain(&index, block), expected);
                }
                let frames: usize = model.values().map(Vec::len).sum();
                prop_assert_eq!(index.nodes_free(), 12 - frames);
                prop_assert_eq!(index.entries_free(), 4 - model.len());
                prop_assert_eq!(index.blocks_from(0).count(), model.len());
            }
        }
    }
}
