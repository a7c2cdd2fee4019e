//! Giving space back without the disk, where content is in slots: folding, and voiding.
//!
//! *Folding* writes into a slot's entry what the newest frame of its block says, so that the ring
//! can go on. The other step, *voiding*, takes entries back whose content is not needed any more:
//! an older version, or one that is home.
//!
//! 1. An entry is written of a durable frame, the newest whole one of its block. One fence makes
//!    all of them durable; only then may heads pass the frames.
//! 2. The entry of a version that has a durable whole successor is voided first, by one word, and
//!    all of them fenced. Its slot is free then: whatever frames still name it are older.
//! 3. The entry of a block's newest whole version is voided when three things hold. The block is
//!    home, its older entries are void, and no older frame of it is in a ring. The slot is free
//!    after a fence, and after the superblock that drops what is left of the block.
//!
//! **Crash** anywhere: entry and frame say the same, or one of them is not there. A torn entry is
//! covered by its frame, which is still in the ring.

use crate::commit::batched::Batched;
use crate::common::Common;
use crate::home::checkpoint::FencedLanes;
use crate::home::error::JournalError;
use crate::home::oldest::Listed;
use crate::home::report::{CheckpointReport, FoldReport};
use crate::home::{Home, HomeScratch, Lanes};
use crate::index::frame::{Bounds, FrameAt, NodeId};
use crate::index::{Index, IndexMemory, Indexes};
use crate::order::ordered::{Hook, InFlight};
use crate::order::rule::Rule;
use crate::ports::block_device::BlockDevice;
use crate::ports::kernels::Kernels;
use crate::ports::pmem::Pmem;
use crate::ports::policy::Policy;
use crate::space::slots::Folded;
use crate::units::{BlockNumber, LaneNumber, SlotNumber, Stamp};

/// Nodes of the indexes that one step looks at for superseded versions.
const NODES_EACH: usize = 1 << 12;

/// Which versions are given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Which {
    /// All that have a durable whole successor.
    Superseded,
    /// Of them, those that an entry speaks of, and whose block is home.
    SupersededAtHome,
    /// The newest versions of blocks at home of which nothing older is left.
    LastAtHome,
}

/// In this order.
const AT_HOME: [Which; 2] = [Which::SupersededAtHome, Which::LastAtHome];

impl Which {
    fn takes<M: IndexMemory>(
        self,
        index: &Index<M>,
        id: NodeId,
        bounds: &Bounds,
        keeps: impl Fn(Rule) -> bool,
    ) -> bool {
        let frame = index.frame(id);
        if frame.slot().is_none() || (index.is_stale(id) && !frame.folded) {
            return false;
        }
        let newest = index.newest_below(frame.block, bounds);
        let is_home = newest.is_some_and(|newest| index.is_home(newest));
        match self {
            Self::Superseded => has_successor(index, id, bounds),
            Self::SupersededAtHome => is_home && frame.folded && has_successor(index, id, bounds),
            Self::LastAtHome => {
                let is_last = newest.and_then(|newest| index.whole_below(newest)) == Some(id);
                let is_alone = index.older(id).is_none() || !keeps(Rule::NewestVoidedLast);
                is_home && frame.folded && is_last && is_alone
            }
        }
    }
}

/// Whether a newer version of the block is whole and durable.
fn has_successor<M: IndexMemory>(index: &Index<M>, id: NodeId, bounds: &Bounds) -> bool {
    let newer = core::iter::successors(index.newer(id), |id| index.newer(*id));
    newer.map(|id| index.frame(id)).any(|frame| frame.is_whole() && frame.is_below(bounds))
}

/// Whether an entry is to say what this frame does: it is the newest whole one of its block, which
/// is not home.
fn is_to_be_folded<M: IndexMemory>(index: &Index<M>, id: NodeId, bounds: &Bounds) -> bool {
    let frame = index.frame(id);
    if frame.slot().is_none() || frame.folded || index.is_stale(id) || !frame.is_below(bounds) {
        return false;
    }
    let newest = index.newest_below(frame.block, bounds);
    newest.is_some_and(|newest| index.whole_below(newest) == Some(id) && !index.is_home(newest))
}

