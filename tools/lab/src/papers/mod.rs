//! The time figures of the papers, in virtual time.

pub mod cache;
pub mod case;
pub mod data;
pub mod fgm;
pub mod fs;
pub mod gates;
pub mod hasfs;
pub mod host;
pub mod loads;
pub mod media;
pub mod njs;
pub mod overwrite;
pub mod page;
pub mod policy;
pub mod row;
pub mod sensitivity;
pub mod small;
pub mod store;
pub mod today;
pub mod traces;
pub mod world;
