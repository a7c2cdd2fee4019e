//! The machine that a journal runs on, as one type parameter.

use core::marker::PhantomData;

use crate::order::ordered::{Hook, NoHook};
use crate::ports::block_device::BlockDevice;
use crate::ports::kernels::{Kernels, PortableKernels};
use crate::ports::pmem::Pmem;

/// What a journal runs on: its memory, its device, its hook and its kernels.
///
/// It is a name for four types, and has no values. [`On`] implements it for any four, so code that
/// takes every journal needs one type parameter for all of them:
///
/// ```
/// use journal_core::policy::Policy;
/// use journal_core::units::LaneNumber;
/// use journal_core::{Journal, Machine};
///
/// fn is_low<L: Policy, M: Machine>(journal: &Journal<'_, L, M>, lane: LaneNumber) -> bool {
///     journal.free_bytes(lane).is_some_and(|bytes| bytes < 1 << 16)
/// }
/// ```
pub trait Machine {
    /// The persistent memory.
    type Pmem: Pmem;
    /// The device that holds the blocks.
    type Disk: BlockDevice;
    /// What sees every step of persistence: [`NoHook`], except in tests.
    type Hook: Hook;
    /// The computing that the processor may do faster than portable code can.
    type Kernels: Kernels;
}

/// A machine of these four types. No value of it exists.
#[derive(Debug)]
pub struct On<P, D, H = NoHook, K = PortableKernels>(PhantomData<(P, D, H, K)>);

impl<P: Pmem, D: BlockDevice, H: Hook, K: Kernels> Machine for On<P, D, H, K> {
    type Pmem = P;
    type Disk = D;
    type Hook = H;
    type Kernels = K;
}
