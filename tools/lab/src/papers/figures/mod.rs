//! The figures, a file for each paper or kind.

pub mod fgm;
pub mod gates;
pub mod hasfs;
pub mod njs;
pub mod overwrite;
pub mod sensitivity;
pub mod small;
pub mod today;
