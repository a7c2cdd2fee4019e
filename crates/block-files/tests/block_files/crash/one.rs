//! One file at its own place, tried as a whole by the simulator's suite.

use std::sync::Arc;

use block_files::{OneFile, Write};
use nvm_journal::Durability;
use sim_disk::suite::{Promise, Store, StoreBudget, View, check_store};
use sim_disk::{Image, World};

use crate::crash::apart::{Apart, Torn};
use crate::crash::{formatted, media, opened, said};

struct One {
    apart: Apart,
}

#[derive(Clone, Copy, Debug)]
enum Act {
    /// Bytes at two places, in one durable transaction.
    Both(u8),
    /// Appends bytes, which are not durable yet.
    Append(u8),
    SetLen(usize),
    Sync,
    Checkpoint,
}

impl Store for One {
    type Operation = Act;
    type Open = OneFile;

    fn media(&self) -> Image {
        media(1 << 13, 64, 9)
    }

    fn format(&self, world: &World) -> Result<(), String> {
        OneFile::format(Arc::new(formatted(world)?), 0).map(drop).map_err(said)
    }

    fn open(&self, world: &World) -> Result<OneFile, String> {
        let journal = opened(world)?;
        OneFile::open(Arc::new(Torn { journal, apart: self.apart })).map_err(said)
    }

    fn apply(&self, file: &mut OneFile, act: &Act) -> Result<Promise, String> {
        let len = file.len();
        match *act {
            Act::Both(byte) => {
                let bytes = [byte; 40];
                let writes = [Write { at: 40, bytes: &bytes }, Write { at: 200, bytes: &bytes }];
                file.commit(&writes, None, Durability::Durable).map_err(said)?;
            }
            Act::Append(byte) if len < 400 => {
                file.write_at(len, &[byte; 50]).map_err(said)?;
                return Ok(Promise::Later);
            }
            Act::Append(_) => return Ok(Promise::Later),
            Act::SetLen(len) => {
                file.set_len(len as u64).map_err(said)?;
                return Ok(Promise::Later);
            }
            Act::Sync => file.sync().map_err(said)?,
            Act::Checkpoint => drop(file.checkpoint().map_err(said)?),
        }
        Ok(Promise::Durable)
    }

    fn read(&self, file: &mut OneFile) -> Result<View, String> {
        let mut bytes = vec![9; file.len() as usize];
        let read = file.read_at(0, &mut bytes).map_err(said)?;
        if read < bytes.len() {
            return Err(format!("{read} bytes of {}", bytes.len()));
        }
        let content = String::from_utf8(bytes).map_err(said)?;
        Ok(if content.is_empty() { View::new() } else { View::from([("it".into(), content)]) })
    }

    fn operations(&self) -> Vec<Act> {
        vec![Act::Both(b'b'), Act::Append(b'a'), Act::SetLen(90), Act::Sync, Act::Checkpoint]
    }

    fn model(&self, view: &mut View, act: &Act) {
        let mut content = view.remove("it").unwrap_or_default().into_bytes();
        match *act {
            Act::Both(byte) => {
                content.resize(content.len().max(240), 0);
                content[40..80].fill(byte);
                content[200..240].fill(byte);
            }
            Act::Append(byte) if content.len() < 400 => content.extend([byte; 50]),
            Act::SetLen(len) => content.resize(len, 0),
            Act::Append(_) | Act::Sync | Act::Checkpoint => {}
        }
        if !content.is_empty() {
            view.insert("it".to_owned(), String::from_utf8(content).expect("ASCII"));
        }
    }
}

#[test]
fn one_file_holds_through_every_crash() {
    let budget = StoreBudget::new().images(4).longer(8, 6).faults(4);
    let summary = check_store(&One { apart: Apart::Nothing }, &budget);
    let summary = summary.unwrap_or_else(|failure| panic!("{failure}"));
    println!("{summary}");
    assert!(summary.report.images > 10_000, "{summary}");
}

#[test]
fn a_length_of_its_own_is_found() {
    let budget = StoreBudget::new().images(32).longer(20, 4).faults(0);
    let failure = check_store(&One { apart: Apart::LastBlock }, &budget);
    let failure = failure.expect_err("a bug is planted");
    println!("{}", failure.to_string().lines().next().unwrap_or_default());
}
