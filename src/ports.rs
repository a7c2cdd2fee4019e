//! For authors of memories and disks: the ports, and the types that they are made of.
//!
//! - A memory implements [`PmemRead`] and [`Pmem`]. For a [`Journal`](crate::Journal), which
//!   threads share, it also implements [`PmemSplit`] and [`PmemShare`].
//! - A disk implements [`BlockDevice`].
//! - A journal runs on any two of them: see [`On`](crate::On).
//! - [`Kernels`] is how checksums and comparisons are computed. [`NativeKernels`] does so with the
//!   best instructions of this machine.
//! - A [`Hook`] sees each step of persistence, for crash tests. To implement one, depend on
//!   `nvm-journal-core`, which has the names of the steps.
//!
//! Each method says what a crash may do to it.

#[doc(inline)]
pub use journal_core::{
    BlockDevice, DeviceError, DeviceErrorKind, DeviceFacts, DeviceOperation, Granularity, Hook,
    Kernels, MediumError, MediumErrorKind, NoHook, Offset, Overwrite, Pmem, PmemFacts, PmemRead,
    PmemShare, PmemSplit,
};
#[doc(inline)]
pub use pmem_sys::NativeKernels;
