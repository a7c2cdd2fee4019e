extern crate std;
use std::vec;
use std::vec::Vec;

use journal_core::BlockNumber;
use journal_core::policy::{Change, Patch};
use proptest::prelude::*;

use super::*;

const LEN: usize = 4096;

const WEAR: Adaptive = Adaptive::with(Settings::new().wish(Wish::Wear));

fn chosen(policy: &Adaptive, old: Option<&[u8]>, new: &[u8]) -> (Choice, Vec<u8>) {
    let mut room = vec![0; new.len()];
    let mut out = Encoder::new(&mut room);
    let mut update = Update::new(BlockNumber(0), Change::Image(new));
    update.old = old;
    let choice = policy.choose(&update, &mut out);
    assert_eq!(policy.place(&update, &mut Encoder::new(&mut vec![0; new.len()])), choice.placement);
    (choice, out.as_bytes().to_vec())
}

fn noise(len: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let mut byte = || {
        state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
        (state >> 56) as u8
    };
    (0..len).map(|_| byte()).collect()
}

fn form(policy: &Adaptive, old: &[u8], new: &[u8]) -> Option<Form> {
    let (choice, payload) = chosen(policy, Some(old), new);
    if choice.placement == Placement::Encoded {
        assert_eq!(choice.payload_bytes, payload.len());
        let mut block = old.to_vec();
        assert_eq!(policy.apply(&payload, &mut block), Ok(()));
        assert_eq!(block, new);
        assert_eq!(policy.check(&payload, &block), Ok(()));
    }
    choice.form
}

/// A block of which this happened: a byte changed, half a page moved, every eighth word is new,
/// one bit is turned over everywhere, and everything is new.
fn kinds() -> (Vec<u8>, [Vec<u8>; 5]) {
    let old = noise(LEN);
    let mut byte = old.clone();
    byte[1000] ^= 0x55;
    let mut moved = old.clone();
    moved[1000..3000].rotate_right(24);
    let mut words = old.clone();
    let other = noise(2 * LEN);
    for (at, word) in words.chunks_mut(8).enumerate().filter(|(at, _)| at % 8 == 0) {
        word.copy_from_slice(&other[LEN + at * 8..][..8]);
    }
    let bits = old.iter().map(|byte| byte ^ 1).collect();
    (old, [byte, moved, words, bits, other[LEN..].to_vec()])
}

#[test]
fn each_kind_of_update_finds_its_form() {
    let (old, [byte, moved, words, bits, new]) = kinds();
    assert_eq!(form(&WEAR, &old, &byte), Some(Form::Runs));
    assert_eq!(form(&WEAR, &old, &moved), Some(Form::Moves));
    assert_eq!(form(&WEAR, &old, &words), Some(Form::Words));
    assert_eq!(form(&WEAR, &old, &bits), Some(Form::Xor));
    let (choice, _) = chosen(&WEAR, Some(&old), &new);
    assert_eq!((choice.placement, choice.form), (Placement::Image, None));
    assert_eq!(chosen(&WEAR, Some(&old), &old).0.placement, Placement::Unchanged);
    assert_eq!(chosen(&WEAR, None, &byte).0.placement, Placement::Image);
}

#[test]
fn a_coder_pays_on_slow_media_only() {
    let (old, [byte, moved, ..]) = kinds();
    let on = |medium| Adaptive::with(Settings::new().medium(medium));
    let fast = form(&on(Medium::DRAM), &old, &moved);
    assert!(!matches!(fast, Some(Form::Moves | Form::Xor)), "{fast:?}");
    assert_eq!(form(&on(Medium::FRAM), &old, &moved), Some(Form::Moves));
    for medium in [Medium::DRAM, Medium::PCM, Medium::FRAM] {
        // A line is the least there is.
        let form = form(&on(medium), &old, &byte);
        assert!(form.is_some_and(|form| !matches!(form, Form::Moves | Form::Xor)), "{form:?}");
    }
}

