//! The disk-side log: programs that write whole blocks there survive every crash.
//!
//! H17: a block of the log is free when nothing durable needs it any more, and not before.

use journal_core::Durability::{Deferred, Durable};
use journal_core::{BlockNumber, JournalError, Overwrite, Rule};
use sim_disk::suite::oracle::{BLOCK_BYTES, BLOCKS};
use sim_disk::suite::{Edit, Memory, Step};
use sim_disk::{Explorer, Model, Report, Scenario as _, World};

use crate::rules::{commit, explorer, needs, write, write_at};
use lab::core_crash::program::{Kind, Program};

use Edit::{Discard, Overwrite as Whole, Write};

fn logged(lanes: u16, steps: Vec<Step>) -> Program {
    Program::new(Kind::Logged, lanes, steps)
}

fn survives(explorer: &Explorer, program: &Program) -> Report {
    explorer.explore(program).unwrap_or_else(|failure| panic!("{failure}"))
}

fn both(lane: u16) -> Step {
    commit(lane, &[(0, Write), (1, Whole)], Durable)
}

#[test]
fn a_block_that_is_logged_again_and_again_survives_every_crash() {
    let steps = vec![write(0, 0), write(0, 0), write_at(0, 0), write(0, 0)];
    let report = survives(&Explorer::new(Model::Torn8), &logged(1, steps));
    assert!(report.images > 500, "{report}");
    let steps = vec![both(0), both(1), commit(0, &[(0, Write)], Deferred), Step::Sync, both(1)];
    survives(&explorer().with_kills(), &logged(2, steps));
}

/// Segments are of two blocks: what is superseded is given back, and used again.
#[test]
fn segments_are_used_again_only_when_nothing_needs_them() {
    let again = |lane| vec![both(lane), Step::Fold, both(lane), Step::Garbage];
    let steps = [again(0), again(0), vec![write(0, 2), write(0, 0), write(0, 3)]].concat();
    survives(&explorer().with_kills(), &Program { lane_segments: 2, ..logged(1, steps) });
    let steps = [again(0), again(1), again(0)].concat();
    survives(&explorer(), &Program { lane_segments: 2, ..logged(2, steps) });
}

/// H17: the cleaner moves what is left in a segment home, and what lies on it goes with it.
#[test]
fn cleaning_survives_every_crash() {
    for overwrite in [Overwrite::OldOrNew, Overwrite::MayLeaveGarbage] {
        for between in [vec![], vec![Step::Fold], vec![write_at(0, 1)], vec![Step::Reopen]] {
            let end = vec![Step::Clean, write(0, 1), write(0, 2), Step::Clean, write(0, 1)];
            let steps = [vec![both(0), write(0, 0)], between, end].concat();
            let steps_after = vec![Step::Clean, write(0, 2)];
            let program = Program { lane_segments: 2, steps_after, ..logged(1, steps) };
            survives(&explorer().with_kills(), &Program { overwrite, ..program });
        }
    }
}

#[test]
fn the_rings_are_emptied_and_the_log_keeps_what_it_has() {
    let steps = vec![write(0, 0), write(0, 1), Step::Rings, write_at(0, 0), Step::Rings];
    let program = Program { steps_after: vec![Step::Rings], ..logged(1, steps) };
    survives(&explorer().with_depth(1).with_kills(), &program);
}

/// What is discarded, and what another lane overwrites, gives its block of the log back.
#[test]
fn what_nothing_needs_any_more_leaves_the_log() {
    let discard = commit(0, &[(0, Discard), (1, Write)], Durable);
    let steps = vec![write(0, 0), Step::Fold, discard, Step::Checkpoint, write(1, 0), Step::Clean];
    survives(&explorer(), &Program { lane_segments: 1, ..logged(2, steps) });
    let steps = vec![write(0, 0), Step::Fold, write(1, 0), Step::Fold, Step::Garbage, write(0, 1)];
    survives(&explorer(), &Program { lane_segments: 1, ..logged(2, steps) });
}

