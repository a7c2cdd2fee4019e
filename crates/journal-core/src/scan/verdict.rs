//! The verdict on a scan of all lanes, by the recovery table.
//!
//! Opening and examining a journal come to their verdict here, so that they cannot differ.

use crate::format::record::{COUNTER_OPEN_END, RecordHeader};
use crate::order::rule::Rule;
use crate::scan::decide::{Facts, RecordEpoch, Row, decide};
use crate::scan::error::OpenError;
use crate::scan::lanes::Scanned;
use crate::scan::walk::{Evidence, Walked};
use crate::space::superblocks::{LaneStart, Superblock};
use crate::units::LaneNumber;

/// How a lane ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct End {
    pub(crate) lane: LaneNumber,
    pub(crate) start: LaneStart,
    pub(crate) walked: Walked,
    pub(crate) row: Row,
}

impl End {
    /// How many of the lane's records were stored since the open before.
    pub(crate) fn found(&self) -> u64 {
        let known = self.start.epoch_first.raw().max(self.start.head_sequence.raw());
        self.walked.next_sequence.raw().saturating_sub(known)
    }
}

impl Scanned {
    /// Takes in what an intent's header says; returns whether the intent is believed.
    ///
    /// An open repeats the intent it believes before it begins an epoch: one of an older epoch was
    /// done with then. It may still come back, with the lines that a killed process stored over it
    /// and nobody flushed.
    pub(crate) fn take_intent(
        &mut self,
        header: &RecordHeader,
        superblock: &Superblock,
        keeps: impl Fn(Rule) -> bool,
    ) -> bool {
        self.evidence.take_intent(header);
        let is_current = header.epoch.get() == superblock.epoch().raw();
        let is_believed = header.sequence.get() >= superblock.header.shield_floor.get()
            && (is_current || !keeps(Rule::OlderEpochVoid));
        if is_believed {
            self.batch = header.sequence.get();
        }
        is_believed
    }

    /// Whether some counter is so high that what is stored next might be beyond what can be.
    fn is_exhausted(&self, superblock: &Superblock) -> bool {
        let (epoch, generation) = (superblock.epoch().raw(), superblock.generation().raw());
        let Evidence { stamp, counter, .. } = self.evidence;
        let counters = [epoch, generation, stamp.raw(), self.batch, counter];
        counters.into_iter().any(|counter| counter >= COUNTER_OPEN_END)
    }

    /// Looks the end of every lane up in the table.
    pub(crate) fn ends(
        &self,
        superblock: &Superblock,
        keeps: impl Fn(Rule) -> bool,
    ) -> impl Iterator<Item = End> {
        let later = self.evidence.generation > superblock.generation()
            || self.evidence.epoch > superblock.epoch();
        let of_later_superblock = later && keeps(Rule::LaterSuperblock);
        let keeps_marks = keeps(Rule::Marks);
        let lanes = self.lanes().zip(&self.evidence.durable_to);
        (0..).zip(lanes).map(move |(number, ((start, walked), durable_to))| {
            let row = decide(Facts {
                // Both ended the walk before a whole record that cannot count.
                whole: walked.void_behind || walked.torn_slot,
                of_later_superblock,
                rotten_tail_word: walked.rotten_tail_word,
                below_mark: walked.next_sequence < start.epoch_first && keeps_marks,
                epoch: if walked.torn_slot { RecordEpoch::Current } else { RecordEpoch::Older },
                covered: walked.next_sequence < *durable_to || walked.is_below_tail_word,
                torn_slot: walked.torn_slot,
            });
            End { lane: LaneNumber(number), start: *start, walked: *walked, row }
        })
    }

    /// What an open makes of it.
    pub(crate) fn judge(
        &self,
        superblock: &Superblock,
        keeps: impl Fn(Rule) -> bool,
    ) -> Result<Recovery, OpenError> {
        let mut recovery = Recovery::default();
        for end in self.ends(superblock, keeps) {
            match end.row {
                Row::Tail => recovery.tails = recovery.tails.saturating_add(1),
                Row::TornSlot => {
                    recovery.tails = recovery.tails.saturating_add(1);
                    recovery.torn_slots = recovery.torn_slots.saturating_add(1);
                }
                Row::Void => recovery.voids = recovery.voids.saturating_add(1),
                Row::SuperblockLost => {
                    return Err(OpenError::SuperblockLost {
                        generation: self.evidence.generation,
                        epoch: self.evidence.epoch,
                    });
                }
                row => {
                    return Err(OpenError::Rot {
                        lane: end.lane,
                        sequence: end.walked.next_sequence,
                        position: end.walked.tail,
                        row,
                    });
                }
            }
            recovery.records = recovery.records.saturating_add(end.walked.records);
            recovery.found = recovery.found.saturating_add(end.found());
            recovery.lanes_with_records_behind = recovery
                .lanes_with_records_behind
                .saturating_add(u16::from(end.walked.records_behind));
        }
        if self.is_exhausted(superblock) {
            return Err(OpenError::Exhausted);
        }
        Ok(recovery)
    }
}

/// What an open found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Recovery {
    /// Whole records that count.
    pub records: u64,
    /// Of them, those stored since the open before: acknowledged or not, they were whole.
    pub found: u64,
    /// Lanes that ended with a torn or missing record.
    pub tails: u16,
    /// Lanes that ended with a record which an earlier open had shown absent.
    pub voids: u16,
    /// Of the lanes that ended with a torn record, those whose record was whole, but not the slots
    /// that it names.
    pub torn_slots: u16,
    /// Lanes in which later records of the same epoch lie behind the end.
    pub lanes_with_records_behind: u16,
    /// The newest note that a durable transaction has left, or that an earlier open has found.
    pub note: Option<[u64; 2]>,
}
