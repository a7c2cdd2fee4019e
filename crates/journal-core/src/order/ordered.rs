//! The order of persistence as types: `Dirty -> InFlight -> Durable`.
//!
//! Bytes that were stored are [`Dirty`]. Flushing them gives an [`InFlight`]; a fence turns that
//! into a [`Durable`], and nothing else does. Some things must wait for durability: an
//! acknowledgement, or the next step of a protocol. Each takes a `Durable` of the thing it waits
//! for, so that a missing flush or fence does not compile. The states are values only in the type
//! system: a `Durable<T>` is a `T`, and a range is kept only where the flush needs it.
//!
//! ```
//! use journal_core::order::{Durable, Ordered};
//! use journal_core::{sites, Offset, Pmem, MediumError, units::Sequence};
//!
//! sites! { pub mod site { RECORD: Write = "doc.record"; COMMIT: Fence = "doc.commit"; } }
//!
//! fn acknowledge(record: Durable<Sequence>) -> Sequence { record.into_inner() }
//!
//! fn commit<P: Pmem>(lane: &mut Ordered<P>, record: &[u8]) -> Result<Sequence, MediumError> {
//!     let in_flight = lane.write(site::RECORD, Offset(0), record).carrying(Sequence(1));
//!     let durable = lane.fence(site::COMMIT, in_flight)?;
//!     Ok(acknowledge(durable))
//! }
//! ```
//!
//! Without the fence, this function does not compile:
//!
//! ```compile_fail,E0308
//! use journal_core::order::{Durable, Ordered};
//! use journal_core::{sites, Offset, Pmem, MediumError, units::Sequence};
//!
//! sites! { pub mod site { RECORD: Write = "doc.record"; COMMIT: Fence = "doc.commit"; } }
//!
//! fn acknowledge(record: Durable<Sequence>) -> Sequence { record.into_inner() }
//!
//! fn commit<P: Pmem>(lane: &mut Ordered<P>, record: &[u8]) -> Result<Sequence, MediumError> {
//!     let in_flight = lane.write(site::RECORD, Offset(0), record).carrying(Sequence(1));
//!     Ok(acknowledge(in_flight))
//! }
//! ```
//!
//! Nor does a fence over bytes that were stored and not flushed:
//!
//! ```compile_fail,E0308
//! use journal_core::order::Ordered;
//! use journal_core::{sites, Offset, Pmem};
//!
//! sites! { pub mod site { RECORD: Store = "doc.record"; COMMIT: Fence = "doc.commit"; } }
//!
//! fn commit<P: Pmem>(lane: &mut Ordered<P>) {
//!     let dirty = lane.store(site::RECORD, Offset(0), &[1; 8]);
//!     let _ = lane.fence(site::COMMIT, dirty);
//! }
//! ```
//!
//! A fence completes only its own thread's flushes, so an [`InFlight`] does not leave its thread. A
//! [`Dirty`] may, since the thread that flushes it fences it:
//!
//! ```
//! fn hand_over(dirty: journal_core::Dirty) {
//!     std::thread::spawn(move || drop(dirty));
//! }
//! ```
//!
//! ```compile_fail,E0277
//! fn hand_over(in_flight: journal_core::InFlight) {
//!     std::thread::spawn(move || drop(in_flight));
//! }
//! ```
//!
//! What the types do not say: which region a [`Dirty`] belongs to, and which span an [`InFlight`].
//! A thread that works with several must not mix their tokens.
//!
//! # Where tests reach in
//!
//! Every store, flush, fence, disk write and sync of the core goes through a [`Hook`] and names its
//! [`Site`]. The default hook, [`NoHook`], is zero-sized and passes every call on. `sim-disk` has a
//! hook that counts sites and can make any of them misbehave (a *mutant*). The tests then have to
//! notice.
//!
//! A function that takes a site or a rule and hands it on is `#[inline]`, here and elsewhere in the
//! crate. The aim is not to inline it at any price, but to compile it where it is used. With
//! `NoHook` the compiler then sees that nobody looks at the site, and drops it. The no-alloc probe
//! looks for names of sites in what it builds.

