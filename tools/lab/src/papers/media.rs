//! The media of the figures: a journal behind its front door on a timed memory and a timed disk,
//! and a block journal on timed disks.

use core::time::Duration;

use block_journal::{BlockJournal, Config, JournalDevice, Mode, Partition};
use journal_core::{
    BlockDevice, BlockNumber, BlockSize, DeviceError, DeviceFacts, NoHook, Offset, Pmem as _,
    PmemRead as _,
};
use nvm_journal::{Journal, Options, Region};
use pmem_sys::Reader;
use sim_disk::time::{Clock, MemoryMeter, MemoryModel, TimedDisk, TimedPmem};

use crate::engines::Failure;
use crate::erased::{DynDisk, DynHook, DynJournal, DynPmem, DynPolicy, any_options};
use crate::papers::BLOCK;
use crate::papers::policy::HostPolicy;

/// The part of the memory that the shield takes, and its blocks at least and at most.
const SHIELD_PART: u64 = 32;
const SHIELD_MIN: u64 = 64;
const SHIELD_MAX: u64 = 4_096;
/// Blocks that a checkpoint writes between two syncs: a whole journal of 128 MB in one sweep.
pub const BATCH_BLOCKS: u64 = 1 << 15;

/// A disk whose blocks the host keeps in memory of its own: what a journal reads of it takes no
/// time. A program that misses a block in the host's cache reads it from the disk itself.
#[derive(Clone, Debug)]
pub struct HostDisk {
    disk: TimedDisk,
    is_cold: bool,
    flushes: bool,
}

impl HostDisk {
    pub const fn new(disk: TimedDisk) -> Self {
        Self { disk, is_cold: false, flushes: true }
    }

    /// A host that has just started: every read takes its time.
    pub const fn cold(disk: TimedDisk) -> Self {
        Self { disk, is_cold: true, flushes: true }
    }

    /// A host that takes what the drive has taken for durable: a sync asks for no flush.
    pub const fn without_flushes(disk: TimedDisk) -> Self {
        Self { disk, is_cold: false, flushes: false }
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
        if self.flushes { self.disk.sync() } else { Ok(()) }
    }
}

/// The journal of all figures.
pub type TimedJournal = DynJournal;

/// Its options.
pub type TimedOptions = Options<DynPolicy, DynHook>;

/// The options that all journals here have: one lane, the usual shield, and few syncs in a
/// checkpoint. `step_blocks` go home at a time where a transaction finds no room, `batch_blocks`
/// otherwise.
pub fn options(policy: HostPolicy, batch_blocks: u64, step_blocks: u64) -> TimedOptions {
    let step = Duration::from_nanos(step_blocks * BLOCK as u64);
    let batch = batch_blocks as usize;
    let options = any_options(policy, NoHook).lanes(1).batch_blocks(batch);
    options.longest_stop(step).disk_log(true)
}

/// Formats a journal in a memory of `nvm_bytes`. The format itself takes no time of the run.
pub fn journal(
    clock: &Clock,
    disk: &TimedDisk,
    memory: MemoryModel,
    nvm_bytes: u64,
    options: &TimedOptions,
) -> Result<(TimedJournal, MemoryMeter), Failure> {
    let region = Region::anonymous(nvm_bytes)?;
    formatted(clock, disk, memory, region, options)
}

/// Blocks of the shield in a memory of this size.
pub const fn shield_blocks(nvm_bytes: u64) -> u64 {
    let blocks = nvm_bytes / SHIELD_PART / BLOCK as u64;
    if blocks < SHIELD_MIN {
        SHIELD_MIN
    } else if blocks > SHIELD_MAX {
        SHIELD_MAX
    } else {
        blocks
    }
}

/// Formats a journal in a region.
pub fn formatted(
    clock: &Clock,
    disk: &TimedDisk,
    memory: MemoryModel,
    region: Region,
    options: &TimedOptions,
) -> Result<(TimedJournal, MemoryMeter), Failure> {
    let shield = shield_blocks(region.len());
    let pmem = TimedPmem::new(region, clock, memory);
    let meter = pmem.meter();
    let options = options.clone().shield_blocks(shield as u32);
    let disk = DynDisk::new(HostDisk::new(disk.clone()));
    let journal = Journal::format(DynPmem::new(pmem), disk, &options)?;
    Ok((journal, meter))
}

/// What a crash leaves of a memory: a copy of all that was stored.
pub fn copied(reader: &Reader) -> Result<Region, Failure> {
    let mut region = Region::anonymous(reader.len())?;
    let mut chunk = vec![0; 1 << 20];
    for at in (0..reader.len()).step_by(chunk.len()) {
        let bytes = &mut chunk[..(reader.len() - at).min(1 << 20) as usize];
        reader.read_into(Offset(at), bytes)?;
        if bytes.iter().any(|byte| *byte != 0) {
            region.store(Offset(at), bytes);
        }
    }
    Ok(region)
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
    let config = Config::new(mode).journal_device(JournalDevice::SameDevice);
    BlockJournal::format(&mut ring, &home, config)?;
    Ok(BlockJournal::open(ring, home, config)?.0)
}
