//! Crash-tests redb: `cargo run --release -p nvm-journal-sim-disk --example crash_test_redb`
//!
//! docs/CRASH_TEST.md in the repository goes through it.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::std_instead_of_core, reason = "a program that reports")]

use std::io;

use redb::{Database, ReadableDatabase, ReadableTable, StorageBackend, TableDefinition};
use sim_disk::suite::{Promise, Store, StoreBudget, View, check_store};
use sim_disk::{FileFacts, Image, SimFile, World};

/// What the engine asks of its storage, on a simulated file.
#[derive(Debug)]
struct Backend(SimFile);

impl StorageBackend for Backend {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.len()?)
    }
    fn read(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        Ok(self.0.read_exact_at(at, into)?)
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        Ok(self.0.set_len(len)?)
    }
    fn sync_data(&self) -> io::Result<()> {
        Ok(self.0.sync()?)
    }
    fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        Ok(self.0.write_all_at(at, bytes)?)
    }
}

const TABLE: TableDefinition<'_, u64, u64> = TableDefinition::new("table");

fn text(error: impl ToString) -> String {
    error.to_string()
}

struct Redb;

impl Store for Redb {
    type Operation = (u64, u64);
    type Open = Database;

    fn media(&self) -> Image {
        Image::of_files(1, FileFacts::default())
    }
    fn format(&self, world: &World) -> Result<(), String> {
        let begun = self.open(world)?.begin_write().map_err(text)?;
        begun.open_table(TABLE).map_err(text)?;
        begun.commit().map_err(text)
    }
    fn open(&self, world: &World) -> Result<Database, String> {
        Database::builder().create_with_backend(Backend(world.file(0))).map_err(text)
    }
    fn apply(&self, open: &mut Database, put: &(u64, u64)) -> Result<Promise, String> {
        let begun = open.begin_write().map_err(text)?;
        begun.open_table(TABLE).map_err(text)?.insert(put.0, put.1).map_err(text)?;
        begun.commit().map_err(text)?;
        Ok(Promise::Durable)
    }
    fn read(&self, open: &mut Database) -> Result<View, String> {
        let table = open.begin_read().map_err(text)?.open_table(TABLE).map_err(text)?;
        let row = |(key, value): (redb::AccessGuard<'_, u64>, redb::AccessGuard<'_, u64>)| {
            (text(key.value()), text(value.value()))
        };
        table.iter().map_err(text)?.map(|found| found.map(row).map_err(text)).collect()
    }
    fn operations(&self) -> Vec<(u64, u64)> {
        vec![(1, 1), (1, 2), (2, 1)]
    }
    fn model(&self, view: &mut View, put: &(u64, u64)) {
        view.insert(text(put.0), text(put.1));
    }
}

fn main() {
    let budget = StoreBudget::new().images(8).longer(2, 3).faults(4);
    let tried = check_store(&Redb, &budget);
    println!("{}", tried.unwrap_or_else(|failure| panic!("{failure}")));
}
