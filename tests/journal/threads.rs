//! Many threads at once.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::time::Duration;
use std::sync::{Arc, Mutex, mpsc};

use journal_core::Offset;
use journal_core::hook::{Hook, Site};
use journal_core::pmem::Pmem;
use lab::erased::{DynJournal, any_options};
use nvm_journal::policy::{Change, Patch, Update};
use nvm_journal::{
    AnyPolicy, Durability, Error, FullBlock, Journal, ObjectLog, Operation, Options,
};

use crate::use_it::{BLOCK, BLOCKS, Files, any_memory, block, memory};

/// Moves amounts between counters in different blocks, from many threads: the sum stays, whatever
/// the journal does meanwhile.
fn transfers(name: &str, options: &Options, threads: u64, rounds: u64) {
    let files = Files::new(name);
    let journal = Journal::format(memory(1 << 20), files.disk(), options).expect("formats");
    let deferred = AtomicU64::new(0);
    let work = |seed: u64| {
        for round in 0..rounds {
            let mix = (seed * 7919 + round).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            let (from, to) = (mix % 12, (mix >> 20) % 12);
            let moved = journal.transact(|tx| {
                for (number, step) in [(from, u64::MAX), (to, 1)] {
                    let mut counter = [0; 8];
                    tx.read_at(block(number), 16, &mut counter)?;
                    let counter = u64::from_le_bytes(counter).wrapping_add(step);
                    tx.write_at(block(number), 16, &counter.to_le_bytes())?;
                }
                Ok::<_, Error>(())
            });
            moved.expect("gets through");
            if round % 50 == 7 {
                let mut tx = journal.begin().expect("begins");
                // A block of its own, so that it has no conflict.
                tx.write(block(100 + seed), &[round as u8; BLOCK]).expect("fits");
                tx.commit_deferred().expect("commits");
                deferred.fetch_add(1, Ordering::Relaxed);
            }
            if round % 97 == 96 {
                journal.checkpoint().expect("writes home");
            }
        }
    };
    std::thread::scope(|scope| {
        for seed in 0..threads {
            let work = &work;
            scope.spawn(move || work(seed));
        }
    });
    let mut sum = 0_u64;
    for number in 0..BLOCKS {
        let mut content = vec![0; BLOCK];
        journal.read(block(number), &mut content).expect("reads");
        let counter = content[16..24].try_into().expect("eight bytes");
        sum = if number < 12 { sum.wrapping_add(u64::from_le_bytes(counter)) } else { sum };
    }
    assert_eq!(sum, 0, "nothing is made and nothing is lost");
    let stats = journal.stats().expect("counts");
    let commits = threads * rounds + deferred.load(Ordering::Relaxed);
    assert_eq!(stats.total().commits, commits);
    journal.close().expect("closes");
}

#[test]
fn transfers_keep_the_sum_on_four_lanes() {
    transfers("four-lanes", &Options::new().shield_blocks(0), 4, 600);
}

#[test]
fn transfers_keep_the_sum_on_one_lane_in_groups() {
    transfers("one-lane", &Options::new().lanes(1).lane_bytes(128 << 10), 6, 400);
}

#[test]
fn transfers_keep_the_sum_beside_a_checkpointing_thread() {
    let options = Options::new().lanes(2).lane_bytes(96 << 10).background_checkpoint(true);
    transfers("background", &options, 3, 600);
}

#[test]
fn a_thread_is_told_that_it_waits_for_itself() {
    let files = Files::new("itself");
    let journal = Journal::format(memory(1 << 20), files.disk(), &Options::new()).expect("formats");
    let mut first = journal.begin().expect("begins");
    first.write(block(5), &[1; BLOCK]).expect("fits");
    let mut second = journal.begin().expect("begins");
    let conflict = Err(Error::Conflict { block: block(5) });
    assert_eq!(second.write(block(5), &[2; BLOCK]), conflict);
    assert_eq!(second.commit(), Err(Error::Conflict { block: block(5) }));
    let image = [4; BLOCK];
    let operations = [Operation::write(block(5), &image)];
    let refused = journal.commit(&operations, Durability::Durable);
    assert_eq!(refused, Err(Error::Conflict { block: block(5) }));
    let refused = journal.transact(|tx| tx.write(block(5), &image));
    assert_eq!(refused, Err(Error::Conflict { block: block(5) }));
    first.commit().expect("commits");
    journal.transact(|tx| tx.write(block(5), &[3; BLOCK])).expect("is free again");
}

