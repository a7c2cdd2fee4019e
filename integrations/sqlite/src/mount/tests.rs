//! A disk that is full, at each of its writes, under SQLite's own statements.
//!
//! The database's disk and the file of its rollback journal share one count of writes.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use block_files::{OneFile, Store};
use journal_core::block_device::check_request;
use nvm_journal::ports::{
    BlockDevice, DeviceError, DeviceErrorKind, DeviceFacts, DeviceOperation, Overwrite,
};
use nvm_journal::{AnyPolicy, BlockNumber, BlockSize, Joined, Journal};
use rusqlite::{Connection, OpenFlags};

use crate::database::mounted_file::{MountedFile, Shared};
use crate::database::old_pages::{IN_MEMORY, RoomForOld};
use crate::ffi::host::Host;
use crate::ffi::host_disk::{HostDisk, error_of_cut};
use crate::files::{Files, PlainFile};
use crate::mount::any_disk::AnyDisk;
use crate::mount::{Mount, NO_HOOK, registry};

const BLOCK: BlockSize = BlockSize::new(512).expect("a block size");
const BLOCKS: u64 = 1 << 20;
const VFS: &str = "nvj-full";
const SPACE: i32 = 28;

/// How a disk is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// One write is refused; the next one is done.
    Once,
    /// Each write is refused from one on.
    Stays,
    /// From one write on, each is done and then refused, as in SQLite's own suite.
    Lies,
    /// From one write on, those that make a file longer are refused.
    TakesOverwrites,
}

/// The writes of a machine's disk.
#[derive(Debug, Default)]
struct Room {
    /// Writes so far.
    writes: u64,
    /// The first write that is refused, and how. The number of the error is the disk's.
    full: Option<(u64, Way, i32)>,
    /// Whether a write was refused.
    has_refused: bool,
    db: Vec<u8>,
    beside: BTreeMap<String, Vec<u8>>,
}

impl Room {
    /// Writes into a file, as far as there is room.
    fn write(&mut self, name: Option<&str>, at: usize, from: &[u8]) -> Result<(), i32> {
        self.writes += 1;
        let now = self.writes;
        let file = match name {
            Some(name) => self.beside.get_mut(name).ok_or(5)?,
            None => &mut self.db,
        };
        let grows = at + from.len() > file.len();
        let refused = self.full.filter(|(first, way, _)| match way {
            Way::Once => now == *first,
            Way::Stays | Way::Lies => now >= *first,
            Way::TakesOverwrites => now >= *first && grows,
        });
        if refused.is_none_or(|(_, way, _)| way == Way::Lies) {
            file.resize(file.len().max(at + from.len()), 0);
            file[at..at + from.len()].copy_from_slice(from);
        }
        self.has_refused |= refused.is_some();
        refused.map_or(Ok(()), |(_, _, error)| Err(error))
    }
}

/// Handles to one disk.
#[derive(Clone, Debug, Default)]
struct Machine(Arc<Mutex<Room>>);

impl Machine {
    fn disk(&self) -> AnyDisk {
        AnyDisk::new(self.clone())
    }

    fn room(&self) -> MutexGuard<'_, Room> {
        self.0.lock().expect("nobody panicked")
    }
}

fn place(what: DeviceOperation, first: BlockNumber, bytes: usize) -> Result<usize, DeviceError> {
    check_request(what, (BLOCK, BLOCKS), first, bytes)?;
    Ok(first.raw() as usize * BLOCK.bytes())
}

impl BlockDevice for Machine {
    fn facts(&self) -> DeviceFacts {
        DeviceFacts::new(512, Overwrite::MayLeaveGarbage)
    }

    fn block_size(&self) -> BlockSize {
        BLOCK
    }

    fn block_count(&self) -> u64 {
        BLOCKS
    }

    fn read(&mut self, first: BlockNumber, into: &mut [u8]) -> Result<(), DeviceError> {
        let at = place(DeviceOperation::Read, first, into.len())?;
        let room = self.room();
        let bytes = room.db.iter().skip(at).copied().chain(core::iter::repeat(0));
        into.iter_mut().zip(bytes).for_each(|(place, byte)| *place = byte);
        Ok(())
    }

    fn write(&mut self, first: BlockNumber, from: &[u8]) -> Result<(), DeviceError> {
        let at = place(DeviceOperation::Write, first, from.len())?;
        self.room().write(None, at, from).map_err(|os| {
            let kind = DeviceErrorKind::Io { os: Some(os) };
            DeviceError::new(DeviceOperation::Write, kind, first)
        })
    }

