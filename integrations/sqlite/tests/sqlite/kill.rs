//! A writer that is killed in the middle: what it acknowledged is there, and the database whole.

use core::time::Duration;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::thread;

use nvm_journal_sqlite::mount;

use crate::{Dice, Longer, ROLE, connect, is_whole, mounted, number, small, stock};

/// What the writer does until it is killed: it counts up, in transactions of several tables, and
/// says each number when its commit has returned.
pub(crate) fn play(role: &str) -> ExitCode {
    let folder = PathBuf::from(role);
    let _mounted = mount(folder.join("db"), &small(&folder)).expect("a mount");
    let connection = connect(&folder);
    connection
        .execute_batch("CREATE TABLE IF NOT EXISTS t (n); CREATE TABLE IF NOT EXISTS u (n, pad)")
        .expect("tables");
    let mut next = number(&connection, "SELECT ifnull(max(n), 0) FROM t") + 1;
    let mut out = std::io::stdout();
    loop {
        connection.execute_batch("BEGIN").expect("a transaction");
        connection.execute("INSERT INTO t VALUES (?1)", [next]).expect("an insert");
        let pad = if next % 50 == 0 { 300_000 } else { next % 700 };
        connection
            .execute("INSERT INTO u VALUES (?1, zeroblob(?2))", [next, pad])
            .expect("an insert");
        if next % 7 == 0 {
            connection.execute("DELETE FROM u WHERE n < ?1", [next - 20]).expect("a delete");
        }
        connection.execute_batch("COMMIT").expect("a commit");
        writeln!(out, "{next}").expect("somebody listens");
        out.flush().expect("somebody listens");
        next += 1;
    }
}

pub(crate) fn killed(folder: &Path, longer: &Longer) {
    let mut dice = Dice(0xD1CE);
    let mut acknowledged = 0;
    for round in 0..longer.kills {
        let program = std::env::current_exe().expect("a program knows its name");
        let mut command = Command::new(program);
        command.env(ROLE, folder).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut writer = command.spawn().expect("a process");
        let said = BufReader::new(writer.stdout.take().expect("its output"));
        let listener = thread::spawn(move || {
            let lines = said.lines().map_while(Result::ok);
            lines.filter_map(|line| line.parse::<i64>().ok()).last()
        });
        thread::sleep(Duration::from_millis(20 + dice.below(60)));
        writer.kill().expect("a child can be killed");
        writer.wait().expect("it has ended");
        acknowledged = listener.join().expect("it listens").unwrap_or(acknowledged);
        let mounted = mounted(folder);
        let connection = connect(folder);
        is_whole(&connection);
        let tables = number(&connection, "SELECT count(*) FROM sqlite_schema");
        assert!(tables == 2 || acknowledged == 0, "round {round}");
        if tables == 2 {
            let found = number(&connection, "SELECT ifnull(max(n), 0) FROM t");
            // One more may be there: its commit had not returned.
            let range = acknowledged..=acknowledged + 1;
            assert!(range.contains(&found), "round {round}: {found} of {acknowledged}");
            assert_eq!(number(&connection, "SELECT count(*) FROM t"), found, "round {round}");
            let last = number(&connection, "SELECT ifnull(max(n), 0) FROM u");
            assert_eq!(last, found, "round {round}");
            acknowledged = found;
        }
        drop(connection);
        // Some of the next writers find a closed database, and some what was left.
        if round % 5 == 4 {
            mounted.close().expect("a close");
            is_whole(&stock(folder));
        }
    }
    println!("  {} kills, {acknowledged} transactions acknowledged", longer.kills);
    assert!(acknowledged > 0 || longer.kills == 0);
}
