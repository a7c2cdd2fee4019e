//! What SQLite says of each way in which a store fails, and that the database goes on where it can.

use core::sync::atomic::{AtomicU32, Ordering};
use std::path::Path;
use std::sync::Arc;

use block_files::{OneFile, Store as Journaled};
use journal_core::{DeviceError, DeviceErrorKind, DeviceOperation};
use lab::erased::{DynDisk, DynJournal, DynPmem, any_options};
use nvm_journal::ports::NoHook;
use nvm_journal::{
    BlockNumber, BlockSize, CheckpointReport, Committed, Durability, Error, FileDisk, FullBlock,
    Journal, Operation, Region, Stats, Totals,
};
use nvm_journal_sqlite::{Error as MountError, Mounted, mount_store};
use rusqlite::{Connection, ErrorCode};

use crate::{Longer, connect, is_whole, number, try_connect};

const BLOCKS: u64 = 200;

/// What goes wrong.
const NOTHING: u32 = 0;
const DISK_FULL: u32 = 1;
const DISK_FAILS: u32 = 2;
const DISK_TAKES_NO_WRITES: u32 = 3;
const BLOCK_IS_ROTTEN: u32 = 4;
const CONFLICT: u32 = 5;

/// A journal whose calls fail while they are told to.
#[derive(Debug)]
struct Failing {
    journal: DynJournal,
    how: Arc<AtomicU32>,
}

impl Failing {
    fn error(&self, block: BlockNumber) -> Option<Error> {
        let device = |os| {
            let kind = DeviceErrorKind::Io { os: Some(os) };
            Some(Error::Device(DeviceError::new(DeviceOperation::Write, kind, block)))
        };
        match self.how.load(Ordering::Relaxed) {
            DISK_FULL => device(28),
            DISK_FAILS => device(5),
            DISK_TAKES_NO_WRITES => device(30),
            BLOCK_IS_ROTTEN => Some(Error::RottenLog { block, lies_at: block }),
            CONFLICT => Some(Error::Conflict { block }),
            _ => None,
        }
    }
}

impl Journaled for Failing {
    fn block_size(&self) -> BlockSize {
        Journaled::block_size(&self.journal)
    }

    fn block_count(&self) -> u64 {
        Journaled::block_count(&self.journal)
    }

    fn read_at(&self, block: BlockNumber, at: usize, into: &mut [u8]) -> Result<(), Error> {
        let rotten = self.error(block).filter(|error| matches!(error, Error::RottenLog { .. }));
        rotten.map_or_else(|| Journaled::read_at(&self.journal, block, at, into), Err)
    }

    fn read_run(&self, first: BlockNumber, into: &mut [u8]) -> Result<(), Error> {
        let rotten = self.error(first).filter(|error| matches!(error, Error::RottenLog { .. }));
        rotten.map_or_else(|| Journaled::read_run(&self.journal, first, into), Err)
    }

