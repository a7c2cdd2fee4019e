//! State machines over both doors of a journal, made and shrunk by `proptest`.
//!
//! A case is a few lives of one journal. Each life opens it, takes steps, and ends: in good order,
//! by a kill, or by a power loss somewhere on its tape. After every step all that is read is what
//! the model says; after every crash the recovered state is one that the promise allows, whichever
//! of a sample of images the crash leaves; and then the journal goes on.
//!
//! Each property runs over one of the seven policies, as often as [`run::Sample`] says: a fair
//! sample by default, and with `PROPTEST_CASES` as often as that.

#![forbid(unsafe_code)]

mod again;
mod door;
mod doors;
mod hard;
mod homes;
mod large;
mod ledger;
mod lives;
mod outside;
mod owner;
mod policies;
mod rules;
mod run;
mod session;
