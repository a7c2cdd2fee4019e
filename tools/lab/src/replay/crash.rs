//! A trace through the front door of a journal that crashes: at some commits, with the contents of
//! the trace.
//!
//! A crash is played in a world of its own. It begins with the store as the trace has it a few
//! transactions earlier, on a journal that was just formatted, with lanes so short that what is
//! left of the trace until then wraps and has to be written home. The power goes somewhere in the
//! last of those transactions, or in what is done behind it (a sync, heads that pass, a
//! checkpoint). What recovery then finds has to be, in **all** blocks of the trace, the state after
//! what was acknowledged, or that and the transaction under way. Where policies keep versions in
//! slots, or blocks in the disk-side log, there are so few that they do not always suffice. Room is
//! made in commits and between them, by thresholds that differ from crash to crash.
//!
//! Of the recoveries some are crashed in turn, and have to find the same again; behind some the
//! journal goes on, and the disk has to hold the end of it.

use core::fmt;
use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};
use std::io::Read;

use journal_core::policy::Thresholds;
use journal_core::units::LINE_BYTES;
use journal_core::{BlockNumber, DeviceFacts, Durability};
use nvm_journal::{Error, Options};
use sim_disk::{CrashPoints, DiskImage, Image, Mark, Model, Mutator, Rng, World};

use crate::erased::{DynHook, DynJournal, DynPolicy, any_options, of_world};
use crate::replay::policies::Known;
use crate::replay::run::operations;
use crate::trace::{Header, State, Trace, TraceError, Transaction};

/// Transactions that a world sees at most.
const WINDOW: usize = 5;

/// The simulator takes a deferred record line by line, and its time for that grows with the square:
/// larger transactions are made durable at once.
const DEFERRED_BYTES_MAX: usize = 128 << 10;

/// What to try.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub crashes: u64,
    pub seed: u64,
    /// Of the states recovered, how many are shown to somebody else.
    pub shown: u64,
}

/// What a crash has done wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// The journal failed before the crash.
    Format(Error),
    Open(Error),
    Commit(Error),
    Journal(Error),
    /// What is left cannot be opened.
    Recover(Error),
    /// It can, but not read.
    Unreadable {
        block: u64,
        error: Error,
    },
    /// A block, with those before it, is as in no allowed state.
    NotAllowed {
        block: u64,
    },
    /// A recovery that was interrupted has found another state than one that was not.
    FoundAnother,
    /// After going on, the disk does not hold what was committed.
    NotHome {
        block: u64,
    },
    /// The state was shown to somebody who knows what it should be.
    Refused,
}

/// A crash that was not survived, with what it takes to have it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Violation {
    pub wrong: Wrong,
    /// The number of the crash; with the plan's seed it decides everything.
    pub crash: u64,
    /// The transaction, as the trace numbers it.
    pub transaction: u64,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { wrong, crash, transaction } = self;
        write!(f, "crash {crash}, in transaction {transaction}: {wrong:?}")
    }
}

impl core::error::Error for Violation {}

/// Why the crashes came to no end.
#[derive(Debug)]
pub enum CrashError {
    Trace(TraceError),
    Violation(Violation),
}

impl fmt::Display for CrashError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Trace(error) => error.fmt(f),
            Self::Violation(violation) => violation.fmt(f),
        }
    }
}

impl core::error::Error for CrashError {}

/// What was tried.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CrashReport {
    pub crashes: u64,
    /// By what the journal was about to do: commit, relog, checkpoint and so on.
    pub places: BTreeMap<&'static str, u64>,
    /// Those after which the transaction under way was there, and was not.
    pub kept: u64,
    pub lost: u64,
    /// Recoveries that were crashed in turn.
    pub nested: u64,
    /// Journals that went on.
    pub went_on: u64,
    pub shown: u64,
}

/// A few transactions of a trace, and the state before them.
struct Window<'a> {
    header: &'a Header,
    base: &'a State,
    transactions: Vec<&'a Transaction>,
    /// Of each block that they write: what it is from which transaction on, counted from one.
    versions: BTreeMap<u64, Vec<(usize, &'a [u8])>>,
    appends_go_home: bool,
}

