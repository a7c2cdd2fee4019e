//! The drives by themselves: what has to hold before any figure counts.

use journal_core::{BlockDevice, BlockNumber, BlockSize};
use sim_disk::Rng;
use sim_disk::time::{Clock, Drive, Hdd, HddModel, TimedDisk};

use crate::engines::Failure;
use crate::papers::BLOCK;
use crate::papers::row::{Band, Row, Unit};

/// Blocks of 8 GB.
const WITHIN: u64 = 8 << 18;
/// Blocks of a request in order.
const LONG: u64 = 16;

fn timed(drive: impl Drive + 'static) -> (Clock, TimedDisk) {
    let clock = Clock::new();
    let disk = TimedDisk::new(&clock, drive, BlockSize::DEFAULT, 1 << 28);
    (clock, disk)
}

fn hdd() -> (Clock, TimedDisk) {
    timed(Hdd::new(HddModel::rpm_7200()))
}

/// Milliseconds a block of random writes, with a full queue.
fn random_ms(blocks: u64) -> Result<f64, Failure> {
    let (clock, mut disk) = hdd();
    let mut rng = Rng::new(1);
    let mut write = |count: u64| -> Result<u64, Failure> {
        for _ in 0..count {
            disk.write(BlockNumber(rng.below(WITHIN)), &[1; BLOCK])?;
        }
        Ok(clock.now())
    };
    let filled = write(2_000)?;
    Ok((write(blocks)? - filled) as f64 / blocks as f64 / 1e6)
}

/// Milliseconds a block of a sorted sweep.
fn sorted_ms(blocks: u64) -> Result<f64, Failure> {
    let (clock, mut disk) = hdd();
    let mut rng = Rng::new(2);
    let mut wanted: Vec<u64> = (0..blocks).map(|_| rng.below(WITHIN)).collect();
    wanted.sort_unstable();
    for block in wanted {
        disk.write(BlockNumber(block), &[1; BLOCK])?;
    }
    disk.sync()?;
    Ok(clock.now() as f64 / blocks as f64 / 1e6)
}

fn in_order_mb_s(blocks: u64) -> Result<f64, Failure> {
    let (clock, mut disk) = hdd();
    for first in (0..blocks).step_by(LONG as usize) {
        disk.write(BlockNumber(first), &[1; BLOCK * LONG as usize])?;
    }
    disk.sync()?;
    Ok((blocks * BLOCK as u64) as f64 * 1e3 / clock.now() as f64)
}

/// Milliseconds of one block and a sync behind the last.
fn synced_ms(blocks: u64) -> Result<f64, Failure> {
    let (clock, mut disk) = hdd();
    for block in 0..blocks {
        disk.write(BlockNumber(block), &[1; BLOCK])?;
        disk.sync()?;
    }
    Ok(clock.now() as f64 / blocks as f64 / 1e6)
}

/// The rows of the drive alone.
///
/// # Errors
/// The disk's.
pub fn rows(scale: u64) -> Result<Vec<Row>, Failure> {
    // A sweep of fewer blocks is another sweep: this gate has the papers' size at every scale.
    let sorted = sorted_ms(24_000)?;
    let row = |compared: &str, ours: f64, unit, (from, to): (f64, f64), scale| Row {
        figure: "HDD alone",
        compared: compared.to_owned(),
        paper: "-",
        ours,
        unit,
        band: Band::Must(from, to),
        scale,
        why: String::new(),
    };
    let (ms, mb_s) = (Unit::Millis, Unit::MegabytesPerSecond);
    let count = (20_000 / scale).max(2_000);
    Ok(vec![
        row("random 4 KiB in 8 GB, full queue", random_ms(count)?, ms, (2.5, 4.0), 1),
        row("24,000 sorted blocks of 8 GB", sorted, ms, (0.0, 2.2), 1),
        row("in order, 64 KiB a write", in_order_mb_s(8 * count)?, mb_s, (135.0, 155.0), 1),
        row("a block and a sync behind the last", synced_ms(count / 10)?, ms, (8.0, 9.0), 1),
    ])
}
