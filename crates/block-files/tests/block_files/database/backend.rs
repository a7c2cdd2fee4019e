//! A file of a journal as redb wants its storage.

use core::cell::Cell;
use std::io;

use block_files::BlockFile;
use redb::StorageBackend;

thread_local! {
    /// Whether a sync of this thread's backends does nothing: a bug to be found.
    static LIES: Cell<bool> = const { Cell::new(false) };
}

pub(crate) fn lie(on: bool) {
    LIES.set(on);
}

#[derive(Debug)]
pub(crate) struct Backend(pub(crate) BlockFile);

impl StorageBackend for Backend {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.len()?)
    }

    fn read(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        if self.0.read_at(at, into)? == into.len() {
            Ok(())
        } else {
            Err(io::ErrorKind::UnexpectedEof.into())
        }
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        Ok(self.0.set_len(len)?)
    }

    fn sync_data(&self) -> io::Result<()> {
        if LIES.get() {
            return Ok(());
        }
        Ok(self.0.sync()?)
    }

    fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        Ok(self.0.write_at(at, bytes)?)
    }
}