#[test]
fn a_thread_with_many_transactions_waits_for_others_and_knows_its_own() {
    let files = Files::new("many-seats");
    let options = Options::new().background_checkpoint(false);
    let journal = Journal::format(memory(1 << 20), files.disk(), &options).expect("formats");
    // More than it keeps the memory of.
    let seated: Vec<_> = (0..64).map(|_| journal.begin().expect("begins")).collect();
    let image = [7; BLOCK];
    let (written, is_written) = mpsc::channel();
    std::thread::scope(|scope| {
        let its = &journal;
        scope.spawn(move || {
            let mut other = its.begin().expect("begins");
            other.write(block(5), &[6; BLOCK]).expect("fits");
            written.send(()).expect("is waited for");
            std::thread::sleep(Duration::from_millis(50));
            other.commit().expect("commits");
        });
        is_written.recv().expect("comes");
        journal.transact(|tx| tx.write(block(5), &image)).expect("waits");
    });
    let mut own = journal.begin().expect("begins");
    own.write(block(5), &image).expect("fits");
    let refused = journal.transact(|tx| tx.write(block(5), &image));
    assert_eq!(refused, Err(Error::Conflict { block: block(5) }));
    drop((own, seated));
    journal.transact(|tx| tx.write(block(5), &image)).expect("is free again");
}

/// Deferred commits meet those of other threads in one lane, and durable ones have the thread's
/// own: as the commit before was.
#[test]
fn one_operation_alone_goes_by_the_lane_of_its_kind() {
    let files = Files::new("lane-of-its-kind");
    let options = Options::new().policy(AnyPolicy::from(ObjectLog::new())).lanes(2);
    let journal = Journal::format(memory(1 << 20), files.disk(), &options).expect("formats");
    // Has the first lane for its own.
    let first = journal.begin().expect("begins");
    let patches = [Patch { at: 0, bytes: &[1; 64] }];
    let lane_of = |durability| {
        let patch = Operation::Update(Update::new(block(1), Change::Patches(&patches)));
        let committed = journal.commit(&[patch], durability);
        committed.expect("commits").expect("was logged").lane.raw()
    };
    let (durable, deferred) = (Durability::Durable, Durability::Deferred);
    let ends = [durable, deferred, deferred, deferred, durable, durable];
    assert_eq!(ends.map(lane_of), [1, 1, 0, 0, 0, 1]);
    drop(first);
}

/// Lets the first record of a lane wait for others to come, and panics in one of them if asked to.
#[derive(Clone, Debug)]
struct Held {
    /// What each record's front was stored as.
    fronts: Arc<Mutex<Vec<&'static str>>>,
    opened: Arc<AtomicBool>,
    panics_in: Option<usize>,
}

impl Held {
    fn new(panics_in: Option<usize>) -> Self {
        Self { fronts: Arc::default(), opened: Arc::default(), panics_in }
    }

    fn fronts(&self) -> Vec<&'static str> {
        self.fronts.lock().expect("nobody panics with it").clone()
    }

    fn meet(&self, site: Site) {
        if !["commit.front", "deferred.front"].contains(&site.name) {
            return;
        }
        let record = self.fronts().len();
        self.fronts.lock().expect("nobody panics with it").push(site.name);
        if record == 0 {
            wait_until(|| self.opened.load(Ordering::SeqCst));
        }
        if Some(record) == self.panics_in {
            std::panic::resume_unwind(Box::new("on purpose"));
        }
    }
}

impl Hook for Held {
    fn store<P: Pmem>(&mut self, site: Site, pmem: &mut P, at: Offset, bytes: &[u8]) {
        self.meet(site);
        pmem.store(at, bytes);
    }

