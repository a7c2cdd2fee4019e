//! A database that other programs use in turn: what SQLite's own suite runs on.

use std::path::Path;

use nvm_journal::AnyPolicy;
use rusqlite::Connection;

use crate::{Longer, is_whole, number, stock, text};

fn shared(folder: &Path) -> Connection {
    let uri = format!("file:{}?vfs=nvj&shared=1&block_size=512", folder.join("db").display());
    Connection::open(uri).expect("a connection")
}

pub(crate) fn in_turn(folder: &Path, _longer: &Longer) {
    let first = shared(folder);
    first.execute_batch("CREATE TABLE t (x)").expect("a table");
    let other = stock(folder);
    for round in 0..10 {
        first.execute("INSERT INTO t VALUES (randomblob(3000))", []).expect("an insert");
        assert_eq!(number(&other, "SELECT count(*) FROM t"), 2 * round + 1);
        other.execute("INSERT INTO t VALUES (randomblob(9000))", []).expect("an insert");
        assert_eq!(number(&first, "SELECT count(*) FROM t"), 2 * round + 2);
    }
    let told = text(&first, "PRAGMA nvj_stats");
    assert!(!told.starts_with("0 commits"), "{told}");
    other.execute("DELETE FROM t WHERE rowid > 4", []).expect("a delete");
    other.execute_batch("VACUUM").expect("a vacuum");
    assert_eq!(number(&first, "SELECT count(*) FROM t"), 4);
    is_whole(&first);
    // 1. Each has the other one's locks.
    other.execute_batch("BEGIN IMMEDIATE").expect("a transaction");
    first.execute("INSERT INTO t VALUES (1)", []).expect_err("another one writes");
    other.execute_batch("COMMIT").expect("a commit");
    first.execute("INSERT INTO t VALUES (1)", []).expect("no other one writes");
    // 2. Another file of the name is another database.
    std::fs::remove_file(folder.join("db")).expect("a file");
    let second = shared(folder);
    second.execute_batch("CREATE TABLE u (x)").expect("a table");
    is_whole(&second);
    assert_eq!(number(&second, "SELECT count(*) FROM u"), 0);
    drop((first, second, other));
    assert_eq!(number(&stock(folder), "SELECT count(*) FROM u"), 0);
    // 3. A connection that has read nothing leaves the file as long as others have made it.
    std::fs::remove_file(folder.join("db")).expect("a file");
    let idle = shared(folder);
    let other = stock(folder);
    other.execute_batch("CREATE TABLE t (x); INSERT INTO t VALUES (7)").expect("a table");
    drop((other, idle));
    assert_eq!(number(&stock(folder), "SELECT x FROM t"), 7);
    // 4. What others change in place is read anew, under policies that compare with old images too.
    for policy in AnyPolicy::ALL {
        std::fs::remove_file(folder.join("db")).expect("a file");
        let path = folder.join("db");
        let uri = format!("file:{}?vfs=nvj&shared=1&policy={policy}", path.display());
        let first = Connection::open(uri).expect("a connection");
        first.execute_batch("CREATE TABLE t (x); INSERT INTO t VALUES (0)").expect("a table");
        let other = stock(folder);
        for round in 0..4 {
            for (by, least) in [(&other, 1), (&first, 2)] {
                by.execute("UPDATE t SET x = x + 1", []).expect("an update");
                assert_eq!(number(by, "SELECT x FROM t"), 2 * round + least, "{policy}");
            }
        }
        is_whole(&other);
    }
}

pub(crate) fn with_a_wal(folder: &Path, _longer: &Longer) {
    let first = shared(folder);
    first.execute_batch("CREATE TABLE t (x)").expect("a table");
    assert_eq!(text(&first, "PRAGMA journal_mode = WAL"), "wal");
    let (second, other) = (shared(folder), stock(folder));
    for round in 0..10 {
        first.execute("INSERT INTO t VALUES (randomblob(3000))", []).expect("an insert");
        second.execute("INSERT INTO t VALUES (randomblob(3000))", []).expect("an insert");
        other.execute("INSERT INTO t VALUES (randomblob(3000))", []).expect("an insert");
        let mode = if round % 2 == 0 { "TRUNCATE" } else { "PASSIVE" };
        let by = if round % 3 == 0 { &other } else { &first };
        assert_eq!(number(by, &format!("PRAGMA wal_checkpoint({mode})")), 0);
        for connection in [&first, &second, &other] {
            assert_eq!(number(connection, "SELECT count(*) FROM t"), 3 * (round + 1));
        }
    }
    is_whole(&first);
    is_whole(&other);
    drop((first, second, other));
    assert_eq!(number(&stock(folder), "SELECT count(*) FROM t"), 30);
}
