//! The blocks that a checkpoint still has to write.

use crate::units::{BlockNumber, LANES_MAX};

/// An offset in each lane.
pub type Offsets = [u64; LANES_MAX as usize];

/// Blocks that one pass over the index has found to be written home, ascending.
#[derive(Debug)]
pub struct Waiting<'m> {
    memory: &'m mut [BlockNumber],
    left: WaitingLeft,
    /// Where not all blocks wait: those that keep a head in front of one of these, and blocks
    /// beside them.
    before: Option<&'m Offsets>,
}

/// Which part of a list of waiting blocks is left.
#[derive(Clone, Copy, Debug, Default)]
pub struct WaitingLeft {
    next: usize,
    end: usize,
    /// Whether blocks wait that are in no list, or have been passed: there was no room for them, or
    /// they were being written anew.
    lacks_some: bool,
    /// Blocks with lower numbers have been in a list, where not all blocks wait.
    listed_to: u64,
    /// The pass that makes the list, if it has not come to its end.
    pass: Option<Listing>,
    /// How many lists were begun.
    begun: u64,
}

/// How far the pass has come that makes a list.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Listing {
    /// The number of the index that it goes on with.
    pub(crate) index: usize,
    /// The first block that there was no room for.
    pub(crate) limit: Option<BlockNumber>,
}

/// Above every block's number.
const ALL: u64 = u64::MAX;

/// In the list, a block's number has this beside it if the block is wanted. A device has fewer
/// blocks than that: its bytes have numbers too.
const WANTED: u64 = 1 << 63;

/// An entry of the list.
const fn listed(block: BlockNumber, is_wanted: bool) -> BlockNumber {
    BlockNumber(block.raw() | if is_wanted { WANTED } else { 0 })
}

/// The block that an entry of the list is of.
const fn block_of(listed: BlockNumber) -> BlockNumber {
    BlockNumber(listed.raw() & !WANTED)
}

impl WaitingLeft {
    /// Whether all blocks were taken that were not home when the list was made.
    #[must_use]
    pub const fn is_all_taken(&self) -> bool {
        self.next == self.end && !self.lacks_some && !self.is_listing()
    }

    /// Whether the list is still being made.
    #[must_use]
    pub const fn is_listing(&self) -> bool {
        self.pass.is_some()
    }

    /// How many lists were begun, with this one.
    #[must_use]
    pub const fn begun(&self) -> u64 {
        self.begun
    }
}

impl<'m> Waiting<'m> {
    /// No blocks yet. As many can wait as there is memory for. Without memory, each batch costs a
    /// pass over the index.
    #[must_use]
    pub const fn in_memory(memory: &'m mut [BlockNumber]) -> Self {
        let left =
            WaitingLeft { next: 0, end: 0, lacks_some: false, listed_to: 0, pass: None, begun: 0 };
        Self { memory, left, before: None }
    }

    /// A list in the memory of an earlier one, as that was [left](Self::left).
    #[must_use]
    pub const fn again(memory: &'m mut [BlockNumber], left: WaitingLeft) -> Self {
        Self { memory, left, before: None }
    }

    /// If there are such offsets, only those blocks wait that keep a head in front of one of them,
    /// and blocks beside these that are not home either.
    #[must_use]
    pub const fn keeping_heads_before(self, offsets: Option<&'m Offsets>) -> Self {
        Self { before: offsets, ..self }
    }