use core::marker::PhantomData;

use crate::order::rule::Rule;
use crate::order::site::{Site, SiteKind};
use crate::ports::block_device::BlockDevice;
use crate::ports::error::{DeviceError, MediumError};
use crate::ports::pmem::{Pmem, PmemFacts, PmemRead, PmemShare};
use crate::ports::stitched::{Seeds, Stitched};
use crate::units::{BlockNumber, Offset};

/// Stored, not yet flushed: a crash may keep any of its words, old or new.
#[must_use = "stored bytes are lost unless they are flushed and fenced"]
#[derive(Debug)]
pub struct Dirty {
    at: Offset,
    len: usize,
}

impl Dirty {
    /// The two ranges as one of the same region, to be flushed at once. They should lie in the same
    /// or in neighbouring lines: whatever lies between them is flushed as well.
    pub fn and(self, other: Self) -> Self {
        let end = |range: &Self| range.at.raw().saturating_add(range.len as u64);
        let at = self.at.min(other.at);
        let len = end(&self).max(end(&other)).saturating_sub(at.raw());
        Self { at, len: usize::try_from(len).unwrap_or(usize::MAX) }
    }
}

/// Flushed or streamed by this thread, not yet fenced: a crash may keep any of its words.
///
/// `T` is what will be durable once it is fenced.
#[must_use = "bytes in flight are lost unless this thread fences them"]
#[derive(Debug)]
pub struct InFlight<T = ()> {
    what: T,
    /// A raw pointer is neither `Send` nor `Sync`: only this thread's fence completes the flush.
    thread_bound: PhantomData<*const ()>,
}

impl InFlight<()> {
    const fn new() -> Self {
        Self { what: (), thread_bound: PhantomData }
    }

    /// Names what these bytes are, so that the fence yields a durable one of it.
    pub fn carrying<T>(self, what: T) -> InFlight<T> {
        InFlight { what, thread_bound: PhantomData }
    }
}

impl InFlight<()> {
    /// Adds to what is in flight, if anything is.
    pub(crate) fn join(known: &mut Option<Self>, more: Self) {
        *known = Some(match known.take() {
            Some(known) => known.and(more),
            None => more,
        });
    }
}

impl<T> InFlight<T> {
    /// Joins two of them, to be completed by one fence.
    pub fn and(self, more: InFlight) -> Self {
        let InFlight { what: (), .. } = more;
        self
    }
}

/// Fenced (or synced): no crash takes it back. The only key to an acknowledgement.
#[must_use = "whoever waits for durability takes this as the proof"]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Durable<T = ()> {
    what: T,
}

impl<T> Durable<T> {
    /// What is durable.
    pub fn what(&self) -> &T {
        &self.what
    }

    /// What is durable, by value; the proof is spent.
    pub fn into_inner(self) -> T {
        self.what
    }
}

/// Written to the block device and not yet synced: a crash may lose it, tear it or keep it.
#[must_use = "writes may be lost unless the device is synced"]
#[derive(Debug)]
pub struct Unsynced<T = ()> {
    what: T,
}

impl Unsynced<()> {
    /// Names what these writes are, so that the sync yields a durable one of it.
    pub fn carrying<T>(self, what: T) -> Unsynced<T> {
        Unsynced { what }
    }
}

impl<T> Unsynced<T> {
    /// Joins the writes of two of them, to be completed by one sync.
    pub fn and(self, more: Unsynced) -> Self {
        let Unsynced { what: () } = more;
        self
    }
}

/// Whether a record is put in flight while it is stored, or only when somebody asks.
///
/// A deferred record is merely stored: the thread that makes it durable may be another one, and
/// no thread completes what another has streamed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// Put in flight as it is stored.
    AtOnce,
    /// Stored; flushed by the thread that fences the lane next.
    Deferred,
}

