//! The host's own VFS: what goes there, and the lock that keeps other programs away.

use core::ffi::{CStr, c_char, c_int};
use core::ptr;
use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use libsqlite3_sys as sys;

use crate::database::mounted_file::Guard;
use crate::error::Error;

/// The host's VFS.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Host(*mut sys::sqlite3_vfs);

// SAFETY: SQ1; SQLite itself calls a registered VFS from every thread.
unsafe impl Send for Host {}
// SAFETY: as above; nothing is changed through it.
unsafe impl Sync for Host {}

impl Host {
    /// SQLite's default VFS.
    pub(crate) fn find() -> Result<Self, Error> {
        // SAFETY: it initialises SQLite by itself, and takes a null pointer for the default.
        let found = unsafe { sys::sqlite3_vfs_find(ptr::null()) };
        if found.is_null() {
            Err(Error::NoVfs { code: sys::SQLITE_ERROR })
        } else {
            Ok(Self(found))
        }
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
        let bytes = usize::try_from(self.methods().szOsFile).unwrap_or_default();
        let words = bytes.div_ceil(size_of::<u64>());
        let memory = vec![0_u64; words].into_boxed_slice();
        let mut kept = HostFile { name, memory, is_open: false };
        let flags = sys::SQLITE_OPEN_MAIN_DB | sys::SQLITE_OPEN_READWRITE;
        let mut out_flags = 0;
        // SAFETY: the memory is as large as the VFS asks for, zero, and stays in its box until the
        // file is closed; the name lives as long.
        let code = unsafe { self.open(name, kept.file(), flags, &mut out_flags) };
        kept.is_open = kept.methods().is_some();
        if code != sys::SQLITE_OK {
            return Err(Error::NoVfs { code });
        }
        for level in [sys::SQLITE_LOCK_SHARED, sys::SQLITE_LOCK_EXCLUSIVE] {
            let lock = kept.methods().and_then(|methods| methods.xLock);
            let Some(lock) = lock else { return Err(Error::NoVfs { code: sys::SQLITE_IOERR }) };
            // SAFETY: the file is open, and nobody else calls its methods.
            let code = unsafe { lock(kept.file(), level) };
            if code != sys::SQLITE_OK {
                return Err(Error::Busy);
            }
        }
        Ok(Box::new(kept))
    }
}

/// An open file of the host that nobody reads or writes: it holds a lock.
struct HostFile {
    name: sys::sqlite3_filename,
    memory: Box<[u64]>,
    is_open: bool,
}

// SAFETY: it is one owner's, and the host's VFS takes calls from every thread (SQ2 asks that they
// come one at a time, as an owner's do).
unsafe impl Send for HostFile {}

impl HostFile {
    fn file(&mut self) -> *mut sys::sqlite3_file {
        self.memory.as_mut_ptr().cast()
    }

    fn methods(&mut self) -> Option<sys::sqlite3_io_methods> {
        // SAFETY: the memory begins with a `sqlite3_file`, zero at first.
        unsafe { methods_of(self.file()) }
    }
}

impl Drop for HostFile {
    fn drop(&mut self) {
        let close = self.methods().and_then(|methods| methods.xClose);
        if let Some(close) = close.filter(|_| self.is_open) {
            // SAFETY: the file is open, and is not used after this. It gives its locks back.
            let _code = unsafe { close(self.file()) };
        }
        // SAFETY: `sqlite3_create_filename` made it, and the file that had it is closed.
        unsafe { sys::sqlite3_free_filename(self.name) };
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
