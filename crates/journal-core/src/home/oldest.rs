//! The oldest frames in the rings, by their stamps: those that lie nearest to the heads.
//!
//! One pass over the index finds as many frames as there is memory for. They serve many steps of a
//! checkpoint ([`Home::checkpoint_step`](crate::home::Home::checkpoint_step)), and need no lock.
//! While they do, the next list is made, by a part of the pass in each step. Where a step has no
//! list and no time for a whole pass, it reads the records at the heads instead. Without slots and
//! a log it does so too where records are short.
//!
//! OL1. The list has every frame that lies in a ring between the head and the end of the list in
//!      its lane. Frames come at tails alone, so no later frame belongs there.
//! OL2. Stamps ascend in each lane, so heads pass frames in the order of the list. Of a block, they
//!      pass older frames first, whatever lanes those are in: no block at home keeps a head back
//!      because something older of it is left in another lane.
//! OL3. A frame of the list may have left the index since. Then its block is looked at in vain.
//! OL4. A pass may take its time. A frame stays in its node of the index until it is forgotten, so
//!      the pass comes by it. What is stored meanwhile lies behind the end of the list.
//! OL5. A list that follows another one is used only once the heads have passed all of that one.
//! OL6. A lane whose head stays where it is, since a block there cannot be read, is left out: the
//!      list ends at its head. Other lanes go on, unless something older of their blocks is in that
//!      one. The lane is listed again when the block is written anew, or tried again.
//! OL7. The first frame of a block in the list is mostly the oldest one of its chain, which the
//!      block's entry names. So a step begins there, and need not go through what is newer.
//! OL8. The list is put in order from its beginning on, as far as a step needs it. No frame behind
//!      that part is older than one in it. Of the frames behind it the list knows the first record
//!      of each lane. Where it does not, no head moves.

#[cfg(test)]
pub(super) mod tests;

use crate::home::search::Search;
use crate::index::frame::{Bounds, FrameAt, NodeId};
use crate::index::{Index, IndexMemory, Indexes};
use crate::order::ordered::Hook;
use crate::order::rule::Rule;
use crate::ports::block_device::BlockDevice;
use crate::ports::pmem::Pmem;
use crate::units::{BlockNumber, LANES_MAX, LaneNumber, Sequence, Stamp};

/// A frame in a ring, or a block in a slot.
#[derive(Clone, Copy, Debug)]
pub struct Listed {
    /// When the slot was used last. Of a frame in a ring, always the same.
    last_use: u32,
    stamp: Stamp,
    pub(super) record: u64,
    pub(super) sequence: Sequence,
    pub(crate) block: BlockNumber,
    pub(super) lane: LaneNumber,
}

impl Listed {
    /// An entry that no frame has filled yet.
    pub const EMPTY: Self = Self {
        last_use: 0,
        stamp: Stamp(0),
        record: 0,
        sequence: Sequence(0),
        block: BlockNumber(0),
        lane: LaneNumber(0),
    };

    const fn of(frame: &FrameAt, last_use: u32) -> Self {
        let FrameAt { stamp, record, sequence, block, lane, .. } = *frame;
        Self { last_use, stamp, record, sequence, block, lane }
    }

    /// In the order of blocks, and of one block the oldest first.
    pub(super) const fn place(&self) -> (BlockNumber, Stamp) {
        (self.block, self.stamp)
    }

    /// Asks for what is looked up of the frames behind this place of a list: some frames ahead for
    /// the nodes of a block's oldest frame and of its newest, and further ahead for its entry.
    pub(super) fn want_ahead(
        listed: &[Self],
        at: usize,
        indexes: &mut impl Indexes,
        wants: impl Fn(*const u8),
    ) {
        if let Some(ahead) = listed.get(at.saturating_add(2 * AHEAD)) {
            indexes.prefetch(ahead.block);
        }
        let Some(ahead) = listed.get(at.saturating_add(AHEAD)) else { return };
        indexes.of(ahead.block, |index| {
            let nodes = [index.oldest(ahead.block), index.newest(ahead.block)];
            nodes.into_iter().flatten().for_each(|id| index.want_node(id, &wants));
        });
    }

