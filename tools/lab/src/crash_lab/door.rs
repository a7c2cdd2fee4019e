//! Programs of the front door, for what the core's owner does not have. They are drawn by chance,
//! run on a tiny journal, and crash at sampled points.
//!
//! A program has one thread. It commits, defers and gathers, through several lanes; it makes room
//! by ticks, by checkpoints, or at the end of commits. In between it makes snapshots and reads
//! them. Memory for what is gathered is short, so that lcow spills; copies are asked for, so heads
//! go on by them; and ticks move blocks into the disk-side log, where a policy has one.
//!
//! After each crash an open has to show what [`crate::oracle`] allows, and goes on. A snapshot
//! shows the state that it was made of, or says that it is too old.

use core::time::Duration;
use std::time::Instant;

use journal_core::policy::{Policy as _, Thresholds};
use journal_core::{BlockNumber, BlockSize, DeviceFacts, Rule};
use nvm_journal::{Error, Journal, Options};
use serde_json::{Value, json};
use sim_disk::{DiskImage, Explorer, Failure, Image, Model, Mutator, Report, Rng, Scenario, World};

use crate::core_crash::program::Kind;
use crate::crash_lab::work::each;
use crate::erased::{DynHook, DynJournal, DynPolicy, any_options, of_world};
use crate::gates::Gate;
use crate::oracle::{
    BLOCK_BYTES, BLOCKS, Block, Call, Change, End, content_of, judge, next_number, sync_label,
};

/// Steps of a program.
const STEPS: usize = 16;

/// A touch writes the first two words of a block.
const TOUCHED_BYTES: usize = 16;

/// One step of a program.
#[derive(Clone, Debug)]
enum Step {
    /// A transaction, while this number of others are open: each has a lane of its own.
    Commit {
        others: usize,
        changes: Vec<(usize, Change)>,
        end: End,
    },
    Sync,
    /// Makes room where a threshold is crossed.
    Tick,
    Checkpoint,
    /// Makes a snapshot, in the place of the one before.
    Snapshot,
    /// Reads all of the snapshot, if there is one.
    Look,
    /// Opens the journal anew.
    Reopen,
}

/// A program of the front door.
#[derive(Clone, Debug)]
pub struct Door {
    kind: Kind,
    lanes: u16,
    /// Whether commits make room at their end. Or ticks do.
    in_commits: bool,
    steps: Vec<Step>,
    /// What is done after each recovery.
    steps_after: Vec<Step>,
    /// The rule or the persist site that is got wrong, if any.
    pub mutator: Mutator,
}

impl Door {
    /// The program that a number stands for.
    #[must_use]
    pub fn drawn(kind: Kind, number: u64) -> Self {
        let mut rng = Rng::new(number.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0xD00B);
        let lanes = 1 + rng.index(2) as u16;
        let in_commits = rng.index(2) == 1;
        let steps = (0..STEPS).map(|_| step(&mut rng, lanes)).collect();
        let steps_after = (0..3).map(|_| step(&mut rng, lanes)).collect();
        Self { kind, lanes, in_commits, steps, steps_after, mutator: Mutator::new() }
    }

    fn options(&self) -> Options<DynPolicy, DynHook> {
        let (slots, log) = (self.kind.wants_slots(), self.kind.wants_log());
        any_options(self.kind, self.mutator.clone())
            .lanes(self.lanes)
            .lane_bytes(28 * 64)
            .lane_slots(if slots { 4 } else { 0 })
            .lane_log_blocks(if log { 6 } else { 0 })
            .segment_blocks(2)
            .unit_bytes(256)
            .index_frames(64)
            .batch_blocks(2)
            .buffer_bytes(2 * BLOCK_BYTES)
            .thresholds(Thresholds::new(96, 192))
            .upkeep_in_commits(self.in_commits)
            .relogs(true)
    }

    fn open(&self, world: &World) -> Result<DynJournal, String> {
        let (nvm, disk) = of_world(world);
        DynJournal::open(nvm, disk, &self.options()).map_err(|error| format!("open: {error}"))
    }

    /// Opens the journal and takes steps; a reopen begins anew with what is left.
    fn run(&self, world: &World, steps: &[Step], mut is_recovery: bool) -> Result<(), String> {
        let mut left = steps;
        loop {
            let journal = self.open(world)?;
            if is_recovery {
                world.recovered(judge(world, &read_all(&journal)?)?);
            }
            let mut taken = left.iter();
            let reopens = take_steps(world, &journal, &mut taken, is_recovery)?;
            left = taken.as_slice();
            judge(world, &read_all(&journal)?)?;
            if !reopens {
                return Ok(());
            }
            is_recovery = true;
        }
    }
}

