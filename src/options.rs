//! How a journal is laid out and run.

use core::time::Duration;

use full_block::FullBlock;
use journal_core::parts::RUN_BLOCKS;
use journal_core::policy::{Pacing, Policy, Thresholds};
use journal_core::slot::SlotEntry;
use journal_core::{
    Batched, BlockDevice, BlockSize, Entry, Geometry, GeometryError, LINE_BYTES, Needs, NoHook,
    Node, Protocol, SlotState,
};

use self::error::OptionsError;

pub(crate) mod error;

/// Lanes, where the caller does not say how many.
const LANES: u16 = 4;
/// The fewest blocks that a lane has, where the caller does not say how many lanes.
const LANE_BLOCKS_MIN: u64 = 64;
/// The most shares of the index; a power of two. Each share is two cache lines. The more shares
/// there are, the less often their lines are in the near caches.
pub(crate) const SHARES_MAX: usize = 128;
/// The fraction of the span that goes to slots where a policy wants some, in 256ths.
const SLOT_FRACTION: u8 = 192;
/// Blocks of the disk-side log, where a policy wants one: as many as the journals on a disk have
/// that it replaces, which are some 128 MiB long.
const LOG_BLOCKS: u64 = 1 << 15;
/// Segments of a lane in it, at least.
const LOG_SEGMENTS: u64 = 16;
/// What part of the span their entries take at most.
const LOG_PART: u64 = 16;
/// What part of the disk the log takes at most, where the caller does not say how large it is.
const LOG_DISK_PART: u64 = 4;
/// Bytes of the cache, for policies that read what they overwrite.
const CACHE_BYTES: usize = 16 << 20;

/// Blocks of one batch of a checkpoint, and of one write, by default.
const BATCH_BLOCKS: usize = 256;

/// The part of the span that the shield takes.
const SHIELD_PART: u64 = 32;
/// Runs of neighbours that each share of the cache has room for at least, if there are several
/// shares.
const CACHED_RUNS: usize = 4;
/// How often opening a journal reads each slot's entry.
const ENTRY_READS: u64 = 4;
/// The number of frames that take the place of a whole block in the lanes, for a policy with
/// smaller frames.
const SMALL_FRAMES: u64 = 4;
/// Standard deviations above the mean that a share has room for, beside a quarter of the mean.
/// Without any, one of four transactions found a share full. (They held runs that are anywhere, and
/// were nearly as large as a lane of 8 MiB.)
const SPREAD: usize = 2;
/// Frames that a share has room for at least.
const SHARE_FRAMES_MIN: usize = 32;

/// Settings of a journal: how it is laid out when it is formatted, and how it runs.
///
/// The defaults suit a few threads and blocks of 4 KiB. [`plan`](Self::plan) says what the settings
/// come to on a given span.
#[derive(Clone, Debug)]
pub struct Options<L = FullBlock, H = NoHook> {
    pub(crate) policy: L,
    pub(crate) hook: H,
    pub(crate) settings: Settings,
}

/// The settings that do not depend on policy and hook.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) lanes: Option<u16>,
    pub(crate) lane_bytes: Option<u64>,
    pub(crate) lane_slots: Option<u32>,
    pub(crate) slot_fraction: Option<u8>,
    pub(crate) lane_log_blocks: Option<u32>,
    disk_log: bool,
    pub(crate) segment_blocks: u32,
    pub(crate) shield_blocks: Option<u32>,
    pub(crate) unit_bytes: u32,
    pub(crate) protocol: Protocol,
    pub(crate) index_frames: Option<usize>,
    pub(crate) index_at_once: bool,
    pub(crate) batch_blocks: Option<usize>,
    pub(crate) background: bool,
    pub(crate) buffer_bytes: usize,
    pub(crate) cache_bytes: Option<usize>,
    pub(crate) pins_logged: bool,
    pub(crate) clean_slots: u32,
    pub(crate) pacing: Option<Pacing>,
    pub(crate) thresholds: Option<Thresholds>,
    pub(crate) longest_stop: Duration,
    pub(crate) upkeep_in_commits: bool,
    pub(crate) relogs: bool,
    pub(crate) whole_after: u8,
    pub(crate) drain_on_open: bool,
    pub(crate) keep_on_close: bool,
    pub(crate) resizes: bool,
}

