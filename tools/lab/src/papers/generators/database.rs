//! Trees of pages: which ones a transaction changes, and what they hold then.

use std::collections::BTreeMap;

use crate::papers::BLOCK;
use crate::papers::generators::slotted::{CELL_BYTES, PageKind, Slotted, cell_of, key_of};

/// Where page 1 has the counter of changes, the number of pages, the chain of free pages, and a
/// copy of the counter.
const CHANGES_AT: usize = 24;
const PAGES_AT: usize = 28;
const FREE_AT: usize = 32;
const VALID_AT: usize = 92;

/// The leaves of a tree, by their first keys; and the tree that names them, where they are many.
struct PageTree {
    kind: PageKind,
    leaves: BTreeMap<u64, u32>,
    above: Option<usize>,
}

/// A database: page 1, and trees.
pub struct PagedDatabase {
    pages: Vec<Vec<u8>>,
    trees: Vec<PageTree>,
    free: Vec<u32>,
    /// Pages that the transaction has changed, with what they held before; `None` for new ones.
    changed: BTreeMap<u32, Option<Vec<u8>>>,
    changes: u32,
}

/// What a transaction has changed.
pub struct Changed {
    /// Pages, and what each held before it; `None` for new ones.
    pub pages: BTreeMap<u32, Option<Vec<u8>>>,
    /// Pages before the transaction, and after it.
    pub counts: (usize, usize),
}

impl Default for PagedDatabase {
    fn default() -> Self {
        Self {
            pages: vec![vec![0; BLOCK]],
            trees: Vec::new(),
            free: Vec::new(),
            changed: BTreeMap::new(),
            changes: 0,
        }
    }
}

impl PagedDatabase {
    pub fn tree(&mut self, kind: PageKind) -> usize {
        let page = self.new_page(kind);
        self.trees.push(PageTree { kind, leaves: BTreeMap::from([(0, page)]), above: None });
        self.trees.len() - 1
    }

    pub fn image(&self, page: u32) -> &[u8] {
        &self.pages[page as usize]
    }

    pub const fn page_count(&self) -> usize {
        self.pages.len()
    }

    /// A page that is about to be changed.
    fn page(&mut self, page: u32) -> &mut [u8] {
        let bytes = &mut self.pages[page as usize];
        self.changed.entry(page).or_insert_with(|| Some(bytes.clone()));
        bytes
    }

    fn new_page(&mut self, kind: PageKind) -> u32 {
        let page = match self.free.pop() {
            Some(page) => page,
            None => {
                self.pages.push(vec![0; BLOCK]);
                let page = self.pages.len() as u32 - 1;
                self.changed.insert(page, None);
                page
            }
        };
        Slotted(self.page(page)).format(kind);
        page
    }

    /// The leaf that has a key, or would have it; and the first key that it may have.
    fn leaf(&self, tree: usize, key: u64) -> (u64, u32) {
        let found = self.trees[tree].leaves.range(..=key).next_back();
        found.map(|(first, page)| (*first, *page)).expect("the first leaf begins at zero")
    }

    /// Puts a row into a tree that does not have its key.
    pub fn insert(&mut self, tree: usize, key: u64, content: &[u8]) {
        self.insert_cell(tree, &cell_of(key, content));
    }

    fn insert_cell(&mut self, tree: usize, cell: &[u8]) {
        let key = key_of(cell);
        let (_, page) = self.leaf(tree, key);
        let mut leaf = Slotted(self.page(page));
        let index = leaf.find(key).expect_err("a key is there once");
        if !leaf.insert(index, cell) {
            self.split(tree, page, key);
            self.insert_cell(tree, cell);
        }
    }

    /// Moves the upper half of a leaf to a new one; or nothing, where a key is behind all others.
    fn split(&mut self, tree: usize, page: u32, key: u64) {
        let kind = self.trees[tree].kind;
        let new = self.new_page(kind);
        let leaf = Slotted(self.page(page));
        let count = leaf.count();
        let from = if leaf.key(count - 1) < key { count } else { count / 2 };
        let moved: Vec<Vec<u8>> = (from..count).map(|at| leaf.cell(at).to_vec()).collect();
        for (index, cell) in moved.iter().enumerate() {
            assert!(Slotted(self.page(new)).insert(index, cell), "a half fits");
            Slotted(self.page(page)).remove(from);
        }
        let first = moved.first().map_or(key, |cell| key_of(cell));
        if self.trees[tree].above.is_none() {
            let above = self.tree(PageKind::Interior);
            self.trees[tree].above = Some(above);
            for (first, leaf) in self.trees[tree].leaves.clone() {
                self.insert(above, first, &leaf.to_le_bytes());
            }
        }
        self.trees[tree].leaves.insert(first, new);
        if let Some(above) = self.trees[tree].above {
            self.insert(above, first, &new.to_le_bytes());
        }
    }

