//! Working through the plan: two threads, one queue, a time to stop.

use std::io::IsTerminal as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use sim_disk::{Explorer, Failure, Model, Report, Rng, Scenario as _, World};

use crate::plan::{Plan, going_on};
use crate::program::Program;

pub(crate) const THREADS: usize = 2;

/// Images of a crash point up to which all are tried, for programs of one step.
pub(crate) const IMAGES_ALL: u64 = 1 << 16;

/// The same where recovery goes on, is killed, or where programs are many.
const IMAGES_FEW: u64 = 1 << 4;

/// The same for recoveries that are crashed in turn: a superblock's torn writes are fewer.
const IMAGES_NESTED: u64 = 1 << 7;

/// Longest programs.
pub(crate) const LENGTH_MAX: usize = 3;

const ROWS: usize = journal_core::Row::ALL.len();

/// What was seen under one model.
#[derive(Clone, Default)]
pub(crate) struct Seen {
    pub(crate) report: Report,
    /// Programs done, by length.
    pub(crate) done: [u64; LENGTH_MAX + 1],
    /// The least and the most images of a crash point up to which all were tried, by length.
    pub(crate) limits: [Option<(u64, u64)>; LENGTH_MAX + 1],
    /// Programs that reached each row of the recovery table.
    pub(crate) rows: [u64; ROWS],
    pub(crate) damaged: u64,
    pub(crate) nested: u64,
    /// Images of which recovery was crashed in turn.
    pub(crate) nested_images: u64,
    pub(crate) took: Duration,
}

/// One line on a terminal, nothing elsewhere.
pub(crate) struct Progress {
    begin: Instant,
    budget: Duration,
    shows: bool,
    last: Mutex<Instant>,
}

impl Progress {
    pub(crate) fn new(budget: Duration) -> Self {
        let begin = Instant::now();
        let shows = std::io::stderr().is_terminal();
        Self { begin, budget, shows, last: Mutex::new(begin) }
    }

    fn show(&self, what: Model, seen: &Seen) {
        let mut last = self.last.lock().expect("no thread panics with it");
        if !self.shows || last.elapsed() < Duration::from_millis(500) {
            return;
        }
        *last = Instant::now();
        let (now, all) = (self.begin.elapsed().as_secs(), self.budget.as_secs().max(1));
        let full = usize::try_from(now * 30 / all).unwrap_or(30).min(30);
        let bar: String = (0..30).map(|at| if at < full { '#' } else { '.' }).collect();
        let programs: u64 = seen.done.iter().sum();
        eprint!(
            "\r[{bar}] {now}/{all} s  {what}: {programs} programs, {} states  ",
            seen.report.images
        );
    }

    pub(crate) fn clear(&self) {
        if self.shows {
            eprint!("\r{:100}\r", "");
        }
    }
}

