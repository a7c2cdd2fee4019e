//! The engines behind one port do the same work to the same end.

use std::collections::BTreeMap;

use block_journal::{Config, JournalDevice, Mode, Partition, PmemDisk};
use full_block::FullBlock;
use journal_core::{BlockDevice, BlockNumber, BlockSize, NoHook};
use lab::bench::media::MemoryDisk;
use lab::engines::{BlockEngine, CountedDisk, Engine, Failure, NvmEngine, Update};
use lab::erased::{DynDisk, DynJournal, DynPmem, any_options};
use nvm_journal::Region;
use sim_disk::Rng;

const BLOCK: usize = 4096;
/// The first quarter is metadata.
const BLOCKS: u64 = 64;
const RING: u64 = 64;
const ROUNDS: u64 = 400;

type Disk = CountedDisk<MemoryDisk>;

fn disk(blocks: u64) -> Disk {
    CountedDisk::new(MemoryDisk::new(BlockSize::DEFAULT, blocks))
}

/// An engine, and the disk that holds its homes.
type OnDisk = (Box<dyn Engine>, Disk);

/// Every engine, in each mode, with the journal on each device.
fn engines() -> Result<Vec<OnDisk>, Failure> {
    let mut engines: Vec<OnDisk> = Vec::new();
    let home = disk(BLOCKS);
    let nvm = DynPmem::new(Region::anonymous(4 << 20)?);
    let disk_of_journal = DynDisk::new(home.clone());
    let journal = DynJournal::format(nvm, disk_of_journal, &any_options(FullBlock, NoHook))?;
    engines.push((Box::new(NvmEngine::new(journal)), home));
    for mode in Mode::ALL {
        let home = disk(BLOCKS);
        let engine = BlockEngine::format(disk(RING + 2), home.clone(), Config::new(mode))?;
        engines.push((Box::new(engine), home));
    }
    // On the disk of the homes, behind them; and in persistent memory.
    let home = disk(BLOCKS + RING + 2);
    let part = |first, count| {
        Partition::new(home.clone(), BlockNumber(first), count).ok_or("no such blocks")
    };
    let config = Config::new(Mode::Ordered).journal_device(JournalDevice::SameDevice);
    let engine = BlockEngine::format(part(BLOCKS, RING + 2)?, part(0, BLOCKS)?, config)?;
    engines.push((Box::new(engine), home));
    let home = disk(BLOCKS);
    let nvm = PmemDisk::new(Region::anonymous((RING + 2) * BLOCK as u64)?, BlockSize::DEFAULT);
    let engine = BlockEngine::format(nvm, home.clone(), Config::new(Mode::Ordered))?;
    engines.push((Box::new(engine), home));
    Ok(engines)
}

/// Random work; returns what every block that is in use holds.
fn work(engine: &mut dyn Engine) -> Result<BTreeMap<u64, u8>, Failure> {
    let mut rng = Rng::new(7);
    let mut contents: BTreeMap<u64, u8> = BTreeMap::new();
    for round in 0..ROUNDS {
        let value = (round % 251) as u8 + 1;
        let image = [value; BLOCK];
        let mut updates = Vec::new();
        for _ in 0..=rng.below(3) {
            let block = rng.below(BLOCKS);
            let is_live = contents.contains_key(&block);
            let number = BlockNumber(block);
            updates.push(match (block < BLOCKS / 4, is_live) {
                (true, true) if rng.below(4) == 0 => Update::Discard { block: number },
                (true, _) => Update::Metadata { block: number, image: &image, object_bytes: 256 },
                (false, true) => Update::Overwrite { block: number, image: &image },
                (false, false) => Update::Append { block: number, image: &image },
            });
            match updates.last() {
                Some(Update::Discard { .. }) => contents.remove(&block),
                _ => contents.insert(block, value),
            };
        }
        engine.update(&updates)?;
        for (block, value) in &contents {
            let mut found = [0; BLOCK];
            engine.read(BlockNumber(*block), &mut found)?;
            assert!(found == [*value; BLOCK], "{}: block {block}, {round}", engine.name());
        }
        match rng.below(40) {
            0 => engine.checkpoint()?,
            1..=9 => engine.commit()?,
            _ => {}
        }
    }
    engine.commit()?;
    Ok(contents)
}

#[test]
fn all_engines_leave_the_same_homes() -> Result<(), Failure> {
    let mut found = Vec::new();
    for (mut engine, mut home) in engines()? {
        let contents = work(engine.as_mut())?;
        let (name, counts) = (engine.name(), engine.counts()?);
        let is_without_journal = name.contains("none");
        assert!(counts.commits > 50, "{name}: {counts:?}");
        assert_eq!(counts.journal_bytes == 0, is_without_journal, "{name}: {counts:?}");
        engine.close()?;
        let asked = home.counts();
        assert!(asked.blocks_written > 0 && asked.syncs > 0, "{name}: {asked:?}");
        for (block, value) in &contents {
            let mut content = [0; BLOCK];
            home.read(BlockNumber(*block), &mut content)?;
            assert!(content == [*value; BLOCK], "{name}: block {block}");
        }
        found.push((name, contents, counts));
    }
    let (_, first, _) = &found[0];
    assert!(found.iter().all(|(_, contents, _)| contents == first));
    // A mode that logs metadata alone writes less.
    let bytes = |part: &str| {
        let of = found.iter().find(|(name, ..)| name.contains(part));
        of.map_or(0, |(.., counts)| counts.journal_bytes)
    };
    assert!(bytes("ordered") < bytes("block journal, data"), "{found:?}");
    Ok(())
}
