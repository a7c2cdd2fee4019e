//! The front door: a journal that many threads use at once, with memory of its own.

use core::fmt;
use core::future::Future;
use core::ops::ControlFlow;
use core::task::Poll;
use core::time::Duration;
use std::sync::Arc;

use crossbeam_utils::CachePadded;
use full_block::FullBlock;
use journal_core::parts::{EntryAddresses, Found, OpenMemory, Opened};
use journal_core::policy::Policy;
use journal_core::{
    BlockDevice, BlockNumber, CheckpointReport, Committed, Geometry, Hook, LaneMemory, Needs,
    PmemShare, PmemSplit, Recovery, Rule, SlotState,
};
use pmem_sys::{FarFence, NativeKernels, StoreLock};

use crate::any_policy::AnyPolicy;
use crate::engine::scan::scan;
use crate::engine::snapshot::Snapshot;
use crate::engine::upkeep::checkpoint::Checkpointer;
use crate::error::Error;
use crate::machine::{Machine, Native, On};
use crate::options::{Options, Plan};
use crate::shared::cache::Pins;
use crate::shared::cache::clean::CleanSlots;
use crate::shared::cache::last_use::LastUse;
use crate::shared::failure::Failure;
use crate::shared::gathering::Gathering;
use crate::shared::home_cell::appends::Appends;
use crate::shared::home_cell::one_sync::OneSync;
use crate::shared::home_cell::{InTurn, UpkeepCell, stored_of};
use crate::shared::index_memory::IndexParts;
use crate::shared::lane_cell::LaneCell;
use crate::shared::lending::Unshared;
use crate::shared::levels::Levels;
use crate::shared::notes::Notes;
use crate::shared::share::Share;
use crate::shared::snapshots::Snapshots;
use crate::shared::{Done, Shared};
use crate::staging::seat::Seats;
use crate::stats::{LaneStats, Stats};
use crate::threads::block_locks::BlockLocks;
use crate::threads::checkpoint_flag::UnderWay;
use crate::threads::sync::{AtomicBool, Mutex, Ordering};
use crate::threads::waiting::Waiting;
use crate::threads::wake::Bell;
use crate::threads::watchers::Told;
use crate::trace;
use crate::transaction::Transaction;

/// The number of locks that blocks share. A small journal has fewer: this many for each frame of
/// its index, since transactions have no more blocks than it has frames.
const STRIPES: usize = if cfg!(any(loom, shuttle)) { 1 << 4 } else { 1 << 14 };
const STRIPES_PER_FRAME: usize = 64;

/// An open journal.
///
/// Threads use it at once through `&Journal`. The crate's first page says
/// [what is durable when](crate#what-is-durable-when).
///
/// After a crash, a transaction that was not acknowledged as durable is there wholly or not at all.
/// It is never there without the transactions whose blocks it read or overwrote. Transactions that
/// have no block in common are independent: if neither was acknowledged, either may be there
/// without the other.
///
/// Dropping a journal is like a crash of the process: what is durable stays. [`close`](Self::close)
/// ends it in good order.
///
/// A program spells only what differs from the defaults. `Journal` logs whole blocks on the
/// [`Native`] machine. `Journal<Lcow>` has another policy, and `Journal<FullBlock, On<P, D>>` has
/// another memory and another disk. [`format`](Self::format) and [`open`](Self::open) infer all
/// types from their arguments.
pub struct Journal<L = FullBlock, M: Machine = Native> {
    /// `None` once it is closed.
    shared: Option<Arc<Shared<L, M>>>,
    checkpointer: Option<Checkpointer>,
    plan: Plan,
    keep_on_close: bool,
}

/// A journal whose policy is chosen at run time: by its name, by its number, or by what the journal
/// [says of itself](Journal::open_any).
///
/// Use it where a type parameter for the policy would go through a whole program, or where the
/// policy is a setting. Each question to the policy then takes one branch. A program that knows
/// its policy names that as a type instead, and pays for nothing.
///
/// ```no_run
/// use nvm_journal::{
///     AnyJournal, AnyPolicy, BlockNumber, Error, FileDisk, Journal, Options, Region,
/// };
///
/// struct Store {
///     journal: AnyJournal,
/// }
///
/// impl Store {
///     fn format(nvm: Region, disk: FileDisk, policy: AnyPolicy) -> Result<Self, Error> {
///         Ok(Self { journal: Journal::format(nvm, disk, &Options::new().policy(policy))? })
///     }
///
///     fn put(&self, number: u64, image: &[u8]) -> Result<(), Error> {
///         self.journal.transact(|tx| tx.write(BlockNumber(number), image))
///     }
/// }
/// ```
pub type AnyJournal<M = Native> = Journal<AnyPolicy, M>;

