//! Running a program, cutting the power everywhere, and looking at what recovery makes of it.
//!
//! A [`Scenario`] is a program, its recovery and an oracle. The [`Explorer`] runs the program once.
//! It takes the images that a power loss may leave at every crash point of the tape. Where these
//! are few it takes all of them, where not a declared sample. It boots each distinct image, and has
//! the scenario recover and judge it. Then it does this with the tape of that recovery, as deep as
//! asked. With [`Explorer::with_kills`] it also kills the process after every event. The next
//! process recovers from what is visible, and the power is cut after that.

use core::panic::AssertUnwindSafe;
use std::collections::{BTreeSet, HashMap};
use std::panic::catch_unwind;

use crate::media::image::Image;
use crate::media::model::Rules;
use crate::media::rng::{Rng, mix};
use crate::media::tape::{Mark, Tape};
use crate::media::world::World;
use crate::power::crash::{CrashPoint, CrashPoints};
use crate::power::memo::Memo;
use crate::power::report::{CrashStep, Failure, Report};

/// A store under test.
pub trait Scenario {
    /// For reports.
    fn name(&self) -> String {
        core::any::type_name::<Self>().to_owned()
    }

    /// The media before the program runs.
    fn start(&self) -> Image;

    /// The program. Says through [`World::called`] and [`World::returned`] what it promised when.
    ///
    /// Must be deterministic. Runs once per exploration.
    ///
    /// # Errors
    /// What went wrong, for the report: the program is expected to succeed.
    fn program(&self, world: &World) -> Result<(), String>;

    /// Opens the store on what a crash left, and judges what it finds by [`World::history`]. Says
    /// [`World::recovered`] with a digest of the logical state when recovery is complete. Whatever
    /// it does after that (more operations, a check of its own) is crashed as well.
    ///
    /// Must be deterministic, and look at the media through their ports alone.
    ///
    /// # Errors
    /// What is wrong with the state, for the report.
    fn recover(&self, world: &World) -> Result<(), String>;
}

/// How thoroughly to explore.
#[derive(Clone, Debug)]
pub struct Explorer {
    rules: Rules,
    seed: u64,
    images_per_point_max: u64,
    random_per_point: u32,
    depth: u32,
    kills: bool,
    damage: Option<Damage>,
    reads: bool,
    shrinks: bool,
    points_from: usize,
    recoveries_one_in: u64,
}

/// Images that shrinking a failure may try.
const SHRINKS_MAX: usize = 500;

/// Harms the media between a power loss and the next boot, knowing what had been promised by then.
pub type Damage = fn(&mut Image, &[Mark]);

impl Explorer {
    /// Power losses at every crash point under these rules, with no crash inside recovery and no
    /// kills. A point with at most 65,536 images has all of them tried, any other a sample with 64
    /// random ones.
    #[must_use]
    pub fn new(rules: impl Into<Rules>) -> Self {
        Self {
            rules: rules.into(),
            seed: 0,
            images_per_point_max: 1 << 16,
            random_per_point: 64,
            depth: 0,
            kills: false,
            damage: None,
            reads: false,
            shrinks: false,
            points_from: 0,
            recoveries_one_in: 1,
        }
    }

    /// The seed of everything random.
    #[must_use]
    pub const fn with_seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Enumerate points with at most this many images, sample the others.
    #[must_use]
    pub const fn with_images_per_point_max(mut self, images: u64) -> Self {
        self.images_per_point_max = images;
        self
    }

    /// Random images of a sampled point, beside the regular ones.
    #[must_use]
    pub const fn with_random_per_point(mut self, images: u32) -> Self {
        self.random_per_point = images;
        self
    }

    /// Crash inside recovery, and inside the recovery from that, this many times over.
    #[must_use]
    pub const fn with_depth(mut self, depth: u32) -> Self {
        self.depth = depth;
        self
    }

    /// Of the points at which a recovery is crashed, or what goes on after a kill, tries one in
    /// `one_in`, by chance. The points of the program itself are all tried.
    #[must_use]
    pub const fn with_recoveries_one_in(mut self, one_in: u64) -> Self {
        self.recoveries_one_in = one_in;
        self
    }

    /// Lets the explorer also kill the process after every event, and cut the power later.
    #[must_use]
    pub const fn with_kills(mut self) -> Self {
        self.kills = true;
        self
    }

