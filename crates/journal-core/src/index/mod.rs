//! Which block has its newest content where: a hash table and chains of frames, in memory that the
//! caller gives. Rebuilt at every open, never trusted from a medium.
//!
//! A journal has one index, or several that share the blocks among them ([`Indexes`]), so that
//! threads with different blocks need not meet.
//!
//! An *entry* stands for a block with at least one frame in the lanes; its *nodes* are those
//! frames, newest first.
//!
//! I1. Nodes of an entry descend by stamp; of one stamp (one record, or a copy and what it copies)
//!     the later one comes first.
//! I2. A node is in exactly one chain, or free.
//! I3. An entry has at least one node; a block without one is at home.
//! I4. A node that was not used since the index was empty means nothing, whatever it holds.
//! I5. A frame in a ring may be missing where its block has a durable whole frame that is newer.
//!     That one, or one between the two, must be in the missing frame's lane and behind it. So no
//!     content is built from the missing frame, and the head of its lane passes it before it passes
//!     that one.
//! I6. An entry says in which lane its newest frame is: a commit through that lane need not look at
//!     the frame. It names both ends of its chain, and the newest whole frame. So a step that frees
//!     the oldest frames need not go through the newer ones, however many there are.

use crate::format::record::Form;
use crate::index::frame::{Bounds, FrameAt, NodeId};
use crate::units::{BlockNumber, LaneNumber, Sequence, SlotNumber, Stamp};
use node::{IS_LEAVING, NONE, SUSPECT};

pub(crate) mod ahead;
mod chain;
mod covered;
mod insert;
mod node;
mod slot_holders;
mod table;

pub use node::{Entry, Lead, Node};
pub use table::{RUN_BLOCKS, is_of_run, share_of};

/// Where an index keeps its entries: for a caller that wants one of them in the caches before it
/// has the index.
#[derive(Clone, Copy, Debug)]
pub struct EntryAddresses {
    /// An address.
    first: usize,
    count: usize,
}

impl EntryAddresses {
    /// The addresses of an index's entries, which stay there.
    #[must_use]
    pub fn of(index: &Index<impl IndexMemory>) -> Self {
        let entries = index.memory.entries();
        Self { first: entries.as_ptr().addr(), count: entries.len() }
    }

    /// Where a block's entry is looked for first.
    #[inline]
    #[must_use]
    pub fn address_of(&self, block: BlockNumber) -> *const u8 {
        let before = table::first_entry(block.raw(), self.count, table::seed_of(self.first))
            .wrapping_mul(size_of::<Entry>());
        core::ptr::without_provenance(self.first.wrapping_add(before))
    }
}

/// Where an index keeps its table and its frames.
pub trait IndexMemory {
    /// The table.
    fn entries(&self) -> &[Entry];
    /// The table, to write.
    fn entries_mut(&mut self) -> &mut [Entry];
    /// The frames.
    fn nodes(&self) -> &[Node];
    /// The frames, to write.
    fn nodes_mut(&mut self) -> &mut [Node];
}

/// Index memory that an index borrows from its user.
#[derive(Debug)]
pub struct LentMemory<'m> {
    /// The table.
    pub entries: &'m mut [Entry],
    /// The frames.
    pub nodes: &'m mut [Node],
}

impl IndexMemory for LentMemory<'_> {
    #[inline]
    fn entries(&self) -> &[Entry] {
        self.entries
    }

    #[inline]
    fn entries_mut(&mut self) -> &mut [Entry] {
        self.entries
    }

    #[inline]
    fn nodes(&self) -> &[Node] {
        self.nodes
    }

    #[inline]
    fn nodes_mut(&mut self) -> &mut [Node] {
        self.nodes
    }
}

/// The index, or one share of it.
#[derive(Debug)]
pub struct Index<M> {
    memory: M,
    /// The first of the nodes that were used and are free.
    free: u32,
    /// How many nodes were used since it was empty: the first ones.
    touched: u32,
    nodes_used: u32,
    /// No more than these, since each entry has a frame.
    entries_used: u32,
    /// Frames added and forgotten so far, slots given back, and blocks sent home.
    changes: u64,
}

/// All indexes of a journal: one, or several that share the blocks.
pub trait Indexes {
    /// Where they keep things.
    type Memory: IndexMemory;

