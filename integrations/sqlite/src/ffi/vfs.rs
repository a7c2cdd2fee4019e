//! The VFS: which files are databases in a journal, and which go to the host.

use core::ffi::{CStr, c_char, c_int};
use core::sync::atomic::{AtomicBool, Ordering};
use std::collections::BTreeMap;
use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use libsqlite3_sys as sys;

use super::file::{self, OpenFile};
use super::files::{OpenPlainFile, delete_in, exists_in, open_in, open_plain, put};
use super::host::{Host, HostFile, bytes_of};
use super::host_disk::{HostDisk, error_of_cut};
use super::rollback_journal::RollbackJournal;
use crate::database::codes::code_of_mount;
use crate::database::connection::Connection;
use crate::database::mounted_file::{MountedFile, Shared, identity_of};
use crate::database::old_pages::{IN_MEMORY, RoomForOld};
use crate::error::Error;
use crate::files::{JOURNAL, PlainFile, WAL};
use crate::mount::{Mount, NO_HOOK, Registry, mount_file, registry};

/// What a registered VFS knows: it lives as long as the process.
struct Own {
    host: Host,
    name: &'static str,
    /// How a database is mounted that says nothing of it.
    otherwise: Option<Mount>,
}

/// A VFS that is registered.
struct Registered(*mut sys::sqlite3_vfs);

// SAFETY: SQ1; SQLite itself calls a registered VFS from every thread.
unsafe impl Send for Registered {}

/// All that are registered, by their names.
static NAMES: Mutex<BTreeMap<String, Registered>> = Mutex::new(BTreeMap::new());

