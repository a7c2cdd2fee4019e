//! Files of a database that a shim keeps in several: no lock is ever asked for all but the first.

use core::sync::atomic::AtomicUsize;
use std::sync::Mutex;

use journal_core::block_device::check_request;
use nvm_journal::ports::{
    BlockDevice, DeviceError, DeviceErrorKind, DeviceFacts, DeviceOperation, Overwrite,
};
use nvm_journal::{BlockNumber, BlockSize};

use super::*;
use crate::database::mounted_file::Shared;
use crate::mount::Mount;

/// A file in memory as a disk, which grows. It can be told to fail.
#[derive(Clone)]
struct Bytes {
    file: Arc<Mutex<Vec<u8>>>,
    /// Writes that are done before one fails.
    good: Arc<AtomicUsize>,
}

fn place(
    operation: DeviceOperation,
    first: BlockNumber,
    bytes: usize,
) -> Result<usize, DeviceError> {
    check_request(operation, (BLOCK, 1 << 20), first, bytes)?;
    Ok(first.raw() as usize * BLOCK.bytes())
}

const BLOCK: BlockSize = BlockSize::new(512).expect("a block size");

impl BlockDevice for Bytes {
    fn facts(&self) -> DeviceFacts {
        DeviceFacts::new(512, Overwrite::MayLeaveGarbage)
    }

    fn block_size(&self) -> BlockSize {
        BLOCK
    }

    fn block_count(&self) -> u64 {
        1 << 20
    }

    fn read(&mut self, first: BlockNumber, into: &mut [u8]) -> Result<(), DeviceError> {
        let at = place(DeviceOperation::Read, first, into.len())?;
        let file = self.file.lock().expect("nobody panicked");
        let bytes = file.iter().skip(at).copied().chain(core::iter::repeat(0));
        into.iter_mut().zip(bytes).for_each(|(place, byte)| *place = byte);
        Ok(())
    }

    fn write(&mut self, first: BlockNumber, from: &[u8]) -> Result<(), DeviceError> {
        let at = place(DeviceOperation::Write, first, from.len())?;
        let left =
            self.good.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        if left.is_err() {
            let kind = DeviceErrorKind::Io { os: Some(28) };
            return Err(DeviceError::new(DeviceOperation::Write, kind, first));
        }
        let mut file = self.file.lock().expect("nobody panicked");
        let len = file.len().max(at + from.len());
        file.resize(len, 0);
        file[at..at + from.len()].copy_from_slice(from);
        Ok(())
    }

    fn sync(&mut self) -> Result<(), DeviceError> {
        Ok(())
    }
}

impl Bytes {
    fn new() -> Self {
        Self { file: Arc::default(), good: Arc::new(AtomicUsize::new(usize::MAX)) }
    }

    /// A process that has the file, and a connection there.
    fn process(&self) -> Connection {
        let settings = Mount::new().shared().nvm_bytes(1 << 20).block_size(BLOCK);
        let (disk, of_len, of_cut) = (self.clone(), self.clone(), self.clone());
        let len = move || of_len.file.lock().expect("nobody panicked").len() as u64;
        let now = len.clone();
        let anew = Box::new(move || settings.anew(&disk, now()));
        let shared = Shared {
            len: Box::new(move || Ok(len())),
            identity: (0, 0),
            anew,
            keep: Box::new(|_| ()),
            ahead: Mutex::default(),
        };
        let cut = move |len: u64| {
            of_cut.file.lock().expect("nobody panicked").resize(len as usize, 0);
            Ok(())
        };
        Connection::new(Mount::mount_shared(shared, Box::new(cut), None).expect("memory"), false)
    }

    fn content(&self) -> Vec<u8> {
        self.file.lock().expect("nobody panicked").clone()
    }
}

fn read(connection: &Connection, bytes: usize) -> Vec<u8> {
    connection.look_without_lock().expect("a length");
    let mut into = vec![9; bytes];
    connection.read(0, &mut into).expect("the file is long enough");
    into
}