    /// Lets the explorer also harm every image of a program's own crashes before it is booted: rot
    /// and poison come on top of the power loss. Images of crashes inside recovery are not harmed.
    #[must_use]
    pub const fn with_damage(mut self, damage: Damage) -> Self {
        self.damage = Some(damage);
        self
    }

    /// Tell images apart by what recovery reads of them: of those that it cannot tell apart, only
    /// the first is recovered. This is exact for a recovery that is deterministic and looks at the
    /// media through their ports alone. Crashes inside recovery are then explored for that first
    /// one.
    #[must_use]
    pub const fn with_images_told_apart_by_reads(mut self) -> Self {
        self.reads = true;
        self
    }

    /// Of a crash that fails, look for one that loses less and still fails. The report then shows
    /// what must not be lost, among all that a crash can lose.
    #[must_use]
    pub const fn with_shrinking(mut self) -> Self {
        self.shrinks = true;
        self
    }

    /// Pass over the crashes of a program before this position of its tape. The program has those
    /// in common with a shorter one, which it continues and which was explored before.
    #[must_use]
    pub const fn with_points_from(mut self, position: usize) -> Self {
        self.points_from = position;
        self
    }

    /// Pass over the crashes that `scenario` has in common with another one, which was explored
    /// before: those in front of the first event in which their programs differ. Both begin with
    /// the same media, and recover in the same way.
    ///
    /// # Errors
    /// What went wrong in one of the programs.
    pub fn with_points_beyond<S: Scenario + ?Sized>(
        self,
        other: &S,
        scenario: &S,
    ) -> Result<Self, String> {
        let tape = |scenario: &S| {
            let world = World::boot(scenario.start(), self.rules);
            guarded(|| scenario.program(&world)).map(|()| world.tape())
        };
        let (one, two) = (tape(other)?, tape(scenario)?);
        let pairs = one.entries().iter().zip(two.entries());
        let shared = pairs.take_while(|(one, two)| one.event == two.event).count();
        Ok(self.with_points_from(shared))
    }

    /// The rules.
    #[must_use]
    pub const fn rules(&self) -> Rules {
        self.rules
    }

    /// Explores one scenario.
    ///
    /// # Errors
    /// The first crash that the scenario did not survive, with everything needed to see why.
    pub fn explore<S: Scenario + ?Sized>(&self, scenario: &S) -> Result<Report, Box<Failure>> {
        let mut run = Exploration {
            explorer: self,
            scenario,
            rng: Rng::new(self.seed),
            report: Report { programs: 1, ..Report::default() },
            outcomes: BTreeSet::new(),
            seen: HashMap::new(),
            memo: self.reads.then(Memo::default),
        };
        let result = run.whole();
        run.report.outcomes = run.outcomes.len() as u64;
        match result {
            Ok(()) => Ok(run.report),
            Err(mut failure) => {
                failure.scenario = scenario.name();
                failure.rules = Some(self.rules);
                failure.seed = self.seed;
                Err(failure)
            }
        }
    }
}

/// Tells an image that is harmed before it is booted from an unharmed one of the same content. A
/// recovery that repaired the harm may leave the latter.
const HARMED: u128 = 0x9F1B_64D3_0A87_C25E_5D8E_31F0_B96A_7C42;

/// The exploration of one scenario: what it has seen so far, and its report.
struct Exploration<'a, S: ?Sized> {
    explorer: &'a Explorer,
    scenario: &'a S,
    rng: Rng,
    report: Report,
    outcomes: BTreeSet<u64>,
    /// Image, history and harm -> the digest that recovery found, and how deep it was explored.
    seen: HashMap<u128, (u64, u32)>,
    memo: Option<Memo>,
}

/// Where a tape came from.
#[derive(Clone, Copy)]
struct Life<'a> {
    start: &'a Image,
    tape: &'a Tape,
    /// Marks of earlier lives.
    past: &'a [Mark],
    /// Crash points before this position belong to an earlier life.
    first: usize,
    /// What an interrupted recovery has to find again.
    expected: Option<u64>,
    /// Whether it is the program's own, not that of a recovery.
    is_own: bool,
}

/// How to look at one image.
#[derive(Clone, Copy)]
struct Look {
    expected: Option<u64>,
    depth: u32,
    damage: Option<Damage>,
}

