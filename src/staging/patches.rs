//! Patches of a transaction: bytes that change in a block, while no image of the block is made.
//!
//! The bytes lie one behind the other. The patches of a block are a list that ascends. They do not
//! overlap, so that each byte of the block has one new value at most.

/// The most patches of one block. A block with more has an image.
const PATCHES_MAX: usize = 16;

/// A block has room for one patch in each such part of it, at most.
const BYTES_FOR_EACH: usize = 16;

/// Memory for more bytes than this is given back when a transaction ends.
const KEPT_BYTES_MAX: usize = 1 << 20;

/// Stands for no patch.
const NONE: u32 = u32::MAX;

/// One patch.
#[derive(Clone, Copy, Debug)]
struct StagedPatch {
    /// Where in the block.
    at: u32,
    len: u32,
    /// Where its bytes lie.
    start: u32,
    /// The next one of the block.
    next: u32,
}

impl StagedPatch {
    const fn end(&self) -> usize {
        self.at as usize + self.len as usize
    }
}

/// The patches of one block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patches {
    first: u32,
    pub(super) count: u32,
    /// How many bytes they have.
    bytes: u32,
    /// How many patches the blocks before it have, once the transaction is ready.
    pub(super) start: u32,
}

impl Patches {
    #[cfg(test)]
    const NONE: Self = Self { first: NONE, count: 0, bytes: 0, start: 0 };

    /// Which of all patches they are, once the transaction is ready.
    #[inline]
    pub(super) const fn range(&self) -> core::ops::Range<usize> {
        self.start as usize..self.start as usize + self.count as usize
    }
}

/// The patches of a transaction.
#[derive(Debug)]
pub(crate) struct StagedPatches {
    patches: Vec<StagedPatch>,
    bytes: Vec<u8>,
}

impl StagedPatches {
    pub(super) const fn new() -> Self {
        Self { patches: Vec::new(), bytes: Vec::new() }
    }

