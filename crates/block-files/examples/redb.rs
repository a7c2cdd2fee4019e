//! redb on a file of a journal: a database whose commits cost a fence of persistent memory instead
//! of a sync of a disk.
//!
//! `cargo run --release -p nvm-journal-block-files --example redb [FOLDER]`
//!
//! redb asks of its storage what a [`BlockFile`] does, so a backend is one line a method. redb does
//! not know that a change of several pages can be atomic here, and writes its own way of it. What
//! it gains is the sync.

#![allow(clippy::print_stdout, reason = "an example talks to its reader")]
#![allow(clippy::std_instead_of_core, reason = "a program with std, as most are")]

use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use block_files::{BlockFile, BlockFiles};
use nvm_journal::{BlockSize, FileDisk, Journal, MapOptions, Options};
use redb::{Database, ReadableDatabase as _, ReadableTable as _, StorageBackend, TableDefinition};

const RUNS: TableDefinition<'_, u64, &str> = TableDefinition::new("runs");
/// Blocks of 4 KiB that the disk has.
const BLOCKS: u64 = 4096;

/// A file of a journal as redb wants its storage.
#[derive(Debug)]
struct Backend(BlockFile);

impl StorageBackend for Backend {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.len()?)
    }

    fn read(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        // redb asks for no byte behind the end.
        if self.0.read_at(at, into)? == into.len() {
            Ok(())
        } else {
            Err(io::ErrorKind::UnexpectedEof.into())
        }
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        Ok(self.0.set_len(len)?)
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(self.0.sync()?)
    }

    fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        Ok(self.0.write_at(at, bytes)?)
    }
}

/// The files of the journal in a folder, which is made if there is none.
fn files(folder: &Path) -> Result<BlockFiles, Box<dyn Error>> {
    std::fs::create_dir_all(folder)?;
    // Persistent memory, or any file in its place, and a disk.
    let (nvm, disk) = (folder.join("nvm"), folder.join("disk"));
    let (map, options) = (MapOptions::new(), Options::new());
    let journal = if disk.exists() {
        let disk = FileDisk::open(&disk, BlockSize::DEFAULT)?;
        Journal::open(map.open(&nvm)?, disk, &options)?
    } else {
        let nvm = map.create(&nvm, 4 << 20)?;
        Journal::format(nvm, FileDisk::create(&disk, BlockSize::DEFAULT, BLOCKS)?, &options)?
    };
    Ok(BlockFiles::open_or_format(Arc::new(journal))?)
}

fn database(files: &BlockFiles) -> Result<Database, Box<dyn Error>> {
    let file = match files.open_file("runs.redb") {
        Err(block_files::Error::NotFound) => files.create("runs.redb"),
        opened => opened,
    }?;
    Ok(Database::builder().create_with_backend(Backend(file))?)
}

/// Notes a run of this program, and returns how many there were.
fn run(database: &Database) -> Result<u64, Box<dyn Error>> {
    let transaction = database.begin_write()?;
    let number = {
        let mut runs = transaction.open_table(RUNS)?;
        let last = runs.last()?.map_or(0, |(number, _)| number.value());
        runs.insert(last + 1, "ran")?;
        last + 1
    };
    // Durable on return: redb has called `sync_data`.
    transaction.commit()?;
    Ok(number)
}

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::temp_dir().join("nvm-journal-redb");
    let folder = std::env::args_os().nth(1).map_or(folder, PathBuf::from);
    let files = files(&folder)?;
    let database = database(&files)?;
    let number = run(&database)?;
    let runs = database.begin_read()?.open_table(RUNS)?;
    let told = runs.get(number)?.map(|value| value.value().to_owned());
    println!("run {number}: {}", told.unwrap_or_default());
    drop((runs, database));
    files.close()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A database comes back, whether the journal was closed or the process went.
    #[test]
    fn runs_are_counted_from_run_to_run() {
        let name = format!("nvm-journal-redb-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        for number in 1..=4 {
            let files = files(&folder).expect("a journal");
            let database = database(&files).expect("a database");
            assert_eq!(run(&database).expect("room"), number);
            drop(database);
            if number % 2 == 0 {
                files.close().expect("closes");
            }
        }
        std::fs::remove_dir_all(folder).expect("a folder");
    }
}
