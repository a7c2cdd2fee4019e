//! One transaction on files: the directory changes in memory, step by step, and the blocks that
//! say so are committed together. A refusal takes every step back.

use alloc::borrow::Cow;
use alloc::collections::{BTreeMap, BTreeSet};

use nvm_journal::{BlockNumber, Durability, Operation};

use super::state::{Extent, File, FileId, State, Step};
use crate::error::Error;
use crate::layout::format::{LEN_MAX, Layout};
use crate::store::Store;

/// A transaction that is being made.
pub(super) struct Edit<'s, 'b> {
    state: &'s mut State,
    store: &'s dyn Store,
    /// What takes back the steps so far.
    undo: Vec<Step>,
    /// New content, by the block of the store.
    images: BTreeMap<u64, Cow<'b, [u8]>>,
    nodes: BTreeSet<(FileId, usize)>,
    lists: BTreeSet<usize>,
    /// Blocks that were free before.
    taken: Vec<(u64, u64)>,
    /// Blocks that are free once this is durable.
    freed: Vec<(u64, u64)>,
}

/// The bytes of a file that a block of it has: where they begin in the block, and how many.
fn part(layout: &Layout, at: u64, left: usize) -> (u64, usize, usize) {
    let block = layout.block();
    // No block is empty.
    let number = at.checked_div(block).unwrap_or_default();
    let inside = at.checked_rem(block).unwrap_or_default() as usize;
    (number, inside, left.min(layout.block_bytes.saturating_sub(inside)))
}

/// The bytes that a file does not have lie in no block: they are zero.
pub(super) fn read(
    state: &State,
    store: &dyn Store,
    id: FileId,
    at: u64,
    into: &mut [u8],
) -> Result<usize, Error> {
    let layout = state.layout;
    let file = state.file(id).ok_or(Error::NotFound)?;
    let there = usize::try_from(file.len.saturating_sub(at)).unwrap_or(usize::MAX);
    let there = there.min(into.len());
    let (mut into, mut at) = (into.get_mut(..there).unwrap_or_default(), at);
    while !into.is_empty() {
        let (number, inside, mut bytes) = part(&layout, at, into.len());
        let extent = file.extent_at(number);
        let whole_blocks = into.len().checked_div(layout.block_bytes).unwrap_or_default() as u64;
        if inside == 0 && whole_blocks > 1 {
            let end = match extent {
                Some((key, extent)) => key.saturating_add(extent.count),
                None => file.next_extent(number).unwrap_or(u64::MAX),
            };
            let blocks = end.saturating_sub(number).min(whole_blocks);
            bytes = (blocks as usize).saturating_mul(layout.block_bytes);
        }
        let (now, rest) = into.split_at_mut_checked(bytes).unwrap_or_default();
        match file.place(number).map(BlockNumber) {
            Some(place) if inside == 0 && bytes >= layout.block_bytes => {
                store.read_run(place, now)?;
            }
            Some(place) => store.read_at(place, inside, now)?,
            None => now.fill(0),
        }
        (into, at) = (rest, at.saturating_add(bytes as u64));
    }
    Ok(there)
}

impl<'s, 'b> Edit<'s, 'b> {
    pub(super) fn new(state: &'s mut State, store: &'s dyn Store) -> Self {
        Self {
            state,
            store,
            undo: Vec::new(),
            images: BTreeMap::new(),
            nodes: BTreeSet::new(),
            lists: BTreeSet::new(),
            taken: Vec::new(),
            freed: Vec::new(),
        }
    }

    fn file(&self, id: FileId) -> Result<&File, Error> {
        self.state.file(id).ok_or(Error::NotFound)
    }

    fn step(&mut self, step: Step) {
        self.undo.extend(self.state.take(step));
    }

