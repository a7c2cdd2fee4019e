//! The closed form against machines that know nothing of it, on random programs: both must allow
//! exactly the same states.
//!
//! A comparison that could not fail would prove nothing, so the same programs have to expose every
//! deliberate defect of the memory models. Two remarks on which programs expose what:
//!
//! - a fence that completes every thread's flushes shows only in single schedules: of a whole
//!   program, some other schedule nearly always leaves the missing states. The same rule is
//!   therefore also the subject of directed litmus tests;
//! - defects of disks never show here, since these programs use memory only; litmus tests have
//!   them.

mod machine;
mod support;

use machine::{Rule, outcomes};
use sim_disk::{CrashPoints, Defect, Event, Model, Rng, Rules, Tape, Thread};
use support::program::{Mix, Program, States, blank, report, shrink, tape};
use support::{closed, replay, schedules};

/// Programs of one thread.
const ONE_THREAD: u64 = 200_000;
/// Programs of two threads, all schedules of each; the same number again with parts of words.
const TWO_THREADS: u64 = 20_000;
/// Single schedules of two threads.
const SCHEDULES: u64 = 200_000;
/// Single schedules under each of the other models.
const OTHER_MODELS: u64 = 30_000;
/// Once in this number of programs, images are built whole instead of from cells.
const BY_IMAGE_EVERY: u64 = 16;
/// Programs within which a defect has to show.
const DEFECT: u64 = 20_000;

const SCHEDULE_MIX: Mix =
    Mix { threads: 2, ops_max: 9, fence_failed: 4, killed: 3, ..Mix::ONE_THREAD };
/// Streams are of whole words here. Were they to overlap in part, bytes of one call could come to
/// lie before and others after another thread's store, and no schedule of calls says that.
const TWO_THREADS_MIX: Mix = Mix { threads: 2, ops_max: 6, mark: 0, partial: 0, ..Mix::ONE_THREAD };
const TWO_THREADS_PARTIAL_MIX: Mix = Mix { stream: 0, partial: 40, ..TWO_THREADS_MIX };
/// There is no strong flush, and nobody says in which order others notice a mark.
const ARM_MIX: Mix = Mix { strong: 0, mark: 0, order_stores: 14, ..Mix::ONE_THREAD };

/// How a set of programs is judged by a reference and by the closed form.
struct Comparison {
    mix: Mix,
    model: Model,
    reference: fn(&Program) -> States,
    closed: fn(&Program, Rules) -> States,
}

impl Comparison {
    const ONE_THREAD: Self = Self {
        mix: Mix::ONE_THREAD,
        model: Model::X86Line,
        reference: |program| outcomes(program, Rule::X86),
        closed: of_one_schedule,
    };
    const TWO_THREADS: Self = Self {
        mix: TWO_THREADS_MIX,
        closed: |program, rules| schedules::states(program, rules).0,
        ..Self::ONE_THREAD
    };
    const TWO_THREADS_PARTIAL: Self = Self { mix: TWO_THREADS_PARTIAL_MIX, ..Self::TWO_THREADS };
    const SCHEDULES: Self = Self {
        mix: SCHEDULE_MIX,
        reference: |program| outcomes(program, Rule::Schedule),
        ..Self::ONE_THREAD
    };
    const TORN_WORDS: Self = Self {
        model: Model::Torn8,
        reference: |program| replay::torn_words(program),
        ..Self::SCHEDULES
    };
    const DURABLE_CACHES: Self = Self {
        model: Model::Eadr,
        reference: |program| replay::durable_caches(program),
        ..Self::SCHEDULES
    };
    const ARM: Self = Self {
        mix: ARM_MIX,
        model: Model::Arm,
        reference: |program| outcomes(program, Rule::Arm),
        closed: of_one_schedule,
    };

    fn program(&self, seed: u64) -> Program {
        self.mix.program(&mut Rng::new(seed))
    }

    fn differs(&self, program: &Program, rules: Rules) -> bool {
        (self.reference)(program) != (self.closed)(program, rules)
    }

    /// Demands the same states of the programs of seeds below `count`.
    fn run(&self, count: u64) {
        let rules = Rules::new(self.model);
        for seed in 0..count {
            let program = self.program(seed);
            if self.differs(&program, rules) {
                let program = shrink(program, |program| self.differs(program, rules));
                let expected = (self.reference)(&program);
                let found = (self.closed)(&program, rules);
                panic!("{}", report(seed, &program, &expected, &found));
            }
        }
    }

