//! The promise of the adaptive policy, behind the front door: on its medium it never takes more
//! than a twentieth above the best of the fixed policies.
//!
//! It is held to that on the first 300 transactions of two traces, in memories of four sizes. What
//! one of these writes takes more room than the smallest has, and a fifth of the largest.

use std::fs::File;
use std::path::Path;

use lab::replay::policies::{ALL, Known, Role};
use lab::replay::run::{Figures, Room, replay};
use lab::replay::times::{MEMORIES, keeps_up, least_of_fixed};
use lab::trace::Trace;

/// Bytes of the memories, of which the last is what the whole traces are replayed in.
const SIZES: [u64; 4] = [6 << 20, 8 << 20, 16 << 20, 32 << 20];

/// Metadata of few blocks that change again and again, and data of many.
const TRACES: [&str; 2] = ["ext4-varmail", "ext4-tpcc-datajournal"];

/// Policies that log everything in memory, and wait for no disk.
const IN_MEMORY: [&str; 4] = ["full-block", "object-log", "lcow", "byte-delta, all in slots"];

fn open(name: &str) -> Trace<File> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("traces");
    let file = File::open(folder.join(format!("{name}.300.btrc.zst"))).expect("a file");
    Trace::open(file).expect("a trace")
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
        for nvm_bytes in SIZES {
            let all = all_figures(name, nvm_bytes);
            for (known, figures) in &all {
                let case = format!("{name} in {nvm_bytes} bytes, {}", known.name);
                assert!(figures.holds(), "{case}: {figures:?}");
                // 1. By time, on its medium.
                let rows = || all.iter().map(|(known, figures)| (*known, figures));
                let least = |memory: &_| least_of_fixed(rows(), |figures| figures.time_ns(memory));
                let times = MEMORIES.map(|memory| (figures.time_ns(&memory), least(&memory)));
                assert!(keeps_up(known, figures, least), "{case}: {times:?}");
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