impl Options {
    /// The defaults, with the full-block policy.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            policy: FullBlock,
            hook: NoHook,
            settings: Settings {
                lanes: None,
                lane_bytes: None,
                lane_slots: None,
                slot_fraction: None,
                lane_log_blocks: None,
                disk_log: false,
                segment_blocks: 64,
                shield_blocks: None,
                unit_bytes: 4096,
                protocol: Protocol::OneFence,
                index_frames: None,
                index_at_once: false,
                batch_blocks: None,
                background: false,
                buffer_bytes: 20 << 20,
                cache_bytes: None,
                pins_logged: false,
                clean_slots: 0,
                pacing: None,
                thresholds: None,
                longest_stop: Duration::from_millis(1),
                upkeep_in_commits: false,
                relogs: false,
                whole_after: 0,
                drain_on_open: false,
                keep_on_close: false,
                resizes: false,
            },
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self::new()
    }
}

impl<L, H> Options<L, H> {
    /// The policy that decides how updates are logged. The journal remembers which policy formatted
    /// it; opening it with another is an error.
    ///
    /// A policy that compares images, and is named as a type, takes the best instructions that the
    /// machine has from `kernels`. [`AnyPolicy`](crate::AnyPolicy) does that by itself:
    ///
    /// ```
    /// use nvm_journal::ports::NativeKernels;
    /// use nvm_journal::{CompressedDelta, Options};
    ///
    /// let policy = CompressedDelta::new().kernels(NativeKernels::detect());
    /// let options = Options::new().policy(policy);
    /// # drop(options);
    /// ```
    ///
    /// A policy's own settings begin as its defaults are:
    ///
    /// ```
    /// use nvm_journal::{Lcow, Options};
    ///
    /// let policy = Lcow::with(Lcow::new().settings().reclaim_at(160));
    /// let options = Options::new().policy(policy);
    /// # drop(options);
    /// ```
    #[must_use]
    pub fn policy<N: Policy>(self, policy: N) -> Options<N, H> {
        let Self { hook, settings, .. } = self;
        Options { policy, hook, settings }
    }

    /// A hook that sees every step of persistence, for crash tests.
    #[must_use]
    pub fn hook<I>(self, hook: I) -> Options<L, I> {
        let Self { policy, settings, .. } = self;
        Options { policy, hook, settings }
    }

    /// Format: how many lanes, and so how many threads can commit without waiting for each other.
    /// By default 4, and fewer on a span too small for that; 32 at most. A transaction lies in one
    /// lane, so more lanes make the largest transaction smaller.
    #[must_use]
    pub const fn lanes(mut self, lanes: u16) -> Self {
        self.settings.lanes = Some(lanes);
        self
    }

    /// Format: bytes of each lane, a multiple of 64. By default the lanes take what slots and their
    /// entries leave of the span.
    #[must_use]
    pub const fn lane_bytes(mut self, bytes: u64) -> Self {
        self.settings.lane_bytes = Some(bytes);
        self
    }

    /// Format: the fraction of the span that goes to slots, in 256ths; the lanes take the rest. By
    /// default three quarters for a policy that [uses slots](Policy::wants_slots), and nothing for
    /// one that does not. The smaller the lanes, the smaller the largest transaction.
    ///
    /// ```
    /// use nvm_journal::{BlockSize, Lcow, Options};
    ///
    /// let plan = Options::new().policy(Lcow::new()).lanes(2).plan(64 << 20, BlockSize::DEFAULT)?;
    /// let slots_bytes = plan.geometry.slots() * 4096;
    /// assert!((46 << 20..48 << 20).contains(&slots_bytes));
    /// # Ok::<(), nvm_journal::OptionsError>(())
    /// ```
    #[must_use]
    pub const fn slot_fraction(mut self, fraction: u8) -> Self {
        self.settings.slot_fraction = Some(fraction);
        self
    }

    /// Format: how many slots each lane has, whatever fraction of the span that is. Zero: none.
    #[must_use]
    pub const fn lane_slots(mut self, slots: u32) -> Self {
        self.settings.lane_slots = Some(slots);
        self
    }

    /// Format: blocks of each lane in the disk-side log, which takes the last blocks of the disk; a
    /// multiple of [`segment_blocks`](Self::segment_blocks). Zero, the default: no disk-side log;
    /// what would go there goes into the lanes. [`disk_log`](Self::disk_log) chooses a number.
    ///
    /// A log costs time: each transaction of which a block goes there writes to the disk, and syncs
    /// it, before its record is stored. The commit then takes as long as a sync of the disk. In
    /// return the block takes 32 bytes of a lane instead of its length.
    ///
    /// [`Joined`](crate::Joined) puts it on a disk of its own.
    #[must_use]
    pub const fn lane_log_blocks(mut self, blocks: u32) -> Self {
        self.settings.lane_log_blocks = Some(blocks);
        self
    }

