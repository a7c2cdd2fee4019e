//! Every rule of the protocol that no persist site stands for: with it, programs survive; without
//! it, one of them does not.

use journal_core::Durability::{self, Deferred, Durable};
use journal_core::{Overwrite, Row, Rule};
use sim_disk::suite::{Edit, Step};
use sim_disk::{Explorer, Model, Mutator};

use lab::core_crash::damage::{
    lose_the_newest_superblock, rot_first_record, rot_noted_record, rot_the_first_copy,
    stale_first_record,
};
use lab::core_crash::program::{Kind, Program};

use Edit::{Write, WriteAt};

pub(crate) fn commit(lane: u16, changes: &[(usize, Edit)], durability: Durability) -> Step {
    Step::Commit(lane, changes.to_vec(), durability)
}

pub(crate) fn write(lane: u16, block: usize) -> Step {
    commit(lane, &[(block, Write)], Durable)
}

pub(crate) fn write_at(lane: u16, block: usize) -> Step {
    commit(lane, &[(block, WriteAt)], Durable)
}

pub(crate) fn explorer() -> Explorer {
    Explorer::new(Model::Torn8).with_images_per_point_max(1 << 8).with_random_per_point(32)
}

/// The program survives as the protocol is, and does not without the rule.
pub(crate) fn needs(rule: Rule, explorer: &Explorer, program: &Program) {
    needs_beside(&[], rule, explorer, program);
}

/// Like `needs`, where `others`, which would notice as well, are off in any case.
pub(crate) fn needs_beside(others: &[Rule], rule: Rule, explorer: &Explorer, program: &Program) {
    let without = |rules: &[Rule]| {
        let mutator = Mutator::without(rules);
        explorer.explore(&Program { mutator, ..program.clone() })
    };
    if let Err(failure) = without(others) {
        panic!("with the rule: {failure}");
    }
    let failure = without(&[others, &[rule]].concat());
    assert!(failure.is_err(), "{rule:?} is off, and nothing notices");
}

#[test]
fn a_record_counts_only_if_its_check_is_right() {
    let program = Program::new(Kind::FullBlock, 1, vec![write(0, 0)]);
    needs(Rule::RecordCheck, &explorer(), &program);
}

/// A transaction is given up after its first part; the next one stores both its parts in the same
/// place, under the same sequence. A crash that loses only the new first part leaves the old one in
/// front of the new second one.
#[test]
fn parts_of_two_transactions_never_make_one() {
    let write = |block: usize| vec![(block, Write)];
    let given_up = Step::Stream(0, vec![write(0)], false);
    let streamed = Step::Stream(0, vec![write(1), write(2)], true);
    let program = Program::new(Kind::FullBlock, 1, vec![given_up, streamed]);
    let thorough = Explorer::new(Model::Torn8).with_random_per_point(4_000);
    needs(Rule::PartsChained, &thorough, &program);
}

/// Two records are stored and not fenced; a crash keeps only the second, an open shows both absent;
/// the next record takes the place of the first.
fn a_stale_record_behind_a_new_one() -> Program {
    let deferred = |block| commit(0, &[(block, Write)], Deferred);
    let program = Program::new(Kind::FullBlock, 1, vec![deferred(0), deferred(1)]);
    Program { steps_after: vec![write(0, 0)], ..program }
}

#[test]
fn what_an_open_has_shown_absent_never_comes_back() {
    let deep = explorer().with_depth(1);
    needs(Rule::EpochRaised, &deep, &a_stale_record_behind_a_new_one());
    needs(Rule::OlderEpochVoid, &deep, &a_stale_record_behind_a_new_one());
}

#[test]
fn not_even_when_a_checkpoint_has_passed_everything_before_it() {
    let program = a_stale_record_behind_a_new_one();
    let program = Program { steps_after: vec![write(0, 0), Step::Checkpoint], ..program };
    needs(Rule::OlderEpochVoid, &explorer().with_depth(1), &program);
}

#[test]
fn a_watermark_tells_rot_from_a_torn_tail() {
    let program = Program::new(Kind::FullBlock, 1, vec![write(0, 0), write(0, 1)]);
    let program = Program { may_report_rot: true, ..program };
    needs(Rule::Watermarks, &explorer().with_damage(rot_first_record::<2>), &program);
}

/// A write was lost, and a record of an older epoch is still in its place, whole.
#[test]
fn a_watermark_tells_a_lost_write_from_an_old_record() {
    let program = Program::new(Kind::FullBlock, 1, vec![write(0, 0), write(0, 1)]);
    let program = Program { may_report_rot: true, ..program };
    needs(Rule::Watermarks, &explorer().with_damage(stale_first_record::<2>), &program);
    let is_reached = |(row, hits)| row == Row::Overwritten && hits > 0;
    assert!(program.rows.counts().into_iter().any(is_reached), "the old record was not whole");
}

#[test]
fn a_name_tells_rot_at_the_end_of_another_lane() {
    let program = Program::new(Kind::FullBlock, 2, vec![write(0, 0), write(1, 0)]);
    let program = Program { may_report_rot: true, ..program };
    // The second transaction is whole and overwrites the first one's block: what is silently lost
    // without the name is the other block of the first.
    let both = commit(0, &[(0, Write), (1, Write)], Durable);
    let program = Program { steps: vec![both, write(1, 0)], ..program };
    needs(Rule::Names, &explorer().with_damage(rot_first_record::<2>), &program);
}

#[test]
fn the_superblock_notes_what_an_open_has_made_durable() {
    let program = Program::new(Kind::FullBlock, 1, vec![write(0, 0), Step::Reopen]);
    let program = Program { may_report_rot: true, ..program };
    let explorer = explorer().with_damage(rot_noted_record::<1>);
    needs(Rule::Marks, &explorer, &program);
}

