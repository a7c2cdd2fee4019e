//! The core's own journal, which has one owner and no locks.

use std::hint::black_box;
use std::time::Duration;

use journal_core::policy::{Change, Policy, Update};
use journal_core::units::LaneNumber;
use journal_core::{
    BlockDevice, BlockNumber, BlockSize, Buffers, Durability, Geometry, NoHook, On, Operation,
    Protocol,
};
use nvm_journal::Region;
use pmem_sys::NativeKernels;

use crate::{BLOCKS, NOWHERE};
use lab::bench::media::{BLOCK, warm};
use lab::bench::timed;
use lab::bench::work::{LANE_BYTES, image, leaked};

/// Frames of the index: twice as many as a lane has of whole blocks.
const FRAMES: usize = 1 << 15;

/// The owner of such a journal.
pub(crate) struct Owner<L, D: BlockDevice> {
    journal: journal_core::Journal<'static, L, On<Region, D, NoHook, NativeKernels>>,
    commits: u64,
}

impl<L: Policy, D: BlockDevice> Owner<L, D> {
    pub(crate) fn new(policy: L, protocol: Protocol, device: D) -> Self {
        let geometry = Geometry {
            block_size: BlockSize::DEFAULT,
            lanes: 1,
            lane_bytes: LANE_BYTES,
            shield_blocks: 0,
            unit_bytes: 4096,
            protocol,
            lane_slots: 0,
            lane_log_blocks: 0,
            segment_blocks: 0,
        };
        let kernels = NativeKernels::detect();
        let mut region = warm(LANE_BYTES + (1 << 20));
        let id = [1; 16];
        let blocks = device.block_count();
        journal_core::format(&mut region, NoHook, &kernels, &geometry, id, &policy, blocks)
            .expect("formats");
        let memory = Box::leak(Box::new(Buffers::new(&geometry, FRAMES, 256))).borrow();
        let journal = journal_core::Journal::open(region, device, policy, NoHook, kernels, memory);
        Self { journal: journal.expect("opens"), commits: 0 }
    }

    /// Empties the lane when `commits` commits of a block might not fit any more.
    pub(crate) fn make_room(&mut self, commits: u64) {
        self.commits += commits;
        if self.commits * (BLOCK as u64 + 256) > LANE_BYTES {
            self.journal.checkpoint().expect("empties");
            self.commits = commits;
        }
    }

    #[inline]
    pub(crate) fn commit(&mut self, update: Update<'_>, durability: Durability) {
        self.commit_all(&[Operation::Update(update)], durability);
    }

    #[inline]
    pub(crate) fn commit_all(&mut self, operations: &[Operation<'_>], durability: Durability) {
        black_box(self.journal.commit(LaneNumber(0), operations, durability).is_ok());
    }
}

/// Durable commits of a block.
pub(crate) fn whole_block<L: Policy + 'static>(
    images: &[u8],
    policy: L,
    protocol: Protocol,
) -> impl FnMut(u64) -> Duration + use<'_, L> {
    let owner = leaked(Owner::new(policy, protocol, NOWHERE));
    move |count| {
        owner.make_room(count);
        timed(count, |turn| {
            let change = Change::Image(image(images, turn));
            owner.commit(Update::new(BlockNumber(turn % BLOCKS), change), Durability::Durable);
        })
    }
}