    fn exposes(&self, defect: Defect) -> bool {
        let rules = Rules::with_defect(self.model, defect);
        (0..DEFECT).any(|seed| self.differs(&self.program(seed), rules))
    }
}

fn of_one_schedule(program: &Program, rules: Rules) -> States {
    closed::states(&tape(program), rules)
}

#[test]
fn one_thread_on_x86() {
    Comparison::ONE_THREAD.run(ONE_THREAD);
}

#[test]
fn two_threads_on_x86() {
    Comparison::TWO_THREADS.run(TWO_THREADS);
    Comparison::TWO_THREADS_PARTIAL.run(TWO_THREADS);
}

#[test]
fn single_schedules_on_x86() {
    Comparison::SCHEDULES.run(SCHEDULES);
}

#[test]
fn torn_words() {
    Comparison::TORN_WORDS.run(OTHER_MODELS);
}

#[test]
fn durable_caches() {
    Comparison::DURABLE_CACHES.run(OTHER_MODELS);
}

#[test]
fn one_thread_on_arm() {
    Comparison::ARM.run(OTHER_MODELS);
}

/// Images made whole are the ones that cells describe.
#[test]
fn images_are_made_of_cells() {
    for model in Model::ALL {
        for seed in (0..SCHEDULES).step_by(BY_IMAGE_EVERY as usize) {
            let tape = tape(&Comparison::SCHEDULES.program(seed));
            let mut by_image = States::default();
            closed::add_states_by_image(&tape, model.into(), &mut by_image);
            assert_eq!(by_image, closed::states(&tape, model.into()), "seed {seed}");
        }
    }
}

#[test]
fn defects_show() {
    let in_one_thread = [
        Defect::WeakFlushIsStrong,
        Defect::StrongFlushIsWeak,
        Defect::FlushCoversLaterStores,
        Defect::FenceForgetsStreams,
        Defect::StreamIsDurable,
        Defect::NoOrderInsideLine,
        Defect::SixteenBytesAtomic,
        Defect::CallsAreAtomic,
        Defect::OnlyOldestAndNewest,
        Defect::DirtyLinesAreLost,
        Defect::ExchangeIsNoFence,
        Defect::ReturnIsNoCrashPoint,
    ];
    for defect in in_one_thread {
        assert!(Comparison::ONE_THREAD.exposes(defect), "{defect:?}");
    }
    let in_schedules =
        [Defect::FenceCompletesAllThreads, Defect::KillLosesCaches, Defect::KillIsAFence];
    for defect in in_schedules {
        assert!(Comparison::SCHEDULES.exposes(defect), "{defect:?}");
    }
    for defect in [Defect::BarrierOrdersNothing, Defect::StoresNeedNoBarrier] {
        assert!(Comparison::ARM.exposes(defect), "{defect:?}");
    }
    assert!(Comparison::DURABLE_CACHES.exposes(Defect::CachesAreLost));
}

/// A long run of stores to few words leaves every value possible, or says that it lists a part.
#[test]
fn long_runs_are_listed_or_declared() {
    const STORES: u64 = 40;
    let store = |value: u64| Event::Store { at: 0, bytes: value.to_le_bytes().into() };
    let stream = |value: u64| Event::Stream { at: 0, bytes: value.to_le_bytes().into() };
    for model in [Model::X86Line, Model::Torn8, Model::Arm] {
        for stored in [&store as &dyn Fn(u64) -> Event, &stream] {
            let mut tape = Tape::new();
            (1..=STORES).for_each(|value| tape.push(Thread(0), stored(value)));
            let point = CrashPoints::new(&blank(), &tape, model, 0).last().expect("the end");
            assert!(!point.has_sampled_cells());
            assert_eq!(point.image_count(), u128::from(STORES) + 1, "{model}");
            let newest = point.cells()[0].newest();
            assert_eq!(point.cells()[0].part(newest, 0), STORES.to_le_bytes());
        }
    }
    // Four contents of each of eight bytes: too many to list.
    let mut tape = Tape::new();
    for at in 0..8 {
        for value in 1..=3 {
            tape.push(Thread(0), Event::Stream { at, bytes: [value].into() });
        }
    }
    let point = CrashPoints::new(&blank(), &tape, Model::X86Line, 0).last().expect("the end");
    assert!(point.has_sampled_cells());
    assert!(point.choices(u64::MAX, 1, &mut Rng::new(0)).is_sample());
}
