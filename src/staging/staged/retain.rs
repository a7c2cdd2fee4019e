//! Two transactions as one: what a later one's hint makes of a block, and blocks that leave while
//! others stay with their images.

use journal_core::BlockNumber;

use super::{Content, Staged};
use crate::staging::hint::Hint;

impl Staged {
    /// The hint of one of a later transaction's blocks, when this one has taken that in.
    pub(crate) fn hint_with(&self, later: &Self, at: usize) -> Hint {
        let staged = &later.blocks[at];
        self.hint_after(staged.block, staged.is_said.then_some(staged.hint))
    }

    /// Forgets all blocks except those that `stays` says. No block has patches alone.
    pub(crate) fn retain(&mut self, stays: impl Fn(BlockNumber) -> bool) {
        self.blocks.retain(|staged| stays(staged.block));
        self.olds.retain(&stays);
        // Images move down over those that are gone, the lowest first.
        let contents = self.blocks.iter_mut().map(|staged| &mut staged.content);
        let images = contents.filter_map(|content| match content {
            Content::Image(image) => Some(image),
            Content::Nothing | Content::Patched(_) => None,
        });
        let mut images: Vec<_> = images.collect();
        images.sort_unstable();
        let count = images.len();
        for (number, image) in (0..).zip(images) {
            let from = core::mem::replace(image, number) as usize;
            self.images.swap(number as usize, from);
            self.touched.swap(number as usize, from);
        }
        self.images.truncate(count);
        self.touched.truncate(count);
    }
}

#[cfg(test)]
mod tests {
    use journal_core::Operation;
    use journal_core::parts::Operations as _;
    use journal_core::policy::Update;

    use super::*;

    fn written(staged: &Staged) -> Vec<(u64, Option<u8>)> {
        let blocks = (0..staged.count()).map(|at| staged.block(at));
        blocks.map(|block| (block.raw(), staged.image(block).map(|image| image[0]))).collect()
    }

    fn update(staged: &Staged, at: usize) -> Update<'_> {
        match staged.operation(at) {
            Operation::Update(update) => update,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn blocks_that_stay_keep_their_images_when_others_are_forgotten() {
        let mut staged = Staged::new(4);
        for block in [5, 1, 9, 3, 7] {
            staged.keep_old(BlockNumber(block), &[block as u8 ^ 0xF0; 4]);
            staged.write(BlockNumber(block), Hint::DATA, &[block as u8; 4]);
        }
        staged.discard(BlockNumber(9));
        staged.discard(BlockNumber(2));
        staged.retain(|block| ![5, 3].contains(&block.raw()));
        assert_eq!(written(&staged), [(1, Some(1)), (2, None), (7, Some(7)), (9, None)]);
        assert_eq!((staged.images(), update(&staged, 2).old), (2, Some(&[0xF7; 4][..])));
        staged.write(BlockNumber(5), Hint::DATA, &[6; 4]);
        staged.write(BlockNumber(1), Hint::DATA, &[2; 4]);
        let all = [(1, Some(2)), (2, None), (5, Some(6)), (7, Some(7)), (9, None)];
        assert_eq!(written(&staged), all);
        assert_eq!(update(&staged, 2).old, None);
    }
}
