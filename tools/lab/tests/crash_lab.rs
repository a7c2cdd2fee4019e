//! The programs of the front door: they go every way, survive every crash, and notice each bug.

use core::time::Duration;
use std::time::Instant;

use lab::core_crash::program::Kind;
use lab::crash_lab::door::{COUNTED, Doors, NOTICED, NOTICED_WITHIN, counts_of, notices};

#[test]
fn every_bug_is_noticed() {
    for (bug, kind) in NOTICED {
        let programs = notices(bug, kind, NOTICED_WITHIN);
        assert!(programs.is_some(), "{kind:?}: nothing notices {bug:?}");
    }
}

#[test]
fn programs_go_every_way() {
    let ways: [(Kind, &[usize]); 7] = [
        (Kind::FullBlock, &[1, 2]),
        (Kind::ByteDelta, &[1, 2, 3, 4]),
        (Kind::Lcow, &[1, 2, 3, 5]),
        (Kind::CompressedDelta, &[0, 2]),
        (Kind::TwoLevel, &[0, 2]),
        (Kind::Adaptive, &[0, 2, 3, 4, 5]),
        (Kind::AdaptiveSlots, &[1, 2, 3, 4, 5]),
    ];
    for (kind, ways) in ways {
        let sums = (0..100)
            .map(|number| counts_of(kind, number))
            .fold([0; COUNTED.len()], |sums, counts| {
                core::array::from_fn(|at| sums[at] + counts[at])
            });
        for at in ways {
            assert!(sums[*at] > 1, "{kind:?} makes no {}: {sums:?}", COUNTED[*at]);
        }
    }
}

#[test]
fn programs_survive() {
    let kinds = [Kind::ByteDelta, Kind::Lcow, Kind::TwoLevel, Kind::Adaptive, Kind::Mixed];
    let until = Instant::now() + Duration::from_secs(600);
    for kind in kinds {
        let mut doors = Doors::of(("the front door", kind), (5, 1));
        doors.explore_some(until);
        assert!(doors.wrong.is_none(), "{kind:?}: {}", doors.wrong.expect("some"));
        assert!(doors.programs == 5 && doors.report.images > 500, "{kind:?}");
    }
}