    /// Format: whether a policy that [uses a disk-side log](Policy::wants_log) gets one, as the
    /// published systems have it. By default none does, so that no commit waits for a sync of the
    /// disk while the memory has room ([`lane_log_blocks`](Self::lane_log_blocks) says what a log
    /// costs).
    ///
    /// It has 32,768 blocks, 128 MiB of 4 KiB each, as the journals that it replaces, and each lane
    /// 16 segments at least. There are fewer where their entries would take more than a sixteenth
    /// of the span, or all of them more than a quarter of the disk.
    #[must_use]
    pub const fn disk_log(mut self, disk_log: bool) -> Self {
        self.settings.disk_log = disk_log;
        self
    }

    /// Format: blocks of a segment of the disk-side log, 64 by default. The log reuses a segment as
    /// a whole.
    #[must_use]
    pub const fn segment_blocks(mut self, blocks: u32) -> Self {
        self.settings.segment_blocks = blocks;
        self
    }

    /// Format: blocks that go through the shield in one batch of a checkpoint, with one sync of the
    /// disk for all of them. 4,096 at most. By default the shield takes a
    /// thirty-second part of the span: 16 blocks at least, and 1,024 at most. It has 16 blocks
    /// where [`lane_bytes`](Self::lane_bytes) is said, or the policy logs whole blocks.
    ///
    /// The shield is used where the device may tear an overwrite and a block's only whole copy is
    /// its home. Zero is right for a device that never tears a block, and for a policy that logs
    /// whole blocks; it is refused elsewhere.
    #[must_use]
    pub const fn shield_blocks(mut self, blocks: u32) -> Self {
        self.settings.shield_blocks = Some(blocks);
        self
    }

    /// Format: bytes that a medium error takes at once, 4096 by default. The two superblock copies
    /// lie that far apart.
    #[must_use]
    pub const fn unit_bytes(mut self, bytes: u32) -> Self {
        self.settings.unit_bytes = bytes;
        self
    }

    /// Format: how a commit becomes durable. By default with one fence;
    /// [`TailPointer`](Protocol::TailPointer), with two, is a baseline for comparison. To name it,
    /// depend on `nvm-journal-core`.
    ///
    /// ```
    /// use journal_core::Protocol;
    /// use nvm_journal::{BlockSize, Options};
    ///
    /// let baseline = Options::new().lanes(2).protocol(Protocol::TailPointer);
    /// let plan = baseline.plan(1 << 20, BlockSize::DEFAULT)?;
    /// assert_eq!(plan.geometry.tails_bytes(), 2 * 64);
    /// # Ok::<(), nvm_journal::OptionsError>(())
    /// ```
    #[must_use]
    pub const fn protocol(mut self, protocol: Protocol) -> Self {
        self.settings.protocol = protocol;
        self
    }

    /// Open: how many frames of blocks the index in memory has room for. These are the frames in
    /// the lanes, and one for each slot that is held. When the room is used up, a checkpoint makes
    /// some.
    ///
    /// By default the index has room for a few more frames than whole blocks can be in the lanes.
    /// For policies with smaller frames it has room for four times as many. For each slot it has
    /// room for two: the slot's own, and one in a lane that the slot has replaced. If a journal
    /// holds more frames than these when it is opened, it takes room for all of them, and some
    /// more.
    #[must_use]
    pub const fn index_frames(mut self, frames: usize) -> Self {
        self.settings.index_frames = Some(frames);
        self
    }

    /// Open: whether all pages of the index's memory are taken before open returns, so that no
    /// commit waits for a page. Off by default: then opening is fast. Each of the first commits
    /// takes a page, and later about one commit in sixty does. In a virtual machine a page was seen
    /// to take two microseconds, and twelve. Pages that were taken are used again behind a
    /// checkpoint.
    #[must_use]
    pub const fn index_at_once(mut self, on: bool) -> Self {
        self.settings.index_at_once = on;
        self
    }

    /// Open: blocks that a checkpoint writes between two syncs. By default 256, or as many as the
    /// shield has if those are more.
    #[must_use]
    pub const fn batch_blocks(mut self, blocks: usize) -> Self {
        self.settings.batch_blocks = Some(blocks);
        self
    }

