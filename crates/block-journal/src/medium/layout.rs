//! The blocks of the ring, byte by byte. The tables are in the crate's head.
//!
//! What is read here may be anything. Every function gives `None` for bytes that it cannot use.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use journal_core::check::crc64;

/// What every block of the journal's own begins with. An image that begins with it is escaped.
pub(crate) const MAGIC: [u8; 4] = *b"BJL1";
/// Bytes of the header that all of them share.
pub(crate) const HEADER_BYTES: usize = 24;
const CHECK_AT: usize = 16;
const TAG_BYTES: usize = 12;
const REVOKES_AT: usize = 32;

/// The image's first four bytes were the magic, and are zero in the ring.
pub(crate) const TAG_ESCAPED: u32 = 1;
/// No tag follows in this descriptor.
pub(crate) const TAG_LAST: u32 = 2;

/// What a block of the journal's own is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Descriptor,
    Commit,
    Superblock,
    Revoke,
}

impl Kind {
    const fn code(self) -> u32 {
        match self {
            Self::Descriptor => 1,
            Self::Commit => 2,
            Self::Superblock => 3,
            Self::Revoke => 4,
        }
    }

    const fn of(code: u32) -> Option<Self> {
        match code {
            1 => Some(Self::Descriptor),
            2 => Some(Self::Commit),
            3 => Some(Self::Superblock),
            4 => Some(Self::Revoke),
            _ => None,
        }
    }
}

/// One image that follows a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tag {
    pub(crate) block: u64,
    pub(crate) flags: u32,
}

/// What a commit block says of its transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CommitFields {
    /// Blocks of the transaction in the ring, the commit block not among them.
    pub(crate) blocks: u32,
    /// The check over those blocks, as they lie in the ring.
    pub(crate) check: u64,
}

/// A block of the journal's own, whose check is right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) kind: Kind,
    pub(crate) sequence: u64,
}

/// How many images one descriptor names.
pub(crate) const fn tags_per_block(block_bytes: usize) -> usize {
    block_bytes.saturating_sub(HEADER_BYTES) / TAG_BYTES
}

/// How many blocks one revoke block names.
pub(crate) const fn revokes_per_block(block_bytes: usize) -> usize {
    block_bytes.saturating_sub(REVOKES_AT) / 8
}

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|bytes| u16::from_le_bytes(*bytes))
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}

/// Puts bytes into a block; what lies behind its end is left out.
pub(crate) fn put(block: &mut [u8], at: usize, bytes: &[u8]) {
    if let Some(into) = block.get_mut(at..).and_then(|rest| rest.get_mut(..bytes.len())) {
        into.copy_from_slice(bytes);
    }
}

/// The check of a block: over all of it, with zeroes where the check lies.
fn check_of(block: &[u8], seed: u64) -> u64 {
    let before = block.get(..CHECK_AT).unwrap_or_default();
    let behind = block.get(HEADER_BYTES..).unwrap_or_default();
    crc64(crc64(crc64(seed, before), &[0; HEADER_BYTES - CHECK_AT]), behind)
}

/// Fills the header of a block whose other bytes are in place.
pub(crate) fn seal(block: &mut [u8], kind: Kind, sequence: u64, seed: u64) {
    put(block, 0, &MAGIC);
    put(block, 4, &kind.code().to_le_bytes());
    put(block, 8, &sequence.to_le_bytes());
    let check = check_of(block, seed);
    put(block, CHECK_AT, &check.to_le_bytes());
}

/// The header of a block, if the block is the journal's own and whole.
pub(crate) fn header(block: &[u8], seed: u64) -> Option<Header> {
    let (magic, _) = block.split_first_chunk::<4>()?;
    let kind = Kind::of(u32_at(block, 4)?)?;
    let sequence = u64_at(block, 8)?;
    let is_whole = *magic == MAGIC && u64_at(block, CHECK_AT)? == check_of(block, seed);
    is_whole.then_some(Header { kind, sequence })
}

/// A descriptor of these images.
pub(crate) fn descriptor(tags: &[Tag], block_bytes: usize, sequence: u64, seed: u64) -> Box<[u8]> {
    let mut block = vec![0; block_bytes];
    let mut at = HEADER_BYTES;
    for (index, tag) in (1..).zip(tags) {
        let last = if index == tags.len() { TAG_LAST } else { 0 };
        put(&mut block, at, &tag.block.to_le_bytes());
        put(&mut block, at.saturating_add(8), &(tag.flags | last).to_le_bytes());
        at = at.saturating_add(TAG_BYTES);
    }
    seal(&mut block, Kind::Descriptor, sequence, seed);
    block.into_boxed_slice()
}

