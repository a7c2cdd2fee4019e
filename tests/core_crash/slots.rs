//! Slots: programs that keep versions there survive every crash, and need every rule of theirs.
//!
//! The traces are those that earlier texts of the protocol fell to, by their numbers.

use journal_core::Buffers;
use journal_core::Durability::{Deferred, Durable};
use journal_core::{Overwrite, Row, Rule};
use sim_disk::mutants::Mutant;
use sim_disk::suite::{Edit, Step, going_on};
use sim_disk::{Explorer, Model, Mutation, Mutator, Report, Scenario as _, World};

use crate::rules::{commit, explorer, needs, write, write_at};
use lab::core_crash::damage::rot_last_slot;
use lab::core_crash::program::{Kind, Program};

use Edit::{Append, Discard, Write};

fn byte_delta(lanes: u16, steps: Vec<Step>) -> Program {
    Program::new(Kind::ByteDelta, lanes, steps)
}

fn survives(explorer: &Explorer, program: &Program) -> Report {
    explorer.explore(program).unwrap_or_else(|failure| panic!("{failure}"))
}

fn deferred(lane: u16, block: usize) -> Step {
    commit(lane, &[(block, Write)], Deferred)
}

fn rewritten(times: usize) -> Vec<Step> {
    (0..times).map(|_| write(0, 0)).collect()
}

#[test]
fn a_block_that_is_rewritten_again_and_again_survives_every_crash() {
    let report = survives(&Explorer::new(Model::Torn8), &byte_delta(1, rewritten(4)));
    assert!(report.points_sampled == 0 && report.images > 1_000, "{report}");
}

#[test]
fn a_slot_counts_only_if_its_content_is_right() {
    needs(Rule::SlotCheck, &explorer(), &byte_delta(1, rewritten(2)));
}

/// A spill that no record names is not there after a crash, nor after a kill.
#[test]
fn a_spill_is_not_believed_before_a_record_names_it() {
    let spill = |block, commits| Step::Spill(0, block, commits);
    let steps = vec![write(0, 0), spill(0, false), spill(1, true), spill(0, false)];
    let program = Program::new(Kind::Lcow, 1, steps);
    needs(Rule::SpillsUnnamed, &explorer(), &program);
    let after = vec![spill(1, false), Step::Fold, spill(0, true)];
    let program = Program { steps_after: after, ..program };
    needs(Rule::SpillsUnnamed, &explorer().with_depth(1).with_kills(), &program);
}

#[test]
fn the_newest_version_is_never_written_over() {
    let steps = vec![write(0, 0), deferred(0, 0), deferred(0, 0), write(0, 1)];
    needs(Rule::NewestSpared, &explorer(), &byte_delta(1, steps));
}

/// H1b: a transaction is dropped for its slot, of which half is there; the next one rewrites that
/// slot, and a crash leaves just the half that was missing.
#[test]
fn a_transaction_dropped_for_its_slot_never_comes_back() {
    let steps = vec![write(0, 0), write(0, 0), write(0, 0)];
    let program = Program { steps_after: vec![write(0, 0)], ..byte_delta(1, steps) };
    needs(Rule::OlderEpochVoid, &explorer().with_depth(1).with_kills(), &program);
}

/// An open drops a record for its torn slot, and with it an append, of which the block is home. A
/// checkpoint writes over that home, and ends.
#[test]
fn an_append_that_an_open_dropped_holds_up_no_checkpoint() {
    let discard = commit(0, &[(0, Discard), (1, Discard)], Durable);
    let both = commit(0, &[(0, Edit::Overwrite), (1, Append)], Deferred);
    let program = byte_delta(1, vec![write(0, 0), Step::Fold, write(0, 0), discard, both]);
    survives(&explorer(), &going_on(&program));
}

/// H3: what covers a record in another lane is the name of the one that overwrote its block.
#[test]
fn an_acknowledged_transaction_is_not_dropped_for_a_slot_that_went_on() {
    let both = commit(0, &[(0, Write), (1, Write)], Durable);
    let steps = vec![both, write(1, 0), write(0, 0), write(1, 0)];
    survives(&explorer(), &byte_delta(2, steps));
}

