//! Files of a database that a shim keeps in several: no lock is ever asked for all but the first.

use core::sync::atomic::{AtomicBool, AtomicUsize};
use std::io;
use std::sync::Mutex;

use journal_core::block_device::check_request;
use nvm_journal::ports::{
    BlockDevice, DeviceError, DeviceErrorKind, DeviceFacts, DeviceOperation, Overwrite,
};
use nvm_journal::{BlockNumber, BlockSize};

use super::*;
use crate::database::mounted_file::Shared;
use crate::database::old_pages::RoomForOld;
use crate::files::PlainFile;
use crate::mount::Mount;
use crate::mount::any_disk::AnyDisk;

/// A file of old pages, in memory.
#[derive(Clone)]
struct Spilled {
    file: Vec<u8>,
    may_grow: Arc<AtomicBool>,
}

impl Spilled {
    fn open(&self) -> io::Result<Box<dyn PlainFile>> {
        Ok(Box::new(self.clone()))
    }
}

impl PlainFile for Spilled {
    fn read_at(&mut self, at: u64, into: &mut [u8]) -> io::Result<usize> {
        let there = self.file.get(at as usize..).unwrap_or_default();
        let read = there.len().min(into.len());
        into[..read].copy_from_slice(&there[..read]);
        Ok(read)
    }

    fn write_at(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        if !self.may_grow.load(Ordering::SeqCst) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.file.truncate(at as usize);
        self.file.extend_from_slice(bytes);
        Ok(())
    }

    fn len(&mut self) -> io::Result<u64> {
        Ok(self.file.len() as u64)
    }

