//! Two disks as one: the store's, and one for the disk-side log.

use core::fmt;

use journal_core::block_device::{check_request, check_run};
use journal_core::{
    BlockDevice, BlockNumber, BlockSize, DeviceError, DeviceFacts, DeviceOperation, Overwrite,
};

/// A disk whose last blocks lie on another one.
///
/// A journal keeps its disk-side log in the last blocks of its disk
/// ([`Options::lane_log_blocks`](crate::Options::lane_log_blocks)). To keep the log apart, join to
/// the store's disk one that has as many blocks as the log.
///
/// A store on two disks keeps its size: [`Options::resizes`](crate::Options::resizes) is refused.
///
/// ```no_run
/// use nvm_journal::{BlockSize, FileDisk, Joined};
///
/// let store = FileDisk::open("store.img", BlockSize::DEFAULT)?;
/// let log = FileDisk::open("log.img", BlockSize::DEFAULT)?;
/// let disk = Joined::new(store, log)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Joined<A, B> {
    front: A,
    behind: B,
    front_blocks: u64,
}

impl<A: BlockDevice, B: BlockDevice> Joined<A, B> {
    /// Joins two disks: the blocks of `front`, and behind them those of `behind`.
    ///
    /// # Errors
    /// [`DifferentBlocks`], when their blocks are not of one size.
    pub fn new(front: A, behind: B) -> Result<Self, DifferentBlocks> {
        if front.block_size() != behind.block_size() {
            let (front, behind) = (front.block_size(), behind.block_size());
            return Err(DifferentBlocks { front, behind });
        }
        let front_blocks = front.block_count();
        Ok(Self { front, behind, front_blocks })
    }

    /// Splits a request. Returns how many of its bytes lie on the first disk, and the block of the
    /// second disk where the rest begins.
    fn split(
        &self,
        operation: DeviceOperation,
        first: BlockNumber,
        bytes: usize,
    ) -> Result<(usize, BlockNumber), DeviceError> {
        let shape = (self.block_size(), self.block_count());
        let blocks = check_request(operation, shape, first, bytes)?;
        let in_front = self.front_blocks.saturating_sub(first.raw()).min(blocks);
        let behind = BlockNumber((first.raw() + in_front).saturating_sub(self.front_blocks));
        Ok((in_front as usize * self.block_size().bytes(), behind))
    }

    /// Restates what the second disk says of its own blocks, in numbers of all blocks.
    fn renumbered(&self, error: DeviceError) -> DeviceError {
        let block = BlockNumber(error.block.raw().saturating_add(self.front_blocks));
        DeviceError { block, ..error }
    }
}

impl<A: BlockDevice, B: BlockDevice> BlockDevice for Joined<A, B> {
    fn facts(&self) -> DeviceFacts {
        let (front, behind) = (self.front.facts(), self.behind.facts());
        let worst = [Overwrite::MayLeaveGarbage, Overwrite::OldOrNew, Overwrite::NeverInPlace];
        let has = |how: &Overwrite| front.overwrite == *how || behind.overwrite == *how;
        let overwrite = worst.into_iter().find(has).unwrap_or(Overwrite::MayLeaveGarbage);
        let unit = front.atomic_unit_bytes.min(behind.atomic_unit_bytes);
        DeviceFacts::new(unit, overwrite)
    }

    fn block_size(&self) -> BlockSize {
        self.front.block_size()
    }

    fn block_count(&self) -> u64 {
        self.front_blocks.saturating_add(self.behind.block_count())
    }

    /// No: where the first disk has become larger, the blocks of the second one have other numbers.
    fn may_resize(&self) -> bool {
        false
    }

    fn read(&mut self, first: BlockNumber, into: &mut [u8]) -> Result<(), DeviceError> {
        let (bytes, behind) = self.split(DeviceOperation::Read, first, into.len())?;
        let (in_front, rest) = into.split_at_mut(bytes);
        if !in_front.is_empty() {
            self.front.read(first, in_front)?;
        }
        if rest.is_empty() {
            return Ok(());
        }
        let read = self.behind.read(behind, rest);
        read.map_err(|error| self.renumbered(error))
    }

