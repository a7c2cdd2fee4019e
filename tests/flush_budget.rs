//! What each call costs the media, to the fence and the line: promised, and counted here.

use adaptive::{Adaptive, Settings, Wish};
use byte_delta::ByteDelta;
use compressed_delta::CompressedDelta;
use full_block::FullBlock;
use journal_core::Buffers;
use journal_core::policy::{
    ApplyError, Change, Encoder, Kind, Patch, Placement, Policy, PolicyId, Update,
};
use journal_core::units::LaneNumber;
use journal_core::{
    BlockNumber, BlockSize, CheckpointReport, CommitError, DeviceFacts, Durability, Geometry,
    Journal, JournalError, NoHook, On, Operation, Overwrite, PortableKernels, Protocol,
    RelogReport,
};
use lab::erased::DynPolicy;
use lcow::Lcow;
use sim_disk::{
    Counts, DiskImage, Fault, FaultKind, Image, Model, Operation as Media, SimDisk, SimPmem, World,
};
use two_level::TwoLevel;

const BLOCK: usize = 4096;

const GEOMETRY: Geometry = Geometry {
    block_size: BlockSize::DEFAULT,
    lanes: 2,
    lane_bytes: 1 << 20,
    shield_blocks: 8,
    unit_bytes: 4096,
    protocol: Protocol::OneFence,
    lane_slots: 0,
    lane_log_blocks: 0,
    segment_blocks: 0,
};

/// Logs the first 64 bytes of a block, and nothing else.
#[derive(Clone, Copy)]
struct FirstLine;

impl Policy for FirstLine {
    fn id(&self) -> PolicyId {
        PolicyId(0x7E58)
    }

    fn place(&self, update: &Update<'_>, out: &mut Encoder<'_>) -> Placement {
        match update.change {
            Change::Image(image) if out.put(&image[..64]).is_ok() => Placement::Encoded,
            _ => Placement::Image,
        }
    }

    fn apply(&self, payload: &[u8], block: &mut [u8]) -> Result<(), ApplyError> {
        let place = block.get_mut(..payload.len()).ok_or(ApplyError::OutOfBlock { at: 0 })?;
        place.copy_from_slice(payload);
        Ok(())
    }
}

type Opened<'m> = Journal<'m, DynPolicy, On<SimPmem, SimDisk>>;

