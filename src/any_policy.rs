//! A policy that is chosen at run time: by its name, by its number, or by what a journal says.
//!
//! It does what the chosen policy does, one branch later. A caller that knows the policy beforehand
//! names it as a type, and pays for nothing.

use core::fmt;
use core::str::FromStr;

#[cfg(feature = "adaptive")]
use adaptive::Adaptive;
#[cfg(feature = "byte-delta")]
use byte_delta::ByteDelta;
#[cfg(feature = "compressed-delta")]
use compressed_delta::CompressedDelta;
use full_block::FullBlock;
#[cfg(feature = "object-log")]
use journal_core::policy::Change;
use journal_core::policy::{
    ApplyError, Encoder, Pacing, Patch, Placement, Policy, PolicyId, Prefix, Thresholds, Update,
};
#[cfg(feature = "lcow")]
use lcow::Lcow;
#[cfg(feature = "object-log")]
use object_log::ObjectLog;
#[cfg(any(
    feature = "adaptive",
    feature = "compressed-delta",
    feature = "object-log",
    feature = "two-level"
))]
use pmem_sys::NativeKernels;
#[cfg(feature = "two-level")]
use two_level::TwoLevel;

use crate::error::Error;

/// One of the policies that this crate brings along: [`FullBlock`](struct@FullBlock), and those
/// whose features are on.
///
/// ```
/// use nvm_journal::{AnyPolicy, BlockSize, Options};
///
/// let policy: AnyPolicy = "byte-delta".parse()?;
/// let plan = Options::new().policy(policy).plan(16 << 20, BlockSize::DEFAULT);
/// assert!(plan.is_ok_and(|plan| plan.geometry.lane_slots > 0));
/// # Ok::<(), nvm_journal::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AnyPolicy {
    /// Whole blocks.
    FullBlock(FullBlock),
    /// Versions in slots, rewritten by the word.
    #[cfg(feature = "byte-delta")]
    ByteDelta(ByteDelta),
    /// The objects of a block that changed.
    #[cfg(feature = "object-log")]
    ObjectLog(ObjectLog),
    /// Data in slots, metadata in the records.
    #[cfg(feature = "lcow")]
    Lcow(Lcow),
    /// What differs, compressed; what differs much in the disk-side log.
    #[cfg(feature = "compressed-delta")]
    CompressedDelta(CompressedDelta),
    /// Sub-blocks that change in the records; blocks that change much in the disk-side log.
    #[cfg(feature = "two-level")]
    TwoLevel(TwoLevel),
    /// The cheapest form of each update.
    #[cfg(feature = "adaptive")]
    Adaptive(Adaptive),
}

impl AnyPolicy {
    /// All policies with their default settings, ascending by number.
    pub const ALL: &[Self] = &[
        Self::FullBlock(FullBlock),
        #[cfg(feature = "byte-delta")]
        Self::ByteDelta(ByteDelta::new()),
        #[cfg(feature = "object-log")]
        Self::ObjectLog(ObjectLog::new()),
        #[cfg(feature = "lcow")]
        Self::Lcow(Lcow::new()),
        #[cfg(feature = "compressed-delta")]
        Self::CompressedDelta(CompressedDelta::new()),
        #[cfg(feature = "two-level")]
        Self::TwoLevel(TwoLevel::new()),
        #[cfg(feature = "adaptive")]
        Self::Adaptive(Adaptive::new()),
    ];

    /// The policy of this number, with its default settings.
    #[must_use]
    pub fn by_id(id: PolicyId) -> Option<Self> {
        Self::ALL.iter().copied().find(|policy| policy.id() == id)
    }

    /// The policy of this name, with its default settings.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|policy| policy.name() == name)
    }

    /// Its name, which is that of its crate's folder.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::FullBlock(_) => "full-block",
            #[cfg(feature = "byte-delta")]
            Self::ByteDelta(_) => "byte-delta",
            #[cfg(feature = "object-log")]
            Self::ObjectLog(_) => "object-log",
            #[cfg(feature = "lcow")]
            Self::Lcow(_) => "lcow",
            #[cfg(feature = "compressed-delta")]
            Self::CompressedDelta(_) => "compressed-delta",
            #[cfg(feature = "two-level")]
            Self::TwoLevel(_) => "two-level",
            #[cfg(feature = "adaptive")]
            Self::Adaptive(_) => "adaptive",
        }
    }
}

