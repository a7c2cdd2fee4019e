//! What a user of files does, call by call.

use std::sync::Arc;
use std::thread;

use block_files::{BlockFile, BlockFiles, Error};
use lab::erased::{DynDisk, DynPmem, any_options};
use lab::test_disks::Forgets;
use nvm_journal::FullBlock;
use nvm_journal::ports::NoHook;

use crate::calls::{journal, reopened, store, world};

fn content(file: &BlockFile) -> Vec<u8> {
    let mut bytes = vec![9; file.len().expect("it is there") as usize + 5];
    let read = file.read_at(0, &mut bytes).expect("readable");
    bytes.truncate(read);
    bytes
}

#[test]
fn bytes_come_back_from_where_they_were_written() -> Result<(), Error> {
    let world = world(1 << 18, 128, 400);
    let files = BlockFiles::format(Arc::new(journal(&world)))?;
    let file = files.create("a")?;
    file.write_at(300, b"hello")?;
    assert_eq!(file.len()?, 305);
    let mut expected = vec![0; 300];
    expected.extend(b"hello");
    assert_eq!(content(&file), expected);
    file.set_len(302)?;
    file.set_len(310)?;
    expected.truncate(302);
    expected.resize(310, 0);
    assert_eq!(content(&file), expected, "what was cut off is zero");
    file.sync()?;
    drop((files, file));
    let files = BlockFiles::open(Arc::new(reopened(&world)))?;
    assert_eq!(files.list(), [("a".to_owned(), 310)]);
    assert_eq!(content(&files.open_file("a")?), expected);
    assert_eq!(files.open_file("b").unwrap_err(), Error::NotFound);
    Ok(())
}

#[test]
fn names_are_made_changed_and_removed() -> Result<(), Error> {
    let files = BlockFiles::format(store(1 << 18, 128, 400))?;
    let before = files.free_blocks();
    let a = files.create("a")?;
    assert_eq!(files.create("a").unwrap_err(), Error::Exists);
    a.write_at(0, &[1; 1000])?;
    files.create("b")?;
    assert_eq!(files.rename("a", "b").unwrap_err(), Error::Exists);
    files.batch().remove("b").rename("a", "b").commit()?;
    assert_eq!(files.list(), [("b".to_owned(), 1000)]);
    assert_eq!(content(&a), [1; 1000], "a handle outlives a name");
    for name in ["", "a\0", &"x".repeat(33)] {
        assert!(matches!(files.create(name), Err(Error::BadName { .. })), "{name:?}");
    }
    let long = "x".repeat(files.name_max());
    files.create(&long)?;
    files.remove(&long)?;
    files.remove("b")?;
    assert_eq!(files.free_blocks(), before, "nothing is left of them");
    assert_eq!(a.read_at(0, &mut [0]).unwrap_err(), Error::NotFound);
    assert_eq!(a.write_at(0, b"x").unwrap_err(), Error::NotFound);
    Ok(())
}

#[test]
fn a_batch_is_made_wholly_or_not_at_all() -> Result<(), Error> {
    let files = BlockFiles::format(store(1 << 18, 128, 400))?;
    let a = files.create("a")?;
    let before = (files.list(), files.free_blocks());
    let mut batch = files.batch();
    let b = batch.create("b");
    let batch = batch.write_at(&b, 500, b"b").set_len(&a, 7).rename("a", "c");
    let refused = batch.remove("nobody").commit();
    assert_eq!(refused, Err(Error::NotFound));
    assert_eq!((files.list(), files.free_blocks()), before);
    assert_eq!(b.len(), Err(Error::NotFound));
    let mut batch = files.batch();
    let b = batch.create("b");
    batch.write_at(&b, 0, b"bb").write_at(&b, 1, b"c").set_len(&a, 7).commit()?;
    assert_eq!((content(&b), content(&a)), (b"bc".to_vec(), vec![0; 7]));
    files.batch().commit()
}

