//! The gates that the laboratory itself runs beside its programs, made of counts.

use super::Gate;

/// How much of what was to be done was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    pub required: u64,
    pub reached: u64,
}

/// What a policy has to stand without a crash.
pub fn of_harm(of: &str, bits: Count, faults: Count, full: Count, wrong: u64) -> Vec<Gate> {
    let at_least = |name, count: Count| Gate::at_least(name, of, count.required, count.reached);
    vec![
        at_least("bits turned, one at a time", bits),
        at_least("operations failed, once and for ever", faults),
        at_least("lanes filled, of each length", full),
        Gate::at_most("harm that was not allowed for", of, 0, wrong),
    ]
}

/// What became of the mutants of known bugs, and of these bugs.
pub fn of_known_bugs(mutants: Count, wrong: u64, bugs: Count, note: &str) -> Vec<Gate> {
    let killed =
        Gate::at_least("known bugs: mutants killed", "", mutants.required, mutants.reached);
    let bugs = Gate::at_least("known bugs: accounted for", "", bugs.required, bugs.reached);
    vec![
        killed,
        Gate { note: note.to_owned(), ..bugs },
        Gate::at_most("known bugs: wrong without a mutant", "", 0, wrong),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::{exit_code, shortfalls, table};
    use super::*;

    const GOOD: Count = Count { required: 8, reached: 8 };
    const SHORT: Count = Count { required: 8, reached: 7 };

    #[test]
    fn what_is_missing_or_wrong_fails() {
        let good = [of_harm("a", GOOD, GOOD, GOOD, 0), of_known_bugs(GOOD, 0, GOOD, "")].concat();
        assert_eq!((exit_code(&good), shortfalls(&good).len()), (0, 0));
        for (gates, name) in [
            (of_harm("a", SHORT, GOOD, GOOD, 0), "bits turned"),
            (of_harm("a", GOOD, SHORT, GOOD, 0), "operations failed"),
            (of_harm("a", GOOD, GOOD, SHORT, 0), "lanes filled"),
            (of_harm("a", GOOD, GOOD, GOOD, 1), "harm"),
            (of_known_bugs(SHORT, 0, GOOD, ""), "mutants killed"),
            (of_known_bugs(GOOD, 1, GOOD, ""), "wrong"),
            (of_known_bugs(GOOD, 0, SHORT, ""), "accounted"),
        ] {
            let lines = shortfalls(&gates);
            assert!(exit_code(&gates) != 0 && lines.len() == 1, "{lines:?}");
            assert!(lines[0].contains(name), "{lines:?}");
        }
    }

    #[test]
    fn the_table_says_how_bugs_are_accounted_for() {
        let table = table(&of_known_bugs(GOOD, 0, GOOD, "1 is not here"));
        assert!(
            table.lines().nth(2).is_some_and(|line| line.ends_with("1 is not here")),
            "{table}"
        );
    }
}
