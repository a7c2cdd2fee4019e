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
//!    home, its older entries are void, and no older frame of it is in a ring. Before the slot is
//!    free come a fence, and the superblock that drops what is left of the block.
//!
//! **Crash** anywhere: entry and frame say the same, or one of them is not there. A torn entry is
//! covered by its frame, which is still in the ring.

use crate::commit::batched::Batched;
use crate::commit::scheme::Common;
use crate::home::checkpoint::Snapshot;
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

/// Places of the indexes that one step looks at for superseded versions.
const PLACES: usize = 1 << 12;

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

/// Fills the batch from frames, from the `from`-th place of all indexes on, and before the
/// `stop`-th; returns how many it holds, and the place to go on from. What is picked comes with
/// whether the place is to be asked about again.
fn collect<I: Indexes>(
    indexes: &mut I,
    (from, stop): (usize, usize),
    batch: &mut [Batched],
    mut pick: impl FnMut(&mut Index<I::Memory>, NodeId) -> Option<(Batched, bool)>,
) -> (usize, usize) {
    let (mut count, mut place) = (0_usize, 0_usize);
    let mut next = from;
    indexes.each(|index| {
        let end = place.saturating_add(index.places());
        while next < end {
            let Some(free) = batch.get_mut(count).filter(|_| next < stop) else { return };
            let id = index.at_place(next.saturating_sub(place));
            let Some((picked, more)) = id.and_then(|id| pick(index, id)) else {
                next = next.saturating_add(1);
                continue;
            };
            *free = picked;
            count = count.saturating_add(1);
            next = next.saturating_add(usize::from(!more));
        }
        place = end;
    });
    (count, next)
}

