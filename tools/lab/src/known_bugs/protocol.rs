//! Journals and logs: sequences, epochs, heads, and what may be dropped.

use journal_core::Durability::Durable;
use journal_core::{Overwrite, Rule};
use sim_disk::Mutation::{DropFlush, WeakenFence};
use sim_disk::suite::{Edit, Step};
use sim_disk::{Explorer, Model, Operation};

use crate::core_crash::format::{Reformat, rot_the_new_copy};
use crate::core_crash::program::{Kind, Program};
use crate::known_bugs::bug::Bug;
use crate::known_bugs::make::{
    at, bug, commit, deferred, explorer, images, port, rule, rule_in, site, write, write_at,
};
use crate::known_bugs::planted::Planted;
use crate::known_bugs::ports::Defect;
use crate::known_bugs::primitives::{changes_go_home, folded, used_again};

use Edit::{Append, Discard, Write};

/// Two records are stored and not fenced; a crash keeps only the second, an open shows both absent;
/// the next record takes the place of the first.
fn stale_behind_new() -> Program {
    Program { steps_after: vec![write(0, 0)], ..images(vec![deferred(0, 0), deferred(0, 1)]) }
}

/// The ring has gone round; of two records that are not durable a crash may lose the first, and
/// where it was lies one of an earlier lap.
pub fn second_lap() -> Program {
    let lap = (0..4).map(|block| write(0, block));
    let two = [Step::Checkpoint, deferred(0, 0), deferred(0, 1)];
    images(lap.chain(two).collect())
}

/// An intent of a block that is given up, and then appended to at home.
fn appended_over_an_intent() -> Program {
    let patch = write_at(0, 0);
    let discard = commit(0, &[(0, Discard)], Durable);
    let append = commit(0, &[(0, Append)], Durable);
    let steps = vec![write(0, 3), patch, Step::Batch, Step::Batch, discard, append];
    let program = Program::new(Kind::ByteDelta, 1, steps);
    Program { overwrite: Overwrite::MayLeaveGarbage, ..program }
}

/// Of two blocks one is home when the lane is cut.
fn cut() -> Program {
    let steps = vec![write(0, 0), write(0, 1), Step::Batch, Step::LetHeadsPass];
    Program { batch: 1, ..images(steps) }
}

/// A transaction of two blocks, one of which was written again through another lane, when a lane
/// that the other one holds is cut.
fn cut_across() -> Vec<Program> {
    let program = |last: &[Step]| {
        let both = commit(0, &[(0, Write), (1, Write)], Durable);
        let steps = [both, write(1, 0), write_at(0, 0)].into_iter().chain(last.iter().cloned());
        let steps = steps.chain([Step::Batch, Step::LetHeadsPass]).collect();
        Program { batch: 1, ..Program::new(Kind::Words, 2, steps) }
    };
    // Either block may be the one that goes home.
    vec![program(&[]), program(&[write_at(0, 1)])]
}

/// The journal with a call that fails.
fn failing(program: Program, operation: Operation, indexes: core::ops::Range<u64>) -> Vec<Planted> {
    let fails =
        |index| Planted { fails: Some((operation, index)), ..Planted::new(program.clone()) };
    indexes.map(fails).collect()
}

/// A lane that is full to the line, and one record more. It takes a checkpoint in between.
fn full_to_the_line() -> Vec<Program> {
    let program = |lines: u64| {
        let steps = (0..5).map(|number| write(0, number % 4)).collect();
        Program { lane_bytes: lines * 64, ..images(steps) }
    };
    (3..=12).map(program).collect()
}

pub fn bugs() -> Vec<Bug> {
    let all = [sequences(), heads(), records()];
    all.into_iter().flatten().collect()
}

fn sequences() -> Vec<Bug> {
    let explorer = &explorer();
    let deep = &explorer.clone().with_depth(1);
    let streamed = |blocks: &[usize], commits| {
        let parts = blocks.iter().map(|block| vec![(*block, Write)]).collect();
        Step::Stream(0, parts, commits)
    };
    vec![
        bug(
            15,
            "jbd2, commit c0a2ad9b50dd",
            "a clean end noted an old id, and what was older became valid again",
            vec![rule(
                Rule::StampFloor,
                explorer,
                images(vec![
                    write(0, 0),
                    write(0, 1),
                    write(0, 1),
                    Step::Relog(0, true),
                    Step::Reopen,
                    write(0, 2),
                ]),
            )],
        ),
        bug(
            21,
            "RocksDB, facebook/rocksdb#12918 and #12489",
            "recovery went on behind a hole in recycled logs",
            vec![rule(Rule::PlaceChecked, explorer, second_lap())],
        ),
        bug(
            22,
            "LevelDB, google/leveldb#1287",
            "a log that ended in a torn record was appended to",
            vec![rule(Rule::OlderEpochVoid, deep, stale_behind_new())],
        ),
        bug(
            23,
            "LevelDB, google/leveldb#1285; raft-engine, commit 5c71a53",
            "a read that failed, or was short, was taken for the end of the log",
            vec![port(Defect::ReadErrorIsEnd, explorer, {
                let program = images(vec![write(0, 0), write(0, 1)]);
                let fails =
                    |index| Planted { read_fails: Some(index), ..Planted::new(program.clone()) };
                (0..16).map(fails).collect()
            })],
        ),
        bug(
            24,
            "SQLite 3.7.0 to 3.51.2, the WAL-reset bug",
            "a checkpoint did not see that the log had been reset since",
            vec![rule(Rule::ShieldFloor, explorer, {
                let mut program = changes_go_home();
                program.steps.extend([write(0, 0), write(0, 1), Step::Checkpoint]);
                program
            })],
        ),
        bug(
            25,
            "SQLite, ticket 5d863f876e",
            "a counter of changes began anew, and an old value came again",
            vec![rule(
                Rule::StampAbove,
                explorer,
                Program::new(Kind::FullBlock, 2, vec![write(0, 0), write(0, 0), write(1, 0)]),
            )],
        ),
        bug(
            27,
            "sled, commit d64c36a9",
            "of what was given up only a part was made void, and old messages came back",
            vec![
                at(
                    "superblock.void",
                    DropFlush,
                    &Explorer::new(Model::Torn8).with_damage(rot_the_new_copy),
                    |mutator| Box::new(Reformat { mutator }),
                ),
                rule(Rule::EpochRaised, deep, stale_behind_new()),
            ],
        ),
        bug(
            30,
            "okaywal 0.3.1 and 0.2.0",
            "when the first entry was given up, those after it were skipped",
            vec![rule(
                Rule::SequencesUnbroken,
                explorer,
                images(vec![streamed(&[0], false), write(0, 1)]),
            )],
        ),
    ]
}

