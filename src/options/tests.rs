//! What settings make of a span, and which are not possible.

use journal_core::BlockNumber;
use journal_core::parts::share_of;
use lcow::Lcow;

use super::*;

fn plan(options: &Options, span_bytes: u64) -> Result<Plan, OptionsError> {
    options.plan(span_bytes, BlockSize::DEFAULT)
}

#[test]
fn defaults_fit_any_span_that_holds_a_block() {
    let lanes = |span| plan(&Options::new(), span).map(|plan| plan.geometry.lanes);
    assert_eq!(lanes(64 << 20), Ok(4));
    assert_eq!(lanes(1 << 20), Ok(3));
    assert_eq!(lanes(128 << 10), Ok(1));
    let small = plan(&Options::new().shield_blocks(0), 3 * 4096 + 128).expect("just fits");
    assert_eq!((small.geometry.lanes, small.geometry.lane_bytes), (1, 4096 + 128));
    assert_eq!(small.nvm_bytes, 3 * 4096 + 128);
    let refused = plan(&Options::new().shield_blocks(0), 3 * 4096 + 127);
    assert!(matches!(refused, Err(OptionsError::Geometry(_))));
    let baseline = Options::new().shield_blocks(0).protocol(Protocol::TailPointer);
    assert_eq!(plan(&baseline, 3 * 4096 + 192).map(|plan| plan.nvm_bytes), Ok(3 * 4096 + 192));
    assert!(matches!(plan(&baseline, 3 * 4096 + 191), Err(OptionsError::Geometry(_))));
}

#[test]
fn what_cannot_be_is_refused_and_says_why() {
    let says = |options: Options| {
        let error = plan(&options, 1 << 20).expect_err("cannot be");
        error.to_string()
    };
    assert!(says(Options::new().lanes(0)).contains('0'));
    assert!(says(Options::new().lanes(33)).contains("33"));
    assert!(says(Options::new().lane_bytes(100)).contains("100"));
    assert!(says(Options::new().lane_bytes(1 << 30)).contains("1048576"));
    assert!(says(Options::new().unit_bytes(100)).contains("100"));
    assert!(says(Options::new().shield_blocks(5000)).contains("5000"));
    assert!(says(Options::new().lanes(1).lane_slots(300)).contains("lanes of 0"));
    assert!(says(Options::new().slot_fraction(255)).contains("lanes of"));
    assert!(says(Options::new().lane_bytes(64 << 10).lane_slots(u32::MAX)).contains("slots"));
    assert!(says(Options::new().batch_blocks(0)).contains("batch_blocks"));
    assert!(says(Options::new().index_frames(0)).contains("index_frames"));
}

#[test]
fn slots_take_three_quarters_where_the_policy_uses_them() {
    let plan = |options: Options<Lcow>, span| options.plan(span, BlockSize::DEFAULT);
    let lcow = || Options::new().policy(Lcow::new()).shield_blocks(0);
    let geometry = plan(lcow(), 64 << 20).expect("can be").geometry;
    let (slots, rings) = (geometry.slots() * 4128, geometry.lane_bytes * 4);
    assert!((slots * 4).abs_diff((64 << 20) * 3) < 1 << 18, "{slots}");
    assert!((slots + rings).abs_diff(64 << 20) < 1 << 14, "{rings}");
    // Nothing is left over, and nothing is too much, whatever the span.
    for span in [13 << 10, 17 << 10, 100_000, 1 << 20, (1 << 20) + 4159, 1 << 30] {
        let plan = plan(lcow(), span).expect("can be");
        let unused = span - plan.nvm_bytes;
        assert!(unused < 64 * 4 + 64, "{unused} of {span}: {plan:?}");
        assert_eq!(plan.geometry.lane_slots == 0, span < 17 << 10);
    }
    let fixed = plan(lcow().lanes(2).lane_bytes(64 << 10), 1 << 20).expect("can be").geometry;
    assert_eq!((fixed.lane_bytes, fixed.lane_slots), (64 << 10, 94));
    let some = plan(lcow().lanes(2).lane_slots(5), 1 << 20).expect("can be").geometry;
    assert_eq!(some.lane_slots, 5);
    assert!(some.lane_bytes > 480 << 10);
    let none = plan(lcow().slot_fraction(0), 1 << 20).expect("can be").geometry;
    assert_eq!(none.lane_slots, 0);
    let of_whole = Options::new().slot_fraction(128).plan(1 << 20, BlockSize::DEFAULT);
    assert!(
        of_whole.expect("can be").geometry.lane_slots > 0,
        "slots that are asked for are there"
    );
}

/// Whole blocks in runs that are anywhere: no share is full before a lane nearly is.
#[test]
fn shares_have_room_for_runs_that_fall_badly() {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    for span in [1 << 20, 8 << 20, 64 << 20] {
        let plan = plan(&Options::new().lanes(1), span).expect("can be");
        let blocks = plan.geometry.lane_bytes / plan.geometry.record_bytes_one_block();
        for turn in 0..60 {
            let mut held = vec![0; plan.shares];
            for _ in 0..blocks / RUN_BLOCKS * 15 / 16 {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                let run = BlockNumber((state >> 36) * RUN_BLOCKS);
                held[share_of(run, plan.shares)] += RUN_BLOCKS as usize;
            }
            let most = held.into_iter().max().unwrap_or(0);
            assert!(most <= plan.share_frames, "{span}, {turn}: {most} in a share, {plan:?}");
        }
    }
}

#[test]
fn shares_of_a_cache_have_room_for_runs() {
    let shares = |blocks: usize| {
        let options = Options::new().cache_bytes(blocks * BlockSize::DEFAULT.bytes());
        plan(&options, 64 << 20).expect("can be").shares
    };
    assert_eq!(shares(0), SHARES_MAX, "of what is not there none is too small");
    assert_eq!([1, 63, 64, 127, 1024, 1 << 16].map(shares), [1, 1, 2, 2, 32, SHARES_MAX]);
}

#[test]
fn worst_cases_count_the_table_of_the_cache() {
    let dram = |blocks: usize| {
        let options = Options::new().index_frames(1 << 12);
        let options = options.cache_bytes(blocks * BlockSize::DEFAULT.bytes());
        plan(&options, 64 << 20).expect("can be").dram_bytes
    };
    assert_eq!(dram(1 << 16) - dram(1 << 12), ((1 << 16) - (1 << 12)) * 2 * LINE_BYTES);
}

#[test]
fn worst_cases_count_slots() {
    let with = |slots| {
        let options = Options::new().lanes(1).lane_bytes(64 << 10).lane_slots(slots);
        plan(&options, 16 << 20).expect("can be")
    };
    let (none, some) = (with(0), with(1000));
    assert_eq!(some.nvm_bytes - none.nvm_bytes, 1000 * 4128);
    let reads = some.recovery_reads_bytes - none.recovery_reads_bytes;
    assert_eq!(reads, 1000 * (4096 + 4 * 32));
    assert!(some.dram_bytes - none.dram_bytes >= 2000 * size_of::<Node>());
}
