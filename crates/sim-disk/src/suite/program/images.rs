//! What a transaction makes of its blocks, and in which of the ways that a store may say so.

use journal_core::policy::{Change, Kind as UpdateKind, Patch, Span, Update};
use journal_core::{BlockNumber, Operation, WORD_BYTES};

use crate::suite::program::oracle::{Block, Edit};

/// What a transaction makes of a block.
pub(in crate::suite) struct Edited {
    pub(in crate::suite) block: usize,
    pub(in crate::suite) edit: Edit,
    /// `None` where it is not live.
    pub(in crate::suite) old: Option<Block>,
    pub(in crate::suite) new: Block,
}

/// What a transaction makes of its blocks.
pub(in crate::suite) struct Images {
    /// How the policy gets single words without the old image; `None` where it gets that image too.
    /// Every other call gives a range of the new image, and the calls between give a patch alone.
    pub(in crate::suite) words_as: Option<WordsAs>,
    /// Whether appends are written over what is home.
    pub(in crate::suite) goes_home: bool,
    pub(in crate::suite) blocks: Vec<Edited>,
}

#[derive(Clone, Copy)]
pub(in crate::suite) enum WordsAs {
    Range,
    Patch,
}

/// Where `Edit::WriteAt` changes something.
pub(in crate::suite) const FIRST_WORD: [Span; 1] = [Span { at: 0, len: WORD_BYTES as u32 }];

impl Images {
    pub(in crate::suite) fn patches(&self) -> Vec<[Patch<'_>; 1]> {
        let words = self.blocks.iter().map(|edited| &edited.new[..WORD_BYTES]);
        words.map(|bytes| [Patch { at: 0, bytes }]).collect()
    }

    pub(in crate::suite) fn operations<'a>(
        &'a self,
        patches: &'a [[Patch<'a>; 1]],
    ) -> Vec<Operation<'a>> {
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
