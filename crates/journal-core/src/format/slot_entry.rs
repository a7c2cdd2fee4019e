//! The two structures that name a slot, or a block of the disk-side log: the payload of a frame,
//! and the entry beside the slots.

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::format::record::COUNTER_END;
use crate::ports::kernels::Kernels;
use crate::units::{BlockNumber, Stamp, WORD_BYTES};

/// What a frame says of a slot: the payload of [`Form::Slot`](crate::format::record::Form::Slot).
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct NamedSlot {
    /// The check of the slot's whole content, whose seed has the slot's number.
    pub content: U64,
    /// Which slot.
    pub slot: U32,
    /// Zero.
    pub reserved: U32,
}

/// What a slot holds, once its frame is folded.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct SlotEntry {
    /// Which block.
    pub block: U64,
    /// The stamp of the frame that was folded.
    pub stamp: U64,
    /// The check of the slot's whole content.
    pub content: U64,
    /// The check of all that and of the slot's number; zero where the entry is void.
    pub check: U64,
}

pub(crate) const NAMED_SLOT_BYTES: usize = size_of::<NamedSlot>();

pub(crate) const ENTRY_BYTES: usize = size_of::<SlotEntry>();

const _: () = assert!(NAMED_SLOT_BYTES == 16 && ENTRY_BYTES == 32);

/// The entry of a slot, as it was found on the medium.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FoundEntry {
    Whole(SlotEntry),
    Void,
    /// Neither: a crash tore it while it was being written, or it has rotted.
    Torn,
}

impl SlotEntry {
    /// Whether what it says can be.
    pub(crate) fn is_sane(&self, device_blocks: u64) -> bool {
        let stamps = 1..COUNTER_END;
        self.block.get() < device_blocks && stamps.contains(&self.stamp.get())
    }

    /// What these bytes are as the entry of a slot.
    pub(crate) fn found(self, kernels: &impl Kernels, seed: u64) -> FoundEntry {
        match self.check.get() {
            0 => FoundEntry::Void,
            check if check == self.right_check(kernels, seed) => FoundEntry::Whole(self),
            _ => FoundEntry::Torn,
        }
    }

    pub(crate) fn new(block: BlockNumber, stamp: Stamp, content: u64) -> Self {
        Self {
            block: block.raw().into(),
            stamp: stamp.raw().into(),
            content: content.into(),
            check: 0.into(),
        }
    }

    /// Its check, which is never zero.
    pub(crate) fn right_check(&self, kernels: &impl Kernels, seed: u64) -> u64 {
        let bytes = self.as_bytes();
        let body = bytes.get(..bytes.len().saturating_sub(WORD_BYTES)).unwrap_or_default();
        let check = kernels.crc64(seed, body);
        if check == 0 { u64::MAX } else { check }
    }
}