    /// Calls with the index that has this block, and keeps others from it meanwhile.
    fn of<R>(&mut self, block: BlockNumber, call: impl FnOnce(&mut Index<Self::Memory>) -> R) -> R;

    /// Begins to bring into the caches what a look-up of a block needs. A matter of speed only.
    fn prefetch(&self, block: BlockNumber) {
        let _ = block;
    }

    /// Copies a block's content from ordinary memory, if that has it up to the block's frame that
    /// `newest` finds. Returns whether it has.
    fn copy_kept(
        &mut self,
        _block: BlockNumber,
        _newest: impl FnOnce(&Index<Self::Memory>) -> Option<NodeId>,
        _into: &mut [u8],
    ) -> bool {
        false
    }

    /// Whether ordinary memory has a block's content up to this frame.
    fn keeps_up_to(&mut self, _block: BlockNumber, _newest: NodeId) -> bool {
        false
    }

    /// Whether ordinary memory has some content of a block, which it then begins to bring into the
    /// caches. A matter of speed only: the content may be older.
    fn prefetch_kept(&mut self, _block: BlockNumber) -> bool {
        false
    }

    /// Tells that heads may pass frames from here on, or that they do not any more. If the pass
    /// fails, its end is not told: the caller refuses to go on then.
    fn note_passing(&mut self, _begins: bool) {}

    /// Calls with each index, one after the other.
    fn each(&mut self, call: impl FnMut(&mut Index<Self::Memory>));

    /// Calls like [`each`](Self::each), from the index with this number on. It may end where others
    /// wait for the caller, but not before the first call; the number then is that of the next
    /// index. Returns whether it has come to the end.
    fn some(&mut self, _from: &mut usize, call: impl FnMut(&mut Index<Self::Memory>)) -> bool {
        self.each(call);
        true
    }

    /// Calls like [`each`](Self::each), with what tells when a slot was used last: the higher the
    /// number, the later. Where nothing is known of that, it is always the same.
    fn each_with_use(
        &mut self,
        mut call: impl FnMut(&mut Index<Self::Memory>, &dyn Fn(SlotNumber) -> u32),
    ) {
        self.each(|index| call(index, &|_| 0));
    }

    /// When a slot was used last, as [`each_with_use`](Self::each_with_use) tells.
    fn last_use(&self, _slot: SlotNumber) -> u32 {
        0
    }

    /// Makes more room in the index that has this block; whether it could. Asked while a journal is
    /// opened, and never of one whose memory is the caller's.
    fn grow(&mut self, _block: BlockNumber) -> bool {
        false
    }
}

impl<M: IndexMemory> Indexes for Index<M> {
    type Memory = M;

    #[inline]
    fn of<R>(&mut self, _block: BlockNumber, call: impl FnOnce(&mut Self) -> R) -> R {
        call(self)
    }

    #[inline]
    fn each(&mut self, mut call: impl FnMut(&mut Self)) {
        call(self);
    }
}

impl<M: IndexMemory> Index<M> {
    /// An empty index; what the memory holds makes no difference.
    pub fn new(mut memory: M) -> Self {
        memory.entries_mut().fill(Entry::EMPTY);
        Self::over_zeroes(memory)
    }

    /// An empty index in memory of which all entries are zero, as [`Entry::EMPTY`] is: none of it
    /// is touched before it is needed.
    pub const fn over_zeroes(memory: M) -> Self {
        Self { memory, free: NONE, touched: 0, nodes_used: 0, entries_used: 0, changes: 0 }
    }

    /// Goes on in larger memory, of which all entries are zero, as [`Entry::EMPTY`] is. Frames keep
    /// their nodes.
    pub fn move_to(&mut self, memory: M) {
        let old = core::mem::replace(&mut self.memory, memory);
        let used = old.nodes().get(..self.touched as usize).unwrap_or_default();
        let nodes = self.memory.nodes_mut();
        assert!(nodes.len() >= used.len(), "there is a node for each frame");
        for (to, node) in nodes.iter_mut().zip(used) {
            *to = *node;
        }
        assert!(self.memory.entries().len() >= old.entries().len(), "and for each block");
        for entry in old.entries().iter().filter(|entry| entry.newest != NONE) {
            let entry_at = self.find(entry.block);
            if let Some(to) = entry_at.and_then(|at| self.memory.entries_mut().get_mut(at)) {
                *to = *entry;
            }
        }
        self.changes = self.changes.wrapping_add(1);
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        if self.entries_used > 0 {
            self.memory.entries_mut().fill(Entry::EMPTY);
        }
        (self.free, self.touched) = (NONE, 0);
        (self.nodes_used, self.entries_used) = (0, 0);
        self.changes = self.changes.wrapping_add(1);
    }

