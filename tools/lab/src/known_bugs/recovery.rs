//! Recovery.

use journal_core::Durability::{Deferred, Durable};
use journal_core::{Overwrite, Rule};
use sim_disk::Mutation::{DropFlush, SwapAcross};
use sim_disk::suite::{Edit, SUPERBLOCK_UNIT, Step};
use sim_disk::{Image, Mark};

use crate::core_crash::program::{Kind, Program};
use crate::known_bugs::bug::{Bug, Here};
use crate::known_bugs::make::{
    bug, commit, deferred, explorer, images, port, rule, rule_in, rule_over_ports, site, write,
    write_at,
};
use crate::known_bugs::planted::Planted;
use crate::known_bugs::ports::Defect;
use crate::known_bugs::primitives::changes_go_home;

/// Moves the head of lane 0 past its first record, in both superblock copies, and leaves their
/// checks as they are.
fn move_the_head(image: &mut Image, history: &[Mark]) {
    let returned = history.iter().filter(|mark| matches!(mark, Mark::Returned(_)));
    if returned.count() < 2 {
        return;
    }
    for copy in [0, SUPERBLOCK_UNIT as usize] {
        let note = &mut image.pmem_mut()[copy + 128..copy + 144];
        note[..8].copy_from_slice(&192_u64.to_le_bytes());
        note[8..].copy_from_slice(&2_u64.to_le_bytes());
    }
}

pub fn bugs() -> Vec<Bug> {
    let explorer = &explorer();
    let deep = &explorer.clone().with_depth(1);
    vec![
        bug(
            36,
            "redb, commit 8e04e95b (cberner/redb#1290)",
            "recovery gave what was torn a check that was right",
            vec![rule(Rule::DurableIsCopied, explorer, {
                let half = [(0, Edit::WriteAt), (2, Edit::Write)];
                let begin = vec![write(0, 0), write(0, 1), write(0, 1)];
                let end = vec![commit(1, &half, Deferred), Step::Relog(0, true)];
                Program::new(Kind::Words, 2, [begin, end].concat())
            })],
        ),
        bug(
            37,
            "redb, CHANGELOG of 4.3.0",
            "after a repair a crash took back what was committed since",
            vec![site(
                "open.found",
                DropFlush,
                &explorer.clone().with_kills().with_depth(1),
                &Program { steps_after: vec![write(0, 1)], ..images(vec![write(0, 0)]) },
            )],
        ),
        bug(
            38,
            "redb, commit fd82cedb",
            "a header said that the file is longer than it was",
            vec![rule_over_ports(
                Rule::PartnersChecked,
                explorer,
                &[Planted { disk_shrinks: true, ..Planted::new(images(vec![write(0, 0)])) }],
            )],
        ),
        bug(
            39,
            "redb, commits 88881b80 and 9e6d5936",
            "fields of a header that no check covers were believed",
            vec![port(
                Defect::HeaderUnchecked,
                &explorer.clone().with_damage(move_the_head),
                vec![Planted {
                    may_refuse: true,
                    ..Planted::new(images(vec![write(0, 0), write(0, 1)]))
                }],
            )],
        ),
        Bug {
            number: 40,
            source: "redb, commit 88868bf0 and #1332",
            what: "pointers in a circle made recovery go on for ever",
            here: Here::Absent(
                "no structure on the media points to another one of its kind: records follow each \
                 other by position, and a frame names a slot, which names nothing; \
                 tests/hostile_media holds every open of damaged and forged media to a number of \
                 reads",
            ),
        },
        bug(
            41,
            "PMFS, bug 1, and NOVA, bug 3 of Chipmunk",
            "the steps of recovery were in the wrong order",
            vec![
                site(
                    "open.found",
                    SwapAcross,
                    &explorer.clone().with_kills().with_depth(1),
                    &Program { steps_after: vec![write(0, 1)], ..images(vec![write(0, 0)]) },
                ),
                site(
                    "open.repeat",
                    SwapAcross,
                    deep,
                    &Program { steps_after: vec![write_at(0, 0)], ..changes_go_home() },
                ),
            ],
        ),
        bug(
            42,
            "NOVA, bug 7 of Silhouette (linux-nova#136)",
            "the id of a version was not raised by recovery, and was given twice",
            vec![rule(
                Rule::EpochRaised,
                deep,
                Program {
                    steps_after: vec![write(0, 0)],
                    ..images(vec![deferred(0, 0), deferred(0, 1)])
                },
            )],
        ),
        bug(
            43,
            "PMDK, commit e8c2c3682",
            "what was built before recovery was still used after it",
            vec![rule_in(&[], Rule::IntentReloaded, explorer, &{
                let both = |edit| commit(0, &[(0, edit), (1, edit)], Durable);
                let begin = vec![both(Edit::Write), Step::Checkpoint];
                let end = vec![both(Edit::WriteAt), write(0, 2), Step::Checkpoint];
                // The memory that it was in is used for records that wrap: some of these do.
                (0..36_usize)
                    .map(|at| {
                        let (images, changes) = (at % 6, at / 6);
                        let mut steps = begin.clone();
                        steps.extend((0..images).flat_map(|_| [write(0, 3), Step::Checkpoint]));
                        steps.extend((0..changes).flat_map(|_| [write_at(0, 3), Step::Checkpoint]));
                        steps.extend(end.clone());
                        let program = Program::new(Kind::Words, 1, steps);
                        Program { overwrite: Overwrite::MayLeaveGarbage, ..program }
                    })
                    .collect::<Vec<_>>()
            })],
        ),
        bug(
            44,
            "Pebble, cockroachdb/pebble#3867",
            "a reader's buffer kept what an earlier record had left there",
            vec![port(
                Defect::BufferNotReset,
                explorer,
                vec![Planted::new(images(vec![write(0, 0), write(0, 1)]))],
            )],
        ),
    ]
}
