//! Programs on the front door as scenarios for the simulator.

use core::ops::ControlFlow;
use core::time::Duration;

use journal_core::policy::{Pacing, Thresholds};
use journal_core::units::BlockSize;
use journal_core::{
    BlockNumber, DeviceFacts, Durability, Geometry, OpenError, Operation, Overwrite,
    PortableKernels, Protocol,
};
use nvm_journal::{Error, Journal, Options};
use sim_disk::{DiskImage, Image, Model, Mutator, Scenario, World};

use crate::probe::{Device, HALF_BYTES, Logged, Probe};
use lab::erased::{AnyMachine, DynDisk, DynHook, DynJournal, DynPmem, DynPolicy};
use lab::oracle::{
    BLOCK_BYTES, BLOCKS, Block, Call, Change, End, content_of, judge, judge_read, next_number,
    sync_label,
};

/// Bytes of a media unit, where the second superblock copy begins.
pub(crate) const SUPERBLOCK_UNIT: u64 = 256;

/// As of all tests, so that the engine is not compiled again.
pub(crate) type Front = DynJournal;
type Transaction<'j> = nvm_journal::Transaction<'j, DynPolicy, AnyMachine>;

/// The memory of a world, and a disk.
pub(crate) fn media(world: &World, disk: Device) -> (DynPmem, DynDisk) {
    (DynPmem::new(world.pmem()), DynDisk::new(disk))
}

/// A transaction of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tx {
    /// Which of the seats that are free when it begins. Those of a journal are made in order, and
    /// so its lane is this one's remainder, unless the transaction before it there was deferred.
    pub(crate) seat: usize,
    pub(crate) changes: Vec<(usize, Change)>,
    pub(crate) end: End,
}

impl Tx {
    pub(crate) fn new(seat: usize, changes: &[(usize, Change)], end: End) -> Self {
        Self { seat, changes: changes.to_vec(), end }
    }
}

/// One step of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// One transaction.
    One(Tx),
    /// Two that are open at once; the second ends first if so said. Where they meet, the second
    /// is told of a conflict, and given up.
    Two(Tx, Tx, bool),
    /// One transaction in one call: whole images and discards. A touch reads the bytes that it
    /// keeps.
    AtOnce(Tx),
    Sync,
    Checkpoint,
    /// A checkpoint that is ended behind its first batch.
    OneBatch,
    /// A tick, a second behind the one before at least.
    Tick,
    /// Ends the journal in good order and opens it again.
    Close,
    /// Drops the journal and opens it again.
    Reopen,
}

#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) logs: Logged,
    pub(crate) lanes: u16,
    pub(crate) lane_bytes: u64,
    pub(crate) lane_slots: u32,
    /// Segments of each lane in the disk-side log, of two blocks each.
    pub(crate) lane_segments: u32,
    /// How a commit becomes durable.
    pub(crate) protocol: Protocol,
    pub(crate) overwrite: Overwrite,
    /// Blocks of a checkpoint's batch.
    pub(crate) batch: usize,
    /// Blocks that the running transaction gathers.
    pub(crate) buffer: usize,
    /// Slots that may hold what was read from the disk.
    pub(crate) clean_slots: u32,
    /// Whether logged blocks stay in a cache, of this number of blocks. None: there is no cache.
    pub(crate) pinned: Option<usize>,
    pub(crate) drain_on_open: bool,
    pub(crate) keep_on_close: bool,
    /// From which fractions of a lane on room is made.
    pub(crate) thresholds: Option<Thresholds>,
    /// Whether a commit makes room at its end, where a threshold is crossed.
    pub(crate) in_commits: bool,
    /// The time from one checkpoint to the next, by the clock of ticks.
    pub(crate) checkpoint_after: Option<Duration>,
    /// Whether blocks are copied so that heads go on.
    pub(crate) relogs: bool,
    /// After how many changes a block is logged whole; zero: however many there are.
    pub(crate) whole_after: u8,
    /// How long a step is to take.
    pub(crate) longest_stop: Duration,
    /// Whether a thread in the background makes room.
    pub(crate) background: bool,
    /// Whether an open may say that a durable record is gone: media were damaged.
    pub(crate) may_report_rot: bool,
    pub(crate) steps: Vec<Step>,
    /// What is done after each recovery, to see that the journal goes on.
    pub(crate) steps_after: Vec<Step>,
    pub(crate) mutator: Mutator,
}

