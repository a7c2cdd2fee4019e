//! How a span is made or found: what is demanded of it, and the calls that create and open.
//!
//! Guarantees: `create` makes a new file and never touches one that exists; `open` never creates.
//! Both lock the file before they look at it, and look at its length before anything is loaded. A
//! demand is met or refused by a typed error, never weakened.
//!
//! What a crash may do: `create` returns when the file, its space and its directory entry are
//! durable. Before that a crash leaves no file, or one of the wrong length, which `open` refuses.
//! It may also leave a whole one full of zeros, which the code that formats it must be able to tell
//! from its own.

use std::fs::{self, File, Metadata};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;

use journal_core::{Granularity, LINE_BYTES};
use rustix::fs::{FallocateFlags, OFlags, fallocate, fcntl_getfl};
use rustix::io::{Errno, retry_on_intr};

use crate::map::dax::DaxMapping;
use crate::map::error::{MapError, MapErrorKind, Step};
use crate::map::facts::{MapFacts, Reason};
use crate::map::lock::FileLock;
use crate::map::pages::{PAGE_BYTES, Pages};
use crate::map::sysfs::Device;
use crate::map::{Mapping, direct_io, memory, page_cache};
use crate::processor::choices::FlushMethod;
use crate::processor::method::Method;
use crate::region::Region;
use crate::region::emulator::{Emulator, EmulatorModel};
use crate::region::span::{Durability, Span};

/// Of a machine's memory, a span of up to this share has its pages mapped at once by default.
const SMALL_SHARE: u64 = 128;

/// When the system maps pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Prefault {
    /// Now, if there are few of them, and that changes nothing on the medium.
    IfSmall,
    Now,
    /// At the first store into each.
    Later,
}

/// Which way a file is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Directly if the kernel grants that, and otherwise through the page cache.
    Best,
    PageCache,
    DirectIo,
}

/// What is demanded of a span, and the calls that give one.
///
/// ```no_run
/// use journal_core::Granularity;
/// use pmem_sys::MapOptions;
///
/// # fn main() -> Result<(), pmem_sys::MapError> {
/// // Persistent memory or nothing; without the demand, any file system will do.
/// let region = MapOptions::new().at_least(Granularity::Line).open("/mnt/pmem/journal")?;
/// println!("{}", region.map_facts().reason);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct MapOptions {
    weakest: Granularity,
    min_len: u64,
    way: Way,
    prefault: Prefault,
    method: Option<Method>,
}

