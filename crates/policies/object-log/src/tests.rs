//! What holds for every pair of images, and for any bytes.

extern crate std;

use core::num::NonZeroU32;
use core::time::Duration;
use std::vec;
use std::vec::Vec;

use journal_core::BlockNumber;
use journal_core::policy::{
    ApplyError, Change, Encoder, Kind, Pacing, Patch, Placement, Policy, PolicyId, Span,
    Thresholds, Update,
};
use proptest::prelude::*;

use crate::{OVERHEAD_MAX, ObjectLog, Settings, SettingsError};

/// An update of a block with these things known.
fn update<'a>(change: Change<'a>, old: Option<&'a [u8]>, object_bytes: u32) -> Update<'a> {
    let mut update = Update::new(BlockNumber(7), change);
    update.old = old;
    update.object_bytes = NonZeroU32::new(object_bytes);
    update
}

/// The policy's answer, with the payload where there is one. The room is one block.
fn place(update: &Update<'_>, block_bytes: usize) -> (Placement, Vec<u8>) {
    let mut room = vec![0xEE; block_bytes];
    let mut out = Encoder::new(&mut room);
    let placement = ObjectLog::new().place(update, &mut out);
    (placement, out.as_bytes().to_vec())
}

/// What is read after the frame that an update became.
fn after(old: &[u8], new: &[u8], placed: &(Placement, Vec<u8>)) -> Vec<u8> {
    let mut block = old.to_vec();
    match placed.0 {
        Placement::Unchanged => {}
        Placement::Image => block.copy_from_slice(new),
        Placement::Encoded => {
            ObjectLog::new().apply(&placed.1, &mut block).expect("was encoded so");
        }
        other => panic!("{other:?}"),
    }
    block
}

/// A block and what is written into it: places and bytes.
#[derive(Clone, Debug)]
struct Writes {
    old: Vec<u8>,
    new: Vec<u8>,
    /// The ranges written, ascending, without overlap.
    spans: Vec<Span>,
    object_bytes: u32,
}

fn spans(block_bytes: usize, most: usize) -> impl Strategy<Value = Vec<Span>> {
    let written = prop::collection::vec((0..block_bytes, 1_usize..80), 0..most);
    written.prop_map(move |mut writes| {
        writes.sort_unstable();
        let mut free_from = 0;
        let mut spans = Vec::new();
        for (at, len) in writes {
            let len = len.min(block_bytes - at);
            if at >= free_from {
                spans.push(Span { at: at as u32, len: len as u32 });
                free_from = at + len;
            }
        }
        spans
    })
}

prop_compose! {
    fn writes()(
        block_bytes in prop::sample::select(&[64_usize, 77, 512, 4096, 65536][..]),
        object_bytes in prop_oneof![
            prop::sample::select(&[0_u32, 1, 16, 96, 256][..]),
            1_u32..9000,
        ],
    )(
        // Bytes from few values: some writes change nothing.
        old in prop::collection::vec(0_u8..2, block_bytes),
        written in prop::collection::vec(0_u8..2, block_bytes),
        spans in prop_oneof![3 => spans(block_bytes, 4), 1 => spans(block_bytes, 200)],
        object_bytes in Just(object_bytes),
    ) -> Writes {
        let mut new = old.clone();
        for span in &spans {
            let range = span.at as usize..span.end() as usize;
            new[range.clone()].copy_from_slice(&written[range]);
        }
        Writes { old, new, spans, object_bytes }
    }
}

/// The forms in which the store may give the same change, but for patches.
fn forms(writes: &Writes) -> [Update<'_>; 4] {
    let Writes { old, new, spans, object_bytes } = writes;
    let ranges = Change::Ranges { image: new, ranges: spans };
    [
        update(Change::Image(new), None, *object_bytes),
        update(Change::Image(new), Some(old), *object_bytes),
        update(ranges, None, *object_bytes),
        update(ranges, Some(old), *object_bytes),
    ]
}

/// The bytes of the objects that changed, and of those that the ranges touch.
fn objects(writes: &Writes, unit: usize) -> (usize, usize) {
    let len = writes.old.len();
    let (mut changed, mut touched) = (0, 0);
    for start in (0..len).step_by(unit) {
        let range = start..(start + unit).min(len);
        if writes.old[range.clone()] != writes.new[range.clone()] {
            changed += range.len();
        }
        let meets = |span: &Span| (span.at as usize) < range.end && span.end() > start as u64;
        if writes.spans.iter().any(meets) {
            touched += range.len();
        }
    }
    (changed, touched)
}

