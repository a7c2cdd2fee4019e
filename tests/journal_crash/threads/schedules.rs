//! These workloads under schedules that an explorer chooses, and not the machine: probabilistic
//! concurrency testing, which lets one thread run as long as it can and changes its mind at a few
//! random steps.
//!
//! ```sh
//! SCHEDULES=100000 RUSTFLAGS='--cfg shuttle' cargo test --release --test journal_crash schedules
//! ```
//!
//! `SCHEDULES` says how many schedules of each workload are run. Of one in fifty of them every
//! crash is sampled. A schedule that breaks a promise is printed, to be run again by
//! `shuttle::replay`.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicBool;

use journal_core::{Rule, Site};
use shuttle::scheduler::{PctScheduler, RoundRobinScheduler, Schedule, Scheduler, Task, TaskId};
use shuttle::{Config, Runner};
use sim_disk::Mutator;
use sim_disk::mutants::{Mutant, Mutation};
use sim_disk::world::name_callers;

use super::*;

/// Schedules of each workload where nobody asks for more.
const SCHEDULES: usize = 200;
/// Of one in this number of schedules the crashes are sampled.
const CRASHED: usize = 50;
/// Schedules change their minds at up to this number of steps.
const CHANGES: [usize; 3] = [2, 3, 5];

fn schedules() -> usize {
    let asked = std::env::var("SCHEDULES").ok();
    asked.map_or(SCHEDULES, |asked| asked.parse().expect("SCHEDULES is a number"))
}

/// A step at which another thread may go on, although nothing is waited for.
fn let_others_in() {
    shuttle::sync::atomic::AtomicBool::new(false).load(Ordering::SeqCst);
}

fn config() -> Config {
    let mut config = Config::new();
    config.stack_size = 1 << 18;
    // That it knows no order but that of time: all others are for loom.
    config.silence_warnings = true;
    config
}

/// Which of the explorer's threads is calling.
fn caller() -> u64 {
    usize::from(shuttle::current::me()) as u64
}

fn check(result: Result<(), String>) {
    result.unwrap_or_else(|wrong| panic!("{wrong}"));
}

/// One execution at a time of a scheduler that learns from those before.
#[derive(Clone)]
struct OneOf {
    all: Arc<Mutex<PctScheduler>>,
    is_begun: Arc<AtomicBool>,
}

impl Scheduler for OneOf {
    fn new_execution(&mut self) -> Option<Schedule> {
        if self.is_begun.swap(true, Ordering::Relaxed) {
            return None;
        }
        self.all.lock().expect("nobody panics").new_execution()
    }

    fn next_task(
        &mut self,
        runnable: &[&Task],
        current: Option<TaskId>,
        is_yielding: bool,
    ) -> Option<TaskId> {
        self.all.lock().expect("nobody panics").next_task(runnable, current, is_yielding)
    }

    fn next_u64(&mut self) -> u64 {
        self.all.lock().expect("nobody panics").next_u64()
    }
}

/// A workload of which each run is another schedule, and each recovery a run of one thread.
struct Scheduled {
    workload: Workload,
    scheduler: Arc<Mutex<PctScheduler>>,
}

fn words_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
        .unwrap_or_else(|| "panicked".to_owned())
}

/// Runs under a scheduler what a scenario does with a world.
fn run(
    scheduler: impl Scheduler + 'static,
    workload: &Workload,
    world: &World,
    does: fn(&Workload, &World) -> Result<(), String>,
) -> Result<(), String> {
    let (workload, world) = (workload.clone(), world.clone());
    let run = move || name_callers(caller, || check(does(&workload, &world)));
    let ran = catch_unwind(AssertUnwindSafe(|| Runner::new(scheduler, config()).run(run)));
    ran.map(drop).map_err(|panic| words_of(&*panic))
}

impl Scenario for Scheduled {
    fn name(&self) -> String {
        format!("{}, scheduled", self.workload.name())
    }

    fn start(&self) -> Image {
        self.workload.start()
    }

    fn program(&self, world: &World) -> Result<(), String> {
        let (all, is_begun) = (Arc::clone(&self.scheduler), Arc::default());
        run(OneOf { all, is_begun }, &self.workload, world, Workload::program)
    }

    fn recover(&self, world: &World) -> Result<(), String> {
        run(RoundRobinScheduler::new(1), &self.workload, world, Workload::recover)
    }
}

impl Workload {
    fn scheduled(self) -> Self {
        Self { pause: let_others_in, ..self }
    }

    /// Runs a number of schedules to their end.
    fn runs(&self, schedules: usize) {
        let start = self.start();
        for changes in CHANGES {
            let (workload, start) = (self.clone(), start.clone());
            let pct = PctScheduler::new_from_seed(1, changes, schedules.div_ceil(CHANGES.len()));
            Runner::new(pct, config()).run(move || {
                let world = World::boot(start.clone(), Model::Torn8);
                name_callers(caller, || check(workload.program(&world)));
            });
        }
    }

