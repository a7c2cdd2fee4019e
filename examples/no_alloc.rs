//! The journal on a microcontroller: no std, no allocator, and every byte of memory counted before
//! the program runs.
//!
//! ```sh
//! cargo run --release --example no_alloc
//! ```
//!
//! The module `firmware` is what would run there: two drivers, the journal's memory, and how to
//! format and to start, with nothing but `core`. `main` is the workbench around it: it holds the
//! chips, takes the power away and prints.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

mod firmware {
    use core::sync::atomic::{Ordering, fence};

    use full_block::FullBlock;
    use journal_core::block_device::check_request;
    use journal_core::{
        Batched, BlockDevice, BlockNumber, BlockSize, DeviceError, DeviceFacts, DeviceOperation,
        Entry, Geometry, Granularity, Journal, JournalMemory, LINE_BYTES, LaneSlot, MediumError,
        MediumErrorKind, Needs, NoHook, Node, Offset, On, OpenError, Pmem, PmemFacts, PmemRead,
        PmemSplit, PortableKernels, Protocol,
    };

    pub(super) const BLOCK: BlockSize = BlockSize::new(512).unwrap();
    pub(super) const FRAM_BYTES: usize = 8 * 1024;

    /// The shape of the journal, which is fixed when it is formatted.
    pub(super) const GEOMETRY: Geometry = Geometry {
        block_size: BLOCK,
        // One thread commits.
        lanes: 1,
        lane_bytes: 7 * 1024,
        // The shield saves blocks that were logged in pieces from torn writes to the card. Whole
        // images, which are all that `FullBlock` logs, are still in the lane then.
        shield_blocks: 0,
        // There are two superblocks, each in a unit of its own.
        unit_bytes: 256,
        protocol: Protocol::OneFence,
        lane_slots: 0,
        lane_log_blocks: 0,
        segment_blocks: 0,
    };

    // What cannot work does not compile.
    const _: () = assert!(GEOMETRY.check().is_ok());
    const _: () = assert!(GEOMETRY.span_bytes().unwrap() <= FRAM_BYTES as u64);
    const _: () = assert!(size_of::<Ram<'_>>() <= 8 * 1024, "that is what the linker script has");

    /// How many changes of blocks the journal can keep track of. The lane has no room for more
    /// images than that.
    const FRAMES: usize = GEOMETRY.lane_bytes as usize / BLOCK.bytes();
    const NEEDS: Needs = Needs::of(&GEOMETRY, FRAMES);
    /// How many blocks a checkpoint sorts, and merges into one write, at a time. One would do.
    const BATCH_BLOCKS: usize = 3;

    /// All the memory that the journal works in. Nothing in it needs to survive anything.
    pub(super) struct Ram<'f> {
        lanes: [LaneSlot<Fram<'f>>; NEEDS.lanes],
        entries: [Entry; NEEDS.entries],
        nodes: [Node; NEEDS.nodes],
        batch: [Batched; BATCH_BLOCKS],
        front: [u8; NEEDS.front_bytes],
        encoded: [u8; NEEDS.encoded_bytes],
        blocks: [u8; BATCH_BLOCKS * BLOCK.bytes()],
    }

    impl<'f> Ram<'f> {
        /// `const`, so that it can be what a `static` begins with.
        pub(super) const fn new() -> Self {
            Self {
                lanes: [const { LaneSlot::EMPTY }; NEEDS.lanes],
                entries: [Entry::EMPTY; NEEDS.entries],
                nodes: [Node::EMPTY; NEEDS.nodes],
                batch: [Batched::EMPTY; BATCH_BLOCKS],
                front: [0; NEEDS.front_bytes],
                encoded: [0; NEEDS.encoded_bytes],
                blocks: [0; BATCH_BLOCKS * BLOCK.bytes()],
            }
        }

        fn borrow(&mut self) -> JournalMemory<'_, Fram<'f>> {
            JournalMemory {
                lanes: &mut self.lanes,
                entries: &mut self.entries,
                nodes: &mut self.nodes,
                batch: &mut self.batch,
                front: &mut self.front,
                encoded: &mut self.encoded,
                blocks: &mut self.blocks,
                slots: &mut [],
            }
        }
    }

    /// The FRAM, mapped into the address space and not cached.
    pub(super) struct Fram<'f>(&'f mut [u8]);

    impl PmemRead for Fram<'_> {
        fn len(&self) -> u64 {
            self.0.len() as u64
        }

