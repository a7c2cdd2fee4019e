//! What only processes can show: who may open a file beside whom, and what a death leaves.
//!
//! The program starts itself again in the role of the other process. It has no test harness, since
//! a process that forks must have one thread.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "this is a program")]
#![allow(clippy::std_instead_of_core, reason = "a test of std code")]

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use journal_core::{Offset, Pmem, PmemRead, PmemShare, PmemSplit};
use pmem_sys::{Holder, MapErrorKind, MapOptions, Region};

const LEN: u64 = 16 * 4096;

/// Gets the name of a file that does not exist, in a directory of its own.
type Test = fn(&Path);

/// What the second process of a test does.
const ROLE: &str = "PMEM_SYS_TEST_ROLE";

fn main() {
    if cfg!(miri) {
        println!("not under Miri, which starts no processes");
        return;
    }
    if let Some(role) = std::env::var_os(ROLE) {
        let path = std::env::args_os().nth(1).map(PathBuf::from).expect("the file's name");
        return play(role.to_str().expect("a role"), &path);
    }
    let tests: [(&str, Test); 12] = [
        ("a second open in the process is busy", second_open_is_busy),
        ("another name of the file is busy", other_names_are_busy),
        ("a duplicated descriptor is busy", duplicates_are_busy),
        ("the file is free once the last region and reader are gone", freed_with_the_last),
        ("another process is busy while the owner lives", other_process_is_busy),
        ("a killed owner leaves the file free, with what it stored", killed_owner_frees),
        ("a forked child is kept out", forked_child_is_kept_out),
        ("a forked child that drops its region frees nothing", forked_drop_frees_nothing),
        ("a child that outlives the owner does not own", orphan_does_not_own),
        ("a half-created file is not opened", half_created_is_not_opened),
        ("an opener in a hurry and a creator do no harm", creating_and_opening_at_once),
        ("a file cut short under the map ends the process by a signal", truncation_aborts),
    ];
    let filter = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let listing = std::env::args().any(|argument| argument == "--list");
    for (name, test) in tests {
        if listing {
            println!("{name}: test");
        } else if filter.as_ref().is_none_or(|wanted| name.contains(wanted.as_str())) {
            let directory = std::env::temp_dir().join(format!("pmem-sys-{}", std::process::id()));
            drop(fs::remove_dir_all(&directory));
            fs::create_dir(&directory).expect("the temporary directory takes entries");
            test(&directory.join("journal"));
            drop(fs::remove_dir_all(&directory));
            println!("test {name} ... ok");
        }
    }
}

// --- helpers -------------------------------------------------------------------------------------

fn create(path: &Path) -> Region {
    MapOptions::new().create(path, LEN).expect("a new file")
}

/// The process that holds it, or `None` if it could be opened.
fn holder(path: &Path) -> Option<Holder> {
    busy(MapOptions::new().open(path))
}

fn busy(outcome: Result<Region, pmem_sys::MapError>) -> Option<Holder> {
    match outcome {
        Ok(_) => None,
        Err(error) => match error.kind {
            MapErrorKind::Busy { holder } => Some(holder),
            _ => panic!("{error}: {:?}", error.kind),
        },
    }
}

fn read_write(path: &Path) -> File {
    File::options().read(true).write(true).open(path).expect("it exists")
}

fn start(role: &str, path: &Path) -> Child {
    let program = std::env::current_exe().expect("a program knows its name");
    Command::new(program)
        .arg(path)
        .env(ROLE, role)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("processes are to be had")
}

/// Waits for one line of the other process.
fn line_from(child: &mut Child) -> String {
    let mut line = String::new();
    let output = child.stdout.as_mut().expect("it is piped");
    BufReader::new(output).read_line(&mut line).expect("it is text");
    line.trim().to_owned()
}

fn finish(mut child: Child) -> ExitStatus {
    drop(child.stdin.take());
    child.wait().expect("it is our child")
}

/// Runs `work` in a forked child and says whether it returned true.
fn forked(work: impl FnOnce() -> bool) -> bool {
    // SAFETY: this process has one thread, so the child may do whatever the parent may.
    match unsafe { libc::fork() } {
        0 => {
            let worked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
            // SAFETY: ends the child at once; what it inherited is the parent's to clean up.
            unsafe { libc::_exit(i32::from(!worked.unwrap_or(false))) }
        }
        child => {
            assert!(child > 0, "processes are to be had");
            let mut status = 0;
            // SAFETY: waits for our own child, and `status` is ours.
            let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
            assert_eq!(waited, child);
            ExitStatus::from_raw(status).success()
        }
    }
}

