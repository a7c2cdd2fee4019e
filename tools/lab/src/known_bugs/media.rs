//! Errors, media and processes.

use journal_core::Durability::{Deferred, Durable};
use journal_core::{Overwrite, Rule};
use sim_disk::Mutation::{DropSync, SwapAcross};
use sim_disk::suite::{Edit, SUPERBLOCK_UNIT, Step};
use sim_disk::{Image, Mark, Operation};

use crate::core_crash::program::{Kind, Program};
use crate::known_bugs::bug::{Bug, Here};
use crate::known_bugs::make::{
    bug, commit, deferred, explorer, images, port, rule, rule_over_ports, site, write,
};
use crate::known_bugs::planted::Planted;
use crate::known_bugs::ports::Defect;
use crate::known_bugs::primitives::used_again;
use crate::known_bugs::protocol::second_lap;

use Edit::{Write, WriteAt};

const PROCESSES: &str = "crates/pmem-sys/tests/processes.rs";

/// Puts an earlier record in the place of the first one behind the head, whose own write went
/// astray, when the space has been freed.
fn write_goes_astray(image: &mut Image, history: &[Mark]) {
    let returned = history.iter().filter(|mark| matches!(mark, Mark::Returned(_)));
    if returned.count() == 5 {
        let lane = 2 * SUPERBLOCK_UNIT as usize;
        image.pmem_mut().copy_within(lane + 2 * 192..lane + 3 * 192, lane);
    }
}

fn streamed(blocks: &[usize], commits: bool) -> Step {
    let parts = blocks.iter().map(|block| vec![(*block, Write)]).collect();
    Step::Stream(0, parts, commits)
}

pub fn bugs() -> Vec<Bug> {
    let explorer = &explorer();
    let few = &explorer.clone().with_images_per_point_max(1 << 6).with_random_per_point(8);
    vec![
        bug(
            45,
            "redb, commit 3ca4467e",
            "after an error that passed, a clean end was noted",
            vec![rule_over_ports(Rule::Sticky, few, &{
                let both = |edit| commit(0, &[(0, edit), (1, edit)], Durable);
                let steps = vec![
                    both(Write),
                    Step::Checkpoint,
                    commit(0, &[(0, WriteAt)], Deferred),
                    commit(1, &[(1, WriteAt)], Durable),
                    deferred(0, 3),
                    Step::Sync,
                    Step::Batch,
                    Step::LetHeadsPass,
                    Step::Checkpoint,
                    Step::Sync,
                ];
                let program = Program::new(Kind::Words, 2, steps);
                let overwrite = Overwrite::MayLeaveGarbage;
                let program = Program { overwrite, batch: 1, ..program };
                let fails = |(operation, index)| Planted {
                    fails: Some((operation, index)),
                    goes_on: true,
                    ..Planted::new(program.clone())
                };
                let each = |operation| (0..6).map(move |index| (operation, index));
                let calls = [Operation::DiskWrite, Operation::DiskSync].into_iter().flat_map(each);
                calls.map(fails).collect::<Vec<_>>()
            })],
        ),
        bug(
            46,
            "raft-engine, commit 2e465e7; five databases (ATC 2020)",
            "a sync that had failed was called again, and that was taken for success",
            vec![port(Defect::SyncTriedAgain, explorer, {
                vec![Planted {
                    fails: Some((Operation::DiskSync, 0)),
                    ..Planted::new(used_again())
                }]
            })],
        ),
        bug(
            47,
            "rocksdb-js, HarperFast/rocksdb-js#748; Proton, timeplus-io/proton#1229",
            "what did not fit left a part of itself behind, and the next append followed that",
            vec![
                rule(Rule::LastPartAtCommit, explorer, images(vec![streamed(&[0, 1], false)])),
                rule(
                    Rule::PartsChained,
                    &explorer.clone().with_random_per_point(4_000),
                    images(vec![streamed(&[0], false), streamed(&[1, 2], true)]),
                ),
            ],
        ),
        bug(
            48,
            "TigerBeetle, CHANGELOG",
            "a write that had gone astray was taken for one that belongs there",
            vec![rule(
                Rule::PlaceChecked,
                &explorer.clone().with_damage(write_goes_astray),
                second_lap(),
            )],
        ),
        bug(
            49,
            "LMDB in ReOpenLDAP, erthink/ReOpenLDAP#1",
            "the root was durable before what it points to",
            vec![
                site("checkpoint.home", SwapAcross, explorer, &used_again()),
                site(
                    "log.sync",
                    DropSync,
                    explorer,
                    &Program::new(Kind::Logged, 1, vec![write(0, 0), write(0, 0)]),
                ),
            ],
        ),
        bug(
            50,
            "mrecordlog, quickwit-oss/mrecordlog#52; sequential-storage, CHANGELOG",
            "what was cancelled half way left memory and media at odds",
            vec![rule(
                Rule::SequencesUnbroken,
                explorer,
                images(vec![
                    write(0, 0),
                    streamed(&[1, 2], false),
                    commit(0, &[(3, Write)], Durable),
                ]),
            )],
        ),
        Bug {
            number: 51,
            source: "horus, softmata/horus#143",
            what: "a file was mapped before it had its length, and the first load was a SIGBUS",
            here: Here::Tested {
                by: &[(PROCESSES, "half_created_is_not_opened")],
                without: "the look at a file's length before it is mapped",
            },
        },
        Bug {
            number: 52,
            source: "SQLite, howtocorrupt",
            what: "locks vanish with any descriptor of the file, and do not know links and forks",
            here: Here::Tested {
                by: &[(PROCESSES, "second_open_is_busy"), (PROCESSES, "other_names_are_busy")],
                without: "the register of what this process has open (the first), the lock on the \
                          file's description (the second)",
            },
        },
    ]
}
