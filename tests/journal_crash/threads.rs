//! Threads that run at once, and every crash of what they did.
//!
//! A run is one schedule, and the machine's; the tape says which it was. A seed names a workload.
//! `schedules.rs` runs the same workloads under schedules of an explorer.

#[cfg(shuttle)]
mod schedules;
mod snapshots;
mod upkeep;

use core::panic::AssertUnwindSafe;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::collections::HashSet;
use std::panic::catch_unwind;
use std::sync::{Arc, Mutex};

use journal_core::{BlockNumber, Overwrite, Protocol, Rule};
use nvm_journal::Error;
#[cfg(shuttle)]
use shuttle::thread;
use sim_disk::{Explorer, Failure, Image, Model, Mutator, Report, Rng, Scenario, World};

use crate::guards::{Stage, within};
use crate::pending;
use crate::probe::Logged;
use crate::program::{Program, Tx, covering, read_all, read_block};
use lab::oracle::{Change, End, judge, number_in, shown_label};
#[cfg(not(shuttle))]
use std::thread;

use Change::{Append, Discard, Read, Touch, Write};
use End::{Deferred, Durable, Gathered};

/// A workload.
#[derive(Clone)]
struct Workload {
    seed: u64,
    program: Program,
    threads: u64,
    rounds: u64,
    /// Blocks that all of them change; each has one of its own besides.
    shared: u64,
    /// How many of four transactions are deferred.
    deferred: u64,
    /// How many of them are gathered.
    gathered: u64,
    /// Whether another thread syncs and checkpoints.
    checkpoints: bool,
    /// Whether another thread ticks: behind each transaction, as far as it keeps up.
    ticks: bool,
    /// Whether another thread reads.
    reads: bool,
    /// Whether each thread gives its own block up again and again, and appends it.
    appends: bool,
    /// Whether it then has the disk forget the block.
    trims: bool,
    /// Whether another thread has snapshots open.
    snapshots: bool,
    /// Whether most transactions are of a few blocks that all of them change, in one call.
    few: bool,
    /// Whether most transactions read a block that another thread writes.
    looks: bool,
    /// Transactions in the first lane before the others begin: its stamps are ahead.
    ahead: u64,
    /// Whether each thread writes a block that it leaves alone for long afterwards.
    rests: bool,
    /// What a thread that stores or fences a record does meanwhile.
    pause: fn(),
    /// Commits and fences of all runs.
    totals: Arc<(AtomicU64, AtomicU64)>,
    acts: Arc<Mutex<Acts>>,
}

/// What was done beside the writers, in all runs.
#[derive(Clone, Copy, Debug, Default)]
struct Acts {
    /// Checkpoints, and what they wrote home.
    checkpoints: u64,
    written_home: u64,
    /// Blocks that were copied so that heads go on.
    copied: u64,
    /// Stops in commits that crossed a threshold, and all stops.
    stops_in_commits: u64,
    stops: u64,
    /// Snapshots that were read whole.
    seen: u64,
    /// How often one of them was read whole again, behind further transactions.
    seen_again: u64,
    /// Snapshots that an upkeep has ended.
    snapshots_ended: u64,
}

impl Workload {
    fn new(lanes: u16, threads: u64) -> Self {
        Self::of(Logged::Halves, lanes, threads)
    }

    fn of(logs: Logged, lanes: u16, threads: u64) -> Self {
        let program = Program::new(logs, lanes, Vec::new());
        Self {
            seed: 0,
            program: Program { lane_bytes: 16 * 64, ..program },
            threads,
            rounds: 3,
            shared: 1,
            deferred: 0,
            gathered: 0,
            checkpoints: false,
            ticks: false,
            reads: false,
            appends: false,
            trims: false,
            snapshots: false,
            few: false,
            looks: false,
            ahead: 0,
            rests: false,
            pause: || thread::sleep(Duration::from_micros(100)),
            totals: Arc::default(),
            acts: Arc::default(),
        }
    }