impl Program {
    pub(crate) fn new(logs: Logged, lanes: u16, steps: Vec<Step>) -> Self {
        Self {
            logs,
            lanes,
            // Three blocks by the front door's own bound.
            lane_bytes: 10 * 64,
            lane_slots: logs.lane_slots(),
            lane_segments: logs.lane_segments(),
            protocol: Protocol::OneFence,
            overwrite: Overwrite::OldOrNew,
            batch: 2,
            buffer: 1 << 10,
            clean_slots: 0,
            pinned: None,
            drain_on_open: false,
            keep_on_close: false,
            thresholds: None,
            in_commits: false,
            checkpoint_after: None,
            relogs: false,
            whole_after: 0,
            longest_stop: Duration::from_millis(1),
            background: false,
            may_report_rot: false,
            steps,
            steps_after: Vec::new(),
            mutator: Mutator::new(),
        }
    }

    fn geometry(&self) -> Geometry {
        Geometry {
            block_size: BlockSize::new(BLOCK_BYTES as u32).expect("a block size"),
            lanes: self.lanes,
            lane_bytes: self.lane_bytes,
            shield_blocks: if self.logs == Logged::Whole { 0 } else { 2 },
            unit_bytes: SUPERBLOCK_UNIT as u32,
            protocol: self.protocol,
            lane_slots: self.lane_slots,
            lane_log_blocks: self.lane_segments * 2,
            segment_blocks: if self.lane_segments > 0 { 2 } else { 0 },
        }
    }

    pub(crate) fn options(&self, probe: Probe) -> Options<DynPolicy, DynHook> {
        let options = match self.pinned {
            Some(blocks) => Options::new().pins_logged(true).cache_bytes(blocks * BLOCK_BYTES),
            None => Options::new(),
        };
        let options = options.longest_stop(self.longest_stop).whole_after(self.whole_after);
        let options = match self.thresholds {
            Some(thresholds) => options.thresholds(thresholds),
            None => options,
        };
        let options = match self.checkpoint_after {
            after @ Some(_) => options.pacing(Pacing::new(None, None, after)),
            None => options,
        };
        options
            .upkeep_in_commits(self.in_commits)
            .relogs(self.relogs)
            .clean_slots(self.clean_slots)
            .policy(DynPolicy::new(self.logs))
            .hook(DynHook::new(probe))
            .index_frames(64)
            .batch_blocks(self.batch)
            .buffer_bytes(self.buffer * BLOCK_BYTES)
            .drain_on_open(self.drain_on_open)
            .keep_on_close(self.keep_on_close)
            .background_checkpoint(self.background)
    }

    pub(crate) fn open(&self, world: &World) -> Result<Front, Error> {
        let probe = Probe::new(self.mutator.clone());
        // Some programs have lines streamed, and put together from pieces.
        let pmem = world.pmem().with_stitches(self.steps.len() % 2 == 1);
        let (pmem, disk) = (DynPmem::new(pmem), DynDisk::new(Device::new(world.disk(0))));
        Journal::open(pmem, disk, &self.options(probe))
    }

    /// Opens the journal and runs steps; a reopen begins anew with what is left.
    fn run(&self, world: &World, steps: &[Step], mut is_recovery: bool) -> Result<(), String> {
        let mut steps = steps;
        loop {
            let journal = match self.open(world) {
                Err(Error::Open(OpenError::Rot { .. } | OpenError::SuperblockLost { .. }))
                    if self.may_report_rot =>
                {
                    return Ok(());
                }
                opened => opened.map_err(|error| format!("open: {error}"))?,
            };
            if is_recovery {
                world.recovered(judge(world, &read_all(&journal)?)?);
            }
            let mut left = steps.iter();
            let end = left.by_ref().find_map(|step| match step {
                Step::Close | Step::Reopen => Some(Ok(step)),
                step => self.step(world, &journal, step).err().map(Err),
            });
            steps = left.as_slice();
            let unreadable = journal.unreadable().map_err(|error| error.to_string())?;
            if !unreadable.is_empty() {
                return Err(format!("left out: {unreadable:?}"));
            }
            let Some(end) = end else {
                return judge(world, &read_all(&journal)?).map(drop);
            };
            match end? {
                Step::Close => covering(world, || journal.close())?,
                _ => drop(journal),
            }
            is_recovery = true;
        }
    }

