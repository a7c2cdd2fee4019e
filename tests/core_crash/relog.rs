//! Re-logging under the simulator: a block that rests at the head of a lane is copied to its tail.

use journal_core::Buffers;
use journal_core::Durability::{Deferred, Durable};
use journal_core::policy::{ApplyError, Change, Encoder, Placement, Policy, PolicyId, Update};
use journal_core::units::LaneNumber;
use journal_core::{
    BlockNumber, DeviceFacts, Journal, NoHook, On, Operation, Overwrite, PortableKernels, Rule,
};
use sim_disk::suite::oracle::{BLOCK_BYTES, BLOCKS};
use sim_disk::suite::{Edit, Step};
use sim_disk::{DiskImage, Explorer, Image, Model, Report, SimDisk, SimPmem, World};

use crate::rules::{commit, explorer, needs, needs_beside, write, write_at};
use lab::core_crash::program::{Kind, Program};

use Edit::{Discard, Write, WriteAt};

const COPY: Step = Step::Relog(0, true);

fn explore(explorer: &Explorer, program: &Program) -> Report {
    explorer.explore(program).unwrap_or_else(|failure| panic!("{program:?}\n{failure}"))
}

/// Block 0 rests, block 1 does not, and the copy of the first frees the space of both.
fn rests() -> Vec<Step> {
    vec![write(0, 0), write(0, 1), write(0, 1), COPY]
}

#[test]
fn a_copy_survives_every_crash() {
    for kind in [Kind::FullBlock, Kind::Words] {
        let explorer = Explorer::new(Model::Torn8).with_images_per_point_max(1 << 16).with_kills();
        let report = explore(&explorer, &Program::new(kind, 1, rests()));
        assert_eq!(report.points_sampled, 0, "{report}");
        assert!(report.images > 4_000, "{kind:?}: {report}");
    }
}

#[test]
fn a_copy_survives_crashes_of_its_recovery() {
    for after in [write(0, 0), write_at(0, 0), Step::Checkpoint, Step::Relog(0, false)] {
        let program = Program::new(Kind::Words, 1, rests());
        let program = Program { steps_after: vec![after], ..program };
        explore(&explorer().with_depth(1).with_kills(), &program);
    }
}

/// What a lane may begin with when it is copied, all on two lanes.
fn beginnings() -> Vec<Vec<Step>> {
    let hot = || [write(0, 1), write(0, 1)];
    let with = |first: &[Step]| [first, &hot()].concat();
    vec![
        with(&[write(0, 0)]),
        // A discard; a change on top of what is home; a chain over both lanes.
        with(&[commit(0, &[(0, Discard)], Durable)]),
        with(&[write(1, 0), Step::Checkpoint, write_at(0, 0)]),
        with(&[write(0, 0), write_at(1, 0)]),
        with(&[write(1, 0), write_at(0, 0), write_at(1, 0)]),
        // What is copied may not be durable yet, or half of a transaction.
        with(&[write(0, 0), commit(1, &[(0, WriteAt), (2, Write)], Deferred)]),
        vec![
            write(0, 0),
            commit(0, &[(1, WriteAt), (2, Write)], Deferred),
            write(1, 2),
            write_at(0, 1),
        ],
        // A copy of a copy.
        [rests(), vec![write(0, 1), write_at(0, 1)]].concat(),
    ]
}

/// What may come after.
fn ends() -> Vec<Step> {
    vec![
        write(0, 0),
        write(1, 0),
        write_at(1, 0),
        commit(0, &[(0, WriteAt), (1, WriteAt)], Deferred),
        commit(1, &[(0, Discard)], Durable),
        Step::Relog(0, false),
        Step::Relog(1, false),
        Step::Checkpoint,
        Step::Batch,
        Step::LetHeadsPass,
        Step::Sync,
        Step::Reopen,
    ]
}

#[test]
fn programs_with_a_copy_survive_sampled_crashes() {
    let sampled =
        explorer().with_images_per_point_max(1 << 6).with_random_per_point(6).with_kills();
    for kind in [Kind::FullBlock, Kind::Words] {
        let mut total = Report::default();
        for beginning in beginnings() {
            for first in ends() {
                let steps = [beginning.clone(), vec![Step::Relog(0, false), first]].concat();
                let program = Program::new(kind, 2, steps);
                total += explore(&sampled, &program);
            }
        }
        assert!(total.images > 10_000, "{kind:?}: {total}");
    }
}

#[test]
fn two_and_three_steps_behind_a_copy_survive_sampled_crashes() {
    let mut total = Report::default();
    let explorer =
        Explorer::new(Model::Torn8).with_images_per_point_max(1 << 5).with_random_per_point(6);
    for first in ends() {
        for second in ends() {
            for third in [Step::Relog(0, false), write_at(0, 0), Step::Reopen] {
                let last = [first.clone(), second.clone(), third];
                let steps = [&rests()[..], &last[..]].concat();
                let program = Program { batch: 1, ..Program::new(Kind::Words, 2, steps) };
                total += explore(&explorer, &program);
            }
        }
    }
    assert!(total.images > 10_000, "{total}");
}