    /// The changes of one transaction, in any order of blocks.
    fn changes(&self, rng: &mut Rng, (thread, round): (u64, u64)) -> Vec<(usize, Change)> {
        let own = (thread as usize + 2) % lab::oracle::BLOCKS;
        if self.appends {
            let change = if round % 2 == 0 { Append } else { Discard };
            let shared = (rng.below(self.shared) as usize, [Write, Touch][rng.below(2) as usize]);
            return [(own, change), shared][..1 + rng.below(2) as usize].to_vec();
        }
        if self.rests && round % RESTS == 0 {
            let rests = lab::oracle::BLOCKS - 1 - thread as usize % 2;
            return vec![(rests, Write)];
        }
        if self.few && rng.below(4) > 0 {
            let any = |_| rng.below(lab::oracle::BLOCKS as u64) as usize;
            let mut blocks: Vec<_> = (0..3).map(any).collect();
            blocks.push(own);
            blocks.sort_unstable();
            blocks.dedup();
            return blocks.into_iter().map(|block| (block, Write)).collect();
        }
        if self.looks && rng.below(4) > 0 {
            let other = (own + 1 + rng.below(2) as usize) % lab::oracle::BLOCKS;
            return vec![(other, Read), (own, Write)];
        }
        let mut changes = vec![(own, [Write, Touch, Append][rng.below(3) as usize])];
        if self.shared > 0 && rng.below(3) > 0 {
            let shared = rng.below(self.shared) as usize;
            changes.push((shared, [Write, Touch, Read][rng.below(3) as usize]));
            if rng.below(2) == 0 {
                changes.reverse();
            }
        }
        changes
    }

    fn writer(&self, stage: &Stage, numbers: &Numbers, thread: u64) -> Result<(), Error> {
        let mut rng = Rng::new(self.seed << 8 | thread);
        let _running = Running(numbers);
        for round in 0..self.rounds {
            let ends = match rng.below(4) {
                dice if dice < self.deferred => Deferred,
                dice if dice < self.deferred + self.gathered => Gathered,
                _ => Durable,
            };
            let number = numbers.next(ends);
            let mut changes = self.changes(&mut rng, (thread, round));
            if ends != Gathered
                && changes.iter().all(|(_, change)| matches!(change, Write | Append))
            {
                changes.sort_by_key(|(block, _)| *block);
                stage.transact_at_once(number, &Tx::new(0, &changes, ends))?;
            } else {
                stage.transact(number, &changes, ends)?;
            }
            let given_up = changes.iter().find(|(_, change)| *change == Discard);
            if let Some((block, _)) = given_up.filter(|_| self.trims) {
                stage.journal.trim(BlockNumber(*block as u64), 1)?;
            }
            numbers.ended.fetch_add(1, Ordering::Release);
        }
        Ok(())
    }

    fn reader(&self, stage: &Stage, numbers: &Numbers) -> Result<(), Error> {
        let mut rng = Rng::new(self.seed << 8 | 0xFF);
        for _ in 0..self.rounds * 6 {
            let block = rng.below(lab::oracle::BLOCKS as u64) as usize;
            let number = number_in(&read_block(&stage.journal, block)?);
            if numbers.is_durable(number) {
                stage.world.returned(shown_label(number));
            }
        }
        Ok(())
    }

    fn checkpointer(&self, stage: &Stage) -> Result<(), String> {
        for round in 0..self.rounds {
            if round % 2 == self.seed % 2 {
                covering(&stage.world, || stage.journal.sync())?;
            } else {
                covering(&stage.world, || stage.journal.checkpoint().map(drop))?;
            }
        }
        Ok(())
    }

    fn acted(&self, add: impl FnOnce(&mut Acts)) {
        add(&mut self.acts.lock().expect("nobody panics"));
    }

