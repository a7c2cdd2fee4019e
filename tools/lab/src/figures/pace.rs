//! When the transactions of a trace would end: by the times in its inodes, and by a virtual clock
//! on which the blocks that they allocate go to the disk first.

use journal_core::{BlockDevice, BlockNumber};
use sim_disk::time::{Clock, Hdd, HddModel, TimedDisk};

use crate::engines::Failure;
use crate::figures::ext4::{Groups, changed_at};
use crate::papers::host::Host;
use crate::trace::{Header, State, Write, class};

/// The class of block bitmaps.
const BLOCK_BITMAP: u8 = 3;
/// Blocks of a request: 1 MiB.
const REQUEST_BLOCKS: usize = 256;

/// The ends of transactions so far, in nanoseconds since the trace began.
pub struct Pace {
    groups: Groups,
    clock: Clock,
    disk: TimedDisk,
    zeroes: Vec<u8>,
    /// The first time in an inode, and the newest.
    changed: Option<(u64, u64)>,
    /// Blocks that were allocated.
    pub allocated: u64,
}

/// When a transaction ends, by each clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ends {
    /// By the newest time in an inode: the machine on which the trace was made.
    pub own_ns: u64,
    /// By the disk of FGM's machine, in ordered mode.
    pub disk_ns: u64,
}

impl Pace {
    /// `None` where the trace is of no ext4.
    pub fn of(header: &Header, state: &State) -> Option<Self> {
        let groups = Groups::of(state, header.device_blocks)?;
        let clock = Clock::new();
        let drive = Hdd::new(HddModel::rpm_7200());
        let disk = TimedDisk::new(&clock, drive, header.block_size, header.device_blocks);
        let zeroes = vec![0; header.block_size.bytes()];
        Some(Self { groups, clock, disk, zeroes, changed: None, allocated: 0 })
    }

    /// The end of the next transaction. Before it commits, the host fills the blocks that it
    /// allocates, writes them, and syncs the disk.
    ///
    /// # Errors
    /// Blocks that the disk does not have.
    pub fn end_of(&mut self, writes: &[Write], state: &State) -> Result<Ends, Failure> {
        for write in writes {
            let old = &state[&write.block];
            if write.class == class::INODES
                && let Some(now) = changed_at(old, &write.image)
            {
                let (first, newest) = self.changed.unwrap_or((now, now));
                self.changed = Some((first, newest.max(now)));
            }
            if write.class != BLOCK_BITMAP {
                continue;
            }
            for run in self.groups.allocated(write.block, old, &write.image) {
                self.allocated += run.end - run.start;
                for first in run.clone().step_by(REQUEST_BLOCKS) {
                    let count = usize::try_from(run.end - first)?.min(REQUEST_BLOCKS);
                    self.clock.charge_cpu(Host::FGM.page_ns * count as u64);
                    let parts = vec![&self.zeroes[..]; count];
                    self.disk.write_vectored(BlockNumber(first), &parts)?;
                }
            }
        }
        self.clock.charge_cpu(Host::FGM.fsync_ns);
        self.disk.sync()?;
        let own_ns = self.changed.map_or(0, |(first, newest)| newest - first);
        Ok(Ends { own_ns, disk_ns: self.clock.now() })
    }
}

#[cfg(test)]
mod tests {
    use journal_core::BlockSize;

    use super::*;
    use crate::figures::ext4::two_groups;
    use crate::trace::Image;

    #[test]
    fn a_transaction_takes_what_its_blocks_take_on_the_disk() {
        let (name, block_size) = ("hand-made".to_owned(), BlockSize::DEFAULT);
        let header = Header { name, block_size, device_blocks: 128 };
        let mut state = two_groups();
        assert!(Pace::of(&header, &State::new()).is_none());
        let mut pace = Pace::of(&header, &state).expect("an ext4");
        let zero: Image = vec![0; 4096].into();
        state.insert(9, Image::clone(&zero));
        let mut end_of = |bits: u8, class| {
            let mut image = zero.to_vec();
            image[0] = bits;
            let image = image.into();
            let write = Write { block: 9, class, object_bytes: 0, flags: 0, image };
            pace.end_of(&[write], &state).expect("blocks of the disk").disk_ns
        };
        // Nothing is allocated, in a bitmap and in another block: a sync of nothing.
        let idle = end_of(0, BLOCK_BITMAP);
        assert!(idle < 1_000_000, "{idle} ns");
        assert!(end_of(1, class::INODES) < 2 * idle + 2);
        let before = end_of(0, BLOCK_BITMAP);
        let two = end_of(0b11, BLOCK_BITMAP) - before;
        // A seek at most, and a turn of the disk.
        assert!((100_000..20_000_000).contains(&two), "{two} ns");
        assert_eq!(pace.allocated, 2);
    }
}
