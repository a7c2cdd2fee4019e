//! Known bugs of other systems, tried on this one.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "the table is for people")]

use std::collections::BTreeSet;
use std::path::Path;

use lab::known_bugs::{BUGS, Here, Score, bugs, table, try_all};

#[test]
fn every_mutant_is_killed_and_nothing_is_wrong_without_it() {
    let entries = try_all();
    let (text, score) = (table(&entries), Score::of(&entries));
    println!("{text}{score:?}");
    assert_eq!((score.killed, score.wrong), (score.mutants, 0), "\n{text}");
    assert!(score.mutants >= 59 && score.absent <= 1, "{score:?}");
}

#[test]
fn all_bugs_are_there_once() {
    let mut numbers: Vec<usize> = bugs().iter().map(|bug| bug.number).collect();
    numbers.sort_unstable();
    assert!(numbers.into_iter().eq(1..=BUGS));
}

#[test]
fn tests_that_are_named_are_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut named = BTreeSet::new();
    for bug in bugs() {
        let Here::Tested { by, without } = bug.here else { continue };
        assert!(!by.is_empty() && !without.is_empty(), "{}", bug.number);
        for (file, name) in by {
            let text = std::fs::read_to_string(root.join(file)).expect("a file of tests");
            assert!(text.contains(&format!("fn {name}(")), "{file} has no {name}");
            named.insert(*name);
        }
    }
    assert!(named.len() == 3, "{named:?}");
}
