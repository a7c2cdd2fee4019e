//! What an update has to cost by a policy's idea of it, in bytes and in lines, computed from the
//! images of the trace without asking the policy or the journal.
//!
//! A bound that depends on what lies in persistent memory keeps books of its own of the slots. It
//! reads in the record which slot the journal took ([`Changed::place`]), and knows what lay there.

pub mod deltas;

use std::collections::{BTreeMap, BTreeSet};

use journal_core::units::{LINE_BYTES, WORD_BYTES};

use crate::trace::Image;

/// Where the content of a committed block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the record, whole; or nowhere.
    Elsewhere,
    /// In the record, as far as it differs: a number of bytes, of which this is the first.
    Encoded {
        first: u8,
        bytes: u64,
    },
    /// In this slot, which was written whole or where it differs.
    Slot {
        number: u64,
        is_whole: bool,
    },
    Log,
    /// Home, before the record.
    Home,
}

/// A block before and after an update.
#[derive(Clone, Copy, Debug)]
pub struct Changed<'a> {
    pub block: u64,
    pub old: &'a [u8],
    pub new: &'a Image,
    /// The size of its objects; zero where it has none.
    pub object_bytes: usize,
    /// Nothing of the old image is needed.
    pub is_append: bool,
    /// What files hold, not what says where.
    pub is_data: bool,
    /// Where the journal has put it, by its record; nowhere if it logged nothing.
    pub place: Option<Place>,
}

/// What something has to cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    pub bytes: u64,
    /// Lines that cannot be left out.
    pub lines: u64,
    /// Blocks of the disk-side log.
    pub log_blocks: u64,
}

impl Cost {
    pub const NOTHING: Self = Self { bytes: 0, lines: 0, log_blocks: 0 };
    pub const LOGGED: Self = Self { log_blocks: 1, ..Self::NOTHING };

    /// Bytes one after the other.
    pub fn together(bytes: u64) -> Self {
        Self { bytes, lines: bytes.div_ceil(LINE_BYTES as u64), log_blocks: 0 }
    }

    /// The words that make one image the other, where they are.
    fn of_words(older: &[u8], newer: &[u8]) -> Self {
        let mut cost = Self::NOTHING;
        for (older, newer) in older.chunks(LINE_BYTES).zip(newer.chunks(LINE_BYTES)) {
            let words = older.chunks(WORD_BYTES).zip(newer.chunks(WORD_BYTES));
            let differ = words.filter(|(older, newer)| older != newer);
            cost.bytes += differ.map(|(_, newer)| newer.len() as u64).sum::<u64>();
            cost.lines += u64::from(older != newer);
        }
        cost
    }
}

impl core::ops::AddAssign for Cost {
    fn add_assign(&mut self, more: Self) {
        self.bytes += more.bytes;
        self.lines += more.lines;
        self.log_blocks += more.log_blocks;
    }
}

/// What updates have to cost, by a policy's idea of it.
pub trait Bound {
    /// For the next update.
    fn cost(&mut self, changed: &Changed<'_>) -> Cost;

    /// Whether the journal may have written this many slots whole, where it has freed `freed` slots
    /// meanwhile.
    fn may_be_whole(&self, whole_slots: u64, freed: u64) -> bool {
        let _ = (whole_slots, freed);
        true
    }
}

/// The block as a whole.
#[derive(Debug)]
pub struct WholeBlock;

impl Bound for WholeBlock {
    fn cost(&mut self, changed: &Changed<'_>) -> Cost {
        let is_same = *changed.old == **changed.new;
        if is_same { Cost::NOTHING } else { Cost::together(changed.new.len() as u64) }
    }
}

/// The objects that change, each with 8 bytes to name it; never more than the block, and the block
/// where it is new.
#[derive(Debug)]
pub struct ChangedObjects;

/// Pieces of blocks without objects.
const PIECE_BYTES: usize = 256;
const NAME_BYTES: u64 = 8;

impl Bound for ChangedObjects {
    fn cost(&mut self, changed: &Changed<'_>) -> Cost {
        let Changed { old, new, object_bytes, is_append, .. } = *changed;
        let whole = new.len() as u64;
        if *old == **new {
            return Cost::NOTHING;
        }
        if is_append {
            return Cost::together(whole);
        }
        let size = if object_bytes == 0 { PIECE_BYTES } else { object_bytes };
        let objects = old.chunks(size).zip(new.chunks(size)).filter(|(old, new)| old != new);
        let bytes: u64 = objects.map(|(_, new)| new.len() as u64 + NAME_BYTES).sum();
        Cost::together(bytes.min(whole))
    }
}

/// What a version in a slot takes where another one lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rewrite {
    /// The words that differ from the version before the newest.
    Words,
    /// All of it.
    Whole,
}

