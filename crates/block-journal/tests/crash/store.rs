//! A small store on the journal, tried as a whole by the simulator's suite.

use block_journal::{BlockJournal, Config, Mode, Transaction, site};
use journal_core::{BlockNumber, BlockSize, DeviceFacts, Overwrite};
use sim_disk::suite::{Promise, Store, StoreBudget, View, check_store};
use sim_disk::{DiskImage, Image, Mutant, Mutation, Mutator, SimDisk, World};

use crate::program::{Planted, tell};

const BLOCK_BYTES: usize = 64;
const RING: u32 = 10;
/// Blocks 0 and 1 are the heads of two files; the others are given out.
const BLOCKS: u64 = 6;

type Journal = BlockJournal<SimDisk, SimDisk, Planted>;
type Block = [u8; BLOCK_BYTES];

/// Two files of one value each, in a mode of the journal.
struct Files {
    mode: Mode,
    hook: Planted,
}

#[derive(Clone, Copy, Debug)]
enum Operation {
    /// The value goes into a new block of data, which the head names.
    Data(u64, u64),
    /// The value goes into a new block of metadata, which the head names.
    Tree(u64, u64),
    /// The value goes into the head.
    Inline(u64, u64),
    /// The value goes into a new block of data for each file.
    Both(u64),
    Remove(u64),
}

/// What the head of a file says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Head {
    Empty,
    Data(u64),
    Tree(u64),
    Inline(u64),
}

fn words(first: u64, second: u64) -> Block {
    let mut block = [0; BLOCK_BYTES];
    block[..8].copy_from_slice(&first.to_le_bytes());
    block[56..].copy_from_slice(&second.to_le_bytes());
    block
}

fn word(block: &Block, at: usize) -> u64 {
    u64::from_le_bytes(block[at..at + 8].try_into().expect("eight bytes"))
}

impl Head {
    fn encode(self) -> Block {
        match self {
            Self::Empty => words(0, 0),
            Self::Data(place) => words(1, place),
            Self::Tree(place) => words(2, place),
            Self::Inline(value) => words(3, value),
        }
    }

    fn decode(block: &Block) -> Result<Self, String> {
        match (word(block, 0), word(block, 56)) {
            (0, 0) => Ok(Self::Empty),
            (1, place) => Ok(Self::Data(place)),
            (2, place) => Ok(Self::Tree(place)),
            (3, value) => Ok(Self::Inline(value)),
            torn => Err(format!("a head of {torn:?}")),
        }
    }

    fn place(self) -> Option<u64> {
        match self {
            Self::Data(place) | Self::Tree(place) => Some(place),
            _ => None,
        }
    }
}

fn said(error: impl core::fmt::Display) -> String {
    error.to_string()
}

fn read(journal: &mut Journal, block: u64) -> Result<Block, String> {
    let mut content = [0; BLOCK_BYTES];
    journal.read(BlockNumber(block), &mut content).map_err(said)?;
    Ok(content)
}

fn heads(journal: &mut Journal) -> Result<[Head; 2], String> {
    Ok([Head::decode(&read(journal, 0)?)?, Head::decode(&read(journal, 1)?)?])
}

impl Files {
    /// Points the head of a file at something else, and frees what it named.
    fn point(
        &self,
        transaction: &mut Transaction,
        file: u64,
        old: Head,
        new: Head,
    ) -> Result<(), String> {
        transaction.metadata(BlockNumber(file), &new.encode()).map_err(said)?;
        if let Head::Tree(place) = old {
            transaction.discard(BlockNumber(place)).map_err(said)?;
        }
        Ok(())
    }

    /// Gives these files new blocks of data.
    fn write_data(&self, journal: &mut Journal, files: &[u64], value: u64) -> Result<(), String> {
        let heads = heads(journal)?;
        let is_taken = |place: &u64| heads.iter().any(|head| head.place() == Some(*place));
        let places: Vec<u64> = (2..BLOCKS).filter(|place| !is_taken(place)).collect();
        let mut transaction = journal.begin();
        for (_, place) in files.iter().zip(&places) {
            transaction.data(BlockNumber(*place), &words(value, *place)).map_err(said)?;
        }
        if self.mode == Mode::Writeback {
            journal.commit(transaction).map_err(said)?;
            journal.sync().map_err(said)?;
            transaction = journal.begin();
        }
        for (file, place) in files.iter().zip(&places) {
            self.point(&mut transaction, *file, heads[*file as usize], Head::Data(*place))?;
        }
        journal.commit(transaction).map_err(said)
    }
}

impl Store for Files {
    type Operation = Operation;
    type Open = Journal;

