//! The identity of a journal, which every check covers: its seeds, its epoch and its generation.
//!
//! A check covers which journal, which format, which kind of structure and which place it is of:
//!
//! - *journal*, *format* and *kind* are in the seed;
//! - *lane* and *position* of a record or an intent are in its header;
//! - *lane* and *position* of a tail word, of a slot's entry and of a slot's content are in the
//!   seed.
//!
//! A store may keep a copy of a journal's memory as the content of a block. That copy is never
//! taken for a record, a header, an entry or a tail word, wherever it comes to lie. The same holds
//! for what a journal of an earlier format has left.

use crate::format::superblock::{FORMAT_VERSION, SuperblockHeader};
use crate::ports::kernels::Kernels;
use crate::units::{Epoch, Generation, LaneNumber, SlotNumber};

/// Kinds of structures, as seeds tell them apart.
#[derive(Clone, Copy)]
#[repr(u32)]
enum SeedKind {
    Record = 1,
    Entry = 2,
    Content = 3,
    TailWord = 4,
}

/// The seeds of all checks but the superblock's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CheckSeeds {
    /// Of headers, and of the first parts of records and intents.
    pub(crate) record: u64,
    entry: u64,
    content: u64,
    tail_word: u64,
}

impl CheckSeeds {
    fn of(journal_id: &[u8; 16], kernels: &impl Kernels) -> Self {
        let journal = kernels.crc64(0, journal_id);
        let journal = kernels.crc64(journal, &FORMAT_VERSION.to_le_bytes());
        let of = |kind: SeedKind| kernels.crc64(journal, &(kind as u32).to_le_bytes());
        Self {
            record: of(SeedKind::Record),
            entry: of(SeedKind::Entry),
            content: of(SeedKind::Content),
            tail_word: of(SeedKind::TailWord),
        }
    }

    /// Of the entry of a slot.
    #[inline]
    pub(crate) fn entry(&self, slot: SlotNumber) -> u64 {
        self.entry ^ u64::from(slot.raw())
    }

    /// Of the content of a slot, or of a block of the disk-side log.
    #[inline]
    pub(crate) fn content(&self, slot: SlotNumber) -> u64 {
        self.content ^ u64::from(slot.raw())
    }

    /// Of the tail word of a lane.
    #[inline]
    pub(crate) fn tail_word(&self, lane: LaneNumber) -> u64 {
        self.tail_word ^ u64::from(lane.raw())
    }
}

/// What all records that are written now have in common.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Identity {
    pub(crate) seeds: CheckSeeds,
    pub(crate) epoch: Epoch,
    pub(crate) generation: Generation,
}

impl Identity {
    /// What a superblock says of the journal, and of the present.
    pub(crate) fn of(header: &SuperblockHeader, kernels: &impl Kernels) -> Self {
        Self {
            seeds: CheckSeeds::of(&header.journal_id, kernels),
            epoch: Epoch(header.epoch.get()),
            generation: Generation(header.generation.get()),
        }
    }
}
