//! A small file system with a page cache, and the programs that use it.

pub mod cache;
pub mod case;
pub mod data;
pub mod fs;
pub mod loads;
pub mod setup;
pub mod world;
