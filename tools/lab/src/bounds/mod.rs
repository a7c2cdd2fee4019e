//! What an update has to cost by a policy's idea of it, in bytes and in lines, computed from the
//! images of the trace without asking the policy or the journal.
//!
//! A bound that depends on what lies in persistent memory keeps books of its own
//! ([`Versions`]), and is told what the journal was asked to give up.

pub mod deltas;

use std::collections::BTreeSet;

use journal_core::units::{LINE_BYTES, WORD_BYTES};

use crate::trace::Image;
use crate::trace::versions::{GivenUp, Versions};

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

    /// Space was made.
    fn given_up(&mut self, what: GivenUp<'_>) {
        let _ = what;
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

/// Versions in slots: the words that differ from the version before the newest, where both lie in
/// persistent memory, and the block otherwise; nothing for what goes home.
#[derive(Debug)]
pub struct InSlots {
    rewrite: Rewrite,
    appends_go_home: bool,
    versions: Versions<Image>,
    /// Blocks that went home, as the journal remembers until it has given its space up.
    appended: BTreeSet<u64>,
}

impl InSlots {
    pub const fn new(rewrite: Rewrite, appends_go_home: bool) -> Self {
        Self { rewrite, appends_go_home, versions: Versions::new(), appended: BTreeSet::new() }
    }
}

impl Bound for InSlots {
    fn cost(&mut self, changed: &Changed<'_>) -> Cost {
        let Changed { block, old, new, is_append, .. } = *changed;
        let is_known = self.versions.has(block) || self.appended.contains(&block);
        if is_append && self.appends_go_home && !is_known {
            // Nobody asks what it held.
            self.appended.insert(block);
            return Cost::NOTHING;
        }
        if *old == **new {
            return Cost::NOTHING;
        }
        match (self.versions.write(block, Image::clone(new)), self.rewrite) {
            (Some(older), Rewrite::Words) => Cost::of_words(&older, new),
            _ => Cost::together(new.len() as u64),
        }
    }

    fn given_up(&mut self, what: GivenUp<'_>) {
        let _ = self.versions.give_up(what);
        match what {
            GivenUp::Folded | GivenUp::All => self.appended.clear(),
            GivenUp::Home(_) | GivenUp::Superseded => {}
        }
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
        let changed =
            Changed { block: 0, old: &old, new: &new, object_bytes, is_append, is_data: false };
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

    /// The images that a block takes in turn, and what each is said to cost.
    fn costs(bound: &mut InSlots, images: &[Image], is_append: bool) -> Vec<u64> {
        let mut old = image(&[]);
        let mut costs = Vec::new();
        for new in images {
            let changed =
                Changed { block: 3, old: &old, new, object_bytes: 0, is_append, is_data: true };
            costs.push(bound.cost(&changed).bytes);
            old.clone_from(new);
        }
        costs
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
    fn words_count_against_the_version_before_the_newest() {
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
        let mut bound = InSlots::new(Rewrite::Words, true);
        assert_eq!(costs(&mut bound, &images, false), [4096, 4096, 0, 16, 8]);
        let mut bound = InSlots::new(Rewrite::Whole, true);
        assert_eq!(costs(&mut bound, &images, false), [4096, 4096, 0, 4096, 4096]);
    }

    #[test]
    fn what_was_given_up_is_written_whole_again() {
        let images =
            |from: u8| (from..from + 3).map(|byte| image(&[(0, byte)])).collect::<Vec<_>>();
        for (what, expected) in [
            (GivenUp::Folded, [4096, 8, 8]),
            (GivenUp::Superseded, [4096, 8, 8]),
            (GivenUp::Home(&[3]), [4096, 4096, 8]),
            (GivenUp::Home(&[4]), [8, 8, 8]),
            (GivenUp::All, [4096, 4096, 8]),
        ] {
            let mut bound = InSlots::new(Rewrite::Words, true);
            assert_eq!(costs(&mut bound, &images(1), false), [4096, 4096, 8]);
            bound.given_up(what);
            assert_eq!(costs(&mut bound, &images(4), false), expected, "{what:?}");
        }
    }

    #[test]
    fn an_append_costs_nothing_where_it_goes_home() {
        let images = [image(&[(0, 1)]), image(&[(0, 2)])];
        // It goes there once: then it is live, as far as the journal knows.
        let mut bound = InSlots::new(Rewrite::Words, true);
        assert_eq!(costs(&mut bound, &images, true), [0, 4096]);
        bound.given_up(GivenUp::All);
        assert_eq!(costs(&mut bound, &images, true), [0, 4096]);
        let mut bound = InSlots::new(Rewrite::Words, false);
        assert_eq!(costs(&mut bound, &images, true), [4096, 4096]);
    }
}
