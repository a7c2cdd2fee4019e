//! What the queue promises under any load, on each drive.

use std::collections::{BTreeMap, BTreeSet};

use sim_disk::time::{Extent, Served, ServedKind, named_drives};

use crate::life::{Asked, BLOCK_BYTES, live};

fn on_each_drive(mut call: impl FnMut(&str, u64, usize)) {
    for (place, (name, _)) in named_drives().into_iter().enumerate() {
        for seed in 0..4 {
            call(name, seed, place);
        }
    }
}

fn drive(place: usize) -> Box<dyn sim_disk::time::Drive> {
    let (_, drive) = named_drives().into_iter().nth(place).expect("a drive");
    drive
}

fn writes(asked: &[Asked]) -> impl Iterator<Item = (u64, Extent)> {
    (1..).zip(asked).filter_map(|(request, asked)| match asked {
        Asked::Write(extent) => Some((request, *extent)),
        _ => None,
    })
}

/// The services of each request, by their places.
fn services(served: &[Served]) -> BTreeMap<u64, Vec<usize>> {
    let mut found: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    for (place, service) in served.iter().enumerate() {
        for request in &service.requests {
            found.entry(*request).or_default().push(place);
        }
    }
    found
}

fn common_bytes(one: Extent, other: Extent) -> u64 {
    one.end().min(other.end()).saturating_sub(one.at.max(other.at))
}

#[test]
fn each_request_is_served_once() {
    on_each_drive(|name, seed, place| {
        let life = live(seed, drive(place), 3_000, |_, _, _| {});
        let services = services(&life.served);
        for (request, asked) in (1..).zip(&life.asked) {
            let of_it = services.get(&request).map_or(&[][..], |places| places);
            let of_it: Vec<&Served> = of_it.iter().map(|place| &life.served[*place]).collect();
            let (kind, covers) = match asked {
                // What the cache holds needs no service, nor does a sync of nothing.
                Asked::Read(_) => (ServedKind::Read, of_it.len() <= 1),
                Asked::Sync => (ServedKind::Sync, of_it.len() <= 1),
                Asked::Write(extent) => {
                    let bytes = of_it.iter().map(|one| common_bytes(one.extent, *extent));
                    let distinct: BTreeSet<u64> = of_it.iter().map(|one| one.start).collect();
                    let once = distinct.len() == of_it.len();
                    (ServedKind::Write, bytes.sum::<u64>() == extent.bytes && once)
                }
            };
            assert!(covers, "{name}, seed {seed}: request {request} {asked:?}: {of_it:?}");
            assert!(of_it.iter().all(|one| one.kind == kind), "{name}, seed {seed}");
        }
        // And the drive did one thing at a time, in the order of its log.
        for pair in life.served.windows(2) {
            assert!(pair[0].start <= pair[1].start, "{name}, seed {seed}: {pair:?}");
            if pair[0].kind != ServedKind::Read {
                assert!(pair[0].end <= pair[1].start, "{name}, seed {seed}: {pair:?}");
            }
        }
    });
}

#[test]
fn no_sync_returns_before_what_was_taken() {
    on_each_drive(|name, seed, place| {
        let mut looks = 0;
        // What the background wants may wait in its list. So all is asked by hosts: a sync covers
        // the writes of which the log shows no service of the background's barriers alone.
        live(seed, drive(place), 1_500, |asked, served, now| {
            looks += 1;
            let taken: BTreeSet<u64> =
                served.iter().flat_map(|one| one.requests.iter().copied()).collect();
            let last = asked.len() as u64;
            let sync = served.iter().rev().find(|one| one.requests.contains(&last));
            for one in &served {
                assert!(one.end <= now || one.kind == ServedKind::Read, "{name}, seed {seed}");
                if let (Some(sync), ServedKind::Write) = (sync, one.kind) {
                    assert!(one.end <= sync.start, "{name}, seed {seed}: {one:?} and {sync:?}");
                }
            }
            assert!(!taken.is_empty());
        });
        assert!(looks > 20, "{name}, seed {seed}");
    });
}

#[test]
fn two_writes_of_one_block_are_served_in_their_order() {
    on_each_drive(|name, seed, place| {
        let life = live(seed, drive(place), 3_000, |_, _, _| {});
        let services = services(&life.served);
        // For each block, where in the log its last write so far was served.
        let mut latest: BTreeMap<u64, usize> = BTreeMap::new();
        let mut rewritten = 0;
        for (request, extent) in writes(&life.asked) {
            for block in extent.at / BLOCK_BYTES..extent.end() / BLOCK_BYTES {
                let block = Extent { at: block * BLOCK_BYTES, bytes: BLOCK_BYTES };
                let holds = |place: &&usize| life.served[**place].extent.overlaps(&block);
                let place = services[&request].iter().find(holds).expect("it was served");
                if let Some(before) = latest.insert(block.at, *place) {
                    rewritten += 1;
                    assert!(before <= *place, "{name}, seed {seed}: request {request}, {block:?}");
                }
            }
        }
        assert!(rewritten > 1_000, "{name}, seed {seed}");
    });
}

#[test]
fn one_seed_makes_one_table() {
    on_each_drive(|name, seed, place| {
        let [one, other] = [(), ()].map(|()| live(seed, drive(place), 1_000, |_, _, _| {}));
        assert!(one.served == other.served && one.ends == other.ends, "{name}, seed {seed}");
        let another = live(seed + 100, drive(place), 1_000, |_, _, _| {});
        assert_ne!(one.served, another.served, "{name}, seed {seed}");
    });
}
