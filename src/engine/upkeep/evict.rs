//! Evicting pinned blocks from the cache, where there is a disk-side log.
//!
//! A block is pinned in the cache while persistent memory has its newest content: so reads never
//! look there. The cache has room for a number of them. Where a transaction finds none, the upkeep
//! moves blocks to new places in the log, as in
//! [`move_to_log`](crate::engine::upkeep::move_to_log). What the memory has of them counts no more
//! then, and the cache may let go of them.
//!
//! EV1. Nothing is written over: not a block's home, and not its older place in the log. Both stay
//!      until the new place is durable, and its record.
//! EV2. Blocks that were not used since the last eviction go first, of these the ones that were
//!      changed longest ago. Shares that are nearly full give some away beside the one that is: one
//!      sync is for all of them.
//! EV3. Where the log is short of room, older places come free, and then its cleaner empties
//!      segments. The cleaner alone writes home. Where it makes no room, or no ring has room for
//!      the record of a move, blocks go home as they do without a log. So no transaction waits for
//!      a log that stays full.
//! EV4. A block that a transaction has stays. Where others have some, the transaction that needs
//!      room waits for them, and nothing goes home for it. Where it has all itself, they go home:
//!      it would wait for itself.
//! EV5. A block that cannot be read keeps the head of its lane. What lies behind it goes to the
//!      log all the same, but not home. Where it cannot go to the log, no transaction waits for the
//!      room that it takes: it is told which block it is. One that writes that block anew, or
//!      discards it, needs no room to pin it. The cache may grow by such blocks.
//!
//! EV6. An eviction takes steps, and gives the upkeep back between them. A step moves as many
//!      blocks as a step writes home in the time that [`Options::longest_stop`] says, and at least
//!      as many as its transaction wants. Or it makes room for moves, and empties one segment at
//!      most. The list of what goes next outlives a step, and is a hint: each block is asked again.
//!
//! **Crash**: as for a move.
//!
//! [`Options::longest_stop`]: crate::Options::longest_stop

use std::time::Instant;

use journal_core::BlockNumber;
use journal_core::parts::{Movable, Step, kept_in_memory};
use journal_core::policy::Policy;
use journal_core::units::{LaneNumber, Stamp};

use crate::engine::upkeep::checkpoint::HeldUpkeep;
use crate::engine::upkeep::in_steps::{Made, Which};
use crate::error::Error;
use crate::machine::Machine;
use crate::shared::Shared;
use crate::shared::lending::{LanesOf, SharesOf};
use crate::shared::levels::Stage;
use crate::shared::share::Share;
use crate::threads::block_locks::Age;

/// An eviction moves the blocks that a share has room for, divided by this, or more.
const EVICTED_PART: usize = 8;

/// How often none of the blocks that an eviction tries can be moved before blocks go home instead.
/// Each time it tries twice as many.
const IN_VAIN_MAX: u32 = 4;

/// How many steps an eviction takes at most for each frame that there is.
const STEPS_EACH: u64 = 2;

/// A block that may be evicted, and when it was changed last.
type Candidate = (Stamp, BlockNumber);

/// What the steps of an eviction have done so far.
#[derive(Debug, Default)]
struct Eviction {
    /// How often none of the blocks that were tried could be moved.
    in_vain: u32,
    /// Whether the next step frees frames and ring space before it moves anything.
    frees: bool,
    /// Whether a pass for older versions is under way.
    passes: bool,
    made: Made,
}

/// What has come of one step of an eviction.
enum Evicted {
    /// There is room, or other transactions have all that could make some.
    Enough,
    /// Another step follows.
    More,
    /// Nothing is left but to write home.
    NeedsHome,
}

/// Keeps the first ones of a list, in any order.
fn keep_first<T: Ord>(listed: &mut Vec<T>, count: usize) {
    if (1..listed.len()).contains(&count) {
        listed.select_nth_unstable(count - 1);
    }
    listed.truncate(count);
}

impl<L, M: Machine> Shared<L, M> {
    /// Whether the cache has no room to pin a block that needs some.
    #[inline(always)]
    pub(crate) fn lacks_pin(&self, share: &mut Share, block: BlockNumber) -> bool {
        self.evicts_to_log && Self::needs_pin(share, block) && share.lacks_pins(1)
    }

    /// Whether a share has room for a block's frame, and to pin the block if that `pins`.
    pub(crate) fn has_room_for(&self, share: &mut Share, block: BlockNumber, pins: bool) -> bool {
        share.has_room() && !(pins && self.lacks_pin(share, block))
    }

