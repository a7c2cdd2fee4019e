//! The second port: the block device under the journal.
//!
//! # What a crash may do
//!
//! Between two syncs that returned `Ok`, **any subset** of the writes may have reached the device,
//! **in any order**. A write is torn at the device's atomic unit ([`DeviceFacts`]). Each unit of it
//! holds the old content or the new (or, on a device that says so, neither). Nothing outside the
//! written blocks changes. What a successful sync covered stays.

use crate::ports::error::{DeviceError, DeviceErrorKind, DeviceOperation};
use crate::units::{BlockNumber, BlockSize};

/// What a device does to a unit that a power loss hits in the middle of an overwrite.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Overwrite {
    /// The device writes elsewhere and switches over: a whole *block* is old or new.
    NeverInPlace,
    /// In place; each atomic unit is old or new, a block of several units may mix them.
    OldOrNew,
    /// In place; a unit hit in the middle may hold neither the old nor the new content.
    MayLeaveGarbage,
}

/// What a device says of itself; constant for the life of the handle.
///
/// When in doubt use [`DeviceFacts::cautious`]: a journal then protects what it need not, and
/// loses some speed. Claiming more than the device keeps loses data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct DeviceFacts {
    /// Bytes that are written whole or not at all; divides the block size, or is a multiple of it.
    pub atomic_unit_bytes: u32,
    /// What happens to a unit that is hit in the middle.
    pub overwrite: Overwrite,
}

impl DeviceFacts {
    /// 512-byte units which may be left with garbage: true of every disk.
    #[must_use]
    pub const fn cautious() -> Self {
        Self { atomic_unit_bytes: 512, overwrite: Overwrite::MayLeaveGarbage }
    }

    /// The facts with these values.
    #[must_use]
    pub const fn new(atomic_unit_bytes: u32, overwrite: Overwrite) -> Self {
        Self { atomic_unit_bytes, overwrite }
    }

    /// Whether a torn overwrite leaves each block of this size wholly old or wholly new.
    #[must_use]
    pub const fn block_atomic(&self, block: BlockSize) -> bool {
        match self.overwrite {
            Overwrite::NeverInPlace => true,
            Overwrite::OldOrNew => self.atomic_unit_bytes as usize >= block.bytes(),
            Overwrite::MayLeaveGarbage => false,
        }
    }
}

/// A device of equal blocks.
///
/// The methods take `&mut self` so that a driver on a bus can implement them. A device that can be
/// used from several places at once is `Clone`, and each place has its own handle. A call changes
/// nothing but its own blocks, whatever another handle does meanwhile. A sync covers the writes
/// of all handles that had returned before it.
pub trait BlockDevice {
    /// What this device is.
    fn facts(&self) -> DeviceFacts;

    /// The size of every block.
    fn block_size(&self) -> BlockSize;

    /// How many blocks there are.
    fn block_count(&self) -> u64;

    /// Whether a journal may take another number of blocks over from this device when it is opened.
    ///
    /// A device answers no if its blocks would get other numbers, because some of them lie behind
    /// a part that became larger. The default answers yes.
    fn may_resize(&self) -> bool {
        true
    }

    /// Reads whole blocks, `into.len()` bytes of them, beginning with `first`.
    ///
    /// Sees every write so far, synced or not: what was read may be gone after a crash.
    ///
    /// # Errors
    /// `OutOfRange`, `WrongLength` before anything is read, or `Io`; `into` then holds anything.
    fn read(&mut self, first: BlockNumber, into: &mut [u8]) -> Result<(), DeviceError>;

    /// Writes whole blocks, beginning with `first`.
    ///
    /// **Crash**: until the next sync, see the module's contract: lost, torn, in any order.
    ///
    /// # Errors
    /// `OutOfRange`, `WrongLength` before anything is written. After `Io` the blocks hold what a
    /// crash in the middle of the write might leave.
    fn write(&mut self, first: BlockNumber, from: &[u8]) -> Result<(), DeviceError>;

    /// Writes consecutive blocks from several buffers, each a whole number of blocks, in one call
    /// where the device can. The default writes them one by one.
    ///
    /// **Crash** and errors: as [`write`](Self::write), for each block by itself.
    fn write_vectored(&mut self, first: BlockNumber, from: &[&[u8]]) -> Result<(), DeviceError> {
        let mut next = first;
        for part in from {
            self.write(next, part)?;
            let blocks = part.len().checked_div(self.block_size().bytes()).unwrap_or(0);
            next = next.checked_add(blocks as u64).ok_or(DeviceError::new(
                DeviceOperation::Write,
                DeviceErrorKind::OutOfRange,
                next,
            ))?;
        }
        Ok(())
    }

