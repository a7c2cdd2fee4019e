//! An exclusive range of a span, and the readers beside it: the port [`Pmem`] on real memory.
//!
//! Guarantees: regions of a span never overlap, so each has one writer. Only the region itself
//! lends `bytes`, so what it shows does not change. Readers copy, by words that are never torn.
//! What a crash may do to each call is said in the port. A wrong order of calls loses data, never
//! memory safety.
//!
//! In the usual case (line-granular memory) a call here is a range check, one branch on how the
//! span becomes durable, and the instructions. There is no lock, no allocation, no call through a
//! pointer.

use core::fmt;
use std::sync::Arc;

use journal_core::{
    LINE_BYTES, MediumError, MediumErrorKind, Offset, Pmem, PmemFacts, PmemRead, PmemShare,
    PmemSplit, Seeds, Stitched, WORD_BYTES,
};

use crate::lines::lines;
use crate::map::facts::MapFacts;
use crate::map::pages::SyncError;
use crate::processor::arch::{Cpu, Instructions};
use crate::processor::choices::{FlushMethod, StreamMethod};
use crate::processor::kernels::prefetch_line;
use crate::processor::method::{Method, UnsupportedMethod};
use crate::processor::stitch::Stitcher;
use crate::processor::write;
use crate::region::span::{Durability, Span};
use crate::region::visibility::Streamer;

pub(crate) mod calibrate;
pub(crate) mod emulator;
pub(crate) mod options;
pub(crate) mod span;
pub(crate) mod visibility;

/// A fixed range of a span, which it keeps alive.
#[derive(Clone)]
struct Range {
    /// Address of the first byte: aligned to a line, `len` bytes of the mapping from there.
    base: *mut u8,
    /// A multiple of the line.
    len: usize,
    method: Method,
    span: Arc<Span>,
}

// SAFETY: the address is valid in every thread for as long as `span` lives. What is done through
// it is decided by `Region` (exclusive, or shared reads) and `Reader` (tearing-free copies).
unsafe impl Send for Range {}
// SAFETY: as above; a shared `Range` only reads.
unsafe impl Sync for Range {}

impl Range {
    /// The address of `at`, if `len` bytes from there lie inside.
    #[inline]
    fn checked(&self, at: Offset, len: usize) -> Option<*mut u8> {
        let start = usize::try_from(at.raw()).ok()?;
        let end = start.checked_add(len)?;
        (end <= self.len).then(|| self.base.wrapping_add(start))
    }

    /// The address of `at`, where the range was computed by the caller.
    #[inline]
    #[track_caller]
    fn expected(&self, at: Offset, len: usize) -> *mut u8 {
        match self.checked(at, len) {
            Some(address) => address,
            None => outside(at, len, self.len),
        }
    }

    /// The address of `at`, where the range may come from a medium.
    #[inline]
    fn readable(&self, at: Offset, len: usize) -> Result<*mut u8, MediumError> {
        if self.span.is_stuck() {
            return Err(MediumError::new(MediumErrorKind::Stuck, at, len));
        }
        self.checked(at, len).ok_or(MediumError::new(MediumErrorKind::OutOfRange, at, len))
    }

    #[inline]
    fn read_into(&self, at: Offset, into: &mut [u8]) -> Result<(), MediumError> {
        let from = self.readable(at, into.len())?;
        // SAFETY: checked to lie in this range, which is aligned to lines at both ends. Writers use
        // `Instructions`. `into` is a reference, and nobody lends a mutable one into a mapping.
        unsafe { write::read(self.method, from, into) };
        Ok(())
    }

    /// Begins to bring what lies there into the caches.
    #[inline]
    fn prefetch(&self, at: Offset, len: usize) {
        let Some(from) = self.checked(at, len) else { return };
        for line in (0..len).step_by(LINE_BYTES) {
            prefetch_line(from.wrapping_add(line));
        }
    }

    /// Where the range begins in its span.
    fn start_in_span(&self) -> usize {
        self.base.addr() - self.span.base().addr()
    }
}

