//! What images of an ext4 file system say of time and place: when inodes changed, and which blocks
//! a bitmap allocates.

use core::ops::Range;
use std::collections::BTreeMap;

use crate::trace::{State, class};

const SUPERBLOCK_AT: usize = 1024;
const MAGIC: u64 = 0xEF53;
const INODE_BYTES: usize = class::object_bytes(class::INODES) as usize;

/// Offsets of the superblock, of a group's descriptor and of an inode.
mod at {
    pub(super) const FIRST_DATA_BLOCK: usize = 0x14;
    pub(super) const GROUP_BLOCKS: usize = 0x20;
    pub(super) const MAGIC: usize = 0x38;
    pub(super) const DESCRIPTOR_BYTES: usize = 0xFE;
    pub(super) const BITMAP: usize = 0;
    pub(super) const BITMAP_HIGH: usize = 0x20;
    pub(super) const CHANGED: usize = 0x0C;
    pub(super) const CHANGED_EXTRA: usize = 0x84;
}

fn number(bytes: &[u8], at: usize, len: usize) -> Option<u64> {
    let bytes = bytes.get(at..at + len)?;
    Some(bytes.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
}

/// Where the blocks lie that bitmaps are of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Groups {
    /// The first block of a group, by the block of its bitmap.
    firsts: BTreeMap<u64, u64>,
    blocks: usize,
}

impl Groups {
    /// Reads the superblock and the descriptors; `None` if these images are no ext4 with
    /// descriptors of 64 bytes.
    pub fn of(state: &State, device_blocks: u64) -> Option<Self> {
        let superblock = state.get(&0)?.get(SUPERBLOCK_AT..)?;
        let is_ext4 = number(superblock, at::MAGIC, 2)? == MAGIC;
        let descriptor_bytes = usize::from(class::object_bytes(class::GROUP_DESCRIPTORS));
        let is_wide = number(superblock, at::DESCRIPTOR_BYTES, 2)? == descriptor_bytes as u64;
        if !is_ext4 || !is_wide {
            return None;
        }
        let blocks = number(superblock, at::GROUP_BLOCKS, 4).filter(|blocks| *blocks > 0)?;
        let first = number(superblock, at::FIRST_DATA_BLOCK, 4)?;
        let behind = state.range(first + 1..).zip(first + 1..);
        let table = behind.take_while(|((block, _), expected)| *block == expected);
        let descriptors = table.flat_map(|((_, image), _)| image.chunks(descriptor_bytes));
        let mut firsts = BTreeMap::new();
        let count = device_blocks.saturating_sub(first).div_ceil(blocks);
        for (group, descriptor) in (0..count).zip(descriptors) {
            let low = number(descriptor, at::BITMAP, 4)?;
            let bitmap = number(descriptor, at::BITMAP_HIGH, 4)? << 32 | low;
            firsts.insert(bitmap, first + group * blocks);
        }
        Some(Self { firsts, blocks: usize::try_from(blocks).ok()? })
    }

    /// The blocks that a new image of a bitmap allocates, in runs.
    pub fn allocated(&self, bitmap: u64, old: &[u8], new: &[u8]) -> Vec<Range<u64>> {
        let mut runs: Vec<Range<u64>> = Vec::new();
        let Some(first) = self.firsts.get(&bitmap) else { return runs };
        let set = |image: &[u8], bit: usize| image[bit / 8] >> (bit % 8) & 1 == 1;
        for bit in 0..self.blocks.min(new.len() * 8) {
            if old[bit / 8] == new[bit / 8] || set(old, bit) || !set(new, bit) {
                continue;
            }
            let block = first + bit as u64;
            match runs.last_mut() {
                Some(last) if last.end == block => last.end += 1,
                _ => runs.push(block..block + 1),
            }
        }
        runs
    }
}

/// The newest time at which an inode of a block changed, of those that differ from before: in
/// nanoseconds since 1970.
pub fn changed_at(old: &[u8], new: &[u8]) -> Option<u64> {
    let inodes = old.chunks(INODE_BYTES).zip(new.chunks(INODE_BYTES));
    let times = inodes.filter(|(old, new)| old != new).filter_map(|(_, inode)| {
        let seconds = number(inode, at::CHANGED, 4)?;
        // The two lowest bits are more bits of the seconds.
        let extra = number(inode, at::CHANGED_EXTRA, 4)?;
        Some(((extra & 3) << 32 | seconds) * 1_000_000_000 + (extra >> 2))
    });
    times.max().filter(|nanos| *nanos > 0)
}

#[cfg(test)]
fn put(image: &mut [u8], at: usize, bytes: &[u8]) {
    image[at..at + bytes.len()].copy_from_slice(bytes);
}

/// Two groups of 64 blocks, whose bitmaps are blocks 9 and 70.
#[cfg(test)]
pub(crate) fn two_groups() -> State {
    let (mut superblock, mut descriptors) = (vec![0; 4096], vec![0; 4096]);
    put(&mut superblock, SUPERBLOCK_AT + at::MAGIC, &0xEF53_u16.to_le_bytes());
    put(&mut superblock, SUPERBLOCK_AT + at::GROUP_BLOCKS, &64_u32.to_le_bytes());
    put(&mut superblock, SUPERBLOCK_AT + at::DESCRIPTOR_BYTES, &64_u16.to_le_bytes());
    put(&mut descriptors, at::BITMAP, &9_u32.to_le_bytes());
    put(&mut descriptors, 64 + at::BITMAP, &70_u32.to_le_bytes());
    [(0, superblock.into()), (1, descriptors.into())].into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bitmaps_say_which_blocks_are_allocated() {
        let groups = Groups::of(&two_groups(), 128).expect("an ext4");
        let (mut old, mut new) = ([0; 4096], [0; 4096]);
        // Block 65 goes, 67 to 72 come, and 73 stays. No group has a block for the last bit.
        put(&mut old, 0, &[0b0000_0010, 0b0000_0010]);
        put(&mut new, 0, &[0b1111_1000, 0b0000_0011]);
        new[8] = 1;
        assert_eq!(groups.allocated(70, &old, &new), vec![67..73]);
        assert_eq!(groups.allocated(9, &old, &new), vec![3..9]);
        assert_eq!(groups.allocated(10, &old, &new), []);
    }

    #[test]
    fn other_images_are_no_ext4() {
        let mut state = two_groups();
        assert_eq!(Groups::of(&State::new(), 128), None);
        state.insert(0, vec![0; 4096].into());
        assert_eq!(Groups::of(&state, 128), None);
    }

    #[test]
    fn the_newest_change_of_a_modified_inode_counts() {
        let (old, mut new) = ([0; 4096], [0; 4096]);
        assert_eq!(changed_at(&old, &new), None);
        for (inode, seconds, nanos) in [(0, 1000_u32, 7_u32), (2, 1000, 9), (5, 999, 11)] {
            put(&mut new, inode * 256 + at::CHANGED, &seconds.to_le_bytes());
            put(&mut new, inode * 256 + at::CHANGED_EXTRA, &(nanos << 2).to_le_bytes());
        }
        assert_eq!(changed_at(&old, &new), Some(1_000_000_000_009));
        // Of the inode that is newest nothing changes.
        let mut before = old;
        before[512..768].copy_from_slice(&new[512..768]);
        assert_eq!(changed_at(&before, &new), Some(1_000_000_000_007));
    }
}
