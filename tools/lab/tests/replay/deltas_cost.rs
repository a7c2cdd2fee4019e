//! What the sample costs where differences are logged, and what goes to the disk-side log: to the
//! byte, to the block.

use adaptive::Form;

use crate::figures::{LONG, figures};
use lab::bounds::Cost;
use lab::replay::papers::papers;
use lab::replay::policies::{ALL, Known, Role};
use lab::replay::run::Figures;
use lab::replay::table::{Row, Section};
use lab::replay::times::{MEMORIES, keeps_up};

/// Of the 100 blocks that change, 10 go to the log: those that are appended, of which nobody knows
/// the old image, and 2 others. Payloads are the shortest there are, and 9 bytes each to say which
/// images they lead between.
#[test]
fn deltas_are_as_short_as_the_shortest_and_the_rest_goes_to_the_log() {
    let Figures { placed, bound, forms, log, .. } = figures("compressed-delta", &LONG);
    assert_eq!((placed.encoded, placed.logged, placed.images), (90, 10, 0));
    assert_eq!((log.blocks, bound.log_blocks), (10, 10));
    assert_eq!(placed.payload, forms.bytes + placed.encoded * 9);
    assert_eq!(forms.bytes, bound.bytes);
    let moves = figures("compressed-delta, moves", &LONG);
    assert_eq!((moves.bound.log_blocks, moves.placed.logged), (10, 10));
    assert!(moves.forms.of(Form::Moves) > 0 && moves.bound.bytes < bound.bytes);
}

/// Data of which more than half changes goes to the log. A payload says its form.
#[test]
fn sub_blocks_are_logged_and_what_changes_much_goes_to_the_log() {
    let Figures { placed, bound, log, .. } = figures("two-level", &LONG);
    assert_eq!((placed.encoded + placed.logged, placed.images), (100, 0));
    assert_eq!((log.blocks, placed.logged), (bound.log_blocks, bound.log_blocks));
    assert_eq!(placed.payload, bound.bytes + placed.encoded);
}

/// Everything as a delta, except for the 8 blocks that are new, which are logged whole.
#[test]
fn the_smallest_form_is_found() {
    let Figures { placed, overwrites, forms, .. } = figures("adaptive, wear", &LONG);
    assert_eq!((placed.images, placed.encoded), (8, 92));
    assert_eq!(placed.payload, 8 * 512 + forms.bytes + 92 * 9);
    assert_eq!((overwrites.count, overwrites.runs, overwrites.xor), (92, 4_559, 3_017));
    assert_eq!((overwrites.moves, overwrites.smallest, overwrites.logged), (786, 780, 805));
}

/// What is more than the bound has, in bytes or in blocks of the log, does not hold.
#[test]
fn a_bound_is_one() {
    let figures = figures("compressed-delta", &LONG);
    let holds = |bytes, log_blocks| {
        Figures { bound: Cost { bytes, lines: 0, log_blocks }, ..figures }.holds()
    };
    // A tenth more, with 24 bytes for each of 100 frames and 128 for each of 30 records.
    let least = (figures.nvm.commits().bytes - 100 * 24 - 30 * 128) * 10 / 11;
    assert!(holds(least + 10, 10) && !holds(least - 10, 10) && !holds(least + 10, 9));
    assert!(!Figures { whole_is_needed: false, ..figures }.holds());
}

/// The lines, fences and disk of what was counted, and its coding.
#[test]
fn times_are_sums_of_counts() {
    let [dram, pcm] = &MEMORIES;
    let figures = figures("compressed-delta", &LONG);
    let nvm = figures.nvm;
    let all = [nvm.records, nvm.slots, nvm.entries, nvm.voids, nvm.moves, nvm.upkeep];
    let lines: u64 = all.iter().map(|written| written.lines).sum();
    let fences: u64 = all.iter().map(|written| written.fences).sum();
    let disk = figures.disk;
    let disk = disk.blocks * 2_000 + disk.runs * 20_000 + disk.syncs * 100_000;
    let coding = figures.coding_ns;
    assert_eq!(figures.memory_ns(dram), lines * 3 + fences * 165 + coding);
    assert_eq!(figures.time_ns(pcm), lines * 100 + fences * 500 + coding + disk);
    let known = |role| Known { role, ..ALL[0] };
    let keeps = |known: &Known, least| keeps_up(known, &figures, |_| Some(least));
    let ours = figures.time_ns(dram);
    let chooses = known(Role::LeastTime(dram.medium));
    assert!(keeps(&chooses, ours) && keeps(&chooses, ours * 100 / 104));
    assert!(!keeps(&chooses, ours * 100 / 106));
    // Nothing is asked of others, nor where nobody is there to compare with.
    assert!(keeps(&known(Role::Fixed), 1) && keeps(&known(Role::LeastBytes), 1));
    assert!(keeps_up(&chooses, &figures, |_| None));
}

/// The sample under the names of traces that papers are compared by.
#[test]
fn papers_are_shown_one_figure_of_a_policy() {
    let section = |trace: &str| {
        let row = |known: &'static Known| {
            let figures = figures(known.name, &LONG);
            Row { known, figures, crashes: lab::replay::crash::CrashReport::default() }
        };
        Section { trace: trace.to_owned(), rows: ALL.iter().map(row).collect() }
    };
    let text = papers(&[section("ext4-mobibench-datajournal"), section("ext4-tpcc-datajournal")]);
    // 10 blocks against 183.
    let said = "| ext4-tpcc-datajournal | -58 % | -94.5 % |";
    assert!(text.contains(said), "{said}\n{text}");
    for said in ["| ext4-mobibench-datajournal | -78 % |", "| ext4-mobibench-datajournal | 16 % |"]
    {
        assert!(text.contains(said), "{said}\n{text}");
    }
}
