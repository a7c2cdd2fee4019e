//! How a database comes into a journal, and leaves it.

use core::str::FromStr;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use block_files::{OneFile, SpanDisk, Store};
use journal_core::OpenError;
use journal_core::check::crc64;
use journal_core::superblock::SuperblockError;
use nvm_journal::ports::{BlockDevice, Hook, NoHook, Offset, PmemRead as _, PmemSplit as _};
use nvm_journal::{
    AnyPolicy, BlockSize, FileDisk, FileDiskError, FileDiskErrorKind, FileDiskOptions, FullBlock,
    Joined, Journal, MapErrorKind, MapOptions, Options, Region,
};

use crate::database::mounted_file::{Cut, Guard, MountedFile, Place, Shared, identity_of};
use crate::error::Error;
use crate::files::Files;
use crate::mount::pages::for_pages;

/// Blocks that a database's disk has room for: 64 TiB of 4 KiB.
const BLOCKS: u64 = 1 << 34;
/// What the file of the persistent memory has before its first journal.
const FRONT_BYTES: usize = 4096;

/// What is known of a database that is mounted: by the full path of its file.
static MOUNTED: Mutex<BTreeMap<Vec<u8>, Arc<MountedFile>>> = Mutex::new(BTreeMap::new());

pub(crate) type Registry = MutexGuard<'static, BTreeMap<Vec<u8>, Arc<MountedFile>>>;