    /// Takes free blocks: as many as are wanted, or fewer, but at least one.
    fn take(&mut self, near: Option<u64>, wanted: u64) -> Result<(u64, u64), Error> {
        let mut run = self.state.free.take(near, wanted);
        if run.is_none() && !self.state.waiting.is_empty() {
            // What waits to be free is free behind a sync.
            self.store.sync()?;
            self.state.is_durable();
            run = self.state.free.take(near, wanted);
        }
        let run = run.ok_or(Error::NoRoom { wanted, free: self.state.free.free() })?;
        self.taken.push(run);
        Ok(run)
    }

    fn free(&mut self, first: u64, count: u64) {
        self.freed.push((first, count));
        let staged = first..first.saturating_add(count);
        let staged: Vec<u64> = self.images.range(staged).map(|(block, _)| *block).collect();
        for block in staged {
            self.images.remove(&block);
        }
    }

    pub(super) fn create(&mut self, id: FileId, name: &str) -> Result<(), Error> {
        self.state.layout.check_name(name)?;
        if self.state.names.contains_key(name) {
            return Err(Error::Exists);
        }
        if self.state.free_slots.is_empty() {
            let (block, _) = self.take(None, 1)?;
            let list = self.state.lists.len();
            self.step(Step::PushList { block });
            self.lists.extend([list.saturating_sub(1), list]);
        }
        let slot = self.state.free_slots.first().copied();
        let slot = slot.ok_or(Error::NoRoom { wanted: 1, free: 0 })?;
        let (block, _) = self.take(None, 1)?;
        let (name, nodes) = (name.to_owned(), Vec::new());
        let file = File { name, len: 0, slot, nodes, extents: BTreeMap::new() };
        self.step(Step::Insert { id, file: Box::new(file) });
        self.push_node(id, block);
        self.step(Step::Slot { list: slot.0, slot: slot.1, head: block });
        self.lists.insert(slot.0);
        Ok(())
    }

    pub(super) fn remove(&mut self, id: FileId) -> Result<(), Error> {
        let file = self.file(id)?;
        let (list, slot) = file.slot;
        let extents: Vec<_> = file.extents.values().map(|run| (run.store, run.count)).collect();
        let nodes: Vec<_> = file.nodes.iter().map(|node| (node.block, 1)).collect();
        for (first, count) in extents.into_iter().chain(nodes) {
            self.free(first, count);
        }
        self.nodes.retain(|(file, _)| *file != id);
        self.step(Step::Remove { id });
        self.step(Step::Slot { list, slot, head: 0 });
        self.lists.insert(list);
        Ok(())
    }

    pub(super) fn named(&self, name: &str) -> Result<FileId, Error> {
        self.state.names.get(name).copied().ok_or(Error::NotFound)
    }

    pub(super) fn rename(&mut self, id: FileId, name: &str) -> Result<(), Error> {
        self.state.layout.check_name(name)?;
        if self.file(id)?.name == name {
            return Ok(());
        }
        if self.state.names.contains_key(name) {
            return Err(Error::Exists);
        }
        self.step(Step::Name { id, name: name.to_owned() });
        self.nodes.insert((id, 0));
        Ok(())
    }

    pub(super) fn set_len(&mut self, id: FileId, len: u64) -> Result<(), Error> {
        if len > LEN_MAX {
            return Err(Error::TooFar { end: Some(len), most: LEN_MAX });
        }
        let old = self.file(id)?.len;
        if len < old {
            self.cut(id, len)?;
        }
        if len != old {
            self.step(Step::Len { id, len });
            self.nodes.insert((id, 0));
        }
        Ok(())
    }

