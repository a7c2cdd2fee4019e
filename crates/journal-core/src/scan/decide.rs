//! The recovery table: what becomes of the record that a lane should hold next.
//!
//! The walk of a lane accepts records while the rows R2 and R3 hold (`scan/walk.rs`). Then
//! `scan/verdict.rs` asks this table about the place where the walk ended. Tests ask it about every
//! place. A place holds a *whole* record if header and check are right, and position and sequence
//! are the expected ones. Where it is of this epoch or below the mark, its stamp must also be above
//! that of the record before.
//!
//! | row | whole | later superblock | rotten word | below the mark | epoch | covered | slots | so |
//! |---|---|---|---|---|---|---|---|---|
//! | R1 | any | yes | any | any | any | any | any | [`Row::SuperblockLost`] |
//! | R9 | any | no | yes | any | any | any | any | [`Row::RottenTailWord`] |
//! | R2 | yes | no | no | yes | any | any | right | [`Row::KnownDurable`] |
//! | R3 | yes | no | no | no | current | any | right | [`Row::Found`] |
//! | R4 | yes | no | no | no | older | no | any | [`Row::Void`] |
//! | R5 | yes | no | no | no | older | yes | any | [`Row::Overwritten`] |
//! | R6 | no | no | no | yes | any | any | any | [`Row::RottenBelowMark`] |
//! | R7 | no | no | no | no | any | yes | any | [`Row::RottenBelowEvidence`] |
//! | R8 | no | no | no | no | any | no | any | [`Row::Tail`] |
//! | R10 | yes | no | no | no | current | no | torn | [`Row::TornSlot`] |
//! | R11 | yes | no | no | yes | any | any | torn | [`Row::RottenSlot`] |
//! | R11 | yes | no | no | no | current | yes | torn | [`Row::RottenSlot`] |
//!
//! In a journal with tail words a place at or behind its lane's word counts as not whole, whatever
//! is there. A place below the word is covered: the word is stored behind the fence of what it
//! covers.
//!
//! - **R1** A crash tore a superblock copy while the other one rotted: some record names a
//!   generation or an epoch that no copy has. Nothing older is taken on trust.
//! - **R2** An earlier open found the record and made it durable.
//! - **R3** Stored in this epoch. Acknowledged or not: it is whole, so it counts. It may have been
//!   stored by a killed process, so it is flushed before anything builds on it.
//! - **R4** An earlier open did not find it (it was torn or behind a torn one), a later crash
//!   uncovered it again. What an open has shown absent does not come back.
//! - **R5** As R4, but there is proof that this epoch had a record of this sequence, durable.
//! - **R6** An earlier open made it durable, and now it is not whole: bit rot.
//! - **R7** A watermark, a name, the superblock or a tail word proves that it was durable: bit rot.
//! - **R8** The end of the lane: nothing was stored here, or a crash tore it. Its transaction was
//!   not acknowledged (or lies in what no later record covers: at most the last fenced batch).
//!   With a tail word: the record may be there, and was not acknowledged.
//! - **R9** The tail word is no place that the lane can end at, so the word has rotted; what counts
//!   cannot be told any more.
//! - **R10** The record is whole, and a slot that it names is not what it says. A block's newest
//!   content is to be built from that slot all the same. Record and slot were under way together.
//!   The lane ends here, and what that uncovers is decided anew.
//! - **R11** As R10, but the record is known durable, and so was the slot: bit rot.

/// Whether a record is of the epoch that the superblock names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordEpoch {
    /// Of an earlier one.
    Older,
    /// Of this one.
    Current,
}

/// What the scan found at a place, and what other places say of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    /// Header, check, position and sequence are right, and the stamp where it has to be.
    pub(crate) whole: bool,
    /// Some header names a generation or an epoch above the superblock's.
    pub(crate) of_later_superblock: bool,
    /// The lane's tail word is not between its head and one ring length above, on a line.
    pub(crate) rotten_tail_word: bool,
    /// Its sequence is below the first of the current epoch.
    pub(crate) below_mark: bool,
    /// Meaningful only for a whole record.
    pub(crate) epoch: RecordEpoch,
    /// A watermark, a name, the superblock or a tail word says that it was durable.
    pub(crate) covered: bool,
    /// A slot that it names, and that counts, has another content. Meaningful only for a whole
    /// record.
    pub(crate) torn_slot: bool,
}

