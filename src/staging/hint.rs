//! Hints that a store gives of a block, beside its content.

use core::num::NonZeroU32;

use journal_core::policy::{Class, Kind};

/// What a store knows of a block that it writes, for the policy to use. It changes how the block is
/// logged, never what is read.
///
/// ```
/// use nvm_journal::Hint;
///
/// // A block of inodes, 256 bytes each.
/// const INODES: Hint = Hint::METADATA.of_objects(256);
/// assert_eq!(INODES.object_bytes.map(|bytes| bytes.get()), Some(256));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Hint {
    /// Structure of the store, or its contents.
    pub class: Class,
    /// Whether the block was live before.
    pub kind: Kind,
    /// The size of the objects in the block (inodes, rows, entries), where it has any. They lie one
    /// behind the other from the block's begin.
    pub object_bytes: Option<NonZeroU32>,
}

impl Hint {
    /// Contents of the store, in a block that was live: the hint where the caller gives none.
    pub const DATA: Self = Self { class: Class::Data, kind: Kind::Overwrite, object_bytes: None };

    /// Structure of the store, in a block that was live.
    pub const METADATA: Self = Self { class: Class::Metadata, ..Self::DATA };

    /// Contents of the store, in a block that was not live: never written, or discarded.
    pub const APPEND: Self = Self { kind: Kind::Append, ..Self::DATA };

    /// This hint for a block of objects of `bytes` bytes each; zero for no objects.
    #[must_use]
    pub const fn of_objects(self, bytes: u32) -> Self {
        Self { object_bytes: NonZeroU32::new(bytes), ..self }
    }

    /// What [`change`](Self::change) makes of it.
    pub(crate) fn changed(mut self, hint: Option<Self>) -> Self {
        self.change(hint);
        self
    }

    /// Takes a later hint for the same block. `kind` stays: whether the block was live before the
    /// transaction is known from the first hint.
    pub(crate) fn change(&mut self, hint: Option<Self>) {
        *self = hint.map_or(*self, |hint| Self { kind: self.kind, ..hint });
    }
}

impl Default for Hint {
    fn default() -> Self {
        Self::DATA
    }
}
