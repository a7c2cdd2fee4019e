//! The promise of the adaptive policy, behind the front door, on cuts of two traces: it never takes
//! more than a twentieth above the best of the fixed policies. (In a memory of which the working
//! set takes most, policies with slots may do better: it has none unless it is told to.)

use std::fs::File;
use std::path::Path;

use lab::replay::policies::{ALL, Known, Role};
use lab::replay::run::{Figures, Room, replay};
use lab::replay::times::{MEMORIES, keeps_up, least_of_fixed};
use lab::trace::Trace;

/// So small that room has to be made.
const ROOM: Room =
    Room { nvm_bytes: 4 << 20, log_blocks: 1024, segment_blocks: 64, index_frames: 1 << 16 };

/// The first transactions of varmail's metadata, and of Mobibench on a file system with its data.
const CUTS: [&str; 2] = ["ext4-varmail-cut", "ext4-mobibench-cut-datajournal"];

/// Policies that log everything in memory, and wait for no disk.
const IN_MEMORY: [&str; 4] = ["full-block", "object-log", "lcow", "byte-delta, all in slots"];

fn all_figures(cut: &str) -> Vec<(&'static Known, Figures)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("traces");
    let of = |known: &'static Known| {
        let file = File::open(folder.join(format!("{cut}.btrc.zst"))).expect("a file");
        let mut trace = Trace::open(file).expect("a trace");
        let figures = replay(&mut trace, known, &ROOM, |_| {});
        (known, figures.unwrap_or_else(|error| panic!("{cut}, {}: {error}", known.name)))
    };
    ALL.iter().filter(|known| known.is_for(cut)).map(of).collect()
}

#[test]
fn the_adaptive_policy_keeps_up_with_the_best_fixed_one() {
    for cut in CUTS {
        let all = all_figures(cut);
        for (known, figures) in &all {
            assert!(figures.holds(), "{cut}, {}: {figures:?}", known.name);
            // 1. By time, on its medium.
            let rows = || all.iter().map(|(known, figures)| (*known, figures));
            let least = |memory: &_| least_of_fixed(rows(), |figures| figures.time_ns(memory));
            let times = MEMORIES.map(|memory| (figures.time_ns(&memory), least(&memory)));
            assert!(keeps_up(known, figures, least), "{cut}, {}: {times:?}", known.name);
            // 2. By bytes.
            if known.role == Role::LeastBytes {
                let bytes = |figures: &Figures| figures.nvm.commits().bytes;
                let in_memory = all.iter().filter(|(known, _)| IN_MEMORY.contains(&known.name));
                let least = in_memory.map(|(_, figures)| bytes(figures)).min().expect("some");
                let ours = bytes(figures);
                assert!(ours * 100 <= least * 105, "{cut}: {ours} bytes, {least}");
            }
        }
        let made = |name| {
            let found = all.iter().find(|(known, _)| known.name == name);
            found.map(|(_, figures)| figures.made).expect("a policy")
        };
        // Room was made meanwhile, or nothing was shown.
        assert!(made("full-block").checkpoints > 2 || made("full-block").copied > 0, "{cut}");
    }
}
