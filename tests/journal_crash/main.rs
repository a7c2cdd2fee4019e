//! The front door under the simulator: what its documentation promises of transactions, after every
//! crash of short programs, and of threads that run at once.

#![forbid(unsafe_code)]

mod appends;
mod bypassing;
mod capacity;
mod compared;
mod evicted;
mod guards;
mod in_steps;
mod log;
mod moved;
mod mutants;
mod notes;
mod older;
mod oldest;
mod pending;
mod probe;
mod program;
mod relogged;
mod resized;
mod rules;
mod short;
mod spilled;
mod sticky;
mod threads;
mod trimmed;
mod unreadable;
