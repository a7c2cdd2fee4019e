//! A process: what a store does with its journal, and what has to come of it.

use core::fmt;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;

use journal_core::policy::Change::{Image as Whole, Patches};
use journal_core::policy::{Kind, Patch, Update};
use journal_core::{BlockNumber, Durability, Operation, Protocol};
use nvm_journal::{Error, Hint};
use sim_disk::World;

use super::acts::{Edit, FITS, Make, Tx};
use super::hook::{Known, Marks, Pending};
use super::{Journal, Outside, Transaction};
use crate::lives::Process;
use lab::oracle::{
    BLOCK_BYTES, BLOCKS, Block, Call, Change, End, content_of, cover_label, judge_read_with,
    judge_with, late, next_number, sync_label,
};

/// Numbers above are left for the last lives of a case.
const NUMBER_MAX: u64 = 960;
/// How often a transaction is tried again if another one is in its way.
const TRIES: u32 = 10_000;
/// Bytes of what a touch in one call changes.
const TOUCHED_BYTES: usize = 16;

/// A process, at work.
pub(super) struct Store<'a> {
    pub(super) outside: &'a Outside,
    pub(super) world: &'a World,
    pub(super) known: Arc<Known>,
    pub(super) hook: Marks,
    pub(super) next: AtomicU64,
    /// Whether the policy logs changes of which it does not know the rest of the block.
    pub(super) takes_patches: AtomicBool,
}

pub(super) fn at(block: usize) -> BlockNumber {
    BlockNumber(block as u64)
}

pub(super) fn read(journal: &Journal, block: usize) -> Result<Block, Wrong> {
    let mut content = [0; BLOCK_BYTES];
    journal.read(at(block), &mut content)?;
    Ok(content)
}

fn read_all(journal: &Journal) -> Result<[Block; BLOCKS], Wrong> {
    let mut blocks = [[0; BLOCK_BYTES]; BLOCKS];
    for (number, block) in blocks.iter_mut().enumerate() {
        *block = read(journal, number)?;
    }
    Ok(blocks)
}

/// What a transaction in one call does to a block.
enum Single {
    Image(Kind, Block),
    Patch(Block),
    Discard,
}

impl<'a> Store<'a> {
    pub(super) fn new<A>(outside: &'a Outside, process: &Process<'a, A>) -> Self {
        let known = Arc::<Known>::default();
        let world = process.world;
        let (mutator, watch) = (outside.mutator.clone(), outside.watch.clone());
        let hook = Marks::new(mutator, world.clone(), Arc::clone(&known), watch);
        let next = AtomicU64::new(next_number(&world.history()));
        Self { outside, world, known, hook, next, takes_patches: AtomicBool::new(false) }
    }

