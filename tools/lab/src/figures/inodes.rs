//! FGM, Fig. 2b to 2d: how many inodes are modified in the inode blocks that a journal takes.

use crate::trace::class;

const INODE_BYTES: usize = class::object_bytes(class::INODES) as usize;

/// Inode blocks that were journaled. An inode is modified if it differs from what the block held
/// before, and clean otherwise.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InodeBlocks {
    /// How many blocks have no modified inode, one, two and so on.
    by_modified: Vec<u64>,
}

impl InodeBlocks {
    /// Counts a block that a transaction wrote.
    pub fn add(&mut self, old: &[u8], new: &[u8]) {
        let inodes = old.chunks(INODE_BYTES).zip(new.chunks(INODE_BYTES));
        let modified = inodes.filter(|(old, new)| old != new).count();
        self.by_modified.resize(new.len() / INODE_BYTES + 1, 0);
        self.by_modified[modified] += 1;
    }

    pub fn blocks(&self) -> u64 {
        self.by_modified.iter().sum()
    }

    fn in_each(&self) -> u64 {
        (self.by_modified.len() as u64).saturating_sub(1)
    }

    /// Inodes in all these blocks.
    pub fn inodes(&self) -> u64 {
        self.blocks() * self.in_each()
    }

    /// Inodes that were journaled and had not changed.
    pub fn clean(&self) -> u64 {
        let modified = (0..).zip(&self.by_modified).map(|(modified, blocks)| modified * blocks);
        self.inodes() - modified.sum::<u64>()
    }

    /// Blocks with this number of modified inodes.
    pub fn with_modified(&self, modified: usize) -> u64 {
        self.by_modified.get(modified).copied().unwrap_or_default()
    }

    /// Blocks in which less than half of the inodes are modified.
    pub fn below_half(&self) -> u64 {
        let few = (0..).zip(&self.by_modified).filter(|(count, _)| count * 2 < self.in_each());
        few.map(|(_, blocks)| blocks).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inode_blocks_count_by_their_modified_inodes() {
        let old = [0; 4096];
        let mut blocks = InodeBlocks::default();
        assert_eq!((blocks.blocks(), blocks.inodes(), blocks.below_half()), (0, 0, 0));
        // The first bytes of some inodes, and once the last byte of one that is counted already.
        for modified in [0, 1, 1, 7, 8, 16] {
            let mut new = old;
            (0..modified).for_each(|inode| new[inode * 256] = 1);
            new[255] = u8::from(modified > 0);
            blocks.add(&old, &new);
        }
        assert_eq!((blocks.blocks(), blocks.inodes()), (6, 96));
        assert_eq!(blocks.clean(), 96 - (1 + 1 + 7 + 8 + 16));
        assert_eq!([0, 1, 2, 16, 17].map(|count| blocks.with_modified(count)), [1, 2, 0, 1, 0]);
        // Eight of sixteen are half.
        assert_eq!(blocks.below_half(), 4);
    }
}
