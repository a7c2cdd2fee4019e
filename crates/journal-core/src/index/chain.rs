//! The chain of a block: what can be told of it without a walk through all of it (I6 of
//! [`crate::index`]).

use crate::index::frame::{Bounds, NodeId};
use crate::index::node::{NONE, Node};
use crate::index::{Entry, Index, IndexMemory};
use crate::units::{BlockNumber, Stamp};

impl<M: IndexMemory> Index<M> {
    /// The newest whole frame of a block.
    pub(crate) fn newest_whole(&self, block: BlockNumber) -> Option<NodeId> {
        let whole = self.entry(block)?.whole;
        (whole != NONE).then_some(NodeId(whole))
    }

    /// The newest whole placement at or below a frame of its block.
    pub(crate) fn whole_below(&self, from: NodeId) -> Option<NodeId> {
        let frame = self.frame(from);
        if frame.is_whole() {
            return Some(from);
        }
        let newest = self.newest_whole(frame.block)?;
        if self.frame(newest).stamp < frame.stamp {
            return Some(newest);
        }
        self.next_whole(self.older(from))
    }

    /// The first whole frame from one of its chain on.
    fn next_whole(&self, from: Option<NodeId>) -> Option<NodeId> {
        core::iter::successors(from, |id| self.older(*id)).find(|id| self.frame(*id).is_whole())
    }

    /// Notes the newest whole frame of a block, if the one that leaves its chain was that.
    pub(super) fn leave_whole(&mut self, node: &Node, id: NodeId) {
        let Some(entry_at) = self.find(node.block) else { return };
        let is_it = |entry: &Entry| entry.newest != NONE && entry.whole == id.0;
        if !self.memory.entries().get(entry_at).is_some_and(is_it) {
            return;
        }
        let next = self.next_whole(node.older()).map_or(NONE, |id| id.0);
        if let Some(entry) = self.memory.entries_mut().get_mut(entry_at) {
            entry.whole = next;
        }
    }

    /// Whether a whole frame at or below this one is newer than a stamp. Then nothing of that stamp
    /// is needed.
    pub(crate) fn is_whole_above(&self, newest: NodeId, stamp: Stamp) -> bool {
        self.whole_below(newest).is_some_and(|whole| self.frame(whole).stamp > stamp)
    }

    /// Whether a block has this number of changes above its newest whole frame, or more. Where the
    /// entry says that it has not, no frame is looked at.
    pub fn has_chain_of(&mut self, block: BlockNumber, least: u8) -> bool {
        let Some(at) = self.find(block.raw()) else { return false };
        let Some(Entry { newest, chain, .. }) = self.memory.entries().get(at).copied() else {
            return false;
        };
        if newest == NONE || chain < least {
            return false;
        }
        // Some may have been forgotten.
        let (mut next, mut chain) = (Some(NodeId(newest)), 0_u8);
        while let Some(id) = next.filter(|id| chain < least && !self.frame(*id).is_whole()) {
            (next, chain) = (self.older(id), chain.saturating_add(1));
        }
        if let Some(entry) = self.memory.entries_mut().get_mut(at).filter(|_| chain < least) {
            entry.chain = chain;
        }
        chain >= least
    }

    /// How many frames from this one on are changes alone and younger than what is home, and
    /// whether no whole frame lies below them there.
    pub(crate) fn changes_of(&self, newest: NodeId, home: Stamp) -> (u64, bool) {
        let (mut changes, mut next) = (0_u64, Some(newest));
        while let Some(id) = next {
            let frame = self.frame(id);
            if frame.is_whole() {
                return (changes, false);
            }
            if frame.stamp <= home {
                break;
            }
            changes = changes.saturating_add(1);
            next = self.older(id);
        }
        (changes, true)
    }

    /// How many frames lie below a cut, from the oldest one of a block on, and the newest of them.
    /// Ends at one that a slot's entry says as well.
    pub(crate) fn last_below(&self, oldest: NodeId, cut: &Bounds) -> (usize, Option<NodeId>) {
        let is_dropped = |id: &NodeId| {
            let frame = self.frame(*id);
            frame.is_below(cut) && !frame.folded
        };
        let chain = core::iter::successors(Some(oldest), |id| self.newer(*id));
        let below = chain.take_while(is_dropped);
        below.fold((0, None), |(count, _), id| (count.saturating_add(1), Some(id)))
    }

    /// Forgets what [`last_below`](Self::last_below) counts.
    pub(crate) fn remove_last_below(&mut self, oldest: NodeId, cut: &Bounds) {
        let (count, _) = self.last_below(oldest, cut);
        if count == 0 {
            return;
        }
        let (block, mut next) = (self.frame(oldest).block, Some(oldest));
        let (whole, mut has_whole) = (self.newest_whole(block), false);
        for _ in 0..count {
            let Some(id) = next else { break };
            has_whole |= whole == Some(id);
            next = self.newer(id);
            self.free(id);
        }
        let Some(left) = next else { return self.set_newest(block.raw(), NONE, 0) };
        if let Some(node) = self.node_mut(left.0) {
            node.older = NONE;
        }
        let entry_at = self.find(block.raw());
        if let Some(entry) = entry_at.and_then(|at| self.memory.entries_mut().get_mut(at)) {
            entry.oldest = left.0;
            entry.whole = if has_whole { NONE } else { entry.whole };
        }
    }
}
