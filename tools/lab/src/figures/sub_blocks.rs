//! Two-level logging, section 1: how many written blocks are partially updated, and how much of
//! what is written was there already.

/// The paper tracks changes by this size.
pub const SUB_BLOCK_BYTES: usize = 128;

/// Blocks that were written, by their sub-blocks. A sub-block is clean if it holds what it held
/// before; a block that was not allocated before has no clean ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartialWrites {
    pub blocks: u64,
    /// Blocks with at least one clean sub-block.
    pub partial: u64,
    pub bytes: u64,
    /// Bytes of clean sub-blocks: written for nothing.
    pub wasted: u64,
}

impl PartialWrites {
    pub fn add(&mut self, old: &[u8], new: &[u8], is_new: bool) {
        let both = old.chunks(SUB_BLOCK_BYTES).zip(new.chunks(SUB_BLOCK_BYTES));
        let clean = both.filter(|(old, new)| !is_new && old == new);
        let wasted: u64 = clean.map(|(_, new)| new.len() as u64).sum();
        self.blocks += 1;
        self.partial += u64::from(wasted > 0);
        self.bytes += new.len() as u64;
        self.wasted += wasted;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clean_sub_blocks_are_written_for_nothing() {
        let old = [7; 4096];
        let mut found = PartialWrites::default();
        // The last byte of the first sub-block and the first byte of the second.
        let mut new = old;
        new[127] = 0;
        new[128] = 0;
        found.add(&old, &new, false);
        assert_eq!(found, PartialWrites { blocks: 1, partial: 1, bytes: 4096, wasted: 30 * 128 });
        // Nothing changes, all changes, and nothing of the block was needed.
        found.add(&old, &old, false);
        found.add(&old, &[8; 4096], false);
        found.add(&old, &new, true);
        let wasted = 30 * 128 + 4096;
        assert_eq!(found, PartialWrites { blocks: 4, partial: 2, bytes: 4 * 4096, wasted });
    }
}
