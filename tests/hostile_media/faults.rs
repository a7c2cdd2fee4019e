//! Operations that fail while a journal is used, once or for ever, and lines that just went bad.

use core::cell::Cell;
use core::panic::AssertUnwindSafe;
use std::panic::catch_unwind;
use std::rc::Rc;

use journal_core::units::LaneNumber;
use journal_core::{
    BlockNumber, CommitError, Durability, EXAMINE_BYTES_MAX, MediumError, MediumErrorKind, Offset,
    OpenError, Operation as Write, Pmem, PmemFacts, PmemRead, PmemSplit, PortableKernels,
};
use sim_disk::{Fault, FaultKind, Model, Operation, SimPmem, World};

use lab::second_reader::examine::{Findings, agree_on_blocks, is_transient, open};
use lab::second_reader::images::{Expected, Sample, samples};
use lab::second_reader::reader::Content;
use lab::second_reader::{Kind, Memory, Opened, Shape, contents};

#[test]
fn a_read_that_fails_once_is_reported_and_nothing_is_lost() {
    let mut findings = Findings::default();
    for sample in samples() {
        let reads = open(&sample.shape, sample.image.clone()).expect("opens").reads;
        for index in 0..reads {
            let world = World::boot(sample.image.clone(), Model::Torn8);
            world.inject(Fault::on(Operation::MemoryRead, index, FaultKind::Error));
            let result = fail_and_retry(&sample, &world);
            findings.note(result, || format!("{}: read {index}", sample.name));
        }
    }
    findings.check(200);
}

fn fail_and_retry(sample: &Sample, world: &World) -> Result<(), String> {
    match sample.shape.with(world, |_| ()) {
        Err(error) if is_transient(&error) => {}
        other => return Err(format!("{other:?}")),
    }
    if world.visible().pmem() != sample.image.pmem() {
        return Err("the span was changed".into());
    }
    let blocks = sample.shape.with(world, contents).map_err(|error| error.to_string())?;
    agree_on_blocks(&sample.found.blocks, &blocks)
}

#[test]
fn an_examination_reports_a_read_that_fails() {
    let mut findings = Findings::default();
    for sample in samples() {
        for index in 0.. {
            let world = World::boot(sample.image.clone(), Model::Torn8);
            world.inject(Fault::on(Operation::MemoryRead, index, FaultKind::Error));
            let mut scratch = vec![0; EXAMINE_BYTES_MAX];
            let examined = journal_core::examine(&world.pmem(), &PortableKernels, &mut scratch);
            let hit = world.operations().of(Operation::MemoryRead) > index;
            let result = match examined {
                Err(error) if hit && is_transient(&error) => Ok(()),
                Ok(_) if !hit => Ok(()),
                other => Err(format!("{other:?}")),
            };
            findings.note(result, || format!("{}: read {index}", sample.name));
            if !hit {
                break;
            }
        }
    }
    findings.check(140);
}

/// Opens, reads everything, checkpoints; what was read, if it got so far.
fn use_it(sample: &Sample, world: &World) -> Result<Option<Vec<Content>>, String> {
    let work = || {
        let used = sample.shape.with(world, |journal| {
            let blocks = contents(journal);
            let _ = journal.checkpoint();
            blocks
        });
        used.ok()
    };
    catch_unwind(AssertUnwindSafe(work)).map_err(|_| "panicked".into())
}

/// A block is what it is, or there is an error.
fn nothing_is_wrong(sample: &Sample, blocks: &[Content]) -> Result<(), String> {
    for ((expected, block), number) in sample.found.blocks.iter().zip(blocks).zip(0..) {
        let may_be = [*expected, Content::Unreadable].contains(block);
        if !may_be && *expected != Content::Undefined {
            return Err(format!("block {number} is {block:?}, not {expected:?}"));
        }
    }
    Ok(())
}

fn fail_and_recover(sample: &Sample, fault: Fault, operations: u64) -> Result<(), String> {
    let world = World::boot(sample.image.clone(), Model::Torn8);
    world.inject(fault);
    if let Some(blocks) = use_it(sample, &world)? {
        nothing_is_wrong(sample, &blocks)?;
    }
    if world.operations().all() > operations {
        return Err(format!("{:?}, that is more than without a fault", world.operations()));
    }
    // Whatever failed, nothing is lost.
    let after = World::boot(world.visible(), Model::Torn8);
    let blocks = sample.shape.with(&after, contents).map_err(|error| error.to_string())?;
    agree_on_blocks(&sample.found.blocks, &blocks)
}

#[test]
fn any_operation_may_fail_once_or_for_ever() {
    let mut findings = Findings::default();
    for sample in samples() {
        let world = World::boot(sample.image.clone(), Model::Torn8);
        use_it(&sample, &world).expect("works").expect("opens");
        let operations = world.operations().all();
        for index in 0..operations {
            let once = Fault::at(index, FaultKind::Error);
            for fault in [once, once.for_ever()] {
                let result = fail_and_recover(&sample, fault, operations);
                findings.note(result, || format!("{}: {fault:?}", sample.name));
            }
        }
    }
    findings.check(1_000);
}

