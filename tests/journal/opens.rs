//! An open of large lanes, which several threads scan.

use core::ops::ControlFlow;
use core::panic::AssertUnwindSafe;
use std::panic::catch_unwind;

use journal_core::check::crc64;
use journal_core::superblock::SuperblockError;
use journal_core::units::LaneNumber;
use journal_core::{
    BlockDevice as _, BlockSize, Buffers, DeviceFacts, EXAMINE_BYTES_MAX, Geometry, NoHook, Offset,
    OpenError, Overwrite, Pmem as _, PmemRead as _, PmemShare as _, examine,
};
use lab::erased::{DynDisk, DynHook, DynJournal, DynPmem, DynPolicy, any_options};
use nvm_journal::{
    AnyPolicy, Durability, Error, FullBlock, Journal, Operation, Options, Recovery, Region,
};
use pmem_sys::NativeKernels;
use sim_disk::{DiskImage, Image, Model, World};

use crate::use_it::{BLOCK, BLOCKS, Files, any_memory, block, memory};

const SPAN_BYTES: u64 = 6 << 20;

fn options() -> Options {
    Options::new().lanes(4).shield_blocks(0)
}

/// A journal with records in every lane, as a crash leaves it.
fn left() -> (Vec<u8>, Geometry) {
    let mut region = memory(SPAN_BYTES);
    let reader = region.reader();
    let geometry = options().plan(SPAN_BYTES, BlockSize::DEFAULT).expect("has room").geometry;
    let (kernels, files) = (NativeKernels::detect(), Files::new("filled"));
    let id = [7; 16];
    let policy = AnyPolicy::from(FullBlock);
    journal_core::format(&mut region, NoHook, &kernels, &geometry, id, &policy, BLOCKS)
        .expect("formats");
    let mut buffers = Buffers::new(&geometry, 1024, 64);
    let (disk, memory) = (files.disk(), buffers.borrow());
    let opened = journal_core::Journal::open(region, disk, policy, NoHook, kernels, memory);
    let mut journal = opened.expect("opens");
    for number in 0..160 {
        let image = [number as u8; BLOCK];
        let write = Operation::write(block(number), &image);
        let lane = LaneNumber((number % 4) as u16);
        journal.commit(lane, &[write], Durability::Durable).expect("fits");
    }
    let mut bytes = vec![0; SPAN_BYTES as usize];
    reader.read_into(Offset(0), &mut bytes).expect("reads");
    (bytes, geometry)
}

fn holding(bytes: &[u8]) -> Region {
    let mut region = memory(SPAN_BYTES);
    region.store(Offset(0), bytes);
    region
}

/// What opening says, which is what an examination foretells by one thread.
fn open(files: &Files, bytes: &[u8]) -> Result<Recovery, OpenError> {
    let region = holding(bytes);
    let mut scratch = vec![0; EXAMINE_BYTES_MAX];
    let examined = examine(&region, &NativeKernels::detect(), &mut scratch).expect("is a journal");
    let opened: Result<Journal<FullBlock>, _> = Journal::open(region, files.disk(), &options());
    let opened = match opened {
        Ok(journal) => Ok(*journal.recovery()),
        Err(Error::Open(error)) => Err(error),
        Err(error) => panic!("{error}"),
    };
    assert_eq!(opened, examined.verdict);
    opened
}

#[test]
fn lanes_that_several_threads_scan_are_found_as_one_finds_them() {
    let files = Files::new("scanned");
    let (bytes, geometry) = left();
    assert!(geometry.lane_bytes >= 1 << 20, "worth a thread");
    let recovery = open(&files, &bytes).expect("opens");
    assert_eq!((recovery.records, recovery.tails), (160, 4));
    for lane in (0..4).map(LaneNumber) {
        let mut rotten = bytes.clone();
        rotten[geometry.lane(lane).raw() as usize + 500] ^= 4;
        let error = open(&files, &rotten).expect_err("its first record is gone");
        assert!(matches!(error, OpenError::Rot { lane: found, .. } if found == lane), "{error}");
    }
    // Of two the first one is told of.
    let mut rotten = bytes;
    for lane in [3, 1].map(LaneNumber) {
        rotten[geometry.lane(lane).raw() as usize + 500] ^= 4;
    }
    let error = open(&files, &rotten).expect_err("their first records are gone");
    assert!(matches!(error, OpenError::Rot { lane: LaneNumber(1), .. }), "{error}");
}

