//! The first port: byte-addressable persistent memory.
//!
//! A *span* is everything a journal was given. It splits into exclusive *regions* (one per lane,
//! the slots, the superblock), each written through one `&mut` handle. There is no `&mut [u8]` into
//! the medium, so that an implementation of the port sees every store.
//!
//! The trait is safe: a caller that orders its calls wrongly loses data, never memory safety.
//! [`crate::order`] is the way to call it that does not compile when the order is wrong.
//!
//! # What a crash may do
//!
//! Every method's doc states it. In one place:
//!
//! - A *word* is 8 aligned bytes. Of each word that was stored and not yet made durable, a power
//!   loss leaves the durable content or any content stored since. Each word goes by itself. Nothing
//!   else changes.
//! - A *fence* that returned `Ok` has made durable everything that **this thread** flushed or
//!   streamed before it. It says nothing about flushes and streams of other threads.
//! - A killed process loses nothing it stored, and has made nothing durable by dying. The next
//!   process sees the stores, and a later power loss may still forget them.

use core::fmt;

use crate::ports::error::MediumError;
use crate::ports::stitched::{Seeds, Stitched};
use crate::units::{LINE_BYTES, Offset};

/// How far a store has to be pushed before a power loss cannot take it back.
///
/// Ordered from the strongest medium to the weakest: `Store < Line < Page`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Granularity {
    /// Visible means durable (caches are in the power-fail domain); flushes are free, fences are
    /// still needed to order and to drain streamed bytes.
    Store,
    /// A line flush and a fence: NVDIMM or CXL memory mapped with DAX, battery-backed DRAM.
    Line,
    /// A system call per fence: a file in the page cache, written back by `msync` or `fdatasync`.
    Page,
}

/// What a medium says of itself; constant for the life of the handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PmemFacts {
    /// How durability is reached.
    pub granularity: Granularity,
    /// From this many bytes on, [`Pmem::stream`] is cheaper than [`Pmem::store`] and
    /// [`Pmem::flush`]. A matter of speed only.
    pub stream_from_bytes: usize,
    /// Whether [`Pmem::stream_checked`] is better than to be given lines that were copied together.
    /// A matter of speed only.
    pub stitches: bool,
}

impl PmemFacts {
    /// Facts of a medium with this granularity. It streams from five lines on, which is where
    /// streaming begins to win on the processors measured so far.
    #[must_use]
    pub const fn new(granularity: Granularity) -> Self {
        Self { granularity, stream_from_bytes: 4 * LINE_BYTES + 1, stitches: false }
    }

    /// The facts with another streaming threshold.
    #[must_use]
    pub const fn with_stream_from_bytes(self, bytes: usize) -> Self {
        Self { stream_from_bytes: bytes, ..self }
    }

    /// The facts with another answer to whether the medium stitches.
    #[must_use]
    pub const fn with_stitches(self, stitches: bool) -> Self {
        Self { stitches, ..self }
    }
}

/// Reading by copy: what regions and shared readers have in common.
pub trait PmemRead {
    /// Bytes in the region, constant for its life.
    fn len(&self) -> u64;

    /// Whether the region has no bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies the current content at `at` into `into`.
    ///
    /// Sees every store made so far, durable or not, so what was read may be gone after a crash.
    /// Beside a writer of the same bytes (through [`PmemShare::Reader`]) each word is old or new.
    /// The whole may mix both: the caller validates what it read.
    ///
    /// # Errors
    /// `OutOfRange`, `Poisoned`, `Transient`, or `Stuck`; `into` then holds anything.
    fn read_into(&self, at: Offset, into: &mut [u8]) -> Result<(), MediumError>;

    /// Begins to bring bytes into the caches that will soon be read, and does not wait for them. A
    /// range outside the region is not touched. A matter of speed only.
    #[inline]
    fn prefetch(&self, at: Offset, len: usize) {
        let _ = (at, len);
    }
}

/// One exclusive region of persistent memory.
///
/// # Panics
/// [`store`](Self::store), [`store_u64`](Self::store_u64), [`stream`](Self::stream) and
/// [`flush`](Self::flush) panic when the range leaves the region (or the word is not aligned). The
/// caller computed it, so it is a bug, as with a slice index. The four calls cannot fail otherwise.
/// A medium whose stores can fail remembers the failure and fails the next [`fence`](Self::fence).
pub trait Pmem: PmemRead {
    /// What this medium is.
    fn facts(&self) -> PmemFacts;

    /// The current content at `at`, without a copy. A scan asks for all of a lane at once, and for
    /// less where some of that is poisoned. So what a call takes should not grow with the length.
    ///
    /// # Errors
    /// As [`PmemRead::read_into`].
    fn bytes(&self, at: Offset, len: usize) -> Result<&[u8], MediumError>;

