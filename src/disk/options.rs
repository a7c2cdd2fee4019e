//! How a file becomes a disk: the calls that create and open, and what they check first.
//!
//! `create` makes a new file and never touches one that exists; `open` never creates. Both take the
//! lock before anything is written.
//!
//! **Crash**: `create` returns when the file, its length and its directory entry are durable. A
//! crash before that leaves no file, or one of the right length, or one of no length, which `open`
//! refuses.

use std::fs::{self, File, Metadata};
use std::io;
use std::io::{Seek as _, SeekFrom};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;
use std::sync::Arc;

use journal_core::{BlockSize, DeviceFacts, Overwrite};
use pmem_sys::Step;
use rustix::fs::{
    AtFlags, FlockOperation, OFlags, Statx, StatxFlags, fcntl_getfl, fcntl_setfl, flock, statx,
};
use rustix::io::Errno;

use crate::disk::direct::{ALIGN, Bounce};
use crate::disk::error::{FileDiskError, FileDiskErrorKind};
use crate::disk::file::FileDisk;
use crate::disk::syncs::Syncs;

/// Settings of a [`FileDisk`], and the calls that make or open one with them.
#[derive(Clone, Copy, Debug, Default)]
pub struct FileDiskOptions {
    direct: bool,
    growing: Option<u64>,
}

impl FileDiskOptions {
    /// The defaults: through the system's cache.
    #[must_use]
    pub const fn new() -> Self {
        Self { direct: false, growing: None }
    }

    /// Whether to read and write past the system's cache (`O_DIRECT`). Off by default.
    ///
    /// A journal keeps what is read again in its own memory, and writes every block seldom: the
    /// system's cache then only costs. Buffers that do not begin on a multiple of 4096 bytes are
    /// copied.
    ///
    /// If a file system cannot do direct I/O, that is an error: this crate does not fall back to
    /// the cache. But some file systems, such as `tmpfs`, accept direct I/O and use their cache all
    /// the same.
    #[must_use]
    pub const fn direct(self, on: bool) -> Self {
        Self { direct: on, ..self }
    }

