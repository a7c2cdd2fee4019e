//! Committed images of blocks that a transaction writes, for a policy that uses them.

use journal_core::parts::Operations;
use journal_core::policy::{Change, Kind, Update};
use journal_core::{BlockNumber, Operation};

/// Memory for more than this is given back when a transaction ends.
const KEPT_BYTES_MAX: usize = 4 << 20;

/// The images, of some of a transaction's blocks.
#[derive(Debug)]
pub(crate) struct Olds {
    /// Ascending, each block with where its image begins.
    blocks: Vec<(BlockNumber, usize)>,
    /// One image for each block, and memory that was used before.
    images: Vec<u8>,
    block_bytes: usize,
}

impl Olds {
    pub(crate) const fn new(block_bytes: usize) -> Self {
        Self { blocks: Vec::new(), images: Vec::new(), block_bytes }
    }

    pub(crate) fn clear(&mut self) {
        self.blocks.clear();
        if self.images.len() > KEPT_BYTES_MAX {
            self.images.truncate(KEPT_BYTES_MAX);
            self.images.shrink_to(KEPT_BYTES_MAX);
        }
    }

    /// Keeps the old image of a block, if none is kept yet. `read` fills the memory for one block,
    /// and says whether the image counts.
    pub(crate) fn keep<E>(
        &mut self,
        block: BlockNumber,
        read: impl FnOnce(&mut [u8]) -> Result<bool, E>,
    ) -> Result<(), E> {
        let Err(at) = self.find(block) else { return Ok(()) };
        let start = self.blocks.len() * self.block_bytes;
        let end = start + self.block_bytes;
        if self.images.len() < end {
            self.images.resize(end, 0);
        }
        if read(&mut self.images[start..end])? {
            self.blocks.insert(at, (block, start));
        }
        Ok(())
    }

    /// The image of a block, if it is kept.
    pub(crate) fn get(&self, block: BlockNumber) -> Option<&[u8]> {
        let (_, start) = self.blocks[self.find(block).ok()?];
        Some(&self.images[start..][..self.block_bytes])
    }

    /// Forgets the images of all blocks except those that `stays` says.
    pub(crate) fn retain(&mut self, stays: impl Fn(BlockNumber) -> bool) {
        let before = self.blocks.len();
        self.blocks.retain(|(block, _)| stays(*block));
        if self.blocks.len() == before {
            return;
        }
        // Each image moves down, in the order in which they lie.
        let mut order: Vec<_> = (0..self.blocks.len()).collect();
        order.sort_unstable_by_key(|at| self.blocks[*at].1);
        for (number, at) in order.into_iter().enumerate() {
            let (start, to) = (self.blocks[at].1, number * self.block_bytes);
            self.images.copy_within(start..start + self.block_bytes, to);
            self.blocks[at].1 = to;
        }
    }

    fn find(&self, block: BlockNumber) -> Result<usize, usize> {
        self.blocks.binary_search_by_key(&block, |(block, _)| *block)
    }
}

/// Whether an update is a whole image of a live block, and nothing is said of what the block held.
#[inline]
pub(crate) fn is_image_alone(update: &Update<'_>) -> bool {
    let is_image = matches!(update.change, Change::Image(_));
    is_image && update.old.is_none() && update.kind == Kind::Overwrite
}

/// Operations, and what their blocks held, where a policy is to see that.
///
/// The policy then finds the differences between the images itself. A caller may have brought an
/// old image, or the ranges that are new. But it found them when the block was not locked. Another
/// image may have been committed since, and then they are wrong. Where only some old images are
/// looked for, none is of a block of which the caller has said such a thing.
pub(crate) struct OnOlds<'o> {
    pub(crate) operations: &'o [Operation<'o>],
    pub(crate) olds: Option<&'o Olds>,
    /// Whether the old image of every live block was looked for. An operation without one is then
    /// an image, whatever its caller has brought.
    pub(crate) are_all: bool,
}

impl Operations for OnOlds<'_> {
    #[inline]
    fn count(&self) -> usize {
        self.operations.len()
    }

    #[inline]
    fn operation(&self, at: usize) -> Operation<'_> {
        let mut operation = self.operations[at];
        if let (Operation::Update(update), Some(olds)) = (&mut operation, self.olds) {
            let old = olds.get(update.block);
            if self.are_all || old.is_some() {
                update.old = old;
                update.change = update.change.image().map_or(update.change, Change::Image);
            }
        }
        operation
    }

    #[inline]
    fn with<'s, R>(&'s self, at: usize, call: impl FnOnce(&Operation<'s>) -> R) -> R {
        if self.olds.is_none() {
            return self.operations.with(at, call);
        }
        call(&self.operation(at))
    }

    #[inline]
    fn image_alone(&self, at: usize) -> Option<(BlockNumber, &[u8])> {
        if self.olds.is_none() { self.operations.image_alone(at) } else { None }
    }
}

