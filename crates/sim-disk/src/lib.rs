//! A crash simulator for stores on persistent memory and disks.

#![forbid(unsafe_code)]

mod weather;

pub mod crash;
pub mod image;
pub mod model;
pub mod rng;
pub mod tape;

pub use crash::{Cell, Choices, CrashPoint, CrashPoints};
pub use image::{DiskImage, Image, Medium};
pub use model::{Defect, Model, Rules};
pub use rng::Rng;
pub use tape::{Counts, Entry, Event, FlushKind, Mark, Tape, Thread};
