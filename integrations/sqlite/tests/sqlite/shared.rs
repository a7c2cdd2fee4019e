//! A database that other programs use in turn: what SQLite's own suite runs on.

use std::path::Path;
use std::process::{Command, ExitCode};

use nvm_journal::AnyPolicy;
use rusqlite::Connection;

use crate::{Longer, SHORT, is_whole, number, stock, text};

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

/// A process whose files may not become long: some pages of a transaction are home when the file
/// refuses the next one.
pub(crate) fn play(folder: &Path) -> ExitCode {
    let path = folder.join("db");
    let uri = format!("file:{}?vfs=nvj&shared=1&nvm_bytes=4194304", path.display());
    let connection = Connection::open(uri).expect("a connection");
    for round in 0..3 {
        let refused = connection
            .execute_batch(
                "BEGIN; UPDATE t SET x = zeroblob(length(x)); \
                 INSERT INTO t SELECT zeroblob(3000) FROM t; COMMIT",
            )
            .expect_err("the file may not become longer");
        println!("  {refused}");
        if !connection.is_autocommit() {
            connection.execute_batch("ROLLBACK").expect("a rollback");
        }
        // The transaction was taken back, in this process and for all others.
        for connection in [&connection, &stock(folder)] {
            is_whole(connection);
            let ones = "SELECT count(*) FROM t WHERE hex(substr(x, 1, 1)) = '01'";
            assert_eq!(number(connection, ones), 40, "round {round}");
            assert_eq!(number(connection, "SELECT count(*) FROM t"), 40, "round {round}");
        }
        // What is shorter is done.
        connection.execute("UPDATE u SET n = n + 1", []).expect("room");
        assert_eq!(number(&stock(folder), "SELECT n FROM u"), round + 1);
    }
    let told = text(&connection, "PRAGMA nvj_stats");
    assert!(told.starts_with("3 commits"), "{told}");
    ExitCode::SUCCESS
}

pub(crate) fn on_a_disk_that_fails(folder: &Path, _longer: &Longer) {
    let setup = stock(folder);
    setup
        .execute_batch("CREATE TABLE t (x); CREATE TABLE u (n); INSERT INTO u VALUES (0)")
        .expect("tables");
    for _ in 0..40 {
        let row = [1_u8; 3000];
        setup.execute("INSERT INTO t VALUES (?1)", [row]).expect("an insert");
    }
    drop(setup);
    assert!(!folder.join("db-journal").exists());
    // The limit is of half a KiB each. Without the trap, the system would end the process.
    let program = std::env::current_exe().expect("a program knows its name");
    let limited = "trap '' XFSZ; ulimit -f 500; exec \"$0\"";
    let mut command = Command::new("sh");
    command.args(["-c", limited]).arg(program).env(SHORT, folder);
    assert!(command.status().expect("a process").success());
    assert!(!folder.join("db-journal").exists(), "nothing is left to take back");
    let stock = stock(folder);
    is_whole(&stock);
    assert_eq!(number(&stock, "SELECT n FROM u"), 3);
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
