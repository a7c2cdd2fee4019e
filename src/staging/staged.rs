//! A transaction's operations before it commits: what becomes of each block.
//!
//! A block has an image, or nothing but patches. An image comes with the ranges that were changed,
//! where they are known. Patches alone are enough for a policy that logs them as they come
//! ([`Policy::logs_patches`](journal_core::policy::Policy::logs_patches)). Then no content of the
//! block is read or copied.

pub(crate) mod ready;
mod retain;

use core::convert::Infallible;

use journal_core::parts::Operations;
use journal_core::policy::{Kind, Update};
use journal_core::{BlockNumber, Operation};
use pmem_sys::copy_block;

use crate::staging::changed_ranges::Touched;
use crate::staging::hint::Hint;
use crate::staging::old_images::Olds;
use crate::staging::pages::{Page, Pages};
use crate::staging::patches::{Patches, StagedPatches};

/// Buffers of more than this are given back when a transaction ends.
const KEPT_BYTES_MAX: usize = 4 << 20;

/// What becomes of one block.
#[derive(Clone, Copy, Debug)]
struct StagedBlock {
    block: BlockNumber,
    hint: Hint,
    /// Whether an operation has said so.
    is_said: bool,
    /// Whether the journal lends the policy what is committed, where that is kept. If not, it is
    /// among the old images, or the policy does not see it.
    is_lent: bool,
    /// Whether its image was built for patches.
    is_built: bool,
    content: Content,
}

impl StagedBlock {
    /// A block that operations say this of, if it is said.
    fn new(block: BlockNumber, said: Option<Hint>, content: Content) -> Self {
        let (hint, is_said) = (said.unwrap_or_default(), said.is_some());
        Self { block, hint, is_said, is_lent: false, is_built: false, content }
    }
}

/// What a patch changes of a block that has no image.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Below {
    /// What is committed, which the spare page holds.
    Spare,
    /// The committed image, which the spare page holds. The whole image is logged.
    Whole,
    /// Bytes of no meaning.
    Nothing,
}

/// What a block is to hold.
#[derive(Clone, Copy, Debug)]
enum Content {
    /// Nothing: it is discarded.
    Nothing,
    /// One of the images.
    Image(u32),
    /// What is committed, with these patches.
    Patched(Patches),
}

impl Content {
    const fn image(self) -> Option<u32> {
        match self {
            Self::Image(image) => Some(image),
            Self::Nothing | Self::Patched(_) => None,
        }
    }
}

/// The operations, ascending by block, each block once.
#[derive(Debug)]
pub(crate) struct Staged {
    blocks: Vec<StagedBlock>,
    images: Pages,
    /// For each image, where it differs from the committed one.
    touched: Vec<Touched>,
    patches: StagedPatches,
    /// What blocks held before.
    pub(crate) olds: Olds,
    block_bytes: usize,
}

impl Staged {
    pub(crate) const fn new(block_bytes: usize) -> Self {
        Self {
            blocks: Vec::new(),
            images: Pages::new(block_bytes),
            touched: Vec::new(),
            patches: StagedPatches::new(),
            olds: Olds::new(block_bytes),
            block_bytes,
        }
    }

    pub(crate) fn clear(&mut self) {
        self.blocks.clear();
        self.images.clear();
        self.touched.clear();
        self.patches.clear();
        self.touched.shrink_to(KEPT_BYTES_MAX / size_of::<Touched>());
        self.blocks.shrink_to(KEPT_BYTES_MAX / size_of::<StagedBlock>());
        self.olds.clear();
    }

    /// Keeps the committed image of a block that the transaction has not touched yet, for a policy
    /// that uses it.
    fn keep_old(&mut self, block: BlockNumber, committed: &[u8]) {
        keep_in(&mut self.olds, block, committed);
    }

    /// Like [`keep_old`](Self::keep_old), of what the spare page holds.
    pub(crate) fn keep_spare_as_old(&mut self, block: BlockNumber) {
        keep_in(&mut self.olds, block, self.images.spare());
    }

