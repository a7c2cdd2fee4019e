//! The host's own VFS: what goes there, and the lock that keeps other programs away.

use core::ffi::{CStr, c_char, c_int};
use core::ptr;
use std::ffi::{CString, OsStr};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use libsqlite3_sys as sys;

use crate::database::mounted_file::Guard;
use crate::error::Error;
use crate::files::PlainFile;

/// The host's VFS.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Host(*mut sys::sqlite3_vfs);

// SAFETY: SQ1; SQLite itself calls a registered VFS from every thread.
unsafe impl Send for Host {}
// SAFETY: as above; nothing is changed through it.
unsafe impl Sync for Host {}

impl Host {
    /// The VFS that was SQLite's default before this one.
    pub(crate) fn find() -> Result<Self, Error> {
        static HOST: Mutex<Option<Host>> = Mutex::new(None);
        let mut host = HOST.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(host) = *host {
            return Ok(host);
        }
        // SAFETY: it initialises SQLite by itself, and takes a null pointer for the default.
        let found = unsafe { sys::sqlite3_vfs_find(ptr::null()) };
        if found.is_null() {
            Err(Error::NoVfs { code: sys::SQLITE_ERROR })
        } else {
            Ok(*host.insert(Self(found)))
        }
    }

    /// A host that a test has changed.
    #[cfg(test)]
    pub(crate) const fn of(raw: *mut sys::sqlite3_vfs) -> Self {
        Self(raw)
    }

    pub(crate) const fn raw(self) -> *mut sys::sqlite3_vfs {
        self.0
    }

    /// The table of its methods.
    pub(crate) fn methods(self) -> sys::sqlite3_vfs {
        // SAFETY: SQ1, and the table is plain data.
        unsafe { *self.0 }
    }

    /// The full path of a file, as SQLite will ask for it.
    pub(crate) fn full_path(self, path: &Path) -> Result<PathBuf, Error> {
        let refused = || Error::Path { path: path.to_path_buf() };
        let name = CString::new(path.as_os_str().as_bytes()).map_err(|_| Error::ZeroInName)?;
        let methods = self.methods();
        let full_pathname = methods.xFullPathname.ok_or_else(refused)?;
        let bytes = usize::try_from(methods.mxPathname).unwrap_or_default() + 1;
        let mut full = vec![0_u8; bytes];
        let room = c_int::try_from(bytes).map_err(|_| refused())?;
        let into = full.as_mut_ptr().cast::<c_char>();
        // SAFETY: SQ1; the name is a C string, and `into` has `room` bytes.
        let code = unsafe { full_pathname(self.0, name.as_ptr(), room, into) };
        // `SQLITE_OK_SYMLINK` is a success as well.
        if code & 0xff != sys::SQLITE_OK {
            return Err(refused());
        }
        let end = full.iter().position(|byte| *byte == 0).unwrap_or(0);
        full.truncate(end);
        Ok(PathBuf::from(OsStr::from_bytes(&full)))
    }

    /// Opens a file of the host, in memory of SQLite's.
    ///
    /// # Safety
    /// As SQLite calls `xOpen` (SQ2, SQ3, SQ4).
    pub(crate) unsafe fn open(
        self,
        name: sys::sqlite3_filename,
        file: *mut sys::sqlite3_file,
        flags: c_int,
        out_flags: *mut c_int,
    ) -> c_int {
        let Some(open) = self.methods().xOpen else { return sys::SQLITE_CANTOPEN };
        // SAFETY: the caller's, and SQ1.
        unsafe { open(self.0, name, file, flags, out_flags) }
    }

    /// Keeps every other program, and every connection that does not come by this VFS, away from a
    /// database, as long as the guard lives.
    pub(crate) fn keep_others_away(self, path: &Path) -> Result<Guard, Error> {
        let mut kept = self.open_own(path)?;
        for level in [sys::SQLITE_LOCK_SHARED, sys::SQLITE_LOCK_EXCLUSIVE] {
            if kept.lock(level) != sys::SQLITE_OK {
                return Err(Error::Busy);
            }
        }
        Ok(Box::new(kept))
    }