impl<'a> Window<'a> {
    fn new(
        header: &'a Header,
        base: &'a State,
        transactions: Vec<&'a Transaction>,
        appends_go_home: bool,
    ) -> Self {
        let mut versions: BTreeMap<u64, Vec<_>> = BTreeMap::new();
        for (transaction, number) in transactions.iter().zip(1..) {
            for write in &transaction.writes {
                versions.entry(write.block).or_default().push((number, &*write.image));
            }
        }
        Self { header, base, transactions, versions, appends_go_home }
    }

    /// What a block holds after a number of the transactions.
    fn image(&self, block: u64, after: usize) -> &[u8] {
        let versions = self.versions.get(&block).map_or(&[][..], |versions| versions);
        let newest = versions.iter().rev().find(|(number, _)| *number <= after);
        newest.map_or(&self.base[&block], |(_, image)| image)
    }

    /// The state after a number of the transactions.
    fn state(&self, after: usize) -> State {
        let mut state = self.base.clone();
        for transaction in &self.transactions[..after] {
            apply(&mut state, transaction);
        }
        state
    }

    /// Whether nothing is said of a block after a number of transactions: the next one would have
    /// been the first to give it content, and has written some of that home.
    fn is_undefined(&self, block: u64, after: usize) -> bool {
        let next = self.transactions.get(after).filter(|_| self.appends_go_home);
        let mut writes = next.into_iter().flat_map(|next| &next.writes);
        writes.any(|write| write.block == block && write.is_new())
    }

    /// Which of the allowed states all blocks are in; the first block that is in none, otherwise.
    fn judge(
        &self,
        allowed: core::ops::RangeInclusive<usize>,
        mut read: impl FnMut(u64, &mut [u8]) -> Result<(), Error>,
    ) -> Result<Vec<usize>, Wrong> {
        let mut states: Vec<usize> = allowed.collect();
        let mut found = vec![0; self.header.block_size.bytes()];
        for block in self.base.keys().copied() {
            read(block, &mut found).map_err(|error| Wrong::Unreadable { block, error })?;
            states.retain(|after| {
                self.is_undefined(block, *after) || *found == *self.image(block, *after)
            });
            if states.is_empty() {
                return Err(Wrong::NotAllowed { block });
            }
        }
        Ok(states)
    }
}

pub fn apply(state: &mut State, transaction: &Transaction) {
    for write in &transaction.writes {
        state.insert(write.block, write.image.clone());
    }
}

/// One crash and what follows it.
struct Crash<'a> {
    window: &'a Window<'a>,
    options: Options<DynPolicy, DynHook>,
    /// Blocks of the disk, with those of its log.
    disk_blocks: u64,
    model: Model,
    rng: Rng,
}

impl<'a> Crash<'a> {
    fn new(window: &'a Window<'a>, known: &'a Known, mutator: &'a Mutator, mut rng: Rng) -> Self {
        let Header { block_size, device_blocks, .. } = *window.header;
        let most = window.transactions.iter().map(|transaction| transaction.writes.len()).max();
        let most = most.unwrap_or(1);
        // A record of the most images, framing included.
        let record = most * (block_size.bytes() + 2 * LINE_BYTES) + 1024;
        let bytes = (record * (3 + rng.index(5)) / 2).next_multiple_of(LINE_BYTES) as u64;
        let lanes = 1 + rng.index(2) as u16;
        let model = if rng.chance(1, 2) { Model::Torn8 } else { Model::X86Line };
        let reclaim_at = 64 * (1 + rng.index(3) as u8);
        let checkpoint_at = reclaim_at.max([64, 128, 192, 255][rng.index(4)]);
        let mut options = any_options((known.policy)(), mutator.clone())
            .lanes(lanes)
            .lane_bytes(bytes)
            .lane_slots(0)
            .shield_blocks(64)
            .unit_bytes(256)
            .thresholds(Thresholds::new(reclaim_at, checkpoint_at))
            .upkeep_in_commits(rng.chance(1, 2))
            .relogs(rng.chance(3, 4));
        if known.has_slots() {
            options = options.lane_slots((2 + rng.index(2 * most + 2)) as u32);
        }
        let mut disk_blocks = device_blocks;
        if known.has_log() {
            // Of a transaction more goes there than there is, or several fit.
            let segment = 1 + rng.index(4) as u32;
            let blocks = segment * (1 + rng.index(2 * most + 2) as u32);
            options = options.lane_log_blocks(blocks).segment_blocks(segment);
            // The log lies behind the store.
            disk_blocks += u64::from(blocks) * u64::from(lanes);
        }
        Self { window, options, disk_blocks, model, rng }
    }

