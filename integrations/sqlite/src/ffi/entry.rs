//! Where a program in C enters: a loadable extension, and a library that SQLite's own suite links.

#[cfg(feature = "extension")]
use core::ffi::c_char;
use core::ffi::c_int;
#[cfg(feature = "extension")]
use core::ptr;
use core::str::FromStr as _;

use libsqlite3_sys as sys;

use super::vfs;
use crate::error::Error;
use crate::mount::Mount;

/// The name of the VFS.
const NAME: &str = "nvj";
/// The parameters of databases that have none of their own, as in a URI.
const PARAMETERS: &str = "NVJ_DEFAULT";

/// Registers the VFS: as the default one, if the environment has parameters.
fn register() -> Result<(), Error> {
    let Ok(parameters) = std::env::var(PARAMETERS) else { return vfs::register(NAME, None) };
    vfs::register(NAME, Some(&Mount::from_str(&parameters)?))
}

/// A version as people write it.
#[cfg(feature = "extension")]
fn version_of(number: c_int) -> String {
    format!("{}.{}.{}", number / 1_000_000, number / 1000 % 1000, number % 1000)
}

/// What SQLite calls when it has loaded the extension. The extension stays until the process ends.
///
/// # Safety
/// As SQLite calls it.
#[cfg(feature = "extension")]
#[expect(unreachable_pub, reason = "C calls it by its name")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sqlite3_extension_init(
    _database: *mut sys::sqlite3,
    why: *mut *mut c_char,
    routines: *mut sys::sqlite3_api_routines,
) -> c_int {
    // SAFETY: SQLite gives a table of its version.
    let version = unsafe { sys::rusqlite_extension_init2(routines) };
    let done = match version {
        Ok(()) => register().map_err(|error| error.to_string()),
        Err(sys::InitError::VersionMismatch { compile_time, runtime }) => Err(format!(
            "SQLite {} or later is wanted, built with -DSQLITE_ENABLE_BATCH_ATOMIC_WRITE; this \
             one is {}",
            version_of(compile_time),
            version_of(runtime)
        )),
        Err(error) => Err(error.to_string()),
    };
    match done {
        Ok(()) => sys::SQLITE_OK_LOAD_PERMANENTLY,
        Err(text) => {
            let text = format!("nvm-journal: {text}");
            let bytes = text.as_bytes();
            // SAFETY: the table has it in every version, and it was stored before the version was
            // looked at.
            let memory = unsafe { sys::sqlite3_malloc(bytes.len() as c_int + 1) }.cast::<u8>();
            if !memory.is_null() {
                // SAFETY: it has one byte more than the text, and they do not overlap.
                unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), memory, bytes.len()) };
                // SAFETY: as above.
                let end = unsafe { memory.add(bytes.len()) };
                // SAFETY: as above.
                unsafe { end.write(0) };
                // SAFETY: SQLite gives the place, and frees the text.
                unsafe { why.write(memory.cast()) };
            }
            sys::SQLITE_ERROR
        }
    }
}

/// What a SQLite that was compiled with `-DSQLITE_EXTRA_INIT=nvj_init` calls at its start.
#[cfg(feature = "suite")]
#[expect(unreachable_pub, reason = "C calls it by its name")]
#[unsafe(no_mangle)]
pub extern "C" fn nvj_init(_nothing: *const core::ffi::c_char) -> c_int {
    match register() {
        Ok(()) => sys::SQLITE_OK,
        Err(error) => {
            // SQLite calls this before a program can have set its log.
            #[expect(clippy::print_stderr, reason = "there is no other way to tell")]
            {
                eprintln!("nvm-journal: {error}");
            }
            sys::SQLITE_ERROR
        }
    }
}