        fn read_into(&self, at: Offset, into: &mut [u8]) -> Result<(), MediumError> {
            into.copy_from_slice(self.bytes(at, into.len())?);
            Ok(())
        }
    }

    impl Pmem for Fram<'_> {
        fn facts(&self) -> PmemFacts {
            PmemFacts::new(Granularity::Store)
        }

        /// What is read is where a medium told the journal to look: it may be outside.
        fn bytes(&self, at: Offset, len: usize) -> Result<&[u8], MediumError> {
            let rest = usize::try_from(at.raw()).ok().and_then(|start| self.0.get(start..));
            let outside = MediumError::new(MediumErrorKind::OutOfRange, at, len);
            rest.and_then(|rest| rest.get(..len)).ok_or(outside)
        }

        /// What is stored is where the journal computed: outside is a bug, and panics.
        fn store(&mut self, at: Offset, bytes: &[u8]) {
            self.0[at.raw() as usize..][..bytes.len()].copy_from_slice(bytes);
        }

        /// On the bus this has to be one transfer that power loss does not cut in two.
        fn store_u64(&mut self, at: Offset, value: u64) {
            assert!(at.raw() % 8 == 0, "a word is aligned");
            self.store(at, &value.to_le_bytes());
        }

        fn stream(&mut self, at: Offset, bytes: &[u8]) {
            self.store(at, bytes);
        }

        /// There is no cache to flush, only a range to be right about.
        fn flush(&mut self, at: Offset, len: usize) {
            assert!(self.bytes(at, len).is_ok(), "a flush stays inside");
        }

        /// Here stores only have to stay in order. A chip waits until its bus is idle, too: on a
        /// Cortex-M that is a DSB.
        fn fence(&mut self) -> Result<(), MediumError> {
            fence(Ordering::SeqCst);
            Ok(())
        }
    }

    impl PmemSplit for Fram<'_> {
        fn split_at(self, at: Offset) -> Result<(Self, Self), MediumError> {
            let outside = MediumError::new(MediumErrorKind::OutOfRange, at, 0);
            let middle = usize::try_from(at.raw()).ok().filter(|at| at % LINE_BYTES == 0);
            let parts = middle.and_then(|middle| self.0.split_at_mut_checked(middle));
            parts.map(|(first, second)| (Self(first), Self(second))).ok_or(outside)
        }
    }

    /// A memory card. Nobody knows what it does when the power fails, so it claims nothing.
    pub(super) struct Card<'c>(&'c mut [u8]);

    impl BlockDevice for Card<'_> {
        fn facts(&self) -> DeviceFacts {
            DeviceFacts::cautious()
        }

        fn block_size(&self) -> BlockSize {
            BLOCK
        }

        fn block_count(&self) -> u64 {
            (self.0.len() / BLOCK.bytes()) as u64
        }

        fn read(&mut self, first: BlockNumber, into: &mut [u8]) -> Result<(), DeviceError> {
            let of = (BLOCK, self.block_count());
            check_request(DeviceOperation::Read, of, first, into.len())?;
            let start = first.raw() as usize * BLOCK.bytes();
            into.copy_from_slice(&self.0[start..][..into.len()]);
            Ok(())
        }

        fn write(&mut self, first: BlockNumber, from: &[u8]) -> Result<(), DeviceError> {
            let of = (BLOCK, self.block_count());
            check_request(DeviceOperation::Write, of, first, from.len())?;
            let start = first.raw() as usize * BLOCK.bytes();
            self.0[start..][..from.len()].copy_from_slice(from);
            Ok(())
        }

        fn sync(&mut self) -> Result<(), DeviceError> {
            Ok(())
        }
    }

    pub(super) type Store<'r, 'f, 'c> = Journal<'r, FullBlock, On<Fram<'f>, Card<'c>>>;

    /// Once in a device's life. The id has to be new each time, so a serial number will not do.
    pub(super) fn format(fram: &mut [u8], card: &[u8], id: [u8; 16]) -> Result<(), OpenError> {
        let blocks = (card.len() / BLOCK.bytes()) as u64;
        let kernels = &PortableKernels;
        journal_core::format(Fram(fram), NoHook, kernels, &GEOMETRY, id, &FullBlock, blocks)
    }

    /// At every start, whatever happened before.
    pub(super) fn start<'r, 'f, 'c>(
        fram: &'f mut [u8],
        card: &'c mut [u8],
        ram: &'r mut Ram<'f>,
    ) -> Result<Store<'r, 'f, 'c>, OpenError> {
        let memory = ram.borrow();
        Journal::open(Fram(fram), Card(card), FullBlock, NoHook, PortableKernels, memory)
    }
}