impl Default for MapOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl MapOptions {
    /// Any granularity, any length, the best instructions.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            weakest: Granularity::Page,
            min_len: 0,
            way: Way::Best,
            prefault: Prefault::IfSmall,
            method: None,
        }
    }

    /// Refuses a medium weaker than this.
    #[must_use]
    pub const fn at_least(self, weakest: Granularity) -> Self {
        Self { weakest, ..self }
    }

    /// Refuses to open a file shorter than this.
    #[must_use]
    pub const fn min_len(self, bytes: u64) -> Self {
        Self { min_len: bytes, ..self }
    }

    /// Maps files through the page cache without asking for better.
    #[must_use]
    pub const fn page_cache(self) -> Self {
        Self { way: Way::PageCache, ..self }
    }

    /// Keeps the content of a file in plain memory, and writes the pages that are flushed to the
    /// file, past the page cache (`O_DIRECT`). It is for files on plain disks. A fence waits for
    /// one write, whatever other programs write, and threads that fence at a time share one flush
    /// of the disk's cache.
    ///
    /// The memory is as large as the file, and an open reads all of it. [`create`](Self::create)
    /// writes the whole file once. Unlike with a file in the page cache, a killed process loses
    /// what it has not fenced. A file system without direct I/O is an error.
    #[must_use]
    pub const fn direct_io(self) -> Self {
        Self { way: Way::DirectIo, ..self }
    }

    /// Has the system map every page before the call returns, which takes a quarter of a
    /// microsecond to some microseconds for each 4 KiB. Otherwise the first store into each page
    /// waits for that, so that the first lap of a journal is slow.
    ///
    /// By default this is done for plain memory and for persistent memory of at most one 128th of
    /// the machine's memory. It is not done for a file in the page cache: that would write all of
    /// the file.
    #[must_use]
    pub const fn prefault(self) -> Self {
        Self { prefault: Prefault::Now, ..self }
    }

    /// Has the system map each page at the first store into it, whatever the size is.
    #[must_use]
    pub const fn fault_later(self) -> Self {
        Self { prefault: Prefault::Later, ..self }
    }

    /// Uses these instructions and not the best ones.
    #[must_use]
    pub const fn method(self, method: Method) -> Self {
        Self { method: Some(method), ..self }
    }

    /// Makes a new file of `len` bytes (a multiple of 4096) and maps it. All its space is
    /// allocated: a full disk is an error here, not a fatal signal at a later store, unless the
    /// file system copies on write.
    ///
    /// # Errors
    /// The file exists, the system refuses, or the demand is not met; no new file is left then.
    pub fn create(&self, path: impl AsRef<Path>, len: u64) -> Result<Region, MapError> {
        let path = path.as_ref();
        self.create_at(path, len).map_err(|error| error.on(path))
    }

    /// Maps an existing file, or persistent memory without a file system (`/dev/dax0.0`), which is
    /// as long as the kernel says. A sparse file in the page cache stays sparse, and a store into a
    /// hole of it ends the process when the disk is full (`SIGBUS`).
    ///
    /// # Errors
    /// It does not exist, is open elsewhere, has a wrong length, or the demand is not met.
    pub fn open(&self, path: impl AsRef<Path>) -> Result<Region, MapError> {
        let path = path.as_ref();
        let open = || {
            let file = File::options().read(true).write(true).open(path);
            let file = file.map_err(|source| MapError::system(Step::Open, source))?;
            self.map_named(file, path)
        };
        open().map_err(|error| error.on(path))
    }

    /// Maps a file that is open already, for reading and writing. Other descriptors of it do not
    /// get around the lock.
    ///
    /// # Errors
    /// The errors of [`open`](Self::open).
    pub fn open_file(&self, file: File) -> Result<Region, MapError> {
        let flags = fcntl_getfl(&file).map_err(|errno| MapError::system(Step::Inspect, errno))?;
        if flags & OFlags::ACCMODE != OFlags::RDWR {
            return Err(MapErrorKind::NotWritable.into());
        }
        self.map_unlocked(file, |file| FileLock::take_foreign(&file))
    }

    /// Plain memory of `len` bytes (a multiple of 64), zeroed.
    ///
    /// # Errors
    /// The length is unfit, there is no memory, or the demand is not met.
    pub fn anonymous(&self, len: u64) -> Result<Region, MapError> {
        self.plain(len, Reason::Anonymous, Durability::Lines)
    }

    /// Plain memory of `len` bytes (a multiple of 64), zeroed, as slow as `model` says.
    ///
    /// # Errors
    /// The errors of [`anonymous`](Self::anonymous).
    pub fn emulated(&self, len: u64, model: EmulatorModel) -> Result<Region, MapError> {
        self.plain(len, Reason::Emulated, Durability::Emulated(Emulator::new(model)))
    }

    fn plain(&self, len: u64, reason: Reason, by: Durability) -> Result<Region, MapError> {
        let len = self.checked_len(len, LINE_BYTES)?;
        let facts = self.facts(Granularity::Line, reason, None)?;
        let map = memory::map(len).map_err(|source| MapError::system(Step::Map, source))?;
        let mapping = self.ready(Mapping::Ordinary(map), true)?;
        Ok(Region::whole(Span::new(mapping, None, facts, by)))
    }

    fn create_at(&self, path: &Path, len: u64) -> Result<Region, MapError> {
        self.checked_len(len, PAGE_BYTES)?;
        let file = File::options().read(true).write(true).create_new(true).open(path);
        let file = file.map_err(|source| MapError::system(Step::Create, source))?;
        // We made it a moment ago, nothing is in it, and the first error is the one to tell.
        let undo = |_: &MapError| drop(fs::remove_file(path));
        let lock = FileLock::take(file).inspect_err(undo)?;
        let made = || {
            allocate(lock.file(), len)?;
            if self.way == Way::DirectIo {
                // The first write to space that holds nothing yet also writes what the file system
                // knows of it.
                write_zeros(lock.file(), len)
                    .map_err(|source| MapError::system(Step::Allocate, source))?;
            }
            let synced = lock.file().sync_all().and_then(|()| sync_directory_of(path));
            synced.map_err(|source| MapError::system(Step::Sync, source))?;
            self.medium(lock.file())
        };
        // Under the lock: no other process may have begun to use what goes away.
        let (mapping, facts, by) = made().inspect_err(undo)?;
        Ok(Region::whole(Span::new(mapping, Some(lock), facts, by)))
    }

    /// Maps a file that was opened by its name. The name must still be the file's own once it is
    /// locked: its creator may have failed, and removed it, in between.
    fn map_named(&self, file: File, path: &Path) -> Result<Region, MapError> {
        self.map_unlocked(file, |file| {
            let lock = FileLock::take(file)?;
            let inspected = |source| MapError::system(Step::Inspect, source);
            let locked = lock.file().metadata().map_err(inspected)?;
            let named = fs::metadata(path);
            let named = named.map_err(|source| MapError::system(Step::Open, source))?;
            if (named.dev(), named.ino()) == (locked.dev(), locked.ino()) {
                Ok(lock)
            } else {
                Err(MapError::system(Step::Open, ErrorKind::NotFound))
            }
        })
    }

    /// Refuses a file that cannot be right before locking it. A creator that comes between making
    /// its file and locking it must not find it locked by a caller that only looked.
    fn map_unlocked(
        &self,
        file: File,
        lock: impl FnOnce(File) -> Result<FileLock, MapError>,
    ) -> Result<Region, MapError> {
        let len = bytes_of(&file, Path::new(SYSFS))?;
        self.checked_len(len, PAGE_BYTES)?;
        let lock = lock(file)?;
        let (mapping, facts, by) = self.medium(lock.file())?;
        Ok(Region::whole(Span::new(mapping, Some(lock), facts, by)))
    }

    /// Maps a file that is locked.
    fn medium(&self, file: &File) -> Result<(Mapping, MapFacts, Durability), MapError> {
        self.medium_by(file, Path::new(SYSFS))
    }

    fn medium_by(
        &self,
        file: &File,
        root: &Path,
    ) -> Result<(Mapping, MapFacts, Durability), MapError> {
        let found = file.metadata();
        let found = found.map_err(|source| MapError::system(Step::Inspect, source))?;
        let len = self.checked_len(bytes_of(file, root)?, PAGE_BYTES)?;
        let device = device_of(&found, root);
        let (mapping, granularity, reason) = match self.map_direct(file, len)? {
            Ok(direct) => {
                if device.caches_survive() {
                    (Mapping::Direct(direct), Granularity::Store, Reason::PersistentCaches)
                } else {
                    (Mapping::Direct(direct), Granularity::Line, Reason::MapSync)
                }
            }
            Err(reason) if !found.is_file() => {
                return Err(MapErrorKind::NoDirectAccess { reason }.into());
            }
            Err(Reason::DirectIoAsked) => return self.direct_medium(file, len),
            Err(reason) => {
                let is_in_memory = matches!(reason, Reason::MapSyncRefused { .. })
                    && page_cache::is_in_memory(file);
                let (granularity, reason) = match is_in_memory {
                    true => (Granularity::Line, Reason::FileInMemory),
                    false => (Granularity::Page, reason),
                };
                // The demand is looked at first: a refused medium is not even mapped. A file in
                // memory meets none that a file on a disk does not.
                self.facts(Granularity::Page, reason, None)?;
                let map = page_cache::map(file, len);
                let map = map.map_err(|source| MapError::system(Step::Map, source))?;
                (Mapping::Ordinary(map), granularity, reason)
            }
        };
        let facts = self.facts(granularity, reason, device.dirty_shutdowns())?;
        let by = match granularity {
            Granularity::Page => {
                Durability::Pages(Pages::new(page_cache::syncer(mapping.base(), mapping.len())))
            }
            _ => Durability::Lines,
        };
        Ok((self.ready(mapping, granularity != Granularity::Page)?, facts, by))
    }

    /// The content of a file in memory, written back past the page cache.
    fn direct_medium(
        &self,
        file: &File,
        len: usize,
    ) -> Result<(Mapping, MapFacts, Durability), MapError> {
        let facts = self.facts(Granularity::Page, Reason::DirectIoAsked, None)?;
        let load = || {
            let memory = Arc::new(direct_io::load(file, len)?);
            let syncer = direct_io::syncer(file.try_clone()?, Arc::clone(&memory), facts.method)?;
            Ok((Mapping::Copied(memory), Durability::Pages(Pages::new(syncer))))
        };
        let (mapping, by) =
            load().map_err(|source: io::Error| MapError::system(Step::Load, source))?;
        Ok((mapping, facts, by))
    }

    /// The mapping, with its pages where they are asked for, or where they are few and a page that
    /// is mapped is not written for that.
    fn ready(&self, mapping: Mapping, is_free: bool) -> Result<Mapping, MapError> {
        match self.prefault {
            Prefault::Now => {
                mapping.prefault().map_err(|errno| MapError::system(Step::Map, errno))?;
            }
            Prefault::IfSmall if is_free && is_small(mapping.len()) => {
                // It was not asked for. A system that cannot do it does it at the first store.
                let _ = mapping.prefault();
            }
            Prefault::IfSmall | Prefault::Later => {}
        }
        Ok(mapping)
    }

    /// Maps the file directly, or says why that cannot be.
    fn map_direct(&self, file: &File, len: usize) -> Result<Result<DaxMapping, Reason>, MapError> {
        match self.way {
            Way::Best => {}
            Way::PageCache => return Ok(Err(Reason::PageCacheAsked)),
            Way::DirectIo => return Ok(Err(Reason::DirectIoAsked)),
        }
        if self.chosen_method().flush() == FlushMethod::Nothing {
            return Ok(Err(Reason::NoLineFlush));
        }
        match DaxMapping::new(file, len) {
            Ok(mapping) => Ok(Ok(mapping)),
            Err(errno) if DaxMapping::is_refusal(errno) => {
                Ok(Err(Reason::MapSyncRefused { os: errno.raw_os_error() }))
            }
            Err(errno) => Err(MapError::system(Step::Map, errno)),
        }
    }

    fn chosen_method(&self) -> Method {
        self.method.unwrap_or_else(Method::best)
    }

    /// The facts of a medium, if they meet the demand.
    fn facts(
        &self,
        granularity: Granularity,
        reason: Reason,
        dirty_shutdowns: Option<u64>,
    ) -> Result<MapFacts, MapError> {
        // Ordered from strong to weak.
        if granularity > self.weakest {
            let (demanded, offered) = (self.weakest, granularity);
            return Err(MapErrorKind::Granularity { demanded, offered, reason }.into());
        }
        let method = self.chosen_method();
        let method =
            if granularity == Granularity::Store { method.without_flush() } else { method };
        Ok(MapFacts { granularity, reason, method, dirty_shutdowns })
    }

    /// The length as this machine counts, if it is fit to be mapped.
    fn checked_len(&self, len: u64, unit: usize) -> Result<usize, MapError> {
        if len == 0 {
            return Err(MapErrorKind::Empty.into());
        }
        if len < self.min_len {
            return Err(MapErrorKind::TooShort { len, demanded: self.min_len }.into());
        }
        if len % unit as u64 != 0 {
            return Err(MapErrorKind::Misaligned { len, unit }.into());
        }
        // No slice is longer than half the address space.
        match isize::try_from(len) {
            Ok(len) => Ok(len.unsigned_abs()),
            Err(_) => Err(MapErrorKind::TooLong { len }.into()),
        }
    }
}

