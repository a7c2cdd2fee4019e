//! A file that is overwritten in order, by commits of 1 MiB: the rows of delta journaling.

use block_journal::Mode;
use journal_core::{BlockNumber, BlockSize};
use nvm_journal::CompressedDelta;
use sim_disk::Rng;
use sim_disk::time::{Card, CardModel, Clock, Generator, MemoryModel, MemoryUse, TimedDisk};

use crate::engines::Failure;
use crate::papers::BLOCK;
use crate::papers::media::{self, BATCH_BLOCKS};
use crate::papers::policy::HostPolicy;
use crate::papers::traces::{BLOCK_CPU_NS, COMMIT_CPU_NS, Setting, TraceRun};

/// Blocks of a commit of 1 MiB.
const COMMIT_BLOCKS: u64 = 256;
/// Runs of bytes that differ in a block of which a tenth does, and their length.
const RUNS: usize = 26;
const RUN_BYTES: usize = 16;
/// Bytes of the memory that a difference takes with its frame: the paper's mean of TPC-C.
pub const DIFFERENCE_BYTES: u64 = 150;
/// The first bytes of a run change in a way of their own, and the others are inverted. This many
/// make a difference as long as that.
const OWN_BYTES: usize = 7;
/// The journal of the baseline: 128 MB.
const RING_BLOCKS: u64 = 1 << 15;

/// How much of each block the new contents change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Difference {
    Tenth,
    Half,
    NineTenths,
}

/// In a memory that is smaller still, what is not the ring takes so large a part that the smaller
/// file does not fit either.
pub const SCALE_MAX: u64 = 4;

/// When blocks go home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HomeRule {
    /// As in the paper: when less than this part of the journal's area is free, all that
    /// is committed goes home.
    Paper(u64),
    /// As the library has it by default: as few blocks as room is needed for.
    Own,
}

impl HomeRule {
    /// The paper gives no figure of its threshold, and says that the smaller file stays above it.
    pub const USUAL: Self = Self::Paper(8);
}

/// Version 0 is what the file holds first, and version 1 what it is overwritten with.
#[derive(Clone, Copy, Debug)]
struct Contents {
    difference: Difference,
}

impl Contents {
    fn put(self, block: u64, version: u64, into: &mut [u8]) {
        let mut rng = Rng::new(block + 1);
        let words = [(); 8].map(|()| rng.next_u64());
        for (at, word) in into.chunks_exact_mut(8).enumerate() {
            let content = words[at % words.len()].rotate_left(at as u32);
            word.copy_from_slice(&content.to_le_bytes());
        }
        if version == 0 {
            return;
        }
        if self.difference == Difference::Half {
            for word in into.chunks_exact_mut(8) {
                let content = rng.next_u64();
                word.iter_mut().zip(content.to_le_bytes()).for_each(|(byte, bits)| *byte ^= bits);
            }
            return;
        }
        let each = into.len() / RUNS;
        for (at, byte) in into.iter_mut().enumerate() {
            let (run, of_run) = (at / each, at % each);
            let changes = match (run < RUNS, of_run) {
                (true, ..OWN_BYTES) => (words[run % words.len()] >> of_run) as u8 | 1,
                (true, ..RUN_BYTES) => 0xFF,
                _ => 0,
            };
            // Nine tenths are the complement.
            let inverts = self.difference == Difference::NineTenths;
            *byte ^= if inverts { !changes } else { changes };
        }
    }
}

impl Generator for Contents {
    fn version_of(&self, block: u64, bytes: &[u8]) -> Option<u64> {
        let mut image = [0; BLOCK];
        (0..2).find(|version| {
            self.put(block, *version, &mut image);
            image[..] == *bytes
        })
    }

    fn image(&self, block: u64, version: u64, into: &mut [u8]) {
        self.put(block, version, into);
    }
}

/// A disk that holds the file, and `more` blocks.
fn disk_of(
    clock: &Clock,
    card: CardModel,
    contents: Contents,
    blocks: u64,
    more: u64,
) -> Result<TimedDisk, Failure> {
    let disk = TimedDisk::new(clock, Card::new(card), BlockSize::DEFAULT, blocks + more);
    let disk = disk.with_generator(Box::new(contents));
    let mut image = [0; BLOCK];
    for block in 0..blocks {
        contents.put(block, 0, &mut image);
        disk.put(BlockNumber(block), &image)?;
    }
    Ok(disk)
}