/// Streams lines that cannot be put together in registers. All arguments are by value (C1): if a
/// reference is taken of one, it has to be in memory for all.
#[cold]
fn stream_lines(region: &mut Region, at: Offset, stitched: Stitched<'_>, seeds: Seeds) -> u64 {
    stitched.each_checked_line(seeds, |offset, line| {
        region.stream(Offset(at.raw() + offset as u64), line);
    })
}

/// Whether lines for a range are better put together in registers.
fn stitcher_of(range: &Range) -> Option<Stitcher> {
    let is_usual = matches!(range.span.durability(), Durability::Lines);
    let is_wide = range.method.stream() == StreamMethod::Avx512;
    if is_usual && is_wide { Stitcher::detect() } else { None }
}

#[cold]
#[inline(never)]
#[track_caller]
fn outside(at: Offset, len: usize, region_len: usize) -> ! {
    panic!("{len} bytes at {at} leave a region of {region_len} bytes")
}

/// An exclusive region of persistent memory, or of what stands in for it.
///
/// It can be sent to another thread. `MapOptions` gives the first one, which covers the span;
/// [`PmemSplit`] cuts it, [`PmemShare`] lends readers. The file stays open and locked until the
/// last region and the last reader are gone. A child process made by `fork` may drop a region that
/// it inherited, and must not use it.
pub struct Region {
    range: Range,
    stream_from_bytes: usize,
    /// Only where whole lines are streamed by the widest registers, to ordinary memory.
    stitcher: Option<Stitcher>,
    streamer: Streamer,
}

impl Region {
    /// The region that covers a span.
    pub(crate) fn whole(span: Span) -> Self {
        let facts = span.facts();
        let (base, len) = (span.base(), span.len());
        debug_assert!(base.addr() % LINE_BYTES == 0 && len % LINE_BYTES == 0);
        let stream_from_bytes = match span.durability() {
            // Streaming and storing are ordinary stores and the same system call here.
            Durability::Pages(_) => usize::MAX,
            _ => Cpu::detect().stream_from_bytes(),
        };
        let range = Range { base, len, method: facts.method, span: Arc::new(span) };
        let stitcher = stitcher_of(&range);
        Self { range, stream_from_bytes, stitcher, streamer: Streamer::new() }
    }

    /// How the span reaches durability, why this way, and by which instructions.
    #[must_use]
    pub fn map_facts(&self) -> MapFacts {
        self.range.span.facts()
    }

    /// This region, said to stream from this many bytes on ([`PmemFacts::stream_from_bytes`]).
    /// Parts that are cut from it inherit that.
    #[must_use]
    pub fn with_stream_from_bytes(self, bytes: usize) -> Self {
        Self { stream_from_bytes: bytes, ..self }
    }

    /// Goes on with other instructions than the span's, for measurements on the same memory.
    ///
    /// Call it only between a fence and the next store: what one method put in flight, the fence of
    /// another need not complete.
    ///
    /// # Errors
    /// The method flushes nothing ([`FlushMethod::Nothing`]: it comes from a medium whose caches
    /// survive a power loss), and the span is not said to be such a one. Nothing is changed then.
    pub fn set_method(&mut self, method: Method) -> Result<(), UnsupportedMethod> {
        let own = self.map_facts().method;
        if method.flush() == FlushMethod::Nothing && own.flush() != FlushMethod::Nothing {
            return Err(UnsupportedMethod { flush: method.flush(), stream: method.stream() });
        }
        self.range.method = method;
        self.stitcher = stitcher_of(&self.range);
        Ok(())
    }

    /// Flushes the lines of a range by another method than the region's, and charges nothing.
    #[inline]
    pub(crate) fn flush_by(&mut self, method: Method, at: Offset, len: usize) -> usize {
        let to = self.range.expected(at, len);
        let run = lines(to.addr(), len);
        let first = to.wrapping_sub(to.addr() - run.start);
        // SAFETY: the lines that a range of this region touches; its ends are aligned to lines.
        unsafe { method.flush_lines(first, run.count) };
        run.count
    }

