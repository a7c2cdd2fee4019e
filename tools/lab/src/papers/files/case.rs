//! A machine with a workload: what all rows of the file systems are made of.

use block_journal::Mode;
use journal_core::policy::{Pacing, Policy as _};
use journal_core::{BlockSize, DeviceFacts, Overwrite, Protocol};
use sim_disk::Rng;
use sim_disk::time::{
    Card, CardModel, Clock, Drive, Hdd, HddModel, MemoryModel, QueueFacts, Ssd, SsdModel, TimedDisk,
};

use crate::engines::Failure;
use crate::papers::BLOCK;
use crate::papers::files::data::FileData;
use crate::papers::files::fs::{Directories, FileSystem};
use crate::papers::files::setup::{Checkpoints, Ran, Setup};
use crate::papers::files::world::{Load, World};
use crate::papers::host::Host;
use crate::papers::media::{self, TimedOptions};
use crate::papers::policy::HostPolicy;
use crate::papers::store::{Ring, Store};

/// The index has room for frames of this size in all rings, and for two of each slot: the host's
/// memory does not say when a checkpoint is due.
const FRAME_BYTES_MIN: u64 = 128;
/// The fraction of the memory that slots have where nobody says otherwise, in 256ths.
const SLOT_FRACTION: u8 = 192;

/// Blocks of a second disk.
const SECOND_DISK_BLOCKS: u64 = 1 << 22;

/// The disk of the file system.
#[derive(Clone, Copy, Debug)]
pub enum Medium {
    Hdd(HddModel),
    Ssd(SsdModel),
    Card(CardModel),
}

impl Medium {
    pub const HDD: Self = Self::Hdd(HddModel::rpm_7200());
    pub const SSD: Self = Self::Ssd(SsdModel::sata());

    const fn sync_ns(self) -> u64 {
        match self {
            Self::Hdd(_) => 0,
            Self::Ssd(model) => model.sync_ns,
            Self::Card(model) => model.sync_ns,
        }
    }

    /// This drive, whose cache takes fewer requests.
    fn drive(self, scale: u64) -> Box<dyn Drive> {
        let cache = |requests: usize| (requests / scale as usize).max(4);
        match self {
            Self::Hdd(model) => {
                let cache_requests = cache(model.cache_requests);
                let cache_bytes = model.cache_bytes / scale;
                Box::new(Hdd::new(HddModel { cache_requests, cache_bytes, ..model }))
            }
            Self::Ssd(model) => {
                let cache_requests = cache(model.queue.cache_requests);
                let queue = QueueFacts { cache_requests, ..model.queue };
                Box::new(Ssd::new(SsdModel { queue, ..model }))
            }
            Self::Card(model) => Box::new(Card::new(model)),
        }
    }
}

/// A journal in memory.
#[derive(Clone, Copy)]
pub struct InNvm {
    pub policy: fn(&Clock) -> HostPolicy,
    pub memory: MemoryModel,
    pub bytes: u64,
    pub logs_data: bool,
    pub checkpoints: Checkpoints,
    pub objects_max: Option<u64>,
    /// Whether the caller commits a running transaction that is full, and not a thread beside it.
    pub caller_flushes: bool,
    /// The fraction of the memory that goes to slots, in 256ths, where the policy's is not wanted.
    pub slot_fraction: Option<u8>,
    /// Blocks of a batch of a checkpoint, and those that go home at a time where a commit finds no
    /// room; at the papers' size.
    pub batch_blocks: u64,
    pub step_blocks: u64,
    /// Whether a policy that has a log on the disk gets one.
    pub disk_log: bool,
    /// Blocks of a running transaction at most, at the papers' size.
    pub transaction_blocks: u64,
    /// How a commit becomes durable.
    pub protocol: Protocol,
}

impl InNvm {
    /// How the journal is formatted and opened.
    pub fn options(&self, clock: &Clock, scale: u64) -> TimedOptions {
        let policy = (self.policy)(clock);
        // The host commits. When a checkpoint is due by the clock is the policy's choice.
        let after = policy.pacing().checkpoint_after.map(|after| after / scale as u32);
        let share = match policy.wants_slots() {
            true => self.slot_fraction.unwrap_or(SLOT_FRACTION).into(),
            false => 0_u64,
        };
        let part = self.bytes / scale / 256;
        let frames = part * (256 - share) / FRAME_BYTES_MIN + 2 * part * share / BLOCK as u64;
        let [batch, step] =
            [self.batch_blocks, self.step_blocks].map(|blocks| (blocks / scale).max(16));
        let options = media::options(policy, batch, step).pacing(Pacing::new(None, None, after));
        let options = options.disk_log(self.disk_log).index_frames(frames as usize);
        let options = options.protocol(self.protocol);
        match self.slot_fraction {
            Some(fraction) => options.slot_fraction(fraction),
            None => options,
        }
    }
}

/// What keeps the blocks.
#[derive(Clone, Copy)]
pub enum Kept {
    Without,
    Blocks(Mode, Ring, u64),
    Nvm(InNvm),
}

