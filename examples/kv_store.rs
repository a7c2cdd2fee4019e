//! A small key-value store on blocks, and the one call that crashes it everywhere.
//!
//! `cargo run --release --example kv_store` passes; with `-- --broken` a put is two transactions,
//! and the suite says which key that shows in.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::std_instead_of_core, reason = "a program that reports")]

use std::process::ExitCode;

use nvm_journal::ports::DeviceFacts;
use nvm_journal::{
    BlockNumber, BlockSize, Error, FullBlock, Journal, Machine, On, Options, Transaction,
};
use sim_disk::suite::{Promise, Store, StoreBudget, StoreFailure, StoreSummary, View, check_store};
use sim_disk::{DiskImage, Image, SimDisk, SimPmem, World};

/// As small as blocks are: a store of eight keys has few crashes.
const BLOCK: usize = 64;
const NVM_BYTES: usize = 4 << 10;
const BLOCKS: u8 = 9;
/// Pairs of a key and the block of its value. A key of zero is none.
const INDEX: BlockNumber = BlockNumber(0);

/// The store: an index block, and a block for each value, never written over in place.
struct Kv<M: Machine> {
    journal: Journal<FullBlock, M>,
    /// Whether a put is two transactions, which is the bug.
    in_two: bool,
}

impl<M: Machine> Kv<M> {
    fn put(&self, key: u8, value: &str, later: bool) -> Result<(), Error> {
        let pick = |tx: &mut Transaction<'_, FullBlock, M>| {
            let mut index = [0; BLOCK];
            tx.read(INDEX, &mut index)?;
            let used = |block: u8| index.chunks(2).any(|pair| pair[0] != 0 && pair[1] == block);
            let block = (1..BLOCKS).find(|block| !used(*block)).expect("one more than keys");
            let place = index.chunks(2).position(|pair| pair[0] == key);
            let place = place.or_else(|| index.chunks(2).position(|pair| pair[0] == 0));
            let place = 2 * place.expect("fewer keys than places");
            index[place..place + 2].copy_from_slice(&[key, block]);
            tx.write_metadata(INDEX, &index)?;
            Ok::<_, Error>(BlockNumber(u64::from(block)))
        };
        let fill = |tx: &mut Transaction<'_, FullBlock, M>, block| {
            let mut content = [0; BLOCK];
            content[0] = value.len() as u8;
            content[1..=value.len()].copy_from_slice(value.as_bytes());
            tx.write(block, &content)
        };
        if self.in_two {
            let block = self.journal.transact(pick)?;
            return self.journal.transact(|tx| fill(tx, block));
        }
        let both =
            |tx: &mut Transaction<'_, FullBlock, M>| pick(tx).and_then(|block| fill(tx, block));
        if later { self.journal.transact_deferred(both) } else { self.journal.transact(both) }
    }

    fn delete(&self, key: u8) -> Result<(), Error> {
        self.journal.transact(|tx| {
            let mut index = [0; BLOCK];
            tx.read(INDEX, &mut index)?;
            index.chunks_mut(2).filter(|pair| pair[0] == key).for_each(|pair| pair.fill(0));
            tx.write_metadata(INDEX, &index)
        })
    }

    fn all(&self) -> Result<View, Error> {
        let (mut index, mut value, mut view) = ([0; BLOCK], [0; BLOCK], View::new());
        self.journal.read(INDEX, &mut index)?;
        for pair in index.chunks(2).filter(|pair| pair[0] != 0) {
            self.journal.read(BlockNumber(u64::from(pair[1])), &mut value)?;
            let bytes = value[1..].iter().take(usize::from(value[0])).copied().collect();
            let text = String::from_utf8(bytes).unwrap_or_else(|_| "no text".into());
            view.insert(char::from(pair[0]).into(), text);
        }
        Ok(view)
    }
}

