//! The writer in the machine: looks at what the last power cut has left, and goes on writing.
//!
//! It says `OPENING`, then `FOUND` with the number of the newest transaction, and then `ACK` with
//! each number whose commit has returned, and how many checkpoints there were. What it finds wrong
//! it says as `FAILED`.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "this is a program")]

use std::error::Error;
use std::io::Write as _;
use std::path::Path;

use journal_core::{BlockDevice, DeviceError, Granularity, Site};
use nvm_journal::MapOptions;
use nvm_journal::ports::Hook;
use nvm_journal_sqlite::{Mount, Mounted, mount_with_hook, register};
use rusqlite::{Connection, OpenFlags};

const DATABASE: &str = "/disk/db";
const NVM: &str = "/nvm/db.nvj";
/// So little that the pages go home again and again.
const NVM_BYTES: u64 = 2 << 20;
/// Transactions of which the large table keeps the rows.
const KEPT: i64 = 24;

/// A bug that can be planted: the disk is not told to make anything durable.
#[derive(Clone, Debug)]
struct Planted {
    syncs: bool,
}

impl Hook for Planted {
    fn disk_sync<D: BlockDevice>(
        &mut self,
        _site: Site,
        device: &mut D,
    ) -> Result<(), DeviceError> {
        if self.syncs { device.sync() } else { Ok(()) }
    }
}

fn say(line: core::fmt::Arguments<'_>) -> Result<(), Box<dyn Error>> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    Ok(out.flush()?)
}

/// What the row of a transaction holds.
fn content(number: i64) -> String {
    let words = if number % 50 == 0 { 20_000 } else { number % 300 + 1 };
    format!("{number} ").repeat(words as usize)
}

fn open(planted: &Planted) -> Result<(Mounted, Connection), Box<dyn Error>> {
    // Nothing weaker than a mapping whose lines are flushed, with no call to the kernel, will do.
    let map = MapOptions::new().at_least(Granularity::Line);
    let settings = Mount::new().nvm(NVM).nvm_bytes(NVM_BYTES).map(map);
    let mounted = mount_with_hook(DATABASE, &settings, planted)?;
    let connection = Connection::open_with_flags_and_vfs(DATABASE, OpenFlags::default(), c"nvj")?;
    connection.execute_batch(
        "PRAGMA synchronous = FULL; \
         CREATE TABLE IF NOT EXISTS t (n); CREATE TABLE IF NOT EXISTS u (n INTEGER PRIMARY KEY, x)",
    )?;
    Ok((mounted, connection))
}

/// Checks all that the database holds; returns the number of the newest transaction.
fn found(connection: &Connection) -> Result<i64, Box<dyn Error>> {
    let whole: String = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0))?;
    if whole != "ok" {
        return Err(format!("the database is not whole: {whole}").into());
    }
    let (newest, count): (i64, i64) =
        connection.query_row("SELECT ifnull(max(n), 0), count(*) FROM t", [], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })?;
    if newest != count {
        return Err(format!("{count} rows up to {newest}").into());
    }
    let mut rows = connection.prepare("SELECT n, x FROM u ORDER BY n")?;
    let rows: Vec<(i64, String)> =
        rows.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect::<Result<_, _>>()?;
    let first = (newest - KEPT).max(0) + 1;
    if !rows.iter().map(|(number, _)| *number).eq(first..=newest) {
        let numbers: Vec<i64> = rows.iter().map(|(number, _)| *number).collect();
        return Err(format!("of {first} to {newest} there are {numbers:?}").into());
    }
    match rows.iter().find(|(number, x)| *x != content(*number)) {
        Some((number, _)) => Err(format!("row {number} holds something else").into()),
        None => Ok(newest),
    }
}

fn run(stage: &str, plant: &str) -> Result<(), Box<dyn Error>> {
    register("nvj")?;
    say(format_args!("OPENING"))?;
    let planted = Planted { syncs: plant != "no-disk-sync" };
    let (mounted, connection) = open(&planted)?;
    let mut number = found(&connection)?;
    say(format_args!("FOUND {number}"))?;
    if stage == "end" {
        drop(connection);
        mounted.close()?;
        let plain = Connection::open(DATABASE)?;
        let plainly = found(&plain)?;
        let none = ["-journal", "-wal"];
        let is_left = |end: &&str| Path::new(&format!("{DATABASE}{end}")).exists();
        if plainly != number || none.iter().any(|end| is_left(end)) {
            return Err("the closed database is another one".into());
        }
        return say(format_args!("CLOSED {plainly}"));
    }
    loop {
        number += 1;
        connection.execute_batch("BEGIN IMMEDIATE")?;
        connection.execute("INSERT INTO t VALUES (?1)", [number])?;
        connection.execute("INSERT INTO u VALUES (?1, ?2)", (number, content(number)))?;
        connection.execute("DELETE FROM u WHERE n <= ?1", [number - KEPT])?;
        connection.execute_batch("COMMIT")?;
        say(format_args!("ACK {number} {}", mounted.stats()?.checkpoints))?;
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let argument = |at: usize| arguments.get(at).map_or("", String::as_str);
    if let Err(error) = run(argument(1), argument(2)) {
        println!("FAILED {error}");
    }
}
