//! What the benches and tests of codecs share: inputs of all kinds, and rounds that measure cases
//! against each other.
//!
//! It depends on nothing, so that programs under another licence can link it.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "a bench prints its tables")]
#![allow(clippy::std_instead_of_core, reason = "a part of programs with std")]
#![allow(missing_docs, missing_debug_implementations, reason = "it is published nowhere")]
#![allow(clippy::new_without_default, reason = "it is published nowhere")]

pub mod rounds;
pub mod samples;
