//! Walking a lane: how far its records go, and what their headers prove.
//!
//! The walk goes from the head from record to record until one is not whole. It then looks for
//! headers in every line up to one ring length above the head; in a closed journal, in one line.
//! These are never replayed. They and the headers of accepted records are evidence: watermarks,
//! names, epochs and generations.

use core::mem::offset_of;

use crate::format::record::{RecordHeader, names, split_note};
use crate::order::rule::Rule;
use crate::order::source::Source;
use crate::ports::error::MediumError;
use crate::ports::kernels::Kernels;
use crate::scan::decide::RecordEpoch;
use crate::scan::reader::{LINE, PartBounds, Reader, readable};
use crate::space::superblocks::LaneStart;
use crate::space::tail_word::LaneEnd;
use crate::units::{Epoch, Generation, LANES_MAX, LINE_BYTES, LaneNumber, Sequence, Stamp};

/// How many bytes are looked through at once where no header is expected.
const SKIPPED_BYTES: u64 = 64 * LINE;

impl<'a, S: Source, K: Kernels> Reader<'a, S, K> {
    /// Walks the lane and collects evidence.
    pub(crate) fn walk(
        &mut self,
        start: &LaneStart,
        lane_end: LaneEnd,
        device_blocks: u64,
        evidence: &mut Evidence,
    ) -> Result<Walked, MediumError> {
        // 1. The ring is asked for, and how far the walk may go is found.
        // Each line of it will be looked at, unless the journal was closed. Where not all of them
        // can be read, the walk finds out which, and whether that matters. An error that the walk
        // does not meet is told at its end.
        let mut failed = None;
        if !start.is_closed {
            match readable(self.ring.all()) {
                Ok(all) => self.all = all,
                Err(error) => failed = Some(error),
            }
        }
        let end = start.head.saturating_add(self.ring.bytes());
        let lane_end = if self.ring.keeps(Rule::TailWords) { lane_end } else { LaneEnd::Open };
        let limit = match lane_end {
            LaneEnd::Open => end,
            LaneEnd::At(at) => at,
            // Without knowing where the lane ends none of it counts. Evidence does all the same.
            LaneEnd::Rotten => start.head,
        };
        let bounds = PartBounds { end: limit, device_blocks };
        if self.ring.keeps(Rule::Marks) {
            evidence.durable(self.lane, start.epoch_first.raw().max(start.durable_to.raw()));
        }
        // 2. Records are accepted one by one, and what each proves is noted.
        let (mut stamp, mut said) = (Stamp(0), Said::default());
        let (mut tail, mut next_sequence, mut found_from) =
            (start.head, start.head_sequence, start.head);
        let mut void_behind = false;
        while let Some(record) = self.record(tail, next_sequence, bounds)? {
            let below_mark = next_sequence < start.epoch_first;
            let is_older = self.epoch_of(record.header) == RecordEpoch::Older;
            if !below_mark && is_older && self.ring.keeps(Rule::OlderEpochVoid) {
                void_behind = true;
                break;
            }
            // Stamps rise in a lane. Without that, merging the lanes could take quadratic time.
            let record_stamp = Stamp(record.header.stamp.get());
            if record_stamp <= stamp {
                break;
            }
            stamp = record_stamp;
            let (mut part, mut header) = (tail, record.header);
            loop {
                said.join(header);
                self.take_names(part, header, evidence)?;
                if header.is_last_part() {
                    break;
                }
                part = part.saturating_add(header.total_bytes());
                let next = if part < record.end { self.placed_at(part)? } else { None };
                let Some(next) = next else { break };
                header = next;
            }
            tail = record.end;
            next_sequence = Sequence(next_sequence.raw().saturating_add(1));
            if below_mark {
                found_from = tail;
            }
        }
        // 3. What the walk came to.
        let mut walked = Walked {
            tail,
            next_sequence,
            records: next_sequence.raw().saturating_sub(start.head_sequence.raw()),
            found_from,
            void_behind,
            records_behind: false,
            is_below_tail_word: lane_end != LaneEnd::Open && tail < limit,
            rotten_tail_word: lane_end == LaneEnd::Rotten,
            torn_slot: false,
        };
        evidence.take(self.lane, said, |rule| self.ring.keeps(rule));
        evidence.stamp = evidence.stamp.max(stamp);
        evidence.counter = evidence.counter.max(tail).max(next_sequence.raw());
        // 4. Evidence is looked for behind the last record.
        // Where a journal was closed, only one that was opened since can have stored anything, and
        // that begins right behind the last record.
        let end = if start.is_closed { end.min(tail.saturating_add(LINE)) } else { end };
        let mut at = tail;
        loop {
            at = self.skip_lines_without_header(at, end)?;
            if at >= end {
                return failed.map_or(Ok(walked), Err);
            }
            if let Some(header) = readable(self.evidence_at(at, evidence))?.flatten() {
                let sequence = Sequence(header.sequence.get());
                walked.records_behind |=
                    self.epoch_of(header) == RecordEpoch::Current && sequence > next_sequence;
            }
            at = at.saturating_add(LINE);
        }
    }

