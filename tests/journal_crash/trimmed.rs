//! Trims of a journal: after every crash a block is as it was, or zero, and what is written to it
//! later builds on what the disk holds then.

use journal_core::{BlockDevice, BlockNumber, BlockSize, DeviceError, DeviceFacts};
use nvm_journal::{AnyPolicy, ByteDelta, FullBlock, Journal, On, Options};
use sim_disk::suite::{Promise, Store, StoreBudget, View, check_store};
use sim_disk::{DiskImage, Image, SimDisk, SimPmem, World};

const BLOCK: usize = 128;
const BLOCKS: u64 = 4;

/// A disk whose discarded blocks are zero.
#[derive(Clone)]
struct Forgets(SimDisk);

impl BlockDevice for Forgets {
    fn facts(&self) -> DeviceFacts {
        self.0.facts()
    }

    fn block_size(&self) -> BlockSize {
        self.0.block_size()
    }

    fn block_count(&self) -> u64 {
        self.0.block_count()
    }

    fn read(&mut self, first: BlockNumber, into: &mut [u8]) -> Result<(), DeviceError> {
        self.0.read(first, into)
    }

    fn write(&mut self, first: BlockNumber, from: &[u8]) -> Result<(), DeviceError> {
        self.0.write(first, from)
    }

    fn discard(&mut self, first: BlockNumber, blocks: u64) -> Result<(), DeviceError> {
        self.0.write(first, &vec![0; blocks as usize * BLOCK])
    }

    fn sync(&mut self) -> Result<(), DeviceError> {
        self.0.sync()
    }
}

#[derive(Clone, Copy, Debug)]
enum Act {
    Write(u64, u8),
    /// Some bytes of a block, which a policy of changes logs alone.
    Patch(u64),
    /// Two blocks, by one transaction.
    Trim,
    Zeroes,
    Checkpoint,
}

struct Trimmed(AnyPolicy);

impl Trimmed {
    fn options(&self) -> Options<AnyPolicy> {
        let options = Options::new().policy(self.0).lanes(1).unit_bytes(256);
        options.lane_slots(0).lane_log_blocks(0).cache_bytes(1024)
    }
}

type Trims = Journal<AnyPolicy, On<SimPmem, Forgets>>;

fn said(error: impl core::fmt::Display) -> String {
    error.to_string()
}

impl Store for Trimmed {
    type Operation = Act;
    type Open = Trims;

    fn media(&self) -> Image {
        let size = BlockSize::new(BLOCK as u32).expect("a block size");
        Image::blank(1 << 13).with_disk(DiskImage::blank(size, BLOCKS, DeviceFacts::cautious()))
    }

    fn format(&self, world: &World) -> Result<(), String> {
        let disk = Forgets(world.disk(0));
        Journal::format(world.pmem(), disk, &self.options()).map(drop).map_err(said)
    }

    fn open(&self, world: &World) -> Result<Trims, String> {
        Journal::open(world.pmem(), Forgets(world.disk(0)), &self.options()).map_err(said)
    }

    fn apply(&self, journal: &mut Trims, act: &Act) -> Result<Promise, String> {
        match *act {
            Act::Write(block, byte) => journal
                .transact(|transaction| transaction.write(BlockNumber(block), &[byte; BLOCK]))
                .map_err(said)?,
            Act::Patch(block) => journal
                .transact(|transaction| transaction.write_at(BlockNumber(block), 40, b"!!"))
                .map_err(said)?,
            Act::Trim => {
                let trimmed = journal.trim(BlockNumber(1), 2).map_err(said)?;
                if trimmed != 2 {
                    return Err(format!("{trimmed} blocks were trimmed"));
                }
            }
            Act::Zeroes => journal.write_zeroes(BlockNumber(0), 2).map_err(said)?,
            Act::Checkpoint => drop(journal.checkpoint().map_err(said)?),
        }
        Ok(Promise::Durable)
    }

    fn read(&self, journal: &mut Trims) -> Result<View, String> {
        let mut view = View::new();
        for block in 0..BLOCKS {
            let mut image = [0; BLOCK];
            journal.read(BlockNumber(block), &mut image).map_err(said)?;
            if image != [0; BLOCK] {
                let content = String::from_utf8(image.to_vec()).map_err(said)?;
                view.insert(block.to_string(), content);
            }
        }
        Ok(view)
    }

    fn operations(&self) -> Vec<Act> {
        let few = [Act::Write(1, b'w'), Act::Patch(1), Act::Trim, Act::Checkpoint];
        few.into_iter().chain([Act::Write(2, b'x'), Act::Zeroes]).collect()
    }

    fn model(&self, view: &mut View, act: &Act) {
        match *act {
            Act::Write(block, byte) => {
                view.insert(block.to_string(), char::from(byte).to_string().repeat(BLOCK));
            }
            Act::Patch(block) => {
                let zero = || "\0".repeat(BLOCK);
                let content = view.entry(block.to_string()).or_insert_with(zero);
                content.replace_range(40..42, "!!");
            }
            Act::Trim => [1, 2].iter().for_each(|block| drop(view.remove(&block.to_string()))),
            Act::Zeroes => [0, 1].iter().for_each(|block| drop(view.remove(&block.to_string()))),
            Act::Checkpoint => {}
        }
    }
}

#[test]
fn every_crash_of_a_trim_leaves_what_was_or_zeroes() {
    let budget = StoreBudget::new().images(4).longer(24, 7).faults(4);
    for store in [Trimmed(FullBlock.into()), Trimmed(ByteDelta::new().into())] {
        let summary = check_store(&store, &budget).unwrap_or_else(|failure| panic!("{failure}"));
        assert!(summary.report.images > 1_000, "{}: {summary}", store.0);
    }
}
