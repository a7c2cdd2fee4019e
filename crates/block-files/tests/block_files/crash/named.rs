//! Named files, tried as a whole by the simulator's suite.

use std::sync::Arc;

use block_files::BlockFiles;
use sim_disk::suite::{Promise, Store, StoreBudget, View, check_store};
use sim_disk::{Image, World};

use crate::crash::apart::{Apart, Torn};
use crate::crash::{formatted, media, opened, said};

const BLOCK: u32 = 128;

/// Files in a journal, with a bug perhaps.
struct Named {
    apart: Apart,
    acts: Vec<Act>,
}

#[derive(Clone, Copy, Debug)]
enum Act {
    Create(&'static str),
    /// Writes a byte a number of times, from an offset on. The write is not durable yet.
    Write(&'static str, usize, u8, usize),
    SetLen(&'static str, usize),
    Sync,
    Remove(&'static str),
    Rename(&'static str, &'static str),
    /// One file goes, another one takes its name with new bytes, and a third one grows: one batch.
    Replace,
    Checkpoint,
}

const ALL: [Act; 9] = [
    Act::Create("a"),
    Act::Write("a", 100, b'w', 60),
    Act::Write("a", 400, b'x', 30),
    Act::SetLen("a", 110),
    Act::Sync,
    Act::Remove("a"),
    Act::Rename("a", "b"),
    Act::Replace,
    Act::Checkpoint,
];

fn content(files: &BlockFiles, name: &str) -> Result<String, String> {
    let file = files.open_file(name).map_err(said)?;
    let mut bytes = vec![0; file.len().map_err(said)? as usize];
    let read = file.read_at(0, &mut bytes).map_err(said)?;
    if read < bytes.len() {
        return Err(format!("{name}: {read} bytes of {}", bytes.len()));
    }
    String::from_utf8(bytes).map_err(said)
}

impl Store for Named {
    type Operation = Act;
    type Open = BlockFiles;

    fn media(&self) -> Image {
        media(1 << 14, BLOCK, 20)
    }

    fn format(&self, world: &World) -> Result<(), String> {
        BlockFiles::format(Arc::new(formatted(world)?)).map(drop).map_err(said)
    }

    fn open(&self, world: &World) -> Result<BlockFiles, String> {
        let journal = opened(world)?;
        BlockFiles::open(Arc::new(Torn { journal, apart: self.apart })).map_err(said)
    }

    fn apply(&self, files: &mut BlockFiles, act: &Act) -> Result<Promise, String> {
        let is_there = |name: &str| files.open_file(name).is_ok();
        match *act {
            Act::Create(name) if !is_there(name) => drop(files.create(name).map_err(said)?),
            Act::Remove(name) if is_there(name) => files.remove(name).map_err(said)?,
            Act::Rename(from, to) if is_there(from) && !is_there(to) => {
                files.rename(from, to).map_err(said)?;
            }
            Act::Write(name, at, byte, count) if is_there(name) => {
                let file = files.open_file(name).map_err(said)?;
                file.write_at(at as u64, &vec![byte; count]).map_err(said)?;
                return Ok(Promise::Later);
            }
            Act::SetLen(name, len) if is_there(name) => {
                let file = files.open_file(name).map_err(said)?;
                file.set_len(len as u64).map_err(said)?;
                return Ok(Promise::Later);
            }
            Act::Replace => {
                let third = files.open_file("c");
                let mut batch = files.batch();
                let third = match third {
                    Ok(file) => file,
                    Err(_) => batch.create("c"),
                };
                if is_there("a") {
                    batch = batch.remove("a");
                }
                let new = batch.create("a");
                let len = third.len().unwrap_or(0);
                let grown = batch.write_at(&new, 0, &[b'n'; 200]).write_at(&third, len, b"more");
                grown.commit().map_err(said)?;
            }
            Act::Checkpoint => drop(files.checkpoint().map_err(said)?),
            Act::Sync => files.sync().map_err(said)?,
            // Nothing of that name is there: nothing is done, and nothing promised.
            _ => return Ok(Promise::Later),
        }
        Ok(Promise::Durable)
    }

    fn read(&self, files: &mut BlockFiles) -> Result<View, String> {
        let mut view = View::new();
        for (name, _) in files.list() {
            let content = content(files, &name)?;
            view.insert(name, content);
        }
        Ok(view)
    }

    fn operations(&self) -> Vec<Act> {
        self.acts.clone()
    }

    fn model(&self, view: &mut View, act: &Act) {
        let resized = |content: &mut String, len: usize| {
            content.truncate(len);
            while content.len() < len {
                content.push('\0');
            }
        };
        match *act {
            Act::Create(name) => drop(view.entry(name.to_owned()).or_default()),
            Act::Remove(name) => drop(view.remove(name)),
            Act::Rename(from, to) if !view.contains_key(to) => {
                if let Some(content) = view.remove(from) {
                    view.insert(to.to_owned(), content);
                }
            }
            Act::Write(name, at, byte, count) => {
                if let Some(content) = view.get_mut(name) {
                    if content.len() < at + count {
                        resized(content, at + count);
                    }
                    let bytes = char::from(byte).to_string().repeat(count);
                    content.replace_range(at..at + count, &bytes);
                }
            }
            Act::SetLen(name, len) => {
                if let Some(content) = view.get_mut(name) {
                    resized(content, len);
                }
            }
            Act::Replace => {
                view.insert("a".to_owned(), "n".repeat(200));
                view.entry("c".to_owned()).or_default().push_str("more");
            }
            Act::Rename(..) | Act::Sync | Act::Checkpoint => {}
        }
    }
}

#[test]
fn files_hold_through_every_crash() {
    let files = Named { apart: Apart::Nothing, acts: ALL.to_vec() };
    let budget = StoreBudget::new().images(2).longer(6, 6).faults(3);
    let summary = check_store(&files, &budget).unwrap_or_else(|failure| panic!("{failure}"));
    println!("{summary}");
    assert!(summary.report.images > 20_000, "{summary}");
}

#[test]
fn a_length_outside_of_its_transaction_is_found() {
    let acts = vec![Act::Create("a"), Act::Write("a", 0, b'y', 40), Act::Write("a", 20, b'z', 60)];
    let budget = StoreBudget::new().images(24).longer(10, 4).faults(0);
    let right = Named { apart: Apart::Nothing, acts: acts.clone() };
    check_store(&right, &budget).unwrap_or_else(|failure| panic!("{failure}"));
    let failure = check_store(&Named { apart: Apart::Heads, acts }, &budget);
    let failure = failure.expect_err("a bug is planted");
    println!("{}", failure.to_string().lines().next().unwrap_or_default());
}

#[test]
fn an_entry_without_what_it_names_is_found() {
    let acts = vec![Act::Create("a"), Act::Replace, Act::Remove("a")];
    let budget = StoreBudget::new().images(24).longer(0, 0).faults(0);
    let right = Named { apart: Apart::Nothing, acts: acts.clone() };
    check_store(&right, &budget).unwrap_or_else(|failure| panic!("{failure}"));
    let failure = check_store(&Named { apart: Apart::Lists, acts }, &budget);
    let text = failure.expect_err("a bug is planted").to_string();
    assert!(text.contains("of the directory is damaged"), "{text}");
}
