//! One call for the author of a store.
//!
//! The store is driven through [`Store`]. Operations go in, and everything that a caller can read
//! comes out as names and values. A pure function says what should come out. Nothing is known of
//! what lies between them. The store may keep a journal of this project, or whatever it likes, on
//! the [`World`]'s memory and disks.

use core::fmt;
use std::collections::{BTreeMap, BTreeSet};

use crate::media::fault::{Fault, FaultKind, Operation as Call};
use crate::media::image::Image;
use crate::media::model::Model;
use crate::media::rng::{Rng, mix};
use crate::media::tape::Mark;
use crate::media::world::World;
use crate::power::explore::{Explorer, Scenario};
use crate::power::report::{Failure, Report};
use crate::suite::program::plan::MODELS;

/// Everything that a caller of a store can read: names, and what each of them holds.
pub type View = BTreeMap<String, String>;

/// What a store promises with a return.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Promise {
    /// This operation and all before it outlive every crash from now on.
    Durable,
    /// It may be lost, and with it all that comes after it, until something durable follows.
    Later,
}

/// A store under test: how it is made, opened, used and looked at, and how it should behave.
///
/// All of it has to be deterministic, and to keep everything that outlives a process on the world's
/// media.
pub trait Store {
    /// What its callers ask for.
    type Operation: Clone + fmt::Debug;
    /// The store while it is open. It is dropped where a process ends in good order.
    type Open;

    /// Blank media: as small as the store can be, since there are fewer crashes of less.
    fn media(&self) -> Image;

    /// Makes an empty store of them.
    ///
    /// # Errors
    /// What went wrong, which fails the suite.
    fn format(&self, world: &World) -> Result<(), String>;

    /// Opens the store, after whatever happened to it.
    ///
    /// # Errors
    /// What went wrong. That fails the suite, unless a call was made to fail.
    fn open(&self, world: &World) -> Result<Self::Open, String>;

    /// Does one operation, wholly or not at all.
    ///
    /// # Errors
    /// As for [`Store::open`].
    fn apply(&self, open: &mut Self::Open, operation: &Self::Operation) -> Result<Promise, String>;

    /// Reads everything.
    ///
    /// # Errors
    /// As for [`Store::open`].
    fn read(&self, open: &mut Self::Open) -> Result<View, String>;

    /// What programs are made of. A handful: all pairs of them are run.
    fn operations(&self) -> Vec<Self::Operation>;

    /// What an operation should make of what can be read, which is nothing at first.
    fn model(&self, view: &mut View, operation: &Self::Operation);
}

/// How much is tried. Counts, and no times: the same budget tries the same again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreBudget {
    seed: u64,
    images: u64,
    longer: u32,
    length: usize,
    faults: u64,
    recoveries_one_in: u64,
}

impl StoreBudget {
    /// Some seconds for a small store, under an optimised test profile.
    #[must_use]
    pub const fn new() -> Self {
        Self { seed: 1, images: 64, longer: 50, length: 5, faults: 24, recoveries_one_in: 1 }
    }

    /// The seed of everything that is left to chance. 1.
    #[must_use]
    pub const fn seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    /// How many images of a crash point are recovered. A point with at most `images` of them has
    /// all recovered, any other a sample of about that size. 64.
    #[must_use]
    pub const fn images(self, images: u64) -> Self {
        Self { images, ..self }
    }

    /// How many programs of three operations and more are drawn, and how long the longest are. 50
    /// programs of up to 5.
    #[must_use]
    pub const fn longer(self, programs: u32, length: usize) -> Self {
        Self { longer: programs, length, ..self }
    }

    /// How many calls of one kind, in one program, are made to fail in turn: all of them where they
    /// are no more. 24.
    #[must_use]
    pub const fn faults(self, faults: u64) -> Self {
        Self { faults, ..self }
    }

    /// Of the points at which a recovery is crashed in turn, one in `one_in` is tried, by chance.
    /// A store whose recovery is long has very many of them. 1: all of them.
    #[must_use]
    pub const fn recoveries_one_in(self, one_in: u64) -> Self {
        Self { recoveries_one_in: one_in, ..self }
    }
}