    /// Runs it many times, and explores a sample of every run's crashes.
    fn survives(self, runs: u64) -> Report {
        within(120, move || {
            let mut total = Report::default();
            for seed in 0..runs {
                let explored = self.explored(seed);
                total += explored.unwrap_or_else(|failure| panic!("workload {seed}: {failure}"));
            }
            total
        })
    }

    /// Runs it with a seed, and explores a sample of the crashes.
    fn explored(&self, seed: u64) -> Result<Report, Box<Failure>> {
        let explorer = Explorer::new(Model::Torn8)
            .with_seed(seed)
            .with_images_per_point_max(1 << 4)
            .with_random_per_point(4);
        explorer.explore(&Self { seed, ..self.clone() })
    }

    /// [`survives`](Self::survives), and tells what was done beside the writers.
    fn survives_with_acts(self, runs: u64) -> (Report, Acts) {
        let acts = Arc::clone(&self.acts);
        let report = self.survives(runs);
        let acts = *acts.lock().expect("nobody panics");
        (report, acts)
    }

    /// Whether a run goes wrong without a rule, or a crash of it.
    fn notices(mut self, rule: Rule) -> bool {
        self.program.mutator = Mutator::without(&[rule]);
        within(120, move || (0..RUNS).any(|seed| goes_wrong(|| self.explored(seed))))
    }

    /// Whether a run goes wrong without a rule, and without a crash.
    fn goes_wrong_without(mut self, rule: Rule) -> bool {
        self.program.mutator = Mutator::without(&[rule]);
        let start = self.program.start();
        let run = move |seed| {
            let world = World::boot(start.clone(), Model::Torn8);
            Self { seed, ..self.clone() }.program(&world)
        };
        within(120, move || (0..RUNS_ALONE).any(|seed| goes_wrong(|| run(seed))))
    }
}

/// Whether something fails or panics.
fn goes_wrong<R, E>(run: impl FnOnce() -> Result<R, E>) -> bool {
    !matches!(catch_unwind(AssertUnwindSafe(run)), Ok(Ok(_)))
}

/// The most runs until something wrong is noticed, with crashes and without. Mostly few are enough.
const RUNS: u64 = 100;
const RUNS_ALONE: u64 = 2_000;

/// A block rests for this number of rounds.
const RESTS: u64 = 6;

/// Gives numbers to transactions, and knows which are durable as soon as they are seen.
struct Numbers {
    next: AtomicU64,
    durable: Mutex<HashSet<u64>>,
    /// Transactions that have ended.
    ended: AtomicU64,
    /// Threads that write.
    writers: AtomicU64,
}

/// A thread that writes.
struct Running<'n>(&'n Numbers);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.writers.fetch_sub(1, Ordering::Release);
    }
}

impl Numbers {
    fn new(writers: u64) -> Self {
        let (next, writers) = (AtomicU64::new(1), AtomicU64::new(writers));
        Self { next, durable: Mutex::default(), ended: AtomicU64::new(0), writers }
    }

    /// Waits until more transactions than these have ended. Returns how many, unless nobody writes
    /// any more.
    fn wait_for_more(&self, than: u64) -> Option<u64> {
        loop {
            let ended = self.ended.load(Ordering::Acquire);
            if ended > than {
                return Some(ended);
            }
            if self.writers.load(Ordering::Acquire) == 0 {
                return None;
            }
            thread::yield_now();
        }
    }

    fn next(&self, ends: End) -> u64 {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        if ends == Durable {
            self.durable.lock().expect("nobody panics").insert(number);
        }
        number
    }

    fn is_durable(&self, number: u64) -> bool {
        self.durable.lock().expect("nobody panics").contains(&number)
    }
}

impl Scenario for Workload {
    fn name(&self) -> String {
        format!("workload {}, {} threads, {} lanes", self.seed, self.threads, self.program.lanes)
    }

    fn start(&self) -> Image {
        self.program.start()
    }

