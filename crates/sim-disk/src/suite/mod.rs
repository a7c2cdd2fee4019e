//! The crash suite: for stores, for policies, and for the journal itself.
//!
//! [`check_store`] tries a whole store, whatever it is made of, and [`check_policy`] a policy of
//! the journal. Both are one call, and answer with what was tried or with what was found. The rest
//! of this module is what the second is made of.
//!
//! It makes a tiny journal ([`oracle::BLOCKS`] blocks of [`oracle::BLOCK_BYTES`] bytes) over
//! simulated media, runs [programs](Program) of [steps](Step) on it, crashes them, and has an
//! [oracle] judge what an open shows after that. The journal's own tests are made of it, and
//! `examples/crash_lab` of the `nvm-journal` package runs through a whole [`Plan`].
//!
//! A policy is not asked what it is: how it answers the updates of the suite says which programs
//! make sense for it ([`Habits`]).

mod check;
mod faults;
mod full;
mod habits;
mod images;
mod laws;
mod memory;
pub mod oracle;
mod plan;
mod program;
mod rot;
mod rows;
mod step;
mod store;

pub use check::{Budget, MODELS, PolicyFailure, Summary, check_policy};
pub use faults::Faults;
pub use full::{FULL_LINES, Filled, fill, fill_program};
pub use habits::Habits;
pub use laws::{BrokenLaw, Tried, laws_of_case};
pub use memory::Memory;
pub use oracle::{Edit, Edits};
pub use plan::{Numbered, Plan, Start, alphabet, going_on, overwrite};
pub use program::{Begin, ID, Opened, Program, SUPERBLOCK_UNIT};
pub use rot::{ROT_BITS, ROT_BYTES, Rot, RotSeen};
pub use rows::Rows;
pub use step::Step;
pub use store::{Promise, Store, StoreBudget, StoreFailure, StoreSummary, View, check_store};
