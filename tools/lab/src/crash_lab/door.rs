//! Programs of the front door, for what the core's owner does not have. They are drawn by chance,
//! run on a tiny journal, and crash at sampled points.
//!
//! A program has one thread. It commits, defers and gathers, through several lanes; it makes room
//! by ticks, by checkpoints, or at the end of commits. In between it makes snapshots and reads
//! them. It writes data, metadata and patches, and appends to blocks that are not live. It trims
//! blocks, closes the journal, and opens it again.
//!
//! Its `Setting` is drawn too: from which thresholds on room is made, how much a step does,
//! whether copies make room, whether slots hold what was read, and whether logged blocks are
//! pinned in a small cache. Memory for what is gathered is short, so that lcow spills. The
//! thresholds also move blocks into the disk-side log, where a policy has one. Some programs have a
//! clock by which transactions that are gathered commit, and checkpoints are made. Some use the
//! protocol of two fences. Some keep content in the lanes when they close, and some write all of it
//! home when they open. Some note a number with each transaction that is not gathered.
//!
//! After each crash an open has to show what [`crate::oracle`] allows, and goes on. A snapshot
//! shows the state that it was made of, or says that it is too old. The newest note is that of a
//! transaction, and no older than the last one that was durable for certain.

use core::time::Duration;
use std::time::Instant;

use journal_core::policy::{Pacing, Policy as _, Thresholds};
use journal_core::{BlockNumber, BlockSize, DeviceFacts, Protocol, Rule};
use nvm_journal::{Error, Journal, Options};
use serde_json::{Value, json};
use sim_disk::{
    DiskImage, Explorer, Failure, Image, Model, Mutant, Mutation, Mutator, Report, Rng, Scenario,
    World,
};

use crate::core_crash::program::Kind;
use crate::crash_lab::work::each;
use crate::erased::{DynDisk, DynHook, DynJournal, DynPmem, DynPolicy, any_options};
use crate::gates::Gate;
use crate::oracle::{
    BLOCK_BYTES, BLOCKS, Block, Call, Change, End, content_of, judge, newest_durable, next_number,
    sync_label,
};
use crate::test_disks::Forgets;

/// Steps of a program.
const STEPS: usize = 16;

/// Blocks that fit in the cache, where logged blocks are pinned there.
const PINNED_BLOCKS: usize = 4;

/// A touch writes the first two words of a block.
const TOUCHED_BYTES: usize = 16;

/// A transaction.
#[derive(Clone, Debug)]
struct Commit {
    others: usize,
    changes: Vec<(usize, Change)>,
    /// Whether what it writes whole is metadata.
    is_metadata: bool,
    end: End,
}

/// How a journal runs, beside its policy.
#[derive(Clone, Copy, Debug)]
struct Setting {
    lanes: u16,
    /// Whether commits make room at their end. Or ticks do.
    in_commits: bool,
    /// From where on room is reclaimed, and from where on blocks go home.
    thresholds: (u8, u8),
    /// How long a step is to take. One without any time reads the records at the heads.
    longest_stop: Duration,
    relogs: bool,
    /// After how many changes a block is logged whole; zero: however many there are.
    whole_after: u8,
    /// How many slots may hold what was read.
    clean_slots: u32,
    /// How many blocks the cache has room for, in which logged blocks are pinned; or none are.
    pinned: Option<usize>,
    /// How many milliseconds old the running transaction becomes, and the last checkpoint.
    clock: Option<(u64, u64)>,
    has_tails: bool,
    has_notes: bool,
    keeps_on_close: bool,
    drains_on_open: bool,
}

/// Thresholds of which each may be the one that acts; those of a policy come first.
const THRESHOLDS: [(u8, u8); 4] = [(96, 192), (0, 255), (64, 255), (192, 192)];

impl Setting {
    fn drawn(rng: &mut Rng) -> Self {
        Self {
            lanes: 1 + rng.index(2) as u16,
            in_commits: rng.index(2) == 1,
            thresholds: THRESHOLDS[rng.index(THRESHOLDS.len())],
            longest_stop: [Duration::from_millis(1), Duration::from_nanos(1)][rng.index(2)],
            relogs: rng.index(2) == 1,
            whole_after: [0, 0, 2][rng.index(3)],
            clean_slots: [0, 2][rng.index(2)],
            pinned: [None, None, Some(PINNED_BLOCKS)][rng.index(3)],
            clock: None,
            has_tails: false,
            has_notes: false,
            keeps_on_close: false,
            drains_on_open: false,
        }
    }