impl Default for StoreBudget {
    fn default() -> Self {
        Self::new()
    }
}

/// What was tried, and held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreSummary {
    /// Programs, over all models.
    pub programs: u64,
    /// Programs of which one call failed.
    pub faults: u64,
    /// Calls that did not get their turn to fail.
    pub faults_left_out: u64,
    /// Of all of them together.
    pub report: Report,
}

impl fmt::Display for StoreSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { programs, faults, faults_left_out, report } = self;
        writeln!(
            f,
            "{programs} programs; {faults} more with a failing call, {faults_left_out} calls left \
             out"
        )?;
        write!(f, "{report}")
    }
}

/// Why a store does not hold.
#[derive(Clone, Debug)]
pub struct StoreFailure {
    /// The program, operation by operation.
    pub program: Vec<String>,
    /// The call that was made to fail, if one was.
    pub fault: Option<String>,
    /// The crashes, and what was found after them.
    pub failure: Box<Failure>,
    /// The budget's.
    pub seed: u64,
}

impl core::error::Error for StoreFailure {}

impl fmt::Display for StoreFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.program.is_empty() {
            return f.write_str(&self.failure.message);
        }
        writeln!(f, "{}", self.failure.message)?;
        writeln!(f, "the program:")?;
        for (number, operation) in (1..).zip(&self.program) {
            writeln!(f, "  {number}. {operation}")?;
        }
        if let Some(fault) = &self.fault {
            writeln!(f, "of its calls, {fault} fails")?;
        }
        for crash in self.failure.crashes() {
            writeln!(f, "then {crash}")?;
        }
        if let Some(rules) = self.failure.rules {
            writeln!(f, "under the model {}; the budget's seed is {}", rules.model(), self.seed)?;
        }
        write!(f, "\nall of it:\n{}", self.failure)
    }
}

/// Tries whether a store keeps what it promises, whatever happens to it.
///
/// Its programs are all of one operation and of two, and some longer ones. Each is run under each
/// of [`MODELS`], or under the first alone where the media have no memory:
///
/// - It runs without a crash, and every operation is compared with the model.
/// - The power is cut at every persist point. Every image that may be left is tried where they are
///   few, and a sample where not. In programs of one operation the power is cut once more, inside
///   the recovery from that.
/// - In programs of one operation and of two, the process is killed after every event, and the
///   power is cut later.
/// - In programs of one operation every memory fence fails in turn, and every write, sync and read
///   of a disk or a file, at most [`StoreBudget::faults`] of a kind. What is left is crashed as
///   well. Calls of files also fall short, find no space, and drop their pages.
///
/// After each, the store has to open and to show what some prefix of the operations leads to, with
/// all that it has promised. It has to show that again if it is interrupted, and to go on.
///
/// # Errors
/// The first crash that the store did not survive.
pub fn check_store<S: Store>(
    store: &S,
    budget: &StoreBudget,
) -> Result<StoreSummary, Box<StoreFailure>> {
    let start = formatted(store).map_err(|message| bare(message, budget))?;
    let all = store.operations();
    let mut summary = StoreSummary::default();
    // Without memory, its models are one and the same.
    let models = if start.pmem().is_empty() { &MODELS[..1] } else { &MODELS[..] };
    for model in models.iter().copied() {
        let mut check =
            StoreCheck { store, budget, start: &start, all: &all, model, summary: &mut summary };
        check.all()?;
    }
    Ok(summary)
}

/// A failure before there was a program.
fn bare(message: String, budget: &StoreBudget) -> Box<StoreFailure> {
    let failure = Failure::new(message);
    Box::new(StoreFailure { program: Vec::new(), fault: None, failure, seed: budget.seed })
}

