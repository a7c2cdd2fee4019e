//! SQLite on files of the caller's: simulated ones, for example, whose power can be cut.

use core::fmt;
use std::io;

/// An open file, for [`register_files`](crate::register_files). One connection at a time has it.
pub trait PlainFile: Send {
    /// Reads bytes from `at` on; returns how many there are. Fewer than asked for means that the
    /// file ends there.
    ///
    /// # Errors
    /// What went wrong.
    fn read_at(&mut self, at: u64, into: &mut [u8]) -> io::Result<usize>;

    /// Writes all bytes at `at`.
    ///
    /// # Errors
    /// What went wrong. Some of the bytes may have been written.
    fn write_at(&mut self, at: u64, bytes: &[u8]) -> io::Result<()>;

    /// The length of the file.
    ///
    /// # Errors
    /// What went wrong.
    fn len(&mut self) -> io::Result<u64>;

    /// Whether the file has no bytes.
    ///
    /// # Errors
    /// What went wrong.
    fn is_empty(&mut self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Cuts the file, or makes it longer by zeroes.
    ///
    /// # Errors
    /// What went wrong.
    fn set_len(&mut self, len: u64) -> io::Result<()>;

    /// Makes all of the file durable.
    ///
    /// # Errors
    /// What went wrong.
    fn sync(&mut self) -> io::Result<()>;
}

/// Where a database, its rollback journal and its WAL lie, for
/// [`register_files`](crate::register_files). The names are as SQLite says them: that of the
/// database, and the same with `-journal` or `-wal` behind it. With
/// [`mount_store_with_files`](crate::mount_store_with_files) the database itself is in its journal.
pub trait Files: fmt::Debug + Send + Sync + 'static {
    /// Opens a file. One that does not exist is made if `creates` says so.
    ///
    /// # Errors
    /// `NotFound`, and what else went wrong.
    fn open(&self, name: &str, creates: bool) -> io::Result<Box<dyn PlainFile>>;

    /// Whether there is a file of this name.
    ///
    /// # Errors
    /// What went wrong.
    fn exists(&self, name: &str) -> io::Result<bool>;

    /// Removes a file, durably.
    ///
    /// # Errors
    /// `NotFound`, and what else went wrong.
    fn remove(&self, name: &str) -> io::Result<()>;
}
