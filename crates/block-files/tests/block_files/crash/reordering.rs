//! Blocks that a deferred transaction has freed, on a journal that makes as little durable as its
//! contract allows.
//!
//! The contract: transactions that have no block in common are independent, so a crash may keep a
//! later one and lose an earlier one. The engine seldom does that. This store does it whenever it
//! may: it holds deferred transactions back until a sync, or until another one shares a block with
//! them.

use std::sync::{Arc, Mutex, MutexGuard};

use block_files::{BlockFiles, Store};
use lab::erased::DynJournal;
use nvm_journal::policy::{Change, Update};
use nvm_journal::{
    BlockNumber, BlockSize, CheckpointReport, Committed, Durability, Error, Operation, Stats,
    Totals,
};
use sim_disk::{Explorer, Image, Mark, Model, Scenario, World};

use crate::crash::{formatted, media, opened, said};

/// A transaction that is held back: its blocks, and their images.
type Held = Vec<(BlockNumber, Vec<u8>)>;

#[derive(Debug)]
struct Lazy {
    journal: DynJournal,
    held: Mutex<Vec<Held>>,
    /// Whether a sync says that it is done, and does nothing: the bug.
    syncs_nothing: bool,
}

impl Lazy {
    fn held(&self) -> MutexGuard<'_, Vec<Held>> {
        self.held.lock().expect("no panic")
    }

    /// Commits everything that was held back.
    fn let_go(&self, durability: Durability) -> Result<(), Error> {
        for held in self.held().drain(..) {
            let operations: Vec<_> =
                held.iter().map(|(block, image)| Operation::write(*block, image)).collect();
            Store::commit(&self.journal, &operations, durability)?;
        }
        Ok(())
    }
}

impl Store for Lazy {
    fn block_size(&self) -> BlockSize {
        Store::block_size(&self.journal)
    }

    fn block_count(&self) -> u64 {
        Store::block_count(&self.journal)
    }

    fn read_at(&self, block: BlockNumber, at: usize, into: &mut [u8]) -> Result<(), Error> {
        let held = self.held();
        let newest = held.iter().rev().flatten().find(|(held, _)| *held == block);
        match newest {
            Some((_, image)) => into.copy_from_slice(&image[at..][..into.len()]),
            None => Store::read_at(&self.journal, block, at, into)?,
        }
        Ok(())
    }

    fn read_run(&self, first: BlockNumber, into: &mut [u8]) -> Result<(), Error> {
        let size = Store::block_size(self).bytes();
        for (number, image) in (first.raw()..).zip(into.chunks_mut(size)) {
            Store::read_at(self, BlockNumber(number), 0, image)?;
        }
        Ok(())
    }

    fn commit(
        &self,
        operations: &[Operation<'_>],
        durability: Durability,
    ) -> Result<Option<Committed>, Error> {
        let is_shared =
            |block: BlockNumber| self.held().iter().flatten().any(|(held, _)| *held == block);
        if operations.iter().any(|operation| is_shared(operation.block())) {
            self.let_go(durability)?;
        }
        if durability == Durability::Durable {
            return Store::commit(&self.journal, operations, durability);
        }
        let image = |operation: &Operation<'_>| match operation {
            Operation::Update(Update { block, change: Change::Image(image), .. }) => {
                (*block, image.to_vec())
            }
            other => panic!("files write images: {other:?}"),
        };
        self.held().push(operations.iter().map(image).collect());
        Ok(None)
    }

    fn sync(&self) -> Result<(), Error> {
        if self.syncs_nothing {
            return Ok(());
        }
        self.let_go(Durability::Deferred)?;
        Store::sync(&self.journal)
    }

    fn checkpoint(&self) -> Result<CheckpointReport, Error> {
        self.let_go(Durability::Durable)?;
        Store::checkpoint(&self.journal)
    }

    fn close(&self) -> Result<(), Error> {
        self.let_go(Durability::Durable)?;
        Store::close(&self.journal)
    }

    fn stats(&self) -> Result<Stats, Error> {
        Store::stats(&self.journal)
    }

    fn totals(&self) -> Result<Totals, Error> {
        Store::totals(&self.journal)
    }
}

/// One file frees the last blocks, and another one takes them.
struct Reuse {
    syncs_nothing: bool,
}

const BLOCKS: u64 = 8;

impl Scenario for Reuse {
    fn start(&self) -> Image {
        let world = World::boot(media(1 << 14, 128, BLOCKS), Model::Torn8);
        let files = BlockFiles::format(Arc::new(formatted(&world).expect("a journal")));
        let files = files.expect("files");
        let full = files.create("full").expect("room");
        files.create("empty").expect("room");
        full.write_at(0, &vec![b'f'; files.free_blocks() as usize * 128]).expect("room");
        files.sync().expect("a sync");
        drop((files, full));
        world.visible()
    }

    fn program(&self, world: &World) -> Result<(), String> {
        let (journal, syncs_nothing) = (opened(world)?, self.syncs_nothing);
        let lazy = Lazy { journal, held: Mutex::default(), syncs_nothing };
        let files = BlockFiles::open(Arc::new(lazy)).map_err(said)?;
        let (full, empty) = (files.open_file("full"), files.open_file("empty"));
        full.map_err(said)?.set_len(0).map_err(said)?;
        let empty = empty.map_err(said)?;
        files.batch().write_at(&empty, 0, &[b'e'; 300]).commit().map_err(said)?;
        world.returned(1);
        Ok(())
    }