    /// Runs a number of schedules, and samples the crashes of each.
    fn crashes(&self, schedules: usize) -> Result<Report, String> {
        let pct = PctScheduler::new_from_seed(2, 3, schedules + 1);
        let (workload, scheduler) = (self.clone(), Arc::new(Mutex::new(pct)));
        let scheduled = Scheduled { workload, scheduler };
        let mut total = Report::default();
        for seed in 0..schedules as u64 {
            let explorer = Explorer::new(Model::Torn8)
                .with_seed(seed)
                .with_images_per_point_max(1 << 4)
                .with_random_per_point(2);
            total += explorer.explore(&scheduled).map_err(|failure| failure.to_string())?;
        }
        Ok(total)
    }

    /// Runs schedules, and samples crashes: the numbers that were asked for.
    fn holds(self) {
        let workload = self.scheduled();
        let schedules = schedules();
        workload.runs(schedules);
        let crashed = schedules.div_ceil(CRASHED);
        let report = workload.crashes(crashed).unwrap_or_else(|failure| panic!("{failure}"));
        println!("{schedules} schedules; {crashed} more, crashed: {report}");
        assert!(report.images > 100, "{report}");
    }
}

/// Everything at once, in lanes so small that room has to be made again and again.
fn everything(logs: Logged, lanes: u16) -> Workload {
    let mut workload = Workload::of(logs, lanes, 3);
    workload.program.overwrite = Overwrite::MayLeaveGarbage;
    workload.program.buffer = 3;
    let workload = Workload { shared: 2, deferred: 1, gathered: 1, rounds: 4, ..workload };
    Workload { reads: true, checkpoints: true, ..workload }
}

#[test]
fn groups_on_one_lane() {
    Workload { reads: true, ..Workload::new(1, 4) }.holds();
}

#[test]
fn deferred_commits_of_shared_blocks_on_two_lanes() {
    Workload { shared: 2, deferred: 2, reads: true, ..Workload::new(2, 3) }.holds();
}

#[test]
fn everything_beside_a_checkpoint() {
    everything(Logged::Halves, 2).holds();
}

#[test]
fn versions_in_slots_beside_a_checkpoint() {
    everything(Logged::Versions, 2).holds();
}

#[test]
fn appends_beside_a_checkpoint() {
    let workload = everything(Logged::Appending, 2);
    let mut workload = Workload { appends: true, reads: false, ..workload };
    (workload.program.lane_bytes, workload.program.lane_slots) = (32 * 64, 8);
    workload.holds();
}

#[test]
fn images_alone_beside_all_others() {
    everything(Logged::Whole, 2).holds();
}

#[test]
fn a_thread_in_the_background_makes_room() {
    let mut workload = Workload { checkpoints: false, ..everything(Logged::Halves, 2) };
    workload.program.background = true;
    workload.holds();
}

#[test]
fn ticks_and_the_timer_make_room() {
    upkeep::by_ticks(Logged::Halves, 2).holds();
    upkeep::by_the_timer(Logged::Cached, 2).holds();
}

#[test]
fn commits_and_copies_make_room() {
    upkeep::by_commits(Logged::Halves, 2).holds();
    upkeep::by_copies(Logged::Halves, true).holds();
    upkeep::by_copies(Logged::Halves, false).holds();
}

#[test]
fn snapshots_beside_writers() {
    let workload = snapshots::beside_writers(Logged::Versions, 2);
    Workload { deferred: 1, gathered: 1, ticks: true, ..workload }.holds();
    snapshots::readers().holds();
}

/// Whether few schedules are enough to catch a journal that gets something wrong.
fn is_caught(mutator: Mutator, workload: Workload) -> bool {
    let mut workload = workload.scheduled();
    workload.program.mutator = mutator;
    workload.crashes(100).is_err()
}

#[test]
fn what_a_journal_gets_wrong_is_caught() {
    // The committer that ends a group flushes its own record alone: that there are groups is the
    // schedule's doing.
    let is_flush = |site: &Site| site.name == "deferred.flush";
    let site = journal_core::SITES.concat().into_iter().find(is_flush).expect("is declared");
    let forgets_the_group = Mutator::with(Mutant { site, mutation: Mutation::DropFlush });
    assert!(is_caught(forgets_the_group, Workload::new(1, 4)));
    let forgets_other_lanes = Mutator::without(&[Rule::DeferredFirst]);
    assert!(is_caught(
        forgets_other_lanes,
        Workload { shared: 2, deferred: 2, ..Workload::new(2, 3) }
    ));
    let forgets_what_was_read = Mutator::without(&[Rule::SnapshotsAtOnce]);
    assert!(is_caught(forgets_what_was_read, snapshots::readers()));
}
