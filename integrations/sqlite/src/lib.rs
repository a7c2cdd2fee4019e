//! SQLite on [nvm-journal](nvm_journal): each commit is one durable transaction of the journal,
//! with one fence, and SQLite writes neither a rollback journal nor a WAL.
//!
//! The database stays a plain SQLite file. While it is mounted, its newest pages are in the
//! persistent memory. After [`Mounted::close`] the file alone has everything, and every SQLite
//! opens it.
//!
//! ```
//! use nvm_journal_sqlite::{Mount, mount, register};
//! use rusqlite::{Connection, OpenFlags};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = format!("nvm-journal-sqlite-doc-{}", std::process::id());
//! # let folder = std::env::temp_dir().join(folder);
//! # std::fs::create_dir(&folder)?;
//! # let (db, nvm) = (folder.join("main.db"), folder.join("main.nvj"));
//! register("nvj")?;
//! let mounted = mount(&db, &Mount::new().nvm(nvm).nvm_bytes(4 << 20))?;
//! let flags = OpenFlags::default();
//! let connection = Connection::open_with_flags_and_vfs(&db, flags, c"nvj")?;
//! connection.execute_batch("CREATE TABLE t (x); INSERT INTO t VALUES (1)")?;
//! drop(connection);
//! mounted.close()?;
//! let plain = Connection::open(&db)?;
//! assert_eq!(plain.query_row("SELECT x FROM t", [], |row| row.get::<_, i64>(0))?, 1);
//! # std::fs::remove_dir_all(folder)?;
//! # Ok(())
//! # }
//! ```
//!
//! A URI says the same without [`mount`]: `file:main.db?vfs=nvj&nvm=/mnt/pmem/main.nvj`. The
//! crate's README has all parameters. The first connection mounts the database then, and the last
//! one that closes ends the mount. With `shared=1` instead of `nvm` the database is not locked: see
//! [`Mount::shared`].
//!
//! Programs in other languages load the crate `extension` beside this one into their SQLite, and
//! then open databases by such a URI.
//!
//! # What it needs
//!
//! A SQLite that was built with `-DSQLITE_ENABLE_BATCH_ATOMIC_WRITE`. [`register`] refuses another
//! one, and [`Error::NoBatchAtomic`] says how to build it.
//!
//! Use `synchronous=FULL` or `NORMAL`, and `journal_mode=DELETE`, `TRUNCATE` or `PERSIST`. With
//! `MEMORY`, a transaction that needs a rollback journal answers that the disk is full. With
//! `synchronous=OFF` SQLite does not use batches, and a crash, or a disk that refuses a page, can
//! leave the database in pieces. `journal_mode=WAL` is refused: this VFS has no shared memory.
//!
//! # What is durable when
//!
//! | after | survives every crash |
//! |---|---|
//! | `COMMIT` has returned | the transaction |
//! | a crash before that | the transaction wholly or not at all |
//!
//! Some transactions take a rollback journal all the same, as in every SQLite, and two fences:
//!
//! - the first one of an empty database;
//! - one that changes several attached databases;
//! - one that is larger than the page cache (`PRAGMA cache_size`), or than the journal's lane.
//!
//! # Who may open the database
//!
//! One process, through this VFS, with any number of connections and threads. While the database is
//! mounted, other programs find it locked. After a crash nothing says so: do not open the file with
//! another SQLite before it was mounted and closed again.

#![deny(unsafe_code, unsafe_op_in_unsafe_fn)]

mod database;
mod error;
#[allow(unsafe_code, reason = "SQLite is called and calls in C")]
mod ffi;
mod files;
mod mount;

use core::fmt;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;

use block_files::{OneFile, Store};
use nvm_journal::ports::Hook;
use nvm_journal::{Stats, Totals};

pub use database::counts::Counts;
pub use error::Error;
pub use files::{Files, PlainFile};
pub use mount::Mount;
pub use mount::pages::for_pages;

use database::mounted_file::{Cut, MountedFile};
use ffi::host::Host;
use mount::{NO_HOOK, Registry, mount_file, registry};

/// Registers the VFS with SQLite under a name. Once is enough for a process; more do no harm.
///
/// # Errors
/// `NoBatchAtomic`, `NoVfs`, `ZeroInName`.
pub fn register(name: &str) -> Result<(), Error> {
    ffi::vfs::register(name, None)
}

/// Registers the VFS under a name as SQLite's default one. A database that is opened without
/// parameters of its own is mounted by `otherwise`; that names one file of persistent memory, so it
/// is for programs of one database, and for [`anonymous`](Mount::anonymous) memory.
///
/// # Errors
/// Those of [`register`].
pub fn register_as_default(name: &str, otherwise: &Mount) -> Result<(), Error> {
    ffi::vfs::register(name, Some(otherwise))
}