/// The media of an empty store.
fn formatted<S: Store>(store: &S) -> Result<Image, String> {
    let world = World::boot(store.media(), Model::Torn8);
    store.format(&world).map_err(|error| format!("the store cannot be made: {error}"))?;
    let image = world.visible();
    let world = World::boot(image.clone(), Model::Torn8);
    let opened = store.open(&world).map_err(|error| format!("a new store does not open: {error}"));
    let view = store.read(&mut opened?).map_err(|error| format!("a new store: {error}"))?;
    if view.is_empty() { Ok(image) } else { Err(format!("a new store shows {view:?}")) }
}

/// The programs of a store, all explored under one model of the medium.
struct StoreCheck<'a, S: Store> {
    store: &'a S,
    budget: &'a StoreBudget,
    start: &'a Image,
    all: &'a [S::Operation],
    model: Model,
    summary: &'a mut StoreSummary,
}

impl<'a, S: Store> StoreCheck<'a, S> {
    fn all(&mut self) -> Result<(), Box<StoreFailure>> {
        let (one, many) = (self.all.len() as u64, u64::from(self.budget.longer));
        self.summary.programs += one + one * one + if one == 0 { 0 } else { many };
        for operation in self.all {
            let program = self.program(vec![operation.clone()]);
            // First what is simplest to understand, if it fails.
            self.explore(&self.explorer(), &program)?;
            self.explore(&self.explorer().with_depth(1), &program)?;
            self.explore(&self.explorer().with_depth(1).with_kills(), &program)?;
            self.failing(&program)?;
        }
        for first in self.all {
            for second in self.all {
                let program = self.program(vec![first.clone(), second.clone()]);
                self.explore(&self.explorer().with_kills(), &program)?;
            }
        }
        let mut rng = Rng::new(self.budget.seed);
        let longer = if self.all.is_empty() { 0 } else { self.budget.longer };
        for _ in 0..longer {
            let length = 3 + rng.index(self.budget.length.saturating_sub(2).max(1));
            let operations = (0..length).map(|_| self.all[rng.index(self.all.len())].clone());
            let program = self.program(operations.collect());
            self.explore(&self.explorer(), &program)?;
        }
        Ok(())
    }

    fn explorer(&self) -> Explorer {
        let images = self.budget.images;
        let explorer = Explorer::new(self.model)
            .with_seed(self.budget.seed)
            .with_images_per_point_max(images)
            .with_recoveries_one_in(self.budget.recoveries_one_in)
            .with_random_per_point(u32::try_from(images / 4).unwrap_or(u32::MAX));
        // A file has many sectors, and few of them matter.
        if self.start.file(0).is_some() { explorer.with_shrinking() } else { explorer }
    }

    /// What is done again after each recovery is the first operation there is.
    fn program(&self, operations: Vec<S::Operation>) -> StoreProgram<'a, S> {
        let after = self.all.first().cloned();
        StoreProgram { store: self.store, start: self.start, operations, after, fault: None }
    }

    fn explore(
        &mut self,
        explorer: &Explorer,
        program: &StoreProgram<'_, S>,
    ) -> Result<(), Box<StoreFailure>> {
        match explorer.explore(program) {
            Ok(report) => {
                self.summary.report += report;
                Ok(())
            }
            Err(failure) => Err(Box::new(StoreFailure {
                program: program.operations.iter().map(|one| format!("{one:?}")).collect(),
                fault: program.fault.map(|(call, index, kind)| match kind {
                    FaultKind::Error => format!("{call:?} number {index}"),
                    kind => format!("{call:?} number {index} ({kind:?})"),
                }),
                failure,
                seed: self.budget.seed,
            })),
        }
    }

    /// Has each call of a program fail in turn.
    fn failing(&mut self, program: &StoreProgram<'_, S>) -> Result<(), Box<StoreFailure>> {
        let world = World::boot(self.start.clone(), self.model);
        // It was explored before: it succeeds.
        let _ran = program.program(&world);
        let counts = world.operations();
        let explorer = self.explorer().with_images_per_point_max(self.budget.images / 4);
        for call in Call::ALL {
            let count = counts.of(call);
            let stride = count.div_ceil(self.budget.faults.max(1)).max(1);
            for index in (0..count).step_by(usize::try_from(stride).unwrap_or(usize::MAX)) {
                for kind in kinds(call) {
                    let fault = Some((call, index, *kind));
                    let operations = program.operations.clone();
                    let failing = StoreProgram { fault, ..self.program(operations) };
                    self.explore(&explorer, &failing)?;
                    self.summary.faults += 1;
                }
            }
            self.summary.faults_left_out += count - count.div_ceil(stride);
        }
        Ok(())
    }
}

