//! A page of cells, laid out as SQLite does: a header, pointers that ascend by key, a gap, and
//! cells from the end down. What is freed is kept in a chain, and a page without a gap is packed
//! anew.
//!
//! A cell is its length, its key and its content. Nothing about a page is kept outside its bytes.

use crate::papers::BLOCK;

/// Where the header has the first free part, the number of cells, where cells begin, and the bytes
/// that are in no free part.
const FIRST_FREE: usize = 1;
const COUNT: usize = 3;
const BEGIN: usize = 5;
const FRAGMENTS: usize = 7;
const HEADER_BYTES: usize = 8;
const POINTER_BYTES: usize = 2;
/// The length and the key of a cell.
pub const CELL_BYTES: usize = 2 + 8;
/// A free part says where the next one is, and its length. Less than that is a fragment.
const FREE_BYTES: usize = 4;

/// What a page is: its first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum PageKind {
    Interior = 5,
    Index = 10,
    Table = 13,
}

/// A page, as the cells that it has.
pub struct Slotted<'a>(pub &'a mut [u8]);

impl Slotted<'_> {
    pub fn format(&mut self, kind: PageKind) {
        self.0[..HEADER_BYTES].fill(0);
        self.0[0] = kind as u8;
        self.put(BEGIN, BLOCK);
    }

    fn number(&self, at: usize) -> usize {
        usize::from(u16::from_le_bytes([self.0[at], self.0[at + 1]]))
    }

    fn put(&mut self, at: usize, number: usize) {
        self.0[at..at + 2].copy_from_slice(&(number as u16).to_le_bytes());
    }

    pub fn count(&self) -> usize {
        self.number(COUNT)
    }

    fn place(&self, index: usize) -> usize {
        self.number(HEADER_BYTES + POINTER_BYTES * index)
    }

    /// The cell at this place among the keys.
    pub fn cell(&self, index: usize) -> &[u8] {
        let at = self.place(index);
        &self.0[at..at + self.number(at)]
    }

    pub fn key(&self, index: usize) -> u64 {
        key_of(self.cell(index))
    }

    /// Where a key is, or would be.
    pub fn find(&self, key: u64) -> Result<usize, usize> {
        let (mut from, mut to) = (0, self.count());
        while from < to {
            let middle = usize::midpoint(from, to);
            match self.key(middle).cmp(&key) {
                core::cmp::Ordering::Less => from = middle + 1,
                core::cmp::Ordering::Greater => to = middle,
                core::cmp::Ordering::Equal => return Ok(middle),
            }
        }
        Err(from)
    }

    /// Free parts, ascending by place.
    fn free_parts(&self) -> Vec<(usize, usize)> {
        let (mut parts, mut at) = (Vec::new(), self.number(FIRST_FREE));
        while at > 0 {
            parts.push((at, self.number(at + 2)));
            at = self.number(at);
        }
        parts
    }

    fn put_free_parts(&mut self, parts: &[(usize, usize)]) {
        self.put(FIRST_FREE, parts.first().map_or(0, |(at, _)| *at));
        for (index, (at, len)) in parts.iter().enumerate() {
            self.put(*at, parts.get(index + 1).map_or(0, |(next, _)| *next));
            self.put(at + 2, *len);
        }
    }

    fn gap(&self) -> usize {
        self.number(BEGIN) - HEADER_BYTES - POINTER_BYTES * self.count()
    }

    fn free_bytes(&self) -> usize {
        let parts: usize = self.free_parts().iter().map(|(_, len)| len).sum();
        self.gap() + parts + usize::from(self.0[FRAGMENTS])
    }

    /// Packs all cells at the end, in the order of their keys.
    fn pack(&mut self) {
        let cells: Vec<Vec<u8>> =
            (0..self.count()).map(|index| self.cell(index).to_vec()).collect();
        let mut at = BLOCK;
        for (index, cell) in cells.iter().enumerate() {
            at -= cell.len();
            self.0[at..at + cell.len()].copy_from_slice(cell);
            self.put(HEADER_BYTES + POINTER_BYTES * index, at);
        }
        self.put(BEGIN, at);
        self.put(FIRST_FREE, 0);
        self.0[FRAGMENTS] = 0;
    }

    /// A place for a cell and its pointer, where there is room for both.
    fn allocate(&mut self, len: usize) -> usize {
        let mut parts = self.free_parts();
        let fits = |part: &(usize, usize)| part.1 >= len;
        if self.gap() >= POINTER_BYTES
            && let Some(index) = parts.iter().position(fits)
        {
            let (at, whole) = parts[index];
            let rest = whole - len;
            if rest >= FREE_BYTES {
                parts[index].1 = rest;
            } else {
                parts.remove(index);
                self.0[FRAGMENTS] += rest as u8;
            }
            self.put_free_parts(&parts);
            return at + rest;
        }
        if self.gap() < len + POINTER_BYTES {
            self.pack();
        }
        let at = self.number(BEGIN) - len;
        self.put(BEGIN, at);
        at
    }

    /// Puts a cell before the one at this place; `false` where there is no room.
    pub fn insert(&mut self, index: usize, cell: &[u8]) -> bool {
        if self.free_bytes() < cell.len() + POINTER_BYTES {
            return false;
        }
        let at = self.allocate(cell.len());
        self.0[at..at + cell.len()].copy_from_slice(cell);
        let (from, to) = (HEADER_BYTES + POINTER_BYTES * index, self.count() * POINTER_BYTES);
        self.0.copy_within(from..HEADER_BYTES + to, from + POINTER_BYTES);
        self.put(from, at);
        self.put(COUNT, self.count() + 1);
        true
    }

    pub fn remove(&mut self, index: usize) {
        let (at, len) = (self.place(index), self.cell(index).len());
        let from = HEADER_BYTES + POINTER_BYTES * index;
        let end = HEADER_BYTES + POINTER_BYTES * self.count();
        self.0.copy_within(from + POINTER_BYTES..end, from);
        self.put(COUNT, self.count() - 1);
        let mut parts = self.free_parts();
        parts.push((at, len));
        parts.sort_unstable();
        parts.dedup_by(|next, last| {
            let touch = last.0 + last.1 == next.0;
            last.1 += if touch { next.1 } else { 0 };
            touch
        });
        if parts[0].0 == self.number(BEGIN) {
            let (_, len) = parts.remove(0);
            self.put(BEGIN, self.number(BEGIN) + len);
        }
        self.put_free_parts(&parts);
    }

    /// Puts another cell with the same key here; `false` where there is no room, and the old one is
    /// gone then.
    pub fn replace(&mut self, index: usize, cell: &[u8]) -> bool {
        let at = self.place(index);
        if self.number(at) == cell.len() {
            self.0[at..at + cell.len()].copy_from_slice(cell);
            return true;
        }
        self.remove(index);
        self.insert(index, cell)
    }
}

