//! A store that becomes larger and smaller: after every crash it has one of the two sizes, and
//! every block that it has holds what was committed to it.

use journal_core::{BlockNumber, BlockSize, DeviceFacts, NoHook, OpenError};
use lab::erased::{DynDisk, DynHook, DynJournal, DynPmem, DynPolicy, any_options};
use lab::test_disks::First;
use nvm_journal::{AnyPolicy, ByteDelta, Error, FullBlock, Joined, Journal, Options};
use sim_disk::suite::{Promise, Store, StoreBudget, View, check_store};
use sim_disk::{DiskImage, Image, Model, World};

const BLOCK: usize = 128;
const SMALL: u64 = 4;
const LARGE: u64 = 6;
const SIZE: &str = "size";

#[derive(Clone, Copy, Debug)]
enum Act {
    Write(u64, u8),
    /// The last blocks are zero.
    Clear,
    Larger,
    /// As long as the last blocks are zero.
    Smaller,
    Checkpoint,
}

struct Opened {
    world: World,
    journal: Option<DynJournal>,
}

impl Opened {
    fn journal(&self) -> &DynJournal {
        self.journal.as_ref().expect("is open")
    }

    fn byte(&self, block: u64) -> Result<u8, String> {
        let mut image = [0; BLOCK];
        self.journal().read(BlockNumber(block), &mut image).map_err(said)?;
        let is_whole = image.iter().all(|byte| *byte == image[0]);
        if is_whole { Ok(image[0]) } else { Err(format!("block {block} is in pieces")) }
    }

    fn holds_zero(&self) -> Result<bool, String> {
        let bytes = (SMALL..self.journal().block_count()).map(|block| self.byte(block));
        Ok(bytes.collect::<Result<Vec<_>, _>>()?.iter().all(|byte| *byte == 0))
    }
}

/// The memory of a world, and this number of blocks of its disk.
fn media(world: &World, blocks: u64) -> (DynPmem, DynDisk) {
    (DynPmem::new(world.pmem()), DynDisk::new(First(world.disk(0), blocks)))
}

fn said(error: impl core::fmt::Display) -> String {
    error.to_string()
}

struct Resized(AnyPolicy);

impl Resized {
    fn new(policy: impl Into<AnyPolicy>) -> Self {
        Self(policy.into())
    }

    fn options(&self) -> Options<DynPolicy, DynHook> {
        let options = any_options(self.0, NoHook).lanes(1).unit_bytes(256);
        options.lane_slots(0).lane_log_blocks(0)
    }

    fn open(&self, world: &World, blocks: u64, resizes: bool) -> Result<DynJournal, Error> {
        let (nvm, disk) = media(world, blocks);
        Journal::open(nvm, disk, &self.options().resizes(resizes))
    }
}

impl Store for Resized {
    type Operation = Act;
    type Open = Opened;

    fn media(&self) -> Image {
        let size = BlockSize::new(BLOCK as u32).expect("a block size");
        Image::blank(1 << 13).with_disk(DiskImage::blank(size, LARGE, DeviceFacts::cautious()))
    }

    fn format(&self, world: &World) -> Result<(), String> {
        let (nvm, disk) = media(world, SMALL);
        Journal::format(nvm, disk, &self.options()).map(drop).map_err(said)
    }

    /// Without leave to change the size: the store has one of the two.
    fn open(&self, world: &World) -> Result<Opened, String> {
        let opened = match self.open(world, SMALL, false) {
            Err(Error::Open(OpenError::WrongDevice { .. })) => self.open(world, LARGE, false),
            opened => opened,
        };
        Ok(Opened { world: world.clone(), journal: Some(opened.map_err(said)?) })
    }

    fn apply(&self, open: &mut Opened, act: &Act) -> Result<Promise, String> {
        match *act {
            Act::Write(block, byte) if block < open.journal().block_count() => open
                .journal()
                .transact(|transaction| transaction.write(BlockNumber(block), &[byte; BLOCK]))
                .map_err(said)?,
            Act::Clear if open.journal().block_count() == LARGE => {
                let clear = |block| (BlockNumber(block), [0; BLOCK]);
                let cleared = open.journal().transact(|transaction| {
                    let mut all = (SMALL..LARGE).map(clear);
                    all.try_for_each(|(block, image)| transaction.write(block, &image))
                });
                cleared.map_err(said)?;
            }
            Act::Larger => {
                open.journal = None;
                open.journal = Some(self.open(&open.world, LARGE, true).map_err(said)?);
            }
            Act::Smaller if open.holds_zero()? => {
                open.journal.take().expect("is open").close().map_err(said)?;
                open.journal = Some(self.open(&open.world, SMALL, true).map_err(said)?);
            }
            Act::Checkpoint => drop(open.journal().checkpoint().map_err(said)?),
            Act::Write(..) | Act::Clear | Act::Smaller => {}
        }
        Ok(Promise::Durable)
    }

    fn read(&self, open: &mut Opened) -> Result<View, String> {
        let mut view = View::new();
        let blocks = open.journal().block_count();
        if blocks != SMALL {
            view.insert(SIZE.to_owned(), blocks.to_string());
        }
        for block in 0..blocks {
            let byte = open.byte(block)?;
            if byte != 0 {
                view.insert(block.to_string(), byte.to_string());
            }
        }
        Ok(view)
    }

