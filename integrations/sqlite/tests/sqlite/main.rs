//! SQLite on the VFS: what it costs, what it promises, and what it refuses.
//!
//! One binary, because each one that links SQLite takes its time. It starts itself again as a
//! writer that is killed, so it is a program and not a harness of the compiler's.
//!
//! ```sh
//! cargo test -p nvm-journal-sqlite
//! cargo test -p nvm-journal-sqlite --test sqlite -- kills=1000
//! cargo test -p nvm-journal-sqlite --test sqlite -- crashes=longer
//! ```

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "this is a program")]
#![allow(clippy::std_instead_of_core, reason = "a part of it is a program with std")]

mod beside;
mod codes;
mod crash;
mod kill;
mod model;
mod on_files;
mod plain;
mod refused;
mod several;
mod shared;
mod wal;

use core::sync::atomic::{AtomicU32, Ordering};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use nvm_journal_sqlite::{Mount, Mounted, mount, register};
use rusqlite::{Connection, OpenFlags};

/// What the second process of a test does.
const ROLE: &str = "NVM_JOURNAL_SQLITE_ROLE";
/// The folder of a second process whose files may not become long.
const SHORT: &str = "NVM_JOURNAL_SQLITE_SHORT";
/// The folder of a second process whose calls are listed.
const CALLS: &str = "NVM_JOURNAL_SQLITE_CALLS";
/// The name of the VFS.
pub(crate) const VFS: &str = "nvj";

static FOLDERS: AtomicU32 = AtomicU32::new(0);

/// Gets a folder of its own, and what the command line says of its length.
type Test = fn(&Path, &Longer);

/// How much longer than usual the tests run.
pub(crate) struct Longer {
    /// How often a writer is killed.
    pub(crate) kills: u32,
    /// Whether the crash search takes minutes.
    pub(crate) crashes: bool,
}

