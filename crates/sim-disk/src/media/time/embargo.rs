//! Space that work in the background frees, and that comes back when the work is served.

use crate::media::time::background::Ticket;
use crate::media::time::disk::TimedDisk;

/// Space that a call in the background freed, and that nobody may use before its ticket is served.
///
/// Real code frees the space at once. So the workload counts what it uses since, and where that
/// exceeds what was free before, it waits for the ticket.
#[derive(Clone, Debug)]
pub struct Embargo {
    disk: TimedDisk,
    ticket: Ticket,
    free: u64,
}

impl Embargo {
    /// An embargo until a ticket of `disk` is served, with `free` units of space that were free
    /// before the call. The unit is the caller's.
    #[must_use]
    pub const fn new(disk: TimedDisk, ticket: Ticket, free: u64) -> Self {
        Self { disk, ticket, free }
    }

    /// The current actor uses some space. If less is free, it waits until the ticket is served.
    ///
    /// Returns whether the embargo still holds. It does not once the ticket is served.
    pub fn use_space(&mut self, space: u64) -> bool {
        if self.disk.served_at(self.ticket).is_some() {
            return false;
        }
        match self.free.checked_sub(space) {
            Some(left) => self.free = left,
            None => self.disk.wait_for(self.ticket),
        }
        self.disk.served_at(self.ticket).is_none()
    }
}
