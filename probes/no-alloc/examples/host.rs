//! What `check` asks the core itself, and so never copies: the names of its sites and rules. And
//! one run of the probe's program, since a library that does nothing would need no allocator.

#![forbid(unsafe_code)]

#[path = "../src/drive.rs"]
mod drive;
#[path = "../src/media.rs"]
mod media;
#[path = "../src/sketch.rs"]
mod sketch;

use journal_core::{NoHook, Rule, SITES};

fn main() {
    for site in SITES.iter().copied().flatten() {
        println!("site {}", site.name);
    }
    for rule in Rule::ALL {
        println!("rule {rule:?}");
    }
    println!("found {}", drive::run(&NoHook).expect("nothing fails"));
}