    /// Whether a block that is changed needs room to be pinned: it is not pinned yet, and it can be
    /// read (EV5).
    fn needs_pin(share: &Share, block: BlockNumber) -> bool {
        !share.is_in_memory(block) && !share.is_unreadable(block)
    }

    /// Like [`needs_pin`](Self::needs_pin), of a block in whichever share.
    #[cold]
    pub(crate) fn needs_pin_of(&self, block: BlockNumber) -> Result<bool, Error> {
        Ok(self.evicts_to_log && Self::needs_pin(&*self.lock_share(block)?, block))
    }
}

impl<L: Policy, M: Machine> Shared<L, M> {
    /// Whether a block may need room to be pinned when a transaction that waits has its turn. What
    /// is pinned now may be evicted until then.
    #[cold]
    pub(crate) fn may_need_pin(&self, block: BlockNumber) -> Result<bool, Error> {
        Ok(self.evicts_to_log && !self.lock_share(block)?.is_unreadable(block))
    }

    /// Makes room in the cache to pin these numbers of blocks, each in the share of the index that
    /// has a block. Returns whether writing home is what is left to make room.
    #[cold]
    pub(crate) fn evict(
        &self,
        wanted: impl IntoIterator<Item = (BlockNumber, usize)>,
    ) -> Result<bool, Error> {
        if !self.evicts_to_log {
            return Ok(false);
        }
        if !self.moves_to_log() {
            // Without the rule all of them go home.
            return Ok(true);
        }
        let (mut eviction, start) = (Eviction::default(), Instant::now());
        let mut needs_home = Ok(false);
        for (block, count) in wanted.into_iter().filter(|(_, count)| *count > 0) {
            let Ok(before) = needs_home else { break };
            needs_home = self.evict_for(&mut eviction, block, count).map(|needs| before || needs);
        }
        self.note_made(&eviction.made, start);
        needs_home
    }

    /// Whether the cache has no room to pin this block, and the transaction of this age has all
    /// that are pinned in its share: those that it has written, and those that it has read (EV4).
    #[cold]
    pub(crate) fn are_pins_of(&self, block: BlockNumber, age: Age) -> Result<bool, Error> {
        let mut listed = Vec::new();
        let mut share = self.lock_share(block)?;
        if !self.lacks_pin(&mut share, block) {
            return Ok(false);
        }
        share.list_pinned(&mut listed);
        drop(share);
        Ok(listed.iter().all(|(_, _, pinned)| self.blocks.holder_of(*pinned) == Some(age)))
    }

    /// Checks that a share can have room to pin `count` more blocks, beside those that a block that
    /// cannot be read keeps where they are. An eviction has found that some cannot be moved.
    #[cold]
    pub(crate) fn check_pins_come_free(
        &self,
        block: BlockNumber,
        count: usize,
    ) -> Result<(), Error> {
        let most = {
            let mut share = self.lock_share(block)?;
            if count == 0 || !share.lacks_pins(count) {
                return Ok(());
            }
            share.reserved_max()
        };
        let kept = kept_in_memory(&mut LanesOf(self), &mut SharesOf(self), block)?;
        match kept.filter(|(kept, _)| kept.saturating_add(count) > most) {
            Some((_, block)) => Err(Error::Unreadable { block }),
            None => Ok(()),
        }
    }

    /// Evicts blocks until a share can pin `count` more. Returns whether writing home is what is
    /// left: some of its blocks are no transaction's, and they cannot be moved (EV3).
    fn evict_for(
        &self,
        eviction: &mut Eviction,
        block: BlockNumber,
        count: usize,
    ) -> Result<bool, Error> {
        // Others may pin more meanwhile. The steps are enough if none does.
        let mut left = STEPS_EACH * (self.frames() as u64 + 1);
        eviction.in_vain = 0;
        loop {
            let freed = eviction.made.freed();
            let step = self.with_upkeep_first(|cell| {
                let step = self.evict_step(cell, eviction, (block, count));
                step.inspect_err(|error| self.fail_of(*error))
            });
            if eviction.made.freed() > freed {
                self.tell_waiters_for_room();
            }
            match step? {
                Evicted::Enough => return Ok(false),
                Evicted::NeedsHome => return Ok(true),
                _ if left == 0 => return Ok(true),
                Evicted::More => left -= 1,
            }
        }
    }

