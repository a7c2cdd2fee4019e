//! The journal under the simulator: every crash of short programs, and every bug at every persist
//! site.

mod delta;
mod examine;
mod format;
mod mutants;
mod program;
mod relog;
mod rules;
mod short;
mod sticky;
