//! What a durable update costs in the loop that a user writes.
//!
//! `cargo bench --bench loop` prints the tables; `-- --quick` makes them short, and a name of some
//! of them (`-- checkpoints`) leaves out the others. A loop draws random
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

type Table = fn(Asked);

fn main() {
    let asked = Asked::of_arguments();
    if asked == Asked::List {
        return;
    }
    print_machine();
    println!("medium: plain memory, {} MiB; blocks of 4 KiB\n", user::NVM_BYTES >> 20);
    let tables: [(&str, Table); 5] = [
        ("ways", tables::ways),
        ("sets", tables::sets),
        ("threads", tables::threads),
        ("checkpoints", tables::checkpoints),
        ("sustained", tables::sustained),
    ];
    let names: Vec<String> = std::env::args().skip(1).collect();
    let is_named = |name: &str| names.iter().any(|named| named == name);
    let all = !tables.iter().any(|(name, _)| is_named(name));
    for (name, print) in tables {
        if all || is_named(name) {
            print(asked);
        }
    }
    print_load("after");
}
