//! Working through the plan: two threads, one queue, a time to stop.

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use core::time::Duration;
use std::sync::Mutex;
use std::time::Instant;

use sim_disk::suite::{Plan, going_on};
use sim_disk::{Explorer, Failure, Model, Report, Rng, Scenario as _, World};

use crate::core_crash::program::{Kind, Program};
use crate::crash_lab::harmed::harmed;
use crate::crash_lab::sizes::IMAGES_ALL;
use crate::progress;

pub const THREADS: usize = 2;

/// Images of a crash point up to which all are tried where the process is killed, where recovery
/// goes on, and where programs are many.
const IMAGES_FEW: u64 = 1 << 4;

/// Like `IMAGES_FEW`, for recoveries that are crashed in turn: a superblock's torn writes are
/// fewer.
const IMAGES_NESTED: u64 = 1 << 9;

/// Of this number of programs of two steps or three, one goes on after recovery. Of shorter ones,
/// the size of the gates says how many do.
const GOES_ON_ONE_IN: usize = 16;

/// Longest programs.
pub const LENGTH_MAX: usize = 3;

const ROWS: usize = journal_core::Row::ALL.len();

/// What was seen under one model.
#[derive(Clone, Default)]
pub struct Seen {
    pub report: Report,
    /// Programs done, by length.
    pub done: [u64; LENGTH_MAX + 1],
    /// The least and the most images of a crash point up to which all were tried, by length.
    pub limits: [Option<(u64, u64)>; LENGTH_MAX + 1],
    /// Programs that reached each row of the recovery table.
    pub rows: [u64; ROWS],
    pub damaged: u64,
    pub nested: u64,
    /// Images of which recovery was crashed in turn.
    pub nested_images: u64,
    pub took: Duration,
}

/// One line on a terminal, nothing elsewhere.
pub struct Progress {
    begin: Instant,
    budget: Duration,
    bar: progress::Progress,
}

impl Progress {
    pub fn new(budget: Duration) -> Self {
        Self { begin: Instant::now(), budget, bar: progress::Progress::new("programs") }
    }

    fn show(&self, policy: &str, model: Model, seen: &Seen) {
        let programs: u64 = seen.done.iter().sum();
        let states = seen.report.images;
        let note = format!("{policy}, {model}: {programs} programs, {states} states");
        let budget = self.budget.as_secs_f64().max(1.0);
        self.bar.show_with(self.begin.elapsed().as_secs_f64() / budget, note);
    }

    pub fn clear(&self) {
        self.bar.clear();
    }
}

/// One model's exploration.
pub struct Work<'a> {
    pub policy: &'a str,
    pub model: Model,
    pub plan: &'a Plan<Kind>,
    pub seed: u64,
    pub until: Instant,
    /// Programs of one step have their points enumerated up to this number of images.
    pub images_all: u64,
    /// One in this number of them is also killed, and goes on after recovery.
    pub thorough_one_in: usize,
    /// How often over recoveries are crashed.
    pub nested_depth: u32,
    pub progress: &'a Progress,
}

/// What one program added.
struct Added {
    report: Report,
    rows: [bool; ROWS],
}