    /// Says that the content of blocks is not needed any more, so that the device may use their
    /// space. Each block then holds what it held, or zeroes, and that stays so. The default does
    /// nothing, which is right for a device that cannot promise as much.
    ///
    /// **Crash** and errors: as a [`write`](Self::write) of zeroes to some of the blocks.
    fn discard(&mut self, first: BlockNumber, blocks: u64) -> Result<(), DeviceError> {
        let _ = (first, blocks);
        Ok(())
    }

    /// Makes blocks zero. A device that can do so without the zeroes being handed over does. The
    /// default writes blocks of zeroes.
    ///
    /// **Crash** and errors: as a [`write`](Self::write) of zeroes to the blocks.
    fn write_zeroes(&mut self, first: BlockNumber, blocks: u64) -> Result<(), DeviceError> {
        write_zero_blocks(self, first, blocks)
    }

    /// Makes every earlier write durable, in the device and not only in a cache above it.
    ///
    /// **Crash**: before it returns, as before the call; after `Ok`, no earlier write can be lost.
    ///
    /// # Errors
    /// `Io`: any write since the last good sync may be lost, and a later sync that succeeds says
    /// nothing about them. Do not try again.
    fn sync(&mut self) -> Result<(), DeviceError>;
}

/// What [`write_zero_blocks`] writes from: a block of any size, or several.
static ZEROES: [u8; BlockSize::MAX.bytes()] = [0; BlockSize::MAX.bytes()];

/// Writes blocks of zeroes, as [`BlockDevice::write_zeroes`] does by default.
///
/// For implementers of [`BlockDevice`] whose device may refuse its own way.
///
/// # Errors
/// `OutOfRange` before anything is written, and those of [`BlockDevice::write`].
pub fn write_zero_blocks<D: BlockDevice + ?Sized>(
    device: &mut D,
    first: BlockNumber,
    blocks: u64,
) -> Result<(), DeviceError> {
    check_run(DeviceOperation::Write, device.block_count(), first, blocks)?;
    let block_bytes = device.block_size().bytes();
    let in_one_call = ZEROES.len().checked_div(block_bytes).unwrap_or(1).max(1);
    let (mut next, mut left) = (first, blocks);
    while left > 0 {
        let now = left.min(in_one_call as u64);
        let bytes = (now as usize).saturating_mul(block_bytes);
        device.write(next, ZEROES.get(..bytes).unwrap_or(&ZEROES))?;
        next = BlockNumber(next.raw().saturating_add(now));
        left = left.saturating_sub(now);
    }
    Ok(())
}

/// Checks that a device has a run of blocks; returns the number behind the last one.
///
/// For implementers of [`BlockDevice`].
///
/// # Errors
/// `OutOfRange`.
pub fn check_run(
    operation: DeviceOperation,
    block_count: u64,
    first: BlockNumber,
    blocks: u64,
) -> Result<u64, DeviceError> {
    let end = first.raw().checked_add(blocks).filter(|end| *end <= block_count);
    end.ok_or(DeviceError::new(operation, DeviceErrorKind::OutOfRange, first))
}

/// Checks a request against a device's geometry: `bytes` bytes of whole blocks from `first` on.
///
/// For implementers of [`BlockDevice`]; returns how many blocks the request has.
///
/// # Errors
/// `WrongLength` when `bytes` is no multiple of the block, `OutOfRange` past the end.
pub fn check_request(
    operation: DeviceOperation,
    (block_size, block_count): (BlockSize, u64),
    first: BlockNumber,
    bytes: usize,
) -> Result<u64, DeviceError> {
    let refuse = |kind| Err(DeviceError::new(operation, kind, first));
    let Some(blocks) = bytes.checked_div(block_size.bytes()) else {
        return refuse(DeviceErrorKind::WrongLength);
    };
    if blocks.checked_mul(block_size.bytes()) != Some(bytes) {
        return refuse(DeviceErrorKind::WrongLength);
    }
    match first.raw().checked_add(blocks as u64) {
        Some(end) if end <= block_count => Ok(blocks as u64),
        _ => refuse(DeviceErrorKind::OutOfRange),
    }
}

impl<D: BlockDevice + ?Sized> BlockDevice for &mut D {
    fn facts(&self) -> DeviceFacts {
        (**self).facts()
    }

    fn block_size(&self) -> BlockSize {
        (**self).block_size()
    }

