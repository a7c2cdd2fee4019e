//! Where a journal can lie beside a disk of its own.

pub(crate) mod partition;
pub(crate) mod pmem_disk;
