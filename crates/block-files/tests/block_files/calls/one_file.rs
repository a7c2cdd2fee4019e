//! One file at its own place: against a byte vector, over a real disk, and its end.

use std::fs;
use std::sync::Arc;

use block_files::{BlockFiles, Error, OneFile, SpanDisk, Store, Write};
use lab::erased::{DynDisk, DynPmem, any_options};
use lab::test_disks::First;
use nvm_journal::ports::NoHook;
use nvm_journal::ports::{Offset, PmemSplit};
use nvm_journal::{BlockSize, Durability, FileDiskOptions, FullBlock, Joined, Journal, MapOptions};
use proptest::prelude::*;

use crate::calls::{journal, options, reopened, store, world};

fn content(file: &OneFile) -> Vec<u8> {
    let mut bytes = vec![9; file.len() as usize + 4];
    let read = file.read_at(0, &mut bytes).expect("readable");
    bytes.truncate(read);
    bytes
}

#[test]
fn its_last_block_is_not_the_files() {
    let store = store(1 << 16, 64, 10);
    assert_eq!(OneFile::open(Arc::clone(&store)).map(drop), Err(Error::NotFormatted));
    let file = OneFile::format(Arc::clone(&store), 0).expect("a file");
    assert_eq!((file.len(), file.len_max()), (0, 9 * 64));
    file.write_at(9 * 64 - 1, b"x").expect("room");
    let refused = file.write_at(9 * 64, b"x");
    assert_eq!(refused, Err(Error::TooFar { end: Some(9 * 64 + 1), most: 9 * 64 }));
    assert!(matches!(file.set_len(9 * 64 + 1), Err(Error::TooFar { .. })));
    drop(file);
    assert_eq!(OneFile::open(store).expect("a file").len(), 9 * 64);
}

#[test]
fn what_is_too_large_changes_nothing() {
    let file = OneFile::format(store(1 << 12, 64, 1000), 0).expect("a file");
    let refused = file.write_at(0, &[1; 10_000]);
    assert!(matches!(refused, Err(Error::TooLarge(_))), "{refused:?}");
    assert_eq!(file.len(), 0);
    file.write_at(0, &[1; 100]).expect("it goes on");
}

/// Blocks behind the end are cleared before the file covers them, however many there are.
#[test]
fn what_was_cut_off_never_comes_back() {
    let file = OneFile::format(store(1 << 14, 64, 400), 0).expect("a file");
    for at in 0..300 {
        file.write_at(at * 64, &[7; 64]).expect("room");
    }
    file.set_len(10).expect("shorter");
    file.set_len(300 * 64).expect("longer");
    let bytes = content(&file);
    assert!(bytes[..10].iter().all(|byte| *byte == 7) && bytes[10..].iter().all(|byte| *byte == 0));
}

#[test]
fn after_a_close_the_disk_is_the_file() {
    let name = format!("nvm-journal-one-file-{}", std::process::id());
    let folder = std::env::temp_dir().join(name);
    fs::create_dir(&folder).expect("a folder");
    let path = folder.join("file");
    fs::write(&path, b"what was there").expect("a file");
    let size = BlockSize::DEFAULT;
    let disk = FileDiskOptions::new().growing(1 << 30).open(&path, size).expect("a disk");
    let nvm = MapOptions::new().anonymous(1 << 20).expect("memory");
    let (state, nvm) = nvm.split_at(Offset(4096)).expect("room");
    let state = SpanDisk::new(state, size).expect("a disk");
    let joined = Joined::new(disk.clone(), state).expect("of one size");
    let options = any_options(FullBlock, NoHook).lanes(1);
    let (nvm, joined) = (DynPmem::new(nvm), DynDisk::new(joined));
    let journal: Arc<dyn Store> =
        Arc::new(Journal::format(nvm, joined, &options).expect("a journal"));
    let file = OneFile::format(journal, 14).expect("a file");
    assert_eq!(content(&file), b"what was there");
    let writes = [Write { at: 5, bytes: b"is" }, Write { at: 20_000, bytes: b"end" }];
    file.commit(&writes, None, Durability::Durable).expect("room");
    file.commit(&[], Some(20_002), Durability::Durable).expect("room");
    let mut expected = b"what is there".to_vec();
    expected = [&expected[..5], b"iss", &b"was there"[3..]].concat();
    expected.resize(20_002, 0);
    expected[20_000..].copy_from_slice(b"en");
    assert_eq!(content(&file), expected);
    file.close(|len| disk.cut(len).map_err(|_| Error::NotFound)).expect("a close");
    assert_eq!(fs::read(&path).expect("a file"), expected);
    assert!(file.state().is_closed);
    assert_eq!(file.write_at(0, b"late"), Err(Error::Closed));
    assert_eq!(file.read_at(0, &mut [0; 4]), Err(Error::Closed));
    drop((file, disk));
    fs::remove_dir_all(folder).expect("it is there");
}

