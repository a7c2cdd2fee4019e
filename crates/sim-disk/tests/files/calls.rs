//! What calls do when nothing crashes: their results, their errors, and their faults.

use std::io;

use sim_disk::file::{FILE_LEN_MAX, FileOperation};
use sim_disk::{
    Fault, FaultKind, FileErrorKind, FileFacts, FileImage, Image, Operation, SimFile, World,
};

use crate::states::{RIGHT, world_of};

fn read(file: &SimFile) -> Vec<u8> {
    let len = file.len().expect("a length");
    let mut content = vec![0; usize::try_from(len).expect("a short file")];
    file.read_exact_at(0, &mut content).expect("a read");
    content
}

#[test]
fn a_handle_reads_what_any_handle_wrote() {
    let world = World::boot(Image::of_files(2, FileFacts::default()), RIGHT);
    let (file, other) = (world.file(0), world.file(0).clone());
    assert_eq!(file.write_at(2, b"cd"), Ok(2));
    assert_eq!((file.len(), other.is_empty()), (Ok(4), Ok(false)));
    assert_eq!(read(&other), b"\0\0cd");
    other.set_len(3).expect("a length");
    other.set_len(5).expect("a length");
    assert_eq!(read(&file), b"\0\0c\0\0");
    assert_eq!(world.file(1).len(), Ok(0), "another file");
    let mut into = [7; 4];
    assert_eq!(file.read_at(4, &mut into), Ok(1));
    assert_eq!((file.read_at(5, &mut into), into), (Ok(0), [0, 7, 7, 7]));
    assert_eq!(file.write_at(100, b""), Ok(0));
    assert_eq!(file.len(), Ok(5), "writing nothing makes no file longer");
}

#[test]
fn hostile_arguments_get_an_error_and_change_nothing() {
    let world = World::boot(Image::of_files(1, FileFacts::default()), RIGHT);
    let (file, missing, mut byte) = (world.file(0), world.file(1), [0]);
    let no_file = Err(FileErrorKind::NoSuchFile);
    assert_eq!(missing.len().map_err(|e| e.kind), no_file);
    assert_eq!(missing.read_at(0, &mut byte).map_err(|e| e.kind), no_file.map(|_| 0));
    assert_eq!(missing.write_at(0, &byte).map_err(|e| e.kind), no_file.map(|_| 0));
    assert_eq!(missing.set_len(0).map_err(|e| e.kind), no_file.map(|_| ()));
    assert_eq!(missing.sync().map_err(|e| e.kind), no_file.map(|_| ()));
    for at in [FILE_LEN_MAX, FILE_LEN_MAX + 1, u64::MAX] {
        let error = file.write_all_at(at, &byte).expect_err("too far");
        assert_eq!((error.kind, error.operation), (FileErrorKind::TooLarge, FileOperation::Write));
    }
    for at in [FILE_LEN_MAX + 1, u64::MAX] {
        assert_eq!(file.set_len(at).map_err(|e| e.kind), Err(FileErrorKind::TooLarge));
        assert_eq!(file.read_at(at, &mut byte).map_err(|e| e.kind), Err(FileErrorKind::TooLarge));
    }
    assert_eq!(file.read_at(FILE_LEN_MAX, &mut byte), Ok(0));
    let error = file.read_exact_at(0, &mut byte).expect_err("the file is empty");
    assert_eq!(error.kind, FileErrorKind::UnexpectedEnd);
    assert_eq!(io::Error::from(error).kind(), io::ErrorKind::UnexpectedEof);
    assert!(world.tape().is_empty());
}

#[test]
fn errors_say_what_and_where() {
    let world = World::boot(Image::of_files(1, FileFacts::default()), RIGHT);
    let error = world.file(0).set_len(u64::MAX).expect_err("too long");
    let text = "set_len of file 0 to 18446744073709551615: past the largest length of a file";
    assert_eq!(error.to_string(), text);
    world.inject(Fault::on(Operation::FileSync, 0, FaultKind::NoSpace));
    let error = world.file(0).sync().expect_err("a fault");
    assert_eq!(error.to_string(), "sync of file 0: no space left");
    assert_eq!(io::Error::from(error).kind(), io::ErrorKind::StorageFull);
}