/// What its callers ask for.
#[derive(Clone, Debug)]
enum Ask {
    Put(char, &'static str),
    PutLater(char, &'static str),
    Delete(char),
    Checkpoint,
}

/// The store as the suite drives it.
struct Driven {
    in_two: bool,
}

const fn options() -> Options {
    Options::new().lanes(1).lane_bytes(1 << 10).shield_blocks(0).unit_bytes(256)
}

impl Store for Driven {
    type Operation = Ask;
    type Open = Kv<On<SimPmem, SimDisk>>;

    fn media(&self) -> Image {
        let disk = DiskImage::blank(BlockSize::MIN, u64::from(BLOCKS), DeviceFacts::cautious());
        Image::blank(NVM_BYTES).with_disk(disk)
    }

    fn format(&self, world: &World) -> Result<(), String> {
        let journal = Journal::format(world.pmem(), world.disk(0), &options());
        journal.map(drop).map_err(|error| error.to_string())
    }

    fn open(&self, world: &World) -> Result<Self::Open, String> {
        let journal = Journal::open(world.pmem(), world.disk(0), &options());
        let journal = journal.map_err(|error| error.to_string())?;
        Ok(Kv { journal, in_two: self.in_two })
    }

    fn apply(&self, kv: &mut Self::Open, ask: &Ask) -> Result<Promise, String> {
        let result = match *ask {
            Ask::Put(key, value) => kv.put(key as u8, value, false),
            Ask::PutLater(key, value) => kv.put(key as u8, value, true),
            Ask::Delete(key) => kv.delete(key as u8),
            Ask::Checkpoint => kv.journal.checkpoint().map(drop),
        };
        let later = matches!(ask, Ask::PutLater(..));
        let promise = if later { Promise::Later } else { Promise::Durable };
        result.map(|()| promise).map_err(|error| error.to_string())
    }

    fn read(&self, kv: &mut Self::Open) -> Result<View, String> {
        kv.all().map_err(|error| error.to_string())
    }

    fn operations(&self) -> Vec<Ask> {
        let puts = [Ask::Put('a', "1"), Ask::Put('b', "two"), Ask::PutLater('a', "III")];
        [&puts[..], &[Ask::Delete('a'), Ask::Checkpoint]].concat()
    }

    fn model(&self, view: &mut View, ask: &Ask) {
        match *ask {
            Ask::Put(key, value) | Ask::PutLater(key, value) => {
                view.insert(key.into(), value.into());
            }
            Ask::Delete(key) => {
                view.remove(&String::from(key));
            }
            Ask::Checkpoint => {}
        }
    }
}

fn check(broken: bool, budget: &StoreBudget) -> Result<StoreSummary, Box<StoreFailure>> {
    check_store(&Driven { in_two: broken }, budget)
}

fn main() -> ExitCode {
    let broken = std::env::args().any(|argument| argument == "--broken");
    let result = check(broken, &StoreBudget::new());
    let (exit, text) = match &result {
        Ok(summary) => (ExitCode::SUCCESS, summary.to_string()),
        Err(failure) => (ExitCode::FAILURE, failure.to_string()),
    };
    println!("{text}");
    exit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_holds_and_its_broken_form_does_not() {
        let budget = StoreBudget::new().images(16).longer(10, 4);
        let summary = check(false, &budget).unwrap_or_else(|failure| panic!("{failure}"));
        let report = &summary.report;
        assert!(report.images > 50_000 && report.kills > 1_000 && report.nested > 100, "{summary}");
        assert!(summary.programs == 2 * (5 + 25 + 10) && summary.faults > 100, "{summary}");
        let failure = check(true, &budget).expect_err("a put is two transactions");
        let text = failure.to_string();
        for told in [
            "after a crash the store shows what nobody may see; operation 1, Put('a', \"1\")",
            "before the first operation:\n  key \"a\": expected nothing, found \"\"",
            "after operation 1, Put('a', \"1\"):\n  key \"a\": expected \"1\", found \"\"",
            "the program:\n  1. Put('a', \"1\")\nthen the power is lost after event",
        ] {
            assert!(text.contains(told), "{told}\n\n{text}");
        }
    }
}