/// A region of persistent memory that is written through the ordering types.
///
/// Each call names its [`Site`], through which tests count it, or make it misbehave; with the
/// default hook that costs nothing.
#[derive(Debug)]
pub struct Ordered<P, H = NoHook> {
    pmem: P,
    hook: H,
}

impl<P: Pmem> Ordered<P> {
    /// Wraps `pmem`.
    pub const fn new(pmem: P) -> Self {
        Self { pmem, hook: NoHook }
    }
}

impl<P: Pmem, H: Hook> Ordered<P, H> {
    /// Wraps `pmem`, sending every call through `hook`.
    pub const fn with_hook(pmem: P, hook: H) -> Self {
        Self { pmem, hook }
    }

    /// The region, for reading.
    pub const fn pmem(&self) -> &P {
        &self.pmem
    }

    /// Whether the hook keeps to a rule.
    #[inline]
    pub fn keeps(&self, rule: Rule) -> bool {
        self.hook.keeps(rule)
    }

    /// The region itself; the ordering ends here.
    pub fn into_inner(self) -> P {
        self.pmem
    }

    /// Writes bytes; they still need a flush. See [`Pmem::store`].
    #[inline]
    pub fn store(&mut self, site: Site, at: Offset, bytes: &[u8]) -> Dirty {
        debug_assert_eq!(site.kind, SiteKind::Store);
        self.hook.store(site, &mut self.pmem, at, bytes);
        Dirty { at, len: bytes.len() }
    }

    /// Writes one aligned word atomically; it still needs a flush. See [`Pmem::store_u64`].
    #[inline]
    pub fn store_u64(&mut self, site: Site, at: Offset, value: u64) -> Dirty {
        debug_assert_eq!(site.kind, SiteKind::Store);
        self.hook.store_u64(site, &mut self.pmem, at, value);
        Dirty { at, len: size_of::<u64>() }
    }

    /// Flushes what was stored. See [`Pmem::flush`].
    #[inline]
    pub fn flush(&mut self, site: Site, dirty: Dirty) -> InFlight {
        debug_assert_eq!(site.kind, SiteKind::Flush);
        self.hook.flush(site, &mut self.pmem, dirty.at, dirty.len);
        InFlight::new()
    }

    /// Flushes what somebody else stored and this thread found. After a killed process, its stores
    /// are visible and not yet durable. Nothing may be built on them before they are durable.
    #[inline]
    pub fn flush_found(&mut self, site: Site, at: Offset, len: usize) -> InFlight {
        debug_assert_eq!(site.kind, SiteKind::Flush);
        self.hook.flush(site, &mut self.pmem, at, len);
        InFlight::new()
    }

    /// Writes bytes past the caches. See [`Pmem::stream`].
    #[inline]
    pub fn stream(&mut self, site: Site, at: Offset, bytes: &[u8]) -> InFlight {
        debug_assert_eq!(site.kind, SiteKind::Stream);
        self.hook.stream(site, &mut self.pmem, at, bytes);
        InFlight::new()
    }

    /// Writes bytes and puts them in flight by the cheaper way for their length: store and flush,
    /// or stream.
    #[inline]
    pub fn write(&mut self, site: Site, at: Offset, bytes: &[u8]) -> InFlight {
        debug_assert_eq!(site.kind, SiteKind::Write);
        self.hook.write(site, &mut self.pmem, at, bytes);
        InFlight::new()
    }

    /// As [`write`](Self::write), for a piece of `whole_bytes` that go out before one fence.
    #[inline]
    pub fn write_piece(
        &mut self,
        site: Site,
        at: Offset,
        bytes: &[u8],
        whole_bytes: u64,
    ) -> InFlight {
        debug_assert_eq!(site.kind, SiteKind::Write);
        self.hook.write_piece(site, &mut self.pmem, at, bytes, whole_bytes);
        InFlight::new()
    }

    /// Whether a whole of `whole_bytes` had better be put together by the medium.
    #[inline]
    pub fn stitches(&self, whole_bytes: u64) -> bool {
        let facts = self.pmem.facts();
        let is_streamed = whole_bytes >= facts.stream_from_bytes as u64;
        facts.stitches && is_streamed && self.hook.stitches()
    }