    fn set_len(&mut self, len: u64) -> io::Result<()> {
        self.file.resize(len as usize, 0);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A file in memory as a disk, which grows. It can be told to fail.
#[derive(Clone)]
struct Bytes {
    file: Arc<Mutex<Vec<u8>>>,
    /// Writes that are done before one fails.
    good: Arc<AtomicUsize>,
    /// Whether there is room for a file of old pages.
    spills: Arc<AtomicBool>,
    /// Whether other programs were kept away, each time that this changed.
    keeps: Arc<Mutex<Vec<bool>>>,
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
/// How many bytes of old pages are noted in these tests.
const NOTED: usize = 8 << 10;

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
        Self {
            file: Arc::default(),
            good: Arc::new(AtomicUsize::new(usize::MAX)),
            spills: Arc::new(AtomicBool::new(true)),
            keeps: Arc::default(),
        }
    }

    /// A process that has the file, and a connection there.
    fn process(&self) -> Connection {
        let settings = Mount::new().shared().nvm_bytes(1 << 20).block_size(BLOCK);
        let (disk, of_len, of_cut) = (AnyDisk::new(self.clone()), self.clone(), self.clone());
        let keeps = Arc::clone(&self.keeps);
        let spill = Spilled { file: Vec::new(), may_grow: Arc::clone(&self.spills) };
        let len = move || of_len.file.lock().expect("nobody panicked").len() as u64;
        let now = len.clone();
        let anew = Box::new(move || settings.anew(&disk, now()));
        let shared = Shared {
            len: Box::new(move || Ok(len())),
            identity: (0, 0),
            anew,
            keep: Box::new(move |now| keeps.lock().expect("nobody panicked").push(now)),
            room: RoomForOld { in_memory: NOTED, spill: Box::new(move || spill.open()) },
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

/// What is noted of a long transaction takes a bounded memory. The rest is in a file, and goes home
/// as well where the transaction is taken back.
#[test]
fn a_long_transaction_notes_its_old_pages_in_a_file() {
    let disk = Bytes::new();
    let mut connection = disk.process();
    connection.is_now(Level::Exclusive);
    let old: Vec<u8> = (0..512).flat_map(|page: u32| [page as u8; 512]).collect();
    connection.write(0, &old[..64 << 10]).expect("room");
    for (page, bytes) in old.chunks(512).enumerate() {
        connection.write(page as u64 * 512, bytes).expect("room");
    }
    connection.sync().expect("a sync");
    assert_eq!(connection.database.noted(), (0, 0));
    let full = Err(sys::SQLITE_FULL);
    let noted = |connection: &mut Connection| {
        for page in 0..512 {
            // A page that is written twice is noted as it was at first.
            for new in [0xEE, 0xDD] {
                connection.write(page * 512, &[new; 512]).expect("room");
            }
            let (memory, _) = connection.database.noted();
            assert!(memory <= NOTED, "page {page}: {memory} bytes");
        }
        connection.set_len(512).expect("can be");
        let (memory, file) = connection.database.noted();
        assert!(memory <= NOTED && file > 2 * 511 * 512, "{memory} bytes, {file} in a file");
    };
    // 1. The transaction is taken back.
    noted(&mut connection);
    disk.good.store(0, Ordering::SeqCst);
    assert_eq!(connection.sync(), full);
    assert_eq!(read(&connection, old.len()), old);
    disk.good.store(usize::MAX, Ordering::SeqCst);
    connection.database.go_home(sys::SQLITE_IOERR).expect("there is room");
    assert_eq!(disk.content(), old);
    // 2. It goes home.
    noted(&mut connection);
    connection.sync().expect("room");
    assert_eq!(disk.content(), [0xDD; 512]);
    assert_eq!(connection.database.noted(), (0, 0));
    // 3. Where the file takes nothing, a page that cannot be noted is not changed.
    connection.write(0, &old).expect("room");
    connection.sync().expect("room");
    disk.spills.store(false, Ordering::SeqCst);
    let refused = (0..512).find(|page| connection.write(page * 512, &[1; 512]) == full);
    let changed = refused.expect("no room for notes") as usize * 512;
    assert!(changed > 0 && changed <= NOTED, "{changed}");
    assert_eq!(read(&connection, old.len())[changed..], old[changed..]);
    assert_eq!(connection.set_len(0), full);
    assert_eq!(connection.len(), old.len() as u64);
    connection.write(0, &[1; 512]).expect("it is noted already");
    connection.sync().expect("room");
    assert_eq!(disk.content()[..changed], vec![1; changed]);
    assert_eq!(disk.content()[changed..], old[changed..]);
}

/// A connection that has a batch refused as one that fails, and gives it up.
fn refused(disk: &Bytes) -> Connection {
    let mut connection = disk.process();
    connection.is_now(Level::Exclusive);
    connection.begin_batch().expect("may write");
    for page in 0..4096 {
        connection.write(page * 512, &[1; 512]).expect("memory");
    }
    assert_eq!(connection.commit_batch(), Err(sys::SQLITE_IOERR_COMMIT_ATOMIC));
    connection.roll_batch_back();
    assert!(connection.database.falls_back.load(Ordering::Relaxed));
    connection
}

/// Only the rollback journal of a refused batch has its head held back. One that lies in memory is
/// never created, so the next one that is created belongs to no refused batch.
#[test]
fn a_refused_batch_whose_journal_is_in_memory_leaves_no_mark() {
    let disk = Bytes::new();
    let mut connection = refused(&disk);
    // The VFS does so before the first page that is written behind the refusal.
    assert!(connection.wants_journal_sync());
    connection.journal_is_synced();
    assert!(!connection.database.falls_back.load(Ordering::Relaxed));
    // A transaction that ends without another page.
    let mut connection = refused(&disk);
    connection.unlock(Level::None);
    assert!(!connection.database.falls_back.load(Ordering::Relaxed));
    assert!(!connection.wants_journal_sync());
}

/// The last connection that closes takes its lock with it. So the mount has one of its own as long
/// as the file is in pieces.
#[test]
fn a_file_in_pieces_is_kept_from_others_until_it_is_whole() {
    let disk = Bytes::new();
    let kept = || disk.keeps.lock().expect("nobody panicked").clone();
    let mut connection = disk.process();
    connection.is_now(Level::Exclusive);
    connection.write(0, &[1; 4096]).expect("room");
    connection.sync().expect("a sync");
    assert!(!connection.database.keep_if_in_pieces());
    for page in [0, 2] {
        connection.write(page * 512, &[2; 512]).expect("room");
    }
    disk.good.store(1, Ordering::SeqCst);
    assert_eq!(connection.sync(), Err(sys::SQLITE_FULL));
    let database = Arc::clone(&connection.database);
    drop(connection);
    assert_eq!(kept(), []);
    assert!(database.keep_if_in_pieces());
    assert_eq!(kept(), [true]);
    // It is not asked for twice, and stays while the disk takes nothing.
    assert!(database.keep_if_in_pieces());
    assert_eq!(database.go_home(sys::SQLITE_IOERR), Err(sys::SQLITE_FULL));
    assert_eq!(kept(), [true]);
    disk.good.store(usize::MAX, Ordering::SeqCst);
    database.go_home(sys::SQLITE_IOERR).expect("there is room");
    assert_eq!(kept(), [true, false]);
    assert!(!database.keep_if_in_pieces());
    assert_eq!(disk.content(), [1; 4096]);
}

/// A change whose old pages find no room leaves none of them: another program may change the file
/// before this one fails again, and what goes home then is not older than that.
#[test]
fn old_pages_of_a_refused_change_are_forgotten() {
    let disk = Bytes::new();
    let mut first = disk.process();
    first.is_now(Level::Exclusive);
    first.write(0, &[1; 64 << 10]).expect("room");
    first.sync().expect("a sync");
    // A batch whose notes find no room.
    disk.spills.store(false, Ordering::SeqCst);
    first.begin_batch().expect("may write");
    for page in 0..32 {
        first.write(page * 512, &[2; 512]).expect("memory");
    }
    assert!(first.commit_batch().is_err());
    first.roll_batch_back();
    first.database.go_home(sys::SQLITE_IOERR).expect("nothing is ahead");
    assert_eq!(first.database.noted(), (0, 0));
    first.unlock(Level::None);
    disk.spills.store(true, Ordering::SeqCst);
    // Another program has its turn.
    let mut second = disk.process();
    second.is_now(Level::Exclusive);
    second.write(0, &[5; 512]).expect("room");
    second.sync().expect("a sync");
    second.unlock(Level::None);
    assert_eq!(disk.content()[..512], [5; 512]);
    // The first one again, on a disk that is full.
    first.is_now(Level::Exclusive);
    first.database.look_again().expect("a length");
    first.write(512, &[6; 512]).expect("room");
    disk.good.store(0, Ordering::SeqCst);
    first.sync().expect_err("the disk is full");
    disk.good.store(usize::MAX, Ordering::SeqCst);
    first.database.go_home(sys::SQLITE_IOERR).expect("there is room");
    assert_eq!(disk.content()[..1024], [[5; 512], [1; 512]].concat());
}

/// Older versions of SQLite write fewer pages than the first one says, and make the file longer
/// behind the batch.
#[test]
fn a_batch_makes_the_file_as_long_as_its_first_page_says() {
    let first = |pages: u32, made_by: u32| {
        let mut page = vec![0; 512];
        page[..16].copy_from_slice(b"SQLite format 3\0");
        page[16..18].copy_from_slice(&512_u16.to_be_bytes());
        page[24..28].copy_from_slice(&7_u32.to_be_bytes());
        page[28..32].copy_from_slice(&pages.to_be_bytes());
        page[92..96].copy_from_slice(&made_by.to_be_bytes());
        page
    };
    // The number of pages is of a version that does not write it, or of the one that did.
    for (pages, made_by, len) in [(9, 6, 1024), (9, 7, 9 * 512), (1, 7, 1024)] {
        let mut connection = Bytes::new().process();
        connection.is_now(Level::Exclusive);
        connection.begin_batch().expect("may write");
        connection.write(0, &first(pages, made_by)).expect("memory");
        connection.write(512, &[1; 512]).expect("memory");
        connection.commit_batch().expect("room");
        assert_eq!(connection.len(), len, "{pages} {made_by}");
    }
}
