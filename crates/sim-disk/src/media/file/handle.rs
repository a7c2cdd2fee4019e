//! A handle to a file, with the calls that an operating system has for one.

use crate::media::fault::{FaultKind, Operation};
use crate::media::file::error::{FileError, FileErrorKind, FileOperation};
use crate::media::file::image::FILE_LEN_MAX;
use crate::media::image::Medium;
use crate::media::tape::Event;
use crate::media::world::{Shared, World};

/// A handle to one of a world's files; clones are the same file.
///
/// Reads see every write at once, as through the page cache of an operating system. Nothing is
/// durable before [`sync`](Self::sync) returns `Ok`.
///
/// # What a crash may do
///
/// Between two good syncs of the file, any subset of its writes may have reached the disk, in any
/// order, and each of them in part ([`TornBy`](crate::file::TornBy)). Its length is one that the
/// file had in that time. Three things more are as on real file systems:
///
/// - A write that makes the file longer may have done so without its bytes: there are zeroes then,
///   or garbage ([`Unwritten`](crate::file::Unwritten)). The length may also end at a sector in the
///   middle of the write.
/// - Lengths become durable in their order, and independently of bytes. Where a `set_len` that cuts
///   is durable, nothing that was written behind its end before it comes back.
/// - A `set_len` that cuts may leave only zeroes, from its end to the end of that page, in a file
///   that is as long as before.
///
/// A killed process takes nothing with it: the page cache outlives it, and the next process can
/// sync what that one wrote.
///
/// After a failed sync nothing makes its writes durable except writing them again, and a later sync
/// can succeed. Until then reads show the bytes all the same. With
/// [`FaultKind::PagesDropped`](crate::FaultKind::PagesDropped) they show the bytes from before.
///
/// # What is not simulated
///
/// Files have numbers, no names. They are there from the start, and are never made, renamed or
/// deleted.
#[derive(Clone, Debug)]
pub struct SimFile {
    world: World,
    number: u16,
}

impl World {
    /// A handle to a file; any number of them may live. Where the world has no such file, each call
    /// says so.
    #[must_use]
    pub fn file(&self, number: u16) -> SimFile {
        SimFile { world: self.clone(), number }
    }
}

impl SimFile {
    /// The file's number in its world.
    #[must_use]
    pub const fn number(&self) -> u16 {
        self.number
    }

    const fn error(&self, operation: FileOperation, kind: FileErrorKind, at: u64) -> FileError {
        FileError { operation, kind, file: self.number, at }
    }

    /// How long the file is, if there is one.
    fn known_len(
        &self,
        shared: &Shared,
        operation: FileOperation,
        at: u64,
    ) -> Result<u64, FileError> {
        let file = shared.now.file(self.number);
        let missing = || self.error(operation, FileErrorKind::NoSuchFile, at);
        file.map(|file| file.len()).ok_or_else(missing)
    }

    /// How long the file is, synced or not.
    ///
    /// # Errors
    /// [`FileErrorKind::NoSuchFile`].
    pub fn len(&self) -> Result<u64, FileError> {
        let mut shared = self.world.lock();
        let len = self.known_len(&shared, FileOperation::Len, 0)?;
        shared.note_read(Medium::FileLength(self.number), 0, LENGTH_BYTES);
        Ok(len)
    }

    /// Whether the file has no byte.
    ///
    /// # Errors
    /// [`FileErrorKind::NoSuchFile`].
    pub fn is_empty(&self) -> Result<bool, FileError> {
        Ok(self.len()? == 0)
    }

    /// Reads from `at` on, and says how many bytes it read: none behind the end, and fewer than
    /// `into` takes where the file ends or the call is made to fall short.
    ///
    /// # Errors
    /// [`FileErrorKind::NoSuchFile`], [`TooLarge`](FileErrorKind::TooLarge), or
    /// [`Io`](FileErrorKind::Io), after which `into` holds anything.
    pub fn read_at(&self, at: u64, into: &mut [u8]) -> Result<usize, FileError> {
        let error = |kind| self.error(FileOperation::Read, kind, at);
        let mut shared = self.world.lock();
        let len = self.known_len(&shared, FileOperation::Read, at)?;
        if at > FILE_LEN_MAX {
            return Err(error(FileErrorKind::TooLarge));
        }
        shared.note_read(Medium::FileLength(self.number), 0, LENGTH_BYTES);
        let left = usize::try_from(len.saturating_sub(at)).unwrap_or(usize::MAX);
        let mut count = left.min(into.len());
        let fault = shared.operation(Operation::FileRead);
        match fault {
            Some(FaultKind::Error) => return Err(error(FileErrorKind::Io)),
            Some(FaultKind::Short { bytes }) => count = count.min(bytes),
            _ => {}
        }
        if count > 0 {
            shared.note_read(Medium::File(self.number), at, count);
        }
        let stale = fault == Some(FaultKind::Stale);
        let image = if stale { shared.at_power_on() } else { &shared.now };
        if let Some(file) = image.file(self.number) {
            file.fill(at, &mut into[..count]);
        }
        Ok(count)
    }

    /// Reads until `into` is full.
    ///
    /// # Errors
    /// As [`read_at`](Self::read_at), and [`FileErrorKind::UnexpectedEnd`].
    pub fn read_exact_at(&self, at: u64, into: &mut [u8]) -> Result<(), FileError> {
        let mut done = 0;
        while done < into.len() {
            let here = at.saturating_add(done as u64);
            match self.read_at(here, &mut into[done..])? {
                0 => return Err(self.error(FileOperation::Read, FileErrorKind::UnexpectedEnd, at)),
                count => done += count,
            }
        }
        Ok(())
    }

