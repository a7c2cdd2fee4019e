//! The time figures of the papers, in virtual time.

pub mod gates;
pub mod media;
pub mod overwrite;
pub mod policy;
pub mod row;
pub mod small;
pub mod traces;
