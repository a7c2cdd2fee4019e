//! 64-bit Arm, little-endian: `dc cvap` (or `dc cvac`) and `dsb sy`.
//!
//! What a crash may do: a store is lost until its line was cleaned to the point of persistence and
//! this thread's next `dsb sy` completed. `dc cvap` needs Armv8.2 and is announced by the kernel;
//! before it there is no point of persistence and `dc cvac` is all there is. The barrier is Linux's
//! choice: `dmb ishst`, which another library took, orders the cleaning and does not complete it.
//!
//! There are no streaming stores whose durability a barrier alone would complete, so streaming is
//! storing and cleaning.

use core::arch::asm;

use journal_core::{LINE_BYTES, WORD_BYTES};

use crate::processor::choices::{Choices, FlushMethod, StreamMethod};

/// `HWCAP_DCPOP`: the kernel lets programs execute `dc cvap`.
const HWCAP_DCPOP: usize = 1 << 16;

/// What a method carries besides its choices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ArmDetails {
    /// Distance between two cleanings: the processor's own line if that is below ours.
    step_bytes: usize,
}

/// What this processor has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ArmCpu {
    dcpop: bool,
    /// The cache type register; its bits 16 to 19 are the logarithm of the line in 4-byte units.
    cache_type: u64,
}

impl ArmCpu {
    pub(crate) fn detect() -> Self {
        let cache_type: u64;
        // SAFETY: reads a register that Linux lets every program read.
        unsafe {
            asm!("mrs {0}, ctr_el0", out(reg) cache_type, options(nostack, preserves_flags, nomem));
        }
        Self { dcpop: rustix::param::linux_hwcap().0 & HWCAP_DCPOP != 0, cache_type }
    }

    pub(crate) fn flushes(self) -> impl Iterator<Item = FlushMethod> {
        let best = self.dcpop.then_some(FlushMethod::DcCvap);
        best.into_iter().chain([FlushMethod::DcCvac])
    }

    pub(crate) fn streams(self) -> impl Iterator<Item = StreamMethod> {
        [StreamMethod::StoreAndFlush].into_iter()
    }

    /// Streaming is storing and flushing: it is never cheaper.
    pub(crate) fn stream_from_bytes(self) -> usize {
        usize::MAX
    }

    pub(crate) fn details(self, _flush: FlushMethod) -> ArmDetails {
        let own_line = 4usize << ((self.cache_type >> 16) & 0xf);
        ArmDetails { step_bytes: own_line.min(LINE_BYTES) }
    }
}

#[inline]
pub(in crate::processor) unsafe fn store_word(to: *mut u8, value: u64) {
    // SAFETY: the caller gives an aligned word that may be written.
    unsafe {
        asm!("str {value}, [{to}]", to = in(reg) to, value = in(reg) value,
            options(nostack, preserves_flags));
    }
}

#[inline]
pub(in crate::processor) unsafe fn load_word(from: *const u8) -> u64 {
    let value: u64;
    // SAFETY: the caller gives an aligned word that may be read.
    unsafe {
        asm!("ldr {value}, [{from}]", from = in(reg) from, value = out(reg) value,
            options(nostack, preserves_flags, readonly));
    }
    value
}

#[inline]
pub(in crate::processor) unsafe fn store_words(to: *mut u8, from: &[u8]) {
    for (index, word) in from.chunks_exact(WORD_BYTES).enumerate() {
        let mut bytes = [0; WORD_BYTES];
        bytes.copy_from_slice(word);
        // SAFETY: word number `index` of the caller's range.
        unsafe { store_word(to.wrapping_add(index * WORD_BYTES), u64::from_le_bytes(bytes)) };
    }
}

#[inline]
pub(in crate::processor) unsafe fn load_words(from: *const u8, into: &mut [u8]) {
    for (index, word) in into.chunks_exact_mut(WORD_BYTES).enumerate() {
        // SAFETY: word number `index` of the caller's range.
        let value = unsafe { load_word(from.wrapping_add(index * WORD_BYTES)) };
        word.copy_from_slice(&value.to_le_bytes());
    }
}

#[inline]
pub(in crate::processor) unsafe fn flush_lines(
    choices: Choices<ArmDetails>,
    first: *mut u8,
    count: usize,
) {
    let step_bytes = choices.details.step_bytes;
    let steps = (0..count * LINE_BYTES).step_by(step_bytes).map(|at| first.wrapping_add(at));
    match choices.flush {
        FlushMethod::DcCvap => steps.for_each(|line| {
            // `dc cvap` by number: its name is known only to assemblers told of Armv8.2.
            // SAFETY: the line is mapped and the processor has the instruction: the caller's
            // promises.
            unsafe {
                asm!("sys #3, c7, c12, #1, {0}", in(reg) line, options(nostack, preserves_flags));
            }
        }),
        FlushMethod::Nothing => {}
        // `DcCvac`; the methods of other processors cannot be had on this one.
        _ => steps.for_each(|line| {
            // SAFETY: as above.
            unsafe {
                asm!("dc cvac, {0}", in(reg) line, options(nostack, preserves_flags));
            }
        }),
    }
}

#[inline]
pub(in crate::processor) fn fence(_choices: Choices<ArmDetails>) {
    // SAFETY: a barrier touches no memory of ours.
    unsafe {
        asm!("dsb sy", options(nostack, preserves_flags));
    }
}

#[inline]
pub(in crate::processor) unsafe fn stream_lines(
    choices: Choices<ArmDetails>,
    to: *mut u8,
    from: &[u8],
) {
    // SAFETY: the caller's promise is the same.
    unsafe { store_words(to, from) };
    // SAFETY: these are the lines just stored.
    unsafe { flush_lines(choices, to, from.len() / LINE_BYTES) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_line_shortens_the_step_and_a_long_one_does_not_lengthen_it() {
        for (logarithm, step_bytes) in [(3, 32), (4, 64), (5, 64)] {
            let cpu = ArmCpu { dcpop: true, cache_type: logarithm << 16 };
            assert_eq!(cpu.details(FlushMethod::DcCvap), ArmDetails { step_bytes });
        }
    }
}