    /// Asks for the first node of a block that is left when these listed frames of it are dropped,
    /// whose own nodes are at hand.
    pub(super) fn want_left(
        listed: &[Self],
        indexes: &mut impl Indexes,
        wants: impl Fn(*const u8),
    ) {
        let Some(first) = listed.first() else { return };
        indexes.of(first.block, |index| {
            let oldest = index.oldest(first.block);
            let mut chain = core::iter::successors(oldest, |id| index.newer(*id));
            let last = chain.nth(listed.len().saturating_sub(1));
            let left = last.and_then(|id| index.newer(id));
            left.into_iter().for_each(|id| index.want_node(id, &wants));
        });
    }

    /// Its frame, and neighbours in the chain of the same record and block.
    pub(crate) fn frames_in<M: IndexMemory>(
        &self,
        index: &Index<M>,
    ) -> impl Iterator<Item = NodeId> {
        let is_of_it = |id: &NodeId| self.is_of(&index.frame(*id));
        let newest = index.newest(self.block).filter(is_of_it);
        let first = newest.or_else(|| {
            let oldest = index.oldest(self.block);
            let mut chain = core::iter::successors(oldest, |id| index.newer(*id));
            let found = chain.find(is_of_it)?;
            chain.take_while(is_of_it).last().or(Some(found))
        });
        core::iter::successors(first, |id| index.older(*id)).take_while(is_of_it)
    }

    /// The age of a frame. A list begins with the lowest ages.
    const fn age(&self) -> (u32, Stamp) {
        (self.last_use, self.stamp)
    }

    pub(super) const fn stamp(&self) -> Stamp {
        self.stamp
    }

    /// Whether the slot that its block is in now was used since.
    pub(super) const fn is_used_since(&self, last_use: u32) -> bool {
        self.last_use < last_use
    }

    /// Whether they are of the same stamp, and so of one record if they are of one lane.
    pub(super) fn is_as_old_as(&self, other: &Self) -> bool {
        self.stamp == other.stamp
    }

    pub(super) fn is_of_stamp(&self, stamp: Stamp) -> bool {
        self.stamp == stamp
    }

    /// Whether it is home where the block's content up to this stamp is.
    pub(super) fn is_home_by(&self, stamp: Stamp) -> bool {
        self.stamp <= stamp
    }

    /// Whether it was made of this frame, or of another one of the same record and block.
    pub(crate) fn is_of(&self, frame: &FrameAt) -> bool {
        (self.lane, self.sequence) == (frame.lane, frame.sequence)
    }

    /// Whether the index has it. Of a block with many versions it may say so where it has not.
    fn may_be_in(&self, index: &Index<impl IndexMemory>) -> bool {
        let mut next = index.oldest(self.block);
        for _ in 0..VERSIONS {
            let Some(id) = next else { return false };
            let frame = index.frame(id);
            if self.is_of(&frame) {
                return true;
            }
            // What comes next is newer still (I1).
            if frame.stamp > self.stamp {
                return false;
            }
            next = index.newer(id);
        }
        next.is_some()
    }

    pub(super) fn is_below(&self, cut: &Bounds) -> bool {
        cut.get(usize::from(self.lane.raw())).is_some_and(|bound| self.sequence < *bound)
    }
}

/// The old end of a block's chain, which a cut drops.
#[derive(Clone, Copy, Debug)]
pub(super) struct DroppedEnd {
    /// The block's oldest frame.
    pub(super) oldest: NodeId,
    /// The newest one that is dropped, if any is.
    pub(super) newest: Option<NodeId>,
}

