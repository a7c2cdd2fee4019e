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
    /// Orders, payments and questions, as TPC-C has them.
    Mix,
}

impl Workload {
    pub(crate) const ALL: [Self; 6] =
        [Self::Insert, Self::Update, Self::Insert10, Self::Insert100, Self::Blob, Self::Mix];

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
            Self::Mix => return mix(connection, state),
        }
        Ok(())
    }

    pub(crate) const fn is_several(self) -> bool {
        matches!(self, Self::Insert10 | Self::Insert100 | Self::Mix)
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
            Self::Mix => "orders and payments",
        })
    }
}

/// Lines of an order.
const LINES: i64 = 10;

/// One transaction of the mix: every other one is an order, and nearly all others are payments.
fn mix(connection: &Connection, state: &mut State) -> rusqlite::Result<()> {
    let customer = state.key_of(customers(state.rows));
    match state.key_of(100) {
        ..=49 => {
            let insert = "INSERT INTO orders (customer) VALUES (?1)";
            connection.prepare_cached(insert)?.execute([customer])?;
            let order = connection.last_insert_rowid();
            for _ in 0..LINES {
                let item = state.key();
                let take = "UPDATE stock SET quantity = quantity - 1 WHERE id = ?1";
                connection.prepare_cached(take)?.execute([item])?;
                let line = "INSERT INTO lines (of, item, x) VALUES (?1, ?2, ?3)";
                connection.prepare_cached(line)?.execute(params![order, item, [b'l'; 40]])?;
            }
        }
        50..=95 => {
            let pay = "UPDATE customer SET balance = balance + 1 WHERE id = ?1";
            connection.prepare_cached(pay)?.execute([customer])?;
            let note = "INSERT INTO payment (customer, x) VALUES (?1, ?2)";
            connection.prepare_cached(note)?.execute(params![customer, [b'p'; 30]])?;
        }
        _ => {
            let ask = "SELECT balance FROM customer WHERE id = ?1";
            connection.prepare_cached(ask)?.query_row([customer], |_| Ok(()))?;
        }
    }
    Ok(())
}

const fn customers(rows: i64) -> i64 {
    rows / 10 * 3
}

/// What a connection has done so far.
pub(crate) struct State {
    pub(crate) seed: u64,
    pub(crate) rows: i64,
}

impl State {
    /// A key that is there, somewhere in the table.
    fn key(&mut self) -> i64 {
        self.key_of(self.rows)
    }

    /// A key of a table that has this number of rows.
    fn key_of(&mut self, rows: i64) -> i64 {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        (self.seed >> 1) as i64 % rows + 1
    }
}

/// Makes the database that all engines begin with. With 100,000 rows it has some 60 MB.
pub(crate) fn fill(path: &Path, rows: i64) -> Result<(), Box<dyn Error>> {
    let connection = Connection::open(path)?;
    connection.execute_batch(
        "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; \
         CREATE TABLE t (id INTEGER PRIMARY KEY, x BLOB); \
         CREATE TABLE b (id INTEGER PRIMARY KEY, x BLOB); \
         CREATE TABLE stock (id INTEGER PRIMARY KEY, quantity, x BLOB); \
         CREATE TABLE customer (id INTEGER PRIMARY KEY, balance, x BLOB); \
         CREATE TABLE orders (id INTEGER PRIMARY KEY, customer); \
         CREATE TABLE lines (id INTEGER PRIMARY KEY, of, item, x BLOB); \
         CREATE TABLE payment (id INTEGER PRIMARY KEY, customer, x BLOB); BEGIN",
    )?;
    for _ in 0..rows {
        connection.prepare_cached("INSERT INTO t (x) VALUES (?1)")?.execute([[b'r'; 100]])?;
    }
    for _ in 0..rows {
        let stock = "INSERT INTO stock (quantity, x) VALUES (1000, ?1)";
        connection.prepare_cached(stock)?.execute([[b's'; 300]])?;
    }
    for _ in 0..customers(rows) {
        let customer = "INSERT INTO customer (balance, x) VALUES (0, ?1)";
        connection.prepare_cached(customer)?.execute([[b'c'; 500]])?;
    }
    connection.execute_batch("COMMIT")?;
    Ok(())
}
