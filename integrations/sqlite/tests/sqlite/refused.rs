//! Mounts that are refused, because the journal and the file do not belong together.

use core::time::Duration;
use std::fs;
use std::path::Path;
use std::thread;

use nvm_journal_sqlite::{Error, Mounted, mount};
use rusqlite::ErrorCode;

use crate::{Longer, connect, connect_to, is_whole, mounted, number, small, stock};

const ROWS: &str = "INSERT INTO t WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 \
     FROM n WHERE i < 100) SELECT randomblob(3000) FROM n";

/// A refused mount leaves no journal: it would be older than the file.
pub(crate) fn leaves_nothing(folder: &Path, _longer: &Longer) {
    let other = stock(folder);
    other.execute_batch("CREATE TABLE t (x); BEGIN IMMEDIATE").expect("a transaction");
    let refused = mount(folder.join("db"), &small(folder)).expect_err("another one writes");
    assert!(matches!(refused, Error::Busy), "{refused}");
    assert!(!folder.join("nvm").exists());
    other.execute_batch(ROWS).expect("room");
    other.execute_batch("COMMIT").expect("a commit");
    drop(other);
    let mounted = mounted(folder);
    assert_eq!(number(&connect(folder), "SELECT count(*) FROM t"), 100);
    mounted.close().expect("a close");
    let stock = stock(folder);
    is_whole(&stock);
    assert_eq!(number(&stock, "SELECT count(*) FROM t"), 100);
}

/// A file that another program has made longer is not the one that an open journal knows.
pub(crate) fn changed_outside(folder: &Path, _longer: &Longer) {
    let first = mounted(folder);
    let connection = connect(folder);
    connection.execute_batch("CREATE TABLE t (x)").expect("a table");
    connection.execute_batch(ROWS).expect("room");
    // 1. The journal has cut it itself, and the disk's file is as long as it was.
    first.checkpoint().expect("a checkpoint");
    connection.execute_batch("DELETE FROM t WHERE rowid > 3; VACUUM").expect("a vacuum");
    drop((connection, first));
    let longer = fs::metadata(folder.join("db")).expect("a file").len();
    assert!(longer > 300_000, "{longer}");
    let second = mounted(folder);
    let connection = connect(folder);
    assert_eq!(number(&connection, "SELECT count(*) FROM t"), 3);
    is_whole(&connection);
    drop(connection);
    second.close().expect("a close");
    drop(second);
    // 2. Another program has made it longer.
    drop(mounted(folder));
    stock(folder).execute_batch(ROWS).expect("room");
    let len = fs::metadata(folder.join("db")).expect("a file").len();
    let refused = mount(folder.join("db"), &small(folder)).expect_err("it is longer");
    let Error::ChangedOutside { path, found, known } = refused else { panic!("{refused}") };
    assert_eq!((path, found), (folder.join("db"), len));
    assert!(known < 100_000, "{known}");
    assert_eq!(number(&stock(folder), "SELECT count(*) FROM t"), 103);
    fs::remove_file(folder.join("nvm")).expect("a journal");
    mounted(folder).close().expect("a close");
    assert_eq!(number(&stock(folder), "SELECT count(*) FROM t"), 103);
}

