//! What a caller chooses.

/// What goes through the journal, and what is written home first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Data and metadata are logged: all of a transaction appears together, or nothing of it.
    Data,
    /// Metadata is logged. Data goes home first, and is durable before the commit block is written.
    Ordered,
    /// Metadata is logged. Data goes home whenever the device writes it.
    Writeback,
    /// Nothing is logged. A commit writes home and syncs; a crash inside it may leave anything of
    /// the blocks that it writes.
    None,
}

impl Mode {
    /// All modes.
    pub const ALL: [Self; 4] = [Self::Data, Self::Ordered, Self::Writeback, Self::None];
}

/// Where the journal lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum JournalDevice {
    /// On a device of its own, which is synced by itself.
    OwnDevice,
    /// On the device that holds the homes. A sync through either handle covers both, so data and
    /// images share one. To claim this of two devices loses data.
    SameDevice,
}

/// How a journal is formatted and opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Config {
    pub(crate) mode: Mode,
    pub(crate) journal_device: JournalDevice,
    pub(crate) id: u64,
    pub(crate) ring_blocks: Option<u32>,
    pub(crate) looks_behind: bool,
}

impl Config {
    /// A journal that takes the whole of a device of its own.
    #[must_use]
    pub const fn new(mode: Mode) -> Self {
        let (journal_device, looks_behind) = (JournalDevice::OwnDevice, true);
        Self { mode, journal_device, id: 0, ring_blocks: None, looks_behind }
    }

    /// Where the journal lies. On a device of its own.
    #[must_use]
    pub const fn journal_device(self, journal_device: JournalDevice) -> Self {
        Self { journal_device, ..self }
    }

    /// A format's: the seed of all checks, so that blocks of other journals never count. 0. An
    /// open reads it from the superblock.
    #[must_use]
    pub const fn id(self, id: u64) -> Self {
        Self { id, ..self }
    }

    /// A format's: how many blocks the ring has, behind the two of the superblock. All that the
    /// device has. An open reads it from the superblock.
    #[must_use]
    pub const fn ring_blocks(self, blocks: u32) -> Self {
        Self { ring_blocks: Some(blocks), ..self }
    }

    /// Whether an open after a crash reads the rest of the ring too, for proof that a transaction
    /// which it cannot read was committed. It does. Without, an open reads what it replays and one
    /// block more, and damage in the middle of the log drops what lies behind it.
    #[must_use]
    pub const fn looks_behind(self, looks: bool) -> Self {
        Self { looks_behind: looks, ..self }
    }
}
