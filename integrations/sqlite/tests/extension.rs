//! A program that knows nothing of this crate loads the extension, and opens databases by URIs.

#![allow(clippy::print_stdout, reason = "this is a program")]
#![allow(clippy::std_instead_of_core, reason = "a part of it is a program with std")]

use std::path::{Path, PathBuf};
use std::process::Command;

use rusqlite::{Connection, ErrorCode};

/// What the child is told of its folder.
const FOLDER: &str = "NVM_JOURNAL_SQLITE_FOLDER";

/// Builds the extension; returns the library.
fn extension() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("a target directory");
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let built = Command::new(cargo)
        .args(["build", "--release", "--quiet", "--manifest-path"])
        .arg(here.join("extension/Cargo.toml"))
        .arg("--target-dir")
        .arg(target)
        .status()
        .expect("a compiler");
    assert!(built.success(), "the extension does not build");
    target.join("release/libnvm_journal_sqlite_extension.so")
}

fn load(connection: &Connection, extension: &Path) {
    #![allow(unsafe_code, reason = "a library is loaded")]
    // SAFETY: this connection runs no statement of others.
    let enabled = unsafe { connection.load_extension_enable() };
    enabled.expect("a setting");
    // SAFETY: the library is the one that was built above.
    let loaded = unsafe { connection.load_extension(extension, None::<&str>) };
    loaded.expect("an extension");
}

fn folder(name: &str) -> PathBuf {
    let folder = format!("nvm-journal-sqlite-{name}-{}", std::process::id());
    let folder = std::env::temp_dir().join(folder);
    drop(std::fs::remove_dir_all(&folder));
    std::fs::create_dir_all(&folder).expect("a folder");
    folder
}

fn number(connection: &Connection, sql: &str) -> i64 {
    connection.query_row(sql, [], |row| row.get(0)).expect("a number")
}

fn main() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        return a_child_opens_by_default(Path::new(&folder));
    }
    if std::env::args().any(|argument| argument == "--list") {
        return;
    }
    a_program_loads_it_and_opens_databases_by_uris();
    println!("test a program loads it and opens databases by uris ... ok");
}

fn a_program_loads_it_and_opens_databases_by_uris() {
    let (folder, extension) = (folder("extension"), extension());
    let uri = format!(
        "file:{}?vfs=nvj&nvm={}&nvm_bytes=4194304",
        folder.join("db").display(),
        folder.join("nvm").display()
    );
    // 1. Without the extension there is no such VFS.
    Connection::open(&uri).expect_err("nothing was loaded");
    load(&Connection::open_in_memory().expect("a database"), &extension);
    // 2. Each policy, by its parameter. The connection that loaded it is closed: the VFS stays.
    for (round, policy) in (1..).zip(["full-block", "byte-delta", "adaptive"]) {
        let connection = Connection::open(format!("{uri}&policy={policy}")).expect("a connection");
        connection.execute_batch("CREATE TABLE IF NOT EXISTS t (x)").expect("a table");
        for _ in 0..10 {
            connection.execute("INSERT INTO t VALUES (randomblob(500))", []).expect("an insert");
        }
        let told: String =
            connection.query_row("PRAGMA nvj_stats", [], |row| row.get(0)).expect("a text");
        assert!(told.starts_with("10 commits") || told.starts_with("11 commits"), "{told}");
        assert!(!folder.join("db-journal").exists() && !folder.join("db-wal").exists());
        drop(connection);
        let plain = Connection::open(folder.join("db")).expect("a connection");
        assert_eq!(number(&plain, "SELECT count(*) FROM t"), 10 * round);
    }
    let refused = Connection::open(format!("{uri}&policy=none")).expect_err("no such policy");
    assert_eq!(refused.sqlite_error_code(), Some(ErrorCode::CannotOpen));
    // 3. A program that gives no URI has it from the environment.
    let child = Command::new(std::env::current_exe().expect("a program"))
        .env(FOLDER, &folder)
        .env("NVJ_DEFAULT", format!("nvm={}&nvm_bytes=4194304", folder.join("nvm2").display()))
        .output()
        .expect("a child");
    assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stderr));
    let plain = Connection::open(folder.join("db2")).expect("a connection");
    assert_eq!(number(&plain, "SELECT sum(x) FROM t"), 42);
    drop(plain);
    std::fs::remove_dir_all(folder).expect("a folder");
}

/// The environment has the parameters.
fn a_child_opens_by_default(folder: &Path) {
    load(&Connection::open_in_memory().expect("a database"), &extension());
    let connection = Connection::open(folder.join("db2")).expect("a connection");
    connection.execute_batch("CREATE TABLE t (x); INSERT INTO t VALUES (42)").expect("a table");
    let told: Result<String, _> = connection.query_row("PRAGMA nvj_stats", [], |row| row.get(0));
    assert!(told.is_ok_and(|told| told.contains("commits")));
}
