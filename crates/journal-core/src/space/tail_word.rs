//! The tail word of a lane: the second step of a commit with [`Protocol::TailPointer`].
//!
//! It says the lane offset behind the last durable record, in a line of its own. It is stored when
//! that record has been fenced. What lies below it counts, and was acknowledged or was about
//! to be; what lies at or behind it is void, whole or not.
//!
//! A word has 40 bits of the offset, in lines, and 24 bits of a check of all of it. The head of the
//! lane tells the offset's other bits. One word is never torn, so the check finds rot, and what is
//! no tail word of this lane and this journal.
//!
//! A journal that nobody has opened yet has no records, and no tail words either: whatever the span
//! held is still there. The first open writes them before its epoch makes them count.
//!
//! **Crash** before the second fence returns: the word is the old one or the new one. The record is
//! durable either way; if the old word is found, the record is ignored.
//!
//! T1. A word is stored only for what has been fenced: it takes the proof and gives a new one.
//! T2. A word that was found is flushed before anything builds on it. A killed process may have
//!     left the word in the caches, for a later power loss to forget.
//!
//! [`Protocol::TailPointer`]: crate::Protocol::TailPointer

use crate::format::tail_word::encode;
use crate::order::ordered::{Durable, Hook, InFlight, Ordered};
use crate::order::source::Source;
use crate::ports::error::MediumError;
use crate::ports::pmem::Pmem;
use crate::space::superblocks::Superblock;
use crate::units::{Epoch, LINE_BYTES, Offset, Sequence, WORD_BYTES};

crate::sites! {
    pub(crate) mod site {
        /// A crash before leaves the old word, and the record without effect.
        WORD: Store = "tail.word";
        /// A crash after may leave either word.
        FLUSH: Flush = "tail.flush";
        /// A crash after leaves the new word.
        FENCE: Fence = "tail.fence";
        /// A crash before the fence that follows leaves a journal that nobody has opened.
        FIRST: Write = "tail.first";
        /// A crash before the fence that follows may leave an older word, as the crash before did.
        FOUND: Flush = "tail.found";
    }
}

/// The tail word of one lane.
#[derive(Debug)]
pub(crate) struct TailWord<P, H> {
    line: Ordered<P, H>,
    /// Of its check.
    seed: u64,
}

impl<P: Pmem, H: Hook> TailWord<P, H> {
    /// The word in this line, with the seed of its check.
    pub(crate) const fn new(line: Ordered<P, H>, seed: u64) -> Self {
        Self { line, seed }
    }

    /// Notes that everything before a lane offset is durable, and makes the note so (T1).
    #[inline]
    pub(crate) fn advance(
        &mut self,
        record: Durable<Sequence>,
        to: u64,
    ) -> Result<Durable<Sequence>, MediumError> {
        let word = self.line.store_u64(site::WORD, Offset(0), encode(self.seed, to));
        let word = self.line.flush(site::FLUSH, word);
        self.line.fence(site::FENCE, word.carrying(record.into_inner()))
    }

    /// Puts in flight what the lane was found to hold (T2), or its first word.
    pub(crate) fn put_in_flight(&mut self, superblock: &Superblock, tail: u64) -> InFlight {
        if is_unopened(superblock) {
            let word = encode(self.seed, tail);
            self.line.write(site::FIRST, Offset(0), &word.to_le_bytes())
        } else {
            self.line.flush_found(site::FOUND, Offset(0), WORD_BYTES)
        }
    }
}

/// Where a lane ends, as far as a tail word says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LaneEnd {
    /// The lane has no tail word: it ends where its records do.
    Open,
    /// At this lane offset.
    At(u64),
    /// The word is none that this lane can have.
    Rotten,
}

/// Where the line of a lane begins in the area of the tail words.
pub(crate) fn offset_of(lane: u16) -> u64 {
    u64::from(lane).saturating_mul(LINE_BYTES as u64)
}

/// The word that a line begins with.
pub(crate) fn read(line: &impl Source) -> Result<u64, MediumError> {
    let mut word = [0; WORD_BYTES];
    line.read_into(Offset(0), &mut word)?;
    Ok(u64::from_le_bytes(word))
}

/// No open has written tail words yet.
pub(crate) fn is_unopened(superblock: &Superblock) -> bool {
    superblock.epoch() == Epoch(0)
}
