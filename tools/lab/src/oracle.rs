//! What the front door promises, and whether a journal keeps it.
//!
//! Marks on the tape say which transactions were called and returned. The thread that marks a call
//! holds the locks of all its blocks, so that the order of the marks is, block by block, the order
//! of versions. From that and the blocks' contents follows which transactions are there. It has to
//! be a set that
//!
//! 1. has each transaction wholly or not at all,
//! 2. has with each transaction those whose blocks it read or overwrote,
//! 3. has every transaction that was acknowledged as durable, or that a reader was shown although
//!    it was not deferred; as long as the power was not lost, every one that has returned and was
//!    not gathered,
//! 4. has of what was gathered nothing without what was gathered before it, and
//! 5. is for ever what it was when an open had shown it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use journal_core::WORD_BYTES;
use sim_disk::rng::mix;
use sim_disk::{Mark, World};

/// Blocks of the store.
pub const BLOCKS: usize = 6;
/// A whole number of words.
pub const BLOCK_BYTES: usize = 64;
const WORDS: usize = BLOCK_BYTES / WORD_BYTES;

/// Bits of a transaction's number: all blocks' numbers make a digest.
const NUMBER_BITS: u32 = 10;
const NUMBER_MAX: u64 = (1 << NUMBER_BITS) - 1;

/// A block's content.
pub type Block = [u8; BLOCK_BYTES];
/// What a block may hold: a word, or anything.
type Cell = [Option<u64>; WORDS];

/// What a transaction does to a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// A new content.
    Write,
    /// A new content, given as that of a block that is not live.
    Append,
    /// New first two words.
    Touch,
    /// Gives it up.
    Discard,
    /// Only looks.
    Read,
    /// A new content that does not follow from the transaction's number: [`Copies`] have it.
    Copy,
}

/// Contents that do not follow from numbers, by transaction and block. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Copies(Arc<Mutex<HashMap<(u64, usize), Block>>>);

impl Copies {
    /// The content that a transaction gives a block, whatever its change says.
    pub fn set(&self, number: u64, block: usize, content: Block) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert((number, block), content);
    }

    /// Ends that: a killed process may have used the number before.
    pub fn forget(&self, number: u64, block: usize) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&(number, block));
    }

    fn get(&self, number: u64, block: usize) -> Option<Block> {
        let copies = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        copies.get(&(number, block)).copied()
    }
}

/// How a transaction ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Durable,
    Deferred,
    /// By the running transaction.
    Gathered,
    /// By the running transaction, in a program in which that never has to commit by itself:
    /// neighbours are together there, or neither is.
    Together,
    Abort,
}

/// A call as the label of its marks.
#[derive(Clone, Debug)]
pub struct Call {
    pub number: u64,
    pub end: End,
    pub changes: Vec<(usize, Change)>,
}

const DEFERRED: u64 = 1 << 24;
/// Marked when its call had begun already: what else it makes durable is marked by itself.
const LATE: u64 = 1 << 27;
/// The label of a sync, a checkpoint or a close.
const SYNC: u64 = 1 << 25;
/// In the id of such a label: it is a durable commit.
const COVERS: u64 = 1 << 20;
/// The label of a content that a reader was shown.
const SHOWN: u64 = 1 << 26;
const GATHERED: u64 = 1 << 28;
const TOGETHER: u64 = 1 << 29;
const NUMBER_AT: u32 = 32;

impl Call {
    fn is_gathered(&self) -> bool {
        matches!(self.end, End::Gathered | End::Together)
    }

    pub fn label(&self) -> u64 {
        assert!(self.number <= NUMBER_MAX, "more calls than digests have room for");
        let flags = match self.end {
            End::Durable | End::Abort => 0,
            End::Deferred => DEFERRED,
            End::Gathered => GATHERED,
            End::Together => GATHERED | TOGETHER,
        };
        self.changes.iter().fold(self.number << NUMBER_AT | flags, |label, (block, change)| {
            label | (*change as u64 + 1) << (3 * block)
        })
    }