    /// Open: whether a thread of its own works in the background. It checkpoints when a lane is
    /// filled as far as the policy says. Where a geometry has no slots, it also does so when few
    /// frames are left in a part of the index. And it commits what is gathered when that is due.
    /// Off by default: then a thread that finds no room makes some itself, and the host
    /// [ticks](crate::Journal::tick).
    #[must_use]
    pub const fn background_checkpoint(mut self, on: bool) -> Self {
        self.settings.background = on;
        self
    }

    /// Open: after how many changes of a block its next one is logged as a whole image. This
    /// bounds what a reader or a checkpoint goes through to build a block, and mostly how many
    /// frames of the index a block takes. Zero, the default: there is no bound, unless a part of
    /// the index is short of frames. Nor does it hold for [`commit`](crate::Journal::commit) of
    /// blocks that would take more than a quarter of a lane if they were whole.
    ///
    /// It is for policies that log less than whole blocks, and blocks that are changed hundreds of
    /// times before they go home. With 64, the slowest commits become faster, because a thread that
    /// makes room is done sooner with each block. In return one commit of 65 stores a whole block.
    ///
    /// ```
    /// use nvm_journal::{ObjectLog, Options};
    ///
    /// let options = Options::new().policy(ObjectLog::new()).whole_after(64);
    /// # drop(options);
    /// ```
    #[must_use]
    pub const fn whole_after(mut self, changes: u8) -> Self {
        self.settings.whole_after = changes;
        self
    }

    /// Open: bytes of blocks that the running transaction gathers at most, 20 MiB by default.
    /// Another transaction as large may be under way to the medium meanwhile. Only
    /// [`commit_gathered`](crate::Transaction::commit_gathered) takes any of this memory.
    ///
    /// When it is full, the running transaction commits. Under a policy that
    /// [keeps content in slots](Policy::keeps_in_slots) it *spills* first: data goes on to slots of
    /// its lane, where the next spill changes it in place, and no record names it yet. So one
    /// record can have as many blocks as the lane has free slots. A crash drops what was spilled,
    /// like everything that is gathered.
    #[must_use]
    pub const fn buffer_bytes(mut self, bytes: usize) -> Self {
        self.settings.buffer_bytes = bytes;
        self
    }

    /// Open: when a running transaction commits and a checkpoint is made, by the clock that
    /// [`Journal::tick`](crate::Journal::tick) brings. It also says how many objects a running
    /// transaction names at most. By default as the [policy](Policy::pacing) wishes.
    #[must_use]
    pub const fn pacing(mut self, pacing: Pacing) -> Self {
        self.settings.pacing = Some(pacing);
        self
    }

    /// Open: from which fraction of a lane's ring, slots or disk-side log on room is made. It is
    /// reclaimed in the memory at the first threshold, and blocks are written home at the second,
    /// where reclaiming was not enough. A threshold of 255 waits until nothing is left. By default
    /// as the [policy](Policy::thresholds) wishes.
    ///
    /// Where there are neither slots nor a disk-side log, a quarter of what the second threshold
    /// leaves in use comes free. What was committed longest ago goes home for it, with blocks
    /// beside it. What was committed last stays, since it is likely to be written again.
    ///
    /// The thread of [`background_checkpoint`](Self::background_checkpoint) acts on them, or
    /// [`Journal::tick`](crate::Journal::tick), or [a commit](Self::upkeep_in_commits). Where there
    /// is none of these, a commit that finds no room makes some.
    #[must_use]
    pub const fn thresholds(mut self, thresholds: Thresholds) -> Self {
        self.settings.thresholds = Some(thresholds);
        self
    }

    /// Open: how long one step is to take, on fast memory, where a transaction finds no room and
    /// makes some. 1 millisecond by default. It is a measure for steps, and no promise: a stop may
    /// have several, and a busy machine is slower.
    ///
    /// Room is made in steps. A step writes one batch of blocks home, syncs it, and lets the lanes
    /// go on without them; the transaction goes on as soon as its room is there. This time says how
    /// much a step does, one block at least. Each block is charged by its bytes, and by the changes
    /// that its content is built from. So is each frame that the heads pass. The charges are what
    /// was measured on plain memory. A transaction that wants more room than a step frees takes
    /// more steps.
    ///
    /// It bounds what the journal does between two calls of the device, and how much it asks of the
    /// device in one step. It cannot bound how long a slow device takes for that. With a disk-side
    /// log a step may also move blocks there, or empty one segment, which goes through the whole
    /// index. [`Stats`](crate::Stats) say how long stops were, and what for.
    ///
    /// Steps find the oldest changes by passes of the whole index. Or they read the oldest records:
    /// where a step has no time for a pass, and without slots and a log also where these are short.
    /// Where long records are read, and few of them still count, a step may take longer all the
    /// same: it then goes through much of the index for the next step. Where a share of the index
    /// is short of frames, transactions take steps before it has none.
    #[must_use]
    pub const fn longest_stop(mut self, time: Duration) -> Self {
        self.settings.longest_stop = time;
        self
    }