// --- the other process ---------------------------------------------------------------------------

fn play(role: &str, path: &Path) {
    let say = |what: &str| {
        println!("{what}");
        std::io::stdout().flush().expect("the parent listens");
    };
    let wait = || {
        let mut line = String::new();
        // Ends with the parent's pipe, at the latest with the parent.
        let _ = std::io::stdin().read_line(&mut line);
    };
    match role {
        "open" => say(&format!("{:?}", holder(path))),
        "hold" => {
            let mut region = MapOptions::new().open(path).expect("it is free");
            region.store(Offset(100), b"stored, not flushed");
            say("holding");
            wait();
        }
        "hold and fork" => {
            let region = MapOptions::new().open(path).expect("it is free");
            // SAFETY: this process has one thread.
            let child = unsafe { libc::fork() };
            if child == 0 {
                drop(region);
                // The child keeps the pipe, and outlives the parent.
                say("dropped");
                wait();
                return;
            }
            say("holding");
            loop {
                std::thread::park();
            }
        }
        "open as soon as possible" => {
            say("ready");
            let region = loop {
                match MapOptions::new().open(path) {
                    Ok(region) => break region,
                    Err(error) => match error.kind {
                        MapErrorKind::Empty | MapErrorKind::Busy { .. } => {}
                        MapErrorKind::System { source, .. }
                            if source.kind() == std::io::ErrorKind::NotFound => {}
                        _ => panic!("{error}"),
                    },
                }
            };
            assert_eq!(region.bytes(Offset(LEN - 8), 8), Ok(&[9; 8][..]));
        }
        "truncated" => {
            let region = MapOptions::new().open(path).expect("it is free");
            let reader = region.reader();
            let mut copy = [0; 8];
            reader.read_into(Offset(LEN - 8), &mut copy).expect("it is mapped");
            read_write(path).set_len(4096).expect("it can be cut");
            reader.read_into(Offset(0), &mut copy).expect("this part is still there");
            say("cut");
            let _ = reader.read_into(Offset(LEN - 8), &mut copy);
            say("survived");
        }
        _ => panic!("no such role: {role}"),
    }
}

// --- the tests -----------------------------------------------------------------------------------

fn second_open_is_busy(path: &Path) {
    let region = create(path);
    assert_eq!(holder(path), Some(Holder::ThisProcess));
    drop(region);
    assert_eq!(holder(path), None);
}

fn other_names_are_busy(path: &Path) {
    let region = create(path);
    let (symbolic, hard) = (path.with_extension("symbolic"), path.with_extension("hard"));
    std::os::unix::fs::symlink(path, &symbolic).expect("a link");
    fs::hard_link(path, &hard).expect("a link");
    for name in [&symbolic, &hard] {
        assert_eq!(holder(name), Some(Holder::ThisProcess));
        let mut other = start("open", name);
        assert_eq!(line_from(&mut other), "Some(AnotherProcess)");
        assert!(finish(other).success());
    }
    // The first name may go; the file is the same.
    fs::remove_file(path).expect("it is there");
    assert_eq!(holder(&hard), Some(Holder::ThisProcess));
    drop(region);
    assert_eq!(holder(&hard), None);
}

fn duplicates_are_busy(path: &Path) {
    drop(create(path));
    let file = read_write(path);
    let duplicate = || file.try_clone().expect("descriptors are to be had");
    let region = MapOptions::new().open_file(duplicate()).expect("it is free");
    assert_eq!(busy(MapOptions::new().open_file(duplicate())), Some(Holder::ThisProcess));
    assert_eq!(holder(path), Some(Holder::ThisProcess));
    // Closing other descriptors of the file does not free it, as it would with POSIX locks.
    drop(duplicate());
    drop(read_write(path));
    let mut other = start("open", path);
    assert_eq!(line_from(&mut other), "Some(AnotherProcess)");
    assert!(finish(other).success());
    drop(region);
    assert_eq!(busy(MapOptions::new().open_file(duplicate())), None);
}

fn freed_with_the_last(path: &Path) {
    let (first, second) = create(path).split_at(Offset(4096)).expect("on a line");
    let reader = second.reader();
    drop(first);
    assert_eq!(holder(path), Some(Holder::ThisProcess));
    drop(second);
    assert_eq!(holder(path), Some(Holder::ThisProcess));
    drop(reader);
    assert_eq!(holder(path), None);
}

