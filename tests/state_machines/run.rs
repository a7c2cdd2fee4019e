//! How often a property is tried, where its failures are kept, and what a failure says.

use core::fmt::Debug;

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{
    Config, FileFailurePersistence, RngSeed, TestCaseError, TestError, TestRunner,
};

/// The seed of the cases where nobody says another: a run can be had again. `PROPTEST_RNG_SEED`
/// says another.
const SEED: u64 = 1;

/// How many cases a property has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    /// Where nobody says.
    pub(crate) cases: u32,
    /// How many of `PROPTEST_CASES` are one case here: one that is as long as many.
    pub(crate) share: u32,
    /// The source of the property. Seeds of cases that failed are kept beside it, and come first.
    pub(crate) source: &'static str,
}

impl Sample {
    fn config(&self) -> Config {
        // It has read the environment.
        let config = Config::default();
        let is_said = std::env::var_os("PROPTEST_CASES").is_some();
        let cases = if is_said { config.cases.div_ceil(self.share) } else { self.cases };
        let rng_seed = match config.rng_seed {
            RngSeed::Random => RngSeed::Fixed(SEED),
            said => said,
        };
        Config {
            cases,
            rng_seed,
            source_file: Some(self.source),
            failure_persistence: Some(Box::new(FileFailurePersistence::WithSource(
                "proptest-regressions",
            ))),
            max_shrink_time: 60_000,
            ..config
        }
    }
}

/// Tries a property.
///
/// # Panics
/// With the smallest case that could be found for which it does not hold.
pub(crate) fn holds<S: Strategy>(
    sample: &Sample,
    strategy: &S,
    property: impl Fn(&S::Value) -> Result<(), String>,
) where
    S::Value: Debug,
{
    let mut runner = TestRunner::new(sample.config());
    let tried = runner.run(strategy, |case| property(&case).map_err(TestCaseError::fail));
    if let Err(failure) = tried {
        panic!("{failure}");
    }
}

/// The smallest case that could be found, with a number of tries to make it smaller, for which a
/// property does not hold; `None` when it held each time. Nothing is kept of it.
pub(crate) fn counterexample<S: Strategy>(
    cases: u32,
    shrinks: u32,
    strategy: &S,
    property: impl Fn(&S::Value) -> Result<(), String>,
) -> Option<S::Value> {
    let config = Config {
        cases,
        rng_seed: RngSeed::Fixed(SEED),
        failure_persistence: None,
        max_shrink_iters: shrinks,
        ..Config::default()
    };
    let mut runner = TestRunner::new(config);
    match runner.run(strategy, |case| property(&case).map_err(TestCaseError::fail)) {
        Ok(()) => None,
        Err(TestError::Fail(_, case)) => Some(case),
        Err(TestError::Abort(reason)) => panic!("{reason}"),
    }
}

/// The first cases of a strategy.
pub(crate) fn cases<S: Strategy>(strategy: &S, count: usize) -> Vec<S::Value> {
    let config = Config { rng_seed: RngSeed::Fixed(SEED), ..Config::default() };
    let mut runner = TestRunner::new(config);
    let mut case = || strategy.new_tree(&mut runner).expect("nothing is rejected").current();
    (0..count).map(|_| case()).collect()
}