    /// Open: whether a commit that crosses a [threshold](Self::thresholds) makes room before it
    /// returns, in one step of [`longest_stop`](Self::longest_stop). Its transaction is durable by
    /// then. Below the second threshold the step writes nothing home.
    /// [`Stats::stops_in_commits`](crate::Stats::stops_in_commits) counts the steps. Off by
    /// default. Where [`background_checkpoint`](Self::background_checkpoint) is on,
    /// that thread does so instead.
    #[must_use]
    pub const fn upkeep_in_commits(mut self, on: bool) -> Self {
        self.settings.upkeep_in_commits = on;
        self
    }

    /// Open: whether room is made by copies in persistent memory before anything goes home for it:
    /// *re-logging*. Off by default.
    ///
    /// A block that was written long ago keeps its lane from going on. Its content goes to a slot,
    /// where the lane has slots beyond the [threshold](Self::thresholds), or else behind the lane's
    /// tail. Behind the tail copies take at most half of what comes free, or as much as
    /// [`Thresholds::with_copied`] says. That is cheaper than the disk wherever a byte of the
    /// memory is, and blocks that are written again soon never go home. In return the memory takes
    /// up to twice the writes, with half.
    ///
    /// A transaction that finds no room then first frees what the memory alone can free, in one go:
    /// its stop may be longer than [`longest_stop`](Self::longest_stop) says, if the disk is fast.
    /// A copy behind the tail needs free room. So it works best where room is made ahead of need:
    /// by the [thread in the background](Self::background_checkpoint), by
    /// [`tick`](crate::Journal::tick), or [in commits](Self::upkeep_in_commits).
    /// [`Stats::copied`](crate::Stats::copied) counts the blocks.
    #[must_use]
    pub const fn relogs(mut self, on: bool) -> Self {
        self.settings.relogs = on;
        self
    }
}

impl<L, H: Clone> Options<L, H> {
    /// Options with these settings and another policy.
    pub(crate) fn with_policy<N: Policy>(&self, policy: N) -> Options<N, H> {
        Options { policy, hook: self.hook.clone(), settings: self.settings }
    }
}

impl Settings {
    /// How many blocks one step writes home for a transaction that needs room.
    pub(crate) fn step_blocks(&self, geometry: &Geometry) -> usize {
        let nanos = usize::try_from(self.longest_stop.as_nanos()).unwrap_or(usize::MAX);
        (nanos / geometry.block_size.bytes()).clamp(1, self.batch_on(geometry).0)
    }

    /// Whether commits make room.
    pub(crate) const fn acts_in_commits(&self) -> bool {
        self.upkeep_in_commits && !self.background
    }

    /// How many blocks a batch of a checkpoint has, and how many of them are written in one call.
    /// There is one sync for a whole shield where nobody says otherwise.
    pub(crate) fn batch_on(&self, geometry: &Geometry) -> (usize, usize) {
        let written = self.batch_blocks.unwrap_or(BATCH_BLOCKS);
        (self.batch_blocks.unwrap_or(BATCH_BLOCKS.max(geometry.shield_blocks as usize)), written)
    }
}

/// How many blocks go through the shield in one batch, by default.
fn shield_blocks(span_bytes: u64, block_size: BlockSize) -> u32 {
    let blocks = span_bytes / SHIELD_PART / block_size.bytes() as u64;
    u32::try_from(blocks).unwrap_or(u32::MAX).clamp(16, 1024)
}