impl DroppedEnd {
    /// All that a cut drops of a block, if that is known to be the old end of its chain. The listed
    /// frames are the block's. No frame below the cut is missing among them (OL1), though some may
    /// have left the index (OL3).
    pub(super) fn of(
        index: &Index<impl IndexMemory>,
        listed: &[Listed],
        cut: &Bounds,
    ) -> Option<Self> {
        let oldest = index.oldest(listed.first()?.block)?;
        let (count, newest) = index.last_below(oldest, cut);
        let mut below = listed.iter().filter(|listed| listed.is_below(cut));
        let left = newest.map_or(Some(oldest), |newest| index.newer(newest));
        // Stamps descend in the chain (I1): what is older than the first frame that is left is of
        // the end, or has left the index.
        let is_all = left.is_none_or(|left| {
            let left = index.frame(left).stamp;
            below.clone().count() == count || below.all(|listed| listed.stamp < left)
        });
        is_all.then_some(Self { oldest, newest })
    }
}

impl Left {
    /// What is left of a list and in order, oldest first.
    #[must_use]
    pub fn of<'l>(&self, listed: &'l [Listed]) -> &'l [Listed] {
        listed.get(self.from..self.ordered).unwrap_or_default()
    }
}

/// Nodes of the indexes that are gone through for one list of blocks in slots.
const NODES_EACH: usize = 1 << 13;

/// This number of frames ahead, the nodes of a block are asked for, and twice as many ahead its
/// entry.
const AHEAD: usize = 16;

/// How many versions of a block are looked through for a frame. One that lies deeper is taken to be
/// there.
const VERSIONS: usize = 16;

/// At least this number of frames is put in order at one go. Where assertions are on, it is a few,
/// so that small lists have such parts too.
const ORDERED_AT_ONCE: usize = if cfg!(debug_assertions) { 4 } else { 1 << 12 };

/// Above the age of everything that is listed.
const NO_LIMIT: (u32, Stamp) = (u32::MAX, Stamp(u64::MAX));

/// A record of each lane: its sequence, and its lane offset.
pub(super) type Records = [(Sequence, u64); LANES_MAX as usize];

/// Behind every record, and before every one.
const NO_RECORDS: Records = [(Sequence(u64::MAX), u64::MAX); LANES_MAX as usize];
const AT_FIRST_RECORD: Records = [(Sequence(0), 0); LANES_MAX as usize];

/// For each lane, the block that keeps its head back, if one does.
pub(super) type Held = [Option<BlockNumber>; LANES_MAX as usize];

/// Which part of a list is left.
#[derive(Clone, Copy, Debug)]
pub struct Left {
    from: usize,
    /// What lies before this is in order (OL8).
    ordered: usize,
    end: usize,
    /// In each lane, the first record of the frames that are not in order. Where that is not
    /// known, it is before every record, so that no head moves.
    behind_ordered: Records,
    /// In each lane, no frame lies before this record.
    passed: Bounds,
    /// In each lane, the first record that the list does not have.
    ends: Records,
    /// In each lane, where the list before this one ended. This one has nothing below.
    begins: Bounds,
    /// The lanes that the list leaves out, each with the block that keeps its head back.
    held: Held,
    /// The number of the node, of all the indexes, that its pass has come to.
    next_node: usize,
    /// Above the age of everything that it has.
    limit: (u32, Stamp),
    /// Whether its pass is over.
    is_whole: bool,
}

impl Left {
    /// Nothing: there is no list yet.
    pub const NONE: Self = Self {
        from: 0,
        ordered: 0,
        end: 0,
        behind_ordered: NO_RECORDS,
        passed: [Sequence(0); LANES_MAX as usize],
        ends: [(Sequence(0), 0); LANES_MAX as usize],
        begins: [Sequence(0); LANES_MAX as usize],
        held: [None; LANES_MAX as usize],
        next_node: 0,
        limit: NO_LIMIT,
        is_whole: true,
    };
}

/// The list, in memory that the caller gives.
#[derive(Debug)]
pub struct Oldest<'m> {
    /// Memory for frames.
    pub memory: &'m mut [Listed],
    /// What is left of the list. The caller keeps it from one step to the next.
    pub left: &'m mut Left,
}