    /// A page of any content, which stays the same one until an image is put.
    #[inline]
    pub(crate) fn spare(&mut self) -> &mut [u8] {
        self.images.spare()
    }

    /// The spare page itself, which may be exchanged.
    #[inline]
    pub(crate) fn spare_page(&mut self) -> &mut Page {
        self.images.spare_page()
    }

    #[inline]
    fn find(&self, block: BlockNumber) -> Result<usize, usize> {
        // Most transactions touch their blocks in order.
        match self.blocks.last() {
            None => Err(0),
            Some(last) if last.block < block => Err(self.blocks.len()),
            _ => self.search(block),
        }
    }

    #[inline(never)]
    fn search(&self, block: BlockNumber) -> Result<usize, usize> {
        self.blocks.binary_search_by_key(&block, |staged| staged.block)
    }

    /// The block of one of the operations.
    pub(crate) fn block(&self, at: usize) -> BlockNumber {
        self.blocks[at].block
    }

    /// The hint of a block that is written again, with this hint if one is given.
    pub(crate) fn hint_after(&self, block: BlockNumber, hint: Option<Hint>) -> Hint {
        let known = self.find(block).map(|at| self.blocks[at].hint);
        known.map_or(hint.unwrap_or_default(), |known| known.changed(hint))
    }

    /// Whether the transaction changes this block.
    #[inline]
    pub(crate) fn has(&self, block: BlockNumber) -> bool {
        self.find(block).is_ok()
    }

    /// What the transaction has made of a block: `None` where it has not touched the block, has
    /// discarded it, or has nothing but patches of it.
    pub(crate) fn image(&self, block: BlockNumber) -> Option<&[u8]> {
        let staged = &self.blocks[self.find(block).ok()?];
        staged.content.image().map(|image| self.image_at(image))
    }

    fn patches_of(&self, block: BlockNumber) -> Option<Patches> {
        match self.blocks[self.find(block).ok()?].content {
            Content::Patched(patches) => Some(patches),
            Content::Nothing | Content::Image(_) => None,
        }
    }

    /// Puts the patches of a block over bytes of its committed content that begin at `at`.
    pub(crate) fn overlay(&self, block: BlockNumber, at: usize, content: &mut [u8]) {
        if let Some(patches) = self.patches_of(block) {
            self.patches.overlay(&patches, at, content);
        }
    }

    /// Notes the first patch of a block that the transaction has not touched yet. Returns whether
    /// it is noted, as [`note_patch`](Self::note_patch) does.
    #[inline]
    pub(crate) fn note_first_patch(
        &mut self,
        block: BlockNumber,
        hint: Option<Hint>,
        at: usize,
        new: &[u8],
        bytes_max: usize,
    ) -> bool {
        let bytes_max = bytes_max.min(self.block_bytes / 2);
        let Err(before) = self.find(block) else { return false };
        let Some(patches) = self.patches.add_first(at, new, bytes_max) else { return false };
        let staged = StagedBlock::new(block, hint, Content::Patched(patches));
        if before == self.blocks.len() {
            self.blocks.push(staged);
        } else {
            self.blocks.insert(before, staged);
        }
        true
    }

    /// Notes a patch of a block without an image. Returns whether it is noted: a block that has an
    /// image or is discarded needs no such thing. A block can have too many patches, or patches of
    /// more than `bytes_max` bytes.
    pub(crate) fn note_patch(
        &mut self,
        block: BlockNumber,
        hint: Option<Hint>,
        at: usize,
        new: &[u8],
        bytes_max: usize,
    ) -> bool {
        let limits = (self.block_bytes, bytes_max.min(self.block_bytes / 2));
        let Ok(found) = self.find(block) else {
            return self.note_first_patch(block, hint, at, new, bytes_max);
        };
        let staged = &mut self.blocks[found];
        let Content::Patched(patches) = &mut staged.content else { return false };
        if !self.patches.add(patches, at, new, limits) {
            return false;
        }
        staged.hint.change(hint);
        staged.is_said |= hint.is_some();
        true
    }