/// How a call is made to fail.
fn kinds(call: Call) -> &'static [FaultKind] {
    const SHORT: FaultKind = FaultKind::Short { bytes: 1 };
    match call {
        Call::FileRead => &[FaultKind::Error, SHORT],
        Call::FileWrite => &[FaultKind::Error, FaultKind::NoSpace, SHORT],
        Call::FileSetLen => &[FaultKind::Error, FaultKind::NoSpace],
        Call::FileSync => &[FaultKind::Error, FaultKind::PagesDropped],
        _ => &[FaultKind::Error],
    }
}

/// A program on a store, as a scenario for the simulator.
struct StoreProgram<'a, S: Store> {
    store: &'a S,
    start: &'a Image,
    operations: Vec<S::Operation>,
    /// Done after each recovery, to see that the store goes on.
    after: Option<S::Operation>,
    fault: Option<(Call, u64, FaultKind)>,
}

/// The label of the operation that is done after a recovery.
const AFTER: u64 = u64::MAX;

/// What a store may show: a view that a life may have begun with, and what each operation since
/// made of it.
#[derive(Clone)]
struct PossibleViews {
    views: Vec<View>,
    /// The operation that led to each, where it did not begin with it.
    by: Vec<Option<u64>>,
    promised: usize,
}

impl<S: Store> StoreProgram<'_, S> {
    fn operation(&self, label: u64) -> Option<&S::Operation> {
        if label == AFTER {
            return self.after.as_ref();
        }
        usize::try_from(label).ok().and_then(|index| self.operations.get(index))
    }

    fn name(&self, label: u64) -> String {
        let operation = self.operation(label).map_or_else(String::new, |one| format!("{one:?}"));
        if label == AFTER { operation } else { format!("operation {}, {operation}", label + 1) }
    }

    /// Does one operation, with marks.
    fn apply(&self, world: &World, open: &mut S::Open, label: u64) -> Result<(), String> {
        let Some(operation) = self.operation(label) else { return Ok(()) };
        world.called(label);
        let promise = self.store.apply(open, operation);
        let promise = promise.map_err(|error| format!("{}: {error}", self.name(label)))?;
        if promise == Promise::Durable {
            world.returned(label);
        }
        Ok(())
    }

    /// Runs all operations; compares each with the model, unless a call is to fail.
    fn run(&self, world: &World) -> Result<(), String> {
        let mut open = self.store.open(world).map_err(|error| format!("open: {error}"))?;
        let mut expected = View::new();
        for (label, operation) in (0..).zip(&self.operations) {
            self.apply(world, &mut open, label)?;
            self.store.model(&mut expected, operation);
            if self.fault.is_none() {
                let found = self.store.read(&mut open)?;
                if found != expected {
                    let after = format!("after {}", self.name(label));
                    return Err(format!("{after}:\n{}", difference(&expected, &found)));
                }
            }
        }
        Ok(())
    }

    /// The states that the history allows now.
    fn allowed(&self, history: &[Mark]) -> Vec<PossibleViews> {
        let begin = |view, by| PossibleViews { views: vec![view], by: vec![by], promised: 0 };
        let mut lives = vec![begin(View::new(), None)];
        for mark in history {
            match mark {
                Mark::Called(label) => {
                    for life in &mut lives {
                        let mut view = life.views.last().cloned().unwrap_or_default();
                        if let Some(operation) = self.operation(*label) {
                            self.store.model(&mut view, operation);
                        }
                        life.views.push(view);
                        life.by.push(Some(*label));
                    }
                }
                Mark::Returned(_) => {
                    for life in &mut lives {
                        life.promised = life.views.len() - 1;
                    }
                }
                Mark::PowerLost | Mark::Killed => {
                    let ends = lives.iter().flat_map(|life| {
                        let ends = life.views.iter().zip(&life.by);
                        ends.skip(life.promised).map(|(view, by)| begin(view.clone(), *by))
                    });
                    lives = ends.collect();
                }
                Mark::Recovered(shown) => lives.retain(|life| digest(&life.views[0]) == *shown),
            }
        }
        lives
    }

    /// Judges what a store shows, and says what is wrong in the words of its callers.
    fn judge(&self, history: &[Mark], found: &View) -> Result<(), String> {
        let lives = self.allowed(history);
        let ends =
            lives.iter().flat_map(|life| life.views.iter().zip(&life.by).skip(life.promised));
        let mut ends: Vec<(&View, &Option<u64>)> = ends.collect();
        if ends.iter().any(|(view, _)| *view == found) {
            return Ok(());
        }
        ends.dedup();
        let last = history.iter().rev().find_map(|mark| match mark {
            Mark::Called(label) => Some(*label),
            _ => None,
        });
        let last = last.map_or_else(
            || "nothing was asked for".to_owned(),
            |label| {
                let returned = history.contains(&Mark::Returned(label));
                let end = if returned { "had promised to be durable" } else { "was under way" };
                format!("{} {end}", self.name(label))
            },
        );
        let mut text = format!("after a crash the store shows what nobody may see; {last}");
        for (view, by) in ends {
            let before = || "before the first operation".to_owned();
            let at = by.map_or_else(before, |label| format!("after {}", self.name(label)));
            text += &format!("\nit is not the state {at}:\n{}", difference(view, found));
        }
        Err(text)
    }
}

