//! The oldest frames in the rings, by their stamps: those that lie nearest to the heads.
//!
//! One pass over the index finds as many frames as there is memory for. They serve many steps of a
//! checkpoint ([`Home::checkpoint_step`](crate::home::Home::checkpoint_step)), and need no lock.
//!
//! OL1. The list has every frame that lies in a ring between the head and the end of the list in
//!      its lane. Frames come at tails alone, so no later frame belongs there.
//! OL2. Stamps ascend in each lane, so heads pass frames in the order of the list. Of a block, they
//!      pass older frames first, whatever lanes those are in: no block at home keeps a head back
//!      because something older of it is left in another lane.
//! OL3. A frame of the list may have left the index since. Then its block is looked at in vain.

use crate::home::search::Search;
use crate::index::Indexes;
use crate::index::frame::{Bounds, FrameAt};
use crate::order::ordered::Hook;
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
    /// Nothing yet.
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

    /// Those with the lowest are first in a list.
    const fn age(&self) -> (u32, Stamp) {
        (self.last_use, self.stamp)
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

    pub(super) fn is_below(&self, cut: &Bounds) -> bool {
        cut.get(usize::from(self.lane.raw())).is_some_and(|bound| self.sequence < *bound)
    }
}

/// Above the age of everything that is listed.
const NO_LIMIT: (u32, Stamp) = (u32::MAX, Stamp(u64::MAX));

/// A record of each lane: its sequence, and its lane offset.
pub(super) type Records = [(Sequence, u64); LANES_MAX as usize];

/// Which part of a list is left.
#[derive(Clone, Copy, Debug)]
pub struct Left {
    from: usize,
    end: usize,
    /// In each lane, the first record that the list does not have.
    ends: Records,
}

impl Left {
    /// Nothing: there is no list yet.
    pub const NONE: Self = Self { from: 0, end: 0, ends: [(Sequence(0), 0); LANES_MAX as usize] };
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
    /// The frames that are left, oldest first.
    pub(super) fn frames(&self) -> &[Listed] {
        self.memory.get(self.left.from..self.left.end).unwrap_or_default()
    }

    pub(super) fn frames_mut(&mut self) -> &mut [Listed] {
        self.memory.get_mut(self.left.from..self.left.end).unwrap_or_default()
    }

    /// Where heads may be once the first `count` frames are gone: in each lane, before the first of
    /// the other frames.
    pub(super) fn behind(&self, count: usize) -> Records {
        let mut records = self.left.ends;
        for listed in self.frames().get(count..).unwrap_or_default() {
            if let Some(record) = records.get_mut(usize::from(listed.lane.raw())) {
                *record = (*record).min((listed.sequence, listed.record));
            }
        }
        records
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

    /// Makes the list of frames below the bounds. `tails` are those of the lanes.
    pub(super) fn list(
        &mut self,
        indexes: &mut impl Indexes,
        bounds: &Bounds,
        tails: &[u64; LANES_MAX as usize],
    ) {
        *self.left = Left::NONE;
        for (end, (bound, tail)) in self.left.ends.iter_mut().zip(bounds.iter().zip(tails)) {
            *end = (*bound, *tail);
        }
        let mut limit = NO_LIMIT;
        indexes.each(|index| {
            for id in index.all() {
                let frame = index.frame(id);
                // What only a slot's entry says lies in no ring.
                if frame.sequence != Sequence(0) && frame.is_below(bounds) {
                    self.add(&Listed::of(&frame, 0), &mut limit);
                }
            }
        });
        self.frames_mut().sort_unstable_by_key(Listed::age);
    }

    /// Lists blocks whose content is in slots and not home, those used longest ago first. Of those
    /// used at about the same time, the ones written longest ago come first.
    pub(super) fn list_in_slots<P: Pmem, D: BlockDevice, H: Hook>(
        &mut self,
        indexes: &mut impl Indexes,
        search: &mut Search<'_, P, D, H>,
    ) {
        *self.left = Left::NONE;
        let mut limit = NO_LIMIT;
        indexes.each_with_use(|index, last_use| {
            for block in index.each_block() {
                let Some(newest) = index.newest(block).filter(|_| search.finds(index, block))
                else {
                    continue;
                };
                let last_use = search.slot_of(index, block).map_or(0, last_use);
                self.add(&Listed::of(&index.frame(newest), last_use), &mut limit);
            }
        });
        self.frames_mut().sort_unstable_by_key(Listed::age);
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
        } else if let Some(place) = self.memory.get_mut(self.left.end) {
            *place = *listed;
            self.left.end = self.left.end.saturating_add(1);
        }
    }

    /// Makes room: the frames from the middle one on leave the list, with all of that one's stamp.
    fn keep_older_half(&mut self, limit: &mut (u32, Stamp)) {
        let middle = self.memory.len() / 2;
        if middle < self.memory.len() {
            self.memory.select_nth_unstable_by_key(middle, Listed::age);
        }
        *limit = self.memory.get(middle).map_or((0, Stamp(0)), Listed::age);
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
