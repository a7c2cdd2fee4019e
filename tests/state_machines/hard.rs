//! Cases that were hard once: what the protocol fell to before a rule kept it, told as lives.
//!
//! Each is crashed at some points before its end, with every image of a sample, and holds; without
//! its rule, it does not. They are told in full, and not as seeds, so that they mean the same
//! whatever becomes of the strategies.

use journal_core::Durability::{self, Deferred, Durable};
use journal_core::{Overwrite, Rule};
use sim_disk::Mutator;
use sim_disk::suite::{Edit, Step};

use crate::lives::{End, Life, run};
use crate::owner::{Owner, Shape};
use crate::policies::tiny;

use Edit::{Append, Discard, Write, WriteAt};

/// Crash points from the end of a life, and images of each.
const POINTS: u16 = 24;
const IMAGES: u16 = 24;

const ONE_LANE: Shape = Shape { lanes: 1, ..Shape::PLAIN };

fn commit(lane: u16, edits: &[(usize, Edit)], durability: Durability) -> Step {
    Step::Commit(lane, edits.to_vec(), durability)
}

fn write(lane: u16, block: usize) -> Step {
    commit(lane, &[(block, Write)], Durable)
}

fn deferred(lane: u16, block: usize) -> Step {
    commit(lane, &[(block, Write)], Deferred)
}

/// The processes, each of which loses power, hold whatever it leaves; without the rule they do not.
fn needs(rule: Rule, policy: &str, shape: &Shape, processes: &[&[Step]]) {
    let tried = |mutator: &dyn Fn() -> Mutator| {
        (0..POINTS).flat_map(|back| (0..IMAGES).map(move |image| (back, image))).find_map(
            |(back, image)| {
                let end = End::PowerLoss { back, image };
                let life = |steps: &&[Step]| Life { acts: steps.to_vec(), breaks: None, end };
                let lives: Vec<_> = processes.iter().map(life).collect();
                run(&Owner::new(tiny(policy), shape, mutator()), &lives).err()
            },
        )
    };
    if let Some(error) = tried(&Mutator::new) {
        panic!("with {rule:?}: {error}");
    }
    assert!(tried(&|| Mutator::without(&[rule])).is_some(), "{rule:?} is off, and nothing notices");
}

#[test]
fn a_stale_record_behind_a_new_one() {
    // Two records are stored and not fenced; a crash keeps only the second, an open shows both
    // absent; the next record takes the place of the first.
    let lives: [&[Step]; 2] = [&[deferred(0, 0), deferred(0, 1)], &[write(0, 0)]];
    needs(Rule::EpochRaised, "full-block", &ONE_LANE, &lives);
    needs(Rule::OlderEpochVoid, "full-block", &ONE_LANE, &lives);
}

#[test]
fn a_record_that_may_depend_on_a_deferred_one_of_another_lane() {
    let life = [deferred(0, 0), write(1, 1)];
    needs(Rule::DeferredFirst, "full-block", &Shape::PLAIN, &[&life]);
}

#[test]
fn a_block_that_changes_lanes() {
    let life = [write(0, 0), write(0, 0), write(1, 0)];
    needs(Rule::StampAbove, "full-block", &Shape::PLAIN, &[&life]);
}

#[test]
fn half_of_a_deferred_transaction_goes_home() {
    let both = commit(0, &[(0, Write), (1, Write)], Deferred);
    let shape = Shape { batch: 1, ..ONE_LANE };
    needs(Rule::DurableGoesHome, "full-block", &shape, &[&[both, Step::Batch]]);
}

#[test]
fn the_only_whole_copy_is_torn() {
    let patch = commit(0, &[(0, WriteAt)], Durable);
    let life = [write(0, 0), Step::Checkpoint, patch, Step::Checkpoint];
    let shape = Shape { overwrite: Overwrite::MayLeaveGarbage, ..ONE_LANE };
    needs(Rule::ShieldFirst, "object-log", &shape, &[&life]);
}

#[test]
fn the_stamps_of_copies_outlive_what_they_copy() {
    let life = [write(0, 0), write(0, 1), write(0, 1), Step::Relog(0, false)];
    needs(Rule::StampFloor, "full-block", &ONE_LANE, &[&life, &[write(0, 2)]]);
}

#[test]
fn the_newest_version_is_written_over() {
    let life = [write(0, 0), deferred(0, 0), deferred(0, 0), write(0, 1)];
    needs(Rule::NewestSpared, "byte-delta", &Shape { lane_slots: 6, ..ONE_LANE }, &[&life]);
}

#[test]
fn an_append_to_a_block_that_may_be_read() {
    let discard = commit(0, &[(0, Discard), (1, Write)], Deferred);
    let append = commit(0, &[(0, Append)], Durable);
    let life = [write(0, 0), Step::Checkpoint, discard, append];
    needs(Rule::AppendsNotLive, "byte-delta", &Shape { lane_slots: 6, ..ONE_LANE }, &[&life]);
}

#[test]
fn a_torn_entry_and_the_heads_that_pass_its_frame() {
    let lives: [&[Step]; 2] = [&[write(0, 0), Step::Fold], &[write(0, 0), Step::Fold]];
    needs(Rule::TornEntriesVoided, "byte-delta", &Shape { lane_slots: 6, ..ONE_LANE }, &lives);
}

#[test]
fn a_slot_that_is_taken_before_its_void_entry_is_durable() {
    let begin = [write(0, 0), Step::Fold, write(0, 0), Step::Fold, Step::Checkpoint];
    let life = [&begin[..], &[write(0, 1), write(0, 1), write(0, 1)]].concat();
    needs(Rule::VoidsFenced, "byte-delta", &Shape { lane_slots: 2, ..ONE_LANE }, &[&life]);
}
