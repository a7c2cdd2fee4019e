//! Persistent memory: what is flushed, fenced and in which order.

use journal_core::Durability::Durable;
use journal_core::{Overwrite, Rule};
use sim_disk::Mutation::{DropFence, DropFlush, DropSync, ShortenRange, SwapAcross, WeakenFence};
use sim_disk::suite::{Edit, Step};

use crate::core_crash::program::{Kind, Program};
use crate::known_bugs::bug::Bug;
use crate::known_bugs::make::{
    bug, commit, deferred, explorer, images, port, rule, site, write, write_at,
};
use crate::known_bugs::planted::Planted;
use crate::known_bugs::ports::Defect;

/// A block in versions, which are folded into entries of slots and given back.
pub fn folded() -> Program {
    let begin = [write(0, 0), Step::Fold, write(0, 0), Step::Fold, Step::Checkpoint];
    let end = [write(0, 1), write(0, 1), write(0, 1), write(0, 2), write(0, 2)];
    let steps = begin.into_iter().chain(end).collect();
    Program { lane_slots: 2, ..Program::new(Kind::ByteDelta, 1, steps) }
}

/// Blocks whose only whole copy is at home, on a device that leaves garbage.
pub fn changes_go_home() -> Program {
    let both = |edit| commit(0, &[(0, edit), (1, edit)], Durable);
    let (first, second) = (both(Edit::Write), both(Edit::WriteAt));
    let steps = vec![first, Step::Checkpoint, second, Step::Checkpoint];
    let program = Program::new(Kind::Words, 1, steps);
    Program { overwrite: Overwrite::MayLeaveGarbage, ..program }
}

/// A journal whose space is used again.
pub fn used_again() -> Program {
    let fill = (0..4).map(|block| write(0, block));
    images(fill.chain([Step::Checkpoint, write(0, 0), write(0, 1)]).collect())
}

fn on_ports(steps: Vec<Step>) -> Vec<Planted> {
    vec![Planted::new(images(steps))]
}

pub fn bugs() -> Vec<Bug> {
    let explorer = &explorer();
    let two = || images(vec![write(0, 0), write(0, 1)]);
    let late = || images(vec![deferred(0, 0), write(0, 1)]);
    vec![
        bug(
            1,
            "PMDK, pmem/pmdk#5293",
            "a name made the fence behind non-temporal copies one to the compiler alone",
            vec![site("commit.fence", WeakenFence, explorer, &two())],
        ),
        bug(
            2,
            "PMDK, pmem/issues#1082",
            "where only the oldest flush is to be had, draining did nothing for copies past the \
             caches",
            vec![port(Defect::DrainEmpty, explorer, on_ports(vec![write(0, 0)]))],
        ),
        bug(
            3,
            "PMDK, commit dd5001272",
            "a log was invalidated before what was applied from it was durable",
            vec![site("checkpoint.sync", DropSync, explorer, &used_again())],
        ),
        bug(
            4,
            "PMDK, commit cfafbd04c",
            "two stores of metadata were in the wrong order",
            vec![site("slot.void", SwapAcross, explorer, &folded())],
        ),
        bug(
            5,
            "PMDK, commit ffbe4d995",
            "on Arm the flush went to the point of coherency, which is not that of persistence",
            vec![port(
                Defect::FlushFallsShort,
                explorer,
                on_ports(vec![deferred(0, 0), Step::Sync, deferred(0, 1), Step::Sync]),
            )],
        ),
        bug(
            6,
            "pmemstream, commits 60dff35 and b50740d",
            "an allocator's recovery asked the wrong list what is free",
            vec![rule(
                Rule::HoldersFound,
                explorer,
                Program::new(
                    Kind::ByteDelta,
                    1,
                    vec![write(0, 0), Step::Reopen, write(0, 1), write(0, 2)],
                ),
            )],
        ),
        bug(
            7,
            "NOVA, bug 2 of Chipmunk",
            "one branch returned before the flush",
            vec![site(
                "slot.rewrite.flush",
                DropFlush,
                explorer,
                &Program::new(Kind::ByteDelta, 1, vec![write(0, 0), write(0, 0), write(0, 0)]),
            )],
        ),
        bug(
            8,
            "NOVA-Fortis, bug 1 of Chipmunk",
            "no fence stood between a structure and its replica, and both tore together",
            vec![site("superblock.copy.fence", DropFence, explorer, &used_again())],
        ),
        bug(
            9,
            "PMFS, bug 4, and WineFS, bug 3 of Chipmunk",
            "the last line of what was not aligned was not flushed",
            vec![site("commit.front", ShortenRange, explorer, &two())],
        ),
        bug(
            10,
            "PMFS, bug 2, and WineFS, bug 2 of Chipmunk",
            "a write was acknowledged without a fence",
            vec![site("commit.fence", DropFence, explorer, &two())],
        ),
        bug(
            11,
            "NOVA, found by Vinter",
            "the last bytes of a copy past the caches went through them, and were not flushed",
            vec![port(Defect::StreamTailStored, explorer, on_ports(vec![write(0, 0)]))],
        ),
        bug(
            12,
            "FAST_FAIR, bug 3 of Witcher",
            "the line that was flushed was not the one that had been changed",
            vec![port(
                Defect::NeighbourFlushed,
                explorer,
                on_ports(vec![deferred(0, 0), Step::Sync, deferred(0, 1), Step::Sync]),
            )],
        ),
        bug(
            13,
            "NVSL, linux-nova#94",
            "of two pointers that belong together one was durable before the other",
            vec![
                rule(
                    Rule::HeadsTogether,
                    explorer,
                    Program::new(
                        Kind::FullBlock,
                        2,
                        vec![write(1, 0), write(0, 0), Step::Checkpoint],
                    ),
                ),
                site("deferred.flush", DropFlush, explorer, &late()),
            ],
        ),
        bug(
            14,
            "NOVA, the lite journal (as read in WineFS)",
            "what was undone was not durable when the journal's tail was reset",
            vec![site(
                "open.repeat.sync",
                DropSync,
                &explorer.clone().with_depth(1),
                &Program { steps_after: vec![write_at(0, 0)], ..changes_go_home() },
            )],
        ),
    ]
}
