//! What the host computes, and how it is sized: constants, with the papers' machines.

/// Nanoseconds of CPU, and how many cores there are.
#[derive(Clone, Copy, Debug)]
pub struct Host {
    pub cores: usize,
    /// Each operation.
    pub operation_ns: u64,
    /// A page that is written through the file system.
    pub page_ns: u64,
    /// More, for each page of data that a block journal logs.
    pub logged_page_ns: u64,
    /// More, for each page of data that goes to the journal in memory. On the host of NJS as much
    /// as where a block journal logs it; on that of HasFS an assumption of its own.
    pub slot_page_ns: u64,
    pub open_ns: u64,
    pub read_page_ns: u64,
    pub fsync_ns: u64,
    pub wake_ns: u64,
    /// Whether an fsync without a journal ends with a flush of the drive's cache, as in ext4 of
    /// Linux 4.11. In 2.6.34 and 3.8 it returns when the drive has taken the blocks.
    pub flushes_without_journal: bool,
    /// Whether jbd2 flushes the disk of the homes behind a checkpoint of a journal that the file
    /// system has inside: from Linux 3.4 on. Where the journal has a device of its own, it always
    /// does.
    pub flushes_checkpoints: bool,
    /// Whether it writes the directory of a new file as well: from Linux 2.6.35 on.
    pub syncs_directory: bool,
    /// Whether the papers' journal in memory commits as jbd2 does, and so waits for others too
    /// ([`BATCH_NS`]).
    pub batches_in_memory: bool,
}

/// The kernels of the papers: of FGM, NJS and HasFS.
pub const KERNEL_FGM: &str = "2.6.34";
pub const KERNEL_NJS: &str = "3.12";
pub const KERNEL_HASFS: &str = "4.11";
/// The first kernel whose fsync writes a new file's directory too.
pub const KERNEL_DIRECTORY: &str = "2.6.35";
/// And the first that flushes a disk behind a checkpoint of a journal on it.
pub const KERNEL_FLUSH: &str = "3.4";

impl Host {
    pub const FGM: Self = Self {
        cores: 8,
        operation_ns: 0,
        page_ns: 3_000,
        logged_page_ns: 2_000,
        slot_page_ns: 0,
        open_ns: 15_000,
        read_page_ns: 700,
        fsync_ns: 10_000,
        wake_ns: 15_000,
        // Linux 2.6.34, and 3.12 of NJS.
        flushes_without_journal: false,
        flushes_checkpoints: false,
        syncs_directory: false,
        batches_in_memory: false,
    };
    pub const NJS: Self = Self {
        cores: 6,
        page_ns: 4_000,
        slot_page_ns: 2_000,
        flushes_checkpoints: true,
        syncs_directory: true,
        // It is jbd2 with other writes.
        batches_in_memory: true,
        ..Self::FGM
    };
    pub const HASFS: Self = Self {
        cores: 4,
        operation_ns: 9_000,
        page_ns: 2_500,
        slot_page_ns: 3_000,
        // Linux 4.11, whose jbd2 HasFS leaves aside.
        flushes_without_journal: true,
        flushes_checkpoints: true,
        syncs_directory: true,
        ..Self::FGM
    };
}

/// What the block layer computes for a block of a RAM disk.
pub const RAM_DISK_BLOCK_NS: u64 = 2_000;
/// Where data is logged, an fsync is a synchronous handle of jbd2. It keeps a younger transaction
/// open for as long as a commit takes on average, and at most this long, so that other threads
/// join.
pub const BATCH_NS: u64 = 15_000_000;
/// A transaction commits at this age.
pub const COMMIT_AFTER_NS: u64 = 5_000_000_000;
/// Data and metadata go out at this age.
pub const OLD_NS: u64 = 30_000_000_000;
/// Where more of memory than this is dirty, in a hundred, write-back begins; and writers wait.
pub const WRITES_BACK_PERCENT: u64 = 10;
pub const WAITS_PERCENT: u64 = 15;
/// A run takes as long as this at least, and its journal is filled as often.
pub const RUN_NS: u64 = 120_000_000_000;
pub const FILLED_TIMES: u64 = 4;
/// It ends after this many times as long, however often its journal was filled.
pub const LONGEST_RUNS: u64 = 20;
