//! The libraries of PMDK, as far as they are measured, behind calls that cannot be misused.
//!
//! All of the `unsafe` of this program is here. The declarations follow the manual pages of version
//! 1.12: `libpmem(7)`, `libpmemlog(7)`, `libpmemobj(7)`.

#![allow(unsafe_code, reason = "calls into C")]

use std::ffi::{CString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::ptr::NonNull;

type Pool = NonNull<c_void>;

/// A persistent pointer.
#[repr(C)]
struct Oid {
    pool: u64,
    offset: u64,
}

/// `PMEM_FILE_CREATE`
const CREATE: c_int = 1;
const MODE: u32 = 0o600;
/// `TX_PARAM_NONE`, which ends the list of a transaction's parameters.
const NO_PARAMETERS: c_int = 0;

#[link(name = "pmem")]
unsafe extern "C" {
    fn pmem_map_file(
        path: *const c_char,
        len: usize,
        flags: c_int,
        mode: u32,
        mapped_len: *mut usize,
        is_pmem: *mut c_int,
    ) -> *mut c_void;
    fn pmem_memcpy_persist(to: *mut c_void, from: *const c_void, len: usize) -> *mut c_void;
    fn pmem_unmap(base: *mut c_void, len: usize) -> c_int;
}

#[link(name = "pmemlog")]
unsafe extern "C" {
    fn pmemlog_create(path: *const c_char, bytes: usize, mode: u32) -> *mut c_void;
    fn pmemlog_append(log: *mut c_void, from: *const c_void, len: usize) -> c_int;
    fn pmemlog_rewind(log: *mut c_void);
    fn pmemlog_close(log: *mut c_void);
}

#[link(name = "pmemobj")]
unsafe extern "C" {
    fn pmemobj_create(
        path: *const c_char,
        layout: *const c_char,
        bytes: usize,
        mode: u32,
    ) -> *mut c_void;
    fn pmemobj_root(pool: *mut c_void, bytes: usize) -> Oid;
    fn pmemobj_direct(oid: Oid) -> *mut c_void;
    fn pmemobj_tx_begin(pool: *mut c_void, jump: *mut c_void, ...) -> c_int;
    fn pmemobj_tx_add_range_direct(at: *const c_void, len: usize) -> c_int;
    fn pmemobj_tx_commit();
    fn pmemobj_tx_end() -> c_int;
    fn pmemobj_close(pool: *mut c_void);
}

fn c_path(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).expect("a path without a zero")
}

fn opened(pool: *mut c_void, what: &str) -> Pool {
    NonNull::new(pool).unwrap_or_else(|| panic!("{what}: {}", std::io::Error::last_os_error()))
}

/// A file that `libpmem` has mapped. It is written from begin to end, and again.
pub(crate) struct Mapped {
    base: NonNull<c_void>,
    len: usize,
    next: usize,
}

impl Mapped {
    pub(crate) fn create(path: &Path, bytes: usize) -> Self {
        let (path, mut len, mut is_pmem) = (c_path(path), 0, 0);
        let (len_to, is_pmem_to) = (&raw mut len, &raw mut is_pmem);
        // SAFETY: the path ends with a zero, and both places can be written; all of them outlive
        // the call.
        let base = unsafe { pmem_map_file(path.as_ptr(), bytes, CREATE, MODE, len_to, is_pmem_to) };
        let base = opened(base, "pmem_map_file");
        assert_eq!((len, is_pmem), (bytes, 1), "mapped whole, and taken for persistent memory");
        Self { base, len, next: 0 }
    }

    /// Copies to the place after the last copy, durably.
    pub(crate) fn append(&mut self, bytes: &[u8]) {
        assert!(bytes.len() <= self.len);
        if self.next + bytes.len() > self.len {
            self.next = 0;
        }
        // SAFETY: below the length of the mapping, as was just seen to.
        let to = unsafe { self.base.byte_add(self.next) };
        // SAFETY: this many bytes from `to` on lie in the mapping, which lives as long as `self`.
        // No reference to them exists, and the source is a slice outside of the mapping.
        unsafe { pmem_memcpy_persist(to.as_ptr(), bytes.as_ptr().cast(), bytes.len()) };
        self.next += bytes.len();
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: this mapping was made once, and is not used any more.
        unsafe { pmem_unmap(self.base.as_ptr(), self.len) };
    }
}