    /// Media with a journal that was just formatted.
    fn start(&self) -> Result<Image, Wrong> {
        let block_size = self.window.header.block_size;
        let mut disk = DiskImage::blank(block_size, self.disk_blocks, DeviceFacts::cautious());
        for (block, image) in self.window.base {
            disk.set_block(BlockNumber(*block), image);
        }
        let planned = self.options.plan(1 << 40, block_size).expect("a small journal");
        let span = usize::try_from(planned.nvm_bytes).expect("a small span");
        let world = World::boot(Image::blank(span).with_disk(disk), self.model);
        let (nvm, disk) = of_world(&world);
        drop(DynJournal::format(nvm, disk, &self.options).map_err(Wrong::Format)?);
        Ok(world.visible())
    }

    fn open(&self, world: &World) -> Result<DynJournal, Error> {
        let (nvm, disk) = of_world(world);
        DynJournal::open(nvm, disk, &self.options)
    }

    /// Commits a transaction of the window on the state before it.
    fn commit(
        &mut self,
        journal: &DynJournal,
        at: usize,
        state: &mut State,
        durability: Durability,
    ) -> Result<(), Wrong> {
        let transaction = self.window.transactions[at];
        if self.rng.chance(1, 3) {
            self.make_room(journal)?;
        }
        let operations = operations(&transaction.writes, state, 0);
        let _ = journal.commit(&operations, durability).map_err(Wrong::Commit)?;
        apply(state, transaction);
        Ok(())
    }

    /// Makes some room, in one of the ways there are.
    fn make_room(&mut self, journal: &DynJournal) -> Result<(), Wrong> {
        match self.rng.index(4) {
            0 => journal.checkpoint_rings().map(drop),
            _ => journal.tick(Duration::ZERO),
        }
        .map_err(Wrong::Journal)
    }

    /// Everything up to the transaction under way, then that and what follows it. Returns where on
    /// the tape it begins.
    fn program(&mut self, world: &World) -> Result<usize, Wrong> {
        let journal = self.open(world).map_err(Wrong::Open)?;
        let mut state = self.window.base.clone();
        let last = self.window.transactions.len() - 1;
        for at in 0..last {
            self.commit(&journal, at, &mut state, Durability::Durable)?;
        }
        world.returned(last as u64);
        let begin = world.tape().len();
        let label = self.window.transactions.len() as u64;
        world.called(label);
        let bytes =
            self.window.transactions[last].writes.len() * self.window.header.block_size.bytes();
        let deferred = self.rng.chance(1, 4) && bytes <= DEFERRED_BYTES_MAX;
        let durability = if deferred { Durability::Deferred } else { Durability::Durable };
        self.commit(&journal, last, &mut state, durability)?;
        if deferred {
            journal.sync().map_err(Wrong::Journal)?;
        }
        world.returned(label);
        if self.rng.chance(1, 3) {
            self.make_room(&journal)?;
        } else if self.rng.chance(1, 2) {
            let _ = journal.checkpoint().map_err(Wrong::Journal)?;
        }
        Ok(begin)
    }

    /// What the power leaves when it goes somewhere from an event on; what had returned by then,
    /// and where in the program it was.
    fn cut(&mut self, world: &World, from: usize) -> (Image, Vec<Mark>, &'static str) {
        let (start, tape) = (world.start(), world.tape());
        let at = from + self.rng.index(tape.len() - from + 1);
        let point = CrashPoints::new(&start, &tape, self.model, at).next();
        let point = point.expect("there is one at the end");
        // All of it, nothing, or something between, more of one or of the other.
        let keep_of_8 = self.rng.below(9);
        let choice: Vec<usize> = point
            .cells()
            .iter()
            .map(|cell| match keep_of_8 {
                0 => 0,
                _ if self.rng.chance(keep_of_8, 8) => cell.newest(),
                _ => self.rng.index(cell.options()),
            })
            .collect();
        let site = tape.entries().get(point.position()).and_then(|entry| entry.site);
        (point.image(&choice), point.marks().to_vec(), site.map_or("between", place))
    }

