//! What commits cost, how a database comes and goes, and what is refused.

use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::fs;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::sync::Arc;

use journal_core::{MediumError, Pmem, Site};
use nvm_journal::AnyPolicy;
use nvm_journal::ports::Hook;
use nvm_journal_sqlite::{Error, Mount, for_pages, mount, mount_with_hook};
use rusqlite::{Connection, ErrorCode, OpenFlags};
use rustix::fs::inotify;

use crate::{Longer, connect, is_whole, mounted, number, small, stock, text};

/// Counts the fences of a journal.
#[derive(Clone, Debug, Default)]
struct Fences(Arc<AtomicU64>);

impl Hook for Fences {
    fn fence<P: Pmem>(&mut self, _site: Site, pmem: &mut P) -> Result<(), MediumError> {
        self.0.fetch_add(1, Ordering::Relaxed);
        pmem.fence()
    }
}

/// The kernel, asked for the files that are made in a folder.
struct Made(OwnedFd);

impl Made {
    fn watch(folder: &Path) -> Self {
        let watch = inotify::init(inotify::CreateFlags::NONBLOCK).expect("Linux has it");
        let made = inotify::WatchFlags::CREATE | inotify::WatchFlags::MOVED_TO;
        inotify::add_watch(&watch, folder, made).expect("a folder");
        Self(watch)
    }

    /// Their names, of those that were made since the last call.
    fn names(&self) -> Vec<String> {
        let mut memory = [MaybeUninit::uninit(); 4096];
        let mut events = inotify::Reader::new(&self.0, &mut memory);
        let mut names = Vec::new();
        while let Ok(event) = events.next() {
            let name = event.file_name().expect("a file in a folder has a name");
            names.push(name.to_string_lossy().into_owned());
        }
        names
    }
}

const TABLE: &str = "CREATE TABLE t (id INTEGER PRIMARY KEY, x TEXT)";

pub(crate) fn one_fence(folder: &Path, _longer: &Longer) {
    let fences = Fences::default();
    let mounted = mount_with_hook(folder.join("db"), &small(folder), &fences).expect("a mount");
    let connection = connect(folder);
    let made = Made::watch(folder);
    connection.execute_batch(TABLE).expect("a table");
    // The table's own transaction is the first of an empty file, and has a rollback journal.
    assert_eq!(made.names(), ["db-journal"]);
    let before = (mounted.counts(), fences.0.load(Ordering::Relaxed));
    let mut insert = connection.prepare("INSERT INTO t (x) VALUES (?1)").expect("a statement");
    for round in 0..400 {
        insert.execute([format!("row {round}")]).expect("an insert");
    }
    let now = (mounted.counts(), fences.0.load(Ordering::Relaxed));
    assert_eq!(now.0.commits - before.0.commits, 400);
    assert_eq!(now.1 - before.1, 400, "one fence a commit");
    assert!(now.0.host_calls - before.0.host_calls <= 1, "{:?} {:?}", before.0, now.0);
    assert_eq!(now.0.host_files, before.0.host_files);
    assert_eq!((now.0.loose_pages, now.0.syncs), (before.0.loose_pages, before.0.syncs));
    assert!(made.names().is_empty(), "no rollback journal, and no WAL");
    let told = text(&connection, "PRAGMA nvj_stats");
    assert!(told.starts_with("400 commits of 8"), "{told}");
    let home: i64 = text(&connection, "PRAGMA nvj_checkpoint").parse().expect("a number");
    assert!(home > 0, "{home}");
    drop(insert);
    drop(connection);
    mounted.close().expect("a close");
}

pub(crate) fn policies(folder: &Path, _longer: &Longer) {
    let set = |policy: &AnyPolicy| [*policy, for_pages(*policy)];
    let all: Vec<AnyPolicy> = AnyPolicy::ALL.iter().flat_map(set).collect();
    for policy in &all {
        let fences = Fences::default();
        let mount = small(folder).policy(*policy);
        let mounted = mount_with_hook(folder.join("db"), &mount, &fences).expect("a mount");
        let connection = connect(folder);
        connection
            .execute_batch("CREATE TABLE IF NOT EXISTS t (id INTEGER PRIMARY KEY, x TEXT)")
            .expect("a table");
        connection.execute_batch("INSERT INTO t (x) VALUES ('first')").expect("an insert");
        let before = fences.0.load(Ordering::Relaxed);
        for _ in 0..20 {
            connection.execute("INSERT INTO t (x) VALUES ('more')", []).expect("an insert");
        }
        let stored = fences.0.load(Ordering::Relaxed) - before;
        assert_eq!(stored, 20, "{policy}: one fence a commit");
        drop(connection);
        mounted.close().expect("a close");
    }
    let plain = stock(folder);
    is_whole(&plain);
    let rows = 21 * all.len() as i64;
    assert_eq!(number(&plain, "SELECT count(*) FROM t"), rows);
}