#[test]
fn a_file_of_a_tebibyte_takes_the_blocks_that_were_written() -> Result<(), Error> {
    let files = BlockFiles::format(store(1 << 20, 4096, 100))?;
    let file = files.create("large")?;
    let free = files.free_blocks();
    let far = 1_u64 << 40;
    file.write_at(far - 3, b"abc")?;
    file.write_at(12_345, b"xyz")?;
    assert_eq!((file.len()?, free - files.free_blocks()), (far, 2));
    let mut bytes = [9; 8];
    assert_eq!(file.read_at(far - 6, &mut bytes)?, 6);
    assert_eq!(&bytes[..6], b"\0\0\0abc");
    let mut some = vec![9; 20_000];
    assert_eq!(file.read_at(1, &mut some)?, 20_000);
    let there: Vec<_> = some.iter().filter(|byte| **byte != 0).collect();
    assert_eq!((there.len(), some[12_344]), (3, b'x'));
    assert_eq!(file.read_at(far, &mut bytes)?, 0);
    file.set_len(i64::MAX as u64)?;
    assert!(matches!(file.set_len(1 << 63), Err(Error::TooFar { .. })));
    assert!(matches!(file.write_at(u64::MAX, &[1]), Err(Error::TooFar { end: None, .. })));
    file.set_len(0)?;
    assert_eq!(files.free_blocks(), free);
    Ok(())
}

#[test]
fn a_store_that_is_full_refuses_and_goes_on() -> Result<(), Error> {
    let files = BlockFiles::format(store(1 << 18, 128, 40))?;
    let (a, b) = (files.create("a")?, files.create("b")?);
    let room = files.free_blocks();
    a.write_at(0, &vec![1; (room as usize - 1) * 128])?;
    let before = files.list();
    let full = b.write_at(0, &[2; 256]).unwrap_err();
    assert_eq!(full, Error::NoRoom { wanted: 1, free: 0 });
    assert_eq!((files.list(), files.free_blocks()), (before, 1));
    // What a deferred change has freed can be had at once.
    a.set_len(0)?;
    b.write_at(0, &vec![2; (room as usize - 1) * 128])?;
    assert!(content(&b).iter().all(|byte| *byte == 2));
    Ok(())
}

#[test]
fn what_is_too_large_for_one_transaction_changes_nothing() -> Result<(), Error> {
    let files = BlockFiles::format(store(1 << 14, 128, 4000))?;
    let a = files.create("a")?;
    let before = files.free_blocks();
    let refused = a.write_at(0, &vec![1; 100_000]).unwrap_err();
    assert!(matches!(refused, Error::TooLarge(_)), "{refused}");
    assert_eq!((a.len()?, files.free_blocks()), (0, before));
    a.write_at(0, &[1; 500])
}

/// Blocks of a file that lie apart take nodes beside its head.
#[test]
fn scattered_blocks_are_found_again() -> Result<(), Error> {
    let world = world(1 << 18, 128, 600);
    let files = BlockFiles::format(Arc::new(journal(&world)))?;
    let file = files.create("scattered")?;
    let free = files.free_blocks();
    for number in (0..60_u64).rev() {
        file.write_at(number * 3 * 128, &[number as u8 + 1; 128])?;
    }
    let check = |files: &BlockFiles| -> Result<(), Error> {
        let bytes = content(&files.open_file("scattered")?);
        for (number, block) in (0_u64..).zip(bytes.chunks(128)) {
            let expected = if number % 3 == 0 { number / 3 + 1 } else { 0 };
            assert!(block.iter().all(|byte| u64::from(*byte) == expected), "block {number}");
        }
        Ok(())
    };
    check(&files)?;
    file.sync()?;
    drop((files, file));
    let files = BlockFiles::open(Arc::new(reopened(&world)))?;
    check(&files)?;
    let file = files.open_file("scattered")?;
    for left in (0..60_u64).rev() {
        file.set_len(left * 3 * 128)?;
    }
    assert_eq!(files.free_blocks(), free, "nodes that say nothing are free");
    Ok(())
}

#[test]
fn ten_thousand_files_are_made_and_found() -> Result<(), Error> {
    let world = world(1 << 20, 256, 25_000);
    let files = BlockFiles::format(Arc::new(journal(&world)))?;
    let names: Vec<String> = (0..10_000).map(|number| format!("file {number}")).collect();
    for some in names.chunks(50) {
        let mut batch = files.batch();
        for name in some {
            let file = batch.create(name);
            batch = batch.write_at(&file, 0, name.as_bytes());
        }
        batch.commit()?;
    }
    drop(files);
    let files = BlockFiles::open(Arc::new(reopened(&world)))?;
    assert_eq!(files.list().len(), 10_000);
    for name in names.iter().step_by(97) {
        assert_eq!(content(&files.open_file(name)?), name.as_bytes());
    }
    for some in names.chunks(50) {
        some.iter().fold(files.batch(), |batch, name| batch.remove(name)).commit()?;
    }
    assert_eq!(files.list(), []);
    Ok(())
}

