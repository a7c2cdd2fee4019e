//! The state of one slot, in memory that the caller gives.

use crate::units::SlotNumber;

/// No slot.
pub(super) const NONE: u32 = u32::MAX;

/// What is known of one slot; memory that the caller gives.
#[derive(Clone, Copy, Debug)]
pub struct SlotState {
    /// While a journal is opened: the highest stamp of a frame that names the slot, or the check
    /// of its content. Later, in the first state of a segment of the disk-side log: how many of its
    /// blocks are used.
    pub(super) noted: u64,
    /// Whether this process has written all of it. What a killed process stored there may be
    /// visible and not durable: rewriting some bytes would flush only those.
    pub(super) written_whole: bool,
    /// Whether it is on the list of those that are free.
    pub(super) is_free: bool,
    /// The next one that is free, or that waits to be flushed.
    pub(super) next: u32,
    /// Bytes that were stored and not flushed: from, and to.
    pub(super) dirty: (u32, u32),
}

impl SlotState {
    /// The state of a slot of which nothing is known yet.
    pub const EMPTY: Self =
        Self { noted: 0, written_whole: false, is_free: false, next: NONE, dirty: (0, 0) };

    /// Notes something about a slot, while a journal is opened.
    pub(crate) const fn note(&mut self, noted: u64, slot: SlotNumber) {
        *self = Self { noted, next: slot.raw(), ..Self::EMPTY };
    }

    pub(crate) const fn is_free(&self) -> bool {
        self.is_free
    }

    pub(crate) const fn set_free(&mut self, is_free: bool) {
        self.is_free = is_free;
    }

    /// How many blocks of a segment are used.
    pub(crate) const fn used(&self) -> u64 {
        self.noted
    }

    pub(crate) const fn set_used(&mut self, used: u64) {
        self.noted = used;
    }

    /// The next one on the list of those that are free.
    pub(crate) fn next(&self) -> Option<u32> {
        Some(self.next).filter(|next| *next != NONE)
    }

    pub(crate) const fn set_next(&mut self, next: u32) {
        self.next = next;
    }

    pub(crate) const fn take_next(&mut self) -> u32 {
        core::mem::replace(&mut self.next, NONE)
    }

    /// What was noted, and of which slot, if anything was.
    pub(crate) fn noted(&self) -> Option<(u64, SlotNumber)> {
        (self.next != NONE).then_some((self.noted, SlotNumber(self.next)))
    }
}
