//! The VFS: which files are databases in a journal, and which go to the host.

use core::ffi::{CStr, c_char, c_int};
use core::sync::atomic::Ordering;
use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use libsqlite3_sys as sys;

use super::file::{self, OpenFile};
use super::host::{Host, bytes_of};
use crate::database::codes::code_of_mount;
use crate::database::connection::Connection;
use crate::database::mounted_file::MountedFile;
use crate::error::Error;
use crate::mount::{Mount, NO_HOOK, mount_file, registry};

/// What a registered VFS knows: it lives as long as the process.
struct Own {
    host: Host,
    name: &'static str,
}

/// The names that are registered.
static NAMES: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Registers the VFS under a name.
pub(crate) fn register(name: &str) -> Result<(), Error> {
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    if names.iter().any(|known| known == name) {
        return Ok(());
    }
    let option = c"ENABLE_BATCH_ATOMIC_WRITE";
    // SAFETY: it is a C string.
    let can_commit = unsafe { sys::sqlite3_compileoption_used(option.as_ptr()) };
    if can_commit == 0 {
        return Err(Error::NoBatchAtomic);
    }
    let host = Host::find()?;
    let mut vfs = host.methods();
    let name_of_own = CString::new(name).map_err(|_| Error::ZeroInName)?;
    let own = Box::new(Own { host, name: String::leak(name.to_owned()) });
    let bytes = c_int::try_from(size_of::<OpenFile>()).unwrap_or(c_int::MAX);
    vfs.szOsFile = vfs.szOsFile.max(bytes);
    vfs.zName = CString::into_raw(name_of_own);
    vfs.pAppData = Box::into_raw(own).cast();
    vfs.pNext = core::ptr::null_mut();
    vfs.xOpen = Some(open);
    vfs.xDelete = Some(delete);
    vfs.xAccess = Some(access);
    let vfs = Box::into_raw(Box::new(vfs));
    // SAFETY: SQ1: it lies in a box that nobody frees.
    let code = unsafe { sys::sqlite3_vfs_register(vfs, 0) };
    if code != sys::SQLITE_OK {
        return Err(Error::NoVfs { code });
    }
    names.push(name.to_owned());
    Ok(())
}

/// What the VFS of a call knows.
///
/// # Safety
/// `vfs` is one that [`register`] made.
unsafe fn own_of<'a>(vfs: *mut sys::sqlite3_vfs) -> &'a Own {
    // SAFETY: the caller's, and SQ1.
    let vfs = unsafe { &*vfs };
    // SAFETY: `register` put a box there, and nobody frees it.
    unsafe { &*vfs.pAppData.cast::<Own>() }
}

fn mounted(path: &[u8]) -> Option<Arc<MountedFile>> {
    registry().get(path).cloned()
}

/// Which of a database's files a name means, by its end.
enum Beside {
    Journal,
    Wal,
}

/// The mounted database that a rollback journal or a WAL belongs to.
fn database_of(path: &[u8]) -> Option<(Arc<MountedFile>, Beside)> {
    if let Some(database) = path.strip_suffix(b"-journal") {
        return Some((mounted(database)?, Beside::Journal));
    }
    let database = path.strip_suffix(b"-wal")?;
    Some((mounted(database)?, Beside::Wal))
}

/// Tells the log of SQLite why a database could not be opened.
fn log(code: c_int, error: &Error) {
    if let Ok(text) = CString::new(format!("nvm-journal: {error}")) {
        // SAFETY: a format, and the one C string that it asks for.
        unsafe { sys::sqlite3_log(code, c"%s".as_ptr(), text.as_ptr()) };
    }
}

/// A parameter of the URI that a database is opened by.
///
/// # Safety
/// `name` is as SQLite gives it to `xOpen` for a main database (SQ3).
unsafe fn parameter(name: sys::sqlite3_filename, key: &CStr) -> Option<String> {
    // SAFETY: the caller's.
    let value = unsafe { sys::sqlite3_uri_parameter(name, key.as_ptr()) };
    if value.is_null() {
        return None;
    }
    // SAFETY: SQLite gives a C string that lives as long as the name.
    let value = unsafe { bytes_of(value) };
    Some(String::from_utf8_lossy(value).into_owned())
}

