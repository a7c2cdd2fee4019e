//! Runs files of the suite, and the programs beside it.

use std::collections::BTreeSet;
use std::error::Error;
use std::fs;
use std::os::unix::fs::chown;
use std::process::{Command, Output, Stdio};
use std::time::Instant;

use crate::Settings;
use crate::build::Built;
use crate::results::{Outcome, Results};

/// How databases are mounted: in memory, and home before each lock is given back. Blocks are no
/// larger than the suite's smallest pages.
const PARAMETERS: &str = "shared=1&nvm_bytes=2097152&block_size=512";
/// The user that the suite runs as: it does not run as root.
const NOBODY: u32 = 65534;
/// Seconds that a file may take.
const LONGEST: &str = "900";

/// Prints the files of `veryquick`, one a line.
const LIST: &str = r#"
set argv0 [lindex $argv 0]/list
set argv {}
source [file dirname $argv0]/permutations.test
array set suite $::testspec(veryquick)
foreach file $suite(-files) { puts "FILE [file tail $file]" }
exit 0
"#;

/// Runs a program of the suite as `nobody`, in an empty folder.
fn output(
    built: &Built,
    program: &str,
    arguments: &[&str],
    with_vfs: bool,
) -> Result<Output, Box<dyn Error>> {
    let _none = fs::remove_dir_all(&built.scratch);
    fs::create_dir_all(&built.scratch)?;
    chown(&built.scratch, Some(NOBODY), Some(NOBODY))?;
    output_behind(built, program, arguments, with_vfs)
}

/// Like `output`, in the folder that the program before has left.
fn output_behind(
    built: &Built,
    program: &str,
    arguments: &[&str],
    with_vfs: bool,
) -> Result<Output, Box<dyn Error>> {
    let (user, group) = (format!("--reuid={NOBODY}"), format!("--regid={NOBODY}"));
    let mut command = Command::new("setpriv");
    command.args([&user, &group, "--clear-groups", "timeout", "-k", "10", LONGEST]);
    command.arg(built.programs.join(program)).args(arguments);
    command.current_dir(&built.scratch).stdin(Stdio::null());
    command.env_remove("NVJ_DEFAULT");
    if with_vfs {
        command.env("NVJ_DEFAULT", PARAMETERS);
    }
    Ok(command.output()?)
}

/// All files: those about atomic batches first.
pub(crate) fn files(built: &Built) -> Result<Vec<String>, Box<dyn Error>> {
    let script = built.programs.join("list.tcl");
    fs::write(&script, LIST)?;
    let (script, tests) = (script.to_string_lossy(), built.tests.to_string_lossy());
    let said = output(built, "testfixture", &[&script, &tests], false)?;
    let text = String::from_utf8_lossy(&said.stdout).into_owned();
    let listed: BTreeSet<&str> =
        text.lines().filter_map(|line| line.strip_prefix("FILE ")).collect();
    if listed.len() < 100 {
        let why = String::from_utf8_lossy(&said.stderr);
        return Err(format!("no list of files: {text}{why}").into());
    }
    let (mut first, mut rest) = (Vec::new(), Vec::new());
    for file in listed {
        // Those of extensions lie elsewhere, and are not about batches.
        let source = fs::read(built.tests.join(file)).unwrap_or_default();
        let is_about = String::from_utf8_lossy(&source).contains("atomic_batch_write");
        let list = if is_about { &mut first } else { &mut rest };
        list.push(file.to_owned());
    }
    first.append(&mut rest);
    Ok(first)
}

/// What a run of a file says: how many tests, and which failed.
fn counted(output: &Output) -> (u64, BTreeSet<String>) {
    let text = String::from_utf8_lossy(&output.stdout);
    let (mut tests, mut failed, mut is_whole) = (0, BTreeSet::new(), false);
    for line in text.lines() {
        if let Some((_, rest)) = line.split_once(" errors out of ") {
            tests = rest.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or(0);
            is_whole = true;
        } else if let Some(names) = line.strip_prefix("!Failures on these tests: ") {
            failed.extend(names.split_whitespace().map(str::to_owned));
        }
    }
    if !is_whole {
        failed.insert("aborted".to_owned());
    } else if !output.status.success() && failed.is_empty() {
        failed.insert("exit-code".to_owned());
    }
    (tests, failed)
}

pub(crate) fn file(built: &Built, file: &str) -> Result<Outcome, Box<dyn Error>> {
    let tests = built.tests.join("permutations.test");
    let tests = tests.to_string_lossy();
    let run = |with_vfs| output(built, "testfixture", &[&tests, "veryquick", file], with_vfs);
    let start = Instant::now();
    let said = run(true)?;
    let seconds = start.elapsed().as_secs_f64();
    let (count, failed) = counted(&said);
    let mut outcome =
        Outcome { file: file.to_owned(), tests: count, seconds, failed: vec![], anyway: vec![] };
    if failed.is_empty() {
        return Ok(outcome);
    }
    fs::write(built.programs.join(format!("{file}.log")), [said.stdout, said.stderr].concat())?;
    let (_, without) = counted(&run(false)?);
    let (anyway, failed) = failed.into_iter().partition(|test| without.contains(test));
    (outcome.failed, outcome.anyway) = (failed, anyway);
    Ok(outcome)
}

/// The programs beside the suite, each with arguments that take some seconds.
pub(crate) fn programs(
    settings: &Settings,
    built: &Built,
    results: &mut Results,
) -> Result<(), Box<dyn Error>> {
    let database = "test.db";
    // A second list of arguments is for a second run, in the folder that the first one has left.
    let all: [(&str, &[&str], &[&str]); 4] = [
        ("speedtest1", &["--size", "5", "--verify", database], &[]),
        (
            "kvtest",
            &["init", database, "--count", "2000", "--size", "2000"],
            &["run", database, "--count", "2000", "--integrity-check", "--update"],
        ),
        ("threadtest3", &["create_drop_index_1", "vacuum1", "stress1", "stress2"], &[]),
        ("threadtest3", &["walthread1", "walthread5", "cgt_pager_1"], &[]),
    ];
    for (program, arguments, again) in all {
        let name = [arguments, again].concat().join(" ");
        let name = format!("{program} {name}");
        if results.has(&name) && !settings.is_again {
            continue;
        }
        let start = Instant::now();
        let mut said = output(built, program, arguments, true)?;
        let mut text = [said.stdout.as_slice(), &said.stderr].concat();
        if said.status.success() && !again.is_empty() {
            said = output_behind(built, program, again, true)?;
            text.extend(said.stdout.iter().chain(&said.stderr));
        }
        let seconds = start.elapsed().as_secs_f64();
        fs::write(built.programs.join(format!("{program}.run.log")), &text)?;
        let text = String::from_utf8_lossy(&text).into_owned();
        // `threadtest3` says of each test how many errors it met.
        let has_errors = text.lines().any(|line| {
            let errors = line.strip_prefix("Total of ").and_then(|rest| rest.split(' ').next());
            errors.is_some_and(|errors| errors != "0")
        });
        let is_right = said.status.success() && !has_errors;
        println!("{name}: {} ({seconds:.1} s)", if is_right { "ok" } else { "FAILED" });
        let failed = if is_right { vec![] } else { vec!["exit-code".to_owned()] };
        results.add(Outcome { file: name, tests: 1, seconds, failed, anyway: vec![] })?;
    }
    Ok(())
}
