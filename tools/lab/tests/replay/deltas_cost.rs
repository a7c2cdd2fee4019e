//! What the sample costs where differences are logged, and what goes to the disk-side log: to the
//! byte, to the block.

use adaptive::Form;

use crate::figures::{FULL_BLOCK, LONG, NOT_MADE, SHORT, cost, figures, written};
use lab::bounds::Cost;
use lab::bounds::deltas::Overwrites;
use lab::replay::count::{Account, Records};
use lab::replay::media::DiskCounts;
use lab::replay::papers::papers;
use lab::replay::policies::{ALL, Known, Role};
use lab::replay::run::{Figures, Forms, Made};
use lab::replay::table::{Row, Section};
use lab::replay::times::{MEMORIES, keeps_up};

/// Of the 100 blocks that change, 9 go to the log, each in a transaction of its own. Payloads are
/// the shortest there are, and 9 bytes each to say which images they lead between.
const COMPRESSED_DELTA: Figures = Figures {
    placed: Records {
        images: 0,
        encoded: 91,
        logged: 9,
        payload: 2_013 + 91 * 9,
        headers: 30 * 72 + 100 * 16 + 9 * 16,
        padding: 1_328,
        ..FULL_BLOCK.placed
    },
    nvm: Account {
        records: written(8_064, 126, 30),
        // When a journal is opened, the entries of all 64 blocks are flushed, two in a line.
        upkeep: written(5_936, 98 + 32, 8),
        ..FULL_BLOCK.nvm
    },
    disk: DiskCounts { runs: 8 + 9, blocks: 16 + 9, syncs: 1 + 9 },
    log: DiskCounts { runs: 9, blocks: 9, syncs: 9 },
    made: Made { shielded: 9, ..NOT_MADE },
    bound: Cost { bytes: 2_013, lines: 104, log_blocks: 9 },
    forms: Forms { counts: [0, 83, 0, 8, 0, 0, 0], bytes: 2_013 },
    coding_ns: 25_357,
    ..FULL_BLOCK
};

#[test]
fn deltas_are_as_short_as_the_shortest_and_the_rest_goes_to_the_log() {
    assert_eq!(figures("compressed-delta", &LONG), COMPRESSED_DELTA);
    let Figures { forms, bound, placed, .. } = figures("compressed-delta, moves", &LONG);
    assert_eq!((bound.log_blocks, placed.logged, placed.encoded), (9, 9, 91));
    assert!(forms.of(Form::Moves) > 0 && bound.bytes < COMPRESSED_DELTA.bound.bytes);
    assert_eq!(placed.payload, forms.bytes + placed.encoded * 9);
}

/// 17 of them are data of which more than half changes, in 15 transactions: two have two neighbours
/// each, or one behind the other. A payload says its form. Of what is encoded, 7 parts are not the
/// first of their record.
const TWO_LEVEL: Figures = Figures {
    placed: Records {
        images: 0,
        encoded: 83,
        logged: 17,
        payload: 10_707 + 83,
        headers: (30 + 7) * 72 + 100 * 16 + 17 * 16,
        padding: 994,
        ..FULL_BLOCK.placed
    },
    nvm: Account {
        records: written(16_320, 255, 30),
        upkeep: written(5_424, 122, 8),
        ..FULL_BLOCK.nvm
    },
    disk: DiskCounts { runs: 10 + 15, blocks: 16 + 17, syncs: 1 + 15 },
    log: DiskCounts { runs: 15, blocks: 17, syncs: 15 },
    made: Made { shielded: 8, ..NOT_MADE },
    bound: Cost { bytes: 10_707, lines: 249, log_blocks: 17 },
    // For each 18 ns, an eighth of what it is for 4 KiB.
    coding_ns: 83 * 18,
    ..FULL_BLOCK
};

