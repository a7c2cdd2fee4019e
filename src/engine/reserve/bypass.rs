//! Room for data that goes to the disk-side log where its lane has too little.
//!
//! Where the policy [says so](Policy::bypasses_when_full), no transaction waits for a checkpoint
//! while the log has room. What is staged or gathered then reserves a block of the log for each
//! block that it changes, and only those bytes of the lane that the names of these blocks take. How
//! it is committed is decided when it is: as it would be with more room, if the lane has that by
//! then.
//!
//! BY1. The bytes that are reserved suffice for the record in which all data goes to the log.
//! BY2. There is a block of the log for each update, so none takes the block of another.

use core::cmp::Ordering::{Equal, Greater, Less};

use journal_core::parts::Operations;
use journal_core::policy::{Change, Class, Kind, Policy, Update};
use journal_core::{BlockNumber, LINE_BYTES, Operation, Rule};

use crate::machine::Machine;
use crate::shared::Shared;
use crate::shared::gathering::Batch;
use crate::staging::hint::Hint;
use crate::staging::staged::Staged;
use crate::staging::work::Work;

/// What is kept of a lane for transactions whose data goes to the log: the lane divided by this.
const KEPT_PART: u64 = 8;

/// What a record takes in which data goes to the log.
#[derive(Clone, Copy, Debug, Default)]
struct Bypassing {
    /// Blocks that it names, and nothing more.
    named: u64,
    /// Blocks that it may have whole.
    whole: u64,
    /// Blocks of the log.
    log_blocks: u64,
}

impl Bypassing {
    fn add(&mut self, operation: &Operation<'_>) {
        match operation {
            Operation::Update(update) => {
                self.log_blocks += 1;
                // What is appended may be meant for the disk, and stay when it cannot go there.
                let is_data = update.class == Class::Data && update.kind == Kind::Overwrite;
                let goes = is_data && update.change.image().is_some();
                self.named += u64::from(goes);
                self.whole += u64::from(!goes);
            }
            _ => self.named += 1,
        }
    }
}

impl<L: Policy, M: Machine> Shared<L, M> {
    /// Whether data goes to the log where its lane is full.
    #[inline]
    pub(crate) fn may_bypass(&self) -> bool {
        let geometry = &self.common.geometry;
        // What finds no slot would be in the record, whole.
        geometry.lane_log_blocks > 0
            && geometry.lane_slots == 0
            && self.common.policy.bypasses_when_full()
            && self.keeps(Rule::StagedBypass)
    }

    /// Bytes of a lane that only transactions take whose data goes to the log; zero where none
    /// does. So they find some while others have reserved more than they will take.
    #[inline]
    pub(crate) fn kept_to_bypass(&self) -> u64 {
        if self.may_bypass() { self.common.geometry.lane_bytes / KEPT_PART } else { 0 }
    }

    /// The most bytes that such a record takes.
    const fn bypassing_bytes(&self, it: Bypassing) -> u64 {
        let geometry = &self.common.geometry;
        // As in `record_bytes_max`: a name of a block is its descriptor and where it lies, and half
        // of what a part has of its own.
        let part = (2 * LINE_BYTES + 8) as u64;
        let name = 16 + 16 + part / 2;
        let whole = geometry.block_size.bytes() as u64 + 16 + part / 2;
        let bytes = it.named * name + it.whole * whole + part;
        (bytes + 16 * geometry.lanes as u64).next_multiple_of(LINE_BYTES as u64)
    }

    /// Whether a transaction may not patch a block without an image, since its lane has no room
    /// for that.
    pub(crate) fn needs_image_to_bypass(&self, work: &Work, others: &Staged) -> bool {
        let kept = self.kept_to_bypass();
        if kept == 0 {
            return false;
        }
        let needed = self.record_bytes_max(others.count() + 1);
        let more = needed.saturating_sub(work.reserved_bytes);
        let left = self.lane(work.lane).unreserved.left();
        work.bypasses || left < more + kept + self.kept_bytes(needed)
    }

    /// Reserves what a transaction takes with one more update, if its data may go to the log.
    #[cold]
    pub(crate) fn reserve_to_bypass(
        &self,
        work: &mut Work,
        others: &(impl Operations + ?Sized),
        block: BlockNumber,
        update: Option<Hint>,
    ) -> bool {
        let mut all = Bypassing::default();
        for at in 0..others.count() {
            if others.block(at) != block {
                others.with(at, |operation| all.add(operation));
            }
        }
        match update {
            Some(Hint { class, kind, .. }) => {
                let mut update = Update::new(block, Change::Image(&[]));
                (update.class, update.kind) = (class, kind);
                all.add(&Operation::Update(update));
            }
            None => all.add(&Operation::Discard(block)),
        }
        let cell = self.lane(work.lane);
        let more_log = all.log_blocks.saturating_sub(work.reserved_log.into());
        if more_log > 0 && cell.unreserved_log.take(more_log, 0).is_none() {
            return false;
        }
        let more = self.bypassing_bytes(all).saturating_sub(work.reserved_bytes);
        if more > 0 && !self.try_reserve(work, more) {
            cell.unreserved_log.give(more_log);
            return false;
        }
        work.reserved_log += more_log as u32;
        work.bypasses = true;
        true
    }

    /// Reserves what the running transaction takes with another one, if its data may go to the log.
    #[cold]
    pub(crate) fn reserve_to_bypass_together(&self, running: &mut Batch, staged: &Staged) -> bool {
        if !self.may_bypass() || !running.active.is_empty() {
            return false;
        }
        let mut all = Bypassing::default();
        let (mut at, mut other) = (0, 0);
        // Both ascend. Of a block in both the later content counts, and the images are there.
        while at < running.staged.count() || other < staged.count() {
            let first = (at < running.staged.count()).then(|| running.staged.block(at));
            let second = (other < staged.count()).then(|| staged.block(other));
            let order = match (first, second) {
                (Some(first), Some(second)) => first.cmp(&second),
                (Some(_), None) => Less,
                _ => Greater,
            };
            let operation = match order {
                Less => running.staged.operation(at),
                _ => staged.operation(other),
            };
            let is_plain = |staged: &Staged, block| {
                let hint = staged.hint_after(block, None);
                hint.class == Class::Data && hint.kind == Kind::Overwrite
            };
            let block = operation.block();
            let are_plain = || is_plain(&running.staged, block) && is_plain(staged, block);
            if order == Equal && !are_plain() {
                // Of both hints the class of the later one counts, if it has said any, and the kind
                // of the first one.
                (all.whole, all.log_blocks) = (all.whole + 1, all.log_blocks + 1);
            } else {
                all.add(&operation);
            }
            at += usize::from(matches!(order, Less | Equal));
            other += usize::from(matches!(order, Greater | Equal));
        }
        let cell = self.lane(running.lane);
        let more_log = all.log_blocks.saturating_sub(running.reserved_log.into());
        if more_log > 0 && cell.unreserved_log.take(more_log, 0).is_none() {
            return false;
        }
        let more = self.bypassing_bytes(all).saturating_sub(running.reserved_bytes);
        if more > 0 && !self.try_reserve_in(running.lane, more) {
            cell.unreserved_log.give(more_log);
            return false;
        }
        running.reserved_bytes += more;
        running.reserved_log += more_log as u32;
        running.bypasses = true;
        true
    }
}
