//! The machine that a shared journal runs on, as one type parameter.

use journal_core::{BlockDevice, Hook, NoHook, PmemShare, PmemSplit};
use pmem_sys::{NativeKernels, Region};

use crate::disk::file::FileDisk;

/// What a [`Journal`](crate::Journal) runs on: its memory, its disk and its hook.
///
/// It is a name for these types, and has no values. [`On`] is one for any three of them, and
/// [`Native`] is the default, which no program has to spell. Code that takes every journal has one
/// type parameter for all of them:
///
/// ```
/// use nvm_journal::policy::Policy;
/// use nvm_journal::{BlockNumber, Error, Machine, Transaction};
///
/// fn clear<L: Policy, M: Machine>(tx: &mut Transaction<'_, L, M>) -> Result<(), Error> {
///     tx.write_at(BlockNumber(0), 0, &[0; 8])
/// }
/// ```
///
/// Every [machine of the core](journal_core::Machine) whose parts threads can share is one.
pub trait Machine:
    journal_core::Machine<
        Pmem: PmemSplit + PmemShare + Send + Sync,
        Disk: BlockDevice + Clone + Send,
        Hook: Hook + Clone + Send + Sync,
        Kernels = NativeKernels,
    > + 'static
{
}

impl<M> Machine for M where
    M: journal_core::Machine<
            Pmem: PmemSplit + PmemShare + Send + Sync,
            Disk: BlockDevice + Clone + Send,
            Hook: Hook + Clone + Send + Sync,
            Kernels = NativeKernels,
        > + 'static
{
}

/// The machine of this memory, this disk and this hook.
pub type On<P, D, H = NoHook> = journal_core::On<P, D, H, NativeKernels>;

/// The default machine: mapped persistent memory, and a file or block device of the system.
pub type Native = On<Region, FileDisk>;