    fn recover(&self, world: &World) -> Result<(), String> {
        let files = BlockFiles::open(Arc::new(opened(world)?)).map_err(said)?;
        let returned = world.history().contains(&Mark::Returned(1));
        for (name, byte, lens) in [("full", b'f', [0, 512]), ("empty", b'e', [0, 300])] {
            let file = files.open_file(name).map_err(said)?;
            let mut bytes = vec![0; 600];
            let read = file.read_at(0, &mut bytes).map_err(said)?;
            let is_right = lens.contains(&read) && bytes[..read].iter().all(|it| *it == byte);
            if !is_right || (returned && name == "empty" && read == 0) {
                return Err(format!("{name} has {read} bytes: {:?}", &bytes[..read]));
            }
        }
        Ok(())
    }
}

#[test]
fn a_block_is_free_when_the_transaction_that_frees_it_is_durable() {
    let explorer = Explorer::new(Model::Torn8);
    let report = explorer.explore(&Reuse { syncs_nothing: false });
    println!("{}", report.unwrap_or_else(|failure| panic!("{failure}")));
    let failure = explorer.explore(&Reuse { syncs_nothing: true }).expect_err("a bug is planted");
    assert!(failure.message.contains("is in use elsewhere"), "{}", failure.message);
}

/// Changes of the directory that share no block: the first ones are deferred, and the last one is
/// durable.
struct Directory {
    /// What is there before.
    start: fn(&BlockFiles),
    program: fn(&BlockFiles),
    /// What each state has to be like; `true` once the program has returned.
    check: fn(&BlockFiles, bool) -> bool,
}

impl Scenario for Directory {
    fn start(&self) -> Image {
        let world = World::boot(media(1 << 14, 128, 16), Model::Torn8);
        let files = BlockFiles::format(Arc::new(formatted(&world).expect("a journal")));
        let files = files.expect("files");
        (self.start)(&files);
        files.sync().expect("a sync");
        drop(files);
        world.visible()
    }

    fn program(&self, world: &World) -> Result<(), String> {
        let journal = opened(world)?;
        let lazy = Lazy { journal, held: Mutex::default(), syncs_nothing: false };
        let files = BlockFiles::open(Arc::new(lazy)).map_err(said)?;
        (self.program)(&files);
        world.returned(1);
        Ok(())
    }

    fn recover(&self, world: &World) -> Result<(), String> {
        let files = BlockFiles::open(Arc::new(opened(world)?)).map_err(said)?;
        let returned = world.history().contains(&Mark::Returned(1));
        let is_right = (self.check)(&files, returned);
        if is_right { Ok(()) } else { Err(format!("{returned}: {:?}", files.list())) }
    }
}

fn names(files: &BlockFiles) -> String {
    files.list().into_iter().map(|(name, _)| name).collect()
}

fn no_crash_contradicts(directory: &Directory) {
    let report = Explorer::new(Model::Torn8).explore(directory);
    println!("{}", report.unwrap_or_else(|failure| panic!("{failure}")));
}

#[test]
fn a_new_file_has_the_name_that_another_one_had() {
    no_crash_contradicts(&Directory {
        start: |files| drop(files.create("a").expect("room")),
        program: |files| {
            files.batch().rename("a", "b").commit_deferred().expect("room");
            files.create("a").expect("room");
        },
        check: |files, returned| match names(files).as_str() {
            "a" | "b" => !returned,
            "ab" => true,
            _ => false,
        },
    });
}

#[test]
fn a_file_has_the_name_of_one_that_was_removed() {
    no_crash_contradicts(&Directory {
        start: |files| {
            for name in ["a", "b"] {
                files.create(name).expect("room");
            }
        },
        program: |files| {
            files.batch().remove("a").commit_deferred().expect("room");
            files.rename("b", "a").expect("room");
        },
        check: |files, returned| match names(files).as_str() {
            "ab" | "b" => !returned,
            "a" => true,
            _ => false,
        },
    });
}

#[test]
fn a_block_that_was_cut_off_is_in_another_node() {
    no_crash_contradicts(&Directory {
        start: |files| {
            let file = files.create("a").expect("room");
            // The head has room for the first two.
            for block in [10, 5, 0] {
                file.write_at(block * 128, &[b'o'; 128]).expect("room");
            }
        },
        program: |files| {
            let file = files.open_file("a").expect("it is there");
            file.set_len(10 * 128).expect("room");
            file.set_len(11 * 128).expect("room");
            files.batch().write_at(&file, 10 * 128, &[b'n'; 128]).commit().expect("room");
        },
        check: |files, returned| {
            let file = files.open_file("a").expect("it is there");
            let mut block = [7; 128];
            let read = file.read_at(10 * 128, &mut block).expect("a read");
            let is = |byte| read == 128 && block == [byte; 128];
            is(b'n') || (!returned && (read == 0 || is(b'o') || is(0)))
        },
    });
}