    fn write_piece<P: Pmem>(
        &mut self,
        site: Site,
        pmem: &mut P,
        at: Offset,
        bytes: &[u8],
        _whole_bytes: u64,
    ) {
        self.meet(site);
        pmem.store(at, bytes);
        pmem.flush(at, bytes.len());
    }
}

fn wait_until(is_so: impl Fn() -> bool) {
    while !is_so() {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A thread stores a record, and is held; others come and wait for the lane behind it.
struct Behind {
    journal: Arc<DynJournal>,
    hook: Held,
    done: mpsc::Sender<Result<(), Error>>,
    ends: mpsc::Receiver<Result<(), Error>>,
}

impl Behind {
    fn new(files: &Files, panics_in: Option<usize>) -> Self {
        let hook = Held::new(panics_in);
        let options = any_options(FullBlock, hook.clone()).lanes(1).lane_bytes(64 << 10);
        let journal = Journal::format(any_memory(1 << 20), files.any_disk(), &options);
        let journal = journal.expect("formats");
        let (done, ends) = mpsc::channel();
        Self { journal: Arc::new(journal), hook, done, ends }
    }

    /// Holds the record of block 0 until those of two others wait for its lane.
    fn hold(&self, others: [u64; 2]) {
        self.start(0);
        wait_until(|| self.hook.fronts().len() == 1);
        others.into_iter().for_each(|number| self.start(number));
        // Time to come as far as the lane.
        std::thread::sleep(Duration::from_millis(50));
        self.hook.opened.store(true, Ordering::SeqCst);
    }

    /// Writes a block in a thread of its own, which takes the lane before it takes the block.
    fn start(&self, number: u64) {
        let (journal, done) = (Arc::clone(&self.journal), self.done.clone());
        std::thread::spawn(move || {
            let operations = [Operation::write(block(number), &[1; BLOCK])];
            let committed = journal.commit(&operations, Durability::Durable);
            done.send(committed.map(drop)).expect("is waited for");
        });
    }

    /// What became of the next one that is done.
    fn end(&self) -> Result<(), Error> {
        self.ends.recv_timeout(Duration::from_secs(20)).expect("nobody waits for ever")
    }
}

/// While the first of three threads stores its record the others come and wait for the lane. The
/// second leaves its record to the third to fence, and the third panics. Returns what became of
/// the other two, in the order in which they told it.
fn the_last_of_a_group_panics(name: &str) -> [Result<(), Error>; 2] {
    let files = Files::new(name);
    let behind = Behind::new(&files, Some(2));
    behind.hold([1, 2]);
    [behind.end(), behind.end()]
}

#[test]
fn a_group_whose_last_panics_is_told() {
    // On a slow machine the second may find nobody behind it, and fence for itself.
    let is_told = |round| {
        let both = the_last_of_a_group_panics(&format!("panics-{round}"));
        // In whatever order they come to tell.
        assert!(both.contains(&Ok(())), "the first was fenced before");
        both.contains(&Err(Error::Failed))
    };
    assert!((0..20).any(is_told), "the second is always alone");
}

/// The second leaves its record to the third to fence, and that finds its block taken. Whether it
/// was left to it.
fn the_last_of_a_group_finds_its_block_taken(name: &str) -> bool {
    let files = Files::new(name);
    let behind = Behind::new(&files, None);
    let journal = Arc::clone(&behind.journal);
    let mut holder = journal.begin().expect("begins");
    holder.write(block(2), &[2; BLOCK]).expect("fits");
    behind.hold([1, 2]);
    // The third is not done before its block is free, and nobody else comes.
    assert_eq!([behind.end(), behind.end()], [Ok(()), Ok(())]);
    let was_left = behind.hook.fronts()[1] == "deferred.front";
    drop(holder);
    assert_eq!(behind.end(), Ok(()));
    was_left
}

#[test]
fn who_can_commit_nothing_fences_all_the_same_what_was_left_to_it() {
    // The third may have the lane before the second.
    let was_left =
        |round| the_last_of_a_group_finds_its_block_taken(&format!("block-taken-{round}"));
    assert!((0..20).any(was_left), "the second is never before the third");
}
