//! Every crash of a simulated memory and disk under SQLite, and bugs that are found.
//!
//! A second search cuts the power where a statement is larger than the lane. SQLite writes a
//! rollback journal then, which lies on a simulated file.

use core::sync::atomic::{AtomicU64, Ordering};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use block_files::{BlockFiles, OneFile, Part, Store as Journaled};
use journal_core::{DeviceFacts, Site};
use lab::erased::{DynDisk, DynJournal, DynPmem, any_options};
use nvm_journal::{
    AnyPolicy, BlockNumber, BlockSize, ByteDelta, CheckpointReport, Committed, Durability, Error,
    FullBlock, Joined, Journal, Operation, Stats, Totals,
};
use nvm_journal_sqlite::{
    Files, Mounted, PlainFile, for_pages, mount_store, mount_store_with_files,
};
use rusqlite::Connection;
use sim_disk::suite::{Promise, Store, StoreBudget, View, check_store};
use sim_disk::{DiskImage, FileFacts, FileImage, Image, Mutant, Mutation, Mutator, World};

use crate::on_files::Handle;
use crate::{Longer, connect_to, try_connect};

const BLOCK: u32 = 512;
const BLOCKS: u64 = 40;
/// Blocks of the files beside the database, where these are in its store.
const BESIDE_BLOCKS: u64 = 64;
/// Bytes of a row that is larger than the lane.
const HUGE: usize = 7000;

/// A bug that is planted below SQLite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bug {
    None,
    /// The fence of a commit is left out.
    NoFence,
    /// The length of the file changes in a transaction of its own.
    LengthApart,
    /// A commit returns before it is durable.
    EarlyReturn,
    /// The rollback journal is not made durable.
    NoJournalSync,
}

/// Which statements a database is asked for, and what it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Few,
    All,
    /// Some statements are larger than the lane.
    TooLarge,
    /// Such statements, where the rollback journal is in the database's own store.
    InStore,
}

/// The rollback journal of a database is the one file of its world.
#[derive(Debug)]
struct Beside {
    world: World,
    syncs: bool,
}

