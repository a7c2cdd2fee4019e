//! No option that is not on the medium decides whether a journal opens, or whether it goes on.

use journal_core::policy::Pacing;
use journal_core::{
    BlockNumber, BlockSize, Buffers, DeviceFacts, Durability, Geometry, Journal as Core, NoHook,
    OpenError, Operation, Overwrite, PortableKernels, Protocol, Rule,
};
use lab::erased::{DynHook, DynJournal, DynPolicy, any_options, of_world};
use nvm_journal::{AnyPolicy, Error, Options, TwoLevel};
use policy_codec::bitmap::Unit;
use sim_disk::{DiskImage, Image, Model, Mutator, World};

const BLOCK: usize = 512;
const BLOCKS: u64 = 4096;
const SPAN_BYTES: usize = 1 << 20;

type Front = DynJournal;
type Given = Options<DynPolicy, DynHook>;
type Set = fn(Given) -> Given;

/// What another life of a journal may have other than the one before.
const SETS: [(&str, Set); 12] = [
    ("as it comes", |options| options),
    ("no cache", |options| options.cache_bytes(0)),
    ("a small cache", |options| options.cache_bytes(BLOCK)),
    ("a large cache", |options| options.cache_bytes(64 << 20)),
    ("a frame", |options| options.index_frames(1)),
    ("few frames", |options| options.index_frames(40)),
    ("many frames", |options| options.index_frames(1 << 16)),
    ("a batch of a block", |options| options.batch_blocks(1)),
    ("a thread", |options| options.background_checkpoint(true)),
    ("no buffer", |options| options.buffer_bytes(0)),
    ("no pacing", |options| options.pacing(Pacing::new(None, None, None))),
    ("drained", |options| options.drain_on_open(true).index_at_once(true)),
];

fn media() -> World {
    let facts = DeviceFacts::new(BLOCK as u32, Overwrite::OldOrNew);
    let block_size = BlockSize::new(BLOCK as u32).expect("a block size");
    let disk = DiskImage::blank(block_size, BLOCKS, facts);
    World::boot(Image::blank(SPAN_BYTES).with_disk(disk), Model::Torn8)
}

fn options(policy: &AnyPolicy, set: Set) -> Given {
    set(any_options(*policy, Mutator::new()).keep_on_close(true))
}

fn format(world: &World, given: &Given) -> Result<Front, Error> {
    let (pmem, disk) = of_world(world);
    Front::format(pmem, disk, given)
}

fn open(world: &World, given: &Given) -> Result<Front, Error> {
    let (pmem, disk) = of_world(world);
    Front::open(pmem, disk, given)
}

/// Writes a few bytes of many blocks, none of which a checkpoint takes home.
fn fill(journal: &Front, count: u64) {
    for number in 0..count {
        let block = BlockNumber(number * 3);
        let written = journal.transact(|tx| tx.write_at(block, 8, &number.to_le_bytes()));
        written.expect("commits");
    }
}

fn check(journal: &Front, count: u64) {
    for number in 0..count {
        let mut content = [0; BLOCK];
        journal.read(BlockNumber(number * 3), &mut content).expect("reads");
        assert_eq!(content[8..16], number.to_le_bytes());
    }
}

/// A life with some options, and the next one with others.
fn change(policy: &AnyPolicy, (from, before): (&str, Set), (to, after): (&str, Set)) {
    let world = media();
    let what = format!("{}, from {from} to {to}", policy.name());
    let journal = format(&world, &options(policy, before));
    let journal = journal.unwrap_or_else(|error| panic!("{what}: {error}"));
    fill(&journal, 600);
    journal.sync().expect("syncs");
    drop(journal);
    let journal = open(&world, &options(policy, after));
    let journal = journal.unwrap_or_else(|error| panic!("{what}: {error}"));
    check(&journal, 600);
    fill(&journal, 800);
    check(&journal, 800);
    journal.checkpoint().expect("writes home");
    fill(&journal, 20);
    journal.close().unwrap_or_else(|error| panic!("{what}: {error}"));
}

#[test]
fn a_journal_opens_whatever_else_has_changed() {
    for policy in AnyPolicy::ALL {
        for set in &SETS[1..] {
            change(policy, SETS[0], *set);
            change(policy, *set, SETS[0]);
        }
        // One share of the index, and as many as there can be.
        change(policy, SETS[1], SETS[2]);
        change(policy, SETS[6], SETS[4]);
        change(policy, SETS[2], SETS[6]);
    }
}

