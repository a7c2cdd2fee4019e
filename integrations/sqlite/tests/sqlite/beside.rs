//! The rollback journal of a database where it lies in files of a program: who makes it, under
//! which name, and that it ends durably.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};

use block_files::{OneFile, Store as Journaled};
use nvm_journal_sqlite::{
    Error, Files, Mount, Mounted, PlainFile, mount, mount_store, mount_store_with_files,
};
use rusqlite::{Connection, ErrorCode};

use crate::codes::formatted;
use crate::{Longer, connect, connect_to, is_whole, number, small, try_connect};

/// Files in memory, and what was done to them.
#[derive(Debug, Default)]
struct Kept {
    files: BTreeMap<String, Vec<u8>>,
    done: Vec<String>,
}

#[derive(Clone, Debug, Default)]
struct InMemory(Arc<Mutex<Kept>>);

struct File {
    of: InMemory,
    name: String,
}

impl InMemory {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().expect("nobody panicked")
    }

    fn names(&self) -> Vec<String> {
        self.kept().files.keys().cloned().collect()
    }
}

impl Files for InMemory {
    fn open(&self, name: &str, creates: bool) -> io::Result<Box<dyn PlainFile>> {
        let mut kept = self.kept();
        if creates {
            kept.files.entry(name.to_owned()).or_default();
        } else if !kept.files.contains_key(name) {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(Box::new(File { of: self.clone(), name: name.to_owned() }))
    }

    fn exists(&self, name: &str) -> io::Result<bool> {
        Ok(self.kept().files.contains_key(name))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut kept = self.kept();
        kept.done.push("remove".to_owned());
        kept.files.remove(name).map(drop).ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl File {
    fn with<T>(&self, done: &str, call: impl FnOnce(&mut Vec<u8>) -> T) -> io::Result<T> {
        let mut kept = self.of.kept();
        if !done.is_empty() {
            kept.done.push(done.to_owned());
        }
        kept.files.get_mut(&self.name).map(call).ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl PlainFile for File {
    fn read_at(&mut self, at: u64, into: &mut [u8]) -> io::Result<usize> {
        self.with("", |file| {
            let there = file.get(at as usize..).unwrap_or_default();
            let read = there.len().min(into.len());
            into[..read].copy_from_slice(&there[..read]);
            read
        })
    }

    fn write_at(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.with(if at == 0 { "head" } else { "write" }, |file| {
            let end = at as usize + bytes.len();
            file.resize(file.len().max(end), 0);
            file[at as usize..end].copy_from_slice(bytes);
        })
    }

    fn len(&mut self) -> io::Result<u64> {
        self.with("", |file| file.len() as u64)
    }

    fn set_len(&mut self, len: u64) -> io::Result<()> {
        self.with("cut", |file| file.resize(len as usize, 0))
    }

    fn sync(&mut self) -> io::Result<()> {
        self.with("sync", |_| ())
    }
}

fn store(folder: &Path) -> Arc<dyn Journaled> {
    let store: Arc<dyn Journaled> = Arc::new(formatted(&folder.join("disk"), (4000, 512 << 10)));
    OneFile::format(Arc::clone(&store), 0).expect("an empty file");
    store
}

fn mount_with(path: &Path, store: Arc<dyn Journaled>, files: &InMemory) -> Mounted {
    std::fs::write(path, []).expect("a file");
    mount_store_with_files(path, store, Arc::new(files.clone()), |_| Ok(())).expect("a mount")
}

const ROWS: &str = "INSERT INTO t WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 \
     FROM n WHERE i < 300) SELECT i, randomblob(4000) FROM n";
const TABLE: &str = "CREATE TABLE t (n, x)";

/// With `synchronous=NORMAL`, SQLite leaves the end of a rollback journal to its next transaction.
pub(crate) fn ends_durably(folder: &Path, _longer: &Longer) {
    let files = InMemory::default();
    let mounted = mount_with(&folder.join("db"), store(folder), &files);
    let connection = connect(folder);
    connection.execute_batch(TABLE).expect("a table");
    for (mode, end) in [
        ("TRUNCATE", &["cut", "sync"][..]),
        ("PERSIST", &["head", "sync"]),
        ("DELETE", &["remove"]),
    ] {
        let settings = format!("PRAGMA journal_mode = {mode}; PRAGMA synchronous = NORMAL");
        connection.execute_batch(&settings).expect("settings");
        let before = mounted.counts().fallbacks;
        connection.execute_batch(ROWS).expect("room");
        assert_eq!(mounted.counts().fallbacks, before + 1, "{mode}");
        let done = files.kept().done.clone();
        assert!(done.ends_with(&end.map_to_owned()), "{mode}: {:?}", done.last_chunk::<8>());
        connection.execute("INSERT INTO t VALUES (0, 0)", []).expect("a batch");
        assert_eq!(files.kept().done.len(), done.len(), "{mode}: a batch leaves it as it is");
    }
    drop(connection);
    mounted.close().expect("a close");
}

trait Owned {
    fn map_to_owned(&self) -> Vec<String>;
}

impl Owned for [&str] {
    fn map_to_owned(&self) -> Vec<String> {
        self.iter().map(|&word| word.to_owned()).collect()
    }
}

/// A connection inside a transaction that has spilled pages, with a rollback journal.
fn spilled(path: &Path) -> Connection {
    let connection = connect_to(path);
    connection
        .execute_batch("PRAGMA cache_size = 5; BEGIN; UPDATE t SET n = -1, x = randomblob(4000)")
        .expect("room");
    connection
}

/// A database that is moved after a kill finds its rollback journal in the store.
pub(crate) fn moved(folder: &Path, _longer: &Longer) {
    let (files, store) = (InMemory::default(), store(folder));
    let first = mount_with(&folder.join("db"), Arc::clone(&store), &files);
    let connection = connect(folder);
    connection.execute_batch(TABLE).expect("a table");
    connection.execute_batch(ROWS).expect("room");
    drop(connection);
    // 1. The process dies among the pages of a transaction.
    core::mem::forget(spilled(&folder.join("db")));
    drop(first);
    assert_eq!(files.names(), ["journal"]);
    // 2. A plain file would be without what the journal gives back.
    let path = folder.join("moved");
    let second = mount_with(&path, store, &files);
    let refused = second.close().expect_err("its journal is hot");
    assert!(matches!(refused, Error::HotJournal { name: "journal" }), "{refused}");
    let connection = connect_to(&path);
    assert_eq!(number(&connection, "SELECT count(*) FROM t WHERE n = -1"), 0);
    assert_eq!(number(&connection, "SELECT count(*) FROM t"), 300);
    is_whole(&connection);
    drop(connection);
    second.close().expect("a close");
    assert!(files.names().is_empty(), "{:?}", files.names());
}

/// The connections of a mount that is dropped go on as they are, until they are closed.
pub(crate) fn given_up(folder: &Path, _longer: &Longer) {
    let (files, store) = (InMemory::default(), store(folder));
    let mounted = mount_with(&folder.join("db"), Arc::clone(&store), &files);
    let connection = connect(folder);
    connection.execute_batch(TABLE).expect("a table");
    connection.execute_batch(ROWS).expect("room");
    drop(mounted);
    let (path, again) = (folder.join("db"), Arc::clone(&store));
    let refused = mount_store(&path, again, |_| Ok(())).expect_err("a connection is open");
    assert!(matches!(refused, Error::InUse { connections: 1 }), "{refused}");
    let refused = try_connect(&path).expect_err("no new ones").sqlite_error_code();
    assert_eq!(refused, Some(ErrorCode::DatabaseBusy));
    // Its rollback journal is in the files as before.
    connection.execute_batch("PRAGMA cache_size = 5; BEGIN").expect("a transaction");
    connection.execute("UPDATE t SET x = randomblob(4000)", []).expect("room");
    assert_eq!(files.names(), ["journal"]);
    assert!(!folder.join("db-journal").exists());
    connection.execute_batch("COMMIT").expect("a commit");
    drop(connection);
    let mounted = mount_store(&path, store, |_| Ok(())).expect("a mount");
    assert_eq!(number(&connect(folder), "SELECT count(*) FROM t"), 300);
    mounted.close().expect("a close");
}

/// A rollback journal in memory is of no use behind a crash. So a transaction that needs one is
/// refused before its first page, and SQLite takes it back.
pub(crate) fn in_memory(folder: &Path, _longer: &Longer) {
    for locking in ["NORMAL", "EXCLUSIVE"] {
        let path = folder.join(locking);
        let small: Mount = small(folder).nvm(folder.join(format!("nvm {locking}")));
        let mounted = mount(&path, &small.nvm_bytes(512 << 10)).expect("a mount");
        let connection = connect_to(&path);
        connection.execute_batch(&format!("PRAGMA locking_mode = {locking}")).expect("a setting");
        connection.execute_batch(TABLE).expect("a table");
        connection.execute_batch("INSERT INTO t VALUES (0, randomblob(20000))").expect("room");
        connection.execute_batch("PRAGMA journal_mode = MEMORY").expect("a setting");
        for (settings, fallbacks) in [("cache_size = 2000", 1), ("cache_size = 5", 0)] {
            connection.execute_batch(&format!("PRAGMA {settings}")).expect("a setting");
            let before = mounted.counts();
            let refused = connection.execute_batch(ROWS).expect_err("there is no journal");
            assert_eq!(refused.sqlite_error_code(), Some(ErrorCode::DiskFull), "{refused}");
            let now = mounted.counts();
            assert_eq!(now.fallbacks - before.fallbacks, fallbacks, "{settings}");
            assert_eq!(now.loose_pages, before.loose_pages, "{settings}: nothing was written");
            assert!(connection.is_autocommit());
            assert_eq!(number(&connection, "SELECT count(*) FROM t WHERE n > 0"), 0);
            is_whole(&connection);
            connection.execute("INSERT INTO t VALUES (0, 0)", []).expect("a batch");
            // With `EXCLUSIVE`, SQLite may go on with the file of an older journal.
            let is_batch = mounted.counts().commits > before.commits;
            assert!(is_batch || locking == "EXCLUSIVE", "{settings}");
        }
        connection.execute_batch("PRAGMA journal_mode = DELETE").expect("a setting");
        connection.execute_batch(ROWS).expect("room");
        assert_eq!(number(&connection, "SELECT count(*) FROM t"), 303);
        is_whole(&connection);
        drop(connection);
        mounted.close().expect("a close");
    }
}

/// SQLite tells only the main database of a pragma. What an attached one refuses has no journal
/// either.
pub(crate) fn in_memory_attached(folder: &Path, _longer: &Longer) {
    let at = |name: &str| {
        let small = small(folder).nvm(folder.join(format!("nvm {name}")));
        mount(folder.join(name), &small.nvm_bytes(512 << 10)).expect("a mount")
    };
    let (first, second) = (at("first"), at("second"));
    let connection = connect_to(&folder.join("first"));
    let path = folder.join("second");
    connection.execute("ATTACH ?1 AS other", [path.to_str()]).expect("it is mounted");
    connection.execute_batch("CREATE TABLE other.t (n, x)").expect("a table");
    connection.execute_batch("PRAGMA journal_mode = MEMORY").expect("a setting");
    let before = second.counts();
    let refused = connection.execute_batch(ROWS).expect_err("there is no journal");
    assert_eq!(refused.sqlite_error_code(), Some(ErrorCode::DiskFull), "{refused}");
    let now = second.counts();
    assert_eq!((now.fallbacks, now.loose_pages), (before.fallbacks + 1, before.loose_pages));
    assert_eq!(number(&connection, "SELECT count(*) FROM t"), 0);
    connection.execute("INSERT INTO t VALUES (0, 0)", []).expect("a batch");
    assert_eq!(second.counts().commits, before.commits + 1);
    drop(connection);
    first.close().expect("a close");
    second.close().expect("a close");
}
