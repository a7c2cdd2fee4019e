//! Every crash of short programs on the block journal, in every mode, and what is planted in it.
//!
//! `program` runs a program on simulated disks and judges what a crash leaves, by what its mode
//! promises. `short` explores all short programs. `mutants` plants bugs. `store` has a small store
//! tried as a whole. `hostile` damages the journal's device. `memory` has the journal in persistent
//! memory. `counts` holds the costs.

#![forbid(unsafe_code)]

mod counts;
mod hostile;
mod memory;
mod mutants;
mod program;
mod short;
mod store;
