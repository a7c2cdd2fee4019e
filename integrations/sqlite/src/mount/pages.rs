//! Policies, set for pages of SQLite.
//!
//! SQLite gives each page whole. Of most pages a transaction changes a few bytes: a counter on the
//! first page, and on others a row and the number that points to it.

use nvm_journal::policy::Unit;
use nvm_journal::{AnyPolicy, ByteDelta, ObjectLog, TwoLevel};

/// The pieces that a page is compared in are not much larger than what changes of it.
const UNIT: Unit = Unit::new(16).expect("a power of two");

/// What a policy is with the settings that suit pages. Each page is compared with the newest one
/// that the journal keeps in ordinary memory, where the policy can log what differs.
#[must_use]
pub fn for_pages(policy: AnyPolicy) -> AnyPolicy {
    match policy {
        AnyPolicy::ByteDelta(policy) => ByteDelta::with(policy.settings().compares(true)).into(),
        AnyPolicy::ObjectLog(policy) => {
            let settings = policy.settings().compares(true).object_bytes(UNIT.bytes() as u32);
            ObjectLog::with(settings).unwrap_or(policy).into()
        }
        AnyPolicy::TwoLevel(policy) => TwoLevel::with(policy.settings().sub_block(UNIT)).into(),
        others => others,
    }
}