/// Where sysfs is mounted.
const SYSFS: &str = "/sys";

/// The device that a file lies on, or that it is.
fn device_of<'r>(found: &Metadata, root: &'r Path) -> Device<'r> {
    let (kind, number) =
        if found.is_file() { ("block", found.dev()) } else { ("char", found.rdev()) };
    let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
    Device { root, kind, major, minor }
}

/// How long a file is, or persistent memory without a file system.
fn bytes_of(file: &File, root: &Path) -> Result<u64, MapError> {
    let found = file.metadata();
    let found = found.map_err(|source| MapError::system(Step::Inspect, source))?;
    if found.is_file() {
        return Ok(found.len());
    }
    let is_device = found.file_type().is_char_device();
    let bytes = is_device.then(|| device_of(&found, root).dax_bytes()).flatten();
    bytes.ok_or_else(|| MapErrorKind::NotAFile.into())
}

/// Whether a span takes so little of the machine's memory that its pages are mapped at once.
fn is_small(len: usize) -> bool {
    // Where programs are interpreted, there are no pages to be mapped.
    if cfg!(miri) {
        return false;
    }
    let memory = rustix::system::sysinfo();
    let bytes = (memory.totalram as u64).saturating_mul(u64::from(memory.mem_unit));
    len as u64 <= bytes / SMALL_SHARE
}