/// Like [`collect`], with a predicate; each place is asked about once.
fn collect_those<I: Indexes>(
    indexes: &mut I,
    from: usize,
    batch: &mut [Batched],
    is_one: impl Fn(&Index<I::Memory>, NodeId) -> bool,
) -> (usize, usize) {
    collect(indexes, (from, usize::MAX), batch, |index, id| {
        let picked = is_one(index, id).then(|| Batched::of_slot(index, id)).flatten();
        picked.map(|picked| (picked, false))
    })
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
        let snapshot = self.snapshot(common, lanes, true)?;
        self.write_entries(common, lanes, indexes, &snapshot, scratch, &mut report)?;
        let mut reclaimed = CheckpointReport::default();
        let cut = self.cut(indexes, &snapshot.bounds);
        self.advance(common, lanes, indexes, scratch, &snapshot, &cut, &mut reclaimed)?;
        report.freed_bytes = reclaimed.freed_bytes;
        report.freed_slots = reclaimed.freed_slots;
        let superblocks = if reclaimed.freed_bytes > 0 { 2 } else { 0 };
        report.fences = report.fences.saturating_add(superblocks);
        Ok(report)
    }

    fn write_entries<L: Policy, K: Kernels>(
        &mut self,
        common: &Common<L, K>,
        lanes: &mut (impl Lanes<P, H> + ?Sized),
        indexes: &mut impl Indexes,
        snapshot: &Snapshot,
        scratch: &mut HomeScratch<'_>,
        report: &mut FoldReport,
    ) -> Result<(), JournalError> {
        let bounds = &snapshot.bounds;
        let mut from = 0;
        loop {
            let folds = |index: &Index<_>, id| is_to_be_folded(index, id, bounds);
            let (count, next) = collect_those(indexes, from, scratch.batch, folds);
            if count == 0 {
                return Ok(());
            }
            from = next;
            let batch = scratch.batch.get(..count).unwrap_or_default();
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
        let snapshot = self.snapshot(common, lanes, true)?;
        let which = Which::Superseded;
        self.give_back(common, lanes, indexes, &snapshot, scratch, which, &mut report)?;
        Ok(report)
    }

    /// Voids the entries of blocks that are home, in the order that rule 3 of this file asks for.
    pub(crate) fn void_at_home<L: Policy, K: Kernels>(
        &mut self,
        common: &Common<L, K>,
        lanes: &mut (impl Lanes<P, H> + ?Sized),
        indexes: &mut impl Indexes,
        snapshot: &Snapshot,
        scratch: &mut HomeScratch<'_>,
        report: &mut FoldReport,
    ) -> Result<(), JournalError> {
        for which in AT_HOME {
            self.give_back(common, lanes, indexes, snapshot, scratch, which, report)?;
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
        &mut self,
        common: &Common<L, K>,
        lanes: &mut (impl Lanes<P, H> + ?Sized),
        indexes: &mut impl Indexes,
        snapshot: &Snapshot,
        scratch: &mut HomeScratch<'_>,
        which: Which,
        report: &mut FoldReport,
    ) -> Result<(), JournalError> {
        let bounds = &snapshot.bounds;
        let mut from = 0;
        loop {
            let keeps = |rule| self.keeps(rule);
            let takes = |index: &Index<_>, id| which.takes(index, id, bounds, keeps);
            let (count, next) = collect_those(indexes, from, scratch.batch, takes);
            if count == 0 {
                return Ok(());
            }
            from = next;
            let batch = scratch.batch.get(..count).unwrap_or_default();
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
        let mut from = 0;
        loop {
            // The oldest frame that is left of the block that is asked about again.
            let mut left: Option<NodeId> = None;
            let (count, next) = collect(indexes, (from, usize::MAX), scratch.batch, |index, id| {
                let frame = index.frame(id);
                let has_slot = frame.slot().is_some() && !index.is_stale(id);
                if !has_slot || !is_dropped(&frame, cut) {
                    return None;
                }
                let oldest = left.take().or_else(|| oldest_dropped(index, id, cut))?;
                let (picked, next) = drop_oldest(index, oldest, id, cut)?;
                left = next;
                Some((picked, next.is_some()))
            });
            if count == 0 {
                return Ok(());
            }
            from = next;
            for dropped in scratch.batch.get(..count).unwrap_or_default() {
                free(common, lanes, dropped.slot)?;
                report.freed_slots = report.freed_slots.saturating_add(1);
            }
        }
    }
}

impl<P: Pmem, D: BlockDevice, H: Hook> Home<P, D, H> {
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
                let chain = core::iter::successors(index.newest(block), |id| index.older(*id));
                let mut in_slots = chain.filter(|id| {
                    let frame = index.frame(*id);
                    frame.slot().is_some() && !index.is_stale(*id) && is_dropped(&frame, cut)
                });
                let upto = in_slots.next()?;
                let oldest = oldest_dropped(index, upto, cut)?;
                drop_oldest(index, oldest, upto, cut)
            });
            let Some((dropped, _)) = dropped else { return Ok(freed) };
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
        for some in listed.chunks(batch.len().max(1)) {
            let mut count = 0_usize;
            for at in some {
                let picked = indexes.of(at.block, |index| {
                    let mut chain =
                        core::iter::successors(index.newest(at.block), |id| index.older(*id));
                    let id = chain.find(|id| is_to_be_folded(index, *id, bounds))?;
                    let is_it = at.is_of(&index.frame(id));
                    if is_it { Batched::of_slot(index, id) } else { None }
                });
                if let Some((place, picked)) = batch.get_mut(count).zip(picked) {
                    *place = picked;
                    count = count.saturating_add(1);
                }
            }
            let batch = batch.get(..count).unwrap_or_default();
            self.write_some_entries(common, lanes, indexes, batch, report)?;
        }
        Ok(())
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
        for which in AT_HOME {
            let mut count = 0_usize;
            for at in listed {
                indexes.of(at.block, |index| {
                    let newest = index.newest(at.block);
                    let chain = core::iter::successors(newest, |id| index.older(*id));
                    let keeps = |rule| self.keeps(rule);
                    for id in chain.filter(|id| which.takes(index, *id, bounds, keeps)) {
                        if let Some(place) = batch.get_mut(count) {
                            *place = Batched::of_slot(index, id).unwrap_or(Batched::EMPTY);
                            count = count.saturating_add(1);
                        }
                    }
                });
                // Room for the next chain; what finds none waits for the next step.
                if count.saturating_mul(2) >= batch.len() {
                    let some = batch.get(..count).unwrap_or_default();
                    self.give_some_back(common, lanes, indexes, some, which, report)?;
                    count = 0;
                }
            }
            let some = batch.get(..count).unwrap_or_default();
            self.give_some_back(common, lanes, indexes, some, which, report)?;
        }
        Ok(())
    }

    /// Like [`collect_garbage`](Self::collect_garbage), in [`PLACES`] places of the indexes, from
    /// `place` on. Says where to go on.
    pub(crate) fn collect_some_garbage<L: Policy, K: Kernels>(
        &self,
        common: &Common<L, K>,
        lanes: &mut (impl Lanes<P, H> + ?Sized),
        indexes: &mut impl Indexes,
        (bounds, place): (&Bounds, &mut usize),
        batch: &mut [Batched],
        report: &mut FoldReport,
    ) -> Result<(), JournalError> {
        let (which, stop) = (Which::Superseded, place.saturating_add(PLACES));
        let (count, next) = collect(indexes, (*place, stop), batch, |index, id| {
            let takes = which.takes(index, id, bounds, |rule| self.keeps(rule));
            let picked = takes.then(|| Batched::of_slot(index, id)).flatten();
            picked.map(|picked| (picked, false))
        });
        *place = if count < batch.len() && next < stop { 0 } else { next };
        let some = batch.get(..count).unwrap_or_default();
        self.give_some_back(common, lanes, indexes, some, which, report)
    }
}

/// Whether a frame goes when the heads pass to a cut.
fn is_dropped(frame: &FrameAt, cut: &Bounds) -> bool {
    !frame.folded && frame.is_below(cut)
}

/// The oldest frame of a block, from this one down, that goes.
fn oldest_dropped<M: IndexMemory>(index: &Index<M>, upto: NodeId, cut: &Bounds) -> Option<NodeId> {
    let older = core::iter::successors(Some(upto), |id| index.older(*id));
    older.filter(|id| is_dropped(&index.frame(*id), cut)).last()
}

/// Forgets the frames of a block that go, from the oldest on. It ends with the first one that
/// leaves its slot free, at the latest with `upto`. Returns that slot, and the oldest of the frames
/// that go which is left, as long as `upto` is.
fn drop_oldest<M: IndexMemory>(
    index: &mut Index<M>,
    oldest: NodeId,
    upto: NodeId,
    cut: &Bounds,
) -> Option<(Batched, Option<NodeId>)> {
    let mut id = oldest;
    loop {
        let mut newer = core::iter::successors(index.newer(id), |id| index.newer(*id));
        let next = newer.find(|id| is_dropped(&index.frame(*id), cut));
        let next = next.filter(|_| id != upto);
        let picked = Batched::of_slot(index, id);
        let is_free = !index.is_stale(id) && index.leave_slot(id);
        // Nobody reads it there any more when the slot is free.
        index.remove(id);
        match (is_free, next) {
            (true, _) => return picked.map(|picked| (picked, next)),
            (false, next) => id = next?,
        }
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