#[test]
fn the_room_that_is_taken_counts_where_blocks_go_home_for_it() {
    let old = noise(LEN);
    let mut new = old.clone();
    // A quarter of the sub-blocks.
    new.chunks_mut(128).step_by(4).for_each(|sub_block| sub_block[0] ^= 0x55);
    let home = |nanos| Adaptive::with(Settings::new().home_nanos(nanos));
    assert_eq!(chosen(&home(0), Some(&old), &new).0.placement, Placement::Image);
    assert_eq!(form(&Adaptive::new(), &old, &new), Some(Form::Words));
    // A disk so slow that fewer lines are worth a slower form, and at last a coder.
    assert_eq!(form(&home(100_000), &old, &new), Some(Form::Runs));
    let (_, [_, moved, ..]) = kinds();
    assert_eq!(form(&home(1_000_000), &old, &moved), Some(Form::Moves));
}

#[test]
fn what_would_be_long_goes_to_the_disk_where_that_is_asked_for() {
    let (old, [byte, moved, .., new]) = kinds();
    let policy = Adaptive::with(Settings::new().wish(Wish::Wear).bypass_above(128));
    assert!(policy.wants_log() && policy.keeps_in_slots() && !WEAR.wants_log());
    let placement = |old, new| chosen(&policy, old, new).0.placement;
    assert_eq!(placement(Some(&old), &byte), Placement::Encoded);
    assert_eq!(placement(Some(&old), &moved), Placement::Encoded);
    assert_eq!(placement(Some(&old), &new), Placement::DiskLog);
    assert_eq!(placement(None, &byte), Placement::DiskLog);
    let mut update = Update::new(BlockNumber(0), Change::Image(&new));
    (update.old, update.class) = (Some(&old[..]), Class::Metadata);
    let mut room = vec![0; LEN];
    assert_eq!(policy.place(&update, &mut Encoder::new(&mut room)), Placement::Image);
}

#[test]
fn what_would_be_whole_goes_to_a_slot_if_it_is_set() {
    let (old, [byte, .., new]) = kinds();
    let policy = Adaptive::with(Settings::new().slots(true));
    assert!(policy.wants_slots() && policy.keeps_in_slots());
    assert!(!Adaptive::new().wants_slots() && !Adaptive::new().keeps_in_slots());
    let placement = |old, new| chosen(&policy, old, new).0.placement;
    assert_eq!(placement(Some(&old), &new), Placement::Slot);
    assert_eq!(placement(None, &byte), Placement::Slot);
    assert_eq!(placement(Some(&old), &byte), Placement::Encoded);
    assert_eq!(placement(Some(&old), &old), Placement::Unchanged);
}

#[test]
fn a_slot_is_compared_where_its_lines_cost_more_than_that() {
    let (old, [byte, ..]) = kinds();
    let written = |settings: Settings| {
        let mut bytes = 0;
        let policy = Adaptive::with(settings.slots(true));
        policy.rewrite_slot(&old, &byte, &mut |patch| bytes += patch.bytes.len());
        bytes
    };
    assert_eq!(written(Settings::new()), LEN);
    assert_eq!(written(Settings::new().medium(Medium::PCM)), 8);
    assert_eq!(written(Settings::new().wish(Wish::Wear)), 8);
}

#[test]
fn appended_data_goes_home_where_a_sync_costs_less_than_its_lines() {
    let (_, [byte, ..]) = kinds();
    let placement = |settings: Settings, class, kind| {
        let mut update = Update::new(BlockNumber(0), Change::Image(&byte));
        (update.class, update.kind) = (class, kind);
        let mut room = vec![0; LEN];
        Adaptive::with(settings).place(&update, &mut Encoder::new(&mut room))
    };
    // 64 lines: 192 ns, 6.4 us, 960 us.
    let sync = Settings::new().appends_home(Some(100_000));
    let (data, append) = (Class::Data, Kind::Append);
    assert_eq!(placement(sync, data, append), Placement::Image);
    assert_eq!(placement(sync.medium(Medium::PCM), data, append), Placement::Image);
    assert_eq!(placement(sync.line_nanos(1_600), data, append), Placement::Home);
    let fram = sync.medium(Medium::FRAM);
    assert_eq!(placement(fram, data, append), Placement::Home);
    assert_eq!(placement(fram, Class::Metadata, append), Placement::Image);
    assert_eq!(placement(fram, data, Kind::Overwrite), Placement::Image);
    assert_eq!(placement(sync.wish(Wish::Wear), data, append), Placement::Home);
    assert_eq!(placement(Settings::new().wish(Wish::Wear), data, append), Placement::Image);
}

