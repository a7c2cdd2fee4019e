//! The two doors of a journal of any size, as one: what the large machine asks of either.

use core::ops::Range;
use core::slice::from_ref;

use journal_core::Durability::{Deferred, Durable};
use journal_core::policy::{Change, Kind, Patch, Span, Update};
use journal_core::units::LaneNumber;
use journal_core::{
    BlockNumber, Buffers, CommitError, Geometry, On, OpenError, Operation, PortableKernels,
};
use lab::erased::{DynJournal, any_options, of_world};
use nvm_journal::AnyPolicy;
use sim_disk::{Mutator, SimDisk, SimPmem, World};

use crate::ledger::Cell;

/// What becomes of a block.
#[derive(Debug)]
pub(crate) struct Edit {
    pub(crate) block: usize,
    pub(crate) old: Cell,
    /// `None` where it is discarded.
    pub(crate) new: Cell,
    /// Where the two differ, where that is said.
    pub(crate) range: Option<Range<usize>>,
    /// Whether an owner of the core says no more of it than that, where the policy takes that.
    pub(crate) alone: bool,
    /// Whether it is not live.
    pub(crate) appends: bool,
}

/// An open journal.
pub(crate) trait Door {
    /// Whether it is acknowledged as durable, with all before it.
    fn commit(&mut self, edits: &[Edit], deferred: bool) -> Result<bool, String>;
    /// Commits as `commit` does, or returns `None` after it made room. The caller then makes the
    /// edits again, from what is there.
    fn try_commit(&mut self, edits: &[Edit], deferred: bool) -> Result<Option<bool>, String> {
        self.commit(edits, deferred).map(Some)
    }
    fn sync(&mut self) -> Result<(), String>;
    fn checkpoint(&mut self) -> Result<(), String>;
    /// Makes room in one of several ways, as far as the door has them.
    fn tidy(&mut self, way: u8) -> Result<(), String>;
    /// Whether every slot is free or held, as far as the door can tell.
    fn audit(&mut self) -> Result<(), String>;
    fn read(&mut self, block: usize, into: &mut [u8]) -> Result<(), String>;
}

/// What a process opens a journal with, none of which is on the medium.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Given {
    /// Through the front door; else as the owner of the core.
    pub(crate) front: bool,
    /// Frames that the index has room for.
    pub(crate) frames: usize,
    /// Blocks of a checkpoint's batch.
    pub(crate) batch_blocks: usize,
    pub(crate) cache_bytes: usize,
}

impl Given {
    /// More than enough of everything.
    pub(crate) const PLENTY: Self =
        Self { front: false, frames: 4096, batch_blocks: 32, cache_bytes: 1 << 18 };
}

/// Opens a journal through one of its doors, for some calls. An owner of the core that is told that
/// its frames do not do takes as many as will.
pub(crate) fn enter<R>(
    world: &World,
    given: Given,
    policy: AnyPolicy,
    geometry: &Geometry,
    mutator: Mutator,
    then: impl FnOnce(&mut dyn Door) -> Result<R, String>,
) -> Result<R, String> {
    let Given { front, mut frames, batch_blocks, cache_bytes } = given;
    if front {
        let (pmem, disk) = of_world(world);
        let options = any_options(policy, mutator).index_frames(frames);
        let options = options.batch_blocks(batch_blocks).cache_bytes(cache_bytes);
        let opened = Front::open(pmem, disk, &options);
        return then(&mut opened.map_err(|error| format!("open: {error}"))?);
    }
    loop {
        let (pmem, disk) = (world.pmem(), world.disk(0));
        let mut buffers = Buffers::new(geometry, frames, batch_blocks);
        let (hook, memory) = (mutator.clone(), buffers.borrow());
        match Owned::open(pmem, disk, policy, hook, PortableKernels, memory) {
            Err(OpenError::IndexFull { frames_needed }) if frames_needed > frames => {
                frames = frames_needed;
            }
            opened => return then(&mut opened.map_err(|error| format!("open: {error}"))?),
        }
    }
}

type Front = DynJournal;
type Owned<'m> = journal_core::Journal<'m, AnyPolicy, On<SimPmem, SimDisk, Mutator>>;

fn at(block: usize) -> BlockNumber {
    BlockNumber(block as u64)
}

impl Door for Front {
    fn commit(&mut self, edits: &[Edit], deferred: bool) -> Result<bool, String> {
        let mut transaction = self.begin().map_err(|error| error.to_string())?;
        for Edit { block, new, range, appends, .. } in edits {
            let block = at(*block);
            match (new, range) {
                (None, _) => transaction.discard(block),
                (Some(new), _) if *appends => transaction.append(block, new),
                (Some(new), None) => transaction.write(block, new),
                (Some(new), Some(range)) => {
                    transaction.write_at(block, range.start, &new[range.clone()])
                }
            }
            .map_err(|error| format!("{block}: {error}"))?;
        }
        let committed = if deferred { transaction.commit_deferred() } else { transaction.commit() };
        committed.map(|_| !deferred).map_err(|error| error.to_string())
    }

