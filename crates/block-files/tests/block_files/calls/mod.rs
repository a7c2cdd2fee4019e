//! Files against a plain map of byte vectors, and what they refuse.

mod hostile;
mod model;
mod one_file;
mod trims;
mod use_it;

use std::sync::Arc;

use block_files::Store;
use journal_core::{BlockSize, DeviceFacts};
use lab::erased::{DynHook, DynJournal, DynPolicy, any_options, of_world};
use nvm_journal::ports::NoHook;
use nvm_journal::{FullBlock, Journal, Options};
use sim_disk::{DiskImage, Image, Model, World};

/// Media of a journal: persistent memory, and a disk of this number of blocks.
pub(crate) fn world(nvm_bytes: usize, block_bytes: u32, blocks: u64) -> World {
    let size = BlockSize::new(block_bytes).expect("a block size");
    let disk = DiskImage::blank(size, blocks, DeviceFacts::cautious());
    World::boot(Image::blank(nvm_bytes).with_disk(disk), Model::Torn8)
}

pub(crate) fn options() -> Options<DynPolicy, DynHook> {
    any_options(FullBlock, NoHook).lanes(2).unit_bytes(256)
}

pub(crate) fn journal(world: &World) -> DynJournal {
    let (nvm, disk) = of_world(world);
    Journal::format(nvm, disk, &options()).expect("a journal")
}

pub(crate) fn reopened(world: &World) -> DynJournal {
    let (nvm, disk) = of_world(world);
    Journal::open(nvm, disk, &options()).expect("a journal")
}

pub(crate) fn store(nvm_bytes: usize, block_bytes: u32, blocks: u64) -> Arc<dyn Store> {
    Arc::new(journal(&world(nvm_bytes, block_bytes, blocks)))
}
