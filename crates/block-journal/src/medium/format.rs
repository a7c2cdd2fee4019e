//! An empty journal is made.

use alloc::vec;
use alloc::vec::Vec;

use journal_core::{BlockDevice, BlockNumber};

use crate::config::Config;
use crate::error::FormatError;
use crate::medium::superblock::{RING_BLOCKS_MIN, SUPERBLOCKS, Superblock};

/// Blocks that are zeroed by one call.
const ZEROED: u64 = 64;

/// Makes an empty journal on `journal`, for a store whose blocks are on `home`. The store's blocks
/// stay as they are.
///
/// **Crash**: there is no journal, or a whole one; whatever journal was there is gone from the
/// first write on.
pub(crate) fn format(
    journal: &mut impl BlockDevice,
    home: &impl BlockDevice,
    config: Config,
) -> Result<(), FormatError> {
    let block_size = journal.block_size();
    if home.block_size() != block_size {
        return Err(FormatError::BlockSizesDiffer);
    }
    let room = journal.block_count().checked_sub(SUPERBLOCKS).ok_or(FormatError::DeviceTooSmall)?;
    let all = u32::try_from(room).unwrap_or(u32::MAX);
    let ring_blocks = config.ring_blocks.unwrap_or(all);
    if u64::from(ring_blocks) > room {
        return Err(FormatError::DeviceTooSmall);
    }
    if ring_blocks < RING_BLOCKS_MIN {
        return Err(FormatError::RingTooSmall);
    }
    // 1. What was there is no journal any more, and its blocks can be taken for nobody's.
    zero(journal, 0, SUPERBLOCKS)?;
    journal.sync()?;
    zero(journal, SUPERBLOCKS, u64::from(ring_blocks))?;
    journal.sync()?;
    // 2. Both copies of the superblock.
    let first = Superblock {
        id: config.id,
        generation: 0,
        sequence: 1,
        tail: 0,
        ring_blocks,
        home_blocks: home.block_count(),
        block_size,
        closed: true,
    };
    for generation in 0..SUPERBLOCKS {
        let copy = Superblock { generation, ..first };
        journal.write(copy.copy(), &copy.encode())?;
    }
    journal.sync()?;
    Ok(())
}

fn zero(device: &mut impl BlockDevice, first: u64, count: u64) -> Result<(), FormatError> {
    let bytes = device.block_size().bytes();
    let end = first.saturating_add(count);
    let mut next = first;
    while next < end {
        let some = end.saturating_sub(next).min(ZEROED);
        let zeroes: Vec<u8> = vec![0; bytes.saturating_mul(usize::try_from(some).unwrap_or(1))];
        device.write(BlockNumber(next), &zeroes)?;
        next = next.saturating_add(some);
    }
    Ok(())
}
