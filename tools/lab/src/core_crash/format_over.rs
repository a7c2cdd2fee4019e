//! Formatting over a journal of any policy and geometry, with any other: at every crash there is
//! the old journal with all it held, no journal, or the new one.

use core::fmt;

use journal_core::Buffers;
use journal_core::policy::{Change, Update};
use journal_core::superblock::SuperblockError;
use journal_core::units::LaneNumber;
use journal_core::{
    BlockNumber, BlockSize, DeviceFacts, Durability, Geometry, Journal, Offset, On, OpenError,
    Operation, Overwrite, Pmem as _, PortableKernels, Protocol,
};
use sim_disk::suite::Habits;
use sim_disk::{DiskImage, Image, Mark, Model, Mutator, Scenario, SimDisk, SimPmem, World};

use crate::core_crash::program::Kind;

const BLOCKS: u64 = 8;
const BLOCK: usize = 64;

/// A journal that may be in the span.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub kind: Kind,
    lanes: u16,
    unit_bytes: u32,
    lane_bytes: u64,
    pub protocol: Protocol,
    /// The two journals are of stores of different sizes, so that none opens as the other.
    blocks: u64,
    /// Which of the world's disks it belongs to.
    disk: u16,
}

type Opened<'m> = Journal<'m, Kind, On<SimPmem, SimDisk, Mutator>>;

impl Shape {
    fn geometry(&self) -> Geometry {
        let habits = Habits::of(&self.kind);
        Geometry {
            block_size: BlockSize::MIN,
            lanes: self.lanes,
            lane_bytes: self.lane_bytes,
            shield_blocks: if habits.logs_deltas { 2 } else { 0 },
            unit_bytes: self.unit_bytes,
            protocol: self.protocol,
            lane_slots: if habits.has_slots { 6 } else { 0 },
            lane_log_blocks: if habits.has_log { 6 } else { 0 },
            segment_blocks: if habits.has_log { 2 } else { 0 },
        }
    }

    fn span_bytes(&self) -> usize {
        usize::try_from(self.geometry().span_bytes().expect("small")).expect("small")
    }

    fn blank_disk(&self) -> DiskImage {
        let blocks = self.blocks + self.geometry().log_blocks();
        let facts = DeviceFacts::new(64, Overwrite::OldOrNew);
        DiskImage::blank(BlockSize::MIN, blocks, facts)
    }

    fn format(&self, world: &World, mutator: &Mutator) -> Result<(), OpenError> {
        let (geometry, hook, id) = (self.geometry(), mutator.clone(), [self.disk as u8 + 1; 16]);
        let (pmem, kernels) = (world.pmem(), PortableKernels);
        journal_core::format(pmem, hook, &kernels, &geometry, id, &self.kind, self.blocks)
    }

    fn with<R>(
        &self,
        world: &World,
        work: impl FnOnce(&mut Opened<'_>) -> R,
    ) -> Result<R, OpenError> {
        let mut buffers = Buffers::new(&self.geometry(), 128, 2);
        let (pmem, disk, hook) = (world.pmem(), world.disk(self.disk), Mutator::new());
        let kernels = PortableKernels;
        Journal::open(pmem, disk, self.kind, hook, kernels, buffers.borrow())
            .map(|mut journal| work(&mut journal))
    }

    /// Each block, as the journal shows it.
    fn contents(&self, journal: &mut Opened<'_>) -> Result<Vec<[u8; BLOCK]>, String> {
        (0..self.blocks)
            .map(|number| {
                let mut content = [0; BLOCK];
                let read = journal.read(BlockNumber(number), &mut content);
                read.map(|()| content).map_err(|error| format!("block {number}: {error}"))
            })
            .collect()
    }

    /// Fills every block, changes some of them, and leaves part of that in slots, in the disk-side
    /// log, at home and in the lanes.
    fn use_it(&self, journal: &mut Opened<'_>) {
        let mut olds = [[0; BLOCK]; BLOCKS as usize];
        for round in 0..3_u8 {
            // The last round leaves half of the blocks to the entries of slots.
            let step = if round == 2 { 2 } else { 1 };
            for (number, old) in (0..).zip(&mut olds).step_by(step) {
                let mut new = if round == 0 { [0x30 + number as u8; BLOCK] } else { *old };
                new[usize::from(round) * 8] = 0xC0 + round;
                let mut update = Update::new(BlockNumber(number), Change::Image(&new));
                update.old = Some(&old[..]);
                let lane = LaneNumber(number as u16 % self.lanes);
                let operation = [Operation::Update(update)];
                if journal.commit(lane, &operation, Durability::Durable).is_err() {
                    journal.checkpoint().expect("checkpoints");
                    journal.commit(lane, &operation, Durability::Durable).expect("commits");
                }
                *old = new;
            }
            if round == 1 {
                let _ = journal.fold().expect("folds");
                let _ = journal.checkpoint_rings().expect("empties the rings");
            }
        }
    }
}

/// The span holds one journal, and is formatted for another.
pub struct FormatOver {
    mutator: Mutator,
    old: Shape,
    new: Shape,
    start: Image,
    held: Vec<[u8; BLOCK]>,
}

impl FormatOver {
    pub fn new(mutator: Mutator, old: Shape, new: Shape) -> Self {
        let old = Shape { blocks: BLOCKS, disk: 0, ..old };
        let new = Shape { blocks: BLOCKS + 1, disk: 1, ..new };
        let span = vec![0xA5; old.span_bytes().max(new.span_bytes())];
        let disks = [old.blank_disk(), new.blank_disk()];
        let image = disks.into_iter().fold(Image::from_pmem(span), Image::with_disk);
        let world = World::boot(image, Model::Torn8);
        old.format(&world, &Mutator::new()).expect("formats");
        old.with(&world, |journal| old.use_it(journal)).expect("opens");
        let held = old.with(&world, |journal| old.contents(journal).expect("reads"));
        Self { mutator, old, new, start: world.visible(), held: held.expect("opens") }
    }
}

impl fmt::Debug for FormatOver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} over {:?}", self.new, self.old)
    }
}