/// Another process sees each change at once, since no unlock will write it home.
#[test]
fn what_no_lock_guards_is_home_at_once() {
    let disk = Bytes::new();
    let (mut first, mut second) = (disk.process(), disk.process());
    first.write(0, &[1; 2048]).expect("room");
    assert_eq!(read(&second, 2048), [1; 2048]);
    // 1. One process cuts the file, and makes nothing durable behind that.
    second.set_len(0).expect("can be");
    assert_eq!(disk.content(), []);
    // 2. The other one does not clear what it thinks was behind the end.
    first.write(512, &[2; 512]).expect("room");
    second.write(1024, &[3; 512]).expect("room");
    first.write(0, &[4; 512]).expect("room");
    second.set_len(1280).expect("can be");
    let expected = [vec![4; 512], vec![2; 512], vec![3; 256]].concat();
    assert_eq!(disk.content(), expected);
    assert_eq!((read(&first, 1280), read(&second, 1280)), (expected.clone(), expected));
}

/// A batch whose pages were not all written home is refused, and its old pages are home again: at
/// once, or as soon as the disk takes them.
#[test]
fn a_batch_that_is_home_in_part_is_taken_back() {
    let disk = Bytes::new();
    let mut connection = disk.process();
    connection.is_now(Level::Exclusive);
    let old: Vec<u8> = (1..=8).flat_map(|page| [page; 512]).collect();
    connection.write(0, &old).expect("room");
    connection.sync().expect("a sync");
    assert_eq!(disk.content(), old);
    connection.begin_batch().expect("may write");
    for page in [0, 2, 4, 8] {
        connection.write(page * 512, &[0xEE; 512]).expect("room");
    }
    disk.good.store(2, Ordering::SeqCst);
    assert_eq!(connection.commit_batch(), Err(sys::SQLITE_FULL));
    connection.roll_batch_back();
    assert!(!connection.wants_journal_sync(), "SQLite writes no rollback journal");
    assert_ne!(disk.content(), old, "a part is home");
    // 1. While the disk is full, the connection reads the old pages, and changes nothing.
    assert!(connection.database.is_in_pieces());
    assert_eq!(read(&connection, 4096), old);
    assert_eq!(connection.write(512, &[7; 512]), Err(sys::SQLITE_FULL));
    assert_eq!(connection.database.go_home(sys::SQLITE_IOERR), Err(sys::SQLITE_FULL));
    connection.begin_batch().expect("may write");
    connection.write(0, &[0xDD; 512]).expect("room");
    assert_eq!(connection.commit_batch(), Err(sys::SQLITE_FULL));
    connection.roll_batch_back();
    assert_eq!(read(&connection, 4096), old);
    assert_eq!(connection.len(), 4096);
    // 2. Then they go home, and the connection goes on.
    disk.good.store(usize::MAX, Ordering::SeqCst);
    connection.database.go_home(sys::SQLITE_IOERR).expect("there is room");
    assert!(!connection.database.is_in_pieces());
    assert_eq!(disk.content(), old);
    connection.write(512, &[7; 512]).expect("it goes on");
    connection.sync().expect("it goes on");
    assert_eq!(disk.content()[512..1024], [7; 512]);
}

/// Where another connection's call finds that the disk is full, the one that has made the changes
/// is told before it takes them for home.
#[test]
fn what_is_taken_back_is_told_to_the_connection_that_wrote() {
    let disk = Bytes::new();
    let mut connection = disk.process();
    connection.is_now(Level::Exclusive);
    connection.write(0, &[1; 4096]).expect("room");
    connection.sync().expect("a sync");
    for is_synced in [true, false] {
        connection.write(0, &[2; 512]).expect("room");
        disk.good.store(0, Ordering::SeqCst);
        assert_eq!(connection.database.go_home(sys::SQLITE_IOERR_UNLOCK), Err(sys::SQLITE_FULL));
        disk.good.store(usize::MAX, Ordering::SeqCst);
        let (told, otherwise) = match is_synced {
            true => (connection.sync(), sys::SQLITE_IOERR_FSYNC),
            false => (connection.write(512, &[2; 512]), sys::SQLITE_IOERR_WRITE),
        };
        assert_eq!(told, Err(otherwise));
        assert_eq!(read(&connection, 4096), [1; 4096]);
        connection.write(0, &[1; 512]).expect("SQLite rolls back");
        connection.go_home(sys::SQLITE_IOERR_FSYNC).expect("there is room");
    }
    assert_eq!(disk.content(), [1; 4096]);
}
