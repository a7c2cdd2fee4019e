//! The journal on a microcontroller: no std, no allocator, every byte of memory counted before it
//! runs.
//!
//! The module `firmware` is what would run there: two drivers, the journal's memory and how to start
//! it, with nothing but `core`. `main` is the workbench around it: it holds the chips, cuts the
//! power and prints.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

mod firmware {
    use core::sync::atomic::{Ordering, fence};

    use full_block::FullBlock;
    use journal_core::block_device::check_request;
    use journal_core::{
        Batched, BlockDevice, BlockNumber, BlockSize, DeviceError, DeviceFacts, DeviceOperation,
        Entry, Geometry, Granularity, Journal, JournalMemory, LINE_BYTES, LaneSlot, MediumError,
        MediumErrorKind, Needs, NoHook, Node, Offset, OpenError, Pmem, PmemFacts, PmemRead,
        PmemSplit, PortableKernels,
    };

    pub(super) const BLOCK: BlockSize = BlockSize::new(512).unwrap();

    /// For 8 KiB of FRAM. Whole images in the lane need no shield against torn overwrites.
    pub(super) const GEOMETRY: Geometry = Geometry {
        block_size: BLOCK,
        lanes: 1,
        lane_bytes: 7 * 1024,
        shield_blocks: 0,
        unit_bytes: 256,
    };

    /// No more images than that fit into the lane.
    const FRAMES: usize = GEOMETRY.lane_bytes as usize / BLOCK.bytes();
    const NEEDS: Needs = Needs::of(&GEOMETRY, FRAMES);
    /// How many blocks a checkpoint sorts, and merges into one write, at a time.
    const BATCH_BLOCKS: usize = 4;

    /// All the memory that the journal works in. It need not survive anything.
    pub(super) struct Ram<'c> {
        lanes: [LaneSlot<Fram<'c>>; NEEDS.lanes],
        entries: [Entry; NEEDS.entries],
        nodes: [Node; NEEDS.nodes],
        batch: [Batched; BATCH_BLOCKS],
        front: [u8; NEEDS.front_bytes],
        encoded: [u8; NEEDS.encoded_bytes],
        blocks: [u8; BATCH_BLOCKS * BLOCK.bytes()],
    }

    impl<'c> Ram<'c> {
        /// `const`, so that it can be the content of a `static`.
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

        fn borrow(&mut self) -> JournalMemory<'_, Fram<'c>> {
            JournalMemory {
                lanes: &mut self.lanes,
                entries: &mut self.entries,
                nodes: &mut self.nodes,
                batch: &mut self.batch,
                front: &mut self.front,
                encoded: &mut self.encoded,
                blocks: &mut self.blocks,
            }
        }
    }

    /// The FRAM, mapped into the address space and not cached.
    pub(super) struct Fram<'c>(&'c mut [u8]);

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

    pub(super) type Store<'r, 'c> = Journal<'r, Fram<'c>, Card<'c>, FullBlock>;

    /// Once in a device's life. The id has to be new each time, so a serial number will not do.
    pub(super) fn format(fram: &mut [u8], card: &[u8], id: [u8; 16]) -> Result<(), OpenError> {
        let blocks = (card.len() / BLOCK.bytes()) as u64;
        let kernels = &PortableKernels;
        journal_core::format(Fram(fram), NoHook, kernels, &GEOMETRY, id, &FullBlock, blocks)
    }

    /// At every start, whatever happened before.
    pub(super) fn start<'r, 'c>(
        fram: &'c mut [u8],
        card: &'c mut [u8],
        ram: &'r mut Ram<'c>,
    ) -> Result<Store<'r, 'c>, OpenError> {
        let memory = ram.borrow();
        Journal::open(Fram(fram), Card(card), FullBlock, NoHook, PortableKernels, memory)
    }
}

use core::error::Error;

use firmware::{BLOCK, Ram, Store};
use journal_core::policy::{Change, Update};
use journal_core::units::LaneNumber;
use journal_core::{BlockNumber, Durability, Operation};

const BLOCK_BYTES: usize = BLOCK.bytes();

/// What the device keeps in its blocks: a name, and blanks behind it.
fn image(name: &str) -> [u8; BLOCK_BYTES] {
    let mut image = [b' '; BLOCK_BYTES];
    image[..name.len()].copy_from_slice(name.as_bytes());
    image
}

fn put(block: u64, image: &[u8]) -> Operation<'_> {
    Operation::Update(Update::new(BlockNumber(block), Change::Image(image)))
}

/// What is on the card where blocks 3 and 4 are at home.
fn home(card: &[u8]) -> String {
    let names = card[3 * BLOCK_BYTES..5 * BLOCK_BYTES].chunks(BLOCK_BYTES);
    let names = names.map(|block| String::from_utf8_lossy(block).trim_end().to_owned());
    format!("{:?}", names.collect::<Vec<_>>())
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut fram = [0xFF; 8 * 1024];
    let mut card = [b' '; 64 * BLOCK_BYTES];
    firmware::format(&mut fram, &card, *b"random, each one")?;
    println!("formatted; the journal works in {} bytes of RAM", size_of::<Ram<'_>>());

    {
        let mut ram = Ram::new();
        let mut store = firmware::start(&mut fram, &mut card, &mut ram)?;
        let (open, off, on) = (image("valve open"), image("pump off"), image("pump on"));
        // Both blocks or neither, whenever the power fails: one record, one fence.
        let both = [put(3, &open), put(4, &off)];
        let done = store.commit(LaneNumber(0), &both, Durability::Durable)?;
        println!("committed two blocks as {} of {}", done.sequence, done.lane);
        let done = store.commit(LaneNumber(0), &[put(4, &on)], Durability::Durable)?;
        println!("committed one of them again as {} of {}", done.sequence, done.lane);
    }
    println!("power off; on the card: {}", home(&card));

    {
        let mut ram = Ram::new();
        let mut store = firmware::start(&mut fram, &mut card, &mut ram)?;
        println!("power on; {} transactions found", store.recovery().found);
        for block in [3, 4] {
            let mut image = [0; BLOCK_BYTES];
            store.read(BlockNumber(block), &mut image)?;
            println!("  block {block} reads {:?}", core::str::from_utf8(&image)?.trim_end());
        }
        let report = store.checkpoint()?;
        println!("checkpoint: {} bytes of the lane are free again", report.freed_bytes);
    }
    println!("power off; on the card: {}", home(&card));
    Ok(())
}
