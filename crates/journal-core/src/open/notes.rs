//! The newest note of the records that an open accepts.
//!
//! **Crash**: nothing is written.

use crate::format::record::Note;
use crate::open::found::Opening;
use crate::order::ordered::Hook;
use crate::ports::kernels::Kernels;
use crate::ports::pmem::PmemSplit;
use crate::scan::error::OpenError;
use crate::scan::reader::Reader;
use crate::units::Stamp;

impl<P: PmemSplit, H: Hook, K: Kernels> Opening<'_, P, H, K> {
    /// The newest note, given that of the superblock. It takes one more look at each header, so an
    /// open calls it only where records may have notes.
    pub(super) fn newest_note(
        &mut self,
        known: Option<(Stamp, Note)>,
    ) -> Result<Option<(Stamp, Note)>, OpenError> {
        let mut newest = known;
        let lanes = self.lanes.iter().filter_map(|lane| lane.0.as_ref());
        for (lane, (start, walked)) in lanes.zip(self.scanned.lanes()) {
            let reader = Reader {
                ring: lane.ring(),
                lane: lane.number,
                geometry: self.geometry,
                identity: self.identity,
                kernels: self.kernels,
                scratch: &mut *self.front,
                all: None,
                lap: 0,
            };
            let found = reader.newest_note(start.head, walked.tail, newest);
            newest = found.map_err(|error| error.of_whole(self.geometry.lane(lane.number)))?;
        }
        Ok(newest)
    }
}
