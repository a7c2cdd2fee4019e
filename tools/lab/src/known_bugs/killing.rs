//! Trying a mutant: as the journal is its programs survive, and with the mutant one of them does
//! not.

use core::cell::Cell;
use core::fmt::{self, Write as _};

use sim_disk::{Explorer, Image, Mutator, Scenario, World};

/// A mutant, and the programs that notice it.
pub struct Mutant {
    /// Where, and what.
    pub name: String,
    pub explorer: Explorer,
    /// As the journal is.
    pub sane: Vec<Box<dyn Scenario>>,
    /// With the mutant.
    pub broken: Vec<Box<dyn Scenario>>,
    /// Counts what the mutant has changed, where it is one of a persist site.
    pub mutator: Option<Mutator>,
}

/// What became of a mutant.
#[derive(Clone, Debug)]
pub struct Tried {
    pub name: String,
    /// What is wrong without the mutant, as it should not be.
    pub wrong: Option<String>,
    /// What the mutant was killed by.
    pub killed_by: Option<String>,
    /// States that were recovered until then.
    pub states: u64,
}

/// Counts recoveries.
struct Counting<'a> {
    scenario: &'a dyn Scenario,
    recoveries: Cell<u64>,
}

impl Scenario for Counting<'_> {
    fn name(&self) -> String {
        self.scenario.name()
    }

    fn start(&self) -> Image {
        self.scenario.start()
    }

    fn program(&self, world: &World) -> Result<(), String> {
        self.scenario.program(world)
    }

    fn recover(&self, world: &World) -> Result<(), String> {
        self.recoveries.set(self.recoveries.get() + 1);
        self.scenario.recover(world)
    }
}

impl Mutant {
    pub fn try_it(&self) -> Tried {
        let wrong = self.sane.iter().find_map(|scenario| {
            let explored = self.explorer.explore(&**scenario);
            explored.err().map(|failure| failure.to_string())
        });
        let mut tried = Tried { name: self.name.clone(), wrong, killed_by: None, states: 0 };
        for scenario in &self.broken {
            let counting = Counting { scenario: &**scenario, recoveries: Cell::new(0) };
            let explored = self.explorer.explore(&counting);
            tried.states += counting.recoveries.get();
            let changed = self.mutator.as_ref().is_none_or(|mutator| mutator.fired() > 0);
            if let Some(failure) = explored.err().filter(|_| changed) {
                tried.killed_by = Some(failure.message);
                break;
            }
        }
        tried
    }
}

impl Tried {
    /// Noticed, and by nothing that is wrong anyway.
    pub const fn is_killed(&self) -> bool {
        self.wrong.is_none() && self.killed_by.is_some()
    }
}

impl fmt::Display for Tried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match (&self.wrong, &self.killed_by) {
            (Some(wrong), _) => format!("WRONG WITHOUT IT: {wrong}"),
            (None, None) => format!("SURVIVED {} states", self.states),
            (None, Some(by)) => format!("killed after {} states: {}", self.states, in_short(by)),
        };
        write!(f, "{:<44} {what}", self.name)
    }
}

/// The last line of a message, which is what it comes to.
fn in_short(message: &str) -> String {
    let line = message.lines().last().unwrap_or_default();
    let mut short = String::new();
    for word in line.split_whitespace() {
        if short.len() + word.len() > 60 {
            short.push_str(" ...");
            break;
        }
        let space = if short.is_empty() { "" } else { " " };
        write!(short, "{space}{word}").expect("room in memory");
    }
    short
}

#[cfg(test)]
mod tests {
    //! The trial is able to say no.

    use journal_core::Durability::{Deferred, Durable};
    use sim_disk::suite::{Edit, Step};

    use super::*;
    use crate::core_crash::program::{Kind, Program};
    use crate::known_bugs::make::explorer;

    fn tried(sane: &Program, broken: &Program) -> Tried {
        let boxed =
            |program: &Program| -> Vec<Box<dyn Scenario>> { vec![Box::new(program.clone())] };
        let (sane, broken) = (boxed(sane), boxed(broken));
        let (name, explorer) = ("of a test".to_owned(), explorer());
        Mutant { name, explorer, sane, broken, mutator: None }.try_it()
    }

    #[test]
    fn a_mutant_counts_only_if_it_makes_the_difference() {
        let commit = |durability| Step::Commit(0, vec![(0, Edit::Write)], durability);
        let right = Program::new(Kind::FullBlock, 1, vec![commit(Durable)]);
        let late = Program { steps: vec![commit(Deferred)], ..right.clone() };
        let lying = Program { promises_too_much: true, ..late };
        let killed = tried(&right, &lying);
        assert!(killed.is_killed() && killed.states > 0, "{killed}");
        let survived = tried(&right, &right);
        assert!(!survived.is_killed() && survived.states > 50, "{survived}");
        assert!(survived.to_string().contains("SURVIVED"), "{survived}");
        let wrong = tried(&lying, &lying);
        assert!(!wrong.is_killed() && wrong.to_string().contains("WRONG WITHOUT IT"), "{wrong}");
    }

    /// One of a persist site counts only where it has changed a call.
    #[test]
    fn a_mutant_that_changes_nothing_is_not_killed() {
        let right = Program::new(Kind::FullBlock, 1, vec![]);
        let lying = Program {
            promises_too_much: true,
            steps: vec![Step::Commit(0, vec![(0, Edit::Write)], Deferred)],
            ..right.clone()
        };
        let mutant = Mutant {
            name: "of a test".to_owned(),
            explorer: explorer(),
            sane: vec![Box::new(right)],
            broken: vec![Box::new(lying)],
            mutator: Some(Mutator::new()),
        };
        assert!(!mutant.try_it().is_killed());
    }
}
