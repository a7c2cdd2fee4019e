//! Discarded blocks that are written in part again: their other bytes are zero, or what lies home,
//! and what was shown once stays.

use core::ops::ControlFlow::Break;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use journal_core::{BlockDevice, DeviceError, Hook, MediumError, Pmem, Rule, Site};
use lab::erased::{DynJournal, any_options};
use nvm_journal::policy::{Change, Patch, Update};
use nvm_journal::{Durability, Journal, ObjectLog, Operation};

use crate::use_it::{BLOCK, Files, any_memory, block};

/// A thread that is let in: it is told to begin, and tells of its end.
type Other = (Sender<()>, Receiver<()>);

/// Leaves rules out. At one place of a checkpoint it can let another thread in, and wait for it.
#[derive(Clone, Debug)]
struct Without {
    rules: Vec<Rule>,
    lets_in: Arc<AtomicBool>,
    at: &'static str,
    other: Arc<Mutex<Option<Other>>>,
}

impl Without {
    fn rules(rules: &[Rule]) -> Self {
        let (lets_in, other) = (Arc::default(), Arc::default());
        Self { rules: rules.to_vec(), lets_in, at: "", other }
    }

    fn pass(&self, site: Site) {
        if site.name == self.at && self.lets_in.swap(false, Ordering::SeqCst) {
            let other = self.other.lock().expect("nobody panics");
            let (begin, ended) = other.as_ref().expect("there is one");
            begin.send(()).expect("it waits");
            // Where the other one waits for this one, that is not for long.
            let _ = ended.recv_timeout(Duration::from_millis(200));
        }
    }
}

impl Hook for Without {
    fn keeps(&self, rule: Rule) -> bool {
        !self.rules.contains(&rule)
    }

    fn fence<P: Pmem>(&mut self, site: Site, pmem: &mut P) -> Result<(), MediumError> {
        self.pass(site);
        pmem.fence()
    }

    fn disk_sync<D: BlockDevice>(&mut self, site: Site, device: &mut D) -> Result<(), DeviceError> {
        self.pass(site);
        device.sync()
    }
}

fn open(files: &Files, hook: Without, batch_blocks: usize) -> DynJournal {
    let options = any_options(ObjectLog::new(), hook).lanes(1).lane_bytes(64 << 10);
    let options = options.batch_blocks(batch_blocks).index_frames(1 << 12);
    let journal = Journal::format(any_memory(1 << 20), files.any_disk(), &options);
    journal.expect("formats")
}

fn write(journal: &DynJournal, number: u64, value: u8) {
    journal.transact(|tx| tx.write(block(number), &[value; BLOCK])).expect("has room");
}

/// Changes the first bytes of a block in one call, which knows nothing of the others.
fn patch(journal: &DynJournal) {
    let patches = [Patch { at: 0, bytes: &[2; 64] }];
    let change = [Operation::Update(Update::new(block(0), Change::Patches(&patches)))];
    journal.commit(&change, Durability::Durable).expect("commits");
}

fn read(journal: &DynJournal) -> [u8; BLOCK] {
    let mut found = [0; BLOCK];
    journal.read(block(0), &mut found).expect("reads");
    found
}

/// A block that is home, and then discarded.
fn discarded(files: &Files, hook: Without) -> DynJournal {
    let journal = open(files, hook, 1);
    write(&journal, 0, 1);
    journal.checkpoint().expect("writes home");
    journal.transact(|tx| tx.discard(block(0))).expect("commits");
    journal
}

/// Changes a discarded block, and lets a head pass the discard, if it does. Returns what was read
/// of the block before that, behind it, and when all is home.
fn read_on_a_discard(without: &[Rule], in_steps: bool) -> [[u8; BLOCK]; 3] {
    let files = Files::new("discarded-passed");
    let journal = open(&files, Without::rules(without), 1);
    write(&journal, 0, 1);
    journal.checkpoint().expect("writes home");
    // An older record keeps the head before the discard.
    write(&journal, 9, 9);
    journal.transact(|tx| tx.discard(block(0))).expect("commits");
    journal.checkpoint_steps(|_, _| Break(())).expect("comes to the discard");
    patch(&journal);
    let before = read(&journal);
    if in_steps {
        (0..16).for_each(|number| write(&journal, 20 + number, 3));
        assert!(journal.stats().expect("counts").stops_for_bytes > 0);
    } else {
        // The older record goes home, and the changes do not.
        journal.transact(|tx| tx.write_at(block(0), 0, &[2; 64])).expect("commits");
        journal.checkpoint_rings().expect("writes home");
    }
    let behind = read(&journal);
    journal.checkpoint().expect("writes home");
    [before, behind, read(&journal)]
}