pub(crate) fn plain_after_close(folder: &Path, _longer: &Longer) {
    for round in 1..=3 {
        let mounted = mounted(folder);
        let connection = connect(folder);
        connection.execute_batch("CREATE TABLE IF NOT EXISTS t (x)").expect("a table");
        connection.execute("INSERT INTO t VALUES (randomblob(9000))", []).expect("an insert");
        let refused = mounted.close().expect_err("a connection is open");
        assert!(matches!(refused, Error::InUse { connections: 1 }), "{refused}");
        drop(connection);
        mounted.close().expect("a close");
        let plain = stock(folder);
        is_whole(&plain);
        // In turn: the other one writes too.
        plain.execute("INSERT INTO t VALUES (randomblob(9000))", []).expect("an insert");
        assert_eq!(number(&plain, "SELECT count(*) FROM t"), 2 * round);
        let pages = number(&plain, "PRAGMA page_count");
        let bytes = fs::metadata(folder.join("db")).expect("a file").len();
        assert_eq!(bytes, pages as u64 * 4096, "no more and no less than its pages");
    }
}

pub(crate) fn mount_of_a_plain_one(folder: &Path, _longer: &Longer) {
    let plain = stock(folder);
    plain.execute_batch("PRAGMA page_size = 8192; CREATE TABLE t (x)").expect("a table");
    for _ in 0..50 {
        plain.execute("INSERT INTO t VALUES (randomblob(1000))", []).expect("an insert");
    }
    drop(plain);
    let mounted = mounted(folder);
    let connection = connect(folder);
    assert_eq!(number(&connection, "SELECT count(*) FROM t"), 50);
    connection.execute("DELETE FROM t WHERE rowid > 10", []).expect("a delete");
    assert_eq!(number(&connection, "SELECT count(*) FROM t"), 10);
    is_whole(&connection);
    assert!(mounted.counts().commits > 0);
    drop(connection);
    mounted.close().expect("a close");
    assert_eq!(number(&stock(folder), "SELECT count(*) FROM t"), 10);
}

pub(crate) fn uris(folder: &Path, _longer: &Longer) {
    let uri = format!(
        "file:{}?vfs=nvj&nvm={}&nvm_bytes=4194304&policy=lcow",
        folder.join("db").display(),
        folder.join("nvm").display()
    );
    let first = Connection::open(&uri).expect("a connection");
    first.execute_batch("CREATE TABLE t (x); INSERT INTO t VALUES (7)").expect("a table");
    let second = Connection::open(&uri).expect("a connection");
    assert_eq!(number(&second, "SELECT x FROM t"), 7);
    drop(first);
    second.execute("INSERT INTO t VALUES (8)", []).expect("an insert");
    drop(second);
    assert_eq!(number(&stock(folder), "SELECT sum(x) FROM t"), 15);
    for wrong in ["policy=nothing", "nvm_bytes=many", "block_size=100"] {
        let refused = Connection::open(format!("{uri}&{wrong}").replace("policy=lcow&", ""));
        assert!(refused.is_err() || wrong.starts_with("nvm_bytes"), "{wrong}");
    }
    // On a plain disk, past the page cache.
    let nvm = format!("nvm-journal-sqlite-direct-{}", std::process::id());
    let nvm = Path::new(env!("CARGO_TARGET_TMPDIR")).join(nvm);
    let direct = format!(
        "file:{}?vfs=nvj&nvm={}&nvm_bytes=4194304&direct_io=1",
        folder.join("direct").display(),
        nvm.display()
    );
    let connection = Connection::open(direct).expect("a connection");
    connection.execute_batch("CREATE TABLE t (x); INSERT INTO t VALUES (7)").expect("a table");
    drop(connection);
    fs::remove_file(nvm).expect("the journal was there");
    let plain = Connection::open(folder.join("direct")).expect("a connection");
    assert_eq!(number(&plain, "SELECT x FROM t"), 7);

    let unknown = format!("file:{}?vfs=nvj", folder.join("db").display());
    let refused = Connection::open(unknown).expect_err("nothing says where its journal is");
    assert_eq!(refused.sqlite_error_code(), Some(ErrorCode::CannotOpen));
}