    /// Recovers, and judges what is found.
    fn recover(
        &mut self,
        world: &World,
        allowed: core::ops::RangeInclusive<usize>,
    ) -> Result<Vec<usize>, Wrong> {
        let journal = self.open(world).map_err(Wrong::Recover)?;
        self.window.judge(allowed, |block, into| journal.read(BlockNumber(block), into))
    }

    /// Commits what is not there yet, and writes all of it home.
    fn go_on(&mut self, world: &World, found: usize) -> Result<(), Wrong> {
        let journal = self.open(world).map_err(Wrong::Recover)?;
        let mut state = self.window.state(found);
        for at in found..self.window.transactions.len() {
            self.commit(&journal, at, &mut state, Durability::Durable)?;
        }
        journal.close().map_err(Wrong::Journal)?;
        let media = world.visible();
        let is_home = |(block, image): &(&u64, &crate::trace::Image)| {
            *media.disk(0).block(BlockNumber(**block)) == ***image
        };
        match state.iter().find(|block| !is_home(block)) {
            Some((block, _)) => Err(Wrong::NotHome { block: *block }),
            None => Ok(()),
        }
    }

    /// All of it; returns in which state the store was found.
    fn run(mut self, report: &mut CrashReport) -> Result<usize, Wrong> {
        let world = World::boot(self.start()?, self.model);
        let from = self.program(&world)?;
        let (image, marks, place) = self.cut(&world, from);
        *report.places.entry(place).or_default() += 1;
        let last = |is: fn(&Mark) -> Option<u64>| marks.iter().rev().find_map(is).unwrap_or(0);
        let acknowledged = last(|mark| match mark {
            Mark::Returned(label) => Some(*label),
            _ => None,
        });
        let called = last(|mark| match mark {
            Mark::Called(label) => Some(*label),
            _ => None,
        });
        let allowed = acknowledged as usize..=called.max(acknowledged) as usize;
        let under_way = allowed.start() < allowed.end();
        let world = World::boot(image, self.model);
        let found = self.recover(&world, allowed.clone())?;
        // Where a transaction has changed nothing, both states are one.
        let newest = *found.last().expect("some state fits");
        report.kept += u64::from(under_way && newest == *allowed.end());
        report.lost += u64::from(under_way && newest != *allowed.end());
        if self.rng.chance(1, 4) {
            let (image, ..) = self.cut(&world, 0);
            report.nested += 1;
            let again = self.recover(&World::boot(image, self.model), allowed)?;
            if again != found {
                return Err(Wrong::FoundAnother);
            }
        }
        if self.rng.chance(1, 2) {
            report.went_on += 1;
            self.go_on(&world, newest)?;
        }
        Ok(newest)
    }
}