/// Where versions are looked for. A copy begins anew.
trait Candidates: Copy {
    /// Goes on to fill the batch with versions that `is_one` takes. Returns how many.
    fn fill<I: Indexes>(
        &mut self,
        indexes: &mut I,
        batch: &mut [Batched],
        is_one: impl Fn(&Index<I::Memory>, NodeId) -> bool,
    ) -> usize;
}

/// Nodes of all indexes, before the `stop`-th.
#[derive(Clone, Copy, Debug)]
struct InNodes {
    next: usize,
    stop: usize,
}

impl InNodes {
    const ALL: Self = Self { next: 0, stop: usize::MAX };
}

impl Candidates for InNodes {
    fn fill<I: Indexes>(
        &mut self,
        indexes: &mut I,
        batch: &mut [Batched],
        is_one: impl Fn(&Index<I::Memory>, NodeId) -> bool,
    ) -> usize {
        let (mut count, mut before, mut next) = (0_usize, 0_usize, self.next);
        indexes.each(|index| {
            let end = before.saturating_add(index.node_count());
            while next < end {
                let Some(free) = batch.get_mut(count).filter(|_| next < self.stop) else { return };
                let id = index.used_node(next.saturating_sub(before));
                let picked = id.filter(|id| is_one(index, *id));
                if let Some(picked) = picked.and_then(|id| Batched::of_slot(index, id)) {
                    *free = picked;
                    count = count.saturating_add(1);
                }
                next = next.saturating_add(1);
            }
            before = end;
        });
        self.next = next;
        count
    }
}

/// The frames of listed records, or those of their blocks that entries speak of. Of these only the
/// blocks that are home.
#[derive(Clone, Copy, Debug)]
enum OfBlocks<'l> {
    Listed(&'l [Listed]),
    AtHome(&'l [Listed], &'l Bounds),
}

impl Candidates for OfBlocks<'_> {
    fn fill<I: Indexes>(
        &mut self,
        indexes: &mut I,
        batch: &mut [Batched],
        is_one: impl Fn(&Index<I::Memory>, NodeId) -> bool,
    ) -> usize {
        let at_home = match *self {
            Self::Listed(_) => None,
            Self::AtHome(_, bounds) => Some(bounds),
        };
        let (Self::Listed(listed) | Self::AtHome(listed, _)) = self;
        let mut count = 0_usize;
        while let Some((at, others)) = listed.split_first() {
            let before = count;
            let finds_room = indexes.of(at.block, |index| {
                let mut put = |index: &Index<_>, id| {
                    let picked = Batched::of_slot(index, id).unwrap_or(Batched::EMPTY);
                    let to = batch.get_mut(count)?;
                    *to = picked;
                    count = count.saturating_add(1);
                    Some(())
                };
                let Some(bounds) = at_home else {
                    let mut frames = at.frames_in(index).filter(|id| is_one(index, *id));
                    return frames.try_for_each(|id| put(index, id)).is_some();
                };
                // Of most blocks no entry speaks, and some have a long chain.
                let newest = index.newest_below(at.block, bounds);
                let is_home = newest.is_some_and(|newest| index.is_home(newest));
                if !is_home || !index.may_have_folded(at.block) {
                    return true;
                }
                let chain = core::iter::successors(index.newest(at.block), |id| index.older(*id));
                let mut folded = chain.filter(|id| is_one(index, *id));
                folded.try_for_each(|id| put(index, id)).is_some()
            });
            // What finds no room in a batch of its own waits for the next step.
            if !finds_room && before > 0 {
                return before;
            }
            *listed = others;
        }
        count
    }
}

impl Batched {
    /// The version that it was made of, if it is still known.
    fn version(&self, index: &Index<impl IndexMemory>) -> Option<NodeId> {
        index.version(self.block, Stamp(self.stamp), self.slot)
    }

