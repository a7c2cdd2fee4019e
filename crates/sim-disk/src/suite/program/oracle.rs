//! The oracle: what a journal may show, judged by what was called and what was promised.
//!
//! The oracle knows nothing of records or lanes. By contract the recovered state is closed under
//! dependency and holds everything acknowledged. The core has one owner, and each of its
//! transactions may depend on all before it. So a closed state is a *prefix* of the transactions in
//! the order of their calls. What an open has shown, either way, stays so.

use crate::media::rng::mix;
use crate::media::tape::Mark;

/// Blocks of the store. All of them are compared, whatever the program touches.
pub const BLOCKS: usize = 4;
/// Bytes of each.
pub const BLOCK_BYTES: usize = 64;

/// What a block holds.
pub type Block = [u8; BLOCK_BYTES];

/// What a transaction does to a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edit {
    /// Changes its first and last word; the policy is shown the old image.
    Write,
    /// Changes its first word only.
    WriteAt,
    /// As `Write`, but the policy is not shown the old image.
    Overwrite,
    /// As `Overwrite`, and says that nothing of the old content is needed.
    Append,
    /// Gives it up.
    Discard,
}

/// The blocks of a transaction, ascending, with what is done to each.
pub type Edits = Vec<(usize, Edit)>;

/// The label of a return that makes everything called so far durable.
pub const SYNCED: u64 = 0;

/// A call, packed into the label of its mark: its number, and two bits per block.
#[derive(Clone, Debug)]
pub struct Label {
    /// Calls are numbered through all lives of the media.
    pub number: u64,
    /// What it does to which blocks.
    pub edits: Edits,
}

impl Label {
    /// The label.
    #[must_use]
    pub fn encode(&self) -> u64 {
        self.edits.iter().fold(self.number << 16, |label, (block, edit)| {
            let bits = match edit {
                Edit::Write | Edit::Overwrite | Edit::Append => 1,
                Edit::WriteAt => 2,
                Edit::Discard => 3,
            };
            label | bits << (2 * block)
        })
    }

    const fn number(label: u64) -> u64 {
        label >> 16
    }

    const fn edit(label: u64, block: usize) -> Option<Edit> {
        match label >> (2 * block) & 3 {
            1 => Some(Edit::Write),
            2 => Some(Edit::WriteAt),
            3 => Some(Edit::Discard),
            _ => None,
        }
    }
}

/// The content after an edit: the words that it does not touch stay.
#[must_use]
pub fn edited(old: &Block, number: u64, edit: Edit) -> Block {
    let mut new = *old;
    if edit != Edit::Discard {
        new[..8].copy_from_slice(&mix(number << 1).to_le_bytes());
    }
    if !matches!(edit, Edit::Discard | Edit::WriteAt) {
        new[56..].copy_from_slice(&mix(number << 1 | 1).to_le_bytes());
    }
    new
}

/// What a block may hold: a content, or anything once it was discarded.
pub type BlockState = Option<Block>;
/// What all blocks may hold together.
pub type StoreState = [BlockState; BLOCKS];

/// What is found in the blocks.
pub type Found = [Block; BLOCKS];

/// The state of an empty store.
pub const EMPTY: StoreState = [Some([0; BLOCK_BYTES]); BLOCKS];

fn after(state: &StoreState, label: u64) -> StoreState {
    let mut next = *state;
    for (block, cell) in next.iter_mut().enumerate() {
        match Label::edit(label, block) {
            None => {}
            Some(Edit::Discard) => *cell = None,
            Some(edit) => {
                let old = cell.unwrap_or([0; BLOCK_BYTES]);
                *cell = Some(edited(&old, Label::number(label), edit));
            }
        }
    }
    next
}

/// What all calls of a life without a crash have led to.
#[must_use]
pub fn latest(history: &[Mark], first: &StoreState) -> StoreState {
    let labels = history.iter().filter_map(|mark| match mark {
        Mark::Called(label) => Some(*label),
        _ => None,
    });
    labels.fold(*first, |state, label| after(&state, label))
}

