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
//! **Crash**: as for a move.

use journal_core::BlockNumber;
use journal_core::parts::{Movable, kept_in_memory};
use journal_core::policy::Policy;
use journal_core::units::{LaneNumber, Stamp};

use crate::engine::upkeep::checkpoint::HeldUpkeep;
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

/// A block that may be evicted, and when it was changed last.
type Candidate = (Stamp, BlockNumber);

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
        let mut needs_home = false;
        for (block, count) in wanted.into_iter().filter(|(_, count)| *count > 0) {
            needs_home |= self.with_upkeep_first(|cell| self.evict_for(cell, block, count))?;
        }
        Ok(needs_home)
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
        cell: &mut HeldUpkeep<'_>,
        block: BlockNumber,
        count: usize,
    ) -> Result<bool, Error> {
        // Others may pin more meanwhile. The rounds are enough if none does.
        let mut rounds = self.lock_share(block)?.in_memory() + 1;
        let mut in_vain = 0;
        while self.lock_share(block)?.lacks_pins(count) {
            let Some((listed, first)) = self.list_to_evict(block)? else { return Ok(false) };
            if rounds == 0 || in_vain > IN_VAIN_MAX || !self.has_log_to_move_to(cell)? {
                return Ok(true);
            }
            rounds -= 1;
            if in_vain > 0 {
                // What is moved needs a frame as well.
                self.fold_rings(cell)?;
                self.free_superseded(cell)?;
            }
            let Some((lane, most)) = self.moved_at_once(cell) else { return Ok(true) };
            // Where the first ones cannot be read, there are others behind them.
            let wanted = first.max(count) << in_vain;
            let mut picked: Vec<_> = listed.into_iter().take(wanted.min(most)).collect();
            picked.sort_unstable_by_key(|(_, block)| *block);
            in_vain = if self.move_picked(cell, lane, &picked)? > 0 { 0 } else { in_vain + 1 };
        }
        Ok(false)
    }

    /// Lists the pinned blocks of the share that has this block, in the order in which they are
    /// evicted. Behind the first ones of them come those of other shares that are nearly full.
    /// Returns how many are to go as well, or `None` where all of the share's are taken (EV4).
    fn list_to_evict(&self, block: BlockNumber) -> Result<Option<(Vec<Candidate>, usize)>, Error> {
        let (mut listed, mut others) = (Vec::new(), Vec::new());
        self.lock_share(block)?.list_pinned(&mut listed);
        listed.retain(|(_, _, pinned)| self.may_be_evicted(*pinned));
        if listed.is_empty() {
            return Ok(None);
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
        listed.sort_unstable();
        others.sort_unstable();
        // Of each, a part.
        let own = (listed.len() / EVICTED_PART).max(1);
        let part = others.len() / EVICTED_PART;
        let behind = listed.split_off(own);
        let all = listed.into_iter().chain(others.into_iter().take(part)).chain(behind);
        Ok(Some((all.map(|(_, stamp, block)| (stamp, block)).collect(), own + part)))
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
