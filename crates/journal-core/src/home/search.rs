//! Which blocks a checkpoint writes next: [`Search::decide`] decides it for each block.
//!
//! Neighbours go home together, so a batch has the lowest blocks that wait. One pass over the index
//! finds as many of them as there is memory to note ([`Waiting`]), and batches are taken from that
//! list. Each block is looked at again when it is taken, since commits go on meanwhile. Without
//! such memory each batch costs a pass.

use crate::commit::batched::Batched;
use crate::common::Common;
use crate::format::record::Form;
use crate::home::Home;
use crate::home::report::Scope;
use crate::home::waiting::{Offsets, Waiting};
use crate::index::frame::{Bounds, FrameAt, NodeId};
use crate::index::{Index, IndexMemory, Indexes};
use crate::order::ordered::Hook;
use crate::order::rule::Rule;
use crate::ports::block_device::BlockDevice;
use crate::ports::kernels::Kernels;
use crate::ports::pmem::Pmem;
use crate::ports::policy::Policy;
use crate::units::{BlockNumber, SlotNumber, Stamp};

/// This number of blocks ahead of a look-up, the block's newest frame is asked for.
const NODES_AHEAD: usize = 6;

/// This number of blocks on either side of one go home with it, where not all do. A device writes
/// as many in little more time than it takes to begin a write.
const BESIDE: usize = 16;

/// What a search for blocks goes by.
pub(super) struct Search<'h, P, D, H> {
    pub(super) home: &'h Home<P, D, H>,
    pub(super) bounds: &'h Bounds,
    pub(super) scope: Scope,
    /// Whether a torn overwrite may destroy a block.
    pub(super) tears: bool,
    /// How many blocks of a batch the shield takes.
    pub(super) shield_room: usize,
    /// Whether a block was left out because it is being written anew.
    pub(super) left_out: bool,
    /// Whether the blocks that were found are leaving already.
    pub(super) sets_leaving: bool,
    /// Whether content may be in slots, which may be written anew.
    has_slots: bool,
}

/// A block that a checkpoint would have to write home, and has not listed.
#[derive(Clone, Copy, Debug)]
pub(super) struct LeftBehind {
    pub(super) block: BlockNumber,
    pub(super) needs_shield: bool,
}

impl<'h, P: Pmem, D: BlockDevice, H: Hook> Search<'h, P, D, H> {
    pub(super) fn of<L, K>(
        home: &'h Home<P, D, H>,
        common: &Common<L, K>,
        bounds: &'h Bounds,
        scope: Scope,
    ) -> Self {
        let shield_room = common.geometry.shield_blocks as usize;
        Self {
            home,
            bounds,
            scope,
            tears: home.tears(common),
            shield_room,
            left_out: false,
            sets_leaving: false,
            has_slots: common.geometry.lane_slots_and_log() > 0,
        }
    }

    /// Decides whether a block goes home now: what a batch has of it, or `None`.
    pub(super) fn decide(
        &mut self,
        index: &Index<impl IndexMemory>,
        block: BlockNumber,
    ) -> Option<Batched> {
        let newest = index.newest_below(block, self.bounds)?;
        if !self.home.is_wanted(index, newest, self.scope) {
            return None;
        }
        // What was discarded since may be on its way home by an append, or there.
        if self.home.keeps(Rule::AppendsSpared) && is_given_up_since(index, newest) {
            self.left_out = true;
            return None;
        }
        // A version behind the bounds may be on its way into that very slot.
        if self.has_slots && may_be_rewritten(index, newest) {
            self.left_out = true;
            return None;
        }
        // A torn overwrite would leave no whole copy of it.
        let needs_shield = self.tears && lies_on_home(index, newest);
        if needs_shield && self.shield_room == 0 {
            return None;
        }
        let frame = index.frame(newest);
        // When the discard's frame is dropped, changes apply to the home block. If that may be
        // unsynced, it is written now.
        let discarded = frame.form == Form::Discard && !index.is_suspect(block);
        let (stamp, is_chain) = (frame.stamp.raw(), frame.form == Form::Encoded);
        Some(Batched { block, stamp, needs_shield, discarded, is_chain, ..Batched::EMPTY })
    }

