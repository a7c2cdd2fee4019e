//! A file as the block device.
//!
//! **Crash**: a power loss may do what [`BlockDevice`] says. Of the writes since the last
//! [`sync`](BlockDevice::sync) any may be there, in any order, torn where the disk below tears
//! ([`DeviceFacts`]). A killed process loses none of its writes. Its lock goes with it.

use std::fs::File;
use std::io::{self, IoSlice};
use std::os::unix::fs::FileExt as _;
use std::sync::{Arc, PoisonError, RwLock};

use journal_core::block_device::{check_request, check_run, write_zero_blocks};
use journal_core::{
    BlockDevice, BlockNumber, BlockSize, DeviceError, DeviceErrorKind, DeviceFacts, DeviceOperation,
};
use pmem_sys::Step;
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::{Errno, pwritev, retry_on_intr};

use crate::disk::direct::{Bounce, is_aligned};
use crate::disk::error::{FileDiskError, FileDiskErrorKind};
use crate::disk::syncs::Syncs;

/// The most buffers that one system call takes.
const SLICES_MAX: usize = 1024;

/// A file, or a block device's special file, read and written in blocks.
///
/// Clones are handles to the same file; several threads may use them at once. While one of them
/// lives, no other caller can have the file as a disk, in this process or another. The file is
/// locked (`flock`), against callers that ask for the lock. A program that writes around the lock
/// changes a store under its owner's feet; so does mounting the device.
///
/// | call | does |
/// |---|---|
/// | `read` | `pread` |
/// | `write`, `write_vectored` | one `pwrite` or `pwritev`, unless the system cuts it short |
/// | `discard` | `fallocate` makes a hole, where that can be; a growing file becomes shorter |
/// | `write_zeroes` | `fallocate` zeroes the range, where that can be; else `pwrite` |
/// | `sync` | `fdatasync`: the disk's own cache is emptied as well |
///
/// Errors carry the system's number ([`DeviceErrorKind::Io`]). After a failed `sync` the system may
/// call pages clean that never reached the disk, and then a later `sync` would succeed. So a
/// journal calls it no more, and answers every caller with an error until it is opened again. For
/// the same reason a `sync` fails where that of a clone has failed since the last one.
///
/// ```
/// use nvm_journal::ports::BlockDevice;
/// use nvm_journal::{BlockNumber, BlockSize, FileDisk};
///
/// # let path = std::env::temp_dir().join(format!("file-disk-{}", std::process::id()));
/// let mut disk = FileDisk::create(&path, BlockSize::DEFAULT, 100)?;
/// disk.write_vectored(BlockNumber(7), &[&[7; 4096], &[8; 4096]])?;
/// disk.sync()?;
/// let refused = FileDisk::open(&path, BlockSize::DEFAULT).expect_err("the lock is taken");
/// assert!(refused.to_string().ends_with("already open, here or in another process"));
/// # std::fs::remove_file(path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct FileDisk {
    pub(super) file: Arc<File>,
    pub(super) block_size: BlockSize,
    pub(super) block_count: u64,
    pub(super) facts: DeviceFacts,
    /// `Some` if the system's cache is passed by.
    pub(super) bounce: Option<Bounce>,
    /// Whether what lies behind the end of the file is zero, and can be written.
    pub(super) grows: bool,
    /// Taken alone to make a file shorter that grows, and shared to write to it. So what another
    /// handle writes behind the end is not cut off.
    pub(super) end: Arc<RwLock<()>>,
    pub(super) syncs: Syncs,
}

impl FileDisk {
    /// States what the disk below does in a power loss, where more is known than the default. By
    /// default, an overwrite torn by a power loss may leave garbage in sectors of 512 bytes.
    #[must_use]
    pub fn with_facts(mut self, facts: DeviceFacts) -> Self {
        self.facts = facts;
        self
    }

    /// Whether the system's cache is passed by: [`direct`](crate::FileDiskOptions::direct).
    #[must_use]
    pub const fn is_direct(&self) -> bool {
        self.bounce.is_some()
    }

    /// The length of the file. The last whole block of a disk that does not
    /// [grow](crate::FileDiskOptions::growing) may end before it.
    ///
    /// # Errors
    /// `System`.
    pub fn file_len(&self) -> Result<u64, FileDiskError> {
        self.file_len_now().map_err(FileDiskError::at(Step::Inspect))
    }

    /// Gives the file of a disk that [grows](crate::FileDiskOptions::growing) this length: cuts it,
    /// or makes it longer by zeroes. It is durable on return. While a journal has the disk, this is
    /// for what no block of the journal needs.
    ///
    /// # Errors
    /// `CannotGrow`, `System`.
    pub fn cut(&self, bytes: u64) -> Result<(), FileDiskError> {
        if !self.grows {
            return Err(FileDiskErrorKind::CannotGrow.into());
        }
        self.file.set_len(bytes).map_err(FileDiskError::at(Step::Allocate))?;
        self.syncs.run_beside(|| self.file.sync_all()).map_err(FileDiskError::at(Step::Sync))
    }

