//! Space: what fits, what is refused and with which numbers, and that a full journal always gets
//! out of it by a checkpoint.

use full_block::FullBlock;
use journal_core::Buffers;
use journal_core::policy::{ApplyError, Change, Encoder, Placement, Policy, PolicyId, Update};
use journal_core::units::LaneNumber;
use journal_core::{
    BlockNumber, BlockSize, CheckpointReport, CommitError, DeviceFacts, Durability, Geometry,
    Journal, On, OpenError, Operation, Overwrite, PortableKernels, Protocol, Rule, Scope,
};
use sim_disk::{DiskImage, Image, Model, Mutator, Rng, SimDisk, SimPmem, World};

use lab::core_crash::delta::Words;

const BLOCK: usize = 64;
const BLOCKS: u64 = 16;
const LINE: u64 = 64;

/// Bytes of a record of one image.
const RECORD: u64 = 3 * LINE;

type Opened<'m, L> = Journal<'m, L, On<SimPmem, SimDisk, Mutator>>;

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

/// Makes a new journal on a device that leaves garbage behind.
fn make<L: Policy>(geometry: &Geometry, policy: &L, mutator: &Mutator) -> World {
    let span = usize::try_from(geometry.span_bytes().expect("small")).expect("small");
    let facts = DeviceFacts::new(32, Overwrite::MayLeaveGarbage);
    let disk = DiskImage::blank(geometry.block_size, BLOCKS + geometry.log_blocks(), facts);
    let world = World::boot(Image::blank(span).with_disk(disk), Model::Torn8);
    let (hook, kernels) = (mutator.clone(), PortableKernels);
    journal_core::format(world.pmem(), hook, &kernels, geometry, [7; 16], policy, BLOCKS)
        .expect("formats");
    world
}

