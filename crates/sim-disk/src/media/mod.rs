//! Simulated media: memory and disks that share one tape and one fate.

pub mod disk;
pub mod fault;
pub mod file;
pub mod image;
pub mod model;
pub mod pmem;
pub mod rng;
pub mod tape;
pub mod time;
pub mod world;
