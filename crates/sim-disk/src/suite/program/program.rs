//! Programs on a journal as scenarios for the simulator. [`crate::suite::program::oracle`] judges
//! them.

use core::cell::RefCell;
use core::fmt;
use std::sync::Arc;

use journal_core::policy::Policy;
use journal_core::units::{BlockSize, LaneNumber};
use journal_core::{
    BlockNumber, DeviceFacts, Geometry, Journal, JournalMemory, On, OpenError, Overwrite,
    PortableKernels, Protocol, Row,
};

use crate::media::disk::SimDisk;
use crate::media::image::{DiskImage, Image};
use crate::media::model::{Model, Rules};
use crate::media::pmem::SimPmem;
use crate::media::tape::Mark;
use crate::media::world::World;
use crate::power::crash::{CrashPoint, CrashPoints};
use crate::power::explore::Scenario;
use crate::power::mutants::Mutator;
use crate::suite::program::habits::Habits;
use crate::suite::program::memory::Memory;
use crate::suite::program::oracle::{
    BLOCK_BYTES, BLOCKS, Block, EMPTY, Found, StoreState, digest, judge,
};
use crate::suite::program::rows::Rows;
use crate::suite::program::step::Step;

/// Bytes of a media unit, where the second superblock copy begins.
pub const SUPERBLOCK_UNIT: u64 = 256;

/// Blocks of a segment of the disk-side log.
const SEGMENT_BLOCKS: u32 = 2;

/// The journal's id.
pub const ID: [u8; 16] = *b"sixteen bytes id";

/// A program over a journal of [`BLOCKS`] blocks, and the journal's shape.
///
/// As a [`Scenario`], its program makes a journal and runs the steps. Its recovery opens the
/// journal, has the oracle judge what it shows, and goes on with the steps for afterwards.
#[derive(Clone, Debug)]
pub struct Program<P> {
    /// What is logged how.
    pub policy: P,
    /// What it does with the suite's updates, as [`Program::new`] has found out.
    pub habits: Habits,
    /// Lanes. A step that names one beyond them means one of them.
    pub lanes: u16,
    /// Bytes of each.
    pub lane_bytes: u64,
    /// What the disk leaves of a block whose write is cut off.
    pub overwrite: Overwrite,
    /// How a commit is made durable.
    pub protocol: Protocol,
    /// Slots of each lane.
    pub lane_slots: u32,
    /// Segments of each lane in the disk-side log, of two blocks each.
    pub lane_segments: u32,
    /// Whether lines are streamed, and put together from pieces, where they may be.
    pub stitches: bool,
    /// Blocks of a checkpoint's batch.
    pub batch: usize,
    /// Whether it acknowledges deferred transactions at once, which is a lie.
    pub promises_too_much: bool,
    /// Whether an open may say that a durable record is gone: media were damaged.
    pub may_report_rot: bool,
    /// What the media hold at first; an empty journal where it is not said.
    pub begin: Option<Arc<Begin>>,
    /// What is done.
    pub steps: Vec<Step>,
    /// What is done after each recovery, to see that the journal goes on. Of blocks that the crash
    /// may or may not have discarded they change no single words, since the rest is not known.
    pub steps_after: Vec<Step>,
    /// Whether the power goes once more after those, and takes all that was not made durable.
    pub crash_after: bool,
    /// What is got wrong on purpose.
    pub mutator: Mutator,
    /// Where the rows of the recovery table are counted.
    pub rows: Arc<Rows>,
}

/// What the media hold before a program runs.
#[derive(Debug)]
pub struct Begin {
    image: Image,
    blocks: Found,
}

impl Begin {
    /// What the blocks hold.
    #[must_use]
    pub const fn blocks(&self) -> &Found {
        &self.blocks
    }
}

/// The first call of a program that does not begin with an empty journal: what earlier calls wrote
/// is told apart from what it writes.
pub(in crate::suite) const FIRST_CALL: u64 = 1_000;

impl<P: Policy + Clone + fmt::Debug> Program<P> {
    /// The steps on an empty journal, whose lanes hold four records of a block each and whose
    /// disk leaves a block old or new.
    #[must_use]
    pub fn new(policy: P, lanes: u16, steps: Vec<Step>) -> Self {
        let habits = Habits::of(&policy);
        Self {
            policy,
            habits,
            lanes,
            lane_bytes: 4 * 192,
            overwrite: Overwrite::OldOrNew,
            protocol: Protocol::OneFence,
            lane_slots: if habits.has_slots { 6 } else { 0 },
            lane_segments: if habits.has_log { 3 } else { 0 },
            stitches: false,
            batch: 2,
            promises_too_much: false,
            may_report_rot: false,
            begin: None,
            steps,
            steps_after: Vec::new(),
            crash_after: false,
            mutator: Mutator::new(),
            rows: Arc::default(),
        }
    }

