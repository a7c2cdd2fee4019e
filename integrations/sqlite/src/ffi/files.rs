//! A VFS over files of the caller's. Nothing is locked, and nothing is mapped.

use core::ffi::{c_char, c_int, c_void};
use core::ptr;
use core::slice;
use std::ffi::CString;
use std::io;
use std::sync::Arc;

use libsqlite3_sys as sys;

use super::host::{Host, bytes_of};
use crate::error::Error;
use crate::files::{Files, PlainFile};

/// What a registered VFS knows: it lives as long as the process.
struct OwnFiles {
    host: Host,
    files: Arc<dyn Files>,
}

/// What SQLite has room for of an open file.
#[repr(C)]
pub(crate) struct OpenPlainFile {
    base: sys::sqlite3_file,
    open: *mut Box<dyn PlainFile>,
}

static METHODS: sys::sqlite3_io_methods = sys::sqlite3_io_methods {
    iVersion: 1,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(lock),
    xUnlock: Some(lock),
    xCheckReservedLock: Some(check_reserved_lock),
    xFileControl: Some(file_control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(device_characteristics),
    xShmMap: None,
    xShmLock: None,
    xShmBarrier: None,
    xShmUnmap: None,
    xFetch: None,
    xUnfetch: None,
};

/// Registers a VFS of these files under a name.
pub(crate) fn register(name: &str, files: Arc<dyn Files>) -> Result<(), Error> {
    let host = Host::find()?;
    let mut vfs = host.methods();
    let name = CString::new(name).map_err(|_| Error::ZeroInName)?;
    let bytes = c_int::try_from(size_of::<OpenPlainFile>()).unwrap_or(c_int::MAX);
    vfs.szOsFile = vfs.szOsFile.max(bytes);
    vfs.zName = CString::into_raw(name);
    vfs.pAppData = Box::into_raw(Box::new(OwnFiles { host, files })).cast();
    vfs.pNext = ptr::null_mut();
    vfs.xOpen = Some(open);
    vfs.xDelete = Some(delete);
    vfs.xAccess = Some(access);
    vfs.xFullPathname = Some(full_pathname);
    let vfs = Box::into_raw(Box::new(vfs));
    // SAFETY: SQ1: it lies in a box that nobody frees.
    let code = unsafe { sys::sqlite3_vfs_register(vfs, 0) };
    if code == sys::SQLITE_OK { Ok(()) } else { Err(Error::NoVfs { code }) }
}

/// What the VFS of a call knows.
///
/// # Safety
/// `vfs` is one that [`register`] made.
unsafe fn own_of<'a>(vfs: *mut sys::sqlite3_vfs) -> &'a OwnFiles {
    // SAFETY: the caller's, and SQ1.
    let vfs = unsafe { &*vfs };
    // SAFETY: `register` put a box there, and nobody frees it.
    unsafe { &*vfs.pAppData.cast::<OwnFiles>() }
}

/// The code of an error, where SQLite has none that is more exact than `otherwise`.
fn code_of(error: &io::Error, otherwise: c_int) -> c_int {
    match error.kind() {
        io::ErrorKind::StorageFull => sys::SQLITE_FULL,
        io::ErrorKind::ReadOnlyFilesystem => sys::SQLITE_READONLY,
        _ => otherwise,
    }
}

fn code(done: io::Result<()>, otherwise: c_int) -> c_int {
    done.err().map_or(sys::SQLITE_OK, |error| code_of(&error, otherwise))
}

unsafe extern "C" fn open(
    vfs: *mut sys::sqlite3_vfs,
    name: sys::sqlite3_filename,
    file: *mut sys::sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    // SAFETY: SQLite calls it with the VFS that it is a method of.
    let own = unsafe { own_of(vfs) };
    // SAFETY: SQ2. Where `xOpen` fails, SQLite closes only a file that has methods.
    unsafe { (*file).pMethods = ptr::null() };
    let ours = sys::SQLITE_OPEN_MAIN_DB | sys::SQLITE_OPEN_MAIN_JOURNAL | sys::SQLITE_OPEN_WAL;
    if flags & ours == 0 || name.is_null() {
        // SAFETY: as SQLite called this.
        return unsafe { own.host.open(name, file, flags, out_flags) };
    }
    // SAFETY: SQ3.
    let name = unsafe { bytes_of(name) };
    // SAFETY: as SQLite called this.
    unsafe { open_in(&*own.files, name, file, flags, out_flags) }
}

/// Opens one of these files, in SQLite's memory.
///
/// # Safety
/// As SQLite calls `xOpen` (SQ2, SQ4); `file` has room for an [`OpenPlainFile`].
pub(crate) unsafe fn open_in(
    files: &dyn Files,
    name: &[u8],
    file: *mut sys::sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    let opened = match open_plain(files, name, flags) {
        Ok(opened) => opened,
        Err(code) => return code,
    };
    // SAFETY: the caller's.
    unsafe { put(opened, file, flags, out_flags) };
    sys::SQLITE_OK
}

/// Opens one of these files; the error is SQLite's code.
pub(crate) fn open_plain(
    files: &dyn Files,
    name: &[u8],
    flags: c_int,
) -> Result<Box<dyn PlainFile>, c_int> {
    let creates = flags & sys::SQLITE_OPEN_CREATE != 0;
    let opened = files.open(&String::from_utf8_lossy(name), creates);
    opened.map_err(|error| code_of(&error, sys::SQLITE_CANTOPEN))
}

/// Puts an open file into SQLite's memory.
///
/// # Safety
/// As for [`open_in`].
pub(crate) unsafe fn put(
    opened: Box<dyn PlainFile>,
    file: *mut sys::sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) {
    let base = sys::sqlite3_file { pMethods: &raw const METHODS };
    let open = Box::into_raw(Box::new(opened));
    // SAFETY: SQ2; `szOsFile` has room for it, and SQLite aligns its files to 8 bytes.
    unsafe { file.cast::<OpenPlainFile>().write(OpenPlainFile { base, open }) };
    if !out_flags.is_null() {
        // SAFETY: SQ4.
        unsafe { out_flags.write(flags) };
    }
}

unsafe extern "C" fn delete(
    vfs: *mut sys::sqlite3_vfs,
    name: *const c_char,
    _sync_folder: c_int,
) -> c_int {
    // SAFETY: SQLite calls it with the VFS that it is a method of.
    let own = unsafe { own_of(vfs) };
    // SAFETY: SQ3.
    delete_in(&*own.files, unsafe { bytes_of(name) })
}

/// Removes one of these files; returns SQLite's code.
pub(crate) fn delete_in(files: &dyn Files, name: &[u8]) -> c_int {
    match files.remove(&String::from_utf8_lossy(name)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => sys::SQLITE_IOERR_DELETE_NOENT,
        done => code(done, sys::SQLITE_IOERR_DELETE),
    }
}

unsafe extern "C" fn access(
    vfs: *mut sys::sqlite3_vfs,
    name: *const c_char,
    _flags: c_int,
    out: *mut c_int,
) -> c_int {
    // SAFETY: SQLite calls it with the VFS that it is a method of.
    let own = unsafe { own_of(vfs) };
    // SAFETY: SQ3.
    match exists_in(&*own.files, unsafe { bytes_of(name) }) {
        Ok(exists) => {
            // SAFETY: SQ4.
            unsafe { out.write(c_int::from(exists)) };
            sys::SQLITE_OK
        }
        Err(code) => code,
    }
}

/// Whether there is one of these files, or SQLite's code.
pub(crate) fn exists_in(files: &dyn Files, name: &[u8]) -> Result<bool, c_int> {
    let exists = files.exists(&String::from_utf8_lossy(name));
    exists.map_err(|error| code_of(&error, sys::SQLITE_IOERR_ACCESS))
}

/// A name is a full path already.
unsafe extern "C" fn full_pathname(
    _vfs: *mut sys::sqlite3_vfs,
    name: *const c_char,
    room: c_int,
    out: *mut c_char,
) -> c_int {
    // SAFETY: SQ3.
    let name = unsafe { bytes_of(name) };
    if usize::try_from(room).is_ok_and(|room| room > name.len()) {
        // SAFETY: SQ4: `out` has `room` bytes, and is not the name.
        unsafe { ptr::copy_nonoverlapping(name.as_ptr(), out.cast(), name.len()) };
        // SAFETY: as above: there is room for one byte more than the name has.
        let end = unsafe { out.add(name.len()) };
        // SAFETY: as above.
        unsafe { end.write(0) };
        return sys::SQLITE_OK;
    }
    sys::SQLITE_CANTOPEN
}

/// The file of a call.
///
/// # Safety
/// `file` is one that [`open`] filled and that is not closed. Nobody else uses it while the result
/// lives (SQ2).
unsafe fn opened<'a>(file: *mut sys::sqlite3_file) -> &'a mut dyn PlainFile {
    // SAFETY: the caller's.
    let file = unsafe { &*file.cast::<OpenPlainFile>() };
    // SAFETY: it points to the box of `open`; SQ2.
    unsafe { (*file.open).as_mut() }
}

unsafe extern "C" fn close(file: *mut sys::sqlite3_file) -> c_int {
    // SAFETY: SQLite calls it with a file that `open` filled.
    let OpenPlainFile { open, .. } = unsafe { file.cast::<OpenPlainFile>().read() };
    // SAFETY: SQ2; a file without methods is not open.
    unsafe { (*file).pMethods = ptr::null() };
    // SAFETY: `open` made the box, and no other method can reach it any more.
    drop(unsafe { Box::from_raw(open) });
    sys::SQLITE_OK
}

unsafe extern "C" fn read(
    file: *mut sys::sqlite3_file,
    into: *mut c_void,
    bytes: c_int,
    at: sys::sqlite3_int64,
) -> c_int {
    let (Ok(bytes), Ok(at)) = (usize::try_from(bytes), u64::try_from(at)) else {
        return sys::SQLITE_IOERR_READ;
    };
    // SAFETY: SQ4.
    unsafe { ptr::write_bytes(into.cast::<u8>(), 0, bytes) };
    // SAFETY: SQ4, and every byte was written just now.
    let into = unsafe { slice::from_raw_parts_mut(into.cast::<u8>(), bytes) };
    // SAFETY: SQLite calls it with a file that `open` filled.
    let file = unsafe { opened(file) };
    match file.read_at(at, into) {
        Ok(read) if read == bytes => sys::SQLITE_OK,
        Ok(read) => {
            into[read..].fill(0);
            sys::SQLITE_IOERR_SHORT_READ
        }
        Err(error) => code_of(&error, sys::SQLITE_IOERR_READ),
    }
}

unsafe extern "C" fn write(
    file: *mut sys::sqlite3_file,
    from: *const c_void,
    bytes: c_int,
    at: sys::sqlite3_int64,
) -> c_int {
    let (Ok(bytes), Ok(at)) = (usize::try_from(bytes), u64::try_from(at)) else {
        return sys::SQLITE_IOERR_WRITE;
    };
    // SAFETY: SQ4.
    let from = unsafe { slice::from_raw_parts(from.cast::<u8>(), bytes) };
    // SAFETY: SQLite calls it with a file that `open` filled.
    code(unsafe { opened(file) }.write_at(at, from), sys::SQLITE_IOERR_WRITE)
}

unsafe extern "C" fn truncate(file: *mut sys::sqlite3_file, size: sys::sqlite3_int64) -> c_int {
    let Ok(size) = u64::try_from(size) else { return sys::SQLITE_IOERR_TRUNCATE };
    // SAFETY: SQLite calls it with a file that `open` filled.
    code(unsafe { opened(file) }.set_len(size), sys::SQLITE_IOERR_TRUNCATE)
}

unsafe extern "C" fn sync(file: *mut sys::sqlite3_file, _flags: c_int) -> c_int {
    // SAFETY: SQLite calls it with a file that `open` filled.
    code(unsafe { opened(file) }.sync(), sys::SQLITE_IOERR_FSYNC)
}

unsafe extern "C" fn file_size(
    file: *mut sys::sqlite3_file,
    size: *mut sys::sqlite3_int64,
) -> c_int {
    // SAFETY: SQLite calls it with a file that `open` filled.
    let len = unsafe { opened(file) }.len();
    let Some(len) = len.ok().and_then(|len| sys::sqlite3_int64::try_from(len).ok()) else {
        return sys::SQLITE_IOERR_FSTAT;
    };
    // SAFETY: SQ4.
    unsafe { size.write(len) };
    sys::SQLITE_OK
}

/// Locks, and gives a lock back: one connection has the file.
unsafe extern "C" fn lock(_file: *mut sys::sqlite3_file, _level: c_int) -> c_int {
    sys::SQLITE_OK
}

unsafe extern "C" fn check_reserved_lock(_file: *mut sys::sqlite3_file, out: *mut c_int) -> c_int {
    // SAFETY: SQ4.
    unsafe { out.write(0) };
    sys::SQLITE_OK
}

unsafe extern "C" fn file_control(
    _file: *mut sys::sqlite3_file,
    _operation: c_int,
    _argument: *mut c_void,
) -> c_int {
    sys::SQLITE_NOTFOUND
}

/// A sector as small as there is. Nothing is claimed of what a crash does to it.
unsafe extern "C" fn sector_size(_file: *mut sys::sqlite3_file) -> c_int {
    512
}

unsafe extern "C" fn device_characteristics(_file: *mut sys::sqlite3_file) -> c_int {
    0
}
