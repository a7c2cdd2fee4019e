//! An engine of others on simulated files: redb survives every crash, and no backend that lies to
//! it does.

use core::sync::atomic::{AtomicU64, Ordering};
use std::io;
use std::sync::{Mutex, PoisonError};

use redb::{Database, ReadableDatabase, ReadableTable, StorageBackend, TableDefinition};
use sim_disk::suite::{Promise, Store, StoreBudget, StoreSummary, View, check_store};
use sim_disk::{FileFacts, Image, SimFile, World};

const TABLE: TableDefinition<'_, u64, u64> = TableDefinition::new("table");

/// What a backend does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flaw {
    None,
    /// A sync does nothing.
    NeverSyncs,
    /// The newest write waits in memory until the next call, and no sync hurries it.
    KeepsAWriteBack,
    /// A sync that failed is tried again, and the second answer counts.
    TriesASyncAgain,
    /// A new length is remembered, and only a sync sets it: after the data is durable.
    SetsTheLengthLate,
    /// A write that falls short counts as written.
    TakesShortForWhole,
}

impl Flaw {
    const ALL: [Self; 5] = [
        Self::NeverSyncs,
        Self::KeepsAWriteBack,
        Self::TriesASyncAgain,
        Self::SetsTheLengthLate,
        Self::TakesShortForWhole,
    ];
}

/// A write that waits: where, and what.
type Waiting = Option<(u64, Vec<u8>)>;

#[derive(Debug)]
struct Backend {
    file: SimFile,
    flaw: Flaw,
    waiting: Mutex<Waiting>,
    /// The length that the engine was told.
    len: AtomicU64,
}

impl Backend {
    fn new(world: &World, flaw: Flaw) -> Result<Self, String> {
        let file = world.file(0);
        let len = file.len().map_err(text)?.into();
        Ok(Self { file, flaw, waiting: Mutex::new(None), len })
    }

    /// Writes what waits, and has `next` wait.
    fn put(&self, next: Waiting) -> io::Result<()> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, bytes)) = waiting.take() {
            self.file.write_all_at(at, &bytes)?;
        }
        *waiting = next;
        Ok(())
    }
}

impl StorageBackend for Backend {
    fn len(&self) -> io::Result<u64> {
        let len = self.file.len()?;
        let is_late = self.flaw == Flaw::SetsTheLengthLate;
        Ok(if is_late { self.len.load(Ordering::Relaxed) } else { len })
    }

    fn read(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        self.put(None)?;
        Ok(self.file.read_exact_at(at, into)?)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.put(None)?;
        if self.flaw == Flaw::SetsTheLengthLate {
            self.len.store(len, Ordering::Relaxed);
            return Ok(());
        }
        Ok(self.file.set_len(len)?)
    }

    fn sync_data(&self) -> io::Result<()> {
        match self.flaw {
            Flaw::NeverSyncs => return Ok(()),
            Flaw::TriesASyncAgain => return Ok(self.file.sync().or_else(|_| self.file.sync())?),
            _ => self.file.sync()?,
        }
        if self.flaw == Flaw::SetsTheLengthLate {
            self.file.set_len(self.len.load(Ordering::Relaxed))?;
        }
        Ok(())
    }

    fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        match self.flaw {
            Flaw::KeepsAWriteBack => self.put(Some((at, bytes.to_vec()))),
            Flaw::TakesShortForWhole => Ok(self.file.write_at(at, bytes).map(|_| ())?),
            _ => Ok(self.file.write_all_at(at, bytes)?),
        }
    }

    fn close(&self) -> io::Result<()> {
        self.put(None)
    }
}

fn text(error: impl ToString) -> String {
    error.to_string()
}

#[derive(Clone, Debug)]
enum Change {
    Put(u64, u64),
    Remove(u64),
}

struct Redb {
    flaw: Flaw,
    facts: FileFacts,
    changes: Vec<Change>,
}

impl Redb {
    fn with(flaw: Flaw) -> Self {
        let changes = vec![Change::Put(1, 1), Change::Remove(1)];
        Self { flaw, facts: FileFacts::default(), changes }
    }
}

impl Store for Redb {
    type Operation = Change;
    type Open = Database;

    fn media(&self) -> Image {
        Image::of_files(1, self.facts)
    }

    fn format(&self, world: &World) -> Result<(), String> {
        let right = Self { flaw: Flaw::None, facts: self.facts, changes: Vec::new() };
        let begun = right.open(world)?.begin_write().map_err(text)?;
        begun.open_table(TABLE).map_err(text)?;
        begun.commit().map_err(text)
    }

    fn open(&self, world: &World) -> Result<Database, String> {
        let backend = Backend::new(world, self.flaw)?;
        Database::builder().create_with_backend(backend).map_err(text)
    }

    fn apply(&self, open: &mut Database, change: &Change) -> Result<Promise, String> {
        let begun = open.begin_write().map_err(text)?;
        {
            let mut table = begun.open_table(TABLE).map_err(text)?;
            match change {
                Change::Put(key, value) => drop(table.insert(key, value).map_err(text)?),
                Change::Remove(key) => drop(table.remove(key).map_err(text)?),
            }
        }
        begun.commit().map_err(text)?;
        Ok(Promise::Durable)
    }

    fn read(&self, open: &mut Database) -> Result<View, String> {
        let table = open.begin_read().map_err(text)?.open_table(TABLE).map_err(text)?;
        let mut view = View::new();
        for row in table.iter().map_err(text)? {
            let (key, value) = row.map_err(text)?;
            view.insert(text(key.value()), text(value.value()));
        }
        Ok(view)
    }

    fn operations(&self) -> Vec<Change> {
        self.changes.clone()
    }

    fn model(&self, view: &mut View, change: &Change) {
        match change {
            Change::Put(key, value) => view.insert(text(key), text(value)),
            Change::Remove(key) => view.remove(&text(key)),
        };
    }
}

/// Some seconds. `cargo run --example crash_test_redb` tries more.
const BUDGET: StoreBudget = StoreBudget::new().images(4).longer(0, 0).faults(2);

fn survives(store: &Redb, budget: &StoreBudget) -> StoreSummary {
    check_store(store, budget).unwrap_or_else(|failure| panic!("{failure}"))
}

#[test]
fn redb_survives_every_crash() {
    let tried = survives(&Redb::with(Flaw::None), &BUDGET);
    assert!(tried.report.images_distinct > 5_000 && tried.faults > 20, "{tried}");
}

#[test]
fn redb_survives_files_that_are_torn_by_byte_and_left_with_garbage() {
    let (facts, changes) = (FileFacts::cautious(), vec![Change::Put(1, 1)]);
    let store = Redb { facts, changes, flaw: Flaw::None };
    let tried = survives(&store, &BUDGET.faults(1));
    assert!(tried.report.points_sampled > 0, "{tried}");
}

#[test]
fn every_backend_that_lies_is_found() {
    for flaw in Flaw::ALL {
        let failure = check_store(&Redb::with(flaw), &BUDGET.faults(4)).err();
        let failure = failure.unwrap_or_else(|| panic!("{flaw:?} goes unnoticed"));
        // Two of them lie about errors alone.
        let by_a_fault = matches!(flaw, Flaw::TriesASyncAgain | Flaw::TakesShortForWhole);
        assert_eq!(failure.fault.is_some(), by_a_fault, "{flaw:?}: {failure}");
    }
}