/// Registers the VFS under a name. With a mount, it is the default one of SQLite, and databases
/// that say nothing of their persistent memory are mounted by that.
pub(crate) fn register(name: &str, otherwise: Option<&Mount>) -> Result<(), Error> {
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    let is_default = c_int::from(otherwise.is_some());
    if let Some(known) = names.get(name) {
        // SAFETY: SQ1. A SQLite that was shut down has forgotten it.
        let code = unsafe { sys::sqlite3_vfs_register(known.0, is_default) };
        return if code == sys::SQLITE_OK { Ok(()) } else { Err(Error::NoVfs { code }) };
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
    let otherwise = otherwise.cloned();
    let own = Box::new(Own { host, name: String::leak(name.to_owned()), otherwise });
    let bytes = size_of::<OpenFile>().max(size_of::<OpenPlainFile>());
    let bytes = c_int::try_from(bytes).unwrap_or(c_int::MAX);
    vfs.szOsFile = vfs.szOsFile.max(bytes);
    vfs.zName = CString::into_raw(name_of_own);
    vfs.pAppData = Box::into_raw(own).cast();
    vfs.pNext = core::ptr::null_mut();
    vfs.xOpen = Some(open);
    vfs.xDelete = Some(delete);
    vfs.xAccess = Some(access);
    let vfs = Box::into_raw(Box::new(vfs));
    // SAFETY: SQ1: it lies in a box that nobody frees.
    let code = unsafe { sys::sqlite3_vfs_register(vfs, is_default) };
    if code != sys::SQLITE_OK {
        return Err(Error::NoVfs { code });
    }
    names.insert(name.to_owned(), Registered(vfs));
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
#[derive(Clone, Copy, PartialEq, Eq)]
enum Beside {
    Journal,
    Wal,
}

impl Beside {
    /// Its name in files of the caller's. A database that was moved finds it there.
    const fn name(self) -> &'static str {
        match self {
            Self::Journal => JOURNAL,
            Self::Wal => WAL,
        }
    }

    /// Whether the database is known to have none.
    const fn absent(self, database: &MountedFile) -> &AtomicBool {
        match self {
            Self::Journal => &database.has_no_journal,
            Self::Wal => &database.has_no_wal,
        }
    }
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

/// Whether a file is all of a database. A shim that keeps one in several files makes names for
/// them that say nothing of a rollback journal. A batch is of one file, so it is not offered then.
///
/// # Safety
/// As for [`parameter`].
unsafe fn is_whole(name: sys::sqlite3_filename) -> bool {
    // SAFETY: the caller's.
    let journal = unsafe { sys::sqlite3_filename_journal(name) };
    // SAFETY: a name has one, which may be empty.
    !journal.is_null() && unsafe { !bytes_of(journal).is_empty() }
}

/// What is between SQLite and a database.
enum Opening {
    Connection(Connection),
    /// A connection to a database that is shared, and the file that has its locks.
    Shared(Connection, HostFile),
    /// The host alone.
    Host,
}

/// Connects to the database that is mounted there, or that the URI says how to mount.
///
/// # Safety
/// As for [`parameter`].
unsafe fn connect(own: &Own, name: sys::sqlite3_filename, flags: c_int) -> Result<Opening, Error> {
    // SAFETY: SQ3.
    let path = unsafe { bytes_of(name) };
    let is_read_only = flags & sys::SQLITE_OPEN_READONLY != 0;
    // While the registry is held, nobody ends the mount.
    let mut mounted = registry();
    if let Some(database) = mounted.get(path).filter(|database| database.shared().is_none()) {
        if database.is_given_up() {
            return Err(Error::Busy);
        }
        return Ok(Opening::Connection(Connection::new(Arc::clone(database), is_read_only)));
    }
    let mount = Mount::of_parameters(|key| {
        let key = CString::new(key).ok()?;
        // SAFETY: the caller's.
        unsafe { parameter(name, &key) }
    })?;
    let mount = mount.or_else(|| own.otherwise.clone()).ok_or(Error::NoNvm)?;
    if mount.is_shared {
        // SAFETY: SQ3.
        return unsafe { connect_shared(own, name, flags, &mount, &mut mounted) };
    }
    let full = Path::new(OsStr::from_bytes(path));
    if flags & sys::SQLITE_OPEN_CREATE == 0 && !full.exists() {
        return Err(Error::Path { path: full.to_path_buf() });
    }
    let guard = || own.host.keep_others_away(full);
    let database = mount_file(full, &mount, &NO_HOOK, guard, (true, &mounted))?;
    mounted.insert(path.to_vec(), Arc::clone(&database));
    Ok(Opening::Connection(Connection::new(database, is_read_only)))
}

/// Connects to a database that other programs use in turn. One that can only be read is the host's.
///
/// # Safety
/// As for [`parameter`].
unsafe fn connect_shared(
    own: &Own,
    name: sys::sqlite3_filename,
    flags: c_int,
    mount: &Mount,
    mounted: &mut Registry,
) -> Result<Opening, Error> {
    // SAFETY: SQ3.
    let file = unsafe { own.host.open_file(name, flags, false) };
    let (file, out_flags) = file.map_err(|code| Error::NoVfs { code })?;
    if out_flags & sys::SQLITE_OPEN_READONLY != 0 {
        return Ok(Opening::Host);
    }
    // SAFETY: SQ3.
    let path = unsafe { bytes_of(name) };
    let full = Path::new(OsStr::from_bytes(path));
    let no_path = |_| Error::Path { path: full.to_path_buf() };
    let identity = identity_of(full).map_err(no_path)?;
    let known = mounted
        .get(path)
        .filter(|database| database.shared().is_some_and(|shared| shared.identity == identity));
    if let Some(database) = known {
        // It may be in pieces since its last connection was closed.
        let home = database.go_home(sys::SQLITE_CANTOPEN);
        home.map_err(|code| Error::NoVfs { code })?;
        return Ok(Opening::Shared(Connection::new(Arc::clone(database), false), file));
    }
    let (block_size, blocks) = mount.disk_shape();
    let disk = HostDisk::open(own.host, full, block_size, blocks)?;
    let host = own.host;
    let (of_len, of_cut, of_keep) = (disk.clone(), disk.clone(), disk.clone());
    let settings = mount.clone();
    let anew = move || {
        let len = disk.len().map_err(|code| Error::NoVfs { code })?;
        settings.anew(&disk, len)
    };
    let shared = Shared {
        len: Box::new(move || of_len.len()),
        identity,
        anew: Box::new(anew),
        keep: Box::new(move |keeps| of_keep.keep(keeps)),
        room: RoomForOld { in_memory: IN_MEMORY, spill: Box::new(move || host.open_spill()) },
        ahead: Mutex::default(),
    };
    let cut = Box::new(move |len| of_cut.cut(len).map_err(|code| error_of_cut(len, code)));
    let database = Mount::mount_shared(shared, cut, None)?;
    mounted.insert(path.to_vec(), Arc::clone(&database));
    Ok(Opening::Shared(Connection::new(database, false), file))
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
        let (connection, host) = match unsafe { connect(own, name, flags) } {
            Ok(Opening::Connection(connection)) => (connection, None),
            Ok(Opening::Shared(connection, host)) => (connection, Some(host)),
            // SAFETY: as SQLite called this.
            Ok(Opening::Host) => return unsafe { own.host.open(name, file, flags, out_flags) },
            Err(error) => {
                let code = code_of_mount(&error);
                log(code, &error);
                return code;
            }
        };
        // SAFETY: SQ3.
        let can_batch = unsafe { is_whole(name) };
        // SAFETY: SQ2; `szOsFile` has room for it.
        unsafe { file::open(file, connection, host, own.name, can_batch) };
        if !out_flags.is_null() {
            // SAFETY: SQ4.
            unsafe { out_flags.write(flags) };
        }
        return sys::SQLITE_OK;
    }
    let beside = sys::SQLITE_OPEN_MAIN_JOURNAL | sys::SQLITE_OPEN_WAL;
    if flags & beside != 0 && !name.is_null() {
        // SAFETY: SQ3.
        if let Some(beside) = database_of(unsafe { bytes_of(name) }) {
            // SAFETY: as SQLite called this.
            return unsafe { open_beside(own, beside, name, file, flags, out_flags) };
        }
    }
    // SAFETY: as SQLite called this.
    unsafe { own.host.open(name, file, flags, out_flags) }
}

/// Opens a rollback journal or a WAL of a mounted database.
///
/// # Safety
/// As SQLite calls `xOpen` (SQ2, SQ3, SQ4).
unsafe fn open_beside(
    own: &Own,
    (database, kind): (Arc<MountedFile>, Beside),
    name: sys::sqlite3_filename,
    file: *mut sys::sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    database.counts.host_calls.add(1);
    database.counts.host_files.add(1);
    let _others_wait = database.beside();
    kind.absent(&database).store(false, Ordering::Relaxed);
    let is_journal = kind == Beside::Journal;
    let creates_journal = is_journal && flags & sys::SQLITE_OPEN_CREATE != 0;
    if creates_journal && database.has_moved() {
        return sys::SQLITE_READONLY_DBMOVED;
    }
    // SQ5: it is the connection whose batch was refused just now.
    let falls_back = creates_journal && database.falls_back.swap(false, Ordering::Relaxed);
    let may_write = is_journal && flags & sys::SQLITE_OPEN_READWRITE != 0;
    let code = match &database.files {
        _ if falls_back || (may_write && database.shared().is_none()) => {
            let journal = (Arc::clone(&database), falls_back);
            // SAFETY: as SQLite called this; `szOsFile` has room for it.
            unsafe { open_journal(own, journal, name, file, flags, out_flags) }
        }
        // SAFETY: as above.
        Some(files) => unsafe { open_in(&**files, kind.name().as_bytes(), file, flags, out_flags) },
        // SAFETY: as SQLite called this.
        None => unsafe { own.host.open(name, file, flags, out_flags) },
    };
    if creates_journal && code == sys::SQLITE_OK {
        database.journal.store(file, Ordering::Relaxed);
    }
    code
}

/// Opens a rollback journal to write it: that of a batch that was refused, or another one.
///
/// # Safety
/// As SQLite calls `xOpen` (SQ2, SQ3, SQ4).
unsafe fn open_journal(
    own: &Own,
    (database, falls_back): (Arc<MountedFile>, bool),
    name: sys::sqlite3_filename,
    file: *mut sys::sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    let (opened, flags) = if let Some(files) = &database.files {
        match open_plain(&**files, JOURNAL.as_bytes(), flags) {
            Ok(opened) => (opened, flags),
            Err(code) => return code,
        }
    } else {
        // SAFETY: SQ3.
        let opened: (Box<dyn PlainFile>, c_int) =
            match unsafe { own.host.open_file(name, flags, false) } {
                Ok((opened, flags)) => (Box::new(opened), flags),
                Err(code) => return code,
            };
        opened
    };
    let journal = if falls_back {
        RollbackJournal::held_back(opened, database)
    } else {
        RollbackJournal::open(opened, database)
    };
    let Ok(journal) = journal else { return sys::SQLITE_IOERR_TRUNCATE };
    // SAFETY: the caller's.
    unsafe { put(Box::new(journal), file, flags, out_flags) };
    sys::SQLITE_OK
}

unsafe extern "C" fn delete(
    vfs: *mut sys::sqlite3_vfs,
    name: *const c_char,
    sync_folder: c_int,
) -> c_int {
    // SAFETY: SQLite calls it with the VFS that it is a method of.
    let own = unsafe { own_of(vfs) };
    // SAFETY: SQ3.
    let path = unsafe { bytes_of(name) };
    let Some((database, kind)) = database_of(path) else {
        // SAFETY: as SQLite called this.
        return unsafe { delete_of_host(own, name, sync_folder) };
    };
    let _others_wait = database.beside();
    // SQLite relies on its next transaction, which would write the file anew. A batch leaves it as
    // it is, so a power cut must not give it back. Where others have the file in turn, the journal
    // is in memory that no power cut leaves.
    let sync_folder = if database.shared().is_none() { 1 } else { sync_folder };
    let code = match &database.files {
        Some(files) => delete_in(&**files, kind.name().as_bytes()),
        // SAFETY: as SQLite called this.
        None => unsafe { delete_of_host(own, name, sync_folder) },
    };
    database.counts.host_calls.add(1);
    let is_gone = code == sys::SQLITE_OK || code == sys::SQLITE_IOERR_DELETE_NOENT;
    kind.absent(&database).store(is_gone, Ordering::Relaxed);
    code
}

/// Deletes a file of the host.
///
/// # Safety
/// As SQLite calls `xDelete` (SQ3).
unsafe fn delete_of_host(own: &Own, name: *const c_char, sync_folder: c_int) -> c_int {
    match own.host.methods().xDelete {
        // SAFETY: the caller's, and SQ1.
        Some(delete) => unsafe { delete(own.host.raw(), name, sync_folder) },
        None => sys::SQLITE_IOERR_DELETE,
    }
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
    let path = unsafe { bytes_of(name) };
    let Some((database, kind)) = database_of(path) else {
        // SAFETY: as SQLite called this.
        return unsafe { access_of_host(own, name, flags, out) };
    };
    let absent = kind.absent(&database);
    if database.shared().is_none() && absent.load(Ordering::Relaxed) {
        // SAFETY: SQ4.
        unsafe { out.write(0) };
        return sys::SQLITE_OK;
    }
    let _others_wait = database.beside();
    database.counts.host_calls.add(1);
    if let Some(files) = &database.files {
        let exists = match exists_in(&**files, kind.name().as_bytes()) {
            Ok(exists) => exists,
            Err(code) => return code,
        };
        absent.store(!exists, Ordering::Relaxed);
        // SAFETY: SQ4.
        unsafe { out.write(c_int::from(exists)) };
        return sys::SQLITE_OK;
    }
    // SAFETY: as SQLite called this.
    let code = unsafe { access_of_host(own, name, flags, out) };
    // SAFETY: SQ4: the host has written it.
    let is_gone = code == sys::SQLITE_OK && unsafe { out.read() } == 0;
    absent.store(is_gone, Ordering::Relaxed);
    code
}

/// Asks the host for a file.
///
/// # Safety
/// As SQLite calls `xAccess` (SQ3, SQ4).
unsafe fn access_of_host(own: &Own, name: *const c_char, flags: c_int, out: *mut c_int) -> c_int {
    match own.host.methods().xAccess {
        // SAFETY: the caller's, and SQ1.
        Some(access) => unsafe { access(own.host.raw(), name, flags, out) },
        None => sys::SQLITE_IOERR_ACCESS,
    }
}

#[cfg(test)]
mod tests;