    /// This setting with more that is drawn.
    fn with_more(self, rng: &mut Rng) -> Self {
        Self {
            clock: [None, Some((2, 6))][rng.index(2)],
            has_tails: rng.index(4) == 0,
            has_notes: rng.index(2) == 0,
            keeps_on_close: rng.index(2) == 0,
            drains_on_open: rng.index(4) == 0,
            ..self
        }
    }
}

/// One step of a program.
#[derive(Clone, Debug)]
enum Step {
    /// A transaction, while this number of others are open: each has a lane of its own.
    Commit(Commit),
    Sync,
    /// Makes room where a threshold is crossed.
    Tick,
    Checkpoint,
    /// Empties the rings.
    Rings,
    /// Makes a snapshot, in the place of the one before.
    Snapshot,
    /// Reads all of the snapshot, if there is one.
    Look,
    /// Opens the journal anew.
    Reopen,
    /// Closes the journal, and opens it anew.
    Close,
    /// Gives up a block, and tells the disk so.
    Trim(usize),
}

/// Why a program takes no further step with its journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    Done,
    /// It opens the journal anew.
    Dropped,
    /// It closes the journal before.
    Closed,
}

/// A program of the front door.
#[derive(Clone, Debug)]
pub struct Door {
    kind: Kind,
    setting: Setting,
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
        let kind = match kind {
            Kind::Adaptive if rng.index(2) == 1 => Kind::AdaptiveSlots,
            kind => kind,
        };
        let mut setting = Setting::drawn(&mut rng);
        let mut steps = drawn_steps(&mut rng, setting.lanes, STEPS);
        if (kind.wants_log() || kind.wants_slots()) && rng.index(4) == 0 {
            let relogs = setting.relogs || !kind.wants_log();
            setting = Setting { lanes: 2, thresholds: (0, 255), pinned: None, relogs, ..setting };
            steps.splice(..STEPS / 2, a_move_beside_what_is_gathered(&mut rng));
        }
        let steps_after = drawn_steps(&mut rng, setting.lanes, 3);
        if number % 2 == 1 {
            setting = setting.with_more(&mut rng);
            for _ in 0..2 {
                let more = [Step::Close, Step::Trim(rng.index(BLOCKS))][rng.index(2)].clone();
                steps.insert(rng.index(steps.len()), more);
            }
        }
        Self { kind, setting, steps, steps_after, mutator: Mutator::new() }
    }

    fn options(&self) -> Options<DynPolicy, DynHook> {
        let (slots, log) = (self.kind.wants_slots(), self.kind.wants_log());
        let Setting { lanes, in_commits, thresholds, longest_stop, relogs, .. } = self.setting;
        let (reclaim_at, checkpoint_at) = thresholds;
        let options = any_options(self.kind, self.mutator.clone())
            .lanes(lanes)
            .lane_bytes(28 * 64)
            .lane_slots(if slots { 4 } else { 0 })
            .lane_log_blocks(if log { 6 } else { 0 })
            .segment_blocks(2)
            .unit_bytes(256)
            .index_frames(64)
            .batch_blocks(2)
            .buffer_bytes(2 * BLOCK_BYTES)
            .thresholds(Thresholds::new(reclaim_at, checkpoint_at))
            .longest_stop(longest_stop)
            .upkeep_in_commits(in_commits)
            .clean_slots(if slots { self.setting.clean_slots } else { 0 })
            .relogs(relogs)
            .whole_after(self.setting.whole_after)
            .keep_on_close(self.setting.keeps_on_close)
            .drain_on_open(self.setting.drains_on_open);
        let tails = if self.setting.has_tails { Protocol::TailPointer } else { Protocol::OneFence };
        let options = options.protocol(tails);
        let after = |millis| Some(Duration::from_millis(millis));
        let options = match self.setting.clock {
            Some((commit, home)) => options.pacing(Pacing::new(after(commit), None, after(home))),
            None => options,
        };
        match self.setting.pinned {
            Some(blocks) => options.pins_logged(true).cache_bytes(blocks * BLOCK_BYTES),
            None => options,
        }
    }

    /// Whether what is pinned is seen in the cache. Not where what is gathered spills to slots.
    fn pins(&self) -> bool {
        self.setting.pinned.is_some() && !self.kind.wants_slots()
    }

    fn open(&self, world: &World) -> Result<DynJournal, String> {
        let (nvm, disk) = media(world);
        DynJournal::open(nvm, disk, &self.options()).map_err(|error| format!("open: {error}"))
    }

    /// Opens the journal and takes steps; a reopen begins anew with what is left.
    fn run(&self, world: &World, steps: &[Step], mut is_recovery: bool) -> Result<(), String> {
        let mut left = steps;
        loop {
            let journal = self.open(world)?;
            if is_recovery {
                if self.setting.has_notes {
                    judge_note(world, journal.recovery().note)?;
                }
                world.recovered(judge(world, &read_all(&journal)?)?);
            }
            let mut taken = left.iter();
            let of = Of { is_found: is_recovery, pins: self.pins(), notes: self.setting.has_notes };
            let end = take_steps(world, &journal, &mut taken, of)?;
            left = taken.as_slice();
            judge(world, &read_all(&journal)?)?;
            match end {
                Left::Done => return Ok(()),
                // With tail words a drop loses what is deferred.
                Left::Dropped if self.setting.has_tails => covering(world, || journal.sync())?,
                Left::Dropped => {}
                Left::Closed => covering(world, || journal.close())?,
            }
            is_recovery = true;
        }
    }
}