    /// Writes `bytes` at `at`, at any alignment.
    ///
    /// **Crash**: until flushed and fenced, each word of the range holds its durable content or any
    /// content stored since. Words decide by themselves, in no order, not even inside one call. A
    /// partly covered word keeps its other bytes.
    fn store(&mut self, at: Offset, bytes: &[u8]);

    /// Writes one aligned word by a single store: readers and crashes see it old or new, never
    /// mixed. `value` is placed little-endian.
    ///
    /// **Crash**: as [`store`](Self::store).
    fn store_u64(&mut self, at: Offset, value: u64);

    /// Writes `bytes` at `at`, at any alignment, past the caches, and puts them in flight: no
    /// flush is needed. Do not store to or flush the same lines before the next fence.
    ///
    /// **Crash**: until this thread's next fence, as [`store`](Self::store). Bytes of lines that
    /// the range covers only in part are in flight like the others.
    fn stream(&mut self, at: Offset, bytes: &[u8]);

    /// Streams what is put together from pieces, with its checks, at a line; returns the check of
    /// all.
    ///
    /// **Crash**: as [`stream`](Self::stream) of the same bytes. The default streams each line by
    /// itself.
    fn stream_checked(&mut self, at: Offset, stitched: &Stitched<'_>, seeds: Seeds) -> u64 {
        stitched.each_checked_line(seeds, |offset, line| {
            self.stream(Offset(at.raw().saturating_add(offset as u64)), line);
        })
    }

    /// Puts every line that `at..at + len` touches in flight. A `len` of zero does nothing.
    ///
    /// **Crash**: the lines may become durable from now on, in any order. They are durable once
    /// this thread's next fence returns `Ok`, with the content they had at the flush or later. A
    /// fence of another thread proves nothing about them.
    fn flush(&mut self, at: Offset, len: usize);

    /// Makes durable everything that this thread flushed or streamed so far, through any region of
    /// the same span. Orders all of it before whatever this thread stores afterwards.
    ///
    /// **Crash**: before it returns, as before the call; after `Ok`, none of it can be lost.
    ///
    /// # Errors
    /// `FenceFailed`: the outcome of everything in flight is unknown, and stays unknown: do not
    /// try again. From then on every call of the span that can fail answers `Stuck`.
    fn fence(&mut self) -> Result<(), MediumError>;
}

/// A region that can be cut in two exclusive ones.
pub trait PmemSplit: Pmem + Sized {
    /// Cuts the region: the first part ends at `at`, the second begins there, counted from zero
    /// again. Both still belong to one span: a fence through either completes both.
    ///
    /// # Errors
    /// `OutOfRange` when `at` lies outside the region or is not a multiple of the line. The
    /// region is gone then: a journal is laid out once, before anything is written.
    fn split_at(self, at: Offset) -> Result<(Self, Self), MediumError>;
}

/// A region whose bytes may be read by others while it is written.
pub trait PmemShare: Pmem {
    /// A cheap handle that reads by copy and never blocks the writer.
    type Reader: PmemRead + Clone + Send + Sync + fmt::Debug;

    /// A reader of this region. It may outlive the region's handle.
    fn reader(&self) -> Self::Reader;
}

impl<P: PmemRead + ?Sized> PmemRead for &mut P {
    #[inline]
    fn len(&self) -> u64 {
        (**self).len()
    }

    #[inline]
    fn read_into(&self, at: Offset, into: &mut [u8]) -> Result<(), MediumError> {
        (**self).read_into(at, into)
    }

    #[inline]
    fn prefetch(&self, at: Offset, len: usize) {
        (**self).prefetch(at, len);
    }
}

impl<P: Pmem + ?Sized> Pmem for &mut P {
    #[inline]
    fn facts(&self) -> PmemFacts {
        (**self).facts()
    }

    #[inline]
    fn bytes(&self, at: Offset, len: usize) -> Result<&[u8], MediumError> {
        (**self).bytes(at, len)
    }

    #[inline]
    fn store(&mut self, at: Offset, bytes: &[u8]) {
        (**self).store(at, bytes);
    }

    #[inline]
    fn store_u64(&mut self, at: Offset, value: u64) {
        (**self).store_u64(at, value);
    }

    #[inline]
    fn stream(&mut self, at: Offset, bytes: &[u8]) {
        (**self).stream(at, bytes);
    }

    #[inline]
    fn stream_checked(&mut self, at: Offset, stitched: &Stitched<'_>, seeds: Seeds) -> u64 {
        (**self).stream_checked(at, stitched, seeds)
    }

    #[inline]
    fn flush(&mut self, at: Offset, len: usize) {
        (**self).flush(at, len);
    }

    #[inline]
    fn fence(&mut self) -> Result<(), MediumError> {
        (**self).fence()
    }
}