fn other_process_is_busy(path: &Path) {
    drop(create(path));
    let mut owner = start("hold", path);
    assert_eq!(line_from(&mut owner), "holding");
    assert_eq!(holder(path), Some(Holder::AnotherProcess));
    assert_eq!(busy(MapOptions::new().open_file(read_write(path))), Some(Holder::AnotherProcess));
    assert!(finish(owner).success());
    assert_eq!(holder(path), None);
}

fn killed_owner_frees(path: &Path) {
    drop(create(path));
    let mut owner = start("hold", path);
    assert_eq!(line_from(&mut owner), "holding");
    owner.kill().expect("it is our child");
    assert_eq!(finish(owner).signal(), Some(libc::SIGKILL));
    let region = MapOptions::new().open(path).expect("nobody has it any more");
    assert_eq!(region.bytes(Offset(100), 19), Ok(&b"stored, not flushed"[..]));
}

fn forked_child_is_kept_out(path: &Path) {
    drop(create(path));
    let file = read_write(path);
    let region = MapOptions::new().open_file(file.try_clone().expect("a descriptor"));
    let region = region.expect("it is free");
    // Neither by the name nor by the descriptor that both processes share.
    assert!(forked(|| holder(path) == Some(Holder::AnotherProcess)));
    assert!(forked(|| { busy(MapOptions::new().open_file(file)) == Some(Holder::AnotherProcess) }));
    assert_eq!(holder(path), Some(Holder::ThisProcess));
    drop(region);
    assert_eq!(holder(path), None);
}

fn forked_drop_frees_nothing(path: &Path) {
    let mut inherited = Some(create(path));
    assert!(forked(|| {
        drop(inherited.take());
        holder(path) == Some(Holder::AnotherProcess)
    }));
    let mut other = start("open", path);
    assert_eq!(line_from(&mut other), "Some(AnotherProcess)");
    assert!(finish(other).success());
    // The parent's mapping is untouched by the child's unmapping.
    let region = inherited.as_mut().expect("the child took its own copy");
    region.store(Offset(0), b"still here");
    assert_eq!(region.bytes(Offset(0), 10), Ok(&b"still here"[..]));
    drop(inherited);
    assert_eq!(holder(path), None);
}

fn orphan_does_not_own(path: &Path) {
    drop(create(path));
    let mut owner = start("hold and fork", path);
    let output = BufReader::new(owner.stdout.take().expect("it is piped"));
    let said: Vec<_> = output.lines().take(2).map(|line| line.expect("it is text")).collect();
    assert!(said.contains(&"holding".to_owned()) && said.contains(&"dropped".to_owned()));
    assert_eq!(holder(path), Some(Holder::AnotherProcess), "the parent still has it");
    owner.kill().expect("it is our child");
    let status = owner.wait().expect("it is our child");
    assert_eq!(status.signal(), Some(libc::SIGKILL));
    // The orphan lives until its pipe closes below; it dropped its region, so nobody owns.
    assert_eq!(holder(path), None);
    drop(owner.stdin.take());
}

fn half_created_is_not_opened(path: &Path) {
    // As a crash between creating and allocating leaves it.
    File::create(path).expect("the directory takes entries");
    let error = MapOptions::new().open(path).expect_err("it is empty");
    assert!(matches!(error.kind, MapErrorKind::Empty));
    let error = MapOptions::new().create(path, LEN).expect_err("it exists");
    assert!(matches!(error.kind, MapErrorKind::System { .. }));
}

fn creating_and_opening_at_once(path: &Path) {
    for round in 0..20 {
        let path = path.with_extension(round.to_string());
        let mut opener = start("open as soon as possible", &path);
        assert_eq!(line_from(&mut opener), "ready");
        let mut region = create(&path);
        region.store(Offset(LEN - 8), &[9; 8]);
        drop(region);
        assert!(finish(opener).success(), "it saw a whole file, and nothing before");
    }
}

fn truncation_aborts(path: &Path) {
    drop(create(path));
    let mut victim = start("truncated", path);
    let mut said = String::new();
    let mut output = victim.stdout.take().expect("it is piped");
    std::io::Read::read_to_string(&mut output, &mut said).expect("it is text");
    assert_eq!(said, "cut\n");
    assert_eq!(finish(victim).signal(), Some(libc::SIGBUS));
    // And its lock went with it: what is left is a short file.
    let error = MapOptions::new().min_len(LEN).open(path).expect_err("it is short");
    assert!(matches!(error.kind, MapErrorKind::TooShort { len: 4096, demanded: LEN }));
}