    fn write(&mut self, first: BlockNumber, from: &[u8]) -> Result<(), DeviceError> {
        let (bytes, behind) = self.split(DeviceOperation::Write, first, from.len())?;
        let (in_front, rest) = from.split_at(bytes);
        if !in_front.is_empty() {
            self.front.write(first, in_front)?;
        }
        if rest.is_empty() {
            return Ok(());
        }
        let written = self.behind.write(behind, rest);
        written.map_err(|error| self.renumbered(error))
    }

    fn write_vectored(&mut self, first: BlockNumber, from: &[&[u8]]) -> Result<(), DeviceError> {
        let bytes = from.iter().map(|part| part.len()).sum();
        let (in_front, behind) = self.split(DeviceOperation::Write, first, bytes)?;
        if in_front == bytes {
            return self.front.write_vectored(first, from);
        }
        if in_front == 0 {
            let written = self.behind.write_vectored(behind, from);
            return written.map_err(|error| self.renumbered(error));
        }
        let mut next = first;
        for part in from {
            self.write(next, part)?;
            next = BlockNumber(next.raw() + (part.len() / self.block_size().bytes()) as u64);
        }
        Ok(())
    }

    fn discard(&mut self, first: BlockNumber, blocks: u64) -> Result<(), DeviceError> {
        let in_front = self.front_blocks.saturating_sub(first.raw()).min(blocks);
        if in_front > 0 {
            self.front.discard(first, in_front)?;
        }
        if in_front == blocks {
            return Ok(());
        }
        let behind = (first.raw() + in_front).saturating_sub(self.front_blocks);
        let done = self.behind.discard(BlockNumber(behind), blocks - in_front);
        done.map_err(|error| self.renumbered(error))
    }

    fn write_zeroes(&mut self, first: BlockNumber, blocks: u64) -> Result<(), DeviceError> {
        check_run(DeviceOperation::Write, self.block_count(), first, blocks)?;
        let in_front = self.front_blocks.saturating_sub(first.raw()).min(blocks);
        if in_front > 0 {
            self.front.write_zeroes(first, in_front)?;
        }
        if in_front == blocks {
            return Ok(());
        }
        let behind = (first.raw() + in_front).saturating_sub(self.front_blocks);
        let done = self.behind.write_zeroes(BlockNumber(behind), blocks - in_front);
        done.map_err(|error| self.renumbered(error))
    }

    fn sync(&mut self) -> Result<(), DeviceError> {
        self.front.sync()?;
        self.behind.sync().map_err(|error| self.renumbered(error))
    }
}

/// Two disks that have blocks of different sizes cannot be joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DifferentBlocks {
    /// The block size of the first disk.
    pub front: BlockSize,
    /// The block size of the second disk.
    pub behind: BlockSize,
}

impl fmt::Display for DifferentBlocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (front, behind) = (self.front.bytes(), self.behind.bytes());
        write!(f, "disks with blocks of {front} and of {behind} bytes cannot be joined")
    }
}

impl core::error::Error for DifferentBlocks {}

#[cfg(test)]
mod tests {
    use journal_core::DeviceErrorKind;

    use super::*;

    /// A disk in memory, which counts its syncs.
    #[derive(Clone, Debug)]
    struct Memory {
        bytes: Vec<u8>,
        block_size: BlockSize,
        facts: DeviceFacts,
        syncs: u32,
    }

    fn memory(blocks: usize, overwrite: Overwrite) -> Memory {
        let block_size = BlockSize::MIN;
        let bytes = vec![0; blocks * block_size.bytes()];
        Memory { bytes, block_size, facts: DeviceFacts::new(512, overwrite), syncs: 0 }
    }

    impl BlockDevice for Memory {
        fn facts(&self) -> DeviceFacts {
            self.facts
        }

        fn block_size(&self) -> BlockSize {
            self.block_size
        }

        fn block_count(&self) -> u64 {
            (self.bytes.len() / self.block_size.bytes()) as u64
        }