impl<L: Policy, H> Options<L, H> {
    /// The layout of a journal formatted with these settings in `span_bytes` bytes, and what it
    /// takes at worst. Where there is a disk-side log, this holds for a disk at least four times as
    /// large as the log. On a smaller disk the log is made smaller.
    ///
    /// # Errors
    /// The first setting that is not possible.
    ///
    /// ```
    /// use nvm_journal::{BlockSize, Options};
    ///
    /// let plan = Options::new().plan(16 << 20, BlockSize::DEFAULT)?;
    /// assert_eq!(plan.geometry.lanes, 4);
    /// assert!(plan.nvm_bytes <= 16 << 20);
    /// assert!(plan.dram_bytes < 5 << 20);
    /// # Ok::<(), nvm_journal::OptionsError>(())
    /// ```
    pub fn plan(&self, span_bytes: u64, block_size: BlockSize) -> Result<Plan, OptionsError> {
        self.plan_with_log(span_bytes, block_size, self.settings.lane_log_blocks)
    }

    /// Like [`plan`](Self::plan), with this number of blocks of each lane in the disk-side log.
    fn plan_with_log(
        &self,
        span_bytes: u64,
        block_size: BlockSize,
        lane_log_blocks: Option<u32>,
    ) -> Result<Plan, OptionsError> {
        let line = LINE_BYTES as u64;
        let mut geometry = Geometry {
            block_size,
            lanes: self.settings.lanes.unwrap_or(1),
            lane_bytes: 0,
            shield_blocks: {
                // Where the caller says how large the lanes are, or nothing needs a shield, the
                // smallest will do.
                let is_small =
                    self.settings.lane_bytes.is_some() || self.policy.logs_whole_blocks();
                let default = shield_blocks(if is_small { 0 } else { span_bytes }, block_size);
                self.settings.shield_blocks.unwrap_or(default)
            },
            unit_bytes: self.settings.unit_bytes,
            protocol: self.settings.protocol,
            lane_slots: 0,
            lane_log_blocks: 0,
            segment_blocks: 0,
        };
        // Checked before anything is divided by the number of lanes.
        geometry.lane_bytes = geometry.record_bytes_one_block().next_multiple_of(line);
        geometry.check().map_err(OptionsError::Geometry)?;
        let rest = span_bytes
            .saturating_sub(u64::from(self.settings.unit_bytes) * 2)
            .saturating_sub(geometry.shield_bytes());
        if self.settings.lanes.is_none() {
            let least = LANE_BLOCKS_MIN * geometry.record_bytes_one_block();
            let slots = u64::from(self.settings.lane_slots.unwrap_or(0)) * slot_bytes(block_size);
            let of_lane = self.settings.lane_bytes.map(|bytes| bytes.saturating_add(slots));
            let lanes = rest / of_lane.unwrap_or(least.saturating_add(slots)).max(1);
            geometry.lanes = lanes.clamp(1, LANES.into()) as u16;
        }
        let per_lane = rest.saturating_sub(geometry.tails_bytes()) / u64::from(geometry.lanes);
        geometry.lane_log_blocks =
            lane_log_blocks.unwrap_or_else(|| self.log_blocks_in(per_lane, geometry.lanes));
        geometry.segment_blocks =
            if geometry.lane_log_blocks > 0 { self.settings.segment_blocks } else { 0 };
        let per_lane = per_lane.saturating_sub(geometry.entries_bytes());
        geometry.lane_slots = self.slots_in(per_lane, &geometry);
        let per_lane = rest.saturating_sub(geometry.tails_bytes()) / u64::from(geometry.lanes);
        let beside = geometry.entries_bytes().saturating_add(geometry.slots_bytes());
        let lane_bytes = per_lane.saturating_sub(beside) / line * line;
        geometry.lane_bytes = self.settings.lane_bytes.unwrap_or(lane_bytes);
        geometry.check().map_err(OptionsError::Geometry)?;
        let needed = geometry.span_bytes().unwrap_or(u64::MAX);
        if needed > span_bytes {
            let available = span_bytes;
            let error = GeometryError::SpanTooSmall { needed, available };
            return Err(OptionsError::Geometry(error));
        }
        self.plan_of(geometry)
    }

    /// How many slots a lane has that has `per_lane` bytes, ring and slots together.
    fn slots_in(&self, per_lane: u64, geometry: &Geometry) -> u32 {
        if let Some(slots) = self.settings.lane_slots {
            return slots;
        }
        let default = if self.policy.wants_slots() { SLOT_FRACTION } else { 0 };
        let fraction = self.settings.slot_fraction.unwrap_or(default);
        let bytes = (u128::from(per_lane) * u128::from(fraction) / 256) as u64;
        // Where the caller has not said how much the slots get, they get what the ring leaves.
        let least = geometry.record_bytes_one_block().next_multiple_of(LINE_BYTES as u64);
        let ring = self.settings.lane_bytes.unwrap_or(least);
        let left = match self.settings.slot_fraction {
            None => per_lane.saturating_sub(ring).saturating_sub(LINE_BYTES as u64),
            Some(_) => u64::MAX,
        };
        let slots = bytes.min(left) / slot_bytes(geometry.block_size);
        u32::try_from(slots).unwrap_or(u32::MAX)
    }

