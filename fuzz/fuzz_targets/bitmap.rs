//! Bits and units, and runs, from one mask, under any bytes.
//!
//! 1. Any payload on any block gives a result: no panic, and nothing written beside the block.
//! 2. What was encoded makes the new image of the old one, and of any that has it already; it is no
//!    longer than it was said to be.
//! 3. Every way that this processor has to find the words that differ finds the same.

#![no_main]

use arbitrary::Arbitrary;
use journal_core::policy::Span;
use libfuzzer_sys::fuzz_target;
use pmem_sys::NativeKernels;
use policy_codec::bitmap::{self, Unit};
use policy_codec::{Changed, runs};

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    unit_power: u8,
    old: &'a [u8],
    again: u8,
    /// Where something is written, and what.
    writes: Vec<(u16, u8)>,
    /// What is said to be written beside that.
    marks: Vec<(u16, u8)>,
    payload: &'a [u8],
}

const GUARD_BYTES: usize = 64;
const GUARD: u8 = 0xA5;

/// Lets `apply` have a block between guards.
fn guarded<E>(block: &[u8], apply: impl FnOnce(&mut [u8]) -> Result<(), E>) -> Result<Vec<u8>, E> {
    let guard = [GUARD; GUARD_BYTES];
    let mut memory = [&guard, block, &guard].concat();
    let end = GUARD_BYTES + block.len();
    let result = apply(&mut memory[GUARD_BYTES..end]);
    assert!(memory[..GUARD_BYTES] == guard && memory[end..] == guard, "wrote beside the block");
    result.map(|()| memory[GUARD_BYTES..end].to_vec())
}

fuzz_target!(|input: Input<'_>| {
    let unit = Unit::new(8 << (input.unit_power % 13)).expect("a power of two");
    let old = input.old.repeat(usize::from(input.again % 20) + 1);
    let _ = guarded(&old, |block| bitmap::apply(input.payload, unit, block));
    let _ = guarded(&old, |block| runs::apply(input.payload, block));

    let mut new = old.clone();
    for (at, byte) in &input.writes {
        if let Some(at) = usize::from(*at).checked_rem(new.len()) {
            new[at] = *byte;
        }
    }
    let mut found = NativeKernels::supported()
        .map(|kernels| Changed::between(&kernels, &old, &new).expect("blocks of one length"));
    let mut changed = found.next().expect("portable code at least");
    let spans: Vec<_> = changed.runs().collect();
    found.for_each(|other| assert!(other.runs().eq(spans.iter().copied())));
    for (at, len) in &input.marks {
        changed.mark(Span { at: (*at).into(), len: (*len).into() });
    }
    for shown in [None, Some(&old[..])] {
        let mut payload = vec![0; runs::bound(&changed)];
        let len = runs::encode(&changed, shown, &new, &mut payload).expect("the bound");
        let applied = guarded(&old, |block| runs::apply(&payload[..len], block));
        assert_eq!(applied.as_ref(), Ok(&new));
        let again = guarded(&new, |block| runs::apply(&payload[..len], block));
        assert_eq!(again.as_ref(), Ok(&new));
    }
    let mut payload = vec![0; bitmap::bound(&changed, unit)];
    let len = bitmap::encode(&changed, unit, &new, &mut payload).expect("the bound");
    assert!(bitmap::encode(&changed, unit, &new, &mut payload[..len]).is_ok());
    let applied = guarded(&old, |block| bitmap::apply(&payload[..len], unit, block));
    assert_eq!(applied.as_ref(), Ok(&new));
    let again = guarded(&new, |block| bitmap::apply(&payload[..len], unit, block));
    assert_eq!(again.as_ref(), Ok(&new));
});