/// Draws a step.
fn step(rng: &mut Rng, lanes: u16) -> Step {
    match rng.index(20) {
        0 => Step::Sync,
        1 => Step::Tick,
        2 => Step::Checkpoint,
        3 | 4 => Step::Snapshot,
        5..8 => Step::Look,
        8 => Step::Reopen,
        _ => {
            // One block is written more often than the others.
            let first = if rng.index(2) == 0 { 0 } else { rng.index(BLOCKS) };
            let second = (first + 1 + rng.index(BLOCKS - 1)) % BLOCKS;
            let blocks = if rng.index(2) == 0 { vec![first] } else { vec![first, second] };
            let changes = [Change::Write, Change::Touch, Change::Touch, Change::Discard];
            let changes = blocks.into_iter().map(|block| (block, changes[rng.index(4)]));
            let changes = changes.collect();
            let ends = [End::Durable, End::Durable, End::Deferred, End::Gathered];
            let (others, end) = (rng.index(lanes.into()), ends[rng.index(4)]);
            Step::Commit { others, changes, end }
        }
    }
}

/// A snapshot, and what its blocks held when it was made; nothing where a block was given up.
struct SnapshotView<'j> {
    snapshot: nvm_journal::Snapshot<'j, DynPolicy, crate::erased::AnyMachine>,
    blocks: [Option<Block>; BLOCKS],
}

impl SnapshotView<'_> {
    fn judge(&self) -> Result<(), String> {
        for (number, expected) in self.blocks.iter().enumerate() {
            let mut found = [0; BLOCK_BYTES];
            match self.snapshot.read(BlockNumber(number as u64), &mut found) {
                Err(Error::SnapshotTooOld) => return Ok(()),
                Err(error) => return Err(format!("a snapshot: {error}")),
                Ok(()) if expected.is_some_and(|expected| expected != found) => {
                    return Err(format!("a snapshot shows {found:x?} in block {number}"));
                }
                Ok(()) => {}
            }
        }
        Ok(())
    }
}

