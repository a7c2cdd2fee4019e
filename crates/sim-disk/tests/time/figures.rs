//! A turning disk alone, against figures that are known of such disks.

use journal_core::{BlockDevice, BlockNumber, BlockSize};
use sim_disk::Rng;
use sim_disk::time::{Clock, Hdd, HddModel, TimedDisk};

const BLOCK: [u8; 4096] = [0; 4096];
/// 8 GB in blocks.
const BLOCKS: u64 = 1 << 21;

fn hdd() -> (Clock, TimedDisk) {
    let clock = Clock::new();
    let hdd = Hdd::new(HddModel::rpm_7200());
    let disk = TimedDisk::new(&clock, hdd, BlockSize::DEFAULT, BLOCKS);
    (clock, disk)
}

/// From 2.5 to 4 ms: half a turn less what the elevator saves, and a short seek.
#[test]
fn scattered_blocks_with_a_full_queue() {
    for seed in 0..3 {
        let (clock, mut disk) = hdd();
        let mut rng = Rng::new(seed);
        let mut write = |count: u64| {
            for _ in 0..count {
                disk.write(BlockNumber(rng.below(BLOCKS)), &BLOCK).expect("a block");
            }
            clock.now()
        };
        let full_at = write(2_000);
        let micros = (write(10_000) - full_at) / 10_000 / 1_000;
        assert!((2_500..=4_000).contains(&micros), "{micros} us a block");
    }
}

/// At most 2.2 ms each in one sweep, as a checkpoint makes it.
#[test]
fn sorted_blocks() {
    for seed in 0..3 {
        let (clock, mut disk) = hdd();
        let mut rng = Rng::new(seed);
        let mut blocks: Vec<u64> = (0..24_000).map(|_| rng.below(BLOCKS)).collect();
        blocks.sort_unstable();
        for block in blocks {
            disk.write(BlockNumber(block), &BLOCK).expect("a block");
        }
        disk.sync().expect("a disk");
        let micros = clock.now() / 24_000 / 1_000;
        assert!((1_000..=2_200).contains(&micros), "{micros} us a block");
    }
}

/// Runs of four blocks with a gap behind each, which a drive cannot write in one pass: the next run
/// has passed the head when its command is there. With a sync each 1,024 blocks they take several
/// passes, and not a turn for each run.
#[test]
fn dense_runs_with_a_sync_now_and_then() {
    let (clock, mut disk) = hdd();
    let part = vec![0; 4 * 4096];
    for run in 0..4 * 1_024_u64 {
        disk.write(BlockNumber(5 * run), &part).expect("blocks");
        if run % 256 == 255 {
            disk.sync().expect("a disk");
        }
    }
    let micros = clock.now() / (4 * 4 * 1_024) / 1_000;
    assert!((30..=200).contains(&micros), "{micros} us a block");
}

/// A host that writes more than the cache takes waits for the disk, however long its requests are.
#[test]
fn a_cache_is_full_of_bytes() {
    let (clock, mut disk) = hdd();
    let part = vec![0; 1 << 20];
    let megabytes = 512_u64;
    for first in 0..megabytes {
        disk.write(BlockNumber(256 * first), &part).expect("blocks");
    }
    let taken = clock.now();
    disk.sync().expect("a disk");
    let left = (clock.now() - taken) / 1_000_000;
    // 64 MB at some 145 MB/s.
    assert!((400..=480).contains(&left), "{left} ms");
}

/// From 135 to 155 MB/s, however long the requests are.
#[test]
fn blocks_in_order() {
    for blocks in [1_u64, 16, 256, 1_024] {
        let (clock, mut disk) = hdd();
        let part = vec![0; blocks as usize * 4096];
        let bytes = 512_u64 << 20;
        for first in (0..bytes / 4096).step_by(blocks as usize) {
            disk.write(BlockNumber(first), &part).expect("blocks");
        }
        disk.sync().expect("a disk");
        let megabytes = bytes * 1_000 / clock.now();
        assert!((135..=155).contains(&megabytes), "{megabytes} MB/s by {blocks} blocks");
    }
}

/// From 8 to 9 ms: the next block has just passed the head.
#[test]
fn a_block_and_a_sync_behind_the_last_one() {
    let (clock, mut disk) = hdd();
    for block in 0..1_000 {
        disk.write(BlockNumber(block), &BLOCK).expect("a block");
        disk.sync().expect("a disk");
    }
    let micros = clock.now() / 1_000 / 1_000;
    assert!((8_000..=9_000).contains(&micros), "{micros} us a block");
}

/// Reads that several hosts wait for take less time each than reads of one host.
#[test]
fn scattered_reads_of_many_hosts() {
    let micros = |hosts: usize| {
        let clock = Clock::with(hosts, 0);
        let hdd = Hdd::new(HddModel::rpm_7200());
        let mut disk = TimedDisk::new(&clock, hdd, BlockSize::DEFAULT, BLOCKS);
        let mut rng = Rng::new(1);
        let mut block = BLOCK;
        for _ in 0..4_000 {
            clock.next_host();
            disk.read(BlockNumber(rng.below(BLOCKS)), &mut block).expect("a block");
        }
        clock.next_host();
        clock.now() / 4_000 / 1_000
    };
    let (one, many) = (micros(1), micros(16));
    // Half a turn, and a seek over a third of 7,000 tracks.
    assert!((5_500..7_000).contains(&one), "{one} us a block");
    assert!((one / 3..one * 2 / 3).contains(&many), "{many} us a block instead of {one}");
}