/// A store becomes larger below its files: they say so, nothing is written, and they are there
/// again when the store is as large as it was.
#[test]
fn a_store_of_another_size_is_not_formatted_over() -> Result<(), Error> {
    let (small, large) = (20, 24);
    let options = options().resizes(true);
    for is_one in [true, false] {
        let world = world(1 << 16, 128, large);
        let media = |blocks| {
            let disk = DynDisk::new(First(world.disk(0), blocks));
            (DynPmem::new(world.pmem()), disk)
        };
        let open = |blocks| -> Arc<dyn Store> {
            let (nvm, disk) = media(blocks);
            Arc::new(Journal::open(nvm, disk, &options).expect("a journal"))
        };
        let (nvm, disk) = media(small);
        let journal = Journal::format(nvm, disk, &options).expect("a journal");
        let store: Arc<dyn Store> = Arc::new(journal);
        if is_one {
            OneFile::format(store, 0)?.write_at(0, b"all of it")?;
        } else {
            let files = BlockFiles::format(store)?;
            files.create("a")?.write_at(0, b"all of it")?;
            files.sync()?;
        }
        open(small).close()?;
        for blocks in [large, small] {
            let store = open(blocks);
            let opened = if is_one {
                OneFile::open(Arc::clone(&store)).map(|file| content(&file))
            } else {
                BlockFiles::open_or_format(Arc::clone(&store)).and_then(|files| {
                    let mut bytes = vec![0; 9];
                    files.open_file("a")?.read_at(0, &mut bytes)?;
                    Ok(bytes)
                })
            };
            let refused = if is_one {
                Error::NotFormatted
            } else {
                Error::OtherSize { found: small, given: large }
            };
            let is_small = blocks == small;
            let expected = if is_small { Ok(b"all of it".to_vec()) } else { Err(refused) };
            assert_eq!(opened, expected, "one: {is_one}");
            store.close()?;
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn it_is_as_a_vector(
        acts in prop::collection::vec(
            (0..3_u8, prop::collection::vec((0..600_usize, 0..200_usize), 0..4), 0..700_usize),
            1..30,
        ),
    ) {
        let world = world(1 << 16, 64, 20);
        let mut file = OneFile::format(Arc::new(journal(&world)), 0).expect("a file");
        let mut model: Vec<u8> = Vec::new();
        for (salt, (kind, writes, len)) in (1_u8..).zip(acts) {
            let buffers: Vec<Vec<u8>> =
                (salt..).zip(&writes).map(|(value, (_, bytes))| vec![value; *bytes]).collect();
            let writes: Vec<_> = writes
                .iter()
                .zip(&buffers)
                .map(|((at, _), bytes)| Write { at: *at as u64, bytes })
                .collect();
            let len = (kind == 1).then_some(len);
            file.commit(&writes, len.map(|len| len as u64), Durability::Deferred).expect("room");
            for Write { at, bytes } in writes {
                let (at, end) = (at as usize, at as usize + bytes.len());
                if !bytes.is_empty() {
                    model.resize(model.len().max(end), 0);
                    model[at..end].copy_from_slice(bytes);
                }
            }
            model.resize(len.unwrap_or(model.len()), 0);
            if kind == 2 {
                file.sync().expect("a sync");
                drop(file);
                file = OneFile::open(Arc::new(reopened(&world))).expect("a file");
            }
            prop_assert!(content(&file) == model);
        }
    }
}
