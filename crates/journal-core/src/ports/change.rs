//! A change of a block, in the words of the store.
//!
//! Guarantees: the pieces of a change are those that the store has named, in its order. Whether
//! they lie in the block is checked once, when operations are taken; nothing here relies on it.
//! Nothing of this is on a medium.

/// Bytes that change inside a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patch<'a> {
    /// Where in the block they begin.
    pub at: u32,
    /// The new bytes.
    pub bytes: &'a [u8],
}

impl Patch<'_> {
    /// Which bytes of the block it is.
    #[inline]
    pub(crate) fn span(&self) -> Span {
        Span { at: self.at, len: u32::try_from(self.bytes.len()).unwrap_or(u32::MAX) }
    }
}

/// A range of a block's bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Span {
    /// Where in the block it begins.
    pub at: u32,
    /// How many bytes it has.
    pub len: u32,
}

impl Span {
    /// Where in the block it ends.
    #[must_use]
    pub const fn end(&self) -> u64 {
        (self.at as u64).saturating_add(self.len as u64)
    }
}

/// The new content, in the form the store gave it.
///
/// Ranges and patches ascend inside the block, none of them is empty, and no two overlap; they may
/// touch. Without any nothing changes, and nothing is logged. They say that the rest stays, so they
/// are for live blocks: what a discarded block holds is undefined, and it is written whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Change<'a> {
    /// The whole new image.
    Image(&'a [u8]),
    /// The whole new image, which outside of these ranges is as the old one. Inside it may be.
    Ranges {
        /// The image.
        image: &'a [u8],
        /// Where it differs.
        ranges: &'a [Span],
    },
    /// Only what changes; the rest is as in the old image, which is not at hand. Not every policy
    /// can log that.
    Patches(&'a [Patch<'a>]),
}

impl<'a> Change<'a> {
    /// The whole new image, where it is at hand.
    #[must_use]
    pub const fn image(&self) -> Option<&'a [u8]> {
        match self {
            Self::Image(image) | Self::Ranges { image, .. } => Some(image),
            Self::Patches(_) => None,
        }
    }

    /// Whether it says by itself that nothing changes.
    #[must_use]
    pub const fn is_nothing(&self) -> bool {
        match self {
            Self::Image(_) => false,
            Self::Ranges { ranges, .. } => ranges.is_empty(),
            Self::Patches(patches) => patches.is_empty(),
        }
    }

    /// What changes, ascending: of an image all of it.
    pub fn pieces(&self) -> impl Iterator<Item = Patch<'a>> + Clone + use<'a> {
        let change = *self;
        let count = match change {
            Self::Image(_) => 1,
            Self::Ranges { ranges, .. } => ranges.len(),
            Self::Patches(patches) => patches.len(),
        };
        (0..count).filter_map(move |index| change.piece(index))
    }

    /// One of the pieces; `None` where a range does not lie in the image.
    fn piece(&self, index: usize) -> Option<Patch<'a>> {
        match self {
            Self::Image(bytes) => Some(Patch { at: 0, bytes }),
            Self::Ranges { image, ranges } => {
                let span = ranges.get(index)?;
                let end = usize::try_from(span.end()).ok()?;
                Some(Patch { at: span.at, bytes: image.get(span.at as usize..end)? })
            }
            Self::Patches(patches) => patches.get(index).copied(),
        }
    }

    /// The first piece that is empty, out of order or not inside a block of this length.
    pub(crate) fn first_bad_piece(&self, block_bytes: usize) -> Option<Span> {
        let mut free_from = 0;
        let is_bad = |span: &Span| {
            let is_good =
                span.len > 0 && u64::from(span.at) >= free_from && span.end() <= block_bytes as u64;
            free_from = span.end();
            !is_good
        };
        match self {
            Self::Image(_) => None,
            Self::Ranges { ranges, .. } => ranges.iter().copied().find(is_bad),
            Self::Patches(patches) => patches.iter().map(Patch::span).find(is_bad),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_say_what_changes() {
        fn pieces<'a>(change: &Change<'a>) -> impl Iterator<Item = (u32, &'a [u8])> + use<'a> {
            change.pieces().map(|piece| (piece.at, piece.bytes))
        }
        let image = b"abcdefgh";
        let ranges = [Span { at: 1, len: 2 }, Span { at: 3, len: 1 }, Span { at: 7, len: 1 }];
        let change = Change::Ranges { image, ranges: &ranges };
        assert!(pieces(&change).eq([(1, &b"bc"[..]), (3, b"d"), (7, b"h")]));
        assert_eq!((change.image(), change.is_nothing()), (Some(&image[..]), false));
        assert!(pieces(&Change::Image(image)).eq([(0, &image[..])]));
        let patches = [Patch { at: 2, bytes: b"xy" }];
        let patched = Change::Patches(&patches);
        assert!(pieces(&patched).eq([(2, &b"xy"[..])]) && patched.image().is_none());
        let nothing = [Change::Patches(&[]), Change::Ranges { image, ranges: &[] }];
        assert!(nothing.iter().all(|change| change.is_nothing() && pieces(change).count() == 0));
    }

    #[test]
    fn pieces_ascend_inside_the_block() {
        let span = |at, len| Span { at, len };
        let bad = |ranges: &[Span]| Change::Ranges { image: &[0; 8], ranges }.first_bad_piece(8);
        assert_eq!(bad(&[span(0, 2), span(2, 1), span(5, 3)]), None, "they may touch");
        assert_eq!(bad(&[span(0, 8)]), None);
        assert_eq!(bad(&[span(0, 9)]), Some(span(0, 9)));
        assert_eq!(bad(&[span(1, 2), span(8, 1)]), Some(span(8, 1)));
        assert_eq!(bad(&[span(1, u32::MAX)]), Some(span(1, u32::MAX)));
        assert_eq!(bad(&[span(3, 1), span(3, 1)]), Some(span(3, 1)));
        assert_eq!(bad(&[span(3, 1), span(2, 1)]), Some(span(2, 1)));
        assert_eq!(bad(&[span(3, 0)]), Some(span(3, 0)));
        let patches = [Patch { at: 1, bytes: &[0; 3] }, Patch { at: 3, bytes: &[0; 2] }];
        assert_eq!(Change::Patches(&patches).first_bad_piece(8), Some(span(3, 2)));
        assert_eq!(Change::Patches(&patches[..1]).first_bad_piece(4), None);
        assert_eq!(Change::Patches(&patches[..1]).first_bad_piece(3), Some(span(1, 3)));
    }
}
