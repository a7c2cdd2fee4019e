//! A file disk against a plain vector, and what it refuses.

use core::cell::RefCell;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use journal_core::Overwrite;
use pmem_sys::Step;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};

use super::*;
use crate::disk::error::{FileDiskError, FileDiskErrorKind};
use crate::disk::options::FileDiskOptions;

const BLOCKS: u64 = 16;
const BLOCK: usize = 4096;

/// A name that goes, with its file, when it is dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let name = format!("nvm-journal-file-disk-{}-{name}", std::process::id());
        Self(std::env::temp_dir().join(name))
    }

    fn create(&self, options: FileDiskOptions) -> Result<FileDisk, FileDiskError> {
        options.create(&self.0, BlockSize::DEFAULT, BLOCKS)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Says something that the harness would swallow.
fn say_loudly(text: &str) {
    use std::io::Write as _;
    std::io::stderr().write_all(text.as_bytes()).expect("a standard error");
}

/// A disk past the cache, unless the temporary directory is on a file system that refuses.
fn direct(scratch: &Scratch) -> Option<FileDisk> {
    match scratch.create(FileDiskOptions::new().direct(true)) {
        Ok(disk) => Some(disk),
        Err(FileDiskError { kind: FileDiskErrorKind::DirectRefused { source }, .. }) => {
            assert!(!scratch.0.exists(), "no file is left behind");
            say_loudly(&format!("NOT TESTED: direct I/O, which the system refuses: {source}\n"));
            None
        }
        Err(error) => panic!("{error}"),
    }
}

#[derive(Clone, Debug)]
enum Act {
    Read { first: u64, blocks: usize, shift: usize },
    Write { first: u64, parts: Vec<usize>, shift: usize, seed: u8 },
    Sync,
}

fn steps() -> impl Strategy<Value = Vec<Act>> {
    let shift = prop_oneof![Just(0), 1..64_usize];
    let read = (0..BLOCKS + 2, 0..6_usize, shift.clone());
    let read = read.prop_map(|(first, blocks, shift)| Act::Read { first, blocks, shift });
    let parts = proptest::collection::vec(0..4_usize, 0..6);
    let write = (0..BLOCKS + 2, parts, shift, any::<u8>());
    let write =
        write.prop_map(|(first, parts, shift, seed)| Act::Write { first, parts, shift, seed });
    let step = prop_oneof![4 => read, 6 => write, 1 => Just(Act::Sync)];
    proptest::collection::vec(step, 1..24)
}

/// Bytes that begin `shift` bytes behind a page.
fn shifted(memory: &mut Vec<u8>, len: usize, shift: usize) -> &mut [u8] {
    memory.resize(len + 4096 + shift, 0);
    let start = memory.as_ptr().align_offset(4096) + shift;
    &mut memory[start..][..len]
}

fn run(disk: &mut FileDisk, model: &mut [u8], step: &Act) -> Result<(), TestCaseError> {
    let place = |first: u64| first as usize * BLOCK;
    let mut memory = Vec::new();
    match step {
        Act::Read { first, blocks, shift } => {
            let into = shifted(&mut memory, blocks * BLOCK, *shift);
            match disk.read(BlockNumber(*first), into) {
                Ok(()) => prop_assert_eq!(&*into, &model[place(*first)..][..into.len()]),
                Err(error) => {
                    prop_assert_eq!(error.kind, DeviceErrorKind::OutOfRange);
                    prop_assert!(first + *blocks as u64 > BLOCKS);
                }
            }
        }
        Act::Write { first, parts, shift, seed } => {
            let len = parts.iter().sum::<usize>() * BLOCK;
            let bytes = shifted(&mut memory, len, *shift);
            for (at, byte) in bytes.iter_mut().enumerate() {
                *byte = seed.wrapping_add((at / 7) as u8);
            }
            let mut rest = &*bytes;
            let mut slices = Vec::new();
            for blocks in parts {
                let (part, behind) = rest.split_at(blocks * BLOCK);
                slices.push(part);
                rest = behind;
            }
            let written = match &*slices {
                [only] => disk.write(BlockNumber(*first), only),
                _ => disk.write_vectored(BlockNumber(*first), &slices),
            };
            match written {
                Ok(()) => model[place(*first)..][..len].copy_from_slice(bytes),
                Err(error) => {
                    prop_assert_eq!(error.kind, DeviceErrorKind::OutOfRange);
                    prop_assert!(place(*first) + len > model.len());
                }
            }
        }
        Act::Sync => prop_assert_eq!(disk.sync(), Ok(())),
    }
    Ok(())
}

fn is_as_its_model(mut disk: FileDisk, scratch: &Scratch) {
    let mut model = vec![0; BLOCKS as usize * BLOCK];
    let mut runner = TestRunner::new(Config::with_cases(64));
    let model_of = RefCell::new((&mut disk, &mut model));
    let outcome = runner.run(&steps(), |steps| {
        let (disk, model) = &mut *model_of.borrow_mut();
        steps.iter().try_for_each(|step| run(disk, model, step))
    });
    outcome.expect("the file is as the model");
    drop(disk);
    assert_eq!(fs::read(&scratch.0).expect("is there"), model);
}

#[test]
fn through_the_cache_it_is_as_its_model() {
    let scratch = Scratch::new("model");
    let disk = scratch.create(FileDiskOptions::new()).expect("a new file");
    assert!(!disk.is_direct());
    is_as_its_model(disk, &scratch);
}

#[test]
fn past_the_cache_it_is_as_its_model() {
    let scratch = Scratch::new("direct-model");
    let Some(disk) = direct(&scratch) else { return };
    assert!(disk.is_direct());
    is_as_its_model(disk, &scratch);
}

#[test]
fn more_buffers_than_one_call_takes_and_more_bytes_than_the_bounce_has() {
    for is_direct in [false, true] {
        let scratch = Scratch::new(if is_direct { "many-direct" } else { "many" });
        if is_direct && direct(&scratch).is_none() {
            continue;
        }
        let _ = fs::remove_file(&scratch.0);
        let options = FileDiskOptions::new().direct(is_direct);
        let size = BlockSize::new(512).expect("a power of two");
        let blocks = 3 * SLICES_MAX as u64;
        let mut disk = match options.create(&scratch.0, size, blocks) {
            Ok(disk) => disk,
            // A disk of sectors of 4096 bytes refuses smaller blocks.
            Err(FileDiskError { kind: FileDiskErrorKind::DirectRefused { .. }, .. }) => continue,
            Err(error) => panic!("{error}"),
        };
        let content: Vec<u8> = (0..blocks as usize * 512).map(|at| (at / 511) as u8).collect();
        let parts: Vec<&[u8]> = content.chunks(512).collect();
        disk.write_vectored(BlockNumber(0), &parts).expect("fits");
        let mut read = vec![0; content.len() + 1];
        disk.read(BlockNumber(0), &mut read[1..]).expect("is there");
        assert!(read[1..] == content);
    }
}

#[test]
fn a_refusal_of_direct_io_is_told_and_not_worked_around() {
    // No disk has sectors that small.
    let scratch = Scratch::new("direct-refused");
    let direct = FileDiskOptions::new().direct(true);
    match direct.create(&scratch.0, BlockSize::MIN, BLOCKS).map_err(|error| error.kind) {
        Err(FileDiskErrorKind::DirectRefused { source }) => {
            assert!(source.raw_os_error().is_some(), "{source}");
            assert!(!scratch.0.exists(), "no file is left behind");
        }
        Ok(_) => return say_loudly("NOT TESTED: a refusal of direct I/O, there is none here\n"),
        Err(kind) => panic!("{kind}"),
    }
    drop(FileDisk::create(&scratch.0, BlockSize::MIN, BLOCKS).expect("a new file"));
    let refused = direct.open(&scratch.0, BlockSize::MIN);
    assert!(matches!(kind_of(refused), FileDiskErrorKind::DirectRefused { .. }));
    assert!(scratch.0.exists(), "what was there stays there");
}

#[test]
fn lengths_are_checked_before_anything_is_written() {
    let scratch = Scratch::new("lengths");
    let mut disk = scratch.create(FileDiskOptions::new()).expect("a new file");
    let refused = disk.write_vectored(BlockNumber(1), &[&[1; BLOCK], &[1; 100], &[1; BLOCK - 100]]);
    assert_eq!(refused.map_err(|error| error.kind), Err(DeviceErrorKind::WrongLength));
    let two: &[&[u8]] = &[&[1; BLOCK], &[1; BLOCK]];
    let refused = disk.write_vectored(BlockNumber(BLOCKS - 1), two);
    assert_eq!(refused.map_err(|error| error.kind), Err(DeviceErrorKind::OutOfRange));
    disk.write_vectored(BlockNumber(BLOCKS - 2), two).expect("fits");
    let content = fs::read(&scratch.0).expect("is there");
    assert!(content[..content.len() - 2 * BLOCK].iter().all(|byte| *byte == 0));
}

fn kind_of(outcome: Result<FileDisk, FileDiskError>) -> FileDiskErrorKind {
    outcome.expect_err("is refused").kind
}

#[test]
fn it_has_one_owner_under_every_name() {
    let scratch = Scratch::new("owner");
    let link = Scratch::new("owner-link");
    let open = |path: &PathBuf| FileDisk::open(path, BlockSize::DEFAULT);
    let disk = scratch.create(FileDiskOptions::new()).expect("a new file");
    fs::hard_link(&scratch.0, &link.0).expect("a link");
    assert!(matches!(kind_of(open(&scratch.0)), FileDiskErrorKind::Busy));
    assert!(matches!(kind_of(open(&link.0)), FileDiskErrorKind::Busy));
    let handle = disk.clone();
    drop(disk);
    assert!(matches!(kind_of(open(&link.0)), FileDiskErrorKind::Busy), "a handle is left");
    drop(handle);
    let file = File::options().read(true).append(true).open(&scratch.0).expect("is there");
    let copy = file.try_clone().expect("descriptors are to be had");
    let mut disk = FileDisk::from_file(file, BlockSize::DEFAULT).expect("is free");
    let busy = FileDisk::from_file(copy, BlockSize::DEFAULT);
    assert!(matches!(kind_of(busy), FileDiskErrorKind::Busy), "a duplicate is seen");
    disk.write(BlockNumber(3), &[3; BLOCK]).expect("does not append");
    drop(disk);
    let mut disk = open(&link.0).expect("is free");
    let mut block = [0; BLOCK];
    disk.read(BlockNumber(3), &mut block).expect("is there");
    assert_eq!((block, disk.block_count()), ([3; BLOCK], BLOCKS));
}

#[test]
fn what_cannot_be_a_disk_is_refused_and_says_why() {
    let scratch = Scratch::new("refused");
    let open = || FileDisk::open(&scratch.0, BlockSize::DEFAULT);
    let missing = open().expect_err("there is none");
    assert!(missing.to_string().contains("refused to open it"), "{missing}");
    assert!(matches!(missing.kind, FileDiskErrorKind::System { step: Step::Open, ref source }
        if source.kind() == io::ErrorKind::NotFound));
    fs::write(&scratch.0, [0; 100]).expect("a new file");
    assert!(matches!(kind_of(open()), FileDiskErrorKind::TooShort { bytes: 100, .. }));
    let exists = scratch.create(FileDiskOptions::new()).expect_err("there is one");
    assert!(matches!(exists.kind, FileDiskErrorKind::System { step: Step::Create, .. }));
    assert_eq!(fs::read(&scratch.0).expect("is left alone"), [0; 100]);
    let reads = File::open(&scratch.0).expect("is there");
    let reads = FileDisk::from_file(reads, BlockSize::DEFAULT);
    assert!(matches!(kind_of(reads), FileDiskErrorKind::NotWritable));
    let null = FileDisk::open("/dev/null", BlockSize::DEFAULT);
    assert!(matches!(kind_of(null), FileDiskErrorKind::NotADisk));
    let new = Scratch::new("refused-new");
    let endless = FileDisk::create(&new.0, BlockSize::DEFAULT, u64::MAX / 4096);
    assert!(matches!(kind_of(endless), FileDiskErrorKind::TooLong { .. }));
    let none = FileDisk::create(&new.0, BlockSize::DEFAULT, 0);
    assert!(matches!(kind_of(none), FileDiskErrorKind::TooShort { bytes: 0, .. }));
    assert!(!new.0.exists());
}

#[test]
fn errors_carry_what_the_system_said() {
    let scratch = Scratch::new("cut");
    let mut disk = scratch.create(FileDiskOptions::new()).expect("a new file");
    // Somebody cuts it short around the lock: there is nothing left to read, and no number for it.
    let file = File::options().write(true).open(&scratch.0).expect("is there");
    file.set_len(BLOCK as u64).expect("can be cut");
    let error = disk.read(BlockNumber(2), &mut [0; BLOCK]).expect_err("is cut off");
    assert_eq!(error.kind, DeviceErrorKind::Io { os: None });
    let broken = failed(DeviceOperation::Sync, BlockNumber(0))(io::Error::from_raw_os_error(5));
    assert_eq!(broken.kind, DeviceErrorKind::Io { os: Some(5) });
    let source = io::Error::from_raw_os_error(22);
    let refused = FileDiskError::from(FileDiskErrorKind::DirectRefused { source });
    assert_eq!(io::Error::from(refused).kind(), io::ErrorKind::Unsupported);
}

#[test]
fn facts_are_the_disks_that_nobody_knows_unless_stated() {
    let scratch = Scratch::new("facts");
    let disk = scratch.create(FileDiskOptions::new()).expect("a new file");
    assert_eq!(disk.facts(), DeviceFacts::cautious());
    let stated = DeviceFacts::new(4096, Overwrite::OldOrNew);
    assert_eq!(disk.with_facts(stated).facts(), stated);
}

#[test]
fn a_growing_disk_is_zero_behind_its_file_and_makes_it_longer() {
    let scratch = Scratch::new("growing");
    fs::write(&scratch.0, [7; BLOCK + 100]).expect("a file");
    let options = FileDiskOptions::new().growing(BLOCKS);
    let mut disk = options.open(&scratch.0, BlockSize::DEFAULT).expect("a disk");
    assert_eq!((disk.block_count(), disk.file_len().expect("a length")), (BLOCKS, 4196));
    // 1. What the file has, the rest of its last block, and a block behind it.
    let mut blocks = vec![1; 3 * BLOCK];
    disk.read(BlockNumber(0), &mut blocks).expect("zeroes");
    let (there, behind) = blocks.split_at(BLOCK + 100);
    assert!(there.iter().all(|byte| *byte == 7) && behind.iter().all(|byte| *byte == 0));
    // 2. A write makes it longer, and leaves a hole before it.
    disk.write_vectored(BlockNumber(3), &[&[3; BLOCK], &[4; BLOCK]]).expect("room");
    assert_eq!(disk.file_len().expect("a length"), 5 * BLOCK as u64);
    disk.write(BlockNumber(1), &[1; BLOCK]).expect("room");
    disk.read(BlockNumber(1), &mut blocks).expect("zeroes");
    let firsts: Vec<u8> = blocks.chunks(BLOCK).map(|block| block[BLOCK - 1]).collect();
    assert_eq!((firsts, disk.file_len().expect("a length")), (vec![1, 0, 3], 5 * BLOCK as u64));
    // 3. What is cut off is zero.
    disk.cut(BLOCK as u64 + 1).expect("it grows");
    disk.sync().expect("a sync");
    disk.read(BlockNumber(1), &mut blocks[..BLOCK]).expect("zeroes");
    assert_eq!((blocks[0], blocks[1]), (1, 0));
    assert_eq!(disk.file_len().expect("a length"), 4097);
    let past = disk.write(BlockNumber(BLOCKS), &[0; BLOCK]).expect_err("behind the disk");
    assert_eq!(past.kind, DeviceErrorKind::OutOfRange);
}

/// The end of the file is discarded while another handle writes behind it.
#[test]
fn a_growing_disk_cuts_off_nothing_that_another_handle_writes() {
    let scratch = Scratch::new("growing-beside");
    let disk = scratch.create(FileDiskOptions::new().growing(BLOCKS)).expect("a disk");
    let (mut one, mut other) = (disk.clone(), disk.clone());
    let both = std::sync::Barrier::new(2);
    let mut found = [0; BLOCK];
    for round in 0..500 {
        one.write(BlockNumber(5), &[1; BLOCK]).expect("room");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                both.wait();
                other.write(BlockNumber(6), &[2; BLOCK]).expect("room");
            });
            both.wait();
            one.discard(BlockNumber(5), 1).expect("can be");
        });
        one.read(BlockNumber(6), &mut found).expect("reads");
        assert!(found == [2; BLOCK], "in round {round}");
        one.discard(BlockNumber(6), 1).expect("can be");
    }
    // A write that is under way has the disk stay as long as it is.
    one.write(BlockNumber(5), &[1; BLOCK]).expect("room");
    let end = Arc::clone(&disk.end);
    std::thread::scope(|scope| {
        let writes = end.read().expect("no panic");
        let discard = scope.spawn(|| one.discard(BlockNumber(5), 1).expect("can be"));
        std::thread::sleep(core::time::Duration::from_millis(20));
        assert!(!discard.is_finished());
        drop(writes);
    });
}

