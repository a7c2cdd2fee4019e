//! What a transaction costs beside the bare medium.
//!
//! `cargo bench --bench commit` prints the interleaved tables first (`-- --quick` for short ones).
//! Then it runs criterion over the few calls that users wait for. The *limit* of a row is to put
//! its payload into the memory and to fence, in the same rounds. The payload is stored and flushed,
//! or streamed, whichever the medium says is cheaper.
//!
//! The medium is plain memory, larger than the caches. The device throws everything away, so that
//! only the journal is measured. Where a policy reads what it overwrites, or logs on the device,
//! the device is memory as well. Lanes are emptied between batches, outside the measurement.
//!
//! Contents are hot, and blocks come in turn. A program that writes random blocks of a large set
//! pays more.
#![allow(clippy::print_stdout, reason = "a bench prints its tables")]
#![allow(clippy::std_instead_of_core, reason = "a program")]

mod file;
mod isolated;
mod matrix;
mod owner;
mod small;
mod threads;
mod whole;

use std::hint::black_box;

use criterion::{BatchSize, Criterion};
use journal_core::BlockNumber;
use lab::bench::media::Nowhere;
use lab::bench::work::{Front, LANE_BYTES, front, image, images};
use lab::bench::{Asked, print_load, print_machine};
use nvm_journal::FullBlock;
use pmem_sys::NativeKernels;

/// Blocks of the device.
const BLOCKS: u64 = 1 << 12;
const NOWHERE: Nowhere = Nowhere { blocks: BLOCKS };

fn main() {
    let asked = Asked::of_arguments();
    if asked != Asked::List {
        tables(asked);
    }
    let mut criterion = Criterion::default().configure_from_args();
    calls(&mut criterion);
    criterion.final_summary();
}

fn tables(asked: Asked) {
    print_machine();
    println!("medium: plain memory, lanes of {} MiB, blocks of 4 KiB", LANE_BYTES >> 20);
    println!("checks: {}", NativeKernels::detect());
    println!();
    let (images, effort) = (images(), asked.effort());
    whole::blocks(&images).print(effort);
    whole::protocols(&images).print(effort);
    threads::two(&images).print(effort);
    small::objects(&images).print(effort);
    small::deltas(&images).print(effort);
    small::groups(&images).print(effort);
    isolated::calls(&images).print(asked.of(1, 20, 200));
    file::on_disk(&images, effort);
    matrix::print(effort);
    print_load("after");
}

/// One transaction of `count` neighbouring blocks, durable.
#[inline]
fn commit(journal: &Front, images: &[u8], first: u64, count: u64) {
    let mut tx = journal.begin().expect("begins");
    for block in 0..count {
        tx.write(BlockNumber(first + block), image(images, first + block)).expect("fits");
    }
    black_box(tx.commit().is_ok());
}

/// The calls that users wait for.
fn calls(criterion: &mut Criterion) {
    let images = images();
    let mut group = criterion.benchmark_group("commit");
    let journal = front(FullBlock, NOWHERE, 1);
    for blocks in [1_u64, 8, 64] {
        let mut turn = 0;
        group.bench_function(format!("{blocks} blocks of 4 KiB"), |bencher| {
            let commits = |(): ()| {
                for _ in 0..16 {
                    turn += blocks;
                    commit(&journal, &images, turn % (BLOCKS - 64), blocks);
                }
            };
            let empty = || {
                let used = journal.stats().expect("counts").total().used_bytes;
                if used > LANE_BYTES / 2 {
                    journal.checkpoint().expect("empties");
                }
            };
            bencher.iter_batched(empty, commits, BatchSize::PerIteration);
        });
    }
    group.finish();
}
