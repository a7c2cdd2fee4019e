//! The superblock: two copies, written in turn, so that a torn write leaves one whole.

use alloc::vec;
use alloc::vec::Vec;

use journal_core::{BlockDevice, BlockNumber, BlockSize, DeviceError};

use crate::error::{Damage, OpenError};
use crate::medium::layout::{self, Kind};

/// Blocks before the ring.
pub(crate) const SUPERBLOCKS: u64 = 2;
/// Revoke, descriptor, image and commit block.
pub const RING_BLOCKS_MIN: u32 = 4;
pub(crate) const VERSION: u16 = 1;
/// Bytes that are checked; what lies behind them in the block is zero and not looked at.
const BYTES: usize = 64;

/// What recovery believes before it reads the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Superblock {
    pub(crate) id: u64,
    /// Raised by every write; odd ones are in block 1.
    pub(crate) generation: u64,
    /// The oldest transaction that is not home.
    pub(crate) sequence: u64,
    /// Where in the ring it begins.
    pub(crate) tail: u32,
    pub(crate) ring_blocks: u32,
    pub(crate) home_blocks: u64,
    pub(crate) block_size: BlockSize,
    pub(crate) closed: bool,
}

impl Superblock {
    /// The block as it lies on the device.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut head = [0; BYTES];
        layout::put(&mut head, 24, &self.id.to_le_bytes());
        layout::put(&mut head, 32, &self.generation.to_le_bytes());
        layout::put(&mut head, 40, &self.home_blocks.to_le_bytes());
        layout::put(&mut head, 48, &self.ring_blocks.to_le_bytes());
        layout::put(&mut head, 52, &self.tail.to_le_bytes());
        layout::put(&mut head, 56, &VERSION.to_le_bytes());
        let shift = u8::try_from(self.block_size.bytes().trailing_zeros()).unwrap_or_default();
        layout::put(&mut head, 58, &[shift, u8::from(self.closed)]);
        layout::seal(&mut head, Kind::Superblock, self.sequence, 0);
        let mut block = vec![0; self.block_size.bytes()];
        layout::put(&mut block, 0, &head);
        block
    }

    /// The copy in a block; `None` where there is no whole one.
    fn decode(block: &[u8]) -> Option<Result<Self, OpenError>> {
        let head = block.get(..BYTES)?;
        let header = layout::header(head, 0).filter(|header| header.kind == Kind::Superblock)?;
        let version = layout::u16_at(head, 56)?;
        if version != VERSION {
            return Some(Err(OpenError::Version(version)));
        }
        let shift = u32::from(*head.get(58)?);
        let block_size = 1_u32.checked_shl(shift).and_then(BlockSize::new);
        let Some(block_size) = block_size else { return Some(Err(OpenError::WrongDevices)) };
        Some(Ok(Self {
            id: layout::u64_at(head, 24)?,
            generation: layout::u64_at(head, 32)?,
            sequence: header.sequence,
            tail: layout::u32_at(head, 52)?,
            ring_blocks: layout::u32_at(head, 48)?,
            home_blocks: layout::u64_at(head, 40)?,
            block_size,
            closed: *head.get(59)? == 1,
        }))
    }

    /// Where the copy of this generation lies.
    pub(crate) const fn copy(&self) -> BlockNumber {
        BlockNumber(self.generation % SUPERBLOCKS)
    }

    /// The newer of the whole copies, which has to suit the devices.
    pub(crate) fn load(
        journal: &mut impl BlockDevice,
        home: &impl BlockDevice,
    ) -> Result<Self, OpenError> {
        let newest = Self::newest(journal)?.ok_or(OpenError::NotAJournal)??;
        let devices = (journal.block_size(), home.block_size(), home.block_count());
        let expected = (newest.block_size, newest.block_size, newest.home_blocks);
        let end = SUPERBLOCKS.saturating_add(u64::from(newest.ring_blocks));
        if devices != expected || end > journal.block_count() {
            return Err(OpenError::WrongDevices);
        }
        if newest.ring_blocks < RING_BLOCKS_MIN || newest.tail >= newest.ring_blocks {
            let (sequence, damage) = (newest.sequence, Damage::Superblock);
            return Err(OpenError::Damaged { sequence, damage });
        }
        Ok(newest)
    }

    fn newest(
        journal: &mut impl BlockDevice,
    ) -> Result<Option<Result<Self, OpenError>>, DeviceError> {
        if journal.block_count() < SUPERBLOCKS {
            return Ok(None);
        }
        let mut newest: Option<Result<Self, OpenError>> = None;
        let mut block = vec![0; journal.block_size().bytes()];
        for copy in 0..SUPERBLOCKS {
            journal.read(BlockNumber(copy), &mut block)?;
            let found = Self::decode(&block);
            newest = match (newest, found) {
                (Some(Ok(known)), Some(Ok(found))) if found.generation > known.generation => {
                    Some(Ok(found))
                }
                // A copy that can be used goes before one that cannot.
                (None | Some(Err(_)), Some(found)) => Some(found),
                (newest, _) => newest,
            };
        }
        Ok(newest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let written = Superblock {
            id: 1,
            generation: 2,
            sequence: 3,
            tail: 4,
            ring_blocks: 5,
            home_blocks: 6,
            block_size: BlockSize::DEFAULT,
            closed: true,
        };
        let block = written.encode();
        assert_eq!(block.len(), 4096);
        assert_eq!(Superblock::decode(&block), Some(Ok(written)));
        for bit in 0..BYTES * 8 {
            let mut changed = block.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Superblock::decode(&changed), None, "bit {bit}");
        }
    }
}
