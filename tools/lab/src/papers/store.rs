//! What keeps the file system's blocks: no journal, a block journal in one of three modes, or the
//! journal in memory behind its front door.

use core::time::Duration;
use std::collections::BTreeMap;

use block_journal::{BlockJournal, Config, JournalDevice, Mode, Partition, PmemDisk, Transaction};
use journal_core::{BlockDevice, BlockNumber, BlockSize, DeviceError, DeviceFacts, PmemShare as _};
use nvm_journal::{Hint, Region};
use pmem_sys::Reader;
use sim_disk::time::{Clock, MemoryMeter, MemoryModel, MemoryUse, TimedDisk, TimedPmem};

use crate::engines::Failure;
use crate::papers::BLOCK;
use crate::papers::files::data::FileData;
use crate::papers::files::fs::{Changes, FileSystem};
use crate::papers::host::{FILLED_TIMES, RAM_DISK_BLOCK_NS};
use crate::papers::media::{self, HostDisk, TimedJournal, TimedOptions};

/// A disk in memory, behind the block layer.
#[derive(Debug)]
pub struct RamDisk {
    disk: PmemDisk<TimedPmem<Region>>,
    clock: Clock,
    /// What the block layer computes for a block; nothing, where images are copied.
    block_ns: u64,
}

/// Where the ring of a block journal lies.
#[derive(Debug)]
pub enum RingDisk {
    Disk(Partition<HostDisk>),
    Ram(RamDisk),
}

impl RingDisk {
    fn charge(&self, bytes: usize) {
        if let Self::Ram(RamDisk { clock, block_ns, .. }) = self {
            clock.charge_cpu((bytes / BLOCK) as u64 * block_ns);
        }
    }
}

macro_rules! of_ring {
    ($self:expr, $disk:ident => $call:expr) => {
        match $self {
            Self::Disk($disk) => $call,
            Self::Ram(RamDisk { disk: $disk, .. }) => $call,
        }
    };
}

impl BlockDevice for RingDisk {
    fn facts(&self) -> DeviceFacts {
        of_ring!(self, disk => disk.facts())
    }

    fn block_size(&self) -> BlockSize {
        of_ring!(self, disk => disk.block_size())
    }

    fn block_count(&self) -> u64 {
        of_ring!(self, disk => disk.block_count())
    }

    fn read(&mut self, first: BlockNumber, into: &mut [u8]) -> Result<(), DeviceError> {
        of_ring!(self, disk => disk.read(first, into))
    }

    fn write(&mut self, first: BlockNumber, from: &[u8]) -> Result<(), DeviceError> {
        self.charge(from.len());
        of_ring!(self, disk => disk.write(first, from))
    }

    fn write_vectored(&mut self, first: BlockNumber, from: &[&[u8]]) -> Result<(), DeviceError> {
        self.charge(from.iter().map(|part| part.len()).sum());
        of_ring!(self, disk => disk.write_vectored(first, from))
    }

    fn sync(&mut self) -> Result<(), DeviceError> {
        of_ring!(self, disk => disk.sync())
    }
}

/// Where a block journal has its ring.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Ring {
    SameDisk,
    SecondDisk,
    RamDisk(MemoryModel),
    /// In memory, where images are copied.
    Copied(MemoryModel),
}

type Blocks = BlockJournal<RingDisk, Partition<HostDisk>>;

/// What keeps the blocks.
pub enum Store {
    /// Blocks of metadata that are not on the disk yet, and since when.
    None {
        dirty: BTreeMap<u64, u64>,
    },
    Blocks {
        journal: Box<Blocks>,
        running: Transaction,
        mode: Mode,
        ring: Ring,
    },
    Nvm {
        journal: TimedJournal,
        meter: MemoryMeter,
        /// Reads the memory when the journal is gone.
        reader: Reader,
        logs_data: bool,
        nvm_bytes: u64,
        waiting: u64,
    },
}

/// Data of an operation: block, version, and whether the block is new.
pub type Written = (u64, u64, bool);

