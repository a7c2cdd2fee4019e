//! Counts of what a journal has done, and of what it holds.

use core::fmt;
use core::time::Duration;

use journal_core::{CheckpointReport, FoldReport};

/// What was counted in one lane since the journal was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct LaneStats {
    /// Transactions committed.
    pub commits: u64,
    /// Fences that made those transactions durable: fewer where they were grouped or deferred.
    pub fences: u64,
    /// Blocks that they changed.
    pub frames: u64,
    /// Bytes of their records.
    pub bytes: u64,
    /// Blocks whose content went home before their record: appends.
    pub appended_home: u64,
    /// Slots that held nothing and were written.
    pub new_slots: u64,
    /// Slots that held an older version of the same block, and were written only where it differs.
    pub rewritten_slots: u64,
    /// Blocks that were written to the disk-side log.
    pub logged: u64,
    /// Bytes of the lane that records take now.
    pub used_bytes: u64,
    /// Slots of the lane that hold nothing now.
    pub free_slots: u32,
    /// Blocks of the lane in the disk-side log that can be taken now.
    pub free_log_blocks: u32,
    /// Wear: how many lines of 64 bytes were stored in each part of the lane's ring. A part has a
    /// power of two of lines, the least with which there are 16 parts or fewer. A line that is
    /// stored twice counts twice, here and in the other counts of wear.
    pub ring_wear: [u64; 16],
    /// Lines that were stored in each part of the entries of the lane's slots.
    pub entry_wear: [u64; 16],
    /// Lines that were stored in each part of the lane's slots.
    pub slot_wear: [u64; 16],
}

impl LaneStats {
    pub(crate) const fn add_record(&mut self, frames: u64, bytes: u64) {
        self.commits += 1;
        self.frames += frames;
        self.bytes += bytes;
    }
}

/// What running transactions have gathered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct GatherStats {
    /// Transactions that were gathered.
    pub transactions: u64,
    /// Blocks that these transactions changed, each counted as often as it was changed.
    pub blocks: u64,
    /// Running transactions that have committed.
    pub commits: u64,
    /// Of these, the number that committed since their time had come
    /// ([`Pacing`](crate::policy::Pacing)).
    pub by_timer: u64,
    /// Of these, the number that named as many objects as they may.
    pub by_objects: u64,
    /// Of these, the number that had no room for one more, in memory or in their lane. The others
    /// were asked for: by a sync, a checkpoint, or a transaction that waited.
    pub by_room: u64,
    /// Transactions in the running transaction now.
    pub waiting: u64,
    /// How often blocks went from ordinary memory to active slots, each counted every time.
    pub spilled: u64,
    /// Blocks of the running transaction that are in active slots now.
    pub active: u64,
}

/// How often the cache was asked, and what it holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct CacheStats {
    /// Reads that found their block in the cache.
    pub hits: u64,
    /// Reads that did not.
    pub misses: u64,
    /// Blocks in it now.
    pub blocks: usize,
    /// Blocks that have to stay there now, where logged blocks are
    /// [pinned](crate::Options::pins_logged).
    pub pinned: usize,
    /// Slots that hold what was read from the disk now.
    pub in_slots: u64,
    /// Reads that found their block there.
    pub slot_hits: u64,
}

