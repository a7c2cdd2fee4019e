//! Every crash of programs of calls, against a model: names, and the bytes that each file has. And
//! bugs that are planted below the files, to see that the search finds them.

mod apart;
mod named;
mod one;
mod reordering;
mod trim;

use journal_core::{BlockSize, DeviceFacts};
use lab::erased::{DynHook, DynJournal, DynPolicy, any_options, of_world};
use nvm_journal::ports::NoHook;
use nvm_journal::{FullBlock, Journal, Options};
use sim_disk::{DiskImage, Image, World};

pub(crate) fn said(error: impl core::fmt::Display) -> String {
    error.to_string()
}

pub(crate) fn media(nvm_bytes: usize, block_bytes: u32, blocks: u64) -> Image {
    let size = BlockSize::new(block_bytes).expect("a block size");
    Image::blank(nvm_bytes).with_disk(DiskImage::blank(size, blocks, DeviceFacts::cautious()))
}

/// One lane: what is deferred becomes durable in its order.
pub(crate) fn options() -> Options<DynPolicy, DynHook> {
    any_options(FullBlock, NoHook).lanes(1).unit_bytes(256)
}

pub(crate) fn formatted(world: &World) -> Result<DynJournal, String> {
    let (nvm, disk) = of_world(world);
    Journal::format(nvm, disk, &options()).map_err(said)
}

pub(crate) fn opened(world: &World) -> Result<DynJournal, String> {
    let (nvm, disk) = of_world(world);
    Journal::open(nvm, disk, &options()).map_err(said)
}