use core::error::Error;
use std::sync::{Mutex, PoisonError};

use firmware::{BLOCK, FRAM_BYTES, GEOMETRY, Ram, Store};
use journal_core::policy::{Change, Update};
use journal_core::units::LaneNumber;
use journal_core::{BlockNumber, Durability, Operation};

const BLOCK_BYTES: usize = BLOCK.bytes();
const LANE: LaneNumber = LaneNumber(0);
const VALVE: u64 = 3;
const PUMP: u64 = 4;

/// The journal's memory in a `static`. Firmware has no `std::sync::Mutex`, but something of that
/// kind: a mutex that masks interrupts, or a cell that `main` takes out once.
static RAM: Mutex<Ram<'static>> = Mutex::new(Ram::new());

/// What the device keeps in its blocks: a line, and blanks behind it.
fn image(line: &str) -> [u8; BLOCK_BYTES] {
    let mut image = [b' '; BLOCK_BYTES];
    image[..line.len()].copy_from_slice(line.as_bytes());
    image
}

fn line(image: &[u8]) -> String {
    String::from_utf8_lossy(image).trim_end().to_owned()
}

fn put(block: u64, image: &[u8]) -> Operation<'_> {
    Operation::Update(Update::new(BlockNumber(block), Change::Image(image)))
}

/// Two commits that arrive, and one that does not.
fn first_life(store: &mut Store<'_, '_, '_>) -> Result<(), Box<dyn Error>> {
    let (open, shut) = (image("valve open"), image("valve shut"));
    let (off, on) = (image("pump off"), image("pump on"));

    // Both blocks or neither, whenever the power fails: one record, one fence.
    let both = [put(VALVE, &open), put(PUMP, &off)];
    let done = store.commit(LANE, &both, Durability::Durable)?;
    println!(
        "  committed {:?} and {:?}: {} of {}",
        line(&open),
        line(&off),
        done.sequence,
        done.lane
    );
    let done = store.commit(LANE, &[put(PUMP, &on)], Durability::Durable)?;
    println!("  committed {:?}: {} of {}", line(&on), done.sequence, done.lane);

    let mut unfinished = store.begin(LANE, 2 * 1024)?;
    unfinished.write(&[put(VALVE, &shut), put(PUMP, &off)])?;
    println!("  wrote {:?} and {:?}, and did not come to commit them", line(&shut), line(&off));
    Ok(())
}

fn second_life(store: &mut Store<'_, '_, '_>) -> Result<(), Box<dyn Error>> {
    println!("  found {} transactions", store.recovery().found);
    for block in [VALVE, PUMP] {
        let mut image = [0; BLOCK_BYTES];
        store.read(BlockNumber(block), &mut image)?;
        println!("  block {block} reads {:?}", line(&image));
    }
    // Commits do not need this before the lane is full.
    let report = store.checkpoint()?;
    println!("  checkpoint: {} blocks written home in order,", report.blocks);
    println!(
        "  {} of {} bytes of the lane are free again",
        report.freed_bytes, GEOMETRY.lane_bytes
    );
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    // The chips. They outlive the power; what is borrowed from them, the journal above all, does
    // not.
    let mut fram = [0xFF; FRAM_BYTES];
    let mut card = [b' '; 64 * BLOCK_BYTES];
    let home = |card: &[u8]| {
        let lines = card.chunks(BLOCK_BYTES).map(line);
        let two = lines.skip(VALVE as usize).take(2);
        format!("{:?}", two.collect::<Vec<_>>())
    };

    firmware::format(&mut fram, &card, *b"random, each one")?;
    let span_bytes = GEOMETRY.span_bytes().unwrap_or_default();
    println!("formatted: {span_bytes} bytes of FRAM for blocks of {BLOCK}");
    println!("to work in: {} bytes of RAM", size_of::<Ram<'_>>());

    println!("power on, the journal's memory on the stack");
    {
        let mut ram = Ram::new();
        first_life(&mut firmware::start(&mut fram, &mut card, &mut ram)?)?;
    }
    println!("power off; at home on the card are {}", home(&card));

    println!("power on, the journal's memory in a static");
    {
        // A static refers to nothing that lives shorter, so the chip has to be there for good, as
        // chips are.
        let fram: &'static mut [u8] = Vec::from(fram).leak();
        let mut ram = RAM.lock().unwrap_or_else(PoisonError::into_inner);
        second_life(&mut firmware::start(fram, &mut card, &mut ram)?)?;
    }
    println!("power off; at home on the card are {}", home(&card));
    Ok(())
}