    /// `Transient` if another thread's streamed bytes cannot be waited for.
    #[inline]
    fn make_visible(&self, at: Offset, len: usize) -> Result<(), MediumError> {
        if self.streamer.make_visible() {
            Ok(())
        } else {
            Err(MediumError::new(MediumErrorKind::Transient, at, len))
        }
    }

    /// Streams what is not whole lines, or not to ordinary memory. It is a function of its own, so
    /// that the usual way saves no registers (C2).
    #[inline(never)]
    fn stream_otherwise(&mut self, at: Offset, bytes: &[u8]) {
        let to = self.range.expected(at, bytes.len());
        if let Durability::Pages(pages) = self.range.span.durability() {
            // The kernel writes pages back: past the cache there is nothing to gain.
            // SAFETY: as in `store`.
            unsafe { write::store(self.range.method, to, bytes) };
            pages.flushed(to.addr() - self.range.span.base().addr(), bytes.len());
            return;
        }
        self.streamer.mark();
        // SAFETY: as in `store`; the region's ends are aligned to lines, so the lines are ours.
        unsafe { write::stream(self.range.method, to, bytes) };
        if let Durability::Emulated(emulator) = self.range.span.durability() {
            emulator.streamed(lines(to.addr(), bytes.len()).count);
        }
    }

    /// Everything in flight, as the range of an error.
    fn failed(&self, kind: MediumErrorKind) -> MediumError {
        MediumError::new(kind, Offset(0), self.range.len)
    }

    #[cold]
    fn fence_failed(&self, error: SyncError) -> MediumError {
        self.failed(match error {
            SyncError::Failed(errno) => {
                MediumErrorKind::FenceFailed { os: Some(errno.raw_os_error()) }
            }
            SyncError::Stuck => MediumErrorKind::Stuck,
        })
    }
}

impl PmemRead for Region {
    #[inline]
    fn len(&self) -> u64 {
        self.range.len as u64
    }

    #[inline]
    fn read_into(&self, at: Offset, into: &mut [u8]) -> Result<(), MediumError> {
        self.make_visible(at, into.len())?;
        self.range.read_into(at, into)
    }

    #[inline]
    fn prefetch(&self, at: Offset, len: usize) {
        self.range.prefetch(at, len);
    }
}

impl Pmem for Region {
    #[inline]
    fn facts(&self) -> PmemFacts {
        PmemFacts::new(self.range.span.facts().granularity)
            .with_stream_from_bytes(self.stream_from_bytes)
            .with_stitches(self.stitcher.is_some())
    }

    #[inline]
    fn bytes(&self, at: Offset, len: usize) -> Result<&[u8], MediumError> {
        let start = self.range.readable(at, len)?;
        self.make_visible(at, len)?;
        // SAFETY: the bytes are mapped, initialised, and no longer than half the address space. For
        // as long as `self` is borrowed nobody writes them. Writing needs `&mut` of this region,
        // and no other region overlaps it. What other threads streamed is visible, and the file is
        // locked against other processes (see the crate's documentation on trust).
        Ok(unsafe { core::slice::from_raw_parts(start, len) })
    }

    #[inline]
    fn store(&mut self, at: Offset, bytes: &[u8]) {
        let to = self.range.expected(at, bytes.len());
        // SAFETY: checked to lie in this region, which is aligned to lines at both ends and written
        // through this `&mut` alone. A `bytes` inside it would be lent by this region's `bytes`,
        // whose borrow has ended.
        unsafe { write::store(self.range.method, to, bytes) };
    }

    #[inline]
    fn store_u64(&mut self, at: Offset, value: u64) {
        let to = self.range.expected(at, WORD_BYTES);
        assert!(to.addr() % WORD_BYTES == 0, "a word at {at} is not aligned");
        // SAFETY: checked to be an aligned word of this region, which only we write.
        unsafe { self.range.method.store_word(to, value) };
    }