impl<L, P, D, H> Journal<L, On<P, D, H>>
where
    L: Policy + Clone + Send + Sync + 'static,
    P: PmemSplit + PmemShare + Send + Sync + 'static,
    D: BlockDevice + Clone + Send + 'static,
    H: Hook + Clone + Send + Sync + 'static,
{
    /// Formats `nvm` as an empty journal for `disk`, and opens it. Whatever `nvm` held is lost. The
    /// disk is not touched: its blocks keep their content.
    ///
    /// A crash during the format leaves one of three states:
    ///
    /// - the whole journal that was there before;
    /// - no journal: [`open`](Self::open) then returns an error that [is no
    ///   journal](Error::is_no_journal);
    /// - the new journal.
    ///
    /// # Errors
    /// `Options`, with nothing changed, and the errors of [`open`](Self::open).
    pub fn format(mut nvm: P, disk: D, options: &Options<L, H>) -> Result<Self, Error> {
        let plan = options.plan_on(nvm.len(), &disk)?;
        let (hook, kernels) = (options.hook.clone(), NativeKernels::detect());
        let (id, policy) = (new_id(), &options.policy);
        let blocks = disk.block_count() - plan.geometry.log_blocks();
        journal_core::format(&mut nvm, hook, &kernels, &plan.geometry, id, policy, blocks)?;
        Self::open(nvm, disk, options)
    }

    /// Opens the journal in `nvm`, whatever state a crash has left it in. Never creates one.
    ///
    /// Where there are several lanes of a megabyte or more, several threads scan them.
    ///
    /// # Errors
    /// `Options`. `Open`: for example, there is no journal, it belongs to another policy or device,
    /// or something that was durable is damaged. The medium is untouched then, except after
    /// `Medium` and `Device`. `NoThread`, where the options ask for a thread in the background.
    /// With [`Options::drain_on_open`], those of [`checkpoint`](Self::checkpoint).
    pub fn open(nvm: P, disk: D, options: &Options<L, H>) -> Result<Self, Error> {
        let kernels = NativeKernels::detect();
        let found = Found::load(nvm, options.hook.clone(), &kernels).map_err(Error::from);
        let opened = found.and_then(|found| Self::open_found(found, disk, options));
        opened.inspect_err(|error| trace::refused(*error))
    }

    fn open_found(found: Found<P, H>, disk: D, options: &Options<L, H>) -> Result<Self, Error> {
        // 1. The plan, and the memory that it asks for.
        let kernels = NativeKernels::detect();
        let plan = options.plan_of(*found.geometry())?;
        let geometry = plan.geometry;
        let needs = Needs::of(&geometry, 1);
        let mut of_lanes: Vec<_> = (0..needs.lanes).map(|_| LaneMemory::EMPTY).collect();
        let mut front = vec![0; needs.front_bytes];
        let mut block = vec![0; needs.blocks_bytes];
        let cached = plan.cached_bytes.div_ceil(geometry.block_size.bytes()).div_ceil(plan.shares);
        let (at_once, pins) = (options.settings.index_at_once, options.settings.pins_logged);
        let indexes = IndexParts::indexes(plan.shares, plan.share_frames, at_once);
        let evicts_to_log = options.evicts_to_log(&geometry);
        let stay = match pins && options.hook.keeps(Rule::PinsStay) {
            true if evicts_to_log => Pins::InMemory,
            true => Pins::Framed,
            false => Pins::None,
        };
        let mut shares = Unshared(indexes.map(|index| Share::new(index, cached, stay)).collect());
        let mut states = vec![SlotState::EMPTY; needs.slots];
        let memory = OpenMemory {
            lanes: &mut of_lanes,
            front: &mut front,
            block: &mut block,
            slots: &mut states,
        };
        // 2. The core opens what was found.
        // What writes home has a handle of its own: it is not told of syncs that failed before.
        let disk = OneSync::new(disk);
        let own = disk.clone();
        let tears = !disk.facts().block_atomic(geometry.block_size);
        let seats = Seats::new(disk, geometry);
        let mut policy = options.policy.clone();
        let batch = u32::try_from(options.settings.batch_on(&geometry).0).unwrap_or(u32::MAX);
        policy.set_batches(batch, if tears { geometry.shield_blocks } else { 0 });
        let found = found.resizing(options.settings.resizes);
        let opened = found.open_by(own, policy, kernels, memory, &mut shares, scan)?;
        let Opened { common, home, recovery } = opened;
        shares.leave_room(plan.share_frames);
        // 3. Each part goes behind a lock of its own.
        let lanes = of_lanes.iter_mut().filter_map(LaneMemory::take);
        let mut states = states.chunks((geometry.lane_slots_and_log() as usize).max(1));
        // Where one thread commits, it takes its locks without waiting for the last fence.
        let far = FarFence::register();
        let lanes: Box<[_]> = lanes
            .map(|lane| LaneCell::new(lane, states.next().unwrap_or(&[]).into(), far))
            .map(CachePadded::new)
            .collect();
        let share = |share| CachePadded::new(StoreLock::favouring(share, far));
        let thresholds = options.settings.thresholds.unwrap_or(common.policy.thresholds());
        let pacing = options.settings.pacing.unwrap_or(common.policy.pacing());
        let gathering = Gathering::new(&geometry, pacing, options.settings.buffer_bytes);
        // Where content stays in slots, it is known which was used last.
        let is_noted = geometry.lane_slots > 0 && common.policy.keeps_in_slots();
        let uses = LastUse::of(if is_noted { geometry.slots() as usize } else { 0 });
        let slots = geometry.lane_slots.saturating_mul(geometry.lanes.into());
        let clean = CleanSlots::of(plan.shares, options.settings.clean_slots.min(slots));
        let waiting = Arc::new(Waiting::new(far));
        let watchers = lanes.iter().map(|cell| Arc::clone(&cell.watchers)).collect();
        let notes = Notes::new(home.has_notes());
        let frames_max = shares.0.iter().map(|share| share.index.capacity()).sum();
        let upkeep = UpkeepCell::new(&geometry, options.settings.batch_on(&geometry), frames_max);
        let shared = Arc::new(Shared {
            common,
            entries: shares.0.iter().map(|share| EntryAddresses::of(&share.index)).collect(),
            hook: options.hook.clone(),
            lanes,
            shares: shares.0.into_iter().map(share).collect(),
            blocks: BlockLocks::new(
                plan.shares,
                plan.share_frames.saturating_mul(STRIPES_PER_FRAME).min(STRIPES / plan.shares),
            ),
            seats,
            upkeep: InTurn::new(upkeep, |_| Default::default()),
            home: InTurn::new(home, stored_of),
            appends: Appends::none(),
            done: Mutex::new(Done::default()),
            recovery,
            failure: Failure::none(Arc::clone(&waiting), watchers),
            waiting,
            bell: Bell::new(options.settings.acts_in_commits()),
            uses,
            clean,
            caches: cached > 0,
            keeps_checks: cached > 0 && options.policy.wants_old_check(),
            pins,
            evicts_to_log,
            writes_home: UnderWay::new(),
            heads_pass: AtomicBool::new(false),
            snapshots: Snapshots::none(),
            notes,
            levels: Levels::new(&geometry, thresholds),
            step_blocks: options.settings.step_blocks(&geometry),
            step_nanos: u64::try_from(options.settings.longest_stop.as_nanos()).unwrap_or(u64::MAX),
            whole_after: options.settings.whole_after,
            relogs: options.settings.relogs,
            gathering,
        });
        // 4. The thread in the background begins, and the options may ask for a checkpoint.
        let begins = options.settings.background.then(|| Checkpointer::start(&shared));
        let checkpointer = begins.transpose()?;
        let keep_on_close = options.settings.keep_on_close;
        trace::opened(shared.common.policy.id(), &plan, &shared.recovery);
        let journal = Self { shared: Some(shared), checkpointer, plan, keep_on_close };
        if options.settings.drain_on_open || (pins && !evicts_to_log) {
            journal.checkpoint()?;
        } else if pins {
            journal.shared().move_what_was_found()?;
        }
        Ok(journal)
    }
}