    /// Streams what is put together from pieces, with its checks; returns that of all. See
    /// [`Pmem::stream_checked`].
    #[inline(always)]
    pub fn write_checked(
        &mut self,
        site: Site,
        at: Offset,
        stitched: &Stitched<'_>,
        seeds: Seeds,
    ) -> (InFlight, u64) {
        debug_assert_eq!(site.kind, SiteKind::Write);
        let check = self.hook.write_checked(site, &mut self.pmem, at, stitched, seeds);
        (InFlight::new(), check)
    }

    /// Makes durable what is in flight. See [`Pmem::fence`].
    ///
    /// # Errors
    /// The medium's: the outcome of everything in flight is then unknown, for ever.
    #[inline(always)]
    pub fn fence<T>(
        &mut self,
        site: Site,
        in_flight: InFlight<T>,
    ) -> Result<Durable<T>, MediumError> {
        debug_assert_eq!(site.kind, SiteKind::Fence);
        self.hook.fence(site, &mut self.pmem)?;
        Ok(Durable { what: in_flight.what })
    }
}

impl<P: PmemRead, H> PmemRead for Ordered<P, H> {
    #[inline]
    fn len(&self) -> u64 {
        self.pmem.len()
    }

    #[inline]
    fn read_into(&self, at: Offset, into: &mut [u8]) -> Result<(), MediumError> {
        self.pmem.read_into(at, into)
    }

    #[inline]
    fn prefetch(&self, at: Offset, len: usize) {
        self.pmem.prefetch(at, len);
    }
}

impl<P: Pmem, H> Ordered<P, H> {
    /// The content at `at` without a copy. See [`Pmem::bytes`].
    ///
    /// # Errors
    /// The medium's.
    #[inline]
    pub fn bytes(&self, at: Offset, len: usize) -> Result<&[u8], MediumError> {
        self.pmem.bytes(at, len)
    }

    /// What the medium is.
    #[inline]
    pub fn facts(&self) -> PmemFacts {
        self.pmem.facts()
    }
}

impl<P: PmemShare, H> Ordered<P, H> {
    /// A reader beside this writer. See [`PmemShare::reader`].
    #[inline]
    pub fn reader(&self) -> P::Reader {
        self.pmem.reader()
    }
}

/// A block device that is written through the ordering types, as [`Ordered`] is for memory.
#[derive(Debug)]
pub struct OrderedDevice<D, H = NoHook> {
    device: D,
    hook: H,
}

impl<D: BlockDevice> OrderedDevice<D> {
    /// Wraps `device`.
    pub const fn new(device: D) -> Self {
        Self { device, hook: NoHook }
    }
}

impl<D: BlockDevice, H: Hook> OrderedDevice<D, H> {
    /// Wraps `device`, sending every write and sync through `hook`.
    pub const fn with_hook(device: D, hook: H) -> Self {
        Self { device, hook }
    }

    /// The device, for its geometry and facts.
    pub const fn device(&self) -> &D {
        &self.device
    }

    /// Whether the hook keeps to a rule.
    #[inline]
    pub fn keeps(&self, rule: Rule) -> bool {
        self.hook.keeps(rule)
    }

    /// The device itself; the ordering ends here.
    pub fn into_inner(self) -> D {
        self.device
    }

    /// Reads whole blocks. See [`BlockDevice::read`].
    ///
    /// # Errors
    /// The device's.
    pub fn read(&mut self, first: BlockNumber, into: &mut [u8]) -> Result<(), DeviceError> {
        self.device.read(first, into)
    }

    /// Writes whole blocks; they still need a sync. See [`BlockDevice::write_vectored`].
    ///
    /// # Errors
    /// The device's.
    #[inline]
    pub fn write(
        &mut self,
        site: Site,
        first: BlockNumber,
        from: &[&[u8]],
    ) -> Result<Unsynced, DeviceError> {
        debug_assert_eq!(site.kind, SiteKind::DiskWrite);
        self.hook.disk_write(site, &mut self.device, first, from)?;
        Ok(Unsynced { what: () })
    }