    /// Where the next frame will be kept: in a node that was used before, if there is one.
    fn next_free(&self) -> u32 {
        if self.free != NONE || self.touched as usize >= self.memory.nodes().len() {
            return self.free;
        }
        self.touched.wrapping_add(1)
    }

    /// Frames that can still be added, whatever blocks they belong to.
    #[must_use]
    pub fn free_frames(&self) -> usize {
        self.nodes_free().min(self.entries_free())
    }

    /// Where the next frame will be kept, for a caller that wants that in the caches.
    #[inline]
    pub(crate) fn next_node(&self) -> *const u8 {
        self.address(self.next_free())
    }

    /// Where the next `count` frames will be kept, as far as that is side by side.
    #[inline(always)]
    pub(crate) fn next_nodes(&self, count: usize) -> impl Iterator<Item = *const u8> {
        let free = self.next_free();
        let count = if self.free == NONE { count } else { count.min(1) };
        let line =
            move |at: usize| self.address(free).wrapping_add(at.wrapping_mul(size_of::<Node>()));
        (0..count).map(line)
    }

    /// Where the newest frame of a block is kept, and the oldest: the one below that, where the
    /// block was written whole again and again.
    #[inline(always)]
    pub(crate) fn nodes_of(&self, lead: &Lead) -> [*const u8; 2] {
        [lead.newest(), lead.oldest()].map(|id| self.address(id.0))
    }

    /// Of a node, or of what is none.
    #[inline(always)]
    fn address(&self, id: u32) -> *const u8 {
        self.memory.nodes().as_ptr().wrapping_add(id as usize).wrapping_sub(1).cast()
    }

