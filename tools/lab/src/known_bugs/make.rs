//! Making mutants.

use journal_core::Durability::{self, Deferred, Durable};
use journal_core::Rule;
use sim_disk::suite::{Edit, Step};
use sim_disk::{Explorer, Model, Mutation, Mutator, Scenario, mutants};

use crate::core_crash::program::{Kind, Program};
use crate::known_bugs::bug::{Bug, Here};
use crate::known_bugs::killing::Mutant;
use crate::known_bugs::planted::Planted;
use crate::known_bugs::ports::Defect;

pub const fn bug(
    number: usize,
    source: &'static str,
    what: &'static str,
    mutants: Vec<Mutant>,
) -> Bug {
    Bug { number, source, what, here: Here::Mutants(mutants) }
}

pub fn explorer() -> Explorer {
    Explorer::new(Model::Torn8).with_images_per_point_max(1 << 8).with_random_per_point(32)
}

pub fn commit(lane: u16, changes: &[(usize, Edit)], durability: Durability) -> Step {
    Step::Commit(lane, changes.to_vec(), durability)
}

pub fn write(lane: u16, block: usize) -> Step {
    commit(lane, &[(block, Edit::Write)], Durable)
}

pub fn write_at(lane: u16, block: usize) -> Step {
    commit(lane, &[(block, Edit::WriteAt)], Durable)
}

pub fn deferred(lane: u16, block: usize) -> Step {
    commit(lane, &[(block, Edit::Write)], Deferred)
}

/// Whole images in one lane.
pub fn images(steps: Vec<Step>) -> Program {
    Program::new(Kind::FullBlock, 1, steps)
}

fn boxed(scenario: impl Scenario + 'static) -> Box<dyn Scenario> {
    Box::new(scenario)
}

/// A persist site, by its name, got wrong.
pub fn at(
    name: &str,
    mutation: Mutation,
    explorer: &Explorer,
    scenario: impl Fn(Mutator) -> Box<dyn Scenario>,
) -> Mutant {
    let mut sites = journal_core::SITES.iter().copied().flatten();
    let site = *sites.find(|site| site.name == name).expect("a site is declared");
    let mutant = mutants::Mutant { site, mutation };
    let mutator = Mutator::with(mutant);
    Mutant {
        name: mutant.to_string(),
        explorer: explorer.clone(),
        sane: vec![scenario(Mutator::new())],
        broken: vec![scenario(mutator.clone())],
        mutator: Some(mutator),
    }
}

/// A persist site, by its name, got wrong in a program.
pub fn site(name: &str, mutation: Mutation, explorer: &Explorer, program: &Program) -> Mutant {
    at(name, mutation, explorer, |mutator| boxed(Program { mutator, ..program.clone() }))
}

/// A rule that is not kept; one of the programs notices.
pub fn rule_in(others: &[Rule], rule: Rule, explorer: &Explorer, programs: &[Program]) -> Mutant {
    let with = |rules: &[Rule]| {
        let of = |program: &Program| {
            let mutator = Mutator::without(rules);
            boxed(Program { mutator, ..program.clone() })
        };
        programs.iter().map(of).collect()
    };
    Mutant {
        name: format!("without {rule:?}"),
        explorer: explorer.clone(),
        sane: with(others),
        broken: with(&[others, &[rule]].concat()),
        mutator: None,
    }
}

pub fn rule(rule: Rule, explorer: &Explorer, program: Program) -> Mutant {
    rule_in(&[], rule, explorer, &[program])
}

/// Ports of which one is defective.
pub fn port(defect: Defect, explorer: &Explorer, scenarios: Vec<Planted>) -> Mutant {
    let with = |defect| -> Vec<Box<dyn Scenario>> {
        scenarios.iter().map(|planted| boxed(Planted { defect, ..planted.clone() })).collect()
    };
    Mutant {
        name: format!("{defect:?}"),
        explorer: explorer.clone(),
        sane: with(None),
        broken: with(Some(defect)),
        mutator: None,
    }
}

/// A rule that is not kept, in programs over ports.
pub fn rule_over_ports(rule: Rule, explorer: &Explorer, all: &[Planted]) -> Mutant {
    let with = |rules: &[Rule]| {
        let of = |planted: &Planted| {
            let mutator = Mutator::without(rules);
            let program = Program { mutator, ..planted.program.clone() };
            boxed(Planted { program, ..planted.clone() })
        };
        all.iter().map(of).collect()
    };
    Mutant {
        name: format!("without {rule:?}"),
        explorer: explorer.clone(),
        sane: with(&[]),
        broken: with(&[rule]),
        mutator: None,
    }
}