proptest! {
    #[test]
    fn what_is_applied_is_what_was_written(writes in writes()) {
        for update in forms(&writes) {
            let placed = place(&update, writes.old.len());
            prop_assert!(after(&writes.old, &writes.new, &placed) == writes.new, "{placed:?}");
            // Applied again it changes nothing.
            prop_assert!(after(&writes.new, &writes.new, &placed) == writes.new);
        }
    }

    #[test]
    fn a_frame_has_the_objects_and_little_more(writes in writes()) {
        let unit = if writes.object_bytes == 0 { 256 } else { writes.object_bytes as usize };
        let len = writes.old.len();
        let (changed, touched) = objects(&writes, unit);
        for (update, bytes) in forms(&writes).into_iter().zip([len, changed, touched, changed]) {
            let (placement, payload) = place(&update, len);
            // If there are more small objects than room to name them, pairs of them are named.
            let is_exact = len.div_ceil(unit) <= 160;
            match placement {
                Placement::Unchanged => prop_assert_eq!(bytes, 0),
                // A payload is never worth an image.
                Placement::Image => {
                    let full = bytes * 256 >= len * 224 || bytes + OVERHEAD_MAX >= len;
                    prop_assert!(full || !is_exact, "{bytes} of {len}");
                }
                _ => {
                    prop_assert!(bytes > 0 && payload.len() < len);
                    let most = bytes + OVERHEAD_MAX;
                    prop_assert!(payload.len() <= most || !is_exact, "{bytes}: {}", payload.len());
                }
            }
        }
    }

    #[test]
    fn what_is_found_is_what_would_be_asked_of_each_object(writes in writes()) {
        let Writes { old, new, object_bytes, .. } = &writes;
        let whole = [Span { at: 0, len: new.len() as u32 }];
        let asked = Change::Ranges { image: new, ranges: &whole };
        let [asked, found] = [asked, Change::Image(new)]
            .map(|change| place(&update(change, Some(old), *object_bytes), old.len()));
        prop_assert_eq!(asked, found);
    }

    #[test]
    fn patches_are_logged_as_they_are(writes in writes()) {
        let Writes { old, new, spans, .. } = &writes;
        let range = |span: &Span| span.at as usize..span.end() as usize;
        let patch = |span: &Span| Patch { at: span.at, bytes: &new[range(span)] };
        let patches: Vec<_> = spans.iter().map(patch).collect();
        let update = update(Change::Patches(&patches), None, 0);
        let (placement, payload) = place(&update, old.len());
        let touching = spans.windows(2).filter(|pair| pair[0].end() == u64::from(pair[1].at));
        let runs = spans.len() - touching.count();
        let bytes = spans.iter().map(|span| span.len as usize).sum::<usize>() + 4 * runs + 1;
        if spans.is_empty() {
            // The core does not even ask.
            return Ok(());
        }
        if bytes > old.len() {
            prop_assert_eq!(placement, Placement::Image, "there is none: the core refuses that");
        } else {
            prop_assert_eq!((placement, payload.len()), (Placement::Encoded, bytes));
            let mut block = old.clone();
            ObjectLog::new().apply(&payload, &mut block).expect("was encoded so");
            prop_assert!(block == *new);
        }
    }

    #[test]
    fn any_bytes_are_applied_or_refused(
        payload in prop::collection::vec(prop_oneof![0_u8..6, any::<u8>()], 0..90),
        block_bytes in prop_oneof![Just(0_usize), 1_usize..100],
    ) {
        let mut block = vec![0xAA; block_bytes];
        let result = ObjectLog::new().apply(&payload, &mut block);
        if let Err(ApplyError::Malformed { at } | ApplyError::OutOfBlock { at }) = result {
            prop_assert!(at <= payload.len());
        }
        let again = ObjectLog::new().apply(&payload, &mut block.clone());
        prop_assert_eq!(result, again, "it goes by nothing but lengths");
    }

    #[test]
    fn cut_and_longer_payloads_are_refused(
        writes in writes(),
        cut in any::<prop::sample::Index>(),
    ) {
        let (placement, payload) = place(&forms(&writes)[2], writes.old.len());
        if placement == Placement::Encoded {
            let cut = cut.index(payload.len());
            let mut block = writes.old.clone();
            let result = ObjectLog::new().apply(&payload[..cut], &mut block);
            // Whole runs at the front are a payload of their own.
            let is_at_a_run = payload[0] == 1 && result.is_ok();
            prop_assert!(result.is_err() || is_at_a_run, "cut at {cut}");
            let longer = [&payload[..], &[0]].concat();
            prop_assert!(ObjectLog::new().apply(&longer, &mut block).is_err());
        }
    }

    /// Rule 4 of a policy's author: any number of the payloads, from any one on, onto any image
    /// that is not older.
    #[test]
    fn payloads_may_meet_later_images(
        chain in prop::collection::vec((spans(512, 4), any::<u8>(), any::<bool>()), 1..8),
        object_bytes in 1_u32..100,
    ) {
        let mut images = vec![vec![0_u8; 512]];
        let mut placed = Vec::new();
        for (spans, byte, shows_old) in &chain {
            let old = images[images.len() - 1].clone();
            let mut new = old.clone();
            spans.iter().for_each(|span| new[span.at as usize..span.end() as usize].fill(*byte));
            let change = Change::Ranges { image: &new, ranges: spans };
            placed.push(place(&update(change, shows_old.then_some(&old), object_bytes), 512));
            images.push(new);
        }
        for from in 0..placed.len() {
            for begin in from..images.len() {
                let mut block = images[begin].clone();
                for (index, placed) in placed.iter().enumerate().skip(from) {
                    block = after(&block, &images[index + 1], placed);
                }
                prop_assert!(block == images[images.len() - 1], "{from} onto {begin}");
            }
        }
    }
}

