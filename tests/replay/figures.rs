//! What the sample costs, to the byte.

use crate::SAMPLE;
use crate::count::{Records, Written};
use crate::forgetful::FORGETFUL;
use crate::media::DiskCounts;
use crate::policies::{ALL, Known};
use crate::run::{Figures, ReplayError, replay};
use crate::trace::Trace;

/// A lane that holds all of the sample.
const LONG: u64 = 1 << 20;
/// One that the sample goes round several times.
const SHORT: u64 = 8 << 10;

fn known(name: &str) -> &'static Known {
    ALL.iter().find(|known| known.name == name).expect("a policy")
}

fn figures(name: &str, lane_bytes: u64) -> Figures {
    let mut trace = Trace::open(SAMPLE).expect("a trace");
    replay(&mut trace, known(name), lane_bytes, |_| {}).expect("replays")
}

#[test]
fn every_policy_keeps_its_bound_and_its_account() {
    for known in ALL {
        for lane_bytes in [LONG, SHORT] {
            let figures = figures(known.name, lane_bytes);
            assert!(figures.holds(), "{}: {figures:?}", known.name);
            assert_eq!((figures.transactions, figures.updates), (30, 123), "{}", known.name);
            assert_eq!(figures.commits.fences, figures.records, "{}: one fence", known.name);
            assert_eq!(figures.commits.bytes % 64, 0, "{}: whole lines", known.name);
            let same = SAME_IN_SAMPLE;
            assert!(figures.unchanged() >= same, "{}: {figures:?}", known.name);
        }
    }
}

/// Updates of the sample that change nothing, as it says itself.
const SAME_IN_SAMPLE: u64 = 23;

/// 100 images in 30 records: for each record a header and a check (72 bytes), for each image 16
/// bytes to say which it is, and whole lines.
const FULL_BLOCK: Figures = Figures {
    transactions: 30,
    records: 30,
    updates: 123,
    placed: Records {
        images: 100,
        encoded: 0,
        discards: 0,
        payload: 100 * 512,
        headers: 30 * 72 + 100 * 16,
        padding: 912,
    },
    commits: Written { bytes: 55_872, lines: 873, fences: 30 },
    // Opened, written home, closed: a superblock each time, twice. The first fence is the open's.
    upkeep: Written { bytes: 6 * 168, lines: 21, fences: 7 },
    disk: DiskCounts { runs: 8, blocks: 16, syncs: 1 },
    checkpoints: 1,
    reclaims: 0,
    copied: 0,
    shielded: 0,
    bound: 100 * 512,
};

#[test]
fn whole_blocks_cost_what_they_are() {
    assert_eq!(figures("full-block", LONG), FULL_BLOCK);
    // Commits cost the same in a lane that is short, but for lines that its end cuts in two: there
    // are none, since blocks and fronts are whole lines.
    let short = Figures {
        upkeep: Written { bytes: 18_816, lines: 312, fences: 50 },
        disk: DiskCounts { runs: 41, blocks: 62, syncs: 8 },
        checkpoints: 8,
        reclaims: 10,
        copied: 12_096,
        ..FULL_BLOCK
    };
    assert_eq!(figures("full-block", SHORT), short);
}

/// Of the 100 blocks that change, 82 are logged as objects. What is encoded is stored in parts, of
/// which 15 are not the first of their record; each has a header and a check.
const OBJECT_LOG: Figures = Figures {
    placed: Records {
        images: 18,
        encoded: 82,
        discards: 0,
        payload: 25_818,
        headers: (30 + 15) * 72 + 100 * 16,
        padding: 1_726,
    },
    commits: Written { bytes: 32_384, lines: 506, fences: 30 },
    upkeep: Written { bytes: 4_848, lines: 81, fences: 8 },
    shielded: 7,
    bound: 26_064,
    ..FULL_BLOCK
};

#[test]
fn objects_cost_what_changes() {
    assert_eq!(figures("object-log", LONG), OBJECT_LOG);
    let short = Figures {
        upkeep: Written { bytes: 26_192, lines: 419, fences: 26 },
        disk: DiskCounts { runs: 38, blocks: 60, syncs: 7 },
        checkpoints: 8,
        shielded: 42,
        ..OBJECT_LOG
    };
    assert_eq!(figures("object-log", SHORT), short);
}

#[test]
fn a_lane_too_short_for_a_transaction_says_so() {
    let mut trace = Trace::open(SAMPLE).expect("a trace");
    let error = replay(&mut trace, known("full-block"), 1024, |_| {}).expect_err("too short");
    assert!(matches!(error, ReplayError::Commit { .. }), "{error}");
    let mut trace = Trace::open(SAMPLE).expect("a trace");
    let error = replay(&mut trace, known("full-block"), 100, |_| {}).expect_err("no lane");
    assert!(matches!(error, ReplayError::Geometry(_)), "{error}");
}

#[test]
fn a_policy_that_logs_nothing_is_found_out() {
    let mut trace = Trace::open(SAMPLE).expect("a trace");
    let error = replay(&mut trace, &FORGETFUL, LONG, |_| {}).expect_err("nothing is there");
    assert!(matches!(error, ReplayError::Wrong { .. }), "{error}");
}