    fn program(&self, world: &World) -> Result<(), String> {
        let stage = Stage::open(&self.program, world).map_err(|error| error.to_string())?;
        // A thread that stores or fences a record takes its time, so that others come and wait for
        // the lane, and return before they should if they can.
        let (its, pause) = (world.clone(), self.pause);
        stage.probe.watch(move |site| {
            pending::mark(&its, site);
            if site.name.ends_with(".front") || site.name == "commit.fence" {
                pause();
            }
        });
        let numbers = Numbers::new(self.threads);
        for _ in 0..self.ahead {
            let written = stage.transact(numbers.next(Durable), &[(0, Write)], Durable);
            written.map_err(|error| format!("ahead: {error}"))?;
        }
        let (numbers, stage_of_all) = (&numbers, &stage);
        thread::scope(|scope| {
            let mut running = Vec::new();
            if self.snapshots {
                running.push(scope.spawn(move || self.looker(stage_of_all, numbers)));
            }
            for thread in 0..self.threads {
                running.push(scope.spawn(move || {
                    let result = self.writer(stage_of_all, numbers, thread);
                    result.map_err(|error| format!("writer {thread}: {error}"))
                }));
            }
            if self.checkpoints {
                running.push(scope.spawn(move || self.checkpointer(stage_of_all)));
            }
            if self.ticks {
                running.push(scope.spawn(move || self.ticker(stage_of_all, numbers)));
            }
            if self.reads {
                running.push(scope.spawn(move || {
                    let result = self.reader(stage_of_all, numbers);
                    result.map_err(|error| format!("reader: {error}"))
                }));
            }
            running.into_iter().try_for_each(|thread| thread.join().map_err(|_| "panicked")?)
        })?;
        stage.probe.look_away();
        judge(world, &read_all(&stage.journal)?)?;
        let stats = stage.journal.stats().map_err(|error| error.to_string())?;
        let (total, gathered) = (stats.total(), stats.gathered);
        let ended = total.commits - gathered.commits + gathered.transactions;
        // A trim commits, too.
        if ended != self.ahead + self.threads * self.rounds && !self.trims {
            return Err(format!("{total:?}"));
        }
        self.totals.0.fetch_add(total.commits, Ordering::Relaxed);
        self.totals.1.fetch_add(total.fences, Ordering::Relaxed);
        self.acted(|acts| {
            acts.checkpoints += stats.checkpoints;
            acts.written_home += stats.checkpointed.blocks;
            acts.copied += stats.copied;
            acts.stops_in_commits += stats.stops_in_commits;
            acts.stops += stats.stops();
            acts.snapshots_ended += stats.snapshots_ended;
        });
        Ok(())
    }

    fn recover(&self, world: &World) -> Result<(), String> {
        self.program.recover(world)
    }
}

#[test]
fn groups_on_one_lane_survive_sampled_crashes() {
    let workload = Workload { reads: true, ..Workload::new(1, 4) };
    let totals = Arc::clone(&workload.totals);
    let report = workload.survives(20);
    let (commits, fences) = (totals.0.load(Ordering::Relaxed), totals.1.load(Ordering::Relaxed));
    assert!(fences < commits, "no fence made more than one record durable: {commits} commits");
    assert!(report.images > 5_000, "{report}");
}

#[test]
fn disjoint_blocks_on_several_lanes_survive_sampled_crashes() {
    let workload = Workload { shared: 0, reads: true, ..Workload::new(3, 3) };
    let report = workload.survives(15);
    assert!(report.images > 5_000, "{report}");
}

#[test]
fn shared_blocks_on_two_lanes_with_deferred_commits_survive_sampled_crashes() {
    let workload = Workload { shared: 2, deferred: 2, reads: true, ..Workload::new(2, 3) };
    let report = workload.survives(20);
    assert!(report.images > 5_000, "{report}");
}