/// A discard counts as home, and nothing is written there. What changes the block then lies on the
/// discard, and keeps it until it is home itself.
#[test]
fn what_changes_a_discarded_block_keeps_its_discard() {
    for in_steps in [true, false] {
        let [before, behind, home] = read_on_a_discard(&[], in_steps);
        assert!(before == behind && before == home, "the content has changed by itself");
    }
    let [before, behind, _] = read_on_a_discard(&[Rule::CutKeepsDiscard], true);
    assert!(before != behind, "the rule is off, and nothing notices");
}

/// Where another thread changes the block, and reads it, while its discard goes.
#[derive(Clone, Copy, Debug)]
enum Where {
    /// When a whole checkpoint has decided that heads pass it.
    InCheckpoint,
    /// When a step has decided that.
    InStep,
    /// When a step writes other blocks home, before it decides.
    BeforeStepDecides,
}

/// Returns what the other thread was shown, and what is read later.
fn read_while_the_discard_goes(without: &[Rule], place: Where) -> [[u8; BLOCK]; 2] {
    let files = Files::new("discarded-goes");
    let at = match place {
        Where::BeforeStepDecides => "checkpoint.sync",
        _ => "superblock.copy.fence",
    };
    let hook = Without { at, ..Without::rules(without) };
    let journal = &open(&files, hook.clone(), 4);
    write(journal, 0, 1);
    journal.checkpoint().expect("writes home");
    if matches!(place, Where::BeforeStepDecides) {
        write(journal, 9, 9);
    }
    journal.transact(|tx| tx.discard(block(0))).expect("commits");
    let ((begin, begins), (end, ended)) = (channel(), channel());
    *hook.other.lock().expect("nobody panics") = Some((begin, ended));
    hook.lets_in.store(true, Ordering::SeqCst);
    let shown = std::thread::scope(|scope| {
        let other = scope.spawn(move || {
            begins.recv().expect("heads pass");
            patch(journal);
            let shown = read(journal);
            // Nobody may wait for it any more.
            let _ = end.send(());
            shown
        });
        match place {
            Where::InCheckpoint => drop(journal.checkpoint().expect("writes home")),
            _ => (0..16).for_each(|number| write(journal, 20 + number, 3)),
        }
        other.join().expect("no panic")
    });
    let later = read(journal);
    journal.checkpoint().expect("writes home");
    assert!(later == read(journal));
    [shown, later]
}

#[test]
fn what_is_shown_while_a_discard_goes_stays() {
    for place in [Where::InCheckpoint, Where::InStep, Where::BeforeStepDecides] {
        let [shown, later] = read_while_the_discard_goes(&[], place);
        assert!(shown == later, "the content has changed by itself: {place:?}");
        assert_eq!(shown[..64], [2; 64]);
        let [shown, later] = read_while_the_discard_goes(&[Rule::ShownZerosStay], place);
        assert!(shown != later, "the rule is off, and nothing notices: {place:?}");
    }
}

/// A transaction changes some bytes of a discarded block, looks at it, and commits after a
/// checkpoint.
#[test]
fn what_a_transaction_sees_of_a_discarded_block_that_it_changes_is_what_it_commits() {
    let files = Files::new("discarded-held");
    let journal = discarded(&files, Without::rules(&[]));
    let mut tx = journal.begin().expect("begins");
    tx.write_at(block(0), 0, &[2; 64]).expect("has room");
    let mut seen = [7; BLOCK];
    tx.read(block(0), &mut seen).expect("reads");
    assert_eq!(journal.checkpoint().expect("writes home").blocks, 0, "the discard goes");
    tx.commit().expect("commits");
    assert!(seen[..64] == [2; 64] && seen[64..] == [0; BLOCK - 64] && seen == read(&journal));
}

/// Where nobody writes a discarded block, what is read of it keeps nothing, and nothing goes home.
#[test]
fn a_discarded_block_that_nobody_writes_goes_without_a_write() {
    let files = Files::new("discarded-alone");
    let journal = discarded(&files, Without::rules(&[]));
    assert_eq!(read(&journal), [0; BLOCK]);
    assert_eq!(journal.checkpoint().expect("writes home").blocks, 0);
    assert_eq!(read(&journal), [1; BLOCK]);
}
