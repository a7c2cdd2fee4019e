//! How a frame enters the index, and what leaves it then.
//!
//! What lies below a whole frame that is not the newest need not be known (I5 of
//! [`crate::index`]). So a commit lets the index forget it ([`Index::insert_over`]).
//! `index/covered.rs` says what that means to the next open.

use crate::format::record::Form;
use crate::index::frame::{FrameAt, Full, NodeId};
use crate::index::node::{NONE, SUSPECT};
use crate::index::{Entry, Index, IndexMemory, Node};
use crate::units::LANES_MAX;

/// How many frames of a chain that stay are gone through at most. There are more where a block was
/// appended home again and again. What lies behind them then stays as well: nobody walks a long
/// chain for every frame that is added.
pub(super) const KEPT_MAX: usize = 2 * LANES_MAX as usize;

/// How many frames are forgotten at once at most. This is far more than a chain of changes has
/// where frames are short. An open takes all frames in again, and a snapshot keeps them, so there
/// may be more behind these. What stays goes when the heads pass it, or another whole frame comes.
/// Tests with short chains come to it as well.
pub(super) const FORGOTTEN_MAX: usize = if cfg!(test) { 5 } else { 1 << 14 };

/// Whether the content is wholly in the record, or there is none.
pub(super) const fn covers(form: Form) -> bool {
    matches!(form, Form::Image | Form::Discard)
}

/// Whether a newer frame of its lane can stand for it. Not what says where a block's content is.
pub(super) const fn is_plain(form: Form) -> bool {
    matches!(form, Form::Image | Form::Discard | Form::Encoded)
}

/// Whether it names a slot that is not its own any more, and no entry speaks of it. The slot is
/// free, or has another version, or is held for the next one. A transaction that holds it has the
/// block's lock, so that nothing is inserted before the slot is written or released.
const fn has_lost_its_slot(node: &Node) -> bool {
    matches!(node.form(), Form::Slot) && node.stale && !node.folded
}

/// Whether the head of a lane passes one frame before it passes the other.
fn is_passed_first(one: &Node, other: &Node) -> bool {
    one.lane() == other.lane() && one.sequence() < other.sequence()
}

impl<M: IndexMemory> Index<M> {
    /// Adds a frame where its stamp says. If the next older one is whole and durable, forgets what
    /// lies below that one. So a block that is written whole again and again does not fill the
    /// index. Of each lane the newest of what lies below stays, or the whole frame itself. The head
    /// of that lane has to pass it before those of other lanes pass what is newer.
    ///
    /// Not while a checkpoint is under way: its bounds may end below the whole one. Of frames that
    /// name slots, those are forgotten whose slot holds a later version.
    ///
    /// # Errors
    /// [`Full`], with nothing added.
    #[inline(always)]
    pub fn insert_over(
        &mut self,
        frame: &FrameAt,
        keeps_of_each_lane: bool,
        is_durable: impl Fn(&FrameAt) -> bool,
    ) -> Result<(), Full> {
        let entry_at = self.find(frame.block.raw()).ok_or(Full)?;
        if self.is_last_covered(entry_at, frame, keeps_of_each_lane)
            && self.newest_at(entry_at).is_some_and(|second| is_durable(&self.frame(second)))
        {
            self.insert_for_last(entry_at, frame);
            return Ok(());
        }
        let newest = self.insert_at(entry_at, frame)?;
        if let Some(slot) = frame.slot() {
            self.make_stale_below(newest, slot);
        }
        self.forget_below(newest, keeps_of_each_lane, is_durable);
        Ok(())
    }