    /// Marks the block as going home, unless its slot may be rewritten right now. Returns whether
    /// it is marked.
    pub(super) fn set_leaving(
        &self,
        index: &mut Index<impl IndexMemory>,
        block: BlockNumber,
    ) -> bool {
        index.set_leaving(block, true);
        if !self.has_slots {
            return true;
        }
        let newest = index.newest_below(block, self.bounds);
        let leaves = !newest.is_some_and(|newest| may_be_rewritten(index, newest));
        if !leaves {
            index.set_leaving(block, false);
        }
        leaves
    }

    /// The slot that a block's durable content is built from.
    pub(super) fn slot_of(
        &self,
        index: &Index<impl IndexMemory>,
        block: BlockNumber,
    ) -> Option<SlotNumber> {
        let newest = index.newest_below(block, self.bounds)?;
        index.whole_below(newest).and_then(|whole| index.frame(whole).slot())
    }

    /// Takes the next blocks of a list, which is made anew when it is empty. Returns how many.
    pub(super) fn next_of(
        &mut self,
        common: &Common<impl Policy, impl Kernels>,
        indexes: &mut impl Indexes,
        waiting: &mut Waiting<'_>,
        batch: &mut [Batched],
    ) -> usize {
        let (mut count, mut shielded) = (0_usize, 0_usize);
        self.sets_leaving = true;
        loop {
            if waiting.is_listing() || waiting.first().is_none() {
                if count > 0 || (waiting.before().is_some() && !waiting.has_more()) {
                    return count;
                }
                self.list(common, indexes, waiting);
                if waiting.is_listing() {
                    return 0;
                }
            }
            let Some(block) = waiting.first() else { return count };
            look_ahead(common, indexes, waiting);
            let has_room = count < batch.len();
            let found = indexes.of(block, |index| {
                let found = self.decide(index, block)?;
                let needed = shielded.saturating_add(usize::from(found.needs_shield));
                let fits = has_room && (needed <= self.shield_room || !found.needs_shield);
                if fits {
                    // From here on no slot of the block is written again: none is being written.
                    index.set_leaving(block, true);
                }
                Some((found, needed, fits))
            });
            if let Some((batched, needed, fits)) = found {
                let Some(to) = batch.get_mut(count).filter(|_| fits) else { return count };
                *to = batched;
                (count, shielded) = (count.saturating_add(1), needed);
            } else if self.left_out {
                waiting.note_lack();
            }
            waiting.pass_first();
        }
    }

    /// Lists the lowest blocks that are not home. Where not all are to go there, it goes on behind
    /// the last list. If others wait for the upkeep, the list is still [being
    /// made](Waiting::is_listing).
    fn list(
        &mut self,
        common: &Common<impl Policy, impl Kernels>,
        indexes: &mut impl Indexes,
        waiting: &mut Waiting<'_>,
    ) {
        let (first, before) = (waiting.begins_with(), waiting.before());
        let mut pass = waiting.pass();
        let limit = &mut pass.limit;
        let is_whole = indexes.some(&mut pass.index, |index| {
            for block in index.each_block_ahead(|at| common.prefetch_line(at)) {
                let has_room = limit.is_none_or(|limit| block < limit);
                if block >= first && has_room && self.decide(index, block).is_some() {
                    let keeps = |before| self.keeps_head_before(index, block, before);
                    waiting.add((block, before.is_some_and(keeps)), limit);
                }
            }
        });
        if self.left_out {
            waiting.note_lack();
        }
        if !is_whole {
            return waiting.note_pass(pass);
        }
        waiting.sort();
        waiting.note_listed(pass.limit);
        if before.is_some() {
            waiting.keep_beside(BESIDE);
        }
    }

    /// Whether one of these offsets of lanes lies behind a frame that a block needs until its
    /// newest content is home.
    fn keeps_head_before(
        &self,
        index: &Index<impl IndexMemory>,
        block: BlockNumber,
        offsets: &Offsets,
    ) -> bool {
        let Some(newest) = index.newest_below(block, self.bounds) else { return false };
        let home = home_below(index, newest);
        let mut next = Some(newest);
        while let Some(id) = next {
            let frame = index.frame(id);
            let is_home = frame.stamp <= home;
            if is_home && !self.home.is_changed_discard(index, id, self.bounds) {
                return false;
            }
            let offset = offsets.get(usize::from(frame.lane.raw()));
            let is_before = offset.is_some_and(|offset| frame.record < *offset);
            if is_before || is_home {
                return is_before;
            }
            next = index.older(id).filter(|_| frame.form == Form::Encoded);
        }
        false
    }

