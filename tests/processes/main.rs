//! What only processes can show: that a journal has one owner, what a kill leaves, and that the
//! tour does what it says.
//!
//! The test binary starts itself again as the other process, or as the tour. So it needs no other
//! binary.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "this is a program")]
#![allow(clippy::std_instead_of_core, reason = "a part of it is a program with std")]

mod owner;

use lab::tour;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output};

/// What the second process of a test does.
const ROLE: &str = "NVM_JOURNAL_TEST_ROLE";

/// Gets a folder of its own.
type Test = fn(&Path);

fn main() -> ExitCode {
    if let Ok(role) = std::env::var(ROLE) {
        return play(&role);
    }
    let tests: [(&str, Test); 6] = [
        ("a journal has one owner at a time", owner::one_at_a_time),
        ("a killed owner leaves the journal free, with what it committed", owner::killed),
        ("a killed owner leaves on a plain disk what it made durable", owner::killed_by_direct_io),
        ("a journal without a thread of its own says so", owner::no_thread),
        ("the oracle of the tour sees a changed byte", oracle_sees),
        ("a short tour ends well", tour_ends_well),
    ];
    let filter = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let listing = std::env::args().any(|argument| argument == "--list");
    for (name, test) in tests {
        if listing {
            println!("{name}: test");
        } else if filter.as_ref().is_none_or(|wanted| name.contains(wanted.as_str())) {
            let folder = format!("nvm-journal-processes-{}", std::process::id());
            let folder = Folder(std::env::temp_dir().join(folder));
            std::fs::create_dir(&folder.0).expect("the temporary directory takes entries");
            test(&folder.0);
            println!("test {name} ... ok");
        }
    }
    ExitCode::SUCCESS
}

/// Goes when it is dropped, with all that is in it.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn play(role: &str) -> ExitCode {
    match role {
        "tour" => tour::main(),
        "hold" => owner::hold(),
        "open" => owner::open(),
        "alone" => owner::alone(),
        _ => panic!("no such role: {role}"),
    }
}

/// This program in another role.
fn program(role: &str, folder: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("a program knows its name"));
    command.env(ROLE, role);
    if role == "tour" {
        command.arg("--dir");
    }
    command.arg(folder);
    command
}

fn text(output: &Output) -> String {
    let text = [&*output.stdout, &*output.stderr].concat();
    String::from_utf8(text).expect("it is text")
}

fn oracle_sees(_: &Path) {
    use tour::work::{BLOCK, BLOCKS_PER_THREAD, Mix, Model, Tag};
    let mut blocks = vec![vec![0; BLOCK]; BLOCKS_PER_THREAD as usize];
    let mut model = Model::new(0);
    for number in 1..=50 {
        let tag = Tag { run: 1, thread: 0, number };
        for (block, written) in tag.plan(Mix::Everyday).steps {
            if written {
                tag.fill(block, &mut blocks[block as usize]);
            }
        }
    }
    model.advance(1, Mix::Everyday, 50);
    let wrong = |model: &Model, blocks: &[Vec<u8>]| {
        let read = |block: nvm_journal::BlockNumber, into: &mut [u8]| {
            into.copy_from_slice(&blocks[block.raw() as usize]);
            Ok::<_, ()>(())
        };
        (model.found(read).expect("reads"), model.wrong(read).expect("reads").len())
    };
    assert_eq!(wrong(&model, &blocks), (50, 0));
    assert_eq!(Tag::of(&blocks[0]), Some(Tag { run: 1, thread: 0, number: 50 }));
    blocks[0][1000] ^= 1;
    assert_eq!((Tag::of(&blocks[0]), wrong(&model, &blocks)), (None, (0, 1)));
    model.advance(1, Mix::Everyday, 60);
    assert!(wrong(&model, &blocks).1 > 1, "what lost transactions wrote is missed");
}

fn tour_ends_well(folder: &Path) {
    let mut command = program("tour", folder);
    let said = command.args(["--seconds", "2", "--kills", "1"]).output();
    let said = said.expect("processes are to be had");
    let text = text(&said);
    assert!(said.status.success(), "{text}");
    for line in [
        "on the disk itself 0 blocks are wrong",
        "processes killed",
        "transactions were acknowledged as durable, 0 lost",
        "and dropped; 0 blocks are wrong",
        "the torn record was dropped, and all blocks are as transaction 3 left them",
        "acknowledged transactions lost 0, torn ones believed 0",
        "Every acknowledged transaction was there, whole; none was there in part.",
    ] {
        assert!(text.contains(line), "{line:?} is missing in:\n{text}");
    }
    assert!(!text.contains(" 0 transactions"), "{text}");
    let left = std::fs::read_dir(folder).expect("a folder").count();
    assert_eq!(left, 0, "it cleans up");
    let wrong = program("tour", folder).arg("--wrong").output().expect("processes are to be had");
    assert!(!wrong.status.success());
}