    /// Opens a database's file under a name that lives as long as the file.
    pub(crate) fn open_own(self, path: &Path) -> Result<HostFile, Error> {
        let path = path.as_os_str().as_bytes();
        let database = CString::new(path).map_err(|_| Error::ZeroInName)?;
        let of = |suffix: &[u8]| CString::new([path, suffix].concat());
        let journal = of(b"-journal").map_err(|_| Error::ZeroInName)?;
        let wal = of(b"-wal").map_err(|_| Error::ZeroInName)?;
        let no_parameters = ptr::null_mut();
        let (database, journal, wal) = (database.as_ptr(), journal.as_ptr(), wal.as_ptr());
        // SAFETY: three C strings, and no parameters.
        let name =
            unsafe { sys::sqlite3_create_filename(database, journal, wal, 0, no_parameters) };
        if name.is_null() {
            return Err(Error::NoVfs { code: sys::SQLITE_NOMEM });
        }
        let flags = sys::SQLITE_OPEN_MAIN_DB | sys::SQLITE_OPEN_READWRITE;
        // SAFETY: the name lives as long as the file, which frees it.
        let opened = unsafe { self.open_file(name, flags, true) };
        opened.map(|(file, _)| file).map_err(|code| Error::NoVfs { code })
    }

    /// Opens a file without a name in the host's folder for temporary files. It goes when it is
    /// closed.
    pub(crate) fn open_spill(self) -> io::Result<Box<dyn PlainFile>> {
        let flags = sys::SQLITE_OPEN_TEMP_JOURNAL
            | sys::SQLITE_OPEN_READWRITE
            | sys::SQLITE_OPEN_CREATE
            | sys::SQLITE_OPEN_EXCLUSIVE
            | sys::SQLITE_OPEN_DELETEONCLOSE;
        // SAFETY: a temporary file is opened without a name.
        match unsafe { self.open_file(ptr::null(), flags, false) } {
            Ok((file, _)) => Ok(Box::new(file)),
            Err(code) => Err(io::Error::other(format!("code {code}"))),
        }
    }

    /// Opens a file in memory of its own. Returns with it what SQLite is to know of it.
    ///
    /// # Safety
    /// As SQLite calls `xOpen` (SQ3); the name lives as long as the file. If the file owns it, it
    /// is one of `sqlite3_create_filename`.
    pub(crate) unsafe fn open_file(
        self,
        name: sys::sqlite3_filename,
        flags: c_int,
        owns_name: bool,
    ) -> Result<(HostFile, c_int), c_int> {
        let bytes = usize::try_from(self.methods().szOsFile).unwrap_or_default();
        let words = bytes.div_ceil(size_of::<u64>());
        let memory = vec![0_u64; words].into_boxed_slice();
        let mut opened = HostFile { name, owns_name, memory, is_open: false };
        let mut out_flags = flags;
        // SAFETY: the memory is as large as the VFS asks for, zero, and stays in its box until the
        // file is closed; the name lives as long.
        let code = unsafe { self.open(name, opened.file(), flags, &mut out_flags) };
        opened.is_open = opened.methods().is_some();
        if code == sys::SQLITE_OK { Ok((opened, out_flags)) } else { Err(code) }
    }
}

/// An open file of the host, in memory of its own.
pub(crate) struct HostFile {
    name: sys::sqlite3_filename,
    owns_name: bool,
    memory: Box<[u64]>,
    is_open: bool,
}

// SAFETY: it is one owner's, and the host's VFS takes calls from every thread (SQ2 asks that they
// come one at a time, as an owner's do).
unsafe impl Send for HostFile {}

impl HostFile {
    pub(crate) fn file(&mut self) -> *mut sys::sqlite3_file {
        self.memory.as_mut_ptr().cast()
    }

    pub(crate) fn methods(&mut self) -> Option<sys::sqlite3_io_methods> {
        // SAFETY: the memory begins with a `sqlite3_file`, zero at first.
        unsafe { methods_of(self.file()) }
    }

    /// Asks the host for a lock; returns SQLite's code.
    pub(crate) fn lock(&mut self, level: c_int) -> c_int {
        let lock = self.methods().and_then(|methods| methods.xLock);
        // SAFETY: the file is open, and no other code calls its methods.
        lock.map_or(sys::SQLITE_IOERR_LOCK, |lock| unsafe { lock(self.file(), level) })
    }