    /// What this program leaves behind after a power loss: everything, but what was not durable
    /// of the first `lost_bytes` of lane 0. The journal was opened once after that.
    ///
    /// # Errors
    /// What went wrong, or what the journal shows that it may not.
    pub fn leaves(&self, lost_bytes: u64) -> Result<Begin, String> {
        let world = World::boot(self.start(), Model::Torn8);
        self.program(&world)?;
        let mut history = world.history();
        history.push(Mark::PowerLost);
        let point = last_point(&world)?;
        let geometry = self.geometry();
        let lost_to = geometry.lane(LaneNumber(0)).raw() + lost_bytes;
        let kept = |index: usize| point.cells()[index].places()[0] >= lost_to;
        let world = World::boot(point.image(&choice(&point, kept)), Model::Torn8);
        let found = RefCell::new(None);
        let keep = |journal: &mut dyn ReadBlock| {
            let blocks = read_all(journal)?;
            judge(&history, &blocks, self.first_state())?;
            *found.borrow_mut() = Some(blocks);
            Ok(())
        };
        self.look(&world, &keep)?;
        let blocks = found.into_inner().ok_or("an open shows the blocks")?;
        Ok(Begin { image: world.visible(), blocks })
    }

    /// Takes the power away from a life that recovered and went on. The first loss takes everything
    /// that was not made durable, the second takes every other place of it. Both times the journal
    /// shows what it may.
    fn crash_again(&self, world: &World, rules: Rules) -> Result<(), String> {
        let mut history = world.history();
        history.push(Mark::PowerLost);
        let point = last_point(world)?;
        for keeps_some in [false, true] {
            let kept = |index: usize| keeps_some && index % 2 == 1;
            let world = World::boot(point.image(&choice(&point, kept)), rules);
            let shown = |journal: &mut dyn ReadBlock| {
                let found = read_all(journal)?;
                judge(&history, &found, self.first_state())
                    .map_err(|message| format!("after another crash: {message}"))
            };
            self.look(&world, &shown)?;
        }
        Ok(())
    }

    /// The journal's shape.
    ///
    /// # Panics
    /// Never: a block has a size that blocks may have.
    #[must_use]
    pub fn geometry(&self) -> Geometry {
        Geometry {
            block_size: BlockSize::new(BLOCK_BYTES as u32).expect("a block size"),
            lanes: self.lanes,
            lane_bytes: self.lane_bytes,
            shield_blocks: if self.habits.logs_deltas { 2 } else { 0 },
            unit_bytes: SUPERBLOCK_UNIT as u32,
            protocol: self.protocol,
            lane_slots: self.lane_slots,
            lane_log_blocks: self.lane_segments * SEGMENT_BLOCKS,
            segment_blocks: if self.lane_segments > 0 { SEGMENT_BLOCKS } else { 0 },
        }
    }

    /// Opens the journal and looks at it.
    pub(in crate::suite) fn look(&self, world: &World, shown: Shown<'_>) -> Result<(), String> {
        self.run(world, &Run { shown: Some(shown), steps: &[], shown_after: None })
    }

    /// Opens the journal and runs steps; a reopen begins anew with what is left.
    fn run(&self, world: &World, run: &Run<'_>) -> Result<(), String> {
        let mut steps = run.steps;
        let mut first = true;
        loop {
            let mut memory = Memory::new(&self.geometry(), 64, self.batch);
            let mut journal = match self.open(world, self.policy.clone(), memory.borrow()) {
                Err(OpenError::Rot { row, .. }) if self.may_report_rot => {
                    self.rows.hit(row, 1);
                    return Ok(());
                }
                Err(OpenError::RottenSlot { .. }) if self.may_report_rot => {
                    self.rows.hit(Row::RottenSlot, 1);
                    return Ok(());
                }
                Err(OpenError::SuperblockLost { .. }) if self.may_report_rot => {
                    self.rows.hit(Row::SuperblockLost, 1);
                    return Ok(());
                }
                opened => opened.map_err(|error| format!("open: {error}"))?,
            };
            let recovery = journal.recovery();
            self.rows.hit(Row::KnownDurable, recovery.records - recovery.found);
            self.rows.hit(Row::Found, recovery.found);
            self.rows.hit(Row::Tail, u64::from(recovery.tails - recovery.torn_slots));
            self.rows.hit(Row::TornSlot, u64::from(recovery.torn_slots));
            self.rows.hit(Row::Void, u64::from(recovery.voids));
            self.rows.behind(recovery.lanes_with_records_behind);
            if let Some(shown) = run.shown.filter(|_| first) {
                shown(&mut Access(&mut journal))?;
            }
            first = false;
            let mut left = steps.iter();
            let mut reopens = false;
            for step in left.by_ref() {
                if *step == Step::Reopen {
                    reopens = true;
                    break;
                }
                self.step(world, &mut journal, step)?;
            }
            steps = left.as_slice();
            if !reopens {
                return run.shown_after.map_or(Ok(()), |shown| shown(&mut Access(&mut journal)));
            }
        }
    }

