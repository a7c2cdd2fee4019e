//! The shared memory of a database's WAL, where other programs use the database in turn: the host's.
//!
//! A page that a checkpoint of SQLite has written is home before the lock of that checkpoint is
//! given back, and what another program has made of the file is looked at with each lock.

use core::ffi::{c_int, c_void};

use libsqlite3_sys as sys;

use super::file::opened;

/// `SQLITE_SHM_UNLOCK`.
const UNLOCK: c_int = 1;

pub(super) unsafe extern "C" fn shm_map(
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

pub(super) unsafe extern "C" fn shm_lock(
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

pub(super) unsafe extern "C" fn shm_barrier(file: *mut sys::sqlite3_file) {
    // SAFETY: SQ2.
    let opened = unsafe { opened(file) };
    let Some(host) = opened.and_then(|opened| opened.host.as_mut()) else { return };
    if let Some(barrier) = host.methods().and_then(|methods| methods.xShmBarrier) {
        // SAFETY: as SQLite called this; the file is open as long as `opened`.
        unsafe { barrier(host.file()) };
    }
}

pub(super) unsafe extern "C" fn shm_unmap(file: *mut sys::sqlite3_file, deletes: c_int) -> c_int {
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
