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

    /// Whether the embargo holds at the time of the current actor: until the ticket is served.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.disk.served_at(self.ticket).is_none()
    }

    /// The current actor uses some space, if it may; returns whether it may.
    ///
    /// An event loop in which other hosts go on meanwhile calls this. Where the answer is no, it
    /// lets the host try again a little later.
    pub fn try_use_space(&mut self, space: u64) -> bool {
        if !self.holds() {
            return true;
        }
        let left = self.free.checked_sub(space);
        self.free = left.unwrap_or(self.free);
        left.is_some()
    }

    /// The current actor uses some space. If less is free, it waits until the ticket is served.
    ///
    /// The drive then serves all that the ticket stands for, before any host gets a turn.
    pub fn use_space(&mut self, space: u64) {
        if !self.try_use_space(space) {
            self.disk.wait_for(self.ticket);
        }
    }
}
