//! What the queue promises under any load, on each drive.

use std::collections::{BTreeMap, BTreeSet};

use sim_disk::time::{Extent, Served, ServedKind, named_drives};

use crate::life::{Asked, BLOCK_BYTES, CROWD, live};

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

fn blocks(extent: Extent) -> impl Iterator<Item = u64> {
    extent.at / BLOCK_BYTES..extent.end() / BLOCK_BYTES
}

#[test]
fn each_request_is_served_once() {
    on_each_drive(|name, seed, place| {
        let life = live(seed, CROWD, drive(place), 3_000, |_, _, _| {});
        let services = services(&life.served);
        for (request, asked) in (1..).zip(&life.asked) {
            let of_it = services.get(&request).map_or(&[][..], |places| places);
            // What the cache holds needs no service, nor does a sync of nothing.
            let (kind, may_be) = match asked {
                Asked::Read(_) => (ServedKind::Read, of_it.len() <= 1),
                Asked::Sync => (ServedKind::Sync, of_it.len() <= 1),
                Asked::Write(_) => (ServedKind::Write, !of_it.is_empty()),
            };
            assert!(may_be, "{name}, seed {seed}: request {request}: {of_it:?}");
            assert!(of_it.iter().all(|place| life.served[*place].kind == kind), "{name} {seed}");
        }
        // Each service of a block is for writes of it that were not served before.
        let mut unserved: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
        for (request, extent) in writes(&life.asked) {
            for block in blocks(extent) {
                unserved.entry(block).or_default().insert(request);
            }
        }
        for service in life.served.iter().filter(|one| one.kind == ServedKind::Write) {
            for block in blocks(service.extent) {
                let left = unserved.get_mut(&block).expect("somebody wrote it");
                let now = service.requests.iter().filter(|request| left.remove(request)).count();
                assert!(now > 0, "{name}, seed {seed}: block {block} again in {service:?}");
            }
        }
        assert!(unserved.values().all(BTreeSet::is_empty), "{name}, seed {seed}: {unserved:?}");
    });
}

#[test]
fn the_drive_does_one_thing_at_a_time() {
    on_each_drive(|name, seed, place| {
        let life = live(seed, CROWD, drive(place), 3_000, |_, _, _| {});
        for pair in life.served.windows(2) {
            assert!(pair[0].start <= pair[1].start, "{name}, seed {seed}: {pair:?}");
            // Reads of a solid state drive overlap.
            let overlap = pair[0].kind == ServedKind::Read || pair[0].end <= pair[1].start;
            assert!(overlap, "{name}, seed {seed}: {pair:?}");
        }
    });
}

#[test]
fn nothing_is_served_before_it_is_asked() {
    on_each_drive(|name, seed, place| {
        let life = live(seed, CROWD, drive(place), 3_000, |_, _, _| {});
        for service in &life.served {
            for request in &service.requests {
                let came = life.came[*request as usize - 1];
                assert!(came <= service.start, "{name}, seed {seed}: {request} in {service:?}");
            }
        }
    });
}

#[test]
fn no_sync_returns_before_what_was_taken() {
    on_each_drive(|name, seed, place| {
        let mut looks = 0;
        live(seed, CROWD, drive(place), 1_500, |life, host_writes, now| {
            looks += 1;
            let served_writes = life.iter().filter(|one| one.kind == ServedKind::Write);
            let mut left: BTreeSet<u64> = host_writes.iter().copied().collect();
            for one in served_writes.filter(|one| one.end <= now) {
                left.retain(|request| !one.requests.contains(request));
            }
            assert!(left.is_empty(), "{name}, seed {seed}: {left:?} at {now}");
        });
        assert!(looks > 20, "{name}, seed {seed}");
    });
}

#[test]
fn two_writes_of_one_block_are_served_in_their_order() {
    on_each_drive(|name, seed, place| {
        let life = live(seed, CROWD, drive(place), 3_000, |_, _, _| {});
        let services = services(&life.served);
        // For each block, where in the log its last write so far was served.
        let mut latest: BTreeMap<u64, usize> = BTreeMap::new();
        let mut rewritten = 0;
        for (request, extent) in writes(&life.asked) {
            for block in blocks(extent) {
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
        let [one, other] = [(), ()].map(|()| live(seed, CROWD, drive(place), 1_000, |_, _, _| {}));
        assert!(one.served == other.served && one.ends == other.ends, "{name}, seed {seed}");
        let another = live(seed + 100, CROWD, drive(place), 1_000, |_, _, _| {});
        assert_ne!(one.served, another.served, "{name}, seed {seed}");
    });
}