fn is_done(history: &[Mark]) -> bool {
    history.iter().any(|mark| matches!(mark, Mark::Returned(_)))
}

/// A lost line where the first copy begins, while the format is under way.
pub fn lose_the_first_line(image: &mut Image, history: &[Mark]) {
    if !is_done(history) {
        image.poison(0);
    }
}

impl Scenario for FormatOver {
    fn start(&self) -> Image {
        self.start.clone()
    }

    fn program(&self, world: &World) -> Result<(), String> {
        world.called(1);
        self.new.format(world, &self.mutator).map_err(|error| error.to_string())?;
        world.returned(1);
        Ok(())
    }

    fn recover(&self, world: &World) -> Result<(), String> {
        let found = self.new.with(world, |journal| self.new.contents(journal));
        let error = match found {
            Ok(contents) => {
                let is_new = contents?.iter().all(|content| *content == [0; BLOCK]);
                world.recovered(2);
                return is_new.then_some(()).ok_or_else(|| "the new journal is not empty".into());
            }
            Err(error) => error,
        };
        if is_done(&world.history()) {
            return Err(format!("the new journal does not open: {error}"));
        }
        use SuperblockError::{Corrupt, NotAJournal, Unfinished};
        if world.pmem().bytes(Offset(0), 8).is_err() {
            // The first line is lost as well: so may be the journal, but not a part of it.
            if let OpenError::Superblock(NotAJournal | Corrupt) = error {
                world.recovered(0);
                return Ok(());
            }
        }
        if error == OpenError::Superblock(Unfinished) {
            world.recovered(0);
            // Whatever is there, it can be formatted again.
            self.new.format(world, &self.mutator).map_err(|error| error.to_string())?;
            return self.new.with(world, |_| ()).map_err(|error| error.to_string());
        }
        let held = self.old.with(world, |journal| self.old.contents(journal));
        let held =
            held.map_err(|old| format!("neither opens: {error}; and the old one: {old}"))??;
        world.recovered(1);
        (held == self.held).then_some(()).ok_or_else(|| "the old journal has changed".into())
    }
}

pub const KINDS: [Kind; 7] = [
    Kind::FullBlock,
    Kind::ObjectLog,
    Kind::ByteDelta,
    Kind::Lcow,
    Kind::CompressedDelta,
    Kind::TwoLevel,
    Kind::Adaptive,
];

/// Each policy in geometries that differ in everything.
pub fn shapes() -> Vec<Shape> {
    let shape = |kind, lanes, unit_bytes, lane_bytes, protocol| {
        let (blocks, disk) = (BLOCKS, 0);
        Shape { kind, lanes, unit_bytes, lane_bytes, protocol, blocks, disk }
    };
    let of_kind = |kind| {
        [
            shape(kind, 1, 192, 1024, Protocol::OneFence),
            shape(kind, 2, 256, 768, Protocol::OneFence),
            shape(kind, 2, 1024, 512, Protocol::TailPointer),
        ]
    };
    KINDS.into_iter().flat_map(of_kind).collect()
}

/// Few of them, in which every step of a format matters.
pub fn some_pairs(mutator: &Mutator) -> impl Iterator<Item = impl Scenario + 'static> {
    let of = |kind| shapes().into_iter().filter(move |shape| shape.kind == kind).collect();
    let (olds, news): (Vec<Shape>, Vec<Shape>) = (of(Kind::ByteDelta), of(Kind::Lcow));
    let pairs = [(0, 1), (1, 0), (1, 2), (2, 1), (1, 1)];
    let pairs = pairs.map(|(old, new)| FormatOver::new(mutator.clone(), olds[old], news[new]));
    pairs.into_iter()
}
