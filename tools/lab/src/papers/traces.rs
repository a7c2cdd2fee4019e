//! Real block traces on a memory card and a small memory: the rows of two-level logging and of
//! delta journaling.

use std::io::Read;

use block_journal::Mode;
use journal_core::{BlockDevice, BlockNumber, BlockSize};
use nvm_journal::Hint;
use sim_disk::time::{Card, CardModel, Clock, DriveUse, MemoryModel, MemoryUse, TimedDisk};

use crate::engines::Failure;
use crate::papers::BLOCK;
use crate::papers::media::{self, BATCH_BLOCKS};
use crate::papers::policy::HostPolicy;
use crate::trace::{State, Trace, Write, class};

/// What a mobile host computes for a commit, and for each of its blocks.
pub const COMMIT_CPU_NS: u64 = 300_000;
pub const BLOCK_CPU_NS: u64 = 20_000;
/// Blocks of the disk-side log: as many as the journal has that it replaces.
const LOG_BLOCKS: u32 = 1 << 15;
/// Blocks of a log-structured checkpoint's two tables and its pack.
const TABLE_BLOCKS: u64 = 2;
const PACK_BLOCKS: u64 = 2;
/// Blocks from the log of data to the log of nodes.
const LOG_DISTANCE: u64 = 1 << 21;
/// Commits between two checkpoints of the log-structured store.
const COMMITS_A_CHECKPOINT: u64 = 64;

/// What a run of a trace came to.
#[derive(Clone, Copy, Debug, Default)]
pub struct TraceRun {
    pub commits: u64,
    pub nanos: u64,
    pub drive: DriveUse,
    pub memory: MemoryUse,
    /// Blocks that went to the disk-side log, and that went home.
    pub logged: u64,
    pub home: u64,
}

impl TraceRun {
    pub fn seconds(&self) -> f64 {
        self.nanos as f64 / 1e9
    }

    pub fn millis_a_commit(&self) -> f64 {
        self.nanos as f64 / 1e6 / self.commits.max(1) as f64
    }

    pub fn counts(&self) -> String {
        let Self { drive, memory, logged, home, .. } = self;
        format!(
            "{} syncs, {} disk blocks ({logged} logged, {home} home), {} NVM units",
            drive.syncs,
            drive.bytes_written / BLOCK as u64,
            memory.units
        )
    }
}

/// Where a trace comes from: a new reader for each run of it.
pub type Open<'a> = &'a dyn Fn() -> Result<Box<dyn Read>, Failure>;

fn opened(open: Open<'_>) -> Result<Trace<Box<dyn Read>>, Failure> {
    Ok(Trace::open(open()?)?)
}

/// A disk that holds what the trace begins with, and `more` blocks.
fn disk_of(
    clock: &Clock,
    card: CardModel,
    trace: &Trace<Box<dyn Read>>,
    more: u64,
) -> Result<TimedDisk, Failure> {
    let blocks = trace.header().device_blocks + more;
    let disk = TimedDisk::new(clock, Card::new(card), trace.header().block_size, blocks);
    for (block, image) in trace.state() {
        disk.put(BlockNumber(*block), image)?;
    }
    Ok(disk)
}

fn charge_host(clock: &Clock, writes: &[Write]) {
    clock.charge_cpu(COMMIT_CPU_NS + BLOCK_CPU_NS * writes.len() as u64);
}

/// A journal in memory under a policy.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    pub card: CardModel,
    pub memory: MemoryModel,
    pub nvm_bytes: u64,
    pub log_blocks: u32,
}

impl Setting {
    pub const fn new(card: CardModel, memory: MemoryModel, nvm_bytes: u64) -> Self {
        Self { card, memory, nvm_bytes, log_blocks: LOG_BLOCKS }
    }
}

/// Runs a trace by the front door: one commit for each of its transactions.
pub fn by_journal(
    open: Open<'_>,
    setting: Setting,
    policy: impl FnOnce(&Clock) -> HostPolicy,
) -> Result<TraceRun, Failure> {
    let (clock, mut trace) = (Clock::new(), opened(open)?);
    let disk = disk_of(&clock, setting.card, &trace, setting.log_blocks.into())?;
    let options = media::options(policy(&clock), BATCH_BLOCKS, BATCH_BLOCKS)
        .lane_log_blocks(setting.log_blocks);
    let (journal, meter) =
        media::journal(&clock, &disk, setting.memory, setting.nvm_bytes, &options)?;
    let (begun, before) = (clock.now(), meter.so_far());
    let mut run = TraceRun::default();
    while trace.advance()? {
        let writes = &trace.transaction().writes;
        charge_host(&clock, writes);
        journal.transact(|tx| {
            writes.iter().try_for_each(|write| {
                let (block, image) = (BlockNumber(write.block), &write.image);
                match (write.is_data(), write.is_new()) {
                    (true, true) => tx.append(block, image),
                    (true, false) => tx.write(block, image),
                    (false, _) => {
                        let hint = Hint::METADATA.of_objects(write.object_bytes.into());
                        tx.write_with(block, hint, image)
                    }
                }
            })
        })?;
        run.commits += 1;
    }
    let (stats, memory) = (journal.stats()?, meter.so_far());
    run.nanos = clock.now() - begun;
    run.drive = disk.so_far();
    run.memory = MemoryUse { units: memory.units - before.units, ..memory };
    (run.logged, run.home) = (stats.total().logged, stats.checkpointed.blocks);
    check(&journal, trace.state())?;
    Ok(run)
}