    /// Frees the blocks behind an end, and clears the rest of the block at the end.
    fn cut(&mut self, id: FileId, len: u64) -> Result<(), Error> {
        let layout = self.state.layout;
        let kept = len.div_ceil(layout.block());
        let file = self.file(id)?;
        let mut behind: Vec<_> =
            file.extents.range(kept..).map(|(key, run)| (*key, *run)).collect();
        if let Some((key, extent)) = kept.checked_sub(1).and_then(|last| file.extent_at(last)) {
            let stays = kept.saturating_sub(key);
            if stays < extent.count {
                let goes = extent.count.saturating_sub(stays);
                self.free(extent.store.saturating_add(stays), goes);
                self.set_extent(id, key, Some(Extent { count: stays, ..extent }), extent.node);
            }
        }
        for (key, extent) in behind.drain(..) {
            self.free(extent.store, extent.count);
            self.set_extent(id, key, None, extent.node);
        }
        self.pop_empty_nodes(id)?;
        let (number, inside, _) = part(&layout, len, usize::MAX);
        if inside > 0 {
            if let Some(place) = self.file(id)?.place(number) {
                let mut image = self.image(place)?;
                image.get_mut(inside..).unwrap_or_default().fill(0);
                self.images.insert(place, Cow::Owned(image));
            }
        }
        Ok(())
    }

    /// Takes nodes off the end of a chain that say nothing any more.
    fn pop_empty_nodes(&mut self, id: FileId) -> Result<(), Error> {
        loop {
            let file = self.file(id)?;
            let last = file.nodes.len().saturating_sub(1);
            let Some(node) = file.nodes.get(last).filter(|node| node.keys.is_empty()) else {
                return Ok(());
            };
            if last == 0 {
                return Ok(());
            }
            let block = node.block;
            self.step(Step::Pop { id });
            self.free(block, 1);
            self.nodes.remove(&(id, last));
            self.nodes.insert((id, last.saturating_sub(1)));
        }
    }

    fn set_extent(&mut self, id: FileId, key: u64, extent: Option<Extent>, node: usize) {
        self.step(Step::Extent { id, key, extent });
        self.nodes.insert((id, node));
    }

    fn push_node(&mut self, id: FileId, block: u64) {
        self.step(Step::Push { id, block });
        let last = self.state.file(id).map_or(0, |file| file.nodes.len().saturating_sub(1));
        self.nodes.extend([(id, last.saturating_sub(1)), (id, last)]);
    }

    /// Takes blocks for a hole of a file: at most `wanted` from `number` on. Returns how many.
    fn fill_hole(&mut self, id: FileId, number: u64, wanted: u64) -> Result<u64, Error> {
        let layout = self.state.layout;
        let before = number.checked_sub(1).and_then(|before| {
            let file = self.state.file(id)?;
            file.extent_at(before)
        });
        let near = before.map(|(_, extent)| extent.store.saturating_add(extent.count));
        let (first, count) = self.take(near, wanted)?;
        if let Some((key, extent)) = before.filter(|_| near == Some(first)) {
            let longer = Extent { count: extent.count.saturating_add(count), ..extent };
            self.set_extent(id, key, Some(longer), extent.node);
            return Ok(count);
        }
        let nodes = &self.file(id)?.nodes;
        let has_room =
            |(at, node): &(usize, &super::state::Node)| node.keys.len() < layout.runs(*at == 0);
        let node = nodes.iter().enumerate().rev().find(has_room).map(|(at, _)| at);
        let node = match node {
            Some(node) => node,
            None => {
                let at = nodes.len();
                let (block, _) = self.take(None, 1)?;
                self.push_node(id, block);
                at
            }
        };
        self.set_extent(id, number, Some(Extent { store: first, count, node }), node);
        Ok(count)
    }

    /// The newest content of a block of the store.
    fn image(&self, place: u64) -> Result<Vec<u8>, Error> {
        if let Some(image) = self.images.get(&place) {
            return Ok(image.to_vec());
        }
        let mut image = vec![0; self.state.layout.block_bytes];
        self.store.read_at(BlockNumber(place), 0, &mut image)?;
        Ok(image)
    }