    fn of(label: u64) -> Self {
        let change = |block: usize| match label >> (3 * block) & 7 {
            1 => Some(Change::Write),
            2 => Some(Change::Append),
            3 => Some(Change::Touch),
            4 => Some(Change::Discard),
            5 => Some(Change::Read),
            6 => Some(Change::Copy),
            _ => None,
        };
        Self {
            number: label >> NUMBER_AT,
            end: match label & (DEFERRED | GATHERED | TOGETHER) {
                0 => End::Durable,
                DEFERRED => End::Deferred,
                GATHERED => End::Gathered,
                _ => End::Together,
            },
            changes: (0..BLOCKS).filter_map(|block| Some((block, change(block)?))).collect(),
        }
    }
}

/// The label of a call whose mark comes when the call has already begun.
pub const fn late(label: u64) -> u64 {
    label | LATE
}

/// The label of a call that makes durable what was committed before; `id` tells calls apart.
pub const fn sync_label(id: u64) -> u64 {
    id << NUMBER_AT | SYNC
}

/// The label of a durable commit: it covers what was deferred, and not what was gathered.
pub const fn cover_label(number: u64) -> u64 {
    sync_label(COVERS | number)
}

/// The label of a return that says: a reader has seen this transaction, which was not deferred.
pub const fn shown_label(number: u64) -> u64 {
    number << NUMBER_AT | SHOWN
}

/// The number of the next transaction of the journal's whole life.
pub fn next_number(history: &[Mark]) -> u64 {
    let called = history.iter().filter_map(|mark| match mark {
        Mark::Called(label) if label & SYNC == 0 => Some(label >> NUMBER_AT),
        _ => None,
    });
    called.max().unwrap_or(0) + 1
}

/// The newest transaction that is durable for certain and not gathered, of those that count, or
/// zero: it was to be durable and has returned, or was deferred and a sync behind it has returned.
pub fn newest_durable(history: &[Mark], counts: impl Fn(&Call) -> bool) -> u64 {
    let (mut newest, mut deferred) = (0, 0);
    let mut by_sync = Vec::new();
    for mark in history {
        match mark {
            Mark::Called(label) if label & SYNC != 0 => by_sync.push((*label, deferred)),
            Mark::Returned(label) if label & SYNC != 0 => {
                let made = by_sync.iter().rev().find(|(of, _)| of == label);
                newest = newest.max(made.map_or(0, |(_, made)| *made));
            }
            Mark::Returned(label)
                if label & (GATHERED | SHOWN) == 0 && counts(&Call::of(*label)) =>
            {
                let number = label >> NUMBER_AT;
                deferred = deferred.max(number);
                if label & DEFERRED == 0 {
                    newest = newest.max(number);
                }
            }
            // A process that is killed leaves open what of its deferred records is there.
            Mark::PowerLost | Mark::Killed | Mark::Recovered(_) => deferred = 0,
            _ => {}
        }
    }
    newest
}

/// The words that a transaction writes.
fn words_of(number: u64, block: usize, change: Change) -> [u64; WORDS] {
    let mut words = [0; WORDS];
    for (at, word) in words.iter_mut().enumerate() {
        *word = mix(number << 16 | (block as u64) << 8 | at as u64);
    }
    words[0] = number << 8 | block as u64;
    // What the policy `Halves` goes by.
    words[1] = words[1] & !1 | u64::from(change == Change::Touch);
    words
}

/// The content that a transaction writes, whole; of a touch only the first two words count.
pub fn content_of(number: u64, block: usize, change: Change) -> Block {
    let mut content = [0; BLOCK_BYTES];
    let words = words_of(number, block, change);
    for (bytes, word) in content.chunks_exact_mut(WORD_BYTES).zip(words) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    content
}

/// The transaction that has written a content last.
pub fn number_in(content: &Block) -> u64 {
    words_in(content)[0] >> 8
}