    /// Finds the lowest blocks that are not home, in a pass of its own. Returns how many.
    pub(super) fn lowest(&mut self, indexes: &mut impl Indexes, batch: &mut [Batched]) -> usize {
        // The first block that there was no room for: those behind it wait with it.
        let (mut count, mut end) = (0_usize, None::<BlockNumber>);
        indexes.each(|index| {
            for block in index.each_block() {
                if end.is_some_and(|end| block >= end) {
                    continue;
                }
                let Some(batched) = self.decide(index, block) else { continue };
                if count == batch.len() {
                    (count, end) = keep_lower_half(batch);
                    if end.is_some_and(|end| block >= end) {
                        continue;
                    }
                }
                if let Some(to) = batch.get_mut(count) {
                    *to = batched;
                    count = count.saturating_add(1);
                }
            }
        });
        keep_shielded(batch.get_mut(..count).unwrap_or_default(), self.shield_room)
    }

    /// Finds the blocks whose slots were used longest ago, as many as a batch and the shield have
    /// room for. Of those used at about the same time it takes the ones written longest ago.
    /// Returns how many.
    pub(super) fn oldest(&mut self, indexes: &mut impl Indexes, batch: &mut [Batched]) -> usize {
        let (mut count, whole_shield) = (0_usize, self.shield_room);
        indexes.each_with_use(|index, last_use| {
            for block in index.each_block() {
                let Some(batched) = self.decide(index, block) else { continue };
                // The last use is kept where the check is of what goes to the log.
                let content = self.slot_of(index, block).map_or(0, last_use).into();
                if keep_oldest(batch, &mut count, Batched { content, ..batched }) {
                    let needs_shield = usize::from(batched.needs_shield);
                    self.shield_room = self.shield_room.saturating_sub(needs_shield);
                }
            }
        });
        keep_shielded(batch.get_mut(..count).unwrap_or_default(), whole_shield)
    }
}

/// Asks for what the look-ups of blocks take that come soon: for their entries, and nearer ones'
/// newest frames.
fn look_ahead(
    common: &Common<impl Policy, impl Kernels>,
    indexes: &mut impl Indexes,
    waiting: &Waiting<'_>,
) {
    if let Some(block) = waiting.nth(2 * NODES_AHEAD) {
        indexes.prefetch(block);
    }
    if let Some(block) = waiting.nth(NODES_AHEAD) {
        indexes.of(block, |index| {
            if let Some(newest) = index.newest(block) {
                index.want_node(newest, |at| common.prefetch_line(at));
            }
        });
    }
}

/// When a block of a batch was used, and written. The batch is a heap whose first block is the one
/// used last.
fn age(batch: &[Batched], at: usize) -> (u64, u64) {
    batch.get(at).map_or((0, 0), |batched| (batched.content, batched.stamp))
}

/// Takes a block into a batch that keeps those used longest ago. Returns whether it did.
fn keep_oldest(batch: &mut [Batched], count: &mut usize, batched: Batched) -> bool {
    if let Some(to) = batch.get_mut(*count) {
        *to = batched;
        let mut at = *count;
        *count = count.saturating_add(1);
        while at > 0 {
            let above = at.saturating_sub(1) >> 1;
            if age(batch, above) >= age(batch, at) {
                break;
            }
            batch.swap(above, at);
            at = above;
        }
        return true;
    }
    let Some(latest) = batch.first_mut() else { return false };
    if (latest.content, latest.stamp) <= (batched.content, batched.stamp) {
        return false;
    }
    *latest = batched;
    let mut at = 0_usize;
    loop {
        let left = at.saturating_mul(2).saturating_add(1);
        let right = left.saturating_add(1);
        let is_right = right < batch.len() && age(batch, right) > age(batch, left);
        let below = if is_right { right } else { left };
        if below >= batch.len() || age(batch, below) <= age(batch, at) {
            return true;
        }
        batch.swap(at, below);
        at = below;
    }
}

impl<P: Pmem, D: BlockDevice, H: Hook> Home<P, D, H> {
    /// Whether a block, of which this is the newest frame, is to be written home, and may be.
    pub(crate) fn is_wanted(
        &self,
        index: &Index<impl IndexMemory>,
        newest: NodeId,
        scope: Scope,
    ) -> bool {
        let block = index.frame(newest).block;
        let is_left_out = index.unreadable_in(block) == self.attempt;
        !index.is_home(newest) && !is_left_out && is_in_scope(index, newest, scope)
    }