/// Calls a method of the chosen policy. Policies that compare images do so by the best instructions
/// that the machine has, except for `object-log`, which seldom compares.
macro_rules! of_chosen {
    ($self:ident, $policy:ident => $call:expr) => {
        match $self {
            AnyPolicy::FullBlock($policy) => $call,
            #[cfg(feature = "byte-delta")]
            AnyPolicy::ByteDelta($policy) => $call,
            #[cfg(feature = "object-log")]
            AnyPolicy::ObjectLog($policy) => $call,
            #[cfg(feature = "lcow")]
            AnyPolicy::Lcow($policy) => $call,
            #[cfg(feature = "compressed-delta")]
            AnyPolicy::CompressedDelta(chosen) => {
                let $policy = chosen.kernels(kernels());
                $call
            }
            #[cfg(feature = "two-level")]
            AnyPolicy::TwoLevel(chosen) => {
                let $policy = chosen.kernels(kernels());
                $call
            }
            #[cfg(feature = "adaptive")]
            AnyPolicy::Adaptive(chosen) => {
                let $policy = chosen.kernels(kernels());
                $call
            }
        }
    };
}

/// Asks the chosen policy about itself, for which nothing is compared.
macro_rules! asked {
    ($self:ident, $policy:ident => $call:expr) => {
        match $self {
            AnyPolicy::FullBlock($policy) => $call,
            #[cfg(feature = "byte-delta")]
            AnyPolicy::ByteDelta($policy) => $call,
            #[cfg(feature = "object-log")]
            AnyPolicy::ObjectLog($policy) => $call,
            #[cfg(feature = "lcow")]
            AnyPolicy::Lcow($policy) => $call,
            #[cfg(feature = "compressed-delta")]
            AnyPolicy::CompressedDelta($policy) => $call,
            #[cfg(feature = "two-level")]
            AnyPolicy::TwoLevel($policy) => $call,
            #[cfg(feature = "adaptive")]
            AnyPolicy::Adaptive($policy) => $call,
        }
    };
}

/// The best instructions that the machine has. They are looked for once.
#[cfg(any(
    feature = "adaptive",
    feature = "compressed-delta",
    feature = "object-log",
    feature = "two-level"
))]
fn kernels() -> NativeKernels {
    static DETECTED: std::sync::OnceLock<NativeKernels> = std::sync::OnceLock::new();
    *DETECTED.get_or_init(NativeKernels::detect)
}

impl Policy for AnyPolicy {
    fn id(&self) -> PolicyId {
        asked!(self, policy => policy.id())
    }

    #[inline]
    fn place(&self, update: &Update<'_>, out: &mut Encoder<'_>) -> Placement {
        // To find out what there is takes a while: only where there is something to compare.
        #[cfg(feature = "object-log")]
        if let (Self::ObjectLog(chosen), Change::Image(_), Some(_)) =
            (self, &update.change, update.old)
        {
            return chosen.kernels(kernels()).place(update, out);
        }
        of_chosen!(self, policy => policy.place(update, out))
    }

