//! Nothing is built on a home that was never synced: a sync of the disk fails, or a process dies
//! with writes under way, the next process goes on, and the power is cut.
//!
//! What a failed sync has left in the caches of the system stays visible, and no later sync makes
//! it durable.

use core::fmt;

use journal_core::policy::{Change, Patch, Update};
use journal_core::units::LaneNumber;
use journal_core::{
    BlockNumber, BlockSize, Buffers, CheckpointReport, DeviceFacts, Durability, Journal as Core,
    JournalError, Operation, Overwrite, PortableKernels, Rule, Scope,
};
use lab::erased::{DynHook, DynJournal, DynPolicy, any_options, of_world};
use nvm_journal::{AnyPolicy, Error, Options};
use sim_disk::{
    CrashPoints, DiskImage, Event, Fault, FaultKind, Image, Model, Mutator, Operation as Call, Rng,
    SimDisk, SimPmem, World,
};

const BLOCK: usize = 512;
const BLOCKS: u64 = 64;
const MODEL: Model = Model::Torn8;

type Front = DynJournal;
type Owned<'m> = Core<'m, DynPolicy, journal_core::On<SimPmem, SimDisk, DynHook>>;

/// Media with a journal, from process to process.
struct Media {
    policy: AnyPolicy,
    mutator: Mutator,
    world: World,
}

/// How a process leaves the blocks that it was writing to the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leaves {
    /// Their sync has failed.
    SyncFailed,
    /// It was killed in front of the sync.
    NotSynced,
}

const EACH_WAY: [Leaves; 2] = [Leaves::SyncFailed, Leaves::NotSynced];

impl Media {
    /// An empty journal, and zeroes on the disk.
    fn new(policy: &AnyPolicy, without: &[Rule]) -> Self {
        let facts = DeviceFacts::new(BLOCK as u32, Overwrite::OldOrNew);
        let block_size = BlockSize::new(BLOCK as u32).expect("a block size");
        let disk = DiskImage::blank(block_size, BLOCKS, facts);
        let world = World::boot(Image::blank(1 << 18).with_disk(disk), MODEL);
        let mutator = Mutator::without(without);
        let media = Self { policy: *policy, mutator, world };
        let (pmem, disk) = of_world(&media.world);
        drop(Front::format(pmem, disk, &media.options()).expect("formats"));
        media
    }

    fn options(&self) -> Options<DynPolicy, DynHook> {
        any_options(self.policy, self.mutator.clone()).lanes(2)
    }

    /// What a process does behind the front door, before it is killed.
    fn front<R>(&mut self, calls: impl FnOnce(&Front) -> R) -> R {
        let (pmem, disk) = of_world(&self.world);
        let opened = Front::open(pmem, disk, &self.options());
        let result = calls(&opened.expect("opens"));
        self.kill(|_| true);
        result
    }

    /// What a process that owns the journal does, before it is killed.
    fn core<R>(&mut self, calls: impl FnOnce(&mut Owned<'_>) -> R) -> R {
        let geometry = self.options().plan(1 << 18, BlockSize::new(512).expect("a size"));
        let geometry = geometry.expect("can be").geometry;
        let mut buffers = Buffers::new(&geometry, 256, 8);
        let (pmem, disk) = (self.world.pmem(), self.world.disk(0));
        let (hook, memory) = (DynHook::new(self.mutator.clone()), buffers.borrow());
        let policy = DynPolicy::new(self.policy);
        let opened = Owned::open(pmem, disk, policy, hook, PortableKernels, memory);
        let result = calls(&mut opened.expect("opens"));
        self.kill(|_| true);
        result
    }

    /// The process is killed behind the last event that counts.
    fn kill(&mut self, counts: impl Fn(&Event) -> bool) {
        let tape = self.world.tape();
        let last = tape.entries().iter().rposition(|entry| counts(&entry.event));
        let (start, behind) = (self.world.start(), last.map_or(tape.len(), |last| last + 1));
        self.world = World::killed(&start, MODEL, &tape, behind, Vec::new());
    }

    /// A process that writes to the disk in vain.
    fn in_vain(&mut self, leaves: Leaves, calls: impl FnOnce(&Front, &dyn Fn())) {
        let world = self.world.clone();
        let fails = || {
            let next = world.operations().of(Call::DiskSync);
            world.inject(Fault::on(Call::DiskSync, next, FaultKind::Error));
        };
        let (pmem, disk) = of_world(&self.world);
        let opened = Front::open(pmem, disk, &self.options());
        calls(&opened.expect("opens"), &fails);
        match leaves {
            Leaves::SyncFailed => self.kill(|event| matches!(event, Event::DiskSyncFailed { .. })),
            Leaves::NotSynced => self.kill(|event| matches!(event, Event::DiskWrite { .. })),
        }
    }

    /// What a block holds after a power loss: of all images that it may leave, or of a sample.
    fn after_power_loss(&self, block: u64) -> Vec<Result<Vec<u8>, Error>> {
        let (start, tape) = (self.world.start(), self.world.tape());
        let point = CrashPoints::new(&start, &tape, MODEL, tape.len()).last();
        let point = point.expect("a tape ends with a crash point");
        let choices = point.choices(1 << 6, 16, &mut Rng::new(1));
        let look = |choice: Vec<usize>| {
            let world = World::boot(point.image(&choice), MODEL);
            let (pmem, disk) = of_world(&world);
            let journal = Front::open(pmem, disk, &self.options())?;
            let mut content = vec![0; BLOCK];
            journal.read(BlockNumber(block), &mut content).map(|()| content)
        };
        choices.map(look).collect()
    }

    /// Whether a block holds this, whatever the power loss leaves.
    fn always_shows(&self, block: u64, expected: &[u8]) -> Result<(), String> {
        for shown in self.after_power_loss(block) {
            match shown {
                Ok(content) if content == expected => {}
                shown => return Err(format!("{}: {}", self.policy.name(), Told(&shown))),
            }
        }
        Ok(())
    }
}

/// What was read, in few words.
struct Told<'a>(&'a Result<Vec<u8>, Error>);

