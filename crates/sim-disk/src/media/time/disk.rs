//! A disk that takes time: its content in memory, and a drive with a queue in front.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use journal_core::block_device::check_request;
use journal_core::{
    BlockDevice, BlockNumber, BlockSize, DeviceError, DeviceErrorKind, DeviceFacts, DeviceOperation,
};

use crate::media::time::background::{Ticket, Wanted};
use crate::media::time::clock::{Actor, Clock};
use crate::media::time::content::{Content, Generator};
use crate::media::time::drive::{Drive, Extent};
use crate::media::time::queue::{DriveUse, Queue, Served};

/// A handle to a disk of virtual time; clones are the same disk.
///
/// What is written is there at once, and is kept in memory; blocks of zeroes take none. What the
/// drive takes is added to the time of the current actor. A read waits for the drive. A write
/// returns when the drive's cache has taken it. A sync waits for all that the cache has taken.
/// Consecutive blocks of several buffers are one request.
///
/// Nothing is lost in a crash: crashes are what [`SimDisk`](crate::SimDisk) is for.
#[derive(Clone, Debug)]
pub struct TimedDisk {
    clock: Clock,
    state: Arc<Mutex<State>>,
    facts: DeviceFacts,
    block_size: BlockSize,
    block_count: u64,
}

#[derive(Debug)]
struct State {
    content: Content,
    queue: Queue,
}

impl TimedDisk {
    /// A disk of zeroes.
    ///
    /// It says that it may tear blocks of 512 bytes in any way, until
    /// [`with_facts`](Self::with_facts) says otherwise.
    #[must_use]
    pub fn new(
        clock: &Clock,
        drive: impl Drive + 'static,
        block_size: BlockSize,
        block_count: u64,
    ) -> Self {
        let content = Content::new(block_size.bytes());
        let state = State { content, queue: Queue::new(Box::new(drive)) };
        Self {
            clock: clock.clone(),
            state: Arc::new(Mutex::new(state)),
            facts: DeviceFacts::cautious(),
            block_size,
            block_count,
        }
    }

    /// This disk, which says other things of itself.
    #[must_use]
    pub const fn with_facts(mut self, facts: DeviceFacts) -> Self {
        self.facts = facts;
        self
    }

    /// This disk, which keeps images of a generator by their numbers.
    #[must_use]
    pub fn with_generator(self, generator: Box<dyn Generator>) -> Self {
        self.lock().content.set_generator(generator);
        self
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the drive did so far.
    #[must_use]
    pub fn so_far(&self) -> DriveUse {
        self.lock().queue.counts()
    }

    /// Requests that are not served yet, of the hosts and of the background.
    #[must_use]
    pub fn unserved(&self) -> u64 {
        self.lock().queue.unserved()
    }

    /// Blocks whose content takes memory.
    #[must_use]
    pub fn blocks_in_memory(&self) -> usize {
        self.lock().content.whole_blocks()
    }

    /// A ticket for all that the background wanted of this disk so far.
    #[must_use]
    pub fn ticket(&self) -> Ticket {
        self.lock().queue.ticket()
    }

    /// When all that a ticket is for was served, if it was by the time of the current actor.
    #[must_use]
    pub fn served_at(&self, ticket: Ticket) -> Option<u64> {
        let now = self.clock.now();
        self.lock().queue.served_at(now, ticket)
    }

    /// The current actor waits until all that a ticket is for is served.
    pub fn wait_for(&self, ticket: Ticket) {
        let at = self.lock().queue.serve_ticket(ticket);
        self.clock.wait_until(at);
    }

    /// Serves all requests there are; returns when the drive is idle. Nobody's time passes.
    pub fn drain(&self) -> u64 {
        self.lock().queue.drain()
    }

    /// Puts content where it was before anybody's time began: the drive does nothing for it.
    ///
    /// # Errors
    /// Those of a write.
    pub fn put(&self, first: BlockNumber, from: &[u8]) -> Result<(), DeviceError> {
        self.check(DeviceOperation::Write, first, from.len())?;
        self.lock().content.write(first.raw(), from);
        Ok(())
    }

    /// Copies what the disk holds: nobody's time passes. A host that keeps blocks in memory of its
    /// own reads them so.
    ///
    /// # Errors
    /// Those of a read.
    pub fn peek(&self, first: BlockNumber, into: &mut [u8]) -> Result<(), DeviceError> {
        self.check(DeviceOperation::Read, first, into.len())?;
        self.lock().content.read(first.raw(), into);
        Ok(())
    }

    /// What the drive served since the last call. The first call begins the log, and returns none.
    #[must_use]
    pub fn take_log(&self) -> Vec<Served> {
        self.lock().queue.take_log()
    }

    fn check(
        &self,
        operation: DeviceOperation,
        first: BlockNumber,
        bytes: usize,
    ) -> Result<Extent, DeviceError> {
        check_request(operation, (self.block_size, self.block_count), first, bytes)?;
        let at = first.raw().saturating_mul(self.block_size.bytes() as u64);
        Ok(Extent { at, bytes: bytes as u64 })
    }

    /// A request of the current actor, which waits for it unless it is the background.
    fn request(&self, state: &mut State, wanted: Wanted) {
        let now = self.clock.now();
        if self.clock.actor() == Actor::Background {
            state.queue.push(now, wanted);
            return;
        }
        let host_ns = state.queue.facts().host_ns;
        self.clock.wait_until(match wanted {
            Wanted::Read(extent) => state.queue.read(now, extent).saturating_add(host_ns),
            Wanted::Write(extent) => state.queue.write(now, extent),
            Wanted::Barrier => state.queue.sync(now).saturating_add(host_ns),
        });
    }
}

impl BlockDevice for TimedDisk {
    fn facts(&self) -> DeviceFacts {
        self.facts
    }

    fn block_size(&self) -> BlockSize {
        self.block_size
    }

    fn block_count(&self) -> u64 {
        self.block_count
    }

    fn read(&mut self, first: BlockNumber, into: &mut [u8]) -> Result<(), DeviceError> {
        let extent = self.check(DeviceOperation::Read, first, into.len())?;
        let mut state = self.lock();
        state.content.read(first.raw(), into);
        if extent.bytes > 0 {
            self.request(&mut state, Wanted::Read(extent));
        }
        Ok(())
    }

    fn write(&mut self, first: BlockNumber, from: &[u8]) -> Result<(), DeviceError> {
        self.write_vectored(first, &[from])
    }

    fn write_vectored(&mut self, first: BlockNumber, from: &[&[u8]]) -> Result<(), DeviceError> {
        let operation = DeviceOperation::Write;
        let block_bytes = self.block_size.bytes();
        if from.iter().any(|part| part.len() % block_bytes != 0) {
            return Err(DeviceError::new(operation, DeviceErrorKind::WrongLength, first));
        }
        let bytes = from.iter().map(|part| part.len()).sum();
        let extent = self.check(operation, first, bytes)?;
        let mut state = self.lock();
        let mut next = first.raw();
        for part in from {
            state.content.write(next, part);
            next += (part.len() / block_bytes) as u64;
        }
        if extent.bytes > 0 {
            self.request(&mut state, Wanted::Write(extent));
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<(), DeviceError> {
        let mut state = self.lock();
        self.request(&mut state, Wanted::Barrier);
        Ok(())
    }
}