pub(crate) fn wal_is_refused(folder: &Path, _longer: &Longer) {
    let _mounted = mounted(folder);
    let connection = connect(folder);
    connection.execute_batch(TABLE).expect("a table");
    assert_eq!(text(&connection, "PRAGMA journal_mode = WAL"), "delete");
    assert_eq!(text(&connection, "PRAGMA journal_mode = TRUNCATE"), "truncate");
    connection.execute("INSERT INTO t (x) VALUES (1)", []).expect("an insert");
    assert!(!folder.join("db-wal").exists());
}

pub(crate) fn read_only(folder: &Path, _longer: &Longer) {
    let _mounted = mounted(folder);
    let connection = connect(folder);
    connection.execute_batch(TABLE).expect("a table");
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
    let reader = Connection::open_with_flags_and_vfs(folder.join("db"), flags, crate::VFS)
        .expect("a connection");
    assert_eq!(number(&reader, "SELECT count(*) FROM t"), 0);
    let refused = reader.execute("INSERT INTO t (x) VALUES (1)", []).expect_err("it only reads");
    assert_eq!(refused.sqlite_error_code(), Some(ErrorCode::ReadOnly));
}

pub(crate) fn not_a_journal(folder: &Path, _longer: &Longer) {
    let other = folder.join("other");
    let content = b"something dear to somebody".repeat(50_000);
    fs::write(&other, &content[..1 << 20]).expect("a file");
    let refused = mount(folder.join("db"), &Mount::new().nvm(&other)).expect_err("no journal");
    assert!(matches!(refused, Error::NotAJournal { .. }), "{refused}");
    assert!(fs::read(&other).expect("a file") == content[..1 << 20]);
    let refused = mount(folder.join("db"), &Mount::new()).expect_err("no memory");
    assert!(matches!(refused, Error::NoNvm), "{refused}");
    let tiny = small(folder).nvm_bytes(4096);
    let refused = mount(folder.join("db"), &tiny).expect_err("too small");
    assert!(matches!(refused, Error::TooSmall { bytes: 4096 }), "{refused}");
    fs::remove_file(folder.join("nvm")).expect("a file");
    let mounted = mounted(folder);
    let again = mount(folder.join("db"), &small(folder)).expect_err("it is mounted");
    assert!(matches!(again, Error::Mounted), "{again}");
    mounted.close().expect("a close");
}

pub(crate) fn others_are_kept_away(folder: &Path, _longer: &Longer) {
    let mounted = mounted(folder);
    let connection = connect(folder);
    connection.execute_batch(TABLE).expect("a table");
    let other = stock(folder);
    other.busy_timeout(Duration::ZERO).expect("a setting");
    let refused = other.execute_batch(TABLE).expect_err("it is mounted");
    assert_eq!(refused.sqlite_error_code(), Some(ErrorCode::DatabaseBusy));
    drop((connection, other));
    mounted.close().expect("a close");
    assert_eq!(number(&stock(folder), "SELECT count(*) FROM t"), 0);
}

pub(crate) fn vacuum(folder: &Path, _longer: &Longer) {
    let mounted = mounted(folder);
    let connection = connect(folder);
    connection.execute_batch(TABLE).expect("a table");
    for _ in 0..100 {
        connection.execute("INSERT INTO t (x) VALUES (randomblob(3000))", []).expect("an insert");
    }
    let before = number(&connection, "PRAGMA page_count");
    connection.execute("DELETE FROM t WHERE id > 5", []).expect("a delete");
    connection.execute_batch("VACUUM").expect("a vacuum");
    let after = number(&connection, "PRAGMA page_count");
    assert!(after < before / 5, "{before} {after}");
    is_whole(&connection);
    for _ in 0..100 {
        connection.execute("INSERT INTO t (x) VALUES (randomblob(3000))", []).expect("an insert");
    }
    is_whole(&connection);
    drop(connection);
    mounted.close().expect("a close");
    let plain = stock(folder);
    is_whole(&plain);
    assert_eq!(number(&plain, "SELECT count(*) FROM t"), 105);
}

