//! The instructions, one file per processor family; exactly one is compiled in.
//!
//! Each file offers three things. They are a type that is `Cpu` here (what this processor has), one
//! that is `Details` here (what a method must carry besides its two choices), and the functions
//! that [`Instructions`] for a method forwards to. Each file says which instruction promises what
//! in a crash.
//!
//! # Why nothing here is a data race
//!
//! A reader may copy bytes while the writer of the region writes them. For the language, each
//! instruction below is a sequence of *relaxed atomic* accesses of the bytes it touches. So the two
//! never race. The compiler cannot see into the assembly and so cannot assume more. That the
//! machine moves a whole aligned word at once is a promise of the machine on top of it.
//!
//! The portable file is used under Miri too, and with `--cfg portable` for sanitizers, since these
//! see no assembly. There every access is a relaxed atomic access of one whole aligned word, and
//! the same holds without any appeal to a machine.

#[cfg(all(target_arch = "x86_64", not(any(miri, portable))))]
pub(super) mod x86_64;
#[cfg(all(target_arch = "x86_64", not(any(miri, portable))))]
pub(super) use x86_64 as chosen;
#[cfg(all(target_arch = "x86_64", not(any(miri, portable))))]
pub(crate) use x86_64::{X86Cpu as Cpu, X86Details as Details};

#[cfg(all(target_arch = "aarch64", target_endian = "little", not(any(miri, portable))))]
pub(super) mod aarch64;
#[cfg(all(target_arch = "aarch64", target_endian = "little", not(any(miri, portable))))]
pub(super) use aarch64 as chosen;
#[cfg(all(target_arch = "aarch64", target_endian = "little", not(any(miri, portable))))]
pub(crate) use aarch64::{ArmCpu as Cpu, ArmDetails as Details};

#[cfg(any(
    miri,
    portable,
    not(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little")))
))]
pub(super) mod portable;
#[cfg(any(
    miri,
    portable,
    not(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little")))
))]
pub(super) use portable as chosen;
#[cfg(any(
    miri,
    portable,
    not(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little")))
))]
pub(crate) use portable::{PortableCpu as Cpu, PortableDetails as Details};

/// What the algorithms of [`crate::processor::write`] are made of. The real one is
/// [`Method`](crate::processor::method::Method). Tests have one that writes down what it is told,
/// or leaves something out.
///
/// All pointers are into one mapping. Words and lines are aligned; values are little-endian.
pub(crate) trait Instructions: Copy {
    /// Stores one word by a single store.
    ///
    /// # Safety
    /// `to` is aligned to a word and valid for writes of one; only readers through
    /// [`Instructions`] access it at the same time.
    unsafe fn store_word(self, to: *mut u8, value: u64);

    /// Stores whole words, none of them torn.
    ///
    /// # Safety
    /// As [`store_word`](Self::store_word) for `from.len()` bytes, a multiple of a word; `from`
    /// does not overlap them.
    unsafe fn store_words(self, to: *mut u8, from: &[u8]);

    /// Loads one word by a single load.
    ///
    /// # Safety
    /// `from` is aligned to a word and valid for reads of one; a thread that writes it at the same
    /// time does so through [`Instructions`].
    unsafe fn load_word(self, from: *const u8) -> u64;

    /// Loads whole words, none of them torn.
    ///
    /// # Safety
    /// As [`load_word`](Self::load_word) for `into.len()` bytes, a multiple of a word; `into` does
    /// not overlap them.
    unsafe fn load_words(self, from: *const u8, into: &mut [u8]);

    /// Writes whole lines past the caches and puts them in flight.
    ///
    /// # Safety
    /// As [`store_words`](Self::store_words), and `to` is aligned to a line and the length is a
    /// multiple of it.
    unsafe fn stream_lines(self, to: *mut u8, from: &[u8]);

    /// Puts `count` lines in flight.
    ///
    /// # Safety
    /// `first` is aligned to a line; all `count` lines are mapped.
    unsafe fn flush_lines(self, first: *mut u8, count: usize);

    /// Completes what this thread put in flight.
    fn fence(self);
}
