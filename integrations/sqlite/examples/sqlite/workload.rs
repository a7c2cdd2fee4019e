//! What the transactions do.

use core::fmt;
use std::error::Error;
use std::path::Path;

use rusqlite::{Connection, params};

/// A kind of transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Workload {
    Insert,
    Update,
    Insert10,
    Insert100,
    Blob,
}

impl Workload {
    pub(crate) const ALL: [Self; 5] =
        [Self::Insert, Self::Update, Self::Insert10, Self::Insert100, Self::Blob];

    /// Does what a transaction does between its begin and its commit.
    pub(crate) fn run(self, connection: &Connection, state: &mut State) -> rusqlite::Result<()> {
        let row = [b'r'; 100];
        let insert = "INSERT INTO t (x) VALUES (?1)";
        match self {
            Self::Insert => drop(connection.prepare_cached(insert)?.execute([row])?),
            Self::Insert10 | Self::Insert100 => {
                let mut statement = connection.prepare_cached(insert)?;
                for _ in 0..if self == Self::Insert10 { 10 } else { 100 } {
                    statement.execute([row])?;
                }
            }
            Self::Update => {
                let update = "UPDATE t SET x = ?1 WHERE id = ?2";
                let key = state.key();
                // SQLite does not write a row that stays as it is.
                let mut row = [b'u'; 100];
                row[..8].copy_from_slice(&state.seed.to_le_bytes());
                connection.prepare_cached(update)?.execute(params![row, key])?;
            }
            Self::Blob => {
                let insert = "INSERT INTO b (x) VALUES (?1)";
                connection.prepare_cached(insert)?.execute([[b'b'; 4096]])?;
            }
        }
        Ok(())
    }

    pub(crate) const fn is_several(self) -> bool {
        matches!(self, Self::Insert10 | Self::Insert100)
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Insert => "insert 1 row of 100 bytes",
            Self::Update => "update 1 row by its key",
            Self::Insert10 => "insert 10 rows",
            Self::Insert100 => "insert 100 rows",
            Self::Blob => "insert a blob of 4 KiB",
        })
    }
}

/// What a connection has done so far.
pub(crate) struct State {
    pub(crate) seed: u64,
    pub(crate) rows: i64,
}

impl State {
    /// A key that is there, somewhere in the table.
    fn key(&mut self) -> i64 {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        (self.seed >> 1) as i64 % self.rows + 1
    }
}

/// Makes the database that all engines begin with.
pub(crate) fn fill(path: &Path, rows: i64) -> Result<(), Box<dyn Error>> {
    let connection = Connection::open(path)?;
    connection.execute_batch(
        "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; \
         CREATE TABLE t (id INTEGER PRIMARY KEY, x BLOB); \
         CREATE TABLE b (id INTEGER PRIMARY KEY, x BLOB); BEGIN",
    )?;
    for _ in 0..rows {
        connection.prepare_cached("INSERT INTO t (x) VALUES (?1)")?.execute([[b'r'; 100]])?;
    }
    connection.execute_batch("COMMIT")?;
    Ok(())
}
