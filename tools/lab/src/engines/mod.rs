//! Engines behind one port, so that the same work runs on each: the journal's front door, and the
//! block journal on a disk.
//!
//! A comparison makes an engine, hands it updates as a file system would, and looks at what the
//! devices were asked ([`CountedDisk`]) and at what the engine says of itself ([`Counts`]).

pub mod counted_disk;
mod engine;
pub mod of_blocks;
pub mod of_nvm;

pub use counted_disk::{CountedDisk, DiskCounts};
pub use engine::{Counts, Engine, Failure, Update};
pub use of_blocks::BlockEngine;
pub use of_nvm::NvmEngine;
