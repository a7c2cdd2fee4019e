//! A checkpoint in steps, each of which frees room at once.
//!
//! A whole checkpoint writes blocks home in the order of their numbers, and lets the heads go on at
//! its end. A thread that waits for room would wait for all of that. A step takes the blocks of the
//! oldest frames, as many as one batch has, and lets the heads pass those frames.
//!
//! 1. The blocks of the first frames of the list are written home, where they are not. The batch
//!    goes through the shield and ends with a sync, like the batch of every checkpoint. A frame
//!    below a newer whole one is passed. Where the heads free much before the first block that
//!    would go home, nothing does: it may be written anew before they come to it. If they free
//!    nothing after all, the step is taken again, and the block goes home.
//! 2. The cut is tried behind these frames, and shortened where it violates what a block needs. No
//!    other block has a frame below it (OL1).
//! 3. All heads move in one superblock write, and then the frames below the cut are forgotten.
//!
//! A step is charged for what it does: for each frame of the list that it goes through to put some
//! in order, for each frame that it looks at, and for the part of the index that it goes through
//! for the next list. It is charged for each block too, with the frames that its content is built
//! from. It ends where the charges come to the time that it may take. It always looks at the oldest
//! record, so that something comes free.
//!
//! Nothing but the list outlives a step, and the list is no more than a hint of which blocks are to
//! be looked at. So commits, and other checkpoints, may come between two steps.
//!
//! **Crash**: as for a checkpoint.

mod charges;
mod read_lane;

use crate::commit::batched::Batched;
use crate::common::Common;
use crate::format::record::Form;
use crate::home::checkpoint::{Batch, FencedLanes};
use crate::home::content::ContentView;
use crate::home::error::JournalError;
use crate::home::oldest::{DroppedEnd, Listed, Oldest, Records};
use crate::home::report::{CheckpointReport, FoldReport, Scope, Step, StepBounds};
use crate::home::search::{Search, home_below, rests_on_discard};
use crate::home::steps::charges::{
    Charges, FRAME_NANOS, IndexNodes, ORDER_NANOS, SLOT_NANOS, nanos_of, nanos_of_record,
};
use crate::home::steps::read_lane::ReadLane;
use crate::home::{Home, HomeScratch, InLane, Lanes};
use crate::index::frame::Bounds;
use crate::index::{Index, IndexMemory, Indexes};
use crate::order::ordered::Hook;
use crate::order::rule::Rule;
use crate::ports::block_device::BlockDevice;
use crate::ports::kernels::Kernels;
use crate::ports::pmem::Pmem;
use crate::ports::policy::Policy;
use crate::scan::reader::PartBounds;
use crate::units::{BlockNumber, LANES_MAX, LaneNumber, Sequence};

/// How many frames a step looks at, for each block that it may write.
const FRAMES_EACH: usize = 4;

/// Records at the heads are read in the time that a step may take, divided by this. In shorter
/// lists, what is looked up for each frame is mostly still in the caches when the step comes to it.
const READ_PART: u64 = 8;

/// This number of records of a lane are listed at one go, if all behind the first are short.
/// Commits to the lane wait for that.
const RECORDS_AT_ONCE: u64 = 4;

/// While the cut is tried for a block, the first node that is left of the block this far behind it
/// is asked for.
const BLOCKS_AHEAD: usize = 4;

/// A step writes nothing home where a head frees as much as its ring, divided by this, without it.
const MUCH_PART: u64 = 8;

impl<P: Pmem, D: BlockDevice, H: Hook> Home<P, D, H> {
    /// Writes home what keeps the heads from going on, one batch of it at most, and lets them go
    /// on. With [`Scope::Rings`], what lies in slots stays there, and their entries say so. What
    /// comes free without a write home is `folded`, if the step is not to write any.
    ///
    /// # Errors
    /// The medium's or the device's. The journal must then refuse to go on.
    #[allow(clippy::too_many_arguments, reason = "they are what there is to work with")]
    pub fn checkpoint_step<L: Policy, K: Kernels>(
        &mut self,
        common: &Common<L, K>,
        lanes: &mut (impl Lanes<P, H> + ?Sized),
        indexes: &mut impl Indexes,
        scratch: &mut HomeScratch<'_>,
        (mut oldest, mut coming): (Oldest<'_>, Oldest<'_>),
        what: (Scope, StepBounds),
        (report, folded): (&mut CheckpointReport, &mut FoldReport),
    ) -> Result<Step, JournalError> {
        let mut spares = self.keeps(Rule::StepSparesHome);
        loop {
            let lists = (oldest.again(), coming.again());
            let (what, reports) = ((what.0, what.1, spares), (&mut *report, &mut *folded));
            let (step, has_spared) =
                self.one_step(common, lanes, indexes, scratch, lists, what, reports)?;
            // An append may keep the head where it was: then what was spared has to go home.
            if step == Step::Done || !has_spared {
                return Ok(step);
            }
            spares = false;
        }
    }

