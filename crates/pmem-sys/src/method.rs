//! Which instructions make bytes durable: what the processor has, and the choice among it.
//!
//! Guarantees: a [`Method`] exists only if this processor (and, for wide registers, its operating
//! system) has every instruction it names. So code that holds one may execute them. The best one is
//! chosen at run time; a binary built for the oldest processor uses the newest instructions.
//! Crashes: a method is a number in memory; what each instruction promises is said at its variant.

use core::fmt;

use crate::arch;

/// How a stored line is written back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FlushMethod {
    /// x86 `clwb`: writes the line back and may keep it in the cache.
    Clwb,
    /// x86 `clflushopt`: writes the line back and drops it.
    ClflushOpt,
    /// x86 `clflush`: like `clflushopt`, one line after the other.
    Clflush,
    /// Arm `dc cvap`: writes the line back to the point of persistence.
    DcCvap,
    /// Arm `dc cvac`: writes the line back to the point of coherency, all there is before Armv8.2.
    DcCvac,
    /// No flush: the caches are inside the power-fail domain, or this build knows no instruction.
    /// The crate chooses it where it holds; a user cannot ask for it.
    Nothing,
}

/// How bytes are written past the caches, a line at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StreamMethod {
    /// x86 `vmovntdq` of 64 bytes.
    Avx512,
    /// x86 `vmovntdq` of 32 bytes.
    Avx2,
    /// x86 `movntdq` of 16 bytes; every 64-bit x86 has it.
    Sse2,
    /// x86 `movnti` of 8 bytes; every 64-bit x86 has it.
    Movnti,
    /// x86 `movdir64b`: 64 bytes by one store that is never torn.
    Movdir64b,
    /// Ordinary stores and a flush: machines without streaming stores.
    StoreAndFlush,
}

/// The instructions of one span, known to exist on this processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Method {
    flush: FlushMethod,
    stream: StreamMethod,
    pub(crate) details: arch::Details,
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
        Self { flush, stream, details: cpu.details(flush) }
    }

    /// Exactly these instructions, for measurements and tests.
    ///
    /// # Errors
    /// This processor lacks one of them.
    pub fn new(flush: FlushMethod, stream: StreamMethod) -> Result<Self, UnsupportedMethod> {
        let cpu = arch::Cpu::detect();
        if cpu.flushes().any(|had| had == flush) && cpu.streams().any(|had| had == stream) {
            Ok(Self { flush, stream, details: cpu.details(flush) })
        } else {
            Err(UnsupportedMethod { flush, stream })
        }
    }

    /// A method whose flush drops the line from the caches, if there is one.
    pub(crate) fn evicting() -> Self {
        let drops =
            |flush: &FlushMethod| matches!(flush, FlushMethod::ClflushOpt | FlushMethod::Clflush);
        let best = Self::best();
        let cpu = arch::Cpu::detect();
        let flush = cpu.flushes().find(drops).unwrap_or(best.flush);
        Self { flush, details: cpu.details(flush), ..best }
    }

    /// This method where caches survive a power loss: flushes do nothing.
    pub(crate) fn without_flush(self) -> Self {
        Self { flush: FlushMethod::Nothing, ..self }
    }

    /// How lines are flushed.
    #[inline]
    #[must_use]
    pub const fn flush(self) -> FlushMethod {
        self.flush
    }

    /// How bytes are streamed.
    #[inline]
    #[must_use]
    pub const fn stream(self) -> StreamMethod {
        self.stream
    }
}

impl fmt::Display for FlushMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Clwb => "clwb",
            Self::ClflushOpt => "clflushopt",
            Self::Clflush => "clflush",
            Self::DcCvap => "dc cvap",
            Self::DcCvac => "dc cvac",
            Self::Nothing => "no flush",
        })
    }
}

impl fmt::Display for StreamMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Avx512 => "avx512",
            Self::Avx2 => "avx2",
            Self::Sse2 => "sse2",
            Self::Movnti => "movnti",
            Self::Movdir64b => "movdir64b",
            Self::StoreAndFlush => "store and flush",
        })
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.flush, self.stream)
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
