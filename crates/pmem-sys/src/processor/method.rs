//! Which instructions make bytes durable: what the processor has, and the choice among it.
//!
//! Guarantees: a [`Method`] exists only if this processor (and, for wide registers, its operating
//! system) has every instruction it names. So code that holds one may execute them. The best one is
//! chosen at run time; a binary built for the oldest processor uses the newest instructions.
//! Crashes: a method is a number in memory; what each instruction promises is said at its variant.

use core::fmt;

use crate::processor::arch::{self, Instructions};
use crate::processor::choices::{Choices, FlushMethod, StreamMethod};

/// The instructions of one span, known to exist on this processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Method {
    choices: Choices<arch::Details>,
}

/// This processor lacks an instruction that was asked for, or the medium needs a flush and the
/// method has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UnsupportedMethod {
    /// How lines were to be flushed.
    pub flush: FlushMethod,
    /// How bytes were to be streamed.
    pub stream: StreamMethod,
}

impl FlushMethod {
    /// Every way to flush a line that this processor has, the best first. Empty if it has none
    /// (or this build knows none): then only page granularity can be offered.
    pub fn supported() -> impl Iterator<Item = Self> {
        arch::Cpu::detect().flushes()
    }
}

impl StreamMethod {
    /// Every way to stream that this processor has, the best first. Never empty.
    pub fn supported() -> impl Iterator<Item = Self> {
        arch::Cpu::detect().streams()
    }
}

impl Method {
    /// The best that this processor has.
    #[must_use]
    pub fn best() -> Self {
        Self::best_of(arch::Cpu::detect())
    }

    pub(crate) fn best_of(cpu: arch::Cpu) -> Self {
        let flush = cpu.flushes().next().unwrap_or(FlushMethod::Nothing);
        let stream = cpu.streams().next().unwrap_or(StreamMethod::StoreAndFlush);
        Self { choices: Choices { flush, stream, details: cpu.details(flush) } }
    }

    /// Exactly these instructions, for measurements and tests.
    ///
    /// # Errors
    /// This processor lacks one of them.
    pub fn new(flush: FlushMethod, stream: StreamMethod) -> Result<Self, UnsupportedMethod> {
        let cpu = arch::Cpu::detect();
        if cpu.flushes().any(|had| had == flush) && cpu.streams().any(|had| had == stream) {
            Ok(Self { choices: Choices { flush, stream, details: cpu.details(flush) } })
        } else {
            Err(UnsupportedMethod { flush, stream })
        }
    }

    /// A method whose flush drops the line from the caches, if there is one.
    pub(crate) fn evicting() -> Self {
        let drops =
            |flush: &FlushMethod| matches!(flush, FlushMethod::ClflushOpt | FlushMethod::Clflush);
        let Self { choices: best } = Self::best();
        let cpu = arch::Cpu::detect();
        let flush = cpu.flushes().find(drops).unwrap_or(best.flush);
        Self { choices: Choices { flush, details: cpu.details(flush), ..best } }
    }

    /// This method where caches survive a power loss: flushes do nothing.
    pub(crate) fn without_flush(self) -> Self {
        Self { choices: Choices { flush: FlushMethod::Nothing, ..self.choices } }
    }

    /// How lines are flushed.
    #[inline]
    #[must_use]
    pub const fn flush(self) -> FlushMethod {
        self.choices.flush
    }

    /// How bytes are streamed.
    #[inline]
    #[must_use]
    pub const fn stream(self) -> StreamMethod {
        self.choices.stream
    }
}

#[cfg(test)]
std::thread_local! {
    /// Lines that this thread has put in flight by a [`Method`].
    pub(crate) static LINES_IN_FLIGHT: core::cell::Cell<usize> = const { core::cell::Cell::new(0) };
}

impl Instructions for Method {
    #[inline]
    unsafe fn store_word(self, to: *mut u8, value: u64) {
        // SAFETY: the caller's promise is the same.
        unsafe { arch::chosen::store_word(to, value) }
    }

    #[inline]
    unsafe fn store_words(self, to: *mut u8, from: &[u8]) {
        // SAFETY: the caller's promise is the same.
        unsafe { arch::chosen::store_words(to, from) }
    }

    #[inline]
    unsafe fn load_word(self, from: *const u8) -> u64 {
        // SAFETY: the caller's promise is the same.
        unsafe { arch::chosen::load_word(from) }
    }

    #[inline]
    unsafe fn load_words(self, from: *const u8, into: &mut [u8]) {
        // SAFETY: the caller's promise is the same.
        unsafe { arch::chosen::load_words(from, into) }
    }

    #[inline]
    unsafe fn stream_lines(self, to: *mut u8, from: &[u8]) {
        #[cfg(test)]
        LINES_IN_FLIGHT.set(LINES_IN_FLIGHT.get() + from.len() / journal_core::LINE_BYTES);
        // SAFETY: the caller's promise is the same; a `Method` names only instructions that this
        // processor has.
        unsafe { arch::chosen::stream_lines(self.choices, to, from) }
    }

    #[inline]
    unsafe fn flush_lines(self, first: *mut u8, count: usize) {
        #[cfg(test)]
        LINES_IN_FLIGHT.set(LINES_IN_FLIGHT.get() + count);
        // SAFETY: the caller's promise is the same; a `Method` names only instructions that this
        // processor has.
        unsafe { arch::chosen::flush_lines(self.choices, first, count) }
    }

    #[inline]
    fn fence(self) {
        arch::chosen::fence(self.choices);
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.choices.flush, self.choices.stream)
    }
}

impl fmt::Display for UnsupportedMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.flush == FlushMethod::Nothing {
            return f.write_str("flushing nothing is for media whose caches survive a power loss");
        }
        write!(f, "this processor lacks {} or {}", self.flush, self.stream)
    }
}

impl core::error::Error for UnsupportedMethod {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_method_is_among_the_supported_ones() {
        let best = Method::best();
        if best.flush() != FlushMethod::Nothing {
            assert_eq!(Method::new(best.flush(), best.stream()), Ok(best));
        }
        assert!(StreamMethod::supported().any(|had| had == best.stream()));
    }

    #[test]
    fn what_no_processor_may_be_asked_for_is_refused() {
        for stream in StreamMethod::supported() {
            let wanted = Method::new(FlushMethod::Nothing, stream);
            assert_eq!(wanted, Err(UnsupportedMethod { flush: FlushMethod::Nothing, stream }));
        }
    }

    #[test]
    fn every_pair_of_supported_instructions_makes_a_method() {
        for flush in FlushMethod::supported() {
            for stream in StreamMethod::supported() {
                let method = Method::new(flush, stream).expect("both are supported");
                assert_eq!((method.flush(), method.stream()), (flush, stream));
            }
        }
    }
}