/// The memory and the disk of a world. The disk forgets what it is told to.
fn media(world: &World) -> (DynPmem, DynDisk) {
    (DynPmem::new(world.pmem()), DynDisk::new(Forgets::new(world.disk(0))))
}

/// The note of a transaction.
const fn note_of(number: u64) -> [u64; 2] {
    [number, !number]
}

/// The newest note is of a transaction that was called, and not of one before the last that was
/// durable for certain.
fn judge_note(world: &World, found: Option<[u64; 2]>) -> Result<(), String> {
    let history = world.history();
    let called = next_number(&history) - 1;
    // A trim has no note.
    let may_be_noted = |call: &Call| !matches!(call.changes[..], [(_, Change::Discard)]);
    let least = newest_durable(&history, may_be_noted);
    let is_it = match found {
        None => least == 0,
        Some(note) => note == note_of(note[0]) && (least..=called).contains(&note[0]),
    };
    match is_it {
        true => Ok(()),
        false => Err(format!("the newest note is {found:?}, and not of {least} to {called}")),
    }
}

/// Draws steps. A transaction behind one that discards a block appends to it.
fn drawn_steps(rng: &mut Rng, lanes: u16, count: usize) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::with_capacity(count);
    let mut discarded = None;
    for _ in 0..count {
        let mut next = step(rng, lanes);
        if let Step::Commit(Commit { changes, .. }) = &mut next {
            match discarded.take() {
                Some(block) => *changes = vec![(block, Change::Append)],
                None => {
                    let first = changes.first().filter(|(_, change)| *change == Change::Discard);
                    discarded = first.map(|(block, _)| *block);
                }
            }
        }
        steps.push(next);
    }
    steps
}

/// Steps in two lanes, of which the first is ahead of the second. One block is moved, and changed
/// in the second lane. When the first is moved, another one is gathered, and a third one with it.
fn a_move_beside_what_is_gathered(rng: &mut Rng) -> Vec<Step> {
    let touch = |others: usize, blocks: &[usize], end: End| {
        let changes = blocks.iter().map(|block| (*block, Change::Touch)).collect();
        Step::Commit(Commit { others, changes, is_metadata: false, end })
    };
    let ahead = 2 + rng.index(3);
    let mut steps = vec![touch(0, &[1], End::Durable)];
    steps.extend((0..ahead).map(|_| touch(0, &[2], End::Durable)));
    steps.extend([touch(0, &[1, 3], End::Gathered), Step::Tick]);
    steps.extend([touch(1, &[2], End::Durable), Step::Look]);
    steps
}

/// Draws a step.
fn step(rng: &mut Rng, lanes: u16) -> Step {
    match rng.index(20) {
        0 => Step::Sync,
        1 => Step::Tick,
        2 if rng.index(2) == 0 => Step::Rings,
        2 => Step::Checkpoint,
        3 | 4 => Step::Snapshot,
        5..8 => Step::Look,
        8 => Step::Reopen,
        _ => {
            // One block is written more often than the others.
            let first = if rng.index(2) == 0 { 0 } else { rng.index(BLOCKS) };
            let second = (first + 1 + rng.index(BLOCKS - 1)) % BLOCKS;
            let blocks = if rng.index(2) == 0 { vec![first] } else { vec![first, second] };
            use Change::{Append, Discard, Touch, Write};
            let changes = [Write, Append, Touch, Touch, Discard];
            let changes = blocks.into_iter().map(|block| (block, changes[rng.index(5)]));
            let changes = changes.collect();
            let ends = [End::Durable, End::Durable, End::Deferred, End::Gathered];
            let (others, end) = (rng.index(lanes.into()), ends[rng.index(4)]);
            Step::Commit(Commit { others, changes, is_metadata: rng.index(3) == 0, end })
        }
    }
}

