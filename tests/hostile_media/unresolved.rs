//! More torn slots than an open looks for the end of.
//!
//! A record that is dropped for its slot uncovers older ones, whose slots are looked at in the next
//! round. One round drops what a block has of torn versions up to a whole one; so two blocks that
//! are torn in turns take a round for two records. How often that goes on is bounded, in time and
//! not by what the format says: the second reader goes on to the end.

use journal_core::Buffers;
use journal_core::policy::{Change, Update};
use journal_core::units::LaneNumber;
use journal_core::{
    BlockNumber, Durability, Journal, NoHook, On, OpenError, Operation, PortableKernels, Recovery,
};
use sim_disk::{Image, Model, World};

use lab::second_reader::reader::Content;
use lab::second_reader::{BLOCK_BYTES, Block, Kind, Shape};

/// Records, none of which is known durable. Each has both blocks, in slots.
const RECORDS: u32 = 2_100;
const BOTH: [u64; 2] = [2, 5];

const SHAPE: Shape =
    Shape { lane_bytes: 1 << 19, lane_slots: 2 * RECORDS, ..Shape::new(Kind::Delta, 1) };

/// What a record makes of a block.
fn content(record: u32, block: u64) -> Block {
    let mut content = [block as u8; BLOCK_BYTES];
    content[..4].copy_from_slice(&record.to_le_bytes());
    content
}

/// Opens it, does something, and says what opening has found.
fn with(
    world: &World,
    work: impl FnOnce(&mut Journal<'_, Kind, On<sim_disk::SimPmem, sim_disk::SimDisk>>),
) -> Result<Recovery, OpenError> {
    let mut buffers = Buffers::new(&SHAPE.geometry(), 2 * RECORDS as usize, 4);
    let (pmem, disk) = (world.pmem(), world.disk(0));
    let memory = buffers.borrow();
    let mut journal = Journal::open(pmem, disk, SHAPE.kind, NoHook, PortableKernels, memory)?;
    work(&mut journal);
    Ok(*journal.recovery())
}

/// A journal whose process was killed before it made anything durable.
fn killed() -> Image {
    let world = World::boot(SHAPE.format(), Model::Torn8);
    let opened = with(&world, |journal| {
        for record in 0..RECORDS {
            let contents = BOTH.map(|block| content(record, block));
            let operations = [0, 1].map(|at| {
                let change = Change::Image(&contents[at]);
                Operation::Update(Update::new(BlockNumber(BOTH[at]), change))
            });
            let committed = journal.commit(LaneNumber(0), &operations, Durability::Deferred);
            committed.expect("commits");
        }
    });
    opened.expect("opens");
    world.visible()
}

/// Tears the slots in which these records, counted from the newest one, have a block.
fn tear(image: &Image, torn: impl Iterator<Item = (u32, u64)>) -> Image {
    let found = SHAPE.read_by_the_book(image).expect("is a journal");
    let mut image = image.clone();
    for (from_newest, block) in torn {
        let mut versions = found.versions.0[&block].iter().rev();
        let version = versions.nth(from_newest as usize).expect("a version");
        let (slot, _) = version.slot.expect("is in a slot");
        image.pmem_mut()[found.area.slot_at(slot) as usize] ^= 1;
    }
    image
}

/// Opens an image; and what is shown is what the second reader says.
fn open(image: &Image) -> Result<Recovery, OpenError> {
    let world = World::boot(image.clone(), Model::Torn8);
    let found = SHAPE.read_by_the_book(image).expect("the book accepts it");
    let opened = with(&world, |journal| {
        for block in BOTH {
            let mut into = [0; BLOCK_BYTES];
            journal.read(BlockNumber(block), &mut into).expect("reads");
            assert_eq!(Content::Is(into), found.blocks[block as usize], "block {block}");
        }
    });
    if opened.is_err() {
        assert!(world.visible().pmem() == image.pmem(), "refused, and the span was changed");
    }
    opened
}

/// Which of the two is looked at first is the index's business, and makes a difference of one.
#[test]
fn an_open_gives_up_where_more_slots_are_torn_in_turns_than_it_has_rounds() {
    let image = killed();
    let mut fewest_refused = BOTH.map(|first| {
        let in_turns = |records: u32| {
            let other = BOTH[0] + BOTH[1] - first;
            let torn = move |record| (record, if record % 2 == 0 { first } else { other });
            open(&tear(&image, (0..records).map(torn)))
        };
        let said: Vec<_> = (2_044..=2_048).map(|records| (records, in_turns(records))).collect();
        let opens = said.iter().take_while(|(_, said)| said.is_ok()).count();
        for (records, found) in &said[..opens] {
            assert_eq!(found.map(|found| found.torn_slots), Ok(1), "{records}: one lane");
        }
        for (records, refused) in &said[opens..] {
            assert_eq!(*refused, Err(OpenError::Unresolved), "{records}");
        }
        said[opens].0
    });
    fewest_refused.sort_unstable();
    assert_eq!(fewest_refused, [2_046, 2_047]);
}

/// It is not how many are torn that counts.
#[test]
fn an_open_drops_any_number_of_torn_slots_in_a_few_rounds() {
    let image = killed();
    let torn = (0..RECORDS).flat_map(|record| BOTH.map(|block| (record, block)));
    assert_eq!(
        open(&tear(&image, torn)).map(|found| (found.torn_slots, found.records)),
        Ok((1, 0))
    );
}