/// A block that is changed again and again has all its frames in one share of the index, of which a
/// journal without a cache has many.
fn one_block(without: &[Rule]) -> Result<(), Error> {
    let policy = &AnyPolicy::ALL[2];
    let (world, cached, bare) = (media(), SETS[2].1, SETS[1].1);
    let journal = format(&world, &options(policy, cached))?;
    for number in 0..500_u64 {
        journal.transact(|tx| tx.write_at(BlockNumber(7), 8, &number.to_le_bytes()))?;
    }
    drop(journal);
    let given = options(policy, bare).hook(DynHook::new(Mutator::without(without)));
    let journal = open(&world, &given)?;
    fill(&journal, 300);
    journal.close()
}

#[test]
fn a_journal_with_a_cache_opens_without_one() {
    assert_eq!(one_block(&[]), Ok(()));
    let without = one_block(&[Rule::IndexGrows]);
    let is_full = matches!(without, Err(Error::Open(OpenError::IndexFull { .. })));
    assert!(is_full, "{without:?}");
}

#[test]
fn without_the_rule_it_does_not_open_with_fewer_frames() {
    let (policy, world) = (&AnyPolicy::ALL[2], media());
    let journal = format(&world, &options(policy, SETS[0].1));
    fill(&journal.expect("formats"), 600);
    let given =
        options(policy, SETS[5].1).hook(DynHook::new(Mutator::without(&[Rule::IndexGrows])));
    let opened = open(&world, &given).map(drop);
    assert!(matches!(opened, Err(Error::Open(OpenError::IndexFull { .. }))), "{opened:?}");
}

/// What a policy was set to is no matter for what it has logged.
#[test]
fn sub_blocks_of_another_size_are_read() {
    let of = |unit| TwoLevel::with(two_level::Settings::new().sub_block(unit)).into();
    let units = [Unit::WORD, Unit::SUB_BLOCK, Unit::new(64).expect("a unit")];
    for (before, after) in units.into_iter().zip(units.into_iter().cycle().skip(1)) {
        let world = media();
        let journal = format(&world, &options(&of(before), SETS[0].1));
        fill(&journal.expect("formats"), 100);
        let journal = open(&world, &options(&of(after), SETS[0].1));
        let journal = journal.expect("opens");
        check(&journal, 100);
        fill(&journal, 200);
        check(&journal, 200);
    }
}

fn geometry(lane_slots: u32) -> Geometry {
    Geometry {
        block_size: BlockSize::new(BLOCK as u32).expect("a block size"),
        lanes: 2,
        lane_bytes: 1 << 16,
        shield_blocks: 4,
        unit_bytes: 4096,
        protocol: Protocol::OneFence,
        lane_slots,
        lane_log_blocks: 0,
        segment_blocks: 0,
    }
}

/// The owner of its memory is told how much of it would do.
#[test]
fn an_owner_is_told_how_many_frames_a_journal_has() {
    for (policy, lane_slots) in [(AnyPolicy::ALL[2], 0), (AnyPolicy::ALL[3], 40)] {
        let (geometry, world) = (geometry(lane_slots), media());
        let kernels = PortableKernels;
        journal_core::format(world.pmem(), NoHook, &kernels, &geometry, [7; 16], &policy, BLOCKS)
            .expect("formats");
        let open = |frames: usize, blocks: u64| {
            let mut buffers = Buffers::new(&geometry, frames, 4);
            let (pmem, disk) = (world.pmem(), world.disk(0));
            let (policy, hook) = (DynPolicy::new(policy), DynHook::default());
            let opened = Core::open(pmem, disk, policy, hook, kernels, buffers.borrow());
            opened.map(|mut journal| {
                for number in 0..blocks {
                    let (block, image) = (BlockNumber(number), [number as u8; BLOCK]);
                    let lane = journal_core::units::LaneNumber(number as u16 % 2);
                    let write = [Operation::write(block, &image)];
                    journal.commit(lane, &write, Durability::Durable).expect("commits");
                }
                for number in 0..20 {
                    let mut content = [0; BLOCK];
                    journal.read(BlockNumber(number), &mut content).expect("reads");
                    assert_eq!(content, [number as u8; BLOCK]);
                }
            })
        };
        open(1000, 60).expect("opens");
        let before = world.visible();
        let Err(OpenError::IndexFull { frames_needed }) = open(10, 0) else {
            panic!("{}: it has no room", policy.name())
        };
        assert!(world.visible() == before, "nothing was written");
        assert!((60..=120).contains(&frames_needed), "{frames_needed}");
        open(frames_needed, 0).expect("opens");
        open(frames_needed, 0).expect("opens again");
    }
}