/// One model's exploration.
pub(crate) struct Work<'a> {
    pub(crate) model: Model,
    pub(crate) plan: &'a Plan,
    pub(crate) seed: u64,
    pub(crate) until: Instant,
    /// Programs of one step have their points enumerated up to so many images.
    pub(crate) images_all: u64,
    pub(crate) progress: &'a Progress,
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
            .with_random_per_point(16)
    }

    /// All of it, in the order of worth.
    pub(crate) fn run(&self) -> Result<Seen, Box<Failure>> {
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

    /// Runs jobs on all threads until there is none left, one fails or `until` has come.
    fn each<T: Send>(
        &self,
        count: usize,
        until: Option<Instant>,
        job: impl Fn(usize) -> Result<T, Box<Failure>> + Sync,
        take: impl Fn(T) + Sync,
    ) -> Result<(), Box<Failure>> {
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

    fn add(&self, seen: &Mutex<Seen>, added: &Added, note: impl FnOnce(&mut Seen)) {
        let mut seen = seen.lock().expect("no thread panics with it");
        seen.report += added.report;
        for (count, reached) in seen.rows.iter_mut().zip(added.rows) {
            *count += u64::from(reached);
        }
        note(&mut seen);
        self.progress.show(self.model, &seen);
    }

    fn damaged(&self, seen: &Mutex<Seen>) -> Result<(), Box<Failure>> {
        let programs = self.plan.damaged();
        let job = |index: usize| {
            let (program, damage) = &programs[index];
            let report = self.explorer(index, 1 << 8).with_damage(*damage).explore(program)?;
            Ok(Added { report, rows: rows(program) })
        };
        let take = |added| self.add(seen, &added, |seen| seen.damaged += 1);
        self.each(programs.len(), None, job, take)
    }

    fn nested(&self, seen: &Mutex<Seen>) -> Result<(), Box<Failure>> {
        let programs = self.plan.nested();
        let job = |index: usize| {
            let program = &programs[index];
            let report = self.explorer(index, IMAGES_NESTED).with_depth(2).explore(program)?;
            Ok(Added { report, rows: rows(program) })
        };
        let take = |added: Added| {
            let nested = added.report.nested;
            self.add(seen, &added, |seen| {
                seen.nested += 1;
                seen.nested_images += nested;
            });
        };
        self.each(programs.len(), None, job, take)
    }

    /// Every image of every crash; then, for a sample, kills and a journal that goes on.
    fn length_one(&self, seen: &Mutex<Seen>) -> Result<(), Box<Failure>> {
        let order = self.plan.order(1, self.seed);
        let job = |at: usize| {
            let index = order[at];
            let program = self.plan.numbered(index, 1).program;
            let mut report = self.explorer(index, self.images_all).explore(&program)?;
            let few = self.explorer(index, IMAGES_FEW).with_kills();
            let more = few.explore(&going_on(&program))?;
            report += without_program(more);
            Ok(Added { report, rows: rows(&program) })
        };
        let take = |added| {
            self.add(seen, &added, |seen| {
                seen.done[1] += 1;
                seen.limits[1] = Some((self.images_all, self.images_all));
            });
        };
        self.each(order.len(), Some(self.until), job, take)
    }

    /// Crashes in the last step of programs of two steps, or of three; those before it belong to
    /// the shorter programs. As many images as the time allows, a few at least.
    fn longer(&self, seen: &Mutex<Seen>, length: u32) -> Result<(), Box<Failure>> {
        let order = if length == 2 { self.plan.order(2, self.seed) } else { Vec::new() };
        // The longest ones are drawn, for as long as there is time.
        let drawn = |at: usize| Rng::new(self.seed ^ at as u64).index(self.plan.count(length));
        let count = if order.is_empty() { usize::MAX / 2 } else { order.len() };
        let (done, limit) = (AtomicUsize::new(0), Mutex::new((Instant::now(), 0, IMAGES_FEW)));
        let job = |at: usize| {
            let images = match order.len() {
                0 => IMAGES_FEW,
                all => self.pace(&limit, done.load(Ordering::Relaxed), all),
            };
            let index = order.get(at).copied().unwrap_or_else(|| drawn(at));
            let numbered = self.plan.numbered(index, length);
            let from = tape_length(&numbered.prefix);
            let explorer = self.explorer(index, images).with_points_from(from);
            let mut report = explorer.explore(&numbered.program)?;
            let few = self.explorer(index, 1).with_random_per_point(0).with_points_from(from);
            report += without_program(few.explore(&going_on(&numbered.program))?);
            done.fetch_add(1, Ordering::Relaxed);
            Ok((Added { report, rows: rows(&numbered.program) }, images))
        };
        let take = |(added, images): (Added, u64)| {
            self.add(seen, &added, |seen| {
                let length = length as usize;
                seen.done[length] += 1;
                let (least, most) = seen.limits[length].unwrap_or((images, images));
                seen.limits[length] = Some((least.min(images), most.max(images)));
            });
        };
        self.each(count, Some(self.until), job, take)
    }

    /// How many images of a point may be tried so that all programs are run in time: twice as many
    /// as before, or half, where the pace of the last programs allows, or asks for, it.
    fn pace(&self, limit: &Mutex<(Instant, usize, u64)>, done: usize, all: usize) -> u64 {
        const PROGRAMS: usize = 200;
        let mut limit = limit.lock().expect("no thread panics with it");
        let (since, at, images) = *limit;
        if done >= at + PROGRAMS {
            let took = since.elapsed().as_secs_f64() / (done - at) as f64;
            let left = self.until.saturating_duration_since(Instant::now()).as_secs_f64();
            let needed = took * (all - done.min(all)) as f64;
            // A twentieth is kept for longer programs.
            let images = if needed * 2.5 < left * 0.95 {
                (images * 2).min(IMAGES_ALL)
            } else if needed > left * 0.95 {
                (images / 2).max(1)
            } else {
                images
            };
            *limit = (Instant::now(), done, images);
        }
        limit.2
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