impl Work<'_> {
    fn explorer(&self, index: usize, images: u64) -> Explorer {
        Explorer::new(self.model)
            .with_seed(self.seed ^ index as u64)
            .with_images_per_point_max(images)
            .with_random_per_point(u32::try_from(images.min(16)).unwrap_or(16))
    }

    /// All of it, in the order of worth.
    pub fn run(&self) -> Result<Seen, Box<Failure>> {
        let begin = Instant::now();
        let seen = Mutex::new(Seen::default());
        self.damaged(&seen)?;
        self.nested(&seen)?;
        self.length_one(&seen)?;
        self.longer(&seen, 2)?;
        self.longer(&seen, 3)?;
        let mut seen = seen.into_inner().expect("no thread panics with it");
        seen.took = begin.elapsed();
        Ok(seen)
    }

    fn add(&self, seen: &Mutex<Seen>, added: &Added, note: impl FnOnce(&mut Seen)) {
        let mut seen = seen.lock().expect("no thread panics with it");
        seen.report += added.report;
        for (count, reached) in seen.rows.iter_mut().zip(added.rows) {
            *count += u64::from(reached);
        }
        note(&mut seen);
        self.progress.show(self.policy, self.model, &seen);
    }

    fn damaged(&self, seen: &Mutex<Seen>) -> Result<(), Box<Failure>> {
        let programs = harmed(self.plan.policy);
        let job = |index: usize| {
            let (program, damage) = &programs[index];
            let report = self.explorer(index, 1 << 8).with_damage(*damage).explore(program)?;
            Ok(Added { report, rows: rows(program) })
        };
        let take = |added| self.add(seen, &added, |seen| seen.damaged += 1);
        each(programs.len(), None, job, take)
    }

    fn nested(&self, seen: &Mutex<Seen>) -> Result<(), Box<Failure>> {
        let programs = self.plan.nested();
        let job = |index: usize| {
            let program = &programs[index];
            let explorer = self.explorer(index, IMAGES_NESTED).with_depth(self.nested_depth);
            let report = explorer.explore(program)?;
            Ok(Added { report, rows: rows(program) })
        };
        let take = |added: Added| {
            let nested = added.report.nested;
            self.add(seen, &added, |seen| {
                seen.nested += 1;
                seen.nested_images += nested;
            });
        };
        each(programs.len(), None, job, take)
    }

    /// Every image of every crash; then, for a sample, kills, and a journal that goes on.
    fn length_one(&self, seen: &Mutex<Seen>) -> Result<(), Box<Failure>> {
        let order = self.plan.order(1, self.seed);
        // Longer programs get what is left of the time, half of it at least.
        let until = Instant::now() + self.until.saturating_duration_since(Instant::now()) / 2;
        let pace = Pace::new(self.images_all, self.images_all, until, order.len());
        let job = |at: usize| {
            let (index, images) = (order[at], pace.images());
            let program = self.plan.numbered(index, 1).program;
            let mut report = self.explorer(index, images).explore(&program)?;
            if at.is_multiple_of(self.thorough_one_in) {
                let few = self.explorer(index, IMAGES_FEW);
                report += without_program(few.clone().with_kills().explore(&program)?);
                report += without_program(few.explore(&going_on(&program))?);
            }
            pace.done();
            Ok((Added { report, rows: rows(&program) }, images))
        };
        let take = |(added, images): (Added, u64)| {
            self.add(seen, &added, |seen| seen.note_program(1, images));
        };
        each(order.len(), Some(self.until), job, take)
    }

    /// Crashes in the last step of programs of two steps, or of three; those before it belong to
    /// the shorter programs. As many images as the time allows, a few at least.
    fn longer(&self, seen: &Mutex<Seen>, length: usize) -> Result<(), Box<Failure>> {
        let order = if length == 2 { self.plan.order(2, self.seed) } else { Vec::new() };
        // The longest ones are drawn, for as long as there is time.
        let drawn = |at: usize| Rng::new(self.seed ^ at as u64).index(self.plan.count(length));
        let is_drawn = order.is_empty();
        let count = if is_drawn { usize::MAX / 2 } else { order.len() };
        // A twentieth of the time is kept for them.
        let left = self.until.saturating_duration_since(Instant::now());
        let until = Instant::now() + left * 19 / 20;
        let most = if is_drawn { IMAGES_FEW } else { IMAGES_ALL };
        let pace = Pace::new(IMAGES_FEW, most, until, count.min(1 << 20));
        let job = |at: usize| {
            let index = order.get(at).copied().unwrap_or_else(|| drawn(at));
            let images = if is_drawn { IMAGES_FEW } else { pace.images() };
            let numbered = self.plan.numbered(index, length);
            let program = numbered.program;
            let from = tape_length(&numbered.prefix);
            let explorer = self.explorer(index, images).with_points_from(from);
            let mut report = explorer.explore(&program)?;
            if at.is_multiple_of(GOES_ON_ONE_IN) {
                let few = self.explorer(index, IMAGES_FEW).with_points_from(from);
                report += without_program(few.explore(&going_on(&program))?);
            }
            pace.done();
            Ok((Added { report, rows: rows(&program) }, images))
        };
        let take = |(added, images): (Added, u64)| {
            self.add(seen, &added, |seen| seen.note_program(length, images));
        };
        each(count, Some(self.until), job, take)
    }
}

impl Seen {
    fn note_program(&mut self, length: usize, images: u64) {
        self.done[length] += 1;
        let (least, most) = self.limits[length].unwrap_or((images, images));
        self.limits[length] = Some((least.min(images), most.max(images)));
    }
}

/// Runs jobs on all threads until there is none left, one fails or `until` has come.
pub fn each<T: Send, E: Send>(
    count: usize,
    until: Option<Instant>,
    job: impl Fn(usize) -> Result<T, E> + Sync,
    take: impl Fn(T) + Sync,
) -> Result<(), E> {
    let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let failure = Mutex::new(None);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                while !failed.load(Ordering::Relaxed)
                    && until.is_none_or(|until| Instant::now() < until)
                {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= count {
                        break;
                    }
                    match job(index) {
                        Ok(done) => take(done),
                        Err(found) => {
                            failed.store(true, Ordering::Relaxed);
                            *failure.lock().expect("no thread panics with it") = Some(found);
                        }
                    }
                }
            });
        }
    });
    failure.into_inner().expect("no thread panics with it").map_or(Ok(()), Err)
}

/// How many images of a crash point may be tried so that all programs are run in time.
struct Pace {
    until: Instant,
    all: usize,
    most: u64,
    done: AtomicUsize,
    /// Since when, and how many programs were done by then.
    state: Mutex<(Instant, usize, u64)>,
}

impl Pace {
    fn new(first: u64, most: u64, until: Instant, all: usize) -> Self {
        let state = Mutex::new((Instant::now(), 0, first));
        Self { until, all, most, done: AtomicUsize::new(0), state }
    }

    fn done(&self) {
        self.done.fetch_add(1, Ordering::Relaxed);
    }

    /// Twice as many as before, or half, where the pace since the last change allows, or asks for,
    /// it.
    fn images(&self) -> u64 {
        let done = self.done.load(Ordering::Relaxed);
        let mut state = self.state.lock().expect("no thread panics with it");
        let (since, at, images) = *state;
        let enough = (self.all / 200).clamp(10, 200);
        if done >= at + enough {
            let each = since.elapsed().as_secs_f64() / (done - at) as f64;
            let left = self.until.saturating_duration_since(Instant::now()).as_secs_f64();
            let needed = each * self.all.saturating_sub(done) as f64;
            let images = if needed > left {
                (images / 2).max(1)
            } else if needed * 2.5 < left {
                (images * 2).min(self.most)
            } else {
                images
            };
            *state = (Instant::now(), done, images);
        }
        state.2
    }
}

/// A second look at a program does not make it two.
fn without_program(report: Report) -> Report {
    let mut report = report;
    report.programs = 0;
    report.outcomes = 0;
    report
}

fn rows(program: &Program) -> [bool; ROWS] {
    program.rows.counts().map(|(_, hits)| hits > 0)
}

/// How many events a program has.
fn tape_length(program: &Program) -> usize {
    let world = World::boot(program.start(), Model::Torn8);
    let ran = program.program(&world);
    debug_assert!(ran.is_ok(), "the shorter program was explored");
    world.tape().len()
}