/// Gives an empty file its length and all its space.
fn allocate(file: &File, len: u64) -> Result<(), MapError> {
    // A signal may interrupt it, which is no failure: what is allocated by then stays so.
    match retry_on_intr(|| fallocate(file, FallocateFlags::empty(), 0, len)) {
        Ok(()) => Ok(()),
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
            write_zeros(file, len).map_err(|source| MapError::system(Step::Allocate, source))
        }
        Err(errno) => Err(MapError::system(Step::Allocate, errno)),
    }
}

fn write_zeros(mut file: &File, len: u64) -> std::io::Result<()> {
    let zeros = [0; 16 * PAGE_BYTES];
    let mut left = len;
    while left > 0 {
        let now = usize::try_from(left).unwrap_or(usize::MAX).min(zeros.len());
        file.write_all(&zeros[..now])?;
        left -= now as u64;
    }
    Ok(())
}

/// Makes the file's directory entry durable.
fn sync_directory_of(path: &Path) -> std::io::Result<()> {
    let directory = match path.parent() {
        Some(directory) if !directory.as_os_str().is_empty() => directory,
        _ => Path::new("."),
    };
    File::open(directory)?.sync_all()
}

impl Region {
    /// Plain memory of `len` bytes: [`MapOptions::anonymous`] without demands.
    ///
    /// # Errors
    /// The length is unfit or there is no memory.
    pub fn anonymous(len: u64) -> Result<Self, MapError> {
        MapOptions::new().anonymous(len)
    }