#[test]
fn threads_use_files_at_once() -> Result<(), Error> {
    let files = BlockFiles::format(store(1 << 19, 128, 2000))?;
    thread::scope(|scope| {
        for number in 0..4_u8 {
            let files = &files;
            scope.spawn(move || {
                let file = files.create(&format!("of {number}")).expect("a file");
                for round in 0..100_u64 {
                    let at = round * 37 % 500;
                    file.write_at(at, &[number + 1; 60]).expect("room");
                    let mut bytes = [0; 60];
                    assert_eq!(file.read_at(at, &mut bytes).expect("readable"), 60);
                    assert_eq!(bytes, [number + 1; 60]);
                    if round % 10 == 9 {
                        file.set_len(round).expect("can be");
                    }
                }
            });
        }
    });
    assert_eq!(files.list().len(), 4);
    files.sync()
}

#[test]
fn after_a_close_nothing_can_be_done() -> Result<(), Error> {
    let world = world(1 << 18, 128, 100);
    let files = BlockFiles::format(Arc::new(journal(&world)))?;
    let file = files.create("a")?;
    file.write_at(0, b"bytes")?;
    files.close()?;
    assert_eq!(file.read_at(0, &mut [0]), Err(Error::Closed));
    assert_eq!(file.write_at(0, b"x"), Err(Error::Closed));
    assert_eq!(files.create("b").map(drop), Err(Error::Closed));
    assert_eq!((files.sync(), files.close()), (Err(Error::Closed), Err(Error::Closed)));
    drop((files, file));
    let files = BlockFiles::open(Arc::new(reopened(&world)))?;
    assert_eq!(content(&files.open_file("a")?), b"bytes");
    Ok(())
}

/// A file of the host becomes shorter when files that lie at its end are removed.
#[test]
fn a_trim_gives_space_back() -> Result<(), Box<dyn core::error::Error>> {
    use std::os::unix::fs::MetadataExt as _;

    let path = std::env::temp_dir().join(format!("block-files-trim-{}", std::process::id()));
    let size = nvm_journal::BlockSize::DEFAULT;
    let options = nvm_journal::FileDiskOptions::new().growing(10_000);
    let mut disk = options.create(&path, size, 0)?;
    let nvm = nvm_journal::Region::anonymous(16 << 20)?;
    let settings = any_options(FullBlock, NoHook).lane_log_blocks(0);
    let (nvm, below) = (DynPmem::new(nvm), DynDisk::new(disk.clone()));
    let journal = nvm_journal::Journal::format(nvm, below, &settings)?;
    let files = BlockFiles::format(Arc::new(journal))?;
    for name in ["a", "b", "c"] {
        files.create(name)?.write_at(0, &vec![b'x'; 200 * 4096])?;
    }
    files.checkpoint()?;
    let (long, taken) = (disk.file_len()?, std::fs::metadata(&path)?.blocks());
    assert!(long >= 600 * 4096, "{long}");
    assert_eq!(files.trim(&mut disk)?, 0, "no file was removed or cut");
    // 1. In the middle there is a hole then.
    files.remove("b")?;
    assert!(files.trim(&mut disk)? >= 200);
    assert_eq!(disk.file_len()?, long);
    let left = std::fs::metadata(&path)?.blocks();
    assert!(left < taken * 3 / 4, "{taken} {left}");
    // 2. At the end the file becomes shorter.
    files.open_file("c")?.set_len(10)?;
    assert!(files.trim(&mut disk)? >= 199);
    assert!(disk.file_len()? < long * 3 / 4, "{long} {}", disk.file_len()?);
    assert!(disk.file_len()?.div_ceil(4096) <= files.blocks_used_to());
    let file = files.open_file("a")?;
    assert_eq!(content(&file), vec![b'x'; 200 * 4096]);
    files.create("d")?.write_at(0, &vec![b'y'; 300 * 4096])?;
    files.close()?;
    std::fs::remove_file(path)?;
    Ok(())
}

/// What is written to a free block later may build on what it holds, and a power loss may give it
/// back what it held.
#[test]
fn no_file_is_changed_behind_a_trim_that_is_not_durable() -> Result<(), Error> {
    let world = world(1 << 18, 128, 400);
    let files = BlockFiles::format(Arc::new(journal(&world)))?;
    files.create("a")?.write_at(0, &[1; 900])?;
    let other = files.create("b")?;
    files.remove("a")?;
    let trimmed = files.trim(&mut Forgets { disk: world.disk(0), fails: true });
    assert!(matches!(trimmed, Err(Error::Journal(nvm_journal::Error::Device(_)))), "{trimmed:?}");
    assert_eq!(other.write_at(0, &[2; 900]), Err(Error::Closed));
    Ok(())
}