fn words_in(content: &Block) -> [u64; WORDS] {
    let mut words = [0; WORDS];
    let mut at = 0;
    while let Some(bytes) = content[at * WORD_BYTES..].first_chunk() {
        words[at] = u64::from_le_bytes(*bytes);
        at += 1;
    }
    words
}

/// Whether a block may hold these words.
fn admits(cell: &Cell, found: &[u64; WORDS]) -> bool {
    // A plain loop: judging every image costs much of the time, on whatever level it is compiled.
    let mut at = 0;
    while at < WORDS {
        if cell[at].is_some_and(|word| word != found[at]) {
            return false;
        }
        at += 1;
    }
    true
}

#[derive(Clone, Copy, Debug)]
struct Version {
    number: u64,
    cell: Cell,
}

#[derive(Clone, Debug)]
struct Transaction {
    call: Call,
    /// Which version of each block it has read.
    read: Vec<(usize, u64)>,
    /// How many had returned when it was called.
    before: usize,
    /// Counted up with every call that is not gathered together with those before.
    group: u32,
    has_returned: bool,
    is_durable: bool,
}

/// All that may have happened since an open has shown something.
#[derive(Clone, Debug)]
struct Life {
    /// The versions of each block, the oldest first: that is the one that was shown.
    chains: [Vec<Version>; BLOCKS],
    transactions: Vec<Transaction>,
    /// Those that have returned, in order.
    returned: Vec<u64>,
    /// Calls of sync, and how many had returned by then.
    syncs: Vec<(u64, usize)>,
    power_lost: bool,
    groups: u32,
    copies: Copies,
}

impl Life {
    fn new(copies: Copies) -> Self {
        let blank = Version { number: 0, cell: [Some(0); WORDS] };
        Self::from(core::array::from_fn(|_| blank), copies)
    }

    fn from(shown: [Version; BLOCKS], copies: Copies) -> Self {
        Self {
            copies,
            chains: shown.map(|version| vec![version]),
            transactions: Vec::new(),
            returned: Vec::new(),
            syncs: Vec::new(),
            power_lost: false,
            groups: 0,
        }
    }

    /// What the history up to now allows.
    fn of(history: &[Mark], copies: &Copies) -> Self {
        let mut life = Self::new(copies.clone());
        for mark in history {
            match mark {
                Mark::Called(label) if label & SYNC != 0 => {
                    life.syncs.push((*label, life.returned.len()));
                    life.groups += 1;
                }
                Mark::Called(label) => life.call(Call::of(*label)),
                Mark::Returned(label) => life.note_return(*label),
                Mark::PowerLost => life.power_lost = true,
                Mark::Killed => {}
                Mark::Recovered(digest) => life = life.shown(*digest),
            }
        }
        life
    }

    fn newest(&self, block: usize) -> Version {
        *self.chains[block].last().expect("there is what was shown")
    }

    fn call(&mut self, call: Call) {
        let is_read = |(_, change): &&(usize, Change)| *change == Change::Read;
        let read = call.changes.iter().filter(is_read);
        let read = read.map(|(block, _)| (*block, self.newest(*block).number)).collect();
        for (block, change) in &call.changes {
            let mut cell = self.newest(*block).cell;
            let words = words_of(call.number, *block, *change).map(Some);
            let copy = self.copies.get(call.number, *block);
            match (change, copy) {
                (Change::Read, _) => continue,
                (Change::Discard, _) => cell = [None; WORDS],
                (_, Some(content)) => cell = words_in(&content).map(Some),
                (Change::Write | Change::Append | Change::Copy, None) => cell = words,
                (Change::Touch, None) => cell[..2].copy_from_slice(&words[..2]),
            }
            self.chains[*block].push(Version { number: call.number, cell });
        }
        let (before, is_together) = (self.returned.len(), call.end == End::Together);
        self.groups += u32::from(!is_together);
        let (group, has_returned, is_durable) = (self.groups, false, false);
        self.groups += u32::from(!is_together);
        self.transactions.push(Transaction { call, read, before, group, has_returned, is_durable });
    }