    pub(crate) const fn before(&self) -> Option<&'m Offsets> {
        self.before
    }

    /// Whether a list is still to be made, where not all blocks wait.
    pub(crate) const fn has_more(&self) -> bool {
        self.left.listed_to < ALL
    }

    /// The block that a new list begins with.
    pub(crate) const fn begins_with(&self) -> BlockNumber {
        BlockNumber(if self.before.is_some() { self.left.listed_to } else { 0 })
    }

    /// The pass for the list that is under way, or a new one.
    pub(crate) fn pass(&mut self) -> Listing {
        self.left.pass.unwrap_or_else(|| {
            self.clear();
            self.left.begun = self.left.begun.saturating_add(1);
            Listing::default()
        })
    }

    /// Notes that the pass for the list goes on another time.
    pub(crate) const fn note_pass(&mut self, pass: Listing) {
        self.left.pass = Some(pass);
    }

    /// Notes that a list was made of all blocks up to a limit, if there is one.
    pub(crate) fn note_listed(&mut self, limit: Option<BlockNumber>) {
        self.left.listed_to = limit.map_or(ALL, BlockNumber::raw);
        self.left.pass = None;
    }

    /// Whether the list is still being made.
    pub(crate) const fn is_listing(&self) -> bool {
        self.left.is_listing()
    }

    /// Which part of the list is left.
    #[must_use]
    pub const fn left(&self) -> WaitingLeft {
        self.left
    }

    pub(crate) const fn has_memory(&self) -> bool {
        !self.memory.is_empty()
    }

    /// The lowest block that waits.
    pub(crate) fn first(&self) -> Option<BlockNumber> {
        self.nth(0)
    }

    /// The block that has this number of lower ones.
    pub(crate) fn nth(&self, count: usize) -> Option<BlockNumber> {
        self.memory.get(self.left.next..self.left.end)?.get(count).copied().map(block_of)
    }

    /// Takes the lowest block out.
    pub(crate) const fn pass_first(&mut self) {
        self.left.next = self.left.next.saturating_add(1);
    }

    /// Begins anew: no block waits.
    pub(crate) const fn clear(&mut self) {
        self.left = WaitingLeft { next: 0, end: 0, lacks_some: false, pass: None, ..self.left };
    }

    /// Whether blocks wait that are not in the list: there was no room for them, or they were being
    /// written anew.
    pub(crate) const fn lacks_some(&self) -> bool {
        self.left.lacks_some
    }

    /// Notes that a block waits that is not in the list any more, or never was.
    pub(crate) const fn note_lack(&mut self) {
        self.left.lacks_some = true;
    }

    /// Whether the block that has this number of lower ones was wanted when it was added.
    fn is_wanted(&self, count: usize) -> bool {
        let listed = self.memory.get(self.left.next..self.left.end).and_then(|all| all.get(count));
        listed.is_some_and(|listed| listed.raw() & WANTED != 0)
    }

    /// Adds a block, in any order, unless a lower one has had to be left out. Where there is no
    /// room, the lower half of all blocks stays. `sort` has to be called after the last block.
    pub(crate) fn add(
        &mut self,
        (block, is_wanted): (BlockNumber, bool),
        limit: &mut Option<BlockNumber>,
    ) {
        if limit.is_some_and(|limit| block >= limit) {
            return;
        }
        if let (true, [only]) = (self.left.end == 1, &mut *self.memory) {
            if block < block_of(*only) {
                *only = listed(block, is_wanted);
            }
            self.note_lack();
            return;
        }
        if self.left.end == self.memory.len() {
            self.sort();
            self.left.end = self.memory.len().div_ceil(2);
            *limit = self.memory.get(self.left.end).copied().map(block_of);
            self.note_lack();
            if limit.is_some_and(|limit| block >= limit) {
                return;
            }
        }
        if let Some(to) = self.memory.get_mut(self.left.end) {
            *to = listed(block, is_wanted);
            self.left.end = self.left.end.saturating_add(1);
        }
    }

    pub(crate) fn sort(&mut self) {
        let listed = self.memory.get_mut(self.left.next..self.left.end).unwrap_or_default();
        listed.sort_unstable_by_key(|listed| block_of(*listed));
    }

    /// Keeps the blocks that are wanted, and of those beside them this number at most on either
    /// side. The list is sorted, and nothing of it has been taken.
    pub(crate) fn keep_beside(&mut self, beside: usize) {
        // Blocks before `kept` stay. Those from `from` on follow each other up to here, and each
        // of them stays if one comes that is wanted. Those before `until` stay in any case.
        let (mut kept, mut from, mut until) = (0_usize, 0_usize, 0_usize);
        let mut next = None;
        for at in 0..self.left.end {
            let Some(block) = self.nth(at) else { break };
            if next != Some(block) {
                (from, until) = (at, at);
            }
            next = block.raw().checked_add(1).map(BlockNumber);
            let mut stays = at..at.saturating_add(usize::from(at < until));
            if self.is_wanted(at) {
                stays = from.max(at.saturating_sub(beside))..at.saturating_add(1);
                until = stays.end.saturating_add(beside);
            }
            if !stays.is_empty() {
                from = stays.end;
                let count = stays.len();
                self.memory.copy_within(stays, kept);
                kept = kept.saturating_add(count);
            }
        }
        self.left.end = kept;
    }
}