    /// Whether the file may be shorter than the disk, which then has at least `blocks` blocks. Off
    /// by default: the disk has the whole blocks of the file.
    ///
    /// What lies behind the end of the file is zero. A write there makes the file longer, as far as
    /// the write goes, and never shorter. [`FileDisk::cut`] does that. Thus a disk can be a file of
    /// another program, which has the length that the program expects.
    ///
    /// ```
    /// use nvm_journal::ports::BlockDevice;
    /// use nvm_journal::{BlockNumber, BlockSize, FileDiskOptions};
    ///
    /// # let path = std::env::temp_dir().join(format!("growing-disk-{}", std::process::id()));
    /// let options = FileDiskOptions::new().growing(1 << 40);
    /// let mut disk = options.create(&path, BlockSize::DEFAULT, 0)?;
    /// disk.write(BlockNumber(1), &[1; 4096])?;
    /// assert_eq!((disk.block_count(), disk.file_len()?), (1 << 40, 8192));
    /// # std::fs::remove_file(path)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub const fn growing(self, blocks: u64) -> Self {
        Self { growing: Some(blocks), ..self }
    }

    /// Creates a file of `blocks` blocks, all zero, which must not exist yet.
    ///
    /// It is sparse: its space is taken when blocks are first written, and a full file system is an
    /// error of that write. When this has returned, a crash leaves the file, with its name. A crash
    /// before that leaves no file, the whole one, or one of no length, which an open refuses.
    ///
    /// # Errors
    /// Any [`FileDiskErrorKind`] except `NotADisk` and `NotWritable`. No new file is left then.
    pub fn create(
        &self,
        path: impl AsRef<Path>,
        block_size: BlockSize,
        blocks: u64,
    ) -> Result<FileDisk, FileDiskError> {
        let path = path.as_ref();
        self.create_at(path, block_size, blocks).map_err(|error| error.on(path))
    }

    /// Opens a file or a block device. What is behind its last whole block is not touched.
    ///
    /// # Errors
    /// Any [`FileDiskErrorKind`] except `NotWritable`; `TooLong` only where it is
    /// [growing](Self::growing).
    pub fn open(
        &self,
        path: impl AsRef<Path>,
        block_size: BlockSize,
    ) -> Result<FileDisk, FileDiskError> {
        let path = path.as_ref();
        let open = || {
            let file = File::options().read(true).write(true).open(path);
            let file = file.map_err(FileDiskError::at(Step::Open))?;
            let disk = self.lock(file, block_size)?;
            // Its creator may have failed, and removed it, before it was locked.
            let named = fs::metadata(path).map_err(FileDiskError::at(Step::Open))?;
            if is_same(&named, &inspect(&disk.file)?) {
                Ok(disk)
            } else {
                Err(FileDiskError::at(Step::Open)(io::ErrorKind::NotFound))
            }
        };
        open().map_err(|error| error.on(path))
    }

    /// Takes a file that is open already, for reading and writing. The call opens it anew by way of
    /// `/proc`, so that other descriptors of it do not get around the lock.
    ///
    /// # Errors
    /// Any [`FileDiskErrorKind`]; `TooLong` only where it is [growing](Self::growing).
    pub fn from_file(&self, file: File, block_size: BlockSize) -> Result<FileDisk, FileDiskError> {
        let flags = fcntl_getfl(&file).map_err(FileDiskError::at(Step::Inspect))?;
        if flags & OFlags::ACCMODE != OFlags::RDWR {
            return Err(FileDiskErrorKind::NotWritable.into());
        }
        self.lock(reopened(&file).map_err(FileDiskError::at(Step::Open))?, block_size)
    }

    fn create_at(
        &self,
        path: &Path,
        block_size: BlockSize,
        blocks: u64,
    ) -> Result<FileDisk, FileDiskError> {
        let bytes = blocks.checked_mul(block_size.bytes() as u64);
        let Some(bytes) = bytes.filter(|bytes| i64::try_from(*bytes).is_ok()) else {
            return Err(FileDiskErrorKind::TooLong { blocks }.into());
        };
        if bytes == 0 && self.growing.is_none() {
            return Err(FileDiskErrorKind::TooShort { bytes, block_size }.into());
        }
        let file = File::options().read(true).write(true).create_new(true).open(path);
        let file = file.map_err(FileDiskError::at(Step::Create))?;
        let made = || {
            file.set_len(bytes).map_err(FileDiskError::at(Step::Allocate))?;
            let synced = file.sync_all().and_then(|()| sync_directory_of(path));
            synced.map_err(FileDiskError::at(Step::Sync))?;
            self.lock(file, block_size)
        };
        // The file was made a moment ago and nothing is in it. The first error is the one to tell.
        made().inspect_err(|_| drop(fs::remove_file(path)))
    }

    /// Takes a file whose description was opened here and is shared with no other code. Locks it,
    /// and only then asks for direct I/O.
    fn lock(&self, file: File, block_size: BlockSize) -> Result<FileDisk, FileDiskError> {
        let kind = inspect(&file)?.file_type();
        if !kind.is_file() && !kind.is_block_device() {
            return Err(FileDiskErrorKind::NotADisk.into());
        }
        // The metadata of a block device has no length; its end can be found.
        let bytes = (&file).seek(SeekFrom::End(0)).map_err(FileDiskError::at(Step::Inspect))?;
        let block_count = self.block_count(kind.is_file(), bytes, block_size)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Err(FileDiskErrorKind::Busy.into()),
            Err(errno) => return Err(FileDiskError::at(Step::Lock)(errno)),
        }
        let bounce = self.direct.then(|| go_direct(&file, block_size)).transpose();
        let bounce = bounce.map_err(|source| FileDiskErrorKind::DirectRefused { source })?;
        // Sectors of 512 bytes are what disks promise least; a torn one may be garbage.
        let facts = DeviceFacts::new(512, Overwrite::MayLeaveGarbage);
        let grows = self.growing.is_some();
        let (file, end, syncs) = (Arc::new(file), Arc::default(), Syncs::default());
        Ok(FileDisk { file, block_size, block_count, facts, bounce, grows, end, syncs })
    }

    /// How many blocks the disk has that a file of `bytes` bytes is.
    fn block_count(
        &self,
        is_file: bool,
        bytes: u64,
        block_size: BlockSize,
    ) -> Result<u64, FileDiskError> {
        let whole = bytes / block_size.bytes() as u64;
        match self.growing {
            None if whole == 0 => Err(FileDiskErrorKind::TooShort { bytes, block_size }.into()),
            None => Ok(whole),
            // Past the cache, a file ends where a block ends.
            Some(_) if !is_file || self.direct => Err(FileDiskErrorKind::CannotGrow.into()),
            Some(blocks) => {
                let blocks = blocks.max(bytes.div_ceil(block_size.bytes() as u64));
                let bytes = blocks.checked_mul(block_size.bytes() as u64);
                match bytes.filter(|bytes| i64::try_from(*bytes).is_ok()) {
                    Some(0) => Err(FileDiskErrorKind::TooShort { bytes: 0, block_size }.into()),
                    Some(_) => Ok(blocks),
                    None => Err(FileDiskErrorKind::TooLong { blocks }.into()),
                }
            }
        }
    }
}