    fn note_return(&mut self, label: u64) {
        if label & SYNC != 0 {
            let call = self.syncs.iter().rfind(|(called, _)| *called == label);
            let before = call.expect("a sync is called before it returns").1;
            self.make_durable(before, label >> NUMBER_AT & COVERS == 0);
            return;
        }
        let number = label >> NUMBER_AT;
        let find = |transaction: &&mut Transaction| transaction.call.number == number;
        // What was there when this life began may be shown to a reader, too.
        let Some(transaction) = self.transactions.iter_mut().find(find) else { return };
        if label & SHOWN != 0 {
            transaction.is_durable = true;
            return;
        }
        transaction.has_returned = true;
        let before = transaction.before;
        if transaction.call.end == End::Durable {
            transaction.is_durable = true;
            self.make_durable(if label & LATE == 0 { before } else { 0 }, false);
        }
        self.returned.push(number);
    }

    /// The first of those that have returned are durable; of what was gathered only a sync says so.
    fn make_durable(&mut self, count: usize, gathered: bool) {
        for transaction in &mut self.transactions {
            let has_returned = self.returned[..count].contains(&transaction.call.number);
            transaction.is_durable |= has_returned && (gathered || !transaction.call.is_gathered());
        }
    }

    fn position(&self, block: usize, number: u64) -> usize {
        let found = self.chains[block].iter().position(|version| version.number == number);
        found.expect("whoever is known has its version in the chain")
    }

    /// Whether a transaction may be there, or missing, when of each block the versions up to a
    /// position are.
    fn allows(&self, transaction: &Transaction, upto: &[usize; BLOCKS]) -> bool {
        let Transaction { call, read, .. } = transaction;
        // What is gathered is in no memory that outlives its process.
        let required = match self.power_lost || call.is_gathered() {
            true => transaction.is_durable,
            false => transaction.has_returned,
        };
        let writes = call.changes.iter().filter(|(_, change)| *change != Change::Read);
        let there = writes.map(|(block, _)| self.position(*block, call.number) <= upto[*block]);
        let there: Vec<bool> = there.collect();
        let is_there = there.first().copied().unwrap_or(required);
        let is_whole = there.iter().all(|there| *there == is_there);
        let is_closed =
            || read.iter().all(|(block, number)| self.position(*block, *number) <= upto[*block]);
        is_whole && (is_there || !required) && (!is_there || is_closed())
    }

    /// Whether a transaction is there, if it has written anything.
    fn is_there(&self, transaction: &Transaction, upto: &[usize; BLOCKS]) -> Option<bool> {
        let Call { number, changes, .. } = &transaction.call;
        let written = changes.iter().find(|(_, change)| *change != Change::Read);
        written.map(|(block, _)| self.position(*block, *number) <= upto[*block])
    }

    /// Whether of what was gathered nothing is there without what was gathered before, and of what
    /// was gathered together all or nothing.
    fn gathered_in_order(&self, upto: &[usize; BLOCKS]) -> bool {
        let gathered =
            self.transactions.iter().filter(|transaction| transaction.call.is_gathered());
        let gathered: Vec<_> = gathered
            .filter_map(|transaction| Some((transaction, self.is_there(transaction, upto)?)))
            .collect();
        gathered.iter().all(|(later, is_there)| {
            let earlier = &self.returned[..later.before];
            gathered.iter().all(|(other, other_is_there)| {
                let is_earlier = earlier.contains(&other.call.number);
                let is_same = other.group == later.group && later.call.end == End::Together;
                (!is_there || *other_is_there || !is_earlier)
                    && (!is_same || is_there == other_is_there)
            })
        })
    }

    /// Which version of each block is found, as late ones as can be.
    fn explain(&self, found: &[Block; BLOCKS]) -> Option<[usize; BLOCKS]> {
        let mut candidates: [Vec<usize>; BLOCKS] = Default::default();
        for (block, positions) in candidates.iter_mut().enumerate() {
            let found = words_in(&found[block]);
            let versions = self.chains[block].iter().enumerate().rev();
            let fitting = versions.filter(|(_, version)| admits(&version.cell, &found));
            positions.extend(fitting.map(|(position, _)| position));
        }
        let mut chosen = [0; BLOCKS];
        self.choose(&candidates, 0, &mut chosen).then_some(chosen)
    }

