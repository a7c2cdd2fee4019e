//! What the sample costs, to the byte.

use journal_core::BlockSize;

use crate::forgetful::FORGETFUL;
use lab::bounds::Cost;
use lab::bounds::deltas::Overwrites;
use lab::replay::count::{Account, Records, Written};
use lab::replay::media::DiskCounts;
use lab::replay::policies::{ALL, Known};
use lab::replay::run::{Figures, Forms, Made, ReplayError, Room, replay};
use lab::trace::SAMPLE;
use lab::trace::Trace;

/// A lane that holds all of the sample.
pub(crate) const LONG: Room =
    Room { lane_bytes: 1 << 20, slot_share: 192, log_blocks: 64, segment_blocks: 8 };
/// One that the sample goes round several times. Of slots it has 22.
pub(crate) const SHORT: Room =
    Room { lane_bytes: 16 << 10, log_blocks: 12, segment_blocks: 3, ..LONG };
/// One that does not even hold two versions of each block.
const SHORTEST: Room = Room { lane_bytes: 8 << 10, ..SHORT };

fn known(name: &str) -> &'static Known {
    ALL.iter().find(|known| known.name == name).expect("a policy")
}

fn try_figures(known: &Known, room: &Room) -> Result<Figures, ReplayError> {
    let mut trace = Trace::open(SAMPLE).expect("a trace");
    replay(&mut trace, known, room, |_| {})
}