/// H12: changes lie on a slot that a crash has torn.
#[test]
fn the_slot_below_a_change_is_looked_at_as_well() {
    let patch = commit(0, &[(0, Edit::WriteAt)], Durable);
    for first in [deferred(0, 0), write(0, 0)] {
        let steps = vec![first, patch.clone()];
        needs(Rule::SlotCheck, &explorer(), &byte_delta(1, steps));
    }
}

/// H12: one fence for two versions in two slots, and the first one's slot is written again.
#[test]
fn only_the_slots_that_newest_content_is_built_from_are_looked_at() {
    let steps = vec![deferred(0, 0), deferred(0, 0), Step::Sync, write(0, 0), write(0, 0)];
    survives(&explorer(), &byte_delta(1, steps));
}

/// H10: a block is discarded while it may be read, and appended to at home.
#[test]
fn an_append_goes_home_only_to_a_block_that_is_not_live() {
    let append = commit(0, &[(0, Append)], Durable);
    // The other block shows whether the discard is there.
    let discard = |durability| commit(0, &[(0, Discard), (1, Write)], durability);
    let steps = vec![write(0, 0), Step::Checkpoint, discard(Deferred), append.clone()];
    needs(Rule::AppendsNotLive, &explorer(), &byte_delta(1, steps));
    for between in [vec![], vec![Step::Batch], vec![Step::Checkpoint], vec![Step::Reopen]] {
        let begin = vec![write(0, 0), discard(Durable)];
        let end = vec![append.clone(), write_at(0, 0), Step::Checkpoint, write(0, 0)];
        survives(&explorer(), &byte_delta(1, [begin, between, end].concat()));
    }
}

/// H10: the shield still has an image of the block from before it was discarded.
#[test]
fn an_append_at_home_is_not_undone_by_an_older_intent() {
    let append = commit(0, &[(0, Append)], Durable);
    let discard = commit(0, &[(0, Discard), (1, Write)], Durable);
    let steps = vec![write(0, 0), Step::Checkpoint, write_at(0, 0), Step::Batch, discard, append];
    let program = byte_delta(1, steps);
    survives(&explorer(), &Program { overwrite: Overwrite::MayLeaveGarbage, ..program });
    // But one of what lies on top of it is.
    let append = commit(0, &[(0, Append)], Durable);
    let program = byte_delta(1, vec![append, write_at(0, 0), Step::Batch]);
    survives(&explorer(), &Program { overwrite: Overwrite::MayLeaveGarbage, ..program });
}

/// Slots are folded, and the ring goes on.
fn folded() -> Vec<Step> {
    vec![write(0, 0), write(0, 1), Step::Fold, write(0, 0), Step::Fold]
}

#[test]
fn folding_survives_every_crash() {
    let program = Program { steps_after: vec![write(0, 0), Step::Fold], ..byte_delta(1, folded()) };
    survives(&explorer().with_depth(1).with_kills(), &program);
    let more = vec![write(1, 0), Step::Fold, write(0, 0), Step::Fold, write(1, 0), write(0, 0)];
    let program = byte_delta(2, [folded(), more].concat());
    survives(&explorer().with_kills(), &program);
}

/// H15: an entry is torn by a crash while the frame that it is made of is still there; the next
/// fold covers a newer version only, and the heads pass both.
#[test]
fn a_torn_entry_is_voided_before_the_heads_pass_its_frame() {
    let steps = vec![write(0, 0), Step::Fold];
    let steps_after = vec![write(0, 0), Step::Fold, Step::Reopen];
    let program = Program { steps_after, ..byte_delta(1, steps) };
    needs(Rule::TornEntriesVoided, &explorer(), &program);
}

/// H16: a folded block goes home and is freed, in whatever order its versions lie.
fn freed(lanes: u16) -> Program {
    let rewritten = [write(0, 0), Step::Fold, write(lanes - 1, 0), Step::Fold, write(0, 0)];
    let end = [Step::Checkpoint, write(0, 1), write(lanes - 1, 2), Step::Reopen];
    byte_delta(lanes, rewritten.into_iter().chain(end).collect())
}

#[test]
fn freeing_a_folded_block_survives_every_crash() {
    for lanes in [1, 2] {
        survives(&explorer().with_kills(), &freed(lanes));
    }
}