/// What the blocks hold, in a word.
///
/// # Panics
/// Never: a block is a whole number of words.
#[must_use]
pub fn digest(found: &Found) -> u64 {
    let words = found.iter().flat_map(|block| block.chunks_exact(8));
    words.fold(1, |sum, word| mix(sum ^ u64::from_le_bytes(word.try_into().expect("a word"))))
}

/// The digest of what a state shows; `None` where that is not determined.
fn digest_of(state: &StoreState) -> Option<u64> {
    let mut blocks = [[0; BLOCK_BYTES]; BLOCKS];
    for (block, cell) in blocks.iter_mut().zip(state) {
        *block = (*cell)?;
    }
    Some(digest(&blocks))
}

/// What a journal may show: a state that a life may have begun with, and what each call since made
/// of it.
#[derive(Clone, Debug)]
struct PossibleStates {
    states: Vec<StoreState>,
    acknowledged: usize,
}

/// The states that the history allows now.
fn allowed(history: &[Mark], first: StoreState) -> Vec<PossibleStates> {
    let begin = |state| PossibleStates { states: vec![state], acknowledged: 0 };
    let mut lives = vec![begin(first)];
    for mark in history {
        match mark {
            Mark::Called(label) => {
                for life in &mut lives {
                    let last = life.states[life.states.len() - 1];
                    life.states.push(after(&last, *label));
                }
            }
            Mark::Returned(_) => {
                for life in &mut lives {
                    life.acknowledged = life.states.len() - 1;
                }
            }
            Mark::PowerLost | Mark::Killed => {
                let states = lives.iter().flat_map(|life| &life.states[life.acknowledged..]);
                lives = states.map(|state| begin(*state)).collect();
            }
            Mark::Recovered(shown) => {
                lives.retain(|life| {
                    digest_of(&life.states[0]).is_none_or(|digest| digest == *shown)
                });
            }
        }
    }
    lives
}

fn shows(state: &StoreState, found: &Found) -> bool {
    state.iter().zip(found).all(|(cell, block)| cell.is_none_or(|cell| cell == *block))
}

/// Judges what a journal shows by what may have been done so far.
///
/// # Errors
/// What it shows, and that no state is allowed which does.
pub fn judge(history: &[Mark], found: &Found, first: StoreState) -> Result<(), String> {
    let fits = allowed(history, first)
        .iter()
        .any(|life| life.states[life.acknowledged..].iter().any(|state| shows(state, found)));
    if fits {
        return Ok(());
    }
    Err(explain(history, found, first))
}

/// What is found and what may be, block by block, in terms of the calls that wrote it.
fn explain(history: &[Mark], found: &Found, first: StoreState) -> String {
    let mut states: Vec<StoreState> = allowed(history, first)
        .into_iter()
        .flat_map(|life| life.states[life.acknowledged..].to_vec())
        .collect();
    states.dedup();
    let tell = |cells: &StoreState| -> String {
        let cells = cells.iter().enumerate();
        let cells = cells.map(|(block, cell)| match cell {
            Some(cell) => format!("block {block} {}", in_words(cell)),
            None => format!("block {block} anything"),
        });
        cells.collect::<Vec<_>>().join(", ")
    };
    let mut text = format!("found: {}", tell(&found.map(Some)));
    for state in &states {
        text += &format!("\n  may be: {}", tell(state));
    }
    text + &format!("\nno allowed state shows what was found: {history:?}")
}

/// Calls that a content may come from.
const CALLS_MAX: u64 = 1 << 12;

/// The writers of the first word and of the last word that a block holds.
fn in_words(block: &Block) -> String {
    let whose = |at: usize, last: u64| -> String {
        let word = u64::from_le_bytes(*block[at..].first_chunk().expect("a word"));
        let call = (1..CALLS_MAX).find(|number| mix(number << 1 | last) == word);
        match call {
            Some(call) => format!("call {call}"),
            None if word == 0 => "nobody".into(),
            None => format!("?? {word:#x}"),
        }
    };
    let harmed = if block[8..56].iter().any(|byte| *byte != 0) { ", the rest harmed" } else { "" };
    format!("({}|{}{harmed})", whose(0, 0), whose(56, 1))
}

#[cfg(test)]
mod tests {
    //! Each of the oracle's sentences, broken once.