    /// Takes a step that spares what need not go home to free much, or does not. Returns what came
    /// of it, and whether it has spared something.
    #[allow(clippy::too_many_arguments, reason = "they are what there is to work with")]
    fn one_step<L: Policy, K: Kernels>(
        &mut self,
        common: &Common<L, K>,
        lanes: &mut (impl Lanes<P, H> + ?Sized),
        indexes: &mut impl Indexes,
        scratch: &mut HomeScratch<'_>,
        (mut oldest, mut coming): (Oldest<'_>, Oldest<'_>),
        (scope, may, spares): (Scope, StepBounds, bool),
        (report, folded): (&mut CheckpointReport, &mut FoldReport),
    ) -> Result<(Step, bool), JournalError> {
        let mut charges = Charges::up_to(may.nanos);
        let fenced = self.fence_all(common, lanes, self.keeps(Rule::DurableGoesHome))?;
        let heads = self.heads();
        let first_kept = heads.map(|(sequence, _)| sequence);
        self.forget_lists_of_cured(indexes, &mut oldest, &mut coming);
        oldest.drop_passed(&first_kept);
        let (nodes, mut walked) = (IndexNodes::of(indexes), 0_usize);
        if oldest.is_empty() {
            let lists = (&mut oldest, &mut coming);
            let from = (&fenced, &heads, nodes);
            let listed =
                self.next_list(common, lanes, indexes, scratch.front, from, lists, charges.most)?;
            charges.add(listed.0);
            walked = listed.1;
        }
        // Each frame that is looked at brings a part of the next list's pass. Where few are left,
        // these parts would be long: then the pass has half of the time that is left.
        let most_nodes = nodes.within(charges.left() / 2).min(nodes.behind(&coming));
        let with_each = nodes.nanos_of(oldest.part_of(1, nodes.behind(&coming)));
        let has_share = with_each > FRAME_NANOS;
        if has_share {
            charges.add(nodes.nanos_of(most_nodes));
        } else {
            charges.frame = FRAME_NANOS.saturating_add(with_each);
        }
        let mut most = scratch.batch.len().saturating_mul(FRAMES_EACH);
        // 1. What is not home. What an entry of a slot can say need not go home.
        if scope == Scope::Rings {
            charges.frame = charges.frame.saturating_add(SLOT_NANOS);
            let frames = may.nanos.checked_div(charges.frame).unwrap_or(may.nanos);
            most = most.min(usize::try_from(frames).unwrap_or(usize::MAX)).max(1);
        }
        let put_in_order = ORDER_NANOS.saturating_mul(oldest.put_in_order(most.max(1)) as u64);
        // Some time is left, so that heads of other lanes may move beside one that stays.
        charges.add(put_in_order.min(charges.left() / 2));
        if scope == Scope::Rings {
            // The oldest record is folded as a whole, or no head would pass it.
            let folds_record = self.keeps(Rule::StepFoldsRecord);
            let count = if folds_record { oldest.first_within(most, usize::MAX) } else { most };
            let first = oldest.frames().get(..count).unwrap_or(oldest.frames());
            let listed = (&fenced.bounds, first);
            self.fold_listed(common, lanes, indexes, listed, scratch.batch, folded)?;
        }
        let collected = if may.writes_home {
            let from = (&oldest, most, &mut charges);
            self.collect_first(common, indexes, &fenced, (scope, spares), scratch, from)
        } else {
            let seen = oldest.first_within(most, charges.frames_left());
            Collected { seen, ..Collected::default() }
        };
        let Collected { count, seen, has_spared } = collected;
        if count > 0 {
            let view = ContentView { common, lanes: &*lanes, bounds: &fenced.bounds };
            let mut batch = Batch { view, indexes: &mut *indexes, count };
            self.write_home(&mut batch, scratch, report)?;
        }
        if common.geometry.lane_slots_and_log() > 0 {
            let listed = oldest.frames().get(..seen).unwrap_or_default();
            let listed = (&fenced.bounds, listed);
            self.void_listed(common, lanes, indexes, listed, scratch.batch, folded)?;
        }
        // 2. The cut.
        let passed = if self.keeps(Rule::StepPassesSeen) { seen } else { usize::MAX };
        let mut targets = oldest.behind(passed);
        // Another upkeep may have moved a head beyond the end of the list.
        if self.keeps(Rule::StepMovesForward) {
            for (target, here) in targets.iter_mut().zip(heads) {
                *target = (*target).max(here);
            }
        }
        if let Some(seen) = oldest.frames_mut().get_mut(..seen) {
            seen.sort_unstable_by_key(Listed::place);
        }
        indexes.note_passing(true);
        let (cut, freed, is_held) = lanes.passing(|lanes, not_passed| {
            let mut is_held = false;
            for (target, kept) in targets.iter_mut().zip(self.not_passed(not_passed)) {
                let Some(kept) = kept.filter(|kept| kept < target) else { continue };
                (*target, is_held) = (kept, true);
            }
            let listed = oldest.frames().get(..seen).unwrap_or_default();
            let wants = |at| common.prefetch_line(at);
            let cut = self.cut_behind(indexes, &fenced.bounds, &targets, listed, wants);
            // 3. The heads, and the room behind them.
            let to = (&targets, &cut);
            let freed = self.pass(common, lanes, indexes, &fenced, to, listed)?;
            Ok::<_, JournalError>((cut, freed, is_held))
        })?;
        indexes.note_passing(false);
        let (bytes, slots) = match may.writes_home {
            true => (&mut report.freed_bytes, &mut report.freed_slots),
            false => (&mut folded.freed_bytes, &mut folded.freed_slots),
        };
        *bytes = bytes.saturating_add(freed.bytes);
        *slots = slots.saturating_add(freed.slots);
        // The next list is whole by the time this one is at its end.
        let part = oldest.part_of(seen, nodes.behind(&coming)).min(most_nodes);
        let part = if has_share { most_nodes } else { part };
        coming.go_on(indexes, part, |rule| self.keeps(rule));
        let walked = nodes.used_of(walked.saturating_add(part));
        report.longest_pass = report.longest_pass.max(walked);
        // Where nothing may go home, or an append keeps a head, a head that stays says nothing of
        // what cannot be read.
        let has_others = common.geometry.lanes > 1 && may.writes_home && !is_held;
        let lists = (&mut oldest, &mut coming);
        let moves = (&heads, &targets, &cut);
        let holds = has_others && self.hold_back(indexes, moves, lists, seen);
        match holds {
            true => oldest.drop_all_below(&cut),
            false => oldest.drop_below(seen, &cut),
        }
        oldest.note_passed(&self.heads().map(|(sequence, _)| sequence));
        let step = match (freed.bytes, count) {
            // Other lanes go on.
            (0, 0) if holds => Step::Done,
            (0, 0) if is_held => Step::Held,
            (0, 0) if oldest.is_empty() => Step::Empty,
            (0, 0) => Step::Stuck,
            _ => Step::Done,
        };
        Ok((step, has_spared))
    }

