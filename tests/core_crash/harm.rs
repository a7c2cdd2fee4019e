//! What needs no crash: a bit that turns, an operation that fails, a lane that is full. The crash
//! laboratory tries all of them; here a part, and that the judges are able to object.

use journal_core::Durability::{Deferred, Durable};
use journal_core::Rule;
use sim_disk::suite::{Edit, FULL_LINES, Faults, Filled, Rot, RotSeen, Step, fill, fill_program};
use sim_disk::{Mutant, Mutation, Mutator};

use lab::core_crash::program::{Kind, Program};

const KINDS: [Kind; 11] = [
    Kind::FullBlock,
    Kind::Words,
    Kind::ObjectLog,
    Kind::ByteDelta,
    Kind::Lcow,
    Kind::Logged,
    Kind::CompressedDelta,
    Kind::TwoLevel,
    Kind::Adaptive,
    Kind::AdaptiveSlots,
    Kind::Mixed,
];

fn without(rule: Rule, program: Program) -> Program {
    Program { mutator: Mutator::without(&[rule]), ..program }
}

#[test]
fn a_turned_bit_is_no_other_content() {
    for kind in KINDS {
        let rot = Rot::of(kind).unwrap_or_else(|what| panic!("{kind:?}: {what}"));
        let mut counts = RotSeen::ALL.map(|_| 0);
        for bit in (0..rot.bits()).step_by(101) {
            let seen = rot.turn(bit, bit % 5 == 0);
            counts[seen.unwrap_or_else(|what| panic!("{kind:?}: {what}")) as usize] += 1;
        }
        let [whole, refused, ..] = counts;
        assert!(whole > 50 && refused > 50, "{kind:?}: {counts:?}");
    }
}

#[test]
fn and_the_judge_of_bits_objects() {
    let whole = || Program::new(Kind::FullBlock, 1, Vec::new());
    for (rule, program) in [
        (Rule::RecordCheck, whole()),
        (Rule::Watermarks, whole()),
        (Rule::SlotCheck, Program::new(Kind::ByteDelta, 1, Vec::new())),
    ] {
        let rot = Rot::of_program(without(rule, program)).expect("nothing has rotted yet");
        let wrong = (0..rot.bits()).step_by(13).filter(|bit| rot.turn(*bit, false).is_err());
        assert!(wrong.count() > 10, "{rule:?} is off, and nothing notices");
    }
}

#[test]
fn an_operation_may_fail_once_or_for_ever() {
    for kind in KINDS {
        let faults = Faults::of(kind).unwrap_or_else(|what| panic!("{kind:?}: {what}"));
        assert!(faults.operations() > 300, "{kind:?}: {}", faults.operations());
        for index in (0..faults.operations()).step_by(5) {
            for for_ever in [false, true] {
                let failed = faults.fail(index, for_ever);
                failed.unwrap_or_else(|what| panic!("{kind:?}: {what}"));
            }
        }
    }
}

#[test]
fn and_the_judge_of_failures_objects() {
    let commit = |block, durability| Step::Commit(0, vec![(block, Edit::Write)], durability);
    let program = |durability| {
        let steps = vec![commit(0, durability), commit(1, durability)];
        Program::new(Kind::FullBlock, 1, steps)
    };
    let mut sites = journal_core::SITES.iter().copied().flatten();
    let site = *sites.find(|site| site.name == "commit.fence").expect("is declared");
    let unfenced = Mutator::with(Mutant { site, mutation: Mutation::DropFence });
    for lying in [
        Program { promises_too_much: true, ..program(Deferred) },
        Program { mutator: unfenced, ..program(Durable) },
    ] {
        let faults = Faults::of_program(lying).expect("nothing fails yet");
        let wrong = (0..faults.operations()).filter(|index| faults.fail(*index, false).is_err());
        assert!(wrong.count() > 0, "nothing notices");
    }
}

#[test]
fn lanes_of_every_length_are_filled() {
    for kind in KINDS {
        let mut filled = Filled::default();
        for lanes in [1, 2] {
            for lines in FULL_LINES {
                let lane = fill(kind, lanes, lines);
                filled += lane.unwrap_or_else(|what| panic!("{kind:?}: {what}"));
            }
        }
        assert!(filled.fitted > 500 && filled.waited > 100, "{kind:?}: {filled:?}");
    }
}

#[test]
fn and_the_judge_of_full_lanes_objects() {
    for rule in [Rule::SpaceChecked, Rule::LastLineChecked] {
        let wrong = FULL_LINES.filter(|lines| {
            let program = Program::new(Kind::FullBlock, 1, Vec::new());
            fill_program(&without(rule, Program { lane_bytes: 64 * lines, ..program })).is_err()
        });
        assert!(wrong.count() > 3, "{rule:?} is off, and nothing notices");
    }
}
