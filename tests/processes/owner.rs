//! One owner at a time, in all processes.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitCode, Stdio};

use nvm_journal::{
    BlockNumber, BlockSize, Error, FileDisk, FileDiskError, FileDiskErrorKind, Journal, MapError,
    MapErrorKind, MapOptions, Options, Region,
};
use pmem_sys::Holder;

const BLOCK: usize = 4096;
const SIGKILL: i32 = 9;

/// A folder with a file of this name has its persistent memory on a plain disk.
const DIRECT_IO: &str = "direct-io";

fn options(folder: &Path) -> MapOptions {
    let options = MapOptions::new();
    if folder.join(DIRECT_IO).exists() { options.direct_io() } else { options }
}

fn map(folder: &Path) -> Result<Region, MapError> {
    options(folder).open(folder.join("nvm"))
}

fn disk(folder: &Path) -> Result<FileDisk, FileDiskError> {
    FileDisk::open(folder.join("disk"), BlockSize::DEFAULT)
}

fn format(folder: &Path) -> Journal {
    let nvm = options(folder).create(folder.join("nvm"), 1 << 20).expect("a new file");
    let disk = FileDisk::create(folder.join("disk"), BlockSize::DEFAULT, 16).expect("a new file");
    Journal::format(nvm, disk, &Options::new()).expect("formats")
}

fn reopen(folder: &Path) -> Journal {
    let (nvm, disk) = (map(folder).expect("is free"), disk(folder).expect("is free"));
    Journal::open(nvm, disk, &Options::new()).expect("opens")
}

/// The last argument, as given by the test.
fn folder() -> PathBuf {
    std::env::args_os().nth(1).map(PathBuf::from).expect("a folder")
}

/// The process that has the persistent memory, and whether one has the disk.
fn owners(folder: &Path) -> (Option<Holder>, bool) {
    let holder = match map(folder) {
        Ok(_) => None,
        Err(MapError { kind: MapErrorKind::Busy { holder }, .. }) => Some(holder),
        Err(error) => panic!("{error}"),
    };
    let has_disk = match disk(folder) {
        Ok(_) => false,
        Err(FileDiskError { kind: FileDiskErrorKind::Busy, .. }) => true,
        Err(error) => panic!("{error}"),
    };
    (holder, has_disk)
}

/// The role that asks who owns the journal.
pub(crate) fn open() -> ExitCode {
    println!("{:?}", owners(&folder()));
    ExitCode::SUCCESS
}

/// The role that commits twice, once deferred, and never ends.
pub(crate) fn hold() -> ExitCode {
    let journal = reopen(&folder());
    journal.transact(|tx| tx.write(BlockNumber(1), &[1; BLOCK])).expect("commits");
    journal.transact_deferred(|tx| tx.write(BlockNumber(2), &[2; BLOCK])).expect("commits");
    println!("holding");
    std::io::stdout().flush().expect("the parent listens");
    // Until it is killed, or the parent is gone.
    let _ = std::io::stdin().read_line(&mut String::new());
    ExitCode::FAILURE
}

fn start(role: &str, folder: &Path) -> (Child, String) {
    let mut command = super::program(role, folder);
    let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut child = child.expect("processes are to be had");
    let mut line = String::new();
    let output = child.stdout.as_mut().expect("it is piped");
    BufReader::new(output).read_line(&mut line).expect("it is text");
    (child, line.trim().to_owned())
}

pub(crate) fn one_at_a_time(folder: &Path) {
    let journal = format(folder);
    assert_eq!(owners(folder), (Some(Holder::ThisProcess), true));
    let (mut child, said) = start("open", folder);
    assert_eq!(said, "(Some(AnotherProcess), true)");
    assert!(child.wait().expect("it is our child").success());
    journal.close().expect("closes");
    assert_eq!(owners(folder), (None, false));
}

/// The journal of a process that was killed after its two commits.
fn after_a_kill(folder: &Path) -> Journal {
    drop(format(folder));
    let (mut owner, said) = start("hold", folder);
    assert_eq!(said, "holding");
    assert_eq!(owners(folder), (Some(Holder::AnotherProcess), true));
    owner.kill().expect("it is our child");
    let status = owner.wait().expect("it is our child");
    assert_eq!(status.signal(), Some(SIGKILL));
    reopen(folder)
}

/// The second commit is deferred, but whole blocks are fenced all the same.
fn holds_both(journal: &Journal) {
    assert_eq!(journal.recovery().found, 2);
    for number in [1, 2] {
        let mut content = [0; BLOCK];
        journal.read(BlockNumber(number), &mut content).expect("reads");
        assert_eq!(content, [number as u8; BLOCK]);
    }
}

pub(crate) fn killed(folder: &Path) {
    holds_both(&after_a_kill(folder));
}

pub(crate) fn killed_by_direct_io(_: &Path) {
    // On a disk: the temporary directory may be memory, which not every kernel reads directly.
    let name = format!("nvm-journal-processes-{}", std::process::id());
    let folder = super::Folder(Path::new(env!("CARGO_TARGET_TMPDIR")).join(name));
    std::fs::create_dir(&folder.0).expect("the directory takes entries");
    std::fs::write(folder.0.join(DIRECT_IO), []).expect("the directory takes entries");
    holds_both(&after_a_kill(&folder.0));
}

/// The role that is given no threads.
pub(crate) fn alone() -> ExitCode {
    let folder = folder();
    drop(format(&folder));
    let in_background = Options::new().background_checkpoint(true);
    let (nvm, its_disk) = (map(&folder).expect("is free"), disk(&folder).expect("is free"));
    let opened = Journal::open(nvm, its_disk, &in_background).map(drop);
    let is_told = matches!(opened, Err(Error::NoThread { os: Some(_) }));
    println!("{opened:?}");
    // What it had is free again, and nothing is wrong with it.
    let journal = reopen(&folder);
    journal.transact(|tx| tx.write(BlockNumber(1), &[1; BLOCK])).expect("commits");
    if is_told { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// A thread that the system has no room for is an error that can be dealt with, not a panic.
pub(crate) fn no_thread(folder: &Path) {
    // No thread gets a stack as large as that.
    let mut command = super::program("alone", folder);
    let said = command.env("RUST_MIN_STACK", (1_u64 << 56).to_string()).output();
    let said = said.expect("processes are to be had");
    assert!(said.status.success(), "{}", super::text(&said));
}