    #[inline]
    fn stream(&mut self, at: Offset, bytes: &[u8]) {
        let to = self.range.expected(at, bytes.len());
        let is_usual = matches!(self.range.span.durability(), Durability::Lines);
        if !is_usual || to.addr() % LINE_BYTES != 0 || bytes.len() % LINE_BYTES != 0 {
            return self.stream_otherwise(at, bytes);
        }
        self.streamer.mark();
        // SAFETY: as in `store`, and whole lines.
        unsafe { self.range.method.stream_lines(to, bytes) };
    }

    #[inline(always)]
    fn stream_checked(&mut self, at: Offset, stitched: &Stitched<'_>, seeds: Seeds) -> u64 {
        let to = self.range.expected(at, stitched.bytes());
        let stitcher = self.stitcher.filter(|_| to.addr() % LINE_BYTES == 0);
        let Some(stitcher) = stitcher.filter(|_| Stitcher::can(stitched)) else {
            return stream_lines(self, at, *stitched, seeds);
        };
        self.streamer.mark();
        // SAFETY: as in `stream`, and whole lines.
        unsafe { stitcher.stream(to, stitched, seeds) }
    }

    #[inline]
    fn flush(&mut self, at: Offset, len: usize) {
        match self.range.span.durability() {
            Durability::Pages(pages) => {
                let to = self.range.expected(at, len);
                pages.flushed(to.addr() - self.range.span.base().addr(), len);
            }
            _ => {
                let count = self.flush_by(self.range.method, at, len);
                if let Durability::Emulated(emulator) = self.range.span.durability() {
                    emulator.flushed(count);
                }
            }
        }
    }

    #[inline(always)]
    fn fence(&mut self) -> Result<(), MediumError> {
        match self.range.span.durability() {
            Durability::Lines => self.range.method.fence(),
            Durability::Emulated(emulator) => {
                self.range.method.fence();
                emulator.fenced();
            }
            Durability::Pages(pages) => {
                return pages.fence().map_err(|error| self.fence_failed(error));
            }
        }
        self.streamer.clear();
        Ok(())
    }
}

impl PmemSplit for Region {
    fn split_at(self, at: Offset) -> Result<(Self, Self), MediumError> {
        let outside = || self.failed(MediumErrorKind::OutOfRange);
        let cut = usize::try_from(at.raw()).map_err(|_| outside())?;
        if cut > self.range.len || cut % LINE_BYTES != 0 {
            return Err(MediumError::new(MediumErrorKind::OutOfRange, at, 0));
        }
        let part = |from: usize, len: usize| Self {
            range: Range { base: self.range.base.wrapping_add(from), len, ..self.range.clone() },
            stream_from_bytes: self.stream_from_bytes,
            stitcher: self.stitcher,
            streamer: self.streamer.part(),
        };
        Ok((part(0, cut), part(cut, self.range.len - cut)))
    }
}

impl PmemShare for Region {
    type Reader = Reader;

    fn reader(&self) -> Reader {
        Reader { range: self.range.clone() }
    }
}

impl fmt::Debug for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Region")
            .field("start", &self.range.start_in_span())
            .field("len", &self.range.len)
            .field("facts", &self.map_facts())
            .finish_non_exhaustive()
    }
}

/// Copies from a region while it is written.
///
/// Words are never torn. Words that the writer *streamed* are certain to be seen only once it has
/// fenced; what was stored is seen as any other memory is.
#[derive(Clone)]
pub struct Reader {
    range: Range,
}

impl PmemRead for Reader {
    #[inline]
    fn len(&self) -> u64 {
        self.range.len as u64
    }

    #[inline]
    fn read_into(&self, at: Offset, into: &mut [u8]) -> Result<(), MediumError> {
        self.range.read_into(at, into)
    }

    #[inline]
    fn prefetch(&self, at: Offset, len: usize) {
        self.range.prefetch(at, len);
    }
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader")
            .field("start", &self.range.start_in_span())
            .field("len", &self.range.len)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
