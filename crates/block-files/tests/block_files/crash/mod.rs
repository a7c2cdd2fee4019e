//! Every crash of programs of calls, against a model: names, and the bytes that each file has. And
//! bugs that are planted below the files, to see that the search finds them.

mod apart;
mod named;
mod one;
mod reordering;
mod trim;

use journal_core::{BlockSize, DeviceFacts};
use nvm_journal::{FullBlock, Journal, On, Options};
use sim_disk::{DiskImage, Image, SimDisk, SimPmem, World};

/// A journal on simulated media.
pub(crate) type SimJournal = Journal<FullBlock, On<SimPmem, SimDisk>>;

pub(crate) fn said(error: impl core::fmt::Display) -> String {
    error.to_string()
}

pub(crate) fn media(nvm_bytes: usize, block_bytes: u32, blocks: u64) -> Image {
    let size = BlockSize::new(block_bytes).expect("a block size");
    Image::blank(nvm_bytes).with_disk(DiskImage::blank(size, blocks, DeviceFacts::cautious()))
}

/// One lane: what is deferred becomes durable in its order.
pub(crate) fn options() -> Options {
    Options::new().lanes(1).unit_bytes(256)
}

pub(crate) fn formatted(world: &World) -> Result<SimJournal, String> {
    Journal::format(world.pmem(), world.disk(0), &options()).map_err(said)
}

pub(crate) fn opened(world: &World) -> Result<SimJournal, String> {
    Journal::open(world.pmem(), world.disk(0), &options()).map_err(said)
}