    pub(crate) fn step(&self, world: &World, journal: &Front, step: &Step) -> Result<(), String> {
        match step {
            Step::One(tx) => transact(world, journal, &[tx], false),
            Step::Two(first, second, second_first) => {
                transact(world, journal, &[first, second], *second_first)
            }
            Step::AtOnce(tx) => {
                let begun: Result<Vec<_>, _> = (0..tx.seat).map(|_| journal.begin()).collect();
                let _others = begun.map_err(|error| format!("begins: {error}"))?;
                let number = next_number(&world.history());
                let call = call_of(number, tx);
                world.called(call.label());
                at_once(journal, number, tx).map_err(|error| format!("{tx:?}: {error}"))?;
                world.returned(call.label());
                Ok(())
            }
            Step::Sync => covering(world, || journal.sync()),
            Step::Checkpoint => covering(world, || journal.checkpoint().map(drop)),
            Step::OneBatch => {
                let part = journal.checkpoint_steps(|_, _| ControlFlow::Break(()));
                part.map(drop).map_err(|error| format!("a batch: {error}"))
            }
            Step::Tick => {
                let now = Duration::from_secs(world.history().len() as u64 + 1);
                journal.tick(now).map_err(|error| format!("a tick: {error}"))
            }
            Step::Close | Step::Reopen => unreachable!("handled by the caller"),
        }
    }
}

/// A call that makes everything durable that was committed before.
pub(crate) fn covering(
    world: &World,
    call: impl FnOnce() -> Result<(), Error>,
) -> Result<(), String> {
    let label = sync_label(world.history().len() as u64);
    world.called(label);
    call().map_err(|error| format!("covers: {error}"))?;
    world.returned(label);
    Ok(())
}

/// Runs transactions that are open at once, one after the other, and ends them in this order or the
/// other way round.
fn transact(world: &World, journal: &Front, txs: &[&Tx], in_reverse: bool) -> Result<(), String> {
    let seats = txs.iter().map(|tx| tx.seat + 1).max().unwrap_or(0);
    let mut begun = Vec::new();
    for _ in 0..seats {
        begun.push(Some(journal.begin().map_err(|error| format!("begins: {error}"))?));
    }
    let mut open = Vec::new();
    for tx in txs {
        let mut transaction = begun[tx.seat].take().expect("each has a seat of its own");
        match change(world, &mut transaction, next_number(&world.history()) + open.len() as u64, tx)
        {
            Ok(number) => open.push((*tx, number, transaction)),
            Err(Error::Conflict { .. }) => {}
            Err(error) => return Err(format!("{tx:?}: {error}")),
        }
    }
    if in_reverse {
        open.reverse();
    }
    for (tx, number, transaction) in open {
        end(world, transaction, number, tx).map_err(|error| format!("{tx:?}: {error}"))?;
    }
    Ok(())
}

/// Makes a transaction's changes, under a number.
fn change(
    world: &World,
    transaction: &mut Transaction<'_>,
    number: u64,
    tx: &Tx,
) -> Result<u64, Error> {
    for (block, change) in &tx.changes {
        if let Some(found) = apply(transaction, number, *block, *change)? {
            judge_read(world, *block, &found).unwrap_or_else(|wrong| panic!("{wrong}"));
        }
    }
    Ok(number)
}

/// Makes one change; returns what was read.
pub(crate) fn apply(
    transaction: &mut Transaction<'_>,
    number: u64,
    block: usize,
    change: Change,
) -> Result<Option<Block>, Error> {
    let content = content_of(number, block, change);
    let block = BlockNumber(block as u64);
    match change {
        Change::Write | Change::Copy => transaction.write(block, &content)?,
        Change::Append => transaction.append(block, &content)?,
        Change::Touch => transaction.write_at(block, 0, &content[..HALF_BYTES])?,
        Change::Discard => transaction.discard(block)?,
        Change::Read => {
            let mut found = [0; BLOCK_BYTES];
            transaction.read(block, &mut found)?;
            return Ok(Some(found));
        }
    }
    Ok(None)
}