/// A word behind each record says that it counts; of a group, the one behind the last record does.
#[test]
fn tail_words_survive_sampled_crashes() {
    for (lanes, checkpoints) in [(1, false), (2, true)] {
        let mut workload = Workload::new(lanes, 4);
        workload.program.overwrite = Overwrite::MayLeaveGarbage;
        workload.program.protocol = Protocol::TailPointer;
        let workload = Workload { shared: 2, deferred: 1, reads: true, checkpoints, ..workload };
        let report = workload.survives(8);
        assert!(report.images > 1_000, "{report}");
    }
}

#[test]
fn everything_beside_a_checkpointing_thread_survives_sampled_crashes() {
    for (lanes, seed_runs) in [(1, 10), (2, 10)] {
        let mut workload = Workload::new(lanes, 3);
        workload.program.overwrite = Overwrite::MayLeaveGarbage;
        let workload = Workload { shared: 2, deferred: 1, checkpoints: true, ..workload };
        let report = workload.survives(seed_runs);
        assert!(report.images > 5_000, "{report}");
    }
}

/// The first of these journals has to make room by itself; the second has one that does.
#[test]
fn versions_in_slots_survive_sampled_crashes() {
    for logs in [Logged::Versions, Logged::Cached, Logged::Compressed, Logged::Levels] {
        for (lanes, checkpoints) in [(1, false), (2, false), (2, true)] {
            let mut workload = Workload::of(logs, lanes, 3);
            workload.program.overwrite = Overwrite::MayLeaveGarbage;
            let workload = Workload { shared: 2, deferred: 1, reads: true, ..workload };
            let report = Workload { rounds: 5, checkpoints, ..workload }.survives(6);
            assert!(report.images > 2_000, "{report}");
        }
    }
}

/// Gathered ones among others, in buffers so small that they are full again and again.
#[test]
fn running_transactions_survive_sampled_crashes() {
    for logs in [Logged::Halves, Logged::Versions, Logged::Compressed, Logged::Levels] {
        for (lanes, checkpoints) in [(1, true), (2, false), (2, true)] {
            let mut workload = Workload::of(logs, lanes, 3);
            workload.program.overwrite = Overwrite::MayLeaveGarbage;
            workload.program.lane_bytes = 32 * 64;
            workload.program.buffer = 3;
            let workload = Workload { shared: 2, deferred: 1, gathered: 2, ..workload };
            let report = Workload { rounds: 5, checkpoints, ..workload }.survives(8);
            assert!(report.images > 2_000, "{report}");
        }
    }
}

/// Gathered ones whose memory is full at once, so that they go on in slots, of which there are few.
#[test]
fn running_transactions_that_spill_survive_sampled_crashes() {
    for (lanes, lane_slots, checkpoints) in [(1, 12, false), (1, 4, true), (2, 6, true)] {
        let mut workload = Workload::of(Logged::Cached, lanes, 3);
        workload.program.overwrite = Overwrite::MayLeaveGarbage;
        workload.program.lane_bytes = 32 * 64;
        (workload.program.buffer, workload.program.lane_slots) = (1, lane_slots);
        let workload = Workload { shared: 2, gathered: 3, reads: true, ..workload };
        let report = Workload { rounds: 6, checkpoints, ..workload }.survives(10);
        assert!(report.images > 2_000, "{report}");
    }
}

/// Appends that go home, beside a checkpoint and each other.
#[test]
fn appends_beside_a_checkpointing_thread_survive_sampled_crashes() {
    let workloads = [(1, 0, 0), (2, 0, 1), (2, 1, 0), (3, 1, 1)];
    for (at, (lanes, deferred, gathered)) in workloads.repeat(2).into_iter().enumerate() {
        let trims = at < workloads.len();
        let mut workload = Workload::of(Logged::Appending, lanes, 3);
        workload.program.overwrite = Overwrite::MayLeaveGarbage;
        (workload.program.lane_bytes, workload.program.lane_slots) = (32 * 64, 8);
        let workload = Workload { shared: 2, deferred, gathered, appends: true, trims, ..workload };
        // A reader may see what is on its way home: the block is not live.
        let workload = Workload { rounds: 6, checkpoints: true, ..workload };
        let report = workload.survives(6);
        assert!(report.images > 1_000, "{report}");
    }
}

