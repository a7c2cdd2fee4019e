//! The lives of a journal: one process after the other, on media that outlive them.
//!
//! What a process is told to do, and how its answers are judged, is the [`Machine`]'s. Here it is
//! killed, loses power and meets failing calls, and what is left goes to the next one. A power loss
//! leaves one of many images: the next life goes on with one of them, and a sample of the others is
//! opened and judged beside it.

use core::fmt;
use core::panic::AssertUnwindSafe;
use std::panic::catch_unwind;

use proptest::prelude::*;
use sim_disk::{
    CrashPoint, CrashPoints, Fault, FaultKind, Image, Mark, Model, Operation, Rng, Rules, Tape,
    World,
};

/// A door to a journal, and its model.
pub(crate) trait Machine {
    /// One step.
    type Act: Clone + fmt::Debug;

    /// What a process knows that another follows.
    type Memory: Default;

    /// Media with an empty journal.
    fn start(&self) -> Image;

    /// The persistency model that the media go by.
    fn model(&self) -> Model;

    /// Opens the journal, judges what it shows by the world's history, does the steps, judging what
    /// is read after each, and closes or drops the journal.
    ///
    /// # Errors
    /// What is wrong. That a call failed which was made to is not.
    fn live(
        &self,
        process: &Process<'_, Self::Act>,
        memory: &mut Self::Memory,
    ) -> Result<(), String>;

    /// Three steps more, for after the last crash.
    fn three_more(&self) -> Vec<Self::Act>;
}

/// What a process does.
#[derive(Debug)]
pub(crate) struct Process<'a, A> {
    pub(crate) world: &'a World,
    /// Whether the process before it ended in good order, in the same world: then nothing is lost.
    pub(crate) follows: bool,
    pub(crate) acts: &'a [A],
    pub(crate) closes: bool,
    /// The call that fails, and the index among its kind from which on it does.
    pub(crate) fails: Option<(Operation, u64)>,
}

impl<A> Process<'_, A> {
    /// Whether a call has failed by now.
    pub(crate) fn has_failed(&self) -> bool {
        self.fails.is_some_and(|(operation, index)| self.world.operations().of(operation) > index)
    }

    /// Whether that leaves the outcome of the call unknown, so that the journal refuses to go on.
    pub(crate) fn failure_sticks(&self) -> bool {
        let sticks = [Operation::Fence, Operation::DiskWrite, Operation::DiskSync];
        self.fails.is_some_and(|(operation, _)| sticks.contains(&operation))
    }
}

/// A call that fails.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Breaks {
    pub(crate) operation: Operation,
    /// Counted from the begin of the life.
    pub(crate) index: u8,
    pub(crate) for_ever: bool,
}

/// How a life ends.
#[derive(Clone, Copy, Debug)]
pub(crate) enum End {
    /// The journal is dropped; the next process follows.
    Drop,
    /// It is closed; the next process follows.
    Close,
    /// The process is killed, so far from the end of its tape.
    Kill { back: u16 },
    /// The power goes, `back` crash points from the end, and leaves this one of a sample of images.
    PowerLoss { back: u16, image: u16 },
}

/// A life.
#[derive(Clone, Debug)]
pub(crate) struct Life<A> {
    pub(crate) acts: Vec<A>,
    pub(crate) breaks: Option<Breaks>,
    pub(crate) end: End,
}

impl Breaks {
    /// The sync of a disk fails, once.
    pub(crate) const fn sync(index: u8) -> Self {
        Self { operation: Operation::DiskSync, index, for_ever: false }
    }
}

fn breaks() -> impl Strategy<Value = Option<Breaks>> {
    let breaks = (prop::sample::select(&Operation::MEMORY_AND_DISKS[..]), 0..40_u8, any::<bool>());
    let breaks =
        breaks.prop_map(|(operation, index, for_ever)| Breaks { operation, index, for_ever });
    prop::option::weighted(0.25, breaks)
}

fn end() -> impl Strategy<Value = End> {
    prop_oneof![
        1 => Just(End::Drop),
        1 => Just(End::Close),
        2 => (0..400_u16).prop_map(|back| End::Kill { back }),
        6 => (0..60_u16, any::<u16>()).prop_map(|(back, image)| End::PowerLoss { back, image }),
    ]
}

/// Some lives of some steps each.
pub(crate) fn lives<S: Strategy>(
    act: impl Fn() -> S,
    acts_max: usize,
) -> impl Strategy<Value = Vec<Life<S::Value>>> {
    let life = (prop::collection::vec(act(), 0..acts_max), breaks(), end());
    let life = life.prop_map(|(acts, breaks, end)| Life { acts, breaks, end });
    prop::collection::vec(life, 1..5)
}

/// What a case came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    /// What is visible on the media at the end.
    pub(crate) media: Image,
    /// All that was promised and shown.
    pub(crate) history: Vec<Mark>,
    /// Images that were opened and judged.
    pub(crate) images: u64,
    /// Lives in which a call failed.
    pub(crate) failed: u64,
}

/// Crash points with at most this number of images have all of them in the sample, others nothing,
/// all, each place alone, all but each, prefixes, suffixes, calls undone, and as many random ones.
const IMAGES_MAX: u64 = 64;
const RANDOM: u32 = 16;
/// There are fewer.
const SAMPLE_MAX: usize = 400;
/// How many of a sample are looked at beside the one that the next life goes on with.
const LOOKED_AT: usize = 10;

