//! An embeddable journal engine for block stores on byte-addressable non-volatile memory.
//!
//! Under construction: so far this crate re-exports the core ([`core`]) and real persistent memory
//! ([`pmem`]), and owns the core's memory ([`Buffers`]).

#![forbid(unsafe_code)]

mod buffers;

pub use buffers::Buffers;
/// The journal itself, with one owner.
pub use journal_core as core;
/// Persistent memory on real machines.
pub use pmem_sys as pmem;