    /// Makes durable what was written. See [`BlockDevice::sync`].
    ///
    /// # Errors
    /// The device's: what was written may be lost, now or later, whatever later syncs say.
    #[inline]
    pub fn sync<T>(
        &mut self,
        site: Site,
        unsynced: Unsynced<T>,
    ) -> Result<Durable<T>, DeviceError> {
        debug_assert_eq!(site.kind, SiteKind::DiskSync);
        self.hook.disk_sync(site, &mut self.device)?;
        Ok(Durable { what: unsynced.what })
    }
}

/// Receives every ordered call together with the medium it is meant for.
///
/// The default methods pass the call on unchanged. An implementation may count, delay or drop it;
/// only tests do.
pub trait Hook {
    /// Whether the protocol keeps to a rule. It does, but in a test that wants to see what happens
    /// when it does not.
    #[inline]
    fn keeps(&self, _rule: Rule) -> bool {
        true
    }

    /// At a [`SiteKind::Store`](crate::order::site::SiteKind::Store) site.
    #[inline]
    fn store<P: Pmem>(&mut self, _site: Site, pmem: &mut P, at: Offset, bytes: &[u8]) {
        pmem.store(at, bytes);
    }

    /// At a [`SiteKind::Store`](crate::order::site::SiteKind::Store) site that stores one word.
    #[inline]
    fn store_u64<P: Pmem>(&mut self, _site: Site, pmem: &mut P, at: Offset, value: u64) {
        pmem.store_u64(at, value);
    }

    /// At a [`SiteKind::Flush`](crate::order::site::SiteKind::Flush) site.
    #[inline]
    fn flush<P: Pmem>(&mut self, _site: Site, pmem: &mut P, at: Offset, len: usize) {
        pmem.flush(at, len);
    }

    /// At a [`SiteKind::Stream`](crate::order::site::SiteKind::Stream) site.
    #[inline]
    fn stream<P: Pmem>(&mut self, _site: Site, pmem: &mut P, at: Offset, bytes: &[u8]) {
        pmem.stream(at, bytes);
    }

    /// At a [`SiteKind::Write`](crate::order::site::SiteKind::Write) site.
    #[inline]
    fn write<P: Pmem>(&mut self, site: Site, pmem: &mut P, at: Offset, bytes: &[u8]) {
        self.write_piece(site, pmem, at, bytes, bytes.len() as u64);
    }

    /// At a [`SiteKind::Write`](crate::order::site::SiteKind::Write) site, for a piece of
    /// `whole_bytes` that go out before one fence. A short piece goes the way of the whole, because
    /// storing it would first read its lines from the medium.
    ///
    /// [`write`](Self::write) calls this with a piece that is the whole.
    #[inline]
    fn write_piece<P: Pmem>(
        &mut self,
        _site: Site,
        pmem: &mut P,
        at: Offset,
        bytes: &[u8],
        whole_bytes: u64,
    ) {
        if whole_bytes < pmem.facts().stream_from_bytes as u64 {
            store_and_flush(pmem, at, bytes);
        } else {
            pmem.stream(at, bytes);
        }
    }

    /// Whether it may be given pieces to put together ([`write_checked`](Self::write_checked)). By
    /// default it is given what was copied together, as one piece.
    #[inline]
    fn stitches(&self) -> bool {
        false
    }

    /// As [`write_piece`](Self::write_piece), of a whole that is put together from pieces, with its
    /// checks; returns that of all. By default each line is a piece of it.
    fn write_checked<P: Pmem>(
        &mut self,
        site: Site,
        pmem: &mut P,
        at: Offset,
        stitched: &Stitched<'_>,
        seeds: Seeds,
    ) -> u64 {
        stitched.each_checked_line(seeds, |offset, line| {
            let at = Offset(at.raw().saturating_add(offset as u64));
            self.write_piece(site, pmem, at, line, stitched.bytes() as u64);
        })
    }

