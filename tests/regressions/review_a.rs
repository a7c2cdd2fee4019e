//! Counterexamples of a reviewer.

use core::cell::Cell;
use core::time::Duration;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Instant;

use full_block::FullBlock;
use journal_core::parts::{FrameAt, Index, Lent};
use journal_core::policy::{Change, Update};
use journal_core::record::Form;
use journal_core::units::{LaneNumber, Sequence, Stamp};
use journal_core::{
    BlockDevice, BlockNumber, BlockSize, DeviceError, DeviceFacts, Durability, Entry, Geometry,
    Hook, Journal, MediumError, NoHook, Node, OpenError, Operation, Overwrite, Pmem,
    PortableKernels, Protocol, Rule, Site,
};
use nvm_journal::{AnyPolicy, Buffers, Options};
use sim_disk::{DiskImage, Image, Medium, Model, SimDisk, SimPmem, World};

const BLOCK: usize = 512;
const BLOCKS: u64 = 64;

// ---------------------------------------------------------------- 1: append against checkpoint

thread_local! {
    /// Whether this thread stops in its next fence, with the lane in hand.
    static STOPS: Cell<bool> = const { Cell::new(false) };
}

#[derive(Debug, Default)]
struct Gate {
    state: Mutex<(bool, bool)>,
    moved: Condvar,
    /// Syncs of the disk so far.
    syncs: AtomicU32,
}

impl Gate {
    fn stop(&self) {
        let mut state = self.state.lock().expect("no panic");
        state.0 = true;
        self.moved.notify_all();
        while !state.1 {
            state = self.moved.wait(state).expect("no panic");
        }
    }

    fn await_stopped(&self) {
        let mut state = self.state.lock().expect("no panic");
        while !state.0 {
            state = self.moved.wait(state).expect("no panic");
        }
    }

    fn open(&self) {
        self.state.lock().expect("no panic").1 = true;
        self.moved.notify_all();
    }
}

/// Passes everything on, and lets a thread wait in a fence.
#[derive(Clone, Debug)]
struct Stopping(Arc<Gate>, Option<Rule>);

impl Hook for Stopping {
    fn keeps(&self, rule: Rule) -> bool {
        self.1 != Some(rule)
    }

    fn fence<P: Pmem>(&mut self, _site: Site, pmem: &mut P) -> Result<(), MediumError> {
        if STOPS.take() {
            self.0.stop();
        }
        pmem.fence()
    }

