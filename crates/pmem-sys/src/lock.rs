//! One owner per file: an exclusive `flock` and a register of what this process has open.
//!
//! Guarantees: while a [`FileLock`] lives, no other can be had for the same file: not under another
//! name (symbolic or hard link), not through a duplicated descriptor, not in a forked child, not in
//! another process. The owner's death frees it, whatever killed it, since the kernel closes its
//! descriptors. So a crash leaves no stale lock behind.
//!
//! `flock` belongs to the open file description, which a duplicated descriptor and a forked child
//! share: for them the kernel sees no second owner. The register sees the first case (it knows
//! files by device and inode); a description of our own, opened for the lock alone, sees both. The
//! lock is never given up by `LOCK_UN`: in a forked child that would take it from the parent. It
//! goes with the last descriptor (and mapping) of the description.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::error::{Holder, MapError, MapErrorKind, Step};

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
    /// Locks `file`, whose description was opened by us and is shared with nobody.
    pub(crate) fn take(file: File) -> Result<Self, MapError> {
        Self::take_with(file, false)
    }

    /// Locks a file that came from elsewhere, whose description may be shared.
    pub(crate) fn take_foreign(file: File) -> Result<Self, MapError> {
        match reopened(&file) {
            Some(own) => Self::take_with(own, false),
            None => Self::take_with(file, true),
        }
    }

    fn take_with(file: File, shared_description: bool) -> Result<Self, MapError> {
        let found = file.metadata().map_err(|source| MapError::system(Step::Inspect, source))?;
        if !found.is_file() {
            return Err(MapErrorKind::NotAFile.into());
        }
        let identity = Identity { device: found.dev(), inode: found.ino() };
        let process = std::process::id();
        let mut open = register();
        for entry in open.iter().filter(|entry| entry.file == identity) {
            if entry.process == process {
                return Err(MapErrorKind::Busy { holder: Holder::ThisProcess }.into());
            }
            // Inherited by a fork. On a description of our own the kernel knows better; on a shared
            // one it would hand us the parent's lock.
            if shared_description {
                return Err(MapErrorKind::Busy { holder: Holder::AnotherProcess }.into());
            }
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
        // Under the register, so that an open that comes now sees it open or free, nothing between.
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

/// The same file through a description of its own, where the system can tell us its name.
fn reopened(file: &File) -> Option<File> {
    use std::os::fd::AsRawFd;
    let name = format!("/proc/self/fd/{}", file.as_raw_fd());
    let own = File::options().read(true).write(true).open(name).ok()?;
    let (given, got) = (file.metadata().ok()?, own.metadata().ok()?);
    (given.dev() == got.dev() && given.ino() == got.ino()).then_some(own)
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
    fn a_duplicate_is_seen_with_and_without_a_description_of_our_own() {
        let file = scratch();
        let copy = || file.try_clone().expect("descriptors are to be had");
        let first = FileLock::take_foreign(copy()).expect("nobody has it");
        assert_eq!(busy(FileLock::take_foreign(copy())), Some(Holder::ThisProcess));
        assert_eq!(busy(FileLock::take_with(copy(), true)), Some(Holder::ThisProcess));
        drop(first);
        assert_eq!(busy(FileLock::take_foreign(copy())), None);
    }

    /// What the register alone would do in a forked child: with an inherited entry a shared
    /// description is refused, and dropping an inherited lock forgets nothing.
    #[test]
    fn an_inherited_entry_keeps_a_shared_description_out() {
        let file = scratch();
        let copy = || file.try_clone().expect("descriptors are to be had");
        let mut inherited = FileLock::take_with(copy(), true).expect("nobody has it");
        let parents = Entry { process: u32::MAX, ..inherited.entry };
        for entry in register().iter_mut().filter(|entry| **entry == inherited.entry) {
            *entry = parents;
        }
        inherited.entry = parents;
        assert_eq!(busy(FileLock::take_with(copy(), true)), Some(Holder::AnotherProcess));
        drop(inherited);
        assert_eq!(busy(FileLock::take_with(copy(), true)), Some(Holder::AnotherProcess));
        register().retain(|entry| *entry != parents);
    }
}