    fn choose(
        &self,
        from: &[Vec<usize>; BLOCKS],
        block: usize,
        chosen: &mut [usize; BLOCKS],
    ) -> bool {
        if block == BLOCKS {
            return self.transactions.iter().all(|transaction| self.allows(transaction, chosen))
                && self.gathered_in_order(chosen);
        }
        from[block].iter().any(|position| {
            chosen[block] = *position;
            self.choose(from, block + 1, chosen)
        })
    }

    /// The life that begins when an open has shown what a digest says.
    fn shown(&self, digest: u64) -> Self {
        let shown = core::array::from_fn(|block| {
            let number = digest >> (NUMBER_BITS as usize * block) & NUMBER_MAX;
            self.chains[block][self.position(block, number)]
        });
        Self::from(shown, self.copies.clone())
    }
}

/// Judges what a journal shows by all that has happened; returns a digest of it.
pub fn judge(world: &World, found: &[Block; BLOCKS]) -> Result<u64, String> {
    judge_with(world, found, &Copies::default())
}

/// [`judge`], where there are copies.
pub fn judge_with(world: &World, found: &[Block; BLOCKS], copies: &Copies) -> Result<u64, String> {
    let history = world.history();
    let life = Life::of(&history, copies);
    if let Some(upto) = life.explain(found) {
        let numbers =
            upto.iter().zip(&life.chains).map(|(position, chain)| chain[*position].number);
        return Ok(numbers.rev().fold(0, |digest, number| digest << NUMBER_BITS | number));
    }
    let words = found.iter().zip(&life.chains).map(|(block, chain)| {
        let words = words_in(block);
        let fitting = chain.iter().filter(|version| admits(&version.cell, &words));
        let numbers: Vec<u64> = fitting.map(|version| version.number).collect();
        format!("{words:x?}, which is of {numbers:?}")
    });
    let words: Vec<String> = words.collect();
    Err(format!("no allowed state shows this: {}\n{}", words.join("\n"), told(&history)))
}

/// Judges what a snapshot shows. The history ends where the snapshot was made, and its first
/// `asked` marks were there when somebody asked for it. All that had returned by then is in it,
/// gathered or not, and nothing that was called behind it.
pub fn judge_snapshot(
    history: &[Mark],
    asked: usize,
    found: &[Block; BLOCKS],
) -> Result<(), String> {
    let (before, meanwhile) = history.split_at(asked);
    // It sees what a sync would make durable. What has returned meanwhile may be in it or not.
    let label = sync_label(asked as u64);
    let sync = [Mark::Called(label), Mark::Returned(label)];
    let called = meanwhile.iter().filter(|mark| matches!(mark, Mark::Called(_)));
    let history: Vec<Mark> = before.iter().chain(&sync).chain(called).copied().collect();
    let life = Life::of(&history, &Copies::default());
    match life.explain(found) {
        Some(_) => Ok(()),
        None => Err(format!("no snapshot shows this: {found:x?}\n{}", told(&history))),
    }
}

/// Checks that a transaction has read a block's newest version.
pub fn judge_read(world: &World, block: usize, found: &Block) -> Result<(), String> {
    judge_read_with(world, block, found, &Copies::default())
}

/// [`judge_read`], where there are copies.
pub fn judge_read_with(
    world: &World,
    block: usize,
    found: &Block,
    copies: &Copies,
) -> Result<(), String> {
    let history = world.history();
    let life = Life::of(&history, copies);
    if admits(&life.newest(block).cell, &words_in(found)) {
        return Ok(());
    }
    let newest = life.newest(block);
    Err(format!(
        "a transaction has read {:x?} in block {block}, whose newest is {newest:x?}\n{}",
        words_in(found),
        told(&history)
    ))
}

