use full_block::FullBlock;
use journal_core::parts::Found;
use journal_core::{
    BlockNumber, BlockSize, Buffers, DeviceFacts, Durability, Geometry, MediumErrorKind, Needs,
    NoHook, OpenError, Operation, PortableKernels, Protocol,
};
use sim_disk::{DiskImage, Image, Model, World};

use super::*;

const LANES: u16 = 5;
const GEOMETRY: Geometry = Geometry {
    block_size: BlockSize::MIN,
    lanes: LANES,
    lane_bytes: 1 << 13,
    shield_blocks: 0,
    unit_bytes: 4096,
    protocol: Protocol::OneFence,
    lane_slots: 0,
    lane_log_blocks: 0,
    segment_blocks: 0,
};
const BLOCKS: u64 = 64;

/// A journal with ten records in each lane.
fn filled() -> Image {
    let disk = DiskImage::blank(GEOMETRY.block_size, BLOCKS, DeviceFacts::cautious());
    let span = GEOMETRY.span_bytes().expect("a small one") as usize;
    let world = World::boot(Image::blank(span).with_disk(disk), Model::Torn8);
    let kernels = PortableKernels;
    journal_core::format(world.pmem(), NoHook, &kernels, &GEOMETRY, [9; 16], &FullBlock, BLOCKS)
        .expect("formats");
    let mut buffers = Buffers::new(&GEOMETRY, 128, 8);
    let (pmem, disk, memory) = (world.pmem(), world.disk(0), buffers.borrow());
    let opened = journal_core::Journal::open(pmem, disk, FullBlock, NoHook, kernels, memory);
    let mut journal = opened.expect("opens");
    let image = vec![7; GEOMETRY.block_size.bytes()];
    for number in 0..50 {
        let write = Operation::write(BlockNumber(number), &image);
        let lane = LaneNumber((number % u64::from(LANES)) as u16);
        journal.commit(lane, &[write], Durability::Durable).expect("fits");
    }
    drop(journal);
    world.visible()
}

/// What this number of threads finds in the journal, in full.
fn found_by(threads: usize, image: &Image) -> Result<String, OpenError> {
    let world = World::boot(image.clone(), Model::Torn8);
    let found = Found::load(world.pmem(), NoHook, &PortableKernels)?;
    let mut front = vec![0; Needs::of(found.geometry(), 1).front_bytes];
    let scan = scan_by(threads, &found.unscanned(), &PortableKernels, &mut front)?;
    Ok(format!("{scan:?}"))
}

#[test]
fn any_number_of_threads_find_the_same() {
    let image = filled();
    let alone = found_by(1, &image).expect("can be read");
    assert_eq!(alone.matches("records: 10").count(), usize::from(LANES), "{alone}");
    for threads in 2..=usize::from(LANES) + 1 {
        assert_eq!(found_by(threads, &image), Ok(alone.clone()), "{threads} threads");
    }
}

#[test]
fn of_lanes_that_cannot_be_read_the_first_one_counts() {
    let first_line = |lane| GEOMETRY.lane(LaneNumber(lane)).raw();
    for (first, second) in [(0, 1), (1, 3), (2, 4), (0, 4)] {
        let mut image = filled();
        image.poison(first_line(first));
        image.poison(first_line(second));
        for threads in 1..=usize::from(LANES) {
            let Err(OpenError::Medium(error)) = found_by(threads, &image) else {
                panic!("lanes {first} and {second} were read by {threads} threads")
            };
            let at = (error.kind, error.at.raw());
            assert_eq!(at, (MediumErrorKind::Poisoned, first_line(first)), "{threads} threads");
        }
    }
}
