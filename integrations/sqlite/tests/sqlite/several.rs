//! Connections beside each other, in one thread and in several.

use core::time::Duration;
use std::path::Path;
use std::thread;

use rusqlite::{ErrorCode, TransactionBehavior};

use crate::{Longer, connect, is_whole, mounted, number};

pub(crate) fn two_connections(folder: &Path, _longer: &Longer) {
    let mounted = mounted(folder);
    let (first, second) = (connect(folder), connect(folder));
    first.execute_batch("CREATE TABLE t (x); INSERT INTO t VALUES (1)").expect("a table");
    second.busy_timeout(Duration::ZERO).expect("a setting");
    first.busy_timeout(Duration::ZERO).expect("a setting");
    // 1. One writes, the other one reads what was before.
    first.execute_batch("BEGIN IMMEDIATE; UPDATE t SET x = 2").expect("a transaction");
    assert_eq!(number(&second, "SELECT x FROM t"), 1);
    let refused = second.execute("UPDATE t SET x = 3", []).expect_err("another one writes");
    assert_eq!(refused.sqlite_error_code(), Some(ErrorCode::DatabaseBusy));
    first.execute_batch("COMMIT").expect("a commit");
    assert_eq!(number(&second, "SELECT x FROM t"), 2);
    // 2. A reader keeps the writer from committing, until it leaves.
    second.execute_batch("BEGIN").expect("a transaction");
    assert_eq!(number(&second, "SELECT x FROM t"), 2);
    let refused = first.execute("UPDATE t SET x = 4", []).expect_err("another one reads");
    assert_eq!(refused.sqlite_error_code(), Some(ErrorCode::DatabaseBusy));
    assert_eq!(number(&second, "SELECT x FROM t"), 2);
    second.execute_batch("COMMIT").expect("a commit");
    first.execute("UPDATE t SET x = 4", []).expect("nobody reads");
    assert_eq!(number(&second, "SELECT x FROM t"), 4);
    drop((first, second));
    mounted.close().expect("a close");
}

/// Writers move units between accounts, readers add them all up.
pub(crate) fn threads(folder: &Path, _longer: &Longer) {
    const ACCOUNTS: i64 = 20;
    let mounted = mounted(folder);
    let setup = connect(folder);
    setup.execute_batch("CREATE TABLE t (id INTEGER PRIMARY KEY, units)").expect("a table");
    for id in 0..ACCOUNTS {
        setup.execute("INSERT INTO t VALUES (?1, 100)", [id]).expect("an insert");
    }
    thread::scope(|scope| {
        for writer in 0..3_i64 {
            scope.spawn(move || {
                let mut connection = connect(folder);
                connection.busy_timeout(Duration::from_secs(60)).expect("a setting");
                for round in 0..150_i64 {
                    let (from, to) = ((round * 7 + writer) % ACCOUNTS, (round * 3) % ACCOUNTS);
                    let kind = TransactionBehavior::Immediate;
                    let transaction = connection.transaction_with_behavior(kind).expect("a turn");
                    let take = "UPDATE t SET units = units - 1 WHERE id = ?1";
                    transaction.execute(take, [from]).expect("an update");
                    let give = "UPDATE t SET units = units + 1 WHERE id = ?1";
                    transaction.execute(give, [to]).expect("an update");
                    transaction.commit().expect("a commit");
                }
            });
        }
        for _ in 0..2 {
            scope.spawn(move || {
                let connection = connect(folder);
                connection.busy_timeout(Duration::from_secs(60)).expect("a setting");
                for _ in 0..150 {
                    assert_eq!(number(&connection, "SELECT sum(units) FROM t"), 100 * ACCOUNTS);
                }
            });
        }
    });
    is_whole(&setup);
    assert!(mounted.counts().commits >= 450);
    drop(setup);
    mounted.close().expect("a close");
}
