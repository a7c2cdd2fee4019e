//! The media of the figures: a journal behind its front door on a timed memory and a timed disk,
//! and a block journal on timed disks.

use block_journal::{BlockJournal, Config, Mode, Partition, Placement};
use journal_core::{BlockDevice, BlockNumber, BlockSize, DeviceError, DeviceFacts};
use nvm_journal::{Journal, On, Options, Region};
use sim_disk::time::{Clock, MemoryMeter, MemoryModel, TimedDisk, TimedPmem};

use crate::engines::Failure;
use crate::papers::BLOCK;
use crate::papers::policy::HostPolicy;

/// The part of the memory that the shield takes, and its blocks at least and at most.
const SHIELD_SHARE: u64 = 32;
const SHIELD_MIN: u64 = 64;
const SHIELD_MAX: u64 = 4_096;
/// Blocks that a checkpoint writes between two syncs.
const BATCH_BLOCKS: usize = 1 << 15;

/// A disk whose blocks the host keeps in memory of its own: what a journal reads of it takes no
/// time. A program that misses a block in the host's cache reads it from the disk itself.
#[derive(Clone, Debug)]
pub struct HostDisk {
    disk: TimedDisk,
    is_cold: bool,
}

impl HostDisk {
    pub const fn new(disk: TimedDisk) -> Self {
        Self { disk, is_cold: false }
    }

    /// A host that has just started: every read takes its time.
    pub const fn cold(disk: TimedDisk) -> Self {
        Self { disk, is_cold: true }
    }
}

impl BlockDevice for HostDisk {
    fn facts(&self) -> DeviceFacts {
        self.disk.facts()
    }

    fn block_size(&self) -> BlockSize {
        self.disk.block_size()
    }

    fn block_count(&self) -> u64 {
        self.disk.block_count()
    }

    fn read(&mut self, first: BlockNumber, into: &mut [u8]) -> Result<(), DeviceError> {
        if self.is_cold { self.disk.read(first, into) } else { self.disk.peek(first, into) }
    }

    fn write(&mut self, first: BlockNumber, from: &[u8]) -> Result<(), DeviceError> {
        self.disk.write(first, from)
    }

    fn write_vectored(&mut self, first: BlockNumber, from: &[&[u8]]) -> Result<(), DeviceError> {
        self.disk.write_vectored(first, from)
    }

    fn sync(&mut self) -> Result<(), DeviceError> {
        self.disk.sync()
    }
}

/// The journal of all figures.
pub type TimedJournal = Journal<HostPolicy, On<TimedPmem<Region>, HostDisk>>;

/// The options that all journals here have: one lane, the usual shield, and few syncs in a
/// checkpoint.
pub fn options(policy: HostPolicy) -> Options<HostPolicy> {
    Options::new().policy(policy).lanes(1).batch_blocks(BATCH_BLOCKS).disk_log(true)
}

/// Formats a journal in a memory of `nvm_bytes`. The format itself takes no time of the run.
pub fn journal(
    clock: &Clock,
    disk: &TimedDisk,
    memory: MemoryModel,
    nvm_bytes: u64,
    options: &Options<HostPolicy>,
) -> Result<(TimedJournal, MemoryMeter), Failure> {
    let pmem = TimedPmem::new(Region::anonymous(nvm_bytes)?, clock, memory);
    let meter = pmem.meter();
    let shield = (nvm_bytes / SHIELD_SHARE / BLOCK as u64).clamp(SHIELD_MIN, SHIELD_MAX);
    let options = options.clone().shield_blocks(shield as u32);
    let journal = Journal::format(pmem, HostDisk::new(disk.clone()), &options)?;
    Ok((journal, meter))
}

/// A block journal on the disk of its store, behind the blocks of the store.
pub type SameDisk = BlockJournal<Partition<HostDisk>, Partition<HostDisk>>;

/// Formats a block journal of `ring` blocks behind the first `homes` blocks of a disk.
pub fn on_same_disk(
    disk: &TimedDisk,
    homes: u64,
    ring: u64,
    mode: Mode,
) -> Result<SameDisk, Failure> {
    let disk = HostDisk::new(disk.clone());
    let part = |first, count| {
        Partition::new(disk.clone(), BlockNumber(first), count).ok_or("no such blocks on the disk")
    };
    let (mut ring, home) = (part(homes, ring + 2)?, part(0, homes)?);
    let config = Config::new(mode).placement(Placement::SameDevice);
    BlockJournal::format(&mut ring, &home, config)?;
    Ok(BlockJournal::open(ring, home, config)?.0)
}
