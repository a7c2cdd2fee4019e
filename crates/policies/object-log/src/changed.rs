//! Which objects of a block an update changes.
//!
//! Guarantees: every byte that an update changes lies in one of them; they ascend, each once. An
//! object of which the old content is at hand and the same is not among them.

use core::num::NonZeroUsize;
use core::ops::Range;

use journal_core::policy::{Change, Patch, Update};

/// The objects of one update, in units of one size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Changed<'a> {
    change: Change<'a>,
    old: Option<&'a [u8]>,
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

/// Objects that lie one behind the other: from the first to before the end.
pub(crate) type Run = Range<usize>;

impl<'a> Changed<'a> {
    pub(crate) const fn new(update: &Update<'a>, unit: NonZeroUsize) -> Self {
        Self { change: update.change, old: update.old, unit }
    }

    /// The bytes of some objects, in a block of this length: the last object may be a short one.
    pub(crate) fn bytes_of(&self, run: &Run, block_bytes: usize) -> Range<usize> {
        let place = |index: usize| index.saturating_mul(self.unit.get()).min(block_bytes);
        place(run.start)..place(run.end)
    }

    fn is_same(&self, index: usize) -> bool {
        let (Some(old), Some(new)) = (self.old, self.change.image()) else { return false };
        let of = |image: &'a [u8]| {
            let end = index.saturating_add(1);
            image.get(self.bytes_of(&(index..end), image.len())).unwrap_or_default()
        };
        of(old) == of(new)
    }

    /// The indexes of the objects.
    pub(crate) fn objects(self) -> impl Iterator<Item = usize> + Clone + use<'a> {
        let unit = self.unit;
        let of_piece = move |piece: Patch<'a>| {
            let first = piece.at as usize;
            let last = first.saturating_add(piece.bytes.len()).saturating_sub(1);
            first / unit..=last / unit
        };
        let pieces = self.change.pieces().filter(|piece| !piece.bytes.is_empty());
        // Two pieces may touch the same object.
        let mut new_from = 0;
        let each_once = move |index: &usize| {
            let is_new = *index >= new_from;
            new_from = new_from.max(index.saturating_add(1));
            is_new
        };
        let touched = pieces.flat_map(of_piece).filter(each_once);
        touched.filter(move |index| !self.is_same(*index))
    }

    /// The same in runs.
    pub(crate) fn runs(self) -> impl Iterator<Item = Run> + use<'a> {
        let mut objects = self.objects().peekable();
        core::iter::from_fn(move || {
            let first = objects.next()?;
            let mut end = first.saturating_add(1);
            while objects.next_if_eq(&end).is_some() {
                end = end.saturating_add(1);
            }
            Some(first..end)
        })
    }

    /// What they take, in a block of this length.
    pub(crate) fn size(&self, block_bytes: usize) -> Size {
        let mut size = Size::default();
        for run in self.runs() {
            let bytes = self.bytes_of(&run, block_bytes).len();
            size.objects = size.objects.saturating_add(run.len());
            size.bytes = size.bytes.saturating_add(bytes);
            size.runs = size.runs.saturating_add(1);
            size.last = run.end.saturating_sub(1);
        }
        size
    }
}
