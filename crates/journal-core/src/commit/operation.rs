//! The operations of a transaction, and the lists that hold them.

use crate::format::slot_entry::NamedSlot;
use crate::ports::policy::{Change, Update};
use crate::space::part::FrameIn;
use crate::units::{BlockNumber, SlotNumber};

/// What a transaction does to one block.
///
/// The layout has the block at one place, whichever it is.
#[derive(Clone, Copy, Debug)]
#[repr(u32)]
#[non_exhaustive]
pub enum Operation<'a> {
    /// New content.
    Update(Update<'a>),
    /// The block is not live any more: its content is undefined until it is written again.
    Discard(BlockNumber),
    /// New content that lies in a slot of the transaction's lane already.
    Active(BlockNumber, &'a Active),
}

impl<'a> Operation<'a> {
    /// An overwrite of a block with a new image, nothing else known.
    #[inline]
    #[must_use]
    pub const fn write(block: BlockNumber, image: &'a [u8]) -> Self {
        Self::Update(Update::new(block, Change::Image(image)))
    }

    /// Its block and image, where it is a new image and nothing else is known.
    #[inline]
    const fn image_alone(&self) -> Option<(BlockNumber, &'a [u8])> {
        match self {
            Self::Update(Update { block, old: None, change: Change::Image(image), .. }) => {
                Some((*block, image))
            }
            _ => None,
        }
    }

    /// The block that it changes.
    #[must_use]
    pub const fn block(&self) -> BlockNumber {
        match self {
            Self::Update(update) => update.block,
            Self::Discard(block) | Self::Active(block, _) => *block,
        }
    }

    /// The operation on another block: for a store that is a part of a larger one.
    #[must_use]
    pub const fn on(self, block: BlockNumber) -> Self {
        match self {
            Self::Update(update) => Self::Update(Update { block, ..update }),
            Self::Discard(_) => Self::Discard(block),
            Self::Active(_, active) => Self::Active(block, active),
        }
    }
}

/// The operations of one transaction, ascending by block, each block once.
pub trait Operations {
    /// How many there are.
    fn count(&self) -> usize;

    /// The operation number `at`, which is below the count.
    fn operation(&self, at: usize) -> Operation<'_>;

    /// Calls with one of them, where it lies if it lies anywhere. Copying a fresh operation would
    /// load wider than it was stored (C1).
    #[inline]
    fn with<'s, R>(&'s self, at: usize, call: impl FnOnce(&Operation<'s>) -> R) -> R {
        call(&self.operation(at))
    }

    /// The block of one of them.
    #[inline]
    fn block(&self, at: usize) -> BlockNumber {
        self.with(at, Operation::block)
    }

    /// Its block and image, where it is a new image and nothing else is known.
    #[inline]
    fn image_alone(&self, at: usize) -> Option<(BlockNumber, &[u8])> {
        self.operation(at).image_alone()
    }

    /// Whether an update without an old image has one that its journal lends the policy
    /// ([`Versions::with_old`](crate::commit::prepared::Versions::with_old)). Only what has one
    /// part is prepared so.
    #[inline]
    fn has_lent_old(&self, _at: usize) -> bool {
        false
    }
}

impl Operations for [Operation<'_>] {
    #[inline]
    fn count(&self) -> usize {
        self.len()
    }

    #[inline]
    fn operation(&self, at: usize) -> Operation<'_> {
        match self.get(at) {
            Some(operation) => *operation,
            None => unreachable!("it is below the count"),
        }
    }

    #[inline]
    fn with<'s, R>(&'s self, at: usize, call: impl FnOnce(&Operation<'s>) -> R) -> R {
        match self.get(at) {
            Some(operation) => call(operation),
            None => unreachable!("it is below the count"),
        }
    }

    #[inline]
    fn image_alone(&self, at: usize) -> Option<(BlockNumber, &[u8])> {
        self.get(at).and_then(Operation::image_alone)
    }
}

/// The image of the operation that a frame is of.
#[inline]
pub(super) fn image_of<'o>(
    operations: &'o (impl Operations + ?Sized),
    frame: &FrameIn,
) -> &'o [u8] {
    let at = frame.operation as usize;
    if let Some((_, image)) = operations.image_alone(at) {
        return image;
    }
    match operations.operation(at) {
        Operation::Update(Update { change, .. }) => change.image().unwrap_or_default(),
        Operation::Discard(_) | Operation::Active(..) => &[],
    }
}

/// Content in a slot of some lane that is in no record yet.
///
/// An operation of a transaction through that lane takes it in
/// ([`Operation::Active`](crate::Operation::Active)); then it is the journal's, and this is to be
/// dropped. Given up otherwise, it is [given back](crate::space::lane::InLane::deactivate), or its
/// slot is free again when the journal is opened next.
///
/// A copy names the same slot: of all copies one is taken in or given back, once.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "its slot is not free before it is given back"]
pub struct Active {
    pub(super) slot: SlotNumber,
    pub(super) content: u64,
}

impl Active {
    /// Where it lies.
    #[must_use]
    pub const fn slot(&self) -> SlotNumber {
        self.slot
    }

    /// What a frame says of it.
    pub(crate) fn named(&self) -> NamedSlot {
        NamedSlot { content: self.content.into(), slot: self.slot.raw().into(), reserved: 0.into() }
    }
}
