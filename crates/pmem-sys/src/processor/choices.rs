//! The choices that make a method: how a line is flushed, and how bytes are streamed. Which of them
//! a processor has is not known here.

use core::fmt;

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

/// One choice of each kind, and what the instructions of a processor family need beside them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Choices<D> {
    pub(crate) flush: FlushMethod,
    pub(crate) stream: StreamMethod,
    pub(crate) details: D,
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