/// A log of `libpmemlog`.
pub(crate) struct Log(Pool);

impl Log {
    pub(crate) fn create(path: &Path, bytes: usize) -> Self {
        let path = c_path(path);
        // SAFETY: the path ends with a zero, and outlives the call.
        Self(opened(unsafe { pmemlog_create(path.as_ptr(), bytes, MODE) }, "pmemlog_create"))
    }

    /// Appends durably. A full log is begun again.
    pub(crate) fn append(&mut self, bytes: &[u8]) {
        let log = self.0.as_ptr();
        // SAFETY: an open log, and a slice that outlives the call.
        let mut answer = unsafe { pmemlog_append(log, bytes.as_ptr().cast(), bytes.len()) };
        if answer != 0 {
            // SAFETY: an open log.
            unsafe { pmemlog_rewind(log) };
            // SAFETY: as before.
            answer = unsafe { pmemlog_append(log, bytes.as_ptr().cast(), bytes.len()) };
        }
        assert_eq!(answer, 0, "there is room in an empty log");
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        // SAFETY: the log was opened once, and is not used any more.
        unsafe { pmemlog_close(self.0.as_ptr()) };
    }
}

/// A pool of `libpmemobj` whose root is an array of bytes.
pub(crate) struct Objects {
    pool: Pool,
    root: NonNull<c_void>,
    len: usize,
    next: usize,
}

impl Objects {
    /// The root has half of the pool. The other half is for the pool's logs.
    pub(crate) fn create(path: &Path, bytes: usize) -> Self {
        let (path, len) = (c_path(path), bytes / 2);
        let layout = c"nvm-journal-peers".as_ptr();
        // SAFETY: both texts end with a zero and outlive the call.
        let pool = unsafe { pmemobj_create(path.as_ptr(), layout, bytes, MODE) };
        let pool = opened(pool, "pmemobj_create");
        // SAFETY: an open pool.
        let root = unsafe { pmemobj_root(pool.as_ptr(), len) };
        // SAFETY: an object of an open pool.
        let root = opened(unsafe { pmemobj_direct(root) }, "pmemobj_root");
        Self { pool, root, len, next: 0 }
    }

    /// Overwrites the root with these pieces, in one transaction.
    pub(crate) fn overwrite<'a>(&mut self, pieces: impl Iterator<Item = &'a [u8]>) {
        let (pool, nobody) = (self.pool.as_ptr(), std::ptr::null_mut());
        // SAFETY: an open pool, no place to jump to, and the end of the parameters. Nothing below
        // unwinds or jumps over the transaction's end. An abort would end the program, since there
        // is no place to jump to.
        let begun = unsafe { pmemobj_tx_begin(pool, nobody, NO_PARAMETERS) };
        assert_eq!(begun, 0, "a transaction begins");
        for piece in pieces {
            assert!(piece.len() <= self.len);
            if self.next + piece.len() > self.len {
                self.next = 0;
            }
            // SAFETY: below the length of the root, as was just seen to.
            let to = unsafe { self.root.byte_add(self.next) }.as_ptr();
            // SAFETY: in a transaction; this many bytes from `to` on lie in the root.
            let added = unsafe { pmemobj_tx_add_range_direct(to, piece.len()) };
            assert_eq!(added, 0, "there is room for a snapshot");
            // SAFETY: as above. No reference into the pool exists, so the two do not overlap.
            unsafe { std::ptr::copy_nonoverlapping(piece.as_ptr(), to.cast(), piece.len()) };
            self.next += piece.len();
        }
        // SAFETY: in a transaction that was not aborted.
        unsafe { pmemobj_tx_commit() };
        // SAFETY: in a transaction that has committed.
        let ended = unsafe { pmemobj_tx_end() };
        assert_eq!(ended, 0, "a transaction commits");
    }
}

impl Drop for Objects {
    fn drop(&mut self) {
        // SAFETY: the pool was opened once, and is not used any more.
        unsafe { pmemobj_close(self.pool.as_ptr()) };
    }
}