    fn disk_sync<D: BlockDevice>(
        &mut self,
        _site: Site,
        device: &mut D,
    ) -> Result<(), DeviceError> {
        device.sync()?;
        self.0.syncs.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
}

fn byte_delta() -> AnyPolicy {
    let found = AnyPolicy::ALL.iter().find(|policy| policy.name() == "byte-delta");
    *found.expect("there is one")
}

/// What block 5 shows in the end, and what is durable of it.
fn round(without: Option<Rule>) -> u8 {
    let facts = DeviceFacts::new(BLOCK as u32, Overwrite::OldOrNew);
    let block_size = BlockSize::new(BLOCK as u32).expect("a block size");
    let disk = DiskImage::blank(block_size, BLOCKS, facts);
    let world = World::boot(Image::blank(1 << 18).with_disk(disk), Model::Torn8);
    let plain = Options::new().policy(byte_delta()).lanes(1).keep_on_close(true);
    let format = nvm_journal::Journal::format(world.pmem(), world.disk(0), &plain);
    let first = format.expect("formats");
    first.transact(|tx| tx.write(BlockNumber(5), &[1; BLOCK])).expect("commits");
    first.transact(|tx| tx.discard(BlockNumber(5))).expect("commits");
    drop(first);

    // The next process finds the discard.
    let gate = Arc::new(Gate::default());
    let options = Options::new()
        .policy(byte_delta())
        .lanes(1)
        .keep_on_close(true)
        .background_checkpoint(false)
        .hook(Stopping(Arc::clone(&gate), without));
    let journal = nvm_journal::Journal::open(world.pmem(), world.disk(0), &options);
    let journal = Arc::new(journal.expect("opens"));
    let spawn = |call: Box<
        dyn FnOnce(&nvm_journal::Journal<AnyPolicy, SimPmem, SimDisk, Stopping>) + Send,
    >| {
        let journal = Arc::clone(&journal);
        std::thread::spawn(move || call(&journal))
    };
    // Somebody has the lane.
    let holder = spawn(Box::new(|journal| {
        STOPS.set(true);
        journal.transact(|tx| tx.write(BlockNumber(40), &[4; BLOCK])).expect("commits");
    }));
    gate.await_stopped();
    // Block 5 is appended: written home, synced, and about to be stored.
    let appender = spawn(Box::new(|journal| {
        journal.transact(|tx| tx.append(BlockNumber(5), &[7; BLOCK])).expect("commits");
    }));
    let begun = Instant::now();
    while gate.syncs.load(Ordering::SeqCst) == 0 && begun.elapsed() < Duration::from_secs(5) {
        std::thread::yield_now();
    }
    assert!(gate.syncs.load(Ordering::SeqCst) > 0, "it goes home first");
    std::thread::sleep(Duration::from_millis(5));
    // A checkpoint comes by.
    let checkpointer = spawn(Box::new(|journal| {
        journal.checkpoint().expect("writes home");
    }));
    std::thread::sleep(Duration::from_millis(20));
    gate.open();
    for thread in [holder, appender, checkpointer] {
        thread.join().expect("no panic");
    }
    let mut content = [0; BLOCK];
    journal.read(BlockNumber(5), &mut content).expect("reads");
    content[0]
}

#[test]
fn a_checkpoint_does_not_overwrite_what_was_just_appended_home() {
    let before: Vec<u8> = (0..40).map(|_| round(Some(Rule::HomesMadeSure))).collect();
    eprintln!("without the rule: {before:?}");
    let shown: Vec<u8> = (0..40).map(|_| round(None)).collect();
    assert!(shown.iter().all(|byte| *byte == 7), "{shown:?}");
}

// ---------------------------------------------------------------- 2: the hint of a torn superblock

fn geometry(unit_bytes: u32) -> Geometry {
    Geometry {
        block_size: BlockSize::new(BLOCK as u32).expect("a block size"),
        lanes: 1,
        lane_bytes: 4096,
        shield_blocks: 0,
        unit_bytes,
        protocol: Protocol::OneFence,
        lane_slots: 0,
        lane_log_blocks: 0,
        segment_blocks: 0,
    }
}

fn blank() -> World {
    let facts = DeviceFacts::new(BLOCK as u32, Overwrite::NeverInPlace);
    let block_size = BlockSize::new(BLOCK as u32).expect("a block size");
    let disk = DiskImage::blank(block_size, BLOCKS, facts);
    World::boot(Image::blank(1 << 14).with_disk(disk), Model::Torn8)
}

fn on<R>(
    world: &World,
    geometry: &Geometry,
    calls: impl FnOnce(&mut Journal<'_, SimPmem, SimDisk, FullBlock, NoHook, PortableKernels>) -> R,
) -> Result<R, OpenError> {
    let mut buffers = Buffers::new(geometry, 64, 2);
    let (pmem, disk) = (world.pmem(), world.disk(0));
    Journal::open(pmem, disk, FullBlock, NoHook, PortableKernels, buffers.borrow())
        .map(|mut journal| calls(&mut journal))
}

fn format(world: &World, geometry: &Geometry, id: u8) {
    let pmem = world.pmem();
    journal_core::format(pmem, NoHook, &PortableKernels, geometry, [id; 16], &FullBlock, BLOCKS)
        .expect("formats");
}

fn commit(
    journal: &mut Journal<'_, SimPmem, SimDisk, FullBlock, NoHook, PortableKernels>,
    block: u64,
    image: &[u8; BLOCK],
) {
    let operation = Operation::Update(Update::new(BlockNumber(block), Change::Image(image)));
    journal.commit(LaneNumber(0), &[operation], Durability::Durable).expect("commits");
}

#[test]
fn one_bit_of_rot_does_not_make_content_the_superblock() {
    // A copy of another journal's memory: its second superblock, at 768.
    let other = blank();
    format(&other, &geometry(768), 9);
    let copied = other.visible().pmem()[768..1024].to_vec();

    let world = blank();
    format(&world, &geometry(256), 1);
    on(&world, &geometry(256), |journal| {
        // The record is at 512, its image from 640 on: so that the copy lies at 768.
        let mut image = [0; BLOCK];
        image[128..384].copy_from_slice(&copied);
        commit(journal, 0, &image);
        commit(journal, 1, &[5; BLOCK]);
    })
    .expect("opens");
    let mut image = world.visible();
    assert_eq!(&image.pmem()[768..1024], copied);
    // `unit_bytes`, 256: one bit turns it into 768.
    image.flip_bit(Medium::Pmem, 65, 1);
    let world = World::boot(image, Model::Torn8);
    let shown = on(&world, &geometry(256), |journal| {
        let mut content = [0; BLOCK];
        journal.read(BlockNumber(1), &mut content).map(|()| content)
    });
    assert_eq!(shown.expect("the other copy counts").expect("reads"), [5; BLOCK]);
}

// ---------------------------------------------------------------- 3: a format cut short, and poison

/// `slot::void_all` and what forgets the second superblock are in flight together.
#[test]
fn a_format_cut_short_and_a_lost_first_line_leave_no_half_journal() {
    use sim_disk::{CrashPoints, Rng};
    let lcow = *AnyPolicy::ALL.iter().find(|policy| policy.name() == "lcow").expect("there is");
    let geometry = Geometry { lane_slots: 8, ..geometry(256) };
    let format = |world: &World, id: u8| {
        let (pmem, kernels) = (world.pmem(), PortableKernels);
        journal_core::format(pmem, NoHook, &kernels, &geometry, [id; 16], &lcow, BLOCKS)
            .expect("formats");
    };
    let shows = |world: &World, folds: bool| -> Result<Vec<u8>, OpenError> {
        let mut buffers = Buffers::new(&geometry, 64, 2);
        let (pmem, disk) = (world.pmem(), world.disk(0));
        let memory = buffers.borrow();
        let opened = Journal::open(pmem, disk, lcow, NoHook, PortableKernels, memory);
        let mut journal = opened?;
        if folds {
            for block in 0..4 {
                let image = [1 + block as u8; BLOCK];
                let update = Update::new(BlockNumber(block), Change::Image(&image));
                let operation = Operation::Update(update);
                journal.commit(LaneNumber(0), &[operation], Durability::Durable).expect("commits");
            }
            eprintln!("{:?}", journal.fold().expect("folds"));
        }
        let mut show = |block| {
            let mut content = [0; BLOCK];
            journal.read(BlockNumber(block), &mut content).map_or(255, |()| content[0])
        };
        Ok((0..4).map(&mut show).collect())
    };
    let world = blank();
    format(&world, 1);
    let expected = shows(&world, true).expect("opens");
    assert_eq!(expected, [1, 2, 3, 4]);
    let world = World::boot(world.visible(), Model::Torn8);
    format(&world, 2);
    let (start, tape) = (world.start(), world.tape());
    let (mut old, mut new, mut none, mut half) = (0, 0, 0, Vec::new());
    for (at, point) in CrashPoints::new(&start, &tape, Model::Torn8, 0).enumerate() {
        for choice in point.choices(1 << 6, 64, &mut Rng::new(7)) {
            let mut image = point.image(&choice);
            image.poison(0);
            match shows(&World::boot(image, Model::Torn8), false) {
                Err(_) => none += 1,
                Ok(found) if found == expected => old += 1,
                Ok(found) if found == [0; 4] => new += 1,
                Ok(found) => half.push((at, found)),
            }
        }
    }
    eprintln!("{old} old, {new} new, {none} none, {} half", half.len());
    assert!(half.is_empty(), "{expected:?}: {:?}", &half[..half.len().min(3)]);
}

// ---------------------------------------------------------------- 4: an index of blocks that collide

fn time_to_index(blocks: impl Iterator<Item = u64>, count: usize) -> Duration {
    let mut entries = vec![Entry::EMPTY; count + count / 3 + 2];
    let mut nodes = vec![Node::EMPTY; count];
    let mut index = Index::new(Lent { entries: &mut entries, nodes: &mut nodes });
    let begun = Instant::now();
    for (stamp, block) in (1..).zip(blocks.take(count)) {
        let frame = FrameAt {
            block: BlockNumber(block),
            stamp: Stamp(stamp),
            lane: LaneNumber(0),
            sequence: Sequence(stamp),
            record: stamp * 128,
            payload: stamp * 128 + 64,
            len: 8,
            form: Form::Image,
            folded: false,
        };
        index.insert(frame).expect("there is room");
    }
    begun.elapsed()
}

/// Blocks of a device of 2^24 (64 GiB), whose runs are all looked for in a sixteenth of the table.
fn colliding() -> impl Iterator<Item = u64> {
    let scatter = |run: u64| run.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let runs = (0..1_u64 << 21).filter(move |run| scatter(*run) >> 60 == 0);
    runs.flat_map(|run| (0..8).map(move |at| run * 8 + at))
}

#[test]
fn blocks_that_collide_take_no_quadratic_time() {
    let mut worst = 0;
    for count in [1 << 14, 1 << 15, 1 << 16, 1 << 17] {
        let plain = time_to_index(0.., count);
        let hostile = time_to_index(colliding(), count);
        eprintln!("{count}: {plain:?} for ordinary ones, {hostile:?} for chosen ones");
        worst = worst.max(hostile.as_nanos() / plain.as_nanos().max(1));
    }
    assert!(worst < 100, "{worst} times as long");
}