/// Pages that this thread has taken so far, as the system counts them.
#[cfg(target_os = "linux")]
fn pages_taken() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/stat").expect("is there");
    // Behind the name, which may have anything in it.
    let (_, numbers) = stat.rsplit_once(") ").expect("has a name");
    numbers.split(' ').nth(7).and_then(|count| count.parse().ok()).expect("a number")
}

/// Commits to blocks that are of all shares, with records that together are of a few pages.
#[cfg(target_os = "linux")]
#[test]
fn who_asks_for_all_of_the_index_at_open_takes_no_page_in_a_commit() {
    let files = Files::new("at-once");
    let options = Options::new().lanes(1).index_frames(1 << 16).index_at_once(true);
    let journal = Journal::format(memory(1 << 20), files.disk(), &options).expect("formats");
    let discard = |number| {
        let discard = [Operation::Discard(block(number))];
        journal.commit(&discard, Durability::Durable).expect("commits");
    };
    discard(0);
    let before = pages_taken();
    (1..BLOCKS).for_each(discard);
    let taken = pages_taken() - before;
    assert!(taken < 16, "{taken}: more than those of the medium");
}

/// What a failed open gives back: the memory, if it does, and the disk, which is always there.
fn refused_by(nvm: DynPmem, files: &Files, options: &Options<DynPolicy, DynHook>) -> Refused {
    let opened: Result<DynJournal, _> = Journal::try_open(nvm, files.any_disk(), options);
    let (error, nvm, mut disk) = opened.expect_err("is refused");
    disk.read(block(0), &mut [0; BLOCK]).expect("the disk is given back, and can be used");
    (error, nvm)
}

type Refused = (Error, Option<DynPmem>);

