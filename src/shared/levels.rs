//! How little free room makes the upkeep begin, and when it is asked for.
//!
//! There are two stages: room is reclaimed in the memory first, and blocks are written home only
//! where that was not enough. Each has its threshold ([`Thresholds`]).
//!
//! Where reclaiming leaves too little, and too much to write home, it is not tried again at every
//! commit. It is asked for again when a thirty-second part more is used.

use journal_core::Geometry;
use journal_core::policy::Thresholds;

use crate::threads::sync::{AtomicU64, Ordering};

/// The part of all room that is used up before reclaiming is tried again, where it was in vain.
const AGAIN_AFTER: u64 = 32;

/// Where a step that was taken ahead of need has freed nothing, this number of records comes before
/// the next one.
const STEP_AGAIN_AFTER: u64 = 64;

/// What the upkeep does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Frees what needs no write to the device.
    Reclaim,
    /// Writes home.
    WriteHome,
}

/// Room in a lane: of its ring, of its slots, and of its disk-side log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Room {
    pub(crate) bytes: u64,
    pub(crate) slots: u64,
    pub(crate) log_blocks: u64,
}

impl Room {
    const fn of(geometry: &Geometry) -> Self {
        Self {
            bytes: geometry.lane_bytes,
            slots: geometry.lane_slots as u64,
            log_blocks: geometry.lane_log_blocks as u64,
        }
    }

    /// What is left of it where `used` 256ths are used. 255 means all: nothing is left.
    fn left_at(self, used: u8) -> Self {
        let free = if used == u8::MAX { 0 } else { 256 - u64::from(used) };
        Self {
            bytes: self.bytes / 256 * free,
            // The thread in the background is asked for the last one at the latest.
            slots: (self.slots * free / 256).max(1).min(self.slots),
            log_blocks: (self.log_blocks * free / 256).max(1).min(self.log_blocks),
        }
    }
}

/// The levels of a journal. They are the same for all its lanes.
#[derive(Debug)]
pub(crate) struct Levels {
    all: Room,
    reclaim: Room,
    write_home: Room,
    /// The share of what comes free that copies may take, in 256ths.
    pub(crate) copied: u8,
    asks: [AtomicU64; 3],
    /// The number of records before which no step is taken ahead of need.
    steps_from: AtomicU64,
}

impl Levels {
    pub(crate) fn new(geometry: &Geometry, thresholds: Thresholds) -> Self {
        let all = Room::of(geometry);
        let reclaim = all.left_at(thresholds.reclaim_at);
        let write_home = all.left_at(thresholds.checkpoint_at);
        let asks = core::array::from_fn(|_| AtomicU64::new(0));
        let (copied, steps_from) = (thresholds.copied, AtomicU64::new(0));
        let levels = Self { all, reclaim, write_home, copied, asks, steps_from };
        levels.note_left(all);
        levels
    }

    /// The room below which a stage begins.
    pub(crate) const fn of(&self, stage: Stage) -> Room {
        match stage {
            Stage::Reclaim => self.reclaim,
            Stage::WriteHome => self.write_home,
        }
    }

    /// The bytes that a checkpoint which makes room leaves free in a ring: beside those of the
    /// threshold a quarter of all others. So the next one does not come at once.
    pub(crate) const fn left_behind_checkpoint(&self) -> u64 {
        self.write_home.bytes + (self.all.bytes - self.write_home.bytes) / 4
    }

    /// A lane that has fewer free bytes asks for the upkeep.
    #[inline(always)]
    pub(crate) fn asks_below_bytes(&self) -> u64 {
        self.asks[0].load(Ordering::Relaxed)
    }

    /// A lane that has fewer free slots asks for the upkeep.
    #[inline(always)]
    pub(crate) fn asks_below_slots(&self) -> u64 {
        self.asks[1].load(Ordering::Relaxed)
    }

    /// A lane that has fewer free blocks in the disk-side log asks for the upkeep.
    #[inline(always)]
    pub(crate) fn asks_below_log_blocks(&self) -> u64 {
        self.asks[2].load(Ordering::Relaxed)
    }

    /// Whether a step that is taken ahead of need may free something, where lanes have this number
    /// of records in all.
    pub(crate) fn may_step_at(&self, records: u64) -> bool {
        records >= self.steps_from.load(Ordering::Relaxed)
    }

    /// Notes whether such a step has freed something.
    pub(crate) fn note_step_at(&self, records: u64, has_freed: bool) {
        let from = if has_freed { 0 } else { records.saturating_add(STEP_AGAIN_AFTER) };
        self.steps_from.store(from, Ordering::Relaxed);
    }

    /// Notes what the upkeep has left free in the lane that has least.
    pub(crate) fn note_left(&self, left: Room) {
        let of = |room: fn(&Room) -> u64| {
            let (all, reclaim) = (room(&self.all), room(&self.reclaim));
            let (write_home, left) = (room(&self.write_home), room(&left));
            let again = left.saturating_sub(all / AGAIN_AFTER);
            if left >= reclaim { reclaim.max(write_home) } else { write_home.max(again) }
        };
        let rooms = [of(|room| room.bytes), of(|room| room.slots), of(|room| room.log_blocks)];
        for (asks, room) in self.asks.iter().zip(rooms) {
            asks.store(room, Ordering::Relaxed);
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use journal_core::{BlockSize, Geometry, Protocol};

    use super::*;

    fn levels(reclaim_at: u8, checkpoint_at: u8) -> Levels {
        let geometry = Geometry {
            block_size: BlockSize::DEFAULT,
            lanes: 1,
            lane_bytes: 1 << 20,
            shield_blocks: 0,
            unit_bytes: 4096,
            protocol: Protocol::OneFence,
            lane_slots: 256,
            lane_log_blocks: 0,
            segment_blocks: 0,
        };
        Levels::new(&geometry, Thresholds::new(reclaim_at, checkpoint_at))
    }

    #[test]
    fn the_earlier_threshold_asks_first() {
        let levels = levels(128, 192);
        assert_eq!((levels.asks_below_bytes(), levels.asks_below_slots()), (512 << 10, 128));
        assert_eq!(levels.of(Stage::WriteHome).slots, 64);
    }

    #[test]
    fn reclaiming_in_vain_is_not_tried_at_once_again() {
        let levels = levels(128, 192);
        levels.note_left(Room { bytes: 1 << 20, slots: 100, log_blocks: 0 });
        assert_eq!(levels.asks_below_slots(), 100 - 256 / AGAIN_AFTER);
        levels.note_left(Room { bytes: 1 << 20, slots: 66, log_blocks: 0 });
        assert_eq!(levels.asks_below_slots(), 64, "blocks go home there");
        levels.note_left(Room { bytes: 1 << 20, slots: 200, log_blocks: 0 });
        assert_eq!(levels.asks_below_slots(), 128);
    }

    #[test]
    fn a_threshold_of_255_waits_until_nothing_is_left() {
        let last = Room { bytes: 0, slots: 1, log_blocks: 0 };
        assert_eq!(levels(255, 192).of(Stage::Reclaim), last);
        assert_eq!(levels(255, 255).asks_below_bytes(), 0);
    }
}
