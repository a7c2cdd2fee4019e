//! What a VFS says of files, and what it asks of the host.

use core::ptr;
use core::sync::atomic::AtomicI32;
use std::io;
use std::sync::{OnceLock, Weak};

use super::super::rollback_journal::unmounted;
use super::*;
use crate::files::Files;

/// What a database is said to be able to, opened by a name that has this rollback journal.
fn characteristics(path: &CStr, journal: &CStr) -> c_int {
    let parameters = [c"shared".as_ptr(), c"1".as_ptr()];
    let parameters: *mut *const c_char = parameters.as_ptr().cast_mut();
    let (wal, name) = (c"".as_ptr(), path.as_ptr());
    // SAFETY: C strings, and two of them for one parameter.
    let name = unsafe { sys::sqlite3_create_filename(name, journal.as_ptr(), wal, 1, parameters) };
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
    let can_batch = |journal| characteristics(&path, journal) & sys::SQLITE_IOCAP_BATCH_ATOMIC != 0;
    assert!(can_batch(c"db-journal"));
    assert!(!can_batch(c""));
    std::fs::remove_dir_all(folder).expect("a folder");
}

/// What the host was asked for last.
static SYNCS_FOLDER: AtomicI32 = AtomicI32::new(-1);

unsafe extern "C" fn delete_noted(
    _vfs: *mut sys::sqlite3_vfs,
    _name: *const c_char,
    sync_folder: c_int,
) -> c_int {
    SYNCS_FOLDER.store(sync_folder, Ordering::Relaxed);
    sys::SQLITE_OK
}

/// A VFS over a host that deletes nothing.
fn over_noting_host<T>(call: impl FnOnce(*mut sys::sqlite3_vfs) -> T) -> T {
    let mut host = Host::find().expect("a VFS").methods();
    host.xDelete = Some(delete_noted);
    let mut vfs = host;
    let mut own = Own { host: Host::of(&raw mut host), name: "", otherwise: None };
    vfs.pAppData = (&raw mut own).cast();
    call(&raw mut vfs)
}

/// SQLite asks for no sync of the folder, except with `synchronous=EXTRA`: its next transaction
/// would make the journal anew. A batch makes none.
#[test]
fn a_journal_and_a_wal_are_deleted_durably() {
    registry().insert(b"/nvj-deleted/db".to_vec(), unmounted(None));
    over_noting_host(|vfs| {
        for (name, syncs) in [
            (c"/nvj-deleted/db-journal", 1),
            (c"/nvj-deleted/db-wal", 1),
            (c"/nvj-deleted/other-journal", 0),
        ] {
            // SAFETY: the VFS and the name live longer than the call.
            assert_eq!(unsafe { delete(vfs, name.as_ptr(), 0) }, sys::SQLITE_OK);
            assert_eq!(SYNCS_FOLDER.load(Ordering::Relaxed), syncs, "{name:?}");
        }
    });
    registry().remove(&b"/nvj-deleted/db"[..]);
}

/// Files that see whether what is known of them may change while they are asked.
#[derive(Debug, Default)]
struct Asked {
    database: OnceLock<Weak<MountedFile>>,
    calls: Mutex<Vec<String>>,
}

impl Asked {
    fn is_asked(&self, name: &str) -> io::Error {
        let database = self.database.get().and_then(Weak::upgrade).expect("it is mounted");
        assert!(database.is_beside_locked(), "{name}");
        self.calls.lock().expect("nobody panicked").push(name.to_owned());
        io::ErrorKind::NotFound.into()
    }
}

impl Files for Asked {
    fn open(&self, name: &str, _creates: bool) -> io::Result<Box<dyn PlainFile>> {
        Err(self.is_asked(name))
    }

    fn exists(&self, name: &str) -> io::Result<bool> {
        let _absent = self.is_asked(name);
        Ok(false)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        Err(self.is_asked(name))
    }
}

/// Another connection may make a journal between the answer that there is none and the note of it.
/// The names are the same wherever the database is.
#[test]
fn what_is_known_of_a_journal_is_asked_and_noted_at_once() {
    let asked = Arc::new(Asked::default());
    let database = unmounted(Some(Arc::clone(&asked) as Arc<dyn Files>));
    asked.database.set(Arc::downgrade(&database)).expect("once");
    registry().insert(b"/nvj-asked/db".to_vec(), database);
    over_noting_host(|vfs| {
        let (journal, wal) = (c"/nvj-asked/db-journal".as_ptr(), c"/nvj-asked/db-wal".as_ptr());
        let mut memory = [0_u64; 64];
        let file = memory.as_mut_ptr().cast::<sys::sqlite3_file>();
        let mut out = 7;
        let flags = sys::SQLITE_OPEN_MAIN_JOURNAL | sys::SQLITE_OPEN_READWRITE;
        // SAFETY: what is given lives longer than the call.
        unsafe {
            open(vfs, journal, file, flags, ptr::null_mut());
        }
        // SAFETY: as above.
        unsafe {
            access(vfs, journal, sys::SQLITE_ACCESS_EXISTS, &raw mut out);
        }
        assert_eq!(out, 0);
        // SAFETY: as above.
        unsafe {
            access(vfs, wal, sys::SQLITE_ACCESS_EXISTS, &raw mut out);
        }
        // SAFETY: as above.
        unsafe {
            delete(vfs, wal, 0);
        }
    });
    registry().remove(&b"/nvj-asked/db"[..]);
    let calls = asked.calls.lock().expect("nobody panicked").clone();
    assert_eq!(calls, ["journal", "journal", "wal", "wal"]);
}
