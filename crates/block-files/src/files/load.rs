//! From the medium to a directory in memory. Nothing that a block says is believed unchecked.
//!
//! Guarantees: each block of the directory is read once at most, so a chain that leads back into
//! itself is an error. Memory grows with what is read, never with what a block says of a number.

use alloc::collections::{BTreeMap, BTreeSet};

use nvm_journal::BlockNumber;

use super::state::{Extent, File, FileId, List, Node, State};
use crate::error::{Damage, DamageKind, Error};
use crate::layout::format::{FIRST_LIST, HEADER, Layout, NodeRead};
use crate::layout::free_runs::{FreeRuns, Runs};
use crate::store::Store;

/// What is read, and which blocks are known to be in use.
struct Load<'a> {
    store: &'a dyn Store,
    layout: Layout,
    image: Vec<u8>,
    /// Blocks of the directory.
    known: BTreeSet<u64>,
    /// All blocks in use: the first, the number, and the block that says so.
    used: Vec<(u64, u64, u64)>,
}

/// Reads the directory of a store.
pub(super) fn load(store: &dyn Store) -> Result<State, Error> {
    let block_bytes = store.block_size().bytes();
    let layout = Layout::new(block_bytes, store.block_count())?;
    let image = vec![0; block_bytes];
    let mut load = Load { store, layout, image, known: BTreeSet::new(), used: Vec::new() };
    store.read_at(BlockNumber(HEADER), 0, &mut load.image)?;
    layout.read_header(&load.image)?;
    load.known.insert(HEADER);
    load.used.push((HEADER, 1, HEADER));
    // 1. The list of files.
    let lists = load.lists()?;
    // 2. Each file.
    let (mut files, mut names) = (BTreeMap::new(), BTreeMap::new());
    let (mut free_slots, mut id): (BTreeSet<_>, FileId) = (BTreeSet::new(), 0);
    for (list, List { block, slots }) in lists.iter().enumerate() {
        for (slot, head) in slots.iter().enumerate() {
            if *head == 0 {
                free_slots.insert((list, slot));
                continue;
            }
            let file = load.file(*block, *head, (list, slot))?;
            if names.insert(file.name.clone(), id).is_some() {
                return Err(Error::Damaged(Damage::new(*head, DamageKind::SameName)));
            }
            files.insert(id, file);
            id = id.saturating_add(1);
        }
    }
    // 3. What nothing has is free.
    let free = load.free()?;
    Ok(State {
        layout,
        files,
        names,
        lists,
        free_slots,
        free,
        waiting: Vec::new(),
        loose: BTreeSet::new(),
        untrimmed: Runs::default(),
        is_closed: false,
    })
}

impl Load<'_> {
    /// Reads a block of the directory that another one names.
    fn read(&mut self, by: u64, block: u64) -> Result<(), Error> {
        if !self.known.insert(block) {
            let kind = DamageKind::Shared(BlockNumber(block));
            return Err(Error::Damaged(Damage::new(by, kind)));
        }
        self.used.push((block, 1, by));
        self.store.read_at(BlockNumber(block), 0, &mut self.image).map_err(Error::from)
    }

    fn lists(&mut self) -> Result<Vec<List>, Error> {
        let (mut lists, mut by, mut next) = (Vec::new(), HEADER, Some(FIRST_LIST));
        while let Some(block) = next {
            self.read(by, block)?;
            let (behind, slots) =
                self.layout.read_list(block, &self.image).map_err(Error::Damaged)?;
            lists.push(List { block, slots });
            (by, next) = (block, behind);
        }
        Ok(lists)
    }

    fn file(&mut self, list: u64, head: u64, slot: (usize, usize)) -> Result<File, Error> {
        let (name, len) = (String::new(), 0);
        let mut file = File { name, len, slot, nodes: Vec::new(), extents: BTreeMap::new() };
        let (mut by, mut next) = (list, Some(head));
        while let Some(block) = next {
            self.read(by, block)?;
            let is_head = file.nodes.is_empty();
            let node = self.layout.read_node(block, &self.image, is_head);
            (by, next) = (block, self.node(&mut file, block, node.map_err(Error::Damaged)?)?);
        }
        Ok(file)
    }

    /// Adds what a node says to its file; returns the next node.
    fn node(&mut self, file: &mut File, block: u64, read: NodeRead) -> Result<Option<u64>, Error> {
        let NodeRead { head, next, runs } = read;
        if let Some((name, len)) = head {
            (file.name, file.len) = (name, len);
        }
        let damaged = |kind| Err(Error::Damaged(Damage::new(block, kind)));
        let (node, blocks) = (file.nodes.len(), file.len.div_ceil(self.layout.block()));
        let mut keys = BTreeSet::new();
        for run in runs {
            let last = run.file.saturating_add(run.count.saturating_sub(1));
            if last >= blocks {
                return damaged(DamageKind::BehindEnd { file_block: last });
            }
            let before = file.extents.range(..=last).next_back();
            let end = before.map_or(0, |(key, extent)| key.saturating_add(extent.count));
            if end > run.file {
                return damaged(DamageKind::Twice { file_block: run.file });
            }
            let extent = Extent { store: run.store, count: run.count, node };
            file.extents.insert(run.file, extent);
            keys.insert(run.file);
            self.used.push((run.store, run.count, block));
        }
        file.nodes.push(Node { block, keys });
        Ok(next)
    }

    fn free(&mut self) -> Result<FreeRuns, Error> {
        self.used.sort_unstable();
        let mut end = 0;
        for (first, count, by) in &self.used {
            if *first < end {
                let kind = DamageKind::Shared(BlockNumber(*first));
                return Err(Error::Damaged(Damage::new(*by, kind)));
            }
            end = first.saturating_add(*count);
        }
        let used: Vec<_> = self.used.iter().map(|(first, count, _)| (*first, *count)).collect();
        Ok(FreeRuns::between(&used, self.layout.blocks))
    }
}