/// A snapshot, and what its blocks held when it was made. Nothing stands for a block that was not
/// live: what is appended there later goes home at once.
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

/// What of a journal its steps go by.
#[derive(Clone, Copy)]
struct Of {
    /// Whether it was there before.
    is_found: bool,
    /// Whether it is seen that what is pinned is in the cache.
    pins: bool,
    notes: bool,
}

/// Takes steps until there is none left, or one ends the use of this journal.
fn take_steps<'s>(
    world: &World,
    journal: &DynJournal,
    steps: &mut impl Iterator<Item = &'s Step>,
    Of { is_found, pins, notes }: Of,
) -> Result<Left, String> {
    let failed = |error: Error| error.to_string();
    // Of what an open finds nobody knows which blocks are given up.
    let (mut seen, mut given_up) = (None::<SnapshotView<'_>>, [is_found; BLOCKS]);
    let mut discarded = [false; BLOCKS];
    for step in steps {
        match step {
            Step::Commit(planned) => {
                let changes = possible(journal, &planned.changes, &discarded)?;
                let planned = &Commit { changes, ..planned.clone() };
                let committed = commit(world, journal, planned, notes);
                committed.map_err(|error| format!("{planned:?}: {error}"))?;
                for (block, change) in &planned.changes {
                    given_up[*block] = *change == Change::Discard;
                    discarded[*block] = given_up[*block];
                }
            }
            Step::Sync => covering(world, || journal.sync())?,
            Step::Tick => {
                let changes = world.history().len() as u64;
                let now = Duration::from_millis(changes + 1);
                match changes % 2 {
                    0 => journal.tick(now).map_err(failed)?,
                    _ => drop(journal.tick_within(now, Duration::ZERO).map_err(failed)?),
                }
            }
            Step::Checkpoint => covering(world, || journal.checkpoint().map(drop))?,
            Step::Rings => covering(world, || journal.checkpoint_rings().map(drop))?,
            Step::Snapshot => {
                drop(seen.take());
                let snapshot = journal.snapshot().map_err(failed)?;
                let mut blocks = read_all(journal)?.map(Some);
                for (block, is_given_up) in blocks.iter_mut().zip(given_up) {
                    *block = block.filter(|found| !is_given_up && *found != [0; BLOCK_BYTES]);
                }
                seen = Some(SnapshotView { snapshot, blocks });
            }
            Step::Look => seen.as_ref().map_or(Ok(()), SnapshotView::judge)?,
            Step::Reopen => return Ok(Left::Dropped),
            Step::Close => return Ok(Left::Closed),
            Step::Trim(block) => {
                // What a snapshot may see is not forgotten.
                drop(seen.take());
                trim(world, journal, *block).map_err(failed)?;
                (given_up[*block], discarded[*block]) = (true, true);
            }
        }
        if pins {
            see_what_is_pinned(journal, &discarded)?;
        }
    }
    seen.as_ref().map_or(Ok(()), SnapshotView::judge)?;
    Ok(Left::Done)
}

/// Trims a block. It is given up as by a durable transaction.
fn trim(world: &World, journal: &DynJournal, block: usize) -> Result<(), Error> {
    let number = next_number(&world.history());
    let label = Call { number, end: End::Durable, changes: vec![(block, Change::Discard)] }.label();
    world.called(label);
    journal.trim(BlockNumber(block as u64), 1)?;
    world.returned(label);
    Ok(())
}

/// Reads all blocks. Those that are pinned are found in the cache, unless they are discarded.
fn see_what_is_pinned(journal: &DynJournal, discarded: &[bool; BLOCKS]) -> Result<(), String> {
    let stats = || journal.stats().map_err(|error| error.to_string());
    let before = stats()?;
    read_all(journal)?;
    let others = BLOCKS - before.cached.pinned + discarded.iter().filter(|is_so| **is_so).count();
    let missed = stats()?.cached.misses - before.cached.misses;
    match missed <= others as u64 {
        true => Ok(()),
        false => Err(format!("{missed} reads have missed, and {others} blocks are not pinned")),
    }
}

/// Changes of which only those append whose block is not live: it was discarded, or never written.
/// A block that was ever written shows a number.
fn possible(
    journal: &DynJournal,
    changes: &[(usize, Change)],
    discarded: &[bool; BLOCKS],
) -> Result<Vec<(usize, Change)>, String> {
    let found = read_all(journal)?;
    let is_live = |block: usize| !discarded[block] && found[block] != [0; BLOCK_BYTES];
    let changes = changes.iter().map(|(block, change)| match change {
        Change::Append if is_live(*block) => (*block, Change::Write),
        change => (*block, *change),
    });
    Ok(changes.collect())
}

fn commit(world: &World, journal: &DynJournal, planned: &Commit, notes: bool) -> Result<(), Error> {
    let Commit { others, changes, is_metadata, end } = planned;
    let (others, end) = (*others, *end);
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
            Change::Append => transaction.append(block, &content)?,
            _ if *is_metadata => transaction.write_metadata(block, &content)?,
            _ => transaction.write(block, &content)?,
        }
    }
    if notes && end != End::Gathered {
        transaction.note(note_of(number))?;
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
        let Self { kind, setting, steps, steps_after, .. } = self;
        format!("{kind:?}, {setting:?}: {steps:?}, then {steps_after:?}")
    }

    fn start(&self) -> Image {
        let size = BlockSize::new(BLOCK_BYTES as u32).expect("a block size");
        let options = self.options();
        let plan = options.plan(1 << 20, size).expect("a small journal");
        let blocks = BLOCKS as u64 + plan.geometry.log_blocks();
        let disk = DiskImage::blank(size, blocks, DeviceFacts::cautious());
        let image = Image::blank(plan.nvm_bytes as usize).with_disk(disk);
        let world = World::boot(image, Model::Torn8);
        let (nvm, disk) = media(&world);
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
    kind: Kind,
    required: u64,
    seed: u64,
    pub programs: u64,
    pub report: Report,
    pub wrong: Option<Box<Failure>>,
}

