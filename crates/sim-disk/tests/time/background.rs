//! Work in the background is served, costs what it costs, and holds back what it must.

use journal_core::{BlockDevice, BlockNumber, BlockSize};
use sim_disk::Rng;
use sim_disk::time::{
    Actor, Clock, Drive, Embargo, Hdd, HddModel, ServedKind, Ssd, SsdModel, TimedDisk, named_drives,
};

const BLOCK: [u8; 4096] = [0; 4096];
const BLOCKS: u64 = 1 << 18;

fn disk(clock: &Clock, drive: impl Drive + 'static) -> TimedDisk {
    TimedDisk::new(clock, drive, BlockSize::DEFAULT, BLOCKS)
}

fn hdd(clock: &Clock) -> TimedDisk {
    disk(clock, Hdd::new(HddModel::rpm_7200()))
}

/// Sweeps of sorted blocks, each with a sync.
fn sweeps(disk: &mut TimedDisk, rng: &mut Rng) {
    for _ in 0..4 {
        let mut blocks: Vec<u64> = (0..500).map(|_| rng.below(BLOCKS)).collect();
        blocks.sort_unstable();
        blocks.dedup();
        for block in blocks {
            disk.write(BlockNumber(block), &BLOCK).expect("a block");
        }
        disk.sync().expect("a disk");
    }
}

#[test]
fn the_same_work_takes_the_drive_as_long() {
    for (place, (name, drive)) in named_drives().into_iter().enumerate() {
        let clock = Clock::new();
        let mut at_front = disk(&clock, drive);
        sweeps(&mut at_front, &mut Rng::new(1));
        let (front, waited) = (at_front.so_far(), clock.now());

        let clock = Clock::new();
        let (_, drive) = named_drives().into_iter().nth(place).expect("a drive");
        let mut behind = disk(&clock, drive);
        clock.in_background(|| sweeps(&mut behind, &mut Rng::new(1)));
        assert_eq!((clock.now(), behind.so_far().busy_ns), (0, 0), "{name}: it costs no time");
        assert_eq!(behind.unserved(), front.served, "{name}");
        let ticket = behind.ticket();
        assert_eq!(behind.served_at(ticket), None, "{name}");
        behind.wait_for(ticket);
        let back = behind.so_far();
        assert_eq!((behind.unserved(), behind.served_at(ticket)), (0, Some(clock.now())));
        assert_eq!(
            (back.served, back.bytes_written),
            (front.served, front.bytes_written),
            "{name}"
        );
        assert_eq!((back.background, front.background), (front.served, 0));
        // A cache that is half full leaves the elevator less to choose from.
        let (front, back) = (front.busy_ns, back.busy_ns);
        assert!(back >= front * 9 / 10, "{name}: {back} instead of {front}");
        assert!(back <= front * 5 / 4, "{name}: {back} instead of {front}");
        assert!(clock.now() >= back && waited >= front, "{name}");
    }
}

#[test]
fn it_is_served_while_time_passes() {
    let clock = Clock::new();
    let mut disk = hdd(&clock);
    clock.charge(1_000_000);
    clock.in_background(|| sweeps(&mut disk, &mut Rng::new(1)));
    let ticket = disk.ticket();
    let all = disk.unserved();
    clock.charge(500_000_000);
    assert_eq!(disk.served_at(ticket), None);
    let left = disk.unserved();
    assert!(left < all && left > 0, "{left} of {all}");
    clock.charge(100_000_000_000);
    let served_at = disk.served_at(ticket).expect("a minute is enough");
    assert!((1_000_000..clock.now() / 2).contains(&served_at), "{served_at}");
    // Nothing new: the same answer.
    assert_eq!(disk.served_at(disk.ticket()), Some(served_at));
}

