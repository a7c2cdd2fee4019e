//! The VFS: which files are databases in a journal, and which go to the host.

use core::ffi::{CStr, c_char, c_int};
use core::sync::atomic::Ordering;
use std::collections::BTreeMap;
use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use libsqlite3_sys as sys;

use super::file::{self, OpenFile};
use super::files::{OpenPlainFile, delete_in, exists_in, open_in, open_plain, put};
use super::held_back::HeldBack;
use super::host::{Host, HostFile, bytes_of};
use super::host_disk::{HostDisk, error_of_cut};
use crate::database::codes::code_of_mount;
use crate::database::connection::Connection;
use crate::database::mounted_file::{MountedFile, Shared};
use crate::database::old_pages::{IN_MEMORY, RoomForOld};
use crate::error::Error;
use crate::files::{Files, PlainFile};
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
    let database = mount_file(full, &mount, &NO_HOOK, guard, true)?;
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
    let metadata = full.metadata().map_err(no_path)?;
    let identity = (metadata.dev(), metadata.ino());
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
    let (mut journal_of, mut files) = (None, None);
    if flags & beside != 0 && !name.is_null() {
        // SAFETY: SQ3.
        if let Some((database, kind)) = database_of(unsafe { bytes_of(name) }) {
            database.counts.host_calls.add(1);
            database.counts.host_files.add(1);
            files = database.files.clone();
            match kind {
                Beside::Journal => {
                    database.has_no_journal.store(false, Ordering::Relaxed);
                    journal_of = (flags & sys::SQLITE_OPEN_CREATE != 0).then_some(database);
                }
                Beside::Wal => database.has_no_wal.store(false, Ordering::Relaxed),
            }
        }
    }
    let falls_back = journal_of.as_ref().is_some_and(|database| {
        // SQ5: it is the connection whose batch was refused just now.
        database.falls_back.swap(false, Ordering::Relaxed)
    });
    let code = match files {
        // SAFETY: as SQLite called this; `szOsFile` has room for it.
        _ if falls_back => unsafe { open_held_back(own, files, name, file, flags, out_flags) },
        // SAFETY: as above.
        Some(files) => unsafe { open_in(&*files, name, file, flags, out_flags) },
        // SAFETY: as SQLite called this.
        None => unsafe { own.host.open(name, file, flags, out_flags) },
    };
    if let Some(database) = journal_of.filter(|_| code == sys::SQLITE_OK) {
        database.journal.store(file, Ordering::Relaxed);
    }
    code
}

/// Opens the rollback journal of a batch that was refused.
///
/// # Safety
/// As SQLite calls `xOpen` (SQ2, SQ3, SQ4).
unsafe fn open_held_back(
    own: &Own,
    files: Option<Arc<dyn Files>>,
    name: sys::sqlite3_filename,
    file: *mut sys::sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    let (opened, flags) = if let Some(files) = files {
        // SAFETY: SQ3.
        match open_plain(&*files, unsafe { bytes_of(name) }, flags) {
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
    let Ok(held_back) = HeldBack::create(opened) else { return sys::SQLITE_IOERR_TRUNCATE };
    // SAFETY: the caller's.
    unsafe { put(Box::new(held_back), file, flags, out_flags) };
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
    let beside = database_of(path);
    let files = beside.as_ref().and_then(|(database, _)| database.files.as_deref());
    let code = match (files, own.host.methods().xDelete) {
        (Some(files), _) => delete_in(files, path),
        // SAFETY: as SQLite called this, and SQ1.
        (None, Some(delete)) => unsafe { delete(own.host.raw(), name, sync_folder) },
        (None, None) => return sys::SQLITE_IOERR_DELETE,
    };
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
    let path = unsafe { bytes_of(name) };
    let beside = database_of(path);
    if let Some((database, kind)) = &beside {
        let absent = match kind {
            Beside::Journal => &database.has_no_journal,
            Beside::Wal => &database.has_no_wal,
        };
        if database.shared().is_none() && absent.load(Ordering::Relaxed) {
            // SAFETY: SQ4.
            unsafe { out.write(0) };
            return sys::SQLITE_OK;
        }
        database.counts.host_calls.add(1);
        if let Some(files) = &database.files {
            let exists = match exists_in(&**files, path) {
                Ok(exists) => exists,
                Err(code) => return code,
            };
            absent.store(!exists, Ordering::Relaxed);
            // SAFETY: SQ4.
            unsafe { out.write(c_int::from(exists)) };
            return sys::SQLITE_OK;
        }
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

#[cfg(test)]
mod tests {
    use core::ptr;

    use super::*;

    /// What a database is said to be able to, opened by a name that has this rollback journal.
    fn characteristics(path: &CStr, journal: &CStr) -> c_int {
        let parameters = [c"shared".as_ptr(), c"1".as_ptr()];
        let parameters: *mut *const c_char = parameters.as_ptr().cast_mut();
        let (wal, name) = (c"".as_ptr(), path.as_ptr());
        // SAFETY: C strings, and two of them for one parameter.
        let name =
            unsafe { sys::sqlite3_create_filename(name, journal.as_ptr(), wal, 1, parameters) };
        // SAFETY: the name of a VFS that is registered.
        let vfs = unsafe { sys::sqlite3_vfs_find(c"nvj-names".as_ptr()) };
        // SAFETY: SQ1.
        let words = unsafe { (*vfs).szOsFile } as usize / 8 + 1;
        let mut memory = vec![0_u64; words];
        let file = memory.as_mut_ptr().cast::<sys::sqlite3_file>();
        let flags = sys::SQLITE_OPEN_MAIN_DB | sys::SQLITE_OPEN_READWRITE | sys::SQLITE_OPEN_CREATE;
        // SAFETY: SQ2 and SQ3: the memory is long enough, and the name lives longer than the file.
        let code = unsafe { open(vfs, name, file, flags, ptr::null_mut()) };
        assert_eq!(code, sys::SQLITE_OK);
        // SAFETY: the file is open.
        let methods = unsafe { super::super::host::methods_of(file) }.expect("is open");
        let asked = methods.xDeviceCharacteristics.expect("a method");
        // SAFETY: the file is open.
        let said = unsafe { asked(file) };
        let close = methods.xClose.expect("a method");
        // SAFETY: the file is open, and is not used any more.
        assert_eq!(unsafe { close(file) }, sys::SQLITE_OK);
        // SAFETY: `sqlite3_create_filename` made it.
        unsafe { sys::sqlite3_free_filename(name) };
        said
    }

    /// A shim that keeps a database in several files names no rollback journal for any of them.
    #[test]
    fn a_file_that_may_be_a_part_of_a_database_takes_no_batches() {
        register("nvj-names", None).expect("a SQLite that commits through a VFS");
        let folder = std::env::temp_dir().join(format!("nvj-names-{}", std::process::id()));
        std::fs::create_dir(&folder).expect("a folder");
        let path = CString::new(folder.join("db").as_os_str().as_bytes()).expect("no zero");
        let can_batch =
            |journal| characteristics(&path, journal) & sys::SQLITE_IOCAP_BATCH_ATOMIC != 0;
        assert!(can_batch(c"db-journal"));
        assert!(!can_batch(c""));
        std::fs::remove_dir_all(folder).expect("a folder");
    }
}