    #[inline]
    fn prefix_of(&self, patches: &[Patch<'_>], at: usize) -> Option<Prefix> {
        asked!(self, policy => policy.prefix_of(patches, at))
    }

    #[inline]
    fn logs_patches(&self) -> bool {
        asked!(self, policy => policy.logs_patches())
    }

    #[inline]
    fn patch_bytes_on_old(&self, block_bytes: usize) -> usize {
        asked!(self, policy => policy.patch_bytes_on_old(block_bytes))
    }

    #[inline]
    fn wants_old_check(&self) -> bool {
        asked!(self, policy => policy.wants_old_check())
    }

    #[inline]
    fn counts_alike(&self) -> bool {
        asked!(self, policy => policy.counts_alike())
    }

    fn set_batches(&mut self, blocks: u32, shielded: u32) {
        asked!(self, policy => policy.set_batches(blocks, shielded));
    }

    #[inline]
    fn place_on(&self, update: &Update<'_>, old_check: u64, out: &mut Encoder<'_>) -> Placement {
        of_chosen!(self, policy => policy.place_on(update, old_check, out))
    }

    #[inline]
    fn logs_images(&self) -> bool {
        asked!(self, policy => policy.logs_images())
    }

    #[inline]
    fn logs_whole_blocks(&self) -> bool {
        asked!(self, policy => policy.logs_whole_blocks())
    }

    #[inline]
    fn apply(&self, payload: &[u8], block: &mut [u8]) -> Result<(), ApplyError> {
        of_chosen!(self, policy => policy.apply(payload, block))
    }

    #[inline]
    fn rewrite_slot(&self, older: &[u8], newer: &[u8], rewrite: &mut dyn FnMut(Patch<'_>)) {
        asked!(self, policy => policy.rewrite_slot(older, newer, rewrite));
    }

    #[inline]
    fn wants_slots(&self) -> bool {
        asked!(self, policy => policy.wants_slots())
    }

    #[inline]
    fn wants_log(&self) -> bool {
        asked!(self, policy => policy.wants_log())
    }

    #[inline]
    fn wants_old(&self) -> bool {
        asked!(self, policy => policy.wants_old())
    }

    #[inline]
    fn wants_cached_old(&self) -> bool {
        asked!(self, policy => policy.wants_cached_old())
    }

    #[inline]
    fn check(&self, payload: &[u8], block: &[u8]) -> Result<(), ApplyError> {
        of_chosen!(self, policy => policy.check(payload, block))
    }

    #[inline]
    fn sends_appends_home(&self) -> bool {
        asked!(self, policy => policy.sends_appends_home())
    }

    #[inline]
    fn bypasses_when_full(&self) -> bool {
        asked!(self, policy => policy.bypasses_when_full())
    }

    #[inline]
    fn keeps_in_slots(&self) -> bool {
        asked!(self, policy => policy.keeps_in_slots())
    }

    fn thresholds(&self) -> Thresholds {
        asked!(self, policy => policy.thresholds())
    }

    fn pacing(&self) -> Pacing {
        asked!(self, policy => policy.pacing())
    }

    fn objects_in(&self, update: &Update<'_>) -> u32 {
        asked!(self, policy => policy.objects_in(update))
    }
}

impl Default for AnyPolicy {
    fn default() -> Self {
        Self::FullBlock(FullBlock)
    }
}

impl From<FullBlock> for AnyPolicy {
    fn from(policy: FullBlock) -> Self {
        Self::FullBlock(policy)
    }
}

#[cfg(feature = "byte-delta")]
impl From<ByteDelta> for AnyPolicy {
    fn from(policy: ByteDelta) -> Self {
        Self::ByteDelta(policy)
    }
}

#[cfg(feature = "object-log")]
impl From<ObjectLog> for AnyPolicy {
    fn from(policy: ObjectLog) -> Self {
        Self::ObjectLog(policy)
    }
}

#[cfg(feature = "lcow")]
impl From<Lcow> for AnyPolicy {
    fn from(policy: Lcow) -> Self {
        Self::Lcow(policy)
    }
}

#[cfg(feature = "compressed-delta")]
impl From<CompressedDelta> for AnyPolicy {
    fn from(policy: CompressedDelta) -> Self {
        Self::CompressedDelta(policy)
    }
}

#[cfg(feature = "two-level")]
impl From<TwoLevel> for AnyPolicy {
    fn from(policy: TwoLevel) -> Self {
        Self::TwoLevel(policy)
    }
}

#[cfg(feature = "adaptive")]
impl From<Adaptive> for AnyPolicy {
    fn from(policy: Adaptive) -> Self {
        Self::Adaptive(policy)
    }
}

impl fmt::Display for AnyPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for AnyPolicy {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        Self::by_name(name).ok_or(Error::NoSuchPolicy)
    }
}

#[cfg(test)]
mod tests {
    use journal_core::BlockNumber;
    use journal_core::policy::Class;

    use super::*;

