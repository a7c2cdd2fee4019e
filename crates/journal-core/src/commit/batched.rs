//! A block of a batch, in memory that the caller gives.

use zerocopy::little_endian::{U32, U64};

use crate::format::slot_entry::NamedSlot;
use crate::units::{BlockNumber, SlotNumber};

/// Room for one block of a checkpoint's batch, or for one that a transaction writes to the
/// disk-side log.
#[derive(Clone, Copy, Debug)]
pub struct Batched {
    pub(crate) block: BlockNumber,
    pub(crate) stamp: u64,
    pub(crate) needs_shield: bool,
    /// Its newest frame says that it is not live, and its home is no suspect: nothing is written.
    pub(crate) discarded: bool,
    /// Its newest frame is a change of what older ones say.
    pub(crate) is_chain: bool,
    /// Where it is a slot, or a block of the disk-side log, that is dealt with: which.
    pub(crate) slot: SlotNumber,
    /// The check of what is in the disk-side log.
    pub(crate) content: u64,
}

impl Batched {
    /// A place of a batch that has no block yet.
    pub const EMPTY: Self = Self {
        block: BlockNumber(0),
        stamp: 0,
        needs_shield: false,
        discarded: false,
        is_chain: false,
        slot: SlotNumber(0),
        content: 0,
    };

    /// Which block it is.
    #[must_use]
    pub const fn block(&self) -> BlockNumber {
        self.block
    }

    /// What was written to the disk-side log, and where.
    pub(crate) const fn logged(slot: SlotNumber, content: u64) -> Self {
        Self { slot, content, ..Self::EMPTY }
    }

    /// What a frame says of it.
    pub(crate) const fn named(self) -> NamedSlot {
        NamedSlot {
            content: U64::new(self.content),
            slot: U32::new(self.slot.raw()),
            reserved: U32::ZERO,
        }
    }
}