pub(crate) fn figures(name: &str, room: &Room) -> Figures {
    try_figures(known(name), room).unwrap_or_else(|error| panic!("{name}: {error}"))
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
            let same = SAME_IN_SAMPLE;
            assert!(figures.unchanged() >= same, "{}: {figures:?}", known.name);
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

pub(crate) const NOT_MADE: Made = Made {
    checkpoints: 1,
    ring_checkpoints: 0,
    evictions: 0,
    folds: 0,
    collections: 0,
    cleanings: 0,
    reclaims: 0,
    copied: 0,
    shielded: 0,
};

/// 100 images in 30 records: for each record a header and a check (72 bytes), for each image 16
/// bytes to say which it is, and whole lines.
pub(crate) const FULL_BLOCK: Figures = Figures {
    transactions: 30,
    records: 30,
    updates: 123,
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
    nvm: Account {
        records: written(55_872, 873, 30),
        slots: written(0, 0, 0),
        whole_slots: 0,
        entries: written(0, 0, 0),
        voids: written(0, 0, 0),
        // Opened, written home, closed: a superblock each time, twice. The first fence is the
        // open's.
        upkeep: written(6 * 168, 21, 7),
    },
    disk: DiskCounts { runs: 8, blocks: 16, syncs: 1 },
    log: DiskCounts { runs: 0, blocks: 0, syncs: 0 },
    disk_at_end: 16,
    made: NOT_MADE,
    bound: cost(100 * 512, 100 * 8),
    forms: Forms { counts: [0; 7], bytes: 0 },
    coding_ns: 0,
    overwrites: Overwrites { count: 0, runs: 0, xor: 0, moves: 0, smallest: 0, logged: 0 },
    // A descriptor and a commit for each transaction.
    block_journal_blocks: 123 + 30 + 30,
    block_bytes: 512,
};

#[test]
fn whole_blocks_cost_what_they_are() {
    assert_eq!(figures("full-block", &LONG), FULL_BLOCK);
    // Commits cost the same in a lane that is short, but for lines that its end cuts in two: there
    // are none, since blocks and fronts are whole lines.
    let short = Figures {
        nvm: Account { upkeep: written(18_816, 312, 50), ..FULL_BLOCK.nvm },
        disk: DiskCounts { runs: 41, blocks: 62, syncs: 8 },
        disk_at_end: 3,
        made: Made { checkpoints: 8, reclaims: 10, copied: 12_096, ..NOT_MADE },
        ..FULL_BLOCK
    };
    assert_eq!(figures("full-block", &SHORTEST), short);
}

/// Of the 100 blocks that change, 82 are logged as objects. What is encoded is stored in parts, of
/// which 15 are not the first of their record; each has a header and a check.
const OBJECT_LOG: Figures = Figures {
    placed: Records {
        images: 18,
        encoded: 82,
        payload: 25_818,
        headers: (30 + 15) * 72 + 100 * 16,
        padding: 1_726,
        ..FULL_BLOCK.placed
    },
    nvm: Account {
        records: written(32_384, 506, 30),
        upkeep: written(4_848, 81, 8),
        ..FULL_BLOCK.nvm
    },
    made: Made { shielded: 7, ..NOT_MADE },
    bound: cost(26_064, 479),
    // For each 18 ns, an eighth of what it is for 4 KiB.
    coding_ns: 82 * 18,
    ..FULL_BLOCK
};

#[test]
fn objects_cost_what_changes() {
    assert_eq!(figures("object-log", &LONG), OBJECT_LOG);
    let short = Figures {
        nvm: Account { upkeep: written(26_192, 419, 26), ..OBJECT_LOG.nvm },
        disk: DiskCounts { runs: 38, blocks: 60, syncs: 7 },
        disk_at_end: 0,
        made: Made { checkpoints: 8, shielded: 42, ..NOT_MADE },
        ..OBJECT_LOG
    };
    assert_eq!(figures("object-log", &SHORTEST), short);
}

/// Of the 100 blocks that change, 8 are new and go home, in 8 transactions, each behind a record
/// that discards it. A frame takes 16 bytes, and 16 more to say which slot. 22 versions are the
/// first or second of their blocks. That is four blocks more than go home at the end.
const BYTE_DELTA: Figures = Figures {
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
    nvm: Account {
        records: written(6_272 + 8 * 128, 98 + 8 * 2, 30 + 8),
        slots: written(13_320, 288, 0),
        whole_slots: 22,
        // When a journal is opened, the entries of all 1 445 slots are flushed, two in a line.
        upkeep: written(6 * 168, 21 + 723, 7),
        ..FULL_BLOCK.nvm
    },
    disk: DiskCounts { runs: 15, blocks: 20, syncs: 8 + 1 },
    disk_at_end: 12,
    bound: cost(13_320, 288),
    coding_ns: 92 * 23,
    ..FULL_BLOCK
};

#[test]
fn versions_cost_the_words_that_differ() {
    assert_eq!(figures("byte-delta", &LONG), BYTE_DELTA);
    // With few slots older versions are given up, and what comes then is whole.
    let short = Figures {
        nvm: Account {
            slots: written(25_376, 447, 0),
            whole_slots: 47,
            entries: written(44 * 32, 44, 7),
            voids: written(30 * 8, 30, 5),
            upkeep: written(3_360, 74, 21),
            ..BYTE_DELTA.nvm
        },
        made: Made { folds: 7, collections: 3, ..NOT_MADE },
        bound: cost(25_376, 447),
        ..BYTE_DELTA
    };
    assert_eq!(figures("byte-delta", &SHORT), short);
    let shortest = Figures {
        nvm: Account {
            slots: written(45_096, 709, 0),
            whole_slots: 88,
            entries: written(64 * 32, 64, 14),
            voids: written(63 * 8, 63, 14),
            upkeep: written(5_712, 111, 35),
            ..BYTE_DELTA.nvm
        },
        disk: DiskCounts { runs: 41, blocks: 61, syncs: 16 },
        disk_at_end: 3,
        made: Made { checkpoints: 8, folds: 18, collections: 11, ..NOT_MADE },
        bound: cost(45_096, 709),
        ..BYTE_DELTA
    };
    assert_eq!(figures("byte-delta", &SHORTEST), shortest);
}

#[test]
fn appends_cost_a_slot_where_they_are_logged() {
    let all = Figures {
        placed: Records {
            slots: 100,
            home: 0,
            discards: 0,
            headers: 30 * 72 + 100 * 16 + 100 * 16,
            padding: 1_232,
            ..BYTE_DELTA.placed
        },
        nvm: Account {
            records: written(6_592, 103, 30),
            slots: written(17_208, 349, 0),
            whole_slots: 29,
            ..BYTE_DELTA.nvm
        },
        disk: FULL_BLOCK.disk,
        disk_at_end: 16,
        bound: cost(17_208, 349),
        coding_ns: 100 * 23,
        ..BYTE_DELTA
    };
    assert_eq!(figures("byte-delta, all in slots", &LONG), all);
}

/// The books of the bound know nothing of the journal: that what is stored is the same to the byte,
/// and to the line, says that neither has given up a version too many.
#[test]
fn slots_are_written_as_the_bound_says_and_not_a_line_more() {
    for known in ALL.iter().filter(|known| known.name.starts_with("byte-delta")) {
        for lane_bytes in (6 << 10..24 << 10).step_by(1 << 10).chain([LONG.lane_bytes]) {
            let room = Room { lane_bytes, ..SHORT };
            let Figures { nvm, bound, placed, .. } = figures(known.name, &room);
            let said = cost(nvm.slots.bytes, nvm.slots.lines);
            assert_eq!((said, placed.images), (bound, 0), "{}, {room:?}", known.name);
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
        for room in [LONG, SHORT, SHORTEST] {
            let (figures, whole) = (figures(name, &room), figures(whole, &room));
            let slots = figures.placed.slots;
            let expected = Figures {
                nvm: Account {
                    slots: written(slots * 512, slots * 8, 0),
                    whole_slots: slots,
                    ..figures.nvm
                },
                bound: cost(slots * 512, slots * 8),
                coding_ns: 0,
                ..figures
            };
            assert_eq!(whole, expected, "{name}, {room:?}");
        }
    }
}

/// 19 of the 100 blocks that change hold data.
const LCOW: Figures = Figures {
    placed: Records {
        images: 81,
        slots: 19,
        payload: 81 * 512,
        headers: 30 * 72 + 100 * 16 + 19 * 16,
        padding: 736,
        ..FULL_BLOCK.placed
    },
    nvm: Account {
        records: written(46_272, 723, 30),
        slots: written(19 * 512, 19 * 8, 0),
        whole_slots: 19,
        ..BYTE_DELTA.nvm
    },
    ..FULL_BLOCK
};

#[test]
fn data_stays_in_slots_and_metadata_goes_home() {
    assert_eq!(figures("lcow", &LONG), LCOW);
    let short = Figures {
        nvm: Account {
            entries: written(19 * 32, 19, 12),
            voids: written(19 * 8, 19, 10),
            upkeep: written(6_720, 134, 41),
            ..LCOW.nvm
        },
        // At the end go home 10 file blocks and the page, and what the last transactions changed.
        disk: DiskCounts { runs: 47, blocks: 75, syncs: 15 },
        disk_at_end: 12,
        made: Made { ring_checkpoints: 14, folds: 14, collections: 14, ..NOT_MADE },
        ..LCOW
    };
    assert_eq!(figures("lcow", &SHORT), short);
}

/// Eleven slots, and a ring that holds everything.
const FEW_SLOTS: Room = Room { lane_bytes: 100 << 10, slot_share: 16, ..LONG };

#[test]
fn slots_that_run_short_go_home() {
    let Figures { nvm, made, disk, disk_at_end, .. } = figures("lcow", &FEW_SLOTS);
    assert_eq!(nvm.slots, LCOW.nvm.slots);
    assert_eq!((made.evictions, made.ring_checkpoints, made.checkpoints), (1, 1, 1));
    // Half of it is what was evicted, with the metadata of the ring.
    assert_eq!((disk.blocks, disk_at_end), (26, 13));
}

/// How much of a lane is slots is said by the room, and nothing of it is lost.
#[test]
fn the_lane_is_split_to_the_line() {
    let block_size = BlockSize::new(4096).expect("a block size");
    let split = |name, lane_bytes, slot_share| {
        let room = Room { lane_bytes, slot_share, ..LONG };
        let geometry = room.geometry(block_size, known(name));
        let all = geometry.lane_bytes + geometry.entries_bytes() + geometry.slots_bytes();
        (geometry.lane_bytes, geometry.lane_slots, all)
    };
    assert_eq!(split("full-block", 32 << 20, 192), (32 << 20, 0, 32 << 20));
    assert_eq!(split("lcow", 32 << 20, 192), (8_390_144, 6096, 32 << 20));
    assert_eq!(split("byte-delta", 32 << 20, 0), (32 << 20, 0, 32 << 20));
    // A ring has whole lines.
    assert_eq!(split("byte-delta", (32 << 20) + 63, 192), (8_390_144, 6096, 32 << 20));
}

#[test]
fn a_lane_too_short_for_a_transaction_says_so() {
    let room = |lane_bytes| Room { lane_bytes, ..LONG };
    for name in ["full-block", "lcow"] {
        let error = try_figures(known(name), &room(2048)).expect_err("too short");
        assert!(matches!(error, ReplayError::Commit { .. }), "{error}");
        let error = try_figures(known(name), &room(100)).expect_err("no lane");
        assert!(matches!(error, ReplayError::Geometry(_)), "{error}");
    }
}

#[test]
fn a_policy_that_logs_nothing_is_found_out() {
    let error = try_figures(&FORGETFUL, &LONG).expect_err("nothing is there");
    assert!(matches!(error, ReplayError::Wrong { .. }), "{error}");
}
