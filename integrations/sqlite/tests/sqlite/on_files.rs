//! SQLite itself on simulated files: its rollback journal and its WAL survive every crash, and the
//! search finds what is wrong where a file lies to it, or where it was told to promise less.

use core::sync::atomic::{AtomicU64, Ordering};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};

use nvm_journal_sqlite::{Files, PlainFile, register_files};
use rusqlite::{Connection, OpenFlags};
use sim_disk::suite::{Promise, Store, StoreBudget, View, check_store};
use sim_disk::{FileFacts, Image, SimFile, World};

use crate::Longer;

/// The name of the VFS.
const ON_FILES: &str = "simulated";

/// The worlds of all databases that are open, and the files in them that do not sync.
static WORLDS: Mutex<BTreeMap<u64, (World, Option<u16>)>> = Mutex::new(BTreeMap::new());

fn worlds() -> MutexGuard<'static, BTreeMap<u64, (World, Option<u16>)>> {
    WORLDS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Files of worlds: `7/db-wal` is the third file of the world that has the number 7.
#[derive(Debug)]
struct Simulated;

pub(crate) struct Handle {
    pub(crate) file: SimFile,
    /// Whether a sync does what it says.
    pub(crate) syncs: bool,
}

impl Simulated {
    fn file(name: &str) -> io::Result<Handle> {
        let (number, name) = name.split_once('/').ok_or(io::ErrorKind::NotFound)?;
        let number: u64 = number.parse().map_err(io::Error::other)?;
        let file = match name {
            "db" => 0,
            "db-journal" => 1,
            "db-wal" => 2,
            _ => return Err(io::ErrorKind::NotFound.into()),
        };
        let (world, lies) = worlds().get(&number).cloned().ok_or(io::ErrorKind::NotFound)?;
        Ok(Handle { file: world.file(file), syncs: lies != Some(file) })
    }
}

impl Files for Simulated {
    fn open(&self, name: &str, _creates: bool) -> io::Result<Box<dyn PlainFile>> {
        Ok(Box::new(Self::file(name)?))
    }

    /// A file of no bytes is none: to SQLite both are the same.
    fn exists(&self, name: &str) -> io::Result<bool> {
        Ok(!Self::file(name)?.is_empty()?)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut file = Self::file(name)?;
        file.set_len(0)?;
        file.sync()
    }
}

impl PlainFile for Handle {
    fn read_at(&mut self, at: u64, into: &mut [u8]) -> io::Result<usize> {
        let mut read = 0;
        while read < into.len() {
            match self.file.read_at(at + read as u64, &mut into[read..])? {
                0 => break,
                more => read += more,
            }
        }
        Ok(read)
    }

    fn write_at(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        Ok(self.file.write_all_at(at, bytes)?)
    }

    fn len(&mut self) -> io::Result<u64> {
        Ok(self.file.len()?)
    }

    fn set_len(&mut self, len: u64) -> io::Result<()> {
        Ok(self.file.set_len(len)?)
    }

    fn sync(&mut self) -> io::Result<()> {
        if self.syncs { Ok(self.file.sync()?) } else { Ok(()) }
    }
}

/// How SQLite commits, and which file does not sync.
#[derive(Clone, Copy, Debug)]
struct Sqlite {
    mode: &'static str,
    synchronous: &'static str,
    lies: Option<u16>,
    /// Whether the files are made durable before SQLite opens them. SQLite itself takes what a
    /// killed process has left for durable, and a power cut may then take it back.
    syncs_first: bool,
}

impl Sqlite {
    const fn new(mode: &'static str) -> Self {
        Self { mode, synchronous: "FULL", lies: None, syncs_first: true }
    }
}

/// Declared in the order in which they are dropped.
struct Open {
    connection: Connection,
    _entered: Entered,
}

struct Entered(u64);

impl Drop for Entered {
    fn drop(&mut self) {
        worlds().remove(&self.0);
    }
}

fn said(error: impl core::fmt::Display) -> String {
    error.to_string()
}

impl Sqlite {
    fn connect(&self, world: &World) -> Result<Open, String> {
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        worlds().insert(number, (world.clone(), self.lies));
        let entered = Entered(number);
        for file in (0..3).filter(|_| self.syncs_first) {
            world.file(file).sync().map_err(said)?;
        }
        let flags = OpenFlags::default();
        let name = format!("{number}/db");
        let connection = Connection::open_with_flags_and_vfs(name, flags, ON_FILES);
        let connection = connection.map_err(said)?;
        let settings = format!(
            "PRAGMA locking_mode = EXCLUSIVE; PRAGMA page_size = 512; PRAGMA journal_mode = {}; \
             PRAGMA synchronous = {}",
            self.mode, self.synchronous
        );
        connection.execute_batch(&settings).map_err(said)?;
        Ok(Open { connection, _entered: entered })
    }
}

