//! Appends that go home at once: written and synced there before the record that tells of them.
//!
//! Nobody needs the old content of a block that is not live, so its new one may overwrite it in
//! place; what the record then carries is that it has.
//!
//! A1. The block is not live, durably: never written, or discarded by a durable record.
//! A2. Nobody else writes its home until the sync.
//! A3. The sync comes before the record is stored.
//! A4. An intent of a batch before, with an older version, is not repeated over it.
//!
//! **Crash** before the record is durable: the block is not live, and its home holds anything.

use crate::block_device::BlockDevice;
use crate::check::Kernels;
use crate::common::Common;
use crate::error::DeviceError;
use crate::home::Home;
use crate::hook::Hook;
use crate::index::{Index, IndexMemory};
use crate::order::{Durable, Unsynced};
use crate::place::{Operation, Operations, Versions};
use crate::pmem::Pmem;
use crate::policy::{Encoder, Kind, Placement, Policy, Update};
use crate::record::Form;
use crate::units::{BlockNumber, Stamp};

crate::sites! {
    pub(crate) mod site {
        /// A crash before the record's fence leaves a block that is not live, with any content.
        WRITE: DiskWrite = "append.write";
        /// A crash after leaves it with this content, live once the record is durable.
        SYNC: DiskSync = "append.sync";
    }
}

/// Blocks that one write takes at most.
const RUN_BLOCKS: usize = 16;

/// Neighbours on their way home.
struct Run<'a> {
    first: BlockNumber,
    images: [&'a [u8]; RUN_BLOCKS],
    count: usize,
}

impl<'a> Run<'a> {
    const EMPTY: Self = Self { first: BlockNumber(0), images: [&[]; RUN_BLOCKS], count: 0 };

    /// Whether the block continues the run.
    fn continues(&self, block: BlockNumber) -> bool {
        let next = self.first.raw().checked_add(self.count as u64);
        self.count > 0 && self.count < RUN_BLOCKS && next == Some(block.raw())
    }

    fn add(&mut self, block: BlockNumber, image: &'a [u8]) {
        if self.count == 0 {
            self.first = block;
        }
        if let Some(place) = self.images.get_mut(self.count) {
            *place = image;
            self.count = self.count.saturating_add(1);
        }
    }
}

impl<P: Pmem, D: BlockDevice, H: Hook> Home<P, D, H> {
    /// Writes home what the policy places there, and syncs it (A3). `room` is scratch memory, one
    /// block long or longer.
    ///
    /// # Errors
    /// The device's. Nothing is stored yet.
    pub fn append<L: Policy, K: Kernels>(
        &mut self,
        common: &Common<L, K>,
        operations: &(impl Operations + ?Sized),
        room: &mut [u8],
        versions: &mut impl Versions,
    ) -> Result<Option<Durable<()>>, DeviceError> {
        let room = room.get_mut(..common.block_bytes()).unwrap_or_default();
        let mut unsynced: Option<Unsynced> = None;
        let mut run = Run::EMPTY;
        for at in 0..operations.count() {
            let Operation::Update(update) = operations.operation(at) else { continue };
            let Update { block, kind: Kind::Append, .. } = update else { continue };
            let placement = common.policy.place(&update, &mut Encoder::new(room));
            // As it was when the transaction was prepared.
            if placement != Placement::Home || !versions.may_go_home(block) {
                continue;
            }
            let Some(image) = update.change.image() else { continue };
            if !run.continues(block) {
                self.write_run(&mut run, &mut unsynced)?;
            }
            run.add(block, image);
        }
        self.write_run(&mut run, &mut unsynced)?;
        match unsynced {
            Some(unsynced) => self.device.sync(site::SYNC, unsynced).map(Some),
            None => Ok(None),
        }
    }

    fn write_run(
        &mut self,
        run: &mut Run<'_>,
        unsynced: &mut Option<Unsynced>,
    ) -> Result<(), DeviceError> {
        let images = run.images.get(..run.count).unwrap_or_default();
        if !images.is_empty() {
            let written = self.device.write(site::WRITE, run.first, images)?;
            *unsynced = Some(match unsynced.take() {
                Some(before) => before.and(written),
                None => written,
            });
        }
        *run = Run::EMPTY;
        Ok(())
    }
}

impl<M: IndexMemory> Index<M> {
    /// Whether a version of a block above this stamp is at home, by a record that says so.
    pub(crate) fn was_appended_home(&self, block: BlockNumber, stamp: Stamp) -> bool {
        let chain = core::iter::successors(self.newest(block), |id| self.older(*id));
        let mut frames = chain.map(|id| self.frame(id));
        frames.any(|frame| frame.form == Form::Home && frame.stamp > stamp)
    }
}
