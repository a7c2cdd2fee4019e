//! Every other processor, and Miri: whole words by relaxed atomic accesses, and no flush.
//!
//! What a crash may do: this file makes nothing durable. It offers no flush, so that mappings over
//! it are page-granular and the operating system does the work; the facts of such a mapping say so.
//! Ordinary memory (the stand-in for tests) works as elsewhere.

use core::sync::atomic::{AtomicU64, Ordering, fence as atomic_fence};

use journal_core::WORD_BYTES;

use crate::processor::choices::{Choices, FlushMethod, StreamMethod};

/// What a method carries besides its choices: nothing here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PortableDetails;

/// What this processor is known to have: nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PortableCpu;

impl PortableCpu {
    pub(crate) fn detect() -> Self {
        Self
    }

    pub(crate) fn flushes(self) -> impl Iterator<Item = FlushMethod> {
        core::iter::empty()
    }

    pub(crate) fn streams(self) -> impl Iterator<Item = StreamMethod> {
        [StreamMethod::StoreAndFlush].into_iter()
    }

    /// Streaming is storing and flushing: it is never cheaper.
    pub(crate) fn stream_from_bytes(self) -> usize {
        usize::MAX
    }

    pub(crate) fn details(self, _flush: FlushMethod) -> PortableDetails {
        PortableDetails
    }
}

#[inline]
pub(in crate::processor) unsafe fn store_word(to: *mut u8, value: u64) {
    // SAFETY: the caller gives an aligned word that may be written, and everybody accesses it by
    // this file, as one atomic word.
    let word = unsafe { AtomicU64::from_ptr(to.cast()) };
    word.store(value.to_le(), Ordering::Relaxed);
}

#[inline]
pub(in crate::processor) unsafe fn load_word(from: *const u8) -> u64 {
    // SAFETY: the caller gives an aligned word that may be read, and everybody accesses it by this
    // file, as one atomic word. Nothing is written through the pointer.
    let word = unsafe { AtomicU64::from_ptr(from.cast_mut().cast()) };
    u64::from_le(word.load(Ordering::Relaxed))
}

#[inline]
pub(in crate::processor) unsafe fn store_words(to: *mut u8, from: &[u8]) {
    for (index, word) in from.chunks_exact(WORD_BYTES).enumerate() {
        let mut bytes = [0; WORD_BYTES];
        bytes.copy_from_slice(word);
        // SAFETY: word number `index` of the caller's range.
        unsafe { store_word(to.wrapping_add(index * WORD_BYTES), u64::from_le_bytes(bytes)) };
    }
}

#[inline]
pub(in crate::processor) unsafe fn load_words(from: *const u8, into: &mut [u8]) {
    for (index, word) in into.chunks_exact_mut(WORD_BYTES).enumerate() {
        // SAFETY: word number `index` of the caller's range.
        let value = unsafe { load_word(from.wrapping_add(index * WORD_BYTES)) };
        word.copy_from_slice(&value.to_le_bytes());
    }
}

#[inline]
pub(in crate::processor) unsafe fn flush_lines(
    _choices: Choices<PortableDetails>,
    _first: *mut u8,
    _count: usize,
) {
}

#[inline]
pub(in crate::processor) fn fence(_choices: Choices<PortableDetails>) {
    atomic_fence(Ordering::SeqCst);
}

#[inline]
pub(in crate::processor) unsafe fn stream_lines(
    _choices: Choices<PortableDetails>,
    to: *mut u8,
    from: &[u8],
) {
    // SAFETY: the caller's promise is the same.
    unsafe { store_words(to, from) };
}
