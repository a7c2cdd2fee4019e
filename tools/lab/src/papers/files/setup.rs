//! What a run is made with, and what it came to.

use sim_disk::time::MemoryUse;

use crate::papers::host::Host;

/// How the journal in memory gets its room back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checkpoints {
    /// A tick before each commit, which acts on the policy's thresholds. Every thread stands still
    /// meanwhile.
    StandStill,
    /// Such ticks beside the threads.
    Beside,
    /// No tick: a commit that finds no room makes some. Every thread stands still meanwhile.
    InCommits,
}

/// What a run is made with.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    pub threads: usize,
    pub host: Host,
    /// Blocks of the page cache, and of all memory.
    pub cache_blocks: u64,
    pub memory_blocks: u64,
    /// Blocks of a running transaction at most.
    pub transaction_blocks: u64,
    /// Objects that a running transaction names at most.
    pub objects_max: Option<u64>,
    pub checkpoints: Checkpoints,
    /// The run ends behind this number of operations, and all of it counts; without, it takes as
    /// long as a run takes.
    pub operations: Option<u64>,
    /// Whether the caller commits a running transaction that is full, and not a thread beside it.
    pub caller_flushes: bool,
    /// Or it ends at this time, and all of it counts.
    pub run_ns: Option<u64>,
    /// Or it ends when the journal has taken this number of slots.
    pub slots_taken: Option<u64>,
    /// Whether old data goes out, and writers wait for it.
    pub writes_back: bool,
    /// Whether the disk of the homes is synced before a commit on another medium.
    pub syncs_homes: bool,
    /// How many bytes of a block differ from one version to the next.
    pub differs: usize,
    /// What a drive adds to a sync, when all is written.
    pub sync_ns: u64,
    pub scale: u64,
    pub seed: u64,
}

/// What a run came to.
#[derive(Clone, Debug, Default)]
pub struct Ran {
    pub per_second: f64,
    pub operations: u64,
    pub seconds: f64,
    pub commits: u64,
    pub filled_percent: u64,
    pub drive_writes: u64,
    pub drive_blocks: u64,
    pub drive_syncs: u64,
    pub drive_reads: u64,
    /// The part of the time that the drive was busy, in a hundred.
    pub busy_percent: u64,
    pub waited_dirty_ms: u64,
    pub stood_still_ms: u64,
    pub bytes_per_second: f64,
    /// What was stored in the memory of a journal.
    pub memory: MemoryUse,
    /// What the journal in memory counted.
    pub journal: String,
}

impl Ran {
    pub fn counts(&self) -> String {
        format!(
            "{:.0} s, {} commits, {} writes of {} blocks, {} syncs, {} reads, drive busy {} %, \
             stood still {:.1} s, journal filled {:.1} x{}",
            self.seconds,
            self.commits,
            self.drive_writes,
            self.drive_blocks,
            self.drive_syncs,
            self.drive_reads,
            self.busy_percent,
            self.stood_still_ms as f64 / 1e3,
            self.filled_percent as f64 / 100.0,
            self.journal
        )
    }
}
