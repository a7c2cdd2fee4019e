//! Where tests reach into the order of persistence, at no cost to everybody else.
//!
//! Every store, flush, fence, disk write and sync of the core goes through a [`Hook`] and names its
//! [`Site`]. The default hook, [`NoHook`], is zero-sized and passes every call on; `sim-disk` has
//! one that counts sites and can make any of them misbehave (a *mutant*), which the tests then have
//! to notice.
//!
//! What takes a site or a rule and hands it on is `#[inline]`, here and elsewhere in the crate: not
//! to be inlined at any price, but to be compiled where it is used, so that with `NoHook` the
//! compiler sees that nobody looks at the site and drops it. The no-alloc probe looks for names of
//! sites in what it builds.

use crate::block_device::BlockDevice;
use crate::error::{DeviceError, MediumError};
use crate::gathered::{Gathered, Seeds};
use crate::pmem::Pmem;
use crate::units::{BlockNumber, Offset};

/// What a site does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SiteKind {
    /// Stores that are flushed at another site.
    Store,
    /// Puts stored lines in flight.
    Flush,
    /// Streams past the caches.
    Stream,
    /// Store and flush, or stream, by length.
    Write,
    /// Makes durable what is in flight.
    Fence,
    /// Writes blocks.
    DiskWrite,
    /// Makes written blocks durable.
    DiskSync,
}

/// One place in a program that takes part in the order of persistence. Declared by [`sites!`],
/// so that a place which no test reaches can be found.
///
/// [`sites!`]: crate::sites
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Site {
    /// Unique in the program, `file.step` by custom.
    pub name: &'static str,
    /// What happens there.
    pub kind: SiteKind,
}