#[test]
fn the_form_that_takes_less_is_put_unless_the_image_does() {
    let placed = |block_bytes: usize, unit: u32, is_new: &dyn Fn(usize) -> bool| {
        let old = vec![0; block_bytes];
        let new: Vec<u8> = (0..block_bytes).map(|at| u8::from(is_new(at))).collect();
        place(&update(Change::Image(&new), Some(&old), unit), block_bytes)
    };
    // Objects 0, 2 and 4: 13 bytes to name them one by one, 5 in a map.
    let (placement, payload) = placed(4096, 16, &|at| at < 80 && at % 32 < 16);
    assert_eq!((placement, payload[0], payload.len()), (Placement::Encoded, 2, 3 * 16 + 5));
    // Objects 0 and 200: 9, and 30.
    let (placement, payload) = placed(4096, 16, &|at| at < 16 || at / 16 == 200);
    assert_eq!((placement, payload[0], payload.len()), (Placement::Encoded, 1, 2 * 16 + 9));
    // 55 bytes in two runs take 64, as the block does, and one less takes less.
    let two_runs = |end: usize| move |at| at < 50 || (55..end).contains(&at);
    assert_eq!(placed(64, 1, &two_runs(60)).0, Placement::Image);
    assert_eq!(placed(64, 1, &two_runs(59)).0, Placement::Encoded);
    // So do 52 in many, by a map of 8 bytes.
    let many = |from: usize| move |at| at >= from && (at % 4 > 0 || at > 47);
    assert_eq!(placed(64, 1, &many(0)).0, Placement::Image);
    assert_eq!(placed(64, 1, &many(2)).0, Placement::Encoded);
    // 491 in five take 512; in objects of two bytes they would take less, which is not asked.
    let five = |at| ![101, 201, 301].contains(&at) && !(400..418).contains(&at);
    let old = vec![0; 512];
    let new: Vec<u8> = (0..512).map(|at| u8::from(five(at))).collect();
    let policy = ObjectLog::with(Settings::new().whole_at(256)).expect("can be");
    let update = update(Change::Image(&new), Some(&old), 1);
    assert_eq!(policy.place(&update, &mut Encoder::new(&mut [0; 512])), Placement::Image);
}

/// The bytes of FORMAT.md.
#[test]
fn payloads_are_as_the_format_has_them() {
    let (old, mut new) = ([0; 64], [0; 64]);
    new[20] = 1;
    let image = Change::Image(&new);
    let one = [&[1, 16, 0, 15, 0][..], &new[16..32]].concat();
    assert_eq!(place(&update(image, Some(&old), 16), 64), (Placement::Encoded, one));
    new[63] = 3;
    let image = Change::Image(&new);
    let two = [&[2, 16, 0, 1, 0b1010][..], &new[16..32], &new[48..]].concat();
    assert_eq!(place(&update(image, Some(&old), 16), 64), (Placement::Encoded, two));
    // The last object of five is a short one.
    let short = [&[1, 60, 0, 3, 0][..], &new[60..]].concat();
    let ranges = [Span { at: 62, len: 1 }];
    let ranges = update(Change::Ranges { image: &new, ranges: &ranges }, None, 15);
    assert_eq!(place(&ranges, 64), (Placement::Encoded, short));
    let patches = [b"ab", b"cd", b"ef"].map(|bytes| &bytes[..]);
    let patches = [(3, 0), (5, 1), (9, 2)].map(|(at, of)| Patch { at, bytes: patches[of] });
    let patches = update(Change::Patches(&patches), None, 16);
    let runs = b"\x01\x03\0\x03\0abcd\x09\0\x01\0ef".to_vec();
    assert_eq!(place(&patches, 64), (Placement::Encoded, runs));
}