/// One journal is one database's until it is closed.
pub(crate) fn other_database(folder: &Path, _longer: &Longer) {
    let at = |name: &str| mount(folder.join(name), &small(folder));
    let left = |mounted: Result<Mounted, Error>, name: &str, rows: i64| {
        let mounted = mounted.expect("a mount");
        let connection = connect_to(&folder.join(name));
        connection.execute_batch("CREATE TABLE IF NOT EXISTS t (x)").expect("a table");
        connection.execute("INSERT INTO t VALUES (1)", []).expect("an insert");
        assert_eq!(number(&connection, "SELECT count(*) FROM t"), rows);
        drop((connection, mounted));
    };
    left(at("db"), "db", 1);
    fs::write(folder.join("other"), []).expect("a file");
    let other = |mounted: Result<Mounted, Error>, name: &str| {
        let refused = mounted.expect_err("it is another one's");
        let Error::OtherDatabase { path, nvm } = refused else { panic!("{refused}") };
        assert_eq!((path, nvm), (folder.join(name), folder.join("nvm")));
    };
    other(at("other"), "other");
    let uri = format!(
        "file:{}?vfs=nvj&nvm={}",
        folder.join("other").display(),
        folder.join("nvm").display()
    );
    let refused = rusqlite::Connection::open(&uri).and_then(|it| it.execute_batch("SELECT 1"));
    let refused = refused.expect_err("it is another one's").sqlite_error_code();
    assert_eq!(refused, Some(ErrorCode::NotADatabase));
    // 1. The same file under another name, and a copy under the same name.
    fs::rename(folder.join("db"), folder.join("moved")).expect("a file");
    left(at("moved"), "moved", 2);
    fs::copy(folder.join("moved"), folder.join("copy")).expect("a file");
    fs::rename(folder.join("copy"), folder.join("moved")).expect("a file");
    left(at("moved"), "moved", 3);
    // 2. A copy under another name, if the caller says that it is one.
    fs::copy(folder.join("moved"), folder.join("copy")).expect("a file");
    other(at("copy"), "copy");
    left(mount(folder.join("copy"), &small(folder).moved()), "copy", 4);
    left(at("copy"), "copy", 5);
    other(at("moved"), "moved");
    // 3. A closed journal is free for any database.
    at("copy").expect("a mount").close().expect("a close");
    left(at("other"), "other", 1);
    let stock = rusqlite::Connection::open(folder.join("copy")).expect("a connection");
    assert_eq!(number(&stock, "SELECT count(*) FROM t"), 5);
}

/// A file that is mounted is not opened under another name, and not written when it is moved.
pub(crate) fn other_names(folder: &Path, _longer: &Longer) {
    let first = mounted(folder);
    let connection = connect(folder);
    connection.execute_batch("CREATE TABLE t (x)").expect("a table");
    fs::hard_link(folder.join("db"), folder.join("link")).expect("a link");
    let second = small(folder).nvm(folder.join("nvm2"));
    let refused = mount(folder.join("link"), &second).expect_err("it is mounted");
    assert!(matches!(refused, Error::Mounted), "{refused}");
    assert!(!folder.join("nvm2").exists());
    let insert = || connection.execute("INSERT INTO t VALUES (1)", []);
    insert().expect("an insert");
    fs::rename(folder.join("db"), folder.join("away")).expect("a file");
    // The host is asked once in a millisecond.
    thread::sleep(Duration::from_millis(2));
    let refused = insert().expect_err("it has moved").sqlite_error_code();
    assert_eq!(refused, Some(ErrorCode::ReadOnly));
    fs::write(folder.join("db"), []).expect("a file");
    insert().expect_err("another file is there");
    fs::rename(folder.join("away"), folder.join("db")).expect("a file");
    insert().expect("it is back");
    assert_eq!(number(&connection, "SELECT count(*) FROM t"), 2);
    drop(connection);
    first.close().expect("a close");
}

/// A database whose name has just gone may take a commit, which needs no other file. It has no
/// rollback journal: that would have a name that nobody looks for.
pub(crate) fn gone(folder: &Path, _longer: &Longer) {
    const MOVED: i32 = 8 | 4 << 8;
    let mounted = mounted(folder);
    let connection = connect(folder);
    connection.execute_batch("CREATE TABLE t (x)").expect("a table");
    connection.execute_batch(ROWS).expect("a batch");
    connection.execute_batch("PRAGMA cache_size = 5").expect("a setting");
    // The transaction has begun before the name is gone.
    connection.execute_batch("BEGIN; DELETE FROM t WHERE rowid = 1").expect("a change");
    fs::remove_file(folder.join("db")).expect("it is there");
    let refused = connection.execute_batch("UPDATE t SET x = randomblob(3000)");
    let refused = refused.expect_err("it needs a rollback journal");
    let code = refused.sqlite_error().map(|error| error.extended_code);
    assert_eq!(code, Some(MOVED), "{refused}");
    drop(connection.execute_batch("ROLLBACK"));
    assert_eq!(number(&connection, "SELECT count(*) FROM t"), 100);
    is_whole(&connection);
    assert!(!folder.join("db-journal").exists());
    drop(connection);
    drop(mounted);
}