    /// Whether a block has two frames, of which the older one is useless when there is this one, if
    /// the newer one is durable. That is mostly so of a block written whole again and again.
    #[inline(always)]
    fn is_last_covered(&self, entry_at: usize, frame: &FrameAt, keeps_of_each_lane: bool) -> bool {
        if !covers(frame.form) {
            return false;
        }
        let node = |id: NodeId| self.node(id.0);
        let Some(second) = self.newest_at(entry_at).and_then(node) else { return false };
        let Some(last) = second.older().and_then(node) else { return false };
        covers(second.form())
            && second.stamp() <= frame.stamp
            && last.older().is_none()
            && is_plain(last.form())
            && (!keeps_of_each_lane || is_passed_first(last, second))
    }

    /// Forgets what lies below a whole frame that is the next older one to this.
    #[inline(always)]
    fn forget_below(
        &mut self,
        newest: NodeId,
        keeps_of_each_lane: bool,
        is_durable: impl Fn(&FrameAt) -> bool,
    ) {
        let is_cover = |node: &&Node| covers(node.form()) || matches!(node.form(), Form::Slot);
        let whole = |id: NodeId| self.node(id.0).filter(is_cover);
        let Some(second) = self.node(newest.0).and_then(Node::older) else { return };
        let Some(below) = whole(second).and_then(Node::older) else { return };
        if is_durable(&self.frame(second)) {
            self.forget_from(below, second, keeps_of_each_lane);
        }
    }

    /// Forgets a frame and what is older, except for the newest of each lane. At most
    /// [`FORGOTTEN_MAX`].
    fn forget_from(&mut self, first: NodeId, above: NodeId, keeps_of_each_lane: bool) {
        const { assert!(LANES_MAX as u32 <= u32::BITS, "each lane has a bit") };
        let Some(above) = self.node(above.0).copied() else { return };
        let mut seen = if keeps_of_each_lane { 0_u32 } else { u32::MAX };
        let (mut next, mut kept, mut gone) = (Some(first), 0_usize, 0_usize);
        while let Some(id) = next.filter(|_| kept < KEPT_MAX && gone < FORGOTTEN_MAX) {
            let Some(node) = self.node(id.0) else { break };
            next = node.older();
            let bit = 1_u32.checked_shl(node.lane().raw().into()).unwrap_or(0);
            let is_first = is_passed_first(node, &above);
            let goes = is_plain(node.form()) && (is_first || seen & bit != 0);
            if goes || is_first && has_lost_its_slot(node) {
                self.remove(id);
                gone = gone.saturating_add(1);
            } else {
                seen |= if is_plain(node.form()) { bit } else { 0 };
                kept = kept.saturating_add(1);
            }
        }
    }

    /// Adds a frame behind the newest one of its block, which is of the same stamp.
    ///
    /// # Errors
    /// [`Full`], with nothing added.
    pub(crate) fn insert_behind(&mut self, newest: NodeId, frame: FrameAt) -> Result<(), Full> {
        if self.nodes_free() == 0 {
            return Err(Full);
        }
        let kept = self.frame(newest);
        self.remove(newest);
        self.insert_found(frame)?;
        self.insert_found(kept).map(drop)
    }

    /// Adds a frame where its stamp says.
    ///
    /// # Errors
    /// [`Full`], with nothing added.
    #[inline(always)]
    pub fn insert(&mut self, frame: FrameAt) -> Result<NodeId, Full> {
        let id = self.insert_found(frame)?;
        if let Some(slot) = frame.slot() {
            self.make_stale_below(id, slot);
        }
        Ok(id)
    }

    /// Like [`insert`](Self::insert), while a journal is opened: which version has which slot is
    /// found out when all frames are known.
    ///
    /// # Errors
    /// [`Full`], with nothing added.
    #[inline(always)]
    pub(crate) fn insert_found(&mut self, frame: FrameAt) -> Result<NodeId, Full> {
        let entry_at = self.find(frame.block.raw()).ok_or(Full)?;
        self.insert_at(entry_at, &frame)
    }