    fn of_slot(index: &Index<impl IndexMemory>, id: NodeId) -> Option<Self> {
        let frame = index.frame(id);
        let slot = frame.slot()?;
        Some(Self { block: frame.block, stamp: frame.stamp.raw(), slot, ..Self::EMPTY })
    }
}

impl<P: Pmem, D: BlockDevice, H: Hook> Home<P, D, H> {
    /// Writes entries for what rings say of slots, and lets the heads pass.
    ///
    /// # Errors
    /// The medium's. The journal must then refuse to go on.
    pub fn fold<L: Policy, K: Kernels>(
        &mut self,
        common: &Common<L, K>,
        lanes: &mut (impl Lanes<P, H> + ?Sized),
        indexes: &mut impl Indexes,
        scratch: &mut HomeScratch<'_>,
    ) -> Result<FoldReport, JournalError> {
        let mut report = FoldReport::default();
        let fenced = self.fence_all(common, lanes, true)?;
        let all = (&fenced.bounds, InNodes::ALL);
        self.write_entries(common, lanes, indexes, all, scratch.batch, &mut report)?;
        let mut passed = CheckpointReport::default();
        self.advance(common, lanes, indexes, scratch, (&fenced, false, false), &mut passed)?;
        report.freed_bytes = passed.freed_bytes;
        report.freed_slots = passed.freed_slots;
        let superblocks = if passed.freed_bytes > 0 { 2 } else { 0 };
        report.fences = report.fences.saturating_add(superblocks);
        Ok(report)
    }

    #[allow(clippy::too_many_arguments, reason = "they are what there is to work with")]
    fn write_entries<L: Policy, K: Kernels>(
        &self,
        common: &Common<L, K>,
        lanes: &mut (impl Lanes<P, H> + ?Sized),
        indexes: &mut impl Indexes,
        (bounds, mut candidates): (&Bounds, impl Candidates),
        batch: &mut [Batched],
        report: &mut FoldReport,
    ) -> Result<(), JournalError> {
        loop {
            let folds = |index: &Index<_>, id| is_to_be_folded(index, id, bounds);
            let count = candidates.fill(indexes, batch, folds);
            if count == 0 {
                return Ok(());
            }
            let batch = batch.get(..count).unwrap_or_default();
            self.write_some_entries(common, lanes, indexes, batch, report)?;
        }
    }

    /// Writes the entries of a batch of versions.
    fn write_some_entries<L: Policy, K: Kernels>(
        &self,
        common: &Common<L, K>,
        lanes: &mut (impl Lanes<P, H> + ?Sized),
        indexes: &mut impl Indexes,
        batch: &[Batched],
        report: &mut FoldReport,
    ) -> Result<(), JournalError> {
        let (kernels, seeds) = (&common.kernels, common.seeds);
        let mut in_flight: Option<InFlight> = None;
        for folded in batch {
            let content =
                indexes.of(folded.block, |index| folded.version(index).map(|id| index.frame(id)));
            let Some(content) = content.map(|frame| frame.payload) else { continue };
            let entry = Folded { block: folded.block, stamp: Stamp(folded.stamp), content };
            let lane = common.geometry.lane_of_slot(folded.slot);
            let written = lanes.with(lane, |at| {
                let slots = at.lane.slots_mut();
                slots.map(|slots| slots.write_entry(folded.slot, &entry, kernels, seeds))
            })?;
            if let Some(written) = written {
                InFlight::join(&mut in_flight, written);
            }
        }
        if let Some(in_flight) = in_flight {
            fence(lanes, in_flight, Fenced::Entries)?;
            report.fences = report.fences.saturating_add(1);
        }
        for folded in batch {
            indexes.of(folded.block, |index| {
                if let Some(id) = folded.version(index) {
                    index.set_folded_over(id, folded.slot);
                }
            });
        }
        report.folded = report.folded.saturating_add(batch.len() as u64);
        Ok(())
    }