    pub(super) fn write_bytes(
        &mut self,
        id: FileId,
        at: u64,
        bytes: &'b [u8],
    ) -> Result<(), Error> {
        let layout = self.state.layout;
        let end = at.checked_add(bytes.len() as u64);
        let Some(end) = end.filter(|end| *end <= LEN_MAX) else {
            return Err(Error::TooFar { end, most: LEN_MAX });
        };
        let old = self.file(id)?.len;
        let (mut at, mut left) = (at, bytes);
        // Blocks of the file before this one are new, and hold nothing yet.
        let mut is_new = 0..0;
        while !left.is_empty() {
            let (number, inside, now) = part(&layout, at, left.len());
            if self.file(id)?.place(number).is_none() {
                let behind = end.div_ceil(layout.block());
                let hole = self.file(id)?.next_extent(number).unwrap_or(u64::MAX).min(behind);
                let count = self.fill_hole(id, number, hole.saturating_sub(number))?;
                is_new = number..number.saturating_add(count);
            }
            let place = self.file(id)?.place(number).ok_or(Error::NotFound)?;
            let (now, rest) = left.split_at_checked(now).unwrap_or_default();
            let image = if now.len() == layout.block_bytes {
                Cow::Borrowed(now)
            } else {
                let is_new = is_new.contains(&number);
                let mut image =
                    if is_new { vec![0; layout.block_bytes] } else { self.image(place)? };
                let bytes = image.get_mut(inside..inside.saturating_add(now.len()));
                bytes.unwrap_or_default().copy_from_slice(now);
                Cow::Owned(image)
            };
            self.images.insert(place, image);
            (at, left) = (at.saturating_add(now.len() as u64), rest);
        }
        if end > old && !bytes.is_empty() {
            self.step(Step::Len { id, len: end });
            self.nodes.insert((id, 0));
        }
        Ok(())
    }

    /// Takes back what was done.
    pub(super) fn refuse(self) {
        for step in self.undo.into_iter().rev() {
            self.state.take(step);
        }
        for (first, count) in self.taken {
            self.state.free.give(first, count);
        }
    }

    /// The new images of the directory.
    fn directory(&self) -> Vec<(u64, Vec<u8>)> {
        let (state, layout) = (&*self.state, self.state.layout);
        let nodes = self.nodes.iter().filter_map(|(id, at)| state.file(*id)?.image(&layout, *at));
        nodes.chain(self.lists.iter().filter_map(|at| state.list_image(*at))).collect()
    }

    /// A crash may keep this transaction and lose an earlier one that shares no block with it. Two
    /// blocks of the directory would contradict each other then. So what was written deferred is
    /// durable first, unless this transaction writes all of it anew.
    fn keep_in_order(&mut self, directory: &[(u64, Vec<u8>)]) -> Result<(), Error> {
        let is_anew = |block: &u64| directory.iter().any(|(anew, _)| anew == block);
        if !directory.is_empty() && !self.state.loose.iter().all(is_anew) {
            self.store.sync()?;
            self.state.is_durable();
        }
        Ok(())
    }

    /// Commits everything in one transaction, or takes it back.
    pub(super) fn commit(mut self, durability: Durability) -> Result<(), Error> {
        // 1. The blocks of the directory.
        let directory = self.directory();
        if let Err(error) = self.keep_in_order(&directory) {
            self.refuse();
            return Err(error);
        }
        let written: Vec<u64> = directory.iter().map(|(block, _)| *block).collect();
        self.images.extend(directory.into_iter().map(|(block, image)| (block, Cow::Owned(image))));
        // 2. One transaction.
        let images = self.images.iter();
        let operations: Vec<_> =
            images.map(|(block, image)| Operation::write(BlockNumber(*block), image)).collect();
        if operations.is_empty() {
            return Ok(());
        }
        let committed = self.store.commit(&operations, durability);
        drop(operations);
        if let Err(error) = committed {
            self.refuse();
            return Err(error.into());
        }
        // What is in use again is trimmed once it was freed again.
        for (first, count) in &self.taken {
            self.state.untrimmed.leave(*first, *count);
        }
        match durability {
            Durability::Durable => {
                if !written.is_empty() {
                    self.state.loose.clear();
                }
                for (first, count) in &self.freed {
                    self.state.free.give(*first, *count);
                    self.state.untrimmed.join(*first, *count);
                }
            }
            Durability::Deferred => {
                self.state.loose.extend(written);
                self.state.waiting.append(&mut self.freed);
            }
        }
        Ok(())
    }
}