    fn sync(&mut self) -> Result<(), DeviceError> {
        Ok(())
    }
}

/// A file beside the database.
struct FileBeside {
    machine: Machine,
    name: String,
}

impl FileBeside {
    fn with<T>(&self, call: impl FnOnce(&mut Vec<u8>) -> T) -> io::Result<T> {
        let mut room = self.machine.room();
        room.beside.get_mut(&self.name).map(call).ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl PlainFile for FileBeside {
    fn read_at(&mut self, at: u64, into: &mut [u8]) -> io::Result<usize> {
        self.with(|file| {
            let bytes = file.get(at as usize..).unwrap_or_default();
            let read = bytes.len().min(into.len());
            into[..read].copy_from_slice(&bytes[..read]);
            read
        })
    }

    fn write_at(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let written = self.machine.room().write(Some(&self.name), at as usize, bytes);
        written.map_err(io::Error::from_raw_os_error)
    }

    fn len(&mut self) -> io::Result<u64> {
        self.with(|file| file.len() as u64)
    }

    fn set_len(&mut self, len: u64) -> io::Result<()> {
        self.with(|file| file.resize(len as usize, 0))
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Files for Machine {
    fn open(&self, name: &str, creates: bool) -> io::Result<Box<dyn PlainFile>> {
        let mut room = self.room();
        if creates {
            room.beside.entry(name.to_owned()).or_default();
        } else if !room.beside.contains_key(name) {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(Box::new(FileBeside { machine: self.clone(), name: name.to_owned() }))
    }

    fn exists(&self, name: &str) -> io::Result<bool> {
        Ok(self.room().beside.get(name).is_some_and(|file| !file.is_empty()))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let gone = self.room().beside.remove(name);
        gone.map(drop).ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

/// How a database is mounted.
#[derive(Clone, Copy)]
struct Kind {
    is_shared: bool,
    nvm_bytes: u64,
    in_memory: usize,
}

/// A database on a machine.
struct Database {
    machine: Machine,
    folder: PathBuf,
    settings: Mount,
    is_shared: bool,
    in_memory: usize,
}

impl Database {
    fn new(folder: &Path, kind: Kind) -> Self {
        let Kind { is_shared, nvm_bytes, in_memory } = kind;
        drop(std::fs::remove_dir_all(folder));
        std::fs::create_dir(folder).expect("a folder");
        std::fs::write(folder.join("db"), []).expect("a file");
        let settings = Mount::new().nvm_bytes(nvm_bytes).block_size(BLOCK);
        let settings = if is_shared { settings.shared() } else { settings.nvm(folder.join("nvm")) };
        let (machine, folder) = (Machine::default(), folder.to_owned());
        let database = Self { machine, folder, settings, is_shared, in_memory };
        if !is_shared {
            let (region, _) = database.settings.region().expect("memory");
            database
                .settings
                .format(region, &database.machine.disk(), 0, NO_HOOK)
                .expect("a journal");
        }
        database
    }

    fn path(&self) -> PathBuf {
        self.folder.join("db")
    }

    fn mount(&self) {
        let (machine, disk) = (self.machine.clone(), self.machine.disk());
        let cut = move |len: u64| {
            let mut room = machine.room();
            // A cut makes no file longer, so a full disk does it.
            room.db.resize(len as usize, 0);
            if len > 1 << 40 { Err(error_of_cut(len, 13)) } else { Ok(()) }
        };
        let cut = Box::new(cut);
        let file = self.path().metadata().expect("a file");
        let len = self.machine.clone();
        let now = move || len.room().db.len() as u64;
        let mounted = if self.is_shared {
            let (settings, of_anew) = (self.settings.clone(), now.clone());
            let anew = move || settings.anew(&disk, of_anew());
            let host = Host::find().expect("a VFS of the host");
            let locks = HostDisk::open(host, &self.path(), BLOCK, BLOCKS).expect("a file");
            let shared = Shared {
                len: Box::new(move || Ok(now())),
                identity: (file.dev(), file.ino()),
                anew: Box::new(anew),
                keep: Box::new(move |keeps| locks.keep(keeps)),
                room: RoomForOld {
                    in_memory: self.in_memory,
                    spill: Box::new(move || host.open_spill()),
                },
                ahead: Mutex::default(),
            };
            Mount::mount_shared(shared, cut, Some(Arc::new(self.machine.clone()))).expect("memory")
        } else {
            let (region, _) = self.settings.region().expect("memory");
            let (nvm, state) = self.settings.parts(region).expect("room");
            let joined = Joined::new(disk, state).expect("two disks");
            let journal =
                Journal::<AnyPolicy, _>::open_any(nvm, joined, &self.settings.settings(NO_HOOK));
            let store: Arc<dyn Store> = Arc::new(journal.expect("a journal"));
            let file = OneFile::open(store).expect("a file");
            let mounted = MountedFile::new(file, cut, None, false);
            Arc::new(mounted.with_files(Some(Arc::new(self.machine.clone()))))
        };
        let path = std::os::unix::ffi::OsStrExt::as_bytes(self.path().as_os_str()).to_vec();
        registry().entry(path).or_insert(mounted);
    }

    fn unmount(&self) {
        let path = std::os::unix::ffi::OsStrExt::as_bytes(self.path().as_os_str()).to_vec();
        drop(registry().remove(&path));
    }

    /// Whether the file has a part of a transaction.
    fn is_in_pieces(&self) -> bool {
        let path = std::os::unix::ffi::OsStrExt::as_bytes(self.path().as_os_str()).to_vec();
        registry().get(&path).is_some_and(|mounted| mounted.is_in_pieces())
    }

    /// Whether other programs can lock the file.
    fn others_can_write(&self) -> bool {
        let other = Connection::open(self.path()).expect("a connection");
        other.busy_timeout(core::time::Duration::ZERO).expect("a setting");
        other.execute_batch("BEGIN EXCLUSIVE; ROLLBACK").is_ok()
    }

    fn connect(&self, settings: &str) -> Result<Connection, rusqlite::Error> {
        let uri = format!("file:{}?shared={}", self.path().display(), u8::from(self.is_shared));
        let flags = OpenFlags::default();
        let connection = Connection::open_with_flags_and_vfs(uri, flags, VFS)?;
        connection.execute_batch(settings)?;
        Ok(connection)
    }

    /// The file as other programs see it now, with the rollback journal that is beside it.
    fn as_others_see_it(&self) -> Result<String, rusqlite::Error> {
        let path = self.folder.join("copy");
        let room = self.machine.room();
        std::fs::write(&path, &room.db).expect("a copy");
        let journal = room.beside.values().next().cloned();
        drop(room);
        if let Some(journal) = journal {
            std::fs::write(self.folder.join("copy-journal"), journal).expect("a copy");
        }
        content(&Connection::open(path)?)
    }
}

/// All rows, if the database is whole.
fn content(connection: &Connection) -> Result<String, rusqlite::Error> {
    let check: String = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0))?;
    let rows: String = connection.query_row(
        "SELECT (SELECT group_concat(id || ':' || length(x) || hex(substr(x, 1, 2))) FROM t) \
         || ' ' || count(*) FROM u",
        [],
        |row| row.get(0),
    )?;
    Ok(format!("{check} {rows}"))
}

const TABLES: &str = "CREATE TABLE t (id INTEGER PRIMARY KEY, x); CREATE INDEX i ON t (x); \
     CREATE TABLE u AS SELECT 7 AS y; \
     INSERT INTO t WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n \
     WHERE i < 12) SELECT i, CAST(i || printf('%.*c', 500, 'x') AS BLOB) FROM n";

const STATEMENTS: [&str; 4] = [
    "INSERT INTO t (x) SELECT CAST(id || printf('%.*c', 600, 'y') AS BLOB) FROM t",
    "UPDATE t SET x = CAST((id + 40) || printf('%.*c', 500, 'z') AS BLOB)",
    "DELETE FROM t WHERE id > 3",
    "VACUUM",
];

/// What each statement has to leave, found without a journal.
fn expected(statement: &str) -> (String, String) {
    let connection = Connection::open_in_memory().expect("memory");
    connection.execute_batch("PRAGMA page_size = 512").expect("a setting");
    connection.execute_batch(TABLES).expect("tables");
    let before = content(&connection).expect("rows");
    connection.execute_batch(statement).expect("room");
    (before, content(&connection).expect("rows"))
}

/// One statement on a disk that is full at its write `n`; returns whether a write was refused.
fn one(database: &Database, statement: &str, full: (u64, Way, i32), settings: &str) -> bool {
    let (before, after) = expected(statement);
    let (is_shared, noted) = (database.is_shared, database.in_memory);
    let what = format!("{statement}, {full:?}, {settings}, shared {is_shared}, notes {noted}");
    let machine = &database.machine;
    database.mount();
    let connection = database.connect(settings).expect("a connection");
    connection.execute_batch(TABLES).expect("room");
    let writes = machine.room().writes;
    machine.room().full = Some((writes + full.0, full.1, full.2));
    let done = connection.execute_batch(statement);
    let goes_home =
        if database.is_shared { Ok(()) } else { connection.execute_batch("PRAGMA nvj_checkpoint") };
    let has_refused = machine.room().has_refused;
    // A statement that goes on reads what was committed, or is refused.
    let right = if done.is_ok() { &after } else { &before };
    if !connection.is_autocommit() {
        drop(connection.execute_batch("ROLLBACK"));
    }
    if let Ok(found) = content(&connection) {
        assert!(found == *right || found == after, "{what}: on a full disk: {found}");
    }
    // A write that is done and refused can be the one that ends a rollback journal.
    let may_be_done = |found: &String| *found == after && full.1 == Way::Lies;
    // A connection is closed before there is room, or goes on behind that.
    let closes_first = full.0 % 2 == 0;
    let connection = (!closes_first).then_some(connection);
    if database.is_in_pieces() {
        assert!(!database.others_can_write(), "{what}: others can write into pieces");
    }
    machine.room().full = None;
    if database.is_shared {
        let whole = |connection: &Connection, when: &str| {
            let found =
                content(connection).unwrap_or_else(|error| panic!("{what}, {when}: {error}"));
            assert!(found == *right || may_be_done(&found), "{what}, {when}: {found}");
            assert_eq!(database.as_others_see_it().as_ref(), Ok(&found), "{what}, {when}: others");
        };
        if let Some(connection) = connection {
            whole(&connection, "there is room");
            assert!(database.others_can_write(), "{what}: the file is whole");
        }
        // The last connection has ended the mount, unless the file lacks something.
        database.mount();
        let again = database.connect(settings).unwrap_or_else(|error| panic!("{what}: {error}"));
        whole(&again, "opened again");
        again.execute_batch("UPDATE u SET y = y + 1").expect("it goes on");
        whole(&again, "it goes on");
        drop(again);
        assert!(database.others_can_write(), "{what}: nothing is open");
    } else {
        // The journal has failed, and is opened again. What was under way may be durable.
        drop(connection);
        database.unmount();
        database.mount();
        let again = database.connect(settings).unwrap_or_else(|error| panic!("{what}: {error}"));
        let found = content(&again).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert!(found == *right || found == after, "{what}: opened again: {found}");
        assert!(done.is_err() || found == after, "{what}: a commit is lost: {found}");
        assert!(has_refused || goes_home.is_ok(), "{what}: {goes_home:?}");
        again.execute_batch("UPDATE u SET y = y + 1").expect("it goes on");
        drop(again);
        database.unmount();
    }
    has_refused
}

/// The database is whole and has what was committed, whichever write is refused, and however.
#[test]
fn a_disk_that_is_full_at_any_write_loses_nothing() {
    crate::register(VFS).expect("a SQLite that commits through a VFS");
    let memory = Path::new("/dev/shm");
    let root = if memory.is_dir() { memory.to_path_buf() } else { std::env::temp_dir() };
    let folder = root.join(format!("nvj-full-{}", std::process::id()));
    let mut tried = 0;
    let usual = Kind { is_shared: true, nvm_bytes: 1 << 20, in_memory: IN_MEMORY };
    let small = Kind { nvm_bytes: 32 << 10, ..usual };
    // One page is noted in memory, and all others in a file.
    let noting_in_a_file = Kind { in_memory: 1024, ..small };
    for kind in [usual, small, noting_in_a_file, Kind { is_shared: false, ..small }] {
        let is_shared = kind.is_shared;
        for settings in ["", "PRAGMA journal_mode = PERSIST", "PRAGMA synchronous = OFF"] {
            // A journal that has failed has crashed: with `OFF`, SQLite is prepared for no crash.
            if !is_shared && settings.ends_with("OFF") {
                continue;
            }
            let settings = format!("PRAGMA page_size = 512; {settings}");
            for statement in STATEMENTS {
                for way in [Way::Once, Way::Stays, Way::Lies, Way::TakesOverwrites] {
                    for error in [SPACE, 5] {
                        let is_refused = |n: &u64| {
                            let database = Database::new(&folder, kind);
                            one(&database, statement, (*n, way, error), &settings)
                        };
                        tried += (1..).take_while(is_refused).count();
                    }
                }
            }
        }
    }
    assert!(tried > 1000, "{tried}");
    std::fs::remove_dir_all(folder).expect("a folder");
}
