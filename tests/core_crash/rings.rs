//! Random lives of journals of rings alone, with partial checkpoints, and an index that is often as
//! small as can be: it forgets what is covered, and is built anew, in as little memory.

use journal_core::Durability::{Deferred, Durable};
use journal_core::{Overwrite, Protocol, Rule};
use sim_disk::Mutator;
use sim_disk::generate::{Source, check};
use sim_disk::suite::oracle::BLOCKS;
use sim_disk::suite::{Edit, Step};

use lab::core_crash::lives::{Plan, edits, live};
use lab::core_crash::program::{Kind, Program};

/// More often than not the same few blocks are written.
fn step(source: &mut Source, some: &[Edit]) -> Step {
    let lane = source.below(3) as u16;
    let which = source.below(24);
    match which {
        0..=14 => {
            let edits = match source.below(4) {
                0 => edits(source, some),
                1 => vec![(source.index(BLOCKS), *source.pick(some))],
                _ => vec![(source.index(2), *source.pick(some))],
            };
            Step::Commit(lane, edits, if which < 12 { Durable } else { Deferred })
        }
        15..=18 => Step::Batch,
        19 | 20 => Step::LetHeadsPass,
        21 => Step::Relog(lane, false),
        22 => source.pick(&[Step::Sync, Step::Checkpoint]).clone(),
        _ => Step::Reopen,
    }
}

fn journal(source: &mut Source) -> Program {
    let kind = *source.pick(&[Kind::FullBlock, Kind::Words, Kind::ObjectLog]);
    let lanes = 1 + source.below(3) as u16;
    Program {
        batch: 1 + source.index(2),
        lane_bytes: *source.pick(&[4 * 192, 8 * 192, 16 * 192, 40 * 192]),
        overwrite: *source.pick(&[Overwrite::OldOrNew, Overwrite::MayLeaveGarbage]),
        protocol: *source.pick(&[Protocol::OneFence, Protocol::OneFence, Protocol::TailPointer]),
        ..Program::new(kind, lanes, Vec::new())
    }
}

fn long_life(source: &mut Source) -> Result<(), String> {
    let program = &journal(source);
    let frames = *source.pick(&[64, 3, 4, 5, 6, 8, 10, 14]);
    live(source, &Plan { program, frames, steps: 40, next: step })
}

#[test]
fn long_lives_of_rings_survive() {
    check(1, 3_000, long_life).unwrap_or_else(|found| panic!("{found}"));
}

/// Long lives find what the index has forgotten and should not have.
#[test]
fn long_lives_of_rings_need_a_frame_of_each_lane() {
    let found = check(1, 3_000, |source| {
        let mutator = Mutator::without(&[Rule::OneOfEachLane]);
        let program = &Program { mutator, ..journal(source) };
        live(source, &Plan { program, frames: 64, steps: 40, next: step })
    });
    assert!(found.is_err(), "the rule is off, and nothing notices");
}
