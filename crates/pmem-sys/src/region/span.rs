//! Everything one journal was given, shared by its regions and readers; freed with the last of
//! them.
//!
//! Guarantees: the mapping outlives every holder of an address into it, and the lock outlives the
//! mapping. A crash frees the lock and keeps of the bytes what [`crate::map`] says.

use journal_core::Granularity;

use crate::map::Mapping;
use crate::map::facts::MapFacts;
use crate::map::lock::FileLock;
use crate::map::pages::Pages;
use crate::region::emulator::Emulator;

/// How the bytes become durable.
#[derive(Debug)]
pub(crate) enum Durability {
    /// Lines are flushed and fenced (flushing may be nothing).
    Lines,
    /// Like `Lines`, and slower.
    Emulated(Emulator),
    /// The kernel writes pages back.
    Pages(Pages),
}

/// One mapped medium. The order of the fields is the order in which they are dropped.
#[derive(Debug)]
pub(crate) struct Span {
    mapping: Mapping,
    _lock: Option<FileLock>,
    facts: MapFacts,
    durability: Durability,
}

impl Span {
    pub(crate) fn new(
        mapping: Mapping,
        lock: Option<FileLock>,
        facts: MapFacts,
        durability: Durability,
    ) -> Self {
        debug_assert_eq!(
            facts.granularity == Granularity::Page,
            matches!(durability, Durability::Pages(_)),
            "pages are written back on page-granular media and on no others",
        );
        Self { mapping, _lock: lock, facts, durability }
    }

    pub(crate) fn base(&self) -> *mut u8 {
        self.mapping.base()
    }

    pub(crate) fn len(&self) -> usize {
        self.mapping.len()
    }

    pub(crate) fn facts(&self) -> MapFacts {
        self.facts
    }

    #[inline]
    pub(crate) fn durability(&self) -> &Durability {
        &self.durability
    }

    /// Whether an earlier fence of this span failed.
    #[inline]
    pub(crate) fn is_stuck(&self) -> bool {
        match &self.durability {
            Durability::Pages(pages) => pages.is_stuck(),
            _ => false,
        }
    }
}
