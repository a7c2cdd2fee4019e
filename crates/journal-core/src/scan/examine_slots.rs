//! Looking at slots without touching them, and without an index.
//!
//! What is seen is each slot's entry, and whether the slot holds what the entry says. Which slots
//! count only an open can tell. A slot whose entry is void may be free, or be named by a record. A
//! slot that holds something else than its entry says may have been written again for a newer
//! record, or have rotted.
//!
//! **Crash**: nothing happens here that one could interrupt.

use zerocopy::{FromZeros as _, IntoBytes as _};

use crate::format::geometry::Geometry;
use crate::format::identity::{CheckSeeds, Identity};
use crate::format::slot_entry::{ENTRY_BYTES, FoundEntry, SlotEntry};
use crate::order::source::{Source, SpanView};
use crate::ports::error::{MediumError, MediumErrorKind};
use crate::ports::kernels::Kernels;
use crate::ports::pmem::Pmem;
use crate::scan::error::OpenError;
use crate::space::superblocks::load;
use crate::units::{BlockNumber, LaneNumber, Offset, SlotNumber, Stamp};

/// What a slot was seen to be, or a block of the disk-side log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SlotSight {
    /// Its entry is whole. A slot holds what that says; what a block of the log holds was not
    /// looked at.
    Whole {
        /// The block that has this content.
        block: BlockNumber,
        /// Its place in the order of versions.
        stamp: Stamp,
    },
    /// Its entry is whole, and the slot holds something else.
    Changed {
        /// Of which block the entry speaks.
        block: BlockNumber,
        /// Of which of its versions.
        stamp: Stamp,
    },
    /// Its entry is void: it is free, or what it holds is in a record.
    Void,
    /// Its entry is neither whole nor void. An open voids it where a record names the slot, and
    /// refuses the journal otherwise.
    Torn,
    /// Its entry is whole and cannot be. An open refuses the journal.
    Rotten,
    /// The slot or its entry cannot be read.
    Missing,
}

/// How many of a lane's slots, or of its blocks of the disk-side log, were seen to be what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SlotSights {
    /// [`SlotSight::Whole`].
    pub whole: u32,
    /// [`SlotSight::Changed`].
    pub changed: u32,
    /// [`SlotSight::Void`].
    pub void: u32,
    /// [`SlotSight::Torn`].
    pub torn: u32,
    /// [`SlotSight::Rotten`].
    pub rotten: u32,
    /// [`SlotSight::Missing`].
    pub missing: u32,
}

impl SlotSights {
    pub(crate) const NONE: Self =
        Self { whole: 0, changed: 0, void: 0, torn: 0, rotten: 0, missing: 0 };

    pub(crate) fn count(&mut self, sight: SlotSight) {
        let count = match sight {
            SlotSight::Whole { .. } => &mut self.whole,
            SlotSight::Changed { .. } => &mut self.changed,
            SlotSight::Void => &mut self.void,
            SlotSight::Torn => &mut self.torn,
            SlotSight::Rotten => &mut self.rotten,
            SlotSight::Missing => &mut self.missing,
        };
        *count = count.saturating_add(1);
    }
}

/// Looks at every slot of the journal in `pmem`, and every block of its disk-side log, in the order
/// of their numbers. It looks once at each entry, and once at each slot whose entry is whole.
///
/// # Errors
/// `Superblock` and `Geometry` where there is nothing to look at, and `Medium` where a read fails
/// that may succeed later.
pub fn examine_slots(
    pmem: &impl Pmem,
    kernels: &impl Kernels,
    mut each: impl FnMut(SlotNumber, SlotSight),
) -> Result<(), OpenError> {
    let whole = SpanView::of(&pmem);
    let (_, superblock) = load(&whole, kernels)?;
    let geometry = superblock.geometry()?;
    geometry.check_fits(pmem.len()).map_err(OpenError::Geometry)?;
    let sights = Sights {
        whole: &whole,
        geometry: &geometry,
        kernels,
        seeds: Identity::of(&superblock.header, kernels).seeds,
        device_blocks: superblock.header.device_blocks.get(),
    };
    for lane in (0..geometry.lanes).map(LaneNumber) {
        sights.of_lane(lane, |slot, _, sight| each(slot, sight))?;
    }
    Ok(())
}

/// What it takes to look at slots.
pub(crate) struct Sights<'a, S, K> {
    pub(crate) whole: &'a SpanView<'a, S>,
    pub(crate) geometry: &'a Geometry,
    pub(crate) kernels: &'a K,
    pub(crate) seeds: CheckSeeds,
    pub(crate) device_blocks: u64,
}

impl<S: Source, K: Kernels> Sights<'_, S, K> {
    /// Looks at all of a lane; says of each also whether it is a block of the log.
    pub(crate) fn of_lane(
        &self,
        lane: LaneNumber,
        mut each: impl FnMut(SlotNumber, bool, SlotSight),
    ) -> Result<(), MediumError> {
        let count = self.geometry.lane_slots_and_log();
        let first = count.saturating_mul(lane.raw().into());
        for at in 0..count {
            let number = u32::try_from(first.saturating_add(at)).unwrap_or(u32::MAX);
            let (slot, is_logged) = (SlotNumber(number), at >= self.geometry.lane_slots.into());
            let sight = match self.of_slot(lane, slot, at, is_logged) {
                Err(error) if error.kind == MediumErrorKind::Poisoned => SlotSight::Missing,
                sight => sight?,
            };
            each(slot, is_logged, sight);
        }
        Ok(())
    }

    fn of_slot(
        &self,
        lane: LaneNumber,
        slot: SlotNumber,
        at: u64,
        is_logged: bool,
    ) -> Result<SlotSight, MediumError> {
        let mut entry = SlotEntry::new_zeroed();
        let before = at.saturating_mul(ENTRY_BYTES as u64);
        let start = self.geometry.slot_entries_of(lane).raw().saturating_add(before);
        self.whole.read_into(Offset(start), entry.as_mut_bytes())?;
        let entry = match entry.found(self.kernels, self.seeds.entry(slot)) {
            FoundEntry::Void => return Ok(SlotSight::Void),
            FoundEntry::Torn => return Ok(SlotSight::Torn),
            FoundEntry::Whole(entry) if !entry.is_sane(self.device_blocks) => {
                return Ok(SlotSight::Rotten);
            }
            FoundEntry::Whole(entry) => entry,
        };
        let (block, stamp) = (BlockNumber(entry.block.get()), Stamp(entry.stamp.get()));
        let is_as_said = is_logged || {
            let bytes = self.geometry.block_size.bytes();
            let before = at.saturating_mul(bytes as u64);
            let start = self.geometry.slots_of(lane).raw().saturating_add(before);
            let content = self.whole.bytes(Offset(start), bytes)?;
            self.kernels.crc64(self.seeds.content(slot), content) == entry.content.get()
        };
        Ok(match is_as_said {
            true => SlotSight::Whole { block, stamp },
            false => SlotSight::Changed { block, stamp },
        })
    }
}
