//! Files against a plain map of byte vectors, and what they refuse.

mod hostile;
mod model;
mod one_file;
mod trims;
mod use_it;

use std::sync::Arc;

use block_files::Store;
use journal_core::{BlockSize, DeviceFacts};
use nvm_journal::{FullBlock, Journal, On, Options};
use sim_disk::{DiskImage, Image, Model, SimDisk, SimPmem, World};

/// A journal on simulated media.
pub(crate) type SimJournal = Journal<FullBlock, On<SimPmem, SimDisk>>;

/// Media of a journal: persistent memory, and a disk of this number of blocks.
pub(crate) fn world(nvm_bytes: usize, block_bytes: u32, blocks: u64) -> World {
    let size = BlockSize::new(block_bytes).expect("a block size");
    let disk = DiskImage::blank(size, blocks, DeviceFacts::cautious());
    World::boot(Image::blank(nvm_bytes).with_disk(disk), Model::Torn8)
}

pub(crate) fn options() -> Options {
    Options::new().lanes(2).unit_bytes(256)
}

pub(crate) fn journal(world: &World) -> SimJournal {
    Journal::format(world.pmem(), world.disk(0), &options()).expect("a journal")
}

pub(crate) fn reopened(world: &World) -> SimJournal {
    Journal::open(world.pmem(), world.disk(0), &options()).expect("a journal")
}

pub(crate) fn store(nvm_bytes: usize, block_bytes: u32, blocks: u64) -> Arc<dyn Store> {
    Arc::new(journal(&world(nvm_bytes, block_bytes, blocks)))
}
