//! Both doors of a journal of any size, as one: what the large machine asks of either.

use core::ops::Range;

use journal_core::Durability::{Deferred, Durable};
use journal_core::policy::{Change, Kind, Span, Update};
use journal_core::units::LaneNumber;
use journal_core::{BlockNumber, CommitError, Geometry, Operation, PortableKernels};
use nvm_journal::{AnyPolicy, Buffers, Options};
use sim_disk::{Mutator, SimDisk, SimPmem, World};

use crate::ledger::Cell;

/// What becomes of a block.
#[derive(Debug)]
pub(crate) struct Edit {
    pub(crate) block: usize,
    pub(crate) old: Cell,
    /// `None` where it is given up.
    pub(crate) new: Cell,
    /// Where the two differ, where that is said.
    pub(crate) range: Option<Range<usize>>,
    /// Whether it is not live.
    pub(crate) appends: bool,
}

/// An open journal.
pub(crate) trait Door {
    /// Whether it is acknowledged as durable, with all before it.
    fn commit(&mut self, edits: &[Edit], deferred: bool) -> Result<bool, String>;
    fn sync(&mut self) -> Result<(), String>;
    fn checkpoint(&mut self) -> Result<(), String>;
    /// Makes room in one of several ways, as far as the door has them.
    fn tidy(&mut self, way: u8) -> Result<(), String>;
    /// Whether every slot is free or held, as far as the door can tell.
    fn audit(&mut self) -> Result<(), String>;
    fn read(&mut self, block: usize, into: &mut [u8]) -> Result<(), String>;
}

/// Frames that the index has room for.
const FRAMES: usize = 4096;
/// Blocks of a checkpoint's batch.
const BATCH: usize = 32;

/// Opens a journal through one of its doors, for some calls.
pub(crate) fn enter<R>(
    world: &World,
    front: bool,
    policy: AnyPolicy,
    geometry: &Geometry,
    mutator: Mutator,
    then: impl FnOnce(&mut dyn Door) -> Result<R, String>,
) -> Result<R, String> {
    let (pmem, disk) = (world.pmem(), world.disk(0));
    if front {
        let options = Options::new().policy(policy).hook(mutator);
        let options = options.index_frames(FRAMES).batch_blocks(BATCH).cache_bytes(1 << 18);
        let opened = Front::open(pmem, disk, &options);
        return then(&mut opened.map_err(|error| format!("open: {error}"))?);
    }
    let mut buffers = Buffers::new(geometry, FRAMES, BATCH);
    let opened = Owned::open(pmem, disk, policy, mutator, PortableKernels, buffers.borrow());
    then(&mut opened.map_err(|error| format!("open: {error}"))?)
}

type Front = nvm_journal::Journal<AnyPolicy, SimPmem, SimDisk, Mutator>;
type Owned<'m> = journal_core::Journal<'m, SimPmem, SimDisk, AnyPolicy, Mutator, PortableKernels>;

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

/// What a transaction of these edits is.
fn operations<'a>(edits: &'a [Edit], spans: &'a [Span]) -> Vec<Operation<'a>> {
    let operations = edits.iter().zip(spans.chunks(1)).map(|(edit, ranges)| {
        let Some(image) = &edit.new else { return Operation::Discard(at(edit.block)) };
        let change = match edit.range {
            None => Change::Image(image),
            Some(_) => Change::Ranges { image, ranges },
        };
        let mut update = Update::new(at(edit.block), change);
        if edit.appends {
            update.kind = Kind::Append;
        }
        update.old = edit.old.as_deref();
        Operation::Update(update)
    });
    operations.collect()
}

impl Door for Owned<'_> {
    fn commit(&mut self, edits: &[Edit], deferred: bool) -> Result<bool, String> {
        let span = |edit: &Edit| {
            let range = edit.range.clone().unwrap_or(0..0);
            Span { at: range.start as u32, len: range.len() as u32 }
        };
        let spans: Vec<Span> = edits.iter().map(span).collect();
        let operations = operations(edits, &spans);
        let durability = if deferred { Deferred } else { Durable };
        let lane = LaneNumber(edits[0].block as u16 % self.geometry().lanes);
        let mut result = Self::commit(self, lane, &operations, durability);
        if let Err(CommitError::NoSpace { .. } | CommitError::IndexFull { .. }) = result {
            Door::checkpoint(self)?;
            result = Self::commit(self, lane, &operations, durability);
        }
        match result {
            Ok(_) => Ok(!deferred),
            Err(CommitError::Unchanged) => Ok(false),
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
