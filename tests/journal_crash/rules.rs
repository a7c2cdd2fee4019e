//! Every rule of the protocol that the front door has a part in, or leads to: with it, programs
//! survive; without it, one of them does not.
//!
//! `PartsChained` and its like are not here: nothing gives a transaction up when a part of it is
//! stored.

use core::panic::AssertUnwindSafe;
use std::panic::catch_unwind;

use journal_core::check::crc64;
use journal_core::{Overwrite, Rule};
use sim_disk::{Explorer, Image, Mark, Medium, Model, Mutator, Scenario};

use crate::guards::{Scripted, within};
use crate::probe::Logged;
use crate::program::{Program, SUPERBLOCK_UNIT, Step, Tx, covering};
use lab::oracle::{Change, End};

use Change::{Touch, Write};
use End::{Deferred, Durable};

pub(crate) fn one(seat: usize, changes: &[(usize, Change)], end: End) -> Step {
    Step::One(Tx::new(seat, changes, end))
}

fn write(seat: usize, block: usize) -> Step {
    one(seat, &[(block, Write)], Durable)
}

fn touch(seat: usize, block: usize) -> Step {
    one(seat, &[(block, Touch)], Durable)
}

fn roomy(logs: Logged, lanes: u16, steps: Vec<Step>) -> Program {
    Program { lane_bytes: 32 * 64, ..Program::new(logs, lanes, steps) }
}

fn explorer() -> Explorer {
    Explorer::new(Model::Torn8).with_images_per_point_max(1 << 8).with_random_per_point(32)
}

/// The scenario survives as the protocol is, and does not without the rule.
pub(crate) fn needs_beside<S: Scenario>(
    others: &[Rule],
    rule: Rule,
    explorer: &Explorer,
    scenario: impl Fn(Mutator) -> S,
) {
    let without = |rules: &[Rule]| explorer.explore(&scenario(Mutator::without(rules)));
    if let Err(failure) = without(others) {
        panic!("with the rule: {failure}");
    }
    let failure = catch_unwind(AssertUnwindSafe(|| without(&[others, &[rule]].concat())));
    assert!(!matches!(failure, Ok(Ok(_))), "{rule:?} is off, and nothing notices");
}

pub(crate) fn needs(rule: Rule, explorer: &Explorer, program: &Program) {
    needs_beside(&[], rule, explorer, |mutator| Program { mutator, ..program.clone() });
}

fn script_needs(rule: Rule, scripted: &'static (dyn Fn() -> Scripted + Sync)) {
    within(60, move || {
        needs_beside(&[], rule, &explorer(), |mutator| {
            let scripted = scripted();
            let program = Program { mutator, ..scripted.program.clone() };
            Scripted { program, ..scripted }
        });
    });
}

#[test]
fn a_record_counts_only_if_its_check_is_right() {
    needs(Rule::RecordCheck, &explorer(), &Program::new(Logged::Whole, 1, vec![write(0, 0)]));
}

#[test]
fn what_an_open_has_shown_absent_never_comes_back() {
    let deferred = |block| one(0, &[(block, Write)], Deferred);
    let program = Program::new(Logged::Whole, 1, vec![deferred(0), deferred(1)]);
    let program = Program { steps_after: vec![write(0, 0)], ..program };
    needs(Rule::EpochRaised, &explorer().with_depth(1), &program);
    needs(Rule::OlderEpochVoid, &explorer().with_depth(1), &program);
}

/// Turns a bit of the first record of lane 0 once `RETURNED` calls have returned.
fn rot_first_record<const RETURNED: usize>(image: &mut Image, history: &[Mark]) {
    let returned = history.iter().filter(|mark| matches!(mark, Mark::Returned(_)));
    if returned.count() == RETURNED {
        image.flip_bit(Medium::Pmem, 2 * SUPERBLOCK_UNIT + 128 + 3, 0);
    }
}

#[test]
fn a_watermark_tells_rot_from_a_torn_tail() {
    let program = Program::new(Logged::Whole, 1, vec![write(0, 0), write(0, 1)]);
    let program = Program { may_report_rot: true, ..program };
    needs(Rule::Watermarks, &explorer().with_damage(rot_first_record::<2>), &program);
}

#[test]
fn a_name_tells_rot_at_the_end_of_another_lane() {
    // The second transaction is whole and overwrites the first one's block: what is silently lost
    // without the name is the other block of the first.
    let both = one(0, &[(0, Write), (1, Write)], Durable);
    let program = Program::new(Logged::Whole, 2, vec![both, write(1, 0)]);
    let program = Program { may_report_rot: true, ..program };
    needs(Rule::Names, &explorer().with_damage(rot_first_record::<2>), &program);
}

#[test]
fn a_close_that_keeps_notes_what_is_durable() {
    let program = Program::new(Logged::Whole, 1, vec![write(0, 0), Step::Close]);
    let program = Program { may_report_rot: true, keep_on_close: true, ..program };
    needs(Rule::Marks, &explorer().with_damage(rot_first_record::<2>), &program);
}