/// The most operations of a call to which old images are lent.
const LENT_MAX: usize = u64::BITS as usize;

/// Operations, and which of their blocks the journal lends the policy. It sees of them what
/// [`OnOlds`] would show, and there is no copy.
pub(crate) struct OnLoans<'o> {
    operations: &'o [Operation<'o>],
    /// A bit for each operation.
    lent: u64,
    are_all: bool,
}

impl<'o> OnLoans<'o> {
    /// Lends what `lends` says. `None` where nothing is lent, or where the old image of every live
    /// block is wanted and not all are lent.
    pub(crate) fn of(
        operations: &'o [Operation<'o>],
        are_all: bool,
        lends: impl Fn(BlockNumber) -> bool,
    ) -> Option<Self> {
        if operations.len() > LENT_MAX {
            return None;
        }
        let mut lent = 0;
        for (at, operation) in operations.iter().enumerate() {
            let Operation::Update(update) = operation else { continue };
            let is_image = update.change.image().is_some() && update.kind != Kind::Append;
            if !is_image || !(are_all || is_image_alone(update)) {
                continue;
            }
            match lends(update.block) {
                true => lent |= 1 << at,
                false if are_all => return None,
                false => {}
            }
        }
        (lent != 0).then_some(Self { operations, lent, are_all })
    }
}

impl Operations for OnLoans<'_> {
    #[inline]
    fn count(&self) -> usize {
        self.operations.len()
    }

    #[inline]
    fn operation(&self, at: usize) -> Operation<'_> {
        let mut operation = self.operations[at];
        if let (Operation::Update(update), true) =
            (&mut operation, self.are_all || self.has_lent_old(at))
        {
            update.old = None;
            update.change = update.change.image().map_or(update.change, Change::Image);
        }
        operation
    }

    #[inline]
    fn image_alone(&self, _at: usize) -> Option<(BlockNumber, &[u8])> {
        None
    }

    #[inline]
    fn has_lent_old(&self, at: usize) -> bool {
        self.lent & 1 << at != 0
    }
}

#[cfg(test)]
mod tests {
    use core::convert::Infallible;

    use super::*;

    fn keep(olds: &mut Olds, block: u64, byte: u8) {
        let kept = olds.keep(BlockNumber(block), |into| {
            into.fill(byte);
            Ok::<_, Infallible>(true)
        });
        kept.expect("cannot fail");
    }

    #[test]
    fn the_first_image_of_a_block_counts_until_all_are_forgotten() {
        let mut olds = Olds::new(4);
        for (block, byte) in [(7, 1), (3, 2), (9, 3), (3, 4)] {
            keep(&mut olds, block, byte);
        }
        let get = |olds: &Olds, block| olds.get(BlockNumber(block)).map(<[u8]>::to_vec);
        let all = [3, 7, 8, 9].map(|block| get(&olds, block));
        assert_eq!(all, [Some(vec![2; 4]), Some(vec![1; 4]), None, Some(vec![3; 4])]);
        olds.clear();
        assert_eq!(get(&olds, 7), None);
        keep(&mut olds, 9, 5);
        assert_eq!((get(&olds, 9), get(&olds, 3)), (Some(vec![5; 4]), None));
    }

    #[test]
    fn what_stays_is_found_when_others_are_forgotten() {
        let mut olds = Olds::new(4);
        for (block, byte) in [(7, 1), (3, 2), (9, 3), (5, 4), (1, 5)] {
            keep(&mut olds, block, byte);
        }
        olds.retain(|block| block.raw() != 3 && block.raw() != 5);
        keep(&mut olds, 3, 6);
        let get = |block| olds.get(BlockNumber(block)).map(|image| image[0]);
        assert_eq!([1, 3, 5, 7, 9].map(get), [Some(5), Some(6), None, Some(1), Some(3)]);
        assert_eq!(olds.images.len(), 5 * 4, "no memory is lost");
    }

    #[test]
    fn what_does_not_count_or_cannot_be_read_is_not_kept() {
        let mut olds = Olds::new(4);
        assert_eq!(olds.keep(BlockNumber(1), |_| Ok::<_, ()>(false)), Ok(()));
        assert_eq!(olds.keep(BlockNumber(2), |_| Err(())), Err(()));
        assert!(olds.get(BlockNumber(1)).is_none() && olds.get(BlockNumber(2)).is_none());
        keep(&mut olds, 2, 6);
        assert_eq!(olds.get(BlockNumber(2)), Some(&[6; 4][..]));
    }

    #[test]
    fn memory_for_very_many_is_given_back() {
        let mut olds = Olds::new(KEPT_BYTES_MAX);
        keep(&mut olds, 1, 1);
        keep(&mut olds, 2, 2);
        olds.clear();
        assert_eq!(olds.images.len(), KEPT_BYTES_MAX);
    }
}
