//! The front door: one journal, many threads.

#![forbid(unsafe_code)]

mod alone;
mod appended;
mod claims;
mod clean_slots;
mod compared;
mod deadlocks;
mod discarded;
mod evicted;
mod few;
mod gathered;
mod held;
mod home;
mod in_steps;
mod kept;
mod lent;
mod limits;
mod loans;
mod log;
mod many;
mod notes;
mod old_images;
mod opens;
mod patched;
mod pieces;
mod pinned;
mod policies;
mod ranges;
mod room;
mod slot_use;
mod slots;
mod snapshots;
mod spared;
mod spilled;
mod threads;
mod ticks;
mod told;
mod trims;
mod upkeep;
mod use_it;
mod wear;