/// Memory of which one read, counted over all its regions, finds a line that has just gone bad.
struct Failing {
    inner: SimPmem,
    reads_left: Rc<Cell<u64>>,
}

impl Failing {
    fn read(&self, at: Offset, len: usize) -> Result<(), MediumError> {
        let left = self.reads_left.get();
        self.reads_left.set(left.wrapping_sub(1));
        if left == 0 {
            return Err(MediumError::new(MediumErrorKind::Poisoned, at, len));
        }
        Ok(())
    }
}

impl PmemRead for Failing {
    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn read_into(&self, at: Offset, into: &mut [u8]) -> Result<(), MediumError> {
        self.read(at, into.len())?;
        self.inner.read_into(at, into)
    }
}

impl Pmem for Failing {
    fn facts(&self) -> PmemFacts {
        self.inner.facts()
    }

    fn bytes(&self, at: Offset, len: usize) -> Result<&[u8], MediumError> {
        self.read(at, len)?;
        self.inner.bytes(at, len)
    }

    fn store(&mut self, at: Offset, bytes: &[u8]) {
        self.inner.store(at, bytes);
    }

    fn store_u64(&mut self, at: Offset, value: u64) {
        self.inner.store_u64(at, value);
    }

    fn stream(&mut self, at: Offset, bytes: &[u8]) {
        self.inner.stream(at, bytes);
    }

    fn flush(&mut self, at: Offset, len: usize) {
        self.inner.flush(at, len);
    }

    fn fence(&mut self) -> Result<(), MediumError> {
        self.inner.fence()
    }
}

impl PmemSplit for Failing {
    fn split_at(self, at: Offset) -> Result<(Self, Self), MediumError> {
        let (first, second) = self.inner.split_at(at)?;
        let reads_left = Rc::clone(&self.reads_left);
        Ok((Self { inner: first, reads_left: self.reads_left }, Self { inner: second, reads_left }))
    }
}

/// What a sample may show when any one line of it is missing.
fn allowed(sample: &Sample) -> Vec<Vec<Content>> {
    let lines = (0..sample.image.pmem().len()).step_by(64);
    let expected = lines.map(|at| sample.expected(&(at..at + 64).collect()));
    let blocks = expected.filter_map(|expected| match expected {
        Expected::Blocks(blocks) => Some(blocks),
        Expected::Rot { .. } => None,
    });
    blocks.chain([sample.found.blocks.clone()]).collect()
}

fn open_failing(sample: &Sample, index: u64) -> (Result<Vec<Content>, OpenError>, bool) {
    let world = World::boot(sample.image.clone(), Model::Torn8);
    let reads_left = Rc::new(Cell::new(index));
    let pmem = Failing { inner: world.pmem(), reads_left: Rc::clone(&reads_left) };
    let mut memory = Memory::new(&sample.shape.geometry());
    let opened = memory.open(pmem, world.disk(0), sample.shape.kind);
    let hit = reads_left.get() > index;
    // Later reads are none of the opening's business.
    reads_left.set(u64::MAX);
    (opened.map(|mut journal| contents(&mut journal)), hit)
}

#[test]
fn a_line_that_goes_bad_meanwhile_is_never_taken_for_something_else() {
    let mut findings = Findings::default();
    for sample in samples().into_iter().filter(|sample| !sample.home_is_torn) {
        let allowed = allowed(&sample);
        for index in 0.. {
            let (opened, hit) = open_failing(&sample, index);
            if !hit {
                break;
            }
            let Ok(blocks) = opened else {
                findings.note(Ok(()), String::new);
                continue;
            };
            let fits = allowed.iter().any(|may| agree_on_blocks(may, &blocks).is_ok());
            let result = if fits { Ok(()) } else { Err("shows what was never there".into()) };
            findings.note(result, || format!("{}: read {index}", sample.name));
        }
    }
    findings.check(200);
}

/// What a checkpoint cannot read any more it leaves out, where nothing but a block is at stake; the
/// next one, which can, writes it home.
#[test]
fn a_line_that_goes_bad_under_a_checkpoint_costs_its_block_alone() {
    let (mut findings, mut left_out) = (Findings::default(), 0);
    for sample in samples().into_iter().filter(|sample| !sample.home_is_torn) {
        for index in 0.. {
            let world = World::boot(sample.image.clone(), Model::Torn8);
            let reads_left = Rc::new(Cell::new(u64::MAX));
            let pmem = Failing { inner: world.pmem(), reads_left: Rc::clone(&reads_left) };
            let mut memory = Memory::new(&sample.shape.geometry());
            let mut journal = memory.open(pmem, world.disk(0), sample.shape.kind).expect("opens");
            let before = contents(&mut journal);
            reads_left.set(index);
            let report = journal.checkpoint();
            let hit = reads_left.get() > index;
            reads_left.set(u64::MAX);
            if !hit {
                break;
            }
            let result = match report {
                // Something else could not be read.
                Err(_) => Ok(()),
                Ok(report) => {
                    left_out += report.unreadable;
                    let next = journal.checkpoint().map(|report| report.unreadable);
                    let is_whole = next == Ok(0) && contents(&mut journal) == before;
                    if is_whole { Ok(()) } else { Err(format!("{report:?}, then {next:?}")) }
                }
            };
            findings.note(result, || format!("{}: read {index}", sample.name));
        }
    }
    findings.check(20);
    assert!(left_out > 10, "{left_out}");
}