/// What a journal has done since it was opened, and what it holds now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Stats {
    /// Lane by lane.
    pub lanes: Vec<LaneStats>,
    /// Bytes of one lane.
    pub lane_bytes: u64,
    /// Slots of one lane.
    pub lane_slots: u32,
    /// Blocks of one lane in the disk-side log.
    pub lane_log_blocks: u32,
    /// Bytes stored in the lanes since the journal was opened: records of any kind.
    pub record_bytes: u64,
    /// Lines of 64 bytes that these stores touched. Here and below, a line that two stores touch
    /// counts twice.
    pub record_lines: u64,
    /// Bytes stored in slots and their entries.
    pub slot_bytes: u64,
    /// Lines that these stores touched.
    pub slot_lines: u64,
    /// Bytes stored in the shield area, by checkpoints.
    pub shield_bytes: u64,
    /// Lines that these stores touched.
    pub shield_lines: u64,
    /// Lines that were stored in each part of the shield area, as in
    /// [`ring_wear`](LaneStats::ring_wear).
    pub shield_wear: [u64; 16],
    /// Bytes stored in the two copies of the superblock, by the open too.
    pub superblock_bytes: u64,
    /// Lines that these stores touched: half of them in each copy.
    pub superblock_lines: u64,
    /// Frames in the index now.
    pub frames: usize,
    /// Blocks that have frames in the index now.
    pub blocks: usize,
    /// Checkpoints that have ended.
    pub checkpoints: u64,
    /// What the checkpoints did, added up.
    pub checkpointed: CheckpointReport,
    /// How long checkpoints took, added up.
    pub checkpointing: Duration,
    /// What was freed without the device, added up.
    pub folded: FoldReport,
    /// Blocks that were moved to the disk-side log, instead of home.
    pub moved: u64,
    /// Blocks that were copied in persistent memory, instead of home: re-logged.
    pub copied: u64,
    /// Snapshots that are kept now. As long as there are any, the index keeps all that is logged.
    pub snapshots: usize,
    /// Snapshots that were ended because blocks had to go home, or by a checkpoint.
    pub snapshots_ended: u64,
    /// How often a transaction stopped because a lane was short of bytes.
    pub stops_for_bytes: u64,
    /// How often one stopped because the index was short of frames.
    pub stops_for_frames: u64,
    /// How often one stopped because slots, or blocks of the disk-side log, were short.
    pub stops_for_slots: u64,
    /// How often a commit made room at its end, because it had crossed a threshold.
    pub stops_in_commits: u64,
    /// How often a commit waited before it wrote to the disk: until a batch had ended that had a
    /// block which it appends, or until a trim had.
    pub stops_for_home: u64,
    /// How often a transaction waited for a block that an upkeep was copying or moving.
    pub stops_for_moved: u64,
    /// How long these stops took, added up.
    pub stopped: Duration,
    /// The longest of them.
    pub longest_stop: Duration,
    /// The longest stop for bytes.
    pub longest_stop_for_bytes: Duration,
    /// The longest stop for frames.
    pub longest_stop_for_frames: Duration,
    /// The longest stop for slots, or for blocks of the disk-side log.
    pub longest_stop_for_slots: Duration,
    /// The longest time that a commit made room at its end.
    pub longest_stop_in_commits: Duration,
    /// The longest time that a commit waited for that.
    pub longest_stop_for_home: Duration,
    /// The longest time that a transaction waited for a block that was copied or moved.
    pub longest_stop_for_moved: Duration,
    /// Transactions that now wait for room that others have.
    pub waiting_for_room: usize,
    /// What running transactions have gathered.
    pub gathered: GatherStats,
    /// What the cache was asked, and what it holds.
    pub cached: CacheStats,
}

/// The counts of all lanes together that a program watches: what
/// [`Journal::totals`](crate::Journal::totals) tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Totals {
    /// Transactions committed.
    pub commits: u64,
    /// Fences that made those transactions durable.
    pub fences: u64,
    /// Blocks that they changed.
    pub frames: u64,
    /// Bytes of their records.
    pub bytes: u64,
    /// Bytes of the lanes that records take now.
    pub used_bytes: u64,
    /// Bytes that records can take.
    pub capacity_bytes: u64,
    /// Slots that hold nothing now.
    pub free_slots: u32,
    /// Blocks in the disk-side log that can be taken now.
    pub free_log_blocks: u32,
}

impl Stats {
    /// Stops of transactions and commits, whatever they were for.
    #[must_use]
    pub const fn stops(&self) -> u64 {
        let for_room = self.stops_for_bytes + self.stops_for_frames + self.stops_for_slots;
        for_room + self.stops_in_commits + self.stops_for_home + self.stops_for_moved
    }