    /// Whether a frame is a discard that is home, and has a change on top. A change that is not
    /// durable may have been shown all the same, and may be durable before heads have passed.
    pub(super) fn is_changed_discard(
        &self,
        index: &Index<impl IndexMemory>,
        id: NodeId,
        durable: &Bounds,
    ) -> bool {
        if index.frame(id).form != Form::Discard || !index.is_home(id) {
            return false;
        }
        let newer = index.newer(id).map(|id| index.frame(id));
        let is_changed = newer.is_some_and(|newer| {
            newer.form == Form::Encoded
                && (newer.is_below(durable) || self.keeps(Rule::ShownZerosStay))
        });
        is_changed && self.keeps(Rule::CutKeepsDiscard)
    }

    /// A block that is to go home, where there is no shield: one that needs a shield, if there is
    /// such a block.
    pub(super) fn left_behind<L, K>(
        &self,
        common: &Common<L, K>,
        indexes: &mut impl Indexes,
        bounds: &Bounds,
        scope: Scope,
    ) -> Option<LeftBehind> {
        if common.geometry.shield_blocks > 0 || !self.tears(common) {
            return None;
        }
        let mut found: Option<LeftBehind> = None;
        indexes.each(|index| {
            for block in index.each_block() {
                if found.is_some_and(|found| found.needs_shield) {
                    return;
                }
                let newest = index.newest_below(block, bounds);
                if let Some(newest) = newest.filter(|id| self.is_wanted(index, *id, scope)) {
                    let needs_shield = lies_on_home(index, newest);
                    found = Some(LeftBehind { block, needs_shield });
                }
            }
        });
        found
    }
}

/// Makes room in a batch: the lower half of its blocks stay, so that neighbours go home together.
/// Returns how many that are, and the first one that does not.
fn keep_lower_half(batch: &mut [Batched]) -> (usize, Option<BlockNumber>) {
    batch.sort_unstable_by_key(|batched| batched.block);
    let kept = batch.len().div_ceil(2);
    (kept, batch.get(kept).map(|batched| batched.block))
}

/// Sorts what was collected, and ends it where the shield has no more room, so that neighbours go
/// home together. Returns how many are left.
fn keep_shielded(batch: &mut [Batched], shield_room: usize) -> usize {
    batch.sort_unstable_by_key(|batched| batched.block);
    let needing = batch.iter().enumerate().filter(|(_, batched)| batched.needs_shield);
    needing.map(|(at, _)| at).nth(shield_room).unwrap_or(batch.len())
}

/// Whether the content up to this frame is built on top of what is home.
pub(super) fn lies_on_home(index: &Index<impl IndexMemory>, newest: NodeId) -> bool {
    let whole = index.whole_below(newest).map(|whole| index.frame(whole).form);
    matches!(whole, None | Some(Form::Home))
}

/// Whether a block was given up since this frame, or more than that went home.
fn is_given_up_since(index: &Index<impl IndexMemory>, frame: NodeId) -> bool {
    let FrameAt { block, stamp, .. } = index.frame(frame);
    let newest = index.newest(block).map(|id| index.frame(id).form);
    let is_discarded = newest == Some(Form::Discard);
    index.newer(frame).is_some() && (is_discarded || index.home_stamp(block) > stamp)
}

/// Whether the slot that a block's content up to this frame is built from may be rewritten: a newer
/// version is whole.
fn may_be_rewritten(index: &Index<impl IndexMemory>, newest: NodeId) -> bool {
    let whole = index.whole_below(newest);
    let Some(whole) = whole.filter(|whole| index.frame(*whole).form == Form::Slot) else {
        return false;
    };
    let newer = core::iter::successors(index.newer(whole), |id| index.newer(*id));
    newer.map(|id| index.frame(id)).any(|frame| frame.is_whole())
}

/// Up to which stamp a block is home, where this is its newest frame that counts. Not at all where
/// what is home is newer than that: an append, whose record a crash may take.
pub(super) fn home_below(index: &Index<impl IndexMemory>, newest: NodeId) -> Stamp {
    let frame = index.frame(newest);
    let home = index.home_stamp(frame.block);
    if home <= frame.stamp { home } else { Stamp(0) }
}