    /// Slow memory of `len` bytes: [`MapOptions::emulated`] without demands.
    ///
    /// # Errors
    /// The length is unfit or there is no memory.
    pub fn emulated(len: u64, model: EmulatorModel) -> Result<Self, MapError> {
        MapOptions::new().emulated(len, model)
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    /// The way around a file system without `fallocate`.
    #[test]
    fn zeros_are_written_to_the_last_byte() {
        let path = std::env::temp_dir().join(format!("pmem-sys-zeros-{}", std::process::id()));
        let file = File::create(&path).expect("the temporary directory takes files");
        let len = 16 * PAGE_BYTES as u64 * 2 + 4096;
        write_zeros(&file, len).expect("the disk takes them");
        let content = fs::read(&path).expect("it was just written");
        drop(fs::remove_file(path));
        assert!(content.len() as u64 == len && content.iter().all(|byte| *byte == 0));
    }

    /// A creator that fails removes its file; a caller that opened it meanwhile must not go on with
    /// it.
    #[test]
    fn a_file_that_lost_its_name_before_it_was_locked_is_refused() {
        let path = std::env::temp_dir().join(format!("pmem-sys-gone-{}", std::process::id()));
        let made = MapOptions::new().create(&path, 4096).expect("a new file");
        let opened = || File::options().read(true).write(true).open(&path).expect("it exists");
        let (early, late) = (opened(), opened());
        drop(made);
        fs::remove_file(&path).expect("it is there");
        let gone = MapOptions::new().map_named(early, &path).expect_err("it has no name");
        assert!(matches!(&gone.kind, MapErrorKind::System { step: Step::Open, source }
            if source.kind() == std::io::ErrorKind::NotFound));
        // Nor may it take the place of another file that has the name now.
        let other = MapOptions::new().create(&path, 4096).expect("the name is free");
        let gone = MapOptions::new().map_named(late, &path);
        drop((other, fs::remove_file(&path)));
        assert!(matches!(
            gone.expect_err("another has the name").kind,
            MapErrorKind::System { step: Step::Open, .. }
        ));
    }

    /// How many pages of a region have memory now.
    fn pages_there(region: &Region) -> usize {
        use std::os::unix::fs::FileExt as _;
        let map = File::open("/proc/self/pagemap").expect("Linux has it");
        let mut entries = vec![0; region.range.len / PAGE_BYTES * 8];
        let first = region.range.base.addr() / PAGE_BYTES * 8;
        map.read_exact_at(&mut entries, first as u64).expect("an entry for each page");
        // The highest bit of an entry says so.
        entries.chunks_exact(8).filter(|entry| entry[7] & 0x80 != 0).count()
    }

    #[test]
    fn pages_are_there_if_that_is_asked_for() {
        let len = 1 << 20;
        let lazy = MapOptions::new().fault_later().anonymous(len).expect("memory");
        let eager = MapOptions::new().prefault().anonymous(len).expect("memory");
        let small = MapOptions::new().anonymous(len).expect("memory");
        let there = [&lazy, &eager, &small].map(pages_there);
        assert_eq!(there, [0, 256, 256]);
    }

    /// A machine has no such share of its own memory.
    #[test]
    fn a_large_span_is_mapped_at_its_first_stores() {
        let memory = rustix::system::sysinfo();
        let bytes = memory.totalram as u64 * u64::from(memory.mem_unit) / 16;
        let region = MapOptions::new().anonymous(bytes / 4096 * 4096).expect("memory");
        assert_eq!(pages_there(&region), 0);
    }

    /// The page cache writes each page that it has mapped for writing.
    #[test]
    fn a_file_in_the_page_cache_is_not_written_by_default() {
        let path = std::env::temp_dir().join(format!("pmem-sys-pages-{}", std::process::id()));
        let region = MapOptions::new().page_cache().create(&path, 1 << 20).expect("a file");
        let there = pages_there(&region);
        drop(fs::remove_file(path));
        assert_eq!(there, 0);
    }

    /// It takes no call of the system to fence there. A program that wants persistent memory does
    /// not get it.
    #[test]
    fn a_file_in_memory_is_flushed_by_the_line_and_is_no_persistent_memory() {
        let path = format!("/dev/shm/pmem-sys-memory-{}", std::process::id());
        let file = File::create(&path).expect("Linux has memory there");
        assert!(page_cache::is_in_memory(&file), "a tmpfs");
        drop(file);
        drop(fs::remove_file(&path));
        let region = MapOptions::new().create(&path, 1 << 20).expect("a file");
        let facts = region.map_facts();
        drop(region);
        let demand = MapOptions::new().at_least(Granularity::Line);
        let refused = demand.open(&path).map(drop).expect_err("no persistent memory");
        let asked = MapOptions::new().page_cache().open(&path).expect("it is there");
        let by_asking = asked.map_facts();
        drop(asked);
        drop(fs::remove_file(&path));
        let has_flush = Method::best().flush() != FlushMethod::Nothing;
        assert_eq!(facts.reason == Reason::FileInMemory, has_flush, "{facts:?}");
        assert_eq!(facts.granularity == Granularity::Line, has_flush, "{facts:?}");
        assert!(matches!(refused.kind, MapErrorKind::Granularity { .. }), "{refused}");
        assert_eq!(by_asking.granularity, Granularity::Page);
    }

    /// A character device that sysfs calls persistent memory, and that the kernel does not map so.
    #[test]
    fn a_device_is_mapped_directly_or_not_at_all() {
        let root = std::env::temp_dir().join(format!("pmem-sys-device-{}", std::process::id()));
        drop(fs::remove_dir_all(&root));
        let zero = File::options().read(true).write(true).open("/dev/zero").expect("it is there");
        let found = zero.metadata().expect("it is there");
        assert!(matches!(
            bytes_of(&zero, Path::new(SYSFS)).expect_err("no persistent memory").kind,
            MapErrorKind::NotAFile
        ));
        let number =
            format!("{}:{}", rustix::fs::major(found.rdev()), rustix::fs::minor(found.rdev()));
        fs::create_dir_all(root.join("dax")).expect("a directory");
        fs::create_dir_all(root.join("dev/char").join(&number)).expect("a directory");
        let device = root.join("dev/char").join(number);
        std::os::unix::fs::symlink(root.join("dax"), device.join("subsystem")).expect("a link");
        fs::write(device.join("size"), "1048576\n").expect("a file");
        assert_eq!(bytes_of(&zero, &root).expect("a length"), 1 << 20);
        let refused = MapOptions::new().medium_by(&zero, &root).expect_err("no MAP_SYNC");
        let told = MapErrorKind::NoDirectAccess {
            reason: Reason::MapSyncRefused { os: Errno::OPNOTSUPP.raw_os_error() },
        };
        assert_eq!(refused.to_string(), told.to_string());
        let short = MapOptions::new().min_len(2 << 20).medium_by(&zero, &root);
        assert!(matches!(
            short.expect_err("it is shorter").kind,
            MapErrorKind::TooShort { len: 1_048_576, .. }
        ));
        drop(fs::remove_dir_all(root));
    }

    #[test]
    fn a_length_beyond_the_address_space_is_told_apart() {
        let error = MapOptions::new().anonymous(1 << 63).expect_err("nothing is that long");
        assert!(matches!(error.kind, MapErrorKind::TooLong { .. }));
    }
}
