//! When slots were used last, so that what is read often stays in its slot.
//!
//! Time goes on by one with each batch that is written home to make slots free, and with each
//! running transaction that commits. A slot that was read counts as used later than one that was
//! written at the same time.
//!
//! LU1. A read costs one relaxed load, and one relaxed store where it is the slot's first in a
//!      while. Nothing depends on the order of the stores: a note that comes late or is lost makes
//!      a block go home earlier than it might, no more.

use crate::threads::sync::{AtomicU32, Ordering};

/// Bits of a note below the time.
const READ: u32 = 1;

/// The notes of all slots.
#[derive(Debug)]
pub(crate) struct LastUse {
    slots: Box<[AtomicU32]>,
    now: AtomicU32,
}

impl LastUse {
    /// Notes for this number of slots; none if nothing is ever looked up.
    pub(crate) fn of(slots: usize) -> Self {
        Self { slots: (0..slots).map(|_| AtomicU32::new(0)).collect(), now: AtomicU32::new(1) }
    }

    /// Whether anything is noted.
    #[inline]
    pub(crate) fn is_kept(&self) -> bool {
        !self.slots.is_empty()
    }

    fn note(&self, slot: u32, kind: u32) {
        let Some(last_use) = self.slots.get(slot as usize) else { return };
        let now = self.now.load(Ordering::Relaxed) << 1 | kind;
        if last_use.load(Ordering::Relaxed) != now {
            last_use.store(now, Ordering::Relaxed);
        }
    }

    #[inline]
    pub(crate) fn note_read(&self, slot: u32) {
        self.note(slot, READ);
    }

    /// Another content comes to a slot: what was read there before does not count.
    #[inline]
    pub(crate) fn note_write(&self, slot: u32) {
        self.note(slot, 0);
    }

    /// When a slot was used last.
    pub(crate) fn when(&self, slot: u32) -> u32 {
        self.slots.get(slot as usize).map_or(0, |last_use| last_use.load(Ordering::Relaxed))
    }

    /// Time goes on.
    pub(crate) fn advance(&self) {
        self.now.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_counts_as_used_later_than_what_is_written_until_time_goes_on() {
        let uses = LastUse::of(3);
        (0..3).for_each(|slot| uses.note_write(slot));
        uses.note_read(1);
        assert!(uses.when(1) > uses.when(0) && uses.when(0) == uses.when(2));
        uses.advance();
        uses.note_write(2);
        assert!(uses.when(2) > uses.when(1));
        uses.note_write(1);
        assert_eq!(uses.when(1), uses.when(2), "another content was not read yet");
        uses.note_read(7);
        assert_eq!(uses.when(7), 0, "there is no such slot");
        assert!(uses.is_kept() && !LastUse::of(0).is_kept());
    }
}
