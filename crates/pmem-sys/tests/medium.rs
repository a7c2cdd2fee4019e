//! The port on every medium that a plain machine has: contents, limits, facts, demands.
#![allow(clippy::std_instead_of_core, reason = "a test of std code")]

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use journal_core::{Granularity, MediumErrorKind, Offset, Pmem, PmemRead, PmemShare, PmemSplit};
use pmem_sys::{
    EmulatorModel, FlushMethod, MapError, MapErrorKind, MapOptions, Method, Reason, Region, Step,
    StreamMethod,
};
use proptest::prelude::*;

/// A directory that goes with the test.
struct Scratch(PathBuf);

impl Scratch {
    fn in_directory(parent: &Path, name: &str) -> Self {
        let directory = parent.join(format!("pmem-sys-{name}-{}", std::process::id()));
        drop(fs::remove_dir_all(&directory));
        fs::create_dir(&directory).expect("the directory takes entries");
        Self(directory)
    }

    fn new(name: &str) -> Self {
        Self::in_directory(&std::env::temp_dir(), name)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn file_of(&self, name: &str, len: u64) -> PathBuf {
        let path = self.file(name);
        fs::File::create(&path).and_then(|file| file.set_len(len)).expect("the disk takes files");
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

fn kind<T>(outcome: Result<T, MapError>) -> Option<MapErrorKind> {
    outcome.err().map(|error| error.kind)
}

fn commit(region: &mut Region, at: u64, bytes: &[u8]) {
    region.store(Offset(at), bytes);
    region.flush(Offset(at), bytes.len());
    region.fence().expect("the medium works");
}

// --- contents ------------------------------------------------------------------------------------

#[derive(Clone, Debug)]
enum Call {
    Store(u64, Vec<u8>),
    Stream(u64, Vec<u8>),
    Word(u64, u64),
    Flush(u64, usize),
    Fence,
}

const LEN: usize = if cfg!(miri) { 1024 } else { 4096 };

fn steps() -> impl Strategy<Value = Vec<Call>> {
    let range = || {
        (0..LEN, proptest::collection::vec(any::<u8>(), 0..300)).prop_map(|(at, mut bytes)| {
            bytes.truncate(LEN - at);
            (at as u64, bytes)
        })
    };
    let step = prop_oneof![
        range().prop_map(|(at, bytes)| Call::Store(at, bytes)),
        range().prop_map(|(at, bytes)| Call::Stream(at, bytes)),
        (0..LEN as u64 / 8, any::<u64>()).prop_map(|(word, value)| Call::Word(word * 8, value)),
        (0..LEN, 0usize..300).prop_map(|(at, len)| Call::Flush(at as u64, len.min(LEN - at))),
        Just(Call::Fence),
    ];
    proptest::collection::vec(step, 0..if cfg!(miri) { 6 } else { 40 })
}

/// Three neighbouring regions: the middle one takes the steps, the outer ones keep their bytes.
fn runs_like_a_vector(region: Region, steps: &[Call]) {
    let (mut before, rest) = region.split_at(Offset(LEN as u64)).expect("on a line");
    let (mut middle, mut after) = rest.split_at(Offset(LEN as u64)).expect("on a line");
    let reader = middle.reader();
    commit(&mut before, 0, &[0xaa; LEN]);
    commit(&mut after, 0, &[0xbb; LEN]);
    let mut model = vec![0; LEN];
    for step in steps {
        match step {
            Call::Store(at, bytes) => {
                middle.store(Offset(*at), bytes);
                model[*at as usize..][..bytes.len()].copy_from_slice(bytes);
            }
            Call::Stream(at, bytes) => {
                middle.stream(Offset(*at), bytes);
                middle.fence().expect("the medium works");
                model[*at as usize..][..bytes.len()].copy_from_slice(bytes);
            }
            Call::Word(at, value) => {
                middle.store_u64(Offset(*at), *value);
                model[*at as usize..][..8].copy_from_slice(&value.to_le_bytes());
            }
            Call::Flush(at, len) => middle.flush(Offset(*at), *len),
            Call::Fence => middle.fence().expect("the medium works"),
        }
        assert_eq!(middle.bytes(Offset(0), LEN), Ok(&model[..]));
    }
    let mut copy = vec![1; LEN];
    reader.read_into(Offset(0), &mut copy).expect("in range");
    assert_eq!(copy, model);
    middle.read_into(Offset(0), &mut copy).expect("in range");
    assert_eq!(copy, model);
    assert!(before.bytes(Offset(0), LEN).is_ok_and(|bytes| bytes.iter().all(|b| *b == 0xaa)));
    assert!(after.bytes(Offset(0), LEN).is_ok_and(|bytes| bytes.iter().all(|b| *b == 0xbb)));
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 1 } else { 100 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn any_calls_leave_what_a_vector_holds(steps in steps()) {
        runs_like_a_vector(Region::anonymous(3 * LEN as u64).expect("there is memory"), &steps);
        let instant = EmulatorModel::new(Duration::ZERO);
        runs_like_a_vector(Region::emulated(3 * LEN as u64, instant).expect("memory"), &steps);
    }
}

#[test]
#[cfg_attr(miri, ignore = "Miri maps no files")]
fn any_calls_leave_what_a_vector_holds_in_a_file_too() {
    let scratch = Scratch::new("contents");
    let steps: Vec<_> = (0..60)
        .map(|i: usize| match i % 4 {
            0 => Call::Store((i * 67 % 3000) as u64, vec![i as u8; i * 13 % 300]),
            1 => Call::Stream((i * 41 % 3000) as u64, vec![i as u8; i * 29 % 900]),
            2 => Call::Word((i * 8) as u64, i as u64),
            _ => Call::Flush(0, LEN),
        })
        .collect();
    let region = MapOptions::new().create(scratch.file("a"), 3 * LEN as u64).expect("a new file");
    runs_like_a_vector(region, &steps);
}

#[test]
fn a_word_is_little_endian() {
    let mut region = Region::anonymous(64).expect("there is memory");
    region.store_u64(Offset(8), 0x0102_0304_0506_0708);
    assert_eq!(region.bytes(Offset(8), 8), Ok(&[8, 7, 6, 5, 4, 3, 2, 1][..]));
}

/// A writer flips a block between two images; readers see each word old or new, never mixed.
#[test]
fn readers_beside_a_writer_see_whole_words() {
    let mut region = Region::anonymous(4096).expect("there is memory");
    let reader = region.reader();
    let rounds = if cfg!(miri) { 4 } else { 20_000 };
    let done = std::sync::atomic::AtomicBool::new(false);
    crossbeam::scope(|scope| {
        for thread in 0..2 {
            let (reader, done) = (reader.clone(), &done);
            scope.spawn(move |_| {
                // Unaligned, so that words cut at both ends are read too.
                let (from, len) = if thread == 0 { (0, 256) } else { (3, 250) };
                let mut copy = vec![0; len];
                while !done.load(std::sync::atomic::Ordering::Relaxed) {
                    reader.read_into(Offset(from), &mut copy).expect("in range");
                    let offset = (8 - from as usize % 8) % 8;
                    for word in copy[offset..].chunks_exact(8) {
                        assert!(word.iter().all(|byte| *byte == word[0]), "torn: {word:?}");
                    }
                    for (index, byte) in copy.iter().enumerate() {
                        assert!([0, 0x55, 0xaa].contains(byte), "byte {index} is {byte}");
                    }
                }
            });
        }
        for round in 0..rounds {
            let byte = if round % 2 == 0 { 0x55 } else { 0xaa };
            match round % 3 {
                0 => region.store(Offset(0), &[byte; 256]),
                1 => region.stream(Offset(0), &[byte; 256]),
                // Two stores that meet inside a word would tear it, so the cut is at a word.
                _ => {
                    region.store(Offset(0), &[byte; 24]);
                    region.store(Offset(24), &[byte; 232]);
                }
            }
            region.fence().expect("plain memory does not fail");
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
    })
    .expect("no thread panics");
}

/// A word that is stored in part keeps its other bytes, also in the eyes of a reader.
#[test]
fn a_word_stored_in_part_is_never_seen_half_done() {
    let mut region = Region::anonymous(64).expect("there is memory");
    let reader = region.reader();
    let rounds = if cfg!(miri) { 10 } else { 100_000u32 };
    let done = std::sync::atomic::AtomicBool::new(false);
    crossbeam::scope(|scope| {
        scope.spawn(|_| {
            let mut word = [0; 8];
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                reader.read_into(Offset(8), &mut word).expect("in range");
                assert!(word[1..6].iter().all(|byte| *byte == word[1]), "torn: {word:?}");
                assert_eq!((word[0], word[6], word[7]), (0, 0, 0));
            }
        });
        for round in 0..rounds {
            region.store(Offset(9), &[round as u8; 5]);
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
    })
    .expect("no thread panics");
}

// --- limits --------------------------------------------------------------------------------------

#[test]
fn reads_outside_are_errors_and_writes_outside_are_panics() {
    let (mut region, _rest) =
        Region::anonymous(256).expect("memory").split_at(Offset(128)).expect("on a line");
    let mut copy = [0; 16];
    for (at, len) in [(113, 16), (128, 1), (u64::MAX, 1), (u64::MAX - 3, 16), (0, 129)] {
        let outside = Err(MediumErrorKind::OutOfRange);
        let read = region.bytes(Offset(at), len).map(<[u8]>::len).map_err(|error| error.kind);
        assert_eq!(read, outside.map(|()| 0), "{len} at {at}");
        if len == 16 {
            let read = region.read_into(Offset(at), &mut copy).map_err(|error| error.kind);
            assert_eq!(read, outside);
        }
    }
    assert_eq!(region.bytes(Offset(128), 0), Ok(&[][..]));
    region.store(Offset(128), &[]);
    region.flush(Offset(128), 0);
    region.stream(Offset(128), &[]);
    let panics = |call: &mut dyn FnMut(&mut Region)| {
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| call(&mut region))).is_err()
    };
    let mut panics = panics;
    assert!(panics(&mut |region| region.store(Offset(121), &[0; 8])));
    assert!(panics(&mut |region| region.stream(Offset(121), &[0; 8])));
    if cfg!(miri) {
        return; // It takes seconds for each.
    }
    assert!(panics(&mut |region| region.flush(Offset(0), 129)));
    assert!(panics(&mut |region| region.store_u64(Offset(128), 0)));
    assert!(panics(&mut |region| region.store_u64(Offset(4), 0)));
    assert!(panics(&mut |region| region.store(Offset(u64::MAX), &[0; 8])));
}

#[test]
fn regions_are_cut_at_lines() {
    let whole = || Region::anonymous(256).expect("there is memory");
    for cut in [0, 64, 192, 256] {
        let (first, second) = whole().split_at(Offset(cut)).expect("on a line");
        assert_eq!((first.len(), second.len()), (cut, 256 - cut));
        assert_eq!(first.is_empty(), cut == 0);
    }
    for cut in [1, 8, 32, 63, 65, 72, 320, u64::MAX] {
        let refused = whole().split_at(Offset(cut)).map(|_| ()).map_err(|error| error.kind);
        assert_eq!(refused, Err(MediumErrorKind::OutOfRange));
    }
}

#[test]
fn plain_memory_is_whole_lines() {
    assert!(matches!(kind(Region::anonymous(0)), Some(MapErrorKind::Empty)));
    let odd = kind(Region::anonymous(100));
    assert!(matches!(odd, Some(MapErrorKind::Misaligned { len: 100, unit: 64 })));
    let short = kind(MapOptions::new().min_len(128).anonymous(64));
    assert!(matches!(short, Some(MapErrorKind::TooShort { len: 64, demanded: 128 })));
}

// --- files ---------------------------------------------------------------------------------------

#[test]
#[cfg_attr(miri, ignore = "Miri maps no files")]
fn the_length_of_a_file_is_checked_before_anything_is_loaded() {
    let scratch = Scratch::new("length");
    let open = |len| kind(MapOptions::new().min_len(8192).open(scratch.file_of("a", len)));
    assert!(matches!(open(0), Some(MapErrorKind::Empty)));
    let short = open(4096);
    assert!(matches!(short, Some(MapErrorKind::TooShort { len: 4096, demanded: 8192 })));
    for len in [8193, 8192 + 64, 12287] {
        assert!(matches!(open(len), Some(MapErrorKind::Misaligned { unit: 4096, .. })));
    }
    assert!(open(8192).is_none());
    let directory = kind(MapOptions::new().open(&scratch.0));
    assert!(matches!(directory, Some(MapErrorKind::System { step: Step::Open, .. })));
    let device = kind(MapOptions::new().open("/dev/null"));
    assert!(matches!(device, Some(MapErrorKind::NotAFile)));
}

#[test]
#[cfg_attr(miri, ignore = "Miri maps no files")]
fn create_makes_and_open_finds_and_neither_does_the_others_work() {
    let scratch = Scratch::new("create");
    let path = scratch.file("a");
    let missing = MapOptions::new().open(&path).expect_err("it does not exist");
    assert_eq!(missing.path.as_deref(), Some(path.as_path()));
    assert!(matches!(&missing.kind, MapErrorKind::System { step: Step::Open, source }
        if source.kind() == std::io::ErrorKind::NotFound));
    assert!(!path.exists(), "open never creates");
    drop(MapOptions::new().create(&path, 8192).expect("a new file"));
    let exists = kind(MapOptions::new().create(&path, 4096));
    assert!(matches!(exists, Some(MapErrorKind::System { step: Step::Create, source })
        if source.kind() == std::io::ErrorKind::AlreadyExists));
    assert_eq!(fs::metadata(&path).map(|found| found.len()).ok(), Some(8192));
    for (name, len) in [("b", 0), ("c", 100)] {
        assert!(kind(MapOptions::new().create(scratch.file(name), len)).is_some());
        assert!(!scratch.file(name).exists(), "a refused length leaves no file");
    }
    use std::os::unix::fs::MetadataExt;
    let found = fs::metadata(&path).expect("it was created");
    assert!(found.blocks() * 512 >= found.len(), "all its space is allocated");
}

#[test]
#[cfg_attr(miri, ignore = "Miri maps no files")]
fn a_file_keeps_what_was_written() {
    let scratch = Scratch::new("reopen");
    let path = scratch.file("a");
    let mut region = MapOptions::new().page_cache().create(&path, 16384).expect("a new file");
    assert_eq!(region.map_facts().reason, Reason::PageCacheAsked);
    assert_eq!(region.facts().granularity, Granularity::Page);
    commit(&mut region, 4090, b"across a page");
    region.stream(Offset(9000), &[7; 5000]);
    region.fence().expect("the disk works");
    drop(region);
    let region = MapOptions::new().open(&path).expect("it is free again");
    assert_eq!(region.bytes(Offset(4090), 13), Ok(&b"across a page"[..]));
    assert_eq!(region.bytes(Offset(9000), 5000), Ok(&[7; 5000][..]));
    drop(region);
    let content = fs::read(&path).expect("it is a file");
    assert_eq!(&content[4090..4103], b"across a page");
    let file = fs::File::options().read(true).write(true).open(&path).expect("it is a file");
    let region = MapOptions::new().open_file(file).expect("it is free again");
    assert_eq!(region.bytes(Offset(0), 4), Ok(&[0; 4][..]));
}

#[test]
#[cfg_attr(miri, ignore = "Miri maps no files")]
fn a_handle_that_cannot_write_is_refused() {
    let scratch = Scratch::new("readonly");
    let file = fs::File::open(scratch.file_of("a", 4096)).expect("it is a file");
    assert!(matches!(kind(MapOptions::new().open_file(file)), Some(MapErrorKind::NotWritable)));
}

// --- facts and demands ---------------------------------------------------------------------------

/// Where there is no persistent memory the kernel refuses, we say so, and a demand is a refusal.
#[test]
#[cfg_attr(miri, ignore = "Miri maps no files")]
fn a_demand_is_met_or_refused_with_the_reason() {
    for parent in [std::env::temp_dir(), PathBuf::from("/dev/shm")] {
        if !parent.is_dir() {
            continue;
        }
        let scratch = Scratch::in_directory(&parent, "demand");
        let path = scratch.file("a");
        let region = MapOptions::new().create(&path, 4096).expect("a new file");
        let facts = region.map_facts();
        let reason = match facts.reason {
            // A machine with persistent memory there; nothing to refuse.
            Reason::MapSync | Reason::PersistentCaches => continue,
            reason => reason,
        };
        // What lies in memory is flushed by the line, and meets no demand for all that.
        let is_in_memory = reason == Reason::FileInMemory;
        assert_eq!(facts.granularity == Granularity::Line, is_in_memory);
        let is_refused = matches!(reason, Reason::MapSyncRefused { .. } | Reason::NoLineFlush);
        assert!(is_refused || is_in_memory);
        assert!(!reason.is_volatile());
        drop(region);
        for demand in [Granularity::Line, Granularity::Store] {
            let options = MapOptions::new().at_least(demand);
            let refused = kind(options.open(&path));
            assert!(
                matches!(refused, Some(MapErrorKind::Granularity {
                    demanded, offered: Granularity::Page, reason: why
                }) if demanded == demand && why == reason),
                "{refused:?}"
            );
            assert!(kind(options.create(scratch.file("b"), 4096)).is_some());
            assert!(!scratch.file("b").exists(), "a refused demand leaves no file");
        }
        assert!(MapOptions::new().at_least(Granularity::Page).open(&path).is_ok());
    }
}

/// For machines that have it: `PMEM_SYS_DAX_DIR=/mnt/pmem cargo test`. Says so where it is skipped.
/// A directory on a disk, or on what stands in for one: `tmpfs` has no direct I/O on old kernels.
fn on_a_disk(name: &str) -> Scratch {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR"));
    Scratch::in_directory(target, name)
}

#[test]
#[cfg_attr(miri, ignore = "Miri has no direct I/O")]
fn by_direct_io_a_file_has_what_was_fenced_and_no_more() {
    let scratch = on_a_disk("direct-io");
    let path = scratch.file("a");
    let options = MapOptions::new().direct_io();
    let bytes = 3 << 20;
    let mut region = options.create(&path, bytes).expect("the file system has direct I/O");
    let facts = region.map_facts();
    assert_eq!((facts.granularity, facts.reason), (Granularity::Page, Reason::DirectIoAsked));
    assert!(!facts.reason.is_volatile());
    use std::os::unix::fs::MetadataExt;
    let found = fs::metadata(&path).expect("it was created");
    assert!(found.blocks() * 512 >= found.len(), "all its space is allocated");

    // One run, several runs, and one that is longer than a write.
    commit(&mut region, 4090, b"across a page");
    region.stream(Offset(100_000), &[1; 10]);
    region.stream(Offset(200_000), &[2; 10]);
    region.fence().expect("the disk works");
    region.stream(Offset(1 << 20), &vec![3; 2 << 20]);
    region.fence().expect("the disk works");
    // Nothing is written that was not flushed, or not fenced.
    region.store(Offset(50_000), b"not flushed");
    region.store(Offset(60_000), b"not fenced");
    region.flush(Offset(60_000), 10);
    let content = fs::read(&path).expect("it is a file");
    drop(region);
    let mut expected = vec![0; bytes as usize];
    expected[4090..][..13].copy_from_slice(b"across a page");
    expected[100_000..][..10].fill(1);
    expected[200_000..][..10].fill(2);
    expected[1 << 20..].fill(3);
    assert!(content == expected);

    let region = options.open(&path).expect("it is free again");
    assert!(region.bytes(Offset(0), expected.len()) == Ok(&expected[..]));
    let busy = kind(options.open(&path));
    assert!(matches!(busy, Some(MapErrorKind::Busy { .. })), "it is locked");
    drop(region);
    // The file is one like any other.
    let region = MapOptions::new().page_cache().open(&path).expect("it is free again");
    assert!(region.bytes(Offset(0), expected.len()) == Ok(&expected[..]));
}

#[test]
#[cfg_attr(miri, ignore = "Miri has no direct I/O")]
fn threads_make_their_own_parts_durable_by_direct_io() {
    let scratch = on_a_disk("direct-io-threads");
    let path = scratch.file("a");
    let region = MapOptions::new().direct_io().create(&path, 1 << 20).expect("direct I/O");
    let (first, second) = region.split_at(Offset(1 << 19)).expect("on a line");
    std::thread::scope(|scope| {
        for (mut part, number) in [(first, 1), (second, 2)] {
            let path = &path;
            scope.spawn(move || {
                for round in 0..50_u8 {
                    let at = u64::from(round) * 5000;
                    commit(&mut part, at, &[number; 100]);
                    let there = fs::read(path).expect("it is a file");
                    let start = ((usize::from(number) - 1) << 19) + at as usize;
                    assert_eq!(there[start..][..100], [number; 100]);
                }
            });
        }
    });
}

#[test]
fn a_file_on_persistent_memory_is_durable_by_the_line() {
    let Some(parent) = std::env::var_os("PMEM_SYS_DAX_DIR").map(PathBuf::from) else {
        use std::io::Write as _;
        let mut stderr = std::io::stderr();
        let told = writeln!(stderr, "SKIPPED: PMEM_SYS_DAX_DIR names no directory with DAX");
        return told.expect("standard error is open");
    };
    let scratch = Scratch::in_directory(&parent, "dax");
    let path = scratch.file("a");
    let options = MapOptions::new().at_least(Granularity::Line);
    let mut region = options.create(&path, 1 << 20).expect("the kernel grants MAP_SYNC");
    let facts = region.map_facts();
    match facts.reason {
        Reason::MapSync => assert_eq!(facts.granularity, Granularity::Line),
        Reason::PersistentCaches => assert_eq!(facts.granularity, Granularity::Store),
        reason => panic!("{reason}"),
    }
    commit(&mut region, 100, b"stored");
    region.stream(Offset(4090), &[7; 9000]);
    region.fence().expect("nothing to fail");
    let (region, _) = region.calibrate().expect("nothing to fail");
    drop(region);
    let region = options.open(&path).expect("it is free again");
    assert_eq!(region.bytes(Offset(100), 6), Ok(&b"stored"[..]));
    assert_eq!(region.bytes(Offset(4090), 9000), Ok(&[7; 9000][..]));
    drop(region);
    // The page cache can still be asked for.
    let region = MapOptions::new().page_cache().open(&path).expect("it is free again");
    assert_eq!(region.map_facts().reason, Reason::PageCacheAsked);
    assert_eq!(region.bytes(Offset(4090), 9000), Ok(&[7; 9000][..]));
}

#[test]
fn plain_memory_says_what_it_is() {
    let region = MapOptions::new().at_least(Granularity::Line).anonymous(64).expect("memory");
    let facts = region.map_facts();
    assert_eq!((facts.granularity, facts.reason), (Granularity::Line, Reason::Anonymous));
    assert!(facts.reason.is_volatile());
    let refused = kind(MapOptions::new().at_least(Granularity::Store).anonymous(64));
    assert!(matches!(refused, Some(MapErrorKind::Granularity { reason: Reason::Anonymous, .. })));
    let region = Region::emulated(64, EmulatorModel::njs()).expect("there is memory");
    assert_eq!(region.map_facts().reason, Reason::Emulated);
}

#[test]
fn explicit_instructions_are_used() {
    for flush in FlushMethod::supported() {
        for stream in StreamMethod::supported() {
            let method = Method::new(flush, stream).expect("both are supported");
            let mut region = MapOptions::new().method(method).anonymous(8192).expect("memory");
            assert_eq!(region.map_facts().method, method);
            commit(&mut region, 100, &[3; 200]);
            region.stream(Offset(4001), &[4; 1000]);
            region.fence().expect("plain memory does not fail");
            assert_eq!(region.bytes(Offset(100), 200), Ok(&[3; 200][..]));
            assert_eq!(region.bytes(Offset(4001), 1000), Ok(&[4; 1000][..]));
            // Others may follow on the same memory.
            region.set_method(Method::best()).expect("the best one flushes if any does");
            commit(&mut region, 150, &[5; 9]);
            assert_eq!(region.bytes(Offset(148), 3), Ok(&[3, 3, 5][..]));
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "Miri's clock does not measure")]
fn calibrating_keeps_the_content_and_sets_the_threshold() {
    let mut region = Region::anonymous(1 << 20).expect("there is memory");
    let before: Vec<u8> = (0..1 << 20).map(|index: u32| (index % 253) as u8).collect();
    commit(&mut region, 0, &before);
    let (region, measured) = region.calibrate().expect("plain memory does not fail");
    assert_eq!(region.bytes(Offset(0), before.len()), Ok(&before[..]));
    assert_eq!(region.facts().stream_from_bytes, measured.stream_from_bytes);
    assert_eq!(measured.points.len(), 10);
    let (first, second) = region.split_at(Offset(4096)).expect("on a line");
    assert_eq!(first.facts(), second.facts());
    assert_eq!(first.facts().stream_from_bytes, measured.stream_from_bytes);
}

/// What is slower by far is noticed: each flushed line costs a latency, each stream one.
#[test]
#[cfg_attr(miri, ignore = "Miri's clock does not measure")]
fn calibrating_finds_what_the_medium_is_like() {
    let slow = EmulatorModel::new(Duration::from_micros(2));
    let region = Region::emulated(1 << 18, slow).expect("there is memory");
    let (_, measured) = region.calibrate().expect("plain memory does not fail");
    let last = measured.points.last().expect("it was measured");
    assert!(last.stream_to_store < 0.5, "{measured:?}");
    assert!(measured.stream_from_bytes <= 16 * 64, "{measured:?}");
}

#[test]
#[cfg_attr(miri, ignore = "Miri maps no files")]
fn a_page_granular_medium_has_no_threshold_to_measure() {
    let scratch = Scratch::new("calibrate");
    let options = MapOptions::new().page_cache();
    let region = options.create(scratch.file("a"), 1 << 16).expect("a new file");
    let (region, measured) = region.calibrate().expect("nothing is written");
    assert!(measured.points.is_empty());
    assert_eq!(region.facts().stream_from_bytes, usize::MAX);
}
