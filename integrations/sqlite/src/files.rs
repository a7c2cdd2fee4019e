//! SQLite on files of the caller's: simulated ones, for example, whose power can be cut.

use core::fmt;
use std::io;

use block_files::{BlockFile, BlockFiles, Error};

/// The name of a mounted database's rollback journal in files of the caller's.
pub(crate) const JOURNAL: &str = "journal";
/// The name of its WAL there.
pub(crate) const WAL: &str = "wal";

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

/// Where a database, its rollback journal and its WAL lie.
///
/// With [`register_files`](crate::register_files) the names are as SQLite says them: that of the
/// database, and the same with `-journal` or `-wal` behind it. With
/// [`mount_store_with_files`](crate::mount_store_with_files) the database itself is in its journal,
/// and the files are one database's: they are named `journal` and `wal`.
///
/// [`BlockFiles`] are such files: on a [`Part`](block_files::Part) of the database's own store, its
/// rollback journal is in the same persistent memory, and a fallback syncs no other disk.
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

/// Files that are in a journal themselves. A name has at most
/// [`name_max`](BlockFiles::name_max) bytes.
impl Files for BlockFiles {
    fn open(&self, name: &str, creates: bool) -> io::Result<Box<dyn PlainFile>> {
        let opened = match self.open_file(name) {
            Err(Error::NotFound) if creates => self.create(name),
            opened => opened,
        };
        Ok(Box::new(opened?))
    }

    fn exists(&self, name: &str) -> io::Result<bool> {
        match self.open_file(name) {
            Ok(_) => Ok(true),
            Err(Error::NotFound) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        Ok(Self::remove(self, name)?)
    }
}

impl PlainFile for BlockFile {
    fn read_at(&mut self, at: u64, into: &mut [u8]) -> io::Result<usize> {
        Ok(Self::read_at(self, at, into)?)
    }

    fn write_at(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        Ok(Self::write_at(self, at, bytes)?)
    }

    fn len(&mut self) -> io::Result<u64> {
        Ok(Self::len(self)?)
    }

    fn set_len(&mut self, len: u64) -> io::Result<()> {
        Ok(Self::set_len(self, len)?)
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(Self::sync(self)?)
    }
}