impl<L: Policy, M: Machine> Journal<L, M> {
    pub(crate) fn shared(&self) -> &Shared<L, M> {
        self.shared.as_ref().expect("only close takes it, and that takes the journal")
    }

    /// Begins a transaction. Dropping the transaction aborts it.
    ///
    /// A thread may have several transactions open at once. But while one of them waits for a
    /// block, nothing is done for the others. If the holder of that block waits for a block of one
    /// of the others, one of the two threads gets a `Conflict`. So open one transaction at a time
    /// where other threads want the same blocks. The journal does not see what a thread waits for
    /// in another journal, or by other means than blocks.
    ///
    /// # Errors
    /// `Failed`.
    #[inline]
    pub fn begin(&self) -> Result<Transaction<'_, L, M>, Error> {
        Transaction::begin(self.shared())
    }

    /// Begins a transaction that does not wait for ever. Once its waits have taken `limit`, a call
    /// that would have to wait answers `OutOfTime`: the transaction is as before that call, and can
    /// go on. A limit of zero is for hosts that must not wait at all.
    ///
    /// A call waits for blocks of other transactions, and for room. The limit does not cut short
    /// what is under way, which is a checkpoint in the worst case, nor the fence of a commit.
    ///
    /// # Errors
    /// `Failed`.
    ///
    /// ```no_run
    /// # use nvm_journal::Journal;
    /// # fn example(journal: &Journal, image: &[u8]) -> Result<bool, nvm_journal::Error> {
    /// use core::time::Duration;
    /// use nvm_journal::{BlockNumber, Error};
    ///
    /// let mut transaction = journal.begin_within(Duration::ZERO)?;
    /// match transaction.write(BlockNumber(7), image) {
    ///     Err(Error::OutOfTime | Error::Conflict { .. }) => return Ok(false), // Not now.
    ///     written => written?,
    /// }
    /// transaction.commit()?;
    /// # Ok(true)
    /// # }
    /// ```
    pub fn begin_within(&self, limit: Duration) -> Result<Transaction<'_, L, M>, Error> {
        Transaction::begin_within(self.shared(), limit)
    }

    /// Runs a transaction like [`transact`](Self::transact), which waits no longer than `limit` in
    /// all its tries together.
    ///
    /// # Errors
    /// The errors of [`transact`](Self::transact), and `OutOfTime`: then it is aborted.
    pub fn transact_within<R, E: From<Error>>(
        &self,
        limit: Duration,
        body: impl FnMut(&mut Transaction<'_, L, M>) -> Result<R, E>,
    ) -> Result<R, E> {
        self.begin_within(limit)?.run(body, Transaction::commit)
    }

    /// Runs a transaction and commits it durably. When another transaction is in the way, this one
    /// runs again from the beginning, until it gets through.
    ///
    /// # Errors
    /// Errors of `body`, after which the transaction is aborted, and those of the commit.
    /// `Conflict` is returned only in these cases:
    ///
    /// - This thread itself holds the block, in another transaction.
    /// - The holder of the block waits for a block that this thread holds.
    /// - This thread has another transaction open, and for a while there is no room for this one
    ///   beside it.
    ///
    /// ```no_run
    /// # fn example(journal: &nvm_journal::Journal) -> Result<(), nvm_journal::Error> {
    /// use nvm_journal::{BlockNumber, Error};
    ///
    /// // Moves one from a counter to another, whatever other threads do.
    /// journal.transact(|tx| {
    ///     for (block, step) in [(BlockNumber(1), -1), (BlockNumber(2), 1)] {
    ///         let mut counter = [0; 8];
    ///         tx.read_at(block, 0, &mut counter)?;
    ///         let counter = i64::from_le_bytes(counter) + step;
    ///         tx.write_at(block, 0, &counter.to_le_bytes())?;
    ///     }
    ///     Ok::<_, Error>(())
    /// })
    /// # }
    /// ```
    pub fn transact<R, E: From<Error>>(
        &self,
        body: impl FnMut(&mut Transaction<'_, L, M>) -> Result<R, E>,
    ) -> Result<R, E> {
        self.begin()?.run(body, Transaction::commit)
    }

    /// Like [`transact`](Self::transact), but commits deferred: see
    /// [`Transaction::commit_deferred`]. It saves a fence only where little is stored.
    ///
    /// # Errors
    /// The errors of [`transact`](Self::transact).
    pub fn transact_deferred<R, E: From<Error>>(
        &self,
        body: impl FnMut(&mut Transaction<'_, L, M>) -> Result<R, E>,
    ) -> Result<R, E> {
        self.begin()?.run(body, Transaction::commit_deferred)
    }

    /// Like [`transact`](Self::transact), but hands the transaction to the running one: see
    /// [`Transaction::commit_gathered`].
    ///
    /// # Errors
    /// The errors of [`transact`](Self::transact).
    pub fn transact_gathered<R, E: From<Error>>(
        &self,
        body: impl FnMut(&mut Transaction<'_, L, M>) -> Result<R, E>,
    ) -> Result<R, E> {
        self.begin()?.run(body, Transaction::commit_gathered)
    }

    /// Reads a block's newest committed content. A reader also sees what was committed deferred and
    /// is not durable yet. A block that was discarded and not written since may hold anything.
    ///
    /// Two reads may see two states; a caller that needs one state reads in a transaction. Nor is
    /// there one order of what several threads commit and read like this. If two threads each
    /// commit a block and then read the other's block, both may see the state before.
    ///
    /// # Errors
    /// `OutOfDevice`; `OutOfBlock` unless `into` is one block long; `Failed`. `Medium`, `Device`,
    /// `Apply` and `RottenLog`, where the block cannot be read: the journal goes on after these
    /// four.
    pub fn read(&self, block: BlockNumber, into: &mut [u8]) -> Result<(), Error> {
        let shared = self.shared();
        shared.check_request(block, into.len())?;
        shared.read(shared.seats.sit().for_reading(), block, into).map(drop)
    }

    /// Reads neighbouring blocks from `first` on, each like [`read`](Self::read). Of blocks that
    /// are home many are read in one call of the disk.
    ///
    /// # Errors
    /// The errors of [`read`](Self::read), and `OutOfBlock` unless `into` is some whole blocks.
    pub fn read_run(&self, first: BlockNumber, into: &mut [u8]) -> Result<(), Error> {
        let shared = self.shared();
        let (bytes, block_bytes) = (into.len(), self.plan.geometry.block_size.bytes());
        if bytes == 0 || bytes % block_bytes != 0 {
            return Err(Error::OutOfBlock { block: first, at: 0, bytes });
        }
        let last = first.raw().checked_add((bytes / block_bytes) as u64 - 1);
        let last = last.map(BlockNumber).ok_or(Error::OutOfDevice { block: first })?;
        shared.check_range(last, 0, 0)?;
        shared.read_run(shared.seats.sit().for_reading(), first, into)
    }

    /// Reads bytes of a block, like [`read`](Self::read). Where the block
    /// [is kept](Options::cache_bytes), only these bytes are copied.
    ///
    /// # Errors
    /// The errors of [`read`](Self::read), and `OutOfBlock` when the bytes do not lie in the block.
    pub fn read_at(&self, block: BlockNumber, at: usize, into: &mut [u8]) -> Result<(), Error> {
        let shared = self.shared();
        shared.check_range(block, at, into.len())?;
        if shared.read_kept(block, at, into)? {
            return Ok(());
        }
        let mut seat = shared.seats.sit();
        let (reading, image) = seat.for_reading_spare();
        shared.read(reading, block, image)?;
        pmem_sys::copy_block(into, &image[at..][..into.len()]);
        Ok(())
    }

    /// Makes a snapshot: what is committed by now can be read while writers go on. It ends when
    /// blocks have to go home for their room, and by a checkpoint. A checkpoint that is under way
    /// ends first.
    ///
    /// # Errors
    /// `Failed`, and those of [`sync`](Self::sync) for what is gathered.
    pub fn snapshot(&self) -> Result<Snapshot<'_, L, M>, Error> {
        Snapshot::open(self.shared())
    }

    /// Makes every transaction durable that was committed before the call.
    ///
    /// # Errors
    /// `Failed`, and `Medium`: the journal has failed then. It has also failed when the running
    /// transaction cannot be committed: `Device`, `CannotPlace`.
    pub fn sync(&self) -> Result<(), Error> {
        self.shared().check_not_failed()?;
        self.shared().commit_batch()?;
        self.shared().make_deferred_durable(None)
    }

    /// Whether what was [committed](Committed) since the journal was opened is durable by now. A
    /// deferred transaction becomes durable with the next durable one of its lane, or with one in
    /// another lane that builds on it. A [`sync`](Self::sync) or a checkpoint makes it durable too.
    /// Asking costs one load, and makes nothing durable.
    ///
    /// ```no_run
    /// # use nvm_journal::{BlockNumber, Error, Journal};
    /// # fn example(journal: &Journal, image: &[u8]) -> Result<(), Error> {
    /// let mut transaction = journal.begin()?;
    /// transaction.write(BlockNumber(7), image)?;
    /// if let Some(committed) = transaction.commit_deferred()? {
    ///     // Later, before anybody is told:
    ///     if !journal.is_durable(&committed) {
    ///         journal.sync()?;
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn is_durable(&self, committed: &Committed) -> bool {
        let lane = self.shared().lanes.get(usize::from(committed.lane.raw()));
        lane.is_some_and(|lane| lane.reach.is_durable(committed.sequence))
    }

    /// Calls `tell` once: with `Ok` when what was committed is durable, and with `Failed` when it
    /// cannot become durable any more, since the journal has failed or is gone. If it is durable
    /// already, the call comes before this one returns.
    ///
    /// Nothing is made durable for it; [`is_durable`](Self::is_durable) says what does that. `tell`
    /// runs in the thread that does, in the middle of a call of the journal. So it should do no
    /// more than pass the news on. If it calls the journal it may wait for itself.
    ///
    /// # Errors
    /// `Failed`: then `tell` was called with that.
    pub fn when_durable(
        &self,
        committed: &Committed,
        tell: impl FnOnce(Result<(), Error>) + Send + 'static,
    ) -> Result<(), Error> {
        let tell = |is_durable| tell(if is_durable { Ok(()) } else { Err(Error::Failed) });
        self.shared().tell_when_durable(committed, Box::new(tell))
    }

    /// A future of what [`when_durable`](Self::when_durable) tells. It works with any executor, and
    /// holds nothing of the journal.
    ///
    /// ```no_run
    /// # async fn example(journal: &nvm_journal::Journal) -> Result<(), nvm_journal::Error> {
    /// # use nvm_journal::BlockNumber;
    /// let mut transaction = journal.begin()?;
    /// transaction.write_at(BlockNumber(7), 0, b"soon")?;
    /// if let Some(committed) = transaction.commit_deferred()? {
    ///     journal.durable(&committed).await?; // Another task calls `sync` now and then.
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn durable(
        &self,
        committed: &Committed,
    ) -> impl Future<Output = Result<(), Error>> + Send + use<L, M> {
        let told = Told::new();
        let its = Arc::clone(&told);
        // Where it fails, the future is told.
        let _ = self
            .shared()
            .tell_when_durable(committed, Box::new(move |is_durable| its.tell(is_durable)));
        core::future::poll_fn(move |context| match told.poll(context.waker()) {
            Some(true) => Poll::Ready(Ok(())),
            Some(false) => Poll::Ready(Err(Error::Failed)),
            None => Poll::Pending,
        })
    }

    /// Why the journal refuses to go on, if it does. This is the first error that made it fail,
    /// whichever call got it. It is [`Error::Failed`] where a thread has panicked inside. For a
    /// moment after a failure, before the cause is stored, it is also `Failed`.
    ///
    /// Every other call learns only that the journal has failed. No call gets the error of a
    /// failure in the background.
    #[must_use]
    pub fn failure(&self) -> Option<Error> {
        self.shared().failure.cause()
    }

    /// Writes everything home that was committed before the call, and removes it from the lanes.
    /// Other threads commit meanwhile. Where appends of theirs are on their way when all else is
    /// home, it waits for these. Where they change discarded blocks, the discards, and what lies
    /// behind them in their lanes, may stay until the next checkpoint.
    ///
    /// Blocks that cannot be read are left out, and counted in the report. These blocks, and what
    /// lies behind them in their lanes, stay in the journal until they are written anew, whole, or
    /// discarded. [`unreadable`](Self::unreadable) lists them.
    ///
    /// # Errors
    /// `Failed`, `Medium` and `Device`: the journal has failed then, and the lanes still hold
    /// everything. `NoShield`, where a block needs a shield and there is none: that block stays,
    /// and all others are home. For what is gathered, those of [`sync`](Self::sync).
    pub fn checkpoint(&self) -> Result<CheckpointReport, Error> {
        self.shared().commit_batch()?;
        self.shared().checkpoint()
    }

    /// A [`checkpoint`](Self::checkpoint), with its errors, that calls `each` behind each batch:
    /// with what was done, and how many blocks may be left. `each` says whether to go on, and calls
    /// no journal. What has gone home counts either way. If `each` panics, the journal has failed.
    pub fn checkpoint_steps(
        &self,
        mut each: impl FnMut(&CheckpointReport, u64) -> ControlFlow<()>,
    ) -> Result<CheckpointReport, Error> {
        self.shared().commit_batch()?;
        self.shared().checkpoint_each(&mut each, false)
    }

    /// Empties the rings: writes home what lies in no slot, and in no block of the disk-side log.
    /// What lies there stays, and the journal goes on finding it there. Where there is a disk-side
    /// log, changes are moved to new places of it first, as long as it has some.
    ///
    /// A policy that [keeps content in slots](Policy::keeps_in_slots) needs no more than this.
    /// Under a policy without slots and log it is a [`checkpoint`](Self::checkpoint).
    ///
    /// # Errors
    /// The errors of [`checkpoint`](Self::checkpoint).
    pub fn checkpoint_rings(&self) -> Result<CheckpointReport, Error> {
        self.shared().commit_batch()?;
        self.shared().checkpoint_rings()
    }

    /// Ends the journal: everything committed is durable, and goes home unless
    /// [`Options::keep_on_close`] says otherwise.
    ///
    /// # Errors
    /// The errors of [`checkpoint`](Self::checkpoint), and `Unreadable` where a block cannot be
    /// read: all others are home. The journal value is gone either way. What was durable is not
    /// lost: the next open finds it.
    pub fn close(mut self) -> Result<(), Error> {
        self.stop_checkpointer();
        self.shared().commit_batch()?;
        let mut is_home = true;
        if !self.keep_on_close {
            is_home = self.checkpoint()?.unreadable == 0;
        }
        self.shared().close()?;
        trace::closed(is_home && !self.keep_on_close);
        let left = self.unreadable()?.first().copied().filter(|_| !is_home);
        left.map_or(Ok(()), |block| Err(Error::Unreadable { block }))
    }

    /// Blocks of the store: those of the disk, without the disk-side log behind them.
    #[must_use]
    pub fn block_count(&self) -> u64 {
        self.shared().common.device_blocks
    }

    /// The layout that the journal was formatted with.
    #[must_use]
    pub const fn geometry(&self) -> &Geometry {
        &self.plan.geometry
    }

    /// The layout, and what the journal takes at worst.
    #[must_use]
    pub const fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The policy that decides how updates are logged.
    #[must_use]
    pub fn policy(&self) -> &L {
        &self.shared().common.policy
    }

    /// What recovery found when the journal was opened.
    #[must_use]
    pub fn recovery(&self) -> &Recovery {
        &self.shared().recovery
    }

    /// What the journal has done so far, also after a failed fence, write or sync. The call locks
    /// every lane for a moment, and every share of the index: in a loop, call
    /// [`totals`](Self::totals). What a
    /// checkpoint stores is counted at the end of each of its steps.
    ///
    /// # Errors
    /// `Failed`, after a panic inside.
    pub fn stats(&self) -> Result<Stats, Error> {
        let shared = self.shared();
        let Geometry { lane_bytes, lane_slots, lane_log_blocks, .. } = self.plan.geometry;
        let mut stats = Stats { lane_bytes, lane_slots, lane_log_blocks, ..Stats::default() };
        for cell in &shared.lanes {
            let state = shared.lock_lane(cell)?;
            let used_bytes = state.lane.capacity_bytes() - state.lane.free_bytes();
            let free_slots = state.lane.free_slots();
            let free_log_blocks = state.lane.free_log_blocks();
            let ring_wear = state.lane.ring_wear(state.opened_at);
            let [entry_wear, slot_wear] = state.lane.slot_wear();
            let now = LaneStats { used_bytes, free_slots, free_log_blocks, ..state.stats };
            let now = LaneStats { ring_wear, entry_wear, slot_wear, ..now };
            stats.lanes.push(now);
            let (records, slots) =
                (state.lane.stored_records(state.opened_at), state.lane.stored_slots());
            stats.record_bytes += records.bytes;
            stats.record_lines += records.lines;
            stats.slot_bytes += slots.bytes;
            stats.slot_lines += slots.lines;
        }
        let [shield_bytes, shield_lines, superblock_bytes, superblock_lines, shield_wear @ ..] =
            shared.home.stored();
        stats.shield_wear = shield_wear;
        (stats.shield_bytes, stats.shield_lines) = (shield_bytes, shield_lines);
        (stats.superblock_bytes, stats.superblock_lines) = (superblock_bytes, superblock_lines);
        for share in &shared.shares {
            let share = share.lock().map_err(|_| Error::Failed)?;
            stats.frames += share.index.frames();
            stats.blocks += share.index.blocks();
            if let Some(cache) = &share.cache {
                stats.cached.blocks += cache.blocks();
                stats.cached.pinned += match shared.evicts_to_log {
                    true => share.in_memory(),
                    false if shared.pins => share.index.blocks(),
                    false => 0,
                };
                stats.cached.hits += cache.asked.hits;
                stats.cached.misses += cache.asked.misses;
            }
        }
        if let Some(clean) = &shared.clean {
            (stats.cached.in_slots, stats.cached.slot_hits) = clean.counts();
        }
        let Done { checkpoints, checkpointed, folded, moved, copied, checkpointing, stops } =
            shared.done();
        stats.copied = copied;
        stats.moved = moved;
        (stats.snapshots, stats.snapshots_ended) = shared.snapshots.counts();
        (stats.checkpoints, stats.checkpointed, stats.folded) = (checkpoints, checkpointed, folded);
        stats.checkpointing = checkpointing;
        stats.stops_for_bytes = stops.for_bytes;
        stats.stops_for_frames = stops.for_frames;
        stats.stops_for_slots = stops.for_slots;
        stats.stops_in_commits = stops.in_commits;
        stats.stops_for_home = stops.for_home;
        stats.longest_stop_for_bytes = stops.longest[0];
        stats.longest_stop_for_frames = stops.longest[1];
        stats.longest_stop_for_slots = stops.longest[2];
        stats.longest_stop_in_commits = stops.longest[3];
        stats.longest_stop_for_home = stops.longest[4];
        stats.stops_for_moved = stops.for_moved;
        stats.longest_stop_for_moved = stops.longest[5];
        stats.stopped = stops.time;
        stats.longest_stop = stops.longest.into_iter().max().unwrap_or_default();
        stats.gathered = shared.gathering.stats();
        stats.waiting_for_room = shared.waiting.waiters_for_room();
        Ok(stats)
    }
}

impl<P, D, H> AnyJournal<On<P, D, H>>
where
    P: PmemSplit + PmemShare + Send + Sync + 'static,
    D: BlockDevice + Clone + Send + 'static,
    H: Hook + Clone + Send + Sync + 'static,
{
    /// Opens the journal in `nvm` with the policy that it was formatted with. This is for tools
    /// that take any journal. If the policy in `options` is that one, its settings are used;
    /// otherwise the policy's defaults are.
    ///
    /// # Errors
    /// `UnknownPolicy` where this crate does not have the policy; and those of
    /// [`open`](Self::open).
    ///
    /// ```no_run
    /// # fn example(nvm: nvm_journal::Region, disk: nvm_journal::FileDisk)
    /// # -> Result<(), nvm_journal::Error> {
    /// use nvm_journal::{Journal, Options};
    ///
    /// let journal = Journal::open_any(nvm, disk, &Options::new())?;
    /// assert_eq!(journal.policy().name(), "lcow");
    /// # Ok(())
    /// # }
    /// ```
    pub fn open_any<L: Into<AnyPolicy> + Clone>(
        nvm: P,
        disk: D,
        options: &Options<L, H>,
    ) -> Result<Self, Error> {
        let kernels = NativeKernels::detect();
        let found = Found::load(nvm, options.hook.clone(), &kernels)
            .inspect_err(|error| trace::refused(Error::from(*error)))?;
        let (given, id): (AnyPolicy, _) = (options.policy.clone().into(), found.policy());
        let policy = if given.id() == id { Some(given) } else { AnyPolicy::by_id(id) };
        let policy = policy.ok_or(Error::UnknownPolicy { id });
        let opened =
            policy.and_then(|policy| Self::open_found(found, disk, &options.with_policy(policy)));
        opened.inspect_err(|error| trace::refused(*error))
    }
}

impl<L, M: Machine> Journal<L, M> {
    fn stop_checkpointer(&mut self) {
        if let Some(Checkpointer { thread, stop }) = self.checkpointer.take() {
            stop.store(true, Ordering::Release);
            thread.thread().unpark();
            // A panic there has made the journal fail; there is nothing to add.
            let _ = thread.join();
        }
    }
}

/// Shows the layout, and whether the journal goes on. The contents belong to its users.
impl<L, M: Machine> fmt::Debug for Journal<L, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Journal");
        if let Some(shared) = &self.shared {
            out.field("failure", &shared.failure.cause());
        }
        out.field("plan", &self.plan).finish_non_exhaustive()
    }
}

impl<L, M: Machine> Drop for Journal<L, M> {
    fn drop(&mut self) {
        self.stop_checkpointer();
    }
}

/// An id that no other journal has, so that recovery never takes records of an earlier journal in
/// the same span for this journal's.
fn new_id() -> [u8; 16] {
    use core::hash::BuildHasher as _;
    use std::hash::RandomState;
    let mut id = [0; 16];
    for half in id.chunks_exact_mut(8) {
        half.copy_from_slice(&RandomState::new().hash_one(std::process::id()).to_le_bytes());
    }
    id
}
