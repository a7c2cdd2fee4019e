//! A random life of a disk: several hosts and a background, on few blocks.

use journal_core::{BlockDevice, BlockNumber, BlockSize};
use sim_disk::Rng;
use sim_disk::time::{Clock, Drive, Extent, Served, TimedDisk};

pub(crate) const BLOCK_BYTES: u64 = 4096;
const BLOCKS: u64 = 3_000;
/// Several hosts, beside which a background works.
pub(crate) const CROWD: usize = 3;
/// One host, and nothing else.
pub(crate) const ALONE: usize = 1;

/// What was asked of the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    Read(Extent),
    Write(Extent),
    Sync,
}

/// All that happened.
pub(crate) struct Life {
    /// The requests in the order in which the disk was told; their numbers begin at one.
    pub(crate) asked: Vec<Asked>,
    /// When each was asked.
    pub(crate) came: Vec<u64>,
    pub(crate) served: Vec<Served>,
    /// When each host was done.
    pub(crate) ends: Vec<u64>,
}

/// Lives until `steps` requests are made, and then until all of them are served.
///
/// Behind each sync of a host, `look` sees what was served so far, the writes that hosts made so
/// far, and the time.
pub(crate) fn live(
    seed: u64,
    hosts: usize,
    drive: impl Drive + 'static,
    steps: usize,
    mut look: impl FnMut(&[Served], &[u64], u64),
) -> Life {
    let clock = Clock::with(hosts, 0);
    let mut disk = TimedDisk::new(&clock, drive, BlockSize::DEFAULT, BLOCKS);
    let _begins = disk.take_log();
    let mut rng = Rng::new(seed);
    let (mut asked, mut came) = (Vec::new(), Vec::new());
    let (mut served, mut host_writes) = (Vec::new(), Vec::new());
    while asked.len() < steps {
        clock.next_host();
        clock.charge(rng.below(200_000));
        let in_background = hosts > 1 && rng.below(4) == 0;
        if in_background {
            clock.in_background(|| {
                for _ in 0..rng.below(20) {
                    came.push(clock.now());
                    asked.push(ask(&mut disk, &mut rng));
                }
            });
            continue;
        }
        came.push(clock.now());
        asked.push(ask(&mut disk, &mut rng));
        served.extend(disk.take_log());
        match asked.last() {
            Some(Asked::Write(_)) => host_writes.push(asked.len() as u64),
            Some(Asked::Sync) => look(&served, &host_writes, clock.now()),
            _ => {}
        }
    }
    disk.drain();
    served.extend(disk.take_log());
    assert_eq!(disk.unserved(), 0);
    let ends = (0..hosts).map(|host| clock.now_of(sim_disk::time::Actor::Host(host))).collect();
    Life { asked, came, served, ends }
}

/// Makes one request, mostly to write.
fn ask(disk: &mut TimedDisk, rng: &mut Rng) -> Asked {
    let kind = rng.below(10);
    if kind == 0 {
        disk.sync().expect("a disk");
        return Asked::Sync;
    }
    // A few are longer than what is merged.
    let longest = [1, 8, 400][rng.index(3)];
    let count = 1 + rng.below(longest);
    let first = rng.below(BLOCKS - count);
    let extent = Extent { at: first * BLOCK_BYTES, bytes: count * BLOCK_BYTES };
    let mut bytes = vec![0; (count * BLOCK_BYTES) as usize];
    if kind < 3 {
        disk.read(BlockNumber(first), &mut bytes).expect("blocks");
        return Asked::Read(extent);
    }
    disk.write(BlockNumber(first), &bytes).expect("blocks");
    Asked::Write(extent)
}
