//! What headers prove, and how far a lane goes.

use crate::format::record::{RecordHeader, names};
use crate::order::rule::Rule;
use crate::units::{Epoch, Generation, LANES_MAX, LaneNumber, Sequence, Stamp};

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
    /// The highest log offset or sequence that a walk came to.
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