#[test]
fn a_slot_is_free_only_when_its_void_entry_is_durable() {
    let begin = [write(0, 0), Step::Fold, write(0, 0), Step::Fold, Step::Checkpoint];
    let end = [write(0, 1), write(0, 1), write(0, 1), write(0, 2), write(0, 2)];
    let steps: Vec<_> = begin.into_iter().chain(end).collect();
    let few = Program { lane_slots: 2, ..byte_delta(1, steps) };
    needs(Rule::VoidsFenced, &explorer(), &few);
}

/// An older version of the block is still in a ring, held there by a change of another block, when
/// the entry of the newest one could go: the block is home.
#[test]
fn the_entry_of_the_newest_version_stays_while_older_frames_do() {
    // The second call gives its word as a patch, which goes into the record.
    let steps =
        vec![write(1, 2), write_at(0, 1), write(0, 0), write(1, 0), Step::Fold, Step::Evict];
    needs(Rule::NewestVoidedLast, &explorer(), &byte_delta(2, steps));
}

#[test]
fn garbage_collection_survives_every_crash() {
    let begin = [rewritten(3), vec![Step::Fold], rewritten(1), vec![Step::Garbage]].concat();
    let end = vec![write(0, 1), write(0, 0), write(0, 1), Step::Garbage, write(0, 2), write(0, 3)];
    let program = byte_delta(1, [begin, end].concat());
    survives(&explorer().with_kills(), &Program { lane_slots: 3, ..program });
}

/// S3: the version in a slot is dropped by a fold while the slot's entry still says an older
/// version of the block. Whatever takes the slot then must not lose its own entry to that one's
/// end.
#[test]
fn a_slot_is_free_only_when_no_entry_names_it() {
    let begin = [rewritten(1), vec![Step::Fold], rewritten(3), vec![Step::Fold]].concat();
    let end = vec![write(0, 1), Step::Fold, Step::Garbage, Step::Reopen];
    let program = byte_delta(1, [begin, end].concat());
    survives(&explorer(), &program);
}

/// H18 and H20 with slots: partial checkpoints, and blocks at home that are written again.
#[test]
fn partial_checkpoints_of_slots_make_no_state_that_never_was() {
    for batch in [1, 2] {
        for (first, second) in [(0, 1), (1, 0)] {
            let both = commit(first, &[(0, Write), (1, Write)], Durable);
            let patch = commit(first, &[(0, Edit::WriteAt)], Durable);
            let steps = vec![
                both,
                write(second, 0),
                patch,
                Step::Batch,
                Step::LetHeadsPass,
                write(second, 1),
                Step::Fold,
                Step::Batch,
                Step::LetHeadsPass,
                write(first, 0),
            ];
            let program = Program { batch, ..byte_delta(2, steps) };
            let program = Program { overwrite: Overwrite::MayLeaveGarbage, ..program };
            survives(&explorer(), &program);
        }
    }
}

/// However full a lane is: an active slot outlives the checkpoint that makes room for its record.
#[test]
fn an_active_slot_outlives_the_checkpoint_that_makes_room_for_it() {
    let explorer = explorer().with_images_per_point_max(1 << 4).with_random_per_point(4);
    for written in 0..8 {
        let mut steps = vec![write(0, 0); written];
        steps.push(Step::Active(0, 1, Durable));
        survives(&explorer, &Program::new(Kind::Lcow, 1, steps));
    }
}

/// Content is written to a slot and changed there before a record names it.
#[test]
fn active_slots_survive_every_crash() {
    let active = |block, durability| Step::Active(0, block, durability);
    let steps = vec![
        write(0, 0),
        active(0, Durable),
        active(1, Deferred),
        active(0, Durable),
        Step::Rings,
        active(1, Durable),
    ];
    let program = Program::new(Kind::Lcow, 1, steps);
    let program = Program { steps_after: vec![active(0, Durable), Step::Fold], ..program };
    survives(&explorer().with_kills(), &program);
    // A slot that is not flushed with the record is noticed.
    let sites = journal_core::SITES.iter().copied().flatten();
    let site = sites.copied().find(|site| site.name == "slot.deferred.flush").expect("declared");
    let mutator = Mutator::with(Mutant { site, mutation: Mutation::DropFlush });
    let broken = Program { mutator: mutator.clone(), ..byte_delta(1, vec![active(0, Durable)]) };
    assert!(explorer().explore(&broken).is_err() && mutator.fired() > 0);
}

