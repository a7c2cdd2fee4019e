//! Twice the bandwidth slows nothing down, on media that do not turn.
//!
//! That holds for each service, and for a host alone. It does not hold for each run of several
//! hosts: where requests arrive at other times, other ones merge, and a sync waits for others. So
//! of such runs, many together are held to it. A turning disk is held to nothing: a block that is
//! written earlier can be the one that just missed the head.

use sim_disk::Rng;
use sim_disk::time::{
    Card, CardModel, Drive, MemoryModel, Served, ServedKind, Ssd, SsdModel, named_drives,
};

use crate::life::{ALONE, CROWD, live};

/// A drive, and one with twice its bandwidth.
type Pair = [Box<dyn Drive>; 2];

fn pairs() -> [Pair; 3] {
    let ssd = |model: SsdModel| -> Pair {
        let faster = SsdModel {
            write_bytes_per_second: 2 * model.write_bytes_per_second,
            read_bytes_per_second: 2 * model.read_bytes_per_second,
            ..model
        };
        [Box::new(Ssd::new(model)), Box::new(Ssd::new(faster))]
    };
    let model = CardModel::class_10();
    let faster = CardModel {
        write_bytes_per_second: 2 * model.write_bytes_per_second,
        read_bytes_per_second: 2 * model.read_bytes_per_second,
        ..model
    };
    let card: Pair = [Box::new(Card::new(model)), Box::new(Card::new(faster))];
    [ssd(SsdModel::sata()), ssd(SsdModel::nvme()), card]
}

/// The latest end of a random life.
fn end(seed: u64, hosts: usize, drive: impl Drive + 'static) -> u64 {
    let life = live(seed, hosts, drive, 1_000, |_, _, _| {});
    let served = life.served.iter().map(|one| one.end);
    served.chain(life.ends).max().unwrap_or(0)
}

#[test]
fn of_a_host_alone() {
    for seed in 0..20 {
        for [slow, fast] in pairs() {
            let name = format!("seed {seed}, {slow:?}");
            let (slow, fast) = (end(seed, ALONE, slow), end(seed, ALONE, fast));
            assert!(fast <= slow, "{name}: {fast} instead of {slow}");
        }
    }
}

#[test]
fn of_several_hosts_on_average() {
    let mut sums = [[0; 2]; 3];
    for seed in 0..20 {
        for (pair, sum) in pairs().into_iter().zip(&mut sums) {
            for (drive, sum) in pair.into_iter().zip(sum) {
                *sum += end(seed, CROWD, drive);
            }
        }
    }
    assert!(sums.iter().all(|[slow, fast]| fast < slow), "{sums:?}");
}

/// How long each of some services takes a drive.
fn takes(mut drive: impl Drive, services: &[Served]) -> Vec<u64> {
    let mut now = 0;
    let take = |one: &Served| {
        let service = match one.kind {
            ServedKind::Read => drive.read(now, one.extent, 1),
            ServedKind::Write => drive.write(now, one.extent),
            ServedKind::Sync => return drive.sync_ns(),
        };
        let took = service.done_at - now;
        now = service.busy_until.max(service.done_at);
        took
    };
    services.iter().map(take).collect()
}

#[test]
fn of_each_service() {
    let (_, drive) = named_drives().into_iter().next().expect("a drive");
    let services = live(1, CROWD, drive, 3_000, |_, _, _| {}).served;
    for [slow, fast] in pairs() {
        let both = takes(slow, &services).into_iter().zip(takes(fast, &services));
        for (service, (slow, fast)) in services.iter().zip(both) {
            assert!(fast <= slow, "{service:?}: {fast} instead of {slow}");
        }
    }
}

#[test]
fn of_a_memory() {
    for (name, model) in MemoryModel::named() {
        let faster = MemoryModel { unit_ns: model.unit_ns / 2, ..model };
        let mut rng = Rng::new(1);
        for _ in 0..1_000 {
            let (at, bytes) = (rng.below(1 << 20), rng.below(1 << 14));
            assert!(faster.persist_ns(at, bytes) <= model.persist_ns(at, bytes), "{name}");
        }
    }
}