/// Whether the frame above this home lies on a discard that is home, and wrote nothing there. The
/// discard has to stay: without it, the changes above would apply to what was there before.
pub(super) fn rests_on_discard(
    index: &Index<impl IndexMemory>,
    newest: NodeId,
    home: Stamp,
) -> bool {
    // A discard is whole.
    let Some(whole) = index.newest_whole(index.frame(newest).block) else { return false };
    let is_above = |id: NodeId| index.frame(id).stamp > home;
    let is_it = |id: NodeId| {
        let FrameAt { form, stamp, .. } = index.frame(id);
        form == Form::Discard && stamp == home
    };
    if !is_above(whole) {
        // A change of the same record may lie on it: then that is home.
        return is_it(whole) && is_above(newest) && index.newer(whole).is_some_and(is_above);
    }
    let mut chain = core::iter::successors(Some(newest), |id| index.older(*id));
    chain.find(|id| !is_above(*id)).is_some_and(|id| id != newest && is_it(id))
}

/// Whether a scope has a block, of which this is the newest frame.
pub(crate) fn is_in_scope(index: &Index<impl IndexMemory>, newest: NodeId, scope: Scope) -> bool {
    match scope {
        Scope::All => true,
        Scope::Rings => !index.frame(newest).folded,
        Scope::OldestInSlots => {
            let whole = index.whole_below(newest);
            whole.is_some_and(|whole| index.frame(whole).form == Form::Slot)
        }
        Scope::Segment { first, end } => {
            let slot = index.whole_below(newest).and_then(|whole| index.frame(whole).slot());
            slot.is_some_and(|slot| (first..end).contains(&slot))
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::vec;

    use super::*;
    use crate::home::oldest::tests::draws;
    use crate::index::{Entry, LentMemory, Node};
    use crate::units::{LaneNumber, Sequence};

    /// Against a walk through the chain, with frames of equal stamps: of one record, and copies.
    #[test]
    fn what_rests_on_a_discard_is_found_without_a_walk() {
        let mut draw = draws();
        let (mut rest, mut on_same) = (0, 0);
        for _ in 0..if cfg!(miri) { 50 } else { 50_000 } {
            let (mut entries, mut nodes) = (vec![Entry::EMPTY; 3], vec![Node::EMPTY; 6]);
            let memory = LentMemory { entries: &mut entries, nodes: &mut nodes };
            let (mut index, block) = (Index::new(memory), BlockNumber(3));
            for sequence in 1..=1 + draw(6) {
                let form = [Form::Encoded, Form::Encoded, Form::Discard, Form::Image, Form::Home];
                let (form, stamp) = (form[draw(5) as usize], Stamp(1 + draw(5)));
                let (lane, sequence) = (LaneNumber(draw(2) as u16), Sequence(sequence));
                let (record, payload, len, folded) = (0, 0, 0, false);
                let frame =
                    FrameAt { block, stamp, lane, sequence, record, payload, len, form, folded };
                index.insert(frame).expect("there is room");
            }
            for newest in core::iter::successors(index.newest(block), |id| index.older(*id)) {
                for home in (0..7).map(Stamp) {
                    let mut chain = core::iter::successors(Some(newest), |id| index.older(*id));
                    let first = chain.find(|id| index.frame(*id).stamp <= home);
                    let frame = first.filter(|id| *id != newest).map(|id| index.frame(id));
                    let rests = frame
                        .is_some_and(|frame| frame.form == Form::Discard && frame.stamp == home);
                    assert_eq!(rests_on_discard(&index, newest, home), rests);
                    rest += usize::from(rests);
                    let whole = index.newest_whole(block).map(|id| index.frame(id));
                    let is_home =
                        |frame: FrameAt| frame.form == Form::Discard && frame.stamp == home;
                    on_same += usize::from(!rests && whole.is_some_and(is_home));
                }
            }
        }
        assert!(cfg!(miri) || rest > 1000 && on_same > 1000, "{rest}, {on_same}");
    }

    #[test]
    fn a_batch_keeps_what_was_used_longest_ago() {
        let mut memory = [Batched::EMPTY; 40];
        for room in [1, 2, 5, 16, 40] {
            let batch = &mut memory[..room];
            let mut count = 0;
            // Each use has three blocks, which differ in their stamps.
            for number in (0..30_u64).map(|at| at * 7 % 30) {
                let (content, stamp) = (number / 3, number);
                let block = BlockNumber(number);
                let batched = Batched { block, stamp, content, ..Batched::EMPTY };
                keep_oldest(batch, &mut count, batched);
            }
            let kept = &mut batch[..count];
            kept.sort_unstable_by_key(|batched| batched.block);
            assert_eq!(count, room.min(30));
            assert!((0..).zip(&*kept).all(|(number, kept)| kept.block.raw() == number));
        }
    }
}