/// A row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Row {
    /// R1: typed error.
    SuperblockLost,
    /// R2: accepted.
    KnownDurable,
    /// R3: accepted, and made durable first.
    Found,
    /// R4: the lane ends here.
    Void,
    /// R5: typed error.
    Overwritten,
    /// R6: typed error.
    RottenBelowMark,
    /// R7: typed error.
    RottenBelowEvidence,
    /// R8: the lane ends here.
    Tail,
    /// R9: typed error.
    RottenTailWord,
    /// R10: the lane ends here.
    TornSlot,
    /// R11: typed error.
    RottenSlot,
}

impl Row {
    /// Every row, in order.
    pub const ALL: [Self; 11] = [
        Self::SuperblockLost,
        Self::KnownDurable,
        Self::Found,
        Self::Void,
        Self::Overwritten,
        Self::RottenBelowMark,
        Self::RottenBelowEvidence,
        Self::Tail,
        Self::RottenTailWord,
        Self::TornSlot,
        Self::RottenSlot,
    ];
}

/// Looks the facts up in the table.
pub(crate) const fn decide(facts: Facts) -> Row {
    if facts.of_later_superblock {
        return Row::SuperblockLost;
    }
    if facts.rotten_tail_word {
        return Row::RottenTailWord;
    }
    let is_older = matches!(facts.epoch, RecordEpoch::Older);
    if facts.whole && facts.torn_slot && (facts.below_mark || !is_older) {
        let is_known = facts.below_mark || facts.covered;
        return if is_known { Row::RottenSlot } else { Row::TornSlot };
    }
    match (facts.whole, facts.below_mark, facts.epoch, facts.covered) {
        (true, true, _, _) => Row::KnownDurable,
        (true, false, RecordEpoch::Current, _) => Row::Found,
        (true, false, RecordEpoch::Older, false) => Row::Void,
        (true, false, RecordEpoch::Older, true) => Row::Overwritten,
        (false, true, _, _) => Row::RottenBelowMark,
        (false, false, _, true) => Row::RottenBelowEvidence,
        (false, false, _, false) => Row::Tail,
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::vec::Vec;

    use super::*;

    /// The table of the module's documentation, as data: `None` is "any".
    type Line = (
        Option<bool>,
        bool,
        Option<bool>,
        Option<bool>,
        Option<RecordEpoch>,
        Option<bool>,
        Option<bool>,
        Row,
    );
    const TABLE: [Line; 12] = {
        use RecordEpoch::{Current, Older};
        let (yes, no) = (Some(true), Some(false));
        [
            (None, true, None, None, None, None, None, Row::SuperblockLost),
            (None, false, yes, None, None, None, None, Row::RottenTailWord),
            (yes, false, no, yes, None, None, no, Row::KnownDurable),
            (yes, false, no, no, Some(Current), None, no, Row::Found),
            (yes, false, no, no, Some(Older), no, None, Row::Void),
            (yes, false, no, no, Some(Older), yes, None, Row::Overwritten),
            (no, false, no, yes, None, None, None, Row::RottenBelowMark),
            (no, false, no, no, None, yes, None, Row::RottenBelowEvidence),
            (no, false, no, no, None, no, None, Row::Tail),
            (yes, false, no, no, Some(Current), no, yes, Row::TornSlot),
            (yes, false, no, yes, None, None, yes, Row::RottenSlot),
            (yes, false, no, no, Some(Current), yes, yes, Row::RottenSlot),
        ]
    };

    /// Every combination of facts.
    fn combinations() -> impl Iterator<Item = Facts> {
        (0..1_u8 << 7).map(|bits| {
            let bit = |at: u8| bits >> at & 1 == 1;
            Facts {
                whole: bit(0),
                of_later_superblock: bit(1),
                rotten_tail_word: bit(2),
                below_mark: bit(3),
                epoch: if bit(4) { RecordEpoch::Older } else { RecordEpoch::Current },
                covered: bit(5),
                torn_slot: bit(6),
            }
        })
    }

    #[test]
    fn every_combination_of_facts_is_in_exactly_one_row() {
        let is = |cell: Option<bool>, fact| cell.is_none_or(|cell| cell == fact);
        let mut reached = Vec::new();
        for facts in combinations() {
            let lines: Vec<Row> = TABLE
                .into_iter()
                .filter(|line| {
                    is(line.0, facts.whole)
                        && line.1 == facts.of_later_superblock
                        && is(line.2, facts.rotten_tail_word)
                        && is(line.3, facts.below_mark)
                        && line.4.is_none_or(|cell| cell == facts.epoch)
                        && is(line.5, facts.covered)
                        && is(line.6, facts.torn_slot)
                })
                .map(|line| line.7)
                .collect();
            assert_eq!(lines, [decide(facts)], "{facts:?}");
            reached.push(decide(facts));
        }
        assert!(Row::ALL.iter().all(|row| reached.contains(row)), "no row is dead");
    }
}