impl Store {
    pub fn blocks(
        clock: &Clock,
        disk: &TimedDisk,
        ring_at: u64,
        second: Option<&TimedDisk>,
        (mode, ring, ring_blocks): (Mode, Ring, u64),
        flushes_checkpoints: bool,
    ) -> Result<Self, Failure> {
        let part = |disk: &TimedDisk, first, count| {
            let disk = HostDisk::new(disk.clone());
            Partition::new(disk, BlockNumber(first), count).ok_or("no such blocks on the disk")
        };
        let in_memory = |model, block_ns| -> Result<RingDisk, Failure> {
            let region = Region::anonymous((ring_blocks + 2) * BLOCK as u64)?;
            let disk = PmemDisk::new(TimedPmem::new(region, clock, model), BlockSize::DEFAULT);
            Ok(RingDisk::Ram(RamDisk { disk, clock: clock.clone(), block_ns }))
        };
        let mut device = match ring {
            Ring::SameDisk => RingDisk::Disk(part(disk, ring_at, ring_blocks + 2)?),
            Ring::SecondDisk => {
                let disk = second.ok_or("there is no second disk")?;
                RingDisk::Disk(part(disk, 0, ring_blocks + 2)?)
            }
            Ring::RamDisk(model) => in_memory(model, RAM_DISK_BLOCK_NS)?,
            Ring::Copied(model) => in_memory(model, 0)?,
        };
        // The ring lies among the homes, where no file has a block.
        // It is synced behind checkpoints alone: data does not go through the journal's hands.
        let home = match flushes_checkpoints || ring == Ring::SecondDisk {
            true => HostDisk::new(disk.clone()),
            false => HostDisk::without_flushes(disk.clone()),
        };
        let home = Partition::new(home, BlockNumber(0), disk.block_count());
        let home = home.ok_or("no such blocks on the disk")?;
        let journal_device = match ring {
            Ring::SameDisk => JournalDevice::SameDevice,
            _ => JournalDevice::OwnDevice,
        };
        let config = Config::new(mode).journal_device(journal_device);
        BlockJournal::format(&mut device, &home, config)?;
        let (journal, _) = BlockJournal::open(device, home, config)?;
        let running = journal.begin();
        let journal = Box::new(journal);
        Ok(Self::Blocks { journal, running, mode, ring })
    }

    pub fn nvm(
        clock: &Clock,
        disk: &TimedDisk,
        memory: MemoryModel,
        nvm_bytes: u64,
        logs_data: bool,
        options: &TimedOptions,
    ) -> Result<Self, Failure> {
        let region = Region::anonymous(nvm_bytes)?;
        let reader = region.reader();
        let (journal, meter) = media::formatted(clock, disk, memory, region, options)?;
        Ok(Self::Nvm { journal, meter, reader, logs_data, nvm_bytes, waiting: 0 })
    }

    /// Whether data goes through the journal, and not through the page cache alone.
    pub const fn logs_data(&self) -> bool {
        match self {
            Self::None { .. } => false,
            Self::Blocks { mode, .. } => matches!(mode, Mode::Data),
            Self::Nvm { logs_data, .. } => *logs_data,
        }
    }

    /// Whether the data of a transaction has to be on the disk before it commits.
    pub const fn orders_data(&self) -> bool {
        match self {
            Self::None { .. } => false,
            Self::Blocks { mode, .. } => matches!(mode, Mode::Ordered),
            Self::Nvm { logs_data, .. } => !*logs_data,
        }
    }

    /// Whether the journal syncs the disk of the homes itself, as it commits.
    pub const fn shares_disk(&self) -> bool {
        matches!(self, Self::Blocks { ring: Ring::SameDisk, .. })
    }

    /// Adds what an operation changes to the running transaction.
    pub fn stage(
        &mut self,
        fs: &FileSystem,
        now: u64,
        changes: &Changes,
        (data, differs): (&[Written], usize),
    ) -> Result<(), Failure> {
        let Changes { metadata, freed, .. } = changes;
        let mut image = vec![0; BLOCK];
        match self {
            Self::None { dirty } => {
                for patch in metadata {
                    dirty.entry(patch.block).or_insert(now);
                }
            }
            Self::Blocks { running, mode, .. } => {
                for patch in metadata {
                    running.metadata(BlockNumber(patch.block), fs.image(patch.block))?;
                }
                if *mode == Mode::Data {
                    for block in freed {
                        running.discard(BlockNumber(*block))?;
                    }
                    for (block, version, _) in data {
                        FileData::put_differing(*block, *version, differs, &mut image);
                        running.data(BlockNumber(*block), &image)?;
                    }
                }
            }
            Self::Nvm { journal, logs_data, waiting, .. } => {
                *waiting += (metadata.len() + data.len()) as u64;
                journal.transact_gathered(|tx| {
                    for patch in metadata {
                        let hint = Hint::METADATA.of_objects(patch.object_bytes);
                        let bytes = &fs.image(patch.block)[patch.at..patch.at + patch.len];
                        tx.write_at_with(BlockNumber(patch.block), hint, patch.at, bytes)?;
                    }
                    if !*logs_data {
                        return Ok::<(), nvm_journal::Error>(());
                    }
                    for block in freed {
                        tx.discard(BlockNumber(*block))?;
                    }
                    for (block, version, is_new) in data {
                        FileData::put_differing(*block, *version, differs, &mut image);
                        if *is_new {
                            tx.append(BlockNumber(*block), &image)?;
                        } else {
                            tx.write(BlockNumber(*block), &image)?;
                        }
                    }
                    Ok(())
                })?;
            }
        }
        Ok(())
    }

    /// Blocks in the running transaction, about.
    pub fn running_blocks(&self) -> u64 {
        match self {
            Self::None { .. } => 0,
            Self::Blocks { running, .. } => running.blocks() as u64,
            Self::Nvm { waiting, .. } => *waiting,
        }
    }

