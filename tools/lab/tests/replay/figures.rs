//! What the sample costs, to the byte.

use crate::forgetful::FORGETFUL;
use lab::bounds::Cost;
use lab::replay::count::{Records, Written};
use lab::replay::policies::{ALL, Known};
use lab::replay::run::{Figures, Forms, ReplayError, Room, replay};
use lab::trace::SAMPLE;
use lab::trace::Trace;

/// A journal that holds all of the sample.
pub(crate) const LONG: Room =
    Room { nvm_bytes: 1 << 20, log_blocks: 64, segment_blocks: 8, index_frames: 1 << 12 };
/// One that the sample goes round several times.
pub(crate) const SHORT: Room =
    Room { nvm_bytes: 44 << 10, log_blocks: 12, segment_blocks: 3, ..LONG };

pub(crate) fn known(name: &str) -> &'static Known {
    ALL.iter().find(|known| known.name == name).expect("a policy")
}

fn try_figures(known: &Known, room: &Room) -> Result<Figures, ReplayError> {
    let mut trace = Trace::open(SAMPLE).expect("a trace");
    replay(&mut trace, known, room, |_| {})
}

pub(crate) fn figures(name: &str, room: &Room) -> Figures {
    try_figures(known(name), room).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// What commits cost, however room is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Costs {
    pub(crate) placed: Records,
    pub(crate) records: Written,
    pub(crate) slots: Written,
    pub(crate) whole_slots: u64,
    pub(crate) bound: Cost,
    pub(crate) forms: Forms,
    pub(crate) coding_ns: u64,
}

impl Costs {
    pub(crate) fn of(name: &str, room: &Room) -> Self {
        let Figures { placed, nvm, bound, forms, coding_ns, .. } = figures(name, room);
        let (records, slots, whole_slots) = (nvm.records, nvm.slots, nvm.whole_slots);
        Self { placed, records, slots, whole_slots, bound, forms, coding_ns }
    }
}

#[test]
fn every_policy_keeps_its_bound_and_its_account() {
    for known in ALL {
        for room in [LONG, SHORT] {
            let figures = figures(known.name, &room);
            assert!(figures.holds(), "{}: {figures:?}", known.name);
            assert_eq!((figures.transactions, figures.updates), (30, 123), "{}", known.name);
            // The sample gives nothing up: what is discarded is about to go home.
            let fences = figures.records + figures.placed.discards;
            assert_eq!(figures.nvm.commits().fences, fences, "{}: one fence", known.name);
            assert_eq!(figures.nvm.records.bytes % 64, 0, "{}: whole lines", known.name);
            assert!(figures.unchanged() >= SAME_IN_SAMPLE, "{}: {figures:?}", known.name);
            let [meanwhile, with_rings, all] =
                [figures.disk_meanwhile, figures.disk_with_rings, figures.disk];
            let blocks = [meanwhile, with_rings, all].map(|disk| disk.blocks);
            assert!(blocks.is_sorted(), "{}: {blocks:?}", known.name);
        }
    }
}

/// Updates of the sample that change nothing, as it says itself.
const SAME_IN_SAMPLE: u64 = 23;

pub(crate) const fn written(bytes: u64, lines: u64, fences: u64) -> Written {
    Written { bytes, lines, fences }
}

pub(crate) const fn cost(bytes: u64, lines: u64) -> Cost {
    Cost { bytes, lines, log_blocks: 0 }
}

/// 100 images in 30 records: for each record a header and a check (72 bytes), for each image 16
/// bytes to say which it is, and whole lines.
pub(crate) const FULL_BLOCK: Costs = Costs {
    placed: Records {
        images: 100,
        encoded: 0,
        discards: 0,
        slots: 0,
        home: 0,
        logged: 0,
        payload: 100 * 512,
        headers: 30 * 72 + 100 * 16,
        padding: 912,
    },
    records: written(55_872, 873, 30),
    slots: written(0, 0, 0),
    whole_slots: 0,
    bound: cost(100 * 512, 100 * 8),
    forms: Forms { counts: [0; 7], bytes: 0 },
    coding_ns: 0,
};

#[test]
fn whole_blocks_cost_what_they_are() {
    let long = figures("full-block", &LONG);
    assert_eq!(Costs::of("full-block", &LONG), FULL_BLOCK);
    assert_eq!(Costs::of("full-block", &SHORT), FULL_BLOCK);
    // All 16 blocks go home at the end, and nothing before.
    assert_eq!((long.disk_meanwhile.blocks, long.disk_with_rings.blocks), (0, 16));
    // A descriptor and a commit for each transaction.
    assert_eq!((long.block_journal_blocks, long.block_bytes), (123 + 30 + 30, 512));
}

/// Room is made by copies, and what is copied is no transaction's.
#[test]
fn what_is_copied_is_counted_apart() {
    let copied = |name| {
        let Figures { made, nvm, .. } = figures(name, &SHORT);
        (made.copied, nvm.moves.bytes)
    };
    let (blocks, bytes) = copied("full-block");
    assert!(blocks > 0 && bytes > blocks * 512, "{blocks} blocks, {bytes} bytes");
    let moved = figures("two-level", &SHORT);
    assert!(moved.moved.blocks > 0 && moved.moved.blocks == moved.made.moved, "{moved:?}");
}

