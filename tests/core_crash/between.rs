//! H11: payloads that make sense on one image only, over homes that may be older, newer or torn.

use journal_core::policy::{ApplyError, Encoder, Placement, Policy, PolicyId, Update};
use journal_core::{Overwrite, Rule};
use policy_codec::xor;
use sim_disk::suite::{Edit, Program as ProgramOf, Step};
use sim_disk::{Explorer, Report, Scenario};

use crate::rules::{commit, explorer, needs, write, write_at};
use lab::core_crash::program::{Kind, Program};

use Edit::{Discard, Overwrite as Whole, Write};
use journal_core::Durability::{Deferred, Durable};

/// The difference of both images and nothing else: it does not say between which ones it lies.
#[derive(Clone, Copy, Debug)]
struct Blind;

impl Policy for Blind {
    fn id(&self) -> PolicyId {
        PolicyId(0x7E59)
    }

    fn place(&self, update: &Update<'_>, out: &mut Encoder<'_>) -> Placement {
        let (Some(new), Some(old)) = (update.change.image(), update.old) else {
            return Placement::Image;
        };
        let mut both = new.to_vec();
        let put = xor::in_place(&mut both, old).is_ok() && out.put(&both).is_ok();
        if put { Placement::Encoded } else { Placement::Image }
    }

    fn apply(&self, payload: &[u8], block: &mut [u8]) -> Result<(), ApplyError> {
        Ok(xor::in_place(block, payload)?)
    }
}

/// Deltas over a home, which a checkpoint makes newer than some of them.
fn over_home() -> Vec<Step> {
    let patched = [write(0, 0), Step::Checkpoint, write_at(0, 0), write(0, 0)];
    patched.into_iter().chain([Step::Checkpoint, write(0, 0)]).collect()
}

fn delta(lanes: u16, steps: Vec<Step>) -> Program {
    Program::new(Kind::CompressedDelta, lanes, steps)
}

fn survives(explorer: &Explorer, program: &impl Scenario) -> Report {
    explorer.explore(program).unwrap_or_else(|failure| panic!("{failure}"))
}

#[test]
fn differences_survive_every_crash_before_inside_and_after_a_home_write() {
    for overwrite in [Overwrite::NeverInPlace, Overwrite::OldOrNew, Overwrite::MayLeaveGarbage] {
        let program =
            Program { overwrite, steps_after: vec![write(0, 0)], ..delta(1, over_home()) };
        survives(&explorer().with_kills(), &program);
    }
    let short = vec![write(0, 0), write(0, 0), Step::Checkpoint];
    let program = Program { overwrite: Overwrite::MayLeaveGarbage, ..delta(1, short) };
    survives(&explorer().with_kills().with_depth(1), &program);
}

#[test]
fn a_difference_that_does_not_say_what_it_lies_between_is_applied_twice() {
    // Not because it is torn: a block is old or new here.
    let program = ProgramOf::new(Blind, 1, over_home());
    let program = ProgramOf { overwrite: Overwrite::NeverInPlace, ..program };
    assert!(explorer().explore(&program).is_err());
}

/// Unlike runs of bytes, whose home may be torn into old and new sectors.
#[test]
fn the_home_of_a_difference_is_shielded_on_every_device_that_tears() {
    for overwrite in [Overwrite::OldOrNew, Overwrite::MayLeaveGarbage] {
        let program = Program { overwrite, ..delta(1, over_home()) };
        needs(Rule::ShieldFirst, &explorer(), &program);
    }
}

#[test]
fn differences_lie_on_the_log_and_on_each_other() {
    let whole = commit(0, &[(0, Whole)], Durable);
    let both = |lane| commit(lane, &[(0, Write), (1, Whole)], Durable);
    let deferred = commit(0, &[(0, Write)], Deferred);
    let steps = vec![whole, write(0, 0), both(1), deferred, both(0), Step::Fold, write(1, 0)];
    survives(&explorer().with_kills(), &delta(2, steps));
    for end in [Step::Clean, Step::Rings, Step::Checkpoint, Step::Reopen] {
        let steps = vec![both(0), write(0, 0), write(0, 1), end.clone(), write(0, 0), write(0, 1)];
        let program = Program { lane_segments: 1, ..delta(1, [steps, vec![end]].concat()) };
        let overwrite = Overwrite::MayLeaveGarbage;
        survives(&explorer(), &Program { overwrite, ..program });
    }
}

#[test]
fn partial_checkpoints_of_differences_make_no_state_that_never_was() {
    for batch in [1, 2] {
        let both = commit(0, &[(0, Write), (1, Write)], Durable);
        let discard = commit(1, &[(1, Discard)], Durable);
        let begin = vec![both.clone(), write(1, 0), Step::Batch, Step::LetHeadsPass, write(0, 1)];
        let end = vec![write(1, 0), Step::Batch, discard, write(0, 0), Step::LetHeadsPass, both];
        let program = Program { batch, ..delta(2, [begin, end].concat()) };
        survives(&explorer(), &Program { overwrite: Overwrite::MayLeaveGarbage, ..program });
    }
}

/// Two levels: sub-blocks in memory, blocks on the disk, and memory that is full.
#[test]
fn two_levels_survive_every_crash() {
    let whole = |lane| commit(lane, &[(0, Whole), (1, Write)], Durable);
    let steps = vec![whole(0), write(0, 0), write_at(1, 1), Step::Rings, write(0, 1), whole(1)];
    for end in [Step::Clean, Step::Checkpoint, Step::Garbage] {
        let steps = [steps.clone(), vec![end, write(0, 0)]].concat();
        let program = Program::new(Kind::TwoLevel, 2, steps);
        survives(&explorer(), &Program { overwrite: Overwrite::MayLeaveGarbage, ..program });
    }
    // Three lines at a time: the fourth transaction finds room for a frame that names the log.
    let steps = (0..5).map(|_| write(0, 0)).collect();
    let program = Program { lane_bytes: 5 * 128, ..Program::new(Kind::TwoLevel, 1, steps) };
    survives(&explorer().with_kills(), &program);
}