/// Some blocks of what the trace ends with are what a reader finds.
fn check(journal: &media::TimedJournal, state: &State) -> Result<(), Failure> {
    for (block, image) in state.iter().step_by(7) {
        let mut found = vec![0; image.len()];
        journal.read(BlockNumber(*block), &mut found)?;
        if found[..] != image[..] {
            return Err(format!("block {block} is not what the trace says").into());
        }
    }
    Ok(())
}

/// Runs a trace on a block journal of `ring` blocks on the card, which logs data too.
pub fn by_block_journal(open: Open<'_>, card: CardModel, ring: u64) -> Result<TraceRun, Failure> {
    let (clock, mut trace) = (Clock::new(), opened(open)?);
    let homes = trace.header().device_blocks;
    let disk = disk_of(&clock, card, &trace, ring + 2)?;
    let mut journal = media::on_same_disk(&disk, homes, ring, Mode::Data)?;
    let begun = clock.now();
    let mut run = TraceRun::default();
    while trace.advance()? {
        let writes = &trace.transaction().writes;
        charge_host(&clock, writes);
        let mut transaction = journal.begin();
        for write in writes {
            transaction.metadata(BlockNumber(write.block), &write.image)?;
        }
        journal.commit(transaction)?;
        run.commits += 1;
    }
    run.nanos = clock.now() - begun;
    run.drive = disk.so_far();
    (run.logged, run.home) = (journal.stats().image_blocks, journal.stats().home_blocks);
    Ok(run)
}

/// Inodes of a transaction that differ from what was there.
fn changed_inodes(writes: &[Write], state: &State) -> u64 {
    let inodes = writes.iter().filter(|write| write.class == class::INODES);
    let changed = inodes.map(|write| {
        let old = &state[&write.block];
        let both = write.image.chunks(256).zip(old.chunks(256));
        both.filter(|(new, old)| new != old).count() as u64
    });
    changed.sum::<u64>().max(1)
}

/// How many logs a log-structured store appends to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Logs {
    /// One, of data and of the node blocks behind it.
    One,
    /// One of data and one of node blocks, as F2FS has.
    Two,
}

/// Runs a trace on a log-structured store: each commit appends its data, and a node block for each
/// inode that changed. Nothing is cleaned.
pub fn by_log_structured(
    open: Open<'_>,
    card: CardModel,
    logs: Logs,
    commit_cpu_ns: u64,
) -> Result<TraceRun, Failure> {
    let (clock, mut trace) = (Clock::new(), opened(open)?);
    // The tables and the pack at fixed places, each in two copies; the log behind them.
    let fixed = card.unit_bytes / BLOCK as u64;
    let log = 4 * fixed;
    let disk = TimedDisk::new(&clock, Card::new(card), BlockSize::DEFAULT, log + 2 * LOG_DISTANCE);
    let mut writer = disk.clone();
    let (mut heads, mut run) = ([log, log + LOG_DISTANCE], TraceRun::default());
    let block = vec![1; BLOCK];
    while trace.advance()? {
        let writes = &trace.transaction().writes;
        charge_host(&clock, writes);
        clock.charge_cpu(commit_cpu_ns);
        let data = writes.iter().filter(|write| write.is_data()).count() as u64;
        let nodes = changed_inodes(writes, trace.state());
        let appended = match logs {
            Logs::One => [data + nodes, 0],
            Logs::Two => [data, nodes],
        };
        for (head, blocks) in heads.iter_mut().zip(appended).filter(|(_, blocks)| *blocks > 0) {
            let parts = vec![&block[..]; blocks as usize];
            writer.write_vectored(BlockNumber(*head), &parts)?;
            *head += blocks;
        }
        writer.sync()?;
        run.commits += 1;
        if run.commits % COMMITS_A_CHECKPOINT == 0 {
            let copy = run.commits / COMMITS_A_CHECKPOINT % 2;
            for table in 0..TABLE_BLOCKS {
                writer.write(BlockNumber(copy * fixed + table * 37), &block)?;
            }
            let pack = vec![&block[..]; PACK_BLOCKS as usize];
            writer.write_vectored(BlockNumber((2 + copy) * fixed), &pack)?;
            writer.sync()?;
        }
    }
    run.nanos = clock.now();
    run.drive = disk.so_far();
    Ok(run)
}
