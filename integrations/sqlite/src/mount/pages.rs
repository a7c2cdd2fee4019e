//! Policies, set for pages of SQLite.
//!
//! SQLite gives each page whole. Of most pages a transaction changes a few bytes: a counter on the
//! first page, and on others a row and the number that points to it.

use nvm_journal::{AnyPolicy, ByteDelta, ObjectLog, TwoLevel};

/// The pieces that a page is compared in are not much larger than what changes of it.
const PIECE_BYTES: u16 = 16;

/// What a policy is with the settings that suit pages. Each page is compared with the newest one
/// that the journal keeps in ordinary memory, where the policy can log what differs.
#[must_use]
pub fn for_pages(policy: AnyPolicy) -> AnyPolicy {
    match policy {
        AnyPolicy::ByteDelta(policy) => ByteDelta::with(policy.settings().compares(true)).into(),
        AnyPolicy::ObjectLog(policy) => {
            let settings = policy.settings().compares(true).object_bytes(PIECE_BYTES.into());
            ObjectLog::with(settings).unwrap_or(policy).into()
        }
        AnyPolicy::TwoLevel(policy) => {
            let small = policy.settings().sub_block_bytes(PIECE_BYTES.into());
            small.map_or(policy, TwoLevel::with).into()
        }
        others => others,
    }
}
