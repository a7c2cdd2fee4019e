//! Simulated files, for stores that keep their data in files.
//!
//! A [`SimFile`] is a handle to a file of a [`World`](crate::World). It reads and writes as the
//! handle of an operating system does. What a crash may leave of a file, [`FileFacts`] say.

mod error;
mod handle;
pub(super) mod image;

pub use error::{FileError, FileErrorKind, FileOperation};
pub use handle::SimFile;
pub use image::{FILE_LEN_MAX, FILE_PAGE_BYTES, FileFacts, FileImage, TornBy, Unwritten};