/// Runs `calls` on a fresh journal.
fn on_a_journal(
    policy: impl Policy + Clone + Send + Sync + 'static,
    calls: impl FnOnce(&World, &mut Opened<'_>),
) {
    on_a_journal_with(GEOMETRY, policy, calls);
}

/// Runs `calls` on a fresh journal with slots.
fn on_slots(
    policy: impl Policy + Clone + Send + Sync + 'static,
    calls: impl FnOnce(&World, &mut Opened<'_>),
) {
    on_a_journal_with(Geometry { lane_slots: 32, ..GEOMETRY }, policy, calls);
}

fn on_a_journal_with(
    geometry: Geometry,
    policy: impl Policy + Clone + Send + Sync + 'static,
    calls: impl FnOnce(&World, &mut Opened<'_>),
) {
    let span = usize::try_from(geometry.span_bytes().expect("small")).expect("small");
    let facts = DeviceFacts::new(512, Overwrite::OldOrNew);
    let disk_blocks = (1 << 10) + geometry.log_blocks();
    let disk = DiskImage::blank(BlockSize::DEFAULT, disk_blocks, facts);
    let world = World::boot(Image::blank(span).with_disk(disk), Model::Torn8);
    let (policy, kernels) = (DynPolicy::new(policy), PortableKernels);
    journal_core::format(world.pmem(), NoHook, &kernels, &geometry, [7; 16], &policy, 1 << 10)
        .expect("formats");
    let mut buffers = Buffers::new(&geometry, 1 << 10, 64);
    let before = world.tape().counts();
    let (pmem, disk) = (world.pmem(), world.disk(0));
    let mut journal =
        Journal::open(pmem, disk, policy, NoHook, kernels, buffers.borrow()).expect("opens");
    let opened = spent(&world, before);
    assert_eq!((opened.fences, opened.disk_syncs), (3, 0), "one for what was found, one a copy");
    calls(&world, &mut journal);
}

/// What was spent since `before`.
fn spent(world: &World, before: Counts) -> Counts {
    let mut now = world.tape().counts();
    now.fences -= before.fences;
    now.flushed_lines -= before.flushed_lines;
    now.streamed_lines -= before.streamed_lines;
    now.disk_writes -= before.disk_writes;
    now.disk_bytes -= before.disk_bytes;
    now.disk_syncs -= before.disk_syncs;
    now
}

/// Commits whole images of consecutive blocks.
fn commit(journal: &mut Opened<'_>, blocks: core::ops::Range<u64>, durability: Durability) {
    let image = [blocks.end as u8; BLOCK];
    let operations: Vec<Operation<'_>> = blocks
        .map(|block| Operation::Update(Update::new(BlockNumber(block), Change::Image(&image))))
        .collect();
    journal.commit(LaneNumber(0), &operations, durability).expect("there is room");
}

/// As `FullBlock`, but it has to be asked about every image.
#[derive(Clone, Copy)]
struct Asked;

impl Policy for Asked {
    fn id(&self) -> PolicyId {
        FullBlock::ID
    }

    fn place(&self, update: &Update<'_>, out: &mut Encoder<'_>) -> Placement {
        FullBlock.place(update, out)
    }

    fn apply(&self, payload: &[u8], block: &mut [u8]) -> Result<(), ApplyError> {
        FullBlock.apply(payload, block)
    }
}

/// The medium, and what it took, after images one by one: in both lanes, over each other's, round
/// the end of the ring.
fn one_by_one(policy: impl Policy + Copy + Send + Sync + 'static) -> (Vec<u8>, Counts) {
    let mut found = None;
    let geometry = Geometry { lane_bytes: 6 << 12, ..GEOMETRY };
    on_a_journal_with(geometry, policy, |world, journal| {
        let before = world.tape().counts();
        for turn in 0_u64..30 {
            if turn % 7 == 6 {
                journal.checkpoint().expect("goes home");
            }
            let image = [turn as u8; BLOCK];
            let operations = [Operation::write(BlockNumber(turn % 3), &image)];
            let lane = LaneNumber((turn % 2) as u16);
            journal.commit(lane, &operations, Durability::Durable).expect("there is room");
        }
        let mut image = [0; BLOCK];
        journal.read(BlockNumber(2), &mut image).expect("reads");
        assert_eq!(image, [29; BLOCK]);
        found = Some((world.visible().pmem().to_vec(), spent(world, before)));
    });
    found.expect("ran")
}

#[test]
fn an_image_alone_takes_a_shorter_way_to_the_same_bytes() {
    let (short, long) = (one_by_one(FullBlock), one_by_one(Asked));
    assert!(short.0 == long.0, "the same medium");
    assert_eq!(short.1, long.1, "for the same stores");
}

#[test]
fn a_durable_commit_is_one_fence_whatever_its_size() {
    on_a_journal(FullBlock, |world, journal| {
        for (blocks, lines) in [(1, 66), (8, 8 * 64 + 4), (64, 64 * 64 + 18)] {
            let before = world.tape().counts();
            commit(journal, 0..blocks, Durability::Durable);
            let spent = spent(world, before);
            assert_eq!((spent.fences, spent.lines()), (1, lines), "{blocks} blocks");
            assert_eq!((spent.disk_writes, spent.disk_syncs), (0, 0));
        }
        // More than one part can describe: still one record, one fence.
        let before = world.tape().counts();
        commit(journal, 0..100, Durability::Durable);
        let spent = spent(world, before);
        assert_eq!((spent.fences, spent.lines()), (1, 100 * 64 + 18 + 11));
    });
}

#[test]
fn what_is_given_up_has_arrived_before_its_place_is_used_again() {
    on_a_journal(FullBlock, |world, journal| {
        let image = [7; BLOCK];
        let operations = [Operation::write(BlockNumber(0), &image)];
        let before = world.tape().counts();
        journal.begin(LaneNumber(0), 3 << 12).expect("there is room").abort();
        assert_eq!(spent(world, before).fences, 0, "nothing was stored");
        for aborts in [true, false] {
            let before = world.tape().counts();
            let mut streamed = journal.begin(LaneNumber(0), 3 << 12).expect("there is room");
            streamed.write(&operations).expect("it was reserved");
            assert_eq!(spent(world, before).fences, 0);
            if aborts {
                streamed.abort();
            } else {
                drop(streamed);
            }
            assert_eq!(spent(world, before).fences, 1, "another thread may be the next here");
        }
        commit(journal, 0..1, Durability::Durable);
        // The outcome of the fence is not told, but nothing goes on when it fails.
        let mut streamed = journal.begin(LaneNumber(0), 3 << 12).expect("there is room");
        streamed.write(&operations).expect("it was reserved");
        let fences = world.operations().of(Media::Fence);
        world.inject(Fault::on(Media::Fence, fences, FaultKind::Error));
        streamed.abort();
        let refused = journal.commit(LaneNumber(0), &operations, Durability::Durable);
        assert_eq!(refused, Err(CommitError::Failed));
    });
}

#[test]
fn a_run_of_one_line_is_three_lines() {
    on_a_journal(FirstLine, |world, journal| {
        let before = world.tape().counts();
        commit(journal, 0..1, Durability::Durable);
        let spent = spent(world, before);
        assert_eq!((spent.fences, spent.lines()), (1, 3));
    });
}

/// The first one costs a superblock write. After that a note costs 16 bytes, for which there mostly
/// is room in the last line of a front; and a record without one costs what it always did.
#[test]
fn a_note_costs_sixteen_bytes() {
    on_a_journal(FullBlock, |world, journal| {
        let image = [9; BLOCK];
        let write = [Operation::write(BlockNumber(3), &image)];
        let refused = journal.commit_noted(LaneNumber(0), &write, [1, 2], Durability::Durable);
        assert_eq!(refused, Err(CommitError::NoNotes));
        let before = world.tape().counts();
        journal.begin_notes().expect("is written");
        let begun = spent(world, before);
        // Two copies of 128 bytes, two lanes' 32, a check and a note.
        assert_eq!((begun.fences, begun.lines()), (2, 2 * 4));
        let before = world.tape().counts();
        journal.begin_notes().expect("there is nothing to do");
        assert_eq!(spent(world, before).fences, 0);
        for note in [[1, 2], [3, u64::MAX]] {
            let before = world.tape().counts();
            journal.commit_noted(LaneNumber(0), &write, note, Durability::Durable).expect("fits");
            let noted = spent(world, before);
            assert_eq!((noted.fences, noted.lines()), (1, 66));
        }
        let before = world.tape().counts();
        commit(journal, 0..1, Durability::Durable);
        assert_eq!((spent(world, before).fences, spent(world, before).lines()), (1, 66));
        // Three frames leave no room for it: a line more.
        for (note, lines) in [(None, 3 * 64 + 2), (Some([5, 6]), 3 * 64 + 3)] {
            let before = world.tape().counts();
            let operations = [0, 1, 2].map(|block| Operation::write(BlockNumber(block), &image));
            let lane = LaneNumber(0);
            let committed = match note {
                None => journal.commit(lane, &operations, Durability::Durable),
                Some(note) => journal.commit_noted(lane, &operations, note, Durability::Durable),
            };
            committed.expect("fits");
            assert_eq!((spent(world, before).fences, spent(world, before).lines()), (1, lines));
        }
    });
}

#[test]
fn deferred_commits_share_one_fence() {
    on_a_journal(FullBlock, |world, journal| {
        let before = world.tape().counts();
        for block in 0..16 {
            commit(journal, block..block + 1, Durability::Deferred);
        }
        assert_eq!((spent(world, before).fences, spent(world, before).lines()), (0, 0));
        journal.sync().expect("fences");
        assert_eq!((spent(world, before).fences, spent(world, before).lines()), (1, 16 * 66));
        journal.sync().expect("there is nothing left to do");
        assert_eq!(spent(world, before).fences, 1);
    });
}

#[test]
fn a_tail_pointer_costs_one_fence_and_one_line_more() {
    on_a_journal_with(
        Geometry { protocol: Protocol::TailPointer, ..GEOMETRY },
        FullBlock,
        |world, journal| {
            for (blocks, lines) in [(1, 66), (8, 8 * 64 + 4), (64, 64 * 64 + 18)] {
                let before = world.tape().counts();
                commit(journal, 0..blocks, Durability::Durable);
                let spent = spent(world, before);
                assert_eq!((spent.fences, spent.lines()), (2, lines + 1), "{blocks} blocks");
            }
            let before = world.tape().counts();
            for block in 0..16 {
                commit(journal, block..block + 1, Durability::Deferred);
            }
            assert_eq!((spent(world, before).fences, spent(world, before).lines()), (0, 0));
            journal.sync().expect("fences");
            assert_eq!(
                (spent(world, before).fences, spent(world, before).lines()),
                (2, 16 * 66 + 1)
            );
            journal.sync().expect("there is nothing left to do");
            assert_eq!(spent(world, before).fences, 2);
            let before = world.tape().counts();
            journal.checkpoint().expect("nothing fails");
            assert_eq!(spent(world, before).fences, 2, "one a superblock copy, as ever");
        },
    );
}

#[test]
fn a_checkpoint_writes_each_block_once_and_costs_two_fences() {
    on_a_journal(FullBlock, |world, journal| {
        for round in 0..3 {
            commit(journal, 0..10, Durability::Durable);
            commit(journal, 20 + round..21 + round, Durability::Durable);
        }
        let before = world.tape().counts();
        let report = journal.checkpoint().expect("nothing fails");
        let spent = spent(world, before);
        // Ten blocks in one run, and three in another.
        assert_eq!((report.blocks, report.writes, report.batches), (13, 2, 1));
        assert_eq!((spent.disk_bytes, spent.disk_syncs), (13 * BLOCK as u64, 1));
        assert_eq!(spent.fences, 2, "one a superblock copy");
        let nothing = journal.checkpoint().expect("nothing fails");
        assert_eq!(nothing, CheckpointReport::default());
    });
}

#[test]
fn the_shield_costs_one_fence_more() {
    on_a_journal(FirstLine, |world, journal| {
        commit(journal, 0..3, Durability::Durable);
        let before = world.tape().counts();
        let report = journal.checkpoint().expect("nothing fails");
        assert_eq!((report.blocks, report.shielded), (3, 3));
        assert_eq!(spent(world, before).fences, 3);
    });
}

/// One block rests at the head of a lane, another one is overwritten behind it.
fn rest(journal: &mut Opened<'_>, rounds: u64) {
    commit(journal, 7..8, Durability::Durable);
    for _ in 0..rounds {
        commit(journal, 9..10, Durability::Durable);
    }
}

#[test]
fn a_copy_frees_what_is_behind_it_and_costs_three_fences() {
    on_a_journal(FullBlock, |world, journal| {
        rest(journal, 100);
        let before = world.tape().counts();
        let report = journal.relog(LaneNumber(0)).expect("nothing fails");
        let spent = spent(world, before);
        // The other block's newest content as well: two images in one record are a little shorter.
        assert_eq!((report.frames, report.copied_bytes), (2, (2 + 2 * 64) * 64));
        assert_eq!(report.freed_bytes, 101 * 66 * 64);
        assert_eq!((report.fences, spent.fences), (3, 3), "the copy, and the superblock's copies");
        assert_eq!((spent.disk_writes, spent.disk_syncs), (0, 0));
        let mut block = [0; BLOCK];
        journal.read(BlockNumber(7), &mut block).expect("reads");
        assert_eq!(block, [8; BLOCK]);
        // What is left is the copy, and not worth another one.
        let before = world.tape().counts();
        let nothing = journal.relog(LaneNumber(0)).expect("nothing fails");
        assert_eq!(nothing, RelogReport::default());
        let nothing = journal.relog(LaneNumber(1)).expect("nothing fails");
        assert_eq!(nothing, RelogReport::default());
        assert_eq!(self::spent(world, before), self::spent(world, world.tape().counts()));
        let absent = journal.relog(LaneNumber(2));
        assert_eq!(absent, Err(JournalError::NoSuchLane { lane: LaneNumber(2) }));
        // The copy goes home as everything does.
        let report = journal.checkpoint().expect("nothing fails");
        assert_eq!(report.blocks, 2);
        journal.read(BlockNumber(7), &mut block).expect("reads");
        assert_eq!(block, [8; BLOCK]);
    });
}

#[test]
fn what_nothing_needs_is_freed_without_a_copy() {
    on_a_journal(FullBlock, |world, journal| {
        (0..10).for_each(|_| commit(journal, 9..10, Durability::Durable));
        let before = world.tape().counts();
        let report = journal.relog(LaneNumber(0)).expect("nothing fails");
        assert_eq!((report.frames, report.freed_bytes), (0, 9 * 66 * 64));
        assert_eq!((report.fences, spent(world, before).fences), (2, 2));
    });
}

#[test]
fn a_copy_of_a_change_on_home_needs_no_shield_later() {
    on_a_journal(FirstLine, |world, journal| {
        commit(journal, 7..8, Durability::Durable);
        (0..9).for_each(|_| commit(journal, 9..10, Durability::Durable));
        journal.checkpoint().expect("nothing fails");
        commit(journal, 7..8, Durability::Durable);
        (0..99).for_each(|_| commit(journal, 9..10, Durability::Durable));
        let before = world.tape().counts();
        let report = journal.relog(LaneNumber(0)).expect("nothing fails");
        // Two images in one record, for a hundred records of three lines.
        assert_eq!((report.frames, report.copied_bytes), (2, (2 + 2 * 64) * 64));
        assert_eq!(report.freed_bytes, 100 * 3 * 64);
        assert_eq!((spent(world, before).fences, spent(world, before).disk_writes), (3, 0));
        let report = journal.checkpoint().expect("nothing fails");
        assert_eq!((report.blocks, report.shielded), (2, 0));
    });
}

/// Commits an image of block 0 of which the first word is the number.
fn rewrite(journal: &mut Opened<'_>, number: u64) {
    let mut image = [7; BLOCK];
    image[..8].copy_from_slice(&number.to_le_bytes());
    let update = Update::new(BlockNumber(0), Change::Image(&image));
    let committed =
        journal.commit(LaneNumber(0), &[Operation::Update(update)], Durability::Durable);
    committed.expect("there is room");
}

#[test]
fn a_rewrite_of_a_word_is_one_line_of_its_slot_and_two_of_a_record() {
    on_slots(ByteDelta::new(), |world, journal| {
        // The first two versions are written whole.
        for (number, lines) in [(1, 66), (2, 66), (3, 3), (4, 3), (5, 3)] {
            let before = world.tape().counts();
            rewrite(journal, number);
            let spent = spent(world, before);
            assert_eq!((spent.fences, spent.lines()), (1, lines), "version {number}");
            assert_eq!((spent.disk_writes, spent.disk_syncs), (0, 0));
        }
    });
}

/// And one fence more, before the device, where no discard in the lanes says that the blocks are
/// not live.
#[test]
fn an_append_that_goes_home_is_one_sync_and_one_fence() {
    on_slots(ByteDelta::new(), |world, journal| {
        let image = [3; BLOCK];
        let operations = [8, 9, 10].map(|block| {
            let mut update = Update::new(BlockNumber(block), Change::Image(&image));
            update.kind = Kind::Append;
            Operation::Update(update)
        });
        let discards = [8, 9, 10].map(|block| Operation::Discard(BlockNumber(block)));
        for cost in [(2, 4), (1, 2)] {
            let before = world.tape().counts();
            journal.commit(LaneNumber(0), &operations, Durability::Durable).expect("has room");
            let spent = spent(world, before);
            assert_eq!((spent.fences, spent.lines()), cost);
            assert_eq!((spent.disk_bytes, spent.disk_syncs), (3 * 4096, 1));
            journal.commit(LaneNumber(0), &discards, Durability::Durable).expect("has room");
        }
    });
}

#[test]
fn a_fold_costs_three_fences_and_no_disk() {
    on_slots(ByteDelta::new(), |world, journal| {
        commit(journal, 0..8, Durability::Durable);
        let before = world.tape().counts();
        let report = journal.fold().expect("folds");
        let spent = spent(world, before);
        assert_eq!((report.folded, report.fences, spent.fences), (8, 3, 3), "{report:?}");
        assert_eq!((spent.disk_writes, spent.disk_syncs), (0, 0));
        // An entry is half a line, and so is written with each of its line's two; the superblock
        // of two lanes takes four lines, twice.
        assert_eq!(spent.lines(), 8 + 2 * 4);
        assert_eq!(report.freed_bytes, 6 * 64, "the record that named them");
    });
}

#[test]
fn a_checkpoint_of_folded_blocks_costs_two_fences_more() {
    on_slots(ByteDelta::new(), |world, journal| {
        for round in 1..4 {
            commit(journal, 0..8, Durability::Durable);
            journal.fold().expect("folds");
            assert_eq!(journal.read(BlockNumber(0), &mut [0; BLOCK]), Ok(()), "{round}");
        }
        commit(journal, 0..8, Durability::Durable);
        let before = world.tape().counts();
        let report = journal.checkpoint().expect("writes home");
        let spent = spent(world, before);
        assert_eq!((report.blocks, report.writes, spent.disk_syncs), (8, 1, 1));
        assert!(spent.fences <= 4, "two superblocks, two sets of voids: {spent:?}");
        assert_eq!(report.freed_slots, 16, "two versions of each");
    });
}

#[test]
fn older_versions_are_given_back_without_the_disk() {
    on_slots(ByteDelta::new(), |world, journal| {
        commit(journal, 0..8, Durability::Durable);
        commit(journal, 0..8, Durability::Durable);
        let before = world.tape().counts();
        let report = journal.collect_garbage().expect("collects");
        // Nothing of them was folded: there is nothing to void.
        assert_eq!((report.freed_slots, spent(world, before).fences), (8, 0));
        assert_eq!(spent(world, before).disk_writes, 0);
    });
}

#[test]
fn emptying_the_rings_of_lcow_writes_no_data_home() {
    on_slots(Lcow::new(), |world, journal| {
        commit(journal, 0..8, Durability::Durable);
        let before = world.tape().counts();
        let report = journal.checkpoint_rings().expect("empties them");
        assert_eq!((report.blocks, spent(world, before).disk_writes), (0, 0));
        let evicted = journal.evict().expect("writes home");
        assert_eq!((evicted.blocks, evicted.freed_slots), (8, 8));
    });
}

/// Runs `calls` on a fresh journal with a disk-side log.
fn on_a_log(
    policy: impl Policy + Clone + Send + Sync + 'static,
    calls: impl FnOnce(&World, &mut Opened<'_>),
) {
    let geometry = Geometry { lane_log_blocks: 128, segment_blocks: 64, ..GEOMETRY };
    on_a_journal_with(geometry, policy, calls);
}

/// Blocks that go to the disk cost one sync there together, and in memory two lines and half of one
/// for each.
fn logs_with_one_sync(policy: impl Policy + Copy + Send + Sync + 'static) {
    on_a_log(policy, |world, journal| {
        for blocks in [1_u64, 8] {
            let before = world.tape().counts();
            commit(journal, 10..10 + blocks, Durability::Durable);
            let cost = spent(world, before);
            assert_eq!((cost.fences, cost.disk_syncs), (1, 1));
            assert_eq!(cost.disk_bytes, blocks * BLOCK as u64);
            let lines = (64 + 8 + 32 * blocks).div_ceil(64);
            assert_eq!(cost.flushed_lines + cost.streamed_lines, lines);
        }
    });
}

/// What differs is logged with one fence, and no disk.
fn logs_differences_with_one_fence(policy: impl Policy + Copy + Send + Sync + 'static, lines: u64) {
    on_a_log(policy, |world, journal| {
        let old = vec![1; BLOCK];
        let mut new = old.clone();
        let first = Update::new(BlockNumber(3), Change::Image(&old));
        let first = [Operation::Update(first)];
        journal.commit(LaneNumber(0), &first, Durability::Durable).expect("there is room");
        new[640..648].fill(2);
        let mut update = Update::new(BlockNumber(3), Change::Image(&new));
        update.old = Some(&old);
        let before = world.tape().counts();
        let operations = [Operation::Update(update)];
        journal.commit(LaneNumber(0), &operations, Durability::Durable).expect("there is room");
        let cost = spent(world, before);
        assert_eq!((cost.fences, cost.disk_syncs, cost.disk_writes), (1, 0, 0));
        assert_eq!(cost.flushed_lines + cost.streamed_lines, lines);
        let mut found = vec![0; BLOCK];
        journal.read(BlockNumber(3), &mut found).expect("reads");
        assert!(found == new);
    });
}

#[test]
fn moving_to_the_log_frees_the_ring_without_a_write_home() {
    on_a_log(TwoLevel::new(), |world, journal| {
        let lane = LaneNumber(0);
        let empty = journal.free_bytes(lane);
        let patch = [Patch { at: 9, bytes: &[7] }];
        let change = |block| Update::new(BlockNumber(block), Change::Patches(&patch));
        for block in 0..20 {
            let operations = [Operation::Update(change(block))];
            journal.commit(lane, &operations, Durability::Durable).expect("there is room");
        }
        let before = world.tape().counts();
        assert_eq!(journal.move_to_log(lane), Ok(16));
        let cost = spent(world, before);
        assert_eq!((cost.fences, cost.disk_syncs), (1, 1));
        assert_eq!(journal.move_to_log(lane), Ok(4));
        assert_eq!(journal.move_to_log(lane), Ok(0));
        assert!(journal.free_bytes(lane) < empty);
        let before = world.tape().counts();
        let folded = journal.fold().expect("folds");
        let cost = spent(world, before);
        assert_eq!((folded.folded, cost.disk_writes), (20, 0));
        assert_eq!(journal.free_bytes(lane), empty, "the ring forgets");
        let mut found = vec![0; BLOCK];
        journal.read(BlockNumber(19), &mut found).expect("reads");
        assert_eq!((found[8], found[9]), (0, 7));
        assert_eq!(journal.move_to_log(LaneNumber(7)), {
            Err(JournalError::NoSuchLane { lane: LaneNumber(7) })
        });
    });
}

#[test]
fn blocks_in_the_disk_side_log_cost_one_sync() {
    logs_with_one_sync(CompressedDelta::new());
    logs_with_one_sync(TwoLevel::new());
}

#[test]
fn a_difference_costs_one_fence_and_its_lines() {
    // A header, a frame, 9 bytes of images, 4 of a run, and 8 that differ.
    logs_differences_with_one_fence(CompressedDelta::new(), 2);
    let wear = Settings::new().wish(Wish::Wear);
    logs_differences_with_one_fence(Adaptive::with(wear), 2);
    // A sub-block of two lines.
    logs_differences_with_one_fence(TwoLevel::new(), 4);
}