#[test]
fn a_record_of_a_later_superblock_is_an_error_and_no_older_head_is_believed() {
    let fill = [write(0, 0), write(0, 1), write(0, 2), Step::Checkpoint];
    let steps = fill.into_iter().chain([write(0, 0), write(0, 1)]).collect();
    let program = Program::new(Kind::FullBlock, 1, steps);
    let program = Program { may_report_rot: true, ..program };
    let explorer = explorer().with_damage(lose_the_newest_superblock);
    // The watermarks of later records would give an older head away as well.
    needs_beside(&[Rule::Watermarks], Rule::LaterSuperblock, &explorer, &program);
}

#[test]
fn one_superblock_copy_may_rot() {
    let steps = vec![write(0, 0), Step::Checkpoint, write(0, 1)];
    let program = Program::new(Kind::FullBlock, 1, steps);
    needs(Rule::BothCopies, &explorer().with_damage(rot_the_first_copy), &program);
}

#[test]
fn a_record_is_stored_after_what_it_may_depend_on_is_durable() {
    let steps = vec![commit(0, &[(0, Write)], Deferred), write(1, 1)];
    needs(Rule::DeferredFirst, &explorer(), &Program::new(Kind::FullBlock, 2, steps));
}

#[test]
fn a_stamp_is_above_what_it_overwrites() {
    let steps = vec![write(0, 0), write(0, 0), write(1, 0)];
    needs(Rule::StampAbove, &explorer(), &Program::new(Kind::FullBlock, 2, steps));
}

#[test]
fn only_durable_content_goes_home() {
    let both = commit(0, &[(0, Write), (1, Write)], Deferred);
    let program = Program::new(Kind::FullBlock, 1, vec![both, Step::Batch]);
    let program = Program { batch: 1, ..program };
    needs(Rule::DurableGoesHome, &explorer(), &program);
}

/// A delta on a block whose only whole copy is at home, on a device that leaves garbage.
fn a_delta_goes_home() -> Program {
    let steps = vec![write(0, 0), Step::Checkpoint, write_at(0, 0), Step::Checkpoint];
    let program = Program::new(Kind::Words, 1, steps);
    Program { overwrite: Overwrite::MayLeaveGarbage, ..program }
}

#[test]
fn the_only_whole_copy_is_shielded_before_it_is_overwritten() {
    needs(Rule::ShieldFirst, &explorer(), &a_delta_goes_home());
}

#[test]
fn an_intent_is_not_believed_after_its_checkpoint() {
    let mut program = a_delta_goes_home();
    program.steps.extend([write(0, 0), Step::Checkpoint]);
    needs(Rule::ShieldFloor, &explorer(), &program);
}

/// A process is killed while it stores a second intent over the first one; the next open sees a
/// torn one and goes on, until a power loss forgets what was stored over the first.
#[test]
fn an_intent_does_not_come_back_with_a_killed_process() {
    let mut program = a_delta_goes_home();
    program.steps = vec![write(0, 0), Step::Checkpoint];
    program.steps.extend([write_at(0, 0), Step::Batch, write_at(0, 0), Step::Batch]);
    program.steps_after = vec![write(0, 0), Step::Checkpoint];
    let explorer = Explorer::new(Model::Torn8)
        .with_images_per_point_max(1 << 5)
        .with_random_per_point(8)
        .with_kills();
    needs(Rule::OlderEpochVoid, &explorer, &program);
}

#[test]
fn a_cut_keeps_what_is_not_home() {
    let steps = vec![write(0, 0), write(0, 1), Step::Batch, Step::LetHeadsPass];
    let program = Program { batch: 1, ..Program::new(Kind::FullBlock, 1, steps) };
    needs(Rule::CutKeepsNeeded, &explorer(), &program);
}

/// Lane 1 is held by another block, and has an old image of this one, over which lane 0 has newer
/// ones. When this one is home, lane 0 would be dropped up to a delta on the other one, and the old
/// image come back.
#[test]
fn a_block_that_is_written_again_and_again_is_known_in_each_of_its_lanes() {
    let again = [write(1, 1), write(1, 0), write(0, 0), write(0, 0), write(0, 0), write_at(0, 1)];
    let home = [Step::Batch, Step::LetHeadsPass];
    for between in [None, Some(Step::Reopen)] {
        let steps = again.iter().cloned().chain(between).chain(home.iter().cloned()).collect();
        let program = Program { batch: 1, ..Program::new(Kind::Words, 2, steps) };
        needs(Rule::OneOfEachLane, &explorer(), &program);
    }
}

#[test]
fn a_cut_leaves_nothing_older_than_what_it_drops() {
    // The first transaction writes two blocks through lane 0, the second one of them through lane
    // 1. The third writes a delta on it through lane 0, and the fourth one on the other block.
    // Whichever block goes home, the other one holds lane 0.
    for last in [None, Some(write_at(0, 1))] {
        let both = commit(0, &[(0, Write), (1, Write)], Durable);
        let steps = [both, write(1, 0), write_at(0, 0)].into_iter().chain(last);
        let steps = steps.chain([Step::Batch, Step::LetHeadsPass]).collect();
        let program = Program { batch: 1, ..Program::new(Kind::Words, 2, steps) };
        if let Err(failure) = explorer().explore(&program) {
            panic!("{failure}");
        }
        let mutator = Mutator::without(&[Rule::CutDropsOlder]);
        if explorer().explore(&Program { mutator, ..program }).is_err() {
            return;
        }
    }
    panic!("the cut leaves older frames, and nothing notices");
}
