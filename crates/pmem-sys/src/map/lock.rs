//! One owner per file: an exclusive `flock` and a register of what this process has open.
//!
//! Guarantees: while a [`FileLock`] lives, no other can be had for the same file. That holds under
//! another name (symbolic or hard link), through a duplicated descriptor, in a forked child and in
//! another process. The owner's death frees it, whatever killed it, since the kernel closes its
//! descriptors. So a crash leaves no stale lock behind.
//!
//! `flock` belongs to the open file description, which a duplicated descriptor and a forked child
//! share: for them the kernel sees no second owner. The register sees the first case (it knows
//! files by device and inode); a description of our own, opened for the lock alone, sees both. The
//! lock is never released by `LOCK_UN`: in a forked child that would take it from the parent. It
//! goes with the last descriptor (and mapping) of the description.

use std::fs::File;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::map::error::{Holder, MapError, MapErrorKind, Step};

/// Which file, whatever it is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
}

/// A file that is open, and the process that opened it: a forked child inherits the register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    file: Identity,
    process: u32,
}

/// The one global of the crate: what is open in this process.
static OPEN: Mutex<Vec<Entry>> = Mutex::new(Vec::new());

fn register() -> MutexGuard<'static, Vec<Entry>> {
    // Every change is one call, so a panic elsewhere leaves it whole.
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An exclusively locked file.
#[derive(Debug)]
pub(crate) struct FileLock {
    /// `None` only while being dropped.
    file: Option<File>,
    entry: Entry,
}

impl FileLock {
    /// Locks a file that came from elsewhere, whose description may be shared: through a
    /// description of its own, or not at all. On a shared one `flock` would succeed for both
    /// owners.
    pub(crate) fn take_foreign(file: &File) -> Result<Self, MapError> {
        Self::take(reopened(file).map_err(|source| MapError::system(Step::Open, source))?)
    }

    /// Locks `file`, whose description was opened by us and is shared with no other code.
    pub(crate) fn take(file: File) -> Result<Self, MapError> {
        let found = file.metadata().map_err(|source| MapError::system(Step::Inspect, source))?;
        // The caller has seen to it that a device is one that can be mapped.
        if !found.is_file() && !found.file_type().is_char_device() {
            return Err(MapErrorKind::NotAFile.into());
        }
        let identity = Identity { device: found.dev(), inode: found.ino() };
        let process = std::process::id();
        let mut open = register();
        // An entry inherited by a fork says nothing that the kernel does not know better, since the
        // description is our own.
        if open.contains(&Entry { file: identity, process }) {
            return Err(MapErrorKind::Busy { holder: Holder::ThisProcess }.into());
        }
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                return Err(MapErrorKind::Busy { holder: Holder::AnotherProcess }.into());
            }
            Err(errno) => return Err(MapError::system(Step::Lock, errno)),
        }
        let entry = Entry { file: identity, process };
        open.push(entry);
        Ok(Self { file: Some(file), entry })
    }

    /// The file; it is there until the drop.
    pub(crate) fn file(&self) -> &File {
        match &self.file {
            Some(file) => file,
            None => unreachable!("the file goes in drop alone"),
        }
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        // Under the register, so that an open that comes now sees the file open or free, nothing
        // between.
        let mut open = register();
        self.file = None;
        // In a forked child the entry stays: the parent still has the file.
        if self.entry.process == std::process::id() {
            if let Some(index) = open.iter().position(|entry| *entry == self.entry) {
                open.swap_remove(index);
            }
        }
    }
}

/// Opens a file again through a description of its own.
fn reopened(file: &File) -> std::io::Result<File> {
    use std::os::fd::AsRawFd;
    let name = format!("/proc/self/fd/{}", file.as_raw_fd());
    let own = File::options().read(true).write(true).open(name)?;
    let (given, got) = (file.metadata()?, own.metadata()?);
    if given.dev() == got.dev() && given.ino() == got.ino() {
        return Ok(own);
    }
    Err(std::io::Error::other("the descriptor's name leads to another file"))
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    fn scratch() -> File {
        let path = std::env::temp_dir().join(format!("pmem-sys-lock-{}", std::process::id()));
        let file = File::options().read(true).write(true).create(true).truncate(false).open(&path);
        let file = file.expect("the temporary directory takes files");
        drop(std::fs::remove_file(path));
        file
    }

    fn busy<T>(outcome: Result<T, MapError>) -> Option<Holder> {
        match outcome.err()?.kind {
            MapErrorKind::Busy { holder } => Some(holder),
            _ => None,
        }
    }

    #[test]
    fn a_duplicate_is_seen() {
        let file = scratch();
        let first = FileLock::take_foreign(&file).expect("nobody has it");
        let copy = file.try_clone().expect("descriptors are to be had");
        assert_eq!(busy(FileLock::take_foreign(&copy)), Some(Holder::ThisProcess));
        drop(first);
        assert_eq!(busy(FileLock::take_foreign(&copy)), None);
    }

    /// What a forked child does with what it inherited: the kernel keeps it out, and dropping the
    /// lock leaves the parent's entry alone.
    #[test]
    fn an_inherited_lock_keeps_the_child_out_and_is_not_the_childs_to_drop() {
        let file = scratch();
        let mut inherited = FileLock::take_foreign(&file).expect("nobody has it");
        let parents = Entry { process: u32::MAX, ..inherited.entry };
        for entry in register().iter_mut().filter(|entry| **entry == inherited.entry) {
            *entry = parents;
        }
        inherited.entry = parents;
        assert_eq!(busy(FileLock::take_foreign(&file)), Some(Holder::AnotherProcess));
        drop(inherited);
        assert!(register().contains(&parents));
        register().retain(|entry| *entry != parents);
    }
}