/// A cell of a key and a content.
pub fn cell_of(key: u64, content: &[u8]) -> Vec<u8> {
    let len = (CELL_BYTES + content.len()) as u16;
    [&len.to_le_bytes()[..], &key.to_be_bytes(), content].concat()
}

pub fn key_of(cell: &[u8]) -> u64 {
    let key = cell[2..CELL_BYTES].try_into().expect("eight bytes");
    u64::from_be_bytes(key)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use sim_disk::Rng;

    use super::*;

    #[test]
    fn a_page_has_what_was_put_into_it() {
        let (mut bytes, mut rng) = (vec![0; BLOCK], Rng::new(1));
        let mut page = Slotted(&mut bytes);
        page.format(PageKind::Table);
        let (mut cells, mut refused): (BTreeMap<u64, Vec<u8>>, _) = (BTreeMap::new(), 0);
        for step in 0..4_000_u64 {
            let key = rng.below(60);
            let cell = cell_of(key, &vec![step as u8; 10 + rng.index(150)]);
            match page.find(key) {
                Err(index) if page.insert(index, &cell) => {
                    cells.insert(key, cell);
                }
                Ok(index) if rng.chance(1, 2) => {
                    page.remove(index);
                    cells.remove(&key);
                }
                Ok(index) => {
                    cells.remove(&key);
                    if page.replace(index, &cell) {
                        cells.insert(key, cell);
                    }
                }
                Err(_) => refused += 1,
            }
            let has = (0..page.count()).map(|at| (page.key(at), page.cell(at).to_vec()));
            assert!(has.eq(cells.clone()), "step {step}");
            let used: usize = cells.values().map(|cell| cell.len() + POINTER_BYTES).sum();
            assert_eq!(page.free_bytes() + used + HEADER_BYTES, BLOCK, "step {step}");
            let apart = |two: &[(usize, usize)]| two[0].0 + two[0].1 < two[1].0;
            assert!(page.free_parts().windows(2).all(apart), "step {step}: what touches is one");
        }
        assert!(refused > 10, "the page was full at times");
    }
}