    /// Writes at `at`, and says how many bytes it wrote: fewer than `bytes` has where the call is
    /// made to fall short. The file becomes longer where they need it; a gap before them is zero.
    ///
    /// **Crash**: until the next good sync, see the type: lost, kept or torn, in any order.
    ///
    /// # Errors
    /// [`FileErrorKind::NoSuchFile`], [`TooLarge`](FileErrorKind::TooLarge) and
    /// [`NoSpace`](FileErrorKind::NoSpace), each before anything is written. After
    /// [`Io`](FileErrorKind::Io) the first half is written.
    pub fn write_at(&self, at: u64, bytes: &[u8]) -> Result<usize, FileError> {
        let error = |kind| self.error(FileOperation::Write, kind, at);
        let mut shared = self.world.lock();
        self.known_len(&shared, FileOperation::Write, at)?;
        if at.checked_add(bytes.len() as u64).is_none_or(|end| end > FILE_LEN_MAX) {
            return Err(error(FileErrorKind::TooLarge));
        }
        let count = match shared.operation(Operation::FileWrite) {
            Some(FaultKind::Lost) => return Ok(bytes.len()),
            Some(FaultKind::NoSpace) => return Err(error(FileErrorKind::NoSpace)),
            Some(FaultKind::Error) => {
                self.record_write(&mut shared, at, &bytes[..bytes.len() / 2]);
                return Err(error(FileErrorKind::Io));
            }
            Some(FaultKind::Short { bytes: count }) => count.min(bytes.len()),
            _ => bytes.len(),
        };
        self.record_write(&mut shared, at, &bytes[..count]);
        Ok(count)
    }

    fn record_write(&self, shared: &mut Shared, at: u64, bytes: &[u8]) {
        if !bytes.is_empty() {
            shared.record(Event::FileWrite { file: self.number, at, bytes: bytes.into() });
        }
    }

    /// Writes until all of `bytes` is written.
    ///
    /// # Errors
    /// As [`write_at`](Self::write_at), and [`FileErrorKind::NothingWritten`].
    pub fn write_all_at(&self, at: u64, bytes: &[u8]) -> Result<(), FileError> {
        let mut done = 0;
        while done < bytes.len() {
            let here = at.saturating_add(done as u64);
            match self.write_at(here, &bytes[done..])? {
                0 => {
                    return Err(self.error(
                        FileOperation::Write,
                        FileErrorKind::NothingWritten,
                        at,
                    ));
                }
                count => done += count,
            }
        }
        Ok(())
    }

    /// Sets the length: bytes behind it are gone, and new ones are zero.
    ///
    /// **Crash**: until the next good sync it may have happened or not; see the type.
    ///
    /// # Errors
    /// [`FileErrorKind::NoSuchFile`], [`TooLarge`](FileErrorKind::TooLarge),
    /// [`NoSpace`](FileErrorKind::NoSpace) or [`Io`](FileErrorKind::Io); the length is as before.
    pub fn set_len(&self, len: u64) -> Result<(), FileError> {
        let error = |kind| self.error(FileOperation::SetLen, kind, len);
        let mut shared = self.world.lock();
        self.known_len(&shared, FileOperation::SetLen, len)?;
        if len > FILE_LEN_MAX {
            return Err(error(FileErrorKind::TooLarge));
        }
        match shared.operation(Operation::FileSetLen) {
            Some(FaultKind::Lost) => Ok(()),
            Some(FaultKind::NoSpace) => Err(error(FileErrorKind::NoSpace)),
            Some(FaultKind::Error) => Err(error(FileErrorKind::Io)),
            _ => {
                shared.record(Event::FileSetLen { file: self.number, len });
                Ok(())
            }
        }
    }

    /// Makes every earlier write of this file durable, and its length (`fsync`, `fdatasync`). It
    /// says nothing about other files.
    ///
    /// **Crash**: before it returns, as before the call; after `Ok`, nothing earlier can be lost,
    /// except what an earlier sync failed for.
    ///
    /// # Errors
    /// [`FileErrorKind::NoSuchFile`], [`Io`](FileErrorKind::Io) or
    /// [`NoSpace`](FileErrorKind::NoSpace). See the type for what is left then.
    pub fn sync(&self) -> Result<(), FileError> {
        let error = |kind| self.error(FileOperation::Sync, kind, 0);
        let file = self.number;
        let mut shared = self.world.lock();
        self.known_len(&shared, FileOperation::Sync, 0)?;
        let (event, kind) = match shared.operation(Operation::FileSync) {
            Some(FaultKind::Lost) => return Ok(()),
            Some(FaultKind::PagesDropped) => (Event::FileDropped { file }, FileErrorKind::Io),
            Some(FaultKind::NoSpace) => (Event::FileSyncFailed { file }, FileErrorKind::NoSpace),
            Some(_) => (Event::FileSyncFailed { file }, FileErrorKind::Io),
            None => {
                shared.record(Event::FileSync { file });
                return Ok(());
            }
        };
        shared.record(event);
        Err(error(kind))
    }
}

/// Which medium a handle writes to, for a caller that looks at tapes.
impl From<&SimFile> for Medium {
    fn from(file: &SimFile) -> Self {
        Self::File(file.number)
    }
}

/// The length of a file is a word of a medium of its own.
const LENGTH_BYTES: usize = 8;
