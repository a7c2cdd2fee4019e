//! A program that knows nothing of this crate loads the extension, and opens databases by URIs. A
//! SQLite that cannot commit through a VFS is refused, and told what to do.

#![allow(clippy::print_stdout, reason = "this is a program")]
#![allow(clippy::std_instead_of_core, reason = "a part of it is a program with std")]

use std::path::{Path, PathBuf};
use std::process::Command;

use rusqlite::{Connection, ErrorCode};
use serde_json::Value;

/// What the child is told of its folder.
const FOLDER: &str = "NVM_JOURNAL_SQLITE_FOLDER";

/// Builds the extension, as fast as that goes; returns the library.
fn extension() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("a target directory");
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let built = Command::new(cargo)
        .args(["build", "--quiet", "--manifest-path"])
        .arg(here.join("extension/Cargo.toml"))
        .arg("--target-dir")
        .arg(target)
        .status()
        .expect("a compiler");
    assert!(built.success(), "the extension does not build");
    target.join("debug/libnvm_journal_sqlite_extension.so")
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
    a_sqlite_without_atomic_batches_is_refused();
    println!("test a sqlite without atomic batches is refused ... ok");
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

/// A program that has SQLite in it, and loads the extension that its argument names.
const HOST: &str = r#"
#include <stdio.h>
#include "sqlite3.h"
int main(int count, char **arguments) {
  sqlite3 *db;
  char *why = 0;
  if (count < 2 || sqlite3_open(":memory:", &db)) return 2;
  sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 1, (void *)0);
  int code = sqlite3_load_extension(db, arguments[1], 0, &why);
  printf("%s, VFS %s\n", why ? why : "loaded", sqlite3_vfs_find("nvj") ? "is there" : "is absent");
  return code != SQLITE_OK;
}
"#;

/// The folder of SQLite's source, as it is compiled into this program.
fn source_of_sqlite() -> PathBuf {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    let said = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--manifest-path", manifest])
        .output()
        .expect("a list of packages");
    let said: Value = serde_json::from_slice(&said.stdout).expect("a list of packages");
    let packages = said["packages"].as_array().expect("packages");
    let binding = packages.iter().find(|package| package["name"] == "libsqlite3-sys");
    let manifest = binding.expect("a package")["manifest_path"].as_str().expect("a path");
    Path::new(manifest).parent().expect("a folder").join("sqlite3")
}

fn a_sqlite_without_atomic_batches_is_refused() {
    let (folder, extension, source) = (folder("refused"), extension(), source_of_sqlite());
    std::fs::write(folder.join("host.c"), HOST).expect("a file");
    // The source is the one that the other tests have. What differs is the option alone.
    for (option, is_taken) in [("-DNOTHING", false), ("-DSQLITE_ENABLE_BATCH_ATOMIC_WRITE", true)] {
        let built = Command::new("cc")
            .args(["-O0", "-w", option, "-I"])
            .arg(&source)
            .args(["-o", "host", "host.c"])
            .arg(source.join("sqlite3.c"))
            .args(["-lpthread", "-ldl", "-lm"])
            .current_dir(&folder)
            .status()
            .expect("a C compiler: SQLite was compiled by one");
        assert!(built.success(), "the host does not build");
        let mut host = Command::new(folder.join("host"));
        let said = host.arg(&extension).output().expect("a program");
        let text = String::from_utf8_lossy(&said.stdout).into_owned();
        assert_eq!(said.status.success(), is_taken, "{option}: {text}");
        if is_taken {
            assert!(text.contains("VFS is there"), "{text}");
            continue;
        }
        for says in
            ["-DSQLITE_ENABLE_BATCH_ATOMIC_WRITE", "LIBSQLITE3_FLAGS", "build it anew", "absent"]
        {
            assert!(text.contains(says), "{says}: {text}");
        }
    }
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