/// The file has the same length and the same space afterwards, on file systems that zero a range
/// and on those that do not.
#[test]
fn zeroes_leave_what_is_beside_them_and_the_space() {
    let memory = Path::new("/dev/shm/nvm-journal-zeroes");
    let memory = Scratch(memory.with_extension(std::process::id().to_string()));
    let is_there = memory.0.parent().is_some_and(Path::is_dir);
    for scratch in [Scratch::new("zeroes")].iter().chain(is_there.then_some(&memory)) {
        for grows in [false, true] {
            drop(fs::remove_file(&scratch.0));
            fs::write(&scratch.0, vec![7; 40 * BLOCK + 100]).expect("a file");
            let mut options = FileDiskOptions::new();
            if grows {
                options = options.growing(100);
            }
            let mut disk = options.open(&scratch.0, BlockSize::DEFAULT).expect("a disk");
            let before = fs::metadata(&scratch.0).expect("a file");
            disk.write_zeroes(BlockNumber(2), 30).expect("can be");
            disk.write_zeroes(BlockNumber(9), 0).expect("can be");
            if grows {
                disk.write_zeroes(BlockNumber(39), 50).expect("can be");
                disk.write_zeroes(BlockNumber(70), 3).expect("is zero");
            }
            disk.sync().expect("a sync");
            let past = disk.write_zeroes(BlockNumber(disk.block_count() - 1), 2);
            assert_eq!(past.expect_err("behind the disk").kind, DeviceErrorKind::OutOfRange);
            let after = fs::metadata(&scratch.0).expect("a file");
            assert_eq!(after.len().div_ceil(4096), before.len().div_ceil(4096), "{grows}");
            assert_eq!(after.blocks(), before.blocks(), "{grows}");
            let bytes = fs::read(&scratch.0).expect("a file");
            let is_zero = |block: &[u8]| block.iter().all(|byte| *byte == 0);
            let zero = |(at, block): (usize, &[u8])| is_zero(block).then_some(at);
            let zeroes: Vec<_> = bytes.chunks(BLOCK).enumerate().filter_map(zero).collect();
            let expected = if grows { (2..32).chain(39..41) } else { (2..32).chain(0..0) };
            assert_eq!(zeroes, expected.collect::<Vec<_>>(), "{}", scratch.0.display());
        }
    }
}