    /// The number of the next transaction, as long as there are any.
    pub(super) fn number(&self) -> Option<u64> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        (number <= NUMBER_MAX).then_some(number)
    }

    /// What an open shows, by all that has happened before.
    pub(super) fn recover(&self, journal: &Journal) -> Result<(), Wrong> {
        let found = read_all(journal)?;
        self.recovered(&found)
    }

    pub(super) fn recovered(&self, found: &[Block; BLOCKS]) -> Result<(), Wrong> {
        let digest = judge_with(self.world, found, &self.outside.copies).map_err(Wrong::Told)?;
        self.world.recovered(digest);
        Ok(())
    }

    /// What is read when nothing is under way.
    pub(super) fn look(&self, journal: &Journal) -> Result<(), Wrong> {
        for block in 0..BLOCKS {
            self.judge_read(block, &read(journal, block)?)?;
        }
        match journal.unreadable()?.first() {
            None => Ok(()),
            Some(block) => Err(Wrong::Told(format!("{block} was left out"))),
        }
    }

    fn judge_read(&self, block: usize, found: &Block) -> Result<(), Wrong> {
        judge_read_with(self.world, block, found, &self.outside.copies).map_err(Wrong::Told)
    }

    /// A call that makes everything durable that was committed before.
    pub(super) fn covering(
        &self,
        id: u64,
        call: impl FnOnce() -> Result<(), Error>,
    ) -> Result<(), Wrong> {
        let label = sync_label(id);
        self.world.called(label);
        call()?;
        self.world.returned(label);
        Ok(())
    }

    pub(super) fn covers(&self, call: impl FnOnce() -> Result<(), Error>) -> Result<(), Wrong> {
        self.covering(self.world.history().len() as u64, call)
    }

    /// One transaction, in one thread or in one of many.
    pub(super) fn transact(
        &self,
        journal: &Journal,
        tx: &Tx,
        among_many: bool,
    ) -> Result<(), Wrong> {
        let Some(number) = self.number() else { return Ok(()) };
        // Tail words do not tell of what is deferred, and so a kill takes it.
        let has_tails = journal.geometry().protocol == Protocol::TailPointer;
        let end = if has_tails && tx.end == End::Deferred { End::Durable } else { tx.end };
        let tx = &Tx { end, ..tx.clone() };
        tx.edits.iter().for_each(|edit| self.outside.copies.forget(number, edit.block));
        let is_one_call = matches!(tx.end, End::Durable | End::Deferred) && tx.edits.len() <= FITS;
        // Among many threads a call is marked when it stores its record (`hook`). A call that finds
        // no room in the log may move blocks there first, by a record that is not its own.
        let may_move = among_many && journal.geometry().lane_log_blocks > 0;
        if tx.at_once && is_one_call && !may_move {
            return self.at_once(journal, number, tx, among_many);
        }
        for _ in 0..TRIES {
            match self.staged(journal, number, tx) {
                Err(Wrong::Error(Error::Conflict { .. })) if among_many => {
                    std::thread::yield_now();
                }
                Err(Wrong::Error(Error::TooLarge { .. } | Error::TooManyBlocks { .. }))
                    if tx.edits.len() > FITS =>
                {
                    return Ok(());
                }
                result => return result,
            }
        }
        Err(Wrong::Told(format!("{TRIES} times a conflict: {tx:?}")))
    }

    fn staged(&self, journal: &Journal, number: u64, tx: &Tx) -> Result<(), Wrong> {
        let mut called = None;
        let body = |transaction: &mut Transaction<'_>| {
            let mut edits: Vec<Edit> = tx.edits.clone();
            if tx.descends {
                edits.reverse();
            }
            let mut changes = Vec::new();
            for edit in &edits {
                changes.push((edit.block, self.change(transaction, number, *edit)?));
            }
            if tx.end == End::Abort {
                return Err(Wrong::Aborted);
            }
            // All its blocks are locked, and nothing refuses it any more.
            self.known.note(&changes);
            let label = Call { number, end: tx.end, changes }.label();
            self.world.called(label);
            called = Some(label);
            Ok(())
        };
        let result = match tx.end {
            End::Deferred => journal.transact_deferred(body),
            End::Gathered | End::Together => journal.transact_gathered(body),
            End::Durable | End::Abort => journal.transact(body),
        };
        match (result, called) {
            (Ok(()), Some(label)) => {
                self.world.returned(label);
                Ok(())
            }
            (Err(Wrong::Aborted), None) => Ok(()),
            (Err(Wrong::Error(error @ Error::Conflict { .. })), Some(_)) => {
                Err(Wrong::Told(format!("what has all its locks is told: {error}")))
            }
            (result, _) => result,
        }
    }

    /// Makes one change; returns what it is to the oracle.
    fn change(
        &self,
        transaction: &mut Transaction<'_>,
        number: u64,
        Edit { block, make }: Edit,
    ) -> Result<Change, Wrong> {
        let hint = if number % 3 == 0 { Hint::METADATA } else { Hint::DATA };
        match make {
            Make::Write => {
                let content = content_of(number, block, Change::Write);
                transaction.write_with(at(block), hint, &content)?;
                Ok(Change::Write)
            }
            Make::Append => {
                // So that it is locked.
                let mut found = [0; BLOCK_BYTES];
                transaction.read(at(block), &mut found)?;
                self.judge_read(block, &found)?;
                if !self.known.is_given_up(block) {
                    transaction.discard(at(block))?;
                    return Ok(Change::Discard);
                }
                transaction.append(at(block), &content_of(number, block, Change::Append))?;
                Ok(Change::Append)
            }
            Make::Touch { at: from, bytes } => {
                let from = usize::from(from);
                let end = BLOCK_BYTES.min(from + usize::from(bytes));
                let content = content_of(number, block, Change::Touch);
                transaction.write_at_with(at(block), hint, from, &content[from..end])?;
                // It sees what it is about to commit.
                let mut whole = [0; BLOCK_BYTES];
                transaction.read(at(block), &mut whole)?;
                if whole[from..end] != content[from..end] {
                    return Err(Wrong::Told("a transaction does not see its own bytes".into()));
                }
                self.outside.copies.set(number, block, whole);
                Ok(Change::Copy)
            }
            Make::Discard => {
                transaction.discard(at(block))?;
                Ok(Change::Discard)
            }
            Make::Read => {
                let mut found = [0; BLOCK_BYTES];
                transaction.read(at(block), &mut found)?;
                self.judge_read(block, &found)?;
                Ok(Change::Read)
            }
            Make::Copy(which) => {
                let content = self.outside.copied(self.world, which);
                self.outside.copies.set(number, block, content);
                transaction.write_with(at(block), hint, &content)?;
                Ok(Change::Copy)
            }
        }
    }

    /// What a change of one in a single call is.
    fn single(&self, number: u64, edit: Edit, among_many: bool) -> (Change, Single) {
        let Edit { block, make } = edit;
        let image = |kind, change| (change, Single::Image(kind, content_of(number, block, change)));
        match make {
            Make::Discard => (Change::Discard, Single::Discard),
            Make::Copy(which) => {
                let content = self.outside.copied(self.world, which);
                self.outside.copies.set(number, block, content);
                (Change::Copy, Single::Image(Kind::Overwrite, content))
            }
            Make::Append if !among_many && self.known.is_given_up(block) => {
                image(Kind::Append, Change::Append)
            }
            Make::Append => (Change::Discard, Single::Discard),
            Make::Touch { .. } if !among_many && self.takes_patches.load(Ordering::Relaxed) => {
                let content = content_of(number, block, Change::Touch);
                (Change::Touch, Single::Patch(content))
            }
            Make::Write | Make::Touch { .. } | Make::Read => image(Kind::Overwrite, Change::Write),
        }
    }

    /// One transaction in one call.
    fn at_once(
        &self,
        journal: &Journal,
        number: u64,
        tx: &Tx,
        among_many: bool,
    ) -> Result<(), Wrong> {
        let singles = tx.edits.iter().map(|edit| {
            let (change, single) = self.single(number, *edit, among_many);
            ((edit.block, change), single)
        });
        let (changes, singles): (Vec<(usize, Change)>, Vec<Single>) = singles.unzip();
        let patches: Vec<_> = singles.iter().map(patch_of).collect();
        let operations = changes.iter().zip(singles.iter().zip(&patches));
        let operations = operations.map(|((block, _), (single, patch))| match single {
            Single::Discard => Operation::Discard(at(*block)),
            Single::Image(kind, image) => {
                let mut update = Update::new(at(*block), Whole(image));
                update.kind = *kind;
                Operation::Update(update)
            }
            Single::Patch(_) => Operation::Update(Update::new(at(*block), Patches(patch))),
        });
        let operations: Vec<_> = operations.collect();
        let is_durable = tx.end == End::Durable;
        let durability = if is_durable { Durability::Durable } else { Durability::Deferred };
        let call = Call { number, end: tx.end, changes: changes.clone() };
        if among_many {
            // A durable commit covers what was committed before it, and begins here.
            let covers = is_durable.then_some(cover_label(number));
            covers.inspect(|covers| self.world.called(*covers));
            let label = late(call.label());
            Marks::await_record(Pending { label, changes });
            let result = journal.commit(&operations, durability);
            let is_marked = Marks::is_marked();
            result?;
            // What was there already is not stored again.
            if is_marked {
                self.world.returned(label);
            }
            covers.inspect(|covers| self.world.returned(*covers));
            return Ok(());
        }
        self.world.called(call.label());
        journal.commit(&operations, durability)?;
        self.known.note(&changes);
        for ((block, _), single) in changes.iter().zip(&singles) {
            if let Single::Patch(content) = single {
                // What is shown from now on stays.
                let found = read(journal, *block)?;
                if found[..TOUCHED_BYTES] != content[..TOUCHED_BYTES] {
                    return Err(Wrong::Told(format!("block {block} is not as it was patched")));
                }
                self.outside.copies.set(number, *block, found);
            }
        }
        self.world.returned(call.label());
        Ok(())
    }
}

fn patch_of(single: &Single) -> [Patch<'_>; 1] {
    match single {
        Single::Patch(content) => [Patch { at: 0, bytes: &content[..TOUCHED_BYTES] }],
        _ => [Patch { at: 0, bytes: &[] }],
    }
}

/// Why a process does not go on.
#[derive(Debug)]
pub(super) enum Wrong {
    /// The journal's answer.
    Error(Error),
    /// Something that it did without an error.
    Told(String),
    /// The store has aborted a transaction.
    Aborted,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Error(error) => error.fmt(f),
            Self::Told(told) => f.write_str(told),
            Self::Aborted => f.write_str("aborted"),
        }
    }
}

impl From<Error> for Wrong {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}
