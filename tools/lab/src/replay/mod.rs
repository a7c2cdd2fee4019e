//! A trace under each policy: counted on plain memory (`run`), crashed in the simulator (`crash`),
//! committed beside others (`together`), and set in tables (`table`, `papers`, `document`).

pub mod ask;
pub mod count;
pub mod crash;
pub mod document;
pub mod media;
pub mod papers;
pub mod policies;
pub mod run;
pub mod table;
pub mod times;
pub mod together;