impl<S: Scenario + ?Sized> Exploration<'_, S> {
    fn whole(&mut self) -> Result<(), Box<Failure>> {
        let world = World::boot(self.scenario.start(), self.explorer.rules);
        let result = guarded(|| self.scenario.program(&world));
        let tape = world.tape();
        result.map_err(|message| Failure::in_program(message, &tape))?;
        let start = world.start();
        let first = self.explorer.points_from.min(tape.len());
        let life =
            Life { start: &start, tape: &tape, past: &[], first, expected: None, is_own: true };
        self.power_losses(&life, self.explorer.depth)?;
        self.kills(&life, self.explorer.depth)
    }

    fn power_losses(&mut self, life: &Life<'_>, depth: u32) -> Result<(), Box<Failure>> {
        for point in CrashPoints::new(life.start, life.tape, self.explorer.rules, life.first) {
            if self.is_left_out(life) {
                self.report.points_left_out += 1;
                continue;
            }
            self.report.points += 1;
            let recovered = |mark: &Mark| matches!(mark, Mark::Recovered(_));
            let expected = life.expected.filter(|_| !point.marks().iter().any(recovered));
            let mut history = life.past.to_vec();
            history.extend(point.marks());
            // A loss in a recovery that said nothing yet is, to the oracle, one and the same loss.
            if history.last() != Some(&Mark::PowerLost) {
                history.push(Mark::PowerLost);
            }
            let damage = self.explorer.damage.filter(|_| life.is_own);
            let look = Look { expected, depth, damage };
            let limits = (self.explorer.images_per_point_max, self.explorer.random_per_point);
            let choices = point.choices(limits.0, limits.1, &mut self.rng);
            let is_sample = choices.is_sample();
            self.report.points_sampled += u64::from(is_sample);
            for choice in choices {
                self.report.images_sampled += u64::from(is_sample);
                let in_part = point.leaves_a_disk_in_part(&choice);
                self.report.images_disk_in_part += u64::from(in_part);
                if let Err(failure) = self.one_image(&point, &choice, &history, look) {
                    let (choice, failure) = self.shrunk(&point, choice, failure, &history, look);
                    let step = CrashStep::power_loss(life.tape, &point, &choice);
                    return Err(failure.with_step(step));
                }
            }
        }
        Ok(())
    }

    /// Whether a point of this life is left to chance, and not taken.
    fn is_left_out(&mut self, life: &Life<'_>) -> bool {
        let one_in = self.explorer.recoveries_one_in;
        one_in > 1 && !life.is_own && self.rng.below(one_in) != 0
    }

    /// Keeps more and more of what a failing crash lost, as long as it fails.
    fn shrunk(
        &mut self,
        point: &CrashPoint,
        mut choice: Vec<usize>,
        mut failure: Box<Failure>,
        history: &[Mark],
        look: Look,
    ) -> (Vec<usize>, Box<Failure>) {
        let newest: Vec<usize> = point.cells().iter().map(|cell| cell.newest()).collect();
        let mut left = if self.explorer.shrinks { SHRINKS_MAX } else { 0 };
        let mut together = newest.len();
        while together > 0 && left > 0 {
            let lost = (0..newest.len()).filter(|index| choice[*index] != newest[*index]);
            let lost: Vec<usize> = lost.collect();
            for kept in lost.chunks(together).take(left) {
                let mut milder = choice.clone();
                kept.iter().for_each(|index| milder[*index] = newest[*index]);
                left -= 1;
                if let Err(again) = self.one_image(point, &milder, history, look) {
                    (choice, failure) = (milder, again);
                }
            }
            together /= 2;
        }
        (choice, failure)
    }

    fn one_image(
        &mut self,
        point: &CrashPoint,
        choice: &[usize],
        history: &[Mark],
        Look { expected, depth, damage }: Look,
    ) -> Result<(), Box<Failure>> {
        self.report.images += 1;
        let harmed = if damage.is_some() { HARMED } else { 0 };
        let key = point.fingerprint(choice) ^ fingerprint_of(history) ^ harmed;
        let known = self.seen.get(&key).copied();
        let digest = match known {
            Some((digest, explored)) if explored >= depth => digest,
            _ => {
                self.report.images_distinct += u64::from(known.is_none());
                let root = (fingerprint_of(history), depth);
                let memo = self.memo.as_ref().filter(|_| damage.is_none());
                if let Some(digest) = memo.and_then(|memo| memo.find(root, point, choice)) {
                    self.report.images_alike += 1;
                    return compare(expected, digest);
                }
                let mut image = point.image(choice);
                if let Some(damage) = damage {
                    damage(&mut image, history);
                }
                self.boot(image, history, depth, key)?
            }
        };
        compare(expected, digest)
    }

    /// Recovers one image, and crashes that recovery.
    fn boot(
        &mut self,
        image: Image,
        history: &[Mark],
        depth: u32,
        key: u128,
    ) -> Result<u64, Box<Failure>> {
        let world = World::with_past(image, self.explorer.rules, history.to_vec());
        if self.memo.is_some() {
            world.log_reads();
        }
        let digest = self.recover(&world)?;
        self.seen.insert(key, (digest, depth));
        if let Some(memo) = &mut self.memo {
            let root = (fingerprint_of(history), depth);
            memo.insert(root, &world.start(), &world.take_reads(), digest);
        }
        if depth > 0 {
            let (start, tape) = (world.start(), world.tape());
            let life = Life {
                start: &start,
                tape: &tape,
                past: history,
                first: 0,
                expected: Some(digest),
                is_own: false,
            };
            self.report.nested += 1;
            self.power_losses(&life, depth - 1)?;
            self.kills(&life, depth - 1)?;
        }
        Ok(digest)
    }

    fn recover(&mut self, world: &World) -> Result<u64, Box<Failure>> {
        self.report.recoveries += 1;
        let result = guarded(|| self.scenario.recover(world));
        let tape = world.tape();
        result.map_err(|message| Failure::in_recovery(message, &tape))?;
        let marks = tape.marks_before(tape.len());
        let digest = marks.iter().rev().find_map(|mark| match mark {
            Mark::Recovered(digest) => Some(*digest),
            _ => None,
        });
        let digest = digest.unwrap_or(0);
        self.outcomes.insert(digest);
        Ok(digest)
    }

    /// Kills the process after each event that left something new behind, recovers from what is
    /// visible, and cuts the power during and after that.
    fn kills(&mut self, life: &Life<'_>, depth: u32) -> Result<(), Box<Failure>> {
        let (rules, tape) = (self.explorer.rules, life.tape);
        let from = if self.explorer.kills { life.first } else { tape.len() };
        for position in from + 1..=tape.len() {
            if !tape.entries()[position - 1].event.leaves_something_new() {
                continue;
            }
            if self.is_left_out(life) {
                self.report.points_left_out += 1;
                continue;
            }
            self.report.kills += 1;
            let world = World::killed(life.start, rules, tape, position, life.past.to_vec());
            let at_kill =
                |failure: Box<Failure>| failure.with_step(CrashStep::kill(tape, position));
            self.recover(&world).map_err(at_kill)?;
            let longer = world.tape();
            let next =
                Life { tape: &longer, first: position + 1, expected: None, is_own: false, ..*life };
            let deeper = depth.saturating_sub(1);
            self.power_losses(&next, deeper).map_err(at_kill)?;
            if depth > 0 {
                self.kills(&next, deeper).map_err(at_kill)?;
            }
        }
        Ok(())
    }
}

/// Whether an interrupted recovery found what it would have found uninterrupted.
fn compare(expected: Option<u64>, digest: u64) -> Result<(), Box<Failure>> {
    match expected {
        Some(expected) if expected != digest => Err(Failure::new(format!(
            "recovery found state {digest:#x}; when it was not interrupted it found {expected:#x}"
        ))),
        _ => Ok(()),
    }
}

/// Runs the scenario's code; a panic is a finding like any other.
pub(crate) fn guarded(call: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        Err(format!("panicked: {}", text.unwrap_or_else(|| "with no message".to_owned())))
    })
}

fn fingerprint_of(history: &[Mark]) -> u128 {
    let mut sum = (1_u64, 2_u64);
    for mark in history {
        let (tag, value) = match mark {
            Mark::Called(label) => (3, *label),
            Mark::Returned(label) => (4, *label),
            Mark::Recovered(digest) => (5, *digest),
            Mark::PowerLost => (6, 0),
            Mark::Killed => (7, 0),
        };
        sum.0 = mix(sum.0 ^ mix(value) ^ tag);
        sum.1 = mix(sum.1.wrapping_add(mix(value.rotate_left(17) ^ tag)));
    }
    u128::from(sum.0) << 64 | u128::from(sum.1)
}
