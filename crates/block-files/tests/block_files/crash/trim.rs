//! A disk that forgets blocks, below a policy that logs what changes in a block.

use std::sync::Arc;

use block_files::BlockFiles;
use lab::erased::{DynHook, DynPolicy, any_options, of_world};
use lab::test_disks::Forgets;
use nvm_journal::ports::NoHook;
use nvm_journal::{ByteDelta, Journal, Options};
use sim_disk::suite::{Promise, Store, StoreBudget, View, check_store};
use sim_disk::{Image, World};

use crate::crash::{media, said};

const BLOCK: u32 = 128;

#[derive(Clone, Copy, Debug)]
enum Act {
    /// The file becomes this long, of bytes that look like no other act's.
    Grow(u8, usize),
    Change(usize),
    Cut(usize),
    Trim,
}

struct Trimmed;

impl Trimmed {
    fn options() -> Options<DynPolicy, DynHook> {
        any_options(ByteDelta::new(), NoHook).lanes(1).unit_bytes(256).cache_bytes(4096)
    }
}

impl Store for Trimmed {
    type Operation = Act;
    type Open = (BlockFiles, Forgets);

    fn media(&self) -> Image {
        media(1 << 14, BLOCK, 16)
    }

    fn format(&self, world: &World) -> Result<(), String> {
        let (nvm, disk) = of_world(world);
        let store = Arc::new(Journal::format(nvm, disk, &Self::options()).map_err(said)?);
        BlockFiles::format(store).and_then(|files| files.create("a")).map(drop).map_err(said)
    }

    fn open(&self, world: &World) -> Result<Self::Open, String> {
        let (nvm, disk) = of_world(world);
        let store = Arc::new(Journal::open(nvm, disk, &Self::options()).map_err(said)?);
        let files = BlockFiles::open(store).map_err(said)?;
        Ok((files, Forgets::new(world.disk(0))))
    }

    fn apply(&self, (files, disk): &mut Self::Open, act: &Act) -> Result<Promise, String> {
        let file = files.open_file("a").map_err(said)?;
        match *act {
            Act::Grow(byte, len) => file.write_at(0, &vec![byte; len]).map_err(said)?,
            Act::Change(at) => file.write_at(at as u64, b"!!").map_err(said)?,
            Act::Cut(len) => file.set_len(len as u64).map_err(said)?,
            Act::Trim => drop(files.trim(disk).map_err(said)?),
        }
        files.sync().map_err(said)?;
        Ok(Promise::Durable)
    }

    fn read(&self, (files, _): &mut Self::Open) -> Result<View, String> {
        let file = files.open_file("a").map_err(said)?;
        let mut bytes = vec![0; file.len().map_err(said)? as usize];
        file.read_at(0, &mut bytes).map_err(said)?;
        // A file of no bytes is what a new store has.
        let content = String::from_utf8(bytes).map_err(said)?;
        let view = Some(("a".to_owned(), content)).filter(|(_, content)| !content.is_empty());
        Ok(view.into_iter().collect())
    }

    fn operations(&self) -> Vec<Act> {
        vec![Act::Grow(b'g', 500), Act::Grow(b'h', 300), Act::Change(200), Act::Cut(60), Act::Trim]
    }

    fn model(&self, view: &mut View, act: &Act) {
        let mut content = view.remove("a").unwrap_or_default();
        match *act {
            Act::Grow(byte, len) => {
                let rest = content.get(len..).unwrap_or_default().to_owned();
                content = char::from(byte).to_string().repeat(len) + &rest;
            }
            Act::Change(at) => {
                while content.len() < at + 2 {
                    content.push('\0');
                }
                content.replace_range(at..at + 2, "!!");
            }
            Act::Cut(len) => {
                content.truncate(len);
                while content.len() < len {
                    content.push('\0');
                }
            }
            Act::Trim => {}
        }
        if !content.is_empty() {
            view.insert("a".to_owned(), content);
        }
    }
}

#[test]
fn a_trim_loses_nothing_in_any_crash() {
    let budget = StoreBudget::new().images(2).longer(8, 6).faults(2);
    let summary = check_store(&Trimmed, &budget);
    let summary = summary.unwrap_or_else(|failure| panic!("{failure}"));
    println!("{summary}");
}
