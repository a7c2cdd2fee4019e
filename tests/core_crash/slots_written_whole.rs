//! Slots that a killed process has changed: blocks of two lines, so that one may be flushed and the
//! other not.

use byte_delta::ByteDelta;
use journal_core::Buffers;
use journal_core::policy::{Change, Update};
use journal_core::units::{BlockSize, LaneNumber};
use journal_core::{
    BlockNumber, DeviceFacts, Durability, Geometry, Journal, Operation, Overwrite, PortableKernels,
    Protocol, Rule,
};
use sim_disk::{DiskImage, Explorer, Image, Mark, Model, Mutator, Scenario, World};

const BLOCK: usize = 128;

const GEOMETRY: Geometry = Geometry {
    block_size: BlockSize::new(BLOCK as u32).expect("a block size"),
    lanes: 1,
    lane_bytes: 16 * 64,
    shield_blocks: 0,
    unit_bytes: 256,
    protocol: Protocol::OneFence,
    lane_slots: 2,
    lane_log_blocks: 0,
    segment_blocks: 0,
};

/// One block in versions, of which the third and the fourth differ in one line only.
#[derive(Clone, Debug)]
struct Versions(Mutator);

fn version(number: u64) -> [u8; BLOCK] {
    let mut image = [0; BLOCK];
    image[..8].copy_from_slice(&number.to_le_bytes());
    image[64..72].copy_from_slice(&number.min(3).to_le_bytes());
    image
}

impl Versions {
    fn run(&self, world: &World, count: u64, shown: impl Fn(u64)) -> Result<(), String> {
        let mut buffers = Buffers::new(&GEOMETRY, 16, 1);
        let (pmem, disk, hook) = (world.pmem(), world.disk(0), self.0.clone());
        let memory = buffers.borrow();
        let opened = Journal::open(pmem, disk, ByteDelta::new(), hook, PortableKernels, memory);
        let mut journal = opened.map_err(|error| error.to_string())?;
        let mut found = [0; BLOCK];
        journal.read(BlockNumber(0), &mut found).map_err(|error| error.to_string())?;
        let number = judge(&world.history(), &found)?;
        shown(number);
        for _ in 0..count {
            let next = calls(&world.history()) + 1;
            let image = version(next);
            world.called(next);
            let update = Update::new(BlockNumber(0), Change::Image(&image));
            let operations = [Operation::Update(update)];
            let committed = journal.commit(LaneNumber(0), &operations, Durability::Durable);
            committed.map_err(|error| error.to_string())?;
            world.returned(next);
        }
        Ok(())
    }
}

fn calls(history: &[Mark]) -> u64 {
    history.iter().filter(|mark| matches!(mark, Mark::Called(_))).count() as u64
}

/// Which version the block holds: the last one acknowledged, or one that was called since.
fn judge(history: &[Mark], found: &[u8; BLOCK]) -> Result<u64, String> {
    let returned = history.iter().filter_map(|mark| match mark {
        Mark::Returned(number) => Some(*number),
        _ => None,
    });
    let mut allowed = returned.max().unwrap_or(0)..=calls(history);
    let fits = allowed.find(|number| version(*number) == *found);
    let words = [found[0], found[64]];
    fits.ok_or_else(|| format!("lines begin with {words:?}: {history:?}"))
}

impl Scenario for Versions {
    fn name(&self) -> String {
        "versions of one block".to_owned()
    }

    fn start(&self) -> Image {
        let span = GEOMETRY.span_bytes().expect("small") as usize;
        let facts = DeviceFacts::new(32, Overwrite::OldOrNew);
        let disk = DiskImage::blank(GEOMETRY.block_size, 1, facts);
        let world = World::boot(Image::blank(span).with_disk(disk), Model::Torn8);
        let (hook, kernels, policy) = (Mutator::new(), PortableKernels, ByteDelta::new());
        let formatted =
            journal_core::format(world.pmem(), hook, &kernels, &GEOMETRY, [7; 16], &policy, 1);
        formatted.expect("formats");
        world.visible()
    }

    fn program(&self, world: &World) -> Result<(), String> {
        self.run(world, 3, |_| {})
    }

    fn recover(&self, world: &World) -> Result<(), String> {
        self.run(world, 1, |number| world.recovered(number))
    }
}

/// A killed process has changed words of an older version and not flushed them; the next one
/// changes others, and a power loss forgets the first.
#[test]
fn a_slot_that_an_earlier_process_may_have_changed_is_written_whole_first() {
    let explorer = Explorer::new(Model::Torn8)
        .with_images_per_point_max(1 << 8)
        .with_random_per_point(64)
        .with_depth(1)
        .with_kills();
    if let Err(failure) = explorer.explore(&Versions(Mutator::new())) {
        panic!("{failure}");
    }
    let broken = Versions(Mutator::without(&[Rule::SlotsWrittenWhole]));
    assert!(explorer.explore(&broken).is_err(), "and nothing notices");
}
