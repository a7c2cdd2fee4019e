extern crate std;
use std::vec;
use std::vec::Vec;

use journal_core::BlockNumber;
use journal_core::policy::{Patch, Span};
use proptest::prelude::*;

use super::*;

const LEN: usize = 4096;

fn placed(policy: &TwoLevel, update: &Update<'_>) -> (Placement, Vec<u8>) {
    let mut room = vec![0; LEN];
    let mut out = Encoder::new(&mut room);
    let placement = policy.place(update, &mut out);
    (placement, out.as_bytes().to_vec())
}

/// An update in which the first byte of `count` sub-blocks differs.
fn with_units<R>(count: usize, call: impl FnOnce(Update<'_>) -> R) -> R {
    let old = vec![7; LEN];
    let mut new = old.clone();
    new.iter_mut().step_by(128).take(count).for_each(|byte| *byte = 8);
    let mut update = Update::new(BlockNumber(0), Change::Image(&new));
    update.old = Some(&old);
    call(update)
}

#[test]
fn room_is_made_when_the_settings_say_so() {
    let policy = TwoLevel::new();
    assert_eq!(policy.thresholds(), Thresholds::new(192, 192));
    let pacing = |seconds| Pacing::new(None, None, Some(Duration::from_secs(seconds)));
    assert_eq!(policy.pacing(), pacing(300));
    let settings = Settings::new().reclaim_at(7).checkpoint_after(Duration::from_secs(9));
    let policy = TwoLevel::with(settings);
    assert_eq!((policy.thresholds(), policy.pacing()), (Thresholds::new(7, 7), pacing(9)));
}

/// Whole images that are not compared count as changed everywhere. Patches go into the record as
/// they come, or make an image that is logged by its sub-blocks.
#[test]
fn what_is_compared_or_patched_is_as_the_settings_say() {
    let placed_by = |settings| with_units(1, |update| placed(&TwoLevel::with(settings), &update).0);
    assert_eq!(placed_by(Settings::new()), Placement::Encoded);
    assert_eq!(placed_by(Settings::new().compares(false)), Placement::DiskLog);
    assert!(TwoLevel::new().logs_patches());
    assert!(!TwoLevel::with(Settings::new().logs_patches(false)).logs_patches());
}

#[test]
fn what_changes_a_little_goes_into_the_record_and_what_changes_much_to_the_disk() {
    let policy = TwoLevel::new();
    for count in [1, 16] {
        let (placement, payload) = with_units(count, |update| placed(&policy, &update));
        assert_eq!(placement, Placement::Encoded);
        assert_eq!(payload.len(), 1 + 4 + 128 * count);
        let mut block = vec![7; LEN];
        assert_eq!(policy.apply(&payload, &mut block), Ok(()));
        assert_eq!(block.iter().filter(|byte| **byte == 8).count(), count);
    }
    let of =
        |count: usize, policy: TwoLevel| with_units(count, |update| placed(&policy, &update).0);
    assert_eq!(of(17, policy), Placement::DiskLog);
    assert_eq!(of(0, policy), Placement::Unchanged);
    assert_eq!(of(17, TwoLevel::with(Settings::new().few_units(255))), Placement::Encoded);
    assert_eq!(of(1, TwoLevel::with(Settings::new().few_units(0))), Placement::DiskLog);
    let blind = TwoLevel::with(Settings::new().compares(false));
    assert_eq!(of(1, blind), Placement::DiskLog);
    assert!(!blind.wants_old() && policy.wants_old());
}

#[test]
fn an_appended_block_is_logged_above_zeroes() {
    let policy = TwoLevel::new();
    let mut new = vec![0; LEN];
    (new[5], new[200], new[4095]) = (1, 2, 3);
    let place = |old: Option<&[u8]>, new: &[u8]| {
        let mut update = Update::new(BlockNumber(0), Change::Image(new));
        (update.kind, update.old) = (Kind::Append, old);
        placed(&policy, &update)
    };
    let (placement, payload) = place(None, &new);
    assert_eq!((placement, payload.len()), (Placement::Encoded, 1 + 4 + 3 * 128));
    // Whatever the block holds, and more than once.
    for mut block in [vec![7; LEN], new.clone(), vec![0; LEN]] {
        assert_eq!(policy.apply(&payload, &mut block), Ok(()));
        assert_eq!(block, new);
    }
    // Nothing but zeroes is logged too.
    let (placement, payload) = place(None, &[0; LEN]);
    assert_eq!((placement, payload.len()), (Placement::Encoded, 1 + 4));
    let mut block = vec![7; LEN];
    assert_eq!(policy.apply(&payload, &mut block), Ok(()));
    assert_eq!(block, [0; LEN]);
    // What changes is less.
    let mut old = new.clone();
    old[5] = 9;
    assert_eq!(place(Some(&old), &new).1.len(), 1 + 4 + 128);
    assert_eq!(place(Some(&new), &new).0, Placement::Unchanged);
    // Much of it is not zero.
    assert_eq!(place(None, &[7; LEN]).0, Placement::DiskLog);
    // Runs lie above no zeroes.
    assert!(policy.apply(&[RUNS | OVER_ZEROES], &mut block).is_err());
}

#[test]
fn metadata_never_goes_to_the_disk() {
    let policy = TwoLevel::new();
    let of = |count: usize, knows_old: bool| {
        with_units(count, |mut update| {
            update.class = Class::Metadata;
            update.old = update.old.filter(|_| knows_old);
            placed(&policy, &update).0
        })
    };
    assert_eq!((of(1, true), of(31, true)), (Placement::Encoded, Placement::Encoded));
    // All of it, and the bitmap, is more than the block.
    assert_eq!((of(32, true), of(1, false)), (Placement::Image, Placement::Image));
}

#[test]
fn ranges_are_taken_as_they_are_said_and_patches_alone_as_runs() {
    let policy = TwoLevel::new();
    let image = vec![9; LEN];
    let ranges = [Span { at: 127, len: 2 }, Span { at: 4000, len: 1 }];
    let change = Change::Ranges { image: &image, ranges: &ranges };
    let (placement, payload) = placed(&policy, &Update::new(BlockNumber(0), change));
    assert_eq!((placement, payload.len()), (Placement::Encoded, 1 + 4 + 3 * 128));
    let patches = [Patch { at: 5, bytes: &[1, 2] }];
    let update = Update::new(BlockNumber(0), Change::Patches(&patches));
    let (placement, payload) = placed(&policy, &update);
    assert_eq!(placement, Placement::Encoded);
    let mut block = vec![0; LEN];
    assert_eq!(policy.apply(&payload, &mut block), Ok(()));
    assert_eq!((block[5], block[6], block[7]), (1, 2, 0));
}

proptest! {
    #[test]
    fn what_is_encoded_leads_to_the_new_image(
        edits in prop::collection::vec((0_usize..200, any::<u8>()), 0..8),
        seed in any::<u8>(),
    ) {
        let old = vec![seed; 200];
        let mut new = old.clone();
        edits.iter().for_each(|(at, byte)| new[*at] = *byte);
        let mut update = Update::new(BlockNumber(0), Change::Image(&new));
        update.old = Some(&old);
        let policy = TwoLevel::with(Settings::new().sub_block(Unit::WORD));
        let (placement, payload) = placed(&policy, &update);
        match placement {
            Placement::Unchanged => prop_assert_eq!(old, new),
            Placement::Encoded => {
                let mut block = old;
                // The reader's sub-block size does not matter.
                prop_assert_eq!(TwoLevel::new().apply(&payload, &mut block), Ok(()));
                prop_assert_eq!(block, new);
            }
            other => prop_assert_eq!(other, Placement::DiskLog),
        }
    }

    #[test]
    fn any_payload_gives_a_result(
        form in 0_u8..34,
        data in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        let mut block = vec![0; 256];
        let payload = [&[form], &data[..]].concat();
        let _ = TwoLevel::new().apply(&payload, &mut block);
        prop_assert_eq!(block.len(), 256);
    }
}
