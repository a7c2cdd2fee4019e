//! Known bugs: 52 that other systems had, and what keeps each of them out of this one.
//!
//! A known bug is made here, as a *mutant*: a persist site that is got wrong, a rule of
//! the protocol that is not kept, or a port that keeps less than it promises. Each mutant has to be
//! killed: programs that survive every crash without it do not survive with it. Where a bug has no
//! place here, its entry says why; where only processes can have it, its entry names the tests that
//! fail without what keeps it out.
//!
//! The bugs were read in the sources and threads that are named; the words are ours.

mod bug;
pub mod killing;
pub mod make;
pub mod media;
pub mod planted;
pub mod ports;
pub mod primitives;
pub mod protocol;
pub mod recovery;

use core::fmt::{self, Write as _};

pub use bug::{Bug, Here};
pub use killing::{Mutant, Tried};

/// How many bugs there are.
pub const BUGS: usize = 52;

/// All of them, in order.
pub fn bugs() -> Vec<Bug> {
    let parts = [primitives::bugs(), protocol::bugs(), recovery::bugs(), media::bugs()];
    let mut all: Vec<Bug> = parts.into_iter().flatten().collect();
    all.sort_by_key(|bug| bug.number);
    all
}

/// What became of a bug here.
#[derive(Clone, Debug)]
pub enum Fate {
    Tried(Vec<Tried>),
    Tested(&'static [(&'static str, &'static str)], &'static str),
    Absent(&'static str),
}

/// A bug, and what became of it.
#[derive(Clone, Debug)]
pub struct Entry {
    pub number: usize,
    pub source: &'static str,
    pub what: &'static str,
    pub fate: Fate,
}

/// Tries every mutant.
pub fn try_all() -> Vec<Entry> {
    let entry = |bug: Bug| {
        let fate = match bug.here {
            Here::Mutants(mutants) => Fate::Tried(mutants.iter().map(Mutant::try_it).collect()),
            Here::Tested { by, without } => Fate::Tested(by, without),
            Here::Absent(why) => Fate::Absent(why),
        };
        Entry { number: bug.number, source: bug.source, what: bug.what, fate }
    };
    bugs().into_iter().map(entry).collect()
}

/// What all of it comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Score {
    pub mutants: usize,
    pub killed: usize,
    /// Mutants of which something is wrong without them.
    pub wrong: usize,
    /// Bugs with a mutant, with tests of processes, and with no place here.
    pub made: usize,
    pub tested: usize,
    pub absent: usize,
}

impl Score {
    pub fn of(entries: &[Entry]) -> Self {
        let mut score = Self { mutants: 0, killed: 0, wrong: 0, made: 0, tested: 0, absent: 0 };
        for entry in entries {
            match &entry.fate {
                Fate::Tried(tried) => {
                    score.made += 1;
                    score.mutants += tried.len();
                    score.killed += tried.iter().filter(|tried| tried.is_killed()).count();
                    score.wrong += tried.iter().filter(|tried| tried.wrong.is_some()).count();
                }
                Fate::Tested(..) => score.tested += 1,
                Fate::Absent(_) => score.absent += 1,
            }
        }
        score
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:>2}  {}: {}", self.number, self.source, self.what)?;
        match &self.fate {
            Fate::Tried(all) => {
                for tried in all {
                    writeln!(f, "    {tried}")?;
                }
            }
            Fate::Tested(by, without) => {
                for (file, name) in *by {
                    writeln!(f, "    {file}: {name}")?;
                }
                writeln!(f, "    seen to fail without {without}")?;
            }
            Fate::Absent(why) => writeln!(f, "    not here: {why}")?,
        }
        Ok(())
    }
}

/// The table.
pub fn table(entries: &[Entry]) -> String {
    let mut text = String::new();
    for entry in entries {
        write!(text, "{entry}").expect("room in memory");
    }
    text
}
