//! Programs whose media are harmed on top of a crash.

use journal_core::Durability::Durable;
use journal_core::Policy as _;
use sim_disk::Damage;
use sim_disk::suite::{Edit::Write, Step};

use crate::core_crash::damage::{
    lose_the_newest_superblock, rot_first_record, rot_last_slot, rot_noted_record,
    stale_first_record,
};
use crate::core_crash::program::{Kind, Program};

/// Programs on media that are harmed, for the rows of the recovery table that no power loss
/// reaches.
pub fn harmed(kind: Kind) -> Vec<(Program, Damage)> {
    let write = |lane, block| Step::Commit(lane, vec![(block, Write)], Durable);
    let mut all: Vec<(Program, Damage)> = Vec::new();
    let mut add = |lanes, steps, damage| {
        let program = Program::new(Kind::FullBlock, lanes, steps);
        all.push((Program { may_report_rot: true, ..program }, damage));
    };
    for block in 0..3 {
        let two = || vec![write(0, block), write(0, block + 1)];
        add(1, two(), rot_first_record::<2>);
        add(2, vec![write(0, block), write(1, block)], rot_first_record::<2>);
        add(1, vec![write(0, block), Step::Reopen], rot_noted_record::<1>);
        add(1, two(), stale_first_record::<2>);
        let fill = [write(0, 0), write(0, 1), write(0, 2), Step::Checkpoint];
        let steps = fill.into_iter().chain(two()).collect();
        add(1, steps, lose_the_newest_superblock);
    }
    if kind.wants_slots() {
        for block in 0..3 {
            let steps = vec![write(0, block), write(0, block + 1)];
            let program = Program::new(kind, 1, steps);
            let program = Program { may_report_rot: true, ..program };
            all.push((program, rot_last_slot::<2>));
        }
    }
    all
}