/// Puts the superblock back to before the last head advance, in both copies, with right checks.
fn lose_the_newest_superblock(image: &mut Image, history: &[Mark]) {
    let returned = history.iter().filter(|mark| matches!(mark, Mark::Returned(_)));
    if returned.count() < 6 {
        return;
    }
    for copy in [0, SUPERBLOCK_UNIT as usize] {
        let superblock = &mut image.pmem_mut()[copy..copy + 128 + 32 + 8];
        // Generation 1 and the heads of an empty journal.
        superblock[80..88].copy_from_slice(&1_u64.to_le_bytes());
        superblock[128..136].copy_from_slice(&0_u64.to_le_bytes());
        for field in [136, 144, 152] {
            superblock[field..field + 8].copy_from_slice(&1_u64.to_le_bytes());
        }
        let check = crc64(0, &superblock[..160]);
        superblock[160..].copy_from_slice(&check.to_le_bytes());
    }
}

#[test]
fn a_record_of_a_later_superblock_is_an_error_and_no_older_head_is_believed() {
    let fill = [write(0, 0), write(0, 1), write(0, 2), Step::Checkpoint];
    let steps = fill.into_iter().chain([write(0, 0), write(0, 1)]).collect();
    let program = Program { lane_bytes: 12 * 64, ..Program::new(Logged::Whole, 1, steps) };
    let program = Program { may_report_rot: true, ..program };
    let explorer = explorer().with_damage(lose_the_newest_superblock);
    // The watermarks of later records would give an older head away as well.
    let others = [Rule::Watermarks];
    needs_beside(&others, Rule::LaterSuperblock, &explorer, |mutator| Program {
        mutator,
        ..program.clone()
    });
}

/// Rot in the first superblock copy once freed space is in use.
fn rot_the_first_copy(image: &mut Image, history: &[Mark]) {
    let called = history.iter().filter(|mark| matches!(mark, Mark::Called(_)));
    if called.count() == 3 {
        image.flip_bit(Medium::Pmem, 100, 1);
    }
}

#[test]
fn one_superblock_copy_may_rot() {
    let steps = vec![write(0, 0), Step::Checkpoint, write(0, 1)];
    let program = Program::new(Logged::Whole, 1, steps);
    needs(Rule::BothCopies, &explorer().with_damage(rot_the_first_copy), &program);
}

#[test]
fn a_record_is_stored_after_what_it_may_depend_on_is_durable() {
    let steps = vec![one(0, &[(0, Write)], Deferred), write(1, 1)];
    needs(Rule::DeferredFirst, &explorer(), &roomy(Logged::Whole, 2, steps));
    let reads = one(1, &[(0, Change::Read), (1, Write)], Durable);
    let steps = vec![one(0, &[(0, Write)], Deferred), reads];
    needs(Rule::DeferredFirst, &explorer(), &roomy(Logged::Whole, 2, steps));
}

#[test]
fn a_stamp_is_above_what_it_overwrites() {
    let steps = vec![write(0, 0), write(0, 0), write(1, 0)];
    needs(Rule::StampAbove, &explorer(), &roomy(Logged::Whole, 2, steps));
}

#[test]
fn only_durable_content_goes_home() {
    let both = one(0, &[(0, Write), (1, Write)], Deferred);
    let program = roomy(Logged::Whole, 1, vec![both, Step::Checkpoint]);
    needs(Rule::DurableGoesHome, &explorer(), &Program { batch: 1, ..program });
}

/// A touch of a block whose only whole copy is at home, on a device that leaves garbage.
fn a_touch_goes_home() -> Program {
    let steps = vec![write(0, 0), Step::Checkpoint, touch(0, 0), Step::Checkpoint];
    let program = roomy(Logged::Halves, 1, steps);
    Program { overwrite: Overwrite::MayLeaveGarbage, ..program }
}

#[test]
fn the_only_whole_copy_is_shielded_before_it_is_overwritten() {
    needs(Rule::ShieldFirst, &explorer(), &a_touch_goes_home());
}

#[test]
fn an_intent_is_not_believed_after_its_checkpoint() {
    let mut program = a_touch_goes_home();
    program.steps.extend([write(0, 0), Step::Checkpoint]);
    needs(Rule::ShieldFloor, &explorer(), &program);
}

#[test]
fn what_is_committed_beside_a_checkpoint_stays_in_its_lane() {
    script_needs(Rule::CutKeepsNeeded, &|| {
        Scripted::new(1, |stage| {
            stage.transact(1, &[(0, Write)], Durable)?;
            stage.at_first("checkpoint.sync", |stage| {
                stage.help_transact(2, &[(1, Write)], Durable);
                assert!(stage.have_helped(), "a commit does not wait for a checkpoint");
            });
            covering(&stage.world, || stage.journal.checkpoint().map(drop)).expect("writes home");
            Ok(())
        })
    });
}

/// Block 0 goes home alone. Lane 0 is held by block 3, behind which it has an older version than
/// the one in lane 1.
pub(crate) fn an_older_version_is_held() -> Program {
    let steps = vec![write(0, 3), write(0, 0), write(1, 0), Step::OneBatch];
    Program { batch: 1, ..roomy(Logged::Halves, 2, steps) }
}

#[test]
fn a_cut_leaves_nothing_older_than_what_it_drops() {
    needs(Rule::CutDropsOlder, &explorer(), &an_older_version_is_held());
}
