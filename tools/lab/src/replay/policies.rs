//! The policies that are replayed, and what each of them may cost at most.
//!
//! A policy's *bound* is what its idea of a change comes to (`bound.rs`). To add a policy: one row
//! in [`ALL`], and a bound where none fits.

use journal_core::policy::Encoder;
use journal_core::{Operation, Policy};

use adaptive::{self, Adaptive, Form, Medium, Wish, coding_ns};
use byte_delta::{Appends, ByteDelta};
use compressed_delta::CompressedDelta;
use full_block::FullBlock;
use lcow::Lcow;
use object_log::ObjectLog;
use pmem_sys::NativeKernels;
use policy_codec::deltas::SHORT_BYTES;
use two_level::TwoLevel;

use crate::bounds::Place;
use crate::bounds::deltas::{Compressed, Smallest, SubBlocks};
use crate::bounds::{Bound, ChangedObjects, InSlots, Rewrite, WholeBlock};
use crate::erased::DynPolicy;
use crate::whole_slots::WholeSlots;

/// Which traces a policy is replayed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Traces {
    All,
    /// Those that hold the data of files as well.
    WithData,
}

/// What a policy is compared as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// One that does one thing.
    Fixed,
    /// A policy without its idea, for comparison alone.
    Without,
    /// Chooses what takes the fewest bytes.
    LeastBytes,
    /// Chooses what takes the least time on this medium.
    LeastTime(&'static Medium),
}

/// A policy that can be replayed.
#[derive(Clone, Copy)]
pub struct Known {
    pub name: &'static str,
    pub policy: fn() -> DynPolicy,
    /// Makes the policy's bound, before any update is counted.
    pub bound: fn() -> Box<dyn Bound>,
    /// Whether appends go home before they are committed: what is home of a block that was new in
    /// a transaction which did not come about is then undefined.
    pub appends_go_home: bool,
    pub traces: Traces,
    pub role: Role,
    pub coding: Coding,
    /// From which shares on room is made in the memory, and blocks go home, where that is not as
    /// the policy wishes.
    pub thresholds: Option<(u8, u8)>,
}

impl Known {
    /// Whether it is replayed with a trace of this name.
    pub fn is_for(&self, trace: &str) -> bool {
        self.traces == Traces::All || trace.ends_with("-datajournal")
    }

    /// Whether it makes use of slots.
    pub fn has_slots(&self) -> bool {
        (self.policy)().wants_slots()
    }

    /// Whether it makes use of the disk-side log.
    pub fn has_log(&self) -> bool {
        (self.policy)().wants_log()
    }
}

const FULL_BLOCK: Known = Known {
    name: "full-block",
    policy: || DynPolicy::new(FullBlock),
    bound: || Box::new(WholeBlock),
    appends_go_home: false,
    traces: Traces::All,
    role: Role::Fixed,
    coding: Coding::Nothing,
    thresholds: None,
};

const BYTE_DELTA: Known = Known {
    name: "byte-delta",
    policy: || DynPolicy::new(ByteDelta::new()),
    bound: || Box::new(InSlots::new(Rewrite::Words, true)),
    appends_go_home: true,
    coding: Coding::EachSlot(Form::Words),
    ..FULL_BLOCK
};

/// Appends go to slots as well.
const ALL_IN_SLOTS: ByteDelta =
    ByteDelta::with(byte_delta::Settings::new().appends(Appends::Slots));

/// Copies from the old image are tried as well.
const WITH_MOVES: CompressedDelta =
    CompressedDelta::with(compressed_delta::Settings::new().moves(true));

const FOR_WEAR: Adaptive = Adaptive::with(adaptive::Settings::new().wish(Wish::Wear));
const FOR_DRAM: Adaptive = Adaptive::with(adaptive::Settings::new().medium(Medium::DRAM));
const FOR_PCM: Adaptive = Adaptive::with(adaptive::Settings::new().medium(Medium::PCM));

