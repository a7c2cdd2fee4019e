//! Notes that a store gives with its transactions.
//!
//! NT1. No record has a note before the superblock says, durably, that records may have some.
//! NT2. The stamp of a record with a note is above those of all such records that were begun before
//!      it. So the note of the highest stamp is the newest, and no two have one stamp.

use journal_core::units::Stamp;

use crate::threads::sync::{AtomicBool, AtomicU64, Ordering};

/// What is known of notes.
#[derive(Debug)]
pub(crate) struct Notes {
    /// Whether records may have some.
    pub(crate) has_begun: AtomicBool,
    /// The highest stamp of a record that has one, since the journal was opened. Earlier ones are
    /// below all stamps of now.
    last: AtomicU64,
}

impl Notes {
    pub(crate) fn new(has_begun: bool) -> Self {
        Self { has_begun: AtomicBool::new(has_begun), last: AtomicU64::new(0) }
    }

    /// The stamp of a record with a note, above this one. No other such record has it, or gets a
    /// lower one from now on (NT2). The caller has the record's lane in hand.
    #[cold]
    pub(crate) fn stamp_above(&self, below: Stamp) -> Stamp {
        let above = |last: u64| last.max(below.raw()) + 1;
        let raise = |last| Some(above(last));
        let before = self.last.fetch_update(Ordering::AcqRel, Ordering::Acquire, raise);
        Stamp(above(before.unwrap_or_else(|last| last)))
    }
}