    fn sync(&mut self) -> Result<(), String> {
        Self::sync(self).map_err(|error| error.to_string())
    }

    fn checkpoint(&mut self) -> Result<(), String> {
        let checkpointed = Self::checkpoint(self).map_err(|error| error.to_string())?;
        if checkpointed.unreadable == 0 { Ok(()) } else { Err(format!("{checkpointed:?}")) }
    }

    fn tidy(&mut self, _way: u8) -> Result<(), String> {
        // It does so by itself.
        Ok(())
    }

    fn audit(&mut self) -> Result<(), String> {
        // The owner of the core, whose turn comes, looks.
        Ok(())
    }

    fn read(&mut self, block: usize, into: &mut [u8]) -> Result<(), String> {
        Self::read(self, at(block), into).map_err(|error| format!("block {block}: {error}"))
    }
}

/// What a transaction of these edits is, where changed ranges are told with the image or alone.
fn operations<'a>(
    edits: &'a [Edit],
    told: &'a [(Span, Patch<'a>)],
    alone: bool,
) -> Vec<Operation<'a>> {
    let operations = edits.iter().zip(told).map(|(edit, (range, patch))| {
        let Some(image) = &edit.new else { return Operation::Discard(at(edit.block)) };
        let change = match edit.range {
            None => Change::Image(image),
            Some(_) if alone => Change::Patches(from_ref(patch)),
            Some(_) => Change::Ranges { image, ranges: from_ref(range) },
        };
        let mut update = Update::new(at(edit.block), change);
        if edit.appends {
            update.kind = Kind::Append;
        }
        update.old = edit.old.as_deref().filter(|_| !alone);
        Operation::Update(update)
    });
    operations.collect()
}

impl Door for Owned<'_> {
    fn commit(&mut self, edits: &[Edit], deferred: bool) -> Result<bool, String> {
        if let Some(is_durable) = self.try_commit(edits, deferred)? {
            return Ok(is_durable);
        }
        self.try_commit(edits, deferred)?.ok_or_else(|| "a checkpoint makes no room".into())
    }

    fn try_commit(&mut self, edits: &[Edit], deferred: bool) -> Result<Option<bool>, String> {
        let told = |edit: &Edit| {
            let range = edit.range.clone().unwrap_or(0..0);
            let (at, len) = (range.start as u32, range.len() as u32);
            (Span { at, len }, range)
        };
        let told: Vec<_> = edits.iter().map(told).collect();
        let told = edits.iter().zip(&told).map(|(edit, (span, range))| {
            let bytes = edit.new.as_ref().map_or(&[][..], |new| &new[range.clone()]);
            (*span, Patch { at: span.at, bytes })
        });
        let told: Vec<_> = told.collect();
        let durability = if deferred { Deferred } else { Durable };
        let lane = LaneNumber(edits[0].block as u16 % self.geometry().lanes);
        let alone = edits.iter().any(|edit| edit.alone);
        let mut result = Self::commit(self, lane, &operations(edits, &told, alone), durability);
        if let (Err(CommitError::CannotPlace { .. }), true) = (&result, alone) {
            result = Self::commit(self, lane, &operations(edits, &told, false), durability);
        }
        match result {
            Err(CommitError::NoSpace { .. } | CommitError::IndexFull { .. }) => {
                Door::checkpoint(self).map(|()| None)
            }
            Ok(_) => Ok(Some(!deferred)),
            Err(CommitError::Unchanged) => Ok(Some(false)),
            Err(error) => Err(error.to_string()),
        }
    }

    fn sync(&mut self) -> Result<(), String> {
        Self::sync(self).map_err(|error| error.to_string())
    }

    fn checkpoint(&mut self) -> Result<(), String> {
        let checkpointed = Self::checkpoint(self).map_err(|error| error.to_string())?;
        if checkpointed.unreadable == 0 { Ok(()) } else { Err(format!("{checkpointed:?}")) }
    }

    fn tidy(&mut self, way: u8) -> Result<(), String> {
        let lane = LaneNumber(0);
        let tidied = match way {
            0 => self.relog(lane).map(drop),
            1 => self.fold().map(drop),
            2 => self.collect_garbage().map(drop),
            3 => self.checkpoint_rings().map(drop),
            4 => self.evict().map(drop),
            5 => self.clean_log().map(drop),
            6 => self.move_to_log(lane).map(drop),
            _ => unreachable!("there are seven"),
        };
        tidied.map_err(|error| error.to_string())
    }

    fn audit(&mut self) -> Result<(), String> {
        Self::audit(self).map_err(|error| error.to_string())
    }

    fn read(&mut self, block: usize, into: &mut [u8]) -> Result<(), String> {
        Self::read(self, at(block), into).map_err(|error| format!("block {block}: {error}"))
    }
}