/// All of them.
pub const ALL: &[Known] = &[
    FULL_BLOCK,
    Known {
        name: "object-log",
        policy: || DynPolicy::new(ObjectLog::new().kernels(NativeKernels::detect())),
        bound: || Box::new(ChangedObjects),
        coding: Coding::Each(Form::SubBlocks),
        ..FULL_BLOCK
    },
    BYTE_DELTA,
    Known {
        name: "byte-delta, whole slots",
        policy: || DynPolicy::new(WholeSlots(ByteDelta::new())),
        bound: || Box::new(InSlots::new(Rewrite::Whole, true)),
        role: Role::Without,
        coding: Coding::Nothing,
        ..BYTE_DELTA
    },
    Known {
        name: "byte-delta, all in slots",
        policy: || DynPolicy::new(ALL_IN_SLOTS),
        bound: || Box::new(InSlots::new(Rewrite::Words, false)),
        appends_go_home: false,
        traces: Traces::WithData,
        ..BYTE_DELTA
    },
    Known {
        name: "byte-delta, all in whole slots",
        policy: || DynPolicy::new(WholeSlots(ALL_IN_SLOTS)),
        bound: || Box::new(InSlots::new(Rewrite::Whole, false)),
        appends_go_home: false,
        traces: Traces::WithData,
        role: Role::Without,
        coding: Coding::Nothing,
        ..BYTE_DELTA
    },
    Known {
        name: "lcow",
        policy: || DynPolicy::new(Lcow::new()),
        // Metadata leaves the ring for slots while there is room for the largest transactions.
        thresholds: Some((128, 224)),
        ..FULL_BLOCK
    },
    Known {
        name: "compressed-delta",
        policy: || DynPolicy::new(CompressedDelta::new().kernels(NativeKernels::detect())),
        bound: || Box::new(Compressed { with_moves: false }),
        coding: Coding::Tried(&[Form::Runs, Form::Words, Form::Xor]),
        ..FULL_BLOCK
    },
    Known {
        name: "compressed-delta, moves",
        policy: || DynPolicy::new(WITH_MOVES.kernels(NativeKernels::detect())),
        bound: || Box::new(Compressed { with_moves: true }),
        coding: Coding::Tried(&[Form::Runs, Form::Words, Form::Xor, Form::Moves]),
        ..FULL_BLOCK
    },
    Known {
        name: "two-level",
        policy: || DynPolicy::new(TwoLevel::new().kernels(NativeKernels::detect())),
        bound: || Box::new(SubBlocks),
        coding: Coding::Each(Form::SubBlocks),
        ..FULL_BLOCK
    },
    Known {
        name: "adaptive, wear",
        policy: || DynPolicy::new(FOR_WEAR.kernels(NativeKernels::detect())),
        bound: || Box::new(Smallest),
        role: Role::LeastBytes,
        coding: Coding::Chosen(&FOR_WEAR),
        ..FULL_BLOCK
    },
    Known {
        name: "adaptive, DRAM",
        policy: || DynPolicy::new(FOR_DRAM.kernels(NativeKernels::detect())),
        role: Role::LeastTime(&Medium::DRAM),
        coding: Coding::Chosen(&FOR_DRAM),
        ..FULL_BLOCK
    },
    Known {
        name: "adaptive, PCM",
        policy: || DynPolicy::new(FOR_PCM.kernels(NativeKernels::detect())),
        role: Role::LeastTime(&Medium::PCM),
        coding: Coding::Chosen(&FOR_PCM),
        ..FULL_BLOCK
    },
];

/// Blocks of a batch of a checkpoint, if the options say nothing.
const BATCH_BLOCKS: u32 = 256;

/// How long encoding takes.
#[derive(Clone, Copy, Debug)]
pub enum Coding {
    Nothing,
    /// For each frame with a delta as long as this form.
    Each(Form),
    /// For each frame that names a slot.
    EachSlot(Form),
    /// For each frame with a delta as long as these forms together, unless a short one is found.
    Tried(&'static [Form]),
    /// As long as the policy says itself.
    Chosen(&'static Adaptive),
}

impl Coding {
    /// Whether a delta begins with its form.
    pub const fn says_forms(&self) -> bool {
        matches!(self, Self::Tried(_) | Self::Chosen(_))
    }

    /// For a frame.
    pub fn of_frame(&self, place: Place, block_bytes: usize) -> u64 {
        match (self, place) {
            (Self::Each(form), Place::Encoded { .. })
            | (Self::EachSlot(form), Place::Slot { .. }) => coding_ns(*form, block_bytes),
            (Self::Tried(forms), Place::Encoded { first, bytes }) => {
                let ends = |form: &&Form| bytes <= SHORT_BYTES as u64 && **form as u8 == first;
                let tried =
                    forms.iter().position(|form| ends(&form)).map_or(forms.len(), |at| at + 1);
                forms[..tried].iter().map(|form| coding_ns(*form, block_bytes)).sum()
            }
            _ => 0,
        }
    }

    /// For an update, whatever becomes of it, in a journal whose shield has this number of blocks.
    pub fn of_update(&self, operation: &Operation<'_>, shield_blocks: u32) -> u64 {
        let (Self::Chosen(policy), Operation::Update(update)) = (self, operation) else { return 0 };
        let mut policy = **policy;
        policy.set_batches(shield_blocks.max(BATCH_BLOCKS), shield_blocks);
        let mut room = vec![0; update.change.image().map_or(0, <[u8]>::len)];
        policy.choose(update, &mut Encoder::new(&mut room)).coding_ns
    }
}
