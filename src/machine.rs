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

#[cfg(test)]
pub(crate) mod tests {
    //! A machine for tests that need one and do not look. All of them have this one, so that the
    //! engine is compiled once.

    use std::collections::BTreeMap;
    use std::sync::{Arc, Mutex, MutexGuard};

    use journal_core::{
        BlockDevice, BlockNumber, BlockSize, DeviceError, DeviceErrorKind, DeviceFacts,
        DeviceOperation, Overwrite,
    };
    use pmem_sys::Region;
    use sim_disk::Mutator;

    use crate::machine::On;

    pub(crate) type TinyMachine = On<Region, TinyDisk, Mutator>;

    type Written = BTreeMap<u64, Box<[u8]>>;

    /// A disk in memory. Blocks that were never written are zeroes.
    #[derive(Clone, Debug)]
    pub(crate) struct TinyDisk {
        size: BlockSize,
        blocks: u64,
        facts: DeviceFacts,
        refuses: bool,
        written: Arc<Mutex<Written>>,
    }

    impl TinyDisk {
        /// A disk of the smallest blocks.
        pub(crate) fn new(blocks: u64) -> Self {
            Self::of(BlockSize::MIN, blocks)
        }

        pub(crate) fn of(size: BlockSize, blocks: u64) -> Self {
            let facts = DeviceFacts::cautious();
            Self { size, blocks, facts, refuses: false, written: Arc::default() }
        }

        /// The disk, but it tears no block.
        pub(crate) fn atomic(self) -> Self {
            let facts = DeviceFacts::new(self.size.bytes() as u32, Overwrite::OldOrNew);
            Self { facts, ..self }
        }

        /// The disk, but it refuses every write.
        #[cfg(feature = "tracing")]
        pub(crate) fn refusing(self) -> Self {
            Self { refuses: true, ..self }
        }

        fn written(&self) -> MutexGuard<'_, Written> {
            self.written.lock().expect("no panic")
        }
    }

    impl BlockDevice for TinyDisk {
        fn facts(&self) -> DeviceFacts {
            self.facts
        }

        fn block_size(&self) -> BlockSize {
            self.size
        }

        fn block_count(&self) -> u64 {
            self.blocks
        }

        fn read(&mut self, first: BlockNumber, into: &mut [u8]) -> Result<(), DeviceError> {
            let written = self.written();
            for (number, into) in (first.raw()..).zip(into.chunks_mut(self.size.bytes())) {
                match written.get(&number) {
                    Some(image) => into.copy_from_slice(image),
                    None => into.fill(0),
                }
            }
            Ok(())
        }

        fn write(&mut self, first: BlockNumber, from: &[u8]) -> Result<(), DeviceError> {
            if self.refuses {
                let kind = DeviceErrorKind::Io { os: None };
                return Err(DeviceError::new(DeviceOperation::Write, kind, first));
            }
            let images = from.chunks(self.size.bytes()).map(Box::from);
            self.written().extend((first.raw()..).zip(images));
            Ok(())
        }

        fn sync(&mut self) -> Result<(), DeviceError> {
            Ok(())
        }
    }
}