impl fmt::Display for Told<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Ok(content) => write!(f, "it shows {:?}...", &content[..24]),
            Err(error) => write!(f, "{error:?}"),
        }
    }
}

fn write(journal: &Front, block: u64, byte: u8) {
    journal.transact(|tx| tx.write(BlockNumber(block), &[byte; BLOCK])).expect("commits");
}

fn discard(journal: &Front, block: u64) {
    journal.transact(|tx| tx.discard(BlockNumber(block))).expect("commits");
}

/// Changes six bytes of a block; returns what it then holds.
fn write_at(journal: &Front, block: u64) -> Vec<u8> {
    let written = journal.transact(|tx| tx.write_at(BlockNumber(block), 7, b"hello!"));
    written.expect("commits");
    let mut content = vec![0; BLOCK];
    journal.read(BlockNumber(block), &mut content).expect("reads");
    assert_eq!(&content[7..13], b"hello!");
    content
}

/// Changes six bytes of a block by patches alone, where the policy logs them, with nothing said of
/// the rest.
fn patch(journal: &Front, block: u64) -> Vec<u8> {
    let patches = [Patch { at: 7, bytes: b"hello!" }];
    let update = Update::new(BlockNumber(block), Change::Patches(&patches));
    match journal.commit(&[Operation::Update(update)], Durability::Durable) {
        Err(Error::CannotPlace { .. }) => return write_at(journal, block),
        committed => committed.expect("commits"),
    };
    let mut content = vec![0; BLOCK];
    journal.read(BlockNumber(block), &mut content).expect("reads");
    content
}

/// A checkpoint writes block 3 home, and its sync fails.
fn home_in_vain(journal: &Front, fails: &dyn Fn()) {
    write(journal, 3, 1);
    journal.checkpoint().expect("writes home");
    write(journal, 3, 2);
    fails();
    assert!(matches!(journal.checkpoint(), Err(Error::Device(_))), "the sync fails");
}

/// A block is appended, at home where the policy does so, and the sync of that fails.
fn append_in_vain(journal: &Front, fails: &dyn Fn()) {
    fails();
    let appended = journal.transact(|tx| tx.append(BlockNumber(5), &[5; BLOCK]));
    assert!(!matches!(appended, Err(Error::Failed)), "it was the first to fail");
}

/// Block 3 is discarded, and what is home shows again.
fn discarded_and_changed(policy: &AnyPolicy, leaves: Leaves, off: &[Rule]) -> Result<(), String> {
    let mut media = Media::new(policy, off);
    media.in_vain(leaves, home_in_vain);
    let expected = media.front(|journal| {
        discard(journal, 3);
        journal.checkpoint().expect("writes home");
        write_at(journal, 3)
    });
    media.always_shows(3, &expected)
}

#[test]
fn a_discard_lets_go_of_no_home_that_was_never_synced() {
    for (policy, leaves) in AnyPolicy::ALL.iter().zip(EACH_WAY.into_iter().cycle()) {
        discarded_and_changed(policy, leaves, &[]).expect("shows what was acknowledged");
    }
    for (policy, leaves) in AnyPolicy::ALL.iter().zip(EACH_WAY.into_iter().rev().cycle()) {
        discarded_and_changed(policy, leaves, &[]).expect("shows what was acknowledged");
    }
}

