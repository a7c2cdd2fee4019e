//! What goes to the disk before its record: appends, which go home, and blocks for the disk-side
//! log. A checkpoint may run meanwhile, and its writes and these do not wait for each other.
//!
//! Four waits are left:
//!
//! - An append begins and ends while no heads pass: it may wait for the fences of two superblocks.
//! - An append waits until a batch has ended that has just taken its block, which was discarded
//!   (AP2).
//! - All wait while the device forgets blocks (AP4).
//! - The device is synced for one thread at a time (OS1).
//!
//! **Crash**: as [`journal_core`] says of an append.

use journal_core::parts::{Content, InLane, Operations, OrderedDevice, Scratch};
use journal_core::policy::Policy;
use journal_core::units::LaneNumber;
use journal_core::{BlockNumber, Rule};

use crate::engine::versions::SharedVersions;
use crate::error::Error;
use crate::machine::Machine;
use crate::shared::home_cell::Poisoned;
use crate::shared::home_cell::appends::Appending;
use crate::shared::lane_cell::LaneState;
use crate::shared::lending::LanesOf;
use crate::shared::{Shared, ShortOf};
use crate::staging::work::Answer;

impl<L: Policy, M: Machine> Shared<L, M> {
    /// Writes to the disk, and syncs, what the policy puts there. Returns how many bytes of the
    /// lane were stored before that, and the appends, which end when the record is stored.
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
        // It ends behind the note of a failure, also of a panic: no head may pass what it holds
        // while its home may show what is not durable (AP1).
        let mut appending = None;
        let written = self.fail_on_panic(|| {
            let mut write = || {
                if content.prepared.appends > 0 {
                    appending = Some(self.appends.begin(lane, end)?);
                }
                let begun = appending.as_ref();
                let versions = SharedVersions::new(self, lane, answers);
                let versions = &mut SharedVersions { appending: begun, ..versions };
                let at = (lane, self.keeps(Rule::AppendsGivenUp));
                let lanes = &mut LanesOf(self);
                let stored = common.discard_before_append(lanes, at, content, scratch, versions)?;
                // A batch that had a block may have failed in the middle of it.
                self.check_not_failed()?;
                let handle = || OrderedDevice::with_hook(self.seats.handle(), self.hook.clone());
                if self.appends.forgets() {
                    self.stopped(ShortOf::Home, || self.appends.await_forgotten());
                }
                self.appends.writing(|| {
                    self.appends.with_device(handle, |device| {
                        device.write_ahead(common, content, scratch, versions, take)
                    })
                })?;
                Ok(stored)
            };
            write().inspect_err(|error| self.fail_of(*error))
        });
        written.map(|stored| (stored, appending))
    }
}

impl<L, M: Machine> Shared<L, M> {
    /// Begins the append of a block, behind a batch that has it (AP1, AP2). Returns whether a lane
    /// has a frame of it that stays until the append has ended.
    pub(crate) fn begins_append(&self, appending: &Appending<'_>, block: BlockNumber) -> bool {
        if let Some(stays) = self.try_begin_append(appending, block, true) {
            return stays;
        }
        let waited = self.stopped(ShortOf::Home, || {
            let home = self.home.lock_first()?;
            // No batch is on its way now. One that has failed has left its blocks as they were.
            let stays = self.try_begin_append(appending, block, false);
            drop(home);
            Ok::<_, Poisoned>(stays)
        });
        match waited {
            Ok(stays) => stays.unwrap_or(true),
            Err(Poisoned) => {
                self.poisoned();
                true
            }
        }
    }

    /// Begins the append of a block, unless a batch has it and there `may_be` one.
    fn try_begin_append(
        &self,
        appending: &Appending<'_>,
        block: BlockNumber,
        may_be: bool,
    ) -> Option<bool> {
        let mut holds = self.appends.lock();
        // Where the holder of the share has panicked, the journal has failed, and nothing is
        // written.
        let Ok(mut share) = self.lock_share(block) else { return Some(true) };
        if may_be && share.index.is_leaving(block) && self.keeps(Rule::AppendsSpared) {
            return None;
        }
        if self.keeps(Rule::AppendsMakeSure) {
            share.index.make_sure(block);
        }
        let newest = share.index.newest(block).map(|newest| share.index.frame(newest));
        Some(
            newest.is_some_and(|frame| {
                holds.hold(appending, frame.lane, (frame.sequence, frame.record))
            }),
        )
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