/// Every reason for which an open is refused before it looks at the lanes gives the memory back as
/// it was; one that it finds in them has used it up.
#[test]
fn a_failed_open_gives_its_partners_back_whatever_the_reason() {
    use OpenError::{Geometry, Rot, Superblock, WrongDevice, WrongPolicy};
    use SuperblockError::{Corrupt, Features, NotAJournal, Unfinished, Version};
    let files = Files::new("given-back");
    let options = any_options(FullBlock, NoHook).lanes(1).lane_bytes(64 << 10).shield_blocks(0);
    let unit = 4096;
    // A closed journal of one record, whose loss is an error.
    let made = {
        let facts = DeviceFacts::new(64, Overwrite::OldOrNew);
        let disk = DiskImage::blank(BlockSize::DEFAULT, BLOCKS, facts);
        let world = World::boot(Image::blank(1 << 20).with_disk(disk), Model::Torn8);
        let (nvm, disk) = lab::erased::of_world(&world);
        let options = options.clone().keep_on_close(true);
        let journal = Journal::format(nvm, disk, &options).expect("formats");
        journal.transact(|tx| tx.write(block(1), &[1; BLOCK])).expect("commits");
        journal.close().expect("closes");
        world.visible().pmem().to_vec()
    };
    let memory_of = |bytes: &[u8]| {
        let mut memory = any_memory(bytes.len() as u64);
        memory.store(Offset(0), bytes);
        memory
    };
    // Puts bytes into both copies of the superblock, with right checks.
    let with_field = |at: usize, bytes: &[u8]| {
        let mut made = made.clone();
        for copy in [0, unit] {
            made[copy + at..][..bytes.len()].copy_from_slice(bytes);
            let check = crc64(0, &made[copy..][..128 + 32]);
            made[copy + 160..][..8].copy_from_slice(&check.to_le_bytes());
        }
        made
    };
    let flipped = |places: &[usize]| {
        let mut made = made.clone();
        places.iter().for_each(|at| made[*at] ^= 0x10);
        made
    };
    let void = [&b"nvmjvoid"[..], &made[8..]].concat();
    type IsIt = fn(&OpenError) -> bool;
    let cases: [(&str, Vec<u8>, IsIt); 8] = [
        ("nothing", vec![0; 1 << 20], |error| matches!(error, Superblock(NotAJournal))),
        ("void", void, |error| matches!(error, Superblock(Unfinished))),
        ("corrupt", flipped(&[100, unit + 100]), |error| matches!(error, Superblock(Corrupt))),
        ("version", with_field(8, &[9]), |error| matches!(error, Superblock(Version { .. }))),
        ("features", with_field(31, &[1]), |error| matches!(error, Superblock(Features { .. }))),
        ("geometry", with_field(68, &[2]), |error| {
            matches!(error, Superblock(SuperblockError::Geometry | Corrupt) | Geometry(_))
        }),
        ("short", made[..64 << 10].to_vec(), |error| matches!(error, Geometry(_))),
        ("policy", with_field(56, &[77]), |error| matches!(error, WrongPolicy { .. })),
    ];
    for (what, bytes, is_right) in cases {
        let (error, nvm) = refused_by(memory_of(&bytes), &files, &options);
        let Error::Open(open) = error else { panic!("{what}: {error:?}") };
        assert!(is_right(&open), "{what}: {open:?}");
        let nvm = nvm.unwrap_or_else(|| panic!("{what}: the memory is gone"));
        let mut left = vec![0; bytes.len()];
        nvm.read_into(Offset(0), &mut left).expect("reads");
        assert!(left == bytes, "{what}: the memory has changed");
    }
    // A disk of another length.
    let short = files.disk_of(BLOCKS / 2);
    let opened: Result<DynJournal, _> =
        Journal::try_open(memory_of(&made), DynDisk::new(short), &options);
    let (error, nvm, _) = opened.expect_err("is refused");
    assert!(matches!(error, Error::Open(WrongDevice { .. })) && nvm.is_some(), "{error:?}");
    // Options that cannot be.
    let (error, nvm) = refused_by(memory_of(&made), &files, &options.clone().batch_blocks(0));
    assert!(matches!(error, Error::Options(_)) && nvm.is_some(), "{error:?}");
    // Rot in a record that is known to be durable: the open had begun to take the memory apart.
    let (error, nvm) = refused_by(memory_of(&flipped(&[2 * unit + 200])), &files, &options);
    assert!(matches!(error, Error::Open(Rot { .. })) && nvm.is_none(), "{error:?}");
    // And nothing was wrong with the options.
    let opened: Result<DynJournal, _> =
        Journal::try_open(memory_of(&made), files.any_disk(), &options);
    assert!(opened.is_ok());
}

/// A panic in a caller's code leaves the journal in the middle of a checkpoint.
#[test]
fn a_panic_behind_a_batch_of_a_checkpoint_fails_the_journal() {
    let files = Files::new("panicking-batch");
    let options = any_options(FullBlock, NoHook).lanes(1).batch_blocks(2).shield_blocks(2);
    let (span, mut count) = (1 << 20, 0);
    let facts = DeviceFacts::new(64, Overwrite::OldOrNew);
    let disk = DiskImage::blank(BlockSize::DEFAULT, BLOCKS, facts);
    let world = World::boot(Image::blank(span).with_disk(disk), Model::Torn8);
    let (nvm, disk) = lab::erased::of_world(&world);
    let journal: DynJournal = Journal::format(nvm, disk, &options).expect("formats");
    for number in 0..8 {
        journal.transact(|tx| tx.write(block(number), &[5; BLOCK])).expect("commits");
    }
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        journal.checkpoint_steps(|_, _| {
            count += 1;
            assert!(count < 2, "the caller's own");
            ControlFlow::Continue(())
        })
    }));
    assert!(panicked.is_err() && count == 2);
    assert_eq!(journal.failure(), Some(Error::Failed));
    let written = journal.transact(|tx| tx.write(block(9), &[6; BLOCK]));
    assert_eq!(written, Err(Error::Failed));
    assert_eq!(journal.checkpoint().map(drop), Err(Error::Failed));
    drop(journal);
    let (nvm, disk) = lab::erased::of_world(&world);
    let journal: DynJournal = Journal::open(nvm, disk, &options).expect("opens");
    for number in 0..8 {
        let mut found = [0; BLOCK];
        journal.read(block(number), &mut found).expect("reads");
        assert_eq!(found, [5; BLOCK]);
    }
    drop(files);
}