#[test]
fn barriers_hold_in_the_background() {
    let clock = Clock::new();
    let mut disk = hdd(&clock);
    let _begins = disk.take_log();
    clock.in_background(|| {
        for block in [5, 900, 70_000] {
            disk.write(BlockNumber(block), &BLOCK).expect("a block");
        }
        disk.sync().expect("a disk");
        for block in [6, 901, 70_001] {
            disk.write(BlockNumber(block), &BLOCK).expect("a block");
        }
    });
    disk.drain();
    let log = disk.take_log();
    let kinds: Vec<_> = log.iter().map(|one| one.kind).collect();
    let (write, sync) = (ServedKind::Write, ServedKind::Sync);
    assert_eq!(kinds, [write, write, write, sync, write, write, write]);
    assert_eq!(log[3].requests, [4]);
    assert!(log[..3].iter().all(|one| one.requests < vec![4]));
}

#[test]
fn a_host_goes_before_the_background_and_waits_for_what_is_in_the_cache() {
    let clock = Clock::new();
    let mut disk = disk(&clock, Ssd::new(SsdModel::sata()));
    clock.in_background(|| {
        for block in 0..2_000 {
            disk.write(BlockNumber(block * 7), &BLOCK).expect("a block");
        }
    });
    clock.charge(1_000);
    disk.write(BlockNumber(200_000), &BLOCK).expect("a block");
    disk.sync().expect("a disk");
    // Half a cache of the background was in front of it, and not all of the list.
    let served = disk.so_far().served;
    assert!((256..=260).contains(&served), "{served}");
}

#[test]
fn a_write_of_a_host_is_served_behind_older_ones_of_the_same_block() {
    let clock = Clock::new();
    let mut disk = hdd(&clock);
    let _begins = disk.take_log();
    clock.in_background(|| {
        for block in 0..1_000 {
            disk.write(BlockNumber(block * 3), &BLOCK).expect("a block");
        }
        disk.sync().expect("a disk");
        disk.write(BlockNumber(1_500), &BLOCK).expect("a block");
    });
    disk.write(BlockNumber(1_500), &BLOCK).expect("a block");
    disk.drain();
    let both = disk.take_log().into_iter().filter(|one| one.extent.at == 1_500 * 4096);
    let requests: Vec<_> = both.map(|one| one.requests).collect();
    assert_eq!(requests, [[501, 1_002, 1_003]], "they merged");
}

#[test]
fn freed_space_is_used_when_its_ticket_is_served() {
    let clock = Clock::new();
    let mut disk = hdd(&clock);
    clock.in_background(|| sweeps(&mut disk, &mut Rng::new(1)));
    let mut embargo = Embargo::new(disk.clone(), disk.ticket(), 100);
    embargo.use_space(60);
    assert!(!embargo.try_use_space(41) && embargo.try_use_space(40) && embargo.holds());
    assert_eq!(clock.now(), 0, "that much was free before");
    embargo.use_space(1);
    let waited = clock.now();
    assert_eq!(Some(waited), disk.served_at(disk.ticket()));
    assert!(waited > 1_000_000_000 && disk.unserved() == 0, "{waited}");
    assert!(!embargo.holds() && embargo.try_use_space(1_000_000));
    assert_eq!(clock.now(), waited);
}

#[test]
fn writes_do_not_starve_behind_reads() {
    let hosts = 4;
    let clock = Clock::with(hosts, 0);
    let mut disk = hdd(&clock);
    let _begins = disk.take_log();
    let mut rng = Rng::new(1);
    let mut block = BLOCK;
    // With four reads under way, the drive is never idle.
    while clock.now_of(Actor::Host(0)) < 3_000_000_000 {
        clock.next_host();
        if clock.now() > 1_000_000 && disk.so_far().writes < 40 {
            for _ in 0..40 {
                disk.write(BlockNumber(rng.below(BLOCKS)), &block).expect("a block");
            }
        }
        disk.read(BlockNumber(rng.below(BLOCKS)), &mut block).expect("a block");
    }
    let log = disk.take_log();
    let kinds: Vec<ServedKind> = log.iter().map(|one| one.kind).collect();
    let groups: Vec<&[ServedKind]> = kinds.chunk_by(|one, other| one == other).collect();
    let writes: Vec<usize> = groups
        .iter()
        .filter(|group| group[0] == ServedKind::Write)
        .map(|group| group.len())
        .collect();
    assert_eq!(writes, [16, 16, 8]);
}