    /// Commits the running transaction.
    pub fn commit(&mut self) -> Result<(), Failure> {
        match self {
            Self::None { .. } => {}
            Self::Blocks { journal, running, .. } => {
                let next = journal.begin();
                let running = core::mem::replace(running, next);
                if !running.is_empty() {
                    journal.commit(running)?;
                }
            }
            Self::Nvm { journal, waiting, .. } => {
                *waiting = 0;
                journal.sync()?;
            }
        }
        Ok(())
    }

    /// Writes home all that is committed.
    pub fn checkpoint(&mut self) -> Result<(), Failure> {
        match self {
            Self::None { .. } => {}
            Self::Blocks { journal, .. } => journal.checkpoint()?,
            Self::Nvm { journal, .. } => {
                journal.checkpoint()?;
            }
        }
        Ok(())
    }

    /// Makes room for a commit of the running transaction, where callers stand still for it.
    pub fn make_room(&mut self) -> Result<(), Failure> {
        if let Self::Blocks { journal, running, .. } = self {
            // Descriptors, and the commit block.
            let blocks = running.blocks() as u64;
            let needed = blocks + blocks / 64 + 3;
            journal.make_room(needed.min(journal.ring_blocks()))?;
        }
        Ok(())
    }

    /// Writes committed metadata home that is old.
    pub fn write_back(&mut self, fs: &FileSystem) -> Result<(), Failure> {
        if let Self::Blocks { journal, .. } = self {
            journal.write_back(|block| fs.is_metadata(block.raw()))?;
        }
        Ok(())
    }

    /// Checkpoints that the journal in memory has made.
    pub fn checkpoints(&self) -> Result<u64, Failure> {
        let Self::Nvm { journal, .. } = self else { return Ok(0) };
        Ok(journal.stats()?.checkpoints)
    }

    /// Has a journal in memory do what is due: room where its thresholds are crossed, and a
    /// checkpoint where that is old.
    pub fn tick(&mut self, now: u64) -> Result<(), Failure> {
        let Self::Nvm { journal, .. } = self else { return Ok(()) };
        Ok(journal.tick(Duration::from_nanos(now))?)
    }

    /// What was stored in the memory of a journal.
    pub fn memory(&self) -> MemoryUse {
        match self {
            Self::Nvm { meter, .. } => meter.so_far(),
            _ => MemoryUse::default(),
        }
    }

    /// What a journal in memory says of itself.
    pub fn says(&self) -> String {
        let Self::Nvm { journal, .. } = self else { return String::new() };
        let Ok(stats) = journal.stats() else { return String::new() };
        let (total, home) = (stats.total(), stats.checkpointed);
        let memory = self.memory();
        format!(
            "; {} units and {} fences of memory in {:.1} s, {} records, {} appends home, {} new \
             slots, {} rewritten, {} checkpoints of {} blocks in {} batches ({} shielded)",
            memory.units,
            memory.fences,
            memory.nanos as f64 / 1e9,
            total.commits,
            total.appended_home,
            total.new_slots,
            total.rewritten_slots,
            stats.checkpoints,
            home.blocks,
            home.batches,
            home.shielded
        )
    }

    /// How full the lane is, and how many of its slots are taken, in 256ths.
    pub fn used(&self) -> Result<u64, Failure> {
        let Self::Nvm { journal, .. } = self else { return Ok(0) };
        let stats = journal.stats()?;
        let total = stats.total();
        let bytes = total.used_bytes * 256 / stats.lane_bytes.max(1);
        let slots = u64::from(stats.lane_slots);
        let taken = (slots - u64::from(total.free_slots)) * 256 / slots.max(1);
        Ok(bytes.max(if slots > 0 { taken } else { 0 }))
    }

    /// Bytes that a journal in memory has stored in records and in slots that were free.
    pub fn stored(&self) -> Result<u64, Failure> {
        let Self::Nvm { journal, .. } = self else { return Ok(0) };
        let total = journal.stats()?.total();
        Ok(total.bytes + total.new_slots * BLOCK as u64)
    }

    /// Slots that are taken of a journal in memory.
    pub fn taken_slots(&self) -> Result<u64, Failure> {
        let Self::Nvm { journal, .. } = self else { return Ok(0) };
        let stats = journal.stats()?;
        Ok(u64::from(stats.lane_slots) - u64::from(stats.total().free_slots))
    }

    /// A crash: what is left of the memory.
    pub fn crash(self) -> Result<Region, Failure> {
        let Self::Nvm { journal, reader, .. } = self else {
            return Err("only a memory outlives its host".into());
        };
        drop(journal);
        media::copied(&reader)
    }

    /// How often the journal was filled so far, a hundredth of a time as one.
    pub fn filled_percent(&self) -> u64 {
        match self {
            Self::None { .. } => 100 * FILLED_TIMES,
            Self::Blocks { journal, .. } => {
                100 * journal.stats().journal_blocks() / journal.ring_blocks().max(1)
            }
            Self::Nvm { meter, nvm_bytes, .. } => {
                100 * meter.so_far().units * meter.model().unit_bytes / (*nvm_bytes).max(1)
            }
        }
    }
}