/// A machine and its files, at the papers' size.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    pub host: Host,
    pub medium: Medium,
    pub threads: usize,
    pub files: u64,
    /// Blocks of a file: at least, at most, and on average.
    pub file_blocks: (u64, u64),
    /// Blocks that the first file has beside those of a file.
    pub first_blocks: u64,
    pub average_blocks: u64,
    pub directories: Directories,
    pub filled_percent: u64,
    pub cache_bytes: u64,
    pub memory_bytes: u64,
    pub operations: Option<u64>,
    /// Nanoseconds that the run takes, at the papers' size.
    pub run_ns: Option<u64>,
    /// Slots that the journal has taken when the run ends, at every scale.
    pub slots_taken: Option<u64>,
    pub writes_back: bool,
    pub syncs_homes: bool,
    /// How many bytes of a block differ from one version to the next.
    pub differs: usize,
    /// Whether the disk writes each block whole or not at all: then nothing needs a shield.
    pub is_atomic: bool,
    /// What is random begins with this.
    pub seed: u64,
}

impl Machine {
    /// The settings that most machines have.
    pub const USUAL: Self = Self {
        host: Host::FGM,
        medium: Medium::HDD,
        threads: 1,
        files: 0,
        file_blocks: (1, 1),
        first_blocks: 0,
        average_blocks: 1,
        directories: Directories::Many,
        filled_percent: 80,
        cache_bytes: 0,
        memory_bytes: 0,
        operations: None,
        run_ns: None,
        slots_taken: None,
        writes_back: true,
        syncs_homes: true,
        differs: BLOCK,
        is_atomic: false,
        seed: 0,
    };
}

impl Machine {
    /// Runs a workload on this machine, with everything divided by the scale.
    pub fn run<L: Load>(
        &self,
        kept: Kept,
        scale: u64,
        load: impl FnOnce(&World) -> L,
    ) -> Result<Ran, Failure> {
        let mut world = self.world(kept, scale)?;
        let mut load = load(&world);
        world.run(&mut load)
    }

    /// This machine, with everything divided by the scale.
    pub fn world(&self, kept: Kept, scale: u64) -> Result<World, Failure> {
        let clock = Clock::with(self.threads + 1, self.host.cores);
        let files = (self.files / scale).max(4 * self.threads as u64);
        let mut fs = FileSystem::new(files, self.average_blocks, self.directories);
        let ring_blocks = match kept {
            Kept::Blocks(_, Ring::SameDisk, ring) => ring / scale + 2,
            _ => 0,
        };
        let ring_at = fs.reserve_middle(ring_blocks);
        let mut rng = Rng::new(11 + self.seed);
        let (least, most) = self.file_blocks;
        fs.fill(&mut rng, self.filled_percent, |rng| least + rng.below(most - least + 1));
        if self.first_blocks > 0 {
            // What is there already has changed nothing.
            let _made = fs.append(0, self.first_blocks);
        }
        let homes = fs.block_count();
        let disk = |drive, blocks| {
            let disk = TimedDisk::new(&clock, drive, BlockSize::DEFAULT, blocks);
            let facts = match self.is_atomic {
                true => DeviceFacts::new(BLOCK as u32, Overwrite::OldOrNew),
                false => DeviceFacts::cautious(),
            };
            disk.with_generator(Box::new(FileData)).with_facts(facts)
        };
        let main = disk(self.medium.drive(scale), homes);
        let mut others = Vec::new();
        let mut setup = Setup {
            threads: self.threads,
            host: self.host,
            cache_blocks: self.cache_bytes / BLOCK as u64 / scale,
            memory_blocks: self.memory_bytes / BLOCK as u64 / scale,
            transaction_blocks: u64::MAX,
            objects_max: None,
            checkpoints: Checkpoints::StandStill,
            operations: self.operations,
            caller_flushes: matches!(kept, Kept::Nvm(InNvm { caller_flushes: true, .. })),
            run_ns: self.run_ns.map(|run_ns| run_ns / scale),
            slots_taken: self.slots_taken,
            writes_back: self.writes_back,
            syncs_homes: self.syncs_homes,
            differs: self.differs,
            sync_ns: self.medium.sync_ns(),
            scale,
            seed: 5 + self.seed,
        };
        let store = match kept {
            Kept::Without => Store::None { dirty: Default::default() },
            Kept::Blocks(mode, ring, ring_blocks) => {
                let ring_blocks = ring_blocks / scale;
                setup.transaction_blocks = ring_blocks / 4;
                if ring == Ring::SecondDisk {
                    others.push(disk(self.medium.drive(scale), SECOND_DISK_BLOCKS));
                }
                let placed = (mode, ring, ring_blocks);
                Store::blocks(
                    &clock,
                    &main,
                    ring_at,
                    others.first(),
                    placed,
                    self.host.flushes_checkpoints,
                )?
            }
            Kept::Nvm(nvm) => {
                setup.transaction_blocks = nvm.transaction_blocks / scale;
                setup.objects_max = nvm.objects_max;
                setup.checkpoints = nvm.checkpoints;
                let buffer = 4 * setup.transaction_blocks as usize * BLOCK;
                let options = nvm.options(&clock, scale).buffer_bytes(buffer);
                let bytes = nvm.bytes / scale;
                Store::nvm(&clock, &main, nvm.memory, bytes, nvm.logs_data, &options)?
            }
        };
        Ok(World::new(clock, main, others, fs, store, setup))
    }
}