/// Of the 100 blocks that change, 82 are logged as objects. What is encoded is stored in parts, of
/// which 15 are not the first of their record; each has a header and a check.
#[test]
fn objects_cost_what_changes() {
    let expected = Costs {
        placed: Records {
            images: 18,
            encoded: 82,
            payload: 25_818,
            headers: (30 + 15) * 72 + 100 * 16,
            padding: 1_726,
            ..FULL_BLOCK.placed
        },
        records: written(32_384, 506, 30),
        bound: cost(26_064, 479),
        // For each 18 ns, an eighth of what it is for 4 KiB.
        coding_ns: 82 * 18,
        ..FULL_BLOCK
    };
    assert_eq!(Costs::of("object-log", &LONG), expected);
    assert_eq!(Costs::of("object-log", &SHORT), expected);
}

/// Of the 100 blocks that change, 8 are new and go home, in 8 transactions, each behind a record
/// that discards it. A frame takes 16 bytes, and 16 more to say which slot. 22 versions are the
/// first or second of their blocks.
const BYTE_DELTA: Costs = Costs {
    placed: Records {
        images: 0,
        slots: 92,
        home: 8,
        discards: 8,
        payload: 0,
        headers: 30 * 72 + 100 * 16 + 92 * 16 + 8 * (72 + 16),
        padding: 1_040 + 8 * 40,
        ..FULL_BLOCK.placed
    },
    records: written(6_272 + 8 * 128, 98 + 8 * 2, 30 + 8),
    slots: written(13_320, 288, 0),
    whole_slots: 22,
    bound: cost(13_320, 288),
    coding_ns: 92 * 23,
    ..FULL_BLOCK
};

#[test]
fn versions_cost_the_words_that_differ() {
    assert_eq!(Costs::of("byte-delta", &LONG), BYTE_DELTA);
    let all = Costs {
        placed: Records {
            slots: 100,
            home: 0,
            discards: 0,
            headers: 30 * 72 + 100 * 16 + 100 * 16,
            padding: 1_232,
            ..BYTE_DELTA.placed
        },
        records: written(6_592, 103, 30),
        slots: written(17_208, 349, 0),
        whole_slots: 29,
        bound: cost(17_208, 349),
        coding_ns: 100 * 23,
        ..BYTE_DELTA
    };
    assert_eq!(Costs::of("byte-delta, all in slots", &LONG), all);
}

/// What is stored in slots is what the images say, to the byte and to the line, however little room
/// there is.
#[test]
fn slots_are_written_as_the_bound_says_and_not_a_line_more() {
    for known in ALL.iter().filter(|known| known.name.starts_with("byte-delta")) {
        for nvm_bytes in (36 << 10..60 << 10).step_by(4 << 10).chain([LONG.nvm_bytes]) {
            let room = Room { nvm_bytes, ..SHORT };
            let Figures { nvm, bound, placed, .. } = figures(known.name, &room);
            let images = placed.images * 512;
            let said = cost(nvm.slots.bytes + images, nvm.slots.lines + images / 64);
            assert_eq!(said, bound, "{}, {room:?}", known.name);
        }
    }
}

/// Versions without the idea: the same slots, all of them written whole.
#[test]
fn whole_versions_differ_in_what_is_written_alone() {
    let pairs = [
        ("byte-delta", "byte-delta, whole slots"),
        ("byte-delta, all in slots", "byte-delta, all in whole slots"),
    ];
    for (name, whole) in pairs {
        let (costs, whole) = (Costs::of(name, &LONG), Costs::of(whole, &LONG));
        let slots = costs.placed.slots;
        let expected = Costs {
            slots: written(slots * 512, slots * 8, 0),
            whole_slots: slots,
            bound: cost(slots * 512, slots * 8),
            coding_ns: 0,
            ..costs
        };
        assert_eq!(whole, expected, "{name}");
    }
}

/// 19 of the 100 blocks that change hold data.
#[test]
fn data_stays_in_slots_and_metadata_goes_home() {
    let expected = Costs {
        placed: Records {
            images: 81,
            slots: 19,
            payload: 81 * 512,
            headers: 30 * 72 + 100 * 16 + 19 * 16,
            padding: 736,
            ..FULL_BLOCK.placed
        },
        records: written(46_272, 723, 30),
        slots: written(19 * 512, 19 * 8, 0),
        whole_slots: 19,
        ..FULL_BLOCK
    };
    assert_eq!(Costs::of("lcow", &LONG), expected);
    // A checkpoint of the rings writes metadata alone.
    let Figures { disk_with_rings, disk, .. } = figures("lcow", &LONG);
    assert!(disk_with_rings.blocks < disk.blocks, "{disk_with_rings:?}, {disk:?}");
}

#[test]
fn a_journal_too_short_for_a_transaction_says_so() {
    let room = |nvm_bytes| Room { nvm_bytes, ..LONG };
    let error = try_figures(known("full-block"), &room(18 << 10)).expect_err("too short");
    assert!(matches!(error, ReplayError::Commit { .. }), "{error}");
    let error = try_figures(known("full-block"), &room(4096)).expect_err("no lane");
    assert!(matches!(error, ReplayError::Format(_)), "{error}");
}

#[test]
fn a_policy_that_logs_nothing_is_found_out() {
    let error = try_figures(&FORGETFUL, &LONG).expect_err("nothing is there");
    assert!(matches!(error, ReplayError::Wrong { .. }), "{error}");
}