/// Versions in slots: the words in which a version differs from what lay in its slot, and the block
/// where the slot held nothing; nothing for what goes home.
///
/// A block has two slots at most. So no more slots may be written whole than twice the blocks, and
/// those that the journal has freed.
#[derive(Debug)]
pub struct InSlots {
    rewrite: Rewrite,
    appends_go_home: bool,
    /// What lies in each slot.
    slots: BTreeMap<u64, Image>,
    blocks: BTreeSet<u64>,
}

impl InSlots {
    pub const fn new(rewrite: Rewrite, appends_go_home: bool) -> Self {
        let slots = BTreeMap::new();
        Self { rewrite, appends_go_home, slots, blocks: BTreeSet::new() }
    }
}

impl Bound for InSlots {
    fn cost(&mut self, changed: &Changed<'_>) -> Cost {
        let Changed { block, old, new, is_append, place, .. } = *changed;
        match place {
            // Nobody asks what it held.
            Some(Place::Home) if is_append && self.appends_go_home => Cost::NOTHING,
            _ if *old == **new => Cost::NOTHING,
            Some(Place::Slot { number, is_whole }) => {
                self.blocks.insert(block);
                let older = self.slots.insert(number, Image::clone(new));
                match (older, self.rewrite) {
                    (Some(older), Rewrite::Words) if !is_whole => Cost::of_words(&older, new),
                    _ => Cost::together(new.len() as u64),
                }
            }
            _ => Cost::together(new.len() as u64),
        }
    }

