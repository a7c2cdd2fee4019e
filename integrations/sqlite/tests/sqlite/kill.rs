//! A writer that is killed in the middle: what it acknowledged is there, and the database whole.

use core::time::Duration;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::thread;

use nvm_journal::MapOptions;
use nvm_journal_sqlite::{Mounted, mount};

use crate::{Dice, Longer, ROLE, connect, is_whole, number, small, stock};

/// Every 50th transaction does not fit into the journal.
const LARGE: i64 = 50;

/// A journal that some transactions do not fit into, in a file of the page cache.
fn mount_in(folder: &Path) -> Mounted {
    let journal = small(folder).nvm_bytes(512 << 10).map(MapOptions::new().page_cache());
    mount(folder.join("db"), &journal).expect("a mount")
}

/// What the writer does until it is killed: it counts up, in transactions of several tables, and
/// says each number when its commit has returned. Each 50th changes all rows of a table, which
/// takes a rollback journal, and each time another kind of it.
pub(crate) fn play(role: &str) -> ExitCode {
    let folder = PathBuf::from(role);
    let mounted = mount_in(&folder);
    let connection = connect(&folder);
    connection
        .execute_batch(
            "BEGIN; CREATE TABLE IF NOT EXISTS t (n); CREATE TABLE IF NOT EXISTS u (n, pad); \
             CREATE TABLE IF NOT EXISTS large (id INTEGER PRIMARY KEY, n, pad); \
             INSERT OR IGNORE INTO large WITH RECURSIVE i (i) AS (VALUES (1) UNION ALL \
             SELECT i + 1 FROM i WHERE i < 200) SELECT i, 0, zeroblob(4000) FROM i; COMMIT",
        )
        .expect("tables");
    let mut next = number(&connection, "SELECT ifnull(max(n), 0) FROM t") + 1;
    let mut out = std::io::stdout();
    loop {
        if next % LARGE == 0 {
            let mode = ["DELETE", "TRUNCATE", "PERSIST"][(next / LARGE % 3) as usize];
            let synchronous = ["FULL", "NORMAL"][(next / LARGE % 2) as usize];
            let settings =
                format!("PRAGMA journal_mode = {mode}; PRAGMA synchronous = {synchronous}");
            connection.execute_batch(&settings).expect("settings");
        }
        connection.execute_batch("BEGIN").expect("a transaction");
        if next % LARGE == 0 {
            let all = "UPDATE large SET n = ?1, pad = randomblob(4000)";
            connection.execute(all, [next]).expect("an update");
        }
        connection.execute("INSERT INTO t VALUES (?1)", [next]).expect("an insert");
        let pad = next % 700;
        connection
            .execute("INSERT INTO u VALUES (?1, zeroblob(?2))", [next, pad])
            .expect("an insert");
        if next % 7 == 0 {
            connection.execute("DELETE FROM u WHERE n < ?1", [next - 20]).expect("a delete");
        }
        connection.execute_batch("COMMIT").expect("a commit");
        writeln!(out, "{next} {}", mounted.counts().fallbacks).expect("somebody listens");
        out.flush().expect("somebody listens");
        next += 1;
    }
}

pub(crate) fn killed(folder: &Path, longer: &Longer) {
    let mut dice = Dice(0xD1CE);
    let (mut acknowledged, mut fallbacks) = (0, 0);
    for round in 0..longer.kills {
        let program = std::env::current_exe().expect("a program knows its name");
        let mut command = Command::new(program);
        command.env(ROLE, folder).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut writer = command.spawn().expect("a process");
        let said = BufReader::new(writer.stdout.take().expect("its output"));
        let listener = thread::spawn(move || {
            let lines = said.lines().map_while(Result::ok);
            let pair = |line: String| {
                let (next, fallbacks) = line.split_once(' ')?;
                Some((next.parse::<i64>().ok()?, fallbacks.parse::<u64>().ok()?))
            };
            lines.filter_map(pair).last()
        });
        thread::sleep(Duration::from_millis(20 + dice.below(60)));
        writer.kill().expect("a child can be killed");
        writer.wait().expect("it has ended");
        let last = listener.join().expect("it listens");
        acknowledged = last.map_or(acknowledged, |(next, _)| next);
        fallbacks += last.map_or(0, |(_, fallbacks)| fallbacks);
        let mounted = mount_in(folder);
        let connection = connect(folder);
        is_whole(&connection);
        let tables = number(&connection, "SELECT count(*) FROM sqlite_schema");
        assert!(tables == 3 || acknowledged == 0, "round {round}");
        if tables == 3 {
            let found = number(&connection, "SELECT ifnull(max(n), 0) FROM t");
            // One more may be there: its commit had not returned.
            let range = acknowledged..=acknowledged + 1;
            assert!(range.contains(&found), "round {round}: {found} of {acknowledged}");
            assert_eq!(number(&connection, "SELECT count(*) FROM t"), found, "round {round}");
            let last = number(&connection, "SELECT ifnull(max(n), 0) FROM u");
            assert_eq!(last, found, "round {round}");
            let large = format!("SELECT count(*) FROM large WHERE n = {}", found / LARGE * LARGE);
            assert_eq!(number(&connection, &large), 200, "round {round}: {found}");
            acknowledged = found;
        }
        drop(connection);
        // Some of the next writers find a closed database, and some what was left.
        if round % 5 == 4 {
            mounted.close().expect("a close");
            is_whole(&stock(folder));
        }
    }
    println!(
        "  {} kills, {acknowledged} transactions acknowledged, {fallbacks} with a rollback journal",
        longer.kills
    );
    assert!((acknowledged > 0 && fallbacks > 0) || longer.kills == 0);
}
