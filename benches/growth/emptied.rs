//! Journals with the same dirty blocks all the time, however often they are emptied.

use std::time::Duration;

use journal_core::policy::Policy;

use lab::bench::timed;
use lab::bench::work::Front;

/// A journal whose first blocks are written round and round, in turn. Emptying it is not timed, nor
/// is the round behind that, in which they all become dirty again.
pub(crate) struct Emptied<L: Policy + Clone + Send + Sync + 'static> {
    journal: Front<L>,
    /// Makes one change of a block.
    commit: fn(&Front<L>, &[u8], u64),
    /// The number of blocks: a power of two.
    blocks: u64,
    /// The most commits behind such a round.
    most: u64,
    /// Commits that are left until it has to be emptied.
    left: u64,
    turn: u64,
    emptied: u64,
}

impl<L: Policy + Clone + Send + Sync + 'static> Emptied<L> {
    /// The journal must have space for as many commits as there are blocks, and for `most` more.
    pub(crate) fn new(
        journal: Front<L>,
        commit: fn(&Front<L>, &[u8], u64),
        (blocks, most): (u64, u64),
    ) -> Self {
        assert!(blocks.is_power_of_two(), "{blocks} blocks");
        Self { journal, commit, blocks, most, left: 0, turn: 0, emptied: 0 }
    }

    /// Makes `count` commits.
    pub(crate) fn run(&mut self, images: &[u8], count: u64) -> Duration {
        let (mut took, mut rest) = (Duration::ZERO, count);
        while rest > 0 {
            if self.left == 0 {
                self.empty(images);
            }
            let piece = rest.min(self.left);
            let Self { journal, commit, blocks, turn: first, .. } = self;
            took += timed(piece, |turn| commit(journal, images, (*first + turn) & (*blocks - 1)));
            self.turn += piece;
            self.left -= piece;
            rest -= piece;
        }
        let checkpoints = self.journal.stats().expect("counts").checkpoints;
        assert_eq!(checkpoints, self.emptied, "there was room");
        took
    }

    fn empty(&mut self, images: &[u8]) {
        self.journal.checkpoint().expect("empties");
        self.emptied += 1;
        for block in 0..self.blocks {
            (self.commit)(&self.journal, images, block);
        }
        self.left = self.most;
    }

    /// Empties it, makes `count` commits, and leaves it without a close.
    pub(crate) fn leave_with(self, images: &[u8], count: u64) {
        self.journal.checkpoint().expect("empties");
        for turn in 0..count {
            (self.commit)(&self.journal, images, turn & (self.blocks - 1));
        }
    }
}