    /// Changes the content of a row; `false` where it is not there.
    pub fn update(&mut self, tree: usize, key: u64, change: impl FnOnce(&mut Vec<u8>)) -> bool {
        let (_, page) = self.leaf(tree, key);
        let Ok(index) = Slotted(&mut self.pages[page as usize]).find(key) else { return false };
        let mut leaf = Slotted(self.page(page));
        let mut content = leaf.cell(index)[CELL_BYTES..].to_vec();
        change(&mut content);
        let cell = cell_of(key, &content);
        if !leaf.replace(index, &cell) {
            self.insert_cell(tree, &cell);
        }
        true
    }

    /// Removes a row; `false` where it is not there. A leaf without a row is free.
    pub fn delete(&mut self, tree: usize, key: u64) -> bool {
        let (first, page) = self.leaf(tree, key);
        let Ok(index) = Slotted(&mut self.pages[page as usize]).find(key) else { return false };
        let mut leaf = Slotted(self.page(page));
        leaf.remove(index);
        if leaf.count() == 0 && first > 0 {
            self.trees[tree].leaves.remove(&first);
            self.free.push(page);
            if let Some(above) = self.trees[tree].above {
                self.delete(above, first);
            }
            let free = self.free.len() as u32;
            let head = self.page(0);
            head[FREE_AT..FREE_AT + 4].copy_from_slice(&page.to_be_bytes());
            head[FREE_AT + 4..FREE_AT + 8].copy_from_slice(&free.to_be_bytes());
        }
        true
    }

    /// Ends a transaction that has changed something.
    pub fn commit(&mut self) -> Changed {
        self.changes += 1;
        let (changes, count) = (self.changes, self.pages.len());
        let head = self.page(0);
        head[CHANGES_AT..CHANGES_AT + 4].copy_from_slice(&changes.to_be_bytes());
        head[VALID_AT..VALID_AT + 4].copy_from_slice(&changes.to_be_bytes());
        head[PAGES_AT..PAGES_AT + 4].copy_from_slice(&(count as u32).to_be_bytes());
        let pages = core::mem::take(&mut self.changed);
        let new = pages.values().filter(|before| before.is_none()).count();
        Changed { pages, counts: (count - new, count) }
    }

    /// Whether the transaction has changed nothing so far.
    pub fn is_unchanged(&self) -> bool {
        self.changed.is_empty()
    }
}

/// Letters that no row has twice.
pub fn letters(key: u64, len: usize) -> Vec<u8> {
    let mut word = key.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let letter = |_| {
        word = word.wrapping_mul(0xD134_2543_DE82_EF95).wrapping_add(1);
        b'a' + ((word >> 40) % 26) as u8
    };
    (0..len).map(letter).collect()
}

#[cfg(test)]
mod tests {
    use sim_disk::Rng;

    use super::*;

    #[test]
    fn a_tree_has_what_was_put_into_it() {
        let (mut database, mut rng) = (PagedDatabase::default(), Rng::new(2));
        let tree = database.tree(PageKind::Table);
        let mut rows: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
        let mut pages = 0;
        for step in 0..20_000_u64 {
            let key = 1 + rng.below(3_000);
            let content = letters(step, 20 + rng.index(100));
            let grows = step < 10_000;
            let is_there = rows.contains_key(&key);
            if is_there && rng.chance(1, if grows { 8 } else { 2 }) {
                assert!(database.delete(tree, key));
                rows.remove(&key);
            } else if is_there {
                assert!(database.update(tree, key, |old| old.clone_from(&content)));
                rows.insert(key, content);
            } else if grows || rng.chance(1, 4) {
                database.insert(tree, key, &content);
                rows.insert(key, content);
            } else {
                assert!(!database.delete(tree, key) && !database.update(tree, key, |_| ()));
            }
            if step % 7 == 0 {
                let changed = database.commit();
                assert!(changed.counts.0 <= changed.counts.1 && database.is_unchanged());
                assert!(changed.pages.contains_key(&0), "page 1 counts changes");
                pages = pages.max(changed.counts.1);
            }
        }
        assert!(pages > 50, "leaves were split");
        let mut found = BTreeMap::new();
        for page in database.trees[tree].leaves.clone().into_values() {
            let leaf = Slotted(&mut database.pages[page as usize]);
            let cells = (0..leaf.count()).map(|at| leaf.cell(at).to_vec());
            found.extend(cells.map(|cell| (key_of(&cell), cell[CELL_BYTES..].to_vec())));
        }
        assert_eq!(found, rows);
        let above = database.trees[tree].above.expect("there are many leaves");
        let named: usize = database.trees[above]
            .leaves
            .values()
            .copied()
            .collect::<Vec<_>>()
            .into_iter()
            .map(|page| Slotted(&mut database.pages[page as usize]).count())
            .sum();
        assert_eq!(named, database.trees[tree].leaves.len());
    }
}