/// Memory that has lost every line of a content.
struct Gone {
    inner: SimPmem,
    is_gone: Rc<Cell<bool>>,
}

const LOST: [u8; 64] = [0xEE; 64];

impl Gone {
    fn check(&self, at: Offset, bytes: &[u8]) -> Result<(), MediumError> {
        if self.is_gone.get() && bytes.windows(64).any(|line| line == LOST) {
            return Err(MediumError::new(MediumErrorKind::Poisoned, at, bytes.len()));
        }
        Ok(())
    }
}

impl PmemRead for Gone {
    fn len(&self) -> u64 {
        self.inner.len()
    }
    fn read_into(&self, at: Offset, into: &mut [u8]) -> Result<(), MediumError> {
        self.inner.read_into(at, into)?;
        self.check(at, into)
    }
}

impl Pmem for Gone {
    fn facts(&self) -> PmemFacts {
        self.inner.facts()
    }
    fn bytes(&self, at: Offset, len: usize) -> Result<&[u8], MediumError> {
        let bytes = self.inner.bytes(at, len)?;
        self.check(at, bytes)?;
        Ok(bytes)
    }
    fn store(&mut self, at: Offset, bytes: &[u8]) {
        self.inner.store(at, bytes);
    }
    fn store_u64(&mut self, at: Offset, value: u64) {
        self.inner.store_u64(at, value);
    }
    fn stream(&mut self, at: Offset, bytes: &[u8]) {
        self.inner.stream(at, bytes);
    }
    fn flush(&mut self, at: Offset, len: usize) {
        self.inner.flush(at, len);
    }
    fn fence(&mut self) -> Result<(), MediumError> {
        self.inner.fence()
    }
}

impl PmemSplit for Gone {
    fn split_at(self, at: Offset) -> Result<(Self, Self), MediumError> {
        let (first, second) = self.inner.split_at(at)?;
        let is_gone = Rc::clone(&self.is_gone);
        Ok((Self { inner: first, is_gone: self.is_gone }, Self { inner: second, is_gone }))
    }
}

/// An image alone takes a way of its own; it tells it as well.
#[test]
fn an_image_alone_is_told_which_block_is_in_the_way() {
    let shape = Shape { shield_blocks: 0, ..Shape::new(Kind::Full, 1) };
    let world = World::boot(shape.format(), Model::Torn8);
    let is_gone = Rc::new(Cell::new(false));
    let pmem = Gone { inner: world.pmem(), is_gone: Rc::clone(&is_gone) };
    let mut memory = Memory::new(&shape.geometry());
    let mut journal = memory.open(pmem, world.disk(0), shape.kind).expect("opens");
    let put = |journal: &mut Opened<'_, Gone>, block: u64, image: &[u8; 64]| {
        let operations = [Write::write(BlockNumber(block), image)];
        journal.commit(LaneNumber(0), &operations, Durability::Durable).map(drop)
    };
    put(&mut journal, 0, &LOST).expect("commits");
    is_gone.set(true);
    for round in 0..100_u8 {
        match put(&mut journal, 1 + u64::from(round) % 2, &[round; 64]) {
            Ok(()) => {}
            Err(CommitError::NoSpace { .. }) => {
                assert_eq!(journal.checkpoint().expect("goes on").unreadable, 1);
            }
            Err(error) => {
                assert_eq!(error, CommitError::Unreadable { block: BlockNumber(0) });
                return;
            }
        }
    }
    panic!("it goes on for ever");
}

#[test]
fn a_line_that_goes_bad_under_relogging_does_not_end_the_journal() {
    let mut hits = 0;
    for sample in samples().into_iter().filter(|sample| !sample.home_is_torn) {
        for index in 0.. {
            let world = World::boot(sample.image.clone(), Model::Torn8);
            let reads_left = Rc::new(Cell::new(u64::MAX));
            let pmem = Failing { inner: world.pmem(), reads_left: Rc::clone(&reads_left) };
            let mut memory = Memory::new(&sample.shape.geometry());
            let mut journal = memory.open(pmem, world.disk(0), sample.shape.kind).expect("opens");
            reads_left.set(index);
            let report = journal.relog(LaneNumber(0));
            let is_hit = reads_left.replace(u64::MAX) > index;
            if !is_hit {
                break;
            }
            hits += 1;
            assert!(report.is_ok(), "{}: read {index}: {report:?}", sample.name);
            journal.checkpoint().expect("goes on");
        }
    }
    assert!(hits > 10, "{hits}");
}
