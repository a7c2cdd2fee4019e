//! What a store may copy of a journal's own memory.

use journal_core::units::LINE_BYTES;

use lab::oracle::{BLOCK_BYTES, Block};

const LINE: u64 = LINE_BYTES as u64;
/// Lanes of a journal at most.
const LANES_MAX: usize = 3;

/// What looks like the header of a record.
struct Header<'a> {
    line: &'a [u8],
    lane: usize,
    /// Its lane offset, and the one behind its part.
    position: u64,
    end: u64,
}

impl<'a> Header<'a> {
    fn of(line: &'a [u8], lane_bytes: u64) -> Option<Self> {
        let word = |at: usize| {
            line[at..at + 8].iter().rev().fold(0_u64, |word, byte| word << 8 | u64::from(*byte))
        };
        let (lane, lines) = (usize::from(line[15]), word(8) & 0xFFFF_FFFF);
        let (position, sequence) = (word(16), word(24));
        let is_placed = position % LINE == 0 && position < 1 << 20;
        let can_be = is_placed && (1..1 << 16).contains(&sequence) && lines * LINE <= lane_bytes;
        can_be.then_some(Self { line, lane, position, end: position + lines * LINE })
    }
}

/// A block of the memory; a number says which. Mostly it looks like the header of a record. Most of
/// those may come to lie in another lane where they lie in their own.
pub(super) fn copied(memory: &[u8], lane_bytes: u64, which: u16) -> Block {
    let lines = memory.chunks_exact(LINE_BYTES);
    let headers: Vec<Header<'_>> = lines.filter_map(|line| Header::of(line, lane_bytes)).collect();
    let mut tails = [None; LANES_MAX];
    for header in &headers {
        if let Some(tail) = tails.get_mut(header.lane) {
            *tail = (*tail).max(Some(header.end));
        }
    }
    let is_near = |header: &&Header<'_>| {
        let others = tails.iter().enumerate().filter(|(lane, _)| *lane != header.lane);
        let mut ahead = others.filter_map(|(_, tail)| header.position.checked_sub((*tail)?));
        ahead.any(|ahead| (1..8 * LINE).contains(&ahead))
    };
    let near: Vec<&Header<'_>> = headers.iter().filter(is_near).collect();
    let (dice, which) = (which % 16, usize::from(which / 16));
    let bytes = match (near.len(), headers.len()) {
        (count @ 1.., _) if dice < 10 => near[which % count].line,
        (_, count @ 1..) if dice < 14 => headers[which % count].line,
        _ => &memory[which * 7 % (memory.len() - BLOCK_BYTES)..][..BLOCK_BYTES],
    };
    let mut block = [0; BLOCK_BYTES];
    block.copy_from_slice(bytes);
    block
}
