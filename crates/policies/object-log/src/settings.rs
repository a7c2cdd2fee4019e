//! What can be chosen about the policy, and what of that can be.
//!
//! No setting is on the medium: a journal may be opened with other settings than it was written
//! with, and is read the same.

use core::fmt;
use core::num::NonZeroU32;
use core::time::Duration;

use journal_core::policy::Pacing;

/// Bytes of an object's id in a `TxnInfo`.
const ID_BYTES: u32 = 8;

/// Ids for which a `TxnInfo` has no room: a count and a mark take their places.
const IDS_LESS: u32 = 2;

/// Settings of the policy, each with its default.
///
/// ```
/// use object_log::{ObjectLog, Settings};
///
/// let policy = ObjectLog::with(Settings::new().object_bytes(128))?;
/// # let _ = policy;
/// # Ok::<(), object_log::SettingsError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    pub(crate) object_bytes: u32,
    pub(crate) whole_at: u16,
    txn_info_bytes: u32,
    commit_after: Duration,
    pub(crate) checkpoint_at: u8,
    checkpoint_after: Duration,
    pub(crate) compares: bool,
}

impl Settings {
    /// The fewest bytes of a `TxnInfo`.
    pub const TXN_INFO_BYTES_MIN: u32 = 256;
    /// The most bytes of a `TxnInfo`.
    pub const TXN_INFO_BYTES_MAX: u32 = 128 << 10;

    /// The defaults.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            object_bytes: 256,
            whole_at: 224,
            txn_info_bytes: 8 << 10,
            commit_after: Duration::from_secs(5),
            checkpoint_at: 128,
            checkpoint_after: Duration::from_secs(10 * 60),
            compares: false,
        }
    }

    /// The size of the pieces into which a block is cut where the store names no object size. At
    /// least 1, and no power of two need be. 256.
    #[must_use]
    pub const fn object_bytes(self, object_bytes: u32) -> Self {
        Self { object_bytes, ..self }
    }

    /// The share of a block, in 256ths, from which on it is logged whole: 1 to 256. A whole image
    /// needs nothing that lies before it, so that space is freed and blocks are read with less
    /// work. 224, seven eighths.
    #[must_use]
    pub const fn whole_at(self, whole_at: u16) -> Self {
        Self { whole_at, ..self }
    }

    /// The size of the list in which a running transaction names its objects, 8 bytes each. When
    /// the list is full the transaction commits. 256 bytes to 128 KiB; 8 KiB, which holds 1022.
    #[must_use]
    pub const fn txn_info_bytes(self, txn_info_bytes: u32) -> Self {
        Self { txn_info_bytes, ..self }
    }

    /// When a running transaction commits at the latest. 5 seconds.
    #[must_use]
    pub const fn commit_after(self, commit_after: Duration) -> Self {
        Self { commit_after, ..self }
    }

    /// The fraction of a lane, in 256ths, from which on blocks are written home. 128, half.
    #[must_use]
    pub const fn checkpoint_at(self, checkpoint_at: u8) -> Self {
        Self { checkpoint_at, ..self }
    }

    /// When blocks are written home at the latest. 10 minutes.
    #[must_use]
    pub const fn checkpoint_after(self, checkpoint_after: Duration) -> Self {
        Self { checkpoint_after, ..self }
    }

    /// Whether a block that is written whole is compared with its old image, where the journal
    /// keeps that in ordinary memory. Then only the objects that differ are logged, and nothing if
    /// none does. It costs a copy and a comparison of each such block. Off: as published, the store
    /// says which objects change.
    #[must_use]
    pub const fn compares(self, compares: bool) -> Self {
        Self { compares, ..self }
    }

    pub(crate) const fn first_wrong(&self) -> Option<SettingsError> {
        if self.object_bytes == 0 {
            return Some(SettingsError::ObjectBytes);
        }
        if self.whole_at == 0 || self.whole_at > 256 {
            return Some(SettingsError::WholeAt { given: self.whole_at });
        }
        let given = self.txn_info_bytes;
        if given < Self::TXN_INFO_BYTES_MIN || given > Self::TXN_INFO_BYTES_MAX {
            return Some(SettingsError::TxnInfoBytes { given });
        }
        if self.commit_after.is_zero() || self.checkpoint_after.is_zero() {
            return Some(SettingsError::NoTime);
        }
        None
    }

    pub(crate) const fn pacing(&self) -> Pacing {
        let ids = (self.txn_info_bytes / ID_BYTES).saturating_sub(IDS_LESS);
        Pacing::new(Some(self.commit_after), NonZeroU32::new(ids), Some(self.checkpoint_after))
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self::new()
    }
}

/// A setting that cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SettingsError {
    /// Objects of no bytes.
    ObjectBytes,
    /// A share that is not from 1 to 256.
    WholeAt {
        /// The one given.
        given: u16,
    },
    /// A `TxnInfo` shorter or longer than it can be.
    TxnInfoBytes {
        /// The bytes given.
        given: u32,
    },
    /// A timer of no time at all.
    NoTime,
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ObjectBytes => f.write_str("objects have at least one byte"),
            Self::WholeAt { given } => write!(f, "{given} is no share from 1 to 256"),
            Self::TxnInfoBytes { given } => {
                write!(f, "a list of {given} bytes is not from 256 bytes to 128 KiB")
            }
            Self::NoTime => f.write_str("a timer of no time would never let a transaction grow"),
        }
    }
}

impl core::error::Error for SettingsError {}