    /// Takes one step of an eviction: it makes room for what moves, or moves no more blocks than
    /// the transaction wants or than a step has the time for (EV6).
    fn evict_step(
        &self,
        cell: &mut HeldUpkeep<'_>,
        eviction: &mut Eviction,
        (block, count): (BlockNumber, usize),
    ) -> Result<Evicted, Error> {
        if !self.lock_share(block)?.lacks_pins(count) {
            return Ok(Evicted::Enough);
        }
        self.check_not_failed()?;
        if !self.has_to_evict(cell, (block, count << eviction.in_vain), eviction.in_vain)? {
            return Ok(Evicted::Enough);
        }
        if eviction.in_vain > IN_VAIN_MAX {
            return Ok(Evicted::NeedsHome);
        }
        let lacks_log = self.log_is_short(Stage::WriteHome);
        // What is moved needs a frame as well, and its record takes ring space.
        let lacks_more = eviction.frees || self.moved_at_once(cell).is_none();
        if (lacks_log || lacks_more) && self.free_for_moves(cell, eviction, lacks_log)? {
            return Ok(Evicted::More);
        }
        eviction.frees = false;
        let Some((lane, most)) = self.moved_at_once(cell) else { return Ok(Evicted::NeedsHome) };
        let wanted = self.step_blocks.max(count) << eviction.in_vain;
        let own = (block, count, eviction.in_vain > 0);
        let mut picked = self.pick_to_evict(cell, own, wanted.min(most))?;
        picked.sort_unstable_by_key(|(_, block)| *block);
        self.move_picked(cell, lane, &picked)?;
        // What moves of other shares is no help to this one.
        let mut has_moved = false;
        for (_, moved) in picked.iter().filter(|it| self.share_together(it.1, block)) {
            has_moved |= !self.lock_share(*moved)?.is_in_memory(*moved);
        }
        if has_moved {
            eviction.in_vain = 0;
        } else {
            // Where the first ones cannot be read, there are others behind them.
            eviction.in_vain += 1;
            eviction.frees = true;
        }
        Ok(Evicted::More)
    }

    /// Takes one step that frees room for what moves (EV3). Returns whether another one may help.
    fn free_for_moves(
        &self,
        cell: &mut HeldUpkeep<'_>,
        eviction: &mut Eviction,
        lacks_log: bool,
    ) -> Result<bool, Error> {
        let Eviction { passes, made, .. } = eviction;
        let reclaims = self.longest_step(Stage::Reclaim);
        // The rings come first, unless it is the log alone that is short.
        if !lacks_log && self.step_in(cell, reclaims, Which::Rings, made)? == Step::Done {
            return Ok(true);
        }
        // A pass begins with the first node. Where others look for older versions meanwhile, it
        // may leave some out.
        if !*passes {
            cell.next_node = 0;
        }
        self.uses.advance();
        *passes = self.step_in(cell, reclaims, Which::Slots, made)? == Step::Done;
        if *passes {
            return Ok(true);
        }
        if lacks_log {
            let wanted = self.levels.of(Stage::WriteHome).log_blocks;
            let mut stays = None;
            for lane in (0..self.common.geometry.lanes).map(LaneNumber) {
                if self.log_left(self.lane(lane), wanted) < wanted
                    && self.clean_segment(cell, lane, &mut stays)? > 0
                {
                    return Ok(true);
                }
            }
            return Ok(self.step_in(cell, reclaims, Which::Rings, made)? == Step::Done);
        }
        Ok(false)
    }

    /// Whether there are blocks to evict for a share, in the list that the last eviction has left,
    /// or in a new one. If there are none, other transactions have all of the share's (EV4).
    fn has_to_evict(
        &self,
        cell: &mut HeldUpkeep<'_>,
        (block, count): (BlockNumber, usize),
        in_vain: u32,
    ) -> Result<bool, Error> {
        let mut has_own = false;
        for candidate in cell.to_evict.iter().filter(|it| self.share_together(it.1, block)) {
            has_own = self.is_pinned_yet(candidate, false)?;
            if has_own {
                break;
            }
        }
        // Where the first ones cannot be moved, the list goes further.
        if !has_own || in_vain > 0 {
            cell.to_evict = self.list_to_evict((block, count), in_vain)?;
            has_own = !cell.to_evict.is_empty();
        }
        Ok(has_own)
    }