/// Declares a module of [`Site`] constants and `ALL`, the list of them.
///
/// ```
/// journal_core::sites! {
///     /// Where a record is written.
///     pub mod site {
///         BODY: Write = "commit.body";
///         DONE: Fence = "commit.done";
///     }
/// }
/// assert_eq!(site::ALL, [site::BODY, site::DONE]);
/// ```
#[macro_export]
macro_rules! sites {
    ($(#[$doc:meta])* $vis:vis mod $module:ident {
        $($(#[$site_doc:meta])* $name:ident: $kind:ident = $text:literal;)+
    }) => {
        $(#[$doc])*
        #[allow(
            dead_code,
            missing_docs,
            unreachable_pub,
            reason = "a list for tests, as visible as its module"
        )]
        $vis mod $module {
            $($(#[$site_doc])*
            pub const $name: $crate::hook::Site =
                $crate::hook::Site { name: $text, kind: $crate::hook::SiteKind::$kind };)+
            /// Every site of this module.
            pub const ALL: &[$crate::hook::Site] = &[$($name),+];
        }
    };
}

/// A rule of the protocol that a test can switch off, to see that something notices.
///
/// They are the checks and choices that no persist site stands for; dropped flushes and fences are
/// made at the sites.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Rule {
    /// A record counts only if its check is right.
    RecordCheck,
    /// A record counts only in its place: where its position and its sequence say.
    PlaceChecked,
    /// A record counts only in its lane.
    LaneChecked,
    /// The check of a part continues from that of the part before.
    PartsChained,
    /// What can still be given up has no last part in the medium.
    LastPartAtCommit,
    /// What was given up leaves its sequence to the next record.
    SequencesUnbroken,
    /// Every open raises the epoch.
    EpochRaised,
    /// Above the first sequence of an epoch, records of older ones are void.
    OlderEpochVoid,
    /// A watermark proves earlier records of its lane durable.
    Watermarks,
    /// A name proves a record of another lane durable.
    Names,
    /// The superblock's notes prove records durable.
    Notes,
    /// A record that names a later superblock than there is, is an error.
    LaterSuperblock,
    /// A format makes the journal that was there void before it changes anything else.
    VoidedFirst,
    /// Both superblock copies are written before the new generation is used.
    BothCopies,
    /// Deferred records of other lanes are durable before a record that may depend on them is
    /// stored.
    DeferredFirst,
    /// A stamp is above those of everything that is overwritten.
    StampAbove,
    /// Only durable content goes home.
    DurableGoesHome,
    /// What a torn overwrite could not restore goes into the shield first.
    ShieldFirst,
    /// A head advance ends the belief in all intents so far.
    ShieldFloor,
    /// A cut keeps what blocks that are not home need.
    CutKeepsNeeded,
    /// A cut that drops a needed frame of a block at home keeps none that is older.
    CutDropsOlder,
    /// Of the frames that the index forgets, since newer ones cover them, it keeps the newest of
    /// each lane that has no newer one that stays.
    OneOfEachLane,
    /// Stamps rise above those of everything that was found or dropped.
    StampFloor,
    /// Only durable content is copied within the lanes.
    DurableIsCopied,
    /// A copy is no version: it counts under the stamp of what it copies.
    CopiedStamp,
    /// All heads move in one superblock write.
    HeadsTogether,
    /// A record goes into free space only.
    SpaceChecked,
    /// Not even the last line of a record lies behind the free space.
    LastLineChecked,
    /// A journal is opened only with the policy and the device that it was made for.
    PartnersChecked,
    /// An open looks which slots are named before it gives back the others.
    HoldersFound,
    /// The front of an intent is read again once lanes were, whose fronts took its memory.
    IntentReloaded,
    /// An intent is not repeated over what was appended home since.
    AppendsNotRepeated,
    /// A slot is rewritten in part only where all of it was written since the open.
    SlotsSettled,
    /// A slot is given back only when its void entry is durable.
    VoidsFenced,
    /// The entry of a block's newest version stays as long as older frames of it do.
    NewestVoidedLast,
    /// A slot's content counts only if its check is right.
    SlotCheck,
    /// Only the version before the newest durable one is rewritten.
    NewestSpared,
    /// An index that is too small for what an open finds takes more room, where there is any.
    IndexGrows,
    /// What goes home before its record is not live, durably.
    AppendsNotLive,
    /// What goes home before its record is discarded first, where no frame speaks of it.
    AppendsGivenUp,
    /// A home that an earlier process may have written in vain is written anew before a discard
    /// lets go of it.
    HomesMadeSure,
    /// A torn entry that a live frame covers is voided when a journal is opened.
    TornEntriesVoided,
    /// A tail word proves what lies below it durable, and keeps out what does not.
    TailWords,
    /// After a failure the journal refuses to go on.
    Sticky,
}

impl Rule {
    /// All of them.
    pub const ALL: [Self; 44] = [
        Self::RecordCheck,
        Self::PlaceChecked,
        Self::LaneChecked,
        Self::PartsChained,
        Self::LastPartAtCommit,
        Self::SequencesUnbroken,
        Self::EpochRaised,
        Self::OlderEpochVoid,
        Self::Watermarks,
        Self::Names,
        Self::Notes,
        Self::LaterSuperblock,
        Self::VoidedFirst,
        Self::BothCopies,
        Self::DeferredFirst,
        Self::StampAbove,
        Self::DurableGoesHome,
        Self::ShieldFirst,
        Self::ShieldFloor,
        Self::CutKeepsNeeded,
        Self::CutDropsOlder,
        Self::OneOfEachLane,
        Self::StampFloor,
        Self::DurableIsCopied,
        Self::CopiedStamp,
        Self::HeadsTogether,
        Self::SpaceChecked,
        Self::LastLineChecked,
        Self::PartnersChecked,
        Self::HoldersFound,
        Self::IntentReloaded,
        Self::AppendsNotRepeated,
        Self::SlotsSettled,
        Self::VoidsFenced,
        Self::NewestVoidedLast,
        Self::SlotCheck,
        Self::NewestSpared,
        Self::IndexGrows,
        Self::AppendsNotLive,
        Self::AppendsGivenUp,
        Self::HomesMadeSure,
        Self::TornEntriesVoided,
        Self::TailWords,
        Self::Sticky,
    ];
}

/// Receives every ordered call together with the medium it is meant for.
///
/// The default methods pass the call on unchanged. An implementation may count, delay or drop it;
/// only tests do.
pub trait Hook {
    /// Whether the protocol keeps to a rule. It does, but in a test that wants to see what happens
    /// when it does not.
    #[inline]
    fn keeps(&self, _rule: Rule) -> bool {
        true
    }

    /// At a [`SiteKind::Store`] site.
    #[inline]
    fn store<P: Pmem>(&mut self, _site: Site, pmem: &mut P, at: Offset, bytes: &[u8]) {
        pmem.store(at, bytes);
    }

    /// At a [`SiteKind::Store`] site that stores one word.
    #[inline]
    fn store_u64<P: Pmem>(&mut self, _site: Site, pmem: &mut P, at: Offset, value: u64) {
        pmem.store_u64(at, value);
    }

    /// At a [`SiteKind::Flush`] site.
    #[inline]
    fn flush<P: Pmem>(&mut self, _site: Site, pmem: &mut P, at: Offset, len: usize) {
        pmem.flush(at, len);
    }

    /// At a [`SiteKind::Stream`] site.
    #[inline]
    fn stream<P: Pmem>(&mut self, _site: Site, pmem: &mut P, at: Offset, bytes: &[u8]) {
        pmem.stream(at, bytes);
    }

    /// At a [`SiteKind::Write`] site.
    #[inline]
    fn write<P: Pmem>(&mut self, site: Site, pmem: &mut P, at: Offset, bytes: &[u8]) {
        self.write_piece(site, pmem, at, bytes, bytes.len() as u64);
    }

    /// Every write comes by here: [`write`](Self::write) passes on a piece that is the whole.
    ///
    /// At a [`SiteKind::Write`] site, for a piece of `whole_bytes` that go out before one fence: a
    /// short piece goes the way of the whole. Storing it would first read its lines from the
    /// medium, behind everything that is on its way there.
    #[inline]
    fn write_piece<P: Pmem>(
        &mut self,
        _site: Site,
        pmem: &mut P,
        at: Offset,
        bytes: &[u8],
        whole_bytes: u64,
    ) {
        if whole_bytes < pmem.facts().stream_from_bytes as u64 {
            store_and_flush(pmem, at, bytes);
        } else {
            pmem.stream(at, bytes);
        }
    }

    /// Whether it may be given pieces to put together ([`write_checked`](Self::write_checked)). By
    /// default it is given what was copied together, as one piece.
    #[inline]
    fn gathers(&self) -> bool {
        false
    }

    /// As [`write_piece`](Self::write_piece), of a whole that is put together from pieces, with its
    /// checks; returns that of all. By default each line is a piece of it.
    fn write_checked<P: Pmem>(
        &mut self,
        site: Site,
        pmem: &mut P,
        at: Offset,
        gathered: &Gathered<'_>,
        seeds: Seeds,
    ) -> u64 {
        gathered.each_checked_line(seeds, |offset, line| {
            let at = Offset(at.raw().saturating_add(offset as u64));
            self.write_piece(site, pmem, at, line, gathered.bytes() as u64);
        })
    }

    /// At a [`SiteKind::Fence`] site.
    ///
    /// # Errors
    /// The medium's.
    #[inline(always)]
    fn fence<P: Pmem>(&mut self, _site: Site, pmem: &mut P) -> Result<(), MediumError> {
        pmem.fence()
    }

    /// At a [`SiteKind::DiskWrite`] site.
    ///
    /// # Errors
    /// The device's.
    #[inline]
    fn disk_write<D: BlockDevice>(
        &mut self,
        _site: Site,
        device: &mut D,
        first: BlockNumber,
        from: &[&[u8]],
    ) -> Result<(), DeviceError> {
        device.write_vectored(first, from)
    }

    /// At a [`SiteKind::DiskSync`] site.
    ///
    /// # Errors
    /// The device's.
    #[inline]
    fn disk_sync<D: BlockDevice>(
        &mut self,
        _site: Site,
        device: &mut D,
    ) -> Result<(), DeviceError> {
        device.sync()
    }
}

/// The hook that does nothing; what every program but a test uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NoHook;

impl Hook for NoHook {
    #[inline]
    fn gathers(&self) -> bool {
        true
    }

    #[inline(always)]
    fn write_checked<P: Pmem>(
        &mut self,
        _site: Site,
        pmem: &mut P,
        at: Offset,
        gathered: &Gathered<'_>,
        seeds: Seeds,
    ) -> u64 {
        pmem.stream_checked(at, gathered, seeds)
    }
}

/// In a function of its own: it needs registers that had to be saved, and streaming does not.
#[inline(never)]
fn store_and_flush<P: Pmem>(pmem: &mut P, at: Offset, bytes: &[u8]) {
    pmem.store(at, bytes);
    pmem.flush(at, bytes.len());
}
