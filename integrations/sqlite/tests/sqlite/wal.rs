//! `journal_mode=WAL` without shared memory: one connection may, and its WAL is a file of the host.

use core::time::Duration;
use std::path::Path;

use nvm_journal_sqlite::mount;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::{Longer, VFS, connect, is_whole, mounted, number, small, stock, text};

/// A connection that has not read anything.
fn bare(folder: &Path) -> Connection {
    let flags = OpenFlags::default();
    let connection = Connection::open_with_flags_and_vfs(folder.join("db"), flags, VFS);
    connection.expect("a connection")
}

fn connect_fails(folder: &Path) -> rusqlite::Error {
    let read = bare(folder).query_row("SELECT x FROM t", [], |row| row.get::<_, i64>(0));
    read.expect_err("there is no shared memory")
}

fn exclusive_wal(connection: &Connection) {
    assert_eq!(text(connection, "PRAGMA locking_mode = EXCLUSIVE"), "exclusive");
    assert_eq!(text(connection, "PRAGMA journal_mode = WAL"), "wal");
}

pub(crate) fn exclusive(folder: &Path, _longer: &Longer) {
    let mounted = mounted(folder);
    let connection = connect(folder);
    connection.execute_batch("CREATE TABLE t (x)").expect("a table");
    exclusive_wal(&connection);
    let before = mounted.counts();
    for x in 0..50 {
        connection.execute("INSERT INTO t VALUES (?1)", [x]).expect("an insert");
    }
    // Commits go to the WAL of the host, and not into the journal.
    assert_eq!(mounted.counts().commits, before.commits);
    assert!(folder.join("db-wal").exists());
    assert_eq!(number(&connection, "PRAGMA wal_checkpoint(TRUNCATE)"), 0);
    is_whole(&connection);
    // A second connection has no shared memory, and is told so.
    let second = bare(folder);
    second.busy_timeout(Duration::ZERO).expect("a setting");
    let refused = second.query_row("SELECT count(*) FROM t", [], |row| row.get::<_, i64>(0));
    let code = refused.expect_err("the first one is alone").sqlite_error_code();
    assert_eq!(code, Some(ErrorCode::DatabaseBusy));
    drop(second);
    // Back again, commits are batches.
    assert_eq!(text(&connection, "PRAGMA journal_mode = DELETE"), "delete");
    let before = mounted.counts();
    connection.execute("INSERT INTO t VALUES (50)", []).expect("an insert");
    assert_eq!(mounted.counts().commits, before.commits + 1);
    assert!(!folder.join("db-wal").exists());
    drop(connection);
    mounted.close().expect("a close");
    let plain = stock(folder);
    is_whole(&plain);
    assert_eq!(number(&plain, "SELECT count(*) FROM t"), 51);
}

/// The WAL stays beside the database, and the next mount goes on with it.
pub(crate) fn left_behind(folder: &Path, _longer: &Longer) {
    let mounted = mounted(folder);
    let connection = connect(folder);
    connection.execute_batch("CREATE TABLE t (x)").expect("a table");
    exclusive_wal(&connection);
    connection.execute_batch("PRAGMA wal_autocheckpoint = 0").expect("a setting");
    connection.execute_batch("INSERT INTO t VALUES (7)").expect("an insert");
    // As if the process had died: neither the connection nor the mount is closed in good order.
    std::fs::copy(folder.join("db-wal"), folder.join("kept")).expect("a WAL");
    mounted.checkpoint().expect("a checkpoint");
    drop(mounted);
    drop(connection);
    std::fs::rename(folder.join("kept"), folder.join("db-wal")).expect("a WAL");
    let mounted = mount(folder.join("db"), &small(folder)).expect("a mount");
    // A connection that does not ask to be alone is refused: it would need shared memory.
    let refused = connect_fails(folder).sqlite_error_code();
    assert_eq!(refused, Some(ErrorCode::CannotOpen));
    let connection = bare(folder);
    assert_eq!(text(&connection, "PRAGMA locking_mode = EXCLUSIVE"), "exclusive");
    assert_eq!(number(&connection, "SELECT x FROM t"), 7);
    is_whole(&connection);
    assert_eq!(text(&connection, "PRAGMA journal_mode = DELETE"), "delete");
    drop(connection);
    mounted.close().expect("a close");
    assert_eq!(number(&stock(folder), "SELECT x FROM t"), 7);
}