/// Programs that are explored before those of another policy have their turn.
const AT_ONCE: u64 = 40;

impl Doors {
    /// Programs under a policy, of which so far none is explored.
    #[must_use]
    pub fn of((policy, kind): (&'static str, Kind), (required, seed): (u64, u64)) -> Self {
        Self { policy, kind, required, seed, programs: 0, report: Report::default(), wrong: None }
    }

    /// Whether programs are left, and none of those before went wrong.
    #[must_use]
    pub fn goes_on(&self) -> bool {
        self.wrong.is_none() && self.programs < self.required
    }

    /// Explores the next programs, some of them or until the time has come. Every other one is
    /// crashed under the other model, and every fourth has its process killed as well.
    pub fn explore_some(&mut self, until: Instant) {
        let (kind, seed, first) = (self.kind, self.seed, self.programs);
        let count = self.required.saturating_sub(first).min(AT_ONCE);
        let done = std::sync::Mutex::new((0, Report::default()));
        let job = |at: usize| {
            let at = first + at as u64;
            let model = if at.is_multiple_of(2) { Model::Torn8 } else { Model::X86Line };
            let explorer = Explorer::new(model).with_seed(seed ^ at);
            let explorer = explorer.with_images_per_point_max(1 << 3).with_random_per_point(6);
            let door = Door::drawn(kind, seed << 32 | at);
            // With tail words a deferred record does not count before its word says so, and a
            // process that is killed loses it.
            let kills = at % 4 == 3 && !door.setting.has_tails;
            let explorer = if kills { explorer.with_kills() } else { explorer };
            explorer.explore(&door)
        };
        let take = |found: Report| {
            let mut done = done.lock().expect("no thread panics with it");
            done.0 += 1;
            done.1 += found;
        };
        if self.goes_on() {
            self.wrong = each(count as usize, Some(until), job, take).err();
        }
        let (programs, report) = done.into_inner().expect("no thread panics with it");
        self.programs += programs;
        self.report += report;
    }

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

/// A deliberate bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// A rule that is switched off.
    Without(Rule),
    /// A persist site that is got wrong.
    At(&'static str, Mutation),
}

impl Bug {
    fn mutator(self) -> Mutator {
        match self {
            Self::Without(rule) => Mutator::without(&[rule]),
            Self::At(name, mutation) => {
                let mut sites = journal_core::SITES.iter().flat_map(|sites| sites.iter());
                let site = *sites.find(|site| site.name == name).expect("declared");
                Mutator::with(Mutant { site, mutation })
            }
        }
    }
}

/// Bugs that programs have to notice, each with a policy under which it matters.
pub const NOTICED: [(Bug, Kind); 27] = [
    (Bug::Without(Rule::SnapshotsKept), Kind::FullBlock),
    (Bug::Without(Rule::SnapshotsEnd), Kind::FullBlock),
    (Bug::Without(Rule::SnapshotsStamped), Kind::TwoLevel),
    (Bug::Without(Rule::SpillsUnnamed), Kind::Lcow),
    // Moves and copies.
    (Bug::Without(Rule::CopyIsNewest), Kind::FullBlock),
    (Bug::Without(Rule::CommittedIsMoved), Kind::Lcow),
    (Bug::At("log.sync", Mutation::DropSync), Kind::TwoLevel),
    (Bug::At("slot.entry.fence", Mutation::DropFence), Kind::TwoLevel),
    // Steps.
    (Bug::Without(Rule::StepPassesSeen), Kind::FullBlock),
    (Bug::Without(Rule::StepPassesSeen), Kind::Lcow),
    // Slots.
    (Bug::Without(Rule::VoidsFenced), Kind::ByteDelta),
    (Bug::Without(Rule::NewestSpared), Kind::ByteDelta),
    (Bug::Without(Rule::ActiveOnce), Kind::Lcow),
    (Bug::Without(Rule::SlotCheck), Kind::Lcow),
    (Bug::At("slot.clean", Mutation::DropStore), Kind::Lcow),
    (Bug::At("slot.clean", Mutation::SwapAcross), Kind::Lcow),
    // What is pinned.
    (Bug::Without(Rule::PinsStay), Kind::FullBlock),
    (Bug::Without(Rule::PinsStay), Kind::TwoLevel),
    // Appends.
    (Bug::Without(Rule::AppendsNotLive), Kind::ByteDelta),
    (Bug::Without(Rule::AppendsGivenUp), Kind::ByteDelta),
    (Bug::Without(Rule::HomesMadeSure), Kind::ByteDelta),
    (Bug::At("append.sync", Mutation::DropSync), Kind::AdaptiveSlots),
    // Notes, trims, and the order of lanes.
    (Bug::Without(Rule::NoteKept), Kind::FullBlock),
    (Bug::Without(Rule::NotesRise), Kind::FullBlock),
    (Bug::Without(Rule::TrimsDurable), Kind::FullBlock),
    (Bug::Without(Rule::StampAbove), Kind::FullBlock),
    (Bug::Without(Rule::DeferredFirst), Kind::FullBlock),
];

/// Within this number of programs.
pub const NOTICED_WITHIN: u64 = 1000;

/// How many programs it takes to notice a bug, if one of the first `most` does.
#[must_use]
pub fn notices(bug: Bug, kind: Kind, most: u64) -> Option<u64> {
    let is_noticed = |number: &u64| {
        let door = Door { mutator: bug.mutator(), ..Door::drawn(kind, *number) };
        let (tell, told) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let explorer = Explorer::new(Model::Torn8).with_images_per_point_max(1);
            tell.send(explorer.with_random_per_point(1).explore(&door).is_err())
        });
        // It may panic, or wait for ever for room that is lost.
        told.recv_timeout(Duration::from_secs(20)).unwrap_or(true)
    };
    (0..most).find(is_noticed).map(|number| number + 1)
}

/// What [`counts_of`] counts.
pub const COUNTED: [&str; 6] =
    ["moves", "copies", "steps in commits", "clean slots", "appends", "spills"];

/// What the journals of a program count, each by the time when it is left.
#[must_use]
pub fn counts_of(kind: Kind, number: u64) -> [u64; COUNTED.len()] {
    let door = Door::drawn(kind, number);
    let world = World::boot(door.start(), Model::Torn8);
    let (mut left, mut is_found, mut sums) = (door.steps.iter(), false, [0; COUNTED.len()]);
    loop {
        let journal = door.open(&world).expect("opens");
        let of = Of { is_found, pins: door.pins(), notes: door.setting.has_notes };
        let end = take_steps(&world, &journal, &mut left, of).expect("holds");
        let stats = journal.stats().expect("counts");
        let appended = stats.total().appended_home;
        let spilled = stats.gathered.spilled;
        let (steps, hits) = (stats.stops_in_commits, stats.cached.slot_hits);
        let counts = [stats.moved, stats.copied, steps, hits, appended, spilled];
        sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        match end {
            Left::Done => return sums,
            Left::Dropped => {}
            Left::Closed => journal.close().expect("closes"),
        }
        is_found = true;
    }
}
