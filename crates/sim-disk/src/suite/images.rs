//! What a transaction makes of its blocks, and in which of the ways that a store may say so.

use journal_core::policy::{Change, Kind as UpdateKind, Patch, Span, Update};
use journal_core::{BlockNumber, Operation, WORD_BYTES};

use crate::suite::oracle::{Block, Edit};

/// What a transaction makes of a block.
pub(super) struct Edited {
    pub(super) block: usize,
    pub(super) edit: Edit,
    /// `None` where it is not live.
    pub(super) old: Option<Block>,
    pub(super) new: Block,
}

/// What a transaction makes of its blocks.
pub(super) struct Images {
    /// Whether single words are given to the policy without the old image: in every other call as
    /// a range of the new one, in the others as a patch alone.
    pub(super) words_as: Option<WordsAs>,
    /// Whether appends are written over what is home.
    pub(super) goes_home: bool,
    pub(super) blocks: Vec<Edited>,
}

#[derive(Clone, Copy)]
pub(super) enum WordsAs {
    Range,
    Patch,
}

/// Where `Edit::WriteAt` changes something.
pub(super) const FIRST_WORD: [Span; 1] = [Span { at: 0, len: WORD_BYTES as u32 }];

impl Images {
    pub(super) fn patches(&self) -> Vec<[Patch<'_>; 1]> {
        let words = self.blocks.iter().map(|edited| &edited.new[..WORD_BYTES]);
        words.map(|bytes| [Patch { at: 0, bytes }]).collect()
    }

    pub(super) fn operations<'a>(&'a self, patches: &'a [[Patch<'a>; 1]]) -> Vec<Operation<'a>> {
        let operations = self.blocks.iter().zip(patches).map(|(edited, patch)| {
            let block = BlockNumber(edited.block as u64);
            if edited.edit == Edit::Discard {
                return Operation::Discard(block);
            }
            let mut update = Update::new(block, Change::Image(&edited.new));
            match edited.edit {
                // Only what is not live may be appended to.
                Edit::Append if edited.old.is_none() || !self.goes_home => {
                    update.kind = UpdateKind::Append;
                }
                Edit::Append => {}
                Edit::Overwrite => {}
                // What is not live is written whole.
                Edit::WriteAt if edited.old.is_some() => {
                    let image = &edited.new;
                    update.change = Change::Ranges { image, ranges: &FIRST_WORD };
                    match self.words_as {
                        None => update.old = edited.old.as_ref().map(|old| &old[..]),
                        Some(WordsAs::Range) => {}
                        Some(WordsAs::Patch) => update.change = Change::Patches(patch),
                    }
                }
                _ => update.old = edited.old.as_ref().map(|old| &old[..]),
            }
            Operation::Update(update)
        });
        operations.collect()
    }
}
