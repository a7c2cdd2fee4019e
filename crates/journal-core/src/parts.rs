//! The journal in parts, for owners that bring their own locks.
//!
//! [`Journal`](crate::Journal) has one owner. An owner that wants several threads to commit at a
//! time takes the parts, keeps each behind a lock of its choice, and sees to this order:
//!
//! 1. A block is locked from before its newest frame is looked up ([`Index::lead`]). It stays
//!    locked until the record that overwrites it is durable, or readable where it is deferred. What
//!    is overwritten was looked up for one lane ([`Index::overwritten_by`]): the record goes into
//!    that lane.
//! 2. Deferred records of other lanes that were readable are made durable
//!    ([`Lane::flush_all_deferred`], [`Lane::fence`]) before a record is stored.
//! 3. The lane is locked, and [`Lane::begin`] is called. Then comes [`Common::store`] or
//!    [`Common::store_pieces`], of what [`Common::prepared`] has said the size of. Each of them
//!    tells the frames for the indexes. Or [`Alone::store`] comes, which returns the only frame.
//!    The stamp is above [`Lane::last_stamp`], which no frame of this lane is above. It is also
//!    above those of all overwritten frames of other lanes.
//! 4. [`Lane::close_and_fence`] follows. A thread that stored at once fences what others deferred
//!    in the same lane as well. Only then may a frame be read by others, and the locks go.
//!
//! Where the geometry has slots, what is said of versions ([`Versions`]) is said once for each
//! transaction. It holds until the transaction is stored or aborted. An older version's slot that
//! was promised to it ([`Index::hold_older_slot`]) goes to no other transaction, and is released
//! when it is not written.
//!
//! [`Home`] has one owner at a time, and borrows lanes and indexes through [`Lanes`] and
//! [`Indexes`]; nobody else removes frames. Nobody else writes home but appends, which may do so
//! meanwhile ([`Common::discard_before_append`]). [`Lanes::passing`] says what they still need.

pub use crate::commit::active::Spilled;
pub use crate::commit::one_operation::{Alone, Sole};
pub use crate::commit::operation::Operations;
pub use crate::commit::patches::{Pieces, PiecesOf, Several};
pub use crate::commit::prepared::{Content, Decided, NoVersions, Prepared, Scratch, Versions};
pub use crate::common::Common;
pub use crate::home::content::{apply_frames, build_from_lanes, oldest_needed};
pub use crate::home::oldest::{Left, Listed, Oldest};
pub use crate::home::report::{Step, StepBounds};
pub use crate::home::waiting::{Offsets, Waiting, WaitingLeft};
pub use crate::home::{Home, HomeScratch, Lanes, NotPassed};
pub use crate::index::frame::{Bounds, FrameAt, Full, NodeId};
pub use crate::index::{
    EntryAddresses, Index, IndexMemory, Indexes, Lead, LentMemory, RUN_BLOCKS, is_of_run, share_of,
};
pub use crate::open::found::{Found, OpenMemory, Opened};
pub use crate::order::ordered::{OrderedDevice, Pace};
pub use crate::reclaim::movable::{
    Movable, each_in_memory, is_read_from_memory, pick_listed, pick_to_move, stamp_in_memory,
};
pub use crate::reclaim::relog::{Kept, kept_at_head, let_go_of_discard};
pub use crate::reclaim::unreadable::{filled_by, kept_in_memory, pinned_by, segment_to_clean};
pub use crate::scan::lanes::{Scan, Scanning, Unscanned};
pub use crate::space::lane::{Ends, FreeRoom, Goes, InLane, Lane, Names, OpenRecord};
pub use crate::space::ring::LaneReader;
pub use crate::space::stored::WEAR_PARTS;