#[test]
fn sub_blocks_are_logged_and_what_changes_much_goes_to_the_log() {
    assert_eq!(figures("two-level", &LONG), TWO_LEVEL);
    // A log of twelve blocks, in segments of three, has to be cleaned.
    let short = Figures {
        nvm: Account {
            entries: written(11 * 32, 11, 3),
            voids: written(11 * 8, 11, 7),
            upkeep: written(13_840, 229, 14),
            ..TWO_LEVEL.nvm
        },
        disk: DiskCounts { runs: 37, blocks: 50, syncs: 21 },
        disk_at_end: 13,
        made: Made {
            ring_checkpoints: 2,
            folds: 3,
            collections: 3,
            cleanings: 3,
            shielded: 22,
            ..NOT_MADE
        },
        ..TWO_LEVEL
    };
    assert_eq!(figures("two-level", &SHORT), short);
}

/// Everything as a delta: 92 blocks are overwritten with something else, and 8 are new.
#[test]
fn the_smallest_form_is_found() {
    let expected = Figures {
        placed: Records {
            images: 0,
            encoded: 100,
            payload: 1_324 + 100 * 9,
            headers: 30 * 72 + 100 * 16,
            padding: 1_056,
            ..FULL_BLOCK.placed
        },
        nvm: Account {
            records: written(7_040, 110, 30),
            upkeep: written(9_712, 157, 8),
            ..FULL_BLOCK.nvm
        },
        made: Made { shielded: 16, ..NOT_MADE },
        bound: cost(1_299, 107),
        forms: Forms { counts: [0, 24, 0, 0, 0, 76, 0], bytes: 1_324 },
        coding_ns: 51_576,
        overwrites: Overwrites {
            count: 92,
            runs: 4_559,
            xor: 3_017,
            moves: 786,
            smallest: 780,
            logged: 805,
        },
        ..FULL_BLOCK
    };
    assert_eq!(figures("adaptive, wear", &LONG), expected);
}

/// What is more than the bound has, in bytes or in blocks of the log, does not hold.
#[test]
fn a_bound_is_one() {
    let holds = |bytes, log_blocks| {
        Figures { bound: Cost { bytes, lines: 0, log_blocks }, ..COMPRESSED_DELTA }.holds()
    };
    // 8 064 bytes, of which 100 frames and 30 records may have 6 240.
    assert!(holds(1_660, 9) && !holds(1_650, 9) && !holds(1_660, 8));
}

/// The lines, fences and disk of what was counted, and its coding.
#[test]
fn times_are_sums_of_counts() {
    let [dram, pcm] = &MEMORIES;
    let (lines, fences) = (126 + 130, 30 + 8);
    let disk = 25 * 2_000 + 17 * 20_000 + 10 * 100_000;
    assert_eq!(COMPRESSED_DELTA.memory_ns(dram), lines * 3 + fences * 165 + 25_357);
    assert_eq!(COMPRESSED_DELTA.time_ns(pcm), lines * 100 + fences * 500 + 25_357 + disk);
    let known = |role| Known { role, ..ALL[0] };
    let keeps = |known: &Known, least| keeps_up(known, &COMPRESSED_DELTA, |_| Some(least));
    let ours = COMPRESSED_DELTA.time_ns(dram);
    let chooses = known(Role::LeastTime(dram.medium));
    assert!(keeps(&chooses, ours) && keeps(&chooses, ours * 100 / 104));
    assert!(!keeps(&chooses, ours * 100 / 106));
    // Nothing is asked of others, nor where nobody is there to compare with.
    assert!(keeps(&known(Role::Fixed), 1) && keeps(&known(Role::LeastBytes), 1));
    assert!(keeps_up(&chooses, &COMPRESSED_DELTA, |_| None));
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
    for said in [
        // 17 blocks against 183; 16 320 bytes of 166 times 512; 9 against 183.
        "| ext4-mobibench-datajournal | -78 % | -90.7 % |",
        "| ext4-mobibench-datajournal | 16 % | 19.2 % |",
        "| ext4-tpcc-datajournal | -58 % | -95.1 % |",
        // 2 013 bytes of 91 times 512.
        "| ext4-tpcc-datajournal | 3.7 % | 4.3 % |",
    ] {
        assert!(text.contains(said), "{said}\n{text}");
    }
}