/// The copy's record has a higher stamp than what is committed later through an idle lane. Here the
/// head advance lifts that lane above it too. A commit beside a thread that copies has only this
/// rule.
#[test]
fn a_copy_never_hides_a_newer_version_of_another_lane() {
    let steps = [rests(), vec![write(1, 0)]].concat();
    let beside = [Rule::StampFloor];
    needs_beside(&beside, Rule::CopiedStamp, &explorer(), &Program::new(Kind::FullBlock, 2, steps));
}

/// Nothing is left of what was copied, and its copy's stamp is lower than the record's.
#[test]
fn the_stamps_of_copies_outlive_what_they_copy() {
    let steps = [rests(), vec![Step::Reopen, write(0, 2)]].concat();
    needs(Rule::StampFloor, &explorer(), &Program::new(Kind::FullBlock, 1, steps));
}

/// A deferred transaction has changed the block that is copied, and another one.
#[test]
fn only_durable_content_is_copied() {
    let half = commit(1, &[(0, WriteAt), (2, Write)], Deferred);
    let steps = vec![write(0, 0), write(0, 1), write(0, 1), half, COPY];
    needs(Rule::DurableIsCopied, &explorer(), &Program::new(Kind::Words, 2, steps));
}

/// Applying a payload twice is not the same as once.
#[derive(Clone, Copy)]
struct Xor;

impl Policy for Xor {
    fn id(&self) -> PolicyId {
        PolicyId(0x7E59)
    }

    fn place(&self, update: &Update<'_>, out: &mut Encoder<'_>) -> Placement {
        match (update.change, update.old) {
            (Change::Image(new), Some(old)) if out.put(&[new[0] ^ old[0]]).is_ok() => {
                Placement::Encoded
            }
            _ => Placement::Image,
        }
    }

    fn apply(&self, payload: &[u8], block: &mut [u8]) -> Result<(), ApplyError> {
        block.iter_mut().zip(payload).for_each(|(byte, change)| *byte ^= change);
        Ok(())
    }
}

type Opened<'m> = Journal<'m, Xor, On<SimPmem, SimDisk>>;

/// Changes the first byte of a block, or writes all of it.
fn fill(journal: &mut Opened<'_>, lane: u16, block: u64, byte: u8, is_change: bool) {
    let (mut old, mut new) = ([0; BLOCK_BYTES], [byte; BLOCK_BYTES]);
    if is_change {
        journal.read(BlockNumber(block), &mut old).expect("reads");
        new = old;
        new[0] = byte;
    }
    let mut update = Update::new(BlockNumber(block), Change::Image(&new));
    update.old = is_change.then_some(&old[..]);
    journal.commit(LaneNumber(lane), &[Operation::Update(update)], Durable).expect("commits");
}

/// The newest of the changes is in a lane that is ahead, and stays there: an open that put the copy
/// in front of it would apply it twice.
#[test]
fn a_copy_is_behind_what_it_copies_in_whatever_lane_that_is() {
    let geometry = Program::new(Kind::Words, 2, Vec::new()).geometry();
    let span = usize::try_from(geometry.span_bytes().expect("small")).expect("small");
    let facts = DeviceFacts::new(32, Overwrite::OldOrNew);
    let disk = DiskImage::blank(geometry.block_size, BLOCKS as u64, facts);
    let world = World::boot(Image::blank(span).with_disk(disk), Model::Torn8);
    let (kernels, blocks) = (PortableKernels, BLOCKS as u64);
    journal_core::format(world.pmem(), NoHook, &kernels, &geometry, [7; 16], &Xor, blocks)
        .expect("formats");
    let on = |calls: &dyn Fn(&mut Opened<'_>)| {
        let mut buffers = Buffers::new(&geometry, 64, 2);
        let (pmem, disk) = (world.pmem(), world.disk(0));
        let journal = Journal::open(pmem, disk, Xor, NoHook, PortableKernels, buffers.borrow());
        calls(&mut journal.expect("opens"));
    };
    let shows = |journal: &mut Opened<'_>, first: u8| {
        let mut block = [0; BLOCK_BYTES];
        journal.read(BlockNumber(0), &mut block).expect("reads");
        assert_eq!((block[0], block[1]), (first, 0x10));
    };
    on(&|journal| {
        // What pins the other lane, and then the changes that put its stamps ahead.
        fill(journal, 1, 2, 0x20, false);
        fill(journal, 0, 0, 0x10, false);
        fill(journal, 0, 1, 0x30, false);
        fill(journal, 0, 1, 0x31, false);
        (0x41..=0x44).for_each(|byte| fill(journal, 1, 0, byte, true));
        let report = journal.relog(LaneNumber(0)).expect("re-logs");
        assert_eq!((report.frames, report.freed_bytes), (1, 2 * 192));
        shows(journal, 0x44);
    });
    on(&|journal| {
        shows(journal, 0x44);
        fill(journal, 0, 0, 0x45, true);
    });
    on(&|journal| shows(journal, 0x45));
}