/// The commits of a file of `blocks` blocks: which ones, and their new images.
fn commits(
    contents: Contents,
    blocks: u64,
    clock: &Clock,
    mut commit: impl FnMut(&[(BlockNumber, Vec<u8>)]) -> Result<(), Failure>,
) -> Result<u64, Failure> {
    let mut count = 0;
    for first in (0..blocks).step_by(COMMIT_BLOCKS as usize) {
        let some = first..blocks.min(first + COMMIT_BLOCKS);
        let images = some.map(|block| {
            let mut image = vec![0; BLOCK];
            contents.put(block, 1, &mut image);
            (BlockNumber(block), image)
        });
        let images: Vec<_> = images.collect();
        clock.charge_cpu(COMMIT_CPU_NS + BLOCK_CPU_NS * images.len() as u64);
        commit(&images)?;
        count += 1;
    }
    Ok(count)
}

/// Overwrites a file of `blocks` blocks by the front door, under `compressed-delta`.
pub fn by_journal(
    difference: Difference,
    blocks: u64,
    setting: Setting,
    checkpoints: HomeRule,
) -> Result<TraceRun, Failure> {
    let (clock, contents) = (Clock::new(), Contents { difference });
    let disk = disk_of(&clock, setting.card, contents, blocks, setting.log_blocks.into())?;
    let policy = HostPolicy::new(CompressedDelta::new(), &clock);
    let options =
        media::options(policy, BATCH_BLOCKS, BATCH_BLOCKS).lane_log_blocks(setting.log_blocks);
    let (journal, meter) =
        media::journal(&clock, &disk, setting.memory, setting.nvm_bytes, &options)?;
    let (begun, before) = (clock.now(), meter.so_far());
    let commits = commits(contents, blocks, &clock, |images| {
        let write = |tx: &mut nvm_journal::Transaction<'_, _, _>| {
            images.iter().try_for_each(|(block, image)| tx.write(*block, image))
        };
        journal.transact(write)?;
        let totals = journal.totals()?;
        let free = totals.capacity_bytes.saturating_sub(totals.used_bytes);
        match checkpoints {
            HomeRule::Paper(part) if free * part < totals.capacity_bytes => {
                journal.checkpoint()?;
            }
            _ => {}
        }
        Ok(())
    })?;
    journal.sync()?;
    let (stats, memory) = (journal.stats()?, meter.so_far());
    Ok(TraceRun {
        commits,
        nanos: clock.now() - begun,
        drive: disk.so_far(),
        memory: MemoryUse { units: memory.units - before.units, ..memory },
        logged: stats.total().logged,
        home: stats.checkpointed.blocks,
    })
}

/// Overwrites it on a block journal on the card, which logs data too.
pub fn by_block_journal(
    difference: Difference,
    blocks: u64,
    card: CardModel,
    scale: u64,
) -> Result<TraceRun, Failure> {
    let (clock, contents) = (Clock::new(), Contents { difference });
    let ring = RING_BLOCKS / scale;
    let disk = disk_of(&clock, card, contents, blocks, ring + 2)?;
    let mut journal = media::on_same_disk(&disk, blocks, ring, Mode::Data)?;
    let begun = clock.now();
    let commits = commits(contents, blocks, &clock, |images| {
        let mut transaction = journal.begin();
        for (block, image) in images {
            transaction.data(*block, image)?;
        }
        Ok(journal.commit(transaction)?)
    })?;
    journal.sync()?;
    let stats = journal.stats();
    Ok(TraceRun {
        commits,
        nanos: clock.now() - begun,
        drive: disk.so_far(),
        logged: stats.image_blocks,
        home: stats.home_blocks,
        ..TraceRun::default()
    })
}

/// What the paper has: 16 MB of NVRAM at the speed of DRAM, beside a card.
pub fn setting(card: CardModel, scale: u64) -> Setting {
    let whole = Setting::new(card, MemoryModel::delta_journaling(), (16 << 20) / scale);
    Setting { log_blocks: whole.log_blocks / scale as u32, ..whole }
}

#[cfg(test)]
mod tests {
    use sim_disk::time::CardModel;

    use super::*;

    #[test]
    fn a_difference_takes_as_many_bytes_as_it_shall() {
        let blocks = 4 * COMMIT_BLOCKS;
        for difference in [Difference::Tenth, Difference::NineTenths] {
            let setting = setting(CardModel::class_10(), 1);
            let run = by_journal(difference, blocks, setting, HomeRule::Own).expect("runs");
            let bytes = run.memory.units * 64 / blocks;
            assert!(bytes.abs_diff(DIFFERENCE_BYTES) <= 5, "{difference:?}: {bytes} bytes");
        }
    }
}
