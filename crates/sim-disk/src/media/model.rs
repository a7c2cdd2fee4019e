//! Persistency models: what a power loss may leave of stores that were not made durable.
//!
//! | model | unit of choice | order inside a line | caches |
//! |---|---|---|---|
//! | [`Model::X86Line`] | line | a prefix of its store calls | lost |
//! | [`Model::Torn8`] | word | none | lost |
//! | [`Model::Arm`] | line | only across store barriers | lost |
//! | [`Model::Eadr`] | - | program order | kept |
//!
//! In all models a word (8 aligned bytes) is atomic. The words of one store call become durable in
//! any order, and streamed words in any order among everything else. A fence completes only what
//! its own thread flushed or streamed.

use core::fmt;

use crate::media::tape::FlushKind;

/// A persistency model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Model {
    /// x86 with volatile caches (ADR): each line independently holds a prefix of its stores.
    X86Line,
    /// The adversary of the default gate: each word independently holds any value stored to it
    /// since it was last made durable. Weaker than any hardware.
    Torn8,
    /// ARM with volatile caches: as [`Model::X86Line`], but stores to one line are ordered only
    /// where a store barrier stands between them.
    Arm,
    /// x86 with caches in the power-fail domain: every store is durable once visible, streamed
    /// bytes still need a fence.
    Eadr,
}

impl Model {
    /// All models.
    pub const ALL: [Self; 4] = [Self::X86Line, Self::Torn8, Self::Arm, Self::Eadr];
}

impl fmt::Display for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::X86Line => "x86-line",
            Self::Torn8 => "torn8",
            Self::Arm => "arm",
            Self::Eadr => "eadr",
        })
    }
}

/// A deliberate bug in the simulator itself.
///
/// A simulator that allows too little makes every store look safe, one that allows too much cries
/// wolf; the litmus tests have to notice both. Nothing but such tests uses these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Defect {
    /// A fence completes the flushes and streams of every thread.
    FenceCompletesAllThreads,
    /// A weak flush is durable at once.
    WeakFlushIsStrong,
    /// A strong flush waits for a fence.
    StrongFlushIsWeak,
    /// A flush covers stores made between it and the fence.
    FlushCoversLaterStores,
    /// A fence does not complete streams.
    FenceForgetsStreams,
    /// Streamed bytes are durable without a fence.
    StreamIsDurable,
    /// Stores to one line persist in any order.
    NoOrderInsideLine,
    /// Sixteen bytes are atomic.
    SixteenBytesAtomic,
    /// A store call persists whole or not at all.
    CallsAreAtomic,
    /// Only the newest value and the durable one are possible, nothing between.
    OnlyOldestAndNewest,
    /// Lines left dirty across a fence are forgotten: they count as lost.
    DirtyLinesAreLost,
    /// A locked operation does not drain flushes and streams.
    ExchangeIsNoFence,
    /// A call's return is not a crash point.
    ReturnIsNoCrashPoint,
    /// Store barriers order nothing.
    BarrierOrdersNothing,
    /// Stores need no barrier to be ordered.
    StoresNeedNoBarrier,
    /// Caches are lost although the model says they are kept.
    CachesAreLost,
    /// A disk sync makes nothing durable.
    SyncIsNoOp,
    /// Disk writes reach the disk in order.
    DiskKeepsOrder,
    /// A disk write is never torn.
    DiskWritesAreAtomic,
    /// After a failed sync, the next good one covers the lost writes.
    FailedSyncIsForgiven,
    /// A sync of a file makes nothing durable.
    FileSyncIsNoOp,
    /// A sync of a file makes all files durable.
    FileSyncCoversAllFiles,
    /// After a failed sync of a file, the next good one covers the lost writes.
    FailedFileSyncIsForgiven,
    /// A length that was set is durable at once.
    FileLengthIsDurable,
    /// A write to a file is torn at pages alone.
    FileIsTornAtPages,
    /// What was written before a cut may come back behind it.
    FileCutsAreForgotten,
    /// A killed process takes its unflushed stores with it.
    KillLosesCaches,
    /// A killed process's stores become durable by its death.
    KillIsAFence,
}

impl Defect {
    /// All defects.
    pub const ALL: [Self; 28] = [
        Self::FenceCompletesAllThreads,
        Self::WeakFlushIsStrong,
        Self::StrongFlushIsWeak,
        Self::FlushCoversLaterStores,
        Self::FenceForgetsStreams,
        Self::StreamIsDurable,
        Self::NoOrderInsideLine,
        Self::SixteenBytesAtomic,
        Self::CallsAreAtomic,
        Self::OnlyOldestAndNewest,
        Self::DirtyLinesAreLost,
        Self::ExchangeIsNoFence,
        Self::ReturnIsNoCrashPoint,
        Self::BarrierOrdersNothing,
        Self::StoresNeedNoBarrier,
        Self::CachesAreLost,
        Self::SyncIsNoOp,
        Self::DiskKeepsOrder,
        Self::DiskWritesAreAtomic,
        Self::FailedSyncIsForgiven,
        Self::FileSyncIsNoOp,
        Self::FileSyncCoversAllFiles,
        Self::FailedFileSyncIsForgiven,
        Self::FileLengthIsDurable,
        Self::FileIsTornAtPages,
        Self::FileCutsAreForgotten,
        Self::KillLosesCaches,
        Self::KillIsAFence,
    ];

    /// The defects that only a store with files can notice.
    pub const OF_FILES: [Self; 6] = [
        Self::FileSyncIsNoOp,
        Self::FileSyncCoversAllFiles,
        Self::FailedFileSyncIsForgiven,
        Self::FileLengthIsDurable,
        Self::FileIsTornAtPages,
        Self::FileCutsAreForgotten,
    ];
}

/// A model, possibly with a defect: what the simulator goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rules {
    pub(crate) model: Model,
    pub(crate) defect: Option<Defect>,
    pub(crate) flush: FlushKind,
}

impl Rules {
    /// The rules of a model.
    #[must_use]
    pub const fn new(model: Model) -> Self {
        Self { model, defect: None, flush: FlushKind::Weak }
    }

    /// The rules of a model with a bug in them.
    #[must_use]
    pub const fn with_defect(model: Model, defect: Defect) -> Self {
        Self { model, defect: Some(defect), flush: FlushKind::Weak }
    }

    /// The rules with the flush instruction of older processors, `clflush`, which is durable when
    /// it executes.
    #[must_use]
    pub const fn with_strong_flush(self) -> Self {
        Self { flush: FlushKind::Strong, ..self }
    }

    /// The model.
    #[must_use]
    pub const fn model(self) -> Model {
        self.model
    }

    pub(crate) fn has(self, defect: Defect) -> bool {
        self.defect == Some(defect)
    }
}

impl From<Model> for Rules {
    fn from(model: Model) -> Self {
        Self::new(model)
    }
}