    /// The layout on this disk. If the caller does not say how large the disk-side log is, it takes
    /// no more than a quarter of the disk.
    pub(crate) fn plan_on(
        &self,
        span_bytes: u64,
        disk: &impl BlockDevice,
    ) -> Result<Plan, OptionsError> {
        let (block_size, device_blocks) = (disk.block_size(), disk.block_count());
        let plan = self.plan(span_bytes, block_size)?;
        let tears = !disk.facts().block_atomic(block_size);
        if tears && plan.geometry.shield_blocks == 0 && !self.policy.logs_whole_blocks() {
            return Err(OptionsError::NoShield);
        }
        let log_blocks = plan.geometry.log_blocks();
        if self.settings.lane_log_blocks.is_none() && log_blocks > device_blocks / LOG_DISK_PART {
            let of_lane = device_blocks / LOG_DISK_PART / u64::from(plan.geometry.lanes);
            let segment = u64::from(self.settings.segment_blocks.max(1));
            let blocks = u32::try_from(of_lane / segment * segment).unwrap_or(0);
            return self.plan_with_log(span_bytes, block_size, Some(blocks));
        }
        if log_blocks >= device_blocks {
            return Err(OptionsError::LogTooLarge { log_blocks, device_blocks });
        }
        Ok(plan)
    }

    /// How many blocks of the disk-side log each of the lanes has, with `per_lane` bytes for it,
    /// for slots and for entries.
    fn log_blocks_in(&self, per_lane: u64, lanes: u16) -> u32 {
        let segment = u64::from(self.settings.segment_blocks.max(1));
        let entries = per_lane / LOG_PART / size_of::<SlotEntry>() as u64;
        let has_log = self.settings.disk_log && self.policy.wants_log();
        let all = (LOG_BLOCKS / u64::from(lanes) / segment).max(LOG_SEGMENTS);
        let segments = if has_log { all } else { 0 };
        u32::try_from(segments.min(entries / segment) * segment).unwrap_or(0)
    }

    /// Whether blocks that are evicted from the cache go to the disk-side log, where logged blocks
    /// are pinned there.
    pub(crate) fn evicts_to_log(&self, geometry: &Geometry) -> bool {
        let has_log = geometry.lane_log_blocks > 0 && self.policy.keeps_in_slots();
        has_log && self.settings.pins_logged
    }

