//! What goes to the disk before its record: appends, which go home, and blocks for the disk-side
//! log. A checkpoint may run meanwhile: neither waits for the other.
//!
//! Only where a batch has just taken a block that was discarded does its append wait until the
//! batch has ended (AP2).
//!
//! **Crash**: as [`journal_core`] says of an append.

use journal_core::parts::{Content, InLane, Operations, OrderedDevice, Scratch};
use journal_core::policy::Policy;
use journal_core::units::LaneNumber;
use journal_core::{BlockNumber, Rule};

use crate::engine::versions::SharedVersions;
use crate::error::Error;
use crate::machine::Machine;
use crate::shared::home_cell::appends::Appending;
use crate::shared::lane_cell::LaneState;
use crate::shared::lending::LanesOf;
use crate::shared::{Shared, ShortOf};
use crate::staging::work::Answer;

impl<L: Policy, M: Machine> Shared<L, M> {
    /// Writes to the disk, and syncs, what the policy puts there. Returns how many bytes of the
    /// lane were stored before that, and the appends, which end when the record is durable.
    pub(crate) fn write_to_disk<O: Operations + ?Sized>(
        &self,
        lane: LaneNumber,
        content: &Content<'_, O>,
        scratch: &mut Scratch<'_>,
        answers: &mut Vec<Answer>,
    ) -> Result<(u64, Option<Appending<'_>>), Error> {
        let common = &self.common;
        let take = || {
            let mut state = self.lock_lane(self.lane(lane))?;
            let LaneState { lane, slots, .. } = &mut *state;
            Ok::<_, Error>(InLane { lane, states: slots }.take_log_block())
        };
        let end = || Ok::<_, Error>(self.lock_lane(self.lane(lane))?.lane.end());
        let mut write = || {
            let appending = match content.prepared.appends {
                0 => None,
                _ => Some(self.appends.begin(lane, end)?),
            };
            let begun = appending.as_ref();
            let versions = SharedVersions::new(self, lane, answers);
            let versions = &mut SharedVersions { appending: begun, ..versions };
            let at = (lane, self.keeps(Rule::AppendsGivenUp));
            let lanes = &mut LanesOf(self);
            let stored = common.discard_before_append(lanes, at, content, scratch, versions)?;
            // A batch that had a block may have failed in the middle of it.
            self.check_not_failed()?;
            let handle = || OrderedDevice::with_hook(self.seats.handle(), self.hook.clone());
            self.appends.with_device(handle, |device| {
                device.write_ahead(common, content, scratch, versions, take)
            })?;
            Ok((stored, appending))
        };
        self.watched(|| write().inspect_err(|error| self.fail_of(*error)))
    }
}

impl<L, M: Machine> Shared<L, M> {
    /// Begins the append of a block, behind a batch that has it (AP1, AP2). Returns whether the
    /// index has a frame of it.
    pub(crate) fn begins_append(&self, appending: &Appending<'_>, block: BlockNumber) -> bool {
        loop {
            let mut holds = self.appends.lock();
            // Where the holder of a share, or of what writes home, has panicked, the journal has
            // failed, and nothing is written.
            let Ok(mut share) = self.lock_share(block) else { return true };
            let is_taken = share.index.is_leaving(block) && self.keeps(Rule::AppendsSpared);
            if !is_taken {
                if self.keeps(Rule::AppendsMakeSure) {
                    share.index.make_sure(block);
                }
                let newest = share.index.newest(block).map(|newest| share.index.frame(newest));
                if let Some(frame) = newest {
                    holds.hold(appending, frame.lane, (frame.sequence, frame.record));
                }
                return newest.is_some();
            }
            drop((holds, share));
            let waited = self.stopped(ShortOf::Home, || self.home.lock_first().map(drop));
            if waited.is_err() {
                self.poisoned();
            }
            if self.has_failed() {
                return true;
            }
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
