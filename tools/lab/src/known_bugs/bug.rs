//! A known bug.

use crate::known_bugs::killing::Mutant;

/// One of the bugs.
pub struct Bug {
    pub number: usize,
    /// Where it was.
    pub source: &'static str,
    /// What it was.
    pub what: &'static str,
    pub here: Here,
}

/// What becomes of it here.
pub enum Here {
    Mutants(Vec<Mutant>),
    /// It takes processes: the tests that fail without what keeps it out, each with its file, and
    /// what was taken away to see that.
    Tested {
        by: &'static [(&'static str, &'static str)],
        without: &'static str,
    },
    /// There is nothing here that could have it.
    Absent(&'static str),
}