    /// What a journal of this geometry takes at worst, run with these settings.
    pub(crate) fn plan_of(&self, geometry: Geometry) -> Result<Plan, OptionsError> {
        // 1. The cache.
        let compares = self.policy.wants_old() || self.policy.wants_cached_old();
        let pins = self.settings.pins_logged;
        let default = if compares || pins { CACHE_BYTES } else { 0 };
        let cached_bytes = self.settings.cache_bytes.unwrap_or(default);
        if pins && cached_bytes == 0 {
            return Err(OptionsError::NoCache);
        }
        if self.settings.batch_blocks == Some(0) {
            return Err(OptionsError::NoBatch);
        }
        // 2. The frames of the index.
        let lanes_bytes = geometry.lane_bytes.saturating_mul(geometry.lanes.into());
        let whole = lanes_bytes / geometry.record_bytes_one_block();
        let of_lanes = match self.policy.logs_images() {
            // Some more, for frames that are smaller all the same.
            true => whole.saturating_add(whole / 4).saturating_add(SHARE_FRAMES_MIN as u64),
            false => whole.saturating_mul(SMALL_FRAMES),
        };
        let default = of_lanes.saturating_add(geometry.slots().saturating_mul(2));
        let frames = self.settings.index_frames.unwrap_or(default as usize);
        if frames == 0 {
            return Err(OptionsError::NoFrames);
        }
        // 3. The shares of the index, and the frames of each.
        let shares = (frames / SHARE_FRAMES_MIN).max(1).next_power_of_two().min(SHARES_MAX);
        let cached_blocks = cached_bytes.div_ceil(geometry.block_size.bytes());
        // Neighbours belong to one share, and are wanted together: each share has room for some
        // runs of them.
        let shares = match cached_blocks / (CACHED_RUNS * RUN_BLOCKS as usize) {
            _ if cached_blocks == 0 => shares,
            0 => 1,
            most => shares.min(1 << most.ilog2()),
        };
        // Blocks do not spread evenly, and runs of blocks less so. Each share gets part of the
        // spread that this number of runs has, thrown at random.
        let (each, run) = (frames / shares, RUN_BLOCKS as usize);
        let spread = SPREAD.saturating_mul(run.saturating_mul(each).isqrt());
        let above = (each / 4).saturating_add(spread).saturating_add(SHARE_FRAMES_MIN);
        let share_frames = each.saturating_add(above).min(frames);
        // No more blocks are logged than stay in the cache. Where those that are evicted have their
        // frames in the disk-side log, they are counted one by one instead.
        let is_bound = pins && !self.evicts_to_log(&geometry);
        let pinned = if is_bound { cached_blocks.div_ceil(shares) } else { usize::MAX };
        let share_frames = share_frames.min(pinned);
        // 4. What all of that takes.
        let all_frames = shares.saturating_mul(share_frames);
        let node = size_of::<Node>() + size_of::<Entry>() * 4 / 3;
        let needs = Needs::of(&geometry, 1);
        let (batch_blocks, written_blocks) = self.settings.batch_on(&geometry);
        let dram_bytes = all_frames
            .saturating_mul(node)
            .saturating_add(cached_blocks.saturating_mul(CACHE_ENTRY_BYTES))
            .saturating_add(batch_blocks.saturating_mul(size_of::<Batched>()))
            .saturating_add(written_blocks.saturating_mul(geometry.block_size.bytes()))
            .saturating_add(needs.slots.saturating_mul(size_of::<SlotState>()))
            .saturating_add(needs.front_bytes + needs.encoded_bytes);
        let lanes = u64::from(geometry.lanes);
        let entries_bytes = geometry.entries_bytes().saturating_mul(lanes);
        let slots_bytes = geometry.slots_bytes().saturating_mul(lanes);
        Ok(Plan {
            geometry,
            nvm_bytes: geometry.span_bytes().unwrap_or(u64::MAX),
            dram_bytes,
            gathered_bytes: self.settings.buffer_bytes.saturating_mul(2),
            cached_bytes,
            recovery_reads_bytes: lanes_bytes
                .saturating_mul(3)
                .saturating_add(entries_bytes.saturating_mul(ENTRY_READS))
                .saturating_add(slots_bytes),
            transaction_bytes_max: geometry.lane_bytes,
            shares,
            share_frames,
        })
    }
}

/// What the cache's table has for each block: a line for its entry, and one that stays free.
const CACHE_ENTRY_BYTES: usize = 2 * LINE_BYTES;

/// What a slot takes: a block, and its entry.
const fn slot_bytes(block_size: BlockSize) -> u64 {
    (block_size.bytes() + size_of::<SlotEntry>()) as u64
}

/// What the settings come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Plan {
    /// The layout in persistent memory.
    pub geometry: Geometry,
    /// Bytes of persistent memory that are used.
    pub nvm_bytes: u64,
    /// Bytes of ordinary memory that an open journal takes at worst, beside 128 KiB for locks. Each
    /// open transaction takes some five blocks and what it has written. A thread keeps that memory
    /// for its next transactions: that of eight at most, and no more than 8 MiB of each. The
    /// journal takes more if it holds more frames, when it is opened, than its index is to have
    /// room for.
    pub dram_bytes: usize,
    /// Bytes of ordinary memory that gathered transactions take beside that, where there are any.
    pub gathered_bytes: usize,
    /// Bytes of ordinary memory that hold blocks' contents, beside that.
    pub cached_bytes: usize,
    /// Bytes of persistent memory that opening reads at worst: three times the lanes, when they are
    /// full, and all slots, when each holds a block's newest version. Recovery takes about as long
    /// as reading that. Frames in the lanes that are no images are read twice more where the index
    /// is only just large enough.
    pub recovery_reads_bytes: u64,
    /// Bytes of the largest transaction's record: its blocks, and some 90 bytes for each of them.
    pub transaction_bytes_max: u64,
    /// Shares of the index.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub(crate) shares: usize,
    /// Frames that each share has room for.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub(crate) share_frames: usize,
}

mod caching;
mod opening;
#[cfg(test)]
mod tests;
