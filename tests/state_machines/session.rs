//! A process behind the front door: transactions under way, and what each step has to come to.

use core::fmt;
use core::time::Duration;

use journal_core::policy::Change::{Image as Whole, Patches, Ranges};
use journal_core::policy::{Kind, Patch, Span, Update};
use journal_core::{BlockNumber, Durability, Operation};
use nvm_journal::{Error, Hint};
use sim_disk::Mark;

use crate::door::{Act, Changes, FITS, Front, Journal, SEATS, Snapshot, Transaction};
use crate::lives::Process;
use lab::oracle::{
    BLOCK_BYTES, BLOCKS, Block, Call, Change, End, content_of, judge_read, next_number, sync_label,
};

use Change::{Append, Copy, Discard, Read, Touch, Write};

/// Bytes of what a touch changes.
const TOUCHED_BYTES: usize = 16;

/// A transaction under way.
struct Open<'j> {
    transaction: Transaction<'j>,
    number: u64,
    changes: Changes,
}

/// A snapshot, and what it has to show of each block that is live.
struct Kept<'j> {
    snapshot: Snapshot<'j>,
    blocks: [Option<Block>; BLOCKS],
}

/// A process, with its journal open.
pub(crate) struct Session<'a, 'j> {
    front: &'a Front,
    process: &'a Process<'a, Act>,
    journal: &'j Journal,
    open: [Option<Open<'j>>; SEATS],
    kept: Option<Kept<'j>>,
    /// The number of the next transaction.
    next: u64,
    now: Duration,
    /// What this process knows not to be live.
    given_up: [bool; BLOCKS],
    /// What may not be live.
    unclear: [bool; BLOCKS],
}

fn at(block: usize) -> BlockNumber {
    BlockNumber(block as u64)
}

pub(crate) fn read_all(journal: &Journal) -> Result<[Block; BLOCKS], Error> {
    let mut blocks = [[0; BLOCK_BYTES]; BLOCKS];
    for (number, block) in blocks.iter_mut().enumerate() {
        journal.read(at(number), block)?;
    }
    Ok(blocks)
}

impl<'a, 'j> Session<'a, 'j> {
    pub(crate) fn new(
        front: &'a Front,
        process: &'a Process<'a, Act>,
        journal: &'j Journal,
    ) -> Self {
        let history = process.world.history();
        let discards = |block: usize| {
            history.iter().any(|mark| match mark {
                Mark::Called(label) => label >> (3 * block) & 7 == Discard as u64 + 1,
                _ => false,
            })
        };
        Self {
            front,
            process,
            journal,
            open: [const { None }; SEATS],
            kept: None,
            next: next_number(&history),
            now: Duration::ZERO,
            given_up: [false; BLOCKS],
            unclear: core::array::from_fn(discards),
        }
    }

    fn begin(&mut self) -> Result<Open<'j>, Error> {
        let (number, transaction) = (self.next, self.journal.begin()?);
        self.next += 1;
        Ok(Open { transaction, number, changes: Vec::new() })
    }

    /// Only what is not live is appended to; what is, is given up for the next time.
    fn legal(&self, (block, change): (usize, Change)) -> (usize, Change) {
        let is_early = change == Append && !self.given_up[block];
        (block, if is_early { Discard } else { change })
    }

    /// Makes one change. A block that was changed before in the same transaction is looked at.
    fn change(&mut self, open: &mut Open<'j>, one: (usize, Change)) -> Result<(), Wrong> {
        let (block, change) = self.legal(one);
        let content = content_of(open.number, block, change);
        let transaction = &mut open.transaction;
        if let Some((_, earlier)) = open.changes.iter().find(|(other, _)| *other == block) {
            let mut found = [0; BLOCK_BYTES];
            transaction.read(at(block), &mut found)?;
            let content = content_of(open.number, block, *earlier);
            let known = match earlier {
                Write | Append | Copy => BLOCK_BYTES,
                Touch => TOUCHED_BYTES,
                Discard | Read => 0,
            };
            if found[..known] != content[..known] {
                return Err(Wrong::Told(format!("a transaction does not see its own {earlier:?}")));
            }
            return Ok(());
        }
        let is_metadata = self.front.shape.metadata && open.number % 2 == 0;
        let hint = if is_metadata { Hint::METADATA } else { Hint::DATA };
        match change {
            Write | Copy => transaction.write_with(at(block), hint, &content)?,
            Append => transaction.append(at(block), &content)?,
            Touch => transaction.write_at_with(at(block), hint, 0, &content[..TOUCHED_BYTES])?,
            Discard => transaction.discard(at(block))?,
            Read => {
                let mut found = [0; BLOCK_BYTES];
                transaction.read(at(block), &mut found)?;
                judge_read(self.process.world, block, &found).map_err(Wrong::Told)?;
            }
        }
        open.changes.push((block, change));
        Ok(())
    }