    /// Gives back the slots of superseded versions.
    ///
    /// # Errors
    /// The medium's. The journal must then refuse to go on.
    pub fn collect_garbage<L: Policy, K: Kernels>(
        &mut self,
        common: &Common<L, K>,
        lanes: &mut (impl Lanes<P, H> + ?Sized),
        indexes: &mut impl Indexes,
        scratch: &mut HomeScratch<'_>,
    ) -> Result<FoldReport, JournalError> {
        let mut report = FoldReport::default();
        let fenced = self.fence_all(common, lanes, true)?;
        let (which, all) = (Which::Superseded, (&fenced.bounds, InNodes::ALL));
        self.give_back(common, lanes, indexes, all, scratch.batch, which, &mut report)?;
        Ok(report)
    }

    /// Voids the entries of blocks that are home, in the order that rule 3 of this file asks for.
    pub(crate) fn void_at_home<L: Policy, K: Kernels>(
        &mut self,
        common: &Common<L, K>,
        lanes: &mut (impl Lanes<P, H> + ?Sized),
        indexes: &mut impl Indexes,
        fenced: &FencedLanes,
        scratch: &mut HomeScratch<'_>,
        report: &mut FoldReport,
    ) -> Result<(), JournalError> {
        let all = (&fenced.bounds, InNodes::ALL);
        self.void(common, lanes, indexes, all, scratch.batch, report)
    }

    fn void<L: Policy, K: Kernels>(
        &self,
        common: &Common<L, K>,
        lanes: &mut (impl Lanes<P, H> + ?Sized),
        indexes: &mut impl Indexes,
        (bounds, candidates): (&Bounds, impl Candidates),
        batch: &mut [Batched],
        report: &mut FoldReport,
    ) -> Result<(), JournalError> {
        for which in AT_HOME {
            let those = (bounds, candidates);
            self.give_back(common, lanes, indexes, those, batch, which, report)?;
        }
        Ok(())
    }

    /// Whether there are entries to be voided, of blocks that are home.
    pub(crate) fn has_entries_at_home(&self, indexes: &mut impl Indexes, bounds: &Bounds) -> bool {
        let mut has = false;
        indexes.each(|index| {
            let keeps = |rule| self.keeps(rule);
            let takes = |id| AT_HOME.iter().any(|which| which.takes(index, id, bounds, keeps));
            has |= index.all().any(takes);
        });
        has
    }

    #[allow(clippy::too_many_arguments, reason = "they are what there is to work with")]
    fn give_back<L: Policy, K: Kernels>(
        &self,
        common: &Common<L, K>,
        lanes: &mut (impl Lanes<P, H> + ?Sized),
        indexes: &mut impl Indexes,
        (bounds, mut candidates): (&Bounds, impl Candidates),
        batch: &mut [Batched],
        which: Which,
        report: &mut FoldReport,
    ) -> Result<(), JournalError> {
        loop {
            let keeps = |rule| self.keeps(rule);
            let takes = |index: &Index<_>, id| which.takes(index, id, bounds, keeps);
            let count = candidates.fill(indexes, batch, takes);
            if count == 0 {
                return Ok(());
            }
            let batch = batch.get(..count).unwrap_or_default();
            self.give_some_back(common, lanes, indexes, batch, which, report)?;
        }
    }

    /// Gives back the slots of a batch of versions.
    fn give_some_back<L: Policy, K: Kernels>(
        &self,
        common: &Common<L, K>,
        lanes: &mut (impl Lanes<P, H> + ?Sized),
        indexes: &mut impl Indexes,
        batch: &[Batched],
        which: Which,
        report: &mut FoldReport,
    ) -> Result<(), JournalError> {
        let mut in_flight: Option<InFlight> = None;
        for given in batch {
            let is_folded = indexes.of(given.block, |index| {
                given.version(index).is_some_and(|id| index.frame(id).folded)
            });
            if !is_folded {
                continue;
            }
            let voided = lanes.with(common.geometry.lane_of_slot(given.slot), |at| {
                at.lane.slots_mut().map(|slots| slots.void_entry(given.slot))
            })?;
            if let Some(voided) = voided {
                InFlight::join(&mut in_flight, voided);
            }
        }
        if let Some(in_flight) = in_flight.filter(|_| self.keeps(Rule::VoidsFenced)) {
            fence(lanes, in_flight, Fenced::Voids)?;
            report.fences = report.fences.saturating_add(1);
        }
        for given in batch {
            let frees = indexes.of(given.block, |index| {
                let id = given.version(index);
                id.is_some_and(|id| index.take_version(id, which == Which::LastAtHome))
            });
            if frees {
                free(common, lanes, given.slot)?;
                report.freed_slots = report.freed_slots.saturating_add(1);
            }
        }
        Ok(())
    }

