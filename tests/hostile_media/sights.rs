//! What an examination sees of slots that were damaged one by one.

use journal_core::units::{SlotNumber, Stamp};
use journal_core::{
    BlockNumber, EXAMINE_BYTES_MAX, PortableKernels, SlotSight, SlotSights, examine, examine_slots,
};
use sim_disk::{Image, Model, World};

use lab::second_reader::versions::entry_check;
use lab::second_reader::{Act, Kind, Shape, What};

const SHAPE: Shape = Shape { lane_slots: 8, ..Shape::new(Kind::Delta, 1) };

/// Blocks in the slots 7 to 2, whose entries say so; their stamps count up from 1.
fn folded() -> Image {
    let commit = |block| Act::Commit(0, vec![(block, What::Fill(block as u8))]);
    let acts: Vec<Act> = (0..6).map(commit).chain([Act::Fold]).collect();
    SHAPE.made_by(&acts).0
}

/// What is seen, slot by slot; and the same, counted.
fn see(image: Image) -> (Vec<SlotSight>, SlotSights) {
    let world = World::boot(image, Model::Torn8);
    let (pmem, kernels) = (world.pmem(), PortableKernels);
    let mut sights = Vec::new();
    let seen = examine_slots(&pmem, &kernels, |slot, sight| {
        assert_eq!(slot, SlotNumber(sights.len() as u32), "in their order");
        sights.push(sight);
    });
    seen.expect("is a journal");
    let mut scratch = [0; EXAMINE_BYTES_MAX];
    let examined = examine(&pmem, &kernels, &mut scratch).expect("is a journal");
    let [lane] = examined.lanes() else { panic!("one lane") };
    assert_eq!(lane.log_blocks, SlotSights::default(), "there is no log");
    assert!(world.tape().is_empty(), "it is only looked at");
    (sights, lane.slots)
}

#[test]
fn each_slot_is_seen_for_what_it_is() {
    let mut image = folded();
    let area = SHAPE.read_by_the_book(&image).expect("is a journal").area;
    let whole = |slot: u64| {
        let block = 7 - slot;
        SlotSight::Whole { block: BlockNumber(block), stamp: Stamp(block + 1) }
    };
    let void = SlotSight::Void;
    let mut expected: Vec<_> = [void, void].into_iter().chain((2..8).map(whole)).collect();
    assert_eq!(see(image.clone()).0, expected);

    let entry = |slot: u64| area.entry_at(slot) as usize;
    // Torn where it was void, and where it was whole.
    image.pmem_mut()[entry(0) + 24] = 1;
    image.pmem_mut()[entry(2)] ^= 1;
    (expected[0], expected[2]) = (SlotSight::Torn, SlotSight::Torn);
    // The device has no such block.
    let span = image.pmem_mut();
    span[entry(3)] = 200;
    let check = entry_check(&SHAPE.id, 3, &span[entry(3)..][..32]);
    span[entry(3) + 24..][..8].copy_from_slice(&check.to_le_bytes());
    expected[3] = SlotSight::Rotten;
    // Something else is in the slot.
    image.pmem_mut()[area.slot_at(4) as usize + 63] ^= 1;
    expected[4] = SlotSight::Changed { block: BlockNumber(3), stamp: Stamp(4) };
    // The slot is gone, and two entries are, of which one was void.
    image.poison(area.slot_at(5));
    expected[5] = SlotSight::Missing;
    let counted = |image: &Image| {
        let seen = see(image.clone()).1;
        [seen.whole, seen.changed, seen.void, seen.torn, seen.rotten, seen.missing]
    };
    assert_eq!((see(image.clone()).0, counted(&image)), (expected.clone(), [2, 1, 1, 2, 1, 1]));
    image.poison(area.entry_at(0));
    (expected[0], expected[1]) = (SlotSight::Missing, SlotSight::Missing);
    assert_eq!((see(image.clone()).0, counted(&image)), (expected, [2, 1, 0, 1, 1, 3]));
}