/// What a site belongs to.
fn place(site: &'static str) -> &'static str {
    let mut words = site.split('.');
    match (words.next(), words.next()) {
        (Some("slot"), Some("entry")) => "fold",
        (Some("slot"), Some("void")) => "void",
        (first, _) => first.unwrap_or(site),
    }
}

/// A judge that is shown a recovered state, and says whether it makes sense.
pub trait Witness {
    /// `false` when it does not.
    fn sees(&mut self, header: &Header, state: &State) -> bool;
}

/// Crashes a journal at some of a number of transactions of a trace.
pub fn crashes<R: Read>(
    trace: &mut Trace<R>,
    transactions: u64,
    known: &Known,
    plan: &Plan,
    mutator: &Mutator,
    witness: &mut impl Witness,
    mut progress: impl FnMut(f64),
) -> Result<CrashReport, CrashError> {
    let mut rng = Rng::new(plan.seed);
    let mut at: Vec<u64> = (0..plan.crashes).map(|_| rng.below(transactions)).collect();
    at.sort_unstable();
    let mut due = (0..).zip(at).peekable();
    let mut report = CrashReport::default();
    let mut base = trace.state().clone();
    let mut recent: VecDeque<Transaction> = VecDeque::new();
    let mut number = 0;
    while due.peek().is_some() && trace.advance().map_err(CrashError::Trace)? {
        recent.push_back(trace.transaction().clone());
        if recent.len() > WINDOW {
            if let Some(oldest) = recent.pop_front() {
                apply(&mut base, &oldest);
            }
        }
        while let Some((crash, _)) = due.next_if(|(_, at)| *at == number) {
            let transactions: Vec<_> = recent.iter().collect();
            let window = Window::new(trace.header(), &base, transactions, known.appends_go_home);
            let rng = Rng::new(plan.seed ^ sim_disk::rng::mix(crash));
            let transaction = trace.transaction().number;
            let violated = |wrong| CrashError::Violation(Violation { wrong, crash, transaction });
            let found = Crash::new(&window, known, mutator, rng).run(&mut report);
            let found = found.map_err(violated)?;
            report.crashes += 1;
            // Spread over the trace.
            if report.shown * plan.crashes < report.crashes * plan.shown {
                report.shown += 1;
                if !witness.sees(trace.header(), &window.state(found)) {
                    return Err(violated(Wrong::Refused));
                }
            }
            progress(report.crashes as f64 / plan.crashes as f64);
        }
        number += 1;
    }
    Ok(report)
}

#[cfg(test)]
mod tests {
    //! Each of the judge's sentences, broken once.

    use journal_core::BlockSize;

    use super::*;
    use crate::trace::{Write, flag};

    fn transaction(number: u64, writes: &[(u64, u8, u8)]) -> Transaction {
        let write = |(block, flags, byte): &(u64, u8, u8)| {
            let image = [*byte; 64].as_slice().into();
            Write { block: *block, class: 0, object_bytes: 0, flags: *flags, image }
        };
        Transaction { number, writes: writes.iter().map(write).collect() }
    }

    /// Three blocks of zeroes, of which the first and second are written, then the second and the
    /// third, which is new.
    fn judge(
        appends_go_home: bool,
        allowed: core::ops::RangeInclusive<usize>,
        found: [u8; 3],
    ) -> Result<Vec<usize>, Wrong> {
        let header = Header { name: String::new(), block_size: BlockSize::MIN, device_blocks: 3 };
        let base = (0..3).map(|block| (block, [0; 64].as_slice().into())).collect();
        let first = transaction(1, &[(0, 0, 1), (1, 0, 1)]);
        let second = transaction(2, &[(1, 0, 2), (2, flag::NEW, 2)]);
        let window = Window::new(&header, &base, vec![&first, &second], appends_go_home);
        window.judge(allowed, |block, into| {
            into.fill(found[block as usize]);
            Ok(())
        })
    }

    #[test]
    fn what_was_acknowledged_is_there_and_what_is_under_way_wholly_or_not() {
        assert_eq!(judge(false, 1..=1, [1, 1, 0]), Ok(vec![1]));
        assert_eq!(judge(false, 1..=2, [1, 1, 0]), Ok(vec![1]));
        assert_eq!(judge(false, 1..=2, [1, 2, 2]), Ok(vec![2]));
        assert_eq!(judge(false, 1..=2, [0, 0, 0]), Err(Wrong::NotAllowed { block: 0 }));
        assert_eq!(judge(false, 1..=1, [1, 2, 2]), Err(Wrong::NotAllowed { block: 1 }));
        assert_eq!(judge(false, 1..=2, [1, 2, 0]), Err(Wrong::NotAllowed { block: 2 }));
        assert_eq!(judge(false, 1..=2, [1, 1, 2]), Err(Wrong::NotAllowed { block: 2 }));
    }

    #[test]
    fn a_new_block_at_home_is_undefined_until_it_is_committed() {
        assert_eq!(judge(true, 1..=2, [1, 1, 9]), Ok(vec![1]));
        assert_eq!(judge(true, 1..=2, [1, 2, 9]), Err(Wrong::NotAllowed { block: 2 }));
        assert_eq!(judge(true, 2..=2, [1, 2, 9]), Err(Wrong::NotAllowed { block: 2 }));
        assert_eq!(judge(true, 0..=1, [0, 0, 9]), Err(Wrong::NotAllowed { block: 2 }));
    }
}