    use super::*;

    fn call(number: u64, edits: &[(usize, Edit)]) -> Mark {
        Mark::Called(Label { number, edits: edits.to_vec() }.encode())
    }

    /// What the blocks hold after the calls of `history`.
    fn found(history: &[Mark]) -> Found {
        latest(history, &EMPTY).map(|cell| cell.unwrap_or([0xDD; BLOCK_BYTES]))
    }

    fn fits(history: &[Mark], found: &Found) -> bool {
        judge(history, found, EMPTY).is_ok()
    }

    use Edit::{Discard, Write, WriteAt};
    use Mark::{PowerLost, Recovered, Returned};

    #[test]
    #[cfg_attr(miri, ignore = "hashes of many states, and no memory of its own")]
    fn what_was_acknowledged_must_be_there_and_what_was_not_may_be() {
        let called = call(1, &[(0, Write)]);
        let (without, with) = (found(&[]), found(&[called]));
        assert!(fits(&[called, PowerLost], &without) && fits(&[called, PowerLost], &with));
        assert!(!fits(&[called, Returned(1), PowerLost], &without));
        assert!(fits(&[called, Returned(1), PowerLost], &with));
        // A deferred call is acknowledged by whatever returns later.
        let second = call(2, &[(1, Write)]);
        assert!(!fits(&[called, second, Returned(2), PowerLost], &found(&[second])));
    }

    #[test]
    #[cfg_attr(miri, ignore = "hashes of many states, and no memory of its own")]
    fn a_transaction_is_there_wholly_or_not_at_all() {
        let called = call(1, &[(0, Write), (1, Write)]);
        let mut half = found(&[called]);
        assert!(fits(&[called, PowerLost], &half));
        half[1] = [0; BLOCK_BYTES];
        assert!(!fits(&[called, PowerLost], &half));
        let mut half_a_block = found(&[called]);
        half_a_block[0][56..].fill(0);
        assert!(!fits(&[called, PowerLost], &half_a_block));
    }

    #[test]
    #[cfg_attr(miri, ignore = "hashes of many states, and no memory of its own")]
    fn a_later_transaction_is_not_there_without_an_earlier_one() {
        let (first, second) = (call(1, &[(0, Write)]), call(2, &[(1, Write)]));
        assert!(!fits(&[first, second, PowerLost], &found(&[second])));
        assert!(fits(&[first, second, PowerLost], &found(&[first])));
    }

    #[test]
    #[cfg_attr(miri, ignore = "hashes of many states, and no memory of its own")]
    fn blocks_that_no_transaction_touched_are_compared_too() {
        let called = call(1, &[(0, Write)]);
        for block in 1..BLOCKS {
            for byte in [0, 30, BLOCK_BYTES - 1] {
                let mut wrong = found(&[called]);
                wrong[block][byte] ^= 1;
                assert!(!fits(&[called, Returned(1), PowerLost], &wrong), "block {block}");
            }
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "hashes of many states, and no memory of its own")]
    fn what_was_shown_stays_so() {
        let called = call(1, &[(0, Write)]);
        let (without, with) = (found(&[]), found(&[called]));
        let shown = |state: &Found| [called, PowerLost, Recovered(digest(state)), PowerLost];
        assert!(fits(&shown(&without), &without) && !fits(&shown(&without), &with));
        assert!(fits(&shown(&with), &with) && !fits(&shown(&with), &without));
    }

    #[test]
    #[cfg_attr(miri, ignore = "hashes of many states, and no memory of its own")]
    fn a_discarded_block_may_hold_anything_and_the_others_may_not() {
        let history = [call(1, &[(0, Write), (1, Write)]), call(2, &[(0, Discard)]), Returned(2)];
        let mut anything = found(&history);
        anything[0] = [0x5A; BLOCK_BYTES];
        assert!(fits(&history, &anything));
        anything[1][8] = 1;
        assert!(!fits(&history, &anything));
        // Written again, it holds what was written.
        let again = [&history[..], &[call(3, &[(0, WriteAt)]), Returned(3)]].concat();
        assert!(!fits(&again, &anything) && fits(&again, &found(&again)));
    }
}
