//! Copies of a journal's memory, stored as the content of blocks: never taken for a record, for a
//! header that proves something, or for anything else of the journal.
//!
//! A store may well do that: a plain backup of the file that holds the journal is enough. So each
//! range of the memory is stored, through one lane, at each place of that lane, and the journal is
//! opened after each commit; also with that commit torn, so that what it stored lies behind the end
//! of the lane.

use full_block::FullBlock;
use journal_core::Buffers;
use journal_core::policy::{Change, Update};
use journal_core::units::LaneNumber;
use journal_core::{
    BlockNumber, BlockSize, CommitError, DeviceFacts, Durability, Geometry, Journal, On, Operation,
    Overwrite, PortableKernels, Protocol, Rule,
};
use sim_disk::{DiskImage, Image, Model, Mutator, SimDisk, SimPmem, World};

const BLOCKS: u64 = 8;
const BLOCK: usize = 64;
/// Bytes of a record in front of its images: of one, two or three.
const HEAD: u64 = 128;
const LANE: u64 = 18 * 64;

/// Images of the records of a lane, in their order. The sixth begins at line 23, and is as long as
/// the images of the second one, which lie at the same place of the ring one lap before.
const IMAGES: [usize; 10] = [1, 3, 3, 3, 3, 1, 1, 3, 3, 3];

type Blocks = [[u8; BLOCK]; BLOCKS as usize];
type Opened<'m> = Journal<'m, FullBlock, On<SimPmem, SimDisk, Mutator>>;

/// An empty journal of two lanes.
struct Copied {
    mutator: Mutator,
    protocol: Protocol,
    start: Image,
}

impl Copied {
    fn new(mutator: Mutator, protocol: Protocol) -> Self {
        let copied = Self { mutator, protocol, start: Image::blank(0) };
        let span = usize::try_from(copied.geometry().span_bytes().expect("small")).expect("small");
        let facts = DeviceFacts::new(64, Overwrite::OldOrNew);
        let disk = DiskImage::blank(BlockSize::MIN, BLOCKS, facts);
        let world = World::boot(Image::blank(span).with_disk(disk), Model::Torn8);
        let (geometry, id) = (copied.geometry(), *b"copies of memory");
        let (pmem, kernels) = (world.pmem(), PortableKernels);
        journal_core::format(pmem, Mutator::new(), &kernels, &geometry, id, &FullBlock, BLOCKS)
            .expect("formats");
        Self { start: world.visible(), ..copied }
    }

    fn geometry(&self) -> Geometry {
        Geometry {
            block_size: BlockSize::MIN,
            lanes: 2,
            lane_bytes: LANE,
            shield_blocks: 0,
            unit_bytes: 256,
            protocol: self.protocol,
            lane_slots: 0,
            lane_log_blocks: 0,
            segment_blocks: 0,
        }
    }

