//! How a range of any alignment is stored, streamed and read by whole words and whole lines.
//!
//! Guarantees: no word is ever torn, neither in memory nor beside a reader. A word that the range
//! covers in part is read, patched and stored whole. (Regions are cut at lines, so its other bytes
//! belong to the same writer.) A streamed range leaves nothing behind in the caches. The parts of
//! its first and last line are stored *and flushed*, the lines between are streamed. One fence
//! completes all of it.
//!
//! What a crash may do is said at [`journal_core::Pmem`]. The algorithms are generic over the
//! instructions, so that tests see every flush, and may leave one out.

use journal_core::{LINE_BYTES, WORD_BYTES};

use crate::processor::arch::Instructions;

/// Splits `bytes` where an address that is `misalignment` past a multiple of `unit` reaches the
/// next one.
#[inline]
fn split_head(bytes: &[u8], misalignment: usize, unit: usize) -> (&[u8], &[u8]) {
    let head = if misalignment == 0 { 0 } else { (unit - misalignment).min(bytes.len()) };
    bytes.split_at(head)
}

/// Stores `bytes` at `to`.
///
/// # Safety
/// `to..to + bytes.len()`, widened to whole words, lies inside one mapping whose words are aligned,
/// is written by nobody else, and read by others only through [`Instructions`]. `bytes` does not
/// overlap it.
#[inline]
pub(crate) unsafe fn store<I: Instructions>(with: I, to: *mut u8, bytes: &[u8]) {
    let (head, rest) = split_head(bytes, to.addr() % WORD_BYTES, WORD_BYTES);
    let mut to = to;
    if !head.is_empty() {
        // SAFETY: a part of the caller's range that lies inside one word.
        unsafe { patch(with, to, head) };
        to = to.wrapping_add(head.len());
    }
    let (words, tail) = rest.split_at(rest.len() - rest.len() % WORD_BYTES);
    if !words.is_empty() {
        // SAFETY: whole words of the caller's range; the head ended at a word.
        unsafe { with.store_words(to, words) };
    }
    if !tail.is_empty() {
        // SAFETY: a part of the caller's range that lies inside one word.
        unsafe { patch(with, to.wrapping_add(words.len()), tail) };
    }
}

/// Stores fewer bytes than a word, inside one word, by one store of the whole word.
///
/// # Safety
/// As [`store`].
#[inline]
unsafe fn patch<I: Instructions>(with: I, to: *mut u8, bytes: &[u8]) {
    let misalignment = to.addr() % WORD_BYTES;
    let word_at = to.wrapping_sub(misalignment);
    // SAFETY: the word that holds the bytes; the caller may access it whole.
    let mut word = unsafe { with.load_word(word_at) }.to_le_bytes();
    for (old, new) in word.iter_mut().skip(misalignment).zip(bytes) {
        *old = *new;
    }
    // SAFETY: the same word; nobody else writes, so nothing is lost between the two.
    unsafe { with.store_word(word_at, u64::from_le_bytes(word)) };
}

/// Writes `bytes` at `to` and puts all of it in flight, whole lines past the caches.
///
/// # Safety
/// As [`store`], with whole lines for whole words.
#[inline]
pub(crate) unsafe fn stream<I: Instructions>(with: I, to: *mut u8, bytes: &[u8]) {
    let (head, rest) = split_head(bytes, to.addr() % LINE_BYTES, LINE_BYTES);
    let mut to = to;
    if !head.is_empty() {
        // SAFETY: a part of the caller's range that lies inside one line.
        unsafe { store_and_flush(with, to, head) };
        to = to.wrapping_add(head.len());
    }
    let (lines, tail) = rest.split_at(rest.len() - rest.len() % LINE_BYTES);
    if !lines.is_empty() {
        // SAFETY: whole lines of the caller's range; the head ended at a line.
        unsafe { with.stream_lines(to, lines) };
    }
    if !tail.is_empty() {
        // SAFETY: a part of the caller's range that lies inside one line.
        unsafe { store_and_flush(with, to.wrapping_add(lines.len()), tail) };
    }
}

/// The part of a streamed range that covers its line only in part.
///
/// # Safety
/// As [`stream`], and the bytes lie inside one line.
#[inline]
unsafe fn store_and_flush<I: Instructions>(with: I, to: *mut u8, bytes: &[u8]) {
    // SAFETY: the caller's promise is the same.
    unsafe { store(with, to, bytes) };
    // SAFETY: the line of those bytes, which is mapped whole.
    unsafe { with.flush_lines(to.wrapping_sub(to.addr() % LINE_BYTES), 1) };
}

/// Copies what is at `from` into `into`, each word whole.
///
/// # Safety
/// `from..from + into.len()`, widened to whole words, lies inside one mapping whose words are
/// aligned and is written, if at all, through [`Instructions`]. `into` does not overlap it.
#[inline]
pub(crate) unsafe fn read<I: Instructions>(with: I, from: *const u8, into: &mut [u8]) {
    let misalignment = from.addr() % WORD_BYTES;
    let head = if misalignment == 0 { 0 } else { (WORD_BYTES - misalignment).min(into.len()) };
    let (head, rest) = into.split_at_mut(head);
    if !head.is_empty() {
        // SAFETY: the word that holds the first byte.
        let word = unsafe { with.load_word(from.wrapping_sub(misalignment)) }.to_le_bytes();
        for (to, byte) in head.iter_mut().zip(word.iter().skip(misalignment)) {
            *to = *byte;
        }
    }
    let from = from.wrapping_add(head.len());
    let (words, tail) = rest.split_at_mut(rest.len() - rest.len() % WORD_BYTES);
    if !words.is_empty() {
        // SAFETY: whole words of the caller's range; the head ended at a word.
        unsafe { with.load_words(from, words) };
    }
    if !tail.is_empty() {
        // SAFETY: the word that holds the last byte.
        let word = unsafe { with.load_word(from.wrapping_add(words.len())) }.to_le_bytes();
        for (to, byte) in tail.iter_mut().zip(word) {
            *to = byte;
        }
    }
}

#[cfg(test)]
mod tests;
