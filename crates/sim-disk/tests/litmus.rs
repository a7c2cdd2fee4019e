//! Litmus tests: small programs of which one knows from the manuals what a power loss may leave.
//!
//! Each names everything that must be possible, and nothing else may be. Each also names deliberate
//! defects of the simulator that it has to notice, and there is no defect that none notices: so the
//! tests are known to be able to fail.

mod table;

use std::collections::BTreeSet;

use sim_disk::{Defect, Model, Rules};
use table::{ALL, Litmus, Outcome};

const LITMUS_MIN: usize = 45;

/// What is wrong with the outcomes of a litmus under these rules.
fn complaints(litmus: &Litmus, rules: Rules) -> Vec<String> {
    let produced = litmus.outcomes(rules);
    let allowed: BTreeSet<Outcome> = litmus.allowed.iter().map(|o| o.to_vec()).collect();
    let missing = allowed.difference(&produced).map(|outcome| format!("never left: {outcome:?}"));
    let added = produced.difference(&allowed).map(|outcome| format!("wrongly left: {outcome:?}"));
    missing.chain(added).collect()
}

fn notices(litmus: &Litmus, defect: Defect) -> bool {
    let mut models = litmus.models.iter();
    models.any(|model| !complaints(litmus, Rules::with_defect(*model, defect)).is_empty())
}

fn every_litmus() -> impl Iterator<Item = &'static Litmus> {
    ALL.iter().flat_map(|group| group.iter())
}

#[test]
fn exactly_the_allowed_outcomes_are_left() {
    let mut failures = Vec::new();
    for litmus in every_litmus() {
        for model in litmus.models {
            let complaints = complaints(litmus, Rules::new(*model));
            if !complaints.is_empty() {
                let Litmus { name, why, sees, .. } = litmus;
                failures.push(format!("{name} ({why}), {model}, of {sees:?}: {complaints:#?}"));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn every_litmus_notices_the_defects_it_names() {
    let mut failures = Vec::new();
    for litmus in every_litmus() {
        let noticed: Vec<Defect> =
            Defect::ALL.into_iter().filter(|defect| notices(litmus, *defect)).collect();
        if litmus.kills.is_empty() || !litmus.kills.iter().all(|defect| noticed.contains(defect)) {
            failures.push(format!("{}: {:?} of {noticed:?}", litmus.name, litmus.kills));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn every_defect_is_noticed_by_a_litmus_that_names_it() {
    // Files have promises of their own, in `tests/files`.
    for defect in Defect::ALL.into_iter().filter(|defect| !Defect::OF_FILES.contains(defect)) {
        assert!(every_litmus().any(|litmus| litmus.kills.contains(&defect)), "{defect:?}");
    }
}

#[test]
fn the_table_is_in_order() {
    let names: BTreeSet<&str> = every_litmus().map(|litmus| litmus.name).collect();
    assert_eq!(names.len(), every_litmus().count(), "two litmus tests of one name");
    assert!(names.len() >= LITMUS_MIN);
    for model in Model::ALL {
        assert!(every_litmus().any(|litmus| litmus.models.contains(&model)), "{model}");
    }
    for litmus in every_litmus() {
        assert!(!litmus.why.is_empty(), "{} gives no reason", litmus.name);
        let outcomes = litmus.allowed.iter().chain(litmus.forbidden);
        for outcome in outcomes.clone() {
            assert_eq!(outcome.len(), litmus.sees.len(), "{}", litmus.name);
        }
        let distinct: BTreeSet<_> = outcomes.clone().collect();
        assert_eq!(distinct.len(), outcomes.count(), "{} names an outcome twice", litmus.name);
    }
}