#[test]
fn what_a_transaction_appends_shares_a_sync() {
    let (_, [byte, ..]) = kinds();
    let placement = |settings: Settings, appended| {
        let mut update = Update::new(BlockNumber(0), Change::Image(&byte));
        (update.kind, update.alike) = (Kind::Append, appended);
        let mut room = vec![0; LEN];
        Adaptive::with(settings).place(&update, &mut Encoder::new(&mut room))
    };
    // 64 lines of FRAM are 960 us, and a sync of a memory card is 2 ms.
    let card = Settings::new().medium(Medium::FRAM).appends_home(Some(Disk::CARD.sync_ns));
    assert!(Adaptive::with(card).counts_alike() && !Adaptive::new().counts_alike());
    let of_counts = [0, 1, 2, 3, 100].map(|appended| placement(card, appended));
    let (image, home) = (Placement::Image, Placement::Home);
    assert_eq!(of_counts, [image, image, image, home, home]);
    // In memory as fast as DRAM, no transaction of a usual size waits for the disk.
    let fast = Settings::new().appends_home(Some(Disk::NVME.sync_ns));
    assert_eq!(placement(fast, 1_000), image);
    assert_eq!(placement(Settings::new().medium(Medium::FRAM), 100), image);
}

#[test]
fn data_goes_to_the_log_where_that_costs_less() {
    let (old, [byte, .., new]) = kinds();
    let placement = |settings: Settings, old, new: &[u8], (class, alike)| {
        let mut update = Update::new(BlockNumber(0), Change::Image(new));
        (update.old, update.class, update.alike) = (old, class, alike);
        let mut room = vec![0; LEN];
        Adaptive::with(settings).place(&update, &mut Encoder::new(&mut room))
    };
    let (data, image, log) = (Class::Data, Placement::Image, Placement::DiskLog);
    // A block of FRAM is 960 us. On the card it is 410 us, and a sync is 2 ms.
    let card = Settings::new().medium(Medium::FRAM).disk(Disk::CARD).bypasses(Some(Disk::CARD));
    assert!(Adaptive::with(card).wants_log() && Adaptive::with(card).counts_alike());
    let of_counts = [0, 1, 3, 4, 100].map(|alike| placement(card, None, &new, (data, alike)));
    assert_eq!(of_counts, [image, image, image, log, log]);
    assert_eq!(placement(card, Some(&old), &new, (data, 100)), log);
    assert_eq!(placement(card, Some(&old), &byte, (data, 100)), Placement::Encoded);
    assert_eq!(placement(card, None, &new, (Class::Metadata, 100)), image);
    // Memory as fast as DRAM takes less than any disk.
    let fast = Settings::new().disk(Disk::NVME).bypasses(Some(Disk::NVME));
    assert_eq!(placement(fast, None, &new, (data, 100_000)), image);
    // Where bytes count, those in the log are none of the memory's.
    let wear = card.wish(Wish::Wear);
    assert_eq!(placement(wear, Some(&old), &new, (data, 1)), log);
    assert_eq!(placement(wear, Some(&old), &byte, (data, 1)), Placement::Encoded);
    assert_eq!(placement(card.bypasses(None), None, &new, (data, 100)), image);
    // An append goes home, if it may: its block is written there sooner or later.
    let mut append = Update::new(BlockNumber(0), Change::Image(&new));
    (append.kind, append.alike) = (Kind::Append, 100);
    let mut room = vec![0; LEN];
    let policy = Adaptive::with(card.appends_home(Some(Disk::CARD.sync_ns)));
    assert_eq!(policy.place(&append, &mut Encoder::new(&mut room)), Placement::Home);
}

