//! One call for the author of a policy.

use core::fmt;

use journal_core::Protocol;
use journal_core::policy::Policy;

use crate::media::model::Model;
use crate::media::rng::Rng;
use crate::media::world::World;
use crate::power::explore::{Explorer, Scenario as _};
use crate::power::report::{Failure, Report};
use crate::suite::policy::laws::{BrokenLaw, Tried, laws};
use crate::suite::program::plan::{MODELS, Plan, going_on};
use crate::suite::program::program::Program;

/// The protocols that programs are run with, and the models that they are crashed under then. What
/// a tail word adds is a word, which the weaker model tears no less.
const RUNS: [(Protocol, &[Model]); 2] =
    [(Protocol::OneFence, &MODELS), (Protocol::TailPointer, &[Model::Torn8])];

/// How much is tried. Counts, and no times: the same budget tries the same again, so that a failure
/// comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    seed: u64,
    cases: u64,
    images: u64,
    programs_one_in: u32,
    longer: [u32; 2],
}

impl Budget {
    /// Some seconds for a small policy, under an optimised test profile.
    #[must_use]
    pub const fn new() -> Self {
        Self { seed: 1, cases: 4_000, images: 12, programs_one_in: 1, longer: [400, 200] }
    }

    /// The seed of everything that is left to chance. 1.
    #[must_use]
    pub const fn seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    /// How many cases the laws of pure functions are tried in. 4,000.
    #[must_use]
    pub const fn cases(self, cases: u64) -> Self {
        Self { cases, ..self }
    }

    /// How many images of a crash point are recovered. A point with at most `images` of them has
    /// all recovered. Any other has `images` random ones recovered, beside the regular ones. 12.
    #[must_use]
    pub const fn images(self, images: u64) -> Self {
        Self { images, ..self }
    }

    /// Of the programs of one step, one in `count` is run under each protocol and model. The next
    /// model runs others of them. 1.
    #[must_use]
    pub const fn programs_one_in(self, count: u32) -> Self {
        Self { programs_one_in: if count == 0 { 1 } else { count }, ..self }
    }

    /// How many programs of two steps and of three are drawn by chance, for each protocol and
    /// model. 400 and 200.
    #[must_use]
    pub const fn longer(self, of_two: u32, of_three: u32) -> Self {
        Self { longer: [of_two, of_three], ..self }
    }
}

impl Default for Budget {
    fn default() -> Self {
        Self::new()
    }
}

/// What was tried, and held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Summary {
    /// Of the laws of pure functions.
    pub tried: Tried,
    /// Programs of one step, of two and of three, over all protocols, models and starting states.
    pub programs: [u64; 3],
    /// Programs whose recovery was crashed in turn.
    pub nested: u64,
    /// Of all these, those with a second fence, for a tail word.
    pub tail_words: u64,
    /// Of all of them together.
    pub report: Report,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tried { changes, encoded, foreign, repeated } = self.tried;
        writeln!(
            f,
            "laws: {changes} changes placed, {encoded} of them encoded; {repeated} payloads \
             repeated, {foreign} foreign ones applied"
        )?;
        let [one, two, three] = self.programs;
        let Self { nested, tail_words, .. } = self;
        writeln!(
            f,
            "crashes: {one} programs of one step, {two} of two, {three} of three; {nested} with \
             crashes inside recovery; {tail_words} of them with tail words"
        )?;
        write!(f, "{}", self.report)
    }
}

/// Why a policy does not hold.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum PolicyFailure {
    /// It breaks a law of pure functions.
    Law(BrokenLaw),
    /// A starting state cannot even be made with it.
    Start(String),
    /// A journal with it did not survive a crash.
    Crash {
        /// Which program, and from which state.
        program: String,
        /// The crash, and what was found after it.
        failure: Box<Failure>,
        /// The budget's.
        seed: u64,
    },
}

impl core::error::Error for PolicyFailure {}

impl fmt::Display for PolicyFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Law(broken) => write!(f, "{broken}"),
            Self::Start(message) => write!(f, "a starting state cannot be made: {message}"),
            Self::Crash { program, failure, seed } => {
                writeln!(f, "a journal with this policy does not survive a crash")?;
                writeln!(f, "{program}")?;
                for crash in failure.crashes() {
                    writeln!(f, "then {crash}")?;
                }
                writeln!(f, "{}", failure.message)?;
                writeln!(f, "to see it again: the same budget, with the seed {seed}")?;
                write!(f, "\nall of it:\n{failure}")
            }
        }
    }
}

