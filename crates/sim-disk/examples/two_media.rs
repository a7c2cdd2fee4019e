//! Times a small store on two media: counters in blocks, each change logged in memory first.
//!
//! `cargo run -p nvm-journal-sim-disk --example two_media`

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "an example reports")]

use core::error::Error;

use journal_core::{BlockDevice, BlockNumber, BlockSize, Offset, Pmem};
use sim_disk::time::{Clock, Drive, MemoryModel, TimedDisk, TimedPmem, named_drives};
use sim_disk::{Image, Model, Rng, World};

const CHANGES: u64 = 1_000;

/// The store: a line of log for each change, and all blocks home when the log is full.
fn run(memory: MemoryModel, drive: Box<dyn Drive>) -> Result<[u64; 2], Box<dyn Error>> {
    let clock = Clock::new();
    let world = World::boot(Image::blank(64 * CHANGES as usize), Model::Torn8);
    let mut log = TimedPmem::new(world.pmem(), &clock, memory);
    let mut disk = TimedDisk::new(&clock, drive, BlockSize::DEFAULT, 1 << 20);
    let mut rng = Rng::new(1);
    let mut blocks = Vec::new();
    for change in 0..CHANGES {
        clock.charge_cpu(500); // What the store computes.
        let block = rng.below(disk.block_count());
        let at = Offset(64 * change);
        log.store_u64(at, block);
        log.flush(at, 64);
        log.fence()?;
        blocks.push(block);
    }
    let logged_at = clock.now();
    blocks.sort_unstable();
    for block in blocks {
        disk.write(BlockNumber(block), &[1; 4096])?;
    }
    disk.sync()?;
    Ok([logged_at / CHANGES, (clock.now() - logged_at) / CHANGES])
}

fn main() -> Result<(), Box<dyn Error>> {
    for memory in ["cxl", "pram"] {
        for (name, drive) in named_drives() {
            let model = MemoryModel::named().into_iter().find(|(known, _)| *known == memory);
            let (_, model) = model.ok_or("no such memory")?;
            let [logged, home] = run(model, drive)?;
            println!("{memory:>5}, {name:<18}: {logged:>6} ns to log, {:>6} us home", home / 1_000);
        }
    }
    Ok(())
}
