//! FGM, Fig. 14: how many transactions commit, and by whom, by the size of their `TxnInfo`.
//!
//! The objects that a trace changes go through the front door into running transactions under
//! `object-log`. A running transaction commits when its `TxnInfo` is full, or at the age of 5 s by
//! the clock that the host brings. No fsync commits one: the paper counts these two causes alone.

use core::time::Duration;

use journal_core::NoHook;
use nvm_journal::{BlockNumber, Hint, Region};
use object_log::{ObjectLog, Settings};
use sim_disk::time::{Card, CardModel, Clock, TimedDisk};

use crate::engines::Failure;
use crate::erased::{DynDisk, DynJournal, DynPmem, any_options};
use crate::figures::pace::Ends;
use crate::trace::{Header, Image, State, Write, class};

const LANE_BYTES: u64 = 192 << 20;
const NVM_BYTES: u64 = 256 << 20;
const BUFFER_BYTES: usize = 64 << 20;
const INDEX_FRAMES: usize = 1 << 18;
/// Pieces of blocks without objects.
const PIECE_BYTES: usize = 256;
/// The host's clock when a trace begins, and how often it ticks.
const BEGIN_NS: u64 = 1_000_000_000;
const TICK_NS: u64 = 100_000_000;

/// An object that a transaction changes.
#[derive(Clone, Debug)]
pub struct Object {
    block: u64,
    /// The size that the block's class says; zero for pieces.
    object_bytes: u16,
    at: usize,
    len: usize,
    image: Image,
    is_inode: bool,
}

/// A transaction of a trace: what it changes, and when it ends.
#[derive(Clone, Debug)]
pub struct Step {
    objects: Vec<Object>,
    ends: Ends,
}

impl Step {
    /// The objects of blocks that differ from before.
    pub fn of(writes: &[Write], state: &State, ends: Ends) -> Self {
        let mut objects = Vec::new();
        for write in writes {
            let Write { block, class, object_bytes, image, .. } = write;
            let unit = if *object_bytes == 0 { PIECE_BYTES } else { usize::from(*object_bytes) };
            let both = state[block].chunks(unit).zip(image.chunks(unit));
            for (index, (_, new)) in both.enumerate().filter(|(_, (old, new))| old != new) {
                objects.push(Object {
                    block: *block,
                    object_bytes: *object_bytes,
                    at: index * unit,
                    len: new.len(),
                    image: Image::clone(image),
                    is_inode: *class == class::INODES,
                });
            }
        }
        Self { objects, ends }
    }
}

/// The transactions of a trace, what its blocks hold before the first and after the last.
pub struct Steps {
    pub header: Header,
    pub begin: State,
    pub steps: Vec<Step>,
    pub end: State,
}

impl Steps {
    pub fn objects(&self) -> u64 {
        self.steps.iter().map(|step| step.objects.len() as u64).sum()
    }

    pub fn inodes(&self) -> u64 {
        let objects = self.steps.iter().flat_map(|step| &step.objects);
        objects.filter(|object| object.is_inode).count() as u64
    }

    /// When the last transaction ends.
    pub fn ends(&self) -> Ends {
        self.steps.last().map_or_else(Ends::default, |step| step.ends)
    }
}

/// What is gathered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// Inodes alone, as the paper does.
    Inodes,
    /// All objects and pieces of metadata.
    Metadata,
}

/// What the host hands over at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// One object, at equal intervals within its transaction: the paper's unit.
    Object,
    /// A transaction of the trace, which no commit splits.
    Transaction,
}

/// The clock that the host brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    OwnTimes,
    /// That of the disk, on which each transaction takes this many times as long.
    Disk {
        times: u64,
    },
}

/// A way to gather a trace.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub txn_info_bytes: u32,
    pub what: What,
    pub unit: Unit,
    pub by: By,
}

/// What came out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Commits {
    pub count: u64,
    /// Those of the timer.
    pub by_timer: u64,
    /// The one that a sync makes of what is left when the trace has ended.
    pub at_end: u64,
    /// Bytes of their records.
    pub bytes: u64,
}

impl Commits {
    /// Those of a full `TxnInfo`.
    pub const fn by_full(&self) -> u64 {
        self.count - self.by_timer - self.at_end
    }
}