    /// Frees slots: those of superseded versions that lie in the next nodes of the indexes. Where
    /// there are none, one batch of blocks in slots goes home, those that were used longest ago,
    /// unless the step is to write none home.
    ///
    /// # Errors
    /// The medium's or the device's. The journal must then refuse to go on.
    #[allow(clippy::too_many_arguments, reason = "they are what there is to work with")]
    pub fn slots_step<L: Policy, K: Kernels>(
        &mut self,
        common: &Common<L, K>,
        lanes: &mut (impl Lanes<P, H> + ?Sized),
        indexes: &mut impl Indexes,
        scratch: &mut HomeScratch<'_>,
        (oldest, next_node): (&mut Oldest<'_>, &mut usize),
        may: StepBounds,
        (report, folded): (&mut CheckpointReport, &mut FoldReport),
    ) -> Result<Step, JournalError> {
        let mut charges = Charges::up_to(may.nanos);
        let fenced = self.fence_all(common, lanes, self.keeps(Rule::DurableGoesHome))?;
        let (bounds, before) = (&fenced.bounds, folded.freed_slots);
        let nodes = IndexNodes::of(indexes);
        let mut looks_for_older = !may.lists_all;
        while looks_for_older {
            let first = *next_node;
            let from = (bounds, &mut *next_node);
            self.collect_some_garbage(common, lanes, indexes, from, scratch.batch, folded)?;
            if folded.freed_slots > before {
                return Ok(Step::Done);
            }
            // The last node ends a pass. Nothing else is left to be done than to write home.
            let is_last = *next_node == 0;
            if may.writes_home {
                looks_for_older = false;
                continue;
            }
            charges.add(nodes.nanos_of(next_node.saturating_sub(first)));
            if is_last || charges.left() == 0 {
                return Ok(if is_last { Step::Stuck } else { Step::Done });
            }
        }
        let scope = Scope::OldestInSlots;
        let (mut count, mut seen, mut looked, mut has_more) = (0, 0, 0, true);
        while count == 0 {
            // What was used since it was listed is passed.
            oldest.pass(seen);
            while oldest.is_empty() && has_more {
                let mut search = Search::of(self, common, bounds, scope);
                has_more = oldest.list_in_slots(indexes, &mut search, may.lists_all, &mut looked);
            }
            let most = scratch.batch.len().saturating_mul(FRAMES_EACH);
            let from = (&*oldest, most, &mut charges);
            let collected =
                self.collect_first(common, indexes, &fenced, (scope, false), scratch, from);
            (count, seen) = (collected.count, collected.seen);
            if count > 0 {
                let view = ContentView { common, lanes: &*lanes, bounds };
                let mut batch = Batch { view, indexes: &mut *indexes, count };
                self.write_home(&mut batch, scratch, report)?;
            }
            let listed = (bounds, oldest.frames().get(..seen).unwrap_or_default());
            self.void_listed(common, lanes, indexes, listed, scratch.batch, folded)?;
            if seen == 0 || folded.freed_slots > before {
                break;
            }
        }
        oldest.pass(seen);
        Ok(match count {
            _ if folded.freed_slots > before => Step::Done,
            0 if seen == 0 => Step::Empty,
            _ => Step::Stuck,
        })
    }

    /// Goes on with the list that comes next, which is made to its end. Where nothing of it is
    /// left, a new one is made: by a pass of the `nodes` of the indexes, or of the records at the
    /// heads. These are read if the pass takes more than half of the time that the step may take.
    /// Without slots and a log they are read also if that takes less for each frame. Then the list
    /// behind it is begun, unless its pass is under way. There is none where records are read
    /// sooner. Returns what all that is charged, and how many nodes were gone through.
    #[allow(clippy::too_many_arguments, reason = "they are what there is to work with")]
    fn next_list<L: Policy, K: Kernels>(
        &self,
        common: &Common<L, K>,
        lanes: &mut (impl Lanes<P, H> + ?Sized),
        indexes: &mut impl Indexes,
        front: &mut [u8],
        (fenced, heads, nodes): (&FencedLanes, &Records, IndexNodes),
        (oldest, coming): (&mut Oldest<'_>, &mut Oldest<'_>),
        most_nanos: u64,
    ) -> Result<(u64, usize), JournalError> {
        let first_kept = &heads.map(|(sequence, _)| sequence);
        let here = (&fenced.bounds, &fenced.tails);
        let keeps = |rule| self.keeps(rule);
        let (mut charged, mut walked) = (0_u64, 0_usize);
        let (behind, follows) = (nodes.behind(coming), coming.follows(first_kept));
        // Where frames may be folded, a longer list serves more.
        let has_slots = common.geometry.lane_slots_and_log() > 0;
        let bytes = bytes_in(heads, &fenced.tails);
        let read_sooner = !has_slots && nodes.are_read_sooner(oldest, bytes);
        let (reads, mut passes) = (read_sooner && !coming.has_begun(), false);
        if !reads && follows && nodes.nanos_of(behind) <= most_nanos / 2 {
            (charged, walked) = (nodes.nanos_of(behind), behind);
            coming.go_on(indexes, usize::MAX, keeps);
            oldest.take_over(coming);
            oldest.drop_passed(first_kept);
        }
        if oldest.is_empty() {
            let (held, pass) = (oldest.held(), nodes.nanos_of(nodes.all));
            oldest.begin(here, None);
            oldest.hold(&held, heads);
            passes = true;
            if reads || pass > most_nanos / 2 {
                let from = (heads, most_nanos / READ_PART);
                let read = self.list_at_heads(common, lanes, indexes, front, oldest, from)?;
                charged = charged.saturating_add(read.0);
                passes = !read.1;
            }
            if passes {
                oldest.begin(here, None);
                oldest.hold(&held, heads);
                oldest.go_on(indexes, usize::MAX, keeps);
                charged = charged.saturating_add(pass);
                walked = walked.saturating_add(nodes.all);
            }
        }
        let is_under_way = follows && coming.is_under_way();
        if read_sooner && !passes {
            coming.forget();
        } else if !is_under_way {
            coming.begin(here, Some(oldest));
        }
        if !coming.is_under_way() {
            coming.hold(&oldest.held(), heads);
        }
        Ok((charged, walked))
    }

    /// Lists the frames of the oldest records at the heads. It reads as many records as this time
    /// allows, and all of the oldest stamp if the list has room for them. The last few of a lane
    /// that are newer than what is left of another leave the list again.
    ///
    /// Returns what that is charged, and whether a head goes on by it. If a record cannot be read,
    /// no head does. The index still knows the frames of that record.
    fn list_at_heads<L: Policy, K: Kernels>(
        &self,
        common: &Common<L, K>,
        lanes: &mut (impl Lanes<P, H> + ?Sized),
        indexes: &mut impl Indexes,
        front: &mut [u8],
        oldest: &mut Oldest<'_>,
        (heads, most_nanos): (&Records, u64),
    ) -> Result<(u64, bool), JournalError> {
        let device_blocks = self.superblock.header.device_blocks.get();
        let mut all = ReadLane::all(heads, oldest.ends());
        let read = all.get_mut(..usize::from(common.geometry.lanes)).unwrap_or_default();
        let mut charged = 0_u64;
        // 1. How old the first record of each lane is.
        for lane in &mut *read {
            let is_readable = lanes.with(lane.number, |InLane { lane: at, .. }| {
                lane.look(&common.reader(at, &mut *front))
            })?;
            if !is_readable {
                return Ok((charged, false));
            }
        }
        // 2. Records, of whichever lane has the oldest one. The last few of each lane may be newer
        //    than what is left of another. They leave the list again.
        let (mut has_room, mut first) = (true, None);
        loop {
            let unfinished = read.iter().filter(|lane| lane.has_more());
            let Some(oldest_left) = unfinished.map(ReadLane::age).min() else { break };
            // What is as old as the oldest is read whole, so that something stays in the list.
            let may_end = *first.get_or_insert(oldest_left.0) < oldest_left.0;
            if !has_room || may_end && charged >= most_nanos {
                break;
            }
            let Some(next) = read.iter_mut().find(|lane| lane.age() == oldest_left) else { break };
            let bounds = PartBounds { end: next.end.1, device_blocks };
            let mut records = 0_u64;
            let is_readable = lanes.with(next.number, |InLane { lane, .. }| {
                let mut reader = common.reader(lane, &mut *front);
                let goes_on = |next: &ReadLane, records| {
                    let is_next = records == 0 || next.is_short && records < RECORDS_AT_ONCE;
                    is_next && next.has_more()
                };
                while goes_on(next, records) {
                    // A head must not pass what rot has made of a record.
                    let Ok(Some(record)) = reader.record(next.at.1, next.at.0, bounds) else {
                        return false;
                    };
                    let (added, bytes) = (oldest.added(), record.end.saturating_sub(next.at.1));
                    let behind = reader.each_frame(next.at.1, &mut |frame| {
                        has_room &= oldest.add_read(&frame);
                        Ok(())
                    });
                    let Ok(behind) = behind else { return false };
                    let frames = oldest.added().saturating_sub(added) as u64;
                    charged = charged.saturating_add(nanos_of_record(bytes, frames));
                    if !has_room {
                        oldest.back_to(added);
                        break;
                    }
                    next.at = (Sequence(next.at.0.raw().saturating_add(1)), behind);
                    if !next.look(&reader) {
                        return false;
                    }
                    records = records.saturating_add(1);
                }
                true
            })?;
            if !is_readable {
                return Ok((charged, false));
            }
        }
        // 3. What is left in other lanes is no older than what the list has.
        let unfinished = all.iter().filter(|lane| lane.at.0 < lane.end.0);
        let first_left = unfinished.map(|lane| lane.stamp).min();
        let wants = |at| common.prefetch_line(at);
        let read = &all.map(|lane| lane.at);
        oldest.end_read(indexes, read, first_left, (|rule| self.keeps(rule), wants));
        let moves = oldest.ends().iter().zip(heads).any(|(end, head)| end.0 > head.0);
        Ok((charged, moves))
    }

    /// Whether a block was left out of this attempt, since it cannot be read.
    fn is_left_out(&self, indexes: &mut impl Indexes, block: BlockNumber) -> bool {
        indexes.of(block, |index| index.unreadable_in(block)) == self.attempt
    }

    /// Begins anew where the lists leave a lane out for a block that was written anew since, or
    /// that is to be tried again.
    fn forget_lists_of_cured(
        &self,
        indexes: &mut impl Indexes,
        oldest: &mut Oldest<'_>,
        coming: &mut Oldest<'_>,
    ) {
        let mut held = oldest.held().into_iter().flatten();
        if held.any(|block| !self.is_left_out(indexes, block)) {
            oldest.forget();
            coming.forget();
        }
    }

    /// Takes lanes out of the lists whose heads stay where they are, since a block cannot be read:
    /// one that lies at such a head, or at that of another lane (OL6). Returns whether there are
    /// some that were not left out before.
    fn hold_back(
        &self,
        indexes: &mut impl Indexes,
        (heads, targets, cut): (&Records, &Records, &Bounds),
        (oldest, coming): (&mut Oldest<'_>, &mut Oldest<'_>),
        seen: usize,
    ) -> bool {
        let seen = oldest.frames().get(..seen).unwrap_or_default();
        // All of the record was looked at, and it stays.
        let is_at_head = |listed: &&Listed| {
            let (lane, sequence) = (usize::from(listed.lane.raw()), listed.sequence);
            heads.get(lane).is_some_and(|head| head.0 == sequence)
                && targets.get(lane).is_some_and(|target| target.0 > sequence)
                && cut.get(lane) == Some(&sequence)
        };
        let mut at_heads = seen.iter().filter(is_at_head);
        let first = at_heads.clone().next();
        let sick = at_heads.find(|listed| self.is_left_out(indexes, listed.block));
        let mut held = oldest.held();
        // Other lanes may have to stay as long as one does that is held back, now or before.
        let before = first.and(held.into_iter().flatten().next());
        let sick = sick.map(|listed| listed.block).or(before);
        let Some(sick) = sick.filter(|_| self.keeps(Rule::StepPassesHeld)) else { return false };
        for listed in seen.iter().filter(is_at_head) {
            if let Some(held) = held.get_mut(usize::from(listed.lane.raw())) {
                *held = held.or(Some(sick));
            }
        }
        oldest.hold(&held, heads);
        coming.hold(&held, heads);
        true
    }

    /// The first record that each lane keeps: where its head is.
    fn heads(&self) -> Records {
        let mut heads = [(Sequence(0), 0); LANES_MAX as usize];
        for (mark, head) in self.superblock.marks().iter().zip(heads.iter_mut()) {
            *head = (Sequence(mark.head_sequence.get()), mark.head.get());
        }
        heads
    }

    /// Fills the batch with blocks of the first frames that are not home, as far as the charges
    /// allow.
    fn collect_first<L: Policy, K: Kernels>(
        &self,
        common: &Common<L, K>,
        indexes: &mut impl Indexes,
        fenced: &FencedLanes,
        (scope, spares): (Scope, bool),
        scratch: &mut HomeScratch<'_>,
        (oldest, most, charges): (&Oldest<'_>, usize, &mut Charges),
    ) -> Collected {
        let (mut search, heads) = (Search::of(self, common, &fenced.bounds, scope), self.heads());
        let batch = &mut *scratch.batch;
        let frames = oldest.frames();
        let most = most.min(frames.len());
        let (mut count, mut seen, mut shielded) = (0_usize, 0_usize, 0_usize);
        let mut has_spared = false;
        for (at, listed) in frames.iter().enumerate() {
            Listed::want_ahead(frames, at, indexes, |at| common.prefetch_line(at));
            // The oldest record is looked at as a whole, or nothing would come free.
            let is_oldest = frames.first().is_some_and(|first| first.is_as_old_as(listed));
            if !is_oldest && (seen >= most || !charges.have_room_for(charges.frame)) {
                break;
            }
            charges.add(charges.frame);
            let used_since = scope == Scope::OldestInSlots && {
                let slot = indexes.of(listed.block, |index| search.slot_of(index, listed.block));
                slot.is_some_and(|slot| listed.is_used_since(indexes.last_use(slot)))
            };
            if used_since {
                seen = seen.saturating_add(1);
                continue;
            }
            let found = indexes.of(listed.block, |index| {
                // What came later keeps its frames, and goes home when those are the oldest.
                let newest = index.newest_below(listed.block, &fenced.bounds)?;
                let home = home_below(index, newest);
                let is_needed = || {
                    self.keeps(Rule::CutKeepsDiscard)
                        && listed.is_of_stamp(home)
                        && rests_on_discard(index, newest, home)
                };
                let is_home = listed.is_home_by(home) && !is_needed();
                // Nor is it needed below a whole frame that is newer.
                let is_covered = || {
                    self.keeps(Rule::StepSparesCovered)
                        && index.is_whole_above(newest, listed.stamp())
                };
                if scope != Scope::OldestInSlots && (is_home || is_covered()) {
                    return None;
                }
                let found = search.decide(index, listed.block)?;
                // It is looked at once: from here on it is leaving.
                let is_new = !index.is_leaving(listed.block);
                let is_leaving = is_new && search.set_leaving(index, listed.block);
                is_leaving.then_some((found, newest, home))
            });
            if let Some((found, newest, home)) = found {
                // What frees much room already writes nothing home: it may be written anew first.
                has_spared =
                    spares && count == 0 && !is_oldest && frees_much(common, listed, &heads);
                if has_spared {
                    indexes.of(listed.block, |index| index.set_leaving(listed.block, false));
                    break;
                }
                let needed = shielded.saturating_add(usize::from(found.needs_shield));
                // What ordinary memory has is not built. Others may remove the frame meanwhile:
                // then the charge is wrong, and nothing else.
                let is_built = found.is_chain && !indexes.keeps_up_to(listed.block, newest);
                let (changes, reads_home) = match is_built {
                    true => indexes.of(listed.block, |index| index.changes_of(newest, home)),
                    false => (0, false),
                };
                let nanos = nanos_of(common.block_bytes(), changes, reads_home);
                let is_charged = is_oldest || count == 0 || charges.have_room_for(nanos);
                let fits = is_charged && needed <= search.shield_room;
                charges.add(nanos);
                let to = batch.get_mut(count).filter(|_| fits);
                let Some(to) = to else {
                    indexes.of(listed.block, |index| index.set_leaving(listed.block, false));
                    break;
                };
                *to = found;
                (count, shielded) = (count.saturating_add(1), needed);
            }
            seen = seen.saturating_add(1);
        }
        let batch = batch.get_mut(..count).unwrap_or_default();
        batch.sort_unstable_by_key(|batched: &Batched| batched.block);
        Collected { count, seen, has_spared }
    }

    /// Whether all that the cut drops of a block is at the old end of its chain, and is home or
    /// below a newer whole frame: then nothing that is left needs it. Says no where it would have
    /// to look further. The listed frames are those of the block, oldest first.
    fn drops_nothing_needed(
        &self,
        index: &Index<impl IndexMemory>,
        listed: &[Listed],
        (durable, cut): (&Bounds, &Bounds),
    ) -> bool {
        let (Some(first), Some(end)) = (listed.first(), self.dropped_end(index, listed, cut))
        else {
            return false;
        };
        let Some(last) = end.newest.map(|id| index.frame(id)) else { return true };
        let Some(newest) = index.newest_below(first.block, durable) else { return false };
        let home = home_below(index, newest);
        // What came behind a discard that is home may need it.
        let is_home = last.stamp <= home && !(last.form == Form::Discard && last.stamp == home);
        let is_needed = !is_home && !index.is_whole_above(newest, last.stamp);
        !is_needed || !self.keeps(Rule::StepDropsUnneeded)
    }

    /// What the cut drops of a block, if that is known to be the old end of its chain.
    fn dropped_end(
        &self,
        index: &Index<impl IndexMemory>,
        listed: &[Listed],
        cut: &Bounds,
    ) -> Option<DroppedEnd> {
        if self.lists_all_below() { DroppedEnd::of(index, listed, cut) } else { None }
    }

    /// Whether all frames below a cut are among those that the step has looked at (OL1).
    fn lists_all_below(&self) -> bool {
        self.keeps(Rule::StepPassesSeen) && self.keeps(Rule::StepListsAll)
    }

    /// The cut behind the frames that were looked at, which are sorted by their blocks.
    fn cut_behind(
        &self,
        indexes: &mut impl Indexes,
        durable: &Bounds,
        targets: &Records,
        seen: &[Listed],
        wants: impl Fn(*const u8),
    ) -> Bounds {
        let mut cut = targets.map(|(sequence, _)| sequence);
        loop {
            let mut shortened = false;
            let by_block = || seen.chunk_by(|a, b| a.block == b.block);
            let mut ahead = by_block().skip(BLOCKS_AHEAD);
            for of_block in by_block() {
                if let Some(of_block) = ahead.next() {
                    Listed::want_left(of_block, indexes, &wants);
                }
                let Some(first) = of_block.first() else { continue };
                shortened |= indexes.of(first.block, |index| {
                    !self.drops_nothing_needed(index, of_block, (durable, &cut))
                        && self.shorten_for(index, first.block, durable, &mut cut)
                });
            }
            if !shortened {
                return cut;
            }
        }
    }

    /// Moves the heads to the cut, and forgets what lies below, all of which was looked at.
    fn pass<L: Policy, K: Kernels>(
        &mut self,
        common: &Common<L, K>,
        lanes: &mut (impl Lanes<P, H> + ?Sized),
        indexes: &mut impl Indexes,
        fenced: &FencedLanes,
        (targets, cut): (&Records, &Bounds),
        seen: &[Listed],
    ) -> Result<Freed, JournalError> {
        let mut freed = Freed::default();
        let mut records = *targets;
        for (lane, (record, bound)) in (0_u16..).zip(records.iter_mut().zip(cut)) {
            if record.0 == *bound {
                continue;
            }
            let is_it = |at: &&Listed| (at.lane, at.sequence) == (LaneNumber(lane), *bound);
            // Where a frame keeps the head back, its record is in the list (OL1).
            let Some(kept) = seen.iter().find(is_it) else { return Ok(freed) };
            *record = (kept.sequence, kept.record);
        }
        if !self.store_heads(common, lanes, fenced, &records)? {
            return Ok(freed);
        }
        for of_block in seen.chunk_by(|a, b| a.block == b.block) {
            let Some(block) = of_block.first().map(|first| first.block) else { continue };
            if common.geometry.lane_slots_and_log() > 0 {
                freed.slots = freed
                    .slots
                    .saturating_add(self.drop_slots_of(common, lanes, indexes, block, cut)?);
            }
            indexes.of(block, |index| match self.dropped_end(index, of_block, cut) {
                Some(end) => index.remove_last_below(end.oldest, cut),
                None => index.remove_below(block, cut),
            });
        }
        freed.bytes = self.take_room(common, lanes)?;
        Ok(freed)
    }
}

/// What a step has collected.
#[derive(Clone, Copy, Debug, Default)]
struct Collected {
    /// How many blocks go home.
    count: usize,
    /// How many frames were looked at.
    seen: usize,
    /// Whether a block stays that would have gone home, since much comes free without it.
    has_spared: bool,
}

/// How many bytes of records the lanes have.
fn bytes_in(heads: &Records, tails: &[u64; LANES_MAX as usize]) -> u64 {
    let of_lanes = heads.iter().zip(tails).map(|(head, tail)| tail.saturating_sub(head.1));
    of_lanes.fold(0, u64::saturating_add)
}

/// Whether a head that goes as far as this frame frees a good part of its ring.
fn frees_much<L, K>(common: &Common<L, K>, listed: &Listed, heads: &Records) -> bool {
    let head = heads.get(usize::from(listed.lane.raw())).map_or(listed.record, |head| head.1);
    listed.record.saturating_sub(head) >= common.geometry.lane_bytes / MUCH_PART
}

/// What a step has freed.
#[derive(Clone, Copy, Debug, Default)]
struct Freed {
    bytes: u64,
    slots: u64,
}