/// Registers a VFS whose files are the caller's. It has no journal: SQLite does as it does on every
/// disk, with a rollback journal or a WAL. So SQLite can be tested on files whose power is cut.
///
/// Nothing is locked: one connection at a time may have a database. A WAL needs
/// `locking_mode=EXCLUSIVE`. Files of SQLite that no crash leaves, such as temporary ones, are the
/// host's.
///
/// # Errors
/// `NoVfs`, `ZeroInName`.
pub fn register_files(name: &str, files: Arc<dyn Files>) -> Result<(), Error> {
    ffi::files::register(name, files)
}

/// Mounts a database: from now on connections that open it with the VFS find it in its journal.
///
/// A database that does not exist is made, empty. A crash left the newest pages in the persistent
/// memory: the mount finds them there.
///
/// # Errors
/// `Mounted`, `Busy`, `NotAJournal`, `OtherDatabase`, `ChangedOutside`, `NoNvm`, and those of the
/// two files.
pub fn mount(path: impl AsRef<Path>, mount: &Mount) -> Result<Mounted, Error> {
    mount_with_hook(path, mount, &NO_HOOK)
}

/// Mounts a database, with a hook that sees every step of persistence.
///
/// # Errors
/// Those of [`mount`].
pub fn mount_with_hook(
    path: impl AsRef<Path>,
    mount: &Mount,
    hook: &(impl Hook + Clone + Send + Sync + 'static),
) -> Result<Mounted, Error> {
    let host = Host::find()?;
    let full = host.full_path(path.as_ref())?;
    let guard = || host.keep_others_away(&full);
    enter(&full, |mounted| mount_file(&full, mount, hook, guard, (false, mounted)))
}

/// Mounts a database that is in a journal of the caller's: one on other media, or one that is
/// watched. `cut` is told the length of the file when the mount is closed.
///
/// The path is where connections find the database, and where SQLite puts a rollback journal. A
/// file of that name has to exist.
///
/// A new store is made a database's by [`OneFile::format`] first. The mount formats nothing: a
/// store that it cannot open may hold a database all the same, of another size for example.
///
/// # Errors
/// `Mounted`, and those of the store: `NotFormatted` and `OtherSize` in `File`, for example.
pub fn mount_store(
    path: impl AsRef<Path>,
    store: Arc<dyn Store>,
    cut: impl Fn(u64) -> Result<(), block_files::Error> + Send + Sync + 'static,
) -> Result<Mounted, Error> {
    enter_store(path.as_ref(), store, None, Box::new(cut))
}

/// Mounts as [`mount_store`] does. The rollback journal and the WAL of the database lie on files of
/// the caller's, by the names `journal` and `wal`. So a power cut can take all that SQLite writes.
///
/// The files may be in the database's own store, and so in the same persistent memory:
///
/// ```
/// use std::sync::Arc;
///
/// use block_files::{BlockFiles, OneFile, Part, SpanDisk, Store};
/// use nvm_journal::ports::{Offset, PmemSplit as _};
/// use nvm_journal::{BlockSize, FileDiskOptions, Joined, Journal, MapOptions, Options};
/// use nvm_journal_sqlite::{mount_store_with_files, register};
/// # use rusqlite::{Connection, OpenFlags};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = format!("nvm-journal-sqlite-parts-{}", std::process::id());
/// # let folder = std::env::temp_dir().join(folder);
/// # std::fs::create_dir(&folder)?;
/// # let (path, nvm) = (folder.join("main.db"), folder.join("main.nvj"));
/// # register("nvj")?;
/// // 1 MiB for a journal, and 256 blocks behind it: one for the length of the file, 255 for the
/// // rollback journal.
/// let (nvm, beside) = MapOptions::new().create(nvm, 2 << 20)?.split_at(Offset(1 << 20))?;
/// let (size, blocks) = (BlockSize::DEFAULT, 1 << 20);
/// let file = FileDiskOptions::new().growing(blocks).create(&path, size, 0)?;
/// let disk = Joined::new(file.clone(), SpanDisk::new(beside, size)?)?;
/// let journal = Journal::format(nvm, disk, &Options::new().lanes(1).lane_log_blocks(0))?;
///
/// let store: Arc<dyn Store> = Arc::new(journal);
/// let database = Arc::new(Part::new(Arc::clone(&store), 0, blocks + 1)?);
/// let files = BlockFiles::format(Arc::new(Part::new(store, blocks + 1, 255)?))?;
/// OneFile::format(Arc::clone(&database) as Arc<dyn Store>, 0)?;
/// let cut = move |len| file.cut(len).map_err(|_| block_files::Error::Closed);
/// let mounted = mount_store_with_files(&path, database, Arc::new(files.clone()), cut)?;
/// # let connection =
/// #     Connection::open_with_flags_and_vfs(&path, OpenFlags::default(), c"nvj")?;
/// # connection.execute_batch("PRAGMA journal_mode = PERSIST; CREATE TABLE t (x)")?;
/// # // A batch that is larger than the journal: SQLite writes a rollback journal.
/// # connection.execute_batch("INSERT INTO t VALUES (zeroblob(100000))")?;
/// # connection.execute_batch("UPDATE t SET x = randomblob(1500000)")?;
/// # assert_eq!(mounted.counts().fallbacks, 1);
/// # let journal = format!("{}-journal", path.display());
/// # let of_journal = files.list().into_iter().find(|(name, _)| *name == "journal");
/// # assert!(of_journal.as_ref().is_some_and(|(_, len)| *len > 512), "{of_journal:?}");
/// # assert!(!std::path::Path::new(&journal).exists());
/// # drop(connection);
/// # mounted.close()?;
/// # let plain = Connection::open(&path)?;
/// # let length = plain.query_row("SELECT length(x) FROM t", [], |row| row.get::<_, i64>(0))?;
/// # assert_eq!(length, 1_500_000);
/// # std::fs::remove_dir_all(folder)?;
/// # Ok(())
/// # }
/// ```
///
/// Before the next open, [`BlockFiles::open`](block_files::BlockFiles::open) and
/// [`OneFile::open`] take the place of `format`. A rollback journal that a crash has left is in the
/// store then, and the first connection rolls it back.
///
/// # Errors
/// Those of [`mount_store`].
pub fn mount_store_with_files(
    path: impl AsRef<Path>,
    store: Arc<dyn Store>,
    files: Arc<dyn Files>,
    cut: impl Fn(u64) -> Result<(), block_files::Error> + Send + Sync + 'static,
) -> Result<Mounted, Error> {
    enter_store(path.as_ref(), store, Some(files), Box::new(cut))
}

fn enter_store(
    path: &Path,
    store: Arc<dyn Store>,
    files: Option<Arc<dyn Files>>,
    cut: Cut,
) -> Result<Mounted, Error> {
    let full = Host::find()?.full_path(path)?;
    enter(&full, |_| {
        let file = match OneFile::open(Arc::clone(&store)) {
            // Its state was found, so it is of this store, and all of it is home.
            Ok(file) if file.state().is_closed => OneFile::format(store, file.len()),
            opened => opened,
        }?;
        Ok(Arc::new(MountedFile::new(file, cut, None, false).with_files(files)))
    })
}

fn enter(
    full: &Path,
    open: impl FnOnce(&Registry) -> Result<Arc<MountedFile>, Error>,
) -> Result<Mounted, Error> {
    let path = full.as_os_str().as_bytes().to_vec();
    let mut mounted = registry();
    if let Some(known) = mounted.get(&path) {
        let connections = known.connections();
        let is_left = known.is_given_up();
        return Err(if is_left { Error::InUse { connections } } else { Error::Mounted });
    }
    let database = open(&mounted)?;
    mounted.insert(path.clone(), Arc::clone(&database));
    drop(mounted);
    Ok(Mounted { path, database })
}

/// A mounted database.
///
/// Dropping it is like a crash of the process: what is durable stays in the persistent memory, and
/// the next mount finds it. Connections that are open go on until they are closed. Until then, new
/// ones answer that the database is busy, and so does another mount.
pub struct Mounted {
    path: Vec<u8>,
    database: Arc<MountedFile>,
}

impl Mounted {
    /// What the journal has done so far.
    ///
    /// # Errors
    /// The journal's.
    pub fn stats(&self) -> Result<Stats, Error> {
        self.database.with(OneFile::stats).map_err(Error::from)
    }

    /// The journal's counts that a program watches, cheap enough for a loop.
    ///
    /// # Errors
    /// The journal's.
    pub fn totals(&self) -> Result<Totals, Error> {
        self.database.with(OneFile::totals).map_err(Error::from)
    }

    /// What the VFS has done so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.database.counts.now()
    }

    /// Writes every page home that is in the persistent memory. Connections go on meanwhile.
    ///
    /// # Errors
    /// The journal's.
    pub fn checkpoint(&self) -> Result<(), Error> {
        self.database.with(OneFile::checkpoint).map(drop).map_err(Error::from)
    }

    /// Ends the mount: the file alone is the database, and other programs may open it.
    ///
    /// # Errors
    /// `InUse` and `HotJournal`, or `Files`: then nothing has changed, and the mount goes on. The
    /// journal's: then the database is not mounted any more, and the next mount finds what was
    /// durable.
    pub fn close(&self) -> Result<(), Error> {
        let mut mounted = registry();
        let connections = self.database.connections();
        if connections > 0 {
            return Err(Error::InUse { connections });
        }
        // A plain file would be without it.
        if let Some(name) = self.database.hot_beside()? {
            return Err(Error::HotJournal { name });
        }
        mounted.retain(|_, other| !Arc::ptr_eq(other, &self.database));
        self.database.close()
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let mut mounted = registry();
        if mounted.get(&self.path).is_some_and(|other| Arc::ptr_eq(other, &self.database)) {
            if self.database.connections() > 0 {
                // Their rollback journals are still those of this database.
                self.database.give_up();
            } else {
                mounted.remove(&self.path);
            }
        }
    }
}

impl fmt::Debug for Mounted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = String::from_utf8_lossy(&self.path);
        f.debug_struct("Mounted").field("path", &path).finish_non_exhaustive()
    }
}