impl Beside {
    fn file(&self, name: &str) -> io::Result<Handle> {
        // There is no WAL.
        let is_known = name == "journal";
        let handle = || Handle { file: self.world.file(0), syncs: self.syncs };
        is_known.then(handle).ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl Files for Beside {
    fn open(&self, name: &str, _creates: bool) -> io::Result<Box<dyn PlainFile>> {
        Ok(Box::new(self.file(name)?))
    }

    /// A file of no bytes is none: to SQLite both are the same.
    fn exists(&self, name: &str) -> io::Result<bool> {
        Ok(name == "journal" && !self.file(name)?.is_empty()?)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut handle = self.file(name)?;
        handle.set_len(0)?;
        handle.sync()
    }
}

/// The rollback journal of a database is a file in its store. Each open of the database has another
/// name, and finds the file all the same.
#[derive(Debug)]
struct InStore(BlockFiles);

impl InStore {
    fn is_known(name: &str) -> bool {
        name == "journal"
    }
}

impl Files for InStore {
    fn open(&self, name: &str, creates: bool) -> io::Result<Box<dyn PlainFile>> {
        if !Self::is_known(name) {
            return Err(io::ErrorKind::NotFound.into());
        }
        Files::open(&self.0, "journal", creates)
    }

    fn exists(&self, name: &str) -> io::Result<bool> {
        Ok(Self::is_known(name) && Files::exists(&self.0, "journal")?)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        if !Self::is_known(name) {
            return Err(io::ErrorKind::NotFound.into());
        }
        Files::remove(&self.0, "journal")
    }
}

/// The blocks of the file and its state, and those of the files beside it.
fn parts(store: &Arc<dyn Journaled>) -> Result<[Arc<dyn Journaled>; 2], String> {
    let part = |(first, count)| Part::new(Arc::clone(store), first, count).map_err(said);
    Ok([Arc::new(part((0, BLOCKS + 1))?), Arc::new(part((BLOCKS + 1, BESIDE_BLOCKS))?)])
}

/// A journal with a bug in its commits.
#[derive(Debug)]
struct Buggy {
    journal: DynJournal,
    bug: Bug,
}

impl Journaled for Buggy {
    fn block_size(&self) -> BlockSize {
        Journaled::block_size(&self.journal)
    }

    fn block_count(&self) -> u64 {
        Journaled::block_count(&self.journal)
    }

    fn read_at(&self, block: BlockNumber, at: usize, into: &mut [u8]) -> Result<(), Error> {
        Journaled::read_at(&self.journal, block, at, into)
    }

    fn read_run(&self, first: BlockNumber, into: &mut [u8]) -> Result<(), Error> {
        Journaled::read_run(&self.journal, first, into)
    }

    fn commit(
        &self,
        operations: &[Operation<'_>],
        durability: Durability,
    ) -> Result<Option<Committed>, Error> {
        let last = BlockNumber(BLOCKS);
        let commit =
            |some: &[Operation<'_>], durability| Journaled::commit(&self.journal, some, durability);
        match (self.bug, operations) {
            (Bug::EarlyReturn, _) => commit(operations, Durability::Deferred),
            (Bug::LengthApart, [pages @ .., len]) if len.block() == last && !pages.is_empty() => {
                commit(pages, durability)?;
                commit(core::slice::from_ref(len), durability)
            }
            _ => commit(operations, durability),
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

/// A database of one table over simulated media.
struct Database {
    folder: PathBuf,
    /// Each open has a name of its own, so that none finds files of another one.
    opened: AtomicU64,
    bug: Bug,
    policy: AnyPolicy,
    kind: Kind,
    /// Batches that did not fit.
    fallbacks: Arc<AtomicU64>,
}

/// Declared in the order in which they are dropped.
struct Open {
    connection: Connection,
    mounted: Mounted,
    fallbacks: Arc<AtomicU64>,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.fallbacks.fetch_add(self.mounted.counts().fallbacks, Ordering::Relaxed);
    }
}

#[derive(Clone, Copy, Debug)]
enum Statement {
    Insert(i64),
    /// A row over several pages, which makes the file longer.
    Large(i64),
    /// A row that is larger than the lane, made of this letter.
    Huge(i64, &'static str),
    Update,
    Delete(i64),
    /// Deletes and inserts in one transaction.
    Several,
    Checkpoint,
}

impl Statement {
    fn sql(self) -> String {
        match self {
            Self::Insert(key) => format!("INSERT OR REPLACE INTO t VALUES ({key}, 'row {key}')"),
            Self::Large(key) => {
                format!("INSERT OR REPLACE INTO t VALUES ({key}, '{}')", "large ".repeat(300))
            }
            Self::Huge(key, letter) => {
                format!("INSERT OR REPLACE INTO t VALUES ({key}, '{}')", letter.repeat(HUGE))
            }
            Self::Update => "UPDATE t SET x = x || '+' WHERE length(x) < 100".to_owned(),
            Self::Delete(key) => format!("DELETE FROM t WHERE id = {key}"),
            Self::Several => "BEGIN; DELETE FROM t WHERE id = 1; \
                 INSERT OR REPLACE INTO t VALUES (5, 'five'); COMMIT"
                .to_owned(),
            Self::Checkpoint => "PRAGMA nvj_checkpoint".to_owned(),
        }
    }
}

fn said(error: impl core::fmt::Display) -> String {
    error.to_string()
}

/// The fence that makes a commit durable, by its name.
fn commit_fence() -> Site {
    let mut all = journal_core::SITES.iter().flat_map(|sites| sites.iter());
    *all.rfind(|site| site.name == "commit.fence").expect("a site of that name")
}

impl Database {
    fn new(folder: &Path, bug: Bug, policy: AnyPolicy, kind: Kind) -> Self {
        let opened = AtomicU64::new(0);
        // Searches that go side by side have files of their own.
        let folder = folder.join(format!("{policy}-{kind:?}"));
        drop(std::fs::create_dir(&folder));
        Self { folder, opened, bug, policy, kind, fallbacks: Arc::default() }
    }

    fn hook(&self) -> Mutator {
        if self.bug == Bug::NoFence {
            Mutator::with(Mutant { site: commit_fence(), mutation: Mutation::DropFence })
        } else {
            Mutator::new()
        }
    }

    fn journal(&self, world: &World, is_new: bool) -> Result<DynJournal, String> {
        let disk = Joined::new(world.disk(0), world.disk(1)).map_err(said)?;
        let (nvm, disk) = (DynPmem::new(world.pmem()), DynDisk::new(disk));
        let options = any_options(self.policy, self.hook()).lanes(1).unit_bytes(256);
        if is_new {
            Journal::format(nvm, disk, &options).map_err(said)
        } else {
            Journal::open(nvm, disk, &options).map_err(said)
        }
    }

    fn connect(&self, world: &World, journal: DynJournal) -> Result<Open, String> {
        let number = self.opened.fetch_add(1, Ordering::Relaxed);
        let path = self.folder.join(format!("db{number}"));
        std::fs::write(&path, []).map_err(said)?;
        let store: Arc<dyn Journaled> = Arc::new(Buggy { journal, bug: self.bug });
        let mounted = match self.kind {
            Kind::TooLarge => {
                // SQLite takes what a killed process has left for durable, so it is made so.
                world.file(0).sync().map_err(said)?;
                let syncs = self.bug != Bug::NoJournalSync;
                let files = Arc::new(Beside { world: world.clone(), syncs });
                mount_store_with_files(&path, store, files, |_| Ok(()))
            }
            Kind::InStore => {
                let [own, beside] = parts(&store)?;
                let files = Arc::new(InStore(BlockFiles::open(beside).map_err(said)?));
                mount_store_with_files(&path, own, files, |_| Ok(()))
            }
            Kind::Few | Kind::All => mount_store(&path, store, |_| Ok(())),
        };
        let mounted = mounted.map_err(said)?;
        let connection = try_connect(&path).map_err(said)?;
        std::fs::remove_file(&path).map_err(said)?;
        Ok(Open { connection, mounted, fallbacks: Arc::clone(&self.fallbacks) })
    }
}

impl Store for Database {
    type Operation = Statement;
    type Open = Open;

    fn media(&self) -> Image {
        let size = BlockSize::new(BLOCK).expect("a block size");
        let disk = |blocks| DiskImage::blank(size, blocks, DeviceFacts::cautious());
        let image = |bytes| Image::blank(bytes).with_disk(disk(BLOCKS)).with_disk(disk(1));
        match self.kind {
            Kind::TooLarge => image(12 << 10).with_file(FileImage::empty(FileFacts::default())),
            Kind::InStore => {
                Image::blank(14 << 10).with_disk(disk(BLOCKS)).with_disk(disk(1 + BESIDE_BLOCKS))
            }
            Kind::Few | Kind::All => image(1 << 15),
        }
    }

    fn format(&self, world: &World) -> Result<(), String> {
        let number = self.opened.fetch_add(1, Ordering::Relaxed);
        let path = self.folder.join(format!("new{number}"));
        std::fs::write(&path, []).map_err(said)?;
        let mut journal: Arc<dyn Journaled> = Arc::new(self.journal(world, true)?);
        if self.kind == Kind::InStore {
            let [own, beside] = parts(&journal)?;
            BlockFiles::format(beside).map_err(said)?;
            journal = own;
        }
        OneFile::format(Arc::clone(&journal), 0).map_err(said)?;
        let mounted = mount_store(&path, journal, |_| Ok(())).map_err(said)?;
        let connection = connect_to(&path);
        connection
            .execute_batch(&format!(
                "PRAGMA page_size = {BLOCK}; CREATE TABLE t (id INTEGER PRIMARY KEY, x)"
            ))
            .map_err(said)?;
        drop(connection);
        mounted.checkpoint().map_err(said)
    }

    fn open(&self, world: &World) -> Result<Open, String> {
        self.connect(world, self.journal(world, false)?)
    }

    fn apply(&self, open: &mut Open, statement: &Statement) -> Result<Promise, String> {
        open.connection.execute_batch(&statement.sql()).map_err(said)?;
        Ok(Promise::Durable)
    }

    fn read(&self, open: &mut Open) -> Result<View, String> {
        let ask = |sql: &str| -> Result<Vec<(String, String)>, rusqlite::Error> {
            let mut statement = open.connection.prepare_cached(sql)?;
            let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
            statement.query_map([], row)?.collect()
        };
        // The pragma itself: as a table, it would cost as much as the open before it.
        let check = || -> Result<Vec<String>, rusqlite::Error> {
            let mut statement = open.connection.prepare("PRAGMA integrity_check")?;
            statement.query_map([], |row| row.get(0))?.collect()
        };
        let checked = check().map_err(said)?;
        if checked != ["ok"] {
            return Err(format!("the database is not whole: {checked:?}"));
        }
        let rows = ask("SELECT CAST(id AS TEXT), x FROM t").map_err(said)?;
        Ok(rows.into_iter().collect())
    }

    fn operations(&self) -> Vec<Statement> {
        let few = [Statement::Insert(1), Statement::Large(2)];
        let more =
            [Statement::Several, Statement::Update, Statement::Delete(1), Statement::Checkpoint];
        let huge = [Statement::Huge(2, "a"), Statement::Huge(2, "b")];
        match self.kind {
            Kind::Few => few.to_vec(),
            Kind::All => [&few[..], &more].concat(),
            Kind::TooLarge | Kind::InStore => huge.to_vec(),
        }
    }

    fn model(&self, view: &mut View, statement: &Statement) {
        match *statement {
            Statement::Insert(key) => drop(view.insert(key.to_string(), format!("row {key}"))),
            Statement::Large(key) => drop(view.insert(key.to_string(), "large ".repeat(300))),
            Statement::Huge(key, letter) => {
                drop(view.insert(key.to_string(), letter.repeat(HUGE)));
            }
            Statement::Update => {
                view.values_mut().filter(|x| x.len() < 100).for_each(|x| x.push('+'));
            }
            Statement::Delete(key) => drop(view.remove(&key.to_string())),
            Statement::Several => {
                view.remove("1");
                view.insert("5".to_owned(), "five".to_owned());
            }
            Statement::Checkpoint => {}
        }
    }
}

pub(crate) fn search(folder: &Path, longer: &Longer) {
    let search = |bug, policy, kind, budget: &StoreBudget| {
        check_store(&Database::new(folder, bug, policy, kind), budget).map_err(said)
    };
    let whole = AnyPolicy::from(FullBlock);
    let delta = for_pages(ByteDelta::new().into());
    // 1. None of the crashes does any harm, where the search is as long as that for a bug.
    let short = StoreBudget::new().images(IMAGES).longer(0, 0).faults(2);
    // Most of the time goes to SQLite, which opens a database some hundred thousand times. The
    // policies go side by side.
    let long = StoreBudget::new().images(LONGER_IMAGES).longer(16, 6).faults(8);
    let (budget, policies, kind) = if longer.crashes {
        (long, &[whole, delta][..], Kind::All)
    } else {
        (short, &[whole, delta][..], Kind::Few)
    };
    std::thread::scope(|scope| {
        for policy in policies.iter().copied() {
            let (search, budget) = (&search, &budget);
            scope.spawn(move || {
                let start = std::time::Instant::now();
                let summary = search(Bug::None, policy, kind, budget);
                let summary = summary.unwrap_or_else(|failure| panic!("{failure}"));
                let seconds = start.elapsed().as_secs_f64();
                println!("  {policy}, {seconds:.0} s: {summary}");
                assert!(!longer.crashes || summary.report.images >= 100_000, "{policy}: {summary}");
            });
        }
    });
    // 2. The search finds what it is for. A deferred record is durable at once if it is long, as
    //    one of whole pages is.
    let budget = StoreBudget::new().images(IMAGES).longer(0, 0).faults(0);
    for (bug, policy, says) in [
        (Bug::NoFence, whole, "had promised to be durable"),
        (Bug::LengthApart, whole, "malformed"),
        (Bug::EarlyReturn, delta, "had promised to be durable"),
    ] {
        let failure = search(bug, policy, Kind::Few, &budget).expect_err("a bug is planted");
        println!("  {bug:?}: {}", failure.lines().next().unwrap_or_default());
        assert!(failure.contains(says), "{bug:?}: {failure}");
    }
}

/// Images of each point at which the power is cut, for the control and for the bugs.
const IMAGES: u64 = 6;
/// Those of a search of minutes.
const LONGER_IMAGES: u64 = 16;

/// Of the points in the recovery of a fallback, one in this many is crashed in turn.
const RECOVERIES_ONE_IN: u64 = 64;

/// A batch that is refused because the lane is too small: SQLite writes a rollback journal.
pub(crate) fn too_large(folder: &Path, longer: &Longer) {
    let (bug, kind) = (Bug::NoJournalSync, Kind::TooLarge);
    let images = if longer.crashes { LONGER_IMAGES } else { IMAGES };
    planted_in_a_fallback(folder, longer, (bug, kind), images);
}

/// Searches where a batch is refused, with a bug. The search without one is a longer one.
fn planted_in_a_fallback(
    folder: &Path,
    longer: &Longer,
    (bug, kind): (Bug, Kind),
    images: u64,
) -> String {
    let budget = StoreBudget::new().images(images).longer(0, 0).faults(0);
    let new = |bug| Database::new(folder, bug, AnyPolicy::from(FullBlock), kind);
    // Each program writes many pages, and each recovery too, so not all recoveries are crashed.
    if longer.crashes {
        let database = new(Bug::None);
        let budget = budget.recoveries_one_in(RECOVERIES_ONE_IN);
        let summary = check_store(&database, &budget).unwrap_or_else(|failure| panic!("{failure}"));
        let fallbacks = database.fallbacks.load(Ordering::Relaxed);
        println!("  {fallbacks} batches did not fit: {summary}");
        assert!(fallbacks > 100, "{fallbacks}");
    }
    let failure = check_store(&new(bug), &budget).map_err(said).expect_err("a bug is planted");
    println!("  {bug:?}: {}", failure.lines().next().unwrap_or_default());
    failure
}

/// A batch that is refused, where the rollback journal is in the database's store. A sync of it
/// may be left out, because the store keeps the order of changes. Its removal has to be durable.
pub(crate) fn too_large_in_store(folder: &Path, longer: &Longer) {
    let of = (Bug::EarlyReturn, Kind::InStore);
    let failure = planted_in_a_fallback(folder, longer, of, 4);
    assert!(failure.contains("had promised to be durable"), "{failure}");
}
