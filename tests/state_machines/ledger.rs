//! The contract of one owner, for journals of any size: what is recovered is the state after some
//! prefix of the calls, with all that was acknowledged.
//!
//! It is what the oracle of the crash suite says, without its four blocks; a test compares the two.

use std::sync::Arc;

/// What a block may hold: a content, or anything once it was discarded.
pub(crate) type Cell = Option<Arc<[u8]>>;

/// What a transaction makes of its blocks.
pub(crate) type Changes = Vec<(usize, Cell)>;

/// The calls of a life, and what it began with.
#[derive(Clone, Debug)]
pub(crate) struct Ledger {
    first: Vec<Cell>,
    calls: Vec<Changes>,
    newest: Vec<Cell>,
}

impl Ledger {
    /// Blocks of zeroes.
    pub(crate) fn new(blocks: usize, block_bytes: usize) -> Self {
        let zeroes: Arc<[u8]> = vec![0; block_bytes].into();
        let first = vec![Some(zeroes); blocks];
        Self { newest: first.clone(), first, calls: Vec::new() }
    }

    /// What a block holds after all calls.
    pub(crate) fn newest(&self, block: usize) -> &Cell {
        &self.newest[block]
    }

    /// Calls so far.
    pub(crate) fn called(&self) -> usize {
        self.calls.len()
    }

    pub(crate) fn call(&mut self, changes: Changes) {
        apply(&mut self.newest, &changes);
        self.calls.push(changes);
    }

    /// After how many of the first `called` calls, and at least `acknowledged`, the blocks are as
    /// they are found; the most, where there are several.
    pub(crate) fn judge(
        &self,
        acknowledged: usize,
        called: usize,
        found: &[Vec<u8>],
    ) -> Option<usize> {
        let admits = |cell: &Cell, found: &Vec<u8>| cell.as_ref().is_none_or(|it| **it == **found);
        let mut state = self.first.clone();
        self.calls[..acknowledged].iter().for_each(|changes| apply(&mut state, changes));
        let fits = state.iter().zip(found).map(|(cell, found)| admits(cell, found));
        let mut fits: Vec<bool> = fits.collect();
        let mut wrong = fits.iter().filter(|fits| !**fits).count();
        let mut most = (wrong == 0).then_some(acknowledged);
        for number in acknowledged..called {
            for (block, cell) in &self.calls[number] {
                let now = admits(cell, &found[*block]);
                wrong = wrong + usize::from(!now) - usize::from(!fits[*block]);
                fits[*block] = now;
            }
            if wrong == 0 {
                most = Some(number + 1);
            }
        }
        most
    }

    /// Begins a life with what was found after `calls` calls.
    pub(crate) fn reborn(&self, calls: usize, found: &[Vec<u8>]) -> Self {
        let mut first = self.first.clone();
        self.calls[..calls].iter().for_each(|changes| apply(&mut first, changes));
        for (cell, found) in first.iter_mut().zip(found) {
            if cell.is_some() {
                *cell = Some(found.as_slice().into());
            }
        }
        Self { newest: first.clone(), first, calls: Vec::new() }
    }
}

fn apply(state: &mut [Cell], changes: &Changes) {
    for (block, cell) in changes {
        state[*block].clone_from(cell);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use sim_disk::Mark;
    use sim_disk::suite::oracle::{BLOCK_BYTES, BLOCKS, EMPTY, Found, Label, edited, judge};
    use sim_disk::suite::{Edit, Edits};

    use super::*;
    use crate::run::{Sample, holds};

    /// Calls, and whether each returns, and with it all before.
    type History = Vec<(Edits, bool)>;

    fn history() -> impl Strategy<Value = History> {
        let edit = prop::sample::select(vec![Edit::Overwrite, Edit::WriteAt, Edit::Discard]);
        let edits = prop::collection::btree_map(0..BLOCKS, edit, 1..3);
        let edits = edits.prop_map(|edits| edits.into_iter().collect());
        prop::collection::vec((edits, prop::bool::weighted(0.2)), 1..12)
    }

    fn after(state: &[Cell], number: u64, edits: &Edits) -> Changes {
        let change = |(block, edit): &(usize, Edit)| {
            let old = state[*block].as_ref().and_then(|cell| cell.first_chunk().copied());
            let new = edited(&old.unwrap_or([0; BLOCK_BYTES]), number, *edit);
            (*block, (*edit != Edit::Discard).then(|| new.as_slice().into()))
        };
        edits.iter().map(change).collect()
    }

    #[test]
    fn it_says_what_the_oracle_of_the_suite_says() {
        let sample = Sample { cases: 2_000, share: 1, source: file!() };
        // Of each block the content after some of the calls, mostly the same, and a byte wrong.
        let found = (prop::collection::vec(0..12_usize, BLOCKS), 0..12_usize, 0..9_usize);
        holds(&sample, &(history(), found), |(history, (from, most, wrong))| {
            let mut ledger = Ledger::new(BLOCKS, BLOCK_BYTES);
            let (mut marks, mut acknowledged) = (Vec::new(), 0);
            let mut states = vec![ledger.newest.clone()];
            for (number, (edits, returns)) in (1..).zip(history) {
                ledger.call(after(&ledger.newest, number, edits));
                states.push(ledger.newest.clone());
                let label = Label { number, edits: edits.clone() }.encode();
                marks.push(Mark::Called(label));
                if *returns {
                    marks.push(Mark::Returned(label));
                    acknowledged = number as usize;
                }
            }
            marks.push(Mark::PowerLost);
            let mut found: Found = [[0; BLOCK_BYTES]; BLOCKS];
            for (block, content) in found.iter_mut().enumerate() {
                let state = if from[block] % 4 == 0 { from[block] } else { *most };
                if let Some(cell) = &states[state % states.len()][block] {
                    content.copy_from_slice(cell);
                }
            }
            if let Some(content) = found.get_mut(*wrong) {
                content[30] ^= 1;
            }
            let blocks: Vec<Vec<u8>> = found.iter().map(|content| content.to_vec()).collect();
            let judged = ledger.judge(acknowledged, ledger.called(), &blocks);
            let suite = judge(&marks, &found, EMPTY);
            if judged.is_some() == suite.is_ok() {
                return Ok(());
            }
            Err(format!("{judged:?}, and the suite says {suite:?}"))
        });
    }

    #[test]
    fn what_is_found_is_what_goes_on() {
        let content = |byte: u8| Some(Arc::from([byte; 2].as_slice()));
        let mut ledger = Ledger::new(2, 2);
        ledger.call(vec![(0, content(1)), (1, content(1))]);
        ledger.call(vec![(1, None)]);
        let found = |first: u8, second: u8| vec![vec![first; 2], vec![second; 2]];
        assert_eq!(ledger.judge(0, 2, &found(0, 0)), Some(0));
        assert_eq!(ledger.judge(0, 2, &found(1, 1)), Some(2));
        assert_eq!(ledger.judge(0, 1, &found(1, 1)), Some(1));
        assert_eq!(ledger.judge(0, 2, &found(0, 1)), None, "half of a transaction");
        assert_eq!(ledger.judge(1, 2, &found(0, 0)), None, "it was acknowledged");
        assert_eq!(ledger.judge(2, 2, &found(1, 9)), Some(2), "it was discarded");
        let reborn = ledger.reborn(2, &found(1, 9));
        assert_eq!((reborn.newest(0), reborn.newest(1)), (&content(1), &None));
        assert_eq!(reborn.judge(0, 0, &found(0, 0)), None, "it was shown");
    }
}