#[test]
fn a_sparse_file_costs_what_was_written() {
    let world = World::boot(Image::of_files(1, FileFacts::cautious()), RIGHT);
    let (file, tib) = (world.file(0), 1 << 40);
    file.set_len(tib).expect("a length");
    file.write_all_at(tib - 3, b"end").expect("a write");
    file.write_all_at(FILE_LEN_MAX - 1, b"!").expect("a write");
    let mut into = [1; 4];
    file.read_exact_at(tib - 4, &mut into).expect("a read");
    assert_eq!(&into, b"\0end");
    file.read_exact_at(tib / 2, &mut into).expect("a read");
    assert_eq!(into, [0; 4]);
    file.sync().expect("a sync");
    file.set_len(tib - 1).expect("a length");
    let states = crate::explored::lengths_and_tails(&world, tib - 4);
    let expected = [(FILE_LEN_MAX, *b"\0end"), (FILE_LEN_MAX, *b"\0en\0"), (tib - 1, *b"\0en\0")];
    assert_eq!(states, expected.into_iter().collect());
}

fn with_fault(operation: Operation, kind: FaultKind) -> (World, SimFile) {
    let file = FileImage::with_content(FileFacts::default(), b"before");
    let world = world_of(&[file], RIGHT);
    world.inject(Fault::on(operation, 0, kind));
    let file = world.file(0);
    (world, file)
}

#[test]
fn calls_fail_by_plan() {
    let (_, file) = with_fault(Operation::FileWrite, FaultKind::Short { bytes: 2 });
    assert_eq!(file.write_at(0, b"after!"), Ok(2));
    assert_eq!(read(&file), b"affore");
    file.write_all_at(0, b"after!").expect("a write");

    let (world, file) = with_fault(Operation::FileWrite, FaultKind::Short { bytes: 2 });
    file.write_all_at(0, b"after!").expect("the rest follows");
    assert_eq!((read(&file).as_slice(), world.tape().counts().file_writes), (&b"after!"[..], 2));

    let (_, file) = with_fault(Operation::FileWrite, FaultKind::Short { bytes: 0 });
    let error = file.write_all_at(0, b"after!").expect_err("nothing is taken");
    assert_eq!(error.kind, FileErrorKind::NothingWritten);

    let (_, file) = with_fault(Operation::FileWrite, FaultKind::Error);
    assert_eq!(file.write_at(0, b"after!").map_err(|e| e.kind), Err(FileErrorKind::Io));
    assert_eq!(read(&file), b"aftore", "the first half");

    let (_, file) = with_fault(Operation::FileWrite, FaultKind::NoSpace);
    assert_eq!(file.write_at(0, b"after!").map_err(|e| e.kind), Err(FileErrorKind::NoSpace));
    assert_eq!(read(&file), b"before");

    let (_, file) = with_fault(Operation::FileWrite, FaultKind::Lost);
    assert_eq!((file.write_at(0, b"after!"), read(&file)), (Ok(6), b"before".to_vec()));

    for kind in [FaultKind::Error, FaultKind::NoSpace] {
        let (_, file) = with_fault(Operation::FileSetLen, kind);
        file.set_len(0).expect_err("a fault");
        assert_eq!(read(&file), b"before");
    }

    let (_, file) = with_fault(Operation::FileRead, FaultKind::Short { bytes: 2 });
    let mut into = [0; 6];
    assert_eq!((file.read_at(0, &mut into), &into), (Ok(2), b"be\0\0\0\0"));

    let (_, file) = with_fault(Operation::FileRead, FaultKind::Stale);
    file.write_all_at(0, b"after!").expect("a write");
    assert_eq!((read(&file), read(&file)), (b"before".to_vec(), b"after!".to_vec()));

    let (_, file) = with_fault(Operation::FileRead, FaultKind::Error);
    assert_eq!(file.read_at(0, &mut into).map_err(|e| e.kind), Err(FileErrorKind::Io));
}

#[test]
fn a_failed_sync_keeps_its_pages_or_drops_them() {
    let (_, file) = with_fault(Operation::FileSync, FaultKind::Error);
    file.write_all_at(0, b"after, and longer").expect("a write");
    file.sync().expect_err("a fault");
    assert_eq!(read(&file), b"after, and longer");
    file.sync().expect("the next one succeeds");

    let (_, file) = with_fault(Operation::FileSync, FaultKind::PagesDropped);
    file.write_all_at(0, b"after").expect("a write");
    file.set_len(3).expect("a length");
    file.set_len(8).expect("a length");
    file.sync().expect_err("a fault");
    assert_eq!(read(&file), b"bef\0\0\0\0\0", "lengths are not in pages");
    file.write_all_at(0, b"synced").expect("a write");
    file.sync().expect("the next one succeeds");
    assert_eq!(read(&file), b"synced\0\0");
}