    /// Like [`insert_found`](Self::insert_found), where its block's entry was found.
    #[inline(always)]
    pub(crate) fn insert_at(&mut self, entry_at: usize, frame: &FrameAt) -> Result<NodeId, Full> {
        let free = self.next_free();
        let newest = self.memory.entries().get(entry_at).ok_or(Full)?.newest;
        if free == NONE || (newest == NONE && self.entries_free() == 0) {
            return Err(Full);
        }
        if newest == NONE {
            let entry = self.memory.entries_mut().get_mut(entry_at).ok_or(Full)?;
            *entry = Entry { block: frame.block.raw(), ..Entry::EMPTY };
            self.entries_used = self.entries_used.saturating_add(1);
        }
        let (mut newer, mut older) = (NONE, newest);
        while let Some(node) = self.node(older).filter(|node| node.stamp > frame.stamp.raw()) {
            (newer, older) = (older, node.older);
        }
        let was_used = free <= self.touched;
        let Some(node) = self.node_mut(free) else { return Err(Full) };
        let next_free = if was_used { node.older } else { NONE };
        *node = Node::of(frame, older, newer);
        self.free = next_free;
        self.touched = self.touched.max(free);
        self.nodes_used = self.nodes_used.saturating_add(1);
        self.changes = self.changes.wrapping_add(1);
        match self.node_mut(older) {
            Some(node) => node.newer = free,
            None => self.note_oldest(entry_at, free),
        }
        match self.node_mut(newer) {
            Some(node) => {
                node.older = free;
                self.note_whole(entry_at, free, frame);
            }
            None => self.note_newest(entry_at, free, frame),
        }
        if frame.folded {
            self.note_folded(entry_at, true);
        }
        Ok(NodeId(free))
    }

    /// Adds a frame above the newest one of an entry, where the one below that, the last, is kept:
    /// as if that were removed first.
    #[inline(always)]
    pub(crate) fn insert_for_last(&mut self, entry_at: usize, frame: &FrameAt) {
        let second = self.memory.entries().get(entry_at).map_or(NONE, |entry| entry.newest);
        let Some(node) = self.node_mut(second) else { return };
        let last = core::mem::replace(&mut node.older, NONE);
        node.newer = last;
        if let Some(node) = self.node_mut(last) {
            *node = Node::of(frame, second, NONE);
        }
        self.note_oldest(entry_at, second);
        self.note_newest(entry_at, last, frame);
        self.changes = self.changes.wrapping_add(2);
    }

    /// Notes the oldest frame of an entry.
    #[inline(always)]
    fn note_oldest(&mut self, entry_at: usize, oldest: u32) {
        if let Some(entry) = self.memory.entries_mut().get_mut(entry_at) {
            entry.oldest = oldest;
        }
    }

    /// Notes the newest frame of an entry.
    #[inline(always)]
    fn note_newest(&mut self, entry_at: usize, newest: u32, frame: &FrameAt) {
        let Some(entry) = self.memory.entries_mut().get_mut(entry_at) else { return };
        entry.set_newest(newest, frame.lane.raw());
        if frame.form == Form::Encoded {
            entry.chain = entry.chain.saturating_add(1);
        } else {
            (entry.chain, entry.unreadable) = (0, 0);
            entry.whole = newest;
        }
        if frame.form == Form::Home {
            entry.set(SUSPECT, false);
            entry.home = frame.stamp.raw();
        } else if entry.home == frame.stamp.raw() {
            // Of the same record, and behind the append.
            entry.home = 0;
        }
    }

    /// Notes a frame that is not the newest one of an entry, if it is the newest whole one.
    fn note_whole(&mut self, entry_at: usize, id: u32, frame: &FrameAt) {
        let whole = self.memory.entries().get(entry_at).map_or(NONE, |entry| entry.whole);
        let is_above = self.node(whole).is_none_or(|node| node.stamp <= frame.stamp.raw());
        let entry = self.memory.entries_mut().get_mut(entry_at);
        if let Some(entry) = entry.filter(|_| frame.is_whole() && is_above) {
            entry.whole = id;
        }
    }
}