    /// Forgets the frames below a cut of blocks that have some in slots, and gives those back.
    ///
    /// Of a block the oldest goes first: what is left of it meanwhile, and may be read, is never
    /// older than what was there.
    pub(crate) fn drop_slots<L: Policy, K: Kernels>(
        &mut self,
        common: &Common<L, K>,
        lanes: &mut (impl Lanes<P, H> + ?Sized),
        indexes: &mut impl Indexes,
        scratch: &mut HomeScratch<'_>,
        cut: &Bounds,
        report: &mut CheckpointReport,
    ) -> Result<(), JournalError> {
        let mut nodes = InNodes::ALL;
        loop {
            let count = nodes.fill(indexes, scratch.batch, |i, id| leaves_slot(i, id, cut));
            if count == 0 {
                return Ok(());
            }
            for Batched { block, .. } in scratch.batch.get(..count).unwrap_or_default() {
                let freed = self.drop_slots_of(common, lanes, indexes, *block, cut)?;
                report.freed_slots = report.freed_slots.saturating_add(freed);
            }
        }
    }

    /// Like [`drop_slots`](Self::drop_slots), of one block. Returns how many slots came free.
    pub(crate) fn drop_slots_of<L: Policy, K: Kernels>(
        &mut self,
        common: &Common<L, K>,
        lanes: &mut (impl Lanes<P, H> + ?Sized),
        indexes: &mut impl Indexes,
        block: BlockNumber,
        cut: &Bounds,
    ) -> Result<u64, JournalError> {
        let mut freed = 0_u64;
        loop {
            let dropped = indexes.of(block, |index| {
                let mut chain = core::iter::successors(index.newest(block), |id| index.older(*id));
                let upto = chain.find(|id| leaves_slot(index, *id, cut))?;
                drop_oldest(index, upto, cut)
            });
            let Some(dropped) = dropped else { return Ok(freed) };
            free(common, lanes, dropped.slot)?;
            freed = freed.saturating_add(1);
        }
    }
}

impl<P: Pmem, D: BlockDevice, H: Hook> Home<P, D, H> {
    /// Like [`fold`](Self::fold), of some frames, and without the heads.
    pub(crate) fn fold_listed<L: Policy, K: Kernels>(
        &self,
        common: &Common<L, K>,
        lanes: &mut (impl Lanes<P, H> + ?Sized),
        indexes: &mut impl Indexes,
        (bounds, listed): (&Bounds, &[Listed]),
        batch: &mut [Batched],
        report: &mut FoldReport,
    ) -> Result<(), JournalError> {
        let those = (bounds, OfBlocks::Listed(listed));
        self.write_entries(common, lanes, indexes, those, batch, report)
    }

    /// Like [`void_at_home`](Self::void_at_home), of the blocks of some frames.
    pub(crate) fn void_listed<L: Policy, K: Kernels>(
        &self,
        common: &Common<L, K>,
        lanes: &mut (impl Lanes<P, H> + ?Sized),
        indexes: &mut impl Indexes,
        (bounds, listed): (&Bounds, &[Listed]),
        batch: &mut [Batched],
        report: &mut FoldReport,
    ) -> Result<(), JournalError> {
        let those = (bounds, OfBlocks::AtHome(listed, bounds));
        self.void(common, lanes, indexes, those, batch, report)
    }

