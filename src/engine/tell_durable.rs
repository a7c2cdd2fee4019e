//! Telling callers that do not wait when what they have committed is durable.

use journal_core::Committed;

use crate::error::Error;
use crate::machine::Machine;
use crate::shared::Shared;

impl<L, M: Machine> Shared<L, M> {
    /// Has `tell` called when a record is durable, or cannot become so any more.
    pub(crate) fn tell_when_durable(
        &self,
        committed: &Committed,
        tell: Box<dyn FnOnce(bool) + Send>,
    ) -> Result<(), Error> {
        let Some(cell) = self.lanes.get(usize::from(committed.lane.raw())) else {
            tell(false);
            return Ok(());
        };
        let state = match self.lock_lane(cell) {
            Ok(state) => state,
            Err(error) => {
                tell(false);
                return Err(error);
            }
        };
        if cell.reach.is_durable(committed.sequence) {
            drop(state);
            tell(true);
        } else {
            cell.watchers.add(committed.sequence, tell);
        }
        self.check_not_failed()
    }
}