    /// All lanes together.
    #[must_use]
    pub fn total(&self) -> LaneStats {
        self.lanes.iter().fold(LaneStats::default(), |sum, lane| LaneStats {
            commits: sum.commits + lane.commits,
            fences: sum.fences + lane.fences,
            frames: sum.frames + lane.frames,
            bytes: sum.bytes + lane.bytes,
            appended_home: sum.appended_home + lane.appended_home,
            new_slots: sum.new_slots + lane.new_slots,
            rewritten_slots: sum.rewritten_slots + lane.rewritten_slots,
            used_bytes: sum.used_bytes + lane.used_bytes,
            free_slots: sum.free_slots + lane.free_slots,
            logged: sum.logged + lane.logged,
            free_log_blocks: sum.free_log_blocks + lane.free_log_blocks,
            ring_wear: added(sum.ring_wear, lane.ring_wear),
            entry_wear: added(sum.entry_wear, lane.entry_wear),
            slot_wear: added(sum.slot_wear, lane.slot_wear),
        })
    }
}

/// The sums of two lists, number by number.
fn added(one: [u64; 16], other: [u64; 16]) -> [u64; 16] {
    core::array::from_fn(|part| one[part] + other[part])
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (total, home, folded) = (self.total(), &self.checkpointed, &self.folded);
        let LaneStats { commits, fences, frames, bytes, used_bytes, .. } = total;
        let (blocks, lanes) = (self.blocks, self.lanes.len());
        writeln!(f, "{commits} commits with {fences} fences: {frames} frames, {bytes} bytes")?;
        writeln!(f, "{blocks} blocks not home, {used_bytes} bytes of {lanes} lanes in use")?;
        let CheckpointReport { blocks, writes, freed_slots, .. } = home;
        write!(f, "{} checkpoints: {blocks} blocks with {writes} writes", self.checkpoints)?;
        if home.unreadable > 0 {
            write!(f, ", {} times one that cannot be read left out", home.unreadable)?;
        }
        let stops = self.stops();
        if stops > 0 {
            let (all, longest) = (self.stopped, self.longest_stop);
            write!(f, "\n{stops} stops for want of room or the disk took {all:?}, ")?;
            write!(f, "the longest {longest:?}")?;
        }
        if self.lane_slots > 0 {
            let LaneStats { new_slots, rewritten_slots, appended_home, free_slots, .. } = total;
            let freed_slots = freed_slots + folded.freed_slots;
            write!(f, "\n{new_slots} slots taken, {rewritten_slots} written again, ")?;
            write!(f, "{} frames folded, {freed_slots} slots freed, ", folded.folded)?;
            write!(f, "{free_slots} free; {appended_home} blocks appended home")?;
        }
        if self.lane_log_blocks > 0 {
            let LaneStats { logged, free_log_blocks, .. } = total;
            write!(f, "\n{logged} blocks written to the disk-side log, {} of them ", self.moved)?;
            write!(f, "moved there, {free_log_blocks} free")?;
        }
        Ok(())
    }
}

#[cfg(all(test, feature = "serde"))]
mod tests {
    use journal_core::{BlockSize, Recovery};

    use super::*;
    use crate::options::Options;

    #[test]
    fn what_a_journal_tells_of_itself_has_its_names() {
        let lane = LaneStats { commits: 3, used_bytes: 64, ..LaneStats::default() };
        let stats = Stats { lanes: vec![lane], checkpoints: 2, ..Stats::default() };
        let stats = serde_json::to_value(&stats).expect("numbers");
        assert_eq!(stats["lanes"][0]["commits"], 3);
        assert_eq!(stats["lanes"][0]["used_bytes"], 64);
        assert_eq!(stats["checkpoints"], 2);
        assert_eq!(stats["checkpointed"]["blocks"], 0);
        assert_eq!(stats["folded"]["fences"], 0);
        let plan = Options::new().plan(1 << 20, BlockSize::DEFAULT).expect("can be");
        let plan = serde_json::to_value(plan).expect("numbers");
        assert_eq!(plan["geometry"]["block_size"], 4096);
        assert_eq!(plan["geometry"]["protocol"], "OneFence");
        assert!(plan.get("shares").is_none(), "what is private stays so");
        let recovery = serde_json::to_value(Recovery::default()).expect("numbers");
        assert_eq!(recovery["records"], 0);
    }
}
