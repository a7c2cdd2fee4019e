//! A file of the host as a disk: what a database is written home by, where it is shared.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use journal_core::block_device::check_request;
use libsqlite3_sys as sys;
use nvm_journal::ports::{
    BlockDevice, DeviceError, DeviceErrorKind, DeviceFacts, DeviceOperation, Overwrite,
};
use nvm_journal::{BlockNumber, BlockSize};

use super::host::{Host, HostFile};
use crate::error::Error;

/// The most bytes of one call: SQLite never asks its VFS for more than a page.
const CALL_BYTES: usize = 65536;
/// The number by which the system says that a disk is full.
const NO_SPACE: i32 = 28;

/// A database's file as a disk, read and written through the host's VFS.
///
/// Clones are handles to one file. What lies behind its end is zero, and a write there makes it
/// longer. The host's VFS has it, because a program that closes a file of its own would give back
/// the locks that SQLite has on it.
#[derive(Clone)]
pub(crate) struct HostDisk {
    file: Arc<Mutex<HostFile>>,
    block_size: BlockSize,
    block_count: u64,
}

fn device_error(operation: DeviceOperation, block: BlockNumber) -> impl FnOnce(i32) -> DeviceError {
    move |code| {
        let os = (code & 0xff == sys::SQLITE_FULL).then_some(NO_SPACE);
        DeviceError::new(operation, DeviceErrorKind::Io { os }, block)
    }
}

/// Why a file could not be cut to a length.
pub(crate) fn error_of_cut(len: u64, code: i32) -> block_files::Error {
    let error = device_error(DeviceOperation::Write, BlockNumber(len))(code);
    nvm_journal::Error::Device(error).into()
}

fn done(code: i32) -> Result<(), i32> {
    if code == sys::SQLITE_OK { Ok(()) } else { Err(code) }
}

impl HostDisk {
    pub(crate) fn open(
        host: Host,
        path: &Path,
        block_size: BlockSize,
        block_count: u64,
    ) -> Result<Self, Error> {
        let file = Arc::new(Mutex::new(host.open_own(path)?));
        Ok(Self { file, block_size, block_count })
    }

    fn file(&self) -> MutexGuard<'_, HostFile> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The length of the file, or SQLite's code.
    pub(crate) fn len(&self) -> Result<u64, i32> {
        self.file().len()
    }

    /// Gives the file a length, durably.
    pub(crate) fn cut(&self, len: u64) -> Result<(), i32> {
        let mut file = self.file();
        if file.len()? == len {
            return Ok(());
        }
        let len = i64::try_from(len).map_err(|_| sys::SQLITE_IOERR_TRUNCATE)?;
        done(file.set_len(len))?;
        done(file.sync())
    }

    /// Keeps other programs away, as far as none has the file by now, or lets them have it again.
    pub(crate) fn keep(&self, keeps: bool) {
        let mut file = self.file();
        if !keeps {
            let _code = file.unlock(sys::SQLITE_LOCK_NONE);
        } else if file.lock(sys::SQLITE_LOCK_SHARED) == sys::SQLITE_OK {
            let _code = file.lock(sys::SQLITE_LOCK_EXCLUSIVE);
        }
    }

    fn place(
        &self,
        operation: DeviceOperation,
        first: BlockNumber,
        bytes: usize,
    ) -> Result<i64, DeviceError> {
        check_request(operation, (self.block_size, self.block_count), first, bytes)?;
        let at = first.raw().checked_mul(self.block_size.bytes() as u64);
        at.and_then(|at| i64::try_from(at).ok())
            .ok_or_else(|| DeviceError::new(operation, DeviceErrorKind::OutOfRange, first))
    }
}

impl BlockDevice for HostDisk {
    fn facts(&self) -> DeviceFacts {
        DeviceFacts::new(512, Overwrite::MayLeaveGarbage)
    }

    fn block_size(&self) -> BlockSize {
        self.block_size
    }

    fn block_count(&self) -> u64 {
        self.block_count
    }

    fn read(&mut self, first: BlockNumber, into: &mut [u8]) -> Result<(), DeviceError> {
        let at = self.place(DeviceOperation::Read, first, into.len())?;
        let mut file = self.file();
        let mut calls = (at..).step_by(CALL_BYTES).zip(into.chunks_mut(CALL_BYTES));
        let read = calls.try_for_each(|(at, into)| done(file.read(at, into)));
        read.map_err(device_error(DeviceOperation::Read, first))
    }

    fn write(&mut self, first: BlockNumber, from: &[u8]) -> Result<(), DeviceError> {
        let at = self.place(DeviceOperation::Write, first, from.len())?;
        let mut file = self.file();
        let mut calls = (at..).step_by(CALL_BYTES).zip(from.chunks(CALL_BYTES));
        let written = calls.try_for_each(|(at, from)| done(file.write(at, from)));
        written.map_err(device_error(DeviceOperation::Write, first))
    }

    fn sync(&mut self) -> Result<(), DeviceError> {
        done(self.file().sync()).map_err(device_error(DeviceOperation::Sync, BlockNumber(0)))
    }
}