/// Opens a journal with room for a number of frames in its index, and batches of one block.
fn open_in<L: Policy>(
    (world, frames): (&World, usize),
    geometry: &Geometry,
    policy: L,
    mutator: &Mutator,
    what: impl FnOnce(&mut Opened<'_, L>),
) {
    let mut buffers = Buffers::new(geometry, frames, 1);
    let (pmem, disk, hook) = (world.pmem(), world.disk(0), mutator.clone());
    let journal = Journal::open(pmem, disk, policy, hook, PortableKernels, buffers.borrow());
    what(&mut journal.expect("opens"));
}

/// Opens a new journal.
fn open<L: Policy + Copy>(
    geometry: &Geometry,
    policy: L,
    mutator: &Mutator,
    what: impl FnOnce(&World, &mut Opened<'_, L>),
) {
    let world = make(geometry, &policy, mutator);
    open_in((&world, 64), geometry, policy, mutator, |journal| what(&world, journal));
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

/// Words of blocks, and of a lane that is full whole blocks in the disk-side log.
#[derive(Clone, Copy)]
struct Bypassing;

impl Policy for Bypassing {
    fn id(&self) -> PolicyId {
        Words.id()
    }

    fn place(&self, update: &Update<'_>, out: &mut Encoder<'_>) -> Placement {
        Words.place(update, out)
    }

    fn apply(&self, payload: &[u8], block: &mut [u8]) -> Result<(), ApplyError> {
        Words.apply(payload, block)
    }

    fn wants_log(&self) -> bool {
        true
    }

    fn bypasses_when_full(&self) -> bool {
        true
    }
}

/// Twelve words are changed. The log has room for two of their blocks, and the others, whole, are
/// more than a lane: they wait for space as the words that they are.
#[test]
fn what_finds_no_room_in_the_log_either_is_not_too_large() {
    let log = Geometry { lane_log_blocks: 2, segment_blocks: 2, ..geometry(1, 12 * LINE, 1) };
    open(&log, Bypassing, &Mutator::new(), |_, journal| {
        for block in 12..15 {
            commit(journal, 0, &[block], 1).expect("fits");
        }
        let (old, mut new) = ([0; BLOCK], [0; BLOCK]);
        new[0] = 2;
        let update = |block| {
            let mut update = Update::new(BlockNumber(block), Change::Image(&new));
            update.old = Some(&old);
            update
        };
        let operations: Vec<_> = (0..12).map(|block| Operation::Update(update(block))).collect();
        let refused = journal.commit(LaneNumber(0), &operations, Durability::Durable);
        assert!(matches!(refused, Err(CommitError::NoSpace { .. })), "{refused:?}");
        journal.checkpoint().expect("makes room");
        journal.commit(LaneNumber(0), &operations, Durability::Durable).expect("fits");
        assert_eq!(read(journal, 11), new);
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

/// What newer frames of a block have covered is forgotten while the journal runs. An open finds it
/// again, and not in the order in which it was written: between the frames of one lane there are
/// those of another.
#[test]
fn a_journal_opens_in_the_memory_that_it_has_run_in() {
    let (lanes, mutator) = (geometry(2, 32 * RECORD, 0), Mutator::new());
    // Whole images only; and changes, which are forgotten when the block is written whole, twice.
    let (images, one) = (&[true; 9][..], &[true][..]);
    let changes = &[true, false, false, false, true, true][..];
    for (of_lanes, frames) in [([images, one], 4), ([changes, changes], 9)] {
        let world = make(&lanes, &Words, &mutator);
        let mut expected = [[0; BLOCK]; 2];
        open_in((&world, frames), &lanes, Words, &mutator, |journal| {
            for ((lane, wholes), new) in (0..).zip(of_lanes).zip(&mut expected) {
                for (seed, is_whole) in (1..).zip(wholes) {
                    let old = *new;
                    *new = if *is_whole { image(seed) } else { old };
                    new[0] = seed;
                    let mut update = Update::new(BlockNumber(lane.into()), Change::Image(new));
                    update.old = (!is_whole).then_some(&old[..]);
                    let operations = [Operation::Update(update)];
                    let result = journal.commit(LaneNumber(lane), &operations, Durability::Durable);
                    result.expect("there is room in the index");
                }
            }
        });
        open_in((&world, frames), &lanes, Words, &mutator, |journal| {
            assert_eq!([0, 1].map(|block| read(journal, block)), expected);
        });
    }
}

/// Of what is covered the index knows one frame of each lane, also where there was no room for more
/// when it was built: block 0 is home, and an old image of it lies behind block 1, which is not.
#[test]
fn a_journal_that_opens_in_little_memory_brings_nothing_back() {
    let (lanes, mutator) = (geometry(3, 32 * RECORD, 0), Mutator::new());
    let world = make(&lanes, &FullBlock, &mutator);
    open_in((&world, 6), &lanes, FullBlock, &mutator, |journal| {
        let commits = [(1, 1), (1, 0), (0, 0), (0, 0), (0, 0), (0, 0), (2, 2)];
        for (seed, (lane, block)) in (1..).zip(commits) {
            commit(journal, lane, &[block], seed).expect("there is room in the index");
        }
    });
    open_in((&world, 6), &lanes, FullBlock, &mutator, |journal| {
        let mut report = CheckpointReport::default();
        assert_eq!(journal.checkpoint_batch(Scope::All, &mut report), Ok(true));
        journal.let_heads_pass(&mut report).expect("drops nothing that is needed");
        assert_eq!(report.blocks, 1);
    });
    open_in((&world, 6), &lanes, FullBlock, &mutator, |journal| {
        assert_eq!([0, 1, 2].map(|block| read(journal, block)), [6, 1, 7].map(image));
    });
}

/// What the index forgets while it runs, an open may not need room for. Whatever was committed with
/// a number of frames is found with that number, in whichever order the lanes are gone through.
#[test]
fn a_journal_opens_with_the_memory_that_it_ran_with() {
    for seed in 0..300 {
        let mut rng = Rng::new(seed);
        let geometry = geometry(2, 64 * LINE, 2);
        let frames = 6 + rng.index(10);
        let world = make(&geometry, &Words, &Mutator::new());
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

/// Opens a journal with room for a number of frames.
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
                journal.let_heads_pass(&mut report).expect("lets heads pass");
            }
        }
        Err(error) => panic!("{error}"),
    }
}