    /// Ends a transaction, with marks.
    fn finish(&mut self, open: Open<'j>, end: End) -> Result<(), Wrong> {
        let Open { transaction, number, changes } = open;
        let call = Call { number, end, changes };
        let world = self.process.world;
        if end == End::Abort {
            transaction.abort();
            return Ok(());
        }
        world.called(call.label());
        match end {
            End::Deferred => transaction.commit_deferred().map(drop)?,
            End::Gathered | End::Together => transaction.commit_gathered()?,
            End::Durable | End::Abort => transaction.commit().map(drop)?,
        }
        world.returned(call.label());
        self.note(&call.changes);
        Ok(())
    }

    fn note(&mut self, changes: &[(usize, Change)]) {
        for (block, change) in changes {
            match change {
                Discard => (self.given_up[*block], self.unclear[*block]) = (true, true),
                Write | Append | Copy => {
                    (self.given_up[*block], self.unclear[*block]) = (false, false);
                }
                Touch => self.given_up[*block] = false,
                Read => {}
            }
        }
    }

    /// One transaction in one call, where no other is open that it could meet.
    fn at_once(&mut self, changes: &Changes, durability: Durability) -> Result<(), Wrong> {
        let number = self.next;
        self.next += 1;
        let legal = |change: &(usize, Change)| match self.legal(*change) {
            (block, Touch) if self.unclear[block] || !self.front.takes_patches => (block, Write),
            (block, Read) => (block, Write),
            other => other,
        };
        let changes: Changes = changes.iter().map(legal).collect();
        let mut images = Vec::new();
        for (block, change) in &changes {
            let mut image = content_of(number, *block, *change);
            if *change == Touch {
                let touched = image;
                self.journal.read(at(*block), &mut image)?;
                image[..TOUCHED_BYTES].copy_from_slice(&touched[..TOUCHED_BYTES]);
            }
            images.push(image);
        }
        let patches: Vec<_> = images.iter().map(patch).collect();
        let operations = changes.iter().zip(images.iter().zip(&patches));
        // A touch comes as a range of the new image, or as a patch alone.
        let operations = operations.map(|((block, change), (image, patch))| {
            let mut update = Update::new(at(*block), Whole(image));
            match change {
                Discard => return Operation::Discard(at(*block)),
                Append => update.kind = Kind::Append,
                Touch if number % 2 == 0 => update.change = Patches(patch),
                Touch => update.change = Ranges { image, ranges: &TOUCHED },
                Write | Copy | Read => {}
            }
            Operation::Update(update)
        });
        let operations: Vec<_> = operations.collect();
        let end = match durability {
            Durability::Durable => End::Durable,
            Durability::Deferred => End::Deferred,
        };
        let call = Call { number, end, changes };
        let world = self.process.world;
        world.called(call.label());
        self.journal.commit(&operations, durability)?;
        world.returned(call.label());
        self.note(&call.changes);
        Ok(())
    }

    /// One transaction that meets one open in this thread, which would wait for itself.
    fn meets(&mut self, block: usize) -> Result<(), Wrong> {
        let image = [0xEE; BLOCK_BYTES];
        let met = self.journal.commit(&[Operation::write(at(block), &image)], Durability::Durable);
        match met {
            Err(Error::Conflict { .. }) => Ok(()),
            Err(error) => Err(error.into()),
            Ok(_) => Err(Wrong::Told(format!("block {block} is taken, and was written"))),
        }
    }

    fn covering(&self, call: impl FnOnce(&Journal) -> Result<(), Error>) -> Result<(), Wrong> {
        let world = self.process.world;
        let label = sync_label(world.history().len() as u64);
        world.called(label);
        call(self.journal)?;
        world.returned(label);
        Ok(())
    }

    /// Changes one after the other, until one is refused for good reason; whether none was.
    fn changes(&mut self, open: &mut Open<'j>, changes: &[(usize, Change)]) -> Result<bool, Wrong> {
        for change in changes {
            match self.change(open, *change) {
                Ok(()) => {}
                Err(Wrong::Error(Error::Conflict { .. })) if self.has_open() => return Ok(false),
                Err(Wrong::Error(Error::TooLarge { .. } | Error::TooManyBlocks { .. }))
                    if open.changes.len() >= FITS =>
                {
                    return Ok(false);
                }
                Err(wrong) => return Err(wrong),
            }
        }
        Ok(true)
    }

    fn has_open(&self) -> bool {
        self.open.iter().any(Option::is_some)
    }

