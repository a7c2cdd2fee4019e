//! The seven policies, in sizes that fit the machines' blocks.

use adaptive::{Settings as AdaptiveSettings, Wish};
use journal_core::policy::Policy;
use nvm_journal::{Adaptive, AnyPolicy, ByteDelta, Lcow, ObjectLog, TwoLevel};
use policy_codec::bitmap::Unit;

/// The policy of this name for blocks of 64 bytes: objects of 16, sub-blocks of a word, and what
/// takes more than half of a block goes to the disk.
pub(crate) fn tiny(name: &str) -> AnyPolicy {
    let objects = object_log::Settings::new().object_bytes(16);
    let levels = two_level::Settings::new().sub_block(Unit::WORD).few_units(64);
    let adapts = AdaptiveSettings::new().wish(Wish::Wear).bypass_above(128);
    match default(name) {
        AnyPolicy::ObjectLog(_) => ObjectLog::with(objects).expect("settings that can be").into(),
        AnyPolicy::TwoLevel(_) => TwoLevel::with(levels).into(),
        AnyPolicy::Adaptive(_) => Adaptive::with(adapts).into(),
        other => other,
    }
}

/// A policy that compares images with those that are kept, which it does not by default: for blocks
/// with objects of this size.
pub(crate) fn comparing(name: &str, object_bytes: u32) -> AnyPolicy {
    let objects = object_log::Settings::new().object_bytes(object_bytes).compares(true);
    let policy: AnyPolicy = match default(name) {
        AnyPolicy::ObjectLog(_) => ObjectLog::with(objects).expect("settings that can be").into(),
        AnyPolicy::Lcow(_) => Lcow::with(lcow::Settings::new().compares(true)).into(),
        _ => ByteDelta::with(byte_delta::Settings::new().compares(true)).into(),
    };
    assert_eq!((policy.name(), policy.wants_cached_old()), (name, true));
    policy
}

/// The policy of this name as it comes, for blocks of 4 KiB.
pub(crate) fn default(name: &str) -> AnyPolicy {
    AnyPolicy::by_name(name).expect("one of the seven")
}

/// Whether a policy writes anything outside of the records.
pub(crate) fn has_places(policy: &AnyPolicy) -> bool {
    policy.wants_slots() || policy.wants_log()
}

/// Declares a test for each policy; `$check` gets its name.
macro_rules! for_each_policy {
    ($check:path) => {
        #[test]
        fn full_block() {
            $check("full-block");
        }

        #[test]
        fn byte_delta() {
            $check("byte-delta");
        }

        #[test]
        fn object_log() {
            $check("object-log");
        }

        #[test]
        fn lcow() {
            $check("lcow");
        }

        #[test]
        fn compressed_delta() {
            $check("compressed-delta");
        }

        #[test]
        fn two_level() {
            $check("two-level");
        }

        #[test]
        fn adaptive() {
            $check("adaptive");
        }
    };
}

pub(crate) use for_each_policy;

/// Declares a test for each policy that can compare images with those that are kept.
macro_rules! for_each_comparing_policy {
    ($check:path) => {
        #[test]
        fn byte_delta_that_compares() {
            $check("byte-delta");
        }

        #[test]
        fn object_log_that_compares() {
            $check("object-log");
        }

        #[test]
        fn lcow_that_compares() {
            $check("lcow");
        }
    };
}

pub(crate) use for_each_comparing_policy;

#[test]
fn no_policy_is_left_out() {
    let names = AnyPolicy::ALL.iter().map(AnyPolicy::name).collect::<Vec<_>>();
    let tested = [
        "full-block",
        "byte-delta",
        "object-log",
        "lcow",
        "compressed-delta",
        "two-level",
        "adaptive",
    ];
    assert_eq!(names, tested);
    assert!(names.iter().all(|name| tiny(name).id() == default(name).id()));
}
