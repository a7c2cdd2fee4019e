//! What an error is in SQLite's words.

use block_files::Error;
use libsqlite3_sys as sys;
use nvm_journal::Error as Journal;
use nvm_journal::ports::DeviceErrorKind;

use crate::error::Error as MountError;

/// A code of SQLite; never `SQLITE_OK`.
pub(crate) type Code = i32;

/// The number by which the system says that a disk is full.
const NO_SPACE: i32 = 28;
/// The number by which the system says that a medium takes no writes.
const READ_ONLY: i32 = 30;

/// The code of an error, where SQLite has none for the call that is more exact than `otherwise`.
pub(crate) fn code_of(error: &Error, otherwise: Code) -> Code {
    match error {
        Error::NoRoom { .. } | Error::TooFar { .. } => sys::SQLITE_FULL,
        Error::Journal(Journal::OutOfDevice { .. } | Journal::NoShield { .. }) => sys::SQLITE_FULL,
        Error::Damaged(_) | Error::NotFormatted => sys::SQLITE_CORRUPT,
        Error::Journal(
            Journal::Apply { .. } | Journal::RottenLog { .. } | Journal::Unreadable { .. },
        ) => sys::SQLITE_CORRUPT,
        Error::Journal(Journal::Conflict { .. }) => sys::SQLITE_BUSY,
        Error::Journal(Journal::Device(device)) => match device.kind {
            DeviceErrorKind::Io { os: Some(NO_SPACE) } => sys::SQLITE_FULL,
            DeviceErrorKind::Io { os: Some(READ_ONLY) } => sys::SQLITE_READONLY,
            _ => otherwise,
        },
        _ => otherwise,
    }
}

/// Whether a code makes SQLite write a rollback journal where a batch was refused with it.
pub(crate) fn is_of_io(code: Code) -> bool {
    code & 0xff == sys::SQLITE_IOERR && code != sys::SQLITE_IOERR_NOMEM
}

/// Whether a batch did not fit, and would as single pages.
pub(crate) fn is_too_large(error: &Error) -> bool {
    matches!(error, Error::TooLarge(_))
}

/// The code of a database that could not be mounted when it was opened.
pub(crate) fn code_of_mount(error: &MountError) -> Code {
    match error {
        MountError::Busy | MountError::Mounted | MountError::InUse { .. } => sys::SQLITE_BUSY,
        MountError::NotAJournal { .. } | MountError::OtherDatabase { .. } => sys::SQLITE_NOTADB,
        MountError::NoVfs { code } => *code,
        MountError::File(error) => code_of(error, sys::SQLITE_CANTOPEN),
        _ => sys::SQLITE_CANTOPEN,
    }
}
