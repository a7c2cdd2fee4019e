//! Errors from below the journal. Each is typed, and says what went wrong and where.
//!
//! All errors are `Copy`, carry no strings and allocate nothing. A medium or a device that has
//! failed once is not asked again: the owner of the handle makes it sticky-failed.

use core::fmt;

use crate::units::{BlockNumber, Offset};

/// What went wrong with persistent memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MediumErrorKind {
    /// The range does not lie inside the region.
    OutOfRange,
    /// The memory reports an uncorrectable error there; its content is gone.
    Poisoned,
    /// The read failed but may succeed later; it says nothing about the content.
    Transient,
    /// Making flushed bytes durable failed (`msync`, `fdatasync`, a bus). What was in flight is
    /// durable, partly durable or lost, and a second try would prove nothing.
    FenceFailed {
        /// The operating system's error number, where there is one.
        os: Option<i32>,
    },
    /// An earlier fence of this span failed; the handle refuses to go on.
    Stuck,
}

/// An operation on persistent memory failed: what, and on which range of the region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MediumError {
    /// What went wrong.
    pub kind: MediumErrorKind,
    /// Where the range begins.
    pub at: Offset,
    /// How many bytes it has.
    pub len: usize,
}

impl MediumError {
    /// The error `kind` on `len` bytes at `at`.
    #[must_use]
    pub const fn new(kind: MediumErrorKind, at: Offset, len: usize) -> Self {
        Self { kind, at, len }
    }

    /// This error for the owner of the whole that the region is a part of: the region begins at
    /// `start` there.
    #[must_use]
    pub(crate) const fn of_whole(self, start: Offset) -> Self {
        Self { at: Offset(start.raw().saturating_add(self.at.raw())), ..self }
    }
}

impl fmt::Display for MediumError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.kind {
            MediumErrorKind::OutOfRange => "range outside the region",
            MediumErrorKind::Poisoned => "poisoned memory",
            MediumErrorKind::Transient => "transient read error",
            MediumErrorKind::FenceFailed { .. } => "fence failed",
            MediumErrorKind::Stuck => "refused after an earlier failed fence",
        };
        write!(f, "{what} ({} bytes at {})", self.len, self.at)?;
        if let MediumErrorKind::FenceFailed { os: Some(code) } = self.kind {
            write!(f, ": os error {code}")?;
        }
        Ok(())
    }
}

impl core::error::Error for MediumError {}

/// Which call of the block device failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeviceOperation {
    /// Reading blocks.
    Read,
    /// Writing blocks.
    Write,
    /// Making earlier writes durable.
    Sync,
}

/// What went wrong with the block device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DeviceErrorKind {
    /// The blocks do not lie inside the device.
    OutOfRange,
    /// The buffer is not a whole number of blocks.
    WrongLength,
    /// The device failed the call. A failed write may have reached the device in part. After a
    /// failed sync any write since the last good sync may be lost, now or at a later sync that
    /// claims success.
    Io {
        /// The operating system's error number, where there is one.
        os: Option<i32>,
    },
}

/// A call of the block device failed: which, what, and on which blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DeviceError {
    /// The call.
    pub operation: DeviceOperation,
    /// What went wrong.
    pub kind: DeviceErrorKind,
    /// The first block of the call (zero for a sync).
    pub block: BlockNumber,
}

impl DeviceError {
    /// The error `kind` of `operation` at `block`.
    #[must_use]
    pub const fn new(
        operation: DeviceOperation,
        kind: DeviceErrorKind,
        block: BlockNumber,
    ) -> Self {
        Self { operation, kind, block }
    }
}

impl fmt::Display for DeviceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.operation {
            DeviceOperation::Read => write!(f, "read of {}", self.block)?,
            DeviceOperation::Write => write!(f, "write of {}", self.block)?,
            DeviceOperation::Sync => write!(f, "sync")?,
        }
        match self.kind {
            DeviceErrorKind::OutOfRange => write!(f, ": outside the device"),
            DeviceErrorKind::WrongLength => write!(f, ": buffer is not a whole block"),
            DeviceErrorKind::Io { os: Some(code) } => write!(f, ": os error {code}"),
            DeviceErrorKind::Io { os: None } => write!(f, ": device error"),
        }
    }
}

impl core::error::Error for DeviceError {}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::string::ToString as _;

    use super::*;

    #[test]
    fn errors_say_what_and_where() {
        let poisoned = MediumError::new(MediumErrorKind::Poisoned, Offset(128), 64);
        assert_eq!(poisoned.to_string(), "poisoned memory (64 bytes at +128)");
        let fence = MediumError::new(MediumErrorKind::FenceFailed { os: Some(5) }, Offset(0), 4096);
        assert_eq!(fence.to_string(), "fence failed (4096 bytes at +0): os error 5");
        let write = DeviceError::new(
            DeviceOperation::Write,
            DeviceErrorKind::Io { os: Some(28) },
            BlockNumber(9),
        );
        assert_eq!(write.to_string(), "write of block 9: os error 28");
    }
}
