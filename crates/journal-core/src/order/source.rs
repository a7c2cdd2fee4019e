//! What a scan reads: a region, whether or not its holder may also write it.

use crate::order::ordered::{Hook, Ordered};
use crate::order::rule::Rule;
use crate::ports::error::{MediumError, MediumErrorKind};
use crate::ports::pmem::{Pmem, PmemRead};
use crate::units::Offset;

/// A region that can be read in place, whether or not it can be written.
pub(crate) trait Source {
    fn len(&self) -> u64;
    fn bytes(&self, at: Offset, len: usize) -> Result<&[u8], MediumError>;
    fn read_into(&self, at: Offset, into: &mut [u8]) -> Result<(), MediumError>;
    fn keeps(&self, rule: Rule) -> bool;
}

impl<P: Pmem, H: Hook> Source for Ordered<P, H> {
    fn len(&self) -> u64 {
        PmemRead::len(self)
    }

    #[inline]
    fn bytes(&self, at: Offset, len: usize) -> Result<&[u8], MediumError> {
        self.pmem().bytes(at, len)
    }

    fn read_into(&self, at: Offset, into: &mut [u8]) -> Result<(), MediumError> {
        PmemRead::read_into(self, at, into)
    }

    #[inline]
    fn keeps(&self, rule: Rule) -> bool {
        Self::keeps(self, rule)
    }
}

impl<P: Pmem> Source for &P {
    fn len(&self) -> u64 {
        PmemRead::len(*self)
    }

    #[inline]
    fn bytes(&self, at: Offset, len: usize) -> Result<&[u8], MediumError> {
        (**self).bytes(at, len)
    }

    fn read_into(&self, at: Offset, into: &mut [u8]) -> Result<(), MediumError> {
        (**self).read_into(at, into)
    }

    fn keeps(&self, _rule: Rule) -> bool {
        true
    }
}

/// A range of a span, borrowed to read: nothing that holds one can write.
#[derive(Debug)]
pub(crate) struct SpanView<'p, S> {
    whole: &'p S,
    start: Offset,
    len: u64,
}

impl<'p, S: Source> SpanView<'p, S> {
    /// The view of the whole source.
    pub(crate) fn of(whole: &'p S) -> Self {
        Self { whole, start: Offset(0), len: whole.len() }
    }

    /// A part of it; whatever leaves the whole cannot be read.
    pub(crate) fn part(&self, start: Offset, len: u64) -> Self {
        let start = Offset(self.start.raw().saturating_add(start.raw()));
        Self { whole: self.whole, start, len }
    }

    #[inline]
    fn offset_in_whole(&self, at: Offset, len: usize) -> Result<Offset, MediumError> {
        let end = at.raw().checked_add(len as u64).filter(|end| *end <= self.len);
        let offset = end.and_then(|_| self.start.raw().checked_add(at.raw()));
        let outside = MediumError::new(MediumErrorKind::OutOfRange, at, len);
        offset.map(Offset).ok_or(outside.of_whole(self.start))
    }
}

impl<S: Source> Source for SpanView<'_, S> {
    fn len(&self) -> u64 {
        self.len
    }

    #[inline]
    fn bytes(&self, at: Offset, len: usize) -> Result<&[u8], MediumError> {
        self.whole.bytes(self.offset_in_whole(at, len)?, len)
    }

    fn read_into(&self, at: Offset, into: &mut [u8]) -> Result<(), MediumError> {
        self.whole.read_into(self.offset_in_whole(at, into.len())?, into)
    }

    #[inline]
    fn keeps(&self, rule: Rule) -> bool {
        self.whole.keeps(rule)
    }
}