    fn act(&mut self, act: &Act) -> Result<(), Wrong> {
        match act {
            Act::AtOnce(changes, durability) if !self.has_open() => {
                self.at_once(changes, *durability)
            }
            Act::AtOnce(changes, durability) => {
                let is_taken = |block: usize| {
                    let open = self.open.iter().flatten();
                    open.flat_map(|open| &open.changes).any(|(other, _)| *other == block)
                };
                if let Some((block, _)) = changes.iter().find(|(block, _)| is_taken(*block)) {
                    return self.meets(*block);
                }
                let end =
                    if *durability == Durability::Durable { End::Durable } else { End::Deferred };
                self.act(&Act::Transact(changes.clone(), end))
            }
            Act::Transact(changes, end) => {
                let mut open = self.begin()?;
                if self.changes(&mut open, changes)? { self.finish(open, *end) } else { Ok(()) }
            }
            Act::Stage(seat, change) => {
                let mut open = match self.open[*seat].take() {
                    Some(open) => open,
                    None => self.begin()?,
                };
                // Given up where it met another one.
                if self.changes(&mut open, &[*change])? {
                    self.open[*seat] = Some(open);
                }
                Ok(())
            }
            Act::Finish(seat, end) => match self.open[*seat].take() {
                Some(open) => self.finish(open, *end),
                None => Ok(()),
            },
            Act::Sync => self.covering(Journal::sync),
            Act::Checkpoint => self.covering(|journal| journal.checkpoint().map(drop)),
            Act::CheckpointRings => Ok(self.journal.checkpoint_rings().map(drop)?),
            Act::Tick(milliseconds) => {
                self.now += Duration::from_millis((*milliseconds).into());
                if milliseconds % 2 == 0 {
                    return Ok(self.journal.tick(self.now)?);
                }
                // Each takes one step at least, or one batch.
                while !self.journal.tick_within(self.now, Duration::ZERO)? {}
                Ok(())
            }
            Act::Snapshot => {
                self.kept = None;
                let snapshot = self.journal.snapshot()?;
                let found = read_all(self.journal)?;
                let blocks = core::array::from_fn(|at| (!self.unclear[at]).then_some(found[at]));
                self.kept = Some(Kept { snapshot, blocks });
                Ok(())
            }
        }
    }

    /// What is read against the model.
    fn look(&self) -> Result<(), Wrong> {
        for (block, found) in read_all(self.journal)?.iter().enumerate() {
            judge_read(self.process.world, block, found).map_err(Wrong::Told)?;
        }
        if let Some(block) = self.journal.unreadable()?.first() {
            return Err(Wrong::Told(format!("{block} was left out")));
        }
        self.look_back()
    }

    /// What the snapshot shows, if there is one that has not ended.
    fn look_back(&self) -> Result<(), Wrong> {
        let Some(Kept { snapshot, blocks }) = &self.kept else { return Ok(()) };
        for (block, content) in blocks.iter().enumerate() {
            let Some(content) = content else { continue };
            let mut found = [0; BLOCK_BYTES];
            match snapshot.read(at(block), &mut found) {
                Err(Error::SnapshotTooOld) => return Ok(()),
                read => read?,
            }
            if found != *content {
                return Err(Wrong::Told(format!("a snapshot shows block {block} as it is later")));
            }
        }
        Ok(())
    }

    /// Takes all steps, until a call fails that was made to.
    pub(crate) fn run(&mut self) -> Result<(), String> {
        for act in self.process.acts {
            let result = self.act(act).and_then(|()| self.look());
            if self.process.has_failed() {
                return self.after_failure(result);
            }
            result.map_err(|wrong| format!("{act:?}: {wrong}"))?;
        }
        Ok(())
    }

    /// A call has failed: its caller is told, and refused from then on.
    fn after_failure(&self, result: Result<(), Wrong>) -> Result<(), String> {
        if !self.process.failure_sticks() {
            return Ok(());
        }
        match (result, self.journal.begin().map(drop)) {
            (Err(Wrong::Error(Error::Medium(_) | Error::Device(_))), Err(Error::Failed)) => Ok(()),
            // A step at the end of a commit, which is durable. The next call was told.
            (Err(Wrong::Error(Error::Failed)), Err(Error::Failed))
                if self.front.shape.upkeep.in_commits =>
            {
                match self.journal.failure() {
                    Some(Error::Medium(_) | Error::Device(_)) => Ok(()),
                    other => Err(format!("a call failed, and the reason is {other:?}")),
                }
            }
            (Err(told), after) => Err(format!("a call failed: {told}, and then {after:?}")),
            (Ok(()), after) => Err(format!("a call failed, and nobody was told: {after:?}")),
        }
    }
}

/// Why a step does not go on.
#[derive(Debug)]
enum Wrong {
    /// The journal's answer.
    Error(Error),
    /// Something that it did without an error.
    Told(String),
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Error(error) => error.fmt(f),
            Self::Told(told) => f.write_str(told),
        }
    }
}

impl From<Error> for Wrong {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

const TOUCHED: [Span; 1] = [Span { at: 0, len: TOUCHED_BYTES as u32 }];

fn patch(image: &Block) -> [Patch<'_>; 1] {
    [Patch { at: 0, bytes: &image[..TOUCHED_BYTES] }]
}
