//! Traces that earlier texts of the protocol fell to, where they are not among the rules.

use journal_core::Durability::{Deferred, Durable};
use journal_core::{Overwrite, Rule};
use sim_disk::mutants::Mutant;
use sim_disk::suite::{Edit, Step};
use sim_disk::{Explorer, Model, Mutation, Mutator};

use crate::rules::{commit, explorer, needs, write, write_at};
use lab::core_crash::program::{Kind, Program};

use Edit::{Discard, Write};

/// H2: both lanes hold a frame of the block; lane 1's is the older one. Were the heads to advance
/// one by one, it would hide what is home.
#[test]
fn all_heads_advance_at_once() {
    let steps = vec![write(1, 0), write(0, 0), Step::Checkpoint];
    needs(Rule::HeadsTogether, &explorer(), &Program::new(Kind::FullBlock, 2, steps));
}

/// H2 with a discard and what was written after it as the newer frames.
#[test]
fn all_heads_advance_at_once_past_a_discard_too() {
    let discard = commit(0, &[(0, Discard)], Durable);
    let append = commit(0, &[(0, Edit::Append)], Durable);
    let steps = vec![write(1, 0), discard, append, Step::Checkpoint];
    needs(Rule::HeadsTogether, &explorer(), &Program::new(Kind::FullBlock, 2, steps));
}

/// The ring has gone round; of two records that are not durable a crash loses the first, and in its
/// place there is one of an earlier lap, whole and of the same epoch. Taken for the lost one, it
/// would lead on to the second.
#[test]
fn a_record_of_an_earlier_lap_does_not_count() {
    let lap = [write(0, 0), write(0, 1), write(0, 2), write(0, 3), Step::Checkpoint];
    let two = [0, 1].map(|block| commit(0, &[(block, Write)], Deferred));
    let program = Program::new(Kind::FullBlock, 1, lap.into_iter().chain(two).collect());
    needs(Rule::PlaceChecked, &explorer(), &program);
}

/// H8: a deferred record lies in front of a durable one in the same lane. Its flush is left out:
/// the commit behind it is acknowledged, and lies behind a hole.
#[test]
fn a_record_is_acknowledged_when_all_before_it_in_its_lane_are_durable() {
    let steps = vec![commit(0, &[(0, Write)], Deferred), write(0, 1)];
    let program = Program::new(Kind::FullBlock, 1, steps);
    if let Err(failure) = explorer().explore(&program) {
        panic!("{failure}");
    }
    let sites = journal_core::SITES.iter().copied().flatten();
    let site = sites.copied().find(|site| site.name == "deferred.flush").expect("is declared");
    let mutator = Mutator::with(Mutant { site, mutation: Mutation::DropFlush });
    let broken = Program { mutator: mutator.clone(), ..program };
    assert!(explorer().explore(&broken).is_err() && mutator.fired() > 0);
}

/// H14: what may still be given up has no last part in the medium, so that no crash finds it.
#[test]
fn a_transaction_given_up_is_not_there_after_a_crash() {
    let given_up = Step::Stream(0, vec![vec![(0, Write)], vec![(1, Write)]], false);
    let program = Program::new(Kind::FullBlock, 1, vec![given_up]);
    needs(Rule::LastPartAtCommit, &explorer(), &program);
}

/// H14: were the sequence of what was given up not used again, the lane would end at the gap.
#[test]
fn no_sequence_is_skipped_when_a_transaction_is_given_up() {
    let given_up = Step::Stream(0, vec![vec![(0, Write)]], false);
    let program = Program::new(Kind::FullBlock, 1, vec![given_up, write(0, 1)]);
    needs(Rule::SequencesUnbroken, &explorer(), &program);
}

/// A home write is torn into garbage between clean neighbours: neither the block nor they are lost,
/// in one long write or in two.
#[test]
fn a_torn_home_write_spoils_neither_its_block_nor_its_neighbours() {
    for others in [[0, 2], [1, 2]] {
        let all = (0..3).map(|block| write(0, block));
        let part = others.map(|block| write_at(0, block));
        let steps = all.chain([Step::Checkpoint]).chain(part).chain([Step::Checkpoint]);
        let program = Program::new(Kind::Words, 1, steps.collect());
        let program = Program { overwrite: Overwrite::MayLeaveGarbage, ..program };
        needs(Rule::ShieldFirst, &explorer(), &program);
    }
}

/// H18: a block is at home, and one of its frames is held in a lane by another block that is not.
/// What is dropped and what stays never make a state that was not, wherever the batch ends.
#[test]
fn a_partial_checkpoint_makes_no_state_that_never_was() {
    for batch in [1, 2] {
        for (first, second) in [(0, 1), (1, 0)] {
            let both = commit(first, &[(0, Write), (1, Write)], Durable);
            let steps = vec![
                both,
                write(second, 0),
                write_at(first, 0),
                Step::Batch,
                Step::LetHeadsPass,
                write_at(second, 1),
                Step::Batch,
                Step::LetHeadsPass,
            ];
            let program = Program { batch, ..Program::new(Kind::Words, 2, steps) };
            let program = Program { overwrite: Overwrite::MayLeaveGarbage, ..program };
            if let Err(failure) = explorer().explore(&program) {
                panic!("{failure}");
            }
        }
    }
}

/// H20: a block is at home and counts as that for the cut, but only until it is written again, in
/// the same lane or in another one.
#[test]
fn a_block_that_is_written_again_is_not_at_home() {
    for lane in [0, 1] {
        let steps = vec![write(0, 0), Step::Batch, write(lane, 0), Step::LetHeadsPass];
        needs(Rule::CutKeepsNeeded, &explorer(), &Program::new(Kind::FullBlock, 2, steps));
    }
}

/// H4: records of the same epoch behind a torn one are told of, and not replayed. A crash loses the
/// first of three deferred records and keeps the others, or any other part of them.
#[test]
fn nothing_behind_a_torn_record_is_replayed() {
    let deferred = |block| commit(0, &[(block, Write)], Deferred);
    let steps = vec![deferred(0), deferred(1), deferred(2)];
    let program = Program::new(Kind::FullBlock, 1, steps);
    let thorough = Explorer::new(Model::Torn8).with_random_per_point(1_000);
    if let Err(failure) = thorough.explore(&program) {
        panic!("{failure}");
    }
    let behind = program.rows.lanes_with_records_behind();
    assert!(behind > 10, "images with records behind a torn one: {behind}");
}
