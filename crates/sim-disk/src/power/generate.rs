//! Seeded generation of test cases, with shrinking.
//!
//! A case is made by asking a [`Source`] for numbers. The source writes down what it gave, so that
//! a failing case can be shrunk without knowing what it is. Choices are deleted, zeroed and
//! lowered, and the case is made again from what is left, as long as it still fails. A case shrinks
//! well when zero means simple and when parts of it come from neighbouring choices.

use crate::media::rng::Rng;

/// Where a generated case gets its choices from.
#[derive(Clone, Debug)]
pub struct Source {
    rng: Option<Rng>,
    choices: Vec<u64>,
    next: usize,
}

impl Source {
    /// Random choices from this seed.
    #[must_use]
    pub const fn random(seed: u64) -> Self {
        Self { rng: Some(Rng::new(seed)), choices: Vec::new(), next: 0 }
    }

    /// The choices of an earlier run, and zeroes behind them.
    #[must_use]
    pub const fn replay(choices: Vec<u64>) -> Self {
        Self { rng: None, choices, next: 0 }
    }

    /// A number below `limit` (zero when `limit` is zero).
    pub fn below(&mut self, limit: u64) -> u64 {
        let given = match (&mut self.rng, self.choices.get(self.next)) {
            (Some(rng), _) => {
                let choice = rng.below(limit);
                self.choices.push(choice);
                choice
            }
            (None, Some(choice)) => *choice,
            (None, None) => 0,
        };
        self.next += 1;
        // A shrunk sequence may give a choice to another question than the one it was made for.
        given.min(limit.saturating_sub(1))
    }

    /// An index below `len` (zero when `len` is zero).
    pub fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).unwrap_or_default()
    }

    /// One of these.
    ///
    /// # Panics
    /// When there is none.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.index(from.len())]
    }

    /// True with a chance of `numerator` in `denominator`; false is the simple answer.
    pub fn chance(&mut self, numerator: u64, denominator: u64) -> bool {
        denominator - 1 - self.below(denominator) < numerator
    }

    /// Up to `max` elements, made one by one.
    pub fn list<T>(&mut self, max: usize, mut make: impl FnMut(&mut Self) -> T) -> Vec<T> {
        let mut list = Vec::new();
        while list.len() < max && self.chance(7, 8) {
            list.push(make(self));
        }
        list
    }

    /// The choices given so far.
    #[must_use]
    pub fn into_choices(mut self) -> Vec<u64> {
        self.choices.truncate(self.next);
        self.choices
    }
}

/// A case that fails, as small as could be found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counterexample {
    /// The seed of the case as it was found.
    pub seed: u64,
    /// The choices of the shrunk case, for [`Source::replay`].
    pub choices: Vec<u64>,
    /// What the shrunk case's check said.
    pub message: String,
    /// How many cases shrinking ran.
    pub shrinks: u32,
}

impl core::fmt::Display for Counterexample {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        writeln!(f, "{}", self.message)?;
        write!(
            f,
            "found with seed {}, shrunk in {} runs to the choices {:?}",
            self.seed, self.shrinks, self.choices
        )
    }
}

impl core::error::Error for Counterexample {}

/// Checks `cases` generated cases, from `seed` on. The first that fails is shrunk.
///
/// # Errors
/// The smallest failing case found.
pub fn check(
    seed: u64,
    cases: u64,
    check: impl Fn(&mut Source) -> Result<(), String>,
) -> Result<(), Counterexample> {
    for seed in (seed..).take(usize::try_from(cases).unwrap_or(usize::MAX)) {
        let mut source = Source::random(seed);
        if let Err(message) = check(&mut source) {
            let found =
                Counterexample { seed, choices: source.into_choices(), message, shrinks: 0 };
            return Err(shrink(found, &check));
        }
    }
    Ok(())
}

/// Runs that shrinking may take.
const SHRINKS_MAX: u32 = 2_000;

fn shrink(
    mut best: Counterexample,
    check: &impl Fn(&mut Source) -> Result<(), String>,
) -> Counterexample {
    loop {
        let before = best.choices.clone();
        // Long runs first: whole operations go before their parts.
        for length in [32, 8, 4, 3, 2, 1] {
            let mut at = best.choices.len();
            while at >= length {
                let mut fewer = best.choices.clone();
                fewer.drain(at - length..at);
                let shorter = attempt(&mut best, fewer, check);
                at = at.min(best.choices.len()) - usize::from(!shorter).min(at);
            }
        }
        for at in 0..best.choices.len() {
            lower(&mut best, at, check);
        }
        if best.choices == before || best.shrinks >= SHRINKS_MAX {
            return best;
        }
    }
}

/// Lowers one choice as far as the case still fails: zero at once, else by halves.
fn lower(best: &mut Counterexample, at: usize, check: &impl Fn(&mut Source) -> Result<(), String>) {
    let mut low = 0;
    while let Some(high) = best.choices.get(at).copied().filter(|high| low < *high) {
        let mut lower = best.choices.clone();
        lower[at] = if low == 0 { 0 } else { low + (high - low) / 2 };
        let tried = lower[at];
        if !attempt(best, lower, check) {
            low = tried + 1;
        }
    }
}

/// Takes `choices` as the new best when the case made from them fails.
fn attempt(
    best: &mut Counterexample,
    choices: Vec<u64>,
    check: &impl Fn(&mut Source) -> Result<(), String>,
) -> bool {
    if best.shrinks >= SHRINKS_MAX {
        return false;
    }
    best.shrinks += 1;
    let mut source = Source::replay(choices);
    match check(&mut source) {
        Ok(()) => false,
        Err(message) => {
            best.message = message;
            best.choices = source.into_choices();
            true
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_true_property_holds() {
        let below = |source: &mut Source| {
            let limit = source.below(100) + 1;
            if source.below(limit) < limit { Ok(()) } else { Err("not below".to_owned()) }
        };
        assert_eq!(check(1, 1_000, below), Ok(()));
    }

    #[test]
    fn a_failing_list_shrinks_to_its_core() {
        let no_large_sum = |source: &mut Source| {
            let list = source.list(20, |source| source.below(1_000));
            let sum: u64 = list.iter().sum();
            if sum < 700 { Ok(()) } else { Err(format!("{list:?}")) }
        };
        let found = check(1, 1_000, no_large_sum).expect_err("some list is large");
        assert_eq!(found.message, "[700]", "{found}");
        let mut again = Source::replay(found.choices.clone());
        assert_eq!(no_large_sum(&mut again), Err("[700]".to_owned()));
    }

    #[test]
    fn a_seed_names_one_case() {
        let make = || Source::random(42).list(9, |source| source.below(77));
        assert_eq!(make(), make());
    }
}
