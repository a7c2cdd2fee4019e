//! Patches that are stored from where they lie, without the policy being asked for them.

use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use journal_core::policy::{Change, Patch, Policy, Update};
use nvm_journal::{ByteDelta, Lcow, ObjectLog, Operation, TwoLevel};

use crate::claims::Dice;
use crate::many::{Asked, Lanes, TWO, first_difference, left_by};
use crate::use_it::{BLOCK, BLOCKS, block};

/// How many calls each policy gets, on each kind of lanes.
const ROUNDS: u64 = 100;

/// What patches are parts of.
fn bytes(dice: &mut Dice) -> Vec<u8> {
    let first = dice.below(256) as u8;
    (0..BLOCK).map(|at| (at as u8).wrapping_mul(7) ^ first).collect()
}

/// Patches of a block, some of which touch; mostly short ones.
fn patches<'b>(dice: &mut Dice, bytes: &'b [u8], most: usize) -> Vec<Patch<'b>> {
    let count = [1, 1, 1, 2, 3, 4, 5, 16, 17][dice.below(9) as usize].min(most);
    let longest = [3, 40, 40, 70, 200, 1024, 4096][dice.below(7) as usize].min(BLOCK / count);
    let mut at = 0;
    let patch = |_| {
        let room = BLOCK / count;
        let len = 1 + dice.below(longest as u64) as usize;
        // A third of them touch the one before, if that ends where its room does.
        let gap = match dice.below(3) {
            0 => 0,
            _ => dice.below((room - len.min(room) + 1) as u64) as usize,
        };
        let patch = Patch { at: (at + gap) as u32, bytes: &bytes[at + gap..][..len] };
        at += gap + len;
        patch
    };
    (0..count).map(patch).collect()
}

/// One operation or several, most of which are one patch, now and then one that is not.
fn of_patches(dice: &mut Dice, _round: u64, commit: &mut dyn FnMut(&[Operation<'_>])) {
    let bytes = bytes(dice);
    let count = [1, 1, 1, 2, 3, 8, 16, 17, 40][dice.below(9) as usize];
    let most = if count == 1 || dice.below(4) == 0 { BLOCK } else { 1 };
    let all: Vec<_> = (0..count).map(|_| patches(dice, &bytes, most)).collect();
    let step = 1 + dice.below((BLOCKS - 1) / count);
    let first = dice.below(BLOCKS - step * (count - 1));
    let number = |at: usize| block(first + at as u64 * step);
    let update = |(at, patches)| Update::new(number(at), Change::Patches(patches));
    let updates = all.iter().map(Vec::as_slice).enumerate().map(update);
    let mut operations: Vec<_> = updates.map(Operation::Update).collect();
    if dice.below(6) == 0 {
        let at = dice.below(count) as usize;
        operations[at] = match dice.below(2) {
            0 => Operation::Discard(number(at)),
            _ => Operation::write(number(at), &bytes),
        };
    }
    commit(&operations);
}

fn are_logged_alike<L: Policy + Clone + Send + Sync + 'static>(
    policy: &L,
    name: &str,
    lanes: Lanes,
) {
    let count = Arc::new(AtomicU64::new(0));
    let not = Asked::for_prefixes(policy.clone(), &count);
    let asked = Asked::about_all(policy.clone());
    let asked = left_by(asked, &format!("{name}-asked"), lanes, ROUNDS, of_patches);
    let not = left_by(not, &format!("{name}-not-asked"), lanes, ROUNDS, of_patches);
    assert_eq!(first_difference(&asked, &not), None, "{name}");
    assert!(count.load(Ordering::Relaxed) > 3 * ROUNDS, "{name} was asked all the same");
}

/// Lanes that are long, that are used up again and again, and one alone.
const ALL: [Lanes; 3] = [
    TWO,
    Lanes { count: 3, bytes: 40 << 10, slots: 0 },
    Lanes { count: 1, bytes: 24 << 10, slots: 0 },
];

#[test]
fn patches_are_logged_by_the_byte_as_where_the_policy_is_asked() {
    for lanes in ALL {
        let (count, slots) = (lanes.count, Lanes { slots: 12, ..lanes });
        are_logged_alike(&ObjectLog::new(), &format!("pieces-objects-{count}"), lanes);
        let two_level = TwoLevel::with(two_level::Settings::new().compares(false));
        are_logged_alike(&two_level, &format!("pieces-two-level-{count}"), lanes);
        are_logged_alike(&ByteDelta::new(), &format!("pieces-bytes-{count}"), lanes);
        are_logged_alike(&ByteDelta::new(), &format!("pieces-bytes-slots-{count}"), slots);
        are_logged_alike(&Lcow::new(), &format!("pieces-lcow-{count}"), lanes);
        are_logged_alike(&Lcow::new(), &format!("pieces-lcow-slots-{count}"), slots);
    }
}
