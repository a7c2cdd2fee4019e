//! Statements, each compared with the same on a database in memory.

use std::path::Path;

use rusqlite::Connection;

use crate::{Dice, Longer, connect, is_whole, mounted, stock};

const TABLES: &str = "CREATE TABLE a (id INTEGER PRIMARY KEY, x TEXT); \
     CREATE TABLE b (k TEXT PRIMARY KEY, v BLOB) WITHOUT ROWID; CREATE INDEX i ON a (x)";

fn statement(dice: &mut Dice) -> String {
    let (key, other) = (dice.below(60), dice.below(60));
    match dice.below(12) {
        0..=3 => format!("INSERT OR REPLACE INTO a VALUES ({key}, 'row {other}')"),
        4 | 5 => format!("INSERT OR REPLACE INTO b VALUES ('{key}', zeroblob({}))", other * 150),
        6 => format!("UPDATE a SET x = 'changed {other}' WHERE id < {key}"),
        7 => format!("DELETE FROM a WHERE id = {key}"),
        8 => format!("DELETE FROM b WHERE k = '{key}'"),
        9 => format!("BEGIN; INSERT OR REPLACE INTO a VALUES ({key}, 'gone'); ROLLBACK"),
        10 => format!(
            "BEGIN; DELETE FROM a WHERE id > {key}; SAVEPOINT s; DELETE FROM b; ROLLBACK TO s; \
             INSERT OR REPLACE INTO b VALUES ('{other}', 'kept'); COMMIT"
        ),
        _ => "VACUUM".to_owned(),
    }
}

/// Everything that is in both tables.
fn content(connection: &Connection) -> Vec<String> {
    let sql = "SELECT 'a', id, x FROM a UNION ALL SELECT 'b', k, hex(v) FROM b ORDER BY 1, 2";
    let mut rows = connection.prepare(sql).expect("a statement");
    let row = |row: &rusqlite::Row<'_>| {
        Ok(format!("{:?} {:?} {:?}", row.get_ref(0)?, row.get_ref(1)?, row.get_ref(2)?))
    };
    rows.query_map([], row).expect("rows").map(|row| row.expect("a row")).collect()
}

pub(crate) fn as_elsewhere(folder: &Path, _longer: &Longer) {
    let mut dice = Dice(0x5EED);
    let expected = Connection::open_in_memory().expect("a database");
    expected.execute_batch(TABLES).expect("tables");
    let mut is_new = true;
    for round in 0..12 {
        let mounted = mounted(folder);
        let connection = connect(folder);
        if is_new {
            connection.execute_batch(TABLES).expect("tables");
            is_new = false;
        }
        if round % 3 == 1 {
            connection.execute_batch("PRAGMA cache_size = 5").expect("a pragma");
        }
        for _ in 0..40 {
            let statement = statement(&mut dice);
            expected.execute_batch(&statement).expect("a statement");
            connection.execute_batch(&statement).expect("a statement");
        }
        assert!(content(&connection) == content(&expected), "round {round}");
        is_whole(&connection);
        drop(connection);
        // Every other time the mount goes as if the process had died.
        if round % 2 == 0 {
            mounted.close().expect("a close");
            assert!(content(&stock(folder)) == content(&expected), "round {round}");
        }
    }
}
