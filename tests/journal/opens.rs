//! An open of large lanes, which several threads scan.

use journal_core::units::LaneNumber;
use journal_core::{
    BlockSize, Buffers, EXAMINE_BYTES_MAX, Geometry, NoHook, Offset, OpenError, Pmem as _,
    PmemRead as _, PmemShare as _, examine,
};
use nvm_journal::{
    AnyPolicy, Durability, Error, FullBlock, Journal, Operation, Options, Recovery, Region,
};
use pmem_sys::NativeKernels;

use crate::use_it::{BLOCK, BLOCKS, Files, block, memory};

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
