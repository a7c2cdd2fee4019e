//! The rules of the protocol, which tests switch off.

/// A rule of the protocol that a test can switch off, to see that something notices.
///
/// Each rule is a check or a choice that no persist site stands for; dropped flushes and fences are
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
    /// A transaction that can still be aborted has no last part in the medium.
    LastPartAtCommit,
    /// An aborted transaction leaves its sequence to the next record.
    SequencesUnbroken,
    /// Every open raises the epoch.
    EpochRaised,
    /// Above the first sequence of an epoch, records of older ones are void.
    OlderEpochVoid,
    /// A watermark proves earlier records of its lane durable.
    Watermarks,
    /// A name proves a record of another lane durable.
    Names,
    /// The superblock's marks of the lanes prove records durable.
    Marks,
    /// A record that names a later superblock than there is, is an error.
    LaterSuperblock,
    /// A format makes the journal that was there void before it changes anything else.
    VoidedFirst,
    /// A torn superblock copy is asked only for a twin of the same journal.
    TwinsAlike,
    /// The two superblock copies are both written before the new generation is used.
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
    /// What goes home from ordinary memory is no newer than what is durable.
    KeptIsDurable,
    /// A cut that drops a needed frame of a block at home keeps none that is older.
    CutDropsOlder,
    /// What changes a discarded block keeps the discard, until it is home itself.
    CutKeepsDiscard,
    /// What was shown of a block on top of its discard stays, also while heads pass.
    ShownZerosStay,
    /// A step of a checkpoint lets no head pass a frame whose block it has not looked at.
    StepPassesSeen,
    /// The list of a checkpoint in steps has every frame of the records that it has gone through.
    StepListsAll,
    /// Where a step looks at the oldest frames of a block alone, they are home or covered.
    StepDropsUnneeded,
    /// A step writes nothing home of which only an older version keeps a head back.
    StepSparesCovered,
    /// A step that frees much of a ring without it writes nothing home.
    StepSparesHome,
    /// Steps go on in other lanes where a block that cannot be read keeps a head back.
    StepPassesHeld,
    /// A step of a checkpoint leaves a head alone that another upkeep has moved further.
    StepMovesForward,
    /// A step folds the oldest record as a whole, however many slots it names.
    StepFoldsRecord,
    /// Of the frames that the index forgets, since newer ones cover them, it keeps the newest of
    /// each lane. It need not where a newer one of that lane stays.
    OneOfEachLane,
    /// Stamps rise above those of everything that was found or dropped.
    StampFloor,
    /// Only durable content is copied within the lanes.
    DurableIsCopied,
    /// A copy is no version: it counts under the stamp of what it copies.
    CopiedStamp,
    /// What threads copy so that heads go on is the newest content of its block.
    CopyIsNewest,
    /// What is moved into the disk-side log has a stamp above that of what it moves.
    MovedAbove,
    /// What threads move, or copy, is committed: a block that is gathered stays where it is.
    CommittedIsMoved,
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
    SlotsWrittenWhole,
    /// A slot is given back only when its void entry is durable.
    VoidsFenced,
    /// The entry of a block's newest version stays as long as older frames of it do.
    NewestVoidedLast,
    /// A slot's content counts only if its check is right.
    SlotCheck,
    /// Only the version before the newest durable one is rewritten.
    NewestSpared,
    /// A slot that a record names is active no more: its content is not changed in place.
    ActiveOnce,
    /// What was read from the device counts in a slot only if no frame of its block has come since.
    CleanIsHome,
    /// An index that is too small for what an open finds takes more room, where there is any.
    IndexGrows,
    /// What goes home before its record is not live, durably.
    AppendsNotLive,
    /// What goes home before its record is discarded first, where no frame speaks of it.
    AppendsGivenUp,
    /// What was appended home is not made sure by writing it anew.
    AppendsMakeSure,
    /// No head passes what tells of a block that is being appended home.
    AppendsHeld,
    /// Nothing older goes home over a block that was given up since, or appended.
    AppendsSpared,
    /// A whole checkpoint waits for appends that keep heads back.
    CheckpointsWhole,
    /// A step that is stuck on an append waits for it, before all is tried.
    StepAwaitsAppend,
    /// While the device forgets blocks, nothing is written ahead of its record.
    TrimsAlone,
    /// A home that an earlier process may have written in vain is written anew before a discard
    /// lets go of it.
    HomesMadeSure,
    /// A torn entry that a live frame covers is voided when a journal is opened.
    TornEntriesVoided,
    /// A tail word proves what lies below it durable, and keeps out what does not.
    TailWords,
    /// A new image is compared with the committed one. Nothing else that is kept of the block
    /// counts.
    ComparedWithCommitted,
    /// Whatever moves heads keeps the newest note in the superblock.
    NoteKept,
    /// The stamp of a record with a note is above that of the note before.
    NotesRise,
    /// Nothing says of a slot that was spilled to what it holds, before a record names it.
    SpillsUnnamed,
    /// What is pinned stays in the cache: blocks that have frames, or content in the memory.
    PinsStay,
    /// What the cache has no room to pin goes to the disk-side log, and not home.
    EvictedToLog,
    /// Slots that hold what was read are given back before anything is written home for slots.
    CleanFirst,
    /// What is staged or gathered goes to the disk-side log where its lane is full, and the policy
    /// says so.
    StagedBypass,
    /// A transaction whose data goes to the disk-side log stores no more than it has reserved.
    BypassFits,
    /// When the running transaction commits, thresholds are set anew: it gives room back.
    RunningGivesBack,
    /// A running transaction counts on the way home of an appended block only where the journal
    /// knows nothing of that block.
    HomewardUnknown,
    /// As long as a snapshot is open, no commit forgets what it may see, or writes over it.
    SnapshotsKept,
    /// What makes room ends all snapshots first.
    SnapshotsEnd,
    /// Records that are stored after a snapshot was made have higher stamps than it.
    SnapshotsStamped,
    /// No record is stored between the looks at two lanes that give a snapshot its stamp.
    SnapshotsAtOnce,
    /// The disk is told to forget a block only behind a discard that is durable.
    TrimsDurable,
    /// After a failure the journal refuses to go on.
    Sticky,
}

