//! Front door.

#![forbid(unsafe_code)]
