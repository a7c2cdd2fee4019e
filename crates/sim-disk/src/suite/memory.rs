//! The memory that the suite's journals work in, owned.

use journal_core::Buffers;

use crate::mutants::Mutator;
use crate::pmem::SimPmem;

/// Owns what a journal under the simulator works in.
pub type Memory = Buffers<SimPmem, Mutator>;