#[cfg(test)]
mod tests {
    extern crate alloc;

    use alloc::vec;
    use alloc::vec::Vec;

    use super::*;

    /// Against a slow answer, for all lists of up to nine blocks and gaps.
    #[test]
    fn blocks_beside_wanted_ones_stay() {
        let room = if cfg!(miri) { 5 } else { 9 };
        for (kinds, beside) in (0..3_u32.pow(room)).flat_map(|kinds| [0, 1, 2].map(|n| (kinds, n)))
        {
            // Each number is a gap, a block, or one that is wanted.
            let kind = |at: u64| match at < u64::from(room) {
                true => kinds / 3_u32.pow(u32::try_from(at).expect("small")) % 3,
                false => 0,
            };
            let all: Vec<_> =
                (0..room.into()).filter(|at| kind(*at) > 0).map(BlockNumber).collect();
            let mut memory = vec![BlockNumber(0); all.len() + 2];
            let mut waiting = Waiting::in_memory(&mut memory);
            for block in all.iter().rev() {
                waiting.add((*block, kind(block.raw()) == 2), &mut None);
            }
            waiting.sort();
            waiting.keep_beside(beside);
            let stays = |block: &BlockNumber| {
                let reach = |step: fn(u64, u64) -> Option<u64>| {
                    let each = (0..=beside as u64).map_while(|by| step(block.raw(), by));
                    let of_run = each.take_while(|at| kind(*at) > 0);
                    of_run.map(kind).any(|kind| kind == 2)
                };
                reach(u64::checked_add) || reach(u64::checked_sub)
            };
            let wanted: Vec<_> = all.into_iter().filter(stays).collect();
            let kept: Vec<_> = (0..).map_while(|at| waiting.nth(at)).collect();
            assert_eq!(kept, wanted, "kinds {kinds}, {beside} beside");
        }
    }

    /// Passes over some blocks until all have waited: they come in order, each once.
    #[test]
    fn all_blocks_wait_in_order_however_little_memory_there_is() {
        let (rooms, counts) = if cfg!(miri) { (4, 5) } else { (20, 40) };
        for room in 1..rooms {
            for count in 0..counts {
                let blocks: Vec<_> = (0..count).map(|at| BlockNumber(at * 7 % 41)).collect();
                let mut memory = vec![BlockNumber(0); room];
                let mut waiting = Waiting::in_memory(&mut memory);
                let mut gone = Vec::new();
                loop {
                    waiting.clear();
                    let mut limit = None;
                    let left = blocks.iter().filter(|block| !gone.contains(*block));
                    left.for_each(|block| waiting.add((*block, false), &mut limit));
                    waiting.sort();
                    let before = gone.len();
                    while let Some(first) = waiting.first() {
                        assert!(!waiting.left().is_all_taken());
                        waiting.pass_first();
                        gone.push(first);
                    }
                    assert_eq!(waiting.left().is_all_taken(), gone.len() == blocks.len());
                    if gone.len() == before {
                        break;
                    }
                }
                let mut sorted = blocks.clone();
                sorted.sort_unstable();
                assert_eq!(gone, sorted, "{count} blocks with room for {room}");
            }
        }
    }
}