    /// Like [`collect_garbage`](Self::collect_garbage), in [`NODES_EACH`] nodes of the indexes,
    /// from `next_node` on. Says where to go on.
    pub(crate) fn collect_some_garbage<L: Policy, K: Kernels>(
        &self,
        common: &Common<L, K>,
        lanes: &mut (impl Lanes<P, H> + ?Sized),
        indexes: &mut impl Indexes,
        (bounds, next_node): (&Bounds, &mut usize),
        batch: &mut [Batched],
        report: &mut FoldReport,
    ) -> Result<(), JournalError> {
        let (which, stop) = (Which::Superseded, next_node.saturating_add(NODES_EACH));
        let mut nodes = InNodes { next: *next_node, stop };
        let keeps = |rule| self.keeps(rule);
        let takes = |index: &Index<_>, id| which.takes(index, id, bounds, keeps);
        let count = nodes.fill(indexes, batch, takes);
        let next = nodes.next;
        *next_node = if count < batch.len() && next < stop { 0 } else { next };
        let some = batch.get(..count).unwrap_or_default();
        self.give_some_back(common, lanes, indexes, some, which, report)
    }
}

/// Whether a frame goes when the heads pass to a cut.
fn is_dropped(frame: &FrameAt, cut: &Bounds) -> bool {
    !frame.folded && frame.is_below(cut)
}

/// Whether a frame goes then that has a slot.
fn leaves_slot(index: &Index<impl IndexMemory>, id: NodeId, cut: &Bounds) -> bool {
    let frame = index.frame(id);
    frame.slot().is_some() && !index.is_stale(id) && is_dropped(&frame, cut)
}

/// The oldest frame of a block, from this one down, that goes.
fn oldest_dropped<M: IndexMemory>(index: &Index<M>, upto: NodeId, cut: &Bounds) -> Option<NodeId> {
    let older = core::iter::successors(Some(upto), |id| index.older(*id));
    older.filter(|id| is_dropped(&index.frame(*id), cut)).last()
}

/// Forgets the frames of a block that go, from the oldest on. It ends with the first one that
/// leaves its slot free, at the latest with `upto`. Returns that slot.
fn drop_oldest<M: IndexMemory>(
    index: &mut Index<M>,
    upto: NodeId,
    cut: &Bounds,
) -> Option<Batched> {
    let mut id = oldest_dropped(index, upto, cut)?;
    loop {
        let mut newer = core::iter::successors(index.newer(id), |id| index.newer(*id));
        let next = newer.find(|id| is_dropped(&index.frame(*id), cut));
        let next = next.filter(|_| id != upto);
        let picked = Batched::of_slot(index, id);
        let is_free = !index.is_stale(id) && index.leave_slot(id);
        // Nobody reads it there any more when the slot is free.
        index.remove(id);
        if is_free {
            return picked;
        }
        id = next?;
    }
}

/// What a fence makes durable.
enum Fenced {
    Entries,
    Voids,
}

/// Fences through some lane: a fence covers the span.
fn fence<P: Pmem, H: Hook>(
    lanes: &mut (impl Lanes<P, H> + ?Sized),
    in_flight: InFlight,
    what: Fenced,
) -> Result<(), JournalError> {
    lanes.with(LaneNumber(0), |at| {
        let Some(slots) = at.lane.slots_mut() else { return Ok(()) };
        let fenced = match what {
            Fenced::Entries => slots.fence_entries(in_flight),
            Fenced::Voids => slots.fence_voids(in_flight),
        };
        fenced.map(drop).map_err(JournalError::Medium)
    })?
}

fn free<P: Pmem, H: Hook>(
    common: &Common<impl Policy, impl Kernels>,
    lanes: &mut (impl Lanes<P, H> + ?Sized),
    slot: SlotNumber,
) -> Result<(), JournalError> {
    lanes.with(common.geometry.lane_of_slot(slot), |at| {
        if let Some(slots) = at.lane.slots_mut() {
            slots.give(at.states, slot);
        }
    })
}