    /// At a [`SiteKind::Fence`](crate::order::site::SiteKind::Fence) site.
    ///
    /// # Errors
    /// The medium's.
    #[inline(always)]
    fn fence<P: Pmem>(&mut self, _site: Site, pmem: &mut P) -> Result<(), MediumError> {
        pmem.fence()
    }

    /// At a [`SiteKind::DiskWrite`](crate::order::site::SiteKind::DiskWrite) site.
    ///
    /// # Errors
    /// The device's.
    #[inline]
    fn disk_write<D: BlockDevice>(
        &mut self,
        _site: Site,
        device: &mut D,
        first: BlockNumber,
        from: &[&[u8]],
    ) -> Result<(), DeviceError> {
        device.write_vectored(first, from)
    }

    /// At a [`SiteKind::DiskSync`](crate::order::site::SiteKind::DiskSync) site.
    ///
    /// # Errors
    /// The device's.
    #[inline]
    fn disk_sync<D: BlockDevice>(
        &mut self,
        _site: Site,
        device: &mut D,
    ) -> Result<(), DeviceError> {
        device.sync()
    }
}

/// The hook that does nothing; what every program but a test uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NoHook;

impl Hook for NoHook {
    #[inline]
    fn stitches(&self) -> bool {
        true
    }

    #[inline(always)]
    fn write_checked<P: Pmem>(
        &mut self,
        _site: Site,
        pmem: &mut P,
        at: Offset,
        stitched: &Stitched<'_>,
        seeds: Seeds,
    ) -> u64 {
        pmem.stream_checked(at, stitched, seeds)
    }
}

/// C2: it needs registers that had to be saved, and streaming does not.
#[inline(never)]
fn store_and_flush<P: Pmem>(pmem: &mut P, at: Offset, bytes: &[u8]) {
    pmem.store(at, bytes);
    pmem.flush(at, bytes.len());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Sequence;

    /// Compiles only while `T` lacks both `Send` and `Sync`: with either, the call is ambiguous.
    trait Neither<Marker> {
        fn check() {}
    }
    impl<T: ?Sized> Neither<()> for T {}
    #[allow(dead_code, reason = "exists only to make the call below ambiguous")]
    struct Sendable;
    impl<T: ?Sized + Send> Neither<Sendable> for T {}
    #[allow(dead_code, reason = "exists only to make the call below ambiguous")]
    struct Shareable;
    impl<T: ?Sized + Sync> Neither<Shareable> for T {}

    #[test]
    fn in_flight_is_bound_to_its_thread() {
        <InFlight as Neither<_>>::check();
        <InFlight<Sequence> as Neither<_>>::check();
    }

    #[test]
    fn the_states_cost_nothing() {
        assert_eq!(size_of::<InFlight>(), 0);
        assert_eq!(size_of::<Durable>(), 0);
        assert_eq!(size_of::<Unsynced>(), 0);
        assert_eq!(size_of::<InFlight<Sequence>>(), size_of::<Sequence>());
        assert_eq!(size_of::<Durable<Sequence>>(), size_of::<Sequence>());
        assert_eq!(size_of::<NoHook>(), 0);
        assert_eq!(size_of::<Ordered<[u8; 3]>>(), 3);
        assert_eq!(size_of::<OrderedDevice<[u8; 3]>>(), 3);
    }

    #[test]
    fn joined_ranges_cover_both() {
        let joined = |a: (u64, usize), b: (u64, usize)| {
            let dirty = |(at, len)| Dirty { at: Offset(at), len };
            let Dirty { at, len } = dirty(a).and(dirty(b));
            (at.raw(), len)
        };
        assert_eq!(joined((8, 8), (70, 10)), (8, 72));
        assert_eq!(joined((70, 10), (8, 8)), (8, 72));
        assert_eq!(joined((0, 192), (8, 8)), (0, 192));
        assert_eq!(joined((8, 8), (0, 192)), (0, 192));
    }
}