pub(crate) fn call_of(number: u64, tx: &Tx) -> Call {
    Call { number, end: tx.end, changes: tx.changes.clone() }
}

/// Commits a transaction of whole images and discards, ascending by block, in one call. What a
/// touch leaves as it is has to be what nobody else changes.
pub(crate) fn at_once(journal: &Front, number: u64, tx: &Tx) -> Result<(), Error> {
    let contents = tx.changes.iter().map(|(block, change)| {
        let mut content = content_of(number, *block, *change);
        if *change == Change::Touch {
            content[HALF_BYTES..].copy_from_slice(&read_block(journal, *block)?[HALF_BYTES..]);
        }
        Ok(content)
    });
    let contents = contents.collect::<Result<Vec<Block>, Error>>()?;
    let operations = tx.changes.iter().zip(&contents).map(|((block, change), content)| {
        let block = BlockNumber(*block as u64);
        match change {
            Change::Discard => Operation::Discard(block),
            Change::Read => unreachable!("commits nothing"),
            _ => Operation::write(block, content),
        }
    });
    let durability = match tx.end {
        End::Deferred => Durability::Deferred,
        End::Durable | End::Abort => Durability::Durable,
        End::Gathered | End::Together => unreachable!("is not done in one call"),
    };
    journal.commit(&operations.collect::<Vec<_>>(), durability).map(drop)
}

/// Ends a transaction as it says, with marks.
pub(crate) fn end(
    world: &World,
    transaction: Transaction<'_>,
    number: u64,
    tx: &Tx,
) -> Result<(), Error> {
    let call = call_of(number, tx);
    match tx.end {
        End::Abort => {
            transaction.abort();
            return Ok(());
        }
        End::Durable => {
            world.called(call.label());
            transaction.commit()?;
        }
        End::Deferred => {
            world.called(call.label());
            transaction.commit_deferred()?;
        }
        End::Gathered | End::Together => {
            world.called(call.label());
            transaction.commit_gathered()?;
        }
    }
    world.returned(call.label());
    Ok(())
}

pub(crate) fn read_block(journal: &Front, block: usize) -> Result<Block, Error> {
    let mut content = [0; BLOCK_BYTES];
    journal.read(BlockNumber(block as u64), &mut content)?;
    Ok(content)
}

pub(crate) fn read_all(journal: &Front) -> Result<[Block; BLOCKS], String> {
    let mut blocks = [[0; BLOCK_BYTES]; BLOCKS];
    for (number, block) in blocks.iter_mut().enumerate() {
        *block = read_block(journal, number).map_err(|error| format!("reads: {error}"))?;
    }
    Ok(blocks)
}

impl Scenario for Program {
    fn name(&self) -> String {
        format!("{:?}, {} lanes: {:?}", self.logs, self.lanes, self.steps)
    }

    fn start(&self) -> Image {
        let geometry = self.geometry();
        let span = usize::try_from(geometry.span_bytes().expect("small")).expect("small");
        let facts = DeviceFacts::new(32, self.overwrite);
        let disk_blocks = BLOCKS as u64 + geometry.log_blocks();
        let disk = DiskImage::blank(geometry.block_size, disk_blocks, facts);
        let world = World::boot(Image::blank(span).with_disk(disk), Model::Torn8);
        let id = *b"sixteen bytes id";
        let (hook, kernels) = (Mutator::new(), PortableKernels);
        let (logs, blocks) = (&self.logs, BLOCKS as u64);
        journal_core::format(world.pmem(), hook, &kernels, &geometry, id, logs, blocks)
            .expect("formats");
        world.visible()
    }

    fn program(&self, world: &World) -> Result<(), String> {
        self.run(world, &self.steps, false)
    }

    fn recover(&self, world: &World) -> Result<(), String> {
        self.run(world, &self.steps_after, true)
    }
}