    /// Opens the journal, with another policy where one is given.
    ///
    /// # Errors
    /// As [`Journal::open`].
    pub fn open<'m, L: Policy>(
        &self,
        world: &World,
        policy: L,
        memory: JournalMemory<'m, SimPmem, Mutator>,
    ) -> Result<Opened<'m, L>, OpenError> {
        let pmem = world.pmem().with_stitches(self.stitches);
        let (disk, hook) = (world.disk(0), self.mutator.clone());
        Journal::open(pmem, disk, policy, hook, PortableKernels, memory)
    }

    /// The contents before the first call.
    pub(in crate::suite) fn first_state(&self) -> StoreState {
        self.begin.as_ref().map_or(EMPTY, |begin| begin.blocks.map(Some))
    }
}

/// A journal of the suite.
pub type Opened<'m, L> = Journal<'m, L, On<SimPmem, SimDisk, Mutator>>;

/// A journal of any policy, to read.
struct Access<'a, 'm, L: Policy>(&'a mut Opened<'m, L>);

/// What reads a block of an open journal, whatever its policy.
pub(in crate::suite) trait ReadBlock {
    fn block(&mut self, block: usize) -> Result<Block, String>;
}

impl<L: Policy> ReadBlock for Access<'_, '_, L> {
    fn block(&mut self, block: usize) -> Result<Block, String> {
        let mut content = [0; BLOCK_BYTES];
        let number = BlockNumber(block as u64);
        self.0.read(number, &mut content).map_err(|error| error.to_string())?;
        Ok(content)
    }
}

pub(in crate::suite) type Shown<'a> = &'a dyn Fn(&mut dyn ReadBlock) -> Result<(), String>;

/// What to do with an open journal.
struct Run<'a> {
    shown: Option<Shown<'a>>,
    steps: &'a [Step],
    shown_after: Option<Shown<'a>>,
}

pub(in crate::suite) fn read_all(journal: &mut dyn ReadBlock) -> Result<Found, String> {
    let mut blocks = [[0; BLOCK_BYTES]; BLOCKS];
    for (number, block) in blocks.iter_mut().enumerate() {
        *block = journal.block(number)?;
    }
    Ok(blocks)
}

/// The crash at the end of a life.
pub(in crate::suite) fn last_point(world: &World) -> Result<CrashPoint, String> {
    let tape = world.tape();
    let points = CrashPoints::new(&world.start(), &tape, world.rules(), tape.len());
    points.last().ok_or_else(|| "a tape ends with a crash point".to_owned())
}

/// The crash that keeps everything in some places, and nothing in the others.
pub(in crate::suite) fn choice(point: &CrashPoint, kept: impl Fn(usize) -> bool) -> Vec<usize> {
    let cells = point.cells().iter().enumerate();
    cells.map(|(index, cell)| if kept(index) { cell.newest() } else { 0 }).collect()
}

fn format(world: &World, geometry: &Geometry, policy: &impl Policy) -> Result<(), OpenError> {
    let (hook, blocks) = (Mutator::new(), BLOCKS as u64);
    journal_core::format(world.pmem(), hook, &PortableKernels, geometry, ID, policy, blocks)
}

impl<P: Policy + Clone + fmt::Debug> Scenario for Program<P> {
    fn name(&self) -> String {
        let Self { policy, protocol, lanes, steps, .. } = self;
        format!("{policy:?}, {protocol:?}, {lanes} lanes: {steps:?}")
    }

    fn start(&self) -> Image {
        if let Some(begin) = &self.begin {
            return begin.image.clone();
        }
        let geometry = self.geometry();
        let span = usize::try_from(geometry.span_bytes().expect("small")).expect("small");
        let facts = DeviceFacts::new(32, self.overwrite);
        let disk_blocks = BLOCKS as u64 + geometry.log_blocks();
        let disk = DiskImage::blank(geometry.block_size, disk_blocks, facts);
        // Tail words are not zeroes before they are written.
        let mut pmem = Image::blank(span);
        let tails = geometry.tails().raw() as usize..geometry.lane(LaneNumber(0)).raw() as usize;
        pmem.pmem_mut()[tails].fill(0xA5);
        let world = World::boot(pmem.with_disk(disk), Model::Torn8);
        let formatted = format(&world, &geometry, &self.policy);
        formatted.expect("formats");
        world.visible()
    }

    fn program(&self, world: &World) -> Result<(), String> {
        let run = Run { shown: None, steps: &self.steps, shown_after: None };
        self.run(world, &run)
    }

    fn recover(&self, world: &World) -> Result<(), String> {
        let judged = |journal: &mut dyn ReadBlock| {
            let found = read_all(journal)?;
            judge(&world.history(), &found, self.first_state()).map(|()| found)
        };
        let shown = |journal: &mut dyn ReadBlock| {
            world.recovered(digest(&judged(journal)?));
            Ok(())
        };
        let shown_after = |journal: &mut dyn ReadBlock| judged(journal).map(drop);
        let run =
            Run { shown: Some(&shown), steps: &self.steps_after, shown_after: Some(&shown_after) };
        self.run(world, &run)?;
        if self.crash_after { self.crash_again(world, world.rules()) } else { Ok(()) }
    }
}