#[test]
fn a_delta_bears_its_part_of_the_syncs_of_a_small_shield() {
    let (old, [byte, ..]) = kinds();
    let placed = |disk, (blocks, shielded)| {
        let mut policy = Adaptive::with(Settings::new().disk(disk));
        policy.set_batches(blocks, shielded);
        (chosen(&policy, Some(&old), &byte).0.placement, policy.patch_bytes_on_old(LEN))
    };
    let (delta, whole) = ((Placement::Encoded, PATCH_BYTES_MAX), (Placement::Image, 0));
    assert_eq!(placed(Disk::SSD, (32_768, 1_024)), delta);
    assert_eq!(placed(Disk::NVME, (32_768, 16)), whole);
    // Where batches are as small, the syncs come anyway.
    assert_eq!(placed(Disk::NVME, (16, 16)), delta);
    // A device that never tears a block needs no shield, and no sync behind it.
    assert_eq!(placed(Disk::NVME, (32_768, 0)), delta);
    // Nobody counts nanoseconds for wear.
    let mut wear = WEAR;
    wear.set_batches(1_000, 1);
    assert_eq!(chosen(&wear, Some(&old), &byte).0.placement, Placement::Encoded);
    assert_eq!(wear.patch_bytes_on_old(LEN), PATCH_BYTES_MAX);
}

#[test]
fn room_is_made_when_the_setting_says_so() {
    assert_eq!(WEAR.thresholds(), Thresholds::new(240, 240));
    let copied = |settings: Settings| Adaptive::with(settings.reclaim_at(7)).thresholds();
    assert_eq!(copied(Settings::new()), Thresholds::new(7, 7).with_copied(224));
    // A copy takes 6.4 us of PCM, and a block of the disk 4 us.
    let on_pcm = Settings::new().medium(Medium::PCM);
    assert_eq!(copied(on_pcm), Thresholds::new(7, 7).with_copied(98));
    assert_eq!(copied(on_pcm.home_nanos(0)), Thresholds::new(7, 7).with_copied(0));
    assert_eq!(copied(on_pcm.wish(Wish::Wear)), Thresholds::new(7, 7));
}

#[test]
fn patches_alone_are_refused() {
    let patches = [Patch { at: 3, bytes: &[1] }];
    let update = Update::new(BlockNumber(0), Change::Patches(&patches));
    let choice = Adaptive::new().choose(&update, &mut Encoder::new(&mut [0; 64]));
    assert_eq!(choice.placement, Placement::Image);
}

proptest! {
    #[test]
    fn what_is_encoded_leads_to_the_new_image(
        edits in prop::collection::vec((0_usize..448, any::<u8>(), 1_usize..64), 0..24),
        turn in 0_usize..32,
        wish in prop_oneof![Just(Wish::Speed), Just(Wish::Wear)],
        medium in prop_oneof![Just(Medium::DRAM), Just(Medium::PCM), Just(Medium::FRAM)],
    ) {
        let old = noise(512);
        let mut new = old.clone();
        for (at, byte, count) in edits {
            new[at..at + count].iter_mut().for_each(|place| *place ^= byte);
        }
        new[64..256].rotate_left(turn);
        let policy = Adaptive::with(Settings::new().wish(wish).medium(medium));
        let (choice, payload) = chosen(&policy, Some(&old), &new);
        match choice.placement {
            Placement::Unchanged => prop_assert_eq!(old, new),
            Placement::Encoded => {
                prop_assert!(payload.len() < 512);
                let mut block = old;
                prop_assert_eq!(policy.apply(&payload, &mut block), Ok(()));
                prop_assert_eq!(&block, &new);
                prop_assert_eq!(policy.check(&payload, &block), Ok(()));
            }
            other => prop_assert_eq!(other, Placement::Image),
        }
    }
}

#[test]
fn the_quickest_form_is_that() {
    let quickest = PLAIN.into_iter().min_by_key(|form| coding_ns(*form, LEN));
    assert_eq!(quickest.map(|form| coding_ns(form, LEN)), Some(coding_ns(QUICKEST, LEN)));
}
