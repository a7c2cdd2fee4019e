//! Every call that the journal has, on plain arrays.

use core::hint::black_box;

use journal_core::policy::{Change, Class, Kind, Patch, Update};
use journal_core::units::LaneNumber;
use journal_core::{
    Batched, BlockNumber, BlockSize, CheckpointReport, CommitError, Durability, Entry, Geometry,
    Hook, Journal, JournalError, JournalMemory, LaneMemory, Needs, Node, On, OpenError, Operation,
    PortableKernels, Protocol, Scope, SlotState,
};

use crate::drivers::{Card, Fram};
use crate::sketch::Sketch;

const GEOMETRY: Geometry = Geometry {
    block_size: BlockSize::MIN,
    lanes: 2,
    lane_bytes: 2048,
    shield_blocks: 2,
    unit_bytes: 256,
    protocol: Protocol::OneFence,
    lane_slots: 3,
    lane_log_blocks: 0,
    segment_blocks: 0,
};
const BLOCK_BYTES: usize = BlockSize::MIN.bytes();
const BLOCKS: u64 = 8;
const SPAN_BYTES: usize = 8 << 10;
const CARD_BYTES: usize = BLOCKS as usize * BLOCK_BYTES;
const NEEDS: Needs = Needs::of(&GEOMETRY, 32);

/// What the program can fail with.
#[derive(Debug)]
pub enum Failure {
    /// An open or a format.
    Open,
    /// A commit.
    Commit,
    /// Any other call.
    Journal,
    /// Something was read that is not what was written.
    Content,
}

impl From<OpenError> for Failure {
    fn from(error: OpenError) -> Self {
        black_box(error);
        Self::Open
    }
}

impl From<CommitError> for Failure {
    fn from(error: CommitError) -> Self {
        black_box(error);
        Self::Commit
    }
}

impl From<JournalError> for Failure {
    fn from(error: JournalError) -> Self {
        black_box(error);
        Self::Journal
    }
}

struct Memory<'a, H> {
    lanes: [LaneMemory<Fram<'a>, H>; NEEDS.lanes],
    entries: [Entry; NEEDS.entries],
    nodes: [Node; NEEDS.nodes],
    batch: [Batched; NEEDS.batch],
    front: [u8; NEEDS.front_bytes],
    encoded: [u8; NEEDS.encoded_bytes],
    blocks: [u8; NEEDS.blocks_bytes],
    slots: [SlotState; NEEDS.slots],
}

impl<'a, H> Memory<'a, H> {
    const fn new() -> Self {
        Self {
            lanes: [const { LaneMemory::EMPTY }; NEEDS.lanes],
            entries: [Entry::EMPTY; NEEDS.entries],
            nodes: [Node::EMPTY; NEEDS.nodes],
            batch: [Batched::EMPTY; NEEDS.batch],
            front: [0; NEEDS.front_bytes],
            encoded: [0; NEEDS.encoded_bytes],
            blocks: [0; NEEDS.blocks_bytes],
            slots: [SlotState::EMPTY; NEEDS.slots],
        }
    }

    fn borrow(&mut self) -> JournalMemory<'_, Fram<'a>, H> {
        JournalMemory {
            lanes: &mut self.lanes,
            entries: &mut self.entries,
            nodes: &mut self.nodes,
            batch: &mut self.batch,
            front: &mut self.front,
            encoded: &mut self.encoded,
            blocks: &mut self.blocks,
            slots: &mut self.slots,
        }
    }
}

type Opened<'m, 'a, H> = Journal<'m, Sketch, On<Fram<'a>, Card<'a>, H>>;

