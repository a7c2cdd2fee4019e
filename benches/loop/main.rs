//! What a durable update costs in the loop that a user writes.
//!
//! `cargo bench --bench loop` prints the tables; `-- --quick` makes them short. A loop draws random
//! blocks of a working set, begins a transaction, writes, and commits. Every page was touched
//! before, and the caches of the journal are as full as they come.
//!
//! The *limit* of a row streams what the user changes to random places of memory as large as the
//! journal's, with one fence, and looks each block up in a hash table. That is a patch, or the
//! block where the policy logs whole blocks. The limit makes nothing atomic and checks nothing.
//!
//! Where a table does not say otherwise, room is made between batches, outside the measurement.
#![allow(clippy::print_stdout, reason = "a bench prints its tables")]
#![allow(clippy::std_instead_of_core, reason = "a program")]

mod limit;
mod tables;
mod user;

use lab::bench::{Asked, print_load, print_machine};

fn main() {
    let asked = Asked::of_arguments();
    if asked == Asked::List {
        return;
    }
    print_machine();
    println!("medium: plain memory, {} MiB; blocks of 4 KiB\n", user::NVM_BYTES >> 20);
    tables::ways(asked);
    tables::sets(asked);
    tables::threads(asked);
    tables::checkpoints(asked);
    tables::sustained(asked);
    print_load("after");
}
