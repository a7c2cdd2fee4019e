//! A journal with neither std nor an allocator: two drivers, which the example `no_alloc` uses as
//! well, and a program that makes every call there is.
//!
//! `probes/no-alloc` builds the program where nothing serves an allocation.

#![no_std]
#![forbid(unsafe_code)]

pub mod drivers;
pub mod program;
pub mod sketch;