/// Lives through a case. Then the journal takes three steps more, and loses power once more.
///
/// # Errors
/// What is wrong, and in which life.
pub(crate) fn run<M: Machine>(machine: &M, lives: &[Life<M::Act>]) -> Result<Ended, String> {
    let last = |acts, end| Life { acts, breaks: None, end };
    let lost = End::PowerLoss { back: 0, image: 0 };
    let epilogue = [last(machine.three_more(), lost), last(Vec::new(), End::Drop)];
    let mut media = Media::new(machine);
    for (number, life) in lives.iter().chain(&epilogue).enumerate() {
        media.live(life).map_err(|error| format!("life {number}: {error}"))?;
    }
    let Media { world, images, failed, .. } = media;
    Ok(Ended { media: world.visible(), history: world.history(), images, failed })
}

/// What outlives a process.
struct Media<'a, M: Machine> {
    machine: &'a M,
    rules: Rules,
    world: World,
    /// Marks from before the world's own tape.
    past: Vec<Mark>,
    /// Where on that tape the next process begins.
    from: usize,
    follows: bool,
    memory: M::Memory,
    images: u64,
    failed: u64,
}

impl<'a, M: Machine> Media<'a, M> {
    fn new(machine: &'a M) -> Self {
        let rules = Rules::from(machine.model());
        let world = World::boot(machine.start(), rules);
        let (past, memory) = (Vec::new(), M::Memory::default());
        let (follows, images, failed) = (false, 0, 0);
        Self { machine, rules, world, past, from: 0, follows, memory, images, failed }
    }

    fn live(&mut self, life: &Life<M::Act>) -> Result<(), String> {
        let fails = life.breaks.map(|breaks| {
            let before = self.world.operations().of(breaks.operation);
            let index = before + u64::from(breaks.index);
            let fault = Fault::on(breaks.operation, index, FaultKind::Error);
            self.world.inject(if breaks.for_ever { fault.for_ever() } else { fault });
            (breaks.operation, index)
        });
        let process = Process {
            world: &self.world,
            follows: self.follows,
            acts: &life.acts,
            closes: matches!(life.end, End::Close),
            fails,
        };
        guarded(|| self.machine.live(&process, &mut self.memory))?;
        self.failed += u64::from(process.has_failed());
        let tape = self.world.tape();
        match life.end {
            // A medium that failed is another one for the next process.
            End::Drop | End::Close if fails.is_some() => self.kill(&tape, 0),
            End::Drop | End::Close => {
                (self.from, self.follows) = (tape.len(), true);
            }
            End::Kill { back } => self.kill(&tape, back),
            End::PowerLoss { back, image } => self.lose_power(&tape, back, image)?,
        }
        Ok(())
    }

    fn kill(&mut self, tape: &Tape, back: u16) {
        let events = tape.len() - self.from;
        let position = tape.len() - usize::from(back) % (events + 1);
        let start = self.world.start();
        self.world = World::killed(&start, self.rules, tape, position, self.past.clone());
        (self.from, self.follows) = (position + 1, false);
    }

    fn lose_power(&mut self, tape: &Tape, back: u16, image: u16) -> Result<(), String> {
        let start = self.world.start();
        let from = self.from.min(tape.len());
        let count = CrashPoints::new(&start, tape, self.rules, from).count();
        let chosen = count - 1 - usize::from(back) % count;
        let mut points = CrashPoints::new(&start, tape, self.rules, from);
        let point = points.nth(chosen).expect("fewer than there are");
        self.past.extend(point.marks());
        self.past.push(Mark::PowerLost);
        let mut rng = Rng::new(image.into());
        let choices = point.choices(IMAGES_MAX, RANDOM, &mut rng);
        let choices: Vec<Vec<usize>> = choices.take(SAMPLE_MAX).collect();
        let looked_at = choices.iter().step_by(choices.len().div_ceil(LOOKED_AT));
        for choice in looked_at {
            self.look(&point, choice)?;
        }
        let choice = &choices[usize::from(image) % choices.len()];
        self.world = self.reborn(&point, choice);
        (self.from, self.follows) = (0, false);
        Ok(())
    }

    fn reborn(&self, point: &CrashPoint, choice: &[usize]) -> World {
        // With a past, and nothing on its tape that is not a mark.
        World::killed(&point.image(choice), self.rules, &Tape::new(), 0, self.past.clone())
    }

    /// Opens one image, and judges what it shows.
    fn look(&mut self, point: &CrashPoint, choice: &[usize]) -> Result<(), String> {
        self.images += 1;
        let world = self.reborn(point, choice);
        let process =
            Process { world: &world, follows: false, acts: &[], closes: false, fails: None };
        guarded(|| self.machine.live(&process, &mut M::Memory::default()))
            .map_err(|error| format!("lost {} of {choice:?}: {error}", point.position()))
    }
}

/// What a panic says counts as any other failure.
pub(crate) fn guarded<R>(call: impl FnOnce() -> Result<R, String>) -> Result<R, String> {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        Err(format!("panicked: {}", text.unwrap_or_default()))
    })
}