fn main() -> ExitCode {
    register(VFS).expect("a SQLite that commits through a VFS: .cargo/config.toml sets it");
    if let Ok(role) = std::env::var(ROLE) {
        return kill::play(&role);
    }
    if let Ok(folder) = std::env::var(SHORT) {
        return shared::play(Path::new(&folder));
    }
    if let Ok(folder) = std::env::var(CALLS) {
        return plain::commits(Path::new(&folder));
    }
    let tests: [(&str, Test); 39] = [
        ("a commit is one fence, without journal or wal", plain::one_fence),
        ("every policy commits with one fence", plain::policies),
        ("a closed database is a plain file", plain::plain_after_close),
        ("a plain database can be mounted", plain::mount_of_a_plain_one),
        ("a uri mounts, and the last connection ends it", plain::uris),
        ("the wal is refused", plain::wal_is_refused),
        ("the wal of one connection is the host's", wal::exclusive),
        ("a wal that a crash has left is read", wal::left_behind),
        ("each failure has its code", codes::each_failure),
        ("a full disk is told and stays whole", codes::full),
        ("a shared database is whole between transactions", shared::in_turn),
        ("a shared database has a wal", shared::with_a_wal),
        ("a shared database outlives a disk that fails", shared::on_a_disk_that_fails),
        ("a full disk leaves no journal to sync", codes::nothing_to_sync),
        ("a store without a file is not formatted over", codes::not_formatted_over),
        ("a connection that only reads writes nothing", plain::read_only),
        ("what is no journal is not touched", plain::not_a_journal),
        ("others find a mounted database locked", plain::others_are_kept_away),
        ("a vacuum makes the file shorter", plain::vacuum),
        ("a transaction that does not fit falls back", plain::fallback),
        ("a commit calls for no file beside the database", plain::calls),
        ("a rollback journal ends durably", beside::ends_durably),
        ("a moved database finds its rollback journal", beside::moved),
        ("connections of a mount that is dropped go on", beside::given_up),
        ("a rollback journal in memory is refused", beside::in_memory),
        ("an attached one's in memory is refused", beside::in_memory_attached),
        ("a refused mount leaves no journal", refused::leaves_nothing),
        ("a file that others have made longer is refused", refused::changed_outside),
        ("a journal is one database's", refused::other_database),
        ("a mounted file has one name", refused::other_names),
        ("a database whose name is gone has no rollback journal", refused::gone),
        ("statements do as they do elsewhere", model::as_elsewhere),
        ("two connections wait for each other", several::two_connections),
        ("threads write and add up", several::threads),
        ("a killed writer loses nothing", kill::killed),
        ("every crash leaves a whole database", crash::search),
        ("every crash in a rollback journal leaves a whole database", crash::too_large),
        ("every crash of a rollback journal in the store", crash::too_large_in_store),
        ("sqlite itself survives every crash of simulated files", on_files::search),
    ];
    let mut longer = Longer { kills: 24, crashes: false };
    let mut filter = None;
    for argument in std::env::args().skip(1) {
        if let Some(kills) = argument.strip_prefix("kills=") {
            longer.kills = kills.parse().expect("a number");
            filter = Some("killed".to_owned());
        } else if argument == "crashes=longer" {
            longer.crashes = true;
            filter = Some("every crash".to_owned());
        } else if !argument.starts_with('-') {
            filter = Some(argument);
        }
    }
    let is_listing = std::env::args().any(|argument| argument == "--list");
    let mut failed = 0;
    for (name, test) in tests {
        if is_listing {
            println!("{name}: test");
        } else if filter.as_ref().is_none_or(|wanted| name.contains(wanted.as_str())) {
            let start = std::time::Instant::now();
            let folder = Folder::new();
            let done = catch_unwind(AssertUnwindSafe(|| test(&folder.0, &longer)));
            let says = if done.is_ok() { "ok" } else { "FAILED" };
            println!("test {name} ... {says} ({:.1} s)", start.elapsed().as_secs_f64());
            failed += usize::from(done.is_err());
        }
    }
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Goes when it is dropped, with all that is in it.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    fn new() -> Self {
        // Each has its own: what a test that failed has left mounted is in no other one's way.
        let number = FOLDERS.fetch_add(1, Ordering::Relaxed);
        let folder = format!("nvm-journal-sqlite-{}-{number}", std::process::id());
        // Where files are in memory, a sync of one is no wait.
        let memory = PathBuf::from("/dev/shm");
        let root = if memory.is_dir() { memory } else { std::env::temp_dir() };
        let folder = root.join(folder);
        std::fs::create_dir(&folder).expect("the temporary directory takes entries");
        Self(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A small journal beside the database.
pub(crate) fn small(folder: &Path) -> Mount {
    Mount::new().nvm(folder.join("nvm")).nvm_bytes(4 << 20)
}

pub(crate) fn mounted(folder: &Path) -> Mounted {
    mount(folder.join("db"), &small(folder)).expect("a mount")
}

/// A connection by way of the VFS.
pub(crate) fn connect(folder: &Path) -> Connection {
    connect_to(&folder.join("db"))
}

pub(crate) fn connect_to(path: &Path) -> Connection {
    try_connect(path).expect("a connection")
}

pub(crate) fn try_connect(path: &Path) -> Result<Connection, rusqlite::Error> {
    let flags = OpenFlags::default();
    let connection = Connection::open_with_flags_and_vfs(path, flags, VFS)?;
    connection.execute_batch("PRAGMA synchronous = FULL")?;
    Ok(connection)
}

/// A connection without the VFS.
pub(crate) fn stock(folder: &Path) -> Connection {
    Connection::open(folder.join("db")).expect("a connection")
}

pub(crate) fn number(connection: &Connection, sql: &str) -> i64 {
    connection.query_row(sql, [], |row| row.get(0)).expect("a number")
}

pub(crate) fn text(connection: &Connection, sql: &str) -> String {
    connection.query_row(sql, [], |row| row.get(0)).expect("a text")
}

pub(crate) fn is_whole(connection: &Connection) {
    assert_eq!(text(connection, "PRAGMA integrity_check"), "ok");
}

/// Numbers that look random and come again.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}
