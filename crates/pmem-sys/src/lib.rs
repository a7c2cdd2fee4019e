//! Real persistent memory.