/// Where two states differ, name by name.
fn difference(expected: &View, found: &View) -> String {
    let names: BTreeSet<&String> = expected.keys().chain(found.keys()).collect();
    let show = |value: Option<&String>| {
        value.map_or_else(|| "nothing".to_owned(), |value| format!("{value:?}"))
    };
    let lines = names.into_iter().filter_map(|name| {
        let (expected, found) = (expected.get(name), found.get(name));
        (expected != found)
            .then(|| format!("  key {name:?}: expected {}, found {}", show(expected), show(found)))
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn digest(view: &View) -> u64 {
    let bytes = view.iter().flat_map(|(name, value)| {
        let ends = [name.len() as u64, value.len() as u64];
        ends.into_iter().chain(name.bytes().chain(value.bytes()).map(u64::from))
    });
    bytes.fold(1, |sum, next| mix(sum ^ mix(next)))
}

impl<S: Store> Scenario for StoreProgram<'_, S> {
    fn name(&self) -> String {
        format!("{:?}", self.operations)
    }

    fn start(&self) -> Image {
        self.start.clone()
    }

    fn program(&self, world: &World) -> Result<(), String> {
        let Some((call, index, kind)) = self.fault else { return self.run(world) };
        world.inject(Fault::on(call, index, kind));
        // A store that is told of an error may say so, and ends there.
        let _said = self.run(world);
        Ok(())
    }

    fn recover(&self, world: &World) -> Result<(), String> {
        let mut open = self.store.open(world);
        let open = open.as_mut().map_err(|error| format!("it does not open: {error}"))?;
        let mut expected = self.store.read(open)?;
        self.judge(&world.history(), &expected)?;
        world.recovered(digest(&expected));
        let Some(after) = &self.after else { return Ok(()) };
        self.apply(world, open, AFTER)?;
        self.store.model(&mut expected, after);
        let found = self.store.read(open)?;
        if found == expected {
            return Ok(());
        }
        let differ = difference(&expected, &found);
        Err(format!("after a recovery, {}:\n{differ}", self.name(AFTER)))
    }
}