/// Checks that a reader without a lock was shown some version of a block; returns its transaction
/// where that is certain, and its end says that it is durable as soon as it is seen.
pub fn judge_seen(
    world: &World,
    block: usize,
    found: &Block,
    copies: &Copies,
) -> Result<Option<u64>, String> {
    let history = world.history();
    let life = Life::of(&history, copies);
    let words = words_in(found);
    let mut fitting = life.chains[block].iter().filter(|version| admits(&version.cell, &words));
    let Some(Version { number, cell }) = fitting.next() else {
        let told = told(&history);
        return Err(format!("a reader was shown {words:x?} in block {block}\n{told}"));
    };
    let is_certain = fitting.next().is_none() && cell.iter().all(Option::is_some);
    let is_durable = life.transactions.iter().any(|transaction| {
        transaction.call.number == *number && transaction.call.end == End::Durable
    });
    Ok((is_certain && is_durable).then_some(*number))
}

/// The history, readable.
fn told(history: &[Mark]) -> String {
    let name = |label: u64| match label {
        _ if label & SYNC != 0 => format!("sync {}", label >> NUMBER_AT),
        _ if label & SHOWN != 0 => format!("reader shown {}", label >> NUMBER_AT),
        _ => format!("{:?}", Call::of(label)),
    };
    let lines = history.iter().map(|mark| match mark {
        Mark::Called(label) => format!("> {}", name(*label)),
        Mark::Returned(label) => format!("< {}", name(*label)),
        mark => format!("{mark:?}"),
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// An oracle that allows everything finds nothing: contents that have to be refused.
#[cfg(test)]
mod tests {
    use sim_disk::{Image, Model};

    use super::*;

    fn call(number: u64, is_deferred: bool, changes: &[(usize, Change)]) -> u64 {
        let end = if is_deferred { End::Deferred } else { End::Durable };
        Call { number, end, changes: changes.to_vec() }.label()
    }

    /// Two transactions were gathered and have returned, then a sync was called, and then one more
    /// was gathered.
    #[test]
    fn what_is_gathered_comes_in_order_and_together() {
        use Change::Write;
        for (end, both) in [(End::Gathered, false), (End::Together, true)] {
            let world = World::boot(Image::blank(64), Model::Torn8);
            let gather = |number: u64, block| {
                let label = Call { number, end, changes: vec![(block, Write)] }.label();
                world.called(label);
                world.returned(label);
            };
            (1..3).for_each(|number| gather(number, number as usize - 1));
            world.called(sync_label(1));
            gather(3, 2);
            let there = |numbers: [u64; 3]| {
                judge(&world, &found(numbers.map(|number| (number, Write)))).is_ok()
            };
            assert!(there([0, 0, 0]) && there([1, 2, 0]) && there([1, 2, 3]));
            assert!(!there([0, 2, 0]) && !there([0, 0, 3]) && !there([1, 0, 3]), "in order");
            assert_eq!(there([1, 0, 0]), !both, "together");
            world.returned(sync_label(1));
            assert!(!there([0, 0, 0]) && there([1, 2, 0]), "the sync covers two of them");
        }
    }

    /// Transaction 1 writes blocks 0 and 1, 2 reads block 1 and writes block 2, 3 touches block 2
    /// deferred; 1 has returned.
    fn world() -> World {
        use Change::{Read, Touch, Write};
        let world = World::boot(Image::blank(64), Model::Torn8);
        let first = call(1, false, &[(0, Write), (1, Write)]);
        world.called(first);
        world.returned(first);
        world.called(call(2, false, &[(1, Read), (2, Write)]));
        world.called(call(3, true, &[(2, Touch)]));
        world
    }

    fn found(numbers: [(u64, Change); 3]) -> [Block; BLOCKS] {
        let mut found = [[0; BLOCK_BYTES]; BLOCKS];
        for (block, (number, change)) in numbers.into_iter().enumerate() {
            if number > 0 {
                found[block] = content_of(number, block, change);
            }
        }
        found
    }

    /// Of the same three, the first has returned, or not, when a snapshot is asked for.
    #[test]
    fn a_snapshot_has_what_had_returned_and_nothing_in_part() {
        use Change::Write;
        let history = world().history();
        let (none, one, two) = ((0, Write), (1, Write), (2, Write));
        let shows = |marks, asked, all| judge_snapshot(&history[..marks], asked, &found(all));
        assert!(shows(2, 1, [none; 3]).is_ok() && shows(2, 1, [one, one, none]).is_ok());
        assert!(shows(2, 2, [none; 3]).is_err(), "it has returned");
        assert!(shows(2, 1, [one, none, none]).is_err(), "in part");
        assert!(shows(2, 2, [one, one, two]).is_err(), "it is called later");
        assert!(shows(3, 2, [one, one, two]).is_ok() && shows(3, 2, [one, one, none]).is_ok());
        // A snapshot has what is gathered, too.
        let gathered = Call { number: 1, end: End::Gathered, changes: vec![(0, Write)] }.label();
        let history = [Mark::Called(gathered), Mark::Returned(gathered)];
        assert!(judge_snapshot(&history, 2, &found([none; 3])).is_err());
        assert_eq!(judge_snapshot(&history, 2, &found([one, none, none])), Ok(()));
    }

    #[test]
    fn what_is_promised_is_demanded() {
        use Change::Write;
        let none = (0, Write);
        let judged = |world: &World, numbers| judge(world, &found(numbers)).is_ok();
        assert!(judged(&world(), [(1, Write), (1, Write), none]));
        assert!(judged(&world(), [(1, Write), (1, Write), (2, Write)]));
        assert!(!judged(&world(), [none, none, none]), "an acknowledged one is missing");
        assert!(!judged(&world(), [(1, Write), none, none]), "half of one is there");
        assert!(!judged(&world(), [(1, Write), (1, Write), (1, Write)]), "nobody wrote that");
        let world = World::boot(Image::blank(64), Model::Torn8);
        world.called(call(1, true, &[(1, Write)]));
        world.called(call(2, true, &[(1, Change::Read), (2, Write)]));
        assert!(judged(&world, [none, (1, Write), (2, Write)]));
        assert!(!judged(&world, [none, none, (2, Write)]), "without what it has read");
        let mut touched = found([none, (1, Write), (2, Write)]);
        assert!(judge(&world, &touched).is_ok());
        touched[2][63] ^= 1;
        assert!(judge(&world, &touched).is_err(), "one bit is wrong");
    }

    #[test]
    fn a_sync_covers_what_had_returned_and_a_reader_what_it_was_shown() {
        use Change::Write;
        let none = (0, Write);
        for covers in [false, true] {
            let world = World::boot(Image::blank(64), Model::Torn8);
            let deferred = call(1, true, &[(0, Write)]);
            world.called(deferred);
            if covers {
                world.returned(deferred);
            }
            world.called(sync_label(1));
            world.returned(sync_label(1));
            let world = World::killed(
                &world.start(),
                Model::Torn8,
                &world.tape(),
                world.tape().len(),
                vec![Mark::PowerLost],
            );
            assert_eq!(judge(&world, &found([none, none, none])).is_ok(), !covers);
        }
        let world = world();
        world.returned(shown_label(2));
        let lost = [Mark::PowerLost].to_vec();
        let tape = world.tape();
        let world = World::killed(&world.start(), Model::Torn8, &tape, tape.len(), lost);
        assert!(judge(&world, &found([(1, Write), (1, Write), none])).is_err());
    }

    #[test]
    fn what_was_shown_stays() {
        use Change::Write;
        let world = world();
        let shown = found([(1, Write), (1, Write), (2, Write)]);
        world.recovered(judge(&world, &shown).expect("is allowed"));
        assert!(judge(&world, &shown).is_ok());
        let less = found([(1, Write), (1, Write), (0, Write)]);
        assert!(judge(&world, &less).is_err());
    }
}