    fn block_count(&self) -> u64 {
        (**self).block_count()
    }

    fn may_resize(&self) -> bool {
        (**self).may_resize()
    }

    fn read(&mut self, first: BlockNumber, into: &mut [u8]) -> Result<(), DeviceError> {
        (**self).read(first, into)
    }

    fn write(&mut self, first: BlockNumber, from: &[u8]) -> Result<(), DeviceError> {
        (**self).write(first, from)
    }

    fn write_vectored(&mut self, first: BlockNumber, from: &[&[u8]]) -> Result<(), DeviceError> {
        (**self).write_vectored(first, from)
    }

    fn discard(&mut self, first: BlockNumber, blocks: u64) -> Result<(), DeviceError> {
        (**self).discard(first, blocks)
    }

    fn write_zeroes(&mut self, first: BlockNumber, blocks: u64) -> Result<(), DeviceError> {
        (**self).write_zeroes(first, blocks)
    }

    fn sync(&mut self) -> Result<(), DeviceError> {
        (**self).sync()
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec;
    use std::vec::Vec;

    use super::*;

    const GEOMETRY: (BlockSize, u64) = (BlockSize::MIN, 4);

    fn check(first: u64, bytes: usize) -> Result<u64, DeviceErrorKind> {
        check_request(DeviceOperation::Read, GEOMETRY, BlockNumber(first), bytes)
            .map_err(|error| error.kind)
    }

    #[test]
    fn requests_are_checked_before_anything_moves() {
        assert_eq!(check(0, 256), Ok(4));
        assert_eq!(check(3, 64), Ok(1));
        assert_eq!(check(4, 0), Ok(0));
        assert_eq!(check(3, 128), Err(DeviceErrorKind::OutOfRange));
        assert_eq!(check(u64::MAX, 64), Err(DeviceErrorKind::OutOfRange));
        assert_eq!(check(0, 65), Err(DeviceErrorKind::WrongLength));
    }

    /// A device that says which writes it was asked for.
    struct Told {
        block_size: BlockSize,
        writes: Vec<(u64, usize)>,
    }

    impl BlockDevice for Told {
        fn facts(&self) -> DeviceFacts {
            DeviceFacts::cautious()
        }

        fn block_size(&self) -> BlockSize {
            self.block_size
        }

        fn block_count(&self) -> u64 {
            100
        }

        fn read(&mut self, _: BlockNumber, _: &mut [u8]) -> Result<(), DeviceError> {
            Ok(())
        }

        fn write(&mut self, first: BlockNumber, from: &[u8]) -> Result<(), DeviceError> {
            check_request(DeviceOperation::Write, (self.block_size, 100), first, from.len())?;
            assert!(from.iter().all(|byte| *byte == 0));
            self.writes.push((first.raw(), from.len()));
            Ok(())
        }

        fn sync(&mut self) -> Result<(), DeviceError> {
            Ok(())
        }
    }

    #[test]
    fn blocks_of_zeroes_are_written_as_many_as_asked_for() {
        let zeroes = |block_size, first, blocks| {
            let mut device = Told { block_size, writes: Vec::new() };
            let done = device.write_zeroes(BlockNumber(first), blocks);
            done.map(|()| device.writes).map_err(|error| error.kind)
        };
        let (small, large) = (BlockSize::DEFAULT, BlockSize::MAX);
        assert_eq!(zeroes(small, 3, 18), Ok(vec![(3, 65536), (19, 2 * 4096)]));
        assert_eq!(zeroes(large, 98, 2), Ok(vec![(98, 65536), (99, 65536)]));
        assert_eq!(zeroes(small, 100, 0), Ok(vec![]));
        assert_eq!(zeroes(small, 99, 2), Err(DeviceErrorKind::OutOfRange));
        assert_eq!(zeroes(small, 1, u64::MAX), Err(DeviceErrorKind::OutOfRange));
    }

    #[test]
    fn block_atomicity_follows_the_facts() {
        let block = BlockSize::DEFAULT;
        assert!(!DeviceFacts::cautious().block_atomic(block));
        assert!(!DeviceFacts::new(512, Overwrite::OldOrNew).block_atomic(block));
        assert!(DeviceFacts::new(4096, Overwrite::OldOrNew).block_atomic(block));
        assert!(DeviceFacts::new(512, Overwrite::NeverInPlace).block_atomic(block));
        assert!(!DeviceFacts::new(4096, Overwrite::MayLeaveGarbage).block_atomic(block));
    }
}