    /// Gives a lock back; returns SQLite's code.
    pub(crate) fn unlock(&mut self, level: c_int) -> c_int {
        let unlock = self.methods().and_then(|methods| methods.xUnlock);
        // SAFETY: as in `lock`.
        unlock.map_or(sys::SQLITE_IOERR_UNLOCK, |unlock| unsafe { unlock(self.file(), level) })
    }

    /// Reads; what the file does not have is zero. Returns SQLite's code.
    pub(crate) fn read(&mut self, at: i64, into: &mut [u8]) -> c_int {
        let read = self.methods().and_then(|methods| methods.xRead);
        let (Some(read), Ok(bytes)) = (read, c_int::try_from(into.len())) else {
            return sys::SQLITE_IOERR_READ;
        };
        // SAFETY: as in `lock`; `into` has `bytes` bytes.
        let code = unsafe { read(self.file(), into.as_mut_ptr().cast(), bytes, at) };
        if code == sys::SQLITE_IOERR_SHORT_READ { sys::SQLITE_OK } else { code }
    }

    /// Writes; returns SQLite's code.
    pub(crate) fn write(&mut self, at: i64, from: &[u8]) -> c_int {
        let write = self.methods().and_then(|methods| methods.xWrite);
        let (Some(write), Ok(bytes)) = (write, c_int::try_from(from.len())) else {
            return sys::SQLITE_IOERR_WRITE;
        };
        // SAFETY: as in `lock`; `from` has `bytes` bytes.
        unsafe { write(self.file(), from.as_ptr().cast(), bytes, at) }
    }

    /// Makes the file durable; returns SQLite's code.
    pub(crate) fn sync(&mut self) -> c_int {
        let sync = self.methods().and_then(|methods| methods.xSync);
        // SAFETY: as in `lock`.
        sync.map_or(sys::SQLITE_IOERR_FSYNC, |sync| unsafe {
            sync(self.file(), sys::SQLITE_SYNC_NORMAL)
        })
    }

    /// The length of the file, or SQLite's code.
    pub(crate) fn len(&mut self) -> Result<u64, c_int> {
        let size = self.methods().and_then(|methods| methods.xFileSize);
        let size = size.ok_or(sys::SQLITE_IOERR_FSTAT)?;
        let mut bytes = 0;
        // SAFETY: as in `lock`; the place for the result is valid.
        let code = unsafe { size(self.file(), &mut bytes) };
        if code != sys::SQLITE_OK {
            return Err(code);
        }
        u64::try_from(bytes).map_err(|_| sys::SQLITE_IOERR_FSTAT)
    }

    /// Gives the file another length; returns SQLite's code.
    pub(crate) fn set_len(&mut self, len: i64) -> c_int {
        let truncate = self.methods().and_then(|methods| methods.xTruncate);
        // SAFETY: as in `lock`.
        truncate
            .map_or(sys::SQLITE_IOERR_TRUNCATE, |truncate| unsafe { truncate(self.file(), len) })
    }
}

impl Drop for HostFile {
    fn drop(&mut self) {
        let close = self.methods().and_then(|methods| methods.xClose);
        if let Some(close) = close.filter(|_| self.is_open) {
            // SAFETY: the file is open, and is not used after this. It gives its locks back.
            let _code = unsafe { close(self.file()) };
        }
        if self.owns_name {
            // SAFETY: `sqlite3_create_filename` made it, and the file that had it is closed.
            unsafe { sys::sqlite3_free_filename(self.name) };
        }
    }
}

/// The methods of a file, if it is open.
///
/// # Safety
/// `file` points to a `sqlite3_file` that is open, or has a null pointer for its methods.
pub(crate) unsafe fn methods_of(file: *mut sys::sqlite3_file) -> Option<sys::sqlite3_io_methods> {
    // SAFETY: the caller's.
    let file = unsafe { &*file };
    // SAFETY: methods are static tables; a null pointer is none.
    unsafe { file.pMethods.as_ref() }.copied()
}

/// The bytes of a C string.
///
/// # Safety
/// A C string that outlives the result.
pub(crate) unsafe fn bytes_of<'a>(name: *const c_char) -> &'a [u8] {
    // SAFETY: the caller's.
    let name = unsafe { CStr::from_ptr(name) };
    name.to_bytes()
}
