//! A transaction's operations before it commits: what becomes of each block, with whole images.

use journal_core::parts::Operations;
use journal_core::policy::{Change, Class, Kind, Update};
use journal_core::{BlockNumber, Operation};

/// Buffers of more than this are given back when a transaction ends.
const KEPT_BYTES_MAX: usize = 4 << 20;

/// What becomes of one block.
#[derive(Clone, Copy, Debug)]
struct Entry {
    block: BlockNumber,
    kind: Kind,
    class: Class,
    /// Which of the images; `None` where it is discarded.
    image: Option<u32>,
}

/// The operations, ascending by block, each block once.
#[derive(Debug)]
pub(crate) struct Staged {
    entries: Vec<Entry>,
    images: Vec<u8>,
    block_bytes: usize,
}

impl Staged {
    pub(crate) const fn new(block_bytes: usize) -> Self {
        Self { entries: Vec::new(), images: Vec::new(), block_bytes }
    }

    pub(crate) fn clear(&mut self) {
        self.entries.clear();
        self.images.clear();
        self.images.shrink_to(KEPT_BYTES_MAX);
        self.entries.shrink_to(KEPT_BYTES_MAX / size_of::<Entry>());
    }

    fn find(&self, block: BlockNumber) -> Result<usize, usize> {
        // Most transactions touch their blocks in order.
        match self.entries.last() {
            None => Err(0),
            Some(last) if last.block < block => Err(self.entries.len()),
            _ => self.entries.binary_search_by_key(&block, |entry| entry.block),
        }
    }

    /// Whether the transaction changes this block.
    pub(crate) fn has(&self, block: BlockNumber) -> bool {
        self.find(block).is_ok()
    }

    /// What the transaction has made of a block: `None` where it has not touched it, or discarded
    /// it.
    pub(crate) fn image(&self, block: BlockNumber) -> Option<&[u8]> {
        let entry = &self.entries[self.find(block).ok()?];
        entry.image.map(|image| self.image_at(image))
    }

    fn image_at(&self, image: u32) -> &[u8] {
        &self.images[image as usize * self.block_bytes..][..self.block_bytes]
    }

    /// Makes the block's new content the given one.
    pub(crate) fn write(&mut self, block: BlockNumber, kind: Kind, class: Class, new: &[u8]) {
        let found = self.find(block);
        if let Ok(Entry { image: Some(image), class: known, .. }) =
            found.map(|at| &mut self.entries[at])
        {
            *known = class;
            let start = *image as usize * self.block_bytes;
            self.images[start..][..self.block_bytes].copy_from_slice(new);
            return;
        }
        let image = self.push_image(new);
        self.place(found, Entry { block, kind, class, image: Some(image) });
    }

    /// Changes bytes of the block's new content, which is `old` before.
    pub(crate) fn patch(
        &mut self,
        block: BlockNumber,
        class: Class,
        old: &[u8],
        at: usize,
        new: &[u8],
    ) {
        if self.image(block).is_none() {
            self.write(block, Kind::Overwrite, class, old);
        }
        let position = self.find(block).expect("was just put there");
        let entry = &mut self.entries[position];
        entry.class = class;
        let image = entry.image.expect("an image was just written") as usize;
        self.images[image * self.block_bytes + at..][..new.len()].copy_from_slice(new);
    }

    /// The block is not to be live any more.
    pub(crate) fn discard(&mut self, block: BlockNumber, class: Class) {
        let entry = Entry { block, kind: Kind::Overwrite, class, image: None };
        self.place(self.find(block), entry);
    }

    fn place(&mut self, found: Result<usize, usize>, entry: Entry) {
        match found {
            Ok(at) => self.entries[at] = Entry { kind: self.entries[at].kind, ..entry },
            Err(at) => self.entries.insert(at, entry),
        }
    }

    fn push_image(&mut self, new: &[u8]) -> u32 {
        let count = self.images.len() / self.block_bytes;
        self.images.extend_from_slice(new);
        u32::try_from(count).expect("a transaction fits a lane, and a lane has fewer blocks")
    }
}

impl Operations for Staged {
    #[inline]
    fn count(&self) -> usize {
        self.entries.len()
    }

    #[inline]
    fn operation(&self, at: usize) -> Operation<'_> {
        let entry = &self.entries[at];
        match entry.image {
            None => Operation::Discard(entry.block),
            Some(image) => {
                let mut update = Update::new(entry.block, Change::Image(self.image_at(image)));
                update.class = entry.class;
                update.kind = entry.kind;
                Operation::Update(update)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(staged: &Staged) -> Vec<(u64, Option<u8>)> {
        let operations = (0..staged.count()).map(|at| staged.operation(at));
        operations
            .map(|operation| {
                let block = operation.block();
                (block.raw(), staged.image(block).map(|image| image[0]))
            })
            .collect()
    }

    #[test]
    fn the_last_word_on_each_block_counts_and_blocks_ascend() {
        let mut staged = Staged::new(4);
        let (write, data) = (Kind::Overwrite, Class::Data);
        staged.write(BlockNumber(5), write, data, &[1; 4]);
        staged.write(BlockNumber(9), write, data, &[2; 4]);
        staged.write(BlockNumber(1), write, data, &[3; 4]);
        staged.write(BlockNumber(5), write, data, &[4; 4]);
        staged.discard(BlockNumber(9), data);
        staged.discard(BlockNumber(7), data);
        staged.patch(BlockNumber(1), data, &[0; 4], 1, &[8, 8]);
        staged.patch(BlockNumber(2), data, &[6; 4], 0, &[7]);
        assert_eq!(
            written(&staged),
            [(1, Some(3)), (2, Some(7)), (5, Some(4)), (7, None), (9, None)]
        );
        assert_eq!(staged.image(BlockNumber(1)), Some(&[3, 8, 8, 3][..]));
        assert_eq!(staged.image(BlockNumber(2)), Some(&[7, 6, 6, 6][..]));
        staged.write(BlockNumber(9), Kind::Append, data, &[5; 4]);
        assert_eq!(staged.image(BlockNumber(9)), Some(&[5; 4][..]));
        assert_eq!(staged.count(), 5);
        staged.clear();
        assert!(staged.count() == 0 && !staged.has(BlockNumber(1)));
    }
}
