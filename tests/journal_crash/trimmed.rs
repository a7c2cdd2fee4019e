//! Trims of a journal: after every crash a block is as it was, or zero, and what is written to it
//! later builds on what the disk holds then.

use journal_core::{BlockNumber, BlockSize, DeviceFacts, Rule};
use lab::erased::{DynDisk, DynHook, DynJournal, DynPmem, DynPolicy, any_options};
use lab::test_disks::Forgets;
use nvm_journal::{AnyPolicy, ByteDelta, FullBlock, Journal, Options};
use sim_disk::suite::{Promise, Store, StoreBudget, View, check_store};
use sim_disk::{DiskImage, Image, Mutator, World};

const BLOCK: usize = 128;
const BLOCKS: u64 = 4;

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

struct Trimmed {
    policy: AnyPolicy,
    /// What one program has, and not the other one.
    act: Act,
    hook: Mutator,
}

impl Trimmed {
    fn options(&self) -> Options<DynPolicy, DynHook> {
        let options = any_options(self.policy, self.hook.clone()).lanes(1).unit_bytes(256);
        options.lane_slots(0).lane_log_blocks(0).cache_bytes(1024)
    }
}

fn media(world: &World) -> (DynPmem, DynDisk) {
    (DynPmem::new(world.pmem()), DynDisk::new(Forgets::new(world.disk(0))))
}

fn said(error: impl core::fmt::Display) -> String {
    error.to_string()
}

impl Store for Trimmed {
    type Operation = Act;
    type Open = DynJournal;

    fn media(&self) -> Image {
        let size = BlockSize::new(BLOCK as u32).expect("a block size");
        Image::blank(1 << 13).with_disk(DiskImage::blank(size, BLOCKS, DeviceFacts::cautious()))
    }

    fn format(&self, world: &World) -> Result<(), String> {
        let (nvm, disk) = media(world);
        Journal::format(nvm, disk, &self.options()).map(drop).map_err(said)
    }

    fn open(&self, world: &World) -> Result<DynJournal, String> {
        let (nvm, disk) = media(world);
        Journal::open(nvm, disk, &self.options()).map_err(said)
    }

    fn apply(&self, journal: &mut DynJournal, act: &Act) -> Result<Promise, String> {
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
            Act::Zeroes => journal.write_zeroes(BlockNumber(1), 2).map_err(said)?,
            Act::Checkpoint => drop(journal.checkpoint().map_err(said)?),
        }
        Ok(Promise::Durable)
    }

    fn read(&self, journal: &mut DynJournal) -> Result<View, String> {
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
        vec![Act::Write(1, b'w'), Act::Patch(1), self.act, Act::Checkpoint, Act::Write(2, b'x')]
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
            Act::Trim | Act::Zeroes => {
                [1, 2].iter().for_each(|block| drop(view.remove(&block.to_string())));
            }
            Act::Checkpoint => {}
        }
    }
}

fn every_crash(act: Act) {
    let budget = StoreBudget::new().images(4).longer(24, 7).faults(4);
    for policy in [FullBlock.into(), ByteDelta::new().into()] {
        let store = Trimmed { policy, act, hook: Mutator::new() };
        let summary = check_store(&store, &budget).unwrap_or_else(|failure| panic!("{failure}"));
        assert!(summary.report.images > 1_000, "{policy}: {summary}");
    }
}

#[test]
fn every_crash_of_a_trim_leaves_what_was_or_zeroes() {
    every_crash(Act::Trim);
}

#[test]
fn every_crash_of_zeroes_leaves_what_was_or_zeroes() {
    every_crash(Act::Zeroes);
}

/// The disk has forgotten one block of a trim, or made it zero, and a crash loses the discard.
#[test]
fn a_disk_that_is_ahead_of_the_discard_is_noticed() {
    for act in [Act::Trim, Act::Zeroes] {
        let budget = StoreBudget::new().images(4).longer(24, 7);
        let hook = Mutator::without(&[Rule::TrimsDurable]);
        let store = Trimmed { policy: ByteDelta::new().into(), act, hook };
        check_store(&store, &budget).expect_err("is noticed");
    }
}
