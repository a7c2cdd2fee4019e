//! The methods of an open database: `sqlite3_io_methods`, version 1.
//!
//! Version 1 has no shared memory, so SQLite answers `PRAGMA journal_mode=WAL` with the mode that
//! it has. A database that other programs use in turn has version 2, whose shared memory and locks
//! are the host's.

use core::ffi::{c_char, c_int, c_void};
use core::ptr;
use core::slice;
use core::sync::atomic::Ordering;
use std::sync::Arc;

use libsqlite3_sys as sys;

use super::host::{HostFile, bytes_of, methods_of};
use crate::database::connection::Connection;
use crate::database::locks::Level;
use crate::mount::registry;

/// What SQLite has room for of an open database.
#[repr(C)]
pub(crate) struct OpenFile {
    base: sys::sqlite3_file,
    open: *mut Opened,
}

/// An open database.
struct Opened {
    connection: Connection,
    /// The file of the host that has the locks, where the database is shared.
    host: Option<HostFile>,
    /// Whether that file has a higher lock than the connection has asked for, because the database
    /// is in pieces.
    is_kept: bool,
    name: &'static str,
    /// Whether the file is all of a database, so that a batch of it is a transaction.
    can_batch: bool,
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
    xUnlock: Some(unlock),
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

/// The methods of a database that is shared.
static SHARED: sys::sqlite3_io_methods = sys::sqlite3_io_methods {
    iVersion: 2,
    xShmMap: Some(shm_map),
    xShmLock: Some(shm_lock),
    xShmBarrier: Some(shm_barrier),
    xShmUnmap: Some(shm_unmap),
    ..METHODS
};

/// Makes an open file of a connection, in SQLite's memory.
///
/// # Safety
/// As SQLite calls `xOpen` (SQ2); `file` has room for an [`OpenFile`].
pub(crate) unsafe fn open(
    file: *mut sys::sqlite3_file,
    connection: Connection,
    host: Option<HostFile>,
    name: &'static str,
    can_batch: bool,
) {
    let methods = if host.is_some() { &raw const SHARED } else { &raw const METHODS };
    let opened = Box::new(Opened { connection, host, is_kept: false, name, can_batch });
    let base = sys::sqlite3_file { pMethods: methods };
    let place = file.cast::<OpenFile>();
    // SAFETY: the caller's; SQLite aligns its files to 8 bytes.
    unsafe { place.write(OpenFile { base, open: Box::into_raw(opened) }) };
}

/// The open database that a file is, if it is one of this VFS.
///
/// # Safety
/// `file` is null, or as for [`methods_of`]. Nobody else uses the file while the result lives
/// (SQ2).
unsafe fn opened<'a>(file: *mut sys::sqlite3_file) -> Option<&'a mut Opened> {
    if file.is_null() {
        return None;
    }
    // SAFETY: the caller's.
    let base = unsafe { &*file };
    let is_own = |methods| ptr::eq(base.pMethods, methods);
    if !is_own(&raw const METHODS) && !is_own(&raw const SHARED) {
        return None;
    }
    // SAFETY: these methods are given by `open` alone, together with the rest of an `OpenFile`.
    let file = unsafe { &*file.cast::<OpenFile>() };
    // SAFETY: it points to the box of `open` until `close` clears the methods; SQ2.
    unsafe { file.open.as_mut() }
}

impl Opened {
    /// Makes the rollback journal durable that SQLite has written behind a refused batch.
    fn sync_journal(&mut self) -> c_int {
        let journal = self.connection.database.journal.load(Ordering::Relaxed);
        if journal.is_null() {
            self.connection.has_no_journal_to_sync();
        } else {
            // SAFETY: SQ5.
            let sync = unsafe { methods_of(journal) }.and_then(|methods| methods.xSync);
            if let Some(sync) = sync {
                // SAFETY: SQ2, SQ5: the pager that calls here has the journal too.
                let code = unsafe { sync(journal, sys::SQLITE_SYNC_FULL) };
                if code != sys::SQLITE_OK {
                    return code;
                }
                self.connection.database.counts.journal_syncs.add(1);
            }
        }
        self.connection.journal_is_synced();
        sys::SQLITE_OK
    }
}

impl Opened {
    /// Gives back the lock that other programs were kept away by, if the database is whole again.
    fn settle(&mut self) {
        if !self.is_kept && !self.connection.database.is_in_pieces() {
            return;
        }
        let _later = self.connection.database.go_home(sys::SQLITE_IOERR_LOCK);
        let Some(host) = self.host.as_mut().filter(|_| self.is_kept) else { return };
        let level = self.connection.level();
        if level <= Level::Shared && !self.connection.database.is_in_pieces() {
            self.is_kept = host.unlock(raw_level(level)) != sys::SQLITE_OK;
        }
    }
}

/// A code from what a connection says.
fn code(done: Result<(), c_int>) -> c_int {
    done.err().unwrap_or(sys::SQLITE_OK)
}

unsafe extern "C" fn close(file: *mut sys::sqlite3_file) -> c_int {
    // SAFETY: SQ2.
    if unsafe { opened(file) }.is_none() {
        return sys::SQLITE_OK;
    }
    let place = file.cast::<OpenFile>();
    // SAFETY: it is one of this VFS, as was seen above.
    let OpenFile { open, .. } = unsafe { place.read() };
    // SAFETY: SQ2; a file without methods is not open.
    unsafe { (*file).pMethods = ptr::null() };
    // SAFETY: `open` made the box, and no other method can reach it any more.
    let opened = unsafe { Box::from_raw(open) };
    let database = Arc::clone(&opened.connection.database);
    let code = code(database.go_home(sys::SQLITE_IOERR_CLOSE));
    drop(opened);
    // While the registry is held, nobody opens the database again.
    let mut mounted = registry();
    let is_last = database.leaves() == 0;
    // The lock that the connection may have kept is gone with it.
    let is_in_pieces = database.keep_if_in_pieces();
    if is_last && database.is_given_up() {
        mounted.retain(|_, other| !Arc::ptr_eq(other, &database));
        return code;
    }
    if !is_last || !database.is_ended_by_last || is_in_pieces {
        return code;
    }
    mounted.retain(|_, other| !Arc::ptr_eq(other, &database));
    match database.close() {
        Ok(()) => sys::SQLITE_OK,
        Err(_) => sys::SQLITE_IOERR_CLOSE,
    }
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
    // SAFETY: SQ4; zeroed memory or not, bytes of it are only written before they are read.
    let into = unsafe { slice::from_raw_parts_mut(into.cast::<u8>(), bytes) };
    // SAFETY: SQ2.
    match unsafe { opened(file) } {
        Some(Opened { connection, .. }) => {
            code(connection.look_without_lock().and_then(|()| connection.read(at, into)))
        }
        None => sys::SQLITE_MISUSE,
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
    // SAFETY: SQ2.
    let Some(opened) = (unsafe { opened(file) }) else { return sys::SQLITE_MISUSE };
    if opened.connection.wants_journal_sync() {
        let code = opened.sync_journal();
        if code != sys::SQLITE_OK {
            return code;
        }
    }
    code(opened.connection.write(at, from))
}

unsafe extern "C" fn truncate(file: *mut sys::sqlite3_file, size: sys::sqlite3_int64) -> c_int {
    let Ok(size) = u64::try_from(size) else { return sys::SQLITE_IOERR_TRUNCATE };
    // SAFETY: SQ2.
    match unsafe { opened(file) } {
        Some(opened) => code(opened.connection.set_len(size)),
        None => sys::SQLITE_MISUSE,
    }
}

unsafe extern "C" fn sync(file: *mut sys::sqlite3_file, _flags: c_int) -> c_int {
    // SAFETY: SQ2.
    match unsafe { opened(file) } {
        Some(opened) => code(opened.connection.sync()),
        None => sys::SQLITE_MISUSE,
    }
}

unsafe extern "C" fn file_size(
    file: *mut sys::sqlite3_file,
    size: *mut sys::sqlite3_int64,
) -> c_int {
    // SAFETY: SQ2.
    let Some(opened) = (unsafe { opened(file) }) else { return sys::SQLITE_MISUSE };
    if let Err(code) = opened.connection.look_without_lock() {
        return code;
    }
    let Ok(len) = sys::sqlite3_int64::try_from(opened.connection.len()) else {
        return sys::SQLITE_IOERR_FSTAT;
    };
    // SAFETY: SQ4.
    unsafe { size.write(len) };
    sys::SQLITE_OK
}

const fn level_of(raw: c_int) -> Level {
    match raw {
        sys::SQLITE_LOCK_NONE => Level::None,
        sys::SQLITE_LOCK_SHARED => Level::Shared,
        sys::SQLITE_LOCK_RESERVED => Level::Reserved,
        sys::SQLITE_LOCK_PENDING => Level::Pending,
        _ => Level::Exclusive,
    }
}

const fn raw_level(level: Level) -> c_int {
    match level {
        Level::None => sys::SQLITE_LOCK_NONE,
        Level::Shared => sys::SQLITE_LOCK_SHARED,
        Level::Reserved => sys::SQLITE_LOCK_RESERVED,
        Level::Pending => sys::SQLITE_LOCK_PENDING,
        Level::Exclusive => sys::SQLITE_LOCK_EXCLUSIVE,
    }
}

unsafe extern "C" fn lock(file: *mut sys::sqlite3_file, level: c_int) -> c_int {
    // SAFETY: SQ2.
    let Some(opened) = (unsafe { opened(file) }) else { return sys::SQLITE_MISUSE };
    opened.settle();
    if let Some(host) = &mut opened.host {
        let code = host.lock(level);
        if code != sys::SQLITE_OK {
            return code;
        }
        opened.connection.is_now(level_of(level));
        return match opened.connection.database.look_again() {
            Ok(()) => sys::SQLITE_OK,
            Err(code) => code,
        };
    }
    match opened.connection.lock(level_of(level)) {
        Ok(()) => sys::SQLITE_OK,
        Err(_) => sys::SQLITE_BUSY,
    }
}

unsafe extern "C" fn unlock(file: *mut sys::sqlite3_file, level: c_int) -> c_int {
    // SAFETY: SQ2.
    let Some(opened) = (unsafe { opened(file) }) else { return sys::SQLITE_MISUSE };
    let Some(host) = &mut opened.host else {
        opened.connection.unlock(level_of(level));
        return sys::SQLITE_OK;
    };
    let home = code(opened.connection.database.go_home(sys::SQLITE_IOERR_UNLOCK));
    opened.connection.unlock(level_of(level));
    // No other program may see the pieces of a batch.
    opened.is_kept = opened.connection.database.is_in_pieces();
    let unlocked = if opened.is_kept { sys::SQLITE_OK } else { host.unlock(level) };
    if unlocked == sys::SQLITE_OK { home } else { unlocked }
}

unsafe extern "C" fn check_reserved_lock(file: *mut sys::sqlite3_file, out: *mut c_int) -> c_int {
    // SAFETY: SQ2.
    let Some(opened) = (unsafe { opened(file) }) else { return sys::SQLITE_MISUSE };
    let is_own = opened.is_kept && opened.connection.level() <= Level::Shared;
    if let Some(host) = opened.host.as_mut().filter(|_| !is_own) {
        let check = host.methods().and_then(|methods| methods.xCheckReservedLock);
        let Some(check) = check else { return sys::SQLITE_IOERR_CHECKRESERVEDLOCK };
        // SAFETY: SQ4, and the file is open as long as `opened`.
        return unsafe { check(host.file(), out) };
    }
    // The connection that keeps a lock for a file in pieces writes nothing.
    let is_reserved = c_int::from(!is_own && opened.connection.is_reserved());
    // SAFETY: SQ4.
    unsafe { out.write(is_reserved) };
    sys::SQLITE_OK
}

/// A text in memory of SQLite's, which SQLite frees.
fn sqlite_text(text: &str) -> *mut c_char {
    let bytes = text.as_bytes();
    // SAFETY: any number may be asked for.
    let memory = unsafe { sys::sqlite3_malloc64(bytes.len() as u64 + 1) };
    let place = memory.cast::<u8>();
    if !place.is_null() {
        // SAFETY: it has one byte more than the text, and they do not overlap.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), place, bytes.len()) };
        // SAFETY: as above.
        let end = unsafe { place.add(bytes.len()) };
        // SAFETY: as above.
        unsafe { end.write(0) };
    }
    place.cast()
}

/// Answers a pragma of this VFS. SQLite answers all others.
///
/// # Safety
/// `words` is what SQLite gives with a pragma: room for a text, the pragma's name, and its value.
unsafe fn pragma(connection: &mut Connection, words: *mut *mut c_char) -> c_int {
    // SAFETY: the caller's.
    let name = unsafe { words.add(1) };
    // SAFETY: the caller's.
    let name = unsafe { name.read() };
    // SAFETY: the caller's: a C string.
    let name = unsafe { bytes_of(name) };
    let text = match name {
        b"nvj_stats" => connection.told(),
        b"nvj_checkpoint" => match connection.checkpoint() {
            Ok(blocks) => blocks.to_string(),
            Err(error) => {
                // SAFETY: the caller's.
                unsafe { words.write(sqlite_text(&error.to_string())) };
                return sys::SQLITE_ERROR;
            }
        },
        name => {
            if name.eq_ignore_ascii_case(b"journal_mode") {
                // SAFETY: the caller's: behind the name there is its value, or a null pointer.
                let value = unsafe { words.add(2) };
                // SAFETY: as above.
                let value = unsafe { value.read() };
                if !value.is_null() {
                    // SAFETY: as above: a C string.
                    connection.asks_for_journal(unsafe { bytes_of(value) });
                }
            }
            return sys::SQLITE_NOTFOUND;
        }
    };
    // SAFETY: the caller's.
    unsafe { words.write(sqlite_text(&text)) };
    sys::SQLITE_OK
}

unsafe extern "C" fn file_control(
    file: *mut sys::sqlite3_file,
    operation: c_int,
    argument: *mut c_void,
) -> c_int {
    // SAFETY: SQ2.
    let Some(opened) = (unsafe { opened(file) }) else { return sys::SQLITE_MISUSE };
    let connection = &mut opened.connection;
    match operation {
        sys::SQLITE_FCNTL_BEGIN_ATOMIC_WRITE => code(connection.begin_batch()),
        sys::SQLITE_FCNTL_COMMIT_ATOMIC_WRITE => code(connection.commit_batch()),
        sys::SQLITE_FCNTL_ROLLBACK_ATOMIC_WRITE => {
            connection.roll_batch_back();
            sys::SQLITE_OK
        }
        sys::SQLITE_FCNTL_SIZE_HINT => sys::SQLITE_OK,
        // SQLite says so before it ends a rollback journal, also where it syncs nothing. What
        // cannot go home has to be told while there is that journal.
        sys::SQLITE_FCNTL_SYNC if opened.host.is_some() => {
            code(connection.go_home(sys::SQLITE_IOERR_FSYNC))
        }
        sys::SQLITE_FCNTL_LOCKSTATE if opened.host.is_none() => {
            let level = raw_level(connection.level());
            // SAFETY: SQ4: the argument is an `int`.
            unsafe { argument.cast::<c_int>().write(level) };
            sys::SQLITE_OK
        }
        sys::SQLITE_FCNTL_HAS_MOVED if opened.host.is_none() => {
            // A rollback journal is another matter: its `xOpen` asks the host.
            let has_moved = c_int::from(connection.database.has_moved_lately());
            // SAFETY: SQ4: the argument is an `int`.
            unsafe { argument.cast::<c_int>().write(has_moved) };
            sys::SQLITE_OK
        }
        sys::SQLITE_FCNTL_VFSNAME => {
            let name = sqlite_text(opened.name);
            // SAFETY: SQ4: the argument is a `char *`, which SQLite frees.
            unsafe { argument.cast::<*mut c_char>().write(name) };
            sys::SQLITE_OK
        }
        // SAFETY: SQ4: the argument of a pragma is its words.
        sys::SQLITE_FCNTL_PRAGMA => unsafe { pragma(connection, argument.cast()) },
        _ => {
            let Some(host) = &mut opened.host else { return sys::SQLITE_NOTFOUND };
            let control = host.methods().and_then(|methods| methods.xFileControl);
            let Some(control) = control else { return sys::SQLITE_NOTFOUND };
            // SAFETY: as SQLite called this; the file is open as long as `opened`.
            unsafe { control(host.file(), operation, argument) }
        }
    }
}

unsafe extern "C" fn sector_size(_file: *mut sys::sqlite3_file) -> c_int {
    4096
}

/// What SQLite takes for true of the rollback journal as well is not said: that file is the host's.
/// Where a WAL is possible, it is the host's too, which says whether it is safe to overwrite.
unsafe extern "C" fn device_characteristics(file: *mut sys::sqlite3_file) -> c_int {
    // SAFETY: SQ2.
    let opened = unsafe { opened(file) };
    let can_batch = opened.as_ref().is_some_and(|opened| opened.can_batch);
    let batch = if can_batch { sys::SQLITE_IOCAP_BATCH_ATOMIC } else { 0 };
    let own = batch | sys::SQLITE_IOCAP_ATOMIC4K;
    let Some(host) = opened.and_then(|opened| opened.host.as_mut()) else {
        return own | sys::SQLITE_IOCAP_POWERSAFE_OVERWRITE;
    };
    let characteristics = host.methods().and_then(|methods| methods.xDeviceCharacteristics);
    // SAFETY: the file is open as long as `opened`.
    let hosts = characteristics.map_or(0, |asked| unsafe { asked(host.file()) });
    own | (hosts & sys::SQLITE_IOCAP_POWERSAFE_OVERWRITE)
}

// The shared memory of a WAL is the host's. A page that a checkpoint of SQLite has written is home
// before the lock of that checkpoint is given back. With each lock the VFS looks at what another
// program has made of the file.

/// `SQLITE_SHM_UNLOCK`.
const UNLOCK: c_int = 1;

unsafe extern "C" fn shm_map(
    file: *mut sys::sqlite3_file,
    region: c_int,
    bytes: c_int,
    extends: c_int,
    out: *mut *mut c_void,
) -> c_int {
    // SAFETY: SQ2.
    let opened = unsafe { opened(file) };
    let Some(host) = opened.and_then(|opened| opened.host.as_mut()) else {
        return sys::SQLITE_MISUSE;
    };
    let map = host.methods().and_then(|methods| methods.xShmMap);
    let Some(map) = map else { return sys::SQLITE_IOERR_SHMMAP };
    // SAFETY: as SQLite called this; the file is open as long as `opened`.
    unsafe { map(host.file(), region, bytes, extends, out) }
}

unsafe extern "C" fn shm_lock(
    file: *mut sys::sqlite3_file,
    first: c_int,
    count: c_int,
    flags: c_int,
) -> c_int {
    // SAFETY: SQ2.
    let Some(opened) = (unsafe { opened(file) }) else { return sys::SQLITE_MISUSE };
    let database = &opened.connection.database;
    let Some(host) = &mut opened.host else { return sys::SQLITE_MISUSE };
    let lock = host.methods().and_then(|methods| methods.xShmLock);
    let Some(lock) = lock else { return sys::SQLITE_IOERR_SHMLOCK };
    let is_unlock = flags & UNLOCK != 0;
    let home = if is_unlock { database.go_home(sys::SQLITE_IOERR_WRITE) } else { Ok(()) };
    // SAFETY: as SQLite called this; the file is open as long as `opened`.
    let code = unsafe { lock(host.file(), first, count, flags) };
    if code != sys::SQLITE_OK {
        return code;
    }
    let seen = if is_unlock { home } else { database.look_again() };
    seen.err().unwrap_or(sys::SQLITE_OK)
}

unsafe extern "C" fn shm_barrier(file: *mut sys::sqlite3_file) {
    // SAFETY: SQ2.
    let opened = unsafe { opened(file) };
    let Some(host) = opened.and_then(|opened| opened.host.as_mut()) else { return };
    if let Some(barrier) = host.methods().and_then(|methods| methods.xShmBarrier) {
        // SAFETY: as SQLite called this; the file is open as long as `opened`.
        unsafe { barrier(host.file()) };
    }
}

unsafe extern "C" fn shm_unmap(file: *mut sys::sqlite3_file, deletes: c_int) -> c_int {
    // SAFETY: SQ2.
    let opened = unsafe { opened(file) };
    let Some(host) = opened.and_then(|opened| opened.host.as_mut()) else {
        return sys::SQLITE_MISUSE;
    };
    let unmap = host.methods().and_then(|methods| methods.xShmUnmap);
    let Some(unmap) = unmap else { return sys::SQLITE_OK };
    // SAFETY: as SQLite called this; the file is open as long as `opened`.
    unsafe { unmap(host.file(), deletes) }
}