impl Store for Sqlite {
    type Operation = &'static str;
    type Open = Open;

    fn media(&self) -> Image {
        Image::of_files(3, FileFacts::default())
    }

    fn format(&self, world: &World) -> Result<(), String> {
        let open = Self { lies: None, synchronous: "FULL", ..*self }.connect(world)?;
        let table = "CREATE TABLE t (id INTEGER PRIMARY KEY, x)";
        open.connection.execute_batch(table).map_err(said)
    }

    fn open(&self, world: &World) -> Result<Open, String> {
        self.connect(world)
    }

    fn apply(&self, open: &mut Open, statement: &&'static str) -> Result<Promise, String> {
        open.connection.execute_batch(statement).map_err(said)?;
        Ok(Promise::Durable)
    }

    fn read(&self, open: &mut Open) -> Result<View, String> {
        let ask = |sql: &str| -> Result<Vec<String>, rusqlite::Error> {
            let mut statement = open.connection.prepare(sql)?;
            statement.query_map([], |row| row.get(0))?.collect()
        };
        let checked = ask("PRAGMA integrity_check").map_err(said)?;
        if checked != ["ok"] {
            return Err(format!("the database is not whole: {checked:?}"));
        }
        let rows = ask("SELECT id || ' ' || x FROM t").map_err(said)?;
        let pair = |row: &String| row.split_once(' ').map(|(id, x)| (id.into(), x.into()));
        Ok(rows.iter().filter_map(pair).collect())
    }

    fn operations(&self) -> Vec<&'static str> {
        vec![INSERT, SEVERAL, DELETE]
    }

    fn model(&self, view: &mut View, statement: &&'static str) {
        match *statement {
            INSERT => drop(view.insert("1".to_owned(), "a".repeat(700))),
            SEVERAL => {
                view.insert("2".to_owned(), "b".to_owned());
                view.insert("3".to_owned(), "c".repeat(600));
            }
            _ => view.clear(),
        }
    }
}

const INSERT: &str = "INSERT OR REPLACE INTO t VALUES (1, replace(hex(zeroblob(350)), '0', 'a'))";
const SEVERAL: &str = "BEGIN; INSERT OR REPLACE INTO t VALUES (2, 'b'); \
     INSERT OR REPLACE INTO t VALUES (3, replace(hex(zeroblob(300)), '0', 'c')); COMMIT";
const DELETE: &str = "DELETE FROM t";

pub(crate) fn search(_folder: &Path, longer: &Longer) {
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(|| register_files(ON_FILES, Arc::new(Simulated)).expect("a VFS"));
    let short = StoreBudget::new().images(2).longer(0, 0).faults(0);
    let long = StoreBudget::new().images(3).longer(2, 4).faults(0);
    let budget = if longer.crashes { long } else { short };
    for mode in ["DELETE", "TRUNCATE", "PERSIST", "WAL"] {
        let summary = check_store(&Sqlite::new(mode), &budget);
        let summary = summary.unwrap_or_else(|failure| panic!("{failure}"));
        println!("  {mode}: {summary}");
    }
    // Bugs that are planted below SQLite, and promises that SQLite does not make.
    let budget = StoreBudget::new().images(32).longer(0, 0).faults(0);
    let (delete, wal) = (Sqlite::new("DELETE"), Sqlite::new("WAL"));
    for (what, bug) in [
        ("the rollback journal does not sync", Sqlite { lies: Some(1), ..delete }),
        ("the database does not sync", Sqlite { lies: Some(0), ..delete }),
        ("the WAL does not sync", Sqlite { lies: Some(2), ..wal }),
        ("WAL+NORMAL", Sqlite { synchronous: "NORMAL", ..wal }),
        ("nothing syncs what a killed process left", Sqlite { syncs_first: false, ..delete }),
    ] {
        let failure = check_store(&bug, &budget).map(|_| what).expect_err("there is a bug");
        let failure = failure.to_string();
        println!("  {what}: {}", failure.lines().next().unwrap_or_default());
    }
}
