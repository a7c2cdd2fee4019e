//! What the tests, benches and fuzz targets of the journal share, and its laboratories.
//!
//! | folder | what | used by |
//! |---|---|---|
//! | `trace` | real block traces: reader, writer, versions | `replay`, benches, fuzzing |
//! | `bounds` | how few bytes a policy can log, computed from images alone | `replay` |
//! | `replay` | a trace under each policy: counts, crashes, tables | `replay` |
//! | `core_crash` | programs of the core, damage and mutants | `crash_lab`, tests, fuzzing |
//! | `known_bugs` | bugs of other systems, as mutants of this one | `crash_lab`, tests |
//! | `engines` | this journal and others behind one port | comparisons, tests |
//! | `erased` | one type for every policy, hook, memory and disk | tests |
//! | `papers` | the papers' time figures, in virtual time | `papers`, tests |
//! | `figures` | the papers' figures of updates, counted on traces | `figures` |
//! | `gates` | what is required, and what was reached | `crash_lab` |
//! | `crash_lab` | every crash of short programs | `crash_lab` |
//! | `second_reader` | a reader made from FORMAT.md alone | tests, fuzzing |
//! | `oracle` | what the front door promises of transactions | tests |
//! | `test_disks` | disks that are shorter, or forget | crash_lab, tests |
//! | `plain_store` | blocks in memory as a store of files | fuzzing |
//! | `sweeps` | what rewrites cost by how much of a block differs | `sweeps` |
//! | `tour` | killed processes and power cuts, shown | `tour`, tests |
//! | `toy_log` | a small store that the simulator explores to the last state | tests |
//! | `whole_first` | slots that a killed process has changed | tests |
//! | `bench` | media, work and latencies | benches |

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "laboratories report")]
#![allow(clippy::std_instead_of_core, reason = "a part of programs with std")]
#![allow(missing_docs, missing_debug_implementations, reason = "it is published nowhere")]
#![allow(
    clippy::len_without_is_empty,
    clippy::new_without_default,
    reason = "it is published nowhere"
)]

pub mod bench;
pub mod bounds;
pub mod core_crash;
pub mod crash_lab;
pub mod engines;
pub mod erased;
pub mod figures;
pub mod gates;
pub mod known_bugs;
pub mod oracle;
pub mod papers;
pub mod plain_store;
pub mod plot;
pub mod progress;
pub mod replay;
pub mod second_reader;
pub mod sweeps;
pub mod test_disks;
pub mod tour;
pub mod toy_log;
pub mod trace;
pub mod whole_first;
pub mod whole_slots;
