//! Whether what an open journal knows of its slots agrees with itself, and with the medium.
//!
//! 1. Every slot is free, or some version has it: never both, never two.
//! 2. An entry is whole exactly where a version says so, and says what that is.
//! 3. The list of slots that can be taken is as long as there are free slots. Each segment of the
//!    disk-side log has as many used blocks as its own count says.
//!
//! Tests ask after every step; nothing else does. It looks at every version once for each slot.
//!
//! **Crash**: nothing is written.

use core::fmt;

use crate::format::slot_entry::FoundEntry;
use crate::owner::journal::Journal;
use crate::owner::machine::Machine;
use crate::ports::error::MediumError;
use crate::ports::policy::Policy;
use crate::space::lane::InLane;
use crate::units::{LaneNumber, SlotNumber};

/// What is wrong about a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SlotFault {
    /// It is free, and a version has it.
    FreeAndHeld,
    /// Two versions have it.
    HeldTwice,
    /// It is not free, and no version has it: lost until the journal is opened again.
    Lost,
    /// It is free, and has an entry.
    FreeWithEntry,
    /// A version counts on its entry, which is not whole, or speaks of another one.
    WrongEntry,
    /// No version knows of its entry.
    UnknownEntry,
    /// Its lane's list of free slots is not as long as it has free ones. Or its segments are not as
    /// full as is known of them.
    WrongList,
}

/// Why an audit did not end well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AuditError {
    /// What is known of a slot is wrong: an error of this crate.
    Slot {
        /// Which.
        slot: SlotNumber,
        /// What is wrong.
        fault: SlotFault,
    },
    /// An entry cannot be read.
    Medium(MediumError),
}

impl fmt::Display for AuditError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Slot { slot, fault } => write!(f, "{slot}: {fault:?}"),
            Self::Medium(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for AuditError {}

impl<L: Policy, M: Machine> Journal<'_, L, M> {
    /// Looks whether what is known of slots agrees with itself and with the medium, as long as no
    /// content is [`Active`](crate::Active). Slow; for tests.
    ///
    /// # Errors
    /// The first slot that is wrong.
    pub fn audit(&mut self) -> Result<(), AuditError> {
        let lanes = (0..self.common.geometry.lanes).map(LaneNumber);
        for lane in lanes {
            let mut free = 0_u32;
            let mut last = SlotNumber(0);
            let Some(numbers) = self.lane(lane).slots().map(|slots| slots.numbers()) else {
                continue;
            };
            for slot in numbers {
                last = slot;
                let is_free = self.audit_slot(lane, slot)?;
                let is_slot = self.common.geometry.log_block(slot).is_none();
                free = free.saturating_add(u32::from(is_free && is_slot));
            }
            let InLane { lane, states } = self.lanes.in_lane(lane);
            let listed = lane.slots().map_or(0, |slots| slots.listed_free(states));
            let log_is_right = lane.slots().is_none_or(|slots| slots.log_is_right(states));
            if (listed, lane.free_slots()) != (free, free) || !log_is_right {
                return Err(AuditError::Slot { slot: last, fault: SlotFault::WrongList });
            }
        }
        Ok(())
    }

    /// Looks at one slot; returns whether it is free.
    fn audit_slot(&mut self, lane: LaneNumber, slot: SlotNumber) -> Result<bool, AuditError> {
        let seeds = self.common.seeds;
        let InLane { lane, states } = self.lanes.in_lane(lane);
        let Some(slots) = lane.slots() else { return Ok(false) };
        let is_free = slots.is_free(states, slot);
        let entry = slots.entry(slot, &self.common.kernels, seeds).map_err(AuditError::Medium)?;
        let (mut holders, mut speakers) = (0_u32, 0_u32);
        let wrong = |fault| Err(AuditError::Slot { slot, fault });
        for id in self.index.all() {
            let frame = self.index.frame(id);
            if frame.slot() != Some(slot) {
                continue;
            }
            holders = holders.saturating_add(u32::from(!self.index.is_stale(id)));
            if frame.folded {
                speakers = speakers.saturating_add(1);
                let FoundEntry::Whole(entry) = entry else { return wrong(SlotFault::WrongEntry) };
                let of = (entry.block.get(), entry.stamp.get(), entry.content.get());
                if of != (frame.block.raw(), frame.stamp.raw(), frame.payload) {
                    return wrong(SlotFault::WrongEntry);
                }
            }
        }
        match (is_free, holders, entry, speakers) {
            (true, 1.., ..) => wrong(SlotFault::FreeAndHeld),
            (_, 2.., ..) => wrong(SlotFault::HeldTwice),
            (false, 0, ..) => wrong(SlotFault::Lost),
            (true, _, FoundEntry::Whole(_) | FoundEntry::Torn, _) => {
                wrong(SlotFault::FreeWithEntry)
            }
            (false, _, FoundEntry::Whole(_), 1) | (_, _, FoundEntry::Void, _) => Ok(is_free),
            (false, ..) => wrong(SlotFault::UnknownEntry),
        }
    }
}
