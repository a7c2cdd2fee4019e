//! How fast the codec is beside the crate `lzo1x`, on XOR pages of 4 KiB:
//! `cargo run --release --manifest-path oracles/lzo1x/Cargo.toml`. The tests let each read what the
//! other wrote, and compare sizes.
//!
//! The crate allocates its output at each call, which is part of its time.

#![forbid(unsafe_code)]

use std::env;
use std::hint::black_box;
use std::time::Duration;

use bench_kit::rounds::{self, Effort, Table, timed};
use bench_kit::samples;
use lzo1x::CompressLevel;
use policy_codec::lzo::{self, LzoTable};

#[cfg(test)]
mod tests;

const PAGE_BYTES: usize = 4096;

/// Pages with `words` of their 512 words changed, no two alike.
fn pages(words: usize) -> Vec<Vec<u8>> {
    (1..65).map(|seed| samples::sparse(seed, PAGE_BYTES, words)).collect()
}

/// Level 1 is the fastest, 3 what the crate does unasked.
const LEVELS: [u8; 2] = [1, 3];

fn main() {
    let quick = env::args().any(|argument| argument == "--quick");
    let (rounds, millis) = if quick { (15, 1) } else { (101, 1) };
    let effort = Effort { rounds, batch: Duration::from_millis(millis) };
    rounds::print_machine();
    for words in [5, 26, 51, 128] {
        let pages = pages(words);
        let bound = lzo::bound(PAGE_BYTES);
        let streams: Vec<Vec<u8>> =
            pages.iter().map(|page| lzo1x::compress(page, CompressLevel::default())).collect();
        let bytes: usize = streams.iter().map(Vec::len).sum();
        println!("{words} of 512 words: {} bytes on average by lzo1x, level 3", bytes / 64);
        let mut table = Table::new("encode");
        for level in LEVELS {
            let (name, level) = (format!("lzo1x, level {level}"), CompressLevel::new(level));
            let pages = &pages;
            table.row(name.clone(), &name, 1, None, move |count| {
                timed(count, |index| {
                    black_box(lzo1x::compress(&pages[index as usize % 64], level));
                })
            });
        }
        for level in LEVELS {
            let (pages, mut places, mut out) = (&pages, LzoTable::new(), vec![0; bound]);
            let versus = format!("lzo1x, level {level}");
            table.row(format!("this codec to level {level}"), &versus, 1, None, move |count| {
                timed(count, |index| {
                    let page = &pages[index as usize % 64];
                    black_box(lzo::encode(page, &mut places, &mut out)).expect("room");
                })
            });
        }
        table.print(effort);
        let mut table = Table::new("decode what lzo1x wrote");
        for (name, ours) in [("lzo1x", false), ("this codec", true)] {
            let (streams, mut page) = (&streams, vec![0; PAGE_BYTES]);
            table.row(name, "lzo1x", 1, None, move |count| {
                timed(count, |index| {
                    let stream = &streams[index as usize % 64];
                    let is_page = match ours {
                        true => lzo::decode(stream, &mut page).is_ok(),
                        false => lzo1x::decompress(stream, &mut page).is_ok(),
                    };
                    assert!(is_page);
                    black_box(&mut page);
                })
            });
        }
        table.print(effort);
    }
    rounds::print_load("after");
}
