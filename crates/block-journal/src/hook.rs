//! Where tests reach into the protocol.
//!
//! The order of persistence goes through named sites ([`site`]). What no site stands for is a
//! [`Rule`]. With [`NoHook`] neither costs anything.

use journal_core::{Hook, NoHook};

journal_core::sites! {
    /// Every write and every sync of the protocol.
    pub mod site {
        DATA: DiskWrite = "commit.data";
        DATA_SYNC: DiskSync = "commit.data.sync";
        IMAGES: DiskWrite = "commit.images";
        IMAGES_SYNC: DiskSync = "commit.images.sync";
        COMMIT: DiskWrite = "commit.block";
        COMMIT_SYNC: DiskSync = "commit.sync";
        THROUGH: DiskWrite = "none.write";
        THROUGH_SYNC: DiskSync = "none.sync";
        HOME: DiskWrite = "checkpoint.home";
        HOME_SYNC: DiskSync = "checkpoint.home.sync";
        SUPERBLOCK: DiskWrite = "superblock.write";
        SUPERBLOCK_SYNC: DiskSync = "superblock.sync";
        FOUND_SYNC: DiskSync = "recovery.found.sync";
        REPLAY: DiskWrite = "recovery.replay";
        REPLAY_SYNC: DiskSync = "recovery.replay.sync";
    }
}

/// A rule of the protocol that a test can switch off, to see that something notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Rule {
    /// An image that begins with the magic goes into the ring without it.
    Escapes,
    /// A replay puts the magic back.
    EscapeUndone,
    /// A transaction counts only if the check over all of it is right.
    CommitChecked,
    /// A block of the journal's own counts only in the transaction that is expected there.
    SequenceChecked,
    /// A replay leaves out what a later transaction revoked.
    RevokesHonoured,
    /// A discard of a block that the ring holds is written to the ring.
    RevokesWritten,
    /// Older transactions are replayed before newer ones.
    ReplayedInOrder,
    /// Data goes into the ring where the ring holds an image of its block.
    HeldDataLogged,
    /// Space is used again only once the tail has passed it.
    SpaceChecked,
    /// Behind the end of the log an open looks for proof that it is not the end.
    LooksBehind,
    /// After a failed write or sync, the journal refuses to go on.
    Sticky,
}

impl Rule {
    /// All rules.
    pub const ALL: [Self; 11] = [
        Self::Escapes,
        Self::EscapeUndone,
        Self::CommitChecked,
        Self::SequenceChecked,
        Self::RevokesHonoured,
        Self::RevokesWritten,
        Self::ReplayedInOrder,
        Self::HeldDataLogged,
        Self::SpaceChecked,
        Self::LooksBehind,
        Self::Sticky,
    ];
}

/// A [`Hook`] that is asked about this journal's own rules too.
pub trait ProtocolHook: Hook + Clone {
    /// Whether the protocol keeps to a rule. It does, but in a test of the tests.
    #[inline]
    fn keeps_to(&self, _rule: Rule) -> bool {
        true
    }
}

impl ProtocolHook for NoHook {}