#[test]
fn malformed_payloads_are_refused_where_they_go_wrong() {
    let apply = |payload: &[u8]| ObjectLog::new().apply(payload, &mut [0; 8]);
    let malformed = |at| Err(ApplyError::Malformed { at });
    assert_eq!(apply(&[]), malformed(0));
    assert_eq!(apply(&[0]), malformed(0));
    assert_eq!(apply(&[3, 0, 0, 0, 0, 9]), malformed(0));
    assert_eq!(apply(&[1]), malformed(1));
    assert_eq!(apply(&[1, 0, 0, 1, 0, 9]), malformed(5));
    assert_eq!(apply(&[1, 2, 0, 0, 0, 9]), Ok(()));
    assert_eq!(apply(&[1, 8, 0, 0, 0, 9]), Err(ApplyError::OutOfBlock { at: 1 }));
    assert_eq!(apply(&[1, 2, 0, 0, 0, 9, 2, 0, 0, 0, 9]), malformed(6));
    assert_eq!(apply(&[2, 4, 0, 1, 1, 9, 9, 9, 9]), Ok(()));
    assert_eq!(apply(&[2, 5, 0, 1, 2, 9, 9, 9]), Ok(()), "a short one at the end");
    assert_eq!(apply(&[2, 4, 0, 1, 4, 9, 9, 9, 9]), Err(ApplyError::OutOfBlock { at: 4 }));
    assert_eq!(apply(&[2, 0, 0, 1, 1]), malformed(1));
    assert_eq!(apply(&[2, 4, 0, 0]), malformed(1));
    assert_eq!(apply(&[2, 4, 0, 1, 0]), malformed(1));
    assert_eq!(apply(&[2, 4, 0, 1, 1, 9, 9, 9]), malformed(5));
    assert_eq!(apply(&[2, 4, 0, 1, 1, 9, 9, 9, 9, 9]), malformed(9));
}

#[test]
fn whole_images_where_nothing_smaller_is_known_or_worth_it() {
    let (old, new) = ([0; 64], [1; 64]);
    let is_image = |update: &Update<'_>| place(update, 64).0 == Placement::Image;
    assert!(is_image(&update(Change::Image(&new), None, 16)));
    let ranges = [Span { at: 0, len: 1 }];
    let ranges = Change::Ranges { image: &new, ranges: &ranges };
    assert!(!is_image(&update(ranges, None, 16)));
    // Nothing may be built on what was not live.
    let mut append = update(ranges, Some(&old), 16);
    append.kind = Kind::Append;
    assert!(is_image(&append));
    assert!(is_image(&update(ranges, Some(&old), 64)), "one object is the block");
    let share = |whole_at| {
        let policy = ObjectLog::with(Settings::new().whole_at(whole_at)).expect("a share");
        policy.place(&update(ranges, None, 16), &mut Encoder::new(&mut [0; 64]))
    };
    assert_eq!((share(64), share(65)), (Placement::Image, Placement::Encoded));
    let tight = ObjectLog::new().place(&update(ranges, None, 16), &mut Encoder::new(&mut [0; 20]));
    assert_eq!(tight, Placement::Image, "21 bytes do not fit");
}

/// To name 256 objects takes a map of 32 bytes, and 12 runs take 49: neither is worth it.
#[test]
fn many_small_objects_far_apart_are_logged_in_pairs() {
    let image = [7; 4096];
    let span = |index: u32| Span { at: 4096 - 16 - index * 320, len: 1 };
    let ranges: Vec<_> = (0..12).rev().map(span).collect();
    let change = Change::Ranges { image: &image, ranges: &ranges };
    let (placement, payload) = place(&update(change, None, 16), 4096);
    assert_eq!((placement, &payload[..4]), (Placement::Encoded, &[2, 32, 0, 16][..]));
    assert_eq!(payload.len(), 4 + 16 + 12 * 32);
    // Of five at the end each is named by itself: the map would be long, and five runs are not.
    let change = Change::Ranges { image: &image, ranges: &ranges[7..] };
    let (placement, payload) = place(&update(change, None, 16), 4096);
    assert_eq!((placement, payload.len()), (Placement::Encoded, 1 + 5 * (4 + 16)));
}