/// The tags of a descriptor; `None` where no tag is the last, or a flag is unknown.
pub(crate) fn tags(block: &[u8]) -> Option<Vec<Tag>> {
    let mut tags = Vec::new();
    for bytes in block.get(HEADER_BYTES..)?.chunks_exact(TAG_BYTES) {
        let (block, flags) = (u64_at(bytes, 0)?, u32_at(bytes, 8)?);
        if flags & !(TAG_ESCAPED | TAG_LAST) != 0 {
            return None;
        }
        tags.push(Tag { block, flags });
        if flags & TAG_LAST != 0 {
            return Some(tags);
        }
    }
    None
}

/// A revoke block of at most [`revokes_per_block`] blocks.
pub(crate) fn revoke(revoked: &[u64], block_bytes: usize, sequence: u64, seed: u64) -> Box<[u8]> {
    let mut block = vec![0; block_bytes];
    let count = u32::try_from(revoked.len()).unwrap_or(u32::MAX);
    put(&mut block, HEADER_BYTES, &count.to_le_bytes());
    let mut at = REVOKES_AT;
    for number in revoked {
        put(&mut block, at, &number.to_le_bytes());
        at = at.saturating_add(8);
    }
    seal(&mut block, Kind::Revoke, sequence, seed);
    block.into_boxed_slice()
}

/// The blocks that a revoke block names; `None` where it claims more than it has.
pub(crate) fn revoked(block: &[u8]) -> Option<Vec<u64>> {
    let count = usize::try_from(u32_at(block, HEADER_BYTES)?).ok()?;
    let numbers = block.get(REVOKES_AT..)?.get(..count.checked_mul(8)?)?;
    Some(numbers.chunks_exact(8).filter_map(|bytes| u64_at(bytes, 0)).collect())
}

/// The commit block of a transaction.
pub(crate) fn commit(
    fields: CommitFields,
    block_bytes: usize,
    sequence: u64,
    seed: u64,
) -> Box<[u8]> {
    let mut block = vec![0; block_bytes];
    put(&mut block, 24, &fields.blocks.to_le_bytes());
    put(&mut block, 32, &fields.check.to_le_bytes());
    seal(&mut block, Kind::Commit, sequence, seed);
    block.into_boxed_slice()
}

/// What a commit block says.
pub(crate) fn commit_fields(block: &[u8]) -> Option<CommitFields> {
    Some(CommitFields { blocks: u32_at(block, 24)?, check: u64_at(block, 32)? })
}

/// Whether an image has to be escaped.
pub(crate) fn begins_with_magic(image: &[u8]) -> bool {
    image.starts_with(&MAGIC)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEED: u64 = 7;

    #[test]
    fn what_is_written_is_read() {
        let tags_in = [Tag { block: 3, flags: TAG_ESCAPED }, Tag { block: u64::MAX, flags: 0 }];
        let block = descriptor(&tags_in, 64, 9, SEED);
        let read = header(&block, SEED);
        assert_eq!(read, Some(Header { kind: Kind::Descriptor, sequence: 9 }));
        let last = Tag { flags: TAG_LAST, ..tags_in[1] };
        assert_eq!(tags(&block), Some(vec![tags_in[0], last]));

        let block = revoke(&[5, 6], 64, 9, SEED);
        assert_eq!(header(&block, SEED).map(|header| header.kind), Some(Kind::Revoke));
        assert_eq!(revoked(&block), Some(vec![5, 6]));

        let fields = CommitFields { blocks: 4, check: 11 };
        let block = commit(fields, 64, 9, SEED);
        assert_eq!(header(&block, SEED).map(|header| header.kind), Some(Kind::Commit));
        assert_eq!(commit_fields(&block), Some(fields));
        assert_eq!(header(&block, SEED + 1), None, "a block of another journal");
    }

    #[test]
    fn every_changed_bit_is_noticed() {
        let block = descriptor(&[Tag { block: 3, flags: 0 }], 64, 9, SEED);
        for bit in 0..block.len() * 8 {
            let mut changed = block.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(header(&changed, SEED), None, "bit {bit}");
        }
    }

    #[test]
    fn whole_blocks_with_impossible_content_are_refused() {
        let mut endless = vec![0; 64];
        seal(&mut endless, Kind::Descriptor, 1, SEED);
        assert_eq!(tags(&endless), None);
        let mut long = vec![0; 64];
        put(&mut long, 24, &5_u32.to_le_bytes());
        seal(&mut long, Kind::Revoke, 1, SEED);
        assert_eq!(revoked(&long), None);
        assert_eq!((tags_per_block(64), revokes_per_block(64)), (3, 4));
        assert_eq!((tags_per_block(4096), revokes_per_block(4096)), (339, 508));
    }
}