/// Takes steps until there is none left, or one reopens the journal; whether that is so.
fn take_steps<'s>(
    world: &World,
    journal: &DynJournal,
    steps: &mut impl Iterator<Item = &'s Step>,
    is_found: bool,
) -> Result<bool, String> {
    let failed = |error: Error| error.to_string();
    // Of what an open finds nobody knows which blocks are given up.
    let (mut seen, mut given_up) = (None::<SnapshotView<'_>>, [is_found; BLOCKS]);
    for step in steps {
        match step {
            Step::Commit { others, changes, end } => {
                commit(world, journal, *others, changes, *end)
                    .map_err(|error| format!("{step:?}: {error}"))?;
                for (block, change) in changes {
                    given_up[*block] = *change == Change::Discard;
                }
            }
            Step::Sync => covering(world, || journal.sync())?,
            Step::Tick => {
                let now = Duration::from_millis(world.history().len() as u64 + 1);
                journal.tick(now).map_err(failed)?;
            }
            Step::Checkpoint => covering(world, || journal.checkpoint().map(drop))?,
            Step::Snapshot => {
                drop(seen.take());
                let snapshot = journal.snapshot().map_err(failed)?;
                let mut blocks = read_all(journal)?.map(Some);
                for (block, is_given_up) in blocks.iter_mut().zip(given_up) {
                    *block = block.filter(|_| !is_given_up);
                }
                seen = Some(SnapshotView { snapshot, blocks });
            }
            Step::Look => seen.as_ref().map_or(Ok(()), SnapshotView::judge)?,
            Step::Reopen => return Ok(true),
        }
    }
    seen.as_ref().map_or(Ok(()), SnapshotView::judge)?;
    Ok(false)
}

fn commit(
    world: &World,
    journal: &DynJournal,
    others: usize,
    changes: &[(usize, Change)],
    end: End,
) -> Result<(), Error> {
    let begun: Result<Vec<_>, _> = (0..others).map(|_| journal.begin()).collect();
    let _others = begun?;
    let number = next_number(&world.history());
    let mut transaction = journal.begin()?;
    for (block, change) in changes {
        let content = content_of(number, *block, *change);
        let block = BlockNumber(*block as u64);
        match change {
            Change::Touch => transaction.write_at(block, 0, &content[..TOUCHED_BYTES])?,
            Change::Discard => transaction.discard(block)?,
            _ => transaction.write(block, &content)?,
        }
    }
    let label = Call { number, end, changes: changes.to_vec() }.label();
    world.called(label);
    match end {
        End::Deferred => drop(transaction.commit_deferred()?),
        End::Gathered | End::Together => transaction.commit_gathered()?,
        End::Durable | End::Abort => drop(transaction.commit()?),
    }
    world.returned(label);
    Ok(())
}

/// A call that makes everything durable that was committed before.
fn covering(world: &World, call: impl FnOnce() -> Result<(), Error>) -> Result<(), String> {
    let label = sync_label(world.history().len() as u64);
    world.called(label);
    call().map_err(|error| error.to_string())?;
    world.returned(label);
    Ok(())
}

fn read_all(journal: &DynJournal) -> Result<[Block; BLOCKS], String> {
    let mut blocks = [[0; BLOCK_BYTES]; BLOCKS];
    for (number, block) in blocks.iter_mut().enumerate() {
        let read = journal.read(BlockNumber(number as u64), block);
        read.map_err(|error| format!("block {number}: {error}"))?;
    }
    Ok(blocks)
}

impl Scenario for Door {
    fn name(&self) -> String {
        let Self { kind, lanes, in_commits, steps, steps_after, .. } = self;
        let room = if *in_commits { "commits" } else { "ticks" };
        format!("{kind:?}, {lanes} lanes, {room} make room: {steps:?}, then {steps_after:?}")
    }

    fn start(&self) -> Image {
        let size = BlockSize::new(BLOCK_BYTES as u32).expect("a block size");
        let options = self.options();
        let plan = options.plan(1 << 20, size).expect("a small journal");
        let blocks = BLOCKS as u64 + plan.geometry.log_blocks();
        let disk = DiskImage::blank(size, blocks, DeviceFacts::cautious());
        let image = Image::blank(plan.nvm_bytes as usize).with_disk(disk);
        let world = World::boot(image, Model::Torn8);
        let (nvm, disk) = of_world(&world);
        drop(Journal::format(nvm, disk, &options).expect("formats"));
        world.visible()
    }

    fn program(&self, world: &World) -> Result<(), String> {
        self.run(world, &self.steps, false)
    }

    fn recover(&self, world: &World) -> Result<(), String> {
        self.run(world, &self.steps_after, true)
    }
}

/// What came of the front door under one policy.
pub struct Doors {
    policy: &'static str,
    required: u64,
    programs: u64,
    report: Report,
    wrong: Option<Box<Failure>>,
}

/// Explores programs under one policy until that many are done, or the time has come. Every other
/// one is crashed under the other model, and every fourth has its process killed as well.
pub fn explore(
    (policy, kind): (&'static str, Kind),
    (required, seed): (u64, u64),
    until: Instant,
) -> Doors {
    let done = std::sync::Mutex::new((0, Report::default()));
    let job = |at: usize| {
        let model = if at.is_multiple_of(2) { Model::Torn8 } else { Model::X86Line };
        let explorer = Explorer::new(model).with_seed(seed ^ at as u64);
        let explorer = explorer.with_images_per_point_max(1 << 3).with_random_per_point(6);
        let explorer = if at % 4 == 3 { explorer.with_kills() } else { explorer };
        explorer.explore(&Door::drawn(kind, seed << 32 | at as u64))
    };
    let take = |found: Report| {
        let mut done = done.lock().expect("no thread panics with it");
        done.0 += 1;
        done.1 += found;
    };
    let wrong = each(required as usize, Some(until), job, take).err();
    let (programs, report) = done.into_inner().expect("no thread panics with it");
    Doors { policy, required, programs, report, wrong }
}

impl Doors {
    pub fn gates(&self) -> Vec<Gate> {
        let wrong = u64::from(self.wrong.is_some());
        vec![
            Gate::at_least("programs of the front door", self.policy, self.required, self.programs),
            Gate::at_most("front door: not allowed", self.policy, 0, wrong),
        ]
    }

    pub fn print(&self) {
        let (programs, states) = (self.programs, self.report.images);
        println!("{}: {programs} programs of the front door, {states} states", self.policy);
        if let Some(wrong) = &self.wrong {
            println!("\n{}, the front door: NOT ALLOWED\n\n{wrong}", self.policy);
        }
    }

    pub fn json(&self) -> Value {
        json!({
            "policy": self.policy,
            "programs": self.programs,
            "states": self.report.images,
            "not_allowed": u64::from(self.wrong.is_some()),
        })
    }
}

/// Rules of the front door that programs have to notice the absence of, each with a policy under
/// which it matters.
pub const NOTICED: [(Rule, Kind); 4] = [
    (Rule::SnapshotsKept, Kind::FullBlock),
    (Rule::SnapshotsEnd, Kind::FullBlock),
    (Rule::SpillsUnnamed, Kind::Lcow),
    (Rule::CopyIsNewest, Kind::FullBlock),
];

/// Within this number of programs.
pub const NOTICED_WITHIN: u64 = 500;

/// How many programs it takes to notice that a rule is switched off, if one of the first `most`
/// does.
#[must_use]
pub fn notices(rule: Rule, kind: Kind, most: u64) -> Option<u64> {
    let explorer = Explorer::new(Model::Torn8).with_images_per_point_max(1);
    let explorer = explorer.with_random_per_point(1);
    let is_noticed = |number: &u64| {
        let mutator = Mutator::without(&[rule]);
        let door = Door { mutator, ..Door::drawn(kind, *number) };
        let explored = std::panic::catch_unwind(core::panic::AssertUnwindSafe(|| {
            explorer.explore(&door).is_err()
        }));
        explored.unwrap_or(true)
    };
    (0..most).find(is_noticed).map(|number| number + 1)
}