#[test]
fn objects_are_named_once() {
    let (old, mut new) = ([0; 4096], [0; 4096]);
    new[300] = 1;
    let count = |update: &Update<'_>| ObjectLog::new().objects_in(update);
    assert_eq!(count(&update(Change::Image(&new), None, 0)), 16);
    assert_eq!(count(&update(Change::Image(&new), Some(&old), 0)), 1);
    let ranges = [Span { at: 10, len: 4 }, Span { at: 250, len: 10 }];
    let ranges = Change::Ranges { image: &new, ranges: &ranges };
    assert_eq!(count(&update(ranges, None, 0)), 2);
    assert_eq!(count(&update(ranges, Some(&old), 0)), 1);
    assert_eq!(count(&update(ranges, None, 128)), 3);
    let patches = [Patch { at: 255, bytes: b"ab" }];
    assert_eq!(count(&update(Change::Patches(&patches), None, 0)), 2);
    assert_eq!(count(&update(Change::Patches(&[]), None, 0)), 0);
}

#[test]
fn it_asks_for_old_images_that_are_kept_if_it_is_set() {
    let compares = ObjectLog::with(Settings::new().compares(true)).expect("can be");
    assert!(compares.wants_cached_old() && !compares.wants_old());
    assert!(!ObjectLog::new().wants_cached_old());
    // What it logs is said by the update alone.
    let (old, mut new) = ([0; 4096], [0; 4096]);
    new[300] = 1;
    for image in [&old, &new] {
        let update = update(Change::Image(image), Some(&old), 0);
        let (mut room, mut other) = ([0; 4096], [0; 4096]);
        let (mut out, mut expected) = (Encoder::new(&mut room), Encoder::new(&mut other));
        let placement = compares.place(&update, &mut out);
        assert_eq!(placement, ObjectLog::new().place(&update, &mut expected));
        assert_eq!(out.as_bytes(), expected.as_bytes());
    }
    assert_eq!(place(&update(Change::Image(&old), Some(&old), 0), 4096).0, Placement::Unchanged);
}

#[test]
fn settings_say_what_cannot_be() {
    let policy = ObjectLog::new();
    assert_eq!((policy.id(), ObjectLog::default()), (PolicyId(3), policy));
    assert_eq!(policy.thresholds(), Thresholds::new(128, 128));
    let minutes = |minutes: u64| Some(Duration::from_secs(60 * minutes));
    let ids = NonZeroU32::new(1022);
    let pacing = Pacing::new(Some(Duration::from_secs(5)), ids, minutes(10));
    assert_eq!(policy.pacing(), pacing);
    let settings = Settings::new();
    let wrong = |settings| ObjectLog::with(settings).expect_err("cannot be");
    assert_eq!(wrong(settings.object_bytes(0)), SettingsError::ObjectBytes);
    assert_eq!(wrong(settings.whole_at(0)), SettingsError::WholeAt { given: 0 });
    assert_eq!(wrong(settings.whole_at(257)), SettingsError::WholeAt { given: 257 });
    let short = SettingsError::TxnInfoBytes { given: 255 };
    assert_eq!(wrong(settings.txn_info_bytes(255)), short);
    let long = SettingsError::TxnInfoBytes { given: (128 << 10) + 1 };
    assert_eq!(wrong(settings.txn_info_bytes((128 << 10) + 1)), long);
    assert_eq!(wrong(settings.commit_after(Duration::ZERO)), SettingsError::NoTime);
    assert_eq!(wrong(settings.checkpoint_after(Duration::ZERO)), SettingsError::NoTime);
    let smallest = settings.txn_info_bytes(256).object_bytes(1).whole_at(256).checkpoint_at(7);
    let policy = ObjectLog::with(smallest.checkpoint_after(Duration::from_secs(60)));
    let policy = policy.expect("can be");
    assert_eq!(policy.thresholds(), Thresholds::new(7, 7));
    let ids = NonZeroU32::new(30);
    assert_eq!(policy.pacing(), Pacing::new(Some(Duration::from_secs(5)), ids, minutes(1)));
}