/// Connects to the database that is mounted there, or that the URI says how to mount.
///
/// # Safety
/// As for [`parameter`].
unsafe fn connect(
    own: &Own,
    name: sys::sqlite3_filename,
    flags: c_int,
) -> Result<Connection, Error> {
    // SAFETY: SQ3.
    let path = unsafe { bytes_of(name) };
    let is_read_only = flags & sys::SQLITE_OPEN_READONLY != 0;
    // While the registry is held, nobody ends the mount.
    let mut mounted = registry();
    if let Some(database) = mounted.get(path) {
        return Ok(Connection::new(Arc::clone(database), is_read_only));
    }
    let mount = Mount::of_parameters(|key| {
        let key = CString::new(key).ok()?;
        // SAFETY: the caller's.
        unsafe { parameter(name, &key) }
    })?;
    let mount = mount.ok_or(Error::NoNvm)?;
    let full = Path::new(OsStr::from_bytes(path));
    if flags & sys::SQLITE_OPEN_CREATE == 0 && !full.exists() {
        return Err(Error::Path { path: full.to_path_buf() });
    }
    let guard = || own.host.keep_others_away(full);
    let database = mount_file(full, &mount, &NO_HOOK, guard, true)?;
    mounted.insert(path.to_vec(), Arc::clone(&database));
    Ok(Connection::new(database, is_read_only))
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
    unsafe { (*file).pMethods = core::ptr::null() };
    if flags & sys::SQLITE_OPEN_MAIN_DB != 0 && !name.is_null() {
        // SAFETY: SQ3.
        return match unsafe { connect(own, name, flags) } {
            Ok(connection) => {
                // SAFETY: SQ2; `szOsFile` has room for it.
                unsafe { file::open(file, connection, own.name) };
                if !out_flags.is_null() {
                    // SAFETY: SQ4.
                    unsafe { out_flags.write(flags) };
                }
                sys::SQLITE_OK
            }
            Err(error) => {
                let code = code_of_mount(&error);
                log(code, &error);
                code
            }
        };
    }
    let beside = sys::SQLITE_OPEN_MAIN_JOURNAL | sys::SQLITE_OPEN_WAL;
    if flags & beside != 0 && !name.is_null() {
        // SAFETY: SQ3.
        if let Some((database, kind)) = database_of(unsafe { bytes_of(name) }) {
            database.counts.host_calls.add(1);
            database.counts.host_files.add(1);
            match kind {
                Beside::Journal => database.has_no_journal.store(false, Ordering::Relaxed),
                Beside::Wal => database.has_no_wal.store(false, Ordering::Relaxed),
            }
        }
    }
    // SAFETY: as SQLite called this.
    let code = unsafe { own.host.open(name, file, flags, out_flags) };
    if flags & sys::SQLITE_OPEN_MAIN_JOURNAL != 0 && code == sys::SQLITE_OK && !name.is_null() {
        // SAFETY: SQ3, SQ5.
        unsafe { file::remember_journal(name, file) };
    }
    code
}

unsafe extern "C" fn delete(
    vfs: *mut sys::sqlite3_vfs,
    name: *const c_char,
    sync_folder: c_int,
) -> c_int {
    // SAFETY: SQLite calls it with the VFS that it is a method of.
    let own = unsafe { own_of(vfs) };
    // SAFETY: SQ3.
    let beside = database_of(unsafe { bytes_of(name) });
    let Some(delete) = own.host.methods().xDelete else { return sys::SQLITE_IOERR_DELETE };
    // SAFETY: as SQLite called this, and SQ1.
    let code = unsafe { delete(own.host.raw(), name, sync_folder) };
    if let Some((database, kind)) = beside {
        database.counts.host_calls.add(1);
        let is_gone = code == sys::SQLITE_OK || code == sys::SQLITE_IOERR_DELETE_NOENT;
        match kind {
            Beside::Journal => database.has_no_journal.store(is_gone, Ordering::Relaxed),
            Beside::Wal => database.has_no_wal.store(is_gone, Ordering::Relaxed),
        }
    }
    code
}

unsafe extern "C" fn access(
    vfs: *mut sys::sqlite3_vfs,
    name: *const c_char,
    flags: c_int,
    out: *mut c_int,
) -> c_int {
    // SAFETY: SQLite calls it with the VFS that it is a method of.
    let own = unsafe { own_of(vfs) };
    // SAFETY: SQ3.
    let beside = database_of(unsafe { bytes_of(name) });
    if let Some((database, kind)) = &beside {
        let absent = match kind {
            Beside::Journal => &database.has_no_journal,
            Beside::Wal => &database.has_no_wal,
        };
        if absent.load(Ordering::Relaxed) {
            // SAFETY: SQ4.
            unsafe { out.write(0) };
            return sys::SQLITE_OK;
        }
        database.counts.host_calls.add(1);
    }
    let Some(access) = own.host.methods().xAccess else { return sys::SQLITE_IOERR_ACCESS };
    // SAFETY: as SQLite called this, and SQ1.
    let code = unsafe { access(own.host.raw(), name, flags, out) };
    if let Some((database, kind)) = beside {
        // SAFETY: SQ4: the host has written it.
        let is_gone = code == sys::SQLITE_OK && unsafe { out.read() } == 0;
        match kind {
            Beside::Journal => database.has_no_journal.store(is_gone, Ordering::Relaxed),
            Beside::Wal => database.has_no_wal.store(is_gone, Ordering::Relaxed),
        }
    }
    code
}