    /// Says that the journal lends the policy what is committed of a block, which the transaction
    /// changes.
    pub(crate) fn lend_old(&mut self, block: BlockNumber) {
        if let Ok(at) = self.find(block) {
            self.blocks[at].is_lent = true;
        }
    }

    /// The blocks of which the journal lends what is committed. The transaction ends that, and is
    /// to keep those images itself.
    pub(crate) fn end_loans(&mut self) -> Vec<(BlockNumber, Kind)> {
        let lent = self.blocks.iter_mut().filter(|staged| staged.is_lent);
        lent.map(|staged| {
            staged.is_lent = false;
            (staged.block, staged.hint.kind)
        })
        .collect()
    }

    /// Whether the journal lends what is committed of any block.
    pub(crate) fn has_loans(&self) -> bool {
        self.blocks.iter().any(|staged| staged.is_lent)
    }

    /// Whether a block's first patch can be noted without an image. An empty patch cannot.
    #[inline]
    pub(crate) fn takes_patch(&self, new: &[u8]) -> bool {
        self.patches.takes(new) && new.len() <= self.block_bytes / 2
    }

    pub(crate) fn is_patched(&self, block: BlockNumber) -> bool {
        self.patches_of(block).is_some()
    }

    /// The blocks that have patches and no image.
    pub(crate) fn patched(&self) -> impl Iterator<Item = BlockNumber> + '_ {
        let patched = |staged: &&StagedBlock| matches!(staged.content, Content::Patched(_));
        self.blocks.iter().filter(patched).map(|staged| staged.block)
    }

    /// Makes the image of a block that has patches. The spare page holds what is committed.
    pub(crate) fn build_image(&mut self, block: BlockNumber) {
        let Some(patches) = self.patches_of(block) else { return };
        let mut touched = Touched::nothing();
        for (at, bytes) in self.patches.each(&patches) {
            touched.touch(at, bytes.len());
        }
        self.patches.overlay(&patches, 0, self.images.spare());
        self.put_spare(block, None, touched);
        if let Ok(at) = self.find(block) {
            self.blocks[at].is_lent = false;
        }
    }

    fn image_at(&self, image: u32) -> &[u8] {
        self.images.image(image as usize)
    }

    /// Makes `image` the block's new content.
    pub(crate) fn write(&mut self, block: BlockNumber, hint: Hint, new: &[u8]) {
        self.put(block, Some(hint), new, Touched::Whole);
    }

    /// Changes bytes of the block's new content. Where the transaction has none yet, it starts from
    /// what is below.
    ///
    /// Without a hint, what was said before of the block holds.
    pub(crate) fn patch(
        &mut self,
        block: BlockNumber,
        hint: Option<Hint>,
        below: Below,
        at: usize,
        new: &[u8],
    ) {
        let image = match (self.find(block).map(|at| &mut self.blocks[at]), below) {
            (Ok(StagedBlock { content: Content::Image(image), hint: known, is_said, .. }), _) => {
                known.change(hint);
                *is_said |= hint.is_some();
                *image as usize
            }
            (_, Below::Spare) => self.put_spare(block, hint, Touched::nothing()),
            (_, Below::Whole) => self.put_spare(block, hint, Touched::Whole),
            (_, Below::Nothing) => {
                self.images.spare().fill(0);
                self.put_spare(block, hint, Touched::Whole)
            }
        };
        self.images.page(image)[at..][..new.len()].copy_from_slice(new);
        self.touched[image].touch(at, new.len());
    }

    /// Says that the block is not to be live any more.
    pub(crate) fn discard(&mut self, block: BlockNumber) {
        match self.find(block) {
            Ok(at) => self.blocks[at].content = Content::Nothing,
            Err(at) => {
                self.blocks.insert(at, StagedBlock::new(block, None, Content::Nothing));
            }
        }
    }

    /// How many images are kept, with those of blocks that were discarded since.
    pub(crate) fn images(&self) -> usize {
        self.touched.len()
    }

    /// Takes in what a later transaction makes of its blocks, each of which has an image or is
    /// discarded.
    pub(crate) fn absorb(&mut self, later: &Self) {
        for staged in &later.blocks {
            if let Some(old) = later.olds.get(staged.block).filter(|_| !self.has(staged.block)) {
                self.keep_old(staged.block, old);
            }
            let Some(image) = staged.content.image() else {
                assert!(matches!(staged.content, Content::Nothing), "images were built");
                self.discard(staged.block);
                continue;
            };
            let hint = staged.is_said.then_some(staged.hint);
            let touched = self.touched_with(staged.block, &later.touched[image as usize]);
            let content = later.image_at(image);
            self.put(staged.block, hint, content, touched);
        }
    }

    /// Where a block differs from what was committed when a later transaction has changed it too.
    fn touched_with(&self, block: BlockNumber, later: &Touched) -> Touched {
        let known = self.find(block).ok().and_then(|at| self.blocks[at].content.image());
        match (known, self.has(block)) {
            (Some(image), _) => self.touched[image as usize].with(later),
            // Where a discarded block differs is not known at all.
            (None, true) => Touched::Whole,
            (None, false) => *later,
        }
    }

    /// What becomes of a block, if anything does.
    pub(crate) fn operation_of(&self, block: BlockNumber) -> Option<Operation<'_>> {
        self.find(block).ok().map(|at| self.operation(at))
    }

    /// Counts the objects of a block that a later transaction changes too, all in all.
    pub(crate) fn objects_with(
        &self,
        later: &Self,
        at: usize,
        count: impl Fn(&Update<'_>) -> u64,
    ) -> Option<u64> {
        let Operation::Update(mut update) = later.operation(at) else { return None };
        let image = update.change.image()?;
        let touched = self
            .touched_with(update.block, &later.touched[later.blocks[at].content.image()? as usize]);
        update.change = touched.change(image);
        Some(count(&update))
    }

    /// Makes a copy of an image the block's.
    fn put(&mut self, block: BlockNumber, hint: Option<Hint>, new: &[u8], touched: Touched) {
        let at = self.said(block, hint);
        self.blocks[at].is_built = false;
        if let Content::Image(image) = self.blocks[at].content {
            copy_block(self.images.page(image as usize), new);
            self.touched[image as usize] = touched;
        } else {
            copy_block(self.images.spare(), new);
            self.use_spare(at, touched);
        }
    }

    /// Makes what the spare page holds the image of a block that has none, for patches of it;
    /// returns its number.
    fn put_spare(&mut self, block: BlockNumber, hint: Option<Hint>, touched: Touched) -> usize {
        let at = self.said(block, hint);
        self.blocks[at].is_built = true;
        self.use_spare(at, touched)
    }

    /// Makes the spare page the image of the block in this entry; returns its number.
    fn use_spare(&mut self, at: usize, touched: Touched) -> usize {
        let image = self.images.use_spare();
        assert_eq!(image, self.touched.len(), "each image has its ranges");
        self.touched.push(touched);
        let number = u32::try_from(image);
        self.blocks[at].content =
            Content::Image(number.expect("a transaction fits a lane, and a lane has fewer blocks"));
        image
    }

    /// Notes what is said of a block, which need not be known yet; returns its entry.
    fn said(&mut self, block: BlockNumber, hint: Option<Hint>) -> usize {
        let at = self.find(block).unwrap_or_else(|at| {
            self.blocks.insert(at, StagedBlock::new(block, hint, Content::Nothing));
            at
        });
        self.blocks[at].hint.change(hint);
        self.blocks[at].is_said |= hint.is_some();
        at
    }

    /// Calls with the image of each block, and whether it was built for patches. The call may
    /// exchange the page: the transaction has ended.
    pub(crate) fn each_page(&mut self, mut call: impl FnMut(BlockNumber, bool, &mut Page)) {
        for staged in &self.blocks {
            let Some(image) = staged.content.image() else { continue };
            call(staged.block, staged.is_built, self.images.page(image as usize));
        }
    }
}

