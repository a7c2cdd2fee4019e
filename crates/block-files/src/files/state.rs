//! The directory as memory holds it, and the steps that change it.
//!
//! Guarantees: each step can be taken back by the step that it returns, so a transaction that was
//! refused leaves no trace.

use alloc::collections::{BTreeMap, BTreeSet};

use crate::layout::format::{Layout, Run};
use crate::layout::free_runs::{FreeRuns, Runs};

/// A file's number while the directory is open; no two files ever have the same.
pub(super) type FileId = u64;

/// Where the blocks of a file lie that follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    /// The first block, of the store.
    pub(super) store: u64,
    pub(super) count: u64,
    /// Which node of the file says so.
    pub(super) node: usize,
}

/// A block of the directory that holds extents of one file.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) block: u64,
    /// The extents that it says, by their first block of the file.
    pub(super) keys: BTreeSet<u64>,
}

/// One file.
#[derive(Clone, Debug)]
pub(super) struct File {
    pub(super) name: String,
    pub(super) len: u64,
    /// Where the list names it: which list, and which of its slots.
    pub(super) slot: (usize, usize),
    /// Its head, and the further nodes in the order of their chain. Never empty.
    pub(super) nodes: Vec<Node>,
    /// By the first block of the file.
    pub(super) extents: BTreeMap<u64, Extent>,
}

/// A block of the list of files.
#[derive(Debug)]
pub(super) struct List {
    pub(super) block: u64,
    pub(super) slots: Vec<u64>,
}

/// All that is known of the files.
#[derive(Debug)]
pub(super) struct State {
    pub(super) layout: Layout,
    pub(super) files: BTreeMap<FileId, File>,
    pub(super) names: BTreeMap<String, FileId>,
    pub(super) lists: Vec<List>,
    pub(super) free_slots: BTreeSet<(usize, usize)>,
    pub(super) free: FreeRuns,
    /// Blocks that a transaction has freed that may not be durable yet. After a crash they may
    /// belong to a file again, so no other file gets them before a sync.
    pub(super) waiting: Vec<(u64, u64)>,
    /// Blocks of the directory that transactions have written since the last sync. None of these
    /// may be durable yet.
    pub(super) loose: BTreeSet<u64>,
    /// Free blocks that have held something since the last trim.
    pub(super) untrimmed: Runs,
    pub(super) is_closed: bool,
}

/// One change of the directory in memory.
#[derive(Debug)]
pub(super) enum Step {
    /// An extent of a file becomes this one, or goes.
    Extent {
        id: FileId,
        key: u64,
        extent: Option<Extent>,
    },
    Len {
        id: FileId,
        len: u64,
    },
    Name {
        id: FileId,
        name: String,
    },
    /// A node joins the end of a file's chain.
    Push {
        id: FileId,
        block: u64,
    },
    /// The last node of a file's chain goes. It names no extent.
    Pop {
        id: FileId,
    },
    Insert {
        id: FileId,
        file: Box<File>,
    },
    Remove {
        id: FileId,
    },
    Slot {
        list: usize,
        slot: usize,
        head: u64,
    },
    /// A block joins the list of files.
    PushList {
        block: u64,
    },
    PopList,
}

impl File {
    /// The extent that has a block of the file: its first block of the file, and itself.
    pub(super) fn extent_at(&self, file_block: u64) -> Option<(u64, Extent)> {
        let (key, extent) = self.extents.range(..=file_block).next_back()?;
        let is_inside = file_block.saturating_sub(*key) < extent.count;
        is_inside.then_some((*key, *extent))
    }

    /// The first block of the file behind this one that lies somewhere.
    pub(super) fn next_extent(&self, file_block: u64) -> Option<u64> {
        let behind = file_block.checked_add(1)?;
        self.extents.range(behind..).next().map(|(key, _)| *key)
    }

    /// The block of the store that has a block of the file.
    pub(super) fn place(&self, file_block: u64) -> Option<u64> {
        let (key, extent) = self.extent_at(file_block)?;
        extent.store.checked_add(file_block.saturating_sub(key))
    }