#[test]
fn a_growing_disk_may_begin_with_nothing_and_has_all_of_a_longer_file() {
    let scratch = Scratch::new("growing-from-nothing");
    let options = FileDiskOptions::new().growing(2);
    let disk = options.create(&scratch.0, BlockSize::DEFAULT, 0).expect("a disk");
    assert_eq!((disk.block_count(), disk.file_len().expect("a length")), (2, 0));
    drop(disk);
    let disk = options.open(&scratch.0, BlockSize::DEFAULT).expect("a disk");
    disk.cut(3 * BLOCK as u64 + 1).expect("it grows");
    drop(disk);
    let disk = options.open(&scratch.0, BlockSize::DEFAULT).expect("a disk");
    assert_eq!(disk.block_count(), 4);
    drop(disk);
    let plain = FileDisk::open(&scratch.0, BlockSize::DEFAULT).expect("a disk");
    let refused = plain.cut(0).expect_err("it does not grow");
    assert!(matches!(refused.kind, FileDiskErrorKind::CannotGrow));
    assert_eq!((plain.block_count(), plain.file_len().expect("a length")), (3, 12_289));
    drop(plain);
    let open = |options: FileDiskOptions| options.open(&scratch.0, BlockSize::DEFAULT);
    assert!(matches!(kind_of(open(options.direct(true))), FileDiskErrorKind::CannotGrow));
    let long = open(options.growing(u64::MAX / 4096));
    assert!(matches!(kind_of(long), FileDiskErrorKind::TooLong { .. }));
    fs::write(&scratch.0, []).expect("a file");
    let none = open(FileDiskOptions::new().growing(0));
    assert!(matches!(kind_of(none), FileDiskErrorKind::TooShort { .. }));
}
