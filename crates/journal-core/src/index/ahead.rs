//! Passes over an index: each line of it is asked for before it is needed.
//!
//! Nodes lie side by side, and entries do not. A pass that looks up the entry of each node would
//! wait for memory each time. So it names the lines that it `wants` some nodes ahead: a matter of
//! speed only.

use crate::index::frame::{FrameAt, NodeId};
use crate::index::node::{NONE, Node};
use crate::index::{EntryAddresses, Index, IndexMemory};
use crate::units::{BlockNumber, Stamp};

/// This number of nodes ahead, a pass asks for the entry of a node's block.
const AHEAD: usize = 12;

/// An index in which all frames go is emptied as a whole if it has no more than this number of
/// entries for each block.
const EMPTIED_ENTRIES_EACH: usize = 16;

/// For passes that ask for nothing ahead.
pub(crate) const fn nothing_ahead(_: *const u8) {}

impl<M: IndexMemory> Index<M> {
    /// Every block with frames.
    pub(crate) fn each_block(&self) -> impl Iterator<Item = BlockNumber> + '_ {
        self.each_block_ahead(nothing_ahead)
    }

    /// Every block with frames, for a caller that looks up each block's entry.
    pub(crate) fn each_block_ahead<'i>(
        &'i self,
        wants: impl Fn(*const u8) + 'i,
    ) -> impl Iterator<Item = BlockNumber> + 'i {
        let nodes = self.memory.nodes().get(..self.touched as usize).unwrap_or_default();
        let addresses = EntryAddresses::of(self);
        let look_ahead = move |at: usize| {
            let ahead = nodes.get(at.wrapping_add(AHEAD)).filter(|node| is_newest(node));
            if let Some(ahead) = ahead {
                wants(addresses.address_of(BlockNumber(ahead.block)));
            }
        };
        let all = nodes.iter().enumerate().inspect(move |(at, _)| look_ahead(*at));
        all.filter(|(_, node)| is_newest(node)).map(|(_, node)| BlockNumber(node.block))
    }

    /// Nodes that were used since the index was empty.
    #[must_use]
    pub const fn used_nodes(&self) -> usize {
        self.touched as usize
    }

    /// The newest frame of a block, if that is in the node with this number.
    pub(crate) fn newest_in_node(&self, number: usize) -> Option<NodeId> {
        self.used_node(number).filter(|id| self.newer(*id).is_none())
    }

    /// Asks for the line of a node.
    pub(crate) fn want_node(&self, id: NodeId, wants: impl Fn(*const u8)) {
        wants(self.address(id.0));
    }

    /// Forgets every frame that `goes` selects, except for what slots' entries say as well.
    pub(crate) fn remove_where(
        &mut self,
        goes: impl Fn(&FrameAt) -> bool,
        wants: impl Fn(*const u8),
    ) {
        if self.nodes_used == 0 {
            return;
        }
        let leaves = |id: NodeId| {
            let frame = self.frame(id);
            !frame.folded && goes(&frame)
        };
        if self.all().all(leaves) {
            return self.remove_all(wants);
        }
        for id in (1..=self.touched).map(NodeId) {
            let frame = self.frame(id);
            if frame.stamp == Stamp(0) || !goes(&frame) {
                continue;
            }
            if frame.folded {
                self.set_out_of_ring(id);
            } else {
                self.remove(id);
            }
        }
    }

    /// Forgets every frame. No node is written (I4), and each entry once.
    fn remove_all(&mut self, wants: impl Fn(*const u8)) {
        let entries = self.memory.entries().len();
        if entries > self.blocks().saturating_mul(EMPTIED_ENTRIES_EACH) {
            let addresses = EntryAddresses::of(self);
            for at in 0..self.touched as usize {
                let newest = |at: usize| self.memory.nodes().get(at).filter(|node| is_newest(node));
                if let Some(ahead) = newest(at.wrapping_add(AHEAD)) {
                    wants(addresses.address_of(BlockNumber(ahead.block)));
                }
                let entry_at = newest(at).and_then(|node| self.find(node.block));
                if let Some(entry_at) = entry_at {
                    self.vacate(entry_at);
                }
            }
        }
        self.clear();
    }
}

/// Whether a node stands for the newest frame of its block.
const fn is_newest(node: &Node) -> bool {
    node.stamp != 0 && node.newer == NONE
}
