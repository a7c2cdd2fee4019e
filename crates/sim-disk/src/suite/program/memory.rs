//! The memory that the suite's journals work in, owned.

use journal_core::Buffers;

use crate::media::pmem::SimPmem;
use crate::power::mutants::Mutator;

/// Owns what a journal under the simulator works in.
pub type Memory = Buffers<SimPmem, Mutator>;