    /// The first place of those up to `end` that may hold a header, or that has to be looked at to
    /// know whether it can be read.
    fn skip_lines_without_header(&self, mut at: u64, end: u64) -> Result<u64, MediumError> {
        if !self.ring.keeps(Rule::PlaceChecked) {
            return Ok(at);
        }
        while at < end {
            let len = end.saturating_sub(at).min(SKIPPED_BYTES);
            let lines = readable(self.slices(at, len as usize))?;
            let Some((first, second)) = lines else { return Ok(at) };
            for line in first.chunks_exact(LINE_BYTES).chain(second.chunks_exact(LINE_BYTES)) {
                let position = line.get(offset_of!(RecordHeader, position)..);
                let position = position.and_then(<[u8]>::first_chunk);
                if position.is_some_and(|position| u64::from_le_bytes(*position) == at) {
                    return Ok(at);
                }
                at = at.saturating_add(LINE);
            }
        }
        Ok(end)
    }

    fn epoch_of(&self, header: &RecordHeader) -> RecordEpoch {
        if header.epoch.get() == self.identity.epoch.raw() {
            RecordEpoch::Current
        } else {
            RecordEpoch::Older
        }
    }

    /// Takes in what a header at `position` says, if there is one.
    fn evidence_at(
        &self,
        position: u64,
        evidence: &mut Evidence,
    ) -> Result<Option<&'a RecordHeader>, MediumError> {
        let Some(header) = self.header(position)? else { return Ok(None) };
        let mut said = Said::default();
        said.join(header);
        evidence.take(self.lane, said, |rule| self.ring.keeps(rule));
        self.take_names(position, header, evidence)?;
        Ok(Some(header))
    }

    /// Takes in what the names behind the header at `position` say.
    #[inline(always)]
    fn take_names(
        &self,
        position: u64,
        header: &RecordHeader,
        evidence: &mut Evidence,
    ) -> Result<(), MediumError> {
        // Most have none.
        if header.names > 0 && self.ring.keeps(Rule::Names) {
            let (names, _) = split_note(header, self.names(position, header)?);
            names.into_iter().for_each(|names| evidence.take_names(names));
        }
        Ok(())
    }
}

/// What the headers of all lanes prove.
#[derive(Clone, Debug)]
pub(crate) struct Evidence {
    /// Per lane: every record below was durable once.
    pub(crate) durable_to: [Sequence; LANES_MAX as usize],
    pub(crate) epoch: Epoch,
    pub(crate) generation: Generation,
    /// At or above the stamps of all records that count. Others never count again, so what they
    /// claim is of no matter: it may be a payload that looks like a header.
    pub(crate) stamp: Stamp,
    /// The highest lane offset or sequence that a walk came to.
    pub(crate) counter: u64,
}

impl Evidence {
    pub(crate) const fn new(epoch: Epoch, generation: Generation, stamp: Stamp) -> Self {
        let durable_to = [Sequence(0); LANES_MAX as usize];
        Self { durable_to, epoch, generation, stamp, counter: 0 }
    }

    /// Takes in what else was proven.
    pub(crate) fn join(&mut self, more: &Self) {
        for (known, more) in self.durable_to.iter_mut().zip(more.durable_to) {
            *known = (*known).max(more);
        }
        self.epoch = self.epoch.max(more.epoch);
        self.generation = self.generation.max(more.generation);
        self.stamp = self.stamp.max(more.stamp);
        self.counter = self.counter.max(more.counter);
    }

    /// Takes in what the header of an intent says.
    pub(crate) fn take_intent(&mut self, header: &RecordHeader) {
        self.epoch = self.epoch.max(Epoch(header.epoch.get()));
        self.generation = self.generation.max(Generation(header.generation.get()));
    }

    pub(crate) fn durable(&mut self, lane: LaneNumber, below: u64) {
        if let Some(known) = self.durable_to.get_mut(usize::from(lane.raw())) {
            *known = (*known).max(Sequence(below));
        }
    }

    /// Takes in what headers of `lane` say.
    pub(crate) fn take(&mut self, lane: LaneNumber, said: Said, keeps: impl Fn(Rule) -> bool) {
        if keeps(Rule::Watermarks) {
            self.durable(lane, said.watermark);
        }
        self.epoch = self.epoch.max(Epoch(said.epoch));
        self.generation = self.generation.max(Generation(said.generation));
    }

    /// Takes in names.
    pub(crate) fn take_names(&mut self, bytes: &[u8]) {
        for (named, sequence) in names(bytes) {
            self.durable(named, sequence.raw().saturating_add(1));
        }
    }
}

/// The highest that headers of a lane say, without their names.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Said {
    watermark: u64,
    epoch: u64,
    generation: u64,
}

impl Said {
    #[inline(always)]
    pub(crate) fn join(&mut self, header: &RecordHeader) {
        self.watermark = self.watermark.max(header.watermark.get());
        self.epoch = self.epoch.max(header.epoch.get());
        self.generation = self.generation.max(header.generation.get());
    }
}

/// How far a lane goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Walked {
    /// Behind the last whole record.
    pub(crate) tail: u64,
    pub(crate) next_sequence: Sequence,
    pub(crate) records: u64,
    /// Where the first record begins that is not known durable.
    pub(crate) found_from: u64,
    /// Whether the place behind the tail holds a whole record, of an older epoch.
    pub(crate) void_behind: bool,
    /// Whether some header of this epoch and a later sequence lies behind the tail.
    pub(crate) records_behind: bool,
    /// Whether the tail lies below the lane's tail word.
    pub(crate) is_below_tail_word: bool,
    /// Whether the lane's tail word is no place that it can end at.
    pub(crate) rotten_tail_word: bool,
    /// Whether the record behind the tail is whole, but a slot that it names is not.
    pub(crate) torn_slot: bool,
}