    fn operations(&self) -> Vec<Act> {
        let (low, high) = (SMALL - 1, LARGE - 1);
        let writes = [Act::Write(low, 1), Act::Write(high, 2)];
        writes.into_iter().chain([Act::Clear, Act::Larger, Act::Smaller, Act::Checkpoint]).collect()
    }

    fn model(&self, view: &mut View, act: &Act) {
        let is_large = view.contains_key(SIZE);
        let high = |view: &View| (SMALL..LARGE).any(|block| view.contains_key(&block.to_string()));
        match *act {
            Act::Write(block, byte) if block < SMALL || is_large => {
                view.insert(block.to_string(), byte.to_string());
            }
            Act::Clear => (SMALL..LARGE).for_each(|block| drop(view.remove(&block.to_string()))),
            Act::Larger => drop(view.insert(SIZE.to_owned(), LARGE.to_string())),
            Act::Smaller if !high(view) => drop(view.remove(SIZE)),
            Act::Write(..) | Act::Smaller | Act::Checkpoint => {}
        }
    }
}

#[test]
fn every_crash_leaves_one_size_and_all_blocks() {
    let budget = StoreBudget::new().images(4).longer(24, 7).faults(2);
    for store in [Resized::new(FullBlock), Resized::new(ByteDelta::new())] {
        let summary = check_store(&store, &budget).unwrap_or_else(|failure| panic!("{failure}"));
        assert!(summary.report.images > 1_000, "{summary}");
    }
}

#[test]
fn a_block_that_the_lanes_speak_of_is_not_cut_off() {
    let store = Resized::new(FullBlock);
    let world = World::boot(store.media(), Model::X86Line);
    store.format(&world).expect("media");
    let larger = store.open(&world, LARGE, true).expect("a larger disk");
    larger.transact(|transaction| transaction.write(BlockNumber(5), &[5; BLOCK])).expect("room");
    // The lanes are left as a killed process leaves them.
    let world = World::boot(world.visible(), Model::X86Line);
    let refused = store.open(&world, SMALL, true).expect_err("block 5 is in a lane");
    assert!(matches!(refused, Error::Open(OpenError::WrongDevice { .. })), "{refused}");
    // An open that gives the memory back finds out before it has taken the memory apart.
    let options = any_options(FullBlock, NoHook).lanes(1).unit_bytes(256);
    let options = options.lane_slots(0).lane_log_blocks(0).resizes(true);
    let before = world.visible();
    let (pmem, disk) = media(&world, SMALL);
    let (tried, pmem, _) = Journal::try_open(pmem, disk, &options).expect_err("block 5");
    assert!(matches!(tried, Error::Open(OpenError::WrongDevice { .. })), "{tried}");
    assert!(pmem.is_some() && world.visible() == before, "the memory is as it was");
    drop(pmem);
    let asked = store.open(&world, SMALL, false).expect_err("nobody asked for it");
    assert!(matches!(asked, Error::Open(OpenError::WrongDevice { .. })), "{asked}");
    let again = store.open(&world, LARGE, false).expect("as it was");
    let mut image = [0; BLOCK];
    again.read(BlockNumber(5), &mut image).expect("is there");
    assert_eq!(image, [5; BLOCK]);
    again.close().expect("a close");
    let smaller = store.open(&world, SMALL, true).expect("the lanes are empty");
    assert_eq!(smaller.block_count(), SMALL);
    assert!(smaller.read(BlockNumber(5), &mut image).is_err());
    drop(smaller);
    assert!(store.open(&world, LARGE, false).is_err());
    let (pmem, disk) = media(&world, SMALL - 1);
    assert!(Journal::try_open(pmem, disk, &options).is_ok(), "no lane speaks of a block");
}

/// Where the first of two disks has become larger, the blocks of the second one have other numbers.
#[test]
fn two_disks_as_one_keep_their_size() {
    let size = BlockSize::new(BLOCK as u32).expect("a block size");
    let disk = |blocks| DiskImage::blank(size, blocks, DeviceFacts::cautious());
    let image = Image::blank(1 << 13).with_disk(disk(LARGE)).with_disk(disk(1));
    let world = World::boot(image, Model::X86Line);
    let options = any_options(FullBlock, NoHook).lanes(1).unit_bytes(256).resizes(true);
    let joined = |blocks| {
        let joined = Joined::new(First(world.disk(0), blocks), world.disk(1));
        DynDisk::new(joined.expect("blocks of one size"))
    };
    let journal =
        Journal::format(DynPmem::new(world.pmem()), joined(SMALL), &options).expect("media");
    let last = BlockNumber(SMALL);
    journal.transact(|transaction| transaction.write(last, &[9; BLOCK])).expect("room");
    drop(journal);
    let before = world.visible();
    for blocks in [LARGE, SMALL - 1] {
        let refused = Journal::open(DynPmem::new(world.pmem()), joined(blocks), &options);
        let refused = refused.expect_err("another size");
        assert!(matches!(refused, Error::Open(OpenError::WrongDevice { .. })), "{refused}");
    }
    assert!(world.visible() == before, "nothing was written");
    let journal =
        Journal::open(DynPmem::new(world.pmem()), joined(SMALL), &options).expect("as it was");
    let mut image = [0; BLOCK];
    journal.read(last, &mut image).expect("is there");
    assert_eq!(image, [9; BLOCK]);
}