/// All mounts. While it is held, no database comes or goes.
pub(crate) fn registry() -> Registry {
    MOUNTED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where the journal of a database lies, and how it is laid out.
///
/// ```no_run
/// use nvm_journal_sqlite::Mount;
///
/// # fn example() -> Result<(), nvm_journal_sqlite::Error> {
/// nvm_journal_sqlite::register("nvj")?;
/// let mounted = nvm_journal_sqlite::mount(
///     "/db/main.db",
///     &Mount::new().nvm("/mnt/pmem/main.nvj").nvm_bytes(64 << 20),
/// )?;
/// // Connections open `/db/main.db` with the VFS `nvj`.
/// mounted.close()?; // Now `/db/main.db` is a plain SQLite file.
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Mount {
    nvm: Option<PathBuf>,
    is_anonymous: bool,
    nvm_bytes: u64,
    map: MapOptions,
    policy: Option<AnyPolicy>,
    options: Options,
    block_size: BlockSize,
    /// Whether other programs use the database's file in turn.
    pub(crate) is_shared: bool,
    /// Whether the file may be another one than the journal knows.
    is_moved: bool,
}

impl Default for Mount {
    fn default() -> Self {
        Self::new()
    }
}

impl Mount {
    /// The defaults: 64 MiB of persistent memory in one lane, whole blocks of 4 KiB.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            nvm: None,
            is_anonymous: false,
            nvm_bytes: 64 << 20,
            map: MapOptions::new(),
            policy: None,
            options: Options::new().lanes(1).lane_log_blocks(0),
            block_size: BlockSize::DEFAULT,
            is_shared: false,
            is_moved: false,
        }
    }

    /// The file of the persistent memory. It is made if it does not exist.
    #[must_use]
    pub fn nvm(self, path: impl Into<PathBuf>) -> Self {
        Self { nvm: Some(path.into()), ..self }
    }

    /// Plain memory in the place of persistent memory, for trials and measurements. A commit costs
    /// what it costs on persistent memory, and survives not even the process: after anything but a
    /// close, the database's file is in pieces.
    #[must_use]
    pub const fn anonymous(mut self) -> Self {
        self.is_anonymous = true;
        self
    }

    /// How large that file, or that memory, is made. 64 MiB.
    #[must_use]
    pub const fn nvm_bytes(mut self, bytes: u64) -> Self {
        self.nvm_bytes = bytes;
        self
    }

    /// How that file is mapped, for programs that demand real persistent memory, or that have a
    /// plain disk ([`MapOptions::direct_io`]).
    #[must_use]
    pub const fn map(mut self, map: MapOptions) -> Self {
        self.map = map;
        self
    }

    /// What is logged of a page that changes: by default all of it. [`for_pages`] sets a policy for
    /// pages, as `policy` in a URI does. A journal that has another policy is written home first,
    /// and then made anew.
    #[must_use]
    pub fn policy(self, policy: impl Into<AnyPolicy>) -> Self {
        Self { policy: Some(policy.into()), ..self }
    }

    /// The journal's settings, for programs that know better than the defaults. Their policy is
    /// that of [`policy`](Self::policy). SQLite has one writer at a time, so more than one lane
    /// only makes the largest transaction smaller. The last block of the disk is not the
    /// database's, so a disk-side log is not possible, and the store keeps its size.
    #[must_use]
    pub fn options(self, options: Options) -> Self {
        Self { options: options.lane_log_blocks(0).resizes(false), ..self }
    }

    /// The size of the journal's blocks. Best is the size of the database's pages, by default 4096
    /// bytes.
    #[must_use]
    pub const fn block_size(mut self, size: BlockSize) -> Self {
        self.block_size = size;
        self
    }

    /// Takes the database's file for the journal's own, also where it has another path and is
    /// another file than the journal knows. Say so once, where a copy of the file and its journal
    /// were moved together. With the file of another database, both are lost.
    #[must_use]
    pub const fn moved(mut self) -> Self {
        self.is_moved = true;
        self
    }

    /// Lets other programs use the database's file in turn, as SQLite's own suite does: each
    /// transaction is written home before its lock is given back, the locks are the host's, and
    /// `journal_mode=WAL` is the host's as well. The journal is in plain memory. So this proves
    /// what the VFS does, and saves nothing: each commit waits for the disk, and a crash while a
    /// transaction goes home leaves the file in pieces. Where the disk fails or is full then, the
    /// old pages go home again, and the transaction is refused. If the disk refuses these as well,
    /// they are kept and other programs are kept away: each call tries again, and answers an error
    /// until there is room. A process that ends before leaves the file in pieces. Old pages of more
    /// than 8 MiB lie in a temporary file of the host. If that takes nothing, a change is refused
    /// before it is made.
    /// The journal keeps nothing that it has read, whatever [`options`](Self::options) say of a
    /// cache.
    #[must_use]
    pub const fn shared(self) -> Self {
        let mut shared = self.anonymous();
        shared.is_shared = true;
        shared
    }

    /// The settings that a URI gives.
    pub(crate) fn of_parameters(
        mut parameter: impl FnMut(&'static str) -> Option<String>,
    ) -> Result<Option<Self>, Error> {
        let mut mount = match (parameter("nvm"), parameter("shared")) {
            (_, Some(on)) if on == "1" => Self::new().shared(),
            (Some(nvm), _) => Self::new().nvm(nvm),
            _ => return Ok(None),
        };
        if let Some(name) = parameter("policy") {
            let policy = AnyPolicy::from_str(&name).map_err(|_| Error::NoSuchPolicy)?;
            mount = mount.policy(for_pages(policy));
        }
        let mut number = |name| {
            let value = parameter(name).map(|value| value.parse::<u64>());
            value.transpose().map_err(|_| Error::Setting { name })
        };
        if let Some(bytes) = number("nvm_bytes")? {
            mount = mount.nvm_bytes(bytes);
        }
        if let Some(bytes) = number("block_size")? {
            let size = u32::try_from(bytes).ok().and_then(BlockSize::new);
            mount = mount.block_size(size.ok_or(Error::Setting { name: "block_size" })?);
        }
        if number("direct_io")?.is_some_and(|on| on != 0) {
            mount.map = mount.map.direct_io();
        }
        if number("moved")?.is_some_and(|on| on != 0) {
            mount = mount.moved();
        }
        if let Some(on) = number("background")? {
            mount.options = mount.options.background_checkpoint(on != 0);
        }
        Ok(Some(mount))
    }

    /// The file of the persistent memory, and whether it was made here.
    pub(crate) fn region(&self) -> Result<(Region, bool), Error> {
        if self.is_anonymous {
            return Ok((self.map.anonymous(self.nvm_bytes)?, true));
        }
        let path = self.nvm.as_ref().ok_or(Error::NoNvm)?;
        match self.map.open(path) {
            Ok(region) => Ok((region, false)),
            Err(error) => match &error.kind {
                MapErrorKind::System { source, .. } if is_absent(source) => {
                    Ok((self.map.create(path, self.nvm_bytes)?, true))
                }
                MapErrorKind::Busy { .. } => Err(Error::Busy),
                _ => Err(error.into()),
            },
        }
    }

    /// The parts of the persistent memory: the journal's, and behind it a block for what belongs to
    /// the database and not into its file.
    pub(crate) fn parts(&self, region: Region) -> Result<(Region, SpanDisk<Region>), Error> {
        let bytes = region.len();
        let block = self.block_size.bytes().max(FRONT_BYTES) as u64;
        let split = bytes.checked_sub(block).filter(|split| *split > 0);
        let split = split.ok_or(Error::TooSmall { bytes })? / FRONT_BYTES as u64;
        let split = Offset(split * FRONT_BYTES as u64);
        let medium = |error| Error::from(nvm_journal::Error::Medium(error));
        let (journal, state) = region.split_at(split).map_err(medium)?;
        Ok((journal, SpanDisk::new(state, self.block_size).map_err(medium)?))
    }

    pub(crate) fn settings<H: Hook + Clone>(&self, hook: H) -> Options<AnyPolicy, H> {
        let policy = self.policy.unwrap_or_else(|| FullBlock.into());
        self.options.clone().policy(policy).hook(hook)
    }

    /// Makes an empty journal for a disk that holds all of its file, which has `len` bytes.
    pub(crate) fn format(
        &self,
        region: Region,
        disk: &(impl BlockDevice + Clone + Send + Sync + 'static),
        len: u64,
        hook: impl Hook + Clone + Send + Sync + 'static,
    ) -> Result<OneFile, Error> {
        let (nvm, state) = self.parts(region)?;
        let joined = Joined::new(disk.clone(), state).map_err(|_| Error::NoNvm)?;
        let journal = Journal::format(nvm, joined, &self.settings(hook))?;
        let store: Arc<dyn Store> = Arc::new(journal);
        Ok(OneFile::format(store, len)?)
    }

    /// Mounts a database whose file other programs use in turn.
    pub(crate) fn mount_shared(
        shared: Shared,
        cut: Cut,
        files: Option<Arc<dyn Files>>,
    ) -> Result<Arc<MountedFile>, Error> {
        let file = (shared.anew)()?;
        let mounted = MountedFile::new(file, cut, None, true).shared_with_others(shared);
        Ok(Arc::new(mounted.with_files(files)))
    }

    /// Makes an empty journal in plain memory for a file that others use in turn.
    pub(crate) fn anew(
        &self,
        disk: &(impl BlockDevice + Clone + Send + Sync + 'static),
        len: u64,
    ) -> Result<OneFile, Error> {
        let (region, _) = self.region()?;
        // The journal is not told what others write, so it keeps nothing that it has read.
        let options = self.options.clone().cache_bytes(0).clean_slots(0);
        let keeping_nothing = Self { options, ..self.clone() };
        keeping_nothing.format(region, disk, len, NO_HOOK)
    }

    /// How many blocks a database's disk has room for, and how large they are.
    pub(crate) const fn disk_shape(&self) -> (BlockSize, u64) {
        (self.block_size, BLOCKS)
    }

    /// The database's file in its journal, whatever state a crash has left them in.
    ///
    /// The guard comes before the persistent memory is touched: a journal that was begun for a file
    /// that another program has would be older than that file. Nothing behind the guard opens and
    /// closes the database's file, because that would give its locks back.
    pub(crate) fn open(
        &self,
        path: &Path,
        hook: &(impl Hook + Clone + Send + Sync + 'static),
        guard: impl FnOnce() -> Result<Guard, Error>,
    ) -> Result<KeptFile, Error> {
        // 1. The database's file, without other programs.
        let disk = disk_of(path, self.block_size)?;
        let guard = guard()?;
        let no_path = |_| Error::Path { path: path.to_path_buf() };
        let identity = identity_of(path).map_err(no_path)?;
        let file = self.open_journal(&disk, &Named { path, identity }, hook)?;
        let place = Place { path: path.to_path_buf(), identity };
        Ok(KeptFile { file, disk, guard, place })
    }

    /// The journal of a database's file.
    fn open_journal(
        &self,
        disk: &FileDisk,
        named: &Named<'_>,
        hook: &(impl Hook + Clone + Send + Sync + 'static),
    ) -> Result<OneFile, Error> {
        let (region, is_new) = self.region()?;
        let format = |region| {
            let file = self.format(region, disk, disk.file_len()?, hook.clone())?;
            file.set_owner(named.owner())?;
            Ok(file)
        };
        if is_new {
            return format(region);
        }
        // 1. The journal that is there.
        let (nvm, state) = self.parts(region)?;
        let joined = Joined::new(disk.clone(), state).map_err(|_| Error::NoNvm)?;
        let file = match Journal::open_any(nvm, joined, &self.settings(hook.clone())) {
            Ok(journal) => {
                let is_wanted = self.policy.is_none_or(|policy| policy == *journal.policy());
                // A crash may have come between the first format of the journal and that of the
                // file. Nothing was committed then.
                let is_empty = journal.recovery().records == 0 && journal.stats()?.blocks == 0;
                let store: Arc<dyn Store> = Arc::new(journal);
                match OneFile::open(store) {
                    // A closed one may be older than its disk, or go on with another file.
                    Ok(file) if file.state().is_closed => None,
                    Ok(file) => {
                        self.check_owner(&file, disk, named)?;
                        if is_wanted {
                            file.set_owner(named.owner())?;
                            return Ok(file);
                        }
                        Some(file)
                    }
                    Err(block_files::Error::NotFormatted) if is_empty => None,
                    Err(error) => return Err(error.into()),
                }
            }
            Err(error) if is_unfinished(error) || self.is_blank(error)? => None,
            Err(error) if error.is_no_journal() => {
                let path = self.nvm.clone().unwrap_or_default();
                return Err(Error::NotAJournal { path });
            }
            Err(error) => return Err(error.into()),
        };
        // 2. A journal of another policy goes home.
        if let Some(file) = file {
            file.close(|len| cut(disk, len))?;
        }
        let (region, _) = self.region()?;
        format(region)
    }

    /// Refuses a journal that was not closed and belongs to another file, or to this one as it was
    /// before another program made it longer.
    fn check_owner(&self, file: &OneFile, disk: &FileDisk, named: &Named<'_>) -> Result<(), Error> {
        let state = file.state();
        let path = || named.path.to_path_buf();
        if !self.is_moved && !named.may_be(state.owner) {
            let nvm = self.nvm.clone().unwrap_or_default();
            return Err(Error::OtherDatabase { path: path(), nvm });
        }
        // The journal may have cut the file to fewer bytes than are home.
        let block = self.block_size.bytes() as u64;
        let known = state.len.max(state.zero_from).next_multiple_of(block);
        let found = disk.file_len()?;
        if found > known {
            return Err(Error::ChangedOutside { path: path(), found, known });
        }
        Ok(())
    }

    /// Whether the file of the persistent memory has no journal and nothing at its front, as a
    /// crash before the first format leaves it.
    fn is_blank(&self, error: nvm_journal::Error) -> Result<bool, Error> {
        if !error.is_no_journal() {
            return Ok(false);
        }
        let path = self.nvm.as_ref().ok_or(Error::NoNvm)?;
        let mut front = Vec::new();
        let read =
            File::open(path).and_then(|file| file.take(FRONT_BYTES as u64).read_to_end(&mut front));
        Ok(read.is_ok() && front.iter().all(|byte| *byte == 0))
    }
}

impl FromStr for Mount {
    type Err = Error;

    /// The parameters of a URI: `nvm=/mnt/pmem/main.nvj&nvm_bytes=16777216`.
    fn from_str(parameters: &str) -> Result<Self, Error> {
        let of_key = |key: &str| {
            let mut pairs = parameters.split('&').filter_map(|pair| pair.split_once('='));
            pairs.find(|(name, _)| *name == key).map(|(_, value)| value.to_owned())
        };
        Self::of_parameters(of_key)?.ok_or(Error::NoNvm)
    }
}

/// A database's file, as its journal knows it again.
struct Named<'p> {
    path: &'p Path,
    identity: (u64, u64),
}

impl Named<'_> {
    /// What the journal notes: the device, the number of the file there, and a sum of the path.
    fn owner(&self) -> [u64; 3] {
        let (device, inode) = self.identity;
        [device, inode, crc64(0, self.path.as_os_str().as_bytes())]
    }

    /// Whether a journal notes this file, or none. A copy that was put back has another number, and
    /// a file that was moved another path.
    fn may_be(&self, owner: [u64; 3]) -> bool {
        let ([device, inode, path], own) = (owner, self.owner());
        owner == [0; 3] || [device, inode] == own[..2] || path == own[2]
    }
}

/// A database's file in its journal, without other programs.
pub(crate) struct KeptFile {
    file: OneFile,
    disk: FileDisk,
    guard: Guard,
    place: Place,
}

/// Whether a crash has cut the first format short.
fn is_unfinished(error: nvm_journal::Error) -> bool {
    let unfinished = OpenError::Superblock(SuperblockError::Unfinished);
    matches!(error, nvm_journal::Error::Open(error) if error == unfinished)
}

fn is_absent(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
}

fn disk_of(path: &Path, size: BlockSize) -> Result<FileDisk, Error> {
    let options = FileDiskOptions::new().growing(BLOCKS);
    let disk = match options.open(path, size) {
        Err(FileDiskError { kind: FileDiskErrorKind::System { source, .. }, .. })
            if is_absent(&source) =>
        {
            options.create(path, size, 0)
        }
        opened => opened,
    };
    disk.map_err(|error| match error.kind {
        FileDiskErrorKind::Busy => Error::Busy,
        _ => error.into(),
    })
}

/// What a disk answers to a cut, as an error of the file.
fn cut(disk: &FileDisk, len: u64) -> Result<(), block_files::Error> {
    use nvm_journal::ports::{DeviceError, DeviceErrorKind, DeviceOperation};
    disk.cut(len).map_err(|error| {
        let os = match error.kind {
            FileDiskErrorKind::System { source, .. } => source.raw_os_error(),
            _ => None,
        };
        let block = nvm_journal::BlockNumber(len);
        let error = DeviceError::new(DeviceOperation::Write, DeviceErrorKind::Io { os }, block);
        nvm_journal::Error::Device(error).into()
    })
}

/// Opens a database's journal. The caller holds the registry, and has seen that nothing is mounted
/// at the path. The same file under another name is not opened: when it is closed, the locks of the
/// one that is mounted would go.
pub(crate) fn mount_file(
    path: &Path,
    mount: &Mount,
    hook: &(impl Hook + Clone + Send + Sync + 'static),
    guard: impl FnOnce() -> Result<Guard, Error>,
    (ended_by_last, mounted): (bool, &Registry),
) -> Result<Arc<MountedFile>, Error> {
    let identity = identity_of(path).ok();
    if identity.is_some() && mounted.values().any(|database| database.identity() == identity) {
        return Err(Error::Mounted);
    }
    let KeptFile { file, disk, guard, place } = mount.open(path, hook, guard)?;
    let cut: Cut = Box::new(move |len| cut(&disk, len));
    Ok(Arc::new(MountedFile::new(file, cut, Some(guard), ended_by_last).at(place)))
}

/// The hook of a mount that nobody looks at.
pub(crate) const NO_HOOK: NoHook = NoHook;

#[cfg(test)]
pub(crate) mod any_disk;
pub(crate) mod pages;
#[cfg(test)]
mod tests;