fn inspect(file: &File) -> Result<Metadata, FileDiskError> {
    file.metadata().map_err(FileDiskError::at(Step::Inspect))
}

fn is_same(one: &Metadata, other: &Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

/// Turns direct I/O on, if blocks of this size can be read and written by it.
///
/// Systems since Linux 6.1 say what they want. On older ones a read is tried, which is refused
/// unless a hole of the file is all that it meets.
fn go_direct(file: &File, block_size: BlockSize) -> io::Result<Bounce> {
    fcntl_setfl(file, fcntl_getfl(file)? | OFlags::DIRECT)?;
    let known = statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN);
    let known = known.ok().filter(|known| known.stx_mask & StatxFlags::DIOALIGN.bits() != 0);
    if let Some(Statx { stx_dio_mem_align, stx_dio_offset_align, .. }) = known {
        // The two values are zero where the file system would go through the cache.
        let fits = |has: usize, unit: u32| has.checked_rem(unit as usize) == Some(0);
        if !fits(ALIGN, stx_dio_mem_align) || !fits(block_size.bytes(), stx_dio_offset_align) {
            return Err(Errno::INVAL.into());
        }
    }
    let mut bounce = Bounce::default();
    bounce.read(file, &mut vec![0; block_size.bytes()], 0)?;
    Ok(bounce)
}

/// Opens a file again through a description of its own, without the flags that the file was given.
/// On a shared description `flock` would succeed for both owners, and a description that appends
/// writes elsewhere.
fn reopened(file: &File) -> io::Result<File> {
    let name = format!("/proc/self/fd/{}", file.as_raw_fd());
    let own = File::options().read(true).write(true).open(name)?;
    if is_same(&file.metadata()?, &own.metadata()?) {
        return Ok(own);
    }
    Err(io::Error::other("the descriptor's name leads to another file"))
}

fn sync_directory_of(path: &Path) -> io::Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
}

impl FileDisk {
    /// Creates a file of `blocks` blocks, all zero, which must not exist yet: see
    /// [`FileDiskOptions::create`].
    ///
    /// # Errors
    /// The errors of [`FileDiskOptions::create`].
    pub fn create(
        path: impl AsRef<Path>,
        block_size: BlockSize,
        blocks: u64,
    ) -> Result<Self, FileDiskError> {
        FileDiskOptions::new().create(path, block_size, blocks)
    }

    /// Opens a file or a block device: see [`FileDiskOptions::open`].
    ///
    /// # Errors
    /// The errors of [`FileDiskOptions::open`].
    pub fn open(path: impl AsRef<Path>, block_size: BlockSize) -> Result<Self, FileDiskError> {
        FileDiskOptions::new().open(path, block_size)
    }

    /// Takes an open file: see [`FileDiskOptions::from_file`].
    ///
    /// # Errors
    /// The errors of [`FileDiskOptions::from_file`].
    pub fn from_file(file: File, block_size: BlockSize) -> Result<Self, FileDiskError> {
        FileDiskOptions::new().from_file(file, block_size)
    }
}
