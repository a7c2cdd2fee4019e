//! The litmus table and the words it is written in.

mod disks;
mod kills;
mod models;
mod order;
mod streams;
mod threads;

use std::collections::BTreeSet;

use journal_core::units::{BlockNumber, BlockSize};
use journal_core::{DeviceFacts, Overwrite};
use sim_disk::{
    CrashPoint, CrashPoints, Defect, DiskImage, Event, FlushKind, Image, Mark, Model, Rng, Rules,
    Tape, Thread,
};

pub(crate) const ALL: [&[Litmus]; 6] =
    [order::TESTS, threads::TESTS, streams::TESTS, models::TESTS, kills::TESTS, disks::TESTS];

pub(crate) struct Litmus {
    pub(crate) name: &'static str,
    /// Where the outcome comes from.
    pub(crate) why: &'static str,
    pub(crate) models: &'static [Model],
    pub(crate) program: fn(Script) -> Script,
    pub(crate) sees: &'static [Place],
    /// All that a power loss may leave of what the test sees.
    pub(crate) allowed: &'static [&'static [u64]],
    /// What one might believe, and is not so; the rest of what is not allowed goes without saying.
    pub(crate) forbidden: &'static [&'static [u64]],
    pub(crate) kills: &'static [Defect],
}

pub(crate) type Outcome = Vec<u64>;

impl Litmus {
    pub(crate) fn outcomes(&self, rules: Rules) -> BTreeSet<Outcome> {
        let script = (self.program)(Script::new());
        let mut outcomes = BTreeSet::new();
        for point in CrashPoints::new(&script.start, &script.tape, rules, 0) {
            let choices = point.choices(u64::MAX, 0, &mut Rng::new(0));
            assert!(!choices.is_sample(), "{} is too long", self.name);
            for choice in choices {
                let image = point.image(&choice);
                outcomes.insert(self.sees.iter().map(|place| place.see(&image, &point)).collect());
            }
        }
        outcomes
    }
}

/// What a test looks at.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place {
    /// A word of memory, by its first byte.
    Word(u64),
    /// An atomic unit of a disk, by its number.
    Unit(Disk, u64),
    /// How many calls had returned.
    Returns,
    /// How many processes had been killed.
    Kills,
}

/// Words of the first line, the last one included.
pub(crate) const X0: Place = Place::Word(0);
pub(crate) const X1: Place = Place::Word(8);
pub(crate) const X2: Place = Place::Word(16);
pub(crate) const X3: Place = Place::Word(24);
pub(crate) const X6: Place = Place::Word(48);
pub(crate) const X7: Place = Place::Word(56);
/// Words of the second line.
pub(crate) const Y0: Place = Place::Word(64);
pub(crate) const Y1: Place = Place::Word(72);
/// A word of the third line.
pub(crate) const Z0: Place = Place::Word(128);

const SPAN_BYTES: usize = 192;
const UNIT_BYTES: usize = 64;
/// Seen where a unit holds nothing that anyone wrote.
pub(crate) const GARBAGE: u64 = u64::MAX;

/// Models that lose caches.
pub(crate) const LOSING: &[Model] = &[Model::X86Line, Model::Torn8, Model::Arm];
/// Models that keep stores to a line in order.
pub(crate) const X86: &[Model] = &[Model::X86Line];

/// The disks of the tests.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Disk {
    /// A block is one unit.
    Whole,
    /// Another one like it.
    Other,
    /// A block is two units.
    Torn,
    /// A block is one unit, and one hit in the middle holds garbage.
    Messy,
    /// A block would be two units, but is never overwritten in place.
    Moving,
}

impl Disk {
    const ALL: [Self; 5] = [Self::Whole, Self::Other, Self::Torn, Self::Messy, Self::Moving];

    const fn block_bytes(self) -> usize {
        match self {
            Self::Whole | Self::Other | Self::Messy => UNIT_BYTES,
            Self::Torn | Self::Moving => 2 * UNIT_BYTES,
        }
    }

    fn blank(self) -> DiskImage {
        let overwrite = match self {
            Self::Whole | Self::Other | Self::Torn => Overwrite::OldOrNew,
            Self::Messy => Overwrite::MayLeaveGarbage,
            Self::Moving => Overwrite::NeverInPlace,
        };
        let block_size = BlockSize::new(self.block_bytes() as u32).expect("a block size");
        DiskImage::blank(block_size, 2, DeviceFacts::new(UNIT_BYTES as u32, overwrite))
    }
}

impl Place {
    fn at(self) -> u64 {
        match self {
            Self::Word(at) => at,
            _ => panic!("{self:?} is no place in memory"),
        }
    }

