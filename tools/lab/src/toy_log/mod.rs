//! A small store with its oracle, its exploration and its mutants, written by hand.

pub mod log;
pub mod scenario;
