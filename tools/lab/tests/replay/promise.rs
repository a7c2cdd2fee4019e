//! The promise of the adaptive policy, behind the front door: on its medium it never takes more
//! than a twentieth above the best of the fixed policies.
//!
//! It is held to that on the first 300 transactions of two traces, in memories of four sizes, where
//! the blocks that these write take up to two thirds of the memory. Beyond that, policies that keep
//! blocks in slots write fewer of them home. The policy has no slots unless it is told to, and a
//! ring needs room for what is stale. The test also limits how far the policy may fall behind
//! there.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::Path;

use lab::replay::policies::{ALL, Known, Role};
use lab::replay::run::{Figures, Room, replay};
use lab::replay::times::{MEMORIES, keeps_up, least_of_fixed};
use lab::trace::Trace;

/// Bytes of the memories, of which the last is what the whole traces are replayed in.
const SIZES: [u64; 4] = [8 << 20, 12 << 20, 16 << 20, 32 << 20];

/// Metadata of few blocks that change again and again, and data of many.
const TRACES: [&str; 2] = ["ext4-varmail", "ext4-tpcc-datajournal"];

/// In percent, how far above the best a policy may be in a memory that is too small.
const ABOVE_MAX_IN_LITTLE: u64 = 20;

/// Policies that log everything in memory, and wait for no disk.
const IN_MEMORY: [&str; 4] = ["full-block", "object-log", "lcow", "byte-delta, all in slots"];

fn open(name: &str) -> Trace<File> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("traces");
    let file = File::open(folder.join(format!("{name}.300.btrc.zst"))).expect("a file");
    Trace::open(file).expect("a trace")
}

/// Bytes of the blocks that a trace writes.
fn written_bytes(name: &str) -> u64 {
    let (mut trace, mut blocks) = (open(name), BTreeSet::new());
    while trace.advance().expect("goes on") {
        blocks.extend(trace.transaction().writes.iter().map(|write| write.block));
    }
    blocks.len() as u64 * trace.header().block_size.bytes() as u64
}

fn all_figures(name: &str, nvm_bytes: u64) -> Vec<(&'static Known, Figures)> {
    let room = Room { nvm_bytes, log_blocks: 4096, segment_blocks: 64, index_frames: 1 << 18 };
    let of = |known: &'static Known| {
        let figures = replay(&mut open(name), known, &room, |_| {});
        (known, figures.unwrap_or_else(|error| panic!("{name}, {}: {error}", known.name)))
    };
    ALL.iter().filter(|known| known.is_for(name)).map(of).collect()
}

#[test]
fn the_adaptive_policy_keeps_up_with_the_best_fixed_one() {
    for name in TRACES {
        let written = written_bytes(name);
        for nvm_bytes in SIZES {
            let all = all_figures(name, nvm_bytes);
            let is_little = written * 3 > nvm_bytes * 2;
            for (known, figures) in &all {
                let case = format!("{name} in {nvm_bytes} bytes, {}", known.name);
                assert!(figures.holds(), "{case}: {figures:?}");
                // 1. By time, on its medium.
                let rows = || all.iter().map(|(known, figures)| (*known, figures));
                let least = |memory: &_| least_of_fixed(rows(), |figures| figures.time_ns(memory));
                let times = MEMORIES.map(|memory| (figures.time_ns(&memory), least(&memory)));
                let most = |memory: &_| {
                    least(memory).map(|least| match is_little {
                        true => least * (100 + ABOVE_MAX_IN_LITTLE) / 105,
                        false => least,
                    })
                };
                assert!(keeps_up(known, figures, most), "{case}: {times:?}");
                // 2. By bytes.
                if known.role == Role::LeastBytes {
                    let bytes = |figures: &Figures| figures.nvm.commits().bytes;
                    let in_memory = all.iter().filter(|(known, _)| IN_MEMORY.contains(&known.name));
                    let least = in_memory.map(|(_, figures)| bytes(figures)).min().expect("some");
                    let ours = bytes(figures);
                    assert!(ours * 100 <= least * 105, "{case}: {ours} bytes, {least}");
                }
            }
            let made = |name| {
                let found = all.iter().find(|(known, _)| known.name == name);
                found.map(|(_, figures)| figures.made).expect("a policy")
            };
            // Room was made meanwhile, or nothing was shown; the largest memory has enough.
            let made_some = made("full-block").checkpoints > 2 || made("full-block").copied > 0;
            assert!(made_some || nvm_bytes == SIZES[3], "{name}, {nvm_bytes}");
        }
    }
}