    fn see(self, image: &Image, point: &CrashPoint) -> u64 {
        let count = |wanted: fn(&Mark) -> bool| {
            point.marks().iter().filter(|mark| wanted(mark)).count() as u64
        };
        match self {
            Self::Word(at) => word(&image.pmem()[at as usize..][..8]),
            Self::Unit(disk, unit) => {
                let at = unit as usize * UNIT_BYTES;
                let block = BlockNumber((at / disk.block_bytes()) as u64);
                let block = image.disk(disk as u16).block(block);
                let unit = &block[at % disk.block_bytes()..][..UNIT_BYTES];
                let first = word(&unit[..8]);
                if unit.chunks(8).all(|other| word(other) == first) { first } else { GARBAGE }
            }
            Self::Returns => count(|mark| matches!(mark, Mark::Returned(_))),
            Self::Kills => count(|mark| matches!(mark, Mark::Killed)),
        }
    }
}

fn word(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().expect("a word"))
}

/// Builds a tape.
pub(crate) struct Script {
    start: Image,
    tape: Tape,
    thread: Thread,
}

impl Script {
    fn new() -> Self {
        let blank = Image::blank(SPAN_BYTES);
        let start = Disk::ALL.iter().fold(blank, |image, disk| image.with_disk(disk.blank()));
        Self { start, tape: Tape::new(), thread: Thread(0) }
    }

    fn push(mut self, event: Event) -> Self {
        self.tape.push(self.thread, event);
        self
    }

    /// What memory holds at first, where that is not zero.
    pub(crate) fn given(mut self, place: Place, value: u64) -> Self {
        let at = place.at() as usize;
        self.start.pmem_mut()[at..at + 8].copy_from_slice(&value.to_le_bytes());
        self
    }

    /// The thread that does what follows; at first it is thread 0.
    pub(crate) fn by(mut self, thread: u16) -> Self {
        self.thread = Thread(thread);
        self
    }

    pub(crate) fn store(self, place: Place, value: u64) -> Self {
        self.store_bytes(place.at(), &value.to_le_bytes())
    }

    /// One call for adjacent words.
    pub(crate) fn store_words(self, first: Place, words: &[u64]) -> Self {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.store_bytes(first.at(), &bytes)
    }

    pub(crate) fn store_bytes(self, at: u64, bytes: &[u8]) -> Self {
        self.push(Event::Store { at, bytes: bytes.into() })
    }

    pub(crate) fn stream(self, place: Place, value: u64) -> Self {
        self.stream_bytes(place.at(), &value.to_le_bytes())
    }

    pub(crate) fn stream_words(self, first: Place, words: &[u64]) -> Self {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.stream_bytes(first.at(), &bytes)
    }

    pub(crate) fn stream_bytes(self, at: u64, bytes: &[u8]) -> Self {
        self.push(Event::Stream { at, bytes: bytes.into() })
    }

    /// Flushes the line of a word: `clwb`.
    pub(crate) fn weak(self, place: Place) -> Self {
        self.push(Event::Flush { line: place.at() / 64 * 64, kind: FlushKind::Weak })
    }

    /// Flushes the line of a word: `clflush`.
    pub(crate) fn strong(self, place: Place) -> Self {
        self.push(Event::Flush { line: place.at() / 64 * 64, kind: FlushKind::Strong })
    }

    pub(crate) fn fence(self) -> Self {
        self.push(Event::Fence)
    }

    pub(crate) fn fence_fails(self) -> Self {
        self.push(Event::FenceFailed)
    }

    pub(crate) fn exchange(self, place: Place, value: u64) -> Self {
        self.push(Event::Exchange { at: place.at(), value })
    }

    /// `dmb ishst`.
    pub(crate) fn barrier(self) -> Self {
        self.push(Event::OrderStores)
    }

    /// Fills a block.
    pub(crate) fn write(self, disk: Disk, block: u64, value: u64) -> Self {
        let len = disk.block_bytes();
        let bytes = value.to_le_bytes().repeat(len / 8).into();
        self.push(Event::DiskWrite { disk: disk as u16, at: block * len as u64, bytes })
    }

    pub(crate) fn sync(self, disk: Disk) -> Self {
        self.push(Event::DiskSync { disk: disk as u16 })
    }

    pub(crate) fn sync_fails(self, disk: Disk) -> Self {
        self.push(Event::DiskSyncFailed { disk: disk as u16 })
    }

    /// A call returns.
    pub(crate) fn returns(self) -> Self {
        self.push(Event::Mark(Mark::Returned(0)))
    }

    /// The process is killed, with all its threads.
    pub(crate) fn killed(self) -> Self {
        self.push(Event::Mark(Mark::Killed))
    }
}