    /// Takes the first ones of the list that are as they were listed, and free: as many of a share
    /// as that wants, and then any.
    fn pick_to_evict(
        &self,
        cell: &mut HeldUpkeep<'_>,
        (block, count, also_used): (BlockNumber, usize, bool),
        most: usize,
    ) -> Result<Vec<Candidate>, Error> {
        let mut picked = Vec::with_capacity(most.min(cell.to_evict.len()));
        let mut at = cell.to_evict.len();
        while at > 0 && picked.len() < count.min(most) {
            at -= 1;
            if self.share_together(cell.to_evict[at].1, block) {
                let candidate = cell.to_evict.remove(at);
                if self.is_pinned_yet(&candidate, also_used)? {
                    picked.push(candidate);
                }
            }
        }
        while picked.len() < most {
            let Some(candidate) = cell.to_evict.pop() else { break };
            if self.is_pinned_yet(&candidate, also_used)? {
                picked.push(candidate);
            }
        }
        Ok(picked)
    }

    /// Whether a block is pinned, and free, and not changed since it was listed. What was used
    /// since stays, unless others were tried in vain.
    fn is_pinned_yet(&self, (stamp, block): &Candidate, also_used: bool) -> Result<bool, Error> {
        let share = self.lock_share(*block)?;
        let is_same = share.stamp_in_memory(*block) == Some(*stamp);
        Ok(is_same && self.may_be_evicted(*block) && (also_used || !share.is_used(*block)))
    }

    /// Lists the pinned blocks that are evicted next, the first ones last: of the share that has
    /// this block a part, and `count` at least. A part of those of other shares that are nearly
    /// full comes with them. Nothing, where all of the share's are taken (EV4).
    fn list_to_evict(
        &self,
        (block, count): (BlockNumber, usize),
        in_vain: u32,
    ) -> Result<Vec<Candidate>, Error> {
        let (mut listed, mut others) = (Vec::new(), Vec::new());
        self.lock_share(block)?.list_pinned(&mut listed);
        listed.retain(|(_, _, pinned)| self.may_be_evicted(*pinned));
        if listed.is_empty() {
            return Ok(Vec::new());
        }
        for share in &self.shares {
            let mut share = share.lock().map_err(|_| self.poisoned())?;
            let part = share.reserved_max() / EVICTED_PART;
            if share.lacks_pins(part) {
                share.list_pinned(&mut others);
            }
        }
        others.retain(|(_, _, other)| {
            !self.share_together(*other, block) && self.may_be_evicted(*other)
        });
        // Of each, a part.
        let (own, part) = (listed.len() / EVICTED_PART, others.len() / EVICTED_PART);
        keep_first(&mut listed, (own << in_vain).max(count).max(1));
        keep_first(&mut others, part << in_vain);
        listed.append(&mut others);
        listed.sort_unstable_by(|one, other| other.cmp(one));
        Ok(listed.into_iter().map(|(_, stamp, block)| (stamp, block)).collect())
    }

    /// Whether no transaction has a block.
    fn may_be_evicted(&self, block: BlockNumber) -> bool {
        self.blocks.holder_of(block).is_none()
    }

    /// Whether blocks can be moved to the log: there is room there beyond what is kept free. Where
    /// all that leaves the memory goes there, some is made (EV3).
    pub(super) fn has_log_to_move_to(&self, cell: &mut HeldUpkeep<'_>) -> Result<bool, Error> {
        if !self.evicts_to_log {
            return Ok(!self.log_is_short(Stage::WriteHome));
        }
        let has_room = |cell: &HeldUpkeep<'_>| self.moved_at_once(cell).is_some();
        if !self.log_is_short(Stage::WriteHome) && has_room(cell) {
            return Ok(true);
        }
        // The record of a move takes ring space too.
        self.fold_rings(cell)?;
        self.free_superseded(cell)?;
        let geometry = &self.common.geometry;
        let segments = geometry.log_blocks().checked_div(geometry.segment_blocks.into());
        let mut stays = None;
        for _ in 0..segments.unwrap_or(0) {
            let wanted = self.levels.of(Stage::WriteHome).log_blocks;
            let mut freed = 0;
            for lane in (0..geometry.lanes).map(LaneNumber) {
                if self.log_left(self.lane(lane), wanted) < wanted {
                    freed += self.clean_segment(cell, lane, &mut stays)?;
                }
            }
            if freed == 0 {
                break;
            }
        }
        Ok(has_room(cell))
    }

    /// Moves to the log what an open has found in the memory: the cache has none of it. What stays
    /// goes home.
    pub(crate) fn move_what_was_found(&self) -> Result<(), Error> {
        if self.moves_to_log() {
            self.with_upkeep(|cell| self.move_all(cell, Movable::InMemory))?;
        }
        self.checkpoint_rings()?;
        let mut shares = self.shares.iter();
        let stays = shares.any(|share| share.lock().is_ok_and(|share| share.in_memory() > 0));
        if stays { self.checkpoint().map(drop) } else { Ok(()) }
    }
}
