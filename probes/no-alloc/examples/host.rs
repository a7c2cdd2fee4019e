//! What `check` asks the core itself, and so never copies: the names of its persist sites. Before
//! that it runs the probe's program, since one that does nothing would need no allocator.

#![forbid(unsafe_code)]

use firmware::program;
use journal_core::{NoHook, SITES};

fn main() {
    // Of the second life: six transactions, and the discard that comes before an append.
    assert_eq!(program::run(&NoHook).expect("nothing fails"), 7, "records that are found");
    for site in SITES.iter().copied().flatten() {
        println!("{}", site.name);
    }
}
