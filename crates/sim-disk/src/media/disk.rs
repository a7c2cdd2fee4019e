//! A simulated disk: the [`BlockDevice`] port on a world's tape.

use journal_core::block_device::check_request;
use journal_core::{
    BlockDevice, BlockNumber, BlockSize, DeviceError, DeviceErrorKind, DeviceFacts, DeviceOperation,
};

use crate::media::fault::{FaultKind, Operation};
use crate::media::image::Medium;
use crate::media::tape::Event;
use crate::media::world::World;

/// A handle to one of a world's disks; clones are the same disk.
#[derive(Clone, Debug)]
pub struct SimDisk {
    world: World,
    number: u16,
    facts: DeviceFacts,
    block_size: BlockSize,
    block_count: u64,
}

impl World {
    /// A handle to a disk; any number of them may live.
    ///
    /// # Panics
    /// When the world has no such disk.
    #[must_use]
    pub fn disk(&self, number: u16) -> SimDisk {
        let shared = self.lock();
        let disk = shared.now.disk(number);
        SimDisk::new(self.clone(), number, disk.facts, disk.block_size, disk.block_count)
    }
}

impl SimDisk {
    pub(crate) const fn new(
        world: World,
        number: u16,
        facts: DeviceFacts,
        block_size: BlockSize,
        block_count: u64,
    ) -> Self {
        Self { world, number, facts, block_size, block_count }
    }

    fn blocks(
        &self,
        operation: DeviceOperation,
        first: BlockNumber,
        bytes: usize,
    ) -> Result<impl Iterator<Item = u64> + use<>, DeviceError> {
        let geometry = (self.block_size, self.block_count);
        let count = check_request(operation, geometry, first, bytes)?;
        Ok(first.raw()..first.raw() + count)
    }

    fn place(&self, block: u64) -> u64 {
        block * self.block_size.bytes() as u64
    }
}

const fn failed(operation: DeviceOperation, block: BlockNumber) -> DeviceError {
    DeviceError::new(operation, DeviceErrorKind::Io { os: None }, block)
}

impl BlockDevice for SimDisk {
    fn facts(&self) -> DeviceFacts {
        self.facts
    }

    fn block_size(&self) -> BlockSize {
        self.block_size
    }

    fn block_count(&self) -> u64 {
        self.block_count
    }

    fn read(&mut self, first: BlockNumber, into: &mut [u8]) -> Result<(), DeviceError> {
        let blocks = self.blocks(DeviceOperation::Read, first, into.len())?;
        let mut shared = self.world.lock();
        let fault = shared.operation(Operation::DiskRead);
        shared.note_read(Medium::Disk(self.number), self.place(first.raw()), into.len());
        if fault == Some(FaultKind::Error) {
            return Err(failed(DeviceOperation::Read, first));
        }
        for (block, into) in blocks.zip(into.chunks_mut(self.block_size.bytes())) {
            let disk = shared.now.disk(self.number);
            if disk.bad.contains(&block) {
                return Err(failed(DeviceOperation::Read, BlockNumber(block)));
            }
            if fault == Some(FaultKind::Stale) {
                shared.at_power_on().disk(self.number).read(BlockNumber(block), into);
            } else {
                disk.read(BlockNumber(block), into);
            }
        }
        Ok(())
    }

    fn write(&mut self, first: BlockNumber, from: &[u8]) -> Result<(), DeviceError> {
        let blocks = self.blocks(DeviceOperation::Write, first, from.len())?;
        let mut shared = self.world.lock();
        let fault = shared.operation(Operation::DiskWrite);
        let disk = self.number;
        for (block, from) in blocks.zip(from.chunks(self.block_size.bytes())) {
            match fault {
                Some(FaultKind::Lost) => {}
                Some(FaultKind::Misdirected { blocks }) => {
                    let astray = (block + blocks % self.block_count) % self.block_count;
                    let at = self.place(astray);
                    shared.record(Event::DiskWrite { disk, at, bytes: from.into() });
                }
                Some(FaultKind::Error) => {
                    // The first half of the first block made it, as far as anybody can see.
                    let unit = shared.now.disk(disk).unit_bytes();
                    let half = (from.len() / 2).next_multiple_of(unit).min(from.len());
                    let bytes = from[..half].into();
                    shared.record(Event::DiskWrite { disk, at: self.place(block), bytes });
                    return Err(failed(DeviceOperation::Write, BlockNumber(block)));
                }
                _ => {
                    let at = self.place(block);
                    shared.record(Event::DiskWrite { disk, at, bytes: from.into() });
                }
            }
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<(), DeviceError> {
        let mut shared = self.world.lock();
        let disk = self.number;
        if shared.operation(Operation::DiskSync).is_some() {
            shared.record(Event::DiskSyncFailed { disk });
            return Err(failed(DeviceOperation::Sync, BlockNumber(0)));
        }
        shared.record(Event::DiskSync { disk });
        Ok(())
    }
}

/// Which medium a disk handle writes to, for a caller that looks at tapes.
impl From<&SimDisk> for Medium {
    fn from(disk: &SimDisk) -> Self {
        Self::Disk(disk.number)
    }
}