    fn commit(
        &self,
        operations: &[Operation<'_>],
        durability: Durability,
    ) -> Result<Option<Committed>, Error> {
        let block = operations.first().map_or(BlockNumber(0), Operation::block);
        match self.error(block) {
            Some(error) => Err(error),
            None => Journaled::commit(&self.journal, operations, durability),
        }
    }

    fn sync(&self) -> Result<(), Error> {
        Journaled::sync(&self.journal)
    }

    fn checkpoint(&self) -> Result<CheckpointReport, Error> {
        Journaled::checkpoint(&self.journal)
    }

    fn close(&self) -> Result<(), Error> {
        Journaled::close(&self.journal)
    }

    fn stats(&self) -> Result<Stats, Error> {
        Journaled::stats(&self.journal)
    }

    fn totals(&self) -> Result<Totals, Error> {
        Journaled::totals(&self.journal)
    }
}

/// A journal of this number of blocks, in a new file, with these bytes of memory.
pub(crate) fn formatted(path: &Path, (blocks, nvm_bytes): (u64, u64)) -> DynJournal {
    let nvm = Region::anonymous(nvm_bytes).expect("memory");
    let disk = FileDisk::create(path, BlockSize::DEFAULT, blocks).expect("a disk");
    let (nvm, disk) = (DynPmem::new(nvm), DynDisk::new(disk));
    Journal::format(nvm, disk, &any_options(FullBlock, NoHook).lanes(1)).expect("a journal")
}

fn failing(folder: &Path) -> (Mounted, Arc<AtomicU32>) {
    let journal = formatted(&folder.join("disk"), (BLOCKS, 4 << 20));
    let how = Arc::new(AtomicU32::new(NOTHING));
    std::fs::write(folder.join("db"), []).expect("a file");
    let store: Arc<dyn Journaled> = Arc::new(Failing { journal, how: Arc::clone(&how) });
    OneFile::format(Arc::clone(&store), 0).expect("an empty file");
    (mount_store(folder.join("db"), store, |_| Ok(())).expect("a mount"), how)
}

/// Each failure of a commit has its code, and the next commit that can be made is made.
pub(crate) fn each_failure(folder: &Path, _longer: &Longer) {
    let (_mounted, how) = failing(folder);
    let connection = connect(folder);
    let table = "CREATE TABLE t (id INTEGER PRIMARY KEY, x); INSERT INTO t VALUES (1, 0)";
    connection.execute_batch(table).expect("a table");
    let mut right = 0;
    for (failure, code) in [
        (DISK_FULL, ErrorCode::DiskFull),
        (DISK_FAILS, ErrorCode::SystemIoFailure),
        (DISK_TAKES_NO_WRITES, ErrorCode::ReadOnly),
        (CONFLICT, ErrorCode::DatabaseBusy),
    ] {
        how.store(failure, Ordering::Relaxed);
        let refused = connection.execute("UPDATE t SET x = x + 1", []).expect_err("it fails");
        assert_eq!(refused.sqlite_error_code(), Some(code), "{failure}: {refused}");
        how.store(NOTHING, Ordering::Relaxed);
        if !connection.is_autocommit() {
            connection.execute_batch("ROLLBACK").expect("a rollback");
        }
        assert_eq!(number(&connection, "SELECT x FROM t"), right, "{failure}: nothing changed");
        connection.execute("UPDATE t SET x = x + 1", []).expect("nothing fails any more");
        right += 1;
        assert_eq!(number(&connection, "SELECT x FROM t"), right);
        is_whole(&connection);
    }
    how.store(BLOCK_IS_ROTTEN, Ordering::Relaxed);
    let refused = try_connect(&folder.join("db"))
        .and_then(|fresh| fresh.query_row("SELECT x FROM t", [], |row| row.get::<_, i64>(0)));
    let refused = refused.expect_err("its content is lost").sqlite_error_code();
    assert_eq!(refused, Some(ErrorCode::DatabaseCorrupt));
    how.store(NOTHING, Ordering::Relaxed);
    assert_eq!(number(&connection, "SELECT x FROM t"), right);
}

/// SQLite writes no rollback journal behind a batch that was refused because the disk is full. So
/// the VFS has none to sync, and looks for none in a later transaction.
pub(crate) fn nothing_to_sync(folder: &Path, _longer: &Longer) {
    let (mounted, how) = failing(folder);
    let connection = connect(folder);
    connection.execute_batch("CREATE TABLE t (x); PRAGMA cache_size = 5").expect("a table");
    how.store(DISK_FULL, Ordering::Relaxed);
    connection.execute("INSERT INTO t VALUES (1)", []).expect_err("the disk is full");
    how.store(NOTHING, Ordering::Relaxed);
    // It is larger than the page cache: SQLite writes a rollback journal, and syncs it itself.
    let many = "BEGIN; INSERT INTO t WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 \
                FROM n WHERE i < 60) SELECT zeroblob(3000) FROM n; COMMIT";
    connection.execute_batch(many).expect("room");
    assert_eq!(number(&connection, "SELECT count(*) FROM t"), 60);
    let counts = mounted.counts();
    assert!(counts.loose_pages > 0, "{counts:?}");
    assert_eq!(counts.journal_syncs, 0, "{counts:?}");
    is_whole(&connection);
}

/// A store that has no file is not made one by a mount: it may be a database's, of another size.
pub(crate) fn not_formatted_over(folder: &Path, _longer: &Longer) {
    std::fs::write(folder.join("db"), []).expect("a file");
    let store = |blocks| -> Arc<dyn Journaled> {
        let path = folder.join("disk");
        drop(std::fs::remove_file(&path));
        Arc::new(formatted(&path, (blocks, 4 << 20)))
    };
    let mount =
        |store: &Arc<dyn Journaled>| mount_store(folder.join("db"), Arc::clone(store), |_| Ok(()));
    let new = store(BLOCKS);
    let refused = mount(&new).expect_err("it has no file");
    let not_formatted = block_files::Error::NotFormatted;
    assert!(matches!(&refused, MountError::File(error) if *error == not_formatted), "{refused}");
    let mut last = [1; 4096];
    new.read_at(BlockNumber(BLOCKS - 1), 0, &mut last).expect("a block");
    assert_eq!(last, [0; 4096], "nothing was written");
    // One that is of another size says so, where its state is found.
    OneFile::format(Arc::clone(&new), 0).expect("an empty file");
    new.read_at(BlockNumber(BLOCKS - 1), 0, &mut last).expect("a block");
    let longer = store(BLOCKS + 1);
    let moved = [Operation::write(BlockNumber(BLOCKS), &last)];
    longer.commit(&moved, Durability::Durable).expect("room");
    let refused = mount(&longer).expect_err("it is of another size");
    let other = block_files::Error::OtherSize { found: BLOCKS, given: BLOCKS + 1 };
    assert!(matches!(&refused, MountError::File(error) if *error == other), "{refused}");
    drop(mount(&new).expect("it has a file"));
}

/// A disk that has no more blocks is full, and stays whole.
pub(crate) fn full(folder: &Path, _longer: &Longer) {
    let (_mounted, _) = failing(folder);
    let connection = connect(folder);
    connection.execute_batch("CREATE TABLE t (x)").expect("a table");
    let fill = |connection: &Connection| {
        (0..1000)
            .find_map(|_| connection.execute("INSERT INTO t VALUES (zeroblob(20000))", []).err())
    };
    let refused = fill(&connection).expect("the disk is full");
    assert_eq!(refused.sqlite_error_code(), Some(ErrorCode::DiskFull), "{refused}");
    is_whole(&connection);
    let rows = number(&connection, "SELECT count(*) FROM t");
    assert!((30..40).contains(&rows), "{rows}");
    connection.execute("DELETE FROM t WHERE rowid > 3", []).expect("a delete");
    connection.execute("INSERT INTO t VALUES (zeroblob(20000))", []).expect("an insert");
    is_whole(&connection);
}