    fn may_be_whole(&self, whole_slots: u64, freed: u64) -> bool {
        self.rewrite == Rewrite::Whole || whole_slots <= 2 * self.blocks.len() as u64 + freed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(touched: &[(usize, u8)]) -> Image {
        let mut image = vec![0; 4096];
        for (at, byte) in touched {
            image[*at] = *byte;
        }
        image.into()
    }

    fn objects(object_bytes: usize, is_append: bool, touched: &[usize]) -> u64 {
        let touched: Vec<_> = touched.iter().map(|at| (*at, 1)).collect();
        let (old, new) = (image(&[]), image(&touched));
        let changed = Changed { object_bytes, is_append, is_data: false, ..changed(&old, &new) };
        let same = Changed { old: &new, ..changed };
        assert_eq!(WholeBlock.cost(&changed), Cost { bytes: 4096, lines: 64, log_blocks: 0 });
        assert_eq!(WholeBlock.cost(&same), Cost::NOTHING);
        assert_eq!(ChangedObjects.cost(&same), Cost::NOTHING);
        let Cost { bytes, lines, .. } = ChangedObjects.cost(&changed);
        assert_eq!(lines, bytes.div_ceil(64));
        bytes
    }

    #[test]
    fn a_bound_counts_the_objects_that_change() {
        assert_eq!(objects(256, false, &[0, 1, 255]), 264);
        assert_eq!(objects(256, false, &[0, 256]), 528);
        assert_eq!(objects(64, false, &[0, 4095]), 144);
        // Without objects it is pieces.
        assert_eq!(objects(0, false, &[255, 256]), 528);
        // Never more than the block, and the block where it is new.
        let all: Vec<usize> = (0..4096).step_by(256).collect();
        assert_eq!(objects(256, false, &all[..15]), 3960);
        assert_eq!(objects(256, false, &all), 4096);
        assert_eq!(objects(256, true, &[0]), 4096);
    }

    /// The images that a block takes in turn, in these slots, and what each is said to cost.
    fn costs(bound: &mut InSlots, images: &[Image], slots: &[(u64, bool)]) -> Vec<u64> {
        let mut old = image(&[]);
        let mut costs = Vec::new();
        for (new, (number, is_whole)) in images.iter().zip(slots) {
            let place = Some(Place::Slot { number: *number, is_whole: *is_whole });
            let changed = Changed { new, place, ..changed(&old, new) };
            costs.push(bound.cost(&changed).bytes);
            old.clone_from(new);
        }
        costs
    }

    fn changed<'a>(old: &'a [u8], new: &'a Image) -> Changed<'a> {
        let is_data = true;
        Changed { block: 3, old, new, object_bytes: 0, is_append: false, is_data, place: None }
    }

    #[test]
    fn words_count_alone_and_lines_where_they_are() {
        let of = |touched: &[(usize, u8)]| {
            let cost = Cost::of_words(&image(&[]), &image(touched));
            (cost.bytes, cost.lines)
        };
        assert_eq!(of(&[]), (0, 0));
        assert_eq!(of(&[(0, 1), (7, 1), (8, 1), (63, 1)]), (24, 1));
        assert_eq!(of(&[(63, 1), (64, 1)]), (16, 2));
    }

    #[test]
    fn words_count_against_what_lay_in_the_slot() {
        let images = [
            image(&[(0, 1)]),
            image(&[(0, 2)]),
            // Unchanged.
            image(&[(0, 2)]),
            // Words 0 and 2, although only word 2 differs from what the block holds.
            image(&[(0, 2), (16, 1), (23, 1)]),
            // As the version before the newest, but for one word.
            image(&[(0, 2), (4095, 1)]),
        ];
        let slots = [(7, true), (8, true), (0, false), (7, false), (8, false)];
        let mut bound = InSlots::new(Rewrite::Words, true);
        assert_eq!(costs(&mut bound, &images, &slots), [4096, 4096, 0, 16, 8]);
        assert!(bound.may_be_whole(2, 0) && bound.may_be_whole(3, 1) && !bound.may_be_whole(3, 0));
        let mut bound = InSlots::new(Rewrite::Whole, true);
        assert_eq!(costs(&mut bound, &images, &slots), [4096, 4096, 0, 4096, 4096]);
        assert!(bound.may_be_whole(9, 0));
    }

    #[test]
    fn what_was_given_up_is_written_whole_again() {
        let images: Vec<_> = (1..5).map(|byte| image(&[(0, byte)])).collect();
        let slots = [(7, true), (8, true), (7, true), (9, false)];
        let mut bound = InSlots::new(Rewrite::Words, true);
        // A slot that nobody has written holds nothing.
        assert_eq!(costs(&mut bound, &images, &slots), [4096; 4]);
    }

    #[test]
    fn an_append_costs_nothing_where_it_goes_home() {
        let (old, new) = (image(&[]), image(&[(0, 1)]));
        let append = Changed { is_append: true, place: Some(Place::Home), ..changed(&old, &new) };
        let cost = |appends_go_home, changed| {
            InSlots::new(Rewrite::Words, appends_go_home).cost(changed).bytes
        };
        assert_eq!(cost(true, &append), 0);
        assert_eq!(cost(false, &append), 4096);
        // Nothing else may go there.
        assert_eq!(cost(true, &Changed { is_append: false, ..append }), 4096);
    }
}