impl Oldest<'_> {
    /// This list, lent for a call.
    pub(super) fn again(&mut self) -> Oldest<'_> {
        Oldest { memory: &mut *self.memory, left: &mut *self.left }
    }

    /// The frames that are left and [in order](Self::put_in_order), oldest first.
    pub(super) fn frames(&self) -> &[Listed] {
        self.left.of(self.memory)
    }

    pub(super) fn frames_mut(&mut self) -> &mut [Listed] {
        self.memory.get_mut(self.left.from..self.left.ordered).unwrap_or_default()
    }

    /// How many frames are left. None, where the memory ends before the list does.
    pub(super) fn len(&self) -> usize {
        self.memory.get(self.left.from..self.left.end).unwrap_or_default().len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Puts the oldest frames in order (OL8): at least this number of them, or all. Those of one
    /// stamp come in together. Returns how many frames it has gone through for that.
    pub(super) fn put_in_order(&mut self, least: usize) -> usize {
        let (missing, Left { ordered, end, .. }) =
            (least.saturating_sub(self.frames().len()), *self.left);
        let rest = self.memory.get_mut(ordered..end).unwrap_or_default();
        if rest.is_empty() {
            self.left.behind_ordered = NO_RECORDS;
        }
        if missing == 0 || rest.is_empty() {
            return 0;
        }
        let (mut count, mut first) = (rest.len(), NO_RECORDS);
        let wanted = missing.max(ORDERED_AT_ONCE);
        if wanted < rest.len() {
            let (_, last, _) = rest.select_nth_unstable_by_key(wanted, Listed::age);
            let age = last.age();
            let others = wanted.saturating_add(1);
            count = others;
            for at in others..rest.len() {
                let Some(listed) = rest.get(at) else { break };
                if listed.age() == age {
                    rest.swap(count, at);
                    count = count.saturating_add(1);
                } else if let Some(first) = first.get_mut(usize::from(listed.lane.raw())) {
                    *first = (*first).min((listed.sequence, listed.record));
                }
            }
        }
        let passed = rest.len();
        rest.get_mut(..count).unwrap_or_default().sort_unstable_by_key(Listed::age);
        self.left.ordered = ordered.saturating_add(count);
        self.left.behind_ordered = first;
        passed
    }

    /// How many frames are first, of `most` at most and `within` at most, of those that are in
    /// order. The oldest record is among them as a whole.
    pub(super) fn first_within(&self, most: usize, within: usize) -> usize {
        let frames = self.frames();
        let oldest = frames.first().map_or(0, |first| {
            frames.iter().take_while(|listed| first.is_as_old_as(listed)).count()
        });
        most.min(within).min(frames.len()).max(oldest)
    }

    /// Where heads may be once the first `count` frames are gone: in each lane, before the first of
    /// the other frames. Behind all frames, if there are fewer in order.
    pub(super) fn behind(&self, count: usize) -> Records {
        let mut records = self.left.ends;
        let Some(others) = self.frames().get(count..) else { return records };
        for listed in others {
            if let Some(record) = records.get_mut(usize::from(listed.lane.raw())) {
                *record = (*record).min((listed.sequence, listed.record));
            }
        }
        for (record, first) in records.iter_mut().zip(&self.left.behind_ordered) {
            *record = (*record).min(*first);
        }
        records
    }

    /// Takes out what lies before the heads, which may have moved since this was called last.
    pub(super) fn drop_passed(&mut self, heads: &Bounds) {
        if self.left.passed != *heads {
            self.keep(|listed| !listed.is_below(heads));
            self.left.passed = *heads;
        }
    }

    /// Notes that nothing lies before the heads.
    pub(super) const fn note_passed(&mut self, heads: &Bounds) {
        self.left.passed = *heads;
    }

    /// Takes out all frames below the cut.
    pub(super) fn drop_all_below(&mut self, cut: &Bounds) {
        self.keep(|listed| !listed.is_below(cut));
    }

    /// Keeps what `stays`. Nothing is in order then, and `behind` lets no head move until
    /// [`put_in_order`](Self::put_in_order) is called.
    fn keep(&mut self, stays: impl Fn(&Listed) -> bool) {
        let mut kept = self.left.from;
        for at in self.left.from..self.left.end {
            if self.memory.get(at).is_some_and(&stays) {
                self.memory.swap(kept, at);
                kept = kept.saturating_add(1);
            }
        }
        (self.left.end, self.left.ordered) = (kept, self.left.from);
        self.left.behind_ordered = AT_FIRST_RECORD;
    }

    /// Takes out, of the first `count` frames, those below the cut. The others stay first.
    pub(super) fn drop_below(&mut self, count: usize, cut: &Bounds) {
        let frames = self.frames_mut();
        let looked_at = frames.get_mut(..count).unwrap_or_default();
        // Those that stay move to the end of what was looked at.
        let mut kept = looked_at.len();
        for at in (0..looked_at.len()).rev() {
            if looked_at.get(at).is_some_and(|listed| !listed.is_below(cut)) {
                kept = kept.saturating_sub(1);
                looked_at.swap(at, kept);
            }
        }
        looked_at.get_mut(kept..).unwrap_or_default().sort_unstable_by_key(|listed| listed.stamp);
        self.left.from = self.left.from.saturating_add(kept);
    }

    /// Begins the list that comes behind another one, of frames below the bounds. `tails` are those
    /// of the lanes.
    pub(super) fn begin(
        &mut self,
        (bounds, tails): (&Bounds, &[u64; LANES_MAX as usize]),
        before: Option<&Oldest<'_>>,
    ) {
        *self.left = Left { is_whole: false, behind_ordered: AT_FIRST_RECORD, ..Left::NONE };
        for (end, (bound, tail)) in self.left.ends.iter_mut().zip(bounds.iter().zip(tails)) {
            *end = (*bound, *tail);
        }
        if let Some(before) = before {
            self.left.begins = before.left.ends.map(|(sequence, _)| sequence);
        }
    }

    /// Goes on with the list, through this number of nodes of the indexes. It is whole behind the
    /// last one.
    pub(super) fn go_on(
        &mut self,
        indexes: &mut impl Indexes,
        nodes: usize,
        keeps: impl Fn(Rule) -> bool,
    ) {
        if self.left.is_whole {
            return;
        }
        let (from, mut first) = (self.left.next_node, 0_usize);
        let end = from.saturating_add(nodes);
        let (mut limit, lists_all) = (self.left.limit, keeps(Rule::StepListsAll));
        indexes.each(|index| {
            let used = end.saturating_sub(first).min(index.used_nodes());
            let here = from.saturating_sub(first)..used;
            first = first.saturating_add(index.node_count());
            for id in here.filter_map(|number| index.used_node(number)) {
                let frame = index.frame(id);
                // What only a slot's entry says lies in no ring.
                let is_in_ring = frame.sequence != Sequence(0);
                if is_in_ring && self.wants(&frame) && (lists_all || frame.block.raw() % 2 == 0) {
                    self.add(&Listed::of(&frame, 0), &mut limit);
                }
            }
        });
        (self.left.next_node, self.left.limit) = (end, limit);
        if end >= first {
            self.keep_before_ends();
            self.left.is_whole = true;
        }
    }

    /// Where the list ends in each lane.
    pub(super) const fn ends(&self) -> &Records {
        &self.left.ends
    }

    /// Adds a frame of a record that is read at a head. Returns whether there is room for it.
    pub(super) fn add_read(&mut self, frame: &FrameAt) -> bool {
        let to = self.memory.get_mut(self.left.end);
        let has_room = to.is_some();
        if let Some(to) = to {
            *to = Listed::of(frame, 0);
            self.left.end = self.left.end.saturating_add(1);
        }
        has_room
    }

    /// How many frames were added, and back to this number.
    pub(super) const fn added(&self) -> usize {
        self.left.end
    }

    pub(super) fn back_to(&mut self, added: usize) {
        self.left.end = self.left.end.min(added);
    }

    /// Ends the list that was read at the heads: with the records that each lane was read up to,
    /// and before the first stamp that is left in any lane. What is not older leaves the list
    /// again, since the lanes may have older frames (OL2). So does what is in no index any more.
    pub(super) fn end_read(
        &mut self,
        indexes: &mut impl Indexes,
        read: &Records,
        first_left: Option<Stamp>,
        (keeps, wants): (impl Fn(Rule) -> bool, impl Fn(*const u8)),
    ) {
        for (end, read) in self.left.ends.iter_mut().zip(read) {
            *end = (*end).min(*read);
        }
        for at in 0..self.left.end {
            let Some(listed) = self.memory.get(at).copied() else { break };
            if first_left.is_some_and(|left| listed.stamp >= left) {
                self.end_before(&listed);
            }
        }
        self.keep_before_ends();
        let (lists_all, mut kept) = (keeps(Rule::StepListsAll), 0_usize);
        for at in 0..self.left.end {
            let frames = self.memory.get(..self.left.end).unwrap_or_default();
            let Some(listed) = frames.get(at) else { break };
            Listed::want_ahead(frames, at, indexes, &wants);
            let block = listed.block;
            let is_there = indexes.of(block, |index| listed.may_be_in(index));
            if is_there && (lists_all || block.raw() % 2 == 0) {
                self.memory.swap(kept, at);
                kept = kept.saturating_add(1);
            }
        }
        self.left.end = kept;
        self.left.is_whole = true;
    }

    /// Takes out what lies behind the end of the list in its lane: copies, whose stamps are lower
    /// than those of the records around them. No head would come by them.
    fn keep_before_ends(&mut self) {
        let ends = self.left.ends.map(|(sequence, _)| sequence);
        self.keep(|listed| listed.is_below(&ends));
    }

    /// Whether a frame lies behind the list before, and not behind this one's end.
    fn wants(&self, frame: &FrameAt) -> bool {
        let lane = usize::from(frame.lane.raw());
        let is_before = self.left.ends.get(lane).is_some_and(|end| frame.sequence < end.0);
        is_before && !frame.is_below(&self.left.begins)
    }

    /// The part of some nodes that goes with the frames that a step has looked at, of those that
    /// are left.
    pub(super) fn part_of(&self, seen: usize, nodes: usize) -> usize {
        nodes.saturating_mul(seen).div_ceil(self.len().max(1))
    }

    /// How many nodes its pass has gone through.
    pub(super) const fn passed_nodes(&self) -> usize {
        self.left.next_node
    }

    /// Whether its pass is over.
    pub(super) const fn is_whole(&self) -> bool {
        self.left.is_whole
    }

    /// Whether it was begun, and not forgotten since.
    pub(super) const fn has_begun(&self) -> bool {
        !self.left.is_whole || self.left.next_node > 0
    }

    /// Whether its pass has begun, and is not over.
    pub(super) const fn is_under_way(&self) -> bool {
        !self.left.is_whole && self.left.next_node > 0
    }

    /// The lanes that it leaves out.
    pub(super) const fn held(&self) -> Held {
        self.left.held
    }

    /// Leaves lanes out from now on, whose heads are at these records (OL6).
    pub(super) fn hold(&mut self, held: &Held, heads: &Records) {
        let is_held = |lane: usize| held.get(lane).is_some_and(Option::is_some);
        let Left { ends, begins, .. } = self.left;
        let of_lanes = ends.iter_mut().zip(begins.iter_mut());
        for (lane, ((end, begins), head)) in of_lanes.zip(heads).enumerate() {
            if is_held(lane) {
                (*end, *begins) = (*head, head.0);
            }
        }
        self.left.held = *held;
        self.keep(|listed| !is_held(usize::from(listed.lane.raw())));
    }

    /// Forgets all that it has: there is no list.
    pub(super) fn forget(&mut self) {
        *self.left = Left::NONE;
    }

    /// Whether the heads, which are at these records, have passed all of the list before.
    pub(super) fn follows(&self, first_kept: &Bounds) -> bool {
        self.left.begins.iter().zip(first_kept).all(|(begins, kept)| begins <= kept)
    }

    /// Takes over another list.
    pub(super) fn take_over(&mut self, other: &Oldest<'_>) {
        let frames = other.memory.get(other.left.from..other.left.end).unwrap_or_default();
        if let Some(memory) = self.memory.get_mut(..frames.len()) {
            memory.copy_from_slice(frames);
        }
        let (end, behind_ordered) = (frames.len(), AT_FIRST_RECORD);
        *self.left = Left { from: 0, ordered: 0, end, behind_ordered, ..*other.left };
    }

    /// Lists blocks whose content is in slots and not home, those used longest ago first. Of those
    /// used at about the same time, the ones written longest ago come first. They are blocks whose
    /// newest frames are in the next nodes of the indexes, which are gone through in a circle, or
    /// in all of them.
    /// Adds to `looked` how many nodes that are. Returns whether there are more than it says then.
    pub(super) fn list_in_slots<P: Pmem, D: BlockDevice, H: Hook>(
        &mut self,
        indexes: &mut impl Indexes,
        search: &mut Search<'_, P, D, H>,
        lists_all: bool,
        looked: &mut usize,
    ) -> bool {
        let (from, nodes) =
            if lists_all { (0, usize::MAX) } else { (self.left.next_node, NODES_EACH) };
        *self.left = Left::NONE;
        let (mut limit, mut first, end) = (NO_LIMIT, 0_usize, from.saturating_add(nodes));
        indexes.each_with_use(|index, last_use| {
            let used = index.used_nodes();
            let here = from.saturating_sub(first)..end.saturating_sub(first).min(used);
            first = first.saturating_add(used);
            *looked = looked.saturating_add(here.len());
            for newest in here.filter_map(|number| index.newest_in_node(number)) {
                let block = index.frame(newest).block;
                if search.decide(index, block).is_some() {
                    let last_use = search.slot_of(index, block).map_or(0, last_use);
                    self.add(&Listed::of(&index.frame(newest), last_use), &mut limit);
                }
            }
        });
        self.put_in_order(usize::MAX);
        self.left.next_node = if end < first { end } else { 0 };
        *looked < first
    }

    /// Takes out the first `count` frames.
    pub(super) fn pass(&mut self, count: usize) {
        self.left.from = self.left.from.saturating_add(count).min(self.left.end);
    }

    fn add(&mut self, listed: &Listed, limit: &mut (u32, Stamp)) {
        if self.left.end == self.memory.len() && listed.age() < *limit {
            self.keep_older_half(limit);
        }
        if listed.age() >= *limit {
            self.end_before(listed);
        } else if let Some(to) = self.memory.get_mut(self.left.end) {
            *to = *listed;
            self.left.end = self.left.end.saturating_add(1);
        }
    }

    /// Makes room: the frames from the middle one on leave the list, with all of that one's stamp.
    /// If none is older than that, its stamp stays, unless no other is there.
    fn keep_older_half(&mut self, limit: &mut (u32, Stamp)) {
        let middle = self.memory.len() / 2;
        if middle < self.memory.len() {
            self.memory.select_nth_unstable_by_key(middle, Listed::age);
        }
        let age = self.memory.get(middle).map_or((0, Stamp(0)), Listed::age);
        let behind = (age.0, Stamp(age.1.raw().saturating_add(1)));
        let is_oldest = self.memory.iter().all(|listed| listed.age() >= age);
        let others_leave = is_oldest && self.memory.iter().any(|listed| listed.age() >= behind);
        *limit = if others_leave { behind } else { age };
        let mut kept = 0_usize;
        for at in 0..self.memory.len() {
            let Some(listed) = self.memory.get(at).copied() else { break };
            if listed.age() >= *limit {
                self.end_before(&listed);
            } else {
                self.memory.swap(kept, at);
                kept = kept.saturating_add(1);
            }
        }
        self.left.end = kept;
    }

    /// Notes that the list does not have this frame.
    fn end_before(&mut self, listed: &Listed) {
        if let Some(end) = self.left.ends.get_mut(usize::from(listed.lane.raw())) {
            *end = (*end).min((listed.sequence, listed.record));
        }
    }
}