/// Slots hold what was read, beside versions that leave for want of slots.
#[test]
fn what_is_read_into_slots_survives_sampled_crashes() {
    for (lanes, lane_slots, gathered) in [(1, 6, 0), (2, 4, 2)] {
        let mut workload = Workload::of(Logged::Cached, lanes, 3);
        workload.program.overwrite = Overwrite::MayLeaveGarbage;
        workload.program.lane_bytes = 32 * 64;
        (workload.program.lane_slots, workload.program.clean_slots) = (lane_slots, 3);
        let workload = Workload { shared: 2, gathered, reads: true, ..workload };
        let report = Workload { rounds: 5, checkpoints: true, ..workload }.survives(8);
        assert!(report.images > 2_000, "{report}");
    }
}

/// Blocks that are logged stay in a cache that has room for few. With room for three, others are
/// evicted to the log.
#[test]
fn pinned_blocks_survive_sampled_crashes() {
    let halves = [(Logged::Halves, 0, 12), (Logged::Halves, 2, 12)];
    let levels = [(Logged::Levels, 1, 12), (Logged::Levels, 0, 3), (Logged::Levels, 2, 3)];
    for (logs, gathered, cached) in halves.into_iter().chain(levels) {
        let mut workload = Workload::of(logs, 2, 3);
        workload.program.overwrite = Overwrite::MayLeaveGarbage;
        workload.program.lane_bytes = 32 * 64;
        workload.program.pinned = Some(cached);
        let workload = Workload { shared: 2, gathered, deferred: 1, reads: true, ..workload };
        let report = Workload { rounds: 5, checkpoints: true, ..workload }.survives(6);
        assert!(report.images > 1_000, "{report}");
    }
}

/// Transactions of one image take a way of their own.
#[test]
fn images_alone_survive_sampled_crashes() {
    for (lanes, deferred, gathered) in [(1, 0, 0), (2, 0, 0), (2, 0, 1), (1, 1, 1)] {
        let mut workload = Workload::of(Logged::Whole, lanes, 3);
        workload.program.lane_bytes = 16 * 64;
        let shared = 2;
        let (reads, checkpoints, rounds) = (true, true, 5);
        Workload { shared, deferred, gathered, reads, checkpoints, rounds, ..workload }.survives(6);
    }
}

#[test]
fn images_alone_beside_deferred_ones_survive_sampled_crashes() {
    let mut workload = Workload::of(Logged::Whole, 2, 4);
    workload.program.lane_bytes = 16 * 64;
    Workload { shared: 1, deferred: 2, rounds: 6, ..workload }.survives(12);
}

/// A few operations in one call take a way of their own.
#[test]
fn a_few_in_one_call_survive_sampled_crashes() {
    for logs in [Logged::Halves, Logged::Whole] {
        for (lanes, deferred, gathered, checkpoints) in [
            (1, 0, 0, false),
            (2, 0, 0, true),
            (3, 1, 0, true),
            (2, 2, 0, false),
            (2, 1, 1, true),
            (1, 1, 1, true),
        ] {
            let mut workload = Workload::of(logs, lanes, 4);
            workload.program.lane_bytes = 32 * 64;
            if logs == Logged::Halves {
                workload.program.overwrite = Overwrite::MayLeaveGarbage;
            }
            let (few, reads, rounds) = (true, true, 5);
            Workload { shared: 2, few, deferred, gathered, reads, checkpoints, rounds, ..workload }
                .survives(6);
        }
    }
}