/// Changed blocks get new places in the log; what was below them is given back later.
#[test]
fn moving_to_the_log_survives_every_crash() {
    for overwrite in [Overwrite::OldOrNew, Overwrite::MayLeaveGarbage] {
        let begin = vec![both(0), write_at(0, 0), write_at(0, 1), Step::Move(0), Step::Fold];
        for end in [Step::Garbage, Step::Checkpoint, Step::Rings, Step::Clean] {
            let end = vec![end, write_at(0, 1), Step::Move(0), write(0, 0)];
            let steps = [begin.clone(), end].concat();
            survives(&explorer().with_kills(), &Program { overwrite, ..logged(1, steps) });
        }
        // Over homes, and from one lane to another.
        let begin = vec![both(0), Step::Checkpoint, write_at(0, 0), write_at(1, 1)];
        let steps =
            [begin, vec![Step::Move(1), write_at(0, 0), Step::Move(0), Step::Fold]].concat();
        survives(&explorer(), &Program { overwrite, ..logged(2, steps) });
    }
}

/// A moved block's stamp is above that of the version that it replaces, in another lane. Otherwise
/// an open would take that one for the newest, and look for it where something else is by now.
#[test]
fn what_is_moved_is_above_what_was_there() {
    let begin = vec![both(1), write_at(1, 0), write_at(1, 1), Step::Move(0), Step::Garbage];
    let again = commit(1, &[(2, Write), (3, Whole)], Durable);
    let steps = [begin, vec![again]].concat();
    let program = Program { lane_segments: 1, ..logged(2, steps) };
    needs(Rule::MovedAbove, &explorer(), &program);
}

/// Where the log is full, the record has the image.
#[test]
fn a_log_without_room_is_no_reason_to_fail() {
    let steps = (0..4).map(|block| write(0, block)).chain([both(0)]).collect();
    survives(&explorer(), &Program { lane_segments: 1, lane_bytes: 2048, ..logged(1, steps) });
}

#[test]
fn a_block_of_the_log_is_free_only_when_its_void_entry_is_durable() {
    let begin = [both(0), Step::Fold, Step::Checkpoint];
    let end = [write(0, 2), write(0, 3), write(0, 2), write(0, 3)];
    let steps = begin.into_iter().chain(end).collect();
    let program = Program { lane_segments: 1, ..logged(1, steps) };
    needs(Rule::VoidsFenced, &explorer(), &program);
}

#[test]
fn only_what_is_durable_frees_a_block_of_the_log() {
    let deferred = commit(0, &[(0, Write), (1, Write)], Deferred);
    let steps = vec![both(0), deferred, Step::Garbage, write(0, 2), write(0, 3)];
    survives(&explorer(), &Program { lane_segments: 2, ..logged(1, steps) });
}

/// What a sync has made durable is not what is there: the block cannot be read, and nothing else
/// is lost.
#[test]
fn rot_in_the_log_is_an_error_of_its_block() {
    let program = logged(1, vec![write(0, 0), write(0, 1)]);
    let world = World::boot(program.start(), Model::Torn8);
    program.program(&world).expect("runs");
    let mut image = world.visible();
    let first = BlockNumber(BLOCKS as u64);
    let mut rotten = image.disk(0).block(first);
    rotten[9] ^= 1;
    image.disk_mut(0).set_block(first, &rotten);
    let world = World::boot(image, Model::Torn8);
    let mut memory = Memory::new(&program.geometry(), 64, 2);
    let mut journal = program.open(&world, program.policy, memory.borrow()).expect("opens");
    let mut block = [0; BLOCK_BYTES];
    let error = journal.read(BlockNumber(0), &mut block).expect_err("it has rotted");
    assert_eq!(error, JournalError::RottenLog { block: BlockNumber(0), lies_at: first });
    journal.read(BlockNumber(1), &mut block).expect("the other one has not");
}
