//! Space: what fits, what is refused and with which numbers, and that a full journal always gets
//! out of it by a checkpoint.

use full_block::FullBlock;
use journal_core::policy::{Change, Policy, Update};
use journal_core::units::LaneNumber;
use journal_core::{
    BlockNumber, BlockSize, CheckpointReport, CommitError, DeviceFacts, Durability, Geometry,
    Journal, OpenError, Operation, Overwrite, PortableKernels, Protocol, Rule, Scope,
};
use nvm_journal::Buffers;
use sim_disk::{DiskImage, Image, Model, Mutator, Rng, SimDisk, SimPmem, World};

use crate::delta::Words;

const BLOCK: usize = 64;
const BLOCKS: u64 = 16;
const LINE: u64 = 64;

/// Bytes of a record of one image.
const RECORD: u64 = 3 * LINE;

type Opened<'m, L> = Journal<'m, SimPmem, SimDisk, L, Mutator, PortableKernels>;

fn geometry(lanes: u16, lane_bytes: u64, shield_blocks: u32) -> Geometry {
    let block_size = BlockSize::new(BLOCK as u32).expect("a block size");
    Geometry {
        block_size,
        lanes,
        lane_bytes,
        shield_blocks,
        unit_bytes: 256,
        protocol: Protocol::OneFence,
        lane_slots: 0,
        lane_log_blocks: 0,
        segment_blocks: 0,
    }
}

/// A new journal on a device that leaves garbage behind.
fn formatted(geometry: &Geometry, policy: &impl Policy, mutator: &Mutator) -> World {
    let span = usize::try_from(geometry.span_bytes().expect("small")).expect("small");
    let facts = DeviceFacts::new(32, Overwrite::MayLeaveGarbage);
    let disk = DiskImage::blank(geometry.block_size, BLOCKS, facts);
    let world = World::boot(Image::blank(span).with_disk(disk), Model::Torn8);
    let (kernels, hook) = (PortableKernels, mutator.clone());
    journal_core::format(world.pmem(), hook, &kernels, geometry, [7; 16], policy, BLOCKS)
        .expect("formats");
    world
}