impl Rule {
    /// All rules.
    pub const ALL: [Self; 83] = [
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
        Self::Marks,
        Self::LaterSuperblock,
        Self::VoidedFirst,
        Self::TwinsAlike,
        Self::BothCopies,
        Self::DeferredFirst,
        Self::StampAbove,
        Self::DurableGoesHome,
        Self::ShieldFirst,
        Self::ShieldFloor,
        Self::CutKeepsNeeded,
        Self::KeptIsDurable,
        Self::CutDropsOlder,
        Self::CutKeepsDiscard,
        Self::ShownZerosStay,
        Self::StepPassesSeen,
        Self::StepListsAll,
        Self::StepDropsUnneeded,
        Self::StepSparesCovered,
        Self::StepSparesHome,
        Self::StepPassesHeld,
        Self::StepMovesForward,
        Self::StepFoldsRecord,
        Self::OneOfEachLane,
        Self::StampFloor,
        Self::DurableIsCopied,
        Self::CopiedStamp,
        Self::CopyIsNewest,
        Self::MovedAbove,
        Self::CommittedIsMoved,
        Self::HeadsTogether,
        Self::SpaceChecked,
        Self::LastLineChecked,
        Self::PartnersChecked,
        Self::HoldersFound,
        Self::IntentReloaded,
        Self::AppendsNotRepeated,
        Self::SlotsWrittenWhole,
        Self::VoidsFenced,
        Self::NewestVoidedLast,
        Self::SlotCheck,
        Self::NewestSpared,
        Self::ActiveOnce,
        Self::CleanIsHome,
        Self::IndexGrows,
        Self::AppendsNotLive,
        Self::AppendsGivenUp,
        Self::AppendsMakeSure,
        Self::AppendsHeld,
        Self::AppendsSpared,
        Self::CheckpointsWhole,
        Self::StepAwaitsAppend,
        Self::TrimsAlone,
        Self::HomesMadeSure,
        Self::TornEntriesVoided,
        Self::TailWords,
        Self::ComparedWithCommitted,
        Self::NoteKept,
        Self::NotesRise,
        Self::SpillsUnnamed,
        Self::PinsStay,
        Self::EvictedToLog,
        Self::CleanFirst,
        Self::StagedBypass,
        Self::BypassFits,
        Self::RunningGivesBack,
        Self::HomewardUnknown,
        Self::SnapshotsKept,
        Self::SnapshotsEnd,
        Self::SnapshotsStamped,
        Self::SnapshotsAtOnce,
        Self::TrimsDurable,
        Self::Sticky,
    ];
}