/// A journal, and the host that brings it a clock.
struct Gatherer {
    journal: DynJournal,
    next_tick_ns: u64,
    by_timer: u64,
}

impl Gatherer {
    fn new(steps: &Steps, txn_info_bytes: u32) -> Result<Self, Failure> {
        let Header { block_size, device_blocks, .. } = steps.header;
        // A disk that keeps only what is written; nobody looks at its time.
        let drive = Card::new(CardModel::class_10());
        let disk = TimedDisk::new(&Clock::new(), drive, block_size, device_blocks);
        for (block, image) in &steps.begin {
            disk.put(BlockNumber(*block), image)?;
        }
        let policy = ObjectLog::with(Settings::new().txn_info_bytes(txn_info_bytes))?;
        let options = any_options(policy, NoHook).lanes(1).lane_bytes(LANE_BYTES);
        let options = options.buffer_bytes(BUFFER_BYTES).index_frames(INDEX_FRAMES);
        let pmem = DynPmem::new(Region::anonymous(NVM_BYTES)?);
        let journal = DynJournal::format(pmem, DynDisk::new(disk), &options)?;
        Ok(Self { journal, next_tick_ns: BEGIN_NS, by_timer: 0 })
    }

    fn commits(&self) -> Result<u64, Failure> {
        Ok(self.journal.stats()?.gathered.commits)
    }

    /// Lets the clock go on to this time.
    fn tick_to(&mut self, now_ns: u64) -> Result<(), Failure> {
        if now_ns < self.next_tick_ns {
            return Ok(());
        }
        let before = self.commits()?;
        while self.next_tick_ns <= now_ns {
            self.journal.tick(Duration::from_nanos(self.next_tick_ns))?;
            self.next_tick_ns += TICK_NS;
        }
        self.by_timer += self.commits()? - before;
        Ok(())
    }

    fn gather(&self, objects: &[&Object]) -> Result<(), Failure> {
        if objects.is_empty() {
            return Ok(());
        }
        self.journal.transact_gathered(|tx| {
            objects.iter().try_for_each(|object| {
                let hint = Hint::METADATA.of_objects(object.object_bytes.into());
                let bytes = &object.image[object.at..object.at + object.len];
                tx.write_at_with(BlockNumber(object.block), hint, object.at, bytes)
            })
        })?;
        Ok(())
    }
}

/// Gathers a trace, and compares what its blocks hold then with what the trace says.
///
/// # Errors
/// Those of the journal, and a block that holds something else.
pub fn gather(steps: &Steps, plan: Plan) -> Result<Commits, Failure> {
    let mut host = Gatherer::new(steps, plan.txn_info_bytes)?;
    let mut begin = BEGIN_NS;
    for step in &steps.steps {
        let end = BEGIN_NS
            + match plan.by {
                By::OwnTimes => step.ends.own_ns,
                By::Disk { times } => step.ends.disk_ns * times,
            };
        let is_wanted = |object: &&Object| plan.what == What::Metadata || object.is_inode;
        let objects: Vec<_> = step.objects.iter().filter(is_wanted).collect();
        let chunk = match plan.unit {
            Unit::Object => 1,
            Unit::Transaction => objects.len().max(1),
        };
        let chunks = objects.chunks(chunk);
        let count = chunks.len() as u64;
        for (number, chunk) in (1..).zip(chunks) {
            host.tick_to(begin + (end - begin) * number / count)?;
            host.gather(chunk)?;
        }
        begin = end;
    }
    host.tick_to(begin)?;
    let before = host.commits()?;
    host.journal.sync()?;
    let (count, stats) = (host.commits()?, host.journal.stats()?);
    if plan.what == What::Metadata {
        check(&host.journal, &steps.end)?;
    }
    let (by_timer, at_end) = (host.by_timer, count - before);
    Ok(Commits { count, by_timer, at_end, bytes: stats.total().bytes })
}