/// Tries whether a policy keeps what [`journal_core::policy`] asks of it, and whether journals with
/// it survive crashes.
///
/// First come the laws of pure functions, with random images and changes. Then come programs on
/// tiny journals, under each of [`MODELS`], on one lane and on two:
///
/// - from every starting state, all programs of one step, or
///   [some of them](Budget::programs_one_in),
///   with kills and with more steps after recovery;
/// - some programs of two steps and of three;
/// - programs of which the recovery is crashed in turn.
///
/// Under the weakest of the models all these programs run once more with [`Protocol::TailPointer`].
///
/// ```no_run
/// # fn example(policy: impl journal_core::Policy + Clone + core::fmt::Debug) {
/// use sim_disk::suite::{Budget, check_policy};
///
/// let summary = check_policy(&policy, &Budget::new()).unwrap_or_else(|broken| panic!("{broken}"));
/// println!("{summary}");
/// # }
/// ```
///
/// # Errors
/// The first thing that does not hold, with what it takes to see why.
pub fn check_policy<P: Policy + Clone + fmt::Debug>(
    policy: &P,
    budget: &Budget,
) -> Result<Summary, Box<PolicyFailure>> {
    let tried = laws(policy, budget.seed, budget.cases);
    let tried = tried.map_err(|broken| Box::new(PolicyFailure::Law(*broken)))?;
    let mut summary = Summary { tried, ..Summary::default() };
    let mut run = 0;
    for (protocol, models) in RUNS {
        let plan = Plan::of_protocol(policy.clone(), protocol);
        let plan = plan.map_err(|message| Box::new(PolicyFailure::Start(message)))?;
        for model in models.iter().copied() {
            PolicyCheck { plan: &plan, budget, run, model, summary: &mut summary }.all()?;
            run += 1;
        }
    }
    Ok(summary)
}

/// The programs of a policy, all explored under one model of the medium.
struct PolicyCheck<'a, P> {
    plan: &'a Plan<P>,
    budget: &'a Budget,
    /// How many protocols and models were tried before.
    run: usize,
    model: Model,
    summary: &'a mut Summary,
}

impl<P: Policy + Clone + fmt::Debug> PolicyCheck<'_, P> {
    fn all(&mut self) -> Result<(), Box<PolicyFailure>> {
        for (index, program) in self.plan.nested().iter().enumerate() {
            let explorer = self.explorer(index).with_depth(1);
            self.explore(&explorer, program, "an empty journal")?;
            self.summary.nested += 1;
            self.note(program);
        }
        let one_in = self.budget.programs_one_in as usize;
        for index in (self.run % one_in..self.plan.count(1)).step_by(one_in) {
            self.one(index, 1)?;
        }
        for (length, count) in (2..).zip(self.budget.longer) {
            let all = self.plan.count(length);
            let mut rng = Rng::new(self.budget.seed ^ length as u64);
            for _ in 0..count {
                self.one(rng.index(all), length)?;
            }
        }
        Ok(())
    }

    fn explorer(&self, index: usize) -> Explorer {
        let images = self.budget.images;
        Explorer::new(self.model)
            .with_seed(self.budget.seed ^ index as u64)
            .with_images_per_point_max(images)
            .with_random_per_point(u32::try_from(images).unwrap_or(u32::MAX))
    }

    /// One program by its number. Of a longer one only the crashes in its last step: the others
    /// belong to shorter ones.
    fn one(&mut self, index: usize, length: usize) -> Result<(), Box<PolicyFailure>> {
        let numbered = self.plan.numbered(index, length);
        let (program, start) = (numbered.program, numbered.start);
        let explorer = self.explorer(index);
        if length == 1 {
            self.explore(&explorer.clone().with_kills(), &program, start)?;
            self.explore(&explorer, &going_on(&program), start)?;
        } else {
            let world = World::boot(numbered.prefix.start(), self.model);
            // What goes wrong in the shorter program goes wrong in this one as well.
            let _shorter = numbered.prefix.program(&world);
            let from = world.tape().len();
            self.explore(&explorer.with_points_from(from), &program, start)?;
        }
        self.summary.programs[length - 1] += 1;
        self.note(&program);
        Ok(())
    }

    fn note(&mut self, program: &Program<P>) {
        self.summary.tail_words += u64::from(program.protocol == Protocol::TailPointer);
    }

    fn explore(
        &mut self,
        explorer: &Explorer,
        program: &Program<P>,
        start: &str,
    ) -> Result<(), Box<PolicyFailure>> {
        match explorer.explore(program) {
            Ok(report) => self.summary.report += report,
            Err(failure) => {
                let program = describe(program, start);
                let seed = self.budget.seed;
                return Err(Box::new(PolicyFailure::Crash { program, failure, seed }));
            }
        }
        Ok(())
    }
}

/// A program as a person would tell it.
fn describe<P: fmt::Debug>(program: &Program<P>, start: &str) -> String {
    let lanes =
        if program.lanes == 1 { "one lane".into() } else { format!("{} lanes", program.lanes) };
    let mut text = format!("the program, on {lanes}, beginning with {start}:");
    if program.protocol == Protocol::TailPointer {
        text += "\n  (each commit takes a second fence, for the lane's tail word)";
    }
    for (number, step) in (1..).zip(&program.steps) {
        text += &format!("\n  {number}. {step}");
    }
    for step in &program.steps_after {
        text += &format!("\n  after a recovery: {step}");
    }
    text
}
