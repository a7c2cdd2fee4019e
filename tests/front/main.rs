//! The front door: one journal, many threads.

#![forbid(unsafe_code)]

mod threads;
mod use_it;
