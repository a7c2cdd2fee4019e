//! The smallest program: a journal that is formatted the first time and opened from then on.
//!
//! `cargo run --example hello [FOLDER]`
//!
//! Formatting and opening are two calls on purpose: an open that made a journal where it finds none
//! would hide that one was lost. A first run that is killed halfway leaves files to be deleted.

#![allow(clippy::print_stdout, reason = "an example talks to its reader")]
#![allow(clippy::std_instead_of_core, reason = "a program with std, as most are")]

use std::error::Error;
use std::path::{Path, PathBuf};

use nvm_journal::{BlockNumber, BlockSize, FileDisk, Journal, MapOptions, Options};

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::temp_dir().join("nvm-journal-hello");
    let folder = std::env::args_os().nth(1).map_or(folder, PathBuf::from);
    println!("{}", hello(&folder)?);
    Ok(())
}

fn hello(folder: &Path) -> Result<String, Box<dyn Error>> {
    std::fs::create_dir_all(folder)?;
    // Persistent memory, or any file in its place, and 1024 blocks of 4 KiB on a disk.
    let (nvm, disk) = (folder.join("nvm"), folder.join("disk"));
    let (map, options) = (MapOptions::new(), Options::new());
    let journal = if disk.exists() {
        let disk = FileDisk::open(&disk, BlockSize::DEFAULT)?;
        Journal::open(map.open(&nvm)?, disk, &options)?
    } else {
        let nvm = map.create(&nvm, 4 << 20)?;
        Journal::format(nvm, FileDisk::create(&disk, BlockSize::DEFAULT, 1024)?, &options)?
    };
    // Both blocks or none, and no crash takes them back once it has returned.
    journal.transact(|tx| {
        let mut runs = [0];
        tx.read_at(BlockNumber(1), 0, &mut runs)?;
        tx.write_at(BlockNumber(1), 0, &[runs[0].wrapping_add(1)])?;
        tx.write_at(BlockNumber(2), 0, b"hello, block store")
    })?;
    let (mut runs, mut text) = ([0; 4096], [0; 4096]);
    journal.read(BlockNumber(1), &mut runs)?;
    journal.read(BlockNumber(2), &mut text)?;
    journal.close()?;
    Ok(format!("{}, for the {}. time", String::from_utf8_lossy(&text[..18]), runs[0]))
}

#[test]
fn it_counts_its_runs() {
    let folder = std::env::temp_dir().join(format!("nvm-journal-hello-{}", std::process::id()));
    for run in 1..=3 {
        let said = hello(&folder).expect("files can be made");
        assert_eq!(said, format!("hello, block store, for the {run}. time"));
    }
    std::fs::remove_dir_all(&folder).expect("the files are there");
}
