//! What a scan of all lanes found, and what the recovery table makes of it.
//!
//! Opening and examining a journal come to their verdict here, so that they cannot differ.

use crate::format::geometry::{Geometry, Protocol};
use crate::format::record::{COUNTER_OPEN_END, RecordHeader};
use crate::format::tail_word::decode;
use crate::order::rule::Rule;
use crate::order::source::Source;
use crate::ports::error::MediumError;
use crate::ports::kernels::Kernels;
use crate::scan::decide::{Facts, RecordEpoch, Row, decide};
use crate::scan::error::OpenError;
use crate::scan::evidence::{Evidence, Walked};
use crate::scan::reader::Reader;
use crate::space::superblocks::{LaneStart, Superblock};
use crate::space::tail_word::{LaneEnd, is_unopened};
use crate::units::{LANES_MAX, LaneNumber, Sequence};

/// Lanes that were walked, and what their headers prove.
#[derive(Clone, Debug)]
pub(crate) struct Scanned {
    /// No tail word was ever written: they all stand at the heads.
    is_unopened: bool,
    /// Nothing behind a tail word counts, and all before it is durable.
    has_tail_words: bool,
    starts: [LaneStart; LANES_MAX as usize],
    pub(crate) walked: [Option<Walked>; LANES_MAX as usize],
    pub(crate) evidence: Evidence,
    /// The number of the intent that is believed, or the superblock's floor.
    batch: u64,
}

/// How a lane ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct End {
    pub(crate) lane: LaneNumber,
    pub(crate) start: LaneStart,
    pub(crate) walked: Walked,
    pub(crate) row: Row,
}

impl End {
    /// Of the lane's records, those that are not known durable.
    pub(crate) fn found(&self) -> u64 {
        let known = self.start.epoch_first.raw().max(self.start.head_sequence.raw());
        self.walked.next_sequence.raw().saturating_sub(known)
    }
}

impl Scanned {
    /// Nothing walked yet.
    pub(crate) fn of(superblock: &Superblock, geometry: &Geometry) -> Self {
        let mut starts = [LaneStart::from(&Default::default()); LANES_MAX as usize];
        for (start, note) in starts.iter_mut().zip(superblock.notes()) {
            *start = LaneStart { is_closed: superblock.is_closed(), ..LaneStart::from(note) };
        }
        let (epoch, generation) = (superblock.epoch(), superblock.generation());
        Self {
            is_unopened: is_unopened(superblock),
            has_tail_words: geometry.protocol == Protocol::TailPointer,
            starts,
            walked: [None; LANES_MAX as usize],
            evidence: Evidence::new(epoch, generation, superblock.stamp_floor()),
            batch: superblock.header.shield_floor.get(),
        }
    }

    /// Walks a lane, up to its tail word if it has one.
    pub(crate) fn walk(
        &mut self,
        reader: &mut Reader<'_, impl Source, impl Kernels>,
        tail_word: Option<u64>,
        device_blocks: u64,
    ) -> Result<(), MediumError> {
        let number = usize::from(reader.lane.raw());
        let lane = self.starts.get(number).zip(self.walked.get_mut(number));
        if let Some((start, walked)) = lane {
            let seed = reader.identity.seeds.tail_word(reader.lane);
            let lane_end = match tail_word {
                None => LaneEnd::Open,
                Some(_) if self.is_unopened => LaneEnd::At(start.head),
                Some(word) => decode(seed, word, start.head, reader.ring.bytes())
                    .map_or(LaneEnd::Rotten, LaneEnd::At),
            };
            let evidence = &mut self.evidence;
            *walked = Some(reader.walk(start, lane_end, device_blocks, evidence)?);
        }
        Ok(())
    }

    /// Takes in what else was walked.
    pub(crate) fn join(&mut self, more: &Self) {
        for (walked, more) in self.walked.iter_mut().zip(more.walked) {
            *walked = more.or(*walked);
        }
        self.evidence.join(&more.evidence);
    }

    /// Whether an earlier open has made a record durable.
    pub(crate) fn is_below_note(&self, lane: LaneNumber, sequence: Sequence) -> bool {
        let start = self.starts.get(usize::from(lane.raw()));
        start.is_some_and(|start| sequence < start.epoch_first)
    }

    /// Whether a record of a lane, which was accepted, is known durable by anything.
    pub(crate) fn is_known_durable(&self, lane: LaneNumber, sequence: Sequence) -> bool {
        let number = usize::from(lane.raw());
        let proven = self.evidence.durable_to.get(number).is_some_and(|to| sequence < *to);
        self.is_below_note(lane, sequence) || proven || self.has_tail_words
    }

    /// Ends a lane before a record that was accepted: a slot that it names is torn.
    pub(crate) fn end_before(&mut self, lane: LaneNumber, sequence: Sequence, record: u64) {
        let number = usize::from(lane.raw());
        let Some(Some(walked)) = self.walked.get_mut(number) else { return };
        let dropped = walked.next_sequence.raw().saturating_sub(sequence.raw());
        walked.records = walked.records.saturating_sub(dropped);
        (walked.tail, walked.next_sequence) = (record, sequence);
        (walked.torn_slot, walked.void_behind) = (true, false);
        walked.is_below_tail_word |= self.has_tail_words;
    }

    /// The lanes walked, each with where its walk began.
    pub(crate) fn lanes(&self) -> impl Iterator<Item = (&LaneStart, &Walked)> + '_ {
        let lanes = self.starts.iter().zip(&self.walked);
        lanes.filter_map(|(start, walked)| Some((start, walked.as_ref()?)))
    }

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
        let keeps_notes = keeps(Rule::Notes);
        let lanes = self.lanes().zip(&self.evidence.durable_to);
        (0..).zip(lanes).map(move |(number, ((start, walked), durable_to))| {
            let row = decide(Facts {
                whole: walked.void_behind || walked.torn_slot,
                of_later_superblock,
                rotten_tail_word: walked.rotten_tail_word,
                below_note: walked.next_sequence < start.epoch_first && keeps_notes,
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
}