    pub(super) fn clear(&mut self) {
        self.patches.clear();
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_BYTES_MAX);
        self.patches.shrink_to(KEPT_BYTES_MAX / size_of::<StagedPatch>());
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.patches.is_empty()
    }

    /// Whether there is room for a patch, which must not be empty.
    #[inline]
    pub(super) fn takes(&self, new: &[u8]) -> bool {
        !new.is_empty() && self.bytes.len() + new.len() <= u32::MAX as usize
    }

    /// Adds the first patch of a block, if there is room for it.
    #[inline]
    pub(super) fn add_first(&mut self, at: usize, new: &[u8], bytes_max: usize) -> Option<Patches> {
        if new.len() > bytes_max || !self.takes(new) {
            return None;
        }
        let number = self.push(at, new, NONE);
        Some(Patches { first: number, count: 1, bytes: new.len() as u32, start: 0 })
    }

    /// Appends a patch, of which `next` comes next in its block. Returns its number.
    #[inline]
    fn push(&mut self, at: usize, new: &[u8], next: u32) -> u32 {
        // There are no more patches than bytes, and a block has at most 64 KiB.
        let (start, number) = (self.bytes.len() as u32, self.patches.len() as u32);
        self.patches.push(StagedPatch { at: at as u32, len: new.len() as u32, start, next });
        self.bytes.extend_from_slice(new);
        number
    }

    /// Adds a patch to those of a block, if there is room for it. They have `bytes_max` bytes at
    /// most, and that is half a block or less. So there is room in a block for what a policy puts
    /// before each of them.
    ///
    /// A patch inside of an earlier one changes that. One that overlaps others otherwise is not
    /// added.
    pub(super) fn add(
        &mut self,
        to: &mut Patches,
        at: usize,
        new: &[u8],
        (block_bytes, bytes_max): (usize, usize),
    ) -> bool {
        let (mut before, mut next) = (NONE, to.first);
        while next != NONE {
            let patch = self.patches[next as usize];
            if patch.at as usize <= at && at + new.len() <= patch.end() {
                let start = patch.start as usize + at - patch.at as usize;
                self.bytes[start..][..new.len()].copy_from_slice(new);
                return true;
            }
            if patch.end() > at {
                break;
            }
            (before, next) = (next, patch.next);
        }
        let overlaps = next != NONE && (self.patches[next as usize].at as usize) < at + new.len();
        let count_max = PATCHES_MAX.min(block_bytes / BYTES_FOR_EACH);
        let is_too_much =
            to.count as usize >= count_max || to.bytes as usize + new.len() > bytes_max;
        if overlaps || is_too_much || !self.takes(new) {
            return false;
        }
        let number = self.push(at, new, next);
        match before {
            NONE => to.first = number,
            before => self.patches[before as usize].next = number,
        }
        to.count += 1;
        to.bytes += new.len() as u32;
        true
    }

    /// The patches of a block, ascending: where each is, and its bytes.
    #[inline]
    pub(super) fn each(&self, of: &Patches) -> impl Iterator<Item = (usize, &[u8])> {
        let patch = |number: u32| self.patches.get(number as usize);
        let patches = core::iter::successors(patch(of.first), move |last| patch(last.next));
        patches.map(|patch| {
            let bytes = &self.bytes[patch.start as usize..][..patch.len as usize];
            (patch.at as usize, bytes)
        })
    }

    /// Puts the patches of a block over some bytes of it, which begin at `at`.
    pub(super) fn overlay(&self, of: &Patches, at: usize, content: &mut [u8]) {
        let end = at + content.len();
        for (patch_at, bytes) in self.each(of) {
            let (from, to) = (patch_at.max(at), (patch_at + bytes.len()).min(end));
            if from < to {
                content[from - at..to - at].copy_from_slice(&bytes[from - patch_at..to - patch_at]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BLOCK: usize = 64;

    proptest! {
        /// Patches that are taken are there, in order and apart; those that are not change nothing.
        #[test]
        fn patches_are_as_writes_to_an_image(
            writes in prop::collection::vec((0_usize..BLOCK - 8, 0_usize..9, any::<u8>()), 0..40),
            (from, len) in (0_usize..BLOCK, 0_usize..BLOCK),
        ) {
            let mut staged = StagedPatches::new();
            let (mut patches, mut image) = (Patches::NONE, vec![0_u8; BLOCK]);
            for (at, len, byte) in writes {
                let new = vec![byte; len];
                let before = staged.each(&patches).map(|(at, new)| (at, new.to_vec()));
                let before: Vec<_> = before.collect();
                let is_added = match patches.count {
                    0 => {
                        let first = staged.add_first(at, &new, BLOCK / 2);
                        patches = first.unwrap_or(patches);
                        first.is_some()
                    }
                    _ => staged.add(&mut patches, at, &new, (BLOCK, BLOCK / 2)),
                };
                if is_added {
                    image[at..][..len].copy_from_slice(&new);
                } else {
                    let after = staged.each(&patches).map(|(at, new)| (at, new.to_vec()));
                    prop_assert!(after.eq(before));
                }
            }
            let all: Vec<_> = staged.each(&patches).collect();
            prop_assert_eq!(all.len(), patches.count as usize);
            prop_assert!(all.len() <= BLOCK / BYTES_FOR_EACH);
            prop_assert!(all.windows(2).all(|two| two[0].0 + two[0].1.len() <= two[1].0));
            prop_assert!(all.iter().map(|(_, new)| new.len()).sum::<usize>() <= BLOCK / 2);
            let mut patched = vec![0_u8; BLOCK];
            staged.overlay(&patches, 0, &mut patched);
            prop_assert_eq!(&patched, &image);
            let to = BLOCK.min(from + len);
            let mut some = vec![0_u8; to - from];
            staged.overlay(&patches, from, &mut some);
            prop_assert_eq!(&some[..], &image[from..to]);
        }
    }
}