    fn with<R>(
        &self,
        world: &World,
        work: impl FnOnce(&mut Opened<'_>) -> Result<R, String>,
    ) -> Result<R, String> {
        let mut buffers = Buffers::new(&self.geometry(), 64, 2);
        let (pmem, disk, hook) = (world.pmem(), world.disk(0), self.mutator.clone());
        let journal = Journal::open(pmem, disk, FullBlock, hook, PortableKernels, buffers.borrow());
        work(&mut journal.map_err(|error| format!("does not open: {error}"))?)
    }

    /// Opens what a killed process has left, and looks at all blocks.
    fn shows(&self, image: Image, blocks: &Blocks) -> Result<(), String> {
        let world = World::boot(image, Model::Torn8);
        self.with(&world, |journal| {
            for (number, block) in (0..).zip(blocks) {
                let mut content = [0; BLOCK];
                journal.read(BlockNumber(number), &mut content).map_err(|e| e.to_string())?;
                if content != *block {
                    return Err(format!("block {number} is {content:x?}"));
                }
            }
            Ok(())
        })
    }

    /// Fills the first lane, up to its second lap. Then stores through the second one, lap after
    /// lap, what lies `shift` bytes behind the place where it comes to lie. One process does both.
    fn try_shift(&self, shift: usize) -> Result<(), String> {
        let world = World::boot(self.start.clone(), Model::Torn8);
        let mut blocks = [[0; BLOCK]; BLOCKS as usize];
        self.with(&world, |journal| {
            for (round, count) in (0..7_u8).zip(IMAGES) {
                let contents = [0, 1, 2].map(|image| [0x10 * image + round; BLOCK]);
                commit(journal, 0, 0, &contents[..count], &mut blocks)?;
            }
            let mut tail = 0;
            for (record, count) in IMAGES.into_iter().enumerate() {
                let tried = self.try_record(&world, journal, &mut blocks, tail, count, shift);
                tried.map_err(|error| format!("record {record}{error}"))?;
                tail += HEAD + (count * BLOCK) as u64;
            }
            Ok(())
        })
    }

    /// One record through the second lane, and what is there after that in each case.
    fn try_record(
        &self,
        world: &World,
        journal: &mut Opened<'_>,
        blocks: &mut Blocks,
        tail: u64,
        count: usize,
        shift: usize,
    ) -> Result<(), String> {
        let ring = self.geometry().lane(LaneNumber(1)).raw();
        let before = *blocks;
        let memory = world.visible();
        let memory = memory.pmem();
        let copied = |image: u64| {
            let place = ring + (tail + HEAD + image * BLOCK as u64) % LANE;
            core::array::from_fn(|byte| memory[(place as usize + shift + byte) % memory.len()])
        };
        let contents: Vec<[u8; BLOCK]> = (0..count as u64).map(copied).collect();
        commit(journal, 1, 4, &contents, blocks)?;
        self.shows(world.visible(), blocks).map_err(|error| format!(": {error}"))?;
        // With tail words that is no torn tail.
        if self.protocol == Protocol::OneFence {
            let mut torn = world.visible();
            torn.pmem_mut()[(ring + tail % LANE) as usize] ^= 1;
            self.shows(torn, &before).map_err(|error| format!(", torn: {error}"))?;
        }
        // Heads are where the lanes end.
        journal.checkpoint().map_err(|error| error.to_string())?;
        self.shows(world.visible(), blocks).map_err(|error| format!(", home: {error}"))
    }

    fn try_all(&self) -> Result<(), String> {
        let bytes = self.start.pmem().len();
        (0..bytes).try_for_each(|shift| {
            self.try_shift(shift).map_err(|error| format!("{shift} bytes behind: {error}"))
        })
    }
}

fn commit(
    journal: &mut Opened<'_>,
    lane: u16,
    first: usize,
    contents: &[[u8; BLOCK]],
    blocks: &mut Blocks,
) -> Result<(), String> {
    let numbers = (first as u64..).map(BlockNumber);
    let updates = numbers.zip(contents).map(|(block, content)| {
        let content: &[u8] = content;
        Operation::Update(Update::new(block, Change::Image(content)))
    });
    let operations: Vec<Operation<'_>> = updates.collect();
    let lane = LaneNumber(lane);
    let mut done = journal.commit(lane, &operations, Durability::Durable);
    if let Err(CommitError::NoSpace { .. }) = done {
        journal.checkpoint().map_err(|error| error.to_string())?;
        done = journal.commit(lane, &operations, Durability::Durable);
    }
    done.map_err(|error| error.to_string())?;
    blocks[first..first + contents.len()].copy_from_slice(contents);
    Ok(())
}

/// Every range of the memory, at every place of the lane, to the byte.
#[test]
fn no_copy_of_the_memory_is_taken_for_anything() {
    for protocol in [Protocol::OneFence, Protocol::TailPointer] {
        let copied = Copied::new(Mutator::new(), protocol);
        copied.try_all().unwrap_or_else(|error| panic!("{protocol:?}: {error}"));
    }
}

/// A copy from the other lane is wrong in its lane only. It must count neither as a header that
/// proves something, nor as a record.
#[test]
fn a_record_counts_only_in_its_lane() {
    let evidence = [Rule::LaneChecked, Rule::Watermarks];
    for (without, wrong) in [(&evidence[..1], "does not open"), (&evidence, "block 0 is")] {
        let copied = Copied::new(Mutator::without(without), Protocol::OneFence);
        let from_the_other_lane = copied.start.pmem().len() - LANE as usize;
        let error = copied.try_shift(from_the_other_lane).expect_err("a copy counts");
        assert!(error.contains(wrong), "{without:?}: {error}");
    }
}
