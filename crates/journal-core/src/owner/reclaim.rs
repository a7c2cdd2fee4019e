//! How the one owner gives space back without writing home: folds, garbage collection, re-logging.

use crate::home::error::JournalError;
use crate::home::report::FoldReport;
use crate::owner::journal::Journal;
use crate::owner::machine::Machine;
use crate::ports::policy::Policy;
use crate::reclaim::relog::RelogReport;
use crate::units::LaneNumber;

impl<L: Policy, M: Machine> Journal<'_, L, M> {
    /// Frees space in the lanes without writing to the device. What frames say of slots, the slots'
    /// entries say from now on, and the heads pass what is not needed any more.
    ///
    /// # Errors
    /// As [`checkpoint`](Self::checkpoint).
    pub fn fold(&mut self) -> Result<FoldReport, JournalError> {
        self.at_home(|home, common, lanes, index, scratch| home.fold(common, lanes, index, scratch))
    }

    /// Frees slots without writing to the device: those of versions that a newer one has made
    /// superfluous. Until then they are where the block's next version is written, as far as it
    /// differs.
    ///
    /// # Errors
    /// As [`checkpoint`](Self::checkpoint).
    pub fn collect_garbage(&mut self) -> Result<FoldReport, JournalError> {
        self.at_home(|home, common, lanes, index, scratch| {
            home.collect_garbage(common, lanes, index, scratch)
        })
    }

    /// Frees space at the head of a lane without writing to the device. What is still needed there
    /// is copied to the lane's tail, if that frees more than it costs. At most a quarter of the
    /// lane and one batch of blocks are copied in a call.
    ///
    /// Does nothing, and costs no fence, where nothing is gained, or where the free space does not
    /// hold the copies. A checkpoint frees space in any case.
    ///
    /// # Errors
    /// `NoSuchLane`, or as [`checkpoint`](Self::checkpoint).
    pub fn relog(&mut self, lane: LaneNumber) -> Result<RelogReport, JournalError> {
        self.check_not_failed()?;
        if lane.raw() >= self.common.geometry.lanes {
            return Err(JournalError::NoSuchLane { lane });
        }
        self.at_home(|home, common, lanes, index, scratch| {
            home.relog(common, lanes, index, scratch, lane)
        })
    }
}