        fn read(&mut self, first: BlockNumber, into: &mut [u8]) -> Result<(), DeviceError> {
            let shape = (self.block_size, self.block_count());
            check_request(DeviceOperation::Read, shape, first, into.len())?;
            let at = first.raw() as usize * self.block_size.bytes();
            into.copy_from_slice(&self.bytes[at..][..into.len()]);
            Ok(())
        }

        fn write(&mut self, first: BlockNumber, from: &[u8]) -> Result<(), DeviceError> {
            let shape = (self.block_size, self.block_count());
            check_request(DeviceOperation::Write, shape, first, from.len())?;
            let at = first.raw() as usize * self.block_size.bytes();
            self.bytes[at..][..from.len()].copy_from_slice(from);
            Ok(())
        }

        fn sync(&mut self) -> Result<(), DeviceError> {
            self.syncs += 1;
            if self.syncs > 1 {
                return Err(DeviceError::new(
                    DeviceOperation::Sync,
                    DeviceErrorKind::Io { os: None },
                    BlockNumber(0),
                ));
            }
            Ok(())
        }
    }

    #[test]
    fn blocks_lie_on_one_or_the_other_and_requests_may_cross() {
        let front = memory(3, Overwrite::NeverInPlace);
        let mut disk = Joined::new(front, memory(2, Overwrite::OldOrNew)).expect("of one size");
        assert_eq!(disk.block_count(), 5);
        assert_eq!(disk.facts(), DeviceFacts::new(512, Overwrite::OldOrNew));
        let blocks: Vec<u8> = (0..4 * 64).map(|at| (at / 64) as u8 + 1).collect();
        disk.write(BlockNumber(1), &blocks).expect("is there");
        assert_eq!((disk.front.bytes[64], disk.front.bytes[128]), (1, 2));
        assert_eq!((disk.behind.bytes[0], disk.behind.bytes[64]), (3, 4));
        let (some, more) = blocks.split_at(64);
        disk.write_vectored(BlockNumber(0), &[more, some]).expect("is there");
        let mut all = vec![0; 5 * 64];
        disk.read(BlockNumber(0), &mut all).expect("is there");
        let firsts: Vec<u8> = all.chunks(64).map(|block| block[63]).collect();
        assert_eq!(firsts, [2, 3, 4, 1, 4]);
        disk.write_vectored(BlockNumber(3), &[some, some]).expect("is there");
        assert_eq!(disk.behind.bytes, [1; 128]);
        disk.write_zeroes(BlockNumber(2), 2).expect("is there");
        assert_eq!((disk.front.bytes[127], disk.front.bytes[128]), (3, 0));
        assert_eq!((disk.behind.bytes[63], disk.behind.bytes[64]), (0, 1));
        let past = disk.write_zeroes(BlockNumber(4), 2).expect_err("is not there");
        assert_eq!((past.kind, past.block), (DeviceErrorKind::OutOfRange, BlockNumber(4)));
        let past = disk.write(BlockNumber(4), &blocks).expect_err("is not there");
        assert_eq!((past.kind, past.block), (DeviceErrorKind::OutOfRange, BlockNumber(4)));
    }

    #[test]
    fn a_sync_is_of_both_and_what_the_second_says_is_renumbered() {
        let front = memory(3, Overwrite::NeverInPlace);
        let mut behind = memory(2, Overwrite::NeverInPlace);
        behind.syncs = 1;
        let mut disk = Joined::new(front, behind).expect("of one size");
        let error = disk.sync().expect_err("the second one fails");
        assert_eq!((disk.front.syncs, error.block), (1, BlockNumber(3)));
    }

    #[test]
    fn blocks_of_different_sizes_are_not_joined() {
        let mut other = memory(8, Overwrite::NeverInPlace);
        other.block_size = BlockSize::new(128).expect("can be");
        let refused = Joined::new(memory(3, Overwrite::NeverInPlace), other);
        let refused = refused.expect_err("64 and 128").to_string();
        assert!(refused.contains("64") && refused.contains("128"), "{refused}");
    }
}