    /// The bytes of one of its nodes.
    pub(super) fn image(&self, layout: &Layout, at: usize) -> Option<(u64, Vec<u8>)> {
        let node = self.nodes.get(at)?;
        let next = at.checked_add(1).and_then(|next| self.nodes.get(next));
        let head = (at == 0).then_some((self.name.as_str(), self.len));
        let runs = node.keys.iter().filter_map(|key| {
            let extent = self.extents.get(key)?;
            Some(Run { file: *key, store: extent.store, count: extent.count })
        });
        let next = next.map(|next| next.block);
        Some((node.block, layout.node(node.block, head, next, runs)))
    }
}

impl State {
    pub(super) fn file(&self, id: FileId) -> Option<&File> {
        self.files.get(&id)
    }

    /// Changes the directory; returns the step that takes this one back. A step that is not
    /// possible changes nothing.
    pub(super) fn take(&mut self, step: Step) -> Option<Step> {
        match step {
            Step::Extent { id, key, extent } => {
                let file = self.files.get_mut(&id)?;
                let old = match extent {
                    Some(extent) => file.extents.insert(key, extent),
                    None => file.extents.remove(&key),
                };
                if let Some(node) = old.and_then(|old| file.nodes.get_mut(old.node)) {
                    node.keys.remove(&key);
                }
                if let Some(node) = extent.and_then(|extent| file.nodes.get_mut(extent.node)) {
                    node.keys.insert(key);
                }
                Some(Step::Extent { id, key, extent: old })
            }
            Step::Len { id, len } => {
                let file = self.files.get_mut(&id)?;
                let len = core::mem::replace(&mut file.len, len);
                Some(Step::Len { id, len })
            }
            Step::Name { id, name } => {
                let file = self.files.get_mut(&id)?;
                self.names.remove(&file.name);
                self.names.insert(name.clone(), id);
                let name = core::mem::replace(&mut file.name, name);
                Some(Step::Name { id, name })
            }
            Step::Push { id, block } => {
                let file = self.files.get_mut(&id)?;
                file.nodes.push(Node { block, keys: BTreeSet::new() });
                Some(Step::Pop { id })
            }
            Step::Pop { id } => {
                let node = self.files.get_mut(&id)?.nodes.pop()?;
                Some(Step::Push { id, block: node.block })
            }
            Step::Insert { id, file } => {
                self.names.insert(file.name.clone(), id);
                self.files.insert(id, *file);
                Some(Step::Remove { id })
            }
            Step::Remove { id } => {
                let file = self.files.remove(&id)?;
                if self.names.get(&file.name) == Some(&id) {
                    self.names.remove(&file.name);
                }
                Some(Step::Insert { id, file: Box::new(file) })
            }
            Step::Slot { list, slot, head } => {
                let place = self.lists.get_mut(list)?.slots.get_mut(slot)?;
                let old = core::mem::replace(place, head);
                if head == 0 {
                    self.free_slots.insert((list, slot));
                } else {
                    self.free_slots.remove(&(list, slot));
                }
                Some(Step::Slot { list, slot, head: old })
            }
            Step::PushList { block } => {
                let slots = vec![0; self.layout.slots()];
                let list = self.lists.len();
                self.free_slots.extend((0..slots.len()).map(|slot| (list, slot)));
                self.lists.push(List { block, slots });
                Some(Step::PopList)
            }
            Step::PopList => {
                let list = self.lists.pop()?;
                let at = self.lists.len();
                self.free_slots.retain(|(list, _)| *list != at);
                Some(Step::PushList { block: list.block })
            }
        }
    }

    /// The bytes of a block of the list.
    pub(super) fn list_image(&self, at: usize) -> Option<(u64, Vec<u8>)> {
        let list = self.lists.get(at)?;
        let next = at.checked_add(1).and_then(|next| self.lists.get(next));
        Some((list.block, self.layout.list(list.block, next.map(|next| next.block), &list.slots)))
    }

    /// Everything is durable: other files may have what was freed.
    pub(super) fn is_durable(&mut self) {
        self.loose.clear();
        for (first, count) in self.waiting.drain(..) {
            self.free.give(first, count);
            self.untrimmed.join(first, count);
        }
    }
}
