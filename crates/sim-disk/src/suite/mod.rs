//! The crash suite: for stores, for policies, and for the journal itself.
//!
//! [`check_store`] tries a whole store, whatever it is made of, and [`check_policy`] a policy of
//! the journal. Both are one call, and answer with what was tried or with what was found. The rest
//! of this module is what the second is made of.
//!
//! The second makes a tiny journal ([`oracle::BLOCKS`] blocks of [`oracle::BLOCK_BYTES`] bytes)
//! over simulated media. It runs [programs](Program) of [steps](Step) on the journal, crashes them,
//! and has an [oracle] judge what an open shows after that. The journal's own tests are made of
//! these parts, and `crash_lab` of the repository's `tools/lab` runs through a whole [`Plan`].
//!
//! A policy is not asked what it is: how it answers the updates of the suite says which programs
//! make sense for it ([`Habits`]).

mod policy;
mod program;
mod store;

pub use policy::check::{Budget, PolicyFailure, Summary, check_policy};
pub use policy::faults::Faults;
pub use policy::full::{FULL_LINES, Filled, fill, fill_program};
pub use policy::laws::{BrokenLaw, Tried, laws_of_case};
pub use policy::rot::{ROT_BITS, ROT_BYTES, Rot, RotSeen};
pub use program::habits::Habits;
pub use program::memory::Memory;
pub use program::oracle::{self, Edit, Edits};
pub use program::plan::{MODELS, Numbered, Plan, Start, alphabet, going_on, overwrite};
pub use program::program::{Begin, ID, Opened, Program, SUPERBLOCK_UNIT};
pub use program::rows::Rows;
pub use program::step::Step;
pub use store::{Promise, Store, StoreBudget, StoreFailure, StoreSummary, View, check_store};