#[test]
fn the_rings_of_lcow_are_emptied_without_a_write_of_data() {
    let steps = vec![write(0, 0), write(0, 1), write(0, 0), Step::Rings, write(0, 2), Step::Evict];
    let program = Program { steps_after: vec![Step::Rings], ..Program::new(Kind::Lcow, 1, steps) };
    survives(&explorer().with_kills(), &program);
}

/// What a watermark covers is never dropped for its slot.
#[test]
fn the_rot_of_a_slot_is_an_error() {
    for fold in [false, true] {
        let mut steps = vec![write(0, 0), write(0, 1)];
        steps.extend(fold.then_some(Step::Fold));
        let program = Program { may_report_rot: true, ..byte_delta(1, steps) };
        survives(&explorer().with_damage(rot_last_slot::<2>), &program);
        assert!(program.rows.counts()[Row::RottenSlot as usize].1 > 0);
    }
}

#[test]
fn a_lane_ends_before_a_record_whose_slot_is_torn() {
    let program = byte_delta(1, vec![write(0, 0), deferred(0, 0), deferred(0, 1)]);
    survives(&explorer(), &program);
    let [.., (row, torn), _] = program.rows.counts();
    assert!(row == Row::TornSlot && torn > 10, "{torn}");
}
/// What went home through the shield is given up, and appended to: the intent, which is believed
/// until a head moves, is not repeated over that.
#[test]
fn an_append_is_not_written_over_by_an_older_intent() {
    let patch = commit(0, &[(0, Edit::WriteAt)], Durable);
    let discard = commit(0, &[(0, Discard)], Durable);
    let append = commit(0, &[(0, Append)], Durable);
    for more in [vec![], vec![patch.clone()], vec![Step::Reopen], vec![write(0, 0)]] {
        // The second call is a patch, and lies on what is home.
        let begin =
            [write(0, 3), patch.clone(), Step::Batch, Step::Batch, discard.clone(), append.clone()];
        survives(&explorer(), &byte_delta(1, [&begin[..], &more].concat()));
    }
}

/// The entry of an older version still names a slot when the version that was written over it
/// leaves the ring: the slot is not another block's yet, whose entry would be voided in its stead.
#[test]
fn a_slot_is_not_free_while_an_older_entry_names_it() {
    let both = commit(0, &[(0, Write), (3, Write)], Durable);
    let begin = [write(0, 3), Step::Fold, write(0, 0), write(0, 3), write(0, 3), both, Step::Fold];
    for last in [Step::Garbage, Step::Fold] {
        let end = [write(0, 1), Step::Fold, last, Step::Rings];
        let program = byte_delta(1, begin.iter().cloned().chain(end).collect());
        let program = Program { lane_slots: 1, batch: 1, lane_bytes: 16 * 192, ..program };
        survives(&explorer(), &program);
    }
}

/// The head stands before a block that was discarded, and versions of another gather behind it. The
/// one that was folded lies between those whose frames are dropped, and stays known: its slot's
/// entry still names it.
#[test]
fn a_folded_version_stays_known_among_those_that_are_dropped() {
    let steps = [
        commit(0, &[(3, Discard)], Durable),
        write(0, 0),
        write(0, 0),
        Step::Fold,
        write(0, 0),
        commit(0, &[(3, Edit::Overwrite)], Durable),
        write(0, 3),
        write(0, 0),
        Step::LetHeadsPass,
    ];
    let program = byte_delta(1, steps.to_vec());
    let program = Program { lane_slots: 2, batch: 1, lane_bytes: 16 * 192, ..program };
    let world = World::boot(program.start(), Model::Torn8);
    let mut buffers = Buffers::new(&program.geometry(), 64, program.batch);
    let mut journal = program.open(&world, program.policy, buffers.borrow()).expect("opens");
    for step in &steps {
        program.step(&world, &mut journal, step).expect("works");
        journal.audit().unwrap_or_else(|error| panic!("{step:?}: {error}"));
    }
    survives(&explorer(), &program);
}
