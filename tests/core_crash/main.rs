//! The journal under the simulator: every crash of short programs, and every bug at every persist
//! site.

mod between;
mod copies;
mod examine;
mod forged;
mod format;
mod format_over;
mod harm;
mod lives;
mod log;
mod mutants;
mod relog;
mod rings;
mod rules;
mod short;
mod slots;
mod slots_written_whole;
mod space;
mod sticky;
mod tail;
mod traces;
mod unreadable;
mod wide_shield;
