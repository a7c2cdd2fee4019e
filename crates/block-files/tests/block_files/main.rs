//! Files in a journal: their calls, their crashes, and a database on them.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "a search says what it has looked at")]

mod calls;
mod crash;
mod database;
