//! The processor: its instructions, chosen at run time, and the methods made of them.

pub(crate) mod arch;
pub(crate) mod choices;
pub(crate) mod copies;
pub(crate) mod kernels;
pub(crate) mod method;
pub(crate) mod stitch;
pub(crate) mod write;