fn keep_in(olds: &mut Olds, block: BlockNumber, committed: &[u8]) {
    let Ok(()) = olds.keep(block, |into| {
        copy_block(into, committed);
        Ok::<_, Infallible>(true)
    });
}

/// The operations without the bytes of patches: enough for all that comes before they are logged.
impl Operations for Staged {
    #[inline]
    fn count(&self) -> usize {
        self.blocks.len()
    }

    #[inline]
    fn operation(&self, at: usize) -> Operation<'_> {
        self.operation_with(at, &[])
    }

    #[inline]
    fn block(&self, at: usize) -> BlockNumber {
        self.blocks[at].block
    }
}

#[cfg(test)]
mod tests {
    use journal_core::policy::{Change, Class, Kind};
    use proptest::prelude::*;

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

    fn update(staged: &Staged, at: usize) -> Update<'_> {
        match staged.operation(at) {
            Operation::Update(update) => update,
            other => panic!("{other:?}"),
        }
    }

    /// Patches a block; `committed` is what its image is built on if it has none.
    fn patch(
        staged: &mut Staged,
        block: BlockNumber,
        hint: Option<Hint>,
        committed: Option<&[u8]>,
        at: usize,
        new: &[u8],
    ) {
        let below = match committed {
            Some(committed) => {
                staged.spare().copy_from_slice(committed);
                Below::Spare
            }
            None => Below::Nothing,
        };
        staged.patch(block, hint, below, at, new);
    }

    #[test]
    fn the_last_word_on_each_block_counts_and_blocks_ascend() {
        let mut staged = Staged::new(4);
        let data = Hint::DATA;
        staged.write(BlockNumber(5), data, &[1; 4]);
        staged.write(BlockNumber(9), data, &[2; 4]);
        staged.write(BlockNumber(1), data, &[3; 4]);
        staged.write(BlockNumber(5), data, &[4; 4]);
        staged.discard(BlockNumber(9));
        staged.discard(BlockNumber(7));
        patch(&mut staged, BlockNumber(1), None, Some(&[0; 4]), 1, &[8, 8]);
        patch(&mut staged, BlockNumber(2), None, Some(&[6; 4]), 0, &[7]);
        assert_eq!(
            written(&staged),
            [(1, Some(3)), (2, Some(7)), (5, Some(4)), (7, None), (9, None)]
        );
        assert_eq!(staged.image(BlockNumber(1)), Some(&[3, 8, 8, 3][..]));
        assert_eq!(staged.image(BlockNumber(2)), Some(&[7, 6, 6, 6][..]));
        staged.write(BlockNumber(9), Hint::APPEND, &[5; 4]);
        assert_eq!(staged.image(BlockNumber(9)), Some(&[5; 4][..]));
        assert_eq!(staged.count(), 5);
        staged.clear();
        assert!(staged.count() == 0 && !staged.has(BlockNumber(1)));
    }

    #[test]
    fn the_committed_image_is_the_first_ones_that_touched_the_block() {
        let mut first = Staged::new(4);
        first.keep_old(BlockNumber(7), &[7; 4]);
        first.write(BlockNumber(7), Hint::DATA, &[1; 4]);
        first.discard(BlockNumber(8));
        let mut later = Staged::new(4);
        for block in [9, 7, 8] {
            later.keep_old(BlockNumber(block), &[block as u8 ^ 0xF0; 4]);
            later.write(BlockNumber(block), Hint::DATA, &[2; 4]);
        }
        later.keep_old(BlockNumber(9), &[0; 4]);
        first.absorb(&later);
        assert_eq!(update(&first, 0).old, Some(&[7; 4][..]));
        // What was discarded before has none that counts.
        assert_eq!(update(&first, 1).old, None);
        assert_eq!(update(&first, 2).old, Some(&[0xF9; 4][..]));
        first.clear();
        first.write(BlockNumber(7), Hint::DATA, &[1; 4]);
        assert_eq!(update(&first, 0).old, None);
    }

    #[test]
    fn what_is_said_of_a_block_holds_until_something_else_is() {
        let mut staged = Staged::new(4);
        let inodes = Hint::METADATA.of_objects(2);
        patch(&mut staged, BlockNumber(1), Some(inodes), Some(&[0; 4]), 0, &[1]);
        patch(&mut staged, BlockNumber(1), None, None, 2, &[2]);
        let hint = |staged: &Staged| {
            let update = update(staged, 0);
            Hint { class: update.class, kind: update.kind, object_bytes: update.object_bytes }
        };
        assert_eq!(hint(&staged), inodes);
        staged.discard(BlockNumber(1));
        patch(&mut staged, BlockNumber(1), None, None, 2, &[2]);
        assert_eq!(hint(&staged), inodes);
        staged.write(BlockNumber(1), Hint::APPEND, &[1; 4]);
        // It was live before the transaction, which is what counts.
        assert_eq!(hint(&staged), Hint { kind: Kind::Overwrite, ..Hint::DATA });
        patch(&mut staged, BlockNumber(1), Some(Hint::METADATA), None, 0, &[1]);
        assert_eq!(hint(&staged), Hint { class: Class::Metadata, ..Hint::DATA });
    }

    const BLOCK: usize = 64;

    #[derive(Clone, Debug)]
    enum Step {
        Write(u8),
        WriteAt(usize, Vec<u8>),
        Discard,
    }

    fn steps() -> impl Strategy<Value = Vec<(u64, Step)>> {
        let bytes = prop::collection::vec(any::<u8>(), 0..9);
        let step = prop_oneof![
            1 => any::<u8>().prop_map(Step::Write),
            8 => (0_usize..BLOCK - 8, bytes).prop_map(|(at, bytes)| Step::WriteAt(at, bytes)),
            1 => Just(Step::Discard),
        ];
        prop::collection::vec((0_u64..4, step), 0..24)
    }

    /// What a block is to be: its image, and whether its ranges are to be known.
    type Model = Option<(Vec<u8>, bool)>;

    /// The plain way. `Err` is the committed content.
    fn model(old: &[u8], steps: &[Step]) -> Result<Model, ()> {
        let mut now: Result<Model, ()> = Err(());
        for step in steps {
            now = Ok(match (step, now) {
                (Step::Discard, _) => None,
                (Step::Write(byte), _) => Some((vec![*byte; BLOCK], false)),
                (Step::WriteAt(at, bytes), before) => {
                    let (mut image, is_known) = match before {
                        Err(()) => (old.to_vec(), true),
                        Ok(before) => before.unwrap_or((vec![0; BLOCK], false)),
                    };
                    image[*at..][..bytes.len()].copy_from_slice(bytes);
                    Some((image, is_known))
                }
            });
        }
        now
    }

    /// What the steps come to, on top of this content.
    fn staged(steps: &[(u64, Step)], old: impl Fn(u64) -> Option<Vec<u8>>) -> Staged {
        let mut staged = Staged::new(BLOCK);
        for (block, step) in steps {
            let number = BlockNumber(*block);
            match step {
                Step::Write(byte) => staged.write(number, Hint::DATA, &[*byte; BLOCK]),
                Step::WriteAt(at, bytes) => {
                    let committed = old(*block).filter(|_| !staged.has(number));
                    patch(&mut staged, number, None, committed.as_deref(), *at, bytes);
                }
                Step::Discard => staged.discard(number),
            }
        }
        staged
    }

    proptest! {
        /// Two transactions, the second of which has seen the first, are as one that does both.
        #[test]
        fn what_is_absorbed_is_as_if_it_had_been_one_transaction(
            first in steps(),
            second in steps(),
        ) {
            let old = |block: u64| vec![block as u8 ^ 0xA5; BLOCK];
            let mut both = staged(&first, |block| Some(old(block)));
            let one = staged(&[first, second.clone()].concat(), |block| Some(old(block)));
            let later = staged(&second, |block| match both.has(BlockNumber(block)) {
                true => both.image(BlockNumber(block)).map(<[u8]>::to_vec),
                false => Some(old(block)),
            });
            let objects = |update: &Update<'_>| {
                update.change.pieces().map(|piece| piece.bytes.len() as u64).sum::<u64>()
            };
            let count = |staged: &Staged, at| match staged.operation(at) {
                Operation::Update(update) => Some(objects(&update)),
                _ => None,
            };
            let foretold: Vec<_> =
                (0..later.count()).map(|at| both.objects_with(&later, at, objects)).collect();
            both.absorb(&later);
            prop_assert_eq!(both.count(), one.count());
            for at in 0..one.count() {
                let (absorbed, expected) = (both.operation(at), one.operation(at));
                prop_assert_eq!(absorbed.block(), expected.block());
                match (absorbed, expected) {
                    (Operation::Discard(_), Operation::Discard(_)) => {}
                    (Operation::Update(absorbed), Operation::Update(expected)) => {
                        prop_assert_eq!(absorbed.change.image(), expected.change.image());
                        let is_whole = matches!(expected.change, Change::Image(_));
                        prop_assert_eq!(matches!(absorbed.change, Change::Image(_)), is_whole);
                        // Of the same bytes, if need be in fewer and longer ranges.
                        let mut patched = old(expected.block.raw());
                        for piece in absorbed.change.pieces() {
                            patched[piece.at as usize..][..piece.bytes.len()]
                                .copy_from_slice(piece.bytes);
                        }
                        prop_assert_eq!(Some(&patched[..]), expected.change.image());
                    }
                    other => prop_assert!(false, "{other:?}"),
                }
            }
            for (at, foretold) in foretold.into_iter().enumerate() {
                let block = later.operation(at).block();
                let found = both.find(block).expect("was absorbed");
                prop_assert_eq!(foretold, count(&both, found));
            }
        }

        #[test]
        fn images_are_right_and_outside_of_the_ranges_nothing_changes(steps in steps()) {
            let old = |block: u64| vec![block as u8 ^ 0xA5; BLOCK];
            let mut staged = Staged::new(BLOCK);
            for (block, step) in &steps {
                let number = BlockNumber(*block);
                match step {
                    Step::Write(byte) => staged.write(number, Hint::DATA, &[*byte; BLOCK]),
                    Step::WriteAt(at, bytes) => {
                        let committed = old(*block);
                        let committed = (!staged.has(number)).then_some(&committed[..]);
                        patch(&mut staged, number, None, committed, *at, bytes);
                    }
                    Step::Discard => staged.discard(number),
                }
            }
            let mut count = 0;
            for block in 0..4 {
                let own = steps.iter().filter(|(of, _)| *of == block);
                let own: Vec<_> = own.map(|(_, step)| step.clone()).collect();
                let Ok(model) = model(&old(block), &own) else {
                    prop_assert!(!staged.has(BlockNumber(block)));
                    continue;
                };
                let operation = staged.operation(count);
                prop_assert_eq!(operation.block(), BlockNumber(block));
                count += 1;
                match (operation, model) {
                    (Operation::Discard(_), None) => {}
                    (Operation::Update(update), Some((image, is_known))) => {
                        prop_assert_eq!(update.change.image(), Some(&image[..]));
                        let mut patched = old(block);
                        for piece in update.change.pieces() {
                            patched[piece.at as usize..][..piece.bytes.len()]
                                .copy_from_slice(piece.bytes);
                        }
                        prop_assert_eq!(patched, image);
                        let has_ranges = matches!(update.change, Change::Ranges { .. });
                        prop_assert_eq!(has_ranges, is_known);
                    }
                    other => prop_assert!(false, "{other:?}"),
                }
            }
            prop_assert_eq!(staged.count(), count);
        }
    }
}