fn check(journal: &DynJournal, end: &State) -> Result<(), Failure> {
    for (block, image) in end {
        let mut found = vec![0; image.len()];
        journal.read(BlockNumber(*block), &mut found)?;
        if found[..] != image[..] {
            return Err(format!("block {block} is not what the trace says").into());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use journal_core::BlockSize;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// A trace of inode blocks. Each transaction changes some inodes, and ends at some second.
    fn steps(transactions: &[(core::ops::Range<usize>, u64)]) -> Steps {
        let name = "hand-made".to_owned();
        let header = Header { name, block_size: BlockSize::DEFAULT, device_blocks: 64 };
        let zero: Image = vec![0; 4096].into();
        let begin: State = (0..64).map(|block| (block, Image::clone(&zero))).collect();
        let (mut end, mut made) = (begin.clone(), Vec::new());
        for (number, (inodes, second)) in transactions.iter().enumerate() {
            let mut writes: Vec<Write> = Vec::new();
            for inode in inodes.clone() {
                let block = inode as u64 / 16;
                if writes.last().is_none_or(|last| last.block != block) {
                    let image = Image::clone(&end[&block]);
                    let (class, object_bytes, flags) = (class::INODES, 256, 0);
                    writes.push(Write { block, class, object_bytes, flags, image });
                }
                let last = writes.last_mut().expect("a block");
                let mut image = last.image.to_vec();
                image[inode % 16 * 256] = number as u8 + 1;
                last.image = image.into();
            }
            let ends = Ends { own_ns: 0, disk_ns: second * SECOND };
            made.push(Step::of(&writes, &end, ends));
            end.extend(writes.into_iter().map(|write| (write.block, write.image)));
        }
        Steps { header, begin, steps: made, end }
    }

    /// Commits, those of the timer, of a full `TxnInfo`, and at the end.
    fn commits(steps: &Steps, unit: Unit, txn_info_bytes: u32) -> [u64; 4] {
        let plan = Plan { txn_info_bytes, what: What::Metadata, unit, by: By::Disk { times: 1 } };
        let found = gather(steps, plan).expect("the journal goes on");
        assert!(found.bytes > 0, "{found:?}");
        [found.count, found.by_timer, found.by_full(), found.at_end]
    }

    #[test]
    fn a_full_list_commits() {
        // 30 objects fit into 256 bytes, and 62 into 512.
        let steps = steps(&[(0..61, 1)]);
        assert_eq!((steps.objects(), steps.inodes()), (61, 61));
        assert_eq!(commits(&steps, Unit::Object, 256), [3, 0, 2, 1]);
        assert_eq!(commits(&steps, Unit::Object, 512), [1, 0, 0, 1]);
        // A transaction is not split, even if it is longer than the list.
        assert_eq!(commits(&steps, Unit::Transaction, 256), [1, 0, 0, 1]);
    }

    #[test]
    fn an_object_that_is_named_already_takes_no_room() {
        let steps = steps(&[(0..20, 1), (0..20, 1), (5..30, 1)]);
        assert_eq!(commits(&steps, Unit::Object, 256), [1, 0, 0, 1]);
        assert_eq!(commits(&steps, Unit::Transaction, 256), [1, 0, 0, 1]);
    }

    #[test]
    fn the_timer_commits_what_is_five_seconds_old() {
        let steps = steps(&[(0..1, 0), (1..2, 4), (2..3, 6), (3..4, 20)]);
        // The first two, and the third.
        assert_eq!(commits(&steps, Unit::Transaction, 256), [3, 2, 0, 1]);
        let by = |by: By| {
            let (what, unit) = (What::Inodes, Unit::Transaction);
            let plan = Plan { txn_info_bytes: 256, what, unit, by };
            let found = gather(&steps, plan).expect("the journal goes on");
            [found.count, found.by_timer, found.at_end]
        };
        // By a clock that stands still, none; by a slower one, each alone.
        assert_eq!(by(By::OwnTimes), [1, 0, 1]);
        assert_eq!(by(By::Disk { times: 3 }), [4, 3, 1]);
    }

    #[test]
    fn blocks_without_objects_go_in_pieces() {
        let (old, mut new): (Image, _) = (vec![0; 4096].into(), vec![0; 4096]);
        new[255] = 1;
        new[256] = 1;
        let write = Write { block: 3, class: 6, object_bytes: 0, flags: 0, image: new.into() };
        let step = Step::of(&[write], &[(3, old)].into(), Ends::default());
        let found: Vec<_> = step.objects.iter().map(|object| (object.at, object.len)).collect();
        assert_eq!(found, [(0, 256), (256, 256)]);
    }
}
