//! The port of an engine: what a file system asks of it, and what it says of itself.

use core::error::Error;

use journal_core::BlockNumber;

/// What went wrong in an engine.
pub type Failure = Box<dyn Error + Send + Sync>;

/// What a file system does to a block.
#[derive(Clone, Copy, Debug)]
pub enum Update<'a> {
    /// Structure of the file system. `object_bytes` is the size of the objects in it, or zero.
    Metadata { block: BlockNumber, image: &'a [u8], object_bytes: u32 },
    /// Contents of a file, over older contents.
    Overwrite { block: BlockNumber, image: &'a [u8] },
    /// Contents of a file, in a block that was not live.
    Append { block: BlockNumber, image: &'a [u8] },
    /// The block is free.
    Discard { block: BlockNumber },
}

/// What an engine did since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Commits that made the running transaction durable.
    pub commits: u64,
    /// Bytes written to the journal, wherever it lies. Writes of its superblock do not count.
    pub journal_bytes: u64,
    /// Checkpoints, of any extent.
    pub checkpoints: u64,
    /// Commits that stood still for room, where the engine knows.
    pub stalls: Option<u64>,
}

/// A journal that a comparison drives. One running transaction gathers updates until it is
/// committed.
pub trait Engine {
    /// For tables.
    fn name(&self) -> String;

    /// Adds updates to the running transaction, all of them or none. It may commit before that, or
    /// after it, where it is full.
    ///
    /// # Errors
    /// The engine's own.
    fn update(&mut self, updates: &[Update<'_>]) -> Result<(), Failure>;

    /// Makes the running transaction durable, as an `fsync` needs it.
    ///
    /// # Errors
    /// The engine's own.
    fn commit(&mut self) -> Result<(), Failure>;

    /// Reads a block with all updates so far.
    ///
    /// # Errors
    /// The engine's own.
    fn read(&mut self, block: BlockNumber, into: &mut [u8]) -> Result<(), Failure>;

    /// Writes everything home that was committed.
    ///
    /// # Errors
    /// The engine's own.
    fn checkpoint(&mut self) -> Result<(), Failure>;

    /// What it did so far.
    ///
    /// # Errors
    /// The engine's own.
    fn counts(&self) -> Result<Counts, Failure>;

    /// Commits, writes everything home and ends.
    ///
    /// # Errors
    /// The engine's own.
    fn close(self: Box<Self>) -> Result<(), Failure>;
}