/// A block of which the journal knows nothing is changed, which was appended in vain.
fn appended_and_changed(
    policy: &AnyPolicy,
    leaves: Leaves,
    off: &[Rule],
    before: impl FnOnce(&Front),
) -> Result<(), String> {
    let mut media = Media::new(policy, off);
    media.front(before);
    media.in_vain(leaves, append_in_vain);
    let expected = media.front(|journal| patch(journal, 5));
    media.always_shows(5, &expected)?;
    let expected = media.front(|journal| {
        journal.checkpoint().expect("writes home");
        discard(journal, 5);
        journal.checkpoint().expect("writes home");
        patch(journal, 5)
    });
    media.always_shows(5, &expected)
}

#[test]
fn no_change_is_built_on_an_append_that_was_never_synced() {
    for policy in AnyPolicy::ALL {
        for leaves in EACH_WAY {
            let shows = appended_and_changed(policy, leaves, &[], |_| {});
            shows.expect("shows what was acknowledged");
        }
    }
}

/// What the journal knew of the block was a discard, and no more of it is left.
#[test]
fn nor_on_one_of_a_block_whose_discard_is_gone() {
    for leaves in EACH_WAY {
        let shows = appended_and_changed(&AnyPolicy::ALL[1], leaves, &[], |journal| {
            write(journal, 5, 1);
            journal.checkpoint().expect("writes home");
            discard(journal, 5);
            journal.checkpoint().expect("writes home");
        });
        shows.expect("shows what was acknowledged");
    }
}

/// Those that log what has changed of a block, and nothing of the rest.
fn of_changes() -> impl Iterator<Item = &'static AnyPolicy> {
    let names = ["object-log", "compressed-delta", "two-level"];
    AnyPolicy::ALL.iter().filter(move |policy| names.contains(&policy.name()))
}

#[test]
fn without_the_rules_it_shows_something_else() {
    for leaves in EACH_WAY {
        for policy in of_changes() {
            let shows = discarded_and_changed(policy, leaves, &[Rule::HomesMadeSure]);
            assert!(shows.is_err(), "{}, {leaves:?}", policy.name());
        }
        let byte_delta = &AnyPolicy::ALL[1];
        let shows = appended_and_changed(byte_delta, leaves, &[Rule::AppendsGivenUp], |_| {});
        assert!(shows.is_err(), "{leaves:?}: builds on what was appended");
    }
}

/// What an owner of the core does between a discard and the checkpoint that lets go of it.
type Between = fn(&mut Owned<'_>) -> Result<(), JournalError>;

const BETWEEN: [(&str, Between); 7] = [
    ("nothing", |_| Ok(())),
    ("relog", |journal| journal.relog(LaneNumber(0)).map(drop)),
    ("fold", |journal| journal.fold().map(drop)),
    ("collect_garbage", |journal| journal.collect_garbage().map(drop)),
    ("evict", |journal| journal.evict().map(drop)),
    ("checkpoint_rings", |journal| journal.checkpoint_rings().map(drop)),
    ("clean_log", |journal| journal.clean_log().map(drop)),
];

fn commit(journal: &mut Owned<'_>, operation: Operation<'_>) {
    journal.commit(LaneNumber(0), &[operation], Durability::Durable).expect("commits");
}

/// Patches, where the policy logs them, or an image and what it was made of.
fn change(journal: &mut Owned<'_>, block: BlockNumber) -> Vec<u8> {
    let mut old = vec![0; BLOCK];
    journal.read(block, &mut old).expect("reads");
    let mut new = old.clone();
    new[7..13].copy_from_slice(b"hello!");
    let mut update = Update::new(block, Change::Image(&new));
    update.old = Some(&old);
    commit(journal, Operation::Update(update));
    let patches = [Patch { at: 7, bytes: b"hello?" }];
    let update = Update::new(block, Change::Patches(&patches));
    let patched = journal.commit(LaneNumber(1), &[Operation::Update(update)], Durability::Durable);
    if patched.is_ok() {
        new[7..13].copy_from_slice(b"hello?");
    }
    new
}

#[test]
fn whatever_an_owner_does_no_home_is_built_on_that_was_never_synced() {
    for (at, (name, between)) in BETWEEN.into_iter().enumerate() {
        for policy in AnyPolicy::ALL {
            let leaves = EACH_WAY[at % 2];
            let mut media = Media::new(policy, &[]);
            media.in_vain(leaves, home_in_vain);
            let expected = media.core(|journal| {
                commit(journal, Operation::Discard(BlockNumber(3)));
                // So that there is something to be copied over.
                for _ in 0..3 {
                    commit(journal, Operation::write(BlockNumber(4), &[7; BLOCK]));
                }
                between(journal).expect(name);
                let mut report = CheckpointReport::default();
                while journal.checkpoint_batch(Scope::All, &mut report).expect("writes home") {}
                journal.let_heads_pass(&mut report).expect("gives back");
                change(journal, BlockNumber(3))
            });
            let shows = media.always_shows(3, &expected);
            shows.unwrap_or_else(|error| panic!("{name}: {error}"));
        }
    }
}