    /// Frames that there is room for, when it is empty.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.memory.nodes().len().min(self.memory.entries().len().saturating_sub(1))
    }

    /// Frames in it.
    #[must_use]
    pub const fn frames(&self) -> usize {
        self.nodes_used as usize
    }

    /// Changes with every frame that is added or forgotten, or whose slot is given back, and before
    /// any block here is written home. So what was read at home, or in the disk-side log, is no
    /// mixture if this stayed the same meanwhile.
    #[must_use]
    pub const fn changes(&self) -> u64 {
        self.changes
    }

    /// Says that what a frame names may from now on be something else.
    pub(crate) const fn note_change(&mut self) {
        self.changes = self.changes.wrapping_add(1);
    }

    /// Blocks that have frames in it.
    #[must_use]
    pub const fn blocks(&self) -> usize {
        self.entries_used as usize
    }

    fn nodes_free(&self) -> usize {
        self.memory.nodes().len().saturating_sub(self.frames())
    }

    /// Blocks that can still be added. One entry stays empty, to end every search.
    fn entries_free(&self) -> usize {
        self.memory.entries().len().saturating_sub(self.blocks()).saturating_sub(1)
    }

    pub(crate) fn node(&self, id: u32) -> Option<&Node> {
        self.memory.nodes().get((id as usize).wrapping_sub(1))
    }

    pub(crate) fn node_mut(&mut self, id: u32) -> Option<&mut Node> {
        self.memory.nodes_mut().get_mut((id as usize).wrapping_sub(1))
    }

    /// Of the entries of the table: it is made of where the table lies, and takes no memory.
    #[inline(always)]
    fn seed(&self) -> u64 {
        table::seed_of(self.memory.entries().as_ptr().addr())
    }

    /// The number of a block's entry, or of the empty one that it would take.
    #[inline(always)]
    pub(crate) fn find(&self, block: u64) -> Option<usize> {
        let (count, seed) = (self.memory.entries().len(), self.seed());
        let mut entry_at = table::first_entry(block, count, seed);
        for _ in 0..count {
            let entry = self.memory.entries().get(entry_at)?;
            if entry.newest == NONE || entry.block == block {
                return Some(entry_at);
            }
            entry_at = table::next(entry_at, count);
        }
        None
    }

    #[inline(always)]
    fn entry(&self, block: BlockNumber) -> Option<&Entry> {
        let entry = self.memory.entries().get(self.find(block.raw())?)?;
        (entry.newest != NONE).then_some(entry)
    }

    /// The newest frame of the entry with this number.
    #[inline]
    pub(crate) fn newest_at(&self, entry_at: usize) -> Option<NodeId> {
        let newest = self.memory.entries().get(entry_at)?.newest;
        (newest != NONE).then_some(NodeId(newest))
    }

    /// The newest frame of a block.
    #[inline(always)]
    #[must_use]
    pub fn newest(&self, block: BlockNumber) -> Option<NodeId> {
        self.entry(block).map(|entry| NodeId(entry.newest))
    }

    /// The oldest frame of a block.
    pub(crate) fn oldest(&self, block: BlockNumber) -> Option<NodeId> {
        self.entry(block).map(|entry| NodeId(entry.oldest))
    }

    /// The newest frame of a block, with what its entry says of it.
    #[inline(always)]
    #[must_use]
    pub fn lead(&self, block: BlockNumber) -> Option<Lead> {
        let lead = self.entry(block)?.lead();
        debug_assert!(self.frame(lead.newest()).lane == lead.lane(), "I6");
        Some(lead)
    }

    /// The newest frame of a block, if a transaction that overwrites it through this lane has to
    /// know it. That is not a frame of the same lane: the lane's own stamps ascend, and it names
    /// none of its own records.
    #[inline(always)]
    #[must_use]
    pub fn overwritten_by(&self, lead: Lead, lane: LaneNumber) -> Option<FrameAt> {
        (lead.lane() != lane).then(|| self.frame(lead.newest()))
    }

    /// The newest frame of a block that lies below the bounds.
    #[must_use]
    pub fn newest_below(&self, block: BlockNumber, bounds: &Bounds) -> Option<NodeId> {
        let mut next = self.newest(block);
        while let Some(id) = next {
            if self.frame(id).is_below(bounds) {
                return Some(id);
            }
            next = self.older(id);
        }
        None
    }

    /// The frame before this one, of the same block.
    #[must_use]
    pub fn older(&self, id: NodeId) -> Option<NodeId> {
        self.node(id.0).and_then(Node::older)
    }

    /// The frame after this one, of the same block.
    pub(crate) fn newer(&self, id: NodeId) -> Option<NodeId> {
        self.node(id.0).map(|node| node.newer).filter(|newer| *newer != NONE).map(NodeId)
    }

    /// What a node stands for.
    #[inline(always)]
    #[must_use]
    pub fn frame(&self, id: NodeId) -> FrameAt {
        let node = self.node(id.0).copied().unwrap_or(Node::EMPTY);
        FrameAt {
            block: BlockNumber(node.block),
            stamp: Stamp(node.stamp),
            lane: LaneNumber(node.lane),
            sequence: Sequence(node.sequence),
            record: node.record,
            payload: node.payload,
            len: node.len,
            form: node.form(),
            folded: node.folded,
        }
    }

    /// Nodes for frames, used or not.
    pub(crate) fn node_count(&self) -> usize {
        self.memory.nodes().len()
    }

    /// The frame in the node with this number, counted from 0, if there is one.
    pub(crate) fn used_node(&self, number: usize) -> Option<NodeId> {
        let id = u32::try_from(number).unwrap_or(u32::MAX).saturating_add(1);
        let is_used = id <= self.touched && self.node(id).is_some_and(|node| node.stamp != 0);
        is_used.then_some(NodeId(id))
    }

    /// Notes that only a slot's entry is left of a frame.
    fn set_out_of_ring(&mut self, id: NodeId) {
        if let Some(node) = self.node_mut(id.0) {
            (node.sequence, node.record) = (0, 0);
        }
    }

    /// Joins an entry that was found and the frame that it was made of.
    pub(crate) fn set_in_ring(&mut self, id: NodeId, frame: &FrameAt) {
        let Some(node) = self.node_mut(id.0) else { return };
        node.sequence = frame.sequence.raw();
        node.record = frame.record;
        debug_assert!(node.lane() == frame.lane, "a slot is of one lane");
    }

    /// Forgets a frame; the last one of a block takes the entry with it.
    #[inline(always)]
    pub(crate) fn remove(&mut self, id: NodeId) {
        let Some(node) = self.node(id.0).copied() else { return };
        let lane = match self.node_mut(node.older) {
            Some(older) => {
                older.newer = node.newer;
                older.lane
            }
            None => {
                self.set_oldest(node.block, node.newer);
                0
            }
        };
        match self.node_mut(node.newer) {
            Some(newer) => newer.older = node.older,
            None => self.set_newest(node.block, node.older, lane),
        }
        if !matches!(node.form(), Form::Encoded) {
            self.leave_whole(&node, id);
        }
        self.free(id);
    }

    /// Gives back a node that is in no chain any more.
    #[inline(always)]
    fn free(&mut self, id: NodeId) {
        let free = self.free;
        if let Some(node) = self.node_mut(id.0) {
            *node = Node { older: free, ..Node::EMPTY };
        }
        self.free = id.0;
        self.nodes_used = self.nodes_used.saturating_sub(1);
        if self.nodes_used == 0 {
            // From the start again: near memory is warm, and a walk through all frames has less to
            // do.
            (self.free, self.touched) = (NONE, 0);
        }
        self.changes = self.changes.wrapping_add(1);
    }

    /// Notes the newest frame of a block that loses the one before. Without one it has no entry.
    fn set_newest(&mut self, block: u64, newest: u32, lane: u16) {
        let Some(entry_at) = self.find(block) else { return };
        if newest == NONE {
            self.vacate(entry_at);
        } else if let Some(entry) = self.memory.entries_mut().get_mut(entry_at) {
            entry.set_newest(newest, lane);
        }
    }

    /// Notes the oldest frame of a block that loses the one before, if it has another.
    fn set_oldest(&mut self, block: u64, oldest: u32) {
        let entry_at = self.find(block).filter(|_| oldest != NONE);
        if let Some(entry) = entry_at.and_then(|at| self.memory.entries_mut().get_mut(at)) {
            entry.oldest = oldest;
        }
    }

    /// Empties an entry, and moves up whatever was pushed on by it, so that searches need no
    /// tombstones.
    fn vacate(&mut self, entry_at: usize) {
        let (count, seed) = (self.memory.entries().len(), self.seed());
        let order = |at| table::order(at, count);
        let (mut hole, mut at) = (entry_at, entry_at);
        for _ in 0..count {
            at = table::next(at, count);
            let Some(entry) = self.memory.entries().get(at).copied().filter(|e| e.newest != NONE)
            else {
                break;
            };
            // The entry may move to the hole unless its first choice lies behind that, cyclically.
            let [first, from, to] =
                [table::first_entry(entry.block, count, seed), hole, at].map(order);
            let stays =
                if from <= to { first > from && first <= to } else { first > from || first <= to };
            if !stays {
                if let Some(to) = self.memory.entries_mut().get_mut(hole) {
                    *to = entry;
                }
                hole = at;
            }
        }
        if let Some(to) = self.memory.entries_mut().get_mut(hole) {
            *to = Entry::EMPTY;
        }
        self.entries_used = self.entries_used.saturating_sub(1);
    }

    /// Notes that the content up to `stamp` is home and synced.
    pub(crate) fn set_home(&mut self, block: BlockNumber, stamp: Stamp) {
        let newest = self.newest(block).map_or(Stamp(0), |id| self.frame(id).stamp);
        if let Some(entry) =
            self.find(block.raw()).and_then(|at| self.memory.entries_mut().get_mut(at))
        {
            if entry.newest != NONE {
                // An append may have gone home since the checkpoint looked. Or an open dropped the
                // frame of one, and what it left at home was written over.
                let is_known = entry.home <= newest.raw();
                entry.home = if is_known { entry.home.max(stamp.raw()) } else { stamp.raw() };
                entry.set(SUSPECT, false);
                entry.set(IS_LEAVING, false);
                entry.unreadable = 0;
            }
        }
    }

    /// Notes that the home of each block here is suspect: the process that left its frames may have
    /// written there, and never synced it.
    pub(crate) fn suspect_homes(&mut self) {
        // Not all entries: whose memory was not touched yet is left alone.
        for id in (1..=self.touched).map(NodeId) {
            let newest = self.node(id.0).filter(|node| node.stamp != 0 && node.newer == NONE);
            let entry_at = newest.and_then(|node| self.find(node.block));
            let entry = entry_at.and_then(|at| self.memory.entries_mut().get_mut(at));
            if let Some(entry) = entry {
                entry.set(SUSPECT, true);
            }
        }
    }

    /// Notes that a block's home is not suspect any more: this process has written it.
    pub fn make_sure(&mut self, block: BlockNumber) {
        let entry_at = self.find(block.raw());
        if let Some(entry) = entry_at.and_then(|at| self.memory.entries_mut().get_mut(at)) {
            entry.set(SUSPECT, false);
        }
    }

    /// Whether a block's home is suspect: it may change when the power goes.
    pub(crate) fn is_suspect(&self, block: BlockNumber) -> bool {
        self.entry(block).is_some_and(|entry| entry.has(SUSPECT))
    }

    /// Notes whether the block is about to be written home.
    pub(crate) fn set_leaving(&mut self, block: BlockNumber, is_leaving: bool) {
        let entry_at = self.find(block.raw());
        if let Some(entry) = entry_at.and_then(|at| self.memory.entries_mut().get_mut(at)) {
            entry.set(IS_LEAVING, is_leaving);
            self.changes = self.changes.wrapping_add(1);
        }
    }

    /// Notes that the block is not written home in this attempt: it cannot be read.
    pub(crate) fn set_unreadable(&mut self, block: BlockNumber, attempt: u16) {
        let entry_at = self.find(block.raw());
        if let Some(entry) = entry_at.and_then(|at| self.memory.entries_mut().get_mut(at)) {
            if entry.newest != NONE {
                entry.unreadable = attempt;
            }
        }
    }

    /// The last attempt that could not read the block, if it is neither home nor written since;
    /// zero for none.
    pub(crate) fn unreadable_in(&self, block: BlockNumber) -> u16 {
        self.entry(block).map_or(0, |entry| entry.unreadable)
    }

    /// Whether a checkpoint could not read the block, and it is neither home nor written since.
    #[must_use]
    pub fn is_unreadable(&self, block: BlockNumber) -> bool {
        self.unreadable_in(block) != 0
    }

    /// Every block of which that is so.
    pub fn each_unreadable(&self) -> impl Iterator<Item = BlockNumber> + '_ {
        self.each_block().filter(|block| self.is_unreadable(*block))
    }

    /// Whether a block's content up to this frame has changes on top of a discard: bytes that they
    /// do not have are zero then.
    #[must_use]
    pub fn is_on_discard(&self, newest: NodeId) -> bool {
        let whole = self.whole_below(newest).filter(|whole| *whole != newest);
        whole.is_some_and(|whole| self.frame(whole).form == Form::Discard)
    }

    /// Whether the block is being written home now, so that what is there may be of any age.
    #[must_use]
    pub fn is_leaving(&self, block: BlockNumber) -> bool {
        self.entry(block).is_some_and(|entry| entry.has(IS_LEAVING))
    }

    /// Up to which stamp a block's content is home and synced, as far as this process knows.
    pub(crate) fn home_stamp(&self, block: BlockNumber) -> Stamp {
        Stamp(self.entry(block).map_or(0, |entry| entry.home))
    }

    /// Whether a block's content up to this frame is home and synced.
    pub(crate) fn is_home(&self, id: NodeId) -> bool {
        let frame = self.frame(id);
        self.entry(frame.block).is_some_and(|entry| entry.home == frame.stamp.raw())
    }

    /// Forgets the frames of a block below a cut, except for what slots' entries say as well.
    pub(crate) fn remove_below(&mut self, block: BlockNumber, cut: &Bounds) {
        let mut next = self.newest(block);
        while let Some(id) = next {
            next = self.older(id);
            let frame = self.frame(id);
            match (frame.is_below(cut), frame.folded) {
                (true, true) => self.set_out_of_ring(id),
                (true, false) => self.remove(id),
                (false, _) => {}
            }
        }
    }

    /// Every frame.
    pub(crate) fn all(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.touched_nodes().map(|(id, _)| id)
    }

    /// Every node that stands for a frame.
    fn touched_nodes(&self) -> impl Iterator<Item = (NodeId, &Node)> + '_ {
        let ids = (1..=self.touched).map(NodeId).zip(self.memory.nodes());
        // A free node has no block of its own; a used one is reachable from its entry.
        ids.filter(|(_, node)| node.stamp != 0)
    }
}

pub(crate) mod frame;
#[cfg(test)]
mod tests;
