//! The journal on a microcontroller: no std, no allocator, and every byte of memory counted before
//! the program runs.
//!
//! `cargo run --release --example no_alloc`
//!
//! The module `device` would run there, with nothing but `core`; its drivers of the two chips are
//! in `tools/firmware/src/drivers.rs`. `main` is the workbench around it: it holds the chips, takes
//! the power away and prints.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

mod device {
    use firmware::drivers::{Card, Fram};
    use full_block::FullBlock;
    use journal_core::{
        Batched, BlockSize, Entry, Geometry, Journal, JournalMemory, LaneMemory, Needs, NoHook,
        Node, On, OpenError, PortableKernels, Protocol,
    };

    pub(super) const BLOCK: BlockSize = BlockSize::new(512).unwrap();
    pub(super) const FRAM_BYTES: usize = 8 * 1024;

    /// The shape of the journal, which is fixed when it is formatted.
    pub(super) const GEOMETRY: Geometry = Geometry {
        block_size: BLOCK,
        // One thread commits.
        lanes: 1,
        lane_bytes: 7 * 1024,
        // `FullBlock` logs whole images, which need no shield from torn writes to the card.
        shield_blocks: 0,
        // There are two superblocks, each in a unit of its own.
        unit_bytes: 256,
        protocol: Protocol::OneFence,
        lane_slots: 0,
        lane_log_blocks: 0,
        segment_blocks: 0,
    };

    const _: () = assert!(GEOMETRY.check().is_ok(), "what cannot work does not compile");
    const _: () = assert!(GEOMETRY.span_bytes().unwrap() <= FRAM_BYTES as u64);
    const _: () = assert!(size_of::<Ram<'_>>() <= 8 * 1024, "that is what the linker script has");

    /// Changes of blocks that the journal keeps track of: the lane holds no more images.
    const FRAMES: usize = GEOMETRY.lane_bytes as usize / BLOCK.bytes();
    const NEEDS: Needs = Needs::of(&GEOMETRY, FRAMES);
    /// How many blocks a checkpoint sorts, and merges into one write, at a time. One would do.
    const BATCH_BLOCKS: usize = 2;

    /// All the memory that the journal works in. Nothing in it needs to survive anything.
    pub(super) struct Ram<'f> {
        lanes: [LaneMemory<Fram<'f>>; NEEDS.lanes],
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
                lanes: [const { LaneMemory::EMPTY }; NEEDS.lanes],
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

    pub(super) type Store<'r, 'f, 'c> = Journal<'r, FullBlock, On<Fram<'f>, Card<'c>>>;

    /// Once in a device's life. The id has to be new each time, so a serial number will not do.
    pub(super) fn format(fram: &mut [u8], card: &[u8], id: [u8; 16]) -> Result<(), OpenError> {
        let blocks = (card.len() / BLOCK.bytes()) as u64;
        let kernels = &PortableKernels;
        journal_core::format(Fram::new(fram), NoHook, kernels, &GEOMETRY, id, &FullBlock, blocks)
    }

    /// At every start, whatever happened before.
    pub(super) fn start<'r, 'f, 'c>(
        fram: &'f mut [u8],
        card: &'c mut [u8],
        ram: &'r mut Ram<'f>,
    ) -> Result<Store<'r, 'f, 'c>, OpenError> {
        let memory = ram.borrow();
        let (fram, card) = (Fram::new(fram), Card::new(card, BLOCK));
        Journal::open(fram, card, FullBlock, NoHook, PortableKernels, memory)
    }
}

use core::error::Error;
use std::sync::{Mutex, PoisonError};

use device::{BLOCK, FRAM_BYTES, GEOMETRY, Ram, Store};
use journal_core::policy::{Change, Update};
use journal_core::units::LaneNumber;
use journal_core::{BlockNumber, Durability, Operation};

const BLOCK_BYTES: usize = BLOCK.bytes();
const LANE: LaneNumber = LaneNumber(0);
const VALVE: u64 = 3;
const PUMP: u64 = 4;

/// Firmware has no `std::sync::Mutex`, but a mutex that masks interrupts, or a cell.
static RAM: Mutex<Ram<'static>> = Mutex::new(Ram::new());

/// A block of the device: a line, and blanks behind it.
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
    println!("  committed {:?} and {:?}: {}", line(&open), line(&off), done.sequence);
    let done = store.commit(LANE, &[put(PUMP, &on)], Durability::Durable)?;
    println!("  committed {:?}: {}", line(&on), done.sequence);
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
    println!("  {} bytes of the lane are free again", report.freed_bytes);
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    // The chips outlive the power; the journal, which borrows from them, does not.
    let mut fram = [0xFF; FRAM_BYTES];
    let mut card = [b' '; 64 * BLOCK_BYTES];
    let home = |card: &[u8]| [VALVE, PUMP].map(|at| line(&card[at as usize * 512..][..512]));
    device::format(&mut fram, &card, *b"random, each one")?;
    println!("formatted: {} bytes of FRAM", GEOMETRY.span_bytes().unwrap_or_default());
    println!("to work in: {} bytes of RAM", size_of::<Ram<'_>>());

    println!("power on, the journal's memory on the stack");
    {
        let mut ram = Ram::new();
        first_life(&mut device::start(&mut fram, &mut card, &mut ram)?)?;
    }
    println!("power off; at home on the card are {:?}", home(&card));

    println!("power on, the journal's memory in a static");
    {
        // A static refers to nothing that lives shorter, so the chip is there for good.
        let fram: &'static mut [u8] = Vec::from(fram).leak();
        let mut ram = RAM.lock().unwrap_or_else(PoisonError::into_inner);
        second_life(&mut device::start(fram, &mut card, &mut ram)?)?;
    }
    println!("power off; at home on the card are {:?}", home(&card));
    Ok(())
}

#[test]
fn it_runs() {
    main().expect("nothing fails");
}