    #[test]
    fn each_is_found_by_its_number_and_by_its_name_and_by_no_other() {
        for policy in AnyPolicy::ALL {
            assert_eq!(AnyPolicy::by_id(policy.id()), Some(*policy));
            assert_eq!(policy.to_string().parse(), Ok(*policy));
        }
        assert!(AnyPolicy::ALL.windows(2).all(|pair| pair[0].id() < pair[1].id()));
        assert_eq!(AnyPolicy::by_id(PolicyId(0x1_0000)), None);
        let unknown = "full_block".parse::<AnyPolicy>().expect_err("is spelt otherwise");
        let names =
            "full-block, byte-delta, object-log, lcow, compressed-delta, two-level, adaptive";
        assert!(unknown.to_string().ends_with(names), "{unknown}");
    }

    /// Everything that it says and does, beside what the chosen one does.
    fn is_like(any: AnyPolicy, one: &impl Policy) {
        assert_eq!(any.id(), one.id());
        assert_eq!(any.wants_slots(), one.wants_slots());
        assert_eq!(any.keeps_in_slots(), one.keeps_in_slots());
        assert_eq!(any.wants_log(), one.wants_log());
        assert_eq!(any.wants_old(), one.wants_old());
        assert_eq!(any.wants_cached_old(), one.wants_cached_old());
        assert_eq!(any.sends_appends_home(), one.sends_appends_home());
        assert_eq!(any.counts_alike(), one.counts_alike());
        assert_eq!(any.bypasses_when_full(), one.bypasses_when_full());
        assert_eq!(any.thresholds(), one.thresholds());
        assert_eq!(any.logs_images(), one.logs_images());
        assert_eq!(any.logs_whole_blocks(), one.logs_whole_blocks());
        let patch = Patch { at: 3, bytes: b"patch" };
        assert_eq!(any.prefix_of(&[patch], 0), one.prefix_of(&[patch], 0));
        assert_eq!(any.pacing(), one.pacing());
        let (old, mut new) = ([1; 512], [1; 512]);
        new[300] = 2;
        for class in [Class::Data, Class::Metadata] {
            let mut update = Update::new(BlockNumber(0), Change::Image(&new));
            (update.old, update.class) = (Some(&old[..]), class);
            let (mut room, mut other) = ([0; 512], [0; 512]);
            let (mut out, mut expected) = (Encoder::new(&mut room), Encoder::new(&mut other));
            assert_eq!(any.place(&update, &mut out), one.place(&update, &mut expected));
            assert_eq!(out.as_bytes(), expected.as_bytes());
            assert_eq!(any.objects_in(&update), one.objects_in(&update));
            let (mut block, mut image) = (old, old);
            assert_eq!(
                any.apply(out.as_bytes(), &mut block),
                one.apply(expected.as_bytes(), &mut image)
            );
            assert_eq!(block, image);
            let payload = out.as_bytes();
            assert_eq!(any.check(payload, &old), one.check(payload, &old));
        }
        let rewritten = |policy: &dyn Policy| {
            let mut places = Vec::new();
            let mut note = |patch: Patch<'_>| places.push((patch.at, patch.bytes.to_vec()));
            policy.rewrite_slot(&old, &new, &mut note);
            places
        };
        assert_eq!(rewritten(&any), rewritten(one));
    }

    #[test]
    fn it_does_what_the_chosen_one_does() {
        is_like(FullBlock.into(), &FullBlock);
        is_like(ByteDelta::new().into(), &ByteDelta::new());
        is_like(ObjectLog::new().into(), &ObjectLog::new());
        is_like(Lcow::new().into(), &Lcow::new());
        is_like(CompressedDelta::new().into(), &CompressedDelta::new());
        is_like(TwoLevel::new().into(), &TwoLevel::new());
        is_like(Adaptive::new().into(), &Adaptive::new());
        let settings = lcow::Settings::new().reclaim_at(100).compares(true);
        is_like(Lcow::with(settings).into(), &Lcow::with(settings));
        let objects = ObjectLog::with(object_log::Settings::new().compares(true));
        let objects = objects.expect("settings that can be");
        assert!(objects.wants_cached_old());
        is_like(objects.into(), &objects);
    }
}
