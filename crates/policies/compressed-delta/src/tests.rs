extern crate std;
use std::vec;
use std::vec::Vec;

use journal_core::BlockNumber;
use journal_core::policy::{Change, Patch};
use proptest::prelude::*;

use super::*;

const LEN: usize = 512;

fn placed(old: Option<&[u8]>, new: &[u8]) -> (Placement, Vec<u8>) {
    let mut room = vec![0; new.len()];
    let mut out = Encoder::new(&mut room);
    let mut update = Update::new(BlockNumber(0), Change::Image(new));
    update.old = old;
    let placement = CompressedDelta::new().place(&update, &mut out);
    (placement, out.as_bytes().to_vec())
}

fn form(old: &[u8], new: &[u8]) -> Form {
    let (placement, payload) = placed(Some(old), new);
    assert_eq!(placement, Placement::Encoded);
    let mut block = old.to_vec();
    let policy = CompressedDelta::new();
    assert_eq!(policy.apply(&payload, &mut block), Ok(()));
    assert_eq!(block, new);
    assert_eq!(policy.check(&payload, &block), Ok(()));
    Form::of(&payload).expect("has one")
}

fn noise(len: usize) -> Vec<u8> {
    (0..len as u64).map(|at| (at.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 31) as u8).collect()
}

#[test]
fn the_shortest_form_is_kept() {
    let old = noise(LEN);
    let mut new = old.clone();
    new[100] ^= 0x55;
    assert_eq!(form(&old, &new), Form::Runs);
    // Every other word, in bytes that do not compress.
    let mut new = old.clone();
    for (at, word) in new.chunks_mut(8).enumerate().filter(|(at, _)| at % 6 == 0) {
        let number = (at as u64 + 3).wrapping_mul(0xD6E8_FEB8_6659_FD93);
        word.copy_from_slice(&number.to_le_bytes());
    }
    assert_eq!(form(&old, &new), Form::Words);
    // The same bit everywhere.
    let new: Vec<u8> = old.iter().map(|byte| byte ^ 1).collect();
    assert_eq!(form(&old, &new), Form::Xor);
    let new: Vec<u8> = old.iter().map(|byte| byte ^ 0xFE).collect();
    assert_eq!(form(&old, &new), Form::Complement);
}

#[test]
fn what_differs_in_about_half_of_its_bits_goes_to_the_log() {
    let old = noise(LEN);
    let new: Vec<u8> = old.iter().map(|byte| byte ^ 0x0F).collect();
    assert_eq!(placed(Some(&old), &new).0, Placement::DiskLog);
    assert_eq!(placed(None, &new).0, Placement::DiskLog);
    assert_eq!(placed(Some(&old), &old).0, Placement::Unchanged);
    let settings = Settings::new().few_bits(255);
    let mut room = [0; LEN];
    let mut update = Update::new(BlockNumber(0), Change::Image(&new));
    update.old = Some(&old);
    let policy = CompressedDelta::with(settings);
    assert_eq!(policy.place(&update, &mut Encoder::new(&mut room)), Placement::Encoded);
}

/// Of an image in which seven bits of eight differ, those that do not are logged, where the
/// threshold lies below that.
#[test]
fn what_differs_nearly_everywhere_is_logged_as_what_does_not() {
    let old = noise(LEN);
    let new: Vec<u8> = old.iter().map(|byte| byte ^ 0xFE).collect();
    let placed = |settings| {
        let mut room = [0; LEN];
        let mut update = Update::new(BlockNumber(0), Change::Image(&new));
        update.old = Some(&old);
        CompressedDelta::with(settings).place(&update, &mut Encoder::new(&mut room))
    };
    assert_eq!(placed(Settings::new().most_bits(223)), Placement::Encoded);
    assert_eq!(placed(Settings::new().most_bits(224)), Placement::DiskLog, "7 of 8, and no more");
}