/// The journal that SQLite writes behind a refused batch is synced before the first page.
pub(crate) fn fallback(folder: &Path, _longer: &Longer) {
    let mount_of = || small(folder).nvm_bytes(512 << 10);
    let mounted = mount(folder.join("db"), &mount_of()).expect("a mount");
    let connection = connect(folder);
    connection.execute_batch(TABLE).expect("a table");
    let before = mounted.counts();
    connection.execute_batch("BEGIN").expect("a transaction");
    for _ in 0..300 {
        connection.execute("INSERT INTO t (x) VALUES (randomblob(4000))", []).expect("an insert");
    }
    connection.execute_batch("COMMIT").expect("a commit");
    let now = mounted.counts();
    assert_eq!((now.commits, now.fallbacks - before.fallbacks), (before.commits, 1));
    assert_eq!((now.host_files - before.host_files, now.journal_syncs), (1, 1));
    assert!(now.loose_pages - before.loose_pages >= 300 && now.syncs > before.syncs);
    is_whole(&connection);
    connection.execute("INSERT INTO t (x) VALUES ('one more')", []).expect("an insert");
    assert_eq!(mounted.counts().commits, before.commits + 1, "small ones are batches again");
    // A spill of the page cache takes the same way, which SQLite syncs by itself.
    connection.execute_batch("PRAGMA cache_size = 10; BEGIN").expect("a transaction");
    connection.execute("UPDATE t SET x = randomblob(4000)", []).expect("an update");
    connection.execute_batch("ROLLBACK").expect("a rollback");
    is_whole(&connection);
    assert_eq!(number(&connection, "SELECT count(*) FROM t"), 301);
    assert!(!folder.join("db-journal").exists());
    drop(connection);
    mounted.close().expect("a close");
    is_whole(&stock(folder));
}

/// What the kernel is asked for before the first of the commits, and behind the last one.
const BEGIN: &str = "/nvj-begin";
const END: &str = "/nvj-end";

/// A process whose calls are listed: 1,000 commits.
pub(crate) fn commits(folder: &Path) -> ExitCode {
    let mounted = mounted(folder);
    let connection = connect(folder);
    connection.execute_batch(TABLE).expect("a table");
    let mut insert = connection.prepare("INSERT INTO t (x) VALUES (?1)").expect("a statement");
    insert.execute(["first"]).expect("an insert");
    assert!(!Path::new(BEGIN).exists());
    for round in 0..1000 {
        insert.execute([format!("row {round}")]).expect("an insert");
    }
    assert!(!Path::new(END).exists());
    drop(insert);
    drop(connection);
    assert!(mounted.counts().commits >= 1000);
    mounted.close().expect("a close");
    ExitCode::SUCCESS
}

/// The kernel itself says what a commit calls for.
pub(crate) fn calls(folder: &Path, _longer: &Longer) {
    let list = folder.join("calls");
    let program = std::env::current_exe().expect("a program knows its name");
    let mut command = Command::new("strace");
    command.args(["-f", "-y", "-e", "trace=%file,fsync,fdatasync,sync_file_range", "-o"]);
    let done = match command.arg(&list).arg(program).env(crate::CALLS, folder).output() {
        Ok(done) => done,
        Err(error) => return println!("  SKIPPED: there is no strace: {error}"),
    };
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    if said.contains("ptrace") {
        return println!("  SKIPPED: strace may not watch: {said}");
    }
    assert!(done.status.success(), "{said}");
    let list = fs::read_to_string(list).expect("a list");
    let (before, rest) = list.split_once(BEGIN).expect("the first mark");
    let (commits, _) = rest.split_once(END).expect("the last mark");
    assert!(before.contains("db-journal"), "the table has a rollback journal");
    // A checkpoint writes the database itself home.
    let wrong = |line: &&str| {
        let syncs_other = line.contains("sync(") && !line.contains("/db>");
        line.contains("db-journal") || line.contains("db-wal") || syncs_other
    };
    let wrong: Vec<_> = commits.lines().filter(wrong).take(5).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    println!("  1,000 commits: {} calls with a path", commits.lines().count());
}
