//! Policies, under any bytes.
//!
//! 1. Any payload on any block gives a result: no panic, and nothing written beside the block.
//! 2. What a policy places of an update gives the new content back, from the old one and from any
//!    that has it already.
//! 3. A payload is shorter than the block that it stands for.
//! 4. Any payload can be checked against any block, and a block passes that is what its own payload
//!    leads to.
//! 5. A slot that holds the old content becomes the new one by ascending writes inside of it.

#![no_main]

use core::num::NonZeroU32;

use adaptive::{Adaptive, Medium, Wish};
use arbitrary::Arbitrary;
use byte_delta::{Appends, ByteDelta};
use compressed_delta::CompressedDelta;
use full_block::FullBlock;
use journal_core::policy::{Change, Class, Encoder, Kind, Patch, Placement, Policy, Span, Update};
use journal_core::{BlockNumber, Kernels as _, PortableKernels};
use lcow::Lcow;
use libfuzzer_sys::fuzz_target;
use object_log::{ObjectLog, Settings};
use two_level::TwoLevel;

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    /// The block's length, as a power of two.
    block_bits: u8,
    policy: Which,
    object_bytes: u16,
    /// Where something is written, how many bytes, and what.
    writes: Vec<(u16, u8, u8)>,
    shows_old: bool,
    as_ranges: bool,
    /// The block is not live: it is given whole, and nothing of it is shown.
    appended: bool,
    metadata: bool,
    payload: &'a [u8],
}

#[derive(Arbitrary, Debug)]
enum Which {
    FullBlock,
    ObjectLog { object_bytes: u16, whole_at: u8 },
    CompressedDelta { moves: bool },
    TwoLevel { few_units: u8 },
    Adaptive { for_wear: bool },
    ByteDelta { appends_in_slots: bool },
    Lcow,
}

const GUARD_BYTES: usize = 16;
const GUARD: u8 = 0xA5;

/// Applies a payload to a block between guards.
fn apply(policy: &impl Policy, payload: &[u8], block: &[u8]) -> Option<Vec<u8>> {
    let guard = [GUARD; GUARD_BYTES];
    let mut memory = [&guard, block, &guard].concat();
    let end = GUARD_BYTES + block.len();
    let result = policy.apply(payload, &mut memory[GUARD_BYTES..end]);
    assert!(memory[..GUARD_BYTES] == guard && memory[end..] == guard, "wrote beside the block");
    result.is_ok().then(|| memory[GUARD_BYTES..end].to_vec())
}

/// What becomes of a slot that holds `old`.
fn rewritten(policy: &impl Policy, old: &[u8], new: &[u8]) -> Vec<u8> {
    let (mut slot, mut end) = (old.to_vec(), 0);
    policy.rewrite_slot(old, new, &mut |patch: Patch<'_>| {
        let at = patch.at as usize;
        assert!(at >= end, "ascending, without overlap");
        end = at + patch.bytes.len();
        slot[at..end].copy_from_slice(patch.bytes);
    });
    slot
}

fn check(policy: &impl Policy, input: &Input<'_>) {
    let block_bytes = 64_usize << (input.block_bits % 7);
    let old: Vec<u8> = (0..block_bytes).map(|at| (at / 64) as u8).collect();
    let foreign = |payload: &[u8]| {
        apply(policy, payload, &old);
        let _ = policy.check(payload, &old);
    };
    foreign(input.payload);
    // As if it were made of this very block.
    if let [form, rest @ ..] = input.payload {
        let check = PortableKernels.crc64(0, &old).to_le_bytes();
        foreign(&[&[*form], &check[..4], rest].concat());
    }

    let mut new = old.clone();
    let mut spans: Vec<Span> = Vec::new();
    let mut writes = input.writes.clone();
    writes.sort_unstable();
    for (at, len, byte) in writes {
        let at = usize::from(at) % block_bytes;
        let len = usize::from(len).clamp(1, block_bytes - at);
        if spans.last().is_some_and(|last| last.end() > at as u64) {
            continue;
        }
        new[at..at + len].fill(byte);
        spans.push(Span { at: at as u32, len: len as u32 });
    }
    assert_eq!(rewritten(policy, &old, &new), new);
    let change = match input.as_ranges && !input.appended {
        true => Change::Ranges { image: &new, ranges: &spans },
        false => Change::Image(&new),
    };
    let mut update = Update::new(BlockNumber(3), change);
    update.kind = if input.appended { Kind::Append } else { Kind::Overwrite };
    update.class = if input.metadata { Class::Metadata } else { Class::Data };
    update.old = (input.shows_old && !input.appended).then_some(&old);
    update.object_bytes = NonZeroU32::new(input.object_bytes.into());
    let mut room = vec![0; block_bytes];
    let mut out = Encoder::new(&mut room);
    match policy.place(&update, &mut out) {
        Placement::Unchanged => assert_eq!(old, new),
        Placement::Image => {}
        Placement::DiskLog => assert!(policy.wants_log()),
        Placement::Slot => assert!(policy.wants_slots()),
        Placement::Home => assert!(input.appended),
        Placement::Encoded => {
            assert!(out.as_bytes().len() < block_bytes);
            let applied = apply(policy, out.as_bytes(), &old).expect("was placed so");
            assert_eq!(applied, new);
            assert_eq!(apply(policy, out.as_bytes(), &new).expect("was placed so"), new);
            assert_eq!(policy.check(out.as_bytes(), &new), Ok(()));
        }
        other => panic!("nobody asked for {other:?}"),
    }
}

fuzz_target!(|input: Input<'_>| {
    match input.policy {
        Which::FullBlock => check(&FullBlock, &input),
        Which::ObjectLog { object_bytes, whole_at } => {
            let settings =
                Settings::new().object_bytes(object_bytes.into()).whole_at(whole_at.into());
            if let Ok(policy) = ObjectLog::with(settings) {
                check(&policy, &input);
            }
        }
        Which::CompressedDelta { moves } => {
            let settings = compressed_delta::Settings::new().moves(moves);
            check(&CompressedDelta::with(settings), &input);
        }
        Which::TwoLevel { few_units } => {
            check(&TwoLevel::with(two_level::Settings::new().few_units(few_units)), &input);
        }
        Which::Adaptive { for_wear } => {
            let wish = if for_wear { Wish::Wear } else { Wish::Speed };
            let settings = adaptive::Settings::new().wish(wish).medium(Medium::PCM);
            check(&Adaptive::with(settings), &input);
        }
        Which::ByteDelta { appends_in_slots } => {
            let appends = if appends_in_slots { Appends::Slots } else { Appends::Home };
            check(&ByteDelta::with(byte_delta::Settings::new().appends(appends)), &input);
        }
        Which::Lcow => check(&Lcow::new(), &input),
    }
});