/// Opens a new journal on a device that leaves garbage behind, with batches of one block.
fn open<L: Policy + Copy>(
    geometry: &Geometry,
    policy: L,
    mutator: &Mutator,
    mut what: impl FnMut(&World, &mut Opened<'_, L>),
) {
    let world = formatted(geometry, &policy, mutator);
    let kernels = PortableKernels;
    let mut buffers = Buffers::new(geometry, 64, 1);
    let (pmem, disk, hook) = (world.pmem(), world.disk(0), mutator.clone());
    let mut journal =
        Journal::open(pmem, disk, policy, hook, kernels, buffers.borrow()).expect("opens");
    what(&world, &mut journal);
}

fn image(seed: u8) -> [u8; BLOCK] {
    core::array::from_fn(|at| seed ^ at as u8)
}

/// Commits these blocks with images made of `seed`.
fn commit<L: Policy>(
    journal: &mut Opened<'_, L>,
    lane: u16,
    blocks: &[u64],
    seed: u8,
) -> Result<(), CommitError> {
    let new = image(seed);
    let update = |block: &u64| Update::new(BlockNumber(*block), Change::Image(&new));
    let operations: Vec<_> = blocks.iter().map(|block| Operation::Update(update(block))).collect();
    journal.commit(LaneNumber(lane), &operations, Durability::Durable).map(drop)
}

fn read<L: Policy>(journal: &mut Opened<'_, L>, block: u64) -> [u8; BLOCK] {
    let mut content = [0; BLOCK];
    journal.read(BlockNumber(block), &mut content).expect("reads");
    content
}

/// The record is as large as the free space, a line smaller, and a line larger: refused with the
/// numbers, and nothing has changed, neither in the media nor in what is read.
#[test]
fn a_record_as_large_as_the_free_space_fits_and_a_line_more_does_not() {
    for (lines, fits) in [(5, false), (6, true), (7, true)] {
        let lane = geometry(1, lines * LINE, 0);
        open(&lane, FullBlock, &Mutator::new(), |world, journal| {
            commit(journal, 0, &[0], 1).expect("the first one fits");
            let before = world.visible();
            let result = commit(journal, 0, &[0], 2);
            if fits {
                assert_eq!(result, Ok(()), "{lines} lines");
                assert_eq!(read(journal, 0), image(2));
            } else {
                let free = lines * LINE - RECORD;
                assert_eq!(result, Err(CommitError::NoSpace { needed: RECORD, free }));
                assert!(world.visible() == before, "nothing was stored");
                assert_eq!(read(journal, 0), image(1));
                journal.checkpoint().expect("makes room");
                assert_eq!(commit(journal, 0, &[0], 2), Ok(()));
            }
        });
    }
}

/// Two blocks take a line and two images more than the lane has.
#[test]
fn a_transaction_larger_than_a_lane_is_refused_and_changes_nothing() {
    open(&geometry(2, RECORD, 0), FullBlock, &Mutator::new(), |world, journal| {
        let before = world.visible();
        let needed = RECORD + LINE;
        let refused = Err(CommitError::TooLarge { needed, capacity: RECORD });
        assert_eq!(commit(journal, 0, &[0, 1], 1), refused);
        let streamed = journal.begin(LaneNumber(1), needed).map(drop);
        assert_eq!(streamed, refused);
        assert!(world.visible() == before, "nothing was stored");
        assert_eq!(commit(journal, 0, &[0], 1), Ok(()));
    });
}

/// Without the rule a record would go where live ones are.
#[test]
fn a_record_goes_into_free_space_only() {
    let fill = |mutator: &Mutator| {
        open(&geometry(1, 3 * RECORD, 0), FullBlock, mutator, |_, journal| {
            for block in 0..3 {
                commit(journal, 0, &[block], 1).expect("fits");
            }
            let result = commit(journal, 0, &[3], 1);
            assert!(matches!(result, Err(CommitError::NoSpace { free: 0, .. })));
        });
    };
    fill(&Mutator::new());
    let without = || fill(&Mutator::without(&[Rule::SpaceChecked]));
    assert!(std::panic::catch_unwind(without).is_err(), "the rule is off, and nothing notices");
}

/// H19: every lane is full, all blocks need the shield, and batches are of one block. A checkpoint
/// needs no ring space, ends, and leaves the lanes empty. Hundreds of ways to fill them.
#[test]
fn a_full_journal_gets_out_of_it_by_a_checkpoint() {
    for seed in 0..300 {
        let mut rng = Rng::new(seed);
        let lanes = 1 + (rng.below(2) as u16);
        let lane_bytes = (3 + rng.below(8)) * LINE;
        open(&geometry(lanes, lane_bytes, 1), Words, &Mutator::new(), |_, journal| {
            let mut expected = [[0; BLOCK]; BLOCKS as usize];
            for _ in 0..4 {
                // Full in every lane: a while after the first refusal.
                let mut refused = 0;
                while refused < 8 {
                    let (lane, block) = (rng.index(lanes.into()), rng.index(4));
                    let old = expected[block];
                    let mut new = old;
                    let words = if rng.chance(1, 4) { 8 } else { 1 };
                    for word in new.chunks_mut(8).take(words) {
                        word.copy_from_slice(&rng.next_u64().to_le_bytes());
                    }
                    let change = Change::Image(&new);
                    let mut update = Update::new(BlockNumber(block as u64), change);
                    update.old = Some(&old);
                    let lane = LaneNumber(lane as u16);
                    let operations = [Operation::Update(update)];
                    match journal.commit(lane, &operations, Durability::Durable) {
                        Ok(_) => expected[block] = new,
                        Err(CommitError::NoSpace { .. }) => refused += 1,
                        Err(error) => panic!("seed {seed}: {error}"),
                    }
                }
                let report = journal.checkpoint().expect("ends");
                assert!(report.freed_bytes > 0, "seed {seed}");
                for lane in 0..lanes {
                    // The lane is empty: a transaction as large as it fits.
                    let whole = journal.begin(LaneNumber(lane), lane_bytes);
                    assert!(whole.is_ok(), "seed {seed}, lane {lane}");
                }
                for (block, expected) in (0..).zip(&expected) {
                    assert_eq!(read(journal, block), *expected, "seed {seed}, block {block}");
                }
            }
        });
    }
}

/// What the index forgets while it runs, an open may not need room for: whatever was committed with
/// so many frames is found with as many, in whichever order the lanes are gone through.
#[test]
fn a_journal_opens_with_the_memory_that_it_ran_with() {
    for seed in 0..300 {
        let mut rng = Rng::new(seed);
        let geometry = geometry(2, 64 * LINE, 2);
        let frames = 6 + rng.index(10);
        let world = formatted(&geometry, &Words, &Mutator::new());
        let mut expected = [[0; BLOCK]; 3];
        for life in 0..4 {
            let driven = reopened(&geometry, frames, &world, |journal| {
                for step in 0..20 {
                    write_or_make_room(journal, &mut rng, &mut expected);
                    let again = World::boot(world.visible(), Model::Torn8);
                    let opened = reopened(&geometry, frames, &again, |journal| {
                        let all =
                            |journal: &mut Opened<'_, Words>| [0, 1, 2].map(|at| read(journal, at));
                        assert_eq!(all(journal), expected, "seed {seed}, life {life}, step {step}");
                        journal.checkpoint().expect("writes home");
                        assert_eq!(all(journal), expected, "seed {seed}, life {life}, step {step}");
                    });
                    assert_eq!(opened, Ok(()), "seed {seed}, life {life}, step {step}");
                }
            });
            assert_eq!(driven, Ok(()));
        }
    }
}

/// Opens a journal with room for so many frames.
fn reopened(
    geometry: &Geometry,
    frames: usize,
    world: &World,
    what: impl FnOnce(&mut Opened<'_, Words>),
) -> Result<(), OpenError> {
    let mut buffers = Buffers::new(geometry, frames, 2);
    let (pmem, disk, hook) = (world.pmem(), world.disk(0), Mutator::new());
    let opened = Journal::open(pmem, disk, Words, hook, PortableKernels, buffers.borrow());
    opened.map(|mut journal| what(&mut journal))
}

/// Writes a word or all of a block; where there is no room, copies within a lane or writes some of
/// the blocks home.
fn write_or_make_room(
    journal: &mut Opened<'_, Words>,
    rng: &mut Rng,
    expected: &mut [[u8; BLOCK]; 3],
) {
    let (lane, block) = (LaneNumber(rng.below(2) as u16), rng.index(3));
    let words = if rng.chance(1, 3) { 8 } else { 1 };
    let old = expected[block];
    let mut new = old;
    for word in new.chunks_mut(8).take(words) {
        word.copy_from_slice(&rng.next_u64().to_le_bytes());
    }
    let mut update = Update::new(BlockNumber(block as u64), Change::Image(&new));
    update.old = Some(&old);
    match journal.commit(lane, &[Operation::Update(update)], Durability::Durable) {
        Ok(_) => expected[block] = new,
        Err(CommitError::NoSpace { .. } | CommitError::IndexFull { .. }) => {
            if rng.chance(1, 2) {
                journal.relog(lane).expect("re-logs");
            } else {
                let mut report = CheckpointReport::default();
                journal.checkpoint_batch(Scope::All, &mut report).expect("writes home");
                journal.reclaim(&mut report).expect("reclaims");
            }
        }
        Err(error) => panic!("{error}"),
    }
}
