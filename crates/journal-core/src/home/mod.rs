//! Content goes home. [`Home`] owns the superblocks, the shield and the device.
//!
//! A journal has one [`Home`]. The lanes and the indexes that it works on may be shared with
//! committing threads: it borrows each only for a moment ([`Lanes`],
//! [`Indexes`](crate::index::Indexes)).

mod chains;
pub(crate) mod checkpoint;
pub(crate) mod content;
pub(crate) mod error;
pub(crate) mod oldest;
pub(crate) mod report;
pub(crate) mod search;
pub(crate) mod shield;
pub(crate) mod steps;
pub(crate) mod waiting;
pub(crate) mod write_ahead;

use crate::commit::batched::Batched;
use crate::format::identity::Identity;
use crate::home::error::JournalError;
use crate::home::shield::Shield;
use crate::home::waiting::Waiting;
use crate::index::frame::FrameAt;
use crate::order::ordered::{Hook, NoHook, OrderedDevice};
use crate::order::rule::Rule;
use crate::ports::block_device::BlockDevice;
use crate::ports::error::MediumError;
use crate::ports::pmem::Pmem;
use crate::space::lane::InLane;
use crate::space::stored::{Stored, WEAR_PARTS};
use crate::space::superblocks::{Superblock, Superblocks};
use crate::units::{LANES_MAX, LaneNumber, Sequence};

/// Of each lane, the first record that its head may not pass, and where that lies, if there is one.
pub type NotPassed = [Option<(Sequence, u64)>; LANES_MAX as usize];

/// All lanes of a journal.
pub trait Lanes<P, H> {
    /// Calls with a lane, and keeps others from it meanwhile.
    ///
    /// # Errors
    /// [`JournalError::Failed`] when the lane is not to be used any more.
    fn with<R>(
        &mut self,
        lane: LaneNumber,
        call: impl FnOnce(&mut InLane<'_, P, H>) -> R,
    ) -> Result<R, JournalError>;

    /// Copies the payload of a frame, whose lane or slot nobody writes there.
    ///
    /// # Errors
    /// The medium's.
    fn read(&self, frame: &FrameAt, into: &mut [u8]) -> Result<(), MediumError>;

    /// Begins to bring the payload of a frame into the caches, and does not wait for it. A matter
    /// of speed only: the frame may be gone.
    fn prefetch(&self, frame: &FrameAt) {
        let _ = frame;
    }

    /// Calls while no append begins, with the records that no head may pass: appends need them.
    /// Where the call fails, heads may have passed on the medium. No append begins behind that.
    ///
    /// # Errors
    /// Those of the call.
    fn passing<R>(
        &mut self,
        call: impl FnOnce(&mut Self, &NotPassed) -> Result<R, JournalError>,
    ) -> Result<R, JournalError> {
        call(self, &[None; LANES_MAX as usize])
    }

    /// Fails if some index share was poisoned and an empty one was shown instead. Called before a
    /// block that was built goes home, and before heads move.
    ///
    /// # Errors
    /// [`JournalError::Failed`].
    fn check_all_there(&self) -> Result<(), JournalError> {
        Ok(())
    }
}

/// Memory for writing home.
#[derive(Debug)]
pub struct HomeScratch<'m> {
    /// Blocks that one batch writes.
    pub batch: &'m mut [Batched],
    /// Where fronts of intents are built.
    pub front: &'m mut [u8],
    /// Where an encoded payload is copied to be applied.
    pub payload: &'m mut [u8],
    /// Whole blocks: where images are built. More make longer writes.
    pub blocks: &'m mut [u8],
    /// Blocks that are found and not written yet.
    pub waiting: Waiting<'m>,
}

/// What writes home.
#[derive(Debug)]
pub struct Home<P, D, H = NoHook> {
    pub(crate) superblocks: Superblocks<P, H>,
    pub(crate) superblock: Superblock,
    /// `None` where the geometry has no shield.
    pub(crate) shield: Option<Shield<P, H>>,
    pub(crate) device: OrderedDevice<D, H>,
    pub(crate) identity: Identity,
    /// Which attempt to write home this is; never zero. When it comes round, a block that nobody
    /// has tried since is left out of one more attempt.
    pub(crate) attempt: u16,
}

impl<P: Pmem, D: BlockDevice, H: Hook> Home<P, D, H> {
    /// What was stored in the shield area.
    pub fn stored_shield(&self) -> Stored {
        self.shield.as_ref().map_or(Stored::NOTHING, |shield| shield.stored)
    }

    /// The lines of each part of the shield area that were stored.
    pub fn shield_wear(&self) -> [u64; WEAR_PARTS] {
        self.shield.as_ref().map_or([0; WEAR_PARTS], |shield| shield.wear.parts())
    }

    /// What was stored in the copies of the superblock.
    pub const fn stored_superblocks(&self) -> Stored {
        self.superblocks.stored()
    }

    pub(crate) fn keeps(&self, rule: Rule) -> bool {
        self.device.keeps(rule)
    }
}