fn heads() -> Vec<Bug> {
    let explorer = &explorer();
    vec![
        bug(
            16,
            "jbd, commit fd2cbd4dfa3d",
            "the log's tail was not durable when its space was used again",
            vec![
                port(Defect::HeadsNotWritten, explorer, vec![Planted::new(used_again())]),
                site("superblock.copy.fence", WeakenFence, explorer, &used_again()),
            ],
        ),
        bug(
            18,
            "jbd2, commit 44519faf22ad",
            "the log's tail went on although a block could not be written home",
            vec![port(
                Defect::WriteErrorSwallowed,
                explorer,
                failing(used_again(), Operation::DiskWrite, 0..2),
            )],
        ),
        bug(
            19,
            "jbd2, commit 6f6a6fda2945",
            "nobody was told that the journal's superblock could not be written",
            vec![port(Defect::HeadErrorSwallowed, explorer, {
                let fill = (0..4).map(|block| write(0, block));
                let steps = fill.chain([Step::Checkpoint, deferred(0, 0)]).collect();
                failing(images(steps), Operation::Fence, 6..9)
            })],
        ),
        bug(
            20,
            "jbd2, commit 904cdbd41d74",
            "a block that had been given up was written over from the log",
            vec![rule(Rule::AppendsNotRepeated, explorer, appended_over_an_intent())],
        ),
        bug(
            26,
            "Commonware, commonwarexyz/monorepo#4294",
            "space was used again before its release was durable, and showed what is another's",
            vec![rule(Rule::VoidsFenced, explorer, folded())],
        ),
        bug(
            28,
            "raft-engine 0.4.0, commits 2c76690 and 3353011",
            "a part of an atomic group was dropped from the log",
            vec![
                rule(Rule::CutKeepsNeeded, explorer, cut()),
                rule_in(&[], Rule::CutDropsOlder, explorer, &cut_across()),
            ],
        ),
    ]
}

fn records() -> Vec<Bug> {
    let explorer = &explorer();
    vec![
        bug(
            17,
            "jbd2, commit db9ee220361d",
            "with a feature on, the size of entries was computed wrongly",
            vec![port(
                Defect::StrideTooLong,
                explorer,
                vec![Planted::new(images(vec![write(0, 0), write(0, 1)]))],
            )],
        ),
        bug(
            29,
            "raft-engine, commit 0e066f8",
            "a log's header was not durable before its first record",
            vec![port(Defect::OpenNotWritten, explorer, {
                let program = images(vec![write(0, 0)]);
                vec![Planted::new(Program { steps_after: vec![write(0, 1)], ..program })]
            })],
        ),
        bug(
            31,
            "WineFS, bug 1 of Chipmunk",
            "recovery read the first processor's journal for each of them",
            vec![port(Defect::FirstLaneForAll, explorer, {
                let steps = vec![write(0, 0), write(1, 1)];
                vec![Planted::new(Program::new(Kind::FullBlock, 2, steps))]
            })],
        ),
        bug(
            32,
            "NOVA-Fortis, bug 2 of Chipmunk (linux-nova#100, #109)",
            "a check was right over what was only half there",
            vec![
                port(
                    Defect::ContentUnchecked,
                    explorer,
                    vec![Planted::new(images(vec![write(0, 0)]))],
                ),
                rule(Rule::RecordCheck, explorer, images(vec![write(0, 0)])),
                rule(
                    Rule::SlotCheck,
                    explorer,
                    Program::new(Kind::ByteDelta, 1, vec![write(0, 0), write(0, 0)]),
                ),
            ],
        ),
        bug(
            33,
            "PMDK, pmem/pmdk#5461 and #5465",
            "recovery dealt with the first part of a log and forgot the others",
            vec![port(Defect::FirstImageOnly, explorer, vec![Planted::new(changes_go_home())])],
        ),
        bug(
            34,
            "PMDK, commit 7b1aa3f4a, pmem/pmdk#4403; DAOS, daos-stack/daos#11593",
            "an end was off by one: what fits exactly, and what is one too long",
            vec![
                rule_in(&[], Rule::LastLineChecked, explorer, &full_to_the_line()),
                rule_in(&[], Rule::SpaceChecked, explorer, &full_to_the_line()),
            ],
        ),
        bug(
            35,
            "HSE, hse-project/hse#471",
            "a header was rewritten in place, and a crash tore it from its check",
            vec![port(Defect::OneCopyInPlace, explorer, {
                let mut program = used_again();
                program.steps.push(Step::Reopen);
                vec![Planted::new(program)]
            })],
        ),
    ]
}
