//! The core of nvm-journal: the ports a medium, a device and a policy plug into, and the types that
//! make the order of persistence part of the type system.
//!
//! The crate is `no_std`, allocates nothing, contains no `unsafe`, spawns nothing and reads no
//! clock. Everything it needs from outside comes through three traits, and each trait method says
//! what a crash may do to it:
//!
//! | port | in | implemented by |
//! |---|---|---|
//! | [`Pmem`] | [`pmem`] | `pmem-sys` on real memory, `sim-disk` in the simulator, you on your chip |
//! | [`BlockDevice`] | [`block_device`] | the front door's file disk, `sim-disk`, you |
//! | [`Policy`] | [`policy`] | the crates under `policies/`, you |
//!
//! [`order`] holds the `Dirty -> InFlight -> Durable` states: only a [`Durable`] can be
//! acknowledged, and only a flush followed by a fence makes one.

#![no_std]
#![forbid(unsafe_code)]
#![warn(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]
#![warn(clippy::arithmetic_side_effects)]

pub mod block_device;
pub mod check;
pub mod error;
pub mod hook;
pub mod order;
pub mod pmem;
pub mod policy;
pub mod units;

pub use block_device::{BlockDevice, DeviceFacts, Overwrite};
pub use error::{DeviceError, DeviceErrorKind, DeviceOperation, MediumError, MediumErrorKind};
pub use hook::{Hook, NoHook, Site, SiteKind};
pub use order::{Dirty, Durable, InFlight, Ordered, OrderedDevice, Unsynced};
pub use pmem::{Granularity, Pmem, PmemFacts, PmemRead, PmemShare, PmemSplit};
pub use policy::{Policy, PolicyId};
pub use units::{BlockNumber, BlockSize, LINE_BYTES, Offset, WORD_BYTES};