    fn media(&self) -> Image {
        let size = BlockSize::new(BLOCK_BYTES as u32).expect("a block size");
        // Without a journal, a block is as atomic as the disk has it.
        let overwrite =
            if self.mode == Mode::None { Overwrite::NeverInPlace } else { Overwrite::OldOrNew };
        let facts = DeviceFacts::new(32, overwrite);
        Image::blank(64)
            .with_disk(DiskImage::blank(size, u64::from(RING) + 2, facts))
            .with_disk(DiskImage::blank(size, BLOCKS, facts))
    }

    fn format(&self, world: &World) -> Result<(), String> {
        let config = Config::new(self.mode);
        BlockJournal::format(&mut world.disk(0), &world.disk(1), config).map_err(said)
    }

    fn open(&self, world: &World) -> Result<Journal, String> {
        let (journal, home) = (world.disk(0), world.disk(1));
        let config = Config::new(self.mode);
        let opened = BlockJournal::open_with_hook(journal, home, config, self.hook.clone());
        opened.map(|(journal, _)| journal).map_err(said)
    }

    fn apply(&self, journal: &mut Journal, operation: &Operation) -> Result<Promise, String> {
        let heads = heads(journal)?;
        match *operation {
            Operation::Data(file, value) => self.write_data(journal, &[file], value)?,
            Operation::Both(value) => self.write_data(journal, &[0, 1], value)?,
            Operation::Tree(file, value) => {
                let is_taken = |place: &u64| heads.iter().any(|head| head.place() == Some(*place));
                let place = (2..BLOCKS).find(|place| !is_taken(place)).expect("a free block");
                let mut transaction = journal.begin();
                let content = words(value, place);
                transaction.metadata(BlockNumber(place), &content).map_err(said)?;
                self.point(&mut transaction, file, heads[file as usize], Head::Tree(place))?;
                journal.commit(transaction).map_err(said)?;
            }
            Operation::Inline(file, value) => {
                let mut transaction = journal.begin();
                self.point(&mut transaction, file, heads[file as usize], Head::Inline(value))?;
                journal.commit(transaction).map_err(said)?;
            }
            Operation::Remove(file) => {
                let mut transaction = journal.begin();
                self.point(&mut transaction, file, heads[file as usize], Head::Empty)?;
                journal.commit(transaction).map_err(said)?;
            }
        }
        Ok(Promise::Durable)
    }

    fn read(&self, journal: &mut Journal) -> Result<View, String> {
        let mut view = View::new();
        for (file, head) in heads(journal)?.into_iter().enumerate() {
            let value = match head {
                Head::Empty => continue,
                Head::Inline(value) => value.to_string(),
                Head::Data(place) | Head::Tree(place) => {
                    let content = read(journal, place)?;
                    let is_whole = word(&content, 56) == place;
                    if is_whole { word(&content, 0).to_string() } else { "torn".to_owned() }
                }
            };
            view.insert(format!("file {file}"), value);
        }
        Ok(view)
    }

    fn operations(&self) -> Vec<Operation> {
        if self.mode == Mode::None {
            return vec![Operation::Inline(0, 1), Operation::Inline(1, 2), Operation::Remove(0)];
        }
        vec![
            Operation::Data(0, 1),
            Operation::Tree(0, 2),
            Operation::Data(1, 3),
            Operation::Both(4),
            Operation::Remove(0),
        ]
    }

    fn model(&self, view: &mut View, operation: &Operation) {
        let name = |file: u64| format!("file {file}");
        match *operation {
            Operation::Data(file, value)
            | Operation::Tree(file, value)
            | Operation::Inline(file, value) => {
                view.insert(name(file), value.to_string());
            }
            Operation::Both(value) => {
                view.extend([0, 1].map(|file| (name(file), value.to_string())));
            }
            Operation::Remove(file) => {
                view.remove(&name(file));
            }
        }
    }
}

#[test]
fn a_small_store_holds_in_every_mode() {
    for mode in Mode::ALL {
        let budget = StoreBudget::new().longer(20, 5);
        let summary = check_store(&Files { mode, hook: Planted::default() }, &budget);
        let summary = summary.unwrap_or_else(|failure| panic!("{mode:?}: {failure}"));
        tell(&format!("{mode:?}, a store"), &summary);
        assert!(summary.report.images > 5_000, "{mode:?}: {summary}");
    }
}

/// An open shows what a killed process had left in the cache of the disk.
#[test]
fn what_an_open_shows_is_durable_without_a_journal_too() {
    let mutant = Mutant { site: site::REPLAY_SYNC, mutation: Mutation::DropSync };
    let hook = Planted { mutator: Mutator::with(mutant), ..Planted::default() };
    let files = Files { mode: Mode::None, hook };
    assert!(check_store(&files, &StoreBudget::new().longer(0, 0)).is_err());
}
