//! Making room in a replayed journal, as the policy says: by its thresholds, and in the order in
//! which giving something up costs more.
//!
//! - A ring alone: what is alive at its head is copied, while that frees more than it takes; then
//!   everything goes home.
//! - With slots: rings are folded; then older versions are given back; then everything goes home,
//!   or, where slots are where content lives, first what the rings would have to keep, and then
//!   slots, those written longest ago, until there are enough.
//! - With the disk-side log: the same, with its blocks in the place of slots. Where they are short,
//!   segments are cleaned; where it is the ring, what it would have to keep goes home.

use journal_core::{FoldReport, Policy as _};

use crate::replay::run::{LANE, Replay, ReplayError};
use crate::trace::versions::GivenUp;

impl Replay<'_> {
    fn has_places(&self) -> bool {
        self.journal.geometry().lane_places() > 0
    }

    /// Whether more of the ring is in use than a threshold says, in 256ths.
    fn ring_is_above(&self, threshold: u8) -> bool {
        let capacity = self.journal.geometry().lane_bytes;
        self.used * 256 >= capacity * u64::from(threshold)
    }

    /// Whether more slots are in use than a threshold says, or `needed` more do not fit.
    fn slots_are_above(&self, threshold: u8, needed: u64) -> bool {
        let slots = self.journal.geometry().lane_slots.into();
        let used = if slots == 0 { 0 } else { self.versions.count() };
        // What never fits has to go elsewhere.
        let is_short = used + needed.min(slots) > slots;
        slots > 0 && (used * 256 >= slots * u64::from(threshold) || is_short)
    }

    /// Like `slots_are_above`, for blocks of the disk-side log. One that is given back counts until
    /// all of its segment is.
    fn log_is_above(&self, threshold: u8, needed: u64) -> bool {
        let blocks = self.journal.geometry().log_blocks();
        let used = blocks - self.journal.free_log_blocks(LANE).map_or(0, u64::from);
        let is_short = used + needed.min(blocks) > blocks;
        blocks > 0 && (used * 256 >= blocks * u64::from(threshold) || is_short)
    }

    fn is_above(&self, threshold: u8, needed: u64) -> bool {
        self.ring_is_above(threshold)
            || self.slots_are_above(threshold, needed)
            || self.log_is_above(threshold, needed)
    }

    /// Makes room where thresholds are exceeded, or where slots or blocks of the log are too few
    /// for `needed` blocks.
    pub fn make_room(&mut self, needed: u64) -> Result<(), ReplayError> {
        let thresholds = self.known.policy.thresholds();
        if !self.has_places() {
            self.copy_live(thresholds.reclaim_at)?;
            if self.ring_is_above(thresholds.checkpoint_at) {
                self.checkpoint()?;
            }
            return Ok(());
        }
        let at = thresholds.reclaim_at;
        if !self.is_above(at, needed) {
            return Ok(());
        }
        self.fold()?;
        // What is in the ring itself holds it back, and with it versions that no entry speaks of.
        let records = self.counter.records();
        let are_held = records.images + records.encoded > 0;
        if are_held || self.is_above(at, needed) {
            self.collect()?;
        }
        let at = thresholds.checkpoint_at;
        if !self.is_above(at, needed) {
            return Ok(());
        }
        if !self.known.policy.keeps_in_slots() {
            return self.checkpoint();
        }
        while self.log_is_above(at, needed) && self.clean_log()? > 0 {}
        if !self.is_above(at, needed) {
            return Ok(());
        }
        self.checkpoint_rings()?;
        while self.slots_are_above(at, needed) {
            if self.evict()? == 0 {
                break;
            }
        }
        Ok(())
    }

    /// Makes all the room there can be in the ring, for a record that does not fit.
    pub fn empty_lane(&mut self) -> Result<(), ReplayError> {
        if self.has_places() && self.known.policy.keeps_in_slots() {
            self.fold()?;
            self.collect()?;
            self.checkpoint_rings()
        } else {
            self.checkpoint()
        }
    }

    fn copy_live(&mut self, threshold: u8) -> Result<(), ReplayError> {
        while self.ring_is_above(threshold) {
            let report = self.journal.relog(LANE).map_err(ReplayError::Journal)?;
            if report.freed_bytes == 0 {
                break;
            }
            self.figures.made.reclaims += 1;
            self.figures.made.copied += report.copied_bytes;
            self.used = self.used + report.copied_bytes - report.freed_bytes;
        }
        Ok(())
    }

    /// Notes what was given up, in all books.
    fn give_up(&mut self, what: GivenUp<'_>) {
        self.to_be_freed += self.versions.give_up(what);
        self.bound.given_up(what);
    }

    fn took(&mut self, report: FoldReport) {
        self.used -= report.freed_bytes;
        self.freed += report.freed_slots;
    }

    /// Compares the books with what the journal has said so far.
    ///
    /// A block of the log whose content went home is not free before older frames of it have left
    /// the ring: until that is empty, there may be fewer.
    fn check_freed(&self, ring_is_empty: bool) -> Result<(), ReplayError> {
        let (freed, expected) = (self.freed, self.to_be_freed);
        let may_be_fewer = self.known.has_log() && !ring_is_empty;
        if freed == expected || (freed < expected && may_be_fewer) {
            return Ok(());
        }
        Err(ReplayError::Misfreed { freed, expected })
    }

    fn fold(&mut self) -> Result<(), ReplayError> {
        let report = self.journal.fold().map_err(ReplayError::Journal)?;
        self.figures.made.folds += 1;
        self.took(report);
        self.give_up(GivenUp::Folded);
        Ok(())
    }

    fn collect(&mut self) -> Result<(), ReplayError> {
        let report = self.journal.collect_garbage().map_err(ReplayError::Journal)?;
        self.figures.made.collections += 1;
        self.took(report);
        self.give_up(GivenUp::Superseded);
        self.check_freed(false)
    }

    /// Everything goes home.
    pub fn checkpoint(&mut self) -> Result<(), ReplayError> {
        let report = self.journal.checkpoint().map_err(ReplayError::Journal)?;
        self.figures.made.checkpoints += 1;
        self.figures.made.shielded += report.shielded;
        self.used -= report.freed_bytes;
        self.freed += report.freed_slots;
        drop(self.counter.take_homed());
        self.give_up(GivenUp::All);
        self.check_freed(true)
    }

    /// What rings would have to keep goes home. Nothing older is left by then.
    fn checkpoint_rings(&mut self) -> Result<(), ReplayError> {
        let report = self.journal.checkpoint_rings().map_err(ReplayError::Journal)?;
        self.figures.made.ring_checkpoints += 1;
        self.figures.made.shielded += report.shielded;
        // The fold before it has freed some as well.
        self.used = 0;
        self.freed += report.freed_slots;
        let homed = self.counter.take_homed();
        self.give_up(GivenUp::Folded);
        self.give_up(GivenUp::Home(&homed));
        self.check_freed(true)
    }

    /// What is left in a segment of the log goes home; returns how many of its blocks became free.
    fn clean_log(&mut self) -> Result<u64, ReplayError> {
        let report = self.journal.clean_log().map_err(ReplayError::Journal)?;
        self.figures.made.cleanings += 1;
        self.figures.made.shielded += report.shielded;
        self.used -= report.freed_bytes;
        self.freed += report.freed_slots;
        let homed = self.counter.take_homed();
        self.give_up(GivenUp::Superseded);
        self.give_up(GivenUp::Home(&homed));
        self.check_freed(false)?;
        Ok(report.freed_slots)
    }

    /// A batch of slots goes home; returns how many became free.
    fn evict(&mut self) -> Result<u64, ReplayError> {
        let report = self.journal.evict().map_err(ReplayError::Journal)?;
        self.figures.made.evictions += 1;
        self.figures.made.shielded += report.shielded;
        self.freed += report.freed_slots;
        let homed = self.counter.take_homed();
        self.give_up(GivenUp::Home(&homed));
        self.check_freed(false)?;
        Ok(report.freed_slots)
    }
}
