//! Which objects of a block an update changes.
//!
//! Guarantees: every byte that an update changes lies in one of them; they ascend, each once. An
//! object of which the old content is at hand and the same is not among them.

use core::mem;
use core::num::NonZeroUsize;
use core::ops::Range;

use journal_core::WORD_BYTES;
use journal_core::policy::{Span, Update};
use policy_codec::changed::Spans;

/// The objects of one update, in units of one size.
pub(crate) struct Changed<'a, S> {
    /// The bytes that change, in pieces that ascend.
    spans: S,
    /// The old image and the new one, where an object that a piece lies in may be the same.
    images: Option<[&'a [u8]; 2]>,
    pub(crate) unit: NonZeroUsize,
}

/// How many objects change, and what they take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) objects: usize,
    pub(crate) bytes: usize,
    /// Runs of objects that lie one behind the other.
    pub(crate) runs: usize,
    /// The index of the last one.
    pub(crate) last: usize,
}

impl Size {
    pub(crate) const fn add(&mut self, run: &Run, bytes: usize) {
        let objects = run.end.saturating_sub(run.start);
        self.objects = self.objects.saturating_add(objects);
        self.bytes = self.bytes.saturating_add(bytes);
        self.runs = self.runs.saturating_add(1);
        self.last = run.end.saturating_sub(1);
    }
}

/// Objects that lie one behind the other: from the first to before the end.
pub(crate) type Run = Range<usize>;

/// The objects that the store says change. Where it has given the old image too, what is the same
/// there is left out.
pub(crate) fn said<'a>(
    update: &Update<'a>,
    unit: NonZeroUsize,
) -> Changed<'a, impl Iterator<Item = Span> + Clone + use<'a>> {
    let images = update.old.zip(update.change.image()).map(|(old, new)| [old, new]);
    let spans = update.change.pieces().map(|piece| {
        let len = u32::try_from(piece.bytes.len()).unwrap_or(u32::MAX);
        Span { at: piece.at, len }
    });
    let spans = spans.filter(|span| span.len > 0);
    Changed { spans, images, unit }
}

/// The objects that have a word in which the old image and the new one differ.
pub(crate) fn found<'a>(
    words: Spans<'a>,
    images: [&'a [u8]; 2],
    unit: NonZeroUsize,
) -> Changed<'a, Spans<'a>> {
    // Of a word that two objects share, one may be the same.
    let is_shared = unit.get() % WORD_BYTES != 0;
    Changed { spans: words, images: is_shared.then_some(images), unit }
}

impl<'a, S: Iterator<Item = Span> + Clone> Changed<'a, S> {
    /// The bytes of some objects, in a block of this length: the last object may be a short one.
    pub(crate) fn bytes_of(&self, run: &Run, block_bytes: usize) -> Range<usize> {
        let place = |index: usize| index.saturating_mul(self.unit.get()).min(block_bytes);
        place(run.start)..place(run.end)
    }

    fn is_same(&self, index: usize) -> bool {
        let of = |image: &'a [u8]| {
            let end = index.saturating_add(1);
            image.get(self.bytes_of(&(index..end), image.len()))
        };
        self.images.is_some_and(|[old, new]| of(old) == of(new))
    }

    /// Which object a byte of the block lies in.
    #[inline]
    pub(crate) fn object_at(&self, at: usize) -> usize {
        // Most are of a length that need not be divided by.
        if self.unit.is_power_of_two() {
            at.wrapping_shr(self.unit.trailing_zeros())
        } else {
            at / self.unit
        }
    }

    /// The bytes that change.
    pub(crate) fn spans(&self) -> S {
        self.spans.clone()
    }

    /// The objects that change, in runs.
    #[inline]
    pub(crate) fn runs(&self) -> Runs<'_, 'a, S> {
        self.runs_of(self.spans())
    }

    /// Like `runs`, for a caller that has the bytes that change at hand.
    #[inline]
    pub(crate) fn runs_of(&self, spans: S) -> Runs<'_, 'a, S> {
        Runs { changed: self, spans, touched: 0..0, rest: 0..0 }
    }

    /// The indexes of the objects that changed.
    pub(crate) fn objects(&self) -> impl Iterator<Item = usize> {
        self.runs().flatten()
    }

    /// What they take, in a block of this length.
    pub(crate) fn size(&self, block_bytes: usize) -> Size {
        let mut size = Size::default();
        for run in self.runs() {
            size.add(&run, self.bytes_of(&run, block_bytes).len());
        }
        size
    }
}

/// Runs of objects that change, ascending, none touching the next.
pub(crate) struct Runs<'c, 'a, S> {
    pub(crate) changed: &'c Changed<'a, S>,
    spans: S,
    /// Objects that pieces lie in, as far as the last piece that was looked at.
    touched: Run,
    /// Objects of a run that were not yet compared.
    rest: Run,
}

impl<S: Iterator<Item = Span> + Clone> Runs<'_, '_, S> {
    /// The next run of objects that pieces lie in.
    #[inline(always)]
    fn next_touched(&mut self) -> Option<Run> {
        for Span { at, len } in self.spans.by_ref() {
            let (first, bytes) = (at as usize, len as usize);
            let last = first.saturating_add(bytes).saturating_sub(1);
            let object_at = |at| self.changed.object_at(at);
            let next = object_at(first)..object_at(last).saturating_add(1);
            // Two pieces may lie in the same object, or in one and the next.
            if next.start <= self.touched.end && !self.touched.is_empty() {
                self.touched.end = self.touched.end.max(next.end);
                continue;
            }
            let before = mem::replace(&mut self.touched, next);
            if !before.is_empty() {
                return Some(before);
            }
        }
        Some(mem::take(&mut self.touched)).filter(|run| !run.is_empty())
    }

    /// The next run of those that were not yet compared.
    fn next_of_rest(&mut self) -> Option<Run> {
        let is_same = |index: &usize| self.changed.is_same(*index);
        let start = self.rest.clone().find(|index| !is_same(index));
        let end = start.and_then(|start| (start..self.rest.end).find(is_same));
        let end = end.unwrap_or(self.rest.end);
        self.rest.start = end;
        start.map(|start| start..end)
    }
}

impl<S: Iterator<Item = Span> + Clone> Iterator for Runs<'_, '_, S> {
    type Item = Run;

    #[inline(always)]
    fn next(&mut self) -> Option<Run> {
        if self.changed.images.is_none() {
            return self.next_touched();
        }
        loop {
            if let Some(run) = self.next_of_rest() {
                return Some(run);
            }
            self.rest = self.next_touched()?;
        }
    }
}