    fn file_len_now(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn check(
        &self,
        operation: DeviceOperation,
        first: BlockNumber,
        bytes: usize,
    ) -> Result<u64, DeviceError> {
        check_request(operation, (self.block_size, self.block_count), first, bytes)?;
        Ok(first.raw() * self.block_size.bytes() as u64)
    }

    /// Writes parts one behind the other. Their lengths were checked.
    fn write_parts(&mut self, from: &[&[u8]], at: u64) -> io::Result<()> {
        let Self { file, bounce, end, grows, .. } = self;
        let _end = grows.then(|| end.read().unwrap_or_else(PoisonError::into_inner));
        match (bounce, from) {
            (Some(bounce), _) if !from.iter().all(|part| is_aligned(part)) => {
                bounce.write(file, from, at)
            }
            (_, [only]) => file.write_all_at(only, at),
            _ => write_all_vectored(file, from, at),
        }
    }
}

/// Reads; what the file does not have is zero.
fn read_with_zeroes(file: &File, mut into: &mut [u8], mut at: u64) -> io::Result<()> {
    while !into.is_empty() {
        match file.read_at(into, at) {
            Ok(0) => {
                into.fill(0);
                return Ok(());
            }
            Ok(bytes) => {
                into = &mut into[bytes..];
                at += bytes as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn write_all_vectored(file: &File, from: &[&[u8]], mut at: u64) -> io::Result<()> {
    for parts in from.chunks(SLICES_MAX) {
        let mut slices: Vec<_> = parts.iter().map(|part| IoSlice::new(part)).collect();
        let mut left = slices.as_mut_slice();
        // Drops the empty slices.
        IoSlice::advance_slices(&mut left, 0);
        while !left.is_empty() {
            let written = retry_on_intr(|| pwritev(file, left, at))?;
            if written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            at += written as u64;
            IoSlice::advance_slices(&mut left, written);
        }
    }
    Ok(())
}

fn failed(operation: DeviceOperation, block: BlockNumber) -> impl FnOnce(io::Error) -> DeviceError {
    move |error| {
        DeviceError::new(operation, DeviceErrorKind::Io { os: error.raw_os_error() }, block)
    }
}

impl BlockDevice for FileDisk {
    fn facts(&self) -> DeviceFacts {
        self.facts
    }

    fn block_size(&self) -> BlockSize {
        self.block_size
    }

    fn block_count(&self) -> u64 {
        self.block_count
    }

    fn read(&mut self, first: BlockNumber, into: &mut [u8]) -> Result<(), DeviceError> {
        let at = self.check(DeviceOperation::Read, first, into.len())?;
        let read = match &mut self.bounce {
            Some(bounce) if !is_aligned(into) => bounce.read(&self.file, into, at),
            _ if self.grows => read_with_zeroes(&self.file, into, at),
            _ => self.file.read_exact_at(into, at),
        };
        read.map_err(failed(DeviceOperation::Read, first))
    }

    fn write(&mut self, first: BlockNumber, from: &[u8]) -> Result<(), DeviceError> {
        let at = self.check(DeviceOperation::Write, first, from.len())?;
        self.write_parts(&[from], at).map_err(failed(DeviceOperation::Write, first))
    }

    fn write_vectored(&mut self, first: BlockNumber, from: &[&[u8]]) -> Result<(), DeviceError> {
        let mut bytes = 0_usize;
        for part in from {
            self.check(DeviceOperation::Write, first, part.len())?;
            bytes = bytes.saturating_add(part.len());
        }
        let at = self.check(DeviceOperation::Write, first, bytes)?;
        self.write_parts(from, at).map_err(failed(DeviceOperation::Write, first))
    }

    fn discard(&mut self, first: BlockNumber, blocks: u64) -> Result<(), DeviceError> {
        let size = self.block_size.bytes() as u64;
        let end = check_run(DeviceOperation::Write, self.block_count, first, blocks)?;
        // No larger than the disk, whose length is a number of the system's.
        let (at, end) = (first.raw() * size, end * size);
        let discard = || {
            if self.grows {
                let _end = self.end.write().unwrap_or_else(PoisonError::into_inner);
                let len = self.file_len_now()?;
                if end >= len {
                    return if at < len { self.file.set_len(at) } else { Ok(()) };
                }
            }
            let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            match retry_on_intr(|| fallocate(&*self.file, hole, at, end - at)) {
                // What the file system cannot do is no loss.
                Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
                done => done.map_err(io::Error::from),
            }
        };
        if blocks == 0 {
            return Ok(());
        }
        discard().map_err(failed(DeviceOperation::Write, first))
    }

    fn write_zeroes(&mut self, first: BlockNumber, blocks: u64) -> Result<(), DeviceError> {
        let size = self.block_size.bytes() as u64;
        let end = check_run(DeviceOperation::Write, self.block_count, first, blocks)?;
        let (at, mut end) = (first.raw() * size, end * size);
        if self.grows {
            // What lies behind the end of the file is zero.
            let len = self.file_len_now().map_err(failed(DeviceOperation::Write, first))?;
            end = end.min(len.next_multiple_of(size));
        }
        if end <= at {
            return Ok(());
        }
        let zeroes = FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE;
        match retry_on_intr(|| fallocate(&*self.file, zeroes, at, end - at)) {
            // What the file system cannot do is written.
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
                write_zero_blocks(self, first, (end - at) / size)
            }
            done => done.map_err(|error| failed(DeviceOperation::Write, first)(error.into())),
        }
    }

    fn sync(&mut self) -> Result<(), DeviceError> {
        let synced = self.syncs.run(|| self.file.sync_data());
        synced.map_err(failed(DeviceOperation::Sync, BlockNumber(0)))
    }
}

#[cfg(test)]
pub(crate) mod tests;