/// Formats, and opens twice; returns how many transactions the second open found.
pub fn run<H: Hook + Clone>(hook: &H) -> Result<u64, Failure> {
    let (mut span, mut disk) = ([0; SPAN_BYTES], [0; CARD_BYTES]);
    let (span, disk) = black_box((&mut span, &mut disk));
    let kernels = &PortableKernels;
    let fram = Fram::new(span);
    journal_core::format(fram, hook.clone(), kernels, &GEOMETRY, [7; 16], &Sketch, BLOCKS)?;

    let mut memory = Memory::new();
    first_life(&mut open(span, disk, hook, &mut memory)?)?;

    let mut memory = Memory::new();
    let mut journal = open(span, disk, hook, &mut memory)?;
    let found = journal.recovery().found;
    let mut block = [0; BLOCK_BYTES];
    for (number, first) in [(0, 1), (1, 5), (3, 4), (4, 0), (5, 9), (6, 6)] {
        journal.read(BlockNumber(number), &mut block)?;
        if block[0] != first {
            return Err(Failure::Content);
        }
    }
    Ok(found)
}

fn open<'m, 'a, H: Hook + Clone>(
    span: &'a mut [u8],
    disk: &'a mut [u8],
    hook: &H,
    memory: &'m mut Memory<'a, H>,
) -> Result<Opened<'m, 'a, H>, OpenError> {
    let (fram, card) = (Fram::new(span), Card::new(disk, BlockSize::MIN));
    let kernels = PortableKernels;
    Journal::open(fram, card, Sketch, hook.clone(), kernels, memory.borrow())
}

const fn image(block: u64, image: &[u8]) -> Operation<'_> {
    Operation::Update(Update::new(BlockNumber(block), Change::Image(image)))
}

/// Leaves block 0 at home, and the others in the lanes.
fn first_life<H: Hook>(journal: &mut Opened<'_, '_, H>) -> Result<(), Failure> {
    let images: [[u8; BLOCK_BYTES]; 5] = core::array::from_fn(|first| [first as u8; BLOCK_BYTES]);
    let [zeroes, ones, twos, threes, fours] = &images;
    let (one, other) = (LaneNumber(0), LaneNumber(1));

    // At home and then only patched: a checkpoint takes it through the shield.
    journal.commit(one, &[image(0, zeroes), image(1, ones)], Durability::Durable)?;
    journal.checkpoint()?;
    let patch = [Patch { at: 0, bytes: &[1] }];
    let patched = Operation::Update(Update::new(BlockNumber(0), Change::Patches(&patch)));
    journal.commit(other, &[patched], Durability::Deferred)?;
    journal.sync()?;
    let mut report = CheckpointReport::default();
    while journal.checkpoint_batch(Scope::All, &mut report)? {}
    journal.let_heads_pass(&mut report)?;
    black_box(journal.relog(one)?);
    if report.shielded != 1 {
        return Err(Failure::Content);
    }

    journal.commit(
        one,
        &[image(2, twos), Operation::Discard(BlockNumber(4))],
        Durability::Durable,
    )?;
    journal.commit(other, &[image(1, threes)], Durability::Deferred)?;
    let mut given_up = journal.begin(one, 512)?;
    given_up.write(&[image(3, threes)])?;
    given_up.abort();
    let mut streamed = journal.begin(one, 1024)?;
    streamed.write(&[image(3, threes)])?;
    streamed.write(&[image(1, &[5; BLOCK_BYTES]), image(3, fours)])?;
    black_box(streamed.commit()?);
    in_slots(journal, one)?;
    black_box(journal.geometry());
    Ok(())
}

/// Leaves block 5 in a slot and block 6 at home, both known by no more than an entry and a frame.
fn in_slots<H: Hook>(journal: &mut Opened<'_, '_, H>, lane: LaneNumber) -> Result<(), Failure> {
    for (first, durability) in
        [(7, Durability::Durable), (8, Durability::Durable), (9, Durability::Deferred)]
    {
        let content = [first; BLOCK_BYTES];
        let mut update = Update::new(BlockNumber(5), Change::Image(&content));
        update.class = Class::Metadata;
        journal.commit(lane, &[Operation::Update(update)], durability)?;
        journal.sync()?;
        black_box(journal.fold()?);
    }
    let content = [6; BLOCK_BYTES];
    let mut update = Update::new(BlockNumber(6), Change::Image(&content));
    update.kind = Kind::Append;
    journal.commit(lane, &[Operation::Update(update)], Durability::Durable)?;
    black_box(journal.collect_garbage()?);
    black_box((journal.clean_log()?, journal.move_to_log(lane)?, journal.free_log_blocks(lane)));
    Ok(())
}
