//! Faults: calls that fail, lie or go astray, at a chosen operation, once or for ever.

/// A kind of call that can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// A fence of persistent memory.
    Fence,
    /// A read of persistent memory.
    MemoryRead,
    /// A read of a disk.
    DiskRead,
    /// A write of a disk.
    DiskWrite,
    /// A sync of a disk.
    DiskSync,
    /// A read of a file.
    FileRead,
    /// A write of a file.
    FileWrite,
    /// A change of a file's length.
    FileSetLen,
    /// A sync of a file.
    FileSync,
}

impl Operation {
    /// All operations.
    pub const ALL: [Self; 9] = [
        Self::Fence,
        Self::MemoryRead,
        Self::DiskRead,
        Self::DiskWrite,
        Self::DiskSync,
        Self::FileRead,
        Self::FileWrite,
        Self::FileSetLen,
        Self::FileSync,
    ];

    /// The operations of memory and disks.
    pub const MEMORY_AND_DISKS: [Self; 5] =
        [Self::Fence, Self::MemoryRead, Self::DiskRead, Self::DiskWrite, Self::DiskSync];
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FaultKind {
    /// The call reports an error. A failed fence or sync makes nothing durable, ever; a failed
    /// write has reached the disk or the file in part.
    Error,
    /// A disk write reports success and does not happen. So does a write, a change of the length or
    /// a sync of a file.
    Lost,
    /// A disk write reports success and lands this many blocks further (wrapping round).
    Misdirected {
        /// How far off.
        blocks: u64,
    },
    /// A read of a disk or a file returns the content from power on, not what was written since.
    Stale,
    /// A read or a write of a file ends after this many bytes, and says how many they were.
    Short {
        /// How many, at most.
        bytes: usize,
    },
    /// A write, a change of the length or a sync of a file finds no space left. A failed sync is
    /// then as after [`FaultKind::Error`].
    NoSpace,
    /// A sync of a file fails, and the pages that it was for leave the page cache: reads show the
    /// bytes from before.
    PagesDropped,
}

impl FaultKind {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Error => "the next call fails",
            Self::Lost => "the next write is lost",
            Self::Misdirected { .. } => "the next write goes astray",
            Self::Stale => "the next read is stale",
            Self::Short { .. } => "the next call falls short",
            Self::NoSpace => "the next call finds no space",
            Self::PagesDropped => "the next sync drops its pages",
        }
    }
}

/// Which operations fail, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fault {
    pub(crate) kind: FaultKind,
    on: Option<Operation>,
    first: u64,
    once: bool,
}

impl Fault {
    /// The operation with this index fails, counted from zero over all kinds of operations.
    #[must_use]
    pub const fn at(index: u64, kind: FaultKind) -> Self {
        Self { kind, on: None, first: index, once: true }
    }

    /// The `index`-th operation of one kind fails, counted from zero.
    #[must_use]
    pub const fn on(operation: Operation, index: u64, kind: FaultKind) -> Self {
        Self { kind, on: Some(operation), first: index, once: true }
    }

    /// All later ones fail too.
    #[must_use]
    pub const fn for_ever(self) -> Self {
        Self { once: false, ..self }
    }

    pub(crate) fn hits(&self, operation: Operation, index: Index) -> bool {
        use Operation::{DiskRead, DiskWrite, FileRead, FileSetLen, FileSync, FileWrite};
        let applies = match self.kind {
            FaultKind::Error => true,
            FaultKind::Lost => matches!(operation, DiskWrite | FileWrite | FileSetLen | FileSync),
            FaultKind::Misdirected { .. } => operation == DiskWrite,
            FaultKind::Stale => matches!(operation, DiskRead | FileRead),
            FaultKind::Short { .. } => matches!(operation, FileRead | FileWrite),
            FaultKind::NoSpace => matches!(operation, FileWrite | FileSetLen | FileSync),
            FaultKind::PagesDropped => operation == FileSync,
        };
        let index = match self.on {
            Some(on) if on != operation => return false,
            Some(_) => index.of_kind,
            None => index.of_all,
        };
        applies && if self.once { index == self.first } else { index >= self.first }
    }
}

/// The index of an operation, among its kind and among all.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Index {
    of_kind: u64,
    of_all: u64,
}

/// How many operations that can fail were made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OperationCounts {
    by_kind: [u64; Operation::ALL.len()],
}

impl OperationCounts {
    /// Of all kinds together.
    #[must_use]
    pub fn all(&self) -> u64 {
        self.by_kind.iter().sum()
    }

    /// Of one kind.
    #[must_use]
    pub const fn of(&self, operation: Operation) -> u64 {
        self.by_kind[operation as usize]
    }

    pub(crate) fn count(&mut self, operation: Operation) -> Index {
        let index = Index { of_kind: self.of(operation), of_all: self.all() };
        self.by_kind[operation as usize] += 1;
        index
    }
}