#[test]
fn room_is_made_when_the_settings_say_so() {
    let policy = CompressedDelta::new();
    assert_eq!(policy.thresholds(), Thresholds::new(192, 192));
    let pacing = |seconds| Pacing::new(None, None, Some(Duration::from_secs(seconds)));
    assert_eq!(policy.pacing(), pacing(300));
    let settings = Settings::new().reclaim_at(7).checkpoint_after(Duration::from_secs(9));
    let policy = CompressedDelta::with(settings);
    assert_eq!((policy.thresholds(), policy.pacing()), (Thresholds::new(7, 7), pacing(9)));
}

#[test]
fn what_has_moved_is_seen_where_that_is_asked_for() {
    let old = noise(LEN);
    let mut new = old.clone();
    new[100..120].rotate_right(3);
    let (_, without) = placed(Some(&old), &new);
    let policy = CompressedDelta::with(Settings::new().moves(true));
    let mut room = [0; LEN];
    let mut out = Encoder::new(&mut room);
    let mut update = Update::new(BlockNumber(0), Change::Image(&new));
    update.old = Some(&old);
    assert_eq!(policy.place(&update, &mut out), Placement::Encoded);
    assert!(out.as_bytes().len() < without.len());
    assert_eq!(Form::of(out.as_bytes()), Some(Form::Moves));
    // A reader need not have asked.
    let mut block = old.clone();
    assert_eq!(CompressedDelta::new().apply(out.as_bytes(), &mut block), Ok(()));
    assert_eq!(block, new);
}

#[test]
fn patches_alone_are_refused() {
    let patches = [Patch { at: 3, bytes: &[1] }];
    let update = Update::new(BlockNumber(0), Change::Patches(&patches));
    let policy = CompressedDelta::new();
    assert_eq!(policy.place(&update, &mut Encoder::new(&mut [0; LEN])), Placement::Image);
}

fn images() -> impl Strategy<Value = (Vec<u8>, Vec<u8>)> {
    let edits = prop::collection::vec((0..LEN, any::<u8>(), 1_usize..64), 0..24);
    (prop::collection::vec(any::<u8>(), LEN), edits).prop_map(|(old, edits)| {
        let mut new = old.clone();
        for (at, byte, count) in edits {
            let end = (at + count).min(LEN);
            new[at..end].iter_mut().for_each(|place| *place ^= byte);
        }
        (old, new)
    })
}

proptest! {
    #[test]
    fn what_is_encoded_leads_to_the_new_image((old, new) in images()) {
        let (placement, payload) = placed(Some(&old), &new);
        match placement {
            Placement::Unchanged => prop_assert_eq!(&old, &new),
            Placement::Encoded => {
                prop_assert!(payload.len() <= LEN);
                let mut block = old.clone();
                let policy = CompressedDelta::new();
                prop_assert_eq!(policy.apply(&payload, &mut block), Ok(()));
                prop_assert_eq!(&block, &new);
                // Once more changes nothing.
                prop_assert_eq!(policy.apply(&payload, &mut block), Ok(()));
                prop_assert_eq!(&block, &new);
                prop_assert_eq!(policy.check(&payload, &block), Ok(()));
            }
            other => prop_assert_eq!(other, Placement::DiskLog),
        }
    }

    #[test]
    fn any_payload_gives_a_result(
        header in any::<[u8; 4]>(),
        form in 0_u8..8,
        data in prop::collection::vec(any::<u8>(), 0..LEN),
        seed in any::<u8>(),
    ) {
        // One that the block is the base of, so that it is looked at.
        let mut block = vec![seed; LEN];
        let policy = CompressedDelta::new();
        let before = PortableKernels.crc64(0, &block).to_le_bytes();
        let payload = [&[form], &before[..4], &header, &data].concat();
        let applied = policy.apply(&payload, &mut block);
        prop_assert!(applied.is_err() || policy.check(&payload, &block).is_ok());
        prop_assert_eq!(block.len(), LEN);
    }
}
