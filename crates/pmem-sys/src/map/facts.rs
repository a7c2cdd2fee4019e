//! Facts about a mapping, with reasons: a user with a weaker mapping than asked for learns why.
//!
//! Guarantees: the granularity in these facts is the one the span works by; it was never assumed,
//! always either granted by the kernel (`MAP_SYNC`) or the weaker one. Facts do not change.

use core::fmt;

use journal_core::Granularity;

use crate::processor::method::Method;

/// How a span reaches durability, and why this way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MapFacts {
    /// How far a store has to be pushed.
    pub granularity: Granularity,
    /// Why so.
    pub reason: Reason,
    /// With which instructions.
    pub method: Method,
    /// How often the memory has lost power before it had saved what was on its way to it. `None`
    /// if the kernel does not count that. A number larger than the last open saw means that what
    /// was called durable before may be damaged.
    pub dirty_shutdowns: Option<u64>,
}

/// Why a span has the granularity it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// The kernel granted `MAP_SYNC`: flushing lines is enough.
    MapSync,
    /// The kernel granted `MAP_SYNC` and says that this memory's power-fail domain has the caches
    /// in it.
    PersistentCaches,
    /// The kernel refused `MAP_SYNC` (no persistent memory, or a file system without direct
    /// access), so the kernel writes pages back.
    MapSyncRefused {
        /// The system's error number.
        os: i32,
    },
    /// The file system keeps its files in memory, where there is nothing to write back to: lines
    /// are flushed, for their cost. No content survives a power loss.
    FileInMemory,
    /// The page cache was asked for.
    PageCacheAsked,
    /// Direct I/O was asked for.
    DirectIoAsked,
    /// This processor, or this build, has no instruction that writes a line back.
    NoLineFlush,
    /// Plain memory: it behaves like persistent memory until the power goes, or the process.
    Anonymous,
    /// Plain memory made slower.
    Emulated,
}

impl Reason {
    /// Whether the content is gone when the process is: what is called durable then is not.
    #[must_use]
    pub const fn is_volatile(self) -> bool {
        matches!(self, Self::Anonymous | Self::Emulated)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MapSync => f.write_str("MAP_SYNC granted"),
            Self::PersistentCaches => f.write_str("MAP_SYNC granted, caches survive power loss"),
            Self::MapSyncRefused { os } => write!(f, "MAP_SYNC refused with os error {os}"),
            Self::FileInMemory => f.write_str("a file in memory"),
            Self::PageCacheAsked => f.write_str("the page cache was asked for"),
            Self::DirectIoAsked => f.write_str("direct I/O was asked for"),
            Self::NoLineFlush => f.write_str("no instruction writes a line back"),
            Self::Anonymous => f.write_str("plain memory"),
            Self::Emulated => f.write_str("emulated memory"),
        }
    }
}
