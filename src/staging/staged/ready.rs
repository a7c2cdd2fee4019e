//! A transaction's operations when it commits, with their patches put together.

use journal_core::parts::Operations;
use journal_core::policy::{Change, Patch, Update};
use journal_core::{BlockNumber, Operation};

use super::{Content, Staged, StagedBlock};
use crate::staging::changed_ranges::Touched;

/// A transaction of no more patches than this commits without an allocation for them.
const FEW_PATCHES: usize = 16;

/// Most transactions have no more than these.
const SOME_PATCHES: usize = 4;

const NO_PATCH: Patch<'static> = Patch { at: 0, bytes: &[] };

impl Staged {
    /// Calls with the operations as they are to be logged, patches and all.
    #[inline]
    pub(crate) fn ready<R>(&mut self, call: impl FnOnce(&Ready<'_>) -> R) -> R {
        let mut count = 0;
        if !self.patches.is_empty() {
            for staged in &mut self.blocks {
                if let Content::Patched(patches) = &mut staged.content {
                    patches.start = count;
                    count += patches.count;
                }
            }
        }
        let staged = &*self;
        let each = || {
            let patches = staged.blocks.iter().filter_map(|one| match &one.content {
                Content::Patched(patches) => Some(patches),
                Content::Nothing | Content::Image(_) => None,
            });
            let patches = patches.flat_map(|patches| staged.patches.each(patches));
            patches.map(|(at, bytes)| Patch { at: at as u32, bytes })
        };
        // No more is cleared than there are (C2).
        let (one, mut some, mut few, many);
        let patches = match count as usize {
            0 => &[],
            1 => {
                one = staged.only_patch();
                one.as_slice()
            }
            2..=SOME_PATCHES => {
                some = [NO_PATCH; SOME_PATCHES];
                fill(&mut some, each())
            }
            _ if count as usize <= FEW_PATCHES => {
                few = [NO_PATCH; FEW_PATCHES];
                fill(&mut few, each())
            }
            _ => {
                many = each().collect::<Vec<_>>();
                &many[..]
            }
        };
        // It stays where it was made (C1).
        let operation;
        let one = match staged.count() {
            1 => {
                operation = staged.operation_among(0, patches);
                Some(&operation)
            }
            _ => None,
        };
        call(&Ready { staged, patches, one })
    }

    /// The only patch.
    #[inline]
    fn only_patch(&self) -> Option<Patch<'_>> {
        let patches = |staged: &'_ StagedBlock| match staged.content {
            Content::Patched(patches) => Some(patches),
            Content::Nothing | Content::Image(_) => None,
        };
        let patches = self.blocks.iter().find_map(patches)?;
        let (at, bytes) = self.patches.each(&patches).next()?;
        Some(Patch { at: at as u32, bytes })
    }

    /// One of the operations, with its patches, which are among these.
    #[inline(always)]
    fn operation_among<'s>(&'s self, at: usize, patches: &'s [Patch<'s>]) -> Operation<'s> {
        let patches = match &self.blocks[at].content {
            Content::Patched(own) => &patches[own.range()],
            Content::Nothing | Content::Image(_) => &[],
        };
        self.operation_with(at, patches)
    }

    /// One of the operations, with its patches if it has nothing else.
    #[inline(always)]
    pub(super) fn operation_with<'s>(
        &'s self,
        at: usize,
        patches: &'s [Patch<'s>],
    ) -> Operation<'s> {
        let staged = &self.blocks[at];
        let change = match staged.content {
            Content::Nothing => return Operation::Discard(staged.block),
            Content::Image(image) => self.touched[image as usize].change(self.image_at(image)),
            Content::Patched(_) => Change::Patches(patches),
        };
        let mut update = Update::new(staged.block, change);
        update.class = staged.hint.class;
        update.kind = staged.hint.kind;
        update.object_bytes = staged.hint.object_bytes;
        update.old = self.olds.get(staged.block);
        Operation::Update(update)
    }
}

impl Touched {
    /// The change to an image that differs in these ranges.
    pub(super) fn change<'a>(&'a self, image: &'a [u8]) -> Change<'a> {
        match self {
            Self::Whole => Change::Image(image),
            Self::Spans(spans) => Change::Ranges { image, ranges: spans.as_slice() },
        }
    }
}

/// Puts patches one behind the other, as many as there are. One function for any room.
#[inline(never)]
fn fill<'t, 's>(
    to: &'t mut [Patch<'s>],
    patches: impl Iterator<Item = Patch<'s>>,
) -> &'t [Patch<'s>] {
    let mut count = 0;
    for (to, patch) in to.iter_mut().zip(patches) {
        *to = patch;
        count += 1;
    }
    &to[..count]
}

/// A transaction's operations, as they are to be logged.
pub(crate) struct Ready<'s> {
    staged: &'s Staged,
    /// The patches of all blocks, in the order of the operations.
    patches: &'s [Patch<'s>],
    /// The operation, made once, where there is only one.
    one: Option<&'s Operation<'s>>,
}

impl<'s> Ready<'s> {
    /// The only operation, where there are no more, and nothing is lent for it.
    #[inline]
    pub(crate) fn only_operation(&self) -> Option<&Operation<'s>> {
        self.one.filter(|_| !self.staged.blocks[0].is_lent)
    }

    /// The only operation, where there are no more, and its old image is lent.
    #[inline]
    pub(crate) fn lent_operation(&self) -> Option<&Operation<'s>> {
        self.one.filter(|_| self.staged.blocks[0].is_lent)
    }

    #[inline(never)]
    fn one_of_many(&self, at: usize) -> Operation<'_> {
        self.staged.operation_among(at, self.patches)
    }

    /// Whether some of them are patches.
    #[inline]
    pub(crate) const fn has_patches(&self) -> bool {
        !self.patches.is_empty()
    }
}

impl Operations for Ready<'_> {
    #[inline]
    fn count(&self) -> usize {
        self.staged.count()
    }

    #[inline]
    fn operation(&self, at: usize) -> Operation<'_> {
        self.one.copied().unwrap_or_else(|| self.one_of_many(at))
    }

    #[inline]
    fn with<'s, R>(&'s self, at: usize, call: impl FnOnce(&Operation<'s>) -> R) -> R {
        match self.one {
            Some(operation) => call(operation),
            None => call(&self.one_of_many(at)),
        }
    }

    #[inline]
    fn block(&self, at: usize) -> BlockNumber {
        self.staged.blocks[at].block
    }

    #[inline]
    fn image_alone(&self, at: usize) -> Option<(BlockNumber, &[u8])> {
        let staged = &self.staged.blocks[at];
        let image = staged.content.image().filter(|_| !staged.is_lent)?;
        let is_alone = matches!(self.staged.touched[image as usize], Touched::Whole)
            && self.staged.olds.get(staged.block).is_none();
        is_alone.then(|| (staged.block, self.staged.image_at(image)))
    }

    #[inline]
    fn has_lent_old(&self, at: usize) -> bool {
        self.staged.blocks[at].is_lent
    }
}
