//! What a journal has done and holds.

use journal_core::CheckpointReport;

/// Counted in one lane since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LaneStats {
    /// Transactions committed.
    pub commits: u64,
    /// Fences that made them durable: fewer where they were grouped or deferred.
    pub fences: u64,
    /// Blocks they changed.
    pub frames: u64,
    /// Bytes of their records.
    pub bytes: u64,
    /// Bytes of the lane that records take now.
    pub used_bytes: u64,
}

/// What a journal has done since it was opened, and what it holds now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Lane by lane.
    pub lanes: Vec<LaneStats>,
    /// Bytes of one lane.
    pub lane_bytes: u64,
    /// Frames in the index now.
    pub frames: usize,
    /// Blocks that have frames there now.
    pub blocks: usize,
    /// Checkpoints that have ended.
    pub checkpoints: u64,
    /// What they did, added up.
    pub checkpointed: CheckpointReport,
}

impl Stats {
    /// All lanes together.
    #[must_use]
    pub fn total(&self) -> LaneStats {
        self.lanes.iter().fold(LaneStats::default(), |sum, lane| LaneStats {
            commits: sum.commits + lane.commits,
            fences: sum.fences + lane.fences,
            frames: sum.frames + lane.frames,
            bytes: sum.bytes + lane.bytes,
            used_bytes: sum.used_bytes + lane.used_bytes,
        })
    }
}
